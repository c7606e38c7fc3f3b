// workers.c — runs numbered tasks in child processes. Children take the next number from shared memory and send results
// through a pipe each; the pipe's end tells that a child is gone.
#include "cli/workers.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MAX_JOBS = 256, NO_TASK = -1 };

// Shared by parent and children.
typedef struct board {
  atomic_int next;
  struct slot {
    atomic_int task; // being run by this worker, or NO_TASK
    _Atomic double start_ms;
  } slots[MAX_JOBS];
} board;

typedef struct child {
  pid_t pid; // 0: not running
  int pipe;
  bool timed_out;
} child;

typedef struct result_head {
  int32_t task;
  int32_t passed;
  int32_t length; // of the message that follows
  int32_t padding;
  double ms;
} result_head;

typedef struct pool {
  const workers *w;
  worker_task *tasks;
  bool *finished;
  int announced; // tasks given to done()
  board *board;
  child children[MAX_JOBS];
} pool;

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

static bool read_all(int fd, void *data, size_t size) {
  char *to = data;
  while (size > 0) {
    ssize_t n = read(fd, to, size);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    to += n;
    size -= (size_t)n;
  }
  return true;
}

static void work(const pool *p, int worker, int fd) {
  for (;;) {
    int task = atomic_fetch_add(&p->board->next, 1);
    if (task >= p->w->task_count) break;
    double start = cli_now_ms();
    atomic_store(&p->board->slots[worker].start_ms, start);
    atomic_store(&p->board->slots[worker].task, task);
    bool passed = p->w->run(p->w->user, task) == CLI_OK;
    const char *message = passed ? "" : cli_message();
    result_head head = {task, passed, (int32_t)strlen(message), 0, cli_now_ms() - start};
    if (!write_all(fd, &head, sizeof head) || !write_all(fd, message, (size_t)head.length)) break;
    atomic_store(&p->board->slots[worker].task, NO_TASK);
  }
}

static int start_child(pool *p, int worker) {
  int ends[2];
  if (pipe(ends) != 0) return cli_fail("a pipe: %s", strerror(errno));
  atomic_store(&p->board->slots[worker].task, NO_TASK);
  cli_progress(NULL);
  fflush(NULL);
  pid_t pid = fork();
  if (pid < 0) return cli_fail("a child process: %s", strerror(errno));
  if (pid == 0) {
    close(ends[0]);
    work(p, worker, ends[1]);
    close(ends[1]);
    exit(0); // not _exit: leaks are looked for in sanitized builds
  }
  close(ends[1]);
  p->children[worker] = (child){pid, ends[0], false};
  return CLI_OK;
}

static void finish_task(pool *p, int task, bool passed, char *message, double ms) {
  if (p->finished[task]) {
    free(message);
    return;
  }
  p->finished[task] = true;
  p->tasks[task] = (worker_task){passed, message, ms};
  for (; p->announced < p->w->task_count && p->finished[p->announced]; p->announced++)
    p->w->done(p->w->user, p->announced, &p->tasks[p->announced]);
}

static char *death_text(const child *c, int state, double timeout_s) {
  if (c->timed_out) return cli_format("still running after %g s", timeout_s);
  if (WIFSIGNALED(state)) return cli_format("crashed with signal %d (%s)", WTERMSIG(state), strsignal(WTERMSIG(state)));
  return cli_format("the process ended with exit code %d", WIFEXITED(state) ? WEXITSTATUS(state) : -1);
}

// The child's pipe has ended: it is done, or died in a task, which then has failed.
static int bury(pool *p, int worker) {
  child *c = &p->children[worker];
  int state = 0;
  close(c->pipe);
  while (waitpid(c->pid, &state, 0) < 0 && errno == EINTR) continue;
  c->pid = 0;
  int task = atomic_load(&p->board->slots[worker].task);
  bool clean = WIFEXITED(state) && WEXITSTATUS(state) == 0;
  if (task != NO_TASK) {
    double ms = cli_now_ms() - atomic_load(&p->board->slots[worker].start_ms);
    finish_task(p, task, false, death_text(c, state, p->w->timeout_s), ms);
  } else if (!clean) {
    char *text = death_text(c, state, p->w->timeout_s);
    int code = cli_fail("after its last case, a test process failed: %s", text);
    free(text);
    return code;
  }
  if (!clean && atomic_load(&p->board->next) < p->w->task_count) return start_child(p, worker);
  return CLI_OK;
}

static int receive(pool *p, int worker) {
  result_head head;
  if (!read_all(p->children[worker].pipe, &head, sizeof head)) return bury(p, worker);
  if (head.task < 0 || head.task >= p->w->task_count || head.length < 0 || head.length > 1 << 20)
    return cli_fail("a test process sent nonsense");
  char *message = cli_alloc((size_t)head.length + 1, 1);
  if (!read_all(p->children[worker].pipe, message, (size_t)head.length)) {
    free(message);
    return bury(p, worker);
  }
  finish_task(p, head.task, head.passed != 0, message, head.ms);
  return CLI_OK;
}

static void kill_late(pool *p) {
  for (int i = 0; i < p->w->jobs; i++) {
    child *c = &p->children[i];
    if (!c->pid || atomic_load(&p->board->slots[i].task) == NO_TASK) continue;
    if (cli_now_ms() - atomic_load(&p->board->slots[i].start_ms) < p->w->timeout_s * 1e3) continue;
    c->timed_out = true;
    kill(c->pid, SIGKILL);
  }
}

static int serve(pool *p) {
  for (;;) {
    struct pollfd fds[MAX_JOBS];
    int owners[MAX_JOBS], count = 0;
    for (int i = 0; i < p->w->jobs; i++) {
      if (!p->children[i].pid) continue;
      owners[count] = i;
      fds[count++] = (struct pollfd){p->children[i].pipe, POLLIN, 0};
    }
    if (count == 0) return CLI_OK;
    if (poll(fds, (nfds_t)count, 500) < 0 && errno != EINTR) return cli_fail("poll: %s", strerror(errno));
    for (int i = 0; i < count; i++)
      if (fds[i].revents) CLI_TRY(receive(p, owners[i]));
    if (p->w->timeout_s > 0) kill_late(p);
  }
}

int workers_run(const workers *w, worker_task *tasks) {
  pool p = {.w = w, .tasks = tasks};
  if (w->jobs > MAX_JOBS) return cli_fail("at most %d jobs", MAX_JOBS);
  p.board = mmap(NULL, sizeof *p.board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (p.board == MAP_FAILED) return cli_fail("shared memory: %s", strerror(errno));
  p.finished = cli_alloc((size_t)w->task_count, sizeof *p.finished);
  int code = CLI_OK;
  for (int i = 0; i < w->jobs && code == CLI_OK; i++) code = start_child(&p, i);
  if (code == CLI_OK) code = serve(&p);
  for (int i = 0; i < w->jobs; i++) {
    if (!p.children[i].pid) continue;
    kill(p.children[i].pid, SIGKILL);
    waitpid(p.children[i].pid, NULL, 0);
    close(p.children[i].pipe);
  }
  free(p.finished);
  munmap(p.board, sizeof *p.board);
  return code;
}
