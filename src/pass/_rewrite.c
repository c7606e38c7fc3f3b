/* _rewrite.c — replacing chains of nodes by one. */
#include "pass/_rewrite.h"

#include <string.h>

static void note_user(rewriter *r, const rlx_value *v, rlx_node *n) {
  if (!v || v->graph != r->g || v->id >= r->value_count) return;
  rlx_node **users = r->users[v->id];
  if (!users[0])
    users[0] = n;
  else if (!users[1])
    users[1] = n;
}

rlx_status rewriter_start(rewriter *r, rlx_graph *g, const target *t) {
  *r = (rewriter){.g = g, .t = t};
  graph_number(g);
  r->value_count = g->values.count;
  r->uses = graph_use_counts(g, &r->memory);
  r->users = arena_array(&r->memory, g->values.count + 1, sizeof *r->users);
  r->dims = dims_number(g, &r->memory);
  if (!r->uses || !r->users || !r->dims) {
    arena_finish(&r->memory);
    return status_no_memory(g->values.count);
  }
  for (size_t i = 0; i < g->nodes.count; i++) {
    rlx_node *n = g->nodes.data[i];
    for (int k = 0; k < n->input_count; k++) note_user(r, n->inputs[k], n);
  }
  return RLX_OK;
}

static void forget_node(rlx_node *n) {
  for (int i = 0; i < n->output_count; i++) {
    if (n->outputs[i]->producer == n) n->outputs[i]->producer = NULL;
  }
  selection_drop(n);
}

bool rewriter_is_gone(const rewriter *r, const rlx_node *n) {
  for (size_t i = 0; i < r->gone.count; i++) {
    if (r->gone.data[i] == n) return true;
  }
  return false;
}

rlx_status rewriter_finish(rewriter *r, rlx_status status, bool *changed) {
  rlx_graph *g = r->g;
  if (status == RLX_OK && r->changed) {
    graph_number(g);
    bool *keep = arena_array(&r->memory, g->nodes.count + 1, sizeof *keep);
    if (keep) {
      memset(keep, true, g->nodes.count);
      for (size_t i = 0; i < r->gone.count; i++) {
        keep[r->gone.data[i]->id] = false;
        forget_node(r->gone.data[i]);
      }
      graph_remove_nodes(g, keep);
      status = graph_sort(g);
      *changed = true;
    } else {
      status = status_no_memory(g->nodes.count);
    }
  }
  vector_finish(&r->gone);
  arena_finish(&r->memory);
  return status;
}

bool rewriter_is(const rlx_node *n, const char *op) { return n && node_is_own(n) && strcmp(n->op_name, op) == 0; }

bool rewriter_used(const rewriter *r, const rlx_value *v, uint32_t count) {
  if (v->graph != r->g || v->id >= r->value_count || r->uses[v->id] != count || v->is_output) return false;
  for (size_t i = 0; i < r->g->outputs.count; i++) {
    if (r->g->outputs.data[i].value == v) return false;
  }
  return r->users[v->id][count > 1] != NULL;
}

rlx_node *rewriter_next(const rewriter *r, const rlx_node *n) {
  if (n->output_count < 1 || !rewriter_used(r, n->outputs[0], 1)) return NULL;
  for (int i = 1; i < n->output_count; i++) {
    if (r->uses[n->outputs[i]->id] > 0) return NULL;
  }
  return r->users[n->outputs[0]->id][0];
}

/* "conv1, bn1, relu1" */
static const char *origins(rlx_graph *g, rlx_node *const *old, int count) {
  const char *text = old[0]->origin ? old[0]->origin : old[0]->name;
  for (int i = 1; i < count && text; i++) {
    text = arena_printf(&g->memory, "%s, %s", text, old[i]->origin ? old[i]->origin : old[i]->name);
  }
  return text;
}

static void take_users(rewriter *r, rlx_node *made, rlx_node *const *old, int count) {
  for (int i = 0; i < made->input_count; i++) {
    const rlx_value *v = made->inputs[i];
    if (!v || v->graph != r->g || v->id >= r->value_count) continue;
    for (int k = 0; k < 2 * count; k++) {
      if (r->users[v->id][k % 2] == old[k / 2]) r->users[v->id][k % 2] = made;
    }
  }
}

rlx_status rewriter_replace(rewriter *r, const rlx_node_desc *desc, rlx_node *const *old, int count, rlx_node **made) {
  rlx_graph *g = r->g;
  rlx_node *last = old[count - 1];
  rlx_value *output = last->outputs[0];
  rlx_type type = output->type;
  rlx_node_desc d = *desc;
  d.output_count = 1;
  d.name = old[0]->name;
  *made = NULL;
  rlx_node *n = graph_add_node(g, &d, &output);
  if (!n) return rlx_graph_status(g);
  rlx_status status = select_node(n, r->t);
  bool fast = status == RLX_OK && n->selection->count &&
              (n->selection->chosen[0].kernel || strcmp(n->op_name, old[0]->op_name) == 0);
  if (!fast) {
    /* As it was: the node is dropped, the value is its old producer's again. */
    output->producer = last;
    output->index = 0;
    output->type = type;
    if (status != RLX_OK && status != RLX_UNSUPPORTED) return status;
    return vector_push(&r->gone, n) ? (r->changed = true, RLX_OK) : status_no_memory(sizeof n);
  }
  n->id = old[0]->id;
  n->origin = origins(g, old, count);
  if (!n->origin) return status_no_memory(1);
  for (int i = 0; i < count; i++) {
    if (!vector_push(&r->gone, old[i])) return status_no_memory(sizeof n);
  }
  take_users(r, n, old, count);
  r->changed = true;
  *made = n;
  return RLX_OK;
}
