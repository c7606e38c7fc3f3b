/* _matmul_direct.c — the plain matrix product that defines MatMul and Gemm: four rows at a time. */
#include <string.h>

#include "ops/matmul.h"

typedef struct product_task {
  const matmul_shape *shape;
  rlx_dtype dtype;
  const void *a, *b;
  void *c;
} product_task;

enum { BLOCK_ROWS = 4, BLOCK_COLUMNS = 1024 };

/* rows (1 to 4) of C over columns [from, to). */
#define BLOCK(name, type)                                                                                              \
  static void name(const matmul_shape *s, const type *a, const type *b, type *c, int64_t rows, int64_t from,           \
                   int64_t to) {                                                                                       \
    int64_t n = s->n, k = s->k;                                                                                        \
    for (int64_t r = 0; r < rows; r++) memset(c + r * n + from, 0, (size_t)(to - from) * sizeof *c);                   \
    for (int64_t p = 0; p < k; p++) {                                                                                  \
      const type *restrict line = b + p * n;                                                                           \
      if (rows == BLOCK_ROWS) {                                                                                        \
        type *restrict c0 = c, *restrict c1 = c + n, *restrict c2 = c + 2 * n, *restrict c3 = c + 3 * n;               \
        type a0 = a[p], a1 = a[k + p], a2 = a[2 * k + p], a3 = a[3 * k + p];                                           \
        for (int64_t j = from; j < to; j++) {                                                                          \
          c0[j] += a0 * line[j];                                                                                       \
          c1[j] += a1 * line[j];                                                                                       \
          c2[j] += a2 * line[j];                                                                                       \
          c3[j] += a3 * line[j];                                                                                       \
        }                                                                                                              \
      } else {                                                                                                         \
        for (int64_t r = 0; r < rows; r++) {                                                                           \
          type *restrict cr = c + r * n;                                                                               \
          type ar = a[r * k + p];                                                                                      \
          for (int64_t j = from; j < to; j++) cr[j] += ar * line[j];                                                   \
        }                                                                                                              \
      }                                                                                                                \
    }                                                                                                                  \
  }
BLOCK(block_float, float)
BLOCK(block_double, double)
BLOCK(block_u32, uint32_t)
BLOCK(block_u64, uint64_t)
#undef BLOCK

static void run_blocks(void *arg, int64_t begin, int64_t end) {
  const product_task *t = arg;
  const matmul_shape *s = t->shape;
  int64_t per_batch = (s->m + BLOCK_ROWS - 1) / BLOCK_ROWS;
  for (int64_t i = begin; i < end; i++) {
    int64_t batch = i / per_batch, row = i % per_batch * BLOCK_ROWS, a, b;
    int64_t rows = s->m - row < BLOCK_ROWS ? s->m - row : BLOCK_ROWS;
    matmul_batch(s, batch, &a, &b);
    int64_t at_a = (a * s->m + row) * s->k, at_b = b * s->k * s->n, at_c = (batch * s->m + row) * s->n;
    for (int64_t from = 0; from < s->n; from += BLOCK_COLUMNS) {
      int64_t to = from + BLOCK_COLUMNS < s->n ? from + BLOCK_COLUMNS : s->n;
#define RUN(block, type)                                                                                               \
  block(s, (const type *)t->a + at_a, (const type *)t->b + at_b, (type *)t->c + at_c, rows, from, to)
      switch (t->dtype) {
        case RLX_FLOAT: RUN(block_float, float); break;
        case RLX_DOUBLE: RUN(block_double, double); break;
        case RLX_INT32: RUN(block_u32, uint32_t); break;
        default: RUN(block_u64, uint64_t); break;
      }
#undef RUN
    }
  }
}

void matmul_direct(rlx_ctx *ctx, const matmul_shape *s, rlx_dtype dtype, const void *a, const void *b, void *c) {
  if (s->count * s->m * s->n == 0) return;
  product_task task = {s, dtype, a, b, c};
  int64_t work = s->n * s->k * BLOCK_ROWS;
  rlx_parallel_for(ctx, s->count * ((s->m + BLOCK_ROWS - 1) / BLOCK_ROWS), 1 + 65536 / (work + 1), run_blocks, &task);
}
