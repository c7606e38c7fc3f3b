/* vector.c — growth of vectors. */
#include "base/vector.h"

#include <stdint.h>

bool vector_reserve_bytes(void **data, size_t *capacity, size_t want, size_t element_size) {
  size_t next = *capacity < 8 ? 8 : *capacity + *capacity / 2;
  if (next < want) next = want;
  if (next > SIZE_MAX / element_size) return false;
  void *p = mem_realloc(*data, next * element_size);
  if (!p) return false;
  *data = p;
  *capacity = next;
  return true;
}
