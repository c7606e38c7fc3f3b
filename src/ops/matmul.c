/* matmul.c — onnx.MatMul, MatMulInteger and QLinearMatMul. */
#include "ops/matmul.h"

#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "ir/module.h"
#include "ir/shape.h"
#include "ops/_derivative.h"
#include "ops/_number.h"
#include "ops/_wide.h"

/* Batch axes of a rank-`rank` operand right-aligned in `all` axes: its dim there, 1 where it has none. */
static int64_t batch_dim(int rank, const int64_t *dims, int all, int axis) {
  int own = axis - (all - (rank > 2 ? rank - 2 : 0));
  return own < 0 ? 1 : dims[own];
}

const char *matmul_resolve(int a_rank, const int64_t *a, int b_rank, const int64_t *b, matmul_shape *out) {
  if (a_rank < 1 || b_rank < 1) return "a scalar operand";
  *out = (matmul_shape){.count = 1};
  out->m = a_rank == 1 ? 1 : a[a_rank - 2];
  out->k = a[a_rank - 1];
  out->n = b_rank == 1 ? 1 : b[b_rank - 1];
  int64_t k = b_rank == 1 ? b[0] : b[b_rank - 2];
  if (k != out->k) return rlx_reason("inner dimensions %lld and %lld differ", (long long)out->k, (long long)k);
  out->rank = (a_rank > b_rank ? a_rank : b_rank) - 2;
  if (out->rank < 0) out->rank = 0;
  int64_t a_step = 1, b_step = 1;
  for (int d = out->rank - 1; d >= 0; d--) {
    int64_t x = batch_dim(a_rank, a, out->rank, d), y = batch_dim(b_rank, b, out->rank, d);
    if (x != y && x != 1 && y != 1) {
      return rlx_reason("batch axis %d: %lld and %lld do not broadcast", d, (long long)x, (long long)y);
    }
    out->batch[d] = x == 1 ? y : x;
    out->a_step[d] = x == 1 ? 0 : a_step;
    out->b_step[d] = y == 1 ? 0 : b_step;
    a_step *= x;
    b_step *= y;
    out->count *= out->batch[d];
  }
  return NULL;
}

void matmul_batch(const matmul_shape *s, int64_t i, int64_t *a, int64_t *b) {
  *a = *b = 0;
  for (int d = s->rank - 1; d >= 0; d--) {
    int64_t at = i % s->batch[d];
    i /= s->batch[d];
    *a += at * s->a_step[d];
    *b += at * s->b_step[d];
  }
}

rlx_status matmul_infer(rlx_infer *ctx, int a_input, int b_input) {
  const rlx_type *a = rlx_infer_input(ctx, a_input), *b = rlx_infer_input(ctx, b_input);
  if (a->rank == 0 || b->rank == 0) return rlx_fail(ctx, RLX_INVALID, "a scalar operand");
  if (a->rank == RLX_UNKNOWN || b->rank == RLX_UNKNOWN) return RLX_OK;
  int64_t ka = a->dims[a->rank - 1], kb = b->dims[b->rank == 1 ? 0 : b->rank - 2];
  if (ka != RLX_UNKNOWN && kb != RLX_UNKNOWN && ka != kb) {
    return rlx_fail(ctx, RLX_INVALID, "inner dimensions %lld and %lld differ", (long long)ka, (long long)kb);
  }
  int rank, ra = a->rank > 2 ? a->rank - 2 : 0, rb = b->rank > 2 ? b->rank - 2 : 0;
  int64_t dims[RLX_MAX_RANK];
  char at[160], bt[160];
  if (!shape_broadcast(ra, a->dims, rb, b->dims, &rank, dims)) {
    return rlx_fail(ctx, RLX_INVALID, "batch axes %s and %s do not broadcast", dims_text(ra, a->dims, at, sizeof at),
                    dims_text(rb, b->dims, bt, sizeof bt));
  }
  if (a->rank > 1) dims[rank++] = a->dims[a->rank - 2];
  if (b->rank > 1) dims[rank++] = b->dims[b->rank - 1];
  rlx_infer_set(ctx, 0, rank, dims);
  return RLX_OK;
}

static rlx_status resolve(rlx_ctx *ctx, int a, int b, matmul_shape *s) {
  const rlx_operand *x = &ctx->inputs[a], *y = &ctx->inputs[b];
  const char *bad = matmul_resolve(x->rank, x->dims, y->rank, y->dims, s);
  return bad ? rlx_fail(ctx, RLX_INVALID, "%s", bad) : RLX_OK;
}

/* ---- MatMul ----------------------------------------------------------------------------------------------------- */

static rlx_status infer_matmul(rlx_infer *ctx) { return matmul_infer(ctx, 0, 1); }

static rlx_status eval_matmul(rlx_ctx *ctx) {
  matmul_shape s;
  RLX_TRY(resolve(ctx, 0, 1, &s));
  rlx_dtype dtype = wide_dtype(ctx->inputs[0].dtype);
  wide a = {0}, b = {0}, c = {0};
  rlx_status status = wide_input(ctx, &ctx->inputs[0], dtype, &a);
  if (!status) status = wide_input(ctx, &ctx->inputs[1], dtype, &b);
  if (!status) status = wide_output(ctx, &ctx->outputs[0], dtype, &c);
  if (!status) {
    matmul_direct(ctx, &s, dtype, a.data, b.data, c.data);
    wide_store(&c, &ctx->outputs[0]);
  }
  wide_finish(&a), wide_finish(&b), wide_finish(&c);
  return status;
}

/* Transposes the last two axes of a value of this rank. */
static rlx_value *swap_last(rlx_graph *g, rlx_value *v, int rank) {
  int64_t order[RLX_MAX_RANK];
  for (int d = 0; d < rank; d++) order[d] = d;
  order[rank - 1] = rank - 2;
  order[rank - 2] = rank - 1;
  rlx_attr perm = {.name = "perm", .kind = RLX_ATTR_INTS, .ints = order, .count = (size_t)rank};
  return rlx_graph_op(g, "onnx.Transpose", &perm, 1, (rlx_value *[]){v}, 1);
}

static rlx_value *with_axes(rlx_graph *g, const char *op, rlx_value *v, int64_t first, int count) {
  int64_t axes[2] = {first, first + 1};
  return rlx_graph_op(g, op, NULL, 0, (rlx_value *[]){v, derivative_ints(g, axes, count)}, 2);
}

/* dA = dY Bᵀ and dB = Aᵀ dY, summed over broadcast batch axes; vectors as matrices of one row or column. */
static rlx_status vjp_matmul(rlx_graph *g, const rlx_node *n, rlx_value *const *dy, rlx_value **dx) {
  rlx_value *a = rlx_node_input(n, 0), *b = rlx_node_input(n, 1), *d = dy[0];
  int a_rank = rlx_value_type(a)->rank, b_rank = rlx_value_type(b)->rank;
  if (!d) return RLX_OK;
  if (a_rank < 1 || b_rank < 1) return rlx_graph_fail(g, RLX_UNSUPPORTED, "the ranks are not known");
  if (a_rank == 1) a = with_axes(g, "onnx.Unsqueeze", a, 0, 1);
  if (b_rank == 1) b = with_axes(g, "onnx.Unsqueeze", b, 1, 1);
  if (a_rank == 1 && b_rank == 1) {
    d = with_axes(g, "onnx.Unsqueeze", d, 0, 2);
  } else if (a_rank == 1 || b_rank == 1) {
    d = with_axes(g, "onnx.Unsqueeze", d, a_rank == 1 ? -2 : -1, 1);
  }
  rlx_value *bt = swap_last(g, b, b_rank < 2 ? 2 : b_rank), *at = swap_last(g, a, a_rank < 2 ? 2 : a_rank);
  rlx_value *da = rlx_graph_op(g, "onnx.MatMul", NULL, 0, (rlx_value *[]){d, bt}, 2);
  rlx_value *db = rlx_graph_op(g, "onnx.MatMul", NULL, 0, (rlx_value *[]){at, d}, 2);
  dx[0] = rlx_graph_op(g, "rlx.sum_to_like", NULL, 0, (rlx_value *[]){da, a}, 2);
  dx[1] = rlx_graph_op(g, "rlx.sum_to_like", NULL, 0, (rlx_value *[]){db, b}, 2);
  if (a_rank == 1) dx[0] = with_axes(g, "onnx.Squeeze", dx[0], 0, 1);
  if (b_rank == 1) dx[1] = with_axes(g, "onnx.Squeeze", dx[1], 1, 1);
  return rlx_graph_status(g);
}

#define MATMUL_SET                                                                                                     \
  (RLX_SET_FLOATS | RLX_SET(RLX_INT32) | RLX_SET(RLX_INT64) | RLX_SET(RLX_UINT32) | RLX_SET(RLX_UINT64))
static const rlx_op matmul = {
    .struct_size = sizeof(rlx_op),
    .name = "onnx.MatMul",
    .version = 1,
    .doc = "Matrix product as numpy.matmul: batches broadcast, a 1-D operand is a row or a column.",
    .samples = (const char *const[]){"float[3,4], float[4,5]", "float[2,1,3,4], float[3,4,5]", "float[4], float[2,4,3]",
                                     "float[7], float[7]", "int32[3,4], int32[4,2]", NULL},
    .inputs = (const rlx_port[]){{"A", "T", MATMUL_SET, 0, 0}, {"B", "T", MATMUL_SET, 0, 0}, {0}},
    .outputs = (const rlx_port[]){{"Y", "T", MATMUL_SET, 0, 0}, {0}},
    .traits = RLX_PURE,
    .infer = infer_matmul,
    .vjp = vjp_matmul,
    .eval = eval_matmul,
};

/* ---- MatMulInteger ---------------------------------------------------------------------------------------------- */

#define BYTES (RLX_SET(RLX_INT8) | RLX_SET(RLX_UINT8))

static const rlx_operand *optional(const rlx_ctx *ctx, int i) {
  return i < ctx->input_count && ctx->inputs[i].data ? &ctx->inputs[i] : NULL;
}

/* A (zero points per row) and B (per column), centred. */
static rlx_status open_bytes(rlx_ctx *ctx, const matmul_shape *s, const int index[4], wide *a, wide *b) {
  RLX_TRY(wide_centred(ctx, &ctx->inputs[index[0]], optional(ctx, index[1]), s->m, s->k, a));
  return wide_centred(ctx, &ctx->inputs[index[2]], optional(ctx, index[3]), s->n, 1, b);
}

static rlx_status infer_matmul_integer(rlx_infer *ctx) {
  rlx_infer_output(ctx, 0)->dtype = RLX_INT32;
  return matmul_infer(ctx, 0, 1);
}

static rlx_status eval_matmul_integer(rlx_ctx *ctx) {
  matmul_shape s;
  RLX_TRY(resolve(ctx, 0, 1, &s));
  wide a = {0}, b = {0};
  rlx_status status = open_bytes(ctx, &s, (const int[]){0, 2, 1, 3}, &a, &b);
  if (!status) matmul_direct(ctx, &s, RLX_INT32, a.data, b.data, ctx->outputs[0].data);
  wide_finish(&a), wide_finish(&b);
  return status;
}

static const rlx_op matmul_integer = {
    .struct_size = sizeof(rlx_op),
    .name = "onnx.MatMulInteger",
    .version = 10,
    .doc = "Product of 8-bit matrices less their zero points (one, or one a row of A and a column of B), into int32.",
    .samples = (const char *const[]){"uint8[3,4], int8[4,5]", "int8[2,3,4], uint8[4,5], int8[], uint8[5]", NULL},
    .inputs = (const rlx_port[]){{"A", "T1", BYTES, 0, 0},
                                 {"B", "T2", BYTES, 0, 0},
                                 {"a_zero_point", "T1", BYTES, RLX_OPTIONAL, 0},
                                 {"b_zero_point", "T2", BYTES, RLX_OPTIONAL, 0},
                                 {0}},
    .outputs = (const rlx_port[]){{"Y", "T3", RLX_SET(RLX_INT32), 0, 0}, {0}},
    .traits = RLX_PURE,
    .infer = infer_matmul_integer,
    .eval = eval_matmul_integer,
};

/* ---- QLinearMatMul ---------------------------------------------------------------------------------------------- */

enum { Q_A, Q_A_SCALE, Q_A_ZERO, Q_B, Q_B_SCALE, Q_B_ZERO, Q_Y_SCALE, Q_Y_ZERO };

static rlx_status infer_qlinear(rlx_infer *ctx) { return matmul_infer(ctx, Q_A, Q_B); }

/* Element of a scale or zero point: one for all, one a row, or one a column. */
static double entry(const rlx_operand *o, int64_t index) {
  return dtype_load(o->dtype, o->data, o->count == 1 ? 0 : index);
}

/* Float copy of a quantised operand less its zero point; index (i / inner) % period picks the zero point. */
static rlx_status open_quantised(rlx_ctx *ctx, int input, int64_t period, int64_t inner, wide *out) {
  const rlx_operand *o = &ctx->inputs[input], *zero = &ctx->inputs[input + 2];
  if ((zero->count != 1 && zero->count != period) ||
      (ctx->inputs[input + 1].count != 1 && ctx->inputs[input + 1].count != period)) {
    return rlx_fail(ctx, RLX_INVALID, "a scale or zero point of input %d has neither 1 nor %lld elements", input,
                    (long long)period);
  }
  *out = (wide){.dtype = RLX_DOUBLE};
  out->data = out->owned = mem_array((size_t)o->count, sizeof(double));
  if (!out->data) return rlx_fail(ctx, RLX_OUT_OF_MEMORY, "no memory for %lld elements", (long long)o->count);
  for (int64_t i = 0; i < o->count; i++) {
    ((double *)out->data)[i] = dtype_load(o->dtype, o->data, i) - entry(zero, i / inner % period);
  }
  return RLX_OK;
}

static rlx_status requantise(rlx_ctx *ctx, const matmul_shape *s, const double *sum) {
  const rlx_operand *in = ctx->inputs, *y = &ctx->outputs[0];
  if ((in[Q_Y_SCALE].count != 1 && in[Q_Y_SCALE].count != s->m) ||
      (in[Q_Y_ZERO].count != 1 && in[Q_Y_ZERO].count != s->m)) {
    return rlx_fail(ctx, RLX_INVALID, "y_scale or y_zero_point has neither 1 nor %lld elements", (long long)s->m);
  }
  for (int64_t i = 0; i < y->count; i++) {
    int64_t row = i / s->n % s->m, column = i % s->n;
    double value = sum[i] * entry(&in[Q_A_SCALE], row) * entry(&in[Q_B_SCALE], column) / entry(&in[Q_Y_SCALE], row);
    double zero = entry(&in[Q_Y_ZERO], row);
    if (y->dtype == RLX_INT8 || y->dtype == RLX_UINT8) {
      double low = y->dtype == RLX_INT8 ? -128 : 0;
      number_store(y->dtype, y->data, i, fmin(fmax(nearbyint(value) + zero, low), low + 255));
    } else {
      dtype_store(y->dtype, y->data, i, value + zero);
    }
  }
  return RLX_OK;
}

static rlx_status eval_qlinear(rlx_ctx *ctx) {
  matmul_shape s;
  RLX_TRY(resolve(ctx, Q_A, Q_B, &s));
  if (ctx->outputs[0].count == 0) return RLX_OK;
  wide a = {0}, b = {0}, sum = {0};
  int64_t k = s.k ? s.k : 1;
  rlx_status status = open_quantised(ctx, Q_A, s.m, k, &a);
  if (!status) status = open_quantised(ctx, Q_B, s.n, 1, &b);
  if (!status) status = wide_output(ctx, &ctx->outputs[0], RLX_DOUBLE, &sum);
  if (!status) {
    matmul_direct(ctx, &s, RLX_DOUBLE, a.data, b.data, sum.data);
    status = requantise(ctx, &s, sum.data);
  }
  wide_finish(&a), wide_finish(&b), wide_finish(&sum);
  return status;
}

#define SCALES (RLX_SET(RLX_FLOAT) | RLX_SET(RLX_FLOAT16) | RLX_SET(RLX_BFLOAT16))
#define QUANTISED                                                                                                      \
  (BYTES | RLX_SET(RLX_FLOAT8E4M3FN) | RLX_SET(RLX_FLOAT8E4M3FNUZ) | RLX_SET(RLX_FLOAT8E5M2) |                         \
   RLX_SET(RLX_FLOAT8E5M2FNUZ))
static const rlx_op qlinear_matmul = {
    .struct_size = sizeof(rlx_op),
    .name = "onnx.QLinearMatMul",
    .version = 10,
    .samples = (const char *const[]){"uint8[2,3], float[] = {0.1}, uint8[] = {3}, uint8[3,4], float[] = {0.2}, uint8[] "
                                     "= {2}, float[] = {0.9}, uint8[] = {5}",
                                     "int8[2,2,3], float[] = {0.1}, int8[] = {1}, int8[3,4], float[] = {0.2}, int8[] = "
                                     "{-2}, float[] = {0.9}, int8[] = {0}",
                                     NULL},
    .doc = "Product of quantised matrices; the exact sum is quantised again.",
    .inputs = (const rlx_port[]){{"a", "T1", QUANTISED, 0, 0},
                                 {"a_scale", "TS", SCALES, 0, 0},
                                 {"a_zero_point", "T1", QUANTISED, 0, 0},
                                 {"b", "T2", QUANTISED, 0, 0},
                                 {"b_scale", "TS", SCALES, 0, 0},
                                 {"b_zero_point", "T2", QUANTISED, 0, 0},
                                 {"y_scale", "TS", SCALES, 0, 0},
                                 {"y_zero_point", "T3", QUANTISED, 0, 0},
                                 {0}},
    .outputs = (const rlx_port[]){{"y", "T3", QUANTISED, 0, 0}, {0}},
    .traits = RLX_PURE,
    .infer = infer_qlinear,
    .eval = eval_qlinear,
};

static const rlx_op *const ops[] = {&matmul, &matmul_integer, &qlinear_matmul, NULL};
const rlx_module ops_matmul = {.ops = ops};
