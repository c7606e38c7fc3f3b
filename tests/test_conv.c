/* test_conv.c — the convolution kernel "strips" and the reduction kernel "lines" against the evaluation of their ops,
 * on seeded random shapes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "support/kernel.h"

static void check(rlx_graph *g, const rlx_node *n, const kernel_check *c, double tolerance) {
  const char *why = NULL;
  double d = kernel_difference(n, c, &why);
  if (d < 0 || d > tolerance) {
    char *text = NULL;
    assert_int_equal(rlx_graph_print(g, &text), RLX_OK);
    print_message("kernel %s, seed %llu, difference %g, %s\n%s\n", c->kernel, (unsigned long long)c->seed, d,
                  why ? why : "taken", text);
    rlx_free(text);
    fail();
  }
  rlx_graph_destroy(g);
}

static rlx_attr ints(const char *name, const int64_t *values, int count) {
  return (rlx_attr){.name = name, .kind = RLX_ATTR_INTS, .ints = values, .count = (size_t)count};
}

/* A convolution with random geometry; every second one fused with a sum and an activation. */
static void random_conv(random_state *r, uint64_t seed) {
  static const char *const activations[] = {"", "Relu", "LeakyRelu", "Tanh"};
  int axes = (int)random_int(r, 1, 3);
  bool depthwise = random_int(r, 0, 3) == 0;
  int64_t group = depthwise ? random_int(r, 1, 9) : random_int(r, 1, 3), depth = depthwise ? 1 : random_int(r, 1, 40);
  int64_t maps = group * (depthwise ? random_int(r, 1, 3) : random_int(r, 1, 30));
  int64_t x[5] = {random_int(r, 1, 2), group * depth}, w[5] = {maps, depth}, y[5] = {x[0], maps};
  int64_t strides[3], dilations[3], pads[6];
  for (int d = 0; d < axes; d++) {
    w[d + 2] = random_int(r, 1, 4);
    strides[d] = random_int(r, 1, 3);
    dilations[d] = random_int(r, 1, 2);
    pads[d] = random_int(r, 0, 4);
    pads[d + axes] = random_int(r, 0, 4);
    int64_t extent = (w[d + 2] - 1) * dilations[d] + 1;
    x[d + 2] = extent + random_int(r, 0, axes == 1 ? 100 : 12);
    y[d + 2] = (x[d + 2] + pads[d] + pads[d + axes] - extent) / strides[d] + 1;
  }
  bool fused = random_int(r, 0, 1), sum = fused && random_int(r, 0, 1), bias = random_int(r, 0, 1);
  rlx_type none = {.rank = -1};
  rlx_type types[4] = {kernel_type(axes + 2, x), kernel_type(axes + 2, w), bias ? kernel_type(1, &maps) : none,
                       sum ? kernel_type(axes + 2, y) : none};
  const char *activation = activations[random_int(r, 0, 3)];
  rlx_attr attrs[] = {ints("strides", strides, axes),
                      ints("dilations", dilations, axes),
                      ints("pads", pads, 2 * axes),
                      RLX_ATTR_I("group", group),
                      {.name = "activation", .kind = RLX_ATTR_STRING, .s = {activation, strlen(activation)}},
                      RLX_ATTR_F("activation_alpha", 0.25f)};
  rlx_graph *g = NULL;
  rlx_node *n = kernel_node(fused ? "rlx.conv" : "onnx.Conv", types, sum ? 4 : bias ? 3 : 2, attrs, fused ? 6 : 4, &g);
  kernel_check c = {.kernel = "strips",
                    .seed = seed,
                    .constants = 2,
                    .threads = (int)random_int(r, 1, 2),
                    .in_place = random_int(r, 0, 1)};
  check(g, n, &c, 2e-5);
}

static void test_random(void **unused) {
  (void)unused;
  random_state r = {7};
  for (uint64_t i = 0; i < 300; i++) random_conv(&r, i);
}

/* Pointwise filters read X where it lies; more channels than a panel has rows add to what is there. */
static void test_pointwise(void **unused) {
  (void)unused;
  random_state r = {11};
  for (uint64_t i = 0; i < 30; i++) {
    int64_t channels = random_int(&r, 1, 600), maps = random_int(&r, 1, 40);
    int64_t x[4] = {1, channels, random_int(&r, 1, 12), random_int(&r, 1, 12)}, w[4] = {maps, channels, 1, 1};
    rlx_type types[2] = {kernel_type(4, x), kernel_type(4, w)};
    rlx_graph *g = NULL;
    rlx_node *n = kernel_node("onnx.Conv", types, 2, NULL, 0, &g);
    kernel_check c = {.kernel = "strips", .seed = i, .threads = 2};
    check(g, n, &c, 2e-5);
  }
}

static void test_empty(void **unused) {
  (void)unused;
  rlx_type types[2] = {kernel_type(4, (const int64_t[]){0, 3, 5, 5}), kernel_type(4, (const int64_t[]){4, 3, 3, 3})};
  rlx_graph *g = NULL;
  rlx_node *n = kernel_node("onnx.Conv", types, 2, NULL, 0, &g);
  kernel_check c = {.kernel = "strips", .threads = 1};
  check(g, n, &c, 0);
}

/* Over all axes; the ONNX suite has the others. */
static void test_reduce(void **unused) {
  (void)unused;
  static const char *const ops[] = {"onnx.ReduceSum", "onnx.ReduceMean", "onnx.ReduceMax",      "onnx.ReduceMin",
                                    "onnx.ReduceL1",  "onnx.ReduceL2",   "onnx.ReduceSumSquare"};
  random_state r = {19};
  for (uint64_t i = 0; i < 210; i++) {
    int64_t dims[4];
    int rank = (int)random_int(&r, 1, 4);
    for (int d = 0; d < rank; d++) dims[d] = random_int(&r, 1, rank < 3 ? 700 : 20);
    rlx_type type = kernel_type(rank, dims);
    rlx_attr keepdims = RLX_ATTR_I("keepdims", random_int(&r, 0, 1));
    rlx_graph *g = NULL;
    rlx_node *n = kernel_node(ops[i % 7], &type, 1, &keepdims, 1, &g);
    kernel_check c = {.kernel = "lines", .seed = i, .threads = (int)random_int(&r, 1, 2)};
    check(g, n, &c, 1e-5);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_random), cmocka_unit_test(test_pointwise),
                                     cmocka_unit_test(test_empty), cmocka_unit_test(test_reduce)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
