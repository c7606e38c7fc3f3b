/* causal_conv.c — onnx.CausalConvWithState: depthwise convolution over what came before, with a carried state. */
#include <math.h>
#include <string.h>

#include "base/status.h"
#include "ir/module.h"
#include "ops/_derivative.h"
#include "ops/_number.h"

typedef struct causal_params {
  uint64_t given;
  rlx_string activation;
} causal_params;

enum { INPUT, WEIGHT, BIAS, PAST };

static bool is(const rlx_string *s, const char *word) {
  return s->data && strlen(word) == s->size && memcmp(s->data, word, s->size) == 0;
}

/* -1: the name is not known. */
static int has_silu(const causal_params *p) {
  if (is(&p->activation, "silu") || is(&p->activation, "swish")) return 1;
  return is(&p->activation, "none") ? 0 : -1;
}

static rlx_status infer(rlx_infer *ctx) {
  const rlx_type *x = rlx_infer_input(ctx, INPUT), *w = rlx_infer_input(ctx, WEIGHT);
  if (has_silu(rlx_infer_params(ctx)) < 0) return rlx_fail(ctx, RLX_INVALID, "activation is not none, silu or swish");
  if ((x->rank != RLX_UNKNOWN && x->rank != 3) || (w->rank != RLX_UNKNOWN && w->rank != 3)) {
    return rlx_fail(ctx, RLX_INVALID, "an input of rank %d and weights of rank %d; both must be 3", x->rank, w->rank);
  }
  int64_t kept = w->rank == 3 && w->dims[2] > 0 ? w->dims[2] - 1 : RLX_UNKNOWN;
  if (x->rank == 3) rlx_infer_set(ctx, 0, 3, x->dims);
  if (rlx_infer_output_count(ctx) > 1) {
    rlx_infer_set(
        ctx, 1, 3,
        (const int64_t[]){x->rank == 3 ? x->dims[0] : RLX_UNKNOWN, x->rank == 3 ? x->dims[1] : RLX_UNKNOWN, kept});
  }
  return RLX_OK;
}

/* Element `at` of a channel's line with the state before it: positions below 0 are the state's. */
NUMBER_INLINE double padded(rlx_dtype t, const rlx_ctx *ctx, int64_t line, int64_t length, int64_t kept, int64_t at) {
  if (at >= 0) return number_load(t, ctx->inputs[INPUT].data, line * length + at);
  if (ctx->input_count <= PAST || !ctx->inputs[PAST].data) return 0;
  return number_load(t, ctx->inputs[PAST].data, line * kept + kept + at);
}

NUMBER_INLINE rlx_status body(rlx_dtype t, rlx_ctx *ctx, int64_t taps) {
  const rlx_operand *x = &ctx->inputs[INPUT], *w = &ctx->inputs[WEIGHT];
  const void *bias = ctx->input_count > BIAS ? ctx->inputs[BIAS].data : NULL;
  int64_t channels = x->dims[1], length = x->dims[2], kept = taps - 1;
  bool silu = has_silu(ctx->params) > 0;
  void *state = ctx->output_count > 1 ? ctx->outputs[1].data : NULL;
  for (int64_t line = 0; line < x->dims[0] * channels; line++) {
    int64_t c = line % channels;
    for (int64_t i = 0; i < length; i++) {
      double sum = bias ? number_load(t, bias, c) : 0;
      for (int64_t k = 0; k < taps; k++) {
        sum += number_load(t, w->data, c * taps + k) * padded(t, ctx, line, length, kept, i + k - kept);
      }
      number_store(t, ctx->outputs[0].data, line * length + i, silu ? sum / (1 + exp(-sum)) : sum);
    }
    for (int64_t i = 0; state && i < kept; i++) {
      number_store(t, state, line * kept + i, padded(t, ctx, line, length, kept, length - kept + i));
    }
  }
  return RLX_OK;
}

static rlx_status eval(rlx_ctx *ctx) {
  const rlx_operand *x = &ctx->inputs[INPUT], *w = &ctx->inputs[WEIGHT];
  const rlx_operand *past = ctx->input_count > PAST && ctx->inputs[PAST].data ? &ctx->inputs[PAST] : NULL;
  if (x->rank != 3 || w->rank != 3 || w->dims[0] != x->dims[1] || w->dims[1] != 1 || w->dims[2] < 1) {
    return rlx_fail(ctx, RLX_INVALID, "the weights do not fit the input");
  }
  int64_t taps = w->dims[2];
  if (ctx->input_count > BIAS && ctx->inputs[BIAS].data && ctx->inputs[BIAS].count != x->dims[1]) {
    return rlx_fail(ctx, RLX_INVALID, "a bias of %lld elements for %lld channels", (long long)ctx->inputs[BIAS].count,
                    (long long)x->dims[1]);
  }
  if (past &&
      (past->rank != 3 || past->dims[0] != x->dims[0] || past->dims[1] != x->dims[1] || past->dims[2] != taps - 1)) {
    return rlx_fail(ctx, RLX_INVALID, "past_state does not fit the input and %lld taps", (long long)taps);
  }
  DISPATCH_FLOATS(x->dtype, body, ctx, taps)
}

#define DTYPES (RLX_SET(RLX_FLOAT) | RLX_SET(RLX_FLOAT16) | RLX_SET(RLX_BFLOAT16))
/* A depthwise convolution of the input behind its past. */
static rlx_status derive(rlx_graph *g, const rlx_node *n, rlx_value **outputs) {
  rlx_value *in[4], *made[2];
  for (int i = 0; i < 4; i++) in[i] = rlx_node_input(n, i);
  const rlx_type *w = rlx_value_type(in[WEIGHT]);
  if (w->rank != 3 || w->dims[0] < 1 || w->dims[2] < 1)
    return rlx_graph_fail(g, RLX_UNSUPPORTED, "the dims of the weights must be known");
  long long kept = w->dims[2] - 1;
  RLX_TRY(derivative_text(
      g, in, made,
      "causal (x, w, bias, past) => (y, state) <int64[2] pads = {%lld, 0}, int64[1] axis = {2}, int64[1] from = {%lld},"
      " int64[1] to = {9223372036854775807}> { %s c = Conv <group = %lld> (long, w, bias) %s"
      " state = Slice (long, from, to, axis) }",
      kept, kept ? -kept : (long long)INT64_MAX,
      in[PAST] ? "long = Concat <axis = 2> (past, x)" : "long = Pad (x, pads, , axis)", (long long)w->dims[0],
      has_silu(rlx_node_params(n)) > 0 ? "s = Sigmoid (c) y = Mul (c, s)" : "y = Identity (c)"));
  for (int i = 0; i < rlx_node_output_count(n) && i < 2; i++) outputs[i] = made[i];
  return rlx_graph_status(g);
}

static const rlx_attr_def attrs[] = {{.name = "activation",
                                      .kind = RLX_ATTR_STRING,
                                      .offset = offsetof(causal_params, activation),
                                      .default_string = "none"},
                                     {0}};
static const rlx_op causal_conv = {
    .struct_size = sizeof(rlx_op),
    .name = "onnx.CausalConvWithState",
    .version = 27,
    .doc = "Depthwise convolution over the present and past positions; gives the last ones as the state to carry.",
    .samples =
        (const char *const[]){"float[2,3,5], float[3,1,4], float[3], float[2,3,3] {activation = \"silu\"}", NULL},
    .inputs = (const rlx_port[]){{"input", "T", DTYPES, 0, 0},
                                 {"weight", "T", DTYPES, 0, 0},
                                 {"bias", "T", DTYPES, RLX_OPTIONAL, 0},
                                 {"past_state", "T", DTYPES, RLX_OPTIONAL, 0},
                                 {0}},
    .outputs = (const rlx_port[]){{"output", "T", DTYPES, 0, 0}, {"present_state", "T", DTYPES, 0, 0}, {0}},
    .attrs = attrs,
    .params_size = sizeof(causal_params),
    .traits = RLX_PURE,
    .infer = infer,
    .derive = derive,
    .eval = eval,
};

static const rlx_op *const ops[] = {&causal_conv, NULL};
const rlx_module ops_causal_conv = {.ops = ops};
