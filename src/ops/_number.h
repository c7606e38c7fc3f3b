/* _number.h — elements of a dtype that is a compile-time constant once inlined: one body serves all dtypes.
 *
 * A body is an always-inline function whose first parameter is the dtype; DISPATCH_FLOATS and DISPATCH_NUMBERS call
 * it with each constant, so that the compiler makes one specialised loop a dtype. */
#ifndef OPS_NUMBER_H
#define OPS_NUMBER_H

#include <rlx/extend.h>

#include "ir/dtype.h"

#define NUMBER_INLINE static inline __attribute__((always_inline))

/* Element i as double; 64-bit integers beyond 2^53 lose bits: use number_load_int. */
NUMBER_INLINE double number_load(rlx_dtype t, const void *p, int64_t i) {
  switch (t) {
#define X(dtype, c_type, compute, class)                                                                               \
  case RLX_##dtype: return (double)((const c_type *)p)[i];
#include "ir/dtype.def"
#undef X
    case RLX_FLOAT16: return (double)f16_to_f32(((const uint16_t *)p)[i]);
    case RLX_BFLOAT16: return (double)bf16_to_f32(((const uint16_t *)p)[i]);
    default: return dtype_load(t, p, i);
  }
}

/* `value` to a signed 64-bit integer, without undefined behaviour: out of range saturates, NaN is 0. */
NUMBER_INLINE int64_t number_to_int(double value) {
  if (value != value) return 0;
  if (value >= 9223372036854775807.0) return INT64_MAX;
  if (value <= -9223372036854775808.0) return INT64_MIN;
  return (int64_t)value;
}

NUMBER_INLINE uint64_t number_to_unsigned(double value) {
  if (value != value) return 0;
  if (value >= 18446744073709551615.0) return UINT64_MAX;
  if (value < 0) return (uint64_t)number_to_int(value);
  return (uint64_t)value;
}

NUMBER_INLINE void number_store(rlx_dtype t, void *p, int64_t i, double value) {
  switch (t) {
    case RLX_FLOAT: ((float *)p)[i] = (float)value; break;
    case RLX_DOUBLE: ((double *)p)[i] = value; break;
    case RLX_FLOAT16: ((uint16_t *)p)[i] = f32_to_f16((float)value); break;
    case RLX_BFLOAT16: ((uint16_t *)p)[i] = f32_to_bf16((float)value); break;
    case RLX_INT8: ((int8_t *)p)[i] = (int8_t)number_to_int(value); break;
    case RLX_INT16: ((int16_t *)p)[i] = (int16_t)number_to_int(value); break;
    case RLX_INT32: ((int32_t *)p)[i] = (int32_t)number_to_int(value); break;
    case RLX_INT64: ((int64_t *)p)[i] = number_to_int(value); break;
    case RLX_UINT8: ((uint8_t *)p)[i] = (uint8_t)number_to_int(value); break;
    case RLX_UINT16: ((uint16_t *)p)[i] = (uint16_t)number_to_int(value); break;
    case RLX_UINT32: ((uint32_t *)p)[i] = (uint32_t)number_to_int(value); break;
    case RLX_UINT64: ((uint64_t *)p)[i] = number_to_unsigned(value); break;
    case RLX_BOOL: ((uint8_t *)p)[i] = value != 0; break;
    default: dtype_store(t, p, i, value); break;
  }
}

/* Integers and bool, exact; uint64 keeps its bits. */
NUMBER_INLINE int64_t number_load_int(rlx_dtype t, const void *p, int64_t i) {
  switch (t) {
    case RLX_INT8: return ((const int8_t *)p)[i];
    case RLX_INT16: return ((const int16_t *)p)[i];
    case RLX_INT32: return ((const int32_t *)p)[i];
    case RLX_INT64: return ((const int64_t *)p)[i];
    case RLX_UINT8:
    case RLX_BOOL: return ((const uint8_t *)p)[i];
    case RLX_UINT16: return ((const uint16_t *)p)[i];
    case RLX_UINT32: return ((const uint32_t *)p)[i];
    case RLX_UINT64: return (int64_t)((const uint64_t *)p)[i];
    default: return dtype_load_int(t, p, i);
  }
}

NUMBER_INLINE void number_store_int(rlx_dtype t, void *p, int64_t i, int64_t value) {
  switch (t) {
    case RLX_INT8: ((int8_t *)p)[i] = (int8_t)value; break;
    case RLX_INT16: ((int16_t *)p)[i] = (int16_t)value; break;
    case RLX_INT32: ((int32_t *)p)[i] = (int32_t)value; break;
    case RLX_INT64: ((int64_t *)p)[i] = value; break;
    case RLX_UINT8: ((uint8_t *)p)[i] = (uint8_t)value; break;
    case RLX_UINT16: ((uint16_t *)p)[i] = (uint16_t)value; break;
    case RLX_UINT32: ((uint32_t *)p)[i] = (uint32_t)value; break;
    case RLX_UINT64: ((uint64_t *)p)[i] = (uint64_t)value; break;
    case RLX_BOOL: ((uint8_t *)p)[i] = value != 0; break;
    default: dtype_store_int(t, p, i, value); break;
  }
}

/* In a function returning rlx_status: returns body(dtype, ctx, …) for the dtypes of RLX_SET_FLOATS. */
#define DISPATCH_FLOATS(dtype, body, ctx, ...)                                                                         \
  switch (dtype) {                                                                                                     \
    case RLX_FLOAT: return body(RLX_FLOAT, ctx, ##__VA_ARGS__);                                                        \
    case RLX_DOUBLE: return body(RLX_DOUBLE, ctx, ##__VA_ARGS__);                                                      \
    case RLX_FLOAT16: return body(RLX_FLOAT16, ctx, ##__VA_ARGS__);                                                    \
    case RLX_BFLOAT16: return body(RLX_BFLOAT16, ctx, ##__VA_ARGS__);                                                  \
    default: return rlx_fail(ctx, RLX_UNSUPPORTED, "element type %s", rlx_dtype_name(dtype));                          \
  }

#endif
