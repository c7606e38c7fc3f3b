/* forward.c — forward mode: tangents from inputs to outputs, by the jvp of each node, or its vjp transposed. */
#include "grad/forward.h"

#include "ir/shape.h"
#include "ops/_derivative.h"

typedef struct forward {
  transform *t;
  map tangents; /* value → its tangent */
  map via;      /* value → the node that made it, if it has a tangent */
  map wanted;   /* values whose tangents are asked for, or lead there */
} forward;

static rlx_status walk(forward *f, size_t begin, size_t end, rlx_value *const *outputs, int count);

/* `outputs` are n's before its rule, which may have put another node in its place. */
static rlx_status keep(forward *f, rlx_node *n, rlx_value *const *outputs, rlx_value *const *dy) {
  for (int k = 0; k < n->output_count; k++) {
    if (!dy[k] || !transform_carries(outputs[k])) continue;
    if (dy[k]->missing) return RLX_FAIL(UNSUPPORTED, "node '%s' (%s): %s", n->name, n->op_name, dy[k]->missing);
    RLX_TRY(value_put(&f->tangents, outputs[k], dy[k]));
    RLX_TRY(value_put(&f->via, outputs[k], n));
  }
  return RLX_OK;
}

/* Tangents of inputs and captures, in that order; the caller's to free. */
static rlx_status gather(forward *f, const rlx_node *n, value_list *inputs, value_list *tangents) {
  for (int k = 0; k < n->input_count; k++)
    if (!vector_push(inputs, n->inputs[k])) return status_no_memory(sizeof n);
  value_list captures = {0};
  rlx_status status = node_captures(n, &captures);
  for (size_t k = 0; k < captures.count && status == RLX_OK; k++)
    if (!vector_push(inputs, captures.data[k])) status = status_no_memory(sizeof n);
  vector_finish(&captures);
  for (size_t k = 0; k < inputs->count && status == RLX_OK; k++)
    if (!vector_push(tangents, value_get(&f->tangents, inputs->data[k]))) status = status_no_memory(sizeof n);
  return status;
}

/* With u the gradients of the outputs and g(u) those of the inputs, J t is the gradient by u of the sum of t g(u):
 * exact, as g is linear in u. What u holds does not matter. */
static rlx_status transpose(forward *f, rlx_node *n, const value_list *inputs, const value_list *tangents,
                            rlx_value **dy) {
  rlx_graph *g = f->t->g;
  size_t outputs = (size_t)n->output_count, ins = inputs->count, begin = g->nodes.count;
  rlx_value **u = arena_array(&g->memory, outputs, sizeof *u), **dx = arena_array(&g->memory, ins, sizeof *dx);
  rlx_value **by = arena_array(&g->memory, outputs, sizeof *by), **found = arena_array(&g->memory, outputs, sizeof *by);
  int count = 0;
  if (!u || !dx || !by || !found) return status_no_memory(sizeof *u);
  for (size_t k = 0; k < outputs; k++)
    if (*n->outputs[k]->name && transform_is_float(n->outputs[k]))
      by[count++] = u[k] = derivative_filled(g, n->outputs[k], 0);
  RLX_TRY(transform_settle(f->t));
  begin = g->nodes.count;
  RLX_TRY(n->op->op.vjp(g, n, u, dx));
  RLX_TRY(transform_settle(f->t));
  VECTOR(rlx_value *) from = {0}, seeds = {0};
  rlx_status status = RLX_OK;
  for (size_t k = 0; k < ins && status == RLX_OK; k++)
    if (dx[k] && tangents->data[k] && dx[k]->missing)
      status = RLX_FAIL(UNSUPPORTED, "node '%s' (%s): %s", n->name, n->op_name, dx[k]->missing);
    else if (dx[k] && tangents->data[k] && !(vector_push(&from, dx[k]) && vector_push(&seeds, tangents->data[k])))
      status = status_no_memory(sizeof *u);
  value_pairs pairs = {from.data, seeds.data, (int)from.count};
  if (status == RLX_OK) status = reverse_walk(f->t, begin, g->nodes.count, &pairs, by, count, found);
  vector_finish(&from);
  vector_finish(&seeds);
  count = 0;
  for (size_t k = 0; k < outputs && status == RLX_OK; k++)
    if (u[k]) dy[k] = found[count++];
  return status;
}

static rlx_status follow(forward *f, rlx_node *n, rlx_value **dy) {
  rlx_graph *g = f->t->g;
  rlx_value **outputs = arena_array(&g->memory, (size_t)n->output_count, sizeof *outputs);
  size_t begin = g->nodes.count;
  if (!outputs) return status_no_memory(sizeof *outputs);
  RLX_TRY(transform_open(f->t, n, outputs));
  rlx_status status = walk(f, begin, g->nodes.count, outputs, n->output_count);
  for (int i = 0; i < n->output_count && status == RLX_OK; i++) dy[i] = value_get(&f->tangents, outputs[i]);
  transform_close(f->t);
  return status;
}

static rlx_status go_through(forward *f, rlx_node *n, const value_list *inputs, const value_list *tangents,
                             rlx_value **dy) {
  const rlx_value *reached = NULL;
  for (size_t k = 0; k < inputs->count && !reached; k++)
    if (tangents->data[k]) reached = inputs->data[k];
  if (n->op && n->op->op.jvp) {
    RLX_TRY(n->op->op.jvp(f->t->g, n, tangents->data, dy));
    return transform_settle(f->t);
  }
  if (n->op && n->op->op.vjp) return transpose(f, n, inputs, tangents, dy);
  if (n->op && transform_rewriting(n)) return follow(f, n, dy);
  return transform_no_rule(n, reached, &f->via, "forward");
}

static bool is_wanted(const forward *f, const rlx_node *n) {
  for (int k = 0; k < n->output_count; k++)
    if (value_get(&f->wanted, n->outputs[k])) return true;
  return false;
}

/* What the floats of n's outputs may depend on. */
static rlx_status want_inputs(forward *f, const rlx_node *n) {
  value_list captures = {0};
  rlx_status status = node_captures(n, &captures);
  for (int k = 0; k < n->input_count && status == RLX_OK; k++)
    if (n->inputs[k] && transform_carries(n->inputs[k])) status = value_put(&f->wanted, n->inputs[k], f);
  for (size_t k = 0; k < captures.count && status == RLX_OK; k++)
    if (transform_carries(captures.data[k])) status = value_put(&f->wanted, captures.data[k], f);
  vector_finish(&captures);
  return status;
}

static rlx_status want(forward *f, size_t begin, size_t end, rlx_value *const *outputs, int count) {
  for (int i = 0; i < count; i++)
    if (outputs[i] && transform_carries(outputs[i])) RLX_TRY(value_put(&f->wanted, outputs[i], f));
  for (size_t i = end; i-- > begin;)
    if (is_wanted(f, f->t->g->nodes.data[i])) RLX_TRY(want_inputs(f, f->t->g->nodes.data[i]));
  return RLX_OK;
}

static rlx_status visit(forward *f, rlx_node *n) {
  bool touched;
  if (transform_stops(n) || !is_wanted(f, n)) return RLX_OK;
  RLX_TRY(transform_touches(n, &f->tangents, &touched));
  if (!touched) return RLX_OK;
  value_list inputs = {0}, tangents = {0};
  rlx_value **dy = arena_array(&f->t->g->memory, (size_t)n->output_count, sizeof *dy);
  rlx_value **outputs = arena_copy(&f->t->g->memory, n->outputs, (size_t)n->output_count * sizeof *outputs);
  rlx_status status = dy && outputs ? gather(f, n, &inputs, &tangents) : status_no_memory(sizeof *dy);
  if (status == RLX_OK) status = go_through(f, n, &inputs, &tangents, dy);
  if (status != RLX_OK && status != RLX_UNSUPPORTED)
    status = status_prefix(status, "tangent of node '%s' (%s)", n->name, n->op_name);
  if (status == RLX_OK) status = keep(f, n, outputs, dy);
  vector_finish(&inputs);
  vector_finish(&tangents);
  return status;
}

static rlx_status walk(forward *f, size_t begin, size_t end, rlx_value *const *outputs, int count) {
  RLX_TRY(want(f, begin, end, outputs, count));
  for (size_t i = begin; i < end; i++) RLX_TRY(visit(f, f->t->g->nodes.data[i]));
  return RLX_OK;
}

rlx_status forward_walk(transform *t, size_t begin, size_t end, const value_pairs *from, rlx_value *const *outputs,
                        int output_count, rlx_value **tangents) {
  forward f = {.t = t};
  rlx_status status = RLX_OK;
  for (int i = 0; i < from->count && status == RLX_OK; i++)
    if (from->derivatives[i]) status = value_put(&f.tangents, from->values[i], from->derivatives[i]);
  if (status == RLX_OK) status = walk(&f, begin, end, outputs, output_count);
  if (status == RLX_OK) status = transform_settle(t);
  for (int i = 0; i < output_count && status == RLX_OK; i++) tangents[i] = value_get(&f.tangents, outputs[i]);
  map_finish(&f.tangents);
  map_finish(&f.via);
  map_finish(&f.wanted);
  return status;
}
