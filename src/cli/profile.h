// profile.h — time by op, from a trace of a few runs.
#ifndef CLI_PROFILE_H
#define CLI_PROFILE_H

#include "cli/cli.h"

typedef struct profile_row {
  char *op;
  int64_t steps; // in all runs
  double us;
} profile_row;

typedef struct profile {
  profile_row *rows; // longest first
  int count;
  int runs;
  double total_us;
} profile;

int profile_runs(rlx_session *s, rlx_binding *b, profile *out);
void profile_release(profile *p);

#endif
