/* softmax.c — onnx.Softmax, LogSoftmax and Hardmax. */
#include "ops/softmax.h"

#include <math.h>

#include "base/status.h"
#include "ir/module.h"
#include "ir/shape.h"
#include "ops/_number.h"

const char *softmax_resolve(const softmax_params *p, int rank, const int64_t *dims, softmax_shape *out) {
  *out = (softmax_shape){1, 1, 1};
  if (rank == 0) return p->axis == 0 || p->axis == -1 ? NULL : rlx_reason("axis %lld of a scalar", (long long)p->axis);
  int axis = axis_normalise(p->axis, rank);
  if (axis < 0) return rlx_reason("axis %lld is outside rank %d", (long long)p->axis, rank);
  for (int d = 0; d < rank; d++) *(d < axis ? &out->outer : d == axis ? &out->count : &out->inner) *= dims[d];
  return NULL;
}

typedef enum softmax_mode { SOFTMAX, LOG_SOFTMAX, HARDMAX } softmax_mode;

typedef struct softmax_task {
  softmax_shape shape;
  softmax_mode mode;
  const void *x;
  void *y;
} softmax_task;

/* One line along the axis, starting at `at`. */
NUMBER_INLINE void softmax_line(rlx_dtype t, const softmax_task *task, int64_t at) {
  const softmax_shape *s = &task->shape;
  int64_t peak_at = 0;
  double peak = -INFINITY, sum = 0;
  for (int64_t i = 0; i < s->count; i++) {
    double v = number_load(t, task->x, at + i * s->inner);
    if (v > peak || v != v) peak = v, peak_at = i;
  }
  if (task->mode == HARDMAX) {
    for (int64_t i = 0; i < s->count; i++) number_store(t, task->y, at + i * s->inner, i == peak_at);
    return;
  }
  for (int64_t i = 0; i < s->count; i++) sum += exp(number_load(t, task->x, at + i * s->inner) - peak);
  double scale = 1 / sum, log_sum = log(sum);
  for (int64_t i = 0; i < s->count; i++) {
    double v = number_load(t, task->x, at + i * s->inner) - peak;
    number_store(t, task->y, at + i * s->inner, task->mode == SOFTMAX ? exp(v) * scale : v - log_sum);
  }
}

NUMBER_INLINE void softmax_range(rlx_dtype t, const softmax_task *task, int64_t begin, int64_t end) {
  const softmax_shape *s = &task->shape;
  for (int64_t i = begin; i < end; i++) softmax_line(t, task, i / s->inner * s->count * s->inner + i % s->inner);
}

static void range_float(void *arg, int64_t begin, int64_t end) { softmax_range(RLX_FLOAT, arg, begin, end); }
static void range_double(void *arg, int64_t begin, int64_t end) { softmax_range(RLX_DOUBLE, arg, begin, end); }
static void range_float16(void *arg, int64_t begin, int64_t end) { softmax_range(RLX_FLOAT16, arg, begin, end); }
static void range_bfloat16(void *arg, int64_t begin, int64_t end) { softmax_range(RLX_BFLOAT16, arg, begin, end); }

static rlx_status eval_mode(rlx_ctx *ctx, softmax_mode mode) {
  const rlx_operand *x = &ctx->inputs[0];
  softmax_task task = {.mode = mode, .x = x->data, .y = ctx->outputs[0].data};
  const char *bad = softmax_resolve(ctx->params, x->rank, x->dims, &task.shape);
  if (bad) return rlx_fail(ctx, RLX_INVALID, "%s", bad);
  if (x->count == 0) return RLX_OK;
  static void (*const bodies[RLX_DTYPE_COUNT])(void *, int64_t, int64_t) = {[RLX_FLOAT] = range_float,
                                                                            [RLX_DOUBLE] = range_double,
                                                                            [RLX_FLOAT16] = range_float16,
                                                                            [RLX_BFLOAT16] = range_bfloat16};
  if (!bodies[x->dtype]) return rlx_fail(ctx, RLX_UNSUPPORTED, "element type %s", rlx_dtype_name(x->dtype));
  rlx_parallel_for(ctx, task.shape.outer * task.shape.inner, 1 + 2048 / task.shape.count, bodies[x->dtype], &task);
  return RLX_OK;
}

static rlx_status eval_softmax(rlx_ctx *ctx) { return eval_mode(ctx, SOFTMAX); }
static rlx_status eval_log(rlx_ctx *ctx) { return eval_mode(ctx, LOG_SOFTMAX); }
static rlx_status eval_hardmax(rlx_ctx *ctx) { return eval_mode(ctx, HARDMAX); }

static rlx_status infer(rlx_infer *ctx) {
  const softmax_params *p = rlx_infer_params(ctx);
  const rlx_type *x = rlx_infer_input(ctx, 0);
  if (x->rank > 0 && axis_normalise(p->axis, x->rank) < 0) {
    return rlx_fail(ctx, RLX_INVALID, "axis %lld is outside rank %d", (long long)p->axis, x->rank);
  }
  rlx_infer_like(ctx, 0, 0);
  return RLX_OK;
}

/* ---- derivatives ------------------------------------------------------------------------------------------------ */

static rlx_value *sum_along(rlx_graph *g, rlx_value *v, int64_t axis) {
  rlx_tensor *t;
  int64_t one = 1;
  rlx_status status = rlx_tensor_create(RLX_INT64, 1, &one, &t);
  if (status) {
    rlx_graph_fail(g, status, "no memory for a constant");
    return NULL;
  }
  *(int64_t *)rlx_tensor_data(t) = axis;
  rlx_value *axes = rlx_graph_constant(g, NULL, t);
  rlx_tensor_destroy(t);
  return rlx_graph_op(g, "onnx.ReduceSum", NULL, 0, (rlx_value *[]){v, axes}, 2);
}

static rlx_value *binary(rlx_graph *g, const char *op, rlx_value *a, rlx_value *b) {
  return rlx_graph_op(g, op, NULL, 0, (rlx_value *[]){a, b}, 2);
}

/* dx = y (dy - sum(y dy)) */
static rlx_status vjp_softmax(rlx_graph *g, const rlx_node *n, rlx_value *const *dy, rlx_value **dx) {
  const softmax_params *p = rlx_node_params(n);
  if (!dy[0]) return RLX_OK;
  rlx_value *y = rlx_node_output(n, 0), *sum = sum_along(g, binary(g, "onnx.Mul", y, dy[0]), p->axis);
  dx[0] = binary(g, "onnx.Mul", y, binary(g, "onnx.Sub", dy[0], sum));
  return rlx_graph_status(g);
}

/* dx = dy - exp(y) sum(dy) */
static rlx_status vjp_log(rlx_graph *g, const rlx_node *n, rlx_value *const *dy, rlx_value **dx) {
  const softmax_params *p = rlx_node_params(n);
  if (!dy[0]) return RLX_OK;
  rlx_value *y = rlx_node_output(n, 0), *e = rlx_graph_op(g, "onnx.Exp", NULL, 0, &y, 1);
  dx[0] = binary(g, "onnx.Sub", dy[0], binary(g, "onnx.Mul", e, sum_along(g, dy[0], p->axis)));
  return rlx_graph_status(g);
}

/* ---- versions 1 and 11: the input seen as a matrix, split at `axis` --------------------------------------------- */

static rlx_status lower_to(rlx_graph *g, const rlx_node *n, const char *op, rlx_value **outputs) {
  const softmax_params *p = rlx_node_params(n);
  rlx_value *x = rlx_node_input(n, 0);
  const rlx_type *type = rlx_value_type(x);
  rlx_attr axis = RLX_ATTR_I("axis", -1);
  if (type->rank >= 1 && (p->axis == type->rank - 1 || p->axis == -1)) {
    outputs[0] = rlx_graph_op(g, op, &axis, 1, &x, 1);
    return rlx_graph_status(g);
  }
  rlx_attr split = RLX_ATTR_I("axis", p->axis);
  rlx_value *shape = rlx_graph_op(g, "onnx.Shape", NULL, 0, &x, 1);
  rlx_value *flat = rlx_graph_op(g, "onnx.Flatten", &split, 1, &x, 1);
  rlx_value *y = rlx_graph_op(g, op, &axis, 1, &flat, 1);
  rlx_attr zero = RLX_ATTR_I("allowzero", 1);
  outputs[0] = rlx_graph_op(g, "onnx.Reshape", &zero, 1, (rlx_value *[]){y, shape}, 2);
  return rlx_graph_status(g);
}

static rlx_status lower_softmax(rlx_graph *g, const rlx_node *n, rlx_value **y) {
  return lower_to(g, n, "onnx.Softmax", y);
}
static rlx_status lower_log(rlx_graph *g, const rlx_node *n, rlx_value **y) {
  return lower_to(g, n, "onnx.LogSoftmax", y);
}
static rlx_status lower_hardmax(rlx_graph *g, const rlx_node *n, rlx_value **y) {
  return lower_to(g, n, "onnx.Hardmax", y);
}

/* ---- records ---------------------------------------------------------------------------------------------------- */

static const rlx_port inputs[] = {{"input", "T", RLX_SET_FLOATS, 0, 0}, {0}};
static const rlx_port outputs[] = {{"output", "T", RLX_SET_FLOATS, 0, 0}, {0}};
static const char *const samples[] = {"float[3,7]", "float[2,5,3] {axis = 1}", "double[2,3,4] {axis = 0}", NULL};
#define AXIS(value)                                                                                                    \
  {.name = "axis", .kind = RLX_ATTR_INT, .offset = offsetof(softmax_params, axis), .default_int = (value)}
static const rlx_attr_def attrs[] = {AXIS(-1), {0}}, old_attrs[] = {AXIS(1), {0}};

#define RECORD(op_name, since, text, attr_rows, ...)                                                                   \
  {                                                                                                                    \
    .struct_size = sizeof(rlx_op), .name = op_name, .version = since, .doc = text, .samples = samples,                 \
    .inputs = inputs, .outputs = outputs, .attrs = attr_rows, .params_size = sizeof(softmax_params),                   \
    .infer = infer, __VA_ARGS__                                                                    \
  }
static const rlx_op softmax = RECORD("onnx.Softmax", 13, "exp(x) / sum(exp(x)) along one axis.", attrs,
                                     .traits = RLX_PURE, .eval = eval_softmax, .vjp = vjp_softmax);
static const rlx_op log_softmax = RECORD("onnx.LogSoftmax", 13, "x - log(sum(exp(x))) along one axis.", attrs,
                                         .traits = RLX_PURE, .eval = eval_log, .vjp = vjp_log);
static const rlx_op hardmax =
    RECORD("onnx.Hardmax", 13, "1 at the first largest element along one axis, 0 elsewhere.", attrs,
           .traits = RLX_PURE | RLX_STOP_GRADIENT, .eval = eval_hardmax, .no_derivative = "constant almost everywhere");
static const rlx_op softmax1 = RECORD("onnx.Softmax", 1, "Softmax over all axes from `axis` on together.", old_attrs,
                                      .traits = RLX_PURE, .lower = lower_softmax);
static const rlx_op log_softmax1 = RECORD("onnx.LogSoftmax", 1, "LogSoftmax over all axes from `axis` on together.",
                                          old_attrs, .traits = RLX_PURE, .lower = lower_log);
static const rlx_op hardmax1 = RECORD("onnx.Hardmax", 1, "Hardmax over all axes from `axis` on together.", old_attrs,
                                      .traits = RLX_PURE, .lower = lower_hardmax);

static const rlx_op *const ops[] = {&softmax, &log_softmax, &hardmax, &softmax1, &log_softmax1, &hardmax1, NULL};
const rlx_module ops_softmax = {.ops = ops};
