/* reduce.h — the family of reductions: parameters and geometry, for the op records and for kernels. */
#ifndef OPS_REDUCE_H
#define OPS_REDUCE_H

#include <rlx/extend.h>

/* Params of every onnx.Reduce…; axes is an attribute in old versions only. */
typedef struct reduce_params {
  uint64_t given;
  int64_t keepdims, noop_with_empty_axes;
  rlx_ints axes;
} reduce_params;

/* The input as kept × reduced axes, neighbours of one kind merged, axes of size 1 dropped. Strides in elements. */
typedef struct reduce_shape {
  int kept_rank, reduced_rank;
  int64_t kept[RLX_MAX_RANK], kept_stride[RLX_MAX_RANK];
  int64_t reduced[RLX_MAX_RANK], reduced_stride[RLX_MAX_RANK];
  int64_t outputs, count; /* elements of the result; elements that go into each */
} reduce_shape;

/* Marks the axes to reduce (bit i: axis i). axes NULL or empty: all, or none if noop. Returns -1, or the index in
 * `axes` of one that is outside the rank or repeated. */
int64_t reduce_axes(int rank, const int64_t *axes, int64_t count, bool noop, uint32_t *mask);
void reduce_resolve(int rank, const int64_t *dims, uint32_t mask, reduce_shape *out);
/* The shape of a run: axes read from input 1. */
rlx_status reduce_of_run(rlx_ctx *ctx, reduce_shape *out);

#endif
