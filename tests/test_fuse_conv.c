/* test_fuse_conv.c — pass fuse_conv: what it makes, what it must leave alone, and that the answer stays. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "ir/op.h"
#include "support/pipeline.h"
#ifdef RLX_HAVE_ONEDNN
#include "backend/cpu/onednn/adapter.h"
#endif

#define HEAD "<ir_version: 8, opset_import: [\"\" : 17, \"test\" : 1]>\n"
#define WEIGHTS "float[4] b = {0.5, -0.25, 0, 1}, float[4] s = {1.5, 0.5, -1, 2}, float[4] v = {0.9, 1, 1.1, 2}"

/* The graph has so many nodes of each op afterwards, and the answer is that without the pass. */
static void check(const char *source, int convs, int fused, int rest) {
  rlx_graph *g = pipeline_compile(source, "fuse,layout");
  int found_convs = pipeline_count(g, "onnx.Conv"), found_fused = pipeline_count(g, "rlx.conv");
  int nodes = (int)g->nodes.count;
  pipeline_free(g);
#ifdef RLX_HAVE_ONEDNN
  if (onednn_convolves()) {
    assert_int_equal(found_fused, fused);
    assert_int_equal(found_convs, convs);
    assert_int_equal(nodes - found_convs - found_fused, rest);
  }
#else
  assert_int_equal(found_fused, 0);
  (void)convs, (void)fused, (void)rest, (void)nodes, (void)found_convs;
#endif
  double d = pipeline_difference(source, "fuse_conv,fuse,layout", 2);
  if (!(d < 1e-5)) fail_msg("difference %g:\n%s", d, source);
}

/* Weights are drawn by an op of constants, folded before: W[m, c, i, j] of 4 maps, 3 channels, 3 × 3. */
#define CONV(name, of) " " name " = Conv <pads = [1, 1, 1, 1]> (" of ", w, b)\n"
#define MAKE_WEIGHTS                                                                                                  \
  " line = Range (zero, n, one)\n wave = Sin (line)\n w = Reshape (wave, shape)\n"
#define CONSTANTS                                                                                                     \
  WEIGHTS ", float zero = {0}, float n = {108}, float one = {1}, float six = {6}, float two = {2}, "                  \
          "float[1,4,1,1] p = {1, 2, 0.5, -1}, int64[4] shape = {4, 3, 3, 3}"
#define GRAPH(inputs, outputs, body) HEAD "g (" inputs ") => (" outputs ") <" CONSTANTS "> {\n" MAKE_WEIGHTS body "}"

static void test_batchnorm(void **unused) {
  (void)unused;
  check(GRAPH("float[2,3,5,6] x", "float[...] y", CONV("a", "x") " y = BatchNormalization (a, s, b, s, v)\n"), 1, 0, 0);
  check(GRAPH("float[2,3,5,6] x", "float[...] y",
              CONV("a", "x") " c = BatchNormalization <epsilon = 0.1> (a, s, b, s, v)\n d = Mul (p, c)\n e = Add (d, two)\n"
                             " y = Relu (e)\n"),
        0, 1, 0);
  check(GRAPH("float[2,3,5,6] x", "float[...] y",
              " a = Conv (x, w)\n c = Add (a, p)\n y = BatchNormalization (c, s, b, s, v)\n"),
        1, 0, 0);
}

static void test_activations(void **unused) {
  (void)unused;
  static const char *const bodies[] = {
      " y = Relu (a)\n",
      " y = Clip (a, zero, six)\n",
      " y = Clip (a, , one)\n",
      " y = LeakyRelu <alpha = 0.2> (a)\n",
      " y = Sigmoid (a)\n",
      " y = Tanh (a)\n",
      " y = HardSwish (a)\n",
      " c = Sigmoid (a)\n y = Mul (a, c)\n",
      " c = Sigmoid (a)\n y = Mul (c, a)\n",
      " c = HardSigmoid <alpha = 0.16666667, beta = 0.5> (a)\n y = Mul (a, c)\n",
  };
  for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++) {
    char source[4096];
    snprintf(source, sizeof source, "%s%s}", HEAD "g (float[2,3,5,6] x) => (float[...] y) <" CONSTANTS "> {\n" MAKE_WEIGHTS CONV("a", "x"),
             bodies[i]);
    check(source, 0, 1, 0);
  }
}

static void test_sum(void **unused) {
  (void)unused;
  check(GRAPH("float[2,3,5,6] x, float[2,4,5,6] z", "float[...] y", CONV("a", "x") " c = Add (z, a)\n y = Relu (c)\n"), 0,
        1, 0);
  /* Two convolutions: the later one takes the sum. */
  check(GRAPH("float[2,3,5,6] x", "float[...] y", CONV("a", "x") CONV("c", "x") " d = Add (c, a)\n y = Relu (d)\n"), 1, 1,
        0);
  /* A batch that is not known is the same where it comes from one input. */
  check(GRAPH("float[N,3,5,6] x", "float[...] y", CONV("a", "x") CONV("c", "x") " y = Add (c, a)\n"), 1, 1, 0);
  check(GRAPH("float[N,3,H,W] x", "float[...] y", CONV("a", "x") CONV("c", "x") " d = Relu (c)\n y = Add (a, d)\n"), 1, 1,
        1);
  check(GRAPH("float[N,3,H,W] x", "float[...] y",
              CONV("a", "x") " c = Conv <strides = [1, 2], pads = [1, 1, 1, 1]> (x, w, b)\n y = Add (a, c)\n"),
        2, 0, 1);
  check(GRAPH("float[N,3,5,6] x, float[M,4,5,6] z", "float[...] y", CONV("a", "x") " y = Add (z, a)\n"), 1, 0, 1);
  /* Broadcasting is no sum of equals. */
  check(GRAPH("float[2,3,5,6] x, float[1,4,1,1] z", "float[...] y", CONV("a", "x") " y = Add (a, z)\n"), 1, 0, 1);
  check(GRAPH("float[2,3,5,6] x", "float[...] y", CONV("a", "x") " y = Add (a, a)\n"), 1, 0, 1);
}

static void test_left_alone(void **unused) {
  (void)unused;
  /* Somebody else wants the inner value. */
  check(GRAPH("float[2,3,5,6] x", "float[...] y, float[...] a", CONV("a", "x") " y = Relu (a)\n"), 1, 0, 1);
  check(GRAPH("float[2,3,5,6] x", "float[...] y, float[...] z", CONV("a", "x") " y = Relu (a)\n z = Abs (a)\n"), 1, 0, 2);
  check(GRAPH("float[2,3,5,6] x, bool q", "float[...] y",
              CONV("a", "x") " c = Relu (a)\n d = If (q) <then_branch = t () => (r) { r = Neg (a) }, else_branch = e () "
                             "=> (r) { r = Abs (a) }>\n y = Add (c, d)\n"),
        1, 0, 3);
  /* Bounds known only at run time. */
  check(GRAPH("float[2,3,5,6] x, float low", "float[...] y", CONV("a", "x") " y = Clip (a, low)\n"), 1, 0, 1);
}

/* A kernel that is not rlx's own is called, not fused away. */
static int calls;
static rlx_status count_relu(rlx_ctx *ctx) {
  const float *x = ctx->inputs[0].data;
  float *y = ctx->outputs[0].data;
  for (int64_t i = 0; i < ctx->inputs[0].count; i++) y[i] = x[i] < 0 ? 0 : x[i];
  calls++;
  return RLX_OK;
}
static const rlx_cpu_kernel counting = {.struct_size = sizeof(rlx_cpu_kernel),
                                        .head = {.op = "onnx.Relu", .name = "counting", .priority = 1},
                                        .run = count_relu};

static void test_foreign_kernel(void **unused) {
  (void)unused;
  rlx_handle handle;
  assert_int_equal(rlx_register_cpu_kernel(NULL, &counting, 0, &handle), RLX_OK);
  check(GRAPH("float[2,3,5,6] x", "float[...] y", CONV("a", "x") " y = Relu (a)\n"), 1, 0, 1);
  assert_true(calls > 0);
  assert_int_equal(rlx_unregister(NULL, handle), RLX_OK);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_batchnorm),  cmocka_unit_test(test_activations),    cmocka_unit_test(test_sum),
      cmocka_unit_test(test_left_alone), cmocka_unit_test(test_foreign_kernel),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
