/* _fft.h — Fourier transforms of any length, of several lines at once.
 *
 * A block is `width` lines side by side: element i of line w is re[i * width + w], im[i * width + w]. Lengths whose
 * prime factors are at most FFT_LARGEST are transformed by Stockham's algorithm; others by Bluestein's: a convolution
 * of a good length (Bluestein 1970; Stockham 1966). All arithmetic is in double. */
#ifndef CPU_FFT_H
#define CPU_FFT_H

#include <rlx/extend.h>

enum { FFT_STAGES = 32, FFT_LARGEST = 13 };

typedef struct fft_stage {
  int64_t radix, rest; /* n of the stage = radix * rest */
  const double *roots; /* root(p * j), j = 1 … radix - 1, p < rest: re at (2 * (j - 1)) * rest + p, im `rest` on */
  const double *unit;  /* the radix-th roots of unity, for radices without code of their own */
} fft_stage;

/* Immutable once made. One allocation holds all of it. */
typedef struct fft_plan {
  int64_t n;
  int64_t length; /* of the Stockham transform: n, or the convolution's */
  int stage_count;
  fft_stage stages[FFT_STAGES];
  const double *chirp;  /* Bluestein: exp(-pi i j² / n), n of (re, im); NULL if n needs none */
  const double *filter; /* the transform of the chirp's conjugate, over length: `length` of (re, im) */
  const double *half;   /* exp(-2 pi i k / 2n), n + 1 of (re, im): joins a real transform of 2n */
  int64_t bytes;        /* of everything */
} fft_plan;

/* One side of a block. */
typedef struct fft_block {
  double *re, *im;
} fft_block;

/* Fails with RLX_OUT_OF_MEMORY, through ctx. mem_free releases a plan. */
rlx_status fft_plan_create(const void *ctx, int64_t n, const fft_plan **out);
/* Elements that each of the four arrays of two blocks needs, a line. */
int64_t fft_room(const fft_plan *plan);
/* Transforms a; b is room. The result is in a, which may then be what was b. For the inverse, without its factor 1 / n:
 * swap re and im before and after. */
void fft_run(const fft_plan *plan, fft_block *a, fft_block *b, int64_t width);

/* The stages, compiled for each instruction set: from a to b and back; the result is in a. */
typedef void fft_stages_fn(const fft_plan *plan, fft_block *a, fft_block *b, int64_t width);
extern fft_stages_fn fft_stages_base;
#if defined(__x86_64__)
extern fft_stages_fn fft_stages_avx2;
extern fft_stages_fn fft_stages_avx512;
#endif

#endif
