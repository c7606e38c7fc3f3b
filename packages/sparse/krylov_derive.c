/* krylov_derive.c — derivatives of the iterative solvers: solves with the same method and tolerances. They suppose that
 * the solve converged; a derivative's own solve that does not converge fails. */
#include <string.h>

#include "krylov.h"

/* The node seen as one of op(A), which is A, or with the attribute `transpose` A transposed. */
typedef struct side {
  rlx_graph *g;
  const rlx_node *n;
  rlx_value *a[3], *b, *x;
  int rank; /* of b and x */
  bool transposed;
  bool symmetric; /* cg and pcg, which have no attribute `transpose` */
} side;

static side side_of(rlx_graph *g, const rlx_node *n) {
  const krylov_params *p = rlx_node_params(n);
  const char *op = rlx_node_op(n);
  return (side){.g = g,
                .n = n,
                .a = {rlx_node_input(n, 0), rlx_node_input(n, 1), rlx_node_input(n, 2)},
                .b = rlx_node_input(n, 3),
                .x = rlx_node_output(n, 0),
                .rank = rlx_node_input_type(n, 3)->rank,
                .transposed = p->transpose,
                .symmetric = strcmp(op, "sparse.cg_solve") == 0 || strcmp(op, "sparse.pcg_solve") == 0};
}

static bool only_x(rlx_graph *g, const rlx_node *n, rlx_value *const *dy) {
  for (int i = 1; i < rlx_node_output_count(n); i++) {
    if (!dy[i]) continue;
    rlx_graph_fail(g, RLX_UNSUPPORTED, "%s: only its output x has a derivative", rlx_node_op(n));
    return false;
  }
  return dy[0] != NULL;
}

/* A solve with the node's settings: by its own op, or by `op`. */
static rlx_value *solve(const side *s, const char *op, rlx_value *b, bool transposed) {
  const krylov_params *p = rlx_node_params(s->n);
  rlx_attr attrs[7] = {RLX_ATTR_I("max_iter", p->max_iter), RLX_ATTR_F("rtol", p->rtol), RLX_ATTR_F("atol", p->atol)};
  int count = 3;
  if (!s->symmetric) attrs[count++] = (rlx_attr)RLX_ATTR_I("transpose", transposed);
  if (p->restart) attrs[count++] = (rlx_attr)RLX_ATTR_I("restart", p->restart);
  if (p->preconditioner.data)
    attrs[count++] = (rlx_attr){.name = "preconditioner", .kind = RLX_ATTR_STRING, .s = p->preconditioner};
  if (strcmp(op, "sparse.normal_solve") == 0) attrs[count++] = (rlx_attr)RLX_ATTR_F("damp", p->damp);
  return rlx_graph_op(s->g, op, attrs, count, (rlx_value *[]){s->a[0], s->a[1], s->a[2], b}, 4);
}

/* op(A) v and op(A)' v; `values`: of another matrix of the same pattern, or NULL. x and b are as long as op(A) is wide
 * and high. */
static rlx_value *times(const side *s, rlx_value *values, rlx_value *v, rlx_value *like_b) {
  rlx_value *a[3] = {values ? values : s->a[0], s->a[1], s->a[2]};
  return build_product(s->g, a, v, s->transposed, s->transposed && like_b ? build_rows(s->g, like_b) : NULL, s->rank);
}
static rlx_value *back(const side *s, rlx_value *values, rlx_value *v) {
  rlx_value *a[3] = {values ? values : s->a[0], s->a[1], s->a[2]};
  return build_product(s->g, a, v, !s->transposed, s->transposed ? NULL : build_rows(s->g, s->x), s->rank);
}
/* u v' at op(A)'s entries. */
static rlx_value *outer_of(const side *s, rlx_value *u, rlx_value *v) {
  return s->transposed ? build_outer(s->g, s->a, v, u, "plain") : build_outer(s->g, s->a, u, v, "plain");
}

/* ---- A x = b ----------------------------------------------------------------------------------------------------- */

/* db = transposed inverse times dx, dA = -db x'. */
rlx_status vjp_krylov(rlx_graph *g, const rlx_node *n, rlx_value *const *dy, rlx_value **dx) {
  side s = side_of(g, n);
  if (!only_x(g, n, dy)) return rlx_graph_status(g);
  dx[3] = solve(&s, rlx_node_op(n), dy[0], !s.transposed);
  dx[0] = build_sub(g, NULL, outer_of(&s, dx[3], s.x));
  return rlx_graph_status(g);
}

rlx_status jvp_krylov(rlx_graph *g, const rlx_node *n, rlx_value *const *dx, rlx_value **dy) {
  side s = side_of(g, n);
  rlx_value *b = dx[3];
  if (dx[0]) b = build_sub(g, b, times(&s, dx[0], s.x, s.b));
  if (b) dy[0] = solve(&s, rlx_node_op(n), b, s.transposed);
  return rlx_graph_status(g);
}

/* ---- least squares: N x = A' b with N = A' A + damp^2, residual r = b - A x -------------------------------------- */

/* With w = N^-1 dx: db = A w, dA = r w' - db x'. */
rlx_status vjp_lsqr(rlx_graph *g, const rlx_node *n, rlx_value *const *dy, rlx_value **dx) {
  side s = side_of(g, n);
  if (!only_x(g, n, dy)) return rlx_graph_status(g);
  rlx_value *w = solve(&s, "sparse.normal_solve", dy[0], s.transposed);
  rlx_value *r = build_sub(g, s.b, times(&s, NULL, s.x, s.b));
  dx[3] = times(&s, NULL, w, s.b);
  dx[0] = build_sub(g, outer_of(&s, r, w), outer_of(&s, dx[3], s.x));
  return rlx_graph_status(g);
}

/* N dx = dA' r + A' (db - dA x) */
rlx_status jvp_lsqr(rlx_graph *g, const rlx_node *n, rlx_value *const *dx, rlx_value **dy) {
  side s = side_of(g, n);
  rlx_value *b = dx[3], *first = NULL;
  if (dx[0]) {
    first = back(&s, dx[0], build_sub(g, s.b, times(&s, NULL, s.x, s.b)));
    b = build_sub(g, b, times(&s, dx[0], s.x, s.b));
  }
  if (!b) return RLX_OK;
  dy[0] = solve(&s, "sparse.normal_solve", build_add(g, first, back(&s, NULL, b)), s.transposed);
  return rlx_graph_status(g);
}

/* ---- N x = b ----------------------------------------------------------------------------------------------------- */

/* With `transpose` A v needs A's number of columns, which no input says. */
static rlx_status no_shape(rlx_graph *g) {
  return rlx_graph_fail(g, RLX_UNSUPPORTED, "sparse.normal_solve: no derivative with `transpose`");
}

/* z = N^-1 dx: db = z, dA = -(A z) x' - (A x) z'. */
rlx_status vjp_normal(rlx_graph *g, const rlx_node *n, rlx_value *const *dy, rlx_value **dx) {
  side s = side_of(g, n);
  if (!only_x(g, n, dy)) return rlx_graph_status(g);
  if (s.transposed) return no_shape(g);
  rlx_value *z = dx[3] = solve(&s, rlx_node_op(n), dy[0], false);
  rlx_value *sum =
      build_add(g, outer_of(&s, times(&s, NULL, z, NULL), s.x), outer_of(&s, times(&s, NULL, s.x, NULL), z));
  dx[0] = build_sub(g, NULL, sum);
  return rlx_graph_status(g);
}

/* N dx = db - dA' A x - A' dA x */
rlx_status jvp_normal(rlx_graph *g, const rlx_node *n, rlx_value *const *dx, rlx_value **dy) {
  side s = side_of(g, n);
  if (s.transposed && dx[0]) return no_shape(g);
  rlx_value *b = dx[3];
  if (dx[0]) {
    b = build_sub(g, b, back(&s, dx[0], times(&s, NULL, s.x, NULL)));
    b = build_sub(g, b, back(&s, NULL, times(&s, dx[0], s.x, NULL)));
  }
  if (b) dy[0] = solve(&s, rlx_node_op(n), b, s.transposed);
  return rlx_graph_status(g);
}
