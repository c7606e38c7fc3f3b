/* _fft_avx512.c — the stages of a transform for AVX-512. */
#include "backend/cpu/kernels/_fft.h"

#if defined(__x86_64__)
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx512f,avx512bw,avx512dq,avx512vl"))), apply_to = function)
#else
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,prefer-vector-width=512")
#endif
#define ISA_STAGES fft_stages_avx512
#include "backend/cpu/kernels/_fft_isa.h"
#if defined(__clang__)
#pragma clang attribute pop
#endif
#endif
