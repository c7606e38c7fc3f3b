/* concat.h — parameters of onnx.Concat and onnx.Split, for the op records and for kernels. */
#ifndef OPS_CONCAT_H
#define OPS_CONCAT_H

#include <rlx/extend.h>

typedef struct concat_params {
  uint64_t given;
  int64_t axis;
} concat_params;

/* Begins as concat_params does. */
typedef struct split_params {
  uint64_t given;
  int64_t axis, num_outputs;
} split_params;

#endif
