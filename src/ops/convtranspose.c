/* convtranspose.c — onnx.ConvTranspose. */
#include "ops/convtranspose.h"

#include <string.h>

#include "base/status.h"
#include "ir/module.h"
#include "ops/_wide.h"
#include "ops/conv.h"

static bool is(const rlx_string *s, const char *word) {
  return s->data && strlen(word) == s->size && memcmp(s->data, word, s->size) == 0;
}

static const char *check_count(const char *name, const rlx_ints *list, int64_t want) {
  if (list->count == 0 || list->count == want) return NULL;
  return rlx_reason("%s has %lld entries, %lld are needed", name, (long long)list->count, (long long)want);
}

const char *convtranspose_window(const convtranspose_params *p, int rank, const int64_t *x, const int64_t *kernel,
                                 window *w) {
  int64_t unknown[WINDOW_MAX];
  for (int d = 0; d < WINDOW_MAX; d++) unknown[d] = RLX_UNKNOWN;
  const char *bad = window_resolve(&p->window, rank, unknown, kernel, w); /* defaults and checks */
  if (!bad) bad = check_count("output_padding", &p->output_padding, rank);
  if (!bad && p->output_shape.count != rank + 2) bad = check_count("output_shape", &p->output_shape, rank);
  if (bad) return bad;
  bool upper = is(&p->window.auto_pad, "SAME_UPPER"), same = upper || is(&p->window.auto_pad, "SAME_LOWER");
  /* Some old models write the whole shape, batch and channels too. */
  const int64_t *stated = p->output_shape.count ? p->output_shape.data + (p->output_shape.count - rank) : NULL;
  for (int d = 0; d < rank; d++) {
    int64_t extra = p->output_padding.count ? p->output_padding.data[d] : 0;
    w->out[d] = x[d];
    w->in[d] = stated ? stated[d] : RLX_UNKNOWN;
    int64_t least = w->stride[d] > w->dilation[d] ? w->stride[d] : w->dilation[d];
    if (extra >= least)
      return rlx_reason("output_padding %lld of axis %d is not below its stride or dilation", (long long)extra, d + 2);
    if (extra < 0 || (stated && stated[d] < 0)) return rlx_reason("a negative output_padding or output_shape");
    if (kernel[d] == RLX_UNKNOWN || x[d] == RLX_UNKNOWN) continue;
    int64_t full = w->stride[d] * (x[d] - 1) + extra + (kernel[d] - 1) * w->dilation[d] + 1;
    if (stated || same) {
      w->in[d] = stated ? stated[d] : x[d] * w->stride[d];
      int64_t total = full - w->in[d];
      if (total < 0) total = 0;
      w->begin[d] = upper ? total / 2 : total - total / 2;
      w->end[d] = total - w->begin[d];
    } else {
      w->in[d] = full - w->begin[d] - w->end[d];
    }
    if (w->in[d] < 0) return rlx_reason("the padding of axis %d leaves an output of %lld", d + 2, (long long)w->in[d]);
  }
  return NULL;
}

const char *convtranspose_resolve(const convtranspose_params *p, int x_rank, const int64_t *x_dims, int w_rank,
                                  const int64_t *w_dims, convtranspose_shape *out) {
  if (x_rank < 3 || w_rank != x_rank) return rlx_reason("an input of rank %d and weights of rank %d", x_rank, w_rank);
  *out =
      (convtranspose_shape){.batch = x_dims[0], .channels = x_dims[1], .maps = w_dims[1] * p->group, .group = p->group};
  if (x_dims[1] != w_dims[0] || x_dims[1] % p->group) {
    return rlx_reason("%lld input channels in %lld groups, but weights for %lld", (long long)x_dims[1],
                      (long long)p->group, (long long)w_dims[0]);
  }
  return convtranspose_window(p, x_rank - 2, x_dims + 2, w_dims + 2, &out->window);
}

static rlx_status infer(rlx_infer *ctx) {
  const convtranspose_params *p = rlx_infer_params(ctx);
  const rlx_type *x = rlx_infer_input(ctx, 0), *w = rlx_infer_input(ctx, 1);
  int rank = x->rank != RLX_UNKNOWN ? x->rank : w->rank;
  if (rank == RLX_UNKNOWN) return RLX_OK;
  if (rank < 3 || (w->rank != RLX_UNKNOWN && w->rank != rank)) {
    return rlx_fail(ctx, RLX_INVALID, "an input of rank %d and weights of rank %d", rank, w->rank);
  }
  int64_t xd[RLX_MAX_RANK], wd[RLX_MAX_RANK];
  for (int d = 0; d < rank; d++) {
    xd[d] = x->rank == RLX_UNKNOWN ? RLX_UNKNOWN : x->dims[d];
    wd[d] = w->rank == RLX_UNKNOWN ? RLX_UNKNOWN : w->dims[d];
    if (d >= 2 && wd[d] == RLX_UNKNOWN && p->window.kernel_shape.count == rank - 2) {
      wd[d] = p->window.kernel_shape.data[d - 2];
    }
  }
  if (xd[1] != RLX_UNKNOWN && wd[0] != RLX_UNKNOWN && xd[1] != wd[0]) {
    return rlx_fail(ctx, RLX_INVALID, "%lld input channels, but weights for %lld", (long long)xd[1], (long long)wd[0]);
  }
  window win;
  const char *bad = convtranspose_window(p, rank - 2, xd + 2, wd + 2, &win);
  if (bad) return rlx_fail(ctx, RLX_INVALID, "%s", bad);
  int64_t dims[RLX_MAX_RANK] = {xd[0], wd[1] == RLX_UNKNOWN ? RLX_UNKNOWN : wd[1] * p->group};
  memcpy(dims + 2, win.in, (size_t)(rank - 2) * sizeof *dims);
  rlx_infer_set(ctx, 0, rank, dims);
  return RLX_OK;
}

/* ---- evaluation ------------------------------------------------------------------------------------------------- */

typedef struct transpose_task {
  const convtranspose_shape *shape;
  rlx_dtype dtype;
  size_t element;
  const char *x, *w, *bias;
  char *y;
} transpose_task;

/* y[i * stride] += w * x[i] */
#define SCATTER(name, type)                                                                                            \
  static void name(type *restrict y, const type *restrict x, type w, int64_t n, int64_t stride) {                      \
    for (int64_t i = 0; i < n; i++) y[i * stride] += w * x[i];                                                         \
  }
SCATTER(scatter_float, float)
SCATTER(scatter_double, double)
#undef SCATTER

/* Adds one plane of X, seen through one filter, to one plane of Y. */
static void add_plane(const transpose_task *t, const char *x, const char *w, char *y) {
  const window *win = &t->shape->window;
  int last = win->rank - 1;
  int64_t tap[WINDOW_MAX] = {0};
  do {
    int64_t at[WINDOW_MAX] = {0}, first, end, row_x = 0;
    window_span(win, last, tap[last], &first, &end);
    do {
      int64_t row = 0;
      bool inside = first < end;
      for (int d = 0; d < last; d++) {
        int64_t position = at[d] * win->stride[d] - win->begin[d] + tap[d] * win->dilation[d];
        inside = inside && position >= 0 && position < win->in[d];
        row = row * win->in[d] + position;
      }
      if (inside) {
        int64_t to =
            row * win->in[last] + first * win->stride[last] - win->begin[last] + tap[last] * win->dilation[last];
        int64_t from = row_x * win->out[last] + first;
        if (t->dtype == RLX_FLOAT) {
          scatter_float((float *)y + to, (const float *)x + from, *(const float *)w, end - first, win->stride[last]);
        } else {
          scatter_double((double *)y + to, (const double *)x + from, *(const double *)w, end - first,
                         win->stride[last]);
        }
      }
      row_x++;
    } while (window_next(last, win->out, at));
    w += t->element;
  } while (window_next(win->rank, win->kernel, tap));
}

static void run_maps(void *arg, int64_t begin, int64_t end) {
  const transpose_task *t = arg;
  const convtranspose_shape *s = t->shape;
  int64_t in = window_out_count(&s->window), out = window_in_count(&s->window);
  int64_t filter = window_kernel_count(&s->window), depth = s->channels / s->group, wide_maps = s->maps / s->group;
  for (int64_t i = begin; i < end; i++) {
    int64_t n = i / s->maps, map = i % s->maps, group = map / wide_maps;
    char *y = t->y + (size_t)(i * out) * t->element;
    for (int64_t j = 0; j < out; j++) {
      if (t->bias) {
        memcpy(y + (size_t)j * t->element, t->bias + (size_t)map * t->element, t->element);
      } else {
        memset(y + (size_t)j * t->element, 0, t->element);
      }
    }
    for (int64_t c = group * depth; c < (group + 1) * depth && in > 0 && filter > 0; c++) {
      add_plane(t, t->x + (size_t)((n * s->channels + c) * in) * t->element,
                t->w + (size_t)((c * wide_maps + map % wide_maps) * filter) * t->element, y);
    }
  }
}

static rlx_status eval(rlx_ctx *ctx) {
  const rlx_operand *x = &ctx->inputs[0], *w = &ctx->inputs[1];
  static const rlx_operand none;
  const rlx_operand *b = ctx->input_count > 2 ? &ctx->inputs[2] : &none;
  convtranspose_shape s;
  const char *bad = convtranspose_resolve(ctx->params, x->rank, x->dims, w->rank, w->dims, &s);
  if (!bad && b->data && b->count != s.maps) bad = "a bias of another size than the output channels";
  if (bad) return rlx_fail(ctx, RLX_INVALID, "%s", bad);
  if (ctx->outputs[0].count == 0) return RLX_OK;
  rlx_dtype dtype = wide_dtype(x->dtype);
  wide wx = {0}, ww = {0}, wb = {0}, wy = {0};
  rlx_status status = wide_input(ctx, x, dtype, &wx);
  if (!status) status = wide_input(ctx, w, dtype, &ww);
  if (!status) status = wide_input(ctx, b, dtype, &wb);
  if (!status) status = wide_output(ctx, &ctx->outputs[0], dtype, &wy);
  if (!status) {
    transpose_task task = {&s, dtype, dtype == RLX_DOUBLE ? 8 : 4, wx.data, ww.data, wb.data, wy.data};
    rlx_parallel_for(ctx, s.batch * s.maps, 1, run_maps, &task);
    wide_store(&wy, &ctx->outputs[0]);
  }
  wide_finish(&wx), wide_finish(&ww), wide_finish(&wb), wide_finish(&wy);
  return status;
}

/* ---- derivatives ------------------------------------------------------------------------------------------------ */

/* The adjoint of the convolution from Y to X with the same weights: dX is that convolution of dY. */
static rlx_status vjp(rlx_graph *g, const rlx_node *n, rlx_value *const *dy, rlx_value **dx) {
  rlx_value *x = rlx_node_input(n, 0), *w = rlx_node_input(n, 1);
  const rlx_type *xt = rlx_value_type(x), *wt = rlx_value_type(w);
  if (!dy[0]) return RLX_OK;
  bool known = xt->rank >= 3 && xt->rank < RLX_MAX_RANK && wt->rank == xt->rank;
  for (int d = 0; known && d < xt->rank; d++) known = xt->dims[d] > 0 && wt->dims[d] > 0;
  if (!known) return rlx_graph_fail(g, RLX_UNSUPPORTED, "shapes must be known and not empty");
  convtranspose_shape t;
  const char *bad = convtranspose_resolve(rlx_node_params(n), xt->rank, xt->dims, wt->rank, wt->dims, &t);
  if (bad) return rlx_graph_fail(g, RLX_INVALID, "%s", bad);
  conv_shape s = {.window = t.window, .batch = t.batch, .channels = t.maps, .maps = t.channels, .group = t.group};
  const window *win = &t.window;
  int64_t pads[2 * WINDOW_MAX];
  size_t rank = (size_t)win->rank;
  for (int d = 0; d < win->rank; d++) { /* at the end so much that exactly the elements of X come out */
    int64_t reach = (win->out[d] - 1) * win->stride[d] + (win->kernel[d] - 1) * win->dilation[d] + 1;
    pads[d] = win->begin[d];
    pads[win->rank + d] = reach - win->in[d] - win->begin[d];
  }
  rlx_attr attrs[] = {{.name = "strides", .kind = RLX_ATTR_INTS, .ints = win->stride, .count = rank},
                      {.name = "dilations", .kind = RLX_ATTR_INTS, .ints = win->dilation, .count = rank},
                      {.name = "pads", .kind = RLX_ATTR_INTS, .ints = pads, .count = 2 * rank},
                      RLX_ATTR_I("group", t.group)};
  dx[0] = rlx_graph_op(g, "onnx.Conv", attrs, 4, (rlx_value *[]){dy[0], w}, 2);
  dx[1] = conv_weights_gradient(g, &s, dy[0], x);
  if (rlx_node_input(n, 2)) dx[2] = conv_bias_gradient(g, dy[0], xt->rank);
  return rlx_graph_status(g);
}

static const rlx_attr_def attrs[] = {
    WINDOW_ATTRS(convtranspose_params),
    WINDOW_KERNEL(convtranspose_params, 0),
    {.name = "group",
     .kind = RLX_ATTR_INT,
     .flags = RLX_RANGED,
     .offset = offsetof(convtranspose_params, group),
     .default_int = 1,
     .min = 1,
     .max = INT32_MAX},
    {.name = "output_padding", .kind = RLX_ATTR_INTS, .offset = offsetof(convtranspose_params, output_padding)},
    {.name = "output_shape", .kind = RLX_ATTR_INTS, .offset = offsetof(convtranspose_params, output_shape)},
    {0}};
static const rlx_op conv_transpose = {
    .struct_size = sizeof(rlx_op),
    .name = "onnx.ConvTranspose",
    .version = 1,
    .doc = "The adjoint of convolution: spreads each element of X by the weights.",
    .samples =
        (const char *const[]){"float[1,2,3,3], float[2,3,3,3], float[3] {strides = [2,2], pads = [1,1,1,1]}",
                              "float[1,4,5], float[4,2,3] {group = 2, output_padding = [1], strides = [2]}", NULL},
    .inputs = (const rlx_port[]){{"X", "T", RLX_SET_FLOATS, 0, 0},
                                 {"W", "T", RLX_SET_FLOATS, 0, 0},
                                 {"B", "T", RLX_SET_FLOATS, RLX_OPTIONAL, 0},
                                 {0}},
    .outputs = (const rlx_port[]){{"Y", "T", RLX_SET_FLOATS, 0, 0}, {0}},
    .attrs = attrs,
    .params_size = sizeof(convtranspose_params),
    .traits = RLX_PURE,
    .infer = infer,
    .vjp = vjp,
    .eval = eval,
};

static const rlx_op *const ops[] = {&conv_transpose, NULL};
const rlx_module ops_convtranspose = {.ops = ops};
