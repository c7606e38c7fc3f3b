/* shape.c — arithmetic on dims. */
#include "ir/shape.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

int64_t shape_count(int rank, const int64_t *dims) {
  int64_t n = 1;
  bool zero = false;
  for (int i = 0; i < rank; i++) {
    if (dims[i] < 0) return -1;
    if (dims[i] == 0)
      zero = true;
    else if (__builtin_mul_overflow(n, dims[i], &n))
      return -1;
  }
  return zero ? 0 : n;
}

int64_t type_bytes(const rlx_type *t) {
  if (t->kind != RLX_KIND_TENSOR) return sizeof(void *);
  if (t->rank < 0) return -1;
  return rlx_dtype_bytes(t->dtype, shape_count(t->rank, t->dims));
}

bool type_is_concrete(const rlx_type *t) {
  if (t->kind != RLX_KIND_TENSOR) return true;
  if (t->dtype == RLX_UNDEFINED || t->rank < 0) return false;
  for (int i = 0; i < t->rank; i++)
    if (t->dims[i] < 0) return false;
  return true;
}

bool type_equal(const rlx_type *a, const rlx_type *b) {
  if (a->kind != b->kind || a->dtype != b->dtype) return false;
  if (a->kind != RLX_KIND_TENSOR) return a->kind != RLX_KIND_OPTIONAL || a->element == b->element;
  if (a->rank != b->rank) return false;
  return a->rank <= 0 || memcmp(a->dims, b->dims, (size_t)a->rank * sizeof *a->dims) == 0;
}

bool type_admits(const rlx_type *wanted, const rlx_type *given) {
  if (wanted->kind != given->kind || wanted->dtype != given->dtype) return false;
  if (wanted->kind != RLX_KIND_TENSOR) return wanted->kind != RLX_KIND_OPTIONAL || wanted->element == given->element;
  if (wanted->rank == RLX_UNKNOWN) return true;
  if (wanted->rank != given->rank) return false;
  for (int i = 0; i < wanted->rank; i++)
    if (wanted->dims[i] != RLX_UNKNOWN && wanted->dims[i] != given->dims[i]) return false;
  return true;
}

void type_set(rlx_type *t, rlx_dtype dtype, int rank, const int64_t *dims) {
  t->kind = t->element = RLX_KIND_TENSOR;
  t->dtype = dtype;
  t->rank = rank;
  if (rank > 0) memcpy(t->dims, dims, (size_t)rank * sizeof *dims);
}

void type_unknown(rlx_type *t, rlx_dtype dtype) {
  t->kind = t->element = RLX_KIND_TENSOR;
  t->dtype = dtype;
  t->rank = RLX_UNKNOWN;
}

const char *dims_text(int rank, const int64_t *dims, char *text, size_t size) {
  if (rank < 0) {
    snprintf(text, size, "[...]");
    return text;
  }
  size_t used = (size_t)snprintf(text, size, "[");
  for (int i = 0; i < rank && used < size; i++)
    used += (size_t)(dims[i] < 0 ? snprintf(text + used, size - used, "%s?", i ? "," : "")
                                 : snprintf(text + used, size - used, "%s%" PRId64, i ? "," : "", dims[i]));
  if (used < size) snprintf(text + used, size - used, "]");
  return text;
}

const char *type_text(const rlx_type *t, char *text, size_t size) {
  static const char *const kinds[] = {"", "seq ", "optional ", "map "};
  char dims[256];
  snprintf(text, size, "%s%s%s%s", kinds[t->kind & 3], kinds[t->element & 3], rlx_dtype_name(t->dtype),
           dims_text(t->rank, t->dims, dims, sizeof dims));
  return text;
}

bool shape_broadcast(int rank_a, const int64_t *a, int rank_b, const int64_t *b, int *rank, int64_t *dims) {
  int r = rank_a > rank_b ? rank_a : rank_b;
  for (int i = r - 1; i >= 0; i--) {
    int ia = i - (r - rank_a), ib = i - (r - rank_b);
    int64_t da = ia < 0 ? 1 : a[ia], db = ib < 0 ? 1 : b[ib];
    if (da == db || db == 1)
      dims[i] = da;
    else if (da == 1)
      dims[i] = db;
    else if (da < 0 || db < 0)
      dims[i] = da < 0 ? db : da; /* the unknown one is either 1 or the same */
    else
      return false;
  }
  *rank = r;
  return true;
}

int axis_normalise(int64_t axis, int rank) {
  if (axis < -rank || axis >= rank) return -1;
  return (int)(axis < 0 ? axis + rank : axis);
}

void shape_strides(int rank, const int64_t *dims, int64_t *strides) {
  int64_t s = 1;
  for (int i = rank - 1; i >= 0; i--) {
    strides[i] = s;
    s *= dims[i];
  }
}
