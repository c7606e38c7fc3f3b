/* vector.c — the operations that iterative solvers are made of. */
#include <string.h>

#include "krylov.h"

#define T float
#define F(name) name##_float
#include "vector_body.h"

#define T double
#define F(name) name##_double
#include "vector_body.h"

const vector_calls *vector_calls_of(rlx_dtype type) { return type == RLX_DOUBLE ? &vectors_double : &vectors_float; }

double krylov_dot(krylov *k, int64_t n, const void *x, const void *y) {
  int64_t pieces = (n + PIECE - 1) / PIECE;
  dot_task task = {n, x, y, k->sums};
  rlx_parallel_for(k->ctx, pieces, 4, k->vectors->dot, &task);
  double sum = 0;
  for (int64_t i = 0; i < pieces; i++) sum += k->sums[i];
  return sum;
}

void krylov_combine(krylov *k, int64_t n, double a, const void *x, double b, void *y) {
  combine_task task = {a, b, x, y};
  rlx_parallel_for(k->ctx, n, 4 * PIECE, k->vectors->combine, &task);
}

void krylov_copy(const krylov *k, int64_t n, const void *x, void *y) {
  if (n > 0) memcpy(y, x, (size_t)(n * csr_value_bytes(k->a.type)));
}

void krylov_multiply(krylov *k, const csr *a, const void *x, void *y) {
  csr_product task = {a, x, y, 1};
  rlx_parallel_for(k->ctx, a->rows, 2048, k->calls->multiply_vector, &task);
}

static void scale_by(const krylov *k, const void *r, void *z) {
  if (k->a.type == RLX_DOUBLE) {
    for (int64_t i = 0; i < k->rows; i++) ((double *)z)[i] = ((const double *)r)[i] * ((const double *)k->inverse)[i];
  } else {
    for (int64_t i = 0; i < k->rows; i++) ((float *)z)[i] = ((const float *)r)[i] * ((const float *)k->inverse)[i];
  }
}

const void *krylov_precondition(krylov *k, const void *r, void *z) {
  if (k->kind == PRECONDITION_NONE) return r;
  if (k->kind == PRECONDITION_JACOBI) scale_by(k, r, z);
  if (k->kind == PRECONDITION_ILU0) k->calls->ilu0_solve(&k->a, k->factor, k->diagonal, r, z);
  if (k->kind == PRECONDITION_IC0) k->calls->ic0_solve(&k->lower, k->factor, k->inverse, r, z);
  return z;
}
