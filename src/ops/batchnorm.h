/* batchnorm.h — parameters of batch normalisation, for the op records and for kernels. */
#ifndef OPS_BATCHNORM_H
#define OPS_BATCHNORM_H

#include <rlx/extend.h>

typedef struct batchnorm_params {
  uint64_t given;
  float epsilon, momentum;
  int64_t training_mode;
  int64_t spatial, is_test; /* old versions */
  rlx_ints consumed_inputs; /* version 1, without meaning */
} batchnorm_params;

#endif
