/* test_matmul.c — kernels of matrix products against the evaluation of their ops, on seeded random shapes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "support/kernel.h"

/* By every kernel there is; one of them must take it. */
static void check(rlx_graph *g, const rlx_node *n, kernel_check c, bool may_refuse) {
  static const char *const kernels[] = {"panels",
#ifdef RLX_HAVE_ONEDNN
                                        "onednn"
#endif
  };
  bool taken = may_refuse;
  for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++) {
    c.kernel = kernels[i];
    double d = kernel_difference(n, &c, NULL);
    taken |= d >= 0;
    if (d <= 2e-5) continue;
    char *text = NULL;
    assert_int_equal(rlx_graph_print(g, &text), RLX_OK);
    print_message("kernel %s, seed %llu, difference %g\n%s\n", c.kernel, (unsigned long long)c.seed, d, text);
    rlx_free(text);
    fail();
  }
#ifdef RLX_HAVE_ONEDNN
  assert_true(taken);
#endif
  rlx_graph_destroy(g);
}

static kernel_check random_options(random_state *r, uint64_t seed) {
  return (kernel_check){.seed = seed,
                        .constants = random_int(r, 0, 1) ? 2 : 0,
                        .threads = (int)random_int(r, 1, 2),
                        .in_place = random_int(r, 0, 1)};
}

/* Batched and broadcast products; operands of one dim are rows and columns. */
static void test_matmul(void **unused) {
  (void)unused;
  random_state r = {13};
  for (uint64_t i = 0; i < 300; i++) {
    int64_t batch[3], a[5], b[5], k = random_int(&r, 1, 70);
    int rank_a = (int)random_int(&r, 1, 5), rank_b = (int)random_int(&r, 1, 5);
    for (int d = 0; d < 3; d++) batch[d] = random_int(&r, 1, 3);
    for (int d = 0; d < rank_a - 2; d++) a[d] = random_int(&r, 0, 3) ? batch[3 - (rank_a - 2) + d] : 1;
    for (int d = 0; d < rank_b - 2; d++) b[d] = random_int(&r, 0, 3) ? batch[3 - (rank_b - 2) + d] : 1;
    if (rank_a > 1) a[rank_a - 2] = random_int(&r, 1, 50);
    a[rank_a - 1] = k;
    if (rank_b > 1) b[rank_b - 1] = random_int(&r, 1, 100);
    b[rank_b > 1 ? rank_b - 2 : 0] = k;
    rlx_type types[2] = {kernel_type(rank_a, a), kernel_type(rank_b, b)};
    rlx_graph *g = NULL;
    rlx_node *n = kernel_node("onnx.MatMul", types, 2, NULL, 0, &g);
    check(g, n, random_options(&r, i), false);
  }
}

static void test_gemm(void **unused) {
  (void)unused;
  static const float scales[] = {1, 1, 0.5f, 0, -2};
  random_state r = {17};
  for (uint64_t i = 0; i < 300; i++) {
    int64_t m = random_int(&r, 1, 60), k = random_int(&r, 1, 60), columns = random_int(&r, 1, 90);
    int64_t ta = random_int(&r, 0, 1), tb = random_int(&r, 0, 1);
    int64_t a[2] = {ta ? k : m, ta ? m : k}, b[2] = {tb ? columns : k, tb ? k : columns};
    int64_t c[2] = {random_int(&r, 0, 1) ? m : 1, random_int(&r, 0, 1) ? columns : 1};
    int rank = (int)random_int(&r, -1, 2);
    rlx_attr attrs[] = {RLX_ATTR_I("transA", ta), RLX_ATTR_I("transB", tb),
                        RLX_ATTR_F("alpha", scales[random_int(&r, 0, 4)]),
                        RLX_ATTR_F("beta", scales[random_int(&r, 0, 4)])};
    rlx_type types[3] = {kernel_type(2, a), kernel_type(2, b), kernel_type(rank, rank == 1 ? c + 1 : c)};
    rlx_graph *g = NULL;
    rlx_node *n = kernel_node("onnx.Gemm", types, 3, attrs, 4, &g);
    check(g, n, random_options(&r, i), false);
  }
}

static void test_fused_matmul(void **unused) {
  (void)unused;
  static const char *const activations[] = {"", "Relu", "Gelu", "Swish", "Tanh"};
  random_state r = {19};
  for (uint64_t i = 0; i < 200; i++) {
    const char *activation = activations[random_int(&r, 0, 4)];
    int64_t k = random_int(&r, 1, 80), columns = random_int(&r, 1, 90), tb = random_int(&r, 0, 1);
    int64_t a[3] = {random_int(&r, 1, 3), random_int(&r, 1, 40), k}, b[2] = {tb ? columns : k, tb ? k : columns};
    int64_t y[3] = {a[0], a[1], columns};
    rlx_attr attrs[] = {RLX_ATTR_I("transB", tb),
                        {.name = "activation", .kind = RLX_ATTR_STRING, .s = {activation, strlen(activation)}},
                        RLX_ATTR_F("activation_alpha", 1.5f)};
    rlx_type types[4] = {kernel_type(3, a), kernel_type(2, b), kernel_type(random_int(&r, 0, 1) ? 1 : -1, &columns),
                         kernel_type(random_int(&r, 0, 1) ? 3 : -1, y)};
    rlx_graph *g = NULL;
    rlx_node *n = kernel_node("rlx.matmul", types, 4, attrs, 3, &g);
    check(g, n, random_options(&r, i), false);
  }
}

/* Many rows, columns and depths: more than one block each way, and on several threads. */
static void test_large(void **unused) {
  (void)unused;
  static const int64_t shapes[][3] = {{128, 768, 96}, {250, 391, 70}, {13, 1000, 1000}, {1, 900, 513}, {300, 20, 600}};
  random_state r = {31};
  for (uint64_t i = 0; i < sizeof shapes / sizeof *shapes * 4; i++) {
    const int64_t *s = shapes[i / 4];
    int64_t a[2] = {s[0], s[1]}, b[2] = {i % 2 ? s[2] : s[1], i % 2 ? s[1] : s[2]};
    rlx_attr attrs[] = {RLX_ATTR_I("transB", i % 2), {.name = "activation", .kind = RLX_ATTR_STRING, .s = {"Relu", 4}}};
    rlx_type types[3] = {kernel_type(2, a), kernel_type(2, b), kernel_type(1, s + 2)};
    rlx_graph *g = NULL;
    rlx_node *n = kernel_node("rlx.matmul", types, 3, attrs, 2, &g);
    check(g, n, random_options(&r, i), false);
  }
}

/* No depth: only the bias is left. */
static void test_no_depth(void **unused) {
  (void)unused;
  rlx_type types[3] = {kernel_type(2, (const int64_t[]){3, 0}), kernel_type(2, (const int64_t[]){0, 40}),
                       kernel_type(1, (const int64_t[]){40})};
  rlx_graph *g = NULL;
  rlx_node *n = kernel_node("rlx.matmul", types, 3, NULL, 0, &g);
  check(g, n, (kernel_check){.seed = 1, .threads = 1}, false);
  n = kernel_node("onnx.MatMul", types, 2, NULL, 0, &g);
  check(g, n, (kernel_check){.seed = 1, .threads = 1}, false);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_matmul), cmocka_unit_test(test_gemm),     cmocka_unit_test(test_fused_matmul),
      cmocka_unit_test(test_large),  cmocka_unit_test(test_no_depth),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
