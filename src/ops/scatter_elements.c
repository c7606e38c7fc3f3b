/* scatter_elements.c — ScatterElements (and its old name Scatter): updates put where indices point. */
#include <stddef.h>

#include "ir/module.h"
#include "ops/_elements.h"

typedef struct scatter_elements_params {
  uint64_t given;
  int64_t axis;
  rlx_string reduction;
} scatter_elements_params;

static const rlx_attr_def scatter_elements_attrs[] = {
    {.name = "axis", .kind = RLX_ATTR_INT, .offset = offsetof(scatter_elements_params, axis)},
    {.name = "reduction",
     .kind = RLX_ATTR_STRING,
     .offset = offsetof(scatter_elements_params, reduction),
     .default_string = "none"},
    {0}};
static const rlx_port scatter_elements_inputs[] = {{.name = "data", .variable = "T", .dtypes = MOVE_WHOLE},
                                                   {.name = "indices", .variable = "Tind", .dtypes = RLX_SET_INDEX},
                                                   {.name = "updates", .variable = "T", .dtypes = MOVE_WHOLE},
                                                   {0}};
static const rlx_port scatter_elements_outputs[] = {{.name = "output", .variable = "T", .dtypes = MOVE_WHOLE}, {0}};

static rlx_status scatter_elements_infer(rlx_infer *ctx) {
  const scatter_elements_params *p = rlx_infer_params(ctx);
  const rlx_type *x = rlx_infer_input(ctx, 0), *indices = rlx_infer_input(ctx, 1);
  const rlx_type *updates = rlx_infer_input(ctx, 2);
  rlx_infer_like(ctx, 0, 0);
  reduction op;
  rlx_status status = reduction_parse(ctx, p->reduction, &op);
  if (status == RLX_OK && x->dtype != RLX_UNDEFINED && reduction_apply(op, x->dtype, NULL, NULL, 0) != RLX_OK)
    return rlx_fail(ctx, RLX_INVALID, "a reduction of %s", rlx_dtype_name(x->dtype));
  if (status == RLX_OK) status = elements_check(ctx, x, indices);
  if (status == RLX_OK) status = elements_check(ctx, updates, indices);
  int axis = RLX_UNKNOWN;
  if (status == RLX_OK && x->rank >= 0) status = infer_axis(ctx, p->axis, x->rank, &axis);
  if (status != RLX_OK || indices->rank < 0) return status;
  for (int d = 0; d < indices->rank; d++) {
    int64_t n = indices->dims[d];
    if (n >= 0 && updates->rank >= 0 && updates->dims[d] >= 0 && updates->dims[d] != n)
      return rlx_fail(ctx, RLX_INVALID, "dim %d of indices has extent %lld, of updates %lld", d, (long long)n,
                      (long long)updates->dims[d]);
    if (n >= 0 && x->rank >= 0 && d != axis && x->dims[d] >= 0 && n > x->dims[d])
      return rlx_fail(ctx, RLX_INVALID, "dim %d of indices has extent %lld, of data %lld", d, (long long)n,
                      (long long)x->dims[d]);
  }
  return RLX_OK;
}

rlx_status scatter_elements_run(rlx_ctx *ctx) {
  const scatter_elements_params *p = ctx->params;
  const rlx_operand *x = &ctx->inputs[0], *indices = &ctx->inputs[1];
  reduction op;
  rlx_status status = reduction_parse(ctx, p->reduction, &op);
  if (status != RLX_OK) return status;
  move_bytes(ctx, ctx->outputs[0].data, x->data, x->bytes);
  element_rows e;
  elements_prepare(&e, x, indices, p->axis);
  int64_t size = (int64_t)dtype_size(x->dtype), along = e.axis == e.rank - 1 ? 0 : 1;
  char *to = ctx->outputs[0].data;
  const char *from = ctx->inputs[2].data;
  for (int64_t r = 0; r < e.rows; r++) {
    int64_t base = elements_offset(&e, r);
    for (int64_t i = 0; i < e.length; i++) {
      int64_t at = r * e.length + i, index = index_checked(ctx, indices, at, e.extent);
      if (index < 0) return RLX_INVALID;
      char *target = to + (base + i * along + index * e.stride[e.axis]) * size;
      if (reduction_apply(op, x->dtype, target, from + at * size, 1) != RLX_OK)
        return rlx_fail(ctx, RLX_UNSUPPORTED, "a reduction of %s", rlx_dtype_name(x->dtype));
    }
  }
  return RLX_OK;
}

/* Without a reduction updates replace: their gradient is what they became, that of the data is zero there.
 * With "add" both get the output's. */
static rlx_status scatter_elements_vjp(rlx_graph *g, const rlx_node *n, rlx_value *const *output_grads,
                                       rlx_value **input_grads) {
  const scatter_elements_params *p = rlx_node_params(n);
  rlx_value *dy = output_grads[0], *indices = rlx_node_input(n, 1);
  if (!dy) return rlx_graph_status(g);
  bool none = p->reduction.size == 0 || p->reduction.data[0] == 'n', add = !none && p->reduction.data[0] == 'a';
  if (!none && !add)
    return rlx_graph_fail(g, RLX_UNSUPPORTED, "no gradient of ScatterElements with reduction %.*s",
                          (int)p->reduction.size, p->reduction.data);
  rlx_value *gather[2] = {dy, indices};
  rlx_value *scatter[3] = {dy, indices, graph_zeros_like(g, rlx_node_input(n, 2))};
  input_grads[0] = add ? dy : graph_axis_op(g, "onnx.ScatterElements", scatter, 3, p->axis);
  input_grads[2] = graph_axis_op(g, "onnx.GatherElements", gather, 2, p->axis);
  return rlx_graph_status(g);
}

static const rlx_op scatter_elements = {
    .struct_size = sizeof(rlx_op),
    .name = "onnx.ScatterElements",
    .version = 11,
    .samples = (const char *const[]){"float[3,3], int64[2,3] = {1, 0, 2, 0, 2, 1}, float[2,3]",
                                     "int32[1,5], int64[1,2] = {1, -1}, int32[1,2] {axis = 1}",
                                     "float[4], int64[3] = {1, 1, 3}, float[3] {reduction = \"add\"}", NULL},
    .doc = "A copy of data in which each update replaces, or is combined with, the element its index points "
           "to along axis.",
    .inputs = scatter_elements_inputs,
    .outputs = scatter_elements_outputs,
    .attrs = scatter_elements_attrs,
    .params_size = sizeof(scatter_elements_params),
    .traits = RLX_PURE,
    .infer = scatter_elements_infer,
    .vjp = scatter_elements_vjp,
    .eval = scatter_elements_run,
};

static rlx_status scatter_lower(rlx_graph *g, const rlx_node *n, rlx_value **outputs) {
  const scatter_elements_params *p = rlx_node_params(n);
  rlx_value *inputs[3] = {rlx_node_input(n, 0), rlx_node_input(n, 1), rlx_node_input(n, 2)};
  outputs[0] = graph_axis_op(g, "onnx.ScatterElements", inputs, 3, p->axis);
  return rlx_graph_status(g);
}

static const rlx_attr_def scatter_attrs[] = {
    {.name = "axis", .kind = RLX_ATTR_INT, .offset = offsetof(scatter_elements_params, axis)}, {0}};

static const rlx_op scatter = {
    .struct_size = sizeof(rlx_op),
    .name = "onnx.Scatter",
    .version = 9,
    .samples = (const char *const[]){"float[3,3], int64[2,3] = {1, 0, 2, 0, 2, 1}, float[2,3]", NULL},
    .doc = "The old name of ScatterElements.",
    .inputs = scatter_elements_inputs,
    .outputs = scatter_elements_outputs,
    .attrs = scatter_attrs,
    .params_size = sizeof(scatter_elements_params),
    .traits = RLX_PURE,
    .infer = scatter_elements_infer,
    .lower = scatter_lower,
};

static const rlx_op *const ops[] = {&scatter_elements, &scatter, NULL};
const rlx_module ops_scatter_elements = {.ops = ops};
