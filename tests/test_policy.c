/* test_policy.c — the fallback policy: what it forbids, warns of, and counts; pins; what the report says of them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "backend/record/record.h"
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

/* first = turn(x), on the device; second = host(first), third = host(second): on the host; y = turn(third). */
static rlx_graph *chain(void) {
  static const char *const names[] = {"first", "second", "third", "fourth"};
  static const char *const op_names[] = {"test.turn", "test.host", "test.host", "test.turn"};
  rlx_graph *g = NULL;
  rlx_type type = {.dtype = RLX_FLOAT, .rank = 1, .dims = {4}};
  OK(rlx_graph_create(NULL, &g));
  rlx_value *v = rlx_graph_input(g, "x", &type);
  for (int i = 0; i < 4; i++) {
    rlx_node_desc d = {.struct_size = sizeof d,
                       .op = op_names[i],
                       .name = names[i],
                       .inputs = &v,
                       .input_count = 1,
                       .output_count = 1};
    v = rlx_node_output(rlx_graph_node(g, &d), 0);
  }
  rlx_graph_output(g, v, "y");
  OK(rlx_graph_finish(g));
  return g;
}

static rlx_session_options on_record(rlx_policy policy) {
  rlx_session_options o = RLX_SESSION_OPTIONS_INIT;
  o.device = "record";
  o.policy = policy;
  o.budget_bytes = INT64_MAX;
  return o;
}

static rlx_status compile(const rlx_graph *g, const rlx_session_options *o, char **report) {
  rlx_session *s = NULL;
  rlx_status status = rlx_session_create(g, o, &s);
  if (status == RLX_OK && report) OK(rlx_report(s, RLX_REPORT_TEXT, report));
  rlx_session_destroy(s);
  return status;
}

static rlx_status run(const rlx_graph *g, const rlx_session_options *o) {
  rlx_session *s = NULL;
  rlx_binding *b = NULL;
  rlx_tensor *x = NULL;
  int64_t four = 4;
  rlx_status created = rlx_session_create(g, o, &s); /* extents are known: it binds at once */
  if (created != RLX_OK) return created;
  OK(rlx_binding_create(s, &b));
  OK(rlx_tensor_create(RLX_FLOAT, 1, &four, &x));
  OK(rlx_binding_input(b, "x", x, 0));
  rlx_status status = rlx_run(b, NULL);
  char kept[512];
  snprintf(kept, sizeof kept, "%s", rlx_error_message());
  rlx_tensor_destroy(x);
  rlx_binding_destroy(b);
  rlx_session_destroy(s);
  if (status != RLX_OK) (void)rlx_fail(NULL, status, "%s", kept);
  return status;
}

static void forbid(void **state) {
  (void)state;
  rlx_graph *g = chain();
  rlx_session_options o = on_record(RLX_POLICY_FORBID);
  FAILS(compile(g, &o, NULL), RLX_POLICY, "2 nodes cannot run on record");
  assert_non_null(strstr(rlx_error_message(), "'second' (test.host"));
  assert_non_null(strstr(rlx_error_message(), "'third' (test.host"));
  rlx_policy_exception for_op[] = {{NULL, "test.host", RLX_POLICY_ALLOW}};
  o.exceptions = for_op;
  o.exception_count = 1;
  OK(compile(g, &o, NULL));
  rlx_policy_exception for_node[] = {{NULL, "test.host", RLX_POLICY_ALLOW}, {"third", NULL, RLX_POLICY_FORBID}};
  o.policy = RLX_POLICY_ALLOW;
  o.exceptions = for_node;
  o.exception_count = 2;
  FAILS(compile(g, &o, NULL), RLX_POLICY, "1 node cannot run on record");
  assert_non_null(strstr(rlx_error_message(), "'third'"));
  o.device = "cpu"; /* nothing falls back there */
  OK(compile(g, &o, NULL));
  rlx_graph_destroy(g);
}

static void words_that_match_nothing(void **state) {
  (void)state;
  rlx_graph *g = chain();
  rlx_session_options o = on_record(RLX_POLICY_ALLOW);
  rlx_policy_exception none[] = {{"fifth", NULL, RLX_POLICY_ALLOW}};
  o.exceptions = none;
  o.exception_count = 1;
  FAILS(compile(g, &o, NULL), RLX_NOT_FOUND, "the model has no node 'fifth'");
  o.exception_count = 0;
  rlx_pin pins[] = {{.op = "onnx.Relu", .tier = RLX_TIER_CPU}};
  o.pins = pins;
  o.pin_count = 1;
  FAILS(compile(g, &o, NULL), RLX_NOT_FOUND, "pin: the model has no op 'onnx.Relu'");
  pins[0] = (rlx_pin){.node = "first", .tier = RLX_TIER_CPU};
  FAILS(compile(g, &o, NULL), RLX_UNSUPPORTED, "pinned to another tier");
  pins[0] = (rlx_pin){.node = "first", .tier = RLX_TIER_EVAL};
  OK(compile(g, &o, NULL));
  rlx_graph_destroy(g);
}

static void budget(void **state) {
  (void)state;
  rlx_graph *g = chain();
  rlx_session_options o = on_record(RLX_POLICY_BUDGET);
  o.budget_trips = 0;
  FAILS(run(g, &o), RLX_POLICY, "the budget is 0");
  o.budget_trips = 1; /* both host nodes share a trip */
  OK(run(g, &o));
  o.debug = "discrete";
  o.budget_bytes = 0;
  FAILS(run(g, &o), RLX_POLICY, "bytes for the host");
  o.budget_trips = -1;
  FAILS(compile(g, &o, NULL), RLX_INVALID, "negative budget");
  rlx_graph_destroy(g);
}

typedef struct heard {
  int warnings, lines;
} heard;

static void listen(void *user, int level, const char *line) {
  heard *h = user;
  h->warnings += level == RLX_LOG_WARN && strstr(line, "(test.host) runs on the host") != NULL;
  h->lines += level == RLX_LOG_INFO && strstr(line, "record: 2 of 4 nodes run on the host (test.host)") != NULL;
}

static void one_line(void **state) {
  (void)state;
  rlx_graph *g = chain();
  for (int warn = 0; warn < 2; warn++) {
    heard h = {0};
    rlx_session_options o = on_record(warn ? RLX_POLICY_WARN : RLX_POLICY_ALLOW);
    rlx_set_log(listen, &h);
    OK(compile(g, &o, NULL));
    rlx_set_log(NULL, NULL);
    assert_int_equal(h.lines, 1);
    assert_int_equal(h.warnings, warn ? 2 : 0);
  }
  rlx_graph_destroy(g);
}

static void environment(void **state) {
  (void)state;
  rlx_graph *g = chain();
  char *report = NULL;
  rlx_session_options o = on_record(RLX_POLICY_FORBID);
  setenv("RLX_FALLBACK", "allow", 1);
  OK(compile(g, &o, &report));
  assert_non_null(strstr(report, "fallback policy allow (set by RLX_FALLBACK)"));
  assert_non_null(strstr(report, "on host, policy allow"));
  rlx_free(report);
  setenv("RLX_FALLBACK", "forbid", 1);
  rlx_policy_exception yes[] = {{NULL, "test.host", RLX_POLICY_ALLOW}};
  o.exceptions = yes; /* the environment speaks for every node */
  o.exception_count = 1;
  FAILS(compile(g, &o, NULL), RLX_POLICY, "2 nodes");
  setenv("RLX_FALLBACK", "budget=0", 1);
  FAILS(run(g, &o), RLX_POLICY, "the budget is 0");
  setenv("RLX_FALLBACK", "budget=1,99999", 1);
  OK(run(g, &o));
  setenv("RLX_FALLBACK", "budget=x", 1);
  FAILS(compile(g, &o, NULL), RLX_INVALID, "budget=x");
  setenv("RLX_FALLBACK", "never", 1);
  FAILS(compile(g, &o, NULL), RLX_INVALID, "'never' is no policy");
  setenv("RLX_FALLBACK", "", 1); /* says nothing */
  o.policy = RLX_POLICY_WARN;
  o.exception_count = 0;
  OK(compile(g, &o, &report));
  assert_non_null(strstr(report, "fallback policy warn\n"));
  rlx_free(report);
  unsetenv("RLX_FALLBACK");
  rlx_graph_destroy(g);
}

/* ---- a kernel that depends on extents ---- */

static rlx_status copy(rlx_ctx *ctx) {
  if (ctx->inputs[0].bytes) memcpy(ctx->outputs[0].data, ctx->inputs[0].data, (size_t)ctx->inputs[0].bytes);
  return RLX_OK;
}
static const char *by_extents(const rlx_node *n) {
  (void)n;
  return rlx_depends_on_extents;
}
static const char *only_four(const rlx_bound *b) {
  return rlx_bound_input(b, 0)->dims[0] == 4 ? NULL : "not four elements";
}

static void possible(void **state) {
  (void)state;
  static const rlx_port in[] = {{"X", "T", RLX_SET(RLX_FLOAT), 0, 0}, {0}}, out[] = {{"Y", "T", 0, 0, 0}, {0}};
  rlx_op op = {.struct_size = sizeof op, .name = "test.four", .inputs = in, .outputs = out, .eval = copy};
  record_kernel k = {
      sizeof k, {.op = "test.four", .name = "test", .why_not = by_extents, .why_not_bound = only_four}, copy, NULL};
  OK(rlx_register_op(NULL, &op, 0, NULL));
  OK(record_register_kernel(NULL, &k, 0, NULL));
  rlx_graph *g = NULL;
  rlx_type type = {.dtype = RLX_FLOAT, .rank = 1, .dims = {RLX_UNKNOWN}};
  OK(rlx_graph_create(NULL, &g));
  rlx_value *x = rlx_graph_input(g, "x", &type);
  rlx_graph_output(g, rlx_graph_op(g, "test.four", NULL, 0, &x, 1), "y");
  OK(rlx_graph_finish(g));
  rlx_session *s = NULL;
  rlx_binding *b = NULL;
  rlx_session_options o = on_record(RLX_POLICY_FORBID);
  OK(rlx_session_create(g, &o, &s)); /* it may come out well */
  char *report = NULL;
  OK(rlx_report(s, RLX_REPORT_JSON, &report));
  assert_non_null(strstr(report, "\"placement\":\"device or host\",\"policy\":\"forbid\""));
  rlx_free(report);
  OK(rlx_binding_create(s, &b));
  for (int64_t n = 4; n <= 5; n++) {
    rlx_tensor *t = NULL;
    OK(rlx_tensor_create(RLX_FLOAT, 1, &n, &t));
    OK(rlx_binding_input(b, "x", t, 0));
    if (n == 4)
      OK(rlx_run(b, NULL));
    else
      FAILS(rlx_run(b, NULL), RLX_POLICY, "it must run on the host with these inputs, and the policy forbids that");
    rlx_tensor_destroy(t);
  }
  rlx_binding_destroy(b);
  rlx_session_destroy(s);
  rlx_graph_destroy(g);
}

/* Every candidate stands in the report: chosen, passed over, after it. */
static void candidates(void **state) {
  (void)state;
  rlx_graph *g = chain();
  rlx_session *s = NULL;
  char *report = NULL;
  rlx_session_options o = on_record(RLX_POLICY_ALLOW);
  rlx_pin pin = {.node = "fourth", .tier = RLX_TIER_EVAL};
  o.pins = &pin;
  o.pin_count = 1;
  OK(rlx_session_create(g, &o, &s));
  OK(rlx_report(s, RLX_REPORT_TEXT, &report));
  assert_non_null(strstr(report, "after it: eval reference"));
  assert_non_null(strstr(report, "passed over: raw test: pinned to another tier"));
  rlx_free(report);
  OK(rlx_report(s, RLX_REPORT_JSON, &report));
  assert_non_null(strstr(report, "\"later\":[{\"tier\":\"eval\",\"kernel\":\"reference\"}]"));
  assert_non_null(strstr(report, "\"reason\":\"pinned to another tier\""));
  rlx_free(report);
  OK(rlx_report(s, RLX_REPORT_DOT, &report));
  assert_non_null(strstr(report, "g0_n0 -> g0_n1;"));
  assert_non_null(strstr(report, "passed over: raw test: pinned to another tier"));
  assert_non_null(strstr(report, "fillcolor=orange"));
  rlx_free(report);
  rlx_session_destroy(s);
  rlx_graph_destroy(g);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(forbid),      cmocka_unit_test(words_that_match_nothing),
      cmocka_unit_test(budget),      cmocka_unit_test(one_line),
      cmocka_unit_test(environment), cmocka_unit_test(possible),
      cmocka_unit_test(candidates),
  };
  return cmocka_run_group_tests(tests, gpu_ops_register, NULL);
}
