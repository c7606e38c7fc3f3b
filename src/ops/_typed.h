/* _typed.h — how a stored element of each row of dtype.def is read and written: TYPED_LOAD_x, TYPED_STORE_x. */
#ifndef OPS_TYPED_H
#define OPS_TYPED_H

#include "ir/dtype.h"

#define TYPED_LOAD_FLOAT(v) (v)
#define TYPED_LOAD_DOUBLE(v) (v)
#define TYPED_LOAD_INT8(v) (v)
#define TYPED_LOAD_INT16(v) (v)
#define TYPED_LOAD_INT32(v) (v)
#define TYPED_LOAD_INT64(v) (v)
#define TYPED_LOAD_UINT8(v) (v)
#define TYPED_LOAD_UINT16(v) (v)
#define TYPED_LOAD_UINT32(v) (v)
#define TYPED_LOAD_UINT64(v) (v)
#define TYPED_LOAD_BOOL(v) ((uint8_t)((v) != 0))
#define TYPED_LOAD_FLOAT16(v) f16_to_f32(v)
#define TYPED_LOAD_BFLOAT16(v) bf16_to_f32(v)

#define TYPED_STORE_FLOAT(v) (v)
#define TYPED_STORE_DOUBLE(v) (v)
#define TYPED_STORE_INT8(v) ((int8_t)(v))
#define TYPED_STORE_INT16(v) ((int16_t)(v))
#define TYPED_STORE_INT32(v) ((int32_t)(v))
#define TYPED_STORE_INT64(v) ((int64_t)(v))
#define TYPED_STORE_UINT8(v) ((uint8_t)(v))
#define TYPED_STORE_UINT16(v) ((uint16_t)(v))
#define TYPED_STORE_UINT32(v) ((uint32_t)(v))
#define TYPED_STORE_UINT64(v) ((uint64_t)(v))
#define TYPED_STORE_BOOL(v) ((uint8_t)((v) != 0))
#define TYPED_STORE_FLOAT16(v) f32_to_f16(v)
#define TYPED_STORE_BFLOAT16(v) f32_to_bf16(v)

/* Arithmetic that wraps for integers, by the class column of dtype.def. */
#define TYPED_ADD_f(a, b) ((a) + (b))
#define TYPED_ADD_i(a, b) ((int64_t)((uint64_t)(a) + (uint64_t)(b)))
#define TYPED_ADD_u(a, b) ((uint64_t)(a) + (uint64_t)(b))
#define TYPED_ADD_b(a, b) ((a) | (b))
#define TYPED_MUL_f(a, b) ((a) * (b))
#define TYPED_MUL_i(a, b) ((int64_t)((uint64_t)(a) * (uint64_t)(b)))
#define TYPED_MUL_u(a, b) ((uint64_t)(a) * (uint64_t)(b))
#define TYPED_MUL_b(a, b) ((a) & (b))
/* NaN for floats, never for others. */
#define TYPED_NAN_f(a) ((a) != (a))
#define TYPED_NAN_i(a) ((void)(a), false)
#define TYPED_NAN_u(a) ((void)(a), false)
#define TYPED_NAN_b(a) ((void)(a), false)

#endif
