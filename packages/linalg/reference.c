/* reference.c — the references of factorisations and what follows from them, by textbook algorithms in double. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "linalg.h"

static const linalg_fault fine = {LINALG_FINE, 0};
static linalg_fault no_memory(void) { return (linalg_fault){LINALG_NO_MEMORY, 0}; }
static size_t bytes(int64_t count) { return (size_t)count * sizeof(double); }

linalg_fault cholesky_reference(const matrix_call *c) {
  const double *a = c->a;
  double *l = c->out[0];
  int64_t n = c->n;
  bool upper = c->params->upper != 0;
  /* Element (i, j), j ≤ i, of the factor lies at (j, i) if it is the upper one. */
#define AT(i, j) (upper ? (j) * n + (i) : (i) * n + (j))
  memset(l, 0, bytes(n * n));
  for (int64_t i = 0; i < n; i++) {
    for (int64_t j = 0; j <= i; j++) {
      double sum = a[AT(i, j)];
      for (int64_t k = 0; k < j; k++) sum -= l[AT(i, k)] * l[AT(j, k)];
      if (i == j && !(sum > 0)) return (linalg_fault){LINALG_NOT_DEFINITE, i + 1};
      l[AT(i, j)] = i == j ? sqrt(sum) : sum / l[AT(j, j)];
    }
  }
#undef AT
  return fine;
}

/* x = op(T)⁻¹ x for k columns; lower: of op(T). */
static linalg_fault substitute(const double *t, int64_t n, int64_t k, bool lower, bool trans, bool unit, double *x) {
  for (int64_t step = 0; step < n; step++) {
    int64_t i = lower ? step : n - 1 - step;
    for (int64_t done = 0; done < step; done++) {
      int64_t j = lower ? done : n - 1 - done;
      double factor = trans ? t[j * n + i] : t[i * n + j];
      for (int64_t q = 0; q < k; q++) x[i * k + q] -= factor * x[j * k + q];
    }
    if (unit) continue;
    if (t[i * n + i] == 0) return (linalg_fault){LINALG_SINGULAR, i};
    for (int64_t q = 0; q < k; q++) x[i * k + q] /= t[i * n + i];
  }
  return fine;
}

linalg_fault solve_triangular_reference(const matrix_call *c) {
  const linalg_params *p = c->params;
  memcpy(c->out[0], c->b, bytes(c->n * c->k));
  return substitute(c->a, c->n, c->k, (p->upper != 0) == (p->trans != 0), p->trans != 0, p->unit_diagonal != 0,
                    c->out[0]);
}

/* P A = L U in place; row[i] is the row of A that became i. Returns the sign of P, 0 if A is singular; *pivot then says
 * where, and the rest is not factorised. */
static int lu(double *a, int64_t n, int64_t *row, int64_t *pivot) {
  int sign = 1;
  for (int64_t i = 0; i < n; i++) row[i] = i;
  for (int64_t k = 0; k < n; k++) {
    int64_t best = k;
    for (int64_t i = k + 1; i < n; i++) best = fabs(a[i * n + k]) > fabs(a[best * n + k]) ? i : best;
    *pivot = k;
    if (a[best * n + k] == 0) return 0;
    for (int64_t j = 0; best != k && j < n; j++) {
      double kept = a[k * n + j];
      a[k * n + j] = a[best * n + j];
      a[best * n + j] = kept;
    }
    if (best != k) sign = -sign;
    int64_t moved = row[k];
    row[k] = row[best];
    row[best] = moved;
    for (int64_t i = k + 1; i < n; i++) {
      double factor = a[i * n + k] /= a[k * n + k];
      for (int64_t j = k + 1; j < n; j++) a[i * n + j] -= factor * a[k * n + j];
    }
  }
  return sign;
}

/* x = op(A)⁻¹ b for k columns. */
static linalg_fault solve(const double *a, const double *b, int64_t n, int64_t k, bool trans, double *x) {
  double *factors = malloc(bytes(n * n + 1));
  int64_t *row = malloc((size_t)(n + 1) * sizeof *row), pivot = 0;
  linalg_fault f = factors && row ? fine : no_memory();
  if (f.code == LINALG_FINE) {
    for (int64_t i = 0; i < n * n; i++) factors[i] = trans ? a[i % n * n + i / n] : a[i];
    if (!lu(factors, n, row, &pivot)) f = (linalg_fault){LINALG_SINGULAR, pivot};
  }
  for (int64_t i = 0; f.code == LINALG_FINE && i < n; i++) memcpy(x + i * k, b + row[i] * k, bytes(k));
  if (f.code == LINALG_FINE) f = substitute(factors, n, k, true, false, true, x);
  if (f.code == LINALG_FINE) f = substitute(factors, n, k, false, false, false, x);
  free(factors);
  free(row);
  return f;
}

linalg_fault lu_solve_reference(const matrix_call *c) {
  return solve(c->a, c->b, c->n, c->k, c->params->trans != 0, c->out[0]);
}

static double *identity(int64_t n) {
  double *eye = calloc((size_t)(n * n + 1), sizeof *eye);
  for (int64_t i = 0; eye && i < n; i++) eye[i * n + i] = 1;
  return eye;
}

linalg_fault inv_reference(const matrix_call *c) {
  double *eye = identity(c->n);
  linalg_fault f = eye ? solve(c->a, eye, c->n, c->n, false, c->out[0]) : no_memory();
  free(eye);
  return f;
}

/* The sign of det A and the logarithm of its size: 0 and -inf for a singular matrix. */
static linalg_fault determinant(const matrix_call *c, double *det, double *sign, double *log_size) {
  int64_t n = c->n, pivot;
  double *factors = malloc(bytes(n * n + 1));
  int64_t *row = malloc((size_t)(n + 1) * sizeof *row);
  linalg_fault f = factors && row ? fine : no_memory();
  if (f.code == LINALG_FINE) {
    memcpy(factors, c->a, bytes(n * n));
    *det = *sign = lu(factors, n, row, &pivot);
    *log_size = *sign != 0 ? 0 : -INFINITY;
    for (int64_t i = 0; *sign != 0 && i < n; i++) {
      *det *= factors[i * n + i];
      *log_size += log(fabs(factors[i * n + i]));
      if (factors[i * n + i] < 0) *sign = -*sign;
    }
  }
  free(factors);
  free(row);
  return f;
}

linalg_fault det_reference(const matrix_call *c) {
  double sign, log_size;
  return determinant(c, c->out[0], &sign, &log_size);
}

linalg_fault slogdet_reference(const matrix_call *c) {
  double det;
  return determinant(c, &det, c->out[0], c->out[1]);
}

linalg_fault logdet_reference(const matrix_call *c) {
  double det, sign = 0, *log_size = c->out[0];
  linalg_fault f = determinant(c, &det, &sign, log_size);
  if (f.code == LINALG_FINE && sign < 0) *log_size = NAN;
  return f;
}

/* Applies I - tau v vᵀ, v [rows] with stride `n`, to columns from `first` of x, whose rows begin where v's do. */
static void reflect(const double *v, int64_t rows, double tau, double *x, int64_t n, int64_t first) {
  for (int64_t j = first; j < n; j++) {
    double sum = 0;
    for (int64_t i = 0; i < rows; i++) sum += v[i] * x[i * n + j];
    for (int64_t i = 0; i < rows; i++) x[i * n + j] -= tau * sum * v[i];
  }
}

/* A = Q R by Householder's reflections, with LAPACK's choice of signs; q is m × columns. */
static linalg_fault householder(const double *a, int64_t m, int64_t n, int64_t columns, double *q, double *r) {
  int64_t steps = m < n ? m : n;
  double *full = malloc(bytes(m * n + 1)), *vs = calloc((size_t)(steps * m + 1), sizeof *vs),
         *tau = malloc(bytes(steps + 1));
  linalg_fault f = full && vs && tau ? fine : no_memory();
  if (f.code == LINALG_FINE) memcpy(full, a, bytes(m * n));
  for (int64_t k = 0; f.code == LINALG_FINE && k < steps; k++) {
    double *v = vs + k * m, rest = 0, alpha = full[k * n + k];
    for (int64_t i = k + 1; i < m; i++) rest += full[i * n + k] * full[i * n + k];
    double beta = alpha > 0 ? -sqrt(alpha * alpha + rest) : sqrt(alpha * alpha + rest);
    tau[k] = rest == 0 ? 0 : (beta - alpha) / beta;
    v[k] = 1;
    for (int64_t i = k + 1; i < m; i++) v[i] = rest == 0 ? 0 : full[i * n + k] / (alpha - beta);
    reflect(v + k, m - k, tau[k], full + k * n, n, k);
    for (int64_t i = k + 1; i < m; i++) full[i * n + k] = 0;
  }
  if (f.code == LINALG_FINE) {
    memcpy(r, full, bytes(columns * n));
    memset(q, 0, bytes(m * columns));
    for (int64_t i = 0; i < columns; i++) q[i * columns + i] = 1;
    for (int64_t k = steps - 1; k >= 0; k--) reflect(vs + k * m + k, m - k, tau[k], q + k * columns, columns, 0);
  }
  free(full);
  free(vs);
  free(tau);
  return f;
}

linalg_fault qr_reference(const matrix_call *c) {
  int64_t least = c->m < c->n ? c->m : c->n;
  return householder(c->a, c->m, c->n, c->params->full ? c->m : least, c->out[0], c->out[1]);
}

/* ---- expm ------------------------------------------------------------------------------------------------------- */

static void multiply(const double *a, const double *b, int64_t n, double *y) {
  memset(y, 0, bytes(n * n));
  for (int64_t i = 0; i < n; i++) {
    for (int64_t k = 0; k < n; k++) {
      double factor = a[i * n + k];
      for (int64_t j = 0; j < n; j++) y[i * n + j] += factor * b[k * n + j];
    }
  }
}

/* Scaling to a norm of at most a half, Taylor's series to its 20th term, squaring. */
linalg_fault expm_reference(const matrix_call *c) {
  int64_t n = c->n, count = n * n;
  double *x = malloc(bytes(3 * count + 1)), *sum = c->out[0], norm = 0;
  if (!x) return no_memory();
  double *term = x + count, *next = term + count;
  for (int64_t i = 0; i < n; i++) {
    double row = 0;
    for (int64_t j = 0; j < n; j++) row += fabs(((const double *)c->a)[i * n + j]);
    norm = row > norm ? row : norm;
  }
  int squarings = norm > 0.5 ? (int)ceil(log2(norm / 0.5)) : 0;
  for (int64_t i = 0; i < count; i++) {
    x[i] = ldexp(((const double *)c->a)[i], -squarings);
    sum[i] = term[i] = i % (n + 1) == 0;
  }
  for (int k = 1; k <= 20; k++) {
    multiply(term, x, n, next);
    for (int64_t i = 0; i < count; i++) sum[i] += term[i] = next[i] / k;
  }
  for (int s = 0; s < squarings; s++) {
    multiply(sum, sum, n, next);
    memcpy(sum, next, bytes(count));
  }
  free(x);
  return fine;
}
