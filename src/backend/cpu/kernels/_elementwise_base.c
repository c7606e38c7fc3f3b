/* _elementwise_base.c — the table's loops for any processor, and the choice among instruction sets. */
#include <math.h>

#include "backend/cpu/kernels/_elementwise_tables.h"

const ew_table *ew_table_best(void) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512vl")) {
    return &ew_table_avx512;
  }
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return &ew_table_avx2;
#endif
  return &ew_table_base;
}

#if defined(__aarch64__)
#define MADD(a, b, c) __builtin_fmaf(a, b, c)
#else
#define MADD(a, b, c) ((a) * (b) + (c))
#endif
#define ISA_TABLE ew_table_base
#include "backend/cpu/kernels/_elementwise_isa.h"
