/* klu.c — sparse LU by KLU (SuiteSparse). The rows of A are given to it as the columns of a matrix, which is A
 * transposed. */
#include "direct.h"

#ifdef RLX_HAVE_KLU
#include <klu.h>
#include <stdlib.h>

_Static_assert(sizeof(SuiteSparse_long) == sizeof(int64_t), "KLU's long indices have 64 bits");

static klu_l_common defaults(void) {
  klu_l_common common;
  klu_l_defaults(&common);
  return common;
}

static rlx_status analyse(const void *ctx, pattern *p) {
  klu_l_common common = defaults();
  klu_l_symbolic *s = klu_l_analyze(p->n, (SuiteSparse_long *)p->ptr, (SuiteSparse_long *)p->col, &common);
  if (!s && common.status == KLU_OUT_OF_MEMORY) return rlx_fail(ctx, RLX_OUT_OF_MEMORY, "KLU: no memory to analyse");
  if (!s && common.status != KLU_SINGULAR)
    return rlx_fail(ctx, RLX_KERNEL, "KLU could not analyse the matrix (status %d)", (int)common.status);
  int64_t rank = s ? s->structural_rank : -1;
  if (!s || (rank >= 0 && rank < p->n)) {
    if (s) klu_l_free_symbolic(&s, &common);
    return rlx_fail(ctx, RLX_INVALID, "the matrix is singular whatever its values: its pattern has rank %lld of %lld",
                    (long long)rank, (long long)p->n);
  }
  p->symbolic = s;
  p->bytes += (int64_t)common.memusage;
  return RLX_OK;
}

static void drop_symbolic(void *symbolic) {
  klu_l_common common = defaults();
  klu_l_symbolic *s = symbolic;
  klu_l_free_symbolic(&s, &common);
}

static void drop_numeric(void *numeric) {
  klu_l_common common = defaults();
  klu_l_numeric *n = numeric;
  klu_l_free_numeric(&n, &common);
}

static rlx_status factorise(const void *ctx, factor *f, double *values) {
  const pattern *p = f->of;
  klu_l_common common = defaults();
  klu_l_numeric *n = klu_l_factor((SuiteSparse_long *)p->ptr, (SuiteSparse_long *)p->col, values, p->symbolic, &common);
  if (!n && common.status == KLU_SINGULAR)
    return rlx_fail(ctx, RLX_INVALID, "the matrix is singular: elimination ends after %lld of %lld pivots",
                    (long long)common.numerical_rank, (long long)p->n);
  if (!n && common.status == KLU_OUT_OF_MEMORY) return rlx_fail(ctx, RLX_OUT_OF_MEMORY, "KLU: no memory to factorise");
  if (!n) return rlx_fail(ctx, RLX_KERNEL, "KLU could not factorise the matrix (status %d)", (int)common.status);
  klu_l_rcond(p->symbolic, n, &common);
  if (!(common.rcond >= SINGULAR_RATIO)) {
    klu_l_free_numeric(&n, &common);
    return rlx_fail(ctx, RLX_INVALID, "the matrix is singular to working precision: the ratio of its pivots is %.3g",
                    common.rcond);
  }
  f->numeric = n;
  f->bytes = (int64_t)common.memusage;
  return RLX_OK;
}

/* klu_l_solve wants 4 n. */
static int64_t scratch(int64_t n) { return 4 * n; }

static rlx_status solve(const void *ctx, const factor *f, const right_sides *b) {
  const pattern *p = f->of;
  klu_l_common common = defaults();
  /* The factorisation is shared by threads: a solve changes only its workspace, which is ours. */
  klu_l_numeric n = *(const klu_l_numeric *)f->numeric;
  n.Work = n.Xwork = b->scratch;
  SuiteSparse_long ok = b->transposed ? klu_l_solve(p->symbolic, &n, p->n, b->count, b->x, &common)
                                      : klu_l_tsolve(p->symbolic, &n, p->n, b->count, b->x, &common);
  return ok ? RLX_OK : rlx_fail(ctx, RLX_KERNEL, "KLU could not solve (status %d)", (int)common.status);
}

static const direct_solver solver = {.name = "klu",
                                     .analyse = analyse,
                                     .drop_symbolic = drop_symbolic,
                                     .factorise = factorise,
                                     .drop_numeric = drop_numeric,
                                     .scratch = scratch,
                                     .solve = solve};

const direct_solver *direct_klu(void) { return &solver; }
#else
const direct_solver *direct_klu(void) { return NULL; }
#endif
