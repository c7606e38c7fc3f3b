/* reverse.h — reverse mode over a stretch of nodes. */
#ifndef GRAD_REVERSE_H
#define GRAD_REVERSE_H

#include "grad/transform.h"

/* Values with their gradients (or tangents). */
typedef struct value_pairs {
  rlx_value *const *values;
  rlx_value *const *derivatives; /* NULL entries: none */
  int count;
} value_pairs;

/* Walks nodes [begin, end) of the transform's graph backwards from `from`; gradients[i]: that of wrt[i], or NULL. */
rlx_status reverse_walk(transform *t, size_t begin, size_t end, const value_pairs *from, rlx_value *const *wrt,
                        int wrt_count, rlx_value **gradients);

#endif
