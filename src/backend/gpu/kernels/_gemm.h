/* _gemm.h — the text of tiled products, shared by MatMul, Gemm and convolution: 256 threads make a tile of 64² or 128²
 * results from registers, over k in steps of 16 through workgroup memory. */
#ifndef BACKEND_GPU_KERNELS_GEMM_H
#define BACKEND_GPU_KERNELS_GEMM_H

#include <rlx/extend.h>

/* What differs between products. Statements may use: batch, row, column (first ones of the tile), m, n, k (sizes). */
typedef struct gemm_text {
  int per;          /* results a thread makes a side: 4 or 8; the tile is 16 times as wide */
  const char *tile; /* statements at the start of a tile */
  /* Loads four elements of a at rows i … i + 3, column c (all u32, c < k) into f32 v0 … v3; of b at row c, columns
   * j … j + 3. What lies outside is 0. */
  const char *load_a, *load_b;
  /* Whether (uniform) neighbouring threads should take neighbouring columns of a; rows of b. */
  const char *a_by_columns, *b_by_rows;
  /* Writes the results v0 … v3 at row i (< m), columns j … j + 3, of which some may lie outside. */
  const char *store;
} gemm_text;

rlx_status gemm_write(rlx_gpu_text *t, const gemm_text *g);
/* Workgroup memory for `per`. */
extern const rlx_gpu_shared gemm_shared_4[], gemm_shared_8[];
/* Groups for m × n results a batch: scalars tiles, tiles_m, tiles_n are set for the text. */
rlx_status gemm_launch(rlx_gpu_dispatch *d, int function, int per, int64_t m, int64_t n, int64_t k, int64_t batches);
/* 8 where enough tiles of 128² keep a large device busy, else 4. */
int gemm_per(int64_t m, int64_t n, int64_t batches);

#define GEMM_ARGS                                                                                                      \
  ARG_SCALAR("m", "u32"), ARG_SCALAR("n", "u32"), ARG_SCALAR("k", "u32"), ARG_SCALAR("tiles", "u32"),                  \
      ARG_SCALAR("tiles_m", "u32"), ARG_SCALAR("tiles_n", "u32")

#endif
