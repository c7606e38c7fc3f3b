/* trace.c — a trace of steps in the JSON that Perfetto and Chrome read. */
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/need.h"
#include "base/text.h"
#include "runtime/session.h"

static long thread_number(void) {
#ifdef SYS_gettid
  return (long)syscall(SYS_gettid);
#else
  return 0;
#endif
}

void trace_step(trace *t, const step *s, int64_t begin_ns, int64_t end_ns) {
  text line = {0};
  text_add(&line, "{\"ph\":\"X\",\"name\":");
  text_json_string(&line, s->from->node->op_name);
  text_printf(&line, ",\"pid\":%ld,\"tid\":%ld,\"ts\":%.3f,\"dur\":%.3f,\"args\":{\"node\":", (long)getpid(),
              thread_number(), (double)begin_ns / 1000, (double)(end_ns - begin_ns) / 1000);
  text_json_string(&line, s->from->node->name);
  text_printf(&line, ",\"tier\":\"%s\",\"kernel\":", rlx_tier_name(s->chosen->tier));
  text_json_string(&line, candidate_name(s->chosen));
  text_add(&line, "}}");
  pthread_mutex_lock(&t->lock);
  if (!line.failed && t->file) {
    fprintf(t->file, "%s%s", t->first ? "\n" : ",\n", line.data);
    t->first = false;
  }
  pthread_mutex_unlock(&t->lock);
  text_finish(&line);
}

/* Under the lock. */
static bool close_file(trace *t) {
  if (!t->file) return true;
  __atomic_store_n(&t->on, 0, __ATOMIC_RELAXED);
  fprintf(t->file, "\n]}\n");
  bool good = ferror(t->file) == 0;
  good &= fclose(t->file) == 0;
  t->file = NULL;
  return good;
}

rlx_status trace_close(trace *t) {
  pthread_mutex_lock(&t->lock);
  bool good = close_file(t);
  pthread_mutex_unlock(&t->lock);
  return good ? RLX_OK : RLX_FAIL(IO, "trace: not all of it could be written");
}

/* Runs may be under way: their steps find the old file or the new one. */
rlx_status rlx_trace(rlx_session *s, const char *path) {
  RLX_NEED(s);
  trace *t = &s->trace;
  RLX_TRY(trace_close(t));
  if (!path) return RLX_OK;
  FILE *file = fopen(path, "w");
  if (!file) return RLX_FAIL(IO, "trace: cannot write '%s'", path);
  fprintf(file, "{\"traceEvents\":[");
  pthread_mutex_lock(&t->lock);
  bool good = close_file(t); /* of a call that came between */
  t->file = file;
  t->first = true;
  __atomic_store_n(&t->on, 1, __ATOMIC_RELAXED);
  pthread_mutex_unlock(&t->lock);
  return good ? RLX_OK : RLX_FAIL(IO, "trace: not all of it could be written");
}
