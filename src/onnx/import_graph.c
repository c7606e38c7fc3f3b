/* import_graph.c — GraphProto: initialisers, inputs, nodes in any order, outputs, declared types. */
#include <string.h>

#include "onnx/import.h"
#include "onnx/schema.h"

/* A GraphProto taken apart. */
typedef struct graph_parts {
  wire_span name;
  span_list nodes, initializers, sparse, inputs, outputs, declarations, metadata;
} graph_parts;

static void graph_parts_finish(graph_parts *p) {
  vector_finish(&p->nodes);
  vector_finish(&p->initializers);
  vector_finish(&p->sparse);
  vector_finish(&p->inputs);
  vector_finish(&p->outputs);
  vector_finish(&p->declarations);
  vector_finish(&p->metadata);
}

static rlx_status take_apart(wire_span message, graph_parts *p) {
  wire_reader r = wire_open(message, "GraphProto");
  wire_field f;
  bool room = true;
  while (room && wire_next(&r, &f)) {
    switch (f.number) {
      case GRAPH_NAME: p->name = wire_name(&f); break;
      case GRAPH_NODE: room = vector_push(&p->nodes, wire_bytes(&f)); break;
      case GRAPH_INITIALIZER: room = vector_push(&p->initializers, wire_bytes(&f)); break;
      case GRAPH_SPARSE_INITIALIZER: room = vector_push(&p->sparse, wire_bytes(&f)); break;
      case GRAPH_INPUT: room = vector_push(&p->inputs, wire_bytes(&f)); break;
      case GRAPH_OUTPUT: room = vector_push(&p->outputs, wire_bytes(&f)); break;
      case GRAPH_VALUE_INFO: room = vector_push(&p->declarations, wire_bytes(&f)); break;
      default: break;
    }
  }
  return room ? r.status : status_no_memory(message.size);
}

/* Takes the tensor over. */
static rlx_status add_constant(scope *s, wire_span name, rlx_tensor *t) {
  rlx_value *v;
  rlx_status status = name.size ? scope_add(s, name, &v) : RLX_FAIL(INVALID, "an initializer has no name");
  if (status != RLX_OK) {
    rlx_tensor_destroy(t);
    return status;
  }
  v->constant = t;
  rlx_tensor_type(t, &v->type);
  return RLX_OK;
}

static rlx_status add_initializers(scope *s, const span_list *list, bool sparse) {
  for (size_t i = 0; i < list->count; i++) {
    wire_span name;
    rlx_tensor *t;
    RLX_TRY((sparse ? sparse_proto_read : tensor_proto_read)(&s->importer->source, list->data[i], &name, &t));
    RLX_TRY(add_constant(s, name, t));
  }
  return RLX_OK;
}

/* An input with an initializer is a constant: so old files list their weights. Newer ones mean a default value. */
static rlx_status add_inputs(scope *s, const span_list *list) {
  rlx_graph *g = s->graph;
  for (size_t i = 0; i < list->count; i++) {
    declaration d;
    RLX_TRY(declaration_read(list->data[i], &d));
    rlx_value *v = map_get_bytes(&s->names, d.name.data, d.name.size);
    bool constant = v && v->constant && !v->is_input;
    if (d.name.size == 0) return RLX_FAIL(INVALID, "input %zu has no name", i);
    if (!constant) RLX_TRY(scope_add(s, d.name, &v));
    RLX_TRY(declaration_apply(&d, v));
    if (constant && s->importer->ir_version >= DEFAULTS_IR && !g->parent) {
      graph_default with = {v, d.typed ? d.type : v->type};
      if (!vector_push(&g->defaults, with)) return status_no_memory(sizeof with);
    }
    if (constant) continue;
    v->is_input = true;
    if (!vector_push(&g->inputs, v)) return status_no_memory(sizeof v);
  }
  return RLX_OK;
}

/* Types of values in between. Of names that do not exist nothing can be said. */
static rlx_status apply_declarations(scope *s, const span_list *list) {
  for (size_t i = 0; i < list->count; i++) {
    declaration d;
    RLX_TRY(declaration_read(list->data[i], &d));
    rlx_value *v = map_get_bytes(&s->names, d.name.data, d.name.size);
    if (v && !v->constant) RLX_TRY(declaration_apply(&d, v));
  }
  return RLX_OK;
}

static rlx_status add_copy(scope *s, rlx_value *v, rlx_value **out) {
  const char *name = graph_fresh_name(s->graph, v->name);
  rlx_value *copy = name ? graph_value(s->graph, name) : NULL;
  if (!copy) return status_no_memory(sizeof *copy);
  copy->type = v->type;
  *out = copy;
  return scope_copy_value(s, v, copy);
}

/* An output is a value of this graph: of others, and of values given before in a subgraph, a copy is made. */
static rlx_status add_output(scope *s, const declaration *d) {
  rlx_graph *g = s->graph;
  if (d->name.size == 0) return RLX_FAIL(INVALID, "output %zu has no name", g->outputs.count);
  rlx_value *v = scope_find(s, d->name);
  if (!v || v == &scope_absent) return RLX_FAIL(INVALID, "output '%.*s' is not defined", WIRE_TEXT(d->name));
  if (v->is_output && v->graph == g && !g->parent)
    return RLX_FAIL(INVALID, "output '%.*s' is listed twice", WIRE_TEXT(d->name));
  RLX_TRY(budget_take(&s->importer->source.budget, (int64_t)d->name.size + 32));
  graph_output output = {.value = v};
  if (v->graph != g || v->is_output) {
    RLX_TRY(add_copy(s, v, &output.value));
    output.name = output.value->name;
  } else {
    RLX_TRY(name_copy(&g->memory, d->name, &output.name));
  }
  output.value->is_output = true;
  return vector_push(&g->outputs, output) ? RLX_OK : status_no_memory(sizeof output);
}

static rlx_status declare_outputs(scope *s, const span_list *list) {
  for (size_t i = 0; i < list->count; i++) {
    declaration d;
    RLX_TRY(declaration_read(list->data[i], &d));
    rlx_value *v = map_get_bytes(&s->names, d.name.data, d.name.size);
    if (v && v != &scope_absent) RLX_TRY(declaration_apply(&d, v));
  }
  return RLX_OK;
}

static rlx_status add_outputs(scope *s, const span_list *list) {
  for (size_t i = 0; i < list->count; i++) {
    declaration d;
    RLX_TRY(declaration_read(list->data[i], &d));
    RLX_TRY(add_output(s, &d));
  }
  return RLX_OK;
}

static rlx_status node_prefix(rlx_status status, const node_parts *p, size_t index) {
  if (p->name.size) return status_prefix(status, "node '%.*s' (%s)", WIRE_TEXT(p->name), p->op);
  return status_prefix(status, "node %zu (%s)", index, p->op);
}

static rlx_status make_outputs(scope *s, const node_parts *p) {
  rlx_value *v;
  for (size_t i = 0; i < p->outputs.count; i++) {
    if (p->outputs.data[i].size) RLX_TRY(scope_add(s, p->outputs.data[i], &v));
  }
  return RLX_OK;
}

/* Calls fn for each node; failures name it. */
static rlx_status each_node(scope *s, const span_list *nodes, rlx_status (*fn)(scope *s, const node_parts *p)) {
  for (size_t i = 0; i < nodes->count; i++) {
    node_parts p;
    rlx_status status = node_parts_read(nodes->data[i], &p);
    if (status != RLX_OK) return status_prefix(status, "node %zu", i);
    status = fn(s, &p);
    if (status != RLX_OK && !s->importer->node_named) status = node_prefix(status, &p, i);
    s->importer->node_named = false;
    node_parts_finish(&p);
    RLX_TRY(status);
  }
  return RLX_OK;
}

rlx_status import_nodes(scope *s, const span_list *nodes) {
  RLX_TRY(each_node(s, nodes, make_outputs));
  return each_node(s, nodes, import_node);
}

static rlx_status fill(scope *s, const graph_parts *p) {
  rlx_graph *g = s->graph;
  if (p->name.size) RLX_TRY(name_copy(&g->memory, p->name, &g->name));
  RLX_TRY(add_initializers(s, &p->initializers, false));
  RLX_TRY(add_initializers(s, &p->sparse, true));
  RLX_TRY(add_inputs(s, &p->inputs));
  RLX_TRY(each_node(s, &p->nodes, make_outputs));
  RLX_TRY(apply_declarations(s, &p->declarations));
  RLX_TRY(declare_outputs(s, &p->outputs));
  RLX_TRY(each_node(s, &p->nodes, import_node));
  return add_outputs(s, &p->outputs);
}

rlx_status import_graph(scope *s, wire_span message) {
  graph_parts p = {0};
  rlx_status status = take_apart(message, &p);
  if (status == RLX_OK) status = fill(s, &p);
  graph_parts_finish(&p);
  return status;
}

rlx_status import_subgraph(scope *outer, rlx_graph *parent, wire_span message, rlx_graph **out) {
  importer *im = outer->importer;
  if (im->level >= MAX_LEVELS) return RLX_FAIL(UNSUPPORTED, "more than %d levels of graphs and functions", MAX_LEVELS);
  RLX_TRY(budget_take(&im->source.budget, 4096));
  rlx_graph *g;
  RLX_TRY(graph_create(im->registry, parent, &g));
  scope s = {.importer = im,
             .outer = outer,
             .call = outer->call,
             .graph = g,
             .prefix = outer->prefix,
             .origin = outer->origin};
  im->level++;
  rlx_status status = import_graph(&s, message);
  im->level--;
  scope_finish(&s);
  if (status == RLX_OK) *out = g;
  return status;
}
