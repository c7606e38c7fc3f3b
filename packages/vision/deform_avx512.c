/* deform_avx512.c — sampling and products for AVX-512. */
#include "deform.h"

#if defined(__x86_64__)
#include <immintrin.h>
#include <string.h>
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx512f"))), apply_to = function)
#else
#pragma GCC target("avx512f")
#endif
#define VEC __m512
#define LANES 16
#define LOAD(p) _mm512_loadu_ps(p)
#define STORE(p, v) _mm512_storeu_ps(p, v)
#define SET(x) _mm512_set1_ps(x)
#define FMA(a, b, c) _mm512_fmadd_ps(a, b, c)
#define ISA deform_isa_avx512
#include "deform_isa.h"
#if defined(__clang__)
#pragma clang attribute pop
#endif
#endif
