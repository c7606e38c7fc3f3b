/* roi.c — onnx.RoiAlign and MaxRoiPool: pooling over regions of interest. */
#include <math.h>
#include <string.h>

#include "base/status.h"
#include "ir/dtype.h"
#include "ir/module.h"
#include "ops/_wide.h"

typedef struct roi_params {
  uint64_t given;
  rlx_string mode, coordinate_transformation_mode;
  int64_t output_height, output_width, sampling_ratio;
  rlx_ints pooled_shape; /* MaxRoiPool */
  float spatial_scale;
  int64_t forward; /* the gradient ops: tangents to results instead of gradients to X */
} roi_params;

static bool is(const rlx_string *s, const char *word) {
  return s->data && strlen(word) == s->size && memcmp(s->data, word, s->size) == 0;
}

typedef struct roi_task {
  const roi_params *params;
  int64_t channels, height, width, out_height, out_width;
  const double *x, *rois;
  const int64_t *batch; /* RoiAlign */
  int64_t samples;      /* batch size of X */
  bool max, half_pixel;
  double *y;
  const double *moved; /* the gradient ops: gradients of the bins, or tangents of X */
} roi_task;

/* ---- RoiAlign --------------------------------------------------------------------------------------------------- */

/* The four neighbours of a sampling point along both axes, with weights; all weights 0 outside. */
typedef struct neighbours {
  int64_t at[4];
  double weight[4];
} neighbours;

static neighbours neighbours_of(const roi_task *t, double y, double x) {
  neighbours n = {{0}, {0}};
  if (!(y >= -1 && y <= (double)t->height && x >= -1 && x <= (double)t->width)) return n;
  y = fmax(y, 0);
  x = fmax(x, 0);
  int64_t y0 = (int64_t)y, x0 = (int64_t)x, y1 = y0 + 1, x1 = x0 + 1;
  if (y0 >= t->height - 1) y1 = y0 = t->height - 1, y = (double)y0;
  if (x0 >= t->width - 1) x1 = x0 = t->width - 1, x = (double)x0;
  double fy = y - (double)y0, fx = x - (double)x0;
  int64_t at[4] = {y0 * t->width + x0, y0 * t->width + x1, y1 * t->width + x0, y1 * t->width + x1};
  double weight[4] = {(1 - fy) * (1 - fx), (1 - fy) * fx, fy * (1 - fx), fy * fx};
  memcpy(n.at, at, sizeof at);
  memcpy(n.weight, weight, sizeof weight);
  return n;
}

/* A region in pixels of X, cut into bins of `bin` size with `grid` samples along each axis (y, x). */
typedef struct region {
  double start[2], bin[2];
  int64_t grid[2];
} region;

static region region_of(const roi_task *t, int64_t i) {
  const double *r = t->rois + i * 4;
  double scale = (double)t->params->spatial_scale, shift = t->half_pixel ? 0.5 : 0;
  region g;
  for (int d = 0; d < 2; d++) { /* stored x1 y1 x2 y2 */
    g.start[d] = r[1 - d] * scale - shift;
    double size = r[3 - d] * scale - shift - g.start[d];
    if (!t->half_pixel) size = fmax(size, 1);
    int64_t bins = d == 0 ? t->out_height : t->out_width;
    g.bin[d] = size / (double)bins;
    double grid = t->params->sampling_ratio > 0 ? (double)t->params->sampling_ratio : ceil(g.bin[d]);
    /* More samples than pixels add nothing; the bound keeps a wild region from running for ever. */
    g.grid[d] = !(grid >= 0) ? 0 : grid > 1e4 ? 10000 : (int64_t)grid;
  }
  return g;
}

static double align_bin(const roi_task *t, const region *g, const double *plane, int64_t py, int64_t px) {
  double sum = 0;
  bool any = false;
  for (int64_t iy = 0; iy < g->grid[0]; iy++) {
    double y = g->start[0] + g->bin[0] * ((double)py + ((double)iy + 0.5) / (double)g->grid[0]);
    for (int64_t ix = 0; ix < g->grid[1]; ix++) {
      double x = g->start[1] + g->bin[1] * ((double)px + ((double)ix + 0.5) / (double)g->grid[1]);
      neighbours n = neighbours_of(t, y, x);
      double v[4];
      for (int k = 0; k < 4; k++) v[k] = n.weight[k] * plane[n.at[k]];
      if (!t->max) {
        sum += v[0] + v[1] + v[2] + v[3];
      } else {
        double best = fmax(fmax(v[0], v[1]), fmax(v[2], v[3]));
        sum = any ? fmax(sum, best) : best;
      }
      any = true;
    }
  }
  return t->max || !any ? sum : sum / (double)(g->grid[0] * g->grid[1]);
}

static void align_planes(void *arg, int64_t begin, int64_t end) {
  const roi_task *t = arg;
  for (int64_t i = begin; i < end; i++) {
    int64_t roi = i / t->channels, channel = i % t->channels;
    const double *plane = t->x + (t->batch[roi] * t->channels + channel) * t->height * t->width;
    region g = region_of(t, roi);
    double *y = t->y + i * t->out_height * t->out_width;
    for (int64_t p = 0; p < t->out_height * t->out_width; p++) {
      y[p] = align_bin(t, &g, plane, p / t->out_width, p % t->out_width);
    }
  }
}

static rlx_status infer_align(rlx_infer *ctx) {
  const roi_params *p = rlx_infer_params(ctx);
  const rlx_type *x = rlx_infer_input(ctx, 0), *rois = rlx_infer_input(ctx, 1);
  if (x->rank != RLX_UNKNOWN && x->rank != 4) return rlx_fail(ctx, RLX_INVALID, "X has rank %d, not 4", x->rank);
  int64_t count = rois->rank > 0 ? rois->dims[0] : RLX_UNKNOWN;
  rlx_infer_set(ctx, 0, 4,
                (const int64_t[]){count, x->rank == 4 ? x->dims[1] : RLX_UNKNOWN, p->output_height, p->output_width});
  return RLX_OK;
}

static rlx_status resolve_align(rlx_ctx *ctx, roi_task *t) {
  const roi_params *p = ctx->params;
  const rlx_operand *x = &ctx->inputs[0], *rois = &ctx->inputs[1], *batch = &ctx->inputs[2];
  if (x->rank != 4 || rois->rank != 2 || rois->dims[1] != 4 || batch->count != rois->dims[0]) {
    return rlx_fail(ctx, RLX_INVALID, "X, rois or batch_indices have the wrong shape");
  }
  *t = (roi_task){.params = p,
                  .channels = x->dims[1],
                  .height = x->dims[2],
                  .width = x->dims[3],
                  .out_height = p->output_height,
                  .out_width = p->output_width,
                  .batch = batch->data,
                  .samples = x->dims[0],
                  .max = is(&p->mode, "max"),
                  .half_pixel = is(&p->coordinate_transformation_mode, "half_pixel")};
  if (!t->max && !is(&p->mode, "avg")) return rlx_fail(ctx, RLX_INVALID, "mode is neither avg nor max");
  if (!t->half_pixel && !is(&p->coordinate_transformation_mode, "output_half_pixel")) {
    return rlx_fail(ctx, RLX_INVALID, "coordinate_transformation_mode is neither half_pixel nor output_half_pixel");
  }
  for (int64_t i = 0; i < batch->count; i++) {
    if (t->batch[i] < 0 || t->batch[i] >= t->samples) {
      return rlx_fail(ctx, RLX_INVALID, "batch_indices[%lld] is %lld of %lld", (long long)i, (long long)t->batch[i],
                      (long long)t->samples);
    }
  }
  if (t->height < 1 || t->width < 1) return rlx_fail(ctx, RLX_INVALID, "X is empty");
  return RLX_OK;
}

/* Runs `body` over rois × channels with X and rois as doubles. */
static rlx_status run(rlx_ctx *ctx, roi_task *t, int64_t rois, void (*body)(void *, int64_t, int64_t)) {
  wide x = {0}, r = {0}, y = {0};
  rlx_status status = wide_input(ctx, &ctx->inputs[0], RLX_DOUBLE, &x);
  if (!status) status = wide_input(ctx, &ctx->inputs[1], RLX_DOUBLE, &r);
  if (!status) status = wide_output(ctx, &ctx->outputs[0], RLX_DOUBLE, &y);
  if (!status && ctx->outputs[0].count) {
    t->x = x.data, t->rois = r.data, t->y = y.data;
    rlx_parallel_for(ctx, rois * t->channels, 1, body, t);
    wide_store(&y, &ctx->outputs[0]);
  }
  wide_finish(&x), wide_finish(&r), wide_finish(&y);
  return status;
}

static rlx_status eval_align(rlx_ctx *ctx) {
  roi_task t;
  RLX_TRY(resolve_align(ctx, &t));
  return run(ctx, &t, ctx->inputs[1].dims[0], align_planes);
}

/* ---- MaxRoiPool ------------------------------------------------------------------------------------------------- */

/* Bin p of a region: rows [low[0], high[0]) and columns of X. */
static void pool_bin(const roi_task *t, const double *r, int64_t p, int64_t low[2], int64_t high[2]) {
  double scale = (double)t->params->spatial_scale;
  int64_t size[2] = {t->height, t->width}, bins[2] = {t->out_height, t->out_width}, at[2] = {p / bins[1], p % bins[1]};
  for (int d = 0; d < 2; d++) {
    double from = round(r[2 - d] * scale), to = round(r[4 - d] * scale);
    double start = fmin(fmax(from, -1e9), 1e9), bin = fmax(to - from + 1, 1) / (double)bins[d];
    double a = floor((double)at[d] * bin) + start, b = ceil((double)(at[d] + 1) * bin) + start;
    low[d] = (int64_t)fmin(fmax(a, 0), (double)size[d]);
    high[d] = (int64_t)fmin(fmax(b, 0), (double)size[d]);
  }
}

static void pool_planes(void *arg, int64_t begin, int64_t end) {
  const roi_task *t = arg;
  int64_t bins = t->out_height * t->out_width;
  for (int64_t i = begin; i < end; i++) {
    const double *r = t->rois + i / t->channels * 5;
    const double *plane = t->x + ((int64_t)r[0] * t->channels + i % t->channels) * t->height * t->width;
    for (int64_t p = 0; p < bins; p++) {
      int64_t low[2], high[2];
      pool_bin(t, r, p, low, high);
      double best = high[0] <= low[0] || high[1] <= low[1] ? 0 : -INFINITY;
      for (int64_t y = low[0]; y < high[0]; y++) {
        for (int64_t x = low[1]; x < high[1]; x++) best = fmax(best, plane[y * t->width + x]);
      }
      t->y[i * bins + p] = best;
    }
  }
}

static rlx_status infer_pool(rlx_infer *ctx) {
  const roi_params *p = rlx_infer_params(ctx);
  const rlx_type *x = rlx_infer_input(ctx, 0), *rois = rlx_infer_input(ctx, 1);
  if (p->pooled_shape.count != 2 || p->pooled_shape.data[0] < 1 || p->pooled_shape.data[1] < 1) {
    return rlx_fail(ctx, RLX_INVALID, "pooled_shape needs two sizes");
  }
  rlx_infer_set(ctx, 0, 4,
                (const int64_t[]){rois->rank > 0 ? rois->dims[0] : RLX_UNKNOWN, x->rank == 4 ? x->dims[1] : RLX_UNKNOWN,
                                  p->pooled_shape.data[0], p->pooled_shape.data[1]});
  return RLX_OK;
}

static rlx_status resolve_pool(rlx_ctx *ctx, roi_task *t) {
  const roi_params *p = ctx->params;
  const rlx_operand *x = &ctx->inputs[0], *rois = &ctx->inputs[1];
  if (x->rank != 4 || rois->rank != 2 || rois->dims[1] != 5 || p->pooled_shape.count != 2) {
    return rlx_fail(ctx, RLX_INVALID, "X must have rank 4 and rois 5 columns");
  }
  *t = (roi_task){.params = p,
                  .channels = x->dims[1],
                  .height = x->dims[2],
                  .width = x->dims[3],
                  .out_height = p->pooled_shape.data[0],
                  .out_width = p->pooled_shape.data[1]};
  for (int64_t i = 0; i < rois->dims[0]; i++) {
    double sample = dtype_load(rois->dtype, rois->data, i * 5);
    if (!(sample >= 0 && sample < (double)x->dims[0])) {
      return rlx_fail(ctx, RLX_INVALID, "roi %lld is of sample %g of %lld", (long long)i, sample,
                      (long long)x->dims[0]);
    }
  }
  return RLX_OK;
}

static rlx_status eval_pool(rlx_ctx *ctx) {
  roi_task t;
  RLX_TRY(resolve_pool(ctx, &t));
  return run(ctx, &t, ctx->inputs[1].dims[0], pool_planes);
}

/* ---- gradients -------------------------------------------------------------------------------------------------- */

/* With all taps and weights as X decides them, results are linear in X: y[bin] = sum of weight * X[tap]. Going back,
 * to[tap] += weight * moved[bin]; going forward, to[bin] += weight * moved[tap]. */
static void move(const roi_task *t, int64_t bin, int64_t tap, double weight) {
  if (t->params->forward)
    t->y[bin] += weight * t->moved[tap];
  else
    t->y[tap] += weight * t->moved[bin];
}

/* The taps of one bin of RoiAlign; `base` is the plane's first element. */
static void move_align_bin(const roi_task *t, const region *g, int64_t base, int64_t bin, int64_t py, int64_t px) {
  int64_t best_tap = -1, samples = g->grid[0] * g->grid[1];
  double best = 0, best_weight = 0;
  for (int64_t i = 0; i < samples; i++) {
    double y = g->start[0] + g->bin[0] * ((double)py + ((double)(i / g->grid[1]) + 0.5) / (double)g->grid[0]);
    double x = g->start[1] + g->bin[1] * ((double)px + ((double)(i % g->grid[1]) + 0.5) / (double)g->grid[1]);
    neighbours n = neighbours_of(t, y, x);
    for (int k = 0; k < 4; k++) {
      double v = n.weight[k] * t->x[base + n.at[k]];
      if (!t->max) {
        move(t, bin, base + n.at[k], n.weight[k] / (double)samples);
      } else if (best_tap < 0 || v > best) {
        best = v, best_tap = base + n.at[k], best_weight = n.weight[k];
      }
    }
  }
  if (best_tap >= 0) move(t, bin, best_tap, best_weight);
}

static void move_align(const roi_task *t, int64_t rois) {
  int64_t bins = t->out_height * t->out_width, plane = t->height * t->width;
  for (int64_t i = 0; i < rois * t->channels; i++) {
    region g = region_of(t, i / t->channels);
    int64_t base = (t->batch[i / t->channels] * t->channels + i % t->channels) * plane;
    for (int64_t p = 0; p < bins; p++) move_align_bin(t, &g, base, i * bins + p, p / t->out_width, p % t->out_width);
  }
}

static void move_pool(const roi_task *t, int64_t rois) {
  int64_t bins = t->out_height * t->out_width;
  for (int64_t i = 0; i < rois * t->channels; i++) {
    const double *r = t->rois + i / t->channels * 5;
    int64_t base = ((int64_t)r[0] * t->channels + i % t->channels) * t->height * t->width;
    for (int64_t p = 0; p < bins; p++) {
      int64_t low[2], high[2], best = -1;
      pool_bin(t, r, p, low, high);
      for (int64_t y = low[0]; y < high[0]; y++)
        for (int64_t x = low[1]; x < high[1]; x++)
          if (best < 0 || t->x[base + y * t->width + x] > t->x[best]) best = base + y * t->width + x;
      if (best >= 0) move(t, i * bins + p, best, 1);
    }
  }
}

/* Inputs: what is moved, then those of the op. */
static rlx_status eval_grad(rlx_ctx *ctx, bool align) {
  rlx_ctx shifted = *ctx;
  roi_task t;
  shifted.inputs = ctx->inputs + 1;
  shifted.input_count = ctx->input_count - 1;
  RLX_TRY(align ? resolve_align(&shifted, &t) : resolve_pool(&shifted, &t));
  const roi_params *p = ctx->params;
  int64_t rois = ctx->inputs[2].dims[0], bins = rois * t.channels * t.out_height * t.out_width;
  const rlx_operand *x = &ctx->inputs[1], *moved = &ctx->inputs[0], *y = &ctx->outputs[0];
  if (moved->count != (p->forward ? x->count : bins) || y->count != (p->forward ? bins : x->count))
    return rlx_fail(ctx, RLX_INVALID, "the gradient or tangent has another size than the regions ask for");
  wide wx = {0}, wr = {0}, wm = {0}, wy = {0};
  rlx_status status = wide_input(ctx, x, RLX_DOUBLE, &wx);
  if (!status) status = wide_input(ctx, &ctx->inputs[2], RLX_DOUBLE, &wr);
  if (!status) status = wide_input(ctx, moved, RLX_DOUBLE, &wm);
  if (!status) status = wide_output(ctx, y, RLX_DOUBLE, &wy);
  if (!status && y->count) {
    t.x = wx.data, t.rois = wr.data, t.moved = wm.data, t.y = wy.data;
    memset(wy.data, 0, (size_t)y->count * sizeof(double));
    (align ? move_align : move_pool)(&t, rois);
    wide_store(&wy, y);
  }
  wide_finish(&wx), wide_finish(&wr), wide_finish(&wm), wide_finish(&wy);
  return status;
}
static rlx_status eval_grad_align(rlx_ctx *ctx) { return eval_grad(ctx, true); }
static rlx_status eval_grad_pool(rlx_ctx *ctx) { return eval_grad(ctx, false); }

static rlx_status infer_grad(rlx_infer *ctx) {
  const roi_params *p = rlx_infer_params(ctx);
  const rlx_type *x = rlx_infer_input(ctx, 1), *rois = rlx_infer_input(ctx, 2);
  bool pooled = p->pooled_shape.count == 2;
  if (!p->forward) return rlx_infer_like(ctx, 0, 1), RLX_OK;
  rlx_infer_set(ctx, 0, 4,
                (const int64_t[]){rois->rank > 0 ? rois->dims[0] : RLX_UNKNOWN, x->rank == 4 ? x->dims[1] : RLX_UNKNOWN,
                                  pooled ? p->pooled_shape.data[0] : p->output_height,
                                  pooled ? p->pooled_shape.data[1] : p->output_width});
  return RLX_OK;
}

/* A node of a gradient op with the attributes of n; inputs: what is moved, X, rois and, for RoiAlign, batch_indices. */
static rlx_value *moved_by(rlx_graph *g, const rlx_node *n, bool align, bool forward, rlx_value *const *inputs) {
  const roi_params *p = rlx_node_params(n);
  rlx_attr pool[] = {RLX_ATTR_I("forward", forward),
                     RLX_ATTR_F("spatial_scale", p->spatial_scale),
                     {.name = "pooled_shape",
                      .kind = RLX_ATTR_INTS,
                      .ints = p->pooled_shape.data,
                      .count = (size_t)p->pooled_shape.count}};
  rlx_attr aligned[] = {
      pool[0],
      pool[1],
      {.name = "mode", .kind = RLX_ATTR_STRING, .s = p->mode},
      {.name = "coordinate_transformation_mode", .kind = RLX_ATTR_STRING, .s = p->coordinate_transformation_mode},
      RLX_ATTR_I("output_height", p->output_height),
      RLX_ATTR_I("output_width", p->output_width),
      RLX_ATTR_I("sampling_ratio", p->sampling_ratio)};
  return align ? rlx_graph_op(g, "rlx.grad.RoiAlign", aligned, 7, inputs, 4)
               : rlx_graph_op(g, "rlx.grad.MaxRoiPool", pool, 3, inputs, 3);
}

static const char no_regions[] = "regions have no derivatives";

static rlx_status vjp_roi(rlx_graph *g, const rlx_node *n, rlx_value *const *dy, rlx_value **dx, bool align) {
  rlx_value *in[4] = {dy[0], rlx_node_input(n, 0), rlx_node_input(n, 1), rlx_node_input(n, 2)};
  if (!dy[0]) return RLX_OK;
  dx[0] = moved_by(g, n, align, false, in);
  dx[1] = rlx_no_derivative(g, no_regions);
  return rlx_graph_status(g);
}
static rlx_status vjp_align(rlx_graph *g, const rlx_node *n, rlx_value *const *dy, rlx_value **dx) {
  return vjp_roi(g, n, dy, dx, true);
}
static rlx_status vjp_pool(rlx_graph *g, const rlx_node *n, rlx_value *const *dy, rlx_value **dx) {
  return vjp_roi(g, n, dy, dx, false);
}

/* The transpose, by what is moved; where the taps lie is constant almost everywhere. */
static rlx_status vjp_moved(rlx_graph *g, const rlx_node *n, rlx_value *const *dy, rlx_value **dx, bool align) {
  const roi_params *p = rlx_node_params(n);
  rlx_value *in[4] = {dy[0], rlx_node_input(n, 1), rlx_node_input(n, 2), rlx_node_input(n, 3)};
  if (!dy[0]) return RLX_OK;
  dx[0] = moved_by(g, n, align, !p->forward, in);
  dx[2] = rlx_no_derivative(g, no_regions);
  return rlx_graph_status(g);
}
static rlx_status vjp_moved_align(rlx_graph *g, const rlx_node *n, rlx_value *const *dy, rlx_value **dx) {
  return vjp_moved(g, n, dy, dx, true);
}
static rlx_status vjp_moved_pool(rlx_graph *g, const rlx_node *n, rlx_value *const *dy, rlx_value **dx) {
  return vjp_moved(g, n, dy, dx, false);
}

/* ---- records ---------------------------------------------------------------------------------------------------- */

#define AT(member) .offset = offsetof(roi_params, member)
#define SIZE(attr_name, member)                                                                                        \
  {.name = attr_name, .kind = RLX_ATTR_INT, .flags = RLX_RANGED, AT(member), .default_int = 1, .min = 1,               \
   .max = INT32_MAX}
#define COMMON                                                                                                         \
  {.name = "mode", .kind = RLX_ATTR_STRING, AT(mode), .default_string = "avg"}, SIZE("output_height", output_height),  \
      SIZE("output_width", output_width),                                                                              \
      {.name = "sampling_ratio", .kind = RLX_ATTR_INT, AT(sampling_ratio)},                                            \
      {.name = "spatial_scale", .kind = RLX_ATTR_FLOAT, AT(spatial_scale), .default_float = 1}
#define COORDINATES(flag_text)                                                                                         \
  {.name = "coordinate_transformation_mode", .kind = RLX_ATTR_STRING, AT(coordinate_transformation_mode),              \
   .default_string = flag_text}
static const rlx_attr_def align_attrs[] = {COMMON, COORDINATES("half_pixel"), {0}};
static const rlx_attr_def align10_attrs[] = {COMMON, COORDINATES("output_half_pixel"), {0}};
static const rlx_attr_def pool_attrs[] = {
    {.name = "pooled_shape", .kind = RLX_ATTR_INTS, .flags = RLX_REQUIRED, AT(pooled_shape)},
    {.name = "spatial_scale", .kind = RLX_ATTR_FLOAT, AT(spatial_scale), .default_float = 1},
    {0}};
static const rlx_port align_inputs[] = {{"X", "T1", RLX_SET_FLOATS, 0, 0},
                                        {"rois", "T1", RLX_SET_FLOATS, 0, 0},
                                        {"batch_indices", "T2", RLX_SET(RLX_INT64), 0, 0},
                                        {0}};
static const rlx_port align_outputs[] = {{"Y", "T1", RLX_SET_FLOATS, 0, 0}, {0}};

static const char *const align_rows[] = {
    "float[1,2,6,6], float[2,4] = {0, 0, 3, 3, 1, 1, 5, 4}, int64[2] = {0, 0} {output_height = 2, output_width = 2}",
    "float[1,1,5,5], float[1,4] = {0, 1, 4, 4}, int64[1] = {0} {mode = \"max\", output_height = 3, sampling_ratio = 2}",
    NULL};
#define ALIGN(since, attr_rows)                                                                                        \
  {                                                                                                                    \
    .struct_size = sizeof(rlx_op), .name = "onnx.RoiAlign", .version = since,                                          \
    .samples = align_rows,                                                                                             \
    .doc = "Mean or maximum of bilinear samples in the bins of each region (arXiv:1703.06870).",                       \
    .inputs = align_inputs, .outputs = align_outputs, .attrs = attr_rows, .params_size = sizeof(roi_params),           \
    .traits = RLX_PURE, .infer = infer_align, .vjp = vjp_align, .eval = eval_align                                                       \
  }
static const rlx_op roi_align = ALIGN(16, align_attrs), roi_align10 = ALIGN(10, align10_attrs);

static const rlx_op max_roi_pool = {
    .struct_size = sizeof(rlx_op),
    .name = "onnx.MaxRoiPool",
    .version = 1,
    .samples =
        (const char *const[]){"float[1,2,6,6], float[2,5] = {0, 0, 0, 3, 3, 0, 1, 1, 5, 4} {pooled_shape = [2, 2]}",
                              NULL},
    .doc = "Largest element in the bins of each region, with coordinates rounded to pixels.",
    .inputs = (const rlx_port[]){{"X", "T", RLX_SET_FLOATS, 0, 0}, {"rois", "T", RLX_SET_FLOATS, 0, 0}, {0}},
    .outputs = (const rlx_port[]){{"Y", "T", RLX_SET_FLOATS, 0, 0}, {0}},
    .attrs = pool_attrs,
    .params_size = sizeof(roi_params),
    .traits = RLX_PURE,
    .infer = infer_pool,
    .vjp = vjp_pool,
    .eval = eval_pool,
};

#define FORWARD                                                                                                        \
  { .name = "forward", .kind = RLX_ATTR_INT, AT(forward) }
static const rlx_attr_def grad_align_attrs[] = {COMMON, COORDINATES("half_pixel"), FORWARD, {0}};
static const rlx_attr_def grad_pool_attrs[] = {
    {.name = "pooled_shape", .kind = RLX_ATTR_INTS, .flags = RLX_REQUIRED, AT(pooled_shape)},
    {.name = "spatial_scale", .kind = RLX_ATTR_FLOAT, AT(spatial_scale), .default_float = 1},
    FORWARD,
    {0}};
static const rlx_port grad_align_inputs[] = {{"moved", "T1", RLX_SET_FLOATS, 0, 0},
                                             {"X", "T1", RLX_SET_FLOATS, 0, 0},
                                             {"rois", "T1", RLX_SET_FLOATS, 0, 0},
                                             {"batch_indices", "T2", RLX_SET(RLX_INT64), 0, 0},
                                             {0}};
static const rlx_port grad_pool_inputs[] = {{"moved", "T1", RLX_SET_FLOATS, 0, 0},
                                            {"X", "T1", RLX_SET_FLOATS, 0, 0},
                                            {"rois", "T1", RLX_SET_FLOATS, 0, 0},
                                            {0}};

#define GRADIENT(op_name, text, input_ports, attr_rows, vjp_fn, eval_fn)                                               \
  {                                                                                                                    \
    .struct_size = sizeof(rlx_op), .name = op_name, .version = 1, .doc = text, .inputs = input_ports,                  \
    .outputs = align_outputs, .attrs = attr_rows, .params_size = sizeof(roi_params), .traits = RLX_PURE,               \
    .infer = infer_grad, .vjp = vjp_fn, .eval = eval_fn                                                                \
  }
static const rlx_op grad_align =
    GRADIENT("rlx.grad.RoiAlign", "The gradient of RoiAlign by X, or (forward) its tangent along one of X.",
             grad_align_inputs, grad_align_attrs, vjp_moved_align, eval_grad_align);
static const rlx_op grad_pool =
    GRADIENT("rlx.grad.MaxRoiPool", "The gradient of MaxRoiPool by X, or (forward) its tangent along one of X.",
             grad_pool_inputs, grad_pool_attrs, vjp_moved_pool, eval_grad_pool);

static const rlx_op *const ops[] = {&roi_align, &roi_align10, &max_roi_pool, &grad_align, &grad_pool, NULL};
const rlx_module ops_roi = {.ops = ops};
