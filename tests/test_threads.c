/* test_threads.c — many threads on one session, and registries changed while others look things up. */
#include <pthread.h>
#include <rlx/extend.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ir/parse.h"

enum { THREADS = 8, ROUNDS = 60 };

#define HEAD "<ir_version: 8, opset_import: [\"\" : 17, \"busy\" : 1]>\n"

static const char source[] =
    HEAD "g (float[N,4] x) => (float[N,4] y, float[M] p) <float[4,4] w = {1,0,0,0, 0,2,0,0, 0,0,3,0, 0,0,0,4}> {\n"
         " a = MatMul(x, w)\n b = Relu(a)\n c = Add(b, x)\n y = busy.double(c)\n p = busy.positive(y) }";

static rlx_status double_eval(rlx_ctx *ctx) {
  const float *x = ctx->inputs[0].data;
  float *y = ctx->outputs[0].data;
  for (int64_t i = 0; i < ctx->inputs[0].count; i++) y[i] = 2 * x[i];
  return RLX_OK;
}

static rlx_status positive_infer(rlx_infer *ctx) {
  int64_t unknown = RLX_UNKNOWN;
  rlx_infer_set(ctx, 0, 1, &unknown);
  return RLX_OK;
}

static rlx_status positive_eval(rlx_ctx *ctx) {
  const float *x = ctx->inputs[0].data;
  int64_t n = 0;
  for (int64_t i = 0; i < ctx->inputs[0].count; i++) n += x[i] > 0;
  float *y = rlx_output_shape(ctx, 0, 1, &n);
  for (int64_t i = 0; y && i < ctx->inputs[0].count; i++)
    if (x[i] > 0) *y++ = x[i];
  return y ? RLX_OK : RLX_KERNEL;
}

static const rlx_port in[] = {{"X", "T", RLX_SET_FLOATS, 0, 0}, {0}}, out[] = {{"Y", "T", 0, 0, 0}, {0}};
static const rlx_op op_double = {
    .struct_size = sizeof(rlx_op), .name = "busy.double", .inputs = in, .outputs = out, .eval = double_eval};
static const rlx_op op_positive = {.struct_size = sizeof(rlx_op),
                                   .name = "busy.positive",
                                   .inputs = in,
                                   .outputs = out,
                                   .infer = positive_infer,
                                   .eval = positive_eval};
static const rlx_cpu_kernel kernel_double = {
    sizeof(rlx_cpu_kernel), {.op = "busy.double", .name = "other"}, double_eval};
static const rlx_cpu_kernel kernel_serial = {
    sizeof(rlx_cpu_kernel), {.op = "busy.positive", .name = "serial", .traits = RLX_NOT_THREAD_SAFE}, positive_eval};

static int set_up(void **state) {
  (void)state;
  if (rlx_register_op(NULL, &op_double, 0, NULL) != RLX_OK || rlx_register_op(NULL, &op_positive, 0, NULL) != RLX_OK)
    return -1;
  return rlx_register_cpu_kernel(NULL, &kernel_serial, 0, NULL) == RLX_OK ? 0 : -1;
}

static rlx_session *make_session(int runs) {
  rlx_graph *g = NULL;
  rlx_session *s = NULL;
  rlx_session_options o = RLX_SESSION_OPTIONS_INIT;
  o.max_concurrent_runs = runs;
  o.threads = 1;
  if (graph_parse(source, sizeof source - 1, "test", NULL, NULL, &g) != RLX_OK) return NULL;
  if (rlx_session_create(g, &o, &s) != RLX_OK) s = NULL;
  rlx_graph_destroy(g);
  return s;
}

/* What a thread of the test found wrong; cmocka's asserts belong to the main thread. */
typedef struct worker {
  rlx_session *session;
  int number;
  char problem[400];
} worker;

static void note(worker *w, const char *what) {
  if (!*w->problem) snprintf(w->problem, sizeof w->problem, "%s: %s", what, rlx_error_message());
}

static void check_result(worker *w, rlx_binding *b, const float *x, int64_t rows) {
  rlx_tensor *y = NULL, *p = NULL;
  if (rlx_binding_get(b, "y", &y) != RLX_OK || rlx_binding_get(b, "p", &p) != RLX_OK) note(w, "get");
  int64_t positive = 0;
  for (int64_t i = 0; y && i < rows * 4; i++) {
    float scaled = x[i] * (float)(i % 4 + 1);
    float expected = 2 * ((scaled > 0 ? scaled : 0) + x[i]);
    positive += expected > 0;
    if (((float *)rlx_tensor_data(y))[i] != expected) note(w, "wrong value");
  }
  if (p && rlx_tensor_count(p) != positive) note(w, "wrong size");
  rlx_tensor_destroy(y);
  rlx_tensor_destroy(p);
}

static void run_once(worker *w, rlx_binding *b, int round) {
  int64_t dims[2] = {1 + (round * 7 + w->number) % 5, 4};
  rlx_tensor *x = NULL;
  if (rlx_tensor_create(RLX_FLOAT, 2, dims, &x) != RLX_OK) {
    note(w, "create");
    return;
  }
  float *data = rlx_tensor_data(x);
  for (int64_t i = 0; i < dims[0] * 4; i++) data[i] = (float)((i * 5 + round + w->number) % 11 - 5);
  if (rlx_binding_input(b, "x", x, 0) != RLX_OK) note(w, "bind");
  if (rlx_run(b, NULL) != RLX_OK)
    note(w, "run");
  else
    check_result(w, b, data, dims[0]);
  rlx_tensor_destroy(x);
}

static void *run_many(void *arg) {
  worker *w = arg;
  rlx_binding *b = NULL;
  if (rlx_binding_create(w->session, &b) != RLX_OK) note(w, "binding");
  for (int round = 0; b && round < ROUNDS; round++) run_once(w, b, round);
  rlx_binding_destroy(b);
  return NULL;
}

static void run_all(void *(*body)(void *), rlx_session *s) {
  pthread_t threads[THREADS];
  static worker workers[THREADS];
  for (int i = 0; i < THREADS; i++) {
    workers[i] = (worker){.session = s, .number = i};
    assert_int_equal(pthread_create(&threads[i], NULL, body, &workers[i]), 0);
  }
  for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
  for (int i = 0; i < THREADS; i++)
    if (*workers[i].problem) fail_msg("thread %d: %s", i, workers[i].problem);
}

static void one_session(void **state) {
  (void)state;
  int counts[] = {THREADS, 2};
  for (int i = 0; i < 2; i++) { /* enough run states, and too few: then runs wait */
    rlx_session *s = make_session(counts[i]);
    assert_non_null(s);
    run_all(run_many, s);
    rlx_session_stats stats = {.struct_size = sizeof stats};
    rlx_session_get_stats(s, &stats);
    assert_int_equal(stats.runs, THREADS * ROUNDS);
    assert_int_equal(stats.builds, 1);
    rlx_session_destroy(s);
  }
}

/* Registers, makes a session, runs, takes back — while the others do the same in the same registry. */
static void *register_and_run(void *arg) {
  worker *w = arg;
  char name[32];
  snprintf(name, sizeof name, "kernel_%d", w->number);
  rlx_cpu_kernel mine = kernel_double;
  mine.head.name = name;
  for (int round = 0; round < 20; round++) {
    rlx_handle handle = 0;
    if (rlx_register_cpu_kernel(NULL, &mine, 0, &handle) != RLX_OK) note(w, "register");
    w->session = make_session(1);
    if (rlx_unregister(NULL, handle) != RLX_OK) note(w, "unregister");
    rlx_binding *b = NULL;
    if (!w->session || rlx_binding_create(w->session, &b) != RLX_OK) note(w, "session");
    if (b) run_once(w, b, round);
    rlx_binding_destroy(b);
    rlx_session_destroy(w->session);
  }
  return NULL;
}

static void registering_meanwhile(void **state) {
  (void)state;
  run_all(register_and_run, NULL);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(one_session), cmocka_unit_test(registering_meanwhile)};
  return cmocka_run_group_tests(tests, set_up, NULL);
}
