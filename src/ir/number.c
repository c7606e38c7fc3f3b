/* number.c — numbers to text and back. */
#include "ir/number.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* printf and strtod write and read the locale's decimal point: '.' here, and back again. */
static void point_to_dot(char *text) {
  size_t before = strspn(text, "-0123456789"), after = strcspn(text + before, "0123456789e");
  if (!after || text[before] == 'i' || text[before] == 'n') return;
  text[before] = '.';
  memmove(text + before + 1, text + before + after, strlen(text + before + after) + 1);
}

enum { LONGEST = 1100 }; /* the exact decimal of the smallest double has 1,075 digits */

/* Copies to a NUL-terminated buffer with the locale's decimal point. */
static bool dot_to_point(const char *text, size_t size, char *out) {
  char sample[16];
  snprintf(sample, sizeof sample, "%.1f", 0.5);
  size_t point = strlen(sample) - 2;
  const char *dot = memchr(text, '.', size);
  size_t before = dot ? (size_t)(dot - text) : size;
  if (size == 0 || size + point >= LONGEST || memchr(text, '\0', size)) return false;
  memcpy(out, text, before);
  if (!dot) {
    out[size] = '\0';
    return true;
  }
  memcpy(out + before, sample + 1, point);
  memcpy(out + before + point, dot + 1, size - before - 1);
  out[size + point - 1] = '\0';
  return true;
}

static void add_point(bool bare, char *text) {
  if (!bare && !strpbrk(text, ".ein")) strcat(text, ".0");
}

static uint32_t float_bits(float f) {
  uint32_t u;
  memcpy(&u, &f, sizeof u);
  return u;
}

static uint64_t double_bits(double d) {
  uint64_t u;
  memcpy(&u, &d, sizeof u);
  return u;
}

enum { FLOAT_NAN = 0x7fc00000 };
#define DOUBLE_NAN UINT64_C(0x7ff8000000000000)

const char *number_print_float(float value, bool bare, char text[NUMBER_TEXT]) {
  uint32_t bits = float_bits(value), magnitude = bits & 0x7fffffff;
  const char *sign = bits >> 31 ? "-" : "";
  if (magnitude == FLOAT_NAN)
    snprintf(text, NUMBER_TEXT, "%snan", sign);
  else if (isnan(value))
    snprintf(text, NUMBER_TEXT, "nan(0x%08" PRIx32 ")", bits);
  else if (isinf(value))
    snprintf(text, NUMBER_TEXT, "%sinf", sign);
  else
    for (int digits = fpclassify(value) == FP_SUBNORMAL ? 1 : 6; digits <= 9; digits++) {
      float back;
      snprintf(text, NUMBER_TEXT, "%.*g", digits, (double)value);
      point_to_dot(text);
      if (number_parse_float(text, strlen(text), &back) && float_bits(back) == bits) break;
    }
  add_point(bare, text);
  return text;
}

const char *number_print_double(double value, bool bare, char text[NUMBER_TEXT]) {
  uint64_t bits = double_bits(value), magnitude = bits & (UINT64_MAX >> 1);
  const char *sign = bits >> 63 ? "-" : "";
  if (magnitude == DOUBLE_NAN)
    snprintf(text, NUMBER_TEXT, "%snan", sign);
  else if (isnan(value))
    snprintf(text, NUMBER_TEXT, "nan(0x%016" PRIx64 ")", bits);
  else if (isinf(value))
    snprintf(text, NUMBER_TEXT, "%sinf", sign);
  else
    for (int digits = fpclassify(value) == FP_SUBNORMAL ? 1 : 15; digits <= 17; digits++) {
      double back;
      snprintf(text, NUMBER_TEXT, "%.*g", digits, value);
      point_to_dot(text);
      if (number_parse_double(text, strlen(text), &back) && double_bits(back) == bits) break;
    }
  add_point(bare, text);
  return text;
}

static bool is_word(const char *text, size_t size, const char *word) {
  return size == strlen(word) && memcmp(text, word, size) == 0;
}

/* "inf", "nan", "nan(0x…)" with an optional sign: *bits in a format of `width` bits. */
static bool parse_special(const char *text, size_t size, int width, uint64_t *bits) {
  uint64_t sign = 0;
  uint64_t exponent = width == 32 ? 0x7f800000 : UINT64_C(0x7ff0000000000000);
  if (size && *text == '-') {
    sign = UINT64_C(1) << (width - 1);
    text++;
    size--;
  }
  if (is_word(text, size, "inf")) {
    *bits = sign | exponent;
    return true;
  }
  if (is_word(text, size, "nan")) {
    *bits = sign | (width == 32 ? FLOAT_NAN : DOUBLE_NAN);
    return true;
  }
  size_t digits = (size_t)width / 4;
  if (sign || size != digits + 7 || memcmp(text, "nan(0x", 6) != 0 || text[size - 1] != ')') return false;
  char hex[17] = {0}, *end;
  memcpy(hex, text + 6, digits);
  if (strspn(hex, "0123456789abcdefABCDEF") != digits) return false;
  *bits = strtoull(hex, &end, 16);
  uint64_t magnitude = *bits & ((UINT64_C(1) << (width - 1)) - 1);
  return magnitude > exponent;
}

/* A number in decimal, and nothing that only strtod would take (hexadecimal, "infinity", blanks). */
static bool is_decimal(const char *text, size_t size) {
  if (size == 0) return false;
  for (size_t i = 0; i < size; i++)
    if (!text[i] || !strchr("+-.0123456789eE", text[i])) return false;
  return true;
}

bool number_parse_float(const char *text, size_t size, float *out) {
  uint64_t bits;
  if (parse_special(text, size, 32, &bits)) {
    uint32_t low = (uint32_t)bits;
    memcpy(out, &low, sizeof low);
    return true;
  }
  char buffer[LONGEST], *end;
  if (!is_decimal(text, size) || !dot_to_point(text, size, buffer)) return false;
  float value = strtof(buffer, &end);
  if (*end || isinf(value)) return false;
  *out = value;
  return true;
}

bool number_parse_double(const char *text, size_t size, double *out) {
  uint64_t bits;
  if (parse_special(text, size, 64, &bits)) {
    memcpy(out, &bits, sizeof bits);
    return true;
  }
  char buffer[LONGEST], *end;
  if (!is_decimal(text, size) || !dot_to_point(text, size, buffer)) return false;
  double value = strtod(buffer, &end);
  if (*end || isinf(value)) return false;
  *out = value;
  return true;
}

bool number_parse_uint(const char *text, size_t size, uint64_t *out) {
  uint64_t value = 0;
  if (size == 0) return false;
  for (size_t i = 0; i < size; i++) {
    if (text[i] < '0' || text[i] > '9') return false;
    if (__builtin_mul_overflow(value, 10, &value)) return false;
    if (__builtin_add_overflow(value, (uint64_t)(text[i] - '0'), &value)) return false;
  }
  *out = value;
  return true;
}

bool number_parse_int(const char *text, size_t size, int64_t *out) {
  bool negative = size && *text == '-';
  uint64_t value;
  if (!number_parse_uint(text + negative, size - negative, &value)) return false;
  if (value > (uint64_t)INT64_MAX + negative) return false;
  *out = negative ? (int64_t)(0 - value) : (int64_t)value;
  return true;
}
