/* _layernorm_vjp.c — the derivatives of layer and RMS normalisation, in ONNX's own ops. */
#include "ops/layernorm.h"

static rlx_value *op(rlx_graph *g, const char *name, rlx_value *a, rlx_value *b) {
  return rlx_graph_op(g, name, NULL, 0, (rlx_value *[]){a, b}, b ? 2 : 1);
}

/* Mean over the normalised axes, which stay as 1. */
static rlx_value *mean(rlx_graph *g, rlx_value *v, rlx_value *axes) { return op(g, "onnx.ReduceMean", v, axes); }

static rlx_value *constant(rlx_graph *g, rlx_dtype dtype, int64_t count, const void *values, size_t bytes) {
  rlx_tensor *t;
  rlx_status status = rlx_tensor_create(dtype, count < 0 ? 0 : 1, &count, &t);
  if (status) {
    rlx_graph_fail(g, status, "no memory for a constant");
    return NULL;
  }
  for (size_t i = 0; i < bytes; i++) ((char *)rlx_tensor_data(t))[i] = ((const char *)values)[i];
  rlx_value *v = rlx_graph_constant(g, NULL, t);
  rlx_tensor_destroy(t);
  return v;
}

/* With h = (x - mean) / deviation and e = dy * scale: dx = (e - mean(e) - h * mean(e * h)) / deviation; RMS has no
 * mean(e). */
rlx_status layernorm_vjp(rlx_graph *g, const rlx_node *n, rlx_value *const *dy, rlx_value **dx, bool rms) {
  const layernorm_params *p = rlx_node_params(n);
  rlx_value *x = rlx_node_input(n, 0), *scale = rlx_node_input(n, 1), *bias = rlx_node_input(n, 2);
  int rank = rlx_value_type(x)->rank, first = (int)(p->axis < 0 ? p->axis + rank : p->axis);
  if (!dy[0]) return RLX_OK;
  if (rank < 1) return rlx_graph_fail(g, RLX_UNSUPPORTED, "the gradient of a normalisation whose rank is not known");
  int64_t list[RLX_MAX_RANK];
  for (int d = first; d < rank; d++) list[d - first] = d;
  rlx_value *axes = constant(g, RLX_INT64, rank - first, list, (size_t)(rank - first) * sizeof *list);
  rlx_value *epsilon = op(g, "onnx.CastLike", constant(g, RLX_FLOAT, -1, &p->epsilon, sizeof p->epsilon), x);
  rlx_value *centred = rms ? x : op(g, "onnx.Sub", x, mean(g, x, axes));
  rlx_value *variance = mean(g, op(g, "onnx.Mul", centred, centred), axes);
  rlx_value *deviation = op(g, "onnx.Sqrt", op(g, "onnx.Add", variance, epsilon), NULL);
  rlx_value *h = op(g, "onnx.Div", centred, deviation), *e = op(g, "onnx.Mul", dy[0], scale);
  rlx_value *along = op(g, "onnx.Mul", h, mean(g, op(g, "onnx.Mul", e, h), axes));
  rlx_value *rest = rms ? e : op(g, "onnx.Sub", e, mean(g, e, axes));
  dx[0] = op(g, "onnx.Div", op(g, "onnx.Sub", rest, along), deviation);
  dx[1] = op(g, "rlx.sum_to_like", op(g, "onnx.Mul", dy[0], h), scale);
  if (bias) dx[2] = op(g, "rlx.sum_to_like", dy[0], bias);
  return rlx_graph_status(g);
}
