/* _einsum_lower.c — Einsum of two float inputs as Transpose, Reshape and MatMul. */
#include "ops/_einsum.h"

/* Labels of the two terms by the part they play in the product. */
typedef struct einsum_roles {
  einsum_term batch, rows, columns, inner;
} einsum_roles;

static int position(const einsum_term *t, int label) {
  for (int k = 0; k < t->count; k++)
    if (t->label[k] == label) return k;
  return -1;
}

static void add_label(einsum_term *t, int8_t label) { t->label[t->count++] = label; }

/* False: an ellipsis, a diagonal, a label summed within one input, or nothing to contract. */
static bool find_roles(const einsum_equation *e, einsum_roles *r) {
  const einsum_term *a = &e->input[0], *b = &e->input[1];
  *r = (einsum_roles){0};
  if (a->has_ellipsis || b->has_ellipsis) return false;
  for (int k = 0; k < a->count; k++) {
    int8_t label = a->label[k];
    bool both = position(b, label) >= 0, kept = position(&e->output, label) >= 0;
    if (position(a, label) != k || (!both && !kept)) return false;
    add_label(both ? (kept ? &r->batch : &r->inner) : &r->rows, label);
  }
  for (int k = 0; k < b->count; k++) {
    int8_t label = b->label[k];
    if (position(b, label) != k) return false;
    if (position(a, label) >= 0) continue;
    if (position(&e->output, label) < 0) return false;
    add_label(&r->columns, label);
  }
  return r->inner.count > 0;
}

static rlx_value *transposed(rlx_graph *g, rlx_value *x, const int64_t *perm, int count) {
  bool same = true;
  for (int d = 0; d < count; d++) same = same && perm[d] == d;
  if (same) return x;
  rlx_attr attr = {.name = "perm", .kind = RLX_ATTR_INTS, .ints = perm, .count = (size_t)count};
  return rlx_graph_op(g, "onnx.Transpose", &attr, 1, &x, 1);
}

/* The extents of these labels, from the shape of the input whose term is t. */
static rlx_value *extents_of(rlx_graph *g, rlx_value *shape, const einsum_term *t, const einsum_term *labels) {
  int64_t at[EINSUM_LABELS];
  for (int k = 0; k < labels->count; k++) at[k] = position(t, labels->label[k]);
  return graph_op2(g, "onnx.Gather", shape, graph_ints(g, at, labels->count));
}

static rlx_value *product_of(rlx_graph *g, rlx_value *shape, const einsum_term *t, const einsum_term *labels) {
  int64_t one = 1;
  if (labels->count == 0) return graph_ints(g, &one, 1);
  rlx_value *extents = extents_of(g, shape, t, labels);
  return labels->count == 1 ? extents : graph_op1(g, "onnx.ReduceProd", extents);
}

/* x as [batch…, first, second], its groups of labels merged into one dim each. */
static rlx_value *as_matrices(rlx_graph *g, rlx_value *x, const einsum_term *t, const einsum_term *const groups[3]) {
  int64_t perm[EINSUM_LABELS];
  int n = 0;
  for (int i = 0; i < 3; i++)
    for (int k = 0; k < groups[i]->count; k++) perm[n++] = position(t, groups[i]->label[k]);
  rlx_value *ordered = transposed(g, x, perm, n);
  if (groups[1]->count == 1 && groups[2]->count == 1) return ordered;
  rlx_value *shape = graph_op1(g, "onnx.Shape", x), *parts[3];
  int count = 0;
  if (groups[0]->count) parts[count++] = extents_of(g, shape, t, groups[0]);
  parts[count++] = product_of(g, shape, t, groups[1]);
  parts[count++] = product_of(g, shape, t, groups[2]);
  return graph_op2(g, "onnx.Reshape", ordered, graph_axis_op(g, "onnx.Concat", parts, count, 0));
}

rlx_status einsum_lower(rlx_graph *g, const rlx_node *n, const einsum_equation *e, rlx_value **outputs) {
  einsum_roles r;
  if (!find_roles(e, &r)) return rlx_graph_fail(g, RLX_UNSUPPORTED, "the equation is not one matrix product");
  const einsum_term *a = &e->input[0], *b = &e->input[1];
  rlx_value *x = rlx_node_input(n, 0), *y = rlx_node_input(n, 1);
  const einsum_term *const left[3] = {&r.batch, &r.rows, &r.inner}, *const right[3] = {&r.batch, &r.inner, &r.columns};
  rlx_value *product = graph_op2(g, "onnx.MatMul", as_matrices(g, x, a, left), as_matrices(g, y, b, right));
  if (r.rows.count != 1 || r.columns.count != 1) {
    rlx_value *parts[3], *shape_x = graph_op1(g, "onnx.Shape", x), *shape_y = graph_op1(g, "onnx.Shape", y);
    int count = 0;
    if (r.batch.count) parts[count++] = extents_of(g, shape_x, a, &r.batch);
    if (r.rows.count) parts[count++] = extents_of(g, shape_x, a, &r.rows);
    if (r.columns.count) parts[count++] = extents_of(g, shape_y, b, &r.columns);
    int64_t none = 0;
    rlx_value *shape = count ? graph_axis_op(g, "onnx.Concat", parts, count, 0) : graph_ints(g, &none, 0);
    product = graph_op2(g, "onnx.Reshape", product, shape);
  }
  einsum_term order = r.batch;
  for (int k = 0; k < r.rows.count; k++) add_label(&order, r.rows.label[k]);
  for (int k = 0; k < r.columns.count; k++) add_label(&order, r.columns.label[k]);
  int64_t perm[EINSUM_LABELS];
  for (int k = 0; k < e->output.count; k++) perm[k] = position(&order, e->output.label[k]);
  outputs[0] = transposed(g, product, perm, e->output.count);
  return rlx_graph_status(g);
}
