/* _fft_base.c — plans, the transform for any processor, and the choice among instruction sets. */
#include <math.h>
#include <string.h>

#include "backend/cpu/kernels/_fft.h"
#include "base/memory.h"

#define ISA_STAGES fft_stages_base
#include "backend/cpu/kernels/_fft_isa.h"

static const double pi = 3.14159265358979323846;

/* ---- lengths ---------------------------------------------------------------------------------------------------- */

static const int radices[] = {8, 4, 2, 5, 3, 7, 11, 13};
enum { RADICES = sizeof radices / sizeof *radices };

/* The stages' radices; false if a prime factor is too large. */
static bool factorise(int64_t n, fft_plan *plan) {
  plan->stage_count = 0;
  for (int i = 0; i < RADICES; i++) {
    for (; n % radices[i] == 0 && n > 1; n /= radices[i]) plan->stages[plan->stage_count++].radix = radices[i];
  }
  return n == 1;
}

/* The least length of at least n with the factors 2, 3 and 5 only. */
static int64_t good_length(int64_t n) {
  int64_t best = INT64_MAX;
  for (int64_t five = 1; five < 5 * n; five *= 5) {
    for (int64_t three = five; three < 3 * n; three *= 3) {
      int64_t two = three;
      while (two < n) two *= 2;
      if (two < best) best = two;
    }
  }
  return best;
}

/* ---- plans ------------------------------------------------------------------------------------------------------ */

/* exp(-2 pi i k / n), k < n, in (re, im): from the first eighth, so that what must be equal is. */
static void root(int64_t k, int64_t n, double *re, double *im) {
  int64_t octant = 8 * k / n, q = k;
  if (octant >= 4) q = n - q;
  bool back = 4 * q > n; /* beyond a quarter: mirror at the imaginary axis */
  int64_t twice = back ? n - 2 * q : 2 * q;
  double c, s; /* of the angle pi * twice / n, at most a quarter turn */
  if (4 * twice > n) {
    double rest = pi * (double)(n - 2 * twice) / (double)(2 * n);
    c = sin(rest), s = cos(rest);
  } else {
    double angle = pi * (double)twice / (double)n;
    c = cos(angle), s = sin(angle);
  }
  *re = back ? -c : c;
  *im = octant >= 4 ? s : -s;
}

static double *make_roots(double *at, fft_stage *t, int64_t n) {
  t->rest = n / t->radix;
  t->roots = at;
  for (int64_t j = 1; j < t->radix; j++) {
    for (int64_t p = 0; p < t->rest; p++)
      root(p * j, n, at + 2 * (j - 1) * t->rest + p, at + (2 * j - 1) * t->rest + p);
  }
  at += 2 * (t->radix - 1) * t->rest;
  t->unit = at;
  for (int64_t j = 0; j < t->radix; j++) root(j, t->radix, at + 2 * j, at + 2 * j + 1);
  return at + 2 * t->radix;
}

static int64_t roots_room(const fft_plan *plan) {
  int64_t room = 0, n = plan->length;
  for (int i = 0; i < plan->stage_count; i++) {
    int64_t radix = plan->stages[i].radix;
    room += 2 * (radix - 1) * (n / radix) + 2 * radix;
    n /= radix;
  }
  return room;
}

/* The filter is made with room for two blocks of one line. */
static void make_chirp(fft_plan *plan, double *chirp, double *filter, double *room) {
  int64_t n = plan->n, length = plan->length;
  for (int64_t j = 0, square = 0; j < n; square = (square + 2 * j + 1) % (2 * n), j++)
    root(square, 2 * n, chirp + 2 * j, chirp + 2 * j + 1);
  memset(room, 0, (size_t)(4 * length) * sizeof *room);
  fft_block a = {room, room + length}, b = {room + 2 * length, room + 3 * length};
  for (int64_t j = 0; j < n; j++) {
    a.re[j] = a.re[(length - j) % length] = chirp[2 * j];
    a.im[j] = a.im[(length - j) % length] = -chirp[2 * j + 1];
  }
  fft_stages_base(plan, &a, &b, 1);
  for (int64_t j = 0; j < length; j++) {
    filter[2 * j] = a.re[j] / (double)length;
    filter[2 * j + 1] = a.im[j] / (double)length;
  }
  plan->chirp = chirp;
  plan->filter = filter;
}

rlx_status fft_plan_create(const void *ctx, int64_t n, const fft_plan **out) {
  fft_plan head = {.n = n, .length = n};
  bool long_primes = n <= INT32_MAX && !factorise(n, &head);
  if (long_primes) {
    head.length = good_length(2 * n - 1);
    (void)factorise(head.length, &head);
  }
  int64_t chirp = long_primes ? 2 * n + 2 * head.length : 0, room = long_primes ? 4 * head.length : 0;
  int64_t doubles = n > INT32_MAX ? 0 : roots_room(&head) + 2 * (n + 1) + chirp + room;
  fft_plan *plan = n > INT32_MAX ? NULL : mem_alloc(sizeof *plan + (size_t)doubles * sizeof(double));
  if (!plan) return rlx_fail(ctx, RLX_OUT_OF_MEMORY, "no memory for a transform of length %lld", (long long)n);
  *plan = head;
  plan->bytes = (int64_t)sizeof *plan + doubles * (int64_t)sizeof(double);
  double *at = (double *)(plan + 1);
  int64_t left = plan->length;
  for (int i = 0; i < plan->stage_count; left = plan->stages[i++].rest) at = make_roots(at, &plan->stages[i], left);
  plan->half = at;
  for (int64_t k = 0; k <= n; k++) root(k % (2 * n), 2 * n, at + 2 * k, at + 2 * k + 1);
  at += 2 * (n + 1);
  if (long_primes) make_chirp(plan, at, at + 2 * n, at + chirp);
  *out = plan;
  return RLX_OK;
}

int64_t fft_room(const fft_plan *plan) { return plan->length > plan->n ? plan->length : plan->n + 1; }

/* ---- running ---------------------------------------------------------------------------------------------------- */

static void stages(const fft_plan *plan, fft_block *a, fft_block *b, int64_t width) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512vl")) {
    fft_stages_avx512(plan, a, b, width);
    return;
  }
  if (__builtin_cpu_supports("avx2")) {
    fft_stages_avx2(plan, a, b, width);
    return;
  }
#endif
  fft_stages_base(plan, a, b, width);
}

/* x[i] *= (re, im)[i], for i < n. */
static void multiply(const fft_block *x, const double *by, int64_t n, int64_t width) {
  for (int64_t i = 0; i < n; i++) {
    double c = by[2 * i], s = by[2 * i + 1];
    for (int64_t q = i * width; q < (i + 1) * width; q++) {
      double re = x->re[q], im = x->im[q];
      x->re[q] = re * c - im * s;
      x->im[q] = re * s + im * c;
    }
  }
}

void fft_run(const fft_plan *plan, fft_block *a, fft_block *b, int64_t width) {
  if (!plan->chirp) {
    stages(plan, a, b, width);
    return;
  }
  size_t tail = (size_t)((plan->length - plan->n) * width) * sizeof(double);
  multiply(a, plan->chirp, plan->n, width);
  memset(a->re + plan->n * width, 0, tail);
  memset(a->im + plan->n * width, 0, tail);
  stages(plan, a, b, width);
  multiply(a, plan->filter, plan->length, width);
  fft_block ia = {a->im, a->re}, ib = {b->im, b->re}; /* the inverse */
  stages(plan, &ia, &ib, width);
  *a = (fft_block){ia.im, ia.re};
  *b = (fft_block){ib.im, ib.re};
  multiply(a, plan->chirp, plan->n, width);
}
