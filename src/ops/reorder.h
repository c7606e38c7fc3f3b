/* reorder.h — parameters of rlx.reorder. */
#ifndef OPS_REORDER_H
#define OPS_REORDER_H

#include <rlx/extend.h>

typedef struct reorder_params {
  uint64_t given;
  int64_t layout; /* of the output: an id of the backend */
} reorder_params;

#endif
