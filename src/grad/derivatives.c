/* derivatives.c — the public functions: gradients and tangents as transforms of a graph. */
#include <string.h>

#include "grad/forward.h"
#include "grad/reverse.h"
#include "ir/infer.h"
#include "ir/registry.h"
#include "ir/shape.h"
#include "ops/_derivative.h"

rlx_value *rlx_no_derivative(rlx_graph *g, const char *why) {
  rlx_value *v = rlx_graph_status(g) == RLX_OK ? graph_value(g, "") : NULL;
  char *copy = v ? arena_strdup(&g->memory, why) : NULL;
  if (!copy) {
    rlx_graph_fail(g, RLX_OUT_OF_MEMORY, "out of memory");
    return NULL;
  }
  v->missing = copy;
  return v;
}

/* ---- arguments ---------------------------------------------------------------------------- */

static bool within(const rlx_graph *g, const rlx_value *v) {
  for (; g; g = g->parent)
    if (g == v->graph) return true;
  return false;
}

static rlx_status check_values(const rlx_graph *g, const char *what, rlx_value *const *values, int count,
                               bool optional) {
  if (count < 0 || (count && !values)) return RLX_FAIL(INVALID, "derivatives: %d values as %s", count, what);
  for (int i = 0; i < count; i++) {
    if (!values[i] && optional) continue;
    if (!values[i]) return RLX_FAIL(INVALID, "derivatives: %s %d is no value", what, i);
    if (!within(g, values[i]))
      return RLX_FAIL(INVALID, "derivatives: %s '%s' belongs to another graph", what, values[i]->name);
  }
  return RLX_OK;
}

/* After inference. */
static rlx_status check_floats(const char *what, rlx_value *const *values, int count) {
  char type[200];
  for (int i = 0; i < count; i++)
    if (values[i]->type.kind != RLX_KIND_TENSOR || !transform_is_float(values[i]))
      return RLX_FAIL(INVALID, "derivatives: %s '%s' is %s; floats only have derivatives", what, values[i]->name,
                      type_text(&values[i]->type, type, sizeof type));
  return RLX_OK;
}

/* ---- reverse ------------------------------------------------------------------------------ */

static rlx_status check_reverse(const rlx_graph *g, rlx_value *const *outputs, rlx_value *const *gradients, int count,
                                rlx_value *const *wrt, int wrt_count) {
  RLX_TRY(check_values(g, "output", outputs, count, false));
  RLX_TRY(check_values(g, "output gradient", gradients, count, true));
  return check_values(g, "wrt", wrt, wrt_count, false);
}

rlx_status rlx_vjp(rlx_graph *g, rlx_value *const *outputs, rlx_value *const *output_gradients, int output_count,
                   rlx_value *const *wrt, int wrt_count, rlx_value **gradients) {
  RLX_TRY(check_reverse(g, outputs, output_gradients, output_count, wrt, wrt_count));
  rlx_value **found = arena_array(&g->memory, (size_t)wrt_count, sizeof *found);
  if (!found) return status_no_memory((size_t)wrt_count);
  transform t;
  value_pairs from = {outputs, output_gradients, output_count};
  rlx_status status = transform_begin(&t, g);
  if (status == RLX_OK) status = check_floats("wrt", wrt, wrt_count);
  if (status == RLX_OK) status = reverse_walk(&t, 0, t.first, &from, wrt, wrt_count, found);
  status = transform_end(&t, status, found, wrt_count);
  if (status == RLX_OK && wrt_count) memcpy(gradients, found, (size_t)wrt_count * sizeof *found);
  return status;
}

static rlx_status fill_missing(transform *t, rlx_value *const *like, int count, rlx_value **values) {
  for (int i = 0; i < count; i++) {
    if (!values[i]) values[i] = derivative_filled(t->g, like[i], 0);
    if (!values[i]) return rlx_graph_status(t->g);
  }
  return transform_settle(t);
}

/* Seeds the loss; ones are the transform's own nodes. */
static rlx_status reverse_from(transform *t, rlx_value *loss, rlx_value *seed, rlx_value *const *wrt, int count,
                               rlx_value **found) {
  RLX_TRY(check_floats("wrt", wrt, count));
  RLX_TRY(check_floats("loss", &loss, 1));
  if (!seed) seed = derivative_filled(t->g, loss, 1);
  if (!seed) return rlx_graph_status(t->g);
  RLX_TRY(transform_settle(t));
  value_pairs from = {&loss, &seed, 1};
  RLX_TRY(reverse_walk(t, 0, t->first, &from, wrt, count, found));
  return fill_missing(t, wrt, count, found);
}

rlx_status rlx_gradient(rlx_graph *g, rlx_value *loss, rlx_value *loss_gradient, rlx_value *const *wrt, int wrt_count,
                        rlx_value **gradients) {
  RLX_TRY(check_reverse(g, &loss, &loss_gradient, 1, wrt, wrt_count));
  rlx_value **found = arena_array(&g->memory, (size_t)wrt_count, sizeof *found);
  if (!found) return status_no_memory((size_t)wrt_count);
  transform t;
  rlx_status status = transform_begin(&t, g);
  if (status == RLX_OK) status = reverse_from(&t, loss, loss_gradient, wrt, wrt_count, found);
  status = transform_end(&t, status, found, wrt_count);
  if (status == RLX_OK && wrt_count) memcpy(gradients, found, (size_t)wrt_count * sizeof *found);
  return status;
}

/* ---- forward ------------------------------------------------------------------------------ */

rlx_status rlx_jvp(rlx_graph *g, rlx_value *const *inputs, rlx_value *const *tangents, int input_count,
                   rlx_value *const *outputs, int output_count, rlx_value **output_tangents) {
  RLX_TRY(check_reverse(g, inputs, tangents, input_count, outputs, output_count));
  rlx_value **found = arena_array(&g->memory, (size_t)output_count, sizeof *found);
  if (!found) return status_no_memory((size_t)output_count);
  transform t;
  value_pairs from = {inputs, tangents, input_count};
  rlx_status status = transform_begin(&t, g);
  if (status == RLX_OK) status = check_floats("input", inputs, input_count);
  if (status == RLX_OK) status = forward_walk(&t, 0, t.first, &from, outputs, output_count, found);
  status = transform_end(&t, status, found, output_count);
  if (status == RLX_OK && output_count) memcpy(output_tangents, found, (size_t)output_count * sizeof *found);
  return status;
}

/* ---- versions ----------------------------------------------------------------------------- */

/* Puts what lower makes in the node's place, if the node means an older version than there is. */
static rlx_status upgrade_node(transform *t, rlx_node *n) {
  op_entry *newest = registry_find_op(t->g->registry, n->op_name, 0);
  bool old = newest && n->op && newest != n->op;
  op_entry_release(newest);
  if (!old || !n->op->op.lower) return RLX_OK;
  rlx_value **outputs = arena_array(&n->graph->memory, (size_t)n->output_count, sizeof *outputs);
  if (!outputs) return status_no_memory(sizeof *outputs);
  rlx_status status = node_rewrite(n, n->op->op.lower, "lowering", outputs);
  if (status == RLX_OK) status = transform_settle(t);
  if (status == RLX_OK) status = node_retire(n, outputs);
  return status == RLX_OK ? RLX_OK : status_prefix(status, "node '%s' (%s)", n->name, n->op_name);
}

static rlx_status upgrade(rlx_graph *g) {
  transform t;
  rlx_status status = transform_begin(&t, g);
  for (size_t i = 0; i < g->nodes.count && status == RLX_OK; i++) status = upgrade_node(&t, g->nodes.data[i]);
  return transform_end(&t, status, NULL, 0);
}

static rlx_status upgrade_all(rlx_graph *g) {
  for (size_t i = 0; i < g->subgraphs.count; i++) RLX_TRY(upgrade_all(g->subgraphs.data[i]));
  return upgrade(g);
}

rlx_status rlx_graph_upgrade(rlx_graph *g) {
  RLX_TRY(infer_graph(g, false));
  RLX_TRY(upgrade_all(g));
  g->opsets.count = 0;
  return RLX_OK;
}
