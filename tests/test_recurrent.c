/* test_recurrent.c — the kernels of LSTM, GRU and RNN against their evaluation, on seeded random layers. */
#include <math.h>
#include <rlx/extend.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "backend/cpu/kernels/_recurrent.h"
#include "support/kernel.h"

#define OK(expr)                                                          \
  do {                                                                    \
    if ((expr) != RLX_OK) fail_msg("%s: %s", #expr, rlx_error_message()); \
  } while (0)

enum { OPERANDS = 8, RESULTS = 3 };
static const char *const ops[] = {"onnx.RNN", "onnx.GRU", "onnx.LSTM"};
static const char *const names[OPERANDS] = {"x", "w", "r", "b", "lengths", "h", "c", "p"};
static const char *const results[RESULTS] = {"y", "y_h", "y_c"};

typedef struct layer {
  recurrent_kind kind;
  int64_t steps, batch, input, hidden;
  const char *direction;
  bool constant;     /* W, R and B are */
  uint32_t left_out; /* bit i: operand i */
  rlx_attr attrs[8];
  int attr_count;
  rlx_string functions[6];
  float alpha[6], beta[6];
  rlx_tensor *operands[OPERANDS];
} layer;

static rlx_tensor *random_tensor(random_state *r, int rank, const int64_t *dims, float scale) {
  rlx_tensor *t = NULL;
  OK(rlx_tensor_create(RLX_FLOAT, rank, dims, &t));
  float *data = rlx_tensor_data(t);
  for (int64_t i = 0; i < rlx_tensor_count(t); i++) data[i] = scale * random_float(r);
  return t;
}

static void random_operands(random_state *r, layer *l) {
  bool batch_first = l->attrs[1].i != 0;
  int64_t d = strcmp(l->direction, "bidirectional") == 0 ? 2 : 1, g = recurrent_gates(l->kind), n = l->hidden;
  int64_t x[3] = {batch_first ? l->batch : l->steps, batch_first ? l->steps : l->batch, l->input};
  int64_t state[3] = {batch_first ? l->batch : d, batch_first ? d : l->batch, n};
  float scale = 1 / sqrtf((float)n + 1);
  l->operands[0] = random_tensor(r, 3, x, 1);
  l->operands[1] = random_tensor(r, 3, (int64_t[]){d, g * n, l->input}, 2 * scale);
  l->operands[2] = random_tensor(r, 3, (int64_t[]){d, g * n, n}, 2 * scale);
  l->operands[3] = random_tensor(r, 2, (int64_t[]){d, 2 * g * n}, 1);
  OK(rlx_tensor_create(RLX_INT32, 1, &l->batch, &l->operands[4]));
  for (int64_t i = 0; i < l->batch; i++)
    ((int32_t *)rlx_tensor_data(l->operands[4]))[i] = (int32_t)random_int(r, 0, l->steps);
  l->operands[5] = random_tensor(r, 3, state, 1);
  if (l->kind == RECURRENT_LSTM) {
    l->operands[6] = random_tensor(r, 3, state, 1);
    l->operands[7] = random_tensor(r, 2, (int64_t[]){d, 3 * n}, 1);
  }
  for (int i = 3; i < OPERANDS; i++) {
    if (!(l->left_out >> i & 1)) continue;
    rlx_tensor_destroy(l->operands[i]);
    l->operands[i] = NULL;
  }
}

static void random_functions(random_state *r, layer *l) {
  static const char *const known[] = {"Tanh",       "Sigmoid",     "Relu", "Affine",   "LeakyRelu", "ThresholdedRelu",
                                      "ScaledTanh", "HardSigmoid", "Elu",  "Softsign", "Softplus"};
  size_t count = 2 * (size_t)recurrent_functions(l->kind);
  for (size_t i = 0; i < count; i++) {
    const char *name = known[random_int(r, 0, 10)];
    l->functions[i] = (rlx_string){name, strlen(name)};
    l->alpha[i] = 0.5f + 0.25f * random_float(r);
    l->beta[i] = 0.5f + 0.25f * random_float(r);
  }
  l->attrs[l->attr_count++] =
      (rlx_attr){.name = "activations", .kind = RLX_ATTR_STRINGS, .strings = l->functions, .count = count};
  l->attrs[l->attr_count++] =
      (rlx_attr){.name = "activation_alpha", .kind = RLX_ATTR_FLOATS, .floats = l->alpha, .count = count};
  l->attrs[l->attr_count++] =
      (rlx_attr){.name = "activation_beta", .kind = RLX_ATTR_FLOATS, .floats = l->beta, .count = count};
}

static void random_attrs(random_state *r, layer *l, bool functions) {
  static const char *const directions[] = {"forward", "reverse", "bidirectional"};
  l->direction = directions[random_int(r, 0, 2)];
  l->attrs[0] = (rlx_attr){.name = "direction", .kind = RLX_ATTR_STRING, .s = {l->direction, strlen(l->direction)}};
  l->attrs[1] = (rlx_attr)RLX_ATTR_I("layout", random_int(r, 0, 1));
  l->attr_count = 2;
  if (random_int(r, 0, 3) == 0) l->attrs[l->attr_count++] = (rlx_attr)RLX_ATTR_F("clip", 0.7f);
  bool forget = random_int(r, 0, 2) == 0, reset = random_int(r, 0, 1) == 0;
  if (forget && l->kind == RECURRENT_LSTM) l->attrs[l->attr_count++] = (rlx_attr)RLX_ATTR_I("input_forget", 1);
  if (reset && l->kind == RECURRENT_GRU) l->attrs[l->attr_count++] = (rlx_attr)RLX_ATTR_I("linear_before_reset", 1);
  if (functions && random_int(r, 0, 3) == 0) random_functions(r, l);
}

static rlx_graph *build(const layer *l) {
  rlx_graph *g = NULL;
  OK(rlx_graph_create(NULL, &g));
  rlx_value *values[OPERANDS] = {0};
  int outputs = l->kind == RECURRENT_LSTM ? 3 : 2;
  for (int i = 0; i < OPERANDS; i++) {
    rlx_tensor *t = l->operands[i];
    if (!t) continue;
    rlx_type type = {.kind = RLX_KIND_TENSOR, .dtype = rlx_tensor_dtype(t), .rank = rlx_tensor_rank(t)};
    for (int d = 0; d < type.rank; d++) type.dims[d] = rlx_tensor_dims(t)[d];
    bool constant = l->constant && i >= RECURRENT_W && i <= RECURRENT_B;
    values[i] = constant ? rlx_graph_constant(g, names[i], t) : rlx_graph_input(g, names[i], &type);
  }
  rlx_node_desc desc = {.struct_size = sizeof desc,
                        .op = ops[l->kind],
                        .inputs = values,
                        .input_count = l->kind == RECURRENT_LSTM ? 8 : 6,
                        .attrs = l->attrs,
                        .attr_count = l->attr_count,
                        .output_count = outputs};
  rlx_node *n = rlx_graph_node(g, &desc);
  for (int i = 0; i < outputs && n; i++) rlx_graph_output(g, rlx_node_output(n, i), results[i]);
  OK(rlx_graph_finish(g));
  return g;
}

static void run(const layer *l, rlx_tier tier, int threads, rlx_tensor **out) {
  rlx_pin pin = {.op = ops[l->kind], .tier = tier, .kernel = tier == RLX_TIER_CPU ? "panels" : NULL};
  rlx_session_options options = RLX_SESSION_OPTIONS_INIT;
  options.pins = &pin;
  options.pin_count = 1;
  options.threads = threads;
  rlx_graph *g = build(l);
  rlx_session *s = NULL;
  rlx_binding *b = NULL;
  OK(rlx_session_create(g, &options, &s));
  OK(rlx_binding_create(s, &b));
  for (int i = 0; i < OPERANDS; i++) {
    bool constant = l->constant && i >= RECURRENT_W && i <= RECURRENT_B;
    if (l->operands[i] && !constant) OK(rlx_binding_input(b, names[i], l->operands[i], 0));
  }
  OK(rlx_run(b, NULL));
  OK(rlx_run(b, NULL)); /* the same again */
  for (int i = 0; i < rlx_session_output_count(s); i++) OK(rlx_binding_get(b, results[i], &out[i]));
  rlx_binding_destroy(b);
  rlx_session_destroy(s);
  rlx_graph_destroy(g);
}

static double difference(rlx_tensor *got, rlx_tensor *want) {
  assert_int_equal(rlx_tensor_count(got), rlx_tensor_count(want));
  const float *a = rlx_tensor_data(got), *b = rlx_tensor_data(want);
  double most = 0, magnitude = 1e-9;
  for (int64_t i = 0; i < rlx_tensor_count(want); i++) {
    most = fmax(most, a[i] == a[i] ? fabs((double)a[i] - (double)b[i]) : (double)INFINITY);
    magnitude = fmax(magnitude, fabs((double)b[i]));
  }
  return most / magnitude;
}

static void check(layer *l, int threads, double tolerance) {
  rlx_tensor *got[RESULTS] = {0}, *want[RESULTS] = {0};
  run(l, RLX_TIER_EVAL, 1, want);
  run(l, RLX_TIER_CPU, threads, got);
  for (int i = 0; i < RESULTS && want[i]; i++) {
    double d = difference(got[i], want[i]);
    if (d > tolerance) {
      char *text = NULL;
      rlx_graph *g = build(l);
      OK(rlx_graph_print(g, &text));
      print_message("%s differs by %g with %d threads\n%s\n", results[i], d, threads, text);
      fail();
    }
    rlx_tensor_destroy(got[i]);
    rlx_tensor_destroy(want[i]);
  }
  for (int i = 0; i < OPERANDS; i++) rlx_tensor_destroy(l->operands[i]);
}

static void random_layers(void **state) {
  (void)state;
  random_state r = {5};
  for (int i = 0; i < 300; i++) {
    layer l = {.kind = (recurrent_kind)random_int(&r, 0, 2),
               .steps = random_int(&r, 0, 7),
               .batch = random_int(&r, 0, 9),
               .input = random_int(&r, 0, 40),
               .hidden = random_int(&r, i ? 1 : 0, 70),
               .constant = random_int(&r, 0, 1) == 0,
               .left_out = (uint32_t)random_int(&r, 0, 255)};
    random_attrs(&r, &l, true);
    random_operands(&r, &l);
    check(&l, (int)random_int(&r, 1, 3), 1e-5);
  }
}

/* Enough work for several threads: a divided batch, divided products, several chunks of steps. Not with functions that
 * grow without bound. */
static void large_layers(void **state) {
  (void)state;
  static const int64_t shapes[][4] = {
      {3, 1, 300, 256}, {150, 2, 16, 33}, {5, 24, 64, 128}, {2, 9, 257, 250}, {1, 200, 8, 64}};
  random_state r = {9};
  for (int i = 0; i < 15; i++) {
    const int64_t *s = shapes[i / 3];
    layer l = {.kind = (recurrent_kind)(i % 3),
               .steps = s[0],
               .batch = s[1],
               .input = s[2],
               .hidden = s[3],
               .constant = i % 2 == 0,
               .left_out = i % 4 == 0 ? 1u << RECURRENT_LENGTHS : 0};
    random_attrs(&r, &l, false);
    random_operands(&r, &l);
    check(&l, 1 + i % 4, 2e-5);
  }
}

static rlx_status create_error(const layer *l, rlx_tier tier) {
  rlx_pin pin = {.op = ops[l->kind], .tier = tier};
  rlx_session_options options = RLX_SESSION_OPTIONS_INIT;
  options.pins = &pin;
  options.pin_count = 1;
  rlx_graph *g = build(l);
  rlx_session *s = NULL;
  rlx_binding *b = NULL;
  rlx_status status = rlx_session_create(g, &options, &s);
  if (status == RLX_OK) {
    OK(rlx_binding_create(s, &b));
    for (int i = 0; i < OPERANDS && status == RLX_OK; i++)
      if (l->operands[i]) status = rlx_binding_input(b, names[i], l->operands[i], 0);
    if (status == RLX_OK) status = rlx_run(b, NULL);
    rlx_binding_destroy(b);
    rlx_session_destroy(s);
  }
  rlx_graph_destroy(g);
  return status;
}

/* Operands that do not fit together and lengths out of range are errors, not reads out of bounds. */
static void wrong_operands(void **state) {
  (void)state;
  random_state r = {3};
  for (int i = 1; i < OPERANDS; i++) {
    layer l = {.kind = RECURRENT_LSTM, .steps = 3, .batch = 2, .input = 4, .hidden = 5};
    random_attrs(&r, &l, false);
    random_operands(&r, &l);
    if (i == RECURRENT_LENGTHS) {
      ((int32_t *)rlx_tensor_data(l.operands[i]))[1] = 4;
    } else {
      const int64_t *dims = rlx_tensor_dims(l.operands[i]);
      int rank = rlx_tensor_rank(l.operands[i]);
      int64_t other[3] = {dims[0], dims[1], rank == 3 ? dims[2] : 0};
      other[1] += 1;
      rlx_tensor_destroy(l.operands[i]);
      l.operands[i] = random_tensor(&r, rank, other, 1);
    }
    assert_int_not_equal(create_error(&l, RLX_TIER_CPU), RLX_OK);
    for (int k = 0; k < OPERANDS; k++) rlx_tensor_destroy(l.operands[k]);
  }
}

/* ---- each instruction set --------------------------------------------------------------------------------------- */

enum { MOST_ROWS = 13, MOST = 150 };

static void check_product(const recurrent_table *table, random_state *r) {
  static float matrix[MOST][MOST], packed[4 * MOST * MOST], x[MOST_ROWS][MOST], y[MOST_ROWS][MOST], start[MOST];
  const float *rows[MOST_ROWS];
  int64_t depth = random_int(r, 0, MOST), columns = random_int(r, 1, MOST), count = random_int(r, 1, MOST_ROWS);
  int64_t width = table->width, panels = (columns + width - 1) / width;
  bool add = random_int(r, 0, 1);
  for (int64_t i = 0; i < columns * MOST; i++) matrix[i / MOST][i % MOST] = random_float(r);
  for (int64_t i = 0; i < count * MOST; i++) x[i / MOST][i % MOST] = random_float(r), y[i / MOST][i % MOST] = 9;
  for (int64_t i = 0; i < MOST; i++) start[i] = random_float(r);
  for (int64_t i = 0; i < count; i++) rows[i] = x[i];
  for (int64_t i = 0; i < panels * width * depth; i++) {
    int64_t row = i / width / depth * width + i % width, k = i / width % depth;
    packed[i] = row < columns ? matrix[row][k] : 0;
  }
  table->product(&(recurrent_product){.packed = packed,
                                      .depth = depth,
                                      .columns = columns,
                                      .x = rows,
                                      .rows = count,
                                      .y = y[0],
                                      .y_stride = MOST,
                                      .start = add ? NULL : start},
                 0, panels);
  for (int64_t i = 0; i < count; i++) {
    for (int64_t j = 0; j < columns; j++) {
      double sum = add ? 9 : (double)start[j];
      for (int64_t k = 0; k < depth; k++) sum += (double)x[i][k] * (double)matrix[j][k];
      if (fabs(sum - (double)y[i][j]) > 2e-5) fail_msg("width %d: %g, not %g", table->width, (double)y[i][j], sum);
    }
    for (int64_t j = columns; j < MOST; j++) assert_true(y[i][j] == 9);
  }
}

static void check_activations(const recurrent_table *table, random_state *r) {
  for (int kind = ACTIVATION_TANH; kind <= ACTIVATION_SOFTPLUS; kind++) {
    activation f = {(activation_kind)kind, 0.75, 0.5};
    for (int clipped = 0; clipped < 2; clipped++) {
      float x[61], y[61];
      for (int i = 0; i < 61; i++) y[i] = x[i] = 4 * random_float(r);
      table->activate(&f, clipped ? 1.5f : 0, y, 61);
      for (int i = 0; i < 61; i++) {
        double want = activation_apply(&f, clipped ? fmin(fmax((double)x[i], -1.5), 1.5) : (double)x[i]);
        if (fabs(want - (double)y[i]) > 1e-6)
          fail_msg("function %d of %g: %g, not %g", kind, (double)x[i], (double)y[i], want);
      }
    }
  }
}

static void tables(void **state) {
  (void)state;
  random_state r = {1};
  const recurrent_table *list[3] = {&recurrent_table_base, recurrent_table_best()};
  int count = 2;
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) list[count++] = &recurrent_table_avx2;
#endif
  for (int i = 0; i < count; i++) {
    for (int n = 0; n < 60; n++) check_product(list[i], &r);
    check_activations(list[i], &r);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(random_layers), cmocka_unit_test(large_layers),
                                     cmocka_unit_test(wrong_operands), cmocka_unit_test(tables)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
