/* cholmod.c — sparse Cholesky by CHOLMOD (SuiteSparse), by default its simplicial part only: the supernodal one is GPL.
 */
#include "direct.h"

#ifdef RLX_HAVE_CHOLMOD
#ifndef RLX_CHOLMOD_SUPERNODAL
#define NGPL /* no GPL header */
#define NMATRIXOPS
#define NMODIFY
#define NSUPERNODAL
#endif
#include <cholmod.h>
#include <stdlib.h>
#include <string.h>

/* The same functions for 32-bit and for 64-bit indices. */
typedef struct calls {
  int type;
  int (*start)(cholmod_common *);
  int (*finish)(cholmod_common *);
  cholmod_factor *(*analyse)(cholmod_sparse *, cholmod_common *);
  cholmod_factor *(*copy)(cholmod_factor *, cholmod_common *);
  int (*factorise)(cholmod_sparse *, cholmod_factor *, cholmod_common *);
  int (*solve)(int, cholmod_factor *, cholmod_dense *, cholmod_sparse *, cholmod_dense **, cholmod_sparse **,
               cholmod_dense **, cholmod_dense **, cholmod_common *);
  int (*free_factor)(cholmod_factor **, cholmod_common *);
  int (*free_dense)(cholmod_dense **, cholmod_common *);
} calls;

static const calls narrow = {CHOLMOD_INT,     cholmod_start,       cholmod_finish,
                             cholmod_analyze, cholmod_copy_factor, cholmod_factorize,
                             cholmod_solve2,  cholmod_free_factor, cholmod_free_dense},
                   wide = {CHOLMOD_LONG,      cholmod_l_start,       cholmod_l_finish,
                           cholmod_l_analyze, cholmod_l_copy_factor, cholmod_l_factorize,
                           cholmod_l_solve2,  cholmod_l_free_factor, cholmod_l_free_dense};

static const calls *calls_of(const cholmod_factor *f) { return f->itype == CHOLMOD_INT ? &narrow : &wide; }

static void start(const calls *c, cholmod_common *common) {
  c->start(common);
  common->print = 0;
  common->quick_return_if_not_posdef = 1;
  common->final_ll = 1; /* L L', which an indefinite matrix does not have */
#ifndef RLX_CHOLMOD_SUPERNODAL
  common->supernodal = CHOLMOD_SIMPLICIAL;
#endif
}

/* The rows of the lower triangle are the columns of the upper one. */
static cholmod_sparse matrix(const pattern *p, const calls *c, double *values) {
  return (cholmod_sparse){.nrow = (size_t)p->n,
                          .ncol = (size_t)p->n,
                          .nzmax = (size_t)p->places,
                          .p = c == &narrow ? (void *)p->narrow_ptr : p->ptr,
                          .i = c == &narrow ? (void *)p->narrow_col : p->col,
                          .x = values,
                          .stype = 1,
                          .itype = c->type,
                          .xtype = values ? CHOLMOD_REAL : CHOLMOD_PATTERN,
                          .dtype = CHOLMOD_DOUBLE,
                          .sorted = 1,
                          .packed = 1};
}

static rlx_status failed(const void *ctx, const cholmod_common *common, const char *what) {
  if (common->status == CHOLMOD_OUT_OF_MEMORY)
    return rlx_fail(ctx, RLX_OUT_OF_MEMORY, "CHOLMOD: no memory to %s", what);
  if (common->status == CHOLMOD_TOO_LARGE)
    return rlx_fail(ctx, RLX_UNSUPPORTED, "CHOLMOD: the matrix is too large to %s", what);
  return rlx_fail(ctx, RLX_KERNEL, "CHOLMOD could not %s (status %d)", what, common->status);
}

static bool narrowed(pattern *p) {
  p->narrow_ptr = malloc((size_t)(p->n + 1) * sizeof(int32_t));
  p->narrow_col = malloc((size_t)(p->places + 1) * sizeof(int32_t));
  if (!p->narrow_ptr || !p->narrow_col) return false;
  for (int64_t i = 0; i <= p->n; i++) p->narrow_ptr[i] = (int32_t)p->ptr[i];
  for (int64_t k = 0; k < p->places; k++) p->narrow_col[k] = (int32_t)p->col[k];
  return true;
}

static cholmod_factor *analyse_with(const calls *c, pattern *p, cholmod_common *common) {
  start(c, common);
  cholmod_sparse a = matrix(p, c, NULL);
  cholmod_factor *f = c->analyse(&a, common);
  if (f) p->bytes += (int64_t)common->memory_inuse;
  return f;
}

/* 32-bit indices as long as the factor's fit: they are half of what a solve reads beside the values. */
static rlx_status analyse(const void *ctx, pattern *p) {
  const calls *c = &wide;
  cholmod_common common;
  cholmod_factor *f = NULL;
  if (p->n < INT32_MAX && p->places < INT32_MAX) {
    if (!narrowed(p)) return rlx_fail(ctx, RLX_OUT_OF_MEMORY, "no memory for the matrix's pattern");
    f = analyse_with(&narrow, p, &common);
    bool fits = f && common.lnz < (double)INT32_MAX;
    if (fits) c = &narrow;
    if (f && !fits) narrow.free_factor(&f, &common);
    if (!fits) narrow.finish(&common);
  }
  if (c == &wide) f = analyse_with(&wide, p, &common);
  rlx_status status = f ? RLX_OK : failed(ctx, &common, "analyse");
  c->finish(&common);
  p->symbolic = f;
  return status;
}

static void drop(void *f_) {
  cholmod_factor *f = f_;
  const calls *c = calls_of(f);
  cholmod_common common;
  start(c, &common);
  c->free_factor(&f, &common);
  c->finish(&common);
}

static rlx_status factorise(const void *ctx, factor *made, double *values) {
  const pattern *p = made->of;
  const calls *c = calls_of(p->symbolic);
  cholmod_common common;
  start(c, &common);
  cholmod_sparse a = matrix(p, c, values);
  cholmod_factor *f = c->copy(p->symbolic, &common);
  rlx_status status = RLX_OK;
  if (!f || !c->factorise(&a, f, &common)) status = failed(ctx, &common, "factorise");
  if (status == RLX_OK && (common.status == CHOLMOD_NOT_POSDEF || f->minor < f->n)) {
    int64_t row = c == &narrow ? ((int32_t *)f->Perm)[f->minor] : ((SuiteSparse_long *)f->Perm)[f->minor];
    status = rlx_fail(ctx, RLX_INVALID, "the matrix is not positive definite: the pivot of row %lld is not positive",
                      (long long)row);
  }
  made->bytes = (int64_t)common.memory_inuse;
  if (status != RLX_OK && f) c->free_factor(&f, &common);
  c->finish(&common);
  made->numeric = status == RLX_OK ? f : NULL;
  return status;
}

/* What a run keeps between solves: CHOLMOD's settings and its own buffers. */
typedef struct workspace {
  const calls *calls;
  cholmod_common common;
  cholmod_dense *x, *y, *e;
} workspace;

static void finish(workspace *w) {
  if (!w->calls) return;
  w->calls->free_dense(&w->x, &w->common);
  w->calls->free_dense(&w->y, &w->common);
  w->calls->free_dense(&w->e, &w->common);
  w->calls->finish(&w->common);
  w->calls = NULL;
}

static void drop_own(void *own) {
  if (own) finish(own);
  free(own);
}

static int64_t scratch(int64_t n) {
  (void)n;
  return 0;
}

/* A transposed is A. */
static rlx_status solve(const void *ctx, const factor *f, const right_sides *b) {
  const calls *c = calls_of(f->numeric);
  workspace *w = *b->own ? *b->own : (*b->own = calloc(1, sizeof *w));
  if (!w) return rlx_fail(ctx, RLX_OUT_OF_MEMORY, "no memory to solve");
  if (w->calls != c) {
    finish(w);
    start(c, &w->common);
    w->calls = c;
  }
  size_t n = (size_t)f->of->n, columns = (size_t)b->count;
  cholmod_dense given = {.nrow = n,
                         .ncol = columns,
                         .nzmax = n * columns,
                         .d = n,
                         .x = b->x,
                         .xtype = CHOLMOD_REAL,
                         .dtype = CHOLMOD_DOUBLE};
  if (!c->solve(CHOLMOD_A, f->numeric, &given, NULL, &w->x, NULL, &w->y, &w->e, &w->common))
    return failed(ctx, &w->common, "solve");
  memcpy(b->x, w->x->x, n * columns * sizeof(double));
  return RLX_OK;
}

static const direct_solver solver = {.name = "cholmod",
                                     .analyse = analyse,
                                     .drop_symbolic = drop,
                                     .factorise = factorise,
                                     .drop_numeric = drop,
                                     .scratch = scratch,
                                     .solve = solve,
                                     .drop_own = drop_own};

const direct_solver *direct_cholmod(void) { return &solver; }
#else
const direct_solver *direct_cholmod(void) { return NULL; }
#endif
