/* _lookup.h — finds an element in a list of keys of one dtype: strings or numbers. */
#ifndef OPS_LOOKUP_H
#define OPS_LOOKUP_H

#include "ir/module.h"

/* Open addressing over the caller's keys, which must outlive it. */
typedef struct lookup {
  rlx_dtype dtype;
  const void *keys;
  int64_t *slots; /* index of a key + 1, or 0 */
  uint64_t mask;
} lookup;

/* Of equal keys the last counts. NaN equals NaN, 0 equals -0. ctx: an rlx_ctx or rlx_bound, for failures. */
rlx_status lookup_make(const void *ctx, rlx_dtype dtype, const void *keys, int64_t count, lookup *out);
void lookup_finish(lookup *l);
/* The position of element i of data, which has the dtype of the keys; -1: it is not among them. */
int64_t lookup_find(const lookup *l, const void *data, int64_t i);

#endif
