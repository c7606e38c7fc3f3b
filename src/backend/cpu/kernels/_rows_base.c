/* _rows_base.c — rows for any processor, and the choice among instruction sets. */
#include <math.h>

#include "backend/cpu/kernels/_rows.h"

const rows_table *rows_table_best(void) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512vl")) {
    return &rows_table_avx512;
  }
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return &rows_table_avx2;
#endif
  return &rows_table_base;
}

#if defined(__aarch64__)
#define MADD(a, b, c) __builtin_fmaf(a, b, c)
#else
#define MADD(a, b, c) ((a) * (b) + (c))
#endif
#define ISA_TABLE rows_table_base
#include "backend/cpu/kernels/_rows_isa.h"
