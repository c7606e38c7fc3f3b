/* krylov.c — the iterative solvers as ops: attributes, shapes, memory, preconditioners, results. Their derivatives are
 * in krylov_derive.c. */
#include "krylov.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- what each op is --------------------------------------------------------------------------------------------- */

typedef struct solver {
  const char *op;
  method method;
  int columns; /* input that says how many columns A has; 0: A is square, or b says it */
} solver;

static const solver solvers[] = {{"sparse.cg_solve", METHOD_CG, 0},       {"sparse.pcg_solve", METHOD_CG, 0},
                                 {"sparse.gmres_solve", METHOD_GMRES, 0}, {"sparse.bicgstab_solve", METHOD_BICGSTAB, 0},
                                 {"sparse.lsqr_solve", METHOD_LSQR, 5},   {"sparse.normal_solve", METHOD_NORMAL, 0}};

static const solver *solver_of(const rlx_node *n) {
  size_t i = 0;
  while (strcmp(solvers[i].op, rlx_node_op(n)) != 0) i++;
  return &solvers[i];
}

static int kind_of(const krylov_params *p) {
  static const char *const names[] = {"none", "jacobi", "ilu0", "ic0"};
  for (int i = 0; p->preconditioner.data && i < 4; i++)
    if (strcmp(p->preconditioner.data, names[i]) == 0) return i;
  return p->preconditioner.data ? -1 : PRECONDITION_NONE;
}

/* ---- shapes ------------------------------------------------------------------------------------------------------ */

/* The sizes of the unknown and of the right-hand side. */
static rlx_status infer_sizes(rlx_infer *ctx, const solver *s, int64_t *unknowns, int64_t *equations) {
  const krylov_params *p = rlx_infer_params(ctx);
  const rlx_type *b = rlx_infer_input(ctx, 3);
  csr_known a;
  rlx_status status = infer_csr(ctx, 0, &a);
  if (status != RLX_OK) return status;
  *unknowns = *equations = a.rows;
  if (s->method == METHOD_LSQR) {
    status = infer_columns(ctx, s->columns, a.rows, p->transpose ? equations : unknowns);
  } else if (s->method == METHOD_NORMAL) { /* A' A has as many rows as A has columns, which b says */
    *unknowns = *equations = p->transpose ? a.rows : b->rank > 0 ? b->dims[0] : RLX_UNKNOWN;
  }
  return status;
}

static rlx_status infer(rlx_infer *ctx) {
  const krylov_params *p = rlx_infer_params(ctx);
  const rlx_type *b = rlx_infer_input(ctx, 3);
  bool guessed = rlx_infer_input_count(ctx) > 4 && rlx_infer_input(ctx, 4);
  const rlx_type *guess = guessed ? rlx_infer_input(ctx, 4) : NULL;
  int64_t unknowns, equations;
  if (kind_of(p) < 0)
    return rlx_fail(ctx, RLX_INVALID, "preconditioner is '%s'; it takes none, jacobi, ilu0 or ic0",
                    p->preconditioner.data);
  rlx_status status = infer_sizes(ctx, solver_of(rlx_infer_node(ctx)), &unknowns, &equations);
  if (status == RLX_OK) status = infer_vector(ctx, 3, equations, "b");
  if (status == RLX_OK && guessed) status = infer_vector(ctx, 4, unknowns, "x0");
  if (status != RLX_OK) return status;
  if (guessed && guess->rank != RLX_UNKNOWN && b->rank != RLX_UNKNOWN &&
      (guess->rank != b->rank ||
       (b->rank == 2 && guess->dims[1] != RLX_UNKNOWN && b->dims[1] != RLX_UNKNOWN && guess->dims[1] != b->dims[1])))
    return rlx_fail(ctx, RLX_INVALID, "x0 has another rank or number of columns than b");
  infer_rows_of(ctx, 0, 3, unknowns);
  static const rlx_dtype types[] = {RLX_UNDEFINED, RLX_INT64, RLX_UNDEFINED, RLX_BOOL};
  for (int i = 1; i < rlx_infer_output_count(ctx); i++) {
    rlx_type *out = rlx_infer_output(ctx, i);
    if (!out) continue;
    if (types[i] != RLX_UNDEFINED) out->dtype = types[i];
    if (b->rank != RLX_UNKNOWN) rlx_infer_set(ctx, i, b->rank - 1, &b->dims[1]);
  }
  return RLX_OK;
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

static void *take(krylov *k, int64_t count, int64_t size) {
  void *p = k->base ? k->base + k->used : NULL;
  if (count > (INT64_MAX / 4 - k->used) / size) {
    k->used = INT64_MAX / 4;
    return p;
  }
  k->used += (count * size + 63) / 64 * 64;
  return p;
}

static csr take_matrix(krylov *k, int64_t rows, int64_t cols) {
  csr m = {.rows = rows, .cols = cols, .entries = k->a.entries, .type = k->a.type, .index = k->a.index};
  m.values = take(k, m.entries, csr_value_bytes(m.type));
  m.col = take(k, m.entries, csr_index_bytes(m.index));
  m.ptr = take(k, rows + 1, csr_index_bytes(m.index));
  return m;
}

/* k->a is the matrix as given. With base NULL only counts. */
static void lay_out(krylov *k) {
  static const int vectors[] = {
      [METHOD_CG] = 3, [METHOD_BICGSTAB] = 5, [METHOD_GMRES] = 2, [METHOD_LSQR] = 5, [METHOD_NORMAL] = 4};
  int64_t value = csr_value_bytes(k->a.type), index = csr_index_bytes(k->a.index), n = k->cols;
  int64_t longest = k->rows > k->cols ? k->rows : k->cols;
  bool both = k->method == METHOD_LSQR || k->method == METHOD_NORMAL;
  bool sorted = k->kind == PRECONDITION_ILU0 || k->kind == PRECONDITION_IC0;
  if (both || k->params->transpose || sorted) k->copies[0] = take_matrix(k, k->a.cols, k->a.rows);
  if (sorted && !k->params->transpose) k->copies[1] = take_matrix(k, k->a.rows, k->a.cols);
  if (k->kind == PRECONDITION_IC0) k->lower = take_matrix(k, n, n);
  if (k->kind == PRECONDITION_ILU0) {
    k->factor = take(k, k->a.entries, value);
    k->diagonal = take(k, n, index);
    k->work = take(k, n, index);
  }
  if (k->kind == PRECONDITION_JACOBI || k->kind == PRECONDITION_IC0) k->inverse = take(k, n, value);
  k->b = take(k, longest, value);
  k->x = take(k, longest, value);
  k->r = take(k, longest, value);
  for (int i = 0; i < vectors[k->method]; i++) k->v[i] = take(k, longest, value);
  k->restart = k->params->restart < n ? k->params->restart : n;
  if (k->method == METHOD_GMRES) {
    k->basis = take(k, n, (k->restart + 1) * value);
    k->small = take(k, (k->restart + 1) * (k->restart + 4), sizeof(double));
  } else {
    k->small = take(k, 1, sizeof(double));
  }
  k->sums = take(k, longest / PIECE + 1, sizeof(double));
}

static krylov krylov_of(const solver *s, const krylov_params *p, const csr *a, int64_t unknowns, int64_t equations) {
  krylov k = {.params = p, .method = s->method, .kind = (preconditioner)kind_of(p), .a = *a};
  int64_t other = s->method == METHOD_LSQR ? equations : unknowns;
  k.cols = unknowns;
  k.rows = s->method == METHOD_NORMAL ? (p->transpose ? a->cols : a->rows) : other;
  k.calls = csr_calls_of(a->type, a->index);
  k.vectors = vector_calls_of(a->type);
  k.max_iter = p->max_iter > 0 ? p->max_iter : unknowns < INT64_MAX / 10 ? 10 * unknowns : INT64_MAX;
  return k;
}

/* A's columns: it is square, or its unknowns or equations say it. */
static int64_t columns_of(const solver *s, const krylov_params *p, int64_t rows, int64_t unknowns, int64_t equations) {
  if (s->method == METHOD_LSQR) return p->transpose ? equations : unknowns;
  return s->method == METHOD_NORMAL && !p->transpose ? unknowns : rows;
}

/* ---- setting up -------------------------------------------------------------------------------------------------- */

/* The memory of copies is ours. */
static void *own(const void *p) { return (void *)(uintptr_t)p; }

static void transpose(const krylov *k, const csr *from, csr *to) {
  *to = (csr){from->cols, from->rows, from->entries, to->values, to->col, to->ptr, from->type, from->index};
  k->calls->transpose(from, own(to->values), own(to->col), own(to->ptr), NULL);
}

/* Takes the matrix that is solved, and its transposed one, sorted and merged as the method and preconditioner want. */
static void take_sides(krylov *k) {
  bool both = k->method == METHOD_LSQR || k->method == METHOD_NORMAL;
  bool sorted = k->kind == PRECONDITION_ILU0 || k->kind == PRECONDITION_IC0;
  if (both) {
    csr given = k->a;
    transpose(k, &given, &k->copies[0]);
    k->a = k->params->transpose ? k->copies[0] : given;
    k->at = k->params->transpose ? given : k->copies[0];
    return;
  }
  if (k->params->transpose) {
    csr given = k->a;
    transpose(k, &given, &k->copies[0]);
    k->a = k->copies[0];
  } else if (sorted && !k->calls->canonical(&k->a)) {
    transpose(k, &k->a, &k->copies[0]);
    transpose(k, &k->copies[0], &k->copies[1]);
    k->a = k->copies[1];
  }
  if (sorted && !k->calls->canonical(&k->a)) /* a copy: its rows are sorted, and equal places adjacent */
    k->a.entries = k->calls->merge(k->a.rows, own(k->a.values), own(k->a.col), own(k->a.ptr));
}

static rlx_status take_preconditioner(krylov *k) {
  static const char *const names[] = {"none", "jacobi", "ilu0", "ic0"};
  const char *why = NULL;
  int64_t row = 0;
  if (k->kind == PRECONDITION_JACOBI) why = k->calls->jacobi(&k->a, k->inverse, &row);
  if (k->kind == PRECONDITION_ILU0) why = k->calls->ilu0(&k->a, k->factor, k->diagonal, k->work, &row);
  if (k->kind == PRECONDITION_IC0) {
    int64_t entries = k->calls->lower(&k->a, own(k->lower.values), own(k->lower.col), own(k->lower.ptr));
    if (entries < 0) {
      why = "its diagonal is not stored";
      row = -1 - entries;
    } else {
      k->lower.entries = entries;
      k->factor = own(k->lower.values);
      why = k->calls->ic0(&k->lower, k->factor, k->inverse, &row);
    }
  }
  if (!why) return RLX_OK;
  return rlx_fail(k->ctx, RLX_INVALID, "preconditioner %s: row %lld: %s", names[k->kind], (long long)row, why);
}

static double frobenius(const krylov *k) {
  double sum = (double)k->params->damp * (double)k->params->damp * (double)k->cols;
  for (int64_t i = 0; i < k->a.entries; i++) {
    double v = k->a.type == RLX_DOUBLE ? ((const double *)k->a.values)[i] : (double)((const float *)k->a.values)[i];
    sum += v * v;
  }
  return sqrt(sum);
}

/* ---- running ----------------------------------------------------------------------------------------------------- */

/* Column w of a block of `width` columns, or back into it. */
static void gather(const rlx_operand *from, int64_t n, int64_t width, int64_t w, void *to) {
  int64_t size = csr_value_bytes(from->dtype);
  if (width == 1) {
    if (n > 0) memcpy(to, from->data, (size_t)(n * size));
    return;
  }
  for (int64_t i = 0; i < n; i++)
    memcpy((char *)to + i * size, (const char *)from->data + (i * width + w) * size, (size_t)size);
}

static void scatter(const void *from, int64_t n, int64_t width, int64_t w, const rlx_operand *to) {
  int64_t size = csr_value_bytes(to->dtype);
  for (int64_t i = 0; i < n; i++)
    memcpy((char *)to->data + (i * width + w) * size, (const char *)from + i * size, (size_t)size);
}

/* Results go to the outputs that are taken; not converging, if nobody takes that output, is a failure. */
static rlx_status give(krylov *k, const outcome *o, int64_t w) {
  void *out[4] = {NULL};
  for (int i = 1; i < k->ctx->output_count && i < 4; i++) out[i] = k->ctx->outputs[i].data;
  if (out[1]) ((int64_t *)out[1])[w] = o->iterations;
  if (out[2] && k->a.type == RLX_DOUBLE) ((double *)out[2])[w] = o->residual;
  if (out[2] && k->a.type == RLX_FLOAT) ((float *)out[2])[w] = (float)o->residual;
  if (out[3]) ((uint8_t *)out[3])[w] = o->converged;
  if (o->converged || out[3]) return RLX_OK;
  return rlx_fail(k->ctx, RLX_KERNEL, "not converged after %lld iterations: the residual is %.3g, wanted %.3g%s%s",
                  (long long)o->iterations, o->residual, k->tolerance, o->why ? "; " : "", o->why ? o->why : "");
}

static rlx_status solve_columns(krylov *k) {
  rlx_ctx *ctx = k->ctx;
  const rlx_operand *b = &ctx->inputs[3], *x = &ctx->outputs[0];
  const rlx_operand *guess = ctx->input_count > 4 && ctx->inputs[4].data ? &ctx->inputs[4] : NULL;
  int64_t width = b->rank == 2 ? b->dims[1] : 1, equations = b->dims[0];
  rlx_status status = RLX_OK;
  for (int64_t w = 0; w < width && status == RLX_OK; w++) {
    outcome o;
    gather(b, equations, width, w, k->b);
    if (guess)
      gather(guess, k->cols, width, w, k->x);
    else
      memset(k->x, 0, (size_t)(k->cols * csr_value_bytes(k->a.type)));
    status = krylov_solve(k, &o);
    if (status == RLX_OK) status = give(k, &o, w);
    if (status == RLX_OK) scatter(k->x, k->cols, width, w, x);
  }
  return status;
}

static krylov of_run(rlx_ctx *ctx) {
  const solver *s = solver_of(ctx->node);
  const krylov_params *p = ctx->params;
  int64_t unknowns = ctx->outputs[0].dims[0], equations = ctx->inputs[3].dims[0];
  csr a = csr_of(ctx, 0, 0);
  a.cols = columns_of(s, p, a.rows, unknowns, equations);
  krylov k = krylov_of(s, p, &a, unknowns, equations);
  k.ctx = ctx;
  return k;
}

static rlx_status run_in(rlx_ctx *ctx, void *memory) {
  krylov k = of_run(ctx);
  k.base = memory;
  lay_out(&k);
  rlx_status status = k.calls->check(ctx, &k.a);
  if (status != RLX_OK) return status;
  take_sides(&k);
  status = take_preconditioner(&k);
  if (status != RLX_OK) return status;
  if (k.method == METHOD_LSQR) *k.small = frobenius(&k);
  return solve_columns(&k);
}

static rlx_status run(rlx_ctx *ctx) { return run_in(ctx, ctx->workspace); }

static rlx_status eval(rlx_ctx *ctx) {
  krylov k = of_run(ctx);
  lay_out(&k);
  void *memory = k.used < INT64_MAX / 8 ? aligned_alloc(64, (size_t)k.used) : NULL;
  if (!memory) return rlx_fail(ctx, RLX_OUT_OF_MEMORY, "no memory for %lld bytes", (long long)k.used);
  rlx_status status = run_in(ctx, memory);
  free(memory);
  return status;
}

static int64_t workspace(rlx_bound *b, const void *state) {
  (void)state;
  const solver *s = solver_of(rlx_bound_node(b));
  const krylov_params *p = rlx_bound_params(b);
  const rlx_type *values = rlx_bound_input(b, 0), *col = rlx_bound_input(b, 1), *ptr = rlx_bound_input(b, 2);
  int64_t unknowns = rlx_bound_output(b, 0)->dims[0], equations = rlx_bound_input(b, 3)->dims[0];
  csr a = {.rows = ptr->dims[0] - 1, .entries = col->dims[0], .type = values->dtype, .index = col->dtype};
  a.cols = columns_of(s, p, a.rows, unknowns, equations);
  krylov k = krylov_of(s, p, &a, unknowns, equations);
  lay_out(&k);
  return k.used;
}

/* ---- records ----------------------------------------------------------------------------------------------------- */

#define TRIDIAGONAL                                                                                                    \
  "double[10] = {4, -1, -1, 4, -1, -1, 4, -1, -1, 4}, int32[10] = {0, 1, 0, 1, 2, 1, 2, 3, 2, 3}, "                    \
  "int32[5] = {0, 2, 5, 8, 10}"
#define UNSYMMETRIC                                                                                                    \
  "float[7] = {4, -1, -2, 5, 1, 3, 6}, int64[7] = {0, 2, 0, 1, 2, 1, 2}, int64[4] = {0, 2, 5, 7}"
#define TALL "double[5] = {1, 2, -1, 1, 3}, int64[5] = {0, 1, 0, 1, 0}, int64[5] = {0, 1, 2, 4, 5}"

static const rlx_port inputs[] = {SPARSE_MATRIX(""),
                                  SPARSE_T("b"),
                                  {.name = "x0", .variable = "T", .dtypes = SPARSE_VALUES, .flags = RLX_OPTIONAL},
                                  {0}};
static const rlx_port lsqr_inputs[] = {SPARSE_MATRIX(""),
                                       SPARSE_T("b"),
                                       {.name = "x0", .variable = "T", .dtypes = SPARSE_VALUES, .flags = RLX_OPTIONAL},
                                       SPARSE_COLUMNS,
                                       {0}};
static const rlx_port outputs[] = {
    SPARSE_T("x"),
    {.name = "iterations", .dtypes = RLX_SET(RLX_INT64), .flags = RLX_OPTIONAL},
    {.name = "residual", .variable = "T", .dtypes = SPARSE_VALUES, .flags = RLX_OPTIONAL},
    {.name = "converged", .dtypes = RLX_SET(RLX_BOOL), .flags = RLX_OPTIONAL},
    {0}};

#define INT_ATTR(field, value, low, high)                                                                              \
  {                                                                                                                    \
    .name = #field, .kind = RLX_ATTR_INT, .flags = RLX_RANGED, .offset = offsetof(krylov_params, field),               \
    .default_int = (value), .min = (low), .max = (high)                                                                \
  }
#define FLOAT_ATTR(field, value)                                                                                       \
  {                                                                                                                    \
    .name = #field, .kind = RLX_ATTR_FLOAT, .flags = RLX_RANGED, .offset = offsetof(krylov_params, field),             \
    .default_float = (value), .max = 3e38                                                                              \
  }
#define PRECONDITIONER(value)                                                                                          \
  {                                                                                                                    \
    .name = "preconditioner", .kind = RLX_ATTR_STRING, .offset = offsetof(krylov_params, preconditioner),              \
    .default_string = (value)                                                                                          \
  }
#define STOPPING INT_ATTR(max_iter, 0, 0, 9e15), FLOAT_ATTR(rtol, 1e-6F), FLOAT_ATTR(atol, 0)
#define TRANSPOSE INT_ATTR(transpose, 0, 0, 1)

static const rlx_attr_def cg_attrs[] = {STOPPING, {0}}, pcg_attrs[] = {STOPPING, PRECONDITIONER("jacobi"), {0}},
                          gmres_attrs[] = {STOPPING,
                                           TRANSPOSE,
                                           INT_ATTR(restart, 30, 1, 1e6),
                                           PRECONDITIONER("none"),
                                           {0}},
                          bicgstab_attrs[] = {STOPPING, TRANSPOSE, PRECONDITIONER("none"), {0}},
                          least_attrs[] = {STOPPING, TRANSPOSE, FLOAT_ATTR(damp, 0), {0}};

#define SOLVER(id, text, rows, ports, attr_rows, derivative)                                                           \
  static const rlx_op id##_solve = {                                                                                   \
      .struct_size = sizeof(rlx_op),                                                                                   \
      .name = "sparse." #id "_solve",                                                                                  \
      .doc = text " Ends when the residual's norm is at most the larger of rtol times that of b, and atol, or after "  \
                  "max_iter iterations (0: ten an unknown). Not converging is a failure, unless the output "           \
                  "`converged` is taken.",                                                                             \
      .samples = rows,                                                                                                 \
      .inputs = ports,                                                                                                 \
      .outputs = outputs,                                                                                              \
      .attrs = attr_rows,                                                                                              \
      .params_size = sizeof(krylov_params),                                                                            \
      .traits = RLX_PURE,                                                                                              \
      .infer = infer,                                                                                                  \
      .vjp = vjp_##derivative,                                                                                         \
      .jvp = jvp_##derivative,                                                                                         \
      .eval = eval,                                                                                                    \
  };                                                                                                                   \
  static const rlx_cpu_kernel id##_kernel = {                                                                          \
      sizeof(rlx_cpu_kernel), {.op = "sparse." #id "_solve", .name = "planned", .workspace = workspace}, run};
#define ROWS(...) ((const char *const[]){__VA_ARGS__, NULL})

SOLVER(cg, "The solution of A x = b for a symmetric positive definite A by conjugate gradients.",
       ROWS(TRIDIAGONAL ", double[4] {rtol = 1e-12}", TRIDIAGONAL ", double[4,2], double[4,2] {rtol = 1e-12} => 4"),
       inputs, cg_attrs, krylov)
SOLVER(
    pcg,
    "The solution of A x = b for a symmetric positive definite A by conjugate gradients with a preconditioner: none, "
    "jacobi, ilu0 or ic0.",
    ROWS(TRIDIAGONAL ", double[4] {rtol = 1e-12}",
         TRIDIAGONAL ", double[4,2] {rtol = 1e-12, preconditioner = \"ic0\"} => 4",
         TRIDIAGONAL ", double[4] {rtol = 1e-12, preconditioner = \"ilu0\"} => 4"),
    inputs, pcg_attrs, krylov)
SOLVER(gmres,
       "The solution of A x = b, or with `transpose` of transposed A x = b, by GMRES, restarted after `restart` "
       "iterations, with a preconditioner from the right: none, jacobi or ilu0.",
       ROWS(UNSYMMETRIC ", float[3] {rtol = 1e-6}",
            UNSYMMETRIC ", float[3,2] {rtol = 1e-6, transpose = 1, preconditioner = \"ilu0\", restart = 2} => 4"),
       inputs, gmres_attrs, krylov)
SOLVER(
    bicgstab,
    "The solution of A x = b, or with `transpose` of transposed A x = b, by BiCGSTAB, with a preconditioner from the "
    "right: none, jacobi or ilu0.",
    ROWS(UNSYMMETRIC ", float[3] {rtol = 1e-6}",
         UNSYMMETRIC ", float[3,2] {rtol = 1e-6, transpose = 1, preconditioner = \"jacobi\"} => 4"),
    inputs, bicgstab_attrs, krylov)
SOLVER(lsqr,
       "The x of least |A x - b|^2 + damp^2 |x|^2 by LSQR, for A of any shape or, with `transpose`, for transposed A. "
       "A has "
       "as many columns as the input `columns` says: as rows, if it is left out. Ends also when the gradient is at "
       "most rtol "
       "times the Frobenius norm of A (and damp) times the residual.",
       ROWS(TALL ", double[4], , int64[1] = {2} {rtol = 1e-12}",
            TALL ", double[2], , int64[1] = {2} {rtol = 1e-12, transpose = 1, damp = 0.5} => 4"),
       lsqr_inputs, least_attrs, lsqr)
SOLVER(
    normal,
    "The solution of (A' A + damp^2) x = b, or with `transpose` of (A A' + damp^2) x = b, by conjugate gradients: what "
    "the derivatives of sparse.lsqr_solve need.",
    ROWS(TALL ", double[2] {rtol = 1e-12, damp = 0.5}",
         TALL ", double[4,2] {rtol = 1e-12, transpose = 1, damp = 2.0} => 4"),
    inputs, least_attrs, normal)

const sparse_part sparse_krylov = {
    .ops =
        (const rlx_op *const[]){&cg_solve, &pcg_solve, &gmres_solve, &bicgstab_solve, &lsqr_solve, &normal_solve, NULL},
    .kernels = (const rlx_cpu_kernel *const[]){&cg_kernel, &pcg_kernel, &gmres_kernel, &bicgstab_kernel, &lsqr_kernel,
                                               &normal_kernel, NULL}};
