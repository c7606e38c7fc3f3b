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

/* One run of a subgraph. */
typedef struct subgraph_call {
  int index; /* of the subgraph among the node's */
  const rlx_operand *inputs;
  rlx_operand *outputs; /* filled: data, and what describes it; dims last until the next call */
  int input_count, output_count;
  /* Where an output goes, asked when its dims are known. It leaves *data NULL to get memory of the run. */
  rlx_status (*place)(void *user, int output, const rlx_operand *is, void **data);
  void *user;
} subgraph_call;

/* What rlx_ctx.executor points to begins with this. */
typedef struct executor_head {
  failure *failure;
  int threads;
  const int *cancel; /* nonzero: cancelled; NULL: never */
  /* Data-dependent outputs: rlx_output_shape forwards here. */
  void *(*output_shape)(rlx_ctx *ctx, int output, int rank, const int64_t *dims);
  char *(*text)(rlx_ctx *ctx, size_t size); /* rlx_text */
  rlx_status (*delegate_cpu)(rlx_ctx *ctx);
  struct cache *cache; /* base/cache.h; NULL: none */
  /* The value of an output that is no tensor; takes the reference over. */
  rlx_status (*output_value)(rlx_ctx *ctx, int output, rlx_tensor *value);
  /* Control flow. */
  rlx_status (*call)(rlx_ctx *ctx, const subgraph_call *call);
  /* Memory that runs of subgraphs took: what came after a mark is freed by release, but for this node's outputs. */
  size_t (*mark)(rlx_ctx *ctx);
  void (*release)(rlx_ctx *ctx, size_t mark);
  /* Keeps an object until the run ends, or is released. Takes the reference over, also on failure. */
  rlx_status (*keep)(rlx_ctx *ctx, rlx_tensor *value);
  /* Memory that counts against the session's limit; give it back with the same size. */
  void *(*take)(rlx_ctx *ctx, int64_t bytes);
  void (*give)(rlx_ctx *ctx, void *data, int64_t bytes);
} executor_head;

#endif
