/* _recurrent_base.c — recurrent layers for any processor, and the choice among instruction sets. */
#include <math.h>
#include <string.h>

#include "backend/cpu/kernels/_recurrent.h"

const recurrent_table *recurrent_table_best(void) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512vl")) {
    return &recurrent_table_avx512;
  }
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return &recurrent_table_avx2;
#endif
  return &recurrent_table_base;
}

#if defined(__aarch64__)
#include <arm_neon.h>
#define MADD(a, b, c) __builtin_fmaf(a, b, c)
#define VECTOR_MADD(a, b, c) (vector)vfmaq_f32((float32x4_t)(c), (float32x4_t)(a), (float32x4_t)(b))
#define TILE_ROWS 4
#else
#define MADD(a, b, c) ((a) * (b) + (c))
#define VECTOR_MADD(a, b, c) ((a) * (b) + (c))
#define TILE_ROWS 2
#endif
#define LANES 4
#define ISA_TABLE recurrent_table_base
#include "backend/cpu/kernels/_recurrent_isa.h"
