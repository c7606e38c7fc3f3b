/* record.h — a GPU without a GPU: it runs what it is given late, in any order that the barriers allow, in plain memory.
 * For tests, and for seeing on any machine what a GPU would be asked to do. */
#ifndef BACKEND_RECORD_RECORD_H
#define BACKEND_RECORD_RECORD_H

#include <rlx/extend.h>

/* A raw kernel of this backend: a C function, called on device memory when the device gets to it. */
typedef struct record_kernel {
  uint32_t struct_size;
  rlx_kernel head;
  rlx_status (*run)(rlx_ctx *ctx);
  /* Called when it is recorded; a failure is one of encoding. NULL: nothing. */
  rlx_status (*encode)(const rlx_node *n);
} record_kernel;
rlx_status record_register_kernel(rlx_registry *r, const record_kernel *k, uint32_t flags, rlx_handle *handle);

/* How devices behave that are opened from now on; for tests. */
typedef struct record_options {
  uint32_t seed;       /* of the order of completion; 0: in order, and only when waited for */
  int lose_after;      /* the device is lost at this submission; 0: never */
  int no_memory_after; /* the n-th buffer cannot be made; 0: all can */
} record_options;
void record_set_options(const record_options *o);

#endif
