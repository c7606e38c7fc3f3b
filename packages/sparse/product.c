/* product.c — sparse.mat_vec, mat_mat and values_grad: products with dense vectors and blocks, and their derivatives.
 */
#include <string.h>

#include "sparse.h"

/* ---- mat_vec and mat_mat ----------------------------------------------------------------------------------------- */

typedef struct product_params {
  uint64_t given;
  int64_t transpose;
} product_params;

static const rlx_attr_def product_attrs[] = {{.name = "transpose",
                                              .kind = RLX_ATTR_INT,
                                              .flags = RLX_RANGED,
                                              .offset = offsetof(product_params, transpose),
                                              .max = 1},
                                             {0}};

static rlx_status infer_product(rlx_infer *ctx, int rank) {
  const product_params *p = rlx_infer_params(ctx);
  const rlx_type *x = rlx_infer_input(ctx, 3);
  csr_known a;
  int64_t cols;
  if (x->rank != RLX_UNKNOWN && x->rank != rank)
    return rlx_fail(ctx, RLX_INVALID, "the dense factor has rank %d, not %d", x->rank, rank);
  int64_t size = x->rank == rank ? x->dims[0] : RLX_UNKNOWN;
  rlx_status status = infer_csr(ctx, 0, &a);
  /* Not transposed, x has as many rows as A has columns; the input `columns` may say so again. */
  if (status == RLX_OK) status = infer_columns(ctx, 4, p->transpose ? a.rows : size, &cols);
  if (status == RLX_OK) status = infer_vector(ctx, 3, p->transpose ? a.rows : cols, "the dense factor");
  if (status != RLX_OK) return status;
  int64_t dims[2] = {p->transpose ? cols : a.rows, x->rank == 2 ? x->dims[1] : RLX_UNKNOWN};
  rlx_infer_set(ctx, 0, rank, dims);
  return RLX_OK;
}

static rlx_status infer_mat_vec(rlx_infer *ctx) { return infer_product(ctx, 1); }
static rlx_status infer_mat_mat(rlx_infer *ctx) { return infer_product(ctx, 2); }

/* With threads, rows are shared out; each row is the same sum. A transposed product has one order, hence one thread. */
static rlx_status multiply(rlx_ctx *ctx, bool threads) {
  const product_params *p = ctx->params;
  const rlx_operand *x = &ctx->inputs[3], *y = &ctx->outputs[0];
  csr a = csr_of(ctx, 0, p->transpose ? y->dims[0] : x->dims[0]);
  const csr_calls *calls = csr_calls_of(a.type, a.index);
  rlx_status status = calls->check(ctx, &a);
  if (status != RLX_OK) return status;
  csr_product task = {&a, x->data, y->data, x->rank == 2 ? x->dims[1] : 1};
  void (*rows)(void *, int64_t, int64_t) = task.width == 1 ? calls->multiply_vector : calls->multiply;
  if (p->transpose)
    calls->multiply_transposed(&task);
  else if (threads)
    rlx_parallel_for(ctx, a.rows, 2048, rows, &task);
  else
    rows(&task, 0, a.rows);
  return RLX_OK;
}

static rlx_status eval_product(rlx_ctx *ctx) { return multiply(ctx, false); }
static rlx_status run_product(rlx_ctx *ctx) { return multiply(ctx, true); }

static int rank_of(const rlx_node *n, int i) { return rlx_node_input_type(n, i)->rank; }

/* y = A x: dx = A' g, dvalues = g[row] x[col]. y = A' x: dx = A g, dvalues = x[row] g[col]. */
static rlx_status vjp_product(rlx_graph *g, const rlx_node *n, rlx_value *const *dy, rlx_value **dx) {
  const product_params *p = rlx_node_params(n);
  rlx_value *a[3] = {rlx_node_input(n, 0), rlx_node_input(n, 1), rlx_node_input(n, 2)}, *x = rlx_node_input(n, 3);
  if (!dy[0]) return RLX_OK;
  dx[0] = p->transpose ? build_outer(g, a, x, dy[0], "plain") : build_outer(g, a, dy[0], x, "plain");
  dx[3] = build_product(g, a, dy[0], !p->transpose, p->transpose ? NULL : build_rows(g, x), rank_of(n, 3));
  return rlx_graph_status(g);
}

static rlx_status jvp_product(rlx_graph *g, const rlx_node *n, rlx_value *const *dx, rlx_value **dy) {
  const product_params *p = rlx_node_params(n);
  rlx_value *a[3] = {rlx_node_input(n, 0), rlx_node_input(n, 1), rlx_node_input(n, 2)}, *x = rlx_node_input(n, 3);
  rlx_value *da[3] = {dx[0], a[1], a[2]}, *columns = rlx_node_input(n, 4);
  dy[0] = build_add(g, build_product(g, a, dx[3], p->transpose, columns, rank_of(n, 3)),
                    dx[0] ? build_product(g, da, x, p->transpose, columns, rank_of(n, 3)) : NULL);
  return rlx_graph_status(g);
}

/* ---- values_grad ------------------------------------------------------------------------------------------------- */

typedef struct outer_params {
  uint64_t given;
  rlx_string form;
} outer_params;

static const rlx_attr_def outer_attrs[] = {
    {.name = "form", .kind = RLX_ATTR_STRING, .offset = offsetof(outer_params, form), .default_string = "plain"}, {0}};

static int outer_form(const outer_params *p) {
  static const char *const names[] = {"plain", "symmetric", "triangle"};
  for (int i = 0; i < 3; i++)
    if (strcmp(p->form.data, names[i]) == 0) return i;
  return -1;
}

static rlx_status infer_outer(rlx_infer *ctx) {
  const outer_params *p = rlx_infer_params(ctx);
  const rlx_type *u = rlx_infer_input(ctx, 2), *v = rlx_infer_input(ctx, 3);
  csr_known a;
  int form = outer_form(p);
  if (form < 0) return rlx_fail(ctx, RLX_INVALID, "form is '%s'; it takes plain, symmetric or triangle", p->form.data);
  rlx_status status = infer_pattern(ctx, 0, 1, &a);
  if (status == RLX_OK) status = infer_vector(ctx, 2, a.rows, "u");
  if (status == RLX_OK) status = infer_vector(ctx, 3, form == OUTER_PLAIN ? RLX_UNKNOWN : a.rows, "v");
  if (status != RLX_OK) return status;
  if (u->rank != RLX_UNKNOWN && v->rank != RLX_UNKNOWN) {
    bool agree = u->rank == v->rank &&
                 (u->rank == 1 || u->dims[1] == v->dims[1] || u->dims[1] == RLX_UNKNOWN || v->dims[1] == RLX_UNKNOWN);
    if (!agree) return rlx_fail(ctx, RLX_INVALID, "u and v have not as many columns");
  }
  rlx_infer_set(ctx, 0, 1, &a.entries);
  return RLX_OK;
}

static rlx_status sample(rlx_ctx *ctx, bool threads) {
  const rlx_operand *col = &ctx->inputs[0], *ptr = &ctx->inputs[1], *u = &ctx->inputs[2], *v = &ctx->inputs[3];
  csr a = {.rows = ptr->count - 1,
           .cols = v->dims[0],
           .entries = col->count,
           .col = col->data,
           .ptr = ptr->data,
           .type = u->dtype,
           .index = col->dtype};
  const csr_calls *calls = csr_calls_of(a.type, a.index);
  rlx_status status = calls->check(ctx, &a);
  if (status != RLX_OK) return status;
  outer task = {&a, u->data, v->data, ctx->outputs[0].data, u->rank == 2 ? u->dims[1] : 1, outer_form(ctx->params)};
  if (threads)
    rlx_parallel_for(ctx, a.rows, 2048, calls->outer, &task);
  else
    calls->outer(&task, 0, a.rows);
  return RLX_OK;
}

static rlx_status eval_outer(rlx_ctx *ctx) { return sample(ctx, false); }
static rlx_status run_outer(rlx_ctx *ctx) { return sample(ctx, true); }

/* With G the matrix of the gradient's values: du = G v, dv = G' u. */
static rlx_status vjp_outer(rlx_graph *g, const rlx_node *n, rlx_value *const *dy, rlx_value **dx) {
  rlx_value *a[3] = {dy[0], rlx_node_input(n, 0), rlx_node_input(n, 1)};
  if (!dy[0]) return RLX_OK;
  if (outer_form(rlx_node_params(n)) != OUTER_PLAIN)
    return rlx_graph_fail(g, RLX_UNSUPPORTED, "sparse.values_grad: no derivative of a symmetric form");
  rlx_value *v = rlx_node_input(n, 3);
  dx[2] = build_product(g, a, v, false, NULL, rank_of(n, 2));
  dx[3] = build_product(g, a, rlx_node_input(n, 2), true, build_rows(g, v), rank_of(n, 2));
  return rlx_graph_status(g);
}

static rlx_status jvp_outer(rlx_graph *g, const rlx_node *n, rlx_value *const *dx, rlx_value **dy) {
  const outer_params *p = rlx_node_params(n);
  rlx_value *a[3] = {NULL, rlx_node_input(n, 0), rlx_node_input(n, 1)};
  rlx_value *first = dx[2] ? build_outer(g, a, dx[2], rlx_node_input(n, 3), p->form.data) : NULL;
  dy[0] = build_add(g, first, dx[3] ? build_outer(g, a, rlx_node_input(n, 2), dx[3], p->form.data) : NULL);
  return rlx_graph_status(g);
}

/* ---- records ----------------------------------------------------------------------------------------------------- */

#define PATTERN "int64[5] = {1, 0, 3, 2, 0}, int64[4] = {0, 2, 2, 5}"

static const rlx_port product_inputs[] = {SPARSE_MATRIX(""), SPARSE_T("x"), SPARSE_COLUMNS, {0}};
static const rlx_port product_outputs[] = {SPARSE_T("y"), {0}};
static const rlx_op mat_vec = {
    .struct_size = sizeof(rlx_op),
    .name = "sparse.mat_vec",
    .doc = "y = A x, or transposed A x, for A in CSR and a vector x. A has as many columns as x has elements, "
           "transposed as many as the input `columns` says: as rows, if it is left out.",
    .samples = (const char *const[]){"double[5], " PATTERN ", double[4]",
                                     "float[5], " PATTERN ", float[3], int64[1] = {4} {transpose = 1}",
                                     "float[0], int32[0], int32[1] = {0}, float[0]", NULL},
    .inputs = product_inputs,
    .outputs = product_outputs,
    .attrs = product_attrs,
    .params_size = sizeof(product_params),
    .traits = RLX_PURE,
    .infer = infer_mat_vec,
    .vjp = vjp_product,
    .jvp = jvp_product,
    .eval = eval_product,
};
static const rlx_op mat_mat = {
    .struct_size = sizeof(rlx_op),
    .name = "sparse.mat_mat",
    .doc = "Y = A X, or transposed A X, for A in CSR and a dense matrix X; as sparse.mat_vec.",
    .samples = (const char *const[]){"double[5], " PATTERN ", double[4,3]",
                                     "float[5], " PATTERN ", float[3,2], int64[1] = {4} {transpose = 1}",
                                     "float[5], " PATTERN ", float[4,0]", NULL},
    .inputs = product_inputs,
    .outputs = product_outputs,
    .attrs = product_attrs,
    .params_size = sizeof(product_params),
    .traits = RLX_PURE,
    .infer = infer_mat_mat,
    .vjp = vjp_product,
    .jvp = jvp_product,
    .eval = eval_product,
};
static const rlx_op values_grad = {
    .struct_size = sizeof(rlx_op),
    .name = "sparse.values_grad",
    .doc = "For each entry of a pattern u[row] v[col], summed over the columns of blocks: the gradient of a product's "
           "values. Of form `symmetric` the mean of that and v[row] u[col]; of form `triangle` their sum off the "
           "diagonal.",
    .samples = (const char *const[]){PATTERN ", double[3], double[4]", PATTERN ", float[3,2], float[4,2]",
                                     "int32[4] = {0, 1, 0, 1}, int32[3] = {0, 2, 4}, double[2], double[2] {form = "
                                     "\"symmetric\"}",
                                     NULL},
    .inputs = (const rlx_port[]){SPARSE_I("col_idx"), SPARSE_I("row_ptr"), SPARSE_T("u"), SPARSE_T("v"), {0}},
    .outputs = (const rlx_port[]){SPARSE_T("values"), {0}},
    .attrs = outer_attrs,
    .params_size = sizeof(outer_params),
    .traits = RLX_PURE,
    .infer = infer_outer,
    .vjp = vjp_outer,
    .jvp = jvp_outer,
    .eval = eval_outer,
};

static const rlx_cpu_kernel
    mat_vec_rows = {sizeof(rlx_cpu_kernel), {.op = "sparse.mat_vec", .name = "rows"}, run_product},
    mat_mat_rows = {sizeof(rlx_cpu_kernel), {.op = "sparse.mat_mat", .name = "rows"}, run_product},
    outer_rows = {sizeof(rlx_cpu_kernel), {.op = "sparse.values_grad", .name = "rows"}, run_outer};

const sparse_part sparse_product = {
    .ops = (const rlx_op *const[]){&mat_vec, &mat_mat, &values_grad, NULL},
    .kernels = (const rlx_cpu_kernel *const[]){&mat_vec_rows, &mat_mat_rows, &outer_rows, NULL}};
