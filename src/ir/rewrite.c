/* rewrite.c — rewriting a node into others by its op's lower or derive, and putting these in its place. */
#include <string.h>

#include "ir/graph.h"

/* v belongs to g or a graph around it. */
static bool reachable(const rlx_graph *g, const rlx_value *v) {
  for (; g; g = g->parent)
    if (v->graph == g) return true;
  return false;
}

/* What an author's function may leave behind: nodes over values of this graph, and nothing else. */
static rlx_status check_rewritten(const rlx_node *n, const char *what, size_t first, rlx_value *const *outputs) {
  const rlx_graph *g = n->graph;
  for (int i = 0; i < n->output_count; i++) {
    if (!outputs[i] && *n->outputs[i]->name)
      return RLX_FAIL(INTERNAL, "%s of %s gave no output %d", what, n->op_name, i);
    if (!outputs[i]) continue;
    if (!reachable(g, outputs[i])) return RLX_FAIL(INVALID, "output %d of its %s is a value of another graph", i, what);
    if (outputs[i]->producer == n) return RLX_FAIL(INVALID, "output %d of its %s is its own", i, what);
  }
  for (size_t i = first; i < g->nodes.count; i++)
    for (int k = 0; k < g->nodes.data[i]->input_count; k++) {
      const rlx_value *v = g->nodes.data[i]->inputs[k];
      if (v && !reachable(g, v)) return RLX_FAIL(INVALID, "its %s uses a value of another graph", what);
      if (v && v->producer == n) return RLX_FAIL(INVALID, "its %s uses its own output", what);
    }
  return RLX_OK;
}

rlx_status node_rewrite(rlx_node *n, rlx_status (*rewrite)(rlx_graph *, const rlx_node *, rlx_value **),
                        const char *what, rlx_value **outputs) {
  rlx_graph *g = n->graph;
  size_t ins = g->inputs.count, outs = g->outputs.count, first = g->nodes.count;
  status_clear();
  rlx_status status = rewrite(g, n, outputs);
  if (status == RLX_OK) status = rlx_graph_status(g);
  if (status != RLX_OK && !*rlx_error_message())
    status = status_fail(status, "%s returned '%s' without saying why", what, rlx_status_name(status));
  if (g->inputs.count != ins || g->outputs.count != outs) {
    g->inputs.count = ins < g->inputs.count ? ins : g->inputs.count;
    g->outputs.count = outs < g->outputs.count ? outs : g->outputs.count;
    if (status == RLX_OK) status = RLX_FAIL(INVALID, "its %s changes the graph's inputs or outputs", what);
  }
  return status == RLX_OK ? check_rewritten(n, what, first, outputs) : status;
}

/* ---- taking a node's place ---------------------------------------------------------------- */

static void take_over(rlx_node *maker, int index, rlx_value *v) {
  graph_replace_uses(v->graph, maker->outputs[index], v);
  maker->outputs[index] = v;
  v->producer = maker;
  v->index = index;
}

rlx_status node_retire(rlx_node *n, rlx_value *const *outputs) {
  rlx_graph *g = n->graph;
  rlx_value **own = arena_copy(&g->memory, n->outputs, (size_t)n->output_count * sizeof *own);
  if (!own) return status_no_memory(1);
  for (int i = 0; i < n->output_count; i++) {
    rlx_value *now = outputs[i];
    n->outputs[i] = graph_value(g, "");
    if (!n->outputs[i]) return status_no_memory(sizeof *now);
    n->outputs[i]->producer = n;
    n->outputs[i]->index = i;
    if (!now) continue;
    bool made = now->producer && now->graph == g && !now->is_output;
    for (int k = 0; k < i && made; k++) {
      if (outputs[k] != now) continue;
      now = own[k]; /* that is what it has become */
      made = false;
    }
    if (!made) {
      now = rlx_graph_op(g, "onnx.Identity", NULL, 0, &now, 1);
      if (!now) return rlx_graph_status(g);
    }
    take_over(now->producer, now->index, own[i]);
  }
  return RLX_OK;
}

static void drop_subgraph(rlx_graph *g, rlx_graph *sub) {
  size_t kept = 0;
  for (size_t i = 0; i < g->subgraphs.count; i++)
    if (g->subgraphs.data[i] != sub) g->subgraphs.data[kept++] = g->subgraphs.data[i];
  if (kept < g->subgraphs.count) rlx_graph_destroy(sub);
  g->subgraphs.count = kept;
}

void node_drop_subgraphs(rlx_node *n) {
  for (int i = 0; i < n->attr_count; i++) {
    rlx_attr *a = &n->attrs[i];
    if (a->graph) drop_subgraph(n->graph, a->graph);
    for (size_t k = 0; a->graphs && k < a->count; k++) drop_subgraph(n->graph, a->graphs[k]);
    a->graph = NULL;
    if (a->graphs) a->count = 0;
    a->graphs = NULL;
  }
}

static bool retired(const rlx_node *n) {
  for (int i = 0; i < n->output_count; i++)
    if (*n->outputs[i]->name) return false;
  return n->output_count > 0;
}

void graph_drop_retired(rlx_graph *g) {
  bool *keep = mem_array(g->nodes.count, sizeof *keep);
  if (!keep) return; /* they do no harm */
  for (size_t i = 0; i < g->nodes.count; i++) {
    rlx_node *n = g->nodes.data[i];
    keep[i] = !retired(n) || (n->op && (n->op->op.traits & RLX_SIDE_EFFECT));
    if (!keep[i]) node_drop_subgraphs(n);
  }
  graph_remove_nodes(g, keep);
  mem_free(keep);
  graph_number(g);
}
