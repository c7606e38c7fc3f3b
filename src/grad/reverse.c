/* reverse.c — reverse mode: gradients from outputs back to inputs, by the vjp of each node on the way. */
#include "grad/reverse.h"

#include <string.h>

#include "ir/shape.h"
#include "ops/_derivative.h"

typedef struct reverse {
  transform *t;
  map active; /* values that depend on what is asked for */
  map grads;  /* value → its gradient so far */
  map via;    /* value → the node whose rule gave its first gradient */
} reverse;

static rlx_status walk(reverse *r, size_t begin, size_t end);

/* A rule must give what it is asked for. */
static rlx_status check(const rlx_node *n, const rlx_value *of, const rlx_value *gradient) {
  const rlx_type *a = &of->type, *b = &gradient->type;
  char at[200], bt[200];
  bool fits = b->dtype == RLX_UNDEFINED || a->dtype == b->dtype;
  if (a->rank >= 0 && b->rank >= 0) {
    fits = fits && a->rank == b->rank;
    for (int d = 0; fits && d < a->rank; d++) fits = a->dims[d] < 0 || b->dims[d] < 0 || a->dims[d] == b->dims[d];
  }
  if (fits) return RLX_OK;
  return RLX_FAIL(INVALID, "node '%s': the vjp of %s gives %s for an input of %s", n->name, n->op_name,
                  type_text(b, bt, sizeof bt), type_text(a, at, sizeof at));
}

static rlx_status accumulate(reverse *r, rlx_value *v, rlx_value *gradient, rlx_node *from) {
  rlx_value *before = value_get(&r->grads, v);
  if (!before && from) RLX_TRY(value_put(&r->via, v, from));
  if (before) gradient = rlx_graph_op(r->t->g, "onnx.Add", NULL, 0, (rlx_value *[]){before, gradient}, 2);
  if (!gradient) return rlx_graph_status(r->t->g);
  return value_put(&r->grads, v, gradient);
}

/* ---- rules -------------------------------------------------------------------------------- */

static rlx_status take(reverse *r, rlx_node *n, rlx_value *input, rlx_value *gradient) {
  if (!gradient || !value_get(&r->active, input)) return RLX_OK;
  if (gradient->missing)
    return RLX_FAIL(UNSUPPORTED, "node '%s' (%s) has no gradient of '%s': %s", n->name, n->op_name, input->name,
                    gradient->missing);
  RLX_TRY(check(n, input, gradient));
  return accumulate(r, input, gradient, n);
}

static rlx_status call_vjp(reverse *r, rlx_node *n, rlx_value *const *dy) {
  rlx_graph *g = r->t->g;
  value_list captures = {0};
  rlx_status status = node_captures(n, &captures);
  size_t inputs = (size_t)n->input_count;
  rlx_value **dx = mem_array(inputs + captures.count, sizeof *dx);
  if (!dx) status = status_no_memory(inputs);
  if (status == RLX_OK) {
    status = n->op->op.vjp(g, n, dy, dx);
    if (status == RLX_OK) status = transform_settle(r->t);
    if (status != RLX_OK) status = status_prefix(status, "gradient of node '%s' (%s)", n->name, n->op_name);
  }
  for (size_t k = 0; k < inputs + captures.count && status == RLX_OK; k++)
    if (k >= inputs || n->inputs[k]) status = take(r, n, k < inputs ? n->inputs[k] : captures.data[k - inputs], dx[k]);
  mem_free(dx);
  vector_finish(&captures);
  return status;
}

static rlx_status follow(reverse *r, rlx_node *n, rlx_value *const *dy) {
  rlx_graph *g = r->t->g;
  rlx_value **outputs = arena_array(&g->memory, (size_t)n->output_count, sizeof *outputs);
  size_t begin = g->nodes.count;
  if (!outputs) return status_no_memory(sizeof *outputs);
  RLX_TRY(transform_open(r->t, n, outputs));
  size_t end = g->nodes.count;
  RLX_TRY(transform_mark(g, begin, end, &r->active));
  for (int i = 0; i < n->output_count; i++)
    if (dy[i] && outputs[i] && value_get(&r->active, outputs[i])) RLX_TRY(accumulate(r, outputs[i], dy[i], n));
  rlx_status status = walk(r, begin, end);
  transform_close(r->t);
  return status;
}

static rlx_status go_through(reverse *r, rlx_node *n, rlx_value *const *dy, const rlx_value *reached) {
  if (n->op && n->op->op.vjp) return call_vjp(r, n, dy);
  if (n->op && transform_rewriting(n)) return follow(r, n, dy);
  return transform_no_rule(n, reached, &r->via, "reverse");
}

static rlx_status visit(reverse *r, rlx_node *n) {
  const rlx_value *reached = NULL;
  bool touched;
  for (int k = 0; k < n->output_count && !reached; k++)
    if (value_get(&r->grads, n->outputs[k])) reached = n->outputs[k];
  if (!reached || transform_stops(n)) return RLX_OK;
  RLX_TRY(transform_touches(n, &r->active, &touched));
  if (!touched) return RLX_OK;
  rlx_value **dy = arena_array(&r->t->g->memory, (size_t)n->output_count, sizeof *dy);
  if (!dy) return status_no_memory(sizeof *dy);
  for (int k = 0; k < n->output_count; k++) dy[k] = value_get(&r->grads, n->outputs[k]);
  return go_through(r, n, dy, reached);
}

static rlx_status walk(reverse *r, size_t begin, size_t end) {
  for (size_t i = end; i-- > begin;) RLX_TRY(visit(r, r->t->g->nodes.data[i]));
  return RLX_OK;
}

static rlx_status run(reverse *r, size_t begin, size_t end, const value_pairs *from, rlx_value *const *wrt, int count) {
  for (int i = 0; i < count; i++) RLX_TRY(value_put(&r->active, wrt[i], wrt[i]));
  RLX_TRY(transform_mark(r->t->g, begin, end, &r->active));
  for (int i = 0; i < from->count; i++)
    if (from->derivatives[i] && value_get(&r->active, from->values[i]))
      RLX_TRY(accumulate(r, from->values[i], from->derivatives[i], NULL));
  RLX_TRY(walk(r, begin, end));
  return transform_settle(r->t);
}

rlx_status reverse_walk(transform *t, size_t begin, size_t end, const value_pairs *from, rlx_value *const *wrt,
                        int wrt_count, rlx_value **gradients) {
  reverse r = {.t = t};
  rlx_status status = run(&r, begin, end, from, wrt, wrt_count);
  for (int i = 0; i < wrt_count && status == RLX_OK; i++) gradients[i] = value_get(&r.grads, wrt[i]);
  map_finish(&r.active);
  map_finish(&r.grads);
  map_finish(&r.via);
  return status;
}
