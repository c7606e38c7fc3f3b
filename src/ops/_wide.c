/* _wide.c — conversion of whole operands to and from the type an op computes in. */
#include "ops/_wide.h"

#include "base/memory.h"
#include "base/status.h"
#include "ir/dtype.h"
#include "ops/_number.h"

rlx_dtype wide_dtype(rlx_dtype dtype) {
  if (dtype == RLX_DOUBLE) return RLX_DOUBLE;
  return dtype_is_integer(dtype) ? RLX_INT64 : RLX_FLOAT;
}

static rlx_status allocate(const void *ctx, int64_t count, rlx_dtype dtype, wide *out) {
  int64_t bytes = rlx_dtype_bytes(dtype, count);
  *out = (wide){.dtype = dtype};
  out->owned = bytes < 0 ? NULL : mem_alloc((size_t)bytes);
  if (!out->owned) return rlx_fail(ctx, RLX_OUT_OF_MEMORY, "no memory for %lld elements", (long long)count);
  out->data = out->owned;
  return RLX_OK;
}

NUMBER_INLINE void convert_from(rlx_dtype from, rlx_dtype to, const void *source, void *target, int64_t count) {
  for (int64_t i = 0; i < count; i++) number_store(to, target, i, number_load(from, source, i));
}

/* The common pairs have loops of their own; any other goes through the general conversion. */
static void convert(rlx_dtype from, rlx_dtype to, const void *source, void *target, int64_t count) {
#define PAIR(a, b)                                                                                                     \
  if (from == (a) && to == (b)) {                                                                                      \
    convert_from(a, b, source, target, count);                                                                         \
    return;                                                                                                            \
  }
  PAIR(RLX_FLOAT16, RLX_FLOAT)
  PAIR(RLX_BFLOAT16, RLX_FLOAT)
  PAIR(RLX_FLOAT, RLX_FLOAT16)
  PAIR(RLX_FLOAT, RLX_BFLOAT16)
  PAIR(RLX_FLOAT, RLX_DOUBLE)
  PAIR(RLX_DOUBLE, RLX_FLOAT)
#undef PAIR
  if (to == RLX_INT64 || from == RLX_INT64) {
    for (int64_t i = 0; i < count; i++) number_store_int(to, target, i, number_load_int(from, source, i));
  } else {
    convert_from(from, to, source, target, count);
  }
}

rlx_status wide_input(const void *ctx, const rlx_operand *operand, rlx_dtype dtype, wide *out) {
  *out = (wide){.data = operand->data, .dtype = dtype};
  if (!operand->data || operand->dtype == dtype) return RLX_OK;
  RLX_TRY(allocate(ctx, operand->count, dtype, out));
  convert(operand->dtype, dtype, operand->data, out->data, operand->count);
  return RLX_OK;
}

rlx_status wide_centred(const void *ctx, const rlx_operand *operand, const rlx_operand *zero, int64_t period,
                        int64_t inner, wide *out) {
  RLX_TRY(allocate(ctx, operand->count, RLX_INT32, out));
  bool many = zero && zero->data && zero->count > 1;
  if (many && zero->count != period) {
    return rlx_fail(ctx, RLX_INVALID, "a zero point of %lld elements where %lld are needed", (long long)zero->count,
                    (long long)period);
  }
  int32_t one = 0;
  if (zero && zero->data && zero->count == 1) one = (int32_t)dtype_load_int(zero->dtype, zero->data, 0);
  int32_t *to = out->data;
  for (int64_t i = 0; i < operand->count; i++) {
    int32_t z = many ? (int32_t)dtype_load_int(zero->dtype, zero->data, i / inner % period) : one;
    to[i] = (operand->dtype == RLX_INT8 ? (int32_t)((const int8_t *)operand->data)[i]
                                        : (int32_t)((const uint8_t *)operand->data)[i]) -
            z;
  }
  return RLX_OK;
}

rlx_status wide_output(const void *ctx, const rlx_operand *operand, rlx_dtype dtype, wide *out) {
  *out = (wide){.data = operand->data, .dtype = dtype};
  if (!operand->data || operand->dtype == dtype) return RLX_OK;
  return allocate(ctx, operand->count, dtype, out);
}

void wide_store(const wide *w, const rlx_operand *operand) {
  if (w->owned) convert(w->dtype, operand->dtype, w->data, operand->data, operand->count);
}

void wide_finish(wide *w) {
  mem_free(w->owned);
  *w = (wide){0};
}
