/* spectral.c — the references of eigh and svd by Jacobi's rotations, and of what follows from svd, in double. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "linalg.h"

enum { SWEEPS = 60 };
static const linalg_fault fine = {LINALG_FINE, 0};
static linalg_fault no_memory(void) { return (linalg_fault){LINALG_NO_MEMORY, 0}; }
static size_t bytes(int64_t count) { return (size_t)count * sizeof(double); }

#define REAL double
#define NAME(name) name##_f64
#include "vectors.h"

/* Rotates columns p and q of x, rows of `stride`. */
static void rotate(double *x, int64_t rows, int64_t stride, int64_t p, int64_t q, double cosine, double sine) {
  for (int64_t i = 0; i < rows; i++) {
    double a = x[i * stride + p], b = x[i * stride + q];
    x[i * stride + p] = cosine * a - sine * b;
    x[i * stride + q] = sine * a + cosine * b;
  }
}

/* The rotation that makes [[app, apq], [apq, aqq]] diagonal. */
static void rotation(double app, double aqq, double apq, double *cosine, double *sine) {
  double theta = (aqq - app) / (2 * apq);
  double t = (theta >= 0 ? 1 : -1) / (fabs(theta) + sqrt(theta * theta + 1));
  *cosine = 1 / sqrt(t * t + 1);
  *sine = t * *cosine;
}

/* ---- eigh ------------------------------------------------------------------------------------------------------- */

/* One pass over all pairs of the symmetric matrix a whose element is larger than `small`; v collects the rotations.
 * True if nothing was left to do. */
static bool eigh_sweep(double *a, double *v, int64_t n, double small) {
  bool done = true;
  for (int64_t p = 0; p < n; p++) {
    for (int64_t q = p + 1; q < n; q++) {
      double apq = a[p * n + q], cosine, sine;
      if (fabs(apq) <= small) continue;
      done = false;
      rotation(a[p * n + p], a[q * n + q], apq, &cosine, &sine);
      rotate(a, n, n, p, q, cosine, sine);
      for (int64_t j = 0; j < n; j++) {
        double x = a[p * n + j], y = a[q * n + j];
        a[p * n + j] = cosine * x - sine * y;
        a[q * n + j] = sine * x + cosine * y;
      }
      a[p * n + q] = a[q * n + p] = 0;
      rotate(v, n, n, p, q, cosine, sine);
    }
  }
  return done;
}

linalg_fault eigh_reference(const matrix_call *c) {
  int64_t n = c->n;
  const double *given = c->a;
  double *w = c->out[0], *vectors = c->out[1], size = 0;
  double *a = malloc(bytes(2 * n * n + 1)), *v = a ? a + n * n : NULL;
  if (!a) return no_memory();
  for (int64_t i = 0; i < n * n; i++) {
    int64_t row = i / n, column = i % n, low = row > column ? row : column, high = row > column ? column : row;
    a[i] = c->params->upper ? given[high * n + low] : given[low * n + high];
    v[i] = row == column;
    size = hypot(size, a[i]);
  }
  bool done = false;
  for (int s = 0; s < SWEEPS && !done; s++) done = eigh_sweep(a, v, n, 1e-17 * size);
  for (int64_t i = 0; i < n; i++) { /* ascending: by selection */
    int64_t least = i;
    for (int64_t j = i + 1; j < n; j++) least = a[j * n + j] < a[least * n + least] ? j : least;
    w[i] = a[least * n + least];
    for (int64_t r = 0; r < n; r++) {
      vectors[r * n + i] = v[r * n + least];
      v[r * n + least] = v[r * n + i];
    }
    a[least * n + least] = a[i * n + i];
  }
  fix_signs_f64(vectors, n, n, NULL, 0, n);
  free(a);
  return done ? fine : (linalg_fault){LINALG_NO_CONVERGENCE, 0};
}

/* ---- svd -------------------------------------------------------------------------------------------------------- */

/* Makes the columns of u [m, n] orthogonal (Hestenes), but for products up to `small`; v [n, n] collects the rotations.
 */
static bool svd_sweep(double *u, double *v, int64_t m, int64_t n, double small) {
  bool done = true;
  for (int64_t p = 0; p < n; p++) {
    for (int64_t q = p + 1; q < n; q++) {
      double app = 0, aqq = 0, apq = 0, cosine, sine;
      for (int64_t i = 0; i < m; i++) {
        app += u[i * n + p] * u[i * n + p];
        aqq += u[i * n + q] * u[i * n + q];
        apq += u[i * n + p] * u[i * n + q];
      }
      if (fabs(apq) <= 1e-15 * sqrt((double)m) * sqrt(app) * sqrt(aqq) || fabs(apq) <= small) continue;
      done = false;
      rotation(app, aqq, apq, &cosine, &sine);
      rotate(u, m, n, p, q, cosine, sine);
      rotate(v, n, n, p, q, cosine, sine);
    }
  }
  return done;
}

/* Fills columns [have, columns) of u, rows of `columns`, with unit vectors orthogonal to all before (Gram and Schmidt,
 * twice, from the axis that is least covered). */
static void complete(double *u, int64_t m, int64_t columns, int64_t have) {
  for (int64_t j = have; j < columns; j++) {
    int64_t axis = 0;
    double least = INFINITY;
    for (int64_t i = 0; i < m; i++) {
      double covered = 0;
      for (int64_t k = 0; k < j; k++) covered += u[i * columns + k] * u[i * columns + k];
      if (covered < least) least = covered, axis = i;
    }
    for (int64_t i = 0; i < m; i++) u[i * columns + j] = i == axis;
    for (int pass = 0; pass < 2; pass++) {
      for (int64_t k = 0; k < j; k++) {
        double along = 0;
        for (int64_t i = 0; i < m; i++) along += u[i * columns + k] * u[i * columns + j];
        for (int64_t i = 0; i < m; i++) u[i * columns + j] -= along * u[i * columns + k];
      }
      double size = 0;
      for (int64_t i = 0; i < m; i++) size += u[i * columns + j] * u[i * columns + j];
      for (int64_t i = 0; i < m; i++) u[i * columns + j] /= sqrt(size);
    }
  }
}

/* A tall or square matrix, m ≥ n, as a = u [m, columns] diag(s) vᵀ, descending; a and v are spoilt. vt is [n, n]. */
static bool svd_tall(double *a, double *v, int64_t m, int64_t n, int64_t columns, double *u, double *s, double *vt) {
  bool done = false;
  double size = 0;
  for (int64_t i = 0; i < n * n; i++) v[i] = i % (n + 1) == 0;
  for (int64_t i = 0; i < m * n; i++) size = hypot(size, a[i]);
  for (int t = 0; t < SWEEPS && !done; t++) done = svd_sweep(a, v, m, n, 1e-15 * size * 1e-15 * size);
  double *norms = s; /* sorted where they are made */
  int64_t have = 0;
  for (int64_t j = 0; j < n; j++) {
    norms[j] = 0;
    for (int64_t i = 0; i < m; i++) norms[j] += a[i * n + j] * a[i * n + j];
    norms[j] = sqrt(norms[j]);
  }
  for (int64_t j = 0; j < n; j++) {
    int64_t best = j;
    for (int64_t k = j + 1; k < n; k++) best = norms[k] > norms[best] ? k : best;
    double norm = norms[best];
    norms[best] = norms[j];
    norms[j] = norm;
    rotate(a, m, n, j, best, best == j, best != j); /* change places */
    rotate(v, n, n, j, best, best == j, best != j);
    if (norm > 1e-15 * s[0] * (double)m) have = j + 1;
    for (int64_t i = 0; i < m; i++) u[i * columns + j] = norm > 0 ? a[i * n + j] / norm : 0;
    for (int64_t i = 0; i < n; i++) vt[j * n + i] = v[i * n + j];
  }
  complete(u, m, columns, have);
  return done;
}

/* Transposes [rows, columns]. */
static void turn(const double *x, int64_t rows, int64_t columns, double *y) {
  for (int64_t i = 0; i < rows * columns; i++) y[i % columns * rows + i / columns] = x[i];
}

/* u [m, uc], s, vh [vr, n] of a. */
static linalg_fault svd(const double *a, int64_t m, int64_t n, bool full, double *u, double *s, double *vh) {
  int64_t least = m < n ? m : n, most = m < n ? n : m, columns = full ? most : least;
  double *x = malloc(bytes(m * n + 2 * least * least + most * columns + 1));
  if (!x) return no_memory();
  double *v = x + m * n, *small = v + least * least, *large = small + least * least;
  bool wide = m < n, done;
  if (wide)
    turn(a, m, n, x);
  else
    memcpy(x, a, bytes(m * n));
  done = svd_tall(x, v, most, least, columns, large, s, small);
  if (wide) { /* aᵀ = large s small: u is smallᵀ, vh is largeᵀ */
    turn(small, least, least, u);
    turn(large, most, columns, vh);
  } else {
    memcpy(u, large, bytes(most * columns));
    memcpy(vh, small, bytes(least * least));
  }
  fix_signs_f64(u, m, full ? m : least, vh, n, least);
  free(x);
  return done ? fine : (linalg_fault){LINALG_NO_CONVERGENCE, 0};
}

linalg_fault svd_reference(const matrix_call *c) {
  return svd(c->a, c->m, c->n, c->params->full != 0, c->out[0], c->out[1], c->out[2]);
}

/* ---- by svd ----------------------------------------------------------------------------------------------------- */

static linalg_fault by_svd(const matrix_call *c, const double *b, int64_t k, double *x, double *rank, double *values) {
  int64_t least = c->m < c->n ? c->m : c->n;
  double *u = malloc(bytes(c->m * least + least + least * c->n + 1));
  if (!u) return no_memory();
  double *s = u + c->m * least, *vh = s + least;
  linalg_fault f = svd(c->a, c->m, c->n, false, u, s, vh);
  int64_t found = apply_inverse_f64(c, u, s, vh, b, k, x);
  if (rank) *rank = (double)found;
  if (values) memcpy(values, s, bytes(least));
  free(u);
  return f;
}

linalg_fault pinv_reference(const matrix_call *c) { return by_svd(c, NULL, c->m, c->out[0], NULL, NULL); }
linalg_fault lstsq_reference(const matrix_call *c) { return by_svd(c, c->b, c->k, c->out[0], c->out[1], c->out[2]); }
