/* session.c — making a session: a graph compiled for a device. */
#include "runtime/session.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "backend/backend.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/need.h"
#include "base/parallel.h"
#include "ir/shape.h"
#include "ir/validate.h"
#include "pass/pass.h"
#include "pass/policy.h"
#include "plan/report.h"

enum { CACHE_BYTES = 256 << 20 };

/* ---- options ------------------------------------------------------------------------------ */

static rlx_status copy_text(rlx_session *s, const char **word) {
  if (!*word) return RLX_OK;
  *word = arena_strdup(&s->memory, *word);
  return *word ? RLX_OK : status_no_memory(1);
}

static rlx_status copy_options(rlx_session *s, const rlx_session_options *given) {
  rlx_session_options *o = &s->options;
  if (given) {
    if (given->struct_size < sizeof(uint32_t) || given->struct_size > 4096)
      return RLX_FAIL(INVALID, "session options: struct_size is not set");
    memcpy(o, given, given->struct_size < sizeof *o ? given->struct_size : sizeof *o);
  }
  o->struct_size = sizeof *o;
  if (o->threads < 0 || o->max_concurrent_runs < 0 || o->max_concurrent_runs > 4096 || o->memory_limit < 0)
    return RLX_FAIL(INVALID, "session options: a negative or absurd count");
  if (o->pin_count < 0 || (o->pin_count && !o->pins) || o->exception_count < 0 ||
      (o->exception_count && !o->exceptions))
    return RLX_FAIL(INVALID, "session options: a count without its list");
  if ((unsigned)o->policy > RLX_POLICY_FORBID)
    return RLX_FAIL(INVALID, "session options: no fallback policy %d", (int)o->policy);
  if (o->budget_trips < 0 || o->budget_bytes < 0) return RLX_FAIL(INVALID, "session options: a negative budget");
  for (int i = 0; i < o->exception_count; i++)
    if ((unsigned)o->exceptions[i].policy > RLX_POLICY_FORBID)
      return RLX_FAIL(INVALID, "session options: no fallback policy %d", (int)o->exceptions[i].policy);
  if (o->fast) return RLX_FAIL(UNSUPPORTED, "session options: no kernel of this build trades precision for speed");
  RLX_TRY(copy_text(s, &o->device));
  RLX_TRY(copy_text(s, &o->disable_passes));
  RLX_TRY(copy_text(s, &o->debug));
  rlx_pin *pins = arena_copy(&s->memory, o->pins, (size_t)o->pin_count * sizeof *pins);
  rlx_policy_exception *exceptions =
      arena_copy(&s->memory, o->exceptions, (size_t)o->exception_count * sizeof *exceptions);
  if (!pins || !exceptions) return status_no_memory(1);
  for (int i = 0; i < o->pin_count; i++) {
    RLX_TRY(copy_text(s, &pins[i].node));
    RLX_TRY(copy_text(s, &pins[i].op));
    RLX_TRY(copy_text(s, &pins[i].kernel));
  }
  for (int i = 0; i < o->exception_count; i++) {
    RLX_TRY(copy_text(s, &exceptions[i].node));
    RLX_TRY(copy_text(s, &exceptions[i].op));
  }
  o->pins = pins;
  o->exceptions = exceptions;
  return RLX_OK;
}

/* "TRIPS" or "TRIPS,BYTES" */
static rlx_status read_budget(rlx_session *s, const char *word) {
  char *end;
  long trips = strtol(word, &end, 10);
  long long bytes = *end == ',' ? strtoll(end + 1, &end, 10) : INT64_MAX;
  if (end == word || *end || trips < 0 || trips > INT_MAX || bytes < 0)
    return RLX_FAIL(INVALID, "RLX_FALLBACK: budget=%s is not budget=TRIPS[,BYTES]", word);
  s->options.policy = RLX_POLICY_BUDGET;
  s->options.budget_trips = (int)trips;
  s->options.budget_bytes = bytes;
  return RLX_OK;
}

static rlx_status read_policy(rlx_session *s) {
  static const char *const names[] = {"allow", "warn", NULL, "forbid"};
  const char *word = option_get(OPTION_FALLBACK);
  if (!word || !*word) return RLX_OK;
  s->policy_from_environment = true;
  s->options.exception_count = 0; /* it speaks for every node */
  if (strncmp(word, "budget=", 7) == 0) return read_budget(s, word + 7);
  for (int i = 0; i < 4; i++)
    if (names[i] && strcmp(word, names[i]) == 0) {
      s->options.policy = (rlx_policy)i;
      return RLX_OK;
    }
  return RLX_FAIL(INVALID, "RLX_FALLBACK: '%s' is no policy: allow, warn, forbid, budget=TRIPS[,BYTES]", word);
}

static rlx_status read_threads(rlx_session *s) {
  s->threads = s->options.threads;
  const char *word = option_get(OPTION_THREADS);
  if (!s->threads && word && *word) {
    char *end;
    long n = strtol(word, &end, 10);
    if (*end || n < 1 || n > 1024) return RLX_FAIL(INVALID, "RLX_THREADS: '%s' is no number of threads", word);
    s->threads = (int)n;
  }
  if (!s->threads) s->threads = parallel_cores();
  return RLX_OK;
}

/* What a run of all stages up to this one costs. */
static gpu_cost total_cost(const stage *st) {
  gpu_cost sum = {0}, one;
  for (; st; st = st->previous) {
    gpu_stage_cost(st, &one);
    sum.trips += one.trips;
    sum.submits += one.submits;
    sum.device_steps += one.device_steps;
    sum.host_steps += one.host_steps;
    sum.staged += one.staged;
  }
  return sum;
}

/* Under the session's lock. */
static rlx_status attach_stage(void *user, stage *st) {
  rlx_session *s = user;
  RLX_TRY(gpu_stage_create(s->gpu, st));
  gpu_cost cost = total_cost(st);
  if (s->options.policy == RLX_POLICY_BUDGET && cost.trips > s->options.budget_trips)
    return RLX_FAIL(POLICY, "a run makes %d trips to the host, and the budget is %d", cost.trips,
                    s->options.budget_trips);
  if (s->options.policy == RLX_POLICY_BUDGET && cost.staged > s->options.budget_bytes)
    return RLX_FAIL(POLICY, "a run stages %lld bytes for the host, and the budget is %lld", (long long)cost.staged,
                    (long long)s->options.budget_bytes);
  if (!st->program->graph->parent) s->cost = cost;
  return RLX_OK;
}

static rlx_status set_up(rlx_session *s, const rlx_session_options *given) {
  RLX_TRY(copy_options(s, given));
  RLX_TRY(debug_options_parse(s->options.debug, &s->debug));
  RLX_TRY(read_policy(s));
  RLX_TRY(read_threads(s));
  const backend *b;
  int index;
  RLX_TRY(backend_find(s->options.device, &b, &index));
  s->target = (target){b->name, b->kernels, b->gpu != NULL, s->options.registry, &s->options};
  if (b->gpu) RLX_TRY(gpu_session_create(b, index, &s->debug, &s->gpu));
  RLX_TRY(cache_create(CACHE_BYTES, &s->cache));
  RLX_TRY(packed_set_create(&s->packed));
  s->state_count = s->options.max_concurrent_runs ? s->options.max_concurrent_runs : parallel_cores();
  s->states = mem_array((size_t)s->state_count, sizeof *s->states);
  if (!s->states) return status_no_memory((size_t)s->state_count * sizeof *s->states);
  s->tallies = mem_array((size_t)s->state_count * TALLY_MAX, sizeof *s->tallies);
  if (!s->tallies) return status_no_memory((size_t)s->state_count * TALLY_MAX * sizeof *s->tallies);
  for (int i = 0; i < s->state_count; i++) {
    s->states[i].session = s;
    s->states[i].tally = s->tallies + (size_t)i * TALLY_MAX;
    s->states[i].index = i;
  }
  s->bind = (bind_context){.packed = s->packed,
                           .cache = s->cache,
                           .threads = s->threads,
                           .run_states = s->state_count,
                           .debug = s->debug,
                           .tally = &s->tally,
                           .bind_ns = &s->bind_ns,
                           .prepare_ns = &s->prepare_ns,
                           .binds = &s->binds,
                           .gpu = s->gpu != NULL,
                           .attach = s->gpu ? attach_stage : NULL,
                           .attach_user = s,
                           .options = &s->options};
  return RLX_OK;
}

/* ---- building ----------------------------------------------------------------------------- */

static void build_finish(build *b) {
  program_destroy(b->root);
  if (b->graph) selection_release(b->graph);
  rlx_graph_destroy(b->graph);
  mem_free(b->ranks);
}

size_t session_port_count(const rlx_session *s) { return s->source->inputs.count + s->source->defaults.count; }

static bool overrides(const rlx_session *s, const int32_t *ranks) {
  size_t first = s->source->inputs.count;
  for (size_t i = 0; i < s->source->defaults.count; i++)
    if (ranks[first + i] != NOT_OVERRIDDEN) return true;
  return false;
}

static void set_rank(rlx_type *t, int32_t rank) {
  if (t->rank >= 0 || rank < 0 || t->kind != RLX_KIND_TENSOR) return;
  t->rank = rank;
  for (int d = 0; d < rank; d++) t->dims[d] = RLX_UNKNOWN;
}

/* Defaults that are bound become inputs, after the others. */
static rlx_status override_defaults(rlx_graph *g, const int32_t *ranks) {
  for (size_t i = 0; i < g->defaults.count; i++) {
    const graph_default *d = &g->defaults.data[i];
    if (ranks[i] == NOT_OVERRIDDEN) continue;
    rlx_tensor_destroy(d->value->constant);
    d->value->constant = NULL;
    d->value->type = d->type;
    set_rank(&d->value->type, ranks[i]);
    d->value->is_input = true;
    if (!vector_push(&g->inputs, d->value)) return status_no_memory(sizeof *d);
  }
  g->defaults.count = 0;
  return RLX_OK;
}

/* Graph → program: the whole of compilation on one page. */
static rlx_status compile(rlx_session *s, const int32_t *ranks, build *out) {
  RLX_TRY(graph_clone(s->source, &out->graph));
  RLX_TRY(override_defaults(out->graph, ranks + s->source->inputs.count));
  for (size_t i = 0; i < s->source->inputs.count; i++) set_rank(&out->graph->inputs.data[i]->type, ranks[i]);
  RLX_TRY(passes_run(out->graph, &s->target, s->options.disable_passes, &s->debug));
  RLX_TRY(policy_check(out->graph, &s->target));
  RLX_TRY(program_create(out->graph, &out->root));
  return s->gpu ? gpu_session_build(s->gpu, out->root) : RLX_OK;
}

static report_input report_of(const rlx_session *s, const rlx_graph *g, const rlx_session_stats *stats) {
  report_input in = {.graph = g,
                     .device = s->target.device,
                     .policy = s->options.policy,
                     .stats = stats,
                     .policy_from_environment = s->policy_from_environment,
                     .options = &s->options,
                     .gpu = s->gpu != NULL};
  if (!s->gpu) return in;
  in.trips = s->cost.trips;
  in.submits = s->cost.submits;
  in.device_steps = s->cost.device_steps;
  in.staged = s->cost.staged;
  in.trip_us = gpu_session_trip_us(s->gpu);
  return in;
}

static void log_selection(const rlx_session *s, const build *b) {
  text t = {0};
  rlx_session_stats none = {.struct_size = sizeof none};
  report_input in = report_of(s, b->graph, &none);
  if (report_write(&in, RLX_REPORT_TEXT, &t) == RLX_OK && t.data) log_text(RLX_LOG_DEBUG, t.data);
  text_finish(&t);
}

static rlx_status make_build(rlx_session *s, const int32_t *ranks) {
  size_t bytes = session_port_count(s) * sizeof *ranks;
  build b = {.ranks = mem_alloc(bytes)};
  if (!b.ranks) return status_no_memory(bytes);
  if (bytes) memcpy(b.ranks, ranks, bytes);
  int64_t begin = clock_ns();
  rlx_status status = compile(s, ranks, &b);
  if (status == RLX_OK && !vector_push(&s->builds, b)) status = status_no_memory(sizeof b);
  if (status != RLX_OK) {
    char kept[STATUS_TEXT_BYTES];
    status_save(kept);
    build_finish(&b);
    status_restore(kept);
    return status;
  }
  __atomic_fetch_add(&s->builds_made, 1, __ATOMIC_RELAXED);
  if (s->debug.switches & DEBUG_SELECT) log_selection(s, &s->builds.data[s->builds.count - 1]);
  if (s->debug.switches & DEBUG_TIME) log_line(RLX_LOG_DEBUG, "build: %lld us", (long long)(clock_ns() - begin) / 1000);
  return RLX_OK;
}

rlx_status build_for(rlx_session *s, const int32_t *ranks, build *out) {
  if (s->fixed_ranks && !overrides(s, ranks)) {
    *out = s->first;
    return RLX_OK;
  }
  pthread_mutex_lock(&s->lock);
  size_t bytes = session_port_count(s) * sizeof *ranks, i = 0;
  while (i < s->builds.count && bytes && memcmp(s->builds.data[i].ranks, ranks, bytes) != 0) i++;
  rlx_status status = i < s->builds.count ? RLX_OK : make_build(s, ranks);
  if (status == RLX_OK) *out = s->builds.data[i];
  pthread_mutex_unlock(&s->lock);
  return status;
}

static rlx_status first_build(rlx_session *s) {
  size_t count = session_port_count(s), inputs = s->source->inputs.count;
  int32_t *ranks = mem_array(count, sizeof *ranks);
  if (!ranks) return status_no_memory(count * sizeof *ranks);
  s->fixed_ranks = true;
  for (size_t i = inputs; i < count; i++) ranks[i] = NOT_OVERRIDDEN;
  for (size_t i = 0; i < inputs; i++) {
    ranks[i] = s->source->inputs.data[i]->type.rank;
    s->fixed_ranks &= ranks[i] >= 0;
  }
  rlx_status status = make_build(s, ranks);
  if (status == RLX_OK) s->first = s->builds.data[0];
  mem_free(ranks);
  return status;
}

/* Binds at once where every extent is declared: weights are packed now, not in the first run. */
static rlx_status bind_ahead(rlx_session *s) {
  const build *b = &s->first;
  size_t count = b->graph->inputs.count;
  for (size_t i = 0; i < count; i++)
    if (!type_is_concrete(&b->graph->inputs.data[i]->type)) return RLX_OK;
  return run_bind_ahead(s, b);
}

rlx_status rlx_session_create(const rlx_graph *g, const rlx_session_options *options, rlx_session **out) {
  RLX_NEED(out);
  if (!g) return RLX_FAIL(INVALID, "session: no graph");
  RLX_TRY(rlx_graph_status(g));
  RLX_TRY(graph_validate(g));
  for (size_t i = 0; i < g->inputs.count; i++)
    if (g->inputs.data[i]->type.dtype == RLX_UNDEFINED && g->inputs.data[i]->type.kind == RLX_KIND_TENSOR)
      return RLX_FAIL(INVALID, "input '%s' has no element type", g->inputs.data[i]->name);
  rlx_session *s = mem_zalloc(sizeof *s);
  if (!s) return status_no_memory(sizeof *s);
  pthread_mutex_init(&s->lock, NULL);
  pthread_mutex_init(&s->trace.lock, NULL);
  pthread_mutex_init(&s->pool_lock, NULL);
  pthread_cond_init(&s->pool_free, NULL);
  rlx_status status = set_up(s, options);
  if (status == RLX_OK) status = graph_clone(g, &s->source);
  int before = parallel_enter(s->threads ? s->threads : 1);
  if (status == RLX_OK) status = first_build(s);
  if (status == RLX_OK) status = bind_ahead(s);
  parallel_leave(before);
  if (status != RLX_OK) {
    char kept[STATUS_TEXT_BYTES];
    status_save(kept);
    session_free(s);
    status_restore(kept);
    return status;
  }
  *out = s;
  return RLX_OK;
}

void session_free(rlx_session *s) {
  if (trace_close(&s->trace) != RLX_OK) log_line(RLX_LOG_WARN, "%s", rlx_error_message());
  for (size_t i = 0; i < s->builds.count; i++) build_finish(&s->builds.data[i]);
  vector_finish(&s->builds);
  for (int i = 0; s->states && i < s->state_count; i++) run_state_finish(&s->states[i]);
  mem_free(s->states);
  gpu_session_destroy(s->gpu);
  packed_set_destroy(s->packed);
  cache_destroy(s->cache);
  rlx_graph_destroy(s->source);
  mem_free(s->tallies);
  pthread_mutex_destroy(&s->trace.lock);
  pthread_mutex_destroy(&s->lock);
  pthread_mutex_destroy(&s->pool_lock);
  pthread_cond_destroy(&s->pool_free);
  arena_finish(&s->memory);
  mem_free(s);
}

void rlx_session_destroy(rlx_session *s) {
  if (s) session_free(s);
}

/* ---- looking ------------------------------------------------------------------------------ */

int rlx_session_input_count(const rlx_session *s) { return s ? (int)s->source->inputs.count : 0; }
int rlx_session_output_count(const rlx_session *s) { return s ? (int)s->source->outputs.count : 0; }

rlx_status rlx_session_input(const rlx_session *s, int i, rlx_port_info *info) {
  RLX_NEED(s);
  RLX_NEED(info);
  if (i < 0 || i >= rlx_session_input_count(s))
    return RLX_FAIL(NOT_FOUND, "input %d of %d", i, rlx_session_input_count(s));
  const rlx_value *v = s->source->inputs.data[i];
  *info = (rlx_port_info){v->name, v->type, v->symbols};
  return RLX_OK;
}

int rlx_session_default_count(const rlx_session *s) { return s ? (int)s->source->defaults.count : 0; }

rlx_status rlx_session_default(const rlx_session *s, int i, rlx_port_info *info) {
  RLX_NEED(s);
  RLX_NEED(info);
  if (i < 0 || i >= rlx_session_default_count(s))
    return RLX_FAIL(NOT_FOUND, "default %d of %d", i, rlx_session_default_count(s));
  const graph_default *d = &s->source->defaults.data[i];
  *info = (rlx_port_info){d->value->name, d->type, d->value->symbols};
  return RLX_OK;
}

rlx_status rlx_session_output(const rlx_session *s, int i, rlx_port_info *info) {
  RLX_NEED(s);
  RLX_NEED(info);
  if (i < 0 || i >= rlx_session_output_count(s))
    return RLX_FAIL(NOT_FOUND, "output %d of %d", i, rlx_session_output_count(s));
  const graph_output *o = &s->source->outputs.data[i];
  const rlx_graph *built = s->first.graph;
  *info = (rlx_port_info){o->name, built->outputs.data[i].value->type, o->value->symbols};
  return RLX_OK;
}

void rlx_session_get_stats(const rlx_session *s, rlx_session_stats *stats) {
  if (!s || !stats) return;
  rlx_session_stats now = {
      .struct_size = sizeof now,
      .builds = __atomic_load_n(&s->builds_made, __ATOMIC_RELAXED),
      .binds = __atomic_load_n(&s->binds, __ATOMIC_RELAXED),
      .bind_hits = __atomic_load_n(&s->bind_hits, __ATOMIC_RELAXED),
      .bind_ns = __atomic_load_n(&s->bind_ns, __ATOMIC_RELAXED),
      .prepare_ns = __atomic_load_n(&s->prepare_ns, __ATOMIC_RELAXED),
      .runs = __atomic_load_n(&s->runs, __ATOMIC_RELAXED),
      .steps = __atomic_load_n(&s->last_steps, __ATOMIC_RELAXED),
      .packed_bytes = packed_set_bytes(s->packed),
      .run_bytes = __atomic_load_n(&s->run_bytes, __ATOMIC_RELAXED),
  };
  if (s->gpu) {
    gpu_stats gpu;
    gpu_session_stats(s->gpu, &gpu);
    now.trips = gpu.trips;
    now.submits = gpu.submits;
    now.staged = gpu.staged;
    now.recorded = gpu.recorded;
    now.replayed = gpu.replayed;
  }
  uint32_t size = stats->struct_size < sizeof now ? stats->struct_size : (uint32_t)sizeof now;
  if (size < sizeof(uint32_t)) return;
  now.struct_size = stats->struct_size;
  memcpy(stats, &now, size);
}

rlx_status rlx_session_counter(const rlx_session *s, int i, rlx_counter *out) {
  RLX_NEED(s);
  if (!out || out->struct_size < sizeof *out) return RLX_FAIL(INVALID, "counter: struct_size is not set");
  pthread_mutex_t *lock = (pthread_mutex_t *)(uintptr_t)&s->lock;
  pthread_mutex_lock(lock);
  int count = s->tally.count;
  tally_row row = i >= 0 && i < count ? s->tally.rows[i] : (tally_row){0};
  pthread_mutex_unlock(lock);
  if (i < 0 || i >= count) return RLX_FAIL(NOT_FOUND, "counter %d of %d", i, count);
  int64_t steps = 0;
  for (int k = 0; k < s->state_count; k++) steps += __atomic_load_n(&s->states[k].tally[i], __ATOMIC_RELAXED);
  *out = (rlx_counter){out->struct_size, row.tier, row.op, row.kernel, row.owner, steps};
  return RLX_OK;
}

rlx_status rlx_report(const rlx_session *s, rlx_report_format format, char **out) {
  RLX_NEED(s);
  RLX_NEED(out);
  text t = {0};
  rlx_session_stats stats = {.struct_size = sizeof stats};
  rlx_session_get_stats(s, &stats);
  pthread_mutex_lock((pthread_mutex_t *)(uintptr_t)&s->lock); /* the cost changes with each stage bound */
  report_input in = report_of(s, s->first.graph, &stats);
  pthread_mutex_unlock((pthread_mutex_t *)(uintptr_t)&s->lock);
  rlx_counter counters[TALLY_MAX];
  while (in.counter_count < TALLY_MAX) {
    counters[in.counter_count].struct_size = sizeof(rlx_counter);
    if (rlx_session_counter(s, in.counter_count, &counters[in.counter_count]) != RLX_OK) break;
    in.counter_count++;
  }
  in.counters = counters;
  rlx_status status = report_write(&in, format, &t);
  char *taken = text_take(&t);
  if (status == RLX_OK && !taken) status = status_no_memory(1);
  if (status == RLX_OK)
    *out = taken;
  else
    mem_free(taken);
  return status;
}
