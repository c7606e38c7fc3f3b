/* direct.h — direct solvers: what the ops, the cache of factorisations and the libraries' adapters share. */
#ifndef SPARSE_DIRECT_H
#define SPARSE_DIRECT_H

#include "sparse.h"

enum { UPLO_FULL, UPLO_LOWER, UPLO_UPPER };

typedef struct direct_params {
  uint64_t given;
  int64_t transpose;
  rlx_string uplo;
  float symmetry_tolerance;
} direct_params;

/* A matrix whose smallest pivot is less than this part of the largest counts as singular: 16 roundings. */
#define SINGULAR_RATIO (16 * 0x1p-52)

int direct_uplo(const direct_params *p); /* UPLO_…; -1: no such word */

/* The pattern of a square matrix with sorted rows, each place once, and its symbolic factorisation. Of a symmetric one
 * the lower triangle: entry (i, j) of the upper triangle stands at (j, i). Immutable, counted: the cache holds it, and
 * every factorisation made from it. */
typedef struct pattern {
  int refs;
  int64_t n, entries, places; /* entries as given, places after summing */
  int64_t *ptr, *col;         /* n + 1, places; NULL if the solver keeps a form of its own */
  int64_t *place;             /* entries: where each goes */
  int32_t *narrow_ptr, *narrow_col;
  const struct direct_solver *solver;
  void *symbolic; /* the solver's */
  int64_t bytes;
} pattern;

/* A numeric factorisation. Immutable. */
typedef struct factor {
  pattern *of;
  void *numeric; /* the solver's */
  int64_t bytes;
} factor;

/* A x = b or transposed A x = b for a few columns at once, which read the factorisation once; solved in place. */
enum { COLUMNS_AT_ONCE = 4 };
typedef struct right_sides {
  double *x; /* count columns of n */
  int64_t count;
  bool transposed;
  double *scratch;
  void **own; /* the run's and the solver's, kept between runs */
} right_sides;

typedef struct direct_solver {
  const char *name;
  /* Fills p->symbolic. */
  rlx_status (*analyse)(const void *ctx, pattern *p);
  void (*drop_symbolic)(void *symbolic);
  /* values: one a place. Fills f->numeric and f->bytes. */
  rlx_status (*factorise)(const void *ctx, factor *f, double *values);
  void (*drop_numeric)(void *numeric);
  /* Doubles of scratch that solve wants. */
  int64_t (*scratch)(int64_t n);
  rlx_status (*solve)(const void *ctx, const factor *f, const right_sides *b);
  void (*drop_own)(void *own);
} direct_solver;

/* NULL if the library was not there when rlx was built. */
const direct_solver *direct_klu(void);
const direct_solver *direct_cholmod(void);

/* What a run keeps: references to the factorisation it used last, so that the cache cannot drop it. */
typedef struct factor_run factor_run;
rlx_status factor_run_create(const void *state, void **out);
void factor_run_destroy(void *run);
void **factor_run_own(factor_run *run, const direct_solver *s);
/* The factorisation of a, from the session's cache if its pattern and values were factorised before. */
rlx_status factor_get(rlx_ctx *ctx, const direct_solver *s, const csr *a, factor_run *run, const factor **out);

/* Numbers of symbolic and numeric factorisations made in this process. */
extern const rlx_op factor_counters;

/* Adds the entries of a symmetric matrix to sum[place[k]], checking that both triangles agree, or that the other one is
 * empty. */
rlx_status symmetric_values(const void *ctx, const direct_params *p, const csr *a, const int64_t *place, int64_t places,
                            double *sum);

static inline double csr_value(const csr *a, int64_t k) {
  return a->type == RLX_DOUBLE ? ((const double *)a->values)[k] : (double)((const float *)a->values)[k];
}
static inline int64_t csr_col(const csr *a, int64_t k) {
  return a->index == RLX_INT64 ? ((const int64_t *)a->col)[k] : ((const int32_t *)a->col)[k];
}
static inline int64_t csr_ptr(const csr *a, int64_t i) {
  return a->index == RLX_INT64 ? ((const int64_t *)a->ptr)[i] : ((const int32_t *)a->ptr)[i];
}

#endif
