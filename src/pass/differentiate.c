/* differentiate.c — pass differentiate: nodes whose lower looks at the graph around them, Gradient above all. */
#include "ir/infer.h"
#include "pass/pass.h"

static rlx_node *find(const rlx_graph *g) {
  for (size_t i = 0; i < g->nodes.count; i++) {
    rlx_node *n = g->nodes.data[i];
    bool done = n->output_count && !*n->outputs[0]->name; /* retired */
    if (n->op && n->op->op.lower && (n->op->op.traits & RLX_LOWER_FIRST) && !done) return n;
  }
  return NULL;
}

static rlx_status expand(rlx_node *n) {
  rlx_value **outputs = arena_array(&n->graph->memory, (size_t)n->output_count, sizeof *outputs);
  if (!outputs) return status_no_memory(sizeof *outputs);
  RLX_TRY(node_rewrite(n, n->op->op.lower, "lowering", outputs));
  return node_retire(n, outputs);
}

rlx_status pass_differentiate(rlx_graph *g, const target *t, bool *changed) {
  (void)t;
  bool any = false;
  for (rlx_node *n; (n = find(g)); any = true) {
    rlx_status status = expand(n);
    if (status != RLX_OK) return status_prefix(status, "node '%s' (%s)", n->name, n->op_name);
  }
  if (!any) return RLX_OK;
  *changed = true;
  graph_drop_retired(g);
  RLX_TRY(graph_sort(g));
  return infer_graph(g, false);
}
