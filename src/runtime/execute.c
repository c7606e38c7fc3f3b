/* execute.c — runs the steps of a stage, in order; and what kernels ask of the executor while they run. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "ir/shape.h"
#include "runtime/session.h"

/* Kernels that are not thread-safe run one at a time in the whole process. */
static pthread_mutex_t serial_lock = PTHREAD_MUTEX_INITIALIZER;

static rlx_status step_failed(run_frame *f, int t, rlx_status status) {
  const step *s = &f->stage->steps[t];
  failure *fail = &f->rs->failure;
  if (fail->taken)
    status = status_fail(fail->code, "%s", fail->text);
  else if (status == RLX_CANCELLED)
    status = RLX_FAIL(CANCELLED, "the run was cancelled");
  else if (!*rlx_error_message())
    status = status_fail(status, "the kernel returned '%s' without saying why", rlx_status_name(status));
  return status_prefix(status, "node '%s' (%s), kernel %s", s->from->node->name, s->from->node->op_name,
                       candidate_name(s->chosen));
}

static bool cancelled(const run_state *rs) { return rs->cancel && __atomic_load_n(rs->cancel, __ATOMIC_RELAXED); }

static rlx_status check_sizes_said(run_frame *f, int t) {
  const step *s = &f->stage->steps[t];
  for (int i = 0; i < s->from->node->output_count; i++) {
    uint32_t slot = s->from->outputs[i];
    if (slot != NO_SLOT && f->stage->facts[slot].dynamic && !f->slots[slot].data)
      return RLX_FAIL(KERNEL, "output %d: the kernel did not say its size", i);
  }
  return RLX_OK;
}

/* ---- the slow way: debugging, tracing, progress ------------------------------------------- */

static void log_step(const run_frame *f, int t, int64_t ns) {
  const step *s = &f->stage->steps[t];
  char line[600], type[200];
  int used = snprintf(line, sizeof line, "run %s '%s' tier %s kernel %s", s->from->node->op_name, s->from->node->name,
                      rlx_tier_name(s->chosen->tier), candidate_name(s->chosen));
  int64_t bytes = 0;
  for (int i = 0; i < s->from->input_count; i++) {
    const rlx_operand *o = &f->ctxs[t].inputs[i];
    rlx_type shown;
    type_set(&shown, o->dtype, o->rank, o->dims);
    bytes += o->bytes;
    if (used > 0 && (size_t)used < sizeof line)
      used += snprintf(line + used, sizeof line - (size_t)used, " %s", type_text(&shown, type, sizeof type));
  }
  for (int i = 0; i < s->from->node->output_count; i++) bytes += f->ctxs[t].outputs[i].bytes;
  log_line(RLX_LOG_DEBUG, "%s, %lld bytes, %lld us", line, (long long)bytes, (long long)ns / 1000);
}

/* An op or a kernel of somebody else's. */
static bool is_custom(const step *s) {
  return !s->from->node->op->builtin || (s->chosen->kernel && !s->chosen->kernel->builtin);
}

static rlx_status run_one(run_frame *f, int t) {
  const step *s = &f->stage->steps[t];
  bool serial = s->chosen->kernel && (s->chosen->kernel->head.traits & RLX_NOT_THREAD_SAFE);
  if (serial) pthread_mutex_lock(&serial_lock);
  rlx_status status = s->run(&f->ctxs[t]);
  if (serial) pthread_mutex_unlock(&serial_lock);
  return status;
}

rlx_status step_run(run_frame *f, int t) {
  run_state *rs = f->rs;
  uint32_t debug = rs->session->debug.switches;
  if (cancelled(rs)) return step_failed(f, t, RLX_CANCELLED);
  int64_t begin = clock_ns();
  rlx_status status = run_one(f, t);
  int64_t end = clock_ns();
  if (status == RLX_OK && !rs->failure.taken && (debug & DEBUG_CHECK)) status = step_check(f, t);
  if (status != RLX_OK || rs->failure.taken) return step_failed(f, t, status);
  if ((debug & DEBUG_DISPATCH) || ((debug & DEBUG_CUSTOM) && is_custom(&f->stage->steps[t])))
    log_step(f, t, end - begin);
  if (trace_is_on(&rs->session->trace)) trace_step(&rs->session->trace, &f->stage->steps[t], begin, end);
  rs->steps_done++;
  if (rs->options && rs->options->progress)
    rs->options->progress(rs->options->progress_user, rs->steps_done, rs->steps_total);
  return RLX_OK;
}

static rlx_status run_slowly(run_frame *f) {
  for (int t = 0; t < f->stage->step_count; t++) RLX_TRY(step_run(f, t));
  return RLX_OK;
}

static rlx_status run_fast(run_frame *f) {
  const step *steps = f->stage->steps;
  rlx_ctx *ctxs = f->ctxs;
  const int *failed = &f->rs->failure.taken;
  for (int t = 0; t < f->stage->step_count; t++) {
    rlx_status status = steps[t].run(&ctxs[t]);
    if (__builtin_expect(status != RLX_OK || *(const volatile int *)failed, 0)) return step_failed(f, t, status);
    if (__builtin_expect(cancelled(f->rs), 0)) return step_failed(f, t, RLX_CANCELLED);
  }
  return RLX_OK;
}

static bool is_made(const stage *s, uint32_t slot) {
  for (int i = 0; i < s->made_count; i++)
    if (s->made[i].slot == slot) return true;
  return false;
}

/* Memory that the host does not see, and steps of the host want: a copy, until the run ends. */
static rlx_status reveal(run_frame *f, uint32_t slot) {
  const gpu_place *p = &f->places[slot];
  int64_t bytes = gpu_memory_bytes(p->memory) - p->offset;
  rlx_tensor *t = NULL;
  RLX_TRY(session_charge(f->rs->session, bytes));
  rlx_status status = tensor_alloc(RLX_UINT8, 1, &bytes, &t);
  if (status == RLX_OK && !vector_push(&f->rs->dynamic, t)) {
    rlx_tensor_destroy(t);
    status = status_no_memory(sizeof t);
  }
  if (status != RLX_OK) {
    (void)session_charge(f->rs->session, -bytes);
    return status;
  }
  f->slots[slot].data = t->data;
  return is_made(f->stage, slot) ? RLX_OK : gpu_memory_read(p->memory, p->offset, t->data, bytes);
}

/* Does a host step use an external slot that nothing shows to the host? */
static bool is_hidden(const run_frame *f, uint32_t slot) {
  return f->places[slot].memory && !(f->gpu && gpu_stage_uses(f->stage, slot));
}

rlx_status frame_patch(run_frame *f) {
  const stage *s = f->stage;
  for (int i = 0; i < s->patch_count; i++) {
    uint32_t slot = s->patches[i].slot;
    if (__builtin_expect(!f->slots[slot].data && is_hidden(f, slot), 0)) RLX_TRY(reveal(f, slot));
    f->operands[s->patches[i].operand].data = f->slots[slot].data;
  }
  return RLX_OK;
}

/* Outputs that host steps made, and that are wanted in such memory. */
static rlx_status conceal(run_frame *f) {
  const stage *s = f->stage;
  for (int i = 0; i < s->made_count; i++) {
    uint32_t slot = s->made[i].slot;
    const gpu_place *p = &f->places[slot];
    if (!is_hidden(f, slot) || gpu_memory_is_unified(p->memory)) continue;
    RLX_TRY(gpu_memory_write(p->memory, p->offset, f->slots[slot].data, type_operand(&s->facts[slot].type).bytes));
  }
  return RLX_OK;
}

rlx_status steps_run(run_frame *f) {
  const stage *s = f->stage;
  run_state *rs = f->rs;
  for (int i = 0; i < s->dynamic_count; i++) {
    f->slots[s->dynamic_slots[i]] = (rlx_operand){0};
    f->places[s->dynamic_slots[i]] = (gpu_place){0}; /* where a run before had it on the device */
  }
  for (int i = 0; i < s->reset_count; i++) f->operands[s->resets[i]].data = NULL;
  status_clear();
  rs->steps_total += s->step_count;
  if (f->gpu) {
    RLX_TRY(device_steps_run(f));
  } else {
    RLX_TRY(frame_patch(f));
    bool slow = f->serial || rs->session->debug.switches || trace_is_on(&rs->session->trace) ||
                (rs->options && rs->options->progress);
    RLX_TRY(slow ? run_slowly(f) : run_fast(f));
  }
  RLX_TRY(conceal(f));
  for (int t = 0; t < s->step_count && s->dynamic_count; t++)
    if (s->steps[t].dynamic) {
      rlx_status status = check_sizes_said(f, t);
      if (status != RLX_OK) return step_failed(f, t, status);
    }
  for (int i = 0; i < s->tally_count; i++) { /* only this run's thread writes its row */
    int64_t *n = &rs->tally[s->tallies[i].row];
    __atomic_store_n(n, __atomic_load_n(n, __ATOMIC_RELAXED) + s->tallies[i].steps, __ATOMIC_RELAXED);
  }
  for (int i = 0; i < s->export_count; i++) {
    uint32_t slot = s->exports[i];
    int64_t offset = s->facts[slot].where.offset;
    if (!s->facts[slot].dynamic) f->slots[slot].data = (char *)f->base + offset;
    f->places[slot] = (gpu_place){s->facts[slot].dynamic ? NULL : f->arena, offset};
  }
  return RLX_OK;
}

/* ---- outputs of data-dependent size ------------------------------------------------------- */

static int dynamic_index(const stage *s, uint32_t slot) {
  for (int i = 0; i < s->dynamic_count; i++)
    if (s->dynamic_slots[i] == slot) return i;
  return -1;
}

static bool same_dims(const rlx_operand *o, int rank, const int64_t *dims) {
  return o->rank == rank && (rank == 0 || memcmp(o->dims, dims, (size_t)rank * sizeof *dims) == 0);
}

static rlx_status dynamic_memory(run_frame *f, uint32_t slot, int rank, const int64_t *dims, rlx_operand *o) {
  const fact *fa = &f->stage->facts[slot];
  int64_t count = shape_count(rank, dims), bytes = rlx_dtype_bytes(fa->type.dtype, count);
  if (rank < 0 || rank > RLX_MAX_RANK || bytes < 0)
    return RLX_FAIL(INVALID, "output of rank %d has impossible dims", rank);
  int index = dynamic_index(f->stage, slot);
  if (rank) memcpy(f->dims[index], dims, (size_t)rank * sizeof *dims);
  *o = (rlx_operand){.dims = f->dims[index], .count = count, .bytes = bytes, .dtype = fa->type.dtype, .rank = rank};
  if (fa->where.kind == PLACE_ARENA) {
    if (bytes > fa->where.bytes)
      return RLX_FAIL(KERNEL, "output has %lld bytes, its output_bound said %lld", (long long)bytes,
                      (long long)fa->where.bytes);
    o->data = (char *)f->base + fa->where.offset;
    return RLX_OK;
  }
  rlx_tensor *t;
  RLX_TRY(session_charge(f->rs->session, bytes));
  rlx_status status = tensor_alloc(fa->type.dtype, rank, dims, &t);
  if (status == RLX_OK && !vector_push(&f->rs->dynamic, t)) {
    rlx_tensor_destroy(t);
    status = status_no_memory(sizeof t);
  }
  if (status != RLX_OK) {
    (void)session_charge(f->rs->session, -bytes);
    return status;
  }
  o->data = t->data;
  return RLX_OK;
}

void *exec_output_shape(rlx_ctx *ctx, int output, int rank, const int64_t *dims) {
  run_exec *e = ctx->executor;
  run_frame *f = e->frame;
  const program_node *n = f->stage->steps[ctx->flags].from;
  if (output < 0 || output >= n->node->output_count || n->outputs[output] == NO_SLOT) {
    (void)rlx_fail(ctx, RLX_INVALID, "rlx_output_shape: output %d is not wanted", output);
    return NULL;
  }
  uint32_t slot = n->outputs[output];
  if (!f->stage->facts[slot].dynamic) {
    if (same_dims(&ctx->outputs[output], rank, dims)) return ctx->outputs[output].data;
    (void)rlx_fail(ctx, RLX_KERNEL, "output %d has other dims than shape inference said", output);
    return NULL;
  }
  rlx_status status = dynamic_memory(f, slot, rank, dims, &f->slots[slot]);
  if (status != RLX_OK) {
    f->slots[slot] = (rlx_operand){0};
    (void)rlx_fail(ctx, status, "%s", rlx_error_message());
    return NULL;
  }
  ctx->outputs[output] = f->slots[slot];
  return f->slots[slot].data;
}

char *exec_text(rlx_ctx *ctx, size_t size) {
  run_state *rs = ((run_exec *)ctx->executor)->rs;
  size_t before = rs->texts.used;
  char *text = size < SIZE_MAX / 2 ? arena_alloc(&rs->texts, size ? size : 1) : NULL;
  rlx_status status = text ? session_charge(rs->session, (int64_t)(rs->texts.used - before)) : status_no_memory(size);
  if (status == RLX_OK) return text;
  (void)rlx_fail(ctx, status, "%s", rlx_error_message());
  return NULL;
}

rlx_status exec_output_value(rlx_ctx *ctx, int output, rlx_tensor *value) {
  const rlx_value *v = rlx_node_output(ctx->node, output);
  bool fits = v && v->type.kind == value->kind && value->kind != RLX_KIND_TENSOR;
  if (!fits || !ctx->outputs[output].data) {
    rlx_tensor_destroy(value);
    return rlx_fail(ctx, RLX_INVALID, "rlx_output_value: output %d is not wanted, or not of this kind", output);
  }
  memcpy(ctx->outputs[output].data, &value, sizeof value);
  return exec_keep(ctx, value);
}
