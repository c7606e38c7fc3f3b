/* test_decode.c — a cache that grows by one each step: built once, bound each step, the right numbers. */
#include <math.h>
#include <rlx/extend.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/text.h"
#include "ir/parse.h"

#define OK(expr)                                                          \
  do {                                                                    \
    if ((expr) != RLX_OK) fail_msg("%s: %s", #expr, rlx_error_message()); \
  } while (0)

enum { HEADS = 2, WIDTH = 4, MODEL = HEADS * WIDTH, STEPS = 512 };

static float weight(int which, int i, int j) { return sinf((float)(which * 131 + i * 17 + j * 7 + 1)) * 0.4f; }

static void add_weight(text *t, const char *name, int which, bool last) {
  text_printf(t, "float[%d,%d] %s = {", MODEL, MODEL, name);
  for (int i = 0; i < MODEL * MODEL; i++)
    text_printf(t, "%s%.9g", i ? "," : "", (double)weight(which, i / MODEL, i % MODEL));
  text_add(t, last ? "}" : "},\n");
}

/* One attention block of a decoder, as an exporter writes it: shapes come from Shape, Gather, Concat. */
static char *decoder(void) {
  text t = {0};
  text_printf(&t,
              "<ir_version: 8, opset_import: [\"\" : 17]>\n"
              "decode (float[1,1,%d] x, float[1,%d,P,%d] past_k, float[1,%d,P,%d] past_v)\n"
              " => (float[1,1,%d] y, float[1,%d,T,%d] k, float[1,%d,T,%d] v) <\n",
              MODEL, HEADS, WIDTH, HEADS, WIDTH, MODEL, HEADS, WIDTH, HEADS, WIDTH);
  add_weight(&t, "wq", 0, false);
  add_weight(&t, "wk", 1, false);
  add_weight(&t, "wv", 2, false);
  add_weight(&t, "wo", 3, true);
  text_printf(
      &t,
      "> {\n s = Shape(x)\n i0 = Constant<value_ints = [0]>()\n i1 = Constant<value_ints = [1]>()\n"
      " b = Gather(s, i0)\n n = Gather(s, i1)\n h = Constant<value_ints = [%d]>()\n d = Constant<value_ints = [%d]>()\n"
      " split = Concat<axis = 0>(b, n, h, d)\n",
      HEADS, WIDTH);
  for (const char *p = "qkv"; *p; p++)
    text_printf(&t, " %c0 = MatMul(x, w%c)\n %c1 = Reshape(%c0, split)\n %c2 = Transpose<perm = [0,2,1,3]>(%c1)\n", *p,
                *p, *p, *p, *p, *p);
  text_printf(
      &t,
      " k = Concat<axis = 2>(past_k, k2)\n v = Concat<axis = 2>(past_v, v2)\n"
      " kt = Transpose<perm = [0,1,3,2]>(k)\n a0 = MatMul(q2, kt)\n scale = Constant<value_float = %.9g>()\n a1 = "
      "Mul(a0, scale)\n"
      " a = Softmax<axis = -1>(a1)\n c0 = MatMul(a, v)\n c1 = Transpose<perm = [0,2,1,3]>(c0)\n back = Shape(x)\n"
      " c2 = Reshape(c1, back)\n y = MatMul(c2, wo)\n}\n",
      1 / sqrt((double)WIDTH));
  return text_take(&t);
}

static void project(const float *x, int which, float *out) {
  for (int j = 0; j < MODEL; j++) {
    double sum = 0;
    for (int i = 0; i < MODEL; i++) sum += (double)x[i] * (double)weight(which, i, j);
    out[j] = (float)sum;
  }
}

/* The same block in plain C over all keys and values so far. */
static void reference(const float *x, float (*keys)[MODEL], float (*values)[MODEL], int count, float *y) {
  float q[MODEL], context[MODEL];
  static double score[STEPS];
  project(x, 0, q);
  project(x, 1, keys[count]);
  project(x, 2, values[count]);
  for (int h = 0; h < HEADS; h++) {
    double total = 0;
    for (int t = 0; t <= count; t++) {
      double dot = 0;
      for (int d = 0; d < WIDTH; d++) dot += (double)q[h * WIDTH + d] * (double)keys[t][h * WIDTH + d];
      total += score[t] = exp(dot / sqrt((double)WIDTH));
    }
    for (int d = 0; d < WIDTH; d++) {
      double sum = 0;
      for (int t = 0; t <= count; t++) sum += score[t] / total * (double)values[t][h * WIDTH + d];
      context[h * WIDTH + d] = (float)sum;
    }
  }
  project(context, 3, y);
}

static void bind(rlx_binding *b, const char *name, rlx_tensor *t) {
  OK(rlx_binding_input(b, name, t, 0));
  rlx_tensor_destroy(t);
}

static void check_step(rlx_binding *b, const float *expected) {
  rlx_tensor *y = NULL;
  OK(rlx_binding_get(b, "y", &y));
  const float *got = rlx_tensor_data(y);
  for (int i = 0; i < MODEL; i++)
    if (fabsf(got[i] - expected[i]) > 1e-4f)
      fail_msg("element %d is %g, should be %g", i, (double)got[i], (double)expected[i]);
  rlx_tensor_destroy(y);
}

static void growing_cache(void **state) {
  (void)state;
  char *source = decoder();
  rlx_graph *g = NULL;
  rlx_session *s = NULL;
  rlx_binding *b = NULL;
  rlx_session_options o = RLX_SESSION_OPTIONS_INIT;
  o.threads = 1;
  OK(graph_parse(source, strlen(source), "decoder", NULL, NULL, &g));
  OK(rlx_session_create(g, &o, &s));
  OK(rlx_binding_create(s, &b));
  static float keys[STEPS][MODEL], values[STEPS][MODEL];
  int64_t empty[] = {1, HEADS, 0, WIDTH}, one[] = {1, 1, MODEL};
  rlx_tensor *k = NULL, *v = NULL;
  OK(rlx_tensor_create(RLX_FLOAT, 4, empty, &k));
  OK(rlx_tensor_create(RLX_FLOAT, 4, empty, &v));
  for (int step = 0; step < STEPS; step++) {
    rlx_tensor *x = NULL;
    OK(rlx_tensor_create(RLX_FLOAT, 3, one, &x));
    float *data = rlx_tensor_data(x), y[MODEL];
    for (int i = 0; i < MODEL; i++) data[i] = cosf((float)(step * MODEL + i));
    reference(data, keys, values, step, y);
    bind(b, "x", x);
    bind(b, "past_k", k); /* the last step's output, without a copy */
    bind(b, "past_v", v);
    OK(rlx_run(b, NULL));
    check_step(b, y);
    OK(rlx_binding_get(b, "k", &k));
    OK(rlx_binding_get(b, "v", &v));
  }
  rlx_session_stats stats = {.struct_size = sizeof stats};
  rlx_session_get_stats(s, &stats);
  assert_int_equal(stats.builds, 1);
  assert_int_equal(stats.binds, STEPS);
  print_message("%lld steps a run, bind %.0f ns a step of it, prepare %.0f ns\n", (long long)stats.steps,
                (double)stats.bind_ns / STEPS / (double)stats.steps,
                (double)stats.prepare_ns / STEPS / (double)stats.steps);
  rlx_tensor_destroy(k);
  rlx_tensor_destroy(v);
  rlx_binding_destroy(b);
  rlx_session_destroy(s);
  rlx_graph_destroy(g);
  rlx_free(source);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(growing_cache)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
