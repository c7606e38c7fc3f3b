/* layout.c — pass layout: lets chains of kernels work in the memory layouts they like, with reorders where such a chain
 * begins and ends.
 *
 * Kernels say what they would like (rlx_kernel.layouts); one without that hook takes row-major. First every component
 * of kernels that care agrees on one layout, the one that the fewest bytes refuse. Then every group of values that
 * kernels without a wish of their own join (RLX_SAME_LAYOUT) gets the layout that needs the fewest bytes reordered.
 * A value is stored as its producer gives it; graph inputs, outputs, constants and values that subgraphs use are
 * row-major. */
#include "ir/layout.h"

#include <string.h>

#include "pass/pass.h"

/* What a node takes and gives; ids or RLX_SAME_LAYOUT. In the pass's memory. */
typedef struct ports {
  uint32_t *in, *out;
  bool hook; /* the kernel's hook is asked */
} ports;

/* A reorder that the pass has made. */
typedef struct copy {
  rlx_value *from, *to;
} copy;

typedef struct layouter {
  rlx_graph *g;
  const target *t;
  arena memory;
  ports *nodes;                   /* by node id */
  uint32_t *component;            /* by value id: union-find, kernels that care */
  uint32_t *group;                /* by value id: union-find, values of one layout */
  bool *fixed;                    /* by value id: row-major for everybody */
  size_t node_count, value_count; /* before the pass adds any */
  VECTOR(copy) copies;
} layouter;

enum { LAYOUT_COUNT = LAYOUT_CHANNELS_LAST + 1 };

static uint32_t find(uint32_t *set, uint32_t i) {
  while (set[i] != i) i = set[i] = set[set[i]];
  return i;
}

static void join(uint32_t *set, uint32_t a, uint32_t b) { set[find(set, a)] = find(set, b); }

static bool local(const layouter *l, const rlx_value *v) { return v && v->graph == l->g && v->id < l->value_count; }

/* The node of the graph that gives v, or NULL. */
static const rlx_node *producer(const layouter *l, const rlx_value *v) {
  const rlx_node *n = v->producer;
  return n && n->id < l->node_count && l->g->nodes.data[n->id] == n ? n : NULL;
}

/* Bytes with unknown dims taken for 1: only to weigh one choice against another. */
static int64_t weight(const rlx_value *v) {
  int64_t n = 1;
  for (int i = 0; i < v->type.rank; i++) {
    if (v->type.dims[i] > 0 && __builtin_mul_overflow(n, v->type.dims[i], &n)) return INT32_MAX;
  }
  return n < INT32_MAX ? n : INT32_MAX;
}

/* ---- what nodes want ---------------------------------------------------------------------- */

static const rlx_kernel *kernel_of(const rlx_node *n) {
  const selection *s = n->selection;
  return s && s->count == 1 && s->chosen[0].kernel ? &s->chosen[0].kernel->head : NULL;
}

/* An operand that each output element meets at its own position: all but the batch is known to agree. */
static bool same_shape(const rlx_type *a, const rlx_type *b) {
  if (a->rank != b->rank || a->rank < 3) return false;
  for (int i = 1; i < a->rank; i++) {
    if (a->dims[i] < 0 || a->dims[i] != b->dims[i]) return false;
  }
  return true;
}

static bool is_scalar(const rlx_type *t) {
  if (t->rank < 0) return false;
  for (int i = 0; i < t->rank; i++) {
    if (t->dims[i] != 1) return false;
  }
  return true;
}

/* An elementwise op without broadcasting does not care where its elements lie. */
static bool is_pointwise(const rlx_node *n) {
  if (!n->op || !(n->op->op.traits & RLX_ELEMENTWISE) || n->output_count != 1) return false;
  const rlx_type *y = &n->outputs[0]->type;
  int tensors = 0;
  for (int i = 0; i < n->input_count; i++) {
    if (!n->inputs[i]) continue;
    const rlx_type *x = &n->inputs[i]->type;
    if (is_scalar(x)) continue;
    tensors++;
    if (!same_shape(x, y) && n->input_count > 1) return false;
  }
  return tensors > 0 && y->rank >= 3;
}

static void want_row_major(const rlx_node *n, ports *p) {
  for (int i = 0; i < n->input_count; i++) p->in[i] = LAYOUT_ROW_MAJOR;
  for (int i = 0; i < n->output_count; i++) p->out[i] = LAYOUT_ROW_MAJOR;
}

/* Asks with `proposal` at every operand. */
static void ask(const rlx_node *n, uint32_t proposal, ports *p) {
  want_row_major(n, p);
  const rlx_kernel *k = kernel_of(n);
  if (k && k->layouts) {
    for (int i = 0; i < n->input_count; i++) p->in[i] = proposal;
    for (int i = 0; i < n->output_count; i++) p->out[i] = proposal;
    rlx_layouts l = {sizeof l, n->input_count, n->output_count, p->in, p->out};
    k->layouts(n, &l);
  } else if (is_pointwise(n)) {
    for (int i = 0; i < n->input_count; i++) {
      if (n->inputs[i] && !is_scalar(&n->inputs[i]->type)) p->in[i] = RLX_SAME_LAYOUT;
    }
    p->out[0] = RLX_SAME_LAYOUT;
  }
}

static bool may_move(const layouter *l, const rlx_value *v) {
  return local(l, v) && v->type.kind == RLX_KIND_TENSOR && rlx_dtype_bits(v->type.dtype) == 32 && v->type.rank >= 3 &&
         v->type.rank <= 5;
}

/* A same-layout operand that cannot be laid out makes all of the node's such operands row-major. */
static void settle_same(const layouter *l, const rlx_node *n, ports *p) {
  bool ok = true;
  for (int i = 0; i < n->input_count; i++) ok &= p->in[i] != RLX_SAME_LAYOUT || may_move(l, n->inputs[i]);
  for (int i = 0; i < n->output_count; i++) ok &= p->out[i] != RLX_SAME_LAYOUT || may_move(l, n->outputs[i]);
  if (!ok) want_row_major(n, p);
}

static rlx_status ask_all(layouter *l) {
  for (size_t i = 0; i < l->node_count; i++) {
    const rlx_node *n = l->g->nodes.data[i];
    ports *p = &l->nodes[i];
    p->in = arena_array(&l->memory, (size_t)n->input_count + 1, sizeof *p->in);
    p->out = arena_array(&l->memory, (size_t)n->output_count + 1, sizeof *p->out);
    if (!p->in || !p->out) return status_no_memory((size_t)n->input_count);
    const rlx_kernel *k = kernel_of(n);
    p->hook = k && k->layouts;
    ask(n, LAYOUT_ROW_MAJOR, p);
    settle_same(l, n, p);
  }
  return RLX_OK;
}

/* ---- components --------------------------------------------------------------------------- */

/* Joins, in `set`, the values at the node's ports for which `wanted` holds. */
static void join_ports(const layouter *l, const rlx_node *n, const ports *p, uint32_t *set, bool same_only) {
  uint32_t first = UINT32_MAX;
  for (int i = 0; i < n->input_count + n->output_count; i++) {
    bool input = i < n->input_count;
    uint32_t want = input ? p->in[i] : p->out[i - n->input_count];
    const rlx_value *v = input ? n->inputs[i] : n->outputs[i - n->input_count];
    if (want == LAYOUT_ROW_MAJOR || (same_only && want != RLX_SAME_LAYOUT) || !local(l, v)) continue;
    if (first == UINT32_MAX)
      first = v->id;
    else
      join(set, first, v->id);
  }
}

/* The component a node belongs to, or UINT32_MAX. */
static uint32_t component_of(layouter *l, const rlx_node *n, const ports *p) {
  for (int i = 0; i < n->input_count; i++) {
    if (p->in[i] != LAYOUT_ROW_MAJOR && local(l, n->inputs[i])) return find(l->component, n->inputs[i]->id);
  }
  for (int i = 0; i < n->output_count; i++) {
    if (p->out[i] != LAYOUT_ROW_MAJOR && local(l, n->outputs[i])) return find(l->component, n->outputs[i]->id);
  }
  return UINT32_MAX;
}

static int64_t refused_bytes(const rlx_node *n, const ports *p, uint32_t layout) {
  int64_t bytes = 0;
  for (int i = 0; i < n->output_count; i++) {
    if (p->out[i] != layout && p->out[i] != RLX_SAME_LAYOUT) bytes += weight(n->outputs[i]);
  }
  return bytes;
}

/* Lets every component agree on one of the layouts that its kernels asked for. */
static rlx_status agree(layouter *l) {
  for (size_t i = 0; i < l->node_count; i++) join_ports(l, l->g->nodes.data[i], &l->nodes[i], l->component, false);
  /* Refusals by component and layout; -1: nobody asked for it. */
  int64_t(*cost)[LAYOUT_COUNT] = arena_array(&l->memory, l->value_count, sizeof *cost);
  bool(*asked)[LAYOUT_COUNT] = arena_array(&l->memory, l->value_count, sizeof *asked);
  uint32_t *of = arena_array(&l->memory, l->node_count, sizeof *of);
  if (!cost || !asked || !of) return status_no_memory(l->value_count);
  for (size_t i = 0; i < l->node_count; i++) {
    rlx_node *n = l->g->nodes.data[i];
    ports *p = &l->nodes[i];
    of[i] = p->hook ? component_of(l, n, p) : UINT32_MAX;
    if (of[i] == UINT32_MAX) continue;
    for (int k = 0; k < n->output_count; k++) {
      if (p->out[k] < LAYOUT_COUNT) asked[of[i]][p->out[k]] = true;
    }
    for (uint32_t layout = 1; layout < LAYOUT_COUNT; layout++) {
      ask(n, layout, p);
      cost[of[i]][layout] += refused_bytes(n, p, layout);
    }
  }
  for (size_t i = 0; i < l->node_count; i++) {
    if (of[i] == UINT32_MAX) continue;
    uint32_t best = LAYOUT_ROW_MAJOR;
    for (uint32_t layout = 1; layout < LAYOUT_COUNT; layout++) {
      if (asked[of[i]][layout] && (!best || cost[of[i]][layout] < cost[of[i]][best])) best = layout;
    }
    ask(l->g->nodes.data[i], best, &l->nodes[i]);
    settle_same(l, l->g->nodes.data[i], &l->nodes[i]);
  }
  return RLX_OK;
}

/* ---- groups ------------------------------------------------------------------------------- */

/* Values that must stay row-major: what enters and leaves the graph, and what subgraphs use. */
static rlx_status mark_fixed(layouter *l) {
  rlx_graph *g = l->g;
  for (size_t i = 0; i < l->value_count; i++) {
    const rlx_value *v = g->values.data[i];
    l->fixed[i] = !producer(l, v) || !may_move(l, v);
  }
  for (size_t i = 0; i < g->outputs.count; i++) {
    if (local(l, g->outputs.data[i].value)) l->fixed[g->outputs.data[i].value->id] = true;
  }
  for (size_t i = 0; i < g->subgraphs.count; i++) {
    value_list used = {0};
    rlx_status status = graph_captures(g->subgraphs.data[i], &used);
    for (size_t k = 0; k < used.count && status == RLX_OK; k++) {
      if (local(l, used.data[k])) l->fixed[used.data[k]->id] = true;
    }
    vector_finish(&used);
    RLX_TRY(status);
  }
  return RLX_OK;
}

/* The layout in which v is stored. */
static uint32_t stored(layouter *l, const uint32_t *chosen, const rlx_value *v) {
  const rlx_node *n = local(l, v) ? producer(l, v) : NULL;
  if (!n) return LAYOUT_ROW_MAJOR;
  uint32_t out = l->nodes[n->id].out[v->index];
  return out == RLX_SAME_LAYOUT ? chosen[find(l->group, v->id)] : out;
}

typedef struct costs {
  int64_t bytes[LAYOUT_COUNT];
  bool possible[LAYOUT_COUNT];
} costs;

/* v, in a group, needs a reorder in every layout but `wanted`. */
static void charge(costs *c, const rlx_value *v, uint32_t wanted) {
  if (wanted >= LAYOUT_COUNT) return;
  for (uint32_t layout = 0; layout < LAYOUT_COUNT; layout++) {
    if (layout != wanted) c->bytes[layout] += weight(v);
  }
}

static void charge_node(layouter *l, const rlx_node *n, const ports *p, costs *c) {
  for (int i = 0; i < n->input_count; i++) {
    const rlx_value *v = n->inputs[i];
    if (local(l, v) && p->in[i] != RLX_SAME_LAYOUT) charge(&c[find(l->group, v->id)], v, p->in[i]);
  }
  for (int i = 0; i < n->output_count; i++) {
    const rlx_value *v = n->outputs[i];
    if (local(l, v) && p->out[i] != RLX_SAME_LAYOUT) charge(&c[find(l->group, v->id)], v, p->out[i]);
  }
}

/* Chooses a layout for every group; chosen is by the group's representative. */
static rlx_status choose(layouter *l, uint32_t **out) {
  for (size_t i = 0; i < l->node_count; i++) join_ports(l, l->g->nodes.data[i], &l->nodes[i], l->group, true);
  costs *c = arena_array(&l->memory, l->value_count, sizeof *c);
  uint32_t *chosen = arena_array(&l->memory, l->value_count, sizeof *chosen);
  if (!c || !chosen) return status_no_memory(l->value_count);
  memset(chosen, 0, l->value_count * sizeof *chosen);
  for (size_t i = 0; i < l->value_count; i++) memset(c[i].possible, true, sizeof c[i].possible);
  for (size_t i = 0; i < l->value_count; i++) {
    const rlx_value *v = l->g->values.data[i];
    costs *of = &c[find(l->group, v->id)];
    if (l->fixed[i]) charge(of, v, LAYOUT_ROW_MAJOR);
    for (uint32_t layout = 1; layout < LAYOUT_COUNT; layout++) of->possible[layout] &= layout_fits(layout, &v->type);
  }
  for (size_t i = 0; i < l->node_count; i++) charge_node(l, l->g->nodes.data[i], &l->nodes[i], c);
  for (size_t i = 0; i < l->value_count; i++) {
    for (uint32_t layout = 1; layout < LAYOUT_COUNT; layout++) {
      if (c[i].possible[layout] && c[i].bytes[layout] < c[i].bytes[chosen[i]]) chosen[i] = layout;
    }
  }
  *out = chosen;
  return RLX_OK;
}

/* ---- reorders ----------------------------------------------------------------------------- */

/* v in another layout, made once. */
static rlx_status reordered(layouter *l, rlx_value *v, uint32_t layout, rlx_value **out) {
  for (size_t i = 0; i < l->copies.count; i++) {
    if (l->copies.data[i].from == v && l->copies.data[i].to->layout == layout) {
      *out = l->copies.data[i].to;
      return RLX_OK;
    }
  }
  rlx_attr attr = RLX_ATTR_I("layout", layout);
  rlx_value *to = rlx_graph_op(l->g, "rlx.reorder", &attr, 1, &v, 1);
  if (!to) return rlx_graph_status(l->g);
  to->layout = layout;
  RLX_TRY(select_node(to->producer, l->t));
  if (!vector_push(&l->copies, (copy){v, to})) return status_no_memory(sizeof(copy));
  *out = to;
  return RLX_OK;
}

/* The node reads each input in the layout that it takes. */
static rlx_status feed(layouter *l, const uint32_t *chosen, rlx_node *n, const ports *p) {
  for (int i = 0; i < n->input_count; i++) {
    rlx_value *v = n->inputs[i];
    if (!v) continue;
    uint32_t want = p->in[i] == RLX_SAME_LAYOUT ? chosen[find(l->group, v->id)] : p->in[i];
    if (want != stored(l, chosen, v)) RLX_TRY(reordered(l, v, want, &n->inputs[i]));
  }
  return RLX_OK;
}

/* Graph outputs and values that subgraphs use are row-major. */
static rlx_status restore_fixed(layouter *l, const uint32_t *chosen, rlx_value *v) {
  if (!l->fixed[v->id] || stored(l, chosen, v) == LAYOUT_ROW_MAJOR) return RLX_OK;
  rlx_value *to;
  RLX_TRY(reordered(l, v, LAYOUT_ROW_MAJOR, &to));
  for (size_t i = 0; i < l->g->outputs.count; i++) {
    if (l->g->outputs.data[i].value != v) continue;
    l->g->outputs.data[i].value = to;
    to->is_output = true;
    v->is_output = false;
  }
  for (size_t i = 0; i < l->g->subgraphs.count; i++) graph_replace_uses(l->g->subgraphs.data[i], v, to);
  return RLX_OK;
}

static rlx_status rewrite(layouter *l, const uint32_t *chosen) {
  for (size_t i = 0; i < l->value_count; i++) {
    rlx_value *v = l->g->values.data[i];
    v->layout = stored(l, chosen, v);
  }
  for (size_t i = 0; i < l->node_count; i++) RLX_TRY(feed(l, chosen, l->g->nodes.data[i], &l->nodes[i]));
  for (size_t i = 0; i < l->value_count; i++) RLX_TRY(restore_fixed(l, chosen, l->g->values.data[i]));
  if (l->copies.count == 0) return RLX_OK;
  RLX_TRY(graph_sort(l->g));
  graph_number(l->g);
  return RLX_OK;
}

static rlx_status run(layouter *l, bool *changed) {
  uint32_t *chosen = NULL;
  RLX_TRY(mark_fixed(l));
  RLX_TRY(ask_all(l));
  RLX_TRY(agree(l));
  RLX_TRY(choose(l, &chosen));
  RLX_TRY(rewrite(l, chosen));
  *changed |= l->copies.count > 0;
  return RLX_OK;
}

rlx_status pass_layout(rlx_graph *g, const target *t, bool *changed) {
  layouter l = {.g = g, .t = t};
  graph_number(g);
  l.node_count = g->nodes.count;
  l.value_count = g->values.count;
  l.nodes = arena_array(&l.memory, l.node_count + 1, sizeof *l.nodes);
  l.component = arena_array(&l.memory, l.value_count + 1, sizeof *l.component);
  l.group = arena_array(&l.memory, l.value_count + 1, sizeof *l.group);
  l.fixed = arena_array(&l.memory, l.value_count + 1, sizeof *l.fixed);
  bool ok = l.nodes && l.component && l.group && l.fixed;
  for (size_t i = 0; ok && i < l.value_count; i++) l.component[i] = l.group[i] = (uint32_t)i;
  rlx_status status = ok ? run(&l, changed) : status_no_memory(l.value_count);
  vector_finish(&l.copies);
  arena_finish(&l.memory);
  return status;
}
