/* transpose.c — Transpose: dims in another order. */
#include <stddef.h>

#include "ir/module.h"
#include "ops/_strided.h"

typedef struct transpose_params {
  uint64_t given;
  rlx_ints perm;
} transpose_params;

static const rlx_attr_def transpose_attrs[] = {
    {.name = "perm", .kind = RLX_ATTR_INTS, .offset = offsetof(transpose_params, perm)}, {0}};
static const rlx_port transpose_inputs[] = {{.name = "data", .variable = "T"}, {0}};
static const rlx_port transpose_outputs[] = {{.name = "transposed", .variable = "T"}, {0}};

static rlx_status check_perm(const void *ctx, const transpose_params *p, int rank) {
  if (p->perm.count != rank)
    return rlx_fail(ctx, RLX_INVALID, "perm has %lld entries for rank %d", (long long)p->perm.count, rank);
  uint32_t seen = 0;
  for (int d = 0; d < rank; d++) {
    int64_t axis = p->perm.data[d];
    if (axis < 0 || axis >= rank)
      return rlx_fail(ctx, RLX_INVALID, "perm entry %lld outside rank %d", (long long)axis, rank);
    if (seen >> axis & 1u) return rlx_fail(ctx, RLX_INVALID, "perm has %lld twice", (long long)axis);
    seen |= 1u << axis;
  }
  return RLX_OK;
}

static int source_axis(const transpose_params *p, int rank, int d) {
  return p->given & 1u ? (int)p->perm.data[d] : rank - 1 - d;
}

static rlx_status transpose_infer(rlx_infer *ctx) {
  const transpose_params *p = rlx_infer_params(ctx);
  const rlx_type *x = rlx_infer_input(ctx, 0);
  int64_t rank = x->rank;
  if (rank == RLX_UNKNOWN && !(p->given & 1u)) return RLX_OK;
  if (rank == RLX_UNKNOWN) rank = p->perm.count;
  if (rank > RLX_MAX_RANK) return rlx_fail(ctx, RLX_UNSUPPORTED, "rank %lld is over %d", (long long)rank, RLX_MAX_RANK);
  if (p->given & 1u) {
    rlx_status status = check_perm(ctx, p, (int)rank);
    if (status != RLX_OK) return status;
  }
  int64_t dims[RLX_MAX_RANK];
  for (int d = 0; d < rank; d++) dims[d] = x->rank == RLX_UNKNOWN ? RLX_UNKNOWN : x->dims[source_axis(p, (int)rank, d)];
  rlx_infer_set(ctx, 0, (int)rank, dims);
  return RLX_OK;
}

rlx_status transpose_plan(const strided_node *n, strided_copy *c) {
  const transpose_params *p = n->params;
  strided_view x = strided_input(n, 0), y = strided_output(n, 0);
  int64_t from[RLX_MAX_RANK], to[RLX_MAX_RANK];
  shape_strides(x.rank, x.dims, from);
  shape_strides(y.rank, y.dims, to);
  strided_begin(c, x.dtype, 0, 0);
  for (int d = 0; d < y.rank; d++) strided_dim(c, y.dims[d], from[source_axis(p, x.rank, d)], to[d]);
  strided_finish(c);
  return RLX_OK;
}

static rlx_status transpose_eval(rlx_ctx *ctx) { return strided_eval(ctx, transpose_plan); }

static rlx_status transpose_vjp(rlx_graph *g, const rlx_node *n, rlx_value *const *output_grads,
                                rlx_value **input_grads) {
  const transpose_params *p = rlx_node_params(n);
  int64_t inverse[RLX_MAX_RANK];
  if (!output_grads[0]) return rlx_graph_status(g);
  if (p->given & 1u) {
    rlx_status status = p->perm.count > RLX_MAX_RANK ? RLX_UNSUPPORTED : RLX_OK;
    if (status != RLX_OK) return rlx_graph_fail(g, status, "rank %lld", (long long)p->perm.count);
    for (int d = 0; d < p->perm.count; d++) inverse[p->perm.data[d]] = d;
  }
  rlx_attr attr = {.name = "perm", .kind = RLX_ATTR_INTS, .ints = inverse, .count = (size_t)p->perm.count};
  rlx_value *dy = output_grads[0];
  input_grads[0] = rlx_graph_op(g, "onnx.Transpose", &attr, p->given & 1u ? 1 : 0, &dy, 1);
  return rlx_graph_status(g);
}

static const rlx_op transpose = {
    .struct_size = sizeof(rlx_op),
    .name = "onnx.Transpose",
    .version = 1,
    .doc = "Dim d of the output is dim perm[d] of the input; without perm the order is reversed.",
    .samples =
        (const char *const[]){"float[2,3,4]", "float[2,3,4] {perm = [1, 0, 2]}", "uint8[5,7] {perm = [1, 0]}", NULL},
    .inputs = transpose_inputs,
    .outputs = transpose_outputs,
    .attrs = transpose_attrs,
    .params_size = sizeof(transpose_params),
    .traits = RLX_PURE,
    .infer = transpose_infer,
    .vjp = transpose_vjp,
    .eval = transpose_eval,
};

static const rlx_op *const ops[] = {&transpose, NULL};
const rlx_module ops_transpose = {.ops = ops};
