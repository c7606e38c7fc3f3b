/* place.c — who shares memory with whom, where everything is, and the operands that follow from it. */
#include <string.h>

#include "ir/bound.h"
#include "ir/shape.h"
#include "plan/binder.h"
#include "plan/memory.h"

static alias_class *class_of(binder *b, uint32_t slot) { return &b->classes[binder_root(b, slot)]; }

/* ---- life --------------------------------------------------------------------------------- */

static void define(binder *b, uint32_t slot, int at) {
  alias_class *c = class_of(b, slot);
  const fact *f = &b->s->facts[slot];
  if (c->first < 0 && b->s->facts[binder_root(b, slot)].where.kind == PLACE_NONE) {
    c->first = at;
    c->owned = true;
  }
  int64_t bytes = f->typed ? type_bytes(&f->type) : 0;
  if (bytes > c->bytes) c->bytes = bytes;
  if (c->last < at) c->last = at;
}

static void use(binder *b, uint32_t slot, int at) {
  if (slot == NO_SLOT) return;
  alias_class *c = class_of(b, slot);
  if (c->last < at) c->last = at;
}

static void find_lives(binder *b) {
  for (uint32_t i = 0; i < b->p->slot_count; i++) b->classes[i] = (alias_class){.first = -1, .last = -1, .output = -1};
  for (size_t t = 0; t < b->steps.count; t++) {
    const step *s = &b->steps.data[t];
    for (int i = 0; i < step_input_count(s); i++) use(b, s->from->inputs[i], (int)t);
    for (int i = 0; i < step_output_count(s); i++)
      if (s->from->outputs[i] != NO_SLOT) define(b, s->from->outputs[i], (int)t);
  }
  for (size_t i = 0; i < b->rest.count; i++) {
    const program_node *n = b->rest.data[i];
    for (int k = 0; k < n->input_count + n->hidden_count; k++) use(b, n->inputs[k], KEEP);
  }
  for (size_t i = 0; i < b->dynamic.count; i++) use(b, b->dynamic.data[i], KEEP);
  for (size_t i = 0; i < b->awaited.count; i++) use(b, b->awaited.data[i], KEEP);
}

/* ---- graph outputs ------------------------------------------------------------------------ */

/* A class becomes an output's memory if a step of this stage makes it and it is nobody else's. */
static rlx_status place_outputs(binder *b) {
  const rlx_graph *g = b->p->graph;
  stage *s = b->s;
  s->output_done = arena_array(&s->memory, g->outputs.count, sizeof *s->output_done);
  if (!s->output_done) return status_no_memory(g->outputs.count);
  const stage *previous = b->request->previous;
  if (previous) memcpy(s->output_done, previous->output_done, g->outputs.count * sizeof *s->output_done);
  for (size_t o = 0; o < g->outputs.count; o++) {
    uint32_t slot = program_slot(b->p, g->outputs.data[o].value);
    const fact *f = &s->facts[slot];
    if (s->output_done[o]) continue;
    alias_class *c = class_of(b, slot);
    bool direct = f->produced && f->typed && !f->dynamic && c->owned && c->first >= 0 && c->output < 0 &&
                  f->where.kind == PLACE_NONE && c->bytes == type_bytes(&f->type) && f->type.dtype != RLX_STRING &&
                  f->type.kind == RLX_KIND_TENSOR;
    if (!direct) {
      if (f->produced) use(b, slot, KEEP);
      continue;
    }
    c->output = (int)o;
    c->last = KEEP;
    s->output_done[o] = true;
    s->facts[binder_root(b, slot)].where = (place){.kind = PLACE_EXTERNAL, .slot = binder_root(b, slot)};
    if (!vector_push(&b->made, (output_slot){(int)o, binder_root(b, slot)})) return status_no_memory(1);
  }
  return RLX_OK;
}

static const rlx_value *hidden_value(const binder *b, uint32_t slot) {
  size_t own = b->p->graph->values.count;
  return slot < own ? b->p->graph->values.data[slot] : b->p->captures.data[slot - own];
}

/* The address of a constant that is read as it is: an unaligned weight is copied for as long as the stage lives. */
static rlx_status pin_constant(binder *b, uint32_t slot, void **data) {
  const rlx_value *v = hidden_value(b, binder_root(b, slot));
  if (!v->constant || !v->constant->unaligned) return RLX_OK;
  *data = (void *)(uintptr_t)tensor_pin(v->constant);
  if (!*data) return status_no_memory(v->constant->bytes);
  if (vector_push(&b->pinned, v->constant)) return RLX_OK;
  tensor_unpin(v->constant);
  return status_no_memory(sizeof v);
}

static rlx_status list_copies(binder *b) {
  const rlx_graph *g = b->p->graph;
  stage *s = b->s;
  s->copies = arena_array(&s->memory, g->outputs.count, sizeof *s->copies);
  if (!s->copies) return status_no_memory(g->outputs.count);
  if (b->rest.count) return RLX_OK;
  for (size_t o = 0; o < g->outputs.count; o++) {
    if (s->output_done[o]) continue;
    uint32_t slot = program_slot(b->p, g->outputs.data[o].value);
    if (!s->facts[slot].produced) return RLX_FAIL(INVALID, "output '%s' is made by nothing", g->outputs.data[o].name);
    if (s->facts[slot].where.kind == PLACE_FIXED && !s->facts[slot].where.data)
      RLX_TRY(pin_constant(b, slot, &s->facts[slot].where.data));
    s->copies[s->copy_count++] = (output_slot){(int)o, slot};
  }
  return RLX_OK;
}

/* ---- in place ----------------------------------------------------------------------------- */

static bool used_twice(binder *b, const step *s, int input) {
  const alias_class *c = class_of(b, s->from->inputs[input]);
  for (int i = 0; i < step_input_count(s); i++)
    if (i != input && s->from->inputs[i] != NO_SLOT && class_of(b, s->from->inputs[i]) == c) return true;
  return false;
}

static bool may_overwrite(binder *b, const step *s, int t, const rlx_pair *pair) {
  if (pair->output >= step_output_count(s) || pair->input >= s->from->input_count) return false;
  uint32_t out = s->from->outputs[pair->output], in = s->from->inputs[pair->input];
  if (out == NO_SLOT || in == NO_SLOT) return false;
  const fact *fo = &b->s->facts[out], *fi = &b->s->facts[in];
  const alias_class *ci = class_of(b, in), *co = class_of(b, out);
  if (ci == co || !ci->owned || ci->output >= 0 || ci->last != t || co->first != t) return false;
  if (ci->first < 0 && co->output >= 0) return false; /* a donated input is not the output's memory */
  if (fo->dynamic || fi->dynamic || !fo->typed || fi->known) return false;
  /* Element by element: a broadcast operand of as many bytes would be overwritten while it is still read. */
  bool same_shape = fo->type.rank == fi->type.rank && rlx_dtype_bits(fo->type.dtype) == rlx_dtype_bits(fi->type.dtype);
  for (int d = 0; same_shape && d < fo->type.rank; d++) same_shape = fo->type.dims[d] == fi->type.dims[d];
  if (!same_shape || ci->bytes != type_bytes(&fi->type)) return false;
  if (s->from->node->outputs[pair->output]->layout != s->from->node->inputs[pair->input]->layout) return false;
  return !used_twice(b, s, pair->input);
}

static void share(binder *b, uint32_t out, uint32_t in) {
  uint32_t keep = binder_root(b, in), gone = binder_root(b, out);
  alias_class *k = &b->classes[keep], *g = &b->classes[gone];
  fact *fk = &b->s->facts[keep], *fg = &b->s->facts[gone];
  k->last = g->last;
  if (g->output >= 0) { /* the whole chain lives in the output's memory */
    k->output = g->output;
    fk->where = (place){.kind = PLACE_EXTERNAL, .slot = keep};
    fg->where = (place){0};
    for (size_t i = 0; i < b->made.count; i++)
      if (b->made.data[i].output == g->output) b->made.data[i].slot = keep;
  }
  b->root[gone] = keep;
}

static void find_in_place(binder *b) {
  if (b->context->debug.switches & DEBUG_CHECK) return; /* eval needs the inputs after the kernel ran */
  for (size_t t = 0; t < b->steps.count; t++) {
    const step *s = &b->steps.data[t];
    if (!s->chosen->kernel || s->dynamic) continue;
    const rlx_kernel *head = &s->chosen->kernel->head;
    for (int i = 0; i < head->in_place_count; i++)
      if (may_overwrite(b, s, (int)t, &head->in_place[i])) {
        share(b, s->from->outputs[head->in_place[i].output], s->from->inputs[head->in_place[i].input]);
        break;
      }
  }
}

/* ---- run memory --------------------------------------------------------------------------- */

/* Slots a step makes get memory when it runs; classes used for the last time give it back after it. */
typedef struct memory_plan {
  binder *b;
  planner holes;
  uint32_t **dying; /* per step: list of roots */
  int *dying_count;
} memory_plan;

static rlx_status list_dying(memory_plan *m) {
  binder *b = m->b;
  size_t steps = b->steps.count;
  m->dying_count = arena_array(&b->scratch, steps, sizeof *m->dying_count);
  m->dying = arena_array(&b->scratch, steps, sizeof *m->dying);
  if (!m->dying || !m->dying_count) return status_no_memory(steps);
  for (int fill = 0; fill < 2; fill++) {
    for (uint32_t r = 0; r < b->p->slot_count; r++) {
      const alias_class *c = &b->classes[r];
      if (b->root[r] != r || c->first < 0 || !c->owned || c->last == KEEP || c->last < 0) continue;
      int at = b->steps.data[c->last].free_at;
      if (fill) m->dying[at][m->dying_count[at]] = r;
      m->dying_count[at]++;
    }
    for (size_t t = 0; t < steps && !fill; t++) {
      m->dying[t] = arena_array(&b->scratch, (size_t)m->dying_count[t], sizeof **m->dying);
      if (!m->dying[t]) return status_no_memory(1);
      m->dying_count[t] = 0;
    }
  }
  return RLX_OK;
}

static rlx_status take(memory_plan *m, uint32_t slot, int64_t bytes) {
  binder *b = m->b;
  uint32_t r = binder_root(b, slot);
  fact *f = &b->s->facts[r];
  if (b->classes[r].taken || f->where.kind != PLACE_NONE) return RLX_OK;
  int64_t offset = planner_take(&m->holes, bytes);
  if (offset < 0)
    return RLX_FAIL(OUT_OF_MEMORY, "run memory: %lld bytes more than the address space", (long long)bytes);
  b->classes[r].taken = true;
  b->classes[r].bytes = bytes;
  f->where = (place){.kind = PLACE_ARENA, .offset = offset};
  return RLX_OK;
}

/* A dynamic output with a bound gets that much; one without is allocated when the kernel says its dims. */
static rlx_status take_dynamic(memory_plan *m, const step *s, int i) {
  binder *b = m->b;
  uint32_t slot = s->from->outputs[i];
  fact *f = &b->s->facts[slot];
  int64_t bound = -1;
  if (s->chosen->kernel && s->chosen->kernel->head.output_bound) {
    rlx_bound bound_node;
    RLX_TRY(binder_bound(b, s->from, &bound_node));
    bound = s->chosen->kernel->head.output_bound(&bound_node, i);
  }
  int64_t bytes = bound < 0 ? -1 : rlx_dtype_bytes(f->type.dtype, bound);
  if (bytes >= 0) {
    RLX_TRY(take(m, slot, bytes));
    f->where.bytes = bytes;
    return RLX_OK;
  }
  f->where = (place){.kind = PLACE_EXTERNAL, .slot = slot};
  return RLX_OK;
}

static rlx_status plan_step(memory_plan *m, int t) {
  binder *b = m->b;
  step *s = &b->steps.data[t];
  for (int i = 0; i < step_output_count(s); i++) {
    uint32_t slot = s->from->outputs[i];
    if (slot == NO_SLOT) continue;
    if (b->s->facts[slot].dynamic)
      RLX_TRY(take_dynamic(m, s, i));
    else
      RLX_TRY(take(m, slot, class_of(b, slot)->bytes));
  }
  if (s->workspace_bytes) {
    s->workspace_offset = planner_take(&m->holes, s->workspace_bytes);
    bool beside = s->free_at != t; /* runs beside the steps after it: its workspace stays its own */
    if (s->workspace_offset < 0 || (!beside && !planner_give(&m->holes, s->workspace_offset, s->workspace_bytes)))
      return status_no_memory((size_t)s->workspace_bytes);
  }
  for (int i = 0; i < m->dying_count[t]; i++) {
    uint32_t r = m->dying[t][i];
    if (!b->classes[r].taken) continue;
    if (!planner_give(&m->holes, b->s->facts[r].where.offset, b->classes[r].bytes)) return status_no_memory(1);
  }
  return RLX_OK;
}

static rlx_status plan_memory(binder *b) {
  memory_plan m = {.b = b};
  rlx_status status = list_dying(&m);
  for (size_t t = 0; t < b->steps.count && status == RLX_OK; t++) status = plan_step(&m, (int)t);
  b->s->run_bytes = m.holes.end;
  planner_finish(&m.holes);
  RLX_TRY(status);
  for (uint32_t slot = 0; slot < b->p->slot_count; slot++) { /* members are where their root is */
    uint32_t r = binder_root(b, slot);
    if (r != slot) b->s->facts[slot].where = b->s->facts[r].where;
  }
  return RLX_OK;
}

/* ---- operands ----------------------------------------------------------------------------- */

static rlx_status pack_input(binder *b, step *s, int i, rlx_bound *bound, rlx_operand *o) {
  const rlx_kernel *head = &s->chosen->kernel->head;
  rlx_packing form = {0};
  RLX_TRY(head->packing(bound, s->state, i, &form));
  if (form.bytes == 0) return RLX_OK;
  if (!head->pack) return RLX_FAIL(INVALID, "packing without pack");
  packed *p;
  RLX_TRY(packed_get(b->context->packed, bound->constants[i], &form, s->chosen, bound, s->state, i, &p));
  if (!vector_push(&b->packed, p)) {
    packed_release(p);
    return status_no_memory(sizeof p);
  }
  o->data = packed_data(p);
  o->bytes = form.bytes;
  o->packed = 1;
  return RLX_OK;
}

static void fill_operand(binder *b, uint32_t slot, const rlx_value *v, int at) {
  rlx_operand *o = &b->s->operands[at];
  if (slot == NO_SLOT) return;
  const fact *f = &b->s->facts[slot];
  *o = f->typed ? type_operand(&f->type) : (rlx_operand){.dims = f->type.dims, .dtype = f->type.dtype};
  o->layout = v->layout;
  b->s->places[at] = f->where;
  if (f->where.kind == PLACE_FIXED) o->data = f->where.data;
  if (!f->dynamic) return;
  b->s->places[at].kind = PLACE_NONE; /* rlx_output_shape gives the address */
  b->s->resets[b->s->reset_count++] = at;
}

static rlx_status pin_inputs(binder *b, const step *s, int first) {
  bool any_address = s->chosen->kernel && s->chosen->kernel->head.min_align == 1;
  for (int i = 0; i < step_input_count(s); i++) {
    rlx_operand *o = &b->s->operands[first + i];
    uint32_t slot = s->from->inputs[i];
    if (slot == NO_SLOT || b->s->places[first + i].kind != PLACE_FIXED || o->data) continue;
    const rlx_value *v = hidden_value(b, binder_root(b, slot));
    if (any_address && v->constant)
      o->data = (void *)(uintptr_t)tensor_raw(v->constant);
    else
      RLX_TRY(pin_constant(b, slot, &o->data));
  }
  return RLX_OK;
}

static rlx_status fill_step(binder *b, step *s, int first) {
  const program_node *n = s->from;
  s->first_operand = first;
  for (int i = 0; i < step_input_count(s); i++)
    if (n->inputs[i] != NO_SLOT) fill_operand(b, n->inputs[i], hidden_value(b, n->inputs[i]), first + i);
  for (int i = 0; i < step_output_count(s); i++)
    fill_operand(b, n->outputs[i], n->node->outputs[i], first + step_input_count(s) + i);
  bool plain = b->context->debug.switches & DEBUG_CHECK; /* eval reads plain operands */
  if (s->chosen->kernel && s->chosen->kernel->head.packing && !plain) {
    rlx_bound bound;
    RLX_TRY(binder_bound(b, n, &bound));
    for (int i = 0; i < n->input_count; i++)
      if (bound.constants[i]) RLX_TRY(pack_input(b, s, i, &bound, &b->s->operands[first + i]));
  }
  return pin_inputs(b, s, first);
}

static rlx_status fill_operands(binder *b) {
  stage *s = b->s;
  size_t total = 0, patches = 0;
  for (size_t t = 0; t < b->steps.count; t++)
    total += (size_t)(step_input_count(&b->steps.data[t]) + step_output_count(&b->steps.data[t]));
  s->operands = arena_array(&s->memory, total, sizeof *s->operands);
  s->places = arena_array(&s->memory, total, sizeof *s->places);
  s->patches = arena_array(&s->memory, total, sizeof *s->patches);
  s->resets = arena_array(&s->memory, total, sizeof *s->resets);
  if (!s->operands || !s->places || !s->patches || !s->resets) return status_no_memory(total * sizeof *s->operands);
  for (size_t t = 0; t < b->steps.count; t++) {
    step *st = &b->steps.data[t];
    rlx_status status = fill_step(b, st, s->operand_count);
    if (status != RLX_OK)
      return status_prefix(status, "node '%s' (%s), kernel %s", st->from->node->name, st->from->node->op_name,
                           candidate_name(st->chosen));
    s->operand_count += step_input_count(st) + step_output_count(st);
  }
  for (int i = 0; i < s->operand_count; i++)
    if (s->places[i].kind == PLACE_EXTERNAL) s->patches[patches++] = (patch){i, s->places[i].slot};
  s->patch_count = (int)patches;
  return RLX_OK;
}

/* Slots in run memory whose address later stages, or the copies at the end, will ask for. */
static rlx_status list_exports(binder *b) {
  stage *s = b->s;
  s->exports = arena_array(&s->memory, b->p->slot_count, sizeof *s->exports);
  if (!s->exports) return status_no_memory(b->p->slot_count);
  for (uint32_t slot = 0; slot < b->p->slot_count; slot++)
    if (s->facts[slot].produced && s->facts[slot].where.kind == PLACE_ARENA && class_of(b, slot)->last == KEEP)
      s->exports[s->export_count++] = slot;
  return RLX_OK;
}

static void donate(binder *b) {
  if (b->request->previous) return;
  size_t inputs = b->p->graph->inputs.count;
  for (size_t i = 0; i < inputs; i++) {
    if (!b->request->inputs[i].donated) continue;
    uint32_t slot = b->p->graph->inputs.data[i]->id;
    b->classes[slot].owned = b->s->facts[slot].where.kind == PLACE_EXTERNAL;
    b->classes[slot].bytes = type_bytes(&b->s->facts[slot].type);
  }
}

rlx_status binder_place(binder *b) {
  find_lives(b);
  donate(b);
  RLX_TRY(place_outputs(b));
  find_in_place(b);
  RLX_TRY(plan_memory(b));
  RLX_TRY(list_copies(b));
  RLX_TRY(list_exports(b));
  return fill_operands(b);
}
