/* _gemm.h — the inner loops of matrix products for each instruction set. */
#ifndef CPU_GEMM_H
#define CPU_GEMM_H

#include <rlx/extend.h>

/* What a tile starts from. */
typedef enum gemm_start {
  GEMM_ZERO,
  GEMM_BIAS, /* one number a column */
  GEMM_ADD   /* what C holds */
} gemm_start;

/* One tile: C (rows × columns) = start + A (rows × k) B (k × columns). Strides in elements. */
typedef struct gemm_tile {
  const float *a, *b, *bias;
  const float *next; /* rows like B's that will be read later, to be fetched into the cache */
  int64_t next_rows; /* at most k */
  float *c;
  int64_t a_stride, b_stride, c_stride, k;
  gemm_start start;
} gemm_tile;

enum { GEMM_MOST_ROWS = 12, GEMM_MOST_COLUMNS = 32 };

typedef struct gemm_isa {
  int rows, columns;                                    /* of a whole tile */
  void (*tile[GEMM_MOST_ROWS + 1])(const gemm_tile *t); /* by number of rows */
  bool fast;                                            /* written for this processor */
} gemm_isa;

extern const gemm_isa gemm_base;
#if defined(__x86_64__)
extern const gemm_isa gemm_avx2;
extern const gemm_isa gemm_avx512;
#endif
const gemm_isa *gemm_best(void);

/* Whether the kernel "panels" runs this MatMul, Gemm or rlx.matmul, and faster than others would. */
bool gemm_prefers_panels(const rlx_node *n);

#endif
