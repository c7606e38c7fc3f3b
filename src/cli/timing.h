// timing.h — repeated runs and their times.
#ifndef CLI_TIMING_H
#define CLI_TIMING_H

#include "cli/cli.h"

typedef struct cli_times {
  double first_ms;          // of the first run, which binds and packs
  double min_ms, median_ms; // of the others; of the first if there is only one
  int count;                // runs in all
} cli_times;

// Runs `repeat` times after the first (0: only the first).
int cli_time_runs(rlx_binding *b, int64_t repeat, cli_times *out);

#endif
