/* _elements.c — addressing of GatherElements and ScatterElements, and combining of ScatterND's updates. */
#include "ops/_elements.h"

#include <string.h>

#include "ops/_typed.h"

rlx_status elements_check(const void *context, const rlx_type *data, const rlx_type *indices) {
  if (data->rank < 0 || indices->rank < 0) return RLX_OK;
  if (data->rank != indices->rank)
    return rlx_fail(context, RLX_INVALID, "data has rank %d, indices %d", data->rank, indices->rank);
  if (data->rank == 0) return rlx_fail(context, RLX_INVALID, "data is a scalar");
  return RLX_OK;
}

void elements_prepare(element_rows *e, const rlx_operand *data, const rlx_operand *indices, int64_t axis) {
  e->rank = indices->rank;
  e->axis = axis_normalise(axis, data->rank);
  memcpy(e->dims, indices->dims, sizeof(int64_t) * (size_t)e->rank);
  shape_strides(data->rank, data->dims, e->stride);
  e->extent = data->dims[e->axis];
  e->length = e->dims[e->rank - 1];
  e->rows = e->length ? indices->count / e->length : 0;
}

int64_t elements_offset(const element_rows *e, int64_t r) {
  int64_t offset = 0;
  for (int d = e->rank - 2; d >= 0; d--) {
    if (d != e->axis) offset += r % e->dims[d] * e->stride[d];
    r /= e->dims[d];
  }
  return offset;
}

rlx_status reduction_parse(const void *context, rlx_string text, reduction *out) {
  static const char *const names[] = {"none", "add", "mul", "max", "min"};
  for (int i = 0; i < 5; i++)
    if (strlen(names[i]) == text.size && memcmp(names[i], text.data, text.size) == 0) {
      *out = (reduction)i;
      return RLX_OK;
    }
  if (text.size == 0) {
    *out = SCATTER_NONE;
    return RLX_OK;
  }
  return rlx_fail(context, RLX_INVALID, "reduction is \"%.*s\"", (int)(text.size > 64 ? 64 : text.size), text.data);
}

#define X(D, T, C, K)                                                                                                  \
  static void combine_##D(reduction op, void *to_data, const void *from_data, int64_t n) {                             \
    T *to = to_data;                                                                                                   \
    const T *from = from_data;                                                                                         \
    switch (op) {                                                                                                      \
      case SCATTER_NONE: memcpy(to, from, (size_t)n * sizeof(T)); break;                                               \
      case SCATTER_ADD:                                                                                                \
        for (int64_t i = 0; i < n; i++)                                                                                \
          to[i] = TYPED_STORE_##D(TYPED_ADD_##K(TYPED_LOAD_##D(to[i]), TYPED_LOAD_##D(from[i])));                      \
        break;                                                                                                         \
      case SCATTER_MUL:                                                                                                \
        for (int64_t i = 0; i < n; i++)                                                                                \
          to[i] = TYPED_STORE_##D(TYPED_MUL_##K(TYPED_LOAD_##D(to[i]), TYPED_LOAD_##D(from[i])));                      \
        break;                                                                                                         \
      case SCATTER_MAX:                                                                                                \
        for (int64_t i = 0; i < n; i++) {                                                                              \
          C a = TYPED_LOAD_##D(to[i]), b = TYPED_LOAD_##D(from[i]);                                                    \
          if (b > a || TYPED_NAN_##K(b)) to[i] = from[i];                                                              \
        }                                                                                                              \
        break;                                                                                                         \
      case SCATTER_MIN:                                                                                                \
        for (int64_t i = 0; i < n; i++) {                                                                              \
          C a = TYPED_LOAD_##D(to[i]), b = TYPED_LOAD_##D(from[i]);                                                    \
          if (b < a || TYPED_NAN_##K(b)) to[i] = from[i];                                                              \
        }                                                                                                              \
        break;                                                                                                         \
    }                                                                                                                  \
  }
#include "ir/dtype.def"
X(FLOAT16, uint16_t, float, f)
X(BFLOAT16, uint16_t, float, f)
#undef X

rlx_status reduction_apply(reduction op, rlx_dtype dtype, void *to, const void *from, int64_t n) {
  if (op == SCATTER_NONE) {
    memcpy(to, from, (size_t)n * dtype_size(dtype));
    return RLX_OK;
  }
  switch (dtype) {
#define X(D, T, C, K)                                                                                                  \
  case RLX_##D:                                                                                                        \
    combine_##D(op, to, from, n);                                                                                      \
    return RLX_OK;
#include "ir/dtype.def"
    X(FLOAT16, uint16_t, float, f)
    X(BFLOAT16, uint16_t, float, f)
#undef X
    default: return RLX_UNSUPPORTED;
  }
}
