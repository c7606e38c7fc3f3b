/* scatter_nd.c — ScatterND: slices of updates put where index tuples point. */
#include <stddef.h>

#include "ir/module.h"
#include "ops/_elements.h"

typedef struct scatter_nd_params {
  uint64_t given;
  rlx_string reduction;
} scatter_nd_params;

static const rlx_attr_def scatter_nd_attrs[] = {{.name = "reduction",
                                                 .kind = RLX_ATTR_STRING,
                                                 .offset = offsetof(scatter_nd_params, reduction),
                                                 .default_string = "none"},
                                                {0}};
static const rlx_port scatter_nd_inputs[] = {{.name = "data", .variable = "T", .dtypes = MOVE_WHOLE},
                                             {.name = "indices", .dtypes = MOVE_INT64},
                                             {.name = "updates", .variable = "T", .dtypes = MOVE_WHOLE},
                                             {0}};
static const rlx_port scatter_nd_outputs[] = {{.name = "output", .variable = "T", .dtypes = MOVE_WHOLE}, {0}};

/* updates = dims of indices but the last, then what remains of data. */
static rlx_status check_updates(rlx_infer *ctx, const rlx_type *x, const rlx_type *indices, const rlx_type *updates) {
  int q = indices->rank;
  int64_t tuple = indices->dims[q - 1];
  if (tuple == RLX_UNKNOWN) return RLX_OK;
  if (tuple > x->rank)
    return rlx_fail(ctx, RLX_INVALID, "indices of %lld entries for rank %d", (long long)tuple, x->rank);
  if (updates->rank < 0) return RLX_OK;
  if (updates->rank != q - 1 + x->rank - tuple)
    return rlx_fail(ctx, RLX_INVALID, "updates has rank %d, not %lld", updates->rank,
                    (long long)(q - 1 + x->rank - tuple));
  for (int d = 0; d < updates->rank; d++) {
    int64_t want = d < q - 1 ? indices->dims[d] : x->dims[d - (q - 1) + tuple];
    if (want >= 0 && updates->dims[d] >= 0 && want != updates->dims[d])
      return rlx_fail(ctx, RLX_INVALID, "dim %d of updates has extent %lld, not %lld", d, (long long)updates->dims[d],
                      (long long)want);
  }
  return RLX_OK;
}

static rlx_status scatter_nd_infer(rlx_infer *ctx) {
  const scatter_nd_params *p = rlx_infer_params(ctx);
  const rlx_type *x = rlx_infer_input(ctx, 0), *indices = rlx_infer_input(ctx, 1);
  rlx_infer_like(ctx, 0, 0);
  reduction op;
  rlx_status status = reduction_parse(ctx, p->reduction, &op);
  if (status == RLX_OK && x->dtype != RLX_UNDEFINED && reduction_apply(op, x->dtype, NULL, NULL, 0) != RLX_OK)
    return rlx_fail(ctx, RLX_INVALID, "a reduction of %s", rlx_dtype_name(x->dtype));
  if (status != RLX_OK) return status;
  if (indices->rank == 0 || x->rank == 0) return rlx_fail(ctx, RLX_INVALID, "data or indices is a scalar");
  if (x->rank < 0 || indices->rank < 0) return RLX_OK;
  return check_updates(ctx, x, indices, rlx_infer_input(ctx, 2));
}

rlx_status scatter_nd_run(rlx_ctx *ctx) {
  const scatter_nd_params *p = ctx->params;
  const rlx_operand *x = &ctx->inputs[0], *indices = &ctx->inputs[1];
  reduction op;
  rlx_status status = reduction_parse(ctx, p->reduction, &op);
  if (status != RLX_OK) return status;
  move_bytes(ctx, ctx->outputs[0].data, x->data, x->bytes);
  int tuple = (int)indices->dims[indices->rank - 1];
  int64_t tuples = dims_product(indices->dims, 0, indices->rank - 1);
  int64_t stride[RLX_MAX_RANK], n = dims_product(x->dims, tuple, x->rank);
  int64_t size = (int64_t)dtype_size(x->dtype);
  shape_strides(x->rank, x->dims, stride);
  for (int64_t t = 0; t < tuples; t++) {
    int64_t offset = 0;
    for (int k = 0; k < tuple; k++) {
      int64_t index = index_checked(ctx, indices, t * tuple + k, x->dims[k]);
      if (index < 0) return RLX_INVALID;
      offset += index * stride[k];
    }
    if (n && reduction_apply(op, x->dtype, (char *)ctx->outputs[0].data + offset * size,
                             (const char *)ctx->inputs[2].data + t * n * size, n) != RLX_OK)
      return rlx_fail(ctx, RLX_UNSUPPORTED, "a reduction of %s", rlx_dtype_name(x->dtype));
  }
  return RLX_OK;
}

static rlx_status scatter_nd_vjp(rlx_graph *g, const rlx_node *n, rlx_value *const *output_grads,
                                 rlx_value **input_grads) {
  const scatter_nd_params *p = rlx_node_params(n);
  rlx_value *dy = output_grads[0], *indices = rlx_node_input(n, 1);
  if (!dy) return rlx_graph_status(g);
  bool none = p->reduction.size == 0 || p->reduction.data[0] == 'n', add = !none && p->reduction.data[0] == 'a';
  if (!none && !add)
    return rlx_graph_fail(g, RLX_UNSUPPORTED, "no gradient of ScatterND with reduction %.*s", (int)p->reduction.size,
                          p->reduction.data);
  rlx_value *scatter[3] = {dy, indices, graph_zeros_like(g, rlx_node_input(n, 2))};
  input_grads[0] = add ? dy : rlx_graph_op(g, "onnx.ScatterND", NULL, 0, scatter, 3);
  input_grads[2] = graph_op2(g, "onnx.GatherND", dy, indices);
  return rlx_graph_status(g);
}

static const rlx_op scatter_nd = {
    .struct_size = sizeof(rlx_op),
    .name = "onnx.ScatterND",
    .version = 11,
    .samples = (const char *const[]){"float[8], int64[4,1] = {4, 3, 1, 7}, float[4]",
                                     "float[4,3], int64[2,1], float[2,3] {reduction = \"max\"}", NULL},
    .doc = "A copy of data in which the slice at each index tuple (the last dim of indices) is replaced by, "
           "or combined with, a slice of updates.",
    .inputs = scatter_nd_inputs,
    .outputs = scatter_nd_outputs,
    .attrs = scatter_nd_attrs,
    .params_size = sizeof(scatter_nd_params),
    .traits = RLX_PURE,
    .infer = scatter_nd_infer,
    .vjp = scatter_nd_vjp,
    .eval = scatter_nd_run,
};

static const rlx_op *const ops[] = {&scatter_nd, NULL};
const rlx_module ops_scatter_nd = {.ops = ops};
