/* lrn.h — parameters of onnx.LRN, for the op record and for kernels. */
#ifndef OPS_LRN_H
#define OPS_LRN_H

#include <rlx/extend.h>

typedef struct lrn_params {
  uint64_t given;
  float alpha, beta, bias;
  int64_t size;
} lrn_params;

#endif
