/* graph.c — making, ordering, editing and destroying graphs. */
#include "ir/graph.h"

#include <string.h>

#include "ir/shape.h"

rlx_status graph_create(const rlx_registry *registry, rlx_graph *parent, rlx_graph **out) {
  rlx_graph *g = mem_zalloc(sizeof *g);
  if (!g) return status_no_memory(sizeof *g);
  g->registry = registry;
  g->parent = parent;
  g->name = "graph";
  if (parent && !vector_push(&parent->subgraphs, g)) {
    mem_free(g);
    return status_no_memory(sizeof *g);
  }
  *out = g;
  return RLX_OK;
}

static void release_attr(rlx_attr *a) {
  rlx_tensor_destroy(a->tensor);
  for (size_t i = 0; a->tensors && i < a->count; i++) rlx_tensor_destroy(a->tensors[i]);
}

static void release_node(rlx_node *n) {
  op_entry_release(n->op);
  n->op = NULL;
  for (int i = 0; i < n->attr_count; i++) release_attr(&n->attrs[i]);
  n->attr_count = 0;
}

void rlx_graph_destroy(rlx_graph *g) {
  if (!g) return;
  for (size_t i = 0; i < g->subgraphs.count; i++) rlx_graph_destroy(g->subgraphs.data[i]);
  for (size_t i = 0; i < g->nodes.count; i++) release_node(g->nodes.data[i]);
  for (size_t i = 0; i < g->values.count; i++) rlx_tensor_destroy(g->values.data[i]->constant);
  vector_finish(&g->nodes);
  vector_finish(&g->values);
  vector_finish(&g->inputs);
  vector_finish(&g->defaults);
  vector_finish(&g->outputs);
  vector_finish(&g->opsets);
  vector_finish(&g->metadata);
  vector_finish(&g->subgraphs);
  map_finish(&g->names);
  arena_finish(&g->memory);
  mem_free(g);
}

int graph_opset_version(const rlx_graph *g, const char *domain, size_t length) {
  for (; g; g = g->parent)
    for (size_t i = 0; i < g->opsets.count; i++)
      if (strlen(g->opsets.data[i].domain) == length && memcmp(g->opsets.data[i].domain, domain, length) == 0)
        return g->opsets.data[i].version;
  return 0;
}

const char *graph_fresh_name(rlx_graph *g, const char *prefix) {
  rlx_graph *root = g;
  while (root->parent) root = root->parent;
  const char *name;
  do {
    name = arena_printf(&g->memory, "%s_%llu", prefix, (unsigned long long)root->name_counter++);
  } while (name && graph_find(g, name));
  return name;
}

rlx_value *graph_value(rlx_graph *g, const char *name) {
  if (!name) name = graph_fresh_name(g, "value");
  rlx_value *v = arena_alloc(&g->memory, sizeof *v);
  char *copy = v && name ? arena_strdup(&g->memory, name) : NULL;
  if (!copy || !vector_push(&g->values, v)) return NULL;
  *v = (rlx_value){.name = copy, .graph = g, .id = (uint32_t)g->values.count - 1};
  type_unknown(&v->type, RLX_UNDEFINED);
  if (*copy && !map_put(&g->names, copy, v)) return NULL;
  return v;
}

rlx_value *graph_find(const rlx_graph *g, const char *name) {
  for (; g; g = g->parent) {
    rlx_value *v = map_get(&g->names, name);
    if (v) return v;
  }
  return NULL;
}

rlx_value *rlx_graph_find(const rlx_graph *g, const char *name) {
  return name && *name ? map_get(&g->names, name) : NULL;
}

/* ---- editing ------------------------------------------------------------------------------ */

void graph_replace_uses(rlx_graph *g, rlx_value *from, rlx_value *to) {
  for (size_t i = 0; i < g->nodes.count; i++) {
    rlx_node *n = g->nodes.data[i];
    for (int k = 0; k < n->input_count; k++)
      if (n->inputs[k] == from) n->inputs[k] = to;
  }
  for (size_t i = 0; i < g->outputs.count; i++) {
    if (g->outputs.data[i].value != from) continue;
    g->outputs.data[i].value = to;
    to->is_output |= to->graph == g;
  }
  for (size_t i = 0; i < g->subgraphs.count; i++) graph_replace_uses(g->subgraphs.data[i], from, to);
}

void graph_remove_nodes(rlx_graph *g, const bool *keep) {
  size_t kept = 0;
  for (size_t i = 0; i < g->nodes.count; i++) {
    rlx_node *n = g->nodes.data[i];
    if (keep[i]) {
      g->nodes.data[kept++] = n;
      continue;
    }
    for (int k = 0; k < n->output_count; k++) {
      if (n->outputs[k]->producer == n) n->outputs[k]->producer = NULL;
    }
    release_node(n);
  }
  g->nodes.count = kept;
}

void graph_number(rlx_graph *g) {
  for (size_t i = 0; i < g->nodes.count; i++) g->nodes.data[i]->id = (uint32_t)i;
  for (size_t i = 0; i < g->values.count; i++) g->values.data[i]->id = (uint32_t)i;
}

/* ---- uses and captures -------------------------------------------------------------------- */

static void count_uses(const rlx_graph *g, const rlx_graph *owner, uint32_t *uses) {
  for (size_t i = 0; i < g->nodes.count; i++) {
    const rlx_node *n = g->nodes.data[i];
    for (int k = 0; k < n->input_count; k++)
      if (n->inputs[k] && n->inputs[k]->graph == owner) uses[n->inputs[k]->id]++;
  }
  for (size_t i = 0; i < g->outputs.count; i++)
    if (g->outputs.data[i].value->graph == owner) uses[g->outputs.data[i].value->id]++;
  for (size_t i = 0; i < g->subgraphs.count; i++) count_uses(g->subgraphs.data[i], owner, uses);
}

void graph_forget_uses(const rlx_graph *g, const rlx_graph *owner, uint32_t *uses) {
  for (size_t i = 0; i < g->nodes.count; i++) {
    const rlx_node *n = g->nodes.data[i];
    for (int k = 0; k < n->input_count; k++)
      if (n->inputs[k] && n->inputs[k]->graph == owner) uses[n->inputs[k]->id]--;
  }
  for (size_t i = 0; i < g->outputs.count; i++)
    if (g->outputs.data[i].value->graph == owner) uses[g->outputs.data[i].value->id]--;
  for (size_t i = 0; i < g->subgraphs.count; i++) graph_forget_uses(g->subgraphs.data[i], owner, uses);
}

uint32_t *graph_use_counts(const rlx_graph *g, arena *memory) {
  uint32_t *uses = arena_array(memory, g->values.count + 1, sizeof *uses);
  if (uses) count_uses(g, g, uses);
  return uses;
}

static bool inside(const rlx_graph *g, const rlx_graph *root) {
  for (; g; g = g->parent)
    if (g == root) return true;
  return false;
}

static rlx_status add_capture(const rlx_graph *root, rlx_value *v, value_list *out) {
  if (!v || inside(v->graph, root)) return RLX_OK;
  for (size_t i = 0; i < out->count; i++)
    if (out->data[i] == v) return RLX_OK;
  return vector_push(out, v) ? RLX_OK : status_no_memory(sizeof v);
}

static rlx_status collect_captures(const rlx_graph *g, const rlx_graph *root, value_list *out) {
  for (size_t i = 0; i < g->nodes.count; i++) {
    const rlx_node *n = g->nodes.data[i];
    for (int k = 0; k < n->input_count; k++) RLX_TRY(add_capture(root, n->inputs[k], out));
    for (int k = 0; node_subgraph(n, k); k++) RLX_TRY(collect_captures(node_subgraph(n, k), root, out));
  }
  for (size_t i = 0; i < g->outputs.count; i++) RLX_TRY(add_capture(root, g->outputs.data[i].value, out));
  return RLX_OK;
}

rlx_status graph_captures(const rlx_graph *g, value_list *out) { return collect_captures(g, g, out); }

rlx_status node_captures(const rlx_node *n, value_list *out) {
  for (int k = 0; node_subgraph(n, k); k++) RLX_TRY(graph_captures(node_subgraph(n, k), out));
  return RLX_OK;
}

/* ---- order -------------------------------------------------------------------------------- */

/* Depth-first walk with a stack of its own, so that a deep graph cannot overflow the C stack. */
typedef struct sorter {
  rlx_graph *g;
  uint8_t *mark; /* per node id: 0 new, 1 open, 2 done */
  VECTOR(rlx_node *) stack;
  VECTOR(rlx_node *) order;
  value_list captured; /* scratch: what a node's subgraphs use of g */
} sorter;

static rlx_status push_producer(sorter *s, const rlx_value *v) {
  if (!v || !v->producer || v->graph != s->g) return RLX_OK;
  rlx_node *p = v->producer;
  if (s->mark[p->id] == 2) return RLX_OK;
  if (s->mark[p->id] == 1)
    return RLX_FAIL(INVALID, "the graph has a cycle through node '%s' (%s)", p->name, p->op_name);
  return vector_push(&s->stack, p) ? RLX_OK : status_no_memory(sizeof p);
}

static rlx_status push_inputs(sorter *s, const rlx_node *n) {
  for (int k = n->input_count - 1; k >= 0; k--) RLX_TRY(push_producer(s, n->inputs[k]));
  for (int k = 0; node_subgraph(n, k); k++) {
    s->captured.count = 0;
    RLX_TRY(graph_captures(node_subgraph(n, k), &s->captured));
    for (size_t i = 0; i < s->captured.count; i++) RLX_TRY(push_producer(s, s->captured.data[i]));
  }
  return RLX_OK;
}

static rlx_status visit(sorter *s, rlx_node *root) {
  if (s->mark[root->id]) return RLX_OK;
  if (!vector_push(&s->stack, root)) return status_no_memory(sizeof root);
  while (s->stack.count) {
    rlx_node *n = s->stack.data[s->stack.count - 1];
    if (s->mark[n->id] == 0) {
      s->mark[n->id] = 1;
      RLX_TRY(push_inputs(s, n));
      continue;
    }
    s->stack.count--;
    if (s->mark[n->id] == 2) continue;
    s->mark[n->id] = 2;
    if (!vector_push(&s->order, n)) return status_no_memory(sizeof n);
  }
  return RLX_OK;
}

rlx_status graph_sort(rlx_graph *g) {
  graph_number(g);
  sorter s = {.g = g, .mark = mem_array(g->nodes.count, 1)};
  rlx_status status = s.mark ? RLX_OK : status_no_memory(g->nodes.count);
  for (size_t i = 0; i < g->nodes.count && status == RLX_OK; i++) status = visit(&s, g->nodes.data[i]);
  if (status == RLX_OK && s.order.count == g->nodes.count && s.order.count)
    memcpy(g->nodes.data, s.order.data, s.order.count * sizeof *s.order.data);
  graph_number(g);
  mem_free(s.mark);
  vector_finish(&s.stack);
  vector_finish(&s.order);
  vector_finish(&s.captured);
  for (size_t i = 0; i < g->subgraphs.count && status == RLX_OK; i++) status = graph_sort(g->subgraphs.data[i]);
  return status;
}

/* ---- looking ------------------------------------------------------------------------------ */

const rlx_attr *node_attr(const rlx_node *n, const char *name) {
  for (int i = 0; i < n->attr_count; i++)
    if (strcmp(n->attrs[i].name, name) == 0) return &n->attrs[i];
  return NULL;
}

rlx_graph *node_subgraph(const rlx_node *n, int i) {
  for (int k = 0; k < n->attr_count; k++) {
    const rlx_attr *a = &n->attrs[k];
    if (a->kind == RLX_ATTR_GRAPH && i-- == 0) return a->graph;
    if (a->kind != RLX_ATTR_GRAPHS) continue;
    if ((size_t)i < a->count) return a->graphs[i];
    i -= (int)a->count;
  }
  return NULL;
}

const char *rlx_node_name(const rlx_node *n) { return n ? n->name : NULL; }
const char *rlx_node_op(const rlx_node *n) { return n ? n->op_name : NULL; }
const void *rlx_node_params(const rlx_node *n) { return n ? n->params : NULL; }
int rlx_node_input_count(const rlx_node *n) { return n ? n->input_count : 0; }
int rlx_node_output_count(const rlx_node *n) { return n ? n->output_count : 0; }

rlx_value *rlx_node_input(const rlx_node *n, int i) { return n && i >= 0 && i < n->input_count ? n->inputs[i] : NULL; }

rlx_value *rlx_node_output(const rlx_node *n, int i) {
  return n && i >= 0 && i < n->output_count ? n->outputs[i] : NULL;
}

const rlx_type *rlx_node_input_type(const rlx_node *n, int i) {
  rlx_value *v = rlx_node_input(n, i);
  return v ? &v->type : NULL;
}

const rlx_type *rlx_node_output_type(const rlx_node *n, int i) {
  rlx_value *v = rlx_node_output(n, i);
  return v ? &v->type : NULL;
}

const rlx_tensor *rlx_node_constant(const rlx_node *n, int i) {
  rlx_value *v = rlx_node_input(n, i);
  return v ? v->constant : NULL;
}

const rlx_type *rlx_value_type(const rlx_value *v) { return v ? &v->type : NULL; }
const char *rlx_value_name(const rlx_value *v) { return v ? v->name : NULL; }
