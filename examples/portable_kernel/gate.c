// gate.c — demo.gate(x, y) = x · sigmoid(y) with one kernel for every GPU, as a package.
#include <math.h>
#include <rlx/extend.h>

static rlx_status infer(rlx_infer *ctx) { return rlx_infer_like(ctx, 0, 0), RLX_OK; }
static rlx_status eval(rlx_ctx *ctx) { // what the op means, and what runs where there is no GPU
  const float *x = ctx->inputs[0].data, *y = ctx->inputs[1].data;
  for (int64_t i = 0; i < ctx->outputs[0].count; i++) ((float *)ctx->outputs[0].data)[i] = x[i] / (1 + expf(-y[i]));
  return RLX_OK;
}
static const rlx_port in[] = {{"x", "T", RLX_SET(RLX_FLOAT), 0, 0}, {"y", "T", 0, 0, 0}, {0}};
static const rlx_port out[] = {{"z", "T", 0, 0, 0}, {0}};
static const rlx_op op = {sizeof op, "demo.gate", .inputs = in, .outputs = out, .infer = infer, .eval = eval};

// The GPU kernel: rendered to GLSL, CUDA C and the Metal Shading Language.
static const rlx_gpu_arg args[] = {{"x", "T", RLX_GPU_INPUT, 0, 0},
                                   {"y", "T", RLX_GPU_INPUT, 1, 0},
                                   {"z", "T", RLX_GPU_OUTPUT, 0, 0},
                                   {"n", "i64", RLX_GPU_COUNT, 0, 0},
                                   {0}};
static const rlx_gpu_function text[] = {
    {.name = "gate",
     .args = args,
     .body = RLX_GPU_TEXT(for (i64 i = i64(GLOBAL_ID); i < n; i += i64(GLOBAL_SIZE)) z[i] = x[i] * SIGMOID(y[i]);)},
    {0}};
static const rlx_gpu_kernel kernel = {sizeof kernel, {"demo.gate", .name = "portable"}, .functions = text};

static rlx_status register_all(rlx_registry *r) {
  rlx_status status = rlx_register_op(r, &op, 0, NULL);
  return status ? status : rlx_register_gpu_kernel(r, &kernel, 0, NULL);
}
RLX_PACKAGE("gate", "1.0", register_all);
