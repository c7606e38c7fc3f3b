// profile.c — time by op: traces a few runs into a temporary file and adds up the steps' events.
#include "cli/profile.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PROFILED_RUNS = 3 };

static void add_event(profile *p, const char *op, double us) {
  p->total_us += us;
  for (int i = 0; i < p->count; i++) {
    if (strcmp(p->rows[i].op, op) != 0) continue;
    p->rows[i].steps++;
    p->rows[i].us += us;
    return;
  }
  p->rows = cli_grow(p->rows, p->count, sizeof *p->rows);
  p->rows[p->count++] = (profile_row){cli_strdup(op), 1, us};
}

static int by_time(const void *a, const void *b) {
  const profile_row *x = a, *y = b;
  return (x->us < y->us) - (x->us > y->us);
}

typedef struct span {
  double begin_us, us;
} span;

// Events come in the order in which they end. Time of the steps inside one (of a subgraph) is theirs, not its own.
static double own_time(const cJSON *event, span *open, int *count) {
  const cJSON *begin = cJSON_GetObjectItem(event, "ts"), *us = cJSON_GetObjectItem(event, "dur");
  if (!cJSON_IsNumber(begin) || !cJSON_IsNumber(us)) return 0.0;
  double own = us->valuedouble;
  while (*count > 0 && open[*count - 1].begin_us >= begin->valuedouble) own -= open[--*count].us;
  open[(*count)++] = (span){begin->valuedouble, us->valuedouble};
  return own > 0.0 ? own : 0.0;
}

static int add_events(profile *p, const char *text) {
  cJSON *trace = cJSON_Parse(text), *event;
  cJSON *list = cJSON_GetObjectItem(trace, "traceEvents");
  if (!list) {
    cJSON_Delete(trace);
    return cli_fail("the trace is no JSON");
  }
  span *open = cli_alloc((size_t)cJSON_GetArraySize(list), sizeof *open);
  int count = 0;
  cJSON_ArrayForEach(event, list) {
    const cJSON *op = cJSON_GetObjectItem(event, "name");
    if (cJSON_IsString(op)) add_event(p, op->valuestring, own_time(event, open, &count));
  }
  free(open);
  cJSON_Delete(trace);
  if (p->count) qsort(p->rows, (size_t)p->count, sizeof *p->rows, by_time);
  return CLI_OK;
}

static int read_events(profile *p, const char *path) {
  struct stat s;
  FILE *file = fopen(path, "r");
  if (!file || fstat(fileno(file), &s) != 0) {
    if (file) fclose(file);
    return cli_fail("%s: %s", path, strerror(errno));
  }
  char *text = cli_alloc((size_t)s.st_size + 1, 1);
  size_t size = fread(text, 1, (size_t)s.st_size, file);
  fclose(file);
  int code = size == (size_t)s.st_size ? add_events(p, text) : cli_fail("the trace cannot be read");
  free(text);
  return code;
}

static int trace_runs(rlx_session *s, rlx_binding *b, const char *path, int runs) {
  int code = CLI_OK;
  CLI_CALL(rlx_trace(s, path));
  for (int i = 0; i < runs && code == CLI_OK; i++)
    if (rlx_run(b, NULL) != RLX_OK) code = cli_library_failure();
  if (rlx_trace(s, NULL) != RLX_OK && code == CLI_OK) code = cli_library_failure();
  return code;
}

int profile_runs(rlx_session *s, rlx_binding *b, profile *out) {
  char *path = cli_strdup(P_tmpdir "/rlx-trace-XXXXXX");
  int fd = mkstemp(path);
  int code = fd < 0 ? cli_fail("%s: %s", path, strerror(errno)) : CLI_OK;
  out->runs = PROFILED_RUNS;
  if (code == CLI_OK) code = trace_runs(s, b, path, out->runs);
  if (code == CLI_OK) code = read_events(out, path);
  if (fd >= 0) {
    unlink(path);
    close(fd);
  }
  free(path);
  return code;
}

void profile_release(profile *p) {
  for (int i = 0; i < p->count; i++) free(p->rows[i].op);
  free(p->rows);
}
