/* test_grad_ops.c — every registered op: its derivatives against differences over the sample rows of its record. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "grad/check.h"
#include "ir/registry.h"

static bool floats(const rlx_port *ports) {
  for (; ports && ports->name; ports++)
    if ((ports->dtypes ? ports->dtypes : RLX_SET_ALL) & RLX_SET_FLOATS) return true;
  return false;
}

/* Takes floats and gives floats: has derivatives, or says why not. */
static bool can_have_derivatives(const rlx_op *op) { return floats(op->inputs) && floats(op->outputs); }

typedef struct totals {
  int ops, rows, refused, bad;
} totals;

/* ONNX's, its training ops and rlx's own; packages have their tests. ai.onnx.ml has no derivatives: reaching one of its
 * ops is an error. */
static bool own(const char *name) {
  return strncmp(name, "onnx.", 5) == 0 || strncmp(name, "ai.onnx.preview.", 16) == 0 || strncmp(name, "rlx.", 4) == 0;
}

static bool check_op(void *user, const op_entry *e) {
  totals *t = user;
  const rlx_op *op = &e->op;
  bool rule = op->vjp || op->jvp || op->derive || op->lower;
  if (!can_have_derivatives(op) || !e->builtin || !own(op->name)) return true;
  if (!rule && op->no_derivative) return true;
  t->ops++;
  if (!rule) {
    printf("%s@%d: no derivative and no reason\n", op->name, op->version);
    t->bad++;
    return true;
  }
  for (int i = 0; op->samples && op->samples[i]; i++) {
    grad_report r;
    t->rows++;
    rlx_status status = grad_check_sample(e, op->samples[i], NULL, &r);
    if (status == RLX_OK && r.passed) continue;
    if (status == RLX_UNSUPPORTED) { /* says why: an attribute's value that has no rule */
      t->refused++;
      printf("refused: %s@%d %s: %s\n", op->name, op->version, op->samples[i], rlx_error_message());
      continue;
    }
    t->bad++;
    printf("%s@%d %s: %s\n", op->name, op->version, op->samples[i], status ? rlx_error_message() : r.what);
  }
  return true;
}

static void test_samples(void **state) {
  totals t = {0};
  (void)state;
  registry_each_op(NULL, check_op, &t);
  printf("%d ops, %d rows, %d refused, %d bad\n", t.ops, t.rows, t.refused, t.bad);
  assert_int_equal(t.bad, 0);
  assert_true(t.refused * 20 <= t.rows);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_samples)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
