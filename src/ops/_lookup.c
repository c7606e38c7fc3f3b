/* _lookup.c — finds an element in a list of keys of one dtype: strings or numbers. */
#include "ops/_lookup.h"

#include <math.h>
#include <string.h>

#include "base/map.h"
#include "base/memory.h"
#include "ir/dtype.h"

/* The bytes that decide: equal keys, equal bytes. A number is kept in `number`. */
static rlx_string key_bytes(rlx_dtype dtype, const void *data, int64_t i, double *number) {
  size_t size = dtype_size(dtype);
  if (dtype == RLX_STRING) return ((const rlx_string *)data)[i];
  if (!dtype_is_float(dtype)) return (rlx_string){(const char *)data + (size_t)i * size, size};
  double v = dtype_load(dtype, data, i);
  *number = isnan(v) ? (double)NAN : v == 0 ? 0.0 : v;
  return (rlx_string){(const char *)number, sizeof *number};
}

/* The slot of a key, or the free one where it belongs. */
static uint64_t find_slot(const lookup *l, const void *data, int64_t i) {
  double a, b;
  rlx_string key = key_bytes(l->dtype, data, i, &a);
  uint64_t at = hash_bytes(key.size ? key.data : "", key.size, 0) & l->mask;
  for (; l->slots[at]; at = (at + 1) & l->mask) {
    rlx_string other = key_bytes(l->dtype, l->keys, l->slots[at] - 1, &b);
    if (other.size == key.size && (key.size == 0 || memcmp(other.data, key.data, key.size) == 0)) break;
  }
  return at;
}

rlx_status lookup_make(const void *ctx, rlx_dtype dtype, const void *keys, int64_t count, lookup *out) {
  uint64_t slots = 2;
  while (slots < 2 * (uint64_t)count) slots *= 2;
  lookup l = {.dtype = dtype, .keys = keys, .slots = mem_array(slots, sizeof *l.slots), .mask = slots - 1};
  if (!l.slots) return rlx_fail(ctx, RLX_OUT_OF_MEMORY, "no memory for a table of %lld keys", (long long)count);
  for (int64_t i = 0; i < count; i++) l.slots[find_slot(&l, keys, i)] = i + 1;
  *out = l;
  return RLX_OK;
}

void lookup_finish(lookup *l) { mem_free(l->slots); }

int64_t lookup_find(const lookup *l, const void *data, int64_t i) { return l->slots[find_slot(l, data, i)] - 1; }
