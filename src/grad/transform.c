/* transform.c — adding nodes to a graph for its derivatives, and the errors on the way. */
#include "grad/transform.h"

#include <limits.h>
#include <string.h>

#include "base/text.h"
#include "ir/dtype.h"
#include "ir/infer.h"
#include "ir/run_node.h"
#include "ir/shape.h"

/* ---- begin and end ------------------------------------------------------------------------ */

static rlx_status hide_opsets(transform *t) {
  for (rlx_graph *g = t->g; g; g = g->parent) {
    if (!vector_push(&t->hidden, g->opsets.count)) return status_no_memory(sizeof(size_t));
    g->opsets.count = 0;
  }
  return RLX_OK;
}

static void show_opsets(transform *t) {
  rlx_graph *g = t->g;
  for (size_t i = 0; i < t->hidden.count; i++, g = g->parent) g->opsets.count = t->hidden.data[i];
  vector_finish(&t->hidden);
}

rlx_status transform_begin(transform *t, rlx_graph *g) {
  *t = (transform){.g = g};
  RLX_TRY(rlx_graph_status(g));
  RLX_TRY(graph_sort(g));
  RLX_TRY(infer_graph(g, false));
  t->first = t->settled = g->nodes.count;
  return hide_opsets(t);
}

/* Nodes made without a version mean the newest from now on, whatever the graph imports. */
static void fix_versions(rlx_node *n) {
  if (n->opset == 0) n->opset = INT_MAX;
  for (int k = 0; node_subgraph(n, k); k++) {
    rlx_graph *sub = node_subgraph(n, k);
    for (size_t i = 0; i < sub->nodes.count; i++) fix_versions(sub->nodes.data[i]);
  }
}

/* Dims that are known, and small arithmetic on them, become constants: rules ask for known dims. */
static rlx_status fold(rlx_node *n) {
  bool shape_only = n->op->op.traits & RLX_SHAPE_ONLY;
  rlx_operand inputs[8] = {{0}};
  rlx_tensor *out = NULL;
  if (!n->op->builtin || !n->op->op.eval || !(n->op->op.traits & RLX_PURE) || (n->op->op.traits & RLX_RANDOM) ||
      n->output_count != 1 || n->input_count > 8 || node_subgraph(n, 0) ||
      !dtype_is_integer(n->outputs[0]->type.dtype) || !type_is_concrete(&n->outputs[0]->type) ||
      shape_count(n->outputs[0]->type.rank, n->outputs[0]->type.dims) > 64)
    return RLX_OK;
  for (int i = 0; i < n->input_count; i++) {
    const rlx_value *v = n->inputs[i];
    if (v && !(v->constant && v->constant->count <= 64) && !(shape_only && type_is_concrete(&v->type))) return RLX_OK;
    if (v && v->constant) inputs[i] = tensor_operand(v->constant);
    if (v && !v->constant)
      inputs[i] = (rlx_operand){.dims = v->type.dims,
                                .rank = v->type.rank,
                                .dtype = v->type.dtype,
                                .count = shape_count(v->type.rank, v->type.dims)};
  }
  if (node_run(n, n->op->op.eval, inputs, &n->outputs[0]->type, &out) != RLX_OK)
    return RLX_OK; /* it fails when it runs */
  rlx_value *v = n->outputs[0];
  v->constant = out;
  v->producer = NULL;
  n->outputs[0] = graph_value(n->graph, ""); /* graph_drop_retired */
  return n->outputs[0] ? RLX_OK : status_no_memory(sizeof *v);
}

rlx_status transform_settle(transform *t) {
  rlx_graph *g = t->g;
  RLX_TRY(rlx_graph_status(g));
  for (; t->settled < g->nodes.count; t->settled++) {
    rlx_node *n = g->nodes.data[t->settled];
    if (!n->op) return RLX_FAIL(NOT_FOUND, "a derivative needs %s, which no registry knows", n->op_name);
    fix_versions(n);
    RLX_TRY(infer_node_deep(n));
    RLX_TRY(fold(n));
  }
  return RLX_OK;
}

static bool kept(const rlx_node *n, rlx_value *const *keep, int count) {
  for (int i = 0; i < count; i++)
    if (keep[i] && keep[i]->producer == n) return true;
  return n->op && (n->op->op.traits & RLX_SIDE_EFFECT);
}

/* Takes back what n, and its subgraphs, use of g. */
static void forget(const rlx_graph *g, const rlx_node *n, uint32_t *uses) {
  for (int k = 0; k < n->input_count; k++)
    if (n->inputs[k] && n->inputs[k]->graph == g) uses[n->inputs[k]->id]--;
  for (int k = 0; node_subgraph(n, k); k++) graph_forget_uses(node_subgraph(n, k), g, uses);
}

/* Nodes of the transform that nothing uses; one round may set others free. */
static rlx_status sweep(transform *t, rlx_value *const *keep_values, int count) {
  rlx_graph *g = t->g;
  arena memory = {0};
  graph_number(g);
  bool *keep = arena_array(&memory, g->nodes.count, sizeof *keep);
  uint32_t *uses = graph_use_counts(g, &memory);
  rlx_status status = keep && uses ? RLX_OK : status_no_memory(g->nodes.count);
  bool again = status == RLX_OK;
  for (size_t i = 0; again && i < g->nodes.count; i++) keep[i] = true;
  while (again) {
    again = false;
    for (size_t i = g->nodes.count; i-- > t->first;) {
      rlx_node *n = g->nodes.data[i];
      bool used = !keep[i] || kept(n, keep_values, count);
      for (int k = 0; k < n->output_count && !used; k++) used = uses[n->outputs[k]->id] > 0;
      if (used) continue;
      keep[i] = false;
      again = true;
      forget(g, n, uses);
      node_drop_subgraphs(n);
    }
  }
  if (status == RLX_OK) graph_remove_nodes(g, keep);
  arena_finish(&memory);
  return status;
}

rlx_status transform_end(transform *t, rlx_status status, rlx_value *const *keep, int keep_count) {
  if (status == RLX_OK) status = rlx_graph_status(t->g);
  if (status == RLX_OK) status = transform_settle(t);
  if (status == RLX_OK) status = sweep(t, keep, keep_count);
  if (status == RLX_OK) graph_drop_retired(t->g);
  if (status == RLX_OK) status = graph_sort(t->g);
  show_opsets(t);
  if (status == RLX_OK) return RLX_OK;
  char line[STATUS_TEXT_BYTES];
  status_save(line);
  return rlx_graph_fail(t->g, status, "%s", line);
}

/* ---- rewriting ---------------------------------------------------------------------------- */

transform_rewrite *transform_rewriting(const rlx_node *n) {
  if (n->op->op.traits & RLX_LOWER_FIRST) return NULL;
  return n->op->op.derive ? n->op->op.derive : n->op->op.lower;
}

rlx_status transform_open(transform *t, rlx_node *n, rlx_value **outputs) {
  for (int i = 0; i < t->depth; i++)
    if (t->opened[i] == n->op)
      return RLX_FAIL(UNSUPPORTED, "node '%s': the derivative of %s leads back to itself", n->name, n->op_name);
  if (t->depth == TRANSFORM_DEPTH) return RLX_FAIL(UNSUPPORTED, "node '%s': rewriting is too deep", n->name);
  t->opened[t->depth++] = n->op;
  size_t first = t->g->nodes.count;
  rlx_status status = node_rewrite(n, transform_rewriting(n), n->op->op.derive ? "derive" : "lowering", outputs);
  for (size_t i = first; i < t->g->nodes.count; i++)
    if (!t->g->nodes.data[i]->origin) t->g->nodes.data[i]->origin = n->origin ? n->origin : n->name;
  if (status == RLX_OK) status = transform_settle(t);
  return status == RLX_OK ? RLX_OK : status_prefix(status, "derivative of node '%s' (%s)", n->name, n->op_name);
}

void transform_close(transform *t) { t->depth--; }

/* ---- flow --------------------------------------------------------------------------------- */

bool transform_is_float(const rlx_value *v) { return (RLX_SET_FLOATS >> v->type.dtype & 1) != 0; }

bool transform_carries(const rlx_value *v) { return v->type.dtype == RLX_UNDEFINED || transform_is_float(v); }

bool transform_stops(const rlx_node *n) { return n->op && (n->op->op.traits & RLX_STOP_GRADIENT); }

void *value_get(const map *m, const rlx_value *v) { return v ? map_get_bytes(m, &v, sizeof v) : NULL; }

rlx_status value_put(map *m, const rlx_value *v, void *to) {
  return map_put_bytes(m, &v, sizeof v, to) ? RLX_OK : status_no_memory(sizeof v);
}

rlx_status transform_touches(const rlx_node *n, const map *m, bool *out) {
  *out = false;
  for (int k = 0; k < n->input_count && !*out; k++) *out = value_get(m, n->inputs[k]) != NULL;
  if (*out || !node_subgraph(n, 0)) return RLX_OK;
  value_list captures = {0};
  rlx_status status = node_captures(n, &captures);
  for (size_t i = 0; i < captures.count && !*out; i++) *out = value_get(m, captures.data[i]) != NULL;
  vector_finish(&captures);
  return status;
}

rlx_status transform_mark(const rlx_graph *g, size_t begin, size_t end, map *active) {
  for (size_t i = begin; i < end; i++) {
    rlx_node *n = g->nodes.data[i];
    bool touched;
    if (transform_stops(n)) continue;
    RLX_TRY(transform_touches(n, active, &touched));
    for (int k = 0; k < n->output_count && touched; k++)
      if (transform_carries(n->outputs[k])) RLX_TRY(value_put(active, n->outputs[k], n));
  }
  return RLX_OK;
}

/* ---- errors ------------------------------------------------------------------------------- */

static void add_name(text *out, const rlx_node *n) {
  text_printf(out, "'%s' (%s)", n->origin ? n->origin : n->name, n->op_name);
}

/* Nodes from where the walk began to n, at most the last 12. */
static void add_path(text *out, const rlx_node *n, const rlx_value *reached, const map *via) {
  const rlx_node *path[12];
  int count = 0;
  while (count < 12) {
    path[count++] = n;
    const rlx_node *next = value_get(via, reached);
    if (!next || next == n) break;
    n = next;
    reached = NULL;
    for (int k = 0; k < n->output_count && !reached; k++)
      if (value_get(via, n->outputs[k])) reached = n->outputs[k];
    if (!reached) {
      if (count < 12) path[count++] = n;
      break;
    }
  }
  if (count == 12) text_add(out, "… ");
  while (count-- > 0) {
    add_name(out, path[count]);
    if (count) text_add(out, " -> ");
  }
}

rlx_status transform_no_rule(const rlx_node *n, const rlx_value *reached, const map *via, const char *mode) {
  text out = {0};
  const char *why = n->op && n->op->op.no_derivative ? n->op->op.no_derivative : NULL;
  add_path(&out, n, reached, via);
  rlx_status status =
      RLX_FAIL(UNSUPPORTED, "%s has no %s derivative%s%s; the way to it: %s", n->op_name, mode, why ? ": " : "",
               why     ? why
               : n->op ? ""
                       : " (no such op is registered)",
               out.data ? out.data : "");
  text_finish(&out);
  return status;
}
