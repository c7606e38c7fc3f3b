/* import_scope.c — names of values while importing. */
#include <string.h>

#include "onnx/import.h"

rlx_value scope_absent;

void scope_finish(scope *s) {
  map_finish(&s->names);
  map_finish(&s->bound);
}

rlx_value *scope_find(scope *s, wire_span name) {
  for (; s; s = s->outer) {
    rlx_value *v = map_get_bytes(&s->names, name.data, name.size);
    if (v) return v;
  }
  return NULL;
}

/* A value of the graph: called as in the model, or in a function's body after the call. */
static rlx_status make_value(scope *s, wire_span name, rlx_value **out) {
  RLX_TRY(budget_take(&s->importer->source.budget, (int64_t)(sizeof(rlx_value) + 3 * name.size + 96)));
  rlx_graph *g = s->graph;
  const char *text = "";
  if (name.size) {
    text = arena_printf(&g->memory, "%s%.*s", s->prefix, (int)name.size, (const char *)name.data);
    if (text && (*s->prefix ? graph_find(g, text) : map_get(&g->names, text))) text = graph_fresh_name(g, text);
  }
  rlx_value *v = text ? graph_value(g, text) : NULL;
  if (!v) return status_no_memory(sizeof *v);
  *out = v;
  return RLX_OK;
}

rlx_status scope_add(scope *s, wire_span name, rlx_value **out) {
  if (name.size > 0xffff) return RLX_FAIL(INVALID, "a name of %zu bytes", name.size);
  if (name.size == 0) return make_value(s, name, out);
  if (map_get_bytes(&s->names, name.data, name.size)) {
    return RLX_FAIL(INVALID, "the name '%.*s' is defined twice", WIRE_TEXT(name));
  }
  rlx_value *v = map_remove_bytes(&s->bound, name.data, name.size);
  if (!v) RLX_TRY(make_value(s, name, &v));
  if (!map_put_bytes(&s->names, name.data, name.size, v)) return status_no_memory(name.size);
  *out = v;
  return RLX_OK;
}

int scope_opset(const scope *s, const char *op) {
  size_t length = op_domain_length(op);
  const function *f = s->call ? s->call->function : NULL;
  for (size_t i = 0; f && i < f->opsets.count; i++) {
    const graph_opset *o = &f->opsets.data[i];
    if (strlen(o->domain) == length && memcmp(o->domain, op, length) == 0) return o->version;
  }
  return graph_opset_version(s->graph, op, length);
}

rlx_status scope_add_node(scope *s, const rlx_node_desc *desc, rlx_value *const *outputs) {
  rlx_graph *g = s->graph;
  g->node_opset = scope_opset(s, desc->op);
  rlx_node *n = graph_add_node(g, desc, outputs);
  g->node_opset = 0;
  s->importer->node_named = !n;
  if (!n) return rlx_graph_status(g);
  n->origin = s->origin;
  return RLX_OK;
}

rlx_status scope_copy_value(scope *s, rlx_value *from, rlx_value *to) {
  rlx_node_desc desc = {
      .struct_size = sizeof desc, .op = "onnx.Identity", .inputs = &from, .input_count = 1, .output_count = 1};
  return scope_add_node(s, &desc, &to);
}
