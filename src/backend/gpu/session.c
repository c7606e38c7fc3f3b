/* session.c — what one session keeps on a device: constants, compiled kernels, and its bound stages. */
#include <string.h>

#include "backend/gpu/steps.h"

/* ---- constants ---------------------------------------------------------------------------- */

struct gpu_constant {
  int refs; /* under the session's lock */
  gpu_memory *memory;
  struct gpu_constant_key {
    const void *data; /* whoever has a reference keeps these bytes too */
    int64_t bytes;
  } key;
};

gpu_span gpu_constant_span(const gpu_constant *c) { return gpu_memory_span(c->memory, 0, c->key.bytes); }

static rlx_status make_constant(gpu_session *s, const void *data, int64_t bytes, gpu_constant **out) {
  gpu_constant *c = mem_zalloc(sizeof *c);
  if (!c) return status_no_memory(sizeof *c);
  c->refs = 1;
  c->key.data = data;
  c->key.bytes = bytes;
  rlx_status status = gpu_memory_make(s->shared, bytes, 0, &c->memory);
  if (status == RLX_OK) status = gpu_memory_write(c->memory, 0, data, bytes);
  if (status == RLX_OK && !map_put_bytes(&s->constants, &c->key, sizeof c->key, c))
    status = status_no_memory(sizeof *c);
  if (status == RLX_OK) {
    *out = c;
    return RLX_OK;
  }
  gpu_memory_release(c->memory);
  mem_free(c);
  return status;
}

rlx_status gpu_constant_get(gpu_session *s, const void *data, int64_t bytes, gpu_constant **out) {
  struct gpu_constant_key key = {data, bytes};
  pthread_mutex_lock(&s->lock);
  gpu_constant *old = map_get_bytes(&s->constants, &key, sizeof key);
  rlx_status status = RLX_OK;
  if (old) {
    old->refs++;
    *out = old;
  } else {
    status = make_constant(s, data, bytes, out);
  }
  pthread_mutex_unlock(&s->lock);
  return status;
}

void gpu_constant_release(gpu_session *s, gpu_constant *c) {
  pthread_mutex_lock(&s->lock);
  bool last = --c->refs == 0;
  if (last) map_remove_bytes(&s->constants, &c->key, sizeof c->key);
  pthread_mutex_unlock(&s->lock);
  if (!last) return;
  gpu_memory_release(c->memory);
  mem_free(c);
}

/* ---- kernels ------------------------------------------------------------------------------ */

typedef struct kernel_key {
  const rlx_node *node;
  const kernel_entry *kernel;
} kernel_key;

static void free_set(gpu_session *s, gpu_kernel_set *set) {
  for (int i = 0; i < set->count; i++)
    if (set->kernels[i]) s->shared->api->kernel_destroy(s->shared->device, set->kernels[i]);
  mem_free(set);
}

static rlx_status compile(gpu_session *s, const rlx_node *n, const rlx_gpu_kernel *k, gpu_kernel_set **out) {
  int count = 0;
  while (k->functions[count].name) count++;
  gpu_kernel_set *set = mem_zalloc(sizeof *set + (size_t)count * sizeof *set->kernels);
  if (!set) return status_no_memory((size_t)count);
  set->count = count;
  rlx_status status = RLX_OK;
  for (int i = 0; i < count && status == RLX_OK; i++) {
    gpu_source source = {&k->functions[i], n};
    status = s->shared->api->kernel_create(s->shared->device, &source, &set->kernels[i]);
  }
  if (status == RLX_OK) {
    *out = set;
    return RLX_OK;
  }
  char kept[STATUS_TEXT_BYTES];
  status_save(kept);
  free_set(s, set);
  status_restore(kept);
  return status_prefix(status, "node '%s' (%s), kernel %s", rlx_node_name(n), rlx_node_op(n), k->head.name);
}

rlx_status gpu_session_kernels(gpu_session *s, const rlx_node *n, const kernel_entry *k, const gpu_kernel_set **out) {
  kernel_key key = {n, k};
  pthread_mutex_lock(&s->lock);
  gpu_kernel_set *set = map_get_bytes(&s->kernels, &key, sizeof key);
  rlx_status status = RLX_OK;
  if (!set) {
    status = compile(s, n, k->record, &set);
    if (status == RLX_OK && !map_put_bytes(&s->kernels, &key, sizeof key, set)) {
      free_set(s, set);
      status = status_no_memory(sizeof key);
    }
  }
  pthread_mutex_unlock(&s->lock);
  if (status == RLX_OK) *out = set;
  return status;
}

rlx_status gpu_session_build(gpu_session *s, const program *p) {
  const gpu_kernel_set *set;
  for (int i = 0; i < p->node_count; i++) {
    const program_node *n = &p->nodes[i];
    const selection *sel = n->node->selection;
    for (int k = 0; sel && k < sel->count; k++)
      if (sel->chosen[k].tier == RLX_TIER_PORTABLE)
        RLX_TRY(gpu_session_kernels(s, n->node, sel->chosen[k].kernel, &set));
    for (int k = 0; k < n->child_count; k++) RLX_TRY(gpu_session_build(s, n->children[k]));
  }
  return RLX_OK;
}

/* ---- sessions ----------------------------------------------------------------------------- */

rlx_status gpu_session_create(const backend *b, int index, const debug_options *debug, gpu_session **out) {
  gpu_session *s = mem_zalloc(sizeof *s);
  if (!s) return status_no_memory(sizeof *s);
  s->debug = *debug;
  gpu_open_options options = {.debug = debug->switches & (DEBUG_VALIDATE | DEBUG_CHECK),
                              .discrete = (debug->switches & DEBUG_DISCRETE) != 0};
  rlx_status status = gpu_shared_acquire(b->gpu, index, &options, &s->shared);
  if (status != RLX_OK) {
    mem_free(s);
    return status;
  }
  pthread_mutex_init(&s->lock, NULL);
  *out = s;
  return RLX_OK;
}

void gpu_session_destroy(gpu_session *s) {
  if (!s) return;
  size_t at = 0;
  const char *name;
  for (gpu_kernel_set *set; (set = map_next(&s->kernels, &at, &name));) free_set(s, set);
  map_finish(&s->kernels);
  map_finish(&s->constants);
  pthread_mutex_destroy(&s->lock);
  gpu_shared_release(s->shared);
  mem_free(s);
}

gpu_shared *gpu_session_shared(gpu_session *s) { return s->shared; }

rlx_status gpu_memory_create(gpu_session *s, int64_t bytes, int64_t host_bytes, gpu_memory **out) {
  return gpu_memory_make(s->shared, bytes, host_bytes, out);
}

bool gpu_memory_of(const gpu_memory *m, const gpu_session *s) { return m && s && m->shared == s->shared; }

rlx_status gpu_session_sync(gpu_session *s, const rlx_sync *objects, int count, bool signal) {
  const gpu_api *api = s->shared->api;
  if (!count) return RLX_OK;
  if (!api->sync_wait) return RLX_FAIL(UNSUPPORTED, "%s has no objects to wait for or to signal", api->name);
  return signal ? api->sync_signal(s->shared->device, objects, count)
                : api->sync_wait(s->shared->device, objects, count);
}

double gpu_session_trip_us(const gpu_session *s) { return s->shared->trip_us; }

void gpu_session_stats(gpu_session *s, gpu_stats *out) {
  *out = (gpu_stats){
      __atomic_load_n(&s->stats.trips, __ATOMIC_RELAXED), __atomic_load_n(&s->stats.submits, __ATOMIC_RELAXED),
      __atomic_load_n(&s->stats.staged, __ATOMIC_RELAXED), __atomic_load_n(&s->stats.recorded, __ATOMIC_RELAXED),
      __atomic_load_n(&s->stats.replayed, __ATOMIC_RELAXED)};
}

/* ---- stages ------------------------------------------------------------------------------- */

void gpu_stage_free(void *opaque) {
  gpu_stage *g = opaque;
  for (size_t i = 0; i < g->constants.count; i++) gpu_constant_release(g->session, g->constants.data[i]);
  vector_finish(&g->constants);
  vector_finish(&g->commands);
  vector_finish(&g->segments);
  vector_finish(&g->actions);
  arena_finish(&g->memory);
  mem_free(g);
}

/* The location of an external slot, made if device steps use it. */
static int location_of(gpu_stage *g, uint32_t slot, int64_t bytes, bool make) {
  int i = 0;
  while (i < g->location_count && g->locations[i].slot != slot) i++;
  if (i == g->location_count) {
    if (!make) return GPU_NOWHERE;
    g->locations[g->location_count++] = (gpu_location){.slot = slot};
    for (int k = 0; k < g->stage->made_count; k++) g->locations[i].made |= g->stage->made[k].slot == slot;
  }
  if (bytes > g->locations[i].bytes) g->locations[i].bytes = bytes;
  return i + 1;
}

static rlx_status constant_ref(gpu_stage *g, const rlx_operand *o, gpu_ref *r) {
  gpu_constant *c;
  if (!o->bytes || !o->data) return RLX_OK;
  RLX_TRY(gpu_constant_get(g->session, o->data, o->bytes, &c));
  if (!vector_push(&g->constants, c)) {
    gpu_constant_release(g->session, c);
    return status_no_memory(sizeof c);
  }
  *r = (gpu_ref){.where = GPU_CONSTANT, .constant = (int)g->constants.count - 1, .bytes = o->bytes};
  return RLX_OK;
}

/* Outputs of data-dependent size have no place of their own before they run, but room in run memory. */
static void dynamic_ref(const gpu_stage *g, const step *st, int operand, gpu_ref *r) {
  int output = operand - st->from->input_count - st->from->hidden_count;
  if (!st->dynamic || output < 0 || st->from->outputs[output] == NO_SLOT) return;
  const place *room = &g->stage->facts[st->from->outputs[output]].where;
  if (room->kind == PLACE_ARENA) *r = (gpu_ref){.where = GPU_ARENA, .offset = room->offset, .bytes = room->bytes};
}

static rlx_status fill_refs(gpu_stage *g, int t, bool device) {
  const stage *s = g->stage;
  const step *st = &s->steps[t];
  int total = st->from->input_count + st->from->hidden_count + st->from->node->output_count;
  g->workspaces[t] = (gpu_ref){.where = st->workspace_bytes ? GPU_ARENA : GPU_NOWHERE,
                               .offset = st->workspace_offset,
                               .bytes = st->workspace_bytes};
  for (int i = 0; i < total; i++) {
    const place *p = &s->places[st->first_operand + i];
    const rlx_operand *o = &s->operands[st->first_operand + i];
    gpu_ref *r = &g->refs[st->first_operand + i];
    *r = (gpu_ref){.where = GPU_NOWHERE};
    if (p->kind == PLACE_ARENA) *r = (gpu_ref){.where = GPU_ARENA, .offset = p->offset, .bytes = o->bytes};
    if (p->kind == PLACE_FIXED && device) RLX_TRY(constant_ref(g, o, r));
    if (p->kind == PLACE_EXTERNAL)
      *r = (gpu_ref){.where = location_of(g, p->slot, o->bytes, device), .bytes = o->bytes};
    if (p->kind == PLACE_NONE) dynamic_ref(g, st, i, r);
  }
  return RLX_OK;
}

static rlx_status fill(gpu_stage *g) {
  const stage *s = g->stage;
  g->refs = arena_array(&g->memory, (size_t)s->operand_count, sizeof *g->refs);
  g->workspaces = arena_array(&g->memory, (size_t)s->step_count, sizeof *g->workspaces);
  g->kernels = arena_array(&g->memory, (size_t)s->step_count, sizeof *g->kernels);
  g->locations = arena_array(&g->memory, (size_t)s->operand_count, sizeof *g->locations);
  if (!g->refs || !g->workspaces || !g->kernels || !g->locations)
    return status_no_memory((size_t)s->operand_count * sizeof *g->refs);
  for (int device = 1; device >= 0; device--) /* device steps first: they decide which slots have locations */
    for (int t = 0; t < s->step_count; t++)
      if (s->steps[t].device == device) RLX_TRY(fill_refs(g, t, device));
  for (int t = 0; t < s->step_count; t++) {
    const step *st = &s->steps[t];
    if (st->device && st->chosen->tier == RLX_TIER_PORTABLE)
      RLX_TRY(gpu_session_kernels(g->session, st->from->node, st->chosen->kernel, &g->kernels[t]));
  }
  return gpu_steps_plan(g, g->session->shared->device->unified,
                        (g->session->debug.switches & (DEBUG_SYNC | DEBUG_CHECK)) != 0);
}

rlx_status gpu_stage_create(gpu_session *session, stage *s) {
  bool device = false;
  for (int t = 0; t < s->step_count; t++) device |= s->steps[t].device;
  if (!device) return RLX_OK;
  RLX_TRY(gpu_shared_check(session->shared));
  gpu_stage *g = mem_zalloc(sizeof *g);
  if (!g) return status_no_memory(sizeof *g);
  g->session = session;
  g->stage = s;
  rlx_status status = fill(g);
  if (status != RLX_OK) {
    char kept[STATUS_TEXT_BYTES];
    status_save(kept);
    gpu_stage_free(g);
    status_restore(kept);
    return status;
  }
  s->device = g;
  s->device_release = gpu_stage_free;
  return RLX_OK;
}

void gpu_stage_cost(const stage *s, gpu_cost *out) {
  if (s->device) {
    *out = gpu_stage_of(s)->cost;
    return;
  }
  *out = (gpu_cost){.host_steps = s->step_count};
}

int64_t gpu_stage_host_bytes(const stage *s) { return gpu_stage_of(s)->host_bytes; }

bool gpu_stage_uses(const stage *s, uint32_t slot) {
  const gpu_stage *g = gpu_stage_of(s);
  for (int i = 0; i < g->location_count; i++)
    if (g->locations[i].slot == slot) return true;
  return false;
}
