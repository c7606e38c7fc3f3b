/* test_llada2.c — the expert gate: its derivative against differences, ties, and what is refused. Values of PyTorch are
 * in tests/packages/llada2. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "support/derivative.h"

#define GATE(attrs) "g (float[3,8] s, float[3,8] r) => (i, w) { i, w = llada2.group_limited_gate <" attrs "> (s, r) }"

/* The routing scores have no gradient: the choice is piecewise constant. */
static const derivative_row rows[] = {
    {GATE("n_group = 4, topk_group = 2, top_k = 1, routed_scaling = 2.5"), 0, 2},
    {GATE("n_group = 2, topk_group = 1, top_k = 4"), 0, 2},
};

static void test_derivatives(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) derivative_check(&rows[i], "llada2");
}

static const rlx_attr attrs[] = {RLX_ATTR_I("n_group", 2), RLX_ATTR_I("topk_group", 1), RLX_ATTR_I("top_k", 2),
                                 RLX_ATTR_F("routed_scaling", 1)};

static rlx_tensor *scores(int64_t experts, const float *values) {
  rlx_tensor *t = NULL;
  assert_int_equal(rlx_tensor_create(RLX_FLOAT, 2, (const int64_t[]){1, experts}, &t), RLX_OK);
  if (values) memcpy(rlx_tensor_data(t), values, rlx_tensor_bytes(t));
  return t;
}

/* Equal groups and equal experts: the lower index. */
static void test_ties(void **state) {
  (void)state;
  rlx_tensor *x = scores(4, (const float[]){0.5F, 0.5F, 0.5F, 0.5F}), *in[] = {x, x}, *out[2] = {NULL};
  assert_int_equal(rlx_call(NULL, "llada2.group_limited_gate", attrs, 4, in, 2, out, 2), RLX_OK);
  const int64_t *index = rlx_tensor_data(out[0]);
  assert_true(index[0] == 0 && index[1] == 1);
  for (int i = 0; i < 2; i++) rlx_tensor_destroy(out[i]);
  rlx_tensor_destroy(x);
}

static void refuse(int64_t a, int64_t b, const char *reason) {
  rlx_tensor *in[] = {scores(a, NULL), scores(b, NULL)}, *out[2] = {NULL};
  assert_int_equal(rlx_call(NULL, "llada2.group_limited_gate", attrs, 4, in, 2, out, 2), RLX_INVALID);
  if (!strstr(rlx_error_message(), reason)) fail_msg("'%s', not '%s'", rlx_error_message(), reason);
  for (int i = 0; i < 2; i++) rlx_tensor_destroy(in[i]);
}

static void test_refused(void **state) {
  (void)state;
  refuse(5, 5, "5 experts are not divided into 2 groups");
  refuse(2, 2, "top_k 2 of the 1 experts of 1 groups");
  refuse(4, 6, "4 and 6 experts");
}

static int open_package(void **state) {
  (void)state;
  return rlx_load_package(NULL, "llada2");
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_derivatives), cmocka_unit_test(test_ties),
                                     cmocka_unit_test(test_refused)};
  return cmocka_run_group_tests(tests, open_package, NULL);
}
