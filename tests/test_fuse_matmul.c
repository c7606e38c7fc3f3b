/* test_fuse_matmul.c — pass fuse_matmul: what it makes, what it must leave alone, and that the answer stays. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "support/pipeline.h"

#define HEAD "<ir_version: 8, opset_import: [\"\" : 17]>\n"
#define GRAPH(inputs, body)                                                                                           \
  HEAD "g (" inputs ") => (float[...] y) <float[5] b = {0.5, -0.25, 0, 1, -2}, float[1,5] row = {1, 2, 3, 4, 5}, "      \
       "float[3,1] column = {1, 2, 3}, float root = {1.4142135}, float one = {1}, float half = {0.5}, float zero = {0}>" \
       " {\n" body "}"

/* So many rlx.matmul and other nodes afterwards, and the answer is that without the pass. */
static void check(const char *source, int fused, int rest) {
  rlx_graph *g = pipeline_compile(source, "fuse,layout");
  int found = pipeline_count(g, "rlx.matmul"), nodes = (int)g->nodes.count;
  pipeline_free(g);
#ifdef RLX_HAVE_ONEDNN
  assert_int_equal(found, fused);
  assert_int_equal(nodes - found, rest);
#else
  (void)fused, (void)rest, (void)nodes, (void)found;
#endif
  double d = pipeline_difference(source, "fuse_matmul,fuse", 3);
  if (!(d < 1e-5)) fail_msg("difference %g:\n%s", d, source);
}

static void test_matmul(void **unused) {
  (void)unused;
  check(GRAPH("float[2,3,4] x, float[4,5] w", " a = MatMul (x, w)\n y = Add (b, a)\n"), 1, 0);
  check(GRAPH("float[N,M,4] x, float[4,5] w", " a = MatMul (x, w)\n c = Add (a, row)\n y = Relu (c)\n"), 1, 0);
  check(GRAPH("float[2,3,4] x, float[2,4,5] w", " a = MatMul (x, w)\n y = Tanh (a)\n"), 1, 0);
  /* Not one number a column; two dims, of which one is a batch. */
  check(GRAPH("float[3,4] x, float[4,5] w", " a = MatMul (x, w)\n y = Add (a, column)\n"), 0, 2);
  check(GRAPH("float[4] x, float[4,5] w", " a = MatMul (x, w)\n y = Add (a, row)\n"), 0, 2);
  check(GRAPH("float[2,3,4] x, float[4,5] w, float[5] z", " a = MatMul (x, w)\n y = Add (a, z)\n"), 0, 2);
}

static void test_gemm(void **unused) {
  (void)unused;
  check(GRAPH("float[3,4] x, float[5,4] w", " a = Gemm <transB = 1> (x, w, row)\n y = Relu (a)\n"), 1, 0);
  check(GRAPH("float[3,4] x, float[4,5] w", " a = Gemm (x, w)\n s = Sigmoid (a)\n y = Mul (s, a)\n"), 1, 0);
  check(GRAPH("float[3,4] x, float[4,5] w", " a = Gemm <alpha = 2.0> (x, w, b)\n y = Relu (a)\n"), 0, 2);
  check(GRAPH("float[4,3] x, float[4,5] w", " a = Gemm <transA = 1> (x, w, b)\n y = Relu (a)\n"), 0, 2);
  check(GRAPH("float[3,4] x, float[4,5] w", " y = Gemm (x, w, b)\n"), 0, 1);
}

static void test_gelu(void **unused) {
  (void)unused;
  check(
      GRAPH(
          "float[2,3,4] x, float[4,5] w",
          " a = MatMul (x, w)\n c = Add (a, b)\n d = Div (c, root)\n e = Erf (d)\n f = Add (e, one)\n h = Mul (c, f)\n"
          " y = Mul (h, half)\n"),
      1, 0);
  /* Almost gelu. */
  check(
      GRAPH(
          "float[2,3,4] x, float[4,5] w",
          " a = MatMul (x, w)\n c = Add (a, b)\n d = Div (c, root)\n e = Erf (d)\n f = Add (e, half)\n h = Mul (c, f)\n"
          " y = Mul (h, half)\n"),
      1, 5);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_matmul),
      cmocka_unit_test(test_gemm),
      cmocka_unit_test(test_gelu),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
