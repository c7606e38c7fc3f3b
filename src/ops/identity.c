/* identity.c — Identity: the output is the input. */
#include "ir/module.h"
#include "ops/_move.h"

static const rlx_port identity_inputs[] = {{.name = "input", .variable = "V", .flags = RLX_ANY_KIND}, {0}};
static const rlx_port identity_outputs[] = {{.name = "output", .variable = "V", .flags = RLX_ANY_KIND}, {0}};

static rlx_status identity_infer(rlx_infer *ctx) {
  rlx_infer_like(ctx, 0, 0);
  return RLX_OK;
}

static rlx_status identity_vjp(rlx_graph *g, const rlx_node *n, rlx_value *const *output_grads,
                               rlx_value **input_grads) {
  (void)n;
  input_grads[0] = output_grads[0];
  return rlx_graph_status(g);
}

static const rlx_op identity = {
    .struct_size = sizeof(rlx_op),
    .name = "onnx.Identity",
    .version = 1,
    .doc = "The output is the input.",
    .samples = (const char *const[]){"float[2,3]", "int64[]", "string[2]", NULL},
    .inputs = identity_inputs,
    .outputs = identity_outputs,
    .traits = RLX_PURE,
    .infer = identity_infer,
    .vjp = identity_vjp,
    .eval = move_all,
};

static const rlx_op *const ops[] = {&identity, NULL};
const rlx_module ops_identity = {.ops = ops};
