/* select.c — candidates, their order, and the choice for every node. */
#include "pass/select.h"

#include <limits.h>
#include <string.h>

#include "base/text.h"
#include "ir/infer.h"
#include "ir/package.h"
#include "ir/registry.h"
#include "ir/shape.h"
#include "pass/pass.h"

enum { LOWER_DEPTH = 8 };

/* One selection over a graph; errors of all nodes are gathered in `problems`. */
typedef struct selector {
  const target *t;
  text problems;
  int problem_count;
  const op_entry *lowering[LOWER_DEPTH]; /* the ops being lowered, outermost first */
  const rlx_pin *met[LOWER_DEPTH];       /* the pins that these lowerings meet */
  int depth;
  bool native_only; /* what is being lowered must end in native nodes */
  bool *pins_used;  /* per pin: a node it speaks of was there; NULL: nobody asks */
  bool *exceptions_used;
} selector;

/* A candidate with what the order needs. */
typedef struct option {
  candidate c;
  bool native_only; /* lower: taken only if what it yields is native throughout */
  int priority, scope;
  uint64_t sequence;
  const char *owner;
  bool builtin;
} option;

static rlx_status select_in(selector *s, rlx_node *n);

bool node_is_own(const rlx_node *n) { return n->selection && n->selection->own && !n->selection->pinned; }

const char *candidate_name(const candidate *c) {
  if (c->kernel) return c->kernel->head.name;
  return c->tier == RLX_TIER_LOWER ? "lower" : "reference";
}

/* What binding evaluates from constants and dims: depth bounds the walk up the graph. */
static bool host_arithmetic(const rlx_node *n, int depth) {
  const rlx_op *op = n->op ? &n->op->op : NULL;
  if (!op || !op->eval || !(op->traits & RLX_PURE) || !node_is_own(n) || depth > 16) return false;
  if (op->traits & (RLX_RANDOM | RLX_SIDE_EFFECT | RLX_CONTROL_FLOW)) return false;
  if (op->traits & RLX_SHAPE_ONLY) return true;
  for (int i = 0; i < n->input_count; i++) {
    const rlx_value *v = n->inputs[i];
    if (!v || v->constant) continue;
    if (!v->producer || !host_arithmetic(v->producer, depth + 1)) return false;
  }
  return true;
}

bool node_is_host_arithmetic(const rlx_node *n) { return host_arithmetic(n, 0); }

/* ---- candidates in order ------------------------------------------------------------------ */

static rlx_tier tier_of(const kernel_entry *k) {
  switch (k->kind) {
    case KERNEL_RAW: return RLX_TIER_RAW;
    case KERNEL_PORTABLE: return RLX_TIER_PORTABLE;
    case KERNEL_HOST: return RLX_TIER_HOST;
    default: return RLX_TIER_CPU;
  }
}

/* RLX_TIER_… is in the order of a GPU, where a lower that does not end in native nodes comes after cpu, as on the CPU.
 */
static int tier_rank(const option *o) {
  if (o->c.tier == RLX_TIER_LOWER && !o->native_only) return RLX_TIER_CPU * 2 + 1;
  return (int)o->c.tier * 2;
}

/* Does a come before b? */
static bool before(const option *a, const option *b) {
  if (a->priority != b->priority) return a->priority > b->priority;
  int ta = tier_rank(a), tb = tier_rank(b);
  if (ta != tb) return ta < tb;
  if (a->scope != b->scope) return a->scope < b->scope;
  return a->sequence > b->sequence;
}

static void insert(option *list, int *count, option o) {
  int i = (*count)++;
  for (; i > 0 && before(&o, &list[i - 1]); i--) list[i] = list[i - 1];
  list[i] = o;
}

/* All candidates of n in order; kernel references are the caller's. */
static rlx_status gather(const rlx_node *n, const target *t, option **list, int *count) {
  kernel_entry **kernels;
  int kernel_count;
  RLX_TRY(registry_kernels(t->registry, n->op_name, n->op->op.version, t->backends, &kernels, &kernel_count));
  option *o = mem_array((size_t)kernel_count + 3, sizeof *o);
  if (!o) {
    for (int i = 0; i < kernel_count; i++) kernel_entry_release(kernels[i]);
    mem_free(kernels);
    return status_no_memory(sizeof *o);
  }
  int found = 0;
  for (int i = 0; i < kernel_count; i++) {
    kernel_entry *k = kernels[i];
    insert(o, &found,
           (option){{tier_of(k), k, false}, false, k->head.priority, k->scope, k->sequence, k->owner, k->builtin});
  }
  const op_entry *op = n->op;
  option own = {{RLX_TIER_LOWER, NULL, false}, false, 0, op->scope, 0, op->owner, op->builtin};
  if (op->op.lower) insert(o, &found, own);
  own.native_only = true;
  if (op->op.lower && t->gpu) insert(o, &found, own);
  own.native_only = false;
  own.c.tier = RLX_TIER_EVAL;
  if (op->op.eval) insert(o, &found, own);
  mem_free(kernels);
  *list = o;
  *count = found;
  return RLX_OK;
}

/* ---- pins --------------------------------------------------------------------------------- */

static bool pin_applies(const rlx_pin *p, const rlx_node *n) {
  if (p->node && strcmp(p->node, n->name) != 0 && (!n->origin || strcmp(p->node, n->origin) != 0)) return false;
  return !p->op || strcmp(p->op, n->op_name) == 0;
}

/* What n is lowered from has met the pin already: it says nothing of the nodes made then. */
static bool pin_is_met(const selector *s, const rlx_pin *p) {
  for (int i = 0; i < s->depth; i++)
    if (s->met[i] == p) return true;
  return false;
}

/* The most specific pin: a node's before an op's before the session's. */
static const rlx_pin *pin_of(const selector *s, const rlx_node *n) {
  const target *t = s->t;
  const rlx_pin *best = NULL;
  int best_rank = -1;
  for (int i = 0; i < t->options->pin_count; i++) {
    const rlx_pin *p = &t->options->pins[i];
    int rank = p->node ? 2 : p->op ? 1 : 0;
    if (!pin_applies(p, n)) continue;
    if (s->pins_used) s->pins_used[i] = true;
    if (rank <= best_rank || pin_is_met(s, p)) continue;
    best = p;
    best_rank = rank;
  }
  return best;
}

static void note_exceptions(const selector *s, const rlx_node *n) {
  const rlx_session_options *o = s->t->options;
  for (int i = 0; i < o->exception_count && s->exceptions_used; i++) {
    const rlx_policy_exception *e = &o->exceptions[i];
    rlx_pin same = {.node = e->node, .op = e->op};
    s->exceptions_used[i] |= pin_applies(&same, n);
  }
}

static const char *pin_refusal(const rlx_pin *p, const candidate *c) {
  if (!p) return NULL;
  if (p->tier != RLX_TIER_ANY && p->tier != c->tier) return "pinned to another tier";
  if (p->kernel && strcmp(p->kernel, candidate_name(c)) != 0) return "pinned to another kernel";
  return NULL;
}

void selection_drop(rlx_node *n) {
  selection *sel = n->selection;
  if (!sel) return;
  for (int k = 0; k < sel->count; k++) kernel_entry_release(sel->chosen[k].kernel);
  sel->count = 0;
  if (sel->has_stand_in) kernel_entry_release(sel->stand_in.kernel);
  sel->has_stand_in = false;
}

/* ---- lowering ----------------------------------------------------------------------------- */

/* Takes the nodes a failed lowering added away again. */
static void undo(rlx_graph *g, size_t node_count) {
  for (size_t i = node_count; i < g->nodes.count; i++) {
    rlx_node *n = g->nodes.data[i];
    selection_drop(n);
    op_entry_release(n->op);
    n->op = NULL;
    for (int k = 0; k < n->attr_count; k++) rlx_tensor_destroy(n->attrs[k].tensor);
    n->attr_count = 0;
  }
  g->nodes.count = node_count;
}

/* Does the node end on the GPU, or need no step at all? */
static bool ends_native(const rlx_node *n) {
  const selection *sel = n->selection;
  if (!sel || !sel->count) return true; /* lowered in its turn */
  for (int i = 0; i < sel->count; i++) {
    bool view = sel->chosen[i].kernel && (sel->chosen[i].kernel->head.traits & RLX_VIEW);
    if (!view && !candidate_is_native(&sel->chosen[i])) return node_is_host_arithmetic(n);
  }
  return true;
}

static rlx_status check_native(const selector *s, const rlx_graph *g, size_t first) {
  for (size_t i = first; i < g->nodes.count && s->native_only; i++)
    if (!ends_native(g->nodes.data[i]))
      return RLX_FAIL(UNSUPPORTED, "lowers to %s, which has no native kernel for this node", g->nodes.data[i]->op_name);
  return RLX_OK;
}

static rlx_status emit_lowered(selector *s, rlx_node *n, rlx_value **outputs) {
  rlx_graph *g = n->graph;
  size_t first = g->nodes.count;
  s->met[s->depth] = pin_of(s, n);
  s->lowering[s->depth++] = n->op;
  rlx_status status = node_rewrite(n, n->op->op.lower, "lowering", outputs);
  for (size_t i = first; i < g->nodes.count && status == RLX_OK; i++) {
    rlx_node *made = g->nodes.data[i];
    if (!made->origin) made->origin = n->origin ? n->origin : n->name;
    if (!made->op) status = RLX_FAIL(NOT_FOUND, "lowers to %s, which no registry knows", made->op_name);
    if (status == RLX_OK && !made->selection) status = select_in(s, made);
  }
  s->depth--;
  return status == RLX_OK ? check_native(s, g, first) : status;
}

/* Replaces n by what its `lower` makes. On failure the graph is as before. */
static rlx_status lower_node(selector *s, rlx_node *n) {
  rlx_graph *g = n->graph;
  if (s->depth == LOWER_DEPTH) return RLX_FAIL(UNSUPPORTED, "lowering deeper than %d", LOWER_DEPTH);
  for (int i = 0; i < s->depth; i++)
    if (s->lowering[i] == n->op) return RLX_FAIL(UNSUPPORTED, "lowering of %s leads back to itself", n->op_name);
  size_t first = g->nodes.count;
  rlx_value **outputs = arena_array(&g->memory, (size_t)n->output_count, sizeof *outputs);
  if (!outputs) return status_no_memory(sizeof *outputs);
  rlx_status status = emit_lowered(s, n, outputs);
  if (status != RLX_OK) {
    g->status = RLX_OK; /* the failure belongs to this attempt */
    undo(g, first);
    return status;
  }
  for (int i = 0; i < n->output_count; i++) {
    if (!outputs[i]) continue;
    if (outputs[i]->type.rank < 0) outputs[i]->type = n->outputs[i]->type;
    graph_replace_uses(g, n->outputs[i], outputs[i]);
  }
  return RLX_OK;
}

/* ---- choosing ----------------------------------------------------------------------------- */

typedef struct chooser {
  selector *s;
  rlx_node *n;
  selection *sel;
  bool lowered;
} chooser;

static rlx_status refuse(chooser *c, const option *o, const char *reason) {
  selection *sel = c->sel;
  arena *m = &c->n->graph->memory;
  refusal r = {o->c.tier, arena_strdup(m, candidate_name(&o->c)), arena_strdup(m, o->owner), arena_strdup(m, reason)};
  if (!r.kernel || !r.owner || !r.reason) return status_no_memory(1);
  sel->refused[sel->refused_count++] = r;
  return RLX_OK;
}

/* Tries one option; *final: no later one is needed. */
static rlx_status consider(chooser *c, option *o, const rlx_pin *pin, bool *final) {
  const char *reason = pin_refusal(pin, &o->c);
  int versions[2];
  if (!reason && o->c.kernel && !o->builtin && registry_kernel_spans(c->s->t->registry, o->c.kernel, versions))
    reason = rlx_reason("versions %d and %d of the op, which it serves, have different params layouts", versions[0],
                        versions[1]);
  if (!reason && o->c.kernel && o->c.kernel->head.why_not) reason = o->c.kernel->head.why_not(c->n);
  o->c.conditional = reason == rlx_depends_on_extents;
  if (o->c.conditional && !o->c.kernel->head.why_not_bound) reason = "depends on extents, but has no why_not_bound";
  if (reason && reason != rlx_depends_on_extents) return refuse(c, o, reason);
  if (o->c.tier == RLX_TIER_LOWER) {
    if (c->sel->count) return refuse(c, o, "a kernel that depends on extents comes first"); /* not both */
    bool outer = c->s->native_only;
    c->s->native_only |= o->native_only;
    rlx_status status = lower_node(c->s, c->n);
    c->s->native_only = outer;
    if (status == RLX_OUT_OF_MEMORY) return status;
    if (status != RLX_OK) return refuse(c, o, rlx_error_message());
    c->lowered = true;
    *final = true;
    return RLX_OK;
  }
  c->sel->chosen[c->sel->count++] = o->c;
  c->sel->own &= o->builtin;
  kernel_entry_retain(o->c.kernel);
  *final = !o->c.conditional;
  return RLX_OK;
}

static rlx_status problem(selector *s, const rlx_node *n, const selection *sel) {
  s->problem_count++;
  if (s->problems.size > 3000) return RLX_OK; /* counted; the message has an end */
  text_printf(&s->problems, "%snode '%s' (%s):", s->problem_count > 1 ? "; " : "", n->name, n->op_name);
  if (!n->op) {
    char hint[200], path[PATH_MAX];
    text_printf(&s->problems, " no such op%s", registry_hint(s->t->registry, n->op_name, n->opset, hint, sizeof hint));
    if (package_waits(n->op_name, path, sizeof path))
      text_printf(&s->problems, "; %s is registered only when it is named (--ops)", path);
    return RLX_OK;
  }
  if (!sel || !sel->refused_count) text_add(&s->problems, " it has no kernel, lower or eval");
  for (int i = 0; sel && i < sel->refused_count; i++)
    text_printf(&s->problems, "%s %s '%s': %s", i ? "," : "", rlx_tier_name(sel->refused[i].tier),
                sel->refused[i].kernel, sel->refused[i].reason);
  return RLX_OK;
}

/* The first candidate on the host after native ones; the first of the CPU after a host kernel. */
static void find_stand_in(chooser *c, const option *list, int count, const rlx_pin *pin) {
  selection *sel = c->sel;
  rlx_tier last = sel->chosen[sel->count - 1].tier;
  if (!candidate_is_native(&sel->chosen[sel->count - 1]) && last != RLX_TIER_HOST) return;
  for (int i = 0; i < count && !sel->has_stand_in; i++) {
    const candidate *o = &list[i].c;
    if (o->tier == RLX_TIER_LOWER || o->tier == last || candidate_is_native(o)) continue;
    if (last != RLX_TIER_HOST && pin_refusal(pin, o)) continue;
    if (o->kernel && o->kernel->head.why_not && o->kernel->head.why_not(c->n)) continue;
    sel->stand_in = *o;
    sel->has_stand_in = true;
    kernel_entry_retain(o->kernel);
  }
}

/* Candidates that come after the chosen one. */
static rlx_status note_later(chooser *c, const option *list, int count) {
  arena *m = &c->n->graph->memory;
  selection *sel = c->sel;
  sel->later = arena_array(m, (size_t)count, sizeof *sel->later);
  if (!sel->later) return status_no_memory(sizeof *sel->later);
  for (int i = 0; i < count; i++) {
    refusal r = {list[i].c.tier, arena_strdup(m, candidate_name(&list[i].c)), arena_strdup(m, list[i].owner), NULL};
    if (!r.kernel || !r.owner) return status_no_memory(1);
    sel->later[sel->later_count++] = r;
  }
  return RLX_OK;
}

static rlx_status choose(chooser *c, option *list, int count) {
  arena *m = &c->n->graph->memory;
  selection *sel = c->sel;
  sel->chosen = arena_array(m, (size_t)count, sizeof *sel->chosen);
  sel->refused = arena_array(m, (size_t)count, sizeof *sel->refused);
  if (!sel->chosen || !sel->refused) return status_no_memory(sizeof *sel);
  const rlx_pin *pin = pin_of(c->s, c->n);
  note_exceptions(c->s, c->n);
  sel->pinned = pin != NULL;
  sel->own = true;
  bool final = false;
  int i = 0;
  while (i < count && !final) RLX_TRY(consider(c, &list[i++], pin, &final));
  if (final) RLX_TRY(note_later(c, &list[i], count - i));
  if (final && c->s->t->gpu && !c->lowered) find_stand_in(c, &list[i], count - i, pin);
  if (final || (pin && sel->count)) return RLX_OK; /* a pin may fail at a run, where extents say so */
  return RLX_FAIL(UNSUPPORTED, sel->count ? "every kernel of %s depends on extents" : "no kernel for %s",
                  c->n->op_name);
}

/* Selects n; UNSUPPORTED with n->selection set to the refusals when nothing can run it. */
static rlx_status select_in(selector *s, rlx_node *n) {
  option *list = NULL;
  int count = 0;
  rlx_status status = infer_node_types(n);
  if (status != RLX_OK) return status_prefix(status, "node '%s' (%s)", n->name, n->op_name);
  RLX_TRY(gather(n, s->t, &list, &count));
  chooser c = {s, n, arena_alloc(&n->graph->memory, sizeof(selection)), false};
  status = c.sel ? choose(&c, list, count) : status_no_memory(sizeof *c.sel);
  for (int i = 0; i < count; i++) kernel_entry_release(list[i].c.kernel);
  mem_free(list);
  n->selection = c.sel;
  if (c.lowered && c.sel) c.sel->count = 0;
  return status;
}

rlx_status select_node(rlx_node *n, const target *t) {
  selector s = {.t = t};
  if (!n->op) return RLX_FAIL(NOT_FOUND, "node '%s': no op '%s'", n->name, n->op_name);
  return select_in(&s, n);
}

/* After selection, a node without a chosen candidate has been lowered away. */
static rlx_status drop_lowered(rlx_graph *g) {
  bool *keep = mem_array(g->nodes.count, sizeof *keep);
  if (!keep) return status_no_memory(g->nodes.count);
  for (size_t i = 0; i < g->nodes.count; i++)
    keep[i] = g->nodes.data[i]->selection && g->nodes.data[i]->selection->count;
  graph_remove_nodes(g, keep);
  mem_free(keep);
  return RLX_OK;
}

static rlx_status select_all(selector *s, rlx_graph *g) {
  size_t count = g->nodes.count; /* lowering appends nodes that are selected on the way */
  for (size_t i = 0; i < count; i++) {
    rlx_node *n = g->nodes.data[i];
    for (int k = 0; node_subgraph(n, k); k++) RLX_TRY(select_all(s, node_subgraph(n, k)));
    if (!n->op) {
      RLX_TRY(problem(s, n, NULL));
      continue;
    }
    rlx_status status = select_in(s, n);
    if (status == RLX_UNSUPPORTED && n->selection)
      RLX_TRY(problem(s, n, n->selection));
    else if (status != RLX_OK)
      return status;
  }
  return s->problem_count ? RLX_OK : drop_lowered(g);
}

/* A word that speaks of nothing is a mistake: the model has no such node or op. */
static rlx_status check_used(const selector *s) {
  const rlx_session_options *o = s->t->options;
  for (int i = 0; i < o->pin_count; i++)
    if (!s->pins_used[i] && (o->pins[i].node || o->pins[i].op))
      return RLX_FAIL(NOT_FOUND, "pin: the model has no %s '%s'", o->pins[i].node ? "node" : "op",
                      o->pins[i].node ? o->pins[i].node : o->pins[i].op);
  for (int i = 0; i < o->exception_count; i++)
    if (!s->exceptions_used[i] && (o->exceptions[i].node || o->exceptions[i].op))
      return RLX_FAIL(NOT_FOUND, "exception to the fallback policy: the model has no %s '%s'",
                      o->exceptions[i].node ? "node" : "op",
                      o->exceptions[i].node ? o->exceptions[i].node : o->exceptions[i].op);
  return RLX_OK;
}

rlx_status pass_select(rlx_graph *g, const target *t, bool *changed) {
  (void)changed;
  return select_graph(g, t);
}

rlx_status select_graph(rlx_graph *g, const target *t) {
  selector s = {.t = t};
  s.pins_used = arena_array(&g->memory, (size_t)t->options->pin_count, sizeof *s.pins_used);
  s.exceptions_used = arena_array(&g->memory, (size_t)t->options->exception_count, sizeof *s.exceptions_used);
  if (!s.pins_used || !s.exceptions_used) return status_no_memory(1);
  rlx_status status = select_all(&s, g);
  if (status == RLX_OK && s.problems.failed) status = status_no_memory(1);
  if (status == RLX_OK && !s.problem_count) status = check_used(&s);
  if (status == RLX_OK && s.problem_count)
    status = RLX_FAIL(UNSUPPORTED, "%d node%s cannot run on %s: %s%s", s.problem_count, s.problem_count > 1 ? "s" : "",
                      t->device, s.problems.data ? s.problems.data : "", s.problems.size > 3000 ? "; …" : "");
  text_finish(&s.problems);
  return status == RLX_OK ? graph_sort(g) : status;
}

void selection_release(rlx_graph *g) {
  for (size_t i = 0; i < g->nodes.count; i++) selection_drop(g->nodes.data[i]);
  for (size_t i = 0; i < g->subgraphs.count; i++) selection_release(g->subgraphs.data[i]);
}

const char *rlx_tier_name(rlx_tier tier) {
  static const char *const names[] = {"any", "raw", "portable", "lower", "host", "cpu", "eval"};
  return (size_t)tier < sizeof names / sizeof *names ? names[tier] : "?";
}
