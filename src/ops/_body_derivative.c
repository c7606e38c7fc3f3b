/* _body_derivative.c — derivatives of nodes that run subgraphs: bodies are copied and differentiated. */
#include "ops/_body_derivative.h"

#include <string.h>

#include "ir/graph.h"
#include "ops/_derivative.h"

static bool differentiable(const rlx_value *v) {
  return v && v->type.kind == RLX_KIND_TENSOR && (RLX_SET_FLOATS >> v->type.dtype & 1);
}

/* A body is run again: what it draws or does would differ or happen twice. */
static const rlx_node *unrepeatable(const rlx_graph *g) {
  for (size_t i = 0; i < g->nodes.count; i++) {
    const rlx_node *n = g->nodes.data[i];
    if (n->op && (n->op->op.traits & (RLX_RANDOM | RLX_SIDE_EFFECT))) return n;
    for (int k = 0; node_subgraph(n, k); k++) {
      const rlx_node *found = unrepeatable(node_subgraph(n, k));
      if (found) return found;
    }
  }
  return NULL;
}

static rlx_status check_repeatable(rlx_graph *g, const rlx_graph *body) {
  const rlx_node *n = unrepeatable(body);
  if (!n) return RLX_OK;
  return rlx_graph_fail(g, RLX_UNSUPPORTED, "its body would be run again for it, and node '%s' (%s) in it %s", n->name,
                        n->op_name, n->op->op.traits & RLX_RANDOM ? "draws random numbers" : "has side effects");
}

/* Failures of the graph of a body are those of the graph around. */
static rlx_status pass_on(rlx_graph *g, rlx_status status) {
  return status == RLX_OK ? RLX_OK : rlx_graph_fail(g, status, "%s", rlx_error_message());
}

/* A copy of a body that is being rewritten: the values its inputs and outputs were. */
typedef struct body_copy {
  rlx_graph *graph;
  rlx_value **inputs, **outputs;
  int input_count, output_count;
} body_copy;

/* The copy has no outputs, and no inputs but what is given to copy_input. */
static rlx_status copy_body(rlx_graph *g, const rlx_graph *body, body_copy *c) {
  arena *m = &g->memory;
  RLX_TRY(pass_on(g, graph_clone_body(body, g, &c->graph)));
  rlx_graph *to = c->graph;
  c->input_count = (int)to->inputs.count;
  c->output_count = (int)to->outputs.count;
  c->inputs = arena_copy(m, to->inputs.data, to->inputs.count * sizeof *c->inputs);
  c->outputs = arena_array(m, to->outputs.count, sizeof *c->outputs);
  if (!c->inputs || !c->outputs) return pass_on(g, status_no_memory(1));
  for (int i = 0; i < c->output_count; i++) {
    c->outputs[i] = to->outputs.data[i].value;
    c->outputs[i]->is_output = false;
  }
  to->inputs.count = to->outputs.count = 0;
  return RLX_OK;
}

/* An input of the body before becomes one again, at the end of the list. */
static rlx_status copy_input(body_copy *c, rlx_value *v) {
  return vector_push(&c->graph->inputs, v) ? RLX_OK : status_no_memory(sizeof v);
}

static void add_output(rlx_graph *g, rlx_value *v) {
  rlx_graph_output(g, v ? rlx_graph_op(g, "onnx.Identity", NULL, 0, &v, 1) : NULL, NULL);
}

static rlx_value *or_zeros(rlx_graph *g, rlx_value *v, const rlx_value *like) {
  return v ? v : derivative_filled(g, like, 0);
}

/* ---- branches ----------------------------------------------------------------------------- */

static rlx_node *add_branches(rlx_graph *g, const rlx_node *n, rlx_graph *const branches[2], int outputs) {
  rlx_attr attrs[2] = {{.name = "then_branch", .kind = RLX_ATTR_GRAPH, .graph = branches[0]},
                       {.name = "else_branch", .kind = RLX_ATTR_GRAPH, .graph = branches[1]}};
  rlx_node_desc d = {sizeof d, "onnx.If", NULL, n->inputs, 1, attrs, 2, outputs, NULL};
  return rlx_graph_node(g, &d);
}

/* The branch gives the gradients of `wrt` instead of its outputs. */
static rlx_status branch_gradients(rlx_graph *g, const rlx_graph *branch, rlx_value *const *dy, const value_list *wrt,
                                   rlx_graph **out) {
  body_copy c = {0};
  RLX_TRY(check_repeatable(g, branch));
  RLX_TRY(copy_body(g, branch, &c));
  rlx_value **found = arena_array(&g->memory, wrt->count, sizeof *found);
  if (!found) return pass_on(g, status_no_memory(1));
  RLX_TRY(pass_on(g, rlx_vjp(c.graph, c.outputs, dy, c.output_count, wrt->data, (int)wrt->count, found)));
  for (size_t i = 0; i < wrt->count; i++) add_output(c.graph, or_zeros(c.graph, found[i], wrt->data[i]));
  *out = c.graph;
  return pass_on(g, rlx_graph_finish(c.graph));
}

static rlx_status branch_vjp(rlx_graph *g, const rlx_node *n, rlx_value *const *dy, rlx_value **dx,
                             const value_list *captures, value_list *wrt) {
  rlx_graph *branches[2];
  for (size_t i = 0; i < captures->count; i++)
    if (differentiable(captures->data[i]) && !vector_push(wrt, captures->data[i]))
      return pass_on(g, status_no_memory(1));
  if (!wrt->count) return RLX_OK;
  for (int i = 0; i < 2; i++) RLX_TRY(branch_gradients(g, node_subgraph(n, i), dy, wrt, &branches[i]));
  rlx_node *made = add_branches(g, n, branches, (int)wrt->count);
  int at = 0;
  for (size_t i = 0; i < captures->count && made; i++)
    if (differentiable(captures->data[i])) dx[(size_t)n->input_count + i] = made->outputs[at++];
  return rlx_graph_status(g);
}

rlx_status body_branch_vjp(rlx_graph *g, const rlx_node *n, rlx_value *const *dy, rlx_value **dx) {
  value_list captures = {0}, wrt = {0};
  rlx_status status = pass_on(g, node_captures(n, &captures));
  if (status == RLX_OK) status = branch_vjp(g, n, dy, dx, &captures, &wrt);
  vector_finish(&captures);
  vector_finish(&wrt);
  return status;
}

/* The branch gives the tangents of its float outputs. */
static rlx_status branch_tangents(rlx_graph *g, const rlx_node *n, const rlx_graph *branch, const value_list *captures,
                                  rlx_value *const *tangents, rlx_graph **out) {
  body_copy c = {0};
  RLX_TRY(check_repeatable(g, branch));
  RLX_TRY(copy_body(g, branch, &c));
  rlx_value **found = arena_array(&g->memory, (size_t)c.output_count, sizeof *found);
  if (!found) return pass_on(g, status_no_memory(1));
  RLX_TRY(
      pass_on(g, rlx_jvp(c.graph, captures->data, tangents, (int)captures->count, c.outputs, c.output_count, found)));
  for (int i = 0; i < c.output_count; i++)
    if (differentiable(n->outputs[i])) add_output(c.graph, or_zeros(c.graph, found[i], c.outputs[i]));
  *out = c.graph;
  return pass_on(g, rlx_graph_finish(c.graph));
}

/* Captures that have tangents, and these. */
static rlx_status moving(const rlx_node *n, rlx_value *const *dx, value_list *values, value_list *tangents) {
  value_list captures = {0};
  rlx_status status = node_captures(n, &captures);
  for (size_t i = 0; i < captures.count && status == RLX_OK; i++) {
    rlx_value *t = dx[(size_t)n->input_count + i];
    if (t && !(vector_push(values, captures.data[i]) && vector_push(tangents, t))) status = status_no_memory(1);
  }
  vector_finish(&captures);
  return status;
}

rlx_status body_branch_jvp(rlx_graph *g, const rlx_node *n, rlx_value *const *dx, rlx_value **dy) {
  value_list values = {0}, tangents = {0};
  rlx_graph *branches[2] = {NULL, NULL};
  int count = 0, at = 0;
  for (int i = 0; i < n->output_count; i++) count += differentiable(n->outputs[i]);
  rlx_status status = pass_on(g, moving(n, dx, &values, &tangents));
  for (int i = 0; i < 2 && status == RLX_OK; i++)
    status = branch_tangents(g, n, node_subgraph(n, i), &values, tangents.data, &branches[i]);
  rlx_node *made = status == RLX_OK && count ? add_branches(g, n, branches, count) : NULL;
  for (int i = 0; i < n->output_count && made; i++)
    if (differentiable(n->outputs[i])) dy[i] = made->outputs[at++];
  vector_finish(&values);
  vector_finish(&tangents);
  return status == RLX_OK ? rlx_graph_status(g) : status;
}

/* ---- loops: the node again, with more outputs or states ----------------------------------- */

typedef VECTOR(int64_t) int_vector;

/* Scan's lists of a node being made. */
typedef struct scan_lists {
  int_vector input_axes, input_directions, output_axes, output_directions;
  bool failed;
} scan_lists;

static int64_t entry(rlx_ints list, int i) { return i < list.count ? list.data[i] : 0; }

static void put_input(scan_lists *s, int64_t axis, int64_t direction) {
  s->failed |= !vector_push(&s->input_axes, axis) || !vector_push(&s->input_directions, direction);
}

static void put_output(scan_lists *s, int64_t axis, int64_t direction) {
  s->failed |= !vector_push(&s->output_axes, axis) || !vector_push(&s->output_directions, direction);
}

static void lists_finish(scan_lists *s) {
  vector_finish(&s->input_axes);
  vector_finish(&s->input_directions);
  vector_finish(&s->output_axes);
  vector_finish(&s->output_directions);
}

static rlx_attr ints(const char *name, const int_vector *v) {
  return (rlx_attr){.name = name, .kind = RLX_ATTR_INTS, .ints = v->data, .count = v->count};
}

static rlx_node *add_scan(rlx_graph *g, rlx_graph *body, const scan_lists *s, const value_list *inputs) {
  if (s->failed) {
    rlx_graph_fail(g, RLX_OUT_OF_MEMORY, "out of memory");
    return NULL;
  }
  rlx_attr attrs[6] = {{.name = "body", .kind = RLX_ATTR_GRAPH, .graph = body},
                       RLX_ATTR_I("num_scan_inputs", (int64_t)s->input_axes.count)};
  int count = 2;
  attrs[count++] = ints("scan_input_axes", &s->input_axes);
  attrs[count++] = ints("scan_input_directions", &s->input_directions);
  if (s->output_axes.count) {
    attrs[count++] = ints("scan_output_axes", &s->output_axes);
    attrs[count++] = ints("scan_output_directions", &s->output_directions);
  }
  rlx_node_desc d = {
      sizeof d, "onnx.Scan", NULL, inputs->data, (int)inputs->count, attrs, count, (int)body->outputs.count, NULL};
  return rlx_graph_node(g, &d);
}

/* The node's own kind again, over another body. */
static rlx_node *add_again(rlx_graph *g, const body_loop *l, rlx_graph *body, const scan_lists *s,
                           const value_list *inputs) {
  if (l->scanned) return add_scan(g, body, s, inputs);
  rlx_attr attr = {.name = "body", .kind = RLX_ATTR_GRAPH, .graph = body};
  rlx_node_desc d = {sizeof d,
                     l->node->op_name,
                     NULL,
                     inputs->data,
                     (int)inputs->count,
                     &attr,
                     1,
                     (int)body->outputs.count - l->first_output,
                     NULL};
  return rlx_graph_node(g, &d);
}

static bool state_moves(const body_loop *l, int i) { return differentiable(l->body->inputs.data[l->first_input + i]); }

static rlx_status push(value_list *list, rlx_value *v) {
  return vector_push(list, v) ? RLX_OK : status_no_memory(sizeof v);
}

/* ---- loops, reverse ----------------------------------------------------------------------- */

/* One reverse derivative of a loop. */
typedef struct loop_reverse {
  rlx_graph *g;
  const body_loop *l;
  rlx_value *const *dy;
  value_list captures;   /* floats */
  body_copy back;        /* its inputs and outputs are those of the body */
  rlx_value **gradients; /* found: of states, captures and slices */
  bool *taped;           /* per state: its value is needed */
  value_list tapes;      /* of the new forward node: the iteration (Loop), states that are taped */
  rlx_node *forward;
} loop_reverse;

static rlx_value *output_gradient(const loop_reverse *r, int i) {
  return i < r->l->node->output_count ? r->dy[i] : NULL;
}

/* Outputs of the copied body with their gradients, and what these are wanted for, in one call. */
static rlx_status differentiate(loop_reverse *r) {
  const body_loop *l = r->l;
  body_copy *b = &r->back;
  value_list outputs = {0}, seeds = {0}, wrt = {0};
  rlx_status status = RLX_OK;
  for (int i = 0; i < l->states + l->stacked && status == RLX_OK; i++) {
    rlx_value *v = b->outputs[l->first_output + i];
    bool wanted = i < l->states ? state_moves(l, i) : output_gradient(r, i) != NULL;
    if (!wanted || !differentiable(v)) continue;
    rlx_type type = v->type;
    rlx_value *seed = rlx_graph_input(b->graph, NULL, &type);
    status = seed ? push(&outputs, v) : rlx_graph_status(b->graph);
    if (status == RLX_OK) status = push(&seeds, seed);
  }
  for (int i = 0; i < l->states + l->scanned && status == RLX_OK; i++)
    if (differentiable(b->inputs[l->first_input + i])) status = push(&wrt, b->inputs[l->first_input + i]);
  for (size_t i = 0; i < r->captures.count && status == RLX_OK; i++) status = push(&wrt, r->captures.data[i]);
  r->gradients = arena_array(&r->g->memory, wrt.count, sizeof *r->gradients);
  if (status == RLX_OK && !r->gradients) status = status_no_memory(wrt.count);
  if (status == RLX_OK)
    status = rlx_vjp(b->graph, outputs.data, seeds.data, (int)outputs.count, wrt.data, (int)wrt.count, r->gradients);
  vector_finish(&outputs);
  vector_finish(&seeds);
  vector_finish(&wrt);
  return pass_on(r->g, status);
}

/* Inputs in the order of Scan: gradients of states, sums for captures, then what is sliced: the iteration, (the tape,
 * put in later,) the loop's own slices, gradients of what it stacked. */
static rlx_status order_inputs(loop_reverse *r, size_t state_seeds, rlx_value **sums) {
  const body_loop *l = r->l;
  body_copy *b = &r->back;
  rlx_graph *to = b->graph;
  value_list seeds = {0};
  rlx_status status = RLX_OK;
  for (size_t i = 0; i < to->inputs.count && status == RLX_OK; i++) status = push(&seeds, to->inputs.data[i]);
  to->inputs.count = 0;
  for (size_t i = 0; i < state_seeds && status == RLX_OK; i++) status = copy_input(b, seeds.data[i]);
  for (size_t i = 0; i < r->captures.count && status == RLX_OK; i++) {
    rlx_type type = r->captures.data[i]->type;
    sums[i] = rlx_graph_input(to, NULL, &type);
    if (!sums[i]) status = rlx_graph_status(to);
  }
  if (!l->scanned && status == RLX_OK) status = copy_input(b, b->inputs[0]);
  for (int i = 0; i < l->scanned && status == RLX_OK; i++) status = copy_input(b, b->inputs[l->states + i]);
  for (size_t i = state_seeds; i < seeds.count && status == RLX_OK; i++) status = copy_input(b, seeds.data[i]);
  vector_finish(&seeds);
  return pass_on(r->g, status);
}

static void add_outputs(loop_reverse *r, rlx_value *const *sums) {
  const body_loop *l = r->l;
  body_copy *b = &r->back;
  rlx_graph *to = b->graph;
  int at = 0, slices = 0;
  for (int i = 0; i < l->states; i++) {
    rlx_value *v = b->inputs[l->first_input + i];
    if (differentiable(v)) add_output(to, or_zeros(to, r->gradients[at++], v));
  }
  slices = at;
  for (int i = 0; i < l->scanned; i++) at += differentiable(b->inputs[l->states + i]);
  for (size_t i = 0; i < r->captures.count; i++, at++)
    add_output(to, r->gradients[at]
                       ? rlx_graph_op(to, "onnx.Add", NULL, 0, (rlx_value *[]){sums[i], r->gradients[at]}, 2)
                       : sums[i]);
  for (int i = 0; i < l->scanned; i++) {
    rlx_value *v = b->inputs[l->states + i];
    if (differentiable(v)) add_output(to, or_zeros(to, r->gradients[slices++], v));
  }
}

/* Which values of states the gradients need; a condition that a loop's body is given is true while it runs. */
static rlx_status find_taped(loop_reverse *r) {
  const body_loop *l = r->l;
  body_copy *b = &r->back;
  arena scratch = {0};
  uint32_t *uses = graph_use_counts(b->graph, &scratch);
  rlx_status status = uses ? RLX_OK : status_no_memory(1);
  for (int i = 0; i < l->states && status == RLX_OK; i++) {
    const rlx_value *v = b->inputs[l->first_input + i];
    r->taped[i] = uses[v->id] > 0;
    if (r->taped[i] && v->type.kind != RLX_KIND_TENSOR)
      status = RLX_FAIL(UNSUPPORTED, "the carried value '%s' is no tensor", v->name);
  }
  arena_finish(&scratch);
  if (l->scanned || status != RLX_OK) return pass_on(r->g, status);
  rlx_value *condition = b->inputs[1];
  rlx_tensor *t;
  RLX_TRY(pass_on(r->g, rlx_tensor_create(RLX_BOOL, condition->type.rank == 1, (int64_t[]){1}, &t)));
  *(uint8_t *)rlx_tensor_data(t) = 1;
  condition->constant = t;
  condition->is_input = false;
  return RLX_OK;
}

/* Takes away what the copied body computes and no output needs, so that it is seen which states are needed. */
static rlx_status drop_unused(rlx_graph *g) {
  arena scratch = {0};
  graph_number(g);
  bool *keep = arena_array(&scratch, g->nodes.count, sizeof *keep);
  uint32_t *uses = graph_use_counts(g, &scratch);
  rlx_status status = keep && uses ? RLX_OK : status_no_memory(g->nodes.count);
  for (size_t i = g->nodes.count; i-- > 0 && status == RLX_OK;) {
    rlx_node *n = g->nodes.data[i];
    for (int k = 0; k < n->output_count; k++) keep[i] |= uses[n->outputs[k]->id] > 0;
    for (int k = 0; k < n->input_count && !keep[i]; k++)
      if (n->inputs[k] && n->inputs[k]->graph == g) uses[n->inputs[k]->id]--;
    if (!keep[i]) node_drop_subgraphs(n);
  }
  if (status == RLX_OK) graph_remove_nodes(g, keep);
  arena_finish(&scratch);
  graph_number(g);
  return status;
}

/* The loop once more, stacking what its iterations begin with. */
static rlx_status run_with_tape(loop_reverse *r) {
  const body_loop *l = r->l;
  rlx_node *n = (rlx_node *)(uintptr_t)l->node;
  body_copy c = {0};
  scan_lists lists = {0};
  value_list inputs = {0};
  RLX_TRY(copy_body(r->g, l->body, &c));
  rlx_graph *to = c.graph;
  rlx_status status = RLX_OK;
  for (int i = 0; i < c.input_count && status == RLX_OK; i++) status = copy_input(&c, c.inputs[i]);
  for (int i = 0; i < c.output_count; i++) add_output(to, c.outputs[i]);
  if (!l->scanned) add_output(to, c.inputs[0]);
  for (int i = 0; i < l->states; i++)
    if (r->taped[i]) add_output(to, c.inputs[l->first_input + i]);
  for (int i = 0; i < l->scanned; i++) put_input(&lists, entry(l->input_axes, i), entry(l->input_directions, i));
  for (int i = 0; i < l->stacked; i++) put_output(&lists, entry(l->output_axes, i), entry(l->output_directions, i));
  for (size_t i = (size_t)(l->first_output + l->states + l->stacked); i < to->outputs.count; i++)
    put_output(&lists, 0, 0);
  for (int i = 0; i < n->input_count && status == RLX_OK; i++) status = push(&inputs, n->inputs[i]);
  if (status == RLX_OK) status = rlx_graph_finish(to);
  if (status == RLX_OK) {
    r->forward = add_again(r->g, l, to, &lists, &inputs);
    if (!r->forward) status = rlx_graph_status(r->g);
  }
  lists_finish(&lists);
  vector_finish(&inputs);
  for (int i = l->states + l->stacked; status == RLX_OK && i < r->forward->output_count; i++)
    status = push(&r->tapes, r->forward->outputs[i]);
  if (status == RLX_OK) status = node_retire(n, r->forward->outputs);
  return pass_on(r->g, status);
}

/* Arguments of the scan that goes back, and its lists: whatever was read or stacked is read the other way. */
static rlx_status arguments(loop_reverse *r, value_list *in, scan_lists *lists) {
  const body_loop *l = r->l;
  rlx_graph *g = r->g;
  for (int i = 0; i < l->states; i++)
    if (state_moves(l, i)) RLX_TRY(push(in, or_zeros(g, output_gradient(r, i), r->forward->outputs[i])));
  for (size_t i = 0; i < r->captures.count; i++) RLX_TRY(push(in, derivative_filled(g, r->captures.data[i], 0)));
  for (size_t i = 0; i < r->tapes.count; i++) {
    RLX_TRY(push(in, r->tapes.data[i]));
    put_input(lists, 0, 1);
  }
  for (int i = 0; i < l->scanned; i++) {
    RLX_TRY(push(in, l->node->inputs[l->states + i]));
    put_input(lists, entry(l->input_axes, i), !entry(l->input_directions, i));
    if (differentiable(l->body->inputs.data[l->states + i]))
      put_output(lists, entry(l->input_axes, i), !entry(l->input_directions, i));
  }
  for (int i = 0; i < l->stacked; i++) {
    rlx_value *dy = output_gradient(r, l->states + i);
    if (!dy || !differentiable(l->body->outputs.data[l->first_output + l->states + i].value)) continue;
    RLX_TRY(push(in, dy));
    put_input(lists, entry(l->output_axes, i), !entry(l->output_directions, i));
  }
  return rlx_graph_status(g);
}

static void hand_out(loop_reverse *r, const rlx_node *back, const value_list *all, rlx_value **dx) {
  const body_loop *l = r->l;
  int at = 0;
  for (int i = 0; i < l->states; i++)
    if (state_moves(l, i)) dx[l->first_argument + i] = back->outputs[at++];
  for (size_t i = 0; i < all->count; i++)
    if (differentiable(all->data[i])) dx[(size_t)l->node->input_count + i] = back->outputs[at++];
  for (int i = 0; i < l->scanned; i++)
    if (differentiable(l->body->inputs.data[l->states + i]))
      dx[l->first_argument + l->states + i] = back->outputs[at++];
}

/* The body of the scan that goes back. */
static rlx_status make_back(loop_reverse *r) {
  const body_loop *l = r->l;
  rlx_value **sums = arena_array(&r->g->memory, r->captures.count, sizeof *sums);
  size_t state_seeds = 0;
  if (!sums) return pass_on(r->g, status_no_memory(1));
  for (int i = 0; i < l->states; i++) state_seeds += state_moves(l, i);
  RLX_TRY(copy_body(r->g, l->body, &r->back));
  RLX_TRY(differentiate(r));
  RLX_TRY(order_inputs(r, state_seeds, sums));
  add_outputs(r, sums);
  RLX_TRY(pass_on(r->g, rlx_graph_finish(r->back.graph)));
  RLX_TRY(pass_on(r->g, drop_unused(r->back.graph)));
  RLX_TRY(find_taped(r));
  size_t at = state_seeds + r->captures.count + !l->scanned; /* the tape comes behind these */
  rlx_graph *to = r->back.graph;
  for (int i = 0; i < l->states; i++) {
    if (!r->taped[i]) continue;
    if (!vector_push(&to->inputs, NULL)) return pass_on(r->g, status_no_memory(1));
    memmove(to->inputs.data + at + 1, to->inputs.data + at, (to->inputs.count - 1 - at) * sizeof *to->inputs.data);
    to->inputs.data[at++] = r->back.inputs[l->first_input + i];
  }
  return RLX_OK;
}

static rlx_status loop_vjp(loop_reverse *r, const value_list *all, rlx_value **dx) {
  rlx_graph *g = r->g;
  value_list in = {0};
  scan_lists lists = {0};
  RLX_TRY(check_repeatable(g, r->l->body));
  for (size_t i = 0; i < all->count; i++)
    if (differentiable(all->data[i])) RLX_TRY(pass_on(g, push(&r->captures, all->data[i])));
  r->taped = arena_array(&g->memory, (size_t)r->l->states, sizeof *r->taped);
  if (!r->taped) return pass_on(g, status_no_memory(1));
  RLX_TRY(make_back(r));
  RLX_TRY(run_with_tape(r));
  rlx_status status = pass_on(g, arguments(r, &in, &lists));
  const rlx_node *back = status == RLX_OK ? add_scan(g, r->back.graph, &lists, &in) : NULL;
  if (back) hand_out(r, back, all, dx);
  vector_finish(&in);
  lists_finish(&lists);
  return status == RLX_OK ? rlx_graph_status(g) : status;
}

rlx_status body_loop_vjp(rlx_graph *g, const body_loop *l, rlx_value *const *dy, rlx_value **dx) {
  loop_reverse r = {.g = g, .l = l, .dy = dy};
  value_list all = {0};
  rlx_status status = pass_on(g, node_captures(l->node, &all));
  if (status == RLX_OK) status = loop_vjp(&r, &all, dx);
  vector_finish(&all);
  vector_finish(&r.captures);
  vector_finish(&r.tapes);
  return status;
}

/* ---- loops, forward ----------------------------------------------------------------------- */

/* One forward derivative of a loop: the body with tangents beside its values. */
typedef struct loop_forward {
  rlx_graph *g;
  const body_loop *l;
  rlx_value *const *dx;
  body_copy c;
  value_list inputs, tangents; /* of the body's copy, and captures */
  value_list arguments;        /* of the new node */
  scan_lists lists;
} loop_forward;

static rlx_status add_tangent(loop_forward *f, rlx_value *v) {
  rlx_type type = v->type;
  rlx_value *t = rlx_graph_input(f->c.graph, NULL, &type);
  if (!t) return rlx_graph_status(f->c.graph);
  RLX_TRY(push(&f->inputs, v));
  return push(&f->tangents, t);
}

/* Inputs of the body and arguments of the node: first all carried, then all sliced. */
static rlx_status forward_inputs(loop_forward *f) {
  const body_loop *l = f->l;
  const rlx_node *n = l->node;
  body_copy *c = &f->c;
  for (int i = 0; i < l->first_input; i++) RLX_TRY(copy_input(c, c->inputs[i]));
  for (int i = 0; i < l->first_argument; i++) RLX_TRY(push(&f->arguments, n->inputs[i]));
  for (int i = 0; i < l->states; i++) {
    RLX_TRY(copy_input(c, c->inputs[l->first_input + i]));
    RLX_TRY(push(&f->arguments, n->inputs[l->first_argument + i]));
  }
  for (int i = 0; i < l->states; i++) {
    if (!state_moves(l, i)) continue;
    int at = l->first_argument + i;
    RLX_TRY(add_tangent(f, c->inputs[l->first_input + i]));
    RLX_TRY(push(&f->arguments, or_zeros(f->g, f->dx[at], n->inputs[at])));
  }
  for (int i = 0; i < l->scanned; i++) {
    RLX_TRY(copy_input(c, c->inputs[l->states + i]));
    RLX_TRY(push(&f->arguments, n->inputs[l->states + i]));
    put_input(&f->lists, entry(l->input_axes, i), entry(l->input_directions, i));
  }
  for (int i = 0; i < l->scanned; i++) {
    if (!f->dx[l->states + i] || !differentiable(c->inputs[l->states + i])) continue;
    RLX_TRY(add_tangent(f, c->inputs[l->states + i]));
    RLX_TRY(push(&f->arguments, f->dx[l->states + i]));
    put_input(&f->lists, entry(l->input_axes, i), entry(l->input_directions, i));
  }
  return moving(n, f->dx, &f->inputs, &f->tangents);
}

/* The tangents of outputs [begin, end) that are floats; those of states are wanted even if zero. */
static void tangent_outputs(loop_forward *f, rlx_value *const *found, int begin, int end) {
  for (int i = begin; i < end; i++) {
    rlx_value *v = f->c.outputs[f->l->first_output + i];
    bool wanted = i < f->l->states ? state_moves(f->l, i) : differentiable(v);
    if (wanted) add_output(f->c.graph, or_zeros(f->c.graph, found[i], v));
  }
}

static rlx_status forward_outputs(loop_forward *f) {
  const body_loop *l = f->l;
  body_copy *c = &f->c;
  int count = l->states + l->stacked;
  rlx_value **found = arena_array(&f->g->memory, (size_t)count, sizeof *found);
  if (!found) return status_no_memory(1);
  RLX_TRY(rlx_jvp(c->graph, f->inputs.data, f->tangents.data, (int)f->inputs.count, c->outputs + l->first_output, count,
                  found));
  for (int i = 0; i < l->first_output + l->states; i++) add_output(c->graph, c->outputs[i]);
  tangent_outputs(f, found, 0, l->states);
  for (int i = 0; i < l->stacked; i++) {
    add_output(c->graph, c->outputs[l->first_output + l->states + i]);
    put_output(&f->lists, entry(l->output_axes, i), entry(l->output_directions, i));
  }
  tangent_outputs(f, found, l->states, count);
  for (int i = 0; i < l->stacked; i++)
    if (differentiable(c->outputs[l->first_output + l->states + i]))
      put_output(&f->lists, entry(l->output_axes, i), entry(l->output_directions, i));
  return rlx_graph_finish(c->graph);
}

static rlx_status loop_jvp(loop_forward *f, rlx_value **dy) {
  const body_loop *l = f->l;
  rlx_node *n = (rlx_node *)(uintptr_t)l->node;
  int states = 0, at;
  RLX_TRY(copy_body(f->g, l->body, &f->c));
  RLX_TRY(pass_on(f->g, forward_inputs(f)));
  RLX_TRY(pass_on(f->g, forward_outputs(f)));
  rlx_node *made = add_again(f->g, l, f->c.graph, &f->lists, &f->arguments);
  rlx_value **plain = arena_array(&f->g->memory, (size_t)(l->states + l->stacked + 1), sizeof *plain);
  if (!made || !plain) return made ? pass_on(f->g, status_no_memory(1)) : rlx_graph_status(f->g);
  for (int i = 0; i < l->states; i++) plain[i] = made->outputs[i];
  at = l->states;
  for (int i = 0; i < l->states; i++) {
    if (!state_moves(l, i)) continue;
    if (i < n->output_count) dy[i] = made->outputs[at + states];
    states++;
  }
  at += states;
  for (int i = 0; i < l->stacked; i++) plain[l->states + i] = made->outputs[at++];
  for (int i = 0; i < l->stacked; i++) {
    if (!differentiable(f->c.outputs[l->first_output + l->states + i])) continue;
    if (l->states + i < n->output_count) dy[l->states + i] = made->outputs[at];
    at++;
  }
  return pass_on(f->g, node_retire(n, plain));
}

rlx_status body_loop_jvp(rlx_graph *g, const body_loop *l, rlx_value *const *dx, rlx_value **dy) {
  loop_forward f = {.g = g, .l = l, .dx = dx};
  rlx_status status = loop_jvp(&f, dy);
  vector_finish(&f.inputs);
  vector_finish(&f.tangents);
  vector_finish(&f.arguments);
  lists_finish(&f.lists);
  return status;
}
