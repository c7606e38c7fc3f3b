/* _fft_isa.h — the stages of a transform for one instruction set. Included by one file each, which defines
 *   #define ISA_STAGES fft_stages_avx2   the name of the function
 * Nothing is fused, so that every instruction set gives the same bits. */
#include <stdint.h>

#include "backend/cpu/kernels/_fft.h"

#define FFT_INLINE static inline __attribute__((always_inline))

/* Where a butterfly reads and writes: element k of its radix is `in * k` further on, result j `out * j`. */
typedef struct wires {
  const double *xr, *xi;
  double *yr, *yi;
  int64_t in, out;
} wires;

/* Result j = (re, im) times root j, w[j - 1]. */
FFT_INLINE void put(const wires *x, int j, double re, double im, const double *wr, const double *wi) {
  x->yr[j * x->out] = j ? re * wr[j - 1] - im * wi[j - 1] : re;
  x->yi[j * x->out] = j ? re * wi[j - 1] + im * wr[j - 1] : im;
}

FFT_INLINE void butterfly2(const wires *x, const double *wr, const double *wi) {
  double ar = x->xr[0], ai = x->xi[0], br = x->xr[x->in], bi = x->xi[x->in];
  put(x, 0, ar + br, ai + bi, wr, wi);
  put(x, 1, ar - br, ai - bi, wr, wi);
}

FFT_INLINE void butterfly3(const wires *x, const double *wr, const double *wi) {
  const double sine = 0.86602540378443864676;
  double ar = x->xr[0], ai = x->xi[0], br = x->xr[x->in], bi = x->xi[x->in];
  double cr = x->xr[2 * x->in], ci = x->xi[2 * x->in];
  double tr = br + cr, ti = bi + ci, dr = sine * (br - cr), di = sine * (bi - ci);
  double mr = ar - 0.5 * tr, mi = ai - 0.5 * ti;
  put(x, 0, ar + tr, ai + ti, wr, wi);
  put(x, 1, mr + di, mi - dr, wr, wi);
  put(x, 2, mr - di, mi + dr, wr, wi);
}

FFT_INLINE void butterfly4(const wires *x, const double *wr, const double *wi) {
  double ar = x->xr[0], ai = x->xi[0], br = x->xr[x->in], bi = x->xi[x->in];
  double cr = x->xr[2 * x->in], ci = x->xi[2 * x->in], dr = x->xr[3 * x->in], di = x->xi[3 * x->in];
  double pr = ar + cr, pi = ai + ci, qr = ar - cr, qi = ai - ci;
  double sr = br + dr, si = bi + di, tr = br - dr, ti = bi - di;
  put(x, 0, pr + sr, pi + si, wr, wi);
  put(x, 1, qr + ti, qi - tr, wr, wi);
  put(x, 2, pr - sr, pi - si, wr, wi);
  put(x, 3, qr - ti, qi + tr, wr, wi);
}

FFT_INLINE void butterfly5(const wires *x, const double *wr, const double *wi) {
  const double c1 = 0.30901699437494742410, c2 = -0.80901699437494742410;
  const double s1 = 0.95105651629515357212, s2 = 0.58778525229247312917;
  double ar = x->xr[0], ai = x->xi[0];
  double br = x->xr[x->in], bi = x->xi[x->in], cr = x->xr[2 * x->in], ci = x->xi[2 * x->in];
  double dr = x->xr[3 * x->in], di = x->xi[3 * x->in], er = x->xr[4 * x->in], ei = x->xi[4 * x->in];
  double pr = br + er, pi = bi + ei, mr = br - er, mi = bi - ei;
  double qr = cr + dr, qi = ci + di, nr = cr - dr, ni = ci - di;
  double fr = ar + c1 * pr + c2 * qr, fi = ai + c1 * pi + c2 * qi;
  double gr = ar + c2 * pr + c1 * qr, gi = ai + c2 * pi + c1 * qi;
  double ur = s1 * mr + s2 * nr, ui = s1 * mi + s2 * ni, vr = s2 * mr - s1 * nr, vi = s2 * mi - s1 * ni;
  put(x, 0, ar + pr + qr, ai + pi + qi, wr, wi);
  put(x, 1, fr + ui, fi - ur, wr, wi);
  put(x, 2, gr + vi, gi - vr, wr, wi);
  put(x, 3, gr - vi, gi + vr, wr, wi);
  put(x, 4, fr - ui, fi + ur, wr, wi);
}

/* Two butterflies of four, of the even and the odd elements, then one of two. */
FFT_INLINE void butterfly8(const wires *x, const double *wr, const double *wi) {
  const double h = 0.70710678118654752440;
  double er[2][4], ei[2][4];
  for (int s = 0; s < 2; s++) {
    const double *r = x->xr + s * x->in, *i = x->xi + s * x->in;
    double pr = r[0] + r[4 * x->in], pi = i[0] + i[4 * x->in], qr = r[0] - r[4 * x->in], qi = i[0] - i[4 * x->in];
    double sr = r[2 * x->in] + r[6 * x->in], si = i[2 * x->in] + i[6 * x->in];
    double tr = r[2 * x->in] - r[6 * x->in], ti = i[2 * x->in] - i[6 * x->in];
    er[s][0] = pr + sr, ei[s][0] = pi + si, er[s][1] = qr + ti, ei[s][1] = qi - tr;
    er[s][2] = pr - sr, ei[s][2] = pi - si, er[s][3] = qr - ti, ei[s][3] = qi + tr;
  }
  const double tr[4] = {er[1][0], h * (er[1][1] + ei[1][1]), ei[1][2], h * (ei[1][3] - er[1][3])};
  const double ti[4] = {ei[1][0], h * (ei[1][1] - er[1][1]), -er[1][2], -h * (er[1][3] + ei[1][3])};
  for (int j = 0; j < 4; j++) {
    put(x, j, er[0][j] + tr[j], ei[0][j] + ti[j], wr, wi);
    put(x, j + 4, er[0][j] - tr[j], ei[0][j] - ti[j], wr, wi);
  }
}

FFT_INLINE void butterfly(int radix, const wires *x, const double *roots, int64_t rest) {
  double wr[7], wi[7];
  for (int j = 0; j < radix - 1; j++) {
    wr[j] = roots[2 * j * rest];
    wi[j] = roots[(2 * j + 1) * rest];
  }
  switch (radix) {
    case 2: butterfly2(x, wr, wi); break;
    case 3: butterfly3(x, wr, wi); break;
    case 4: butterfly4(x, wr, wi); break;
    case 5: butterfly5(x, wr, wi); break;
    default: butterfly8(x, wr, wi); break;
  }
}

/* One stage: `near` neighbours share the roots of p. A single line begins with one neighbour: then along p. */
FFT_INLINE void stage(int radix, const fft_stage *t, const fft_block *a, const fft_block *b, int64_t near) {
  int64_t rest = t->rest, in = rest * near;
  const double *xr = a->re, *xi = a->im, *roots = t->roots;
  double *yr = b->re, *yi = b->im;
  if (near == 1) {
#pragma omp simd
    for (int64_t p = 0; p < rest; p++) {
      const wires x = {xr + p, xi + p, yr + radix * p, yi + radix * p, rest, 1};
      butterfly(radix, &x, roots + p, rest);
    }
    return;
  }
  for (int64_t p = 0; p < rest; p++) {
    const double *from_r = xr + p * near, *from_i = xi + p * near;
    double *to_r = yr + radix * p * near, *to_i = yi + radix * p * near;
#pragma omp simd
    for (int64_t q = 0; q < near; q++) {
      const wires x = {from_r + q, from_i + q, to_r + q, to_i + q, in, near};
      butterfly(radix, &x, roots + p, rest);
    }
  }
}

/* A prime radix by its definition. */
static void stage_prime(const fft_stage *t, const fft_block *a, const fft_block *b, int64_t near) {
  int64_t radix = t->radix, rest = t->rest;
  for (int64_t p = 0; p < rest; p++) {
    for (int64_t j = 0; j < radix; j++) {
      double *yr = b->re + (radix * p + j) * near, *yi = b->im + (radix * p + j) * near;
      double wr = j ? t->roots[2 * (j - 1) * rest + p] : 1, wi = j ? t->roots[(2 * j - 1) * rest + p] : 0;
      for (int64_t k = 0; k < radix; k++) {
        const double *xr = a->re + (rest * k + p) * near, *xi = a->im + (rest * k + p) * near;
        const double *u = t->unit + 2 * (j * k % radix);
        double cr = u[0] * wr - u[1] * wi, ci = u[0] * wi + u[1] * wr;
#pragma omp simd
        for (int64_t q = 0; q < near; q++) {
          double sr = k ? yr[q] : 0, si = k ? yi[q] : 0;
          yr[q] = sr + (xr[q] * cr - xi[q] * ci);
          yi[q] = si + (xr[q] * ci + xi[q] * cr);
        }
      }
    }
  }
}

void ISA_STAGES(const fft_plan *plan, fft_block *a, fft_block *b, int64_t width) {
  int64_t near = width;
  for (int i = 0; i < plan->stage_count; i++) {
    const fft_stage *t = &plan->stages[i];
    switch (t->radix) {
      case 2: stage(2, t, a, b, near); break;
      case 3: stage(3, t, a, b, near); break;
      case 4: stage(4, t, a, b, near); break;
      case 5: stage(5, t, a, b, near); break;
      case 8: stage(8, t, a, b, near); break;
      default: stage_prime(t, a, b, near); break;
    }
    fft_block swap = *a;
    *a = *b;
    *b = swap;
    near *= t->radix;
  }
}
