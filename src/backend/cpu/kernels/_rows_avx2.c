/* _rows_avx2.c — rows for AVX2. */
#include <math.h>

#include "backend/cpu/kernels/_rows.h"

#if defined(__x86_64__)
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma"))), apply_to = function)
#else
#pragma GCC target("avx2,fma")
#endif
#define MADD(a, b, c) __builtin_fmaf(a, b, c)
#define ISA_TABLE rows_table_avx2
#include "backend/cpu/kernels/_rows_isa.h"
#if defined(__clang__)
#pragma clang attribute pop
#endif
#endif
