/* candidates.c — the checks of a case, on every way there is to run it. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "check/check.h"
#include "ir/infer.h"
#include "ir/shape.h"

enum { THREADS = 4, RUNS = 3, SUBJECT = 200 };

/* One way to run the op; kernel NULL: its lower or eval. */
typedef struct way {
  rlx_tier tier;
  const kernel_entry *kernel;
  int index; /* of the kernel in the checker */
  char subject[SUBJECT];
} way;

static way way_of(const checker *c, int i) {
  way w = {.index = i};
  if (i < c->kernel_count) {
    static const rlx_tier tiers[] = {RLX_TIER_CPU, RLX_TIER_HOST, RLX_TIER_PORTABLE, RLX_TIER_RAW};
    w.kernel = c->kernels[i];
    w.tier = tiers[w.kernel->kind];
  } else {
    w.tier = i == c->kernel_count ? RLX_TIER_LOWER : RLX_TIER_EVAL;
  }
  snprintf(w.subject, sizeof w.subject, "%s%s%s", rlx_tier_name(w.tier), w.kernel ? " " : "",
           w.kernel ? w.kernel->head.name : "");
  return w;
}

/* lower and eval come after the kernels. */
static int way_count(const checker *c) { return c->kernel_count + 2; }

static bool exists(const checker *c, const way *w) {
  if (w->kernel) return true;
  return w->tier == RLX_TIER_LOWER ? c->op->op.lower != NULL : c->op->op.eval != NULL;
}

static trial_options options_of(const way *w) {
  return (trial_options){.tier = w->tier, .kernel = w->kernel ? w->kernel->head.name : NULL};
}

/* The refusal of a kernel, remembered for kernels that take nothing. */
static bool refuses(checker *c, check_case *k, const way *w) {
  const char *reason = w->kernel && w->kernel->head.why_not ? w->kernel->head.why_not(k->node) : NULL;
  if (!reason || reason == rlx_depends_on_extents) return false;
  if (!c->why[w->index]) c->why[w->index] = arena_strdup(&c->memory, reason);
  return true;
}

static void took(checker *c, const way *w) {
  if (w->kernel) c->took[w->index] = true;
}

/* Extents that a kernel refuses at bind time are no failure, nor that it wants to know more when compiling; nor that a
 * lowering does not serve every case. */
static bool refused_late(checker *c, const way *w, const char *check, rlx_status status) {
  if (status != RLX_UNSUPPORTED || (!w->kernel && w->tier != RLX_TIER_LOWER)) return false;
  if (!w->kernel) return true; /* a lowering may want to know more, too */
  if (!w->kernel->head.why_not_bound && strcmp(check, "tier") == 0) return false;
  if (!c->why[w->index]) c->why[w->index] = arena_strdup(&c->memory, rlx_error_message());
  return true;
}

static bool is_random(const checker *c) { return c->op->op.traits & RLX_RANDOM; }

/* ---- the answer --------------------------------------------------------------------------- */

/* Compares what the last run gave with what is expected. */
static bool same_answer(checker *c, const check_case *k, const trial *t, rlx_binding *b, difference *d) {
  for (int i = 0; i < k->output_count; i++) {
    rlx_tensor *got = NULL;
    char is[300], should[300];
    rlx_type a, e;
    if (trial_output(t, b, i, &got) != RLX_OK) {
      check_failed(c, "output %d: %s", i, rlx_error_message());
      return false;
    }
    rlx_tensor_type(got, &a);
    rlx_tensor_type(k->expected[i], &e);
    difference one = {.at = -1};
    bool typed = compare_tensors(got, k->expected[i], case_tolerance(k), &one);
    rlx_tensor_destroy(got);
    if (!typed) {
      check_failed(c, "output %d is %s and should be %s", i, type_text(&a, is, sizeof is),
                   type_text(&e, should, sizeof should));
      return false;
    }
    if (one.at >= 0 && !is_random(c)) {
      check_failed(c, "output %d, element %lld is %g and should be %g", i, (long long)one.at, one.got, one.want);
      return false;
    }
    if (one.ulp > d->ulp) d->ulp = one.ulp;
    if (one.relative > d->relative) d->relative = one.relative;
  }
  return true;
}

static rlx_tensor *snapshot(const trial *t, int i) {
  rlx_tensor *now = NULL, *copy = NULL;
  if (trial_output(t, t->binding, i, &now) != RLX_OK) return NULL;
  if (t->outputs[i].map) {
    rlx_operand o = tensor_operand(now);
    if (tensor_from_operand(&o, &copy) != RLX_OK) copy = NULL;
    rlx_tensor_destroy(now);
    return copy;
  }
  return now;
}

/* Runs again with the outputs' memory filled with `poison`; false if something is different. */
static bool runs_alike(trial *t, rlx_tensor *const *before, int poison, int *output) {
  if (trial_run(t, poison) != RLX_OK) return false;
  for (int i = 0; i < t->from->output_count; i++) {
    rlx_tensor *now = NULL;
    if (!before[i] || trial_output(t, t->binding, i, &now) != RLX_OK) return false;
    bool same = tensor_equal(now, before[i]) || now->kind != RLX_KIND_TENSOR;
    rlx_tensor_destroy(now);
    *output = i;
    if (!same) return false;
  }
  return true;
}

static void check_written(checker *c, check_case *k, const way *w, trial *t) {
  int output = 0;
  if (is_random(c) || !check_begin(c, "written", w->subject, false)) return;
  rlx_tensor **before = mem_array((size_t)k->output_count, sizeof *before);
  for (int i = 0; before && i < k->output_count; i++) before[i] = snapshot(t, i);
  if (!before)
    check_failed(c, "out of memory");
  else if (!runs_alike(t, before, 0xa5, &output))
    check_failed(c, "output %d: the same run twice gives different bits", output);
  else if (!runs_alike(t, before, 0x5a, &output))
    check_failed(c, "output %d: bytes that are not written", output);
  else
    check_passed(c, 0, 0);
  for (int i = 0; before && i < k->output_count; i++) rlx_tensor_destroy(before[i]);
  mem_free(before);
}

/* check: its name. True if the kernel took the case and is right. */
static bool check_way(checker *c, check_case *k, const way *w, const char *check, const trial_options *o) {
  trial t;
  difference d = {0};
  if (!check_begin(c, check, w->subject, false)) return false;
  rlx_status status = trial_open(c, k, o, &t);
  if (status == RLX_OK) {
    status = trial_run(&t, 0xa5);
    if (status != RLX_OK && !refused_late(c, w, check, status)) check_failed(c, "%s", rlx_error_message());
  } else if (!refused_late(c, w, check, status)) {
    check_failed(c, "%s", rlx_error_message());
  }
  if (status != RLX_OK) {
    trial_close(&t);
    return false;
  }
  took(c, w);
  const char *damage = trial_damage(&t);
  bool right = !damage && same_answer(c, k, &t, t.binding, &d);
  if (damage) check_failed(c, "%s", damage);
  if (right) check_passed(c, d.ulp, d.relative);
  if (right && strcmp(check, "tier") == 0) check_written(c, k, w, &t);
  trial_close(&t);
  return right;
}

/* ---- once a row --------------------------------------------------------------------------- */

typedef struct racer {
  const trial *t;
  pthread_barrier_t *start;
  rlx_tensor *const *expected;
  const char *wrong; /* a literal */
} racer;

static void *race(void *arg) {
  racer *r = arg;
  rlx_binding *b = NULL;
  if (trial_bind(r->t, &b) != RLX_OK) r->wrong = "a binding could not be made";
  pthread_barrier_wait(r->start);
  for (int i = 0; i < RUNS && !r->wrong; i++) {
    if (rlx_run(b, NULL) != RLX_OK) r->wrong = "a run fails";
    for (int k = 0; k < r->t->from->output_count && !r->wrong; k++) {
      rlx_tensor *got = NULL;
      if (trial_output(r->t, b, k, &got) != RLX_OK) r->wrong = "an output is missing";
      if (!r->wrong && got->kind == RLX_KIND_TENSOR && !tensor_equal(got, r->expected[k])) r->wrong = "other bits";
      rlx_tensor_destroy(got);
    }
  }
  rlx_binding_destroy(b);
  return NULL;
}

/* All of them at once; what went wrong, or NULL. */
static const char *race_all(const trial *t, rlx_tensor *const *expected) {
  pthread_t threads[THREADS];
  racer racers[THREADS];
  pthread_barrier_t start;
  const char *wrong = NULL;
  if (pthread_barrier_init(&start, NULL, THREADS) != 0) return "no barrier";
  int started = 0;
  for (; started < THREADS; started++) {
    racers[started] = (racer){t, &start, expected, NULL};
    if (pthread_create(&threads[started], NULL, race, &racers[started]) != 0) break;
  }
  if (started < THREADS) return "threads could not be made"; /* those started wait until the process ends */
  for (int i = 0; i < started; i++) {
    pthread_join(threads[i], NULL);
    if (racers[i].wrong) wrong = racers[i].wrong;
  }
  pthread_barrier_destroy(&start);
  return wrong;
}

static void check_threads(checker *c, check_case *k, const way *w) {
  trial t;
  trial_options o = options_of(w);
  o.own_outputs = true;
  if (is_random(c) || !check_begin(c, "threads", w->subject, false)) return;
  rlx_tensor **alone = mem_array((size_t)k->output_count, sizeof *alone);
  const char *wrong = alone ? NULL : "out of memory";
  rlx_status status = wrong ? RLX_OUT_OF_MEMORY : trial_open(c, k, &o, &t);
  if (status == RLX_OK && trial_run(&t, 0) != RLX_OK) wrong = "the run alone fails";
  for (int i = 0; status == RLX_OK && !wrong && i < k->output_count; i++)
    if (!(alone[i] = snapshot(&t, i))) wrong = "an output is missing";
  if (status == RLX_OK && !wrong) wrong = race_all(&t, alone);
  if (wrong || status != RLX_OK)
    check_failed(c, "four threads at once: %s", wrong ? wrong : rlx_error_message());
  else
    check_passed(c, 0, 0);
  for (int i = 0; alone && i < k->output_count; i++) rlx_tensor_destroy(alone[i]);
  mem_free(alone);
  if (status == RLX_OK) trial_close(&t);
}

static bool fails_well(rlx_status status) { return status == RLX_OK || status == RLX_OUT_OF_MEMORY; }

static void check_memory(checker *c, check_case *k, const way *w) {
  trial t;
  trial_options o = options_of(w);
  difference d = {0};
  if ((c->flags & RLX_CHECK_IN_PROCESS) || !check_begin(c, "memory", w->subject, false)) return;
  rlx_status status = RLX_OK;
  bool opened = false;
  for (int64_t n = 1, left = 1; left > 0 && n < 4000 && fails_well(status); n += 1 + n / 8) {
    (void)mem_inject(n, 0);
    status = trial_open(c, k, &o, &t);
    left = mem_inject(0, 0) - n + 1;
    if (status == RLX_OK) trial_close(&t);
  }
  if (!fails_well(status)) {
    check_failed(c, "an allocation that fails while compiling gives '%s': %s", rlx_status_name(status),
                 rlx_error_message());
    return;
  }
  status = trial_open(c, k, &o, &t);
  opened = status == RLX_OK;
  for (int64_t n = 1, left = 1; opened && left > 0 && n < 200 && fails_well(status); n++) {
    (void)mem_inject(n, 0);
    status = trial_run(&t, 0xa5);
    left = mem_inject(0, 0) - n + 1;
  }
  if (!fails_well(status))
    check_failed(c, "an allocation that fails in a run gives '%s': %s", rlx_status_name(status), rlx_error_message());
  else if (!opened || trial_run(&t, 0xa5) != RLX_OK)
    check_failed(c, "after allocations that failed: %s", rlx_error_message());
  else if (same_answer(c, k, &t, t.binding, &d))
    check_passed(c, 0, 0);
  if (opened) trial_close(&t);
}

/* Whatever values come: a status, and no byte outside. */
static void check_contents(checker *c, const check_case *from, const way *w) {
  trial t;
  trial_options o = options_of(w);
  check_case k = *from; /* the same graph, contents of its own, nothing expected */
  rlx_tensor *inputs[64] = {NULL}, *none[64] = {NULL};
  if (k.input_count > 64 || k.output_count > 64 || (c->op->op.traits & RLX_CONTROL_FLOW)) return;
  if (!check_begin(c, "contents", w->subject, false)) return;
  o.own_outputs = true;
  k.inputs = inputs;
  k.expected = none;
  for (uint64_t seed = 0; seed < 4; seed++) {
    rlx_status status = case_fill(&k, c->seed + seed, FILL_HOSTILE);
    if (status == RLX_OK) status = trial_open(c, &k, &o, &t);
    if (status != RLX_OK) continue;
    status = trial_run(&t, 0);
    const char *damage = trial_damage(&t);
    if (damage) check_failed(c, "%s", damage);
    if (!damage && status == RLX_INTERNAL) check_failed(c, "%s", rlx_error_message());
    if (!damage && status != RLX_INTERNAL) check_passed(c, 0, 0);
    trial_close(&t);
  }
  for (int i = 0; i < 64; i++) rlx_tensor_destroy(inputs[i]);
}

static void check_row(checker *c, check_case *k, const way *w) {
  trial_options o = options_of(w);
  o.symbolic = true;
  (void)check_way(c, k, w, "symbolic", &o);
  o.unranked = true;
  (void)check_way(c, k, w, "unranked", &o);
  o = options_of(w);
  for (int i = 1; i < k->input_count && i < 64; i++)
    if (k->inputs[i]->kind == RLX_KIND_TENSOR) o.constants |= UINT64_C(1) << i;
  if (o.constants) (void)check_way(c, k, w, "constant", &o);
  check_threads(c, k, w);
  check_memory(c, k, w);
  check_contents(c, k, w);
}

/* ---- a case ------------------------------------------------------------------------------- */

static rlx_status keep_expected(check_case *k, const trial *t) {
  for (int i = 0; i < k->output_count; i++) RLX_TRY(trial_output(t, t->binding, i, &k->expected[i]));
  return RLX_OK;
}

/* Finds contents that the reference takes, and what it makes of them. */
static rlx_status ask_oracle(checker *c, check_case *k, const trial_options *o) {
  rlx_status status = RLX_OK;
  for (int mode = FILL_WIDE; mode <= FILL_ZERO; mode++) {
    trial t;
    RLX_TRY(case_fill(k, c->seed + 1, mode));
    status = trial_open(c, k, o, &t);
    if (status == RLX_OK) status = trial_run(&t, 0);
    if (status == RLX_OK) {
      status = keep_expected(k, &t);
      trial_close(&t);
      return status;
    }
    char kept[STATUS_TEXT_BYTES];
    status_save(kept);
    trial_close(&t);
    status_restore(kept);
  }
  return status;
}

static bool find_oracle(checker *c, way *out) {
  for (int i = way_count(c) - 1; i >= 0; i--) { /* eval, lower, then any kernel */
    *out = way_of(c, i);
    if (exists(c, out)) return true;
  }
  return false;
}

void check_case_all(checker *c, check_case *k) {
  way oracle;
  c->current = k;
  if (!find_oracle(c, &oracle)) return;
  trial_options o = options_of(&oracle);
  o.own_outputs = true;
  if (oracle.kernel) o.tier = RLX_TIER_ANY; /* whichever takes it */
  if (!check_begin(c, "reference", oracle.subject, true)) return;
  if (ask_oracle(c, k, &o) != RLX_OK) {
    if (!k->varied) check_failed(c, "the row does not run: %s", rlx_error_message());
    if (k->dtype_varied) check_failed(c, "a dtype that the ports permit: %s", rlx_error_message());
    c->current = NULL;
    return;
  }
  check_passed(c, 0, 0);
  check_infer(c, k);
  for (int i = 0; i < way_count(c); i++) {
    way w = way_of(c, i);
    trial_options pinned = options_of(&w);
    if (!exists(c, &w) || refuses(c, k, &w)) continue;
    if (!check_way(c, k, &w, "tier", &pinned)) continue;
    if (w.kernel) check_pairs(c, k, w.kernel, w.subject);
    if (!k->varied) check_row(c, k, &w);
  }
  c->current = NULL;
}
