/* cumulative.c — CumSum and CumProd: running sums and products along an axis. */
#include <stddef.h>

#include "ir/dtype.h"
#include "ir/module.h"
#include "ops/_derivative.h"
#include "ops/_move.h"
#include "ops/_typed.h"

typedef struct cumulative_params {
  uint64_t given;
  int64_t exclusive, reverse;
} cumulative_params;

static const rlx_attr_def cumulative_attrs[] = {
    {.name = "exclusive", .kind = RLX_ATTR_INT, .offset = offsetof(cumulative_params, exclusive)},
    {.name = "reverse", .kind = RLX_ATTR_INT, .offset = offsetof(cumulative_params, reverse)},
    {0}};
static const rlx_port cumulative_inputs[] = {{.name = "x", .variable = "T", .dtypes = RLX_SET_NUMBERS},
                                             {.name = "axis", .dtypes = RLX_SET_INDEX, .flags = RLX_HOST},
                                             {0}};
static const rlx_port cumulative_outputs[] = {{.name = "y", .variable = "T", .dtypes = RLX_SET_NUMBERS}, {0}};

static rlx_status cumulative_infer(rlx_infer *ctx) {
  const rlx_type *axis = rlx_infer_input(ctx, 1);
  rlx_infer_like(ctx, 0, 0);
  if (axis->rank > 1 || (axis->rank == 1 && axis->dims[0] >= 0 && axis->dims[0] != 1))
    return rlx_fail(ctx, RLX_INVALID, "axis is not a scalar");
  return RLX_OK;
}

/* One line of n elements, `step` apart, walked from `from` on. */
typedef struct line {
  const void *x;
  void *y;
  int64_t from, step, n;
  bool exclusive, product;
} line;

#define X(D, T, C, K)                                                                                                  \
  static void line_##D(const line *l) {                                                                                \
    const T *x = l->x;                                                                                                 \
    T *y = l->y;                                                                                                       \
    C sum = (C)(l->product ? 1 : 0);                                                                                   \
    int64_t at = l->from;                                                                                              \
    for (int64_t i = 0; i < l->n; i++, at += l->step) {                                                                \
      C v = TYPED_LOAD_##D(x[at]);                                                                                     \
      C next = (C)(l->product ? TYPED_MUL_##K(sum, v) : TYPED_ADD_##K(sum, v));                                        \
      y[at] = TYPED_STORE_##D(l->exclusive ? sum : next);                                                              \
      sum = next;                                                                                                      \
    }                                                                                                                  \
  }
#include "ir/dtype.def"
X(FLOAT16, uint16_t, float, f)
X(BFLOAT16, uint16_t, float, f)
#undef X

typedef void (*line_fn)(const line *l);

/* NULL: not for this dtype. */
static const line_fn line_table[RLX_DTYPE_COUNT] = {
#define X(D, T, C, K) [RLX_##D] = line_##D,
#include "ir/dtype.def"
    X(FLOAT16, uint16_t, float, f) X(BFLOAT16, uint16_t, float, f)
#undef X
};

typedef struct cumulative_job {
  line_fn fn;
  line first;
  int64_t inner;
  bool reverse;
} cumulative_job;

static void run_lines(void *arg, int64_t begin, int64_t end) {
  const cumulative_job *job = arg;
  for (int64_t i = begin; i < end; i++) {
    line l = job->first;
    l.from = i / job->inner * l.n * job->inner + i % job->inner;
    l.step = job->inner;
    if (job->reverse) {
      l.from += (l.n - 1) * job->inner;
      l.step = -job->inner;
    }
    job->fn(&l);
  }
}

static rlx_status cumulative_eval(rlx_ctx *ctx, bool product) {
  const cumulative_params *p = ctx->params;
  const rlx_operand *x = &ctx->inputs[0];
  if (ctx->inputs[1].count != 1) return rlx_fail(ctx, RLX_INVALID, "axis is not a scalar");
  int axis;
  if (x->rank == 0) return rlx_fail(ctx, RLX_INVALID, "x is a scalar");
  rlx_status status = infer_axis(ctx, index_load(&ctx->inputs[1], 0), x->rank, &axis);
  if (status != RLX_OK || x->count == 0) return status;
  line first = {
      .x = x->data, .y = ctx->outputs[0].data, .n = x->dims[axis], .exclusive = p->exclusive, .product = product};
  cumulative_job job = {line_table[x->dtype], first, dims_product(x->dims, axis + 1, x->rank), p->reverse};
  if (!job.fn) return rlx_fail(ctx, RLX_UNSUPPORTED, "element type %s", rlx_dtype_name(x->dtype));
  int64_t lines = x->count / first.n, grain = 8192 / first.n + 1;
  if (lines < 2 * grain)
    run_lines(&job, 0, lines);
  else
    rlx_parallel_for(ctx, lines, grain, run_lines, &job);
  return RLX_OK;
}

static rlx_status cumsum_eval(rlx_ctx *ctx) { return cumulative_eval(ctx, false); }

static rlx_status cumprod_eval(rlx_ctx *ctx) { return cumulative_eval(ctx, true); }

static rlx_status cumsum_vjp(rlx_graph *g, const rlx_node *n, rlx_value *const *output_grads, rlx_value **input_grads) {
  const cumulative_params *p = rlx_node_params(n);
  if (!output_grads[0]) return rlx_graph_status(g);
  rlx_attr attrs[2] = {RLX_ATTR_I("exclusive", p->exclusive), RLX_ATTR_I("reverse", !p->reverse)};
  rlx_value *inputs[2] = {output_grads[0], rlx_node_input(n, 1)};
  input_grads[0] = rlx_graph_op(g, "onnx.CumSum", attrs, 2, inputs, 2);
  return rlx_graph_status(g);
}

static const rlx_op cumsum = {
    .struct_size = sizeof(rlx_op),
    .name = "onnx.CumSum",
    .version = 11,
    .samples = (const char *const[]){"float[2,5], int64[] = {1}",
                                     "int32[3,4], int32[] = {-2} {exclusive = 1, reverse = 1}", NULL},
    .doc = "Sums of the elements up to each along axis: without the element itself if exclusive, from the "
           "end if reverse.",
    .inputs = cumulative_inputs,
    .outputs = cumulative_outputs,
    .attrs = cumulative_attrs,
    .params_size = sizeof(cumulative_params),
    .traits = RLX_PURE,
    .infer = cumulative_infer,
    .vjp = cumsum_vjp,
    .eval = cumsum_eval,
};

/* As a scan: dividing by the elements would not do where they are zero. */
static rlx_status cumprod_derive(rlx_graph *g, const rlx_node *n, rlx_value **outputs) {
  const cumulative_params *p = rlx_node_params(n);
  const rlx_tensor *axis = rlx_node_constant(n, 1);
  if (!axis || axis->count != 1) return rlx_graph_fail(g, RLX_UNSUPPORTED, "the axis is not constant");
  rlx_value *in[1] = {rlx_node_input(n, 0)};
  long long at = (long long)dtype_load_int(axis->dtype, rlx_tensor_data(axis), 0), back = p->reverse != 0;
  return derivative_text(
      g, in, outputs,
      "cumprod (x) => (y) <int64[1] one = {1}, int64[1] axis = {%lld}, %s unit = {1}> {"
      " sum = ReduceSum <keepdims = 0> (x, axis) size = Shape (sum) first = Expand (unit, size)"
      " last, y = Scan <num_scan_inputs = 1, scan_input_axes = [%lld], scan_output_axes = [%lld],"
      " scan_input_directions = [%lld], scan_output_directions = [%lld], body ="
      " step (before, item) => (after, out) { after = Mul (before, item) out = Identity (%s) }> (first, x) }",
      at, rlx_dtype_name(rlx_value_type(in[0])->dtype), at, at, back, back, p->exclusive ? "before" : "after");
}

static const rlx_op cumprod = {
    .struct_size = sizeof(rlx_op),
    .name = "onnx.CumProd",
    .version = 26,
    .samples = (const char *const[]){"float[2,5], int64[] = {1}",
                                     "int32[3,4], int64[] = {0} {exclusive = 1, reverse = 1}", NULL},
    .doc = "Products of the elements up to each along axis; exclusive and reverse as in CumSum.",
    .inputs = cumulative_inputs,
    .outputs = cumulative_outputs,
    .attrs = cumulative_attrs,
    .params_size = sizeof(cumulative_params),
    .traits = RLX_PURE,
    .infer = cumulative_infer,
    .derive = cumprod_derive,
    .eval = cumprod_eval,
};

static const rlx_op *const ops[] = {&cumsum, &cumprod, NULL};
const rlx_module ops_cumulative = {.ops = ops};
