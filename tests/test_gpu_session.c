/* test_gpu_session.c — sessions on GPUs: memory of the device, policies, faults, threads, subgraphs. */
#include <pthread.h>
#include <rlx/extend.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "backend/record/record.h"
#include "backend/vulkan/fault.h"
#include "base/memory.h"
#include "ir/parse.h"
#include "support/gpu_ops.h"

#define OK(expr)                                                          \
  do {                                                                    \
    if ((expr) != RLX_OK) fail_msg("%s: %s", #expr, rlx_error_message()); \
  } while (0)

#define FAILS(expr, code, words)                                                                       \
  do {                                                                                                 \
    assert_int_equal(expr, code);                                                                      \
    if (!strstr(rlx_error_message(), words)) fail_msg("'%s' not in '%s'", words, rlx_error_message()); \
  } while (0)

#define HEAD "<ir_version: 8, opset_import: [\"\" : 17, \"test\" : 1]>\n"

/* A host step between two on the device. */
static const char sandwich[] = HEAD "g (float[8] x) => (float[8] y) { a = test.turn(x)\n h = test.host(a)\n"
                                    " y = test.turn(h) }";
static const char pure[] = HEAD "g (float[8] x) => (float[8] y) { a = test.turn(x)\n y = test.turn(a) }";

static rlx_status create(const char *source, const rlx_session_options *o, rlx_session **out) {
  rlx_graph *g = NULL;
  OK(graph_parse(source, strlen(source), "test", NULL, NULL, &g));
  rlx_status status = rlx_session_create(g, o, out);
  rlx_graph_destroy(g);
  return status;
}

static rlx_session_options options_for(const gpu_place_row *on) {
  rlx_session_options o = RLX_SESSION_OPTIONS_INIT;
  o.device = on->device;
  o.debug = on->debug;
  return o;
}

static rlx_session *session_on(const char *source, const gpu_place_row *on) {
  rlx_session_options o = options_for(on);
  rlx_session *s = NULL;
  OK(create(source, &o, &s));
  return s;
}

static rlx_tensor *floats(float first) {
  int64_t n = 8;
  rlx_tensor *t = NULL;
  OK(rlx_tensor_create(RLX_FLOAT, 1, &n, &t));
  for (int i = 0; i < 8; i++) ((float *)rlx_tensor_data(t))[i] = first + (float)i;
  return t;
}

static rlx_binding *bound(rlx_session *s, rlx_tensor *x) {
  rlx_binding *b = NULL;
  OK(rlx_binding_create(s, &b));
  OK(rlx_binding_input(b, "x", x, 0));
  return b;
}

static int64_t staged_by(const rlx_session *s) {
  rlx_session_stats stats = {.struct_size = sizeof stats};
  rlx_session_get_stats(s, &stats);
  return stats.staged;
}

static float first_of(const rlx_tensor *t) {
  rlx_tensor *host = floats(0);
  OK(rlx_tensor_copy(t, host));
  float x = ((float *)rlx_tensor_data(host))[0];
  rlx_tensor_destroy(host);
  return x;
}

/* ---- memory of the device ----------------------------------------------------------------- */

static void results_stay_on_the_device(void **state) {
  (void)state; /* each run turns by two; its result is the next one's input, and nothing is copied between */
  const gpu_place_row *on;
  int64_t n = 8;
  for (int i = 0; (on = gpu_ops_device(i)); i++) {
    rlx_session *s = session_on(pure, on);
    rlx_tensor *ends[2] = {NULL, NULL}, *start = floats(0);
    for (int k = 0; k < 2; k++) OK(rlx_tensor_on_device(s, RLX_FLOAT, 1, &n, &ends[k]));
    OK(rlx_tensor_copy(start, ends[0]));
    rlx_binding *b = NULL;
    OK(rlx_binding_create(s, &b));
    for (int k = 0; k < 3; k++) {
      OK(rlx_binding_input(b, "x", ends[k % 2], 0));
      OK(rlx_binding_output(b, "y", ends[(k + 1) % 2]));
      OK(rlx_run(b, NULL));
    }
    assert_true(first_of(ends[1]) == 6);
    assert_int_equal(staged_by(s), 0);
    rlx_binding_destroy(b);
    rlx_session_destroy(s);
    assert_true(first_of(ends[1]) == 6); /* it outlives its session */
    rlx_tensor_destroy(ends[0]);
    rlx_tensor_destroy(ends[1]);
    rlx_tensor_destroy(start);
  }
}

static void host_steps_reach_it(void **state) {
  (void)state; /* at the start, at the end, alone, and beside a device step that uses the same value */
  static const char *const sources[] = {
      HEAD "g (float[8] x) => (float[8] y) { y = test.host(x) }",
      HEAD "g (float[8] x) => (float[8] y) { a = test.host(x)\n y = test.turn(a) }",
      HEAD "g (float[8] x) => (float[8] y) { a = test.turn(x)\n y = test.host(a) }",
      HEAD "g (float[8] x) => (float[8] y) { a = test.turn(x)\n b = test.host(x)\n y = test.mix(a, b) }",
      HEAD "g (float[8] x) => (float[8] y) { y = test.turn(x)\n z = test.note(y) }",
      HEAD "g (float[8] x) => (float[8] y) { y = test.host(x)\n z = test.turn(y)\n w = test.note(z) }",
  };
  static const float expected[] = {1, 3, 3, 9, 1, 1};
  const gpu_place_row *on;
  int64_t n = 8;
  for (size_t k = 0; k < sizeof sources / sizeof *sources; k++)
    for (int i = 0; (on = gpu_ops_device(i)); i++) {
      rlx_session *s = session_on(sources[k], on);
      rlx_tensor *x = NULL, *y = NULL, *start = floats(0);
      OK(rlx_tensor_on_device(s, RLX_FLOAT, 1, &n, &x));
      OK(rlx_tensor_on_device(s, RLX_FLOAT, 1, &n, &y));
      OK(rlx_tensor_copy(start, x));
      rlx_binding *b = bound(s, x);
      OK(rlx_binding_output(b, "y", y));
      for (int again = 0; again < 2; again++) {
        OK(rlx_run(b, NULL));
        if (first_of(y) != expected[k]) fail_msg("%s: case %zu gave %g", on->debug, k, (double)first_of(y));
      }
      rlx_binding_destroy(b);
      rlx_session_destroy(s);
      rlx_tensor_destroy(x);
      rlx_tensor_destroy(y);
      rlx_tensor_destroy(start);
    }
}

static void another_device_is_refused(void **state) {
  (void)state;
  static const gpu_place_row hidden = {"record", "discrete"}, other = {"record", "discrete,validate"};
  int64_t n = 8;
  rlx_session *a = session_on(pure, &hidden), *b = session_on(pure, &other);
  rlx_tensor *t = NULL;
  OK(rlx_tensor_on_device(a, RLX_FLOAT, 1, &n, &t));
  assert_null(rlx_tensor_data(t));
  rlx_binding *binding = bound(b, t);
  FAILS(rlx_run(binding, NULL), RLX_INVALID, "input 'x' lies in memory of another device");
  rlx_binding_destroy(binding);
  rlx_tensor_destroy(t);
  rlx_session_destroy(a);
  rlx_session_destroy(b);
}

/* ---- policy ------------------------------------------------------------------------------- */

static void policies_are_kept(void **state) {
  (void)state;
  const gpu_place_row *on;
  for (int i = 0; (on = gpu_ops_device(i)); i++) {
    rlx_session *s = NULL;
    rlx_session_options o = options_for(on);
    o.policy = RLX_POLICY_FORBID;
    FAILS(create(sandwich, &o, &s), RLX_POLICY, "'node_1' (test.host: no native kernel)");
    OK(create(pure, &o, &s));
    rlx_session_destroy(s);
    static const rlx_policy_exception exception = {NULL, "test.host", RLX_POLICY_ALLOW};
    o.exceptions = &exception;
    o.exception_count = 1;
    OK(create(sandwich, &o, &s));
    rlx_session_destroy(s);
    o = options_for(on);
    o.policy = RLX_POLICY_BUDGET;
    FAILS(create(sandwich, &o, &s), RLX_POLICY, "a run makes 1 trips to the host, and the budget is 0");
    o.budget_trips = 1;
    o.budget_bytes = 64;
    OK(create(sandwich, &o, &s));
    rlx_session_destroy(s);
  }
}

static void possible_fallback_fails_the_run(void **state) {
  (void)state; /* the size of p is known only after running, so that a kernel on the device cannot make it */
  static const char source[] = HEAD "g (float[8] x) => (float[N] p) { p = test.positive(x) }";
  const gpu_place_row *on = gpu_ops_device(0);
  rlx_session *s = NULL;
  rlx_session_options o = options_for(on);
  o.policy = RLX_POLICY_FORBID;
  FAILS(create(source, &o, &s), RLX_POLICY, "test.positive");
}

static void the_report_says_it(void **state) {
  (void)state;
  const gpu_place_row *on;
  for (int i = 0; (on = gpu_ops_device(i)); i++) {
    rlx_session *s = session_on(sandwich, on);
    char *text = NULL;
    OK(rlx_report(s, RLX_REPORT_TEXT, &text));
    if (!strstr(text, "eval reference on host") || !strstr(text, "raw test on device")) fail_msg("%s", text);
    if (!strstr(text, "steps 3, host trips 1") || !strstr(text, "steps on the device 2, submissions 2"))
      fail_msg("%s", text);
    rlx_free(text);
    rlx_session_destroy(s);
  }
}

static void host_kernels_delegate(void **state) {
  (void)state;
  static const char source[] = HEAD "g (float[8] x) => (float[8] y) { a = test.turn(x)\n y = test.ready(a) }";
  const gpu_place_row *on;
  for (int i = 0; (on = gpu_ops_device(i)); i++) {
    rlx_session *s = session_on(source, on);
    rlx_tensor *x = floats(0), *y = NULL;
    rlx_binding *b = bound(s, x);
    int before = gpu_ops_delegated;
    OK(rlx_run(b, NULL));
    OK(rlx_binding_get(b, "y", &y));
    assert_true(first_of(y) == 3);
    assert_int_equal(gpu_ops_delegated, before + 1);
    rlx_tensor_destroy(y);
    rlx_tensor_destroy(x);
    rlx_binding_destroy(b);
    rlx_session_destroy(s);
  }
}

static void which_answers_for_a_device(void **state) {
  (void)state;
  rlx_type type = {.dtype = RLX_FLOAT, .rank = 1, .dims = {8}};
  static const struct {
    const char *device, *op, *kernel;
    rlx_tier tier;
  } rows[] = {{"record", "test.turn", "test", RLX_TIER_RAW},
              {"cpu", "test.turn", "reference", RLX_TIER_EVAL},
              {"record", "test.ready", "visit", RLX_TIER_HOST},
              {"cpu", "test.ready", "ready", RLX_TIER_CPU},
              {"record", "test.host", "reference", RLX_TIER_EVAL}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    rlx_which_answer *answer = NULL;
    OK(rlx_which(NULL, rows[i].device, rows[i].op, NULL, 0, &type, 1, &answer));
    assert_int_equal(answer->tier, rows[i].tier);
    assert_string_equal(answer->kernel, rows[i].kernel);
    rlx_free(answer);
  }
}

/* ---- faults ------------------------------------------------------------------------------- */

static void a_lost_device_is_said(void **state) {
  (void)state;
  const gpu_place_row *on;
  for (int i = 0; (on = gpu_ops_device(i)); i++) {
    bool vulkan = strcmp(on->device, "vulkan") == 0;
    if (!vulkan && strcmp(on->device, "record") != 0) continue;
    rlx_tensor *x = floats(0);
    /* Opening submits, too: the record device counts from there. */
    record_set_options(&(record_options){.lose_after = 6});
    rlx_session *s = session_on(sandwich, on);
    record_set_options(&(record_options){0});
    if (vulkan) vulkan_simulate_loss(2);
    rlx_binding *b = bound(s, x);
    FAILS(rlx_run(b, NULL), RLX_DEVICE, "lost");
    FAILS(rlx_run(b, NULL), RLX_DEVICE, "make a new session");
    rlx_binding_destroy(b);
    rlx_session *fresh = session_on(sandwich, on); /* while the other still holds the lost one */
    rlx_session_destroy(s);
    b = bound(fresh, x);
    OK(rlx_run(b, NULL));
    rlx_binding_destroy(b);
    rlx_session_destroy(fresh);
    rlx_tensor_destroy(x);
  }
}

static void short_device_memory_is_said(void **state) {
  (void)state;
  rlx_tensor *x = floats(0);
  int failures = 0;
  for (int n = 1; n < 12; n++) {
    rlx_session *s = NULL;
    rlx_session_options o = options_for(gpu_ops_device(1));
    record_set_options(&(record_options){.no_memory_after = n});
    rlx_status status = create(sandwich, &o, &s);
    if (status == RLX_OK) {
      rlx_binding *b = bound(s, x);
      status = rlx_run(b, NULL);
      if (status != RLX_OK) assert_int_equal(rlx_run(b, NULL), RLX_OUT_OF_MEMORY);
      rlx_binding_destroy(b);
      rlx_session_destroy(s);
    }
    assert_true(status == RLX_OK || status == RLX_OUT_OF_MEMORY);
    failures += status != RLX_OK;
  }
  record_set_options(&(record_options){0});
  assert_true(failures > 1);
  rlx_tensor_destroy(x);
}

static void run_right(rlx_session *s, rlx_tensor *x, int64_t fail_at, bool *reached) {
  rlx_tensor *y = NULL;
  rlx_binding *b = bound(s, x);
  (void)mem_inject(fail_at, 0);
  rlx_status status = rlx_run(b, NULL);
  *reached = mem_inject(0, 0) >= fail_at && fail_at;
  if (status != RLX_OK && (status != RLX_OUT_OF_MEMORY || !*reached)) fail_msg("%s", rlx_error_message());
  OK(rlx_run(b, NULL));
  OK(rlx_binding_get(b, "y", &y));
  assert_true(first_of(y) == 5);
  rlx_tensor_destroy(y);
  rlx_binding_destroy(b);
}

static void each_allocation_may_fail(void **state) {
  (void)state; /* while making the session, and in the first run; a log line may be lost, a result may not */
  for (int i = 0; i < 2; i++) {
    const gpu_place_row *on = gpu_ops_device(i); /* record, with and without staging */
    rlx_session_options o = options_for(on);
    o.max_concurrent_runs = 1;
    rlx_tensor *x = floats(0);
    bool reached = true, ignored;
    for (int64_t n = 1; reached; n++) {
      rlx_session *s = NULL;
      rlx_graph *g = NULL;
      OK(graph_parse(sandwich, strlen(sandwich), "test", NULL, NULL, &g));
      (void)mem_inject(n, 0);
      rlx_status status = rlx_session_create(g, &o, &s);
      reached = mem_inject(0, 0) >= n;
      rlx_graph_destroy(g);
      assert_true(status == RLX_OK || (reached && status == RLX_OUT_OF_MEMORY));
      if (status == RLX_OK) run_right(s, x, 0, &ignored);
      if (status == RLX_OK) rlx_session_destroy(s);
    }
    reached = true;
    for (int64_t n = 1; reached; n++) {
      rlx_session *s = session_on(sandwich, on);
      run_right(s, x, n, &reached);
      rlx_session_destroy(s);
    }
    rlx_tensor_destroy(x);
  }
}

/* ---- threads and subgraphs ---------------------------------------------------------------- */

typedef struct worker {
  rlx_session *session;
  float first;
  bool right;
} worker;

static void *work(void *arg) {
  worker *w = arg;
  rlx_tensor *x = floats(w->first), *y = NULL;
  rlx_binding *b = bound(w->session, x);
  w->right = true;
  for (int i = 0; i < 20; i++) {
    OK(rlx_run(b, NULL));
    OK(rlx_binding_get(b, "y", &y));
    w->right &= ((float *)rlx_tensor_data(y))[0] == 2 * (w->first + 2) + 1;
    rlx_tensor_destroy(y);
  }
  rlx_binding_destroy(b);
  rlx_tensor_destroy(x);
  return NULL;
}

static void threads_share_a_session(void **state) {
  (void)state;
  const gpu_place_row *on;
  for (int i = 0; (on = gpu_ops_device(i)); i++) {
    record_set_options(&(record_options){.seed = 7});
    rlx_session *s = session_on(sandwich, on);
    pthread_t threads[4];
    worker workers[4];
    for (int k = 0; k < 4; k++) {
      workers[k] = (worker){s, (float)(100 * k), false};
      assert_int_equal(pthread_create(&threads[k], NULL, work, &workers[k]), 0);
    }
    for (int k = 0; k < 4; k++) {
      pthread_join(threads[k], NULL);
      assert_true(workers[k].right);
    }
    rlx_session_destroy(s);
  }
  record_set_options(&(record_options){0});
}

static void subgraphs_run_on_it(void **state) {
  (void)state; /* the loop's body turns, then adds; the branch taken turns */
  static const char source[] =
      HEAD "g (float[8] x) => (float[8] y) {\n"
           " n = Constant <value = int64[1] {3}> ()\n t = Constant <value = bool[1] {1}> ()\n"
           " a = test.turn(x)\n"
           " b = Loop (n, t, a) <body = body (int64 i, bool c, float[8] v) => (bool d, float[8] w) {\n"
           "   d = Identity(c)\n u = test.turn(v)\n h = test.host(u)\n w = test.mix(h, a) }>\n"
           " y = If (t) <then_branch = yes () => (float[8] p) { p = test.turn(b) },\n"
           "   else_branch = no () => (float[8] q) { q = test.host(b) }> }";
  const gpu_place_row *on;
  static const gpu_place_row cpu = {"cpu", ""};
  rlx_tensor *x = floats(1), *want = NULL, *y = NULL;
  rlx_session *s = session_on(source, &cpu);
  rlx_binding *b = bound(s, x);
  OK(rlx_run(b, NULL));
  OK(rlx_binding_get(b, "y", &want));
  rlx_binding_destroy(b);
  rlx_session_destroy(s);
  for (int i = 0; (on = gpu_ops_device(i)); i++) {
    s = session_on(source, on);
    b = bound(s, x);
    for (int again = 0; again < 2; again++) {
      OK(rlx_run(b, NULL));
      OK(rlx_binding_get(b, "y", &y));
      assert_memory_equal(rlx_tensor_data(y), rlx_tensor_data(want), 32);
      rlx_tensor_destroy(y);
    }
    rlx_binding_destroy(b);
    rlx_session_destroy(s);
  }
  rlx_tensor_destroy(want);
  rlx_tensor_destroy(x);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(results_stay_on_the_device),
      cmocka_unit_test(host_steps_reach_it),
      cmocka_unit_test(another_device_is_refused),
      cmocka_unit_test(policies_are_kept),
      cmocka_unit_test(possible_fallback_fails_the_run),
      cmocka_unit_test(the_report_says_it),
      cmocka_unit_test(host_kernels_delegate),
      cmocka_unit_test(which_answers_for_a_device),
      cmocka_unit_test(a_lost_device_is_said),
      cmocka_unit_test(short_device_memory_is_said),
      cmocka_unit_test(each_allocation_may_fail),
      cmocka_unit_test(threads_share_a_session),
      cmocka_unit_test(subgraphs_run_on_it),
  };
  return cmocka_run_group_tests(tests, gpu_ops_register, NULL);
}
