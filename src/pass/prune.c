/* prune.c — pass prune: drops nodes without side effects that nothing uses. */
#include "pass/pass.h"

static bool has_effect(const rlx_node *n) {
  if (n->op && (n->op->op.traits & RLX_SIDE_EFFECT)) return true;
  for (int k = 0; node_subgraph(n, k); k++) {
    const rlx_graph *sub = node_subgraph(n, k);
    for (size_t i = 0; i < sub->nodes.count; i++)
      if (has_effect(sub->nodes.data[i])) return true;
  }
  return false;
}

/* Lowers the counts of what n and its subgraphs use of g. */
static rlx_status forget(const rlx_graph *g, const rlx_node *n, uint32_t *uses) {
  for (int k = 0; k < n->input_count; k++)
    if (n->inputs[k] && n->inputs[k]->graph == g) uses[n->inputs[k]->id]--;
  return RLX_OK;
}

rlx_status pass_prune(rlx_graph *g, const target *t, bool *changed) {
  (void)t;
  graph_number(g);
  arena memory = {0};
  uint32_t *uses = graph_use_counts(g, &memory);
  bool *keep = arena_array(&memory, g->nodes.count, sizeof *keep);
  rlx_status status = uses && keep ? RLX_OK : status_no_memory(g->values.count);
  for (size_t i = g->nodes.count; i-- > 0 && status == RLX_OK;) {
    rlx_node *n = g->nodes.data[i];
    bool used = has_effect(n);
    for (int k = 0; k < n->output_count; k++) used |= uses[n->outputs[k]->id] > 0;
    keep[i] = used;
    if (used) continue;
    *changed = true;
    status = forget(g, n, uses);
    selection_drop(n);
  }
  if (status == RLX_OK) graph_remove_nodes(g, keep);
  arena_finish(&memory);
  graph_number(g);
  return status;
}
