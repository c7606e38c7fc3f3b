/* straight.c — the comparison for sparse.pcg_solve: the same algorithm over the same arrays, in plain loops. */
#include "straight.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static double dot(int32_t n, const double *x, const double *y) {
  double sum = 0;
  for (int32_t i = 0; i < n; i++) sum += x[i] * y[i];
  return sum;
}

static void multiply(int32_t n, const double *values, const int32_t *col, const int32_t *ptr, const double *x,
                     double *y) {
  for (int32_t i = 0; i < n; i++) {
    double sum = 0;
    for (int32_t k = ptr[i]; k < ptr[i + 1]; k++) sum += values[k] * x[col[k]];
    y[i] = sum;
  }
}

/* The lower triangle, diagonal last in each row, factorised in place. */
static int factorise(int32_t n, const double *values, const int32_t *col, const int32_t *ptr, double *l, int32_t *lc,
                     int32_t *lp) {
  int32_t to = 0;
  lp[0] = 0;
  for (int32_t i = 0; i < n; i++) {
    for (int32_t k = ptr[i]; k < ptr[i + 1] && col[k] <= i; k++) {
      lc[to] = col[k];
      l[to++] = values[k];
    }
    lp[i + 1] = to;
  }
  for (int32_t i = 0; i < n; i++) {
    int32_t last = lp[i + 1] - 1;
    double pivot = l[last];
    for (int32_t k = lp[i]; k < last; k++) {
      int32_t j = lc[k], p = lp[i], q = lp[j], end = lp[j + 1] - 1;
      double sum = l[k];
      while (p < k && q < end) {
        if (lc[p] == lc[q])
          sum -= l[p++] * l[q++];
        else if (lc[p] < lc[q])
          p++;
        else
          q++;
      }
      l[k] = sum / l[end];
      pivot -= l[k] * l[k];
    }
    if (!(pivot > 0)) return -1;
    l[last] = sqrt(pivot);
  }
  return 0;
}

static void precondition(int32_t n, const double *l, const int32_t *lc, const int32_t *lp, const double *r, double *z) {
  for (int32_t i = 0; i < n; i++) {
    double sum = r[i];
    for (int32_t k = lp[i]; k < lp[i + 1] - 1; k++) sum -= l[k] * z[lc[k]];
    z[i] = sum / l[lp[i + 1] - 1];
  }
  for (int32_t i = n - 1; i >= 0; i--) {
    z[i] /= l[lp[i + 1] - 1];
    for (int32_t k = lp[i]; k < lp[i + 1] - 1; k++) z[lc[k]] -= l[k] * z[i];
  }
}

int straight_pcg(int32_t n, const double *values, const int32_t *col, const int32_t *ptr, const double *b, double *x,
                 double rtol) {
  size_t size = (size_t)n, entries = (size_t)ptr[n];
  double *r = malloc(size * sizeof *r), *z = malloc(size * sizeof *z), *p = malloc(size * sizeof *p),
         *q = malloc(size * sizeof *q), *l = calloc(entries, sizeof *l);
  int32_t *lc = calloc(entries, sizeof *lc), *lp = calloc(size + 1, sizeof *lp);
  int iterations = -1;
  if (r && z && p && q && l && lc && lp && factorise(n, values, col, ptr, l, lc, lp) == 0) {
    memset(x, 0, size * sizeof *x);
    memcpy(r, b, size * sizeof *r);
    double tolerance = rtol * sqrt(dot(n, b, b));
    precondition(n, l, lc, lp, r, z);
    memcpy(p, z, size * sizeof *p);
    double rho = dot(n, r, z);
    for (iterations = 0; sqrt(dot(n, r, r)) > tolerance; iterations++) {
      multiply(n, values, col, ptr, p, q);
      double alpha = rho / dot(n, p, q);
      for (int32_t i = 0; i < n; i++) x[i] += alpha * p[i];
      for (int32_t i = 0; i < n; i++) r[i] -= alpha * q[i];
      precondition(n, l, lc, lp, r, z);
      double next = dot(n, r, z);
      for (int32_t i = 0; i < n; i++) p[i] = z[i] + next / rho * p[i];
      rho = next;
    }
  }
  free(r);
  free(z);
  free(p);
  free(q);
  free(l);
  free(lc);
  free(lp);
  return iterations;
}
