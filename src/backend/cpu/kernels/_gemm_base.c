/* _gemm_base.c — tiles of matrix products for any processor, and the choice among instruction sets. */
#include <stddef.h>
#include <string.h>

#include "backend/cpu/kernels/_gemm.h"

const gemm_isa *gemm_best(void) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) return &gemm_avx512;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return &gemm_avx2;
#endif
  return &gemm_base;
}

typedef float lanes __attribute__((vector_size(16)));
static inline lanes load(const float *p) {
  lanes v;
  memcpy(&v, p, sizeof v);
  return v;
}
static inline void store(float *p, lanes v) { memcpy(p, &v, sizeof v); }

#define VEC lanes
#define LANES 4
#define LOAD(p) load(p)
#define STORE(p, v) store(p, v)
#define SET(x) ((lanes){0, 0, 0, 0} + (x))
#define FMA(a, b, c) ((a) * (b) + (c))
#define TILE_ROWS 6
#include "backend/cpu/kernels/_gemm_tile.h"
const gemm_isa gemm_base = {6, 8, TILES, false};
