/* executor.c — runs a stage as steps.c planned it: records or replays, submits, waits, lets the host do its steps. */
#include <string.h>

#include "backend/gpu/frame.h"
#include "base/log.h"

/* ---- frames ------------------------------------------------------------------------------- */

/* Encoding sees the contents of inputs that the host reads on every device, and of no others. */
static void describe_inputs(gpu_frame *f, int t) {
  const stage *s = f->stage->stage;
  const step *st = &s->steps[t];
  const program_node *n = st->from;
  int total = n->input_count + n->hidden_count + n->node->output_count;
  for (int i = 0; i < total; i++) {
    rlx_operand *o = &f->operands[st->first_operand + i];
    const rlx_port *port = i < n->input_count ? op_input_port(n->node->op, i) : NULL;
    o->data = NULL;
    if (!port || !(port->flags & RLX_HOST) || n->inputs[i] == NO_SLOT) continue;
    const rlx_tensor *known = s->facts[n->inputs[i]].known;
    o->data = known ? known->data : NULL;
  }
}

rlx_status gpu_frame_create(const stage *st, gpu_frame **out) {
  const gpu_stage *g = gpu_stage_of(st);
  gpu_frame *f = mem_zalloc(sizeof *f);
  if (!f) return status_no_memory(sizeof *f);
  size_t segments = g->segments.count, locations = (size_t)g->location_count, operands = (size_t)st->operand_count;
  f->stage = g;
  f->session = g->session;
  f->lists = mem_array(segments, sizeof *f->lists);
  f->recorded = mem_array(segments, sizeof *f->recorded);
  f->tickets = mem_array(segments, sizeof *f->tickets);
  f->places = mem_array(locations, sizeof *f->places);
  f->homes = mem_array(locations, sizeof *f->homes);
  f->bound = mem_array(locations, sizeof *f->bound);
  f->hidden = mem_array(locations, sizeof *f->hidden);
  f->moved = mem_array(locations + 1, sizeof *f->moved);
  f->spans = mem_array(operands, sizeof *f->spans);
  f->operands = mem_array(operands, sizeof *f->operands);
  f->first_arguments = mem_array((size_t)st->step_count, sizeof *f->first_arguments);
  if (!f->lists || !f->recorded || !f->tickets || !f->places || !f->homes || !f->bound || !f->hidden || !f->moved ||
      !f->spans || !f->operands || !f->first_arguments) {
    gpu_frame_destroy(f);
    return status_no_memory(operands * sizeof *f->operands);
  }
  for (int t = 0; t < st->step_count; t++) f->first_arguments[t] = -1;
  if (operands) memcpy(f->operands, st->operands, operands * sizeof *f->operands);
  for (int t = 0; t < st->step_count; t++) describe_inputs(f, t);
  *out = f;
  return RLX_OK;
}

void gpu_frame_destroy(gpu_frame *f) {
  if (!f) return;
  const gpu_api *api = f->session->shared->api;
  for (size_t i = 0; f->lists && i < f->stage->segments.count; i++)
    if (f->lists[i]) api->list_destroy(f->lists[i]);
  if (f->before) api->list_destroy(f->before);
  if (f->after) api->list_destroy(f->after);
  for (int i = 0; f->homes && i < f->stage->location_count; i++) gpu_memory_release(f->homes[i]);
  gpu_arguments_finish(f);
  mem_free(f->lists);
  mem_free(f->recorded);
  mem_free(f->tickets);
  mem_free(f->places);
  mem_free(f->homes);
  mem_free(f->bound);
  mem_free(f->hidden);
  mem_free(f->moved);
  mem_free(f->spans);
  mem_free(f->operands);
  mem_free(f->first_arguments);
  mem_free(f);
}

static bool streams(const gpu_frame *f) { return f->session->debug.switches & DEBUG_STREAM; }
static gpu_device *device_of(const gpu_frame *f) { return f->session->shared->device; }
static const gpu_api *api_of(const gpu_frame *f) { return f->session->shared->api; }

static const char *node_name(const gpu_frame *f, int t) { return f->stage->stage->steps[t].from->node->name; }

static void count(int64_t *counter, int64_t n) { __atomic_fetch_add(counter, n, __ATOMIC_RELAXED); }

/* ---- addresses ---------------------------------------------------------------------------- */

static const gpu_place *place_of(const gpu_frame *f, int where) {
  return where == GPU_ARENA ? &f->arena : &f->places[where - 1];
}

gpu_span gpu_frame_span(const gpu_frame *f, const gpu_ref *r) {
  if (r->where == GPU_CONSTANT) return gpu_constant_span(f->stage->constants.data[r->constant]);
  if (r->where < 0) return (gpu_span){0};
  const gpu_place *p = place_of(f, r->where);
  return gpu_memory_span(p->memory, p->offset + r->offset, r->bytes);
}

static gpu_span mirror_span(const gpu_frame *f, const gpu_ref *r) {
  const gpu_place *p = place_of(f, r->where);
  return gpu_memory_mirror_span(p->memory, p->offset + r->offset, r->bytes);
}

void gpu_frame_operands(const gpu_frame *f, int t, gpu_operands *out) {
  const step *st = &f->stage->stage->steps[t];
  *out = (gpu_operands){.node = st->from->node,
                        .kernel = candidate_name(st->chosen),
                        .described = &f->operands[st->first_operand],
                        .spans = &f->spans[st->first_operand],
                        .input_count = st->from->input_count,
                        .output_count = st->from->node->output_count,
                        .workspace = gpu_frame_span(f, &f->stage->workspaces[t]),
                        .params = st->from->node->params,
                        .state = st->state};
}

static bool move_to(gpu_place *at, gpu_place to) {
  bool moved = at->memory != to.memory || at->offset != to.offset;
  *at = to;
  return moved;
}

/* Memory on the device for what is bound on the host. */
static rlx_status home_of(gpu_frame *f, int i, gpu_memory **out) {
  const gpu_location *l = &f->stage->locations[i];
  if (!f->homes[i]) RLX_TRY(gpu_memory_make(f->session->shared, l->bytes, l->bytes, &f->homes[i]));
  *out = f->homes[i];
  return RLX_OK;
}

/* Where location i is in this run. What is bound on the host gets a home, and the slot shows that. */
static rlx_status resolve(gpu_frame *f, const gpu_run *run, int i) {
  const gpu_location *l = &f->stage->locations[i];
  rlx_operand *slot = &run->slots[l->slot];
  gpu_place to = run->places[l->slot];
  f->bound[i] = NULL;
  f->hidden[i] = (gpu_place){0};
  if (to.memory && l->host && gpu_memory_hidden(to.memory) && device_of(f)->unified) { /* the application's */
    f->hidden[i] = to;
    RLX_TRY(home_of(f, i, &to.memory));
    to.offset = 0;
    if (!l->made)
      RLX_TRY(gpu_memory_read(f->hidden[i].memory, f->hidden[i].offset, gpu_memory_host(to.memory), l->bytes));
    run->places[l->slot] = to;
  } else if (!to.memory) {
    RLX_TRY(home_of(f, i, &to.memory));
    to.offset = 0;
    f->bound[i] = slot->data;
    if (!l->made && slot->data && l->bytes) {
      memcpy(gpu_memory_host(to.memory), slot->data, (size_t)l->bytes);
      if (!gpu_memory_is_unified(to.memory)) count(&f->session->stats.staged, l->bytes);
    }
    run->places[l->slot] = to;
  } else if (l->host) {
    RLX_TRY(gpu_memory_mirror(to.memory));
  }
  if (gpu_memory_host(to.memory)) slot->data = (char *)gpu_memory_host(to.memory) + to.offset;
  f->moved[i] = move_to(&f->places[i], to);
  return RLX_OK;
}

/* Does recording step t write its operands' addresses into the list? */
static bool records_operands(const gpu_frame *f, int t) {
  return api_of(f)->records_operands || f->stage->stage->steps[t].chosen->kernel->kind == KERNEL_RAW;
}

/* Recorded raw kernels know the addresses of before. */
static void forget_moved(gpu_frame *f) {
  const gpu_stage *g = f->stage;
  for (size_t k = 0; k < g->segments.count; k++) {
    const gpu_segment *seg = &g->segments.data[k];
    for (int t = seg->first_step; t <= seg->last_step && f->recorded[k]; t++) {
      const step *st = &g->stage->steps[t];
      if (!records_operands(f, t)) continue;
      int total = st->from->input_count + st->from->node->output_count;
      for (int i = 0; i < total; i++) {
        int where = g->refs[st->first_operand + i].where;
        if (where >= 0 && f->moved[where == GPU_ARENA ? g->location_count : where - 1]) f->recorded[k] = false;
      }
      if (g->workspaces[t].where >= 0 && f->moved[g->location_count]) f->recorded[k] = false;
    }
    /* Transfers inside the list name addresses as well. */
    for (int c = seg->first; c < seg->first + seg->count && f->recorded[k]; c++) {
      const gpu_command *cmd = &g->commands.data[c];
      if (cmd->kind != GPU_UP && cmd->kind != GPU_DOWN) continue;
      int where = cmd->range.where;
      if (f->moved[where == GPU_ARENA ? g->location_count : where - 1]) f->recorded[k] = false;
    }
  }
}

static rlx_status resolve_all(gpu_frame *f, const gpu_run *run) {
  const gpu_stage *g = f->stage;
  for (size_t k = 0; k < g->segments.count && !f->started; k++) f->recorded[k] = false;
  for (int i = 0; i < g->location_count; i++) RLX_TRY(resolve(f, run, i));
  f->moved[g->location_count] = move_to(&f->arena, (gpu_place){run->arena, 0});
  bool any = !f->started;
  for (int i = 0; i <= g->location_count; i++) any |= f->moved[i];
  if (!any) return RLX_OK;
  for (int i = 0; i < g->stage->operand_count; i++) f->spans[i] = gpu_frame_span(f, &g->refs[i]);
  forget_moved(f);
  gpu_rewrite_arguments(f);
  f->started = true;
  return RLX_OK;
}

/* ---- recording ---------------------------------------------------------------------------- */

static void record_copy(gpu_frame *f, gpu_list *list, const gpu_ref *r, bool up) {
  gpu_span device = gpu_frame_span(f, r), mirror = mirror_span(f, r);
  api_of(f)->copy(list, up ? &mirror : &device, up ? &device : &mirror);
  if (streams(f)) log_line(RLX_LOG_DEBUG, "stream: %s %lld bytes", up ? "upload" : "download", (long long)r->bytes);
}

static rlx_status record_step(gpu_frame *f, gpu_list *list, int t) {
  const step *st = &f->stage->stage->steps[t];
  const gpu_api *api = api_of(f);
  if (streams(f)) log_line(RLX_LOG_DEBUG, "stream: record %s", st->from->node->name);
  if (api->label) api->label(list, st->from->node->name);
  rlx_status status;
  if (st->chosen->kernel->kind == KERNEL_PORTABLE) {
    status = gpu_encode_portable(f, list, t);
  } else {
    gpu_operands operands;
    gpu_frame_operands(f, t, &operands);
    gpu_raw raw = {st->chosen->kernel->record, &operands,
                   (f->session->debug.switches & (DEBUG_VALIDATE | DEBUG_CHECK | DEBUG_SYNC)) != 0};
    status_clear();
    status = api->encode(list, &raw);
    if (status != RLX_OK && !*rlx_error_message())
      status = status_fail(status, "encode returned '%s' without saying why", rlx_status_name(status));
  }
  if (status == RLX_OK) return RLX_OK;
  return status_prefix(status, "node '%s' (%s), kernel %s", st->from->node->name, st->from->node->op_name,
                       candidate_name(st->chosen));
}

static rlx_status record_commands(gpu_frame *f, gpu_list *list, const gpu_segment *seg) {
  for (int i = seg->first; i < seg->first + seg->count; i++) {
    const gpu_command *c = &f->stage->commands.data[i];
    switch (c->kind) {
      case GPU_STEP: RLX_TRY(record_step(f, list, c->step)); break;
      case GPU_UP:
      case GPU_DOWN: record_copy(f, list, &c->range, c->kind == GPU_UP); break;
      default:
        api_of(f)->barrier(list);
        if (streams(f)) log_line(RLX_LOG_DEBUG, "stream: barrier");
    }
  }
  return RLX_OK;
}

static rlx_status record(gpu_frame *f, int k) {
  const gpu_segment *seg = &f->stage->segments.data[k];
  f->recorded[k] = false;
  RLX_TRY(api_of(f)->list_begin(device_of(f), &f->lists[k]));
  rlx_status status = record_commands(f, f->lists[k], seg);
  if (status == RLX_OK) status = api_of(f)->list_end(f->lists[k]);
  if (status != RLX_OK) { /* a list half recorded is of no use */
    api_of(f)->list_destroy(f->lists[k]);
    f->lists[k] = NULL;
    return status;
  }
  f->recorded[k] = api_of(f)->replays && !seg->once;
  count(&f->session->stats.recorded, 1);
  return RLX_OK;
}

/* ---- what is bound on the host ------------------------------------------------------------ */

static gpu_ref whole(const gpu_frame *f, int i) {
  return (gpu_ref){.where = i + 1, .bytes = f->stage->locations[i].bytes};
}

/* Copies into homes, to be submitted before everything else; *list stays NULL if there is nothing to copy. */
static rlx_status copy_in(gpu_frame *f, gpu_list **list) {
  const gpu_stage *g = f->stage;
  for (int i = 0; i < g->location_count && !device_of(f)->unified; i++) {
    const gpu_location *l = &g->locations[i];
    if (!f->bound[i] || l->made || !l->bytes) continue;
    if (!*list) RLX_TRY(api_of(f)->list_begin(device_of(f), &f->before));
    *list = f->before;
    gpu_ref r = whole(f, i);
    record_copy(f, *list, &r, true);
  }
  return *list ? api_of(f)->list_end(*list) : RLX_OK;
}

/* On a discrete device: outputs whose newest bytes are not where they are wanted. */
static rlx_status copy_out(gpu_frame *f, gpu_list **list) {
  const gpu_stage *g = f->stage;
  for (int i = 0; i < g->location_count && !device_of(f)->unified; i++) {
    const gpu_location *l = &g->locations[i];
    bool up = !f->bound[i] && !l->on_device, down = f->bound[i] && l->on_device;
    if (!l->made || !l->bytes || (!up && !down)) continue;
    if (!*list) RLX_TRY(api_of(f)->list_begin(device_of(f), &f->after));
    *list = f->after;
    gpu_ref r = whole(f, i);
    record_copy(f, *list, &r, up);
    count(&f->session->stats.staged, l->bytes);
  }
  return *list ? api_of(f)->list_end(*list) : RLX_OK;
}

/* The slots show again what was bound, with the outputs' contents in it. */
static rlx_status restore_bound(gpu_frame *f, const gpu_run *run, bool ok) {
  const gpu_stage *g = f->stage;
  rlx_status status = RLX_OK;
  for (int i = 0; i < g->location_count; i++) {
    const gpu_location *l = &g->locations[i];
    if (ok && l->made && f->hidden[i].memory)
      status =
          gpu_memory_write(f->hidden[i].memory, f->hidden[i].offset, gpu_memory_host(f->places[i].memory), l->bytes);
    if (!l->made || !f->bound[i]) continue;
    if (ok && l->bytes) memcpy(f->bound[i], run->slots[l->slot].data, (size_t)l->bytes);
    run->slots[l->slot].data = f->bound[i];
  }
  return status;
}

/* Inputs that live on a discrete device alone, and that host steps read. */
static rlx_status bring_inputs(gpu_frame *f) {
  const gpu_stage *g = f->stage;
  for (int i = 0; i < g->location_count && !device_of(f)->unified; i++) {
    const gpu_location *l = &g->locations[i];
    if (!l->host || f->bound[i] || l->made || !l->bytes) continue;
    const gpu_place *p = &f->places[i];
    RLX_TRY(gpu_memory_read(p->memory, p->offset, (char *)gpu_memory_host(p->memory) + p->offset, l->bytes));
    count(&f->session->stats.staged, l->bytes);
  }
  return RLX_OK;
}

/* ---- running ------------------------------------------------------------------------------ */

static rlx_status fault(const gpu_frame *f, int k, rlx_status status) {
  const gpu_segment *seg = &f->stage->segments.data[k];
  return status_prefix(status, "in the submission from node '%s' to node '%s'", node_name(f, seg->first_step),
                       node_name(f, seg->last_step));
}

static rlx_status submit(gpu_frame *f, gpu_list **lists, int list_count, uint64_t *ticket) {
  RLX_TRY(api_of(f)->submit(device_of(f), lists, list_count, ticket));
  f->last = *ticket;
  count(&f->session->stats.submits, 1);
  return RLX_OK;
}

static rlx_status submit_segment(gpu_frame *f, int k, gpu_list **before) {
  gpu_list *lists[2];
  int n = 0;
  if (f->recorded[k]) {
    count(&f->session->stats.replayed, 1);
    if (streams(f)) log_line(RLX_LOG_DEBUG, "stream: replay %d", k);
  } else {
    RLX_TRY(record(f, k));
  }
  if (*before) lists[n++] = *before;
  *before = NULL;
  lists[n++] = f->lists[k];
  if (streams(f)) log_line(RLX_LOG_DEBUG, "stream: submit %d", k);
  rlx_status status = submit(f, lists, n, &f->tickets[k]);
  return status == RLX_OK ? RLX_OK : fault(f, k, status);
}

static rlx_status wait_segment(gpu_frame *f, int k, bool trip) {
  if (streams(f)) log_line(RLX_LOG_DEBUG, "stream: wait %d", k);
  if (trip) count(&f->session->stats.trips, 1);
  rlx_status status = api_of(f)->wait(device_of(f), f->tickets[k]);
  return status == RLX_OK ? RLX_OK : fault(f, k, status);
}

static rlx_status host_steps(gpu_frame *f, const gpu_run *run, int begin, int end) {
  for (int t = begin; t < end; t++) {
    if (streams(f)) log_line(RLX_LOG_DEBUG, "stream: host %s", node_name(f, t));
    RLX_TRY(run->host_step(run->user, t));
  }
  return RLX_OK;
}

static rlx_status act(gpu_frame *f, const gpu_run *run, const gpu_action *a, gpu_list **before) {
  if (run->cancelled(run->user)) return RLX_FAIL(CANCELLED, "the run was cancelled");
  switch (a->kind) {
    case GPU_HOST: return host_steps(f, run, a->at, a->end);
    case GPU_SUBMIT: return submit_segment(f, a->at, before);
    case GPU_WAIT: return wait_segment(f, a->at, true);
    default: break;
  }
  RLX_TRY(wait_segment(f, a->at, false));
  if (!(f->session->debug.switches & DEBUG_CHECK) || !device_of(f)->unified) return RLX_OK;
  return run->check(run->user, f->stage->segments.data[a->at].first_step);
}

static rlx_status run_actions(gpu_frame *f, const gpu_run *run) {
  const gpu_stage *g = f->stage;
  gpu_list *before = NULL, *after = NULL;
  uint64_t ticket;
  RLX_TRY(bring_inputs(f));
  RLX_TRY(copy_in(f, &before));
  for (size_t i = 0; i < g->actions.count; i++) RLX_TRY(act(f, run, &g->actions.data[i], &before));
  RLX_TRY(copy_out(f, &after));
  if (after) RLX_TRY(submit(f, &after, 1, &ticket));
  if (!f->last) return RLX_OK;
  if (streams(f)) log_line(RLX_LOG_DEBUG, "stream: done");
  rlx_status status = api_of(f)->wait(device_of(f), f->last);
  return status == RLX_OK ? RLX_OK : fault(f, (int)g->segments.count - 1, status);
}

rlx_status gpu_frame_run(gpu_frame *f, const gpu_run *run) {
  RLX_TRY(gpu_shared_check(f->session->shared));
  f->last = 0;
  rlx_status status = resolve_all(f, run);
  if (status == RLX_OK) status = run->relocated(run->user);
  if (status == RLX_OK) {
    if (f->stage->cost.staged) count(&f->session->stats.staged, f->stage->cost.staged);
    status = run_actions(f, run);
  }
  if (status != RLX_OK && f->last) { /* nothing may be under way when the memory is used again */
    char kept[STATUS_TEXT_BYTES];
    status_save(kept);
    (void)api_of(f)->wait(device_of(f), f->last);
    status_restore(kept);
  }
  rlx_status stored = restore_bound(f, run, status == RLX_OK);
  if (status == RLX_OK) status = stored;
  if (status != RLX_OK) f->started = false; /* addresses may be half written */
  return status;
}
