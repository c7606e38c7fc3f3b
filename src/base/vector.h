/* vector.h — growable typed arrays: `VECTOR(int64_t) v = {0}; if (!vector_push(&v, 3)) …no memory…`. */
#ifndef BASE_VECTOR_H
#define BASE_VECTOR_H

#include <stdbool.h>
#include <stddef.h>

/* Zero-initialised is empty. Owned: vector_finish. */
#define VECTOR(T)                                                                                        \
  struct {                                                                                               \
    T *data;                                                                                             \
    size_t count, capacity;                                                                              \
  }

bool vector_reserve_bytes(void **data, size_t *capacity, size_t want, size_t element_size);

/* true, or false when memory is short (the vector is unchanged). */
#define vector_reserve(v, n)                                                                             \
  ((n) <= (v)->capacity ||                                                                               \
   vector_reserve_bytes((void **)&(v)->data, &(v)->capacity, (n), sizeof *(v)->data))
#define vector_push(v, ...)                                                                              \
  (vector_reserve((v), (v)->count + 1) && (((v)->data[(v)->count++] = (__VA_ARGS__)), true))
#define vector_finish(v) (mem_free((v)->data), (v)->data = NULL, (v)->count = (v)->capacity = 0)

#include "base/memory.h"

#endif
