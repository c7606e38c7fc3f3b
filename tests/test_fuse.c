/* test_fuse.c — fusion: random graphs with and without the pass, users' kernels and pins are respected. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "ir/dtype.h"
#include "ir/graph.h"
#include "support/kernel.h"

#define OK(expression)                                                                                                 \
  do {                                                                                                                 \
    if ((expression) != RLX_OK) fail_msg("%s: %s", #expression, rlx_error_message());                                  \
  } while (0)

enum { MAX_INPUTS = 4, MAX_OUTPUTS = 8, MAX_NODES = 40 };

/* ---- running ---- */

typedef struct run_result {
  rlx_tensor *outputs[MAX_OUTPUTS];
  int steps;
} run_result;

static void run_graph(rlx_graph *g, rlx_tensor *const *inputs, const rlx_session_options *options, run_result *out) {
  rlx_session *s;
  rlx_binding *b;
  OK(rlx_session_create(g, options, &s));
  OK(rlx_binding_create(s, &b));
  for (size_t i = 0; i < g->inputs.count; i++) {
    OK(rlx_binding_input(b, g->inputs.data[i]->name, inputs[i], 0));
  }
  OK(rlx_run(b, NULL));
  for (size_t i = 0; i < g->outputs.count; i++) OK(rlx_binding_get(b, g->outputs.data[i].name, &out->outputs[i]));
  rlx_session_stats stats = {.struct_size = sizeof stats};
  rlx_session_get_stats(s, &stats);
  out->steps = (int)stats.steps;
  rlx_binding_destroy(b);
  rlx_session_destroy(s);
}

static void release(run_result *r) {
  for (int i = 0; i < MAX_OUTPUTS; i++) rlx_tensor_destroy(r->outputs[i]);
}

static double difference(const rlx_tensor *a, const rlx_tensor *b) {
  double worst = 0;
  assert_int_equal(a->count, b->count);
  for (int64_t i = 0; i < a->count; i++) {
    double x = dtype_load(a->dtype, a->data, i), y = dtype_load(b->dtype, b->data, i);
    if (x == y || (x != x && y != y)) continue;
    double error = fabs(x - y) / (fabs(y) + 0.25);
    if (!(error <= worst)) worst = error;
  }
  return worst;
}

/* ---- random graphs ---- */

typedef struct generator {
  random_state r;
  rlx_graph *g;
  rlx_value *floats[MAX_NODES + MAX_INPUTS], *bools[MAX_NODES];
  int float_count, bool_count;
} generator;

static rlx_value *pick(generator *k) { return k->floats[random_int(&k->r, 0, k->float_count - 1)]; }

static rlx_value *scalar(generator *k) {
  rlx_tensor *t;
  OK(rlx_tensor_create(RLX_FLOAT, 0, NULL, &t));
  *(float *)t->data = random_float(&k->r) * 2;
  rlx_value *v = rlx_graph_constant(k->g, NULL, t);
  rlx_tensor_destroy(t);
  return v;
}

static rlx_value *add(generator *k, const char *op, rlx_value *a, rlx_value *b, rlx_value *c) {
  rlx_value *in[3] = {a, b, c};
  return rlx_graph_op(k->g, op, NULL, 0, in, c ? 3 : b ? 2 : 1);
}

static void add_random_node(generator *k) {
  static const char *const unary[] = {"onnx.Relu", "onnx.Exp", "onnx.Tanh", "onnx.Neg", "onnx.Abs", "onnx.Sigmoid"};
  static const char *const binary[] = {"onnx.Add", "onnx.Sub", "onnx.Mul", "onnx.Max", "onnx.Mean", "onnx.Div"};
  int64_t kind = random_int(&k->r, 0, 9);
  rlx_value *made;
  if (kind < 3) {
    made = add(k, unary[random_int(&k->r, 0, 5)], pick(k), NULL, NULL);
  } else if (kind < 6) {
    made = add(k, binary[random_int(&k->r, 0, 5)], pick(k), pick(k), NULL);
  } else if (kind == 6) {
    made = add(k, binary[random_int(&k->r, 0, 5)], pick(k), scalar(k), NULL);
  } else if (kind == 7) {
    made = add(k, "onnx.Clip", pick(k), scalar(k), NULL);
  } else if (kind == 8 || k->bool_count == 0) {
    k->bools[k->bool_count++] = add(k, "onnx.Less", pick(k), pick(k), NULL);
    return;
  } else {
    made = add(k, "onnx.Where", k->bools[random_int(&k->r, 0, k->bool_count - 1)], pick(k), pick(k));
  }
  k->floats[k->float_count++] = made;
}

static int check_random(uint64_t seed) {
  static const int64_t shapes[MAX_INPUTS][3] = {{3, 5, 130}, {3, 1, 130}, {1, 5, 1}, {1, 1, 1}};
  generator k = {.r = {seed}};
  rlx_tensor *inputs[MAX_INPUTS];
  OK(rlx_graph_create(NULL, &k.g));
  bool symbolic = seed % 3 == 0;
  for (int i = 0; i < MAX_INPUTS; i++) {
    char name[16];
    snprintf(name, sizeof name, "x%d", i);
    OK(rlx_tensor_create(RLX_FLOAT, 3, shapes[i], &inputs[i]));
    for (int64_t e = 0; e < inputs[i]->count; e++) ((float *)inputs[i]->data)[e] = random_float(&k.r) * 3;
    rlx_type type;
    rlx_tensor_type(inputs[i], &type);
    if (symbolic) type.dims[0] = type.dims[2] = RLX_UNKNOWN;
    k.floats[k.float_count++] = rlx_graph_input(k.g, name, &type);
  }
  int nodes = (int)random_int(&k.r, 3, MAX_NODES - 1);
  for (int i = 0; i < nodes; i++) add_random_node(&k);
  int outputs = (int)random_int(&k.r, 1, 3);
  for (int i = 0; i < outputs; i++) {
    char name[16];
    snprintf(name, sizeof name, "y%d", i);
    rlx_graph_output(k.g, add(&k, "onnx.Add", k.floats[k.float_count - 1 - i], pick(&k), NULL), name);
  }
  OK(rlx_graph_finish(k.g));
  run_result with = {{NULL}, 0}, without = {{NULL}, 0};
  rlx_session_options options = RLX_SESSION_OPTIONS_INIT;
  options.threads = 2;
  options.debug = "validate";
  run_graph(k.g, inputs, &options, &with);
  options.disable_passes = "fuse";
  run_graph(k.g, inputs, &options, &without);
  for (int i = 0; i < outputs; i++) {
    double worst = difference(with.outputs[i], without.outputs[i]);
    if (worst > 1e-5) fail_msg("seed %llu, output %d: differs by %g", (unsigned long long)seed, i, worst);
  }
  int saved = without.steps - with.steps;
  assert_true(saved >= 0);
  release(&with);
  release(&without);
  for (int i = 0; i < MAX_INPUTS; i++) rlx_tensor_destroy(inputs[i]);
  rlx_graph_destroy(k.g);
  return saved;
}

static void test_random(void **state) {
  (void)state;
  int saved = 0;
  for (uint64_t seed = 1; seed <= 150; seed++) saved += check_random(seed);
  assert_true(saved > 150); /* the pass does something */
}

/* ---- activations ---- */

static void test_activations(void **state) {
  (void)state;
  static const char source[] =
      "<ir_version: 8, opset_import: [\"\" : 17]> g (float[2000] x) => (a, b, c, d)\n"
      "<float root = {1.4142135}, float one = {1}, float half = {0.5}, float three = {3}, float cube = {0.044715},\n"
      " float slope = {0.7978846}, float zero = {0}, float six = {6}>\n"
      "{ a1 = Div (x, root) a2 = Erf (a1) a3 = Add (a2, one) a4 = Mul (x, a3) a = Mul (a4, half)\n"
      "  b1 = Pow (x, three) b2 = Mul (b1, cube) b3 = Add (x, b2) b4 = Mul (b3, slope) b5 = Tanh (b4)\n"
      "  b6 = Add (b5, one) b7 = Mul (x, b6) b = Mul (half, b7)\n"
      "  c1 = Sigmoid (x) c = Mul (x, c1)\n"
      "  d1 = Add (x, three) d2 = Clip (d1, zero, six) d3 = Mul (x, d2) d = Div (d3, six) }";
  rlx_graph *g;
  rlx_tensor *x;
  OK(rlx_graph_load_memory(source, strlen(source), NULL, &g));
  OK(rlx_tensor_create(RLX_FLOAT, 1, (const int64_t[]){2000}, &x));
  for (int i = 0; i < 2000; i++) ((float *)x->data)[i] = (float)(i - 1000) * 0.02f;
  run_result with = {{NULL}, 0}, without = {{NULL}, 0};
  rlx_session_options options = RLX_SESSION_OPTIONS_INIT;
  run_graph(g, &x, &options, &with);
  options.disable_passes = "fuse";
  run_graph(g, &x, &options, &without);
  assert_int_equal(with.steps, 4);
  for (int i = 0; i < 4; i++) assert_true(difference(with.outputs[i], without.outputs[i]) < 1e-5);
  release(&with);
  release(&without);
  rlx_tensor_destroy(x);
  rlx_graph_destroy(g);
}

/* ---- half floats ---- */

static void test_half(void **state) {
  (void)state;
  static const char source[] =
      "<ir_version: 8, opset_import: [\"\" : 17]> g (float16[700] x, float16[1] w) => (y, z)\n"
      "{ a = Sigmoid (x) b = Mul (x, a) c = Add (b, w) y = Tanh (c) d = Less (x, w) e = Neg (x) z = Where (d, e, w) }";
  rlx_graph *g;
  rlx_tensor *in[2];
  OK(rlx_graph_load_memory(source, strlen(source), NULL, &g));
  for (int i = 0; i < 2; i++) {
    OK(rlx_tensor_create(RLX_FLOAT16, 1, (const int64_t[]){i ? 1 : 700}, &in[i]));
    for (int e = 0; e < in[i]->count; e++) dtype_store(RLX_FLOAT16, in[i]->data, e, (e - 300) * 0.01);
  }
  run_result with = {{NULL}, 0}, without = {{NULL}, 0};
  rlx_session_options options = RLX_SESSION_OPTIONS_INIT;
  run_graph(g, in, &options, &with);
  options.disable_passes = "fuse";
  run_graph(g, in, &options, &without);
  assert_int_equal(with.steps, 2);
  for (int i = 0; i < 2; i++) assert_true(difference(with.outputs[i], without.outputs[i]) < 2e-2);
  release(&with);
  release(&without);
  rlx_tensor_destroy(in[0]);
  rlx_tensor_destroy(in[1]);
  rlx_graph_destroy(g);
}

/* ---- what a user asked for stays ---- */

static int calls;

static rlx_status counting_relu(rlx_ctx *ctx) {
  calls++;
  const float *x = ctx->inputs[0].data;
  float *y = ctx->outputs[0].data;
  for (int64_t i = 0; i < ctx->outputs[0].count; i++) y[i] = x[i] > 0 ? x[i] : 0;
  return RLX_OK;
}

static rlx_graph *chain(void) {
  static const char source[] = "<ir_version: 8, opset_import: [\"\" : 17]> g (float[4] x, float[4] w) => (y, k)\n"
                               "<float[4] c = {-1, 2, -3, 4}> { [first] s = Add (x, w) [middle] r = Relu (s) [last] y "
                               "= Mul (r, w) k = Relu (c) }";
  rlx_graph *g;
  OK(rlx_graph_load_memory(source, strlen(source), NULL, &g));
  return g;
}

static void run_chain(const rlx_session_options *options, int expected_steps) {
  rlx_graph *g = chain();
  rlx_tensor *in[2];
  for (int i = 0; i < 2; i++) {
    OK(rlx_tensor_create(RLX_FLOAT, 1, (const int64_t[]){4}, &in[i]));
    for (int e = 0; e < 4; e++) ((float *)in[i]->data)[e] = (float)(e - 2 + i);
  }
  run_result r = {{NULL}, 0};
  run_graph(g, in, options, &r);
  for (int e = 0; e < 4; e++) {
    float s = (float)(2 * e - 3), w = (float)(e - 1);
    assert_true(((const float *)r.outputs[0]->data)[e] == (s > 0 ? s : 0) * w);
  }
  assert_true(((const float *)r.outputs[1]->data)[3] == 4);
  if (expected_steps) assert_int_equal(r.steps, expected_steps);
  release(&r);
  rlx_tensor_destroy(in[0]);
  rlx_tensor_destroy(in[1]);
  rlx_graph_destroy(g);
}

static void test_user_kernel(void **state) {
  (void)state;
  static const rlx_cpu_kernel kernel = {.struct_size = sizeof(rlx_cpu_kernel),
                                        .head = {.op = "onnx.Relu", .name = "counting", .priority = 1},
                                        .run = counting_relu};
  rlx_registry *registry;
  OK(rlx_registry_create(&registry));
  OK(rlx_register_cpu_kernel(registry, &kernel, 0, NULL));
  rlx_session_options options = RLX_SESSION_OPTIONS_INIT;
  options.registry = registry;
  calls = 0;
  run_chain(&options, 0);
  assert_int_equal(calls, 2); /* in the chain, and on the constant */
  rlx_registry_destroy(registry);
}

static void test_pin(void **state) {
  (void)state;
  rlx_pin pin = {.node = "middle", .tier = RLX_TIER_EVAL};
  rlx_session_options options = RLX_SESSION_OPTIONS_INIT;
  run_chain(&options, 1);
  options.pins = &pin;
  options.pin_count = 1;
  run_chain(&options, 3);
}

/* ---- short memory ---- */

/* Compiling with the n-th allocation failing gives a status; the next attempt works. */
static void test_short_memory(void **state) {
  (void)state;
  static const char source[] =
      "<ir_version: 8, opset_import: [\"\" : 17]> g (float[2,6] x) => (y)\n"
      "<float[6] scale = {1, 2, 3, 4, 5, 6}, float[6] bias = {6, 5, 4, 3, 2, 1}, float e = {0.5}, float two = {2},\n"
      " int64[1] last = {1}>\n"
      "{ m = ReduceMean <axes = [1]> (x) d = Sub (x, m) s = Pow (d, two) v = ReduceMean <axes = [1]> (s)\n"
      "  a = Add (v, e) q = Sqrt (a) n = Div (d, q) t = Mul (n, scale) l = Add (t, bias)\n"
      "  h = Sigmoid (l) y = Mul (h, l) }";
  rlx_graph *g;
  OK(rlx_graph_load_memory(source, strlen(source), NULL, &g));
  rlx_session_options options = RLX_SESSION_OPTIONS_INIT;
  rlx_status status = RLX_OUT_OF_MEMORY;
  for (int64_t n = 1; n < 100000 && status != RLX_OK; n++) {
    rlx_session *s = NULL;
    mem_inject(n, 0);
    status = rlx_session_create(g, &options, &s);
    mem_inject(0, 0);
    assert_true(status == RLX_OK || status == RLX_OUT_OF_MEMORY);
    rlx_session_destroy(s);
  }
  assert_int_equal(status, RLX_OK);
  rlx_graph_destroy(g);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_random),      cmocka_unit_test(test_activations), cmocka_unit_test(test_half),
      cmocka_unit_test(test_user_kernel), cmocka_unit_test(test_pin),         cmocka_unit_test(test_short_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
