/* bitcast.c — onnx.BitCast: the same bits as elements of another type of the same size. */
#include <string.h>

#include "ir/module.h"

typedef struct bitcast_params {
  uint64_t given;
  int64_t to;
} bitcast_params;

static rlx_status infer(rlx_infer *ctx) {
  const bitcast_params *p = rlx_infer_params(ctx);
  rlx_dtype from = rlx_infer_input(ctx, 0)->dtype, to = (rlx_dtype)p->to;
  if (p->to <= 0 || p->to >= RLX_DTYPE_COUNT || rlx_dtype_bits(to) == 0) {
    return rlx_fail(ctx, RLX_INVALID, "attribute to = %lld is no type with bits", (long long)p->to);
  }
  if (from != RLX_UNDEFINED && rlx_dtype_bits(from) != rlx_dtype_bits(to)) {
    return rlx_fail(ctx, RLX_INVALID, "%s has another size than %s", rlx_dtype_name(from), rlx_dtype_name(to));
  }
  rlx_infer_like(ctx, 0, 0);
  rlx_infer_output(ctx, 0)->dtype = to;
  return RLX_OK;
}

static rlx_status eval(rlx_ctx *ctx) {
  if (ctx->outputs[0].bytes > 0) memcpy(ctx->outputs[0].data, ctx->inputs[0].data, (size_t)ctx->outputs[0].bytes);
  return RLX_OK;
}

#define BITS ~RLX_SET(RLX_STRING)

static const rlx_op bitcast = {
    .struct_size = sizeof(rlx_op),
    .name = "onnx.BitCast",
    .version = 26,
    .doc = "The bits of the elements, unchanged, as elements of the type `to`, which has the same size.",
    .samples = (const char *const[]){"float[2,3] {to = 6}", "int8[5] {to = 2}", NULL},
    .inputs = (const rlx_port[]){{.name = "input", .dtypes = BITS}, {0}},
    .outputs = (const rlx_port[]){{.name = "output", .dtypes = BITS}, {0}},
    .attrs =
        (const rlx_attr_def[]){
            {.name = "to", .kind = RLX_ATTR_INT, .flags = RLX_REQUIRED, .offset = offsetof(bitcast_params, to)}, {0}},
    .params_size = sizeof(bitcast_params),
    .traits = RLX_PURE | RLX_STOP_GRADIENT,
    .no_derivative = "the bits of a number are no function that has slopes",
    .infer = infer,
    .eval = eval,
};

static const rlx_op *const ops[] = {&bitcast, NULL};
const rlx_module ops_bitcast = {.ops = ops};
