/* export_graph.c — graphs to GraphProto. */
#include <string.h>

#include "onnx/export.h"
#include "onnx/schema.h"

/* A name for a copy of an output: at the top the output's own; in a subgraph, whose outputs count by
 * position, any. */
static rlx_status reserve_copy(exporter *e, const rlx_graph *g, const char *wanted, const char **out) {
  const char *name = wanted;
  bool failed;
  while (name && !export_reserve(e, name, NULL, &failed)) {
    if (failed) return status_no_memory(strlen(wanted));
    if (!g->parent) return RLX_FAIL(INVALID, "two values are called '%s'", wanted);
    name = arena_printf(&e->memory, "%s_%llu", wanted, (unsigned long long)e->counter++);
  }
  if (!name) return status_no_memory(strlen(wanted));
  *out = name;
  return RLX_OK;
}

/* Gives outputs their names. copies[i] is the name of a copy, made by Identity, if the value has another
 * name already or belongs to a graph around; else NULL. */
static rlx_status reserve_outputs(exporter *e, const rlx_graph *g, const char **copies) {
  for (size_t i = 0; i < g->outputs.count; i++) {
    const graph_output *o = &g->outputs.data[i];
    const char *named = map_get_bytes(&e->names, &o->value, sizeof o->value);
    bool own = o->value->graph == g, failed;
    if (own && named && o->value->is_input && strcmp(named, o->name) == 0) continue;
    if (!own || named) {
      RLX_TRY(reserve_copy(e, g, o->name, &copies[i]));
    } else if (!export_reserve(e, o->name, o->value, &failed)) {
      if (failed) return status_no_memory(strlen(o->name));
      if (!g->parent) return RLX_FAIL(INVALID, "two values are called '%s'", o->name);
    }
  }
  return RLX_OK;
}

static rlx_status reserve_names(exporter *e, const rlx_graph *g, const char **copies) {
  for (size_t i = 0; i < g->inputs.count; i++) {
    if (!export_name(e, g->inputs.data[i])) return status_no_memory(1);
  }
  return reserve_outputs(e, g, copies);
}

static rlx_status put_values(exporter *e, wire_writer *w, const rlx_graph *g) {
  for (size_t i = 0; i < g->values.count; i++) {
    const rlx_value *v = g->values.data[i];
    if (!*v->name || v->is_input) continue;
    bool declared = !v->is_output && v->producer && v->type.dtype != RLX_UNDEFINED;
    if (!v->constant && !declared) continue;
    const char *name = export_name(e, v);
    if (!name) return status_no_memory(1);
    if (v->constant)
      export_tensor(e, w, GRAPH_INITIALIZER, v->constant, name);
    else
      RLX_TRY(export_declaration(e, w, GRAPH_VALUE_INFO, name, v));
  }
  return RLX_OK;
}

static rlx_status put_outputs(exporter *e, wire_writer *w, const rlx_graph *g, const char *const *copies) {
  for (size_t i = 0; i < g->outputs.count; i++) {
    const rlx_value *v = g->outputs.data[i].value;
    const char *name = export_name(e, v);
    if (!name) return status_no_memory(1);
    if (copies[i]) export_identity(w, name, copies[i]);
    RLX_TRY(export_declaration(e, w, GRAPH_OUTPUT, copies[i] ? copies[i] : name, v));
  }
  return RLX_OK;
}

static rlx_status fill(exporter *e, wire_writer *w, const rlx_graph *g, const char **copies) {
  wire_put_string(w, GRAPH_NAME, g->name);
  RLX_TRY(reserve_names(e, g, copies));
  for (size_t i = 0; i < g->inputs.count; i++) {
    const rlx_value *v = g->inputs.data[i];
    const char *name = export_name(e, v);
    if (!name) return status_no_memory(1);
    RLX_TRY(export_declaration(e, w, GRAPH_INPUT, name, v));
  }
  for (size_t i = 0; i < g->defaults.count; i++) {
    const graph_default *d = &g->defaults.data[i];
    const rlx_value declared = {.type = d->type};
    const char *name = export_name(e, d->value);
    if (!name) return status_no_memory(1);
    RLX_TRY(export_declaration(e, w, GRAPH_INPUT, name, &declared));
  }
  RLX_TRY(put_values(e, w, g));
  for (size_t i = 0; i < g->nodes.count; i++) RLX_TRY(export_node(e, w, g->nodes.data[i]));
  return put_outputs(e, w, g, copies);
}

rlx_status export_graph(exporter *e, wire_writer *w, uint32_t number, const rlx_graph *g) {
  const char **copies = mem_array(g->outputs.count, sizeof *copies);
  if (!copies) return status_no_memory(g->outputs.count);
  wire_writer message = {0};
  rlx_status status = fill(e, &message, g, copies);
  wire_put_message(w, number, &message);
  mem_free((void *)copies);
  return status;
}
