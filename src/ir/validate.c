/* validate.c — checks the invariants of a graph: SSA, order, ownership, names, ports, types. */
#include "ir/validate.h"

#include <string.h>

#include "base/need.h"
#include "ir/infer.h"
#include "ir/shape.h"

/* A graph on the way from the outermost to the one being checked, and which of its values exist by now. */
typedef struct scope {
  const rlx_graph *graph;
  const struct scope *outer;
  bool *exists; /* by value id */
  map names;    /* of values that exist */
} scope;

static rlx_status check_graph(const rlx_graph *g, const scope *outer);

/* Is v one of its graph's values, under its id? */
static bool is_listed(const rlx_value *v) {
  return v->graph && v->id < v->graph->values.count && v->graph->values.data[v->id] == v;
}

static rlx_status check_type(const rlx_type *t) {
  if ((int)t->kind < RLX_KIND_TENSOR || t->kind > RLX_KIND_MAP) return RLX_FAIL(INVALID, "kind %d", (int)t->kind);
  if ((int)t->dtype < RLX_UNDEFINED || t->dtype >= RLX_DTYPE_COUNT)
    return RLX_FAIL(INVALID, "element type %d", (int)t->dtype);
  if (t->rank < RLX_UNKNOWN || t->rank > RLX_MAX_RANK)
    return RLX_FAIL(INVALID, "rank %d outside 0..%d", t->rank, RLX_MAX_RANK);
  for (int i = 0; i < t->rank; i++)
    if (t->dims[i] < RLX_UNKNOWN) return RLX_FAIL(INVALID, "dim %d is %lld", i, (long long)t->dims[i]);
  return RLX_OK;
}

static rlx_status check_constant(const rlx_value *v) {
  char declared[300], given[300];
  rlx_type type;
  if (!v->constant) return RLX_OK;
  if (v->producer || v->is_input) return RLX_FAIL(INVALID, "has contents and is made by a node or an input");
  rlx_tensor_type(v->constant, &type);
  if (type_equal(&v->type, &type)) return RLX_OK;
  return RLX_FAIL(INVALID, "is %s, its contents %s", type_text(&v->type, declared, sizeof declared),
                  type_text(&type, given, sizeof given));
}

/* A value comes to exist in scope s. */
static rlx_status define(scope *s, rlx_value *v) {
  if (v->graph != s->graph || !is_listed(v)) return RLX_FAIL(INVALID, "value '%s' belongs to another graph", v->name);
  if (s->exists[v->id]) return RLX_FAIL(INVALID, "value '%s' is made twice", v->name);
  rlx_status status = check_type(&v->type);
  if (status == RLX_OK) status = check_constant(v);
  if (status != RLX_OK) return status_prefix(status, "value '%s'", v->name);
  s->exists[v->id] = true;
  if (!*v->name) return RLX_OK;
  if (map_get(&s->names, v->name)) return RLX_FAIL(INVALID, "the name '%s' is used twice", v->name);
  return map_put(&s->names, v->name, v) ? RLX_OK : status_no_memory(sizeof v);
}

static rlx_status check_use(const scope *s, const rlx_value *v) {
  while (s && s->graph != v->graph) s = s->outer;
  if (!s || !is_listed(v)) return RLX_FAIL(INVALID, "uses value '%s', which belongs to no graph around it", v->name);
  if (!*v->name) return RLX_FAIL(INVALID, "uses an output that is left out");
  return s->exists[v->id] ? RLX_OK : RLX_FAIL(INVALID, "uses value '%s' before it is made", v->name);
}

static rlx_status check_subgraphs(const scope *s, const rlx_node *n) {
  const rlx_graph *sub;
  for (int i = 0; (sub = node_subgraph(n, i)); i++) {
    bool owned = false;
    for (size_t k = 0; k < s->graph->subgraphs.count; k++) owned |= s->graph->subgraphs.data[k] == sub;
    if (sub->parent != s->graph || !owned)
      return RLX_FAIL(INVALID, "subgraph '%s' does not belong to the node's graph", sub->name);
    rlx_status status = check_graph(sub, s);
    if (status != RLX_OK) return status_prefix(status, "graph '%s'", sub->name);
  }
  return RLX_OK;
}

static rlx_status check_node(scope *s, const rlx_node *n) {
  if (n->graph != s->graph) return RLX_FAIL(INVALID, "belongs to another graph");
  for (int i = 0; i < n->input_count; i++)
    if (n->inputs[i]) RLX_TRY(check_use(s, n->inputs[i]));
  RLX_TRY(check_subgraphs(s, n));
  for (int i = 0; i < n->output_count; i++) {
    rlx_value *v = n->outputs[i];
    if (v->producer != n || v->index != i) return RLX_FAIL(INVALID, "output %d has another producer", i);
    if (v->is_input) return RLX_FAIL(INVALID, "output '%s' is an input of the graph", v->name);
    RLX_TRY(define(s, v));
  }
  return node_check(n);
}

static rlx_status check_inputs(scope *s) {
  const rlx_graph *g = s->graph;
  for (size_t i = 0; i < g->inputs.count; i++) {
    rlx_value *v = g->inputs.data[i];
    if (!v->is_input || v->producer) return RLX_FAIL(INVALID, "input '%s' is made by a node", v->name);
    RLX_TRY(define(s, v));
  }
  for (size_t i = 0; i < g->defaults.count; i++) {
    const rlx_value *v = g->defaults.data[i].value;
    if (!is_listed(v) || v->graph != g || !v->constant || v->is_input)
      return RLX_FAIL(INVALID, "input '%s', which has a default value, is no constant", v->name);
  }
  for (size_t i = 0; i < g->values.count; i++) {
    rlx_value *v = g->values.data[i];
    if (v->constant && !v->producer && !v->is_input) RLX_TRY(define(s, v));
  }
  return RLX_OK;
}

static rlx_status check_output(const scope *s, const graph_output *o, map *names) {
  if (!*o->name) return RLX_FAIL(INVALID, "has no name");
  if (map_get(names, o->name)) return RLX_FAIL(INVALID, "the name is used twice");
  if (!map_put(names, o->name, o->value)) return status_no_memory(sizeof *o);
  RLX_TRY(check_use(s, o->value));
  if (o->value->graph != s->graph || o->value->is_output) return RLX_OK;
  return RLX_FAIL(INVALID, "value '%s' is not marked as an output", o->value->name);
}

static rlx_status check_outputs(const scope *s) {
  map names = {0};
  rlx_status status = RLX_OK;
  for (size_t i = 0; i < s->graph->outputs.count && status == RLX_OK; i++) {
    const graph_output *o = &s->graph->outputs.data[i];
    status = check_output(s, o, &names);
    if (status != RLX_OK) status_prefix(status, "output '%s'", o->name);
  }
  map_finish(&names);
  return status;
}

static rlx_status check_parts(scope *s) {
  RLX_TRY(check_inputs(s));
  for (size_t i = 0; i < s->graph->nodes.count; i++) {
    const rlx_node *n = s->graph->nodes.data[i];
    rlx_status status = check_node(s, n);
    if (status != RLX_OK) return status_prefix(status, "node '%s' (%s)", n->name, n->op_name);
  }
  return check_outputs(s);
}

static rlx_status check_graph(const rlx_graph *g, const scope *outer) {
  RLX_TRY(rlx_graph_status(g));
  scope s = {.graph = g, .outer = outer, .exists = mem_array(g->values.count, sizeof *s.exists)};
  rlx_status status = s.exists ? check_parts(&s) : status_no_memory(g->values.count);
  mem_free(s.exists);
  map_finish(&s.names);
  return status;
}

rlx_status graph_validate(const rlx_graph *g) { return check_graph(g, NULL); }

rlx_status rlx_graph_validate(const rlx_graph *g) {
  RLX_NEED(g);
  rlx_graph *copy;
  RLX_TRY(graph_validate(g));
  RLX_TRY(graph_clone(g, &copy)); /* inference refines types in place */
  rlx_status status = infer_graph(copy, true);
  rlx_graph_destroy(copy);
  return status;
}
