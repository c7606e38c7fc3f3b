/* _fft_avx2.c — the stages of a transform for AVX2. */
#include "backend/cpu/kernels/_fft.h"

#if defined(__x86_64__)
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2"))), apply_to = function)
#else
#pragma GCC target("avx2")
#endif
#define ISA_STAGES fft_stages_avx2
#include "backend/cpu/kernels/_fft_isa.h"
#if defined(__clang__)
#pragma clang attribute pop
#endif
#endif
