/* expand.c — Expand and Tile: a tensor repeated along dims. */
#include <stddef.h>

#include "ir/module.h"
#include "ops/_strided.h"

/* ---- Expand ------------------------------------------------------------------------------- */

static const rlx_port expand_inputs[] = {{.name = "input", .variable = "T", .dtypes = MOVE_WHOLE},
                                         {.name = "shape", .dtypes = MOVE_INT64, .flags = RLX_HOST},
                                         {0}};
static const rlx_port expand_outputs[] = {{.name = "output", .variable = "T", .dtypes = MOVE_WHOLE}, {0}};

static rlx_status expand_infer(rlx_infer *ctx) {
  const rlx_type *x = rlx_infer_input(ctx, 0);
  int_list shape;
  rlx_status status = infer_ints(ctx, 1, &shape);
  if (status != RLX_OK) return status;
  int64_t n = shape.count >= 0 ? shape.count : infer_length(ctx, 1);
  if (n > RLX_MAX_RANK) return rlx_fail(ctx, RLX_UNSUPPORTED, "rank %lld is over %d", (long long)n, RLX_MAX_RANK);
  for (int d = 0; d < shape.count; d++)
    if (shape.values[d] < 0) return rlx_fail(ctx, RLX_INVALID, "shape has the entry %lld", (long long)shape.values[d]);
  if (x->rank == RLX_UNKNOWN || n < 0) return RLX_OK;
  for (int d = shape.count < 0 ? 0 : (int)n; d < n; d++) shape.values[d] = RLX_UNKNOWN;
  int64_t dims[RLX_MAX_RANK];
  int rank;
  char from[256], to[256];
  if (!shape_broadcast(x->rank, x->dims, (int)n, shape.values, &rank, dims))
    return rlx_fail(ctx, RLX_INVALID, "cannot expand %s to %s", dims_text(x->rank, x->dims, from, sizeof from),
                    dims_text((int)n, shape.values, to, sizeof to));
  rlx_infer_set(ctx, 0, rank, dims);
  return RLX_OK;
}

rlx_status expand_plan(const strided_node *n, strided_copy *c) {
  strided_view x = strided_input(n, 0), y = strided_output(n, 0);
  int64_t from[RLX_MAX_RANK], to[RLX_MAX_RANK];
  shape_strides(x.rank, x.dims, from);
  shape_strides(y.rank, y.dims, to);
  strided_begin(c, x.dtype, 0, 0);
  int lead = y.rank - x.rank;
  for (int d = 0; d < y.rank; d++) {
    bool repeated = d < lead || x.dims[d - lead] == 1;
    if (!repeated && x.dims[d - lead] != y.dims[d])
      return rlx_fail(n->context, RLX_INVALID, "dim %d of extent %lld cannot become %lld", d - lead,
                      (long long)x.dims[d - lead], (long long)y.dims[d]);
    strided_dim(c, y.dims[d], repeated ? 0 : from[d - lead], to[d]);
  }
  strided_finish(c);
  return RLX_OK;
}

static rlx_status expand_eval(rlx_ctx *ctx) { return strided_eval(ctx, expand_plan); }

static rlx_status expand_vjp(rlx_graph *g, const rlx_node *n, rlx_value *const *output_grads, rlx_value **input_grads) {
  if (output_grads[0]) input_grads[0] = graph_op2(g, "rlx.sum_to_like", output_grads[0], rlx_node_input(n, 0));
  return rlx_graph_status(g);
}

static const rlx_op expand = {
    .struct_size = sizeof(rlx_op),
    .name = "onnx.Expand",
    .version = 8,
    .samples = (const char *const[]){"float[3,1], int64[3] = {2, 1, 4}", "int64[1], int64[2] = {2, 0}",
                                     "bool[2,1], int64[1] = {1}", NULL},
    .doc = "The input broadcast with the given shape.",
    .inputs = expand_inputs,
    .outputs = expand_outputs,
    .traits = RLX_PURE,
    .infer = expand_infer,
    .vjp = expand_vjp,
    .eval = expand_eval,
};

/* ---- Tile --------------------------------------------------------------------------------- */

static const rlx_port tile_inputs[] = {{.name = "input", .variable = "T", .dtypes = MOVE_WHOLE},
                                       {.name = "repeats", .dtypes = MOVE_INT64, .flags = RLX_HOST},
                                       {0}};

static rlx_status tile_infer(rlx_infer *ctx) {
  const rlx_type *x = rlx_infer_input(ctx, 0);
  int_list repeats;
  rlx_status status = infer_ints(ctx, 1, &repeats);
  if (status != RLX_OK) return status;
  int64_t rank = x->rank >= 0 ? x->rank : repeats.count >= 0 ? repeats.count : infer_length(ctx, 1);
  if (rank < 0 || rank > RLX_MAX_RANK) return RLX_OK;
  if (repeats.count >= 0 && repeats.count != rank)
    return rlx_fail(ctx, RLX_INVALID, "%d repeats for rank %lld", repeats.count, (long long)rank);
  int64_t dims[RLX_MAX_RANK];
  for (int d = 0; d < rank; d++) {
    dims[d] = RLX_UNKNOWN;
    if (repeats.count < 0) continue;
    if (repeats.values[d] < 0)
      return rlx_fail(ctx, RLX_INVALID, "repeats has the entry %lld", (long long)repeats.values[d]);
    if (x->rank < 0 || x->dims[d] < 0) continue;
    dims[d] = dim_mul(x->dims[d], repeats.values[d]);
    if (dims[d] < 0) return rlx_fail(ctx, RLX_INVALID, "the output is too large");
  }
  rlx_infer_set(ctx, 0, (int)rank, dims);
  return RLX_OK;
}

rlx_status tile_plan(const strided_node *n, strided_copy *c) {
  strided_view x = strided_input(n, 0), y = strided_output(n, 0);
  int64_t from[RLX_MAX_RANK], to[RLX_MAX_RANK];
  shape_strides(x.rank, x.dims, from);
  shape_strides(y.rank, y.dims, to);
  strided_begin(c, x.dtype, 0, 0);
  for (int d = 0; d < y.rank; d++) {
    int64_t repeats = x.dims[d] ? y.dims[d] / x.dims[d] : 0;
    strided_dim(c, repeats, 0, to[d] * x.dims[d]);
    strided_dim(c, x.dims[d], from[d], to[d]);
  }
  strided_finish(c);
  return RLX_OK;
}

static rlx_status tile_eval(rlx_ctx *ctx) { return strided_eval(ctx, tile_plan); }

/* Each dim as (repeats, extent), summed over the repeats. */
static rlx_status tile_vjp(rlx_graph *g, const rlx_node *n, rlx_value *const *output_grads, rlx_value **input_grads) {
  rlx_value *x = rlx_node_input(n, 0), *dy = output_grads[0];
  if (!dy) return rlx_graph_status(g);
  int rank = rlx_value_type(x)->rank;
  if (rank < 0 || 2 * rank > RLX_MAX_RANK)
    return rlx_graph_fail(g, RLX_UNSUPPORTED, "the gradient of Tile needs a rank of at most %d, known",
                          RLX_MAX_RANK / 2);
  int64_t last = -1, odd[RLX_MAX_RANK];
  for (int d = 0; d < rank; d++) odd[d] = 2 * d;
  rlx_value *axis = graph_ints(g, &last, 1), *shape = graph_op1(g, "onnx.Shape", x);
  rlx_value *columns[2] = {graph_op2(g, "onnx.Unsqueeze", rlx_node_input(n, 1), axis),
                           graph_op2(g, "onnx.Unsqueeze", shape, axis)};
  rlx_value *pairs = graph_axis_op(g, "onnx.Concat", columns, 2, 1);
  rlx_value *split = graph_op2(g, "onnx.Reshape", dy, graph_op2(g, "onnx.Reshape", pairs, axis));
  rlx_value *sum = split;
  rlx_attr keep = RLX_ATTR_I("keepdims", 0);
  rlx_value *reduce[2] = {split, graph_ints(g, odd, rank)};
  if (rank > 0) sum = rlx_graph_op(g, "onnx.ReduceSum", &keep, 1, reduce, 2);
  input_grads[0] = graph_op2(g, "onnx.Reshape", sum, shape);
  return rlx_graph_status(g);
}

static const rlx_op tile = {
    .struct_size = sizeof(rlx_op),
    .name = "onnx.Tile",
    .version = 6,
    .samples = (const char *const[]){"float[2,3], int64[2] = {2, 3}", "int32[4], int64[1] = {0}", NULL},
    .doc = "The input repeated repeats[d] times along each dim d.",
    .inputs = tile_inputs,
    .outputs = expand_outputs,
    .traits = RLX_PURE,
    .infer = tile_infer,
    .vjp = tile_vjp,
    .eval = tile_eval,
};

static const rlx_port tile1_inputs[] = {{.name = "input", .variable = "T", .dtypes = MOVE_WHOLE},
                                        {.name = "tiles", .variable = "T", .dtypes = MOVE_WHOLE, .flags = RLX_HOST},
                                        {.name = "axis", .variable = "T", .dtypes = MOVE_WHOLE, .flags = RLX_HOST},
                                        {0}};

static rlx_status tile1_infer(rlx_infer *ctx) {
  const rlx_type *x = rlx_infer_input(ctx, 0);
  if (x->rank >= 0) infer_unknown(ctx, 0, x->rank);
  return RLX_OK;
}

/* repeats = one-hot of axis over the rank, tiles where it is and 1 elsewhere. */
static rlx_status tile1_lower(rlx_graph *g, const rlx_node *n, rlx_value **outputs) {
  rlx_value *x = rlx_node_input(n, 0);
  int64_t one = 1;
  rlx_value *vector = graph_ints(g, &one, 1), *scalar = graph_ints(g, NULL, 0);
  rlx_value *tiles = graph_op2(g, "onnx.Reshape", graph_cast(g, rlx_node_input(n, 1), RLX_INT64), vector);
  rlx_value *axis = graph_op2(g, "onnx.Reshape", graph_cast(g, rlx_node_input(n, 2), RLX_INT64), scalar);
  rlx_value *rank = graph_op1(g, "onnx.Size", graph_op1(g, "onnx.Shape", x));
  rlx_value *both[2] = {vector, tiles};
  rlx_value *hot[3] = {axis, rank, graph_axis_op(g, "onnx.Concat", both, 2, 0)};
  outputs[0] = graph_op2(g, "onnx.Tile", x, rlx_graph_op(g, "onnx.OneHot", NULL, 0, hot, 3));
  return rlx_graph_status(g);
}

static const rlx_op tile_1 = {
    .struct_size = sizeof(rlx_op),
    .name = "onnx.Tile",
    .version = 1,
    .samples = (const char *const[]){"float[2,3], float[] = {2.0}, float[] = {1.0}", NULL},
    .doc = "Tile along one axis; tiles and axis are scalars of the data's type.",
    .inputs = tile1_inputs,
    .outputs = expand_outputs,
    .traits = RLX_PURE,
    .infer = tile1_infer,
    .lower = tile1_lower,
};

static const rlx_op *const ops[] = {&expand, &tile_1, &tile, NULL};
const rlx_module ops_expand = {.ops = ops};
