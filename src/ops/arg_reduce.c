/* arg_reduce.c — ArgMax and ArgMin: where the largest or smallest element of an axis is. */
#include <stddef.h>

#include "ir/module.h"
#include "ops/_move.h"
#include "ops/_typed.h"

typedef struct arg_params {
  uint64_t given;
  int64_t axis, keepdims, select_last_index;
} arg_params;

static const rlx_attr_def arg_attrs[] = {
    {.name = "axis", .kind = RLX_ATTR_INT, .offset = offsetof(arg_params, axis)},
    {.name = "keepdims", .kind = RLX_ATTR_INT, .offset = offsetof(arg_params, keepdims), .default_int = 1},
    {.name = "select_last_index", .kind = RLX_ATTR_INT, .offset = offsetof(arg_params, select_last_index)},
    {0}};
static const rlx_port arg_inputs[] = {{.name = "data", .dtypes = RLX_SET_NUMBERS}, {0}};
static const rlx_port arg_outputs[] = {{.name = "reduced", .dtypes = MOVE_INT64}, {0}};

static rlx_status arg_infer(rlx_infer *ctx) {
  const arg_params *p = rlx_infer_params(ctx);
  const rlx_type *x = rlx_infer_input(ctx, 0);
  int axis;
  rlx_infer_output(ctx, 0)->dtype = RLX_INT64;
  if (x->rank == 0) return rlx_fail(ctx, RLX_INVALID, "data is a scalar");
  rlx_status status = infer_axis(ctx, p->axis, x->rank, &axis);
  if (status != RLX_OK || x->rank < 0) return status;
  int64_t dims[RLX_MAX_RANK];
  int rank = 0;
  for (int d = 0; d < x->rank; d++) {
    if (d != axis)
      dims[rank++] = x->dims[d];
    else if (p->keepdims)
      dims[rank++] = 1;
  }
  rlx_infer_set(ctx, 0, rank, dims);
  return RLX_OK;
}

/* x as [outer, n, inner]. The order puts a NaN first, as numpy does. */
typedef struct arg_job {
  const void *x;
  int64_t *y;
  int64_t n, inner;
  bool least, last;
} arg_job;

enum { LANES = 16, COLUMNS = 256 };

#define COLUMN_LOOP(D, test)                                                                                           \
  for (int64_t c = 0; c < count; c++) {                                                                                \
    __typeof__(best[0]) v = TYPED_LOAD_##D(row[c]);                                                                    \
    bool take = test;                                                                                                  \
    best[c] = take ? v : best[c];                                                                                      \
    at[c] = take ? (int32_t)i : at[c];                                                                                 \
  }

/* A line of n elements in a row: the extreme value in LANES lanes, then where it is. NaN goes step by step. */
#define X(D, T, C, K)                                                                                                  \
  static inline bool better_##D(C v, C best, bool least, bool last) {                                                  \
    bool nan = TYPED_NAN_##K(v), best_nan = TYPED_NAN_##K(best);                                                       \
    if (nan || best_nan) return nan && (!best_nan || last);                                                            \
    return (least ? v < best : v > best) || (last && v == best);                                                       \
  }                                                                                                                    \
  static int64_t slow_line_##D(const arg_job *job, const T *x, int64_t step) {                                         \
    C best = TYPED_LOAD_##D(x[0]);                                                                                     \
    int64_t at = 0;                                                                                                    \
    for (int64_t i = 1; i < job->n; i++) {                                                                             \
      C v = TYPED_LOAD_##D(x[i * step]);                                                                               \
      if (!better_##D(v, best, job->least, job->last)) continue;                                                       \
      best = v;                                                                                                        \
      at = i;                                                                                                          \
    }                                                                                                                  \
    return at;                                                                                                         \
  }                                                                                                                    \
  static int64_t line_##D(const arg_job *job, const T *x) {                                                            \
    C lane[LANES];                                                                                                     \
    if (job->n < 2 * LANES) return slow_line_##D(job, x, 1);                                                           \
    bool nan = false;                                                                                                  \
    for (int l = 0; l < LANES; l++) lane[l] = TYPED_LOAD_##D(x[l]);                                                    \
    int64_t whole = job->n / LANES * LANES, i;                                                                         \
    if (job->least)                                                                                                    \
      for (i = 0; i < whole; i += LANES)                                                                               \
        for (int l = 0; l < LANES; l++) {                                                                              \
          C v = TYPED_LOAD_##D(x[i + l]);                                                                              \
          lane[l] = v < lane[l] ? v : lane[l];                                                                         \
        }                                                                                                              \
    else                                                                                                               \
      for (i = 0; i < whole; i += LANES)                                                                               \
        for (int l = 0; l < LANES; l++) {                                                                              \
          C v = TYPED_LOAD_##D(x[i + l]);                                                                              \
          lane[l] = v > lane[l] ? v : lane[l];                                                                         \
        }                                                                                                              \
    C best = lane[0];                                                                                                  \
    for (int l = 1; l < LANES; l++)                                                                                    \
      if (better_##D(lane[l], best, job->least, false)) best = lane[l];                                                \
    for (i = whole; i < job->n; i++) {                                                                                 \
      C v = TYPED_LOAD_##D(x[i]);                                                                                      \
      if (better_##D(v, best, job->least, false)) best = v;                                                            \
    }                                                                                                                  \
    for (i = 0; i < job->n; i++) {                                                                                     \
      C v = TYPED_LOAD_##D(x[i]);                                                                                      \
      nan |= TYPED_NAN_##K(v);                                                                                         \
    }                                                                                                                  \
    if (nan) return slow_line_##D(job, x, 1);                                                                          \
    i = job->last ? job->n - 1 : 0;                                                                                    \
    while (TYPED_LOAD_##D(x[i]) != best) i += job->last ? -1 : 1;                                                      \
    return i;                                                                                                          \
  }                                                                                                                    \
  static void columns_##D(const arg_job *job, const T *x, int64_t *y, int64_t count) {                                 \
    C best[COLUMNS];                                                                                                   \
    int32_t at[COLUMNS] = {0};                                                                                         \
    for (int64_t c = 0; c < count; c++) best[c] = TYPED_LOAD_##D(x[c]);                                                \
    for (int64_t i = 1; i < job->n; i++) {                                                                             \
      const T *row = x + i * job->inner;                                                                               \
      if (job->last)                                                                                                   \
        COLUMN_LOOP(D, better_##D(v, best[c], job->least, true))                                                       \
      else if (job->least)                                                                                             \
        COLUMN_LOOP(D, (v < best[c]) | (TYPED_NAN_##K(v) & !TYPED_NAN_##K(best[c])))                                   \
      else                                                                                                             \
        COLUMN_LOOP(D, (v > best[c]) | (TYPED_NAN_##K(v) & !TYPED_NAN_##K(best[c])))                                   \
    }                                                                                                                  \
    for (int64_t c = 0; c < count; c++) y[c] = at[c];                                                                  \
  }                                                                                                                    \
  static void arg_##D(void *arg, int64_t begin, int64_t end) {                                                         \
    const arg_job *job = arg;                                                                                          \
    for (int64_t l = begin; l < end;) {                                                                                \
      int64_t column = l % job->inner, count = job->inner - column;                                                    \
      const T *x = (const T *)job->x + l / job->inner * job->n * job->inner + column;                                  \
      if (count > COLUMNS) count = COLUMNS;                                                                            \
      if (count > end - l) count = end - l;                                                                            \
      if (job->inner == 1)                                                                                             \
        job->y[l] = line_##D(job, x);                                                                                  \
      else                                                                                                             \
        columns_##D(job, x, job->y + l, count);                                                                        \
      l += count;                                                                                                      \
    }                                                                                                                  \
  }
#include "ir/dtype.def"
X(FLOAT16, uint16_t, float, f)
X(BFLOAT16, uint16_t, float, f)
#undef X

typedef void (*arg_fn)(void *arg, int64_t begin, int64_t end);

/* NULL: not for this dtype. */
static const arg_fn arg_table[RLX_DTYPE_COUNT] = {
#define X(D, T, C, K) [RLX_##D] = arg_##D,
#include "ir/dtype.def"
    X(FLOAT16, uint16_t, float, f) X(BFLOAT16, uint16_t, float, f)
#undef X
};

static rlx_status arg_eval(rlx_ctx *ctx, bool least) {
  const arg_params *p = ctx->params;
  const rlx_operand *x = &ctx->inputs[0];
  int axis = axis_normalise(p->axis, x->rank);
  int64_t lines = ctx->outputs[0].count;
  arg_job job = {x->data, ctx->outputs[0].data, x->dims[axis], dims_product(x->dims, axis + 1, x->rank),
                 least,   p->select_last_index};
  arg_fn fn = arg_table[x->dtype];
  if (!fn) return rlx_fail(ctx, RLX_UNSUPPORTED, "element type %s", rlx_dtype_name(x->dtype));
  if (lines == 0) return RLX_OK;
  if (job.n > INT32_MAX) return rlx_fail(ctx, RLX_UNSUPPORTED, "axis %d has %lld elements", axis, (long long)job.n);
  if (job.n == 0) return rlx_fail(ctx, RLX_INVALID, "axis %d has no elements", axis);
  int64_t grain = 8192 / job.n + 1;
  if (lines < 2 * grain)
    fn(&job, 0, lines);
  else
    rlx_parallel_for(ctx, lines, grain, fn, &job);
  return RLX_OK;
}

static rlx_status argmax_eval(rlx_ctx *ctx) { return arg_eval(ctx, false); }

static rlx_status argmin_eval(rlx_ctx *ctx) { return arg_eval(ctx, true); }

#define ARG_OP(id, op_name, what, its_eval)                                                                            \
  static const rlx_op id = {                                                                                           \
      .struct_size = sizeof(rlx_op),                                                                                   \
      .name = op_name,                                                                                                 \
      .version = 1,                                                                                                    \
      .doc = "The index of the " what " element along axis: the first of equals, or the last.",                        \
      .samples = (const char *const[]){"float[2,3,4]", "int32[5] {keepdims = 0}",                                      \
                                       "float[3,4] {axis = -1, select_last_index = 1}", NULL},                         \
      .inputs = arg_inputs,                                                                                            \
      .outputs = arg_outputs,                                                                                          \
      .attrs = arg_attrs,                                                                                              \
      .params_size = sizeof(arg_params),                                                                               \
      .traits = RLX_PURE,                                                                                              \
      .infer = arg_infer,                                                                                              \
      .eval = its_eval,                                                                                                \
  }
ARG_OP(argmax, "onnx.ArgMax", "largest", argmax_eval);
ARG_OP(argmin, "onnx.ArgMin", "smallest", argmin_eval);

static const rlx_op *const ops[] = {&argmax, &argmin, NULL};
const rlx_module ops_arg_reduce = {.ops = ops};
