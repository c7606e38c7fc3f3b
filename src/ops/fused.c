/* fused.c — rlx.fused: several elementwise ops as one node, with a scalar program. */
#include "ops/_fused.h"

#include "base/memory.h"
#include "base/status.h"
#include "ir/module.h"

static rlx_status infer(rlx_infer *ctx) {
  const fused_params *params = rlx_infer_params(ctx);
  fused_program program = {.inputs = rlx_infer_input_count(ctx)};
  if (program.inputs > FUSED_MAX_INPUTS) {
    return rlx_fail(ctx, RLX_INVALID, "%d inputs; at most %d", program.inputs, FUSED_MAX_INPUTS);
  }
  for (int i = 0; i < program.inputs; i++) {
    const rlx_type *type = rlx_infer_input(ctx, i);
    if (type == NULL) return rlx_fail(ctx, RLX_INVALID, "input %d is left out", i);
    if (type->dtype == RLX_UNDEFINED) return RLX_OK;
    program.input_types[i] = type->dtype;
  }
  const char *wrong = fused_parse(params->program, &program);
  if (wrong) return rlx_fail(ctx, RLX_INVALID, "program: %s", wrong);
  rlx_infer_output(ctx, 0)->dtype = fused_result(&program);
  return broadcast_infer(ctx);
}

static rlx_status eval(rlx_ctx *ctx) {
  const fused_params *params = ctx->params;
  fused_program program = {.inputs = ctx->input_count};
  for (int i = 0; i < program.inputs; i++) program.input_types[i] = ctx->inputs[i].dtype;
  const char *wrong = fused_parse(params->program, &program);
  if (wrong) return rlx_fail(ctx, RLX_INVALID, "program: %s", wrong);
  fused_run *run;
  rlx_status status = fused_prepare(&program, &ew_reference, ctx->inputs, &ctx->outputs[0], &run);
  if (status != RLX_OK) return rlx_fail(ctx, status, "%s", rlx_error_message());
  fused_execute(ctx, run);
  mem_free(run);
  return RLX_OK;
}

static const rlx_op fused = {
    .struct_size = sizeof(rlx_op),
    .name = "rlx.fused",
    .version = 1,
    .doc = "A scalar program over the elements of its inputs, which broadcast. Made by the pass `fuse`. The program "
           "is text: \"Mul(%0, %1); Add(%2, 0.5)\", registers %0 … being the inputs and then the steps.",
    .samples = (const char *const[]){"float[2,3], float[3] {program = \"Mul(%0, %1); Add(%2, 0.5); Erf(%3)\"}",
                                     "float[600], float[] {program = \"Less(%0, %1); Where(%2, %0, 0)\"}", NULL},
    .inputs = (const rlx_port[]){{.name = "inputs", .flags = RLX_VARIADIC | RLX_HETEROGENEOUS, .min_count = 1}, {0}},
    .outputs = (const rlx_port[]){{.name = "output"}, {0}},
    .attrs = (const rlx_attr_def[]){{.name = "program",
                                     .kind = RLX_ATTR_STRING,
                                     .flags = RLX_REQUIRED,
                                     .offset = offsetof(fused_params, program)},
                                    {0}},
    .params_size = sizeof(fused_params),
    .traits = RLX_PURE | RLX_ELEMENTWISE,
    .no_derivative = "made by compiling, after derivatives",
    .infer = infer,
    .eval = eval,
};

static const rlx_op *const ops[] = {&fused, NULL};
const rlx_module ops_fused = {.ops = ops};
