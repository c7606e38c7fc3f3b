/* test_movement_vjp.c — derivatives of ops that move elements, each against differences of the op itself. They are
 * linear in their data, so the two agree but for rounding. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "ir/infer.h"
#include "ir/parse.h"
#include "support/kernel.h"

#define HEAD "<ir_version: 10, opset_import: [\"\" : 24]> "

static void must(rlx_status status, const char *what) {
  if (status != RLX_OK) fail_msg("%s: %s", what, rlx_error_message());
}

static rlx_graph *parsed(const char *body) {
  char source[2048];
  rlx_graph *g = NULL;
  snprintf(source, sizeof source, HEAD "%s", body);
  must(graph_parse(source, strlen(source), "test", NULL, NULL, &g), body);
  return g;
}

static rlx_session *session_of(rlx_graph *g, const char *what) {
  rlx_session *s = NULL;
  must(rlx_session_create(g, NULL, &s), what);
  return s;
}

/* Runs with inputs[i] as i-th input; returns output 0. */
static rlx_tensor *run(rlx_session *s, rlx_tensor *const *inputs, const char *what) {
  rlx_binding *b = NULL;
  rlx_port_info info;
  rlx_tensor *y = NULL;
  must(rlx_binding_create(s, &b), what);
  for (int i = 0; i < rlx_session_input_count(s); i++) {
    must(rlx_session_input(s, i, &info), what);
    must(rlx_binding_input(b, info.name, inputs[i], 0), what);
  }
  must(rlx_run(b, NULL), what);
  must(rlx_session_output(s, 0, &info), what);
  must(rlx_binding_get(b, info.name, &y), what);
  rlx_binding_destroy(b);
  return y;
}

static rlx_tensor *random_tensor(const rlx_type *type, random_state *r) {
  rlx_tensor *t = NULL;
  must(rlx_tensor_create(RLX_FLOAT, type->rank, type->dims, &t), "tensor");
  for (int64_t i = 0; i < rlx_tensor_count(t); i++) ((float *)rlx_tensor_data(t))[i] = random_float(r);
  return t;
}

static double dot(const rlx_tensor *a, const rlx_tensor *b) {
  double sum = 0;
  for (int64_t i = 0; i < rlx_tensor_count(a); i++)
    sum += (double)((float *)rlx_tensor_data(a))[i] * (double)((float *)rlx_tensor_data(b))[i];
  return sum;
}

/* The graph with the gradient of input `which` of its last node as the only output, and dy as its last input. */
static rlx_graph *gradient_graph(const char *body, int which) {
  rlx_graph *g = parsed(body);
  must(infer_graph(g, true), body);
  rlx_node *n = g->nodes.data[g->nodes.count - 1];
  rlx_value *grads[8] = {NULL}, *dys[8] = {NULL};
  dys[0] = rlx_graph_input(g, "dy", &n->outputs[0]->type);
  if (!n->op || !n->op->op.vjp) fail_msg("%s has no vjp", body);
  must(n->op->op.vjp(g, n, dys, grads), body);
  if (!grads[which]) fail_msg("%s: no gradient of input %d", body, which);
  g->outputs.data[0].value->is_output = false;
  g->outputs.count = 0;
  rlx_graph_output(g, grads[which], "dx");
  must(rlx_graph_finish(g), body);
  return g;
}

static void check_gradient(const char *body, int which) {
  random_state r = {3};
  rlx_graph *forward = parsed(body), *backward = gradient_graph(body, which);
  must(infer_graph(forward, true), body);
  size_t inputs = forward->inputs.count;
  rlx_session *f = session_of(forward, body), *b = session_of(backward, body);
  rlx_tensor *in[4] = {NULL};
  for (size_t i = 0; i < inputs; i++) in[i] = random_tensor(&forward->inputs.data[i]->type, &r);
  in[inputs] = random_tensor(&forward->outputs.data[0].value->type, &r);
  rlx_tensor *dx = run(b, in, body), *x = in[which];
  assert_int_equal(rlx_tensor_count(dx), rlx_tensor_count(x));
  for (int64_t i = 0; i < rlx_tensor_count(x); i++) {
    float *v = (float *)rlx_tensor_data(x) + i, kept = *v;
    rlx_tensor *y = run(f, in, body);
    double before = dot(y, in[inputs]);
    rlx_tensor_destroy(y);
    *v = kept + 1;
    y = run(f, in, body);
    double expected = dot(y, in[inputs]) - before, got = (double)((float *)rlx_tensor_data(dx))[i];
    rlx_tensor_destroy(y);
    *v = kept;
    if (fabs(expected - got) > 1e-4 * (1 + fabs(expected)))
      fail_msg("%s\n  dx[%d] is %g, not %g", body, (int)i, got, expected);
  }
  for (size_t i = 0; i <= inputs; i++) rlx_tensor_destroy(in[i]);
  rlx_tensor_destroy(dx);
  rlx_session_destroy(f);
  rlx_session_destroy(b);
  rlx_graph_destroy(forward);
  rlx_graph_destroy(backward);
}

static const char *const first_rows[] = {
    "g (float[2,3] x) => (y) { y = Identity (x) }",
    "g (float[2,3] x) => (y) <int64[2] s = {3, 2}> { y = Reshape (x, s) }",
    "g (float[2,3] x) => (y) { y = Flatten <axis = 0> (x) }",
    "g (float[2,1,3] x) => (y) { y = Squeeze (x) }",
    "g (float[2,3] x) => (y) <int64[1] a = {1}> { y = Unsqueeze (x, a) }",
    "g (float[2,3,4] x) => (y) { y = Transpose <perm = [2, 0, 1]> (x) }",
    "g (float[2,3] x) => (y) { y = Transpose (x) }",
    "g (float[2,3] x, float[2,1] z) => (y) { y = Concat <axis = 1> (x, z) }",
    "g (float[2,4] x) => (y) { y, z = Split <axis = 1> (x) }",
    "g (float[5,4] x) => (y) <int64[2] s = {3, 0}, int64[2] e = {-9, 4}, int64[2] a = {0, 1}, int64[2] t = {-2, 3}> "
    "{ y = Slice (x, s, e, a, t) }",
    "g (float[3,2,2] x) => (y) <int64[2,2] i = {1, -1, 1, 0}> { y = Gather (x, i) }",
    "g (float[2,3,2] x) => (y) <int32[2] i = {1, 1}> { y = Gather <axis = 1> (x, i) }",
    "g (float[2,3,2] x) => (y) <int64 i = {-1}> { y = Gather <axis = 2> (x, i) }",
    "g (float[3,2] x) => (y) <int64[2,2] i = {1, 0, 1, -1}> { y = GatherElements (x, i) }",
    "g (float[3,2] x) => (y) <int64[3,1] i = {1, 1, -1}> { y = GatherND (x, i) }",
    "g (float[2,1] x) => (y) <int64[3] s = {2, 1, 3}> { y = Expand (x, s) }",
    "g (float[2,3] x) => (y) <int64[2] r = {2, 3}> { y = Tile (x, r) }",
    "g (float[2,3] x) => (y) <int64[4] p = {1, 0, -1, 2}> { y = Pad (x, p) }",
    "g (float[2,3] x) => (y) <float c = {2}, int64[1] a = {1}, int64[2] p = {1, 2}> { y = Pad (x, p, c, a) }",
    "g (float[3,2] x) => (y) <int64[2] i = {2, 0}, float[2,2] u = {1, 2, 3, 4}, int64[2,1] j = {2, 0}> "
    "{ y = ScatterND (x, j, u) }",
    "g (float[3] x) => (y) <int64[2] i = {2, 2}, float[2] u = {1, 2}> "
    "{ y = ScatterElements <reduction = \"add\"> (x, i, u) }",
    "g (float[3,3] x) => (y) { y = Trilu <upper = 0> (x) }",
    "g (float[2,4] x) => (y) <int64 a = {1}> { y = CumSum <exclusive = 1> (x, a) }",
    "g (float[3,2] x) => (y) <int64[2] n = {3, 2}> { y = ReverseSequence (x, n) }",
    "g (float[1,4,1,2] x) => (y) { y = DepthToSpace <blocksize = 2, mode = \"CRD\"> (x) }",
    "g (float[1,1,2,4] x) => (y) { y = SpaceToDepth <blocksize = 2> (x) }",
    "g (float[2] x) => (y) { y = Dropout (x) }",
    "g (float[2] x) => (y) <float r = {0.25}, bool t = {1}> { y, m = Dropout <seed = 3> (x, r, t) }",
    "g (float[1,2,3] x) => (y) <float[3] s = {1, 2, 1.5}> { y = Resize (x, , s) }",
    "g (float[4,5] x) => (y) <int64[2] s = {3, 7}> { y = Resize <mode = \"linear\", antialias = 1> (x, , , s) }",
    "g (float[4,3] x) => (y) <int64[1] s = {5}> { y = Resize <mode = \"cubic\", axes = [0]> (x, , , s) }",
    "g (float[3] x) => (y) <float[2] r = {-0.5, 1}, int64[1] s = {5}> "
    "{ y = Resize <mode = \"linear\", coordinate_transformation_mode = \"tf_crop_and_resize\"> (x, r, , s) }",
    "g (float[2,3] x, float[3,4] z) => (y) { y = Einsum <equation = \"ij,jk->ki\"> (x, z) }",
    "g (float[2,1,3] x, float[2,3,4] z) => (y) { y = Einsum <equation = \"...ij,...jk->...ik\"> (x, z) }",
    NULL};
static const char *const second_rows[] = {
    "g (float[2,3] x, float[2,1] z) => (y) { y = Concat <axis = 1> (x, z) }",
    "g (float[2,3] x, float[3,4] z) => (y) { y = Einsum <equation = \"ij,jk->ki\"> (x, z) }", NULL};

static void test_first_input(void **state) {
  (void)state;
  for (int i = 0; first_rows[i]; i++) check_gradient(first_rows[i], 0);
}

static void test_second_input(void **state) {
  (void)state;
  for (int i = 0; second_rows[i]; i++) check_gradient(second_rows[i], 1);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_first_input), cmocka_unit_test(test_second_input)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
