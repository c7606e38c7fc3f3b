/* test_check_op.c — rlx_check_op finds what is wrong with ops that are wrong, and nothing in one that is right. */
#include <rlx/extend.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define OK(expr)                                                          \
  do {                                                                    \
    if ((expr) != RLX_OK) fail_msg("%s: %s", #expr, rlx_error_message()); \
  } while (0)

static const rlx_port in[] = {{"x", "T", RLX_SET(RLX_FLOAT), 0, 0}, {0}}, out[] = {{"y", "T", 0, 0, 0}, {0}};
static const char *const rows[] = {"float[3,4]", NULL};

static float *y_of(rlx_ctx *ctx) { return ctx->outputs[0].data; }
static const float *x_of(rlx_ctx *ctx) { return ctx->inputs[0].data; }

static rlx_status twice(rlx_ctx *ctx) {
  for (int64_t i = 0; i < ctx->outputs[0].count; i++) y_of(ctx)[i] = 2 * x_of(ctx)[i];
  return RLX_OK;
}
static rlx_status wrong(rlx_ctx *ctx) {
  (void)twice(ctx);
  if (ctx->outputs[0].count > 5) y_of(ctx)[5] += 1;
  return RLX_OK;
}
static rlx_status crash(rlx_ctx *ctx) {
  (void)ctx;
  raise(SIGSEGV);
  return RLX_OK;
}
static rlx_status stop(rlx_ctx *ctx) {
  (void)ctx;
  abort();
}
static rlx_status leave(rlx_ctx *ctx) {
  (void)ctx;
  _exit(7);
}
static rlx_status hang(rlx_ctx *ctx) {
  for (volatile int forever = 1; forever;) (void)ctx;
  return RLX_OK;
}
static rlx_status past_the_end(rlx_ctx *ctx) {
  (void)twice(ctx);
  y_of(ctx)[ctx->outputs[0].count] = 0;
  return RLX_OK;
}
static rlx_status before_the_start(rlx_ctx *ctx) {
  (void)twice(ctx);
  y_of(ctx)[-1] = 0;
  return RLX_OK;
}
static rlx_status reads_past(rlx_ctx *ctx) {
  (void)twice(ctx);
  if (x_of(ctx)[ctx->inputs[0].count] > 1e30f) y_of(ctx)[0] += 0;
  return RLX_OK;
}
static rlx_status changes_input(rlx_ctx *ctx) {
  (void)twice(ctx);
  if (ctx->inputs[0].count) ((float *)ctx->inputs[0].data)[0] += 1;
  return RLX_OK;
}
/* What it does not write is near to what is expected, whatever was there. */
static rlx_status leaves_a_hole(rlx_ctx *ctx) {
  for (int64_t i = 0; i < ctx->outputs[0].count; i++)
    if (i != 5) y_of(ctx)[i] = 1;
  return RLX_OK;
}
static rlx_status ones(rlx_ctx *ctx) {
  for (int64_t i = 0; i < ctx->outputs[0].count; i++) y_of(ctx)[i] = i == 5 ? 0 : 1;
  return RLX_OK;
}
static rlx_status moody(rlx_ctx *ctx) {
  static int calls;
  (void)twice(ctx);
  if (ctx->outputs[0].count) y_of(ctx)[0] *= 1 + 1e-6f * (float)(__atomic_fetch_add(&calls, 1, __ATOMIC_RELAXED) % 7);
  return RLX_OK;
}
/* Keeps the number of the call in a place that calls share, and waits a while for another to come. */
static rlx_status one_at_a_time(rlx_ctx *ctx) {
  static int calls, inside, owner;
  int me = __atomic_add_fetch(&calls, 1, __ATOMIC_SEQ_CST);
  __atomic_add_fetch(&inside, 1, __ATOMIC_SEQ_CST);
  __atomic_store_n(&owner, me, __ATOMIC_SEQ_CST);
  for (int i = 0; i < 2000 && __atomic_load_n(&inside, __ATOMIC_SEQ_CST) == 1; i++) sched_yield();
  bool mine = __atomic_load_n(&owner, __ATOMIC_SEQ_CST) == me;
  __atomic_sub_fetch(&inside, 1, __ATOMIC_SEQ_CST);
  (void)twice(ctx);
  if (!mine && ctx->outputs[0].count) y_of(ctx)[0] += 1;
  return RLX_OK;
}
static rlx_status in_place_badly(rlx_ctx *ctx) { /* reads what it has written, if both are the same memory */
  int64_t n = ctx->outputs[0].count;
  for (int64_t i = 0; i < n; i++) y_of(ctx)[i] = 0;
  for (int64_t i = 0; i < n; i++) y_of(ctx)[i] += 2 * x_of(ctx)[i];
  return RLX_OK;
}
static rlx_status only_floats(rlx_ctx *ctx) {
  return ctx->inputs[0].dtype == RLX_FLOAT ? twice(ctx) : rlx_fail(ctx, RLX_UNSUPPORTED, "floats only");
}

static rlx_status one_less(rlx_infer *ctx) { /* right where everything is known, wrong where it is not */
  const rlx_type *x = rlx_infer_input(ctx, 0);
  rlx_infer_like(ctx, 0, 0);
  for (int d = 0; d < x->rank; d++)
    if (x->dims[d] == RLX_UNKNOWN) rlx_infer_output(ctx, 0)->dims[d] = 1;
  return RLX_OK;
}

static const char *never(const rlx_node *n) {
  (void)n;
  return "not on a Tuesday";
}

static rlx_op an_op(rlx_status (*eval)(rlx_ctx *)) {
  return (rlx_op){
      .struct_size = sizeof(rlx_op), .name = "faulty.op", .samples = rows, .inputs = in, .outputs = out, .eval = eval};
}
static rlx_cpu_kernel a_kernel(rlx_status (*run)(rlx_ctx *)) {
  return (rlx_cpu_kernel){sizeof(rlx_cpu_kernel), {.op = "faulty.op", .name = "mine"}, run};
}

static rlx_check_result *check(const rlx_op *op, const rlx_cpu_kernel *kernel) {
  rlx_registry *r = NULL;
  rlx_check_result *result = NULL;
  rlx_check_options o = RLX_CHECK_OPTIONS_INIT;
  OK(rlx_registry_create(&r));
  OK(rlx_register_op(r, op, 0, NULL));
  if (kernel) OK(rlx_register_cpu_kernel(r, kernel, 0, NULL));
  o.registry = r;
  o.timeout_ms = 1500;
  OK(rlx_check_op("faulty.op", &o, &result));
  rlx_registry_destroy(r);
  return result;
}

static const rlx_check_line *find(const rlx_check_result *r, rlx_check_outcome outcome, const char *check) {
  for (int i = 0; i < r->line_count; i++)
    if (r->lines[i].outcome == outcome && strcmp(r->lines[i].check, check) == 0) return &r->lines[i];
  return NULL;
}

static void must_find(rlx_check_result *r, const char *check, const char *words) {
  const rlx_check_line *l = find(r, RLX_CHECK_FAILED, check);
  if (!l) fail_msg("no failure of '%s'", check);
  if (!strstr(l->message, words)) fail_msg("'%s' not in '%s'", words, l->message);
  assert_true(strstr(l->sample, "float[3,4]") == l->sample);
  if (!strstr(l->graph, "faulty.op")) fail_msg("no graph with '%s'", l->message);
  rlx_free(r);
}

static void a_faulty_kernel(rlx_status (*run)(rlx_ctx *), const char *checked, const char *words) {
  rlx_op op = an_op(twice);
  rlx_cpu_kernel k = a_kernel(run);
  must_find(check(&op, &k), checked, words);
}

static void right(void **state) {
  (void)state;
  static const rlx_pair pair[] = {{0, 0}};
  rlx_op op = an_op(twice);
  rlx_cpu_kernel k = a_kernel(twice);
  k.head.in_place = pair;
  k.head.in_place_count = 1;
  rlx_check_result *r = check(&op, &k);
  for (int i = 0; i < r->line_count; i++)
    if (r->lines[i].outcome == RLX_CHECK_FAILED) fail_msg("%s: %s", r->lines[i].check, r->lines[i].message);
  for (int i = 0; rlx_check_name(i, NULL); i++) { /* this op has something for each of them, but one input only */
    const char *name = rlx_check_name(i, NULL);
    if (strcmp(name, "constant") != 0 && strcmp(name, "gradient") != 0 && !find(r, RLX_CHECK_PASSED, name))
      fail_msg("no case of '%s'", name);
  }
  assert_true(r->passed > 100 && r->skipped == 0 && r->sample_count == 1);
  rlx_free(r);
}

static void processes(void **state) {
  (void)state;
  a_faulty_kernel(crash, "tier", "crashed with signal 11");
  a_faulty_kernel(stop, "tier", "crashed with signal 6");
  a_faulty_kernel(leave, "tier", "exit code 7");
  a_faulty_kernel(hang, "tier", "still running after 1500 ms");
  rlx_op op = an_op(crash);
  must_find(check(&op, NULL), "reference", "crashed with signal 11");
}

static void memory_around(void **state) {
  (void)state;
  a_faulty_kernel(past_the_end, "tier", "crashed with signal 11");
  a_faulty_kernel(reads_past, "tier", "crashed with signal 11");
  a_faulty_kernel(before_the_start, "tier", "writes before output 0");
  a_faulty_kernel(changes_input, "tier", "changes input 0");
}

static void answers(void **state) {
  (void)state;
  a_faulty_kernel(wrong, "tier", "output 0, element 5");
  a_faulty_kernel(moody, "written", "gives different bits");
  a_faulty_kernel(one_at_a_time, "threads", "other bits");
  rlx_op op = an_op(ones);
  rlx_cpu_kernel k = a_kernel(leaves_a_hole);
  must_find(check(&op, &k), "written", "bytes that are not written");
}

static void declarations(void **state) {
  (void)state;
  static const rlx_pair pair[] = {{0, 0}};
  rlx_op op = an_op(twice);
  rlx_cpu_kernel k = a_kernel(in_place_badly);
  k.head.in_place = pair;
  k.head.in_place_count = 1;
  must_find(check(&op, &k), "in place", "output 0 on input 0");
  op.infer = one_less;
  must_find(check(&op, NULL), "infer", "output 0 is inferred as");
  rlx_port wide[] = {{"x", "T", RLX_SET(RLX_FLOAT) | RLX_SET(RLX_INT8), 0, 0}, {0}};
  op = an_op(only_floats);
  op.inputs = wide;
  must_find(check(&op, NULL), "reference", "a dtype that the ports permit");
}

static void what_was_not_tested(void **state) {
  (void)state;
  rlx_op op = an_op(twice);
  rlx_cpu_kernel k = a_kernel(twice);
  k.head.why_not = never;
  rlx_check_result *r = check(&op, &k);
  const rlx_check_line *l = find(r, RLX_CHECK_SKIPPED, "tier");
  assert_non_null(l);
  assert_string_equal(l->subject, "cpu mine");
  assert_non_null(strstr(l->message, "not on a Tuesday"));
  rlx_free(r);
  op.samples = NULL;
  r = check(&op, NULL);
  assert_true(r->passed == 0 && r->failed == 0 && r->skipped == 1);
  assert_non_null(strstr(r->lines[0].message, "no samples"));
  rlx_free(r);
  static const char *const bad[] = {"float[3", NULL};
  op.samples = bad;
  r = check(&op, NULL);
  assert_non_null(find(r, RLX_CHECK_FAILED, "reference"));
  assert_non_null(strstr(find(r, RLX_CHECK_FAILED, "reference")->message, "cannot be read"));
  rlx_free(r);
}

static void arguments(void **state) {
  (void)state;
  rlx_check_result *r = NULL;
  rlx_check_options o = RLX_CHECK_OPTIONS_INIT;
  assert_int_equal(rlx_check_op("no.such", NULL, &r), RLX_NOT_FOUND);
  assert_int_equal(rlx_check_op(NULL, NULL, &r), RLX_INVALID);
  o.version = 2;
  assert_int_equal(rlx_check_op("onnx.Relu", &o, &r), RLX_NOT_FOUND);
  o.version = 0;
  o.device = "abacus";
  assert_int_equal(rlx_check_op("onnx.Relu", &o, &r), RLX_NOT_FOUND);
  o.struct_size = 0;
  assert_int_equal(rlx_check_op("onnx.Relu", &o, &r), RLX_INVALID);
  o = (rlx_check_options)RLX_CHECK_OPTIONS_INIT;
  o.sample = "float[2,2]";
  o.flags = RLX_CHECK_QUICK | RLX_CHECK_IN_PROCESS;
  OK(rlx_check_op("onnx.Relu", &o, &r));
  assert_true(r->failed == 0 && r->passed > 5);
  rlx_free(r);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(right),     cmocka_unit_test(processes),    cmocka_unit_test(memory_around),
      cmocka_unit_test(answers),   cmocka_unit_test(declarations), cmocka_unit_test(what_was_not_tested),
      cmocka_unit_test(arguments),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
