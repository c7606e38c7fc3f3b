/* test_rows.c — the row kernels against the reference, over many lengths, axes, thread counts and in place. */
#include <rlx/extend.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/kernel.h"

static void check(const char *op, const rlx_type *types, int count, const rlx_attr *attrs, int attr_count) {
  for (int in_place = 0; in_place < 2; in_place++) {
    rlx_graph *g = NULL;
    const char *why = NULL;
    rlx_node *n = kernel_node(op, types, count, attrs, attr_count, &g);
    kernel_check c = {.kernel = "rows", .seed = 7, .threads = 2, .in_place = in_place};
    double difference = kernel_difference(n, &c, &why);
    if (difference < 0) fail_msg("%s refused: %s", op, why);
    if (difference > 2e-6) fail_msg("%s: off by %g of the largest value", op, difference);
    rlx_graph_destroy(g);
  }
}

static const int64_t lengths[] = {1, 2, 7, 31, 32, 33, 64, 100, 128, 768, 5000};
enum { LENGTHS = sizeof lengths / sizeof *lengths };

static void softmax(void **state) {
  (void)state;
  for (int i = 0; i < LENGTHS; i++)
    for (int64_t rows = 1; rows < 40; rows += 19) {
      rlx_type x = kernel_type(3, (int64_t[]){2, rows, lengths[i]});
      check("onnx.Softmax", &x, 1, NULL, 0);
      rlx_attr axis = RLX_ATTR_I("axis", 2);
      check("onnx.Softmax", &x, 1, &axis, 1);
    }
}

static void softmax_down_columns(void **state) {
  (void)state;
  for (int i = 0; i < LENGTHS - 1; i++)
    for (int64_t inner = 1; inner < 200; inner += 63) {
      rlx_type x = kernel_type(3, (int64_t[]){3, lengths[i], inner});
      rlx_attr axis = RLX_ATTR_I("axis", 1);
      check("onnx.Softmax", &x, 1, &axis, 1);
    }
}

static void normalisations(void **state) {
  (void)state;
  for (int i = 0; i < LENGTHS; i++)
    for (int with_bias = 0; with_bias < 2; with_bias++) {
      rlx_type types[3] = {kernel_type(2, (int64_t[]){9, lengths[i]}), kernel_type(1, &lengths[i]),
                           kernel_type(1, &lengths[i])};
      check("onnx.LayerNormalization", types, 2 + with_bias, NULL, 0);
      if (!with_bias) check("onnx.RMSNormalization", types, 2, NULL, 0);
    }
  rlx_type two_axes[2] = {kernel_type(3, (int64_t[]){4, 3, 50}), kernel_type(2, (int64_t[]){3, 50})};
  rlx_attr axis = RLX_ATTR_I("axis", 1);
  check("onnx.LayerNormalization", two_axes, 2, &axis, 1);
}

/* NaN and infinities come out as they do from the reference: probabilities of a row with a NaN are NaN. */
static void not_numbers(void **state) {
  (void)state;
  int64_t dims[2] = {3, 40};
  rlx_tensor *x = NULL, *y = NULL;
  assert_int_equal(rlx_tensor_create(RLX_FLOAT, 2, dims, &x), RLX_OK);
  float *v = rlx_tensor_data(x);
  v[5] = __builtin_nanf("");
  v[40 + 7] = -__builtin_inff();
  for (int i = 80; i < 120; i++) v[i] = 1e30f;
  assert_int_equal(rlx_call(NULL, "onnx.Softmax", NULL, 0, &x, 1, &y, 1), RLX_OK);
  const float *p = rlx_tensor_data(y);
  assert_true(p[0] != p[0] && p[39] != p[39]);
  assert_true(p[40 + 7] == 0 && p[40] > 0.025f && p[40] < 0.026f);
  assert_true(p[80] == 0.025f);
  rlx_tensor_destroy(x);
  rlx_tensor_destroy(y);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(softmax), cmocka_unit_test(softmax_down_columns),
                                     cmocka_unit_test(normalisations), cmocka_unit_test(not_numbers)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
