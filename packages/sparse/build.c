/* build.c — the graph nodes that derivatives of several ops are made of. */
#include <string.h>

#include "sparse.h"

rlx_value *build(rlx_graph *g, const char *op, rlx_value *const *inputs, int count) {
  return rlx_graph_op(g, op, NULL, 0, inputs, count);
}

rlx_value *build_sub(rlx_graph *g, rlx_value *a, rlx_value *b) {
  if (!b) return a;
  return a ? build(g, "onnx.Sub", (rlx_value *[]){a, b}, 2) : build(g, "onnx.Neg", &b, 1);
}

rlx_value *build_add(rlx_graph *g, rlx_value *a, rlx_value *b) {
  if (!a || !b) return a ? a : b;
  return build(g, "onnx.Add", (rlx_value *[]){a, b}, 2);
}

rlx_value *build_scale(rlx_graph *g, rlx_value *v, double by, rlx_dtype type) {
  if (!v) return NULL;
  rlx_tensor *t;
  rlx_status status = rlx_tensor_create(type, 0, NULL, &t);
  if (status != RLX_OK) {
    rlx_graph_fail(g, status, "no memory for a constant");
    return NULL;
  }
  if (type == RLX_DOUBLE)
    *(double *)rlx_tensor_data(t) = by;
  else
    *(float *)rlx_tensor_data(t) = (float)by;
  rlx_value *factor = rlx_graph_constant(g, NULL, t);
  rlx_tensor_destroy(t);
  return build(g, "onnx.Mul", (rlx_value *[]){v, factor}, 2);
}

rlx_value *build_rows(rlx_graph *g, rlx_value *v) {
  rlx_attr first[] = {RLX_ATTR_I("start", 0), RLX_ATTR_I("end", 1)};
  return rlx_graph_op(g, "onnx.Shape", first, 2, &v, 1);
}

rlx_value *build_product(rlx_graph *g, rlx_value *const a[3], rlx_value *x, bool transposed, rlx_value *columns,
                         int rank) {
  if (!x) return NULL;
  if (rank != 1 && rank != 2) {
    rlx_graph_fail(g, RLX_UNSUPPORTED, "a sparse product of a value whose rank is not known");
    return NULL;
  }
  rlx_attr side = RLX_ATTR_I("transpose", transposed);
  return rlx_graph_op(g, rank == 1 ? "sparse.mat_vec" : "sparse.mat_mat", &side, 1,
                      (rlx_value *[]){a[0], a[1], a[2], x, columns}, columns ? 5 : 4);
}

rlx_value *build_outer(rlx_graph *g, rlx_value *const a[3], rlx_value *u, rlx_value *v, const char *form) {
  rlx_attr attr = {.name = "form", .kind = RLX_ATTR_STRING, .s = {form, strlen(form)}};
  return rlx_graph_op(g, "sparse.values_grad", &attr, 1, (rlx_value *[]){a[1], a[2], u, v}, 4);
}
