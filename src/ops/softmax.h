/* softmax.h — parameters and geometry of softmax, for the op records and for kernels. */
#ifndef OPS_SOFTMAX_H
#define OPS_SOFTMAX_H

#include <rlx/extend.h>

typedef struct softmax_params {
  uint64_t given;
  int64_t axis;
} softmax_params;

/* outer × count × inner, the axis in the middle. */
typedef struct softmax_shape {
  int64_t outer, count, inner;
} softmax_shape;

/* NULL, or why axis does not fit, in the buffer of rlx_reason. */
const char *softmax_resolve(const softmax_params *p, int rank, const int64_t *dims, softmax_shape *out);

#endif
