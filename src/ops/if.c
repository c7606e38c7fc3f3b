/* if.c — onnx.If: runs one of two subgraphs. */
#include <string.h>

#include "ir/module.h"
#include "ir/shape.h"
#include "ops/_body_derivative.h"
#include "ops/_loop.h"

typedef struct if_params {
  uint64_t given;
  rlx_graph *then_branch, *else_branch;
} if_params;

/* What is known of an output whichever branch makes it. */
static void merge(rlx_type *out, const rlx_type *a, const rlx_type *b) {
  *out = a->dtype == RLX_UNDEFINED ? *b : *a;
  if (a->rank != b->rank) out->rank = RLX_UNKNOWN;
  for (int d = 0; d < out->rank; d++)
    if (a->dims[d] != b->dims[d]) out->dims[d] = RLX_UNKNOWN;
}

static rlx_status infer(rlx_infer *ctx) {
  const if_params *p = rlx_infer_params(ctx);
  const rlx_graph *a = p->then_branch, *b = p->else_branch;
  size_t count = (size_t)rlx_infer_output_count(ctx);
  if (a->outputs.count != count || b->outputs.count != count)
    return rlx_fail(ctx, RLX_INVALID, "%zu outputs, but the branches have %zu and %zu", count, a->outputs.count,
                    b->outputs.count);
  if (a->inputs.count || b->inputs.count) return rlx_fail(ctx, RLX_INVALID, "a branch has inputs");
  for (size_t i = 0; i < count; i++) {
    const rlx_type *x = &a->outputs.data[i].value->type, *y = &b->outputs.data[i].value->type;
    if (x->dtype != y->dtype && x->dtype != RLX_UNDEFINED && y->dtype != RLX_UNDEFINED)
      return rlx_fail(ctx, RLX_INVALID, "output %zu is %s in one branch and %s in the other", i,
                      rlx_dtype_name(x->dtype), rlx_dtype_name(y->dtype));
    if (!type_same_kind(x, y) && x->dtype != RLX_UNDEFINED && y->dtype != RLX_UNDEFINED)
      return rlx_fail(ctx, RLX_INVALID, "output %zu is of another kind in one branch than in the other", i);
    merge(rlx_infer_output(ctx, (int)i), x, y);
  }
  return RLX_OK;
}

/* Results go where this node's own outputs are. */
static rlx_status place(void *user, int i, const rlx_operand *is, void **data) {
  rlx_ctx *ctx = user;
  if (!*rlx_value_name(rlx_node_output(ctx->node, i))) return RLX_OK; /* not wanted */
  bool cell = is->dtype == RLX_UNDEFINED;
  *data = cell ? ctx->outputs[i].data : rlx_output_shape(ctx, i, is->rank, is->dims);
  return *data ? RLX_OK : RLX_KERNEL;
}

static rlx_status eval(rlx_ctx *ctx) {
  const if_params *p = ctx->params;
  const executor_head *e = ctx->executor;
  rlx_operand few[8] = {{0}}, *results = few;
  if (!e || !e->call) return rlx_fail(ctx, RLX_UNSUPPORTED, "subgraphs run in sessions only");
  if (ctx->inputs[0].count != 1)
    return rlx_fail(ctx, RLX_INVALID, "the condition has %lld elements", (long long)ctx->inputs[0].count);
  bool cond = *(const uint8_t *)ctx->inputs[0].data != 0;
  if (ctx->output_count > 8) results = mem_array((size_t)ctx->output_count, sizeof *results);
  if (!results) return rlx_fail(ctx, RLX_OUT_OF_MEMORY, "out of memory");
  size_t mark = e->mark(ctx);
  subgraph_call call = {.index = loop_subgraph_index(ctx->node, cond ? p->then_branch : p->else_branch),
                        .outputs = results,
                        .output_count = ctx->output_count,
                        .place = place,
                        .user = ctx};
  rlx_status status = e->call(ctx, &call);
  e->release(ctx, mark);
  if (results != few) mem_free(results);
  return status;
}

static const rlx_op op_if = {
    .struct_size = sizeof(rlx_op),
    .name = "onnx.If",
    .version = 1,
    .samples =
        (const char *const[]){
            "bool[] {then_branch = t () => (float[2] y) { y = Constant <value = float[2] {1.0, 2.0}> () }, else_branch "
            "= e () => (float[2] z) { z = Constant <value = float[2] {3.0, 4.0}> () }}",
            NULL},
    .doc = "Runs then_branch if cond is true, else else_branch; the outputs are those of the branch.",
    .inputs = (const rlx_port[]){{"cond", NULL, RLX_SET(RLX_BOOL), RLX_HOST, 0}, {0}},
    .outputs = (const rlx_port[]){{"outputs", NULL, 0, RLX_VARIADIC | RLX_HETEROGENEOUS | RLX_ANY_KIND, 1}, {0}},
    .attrs = (const rlx_attr_def[]){{.name = "then_branch",
                                     .kind = RLX_ATTR_GRAPH,
                                     .flags = RLX_REQUIRED,
                                     .offset = offsetof(if_params, then_branch)},
                                    {.name = "else_branch",
                                     .kind = RLX_ATTR_GRAPH,
                                     .flags = RLX_REQUIRED,
                                     .offset = offsetof(if_params, else_branch)},
                                    {0}},
    .params_size = sizeof(if_params),
    .traits = RLX_CONTROL_FLOW,
    .infer = infer,
    .vjp = body_branch_vjp,
    .jvp = body_branch_jvp,
    .eval = eval,
};

const rlx_module ops_if = {.ops = (const rlx_op *const[]){&op_if, NULL}};
