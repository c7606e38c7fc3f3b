// values.c — reads elements of any type as numbers and text.
#include "cli/values.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef enum special {
  SPECIAL_IEEE,  // infinities and NaNs in the highest exponent
  SPECIAL_FN,    // no infinities; all ones is NaN
  SPECIAL_FNUZ,  // no infinities, no negative zero: its code is NaN
  SPECIAL_FINITE // neither
} special;

// The layouts of floating-point types narrower than float: sign, exponent, fraction.
typedef struct narrow_float {
  int exponent_bits, fraction_bits, bias;
  special special;
} narrow_float;

static const narrow_float narrow_floats[RLX_DTYPE_COUNT] = {
    [RLX_FLOAT16] = {5, 10, 15, SPECIAL_IEEE},    [RLX_BFLOAT16] = {8, 7, 127, SPECIAL_IEEE},
    [RLX_FLOAT8E4M3FN] = {4, 3, 7, SPECIAL_FN},   [RLX_FLOAT8E4M3FNUZ] = {4, 3, 8, SPECIAL_FNUZ},
    [RLX_FLOAT8E5M2] = {5, 2, 15, SPECIAL_IEEE},  [RLX_FLOAT8E5M2FNUZ] = {5, 2, 16, SPECIAL_FNUZ},
    [RLX_FLOAT4E2M1] = {2, 1, 1, SPECIAL_FINITE}, [RLX_FLOAT6E2M3] = {2, 3, 1, SPECIAL_FINITE},
    [RLX_FLOAT6E3M2] = {3, 2, 3, SPECIAL_FINITE},
};

bool value_is_float(rlx_dtype dtype) {
  return dtype == RLX_FLOAT || dtype == RLX_DOUBLE || dtype == RLX_FLOAT8E8M0 ||
         (dtype > 0 && dtype < RLX_DTYPE_COUNT && narrow_floats[dtype].exponent_bits > 0);
}

bool value_is_complex(rlx_dtype dtype) { return dtype == RLX_COMPLEX64 || dtype == RLX_COMPLEX128; }

static double narrow_number(const narrow_float *f, uint32_t code) {
  uint32_t fraction = code & ((1u << f->fraction_bits) - 1);
  uint32_t exponents = (1u << f->exponent_bits) - 1;
  uint32_t exponent = (code >> f->fraction_bits) & exponents;
  bool negative = (code >> (f->fraction_bits + f->exponent_bits)) & 1;
  uint32_t fractions = (1u << f->fraction_bits) - 1;
  if (f->special == SPECIAL_FNUZ && negative && exponent == 0 && fraction == 0) return NAN;
  if (f->special == SPECIAL_FN && exponent == exponents && fraction == fractions) return NAN;
  if (f->special == SPECIAL_IEEE && exponent == exponents) {
    if (fraction) return NAN;
    return negative ? -INFINITY : INFINITY;
  }
  double value = exponent ? ldexp(1.0 + fraction / (double)(fractions + 1), (int)exponent - f->bias)
                          : ldexp(fraction / (double)(fractions + 1), 1 - f->bias);
  return negative ? -value : value;
}

// The bits of an element of at most 32 bits; sub-byte elements start at the low bits of a byte.
static uint32_t element_bits(const void *data, int64_t i, int bits) {
  const uint8_t *bytes = data;
  if (bits < 8) {
    int64_t first = i * bits / 8;
    int shift = (int)(i * bits % 8);
    uint32_t two = bytes[first];
    if (shift + bits > 8) two |= (uint32_t)bytes[first + 1] << 8;
    return two >> shift & ((1u << bits) - 1);
  }
  uint32_t value = 0;
  memcpy(&value, bytes + i * (bits / 8), (size_t)bits / 8);
  return value;
}

static double component(rlx_dtype dtype, const void *data, int64_t i) {
  if (dtype == RLX_FLOAT || dtype == RLX_COMPLEX64) {
    float value;
    memcpy(&value, (const char *)data + i * 4, 4);
    return (double)value;
  }
  double value;
  memcpy(&value, (const char *)data + i * 8, 8);
  return value;
}

double value_number(rlx_dtype dtype, const void *data, int64_t i) {
  if (dtype == RLX_FLOAT || dtype == RLX_DOUBLE) return component(dtype, data, i);
  if (value_is_complex(dtype)) return component(dtype, data, 2 * i);
  if (dtype == RLX_FLOAT8E8M0) {
    uint32_t code = element_bits(data, i, 8);
    return code == 255 ? NAN : ldexp(1.0, (int)code - 127);
  }
  if (value_is_float(dtype)) return narrow_number(&narrow_floats[dtype], element_bits(data, i, rlx_dtype_bits(dtype)));
  int64_t value = value_integer(dtype, data, i);
  return dtype == RLX_UINT64 ? (double)(uint64_t)value : (double)value;
}

double value_imaginary(rlx_dtype dtype, const void *data, int64_t i) {
  return value_is_complex(dtype) ? component(dtype, data, 2 * i + 1) : 0.0;
}

static bool is_signed(rlx_dtype dtype) {
  return dtype == RLX_INT2 || dtype == RLX_INT4 || dtype == RLX_INT8 || dtype == RLX_INT16 || dtype == RLX_INT32 ||
         dtype == RLX_INT64;
}

int64_t value_integer(rlx_dtype dtype, const void *data, int64_t i) {
  int bits = rlx_dtype_bits(dtype);
  int64_t value = 0;
  if (bits == 64) {
    memcpy(&value, (const char *)data + i * 8, 8);
    return value;
  }
  if (bits <= 0 || bits > 32) return 0;
  value = element_bits(data, i, bits);
  if (is_signed(dtype) && (value >> (bits - 1))) value -= INT64_C(1) << bits;
  return value;
}

static void string_text(const rlx_string *s, char text[CLI_VALUE_TEXT]) {
  size_t room = CLI_VALUE_TEXT - 6, length = s->size < room ? s->size : room;
  char *to = text;
  *to++ = '"';
  for (size_t i = 0; i < length; i++) *to++ = (unsigned char)s->data[i] < ' ' ? '?' : s->data[i];
  strcpy(to, length < s->size ? "…\"" : "\"");
}

void value_text(rlx_dtype dtype, const void *data, int64_t i, char text[CLI_VALUE_TEXT]) {
  if (dtype == RLX_STRING) {
    string_text((const rlx_string *)data + i, text);
  } else if (dtype == RLX_BOOL) {
    snprintf(text, CLI_VALUE_TEXT, "%s", value_integer(dtype, data, i) ? "true" : "false");
  } else if (value_is_complex(dtype)) {
    snprintf(text, CLI_VALUE_TEXT, "%.9g%+.9gi", value_number(dtype, data, i), value_imaginary(dtype, data, i));
  } else if (dtype == RLX_DOUBLE) {
    snprintf(text, CLI_VALUE_TEXT, "%.17g", value_number(dtype, data, i));
  } else if (value_is_float(dtype)) {
    snprintf(text, CLI_VALUE_TEXT, "%.9g", value_number(dtype, data, i));
  } else if (dtype == RLX_UINT64) {
    snprintf(text, CLI_VALUE_TEXT, "%" PRIu64, (uint64_t)value_integer(dtype, data, i));
  } else {
    snprintf(text, CLI_VALUE_TEXT, "%" PRId64, value_integer(dtype, data, i));
  }
}

char *value_dims_text(int rank, const int64_t *dims) {
  char text[RLX_MAX_RANK * 24 + 4];
  size_t used = 0;
  text[used++] = '[';
  for (int i = 0; i < rank; i++)
    used += (size_t)snprintf(text + used, sizeof text - used, "%s%" PRId64, i ? "," : "", dims[i]);
  text[used++] = ']';
  text[used] = '\0';
  return cli_strdup(text);
}

// "sequence of map from int64 to float[…]"
static char *holder_text(const rlx_type *type, const rlx_type *held) {
  char *inside = value_type_text(held, NULL), *text;
  if (type->kind == RLX_KIND_MAP)
    text = cli_format("map from %s to %s", rlx_dtype_name(rlx_type_key(type)), inside);
  else
    text = cli_format("%s %s", type->kind == RLX_KIND_SEQUENCE ? "sequence of" : "optional", inside);
  free(inside);
  return text;
}

char *value_type_text(const rlx_type *type, const char *const *symbols) {
  rlx_type held;
  if (rlx_type_held(type, &held)) return holder_text(type, &held);
  if (type->rank == RLX_UNKNOWN) return cli_format("%s[…]", rlx_dtype_name(type->dtype));
  char *text = cli_format("%s[", rlx_dtype_name(type->dtype));
  for (int i = 0; i < type->rank; i++) {
    const char *comma = i ? "," : "";
    char *longer;
    if (type->dims[i] != RLX_UNKNOWN)
      longer = cli_format("%s%s%" PRId64, text, comma, type->dims[i]);
    else
      longer = cli_format("%s%s%s", text, comma, symbols && symbols[i] ? symbols[i] : "?");
    free(text);
    text = longer;
  }
  char *whole = cli_format("%s]", text);
  free(text);
  return whole;
}
