/* test_nn_vjp.c — derivatives of products, convolutions, reductions and softmax against central differences. */
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

#define STEP 0x1p-7f
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
  for (int64_t i = 0; i < rlx_tensor_count(t); i++) ((float *)rlx_tensor_data(t))[i] = 1.5f + random_float(r);
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
    *v = kept - STEP;
    rlx_tensor *y = run(f, in, body);
    double before = dot(y, in[inputs]);
    rlx_tensor_destroy(y);
    *v = kept + STEP;
    y = run(f, in, body);
    double expected = (dot(y, in[inputs]) - before) / (2 * (double)STEP),
           got = (double)((float *)rlx_tensor_data(dx))[i];
    rlx_tensor_destroy(y);
    *v = kept;
    if (fabs(expected - got) > 5e-3 * (1 + fabs(expected)))
      fail_msg("%s\n  dx[%d] is %g, not %g", body, (int)i, got, expected);
  }
  for (size_t i = 0; i <= inputs; i++) rlx_tensor_destroy(in[i]);
  rlx_tensor_destroy(dx);
  rlx_session_destroy(f);
  rlx_session_destroy(b);
  rlx_graph_destroy(forward);
  rlx_graph_destroy(backward);
}

static const char *const rows[] = {
    "g (float[2,1,3,4] x, float[3,4,2] z) => (y) { y = MatMul (x, z) }",
    "g (float[3,4] x, float[4,2] z, float[2] c) => (y) { y = Gemm <alpha = 0.5, beta = 2.0> (x, z, c) }",
    "g (float[4,3] x, float[2,4] z, float[3,1] c) => (y) { y = Gemm <transA = 1, transB = 1> (x, z, c) }",
    "g (float[3,4] x, float[2,4] z) => (y) { y = Gemm <transB = 1> (x, z) }",
    "g (float[4,3] x, float[4,2] z) => (y) { y = Gemm <transA = 1> (x, z) }",
    "g (float[2,5,3] x) => (y) { y = Softmax <axis = 1> (x) }",
    "g (float[2,5] x) => (y) { y = LogSoftmax (x) }",
    "g (float[2,3,2] x) => (y) <int64[2] a = {0, -1}> { y = ReduceSum (x, a) }",
    "g (float[2,3,2] x) => (y) <int64[2] a = {0, -1}> { y = ReduceMean <keepdims = 0> (x, a) }",
    "g (float[2,3] x) => (y) { y = ReduceMean <keepdims = 0> (x) }",
    "g (float[2,3] x) => (y) <int64[1] a = {1}> { y = ReduceMax (x, a) }",
    "g (float[2,3] x) => (y) <int64[1] a = {0}> { y = ReduceMin <keepdims = 0> (x, a) }",
    "g (float[2,3] x) => (y) <int64[1] a = {1}> { y = ReduceProd (x, a) }",
    "g (float[2,3] x) => (y) <int64[1] a = {1}> { y = ReduceL1 (x, a) }",
    "g (float[2,3] x) => (y) <int64[1] a = {1}> { y = ReduceL2 <keepdims = 0> (x, a) }",
    "g (float[2,3] x) => (y) <int64[1] a = {1}> { y = ReduceLogSum (x, a) }",
    "g (float[2,3] x) => (y) <int64[1] a = {1}> { y = ReduceLogSumExp (x, a) }",
    "g (float[2,3] x) => (y) <int64[1] a = {1}> { y = ReduceSumSquare (x, a) }",
    "g (float[2,3,4] x, float[3,4] z, float[3,4] c) => (y) { y = LayerNormalization <axis = 1> (x, z, c) }",
    "g (float[3,5] x, float[5] z) => (y) { y = LayerNormalization (x, z) }",
    "g (float[3,5] x, float[5] z) => (y) { y = RMSNormalization (x, z) }",
    "g (float[2,3,2,3] x) => (y) { y = GlobalAveragePool (x) }",
    "g (float[2,2,5,4] x, float[3,2,3,2] z, float[3] c) => (y) { y = Conv <strides = [2, 1], pads = [1, 0, 0, 1]> (x, "
    "z, c) }",
    "g (float[2,4,7] x, float[6,2,2] z) => (y) { y = Conv <group = 2, dilations = [2], strides = [2], pads = [0, 1]> "
    "(x, z) }",
    "g (float[1,3,6] x, float[3,1,3] z) => (y) { y = Conv <group = 3, strides = [2], auto_pad = \"SAME_UPPER\"> (x, z) "
    "}"};

/* By every input of the row. */
static void test_rows(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    rlx_graph *g = parsed(rows[i]);
    int inputs = (int)g->inputs.count;
    rlx_graph_destroy(g);
    for (int which = 0; which < inputs; which++) check_gradient(rows[i], which);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_rows)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
