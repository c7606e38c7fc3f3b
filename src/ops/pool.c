/* pool.c — onnx.MaxPool, AveragePool, LpPool and their global forms. */
#include "ops/pool.h"

#include <math.h>
#include <string.h>

#include "base/status.h"
#include "ir/module.h"
#include "ops/_number.h"

typedef enum pool_mode { POOL_MAX, POOL_AVERAGE, POOL_LP } pool_mode;

typedef struct pool_task {
  window window;
  pool_mode mode;
  bool include_pad, column_major;
  double p;
  const void *x;
  void *y;
  int64_t *indices; /* NULL: not wanted */
} pool_task;

static double lowest(rlx_dtype t) { return t == RLX_INT8 ? -128 : t == RLX_UINT8 ? 0 : -INFINITY; }

/* Where tap `tap` of output position `at` lies: -1 in the padding, -2 past it. */
static int64_t tap_position(const window *w, const int64_t *at, const int64_t *tap) {
  int64_t flat = 0;
  bool inside = true, padded = true;
  for (int d = 0; d < w->rank; d++) {
    int64_t i = at[d] * w->stride[d] - w->begin[d] + tap[d] * w->dilation[d];
    inside = inside && i >= 0 && i < w->in[d];
    padded = padded && i < w->in[d] + w->end[d];
    flat = flat * w->in[d] + i;
  }
  return inside ? flat : padded ? -1 : -2;
}

/* A row-major position as a column-major one. */
static int64_t transposed(const window *w, int64_t flat) {
  int64_t scale = window_in_count(w), result = 0;
  for (int d = w->rank - 1; d >= 0; d--) {
    scale /= w->in[d];
    result += flat % w->in[d] * scale;
    flat /= w->in[d];
  }
  return result;
}

NUMBER_INLINE void pool_one(rlx_dtype dtype, const pool_task *t, int64_t plane, const int64_t *at, int64_t to) {
  const window *w = &t->window;
  int64_t tap[WINDOW_MAX] = {0}, base = plane * window_in_count(w), count = 0, where = -1;
  double result = t->mode == POOL_MAX ? lowest(dtype) : 0;
  do {
    int64_t from = tap_position(w, at, tap);
    if (from < 0) {
      count += t->include_pad && from == -1;
      continue;
    }
    double v = number_load(dtype, t->x, base + from);
    count++;
    if (t->mode == POOL_MAX) {
      if (v > result || v != v || where < 0) result = v, where = from;
    } else {
      result += t->mode == POOL_AVERAGE ? v : t->p == 2 ? v * v : t->p == 1 ? fabs(v) : pow(fabs(v), t->p);
    }
  } while (window_next(w->rank, w->kernel, tap));
  if (t->mode == POOL_AVERAGE) result = count ? result / (double)count : 0;
  if (t->mode == POOL_LP) result = t->p == 2 ? sqrt(result) : pow(result, 1 / t->p);
  number_store(dtype, t->y, to, result);
  if (t->indices) t->indices[to] = where < 0 ? -1 : base + (t->column_major ? transposed(w, where) : where);
}

NUMBER_INLINE void pool_planes(rlx_dtype dtype, const pool_task *t, int64_t begin, int64_t end) {
  int64_t out = window_out_count(&t->window);
  for (int64_t plane = begin; plane < end; plane++) {
    int64_t at[WINDOW_MAX] = {0}, to = plane * out;
    do {
      pool_one(dtype, t, plane, at, to++);
    } while (window_next(t->window.rank, t->window.out, at));
  }
}

#define PLANES(name, dtype)                                                                                            \
  static void planes_##name(void *arg, int64_t begin, int64_t end) { pool_planes(dtype, arg, begin, end); }
PLANES(float, RLX_FLOAT)
PLANES(double, RLX_DOUBLE)
PLANES(float16, RLX_FLOAT16)
PLANES(bfloat16, RLX_BFLOAT16)
PLANES(int8, RLX_INT8)
PLANES(uint8, RLX_UINT8)
#undef PLANES

static rlx_status run_pool(rlx_ctx *ctx, pool_task *t) {
  const rlx_operand *x = &ctx->inputs[0];
  t->x = x->data;
  t->y = ctx->outputs[0].data;
  if (ctx->output_count > 1) t->indices = ctx->outputs[1].data;
  if (ctx->outputs[0].count == 0) return RLX_OK;
  static void (*const bodies[RLX_DTYPE_COUNT])(void *, int64_t, int64_t) = {
      [RLX_FLOAT] = planes_float,       [RLX_DOUBLE] = planes_double, [RLX_FLOAT16] = planes_float16,
      [RLX_BFLOAT16] = planes_bfloat16, [RLX_INT8] = planes_int8,     [RLX_UINT8] = planes_uint8};
  if (!bodies[x->dtype]) return rlx_fail(ctx, RLX_UNSUPPORTED, "element type %s", rlx_dtype_name(x->dtype));
  rlx_parallel_for(ctx, x->dims[0] * x->dims[1], 1, bodies[x->dtype], t);
  return RLX_OK;
}

static rlx_status infer_pool(rlx_infer *ctx) {
  const pool_params *p = rlx_infer_params(ctx);
  if (rlx_infer_output_count(ctx) > 1) rlx_infer_output(ctx, 1)->dtype = RLX_INT64;
  return window_infer_pool(ctx, &p->window);
}

static rlx_status eval_max(rlx_ctx *ctx) {
  const pool_params *p = ctx->params;
  pool_task t = {.mode = POOL_MAX, .column_major = p->storage_order != 0};
  RLX_TRY(window_of_pool(ctx, &p->window, &t.window));
  return run_pool(ctx, &t);
}

static rlx_status eval_average(rlx_ctx *ctx) {
  const pool_params *p = ctx->params;
  pool_task t = {.mode = POOL_AVERAGE, .include_pad = p->count_include_pad != 0};
  RLX_TRY(window_of_pool(ctx, &p->window, &t.window));
  return run_pool(ctx, &t);
}

static rlx_status eval_lp(rlx_ctx *ctx) {
  const pool_params *p = ctx->params;
  pool_task t = {.mode = POOL_LP, .p = p->p ? (double)p->p : (double)p->p_real};
  RLX_TRY(window_of_pool(ctx, &p->window, &t.window));
  return run_pool(ctx, &t);
}

/* ---- global forms ----------------------------------------------------------------------------------------------- */

static rlx_status infer_global(rlx_infer *ctx) {
  const rlx_type *x = rlx_infer_input(ctx, 0);
  if (x->rank == RLX_UNKNOWN) return RLX_OK;
  if (x->rank < 2) return rlx_fail(ctx, RLX_INVALID, "an input of rank %d has no spatial axes", x->rank);
  int64_t dims[RLX_MAX_RANK] = {x->dims[0], x->dims[1]};
  for (int d = 2; d < x->rank; d++) dims[d] = 1;
  rlx_infer_set(ctx, 0, x->rank, dims);
  return RLX_OK;
}

static rlx_status eval_global(rlx_ctx *ctx, pool_mode mode, double p) {
  const rlx_operand *x = &ctx->inputs[0];
  if (x->rank < 2) return rlx_fail(ctx, RLX_INVALID, "an input of rank %d has no spatial axes", x->rank);
  int64_t spatial = 1;
  for (int d = 2; d < x->rank; d++) spatial *= x->dims[d];
  if (spatial == 0) return rlx_fail(ctx, RLX_INVALID, "the spatial axes are empty");
  pool_task t = {.mode = mode, .p = p};
  t.window = (window){.rank = 1, .in = {spatial}, .kernel = {spatial}, .stride = {1}, .dilation = {1}, .out = {1}};
  return run_pool(ctx, &t);
}

static rlx_status eval_global_max(rlx_ctx *ctx) { return eval_global(ctx, POOL_MAX, 0); }
static rlx_status eval_global_average(rlx_ctx *ctx) { return eval_global(ctx, POOL_AVERAGE, 0); }
static rlx_status eval_global_lp(rlx_ctx *ctx) {
  const pool_params *p = ctx->params;
  return eval_global(ctx, POOL_LP, p->p ? (double)p->p : (double)p->p_real);
}

/* Every element of a channel has the same share of its mean. */
static rlx_status vjp_global_average(rlx_graph *g, const rlx_node *n, rlx_value *const *dy, rlx_value **dx) {
  rlx_value *x = rlx_node_input(n, 0), *y = rlx_node_output(n, 0), *in[2];
  if (!dy[0]) return RLX_OK;
#define OP(op_name, ...)                                                                                               \
  rlx_graph_op(g, "onnx." op_name, NULL, 0, (rlx_value *[]){__VA_ARGS__},                                              \
               (int)(sizeof((rlx_value *[]){__VA_ARGS__}) / sizeof(rlx_value *)))
  in[0] = OP("CastLike", OP("Size", y), x);
  in[1] = OP("CastLike", OP("Size", x), x);
  dx[0] = OP("Expand", OP("Mul", dy[0], OP("Div", in[0], in[1])), OP("Shape", x));
#undef OP
  return rlx_graph_status(g);
}

/* ---- records ---------------------------------------------------------------------------------------------------- */

#define PORTS(set) (const rlx_port[]){{"X", "T", (set), 0, 0}, {0}}
#define OUTPUT(set) (const rlx_port[]){{"Y", "T", (set), 0, 0}, {0}}
#define RANGED_P                                                                                                       \
  {.name = "p", .kind = RLX_ATTR_INT, .flags = RLX_RANGED, .offset = offsetof(pool_params, p), .default_int = 2,       \
   .min = 1, .max = INT32_MAX}
#define REAL_P                                                                                                         \
  {.name = "p", .kind = RLX_ATTR_FLOAT, .flags = RLX_RANGED, .offset = offsetof(pool_params, p_real),                  \
   .default_float = 2, .min = 1e-6, .max = 1e6}
#define RECORD(op_name, since, text, input_set, output_ports, attr_rows, infer_fn, eval_fn, derive_fn, ...)                       \
  {                                                                                                                    \
    .struct_size = sizeof(rlx_op), .name = op_name, .version = since, .doc = text, .inputs = PORTS(input_set),         \
    .outputs = output_ports, .attrs = attr_rows, .params_size = sizeof(pool_params), .traits = RLX_PURE,               \
    .infer = infer_fn, .eval = eval_fn, .derive = derive_fn, .samples = (const char *const[]){__VA_ARGS__, NULL}                            \
  }

static const rlx_attr_def max_attrs[] = {
    WINDOW_ATTRS(pool_params),
    WINDOW_KERNEL(pool_params, RLX_REQUIRED),
    WINDOW_CEIL(pool_params),
    {.name = "storage_order", .kind = RLX_ATTR_INT, .offset = offsetof(pool_params, storage_order)},
    {0}};
static const rlx_attr_def average_attrs[] = {
    WINDOW_ATTRS(pool_params),
    WINDOW_KERNEL(pool_params, RLX_REQUIRED),
    WINDOW_CEIL(pool_params),
    {.name = "count_include_pad", .kind = RLX_ATTR_INT, .offset = offsetof(pool_params, count_include_pad)},
    {0}};
static const rlx_attr_def lp_attrs[] = {
    WINDOW_ATTRS(pool_params), WINDOW_KERNEL(pool_params, RLX_REQUIRED), WINDOW_CEIL(pool_params), RANGED_P, {0}};
static const rlx_attr_def lp1_attrs[] = {
    WINDOW_ATTRS(pool_params), WINDOW_KERNEL(pool_params, RLX_REQUIRED), REAL_P, {0}};
static const rlx_attr_def global_lp_attrs[] = {RANGED_P, {0}};
static const rlx_attr_def global_lp1_attrs[] = {REAL_P, {0}};

#define MAX_SET (RLX_SET_FLOATS | RLX_SET(RLX_INT8) | RLX_SET(RLX_UINT8))
static const rlx_port max_outputs[] = {
    {"Y", "T", MAX_SET, 0, 0}, {"Indices", "I", RLX_SET(RLX_INT64), RLX_OPTIONAL, 0}, {0}};
static const rlx_op max_pool = RECORD("onnx.MaxPool", 1, "Largest element of each window, and where it lies.", MAX_SET,
                                      max_outputs, max_attrs, infer_pool, eval_max, pool_derive_max,
                                      "float[1,2,5,6] {kernel_shape = [3,2], strides = [2,1], pads = [1,0,1,0]}",
                                      "uint8[1,1,9] {kernel_shape = [2], strides = [2], ceil_mode = 1}");
static const rlx_op average_pool =
    RECORD("onnx.AveragePool", 1, "Mean of each window; padding counts if count_include_pad says so.", RLX_SET_FLOATS,
           OUTPUT(RLX_SET_FLOATS), average_attrs, infer_pool, eval_average, pool_derive_average,
           "float[1,2,5,6] {kernel_shape = [3,2], strides = [2,1], pads = [1,0,1,0]}",
           "float[1,1,4,4,4] {kernel_shape = [2,2,2], auto_pad = \"SAME_LOWER\"}");
static const rlx_op lp_pool =
    RECORD("onnx.LpPool", 2, "Lp norm of each window.", RLX_SET_FLOATS, OUTPUT(RLX_SET_FLOATS), lp_attrs, infer_pool,
           eval_lp, pool_derive_lp, "float[1,2,5,6] {kernel_shape = [3,2], p = 3}");
static const rlx_op lp_pool1 =
    RECORD("onnx.LpPool", 1, "Lp norm of each window, p a real number.", RLX_SET_FLOATS, OUTPUT(RLX_SET_FLOATS),
           lp1_attrs, infer_pool, eval_lp, pool_derive_lp, "float[1,2,5,6] {kernel_shape = [3,2], p = 1.5}");
static const rlx_op global_max =
    RECORD("onnx.GlobalMaxPool", 1, "Largest element of each channel.", RLX_SET_FLOATS, OUTPUT(RLX_SET_FLOATS), NULL,
           infer_global, eval_global_max, pool_derive_global_max, "float[2,3,4,5]");
static const rlx_op global_average = {
    .struct_size = sizeof(rlx_op),
    .name = "onnx.GlobalAveragePool",
    .version = 1,
    .doc = "Mean of each channel.",
    .samples = (const char *const[]){"float[2,3,4,5]", NULL},
    .inputs = PORTS(RLX_SET_FLOATS),
    .outputs = OUTPUT(RLX_SET_FLOATS),
    .traits = RLX_PURE,
    .infer = infer_global,
    .vjp = vjp_global_average,
    .eval = eval_global_average,
};
static const rlx_op global_lp =
    RECORD("onnx.GlobalLpPool", 2, "Lp norm of each channel.", RLX_SET_FLOATS, OUTPUT(RLX_SET_FLOATS), global_lp_attrs,
           infer_global, eval_global_lp, pool_derive_global_lp, "float[2,3,4,5] {p = 1}");
static const rlx_op global_lp1 =
    RECORD("onnx.GlobalLpPool", 1, "Lp norm of each channel, p a real number.", RLX_SET_FLOATS, OUTPUT(RLX_SET_FLOATS),
           global_lp1_attrs, infer_global, eval_global_lp, pool_derive_global_lp, "float[2,3,4,5] {p = 2.5}");

static const rlx_op *const ops[] = {&max_pool,       &average_pool, &lp_pool,    &lp_pool1, &global_max,
                                    &global_average, &global_lp,    &global_lp1, NULL};
const rlx_module ops_pool = {.ops = ops};
