/* _convert.c — conversion between element types: direct loops for common pairs, else through double or int64. */
#include "ops/_convert.h"

#include <math.h>
#include <string.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "ir/dtype.h"

const convert_rule convert_default = {.saturate = true, .rounding = CONVERT_UP};

bool convert_supports(rlx_dtype dtype) { return dtype == RLX_BOOL || dtype_is_float(dtype) || dtype_is_integer(dtype); }

/* ---- floats of few bits ---- */

typedef struct small_format {
  int mantissa, bias;
  unsigned sign;     /* its bit */
  unsigned max;      /* largest finite code */
  unsigned infinity; /* 0: has none */
  unsigned nan;
  bool signed_nan, negative_zero, may_saturate;
} small_format;

static const small_format *small_format_of(rlx_dtype dtype) {
  static const small_format f16 = {10, 15, 0x8000, 0x7bff, 0x7c00, 0x7e00, true, true, false};
  static const small_format bf16 = {7, 127, 0x8000, 0x7f7f, 0x7f80, 0x7fc0, true, true, false};
  static const small_format e4m3fn = {3, 7, 0x80, 0x7e, 0, 0x7f, true, true, true};
  static const small_format e4m3fnuz = {3, 8, 0x80, 0x7f, 0, 0x80, false, false, true};
  static const small_format e5m2 = {2, 15, 0x80, 0x7b, 0x7c, 0x7f, true, true, true};
  static const small_format e5m2fnuz = {2, 16, 0x80, 0x7f, 0, 0x80, false, false, true};
  static const small_format e2m1 = {1, 1, 0x8, 0x7, 0, 0x8, false, true, true};
  static const small_format e2m3 = {3, 1, 0x20, 0x1f, 0, 0x20, false, true, true};
  static const small_format e3m2 = {2, 3, 0x20, 0x1f, 0, 0x20, false, true, true};
  switch (dtype) {
    case RLX_FLOAT16: return &f16;
    case RLX_BFLOAT16: return &bf16;
    case RLX_FLOAT8E4M3FN: return &e4m3fn;
    case RLX_FLOAT8E4M3FNUZ: return &e4m3fnuz;
    case RLX_FLOAT8E5M2: return &e5m2;
    case RLX_FLOAT8E5M2FNUZ: return &e5m2fnuz;
    case RLX_FLOAT4E2M1: return &e2m1;
    case RLX_FLOAT6E2M3: return &e2m3;
    case RLX_FLOAT6E3M2: return &e3m2;
    default: return NULL;
  }
}

/* Round to nearest even, once, from double. */
static unsigned small_encode(const small_format *k, double value, bool saturate) {
  unsigned sign = signbit(value) ? k->sign : 0;
  unsigned nan = k->signed_nan ? sign | k->nan : k->nan;
  if (value != value) return nan;
  double magnitude = fabs(value);
  saturate = saturate && k->may_saturate;
  unsigned code = k->max + 1;
  if (magnitude < INFINITY) {
    int exponent = 1 - k->bias;
    if (magnitude > 0 && ilogb(magnitude) > exponent) exponent = ilogb(magnitude);
    if (exponent <= 256) {
      unsigned mantissa = (unsigned)rint(ldexp(magnitude, k->mantissa - exponent));
      code = ((unsigned)(exponent + k->bias - 1) << k->mantissa) + mantissa;
    }
  }
  if (code > k->max) code = saturate ? k->max : k->infinity ? k->infinity : nan;
  if (code == 0 && !k->negative_zero) return 0;
  return code | sign;
}

static unsigned e8m0_encode(double value, const convert_rule *rule) {
  if (value != value) return 0xff;
  if (!(value > 0)) return rule->saturate ? 0 : 0xff;
  if (value == INFINITY) return rule->saturate ? 0xfe : 0xff;
  int exponent;
  double half = frexp(value, &exponent) - 0.5; /* value = (0.5 + half) 2^exponent */
  exponent -= 1;
  bool up = rule->rounding == CONVERT_UP ? half > 0 : rule->rounding == CONVERT_NEAREST && half >= 0.25;
  exponent += up;
  if (exponent > 127) return rule->saturate ? 0xfe : 0xff;
  if (exponent < -127) return rule->saturate ? 0 : 0xff;
  return (unsigned)(exponent + 127);
}

/* ---- through a wide type ---- */

#define TILE 256

/* A few elements as double (floats) or as int64 bits (integers and bool). */
typedef union wide_tile {
  double f[TILE];
  int64_t i[TILE];
} wide_tile;

static void load_integers(rlx_dtype from, const void *data, int64_t at, int64_t n, int64_t *out) {
  switch (from) {
#define X(dtype, c_type, compute, class)                                                                               \
  case RLX_##dtype:                                                                                                    \
    for (int64_t i = 0; i < n; i++) out[i] = (int64_t)((const c_type *)data)[at + i];                                  \
    break;
#include "ir/dtype.def"
#undef X
    default: {
      int bits = rlx_dtype_bits(from);
      int high = dtype_is_signed(from) ? 1 << (bits - 1) : 0;
      for (int64_t i = 0; i < n; i++) out[i] = ((int)bits_load(bits, data, at + i) ^ high) - high;
    }
  }
}

static void load_floats(rlx_dtype from, const void *data, int64_t at, int64_t n, double *out) {
  switch (from) {
    case RLX_FLOAT:
      for (int64_t i = 0; i < n; i++) out[i] = (double)((const float *)data)[at + i];
      break;
    case RLX_DOUBLE: memcpy(out, (const double *)data + at, (size_t)n * sizeof *out); break;
    case RLX_FLOAT16:
      for (int64_t i = 0; i < n; i++) out[i] = (double)f16_to_f32(((const uint16_t *)data)[at + i]);
      break;
    case RLX_BFLOAT16:
      for (int64_t i = 0; i < n; i++) out[i] = (double)bf16_to_f32(((const uint16_t *)data)[at + i]);
      break;
    default:
      for (int64_t i = 0; i < n; i++) out[i] = dtype_load(from, data, at + i);
  }
}

static void store_sub_byte(int bits, void *data, int64_t at, int64_t n, const unsigned *codes) {
  if (!n) return;
  /* What lies between the last element and the end of its byte becomes zero. */
  int64_t end = (at + n) * bits;
  for (int64_t i = 0; i < n; i++) bits_store(bits, data, at + i, codes[i]);
  if (end & 7) ((uint8_t *)data)[end >> 3] &= (uint8_t)((1u << (end & 7)) - 1);
}

static void store_truth(void *out, int64_t at, int64_t n, const int64_t *values) {
  for (int64_t i = 0; i < n; i++) ((uint8_t *)out)[at + i] = values[i] != 0;
}

/* To any type with a C type of its own, float and double included, or to sub-byte integers. */
static void store_integers(rlx_dtype to, void *out, int64_t at, int64_t n, const int64_t *values) {
  if (to == RLX_BOOL) {
    store_truth(out, at, n, values);
    return;
  }
  switch (to) {
#define X(dtype, c_type, compute, class)                                                                               \
  case RLX_##dtype:                                                                                                    \
    for (int64_t i = 0; i < n; i++) ((c_type *)out)[at + i] = (c_type)values[i];                                       \
    break;
#include "ir/dtype.def"
#undef X
    default: {
      unsigned codes[TILE];
      for (int64_t i = 0; i < n; i++) codes[i] = (unsigned)values[i];
      store_sub_byte(rlx_dtype_bits(to), out, at, n, codes);
    }
  }
}

static void store_floats(rlx_dtype to, void *out, int64_t at, int64_t n, const double *values,
                         const convert_rule *rule) {
  const small_format *format = small_format_of(to);
  if (to == RLX_FLOAT) {
    for (int64_t i = 0; i < n; i++) ((float *)out)[at + i] = (float)values[i];
  } else if (to == RLX_DOUBLE) {
    memcpy((double *)out + at, values, (size_t)n * sizeof *values);
  } else if (to == RLX_FLOAT8E8M0) {
    for (int64_t i = 0; i < n; i++) ((uint8_t *)out)[at + i] = (uint8_t)e8m0_encode(values[i], rule);
  } else if (rlx_dtype_bits(to) == 16) {
    for (int64_t i = 0; i < n; i++) ((uint16_t *)out)[at + i] = (uint16_t)small_encode(format, values[i], false);
  } else if (rlx_dtype_bits(to) == 8) {
    for (int64_t i = 0; i < n; i++) {
      ((uint8_t *)out)[at + i] = (uint8_t)small_encode(format, values[i], rule->saturate);
    }
  } else {
    unsigned codes[TILE];
    for (int64_t i = 0; i < n; i++) codes[i] = small_encode(format, values[i], true);
    store_sub_byte(rlx_dtype_bits(to), out, at, n, codes);
  }
}

/* C's conversion is undefined out of range: those become the least int64, as on common hardware. */
static int64_t truncated(double v) { return v > -0x1p63 && v < 0x1p63 ? (int64_t)v : INT64_MIN; }

static void floats_to_integers(rlx_dtype to, wide_tile *t, int64_t n) {
  if (to == RLX_BOOL) {
    for (int64_t i = 0; i < n; i++) t->i[i] = t->f[i] != 0;
  } else if (to == RLX_UINT64) {
    for (int64_t i = 0; i < n; i++) {
      double v = t->f[i];
      t->i[i] = v >= 0x1p63 && v < 0x1p64 ? (int64_t)(uint64_t)v : truncated(v);
    }
  } else {
    for (int64_t i = 0; i < n; i++) t->i[i] = truncated(t->f[i]);
  }
  int bits = rlx_dtype_bits(to);
  if (bits >= 8) return;
  /* Below a byte, what does not fit becomes 0. */
  int64_t low = dtype_is_signed(to) ? -(1 << (bits - 1)) : 0, high = low + (1 << bits) - 1;
  for (int64_t i = 0; i < n; i++) t->i[i] = t->i[i] < low || t->i[i] > high ? 0 : t->i[i];
}

static void convert_wide(rlx_dtype from, const void *data, int64_t at, rlx_dtype to, void *out, int64_t to_at,
                         int64_t n, const convert_rule *rule) {
  wide_tile t;
  if (dtype_is_float(from)) {
    load_floats(from, data, at, n, t.f);
    if (dtype_is_float(to)) {
      store_floats(to, out, to_at, n, t.f, rule);
    } else {
      floats_to_integers(to, &t, n);
      store_integers(to, out, to_at, n, t.i);
    }
    return;
  }
  load_integers(from, data, at, n, t.i);
  if (from == RLX_UINT64 && dtype_is_float(to)) {
    if (to == RLX_FLOAT) { /* rounded once */
      for (int64_t i = 0; i < n; i++) ((float *)out)[to_at + i] = (float)(uint64_t)t.i[i];
      return;
    }
    for (int64_t i = 0; i < n; i++) t.f[i] = (double)(uint64_t)t.i[i];
    store_floats(to, out, to_at, n, t.f, rule);
  } else if (dtype_is_float(to) && to != RLX_FLOAT && to != RLX_DOUBLE) {
    for (int64_t i = 0; i < n; i++) t.f[i] = (double)t.i[i];
    store_floats(to, out, to_at, n, t.f, rule);
  } else {
    store_integers(to, out, to_at, n, t.i);
  }
}

/* ---- direct loops ---- */

/* Truncation to int32 as hardware does it. */
static inline int32_t truncated32(float v) { return v > -0x1p31f && v < 0x1p31f ? (int32_t)v : INT32_MIN; }

/* As f32_to_bf16, in a form that vectorises. */
static inline uint16_t rounded_bf16(float v) {
  union {
    float f;
    uint32_t u;
  } bits = {.f = v};
  uint32_t rounded = (bits.u + 0x7fff + (bits.u >> 16 & 1)) >> 16, nan = bits.u >> 16 | 0x40;
  return (uint16_t)(v == v ? rounded : nan);
}

/* X(from, c_from, to, c_to, expression of v): common pairs whose loops vectorise. */
#define DIRECT_PAIRS                                                                                                   \
  X(FLOAT, float, DOUBLE, double, (double)v)                                                                           \
  X(DOUBLE, double, FLOAT, float, (float)v)                                                                            \
  X(FLOAT, float, INT32, int32_t, truncated32(v))                                                                      \
  X(FLOAT, float, INT64, int64_t, truncated((double)v))                                                                \
  X(FLOAT, float, UINT8, uint8_t, (uint8_t)truncated32(v))                                                             \
  X(FLOAT, float, INT8, int8_t, (int8_t)truncated32(v))                                                                \
  X(FLOAT, float, BOOL, uint8_t, v != 0)                                                                               \
  X(FLOAT, float, BFLOAT16, uint16_t, rounded_bf16(v))                                                                 \
  X(FLOAT, float, FLOAT16, uint16_t, f32_to_f16(v))                                                                    \
  X(BFLOAT16, uint16_t, FLOAT, float, bf16_to_f32(v))                                                                  \
  X(FLOAT16, uint16_t, FLOAT, float, f16_to_f32(v))                                                                    \
  X(BOOL, uint8_t, FLOAT, float, (float)v)                                                                             \
  X(UINT8, uint8_t, FLOAT, float, (float)v)                                                                            \
  X(INT8, int8_t, FLOAT, float, (float)v)                                                                              \
  X(INT32, int32_t, FLOAT, float, (float)v)                                                                            \
  X(INT64, int64_t, FLOAT, float, (float)v)                                                                            \
  X(BOOL, uint8_t, INT32, int32_t, v)                                                                                  \
  X(BOOL, uint8_t, INT64, int64_t, v)                                                                                  \
  X(INT32, int32_t, INT64, int64_t, v)                                                                                 \
  X(INT64, int64_t, INT32, int32_t, (int32_t)v)                                                                        \
  X(INT64, int64_t, BOOL, uint8_t, v != 0)                                                                             \
  X(INT32, int32_t, BOOL, uint8_t, v != 0)

static bool convert_direct(rlx_dtype from, const void *data, int64_t at, rlx_dtype to, void *out, int64_t to_at,
                           int64_t n) {
#define X(f, c_from, t, c_to, expression)                                                                              \
  if (from == RLX_##f && to == RLX_##t) {                                                                              \
    const c_from *p = (const c_from *)data + at;                                                                       \
    c_to *q = (c_to *)out + to_at;                                                                                     \
    for (int64_t i = 0; i < n; i++) {                                                                                  \
      const c_from v = p[i];                                                                                           \
      q[i] = expression;                                                                                               \
    }                                                                                                                  \
    return true;                                                                                                       \
  }
  DIRECT_PAIRS
#undef X
  return false;
}

/* ---- float16 by the processor ---- */

#if defined(__x86_64__)
__attribute__((target("avx,f16c"))) static void halves_to_floats(const uint16_t *from, float *to, int64_t n) {
  int64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    _mm256_storeu_ps(to + i, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)(from + i))));
  }
  for (; i < n; i++) to[i] = f16_to_f32(from[i]);
}

__attribute__((target("avx,f16c"))) static void floats_to_halves(const float *from, uint16_t *to, int64_t n) {
  int64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    _mm_storeu_si128((__m128i *)(void *)(to + i),
                     _mm256_cvtps_ph(_mm256_loadu_ps(from + i), _MM_FROUND_TO_NEAREST_INT));
  }
  for (; i < n; i++) to[i] = f32_to_f16(from[i]);
}

static bool convert_halves(rlx_dtype from, const void *data, int64_t at, rlx_dtype to, void *out, int64_t to_at,
                           int64_t n) {
  bool widen = from == RLX_FLOAT16 && to == RLX_FLOAT, narrow = from == RLX_FLOAT && to == RLX_FLOAT16;
  if (!(widen || narrow) || n < 8 || !__builtin_cpu_supports("avx2")) return false;
  if (widen) {
    halves_to_floats((const uint16_t *)data + at, (float *)out + to_at, n);
  } else {
    floats_to_halves((const float *)data + at, (uint16_t *)out + to_at, n);
  }
  return true;
}
#else
static bool convert_halves(rlx_dtype from, const void *data, int64_t at, rlx_dtype to, void *out, int64_t to_at,
                           int64_t n) {
  (void)from, (void)data, (void)at, (void)to, (void)out, (void)to_at, (void)n;
  return false;
}
#endif

void convert_run(rlx_dtype from, const void *data, int64_t at, rlx_dtype to, void *out, int64_t to_at, int64_t n,
                 const convert_rule *rule) {
  if (from == to && dtype_size(from) != 0) {
    size_t size = dtype_size(from);
    memmove((char *)out + (size_t)to_at * size, (const char *)data + (size_t)at * size, (size_t)n * size);
    return;
  }
  if (convert_halves(from, data, at, to, out, to_at, n)) return;
  if (convert_direct(from, data, at, to, out, to_at, n)) return;
  for (int64_t done = 0; done < n; done += TILE) {
    int64_t step = n - done < TILE ? n - done : TILE;
    convert_wide(from, data, at + done, to, out, to_at + done, step, rule);
  }
}
