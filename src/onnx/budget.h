/* budget.h — how many bytes a loader may allocate, counted before they are. */
#ifndef ONNX_BUDGET_H
#define ONNX_BUDGET_H

#include "base/status.h"

typedef struct budget {
  int64_t limit; /* bytes */
  bool stated;   /* by the caller; else it comes from the machine's memory */
  int64_t used;
} budget;

/* limit 0: three quarters of the machine's memory, for a small file may ask for more (a sparse tensor's dims). */
budget budget_open(int64_t limit);
/* Fails with OUT_OF_MEMORY, naming the limit, and counts nothing if `bytes` more would pass it. */
rlx_status budget_take(budget *b, int64_t bytes);

#endif
