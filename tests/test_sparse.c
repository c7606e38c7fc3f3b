/* test_sparse.c — the package sparse: derivatives against central differences, matrices that are wrong, factorisations
 * that are kept, threads. Values against SciPy are in tests/packages/sparse. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ir/infer.h"
#include "ir/parse.h"
#include "support/kernel.h"

#define HEAD "<ir_version: 10, opset_import: [\"\" : 21, \"sparse\" : 1]> "
#define STEP 1e-6

static void must(rlx_status status, const char *what) {
  if (status != RLX_OK) fail_msg("%s: %s", what, rlx_error_message());
}

static rlx_graph *parsed(const char *body) {
  char source[4096];
  rlx_graph *g = NULL;
  snprintf(source, sizeof source, HEAD "%s", body);
  must(graph_parse(source, strlen(source), "test", NULL, NULL, &g), body);
  return g;
}

static rlx_tensor *tensor(rlx_dtype dtype, int rank, const int64_t *dims, const void *data) {
  rlx_tensor *t = NULL;
  must(rlx_tensor_create(dtype, rank, dims, &t), "tensor");
  if (data) memcpy(rlx_tensor_data(t), data, rlx_tensor_bytes(t));
  return t;
}

/* A session with a binding. */
typedef struct running {
  rlx_session *s;
  rlx_binding *b;
} running;

static running started(rlx_graph *g, const rlx_session_options *options, const char *what) {
  running r = {NULL, NULL};
  must(rlx_session_create(g, options, &r.s), what);
  must(rlx_binding_create(r.s, &r.b), what);
  return r;
}

static void stopped(running *r) {
  rlx_binding_destroy(r->b);
  rlx_session_destroy(r->s);
}

/* Output 0 with inputs[i] as i-th input. */
static rlx_tensor *run(running *r, rlx_tensor *const *inputs, const char *what) {
  rlx_port_info info;
  rlx_tensor *y = NULL;
  for (int i = 0; i < rlx_session_input_count(r->s); i++) {
    must(rlx_session_input(r->s, i, &info), what);
    must(rlx_binding_input(r->b, info.name, inputs[i], 0), what);
  }
  must(rlx_run(r->b, NULL), what);
  must(rlx_session_output(r->s, 0, &info), what);
  must(rlx_binding_get(r->b, info.name, &y), what);
  return y;
}

static double *doubles(const rlx_tensor *t) { return rlx_tensor_data(t); }

/* ---- derivatives ------------------------------------------------------------------------------------------------- */

/* Unsorted columns, entries of one place, an empty row; `s` is square with its diagonal first in each row. */
#define SQUARE "int64[12] c = {0, 3, 1, 0, 1, 2, 4, 3, 2, 4, 0, 1}, int64[6] p = {0, 2, 5, 7, 9, 12}"
#define SYMMETRIC "int64[10] c = {0, 1, 1, 2, 0, 2, 1, 3, 3, 2}, int64[5] p = {0, 2, 5, 8, 10}"
#define LOWER "int64[7] c = {0, 1, 0, 2, 1, 3, 2}, int64[5] p = {0, 1, 3, 5, 7}"
#define TALL "int64[8] c = {0, 2, 1, 0, 2, 2, 1, 0}, int64[6] p = {0, 2, 4, 4, 6, 8}"
#define RIGHT "int64[5] d = {1, 0, 3, 2, 1}, int64[4] q = {0, 2, 3, 5}"

typedef struct derivative {
  const char *body;
  bool symmetric;   /* values of A are made symmetric: entries of SYMMETRIC */
  bool no_jvp;      /* refused */
  bool no_dominant; /* values need no large diagonal */
} derivative;

static const derivative derivatives[] = {
    {"g (double[12] v, double[5] b) => (x) <" SQUARE "> { x = sparse.lu_solve (v, c, p, b) }", 0, 0, 0},
    {"g (double[12] v, double[5,2] b) => (x) <" SQUARE "> { x = sparse.lu_solve <transpose = 1> (v, c, p, b) }", 0, 0,
     0},
    {"g (double[10] v, double[4] b) => (x) <" SYMMETRIC "> { x = sparse.cholesky_solve (v, c, p, b) }", 1, 0, 0},
    {"g (double[10] v, double[4,2] b) => (x) <" SYMMETRIC "> { x = sparse.cholesky_solve (v, c, p, b) }", 1, 0, 0},
    {"g (double[7] v, double[4] b) => (x) <" LOWER "> { x = sparse.cholesky_solve <uplo = \"lower\"> (v, c, p, b) }", 0,
     1, 0},
    {"g (double[8] v, double[3] x) => (y) <" TALL "> { y = sparse.mat_vec (v, c, p, x) }", 0, 0, 1},
    {"g (double[8] v, double[5] x) => (y) <" TALL
     ", int64[1] n = {3}> { y = sparse.mat_vec <transpose = 1> (v, c, p, x, n) }",
     0, 0, 1},
    {"g (double[8] v, double[3,2] x) => (y) <" TALL "> { y = sparse.mat_mat (v, c, p, x) }", 0, 0, 1},
    {"g (double[8] v, double[5,2] x) => (y) <" TALL
     ", int64[1] n = {3}> { y = sparse.mat_mat <transpose = 1> (v, c, p, x, n) }",
     0, 0, 1},
    {"g (double[5] x, double[3] z) => (y) <" TALL "> { y = sparse.values_grad (c, p, x, z) }", 0, 0, 1},
    {"g (double[5,2] x, double[3,2] z) => (y) <" TALL "> { y = sparse.values_grad (c, p, x, z) }", 0, 0, 1},
    {"g (double[8] v) => (y, a, b) <" TALL ", int64[1] n = {3}> { y, a, b = sparse.transpose (v, c, p, n) }", 0, 0, 1},
    {"g (double[8] v) => (y) <" TALL ", int64[1] n = {3}> { y = sparse.transpose_values (v, c, p, n) }", 0, 0, 1},
    {"g (double[8] v) => (y) <" TALL ", int64[1] n = {3}> { y = sparse.transpose_values <inverse = 1> (v, c, p, n) }",
     0, 0, 1},
    {"g (double[8] v, double[5] z) => (y, a, b) <" TALL ", " RIGHT
     ", int64[1] n = {4}> { y, a, b = sparse.spgemm (v, c, p, z, d, q, n) }",
     0, 0, 1},
    {"g (double[10] v, double[4] b) => (x) <" SYMMETRIC "> { x = sparse.cg_solve <rtol = 1e-14> (v, c, p, b) }", 1, 0,
     0},
    {"g (double[10] v, double[4,2] b) => (x) <" SYMMETRIC
     "> { x = sparse.pcg_solve <rtol = 1e-14, preconditioner = \"ic0\"> (v, c, p, b) }",
     1, 0, 0},
    {"g (double[10] v, double[4] b) => (x) <" SYMMETRIC "> { x = sparse.pcg_solve <rtol = 1e-14> (v, c, p, b) }", 1, 0,
     0},
    {"g (double[12] v, double[5] b) => (x) <" SQUARE "> { x = sparse.gmres_solve <rtol = 1e-14> (v, c, p, b) }", 0, 0,
     0},
    {"g (double[12] v, double[5,2] b) => (x) <" SQUARE "> { x = sparse.gmres_solve <rtol = 1e-14, transpose = 1, "
     "restart = 3, preconditioner = \"jacobi\"> (v, c, p, b) }",
     0, 0, 0},
    {"g (double[12] v, double[5] b) => (x) <" SQUARE
     "> { x = sparse.bicgstab_solve <rtol = 1e-14, preconditioner = \"ilu0\"> (v, c, p, b) }",
     0, 0, 0},
    {"g (double[12] v, double[5] b) => (x) <" SQUARE
     "> { x = sparse.bicgstab_solve <rtol = 1e-14, transpose = 1> (v, c, p, b) }",
     0, 0, 0},
    {"g (double[8] v, double[5] b) => (x) <" TALL
     ", int64[1] n = {3}> { x = sparse.lsqr_solve <rtol = 1e-14> (v, c, p, b, , n) }",
     0, 0, 0},
    {"g (double[8] v, double[5,2] b) => (x) <" TALL
     ", int64[1] n = {3}> { x = sparse.lsqr_solve <rtol = 1e-14, damp = 0.7> (v, c, p, b, , n) }",
     0, 0, 0},
    {"g (double[8] v, double[3] b) => (x) <" TALL
     ", int64[1] n = {3}> { x = sparse.lsqr_solve <rtol = 1e-14, damp = 0.7, transpose = 1> (v, c, p, b, , n) }",
     0, 0, 0},
    {"g (double[8] v, double[3] b) => (x) <" TALL
     "> { x = sparse.normal_solve <rtol = 1e-14, damp = 0.5> (v, c, p, b) }",
     0, 0, 0},
};

/* A's values: small and different, and the first of each row large, which is on the diagonal in the square patterns. */
static void fill_inputs(const derivative *d, const rlx_graph *g, random_state *r, rlx_tensor **in) {
  static const int square[] = {0, 2, 5, 7, 9}, diagonal[] = {0, 2, 5, 8}, lower[] = {0, 1, 3, 5}, tall[] = {0, 2, 5};
  for (size_t i = 0; i < g->inputs.count; i++) {
    const rlx_type *type = &g->inputs.data[i]->type;
    in[i] = tensor(RLX_DOUBLE, type->rank, type->dims, NULL);
    for (int64_t k = 0; k < rlx_tensor_count(in[i]); k++) doubles(in[i])[k] = (double)random_float(r);
  }
  if (d->no_dominant) return;
  int64_t entries = rlx_tensor_count(in[0]);
  const int *at = entries == 12 ? square : entries == 10 ? diagonal : entries == 7 ? lower : tall;
  for (int k = 0; k < (entries == 12 ? 5 : entries == 8 ? 3 : 4); k++) doubles(in[0])[at[k]] += 4;
  if (d->symmetric) { /* SYMMETRIC's pairs across the diagonal */
    double *v = doubles(in[0]);
    v[0] = 4.2, v[2] = 4.4, v[5] = 4.1, v[8] = 4.3;
    v[4] = v[1], v[6] = v[3], v[9] = v[7];
  }
}

static double dot(const rlx_tensor *a, const rlx_tensor *b) {
  double sum = 0;
  assert_int_equal(rlx_tensor_count(a), rlx_tensor_count(b));
  for (int64_t i = 0; i < rlx_tensor_count(a); i++) sum += doubles(a)[i] * doubles(b)[i];
  return sum;
}

static rlx_tensor *random_like(const rlx_tensor *t, random_state *r) {
  rlx_tensor *made = tensor(RLX_DOUBLE, rlx_tensor_rank(t), rlx_tensor_dims(t), NULL);
  for (int64_t i = 0; i < rlx_tensor_count(t); i++) doubles(made)[i] = (double)random_float(r);
  return made;
}

static void only_output(rlx_graph *g, rlx_value *v) {
  for (size_t i = 0; i < g->outputs.count; i++) g->outputs.data[i].value->is_output = false;
  g->outputs.count = 0;
  rlx_graph_output(g, v, "derivative");
  must(rlx_graph_finish(g), "derivative graph");
}

/* The graph of the gradient of input `which`; the gradient of the output is its last input. */
static running reverse(const char *body, size_t which) {
  rlx_graph *g = parsed(body);
  must(infer_graph(g, true), body);
  rlx_node *n = g->nodes.data[g->nodes.count - 1];
  rlx_value *dy[8] = {NULL}, *dx[16] = {NULL}, *wanted = g->inputs.data[which];
  dy[0] = rlx_graph_input(g, "dy", &n->outputs[0]->type);
  must(n->op->op.vjp(g, n, dy, dx), body);
  rlx_value *found = NULL;
  for (int i = 0; i < rlx_node_input_count(n); i++)
    if (rlx_node_input(n, i) == wanted) found = dx[i];
  if (!found) fail_msg("%s: no gradient of input %zu", body, which);
  only_output(g, found);
  running r = started(g, NULL, body);
  rlx_graph_destroy(g);
  return r;
}

/* The graph of the tangent of output 0; the inputs' tangents follow the inputs. */
static running forward(const char *body) {
  rlx_graph *g = parsed(body);
  must(infer_graph(g, true), body);
  rlx_node *n = g->nodes.data[g->nodes.count - 1];
  rlx_value *dx[16] = {NULL}, *dy[8] = {NULL};
  size_t count = g->inputs.count;
  for (size_t k = 0; k < count; k++) {
    rlx_value *tangent = rlx_graph_input(g, NULL, &g->inputs.data[k]->type);
    for (int i = 0; i < rlx_node_input_count(n); i++)
      if (rlx_node_input(n, i) == g->inputs.data[k]) dx[i] = tangent;
  }
  must(n->op->op.jvp(g, n, dx, dy), body);
  if (!dy[0]) fail_msg("%s: no tangent", body);
  only_output(g, dy[0]);
  running r = started(g, NULL, body);
  rlx_graph_destroy(g);
  return r;
}

/* (loss with the inputs moved by +STEP along `along`) - (by -STEP), over 2 STEP; along NULL: element k of input i. */
static double slope(running *f, rlx_tensor **in, size_t count, rlx_tensor *const *along, size_t i, int64_t k,
                    const rlx_tensor *dy, const char *body) {
  double loss[2];
  for (int side = 0; side < 2; side++) {
    rlx_tensor *moved[8] = {NULL};
    for (size_t j = 0; j < count; j++) {
      moved[j] = tensor(RLX_DOUBLE, rlx_tensor_rank(in[j]), rlx_tensor_dims(in[j]), rlx_tensor_data(in[j]));
      for (int64_t e = 0; e < rlx_tensor_count(in[j]); e++)
        doubles(moved[j])[e] += (side ? STEP : -STEP) * (along ? doubles(along[j])[e] : j == i && e == k);
    }
    rlx_tensor *y = run(f, moved, body);
    loss[side] = dot(y, dy);
    rlx_tensor_destroy(y);
    for (size_t j = 0; j < count; j++) rlx_tensor_destroy(moved[j]);
  }
  return (loss[1] - loss[0]) / (2 * STEP);
}

static void close_to(double got, double expected, const char *what, size_t i, int64_t k) {
  if (!(fabs(got - expected) <= 2e-6 * (1 + fabs(expected))))
    fail_msg("%s\n  input %zu, element %d: %.10g, not %.10g", what, i, (int)k, got, expected);
}

static void check_derivative(const derivative *d) {
  random_state r = {7};
  rlx_graph *g = parsed(d->body);
  must(infer_graph(g, true), d->body);
  rlx_tensor *in[8] = {NULL}, *along[8] = {NULL};
  size_t count = g->inputs.count;
  fill_inputs(d, g, &r, in);
  running f = started(g, NULL, d->body);
  rlx_graph_destroy(g);
  rlx_tensor *y = run(&f, in, d->body), *dy = random_like(y, &r);
  in[count] = dy;
  for (size_t i = 0; i < count; i++) {
    running b = reverse(d->body, i);
    rlx_tensor *dx = run(&b, in, d->body);
    assert_int_equal(rlx_tensor_count(dx), rlx_tensor_count(in[i]));
    for (int64_t k = 0; k < rlx_tensor_count(dx); k++)
      close_to(doubles(dx)[k], slope(&f, in, count, NULL, i, k, dy, d->body), d->body, i, k);
    rlx_tensor_destroy(dx);
    stopped(&b);
  }
  if (!d->no_jvp) {
    for (size_t i = 0; i < count; i++) along[i] = in[count + i] = random_like(in[i], &r);
    running j = forward(d->body);
    rlx_tensor *tangent = run(&j, in, d->body);
    close_to(dot(tangent, dy), slope(&f, in, count, along, 0, 0, dy, d->body), d->body, 99, 0);
    rlx_tensor_destroy(tangent);
    for (size_t i = 0; i < count; i++) rlx_tensor_destroy(along[i]);
    stopped(&j);
  }
  for (size_t i = 0; i < count; i++) rlx_tensor_destroy(in[i]);
  rlx_tensor_destroy(y);
  rlx_tensor_destroy(dy);
  stopped(&f);
}

static void test_derivatives(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof derivatives / sizeof *derivatives; i++) check_derivative(&derivatives[i]);
}

/* ---- what is wrong ----------------------------------------------------------------------------------------------- */

typedef struct refusal {
  const char *op, *values, *col, *ptr, *error; /* error: part of the message */
  int n;                                       /* of b */
} refusal;

static int elements(const char *list) {
  int count = *list != 0;
  for (const char *p = list; *p; p++) count += *p == ',';
  return count;
}

#define PLAIN_OPS                                                                                                      \
  "lu_solve", "cholesky_solve", "mat_vec", "cg_solve", "pcg_solve", "gmres_solve", "bicgstab_solve", "lsqr_solve",     \
      "normal_solve"
static const char *const every_op[] = {PLAIN_OPS, NULL};

static const refusal malformed[] = {
    {NULL, "1, 2, 3", "0, 1, 2", "0, 1, 3", "col_idx[2] is 2, outside 2 columns", 2},
    {NULL, "1, 2, 3", "0, -1, 1", "0, 1, 3", "col_idx[1] is -1, outside 2 columns", 2},
    {NULL, "1, 2, 3", "0, 1, 1", "0, 4, 3", "row_ptr[2] is 3, less than 4 before it", 2},
    {NULL, "1, 2, 3", "0, 1, 1", "0, 1, 2", "row_ptr ends with 2, and there are 3 entries", 2},
    {NULL, "1, 2, 3", "0, 1, 1", "0, 1, 9", "row_ptr ends with 9, and there are 3 entries", 2},
    {NULL, "1, 2, 3", "0, 1, 1", "1, 2, 3", "row_ptr[0] is 1, not 0", 2},
    {NULL, "1, 2, 3", "0, 1, 1", "0, -5, 3", "row_ptr[1] is -5, less than 0 before it", 2},
};

static const refusal unsolvable[] = {
    {"lu_solve", "1, 2, 2, 4", "0, 1, 0, 1", "0, 2, 4", "singular", 2},
    {"lu_solve", "1, 2, 3, 4, 5, 6, 7, 8, 9", "0, 1, 2, 0, 1, 2, 0, 1, 2", "0, 3, 6, 9",
     "singular to working precision", 3},
    {"lu_solve", "1, 2", "0, 0", "0, 1, 2", "singular", 2},
    {"lu_solve", "1, 0", "0, 1", "0, 1, 2", "singular", 2},
    {"lu_solve", "", "", "0, 0, 0", "singular", 2},
    {"lu_solve", "1, nan", "0, 1", "0, 1, 2", "values[1] is not finite", 2},
    {"cholesky_solve", "1, 2, 2, 1", "0, 1, 0, 1", "0, 2, 4", "not positive definite: the pivot of row", 2},
    {"cholesky_solve", "1, -1", "0, 1", "0, 1, 2", "not positive definite: the pivot of row 1", 2},
    {"cholesky_solve", "4, 1, 4", "0, 1, 1", "0, 2, 3", "not symmetric: entries (0, 1) and (1, 0) differ by 1", 2},
    {"cholesky_solve <uplo = \"lower\">", "4, 1, 4", "0, 1, 1", "0, 2, 3", "row 0 has an entry at column 1", 2},
    {"cholesky_solve <uplo = \"upper\">", "4, 1, 4", "0, 0, 1", "0, 1, 3", "row 1 has an entry at column 0", 2},
    {"cholesky_solve", "inf, 1", "0, 1", "0, 1, 2", "values[0] is not finite", 2},
    {"cg_solve", "1, -1", "0, 1", "0, 1, 2", "the matrix is not positive definite", 2},
    {"cg_solve <max_iter = 1>", "4, 1, 1, 3", "0, 1, 0, 1", "0, 2, 4", "not converged after 1 iterations", 2},
    {"gmres_solve", "1, 1, 1, 1", "0, 1, 0, 1", "0, 2, 4", "not converged", 2},
    {"bicgstab_solve", "0, 0", "0, 1", "0, 1, 2", "not converged", 2},
    {"gmres_solve", "1, nan", "0, 1", "0, 1, 2", "not converged", 2},
    {"pcg_solve", "1, 1", "1, 0", "0, 1, 2", "preconditioner jacobi: row 0: its diagonal is zero", 2},
    {"pcg_solve <preconditioner = \"ic0\">", "1, 1", "1, 0", "0, 1, 2", "ic0: row 0: its diagonal is not stored", 2},
    {"pcg_solve <preconditioner = \"ic0\">", "1, 2, 2, 1", "0, 1, 0, 1", "0, 2, 4",
     "ic0: row 1: its pivot is not positive", 2},
    {"gmres_solve <preconditioner = \"ilu0\">", "1, 2, 2, 4", "0, 1, 0, 1", "0, 2, 4", "ilu0: row 1: its pivot is zero",
     2},
    {"normal_solve", "1, 0", "0, 1", "0, 1, 2", "not converged", 2},
};

static void refused(const refusal *row, const char *op, const char *index, rlx_tier tier) {
  char body[1024];
  snprintf(
      body, sizeof body,
      "g (double[%d] b) => (x) <double[%d] v = {%s}, %s[%d] c = {%s}, %s[%d] p = {%s}> { x = sparse.%s (v, c, p, b) }",
      row->n, elements(row->values), row->values, index, elements(row->col), row->col, index, elements(row->ptr),
      row->ptr, op);
  rlx_graph *g = parsed(body);
  rlx_pin pin = {.tier = tier};
  rlx_session_options options = RLX_SESSION_OPTIONS_INIT;
  options.pins = &pin;
  options.pin_count = 1;
  running r = started(g, &options, body);
  rlx_graph_destroy(g);
  rlx_tensor *b = tensor(RLX_DOUBLE, 1, &(int64_t){row->n}, NULL);
  for (int i = 0; i < row->n; i++) doubles(b)[i] = 1 + i;
  must(rlx_binding_input(r.b, "b", b, 0), body);
  for (int again = 0; again < 2; again++) { /* the session goes on */
    if (rlx_run(r.b, NULL) == RLX_OK) fail_msg("%s\n  is not refused", body);
    if (!strstr(rlx_error_message(), row->error))
      fail_msg("%s\n  says \"%s\", not \"%s\"", body, rlx_error_message(), row->error);
  }
  rlx_tensor_destroy(b);
  stopped(&r);
}

static void test_malformed(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof malformed / sizeof *malformed; i++) {
    for (int op = 0; every_op[op]; op++) {
      refused(&malformed[i], every_op[op], "int64", RLX_TIER_EVAL);
      refused(&malformed[i], every_op[op], "int32", RLX_TIER_CPU);
    }
  }
}

static void test_unsolvable(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof unsolvable / sizeof *unsolvable; i++) {
    refused(&unsolvable[i], unsolvable[i].op, "int64", RLX_TIER_CPU);
    refused(&unsolvable[i], unsolvable[i].op, "int32", RLX_TIER_EVAL);
  }
}

/* Shapes and attributes that contradict each other: no session is made. */
static const char *const contradictions[][2] = {
    {"g (double[3] v, int64[2] c, int64[3] p, double[2] b) => (x) { x = sparse.lu_solve (v, c, p, b) }",
     "3 values, and col_idx has 2"},
    {"g (double[2] v, int64[2] c, int64[3] p, double[5] b) => (x) { x = sparse.lu_solve (v, c, p, b) }",
     "b has 5 rows, not 2"},
    {"g (double[0] v, int64[0] c, int64[0] p, double[0] b) => (x) { x = sparse.cg_solve (v, c, p, b) }",
     "row_ptr is empty"},
    {"g (double[2] v, int64[2] c, int64[3] p, double[2,1,1] b) => (x) { x = sparse.lu_solve (v, c, p, b) }", "rank 3"},
    {"g (double[2] v, int64[2] c, int64[3] p, double[2] b) => (x) { x = sparse.cholesky_solve <uplo = \"middle\"> (v, "
     "c, p, b) }",
     "uplo is 'middle'"},
    {"g (double[2] v, int64[2] c, int64[3] p, double[2] b) => (x) { x = sparse.pcg_solve <preconditioner = \"amg\"> "
     "(v, c, p, b) }",
     "preconditioner is 'amg'"},
    {"g (double[2] v, int64[2] c, int64[3] p, double[2] b, double[3] z) => (x) { x = sparse.cg_solve (v, c, p, b, z) }",
     "x0 has 3 rows, not 2"},
    {"g (double[2] v, int64[2] c, int64[3] p) => (x, y, z) <int64[1] n = {-1}> { x, y, z = sparse.transpose (v, c, p, "
     "n) }",
     "columns is -1"},
    {"g (double[2] v, int64[2] c, int64[3] p, double[2] u, double[2,2] w) => (x) { x = sparse.values_grad (c, p, u, w) "
     "}",
     "u and v have not as many columns"},
    {"g (double[2] v, int64[2] c, int32[3] p, double[2] b) => (x) { x = sparse.lu_solve (v, c, p, b) }", "int32"},
    {"g (float16[2] v, int64[2] c, int64[3] p, float16[2] b) => (x) { x = sparse.lu_solve (v, c, p, b) }", "float16"},
};

static void test_contradictions(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof contradictions / sizeof *contradictions; i++) {
    char source[1024];
    rlx_graph *g = NULL;
    rlx_session *s = NULL;
    snprintf(source, sizeof source, HEAD "%s", contradictions[i][0]);
    rlx_status status = graph_parse(source, strlen(source), "test", NULL, NULL, &g);
    if (status == RLX_OK) status = rlx_session_create(g, NULL, &s);
    if (status == RLX_OK) fail_msg("%s\n  is not refused", contradictions[i][0]);
    if (!strstr(rlx_error_message(), contradictions[i][1]))
      fail_msg("%s\n  says \"%s\"", contradictions[i][0], rlx_error_message());
    rlx_session_destroy(s);
    rlx_graph_destroy(g);
  }
}

/* No rows, no right-hand sides, a zero right-hand side. */
static void test_empty(void **state) {
  (void)state;
  static const rlx_tier tiers[] = {RLX_TIER_EVAL, RLX_TIER_CPU};
  for (int i = 0; every_op[i]; i++) {
    for (int tier = 0; tier < 2; tier++) {
      for (int rows = 0; rows < 3; rows += 2) {
        bool block = rows > 0 && strcmp(every_op[i], "mat_vec") != 0;
        char body[512];
        snprintf(body, sizeof body,
                 "g (float[%d%s] b) => (x) <float[%d] v = {%s}, int32[%d] c = {%s}, int32[%d] p = {%s}> "
                 "{ x = sparse.%s (v, c, p, b) }",
                 rows, block ? ",0" : "", rows, rows ? "1, 2" : "", rows, rows ? "0, 1" : "", rows + 1,
                 rows ? "0, 1, 2" : "0", every_op[i]);
        rlx_graph *g = parsed(body);
        rlx_pin pin = {.tier = tiers[tier]};
        rlx_session_options options = RLX_SESSION_OPTIONS_INIT;
        options.pins = &pin;
        options.pin_count = 1;
        running r = started(g, &options, body);
        rlx_graph_destroy(g);
        rlx_tensor *b = tensor(RLX_FLOAT, block ? 2 : 1, (int64_t[]){rows, 0}, NULL), *x = run(&r, &b, body);
        assert_int_equal(rlx_tensor_count(x), block ? 0 : rows);
        for (int64_t k = 0; k < rlx_tensor_count(x); k++) assert_true(((float *)rlx_tensor_data(x))[k] == 0);
        rlx_tensor_destroy(b);
        rlx_tensor_destroy(x);
        stopped(&r);
      }
    }
  }
}

/* ---- samples ----------------------------------------------------------------------------------------------------- */

static rlx_tensor *filled(const rlx_type *type, random_state *r) {
  rlx_tensor *t = tensor(type->dtype, type->rank, type->dims, NULL);
  for (int64_t k = 0; k < rlx_tensor_count(t); k++) {
    float v = 2 + random_float(r);
    if (type->dtype == RLX_DOUBLE)
      doubles(t)[k] = (double)v;
    else if (type->dtype == RLX_FLOAT)
      ((float *)rlx_tensor_data(t))[k] = v;
  }
  return t;
}

/* One run of a sample row by a tier; every output. False: the op has no such tier. */
static bool run_sample(const rlx_op *op, const char *row, rlx_tier tier, rlx_tensor **out) {
  rlx_graph *g = NULL;
  running r = {NULL, NULL};
  must(sample_parse(row, op->name, NULL, &g), row);
  rlx_pin pin = {.op = op->name, .tier = tier};
  rlx_session_options options = RLX_SESSION_OPTIONS_INIT;
  options.pins = &pin;
  options.pin_count = 1;
  rlx_status status = rlx_session_create(g, &options, &r.s);
  rlx_graph_destroy(g);
  if (status != RLX_OK) return false;
  must(rlx_binding_create(r.s, &r.b), row);
  random_state random = {11};
  rlx_port_info info;
  for (int i = 0; i < rlx_session_input_count(r.s); i++) {
    must(rlx_session_input(r.s, i, &info), row);
    rlx_tensor *t = filled(&info.type, &random);
    must(rlx_binding_input(r.b, info.name, t, 0), row);
    rlx_tensor_destroy(t);
  }
  must(rlx_run(r.b, NULL), row);
  for (int i = 0; i < rlx_session_output_count(r.s); i++) {
    must(rlx_session_output(r.s, i, &info), row);
    must(rlx_binding_get(r.b, info.name, &out[i]), row);
  }
  stopped(&r);
  return true;
}

static void same_values(const rlx_tensor *a, const rlx_tensor *b, const char *what) {
  assert_int_equal(rlx_tensor_bytes(a), rlx_tensor_bytes(b));
  rlx_dtype type = rlx_tensor_dtype(a);
  if (type != RLX_DOUBLE && type != RLX_FLOAT) {
    assert_memory_equal(rlx_tensor_data(a), rlx_tensor_data(b), rlx_tensor_bytes(a));
    return;
  }
  for (int64_t k = 0; k < rlx_tensor_count(a); k++) {
    bool wide = type == RLX_DOUBLE;
    double x = wide ? doubles(a)[k] : (double)((float *)rlx_tensor_data(a))[k];
    double y = wide ? doubles(b)[k] : (double)((float *)rlx_tensor_data(b))[k];
    if (!(fabs(x - y) <= (wide ? 1e-12 : 1e-6) * (1 + fabs(x))))
      fail_msg("%s: element %d is %g and %g", what, (int)k, x, y);
  }
}

typedef struct op_list {
  const rlx_op *ops[32]; /* the records stay registered */
  int count;
} op_list;

static bool collect(void *user, const rlx_op_info *info) {
  op_list *list = user;
  if (strncmp(info->op->name, "sparse.", 7) == 0 && list->count < 32) list->ops[list->count++] = info->op;
  return true;
}

/* The package's own samples run, by each tier with the same result. */
static void test_samples(void **state) {
  (void)state;
  op_list list = {.count = 0};
  int rows = 0;
  rlx_registry_each_op(NULL, collect, &list);
  for (int o = 0; o < list.count; o++) {
    const rlx_op *op = list.ops[o];
    if (!op->samples && strcmp(op->name, "sparse.counters") != 0) fail_msg("%s has no samples", op->name);
    for (int i = 0; op->samples && op->samples[i]; i++, rows++) {
      rlx_tensor *a[4] = {NULL}, *b[4] = {NULL};
      if (!run_sample(op, op->samples[i], RLX_TIER_EVAL, a)) fail_msg("%s: %s", op->name, rlx_error_message());
      bool kernel = run_sample(op, op->samples[i], RLX_TIER_CPU, b);
      for (int k = 0; k < 4 && a[k]; k++) {
        if (kernel) same_values(a[k], b[k], op->samples[i]);
        rlx_tensor_destroy(a[k]);
        rlx_tensor_destroy(b[k]);
      }
    }
  }
  assert_true(rows > 20);
}

/* ---- one call ---------------------------------------------------------------------------------------------------- */

/* The system of the parity test: 4 on the diagonal, -1 beside it, right side 1 to 4. */
static const double tridiagonal[] = {4, -1, -1, 4, -1, -1, 4, -1, -1, 4};
static const int64_t tridiagonal_col[] = {0, 1, 0, 1, 2, 1, 2, 3, 2, 3}, tridiagonal_ptr[] = {0, 2, 5, 8, 10};

static double residual_of(const double *x) {
  double worst = 0;
  for (int i = 0; i < 4; i++) {
    double r = i + 1;
    for (int64_t k = tridiagonal_ptr[i]; k < tridiagonal_ptr[i + 1]; k++) r -= tridiagonal[k] * x[tridiagonal_col[k]];
    worst = fmax(worst, fabs(r));
  }
  return worst;
}

static void test_call(void **state) {
  (void)state;
  rlx_tensor *in[4] = {tensor(RLX_DOUBLE, 1, &(int64_t){10}, tridiagonal),
                       tensor(RLX_INT64, 1, &(int64_t){10}, tridiagonal_col),
                       tensor(RLX_INT64, 1, &(int64_t){5}, tridiagonal_ptr),
                       tensor(RLX_DOUBLE, 1, &(int64_t){4}, (double[]){1, 2, 3, 4})};
  rlx_attr attrs[] = {RLX_ATTR_F("rtol", 1e-13F)};
  for (int i = 0; every_op[i]; i++) {
    char op[64];
    bool product = strcmp(every_op[i], "mat_vec") == 0, direct = i < 2;
    snprintf(op, sizeof op, "sparse.%s", every_op[i]);
    if (product || strcmp(every_op[i], "normal_solve") == 0) continue;
    rlx_tensor *x = NULL;
    must(rlx_call(NULL, op, attrs, direct ? 0 : 1, in, 4, &x, 1), op);
    if (!(residual_of(doubles(x)) < 1e-12)) fail_msg("%s: residual %g", op, residual_of(doubles(x)));
    rlx_tensor_destroy(x);
  }
  for (int i = 0; i < 4; i++) rlx_tensor_destroy(in[i]);
}

/* ---- factorisations that are kept -------------------------------------------------------------------------------- */

typedef struct counts {
  int64_t symbolic, numeric;
} counts;

static counts counted(void) {
  rlx_tensor *out[2] = {NULL};
  must(rlx_call(NULL, "sparse.counters", NULL, 0, NULL, 0, out, 2), "counters");
  counts c = {*(int64_t *)rlx_tensor_data(out[0]), *(int64_t *)rlx_tensor_data(out[1])};
  rlx_tensor_destroy(out[0]);
  rlx_tensor_destroy(out[1]);
  return c;
}

static bool by_library(const char *op, const char *kernel) {
  rlx_type types[4] = {{.dtype = RLX_DOUBLE, .rank = 1, .dims = {RLX_UNKNOWN}},
                       {.dtype = RLX_INT64, .rank = 1, .dims = {RLX_UNKNOWN}},
                       {.dtype = RLX_INT64, .rank = 1, .dims = {RLX_UNKNOWN}},
                       {.dtype = RLX_DOUBLE, .rank = 1, .dims = {RLX_UNKNOWN}}};
  rlx_which_answer *answer = NULL;
  must(rlx_which(NULL, "cpu", op, NULL, 0, types, 4, &answer), op);
  bool is = strcmp(answer->kernel, kernel) == 0;
  rlx_free(answer);
  return is;
}

static void expect_counts(counts since, int64_t symbolic, int64_t numeric, const char *what) {
  counts now = counted();
  if (now.symbolic - since.symbolic != symbolic || now.numeric - since.numeric != numeric)
    fail_msg("%s: %d symbolic and %d numeric factorisations, not %d and %d", what, (int)(now.symbolic - since.symbolic),
             (int)(now.numeric - since.numeric), (int)symbolic, (int)numeric);
}

static void solve_with(running *r, rlx_tensor **in, double scale, const char *what) {
  for (int k = 0; k < 10; k++) doubles(in[0])[k] = scale * tridiagonal[k];
  rlx_tensor *x = run(r, in, what);
  for (int i = 0; i < 4; i++) doubles(x)[i] *= scale;
  if (!(residual_of(doubles(x)) < 1e-12)) fail_msg("%s: residual %g", what, residual_of(doubles(x)));
  rlx_tensor_destroy(x);
}

static void check_kept(const char *op) {
  char body[512];
  snprintf(body, sizeof body,
           "g (double[10] v, int64[10] c, int64[5] p, double[4] b) => (x) { x = sparse.%s (v, c, p, b) }", op);
  rlx_graph *g = parsed(body);
  running r = started(g, NULL, body);
  rlx_graph_destroy(g);
  rlx_tensor *in[4] = {tensor(RLX_DOUBLE, 1, &(int64_t){10}, tridiagonal),
                       tensor(RLX_INT64, 1, &(int64_t){10}, tridiagonal_col),
                       tensor(RLX_INT64, 1, &(int64_t){5}, tridiagonal_ptr),
                       tensor(RLX_DOUBLE, 1, &(int64_t){4}, (double[]){1, 2, 3, 4})};
  counts before = counted();
  for (int i = 0; i < 5; i++) solve_with(&r, in, 1, op);
  expect_counts(before, 1, 1, "the same matrix five times");
  for (int i = 0; i < 3; i++) solve_with(&r, in, 2 + i, op);
  expect_counts(before, 1, 4, "three times other values");
  solve_with(&r, in, 1, op);
  expect_counts(before, 1, 4, "the first values again");
  for (int i = 0; i < 4; i++) rlx_tensor_destroy(in[i]);
  stopped(&r);
}

static void test_kept(void **state) {
  (void)state;
  if (by_library("sparse.lu_solve", "klu")) check_kept("lu_solve");
  if (by_library("sparse.cholesky_solve", "cholmod")) check_kept("cholesky_solve");
}

/* The transposed solve of a gradient finds the factorisation of the solve. */
static void test_gradient_shares(void **state) {
  (void)state;
  if (!by_library("sparse.lu_solve", "klu")) skip();
  const derivative *d = &derivatives[0];
  random_state r = {5};
  rlx_graph *g = parsed(d->body);
  rlx_tensor *in[3] = {NULL};
  fill_inputs(d, g, &r, in);
  rlx_graph_destroy(g);
  in[2] = random_like(in[1], &r);
  counts before = counted();
  running b = reverse(d->body, 0);
  rlx_tensor *dx = run(&b, in, d->body);
  expect_counts(before, 1, 1, "a solve and its gradient");
  rlx_tensor_destroy(dx);
  for (int i = 0; i < 3; i++) rlx_tensor_destroy(in[i]);
  stopped(&b);
}

/* ---- threads ----------------------------------------------------------------------------------------------------- */

typedef struct worker {
  rlx_session *s;
  int number;
} worker;

static void *work(void *arg) {
  const worker *w = arg;
  rlx_binding *b = NULL;
  rlx_tensor *rhs = tensor(RLX_DOUBLE, 1, &(int64_t){4}, NULL), *v = tensor(RLX_DOUBLE, 1, &(int64_t){10}, NULL);
  if (rlx_binding_create(w->s, &b) != RLX_OK) return (void *)"no binding";
  const char *failure = NULL;
  for (int i = 0; i < 200 && !failure; i++) {
    double scale = 1 + (w->number + i) % 3;
    for (int k = 0; k < 10; k++) doubles(v)[k] = scale * tridiagonal[k];
    for (int k = 0; k < 4; k++) doubles(rhs)[k] = (k + 1) * scale;
    rlx_tensor *x = NULL;
    if (rlx_binding_input(b, "v", v, 0) != RLX_OK || rlx_binding_input(b, "b", rhs, 0) != RLX_OK ||
        rlx_run(b, NULL) != RLX_OK || rlx_binding_get(b, "x", &x) != RLX_OK)
      failure = "a run failed";
    else if (!(residual_of(doubles(x)) < 1e-12))
      failure = "a wrong answer";
    rlx_tensor_destroy(x);
  }
  rlx_binding_destroy(b);
  rlx_tensor_destroy(rhs);
  rlx_tensor_destroy(v);
  return (void *)(uintptr_t)failure;
}

static void check_threads(const char *op) {
  enum { THREADS = 4 };
  char body[512];
  snprintf(
      body, sizeof body,
      "g (double[10] v, double[4] b) => (x) <int64[10] c = {0, 1, 0, 1, 2, 1, 2, 3, 2, 3}, int64[5] p = {0, 2, 5, 8, "
      "10}> { x = sparse.%s (v, c, p, b) }",
      op);
  rlx_graph *g = parsed(body);
  running r = started(g, NULL, body);
  rlx_graph_destroy(g);
  pthread_t threads[THREADS];
  worker workers[THREADS];
  for (int i = 0; i < THREADS; i++) {
    workers[i] = (worker){r.s, i};
    assert_int_equal(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
  }
  for (int i = 0; i < THREADS; i++) {
    void *failure = NULL;
    pthread_join(threads[i], &failure);
    if (failure) fail_msg("%s: %s", op, (const char *)failure);
  }
  stopped(&r);
}

static void test_threads(void **state) {
  (void)state;
  check_threads("lu_solve");
  check_threads("cholesky_solve");
  check_threads("pcg_solve <preconditioner = \"ic0\", rtol = 1e-14>");
}

/* Poisson's equation on a square grid, large enough to be shared out: one thread and four give the same bits. */
static void test_same_bits(void **state) {
  (void)state;
  enum { SIDE = 120, N = SIDE * SIDE };
  int64_t most = 5 * N, entries = 0;
  rlx_tensor *values = tensor(RLX_DOUBLE, 1, &most, NULL), *col = tensor(RLX_INT32, 1, &most, NULL),
             *ptr = tensor(RLX_INT32, 1, &(int64_t){N + 1}, NULL), *b = tensor(RLX_DOUBLE, 1, &(int64_t){N}, NULL);
  int32_t *c = rlx_tensor_data(col), *p = rlx_tensor_data(ptr);
  for (int i = 0; i < N; i++) {
    int x = i % SIDE, y = i / SIDE, there[5] = {y > 0, x > 0, 1, x < SIDE - 1, y < SIDE - 1},
        step[5] = {-SIDE, -1, 0, 1, SIDE};
    for (int k = 0; k < 5; k++) {
      if (!there[k]) continue;
      doubles(values)[entries] = k == 2 ? 4 : -1;
      c[entries++] = i + step[k];
    }
    p[i + 1] = (int32_t)entries;
    doubles(b)[i] = sin(i);
  }
  rlx_tensor *v = tensor(RLX_DOUBLE, 1, &entries, rlx_tensor_data(values)), *j = tensor(RLX_INT32, 1, &entries, c);
  static const char *const ops[] = {"mat_vec", "pcg_solve <preconditioner = \"ic0\">", "bicgstab_solve",
                                    "lsqr_solve <rtol = 1e-3>"};
  for (size_t op = 0; op < sizeof ops / sizeof *ops; op++) {
    char body[256];
    snprintf(body, sizeof body,
             "g (double[N] v, int32[N] c, int32[M] p, double[R] b) => (x) { x = sparse.%s (v, c, p, b) }", ops[op]);
    rlx_tensor *x[2], *in[4] = {v, j, ptr, b};
    for (int k = 0; k < 2; k++) {
      rlx_session_options options = RLX_SESSION_OPTIONS_INIT;
      options.threads = k ? 4 : 1;
      rlx_graph *g = parsed(body);
      running r = started(g, &options, body);
      rlx_graph_destroy(g);
      x[k] = run(&r, in, body);
      stopped(&r);
    }
    if (memcmp(rlx_tensor_data(x[0]), rlx_tensor_data(x[1]), rlx_tensor_bytes(x[0])) != 0)
      fail_msg("%s: other bits with four threads", ops[op]);
    rlx_tensor_destroy(x[0]);
    rlx_tensor_destroy(x[1]);
  }
  rlx_tensor *all[] = {values, col, ptr, b, v, j};
  for (int i = 0; i < 6; i++) rlx_tensor_destroy(all[i]);
}

static int load_package(void **state) {
  (void)state;
  return rlx_load_package(NULL, "sparse") == RLX_OK ? 0 : -1;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_derivatives),    cmocka_unit_test(test_malformed), cmocka_unit_test(test_unsolvable),
      cmocka_unit_test(test_contradictions), cmocka_unit_test(test_empty),     cmocka_unit_test(test_call),
      cmocka_unit_test(test_samples),        cmocka_unit_test(test_kept),      cmocka_unit_test(test_gradient_shares),
      cmocka_unit_test(test_threads),        cmocka_unit_test(test_same_bits),
  };
  return cmocka_run_group_tests(tests, load_package, NULL);
}
