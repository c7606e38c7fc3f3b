/* straight.h — conjugate gradients with an incomplete Cholesky factorisation, as one would write it in C for one
 * matrix. */
#ifndef STRAIGHT_H
#define STRAIGHT_H

#include <stdint.h>

/* Solves A x = b from 0 for a symmetric positive definite matrix in sorted CSR, until |b - A x| <= rtol |b|. Returns
 * the number of iterations, or -1 without memory or a positive pivot. */
int straight_pcg(int32_t n, const double *values, const int32_t *col, const int32_t *ptr, const double *b, double *x,
                 double rtol);

#endif
