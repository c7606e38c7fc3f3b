/* dtype.c — the table of element types and conversion of single elements. */
#include "ir/dtype.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const struct {
  const char *name;
  int bits;
  char class; /* f float, i signed, u unsigned, b bool, c complex, s string */
} types[RLX_DTYPE_COUNT] = {
    [RLX_UNDEFINED] = {"undefined", 0, 0},
    [RLX_FLOAT] = {"float", 32, 'f'},
    [RLX_UINT8] = {"uint8", 8, 'u'},
    [RLX_INT8] = {"int8", 8, 'i'},
    [RLX_UINT16] = {"uint16", 16, 'u'},
    [RLX_INT16] = {"int16", 16, 'i'},
    [RLX_INT32] = {"int32", 32, 'i'},
    [RLX_INT64] = {"int64", 64, 'i'},
    [RLX_STRING] = {"string", 0, 's'},
    [RLX_BOOL] = {"bool", 8, 'b'},
    [RLX_FLOAT16] = {"float16", 16, 'f'},
    [RLX_DOUBLE] = {"double", 64, 'f'},
    [RLX_UINT32] = {"uint32", 32, 'u'},
    [RLX_UINT64] = {"uint64", 64, 'u'},
    [RLX_COMPLEX64] = {"complex64", 64, 'c'},
    [RLX_COMPLEX128] = {"complex128", 128, 'c'},
    [RLX_BFLOAT16] = {"bfloat16", 16, 'f'},
    [RLX_FLOAT8E4M3FN] = {"float8e4m3fn", 8, 'f'},
    [RLX_FLOAT8E4M3FNUZ] = {"float8e4m3fnuz", 8, 'f'},
    [RLX_FLOAT8E5M2] = {"float8e5m2", 8, 'f'},
    [RLX_FLOAT8E5M2FNUZ] = {"float8e5m2fnuz", 8, 'f'},
    [RLX_UINT4] = {"uint4", 4, 'u'},
    [RLX_INT4] = {"int4", 4, 'i'},
    [RLX_FLOAT4E2M1] = {"float4e2m1", 4, 'f'},
    [RLX_FLOAT8E8M0] = {"float8e8m0", 8, 'f'},
    [RLX_UINT2] = {"uint2", 2, 'u'},
    [RLX_INT2] = {"int2", 2, 'i'},
    [RLX_FLOAT6E2M3] = {"float6e2m3", 6, 'f'},
    [RLX_FLOAT6E3M2] = {"float6e3m2", 6, 'f'},
};

static bool known(rlx_dtype d) { return (int)d > 0 && (int)d < RLX_DTYPE_COUNT; }

const char *rlx_dtype_name(rlx_dtype d) { return types[known(d) ? d : RLX_UNDEFINED].name; }

rlx_dtype rlx_dtype_parse(const char *name) {
  if (!name) return RLX_UNDEFINED;
  if (strcmp(name, "float32") == 0) return RLX_FLOAT;
  if (strcmp(name, "float64") == 0) return RLX_DOUBLE;
  for (int d = 1; d < RLX_DTYPE_COUNT; d++)
    if (strcmp(name, types[d].name) == 0) return (rlx_dtype)d;
  return RLX_UNDEFINED;
}

int rlx_dtype_bits(rlx_dtype d) { return known(d) ? types[d].bits : 0; }

int64_t rlx_dtype_bytes(rlx_dtype d, int64_t count) {
  int64_t bits = d == RLX_STRING ? (int64_t)sizeof(rlx_string) * 8 : rlx_dtype_bits(d);
  if (count < 0 || bits == 0 || count > (INT64_MAX - 7) / bits) return -1;
  return (count * bits + 7) / 8;
}

size_t dtype_size(rlx_dtype d) {
  if (d == RLX_STRING) return sizeof(rlx_string);
  int bits = rlx_dtype_bits(d);
  return bits % 8 ? 0 : (size_t)bits / 8;
}

bool dtype_is_float(rlx_dtype d) { return known(d) && types[d].class == 'f'; }
bool dtype_is_integer(rlx_dtype d) { return known(d) && (types[d].class == 'i' || types[d].class == 'u'); }
bool dtype_is_signed(rlx_dtype d) { return known(d) && types[d].class == 'i'; }

void dtype_set_names(uint64_t set, char *text, size_t size) {
  if (size) *text = 0;
  for (int d = 1; d < RLX_DTYPE_COUNT; d++) {
    if (!(set >> d & 1)) continue;
    size_t used = strlen(text);
    snprintf(text + used, size - used, "%s%s", used ? ", " : "", types[d].name);
  }
}

static uint32_t bits_of(float f) {
  uint32_t u;
  memcpy(&u, &f, sizeof u);
  return u;
}

static float float_of(uint32_t u) {
  float f;
  memcpy(&f, &u, sizeof f);
  return f;
}

float f16_to_f32(uint16_t h) {
  uint32_t sign = (uint32_t)(h & 0x8000) << 16, exponent = h >> 10 & 0x1f, mantissa = h & 0x3ff;
  if (exponent == 0x1f) return float_of(sign | 0x7f800000 | mantissa << 13);
  if (exponent) return float_of(sign | (exponent + 112) << 23 | mantissa << 13);
  float tiny = (float)mantissa * 0x1p-24f;
  return sign ? -tiny : tiny;
}

uint16_t f32_to_f16(float f) {
  uint32_t u = bits_of(f), sign = u >> 16 & 0x8000, rest = u & 0x7fffffff;
  if (rest > 0x7f800000) return (uint16_t)(sign | 0x7e00 | (rest >> 13 & 0x3ff));
  if (rest >= 0x477ff000) return (uint16_t)(sign | 0x7c00); /* 65520 and above round to infinity */
  if (rest < 0x38800000) {                                  /* subnormal: scaled, rounded by the FPU */
    float scaled = float_of(rest) * 0x1p24f;
    return (uint16_t)(sign | (uint32_t)nearbyintf(scaled));
  }
  uint32_t rounded = rest + 0xfff + (rest >> 13 & 1);
  return (uint16_t)(sign | ((rounded - 0x38000000) >> 13));
}

uint16_t f32_to_bf16(float f) {
  uint32_t u = bits_of(f);
  if ((u & 0x7fffffff) > 0x7f800000) return (uint16_t)(u >> 16 | 0x40);
  return (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}

/* ---- small floats: sign, exponent and mantissa widths, bias, and which codes are special ---- */

typedef struct small_float {
  int bits, mantissa_bits, bias;
  bool infinities;    /* e5m2: all-ones exponent is infinity or NaN */
  bool negative_zero; /* false: FNUZ, whose 0x80 is NaN */
  bool nan_all_ones;  /* e4m3fn: only 0x7f is NaN */
  double max;
} small_float;

static const small_float *small_float_of(rlx_dtype d) {
  static const small_float e4m3fn = {8, 3, 7, false, true, true, 448};
  static const small_float e4m3fnuz = {8, 3, 8, false, false, false, 240};
  static const small_float e5m2 = {8, 2, 15, true, true, false, 57344};
  static const small_float e5m2fnuz = {8, 2, 16, false, false, false, 57344};
  static const small_float e2m1 = {4, 1, 1, false, true, false, 6};
  static const small_float e2m3 = {6, 3, 1, false, true, false, 7.5};
  static const small_float e3m2 = {6, 2, 3, false, true, false, 28};
  switch (d) {
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

static double small_decode(const small_float *k, unsigned code) {
  unsigned sign = code >> (k->bits - 1) & 1;
  unsigned magnitude = code & ((1u << (k->bits - 1)) - 1);
  unsigned all = (1u << (k->bits - 1)) - 1;
  unsigned mantissa = magnitude & ((1u << k->mantissa_bits) - 1);
  int exponent = (int)(magnitude >> k->mantissa_bits);
  if (!k->negative_zero && sign && !magnitude) return NAN;
  if (k->nan_all_ones && magnitude == all) return sign ? -NAN : NAN;
  if (k->infinities && exponent == (int)(all >> k->mantissa_bits)) return mantissa ? NAN : sign ? -INFINITY : INFINITY;
  double value = exponent ? ldexp((double)(mantissa | 1u << k->mantissa_bits), exponent - k->bias - k->mantissa_bits)
                          : ldexp((double)mantissa, 1 - k->bias - k->mantissa_bits);
  return sign ? -value : value;
}

/* Round to nearest even, saturating to the largest finite value (ONNX's saturate = 1). */
static unsigned small_encode(const small_float *k, double value) {
  unsigned sign = signbit(value) ? 1u << (k->bits - 1) : 0;
  if (isnan(value)) {
    if (!k->negative_zero) return 1u << (k->bits - 1);
    return sign | (k->infinities ? 0x7fu : k->nan_all_ones ? 0x7fu : 0u);
  }
  double a = fabs(value);
  if (a > k->max) a = k->max;
  int exponent = 0;
  (void)frexp(a, &exponent); /* a = m * 2^exponent, m in [0.5, 1) */
  int least = 1 - k->bias;
  int e = exponent - 1 < least || a == 0 ? least : exponent - 1;
  double scaled = nearbyint(ldexp(a, k->mantissa_bits - e));
  if (scaled >= ldexp(1, k->mantissa_bits + 1)) {
    scaled /= 2;
    e++;
  }
  unsigned m = (unsigned)scaled, implicit = 1u << k->mantissa_bits;
  unsigned code = m < implicit ? m : (unsigned)(e + k->bias) << k->mantissa_bits | (m - implicit);
  if (!code && !k->negative_zero) return 0;
  return sign | code;
}

static double e8m0_decode(unsigned code) { return code == 0xff ? NAN : ldexp(1, (int)code - 127); }

static unsigned e8m0_encode(double value) {
  if (isnan(value) || value < 0) return 0xff;
  if (value == 0) return 0;
  int exponent;
  double m = frexp(value, &exponent); /* nearest power of two, ties up */
  int e = exponent - 1 + (m >= 0.75) + 127;
  return e < 0 ? 0u : e > 254 ? 254u : (unsigned)e;
}

uint32_t bits_load(int bits, const void *data, int64_t i) {
  const uint8_t *p = (const uint8_t *)data + (i * bits >> 3);
  int shift = (int)(i * bits & 7);
  uint32_t two = p[0];
  if (shift + bits > 8) two |= (uint32_t)p[1] << 8;
  return two >> shift & ((1u << bits) - 1u);
}

void bits_store(int bits, void *data, int64_t i, uint32_t value) {
  uint8_t *p = (uint8_t *)data + (i * bits >> 3);
  int shift = (int)(i * bits & 7);
  uint32_t mask = ((1u << bits) - 1u) << shift, put = value << shift & mask;
  p[0] = (uint8_t)((p[0] & ~mask) | put);
  if (shift + bits > 8) p[1] = (uint8_t)((p[1] & ~(mask >> 8)) | put >> 8);
}

double dtype_load(rlx_dtype d, const void *data, int64_t i) {
  switch (d) {
#define X(dtype, type, compute, class) \
  case RLX_##dtype: return (double)((const type *)data)[i];
#include "ir/dtype.def"
#undef X
    case RLX_FLOAT16: return (double)f16_to_f32(((const uint16_t *)data)[i]);
    case RLX_BFLOAT16: return (double)bf16_to_f32(((const uint16_t *)data)[i]);
    case RLX_FLOAT8E8M0: return e8m0_decode(((const uint8_t *)data)[i]);
    case RLX_FLOAT4E2M1: return small_decode(small_float_of(d), bits_load(4, data, i));
    case RLX_FLOAT6E2M3:
    case RLX_FLOAT6E3M2: return small_decode(small_float_of(d), bits_load(6, data, i));
    case RLX_UINT4:
    case RLX_INT4:
    case RLX_UINT2:
    case RLX_INT2: return (double)dtype_load_int(d, data, i);
    default: break;
  }
  const small_float *k = small_float_of(d);
  return k ? small_decode(k, ((const uint8_t *)data)[i]) : 0;
}

int64_t dtype_load_int(rlx_dtype d, const void *data, int64_t i) {
  switch (d) {
#define X(dtype, type, compute, class) \
  case RLX_##dtype: return (int64_t)((const type *)data)[i];
#include "ir/dtype.def"
#undef X
    case RLX_UINT4: return bits_load(4, data, i);
    case RLX_INT4: return (int64_t)((bits_load(4, data, i) ^ 8u)) - 8;
    case RLX_UINT2: return bits_load(2, data, i);
    case RLX_INT2: return (int64_t)(bits_load(2, data, i) ^ 2u) - 2;
    default: return (int64_t)dtype_load(d, data, i);
  }
}

/* C's conversion of an out-of-range float to an integer is undefined: those become the nearest bound. */
static int64_t to_int(double v) {
  if (isnan(v)) return 0;
  if (v >= 0x1p63) return INT64_MAX;
  return v <= -0x1p63 ? INT64_MIN : (int64_t)v;
}

static uint64_t to_uint(double v) {
  if (isnan(v)) return 0;
  if (v < 0) return (uint64_t)to_int(v);
  return v >= 0x1p64 ? UINT64_MAX : (uint64_t)v;
}

void dtype_store(rlx_dtype d, void *data, int64_t i, double v) {
  const small_float *k = small_float_of(d);
  switch (d) {
    case RLX_FLOAT: ((float *)data)[i] = (float)v; return;
    case RLX_DOUBLE: ((double *)data)[i] = v; return;
    case RLX_FLOAT16: ((uint16_t *)data)[i] = f32_to_f16((float)v); return;
    case RLX_BFLOAT16: ((uint16_t *)data)[i] = f32_to_bf16((float)v); return;
    case RLX_BOOL: ((uint8_t *)data)[i] = v != 0; return;
    case RLX_UINT64: ((uint64_t *)data)[i] = to_uint(v); return;
    case RLX_FLOAT8E8M0: ((uint8_t *)data)[i] = (uint8_t)e8m0_encode(v); return;
    case RLX_FLOAT4E2M1: bits_store(4, data, i, small_encode(k, v)); return;
    case RLX_FLOAT6E2M3:
    case RLX_FLOAT6E3M2: bits_store(6, data, i, small_encode(k, v)); return;
    default: break;
  }
  if (k)
    ((uint8_t *)data)[i] = (uint8_t)small_encode(k, v);
  else if (dtype_is_integer(d)) /* nothing else holds a number */
    dtype_store_int(d, data, i, to_int(v));
}

void dtype_store_int(rlx_dtype d, void *data, int64_t i, int64_t v) {
  switch (d) {
    case RLX_INT8:
    case RLX_UINT8: ((uint8_t *)data)[i] = (uint8_t)v; return;
    case RLX_INT16:
    case RLX_UINT16: ((uint16_t *)data)[i] = (uint16_t)v; return;
    case RLX_INT32:
    case RLX_UINT32: ((uint32_t *)data)[i] = (uint32_t)v; return;
    case RLX_INT64:
    case RLX_UINT64: ((uint64_t *)data)[i] = (uint64_t)v; return;
    case RLX_BOOL: ((uint8_t *)data)[i] = v != 0; return;
    case RLX_UINT4:
    case RLX_INT4: bits_store(4, data, i, (uint32_t)v); return;
    case RLX_UINT2:
    case RLX_INT2: bits_store(2, data, i, (uint32_t)v); return;
    default: dtype_store(d, data, i, (double)v); return;
  }
}
