/* reference.c — sampling in double, and operands of any permitted dtype as doubles. */
#include <stdlib.h>
#include <string.h>

#include "deform.h"

const char *deform_levels_from(const int64_t *shapes, int64_t count, deform_levels *levels) {
  *levels = (deform_levels){.count = count};
  if (count < 1 || count > DEFORM_LEVELS)
    return rlx_reason("%lld levels, not 1 to %d", (long long)count, DEFORM_LEVELS);
  for (int64_t l = 0; l < count; l++) {
    int64_t height = shapes[2 * l], width = shapes[2 * l + 1], rows;
    if (height < 1 || width < 1 || __builtin_mul_overflow(height, width, &rows) || height > INT32_MAX ||
        width > INT32_MAX || __builtin_add_overflow(levels->total, rows, &rows))
      return rlx_reason("a level of %lld x %lld", (long long)height, (long long)width);
    levels->of[l] = (deform_level){height, width, levels->total};
    levels->total = rows;
  }
  return NULL;
}

/* ---- operands --------------------------------------------------------------------------------------------------- */

static double half_to_double(uint16_t h) {
  int exponent = h >> 10 & 31;
  uint64_t fraction = h & 1023, bits;
  if (exponent == 0) {
    double tiny = (double)fraction * 0x1p-24;
    return h >> 15 ? -tiny : tiny;
  }
  bits = (uint64_t)(h >> 15) << 63 | fraction << 42 | (uint64_t)(exponent == 31 ? 2047 : exponent + 1008) << 52;
  double value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

/* Rounds to nearest, ties to even. */
static uint16_t double_to_half(double value) {
  uint64_t bits;
  memcpy(&bits, &value, sizeof bits);
  uint16_t sign = (uint16_t)(bits >> 48 & 0x8000);
  double size = value < 0 ? -value : value;
  if (value != value) return (uint16_t)(sign | 0x7e00);
  if (size >= 65520) return (uint16_t)(sign | 0x7c00);
  int exponent = (int)(bits >> 52 & 2047) - 1023;
  if (exponent < -14) exponent = -14;
  double unit = 1; /* of the last bit: 2^(exponent - 10) */
  for (int i = 0; i < exponent - 10; i++) unit *= 2;
  for (int i = 0; i > exponent - 10; i--) unit /= 2;
  double steps = size / unit;
  uint16_t whole = (uint16_t)steps;
  double rest = steps - whole;
  if (rest > 0.5 || (rest == 0.5 && whole & 1)) whole++;
  return (uint16_t)(sign | (uint16_t)(((exponent + 14) << 10) + whole));
}

double *deform_load(const rlx_operand *o) {
  double *to = malloc((size_t)(o->count > 0 ? o->count : 1) * sizeof *to);
  for (int64_t i = 0; to && i < o->count; i++) {
    to[i] = o->dtype == RLX_DOUBLE  ? ((const double *)o->data)[i]
            : o->dtype == RLX_FLOAT ? (double)((const float *)o->data)[i]
                                    : half_to_double(((const uint16_t *)o->data)[i]);
  }
  return to;
}

void deform_store(const rlx_operand *o, const double *from) {
  for (int64_t i = 0; i < o->count; i++) {
    if (o->dtype == RLX_DOUBLE)
      ((double *)o->data)[i] = from[i];
    else if (o->dtype == RLX_FLOAT)
      ((float *)o->data)[i] = (float)from[i];
    else
      ((uint16_t *)o->data)[i] = double_to_half(from[i]);
  }
}

/* ---- sampling --------------------------------------------------------------------------------------------------- */

void deform_sample_f64(const deform_levels *levels, const deform_head_f64 *h, double *out) {
  for (int64_t at = 0; at < levels->count * h->points; at++) {
    const deform_level *map = &levels->of[at / h->points];
    double x = h->places[2 * at] * (double)map->width - 0.5, y = h->places[2 * at + 1] * (double)map->height - 0.5;
    if (!(x > -1 && y > -1 && x < (double)map->width && y < (double)map->height)) continue; /* also NaN */
    int64_t left = (int64_t)(x + 1) - 1, top = (int64_t)(y + 1) - 1;
    for (int k = 0; k < 4; k++) {
      int64_t row = top + k / 2, column = left + k % 2;
      if (row < 0 || row >= map->height || column < 0 || column >= map->width) continue;
      double fx = x - (double)left, fy = y - (double)top;
      double weight = h->weights[at] * (k / 2 ? fy : 1 - fy) * (k % 2 ? fx : 1 - fx);
      const double *from = h->value + (map->start + row * map->width + column) * h->stride;
      for (int64_t c = 0; c < h->width; c++) out[c] += weight * from[c];
    }
  }
}
