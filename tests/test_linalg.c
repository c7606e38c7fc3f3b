/* test_linalg.c — the linalg package: derivatives against differences, what is refused, and factors that multiply back.
 * Values of NumPy and SciPy are in tests/packages/linalg. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "support/derivative.h"
#include "support/kernel.h"

static const derivative_row rows[] = {
    {"g (double[2,3,3] a) => (y) { y = linalg.cholesky (a) }", 4, 0},
    {"g (double[3,3] a) => (y) { y = linalg.cholesky <upper = 1> (a) }", 4, 0},
    {"g (double[3,3] a, double[3,2] b) => (y) { y = linalg.solve_triangular (a, b) }", 2, 0},
    {"g (double[2,3,3] a, double[2,3,1] b) => (y) { y = linalg.solve_triangular <upper = 1> (a, b) }", 2, 0},
    {"g (double[3,3] a, double[3] b) => (y) { y = linalg.solve_triangular <trans = 1> (a, b) }", 2, 0},
    {"g (double[3,3] a, double[3,2] b) => (y) { y = linalg.solve_triangular <upper = 1, trans = 1, unit_diagonal = 1> "
     "(a, "
     "b) }",
     2, 0},
    {"g (double[2,3,3] a, double[2,3,2] b) => (y) { y = linalg.lu_solve (a, b) }", 1, 0},
    {"g (double[3,3] a, double[3,2] b) => (y) { y = linalg.lu_solve <trans = 1> (a, b) }", 1, 0},
    {"g (double[2,3,3] a, double[2,3] b) => (y) { y = linalg.lu_solve (a, b) }", 1, 0},
    {"g (double[3,3] a, double[3] b) => (y) { y = linalg.lu_solve <trans = 1> (a, b) }", 1, 0},
    {"g (double[2,3,3] a) => (y) { y = linalg.inv (a) }", 1, 0},
    {"g (double[2,3,3] a) => (y) { y = linalg.det (a) }", 1, 0},
    {"g (double[2,3,3] a) => (y) { y = linalg.logdet (a) }", 4, 0},
    {"g (double[2,3,3] a) => (s, y) { s, y = linalg.slogdet (a) }", 1, 0},
    {"g (double[2,4,3] a) => (q, r) { q, r = linalg.qr (a) }", 0, 0},
    {"g (double[3,3] a) => (q, r) { q, r = linalg.qr <complete = 1> (a) }", 0, 0},
    {"g (double[2,5] a) => (q, r) { q, r = linalg.qr (a) }", 0, 0},
    {"g (double[2,4,3] a) => (u, s, v) { u, s, v = linalg.svd (a) }", 0, 0},
    {"g (double[3,5] a) => (u, s, v) { u, s, v = linalg.svd (a) }", 0, 0},
    {"g (double[3,3] a) => (u, s, v) { u, s, v = linalg.svd <full_matrices = 1> (a) }", 0, 0},
    {"g (double[2,3,3] a) => (w, v) { w, v = linalg.eigh (a) }", 0, 0},
    {"g (double[4,4] a) => (w, v) { w, v = linalg.eigh <upper = 1> (a) }", 0, 0},
    {"g (double[2,4,3] a) => (y) { y = linalg.pinv (a) }", 0, 0},
    {"g (double[2,4] a) => (y) { y = linalg.pinv (a) }", 0, 0},
    {"g (double[2,4,3] a, double[2,4,2] b) => (y) { y = linalg.lstsq (a, b) }", 0, 0},
    {"g (double[2,4] a, double[2] b) => (y) { y = linalg.lstsq (a, b) }", 0, 0},
    {"g (double[2,3,3] a) => (y) { y = linalg.expm (a) }", 0, 0},
};

static void test_derivatives(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) derivative_check(&rows[i], "linalg");
}

/* ---- eager calls ------------------------------------------------------------------------------------------------ */

static rlx_tensor *matrix(int rank, const int64_t *dims, const double *values) {
  rlx_tensor *t = NULL;
  assert_int_equal(rlx_tensor_create(RLX_DOUBLE, rank, dims, &t), RLX_OK);
  memcpy(rlx_tensor_data(t), values, rlx_tensor_bytes(t));
  return t;
}

/* The op fails on A (n × n, twice: the second one counts) and B with a line that contains `reason`. */
static void refuse(const char *op, int rank, const int64_t *dims, const double *a, const double *b,
                   const char *reason) {
  rlx_tensor *in[2] = {matrix(rank, dims, a), b ? matrix(rank, dims, b) : NULL}, *out[3] = {NULL};
  int outputs = strcmp(op, "linalg.svd") == 0 ? 3 : strcmp(op, "linalg.eigh") == 0 ? 2 : 1;
  rlx_status status = rlx_call(NULL, op, NULL, 0, in, b ? 2 : 1, out, outputs);
  if (status == RLX_OK) fail_msg("%s succeeds, where '%s' was expected", op, reason);
  if (!strstr(rlx_error_message(), reason)) fail_msg("%s: '%s', not '%s'", op, rlx_error_message(), reason);
  rlx_tensor_destroy(in[0]);
  rlx_tensor_destroy(in[1]);
}

static void test_refused(void **state) {
  (void)state;
  static const int64_t batch[] = {2, 2, 2}, flat[] = {2, 3}, vector[] = {3};
  static const double singular[] = {1, 0, 0, 1, 1, 2, 2, 4}, indefinite[] = {2, 0, 0, 2, 1, 2, 2, 1};
  static const double triangular[] = {1, 0, 0, 1, 3, 0, 5, 0}, nan_at_5[] = {1, 0, 0, 1, 1, NAN, 2, 4};
  static const double six[] = {1, 2, 3, 4, 5, 6};
  refuse("linalg.inv", 3, batch, singular, NULL, "matrix 1 is singular: pivot 1 is zero");
  refuse("linalg.lu_solve", 3, batch, singular, singular, "matrix 1 is singular");
  refuse("linalg.solve_triangular", 3, batch, triangular, singular, "matrix 1 is singular: pivot 1 is zero");
  refuse("linalg.cholesky", 3, batch, indefinite, NULL,
         "matrix 1 is not positive definite: its leading minor of order 2 is not");
  static const char *const square[] = {"linalg.cholesky", "linalg.inv",  "linalg.det", "linalg.logdet",
                                       "linalg.slogdet",  "linalg.eigh", "linalg.expm"};
  for (size_t i = 0; i < sizeof square / sizeof *square; i++)
    refuse(square[i], 2, flat, six, NULL, "a matrix of 2 x 3 is not square");
  static const char *const all[] = {"linalg.cholesky", "linalg.inv",  "linalg.det",  "linalg.qr",
                                    "linalg.svd",      "linalg.pinv", "linalg.eigh", "linalg.expm"};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    refuse(all[i], 3, batch, nan_at_5, NULL, "matrix 1 has an element (number 1) that is not finite");
    refuse(all[i], 1, vector, six, NULL, "a matrix of rank 1");
  }
  refuse("linalg.lstsq", 3, batch, singular, nan_at_5, "the right side of matrix 1");
}

/* The first n columns of full U and all of Vh give A back, and both are orthogonal, as is Q of a complete qr. */
static double at(const rlx_tensor *t, int64_t i) { return ((const double *)rlx_tensor_data(t))[i]; }

static void check_orthogonal(const rlx_tensor *t) {
  int64_t n = rlx_tensor_dims(t)[0];
  assert_int_equal(rlx_tensor_dims(t)[1], n);
  for (int64_t i = 0; i < n * n; i++) {
    double sum = 0;
    for (int64_t k = 0; k < n; k++) sum += at(t, k * n + i / n) * at(t, k * n + i % n);
    assert_true(fabs(sum - (i % (n + 1) == 0)) < 1e-13);
  }
}

static void check_full(int64_t m, int64_t n, bool deficient) {
  double a[64];
  random_state r = {9};
  for (int64_t i = 0; i < m * n; i++)
    a[i] = deficient ? (double)(i / n + 1) * (double)(i % n) : (double)random_float(&r);
  rlx_tensor *x = matrix(2, (const int64_t[]){m, n}, a), *svd[3] = {NULL}, *qr[2] = {NULL};
  const rlx_attr full = RLX_ATTR_I("full_matrices", 1), complete = RLX_ATTR_I("complete", 1);
  assert_int_equal(rlx_call(NULL, "linalg.svd", &full, 1, &x, 1, svd, 3), RLX_OK);
  assert_int_equal(rlx_call(NULL, "linalg.qr", &complete, 1, &x, 1, qr, 2), RLX_OK);
  check_orthogonal(svd[0]);
  check_orthogonal(svd[2]);
  check_orthogonal(qr[0]);
  for (int64_t i = 0; i < m * n; i++) {
    double by_svd = 0, by_qr = 0;
    for (int64_t k = 0; k < m && k < n; k++)
      by_svd += at(svd[0], i / n * m + k) * at(svd[1], k) * at(svd[2], k * n + i % n);
    for (int64_t k = 0; k < m; k++) by_qr += at(qr[0], i / n * m + k) * at(qr[1], k * n + i % n);
    assert_true(fabs(by_svd - a[i]) < 1e-12 && fabs(by_qr - a[i]) < 1e-12);
  }
  rlx_tensor_destroy(x);
  for (int i = 0; i < 3; i++) rlx_tensor_destroy(svd[i]);
  for (int i = 0; i < 2; i++) rlx_tensor_destroy(qr[i]);
}

static void test_full(void **state) {
  (void)state;
  for (int deficient = 0; deficient < 2; deficient++) {
    check_full(6, 3, deficient != 0);
    check_full(3, 6, deficient != 0);
    check_full(4, 4, deficient != 0);
    check_full(1, 5, deficient != 0);
  }
}

static int open_package(void **state) {
  (void)state;
  return rlx_load_package(NULL, "linalg");
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_derivatives), cmocka_unit_test(test_refused),
                                     cmocka_unit_test(test_full)};
  return cmocka_run_group_tests(tests, open_package, NULL);
}
