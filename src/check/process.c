/* process.c — rlx_check_op: the checks run in a child process; one that dies or hangs is a line of the result, and
 * another child goes on after it. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "check/collect.h"
#include "ir/registry.h"

enum { FATAL_MAX = 12, DEATH = 160, DEFAULT_TIMEOUT_MS = 20000, TEXTS = 5 };

/* What goes through the pipe: this, then the texts. */
typedef struct wire_head {
  int32_t outcome;
  uint32_t sizes[TEXTS]; /* with the NUL */
  double ulp, relative;
} wire_head;

/* ---- the child ---------------------------------------------------------------------------- */

static bool write_all(int fd, const void *data, size_t size) {
  const char *from = data;
  while (size > 0) {
    ssize_t n = write(fd, from, size);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    from += n;
    size -= (size_t)n;
  }
  return true;
}

static void send_message(void *user, const check_message *m) {
  const char *texts[TEXTS] = {m->check, m->subject, m->sample, m->text, m->graph};
  wire_head head = {.outcome = m->outcome, .ulp = m->ulp, .relative = m->relative};
  int fd = *(int *)user;
  for (int i = 0; i < TEXTS; i++) head.sizes[i] = (uint32_t)strlen(texts[i]) + 1;
  bool ok = write_all(fd, &head, sizeof head);
  for (int i = 0; i < TEXTS && ok; i++) ok = write_all(fd, texts[i], head.sizes[i]);
  if (!ok) _exit(3); /* the parent is gone */
}

typedef struct job {
  checker *c;
  const char *sample;
  rlx_status status;
} job;

static void *work(void *arg) {
  job *j = arg;
  j->status = check_all(j->c, j->sample);
  return NULL;
}

/* On a thread of its own: what OpenMP keeps for the thread that forked speaks of threads that are not here. */
_Noreturn static void be_child(checker *c, const char *sample, int fd) {
  job j = {c, sample, RLX_INTERNAL};
  pthread_t thread;
  struct rlimit no_core = {0, 0};
  (void)setrlimit(RLIMIT_CORE, &no_core);
  static const int deadly[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT}; /* the program's handlers are not for these */
  for (size_t i = 0; i < sizeof deadly / sizeof *deadly; i++) (void)signal(deadly[i], SIG_DFL);
  c->sink = send_message;
  c->user = &fd;
  if (pthread_create(&thread, NULL, work, &j) == 0) pthread_join(thread, NULL);
  _exit(j.status == RLX_OK ? 0 : 2);
}

/* ---- the parent --------------------------------------------------------------------------- */

typedef struct watch {
  int fd;
  int64_t deadline_ns, timeout_ms;
  int ordinal; /* of what runs now */
  char check[64], subject[256], sample[1024];
  collector *into;
} watch;

/* false: the pipe has ended, or time is up (errno ETIME). */
static bool read_all(watch *w, void *data, size_t size) {
  char *to = data;
  while (size > 0) {
    int64_t left = (w->deadline_ns - clock_ns()) / 1000000;
    struct pollfd p = {w->fd, POLLIN, 0};
    int ready = poll(&p, 1, left > 0 ? (int)left : 0);
    if (ready < 0 && errno == EINTR) continue;
    if (ready == 0) {
      errno = ETIME;
      return false;
    }
    ssize_t n = ready > 0 ? read(w->fd, to, size) : -1;
    if (n < 0 && errno == EINTR) continue;
    errno = 0;
    if (n <= 0) return false;
    to += n;
    size -= (size_t)n;
  }
  return true;
}

static bool take_message(watch *w) {
  wire_head head;
  char *texts[TEXTS] = {NULL};
  if (!read_all(w, &head, sizeof head)) return false;
  bool ok = true;
  for (int i = 0; i < TEXTS && ok; i++) {
    texts[i] = head.sizes[i] && head.sizes[i] < 1u << 26 ? mem_alloc(head.sizes[i]) : NULL;
    ok = texts[i] && read_all(w, texts[i], head.sizes[i]);
    if (ok) texts[i][head.sizes[i] - 1] = 0;
  }
  if (ok && head.outcome == CHECK_BEGIN) {
    w->ordinal = (int)head.ulp;
    w->deadline_ns = clock_ns() + w->timeout_ms * 1000000;
    snprintf(w->check, sizeof w->check, "%s", texts[0]);
    snprintf(w->subject, sizeof w->subject, "%s", texts[1]);
    snprintf(w->sample, sizeof w->sample, "%s", texts[2]);
  } else if (ok) {
    check_message m = {head.outcome, texts[0], texts[1], texts[2], texts[3], texts[4], head.ulp, head.relative};
    collector_add(w->into, &m);
  }
  for (int i = 0; i < TEXTS; i++) mem_free(texts[i]);
  return ok;
}

static void describe_death(const watch *w, bool late, int state, char *words, size_t size) {
  if (late)
    snprintf(words, size, "still running after %lld ms", (long long)w->timeout_ms);
  else if (WIFSIGNALED(state))
    snprintf(words, size, "crashed with signal %d (%s)", WTERMSIG(state), strsignal(WTERMSIG(state)));
  else
    snprintf(words, size, "ended the process with exit code %d", WEXITSTATUS(state));
}

/* Runs one child to its end; *done: it finished. Else w->ordinal and `death` say what it died of. */
static rlx_status run_child(checker *c, const char *sample, watch *w, bool *done, char death[DEATH]) {
  int fds[2], state = 0;
  if (pipe(fds) != 0) return RLX_FAIL(IO, "check: no pipe: %s", strerror(errno));
  pid_t child = fork();
  if (child < 0) {
    close(fds[0]);
    close(fds[1]);
    return RLX_FAIL(IO, "check: no child process: %s", strerror(errno));
  }
  if (child == 0) {
    close(fds[0]);
    be_child(c, sample, fds[1]);
  }
  close(fds[1]);
  w->fd = fds[0];
  w->ordinal = -1;
  w->deadline_ns = clock_ns() + w->timeout_ms * 1000000;
  snprintf(w->check, sizeof w->check, "reference");
  while (take_message(w)) continue;
  bool late = errno == ETIME;
  if (late) kill(child, SIGKILL);
  close(fds[0]);
  while (waitpid(child, &state, 0) < 0 && errno == EINTR) continue;
  *done = !late && WIFEXITED(state) && WEXITSTATUS(state) == 0;
  if (!*done) describe_death(w, late, state, death, DEATH);
  return RLX_OK;
}

/* A death that no other child will tell of. */
static void report_death(const watch *w, const char *death, collector *into) {
  check_message m = {RLX_CHECK_FAILED, w->check, w->subject, w->sample, death, "", 0, 0};
  collector_add(into, &m);
}

static rlx_status check_apart(checker *c, const char *sample, int64_t timeout_ms, collector *into) {
  int fatal[FATAL_MAX];
  char death[DEATH] = "";
  watch w = {.timeout_ms = timeout_ms > 0 ? timeout_ms : DEFAULT_TIMEOUT_MS, .into = into};
  c->fatal = fatal;
  while (c->fatal_count < FATAL_MAX) {
    bool done = false;
    RLX_TRY(run_child(c, sample, &w, &done, death));
    if (done) return RLX_OK;
    if (w.ordinal < c->resume) break; /* it died of nothing new */
    fatal[c->fatal_count++] = w.ordinal;
    c->resume = w.ordinal + 1;
    c->death = death;
  }
  report_death(&w, death, into);
  check_message m = {RLX_CHECK_SKIPPED, "tier", "", "", "too many crashes: the rest was not tested", "", 0, 0};
  collector_add(into, &m);
  return RLX_OK;
}

static rlx_status read_options(const rlx_check_options *given, rlx_check_options *o) {
  *o = (rlx_check_options)RLX_CHECK_OPTIONS_INIT;
  if (!given) return RLX_OK;
  if (given->struct_size < sizeof(uint32_t) || given->struct_size > 4096)
    return RLX_FAIL(INVALID, "check options: struct_size is not set");
  memcpy(o, given, given->struct_size < sizeof *o ? given->struct_size : sizeof *o);
  return RLX_OK;
}

rlx_status rlx_check_op(const char *op, const rlx_check_options *given, rlx_check_result **out) {
  rlx_check_options o;
  int index, samples = 0;
  collector into = {0};
  if (!op) return RLX_FAIL(INVALID, "check: no op");
  RLX_TRY(read_options(given, &o));
  checker c = {.registry = o.registry, .device = o.device, .seed = o.seed, .flags = o.flags};
  RLX_TRY(backend_find(o.device, &c.backend, &index));
  op_entry *e = registry_find_op(o.registry, op, o.version);
  if (e && o.version && e->op.version != o.version) {
    op_entry_release(e);
    e = NULL;
  }
  if (!e) return RLX_FAIL(NOT_FOUND, o.version ? "no op '%s' of version %d" : "no op '%s'", op, o.version);
  c.op = e;
  while (e->op.samples[samples]) samples++;
  rlx_status status;
  if (o.flags & RLX_CHECK_IN_PROCESS) {
    c.sink = collector_add;
    c.user = &into;
    status = check_all(&c, o.sample);
  } else {
    status = check_apart(&c, o.sample, o.timeout_ms, &into);
  }
  if (status == RLX_OK) status = collector_result(&into, e, samples, out);
  collector_finish(&into);
  op_entry_release(e);
  return status;
}
