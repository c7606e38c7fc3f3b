/* import_constant.c — the tensor of a Constant node, in any of the forms its attributes may take. */
#include <string.h>

#include "onnx/import.h"

static rlx_status from_strings(const rlx_string *strings, size_t count, int rank, rlx_tensor **out) {
  const int64_t dims[1] = {(int64_t)count};
  rlx_tensor *t;
  RLX_TRY(rlx_tensor_create(RLX_STRING, rank, dims, &t));
  for (size_t i = 0; i < count; i++) {
    rlx_status status = rlx_tensor_set_string(t, (int64_t)i, strings[i].data, strings[i].size);
    if (status != RLX_OK) {
      rlx_tensor_destroy(t);
      return status;
    }
  }
  *out = t;
  return RLX_OK;
}

static rlx_status from_numbers(rlx_dtype dtype, int rank, size_t count, const void *data, rlx_tensor **out) {
  const int64_t dims[1] = {(int64_t)count};
  RLX_TRY(tensor_alloc(dtype, rank, dims, out));
  if ((*out)->bytes) memcpy((*out)->data, data, (*out)->bytes);
  return RLX_OK;
}

static bool is(const rlx_attr *a, const char *name, rlx_attr_kind kind) {
  return a->kind == kind && strcmp(a->name, name) == 0;
}

rlx_status constant_read(scope *s, const rlx_attr *attrs, size_t count, rlx_tensor **out) {
  if (count != 1) return RLX_FAIL(INVALID, "has %zu values, must have one", count);
  const rlx_attr *a = attrs;
  if (is(a, "value", RLX_ATTR_TENSOR) || is(a, "sparse_value", RLX_ATTR_TENSOR)) {
    *out = rlx_tensor_retain(a->tensor);
    return RLX_OK;
  }
  RLX_TRY(budget_take(&s->importer->source.budget, (int64_t)(sizeof(rlx_tensor) + 64 * a->count)));
  if (is(a, "value_int", RLX_ATTR_INT)) return from_numbers(RLX_INT64, 0, 1, &a->i, out);
  if (is(a, "value_float", RLX_ATTR_FLOAT)) return from_numbers(RLX_FLOAT, 0, 1, &a->f, out);
  if (is(a, "value_string", RLX_ATTR_STRING)) return from_strings(&a->s, 1, 0, out);
  if (is(a, "value_ints", RLX_ATTR_INTS)) return from_numbers(RLX_INT64, 1, a->count, a->ints, out);
  if (is(a, "value_floats", RLX_ATTR_FLOATS)) return from_numbers(RLX_FLOAT, 1, a->count, a->floats, out);
  if (is(a, "value_strings", RLX_ATTR_STRINGS)) return from_strings(a->strings, a->count, 1, out);
  return RLX_FAIL(INVALID, "attribute '%s' of kind %d is no value", a->name, (int)a->kind);
}
