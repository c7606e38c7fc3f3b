/* fused_conv.c — rlx.conv: a convolution, the sum with another tensor and an activation, in one node. */
#include "ops/fused_conv.h"

#include <string.h>

#include "base/status.h"
#include "ir/module.h"

static conv_params plain_params(const fused_conv_params *p) {
  return (conv_params){.given = p->given, .window = p->window, .group = p->group};
}

static const rlx_operand *optional(const rlx_ctx *ctx, int i) {
  return i < ctx->input_count && ctx->inputs[i].data ? &ctx->inputs[i] : NULL;
}

static rlx_status infer(rlx_infer *ctx) {
  const fused_conv_params *p = rlx_infer_params(ctx);
  if (fused_activation_parse(&p->activation.name) == FUSED_UNKNOWN) {
    return rlx_fail(ctx, RLX_INVALID, "activation '%.*s' is not known",
                    (int)(p->activation.name.size > 40 ? 40 : p->activation.name.size), p->activation.name.data);
  }
  return conv_infer(ctx, FUSED_CONV_W);
}

static rlx_status eval(rlx_ctx *ctx) {
  const fused_conv_params *p = ctx->params;
  const rlx_operand *x = &ctx->inputs[FUSED_CONV_X], *w = &ctx->inputs[FUSED_CONV_W], *y = &ctx->outputs[0];
  const rlx_operand *bias = optional(ctx, FUSED_CONV_B), *z = optional(ctx, FUSED_CONV_Z);
  conv_params plain = plain_params(p);
  conv_shape s;
  const char *bad = conv_resolve(&plain, x->rank, x->dims, w->rank, w->dims, &s);
  if (bad) return rlx_fail(ctx, RLX_INVALID, "%s", bad);
  if (bias && bias->count != s.maps) {
    return rlx_fail(ctx, RLX_INVALID, "a bias of %lld elements for %lld output channels", (long long)bias->count,
                    (long long)s.maps);
  }
  if (z && (z->rank != y->rank || memcmp(z->dims, y->dims, (size_t)y->rank * sizeof *y->dims) != 0)) {
    return rlx_fail(ctx, RLX_INVALID, "the tensor to add is not of the output's shape");
  }
  conv_direct(ctx, &s, RLX_FLOAT, x->data, w->data, bias ? bias->data : NULL, y->data);
  float *out = y->data;
  const float *add = z ? z->data : NULL;
  for (int64_t i = 0; add && i < y->count; i++) out[i] += add[i];
  fused_activation_apply(fused_activation_parse(&p->activation.name), p->activation.alpha, p->activation.beta, out,
                         y->count);
  return RLX_OK;
}

static const rlx_attr_def attrs[] = {CONV_ATTRS(fused_conv_params), FUSED_ACTIVATION_ATTRS(fused_conv_params), {0}};
static const char *const samples[] = {
    "float[1,2,5,6], float[4,2,3,3], float[4] {pads = [1,1,1,1], activation = \"Relu\"}",
    "float[1,16,6,6], float[16,16,1,1], float[16], float[1,16,6,6] {activation = \"HardSwish\"}", NULL};
static const rlx_op op = {
    .struct_size = sizeof(rlx_op),
    .name = "rlx.conv",
    .version = 1,
    .doc = "activation(Conv(X, W, B) + Z): what fusion makes of ONNX's Conv and its surroundings. Z has the output's "
           "shape.",
    .samples = samples,
    .inputs = (const rlx_port[]){{"X", "T", RLX_SET(RLX_FLOAT), 0, 0},
                                 {"W", "T", RLX_SET(RLX_FLOAT), 0, 0},
                                 {"B", "T", RLX_SET(RLX_FLOAT), RLX_OPTIONAL, 0},
                                 {"Z", "T", RLX_SET(RLX_FLOAT), RLX_OPTIONAL, 0},
                                 {0}},
    .outputs = (const rlx_port[]){{"Y", "T", RLX_SET(RLX_FLOAT), 0, 0}, {0}},
    .attrs = attrs,
    .params_size = sizeof(fused_conv_params),
    .traits = RLX_PURE,
    .no_derivative = "made by compiling, after derivatives",
    .infer = infer,
    .eval = eval,
};

const rlx_module ops_fused_conv = {.ops = (const rlx_op *const[]){&op, NULL}};
