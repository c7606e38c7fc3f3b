/* derivative.c — derivatives of linalg, as graphs of ONNX's ops and its own. X̄ is the gradient of X. Sources: Giles,
 * "Collected matrix derivative results" (2008); Murray, "Differentiation of the Cholesky decomposition" (2016); Golub
 * and Pereyra (1973) for pinv; Walter and Lehmann (2010) for qr; Higham, "Functions of matrices" (2008) for expm. */
#include <math.h>
#include <string.h>

#include "linalg.h"

/* ---- pieces of graph -------------------------------------------------------------------------------------------- */

static rlx_value *op1(rlx_graph *g, const char *op, rlx_value *x) { return rlx_graph_op(g, op, NULL, 0, &x, 1); }
static rlx_value *op2(rlx_graph *g, const char *op, rlx_value *x, rlx_value *y) {
  return rlx_graph_op(g, op, NULL, 0, (rlx_value *[]){x, y}, 2);
}
static rlx_value *mm(rlx_graph *g, rlx_value *x, rlx_value *y) { return op2(g, "onnx.MatMul", x, y); }
static rlx_value *add(rlx_graph *g, rlx_value *x, rlx_value *y) { return op2(g, "onnx.Add", x, y); }
static rlx_value *sub(rlx_graph *g, rlx_value *x, rlx_value *y) { return op2(g, "onnx.Sub", x, y); }
static rlx_value *mul(rlx_graph *g, rlx_value *x, rlx_value *y) { return op2(g, "onnx.Mul", x, y); }
static rlx_value *neg(rlx_graph *g, rlx_value *x) { return op1(g, "onnx.Neg", x); }

static rlx_value *made(rlx_graph *g, rlx_status status, rlx_tensor *t, const void *data) {
  if (status != RLX_OK) {
    rlx_graph_fail(g, status, "no memory for a constant");
    return NULL;
  }
  memcpy(rlx_tensor_data(t), data, rlx_tensor_bytes(t));
  rlx_value *v = rlx_graph_constant(g, NULL, t);
  rlx_tensor_destroy(t);
  return v;
}
static rlx_value *axis(rlx_graph *g, int64_t value) {
  rlx_tensor *t = NULL;
  const int64_t one = 1;
  rlx_status status = rlx_tensor_create(RLX_INT64, 1, &one, &t);
  return made(g, status, t, &value);
}
/* A number of the dtype of `like`. */
static rlx_value *number(rlx_graph *g, float value, rlx_value *like) {
  rlx_tensor *t = NULL;
  rlx_status status = rlx_tensor_create(RLX_FLOAT, 0, NULL, &t);
  return op2(g, "onnx.CastLike", made(g, status, t, &value), like);
}

/* The last two dims exchanged; of whatever rank, hence by MatMul's partner Einsum. */
static rlx_value *turned(rlx_graph *g, rlx_value *x) {
  const rlx_attr equation = {.name = "equation", .kind = RLX_ATTR_STRING, .s = {"...ij->...ji", 12}};
  return rlx_graph_op(g, "onnx.Einsum", &equation, 1, &x, 1);
}
static rlx_value *column(rlx_graph *g, rlx_value *x) { return op2(g, "onnx.Unsqueeze", x, axis(g, -1)); }
static rlx_value *row(rlx_graph *g, rlx_value *x) { return op2(g, "onnx.Unsqueeze", x, axis(g, -2)); }
static rlx_value *scalar_to_matrix(rlx_graph *g, rlx_value *x) { return column(g, column(g, x)); }
static rlx_value *sum_last(rlx_graph *g, rlx_value *x) {
  const rlx_attr drop = RLX_ATTR_I("keepdims", 0);
  return rlx_graph_op(g, "onnx.ReduceSum", &drop, 1, (rlx_value *[]){x, axis(g, -1)}, 2);
}
static rlx_value *triangle(rlx_graph *g, rlx_value *x, bool upper, int64_t k) {
  const rlx_attr which = RLX_ATTR_I("upper", upper);
  rlx_tensor *t = NULL;
  rlx_status status = rlx_tensor_create(RLX_INT64, 0, NULL, &t);
  return rlx_graph_op(g, "onnx.Trilu", &which, 1, (rlx_value *[]){x, made(g, status, t, &k)}, 2);
}
/* The lower triangle with half the diagonal: what is left of a symmetric sum when it is spread over the entries read.
 */
static rlx_value *lower_half(rlx_graph *g, rlx_value *x) {
  return mul(g, add(g, triangle(g, x, false, 0), triangle(g, x, false, -1)), number(g, 0.5F, x));
}
/* Unit matrices of x's shape [..., n, n]. */
static rlx_value *identity(rlx_graph *g, rlx_value *x) {
  rlx_value *ones = op2(g, "onnx.Expand", number(g, 1, x), op1(g, "onnx.Shape", x));
  return triangle(g, triangle(g, ones, false, 0), true, 0);
}
static rlx_value *part(rlx_graph *g, rlx_value *x, rlx_value *from, rlx_value *to, int64_t along) {
  return rlx_graph_op(g, "onnx.Slice", NULL, 0, (rlx_value *[]){x, from, to, axis(g, along)}, 4);
}
static rlx_value *joined(rlx_graph *g, rlx_value *x, rlx_value *y, int64_t along) {
  const rlx_attr at = RLX_ATTR_I("axis", along);
  return rlx_graph_op(g, "onnx.Concat", &at, 1, (rlx_value *[]){x, y}, 2);
}
static rlx_value *size_along(rlx_graph *g, rlx_value *x, int64_t along) {
  return op2(g, "onnx.Gather", op1(g, "onnx.Shape", x), axis(g, along));
}
static rlx_value *zeros_like(rlx_graph *g, rlx_value *x) { return mul(g, x, number(g, 0, x)); }

static rlx_value *triangular(rlx_graph *g, rlx_value *a, rlx_value *b, bool upper, bool trans) {
  const rlx_attr attrs[] = {RLX_ATTR_I("upper", upper), RLX_ATTR_I("trans", trans)};
  return rlx_graph_op(g, "linalg.solve_triangular", attrs, 2, (rlx_value *[]){a, b}, 2);
}

static const linalg_params *params(const rlx_node *n) { return rlx_node_params(n); }
static rlx_value *in(const rlx_node *n, int i) { return rlx_node_input(n, i); }
static rlx_value *out(const rlx_node *n, int i) { return rlx_node_output(n, i); }

/* ---- cholesky --------------------------------------------------------------------------------------------------- */

/* Ā = half(S + Sᵀ), S = L⁻ᵀ half(Lᵀ L̄) L⁻¹, as only the lower triangle is read. */
rlx_status cholesky_vjp(rlx_graph *g, const rlx_node *n, rlx_value *const *grads, rlx_value **d) {
  if (!grads[0]) return RLX_OK;
  bool upper = params(n)->upper != 0;
  rlx_value *l = upper ? turned(g, out(n, 0)) : out(n, 0), *dl = upper ? turned(g, grads[0]) : grads[0];
  rlx_value *p = lower_half(g, mm(g, turned(g, l), dl));
  rlx_value *s = triangular(g, l, turned(g, triangular(g, l, p, false, true)), false, true);
  rlx_value *da = lower_half(g, add(g, s, turned(g, s)));
  d[0] = upper ? turned(g, da) : da;
  return rlx_graph_status(g);
}

/* The symmetric matrix whose lower (upper) triangle is x's. */
static rlx_value *mirrored(rlx_graph *g, rlx_value *x, bool upper) {
  rlx_value *low = upper ? turned(g, x) : x;
  return add(g, triangle(g, low, false, 0), turned(g, triangle(g, low, false, -1)));
}

rlx_status cholesky_jvp(rlx_graph *g, const rlx_node *n, rlx_value *const *tangents, rlx_value **made_here) {
  if (!tangents[0]) return RLX_OK;
  bool upper = params(n)->upper != 0;
  rlx_value *l = upper ? turned(g, out(n, 0)) : out(n, 0), *da = mirrored(g, tangents[0], upper);
  rlx_value *left = triangular(g, l, da, false, false);
  rlx_value *dl = mm(g, l, lower_half(g, triangular(g, l, turned(g, left), false, false)));
  made_here[0] = upper ? turned(g, dl) : dl;
  return rlx_graph_status(g);
}

/* ---- solving ---------------------------------------------------------------------------------------------------- */

static bool vector_side(const rlx_node *n) {
  return rlx_node_input_type(n, 1)->rank == rlx_node_input_type(n, 0)->rank - 1;
}

/* op(A)⁻¹ b, or op(A)⁻ᵀ b with `flip`: the node again on another right side. */
static rlx_value *solved(rlx_graph *g, const rlx_node *n, rlx_value *b, bool flip) {
  const linalg_params *p = params(n);
  const rlx_attr attrs[] = {RLX_ATTR_I("trans", (p->trans != 0) != flip), RLX_ATTR_I("upper", p->upper),
                            RLX_ATTR_I("unit_diagonal", p->unit_diagonal)};
  bool general = strcmp(rlx_node_op(n), "linalg.lu_solve") == 0;
  return rlx_graph_op(g, rlx_node_op(n), attrs, general ? 1 : 3, (rlx_value *[]){in(n, 0), b}, 2);
}

/* The part of a matrix that a triangular solve reads. */
static rlx_value *read_part(rlx_graph *g, const rlx_node *n, rlx_value *x) {
  const linalg_params *p = params(n);
  if (strcmp(rlx_node_op(n), "linalg.lu_solve") == 0) return x;
  return triangle(g, x, p->upper != 0, p->unit_diagonal ? (p->upper ? 1 : -1) : 0);
}

/* B̄ = op(A)⁻ᵀ X̄, Ā = -B̄ Xᵀ, or its transpose. */
static rlx_status solve_vjp(rlx_graph *g, const rlx_node *n, rlx_value *const *grads, rlx_value **d) {
  if (!grads[0]) return RLX_OK;
  rlx_value *db = solved(g, n, grads[0], true), *x = out(n, 0);
  rlx_value *left = vector_side(n) ? column(g, db) : db, *right = vector_side(n) ? column(g, x) : x;
  rlx_value *da = params(n)->trans ? mm(g, right, turned(g, left)) : mm(g, left, turned(g, right));
  d[0] = read_part(g, n, neg(g, da));
  d[1] = db;
  return rlx_graph_status(g);
}

/* dX = op(A)⁻¹ (dB - op(dA) X) */
static rlx_status solve_jvp(rlx_graph *g, const rlx_node *n, rlx_value *const *tangents, rlx_value **made_here) {
  rlx_value *change = tangents[1];
  if (tangents[0]) {
    rlx_value *da = read_part(g, n, tangents[0]), *x = out(n, 0);
    if (params(n)->trans) da = turned(g, da);
    rlx_value *moved = mm(g, da, vector_side(n) ? column(g, x) : x);
    if (vector_side(n)) moved = op2(g, "onnx.Squeeze", moved, axis(g, -1));
    change = change ? sub(g, change, moved) : neg(g, moved);
  }
  if (change) made_here[0] = solved(g, n, change, false);
  return rlx_graph_status(g);
}

rlx_status solve_triangular_vjp(rlx_graph *g, const rlx_node *n, rlx_value *const *grads, rlx_value **d) {
  return solve_vjp(g, n, grads, d);
}
rlx_status solve_triangular_jvp(rlx_graph *g, const rlx_node *n, rlx_value *const *t, rlx_value **o) {
  return solve_jvp(g, n, t, o);
}
rlx_status lu_solve_vjp(rlx_graph *g, const rlx_node *n, rlx_value *const *grads, rlx_value **d) {
  return solve_vjp(g, n, grads, d);
}
rlx_status lu_solve_jvp(rlx_graph *g, const rlx_node *n, rlx_value *const *t, rlx_value **o) {
  return solve_jvp(g, n, t, o);
}

/* ---- inverses and determinants ---------------------------------------------------------------------------------- */

rlx_status inv_vjp(rlx_graph *g, const rlx_node *n, rlx_value *const *grads, rlx_value **d) {
  if (!grads[0]) return RLX_OK;
  rlx_value *xt = turned(g, out(n, 0));
  d[0] = neg(g, mm(g, mm(g, xt, grads[0]), xt));
  return rlx_graph_status(g);
}

rlx_status inv_jvp(rlx_graph *g, const rlx_node *n, rlx_value *const *tangents, rlx_value **made_here) {
  if (!tangents[0]) return RLX_OK;
  made_here[0] = neg(g, mm(g, mm(g, out(n, 0), tangents[0]), out(n, 0)));
  return rlx_graph_status(g);
}

static rlx_value *inverse_turned(rlx_graph *g, const rlx_node *n) { return turned(g, op1(g, "linalg.inv", in(n, 0))); }

rlx_status det_vjp(rlx_graph *g, const rlx_node *n, rlx_value *const *grads, rlx_value **d) {
  if (!grads[0]) return RLX_OK;
  d[0] = mul(g, scalar_to_matrix(g, mul(g, grads[0], out(n, 0))), inverse_turned(g, n));
  return rlx_graph_status(g);
}
rlx_status logdet_vjp(rlx_graph *g, const rlx_node *n, rlx_value *const *grads, rlx_value **d) {
  if (!grads[0]) return RLX_OK;
  d[0] = mul(g, scalar_to_matrix(g, grads[0]), inverse_turned(g, n));
  return rlx_graph_status(g);
}
/* The sign has no derivative. */
rlx_status slogdet_vjp(rlx_graph *g, const rlx_node *n, rlx_value *const *grads, rlx_value **d) {
  return logdet_vjp(g, n, grads + 1, d);
}

/* trace(A⁻¹ dA) */
static rlx_value *log_change(rlx_graph *g, const rlx_node *n, rlx_value *da) {
  return sum_last(g, sum_last(g, mul(g, inverse_turned(g, n), da)));
}
rlx_status det_jvp(rlx_graph *g, const rlx_node *n, rlx_value *const *tangents, rlx_value **made_here) {
  if (tangents[0]) made_here[0] = mul(g, out(n, 0), log_change(g, n, tangents[0]));
  return rlx_graph_status(g);
}
rlx_status logdet_jvp(rlx_graph *g, const rlx_node *n, rlx_value *const *tangents, rlx_value **made_here) {
  if (tangents[0]) made_here[0] = log_change(g, n, tangents[0]);
  return rlx_graph_status(g);
}
rlx_status slogdet_jvp(rlx_graph *g, const rlx_node *n, rlx_value *const *tangents, rlx_value **made_here) {
  if (!tangents[0]) return RLX_OK;
  made_here[0] = zeros_like(g, out(n, 0));
  made_here[1] = log_change(g, n, tangents[0]);
  return rlx_graph_status(g);
}

/* ---- qr --------------------------------------------------------------------------------------------------------- */

/* Of a with at least as many rows as columns: Ā = (Q̄ + Q copyltu(R R̄ᵀ - Q̄ᵀ Q)) R⁻ᵀ. dq or dr may be NULL. */
static rlx_value *qr_tall_vjp(rlx_graph *g, rlx_value *q, rlx_value *r, rlx_value *dq, rlx_value *dr) {
  rlx_value *m = dr ? mm(g, r, turned(g, dr)) : NULL;
  if (dq) {
    rlx_value *second = mm(g, turned(g, dq), q);
    m = m ? sub(g, m, second) : neg(g, second);
  }
  rlx_value *low = add(g, triangle(g, m, false, 0), turned(g, triangle(g, m, false, -1)));
  rlx_value *right = mm(g, q, low);
  if (dq) right = add(g, dq, right);
  return turned(g, triangular(g, r, turned(g, right), true, false));
}

rlx_status qr_vjp(rlx_graph *g, const rlx_node *n, rlx_value *const *grads, rlx_value **d) {
  const rlx_type *a = rlx_node_input_type(n, 0);
  rlx_value *q = out(n, 0), *r = out(n, 1), *dq = grads[0], *dr = grads[1];
  if (!dq && !dr) return RLX_OK;
  if (a->rank == RLX_UNKNOWN || a->dims[a->rank - 2] == RLX_UNKNOWN || a->dims[a->rank - 1] == RLX_UNKNOWN)
    return rlx_graph_fail(g, RLX_UNSUPPORTED, "the gradient of qr needs to know the matrices' sizes");
  int64_t rows = a->dims[a->rank - 2], columns = a->dims[a->rank - 1];
  if (params(n)->full && rows > columns)
    return rlx_graph_fail(g, RLX_UNSUPPORTED, "qr has a gradient only where q has min(m, n) columns");
  if (rows >= columns) {
    d[0] = qr_tall_vjp(g, q, r, dq, dr);
    return rlx_graph_status(g);
  }
  /* A = [A1 A2] = Q [R1 R2], A1 square: A2 = Q R2 gives Q a further gradient, A2 R̄2ᵀ. */
  rlx_value *zero = axis(g, 0), *middle = axis(g, rows), *end = axis(g, columns), *dr1 = NULL, *second;
  if (dr) {
    rlx_value *a2 = part(g, in(n, 0), middle, end, -1), *dr2 = part(g, dr, middle, end, -1);
    rlx_value *more = mm(g, a2, turned(g, dr2));
    dq = dq ? add(g, dq, more) : more;
    dr1 = part(g, dr, zero, middle, -1);
    second = mm(g, q, dr2);
  } else {
    second = zeros_like(g, part(g, in(n, 0), middle, end, -1));
  }
  d[0] = joined(g, qr_tall_vjp(g, q, part(g, r, zero, middle, -1), dq, dr1), second, -1);
  return rlx_graph_status(g);
}

/* ---- eigh, svd -------------------------------------------------------------------------------------------------- */

/* 1 / (x_j - x_i), 0 on the diagonal; infinite for equal values, where there is no derivative. */
static rlx_value *gaps(rlx_graph *g, rlx_value *x) {
  rlx_value *difference = sub(g, row(g, x), column(g, x)), *eye = identity(g, difference);
  return sub(g, op1(g, "onnx.Reciprocal", add(g, difference, eye)), eye);
}
static rlx_value *diagonal(rlx_graph *g, rlx_value *x, rlx_value *shape) {
  return mul(g, column(g, x), identity(g, shape));
}

/* Ā = V (diag(w̄) + F ∘ Vᵀ V̄) Vᵀ, symmetric and spread over the triangle that is read. */
rlx_status eigh_vjp(rlx_graph *g, const rlx_node *n, rlx_value *const *grads, rlx_value **d) {
  rlx_value *w = out(n, 0), *v = out(n, 1), *core = NULL;
  if (grads[0]) core = diagonal(g, grads[0], v);
  if (grads[1]) {
    rlx_value *turns = mul(g, gaps(g, w), mm(g, turned(g, v), grads[1]));
    core = core ? add(g, core, turns) : turns;
  }
  if (!core) return RLX_OK;
  rlx_value *da = mm(g, mm(g, v, core), turned(g, v));
  da = lower_half(g, add(g, da, turned(g, da)));
  d[0] = params(n)->upper ? turned(g, da) : da;
  return rlx_graph_status(g);
}

rlx_status eigh_jvp(rlx_graph *g, const rlx_node *n, rlx_value *const *tangents, rlx_value **made_here) {
  if (!tangents[0]) return RLX_OK;
  rlx_value *w = out(n, 0), *v = out(n, 1), *da = mirrored(g, tangents[0], params(n)->upper != 0);
  rlx_value *inside = mm(g, mm(g, turned(g, v), da), v);
  made_here[0] = sum_last(g, mul(g, inside, identity(g, inside)));
  made_here[1] = mm(g, v, mul(g, gaps(g, w), inside));
  return rlx_graph_status(g);
}

/* What singular vectors x [rows, r] with gradient dx say about the core: (J + Jᵀ), J = F ∘ xᵀ dx. */
static rlx_value *turning(rlx_graph *g, rlx_value *f, rlx_value *x, rlx_value *dx) {
  rlx_value *j = mul(g, f, mm(g, turned(g, x), dx));
  return add(g, j, turned(g, j));
}
/* dx less its part along x. */
static rlx_value *across(rlx_graph *g, rlx_value *x, rlx_value *dx) {
  return sub(g, dx, mm(g, x, mm(g, turned(g, x), dx)));
}

rlx_status svd_vjp(rlx_graph *g, const rlx_node *n, rlx_value *const *grads, rlx_value **d) {
  const rlx_type *a = rlx_node_input_type(n, 0);
  bool square = a->rank != RLX_UNKNOWN && a->dims[a->rank - 1] == a->dims[a->rank - 2];
  if (!grads[0] && !grads[1] && !grads[2]) return RLX_OK;
  if (params(n)->full && !square)
    return rlx_graph_fail(g, RLX_UNSUPPORTED, "svd has a gradient only without full_matrices");
  rlx_value *u = out(n, 0), *s = out(n, 1), *vh = out(n, 2), *v = turned(g, vh), *core = NULL, *sum;
  rlx_value *f = gaps(g, mul(g, s, s));
  if (grads[1]) core = diagonal(g, grads[1], f);
  if (grads[0]) {
    rlx_value *term = mul(g, turning(g, f, u, grads[0]), row(g, s));
    core = core ? add(g, core, term) : term;
  }
  if (grads[2]) {
    rlx_value *term = mul(g, column(g, s), turning(g, f, v, turned(g, grads[2])));
    core = core ? add(g, core, term) : term;
  }
  sum = mm(g, mm(g, u, core), vh);
  if (grads[0]) sum = add(g, sum, mm(g, op2(g, "onnx.Div", across(g, u, grads[0]), row(g, s)), vh));
  if (grads[2]) {
    rlx_value *rest = op2(g, "onnx.Div", across(g, v, turned(g, grads[2])), row(g, s));
    sum = add(g, sum, mm(g, u, turned(g, rest)));
  }
  d[0] = sum;
  return rlx_graph_status(g);
}

/* ---- pinv, lstsq ------------------------------------------------------------------------------------------------ */

/* Ā of P = A⁺ from P̄: -Pᵀ P̄ Pᵀ + (I - A P) P̄ᵀ P Pᵀ + Pᵀ P P̄ᵀ (I - P A). */
static rlx_value *pinv_gradient(rlx_graph *g, rlx_value *a, rlx_value *p, rlx_value *dp) {
  rlx_value *pt = turned(g, p), *dpt = turned(g, dp);
  rlx_value *first = mm(g, mm(g, pt, dp), pt), *second = mm(g, mm(g, dpt, p), pt), *third = mm(g, mm(g, pt, p), dpt);
  second = sub(g, second, mm(g, a, mm(g, p, second)));
  third = sub(g, third, mm(g, mm(g, third, p), a));
  return sub(g, add(g, second, third), first);
}

rlx_status pinv_vjp(rlx_graph *g, const rlx_node *n, rlx_value *const *grads, rlx_value **d) {
  if (!grads[0]) return RLX_OK;
  d[0] = pinv_gradient(g, in(n, 0), out(n, 0), grads[0]);
  return rlx_graph_status(g);
}

/* X = A⁺ B; the singular values' own gradient is that of svd. */
rlx_status lstsq_vjp(rlx_graph *g, const rlx_node *n, rlx_value *const *grads, rlx_value **d) {
  if (rlx_node_output_count(n) > 2 && grads[2])
    return rlx_graph_fail(g, RLX_UNSUPPORTED,
                          "no gradient flows through the singular values of lstsq: take those of svd");
  if (!grads[0]) return RLX_OK;
  const rlx_attr rtol = RLX_ATTR_F("rtol", params(n)->rtol);
  rlx_value *a = in(n, 0), *p = rlx_graph_op(g, "linalg.pinv", &rtol, 1, &a, 1);
  bool vector = vector_side(n);
  rlx_value *dx = vector ? column(g, grads[0]) : grads[0], *b = vector ? column(g, in(n, 1)) : in(n, 1);
  rlx_value *db = mm(g, turned(g, p), dx);
  d[0] = pinv_gradient(g, a, p, mm(g, dx, turned(g, b)));
  d[1] = vector ? op2(g, "onnx.Squeeze", db, axis(g, -1)) : db;
  return rlx_graph_status(g);
}

/* ---- expm ------------------------------------------------------------------------------------------------------- */

/* The derivative of exp at a in direction e: the upper right block of exp [[a, e], [0, a]]. */
static rlx_value *expm_along(rlx_graph *g, rlx_value *a, rlx_value *e) {
  rlx_value *top = joined(g, a, e, -1), *bottom = joined(g, zeros_like(g, a), a, -1);
  rlx_value *both = op1(g, "linalg.expm", joined(g, top, bottom, -2));
  rlx_value *n = size_along(g, a, -1), *end = add(g, n, n);
  return part(g, part(g, both, axis(g, 0), n, -2), n, end, -1);
}

rlx_status expm_vjp(rlx_graph *g, const rlx_node *n, rlx_value *const *grads, rlx_value **d) {
  if (!grads[0]) return RLX_OK;
  d[0] = expm_along(g, turned(g, in(n, 0)), grads[0]);
  return rlx_graph_status(g);
}
rlx_status expm_jvp(rlx_graph *g, const rlx_node *n, rlx_value *const *tangents, rlx_value **made_here) {
  if (!tangents[0]) return RLX_OK;
  made_here[0] = expm_along(g, in(n, 0), tangents[0]);
  return rlx_graph_status(g);
}
