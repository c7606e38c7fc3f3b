/* _broadcast.c — broadcasting: shape inference, and the merged loop plan shared by reference and kernels. */
#include "ops/_broadcast.h"

#include <string.h>

#include "base/status.h"
#include "ir/shape.h"

/* Strides of one input seen from the output's dims: 0 where it is repeated. */
static void input_strides(broadcast_shape out, broadcast_shape in, int64_t *strides) {
  int64_t step = 1;
  int lead = out.rank - in.rank;
  for (int d = out.rank - 1; d >= 0; d--) {
    int64_t dim = d >= lead ? in.dims[d - lead] : 1;
    strides[d] = dim == 1 ? 0 : step;
    step *= dim;
  }
}

/* Whether dim d - 1 continues dim d for every input. */
static bool mergeable(const broadcast *b, int d, int64_t inner_dim, int inner) {
  for (int i = 0; i < b->inputs; i++) {
    if (b->strides[i][d] != b->strides[i][inner] * inner_dim) return false;
  }
  return true;
}

void broadcast_plan(broadcast *b, broadcast_shape out, const broadcast_shape *in, int inputs) {
  b->inputs = inputs;
  b->rank = 0;
  b->count = 1;
  b->still = 0;
  int64_t full[BROADCAST_MAX_INPUTS][RLX_MAX_RANK];
  for (int i = 0; i < inputs; i++) input_strides(out, in[i], full[i]);
  /* Dims are kept from the last to the first while merging, then turned around. */
  for (int d = out.rank - 1; d >= 0; d--) {
    b->count *= out.dims[d];
    if (out.dims[d] == 1) continue;
    int k = b->rank;
    for (int i = 0; i < inputs; i++) b->strides[i][k] = full[i][d];
    if (k > 0 && mergeable(b, k, b->dims[k - 1], k - 1)) {
      b->dims[k - 1] *= out.dims[d];
    } else {
      b->dims[b->rank++] = out.dims[d];
    }
  }
  if (b->rank == 0) {
    b->rank = 1;
    b->dims[0] = 1;
    for (int i = 0; i < inputs; i++) b->strides[i][0] = 0;
  }
  for (int lo = 0, hi = b->rank - 1; lo < hi; lo++, hi--) {
    int64_t t = b->dims[lo];
    b->dims[lo] = b->dims[hi];
    b->dims[hi] = t;
    for (int i = 0; i < inputs; i++) {
      t = b->strides[i][lo];
      b->strides[i][lo] = b->strides[i][hi];
      b->strides[i][hi] = t;
    }
  }
  for (int i = 0; i < inputs; i++) {
    if (b->strides[i][b->rank - 1] == 0) b->still |= 1u << i;
  }
}

void broadcast_seek(const broadcast *b, int64_t position, broadcast_cursor *at) {
  memset(at->offset, 0, sizeof(int64_t) * (size_t)b->inputs);
  at->column = 0;
  if (b->count == 0) return; /* no dim to divide by */
  at->column = position % b->dims[b->rank - 1];
  int64_t row = position / b->dims[b->rank - 1];
  for (int d = b->rank - 2; d >= 0; d--) {
    at->index[d] = row % b->dims[d];
    row /= b->dims[d];
    for (int i = 0; i < b->inputs; i++) at->offset[i] += at->index[d] * b->strides[i][d];
  }
}

void broadcast_next_row(const broadcast *b, broadcast_cursor *at) {
  at->column = 0;
  for (int d = b->rank - 2; d >= 0; d--) {
    for (int i = 0; i < b->inputs; i++) at->offset[i] += b->strides[i][d];
    if (++at->index[d] < b->dims[d]) return;
    for (int i = 0; i < b->inputs; i++) at->offset[i] -= b->strides[i][d] * b->dims[d];
    at->index[d] = 0;
  }
}

rlx_status broadcast_infer_shape(rlx_infer *ctx, int *rank, int64_t *dims) {
  *rank = 0;
  for (int i = 0; i < rlx_infer_input_count(ctx); i++) {
    const rlx_type *t = rlx_infer_input(ctx, i);
    if (t == NULL) continue;
    if (t->rank == RLX_UNKNOWN) {
      *rank = RLX_UNKNOWN;
      continue;
    }
    if (*rank == RLX_UNKNOWN) continue;
    int64_t joined[RLX_MAX_RANK];
    int joined_rank;
    if (!shape_broadcast(*rank, dims, t->rank, t->dims, &joined_rank, joined)) {
      char a[256], b[256];
      return rlx_fail(ctx, RLX_INVALID, "input %d of shape %s does not broadcast with %s", i,
                      dims_text(t->rank, t->dims, b, sizeof b), dims_text(*rank, dims, a, sizeof a));
    }
    memcpy(dims, joined, sizeof(int64_t) * (size_t)joined_rank);
    *rank = joined_rank;
  }
  return RLX_OK;
}

rlx_status broadcast_infer(rlx_infer *ctx) {
  int rank;
  int64_t dims[RLX_MAX_RANK];
  RLX_TRY(broadcast_infer_shape(ctx, &rank, dims));
  if (rank == RLX_UNKNOWN) return RLX_OK;
  for (int i = 0; i < rlx_infer_output_count(ctx); i++) rlx_infer_set(ctx, i, rank, dims);
  return RLX_OK;
}
