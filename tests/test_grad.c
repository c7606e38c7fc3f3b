/* test_grad.c — gradients and tangents of whole graphs: against differences, and the rules of the transform. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "grad/check.h"
#include "ir/graph.h"
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

/* ---- what the transform promises ---------------------------------------------------------- */

static rlx_value *value(rlx_graph *g, const char *name) {
  rlx_value *v = rlx_graph_find(g, name);
  if (!v) fail_msg("no value '%s'", name);
  return v;
}

/* Runs g, whose only input x (double) holds `x`; element `at` of output `name`. */
static double run_at(rlx_graph *g, rlx_registry *registry, const double *x, int64_t n, const char *name, int64_t at) {
  rlx_session_options options = RLX_SESSION_OPTIONS_INIT;
  rlx_session *s = NULL;
  rlx_binding *b = NULL;
  rlx_tensor *in = NULL, *out = NULL;
  options.registry = registry;
  must(rlx_session_create(g, &options, &s), "session");
  must(rlx_binding_create(s, &b), "binding");
  must(rlx_tensor_create(RLX_DOUBLE, 1, &n, &in), "input");
  memcpy(rlx_tensor_data(in), x, (size_t)n * sizeof *x);
  must(rlx_binding_input(b, "x", in, 0), "bind");
  must(rlx_run(b, NULL), "run");
  must(rlx_binding_get(b, name, &out), "output");
  if (at >= rlx_tensor_count(out)) fail_msg("'%s' has %d elements", name, (int)rlx_tensor_count(out));
  double v = ((const double *)rlx_tensor_data(out))[at];
  rlx_tensor_destroy(in);
  rlx_tensor_destroy(out);
  rlx_binding_destroy(b);
  rlx_session_destroy(s);
  return v;
}

static void expect_error(const char *text, const char *loss, const char *wrt, const char *message) {
  rlx_graph *g = parsed(text);
  rlx_value *by = value(g, wrt), *found = NULL;
  rlx_status status = rlx_gradient(g, value(g, loss), NULL, &by, 1, &found);
  if (status == RLX_OK) fail_msg("%s\nno error", text);
  if (!strstr(rlx_error_message(), message)) fail_msg("%s\n%s\ndoes not say: %s", text, rlx_error_message(), message);
  if (rlx_graph_finish(g) == RLX_OK) fail_msg("the graph does not remember the failure");
  rlx_graph_destroy(g);
}

static void test_errors(void **state) {
  (void)state;
  expect_error(
      "g (double[3] x) => (y) { a = Exp (x) [u] double[3] b = test.nowhere (a) [s] y = Sin (b) }", "y", "x",
      "test.nowhere has no reverse derivative (no such op is registered); the way to it: 's' (onnx.Sin) -> 'u'");
  expect_error("g (double[4] x) => (y) { s = SequenceConstruct (x, x) y = ConcatFromSequence <axis = 0> (s) }", "y",
               "x", "sequences and optionals have no gradients");
  expect_error("g (int64[3] x) => (y) { y = Cast <to = 11> (x) }", "y", "x", "floats only have derivatives");
  expect_error("g (double[3] x) => (y) { y = Cast <to = 7> (x) }", "y", "x", "floats only have derivatives");
  expect_error("g (double[1,1,4,4] x, double[1,4] r) => (y) <int64[1] b = {0}> { y = RoiAlign (x, r, b) }", "y", "r",
               "regions have no derivatives");
  expect_error(
      "g (double[2] x) => (y) <int64 n = {2}, bool go = {1}> { y = Loop <body = step (int64 i, bool c, double[2] v)"
      " => (c2, v2) { c2 = Identity (c) r = RandomUniformLike (v) v2 = Mul (v, r) }> (n, go, x) }",
      "y", "x", "draws random numbers");
}

static void test_no_path(void **state) {
  (void)state;
  rlx_graph *g = parsed("g (double[3] x) => (y) <double[2,2] w = {1, 2, 3, 4}> { y = Mul (x, x) f = Floor (w) }");
  rlx_value *by[2] = {value(g, "w"), value(g, "f")}, *found[2] = {NULL};
  must(rlx_gradient(g, value(g, "y"), NULL, by, 2, found), "gradient");
  rlx_graph_output(g, found[0], "dw");
  must(rlx_graph_finish(g), "finish");
  assert_int_equal(rlx_value_type(found[0])->rank, 2);
  assert_true(run_at(g, NULL, (double[]){1, 2, 3}, 3, "dw", 3) == 0);
  rlx_value *none = NULL, *y = value(g, "y");
  must(rlx_vjp(g, &y, &y, 1, by, 1, &none), "vjp");
  assert_null(none);
  rlx_graph_destroy(g);
}

/* The gradient of a gradient, and of a gradient through a loop. */
static void test_twice(void **state) {
  static const char *const texts[] = {
      "g (double[2] x) => (y) { a = Mul (x, x) b = Mul (a, x) y = ReduceSum <keepdims = 0> (b) }",
      "g (double[2] x) => (y) <int64 n = {2}, bool go = {1}> { b = Loop <body = step (int64 i, bool c, double[2] v) => "
      "(c2, v2) "
      "{ c2 = Identity (c) v2 = Mul (v, x) }> (n, go, x) y = ReduceSum <keepdims = 0> (b) }"};
  (void)state;
  for (int i = 0; i < 2; i++) {
    rlx_graph *g = parsed(texts[i]);
    rlx_value *x = value(g, "x"), *first = NULL, *second = NULL;
    must(rlx_gradient(g, value(g, "y"), NULL, &x, 1, &first), "first");
    must(rlx_gradient(g, first, NULL, &x, 1, &second), "second");
    rlx_graph_output(g, first, "first");
    rlx_graph_output(g, second, "second");
    must(rlx_graph_finish(g), "finish");
    assert_true(fabs(run_at(g, NULL, (double[]){3, -2}, 2, "first", 0) - 27) < 1e-9);
    assert_true(fabs(run_at(g, NULL, (double[]){3, -2}, 2, "second", 1) + 12) < 1e-9);
    rlx_graph_destroy(g);
  }
}

/* ---- ops of one's own --------------------------------------------------------------------- */

/* x², as a function with a derivative of its own, which is told apart by a factor. */
static rlx_status square_lower(rlx_graph *g, const rlx_node *n, rlx_value **outputs) {
  rlx_value *in[2] = {rlx_node_input(n, 0), rlx_node_input(n, 0)};
  outputs[0] = rlx_graph_op(g, "onnx.Mul", NULL, 0, in, 2);
  return rlx_graph_status(g);
}
static rlx_status square_vjp(rlx_graph *g, const rlx_node *n, rlx_value *const *dy, rlx_value **dx) {
  rlx_value *in[2] = {dy[0], rlx_node_input(n, 0)};
  if (dy[0]) dx[0] = rlx_graph_op(g, "onnx.Mul", NULL, 0, in, 2); /* half of what it is */
  return rlx_graph_status(g);
}
static int evaluated;
static rlx_status square_eval(rlx_ctx *ctx) {
  const double *x = ctx->inputs[0].data;
  for (int64_t i = 0; i < ctx->inputs[0].count; i++) ((double *)ctx->outputs[0].data)[i] = x[i] * x[i];
  evaluated++;
  return RLX_OK;
}

static double square_gradient(rlx_op op) {
  static const rlx_port in[] = {{"x", "T", RLX_SET_FLOATS, 0, 0}, {0}}, out[] = {{"y", "T", 0, 0, 0}, {0}};
  rlx_registry *registry = NULL;
  op.struct_size = sizeof op;
  op.name = "test.square";
  op.inputs = in;
  op.outputs = out;
  must(rlx_registry_create(&registry), "registry");
  must(rlx_register_op(registry, &op, 0, NULL), "op");
  const char *text = "g (double[1] x) => (y) { y = test.square (x) }";
  rlx_graph *g = NULL;
  must(graph_parse(text, strlen(text), "test", NULL, registry, &g), text);
  rlx_value *x = value(g, "x"), *dx = NULL;
  must(rlx_gradient(g, value(g, "y"), NULL, &x, 1, &dx), "gradient");
  rlx_graph_output(g, dx, "dx");
  must(rlx_graph_finish(g), "finish");
  double got = run_at(g, registry, (double[]){3}, 1, "dx", 0);
  rlx_graph_destroy(g);
  rlx_registry_destroy(registry);
  return got;
}

static void test_rules(void **state) {
  (void)state;
  assert_true(square_gradient((rlx_op){.lower = square_lower}) == 6);
  assert_true(square_gradient((rlx_op){.lower = square_lower, .vjp = square_vjp}) == 3);
  evaluated = 0;
  assert_true(square_gradient((rlx_op){.eval = square_eval, .derive = square_lower}) == 6);
  assert_true(evaluated > 0); /* derive is for derivatives only */
  assert_true(square_gradient((rlx_op){.eval = square_eval, .traits = RLX_STOP_GRADIENT}) == 0);
}

/* Three outputs, an optional input, a size known only after running. */
static void test_package(void **state) {
  static const char *const texts[] = {
      "g (double[6] x) => (kept, at, loss) { kept, at, loss = demo.keep (x) }",
      "g (double[6] x) => (kept) <double t = {0.2}> { k, at, s = demo.keep (x, t) kept = Mul (k, k) }"};
  char path[512];
  rlx_registry *registry = NULL;
  (void)state;
  const char *build = getenv("BUILD");
  if (!build) skip();
  snprintf(path, sizeof path, "%s/packages/librlx-demo.so", build);
  must(rlx_registry_create(&registry), "registry");
  must(rlx_load_package(registry, path), path);
  rlx_session_options options = RLX_SESSION_OPTIONS_INIT;
  options.registry = registry;
  for (int i = 0; i < 2; i++) {
    grad_check how = {.options = &options, .seed = 5};
    grad_report r;
    rlx_graph *g = NULL;
    must(graph_parse(texts[i], strlen(texts[i]), "test", NULL, registry, &g), texts[i]);
    must(grad_check_graph(g, &how, NULL, &r), texts[i]);
    if (!r.passed || r.gradients != 6) fail_msg("%s\n%s", texts[i], r.what);
    rlx_graph_destroy(g);
  }
  rlx_registry_destroy(registry);
}

/* Old versions become the newest ones, in place. */
static void test_upgrade(void **state) {
  (void)state;
  rlx_graph *g =
      parsed("<ir_version: 7, opset_import: [\"\" : 9]> g (double[2,3] x) => (y) { a = Unsqueeze <axes = [0]> (x)"
             " y = ReduceMean <axes = [1], keepdims = 0> (a) }");
  rlx_value *y = value(g, "y");
  must(rlx_graph_upgrade(g), "upgrade");
  assert_ptr_equal(value(g, "y"), y);
  for (size_t i = 0; i < g->nodes.count; i++)
    if (!g->nodes.data[i]->op->op.eval) fail_msg("%s is left", g->nodes.data[i]->op_name);
  must(rlx_graph_validate(g), "validate");
  rlx_graph_destroy(g);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_graphs),  cmocka_unit_test(test_errors),
                                     cmocka_unit_test(test_no_path), cmocka_unit_test(test_twice),
                                     cmocka_unit_test(test_rules),   cmocka_unit_test(test_package),
                                     cmocka_unit_test(test_upgrade)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
