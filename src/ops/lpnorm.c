/* lpnorm.c — onnx.LpNormalization and MeanVarianceNormalization. */
#include <math.h>
#include <string.h>

#include "base/status.h"
#include "ir/module.h"
#include "ir/shape.h"
#include "ops/_derivative.h"
#include "ops/_number.h"

typedef struct norm_params {
  uint64_t given;
  int64_t axis, p; /* LpNormalization */
  rlx_ints axes;   /* MeanVarianceNormalization */
} norm_params;

static rlx_status infer_lp(rlx_infer *ctx) {
  const norm_params *p = rlx_infer_params(ctx);
  const rlx_type *x = rlx_infer_input(ctx, 0);
  if (x->rank != RLX_UNKNOWN && axis_normalise(p->axis, x->rank) < 0) {
    return rlx_fail(ctx, RLX_INVALID, "axis %lld is outside rank %d", (long long)p->axis, x->rank);
  }
  rlx_infer_like(ctx, 0, 0);
  return RLX_OK;
}

/* Where the norm is 0 so is the result. */
NUMBER_INLINE rlx_status lp_body(rlx_dtype t, rlx_ctx *ctx) {
  const norm_params *p = ctx->params;
  const rlx_operand *x = &ctx->inputs[0];
  void *y = ctx->outputs[0].data;
  int axis = axis_normalise(p->axis, x->rank);
  if (axis < 0) return rlx_fail(ctx, RLX_INVALID, "axis %lld is outside rank %d", (long long)p->axis, x->rank);
  int64_t count = x->dims[axis], inner = 1;
  for (int d = axis + 1; d < x->rank; d++) inner *= x->dims[d];
  int64_t lines = count ? x->count / count : 0;
  for (int64_t i = 0; i < lines; i++) {
    int64_t at = i / inner * inner * count + i % inner;
    double sum = 0;
    for (int64_t j = 0; j < count; j++) {
      double v = number_load(t, x->data, at + j * inner);
      sum += p->p == 1 ? fabs(v) : v * v;
    }
    double norm = p->p == 1 ? sum : sqrt(sum);
    for (int64_t j = 0; j < count; j++) {
      number_store(t, y, at + j * inner, norm == 0 ? 0 : number_load(t, x->data, at + j * inner) / norm);
    }
  }
  return RLX_OK;
}
static rlx_status eval_lp(rlx_ctx *ctx) { DISPATCH_FLOATS(ctx->inputs[0].dtype, lp_body, ctx) }

static rlx_value *op(rlx_graph *g, const char *name, rlx_value *a, rlx_value *b) {
  return rlx_graph_op(g, name, NULL, 0, (rlx_value *[]){a, b}, b ? 2 : 1);
}

static rlx_value *mean_along(rlx_graph *g, rlx_value *v, const rlx_ints *axes) {
  rlx_tensor *t;
  rlx_status status = rlx_tensor_create(RLX_INT64, 1, &axes->count, &t);
  if (status) {
    rlx_graph_fail(g, status, "no memory for a constant");
    return NULL;
  }
  if (axes->count) memcpy(rlx_tensor_data(t), axes->data, (size_t)axes->count * sizeof(int64_t));
  rlx_value *value = rlx_graph_constant(g, NULL, t);
  rlx_tensor_destroy(t);
  return op(g, "onnx.ReduceMean", v, value);
}

/* (x - mean) / (deviation + 1e-9) */
static rlx_status lower_mean_variance(rlx_graph *g, const rlx_node *n, rlx_value **outputs) {
  const norm_params *p = rlx_node_params(n);
  rlx_value *x = rlx_node_input(n, 0);
  rlx_value *centred = op(g, "onnx.Sub", x, mean_along(g, x, &p->axes));
  rlx_value *deviation = op(g, "onnx.Sqrt", mean_along(g, op(g, "onnx.Mul", centred, centred), &p->axes), NULL);
  rlx_tensor *t;
  rlx_status status = rlx_tensor_create(RLX_FLOAT, 0, NULL, &t);
  if (status) return rlx_graph_fail(g, status, "no memory for a constant");
  *(float *)rlx_tensor_data(t) = 1e-9f;
  rlx_value *tiny = rlx_graph_constant(g, NULL, t);
  rlx_tensor_destroy(t);
  outputs[0] = op(g, "onnx.Div", centred, op(g, "onnx.Add", deviation, op(g, "onnx.CastLike", tiny, x)));
  return rlx_graph_status(g);
}

/* Where the norm is 0 so is the result. */
static rlx_status derive_lp(rlx_graph *g, const rlx_node *n, rlx_value **outputs) {
  const norm_params *p = rlx_node_params(n);
  rlx_value *x = rlx_node_input(n, 0);
  const char *dtype = rlx_dtype_name(rlx_value_type(x)->dtype);
  return derivative_text(g, &x, outputs,
                         "norm (x) => (y) <int64[1] axis = {%lld}, %s zero = {0}, %s one = {1}> {"
                         " n = ReduceL%lld (x, axis) none = Equal (n, zero) d = Where (none, one, n) y = Div (x, d) }",
                         (long long)p->axis, dtype, dtype, (long long)p->p);
}

static const rlx_port inputs[] = {{"input", "T", RLX_SET_FLOATS, 0, 0}, {0}};
static const rlx_port outputs[] = {{"output", "T", RLX_SET_FLOATS, 0, 0}, {0}};
static const rlx_attr_def lp_attrs[] = {
    {.name = "axis", .kind = RLX_ATTR_INT, .offset = offsetof(norm_params, axis), .default_int = -1},
    {.name = "p",
     .kind = RLX_ATTR_INT,
     .flags = RLX_RANGED,
     .offset = offsetof(norm_params, p),
     .default_int = 2,
     .min = 1,
     .max = 2},
    {0}};
static const int64_t default_axes[] = {0, 2, 3};
static const rlx_attr_def mean_variance_attrs[] = {
    {.name = "axes", .kind = RLX_ATTR_INTS, .offset = offsetof(norm_params, axes), .default_ints = {default_axes, 3}},
    {0}};

static const rlx_op lp_normalization = {
    .struct_size = sizeof(rlx_op),
    .name = "onnx.LpNormalization",
    .version = 1,
    .doc = "x divided by its L1 or L2 norm along one axis.",
    .samples = (const char *const[]){"float[2,3,4]", "float[2,3,4] {axis = 1, p = 1}", NULL},
    .inputs = inputs,
    .outputs = outputs,
    .attrs = lp_attrs,
    .params_size = sizeof(norm_params),
    .traits = RLX_PURE,
    .infer = infer_lp,
    .derive = derive_lp,
    .eval = eval_lp,
};

static const rlx_op mean_variance_normalization = {
    .struct_size = sizeof(rlx_op),
    .name = "onnx.MeanVarianceNormalization",
    .version = 9,
    .doc = "(x - mean) / deviation over `axes`.",
    .samples = (const char *const[]){"float[2,3,4,5]", NULL},
    .inputs = inputs,
    .outputs = outputs,
    .attrs = mean_variance_attrs,
    .params_size = sizeof(norm_params),
    .traits = RLX_PURE,
    .lower = lower_mean_variance,
};

static const rlx_op *const ops[] = {&lp_normalization, &mean_variance_normalization, NULL};
const rlx_module ops_lpnorm = {.ops = ops};
