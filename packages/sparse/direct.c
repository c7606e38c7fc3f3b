/* direct.c — sparse.lu_solve and cholesky_solve: direct solvers, their dense references and derivatives. */
#include "direct.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- attributes and shapes --------------------------------------------------------------------------------------- */

int direct_uplo(const direct_params *p) {
  static const char *const names[] = {"full", "lower", "upper"};
  for (int i = 0; p->uplo.data && i < 3; i++)
    if (strcmp(p->uplo.data, names[i]) == 0) return i;
  return p->uplo.data ? -1 : UPLO_FULL;
}

static rlx_status infer(rlx_infer *ctx) {
  const direct_params *p = rlx_infer_params(ctx);
  csr_known a;
  if (direct_uplo(p) < 0)
    return rlx_fail(ctx, RLX_INVALID, "uplo is '%s'; it takes full, lower or upper", p->uplo.data);
  rlx_status status = infer_csr(ctx, 0, &a);
  if (status == RLX_OK) status = infer_vector(ctx, 3, a.rows, "b");
  if (status == RLX_OK) infer_rows_of(ctx, 0, 3, a.rows);
  return status;
}

/* ---- symmetric matrices ------------------------------------------------------------------------------------------ */

/* A whole matrix counts as (A + A') / 2, and its triangles may differ by a tolerance; of a triangle the other is empty.
 */
rlx_status symmetric_values(const void *ctx, const direct_params *p, const csr *a, const int64_t *place, int64_t places,
                            double *sum) {
  int uplo = direct_uplo(p);
  double *difference = uplo == UPLO_FULL ? calloc((size_t)places + 1, sizeof *difference) : NULL, most = 0, worst = 0;
  if (uplo == UPLO_FULL && !difference) return rlx_fail(ctx, RLX_OUT_OF_MEMORY, "no memory to compare the triangles");
  int64_t worst_row = 0, worst_col = 0;
  for (int64_t i = 0; i < a->rows; i++) {
    for (int64_t k = csr_ptr(a, i); k < csr_ptr(a, i + 1); k++) {
      int64_t j = csr_col(a, k);
      double v = csr_value(a, k);
      if (uplo != UPLO_FULL && i != j && (j > i) == (uplo == UPLO_LOWER))
        return rlx_fail(ctx, RLX_INVALID, "uplo is '%s', and row %lld has an entry at column %lld", p->uplo.data,
                        (long long)i, (long long)j);
      sum[place[k]] += uplo == UPLO_FULL && i != j ? v / 2 : v;
      if (uplo == UPLO_FULL && i != j) difference[place[k]] += i > j ? v : -v;
    }
  }
  for (int64_t k = 0; k < places; k++) most = fmax(most, fabs(sum[k]));
  for (int64_t i = 0; uplo == UPLO_FULL && i < a->rows; i++) {
    for (int64_t k = csr_ptr(a, i); k < csr_ptr(a, i + 1); k++) {
      if (fabs(difference[place[k]]) <= worst) continue;
      worst = fabs(difference[place[k]]);
      worst_row = i;
      worst_col = csr_col(a, k);
    }
  }
  free(difference);
  if (worst <= (double)p->symmetry_tolerance * most) return RLX_OK;
  return rlx_fail(ctx, RLX_INVALID, "the matrix is not symmetric: entries (%lld, %lld) and (%lld, %lld) differ by %.3g",
                  (long long)worst_row, (long long)worst_col, (long long)worst_col, (long long)worst_row, worst);
}

/* ---- by libraries ------------------------------------------------------------------------------------------------ */

static int64_t rhs_columns(const rlx_operand *b) { return b->rank == 2 ? b->dims[1] : 1; }

static double load(const rlx_operand *b, int64_t i) {
  return b->dtype == RLX_DOUBLE ? ((const double *)b->data)[i] : (double)((const float *)b->data)[i];
}

static void store(const rlx_operand *x, int64_t i, double v) {
  if (x->dtype == RLX_DOUBLE)
    ((double *)x->data)[i] = v;
  else
    ((float *)x->data)[i] = (float)v;
}

/* Column w of a block, as doubles, and back. */
static void load_column(const rlx_operand *b, int64_t n, int64_t width, int64_t w, double *to) {
  if (width == 1 && b->dtype == RLX_DOUBLE)
    memcpy(to, b->data, (size_t)n * sizeof *to);
  else
    for (int64_t i = 0; i < n; i++) to[i] = load(b, i * width + w);
}

static void store_column(const rlx_operand *x, int64_t n, int64_t width, int64_t w, const double *from) {
  if (width == 1 && x->dtype == RLX_DOUBLE)
    memcpy(x->data, from, (size_t)n * sizeof *from);
  else
    for (int64_t i = 0; i < n; i++) store(x, i * width + w, from[i]);
}

static int64_t at_once(int64_t width) { return width < COLUMNS_AT_ONCE ? width : COLUMNS_AT_ONCE; }

/* A few columns at a time, in doubles. */
static rlx_status solve_with(rlx_ctx *ctx, const direct_solver *s) {
  const direct_params *p = ctx->params;
  const rlx_operand *b = &ctx->inputs[3], *x = &ctx->outputs[0];
  const factor *f = NULL;
  csr a = csr_of(ctx, 0, 0);
  a.cols = a.rows;
  int64_t n = a.rows, width = rhs_columns(b);
  if (n == 0) return csr_calls_of(a.type, a.index)->check(ctx, &a);
  rlx_status status = factor_get(ctx, s, &a, ctx->run_state, &f);
  right_sides r = {.x = ctx->workspace, .transposed = p->transpose, .own = factor_run_own(ctx->run_state, s)};
  r.scratch = r.x + n * at_once(width);
  for (int64_t w = 0; w < width && status == RLX_OK; w += r.count) {
    if (rlx_cancelled(ctx)) return rlx_fail(ctx, RLX_CANCELLED, "cancelled");
    r.count = at_once(width - w);
    for (int64_t k = 0; k < r.count; k++) load_column(b, n, width, w + k, r.x + k * n);
    status = s->solve(ctx, f, &r);
    for (int64_t k = 0; k < r.count && status == RLX_OK; k++) store_column(x, n, width, w + k, r.x + k * n);
  }
  return status;
}

static int64_t scratch_bytes(const rlx_bound *b, const direct_solver *s) {
  const rlx_type *x = rlx_bound_output(b, 0);
  int64_t n = x->dims[0], columns = at_once(x->rank == 2 ? x->dims[1] : 1);
  return s && n < INT64_MAX / 256 ? (n * columns + s->scratch(n) + 1) * (int64_t)sizeof(double) : 0;
}

static int64_t lu_workspace(rlx_bound *b, const void *state) {
  (void)state;
  return scratch_bytes(b, direct_klu());
}
static int64_t cholesky_workspace(rlx_bound *b, const void *state) {
  (void)state;
  return scratch_bytes(b, direct_cholmod());
}
static const char *lu_why_not(const rlx_node *n) {
  (void)n;
  return direct_klu() ? NULL : "this build has no KLU";
}
static const char *cholesky_why_not(const rlx_node *n) {
  (void)n;
  return direct_cholmod() ? NULL : "this build has no CHOLMOD";
}
static rlx_status run_lu(rlx_ctx *ctx) { return solve_with(ctx, direct_klu()); }
static rlx_status run_cholesky(rlx_ctx *ctx) { return solve_with(ctx, direct_cholmod()); }

/* ---- references -------------------------------------------------------------------------------------------------- */

/* Dense elimination defines the ops; it is not meant for sizes at which a sparse solver is missed. */
enum { REFERENCE_ROWS = 512 };

static rlx_status reference_size(const rlx_ctx *ctx, int64_t n, const char *library) {
  if (n <= REFERENCE_ROWS) return RLX_OK;
  return rlx_fail(ctx, RLX_UNSUPPORTED, "%lld unknowns: the reference solves up to %d; larger systems need %s, %s",
                  (long long)n, REFERENCE_ROWS, library,
                  strcmp(library, "KLU") == 0
                      ? (direct_klu() ? "the kernel 'klu'" : "which this build does not have")
                      : (direct_cholmod() ? "the kernel 'cholmod'" : "which this build does not have"));
}

/* m: n rows of n + width doubles, the matrix beside its right-hand sides. Solves by Gauss-Jordan with row exchanges. */
static rlx_status eliminate(const rlx_ctx *ctx, int64_t n, int64_t width, double *m) {
  int64_t stride = n + width;
  double most = 0;
  for (int64_t i = 0; i < n; i++)
    for (int64_t j = 0; j < n; j++) most = fmax(most, fabs(m[i * stride + j]));
  for (int64_t j = 0; j < n; j++) {
    int64_t best = j;
    for (int64_t i = j + 1; i < n; i++)
      if (fabs(m[i * stride + j]) > fabs(m[best * stride + j])) best = i;
    double pivot = m[best * stride + j];
    if (!(fabs(pivot) > SINGULAR_RATIO * most))
      return rlx_fail(ctx, RLX_INVALID, "the matrix is singular to working precision: pivot %lld of %lld is %.3g",
                      (long long)j, (long long)n, pivot);
    for (int64_t k = j; k < stride; k++) {
      double kept = m[best * stride + k];
      m[best * stride + k] = m[j * stride + k];
      m[j * stride + k] = kept / pivot;
    }
    for (int64_t i = 0; i < n; i++) {
      double by = i == j ? 0 : m[i * stride + j];
      for (int64_t k = j; by != 0 && k < stride; k++) m[i * stride + k] -= by * m[j * stride + k];
    }
  }
  return RLX_OK;
}

/* Whether L L' = A has a solution with positive pivots: elimination without exchanges in the lower triangle of m. */
static rlx_status positive_definite(const rlx_ctx *ctx, int64_t n, int64_t stride, const double *m) {
  double *l = malloc((size_t)(n * n + 1) * sizeof *l);
  rlx_status status = l ? RLX_OK : rlx_fail(ctx, RLX_OUT_OF_MEMORY, "no memory for a dense matrix");
  for (int64_t i = 0; i < n && status == RLX_OK; i++) {
    for (int64_t j = 0; j <= i && status == RLX_OK; j++) {
      double sum = m[i * stride + j];
      for (int64_t k = 0; k < j; k++) sum -= l[i * n + k] * l[j * n + k];
      if (i > j)
        l[i * n + j] = sum / l[j * n + j];
      else if (sum > 0)
        l[i * n + i] = sqrt(sum);
      else
        status = rlx_fail(ctx, RLX_INVALID,
                          "the matrix is not positive definite: the pivot of row %lld is not positive", (long long)i);
    }
  }
  free(l);
  return status;
}

/* Writes A, its transposed or its symmetric form to m. */
static rlx_status densify(const rlx_ctx *ctx, const csr *a, bool symmetric, int64_t stride, double *m) {
  const direct_params *p = ctx->params;
  int64_t *place = calloc((size_t)a->entries + 1, sizeof *place);
  double *sum = calloc((size_t)(a->rows * a->rows) + 1, sizeof *sum);
  rlx_status status = place && sum ? RLX_OK : rlx_fail(ctx, RLX_OUT_OF_MEMORY, "no memory for a dense matrix");
  for (int64_t i = 0; i < a->rows && status == RLX_OK; i++) {
    for (int64_t k = csr_ptr(a, i); k < csr_ptr(a, i + 1) && status == RLX_OK; k++) {
      int64_t j = csr_col(a, k), row = p->transpose || (symmetric && j > i) ? j : i, col = i + j - row;
      place[k] = row * a->rows + col;
      if (!isfinite(csr_value(a, k))) status = rlx_fail(ctx, RLX_INVALID, "values[%lld] is not finite", (long long)k);
      if (!symmetric) sum[place[k]] += csr_value(a, k);
    }
  }
  if (status == RLX_OK && symmetric) status = symmetric_values(ctx, p, a, place, a->rows * a->rows, sum);
  for (int64_t i = 0; i < a->rows && status == RLX_OK; i++)
    for (int64_t j = 0; j < a->rows; j++)
      m[i * stride + j] = symmetric && j > i ? sum[j * a->rows + i] : sum[i * a->rows + j];
  free(place);
  free(sum);
  return status;
}

static rlx_status reference(rlx_ctx *ctx, bool symmetric) {
  const rlx_operand *b = &ctx->inputs[3], *x = &ctx->outputs[0];
  csr a = csr_of(ctx, 0, 0);
  int64_t n = a.cols = a.rows, width = rhs_columns(b), stride = n + width;
  rlx_status status = csr_calls_of(a.type, a.index)->check(ctx, &a);
  if (status == RLX_OK) status = reference_size(ctx, n, symmetric ? "CHOLMOD" : "KLU");
  if (status != RLX_OK) return status;
  double *m = width < INT64_MAX / 1024 ? malloc((size_t)(n * stride + 1) * sizeof *m) : NULL;
  if (!m) return rlx_fail(ctx, RLX_OUT_OF_MEMORY, "no memory for a dense matrix");
  status = densify(ctx, &a, symmetric, stride, m);
  for (int64_t i = 0; i < n; i++)
    for (int64_t w = 0; w < width; w++) m[i * stride + n + w] = load(b, i * width + w);
  if (status == RLX_OK && symmetric) status = positive_definite(ctx, n, stride, m);
  if (status == RLX_OK) status = eliminate(ctx, n, width, m);
  for (int64_t i = 0; i < n && status == RLX_OK; i++)
    for (int64_t w = 0; w < width; w++) store(x, i * width + w, m[i * stride + n + w]);
  free(m);
  return status;
}

static rlx_status eval_lu(rlx_ctx *ctx) { return reference(ctx, false); }
static rlx_status eval_cholesky(rlx_ctx *ctx) { return reference(ctx, true); }

/* ---- derivatives ------------------------------------------------------------------------------------------------- */

static int rank_of(const rlx_node *n) { return rlx_node_input_type(n, 3)->rank; }

/* The same solver with another right-hand side, of A or of A transposed. */
static rlx_value *solve_again(rlx_graph *g, const rlx_node *n, rlx_value *b, bool transposed) {
  const direct_params *p = rlx_node_params(n);
  rlx_value *inputs[4] = {rlx_node_input(n, 0), rlx_node_input(n, 1), rlx_node_input(n, 2), b};
  rlx_attr attrs[] = {RLX_ATTR_I("transpose", transposed)};
  rlx_attr symmetric[] = {{.name = "uplo", .kind = RLX_ATTR_STRING, .s = p->uplo},
                          RLX_ATTR_F("symmetry_tolerance", p->symmetry_tolerance)};
  bool cholesky = p->uplo.data != NULL;
  return rlx_graph_op(g, rlx_node_op(n), cholesky ? symmetric : attrs, cholesky ? 2 : 1, inputs, 4);
}

/* With db = transposed inverse of A times dx: dA = -db x', or -x db' if A was transposed. */
static rlx_status vjp_lu(rlx_graph *g, const rlx_node *n, rlx_value *const *dy, rlx_value **dx) {
  const direct_params *p = rlx_node_params(n);
  if (!dy[0]) return RLX_OK;
  rlx_value *a[3] = {rlx_node_input(n, 0), rlx_node_input(n, 1), rlx_node_input(n, 2)}, *x = rlx_node_output(n, 0);
  rlx_value *db = solve_again(g, n, dy[0], !p->transpose);
  dx[0] = build_sub(g, NULL, p->transpose ? build_outer(g, a, x, db, "plain") : build_outer(g, a, db, x, "plain"));
  dx[3] = db;
  return rlx_graph_status(g);
}

static rlx_status jvp_lu(rlx_graph *g, const rlx_node *n, rlx_value *const *dx, rlx_value **dy) {
  const direct_params *p = rlx_node_params(n);
  rlx_value *da[3] = {dx[0], rlx_node_input(n, 1), rlx_node_input(n, 2)}, *b = dx[3];
  if (dx[0]) b = build_sub(g, b, build_product(g, da, rlx_node_output(n, 0), p->transpose, NULL, rank_of(n)));
  if (b) dy[0] = solve_again(g, n, b, p->transpose);
  return rlx_graph_status(g);
}

/* An entry stands for itself and, by half or whole, for the one across the diagonal. */
static rlx_status vjp_cholesky(rlx_graph *g, const rlx_node *n, rlx_value *const *dy, rlx_value **dx) {
  if (!dy[0]) return RLX_OK;
  const char *form = direct_uplo(rlx_node_params(n)) == UPLO_FULL ? "symmetric" : "triangle";
  rlx_value *a[3] = {rlx_node_input(n, 0), rlx_node_input(n, 1), rlx_node_input(n, 2)};
  dx[3] = solve_again(g, n, dy[0], false);
  dx[0] = build_sub(g, NULL, build_outer(g, a, dx[3], rlx_node_output(n, 0), form));
  return rlx_graph_status(g);
}

/* S dx = db - dS x with S = (A + A') / 2. */
static rlx_status jvp_cholesky(rlx_graph *g, const rlx_node *n, rlx_value *const *dx, rlx_value **dy) {
  rlx_value *da[3] = {dx[0], rlx_node_input(n, 1), rlx_node_input(n, 2)}, *b = dx[3], *x = rlx_node_output(n, 0);
  int rank = rank_of(n);
  if (dx[0] && direct_uplo(rlx_node_params(n)) != UPLO_FULL)
    return rlx_graph_fail(g, RLX_UNSUPPORTED, "sparse.cholesky_solve: no forward derivative of one triangle's values");
  if (dx[0]) {
    rlx_value *twice =
        build_add(g, build_product(g, da, x, false, NULL, rank), build_product(g, da, x, true, NULL, rank));
    b = build_sub(g, b, build_scale(g, twice, 0.5, rlx_value_type(x)->dtype));
  }
  if (b) dy[0] = solve_again(g, n, b, false);
  return rlx_graph_status(g);
}

/* ---- records ----------------------------------------------------------------------------------------------------- */

#define BIDIAGONAL "int64[6] = {0, 2, 1, 0, 1, 2}, int64[4] = {0, 2, 4, 6}"
#define TRIDIAGONAL                                                                                                    \
  "double[10] = {4, -1, -1, 4, -1, -1, 4, -1, -1, 4}, int32[10] = {0, 1, 0, 1, 2, 1, 2, 3, 2, 3}, "                    \
  "int32[5] = {0, 2, 5, 8, 10}"
#define LOWER                                                                                                          \
  "float[7] = {4, -1, 4, -1, 4, -1, 4}, int64[7] = {0, 0, 1, 1, 2, 2, 3}, int64[5] = {0, 1, 3, 5, 7}"

static const rlx_port inputs[] = {SPARSE_MATRIX(""), SPARSE_T("b"), {0}};
static const rlx_port outputs[] = {SPARSE_T("x"), {0}};
static const rlx_attr_def lu_attrs[] = {{.name = "transpose",
                                         .kind = RLX_ATTR_INT,
                                         .flags = RLX_RANGED,
                                         .offset = offsetof(direct_params, transpose),
                                         .max = 1},
                                        {0}};
static const rlx_attr_def cholesky_attrs[] = {
    {.name = "uplo", .kind = RLX_ATTR_STRING, .offset = offsetof(direct_params, uplo), .default_string = "full"},
    {.name = "symmetry_tolerance",
     .kind = RLX_ATTR_FLOAT,
     .flags = RLX_RANGED,
     .offset = offsetof(direct_params, symmetry_tolerance),
     .default_float = 1e-3F,
     .max = 3e38},
    {0}};

static const rlx_op lu_solve = {
    .struct_size = sizeof(rlx_op),
    .name = "sparse.lu_solve",
    .doc = "The solution of A x = b, or with `transpose` of transposed A x = b, for a square matrix in CSR and one or "
           "several right-hand sides, by LU factorisation with pivoting in double precision.",
    .samples = (const char *const[]){"double[6], " BIDIAGONAL ", double[3]",
                                     "double[6], " BIDIAGONAL ", double[3,6] {transpose = 1}",
                                     "float[2], int32[2] = {1, 0}, int32[3] = {0, 1, 2}, float[2]",
                                     "float[0], int32[0], int32[1] = {0}, float[0]", TRIDIAGONAL ", double[4]", NULL},
    .inputs = inputs,
    .outputs = outputs,
    .attrs = lu_attrs,
    .params_size = sizeof(direct_params),
    .traits = RLX_PURE,
    .infer = infer,
    .vjp = vjp_lu,
    .jvp = jvp_lu,
    .eval = eval_lu,
};
static const rlx_op cholesky_solve = {
    .struct_size = sizeof(rlx_op),
    .name = "sparse.cholesky_solve",
    .doc = "The solution of A x = b for a symmetric positive definite matrix in CSR and one or several right-hand "
           "sides, by "
           "Cholesky factorisation in double precision. A is stored whole, and its triangles may differ by "
           "symmetry_tolerance times its largest entry: then their mean counts; or only its lower or upper triangle is "
           "stored.",
    .samples = (const char *const[]){TRIDIAGONAL ", double[4]", TRIDIAGONAL ", double[4,6]",
                                     LOWER ", float[4] {uplo = \"lower\"}",
                                     "float[3], int32[3] = {0, 1, 2}, int32[4] = {0, 1, 2, 3}, float[3]", NULL},
    .inputs = inputs,
    .outputs = outputs,
    .attrs = cholesky_attrs,
    .params_size = sizeof(direct_params),
    .traits = RLX_PURE,
    .infer = infer,
    .vjp = vjp_cholesky,
    .jvp = jvp_cholesky,
    .eval = eval_cholesky,
};

static const rlx_cpu_kernel klu = {sizeof(rlx_cpu_kernel),
                                   {.op = "sparse.lu_solve",
                                    .name = "klu",
                                    .why_not = lu_why_not,
                                    .workspace = lu_workspace,
                                    .run_init = factor_run_create,
                                    .run_done = factor_run_destroy},
                                   run_lu},
                            cholmod = {sizeof(rlx_cpu_kernel),
                                       {.op = "sparse.cholesky_solve",
                                        .name = "cholmod",
                                        .why_not = cholesky_why_not,
                                        .workspace = cholesky_workspace,
                                        .run_init = factor_run_create,
                                        .run_done = factor_run_destroy},
                                       run_cholesky};

const sparse_part sparse_direct = {.ops = (const rlx_op *const[]){&lu_solve, &cholesky_solve, &factor_counters, NULL},
                                   .kernels = (const rlx_cpu_kernel *const[]){&klu, &cholmod, NULL}};
