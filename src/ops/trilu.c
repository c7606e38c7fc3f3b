/* trilu.c — Trilu and EyeLike: triangles and diagonals of matrices. */
#include <stddef.h>
#include <string.h>

#include "ir/module.h"
#include "ops/_move.h"

/* ---- Trilu -------------------------------------------------------------------------------- */

typedef struct trilu_params {
  uint64_t given;
  int64_t upper;
} trilu_params;

static const rlx_attr_def trilu_attrs[] = {
    {.name = "upper", .kind = RLX_ATTR_INT, .offset = offsetof(trilu_params, upper), .default_int = 1}, {0}};
static const rlx_port trilu_inputs[] = {{.name = "input", .variable = "T", .dtypes = MOVE_WHOLE},
                                        {.name = "k", .dtypes = MOVE_INT64, .flags = RLX_OPTIONAL},
                                        {0}};
static const rlx_port trilu_outputs[] = {{.name = "output", .variable = "T", .dtypes = MOVE_WHOLE}, {0}};

static rlx_status trilu_infer(rlx_infer *ctx) {
  const rlx_type *x = rlx_infer_input(ctx, 0);
  if (x->rank >= 0 && x->rank < 2) return rlx_fail(ctx, RLX_INVALID, "input has rank %d", x->rank);
  rlx_infer_like(ctx, 0, 0);
  return RLX_OK;
}

static int64_t clamp_to(int64_t v, int64_t high) { return v < 0 ? 0 : v > high ? high : v; }

static rlx_status trilu_eval(rlx_ctx *ctx) {
  const trilu_params *p = ctx->params;
  const rlx_operand *x = &ctx->inputs[0], *y = &ctx->outputs[0];
  int64_t k = 0, rows = x->dims[x->rank - 2], columns = x->dims[x->rank - 1];
  int64_t size = (int64_t)dtype_size(x->dtype), matrices = dims_product(x->dims, 0, x->rank - 2);
  if (run_given(ctx, 1)) {
    if (ctx->inputs[1].count != 1)
      return rlx_fail(ctx, RLX_INVALID, "k has %lld elements", (long long)ctx->inputs[1].count);
    k = *(const int64_t *)ctx->inputs[1].data;
  }
  /* Past these every diagonal is the same, and sums cannot overflow. */
  if (k > columns) k = columns + 1;
  if (k < -rows) k = -rows - 1;
  static const rlx_string no_text = {"", 0};
  static const uint64_t zero[2];
  const void *nothing = x->dtype == RLX_STRING ? (const void *)&no_text : (const void *)zero;
  for (int64_t r = 0; r < matrices * rows; r++) {
    int64_t row = r % rows, offset = r * columns * size;
    int64_t begin = p->upper ? clamp_to(row + k, columns) : 0;
    int64_t end = p->upper ? columns : clamp_to(row + k + 1, columns);
    char *to = (char *)y->data + offset;
    move_fill(to, nothing, begin, (size_t)size);
    if (end > begin)
      memcpy(to + begin * size, (const char *)x->data + offset + begin * size, (size_t)((end - begin) * size));
    move_fill(to + end * size, nothing, columns - end, (size_t)size);
  }
  return RLX_OK;
}

static rlx_status trilu_vjp(rlx_graph *g, const rlx_node *n, rlx_value *const *output_grads, rlx_value **input_grads) {
  const trilu_params *p = rlx_node_params(n);
  if (!output_grads[0]) return rlx_graph_status(g);
  rlx_attr attr = RLX_ATTR_I("upper", p->upper);
  rlx_value *inputs[2] = {output_grads[0], rlx_node_input(n, 1)};
  input_grads[0] = rlx_graph_op(g, "onnx.Trilu", &attr, 1, inputs, inputs[1] ? 2 : 1);
  return rlx_graph_status(g);
}

static const rlx_op trilu = {
    .struct_size = sizeof(rlx_op),
    .name = "onnx.Trilu",
    .version = 14,
    .doc = "The upper or lower triangle of each matrix, from the k-th diagonal on; zeros elsewhere.",
    .samples = (const char *const[]){"float[3,4]", "float[2,4,3] {upper = 0}", NULL},
    .inputs = trilu_inputs,
    .outputs = trilu_outputs,
    .attrs = trilu_attrs,
    .params_size = sizeof(trilu_params),
    .traits = RLX_PURE,
    .infer = trilu_infer,
    .vjp = trilu_vjp,
    .eval = trilu_eval,
};

/* ---- EyeLike ------------------------------------------------------------------------------ */

typedef struct eye_params {
  uint64_t given;
  int64_t dtype, k;
} eye_params;

static const rlx_attr_def eye_attrs[] = {{.name = "dtype", .kind = RLX_ATTR_INT, .offset = offsetof(eye_params, dtype)},
                                         {.name = "k", .kind = RLX_ATTR_INT, .offset = offsetof(eye_params, k)},
                                         {0}};
#define EYE_TYPES (RLX_SET_NUMBERS | RLX_SET(RLX_BOOL))
static const rlx_port eye_inputs[] = {{.name = "input", .dtypes = EYE_TYPES}, {0}};
static const rlx_port eye_outputs[] = {{.name = "output", .dtypes = EYE_TYPES}, {0}};

static rlx_status eye_infer(rlx_infer *ctx) {
  const eye_params *p = rlx_infer_params(ctx);
  const rlx_type *x = rlx_infer_input(ctx, 0);
  if (x->rank >= 0 && x->rank != 2) return rlx_fail(ctx, RLX_INVALID, "input has rank %d, not 2", x->rank);
  rlx_infer_like(ctx, 0, 0);
  if (p->given & 1u) {
    if (p->dtype <= 0 || p->dtype >= RLX_DTYPE_COUNT || !(EYE_TYPES & (UINT64_C(1) << p->dtype)))
      return rlx_fail(ctx, RLX_INVALID, "dtype is %lld", (long long)p->dtype);
    rlx_infer_output(ctx, 0)->dtype = (rlx_dtype)p->dtype;
  }
  return RLX_OK;
}

static rlx_status eye_eval(rlx_ctx *ctx) {
  const eye_params *p = ctx->params;
  const rlx_operand *y = &ctx->outputs[0];
  int64_t rows = y->dims[0], columns = y->dims[1], k = p->k;
  memset(y->data, 0, (size_t)y->bytes);
  if (k >= columns || k <= -rows) return RLX_OK;
  for (int64_t r = k < 0 ? -k : 0; r < rows && r + k < columns; r++)
    dtype_store(y->dtype, y->data, r * columns + r + k, 1);
  return RLX_OK;
}

static const rlx_op eye_like = {
    .struct_size = sizeof(rlx_op),
    .name = "onnx.EyeLike",
    .version = 9,
    .doc = "Ones on the k-th diagonal of a matrix with the input's dims, zeros elsewhere.",
    .samples = (const char *const[]){"float[3,4]", "int32[4,3] {k = -1, dtype = 1}", NULL},
    .inputs = eye_inputs,
    .outputs = eye_outputs,
    .attrs = eye_attrs,
    .params_size = sizeof(eye_params),
    .traits = RLX_PURE | RLX_SHAPE_ONLY | RLX_STOP_GRADIENT,
    .no_derivative = "the dims of the input matter, not what it holds",
    .infer = eye_infer,
    .eval = eye_eval,
};

static const rlx_op *const ops[] = {&trilu, &eye_like, NULL};
const rlx_module ops_trilu = {.ops = ops};
