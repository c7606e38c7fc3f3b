// timing.c — repeated runs and their times.
#include "cli/timing.h"

#include <stdio.h>
#include <stdlib.h>

typedef struct watch {
  double shown_ms;
  int64_t run, runs;
} watch;

// Long runs say how far they are.
static void show_progress(void *user, int64_t done, int64_t total) {
  watch *w = user;
  char line[96];
  double now = cli_now_ms();
  if (now - w->shown_ms < 500.0) return;
  w->shown_ms = now;
  snprintf(line, sizeof line, "run %lld of %lld: step %lld of %lld", (long long)w->run, (long long)w->runs,
           (long long)done, (long long)total);
  cli_progress(line);
}

static int by_size(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

int cli_time_runs(rlx_binding *b, int64_t repeat, cli_times *out) {
  rlx_run_options options = RLX_RUN_OPTIONS_INIT;
  watch w = {cli_now_ms(), 1, repeat + 1};
  options.progress = show_progress;
  options.progress_user = &w;
  double start = cli_now_ms();
  CLI_CALL(rlx_run(b, &options));
  *out = (cli_times){.first_ms = cli_now_ms() - start, .count = 1 + (int)repeat};
  out->min_ms = out->median_ms = out->first_ms;
  if (repeat == 0) return CLI_OK;

  double *times = cli_alloc((size_t)repeat, sizeof *times);
  int code = CLI_OK;
  if (out->first_ms < 500.0) options.progress = NULL; // a call a step costs time
  for (int64_t i = 0; i < repeat && code == CLI_OK; i++) {
    w.run = i + 2;
    start = cli_now_ms();
    if (rlx_run(b, &options) != RLX_OK) code = cli_library_failure();
    times[i] = cli_now_ms() - start;
  }
  cli_progress(NULL);
  qsort(times, (size_t)repeat, sizeof *times, by_size);
  out->min_ms = times[0];
  out->median_ms = repeat % 2 ? times[repeat / 2] : (times[repeat / 2 - 1] + times[repeat / 2]) / 2;
  free(times);
  return code;
}
