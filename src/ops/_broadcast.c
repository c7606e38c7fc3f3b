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

/* Rows shorter than this are walked several at a time. */
enum { SHORT_ROW = 64 };

static void plan_groups(broadcast *b) {
  b->group = 0;
  b->group_still = b->group_expand = 0;
  int last = b->rank - 1;
  if (b->rank < 2 || b->dims[last] >= SHORT_ROW) return;
  b->group = BROADCAST_TILE / b->dims[last];
  for (int i = 0; i < b->inputs; i++) {
    int64_t outer = b->strides[i][last - 1], inner = b->strides[i][last];
    if (outer == 0 && inner == 0) {
      b->group_still |= 1u << i;
    } else if (inner == 0 || outer == 0) {
      b->group_expand |= 1u << i;
    }
  }
}

void broadcast_plan(broadcast *b, broadcast_shape out, const broadcast_shape *in, int inputs) {
  b->inputs = inputs;
  b->rank = 0;
  b->count = 1;
  b->still = 0;
  b->group = 0;
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
  if (b->count > 0) plan_groups(b);
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

/* ---- pieces ---- */

void broadcast_walk_start(broadcast_walk *w, const broadcast *plan, const void *const *data, const size_t *sizes,
                          broadcast_tile *tiles, int64_t longest) {
  w->plan = plan;
  w->data = data;
  w->sizes = sizes;
  w->tiles = tiles;
  w->longest = longest;
  for (int i = 0; i < plan->inputs; i++) w->spread[i] = -1;
}

void broadcast_walk_range(broadcast_walk *w, int64_t begin, int64_t end) {
  w->at = begin;
  w->end = end;
  broadcast_seek(w->plan, begin, &w->cursor);
}

static const char *element(const broadcast_walk *w, int i, int64_t offset) {
  return (const char *)w->data[i] + offset * (int64_t)w->sizes[i];
}

/* A whole or partial row. */
static void row_piece(broadcast_walk *w, broadcast_piece *p) {
  const broadcast *b = w->plan;
  int64_t row = b->dims[b->rank - 1], n = row - w->cursor.column;
  if (n > w->end - w->at) n = w->end - w->at;
  if (n > w->longest) n = w->longest;
  p->at = w->at;
  p->count = n;
  p->still = b->still;
  for (int i = 0; i < b->inputs; i++) {
    p->in[i] = element(w, i, w->cursor.offset[i] + (b->still >> i & 1 ? 0 : w->cursor.column));
  }
  w->at += n;
  w->cursor.column += n;
  if (w->cursor.column == row) broadcast_next_row(b, &w->cursor);
}

/* Each of `rows` elements, `step` apart, repeated along its row. */
static void repeat_elements(size_t size, void *to, const void *from, int64_t step, int64_t rows, int64_t row) {
  switch (size) {
#define CASE(type)                                                                                                     \
  case sizeof(type):                                                                                                   \
    for (int64_t r = 0; r < rows; r++) {                                                                               \
      for (int64_t i = 0; i < row; i++) ((type *)to)[r * row + i] = ((const type *)from)[r * step];                    \
    }                                                                                                                  \
    break;
    CASE(uint8_t)
    CASE(uint16_t)
    CASE(uint32_t)
    CASE(uint64_t)
#undef CASE
    default: break;
  }
}

/* Input i as a tile of `rows` rows. A period is written once for as long as it stays the same. */
static const void *spread(broadcast_walk *w, int i, int64_t rows) {
  const broadcast *b = w->plan;
  int last = b->rank - 1;
  int64_t row = b->dims[last], offset = w->cursor.offset[i];
  const char *from = element(w, i, offset);
  size_t bytes = (size_t)row * w->sizes[i];
  if (b->strides[i][last] == 0) {
    repeat_elements(w->sizes[i], w->tiles[i], from, b->strides[i][last - 1], rows, row);
  } else if (w->spread[i] != offset) {
    for (int64_t r = 0; r < b->group; r++) memcpy(w->tiles[i] + (size_t)r * bytes, from, bytes);
    w->spread[i] = offset;
  }
  return w->tiles[i];
}

static bool groups_fit(const broadcast_walk *w) {
  const broadcast *b = w->plan;
  if (b->group < 2 || w->cursor.column != 0 || w->end - w->at < 2 * b->dims[b->rank - 1]) return false;
  for (int i = 0; i < b->inputs; i++) {
    if ((b->group_expand >> i & 1) && w->sizes[i] > 8) return false;
  }
  return true;
}

static void group_piece(broadcast_walk *w, broadcast_piece *p) {
  const broadcast *b = w->plan;
  int outer = b->rank - 2;
  int64_t row = b->dims[outer + 1], rows = b->dims[outer] - w->cursor.index[outer];
  if (rows > b->group) rows = b->group;
  if (rows > (w->end - w->at) / row) rows = (w->end - w->at) / row;
  p->at = w->at;
  p->count = rows * row;
  p->still = b->group_still;
  for (int i = 0; i < b->inputs; i++) {
    p->in[i] = b->group_expand >> i & 1 ? spread(w, i, rows) : element(w, i, w->cursor.offset[i]);
  }
  w->at += p->count;
  w->cursor.index[outer] += rows - 1;
  for (int i = 0; i < b->inputs; i++) w->cursor.offset[i] += (rows - 1) * b->strides[i][outer];
  broadcast_next_row(b, &w->cursor);
}

bool broadcast_walk_next(broadcast_walk *w, broadcast_piece *p) {
  if (w->at >= w->end) return false;
  if (groups_fit(w)) {
    group_piece(w, p);
  } else {
    row_piece(w, p);
  }
  return true;
}

/* ---- shapes ---- */

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
