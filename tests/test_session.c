/* test_session.c — sessions, bindings, runs: the API's promises. */
#include <rlx/extend.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/memory.h"
#include "ir/parse.h"

#define OK(expr)                                                          \
  do {                                                                    \
    if ((expr) != RLX_OK) fail_msg("%s: %s", #expr, rlx_error_message()); \
  } while (0)

/* expr fails with `code`, and the message holds `words`. */
#define FAILS(expr, code, words)                                                                       \
  do {                                                                                                 \
    assert_int_equal(expr, code);                                                                      \
    if (!strstr(rlx_error_message(), words)) fail_msg("'%s' not in '%s'", words, rlx_error_message()); \
    assert_null(strchr(rlx_error_message(), '\n'));                                                    \
  } while (0)

#define HEAD "<ir_version: 8, opset_import: [\"\" : 17, \"test\" : 1]>\n"

static rlx_graph *parsed(const char *source) {
  rlx_graph *g = NULL;
  OK(graph_parse(source, strlen(source), "test", NULL, NULL, &g));
  return g;
}

static rlx_session *session_with(const char *source, const rlx_session_options *options) {
  rlx_graph *g = parsed(source);
  rlx_session *s = NULL;
  OK(rlx_session_create(g, options, &s));
  rlx_graph_destroy(g); /* the session needs it no more */
  return s;
}

static rlx_tensor *floats(int rank, const int64_t *dims, float first) {
  rlx_tensor *t = NULL;
  OK(rlx_tensor_create(RLX_FLOAT, rank, dims, &t));
  for (int64_t i = 0; i < rlx_tensor_count(t); i++) ((float *)rlx_tensor_data(t))[i] = first + (float)i;
  return t;
}

static float at(rlx_tensor *t, int64_t i) { return ((float *)rlx_tensor_data(t))[i]; }

static void bind(rlx_binding *b, const char *name, rlx_tensor *t) {
  OK(rlx_binding_input(b, name, t, 0));
  rlx_tensor_destroy(t);
}

static rlx_tensor *result(rlx_binding *b, const char *name) {
  rlx_tensor *t = NULL;
  OK(rlx_binding_get(b, name, &t));
  return t;
}

/* ---- test ops ----------------------------------------------------------------------------- */

static int calls; /* atomic */

static rlx_status count_eval(rlx_ctx *ctx) {
  __atomic_fetch_add(&calls, 1, __ATOMIC_RELAXED);
  const float *x = ctx->inputs[0].data;
  float *y = ctx->outputs[0].data;
  for (int64_t i = 0; i < ctx->inputs[0].count; i++) y[i] = x[i] > 0 ? x[i] : 0;
  return RLX_OK;
}

static rlx_status failing_eval(rlx_ctx *ctx) {
  const float *x = ctx->inputs[0].data;
  if (x[0] < 0) return rlx_fail(ctx, RLX_INVALID, "negative %g", (double)x[0]);
  return count_eval(ctx);
}

static void fail_in_worker(void *arg, int64_t begin, int64_t end) {
  (void)end;
  if (begin == 0) (void)rlx_fail(arg, RLX_INVALID, "from a worker");
}

static rlx_status worker_eval(rlx_ctx *ctx) {
  rlx_parallel_for(ctx, 64, 1, fail_in_worker, ctx);
  return RLX_OK;
}

/* min, max and sum of all elements. */
static rlx_status stats_infer(rlx_infer *ctx) {
  for (int i = 0; i < 3; i++) rlx_infer_set(ctx, i, 0, NULL);
  return RLX_OK;
}

static rlx_status stats_eval(rlx_ctx *ctx) {
  const float *x = ctx->inputs[0].data;
  float low = x[0], high = x[0], sum = 0;
  for (int64_t i = 0; i < ctx->inputs[0].count; i++) {
    low = x[i] < low ? x[i] : low;
    high = x[i] > high ? x[i] : high;
    sum += x[i];
  }
  *(float *)ctx->outputs[0].data = low;
  *(float *)ctx->outputs[1].data = high;
  *(float *)ctx->outputs[2].data = sum;
  return RLX_OK;
}

/* The positive elements: a size known only after running. */
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
  if (!y) return RLX_KERNEL;
  for (int64_t i = 0; i < ctx->inputs[0].count; i++)
    if (x[i] > 0) *y++ = x[i];
  return RLX_OK;
}

static rlx_status silent_eval(rlx_ctx *ctx) {
  (void)ctx;
  return RLX_OK;
}

#define FLOAT_IN .inputs = (const rlx_port[]) {{"X", "T", RLX_SET_FLOATS, 0, 0}, {0}}
#define FLOAT_OUT .outputs = (const rlx_port[]) {{"Y", "T", 0, 0, 0}, {0}}
static const rlx_op test_ops[] = {
    {.struct_size = sizeof(rlx_op), .name = "test.count", FLOAT_IN, FLOAT_OUT, .eval = count_eval},
    {.struct_size = sizeof(rlx_op), .name = "test.failing", FLOAT_IN, FLOAT_OUT, .eval = failing_eval},
    {.struct_size = sizeof(rlx_op), .name = "test.worker", FLOAT_IN, FLOAT_OUT, .eval = worker_eval},
    {.struct_size = sizeof(rlx_op), .name = "test.no_kernel", FLOAT_IN, FLOAT_OUT},
    {.struct_size = sizeof(rlx_op),
     .name = "test.silent",
     FLOAT_IN,
     FLOAT_OUT,
     .infer = positive_infer,
     .eval = silent_eval},
    {.struct_size = sizeof(rlx_op),
     .name = "test.positive",
     FLOAT_IN,
     FLOAT_OUT,
     .infer = positive_infer,
     .eval = positive_eval},
    {.struct_size = sizeof(rlx_op),
     .name = "test.stats",
     FLOAT_IN,
     .outputs = (const rlx_port[]){{"low", "T", 0, 0, 0}, {"high", "T", 0, 0, 0}, {"sum", "T", 0, 0, 0}, {0}},
     .infer = stats_infer,
     .eval = stats_eval},
};

static int register_ops(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof test_ops / sizeof *test_ops; i++)
    if (rlx_register_op(NULL, &test_ops[i], 0, NULL) != RLX_OK) return -1;
  return 0;
}

/* ---- running ------------------------------------------------------------------------------ */

static void runs_and_reuses(void **state) {
  (void)state;
  rlx_session *s = session_with(HEAD "g (float[N] x) => (float[N] y) { a = Add(x, x)\n y = test.count(a) }", NULL);
  rlx_binding *b = NULL;
  OK(rlx_binding_create(s, &b));
  int64_t three = 3, five = 5;
  bind(b, "x", floats(1, &three, -1));
  OK(rlx_run(b, NULL));
  rlx_tensor *first = result(b, "y");
  assert_true(at(first, 0) == 0 && at(first, 2) == 2);
  bind(b, "x", floats(1, &five, 1)); /* another extent: no new build */
  OK(rlx_run(b, NULL));
  rlx_tensor *second = result(b, "y");
  assert_int_equal(rlx_tensor_count(second), 5);
  assert_true(at(first, 2) == 2); /* what was fetched stays */
  rlx_session_stats stats = {.struct_size = sizeof stats};
  rlx_session_get_stats(s, &stats);
  assert_int_equal(stats.builds, 1);
  assert_int_equal(stats.binds, 2);
  rlx_tensor_destroy(first);
  rlx_tensor_destroy(second);
  rlx_binding_destroy(b);
  rlx_session_destroy(s);
}

static void results_feed_inputs(void **state) {
  (void)state;
  rlx_session *s = session_with(HEAD "g (float[2] x) => (float[2] y) { y = Add(x, x) }", NULL);
  rlx_binding *b = NULL;
  OK(rlx_binding_create(s, &b));
  int64_t two = 2;
  bind(b, "x", floats(1, &two, 1));
  for (int i = 0; i < 10; i++) {
    OK(rlx_run(b, NULL));
    bind(b, "x", result(b, "y")); /* no copy */
  }
  rlx_tensor *y = result(b, "y");
  assert_true(at(y, 0) == 1024 && at(y, 1) == 2048);
  rlx_tensor_destroy(y);
  rlx_binding_destroy(b);
  rlx_session_destroy(s);
}

static void output_memory_of_the_caller(void **state) {
  (void)state;
  rlx_session *s =
      session_with(HEAD "g (float[N] x) => (float[N] y, float[N] z) { y = Neg(x)\n z = Identity(y) }", NULL);
  rlx_binding *b = NULL;
  OK(rlx_binding_create(s, &b));
  int64_t two = 2, three = 3;
  bind(b, "x", floats(1, &two, 1));
  rlx_tensor *mine = floats(1, &two, 0), *wrong = floats(1, &three, 0);
  OK(rlx_binding_output(b, "y", mine));
  OK(rlx_run(b, NULL));
  assert_true(at(mine, 1) == -2);
  rlx_tensor *z = result(b, "z");
  assert_ptr_not_equal(rlx_tensor_data(z), rlx_tensor_data(mine)); /* outputs never alias */
  assert_true(at(z, 1) == -2);
  rlx_tensor_destroy(z);
  OK(rlx_binding_output(b, "y", wrong));
  FAILS(rlx_run(b, NULL), RLX_INVALID, "output 'y'");
  OK(rlx_binding_output(b, "y", NULL));
  OK(rlx_run(b, NULL));
  rlx_tensor_destroy(mine);
  rlx_tensor_destroy(wrong);
  rlx_binding_destroy(b);
  rlx_session_destroy(s);
}

static void inputs_and_constants_as_outputs(void **state) {
  (void)state;
  rlx_session *s =
      session_with(HEAD "g (float[2] x) => (float[2] x, float[1,2] v, float[2] c) <float[2] c = {7, 8}> {\n"
                        " one = Constant<value_ints = [0]>()\n v = Unsqueeze(x, one) }",
                   NULL);
  rlx_binding *b = NULL;
  OK(rlx_binding_create(s, &b));
  int64_t two = 2;
  rlx_tensor *x = floats(1, &two, 3);
  OK(rlx_binding_input(b, "x", x, RLX_BIND_DONATE));
  OK(rlx_run(b, NULL));
  rlx_tensor *v = result(b, "v"), *c = result(b, "c"), *same = result(b, "x");
  assert_true(at(v, 1) == 4 && at(c, 0) == 7 && at(same, 0) == 3);
  assert_ptr_not_equal(rlx_tensor_data(same), rlx_tensor_data(x));
  assert_ptr_not_equal(rlx_tensor_data(v), rlx_tensor_data(x));
  rlx_tensor_destroy(v);
  rlx_tensor_destroy(c);
  rlx_tensor_destroy(same);
  rlx_tensor_destroy(x);
  rlx_binding_destroy(b);
  rlx_session_destroy(s);
}

static void three_outputs(void **state) {
  (void)state;
  rlx_session *s = session_with(
      HEAD "g (float[N] x) => (float low, float high, float sum) { low, high, sum = test.stats(x) }", NULL);
  rlx_binding *b = NULL;
  OK(rlx_binding_create(s, &b));
  int64_t four = 4;
  bind(b, "x", floats(1, &four, -1));
  OK(rlx_run(b, NULL));
  rlx_tensor *low = result(b, "low"), *high = result(b, "high"), *sum = result(b, "sum");
  assert_true(at(low, 0) == -1 && at(high, 0) == 2 && at(sum, 0) == 2);
  rlx_tensor_destroy(low);
  rlx_tensor_destroy(high);
  rlx_tensor_destroy(sum);
  rlx_binding_destroy(b);
  rlx_session_destroy(s);
}

static void stages_for_sizes_known_late(void **state) {
  (void)state;
  rlx_session *s =
      session_with(HEAD "g (float[N] x) => (float[M] p, float[K] q) { p = test.positive(x)\n d = Add(p, p)\n"
                        " q0 = test.positive(d)\n q = Neg(q0) }",
                   NULL);
  rlx_binding *b = NULL;
  OK(rlx_binding_create(s, &b));
  for (int64_t n = 1; n < 6; n++) {
    bind(b, "x", floats(1, &n, -1)); /* -1, 0, 1, 2 … */
    for (int again = 0; again < 2; again++) {
      OK(rlx_run(b, NULL));
      rlx_tensor *p = result(b, "p"), *q = result(b, "q");
      assert_int_equal(rlx_tensor_count(p), n > 2 ? n - 2 : 0);
      assert_int_equal(rlx_tensor_count(q), n > 2 ? n - 2 : 0);
      for (int64_t i = 0; i < n - 2; i++) assert_true(at(p, i) == (float)(i + 1) && at(q, i) == -2 * (float)(i + 1));
      rlx_tensor_destroy(p);
      rlx_tensor_destroy(q);
    }
  }
  rlx_session_stats stats = {.struct_size = sizeof stats};
  rlx_session_get_stats(s, &stats);
  assert_int_equal(stats.builds, 1);
  rlx_binding_destroy(b);
  rlx_session_destroy(s);
}

/* A value that decides a shape: read, made part of the key, and read again when it changes. */
static void values_that_decide_shapes(void **state) {
  (void)state;
  rlx_session *s =
      session_with(HEAD "g (float[N] x, int64[2] d) => (float[A,B] y) { a = Neg(x)\n y = Reshape(a, d) }", NULL);
  rlx_binding *b = NULL;
  OK(rlx_binding_create(s, &b));
  int64_t six = 6, two = 2;
  rlx_tensor *d = NULL;
  OK(rlx_tensor_create(RLX_INT64, 1, &two, &d));
  int64_t *dims = rlx_tensor_data(d);
  bind(b, "x", floats(1, &six, 0));
  OK(rlx_binding_input(b, "d", d, 0));
  for (int round = 0; round < 2; round++)
    for (int64_t rows = 1; rows <= 3; rows++) {
      dims[0] = rows;
      dims[1] = 6 / rows;
      OK(rlx_run(b, NULL));
      rlx_tensor *y = result(b, "y");
      assert_int_equal(rlx_tensor_dims(y)[0], rows);
      rlx_tensor_destroy(y);
    }
  dims[0] = 4;
  FAILS(rlx_run(b, NULL), RLX_INVALID, "Reshape");
  dims[0] = -1;
  dims[1] = 2;
  OK(rlx_run(b, NULL));
  rlx_session_stats stats = {.struct_size = sizeof stats};
  rlx_session_get_stats(s, &stats);
  assert_int_equal(stats.binds, 4); /* 1x6, 2x3, 3x2 and -1x2, each once */
  rlx_tensor_destroy(d);
  rlx_binding_destroy(b);
  rlx_session_destroy(s);
}

/* A scalar of four bytes beside an output of four booleans: its memory may not be taken while it is still read. */
static void broadcast_operands_are_not_overwritten(void **state) {
  (void)state;
  rlx_session *s = session_with(HEAD "g (float[4] x, float[1] k) => (bool[4] y) { t = test.count(k)\n e = Equal(x, "
                                     "t)\n y = Identity(e)\n u = Not(e) }",
                                NULL);
  rlx_binding *b = NULL;
  OK(rlx_binding_create(s, &b));
  int64_t four = 4, one = 1;
  bind(b, "k", floats(1, &one, 3));
  rlx_tensor *x = floats(1, &four, 3);
  for (int i = 0; i < 4; i++) ((float *)rlx_tensor_data(x))[i] = 3;
  bind(b, "x", x);
  OK(rlx_run(b, NULL));
  rlx_tensor *y = result(b, "y");
  for (int i = 0; i < 4; i++) assert_int_equal(((uint8_t *)rlx_tensor_data(y))[i], 1);
  rlx_tensor_destroy(y);
  rlx_binding_destroy(b);
  rlx_session_destroy(s);
}

/* ---- failures ----------------------------------------------------------------------------- */

static void failing_kernels(void **state) {
  (void)state;
  rlx_session *s =
      session_with(HEAD "g (float[N] x) => (float[N] y) { a = Neg(x)\n [bad_one] y = test.failing(a) }", NULL);
  rlx_binding *b = NULL;
  OK(rlx_binding_create(s, &b));
  int64_t one = 1;
  for (int i = 0; i < 3; i++) {
    bind(b, "x", floats(1, &one, 2));
    FAILS(rlx_run(b, NULL), RLX_INVALID, "node 'bad_one' (test.failing), kernel reference: negative -2");
    rlx_tensor *none = NULL;
    assert_int_equal(rlx_binding_get(b, "y", &none), RLX_INVALID);
    bind(b, "x", floats(1, &one, -2));
    OK(rlx_run(b, NULL)); /* the next run is right */
    rlx_tensor *y = result(b, "y");
    assert_true(at(y, 0) == 2);
    rlx_tensor_destroy(y);
  }
  rlx_binding_destroy(b);
  rlx_session_destroy(s);
}

static void failures_of_workers_and_silence(void **state) {
  (void)state;
  int64_t one = 1;
  const char *graphs[] = {HEAD "g (float[N] x) => (float[N] y) { y = test.worker(x) }",
                          HEAD "g (float[N] x) => (float[M] y) { y = test.silent(x) }"};
  const char *words[] = {"(test.worker), kernel reference: from a worker",
                         "(test.silent), kernel reference: output 0: the kernel did not say its size"};
  for (int i = 0; i < 2; i++) {
    rlx_session *s = session_with(graphs[i], NULL);
    rlx_binding *b = NULL;
    OK(rlx_binding_create(s, &b));
    bind(b, "x", floats(1, &one, 2));
    FAILS(rlx_run(b, NULL), i ? RLX_KERNEL : RLX_INVALID, words[i]);
    rlx_binding_destroy(b);
    rlx_session_destroy(s);
  }
}

static void unresolved_nodes_in_one_error(void **state) {
  (void)state;
  rlx_graph *g = parsed(
      HEAD "g (float[N] x) => (float[N] y) { a = nowhere.op(x)\n b = test.no_kernel(a)\n y = test.no_kernel(b) }");
  rlx_session *s = NULL;
  FAILS(rlx_session_create(g, NULL, &s), RLX_UNSUPPORTED, "3 nodes cannot run on cpu");
  assert_non_null(strstr(rlx_error_message(), "(nowhere.op): no such op"));
  assert_non_null(strstr(rlx_error_message(), "(test.no_kernel): it has no kernel, lower or eval"));
  rlx_graph_destroy(g);
}

static void wrong_bindings(void **state) {
  (void)state;
  rlx_session *s =
      session_with(HEAD "g (float[N,2] x, float[N] z) => (float[N,2] y) { y = Neg(x)\n u = Neg(z) }", NULL);
  rlx_binding *b = NULL;
  rlx_tensor *t = NULL;
  OK(rlx_binding_create(s, &b));
  int64_t dims[2] = {3, 2};
  FAILS(rlx_run(b, NULL), RLX_INVALID, "input 'x' is not bound");
  t = floats(2, dims, 0);
  FAILS(rlx_binding_input(b, "w", t, 0), RLX_NOT_FOUND, "no input 'w'");
  FAILS(rlx_binding_input(b, "z", t, 0), RLX_INVALID, "input 'z' is float[?], given float[3,2]");
  OK(rlx_binding_input(b, "x", t, 0));
  rlx_tensor_destroy(t);
  OK(rlx_tensor_create(RLX_INT32, 2, dims, &t));
  FAILS(rlx_binding_input(b, "x", t, 0), RLX_INVALID, "given int32[3,2]");
  rlx_tensor_destroy(t);
  int64_t four = 4;
  bind(b, "z", floats(1, &four, 0));
  FAILS(rlx_run(b, NULL), RLX_INVALID, "symbol N the extents 3 and 4");
  rlx_binding_destroy(b);
  rlx_session_destroy(s);
}

/* Sizes whose elements fit 64 bits but whose bytes do not; memory that two would write. */
static void absurd_sizes(void **state) {
  (void)state;
  rlx_session *s = session_with(HEAD "g (int64[N] x, int64[1] d) => (int64[M] y) { y = Expand(x, d) }", NULL);
  rlx_binding *b = NULL;
  OK(rlx_binding_create(s, &b));
  int64_t one = 1;
  rlx_tensor *x = NULL, *d = NULL;
  OK(rlx_tensor_create(RLX_INT64, 1, &one, &x));
  OK(rlx_tensor_create(RLX_INT64, 1, &one, &d));
  bind(b, "x", x);
  OK(rlx_binding_input(b, "d", d, 0));
  *(int64_t *)rlx_tensor_data(d) = INT64_C(2000000000000000000);
  FAILS(rlx_run(b, NULL), RLX_INVALID, "size in bytes overflows");
  *(int64_t *)rlx_tensor_data(d) = 4;
  OK(rlx_run(b, NULL));
  rlx_tensor_destroy(d);
  rlx_binding_destroy(b);
  rlx_session_destroy(s);
}

static void shared_memory(void **state) {
  (void)state;
  rlx_session *s = session_with(
      HEAD "g (float[2] x, float[2] z) => (float[2] y, float[2] w) { y = Add(x, z)\n w = Sub(x, z) }", NULL);
  rlx_binding *b = NULL;
  OK(rlx_binding_create(s, &b));
  int64_t two = 2;
  rlx_tensor *x = floats(1, &two, 1), *m = floats(1, &two, 0);
  OK(rlx_binding_input(b, "x", x, 0));
  OK(rlx_binding_input(b, "z", x, 0));
  OK(rlx_run(b, NULL));
  OK(rlx_binding_output(b, "y", x));
  FAILS(rlx_run(b, NULL), RLX_INVALID, "output 'y' and input 'x' share memory");
  OK(rlx_binding_output(b, "y", m));
  OK(rlx_binding_output(b, "w", m));
  FAILS(rlx_run(b, NULL), RLX_INVALID, "share memory");
  OK(rlx_binding_output(b, "w", NULL));
  OK(rlx_binding_input(b, "x", x, RLX_BIND_DONATE));
  FAILS(rlx_run(b, NULL), RLX_INVALID, "which is donated");
  FAILS(rlx_binding_input(b, "x", x, 6), RLX_INVALID, "unknown flags");
  rlx_tensor_destroy(x);
  rlx_tensor_destroy(m);
  rlx_binding_destroy(b);
  rlx_session_destroy(s);
}

static void devices_and_options(void **state) {
  (void)state;
  rlx_graph *g = parsed(HEAD "g (float[N] x) => (float[N] y) { y = Neg(x) }");
  rlx_session *s = NULL;
  rlx_session_options o = RLX_SESSION_OPTIONS_INIT;
  o.device = "vulcan";
  FAILS(rlx_session_create(g, &o, &s), RLX_NOT_FOUND, "vulcan");
  o.device = "cpu:3";
  FAILS(rlx_session_create(g, &o, &s), RLX_NOT_FOUND, "only 1");
  o.device = "cpu";
  o.debug = "validate,nonsense";
  FAILS(rlx_session_create(g, &o, &s), RLX_INVALID, "nonsense");
  o.debug = "validate";
  o.disable_passes = "fold,wrong";
  FAILS(rlx_session_create(g, &o, &s), RLX_INVALID, "no pass 'wrong'");
  o.disable_passes = "select";
  FAILS(rlx_session_create(g, &o, &s), RLX_INVALID, "cannot be left out");
  o.disable_passes = NULL;
  rlx_pin pin = {.op = "onnx.Neg", .kernel = "missing"};
  o.pins = &pin;
  o.pin_count = 1;
  FAILS(rlx_session_create(g, &o, &s), RLX_UNSUPPORTED, "pinned to another kernel");
  pin.kernel = "reference";
  OK(rlx_session_create(g, &o, &s));
  char *report = NULL;
  OK(rlx_report(s, RLX_REPORT_TEXT, &report));
  assert_non_null(strstr(report, "eval reference"));
  rlx_free(report);
  rlx_session_destroy(s);
  rlx_graph_destroy(g);
}

static void memory_limit(void **state) {
  (void)state;
  rlx_session_options o = RLX_SESSION_OPTIONS_INIT;
  o.memory_limit = 4096;
  rlx_session *s = session_with(HEAD "g (float[N] x) => (float sum) { a, b, sum0 = test.stats(x)\n c = Add(x, a)\n d = "
                                     "Mul(c, x)\n e, f, sum = test.stats(d) }",
                                &o);
  rlx_binding *b = NULL;
  OK(rlx_binding_create(s, &b));
  int64_t small = 8, large = 4096;
  bind(b, "x", floats(1, &small, 0));
  OK(rlx_run(b, NULL));
  bind(b, "x", floats(1, &large, 0));
  FAILS(rlx_run(b, NULL), RLX_OUT_OF_MEMORY, "memory limit of 4096 bytes");
  bind(b, "x", floats(1, &small, 0));
  OK(rlx_run(b, NULL));
  rlx_binding_destroy(b);
  rlx_session_destroy(s);
}

/* ---- authors and programs that break the rules -------------------------------------------- */

static rlx_status lying_infer(rlx_infer *ctx) {
  rlx_infer_like(ctx, 0, 0);
  rlx_infer_output(ctx, 0)->dtype = RLX_DOUBLE;
  return RLX_OK;
}
static rlx_status mute_infer(rlx_infer *ctx) {
  (void)ctx;
  return RLX_UNSUPPORTED;
}
static rlx_status output_adding_lower(rlx_graph *g, const rlx_node *n, rlx_value **outputs) {
  rlx_value *x = rlx_node_input(n, 0);
  outputs[0] = rlx_graph_op(g, "onnx.Relu", NULL, 0, &x, 1);
  rlx_graph_output(g, outputs[0], "extra");
  return rlx_graph_status(g);
}
static rlx_status self_lower(rlx_graph *g, const rlx_node *n, rlx_value **outputs) {
  outputs[0] = rlx_node_output(n, 0);
  return rlx_graph_status(g);
}

static void authors_are_held_to_the_rules(void **state) {
  (void)state;
  const struct {
    rlx_op op;
    const char *words;
  } rows[] = {
      {{.struct_size = sizeof(rlx_op),
        .name = "test.rule",
        FLOAT_IN,
        FLOAT_OUT,
        .infer = lying_infer,
        .eval = count_eval},
       "output 'Y' would be double where T is float"},
      {{.struct_size = sizeof(rlx_op),
        .name = "test.rule",
        FLOAT_IN,
        FLOAT_OUT,
        .infer = mute_infer,
        .eval = count_eval},
       "infer returned 'unsupported' without saying why"},
      {{.struct_size = sizeof(rlx_op), .name = "test.rule", FLOAT_IN, FLOAT_OUT, .lower = output_adding_lower},
       "its lowering changes the graph's inputs or outputs"},
      {{.struct_size = sizeof(rlx_op), .name = "test.rule", FLOAT_IN, FLOAT_OUT, .lower = self_lower},
       "output 0 of its lowering is its own"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    rlx_handle handle = 0;
    OK(rlx_register_op(NULL, &rows[i].op, 0, &handle));
    rlx_graph *g = parsed(HEAD "g (float[N] x) => (float[N] y) { y = test.rule(x) }");
    rlx_session *s = NULL;
    assert_int_not_equal(rlx_session_create(g, NULL, &s), RLX_OK);
    if (!strstr(rlx_error_message(), rows[i].words)) fail_msg("'%s' not in '%s'", rows[i].words, rlx_error_message());
    rlx_graph_destroy(g);
    OK(rlx_unregister(NULL, handle));
  }
}

static void graphs_hold_their_own_values(void **state) {
  (void)state;
  rlx_graph *g = NULL, *other = NULL;
  rlx_session *s = NULL;
  rlx_type type = {.dtype = RLX_FLOAT, .rank = 1, .dims = {2}};
  OK(rlx_graph_create(NULL, &g));
  OK(rlx_graph_create(NULL, &other));
  rlx_value *x = rlx_graph_input(g, "x", &type), *foreign = rlx_graph_input(other, "z", &type);
  assert_non_null(x);
  rlx_graph_output(g, rlx_graph_op(g, "onnx.Relu", NULL, 0, &foreign, 1), "y");
  OK(rlx_graph_finish(g));
  FAILS(rlx_session_create(g, NULL, &s), RLX_INVALID, "belongs to no graph around it");
  rlx_graph_destroy(g);
  OK(rlx_graph_create(NULL, &g));
  x = rlx_graph_input(g, "x", &type);
  rlx_attr empty = {.name = "perm", .kind = RLX_ATTR_INTS, .count = 2};
  assert_null(rlx_graph_op(g, "onnx.Transpose", &empty, 1, &x, 1));
  FAILS(rlx_graph_finish(g), RLX_INVALID, "attribute 'perm' has no contents");
  rlx_graph_destroy(g);
  rlx_graph_destroy(other);
}

/* ---- selection ---------------------------------------------------------------------------- */

static const rlx_cpu_kernel counting_relu = {
    sizeof(rlx_cpu_kernel), {.op = "onnx.Relu", .name = "counting"}, count_eval};

/* No pass may bypass the total order: fused, folded or not, the user's kernel is called. */
static void user_kernels_are_never_bypassed(void **state) {
  (void)state;
  rlx_registry *r = NULL;
  OK(rlx_registry_create(&r));
  OK(rlx_register_cpu_kernel(r, &counting_relu, 0, NULL));
  rlx_graph *g = parsed(HEAD "g (float[N] x) => (float[N] y, float[2] c) <float[2] k = {-1, 2}> {\n"
                             " a = Add(x, x)\n b = Relu(a)\n y = Mul(b, b)\n c = Relu(k) }");
  rlx_session_options o = RLX_SESSION_OPTIONS_INIT;
  o.registry = r;
  rlx_session *s = NULL;
  OK(rlx_session_create(g, &o, &s));
  rlx_registry_destroy(r); /* the session keeps what it resolved */
  rlx_binding *b = NULL;
  OK(rlx_binding_create(s, &b));
  int64_t two = 2;
  bind(b, "x", floats(1, &two, -1));
  calls = 0;
  OK(rlx_run(b, NULL));
  assert_int_equal(calls, 2);
  rlx_tensor *y = result(b, "y"), *c = result(b, "c");
  assert_true(at(y, 0) == 0 && at(c, 0) == 0 && at(c, 1) == 2);
  rlx_tensor_destroy(y);
  rlx_tensor_destroy(c);
  rlx_binding_destroy(b);
  rlx_session_destroy(s);
  rlx_graph_destroy(g);
}

static void which_and_call(void **state) {
  (void)state;
  rlx_type type = {.dtype = RLX_FLOAT, .rank = 1, .dims = {RLX_UNKNOWN}};
  rlx_which_answer *answer = NULL;
  OK(rlx_which(NULL, "cpu", "test.stats", NULL, 0, &type, 1, &answer));
  assert_int_equal(answer->tier, RLX_TIER_EVAL);
  assert_string_equal(answer->kernel, "reference");
  rlx_free(answer);
  OK(rlx_which(NULL, "cpu", "test.no_kernel", NULL, 0, &type, 1, &answer));
  assert_int_equal(answer->tier, RLX_TIER_ANY);
  rlx_free(answer);
  assert_int_equal(rlx_which(NULL, "cpu", "test.missing", NULL, 0, &type, 1, &answer), RLX_NOT_FOUND);

  int64_t three = 3;
  rlx_tensor *x = floats(1, &three, 1), *out[3] = {NULL};
  OK(rlx_call(NULL, "test.stats", NULL, 0, &x, 1, out, 3));
  assert_true(at(out[2], 0) == 6);
  for (int i = 0; i < 3; i++) rlx_tensor_destroy(out[i]);
  rlx_tensor *none = NULL;
  FAILS(rlx_call(NULL, "test.missing", NULL, 0, &x, 1, &none, 1), RLX_NOT_FOUND, "test.missing");
  rlx_tensor_destroy(x);
}

/* ---- cancelling, submitting --------------------------------------------------------------- */

static void cancel_and_submit(void **state) {
  (void)state;
  rlx_session *s = session_with(HEAD "g (float[N] x) => (float[N] y) { a = test.count(x)\n y = test.count(a) }", NULL);
  rlx_binding *b = NULL;
  rlx_cancel *c = NULL;
  OK(rlx_binding_create(s, &b));
  OK(rlx_cancel_create(&c));
  int64_t two = 2;
  bind(b, "x", floats(1, &two, -1));
  rlx_run_options o = RLX_RUN_OPTIONS_INIT;
  o.cancel = c;
  rlx_cancel_set(c, true);
  FAILS(rlx_run(b, &o), RLX_CANCELLED, "cancelled");
  rlx_cancel_set(c, false);
  OK(rlx_run(b, &o));
  OK(rlx_submit(b, &o, NULL, 0, NULL, 0));
  FAILS(rlx_binding_input(b, "x", NULL, 0), RLX_BUSY, "submitted");
  OK(rlx_wait(b));
  FAILS(rlx_wait(b), RLX_INVALID, "nothing was submitted");
  rlx_cancel_destroy(c);
  rlx_binding_destroy(b);
  rlx_session_destroy(s);
}

/* ---- steady state and allocation failures ------------------------------------------------- */

static void repeated_runs_do_not_allocate(void **state) {
  (void)state;
  rlx_session *s =
      session_with(HEAD "g (float[N] x) => (float[N] y) { a = Add(x, x)\n b = test.count(a)\n y = Mul(b, x) }", NULL);
  rlx_binding *b = NULL;
  OK(rlx_binding_create(s, &b));
  int64_t n = 8;
  bind(b, "x", floats(1, &n, -1));
  for (int i = 0; i < 2; i++) OK(rlx_run(b, NULL));
  (void)mem_inject(0, 0);
  for (int i = 0; i < 100; i++) OK(rlx_run(b, NULL));
  assert_int_equal(mem_inject(0, 0), 0);
  rlx_binding_destroy(b);
  rlx_session_destroy(s);
}

static rlx_status whole_life(void) {
  static const char source[] =
      HEAD "g (float[N] x) => (float[M] y, float[N] z) { a = Add(x, x)\n y = test.positive(a)\n z = Mul(a, x) }";
  rlx_graph *g = NULL;
  rlx_session *s = NULL;
  rlx_binding *b = NULL;
  rlx_tensor *x = NULL, *y = NULL;
  int64_t n = 4;
  rlx_status status = graph_parse(source, sizeof source - 1, "test", NULL, NULL, &g);
  if (status == RLX_OK) status = rlx_session_create(g, NULL, &s);
  if (status == RLX_OK) status = rlx_binding_create(s, &b);
  if (status == RLX_OK) status = rlx_tensor_create(RLX_FLOAT, 1, &n, &x);
  if (status == RLX_OK) status = rlx_binding_input(b, "x", x, 0);
  if (status == RLX_OK) status = rlx_run(b, NULL);
  if (status == RLX_OK) status = rlx_binding_get(b, "y", &y);
  rlx_tensor_destroy(x);
  rlx_tensor_destroy(y);
  rlx_binding_destroy(b);
  rlx_session_destroy(s);
  rlx_graph_destroy(g);
  return status;
}

/* Every allocation fails once, alone and with all after it: an error comes back, nothing leaks (ASan). */
static void every_allocation_may_fail(void **state) {
  (void)state;
  OK(whole_life());
  for (int repeat = 0; repeat < 2; repeat++) {
    int64_t n = 1;
    rlx_status status = RLX_OUT_OF_MEMORY;
    for (; status != RLX_OK && n < 10000; n++) {
      (void)mem_inject(n, repeat);
      status = whole_life();
      (void)mem_inject(0, 0);
      if (status != RLX_OK && status != RLX_OUT_OF_MEMORY) fail_msg("allocation %d: %s", (int)n, rlx_error_message());
    }
    assert_true(n > 50 && n < 10000);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(runs_and_reuses),
      cmocka_unit_test(results_feed_inputs),
      cmocka_unit_test(output_memory_of_the_caller),
      cmocka_unit_test(inputs_and_constants_as_outputs),
      cmocka_unit_test(three_outputs),
      cmocka_unit_test(stages_for_sizes_known_late),
      cmocka_unit_test(values_that_decide_shapes),
      cmocka_unit_test(broadcast_operands_are_not_overwritten),
      cmocka_unit_test(failing_kernels),
      cmocka_unit_test(failures_of_workers_and_silence),
      cmocka_unit_test(unresolved_nodes_in_one_error),
      cmocka_unit_test(wrong_bindings),
      cmocka_unit_test(absurd_sizes),
      cmocka_unit_test(shared_memory),
      cmocka_unit_test(devices_and_options),
      cmocka_unit_test(memory_limit),
      cmocka_unit_test(authors_are_held_to_the_rules),
      cmocka_unit_test(graphs_hold_their_own_values),
      cmocka_unit_test(user_kernels_are_never_bypassed),
      cmocka_unit_test(which_and_call),
      cmocka_unit_test(cancel_and_submit),
      cmocka_unit_test(repeated_runs_do_not_allocate),
      cmocka_unit_test(every_allocation_may_fail),
  };
  return cmocka_run_group_tests(tests, register_ops, NULL);
}
