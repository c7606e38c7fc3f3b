/* _topk.h — TopK with scratch memory of the caller. */
#ifndef OPS_TOPK_H
#define OPS_TOPK_H

#include <rlx/extend.h>

typedef struct topk_params {
  uint64_t given;
  int64_t axis, largest, sorted;
} topk_params;

/* Chunks that `lines` lines of `count` elements in all are worth splitting into. */
int64_t topk_chunks_of(int64_t count, int64_t lines, int threads);
/* scratch: K indices for each chunk. */
rlx_status topk_run(rlx_ctx *ctx, int64_t *scratch, int64_t chunks);

#endif
