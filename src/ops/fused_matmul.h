/* fused_matmul.h — parameters of rlx.matmul, for its op record and for kernels. */
#ifndef OPS_FUSED_MATMUL_H
#define OPS_FUSED_MATMUL_H

#include "ops/_fused_activation.h"
#include "ops/matmul.h"

typedef struct fused_matmul_params {
  uint64_t given;
  int64_t trans_b; /* the last two axes of B are swapped */
  fused_activation_attrs activation;
} fused_matmul_params;

enum { FUSED_MATMUL_A, FUSED_MATMUL_B, FUSED_MATMUL_BIAS, FUSED_MATMUL_Z };

/* As matmul_resolve, with B's last two axes swapped if so wanted. B has at least two dims then. */
const char *fused_matmul_resolve(const fused_matmul_params *p, int a_rank, const int64_t *a, int b_rank,
                                 const int64_t *b, matmul_shape *out);

#endif
