/* loss.c — onnx.NegativeLogLikelihoodLoss and SoftmaxCrossEntropyLoss. */
#include <math.h>
#include <string.h>

#include "base/status.h"
#include "ir/dtype.h"
#include "ir/module.h"
#include "ops/_derivative.h"

typedef struct loss_params {
  uint64_t given;
  int64_t ignore_index; /* attribute 0 */
  rlx_string reduction;
} loss_params;

static bool is(const rlx_string *s, const char *word) {
  return s->data && strlen(word) == s->size && memcmp(s->data, word, s->size) == 0;
}

static rlx_status infer(rlx_infer *ctx) {
  const loss_params *p = rlx_infer_params(ctx);
  const rlx_type *x = rlx_infer_input(ctx, 0), *target = rlx_infer_input(ctx, 1);
  bool none = is(&p->reduction, "none");
  if (!none && !is(&p->reduction, "mean") && !is(&p->reduction, "sum")) {
    return rlx_fail(ctx, RLX_INVALID, "reduction is not none, mean or sum");
  }
  if (x->rank != RLX_UNKNOWN && (x->rank < 2 || (target->rank != RLX_UNKNOWN && target->rank != x->rank - 1))) {
    return rlx_fail(ctx, RLX_INVALID, "scores of rank %d and targets of rank %d", x->rank, target->rank);
  }
  if (!none) {
    rlx_infer_set(ctx, 0, 0, NULL);
  } else if (target->rank != RLX_UNKNOWN) {
    rlx_infer_set(ctx, 0, target->rank, target->dims);
  }
  if (rlx_infer_output_count(ctx) > 1) rlx_infer_like(ctx, 1, 0);
  return RLX_OK;
}

/* batch × classes × inner */
typedef struct loss_run {
  const rlx_operand *x, *target, *weight, *y, *log_prob; /* weight and log_prob may be NULL */
  int64_t classes, inner;
  bool softmax;
} loss_run;

/* log of the sum of exponentials of a position's scores. */
static double log_sum(const loss_run *r, int64_t at) {
  double peak = -INFINITY, sum = 0;
  for (int64_t c = 0; c < r->classes; c++) peak = fmax(peak, dtype_load(r->x->dtype, r->x->data, at + c * r->inner));
  if (!isfinite(peak)) peak = 0;
  for (int64_t c = 0; c < r->classes; c++) sum += exp(dtype_load(r->x->dtype, r->x->data, at + c * r->inner) - peak);
  return peak + log(sum);
}

/* Loss and weight of one position. */
static rlx_status position_loss(rlx_ctx *ctx, const loss_run *r, int64_t i, double *loss, double *weight) {
  const loss_params *p = ctx->params;
  int64_t class = dtype_load_int(r->target->dtype, r->target->data, i);
  int64_t at = i / r->inner * r->classes * r->inner + i % r->inner;
  double normaliser = r->softmax ? log_sum(r, at) : 0;
  for (int64_t c = 0; r->log_prob && c < r->classes; c++) {
    double v = dtype_load(r->x->dtype, r->x->data, at + c * r->inner) - normaliser;
    dtype_store(r->log_prob->dtype, r->log_prob->data, at + c * r->inner, v);
  }
  *loss = *weight = 0;
  if ((p->given & 1) && class == p->ignore_index) return RLX_OK;
  if (class < 0 || class >= r->classes) {
    return rlx_fail(ctx, RLX_INVALID, "target %lld of %lld classes", (long long)class, (long long)r->classes);
  }
  *weight = r->weight ? dtype_load(r->weight->dtype, r->weight->data, class) : 1;
  *loss = *weight * (normaliser - dtype_load(r->x->dtype, r->x->data, at + class * r->inner));
  return RLX_OK;
}

static rlx_status eval(rlx_ctx *ctx, bool softmax) {
  const loss_params *p = ctx->params;
  const rlx_operand *x = &ctx->inputs[0], *target = &ctx->inputs[1];
  loss_run r = {.x = x, .target = target, .y = &ctx->outputs[0], .inner = 1, .softmax = softmax};
  if (x->rank < 2 || target->rank != x->rank - 1) return rlx_fail(ctx, RLX_INVALID, "targets do not fit the scores");
  r.classes = x->dims[1];
  for (int d = 2; d < x->rank; d++) r.inner *= x->dims[d];
  for (int d = 0; d < target->rank; d++) {
    if (target->dims[d] != x->dims[d ? d + 1 : 0]) return rlx_fail(ctx, RLX_INVALID, "targets do not fit the scores");
  }
  if (ctx->input_count > 2 && ctx->inputs[2].data) r.weight = &ctx->inputs[2];
  if (ctx->output_count > 1 && ctx->outputs[1].data) r.log_prob = &ctx->outputs[1];
  if (r.weight && r.weight->count != r.classes) {
    return rlx_fail(ctx, RLX_INVALID, "%lld weights for %lld classes", (long long)r.weight->count,
                    (long long)r.classes);
  }
  double sum = 0, weights = 0;
  bool none = is(&p->reduction, "none");
  for (int64_t i = 0; i < target->count; i++) {
    double loss, weight;
    RLX_TRY(position_loss(ctx, &r, i, &loss, &weight));
    sum += loss;
    weights += weight;
    if (none) dtype_store(r.y->dtype, r.y->data, i, loss);
  }
  if (!none) dtype_store(r.y->dtype, r.y->data, 0, is(&p->reduction, "mean") ? sum / weights : sum);
  return RLX_OK;
}
static rlx_status eval_likelihood(rlx_ctx *ctx) { return eval(ctx, false); }
static rlx_status eval_cross_entropy(rlx_ctx *ctx) { return eval(ctx, true); }

/* ---- derivatives ------------------------------------------------------------------------------------------------ */

static rlx_status derive(rlx_graph *g, const rlx_node *n, rlx_value **outputs, bool softmax) {
  const loss_params *p = rlx_node_params(n);
  rlx_value *in[3] = {rlx_node_input(n, 0), rlx_node_input(n, 1), rlx_node_input(n, 2)}, *made[2] = {NULL, NULL};
  bool ignores = p->given & 1, weighted = in[2] != NULL;
  const char *index = rlx_dtype_name(rlx_value_type(in[1])->dtype);
  const char *ending = is(&p->reduction, "none")  ? "y = Identity (part)"
                       : is(&p->reduction, "sum") ? "y = ReduceSum <keepdims = 0> (part)"
                       : ignores || weighted
                           ? "t = ReduceSum <keepdims = 0> (part) u = ReduceSum <keepdims = 0> (w) y = Div (t, u)"
                           : "y = ReduceMean <keepdims = 0> (part)";
  RLX_TRY(derivative_text(
      g, in, made,
      "loss (x, target, weight) => (y, logs)"
      " <int64[1] axis = {1}, %s skip = {%lld}, %s zero = {0}> { logs = %s (x) %s"
      " k = Unsqueeze (class, axis) g = GatherElements <axis = 1> (logs, k)"
      " h = Squeeze (g, axis) minus = Neg (h) %s %s %s %s }",
      index, (long long)p->ignore_index, index, softmax ? "LogSoftmax <axis = 1>" : "Identity",
      ignores ? "out = Equal (target, skip) class = Where (out, zero, target)" : "class = Identity (target)",
      weighted ? "v = Gather (weight, class)" : "", ignores ? "in = Not (out) valid = CastLike (in, x)" : "",
      ignores && weighted ? "w = Mul (v, valid) part = Mul (minus, w)"
      : weighted          ? "w = Identity (v) part = Mul (minus, w)"
      : ignores           ? "w = Identity (valid) part = Mul (minus, w)"
                          : "part = Identity (minus)",
      ending));
  outputs[0] = made[0];
  if (rlx_node_output_count(n) > 1) outputs[1] = made[1];
  return rlx_graph_status(g);
}
static rlx_status derive_likelihood(rlx_graph *g, const rlx_node *n, rlx_value **y) { return derive(g, n, y, false); }
static rlx_status derive_cross_entropy(rlx_graph *g, const rlx_node *n, rlx_value **y) { return derive(g, n, y, true); }

static const rlx_attr_def attrs[] = {
    {.name = "ignore_index", .kind = RLX_ATTR_INT, .offset = offsetof(loss_params, ignore_index)},
    {.name = "reduction",
     .kind = RLX_ATTR_STRING,
     .offset = offsetof(loss_params, reduction),
     .default_string = "mean"},
    {0}};
static const rlx_port inputs[] = {{"input", "T", RLX_SET_FLOATS, 0, 0},
                                  {"target", "Tind", RLX_SET_INDEX, 0, 0},
                                  {"weight", "T", RLX_SET_FLOATS, RLX_OPTIONAL, 0},
                                  {0}};
static const rlx_op likelihood = {
    .struct_size = sizeof(rlx_op),
    .name = "onnx.NegativeLogLikelihoodLoss",
    .version = 12,
    .samples =
        (const char *const[]){"float[4,3], int64[4] {reduction = \"mean\"}",
                              "float[2,3,5], int64[2,5], float[3] {reduction = \"none\", ignore_index = 1}", NULL},
    .doc = "Minus the weighted log-probability of each target, summed, averaged or as it is.",
    .inputs = inputs,
    .outputs = (const rlx_port[]){{"loss", "T", RLX_SET_FLOATS, 0, 0}, {0}},
    .attrs = attrs,
    .params_size = sizeof(loss_params),
    .traits = RLX_PURE,
    .infer = infer,
    .derive = derive_likelihood,
    .eval = eval_likelihood,
};
static const rlx_op cross_entropy = {
    .struct_size = sizeof(rlx_op),
    .name = "onnx.SoftmaxCrossEntropyLoss",
    .version = 12,
    .samples =
        (const char *const[]){"float[4,3], int64[4] => 2",
                              "float[2,3,5], int32[2,5], float[3] {reduction = \"sum\", ignore_index = 0}", NULL},
    .doc = "Negative log-likelihood of the softmax of scores; also gives the log-probabilities.",
    .inputs = inputs,
    .outputs = (const rlx_port[]){{"output", "T", RLX_SET_FLOATS, 0, 0},
                                  {"log_prob", "T", RLX_SET_FLOATS, RLX_OPTIONAL, 0},
                                  {0}},
    .attrs = attrs,
    .params_size = sizeof(loss_params),
    .traits = RLX_PURE,
    .infer = infer,
    .derive = derive_cross_entropy,
    .eval = eval_cross_entropy,
};

static const rlx_op *const ops[] = {&likelihood, &cross_entropy, NULL};
const rlx_module ops_loss = {.ops = ops};
