/* test_layout.c — pass layout, with kernels of the test that like blocks of 16 channels, else channels last. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "ir/layout.h"
#include "ir/op.h"
#include "support/pipeline.h"

#define HEAD "<ir_version: 8, opset_import: [\"\" : 17, \"test\" : 1]>\n"

/* ---- an op that maps channels, so that a wrong layout shows -------------------------------- */

typedef struct mix_params {
  uint64_t given;
  int64_t maps;
} mix_params;

static rlx_status infer_mix(rlx_infer *ctx) {
  const rlx_type *x = rlx_infer_input(ctx, 0);
  const mix_params *p = rlx_infer_params(ctx);
  if (x->rank == RLX_UNKNOWN) return RLX_OK;
  int64_t dims[RLX_MAX_RANK];
  memcpy(dims, x->dims, sizeof dims);
  dims[1] = p->maps;
  rlx_infer_set(ctx, 0, x->rank, dims);
  return RLX_OK;
}

static int64_t at(const rlx_operand *o, int64_t sample, int64_t c, int64_t s, int64_t points) {
  int64_t channels = o->dims[1], block = layout_block(o->layout, channels);
  return sample * channels * points + c / block * block * points + s * block + c % block;
}

/* y[n, m, s] = x[n, m mod C, s] + m */
static rlx_status mix(rlx_ctx *ctx) {
  const rlx_operand *x = &ctx->inputs[0], *y = &ctx->outputs[0];
  int64_t points = 1;
  for (int i = 2; i < x->rank; i++) points *= x->dims[i];
  for (int64_t n = 0; n < x->dims[0]; n++) {
    for (int64_t m = 0; m < y->dims[1]; m++) {
      for (int64_t s = 0; s < points; s++) {
        ((float *)y->data)[at(y, n, m, s, points)] =
            ((const float *)x->data)[at(x, n, m % x->dims[1], s, points)] + (float)m;
      }
    }
  }
  return RLX_OK;
}

static void like_blocks(const rlx_node *n, rlx_layouts *l) {
  uint32_t wanted = l->inputs[0] ? l->inputs[0] : LAYOUT_BLOCK16;
  const rlx_type *x = rlx_node_input_type(n, 0), *y = rlx_node_output_type(n, 0);
  if (!layout_fits(wanted, x) || !layout_fits(wanted, y)) wanted = LAYOUT_CHANNELS_LAST;
  if (!layout_fits(wanted, x) || !layout_fits(wanted, y)) wanted = LAYOUT_ROW_MAJOR;
  l->inputs[0] = l->outputs[0] = wanted;
}

static const rlx_port ports[] = {{"x", "T", RLX_SET(RLX_FLOAT), 0, 0}, {0}};
static const rlx_attr_def attrs[] = {
    {.name = "maps", .kind = RLX_ATTR_INT, .flags = RLX_REQUIRED, .offset = offsetof(mix_params, maps)}, {0}};
static const rlx_op mix_op = {.struct_size = sizeof(rlx_op),
                              .name = "test.mix",
                              .inputs = ports,
                              .outputs = ports,
                              .attrs = attrs,
                              .params_size = sizeof(mix_params),
                              .traits = RLX_PURE,
                              .infer = infer_mix,
                              .eval = mix};
static const rlx_cpu_kernel mix_kernel = {.struct_size = sizeof(rlx_cpu_kernel),
                                          .head = {.op = "test.mix", .name = "blocks", .layouts = like_blocks},
                                          .run = mix};
/* The same without a wish. */
static const rlx_op plain_op = {.struct_size = sizeof(rlx_op),
                                .name = "test.plain",
                                .inputs = ports,
                                .outputs = ports,
                                .attrs = attrs,
                                .params_size = sizeof(mix_params),
                                .traits = RLX_PURE,
                                .infer = infer_mix,
                                .eval = mix};

/* ---- cases -------------------------------------------------------------------------------- */

/* After all passes but elementwise fusion, the graph has so many reorders; nodes of mix are given `layout`; and the
 * answer is that without the pass. */
static void check(const char *source, int reorders, uint32_t layout, int64_t extent) {
  rlx_graph *g = pipeline_compile(source, "fuse");
  assert_int_equal(pipeline_count(g, "rlx.reorder"), reorders);
  for (size_t i = 0; i < g->nodes.count; i++) {
    const rlx_node *n = g->nodes.data[i];
    if (strcmp(n->op_name, "test.mix") == 0) {
      assert_int_equal(n->inputs[0]->layout, layout);
      assert_int_equal(n->outputs[0]->layout, layout);
    }
    if (strcmp(n->op_name, "test.plain") == 0) assert_int_equal(n->inputs[0]->layout, LAYOUT_ROW_MAJOR);
  }
  for (size_t i = 0; i < g->outputs.count; i++) assert_int_equal(g->outputs.data[i].value->layout, LAYOUT_ROW_MAJOR);
  pipeline_free(g);
  assert_true(pipeline_difference(source, "layout", extent) == 0);
}

static void test_chain(void **unused) {
  (void)unused;
  check(HEAD "g (float[1,16,3,5] x) => (float[...] y) {\n"
             " a = test.mix <maps = 32> (x)\n b = Relu (a)\n c = Mul (a, b)\n y = test.mix <maps = 16> (c)\n}",
        2, LAYOUT_BLOCK16, 1);
}

/* One that does not divide makes the whole component channels last. */
static void test_agreement(void **unused) {
  (void)unused;
  check(HEAD "g (float[2,16,4,4] x) => (float[...] y) {\n"
             " a = test.mix <maps = 32> (x)\n b = test.mix <maps = 24> (a)\n c = Neg (b)\n"
             " y = test.mix <maps = 48> (c)\n}",
        2, LAYOUT_CHANNELS_LAST, 1);
}

/* One reorder serves all that need it; a graph output in the middle of a chain is row-major. */
static void test_shared(void **unused) {
  (void)unused;
  check(HEAD "g (float[1,16,4] x) => (float[...] y, float[...] z, float[...] a) {\n"
             " a = test.mix <maps = 16> (x)\n b = test.mix <maps = 16> (a)\n"
             " y = test.plain <maps = 5> (b)\n z = test.plain <maps = 7> (b)\n}",
        3, LAYOUT_BLOCK16, 1);
}

/* Operands that lie the same in all layouts, one element or one a channel, are used as they are; one that would have
 * to be laid out otherwise than its dims say makes the sum row-major. */
static void test_broadcast(void **unused) {
  (void)unused;
  check(HEAD "g (float[1,16,4,4] x, float[16,4,1] s, float[1] t) => (float[...] y) {\n"
             " a = test.mix <maps = 16> (x)\n b = Mul (a, t)\n c = test.mix <maps = 16> (b)\n"
             " d = Mul (c, s)\n y = test.mix <maps = 16> (d)\n}",
        4, LAYOUT_BLOCK16, 1);
  check(HEAD "g (float[2,16,4,4] x, float[16,1,1] p, float[1,1,4,4] q, float[1,16,4,4] r) => (float[...] y) {\n"
             " a = test.mix <maps = 16> (x)\n b = Mul (p, a)\n c = Add (b, q)\n k = test.mix <maps = 16> (r)\n"
             " d = Sum (c, k, p)\n e = Clip (d, , )\n y = test.mix <maps = 16> (e)\n}",
        3, LAYOUT_BLOCK16, 1);
  check(HEAD "g (float[2,24,4,4] x, float[2,24,1,1] p) => (float[...] y) {\n"
             " a = test.mix <maps = 24> (x)\n b = Mul (p, a)\n y = test.mix <maps = 24> (b)\n}",
        2, LAYOUT_CHANNELS_LAST, 1);
  check(HEAD "g (float[N,16,H,W] x, float[N,16,H,1] p) => (float[...] y) {\n"
             " a = test.mix <maps = 16> (x)\n b = test.mix <maps = 16> (p)\n c = Mul (a, b)\n"
             " y = test.mix <maps = 16> (c)\n}",
        3, LAYOUT_BLOCK16, 4);
}

/* Parts of channels are whole blocks, or rows of channels last. */
static void test_concat(void **unused) {
  (void)unused;
  check(HEAD "g (float[2,16,4,4] x) => (float[...] y) {\n"
             " a = test.mix <maps = 48> (x)\n b, c, d = Split <axis = 1> (a)\n e = Concat <axis = 1> (d, b, c, x)\n"
             " f = Concat <axis = 2> (e, e)\n h = Concat <axis = 0> (f, f)\n y = test.mix <maps = 16> (h)\n}",
        2, LAYOUT_BLOCK16, 1);
  check(HEAD "g (float[2,12,4,4] x) => (float[...] y) {\n"
             " a = test.mix <maps = 36> (x)\n b, c, d = Split <axis = 1> (a)\n e = Concat <axis = -3> (d, b, c, x)\n"
             " f = Concat <axis = 3> (e, e)\n h = Concat <axis = 0> (f, f)\n p, q = Split <axis = 2> (h)\n"
             " r = Add (p, q)\n y = test.mix <maps = 20> (r)\n}",
        2, LAYOUT_CHANNELS_LAST, 1);
}

static void test_unknown_dims(void **unused) {
  (void)unused;
  check(HEAD "g (float[N,16,H,W] x) => (float[...] y) {\n"
             " a = test.mix <maps = 16> (x)\n b = Relu (a)\n y = test.mix <maps = 16> (b)\n}",
        2, LAYOUT_BLOCK16, 3);
  check(HEAD "g (float[N,C,H,W] x) => (float[...] y) {\n a = Relu (x)\n y = test.mix <maps = 16> (a)\n}", 0,
        LAYOUT_ROW_MAJOR, 4);
}

/* What a subgraph uses is row-major, inside and for it. */
static void test_subgraph(void **unused) {
  (void)unused;
  check(HEAD "g (float[1,16,2,2] x, bool c) => (float[...] y) {\n"
             " a = test.mix <maps = 16> (x)\n b = test.mix <maps = 16> (a)\n"
             " d = If (c) <then_branch = t () => (r) { r = Neg (b) }, else_branch = e () => (r) { r = Abs (b) }>\n"
             " y = Add (d, b)\n}",
        2, LAYOUT_BLOCK16, 1);
}

static void test_nothing_to_do(void **unused) {
  (void)unused;
  check(HEAD "g (float[2,16] x) => (float[...] y) {\n a = test.mix <maps = 16> (x)\n y = Relu (a)\n}", 0,
        LAYOUT_ROW_MAJOR, 1);
}

int main(void) {
  if (rlx_register_op(NULL, &mix_op, 0, NULL) != RLX_OK || rlx_register_op(NULL, &plain_op, 0, NULL) != RLX_OK ||
      rlx_register_cpu_kernel(NULL, &mix_kernel, 0, NULL) != RLX_OK) {
    return 1;
  }
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_chain),         cmocka_unit_test(test_agreement),    cmocka_unit_test(test_shared),
      cmocka_unit_test(test_broadcast),     cmocka_unit_test(test_unknown_dims), cmocka_unit_test(test_subgraph),
      cmocka_unit_test(test_nothing_to_do), cmocka_unit_test(test_concat),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
