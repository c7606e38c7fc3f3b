/* reduce.c — reductions of floats: contiguous lines, or strips of neighbouring columns, in partial results that are
 * flushed to double before they lose digits. */
#include <math.h>

#include "ir/module.h"
#include "ops/_window.h"
#include "ops/reduce.h"

/* What is accumulated, and what becomes of it. */
typedef enum reduce_step { STEP_SUM, STEP_ABS, STEP_SQUARE, STEP_MAX, STEP_MIN } reduce_step;
typedef enum reduce_end { END_NONE, END_MEAN, END_SQRT, END_LOG } reduce_end;

enum { LANES = 32, FLUSH = 64, STRIP = 64, GRAIN = 16384 };

typedef struct reduce_job {
  reduce_shape shape;
  reduce_step step;
  reduce_end end;
  const float *x;
  float *y;
} reduce_job;

/* a with x taken in; NaN stays. */
static inline __attribute__((always_inline)) float take(reduce_step step, float a, float x) {
  switch (step) {
    case STEP_SUM: return a + x;
    case STEP_ABS: return a + fabsf(x);
    case STEP_SQUARE: return a + x * x;
    case STEP_MAX: return x > a || x != x ? x : a;
    default: return x < a || x != x ? x : a;
  }
}

static inline __attribute__((always_inline)) double merge(reduce_step step, double a, double b) {
  if (step == STEP_MAX) return b > a || b != b ? b : a;
  if (step == STEP_MIN) return b < a || b != b ? b : a;
  return a + b;
}

static inline __attribute__((always_inline)) float neutral(reduce_step step) {
  return step == STEP_MAX ? -INFINITY : step == STEP_MIN ? INFINITY : 0;
}

/* n neighbouring elements. */
static inline __attribute__((always_inline)) double line(reduce_step step, const float *x, int64_t n) {
  double total = (double)neutral(step);
  int64_t i = 0;
  while (n - i >= LANES) {
    float lane[LANES];
    for (int k = 0; k < LANES; k++) lane[k] = neutral(step);
    for (int turn = 0; turn < FLUSH && n - i >= LANES; turn++, i += LANES) {
      for (int k = 0; k < LANES; k++) lane[k] = take(step, lane[k], x[i + k]);
    }
    for (int k = 0; k < LANES; k++) total = merge(step, total, (double)lane[k]);
  }
  for (; i < n; i++) total = merge(step, total, (double)take(step, neutral(step), x[i]));
  return total;
}

static float finish(const reduce_job *j, double total) {
  switch (j->end) {
    case END_MEAN: return (float)(total / (double)j->shape.count);
    case END_SQRT: return (float)sqrt(total);
    case END_LOG: return (float)log(total);
    default: return (float)total;
  }
}

static int64_t kept_offset(const reduce_shape *s, int axes, int64_t i) {
  int64_t at = 0;
  for (int d = axes - 1; d >= 0; d--) {
    at += i % s->kept[d] * s->kept_stride[d];
    i /= s->kept[d];
  }
  return at;
}

static int64_t reduced_offset(const reduce_shape *s, int axes, const int64_t *index) {
  int64_t at = 0;
  for (int d = 0; d < axes; d++) at += index[d] * s->reduced_stride[d];
  return at;
}

/* Outputs [begin, end): the last axis is reduced. */
static inline __attribute__((always_inline)) void lines(reduce_step step, const reduce_job *j, int64_t begin,
                                                        int64_t end) {
  const reduce_shape *s = &j->shape;
  int last = s->reduced_rank - 1;
  for (int64_t i = begin; i < end; i++) {
    const float *x = j->x + kept_offset(s, s->kept_rank, i);
    int64_t index[RLX_MAX_RANK] = {0};
    double total = (double)neutral(step);
    do {
      total = merge(step, total, line(step, x + reduced_offset(s, last, index), s->reduced[last]));
    } while (last > 0 && window_next(last, s->reduced, index));
    j->y[i] = finish(j, total);
  }
}

/* Strips [begin, end) of STRIP columns: the last axis is kept. */
static inline __attribute__((always_inline)) void columns(reduce_step step, const reduce_job *j, int64_t begin,
                                                          int64_t end) {
  const reduce_shape *s = &j->shape;
  int last = s->kept_rank - 1;
  int64_t width = s->kept[last], strips = (width + STRIP - 1) / STRIP;
  for (int64_t i = begin; i < end; i++) {
    int64_t from = i % strips * STRIP, n = width - from < STRIP ? width - from : STRIP, turn = 0;
    const float *x = j->x + kept_offset(s, last, i / strips) + from;
    int64_t index[RLX_MAX_RANK] = {0};
    double total[STRIP];
    float part[STRIP];
    for (int k = 0; k < STRIP; k++) total[k] = (double)(part[k] = neutral(step));
    bool more = true;
    while (more) {
      const float *row = x + reduced_offset(s, s->reduced_rank, index);
      for (int64_t k = 0; k < n; k++) part[k] = take(step, part[k], row[k]);
      more = s->reduced_rank > 0 && window_next(s->reduced_rank, s->reduced, index);
      if (!more || ++turn == FLUSH) {
        for (int k = 0; k < STRIP; k++) total[k] = merge(step, total[k], (double)part[k]), part[k] = neutral(step);
        turn = 0;
      }
    }
    for (int64_t k = 0; k < n; k++) j->y[i / strips * width + from + k] = finish(j, total[k]);
  }
}

#define RANGES(name, step)                                                                                             \
  static void lines_##name(void *arg, int64_t begin, int64_t end) { lines(step, arg, begin, end); }                    \
  static void columns_##name(void *arg, int64_t begin, int64_t end) { columns(step, arg, begin, end); }
RANGES(sum, STEP_SUM)
RANGES(abs, STEP_ABS)
RANGES(square, STEP_SQUARE)
RANGES(max, STEP_MAX)
RANGES(min, STEP_MIN)
#undef RANGES

typedef void range_fn(void *arg, int64_t begin, int64_t end);

static rlx_status run(rlx_ctx *ctx, reduce_step step, reduce_end end) {
  static range_fn *const by_line[] = {lines_sum, lines_abs, lines_square, lines_max, lines_min};
  static range_fn *const by_column[] = {columns_sum, columns_abs, columns_square, columns_max, columns_min};
  reduce_job j = {.step = step, .end = end, .x = ctx->inputs[0].data, .y = ctx->outputs[0].data};
  rlx_status status = reduce_of_run(ctx, &j.shape);
  if (status != RLX_OK || j.shape.outputs == 0) return status;
  reduce_shape *s = &j.shape;
  if (s->count == 0) {
    for (int64_t i = 0; i < s->outputs; i++) j.y[i] = finish(&j, (double)neutral(step));
    return RLX_OK;
  }
  bool down = s->kept_rank > 0 && s->kept_stride[s->kept_rank - 1] == 1;
  if (!down && s->reduced_rank == 0) s->reduced[0] = s->reduced_stride[0] = s->reduced_rank = 1;
  int64_t width = down ? s->kept[s->kept_rank - 1] : 1, units = s->outputs / width * ((width + STRIP - 1) / STRIP);
  int64_t grain = GRAIN / (s->count * (width < STRIP ? width : STRIP)) + 1;
  range_fn *range = down ? by_column[step] : by_line[step];
  if (units < 2 * grain) {
    range(&j, 0, units);
  } else {
    rlx_parallel_for(ctx, units, grain, range, &j);
  }
  return RLX_OK;
}

static const char *why_not(const rlx_node *n) {
  rlx_dtype dtype = rlx_node_input_type(n, 0)->dtype;
  return dtype == RLX_FLOAT ? NULL : rlx_reason("only float is served, not %s", rlx_dtype_name(dtype));
}

#define KERNEL(id, since, step, end)                                                                                   \
  static rlx_status run_##id(rlx_ctx *ctx) { return run(ctx, step, end); }                                             \
  static const rlx_cpu_kernel kernel_##id = {                                                                          \
      .struct_size = sizeof(rlx_cpu_kernel),                                                                           \
      .head = {.op = "onnx.Reduce" #id, .version_min = since, .name = "lines", .why_not = why_not},                    \
      .run = run_##id};
KERNEL(Sum, 13, STEP_SUM, END_NONE)
KERNEL(Mean, 18, STEP_SUM, END_MEAN)
KERNEL(Max, 18, STEP_MAX, END_NONE)
KERNEL(Min, 18, STEP_MIN, END_NONE)
KERNEL(L1, 18, STEP_ABS, END_NONE)
KERNEL(L2, 18, STEP_SQUARE, END_SQRT)
KERNEL(SumSquare, 18, STEP_SQUARE, END_NONE)
KERNEL(LogSum, 18, STEP_SUM, END_LOG)
#undef KERNEL

static const rlx_cpu_kernel *const kernels[] = {&kernel_Sum, &kernel_Mean,      &kernel_Max,    &kernel_Min, &kernel_L1,
                                                &kernel_L2,  &kernel_SumSquare, &kernel_LogSum, NULL};
const rlx_module cpu_reduce = {.kernels = kernels};
