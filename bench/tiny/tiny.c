// tiny.c — tiny.Step(x) = 0.5 x + 0.25: an op that nothing fuses, for measuring what a call of a package's op costs.
#include <rlx/extend.h>

static rlx_status infer(rlx_infer *ctx) {
  rlx_infer_like(ctx, 0, 0);
  return RLX_OK;
}

static rlx_status step(rlx_ctx *ctx) {
  const float *x = ctx->inputs[0].data;
  float *y = ctx->outputs[0].data;
  for (int64_t i = 0; i < ctx->outputs[0].count; i++) y[i] = 0.5F * x[i] + 0.25F;
  return RLX_OK;
}

static const rlx_port inputs[] = {{"x", "T", RLX_SET(RLX_FLOAT), 0, 0}, {NULL, NULL, 0, 0, 0}};
static const rlx_port outputs[] = {{"y", "T", 0, 0, 0}, {NULL, NULL, 0, 0, 0}};
static const rlx_op op = {
    .struct_size = sizeof op,
    .name = "tiny.Step",
    .doc = "0.5 x + 0.25",
    .inputs = inputs,
    .outputs = outputs,
    .traits = RLX_PURE,
    .infer = infer,
    .eval = step,
};
static const rlx_cpu_kernel kernel = {
    .struct_size = sizeof kernel, .head = {.op = "tiny.Step", .name = "loop"}, .run = step};

static rlx_status register_all(rlx_registry *r) {
  rlx_status status = rlx_register_op(r, &op, 0, NULL);
  return status != RLX_OK ? status : rlx_register_cpu_kernel(r, &kernel, 0, NULL);
}
RLX_PACKAGE("tiny", "1.0", register_all);
