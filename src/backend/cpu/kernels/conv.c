/* conv.c — onnx.Conv and rlx.conv of row-major floats, of any rank and extents: strips of neighbouring output positions
 * are gathered into a panel, which the tiles of matrix products multiply by the weights. */
#include <string.h>

#include "backend/cpu/kernels/_gemm.h"
#include "base/memory.h"
#include "base/status.h"
#include "ir/module.h"
#include "ops/fused_conv.h"

/* Rows of a panel: so many that panel and tiles of weights stay in the nearest caches. */
enum { PANEL_ROWS = 256 };

typedef struct conv_state {
  const gemm_isa *isa;
  conv_shape shape;
  int64_t taps, depth, in, out, strips; /* elements: filter plane, channels a group, planes of X and Y; strips of Y's */
  bool pointwise;                       /* a plane of X is read as it lies */
  bool depthwise;                       /* one channel a group, few enough rows in a filter */
  fused_activation activation;
  float alpha, beta;
  int threads;
} conv_state;

typedef struct conv_job {
  const conv_state *s;
  const float *x, *w, *bias, *z; /* bias and z may be NULL */
  float *y, *workspace;
  int workers;
} conv_job;

/* One strip: columns [first, first + count) of the output plane. */
typedef struct strip {
  const float *x, *w; /* the group's channels of this sample, the group's filters */
  float *panel;
  int64_t first, count;
} strip;

static bool is_fused(const rlx_node *n) { return strcmp(rlx_node_op(n), "rlx.conv") == 0; }

/* ---- gathering ---- */

/* `count` elements of row `line` of a plane, as seen by tap k of the last axis from output position `from` on. */
static void gather_run(const window *w, const float *line, int64_t k, int64_t from, int64_t count, float *to) {
  int last = w->rank - 1;
  int64_t first, end, stride = w->stride[last];
  window_span(w, last, k, &first, &end);
  first = first < from ? from : first > from + count ? from + count : first;
  end = end > from + count ? from + count : end < first ? first : end;
  int64_t offset = k * w->dilation[last] - w->begin[last];
  for (int64_t i = from; i < first; i++) *to++ = 0;
  if (stride == 1) {
    memcpy(to, line + first + offset, (size_t)(end - first) * sizeof *to);
    to += end - first;
  } else {
    for (int64_t i = first; i < end; i++) *to++ = line[i * stride + offset];
  }
  for (int64_t i = end; i < from + count; i++) *to++ = 0;
}

/* One row of the panel: tap `tap` of one channel at all positions of the strip. */
static void gather_row(const window *w, const float *plane, int64_t tap, const strip *t, float *to) {
  int last = w->rank - 1;
  int64_t width = w->out[last], k = tap % w->kernel[last], outer = tap / w->kernel[last], done = 0;
  while (done < t->count) {
    int64_t at = t->first + done, row = at / width, from = at % width, rest = outer, flat = 0, scale = 1;
    int64_t count = width - from < t->count - done ? width - from : t->count - done;
    bool inside = true;
    for (int d = last - 1; d >= 0; d--) {
      int64_t i = row % w->out[d] * w->stride[d] - w->begin[d] + rest % w->kernel[d] * w->dilation[d];
      inside = inside && i >= 0 && i < w->in[d];
      flat += i * scale;
      scale *= w->in[d];
      row /= w->out[d];
      rest /= w->kernel[d];
    }
    if (inside) {
      gather_run(w, plane + flat * w->in[last], k, from, count, to + done);
    } else {
      memset(to + done, 0, (size_t)count * sizeof *to);
    }
    done += count;
  }
}

/* ---- multiplying ---- */

/* The maps of one group over one strip: rows [k0, k0 + rows) of the panel's product are added to y. */
static void multiply(const conv_state *s, const strip *t, const float *b, int64_t b_stride, int64_t k0, int64_t rows,
                     float *y) {
  const gemm_isa *isa = s->isa;
  int64_t maps = s->shape.maps / s->shape.group, depth = s->depth * s->taps, columns = isa->columns;
  float edge[GEMM_MOST_ROWS * GEMM_MOST_COLUMNS];
  bool whole = t->count == columns;
  for (int64_t m = 0; m < maps; m += isa->rows) {
    int64_t height = maps - m < isa->rows ? maps - m : isa->rows;
    gemm_tile tile = {.a = t->w + m * depth + k0,
                      .b = b,
                      .c = y + m * s->out + t->first,
                      .a_stride = depth,
                      .b_stride = b_stride,
                      .c_stride = s->out,
                      .k = rows,
                      .start = GEMM_ADD};
    if (!whole) {
      for (int64_t r = 0; r < height; r++) {
        memcpy(edge + r * columns, tile.c + r * s->out, (size_t)t->count * sizeof *edge);
        memset(edge + r * columns + t->count, 0, (size_t)(columns - t->count) * sizeof *edge);
      }
      float *c = tile.c;
      tile.c = edge;
      tile.c_stride = columns;
      isa->tile[height](&tile);
      for (int64_t r = 0; r < height; r++) memcpy(c + r * s->out, edge + r * columns, (size_t)t->count * sizeof *edge);
    } else {
      isa->tile[height](&tile);
    }
  }
}

static void run_strip(const conv_job *j, strip *t, float *y) {
  const conv_state *s = j->s;
  int64_t depth = s->depth * s->taps, columns = s->isa->columns;
  bool direct = s->pointwise && t->count == columns;
  for (int64_t k0 = 0; k0 < depth; k0 += PANEL_ROWS) {
    int64_t rows = depth - k0 < PANEL_ROWS ? depth - k0 : PANEL_ROWS;
    if (direct) {
      multiply(s, t, t->x + k0 * s->in + t->first, s->in, k0, rows, y);
      continue;
    }
    for (int64_t r = 0; r < rows; r++) {
      float *to = t->panel + r * columns;
      gather_row(&s->shape.window, t->x + (k0 + r) / s->taps * s->in, (k0 + r) % s->taps, t, to);
      memset(to + t->count, 0, (size_t)(columns - t->count) * sizeof *to);
    }
    multiply(s, t, t->panel, columns, k0, rows, y);
  }
}

/* What the sums start from: the bias, and Z. */
static void start_strip(const conv_job *j, const strip *t, int64_t first_map, int64_t maps, float *y) {
  const conv_state *s = j->s;
  for (int64_t m = 0; m < maps; m++) {
    float bias = j->bias ? j->bias[first_map + m] : 0, *to = y + m * s->out + t->first;
    const float *z = j->z ? j->z + (to - j->y) : NULL;
    for (int64_t i = 0; i < t->count; i++) to[i] = z ? z[i] + bias : bias;
  }
}

/* Unit i takes every workers-th strip, and the i-th part of the workspace. */
static void run_unit(const conv_job *j, int64_t unit) {
  const conv_state *s = j->s;
  const conv_shape *c = &s->shape;
  int64_t maps = c->maps / c->group, columns = s->isa->columns, total = c->batch * c->group * s->strips;
  strip t = {.panel = j->workspace + unit * PANEL_ROWS * columns};
  for (int64_t i = unit; i < total; i += j->workers) {
    int64_t block = i / s->strips, group = block % c->group, sample = block / c->group;
    float *y = j->y + (sample * c->maps + group * maps) * s->out;
    t.first = i % s->strips * columns;
    t.count = s->out - t.first < columns ? s->out - t.first : columns;
    t.x = j->x + (sample * c->channels + group * s->depth) * s->in;
    t.w = j->w + group * maps * s->depth * s->taps;
    start_strip(j, &t, group * maps, maps, y);
    run_strip(j, &t, y);
    for (int64_t m = 0; m < maps && s->activation != FUSED_NONE; m++) {
      fused_activation_apply(s->activation, s->alpha, s->beta, y + m * s->out + t.first, t.count);
    }
  }
}

static void run_units(void *arg, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; i++) run_unit(arg, i);
}

/* ---- depthwise: one channel a group, row by row ---- */

enum { MOST_LINES = 16, ROW_BLOCK = 32 };

/* The rows of a channel that one output row sees, and each one's filter row. */
typedef struct row_view {
  const float *line[MOST_LINES], *weights[MOST_LINES];
  int lines;
} row_view;

/* y[i] += the taps of all lines, for outputs [from, to) whose taps all lie inside. */
static void add_inner(const window *w, const row_view *v, int64_t from, int64_t to, float *y) {
  int last = w->rank - 1;
  int64_t stride = w->stride[last], dilation = w->dilation[last];
  for (int64_t i = from; i < to; i += ROW_BLOCK) {
    int64_t n = to - i < ROW_BLOCK ? to - i : ROW_BLOCK;
    float sum[ROW_BLOCK];
    memcpy(sum, y + i, (size_t)n * sizeof *sum);
    for (int l = 0; l < v->lines; l++) {
      const float *x = v->line[l] + i * stride - w->begin[last];
      for (int64_t k = 0; k < w->kernel[last]; k++, x += dilation) {
        float tap = v->weights[l][k];
        if (stride == 1 && n == ROW_BLOCK) {
          for (int j = 0; j < ROW_BLOCK; j++) sum[j] += tap * x[j];
        } else {
          for (int64_t j = 0; j < n; j++) sum[j] += tap * x[j * stride];
        }
      }
    }
    memcpy(y + i, sum, (size_t)n * sizeof *sum);
  }
}

static void add_edge(const window *w, const row_view *v, int64_t from, int64_t to, float *y) {
  int last = w->rank - 1;
  for (int64_t i = from; i < to; i++) {
    for (int64_t k = 0; k < w->kernel[last]; k++) {
      int64_t at = i * w->stride[last] - w->begin[last] + k * w->dilation[last];
      for (int l = 0; l < v->lines && at >= 0 && at < w->in[last]; l++) y[i] += v->weights[l][k] * v->line[l][at];
    }
  }
}

/* Row `row` of the plane, counted over all axes but the last. */
static row_view view_row(const conv_state *s, const float *plane, const float *filter, int64_t row) {
  const window *w = &s->shape.window;
  int last = w->rank - 1;
  int64_t tap[WINDOW_MAX] = {0}, at[WINDOW_MAX];
  row_view v = {.lines = 0};
  for (int d = last - 1; d >= 0; d--) {
    at[d] = row % w->out[d] * w->stride[d] - w->begin[d];
    row /= w->out[d];
  }
  do {
    int64_t flat = 0;
    bool inside = true;
    for (int d = 0; d < last; d++) {
      int64_t i = at[d] + tap[d] * w->dilation[d];
      inside = inside && i >= 0 && i < w->in[d];
      flat = flat * w->in[d] + i;
    }
    if (inside) {
      v.line[v.lines] = plane + flat * w->in[last];
      v.weights[v.lines++] = filter;
    }
    filter += w->kernel[last];
  } while (window_next(last, w->kernel, tap));
  return v;
}

/* Planes [begin, end) of Y. */
static void run_planes(void *arg, int64_t begin, int64_t end) {
  const conv_job *j = arg;
  const conv_state *s = j->s;
  const window *w = &s->shape.window;
  int last = w->rank - 1;
  int64_t width = w->out[last], first = 0, inner = width, per_group = s->shape.maps / s->shape.group;
  for (int64_t k = 0; k < w->kernel[last]; k++) {
    int64_t low, high;
    window_span(w, last, k, &low, &high);
    first = low > first ? low : first;
    inner = high < inner ? high : inner;
  }
  if (inner < first) inner = first;
  for (int64_t i = begin; i < end; i++) {
    int64_t map = i % s->shape.maps, sample = i / s->shape.maps;
    const float *plane = j->x + (sample * s->shape.channels + map / per_group) * s->in;
    strip all = {.first = 0, .count = s->out};
    start_strip(j, &all, map, 1, j->y + i * s->out);
    for (int64_t row = 0; row < s->out / width; row++) {
      float *y = j->y + i * s->out + row * width;
      row_view v = view_row(s, plane, j->w + map * s->taps, row);
      add_edge(w, &v, 0, first, y);
      add_inner(w, &v, first, inner, y);
      add_edge(w, &v, inner, width, y);
    }
    if (s->activation != FUSED_NONE) {
      fused_activation_apply(s->activation, s->alpha, s->beta, j->y + i * s->out, s->out);
    }
  }
}

/* ---- the record ---- */

static const char *why_not(const rlx_node *n) {
  const rlx_type *x = rlx_node_input_type(n, 0);
  if (x->dtype != RLX_FLOAT) return rlx_reason("only float is served, not %s", rlx_dtype_name(x->dtype));
  const fused_conv_params *p = rlx_node_params(n);
  if (is_fused(n) && fused_activation_parse(&p->activation.name) == FUSED_UNKNOWN) return "the activation is not known";
  return NULL;
}

static bool is_pointwise(const window *w) {
  for (int d = 0; d < w->rank; d++) {
    if (w->kernel[d] != 1 || w->stride[d] != 1 || w->begin[d] || w->end[d]) return false;
  }
  return true;
}

static rlx_status prepare(rlx_bound *b, void **state) {
  const rlx_type *x = rlx_bound_input(b, 0), *w = rlx_bound_input(b, 1), *bias = rlx_bound_input(b, 2);
  conv_shape shape;
  const conv_params *p = rlx_bound_params(b); /* fused_conv_params begins as conv_params does */
  const char *bad = conv_resolve(p, x->rank, x->dims, w->rank, w->dims, &shape);
  if (!bad && bias && (bias->rank != 1 || bias->dims[0] != shape.maps)) bad = "the bias does not fit the weights";
  if (bad) return rlx_fail(b, RLX_INVALID, "%s", bad);
  conv_state *s = mem_zalloc(sizeof *s);
  if (!s) return rlx_fail(b, RLX_OUT_OF_MEMORY, "no memory for the kernel's state");
  *s = (conv_state){.isa = gemm_best(),
                    .shape = shape,
                    .taps = window_kernel_count(&shape.window),
                    .depth = shape.channels / shape.group,
                    .in = window_in_count(&shape.window),
                    .out = window_out_count(&shape.window),
                    .pointwise = is_pointwise(&shape.window),
                    .threads = rlx_bound_threads(b)};
  s->depthwise = s->depth == 1 && shape.maps / shape.group < 4 &&
                 s->taps / shape.window.kernel[shape.window.rank - 1] <= MOST_LINES;
  s->strips = (s->out + s->isa->columns - 1) / s->isa->columns;
  if (is_fused(rlx_bound_node(b))) {
    const fused_conv_params *f = rlx_bound_params(b);
    s->activation = fused_activation_parse(&f->activation.name);
    s->alpha = f->activation.alpha;
    s->beta = f->activation.beta;
  }
  *state = s;
  return RLX_OK;
}

static void release(void *state) { mem_free(state); }

static int64_t workspace(rlx_bound *b, const void *state) {
  (void)b;
  const conv_state *s = state;
  return (int64_t)s->threads * PANEL_ROWS * s->isa->columns * (int64_t)sizeof(float);
}

static const float *operand(const rlx_ctx *ctx, int i) { return i < ctx->input_count ? ctx->inputs[i].data : NULL; }

static rlx_status run(rlx_ctx *ctx) {
  const conv_state *s = ctx->state;
  if (ctx->outputs[0].count == 0) return RLX_OK;
  conv_job j = {.s = s,
                .x = operand(ctx, FUSED_CONV_X),
                .w = operand(ctx, FUSED_CONV_W),
                .bias = operand(ctx, FUSED_CONV_B),
                .z = operand(ctx, FUSED_CONV_Z),
                .y = ctx->outputs[0].data,
                .workspace = ctx->workspace,
                .workers = s->threads};
  if (s->depthwise) {
    rlx_parallel_for(ctx, s->shape.batch * s->shape.maps, 65536 / (s->out * s->taps) + 1, run_planes, &j);
    return RLX_OK;
  }
  int64_t strips = s->shape.batch * s->shape.group * s->strips;
  int64_t work = s->shape.maps / s->shape.group * s->depth * s->taps * s->isa->columns;
  if (strips < j.workers) j.workers = (int)strips;
  if (strips * work < 65536) j.workers = 1; /* not worth waking others */
  if (j.workers == 1) {
    run_unit(&j, 0);
  } else {
    rlx_parallel_for(ctx, j.workers, 1, run_units, &j);
  }
  return RLX_OK;
}

static const rlx_pair sum_in_place[] = {{0, FUSED_CONV_Z}};
#define HEAD(op_name)                                                                                                  \
  .op = (op_name), .name = "strips", .why_not = why_not, .workspace = workspace,       \
  .prepare = prepare, .release = release
static const rlx_cpu_kernel conv = {.struct_size = sizeof(rlx_cpu_kernel), .head = {HEAD("onnx.Conv")}, .run = run};
static const rlx_cpu_kernel fused = {.struct_size = sizeof(rlx_cpu_kernel),
                                     .head = {HEAD("rlx.conv"), .in_place = sum_in_place, .in_place_count = 1},
                                     .run = run};

static const rlx_cpu_kernel *const kernels[] = {&conv, &fused, NULL};
const rlx_module cpu_conv = {.kernels = kernels};
