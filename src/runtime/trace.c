/* trace.c — a trace of steps in the JSON that Perfetto and Chrome read. */
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/need.h"
#include "base/text.h"
#include "runtime/session.h"

/* An open trace file; lines are written under the lock. */
struct trace {
  pthread_mutex_t lock;
  FILE *file;
  bool first;
};

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
  if (!line.failed) fprintf(t->file, "%s%s", t->first ? "\n" : ",\n", line.data);
  t->first = false;
  pthread_mutex_unlock(&t->lock);
  text_finish(&line);
}

rlx_status trace_close(trace *t) {
  if (!t) return RLX_OK;
  fprintf(t->file, "\n]}\n");
  bool bad = ferror(t->file) != 0;
  bad |= fclose(t->file) != 0;
  pthread_mutex_destroy(&t->lock);
  mem_free(t);
  return bad ? RLX_FAIL(IO, "trace: not all of it could be written") : RLX_OK;
}

rlx_status rlx_trace(rlx_session *s, const char *path) {
  RLX_NEED(s);
  rlx_status closed = trace_close(s->trace);
  s->trace = NULL;
  if (!path || closed != RLX_OK) return closed;
  trace *t = mem_zalloc(sizeof *t);
  if (!t) return status_no_memory(sizeof *t);
  t->file = fopen(path, "w");
  if (!t->file) {
    mem_free(t);
    return RLX_FAIL(IO, "trace: cannot write '%s'", path);
  }
  pthread_mutex_init(&t->lock, NULL);
  t->first = true;
  fprintf(t->file, "{\"traceEvents\":[");
  s->trace = t;
  return RLX_OK;
}
