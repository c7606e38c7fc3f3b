/* infer.c — the driver of shape inference. */
#include "ir/infer.h"

#include <string.h>

#include "base/log.h"
#include "ir/shape.h"

const rlx_node *rlx_infer_node(const rlx_infer *c) { return c ? c->node : NULL; }
const void *rlx_infer_params(const rlx_infer *c) { return c ? c->node->params : NULL; }
int rlx_infer_input_count(const rlx_infer *c) { return c ? c->node->input_count : 0; }
int rlx_infer_output_count(const rlx_infer *c) { return c ? c->node->output_count : 0; }

const rlx_type *rlx_infer_input(const rlx_infer *c, int i) {
  return c && i >= 0 && i < c->node->input_count ? c->inputs[i] : NULL;
}

const rlx_tensor *rlx_infer_value(rlx_infer *c, int i) {
  if (!c || i < 0 || i >= c->node->input_count || !c->node->inputs[i]) return NULL;
  const rlx_tensor *t = c->node->inputs[i]->constant;
  if (!t && c->value) t = c->value(c->user, c->node, i);
  if (!t && i < 64) c->asked |= UINT64_C(1) << i;
  return t;
}

rlx_type *rlx_infer_output(rlx_infer *c, int i) {
  static _Thread_local rlx_type nobody; /* for an output the node does not have: written, never read */
  return c && i >= 0 && i < c->node->output_count ? &c->outputs[i] : &nobody;
}

void rlx_infer_set(rlx_infer *c, int output, int rank, const int64_t *dims) {
  rlx_type *t = rlx_infer_output(c, output);
  if (rank > RLX_MAX_RANK || (rank > 0 && !dims)) rank = RLX_MAX_RANK + 1; /* refused by the check that follows */
  t->rank = rank;
  if (rank > 0 && rank <= RLX_MAX_RANK) memmove(t->dims, dims, (size_t)rank * sizeof *dims);
}

void rlx_infer_like(rlx_infer *c, int output, int input) {
  const rlx_type *t = rlx_infer_input(c, input);
  if (!t) return;
  rlx_type *out = rlx_infer_output(c, output);
  type_take_kind(out, t);
  out->rank = t->rank;
  if (t->rank > 0) memcpy(out->dims, t->dims, (size_t)t->rank * sizeof *t->dims);
}

rlx_status infer_feed_input(rlx_infer *c, const infer_feed *feed) {
  if (!c->feeds || feed->input < 0 || (size_t)feed->input >= feed->graph->inputs.count) return RLX_OK;
  return vector_push(c->feeds, *feed) ? RLX_OK : status_no_memory(sizeof *feed);
}

/* The dtype a port's type variable or its single permitted dtype gives. */
static rlx_dtype port_dtype(const struct rlx_infer *c, const rlx_port *port) {
  if (port->variable)
    for (int i = 0; i < c->node->input_count; i++) {
      const rlx_port *p = op_input_port(c->node->op, i);
      if (c->inputs[i] && p->variable && strcmp(p->variable, port->variable) == 0) return c->inputs[i]->dtype;
    }
  bool single = port->dtypes && !(port->dtypes & (port->dtypes - 1));
  return single ? (rlx_dtype)__builtin_ctzll(port->dtypes) : RLX_UNDEFINED;
}

static rlx_status check_output(const struct rlx_infer *c, int i) {
  const rlx_type *t = &c->outputs[i];
  const rlx_port *port = op_output_port(c->node->op, i);
  if (port->dtypes && t->dtype != RLX_UNDEFINED && t->kind == RLX_KIND_TENSOR && !(port->dtypes >> t->dtype & 1))
    return RLX_FAIL(INVALID, "output '%s' would be %s, which the op does not permit", port->name,
                    rlx_dtype_name(t->dtype));
  rlx_dtype given = port->variable && t->kind == RLX_KIND_TENSOR ? port_dtype(c, port) : RLX_UNDEFINED;
  if (given != RLX_UNDEFINED && t->dtype != RLX_UNDEFINED && given != t->dtype && !(port->flags & RLX_HETEROGENEOUS))
    return RLX_FAIL(INVALID, "output '%s' would be %s where %s is %s", port->name, rlx_dtype_name(t->dtype),
                    port->variable, rlx_dtype_name(given));
  if (t->rank < RLX_UNKNOWN || t->rank > RLX_MAX_RANK)
    return RLX_FAIL(INVALID, "output %d would have rank %d, at most %d", i, t->rank, RLX_MAX_RANK);
  int64_t n = 1;
  for (int d = 0; d < t->rank; d++) {
    if (t->dims[d] < RLX_UNKNOWN)
      return RLX_FAIL(INVALID, "output %d: dim %d would be %lld", i, d, (long long)t->dims[d]);
    if (t->dims[d] > 0 && __builtin_mul_overflow(n, t->dims[d], &n))
      return RLX_FAIL(INVALID, "output %d: its size overflows 64 bits", i);
  }
  if (type_is_concrete(t) && type_bytes(t) < 0)
    return RLX_FAIL(INVALID, "output %d: its size in bytes overflows 64 bits", i);
  return RLX_OK;
}

rlx_status infer_node(struct rlx_infer *c) {
  const op_entry *op = c->node->op;
  c->magic = INFER_MAGIC;
  c->asked = 0;
  for (int i = 0; i < c->node->output_count; i++) {
    type_unknown(&c->outputs[i], port_dtype(c, op_output_port(op, i)));
  }
  if (op->op.infer) {
    status_clear();
    rlx_status status = op->op.infer(c);
    if (status != RLX_OK && !*rlx_error_message())
      return status_fail(status, "infer returned '%s' without saying why", rlx_status_name(status));
    RLX_TRY(status);
  } else
    for (int i = 0; i < c->node->output_count; i++) rlx_infer_like(c, i, 0);
  for (int i = 0; i < c->node->output_count; i++) RLX_TRY(check_output(c, i));
  return RLX_OK;
}

/* ---- whole graphs ------------------------------------------------------------------------- */

static bool shapes_agree(const rlx_type *a, const rlx_type *b) {
  if (a->rank < 0 || b->rank < 0) return true;
  if (a->rank != b->rank) return false;
  for (int d = 0; d < a->rank; d++)
    if (a->dims[d] >= 0 && b->dims[d] >= 0 && a->dims[d] != b->dims[d]) return false;
  return true;
}

/* Takes what inference found into a value's type; declared dims stay where inference knows nothing. Exporters leave
 * shapes of an earlier graph behind: a wrong dtype is always an error, a wrong shape only if strict. */
static rlx_status refine(rlx_value *v, const rlx_type *t, bool strict) {
  rlx_type *old = &v->type;
  char a[300], b[300];
  bool clash =
      old->dtype != RLX_UNDEFINED && t->dtype != RLX_UNDEFINED && (old->dtype != t->dtype || !type_same_kind(old, t));
  bool wrong = !shapes_agree(old, t);
  if (clash || (wrong && strict))
    return RLX_FAIL(INVALID, "output '%s' is declared %s but is %s", v->name, type_text(old, a, sizeof a),
                    type_text(t, b, sizeof b));
  if (wrong)
    log_line(RLX_LOG_WARN, "value '%s' is declared %s but is %s: the declaration is not used", v->name,
             type_text(old, a, sizeof a), type_text(t, b, sizeof b));
  if (t->dtype != RLX_UNDEFINED) type_take_kind(old, t);
  if (t->rank < 0 || t->kind != RLX_KIND_TENSOR) return RLX_OK;
  bool fresh = wrong || old->rank < 0;
  old->rank = t->rank;
  for (int d = 0; d < t->rank; d++)
    if (fresh || t->dims[d] >= 0) old->dims[d] = t->dims[d];
  return RLX_OK;
}

static rlx_status infer_types(rlx_node *n, bool strict, infer_feeds *feeds) {
  const rlx_type **inputs = mem_array((size_t)n->input_count, sizeof *inputs);
  rlx_type *outputs = mem_array((size_t)n->output_count, sizeof *outputs);
  rlx_status status = inputs && outputs ? RLX_OK : status_no_memory(sizeof *outputs);
  for (int i = 0; i < n->input_count && status == RLX_OK; i++) inputs[i] = n->inputs[i] ? &n->inputs[i]->type : NULL;
  struct rlx_infer c = {.node = n, .inputs = inputs, .outputs = outputs, .feeds = feeds};
  if (status == RLX_OK) status = node_check(n);
  if (status == RLX_OK) status = infer_node(&c);
  for (int i = 0; i < n->output_count && status == RLX_OK; i++) status = refine(n->outputs[i], &outputs[i], strict);
  mem_free(inputs);
  mem_free(outputs);
  return status;
}

rlx_status infer_node_types(rlx_node *n) { return infer_types(n, false, NULL); }

/* ---- subgraphs ---------------------------------------------------------------------------- */

/* A loop's body is inferred for the types its inputs start with. Where an iteration would hand on another type, that
 * part becomes unknown and the body is inferred anew: what remains holds in every iteration. */
typedef struct supposition {
  rlx_node *node;
  bool strict;
  int depth;
  infer_feeds feeds;
  VECTOR(rlx_type) saved; /* of all values of the subgraphs, before anything was supposed */
} supposition;

enum {
  SUPPOSE_ROUNDS = 4, /* then every type that may change is unknown */
  SUPPOSE_DEPTH = 3   /* loops in loops: rounds multiply */
};

static rlx_status infer_nodes(rlx_graph *g, bool strict, int depth);

static bool save_types(supposition *s, const rlx_graph *g) {
  for (size_t i = 0; i < g->values.count; i++)
    if (!vector_push(&s->saved, g->values.data[i]->type)) return false;
  for (size_t i = 0; i < g->subgraphs.count; i++)
    if (!save_types(s, g->subgraphs.data[i])) return false;
  return true;
}

static void restore_types(const supposition *s, rlx_graph *g, size_t *at) {
  for (size_t i = 0; i < g->values.count; i++) g->values.data[i]->type = s->saved.data[(*at)++];
  for (size_t i = 0; i < g->subgraphs.count; i++) restore_types(s, g->subgraphs.data[i], at);
}

/* Declared parts of an input's type stay. */
static void feed_types(supposition *s) {
  size_t at = 0;
  for (int k = 0; node_subgraph(s->node, k); k++) restore_types(s, node_subgraph(s->node, k), &at);
  for (size_t i = 0; i < s->feeds.count; i++) {
    const infer_feed *f = &s->feeds.data[i];
    rlx_type *t = &f->graph->inputs.data[f->input]->type;
    if (t->dtype == RLX_UNDEFINED) type_take_kind(t, &f->type);
    if (t->rank >= 0 || f->type.rank < 0 || t->kind != f->type.kind) continue;
    t->rank = f->type.rank;
    memcpy(t->dims, f->type.dims, (size_t)t->rank * sizeof *t->dims);
  }
}

/* Makes unknown what does not hold; true if something did not. */
static bool widen(supposition *s) {
  bool changed = false;
  for (size_t i = 0; i < s->feeds.count; i++) {
    infer_feed *f = &s->feeds.data[i];
    if (f->output < 0 || f->type.rank < 0) continue;
    const rlx_type *next = &f->graph->outputs.data[f->output].value->type;
    if (next->rank != f->type.rank) {
      f->type.rank = RLX_UNKNOWN;
      changed = true;
    }
    for (int d = 0; d < f->type.rank; d++) {
      if (f->type.dims[d] < 0 || f->type.dims[d] == next->dims[d]) continue;
      f->type.dims[d] = RLX_UNKNOWN;
      changed = true;
    }
  }
  return changed;
}

static void suppose_nothing(supposition *s) {
  for (size_t i = 0; i < s->feeds.count; i++)
    if (s->feeds.data[i].output >= 0) s->feeds.data[i].type.rank = RLX_UNKNOWN;
}

/* Types the model declares need no supposing. */
static void drop_declared(supposition *s) {
  for (size_t i = 0; i < s->feeds.count; i++) {
    infer_feed *f = &s->feeds.data[i];
    if (f->graph->inputs.data[f->input]->type.rank >= 0) f->output = -1;
  }
}

static rlx_status infer_round(supposition *s) {
  feed_types(s);
  for (int k = 0; node_subgraph(s->node, k); k++)
    RLX_TRY(infer_nodes(node_subgraph(s->node, k), s->strict, s->depth + 1));
  return RLX_OK;
}

static rlx_status suppose(supposition *s) {
  rlx_node *n = s->node;
  rlx_status status = n->op ? infer_types(n, s->strict, &s->feeds) : RLX_OK;
  if (status != RLX_OK) return status_prefix(status, "node '%s' (%s)", n->name, n->op_name);
  for (int k = 0; node_subgraph(n, k); k++)
    if (!save_types(s, node_subgraph(n, k))) return status_no_memory(sizeof(rlx_type));
  drop_declared(s);
  if (s->depth >= SUPPOSE_DEPTH) suppose_nothing(s);
  for (int round = 0; round < SUPPOSE_ROUNDS; round++) {
    status = infer_round(s);
    if (status != RLX_OK || !widen(s)) break;
    if (round == SUPPOSE_ROUNDS - 2) suppose_nothing(s);
  }
  if (status == RLX_OK || !s->feeds.count) return status;
  suppose_nothing(s); /* the first iteration may never run */
  return infer_round(s);
}

static rlx_status infer_subgraphs(rlx_node *n, bool strict, int depth) {
  supposition s = {.node = n, .strict = strict, .depth = depth};
  rlx_status status = suppose(&s);
  vector_finish(&s.feeds);
  vector_finish(&s.saved);
  return status;
}

static rlx_status infer_deep(rlx_node *n, bool strict, int depth) {
  if (node_subgraph(n, 0)) RLX_TRY(infer_subgraphs(n, strict, depth));
  if (!n->op) return RLX_OK;
  rlx_status status = infer_types(n, strict, NULL);
  return status == RLX_OK ? RLX_OK : status_prefix(status, "node '%s' (%s)", n->name, n->op_name);
}

static rlx_status infer_nodes(rlx_graph *g, bool strict, int depth) {
  for (size_t i = 0; i < g->nodes.count; i++) RLX_TRY(infer_deep(g->nodes.data[i], strict, depth));
  return RLX_OK;
}

rlx_status infer_node_deep(rlx_node *n) { return infer_deep(n, false, 0); }

rlx_status infer_graph(rlx_graph *g, bool strict) { return infer_nodes(g, strict, 0); }
