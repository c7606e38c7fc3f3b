/* deform_base.c — sampling and products for any processor, the choice among instruction sets, packing. */
#include <string.h>

#include "deform.h"

const deform_isa *deform_isa_best(void) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) return &deform_isa_avx512;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return &deform_isa_avx2;
#endif
  return &deform_isa_base;
}

int64_t deform_packed_bias(int64_t out) { return (out + DEFORM_PANEL - 1) / DEFORM_PANEL * DEFORM_PANEL; }
int64_t deform_packed(int64_t out, int64_t k) { return deform_packed_bias(out) * k; }

void deform_pack(const float *weights, const float *bias, int64_t out, int64_t k, float *packed, float *packed_bias) {
  int64_t columns = deform_packed_bias(out);
  memset(packed, 0, (size_t)(columns * k) * sizeof *packed);
  memset(packed_bias, 0, (size_t)columns * sizeof *packed_bias);
  for (int64_t c = 0; c < out; c++) {
    float *to = packed + c / DEFORM_PANEL * DEFORM_PANEL * k + c % DEFORM_PANEL;
    for (int64_t i = 0; i < k; i++) to[i * DEFORM_PANEL] = weights[c * k + i];
  }
  memcpy(packed_bias, bias, (size_t)out * sizeof *bias);
}

/* Four floats, written out: compilers have them on every processor. */
typedef float vector4 __attribute__((vector_size(16)));
static inline vector4 load4(const float *p) {
  vector4 v;
  memcpy(&v, p, sizeof v);
  return v;
}
static inline void store4(float *p, vector4 v) { memcpy(p, &v, sizeof v); }

#define VEC vector4
#define LANES 4
#define LOAD(p) load4(p)
#define STORE(p, v) store4(p, v)
#define SET(x) ((vector4){x, x, x, x})
#define FMA(a, b, c) ((a) * (b) + (c))
#define ISA deform_isa_base
#include "deform_isa.h"
