/* causal_conv.c — onnx.CausalConvWithState: depthwise convolution over what came before, with a carried state. */
#include <math.h>
#include <string.h>

#include "base/status.h"
#include "ir/module.h"
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
    .eval = eval,
};

static const rlx_op *const ops[] = {&causal_conv, NULL};
const rlx_module ops_causal_conv = {.ops = ops};
