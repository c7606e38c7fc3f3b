/* tally.h — which op ran how often on which kernel, over the runs of a session. */
#ifndef PLAN_TALLY_H
#define PLAN_TALLY_H

#include "plan/program.h"

enum { TALLY_MAX = 512 }; /* what comes after that many different rows counts for the last */

/* A row names what is counted; everything is borrowed from the session's builds. */
typedef struct tally_row {
  const char *op, *kernel, *owner;
  rlx_tier tier;
} tally_row;

/* Of a session; under its lock. Counts are kept by the run states, by row. */
typedef struct tally {
  tally_row rows[TALLY_MAX];
  int count;
} tally;

/* Gives a stage its list of rows and how many of its steps count for each. */
rlx_status tally_stage(tally *t, stage *s);

#endif
