/* factor.c — factorisations in the session's cache: symbolic ones by pattern, numeric ones by pattern and values. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "direct.h"

static int64_t symbolic_count, numeric_count;

/* ---- patterns ---------------------------------------------------------------------------------------------------- */

static void pattern_release(pattern *p) {
  if (!p || __atomic_fetch_sub(&p->refs, 1, __ATOMIC_ACQ_REL) != 1) return;
  if (p->symbolic) p->solver->drop_symbolic(p->symbolic);
  free(p->ptr);
  free(p->col);
  free(p->place);
  free(p->narrow_ptr);
  free(p->narrow_col);
  free(p);
}

/* Entry k's place: row and column, or both swapped where only the lower triangle is kept. */
static void entry_at(bool lower, int64_t *row, int64_t *col) {
  if (!lower || *col <= *row) return;
  int64_t kept = *row;
  *row = *col;
  *col = kept;
}

/* Stable counting sort of the entries in `from` (NULL: 0, 1, 2, …) by key[k], into `to`. next: n + 1 zeros. */
static void sort_by(int64_t n, int64_t entries, const int64_t *key, const int64_t *from, int64_t *to, int64_t *next) {
  memset(next, 0, (size_t)(n + 1) * sizeof *next);
  for (int64_t k = 0; k < entries; k++) next[key[k] + 1]++;
  for (int64_t i = 0; i < n; i++) next[i + 1] += next[i];
  for (int64_t k = 0; k < entries; k++) {
    int64_t e = from ? from[k] : k;
    to[next[key[e]]++] = e;
  }
}

/* Rows and columns of the entries, sorted and merged. scratch: four arrays of entries. */
static void merge(pattern *p, const csr *a, bool lower, int64_t *scratch) {
  int64_t entries = a->entries, *row = scratch, *col = row + entries, *first = col + entries, *order = first + entries;
  for (int64_t i = 0; i < a->rows; i++) {
    for (int64_t k = csr_ptr(a, i); k < csr_ptr(a, i + 1); k++) {
      row[k] = i;
      col[k] = csr_col(a, k);
      entry_at(lower, &row[k], &col[k]);
    }
  }
  sort_by(a->rows, entries, col, NULL, first, p->ptr);
  sort_by(a->rows, entries, row, first, order, p->ptr);
  memset(p->ptr, 0, (size_t)(a->rows + 1) * sizeof *p->ptr);
  int64_t places = 0, before = -1;
  for (int64_t k = 0; k < entries; k++) {
    int64_t e = order[k];
    if (before < 0 || row[e] != row[before] || col[e] != col[before]) {
      p->col[places++] = col[e];
      p->ptr[row[e] + 1]++;
    }
    p->place[e] = places - 1;
    before = e;
  }
  for (int64_t i = 0; i < a->rows; i++) p->ptr[i + 1] += p->ptr[i];
  p->places = places;
}

static pattern *pattern_of(const csr *a, bool lower, const direct_solver *solver) {
  pattern *p = calloc(1, sizeof *p);
  if (!p) return NULL;
  size_t entries = (size_t)a->entries, n = (size_t)a->rows;
  *p = (pattern){.refs = 1, .n = a->rows, .entries = a->entries, .solver = solver};
  p->ptr = malloc((n + 1) * sizeof *p->ptr);
  p->col = malloc((entries + 1) * sizeof *p->col);
  p->place = malloc((entries + 1) * sizeof *p->place);
  int64_t *scratch = malloc((4 * entries + 1) * sizeof *scratch);
  bool made = p->ptr && p->col && p->place && scratch;
  if (made) merge(p, a, lower, scratch);
  free(scratch);
  p->bytes = (int64_t)((n + 1 + 2 * entries) * sizeof(int64_t));
  if (made) return p;
  pattern_release(p);
  return NULL;
}

/* ---- the cache --------------------------------------------------------------------------------------------------- */

/* Keys are compared byte by byte: no padding. */
typedef struct pattern_key {
  char tag[16]; /* the solver */
  int64_t n, entries, index, uplo;
  XXH128_hash_t ptr, col;
} pattern_key;

typedef struct factor_key {
  pattern_key pattern;
  int64_t type;
  double tolerance;
  XXH128_hash_t values;
} factor_key;

struct factor_run {
  factor_key key;
  rlx_cache_ref *pattern, *factor; /* held */
  const direct_solver *solver;
  void *own; /* the solver's */
};

typedef struct request {
  rlx_ctx *ctx;
  const direct_solver *solver;
  const csr *a;
  pattern *p;
} request;

rlx_status factor_run_create(const void *state, void **out) {
  (void)state;
  *out = calloc(1, sizeof(factor_run));
  return *out ? RLX_OK : RLX_OUT_OF_MEMORY;
}

void factor_run_destroy(void *run_) {
  factor_run *run = run_;
  if (!run) return;
  rlx_cache_release(run->factor);
  rlx_cache_release(run->pattern);
  if (run->own) run->solver->drop_own(run->own);
  free(run);
}

void **factor_run_own(factor_run *run, const direct_solver *s) {
  run->solver = s;
  return &run->own;
}

static void drop_pattern(void *data) { pattern_release(data); }

static rlx_status make_pattern(void *arg, rlx_cache_entry *entry) {
  request *r = arg;
  rlx_status status = csr_calls_of(r->a->type, r->a->index)->check(r->ctx, r->a);
  if (status != RLX_OK) return status;
  pattern *p = pattern_of(r->a, r->solver == direct_cholmod(), r->solver);
  if (!p) return rlx_fail(r->ctx, RLX_OUT_OF_MEMORY, "no memory for the matrix's pattern");
  status = r->solver->analyse(r->ctx, p);
  if (status != RLX_OK) {
    pattern_release(p);
    return status;
  }
  __atomic_fetch_add(&symbolic_count, 1, __ATOMIC_RELAXED);
  *entry = (rlx_cache_entry){p, p->bytes, drop_pattern};
  return RLX_OK;
}

static void drop_factor(void *data) {
  factor *f = data;
  if (f->numeric) f->of->solver->drop_numeric(f->numeric);
  pattern_release(f->of);
  free(f);
}

static rlx_status check_finite(const request *r) {
  for (int64_t k = 0; k < r->a->entries; k++) {
    if (!isfinite(csr_value(r->a, k))) return rlx_fail(r->ctx, RLX_INVALID, "values[%lld] is not finite", (long long)k);
  }
  return RLX_OK;
}

static rlx_status factorise(const request *r, factor *f) {
  pattern *p = r->p;
  double *values = calloc((size_t)p->places + 1, sizeof *values);
  if (!values) return rlx_fail(r->ctx, RLX_OUT_OF_MEMORY, "no memory for the matrix's values");
  rlx_status status = check_finite(r);
  if (status == RLX_OK && r->solver == direct_cholmod())
    status = symmetric_values(r->ctx, r->ctx->params, r->a, p->place, p->places, values);
  else if (status == RLX_OK)
    for (int64_t k = 0; k < p->entries; k++) values[p->place[k]] += csr_value(r->a, k);
  if (status == RLX_OK) status = r->solver->factorise(r->ctx, f, values);
  free(values);
  return status;
}

static rlx_status make_factor(void *arg, rlx_cache_entry *entry) {
  request *r = arg;
  factor *f = calloc(1, sizeof *f);
  if (!f) return rlx_fail(r->ctx, RLX_OUT_OF_MEMORY, "no memory for a factorisation");
  __atomic_fetch_add(&r->p->refs, 1, __ATOMIC_RELAXED);
  f->of = r->p;
  rlx_status status = factorise(r, f);
  if (status != RLX_OK) {
    drop_factor(f);
    return status;
  }
  __atomic_fetch_add(&numeric_count, 1, __ATOMIC_RELAXED);
  *entry = (rlx_cache_entry){f, f->bytes, drop_factor};
  return RLX_OK;
}

static factor_key key_of(const rlx_ctx *ctx, const direct_solver *s, const csr *a) {
  const direct_params *p = ctx->params;
  factor_key key;
  memset(&key, 0, sizeof key);
  strncpy(key.pattern.tag, s->name, sizeof key.pattern.tag - 1);
  key.pattern.n = a->rows;
  key.pattern.entries = a->entries;
  key.pattern.index = a->index;
  key.pattern.uplo = direct_uplo(p);
  key.pattern.ptr = XXH3_128bits(a->ptr, (size_t)((a->rows + 1) * csr_index_bytes(a->index)));
  key.pattern.col = XXH3_128bits(a->col, (size_t)(a->entries * csr_index_bytes(a->index)));
  key.type = a->type;
  key.tolerance = (double)p->symmetry_tolerance;
  key.values = XXH3_128bits(a->values, (size_t)(a->entries * csr_value_bytes(a->type)));
  return key;
}

/* Puts an entry of the cache in *held; what was there is let go only then, so that an equal key finds it. */
static rlx_status hold(request *r, const void *key, size_t bytes, rlx_status (*make)(void *, rlx_cache_entry *),
                       rlx_cache_ref **held, void **data) {
  rlx_cache_ref *ref = NULL;
  rlx_status status = rlx_cache_get(r->ctx, key, bytes, make, r, &ref, data);
  if (status != RLX_OK) return rlx_fail(r->ctx, status, "%s", rlx_error_message());
  rlx_cache_release(*held);
  *held = ref;
  return RLX_OK;
}

/* What a run holds stays; what it held before stays while the cache has room. */
rlx_status factor_get(rlx_ctx *ctx, const direct_solver *s, const csr *a, factor_run *run, const factor **out) {
  request r = {ctx, s, a, NULL};
  factor_key key = key_of(ctx, s, a);
  void *data = NULL;
  if (memcmp(&key, &run->key, sizeof key) != 0) { /* a factorisation is large: let go of it before another is made */
    rlx_cache_release(run->factor);
    run->factor = NULL;
    memset(&run->key, 0, sizeof run->key);
  }
  rlx_status status = hold(&r, &key.pattern, sizeof key.pattern, make_pattern, &run->pattern, &data);
  if (status != RLX_OK) return status;
  r.p = data;
  status = hold(&r, &key, sizeof key, make_factor, &run->factor, &data);
  if (status != RLX_OK) return status;
  run->key = key;
  *out = data;
  return RLX_OK;
}

/* ---- counters ---------------------------------------------------------------------------------------------------- */

static rlx_status infer_counters(rlx_infer *ctx) {
  for (int i = 0; i < 2; i++) rlx_infer_set(ctx, i, 0, NULL);
  return RLX_OK;
}

static rlx_status eval_counters(rlx_ctx *ctx) {
  *(int64_t *)ctx->outputs[0].data = __atomic_load_n(&symbolic_count, __ATOMIC_RELAXED);
  *(int64_t *)ctx->outputs[1].data = __atomic_load_n(&numeric_count, __ATOMIC_RELAXED);
  return RLX_OK;
}

#define INT64_PORT(port) {.name = port, .dtypes = RLX_SET(RLX_INT64)}
const rlx_op factor_counters = {
    .struct_size = sizeof(rlx_op),
    .name = "sparse.counters",
    .doc = "How many symbolic and how many numeric factorisations the direct solvers made in this process so far.",
    .outputs = (const rlx_port[]){INT64_PORT("symbolic"), INT64_PORT("numeric"), {0}},
    .inputs = (const rlx_port[]){{0}},
    .traits = RLX_SIDE_EFFECT,
    .infer = infer_counters,
    .eval = eval_counters,
};
