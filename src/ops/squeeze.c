/* squeeze.c — Squeeze and Unsqueeze: dims of extent one removed or inserted. */
#include <stddef.h>

#include "ir/module.h"
#include "ops/_move.h"

static const rlx_port squeeze_inputs[] = {
    {.name = "data", .variable = "T"}, {.name = "axes", .dtypes = MOVE_INT64, .flags = RLX_HOST | RLX_OPTIONAL}, {0}};
static const rlx_port squeeze_outputs[] = {{.name = "squeezed", .variable = "T"}, {0}};

/* axes.count RLX_UNKNOWN: every dim of extent one goes. */
static rlx_status squeeze_dims(rlx_infer *ctx, const rlx_type *x, int_list *axes) {
  if (x->rank == RLX_UNKNOWN) return RLX_OK;
  uint32_t gone = 0;
  if (axes->count >= 0) {
    rlx_status status = axes_normalise(ctx, axes, x->rank);
    if (status != RLX_OK) return status;
  }
  for (int i = 0; i < axes->count; i++) gone |= 1u << axes->values[i];
  int64_t dims[RLX_MAX_RANK];
  int rank = 0;
  for (int d = 0; d < x->rank; d++) {
    int64_t extent = x->dims[d];
    if (axes->count < 0 && extent == RLX_UNKNOWN) return RLX_OK;
    if (axes->count < 0 ? extent == 1 : gone >> d & 1u) {
      if (extent != 1 && extent != RLX_UNKNOWN)
        return rlx_fail(ctx, RLX_INVALID, "axis %d has extent %lld, not one", d, (long long)extent);
      continue;
    }
    dims[rank++] = extent;
  }
  rlx_infer_set(ctx, 0, rank, dims);
  return RLX_OK;
}

static rlx_status squeeze_infer(rlx_infer *ctx) {
  const rlx_type *x = rlx_infer_input(ctx, 0);
  int_list axes;
  rlx_status status = infer_ints(ctx, 1, &axes);
  if (status != RLX_OK) return status;
  if (axes.count >= 0 || !infer_given(ctx, 1)) return squeeze_dims(ctx, x, &axes);
  int64_t n = infer_length(ctx, 1);
  if (n >= 0 && x->rank >= n) infer_unknown(ctx, 0, x->rank - (int)n);
  return RLX_OK;
}

static rlx_status unsqueeze_dims(rlx_infer *ctx, const rlx_type *x, int_list *axes) {
  if (x->rank == RLX_UNKNOWN) return RLX_OK;
  int rank = x->rank + axes->count;
  if (rank > RLX_MAX_RANK) return rlx_fail(ctx, RLX_UNSUPPORTED, "rank %d is over %d", rank, RLX_MAX_RANK);
  rlx_status status = axes_normalise(ctx, axes, rank);
  if (status != RLX_OK) return status;
  uint32_t fresh = 0;
  for (int i = 0; i < axes->count; i++) fresh |= 1u << axes->values[i];
  int64_t dims[RLX_MAX_RANK];
  for (int d = 0, from = 0; d < rank; d++) dims[d] = fresh >> d & 1u ? 1 : x->dims[from++];
  rlx_infer_set(ctx, 0, rank, dims);
  return RLX_OK;
}

static rlx_status unsqueeze_infer(rlx_infer *ctx) {
  const rlx_type *x = rlx_infer_input(ctx, 0);
  int_list axes;
  rlx_status status = infer_ints(ctx, 1, &axes);
  if (status != RLX_OK) return status;
  if (axes.count >= 0) return unsqueeze_dims(ctx, x, &axes);
  int64_t n = infer_length(ctx, 1);
  if (n < 0 || x->rank == RLX_UNKNOWN) return RLX_OK;
  if (x->rank + n > RLX_MAX_RANK)
    return rlx_fail(ctx, RLX_UNSUPPORTED, "rank %lld is over %d", (long long)(x->rank + n), RLX_MAX_RANK);
  infer_unknown(ctx, 0, x->rank + (int)n);
  return RLX_OK;
}

static rlx_status squeeze_vjp(rlx_graph *g, const rlx_node *n, rlx_value *const *output_grads,
                              rlx_value **input_grads) {
  if (output_grads[0])
    input_grads[0] = graph_op2(g, "onnx.Reshape", output_grads[0], graph_op1(g, "onnx.Shape", rlx_node_input(n, 0)));
  return rlx_graph_status(g);
}

static const rlx_op squeeze = {
    .struct_size = sizeof(rlx_op),
    .name = "onnx.Squeeze",
    .version = 13,
    .doc = "Removes the dims `axes`, which must be of extent one; without axes, every such dim.",
    .samples = (const char *const[]){"float[1,3,1]", NULL},
    .inputs = squeeze_inputs,
    .outputs = squeeze_outputs,
    .traits = RLX_PURE,
    .infer = squeeze_infer,
    .vjp = squeeze_vjp,
    .eval = move_all,
};

static const rlx_port unsqueeze_inputs[] = {
    {.name = "data", .variable = "T"}, {.name = "axes", .dtypes = MOVE_INT64, .flags = RLX_HOST}, {0}};
static const rlx_port unsqueeze_outputs[] = {{.name = "expanded", .variable = "T"}, {0}};

static const rlx_op unsqueeze = {
    .struct_size = sizeof(rlx_op),
    .name = "onnx.Unsqueeze",
    .version = 13,
    .samples = (const char *const[]){"float[2,3], int64[2] = {0, -1}", "string[2], int64[1] = {1}", NULL},
    .doc = "Inserts dims of extent one at `axes` of the output.",
    .inputs = unsqueeze_inputs,
    .outputs = unsqueeze_outputs,
    .traits = RLX_PURE,
    .infer = unsqueeze_infer,
    .vjp = squeeze_vjp,
    .eval = move_all,
};

/* ---- axes as an attribute ----------------------------------------------------------------- */

typedef struct axes_params {
  uint64_t given;
  rlx_ints axes;
} axes_params;

static const rlx_attr_def squeeze1_attrs[] = {
    {.name = "axes", .kind = RLX_ATTR_INTS, .offset = offsetof(axes_params, axes)}, {0}};
static const rlx_attr_def unsqueeze1_attrs[] = {
    {.name = "axes", .kind = RLX_ATTR_INTS, .flags = RLX_REQUIRED, .offset = offsetof(axes_params, axes)}, {0}};
static const rlx_port axes1_inputs[] = {{.name = "data", .variable = "T"}, {0}};

static rlx_status squeeze1_infer(rlx_infer *ctx) {
  const axes_params *p = rlx_infer_params(ctx);
  int_list axes = {.count = RLX_UNKNOWN};
  rlx_status status = p->given ? attr_ints(ctx, &p->axes, &axes) : RLX_OK;
  return status == RLX_OK ? squeeze_dims(ctx, rlx_infer_input(ctx, 0), &axes) : status;
}

static rlx_status unsqueeze1_infer(rlx_infer *ctx) {
  const axes_params *p = rlx_infer_params(ctx);
  int_list axes;
  rlx_status status = attr_ints(ctx, &p->axes, &axes);
  return status == RLX_OK ? unsqueeze_dims(ctx, rlx_infer_input(ctx, 0), &axes) : status;
}

static rlx_status squeeze1_lower(rlx_graph *g, const rlx_node *n, rlx_value **outputs) {
  const axes_params *p = rlx_node_params(n);
  rlx_value *x = rlx_node_input(n, 0);
  outputs[0] = p->given ? graph_op2(g, "onnx.Squeeze", x, graph_ints(g, p->axes.data, p->axes.count))
                        : graph_op1(g, "onnx.Squeeze", x);
  return rlx_graph_status(g);
}

static rlx_status unsqueeze1_lower(rlx_graph *g, const rlx_node *n, rlx_value **outputs) {
  const axes_params *p = rlx_node_params(n);
  outputs[0] = graph_op2(g, "onnx.Unsqueeze", rlx_node_input(n, 0), graph_ints(g, p->axes.data, p->axes.count));
  return rlx_graph_status(g);
}

static const rlx_op squeeze_1 = {
    .struct_size = sizeof(rlx_op),
    .name = "onnx.Squeeze",
    .version = 1,
    .doc = "Squeeze with the axes as an attribute.",
    .samples = (const char *const[]){"float[1,3,1] {axes = [0]}", NULL},
    .inputs = axes1_inputs,
    .outputs = squeeze_outputs,
    .attrs = squeeze1_attrs,
    .params_size = sizeof(axes_params),
    .traits = RLX_PURE,
    .infer = squeeze1_infer,
    .lower = squeeze1_lower,
};

static const rlx_op unsqueeze_1 = {
    .struct_size = sizeof(rlx_op),
    .name = "onnx.Unsqueeze",
    .version = 1,
    .doc = "Unsqueeze with the axes as an attribute.",
    .samples = (const char *const[]){"float[3] {axes = [0, 2]}", NULL},
    .inputs = axes1_inputs,
    .outputs = unsqueeze_outputs,
    .attrs = unsqueeze1_attrs,
    .params_size = sizeof(axes_params),
    .traits = RLX_PURE,
    .infer = unsqueeze1_infer,
    .lower = unsqueeze1_lower,
};

static const rlx_op *const ops[] = {&squeeze_1, &squeeze, &unsqueeze_1, &unsqueeze, NULL};
const rlx_module ops_squeeze = {.ops = ops};
