/* _recurrent_avx512.c — recurrent layers for AVX-512. */
#include <math.h>
#include <string.h>

#include "backend/cpu/kernels/_recurrent.h"

#if defined(__x86_64__)
#include <immintrin.h>
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma"))),                   \
                             apply_to = function)
#else
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,prefer-vector-width=512")
#endif
#define MADD(a, b, c) __builtin_fmaf(a, b, c)
#define VECTOR_MADD(a, b, c) _mm512_fmadd_ps(a, b, c)
#define LANES 16
#define TILE_ROWS 6
#define ISA_TABLE recurrent_table_avx512
#include "backend/cpu/kernels/_recurrent_isa.h"
#if defined(__clang__)
#pragma clang attribute pop
#endif
#endif
