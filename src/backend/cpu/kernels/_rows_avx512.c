/* _rows_avx512.c — rows for AVX-512. */
#include <math.h>

#include "backend/cpu/kernels/_rows.h"

#if defined(__x86_64__)
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma"))),                   \
                             apply_to = function)
#else
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,prefer-vector-width=512")
#endif
#define MADD(a, b, c) __builtin_fmaf(a, b, c)
#define ISA_TABLE rows_table_avx512
#include "backend/cpu/kernels/_rows_isa.h"
#if defined(__clang__)
#pragma clang attribute pop
#endif
#endif
