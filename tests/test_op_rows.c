/* test_op_rows.c — the rows of tests/rows on every op's eval, on every kernel that takes them, and as selected, with
 * inputs given at the run and with constants. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "ir/registry.h"
#include "support/rows.h"

/* ---- what there is to run ----------------------------------------------------------------- */

enum { KERNELS = 1024 };

typedef struct known_kernel {
  const char *op, *name;
  int runs;
} known_kernel;

static known_kernel kernels[KERNELS];
static int kernel_count, failed, runs;

static bool add_kernel(void *user, const rlx_kernel_info *info) {
  (void)user;
  bool own = strcmp(info->owner, "rlx") == 0 && info->tier == RLX_TIER_CPU && strncmp(info->head->op, "onnx.", 5) == 0;
  for (int i = 0; i < kernel_count && own; i++)
    own = strcmp(kernels[i].op, info->head->op) != 0 || strcmp(kernels[i].name, info->head->name) != 0;
  if (own && kernel_count < KERNELS) kernels[kernel_count++] = (known_kernel){info->head->op, info->head->name, 0};
  return true;
}

/* ---- one run ------------------------------------------------------------------------------ */

typedef struct variant {
  const char *what;
  const rlx_pin *pin; /* NULL: as selected */
  uint64_t constants;
  int threads;
} variant;

static void report(const row *r, const variant *v, const char *problem) {
  char nodes[160];
  snprintf(nodes, sizeof nodes, "%.*s", (int)strcspn(r->nodes + 2, "\n"), r->nodes + 2);
  if (failed++ < 60) print_error("%s:%d: %s: %s: %s\n", r->file, r->line, nodes, v->what, problem);
}

static rlx_status run(rlx_session *s, const row *r, uint64_t constants, rlx_binding *b) {
  for (int i = 0; i < r->input_count; i++)
    if (!(constants >> i & 1)) {
      rlx_status status = rlx_binding_input(b, r->inputs[i].name, r->inputs[i].tensor, 0);
      if (status != RLX_OK) return status;
    }
  (void)s;
  return rlx_run(b, NULL);
}

static void compare(const row *r, const variant *v, rlx_binding *b) {
  for (int i = 0; i < r->output_count; i++) {
    rlx_tensor *t = NULL;
    if (rlx_binding_get(b, r->outputs[i].name, &t) != RLX_OK) {
      report(r, v, rlx_error_message());
      return;
    }
    const char *difference = row_difference(r, i, t);
    if (difference) report(r, v, difference);
    rlx_tensor_destroy(t);
  }
}

/* A pin that cannot hold is a refusal: told before the run, or, from extents, by the run. A version that lowers to a
 * newer one of the same name gives a node that the pin does not let through either. */
static bool is_refusal(const variant *v, rlx_status status) {
  const char *message = rlx_error_message();
  bool lower = v->pin && v->pin->tier == RLX_TIER_LOWER && strstr(message, "lower 'lower': no kernel for");
  return v->pin && status == RLX_UNSUPPORTED &&
         (lower || strstr(message, "pinned to another") || strstr(message, "no kernel takes these extents"));
}

/* False if the pin was refused. */
static bool try_variant(const row *r, const variant *v) {
  rlx_graph *g = row_graph(r, NULL, v->constants);
  rlx_session *s = NULL;
  rlx_binding *b = NULL;
  rlx_session_options options = RLX_SESSION_OPTIONS_INIT;
  options.threads = v->threads;
  options.memory_limit = 256 << 20; /* some rows ask for more than there is */
  options.pins = v->pin;
  options.pin_count = v->pin ? 1 : 0;
  rlx_status status = g ? rlx_session_create(g, &options, &s) : RLX_INVALID;
  if (status == RLX_OK) status = rlx_binding_create(s, &b);
  if (status == RLX_OK) status = run(s, r, v->constants, b);
  bool refused = is_refusal(v, status);
  if (!refused) {
    runs++;
    if (status == RLX_OK && r->fails)
      report(r, v, "succeeds, and should fail");
    else if (status == RLX_OK)
      compare(r, v, b);
    else if (!r->fails || !strstr(rlx_error_message(), r->fails))
      report(r, v, rlx_error_message());
  }
  rlx_binding_destroy(b);
  rlx_session_destroy(s);
  rlx_graph_destroy(g);
  return !refused;
}

/* ---- rows --------------------------------------------------------------------------------- */

enum { OPS = 512 };
static const char *seen_ops[OPS];
static int seen_count;

static void see(const char *op) {
  for (int i = 0; i < seen_count; i++)
    if (strcmp(seen_ops[i], op) == 0) return;
  char *copy = strdup(op);
  assert_non_null(copy);
  if (seen_count < OPS) seen_ops[seen_count++] = copy;
}

static void check_kernels(const row *r, const rlx_node *n) {
  for (int i = 0; i < kernel_count; i++) {
    if (strcmp(kernels[i].op, n->op_name) != 0) continue;
    rlx_pin pin = {.op = kernels[i].op, .tier = RLX_TIER_CPU, .kernel = kernels[i].name};
    char what[96];
    snprintf(what, sizeof what, "kernel %s", kernels[i].name);
    variant given = {what, &pin, 0, 1}, constant = {what, &pin, UINT64_MAX - 1, 2};
    if (!try_variant(r, &given)) continue;
    kernels[i].runs++;
    if (r->input_count > 1) try_variant(r, &constant);
  }
}

static void check_row(void *user, const row *r) {
  (void)user;
  const variant selected = {"as selected", NULL, 0, 2}, folded = {"of constants", NULL, UINT64_MAX, 1};
  rlx_graph *g = row_graph(r, NULL, 0);
  if (!g) { /* fails as soon as types are known */
    try_variant(r, &selected);
    return;
  }
  const rlx_node *n = g->nodes.data[0];
  rlx_pin eval = {.tier = RLX_TIER_EVAL}, lower = {.op = n->op_name, .tier = RLX_TIER_LOWER};
  const variant by_eval = {"eval", &eval, 0, 1}, by_lower = {"lower", &lower, 0, 1};
  for (size_t i = 0; i < g->nodes.count; i++) see(g->nodes.data[i]->op_name);
  try_variant(r, &selected);
  try_variant(r, &folded);
  if (!try_variant(r, &by_eval) && g->nodes.count == 1 && n->op && n->op->op.eval) report(r, &by_eval, "refused");
  if (n->op && n->op->op.lower) try_variant(r, &by_lower);
  if (n->op) check_kernels(r, n);
  rlx_graph_destroy(g);
}

static void test_rows(void **state) {
  (void)state;
  rlx_registry_each_kernel(NULL, add_kernel, NULL);
  int rows = rows_each("tests/rows", 0, 1, check_row, NULL);
  print_message("%d rows, %d runs, %d ops\n", rows, runs, seen_count);
  assert_int_equal(failed, 0);
}

/* ---- nothing is left out ------------------------------------------------------------------ */

static void test_every_kernel(void **state) {
  (void)state;
  int idle = 0;
  for (int i = 0; i < kernel_count; i++)
    if (!kernels[i].runs) {
      print_error("no row runs %s of %s\n", kernels[i].name, kernels[i].op);
      idle++;
    }
  assert_int_equal(idle, 0);
}

/* Ops whose results no row can state: random values, and values that are no tensors. */
static const char *const without[] = {"onnx.Bernoulli",     "onnx.Multinomial",
                                      "onnx.RandomNormal",  "onnx.RandomNormalLike",
                                      "onnx.RandomUniform", "onnx.RandomUniformLike",
                                      "onnx.SequenceMap",   "onnx.If",
                                      "onnx.Loop",          "onnx.Scan",
                                      "onnx.Constant"};

static bool find_op(void *missing, const op_entry *op) {
  bool known = strncmp(op->op.name, "onnx.", 5) != 0;
  for (size_t i = 0; i < sizeof without / sizeof *without && !known; i++) known = strcmp(without[i], op->op.name) == 0;
  for (int i = 0; i < seen_count && !known; i++) known = strcmp(seen_ops[i], op->op.name) == 0;
  if (!known) {
    print_error("no row has %s\n", op->op.name);
    ++*(int *)missing;
  }
  return true;
}

static void test_every_op(void **state) {
  (void)state;
  int missing = 0;
  assert_int_equal(registry_each_op(NULL, find_op, &missing), RLX_OK);
  assert_int_equal(missing, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_rows), cmocka_unit_test(test_every_kernel),
                                     cmocka_unit_test(test_every_op)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
