/* test_samples.c — the sample rows of every op: they parse, infer, run by eval and by the kernel that would be chosen
 * with the same result, and survive every failed allocation of eval. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/memory.h"
#include "ir/dtype.h"
#include "ir/parse.h"
#include "ir/registry.h"

/* A pattern of small numbers, different in each input; integers stay 0, which every index may be. */
static rlx_tensor *filled(const rlx_type *type, int seed) {
  rlx_tensor *t = NULL;
  assert_int_equal(rlx_tensor_create(type->dtype, type->rank, type->dims, &t), RLX_OK);
  for (int64_t i = 0; dtype_is_float(type->dtype) && i < rlx_tensor_count(t); i++) {
    dtype_store(type->dtype, rlx_tensor_data(t), i, 0.1 + 0.07 * (double)((i * 7 + seed * 3) % 13));
  }
  return t;
}

typedef struct sample {
  const op_entry *op;
  const char *row;
  rlx_session *session;
  rlx_binding *binding;
} sample;

static rlx_status open_sample(sample *s, bool by_eval) {
  rlx_graph *g = NULL;
  rlx_status status = sample_parse(s->row, s->op->op.name, NULL, &g);
  if (status != RLX_OK) return status;
  rlx_pin pin = {.op = s->op->op.name, .tier = RLX_TIER_EVAL};
  rlx_session_options options = RLX_SESSION_OPTIONS_INIT;
  options.threads = 1;
  if (by_eval) options.pins = &pin, options.pin_count = 1;
  status = rlx_session_create(g, &options, &s->session);
  rlx_graph_destroy(g);
  if (status == RLX_OK) status = rlx_binding_create(s->session, &s->binding);
  for (int i = 0; status == RLX_OK && i < rlx_session_input_count(s->session); i++) {
    rlx_port_info info;
    assert_int_equal(rlx_session_input(s->session, i, &info), RLX_OK);
    rlx_tensor *t = filled(&info.type, i);
    status = rlx_binding_input(s->binding, info.name, t, 0);
    rlx_tensor_destroy(t);
  }
  return status;
}

static void close_sample(sample *s) {
  rlx_binding_destroy(s->binding);
  rlx_session_destroy(s->session);
}

static void must(const sample *s, rlx_status status, const char *what) {
  if (status != RLX_OK) fail_msg("%s \"%s\": %s: %s", s->op->op.name, s->row, what, rlx_error_message());
}

/* Largest difference of an output between the two, in parts of 1 + |value|. */
static double difference(sample *a, sample *b) {
  double worst = 0;
  for (int i = 0; i < rlx_session_output_count(a->session); i++) {
    rlx_port_info info;
    rlx_tensor *x = NULL, *y = NULL;
    assert_int_equal(rlx_session_output(a->session, i, &info), RLX_OK);
    assert_int_equal(rlx_binding_get(a->binding, info.name, &x), RLX_OK);
    assert_int_equal(rlx_binding_get(b->binding, info.name, &y), RLX_OK);
    assert_int_equal(rlx_tensor_count(x), rlx_tensor_count(y));
    rlx_dtype dtype = rlx_tensor_dtype(x);
    for (int64_t k = 0; dtype != RLX_STRING && k < rlx_tensor_count(x); k++) {
      double p = dtype_load(dtype, rlx_tensor_data(x), k), q = dtype_load(dtype, rlx_tensor_data(y), k);
      if (isnan(p) && isnan(q)) continue;
      double d = p == q ? 0 : fabs(p - q) / (1 + fabs(p));
      worst = d > worst || d != d ? d : worst;
    }
    rlx_tensor_destroy(x);
    rlx_tensor_destroy(y);
  }
  return worst;
}

static void check_row(const op_entry *op, const char *row) {
  sample reference = {.op = op, .row = row}, chosen = {.op = op, .row = row};
  must(&reference, open_sample(&reference, true), "eval, opening");
  must(&reference, rlx_run(reference.binding, NULL), "eval, running");
  must(&chosen, open_sample(&chosen, false), "opening");
  must(&chosen, rlx_run(chosen.binding, NULL), "running");
  double d = op->op.traits & RLX_RANDOM ? 0 : difference(&reference, &chosen);
  if (!(d < 2e-3)) fail_msg("%s \"%s\": the kernel differs from eval by %g", op->op.name, row, d);
  close_sample(&chosen);
  for (int64_t n = 1, left = 1; left > 0 && n < 200; n++) {
    (void)mem_inject(n, 0);
    rlx_status status = rlx_run(reference.binding, NULL);
    left = mem_inject(0, 0) - n + 1;
    if (status != RLX_OK && status != RLX_OUT_OF_MEMORY) must(&reference, status, "with an allocation that fails");
  }
  must(&reference, rlx_run(reference.binding, NULL), "after allocations that failed");
  close_sample(&reference);
}

static bool check_op(void *rows, const op_entry *op) {
  if (!op->builtin || !op->op.eval || !op->op.samples) return true;
  op_entry *newest = registry_find_op(NULL, op->op.name, 0);
  bool is_newest = newest->op.version == op->op.version;
  op_entry_release(newest);
  for (const char *const *row = op->op.samples; is_newest && *row; row++) {
    check_row(op, *row);
    ++*(int *)rows;
  }
  return true;
}

static void test_samples(void **unused) {
  (void)unused;
  int rows = 0;
  registry_each_op(NULL, check_op, &rows);
  assert_true(rows > 60);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_samples)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
