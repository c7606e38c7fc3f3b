// acme.c — an op of your own, acme.softsign(x) = x / (1 + |x|), as a package.
#include <rlx/extend.h>

static void softsign(void *arg, int64_t begin, int64_t end) {
  const rlx_ctx *ctx = arg;
  const float *x = ctx->inputs[0].data;
  float *y = ctx->outputs[0].data;
  for (int64_t i = begin; i < end; i++) y[i] = x[i] / (1 + (x[i] < 0 ? -x[i] : x[i]));
}
static rlx_status infer(rlx_infer *ctx) { return rlx_infer_like(ctx, 0, 0), RLX_OK; }
static rlx_status eval(rlx_ctx *ctx) { // what the op means
  return softsign(ctx, 0, ctx->outputs[0].count), RLX_OK;
}
static rlx_status run(rlx_ctx *ctx) { // the same, on all the CPU's threads
  return rlx_parallel_for(ctx, ctx->outputs[0].count, 4096, softsign, ctx), RLX_OK;
}

static const rlx_port in[] = {{"x", "T", RLX_SET(RLX_FLOAT), 0, 0}, {0}}, out[] = {{"y", "T", 0, 0, 0}, {0}};
static const rlx_op op = {sizeof op,          "acme.softsign", .inputs = in, .outputs = out,
                          .traits = RLX_PURE, .infer = infer,  .eval = eval};
static const rlx_cpu_kernel kernel = {sizeof kernel, {"acme.softsign", .name = "threads"}, run};

static rlx_status register_all(rlx_registry *r) {
  rlx_status status = rlx_register_op(r, &op, 0, NULL);
  return status ? status : rlx_register_cpu_kernel(r, &kernel, 0, NULL);
}
RLX_PACKAGE("acme", "1.0", register_all);
