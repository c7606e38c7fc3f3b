/* bound.h — the inside of rlx_bound: a node with concrete extents, as kernels' hooks see it. */
#ifndef IR_BOUND_H
#define IR_BOUND_H

#include "ir/graph.h"

#define BOUND_MAGIC 0xb0b0b0b0u

/* Lives on the binder's stack. */
struct rlx_bound {
  uint32_t magic;
  const rlx_node *node;
  const rlx_type *const *inputs;      /* NULL entries: left out */
  const rlx_type *const *outputs;     /* NULL entries: not wanted */
  const rlx_tensor *const *constants; /* per input: its value if constant, else NULL */
  int threads;
  struct cache *cache;
};

#endif
