/* _gemm_avx512.c — tiles of matrix products for AVX-512: 12 rows of 32 columns. */
#include "backend/cpu/kernels/_gemm.h"

#if defined(__x86_64__)
#include <immintrin.h>
#include <stddef.h>
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx512f,avx2,fma"))), apply_to = function)
#else
#pragma GCC target("avx512f,avx2,fma")
#endif
#define VEC __m512
#define LANES 16
#define LOAD(p) _mm512_loadu_ps(p)
#define STORE(p, v) _mm512_storeu_ps(p, v)
#define SET(x) _mm512_set1_ps(x)
#define FMA(a, b, c) _mm512_fmadd_ps(a, b, c)
#define TILE_ROWS 12
#include "backend/cpu/kernels/_gemm_tile.h"
#if defined(__clang__)
#pragma clang attribute pop
#endif
const gemm_isa gemm_avx512 = {12, 32, TILES, true};
#endif
