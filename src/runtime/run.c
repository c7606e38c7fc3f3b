/* run.c — running a program: its stages found or bound, inputs and outputs given their memory. */
#include <string.h>

#include "ir/shape.h"
#include "runtime/session.h"

/* ---- finding stages ----------------------------------------------------------------------- */

static bool add_key(run_state *rs, const void *data, size_t bytes) {
  if (!vector_reserve(&rs->key, rs->key.count + bytes)) return false;
  if (bytes) memcpy(rs->key.data + rs->key.count, data, bytes);
  rs->key.count += bytes;
  return true;
}

static bool add_dims(run_state *rs, const rlx_operand *o, int32_t flags) {
  int32_t head[2] = {o->rank, flags};
  return add_key(rs, head, sizeof head) && add_key(rs, o->dims, (size_t)(o->rank > 0 ? o->rank : 0) * sizeof *o->dims);
}

static rlx_status first_key(run_state *rs, const program *p, const program_input *inputs) {
  size_t count = p->graph->inputs.count + p->captures.count;
  rs->key.count = 0;
  for (size_t i = 0; i < count; i++)
    if (!add_dims(rs, &inputs[i].operand, inputs[i].donated)) return status_no_memory(rs->key.count);
  return RLX_OK;
}

/* Finds the stage in `set` or binds it; under the session's lock, so that it is made once. Retained. */
static rlx_status find_or_bind(run_state *rs, stage_set *set, bind_request *request, stage **out) {
  rlx_session *s = rs->session;
  request->key = rs->key.data;
  request->key_bytes = rs->key.count;
  pthread_mutex_lock(&s->lock);
  stage *found = stage_set_find(set, request->key, request->key_bytes, request->inputs);
  rlx_status status = RLX_OK;
  if (found) {
    stage_retain(found);
    __atomic_fetch_add(&s->bind_hits, 1, __ATOMIC_RELAXED);
  } else {
    status = stage_bind(request, &s->bind, &found);
    if (status == RLX_OK) status = stage_set_add(set, found);
    if (status != RLX_OK && found) stage_release(found);
  }
  pthread_mutex_unlock(&s->lock);
  if (status == RLX_OK) *out = found;
  return status;
}

static rlx_status first_stage(run_state *rs, const program *p, const program_input *inputs, stage **memo, stage **out) {
  RLX_TRY(first_key(rs, p, inputs));
  if (memo && *memo && (*memo)->program == p) {
    stage_set one = {{memo, 1, 1}};
    stage *same = stage_set_find(&one, rs->key.data, rs->key.count, inputs);
    if (same) {
      __atomic_fetch_add(&rs->session->bind_hits, 1, __ATOMIC_RELAXED);
      *out = stage_retain(same);
      return RLX_OK;
    }
  }
  bind_request request = {.program = p, .inputs = inputs};
  RLX_TRY(find_or_bind(rs, p->stages, &request, out));
  if (memo) {
    stage_release(*memo);
    *memo = stage_retain(*out);
  }
  return RLX_OK;
}

/* ---- reading slots ------------------------------------------------------------------------ */

typedef struct reading {
  const run_frame *frame;
  rlx_operand operand;
} reading;

/* The bytes of a slot after `frame`'s stage has run. */
static const rlx_operand *read_slot(void *user, uint32_t slot) {
  reading *r = user;
  const fact *f = &r->frame->stage->facts[slot];
  if (f->dynamic) return r->frame->slots[slot].data ? &r->frame->slots[slot] : NULL;
  if (!f->typed) return NULL;
  r->operand = type_operand(&f->type);
  if (f->where.kind == PLACE_ARENA) r->operand.data = (char *)r->frame->base + f->where.offset;
  if (f->where.kind == PLACE_FIXED) r->operand.data = f->where.data;
  if (f->where.kind == PLACE_EXTERNAL) r->operand.data = r->frame->slots[f->where.slot].data;
  return &r->operand;
}

static rlx_status next_stage(run_state *rs, const run_frame *f, stage **out) {
  stage *s = f->stage;
  reading r = {.frame = f};
  slot_reader reader = {read_slot, &r};
  rs->key.count = 0;
  bool ok = true;
  for (int i = 0; i < s->dynamic_count && ok; i++) ok = add_dims(rs, read_slot(&r, s->dynamic_slots[i]), 0);
  for (int i = 0; i < s->awaited_count && ok; i++) {
    const rlx_operand *o = read_slot(&r, s->awaited[i]);
    if (!o || !o->data) return RLX_FAIL(INTERNAL, "a value a shape depends on has no bytes");
    ok = add_key(rs, o->data, (size_t)o->bytes);
  }
  if (!ok) return status_no_memory(rs->key.count);
  bind_request request = {.program = s->program, .previous = s, .reader = &reader};
  return find_or_bind(rs, s->next, &request, out);
}

/* ---- outputs ------------------------------------------------------------------------------ */

static rlx_status check_given(const rlx_graph *g, int o, const program_output *out, const rlx_operand *is) {
  char a[300], b[300];
  rlx_type type;
  type_set(&type, is->dtype, is->rank, is->dims);
  if (type_equal(out->must, &type)) return RLX_OK;
  return RLX_FAIL(INVALID, "output '%s': the memory given is for %s, the result is %s", g->outputs.data[o].name,
                  type_text(out->must, a, sizeof a), type_text(&type, b, sizeof b));
}

/* Memory for an output of known type: what was given or is where the caller of a subgraph wants it, the last run's if
 * nobody else has it, or new. */
static rlx_status new_output(const run_frame *f, const program_output *out, const rlx_operand *is, rlx_tensor **t) {
  bool dense = is->dtype != RLX_STRING && is->dtype != RLX_UNDEFINED;
  if (f->gpu && !out->call && dense && gpu_memory_is_unified(f->arena)) /* the device writes it, the host reads it */
    return session_tensor(f->rs->session, is->dtype, is->rank, is->dims, t);
  /* It becomes the caller's and is not counted, but must fit beside what is: a small file may ask for any size. */
  RLX_TRY(session_charge(f->rs->session, is->bytes));
  (void)session_charge(f->rs->session, -is->bytes);
  int64_t cell = sizeof(rlx_tensor *); /* of a subgraph's result: the bytes are all that matters */
  return is->dtype == RLX_UNDEFINED ? tensor_alloc(RLX_UINT8, 1, &cell, t)
                                    : tensor_alloc(is->dtype, is->rank, is->dims, t);
}

static rlx_status output_memory(const run_frame *f, int o, program_output *out, const rlx_operand *is) {
  const rlx_graph *g = f->stage->program->graph;
  out->result = *is;
  out->result.data = out->data;
  if (out->call && out->call->place) RLX_TRY(out->call->place(out->call->user, o, is, &out->result.data));
  if (out->given) RLX_TRY(check_given(g, o, out, is));
  if (out->result.data || out->given) return RLX_OK;
  rlx_tensor *t = *out->tensor;
  bool again = t && __atomic_load_n(&t->refs, __ATOMIC_ACQUIRE) == 1 && t->dtype == is->dtype && t->rank == is->rank &&
               (is->rank == 0 || memcmp(t->dims, is->dims, (size_t)is->rank * sizeof *is->dims) == 0) &&
               is->dtype != RLX_STRING;
  if (!again) {
    rlx_status status = new_output(f, out, is, &t);
    if (status != RLX_OK) return status_prefix(status, "output '%s'", g->outputs.data[o].name);
    rlx_tensor_destroy(*out->tensor);
    *out->tensor = t;
  }
  out->result = is->dtype == RLX_UNDEFINED ? *is : tensor_operand(t);
  out->result.data = t->data;
  return RLX_OK;
}

/* Memory of a device that an output lies in. */
static gpu_place output_place(const program_output *out) {
  const rlx_tensor *t = out->given ? out->given : out->call || out->data ? NULL : *out->tensor;
  return (gpu_place){t ? t->device : NULL, 0};
}

static rlx_status prepare_outputs(run_frame *f, program_output *outputs) {
  const stage *s = f->stage;
  for (int i = 0; i < s->made_count; i++) {
    int o = s->made[i].output;
    const fact *fa = &s->facts[program_slot(s->program, s->program->graph->outputs.data[o].value)];
    rlx_operand is = type_operand(&fa->type);
    RLX_TRY(output_memory(f, o, &outputs[o], &is));
    f->slots[s->made[i].slot].data = outputs[o].result.data;
    f->places[s->made[i].slot] = output_place(&outputs[o]);
  }
  return RLX_OK;
}

/* A result of the whole run gets texts of its own; those of a subgraph last as long as the run. */
static rlx_status copy_texts(rlx_tensor *to, const rlx_operand *from) {
  const rlx_string *s = from->data;
  arena_finish(&to->strings); /* the texts of the run before */
  for (int64_t i = 0; i < from->count; i++)
    RLX_TRY(rlx_tensor_set_string(to, i, s[i].data ? s[i].data : "", s[i].size));
  return RLX_OK;
}

static rlx_status copy_output(const run_frame *f, int o, program_output *out, const rlx_operand *from) {
  const rlx_graph *g = f->stage->program->graph;
  bool inner = out->call != NULL;
  if (!inner && operand_is_cell(from)) {
    if (out->data)
      return RLX_FAIL(INVALID, "output '%s' is no tensor: no memory can be given for it", g->outputs.data[o].name);
    rlx_tensor *value = rlx_tensor_retain(cell_value(from));
    rlx_tensor_destroy(*out->tensor);
    *out->tensor = value;
    return RLX_OK;
  }
  RLX_TRY(output_memory(f, o, out, from));
  gpu_place device = output_place(out);
  if (device.memory && !out->result.data) return gpu_memory_write(device.memory, 0, from->data, from->bytes);
  if (!inner && from->dtype == RLX_STRING) return copy_texts(out->given ? out->given : *out->tensor, from);
  if (from->bytes && out->result.data != from->data) memcpy(out->result.data, from->data, (size_t)from->bytes);
  return RLX_OK;
}

static rlx_status copy_outputs(const run_frame *f, program_output *outputs) {
  const stage *s = f->stage;
  const rlx_graph *g = s->program->graph;
  reading r = {.frame = f};
  for (int i = 0; i < s->copy_count; i++) {
    int o = s->copies[i].output;
    const rlx_operand *from = read_slot(&r, s->copies[i].slot);
    if (!from || (!from->data && from->bytes))
      return RLX_FAIL(INTERNAL, "output '%s' has no bytes", g->outputs.data[o].name);
    RLX_TRY(copy_output(f, o, &outputs[o], from));
  }
  return RLX_OK;
}

/* ---- running ------------------------------------------------------------------------------ */

static rlx_status run_stages(run_state *rs, stage *s, const program_input *inputs, program_output *outputs) {
  const program *p = s->program;
  run_frame *first = NULL, *f;
  size_t own = p->graph->inputs.count;
  stage *held = NULL; /* the current later stage; earlier ones stay with the first through their sets */
  VECTOR(stage *) chain = {0};
  rlx_status status = RLX_OK;
  int64_t steps = 0;
  while (status == RLX_OK) {
    status = frame_get(rs, s, first, &f);
    if (status != RLX_OK) break;
    if (!first) {
      first = f;
      for (size_t i = 0; i < own + p->captures.count; i++) {
        size_t slot = i < own ? p->graph->inputs.data[i]->id : p->graph->values.count + i - own;
        f->slots[slot].data = inputs[i].operand.data;
        f->places[slot] = (gpu_place){inputs[i].device, 0};
      }
    }
    status = prepare_outputs(f, outputs);
    if (status == RLX_OK) status = steps_run(f);
    steps += s->step_count;
    if (status != RLX_OK || !s->rest_count) break;
    status = next_stage(rs, f, &held);
    if (status == RLX_OK && !vector_push(&chain, held)) {
      stage_release(held);
      status = status_no_memory(sizeof held);
    }
    if (status == RLX_OK) s = held;
  }
  if (status == RLX_OK) status = copy_outputs(f, outputs);
  for (size_t i = 0; i < chain.count; i++) stage_release(chain.data[i]);
  vector_finish(&chain);
  rs->steps_seen = steps;
  return status;
}

rlx_status program_run(run_state *rs, const program *p, const program_input *inputs, program_output *outputs,
                       stage **memo) {
  stage *s;
  int level = rs->level;
  RLX_TRY(first_stage(rs, p, inputs, memo, &s));
  rlx_status status = run_stages(rs, s, inputs, outputs);
  rs->level = level;
  if (level == 0) __atomic_store_n(&rs->session->last_steps, rs->steps_seen, __ATOMIC_RELAXED);
  stage_release(s);
  return status;
}

rlx_status run_bind_ahead(rlx_session *s, const build *b) {
  size_t count = b->graph->inputs.count;
  program_input *inputs = mem_array(count, sizeof *inputs);
  if (!inputs) return status_no_memory(count * sizeof *inputs);
  for (size_t i = 0; i < count; i++) {
    const rlx_type *t = &b->graph->inputs.data[i]->type;
    inputs[i].operand = type_operand(t);
  }
  run_state *rs = &s->states[0]; /* nothing runs yet */
  rlx_status status = first_key(rs, b->root, inputs);
  bind_request request = {.program = b->root, .inputs = inputs, .key = rs->key.data, .key_bytes = rs->key.count};
  stage *made = NULL;
  if (status == RLX_OK) status = stage_bind(&request, &s->bind, &made);
  /* A stage that waits for an input's contents is better bound when they are there. */
  if (status == RLX_OK && !made->awaited_count) {
    status = stage_set_add(b->root->stages, made);
    if (!made->rest_count) s->last_steps = made->step_count;
  }
  stage_release(made);
  mem_free(inputs);
  return status;
}
