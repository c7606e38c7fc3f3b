/* sum_to_like.c — rlx.sum_to_like: a tensor summed down to the shape that it was broadcast from. */
#include <string.h>

#include "base/status.h"
#include "ir/module.h"
#include "ir/shape.h"
#include "ops/_broadcast.h"
#include "ops/_number.h"

static rlx_status infer(rlx_infer *ctx) {
  const rlx_type *like = rlx_infer_input(ctx, 1), *value = rlx_infer_input(ctx, 0);
  if (like->rank == RLX_UNKNOWN) return RLX_OK;
  if (value->rank != RLX_UNKNOWN) {
    int rank;
    int64_t dims[RLX_MAX_RANK];
    char a[256], b[256];
    if (!shape_broadcast(value->rank, value->dims, like->rank, like->dims, &rank, dims) || rank != value->rank) {
      return rlx_fail(ctx, RLX_INVALID, "shape %s does not broadcast to %s",
                      dims_text(like->rank, like->dims, a, sizeof a), dims_text(value->rank, value->dims, b, sizeof b));
    }
  }
  rlx_infer_set(ctx, 0, like->rank, like->dims);
  return RLX_OK;
}

/* Adds n elements from `from` on to output elements; floats in the output's precision or wider. */
NUMBER_INLINE void add_row(rlx_dtype t, void *out, int64_t to, const void *in, int64_t from, int64_t n, bool still) {
  if (still) {
    double sum = number_load(t, out, to);
    for (int64_t i = 0; i < n; i++) sum += number_load(t, in, from + i);
    number_store(t, out, to, sum);
    return;
  }
  for (int64_t i = 0; i < n; i++) {
    number_store(t, out, to + i, number_load(t, out, to + i) + number_load(t, in, from + i));
  }
}

NUMBER_INLINE rlx_status sum(rlx_dtype t, rlx_ctx *ctx) {
  const rlx_operand *in = &ctx->inputs[0];
  rlx_operand *out = &ctx->outputs[0];
  memset(out->data, 0, (size_t)out->bytes);
  broadcast plan;
  broadcast_shape like = {out->rank, out->dims};
  broadcast_plan(&plan, (broadcast_shape){in->rank, in->dims}, &like, 1);
  broadcast_cursor at;
  broadcast_seek(&plan, 0, &at);
  int64_t row = plan.dims[plan.rank - 1];
  for (int64_t i = 0; i < plan.count; i += row) {
    add_row(t, out->data, at.offset[0], in->data, i, row, plan.still & 1);
    broadcast_next_row(&plan, &at);
  }
  return RLX_OK;
}

static rlx_status eval(rlx_ctx *ctx) { DISPATCH_FLOATS(ctx->outputs[0].dtype, sum, ctx) }

static rlx_status vjp(rlx_graph *g, const rlx_node *n, rlx_value *const *output_grads, rlx_value **input_grads) {
  if (output_grads[0] == NULL) return RLX_OK;
  rlx_value *value = rlx_node_input(n, 0);
  rlx_value *shape = rlx_graph_op(g, "onnx.Shape", NULL, 0, &value, 1);
  input_grads[0] = rlx_graph_op(g, "onnx.Expand", NULL, 0, (rlx_value *[]){output_grads[0], shape}, 2);
  return rlx_graph_status(g);
}

static rlx_status jvp(rlx_graph *g, const rlx_node *n, rlx_value *const *tangents, rlx_value **out) {
  if (tangents[0] == NULL) return RLX_OK;
  out[0] = rlx_graph_op(g, "rlx.sum_to_like", NULL, 0, (rlx_value *[]){tangents[0], rlx_node_input(n, 1)}, 2);
  return rlx_graph_status(g);
}

static const rlx_op sum_to_like = {
    .struct_size = sizeof(rlx_op),
    .name = "rlx.sum_to_like",
    .version = 1,
    .doc = "The sum of value over the dims along which like, broadcast to value, repeats: the gradient of "
           "broadcasting. The contents of like are not read.",
    .samples =
        (const char *const[]){"float[2,3,4], float[3,1]", "float[2,3], float[2,3]", "double[2,3], double[]", NULL},
    .inputs = (const rlx_port[]){{.name = "value", .variable = "T", .dtypes = RLX_SET_FLOATS}, {.name = "like"}, {0}},
    .outputs = (const rlx_port[]){{.name = "sum", .variable = "T", .dtypes = RLX_SET_FLOATS}, {0}},
    .traits = RLX_PURE,
    .infer = infer,
    .vjp = vjp,
    .jvp = jvp,
    .eval = eval,
};

const rlx_module ops_sum_to_like = {.ops = (const rlx_op *const[]){&sum_to_like, NULL}};
