/* reduce.c — the ONNX reductions: ReduceSum, ReduceMean, ReduceMax … */
#include "ops/reduce.h"

#include <math.h>
#include <string.h>

#include "base/status.h"
#include "ir/module.h"
#include "ir/shape.h"
#include "ops/_number.h"
#include "ops/_window.h"

typedef enum reduce_mode {
  REDUCE_SUM,
  REDUCE_MEAN,
  REDUCE_MAX,
  REDUCE_MIN,
  REDUCE_PROD,
  REDUCE_L1,
  REDUCE_L2,
  REDUCE_LOG_SUM,
  REDUCE_LOG_SUM_EXP,
  REDUCE_SUM_SQUARE
} reduce_mode;

/* ---- geometry --------------------------------------------------------------------------------------------------- */

int64_t reduce_axes(int rank, const int64_t *axes, int64_t count, bool noop, uint32_t *mask) {
  *mask = 0;
  if (count == 0 && !noop) *mask = (UINT32_C(1) << rank) - 1;
  for (int64_t i = 0; i < count; i++) {
    int axis = axis_normalise(axes[i], rank);
    if (axis < 0 || (*mask >> axis & 1)) return i;
    *mask |= UINT32_C(1) << axis;
  }
  return -1;
}

void reduce_resolve(int rank, const int64_t *dims, uint32_t mask, reduce_shape *out) {
  *out = (reduce_shape){.outputs = 1, .count = 1};
  int64_t strides[RLX_MAX_RANK];
  shape_strides(rank, dims, strides);
  int last = -1; /* kind of the axis before: 1 reduced */
  for (int d = 0; d < rank; d++) {
    int kind = (int)(mask >> d & 1);
    *(kind ? &out->count : &out->outputs) *= dims[d];
    if (dims[d] == 1) continue;
    int *n = kind ? &out->reduced_rank : &out->kept_rank;
    int64_t *to = kind ? out->reduced : out->kept, *stride = kind ? out->reduced_stride : out->kept_stride;
    if (last == kind) {
      to[*n - 1] *= dims[d];
      stride[*n - 1] = strides[d];
    } else {
      to[*n] = dims[d];
      stride[(*n)++] = strides[d];
    }
    last = kind;
  }
}

rlx_status reduce_of_run(rlx_ctx *ctx, reduce_shape *out) {
  const reduce_params *p = ctx->params;
  const rlx_operand *x = &ctx->inputs[0];
  const rlx_operand *axes = ctx->input_count > 1 ? &ctx->inputs[1] : NULL;
  bool given = axes && axes->data;
  uint32_t mask;
  int64_t bad =
      reduce_axes(x->rank, given ? axes->data : NULL, given ? axes->count : 0, p->noop_with_empty_axes != 0, &mask);
  if (bad >= 0) {
    return rlx_fail(ctx, RLX_INVALID, "axis %lld is outside rank %d or repeated",
                    (long long)((const int64_t *)axes->data)[bad], x->rank);
  }
  reduce_resolve(x->rank, x->dims, mask, out);
  if (out->outputs != ctx->outputs[0].count) return rlx_fail(ctx, RLX_INVALID, "the output has another shape");
  return RLX_OK;
}

/* ---- inference -------------------------------------------------------------------------------------------------- */

static rlx_status infer_axes(rlx_infer *ctx, const int64_t *axes, int64_t count) {
  const reduce_params *p = rlx_infer_params(ctx);
  const rlx_type *x = rlx_infer_input(ctx, 0);
  if (x->rank == RLX_UNKNOWN) return RLX_OK;
  uint32_t mask;
  int64_t bad = reduce_axes(x->rank, axes, count, p->noop_with_empty_axes != 0, &mask);
  if (bad >= 0) {
    return rlx_fail(ctx, RLX_INVALID, "axis %lld is outside rank %d or repeated", (long long)axes[bad], x->rank);
  }
  int64_t dims[RLX_MAX_RANK];
  int rank = 0;
  for (int d = 0; d < x->rank; d++) {
    bool reduced = mask >> d & 1;
    if (!reduced || p->keepdims) dims[rank++] = reduced ? 1 : x->dims[d];
  }
  rlx_infer_set(ctx, 0, rank, dims);
  return RLX_OK;
}

static rlx_status infer(rlx_infer *ctx) {
  const reduce_params *p = rlx_infer_params(ctx);
  const rlx_type *x = rlx_infer_input(ctx, 0);
  const rlx_type *axes = rlx_infer_input_count(ctx) > 1 ? rlx_infer_input(ctx, 1) : NULL;
  if (!axes) return infer_axes(ctx, NULL, 0);
  const rlx_tensor *value = rlx_infer_value(ctx, 1);
  if (value) return infer_axes(ctx, rlx_tensor_data(value), rlx_tensor_count(value));
  int64_t dims[RLX_MAX_RANK], count = axes->rank == 1 ? axes->dims[0] : RLX_UNKNOWN;
  for (int d = 0; d < RLX_MAX_RANK; d++) dims[d] = RLX_UNKNOWN;
  if (x->rank == RLX_UNKNOWN) return RLX_OK;
  if (p->keepdims) {
    rlx_infer_set(ctx, 0, x->rank, dims);
  } else if (count > 0 && count <= x->rank) {
    rlx_infer_set(ctx, 0, x->rank - (int)count, dims);
  }
  return RLX_OK;
}

static rlx_status infer_old(rlx_infer *ctx) {
  const reduce_params *p = rlx_infer_params(ctx);
  return infer_axes(ctx, p->axes.data, p->axes.count);
}

/* ---- evaluation ------------------------------------------------------------------------------------------------- */

/* Running result of one output element. Integers use `whole` where the answer is exact. */
typedef struct running {
  double real, peak;
  int64_t whole;
} running;

NUMBER_INLINE bool exact(rlx_dtype t, reduce_mode m) {
  bool integer = t != RLX_FLOAT && t != RLX_DOUBLE && t != RLX_FLOAT16 && t != RLX_BFLOAT16;
  return integer && m != REDUCE_L2 && m != REDUCE_LOG_SUM && m != REDUCE_LOG_SUM_EXP;
}

#define EACH(...)                                                                                                      \
  for (int64_t i = 0; i < n; i++) {                                                                                    \
    double v = number_load(t, x, at + i * stride);                                                                     \
    __VA_ARGS__;                                                                                                       \
  }                                                                                                                    \
  break
#define EACH_INT(...)                                                                                                  \
  for (int64_t i = 0; i < n; i++) {                                                                                    \
    uint64_t v = (uint64_t)number_load_int(t, x, at + i * stride);                                                     \
    __VA_ARGS__;                                                                                                       \
  }                                                                                                                    \
  break

NUMBER_INLINE void add_real(rlx_dtype t, reduce_mode m, const void *x, int64_t at, int64_t n, int64_t stride,
                            running *r) {
  double sum = r->real;
  switch (m) {
    case REDUCE_MAX: EACH(if (v > sum || v != v) sum = v);
    case REDUCE_MIN: EACH(if (v < sum || v != v) sum = v);
    case REDUCE_PROD: EACH(sum *= v);
    case REDUCE_L1: EACH(sum += fabs(v));
    case REDUCE_L2:
    case REDUCE_SUM_SQUARE: EACH(sum += v * v);
    case REDUCE_LOG_SUM_EXP: EACH(sum += exp(v - r->peak));
    default: EACH(sum += v);
  }
  r->real = sum;
}

NUMBER_INLINE void add_whole(rlx_dtype t, reduce_mode m, const void *x, int64_t at, int64_t n, int64_t stride,
                             running *r) {
  uint64_t sum = (uint64_t)r->whole;
  bool is_unsigned = t == RLX_UINT64;
  switch (m) {
    case REDUCE_MAX: EACH_INT(if (is_unsigned ? v > sum : (int64_t)v > (int64_t)sum) sum = v);
    case REDUCE_MIN: EACH_INT(if (is_unsigned ? v < sum : (int64_t)v < (int64_t)sum) sum = v);
    case REDUCE_PROD: EACH_INT(sum *= v);
    case REDUCE_L1: EACH_INT(sum += !is_unsigned && (int64_t)v < 0 ? 0 - v : v);
    case REDUCE_SUM_SQUARE: EACH_INT(sum += v * v);
    default: EACH_INT(sum += v);
  }
  r->whole = (int64_t)sum;
}

/* What an empty reduction gives. */
static running start(rlx_dtype t, reduce_mode m) {
  running r = {0};
  if (m == REDUCE_PROD) r = (running){.real = 1, .whole = 1};
  if (m == REDUCE_MAX) r.real = -INFINITY;
  if (m == REDUCE_MIN) r.real = INFINITY;
  bool high = m == REDUCE_MIN;
  if (m != REDUCE_MAX && m != REDUCE_MIN) return r;
  switch (t) {
    case RLX_INT8: r.whole = high ? INT8_MAX : INT8_MIN; break;
    case RLX_INT16: r.whole = high ? INT16_MAX : INT16_MIN; break;
    case RLX_INT32: r.whole = high ? INT32_MAX : INT32_MIN; break;
    case RLX_INT64: r.whole = high ? INT64_MAX : INT64_MIN; break;
    case RLX_UINT8: r.whole = high ? UINT8_MAX : 0; break;
    case RLX_UINT16: r.whole = high ? UINT16_MAX : 0; break;
    case RLX_UINT32: r.whole = high ? UINT32_MAX : 0; break;
    case RLX_UINT64: r.whole = high ? -1 : 0; break;
    default: r.whole = high; break;
  }
  return r;
}

NUMBER_INLINE void walk(rlx_dtype t, reduce_mode m, const reduce_shape *s, const void *x, int64_t base, running *r) {
  if (s->count == 0) return;
  int last = s->reduced_rank - 1;
  int64_t n = last < 0 ? 1 : s->reduced[last], stride = last < 0 ? 1 : s->reduced_stride[last];
  int64_t index[RLX_MAX_RANK] = {0};
  do {
    int64_t at = base;
    for (int d = 0; d < last; d++) at += index[d] * s->reduced_stride[d];
    if (exact(t, m)) {
      add_whole(t, m, x, at, n, stride, r);
    } else {
      add_real(t, m, x, at, n, stride, r);
    }
  } while (last > 0 && window_next(last, s->reduced, index));
}

NUMBER_INLINE void finish(rlx_dtype t, reduce_mode m, int64_t count, const running *r, void *y, int64_t i) {
  if (m == REDUCE_MEAN && exact(t, m)) {
    int64_t mean = count == 0        ? 0
                   : t == RLX_UINT64 ? (int64_t)((uint64_t)r->whole / (uint64_t)count)
                                     : r->whole / count;
    number_store_int(t, y, i, mean);
  } else if (exact(t, m)) {
    number_store_int(t, y, i, r->whole);
  } else {
    double v = r->real;
    if (m == REDUCE_MEAN) v /= (double)count;
    if (m == REDUCE_L2) v = sqrt(v);
    if (m == REDUCE_LOG_SUM) v = log(v);
    if (m == REDUCE_LOG_SUM_EXP) v = r->peak + log(v);
    number_store(t, y, i, v);
  }
}

typedef struct reduce_task {
  reduce_shape shape;
  reduce_mode mode;
  const void *x;
  void *y;
} reduce_task;

NUMBER_INLINE void reduce_range(rlx_dtype t, const reduce_task *task, int64_t begin, int64_t end) {
  const reduce_shape *s = &task->shape;
  for (int64_t i = begin; i < end; i++) {
    int64_t base = 0, rest = i;
    for (int d = s->kept_rank - 1; d >= 0; d--) {
      base += rest % s->kept[d] * s->kept_stride[d];
      rest /= s->kept[d];
    }
    running r = start(t, task->mode);
    if (task->mode == REDUCE_LOG_SUM_EXP) {
      running peak = start(t, REDUCE_MAX);
      peak.real = -INFINITY;
      if (exact(t, REDUCE_MAX)) {
        walk(t, REDUCE_MAX, s, task->x, base, &peak);
        r.peak = s->count == 0 ? 0 : t == RLX_UINT64 ? (double)(uint64_t)peak.whole : (double)peak.whole;
      } else {
        walk(t, REDUCE_MAX, s, task->x, base, &peak);
        r.peak = isfinite(peak.real) ? peak.real : 0;
      }
    }
    walk(t, task->mode, s, task->x, base, &r);
    finish(t, task->mode, s->count, &r, task->y, i);
  }
}

#define X(dtype, c_type, compute, class)                                                                               \
  static void range_##dtype(void *arg, int64_t begin, int64_t end) { reduce_range(RLX_##dtype, arg, begin, end); }
#include "ir/dtype.def"
X(FLOAT16, , , )
X(BFLOAT16, , , )
#undef X

static rlx_status eval_mode(rlx_ctx *ctx, reduce_mode mode) {
  static void (*const bodies[RLX_DTYPE_COUNT])(void *, int64_t, int64_t) = {
#define X(dtype, c_type, compute, class) [RLX_##dtype] = range_##dtype,
#include "ir/dtype.def"
      X(FLOAT16, , , ) X(BFLOAT16, , , )
#undef X
  };
  reduce_task task = {.mode = mode, .x = ctx->inputs[0].data, .y = ctx->outputs[0].data};
  RLX_TRY(reduce_of_run(ctx, &task.shape));
  if (task.shape.outputs == 0) return RLX_OK;
  rlx_dtype dtype = ctx->inputs[0].dtype;
  if (!bodies[dtype]) return rlx_fail(ctx, RLX_UNSUPPORTED, "element type %s", rlx_dtype_name(dtype));
  rlx_parallel_for(ctx, task.shape.outputs, 1 + 8192 / (task.shape.count + 1), bodies[dtype], &task);
  return RLX_OK;
}

/* ---- old versions and derivatives ------------------------------------------------------------------------------- */

static rlx_value *ints_constant(rlx_graph *g, const int64_t *values, int64_t count) {
  rlx_tensor *t;
  rlx_status status = rlx_tensor_create(RLX_INT64, 1, &count, &t);
  if (status) {
    rlx_graph_fail(g, status, "no memory for a constant");
    return NULL;
  }
  if (count) memcpy(rlx_tensor_data(t), values, (size_t)count * sizeof *values);
  rlx_value *v = rlx_graph_constant(g, NULL, t);
  rlx_tensor_destroy(t);
  return v;
}

/* Attribute axes to input axes. */
static rlx_status lower_to(rlx_graph *g, const rlx_node *n, const char *op, rlx_value **outputs) {
  const reduce_params *p = rlx_node_params(n);
  rlx_attr keepdims = RLX_ATTR_I("keepdims", p->keepdims);
  rlx_value *inputs[2] = {rlx_node_input(n, 0), NULL};
  if (p->axes.count) inputs[1] = ints_constant(g, p->axes.data, p->axes.count);
  outputs[0] = rlx_graph_op(g, op, &keepdims, 1, inputs, p->axes.count ? 2 : 1);
  return rlx_graph_status(g);
}

/* The output's gradient with the reduced axes put back, as large as the input. Needs a static rank and axes. */
static rlx_value *spread(rlx_graph *g, const rlx_node *n, rlx_value *dy) {
  const reduce_params *p = rlx_node_params(n);
  rlx_value *x = rlx_node_input(n, 0), *axes = rlx_node_input(n, 1);
  if (!p->keepdims && axes) {
    dy = rlx_graph_op(g, "onnx.Unsqueeze", NULL, 0, (rlx_value *[]){dy, axes}, 2);
  } else if (!p->keepdims && !p->noop_with_empty_axes && rlx_value_type(x)->rank > 0) {
    int64_t all[RLX_MAX_RANK];
    for (int d = 0; d < rlx_value_type(x)->rank; d++) all[d] = d;
    dy = rlx_graph_op(g, "onnx.Unsqueeze", NULL, 0, (rlx_value *[]){dy, ints_constant(g, all, rlx_value_type(x)->rank)},
                      2);
  }
  rlx_value *shape = rlx_graph_op(g, "onnx.Shape", NULL, 0, &x, 1);
  return rlx_graph_op(g, "onnx.Expand", NULL, 0, (rlx_value *[]){dy, shape}, 2);
}

static rlx_status vjp_mode(rlx_graph *g, const rlx_node *n, rlx_value *const *dy, rlx_value **dx, reduce_mode m) {
  if (!dy[0]) return RLX_OK;
  rlx_value *x = rlx_node_input(n, 0), *y = rlx_node_output(n, 0), *d = spread(g, n, dy[0]);
#define OP(name, ...)                                                                                                  \
  rlx_graph_op(g, "onnx." name, NULL, 0, (rlx_value *[]){__VA_ARGS__},                                                 \
               (int)(sizeof((rlx_value *[]){__VA_ARGS__}) / sizeof(rlx_value *)))
  if (m == REDUCE_SUM) {
    dx[0] = d;
  } else if (m == REDUCE_MEAN) { /* the share of each element: outputs / inputs */
    rlx_value *ratio = OP("Div", OP("CastLike", OP("Size", y), x), OP("CastLike", OP("Size", x), x));
    dx[0] = OP("Mul", d, ratio);
  } else if (m == REDUCE_SUM_SQUARE) {
    dx[0] = OP("Mul", d, OP("Add", x, x));
  } else if (m == REDUCE_L1) {
    dx[0] = OP("Mul", d, OP("Sign", x));
  } else if (m == REDUCE_L2) {
    dx[0] = OP("Mul", d, OP("Div", x, spread(g, n, y)));
  } else if (m == REDUCE_LOG_SUM) {
    dx[0] = OP("Div", d, OP("Exp", spread(g, n, y)));
  } else if (m == REDUCE_LOG_SUM_EXP) {
    dx[0] = OP("Mul", d, OP("Exp", OP("Sub", x, spread(g, n, y))));
  } else if (m == REDUCE_PROD) {
    dx[0] = OP("Mul", d, OP("Div", spread(g, n, y), x));
  } else { /* extrema: shared equally among ties */
    rlx_value *hit = OP("CastLike", OP("Equal", x, spread(g, n, y)), x);
    rlx_attr keepdims = RLX_ATTR_I("keepdims", ((const reduce_params *)rlx_node_params(n))->keepdims);
    rlx_value *in[2] = {hit, rlx_node_input(n, 1)};
    rlx_value *ties = rlx_graph_op(g, "onnx.ReduceSum", &keepdims, 1, in, in[1] ? 2 : 1);
    dx[0] = OP("Mul", d, OP("Div", hit, spread(g, n, ties)));
  }
#undef OP
  return rlx_graph_status(g);
}

/* ---- records ---------------------------------------------------------------------------------------------------- */

#define USUAL                                                                                                          \
  (RLX_SET_FLOATS | RLX_SET(RLX_UINT32) | RLX_SET(RLX_UINT64) | RLX_SET(RLX_INT32) | RLX_SET(RLX_INT64))
#define EXTREMA (RLX_SET(RLX_INT8) | RLX_SET(RLX_UINT8) | RLX_SET(RLX_BOOL))
#define KEEPDIMS                                                                                                       \
  {.name = "keepdims", .kind = RLX_ATTR_INT, .offset = offsetof(reduce_params, keepdims), .default_int = 1}
static const rlx_attr_def attrs[] = {
    KEEPDIMS,
    {.name = "noop_with_empty_axes", .kind = RLX_ATTR_INT, .offset = offsetof(reduce_params, noop_with_empty_axes)},
    {0}};
static const rlx_attr_def old_attrs[] = {
    KEEPDIMS, {.name = "axes", .kind = RLX_ATTR_INTS, .offset = offsetof(reduce_params, axes)}, {0}};
static const char *const samples[] = {"float[2,3,4]", "double[2,3,4] {keepdims = 0}", "int32[3,4]", NULL};

/* REDUCE_SUM got its axes input at version 13, the others at 18. */
#define SINCE(mode) ((mode) == REDUCE_SUM ? 13 : 18)

static const char *const old_samples[] = {"float[2,3,4] {axes = [1]}", "float[2,3] {keepdims = 0}", NULL};
#define X(id, mode, set, text)                                                                                         \
  static rlx_status eval_##id(rlx_ctx *ctx) { return eval_mode(ctx, mode); }                                           \
  static rlx_status lower_##id(rlx_graph *g, const rlx_node *n, rlx_value **outputs) {                                 \
    return lower_to(g, n, "onnx.Reduce" #id, outputs);                                                                 \
  }                                                                                                                    \
  static rlx_status vjp_##id(rlx_graph *g, const rlx_node *n, rlx_value *const *dy, rlx_value **dx) {                  \
    return vjp_mode(g, n, dy, dx, mode);                                                                               \
  }                                                                                                                    \
  static const rlx_port outputs_##id[] = {{"reduced", "T", USUAL | (set), 0, 0}, {0}};                                 \
  static const rlx_port inputs_##id[] = {{"data", "T", USUAL | (set), 0, 0},                                           \
                                         {"axes", NULL, RLX_SET(RLX_INT64), RLX_OPTIONAL | RLX_HOST, 0},               \
                                         {0}};                                                                         \
  static const rlx_port old_inputs_##id[] = {{"data", "T", USUAL | (set), 0, 0}, {0}};                                 \
  static const rlx_op op_##id = {                                                                                      \
      .struct_size = sizeof(rlx_op), .name = "onnx.Reduce" #id, .version = SINCE(mode), .doc = text,                   \
      .samples = samples, .inputs = inputs_##id, .outputs = outputs_##id, .attrs = attrs,                              \
      .params_size = sizeof(reduce_params), .traits = RLX_PURE, .infer = infer, .vjp = vjp_##id, .eval = eval_##id};   \
  static const rlx_op old_##id = {                                                                                     \
      .struct_size = sizeof(rlx_op), .name = "onnx.Reduce" #id, .version = 1, .doc = text,                             \
      .samples = old_samples, .inputs = old_inputs_##id,                                                               \
      .outputs = outputs_##id, .attrs = old_attrs, .params_size = sizeof(reduce_params), .traits = RLX_PURE,           \
      .infer = infer_old, .lower = lower_##id};
#include "ops/reduce.def"
#undef X

static const rlx_op *const ops[] = {
#define X(id, mode, set, text) &op_##id, &old_##id,
#include "ops/reduce.def"
#undef X
    NULL};
const rlx_module ops_reduce = {.ops = ops};
