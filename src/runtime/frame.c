/* frame.c — run memory, and the addresses of a stage's operands in it. */
#include <string.h>

#include "runtime/session.h"

rlx_status session_charge(rlx_session *s, int64_t bytes) {
  int64_t now = __atomic_add_fetch(&s->run_bytes, bytes, __ATOMIC_RELAXED);
  if (bytes <= 0 || !s->options.memory_limit || now <= s->options.memory_limit) return RLX_OK;
  __atomic_fetch_sub(&s->run_bytes, bytes, __ATOMIC_RELAXED);
  return RLX_FAIL(OUT_OF_MEMORY, "the session's memory limit of %lld bytes is reached (%lld more wanted)",
                  (long long)s->options.memory_limit, (long long)bytes);
}

rlx_status run_state_memory(run_state *rs, int level, int64_t bytes, void **base) {
  while (rs->buffers.count <= (size_t)level)
    if (!vector_push(&rs->buffers, (run_buffer){0})) return status_no_memory(sizeof(run_buffer));
  run_buffer *b = &rs->buffers.data[level];
  if (b->bytes < bytes) {
    RLX_TRY(session_charge(rs->session, bytes - b->bytes));
    void *data = mem_aligned(256, (size_t)bytes);
    if (!data) {
      (void)session_charge(rs->session, b->bytes - bytes);
      return status_no_memory((size_t)bytes);
    }
    mem_free(b->data);
    *b = (run_buffer){data, bytes};
  }
  if (rs->session->debug.switches & DEBUG_POISON)
    if (b->data) memset(b->data, 0xff, (size_t)b->bytes);
  *base = b->data;
  return RLX_OK;
}

rlx_status run_state_device_memory(run_state *rs, int level, int64_t bytes, int64_t host_bytes, gpu_memory **out) {
  rlx_session *s = rs->session;
  while (rs->device_buffers.count <= (size_t)level)
    if (!vector_push(&rs->device_buffers, (run_device_buffer){0})) return status_no_memory(sizeof(run_device_buffer));
  run_device_buffer *b = &rs->device_buffers.data[level];
  if (b->memory == NULL || b->bytes < bytes || b->host_bytes < host_bytes) {
    run_device_buffer larger = {NULL, bytes > b->bytes ? bytes : b->bytes,
                                host_bytes > b->host_bytes ? host_bytes : b->host_bytes};
    RLX_TRY(session_charge(s, larger.bytes - b->bytes));
    rlx_status status = gpu_memory_create(s->gpu, larger.bytes, larger.host_bytes, &larger.memory);
    if (status != RLX_OK) {
      (void)session_charge(s, b->bytes - larger.bytes);
      return status;
    }
    gpu_memory_release(b->memory);
    *b = larger;
  }
  if ((s->debug.switches & DEBUG_POISON) && gpu_memory_is_unified(b->memory))
    memset(gpu_memory_host(b->memory), 0xff, (size_t)b->bytes);
  *out = b->memory;
  return RLX_OK;
}

void run_state_finish(run_state *rs) {
  for (size_t i = 0; i < rs->device_buffers.count; i++) gpu_memory_release(rs->device_buffers.data[i].memory);
  vector_finish(&rs->device_buffers);
  for (size_t i = 0; i < rs->buffers.count; i++) mem_free(rs->buffers.data[i].data);
  for (size_t i = 0; i < rs->dynamic.count; i++) rlx_tensor_destroy(rs->dynamic.data[i]);
  for (size_t i = 0; i < rs->calls.count; i++) mem_free(rs->calls.data[i].data);
  vector_finish(&rs->buffers);
  vector_finish(&rs->calls);
  vector_finish(&rs->dynamic);
  arena_finish(&rs->texts);
  vector_finish(&rs->key);
}

static void destroy(frame *head) {
  run_frame *f = (run_frame *)head;
  for (int t = 0; t < f->stage->step_count; t++) {
    const candidate *c = f->stage->steps[t].chosen;
    if (f->ctxs[t].run_state && c->kernel->head.run_done) c->kernel->head.run_done(f->ctxs[t].run_state);
  }
  gpu_frame_destroy(f->gpu);
  mem_free(f->memory);
}

/* Carves `count` elements out of one block; the first pass only measures. */
static void *carve(uint8_t *block, size_t *used, size_t count, size_t size) {
  void *p = block ? block + *used : NULL;
  *used += (count * size + 63) / 64 * 64;
  return p;
}

static size_t lay_out(run_frame *f, const stage *s, uint8_t *block, bool first) {
  size_t used = 0;
  (void)carve(block, &used, 1, sizeof *f);
  f->ctxs = carve(block, &used, (size_t)s->step_count, sizeof *f->ctxs);
  f->operands = carve(block, &used, (size_t)s->operand_count, sizeof *f->operands);
  f->own_slots = carve(block, &used, first ? s->program->slot_count : 0, sizeof *f->own_slots);
  f->own_places = carve(block, &used, first ? s->program->slot_count : 0, sizeof *f->own_places);
  f->dims = carve(block, &used, (size_t)s->dynamic_count, sizeof *f->dims);
  return used;
}

static void fill_ctxs(run_frame *f) {
  const stage *s = f->stage;
  if (s->operand_count) memcpy(f->operands, s->operands, (size_t)s->operand_count * sizeof *f->operands);
  for (int t = 0; t < s->step_count; t++) {
    const step *st = &s->steps[t];
    const program_node *n = st->from;
    rlx_operand *first = f->operands + st->first_operand;
    f->ctxs[t] = (rlx_ctx){.struct_size = sizeof(rlx_ctx),
                           .input_count = n->input_count,
                           .output_count = n->node->output_count,
                           .flags = (uint32_t)t,
                           .inputs = first,
                           .outputs = first + n->input_count + n->hidden_count,
                           .params = n->node->params,
                           .state = st->state,
                           .workspace_bytes = st->workspace_bytes,
                           .node = n->node,
                           .executor = &f->exec};
    f->serial |= st->chosen->kernel && (st->chosen->kernel->head.traits & RLX_NOT_THREAD_SAFE);
  }
}

static rlx_status init_run_states(run_frame *f) {
  for (int t = 0; t < f->stage->step_count; t++) {
    const step *st = &f->stage->steps[t];
    if (!st->chosen->kernel || !st->chosen->kernel->head.run_init) continue;
    rlx_status status = st->chosen->kernel->head.run_init(st->state, &f->ctxs[t].run_state);
    if (status != RLX_OK)
      return status_prefix(status, "node '%s' (%s), kernel %s", st->from->node->name, st->from->node->op_name,
                           candidate_name(st->chosen));
  }
  return RLX_OK;
}

static rlx_status create(run_state *rs, stage *s, bool first, run_frame **out) {
  run_frame sizes = {0};
  size_t bytes = lay_out(&sizes, s, NULL, first);
  uint8_t *block = mem_aligned(64, bytes);
  if (!block) return status_no_memory(bytes);
  memset(block, 0, bytes);
  run_frame *f = (run_frame *)(void *)block;
  (void)lay_out(f, s, block, first);
  f->head.destroy = destroy;
  f->stage = s;
  f->rs = rs;
  f->memory = block;
  f->exec = (run_exec){{.failure = &rs->failure,
                        .threads = rs->session->threads,
                        .output_shape = exec_output_shape,
                        .text = exec_text,
                        .output_value = exec_output_value,
                        .delegate_cpu = exec_delegate_cpu,
                        .call = exec_call,
                        .mark = exec_mark,
                        .release = exec_release,
                        .keep = exec_keep,
                        .take = exec_take,
                        .give = exec_give,
                        .cache = rs->session->cache},
                       rs,
                       f};
  fill_ctxs(f);
  rlx_status status = init_run_states(f);
  if (status == RLX_OK && s->device) status = gpu_frame_create(s, &f->gpu);
  if (status != RLX_OK)
    destroy(&f->head);
  else
    *out = f;
  return status;
}

static void relocate(run_frame *f, void *base) {
  const stage *s = f->stage;
  f->base = base;
  if (!base) return; /* hidden on the device, and no step of the host uses it */
  for (int i = 0; i < s->operand_count; i++)
    if (s->places[i].kind == PLACE_ARENA) f->operands[i].data = (char *)base + s->places[i].offset;
  for (int t = 0; t < s->step_count; t++)
    if (s->steps[t].workspace_bytes) f->ctxs[t].workspace = (char *)base + s->steps[t].workspace_offset;
}

rlx_status frame_get(run_state *rs, stage *s, run_frame *first, run_frame **out) {
  run_frame *f = (run_frame *)s->frames[rs->index];
  if (!f) {
    RLX_TRY(create(rs, s, first == NULL, &f));
    s->frames[rs->index] = &f->head;
  }
  void *base;
  if (f->gpu) {
    RLX_TRY(run_state_device_memory(rs, rs->level, s->run_bytes, gpu_stage_host_bytes(s), &f->arena));
    base = gpu_memory_host(f->arena);
  } else {
    RLX_TRY(run_state_memory(rs, rs->level, s->run_bytes, &base));
  }
  rs->level++;
  if (base != f->base) relocate(f, base);
  f->slots = first ? first->slots : f->own_slots;
  f->places = first ? first->places : f->own_places;
  f->exec.head.cancel = rs->cancel;
  *out = f;
  return RLX_OK;
}
