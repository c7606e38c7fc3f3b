/* layernorm.c — onnx.LayerNormalization and RMSNormalization. */
#include "ops/layernorm.h"

#include <math.h>

#include "base/status.h"
#include "ir/module.h"
#include "ir/shape.h"
#include "ops/_number.h"
#include "ops/_wide.h"

const char *layernorm_resolve(const layernorm_params *p, int rank, const int64_t *dims, layernorm_shape *out) {
  int axis = axis_normalise(p->axis, rank);
  if (axis < 0) return rlx_reason("axis %lld is outside rank %d", (long long)p->axis, rank);
  *out = (layernorm_shape){axis, 1, 1};
  for (int d = 0; d < rank; d++) *(d < axis ? &out->rows : &out->columns) *= dims[d];
  return NULL;
}

static rlx_status infer(rlx_infer *ctx, bool rms) {
  const layernorm_params *p = rlx_infer_params(ctx);
  const rlx_type *x = rlx_infer_input(ctx, 0);
  for (int i = 1; i < rlx_infer_output_count(ctx); i++) {
    rlx_infer_output(ctx, i)->dtype = (rlx_dtype)p->stash_type;
  }
  if (x->rank == RLX_UNKNOWN) return RLX_OK;
  int axis = axis_normalise(p->axis, x->rank);
  if (axis < 0) return rlx_fail(ctx, RLX_INVALID, "axis %lld is outside rank %d", (long long)p->axis, x->rank);
  rlx_infer_set(ctx, 0, x->rank, x->dims);
  if (rms) return RLX_OK;
  int64_t dims[RLX_MAX_RANK];
  for (int d = 0; d < x->rank; d++) dims[d] = d < axis ? x->dims[d] : 1;
  for (int i = 1; i < rlx_infer_output_count(ctx); i++) rlx_infer_set(ctx, i, x->rank, dims);
  return RLX_OK;
}
static rlx_status infer_layer(rlx_infer *ctx) { return infer(ctx, false); }
static rlx_status infer_rms(rlx_infer *ctx) { return infer(ctx, true); }

/* A tensor that broadcasts to X, as doubles; strides aligned with X's axes. */
typedef struct affine {
  wide values;
  bool per_row; /* it has exactly the normalised axes: element i of a row is values[i] */
  int64_t stride[RLX_MAX_RANK];
} affine;

static rlx_status affine_open(rlx_ctx *ctx, int input, affine *out, const layernorm_shape *s) {
  const rlx_operand *x = &ctx->inputs[0], *a = &ctx->inputs[input];
  int64_t strides[RLX_MAX_RANK];
  if (a->rank > x->rank) return rlx_fail(ctx, RLX_INVALID, "input %d has rank %d, X has %d", input, a->rank, x->rank);
  shape_strides(a->rank, a->dims, strides);
  out->per_row = a->count == s->columns;
  for (int d = 0; d < x->rank; d++) {
    int own = d - (x->rank - a->rank);
    int64_t dim = own < 0 ? 1 : a->dims[own];
    if (dim != 1 && dim != x->dims[d]) {
      return rlx_fail(ctx, RLX_INVALID, "input %d does not broadcast to X: axis %d has %lld for %lld", input, d,
                      (long long)dim, (long long)x->dims[d]);
    }
    out->stride[d] = dim == 1 ? 0 : strides[own];
    if (d < s->axis && dim != 1) out->per_row = false;
  }
  return wide_input(ctx, a, RLX_DOUBLE, &out->values);
}

typedef struct norm_task {
  layernorm_shape shape;
  bool rms;
  double epsilon;
  const rlx_operand *x, *y;
  affine scale, bias; /* bias.values.data NULL: none */
  const rlx_operand *mean, *inverse;
} norm_task;

/* The element of `a` for element i of the row that starts at `base`. */
static inline double affine_at(const affine *a, const norm_task *task, int64_t base, int64_t i) {
  const double *values = a->values.data;
  if (a->per_row) return values[i];
  int64_t at = 0, flat = base + i;
  for (int d = task->x->rank - 1; d >= 0; d--) {
    at += flat % task->x->dims[d] * a->stride[d];
    flat /= task->x->dims[d];
  }
  return values[at];
}

NUMBER_INLINE void norm_row(rlx_dtype t, const norm_task *task, int64_t row) {
  int64_t n = task->shape.columns, base = row * n;
  const void *x = task->x->data;
  double mean = 0, square = 0;
  if (!task->rms) {
    for (int64_t i = 0; i < n; i++) mean += number_load(t, x, base + i);
    mean /= (double)n;
  }
  for (int64_t i = 0; i < n; i++) {
    double v = number_load(t, x, base + i) - mean;
    square += v * v;
  }
  double inverse = 1 / sqrt(square / (double)n + task->epsilon);
  for (int64_t i = 0; i < n; i++) {
    double v = (number_load(t, x, base + i) - mean) * inverse * affine_at(&task->scale, task, base, i);
    if (task->bias.values.data) v += affine_at(&task->bias, task, base, i);
    number_store(task->y->dtype, task->y->data, base + i, v);
  }
  if (task->mean) dtype_store(task->mean->dtype, task->mean->data, row, mean);
  if (task->inverse) dtype_store(task->inverse->dtype, task->inverse->data, row, inverse);
}

NUMBER_INLINE void norm_rows(rlx_dtype t, const norm_task *task, int64_t begin, int64_t end) {
  for (int64_t row = begin; row < end; row++) norm_row(t, task, row);
}
static void rows_float(void *arg, int64_t begin, int64_t end) { norm_rows(RLX_FLOAT, arg, begin, end); }
static void rows_double(void *arg, int64_t begin, int64_t end) { norm_rows(RLX_DOUBLE, arg, begin, end); }
static void rows_float16(void *arg, int64_t begin, int64_t end) { norm_rows(RLX_FLOAT16, arg, begin, end); }
static void rows_bfloat16(void *arg, int64_t begin, int64_t end) { norm_rows(RLX_BFLOAT16, arg, begin, end); }

static const rlx_operand *wanted(const rlx_ctx *ctx, int i) {
  return i < ctx->output_count && ctx->outputs[i].data ? &ctx->outputs[i] : NULL;
}

static rlx_status eval(rlx_ctx *ctx, bool rms) {
  const layernorm_params *p = ctx->params;
  const rlx_operand *x = &ctx->inputs[0];
  norm_task task = {.rms = rms, .epsilon = (double)p->epsilon, .x = x, .y = &ctx->outputs[0]};
  const char *bad = layernorm_resolve(p, x->rank, x->dims, &task.shape);
  if (bad) return rlx_fail(ctx, RLX_INVALID, "%s", bad);
  task.mean = wanted(ctx, 1);
  task.inverse = wanted(ctx, 2);
  rlx_status status = affine_open(ctx, 1, &task.scale, &task.shape);
  if (!status && ctx->input_count > 2 && ctx->inputs[2].data) status = affine_open(ctx, 2, &task.bias, &task.shape);
  static void (*const bodies[RLX_DTYPE_COUNT])(void *, int64_t, int64_t) = {[RLX_FLOAT] = rows_float,
                                                                            [RLX_DOUBLE] = rows_double,
                                                                            [RLX_FLOAT16] = rows_float16,
                                                                            [RLX_BFLOAT16] = rows_bfloat16};
  if (!status && !bodies[x->dtype]) {
    status = rlx_fail(ctx, RLX_UNSUPPORTED, "element type %s", rlx_dtype_name(x->dtype));
  }
  if (!status && task.shape.rows > 0) {
    rlx_parallel_for(ctx, task.shape.rows, 1 + 4096 / (task.shape.columns + 1), bodies[x->dtype], &task);
  }
  wide_finish(&task.scale.values), wide_finish(&task.bias.values);
  return status;
}
static rlx_status eval_layer(rlx_ctx *ctx) { return eval(ctx, false); }
static rlx_status eval_rms(rlx_ctx *ctx) { return eval(ctx, true); }

static rlx_status vjp_layer(rlx_graph *g, const rlx_node *n, rlx_value *const *dy, rlx_value **dx) {
  for (int i = 1; i < rlx_node_output_count(n); i++) {
    if (dy[i]) return rlx_graph_fail(g, RLX_UNSUPPORTED, "the gradient of the mean or deviation of LayerNormalization");
  }
  return layernorm_vjp(g, n, dy, dx, false);
}
static rlx_status vjp_rms(rlx_graph *g, const rlx_node *n, rlx_value *const *dy, rlx_value **dx) {
  return layernorm_vjp(g, n, dy, dx, true);
}

/* ---- records ---------------------------------------------------------------------------------------------------- */

static const rlx_attr_def attrs[] = {
    {.name = "axis", .kind = RLX_ATTR_INT, .offset = offsetof(layernorm_params, axis), .default_int = -1},
    {.name = "epsilon", .kind = RLX_ATTR_FLOAT, .offset = offsetof(layernorm_params, epsilon), .default_float = 1e-5f},
    {.name = "stash_type",
     .kind = RLX_ATTR_INT,
     .flags = RLX_RANGED,
     .offset = offsetof(layernorm_params, stash_type),
     .default_int = RLX_FLOAT,
     .min = 1,
     .max = 16},
    {0}};
#define STASH (RLX_SET(RLX_FLOAT) | RLX_SET(RLX_BFLOAT16) | RLX_SET(RLX_DOUBLE) | RLX_SET(RLX_FLOAT16))

static const rlx_op layer_normalization = {
    .struct_size = sizeof(rlx_op),
    .name = "onnx.LayerNormalization",
    .version = 17,
    .doc = "(x - mean) / sqrt(variance + epsilon) * Scale + B over the axes from `axis` on.",
    .samples = (const char *const[]){"float[2,3,8], float[8], float[8]", "float[2,3,4], float[3,4] {axis = 1}",
                                     "double[4,5], double[5], double[5] {epsilon = 0.1}", NULL},
    .inputs = (const rlx_port[]){{"X", "T", RLX_SET_FLOATS, 0, 0},
                                 {"Scale", "T", RLX_SET_FLOATS, 0, 0},
                                 {"B", "T", RLX_SET_FLOATS, RLX_OPTIONAL, 0},
                                 {0}},
    .outputs = (const rlx_port[]){{"Y", "T", RLX_SET_FLOATS, 0, 0},
                                  {"Mean", "U", STASH, RLX_OPTIONAL, 0},
                                  {"InvStdDev", "U", STASH, RLX_OPTIONAL, 0},
                                  {0}},
    .attrs = attrs,
    .params_size = sizeof(layernorm_params),
    .traits = RLX_PURE,
    .infer = infer_layer,
    .vjp = vjp_layer,
    .eval = eval_layer,
};

static const rlx_op rms_normalization = {
    .struct_size = sizeof(rlx_op),
    .name = "onnx.RMSNormalization",
    .version = 23,
    .doc = "x / sqrt(mean(x²) + epsilon) * scale over the axes from `axis` on.",
    .samples = (const char *const[]){"float[2,3,8], float[8]", "float[2,3,4], float[3,4] {axis = 1}", NULL},
    .inputs = (const rlx_port[]){{"X", "T", RLX_SET_FLOATS, 0, 0}, {"scale", "V", RLX_SET_FLOATS, 0, 0}, {0}},
    .outputs = (const rlx_port[]){{"Y", "V", RLX_SET_FLOATS, 0, 0}, {0}},
    .attrs = attrs,
    .params_size = sizeof(layernorm_params),
    .traits = RLX_PURE,
    .infer = infer_rms,
    .vjp = vjp_rms,
    .eval = eval_rms,
};

static const rlx_op *const ops[] = {&layer_normalization, &rms_normalization, NULL};
const rlx_module ops_layernorm = {.ops = ops};
