// fill.c — makes tensors' contents: one number everywhere, or random values.
#include "cli/values.h"

#include <math.h>
#include <string.h>

// splitmix64
static uint64_t next_random(uint64_t *seed) {
  uint64_t z = (*seed += UINT64_C(0x9e3779b97f4a7c15));
  z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
  return z ^ (z >> 31);
}

static void store_bits(void *data, int64_t i, int bits, uint64_t code) {
  uint8_t *bytes = data;
  if (bits >= 8) {
    memcpy(bytes + i * (bits / 8), &code, (size_t)bits / 8);
    return;
  }
  int shift = (int)(i * bits % 8);
  unsigned mask = (1u << bits) - 1;
  bytes += i * bits / 8;
  unsigned put = ((unsigned)code & mask) << shift, kept = ~(mask << shift);
  bytes[0] = (uint8_t)((bytes[0] & kept) | put);
  if (shift + bits > 8) bytes[1] = (uint8_t)((bytes[1] & kept >> 8) | put >> 8);
}

static uint64_t wide_bits(rlx_dtype dtype, double value) {
  uint64_t code = 0;
  float single = (float)value;
  if (dtype == RLX_DOUBLE || dtype == RLX_COMPLEX128)
    memcpy(&code, &value, 8);
  else
    memcpy(&code, &single, 4);
  return code;
}

// The code of a type of at most 16 bits whose value is nearest, found by looking at all of them.
static uint64_t nearest_code(rlx_dtype dtype, double number) {
  uint64_t best = 0, codes = UINT64_C(1) << rlx_dtype_bits(dtype);
  double least = INFINITY;
  for (uint64_t code = 0; code < codes; code++) {
    double distance = fabs(value_number(dtype, &code, 0) - number);
    if (distance < least) {
      least = distance;
      best = code;
    }
  }
  return best;
}

static int number_code(rlx_dtype dtype, double number, uint64_t *code) {
  int bits = rlx_dtype_bits(dtype);
  if (dtype == RLX_FLOAT || dtype == RLX_DOUBLE || value_is_complex(dtype)) {
    *code = wide_bits(dtype, number);
  } else if (value_is_float(dtype)) {
    *code = nearest_code(dtype, number);
  } else if (dtype == RLX_BOOL) {
    *code = number != 0.0;
  } else {
    if (number != floor(number) || fabs(number) > 0x1p62) return cli_fail("%g is no %s", number, rlx_dtype_name(dtype));
    int64_t integer = (int64_t)number;
    memcpy(code, &integer, 8);
    if (bits < 64 && value_integer(dtype, code, 0) != integer)
      return cli_fail("%g is no %s", number, rlx_dtype_name(dtype));
  }
  return CLI_OK;
}

int value_fill(rlx_tensor *t, double number) {
  rlx_dtype dtype = rlx_tensor_dtype(t);
  int bits = rlx_dtype_bits(dtype);
  uint64_t code = 0;
  if (bits <= 0) return cli_fail("a tensor of %s cannot be filled with a number", rlx_dtype_name(dtype));
  CLI_TRY(number_code(dtype, number, &code));
  int64_t count = rlx_tensor_count(t);
  bool complex = value_is_complex(dtype);
  for (int64_t i = 0; i < count; i++)
    store_bits(rlx_tensor_data(t), complex ? 2 * i : i, complex ? bits / 2 : bits, code);
  return CLI_OK;
}

int value_fill_random(rlx_tensor *t, uint64_t *seed) {
  rlx_dtype dtype = rlx_tensor_dtype(t);
  int bits = rlx_dtype_bits(dtype);
  bool complex = value_is_complex(dtype), narrow = value_is_float(dtype) && bits <= 16;
  int64_t count = complex ? 2 * rlx_tensor_count(t) : rlx_tensor_count(t);
  void *data = rlx_tensor_data(t);
  if (bits <= 0) return cli_fail("random values of type %s cannot be made", rlx_dtype_name(dtype));
  uint64_t half = narrow ? nearest_code(dtype, 0.5) : 0, one = narrow ? nearest_code(dtype, 1.0) : 1;
  for (int64_t i = 0; i < count; i++) {
    uint64_t random = next_random(seed), code;
    if (narrow)
      code = half + random % (one - half); // codes of [0.5, 1)
    else if (value_is_float(dtype) || complex)
      code = wide_bits(dtype, (double)(random >> 40) * 0x1p-24);
    else if (dtype == RLX_BOOL || bits > 8)
      code = random >> 63;
    else
      code = random >> 56;
    store_bits(data, i, complex ? bits / 2 : bits, code);
  }
  return CLI_OK;
}
