/* dtype.h — element types: sizes, names, conversion of single elements and of runs of them. */
#ifndef IR_DTYPE_H
#define IR_DTYPE_H

#include <rlx/rlx.h>

/* Bytes of one element for types whose bits are a multiple of 8 (string: sizeof(rlx_string)); 0 for
 * sub-byte types and undefined. */
size_t dtype_size(rlx_dtype dtype);
bool dtype_is_float(rlx_dtype dtype); /* float, double, float16, bfloat16, float8*, float4 */
bool dtype_is_integer(rlx_dtype dtype);
bool dtype_is_signed(rlx_dtype dtype);
/* "float, double" for messages; from a set as rlx_port.dtypes. */
void dtype_set_names(uint64_t set, char *text, size_t size);

float f16_to_f32(uint16_t h);
uint16_t f32_to_f16(float f); /* round to nearest even, overflow to infinity */
static inline float bf16_to_f32(uint16_t h) {
  union {
    uint32_t u;
    float f;
  } v = {.u = (uint32_t)h << 16};
  return v.f;
}
uint16_t f32_to_bf16(float f); /* round to nearest even; NaN stays NaN */

/* Element i of any numeric or bool type as double (int64 beyond 2^53 loses bits). */
double dtype_load(rlx_dtype dtype, const void *data, int64_t i);
void dtype_store(rlx_dtype dtype, void *data, int64_t i, double value);
/* Exact for every integer type and bool; floats truncate. */
int64_t dtype_load_int(rlx_dtype dtype, const void *data, int64_t i);
void dtype_store_int(rlx_dtype dtype, void *data, int64_t i, int64_t value);

/* Element i of packed elements of fewer than 8 bits: a stream of bits, the low ones of each byte first. */
uint32_t bits_load(int bits, const void *data, int64_t i);
void bits_store(int bits, void *data, int64_t i, uint32_t value);

#endif
