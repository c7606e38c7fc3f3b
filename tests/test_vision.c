/* test_vision.c — deformable attention: derivatives against differences, and what is refused. Values of PyTorch are in
 * tests/packages/vision. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "ir/infer.h"
#include "ir/parse.h"
#include "support/derivative.h"

#define WEIGHTS                                                                                                        \
  "double[6,4] vw, double[6] vb, double[16,5] ow, double[16] ob, double[8,5] aw, double[8] ab, double[3,6] pw, "       \
  "double[3] pb) => (y) { y = gdino.ms_deform_attn <num_heads = 2, num_points = 2, level_shapes = [3, 4, 2, 2]> "      \
  "(q, s, r, vw, vb, ow, ob, aw, ab, pw, pb) }"

static const derivative_row attention[] = {
    {"g (double[3,5] q, double[16,4] s, double[3,2,2] r, " WEIGHTS, 0, 0},
    {"g (double[2,3,5] q, double[2,16,4] s, double[2,3,2,4] r, " WEIGHTS, 0, 0},
};
static const derivative_row sampling = {
    "g (double[2,10,2,3] v, double[2,4,2,2,3,2] l, double[2,4,2,2,3] w) => (y) <int64[2,2] s = {2, 3, 4, 1}> { y = "
    "vision.ms_deform_sample (v, s, l, w) }",
    0, 0};

static void test_derivatives(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof attention / sizeof *attention; i++) derivative_check(&attention[i], "gdino");
  derivative_check(&sampling, "vision");
}

static void refuse(const char *body, const char *reason) {
  char source[2048];
  rlx_graph *g = NULL;
  snprintf(source, sizeof source, "<ir_version: 10, opset_import: [\"\" : 24, \"gdino\" : 1]> %s", body);
  rlx_status status = graph_parse(source, strlen(source), "test", NULL, NULL, &g);
  if (status == RLX_OK) status = infer_graph(g, true);
  rlx_graph_destroy(g);
  assert_int_equal(status, RLX_INVALID);
  if (!strstr(rlx_error_message(), reason)) fail_msg("'%s', not '%s'", rlx_error_message(), reason);
}

#define NODE(attrs) ") => (y) { y = gdino.ms_deform_attn <" attrs "> (q, s, r, w, b, ow, ob, aw, ab, w, b) }"
#define OTHERS ", float[4,4] w, float[4] b, float[8,4] ow, float[8] ob, float[4,4] aw, float[4] ab"
#define SIZES "num_heads = 2, num_points = 1, level_shapes = [2, 2, 1, 1]"

static void test_refused(void **state) {
  (void)state;
  refuse("g (float[3,4] q, float[4,4] s, float[3,2,2] r" OTHERS NODE(SIZES), "the levels have 5 places, the source 4");
  refuse("g (float[3,4] q, float[5,4] s, float[3,2,3] r" OTHERS NODE(SIZES), "of 3 numbers, not 2 or 4");
  refuse("g (float[3,4] q, float[5,4] s, float[3,1,2] r" OTHERS NODE(SIZES), "of 1 levels, not 2");
  refuse("g (float[3,4] q, float[5,4] s, float[2,2,2] r" OTHERS NODE(SIZES), "as many reference points as queries");
  refuse("g (float[1,3,4] q, float[5,4] s, float[3,2,2] r" OTHERS NODE(SIZES), "all have a batch");
  refuse("g (float[3,4] q, float[5,4] s, float[3,2,2] r" OTHERS NODE(
             "num_heads = 2, num_points = 2, level_shapes = [2, 2, 1, 1]"),
         "the offset weight has 8 rows, not 16");
  refuse("g (float[3,4] q, float[5,4] s, float[3,2,2] r" OTHERS NODE(
             "num_heads = 2, num_points = 1, level_shapes = [2, 2, 1]"),
         "pairs");
  refuse("g (float[3,4] q, float[5,4] s, float[3,2,2] r" OTHERS NODE(
             "num_heads = 2, num_points = 1, level_shapes = [2, 0, 1, 1]"),
         "a level of 2 x 0");
}

/* The package is part of the library, and its ops are rlx's own: a kernel of the program's wins over theirs. */
static rlx_status run(rlx_ctx *ctx) { return rlx_fail(ctx, RLX_KERNEL, "not called"); }
static const rlx_cpu_kernel mine = {
    .struct_size = sizeof mine, .head = {.op = "vision.ms_deform_sample", .name = "mine"}, .run = run};

static void which(const char *kernel, const char *owner) {
  static const rlx_type types[] = {{.dtype = RLX_FLOAT, .rank = RLX_UNKNOWN},
                                   {.dtype = RLX_INT64, .rank = RLX_UNKNOWN},
                                   {.dtype = RLX_FLOAT, .rank = RLX_UNKNOWN},
                                   {.dtype = RLX_FLOAT, .rank = RLX_UNKNOWN}};
  rlx_which_answer *answer = NULL;
  assert_int_equal(rlx_which(NULL, "cpu", "vision.ms_deform_sample", NULL, 0, types, 4, &answer), RLX_OK);
  assert_string_equal(answer->kernel, kernel);
  assert_string_equal(answer->owner, owner);
  rlx_free(answer);
}

static void test_users_kernel(void **state) {
  (void)state;
  rlx_handle handle = 0;
  which("vectors", "vision");
  assert_int_equal(rlx_register_cpu_kernel(NULL, &mine, 0, &handle), RLX_OK);
  which("mine", "process");
  assert_int_equal(rlx_unregister(NULL, handle), RLX_OK);
  which("vectors", "vision");
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_derivatives), cmocka_unit_test(test_refused),
                                     cmocka_unit_test(test_users_kernel)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
