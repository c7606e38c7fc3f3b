/* test_infer_rows.c — shape inference against the shapes that the rows of tests/rows say, which nothing of rlx
 * computed: with everything known, with contents unknown, and with dims and ranks unknown at random. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "ir/infer.h"
#include "ir/shape.h"
#include "support/kernel.h"
#include "support/rows.h"

static int failed, checked;

static void report(const row *r, const rlx_graph *g, const row_value *v, const rlx_type *t) {
  char inputs[600] = "", one[300];
  for (size_t i = 0; g && i < g->inputs.count; i++) {
    size_t used = strlen(inputs);
    snprintf(inputs + used, sizeof inputs - used, " %s %s", g->inputs.data[i]->name,
             type_text(&g->inputs.data[i]->type, one, sizeof one));
  }
  if (failed++ < 60)
    print_error("%s:%d:%.*s given%s: %s is %s and should be %s\n", r->file, r->line, (int)strcspn(r->nodes + 1, "\n"),
                r->nodes + 1, inputs, v->name, t ? type_text(t, one, sizeof one) : rlx_error_message(), v->type);
}

/* What is known must be right; if `all`, it must be known. */
static bool agrees(const rlx_type *t, const rlx_type *want, bool all) {
  if (t->kind != RLX_KIND_TENSOR || t->dtype != want->dtype) return false;
  if (t->rank < 0) return !all;
  if (t->rank != want->rank) return false;
  for (int d = 0; d < t->rank; d++)
    if (t->dims[d] < 0 ? all : t->dims[d] != want->dims[d]) return false;
  return true;
}

/* Whether inference of the node asked for contents that it could not have. */
static bool asks(const rlx_node *n) {
  const rlx_type *inputs[ROW_MOST];
  rlx_type outputs[ROW_MOST];
  for (int i = 0; i < n->input_count; i++) inputs[i] = n->inputs[i] ? &n->inputs[i]->type : NULL;
  struct rlx_infer c = {.node = n, .inputs = inputs, .outputs = outputs};
  return infer_node(&c) != RLX_OK || c.asked;
}

static void check(const row *r, rlx_graph *g, bool all) {
  checked++;
  rlx_status status = g ? infer_graph(g, true) : RLX_INVALID;
  if (status == RLX_OK && !all && g->nodes.count == 1 && !r->dynamic) {
    bool concrete = true;
    for (size_t i = 0; i < g->inputs.count; i++) concrete &= type_is_concrete(&g->inputs.data[i]->type);
    all = concrete && g->nodes.data[0]->op && !asks(g->nodes.data[0]);
  }
  for (int i = 0; i < r->output_count; i++) {
    const rlx_type *t = status == RLX_OK ? &g->outputs.data[i].value->type : NULL;
    if (!t || !agrees(t, &r->outputs[i].known, all)) report(r, g, &r->outputs[i], t);
  }
  rlx_graph_destroy(g);
}

/* The type with some of what is known left out. */
static void blur(random_state *random, const rlx_type *t, char *out, size_t size) {
  size_t used = (size_t)snprintf(out, size, "%s", rlx_dtype_name(t->dtype));
  if (random_int(random, 0, 3) == 0) {
    snprintf(out + used, size - used, "[...]");
    return;
  }
  for (int d = 0; d < t->rank; d++) {
    char dim[24] = "?";
    if (random_int(random, 0, 1)) snprintf(dim, sizeof dim, "%lld", (long long)t->dims[d]);
    used += (size_t)snprintf(out + used, size - used, "%s%s", d ? "," : "[", dim);
  }
  if (t->rank > 0) snprintf(out + used, size - used, "]");
}

static void check_row(void *user, const row *r) {
  random_state *random = user;
  if (r->fails) return;
  check(r, row_graph(r, NULL, UINT64_MAX), !r->dynamic);
  check(r, row_graph(r, NULL, 0), false);
  for (int round = 0; round < 6; round++) {
    char texts[ROW_MOST][200];
    const char *types[ROW_MOST];
    uint64_t constants = 0;
    for (int i = 0; i < r->input_count; i++) {
      blur(random, &r->inputs[i].known, texts[i], sizeof texts[i]);
      types[i] = texts[i];
      constants |= (uint64_t)(random_int(random, 0, 2) == 0) << i;
    }
    check(r, row_graph(r, types, constants), false);
  }
}

static void test_shapes(void **state) {
  (void)state;
  random_state random = {20};
  int rows = rows_each("tests/rows", 0, 1, check_row, &random);
  print_message("%d rows, %d inferences\n", rows, checked);
  assert_int_equal(failed, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_shapes)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
