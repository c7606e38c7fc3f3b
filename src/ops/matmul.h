/* matmul.h — geometry of matrix products, for the op records and for kernels. */
#ifndef OPS_MATMUL_H
#define OPS_MATMUL_H

#include <rlx/extend.h>

/* Params of onnx.Gemm. */
typedef struct gemm_params {
  uint64_t given;
  float alpha, beta;
  int64_t trans_a, trans_b;
  int64_t broadcast; /* versions before 7 */
} gemm_params;

/* A batched product: for each of `count` positions of the broadcast batch, m × k by k × n. */
typedef struct matmul_shape {
  int64_t m, n, k;
  int64_t count; /* of batches */
  int rank;      /* of the batch */
  int64_t batch[RLX_MAX_RANK];
  int64_t a_step[RLX_MAX_RANK], b_step[RLX_MAX_RANK]; /* in matrices; 0: broadcast */
} matmul_shape;

/* NULL, or why the shapes do not fit, in the buffer of rlx_reason. All dims must be known. */
const char *matmul_resolve(int a_rank, const int64_t *a, int b_rank, const int64_t *b, matmul_shape *out);
/* Which matrices of A and B batch i multiplies. */
void matmul_batch(const matmul_shape *s, int64_t i, int64_t *a, int64_t *b);
/* Shape inference of inputs a and b to output 0. */
rlx_status matmul_infer(rlx_infer *ctx, int a, int b);

/* C = A B in `dtype` (float, double, int32, int64, the integers wrapping), all row-major: the plain product. */
void matmul_direct(rlx_ctx *ctx, const matmul_shape *s, rlx_dtype dtype, const void *a, const void *b, void *c);

#endif
