/* value.c — sequences, optionals and maps: tensor objects that hold others. */
#include <string.h>

#include "base/map.h"
#include "base/memory.h"
#include "base/need.h"
#include "base/status.h"
#include "ir/dtype.h"
#include "ir/shape.h"
#include "ir/tensor.h"

static rlx_status make_holder(const rlx_type *type, rlx_tensor *const *items, int64_t count, rlx_tensor **out) {
  rlx_tensor *t = mem_zalloc(sizeof *t);
  if (t) t->items = mem_array((size_t)count, sizeof *t->items);
  if (!t || !t->items) {
    mem_free(t);
    return status_no_memory((size_t)count * sizeof *items);
  }
  t->refs = 1;
  t->kind = type->kind;
  t->element = type->element;
  t->dtype = type->dtype;
  t->dims[0] = type->dims[0];
  t->count = count;
  t->self = t;
  t->bytes = sizeof *t;
  for (int64_t i = 0; i < count; i++) {
    t->items[i] = rlx_tensor_retain(items[i]);
    t->bytes += items[i]->bytes + sizeof *items;
  }
  *out = t;
  return RLX_OK;
}

static rlx_status check_items(const rlx_type *type, rlx_tensor *const *items, int64_t count) {
  rlx_type held, is;
  char a[300], b[300];
  (void)rlx_type_held(type, &held);
  for (int64_t i = 0; i < count; i++) {
    rlx_tensor_type(items[i], &is);
    if (!type_admits(&held, &is))
      return RLX_FAIL(INVALID, "item %lld of %s is %s", (long long)i, type_text(type, a, sizeof a),
                      type_text(&is, b, sizeof b));
  }
  return RLX_OK;
}

static bool equal_keys(const rlx_tensor *keys, int64_t i, int64_t k) {
  if (keys->dtype == RLX_STRING) {
    const rlx_string *a = (const rlx_string *)keys->data + i, *b = (const rlx_string *)keys->data + k;
    return a->size == b->size && (a->size == 0 || memcmp(a->data, b->data, a->size) == 0);
  }
  size_t size = dtype_size(keys->dtype);
  const char *data = tensor_raw(keys);
  return memcmp(data + (size_t)i * size, data + (size_t)k * size, size) == 0;
}

/* A few keys are compared with each other; of many a hash table finds the candidates. */
static rlx_status check_keys(const rlx_tensor *keys) {
  int64_t slots = 1;
  while (slots < 2 * keys->count) slots *= 2;
  int64_t *table = mem_array((size_t)slots, sizeof *table); /* index of a key + 1, or 0 */
  if (!table) return status_no_memory((size_t)slots * sizeof *table);
  int64_t twice = -1;
  for (int64_t i = 0; i < keys->count && twice < 0; i++) {
    const rlx_string *s = (const rlx_string *)keys->data + i;
    size_t size = dtype_size(keys->dtype);
    uint64_t hash = keys->dtype == RLX_STRING ? hash_bytes(s->data, s->size, 0)
                                              : hash_bytes((const char *)tensor_raw(keys) + (size_t)i * size, size, 0);
    int64_t at = (int64_t)(hash & (uint64_t)(slots - 1));
    while (table[at] && !equal_keys(keys, table[at] - 1, i)) at = (at + 1) & (slots - 1);
    if (table[at])
      twice = i;
    else
      table[at] = i + 1;
  }
  mem_free(table);
  return twice < 0 ? RLX_OK : RLX_FAIL(INVALID, "a map has key %lld twice", (long long)twice);
}

static rlx_status check_map(const rlx_type *type, rlx_tensor *const *items, int64_t count) {
  rlx_type held;
  if (count != 2) return RLX_FAIL(INVALID, "a map of %lld items: it has keys and values", (long long)count);
  const rlx_tensor *keys = items[0], *values = items[1];
  (void)rlx_type_held(type, &held);
  if (keys->kind != RLX_KIND_TENSOR || keys->dtype != rlx_type_key(type) || keys->rank != 1)
    return RLX_FAIL(INVALID, "the keys of a map are not %s[n]", rlx_dtype_name(rlx_type_key(type)));
  bool scalars = values->kind == RLX_KIND_TENSOR && values->rank == 1;
  if (values->kind != RLX_KIND_SEQUENCE && !scalars)
    return RLX_FAIL(INVALID, "the values of a map are neither a tensor of one dim nor a sequence");
  if (keys->count != values->count)
    return RLX_FAIL(INVALID, "a map of %lld keys and %lld values", (long long)keys->count, (long long)values->count);
  rlx_type whole, is;
  RLX_TRY(rlx_type_hold(RLX_KIND_SEQUENCE, RLX_UNDEFINED, &held, &whole));
  rlx_tensor_type(values, &is);
  if (scalars ? held.kind != RLX_KIND_TENSOR || held.dtype != values->dtype : !type_admits(&whole, &is))
    return RLX_FAIL(INVALID, "the values of a map are not of its type");
  return check_keys(keys);
}

rlx_status rlx_value_create(const rlx_type *type, rlx_tensor *const *items, int64_t count, rlx_tensor **out) {
  RLX_NEED(out);
  RLX_NEED(type);
  RLX_NEED(items || count <= 0);
  if (!rlx_dtype_bits(type->dtype) && type->dtype != RLX_STRING)
    return RLX_FAIL(INVALID, "a value of dtype %d", (int)type->dtype);
  if ((unsigned)type->element > RLX_KIND_MAP) return RLX_FAIL(INVALID, "a value of kind %d", (int)type->element);
  for (int64_t i = 0; i < count; i++)
    if (!items[i]) return RLX_FAIL(INVALID, "item %lld of a value is NULL", (long long)i);
  if (count < 0 || count > INT32_MAX) return RLX_FAIL(INVALID, "a value of %lld items", (long long)count);
  switch (type->kind) {
    case RLX_KIND_SEQUENCE: RLX_TRY(check_items(type, items, count)); break;
    case RLX_KIND_OPTIONAL:
      if (count > 1) return RLX_FAIL(INVALID, "an optional of %lld items", (long long)count);
      RLX_TRY(check_items(type, items, count));
      break;
    case RLX_KIND_MAP: RLX_TRY(check_map(type, items, count)); break;
    default: return RLX_FAIL(INVALID, "a value of kind %d holds nothing", (int)type->kind);
  }
  return make_holder(type, items, count, out);
}

rlx_status rlx_sequence_create(rlx_dtype dtype, rlx_tensor *const *items, int64_t count, rlx_tensor **out) {
  rlx_type held, type;
  RLX_NEED(items || count <= 0);
  type_unknown(&held, dtype);
  if (count > 0 && items[0]) {
    rlx_tensor_type(items[0], &held);
    held.dtype = dtype;
    if (held.kind == RLX_KIND_TENSOR) held.rank = RLX_UNKNOWN;
  }
  RLX_TRY(rlx_type_hold(RLX_KIND_SEQUENCE, RLX_UNDEFINED, &held, &type));
  return rlx_value_create(&type, items, count, out);
}

rlx_status rlx_optional_create(rlx_kind element, rlx_dtype dtype, rlx_tensor *item, rlx_tensor **out) {
  rlx_type type = {.kind = RLX_KIND_OPTIONAL, .element = element, .dtype = dtype, .rank = RLX_UNKNOWN};
  rlx_type held;
  if (item && item->kind == element) {
    rlx_tensor_type(item, &held);
    held.dtype = dtype;
    RLX_TRY(rlx_type_hold(RLX_KIND_OPTIONAL, RLX_UNDEFINED, &held, &type));
  }
  return rlx_value_create(&type, &item, item != NULL, out);
}

rlx_status rlx_map_create(rlx_tensor *keys, rlx_tensor *values, rlx_tensor **out) {
  rlx_type held, type;
  RLX_NEED(keys);
  RLX_NEED(values);
  rlx_tensor *const items[] = {keys, values};
  rlx_tensor_type(values, &held);
  rlx_type sequence = held;
  if (held.kind == RLX_KIND_SEQUENCE) (void)rlx_type_held(&sequence, &held);
  RLX_TRY(rlx_type_hold(RLX_KIND_MAP, keys->dtype, &held, &type));
  return rlx_value_create(&type, items, 2, out);
}
