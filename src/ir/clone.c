/* clone.c — deep copies of graphs. */
#include <string.h>

#include "ir/graph.h"

/* A graph being copied, and its values by id → their copies. */
typedef struct mapping {
  const rlx_graph *from;
  rlx_value *const *values;
} mapping;

/* The graphs being copied, outermost first. */
typedef struct cloner {
  VECTOR(mapping) open;
  const rlx_graph *around; /* values of this graph and those around it stand for themselves; NULL: none */
} cloner;

static rlx_value *mapped(const cloner *c, rlx_value *v) {
  if (!v) return NULL;
  for (size_t i = c->open.count; i-- > 0;)
    if (c->open.data[i].from == v->graph) return c->open.data[i].values[v->id];
  for (const rlx_graph *g = c->around; g; g = g->parent)
    if (g == v->graph) return v;
  return NULL;
}

static rlx_status clone_value(rlx_graph *to, const rlx_value *v) {
  rlx_value *copy = graph_value(to, v->name);
  if (!copy) return status_no_memory(sizeof *copy);
  copy->type = v->type;
  copy->constant = rlx_tensor_retain(v->constant);
  copy->is_input = v->is_input;
  copy->is_output = v->is_output;
  copy->layout = v->layout;
  if (!v->symbols) return RLX_OK;
  copy->symbols = arena_array(&to->memory, RLX_MAX_RANK, sizeof *copy->symbols);
  if (!copy->symbols) return status_no_memory(1);
  for (int d = 0; d < RLX_MAX_RANK; d++) {
    if (!v->symbols[d]) continue;
    copy->symbols[d] = arena_strdup(&to->memory, v->symbols[d]);
    if (!copy->symbols[d]) return status_no_memory(1);
  }
  return RLX_OK;
}

static rlx_status clone_graph(cloner *c, const rlx_graph *g, rlx_graph *parent, rlx_graph **out);

/* Attributes whose subgraphs are replaced by copies that belong to `to`. */
static rlx_status clone_subgraphs(cloner *c, rlx_graph *to, const rlx_node *n, rlx_attr *attrs) {
  for (int i = 0; i < n->attr_count; i++) {
    attrs[i] = n->attrs[i];
    if (attrs[i].graph) RLX_TRY(clone_graph(c, n->attrs[i].graph, to, &attrs[i].graph));
    if (!attrs[i].graphs) continue;
    rlx_graph **graphs = arena_array(&to->memory, attrs[i].count, sizeof *graphs);
    if (!graphs) return status_no_memory(attrs[i].count);
    for (size_t k = 0; k < attrs[i].count; k++) RLX_TRY(clone_graph(c, n->attrs[i].graphs[k], to, &graphs[k]));
    attrs[i].graphs = graphs;
  }
  return RLX_OK;
}

static rlx_status clone_node(cloner *c, rlx_graph *to, const rlx_node *n) {
  arena *m = &to->memory;
  rlx_value **inputs = arena_array(m, (size_t)n->input_count, sizeof *inputs);
  rlx_value **outputs = arena_array(m, (size_t)n->output_count, sizeof *outputs);
  rlx_attr *attrs = arena_array(m, (size_t)n->attr_count, sizeof *attrs);
  if (!inputs || !outputs || !attrs) return status_no_memory(sizeof *n);
  for (int i = 0; i < n->input_count; i++) inputs[i] = mapped(c, n->inputs[i]);
  for (int i = 0; i < n->output_count; i++) outputs[i] = mapped(c, n->outputs[i]);
  RLX_TRY(clone_subgraphs(c, to, n, attrs));
  rlx_node_desc d = {sizeof d, n->op_name,    n->name,         inputs, n->input_count,
                     attrs,    n->attr_count, n->output_count, NULL};
  to->node_opset = n->opset;
  rlx_node *copy = graph_add_node(to, &d, outputs);
  to->node_opset = 0;
  if (!copy) return rlx_graph_status(to);
  copy->origin = n->origin ? arena_strdup(m, n->origin) : NULL;
  return n->origin && !copy->origin ? status_no_memory(1) : RLX_OK;
}

static rlx_status clone_lists(cloner *c, const rlx_graph *g, rlx_graph *to) {
  for (size_t i = 0; i < g->opsets.count; i++)
    rlx_graph_set_opset(to, g->opsets.data[i].domain, g->opsets.data[i].version);
  for (size_t i = 0; i < g->metadata.count; i++) {
    graph_metadata m = {arena_strdup(&to->memory, g->metadata.data[i].key),
                        arena_strdup(&to->memory, g->metadata.data[i].value)};
    if (!m.key || !m.value || !vector_push(&to->metadata, m)) return status_no_memory(1);
  }
  for (size_t i = 0; i < g->inputs.count; i++)
    if (!vector_push(&to->inputs, mapped(c, g->inputs.data[i]))) return status_no_memory(1);
  return rlx_graph_status(to);
}

static rlx_status fill(cloner *c, const rlx_graph *g, rlx_graph *to) {
  to->name = arena_strdup(&to->memory, g->name);
  to->name_counter = g->name_counter;
  if (!to->name) return status_no_memory(1);
  for (size_t i = 0; i < g->values.count; i++) RLX_TRY(clone_value(to, g->values.data[i]));
  rlx_value **values = arena_copy(&to->memory, to->values.data, to->values.count * sizeof *values);
  if (!values || !vector_push(&c->open, (mapping){g, values})) return status_no_memory(1);
  RLX_TRY(clone_lists(c, g, to));
  for (size_t i = 0; i < g->nodes.count; i++) RLX_TRY(clone_node(c, to, g->nodes.data[i]));
  for (size_t i = 0; i < g->outputs.count; i++) {
    graph_output o = {mapped(c, g->outputs.data[i].value), arena_strdup(&to->memory, g->outputs.data[i].name)};
    if (!o.name || !vector_push(&to->outputs, o)) return status_no_memory(1);
  }
  return RLX_OK;
}

static rlx_status clone_graph(cloner *c, const rlx_graph *g, rlx_graph *parent, rlx_graph **out) {
  rlx_graph *to;
  RLX_TRY(graph_create(g->registry, parent, &to));
  size_t depth = c->open.count;
  rlx_status status = fill(c, g, to);
  c->open.count = depth;
  if (status != RLX_OK && !parent)
    rlx_graph_destroy(to);
  else if (status == RLX_OK)
    *out = to;
  return status;
}

rlx_status graph_clone(const rlx_graph *g, rlx_graph **out) {
  RLX_TRY(rlx_graph_status(g));
  cloner c = {0};
  rlx_status status = clone_graph(&c, g, NULL, out);
  vector_finish(&c.open);
  return status;
}

rlx_status graph_clone_body(const rlx_graph *g, rlx_graph *parent, rlx_graph **out) {
  RLX_TRY(rlx_graph_status(g));
  cloner c = {.around = parent};
  rlx_status status = clone_graph(&c, g, parent, out);
  vector_finish(&c.open);
  return status;
}

/* ---- copying into a graph ----------------------------------------------------------------- */

/* Values of `from` as they are called in `into`: inputs as given, constants and results anew. */
static rlx_status inline_values(const rlx_graph *from, rlx_graph *into, rlx_value *const *inputs, rlx_value **values) {
  for (size_t i = 0; i < from->inputs.count; i++) values[from->inputs.data[i]->id] = inputs[i];
  for (size_t i = 0; i < from->values.count; i++) {
    const rlx_value *v = from->values.data[i];
    if (v->is_input) continue;
    rlx_value *copy = graph_value(into, *v->name ? NULL : "");
    if (!copy) return status_no_memory(sizeof *copy);
    copy->type = v->type;
    copy->constant = rlx_tensor_retain(v->constant);
    values[i] = copy;
  }
  return RLX_OK;
}

static rlx_status inline_node(cloner *c, rlx_graph *into, const rlx_node *n) {
  size_t before = into->nodes.count;
  RLX_TRY(clone_node(c, into, n));
  rlx_node *copy = into->nodes.data[before];
  copy->name = graph_fresh_name(into, "node");
  return copy->name ? RLX_OK : status_no_memory(1);
}

rlx_status graph_inline(const rlx_graph *from, rlx_graph *into, rlx_value *const *inputs, rlx_value **outputs) {
  RLX_TRY(rlx_graph_status(from));
  cloner c = {.around = into};
  rlx_value **values = arena_array(&into->memory, from->values.count, sizeof *values);
  rlx_status status = values ? inline_values(from, into, inputs, values) : status_no_memory(1);
  if (status == RLX_OK && !vector_push(&c.open, (mapping){from, values})) status = status_no_memory(1);
  for (size_t i = 0; i < from->nodes.count && status == RLX_OK; i++)
    status = inline_node(&c, into, from->nodes.data[i]);
  for (size_t i = 0; i < from->outputs.count && status == RLX_OK; i++)
    outputs[i] = mapped(&c, from->outputs.data[i].value);
  vector_finish(&c.open);
  return status;
}
