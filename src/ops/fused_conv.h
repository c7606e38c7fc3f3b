/* fused_conv.h — parameters of rlx.conv, for its op record and for kernels. */
#ifndef OPS_FUSED_CONV_H
#define OPS_FUSED_CONV_H

#include "ops/_fused_activation.h"
#include "ops/conv.h"

/* Begins as conv_params does. */
typedef struct fused_conv_params {
  uint64_t given;
  window_attrs window;
  int64_t group;
  fused_activation_attrs activation;
} fused_conv_params;

enum { FUSED_CONV_X, FUSED_CONV_W, FUSED_CONV_B, FUSED_CONV_Z, FUSED_CONV_INPUTS };

#endif
