/* _elementwise_avx2.c — the table's loops for AVX2 and FMA. */
#include <math.h>

#include "backend/cpu/kernels/_elementwise_tables.h"

#if defined(__x86_64__)
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma"))), apply_to = function)
#else
#pragma GCC target("avx2,fma")
#endif
#define MADD(a, b, c) __builtin_fmaf(a, b, c)
#define ISA_TABLE ew_table_avx2
#include "backend/cpu/kernels/_elementwise_isa.h"
#if defined(__clang__)
#pragma clang attribute pop
#endif
#endif
