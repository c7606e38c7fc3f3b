/* test_signal.c — DFT and STFT: the kernel against the reference for lengths of every kind, and derivatives against
 * differences. Values of NumPy are in tests/packages/fft. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "ir/parse.h"
#include "support/derivative.h"
#include "support/kernel.h"

static const derivative_row rows[] = {
    {"g (double[2,6,1] x) => (y) { y = DFT (x) }", 0, 0},
    {"g (double[2,5,3,2] x) => (y) <int64 a = {1}> { y = DFT (x, , a) }", 0, 0},
    {"g (double[2,5,2] x) => (y) { y = DFT <inverse = 1> (x) }", 0, 0},
    {"g (double[2,5,1] x) => (y) { y = DFT <inverse = 1> (x) }", 0, 0},
    {"g (double[2,6,1] x) => (y) { y = DFT <onesided = 1> (x) }", 0, 0},
    {"g (double[2,7,1] x) => (y) { y = DFT <onesided = 1> (x) }", 0, 0},
    {"g (double[2,6,2] x) => (y) <int64 n = {9}> { y = DFT (x, n) }", 0, 0},
    {"g (double[6,2,2] x) => (y) <int64 n = {4}, int64 a = {-3}> { y = DFT <inverse = 1> (x, n, a) }", 0, 0},
    {"g (double[2,6,1] x) => (y) <int64 n = {4}> { y = DFT <onesided = 1> (x, n) }", 0, 0},
    {"g (double[2,4,2] x) => (y) { y = DFT <onesided = 1, inverse = 1> (x) }", 0, 0},
    {"g (double[2,4,2] x) => (y) <int64 n = {7}> { y = DFT <onesided = 1, inverse = 1> (x, n) }", 0, 0},
    {"g (double[2,3,2] x) => (y) <int64 n = {10}> { y = DFT <onesided = 1, inverse = 1> (x, n) }", 0, 0},
    {"g (double[2,9,2] x) => (y) <int64 n = {8}> { y = DFT <onesided = 1, inverse = 1> (x, n) }", 0, 0},
    {"g (double[2,12] x, double[4] w) => (y) <int64 s = {3}> { y = STFT (x, s, w) }", 0, 0},
    {"g (double[2,13,1] x, double[5] w) => (y) <int64 s = {2}, int64 n = {5}> { y = STFT (x, s, w, n) }", 0, 0},
    {"g (double[1,9,2] x, double[4] w) => (y) <int64 s = {4}> { y = STFT <onesided = 0> (x, s, w) }", 0, 0},
    {"g (double[1,9,1] x) => (y) <int64 s = {2}, int64 n = {4}> { y = STFT (x, s, , n) }", 0, 0},
};

static void test_derivatives(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) derivative_check(&rows[i], NULL);
}

static void must(rlx_status status, const char *what) {
  if (status != RLX_OK) fail_msg("%s: %s", what, rlx_error_message());
}

/* The output of a model by eval or by what is chosen, on three threads. */
static rlx_tensor *outcome(const char *source, bool by_eval) {
  rlx_graph *g = NULL;
  rlx_session *s = NULL;
  rlx_binding *b = NULL;
  rlx_port_info info;
  rlx_tensor *x = NULL, *y = NULL;
  random_state r = {7};
  rlx_pin pin = {.tier = by_eval ? RLX_TIER_EVAL : RLX_TIER_CPU, .kernel = by_eval ? NULL : "fft"};
  rlx_session_options options = RLX_SESSION_OPTIONS_INIT;
  options.threads = 3, options.pins = &pin, options.pin_count = 1;
  must(graph_parse(source, strlen(source), "test", NULL, NULL, &g), source);
  must(rlx_session_create(g, &options, &s), source);
  must(rlx_session_input(s, 0, &info), source);
  must(rlx_tensor_create(RLX_DOUBLE, info.type.rank, info.type.dims, &x), source);
  for (int64_t i = 0; i < rlx_tensor_count(x); i++) ((double *)rlx_tensor_data(x))[i] = (double)random_float(&r);
  must(rlx_binding_create(s, &b), source);
  must(rlx_binding_input(b, info.name, x, 0), source);
  must(rlx_run(b, NULL), source);
  must(rlx_session_output(s, 0, &info), source);
  must(rlx_binding_get(b, info.name, &y), source);
  rlx_binding_destroy(b);
  rlx_session_destroy(s);
  rlx_graph_destroy(g);
  rlx_tensor_destroy(x);
  return y;
}

static void check_kernel(const char *source) {
  rlx_tensor *want = outcome(source, true), *got = outcome(source, false);
  assert_int_equal(rlx_tensor_count(got), rlx_tensor_count(want));
  double error = 0, size = 0;
  for (int64_t i = 0; i < rlx_tensor_count(want); i++) {
    double w = ((double *)rlx_tensor_data(want))[i], d = w - ((double *)rlx_tensor_data(got))[i];
    error += d * d;
    size += w * w;
  }
  if (!(sqrt(error) <= 1e-14 * sqrt(size))) fail_msg("%s\n  relative error %g", source, sqrt(error / size));
  rlx_tensor_destroy(want);
  rlx_tensor_destroy(got);
}

/* One and two sided, both ways, at the last axis and inside: radices with code of their own, primes, Bluestein's. */
static void test_lengths(void **state) {
  (void)state;
  static const int lengths[] = {1,  2,  3,  4,  5,  6,  7,  8,   9,   11,  12,  13,  15,
                                16, 17, 30, 34, 49, 64, 97, 101, 120, 143, 256, 289, 1000};
  static const struct {
    int parts, inverse, onesided;
  } forms[] = {{1, 0, 0}, {2, 0, 0}, {1, 0, 1}, {1, 1, 0}, {2, 1, 0}, {2, 1, 1}, {1, 1, 1}};
  for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
    for (size_t k = 0; k < sizeof forms / sizeof *forms; k++) {
      for (int inside = 1; inside <= 11; inside += 10) {
        char source[512];
        snprintf(source, sizeof source,
                 "<ir_version: 10, opset_import: [\"\" : 20]> g (double[3,%d,%d,%d] x) => (y) <int64 n = {%d}, int64 a "
                 "= {1}> { y = DFT <inverse = %d, onesided = %d> (x, n, a) }",
                 forms[k].inverse && forms[k].onesided ? lengths[i] / 2 + 1 : lengths[i], inside, forms[k].parts,
                 lengths[i], forms[k].inverse, forms[k].onesided);
        check_kernel(source);
      }
    }
  }
}

#define HEAD "<ir_version: 10, opset_import: [\"\" : 17]> "
static void test_forms(void **state) {
  (void)state;
  static const char *const sources[] = {
      HEAD "g (double[2,300] x) => (y) <int64 s = {16}, int64 n = {64}> { y = STFT (x, s, , n) }",
      HEAD "g (double[2,301,1] x) => (y) <int64 s = {7}, int64 n = {51}> { y = STFT (x, s, , n) }",
      HEAD "g (double[2,301,2] x) => (y) <int64 s = {7}, int64 n = {50}> { y = STFT <onesided = 0> (x, s, , n) }",
      HEAD "g (double[2,10,3,1] x) => (y) <int64 n = {16}> { y = DFT <axis = 1> (x, n) }",
      HEAD "g (double[2,10,3,2] x) => (y) <int64 n = {6}> { y = DFT <axis = -3> (x, n) }",
      HEAD "g (double[2,10,3,1] x) => (y) <int64 n = {6}> { y = DFT <axis = 1, onesided = 1> (x, n) }",
      HEAD "g (double[2,3,3,2] x) => (y) <int64 n = {12}> { y = DFT <axis = 1, inverse = 1, onesided = 1> (x, n) }",
      HEAD "g (double[2,3,3,2] x) => (y) <int64 n = {13}> { y = DFT <axis = 1, inverse = 1, onesided = 1> (x, n) }",
  };
  for (size_t i = 0; i < sizeof sources / sizeof *sources; i++) check_kernel(sources[i]);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_derivatives), cmocka_unit_test(test_lengths),
                                     cmocka_unit_test(test_forms)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
