/* order.c — the order of steps on a GPU: phases that take turns between host and device, as few as the graph allows. */
#include <string.h>

#include "plan/binder.h"

typedef struct reader {
  int step, next; /* index of the next one, or -1 */
} reader;

typedef struct edge {
  int from, to; /* steps: `to` comes after `from` */
} edge;

/* Phases are numbered from 0, even ones on the host. A step is in the first phase of its kind that no step it depends
 * on comes after. Within a phase the order stays; on the device, steps that the next host phase waits for come first,
 * so that the others run beside it. */
typedef struct orderer {
  binder *b;
  int *phase;       /* per step */
  bool *early;      /* per device step: a host step of the next phase depends on it */
  int *writer;      /* per root slot: the step that wrote it last, or -1 */
  int *last_reader; /* per root slot: head of a list of those who read it since, or -1 */
  VECTOR(reader) readers;
  VECTOR(edge) edges;
  int last_effect;
} orderer;

static bool depend(orderer *o, int from, int to) {
  if (from < 0 || from == to) return true;
  const step *steps = o->b->steps.data;
  int least = o->phase[from] + (steps[from].device != steps[to].device);
  if (o->phase[to] < least) o->phase[to] = least;
  return vector_push(&o->edges, (edge){from, to});
}

static bool reads(orderer *o, uint32_t slot, int t) {
  if (slot == NO_SLOT) return true;
  uint32_t r = binder_root(o->b, slot);
  if (!depend(o, o->writer[r], t)) return false;
  if (!vector_push(&o->readers, (reader){t, o->last_reader[r]})) return false;
  o->last_reader[r] = (int)o->readers.count - 1;
  return true;
}

static bool writes(orderer *o, uint32_t slot, int t) {
  if (slot == NO_SLOT) return true;
  uint32_t r = binder_root(o->b, slot);
  if (!depend(o, o->writer[r], t)) return false;
  for (int i = o->last_reader[r]; i >= 0; i = o->readers.data[i].next)
    if (!depend(o, o->readers.data[i].step, t)) return false;
  o->writer[r] = t;
  o->last_reader[r] = -1;
  return true;
}

static bool find_phases(orderer *o) {
  binder *b = o->b;
  for (int t = 0; t < (int)b->steps.count; t++) {
    const step *s = &b->steps.data[t];
    o->phase[t] = s->device;
    for (int i = 0; i < step_input_count(s); i++)
      if (!reads(o, s->from->inputs[i], t)) return false;
    for (int i = 0; i < step_output_count(s); i++)
      if (!writes(o, s->from->outputs[i], t)) return false;
    if (!(s->from->node->op->op.traits & RLX_SIDE_EFFECT)) continue;
    if (!depend(o, o->last_effect, t)) return false;
    o->last_effect = t;
  }
  for (size_t i = o->edges.count; i-- > 0;) { /* edges are in the order of where they lead to */
    const edge *e = &o->edges.data[i];
    if (!b->steps.data[e->from].device) continue;
    bool host_next = !b->steps.data[e->to].device && o->phase[e->to] == o->phase[e->from] + 1;
    bool same = o->phase[e->to] == o->phase[e->from] && o->early[e->to];
    if (host_next || same) o->early[e->from] = true;
  }
  return true;
}

/* Twice the phase, and one more for device steps that run beside the host phase after them. */
static int rank_of(const orderer *o, int t) { return 2 * o->phase[t] + (o->b->steps.data[t].device && !o->early[t]); }

/* Steps by rank, stably. Memory that a step beside a host phase frees is not used again before that phase is over. */
static rlx_status arrange(orderer *o) {
  binder *b = o->b;
  int count = (int)b->steps.count, ranks = 0;
  for (int t = 0; t < count; t++)
    if (rank_of(o, t) >= ranks) ranks = rank_of(o, t) + 1;
  step *sorted = arena_array(&b->scratch, (size_t)count, sizeof *sorted);
  int *start = arena_array(&b->scratch, (size_t)ranks + 4, sizeof *start);
  if (!sorted || !start) return status_no_memory((size_t)count * sizeof *sorted);
  for (int t = 0; t < count; t++) start[rank_of(o, t) + 1]++;
  for (int r = 0; r < ranks + 3; r++) start[r + 1] += start[r];
  int *at = arena_copy(&b->scratch, start, (size_t)(ranks + 4) * sizeof *at);
  if (!at) return status_no_memory((size_t)ranks * sizeof *at);
  for (int t = 0; t < count; t++) {
    int r = rank_of(o, t), to = at[r]++;
    sorted[to] = b->steps.data[t];
    bool beside = r % 4 == 3; /* device phases are odd */
    sorted[to].free_at = beside && start[r + 2] > start[r + 1] ? start[r + 2] - 1 : to;
  }
  memcpy(b->steps.data, sorted, (size_t)count * sizeof *sorted);
  return RLX_OK;
}

rlx_status binder_order(binder *b) {
  size_t count = b->steps.count, slots = b->p->slot_count;
  bool device = false, host = false;
  for (size_t t = 0; t < count; t++) *(b->steps.data[t].device ? &device : &host) = true;
  if (!device || !host) return RLX_OK;
  orderer o = {.b = b, .last_effect = -1};
  o.phase = arena_array(&b->scratch, count, sizeof *o.phase);
  o.early = arena_array(&b->scratch, count, sizeof *o.early);
  o.writer = arena_array(&b->scratch, slots, sizeof *o.writer);
  o.last_reader = arena_array(&b->scratch, slots, sizeof *o.last_reader);
  if (!o.phase || !o.early || !o.writer || !o.last_reader) return status_no_memory(slots * sizeof *o.writer);
  for (size_t i = 0; i < slots; i++) o.writer[i] = o.last_reader[i] = -1;
  rlx_status status = find_phases(&o) ? arrange(&o) : status_no_memory(count);
  vector_finish(&o.readers);
  vector_finish(&o.edges);
  return status;
}
