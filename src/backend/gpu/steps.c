/* steps.c — plans one run of a stage: what is submitted together, where the host waits, barriers, transfers. Follows
 * from the order of steps and the ranges they read and write; nothing here is a matter of luck, and all of it is before
 * the first run. */
#include "backend/gpu/steps.h"

typedef VECTOR(gpu_ref) ref_list;

typedef struct planning {
  gpu_stage *g;
  const stage *s;
  bool unified, sync;
  int *segment;   /* per device step: the one it is in */
  int first_open; /* first step of the segment being filled, or -1 */
  int waited;     /* segments up to this one are done: -1 none */
  ref_list stale; /* discrete: ranges the host has written and the device has not got */
} planning;

typedef struct access {
  gpu_ref ref;
  bool write;
} access;

static bool overlap(const gpu_ref *a, const gpu_ref *b) {
  return a->where >= 0 && a->where == b->where && a->bytes > 0 && b->bytes > 0 && a->offset < b->offset + b->bytes &&
         b->offset < a->offset + a->bytes;
}

static int operand_total(const step *st) {
  return st->from->input_count + st->from->hidden_count + st->from->node->output_count;
}

/* Access i of step t; false past the last one. */
static bool get_access(const planning *p, int t, int i, access *out) {
  const step *st = &p->s->steps[t];
  int total = operand_total(st), inputs = st->from->input_count + st->from->hidden_count;
  if (i > total) return false;
  out->ref = i < total ? p->g->refs[st->first_operand + i] : p->g->workspaces[t];
  out->write = i >= inputs;
  return true;
}

static bool in_conflict(const planning *p, int a, int b) {
  access x, y;
  for (int i = 0; get_access(p, a, i, &x); i++) {
    if (x.ref.where < 0 || !x.ref.bytes) continue;
    for (int k = 0; get_access(p, b, k, &y); k++)
      if ((x.write || y.write) && overlap(&x.ref, &y.ref)) return true;
  }
  return false;
}

/* ---- segments and waits ------------------------------------------------------------------- */

static bool add_action(planning *p, gpu_action_kind kind, int at, int end) {
  return vector_push(&p->g->actions, (gpu_action){kind, at, end});
}

/* Closes a segment over the device steps [first, last]; the steps between the two that are the host's are no part of
 * it. */
static bool close_segment(planning *p, int first, int last) {
  gpu_segment seg = {.first_step = first, .last_step = last};
  for (int t = first; t <= last; t++) {
    const step *st = &p->s->steps[t];
    p->segment[t] = (int)p->g->segments.count;
    seg.once |= (st->chosen->kernel->head.traits & RLX_NOT_REPLAYABLE) != 0;
  }
  return vector_push(&p->g->segments, seg) && add_action(p, GPU_SUBMIT, (int)p->g->segments.count - 1, 0);
}

/* Closes what is open before step `end`: after step `need`, if it is in there, so that it can be waited for alone. */
static bool close_open(planning *p, int need, int end) {
  int first = p->first_open;
  p->first_open = -1;
  if (first < 0) return true;
  if (need < first || need == end - 1) return close_segment(p, first, end - 1);
  return close_segment(p, first, need) && close_segment(p, need + 1, end - 1);
}

/* The last unfinished device step that host step h conflicts with; -1: none. */
static int last_conflict(const planning *p, int h) {
  for (int t = h - 1; t >= 0; t--) {
    if (!p->s->steps[t].device) continue;
    bool open = p->first_open >= 0 && t >= p->first_open;
    if (!open && p->segment[t] <= p->waited) return -1; /* segments end in order */
    if (in_conflict(p, t, h)) return t;
  }
  return -1;
}

/* Host steps [begin, end): those before the first that must wait, then one wait for all of them. */
static bool plan_host_group(planning *p, int begin, int end) {
  int need = -1, first = end;
  for (int h = begin; h < end; h++) {
    int t = last_conflict(p, h);
    if (t >= 0 && first == end) first = h;
    if (t > need) need = t;
  }
  if (!close_open(p, need, begin)) return false;
  if (first > begin && !add_action(p, GPU_HOST, begin, first)) return false;
  if (need < 0) return true;
  p->waited = p->segment[need];
  return add_action(p, GPU_WAIT, p->waited, 0) && add_action(p, GPU_HOST, first, end);
}

static bool plan_actions(planning *p) {
  for (int t = 0; t < p->s->step_count;) {
    if (p->s->steps[t].device) {
      if (p->first_open < 0) p->first_open = t;
      t++;
      if (!p->sync) continue;
      if (!close_open(p, -1, t) || !add_action(p, GPU_SYNC, (int)p->g->segments.count - 1, 0)) return false;
      p->waited = (int)p->g->segments.count - 1;
      continue;
    }
    int end = t;
    while (end < p->s->step_count && !p->s->steps[end].device) end++;
    if (!plan_host_group(p, t, end)) return false;
    t = end;
  }
  return close_open(p, -1, p->s->step_count);
}

/* ---- commands ----------------------------------------------------------------------------- */

static bool add_command(planning *p, gpu_command c) {
  gpu_stage *g = p->g;
  if (c.kind == GPU_UP || c.kind == GPU_DOWN) g->cost.staged += c.range.bytes;
  return vector_push(&g->commands, c);
}

/* Everything since the last barrier of this list. */
typedef VECTOR(access) window;

static bool window_conflicts(const window *w, const access *a) {
  for (size_t i = 0; i < w->count; i++)
    if ((w->data[i].write || a->write) && overlap(&w->data[i].ref, &a->ref)) return true;
  return false;
}

static bool barrier(planning *p, window *w) {
  w->count = 0;
  return add_command(p, (gpu_command){.kind = GPU_BARRIER});
}

static void drop_overlapping(ref_list *list, const gpu_ref *r) {
  for (size_t i = 0; i < list->count; i++)
    if (overlap(&list->data[i], r)) list->data[i--] = list->data[--list->count];
}

/* Before device step t: what the host has written of its inputs. */
static bool bring_up(planning *p, int t, window *w) {
  access a;
  for (int i = 0; get_access(p, t, i, &a); i++) {
    for (size_t k = 0; k < p->stale.count && !a.write; k++) {
      if (!overlap(&p->stale.data[k], &a.ref)) continue;
      access up = {p->stale.data[k], true};
      if (window_conflicts(w, &up) && !barrier(p, w)) return false;
      if (!add_command(p, (gpu_command){.kind = GPU_UP, .range = up.ref}) || !vector_push(w, up)) return false;
      p->stale.data[k--] = p->stale.data[--p->stale.count];
    }
    if (a.write) drop_overlapping(&p->stale, &a.ref);
  }
  return true;
}

static bool plan_step(planning *p, int t, window *w) {
  access a;
  bool wait = false;
  if (!bring_up(p, t, w)) return false;
  for (int i = 0; get_access(p, t, i, &a) && !wait; i++) wait = window_conflicts(w, &a);
  if (wait && !barrier(p, w)) return false;
  for (int i = 0; get_access(p, t, i, &a); i++)
    if (a.ref.where >= 0 && a.ref.bytes && !vector_push(w, a)) return false;
  return add_command(p, (gpu_command){.kind = GPU_STEP, .step = t});
}

static gpu_ref slot_ref(const gpu_stage *g, uint32_t slot);

/* Does the host read r, written by step s, before it is written again? */
static bool host_reads(const planning *p, const gpu_ref *r, int s) {
  access a;
  for (int t = s + 1; t < p->s->step_count; t++) {
    bool written = false;
    for (int i = 0; get_access(p, t, i, &a); i++) {
      if (!overlap(&a.ref, r)) continue;
      if (!a.write && !p->s->steps[t].device) return true;
      written |= a.write;
    }
    if (written) return false;
  }
  const stage *st = p->s;
  for (int i = 0; i < st->copy_count + st->awaited_count + st->export_count; i++) {
    uint32_t slot = i < st->copy_count                       ? st->copies[i].slot
                    : i < st->copy_count + st->awaited_count ? st->awaited[i - st->copy_count]
                                                             : st->exports[i - st->copy_count - st->awaited_count];
    gpu_ref end = slot_ref(p->g, slot);
    if (overlap(&end, r)) return true;
  }
  return false;
}

/* At the end of a segment: what later host steps read of what its steps wrote. */
static bool bring_down(planning *p, const gpu_segment *seg, window *w) {
  access a;
  bool after_barrier = false;
  for (int t = seg->first_step; t <= seg->last_step && !p->unified; t++)
    for (int i = 0; get_access(p, t, i, &a); i++) {
      if (!a.write || a.ref.where < 0 || !a.ref.bytes || !host_reads(p, &a.ref, t)) continue;
      if (!after_barrier && !barrier(p, w)) return false;
      after_barrier = true;
      if (!add_command(p, (gpu_command){.kind = GPU_DOWN, .range = a.ref})) return false;
    }
  return true;
}

static bool plan_commands(planning *p) {
  gpu_stage *g = p->g;
  window w = {0};
  bool ok = true;
  for (size_t i = 0; i < g->actions.count && ok; i++) {
    const gpu_action *act = &g->actions.data[i];
    if (act->kind == GPU_SUBMIT) {
      gpu_segment *seg = &g->segments.data[act->at];
      seg->first = (int)g->commands.count;
      w.count = 0; /* a list begins with a barrier */
      for (int t = seg->first_step; t <= seg->last_step && ok; t++) ok = plan_step(p, t, &w);
      ok = ok && bring_down(p, seg, &w);
      seg->count = (int)g->commands.count - seg->first;
    }
    for (int t = act->at; act->kind == GPU_HOST && !p->unified && t < act->end && ok; t++) {
      access a;
      for (int k = 0; get_access(p, t, k, &a) && ok; k++) {
        if (!a.write || a.ref.where < 0) continue;
        drop_overlapping(&p->stale, &a.ref);
        ok = vector_push(&p->stale, a.ref);
      }
    }
  }
  vector_finish(&w);
  return ok;
}

/* ---- ends --------------------------------------------------------------------------------- */

static gpu_ref slot_ref(const gpu_stage *g, uint32_t slot) {
  const place *where = &g->stage->facts[slot].where;
  gpu_ref r = {.where = GPU_NOWHERE};
  if (where->kind == PLACE_ARENA) r = (gpu_ref){.where = GPU_ARENA, .offset = where->offset};
  for (int i = 0; where->kind == PLACE_EXTERNAL && i < g->location_count; i++)
    if (g->locations[i].slot == where->slot) r.where = i + 1;
  int64_t bytes = g->stage->facts[slot].typed ? type_operand(&g->stage->facts[slot].type).bytes : where->bytes;
  r.bytes = bytes > 0 ? bytes : 0;
  return r;
}

/* Who wrote each output last, and how far into run memory the host reaches. */
static void find_ends(planning *p) {
  gpu_stage *g = p->g;
  access a;
  for (int t = 0; t < p->s->step_count; t++) {
    bool device = p->s->steps[t].device;
    *(device ? &g->cost.device_steps : &g->cost.host_steps) += 1;
    for (int i = 0; get_access(p, t, i, &a); i++) {
      if (a.ref.where == GPU_ARENA && !device && a.ref.offset + a.ref.bytes > g->host_bytes)
        g->host_bytes = a.ref.offset + a.ref.bytes;
      if (a.ref.where < 1) continue;
      if (!device) g->locations[a.ref.where - 1].host = true;
      if (a.write) g->locations[a.ref.where - 1].on_device = device;
    }
  }
  for (int i = 0; i < p->s->copy_count + p->s->awaited_count + p->s->export_count; i++) {
    int k = i - p->s->copy_count;
    uint32_t slot = k < 0                     ? p->s->copies[i].slot
                    : k < p->s->awaited_count ? p->s->awaited[k]
                                              : p->s->exports[k - p->s->awaited_count];
    gpu_ref r = slot_ref(g, slot);
    if (r.where == GPU_ARENA && r.offset + r.bytes > g->host_bytes) g->host_bytes = r.offset + r.bytes;
    if (r.where > 0) g->locations[r.where - 1].host = true;
  }
  for (size_t i = 0; i < g->actions.count; i++) g->cost.trips += g->actions.data[i].kind == GPU_WAIT;
  g->cost.submits = (int)g->segments.count;
}

rlx_status gpu_steps_plan(gpu_stage *g, bool unified, bool sync) {
  planning p = {.g = g, .s = g->stage, .unified = unified, .sync = sync, .first_open = -1, .waited = -1};
  p.segment = mem_array((size_t)g->stage->step_count, sizeof *p.segment);
  bool ok = p.segment && plan_actions(&p) && plan_commands(&p);
  if (ok) find_ends(&p);
  mem_free(p.segment);
  vector_finish(&p.stale);
  return ok ? RLX_OK : status_no_memory((size_t)g->stage->step_count);
}
