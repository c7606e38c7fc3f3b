/* test_control.c — If, Loop and Scan: carried values, shapes that change, limits, failures inside. */
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

#define HEAD "<ir_version: 10, opset_import: [\"\" : 21]>\n"

typedef struct fixture {
  rlx_session *session;
  rlx_binding *binding;
} fixture;

static rlx_status make(const char *source, const rlx_session_options *options, fixture *out) {
  rlx_graph *g = NULL;
  OK(graph_parse(source, strlen(source), "test", NULL, NULL, &g));
  rlx_status status = rlx_session_create(g, options, &out->session);
  rlx_graph_destroy(g);
  if (status == RLX_OK) OK(rlx_binding_create(out->session, &out->binding));
  return status;
}

static fixture open_graph(const char *source) {
  fixture f = {0};
  OK(make(source, NULL, &f));
  return f;
}

static void close_graph(fixture *f) {
  rlx_binding_destroy(f->binding);
  rlx_session_destroy(f->session);
}

static void give(fixture *f, const char *name, rlx_tensor *t) {
  OK(rlx_binding_input(f->binding, name, t, 0));
  rlx_tensor_destroy(t);
}

static void give_int(fixture *f, const char *name, int64_t value) {
  rlx_tensor *t = NULL;
  OK(rlx_tensor_create(RLX_INT64, 0, NULL, &t));
  *(int64_t *)rlx_tensor_data(t) = value;
  give(f, name, t);
}

static void give_bool(fixture *f, const char *name, bool value) {
  rlx_tensor *t = NULL;
  OK(rlx_tensor_create(RLX_BOOL, 0, NULL, &t));
  *(uint8_t *)rlx_tensor_data(t) = value;
  give(f, name, t);
}

static void give_floats(fixture *f, const char *name, int64_t count, const float *values) {
  rlx_tensor *t = NULL;
  OK(rlx_tensor_create(RLX_FLOAT, 1, &count, &t));
  if (count) memcpy(rlx_tensor_data(t), values, (size_t)count * sizeof *values);
  give(f, name, t);
}

/* The output has these dims and floats. */
static void expect(fixture *f, const char *name, int rank, const int64_t *dims, const float *values) {
  rlx_tensor *t = NULL;
  OK(rlx_binding_get(f->binding, name, &t));
  assert_int_equal(rlx_tensor_rank(t), rank);
  for (int d = 0; d < rank; d++) assert_int_equal(rlx_tensor_dims(t)[d], dims[d]);
  for (int64_t i = 0; i < rlx_tensor_count(t); i++)
    assert_float_equal(((float *)rlx_tensor_data(t))[i], values[i], 1e-6f);
  rlx_tensor_destroy(t);
}

/* ---- Loop --------------------------------------------------------------------------------- */

/* x doubles n times; every x is also stacked. */
static const char doubling[] =
    HEAD "g (int64 n, bool go, float[2] x) => (float[2] y, float[M,2] all) {\n"
         "  y, all = Loop (n, go, x) <body = b (int64 i, bool c, float[2] v) => (bool d, float[2] w, float[2] s)\n"
         "    { d = Identity (c)  w = Add (v, v)  s = Identity (v) }>\n}";

static void loop_counts(void **state) {
  (void)state;
  fixture f = open_graph(doubling);
  give_floats(&f, "x", 2, (float[]){1, 2});
  give_bool(&f, "go", true);
  give_int(&f, "n", 3);
  for (int again = 0; again < 2; again++) {
    OK(rlx_run(f.binding, NULL));
    expect(&f, "y", 1, (int64_t[]){2}, (float[]){8, 16});
    expect(&f, "all", 2, (int64_t[]){3, 2}, (float[]){1, 2, 2, 4, 4, 8});
  }
  give_int(&f, "n", 0);
  OK(rlx_run(f.binding, NULL));
  expect(&f, "y", 1, (int64_t[]){2}, (float[]){1, 2});
  expect(&f, "all", 2, (int64_t[]){0, 2}, NULL);
  give_int(&f, "n", -4);
  OK(rlx_run(f.binding, NULL));
  expect(&f, "y", 1, (int64_t[]){2}, (float[]){1, 2});
  give_int(&f, "n", 5);
  give_bool(&f, "go", false);
  OK(rlx_run(f.binding, NULL));
  expect(&f, "y", 1, (int64_t[]){2}, (float[]){1, 2});
  close_graph(&f);
}

/* Ends by its own condition; no trip count, no condition at first. */
static void loop_ends_early(void **state) {
  (void)state;
  fixture f = open_graph(HEAD "g (float[1] x, float[1] limit) => (y, all) {\n"
                              "  y, all = Loop (\"\", \"\", x) <body = b (i, c, v) => (d, w, s)\n"
                              "    { w = Add (v, v)  l = Less (w, limit)  a = Constant <value_ints = [0]> ()\n"
                              "      d = Squeeze (l, a)  s = Mul (w, w) }>\n}");
  give_floats(&f, "x", 1, (float[]){1});
  give_floats(&f, "limit", 1, (float[]){7});
  OK(rlx_run(f.binding, NULL));
  expect(&f, "y", 1, (int64_t[]){1}, (float[]){8});
  expect(&f, "all", 2, (int64_t[]){3, 1}, (float[]){4, 16, 64});
  close_graph(&f);
}

/* The carried value grows by an element each time; the body declares nothing. */
static void loop_shapes_change(void **state) {
  (void)state;
  fixture f =
      open_graph(HEAD "g (int64 n, float[N] x) => (float[M] y) {\n"
                      "  one = Constant <value_floats = [1.0]> ()\n"
                      "  y = Loop (n, \"\", x) <body = b (i, c, v) => (c, w) { w = Concat <axis = 0> (v, one) }>\n}");
  give_floats(&f, "x", 1, (float[]){5});
  for (int64_t n = 0; n < 40; n += 13) {
    float want[40] = {5};
    for (int i = 1; i < 40; i++) want[i] = 1;
    int64_t dims = n + 1;
    give_int(&f, "n", n);
    OK(rlx_run(f.binding, NULL));
    expect(&f, "y", 1, &dims, want);
  }
  close_graph(&f);
}

static void loop_nests(void **state) {
  (void)state;
  fixture f = open_graph(
      HEAD "g (int64 n, int64 m, float[2] x, float[2] step) => (float[2] y) {\n"
           "  y = Loop (n, \"\", x) <body = outer (i, c, v) => (c, w) {\n"
           "    twice = Add (step, step)\n"
           "    w = Loop (m, \"\", v) <body = inner (j, e, u) => (e, t) { s = Add (u, twice)  t = Add (s, x) }>\n"
           "  }>\n}");
  give_floats(&f, "x", 2, (float[]){1, 2});
  give_floats(&f, "step", 2, (float[]){10, 20});
  give_int(&f, "n", 3);
  give_int(&f, "m", 2);
  OK(rlx_run(f.binding, NULL));
  expect(&f, "y", 1, (int64_t[]){2}, (float[]){127, 254});
  close_graph(&f);
}

static int64_t allocations_of(fixture *f, int64_t n) {
  give_int(f, "n", n);
  OK(rlx_run(f->binding, NULL)); /* stages, frames */
  (void)mem_inject(0, 0);
  OK(rlx_run(f->binding, NULL));
  return mem_inject(0, 0);
}

static void iterations_allocate_nothing(void **state) {
  (void)state;
  fixture f =
      open_graph(HEAD "g (int64 n, float[2] x) => (float[2] y) {\n"
                      "  y = Loop (n, \"\", x) <body = b (i, c, v) => (c, w) { a = Relu (v)  w = Softmax (a) }>\n}");
  give_floats(&f, "x", 2, (float[]){1, 2});
  int64_t few = allocations_of(&f, 3);
  assert_int_equal(allocations_of(&f, 300), few);
  close_graph(&f);
}

static void loop_is_cancelled(void **state) {
  (void)state;
  rlx_cancel *c = NULL;
  OK(rlx_cancel_create(&c));
  rlx_cancel_set(c, true);
  rlx_run_options o = RLX_RUN_OPTIONS_INIT;
  o.cancel = c;
  fixture f = open_graph(HEAD "g (float[2] x) => (y) { n = Constant <value_int = 4611686018427387904> ()\n"
                              "  y = Loop (n, \"\", x) <body = b (i, c, v) => (c, v) { }>\n}");
  give_floats(&f, "x", 2, (float[]){1, 2});
  FAILS(rlx_run(f.binding, &o), RLX_CANCELLED, "cancelled");
  close_graph(&f);
  rlx_cancel_destroy(c);
}

static void loop_keeps_the_limit(void **state) {
  (void)state;
  rlx_session_options o = RLX_SESSION_OPTIONS_INIT;
  o.memory_limit = 1 << 20;
  fixture f = {0};
  OK(make(HEAD "g (int64 n, float[64] x) => (y) {\n"
               "  s = Loop (n, \"\") <body = b (i, c) => (c, v) { v = Relu (x) }>\n"
               "  z = Constant <value_int = 0> ()\n  y = Gather (s, z)\n}",
          &o, &f));
  float zeros[64] = {0};
  give_floats(&f, "x", 64, zeros);
  give_int(&f, "n", INT64_C(1) << 40);
  FAILS(rlx_run(f.binding, NULL), RLX_OUT_OF_MEMORY, "memory");
  give_int(&f, "n", 3);
  OK(rlx_run(f.binding, NULL));
  close_graph(&f);
}

static void failures_name_inner_nodes(void **state) {
  (void)state;
  fixture f = open_graph(
      HEAD "g (int64 n, float[4] x) => (y) {\n"
           "  y = Loop (n, \"\", x) <body = b (i, c, v) => (c, w) { [pick] p = Gather (v, i)  w = Add (v, p) }>\n}");
  give_floats(&f, "x", 4, (float[]){1, 2, 3, 4});
  give_int(&f, "n", 9);
  FAILS(rlx_run(f.binding, NULL), RLX_INVALID, "'pick'");
  give_int(&f, "n", 1);
  OK(rlx_run(f.binding, NULL));
  expect(&f, "y", 1, (int64_t[]){4}, (float[]){2, 3, 4, 5});
  close_graph(&f);
}

/* What the body declares must hold in every iteration. */
static void declared_dims_hold(void **state) {
  (void)state;
  fixture f = open_graph(HEAD "g (int64 n, float[1] x) => (y) {\n"
                              "  y = Loop (n, \"\", x) <body = b (int64 i, bool c, float[1] v) => (bool c, float[M] w) "
                              "{ w = Concat <axis = 0> (v, v) }>\n}");
  give_floats(&f, "x", 1, (float[]){1});
  give_int(&f, "n", 1);
  OK(rlx_run(f.binding, NULL));
  give_int(&f, "n", 2);
  FAILS(rlx_run(f.binding, NULL), RLX_INVALID, "'v'");
  close_graph(&f);
}

static void bad_loops_are_refused(void **state) {
  (void)state;
  fixture f = {0};
  FAILS(make(HEAD "g (int64 n, float[1] x) => (y) { y = Loop (n, \"\", x) <body = b (i, c) => (c) { }> }", NULL, &f),
        RLX_INVALID, "carried");
  FAILS(make(HEAD "g (int64 n, float[1] x) => (y) { y = Loop (n, \"\", x) <body = b (i, c, v) => (c, w) "
                  "{ w = Cast <to = 7> (v) }> }",
             NULL, &f),
        RLX_INVALID, "starts as float[1] and becomes int64");
}

/* ---- Scan --------------------------------------------------------------------------------- */

/* A running sum over the columns of x, from the last; every sum is put before the others. */
static void scan_axes_and_directions(void **state) {
  (void)state;
  fixture f = open_graph(
      HEAD "g (float[2] start, float[2,N] x) => (float[2] y, float[2,N] sums) {\n"
           "  y, sums = Scan (start, x) <num_scan_inputs = 1, scan_input_axes = [1], scan_input_directions = [1],\n"
           "    scan_output_axes = [-1], scan_output_directions = [1], body = b (s, v) => (w, o)\n"
           "    { w = Add (s, v)  o = Identity (w) }>\n}");
  rlx_tensor *x = NULL;
  OK(rlx_tensor_create(RLX_FLOAT, 2, (int64_t[]){2, 3}, &x));
  for (int i = 0; i < 6; i++) ((float *)rlx_tensor_data(x))[i] = (float)(i + 1);
  give(&f, "x", x);
  give_floats(&f, "start", 2, (float[]){0, 100});
  OK(rlx_run(f.binding, NULL));
  expect(&f, "y", 1, (int64_t[]){2}, (float[]){6, 115});
  expect(&f, "sums", 2, (int64_t[]){2, 3}, (float[]){6, 5, 3, 115, 111, 106});
  close_graph(&f);
}

static void scan_of_a_batch(void **state) {
  (void)state;
  fixture f =
      open_graph("<ir_version: 3, opset_import: [\"\" : 8]>\n"
                 "g (int64[2] lengths, float[2,1] start, float[2,3,1] x) => (float[2,1] y, float[2,3,1] sums) {\n"
                 "  y, sums = Scan (lengths, start, x) <num_scan_inputs = 1, body = b (float[1] s, float[1] v) => "
                 "(float[1] w, float[1] o)\n"
                 "    { w = Add (s, v)  o = Identity (w) }>\n}");
  rlx_tensor *x = NULL, *start = NULL, *lengths = NULL;
  OK(rlx_tensor_create(RLX_FLOAT, 3, (int64_t[]){2, 3, 1}, &x));
  for (int i = 0; i < 6; i++) ((float *)rlx_tensor_data(x))[i] = (float)(i + 1);
  OK(rlx_tensor_create(RLX_FLOAT, 2, (int64_t[]){2, 1}, &start));
  ((float *)rlx_tensor_data(start))[1] = 10;
  OK(rlx_tensor_create(RLX_INT64, 1, (int64_t[]){2}, &lengths));
  memcpy(rlx_tensor_data(lengths), (int64_t[]){3, 1}, 2 * sizeof(int64_t));
  give(&f, "x", x);
  give(&f, "start", start);
  give(&f, "lengths", lengths);
  OK(rlx_run(f.binding, NULL));
  expect(&f, "y", 2, (int64_t[]){2, 1}, (float[]){6, 14});
  expect(&f, "sums", 3, (int64_t[]){2, 3, 1}, (float[]){1, 3, 6, 14, 0, 0});
  close_graph(&f);
}

/* ---- sequences ---------------------------------------------------------------------------- */

/* A loop collects n tensors in a sequence. */
static const char collecting[] =
    HEAD "g (int64 n, int64 at, float[2] x) => (seq(float[2]) all, float[M] joined, float[K] one) {\n"
         "  empty = SequenceEmpty ()\n"
         "  all, last = Loop (n, \"\", empty, x) <body = b (i, c, s, v) => (c, t, w)\n"
         "    { t = SequenceInsert (s, v)  w = Add (v, v) }>\n"
         "  joined = ConcatFromSequence <axis = 0> (all)\n"
         "  one = SequenceAt (all, at)\n}";

static void loop_carries_a_sequence(void **state) {
  (void)state;
  fixture f = open_graph(collecting);
  rlx_tensor *all = NULL;
  give_floats(&f, "x", 2, (float[]){1, 2});
  give_int(&f, "n", 3);
  give_int(&f, "at", -1);
  for (int again = 0; again < 2; again++) {
    OK(rlx_run(f.binding, NULL));
    expect(&f, "joined", 1, (int64_t[]){6}, (float[]){1, 2, 2, 4, 4, 8});
    expect(&f, "one", 1, (int64_t[]){2}, (float[]){4, 8});
  }
  OK(rlx_binding_get(f.binding, "all", &all));
  give_int(&f, "at", 3);
  FAILS(rlx_run(f.binding, NULL), RLX_INVALID, "position 3 is outside a sequence of 3");
  close_graph(&f);
  assert_int_equal(rlx_tensor_kind(all), RLX_KIND_SEQUENCE); /* it outlives the session */
  assert_int_equal(rlx_tensor_count(all), 3);
  assert_true(((float *)rlx_tensor_data(rlx_tensor_item(all, 2)))[1] == 8);
  assert_null(rlx_tensor_item(all, 3));
  rlx_tensor_destroy(all);
}

static void sequences_count_against_the_limit(void **state) {
  (void)state;
  rlx_session_options o = RLX_SESSION_OPTIONS_INIT;
  o.memory_limit = 1 << 17;
  fixture f = {0};
  OK(make(collecting, &o, &f));
  give_floats(&f, "x", 2, (float[]){1, 2});
  give_int(&f, "n", INT64_C(1) << 62);
  give_int(&f, "at", 0);
  FAILS(rlx_run(f.binding, NULL), RLX_OUT_OF_MEMORY, "limit");
  give_int(&f, "n", 1);
  OK(rlx_run(f.binding, NULL));
  close_graph(&f);
}

static void sequences_in_and_out(void **state) {
  (void)state;
  fixture f = open_graph(
      HEAD "g (seq(float) s, bool c) => (seq(float) r, int64 n) {\n"
           "  r = If (c) <then_branch = t () => (a) { a = SequenceErase (s) }, else_branch = e () => (s) { }>\n"
           "  n = SequenceLength (r)\n}");
  rlx_tensor *items[2] = {NULL}, *s = NULL, *wrong = NULL, *n = NULL;
  for (int i = 0; i < 2; i++) OK(rlx_tensor_create(RLX_FLOAT, 1, (int64_t[]){i}, &items[i]));
  OK(rlx_sequence_create(RLX_FLOAT, items, 2, &s));
  FAILS(rlx_sequence_create(RLX_INT64, items, 2, &wrong), RLX_INVALID, "is float");
  OK(rlx_optional_create(RLX_KIND_SEQUENCE, RLX_FLOAT, s, &wrong));
  FAILS(rlx_binding_input(f.binding, "s", wrong, 0), RLX_INVALID, "'s'");
  FAILS(rlx_binding_input(f.binding, "s", items[0], 0), RLX_INVALID, "'s'");
  give(&f, "s", s);
  for (int64_t erase = 0; erase < 2; erase++) {
    give_bool(&f, "c", erase);
    OK(rlx_run(f.binding, NULL));
    OK(rlx_binding_get(f.binding, "n", &n));
    assert_int_equal(*(int64_t *)rlx_tensor_data(n), 2 - erase);
    rlx_tensor_destroy(n);
  }
  rlx_tensor_destroy(wrong);
  for (int i = 0; i < 2; i++) rlx_tensor_destroy(items[i]);
  close_graph(&f);
}

static void branches_must_agree(void **state) {
  (void)state;
  fixture f = {0};
  FAILS(make(HEAD
             "g (float[1] x, bool c) => (r) {\n"
             "  r = If (c) <then_branch = t () => (a) { a = SequenceConstruct (x) }, else_branch = e () => (x) { }>\n}",
             NULL, &f),
        RLX_INVALID, "in one branch");
}

/* Any allocation may fail: the run says so, and the next one works. */
static void every_allocation_may_fail(void **state) {
  (void)state;
  fixture f = open_graph(collecting);
  give_floats(&f, "x", 2, (float[]){1, 2});
  give_int(&f, "n", 3);
  give_int(&f, "at", 0);
  for (int64_t n = 1; n < 2000; n++) {
    (void)mem_inject(n, 1);
    rlx_status status = rlx_run(f.binding, NULL);
    (void)mem_inject(0, 0);
    if (status == RLX_OK) break;
    assert_int_equal(status, RLX_OUT_OF_MEMORY);
  }
  OK(rlx_run(f.binding, NULL));
  expect(&f, "joined", 1, (int64_t[]){6}, (float[]){1, 2, 2, 4, 4, 8});
  close_graph(&f);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(loop_counts),
      cmocka_unit_test(loop_ends_early),
      cmocka_unit_test(loop_shapes_change),
      cmocka_unit_test(loop_nests),
      cmocka_unit_test(iterations_allocate_nothing),
      cmocka_unit_test(loop_is_cancelled),
      cmocka_unit_test(loop_keeps_the_limit),
      cmocka_unit_test(failures_name_inner_nodes),
      cmocka_unit_test(declared_dims_hold),
      cmocka_unit_test(bad_loops_are_refused),
      cmocka_unit_test(scan_axes_and_directions),
      cmocka_unit_test(scan_of_a_batch),
      cmocka_unit_test(loop_carries_a_sequence),
      cmocka_unit_test(sequences_count_against_the_limit),
      cmocka_unit_test(sequences_in_and_out),
      cmocka_unit_test(branches_must_agree),
      cmocka_unit_test(every_allocation_may_fail),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
