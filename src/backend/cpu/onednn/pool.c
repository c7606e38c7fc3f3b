/* pool.c — max and average pooling by oneDNN, in whatever layout the input comes. */
#include "ops/pool.h"

#include <float.h>
#include <math.h>

#include "backend/cpu/onednn/_kernel.h"
#include "base/status.h"
#include "ir/layout.h"
#include "ir/module.h"
#include "ir/shape.h"

static const char *why_not_window(const rlx_node *n) {
  const pool_params *p = rlx_node_params(n);
  const char *bad = onednn_check_type(rlx_node_input_type(n, 0), "X", 3, 5);
  if (bad) return bad;
  for (int64_t i = 0; i < p->window.pads.count; i++) {
    if (p->window.pads.data[i] < 0) return "negative padding";
  }
  return NULL;
}

static const char *why_not_max(const rlx_node *n) {
  const rlx_type *indices = rlx_node_output_count(n) > 1 ? rlx_node_output_type(n, 1) : NULL;
  return indices ? "Indices are wanted" : why_not_window(n);
}

/* oneDNN counts what a rounded-up output reaches past the padding as padding; ONNX does not count it at all. */
static const char *why_not_average(const rlx_node *n) {
  const pool_params *p = rlx_node_params(n);
  if (p->window.ceil_mode && p->count_include_pad) return "ceil_mode with count_include_pad";
  return why_not_window(n);
}

static const char *why_not_global(const rlx_node *n) { return onednn_check_type(rlx_node_input_type(n, 0), "X", 3, 5); }

static void layouts_same(const rlx_node *n, rlx_layouts *l) {
  (void)n;
  l->inputs[0] = RLX_SAME_LAYOUT;
  l->outputs[0] = RLX_SAME_LAYOUT;
}

/* One point a channel lies row-major in every layout. */
static void layouts_global(const rlx_node *n, rlx_layouts *l) {
  (void)n;
  l->inputs[0] = RLX_SAME_LAYOUT;
  l->outputs[0] = LAYOUT_ROW_MAJOR;
}

static rlx_status create(rlx_bound *b, const window *w, onednn_pool_kind kind, void **state) {
  const rlx_type *x = rlx_bound_input(b, 0), *y = rlx_bound_output(b, 0);
  *state = NULL;
  if (onednn_has_zero(y)) return RLX_OK;
  if (onednn_has_zero(x)) return rlx_fail(b, RLX_UNSUPPORTED, "pooling an input without elements");
  onednn_pooling_desc d = {.src = onednn_activation(x, rlx_bound_input_layout(b, 0)),
                           .dst = onednn_activation(y, rlx_bound_input_layout(b, 0)),
                           .window = onednn_window_of(w),
                           .kind = kind};
  /* The padding that a rounded-up output needs. */
  for (int i = 0; i < w->rank; i++) {
    int64_t reach = (w->out[i] - 1) * w->stride[i] + (w->kernel[i] - 1) * w->dilation[i] + 1;
    if (reach - w->in[i] - w->begin[i] > d.window.after[i]) d.window.after[i] = reach - w->in[i] - w->begin[i];
  }
  double taps = (double)shape_count(y->rank, y->dims) * (double)window_kernel_count(w);
  onednn_primitive *primitive = NULL;
  RLX_TRY(onednn_make_pooling(b, onednn_threads(b, 4 * taps), &d, &primitive));
  *state = primitive;
  return RLX_OK;
}

static rlx_status create_window(rlx_bound *b, onednn_pool_kind kind, void **state) {
  const pool_params *p = rlx_bound_params(b);
  const rlx_type *x = rlx_bound_input(b, 0);
  window w;
  if (x->rank != p->window.kernel_shape.count + 2) {
    return rlx_fail(b, RLX_INVALID, "a kernel_shape of %lld entries for an input of rank %d",
                    (long long)p->window.kernel_shape.count, x->rank);
  }
  const char *bad = window_resolve(&p->window, x->rank - 2, x->dims + 2, p->window.kernel_shape.data, &w);
  return bad ? rlx_fail(b, RLX_INVALID, "%s", bad) : create(b, &w, kind, state);
}

static window whole_window(int rank, const int64_t *dims) {
  window w = {.rank = rank - 2};
  for (int i = 0; i < w.rank; i++) {
    w.in[i] = w.kernel[i] = dims[i + 2];
    w.stride[i] = w.dilation[i] = w.out[i] = 1;
  }
  return w;
}

static rlx_status create_global(rlx_bound *b, onednn_pool_kind kind, void **state) {
  const rlx_type *x = rlx_bound_input(b, 0);
  window w = whole_window(x->rank, x->dims);
  return create(b, &w, kind, state);
}

static rlx_status prepare_max(rlx_bound *b, void **state) { return create_window(b, ONEDNN_POOL_MAX, state); }
static rlx_status prepare_average(rlx_bound *b, void **state) {
  const pool_params *p = rlx_bound_params(b);
  return create_window(b, p->count_include_pad ? ONEDNN_POOL_AVERAGE_PADDED : ONEDNN_POOL_AVERAGE, state);
}
static rlx_status prepare_global_max(rlx_bound *b, void **state) { return create_global(b, ONEDNN_POOL_MAX, state); }
static rlx_status prepare_global_average(rlx_bound *b, void **state) {
  return create_global(b, ONEDNN_POOL_AVERAGE, state);
}

static int64_t workspace(rlx_bound *b, const void *state) {
  (void)b;
  return state ? onednn_workspace(state, true) : 0;
}

static rlx_status run(rlx_ctx *ctx) {
  if (!ctx->state) return RLX_OK;
  onednn_args args = {.src = ctx->inputs[0].data, .dst = ctx->outputs[0].data, .workspace = ctx->workspace};
  return onednn_execute(ctx, ctx->state, ctx->run_state, &args);
}

/* ---- infinities --------------------------------------------------------------------------- */

/* Where a spatial point of a channel lies: channels lie together in blocks of `block`. */
static int64_t place(int64_t block, int64_t channels, int64_t points, int64_t n, int64_t c, int64_t point) {
  return ((n * (channels / block) + c / block) * points + point) * block + c % block;
}

/* True if a tap of the window at `at` lies in the input and is not minus infinity. */
static bool has_finite_tap(const window *w, const int64_t *at, const float *x, int64_t step) {
  int64_t tap[WINDOW_MAX] = {0};
  do {
    int64_t flat = 0;
    bool inside = true;
    for (int d = 0; d < w->rank; d++) {
      int64_t i = at[d] * w->stride[d] - w->begin[d] + tap[d] * w->dilation[d];
      inside = inside && i >= 0 && i < w->in[d];
      flat = flat * w->in[d] + i;
    }
    if (inside && x[flat * step] != -INFINITY) return true;
  } while (window_next(w->rank, w->kernel, tap));
  return false;
}

/* oneDNN begins at the lowest finite number, which a window of nothing but minus infinity, or of padding, leaves. */
static void restore_infinities(rlx_ctx *ctx, const window *w) {
  const rlx_operand *x = &ctx->inputs[0], *y = &ctx->outputs[0];
  int64_t channels = x->dims[1], points = window_out_count(w), taken = window_in_count(w);
  int64_t block = layout_block(x->layout, channels);
  const float *from = x->data;
  float *to = y->data;
  for (int64_t plane = 0; plane < x->dims[0] * channels; plane++) {
    int64_t at[WINDOW_MAX] = {0}, n = plane / channels, c = plane % channels, point = 0;
    const float *start = from + place(block, channels, taken, n, c, 0);
    do {
      float *v = to + place(points == 1 ? 1 : block, channels, points, n, c, point++);
      if (*v == -FLT_MAX && !has_finite_tap(w, at, start, block)) *v = -INFINITY;
    } while (window_next(w->rank, w->out, at));
  }
}

static rlx_status run_maximum(rlx_ctx *ctx, const window *w) {
  RLX_TRY(run(ctx));
  const rlx_operand *y = &ctx->outputs[0];
  bool lowest = false;
  for (int64_t i = 0; i < y->count; i++) lowest |= ((const float *)y->data)[i] == -FLT_MAX;
  if (lowest) restore_infinities(ctx, w);
  return RLX_OK;
}

static rlx_status run_max(rlx_ctx *ctx) {
  const pool_params *p = ctx->params;
  const rlx_operand *x = &ctx->inputs[0];
  window w;
  const char *bad = window_resolve(&p->window, x->rank - 2, x->dims + 2, p->window.kernel_shape.data, &w);
  return bad ? rlx_fail(ctx, RLX_INVALID, "%s", bad) : run_maximum(ctx, &w);
}

static rlx_status run_global_max(rlx_ctx *ctx) {
  window w = whole_window(ctx->inputs[0].rank, ctx->inputs[0].dims);
  return run_maximum(ctx, &w);
}

#define KERNEL(op_name, why_not_fn, layouts_fn, prepare_fn, run_fn)                                                    \
  {.struct_size = sizeof(rlx_cpu_kernel),                                                                              \
   .head = {.op = (op_name), .name = "onednn", .why_not = (why_not_fn), .layouts = (layouts_fn),                       \
            .workspace = workspace, .prepare = (prepare_fn), .release = onednn_release, .run_init = onednn_run_init,   \
            .run_done = onednn_run_done},                                                                              \
   .run = run_fn}

static const rlx_cpu_kernel kernels[] = {
    KERNEL("onnx.MaxPool", why_not_max, layouts_same, prepare_max, run_max),
    KERNEL("onnx.AveragePool", why_not_average, layouts_same, prepare_average, run),
    KERNEL("onnx.GlobalMaxPool", why_not_global, layouts_global, prepare_global_max, run_global_max),
    KERNEL("onnx.GlobalAveragePool", why_not_global, layouts_global, prepare_global_average, run),
};

const rlx_module onednn_pool = {
    .kernels = (const rlx_cpu_kernel *const[]){&kernels[0], &kernels[1], &kernels[2], &kernels[3], NULL}};
