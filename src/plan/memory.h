/* memory.h — offsets in run memory: simulated allocation in the order of steps. */
#ifndef PLAN_MEMORY_H
#define PLAN_MEMORY_H

#include "base/vector.h"

#include <stdint.h>

enum { PLAN_ALIGN = 256 };

typedef struct hole {
  int64_t offset, bytes;
} hole;

/* Best fit over a list of holes sorted by offset; grows at the end. Zero-initialised is empty. */
typedef struct planner {
  VECTOR(hole) holes;
  int64_t end; /* bytes needed so far */
} planner;

/* -1 when memory is short or the size overflows. */
int64_t planner_take(planner *p, int64_t bytes);
bool planner_give(planner *p, int64_t offset, int64_t bytes);
void planner_finish(planner *p);

#endif
