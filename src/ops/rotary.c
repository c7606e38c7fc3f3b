/* rotary.c — onnx.RotaryEmbedding. */
#include "base/status.h"
#include "ir/module.h"
#include "ops/_derivative.h"
#include "ops/_number.h"

typedef struct rotary_params {
  uint64_t given;
  int64_t interleaved, num_heads, rotary_embedding_dim;
} rotary_params;

/* Strides of the parts of X in elements, and where row (batch, position) of the caches lies. */
typedef struct rotary_shape {
  int64_t batch, heads, length, size, rotated;
  int64_t batch_step, head_step, row_step;
} rotary_shape;

static rlx_status resolve(rlx_ctx *ctx, rotary_shape *s) {
  const rotary_params *p = ctx->params;
  const rlx_operand *x = &ctx->inputs[0];
  if (x->rank == 4) {
    *s = (rotary_shape){.batch = x->dims[0], .heads = x->dims[1], .length = x->dims[2], .size = x->dims[3]};
    s->head_step = s->length * s->size;
    s->row_step = s->size;
  } else if (x->rank == 3) {
    if (p->num_heads < 1 || x->dims[2] % p->num_heads) {
      return rlx_fail(ctx, RLX_INVALID, "%lld elements in %lld heads", (long long)x->dims[2], (long long)p->num_heads);
    }
    *s = (rotary_shape){.batch = x->dims[0], .heads = p->num_heads, .length = x->dims[1]};
    s->size = x->dims[2] / p->num_heads;
    s->head_step = s->size;
    s->row_step = s->size * s->heads;
  } else {
    return rlx_fail(ctx, RLX_INVALID, "an input of rank %d; 3 or 4 is needed", x->rank);
  }
  s->batch_step = s->heads * s->length * s->size;
  s->rotated = p->rotary_embedding_dim ? p->rotary_embedding_dim : s->size;
  if (s->rotated < 0 || s->rotated > s->size || s->rotated % 2) {
    return rlx_fail(ctx, RLX_INVALID, "rotating %lld of %lld elements", (long long)s->rotated, (long long)s->size);
  }
  const rlx_operand *positions = ctx->input_count > 3 && ctx->inputs[3].data ? &ctx->inputs[3] : NULL;
  for (int i = 1; i < 3; i++) {
    const rlx_operand *c = &ctx->inputs[i];
    int64_t rows = c->rank && c->dims[c->rank - 1] ? c->count / c->dims[c->rank - 1] : 0;
    if (c->rank < 2 || c->dims[c->rank - 1] != s->rotated / 2 || (!positions && rows != s->batch * s->length)) {
      return rlx_fail(ctx, RLX_INVALID, "the cache of input %d does not fit X", i);
    }
  }
  if (positions && positions->count != s->batch * s->length) {
    return rlx_fail(ctx, RLX_INVALID, "%lld position_ids for %lld rows", (long long)positions->count,
                    (long long)(s->batch * s->length));
  }
  return RLX_OK;
}

NUMBER_INLINE void rotate_row(rlx_dtype t, const rlx_ctx *ctx, const rotary_shape *s, int64_t at, int64_t cache) {
  const rotary_params *p = ctx->params;
  const void *x = ctx->inputs[0].data, *cos = ctx->inputs[1].data, *sin = ctx->inputs[2].data;
  void *y = ctx->outputs[0].data;
  int64_t half = s->rotated / 2, step = p->interleaved ? 2 : 1, other = p->interleaved ? 1 : half;
  for (int64_t i = 0; i < half; i++) {
    double a = number_load(t, x, at + i * step), b = number_load(t, x, at + i * step + other);
    double c = number_load(t, cos, cache + i), d = number_load(t, sin, cache + i);
    number_store(t, y, at + i * step, c * a - d * b);
    number_store(t, y, at + i * step + other, d * a + c * b);
  }
  for (int64_t i = s->rotated; i < s->size; i++) number_store(t, y, at + i, number_load(t, x, at + i));
}

NUMBER_INLINE rlx_status rotate(rlx_dtype t, rlx_ctx *ctx, const rotary_shape *s) {
  const rlx_operand *positions = ctx->input_count > 3 && ctx->inputs[3].data ? &ctx->inputs[3] : NULL;
  int64_t half = s->rotated / 2, rows = half ? ctx->inputs[1].count / half : 1;
  if (half && ctx->inputs[2].count / half < rows) rows = ctx->inputs[2].count / half;
  for (int64_t i = 0; i < s->batch * s->length; i++) {
    int64_t row = positions ? ((const int64_t *)positions->data)[i] : i;
    if (row < 0) row += rows;
    if (half && (row < 0 || row >= rows)) {
      return rlx_fail(ctx, RLX_INVALID, "position_ids holds %lld for a cache of %lld rows",
                      (long long)((const int64_t *)positions->data)[i], (long long)rows);
    }
    for (int64_t h = 0; h < s->heads; h++) {
      int64_t at = i / s->length * s->batch_step + h * s->head_step + i % s->length * s->row_step;
      rotate_row(t, ctx, s, at, row * half);
    }
  }
  return RLX_OK;
}

static rlx_status eval(rlx_ctx *ctx) {
  rotary_shape s = {0};
  RLX_TRY(resolve(ctx, &s));
  DISPATCH_FLOATS(ctx->inputs[0].dtype, rotate, ctx, &s)
}

/* Halves or alternating elements as two tensors, turned, and put together again. */
static rlx_status derive(rlx_graph *g, const rlx_node *n, rlx_value **outputs) {
  const rotary_params *p = rlx_node_params(n);
  rlx_value *in[4];
  for (int i = 0; i < 4; i++) in[i] = rlx_node_input(n, i);
  int rank = rlx_value_type(in[0])->rank;
  if (rank != 3 && rank != 4) return rlx_graph_fail(g, RLX_UNSUPPORTED, "the rank must be known");
  return derivative_text(
      g, in, outputs,
      "rotary (x, cosines, sines, positions) => (y) <int64[4] heads = {0, 0, %lld, -1}, int64[3] packed = {0, 0, -1},"
      " int64[1] zero = {0}, int64[1] one = {1}, int64[1] two = {2}, int64[1] end = {9223372036854775807},"
      " int64[1] turned = {%lld}, int64[1] last = {-1}, int64[4] merged = {0, 0, 0, -1}> { %s %s %s"
      " c = Unsqueeze (c0, one) s = Unsqueeze (s0, one) %s"
      " ca = Mul (c, a) sb = Mul (s, b) p = Sub (ca, sb) sa = Mul (s, a) cb = Mul (c, b) q = Add (sa, cb) %s %s %s }",
      (long long)p->num_heads, (long long)p->rotary_embedding_dim,
      rank == 3 ? "split = Reshape (x, heads) h = Transpose <perm = [0, 2, 1, 3]> (split)" : "h = Identity (x)",
      p->rotary_embedding_dim ? "r = Slice (h, zero, turned, last) rest = Slice (h, turned, end, last)"
                              : "r = Identity (h)",
      in[3] ? "c0 = Gather (cosines, positions) s0 = Gather (sines, positions)"
            : "c0 = Identity (cosines) s0 = Identity (sines)",
      p->interleaved ? "a = Slice (r, zero, end, last, two) b = Slice (r, one, end, last, two)"
                     : "a, b = Split <axis = -1, num_outputs = 2> (r)",
      p->interleaved ? "pu = Unsqueeze (p, last) qu = Unsqueeze (q, last) pq = Concat <axis = -1> (pu, qu)"
                       " t = Reshape (pq, merged)"
                     : "t = Concat <axis = -1> (p, q)",
      p->rotary_embedding_dim ? "w = Concat <axis = -1> (t, rest)" : "w = Identity (t)",
      rank == 3 ? "back = Transpose <perm = [0, 2, 1, 3]> (w) y = Reshape (back, packed)" : "y = Identity (w)");
}

static const rlx_attr_def attrs[] = {
    {.name = "interleaved", .kind = RLX_ATTR_INT, .offset = offsetof(rotary_params, interleaved)},
    {.name = "num_heads", .kind = RLX_ATTR_INT, .offset = offsetof(rotary_params, num_heads)},
    {.name = "rotary_embedding_dim", .kind = RLX_ATTR_INT, .offset = offsetof(rotary_params, rotary_embedding_dim)},
    {0}};
static const rlx_op rotary_embedding = {
    .struct_size = sizeof(rlx_op),
    .name = "onnx.RotaryEmbedding",
    .version = 23,
    .doc = "Rotates pairs of elements of each head by angles that depend on the position.",
    .samples = (const char *const[]){"float[1,2,3,8], float[1,3,4], float[1,3,4]", NULL},
    .inputs = (const rlx_port[]){{"X", "T", RLX_SET_FLOATS, 0, 0},
                                 {"cos_cache", "T", RLX_SET_FLOATS, 0, 0},
                                 {"sin_cache", "T", RLX_SET_FLOATS, 0, 0},
                                 {"position_ids", "M", RLX_SET(RLX_INT64), RLX_OPTIONAL, 0},
                                 {0}},
    .outputs = (const rlx_port[]){{"Y", "T", RLX_SET_FLOATS, 0, 0}, {0}},
    .attrs = attrs,
    .params_size = sizeof(rotary_params),
    .traits = RLX_PURE,
    .derive = derive,
    .eval = eval,
};

static const rlx_op *const ops[] = {&rotary_embedding, NULL};
const rlx_module ops_rotary = {.ops = ops};
