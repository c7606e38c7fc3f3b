/* deformconv.c — onnx.DeformConv. */
#include <math.h>
#include <string.h>

#include "base/status.h"
#include "ir/dtype.h"
#include "ir/module.h"
#include "ops/_derivative.h"
#include "ops/_wide.h"
#include "ops/_window.h"

typedef struct deform_params {
  uint64_t given;
  window_attrs window;
  int64_t group, offset_group;
} deform_params;

typedef struct deform_task {
  window window;
  int64_t channels, maps, group, offset_group;
  const double *x, *w, *offset, *bias, *mask; /* bias and mask may be NULL */
  double *y;
} deform_task;

static rlx_status infer(rlx_infer *ctx) {
  const deform_params *p = rlx_infer_params(ctx);
  const rlx_type *x = rlx_infer_input(ctx, 0), *w = rlx_infer_input(ctx, 1), *offset = rlx_infer_input(ctx, 2);
  if ((x->rank != RLX_UNKNOWN && x->rank != 4) || (w->rank != RLX_UNKNOWN && w->rank != 4)) {
    return rlx_fail(ctx, RLX_INVALID, "an input of rank %d and weights of rank %d; both must be 4", x->rank, w->rank);
  }
  int64_t in[2], kernel[2];
  for (int d = 0; d < 2; d++) {
    in[d] = x->rank == 4 ? x->dims[d + 2] : RLX_UNKNOWN;
    kernel[d] = w->rank == 4 ? w->dims[d + 2] : RLX_UNKNOWN;
    if (kernel[d] == RLX_UNKNOWN && p->window.kernel_shape.count == 2) kernel[d] = p->window.kernel_shape.data[d];
  }
  window win;
  const char *bad = window_resolve(&p->window, 2, in, kernel, &win);
  if (bad) return rlx_fail(ctx, RLX_INVALID, "%s", bad);
  for (int d = 0; d < 2; d++) {
    if (win.out[d] == RLX_UNKNOWN && offset->rank == 4) win.out[d] = offset->dims[d + 2];
  }
  rlx_infer_set(ctx, 0, 4,
                (const int64_t[]){x->rank == 4 ? x->dims[0] : RLX_UNKNOWN, w->rank == 4 ? w->dims[0] : RLX_UNKNOWN,
                                  win.out[0], win.out[1]});
  return RLX_OK;
}

/* Bilinear value of a plane at (y, x); 0 outside. */
static double sample(const double *plane, const int64_t *dims, double y, double x) {
  if (!(y > -1 && y < (double)dims[0] && x > -1 && x < (double)dims[1])) return 0;
  int64_t y0 = (int64_t)floor(y), x0 = (int64_t)floor(x);
  double fy = y - (double)y0, fx = x - (double)x0, sum = 0;
  for (int i = 0; i < 2; i++) {
    for (int j = 0; j < 2; j++) {
      int64_t yi = y0 + i, xj = x0 + j;
      if (yi < 0 || yi >= dims[0] || xj < 0 || xj >= dims[1]) continue;
      sum += (i ? fy : 1 - fy) * (j ? fx : 1 - fx) * plane[yi * dims[1] + xj];
    }
  }
  return sum;
}

/* One output element. */
static double deform_one(const deform_task *t, int64_t n, int64_t map, int64_t oy, int64_t ox) {
  const window *w = &t->window;
  int64_t taps = w->kernel[0] * w->kernel[1], depth = t->channels / t->group, plane = w->out[0] * w->out[1];
  int64_t first = map / (t->maps / t->group) * depth, here = oy * w->out[1] + ox;
  double sum = t->bias ? t->bias[map] : 0;
  for (int64_t c = 0; c < depth; c++) {
    int64_t channel = first + c, block = n * t->offset_group + channel / (t->channels / t->offset_group);
    const double *x = t->x + (n * t->channels + channel) * w->in[0] * w->in[1];
    for (int64_t k = 0; k < taps; k++) {
      const double *offset = t->offset + (block * taps + k) * 2 * plane + here;
      double y_at = (double)(oy * w->stride[0] - w->begin[0] + k / w->kernel[1] * w->dilation[0]) + offset[0];
      double x_at = (double)(ox * w->stride[1] - w->begin[1] + k % w->kernel[1] * w->dilation[1]) + offset[plane];
      double v = sample(x, w->in, y_at, x_at) * t->w[(map * depth + c) * taps + k];
      sum += t->mask ? v * t->mask[(block * taps + k) * plane + here] : v;
    }
  }
  return sum;
}

static void run_rows(void *arg, int64_t begin, int64_t end) {
  const deform_task *t = arg;
  const window *w = &t->window;
  for (int64_t i = begin; i < end; i++) {
    int64_t row = i % w->out[0], map = i / w->out[0] % t->maps, n = i / w->out[0] / t->maps;
    for (int64_t x = 0; x < w->out[1]; x++) t->y[i * w->out[1] + x] = deform_one(t, n, map, row, x);
  }
}

static bool has_dims(const rlx_operand *o, int64_t a, int64_t b, int64_t c, int64_t d) {
  return o->rank == 4 && o->dims[0] == a && o->dims[1] == b && o->dims[2] == c && o->dims[3] == d;
}

static rlx_status resolve(rlx_ctx *ctx, deform_task *t) {
  const deform_params *p = ctx->params;
  const rlx_operand *in = ctx->inputs;
  if (in[0].rank != 4 || in[1].rank != 4) return rlx_fail(ctx, RLX_INVALID, "X and W must have rank 4");
  t->channels = in[0].dims[1], t->maps = in[1].dims[0], t->group = p->group, t->offset_group = p->offset_group;
  const char *bad = window_resolve(&p->window, 2, in[0].dims + 2, in[1].dims + 2, &t->window);
  if (bad) return rlx_fail(ctx, RLX_INVALID, "%s", bad);
  const window *w = &t->window;
  int64_t n = in[0].dims[0], taps = w->kernel[0] * w->kernel[1];
  if (t->channels != in[1].dims[1] * t->group || t->maps % t->group || t->channels % t->offset_group) {
    return rlx_fail(ctx, RLX_INVALID, "%lld channels, %lld maps, %lld groups, %lld offset groups",
                    (long long)t->channels, (long long)t->maps, (long long)t->group, (long long)t->offset_group);
  }
  if (!has_dims(&in[2], n, t->offset_group * taps * 2, w->out[0], w->out[1])) {
    return rlx_fail(ctx, RLX_INVALID, "offset does not fit the output");
  }
  if (ctx->input_count > 3 && in[3].data && in[3].count != t->maps) {
    return rlx_fail(ctx, RLX_INVALID, "B has %lld elements for %lld maps", (long long)in[3].count, (long long)t->maps);
  }
  if (ctx->input_count > 4 && in[4].data && !has_dims(&in[4], n, t->offset_group * taps, w->out[0], w->out[1])) {
    return rlx_fail(ctx, RLX_INVALID, "mask does not fit the output");
  }
  return RLX_OK;
}

static rlx_status eval(rlx_ctx *ctx) {
  deform_task t = {0};
  RLX_TRY(resolve(ctx, &t));
  wide in[5] = {{0}}, y = {0};
  rlx_status status = RLX_OK;
  for (int i = 0; i < ctx->input_count && i < 5 && !status; i++) {
    status = wide_input(ctx, &ctx->inputs[i], RLX_DOUBLE, &in[i]);
  }
  if (!status) status = wide_output(ctx, &ctx->outputs[0], RLX_DOUBLE, &y);
  if (!status && ctx->outputs[0].count) {
    t.x = in[0].data, t.w = in[1].data, t.offset = in[2].data, t.bias = in[3].data, t.mask = in[4].data, t.y = y.data;
    rlx_parallel_for(ctx, ctx->inputs[0].dims[0] * t.maps * t.window.out[0], 1, run_rows, &t);
    wide_store(&y, &ctx->outputs[0]);
  }
  for (int i = 0; i < 5; i++) wide_finish(&in[i]);
  wide_finish(&y);
  return status;
}

/* ---- derivatives ------------------------------------------------------------------------------------------------ */

/* Where each tap lies without offset: 1 × taps × 2 × out. */
static rlx_value *tap_positions(rlx_graph *g, const window *w, rlx_dtype dtype) {
  int64_t dims[5] = {1, w->kernel[0] * w->kernel[1], 2, w->out[0], w->out[1]};
  rlx_tensor *t;
  if (rlx_tensor_create(dtype, 5, dims, &t) != RLX_OK) {
    rlx_graph_fail(g, RLX_OUT_OF_MEMORY, "no memory for a constant");
    return NULL;
  }
  int64_t plane = w->out[0] * w->out[1];
  for (int64_t i = 0; i < dims[1] * 2 * plane; i++) {
    int64_t k = i / plane / 2, d = i / plane % 2, at = d ? i % w->out[1] : i % plane / w->out[1];
    int64_t tap = d ? k % w->kernel[1] : k / w->kernel[1];
    dtype_store(dtype, rlx_tensor_data(t), i, (double)(at * w->stride[d] - w->begin[d] + tap * w->dilation[d]));
  }
  rlx_value *v = rlx_graph_constant(g, NULL, t);
  rlx_tensor_destroy(t);
  return v;
}

/* GridSample at the moved taps, and a product with the weights. */
static rlx_status derive(rlx_graph *g, const rlx_node *n, rlx_value **outputs) {
  const deform_params *p = rlx_node_params(n);
  rlx_value *in[6];
  for (int i = 0; i < 5; i++) in[i] = rlx_node_input(n, i);
  const rlx_type *x = rlx_value_type(in[0]), *w = rlx_value_type(in[1]);
  bool known = x->rank == 4 && w->rank == 4;
  for (int d = 0; known && d < 4; d++) known = x->dims[d] > 0 && w->dims[d] > 0;
  if (!known) return rlx_graph_fail(g, RLX_UNSUPPORTED, "the dims of X and W must be known");
  window win;
  const char *bad = window_resolve(&p->window, 2, x->dims + 2, w->dims + 2, &win);
  if (bad) return rlx_graph_fail(g, RLX_INVALID, "%s", bad);
  in[5] = tap_positions(g, &win, x->dtype);
  long long taps = win.kernel[0] * win.kernel[1], batch = x->dims[0], blocks = batch * p->offset_group;
  long long depth = x->dims[1] / p->offset_group, oh = win.out[0], ow = win.out[1], h = x->dims[2], across = x->dims[3];
  long long group = p->group, maps = w->dims[0];
  const char *t = rlx_dtype_name(x->dtype);
  return derivative_text(
      g, in, outputs,
      "deform (x, w, offset, b, mask, base) => (y) <int64[5] moved = {%lld, %lld, 2, %lld, %lld}, int64 zero = {0},"
      " int64 one = {1}, int64[1] last = {-1}, int64[4] lines = {%lld, %lld, %lld, 2},"
      " int64[4] images = {%lld, %lld, %lld, %lld}, int64[4] weights = {%lld, 1, %lld, %lld},"
      " int64[4] columns = {%lld, %lld, %lld, %lld}, int64[4] filters = {1, %lld, %lld, %lld},"
      " int64[4] result = {%lld, %lld, %lld, %lld}, int64[4] channels = {1, -1, 1, 1},"
      " %s ys = {%.17g}, %s yt = {%.17g}, %s xs = {%.17g}, %s xt = {%.17g}> {"
      " o = Reshape (offset, moved) q = Add (o, base) y0 = Gather <axis = 2> (q, zero) x0 = Gather <axis = 2> (q, one)"
      " y1 = Mul (y0, ys) y2 = Add (y1, yt) x1 = Mul (x0, xs) x2 = Add (x1, xt)"
      " y3 = Unsqueeze (y2, last) x3 = Unsqueeze (x2, last) xy = Concat <axis = -1> (x3, y3) grid = Reshape (xy, lines)"
      " im = Reshape (x, images) s = GridSample (im, grid) %s c = Reshape (m, columns) f = Reshape (w, filters)"
      " p = MatMul (f, c) r = Reshape (p, result) %s }",
      blocks, taps, oh, ow, blocks, taps * oh, ow, blocks, depth, h, across, blocks, taps * oh, ow, batch, group,
      (long long)x->dims[1] / group * taps, oh * ow, group, maps / group, (long long)w->dims[1] * taps, batch, maps, oh,
      ow, t, 2 / (double)h, t, 1 / (double)h - 1, t, 2 / (double)across, t, 1 / (double)across - 1,
      in[4] ? "k = Reshape (mask, weights) m = Mul (s, k)" : "m = Identity (s)",
      in[3] ? "bias = Reshape (b, channels) y = Add (r, bias)" : "y = Identity (r)");
}

#define GROUP(attr_name, member)                                                                                       \
  {.name = attr_name, .kind = RLX_ATTR_INT, .flags = RLX_RANGED, .offset = offsetof(deform_params, member),            \
   .default_int = 1, .min = 1, .max = INT32_MAX}
static const rlx_attr_def attrs[] = {WINDOW_STEPS(deform_params),         WINDOW_DILATIONS(deform_params),
                                     WINDOW_KERNEL(deform_params, 0),     GROUP("group", group),
                                     GROUP("offset_group", offset_group), {0}};
static const rlx_op deform_conv = {
    .struct_size = sizeof(rlx_op),
    .name = "onnx.DeformConv",
    .version = 19,
    .doc = "Convolution whose taps are moved by offsets (arXiv:1703.06211) and weighted by a mask (arXiv:1811.11168).",
    .samples = (const char *const[]){"float[1,1,3,3], float[1,1,2,2], float[1,8,2,2]", NULL},
    .inputs = (const rlx_port[]){{"X", "T", RLX_SET_FLOATS, 0, 0},
                                 {"W", "T", RLX_SET_FLOATS, 0, 0},
                                 {"offset", "T", RLX_SET_FLOATS, 0, 0},
                                 {"B", "T", RLX_SET_FLOATS, RLX_OPTIONAL, 0},
                                 {"mask", "T", RLX_SET_FLOATS, RLX_OPTIONAL, 0},
                                 {0}},
    .outputs = (const rlx_port[]){{"Y", "T", RLX_SET_FLOATS, 0, 0}, {0}},
    .attrs = attrs,
    .params_size = sizeof(deform_params),
    .traits = RLX_PURE,
    .infer = infer,
    .derive = derive,
    .eval = eval,
};

static const rlx_op *const ops[] = {&deform_conv, NULL};
const rlx_module ops_deformconv = {.ops = ops};
