/* _recurrent_avx2.c — recurrent layers for AVX2. */
#include <math.h>
#include <string.h>

#include "backend/cpu/kernels/_recurrent.h"

#if defined(__x86_64__)
#include <immintrin.h>
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma"))), apply_to = function)
#else
#pragma GCC target("avx2,fma")
#endif
#define MADD(a, b, c) __builtin_fmaf(a, b, c)
#define VECTOR_MADD(a, b, c) _mm256_fmadd_ps(a, b, c)
#define LANES 8
#define TILE_ROWS 2
#define ISA_TABLE recurrent_table_avx2
#include "backend/cpu/kernels/_recurrent_isa.h"
#if defined(__clang__)
#pragma clang attribute pop
#endif
#endif
