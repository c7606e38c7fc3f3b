/* gridsample.c — onnx.GridSample and AffineGrid. */
#include <math.h>
#include <string.h>

#include "base/status.h"
#include "ir/module.h"
#include "ops/_gridsample.h"
#include "ops/_number.h"
#include "ops/_window.h"

typedef enum sampling { SAMPLE_LINEAR, SAMPLE_NEAREST, SAMPLE_CUBIC } sampling;
typedef enum outside { OUTSIDE_ZEROS, OUTSIDE_BORDER, OUTSIDE_REFLECTION } outside;

typedef struct grid_task {
  const rlx_operand *x, *grid, *y;
  int axes;                  /* spatial */
  int64_t channels, in, out; /* elements of a plane */
  sampling mode;
  outside padding;
  bool corners;
} grid_task;

static double reflect(double v, double low, double high) {
  double range = high - low;
  if (range <= 0) return low;
  double past = v < low ? low - v : v > high ? v - high : 0;
  if (past == 0 || !isfinite(v)) return isfinite(v) ? v : low;
  double turns = floor(past / range), rest = past - turns * range;
  bool even = fmod(turns, 2) == 0;
  if (v < low) return even ? low + rest : high - rest;
  return even ? high - rest : low + rest;
}

/* Coordinate in elements along an axis of `size`. */
static double locate(const grid_task *t, double normalised, int64_t size) {
  double n = (double)size;
  double v = t->corners ? (normalised + 1) / 2 * (n - 1) : ((normalised + 1) * n - 1) / 2;
  if (t->mode == SAMPLE_NEAREST) v = nearbyint(v);
  double low = t->corners ? 0 : -0.5, high = t->corners ? n - 1 : n - 0.5;
  /* A cubic's taps are moved inside one by one: see `inside`. */
  if (t->mode != SAMPLE_CUBIC && (v < low || v > high)) {
    if (t->padding == OUTSIDE_BORDER) v = fmin(fmax(v, 0), n - 1);
    if (t->padding == OUTSIDE_REFLECTION) v = reflect(v, low, high);
  }
  return v;
}

/* An integer position moved inside, or -1 for a zero. */
static int64_t inside(const grid_task *t, double position, int64_t size) {
  double n = (double)size;
  if (position >= 0 && position < n) return (int64_t)position;
  if (t->padding == OUTSIDE_ZEROS || position != position) return -1;
  if (t->padding == OUTSIDE_REFLECTION) {
    position = t->corners ? reflect(position, 0, n - 1) : reflect(position, -0.5, n - 0.5);
  }
  return (int64_t)fmin(fmax(position, 0), n - 1);
}

/* Taps along one axis: positions (or -1) and weights. Returns how many. */
static int taps(const grid_task *t, double v, int64_t size, int64_t at[4], double weight[4]) {
  if (t->mode == SAMPLE_NEAREST) {
    at[0] = inside(t, v, size);
    weight[0] = 1;
    return 1;
  }
  double base = floor(v), f = v - base;
  if (t->mode == SAMPLE_LINEAR) {
    for (int i = 0; i < 2; i++) at[i] = inside(t, base + i, size);
    weight[0] = 1 - f;
    weight[1] = f;
    return 2;
  }
  const double a = -0.75; /* Keys' cubic convolution, doi:10.1109/TASSP.1981.1163711 */
  for (int i = 0; i < 4; i++) {
    at[i] = inside(t, base + i - 1, size);
    double d = fabs(f - (double)(i - 1));
    weight[i] = d <= 1 ? ((a + 2) * d - (a + 3)) * d * d + 1 : ((a * d - 5 * a) * d + 8 * a) * d - 4 * a;
  }
  return 4;
}

/* Interpolates all channels at one point of the grid. */
static void sample_point(const grid_task *t, int64_t n, int64_t point) {
  const rlx_operand *x = t->x;
  int64_t at[WINDOW_MAX][4], count[WINDOW_MAX], index[WINDOW_MAX];
  double weight[WINDOW_MAX][4];
  for (int d = 0; d < t->axes; d++) { /* the grid holds x, y, … : the last axis first */
    double v = dtype_load(t->grid->dtype, t->grid->data, (n * t->out + point) * t->axes + t->axes - 1 - d);
    count[d] = taps(t, locate(t, v, x->dims[d + 2]), x->dims[d + 2], at[d], weight[d]);
  }
  for (int64_t c = 0; c < t->channels; c++) {
    double sum = 0;
    memset(index, 0, sizeof index);
    do {
      int64_t flat = 0;
      double w = 1;
      bool zero = false;
      for (int d = 0; d < t->axes; d++) {
        int64_t position = at[d][index[d]];
        zero = zero || position < 0;
        flat = flat * x->dims[d + 2] + position;
        w *= weight[d][index[d]];
      }
      if (!zero) sum += w * dtype_load(x->dtype, x->data, (n * t->channels + c) * t->in + flat);
    } while (window_next(t->axes, count, index));
    number_store(t->y->dtype, t->y->data, (n * t->channels + c) * t->out + point, sum);
  }
}

static void sample_points(void *arg, int64_t begin, int64_t end) {
  const grid_task *t = arg;
  for (int64_t i = begin; i < end; i++) sample_point(t, i / t->out, i % t->out);
}

static rlx_status infer_sample(rlx_infer *ctx) {
  const rlx_type *x = rlx_infer_input(ctx, 0), *grid = rlx_infer_input(ctx, 1);
  int rank = x->rank != RLX_UNKNOWN ? x->rank : grid->rank;
  if (rank == RLX_UNKNOWN) return RLX_OK;
  if (rank < 3 || (grid->rank != RLX_UNKNOWN && grid->rank != rank)) {
    return rlx_fail(ctx, RLX_INVALID, "X of rank %d and a grid of rank %d", x->rank, grid->rank);
  }
  if (grid->rank == rank && grid->dims[rank - 1] != RLX_UNKNOWN && grid->dims[rank - 1] != rank - 2) {
    return rlx_fail(ctx, RLX_INVALID, "a grid of %lld coordinates for %d axes", (long long)grid->dims[rank - 1],
                    rank - 2);
  }
  int64_t dims[RLX_MAX_RANK];
  for (int d = 0; d < rank; d++) {
    dims[d] =
        d < 2 ? (x->rank == rank ? x->dims[d] : RLX_UNKNOWN) : (grid->rank == rank ? grid->dims[d - 1] : RLX_UNKNOWN);
  }
  rlx_infer_set(ctx, 0, rank, dims);
  return RLX_OK;
}

static rlx_status eval_sample(rlx_ctx *ctx) {
  const grid_params *p = ctx->params;
  const rlx_operand *x = &ctx->inputs[0], *grid = &ctx->inputs[1], *y = &ctx->outputs[0];
  if (x->rank < 3 || grid->rank != x->rank || grid->dims[x->rank - 1] != x->rank - 2 || grid->dims[0] != x->dims[0]) {
    return rlx_fail(ctx, RLX_INVALID, "the grid does not fit X");
  }
  grid_task t = {.x = x, .grid = grid, .y = y, .axes = x->rank - 2, .channels = x->dims[1], .in = 1, .out = 1};
  for (int d = 2; d < x->rank; d++) t.in *= x->dims[d], t.out *= y->dims[d];
  t.corners = p->align_corners != 0;
  t.mode = grid_word(&p->mode, "nearest")                                   ? SAMPLE_NEAREST
           : grid_word(&p->mode, "cubic") || grid_word(&p->mode, "bicubic") ? SAMPLE_CUBIC
                                                                            : SAMPLE_LINEAR;
  if (t.mode == SAMPLE_LINEAR && !grid_word(&p->mode, "linear") && !grid_word(&p->mode, "bilinear")) {
    return rlx_fail(ctx, RLX_INVALID, "mode is not linear, nearest or cubic");
  }
  t.padding = grid_word(&p->padding_mode, "border")       ? OUTSIDE_BORDER
              : grid_word(&p->padding_mode, "reflection") ? OUTSIDE_REFLECTION
                                                          : OUTSIDE_ZEROS;
  if (t.padding == OUTSIDE_ZEROS && !grid_word(&p->padding_mode, "zeros")) {
    return rlx_fail(ctx, RLX_INVALID, "padding_mode is not zeros, border or reflection");
  }
  if (y->count == 0) return RLX_OK;
  if (t.in == 0) {
    memset(y->data, 0, (size_t)y->bytes);
    return RLX_OK;
  }
  rlx_parallel_for(ctx, x->dims[0] * t.out, 256, sample_points, &t);
  return RLX_OK;
}

/* ---- AffineGrid ------------------------------------------------------------------------------------------------- */

static rlx_status infer_affine(rlx_infer *ctx) {
  const rlx_type *theta = rlx_infer_input(ctx, 0);
  if (theta->rank != RLX_UNKNOWN && theta->rank != 3) {
    return rlx_fail(ctx, RLX_INVALID, "theta has rank %d, not 3", theta->rank);
  }
  const rlx_tensor *size = rlx_infer_value(ctx, 1);
  if (!size) {
    const rlx_type *type = rlx_infer_input(ctx, 1);
    int64_t dims[RLX_MAX_RANK], count = type->rank == 1 ? type->dims[0] : RLX_UNKNOWN;
    for (int d = 0; d < RLX_MAX_RANK; d++) dims[d] = RLX_UNKNOWN;
    if (count == 4 || count == 5) rlx_infer_set(ctx, 0, (int)count, dims);
    return RLX_OK;
  }
  int64_t count = rlx_tensor_count(size), dims[5];
  const int64_t *s = rlx_tensor_data(size);
  if (count != 4 && count != 5)
    return rlx_fail(ctx, RLX_INVALID, "size has %lld entries, not 4 or 5", (long long)count);
  for (int64_t d = 0; d < count; d++) {
    if (s[d] < 0) return rlx_fail(ctx, RLX_INVALID, "size holds %lld", (long long)s[d]);
  }
  dims[0] = s[0];
  for (int64_t d = 2; d < count; d++) dims[d - 1] = s[d];
  dims[count - 1] = count - 2;
  rlx_infer_set(ctx, 0, (int)count, dims);
  return RLX_OK;
}

NUMBER_INLINE rlx_status affine_body(rlx_dtype t, rlx_ctx *ctx) {
  const grid_params *p = ctx->params;
  const rlx_operand *theta = &ctx->inputs[0], *y = &ctx->outputs[0];
  int axes = y->rank - 2;
  if (axes < 2 || axes > 3 || theta->rank != 3 || theta->dims[0] != y->dims[0] || theta->dims[1] != axes ||
      theta->dims[2] != axes + 1) {
    return rlx_fail(ctx, RLX_INVALID, "theta does not fit a grid of rank %d", y->rank);
  }
  int64_t index[4] = {0};
  for (int64_t at = 0; at < y->count; at += axes) {
    double point[4];
    for (int d = 0; d < axes; d++) { /* coordinates in the order x, y, z */
      double n = (double)y->dims[axes - d], i = (double)index[axes - d];
      point[d] = p->align_corners ? (n > 1 ? -1 + 2 * i / (n - 1) : -1) : -1 + (2 * i + 1) / n;
    }
    point[axes] = 1;
    for (int r = 0; r < axes; r++) {
      double sum = 0;
      for (int c = 0; c <= axes; c++) {
        sum += number_load(t, theta->data, (index[0] * axes + r) * (axes + 1) + c) * point[c];
      }
      number_store(t, y->data, at + r, sum);
    }
    window_next(axes + 1, y->dims, index);
  }
  return RLX_OK;
}
static rlx_status eval_affine(rlx_ctx *ctx) { DISPATCH_FLOATS(ctx->inputs[0].dtype, affine_body, ctx) }

/* ---- records ---------------------------------------------------------------------------------------------------- */

#define CORNERS {.name = "align_corners", .kind = RLX_ATTR_INT, .offset = offsetof(grid_params, align_corners)}
static const rlx_attr_def sample_attrs[] = {
    {.name = "mode", .kind = RLX_ATTR_STRING, .offset = offsetof(grid_params, mode), .default_string = "linear"},
    {.name = "padding_mode",
     .kind = RLX_ATTR_STRING,
     .offset = offsetof(grid_params, padding_mode),
     .default_string = "zeros"},
    CORNERS,
    {0}};
static const rlx_attr_def affine_attrs[] = {CORNERS, {0}};
#define VALUES (RLX_SET_NUMBERS | RLX_SET(RLX_BOOL))
static const rlx_op grid_sample = {
    .struct_size = sizeof(rlx_op),
    .name = "onnx.GridSample",
    .version = 16,
    .doc = "Values of X interpolated at the normalised coordinates of a grid.",
    .samples =
        (const char *const[]){"float[1,2,4,5], float[1,3,3,2]",
                              "float[1,1,4,4], float[1,2,2,2] {mode = \"cubic\", padding_mode = \"border\"}", NULL},
    .inputs = (const rlx_port[]){{"X", "T1", VALUES, 0, 0}, {"grid", "T2", RLX_SET_FLOATS, 0, 0}, {0}},
    .outputs = (const rlx_port[]){{"Y", "T1", VALUES, 0, 0}, {0}},
    .attrs = sample_attrs,
    .params_size = sizeof(grid_params),
    .traits = RLX_PURE,
    .infer = infer_sample,
    .derive = grid_sample_derive,
    .eval = eval_sample,
};
static const rlx_op affine_grid = {
    .struct_size = sizeof(rlx_op),
    .name = "onnx.AffineGrid",
    .version = 20,
    .samples = (const char *const[]){"float[2,2,3], int64[4] = {2, 3, 4, 5} {align_corners = 1}",
                                     "float[1,3,4], int64[5] = {1, 2, 2, 3, 4}", NULL},
    .doc = "The grid of normalised coordinates that affine matrices map the output's to.",
    .inputs =
        (const rlx_port[]){{"theta", "T1", RLX_SET_FLOATS, 0, 0}, {"size", "T2", RLX_SET(RLX_INT64), RLX_HOST, 0}, {0}},
    .outputs = (const rlx_port[]){{"grid", "T1", RLX_SET_FLOATS, 0, 0}, {0}},
    .attrs = affine_attrs,
    .params_size = sizeof(grid_params),
    .traits = RLX_PURE,
    .infer = infer_affine,
    .derive = affine_grid_derive,
    .eval = eval_affine,
};

static const rlx_op *const ops[] = {&grid_sample, &affine_grid, NULL};
const rlx_module ops_gridsample = {.ops = ops};
