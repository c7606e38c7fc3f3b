/* clone.c — deep copies of graphs, and of what is in one into another. */
#include <string.h>

#include "base/memory.h"
#include "ir/graph.h"

/* Old graph → new graph, for values of graphs around a subgraph. */
typedef struct clone_level {
  const rlx_graph *from;
  rlx_graph *to;
  rlx_value **values; /* by id in from; NULL: those of `to` with the same ids */
} clone_level;
typedef struct cloner {
  VECTOR(clone_level) levels;
} cloner;

/* A value of a graph that is not being copied stands for itself. */
static rlx_value *mapped(const cloner *c, rlx_value *v) {
  for (size_t i = c->levels.count; v && i-- > 0;) {
    const clone_level *l = &c->levels.data[i];
    if (l->from == v->graph) return l->values ? l->values[v->id] : l->to->values.data[v->id];
  }
  return v;
}

/* name NULL: made. */
static rlx_status clone_value(rlx_graph *to, const char *name, const rlx_value *v, rlx_value **out) {
  rlx_value *copy = graph_value(to, name);
  if (!copy) return status_no_memory(sizeof *copy);
  copy->type = v->type;
  copy->constant = rlx_tensor_retain(v->constant);
  copy->layout = v->layout;
  *out = copy;
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
  for (size_t i = 0; i < g->defaults.count; i++) {
    graph_default d = {mapped(c, g->defaults.data[i].value), g->defaults.data[i].type};
    if (!vector_push(&to->defaults, d)) return status_no_memory(1);
  }
  return rlx_graph_status(to);
}

static rlx_status fill(cloner *c, const rlx_graph *g, rlx_graph *to) {
  to->name = arena_strdup(&to->memory, g->name);
  to->name_counter = g->name_counter;
  if (!to->name) return status_no_memory(1);
  for (size_t i = 0; i < g->values.count; i++) {
    rlx_value *copy;
    const rlx_value *v = g->values.data[i];
    RLX_TRY(clone_value(to, v->name, v, &copy));
    copy->is_input = v->is_input;
    copy->is_output = v->is_output;
  }
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
  size_t depth = c->levels.count;
  rlx_status status = vector_push(&c->levels, ((clone_level){g, to, NULL})) ? fill(c, g, to) : status_no_memory(1);
  c->levels.count = depth;
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
  vector_finish(&c.levels);
  return status;
}

rlx_status graph_clone_body(const rlx_graph *g, rlx_graph *parent, rlx_graph **out) {
  RLX_TRY(rlx_graph_status(g));
  cloner c = {0};
  rlx_status status = clone_graph(&c, g, parent, out);
  vector_finish(&c.levels);
  return status;
}

/* ---- a subgraph's nodes in the graph around it -------------------------------------------- */

static rlx_status inline_values(const rlx_graph *body, rlx_value *const *inputs, rlx_graph *g, rlx_value **values) {
  for (size_t i = 0; i < body->inputs.count; i++) values[body->inputs.data[i]->id] = inputs[i];
  for (size_t i = 0; i < body->values.count; i++) {
    const rlx_value *v = body->values.data[i];
    if (!v->is_input) RLX_TRY(clone_value(g, *v->name ? NULL : "", v, &values[i])); /* an input may be left out */
  }
  return RLX_OK;
}

rlx_status graph_inline(rlx_graph *g, const rlx_graph *body, rlx_value *const *inputs, rlx_value **outputs) {
  rlx_value **values = mem_array(body->values.count, sizeof *values);
  cloner c = {0};
  if (!values) return status_no_memory(body->values.count * sizeof *values);
  rlx_status status = inline_values(body, inputs, g, values);
  if (status == RLX_OK && !vector_push(&c.levels, ((clone_level){body, g, values}))) status = status_no_memory(1);
  for (size_t i = 0; i < body->nodes.count && status == RLX_OK; i++) status = clone_node(&c, g, body->nodes.data[i]);
  for (size_t i = 0; i < body->outputs.count && status == RLX_OK; i++)
    outputs[i] = mapped(&c, body->outputs.data[i].value);
  vector_finish(&c.levels);
  mem_free(values);
  return status;
}
