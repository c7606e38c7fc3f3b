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
    if (d != axis) dims[rank++] = x->dims[d];
    else if (p->keepdims) dims[rank++] = 1;
  }
  rlx_infer_set(ctx, 0, rank, dims);
  return RLX_OK;
}

/* Lines of n elements, `inner` apart; the order puts a NaN first, as numpy does. */
typedef struct arg_job {
  const void *x;
  int64_t *y;
  int64_t n, inner;
  bool least, last;
} arg_job;

#define X(D, T, C, K)                                                                                    \
  static void arg_##D(void *arg, int64_t begin, int64_t end) {                                           \
    const arg_job *job = arg;                                                                            \
    for (int64_t l = begin; l < end; l++) {                                                              \
      const T *x = (const T *)job->x + l / job->inner * job->n * job->inner + l % job->inner;            \
      C best = TYPED_LOAD_##D(x[0]);                                                                     \
      int64_t at = 0;                                                                                    \
      for (int64_t i = 1; i < job->n; i++) {                                                             \
        C v = TYPED_LOAD_##D(x[i * job->inner]);                                                         \
        bool better = job->least ? v < best : v > best;                                                  \
        bool equal = v == best || (TYPED_NAN_##K(v) && TYPED_NAN_##K(best));                             \
        better = TYPED_NAN_##K(best) ? false : better || TYPED_NAN_##K(v);                               \
        if (better || (job->last && equal)) {                                                            \
          best = v;                                                                                      \
          at = i;                                                                                        \
        }                                                                                                \
      }                                                                                                  \
      job->y[l] = at;                                                                                    \
    }                                                                                                    \
  }
#include "ir/dtype.def"
X(FLOAT16, uint16_t, float, f)
X(BFLOAT16, uint16_t, float, f)
#undef X

typedef void (*arg_fn)(void *arg, int64_t begin, int64_t end);

static arg_fn arg_of(rlx_dtype dtype) {
  switch (dtype) {
#define X(D, T, C, K)                                                                                    \
  case RLX_##D: return arg_##D;
#include "ir/dtype.def"
    X(FLOAT16, uint16_t, float, f)
    X(BFLOAT16, uint16_t, float, f)
#undef X
  default: return NULL;
  }
}

static rlx_status arg_eval(rlx_ctx *ctx, bool least) {
  const arg_params *p = ctx->params;
  const rlx_operand *x = &ctx->inputs[0];
  int axis = axis_normalise(p->axis, x->rank);
  int64_t lines = ctx->outputs[0].count;
  arg_job job = {x->data, ctx->outputs[0].data, x->dims[axis], dims_product(x->dims, axis + 1, x->rank), least,
                 p->select_last_index};
  arg_fn fn = arg_of(x->dtype);
  if (!fn) return rlx_fail(ctx, RLX_UNSUPPORTED, "element type %s", rlx_dtype_name(x->dtype));
  if (lines == 0) return RLX_OK;
  if (job.n == 0) return rlx_fail(ctx, RLX_INVALID, "axis %d has no elements", axis);
  int64_t grain = 8192 / job.n + 1;
  if (lines < 2 * grain) fn(&job, 0, lines);
  else rlx_parallel_for(ctx, lines, grain, fn, &job);
  return RLX_OK;
}

static rlx_status argmax_eval(rlx_ctx *ctx) {
  return arg_eval(ctx, false);
}

static rlx_status argmin_eval(rlx_ctx *ctx) {
  return arg_eval(ctx, true);
}

#define ARG_OP(id, op_name, what, its_eval)                                                              \
  static const rlx_op id = {                                                                             \
      .struct_size = sizeof(rlx_op),                                                                     \
      .name = op_name,                                                                                   \
      .version = 1,                                                                                      \
      .doc = "The index of the " what " element along axis: the first of equals, or the last.",         \
      .samples = (const char *const[]){"float[2,3,4]", "int32[5] {keepdims = 0}",                        \
                                       "float[3,4] {axis = -1, select_last_index = 1}", NULL},           \
      .inputs = arg_inputs,                                                                              \
      .outputs = arg_outputs,                                                                            \
      .attrs = arg_attrs,                                                                                \
      .params_size = sizeof(arg_params),                                                                 \
      .traits = RLX_PURE,                                                                                \
      .infer = arg_infer,                                                                                \
      .eval = its_eval,                                                                                  \
  }
ARG_OP(argmax, "onnx.ArgMax", "largest", argmax_eval);
ARG_OP(argmin, "onnx.ArgMin", "smallest", argmin_eval);

static const rlx_op *const ops[] = {&argmax, &argmin, NULL};
const rlx_module ops_arg_reduce = {.ops = ops};
