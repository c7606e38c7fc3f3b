/* collect.h — gathers what checks say: one line for each outcome of a check on a way to run. */
#ifndef CHECK_COLLECT_H
#define CHECK_COLLECT_H

#include "base/vector.h"
#include "check/check.h"

typedef struct collected_line {
  int outcome, count;
  char *check, *subject, *sample, *text, *graph; /* owned; of the first */
  double ulp, relative;                          /* largest */
} collected_line;

/* Owned: collector_finish. */
typedef struct collector {
  VECTOR(collected_line) lines;
  bool failed; /* memory was short */
} collector;

void collector_add(void *collector, const check_message *m);
rlx_status collector_result(const collector *c, const op_entry *op, int samples, rlx_check_result **out);
void collector_finish(collector *c);

#endif
