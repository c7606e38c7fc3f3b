/* shape.c — arithmetic on dims. */
#include "ir/shape.h"

#include <inttypes.h>
#include <rlx/extend.h>
#include <stdio.h>
#include <string.h>

#include "base/need.h"
#include "base/status.h"

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
  if (!type_same_kind(a, b) || a->dtype != b->dtype) return false;
  if (a->kind != RLX_KIND_TENSOR) return true;
  if (a->rank != b->rank) return false;
  return a->rank <= 0 || memcmp(a->dims, b->dims, (size_t)a->rank * sizeof *a->dims) == 0;
}

bool type_admits(const rlx_type *wanted, const rlx_type *given) {
  if (!type_same_kind(wanted, given) || wanted->dtype != given->dtype) return false;
  if (wanted->kind != RLX_KIND_TENSOR) return true;
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

/* ---- types that hold others --------------------------------------------------------------- */

/* dims[0] of such a type, from the low bits: the key's dtype, the kind that `element` holds in its turn, and dims[0] of
 * the type of the element. */
enum { KEY_BITS = 5, KIND_BITS = 2, LEVEL_BITS = KEY_BITS + KIND_BITS };

bool type_same_kind(const rlx_type *a, const rlx_type *b) {
  if (a->kind != b->kind) return false;
  return a->kind == RLX_KIND_TENSOR || (a->element == b->element && a->dims[0] == b->dims[0]);
}

void type_take_kind(rlx_type *to, const rlx_type *from) {
  to->kind = from->kind;
  to->element = from->element;
  to->dtype = from->dtype;
  if (from->kind == RLX_KIND_TENSOR) return;
  to->rank = RLX_UNKNOWN;
  to->dims[0] = from->dims[0];
}

static bool may_be_key(rlx_dtype dtype) {
  return dtype > RLX_UNDEFINED && dtype < RLX_DTYPE_COUNT && ((RLX_SET_INTEGERS | RLX_SET(RLX_STRING)) >> dtype & 1);
}

rlx_status rlx_type_hold(rlx_kind kind, rlx_dtype key, const rlx_type *held, rlx_type *out) {
  RLX_NEED(held);
  RLX_NEED(out);
  if (kind <= RLX_KIND_TENSOR || kind > RLX_KIND_MAP) return RLX_FAIL(INVALID, "type: kind %d holds nothing", kind);
  if (kind == RLX_KIND_MAP ? !may_be_key(key) : key != RLX_UNDEFINED)
    return RLX_FAIL(INVALID, "type: keys of type %s", rlx_dtype_name(key));
  int64_t inside = held->kind == RLX_KIND_TENSOR ? 0 : held->dims[0];
  int levels = 1;
  for (rlx_type t = *held, next; rlx_type_held(&t, &next); t = next) levels++;
  if (levels > RLX_MAX_NESTING) return RLX_FAIL(UNSUPPORTED, "type: nested more than %d levels", RLX_MAX_NESTING);
  const rlx_kind below = held->kind == RLX_KIND_TENSOR ? RLX_KIND_TENSOR : held->element;
  rlx_type made = {.kind = kind, .element = held->kind, .dtype = held->dtype, .rank = RLX_UNKNOWN};
  made.dims[0] = (int64_t)key | (int64_t)below << KEY_BITS | inside << LEVEL_BITS;
  *out = made;
  return RLX_OK;
}

bool rlx_type_held(const rlx_type *t, rlx_type *out) {
  if (!t || !out || t->kind == RLX_KIND_TENSOR) return false;
  rlx_type held = {.kind = t->element, .dtype = t->dtype, .rank = RLX_UNKNOWN};
  if (held.kind != RLX_KIND_TENSOR) {
    held.element = (rlx_kind)(t->dims[0] >> KEY_BITS & ((1 << KIND_BITS) - 1));
    held.dims[0] = t->dims[0] >> LEVEL_BITS;
  }
  *out = held;
  return true;
}

rlx_dtype rlx_type_key(const rlx_type *t) {
  if (!t || t->kind != RLX_KIND_MAP) return RLX_UNDEFINED;
  return (rlx_dtype)(t->dims[0] & ((1 << KEY_BITS) - 1));
}

/* ---- as text ------------------------------------------------------------------------------ */

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
  static const char *const kinds[] = {"", "seq(", "optional(", "map("};
  static const char closing[] = "))))))))";
  char dims[256], around[160] = "";
  rlx_type inner = *t;
  size_t used = 0, levels = 0;
  for (; inner.kind != RLX_KIND_TENSOR && levels < RLX_MAX_NESTING; levels++) {
    used += (size_t)snprintf(around + used, sizeof around - used, "%s", kinds[inner.kind & 3]);
    if (inner.kind == RLX_KIND_MAP)
      used += (size_t)snprintf(around + used, sizeof around - used, "%s, ", rlx_dtype_name(rlx_type_key(&inner)));
    rlx_type outer = inner;
    (void)rlx_type_held(&outer, &inner);
  }
  if (levels)
    snprintf(text, size, "%s%s%.*s", around, rlx_dtype_name(t->dtype), (int)levels, closing);
  else
    snprintf(text, size, "%s%s", rlx_dtype_name(t->dtype), dims_text(t->rank, t->dims, dims, sizeof dims));
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
