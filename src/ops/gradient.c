/* gradient.c — ai.onnx.preview.training.Gradient: derivatives asked for within a model. */
#include <stddef.h>
#include <string.h>

#include "ir/graph.h"
#include "ir/module.h"

/* Names of values of the graph that the node stands in: of y = f(xs, zs) the derivatives by xs are wanted. */
typedef struct gradient_params {
  uint64_t given;
  rlx_strings xs, zs;
  rlx_string y;
} gradient_params;

static rlx_status infer(rlx_infer *ctx) {
  const gradient_params *p = rlx_infer_params(ctx);
  int64_t inputs = rlx_infer_input_count(ctx), outputs = rlx_infer_output_count(ctx);
  if (p->xs.count + p->zs.count != inputs || p->xs.count < outputs)
    return rlx_fail(ctx, RLX_INVALID, "%lld inputs and %lld outputs for %lld xs and %lld zs", (long long)inputs,
                    (long long)outputs, (long long)p->xs.count, (long long)p->zs.count);
  for (int i = 0; i < outputs; i++) rlx_infer_like(ctx, i, i);
  return RLX_OK;
}

static rlx_value *named(rlx_graph *g, const rlx_string *name) {
  rlx_value *v = graph_find(g, name->data); /* decoded strings end with NUL */
  if (!v) rlx_graph_fail(g, RLX_INVALID, "the graph has no value '%s'", name->data);
  return v;
}

/* ---- another point: f once more, from the node's inputs ----------------------------------- */

/* Copies of values, by id; NULL: a value that does not depend on xs or zs stands for itself. */
typedef struct recompute {
  rlx_graph *g;
  rlx_value **copies;
  bool *above; /* per node: y depends on it */
} recompute;

static void mark_above(const recompute *r, const rlx_value *v) {
  for (size_t i = r->g->nodes.count; i-- > 0;) {
    const rlx_node *n = r->g->nodes.data[i];
    for (int k = 0; k < n->output_count; k++) r->above[i] |= n->outputs[k] == v;
    for (size_t j = i + 1; j < r->g->nodes.count && !r->above[i]; j++)
      for (int k = 0; r->above[j] && k < r->g->nodes.data[j]->input_count; k++)
        r->above[i] |= r->g->nodes.data[j]->inputs[k] && r->g->nodes.data[j]->inputs[k]->producer == n;
  }
}

static rlx_value *copy_of(const recompute *r, rlx_value *v) {
  return v && v->graph == r->g && r->copies[v->id] ? r->copies[v->id] : v;
}

static rlx_status copy_node(recompute *r, rlx_node *n) {
  rlx_graph *g = r->g;
  bool moved = false;
  for (int k = 0; k < n->input_count; k++) moved |= copy_of(r, n->inputs[k]) != n->inputs[k];
  for (int k = 0; k < n->output_count; k++) moved &= copy_of(r, n->outputs[k]) == n->outputs[k]; /* xs within f */
  if (!moved) return RLX_OK;
  if (node_subgraph(n, 0))
    return rlx_graph_fail(g, RLX_UNSUPPORTED, "at another point than that of the graph, through node '%s' (%s)",
                          n->name, n->op_name);
  rlx_value **inputs = arena_array(&g->memory, (size_t)n->input_count, sizeof *inputs);
  if (!inputs) return rlx_graph_fail(g, RLX_OUT_OF_MEMORY, "out of memory");
  for (int k = 0; k < n->input_count; k++) inputs[k] = copy_of(r, n->inputs[k]);
  rlx_node_desc d = {sizeof d,      n->op_name,      NULL, inputs, n->input_count, n->attrs,
                     n->attr_count, n->output_count, NULL};
  g->node_opset = n->opset;
  rlx_node *copy = rlx_graph_node(g, &d);
  g->node_opset = 0;
  for (int k = 0; copy && k < n->output_count; k++) r->copies[n->outputs[k]->id] = copy->outputs[k];
  return rlx_graph_status(g);
}

/* y of the node's own inputs. */
static rlx_value *value_at(rlx_graph *g, const rlx_node *n, rlx_value *const *points, rlx_value *y) {
  size_t values = g->values.count, nodes = g->nodes.count;
  recompute r = {g, arena_array(&g->memory, values, sizeof *r.copies), arena_array(&g->memory, nodes, 1)};
  if (!r.copies || !r.above) {
    rlx_graph_fail(g, RLX_OUT_OF_MEMORY, "out of memory");
    return NULL;
  }
  graph_number(g);
  for (int i = 0; i < n->input_count; i++)
    if (points[i]->graph == g) r.copies[points[i]->id] = n->inputs[i];
  mark_above(&r, y);
  for (size_t i = 0; i < nodes; i++)
    if (r.above[i] && copy_node(&r, g->nodes.data[i]) != RLX_OK) return NULL;
  return copy_of(&r, y);
}

/* ---- the rewriting ------------------------------------------------------------------------ */

static rlx_status lower(rlx_graph *g, const rlx_node *n, rlx_value **outputs) {
  const gradient_params *p = rlx_node_params(n);
  rlx_value **points = arena_array(&g->memory, (size_t)n->input_count, sizeof *points);
  rlx_value **found = arena_array(&g->memory, (size_t)n->input_count, sizeof *found), *y = named(g, &p->y);
  bool here = true;
  if (!points || !found) return rlx_graph_fail(g, RLX_OUT_OF_MEMORY, "out of memory");
  for (int i = 0; i < n->input_count; i++) {
    points[i] = named(g, i < p->xs.count ? &p->xs.data[i] : &p->zs.data[i - p->xs.count]);
    if (!points[i]) return rlx_graph_status(g);
    here = here && points[i] == n->inputs[i];
  }
  if (y && !here) y = value_at(g, n, points, y);
  if (!y) return rlx_graph_status(g);
  RLX_TRY(rlx_gradient(g, y, NULL, n->inputs, (int)p->xs.count, found));
  for (int i = 0; i < n->output_count; i++) outputs[i] = found[i];
  return rlx_graph_status(g);
}

static const rlx_op gradient = {
    .struct_size = sizeof(rlx_op),
    .name = "ai.onnx.preview.training.Gradient",
    .version = 1,
    .doc = "Derivatives of the value y by the values xs, all given by their names in the graph, at the inputs.",
    .inputs = (const rlx_port[]){{"Inputs", NULL, 0, RLX_VARIADIC | RLX_HETEROGENEOUS, 1}, {0}},
    .outputs = (const rlx_port[]){{"Outputs", NULL, RLX_SET_FLOATS, RLX_VARIADIC | RLX_HETEROGENEOUS, 1}, {0}},
    .attrs =
        (const rlx_attr_def[]){
            {.name = "xs", .kind = RLX_ATTR_STRINGS, .flags = RLX_REQUIRED, .offset = offsetof(gradient_params, xs)},
            {.name = "zs", .kind = RLX_ATTR_STRINGS, .offset = offsetof(gradient_params, zs)},
            {.name = "y", .kind = RLX_ATTR_STRING, .flags = RLX_REQUIRED, .offset = offsetof(gradient_params, y)},
            {0}},
    .params_size = sizeof(gradient_params),
    .traits = RLX_PURE | RLX_LOWER_FIRST,
    .no_derivative = "it is put into effect when a session is made",
    .infer = infer,
    .lower = lower,
};

const rlx_module ops_gradient = {.ops = (const rlx_op *const[]){&gradient, NULL}};
