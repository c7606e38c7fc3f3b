/* bind.c — phase 2: walks a program with concrete extents and makes its next stage. */
#include <limits.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "ir/bound.h"
#include "ir/dtype.h"
#include "ir/infer.h"
#include "ir/run_node.h"
#include "ir/shape.h"
#include "pass/policy.h"
#include "plan/binder.h"
#include "plan/tally.h"

enum {
  SMALL_VALUE = 64, /* elements a value may have to be read or computed while binding */
  VALUE_DEPTH = 64  /* nodes a value asked for may be away from what is known */
};

static const rlx_value *slot_value(const program *p, uint32_t slot) {
  size_t own = p->graph->values.count;
  return slot < own ? p->graph->values.data[slot] : p->captures.data[slot - own];
}

static int input_total(const program *p) { return (int)(p->graph->inputs.count + p->captures.count); }

static uint32_t input_slot(const program *p, int i) {
  size_t own = p->graph->inputs.count;
  return (size_t)i < own ? p->graph->inputs.data[i]->id : (uint32_t)(p->graph->values.count + (size_t)i - own);
}

static int input_of_slot(const program *p, uint32_t slot) {
  for (int i = 0; i < input_total(p); i++)
    if (input_slot(p, i) == slot) return i;
  return -1;
}

/* ---- values known while binding ----------------------------------------------------------- */

static const rlx_tensor *keep(binder *b, uint32_t slot, rlx_tensor *t) {
  if (!vector_push(&b->owned, t)) {
    rlx_tensor_destroy(t);
    b->no_memory = true;
    return NULL;
  }
  b->s->facts[slot].known = t;
  return t;
}

static const rlx_tensor *read_operand(binder *b, uint32_t slot, const rlx_operand *o) {
  rlx_tensor *t;
  if (!o || !o->data || o->dtype == RLX_STRING || o->dtype == RLX_UNDEFINED) return NULL;
  if (tensor_alloc(o->dtype, o->rank, o->dims, &t) != RLX_OK) {
    b->no_memory = true;
    return NULL;
  }
  if (t->bytes) memcpy(t->data, o->data, t->bytes);
  return keep(b, slot, t);
}

static const rlx_tensor *value_of(binder *b, uint32_t slot, int depth);

/* Can the node be evaluated on the host while binding, as far as its record says? */
static bool evaluable(const rlx_node *n) {
  const rlx_op *op = &n->op->op;
  if (!op->eval || !(op->traits & RLX_PURE) || (op->traits & (RLX_RANDOM | RLX_SIDE_EFFECT | RLX_CONTROL_FLOW)))
    return false;
  return node_is_own(n) && n->input_count <= 16 && n->output_count <= 4;
}

static bool small(const fact *f) {
  return f->typed && f->type.kind == RLX_KIND_TENSOR && shape_count(f->type.rank, f->type.dims) <= SMALL_VALUE;
}

/* Evaluates a node whose inputs are known (or only their dims, for Shape); outputs become known. */
static bool evaluate(binder *b, const program_node *n, int depth) {
  rlx_operand inputs[16] = {{0}};
  rlx_type types[4];
  rlx_tensor *out[4] = {NULL};
  const rlx_node *node = n->node;
  bool shape_only = node->op->op.traits & RLX_SHAPE_ONLY;
  for (int i = 0; i < n->input_count; i++) {
    if (n->inputs[i] == NO_SLOT) continue;
    const fact *f = &b->s->facts[n->inputs[i]];
    const rlx_tensor *t = shape_only ? NULL : value_of(b, n->inputs[i], depth + 1);
    if (t)
      inputs[i] = tensor_operand(t);
    else if (shape_only && f->typed)
      inputs[i] = type_operand(&f->type);
    else
      return false;
  }
  for (int i = 0; i < node->output_count; i++) {
    if (n->outputs[i] == NO_SLOT || !small(&b->s->facts[n->outputs[i]])) return false;
    types[i] = b->s->facts[n->outputs[i]].type;
  }
  rlx_status status = node_run(node, node->op->op.eval, inputs, types, out);
  b->no_memory |= status == RLX_OUT_OF_MEMORY;
  if (status != RLX_OK) return false; /* it fails when it runs */
  bool ok = true;
  for (int i = 0; i < node->output_count; i++) ok &= keep(b, n->outputs[i], out[i]) != NULL;
  return ok;
}

/* The value in a slot if binding can know it. */
static const rlx_tensor *value_of(binder *b, uint32_t slot, int depth) {
  fact *f = &b->s->facts[slot];
  if (f->known || depth > VALUE_DEPTH || !small(f)) return f->known;
  const rlx_value *v = slot_value(b->p, slot);
  int input = b->request->previous ? -1 : input_of_slot(b->p, slot);
  if (input >= 0) {
    /* Contents read here become part of the stage's key: sizes and positions, not data computed on. */
    if (depth > 0 && !dtype_is_integer(f->type.dtype) && f->type.dtype != RLX_BOOL) return NULL;
    const rlx_tensor *t = read_operand(b, slot, &b->request->inputs[input].operand);
    b->read_inputs[input] |= t != NULL;
    return t;
  }
  if (!v->producer || v->graph != b->p->graph) return NULL;
  const program_node *n = &b->p->nodes[v->producer->id];
  if (n->node != v->producer || !evaluable(n->node)) return NULL;
  return evaluate(b, n, depth) ? f->known : NULL;
}

static const rlx_tensor *asked_value(void *user, const rlx_node *n, int i) {
  binder *b = user;
  (void)n;
  return value_of(b, b->current->inputs[i], 0);
}

/* ---- facts at the start ------------------------------------------------------------------- */

/* An operand that is no tensor does not say what it is: its value does. */
static void operand_type(binder *b, uint32_t slot, const rlx_operand *o) {
  rlx_type *t = &b->s->facts[slot].type;
  const rlx_type *declared = &slot_value(b->p, slot)->type;
  type_set(t, o->dtype, o->rank, o->dims);
  if (o->dtype != RLX_UNDEFINED) return;
  type_take_kind(t, declared);
  t->rank = 0; /* a cell has no dims */
}

static rlx_status start_first(binder *b) {
  const program *p = b->p;
  for (uint32_t slot = 0; slot < p->slot_count; slot++) {
    const rlx_value *v = slot_value(p, slot);
    fact *f = &b->s->facts[slot];
    if (!v->constant) continue;
    rlx_tensor_type(v->constant, &f->type);
    f->typed = f->produced = true;
    f->known = v->constant;
    f->where = (place){.kind = PLACE_FIXED, .data = v->constant->data};
  }
  for (int i = 0; i < input_total(p); i++) {
    const rlx_operand *o = &b->request->inputs[i].operand;
    fact *f = &b->s->facts[input_slot(p, i)];
    if (f->known) continue; /* a constant of a graph around this one */
    operand_type(b, input_slot(p, i), o);
    f->typed = f->produced = true;
    f->where = (place){.kind = PLACE_EXTERNAL, .slot = input_slot(p, i)};
  }
  return RLX_OK;
}

static rlx_status start_later(binder *b) {
  const stage *previous = b->request->previous;
  const slot_reader *reader = b->request->reader;
  memcpy(b->s->facts, previous->facts, b->p->slot_count * sizeof *b->s->facts);
  for (uint32_t slot = 0; slot < b->p->slot_count; slot++) {
    fact *f = &b->s->facts[slot];
    if (f->where.kind == PLACE_ARENA) f->where = (place){.kind = PLACE_EXTERNAL, .slot = slot};
  }
  for (int i = 0; i < previous->dynamic_count; i++) {
    uint32_t slot = previous->dynamic_slots[i];
    const rlx_operand *o = reader->read(reader->user, slot);
    fact *f = &b->s->facts[slot];
    if (!o) return RLX_FAIL(INTERNAL, "value '%s' was not made by its stage", slot_value(b->p, slot)->name);
    operand_type(b, slot, o);
    f->typed = true;
    f->dynamic = false;
  }
  for (int i = 0; i < previous->awaited_count; i++) {
    uint32_t slot = previous->awaited[i];
    if (b->s->facts[slot].known || read_operand(b, slot, reader->read(reader->user, slot))) continue;
    if (b->no_memory) return status_no_memory(sizeof(rlx_tensor));
    return RLX_FAIL(UNSUPPORTED, "value '%s' is needed for a shape but the host cannot read it",
                    slot_value(b->p, slot)->name);
  }
  return RLX_OK;
}

/* One extent a symbol. */
static rlx_status check_symbols(const program *p, const program_input *inputs) {
  for (size_t i = 0; i < p->graph->inputs.count; i++) {
    const rlx_value *v = p->graph->inputs.data[i];
    for (int d = 0; v->symbols && d < v->type.rank; d++) {
      if (!v->symbols[d]) continue;
      for (size_t j = 0; j <= i; j++) {
        const rlx_value *w = p->graph->inputs.data[j];
        for (int e = 0; w->symbols && e < w->type.rank; e++) {
          if (!w->symbols[e] || strcmp(w->symbols[e], v->symbols[d]) != 0) continue;
          int64_t x = inputs[i].operand.dims[d], y = inputs[j].operand.dims[e];
          if (x != y)
            return RLX_FAIL(INVALID, "inputs '%s' and '%s' give the symbol %s the extents %lld and %lld", w->name,
                            v->name, v->symbols[d], (long long)y, (long long)x);
        }
      }
    }
  }
  return RLX_OK;
}

/* ---- the walk ----------------------------------------------------------------------------- */

rlx_status binder_bound(binder *b, const program_node *n, rlx_bound *out) {
  int ins = n->input_count, outs = n->node->output_count;
  const rlx_type **types = arena_array(&b->scratch, (size_t)(ins + outs), sizeof *types);
  const rlx_tensor **constants = arena_array(&b->scratch, (size_t)ins, sizeof *constants);
  if (!types || !constants) return status_no_memory(sizeof *types);
  for (int i = 0; i < ins; i++) {
    if (n->inputs[i] == NO_SLOT) continue;
    types[i] = &b->s->facts[n->inputs[i]].type;
    const rlx_port *port = op_input_port(n->node->op, i);
    constants[i] = slot_value(b->p, n->inputs[i])->constant;
    /* What the host must read is part of the stage's key once it is known: GPU kernels plan by it. */
    if (!constants[i] && b->context->gpu && port && (port->flags & RLX_HOST))
      constants[i] = b->s->facts[n->inputs[i]].known;
  }
  for (int i = 0; i < outs; i++)
    if (n->outputs[i] != NO_SLOT) types[ins + i] = &b->s->facts[n->outputs[i]].type;
  *out = (rlx_bound){BOUND_MAGIC, n->node, types, types + ins, constants, b->context->threads, b->context->cache};
  return RLX_OK;
}

static rlx_status wait_for(binder *b, program_node *n, uint64_t asked) {
  for (int i = 0; i < n->input_count && i < 64; i++) {
    if (!(asked >> i & 1)) continue;
    bool listed = false;
    for (size_t k = 0; k < b->awaited.count; k++) listed |= b->awaited.data[k] == n->inputs[i];
    if (!listed && !vector_push(&b->awaited, n->inputs[i])) return status_no_memory(1);
  }
  return vector_push(&b->rest, n) ? RLX_OK : status_no_memory(sizeof n);
}

/* Runs infer with extents. *complete: every output's type is concrete. */
static rlx_status infer_bound(binder *b, program_node *n, bool *complete, uint64_t *asked) {
  const rlx_type *small_in[16], **inputs = small_in;
  rlx_type small_out[4], *outputs = small_out;
  rlx_node *node = n->node;
  if (n->input_count > 16) inputs = arena_array(&b->scratch, (size_t)n->input_count, sizeof *inputs);
  if (node->output_count > 4) outputs = arena_array(&b->scratch, (size_t)node->output_count, sizeof *outputs);
  if (!inputs || !outputs) return status_no_memory(sizeof *outputs);
  for (int i = 0; i < n->input_count; i++) inputs[i] = n->inputs[i] == NO_SLOT ? NULL : &b->s->facts[n->inputs[i]].type;
  b->current = n;
  struct rlx_infer c = {.node = node, .inputs = inputs, .outputs = outputs, .value = asked_value, .user = b};
  RLX_TRY(infer_node(&c));
  *complete = true;
  *asked = c.asked;
  for (int i = 0; i < node->output_count; i++) {
    if (n->outputs[i] == NO_SLOT) continue;
    fact *f = &b->s->facts[n->outputs[i]];
    if (outputs[i].dtype == RLX_UNDEFINED) outputs[i].dtype = node->outputs[i]->type.dtype;
    type_take_kind(&f->type, &outputs[i]);
    f->type.rank = outputs[i].rank;
    if (outputs[i].kind != RLX_KIND_TENSOR) f->type.rank = 0; /* a cell has no dims */
    if (f->type.rank > 0) memcpy(f->type.dims, outputs[i].dims, (size_t)outputs[i].rank * sizeof(int64_t));
    f->typed = type_is_concrete(&outputs[i]);
    *complete &= f->typed;
  }
  return RLX_OK;
}

/* Why no device can run the node, whatever kernels there are; NULL: it can. */
static const char *host_only(binder *b, const program_node *n, bool dynamic) {
  if (dynamic) return "its output's size is known only after running";
  if (n->child_count) return "it has subgraphs";
  for (int i = 0; i < n->input_count + n->node->output_count; i++) {
    uint32_t slot = i < n->input_count ? n->inputs[i] : n->outputs[i - n->input_count];
    if (slot == NO_SLOT) continue;
    const rlx_type *t = &b->s->facts[slot].type;
    if (t->kind != RLX_KIND_TENSOR || t->dtype == RLX_STRING) return "an operand is no dense tensor";
    const rlx_port *port = i < n->input_count ? op_input_port(n->node->op, i) : NULL;
    if (port && (port->flags & RLX_HOST) && !b->s->facts[slot].known && !value_of(b, slot, 0))
      return "an input that the host must read is not known yet";
  }
  return NULL;
}

static rlx_status pick_candidate(binder *b, const program_node *n, bool dynamic, const candidate **out) {
  const selection *sel = n->node->selection;
  rlx_bound bound;
  const char *reason = "no kernel was selected";
  const char *why_host = sel->count && candidate_is_native(&sel->chosen[0]) ? host_only(b, n, dynamic) : NULL;
  if (why_host && !sel->has_stand_in) return RLX_FAIL(UNSUPPORTED, "no kernel on the host, and %s", why_host);
  if (why_host) {
    *out = &sel->stand_in;
    return RLX_OK;
  }
  for (int i = 0; i < sel->count; i++) {
    const candidate *c = &sel->chosen[i];
    *out = c;
    if (!c->conditional) return RLX_OK;
    if (i == 0) RLX_TRY(binder_bound(b, n, &bound));
    reason = c->kernel->head.why_not_bound(&bound);
    if (!reason) return RLX_OK;
  }
  return RLX_FAIL(UNSUPPORTED, "no kernel takes these extents: %s", reason);
}

/* What compiling could not rule out has come to pass. */
static rlx_status check_fallback(const binder *b, const program_node *n, const candidate *c) {
  bool view = c->kernel && (c->kernel->head.traits & RLX_VIEW);
  if (!b->context->gpu || candidate_is_native(c) || view) return RLX_OK;
  if (node_policy(b->context->options, n->node) != RLX_POLICY_FORBID) return RLX_OK;
  return RLX_FAIL(POLICY, "it must run on the host with these inputs, and the policy forbids that");
}

static void join(binder *b, uint32_t out, uint32_t in) { b->root[out] = binder_root(b, in); }

static rlx_status emit(binder *b, program_node *n, bool dynamic) {
  const candidate *c = NULL;
  RLX_TRY(pick_candidate(b, n, dynamic, &c));
  RLX_TRY(check_fallback(b, n, c));
  const rlx_kernel *head = c->kernel ? &c->kernel->head : NULL;
  for (int i = 0; i < n->node->output_count; i++) {
    if (n->outputs[i] == NO_SLOT) continue;
    fact *f = &b->s->facts[n->outputs[i]];
    f->produced = true;
    if (f->typed) continue;
    f->dynamic = true;
    if (!vector_push(&b->dynamic, n->outputs[i])) return status_no_memory(1);
  }
  for (int i = 0; head && i < head->alias_count; i++) {
    const rlx_pair *a = &head->aliases[i];
    if (a->output < n->node->output_count && a->input < n->input_count && n->outputs[a->output] != NO_SLOT &&
        n->inputs[a->input] != NO_SLOT)
      join(b, n->outputs[a->output], n->inputs[a->input]);
  }
  if (head && (head->traits & RLX_VIEW) && head->alias_count) return RLX_OK;
  step s = {.run = c->kernel ? c->kernel->run : n->node->op->op.eval,
            .from = n,
            .chosen = c,
            .dynamic = dynamic,
            .device = candidate_is_native(c),
            .free_at = (int)b->steps.count};
  return vector_push(&b->steps, s) ? RLX_OK : status_no_memory(sizeof s);
}

static bool inputs_typed(const binder *b, const program_node *n) {
  for (int i = 0; i < n->input_count + n->hidden_count; i++)
    if (n->inputs[i] != NO_SLOT && !b->s->facts[n->inputs[i]].typed) return false;
  return true;
}

/* All inputs known without reading a program input: shape arithmetic, done now and never run. */
static bool inputs_known(const binder *b, const program_node *n) {
  if (n->node->op->op.traits & RLX_SHAPE_ONLY) return true;
  for (int i = 0; i < n->input_count; i++)
    if (n->inputs[i] != NO_SLOT && !b->s->facts[n->inputs[i]].known) return false;
  return true;
}

static rlx_status bind_node(binder *b, program_node *n) {
  bool effect = n->node->op->op.traits & RLX_SIDE_EFFECT;
  if ((effect && b->effect_blocked) || !inputs_typed(b, n)) {
    b->effect_blocked |= effect;
    return vector_push(&b->rest, n) ? RLX_OK : status_no_memory(sizeof n);
  }
  bool complete = false;
  uint64_t asked = 0;
  RLX_TRY(infer_bound(b, n, &complete, &asked));
  if (!complete && asked) {
    b->effect_blocked |= effect;
    for (int i = 0; i < n->node->output_count; i++)
      if (n->outputs[i] != NO_SLOT) b->s->facts[n->outputs[i]].typed = false;
    return wait_for(b, n, asked);
  }
  if (complete && evaluable(n->node) && inputs_known(b, n) && evaluate(b, n, 0)) {
    for (int i = 0; i < n->node->output_count; i++) {
      fact *f = &b->s->facts[n->outputs[i]];
      f->produced = true;
      f->where = (place){.kind = PLACE_FIXED, .data = f->known->data};
    }
    return RLX_OK;
  }
  return emit(b, n, !complete);
}

static rlx_status walk(binder *b) {
  const stage *previous = b->request->previous;
  int count = previous ? previous->rest_count : b->p->node_count;
  for (int i = 0; i < count; i++) {
    program_node *n = previous ? previous->rest[i] : &b->p->nodes[i];
    rlx_status status = bind_node(b, n);
    if (b->no_memory) status = status_no_memory(sizeof(rlx_tensor)); /* a value was unknown for want of memory only */
    if (status != RLX_OK) return status_prefix(status, "node '%s' (%s)", n->node->name, n->node->op_name);
  }
  if ((int)b->rest.count == count && count && !b->steps.count && !b->awaited.count && !b->dynamic.count)
    return RLX_FAIL(INTERNAL, "node '%s' (%s) can never run", b->rest.data[0]->node->name,
                    b->rest.data[0]->node->op_name);
  return RLX_OK;
}

/* ---- prepare ------------------------------------------------------------------------------ */

static rlx_status prepare_step(binder *b, step *s) {
  const kernel_entry *k = s->chosen->kernel;
  if (!k || (!k->head.prepare && !k->head.workspace)) return RLX_OK;
  rlx_bound bound;
  RLX_TRY(binder_bound(b, s->from, &bound));
  if (k->head.prepare) RLX_TRY(k->head.prepare(&bound, &s->state));
  if (k->head.workspace) {
    s->workspace_bytes = k->head.workspace(&bound, s->state);
    if (s->workspace_bytes < 0) return RLX_FAIL(KERNEL, "workspace of %lld bytes", (long long)s->workspace_bytes);
  }
  return RLX_OK;
}

static rlx_status prepare_all(binder *b) {
  int64_t begin = clock_ns();
  for (size_t i = 0; i < b->steps.count; i++) {
    step *s = &b->steps.data[i];
    rlx_status status = prepare_step(b, s);
    if (status != RLX_OK)
      return status_prefix(status, "node '%s' (%s), kernel %s", s->from->node->name, s->from->node->op_name,
                           candidate_name(s->chosen));
  }
  b->prepare_ns = clock_ns() - begin;
  return RLX_OK;
}

/* ---- the stage ---------------------------------------------------------------------------- */

#define MOVE_LIST(b, list, to, to_count)                                                                 \
  do {                                                                                                   \
    (b)->s->to = arena_copy(&(b)->s->memory, (b)->list.data, (b)->list.count * sizeof *(b)->list.data);  \
    if (!(b)->s->to) return status_no_memory((b)->list.count * sizeof *(b)->list.data);                  \
    (b)->s->to_count = (int)(b)->list.count;                                                             \
    (b)->list.count = 0;                                                                                 \
  } while (0)

static rlx_status make_key(binder *b) {
  stage *s = b->s;
  size_t bytes = b->request->key_bytes;
  s->value_inputs = arena_array(&s->memory, (size_t)input_total(b->p), sizeof *s->value_inputs);
  if (!s->value_inputs) return status_no_memory(1);
  for (int i = 0; i < input_total(b->p) && !b->request->previous; i++) {
    if (!b->read_inputs[i]) continue;
    s->value_inputs[s->value_input_count++] = i;
    bytes += (size_t)b->request->inputs[i].operand.bytes;
  }
  s->key = arena_alloc(&s->memory, bytes);
  if (!s->key) return status_no_memory(bytes);
  if (b->request->key_bytes) memcpy(s->key, b->request->key, b->request->key_bytes);
  s->key_bytes = bytes;
  s->dims_bytes = b->request->key_bytes;
  uint8_t *at = s->key + s->dims_bytes;
  for (int i = 0; i < s->value_input_count; i++) {
    const rlx_operand *o = &b->request->inputs[s->value_inputs[i]].operand;
    if (o->bytes) memcpy(at, o->data, (size_t)o->bytes);
    at += o->bytes;
  }
  return RLX_OK;
}

static rlx_status begin(binder *b) {
  stage *s = b->s;
  size_t slots = b->p->slot_count;
  s->facts = arena_array(&s->memory, slots, sizeof *s->facts);
  b->root = arena_array(&b->scratch, slots, sizeof *b->root);
  b->classes = arena_array(&b->scratch, slots, sizeof *b->classes);
  b->read_inputs = arena_array(&b->scratch, (size_t)input_total(b->p), sizeof *b->read_inputs);
  s->frames = arena_array(&s->memory, (size_t)b->context->run_states, sizeof *s->frames);
  s->next = mem_zalloc(sizeof *s->next);
  if (!s->facts || !b->root || !b->classes || !b->read_inputs || !s->frames || !s->next)
    return status_no_memory(slots * sizeof *s->facts);
  s->frame_count = b->context->run_states;
  for (uint32_t i = 0; i < slots; i++) b->root[i] = i;
  if (b->request->previous) return start_later(b);
  RLX_TRY(check_symbols(b->p, b->request->inputs));
  return start_first(b);
}

static rlx_status bind(binder *b) {
  RLX_TRY(begin(b));
  RLX_TRY(walk(b));
  if (b->context->gpu) RLX_TRY(binder_order(b));
  RLX_TRY(prepare_all(b));
  RLX_TRY(binder_place(b));
  RLX_TRY(make_key(b));
  MOVE_LIST(b, steps, steps, step_count);
  MOVE_LIST(b, rest, rest, rest_count);
  MOVE_LIST(b, dynamic, dynamic_slots, dynamic_count);
  MOVE_LIST(b, awaited, awaited, awaited_count);
  MOVE_LIST(b, made, made, made_count);
  MOVE_LIST(b, owned, owned, owned_count);
  MOVE_LIST(b, packed, packed, packed_count);
  MOVE_LIST(b, pinned, pinned, pinned_count);
  if (b->context->tally) RLX_TRY(tally_stage(b->context->tally, b->s));
  return RLX_OK;
}

static void finish(binder *b) {
  for (size_t i = 0; i < b->steps.count; i++) { /* of a bind that failed */
    step *s = &b->steps.data[i];
    if (s->state && s->chosen->kernel->head.release) s->chosen->kernel->head.release(s->state);
  }
  for (size_t i = 0; i < b->owned.count; i++) rlx_tensor_destroy(b->owned.data[i]);
  for (size_t i = 0; i < b->packed.count; i++) packed_release(b->packed.data[i]);
  vector_finish(&b->steps);
  vector_finish(&b->rest);
  vector_finish(&b->dynamic);
  vector_finish(&b->awaited);
  vector_finish(&b->owned);
  for (size_t i = 0; i < b->pinned.count; i++) tensor_unpin(b->pinned.data[i]);
  vector_finish(&b->packed);
  vector_finish(&b->pinned);
  vector_finish(&b->made);
  arena_finish(&b->scratch);
}

/* DEBUG_PLAN: where every operand of every step lies. */
static void log_plan(const stage *s) {
  log_line(RLX_LOG_DEBUG, "plan: %d steps, %lld bytes of run memory, %d nodes left", s->step_count,
           (long long)s->run_bytes, s->rest_count);
  for (int t = 0; t < s->step_count; t++) {
    const step *st = &s->steps[t];
    int inputs = st->from->input_count + st->from->hidden_count, outputs = st->from->node->output_count;
    text line = {0};
    for (int i = 0; i < inputs + outputs; i++) {
      const place *p = &s->places[st->first_operand + i];
      long long bytes = (long long)s->operands[st->first_operand + i].bytes;
      if (i == inputs) text_add(&line, " ->");
      if (p->kind == PLACE_ARENA)
        text_printf(&line, " [%lld,%lld)", (long long)p->offset, (long long)p->offset + bytes);
      if (p->kind == PLACE_FIXED) text_add(&line, " constant");
      if (p->kind == PLACE_EXTERNAL) text_printf(&line, " slot %u", p->slot);
      if (p->kind == PLACE_NONE) text_add(&line, " none");
    }
    log_line(RLX_LOG_DEBUG, "plan: %d %s%s '%s'%s%s", t, st->device ? "device " : "", st->from->node->op_name,
             st->from->node->name, line.data ? line.data : "", st->workspace_bytes ? " and workspace" : "");
    text_finish(&line);
  }
}

rlx_status stage_bind(const bind_request *request, const bind_context *context, stage **out) {
  int64_t start = clock_ns();
  stage *s = mem_zalloc(sizeof *s);
  if (!s) return status_no_memory(sizeof *s);
  s->refs = 1;
  s->program = request->program;
  s->previous = request->previous;
  binder b = {.request = request, .context = context, .p = request->program, .s = s};
  rlx_status status = bind(&b);
  finish(&b);
  if (status == RLX_OK && context->attach) status = context->attach(context->attach_user, s);
  if (status != RLX_OK) {
    char kept[STATUS_TEXT_BYTES];
    status_save(kept);
    stage_release(s);
    status_restore(kept);
    return status;
  }
  if (context->debug.switches & DEBUG_PLAN) log_plan(s);
  __atomic_fetch_add(context->bind_ns, clock_ns() - start - b.prepare_ns, __ATOMIC_RELAXED);
  __atomic_fetch_add(context->prepare_ns, b.prepare_ns, __ATOMIC_RELAXED);
  __atomic_fetch_add(context->binds, 1, __ATOMIC_RELAXED);
  *out = s;
  return RLX_OK;
}
