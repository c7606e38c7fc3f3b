/* test_onednn.c — kernels over oneDNN against the evaluation of their ops, on seeded random shapes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "ir/layout.h"
#include "support/kernel.h"
#ifdef RLX_HAVE_ONEDNN
#include "backend/cpu/onednn/adapter.h"
#endif

#ifdef RLX_HAVE_ONEDNN
static const double tolerance = 2e-5;

static const uint32_t layouts[] = {LAYOUT_ROW_MAJOR, LAYOUT_BLOCK8, LAYOUT_BLOCK16, LAYOUT_CHANNELS_LAST};

static void check(rlx_graph *g, const rlx_node *n, kernel_check c, bool may_refuse) {
  const char *why = NULL;
  c.kernel = "onednn";
  double d = kernel_difference(n, &c, &why);
  if (d < 0 && !may_refuse) fail_msg("refused: %s", why);
  if (!(d <= tolerance)) {
    char *text = NULL;
    assert_int_equal(rlx_graph_print(g, &text), RLX_OK);
    print_message("layouts %u %u, seed %llu, difference %g\n%s\n", n->inputs[0]->layout, n->outputs[0]->layout,
                  (unsigned long long)c.seed, d, text);
    rlx_free(text);
    fail();
  }
  rlx_graph_destroy(g);
}

/* ---- convolution -------------------------------------------------------------------------- */

typedef struct conv_case {
  int spatial;
  int64_t batch, group, in, out; /* channels of a group */
  int64_t size[3], kernel[3], strides[3], dilations[3], pads[6];
  bool bias, sum;
  const char *activation;
  uint32_t layout;
} conv_case;

static void random_conv(random_state *r, conv_case *c) {
  static const char *const activations[] = {"", "Relu", "Clip", "LeakyRelu", "Sigmoid", "Tanh", "Swish", "HardSwish"};
  *c = (conv_case){.spatial = (int)random_int(r, 1, 3), .batch = random_int(r, 1, 2),
                   .group = random_int(r, 0, 2) ? 1 : random_int(r, 2, 3), .layout = layouts[random_int(r, 0, 3)]};
  int64_t block = layout_block(c->layout, 1);
  c->in = block * random_int(r, 1, block > 1 ? 2 : 20);
  c->out = block * random_int(r, 1, block > 1 ? 2 : 20);
  if (random_int(r, 0, 4) == 0) c->group = c->in, c->in = c->out = 1; /* depthwise */
  for (int i = 0; i < c->spatial; i++) {
    c->size[i] = random_int(r, 7, c->spatial == 3 ? 9 : 18);
    c->kernel[i] = random_int(r, 1, 3);
    c->strides[i] = random_int(r, 1, 2);
    c->dilations[i] = random_int(r, 1, 2);
    int64_t most = (c->kernel[i] - 1) * c->dilations[i];
    c->pads[i] = random_int(r, 0, most);
    c->pads[i + c->spatial] = random_int(r, 0, most);
  }
  c->bias = random_int(r, 0, 1);
  c->sum = random_int(r, 0, 1);
  c->activation = activations[random_int(r, 0, 7)];
}

static int conv_attrs(const conv_case *c, rlx_attr *a) {
  size_t spatial = (size_t)c->spatial;
  a[0] = (rlx_attr){.name = "strides", .kind = RLX_ATTR_INTS, .ints = c->strides, .count = spatial};
  a[1] = (rlx_attr){.name = "dilations", .kind = RLX_ATTR_INTS, .ints = c->dilations, .count = spatial};
  a[2] = (rlx_attr){.name = "pads", .kind = RLX_ATTR_INTS, .ints = c->pads, .count = 2 * spatial};
  a[3] = (rlx_attr)RLX_ATTR_I("group", c->group);
  a[4] = (rlx_attr){.name = "activation", .kind = RLX_ATTR_STRING,
                    .s = {c->activation, strlen(c->activation)}};
  a[5] = (rlx_attr)RLX_ATTR_F("activation_alpha", strcmp(c->activation, "Clip") == 0 ? -0.5f : 1.25f);
  a[6] = (rlx_attr)RLX_ATTR_F("activation_beta", 2);
  return 7;
}

static void check_conv(const conv_case *c, bool fused, kernel_check options) {
  int64_t x[5] = {c->batch, c->group * c->in}, w[5] = {c->group * c->out, c->in}, y[5] = {c->batch, w[0]};
  for (int i = 0; i < c->spatial; i++) {
    x[i + 2] = c->size[i];
    w[i + 2] = c->kernel[i];
    int64_t room = c->size[i] + c->pads[i] + c->pads[i + c->spatial] - (c->kernel[i] - 1) * c->dilations[i] - 1;
    y[i + 2] = room / c->strides[i] + 1;
  }
  int rank = c->spatial + 2;
  rlx_type left_out = {.rank = RLX_UNKNOWN};
  rlx_type types[4] = {kernel_type(rank, x), kernel_type(rank, w), c->bias ? kernel_type(1, w) : left_out,
                       c->sum ? kernel_type(rank, y) : left_out};
  rlx_attr attrs[8];
  int count = conv_attrs(c, attrs);
  rlx_graph *g = NULL;
  rlx_node *n = kernel_node(fused ? "rlx.conv" : "onnx.Conv", types, fused ? 4 : 3, attrs, fused ? count : 4, &g);
  bool few = x[1] <= 4 && c->layout != LAYOUT_CHANNELS_LAST;
  n->inputs[0]->layout = few ? LAYOUT_ROW_MAJOR : c->layout;
  n->outputs[0]->layout = few && c->group > 1 ? LAYOUT_ROW_MAJOR : c->layout;
  if (fused && n->inputs[3]) n->inputs[3]->layout = n->outputs[0]->layout;
  check(g, n, options, !onednn_convolves());
}

static void test_conv(void **unused) {
  (void)unused;
  random_state r = {11};
  for (uint64_t i = 0; i < 400; i++) {
    conv_case c;
    random_conv(&r, &c);
    kernel_check options = {.seed = i, .constants = random_int(&r, 0, 1) ? 2 : 0, .threads = (int)random_int(&r, 1, 2),
                            .in_place = random_int(&r, 0, 1)};
    check_conv(&c, i % 2, options);
  }
}

/* What networks are made of: 3×3 with stride 1, which is done by Winograd where oneDNN has it and the weights are
 * constant. */
static void test_conv_3x3(void **unused) {
  (void)unused;
  static const int64_t shapes[][3] = {{32, 64, 14}, {64, 128, 28}, {16, 16, 9}, {128, 32, 7},
                                      {64, 64, 40}, {48, 80, 20}, {256, 256, 14}};
  for (uint64_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
    conv_case c = {.spatial = 2, .batch = 1, .group = 1, .in = shapes[i][0], .out = shapes[i][1],
                   .size = {shapes[i][2], shapes[i][2]}, .kernel = {3, 3}, .strides = {1, 1}, .dilations = {1, 1},
                   .pads = {1, 1, 1, 1}, .bias = true, .sum = i % 2, .activation = "Relu", .layout = LAYOUT_BLOCK16};
    check_conv(&c, true, (kernel_check){.seed = i, .constants = 2, .threads = 1 + (int)i % 2, .in_place = true});
  }
}

/* ---- pooling ------------------------------------------------------------------------------ */

static void random_pool(random_state *r, uint64_t seed) {
  static const char *const ops[] = {"onnx.MaxPool", "onnx.AveragePool", "onnx.GlobalMaxPool", "onnx.GlobalAveragePool"};
  int64_t which = random_int(r, 0, 3), ceil_mode = random_int(r, 0, 1), include = random_int(r, 0, 1);
  uint32_t layout = layouts[random_int(r, 0, 3)];
  int spatial = (int)random_int(r, 1, 3);
  int64_t block = layout_block(layout, 1), x[5] = {random_int(r, 1, 2), block * random_int(r, 1, 3)};
  int64_t kernel[3], strides[3], dilations[3], pads[6];
  for (int i = 0; i < spatial; i++) {
    x[i + 2] = random_int(r, 7, 12);
    kernel[i] = random_int(r, 1, 3);
    strides[i] = random_int(r, 1, 3);
    dilations[i] = random_int(r, 1, 2);
    pads[i] = random_int(r, 0, kernel[i] - 1);
    pads[i + spatial] = random_int(r, 0, kernel[i] - 1);
  }
  size_t count = (size_t)spatial;
  rlx_attr attrs[] = {{.name = "kernel_shape", .kind = RLX_ATTR_INTS, .ints = kernel, .count = count},
                      {.name = "strides", .kind = RLX_ATTR_INTS, .ints = strides, .count = count},
                      {.name = "dilations", .kind = RLX_ATTR_INTS, .ints = dilations, .count = count},
                      {.name = "pads", .kind = RLX_ATTR_INTS, .ints = pads, .count = 2 * count},
                      RLX_ATTR_I("ceil_mode", ceil_mode),
                      RLX_ATTR_I("count_include_pad", include)};
  rlx_type type = kernel_type(spatial + 2, x);
  rlx_graph *g = NULL;
  rlx_node *n = kernel_node(ops[which], &type, 1, attrs, which > 1 ? 0 : which == 0 ? 5 : 6, &g);
  n->inputs[0]->layout = layout;
  n->outputs[0]->layout = which > 1 ? LAYOUT_ROW_MAJOR : layout;
  if (which == 1 && include && ceil_mode)
    rlx_graph_destroy(g);
  else
    check(g, n, (kernel_check){.seed = seed, .threads = (int)random_int(r, 1, 2)}, false);
}

static void test_pool(void **unused) {
  (void)unused;
  random_state r = {5};
  for (uint64_t i = 0; i < 300; i++) random_pool(&r, i);
}

/* ---- normalisation ------------------------------------------------------------------------ */

static void test_lrn(void **unused) {
  (void)unused;
  random_state r = {7};
  for (uint64_t i = 0; i < 40; i++) {
    int64_t x[4] = {random_int(&r, 1, 2), 16 * random_int(&r, 1, 3), random_int(&r, 1, 9), random_int(&r, 1, 9)};
    rlx_attr attrs[] = {RLX_ATTR_I("size", random_int(&r, 1, 6)), RLX_ATTR_F("alpha", 0.5f), RLX_ATTR_F("beta", 0.75f),
                        RLX_ATTR_F("bias", 2)};
    rlx_type type = kernel_type(4, x);
    rlx_graph *g = NULL;
    rlx_node *n = kernel_node("onnx.LRN", &type, 1, attrs, 4, &g);
    n->inputs[0]->layout = n->outputs[0]->layout = layouts[i % 4];
    check(g, n, (kernel_check){.seed = i, .threads = 2}, true);
  }
}

static void test_layernorm(void **unused) {
  (void)unused;
  random_state r = {29};
  for (uint64_t i = 0; i < 100; i++) {
    int rank = (int)random_int(&r, 1, 4), axis = (int)random_int(&r, 0, rank - 1);
    int64_t x[4];
    for (int d = 0; d < rank; d++) x[d] = random_int(&r, d == rank - 1 ? 2 : 1, 20);
    rlx_attr attrs[] = {RLX_ATTR_I("axis", axis - (i % 2 ? rank : 0)), RLX_ATTR_F("epsilon", 1e-3f)};
    rlx_type types[3] = {kernel_type(rank, x), kernel_type(rank - axis, x + axis),
                         i % 3 ? kernel_type(rank - axis, x + axis) : (rlx_type){.rank = RLX_UNKNOWN}};
    rlx_graph *g = NULL;
    rlx_node *n = kernel_node("onnx.LayerNormalization", types, 3, attrs, 2, &g);
    check(g, n, (kernel_check){.seed = i, .threads = 2, .in_place = i % 2}, false);
  }
}

#endif

/* ---- reorder ------------------------------------------------------------------------------ */

static void test_reorder(void **unused) {
  (void)unused;
  random_state r = {3};
  for (uint64_t i = 0; i < 100; i++) {
    uint32_t from = (uint32_t)random_int(&r, 0, 3), to = (uint32_t)random_int(&r, 0, 3);
    int64_t x[4] = {random_int(&r, 1, 3), 16 * random_int(&r, 1, 3), random_int(&r, 1, 40), random_int(&r, 1, 5)};
    if (from != LAYOUT_BLOCK8 && from != LAYOUT_BLOCK16 && to != LAYOUT_BLOCK8 && to != LAYOUT_BLOCK16) x[1] += 5;
    rlx_type type = kernel_type(4, x);
    rlx_attr attr = RLX_ATTR_I("layout", to);
    rlx_graph *g = NULL;
    rlx_node *n = kernel_node("rlx.reorder", &type, 1, &attr, 1, &g);
    n->inputs[0]->layout = from;
    n->outputs[0]->layout = to;
    kernel_check c = {.kernel = "reorder", .seed = i, .threads = 2};
    assert_true(kernel_difference(n, &c, NULL) == 0);
    rlx_graph_destroy(g);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_reorder),
#ifdef RLX_HAVE_ONEDNN
      cmocka_unit_test(test_conv),
      cmocka_unit_test(test_conv_3x3),
      cmocka_unit_test(test_pool),
      cmocka_unit_test(test_lrn),
      cmocka_unit_test(test_layernorm),
#endif
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
