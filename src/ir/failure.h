/* failure.h — the first failure of a run, from whatever thread. */
#ifndef IR_FAILURE_H
#define IR_FAILURE_H

#include <rlx/extend.h>

#include "base/status.h"

/* Lives in a run state. `taken` is atomic: the first to set it writes the text. */
typedef struct failure {
  int taken;
  rlx_status code;
  char text[1024];
} failure;

void failure_reset(failure *f);
/* First wins; returns code. */
__attribute__((format(printf, 3, 4))) rlx_status failure_set(failure *f, rlx_status code, const char *format, ...);

/* What rlx_ctx.executor points to begins with this. */
typedef struct executor_head {
  failure *failure;
  int threads;
  const int *cancel;  /* nonzero: cancelled; NULL: never */
  /* Data-dependent outputs: rlx_output_shape forwards here. */
  void *(*output_shape)(rlx_ctx *ctx, int output, int rank, const int64_t *dims);
  char *(*text)(rlx_ctx *ctx, size_t size); /* rlx_text */
  rlx_status (*delegate_cpu)(rlx_ctx *ctx);
  struct cache *cache; /* base/cache.h; NULL: none */
  /* Control flow: runs subgraph `index` of the node of ctx on operands; an output whose data is NULL gets
   * memory of the run, one whose data is given must have the dims it turns out to have. */
  rlx_status (*call)(rlx_ctx *ctx, int index, const rlx_operand *inputs, int input_count, rlx_operand *outputs,
                     int output_count);
  /* Memory that `call` gave: what came after a mark is freed by release. */
  size_t (*mark)(rlx_ctx *ctx);
  void (*release)(rlx_ctx *ctx, size_t mark);
} executor_head;

#endif
