/* test_grad.c — gradients and tangents of whole graphs: against differences, and the rules of the transform. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "grad/check.h"
#include "ir/parse.h"
#include "ir/shape.h"

static void must(rlx_status status, const char *what) {
  if (status != RLX_OK) fail_msg("%s: %s", what, rlx_error_message());
}

static rlx_graph *parsed(const char *text) {
  rlx_graph *g = NULL;
  must(graph_parse(text, strlen(text), "test", NULL, NULL, &g), text);
  return g;
}

/* ---- graphs against differences ----------------------------------------------------------- */

static const char *const graphs[] = {
    /* a value used many times; an output that nothing uses */
    "many (double[3] x) => (y) { a = Mul (x, x) b = Add (a, x) c, d = Split <num_outputs = 2, axis = 0> (b) "
    "e = Mul (b, a) y = Add (e, x) }",
    /* integers and comparisons stop the flow */
    "stops (double[4] x) => (y) <double zero = {0}> { p = Greater (x, zero) i = Cast <to = 7> (p) f = CastLike (i, x) "
    "m = Mul (f, x) y = Mul (m, x) }",
    /* old versions through their lower */
    "old (double[2,3] x) => (y) { a = ReduceSum@1 <axes = [1], keepdims = 0> (x) b = Softmax@1 (x) "
    "c = Unsqueeze@1 <axes = [1]> (a) y = Mul (b, c) }",
    /* either branch, with captures of both and of one */
    "branch (double[3] x, double[3] z, bool c) => (y) { t = Mul (x, z) u = If <then_branch = a () => (p) { p = Mul (x, "
    "t) }, "
    "else_branch = b () => (q) { r = Exp (z) q = Add (r, t) }> (c) y = Mul (u, x) }",
    /* a loop with a fixed number of trips, captures and a stacked output */
    "fixed (double[2] x, double[2] w) => (y, s) <int64 n = {4}, bool go = {1}> {"
    " y, s = Loop <body = step (int64 i, bool c, double[2] v) => (c2, v2, o) {"
    " c2 = Identity (c) f = CastLike (i, v) a = Mul (v, w) b = Sin (a) v2 = Add (b, x) o = Mul (v2, f) }> (n, go, x) }",
    /* until a condition, without a trip count */
    "until (double[2] x) => (y) <bool go = {1}, int64 zero = {0}> {"
    " y, k = Loop <body = step (int64 i, bool c, double[2] v, int64 k) => (c2, v2, k2) <int64 one = {1}, int64 three = "
    "{3}> {"
    " k2 = Add (k, one) c2 = Less (k2, three) v1 = Mul (v, v) v2 = Add (v1, x) }> (, go, x, zero) }",
    /* no iteration at all */
    "none (double[2] x) => (y, s) <int64 n = {0}, bool go = {1}> {"
    " y, s = Loop <body = step (int64 i, bool c, double[2] v) => (c2, v2, o) { c2 = Identity (c) v2 = Exp (v) "
    " o = Exp (v2) }> (n, go, x) }",
    /* a scan, backwards along the second axis */
    "scan (double[2] h, double[2,3] x) => (y, s) {"
    " y, s = Scan <num_scan_inputs = 1, scan_input_axes = [1], scan_input_directions = [1], scan_output_axes = [1], "
    "body ="
    " step (double[2] a, double[2] b) => (c, d) { e = Mul (a, b) c = Tanh (e) d = Add (c, b) }> (h, x) }",
    /* two scan inputs, outputs stacked in reverse, an unused state */
    "scan2 (double[2] h, double[3,2] x, double[3,2] z) => (s) {"
    " y, s = Scan <num_scan_inputs = 2, scan_output_directions = [1], body ="
    " step (double[2] a, double[2] b, double[2] z0) => (c, d) { e = Mul (a, b) c = Sub (e, z0) d = Mul (c, z0) }> (h, "
    "x, z) }",
    /* a branch in a loop in a scan */
    "nested (double[2] h, double[3,2] x, double[2] w) => (y) <int64 two = {2}, bool go = {1}> {"
    " y, s = Scan <num_scan_inputs = 1, body = step (double[2] a, double[2] b) => (c, d) {"
    " l = Loop <body = inner (int64 i, bool g, double[2] v) => (g2, v2) <int64 zero = {0}> {"
    " g2 = Identity (g) e = Equal (i, zero)"
    " k = If <then_branch = p () => (t) { t = Mul (v, w) }, else_branch = q () => (u) { u = Mul (v, b) }> (e)"
    " v2 = Tanh (k) }> (two, go, a) c = Add (l, b) d = Identity (c) }> (h, x) }",
    NULL};

static void test_graphs(void **state) {
  (void)state;
  for (int i = 0; graphs[i]; i++) {
    rlx_graph *g = parsed(graphs[i]);
    for (int c = 0; c < (strncmp(graphs[i], "branch", 6) == 0 ? 2 : 1); c++) {
      rlx_tensor *inputs[8] = {NULL};
      grad_report r;
      if (strncmp(graphs[i], "branch", 6) == 0) {
        must(rlx_tensor_create(RLX_BOOL, 0, NULL, &inputs[2]), "condition");
        *(uint8_t *)rlx_tensor_data(inputs[2]) = (uint8_t)c;
      }
      must(grad_check_graph(g, NULL, inputs, &r), graphs[i]);
      if (!r.passed) fail_msg("%s\n%s", graphs[i], r.what);
      if (r.gradients < 2 || r.tangents < 1) fail_msg("%s\nnothing was compared", graphs[i]);
      rlx_tensor_destroy(inputs[2]);
    }
    rlx_graph_destroy(g);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_graphs)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
