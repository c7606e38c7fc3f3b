/* _gemm_tile.h — the tiles for one instruction set: columns of two vectors, every number of rows up to a whole tile.
 * Included by one file each, which defines the vector type VEC of LANES floats, LOAD, STORE, SET (one number in all
 * lanes), FMA (a * b + c) and TILE_ROWS, 6 or 12. Everything is written out, so that it stays in registers. */

/* Rows of A are read from a pointer for each three of them. M(row, pointer, rows past it) */
#define ROWS_1(M) M(0, a0, 0)
#define ROWS_2(M) ROWS_1(M) M(1, a0, 1)
#define ROWS_3(M) ROWS_2(M) M(2, a0, 2)
#define ROWS_4(M) ROWS_3(M) M(3, a3, 0)
#define ROWS_5(M) ROWS_4(M) M(4, a3, 1)
#define ROWS_6(M) ROWS_5(M) M(5, a3, 2)
#define ROWS_7(M) ROWS_6(M) M(6, a6, 0)
#define ROWS_8(M) ROWS_7(M) M(7, a6, 1)
#define ROWS_9(M) ROWS_8(M) M(8, a6, 2)
#define ROWS_10(M) ROWS_9(M) M(9, a9, 0)
#define ROWS_11(M) ROWS_10(M) M(10, a9, 1)
#define ROWS_12(M) ROWS_11(M) M(11, a9, 2)

#define DECLARE(r, base, past) VEC l##r = {0}, h##r = {0};
#define START_BIAS(r, base, past) l##r = low, h##r = high;
#define START_ADD(r, base, past) l##r = LOAD(c + r * cs), h##r = LOAD(c + r * cs + LANES);
#define STEP(r, base, past)                                                                                            \
  x = SET(*(const float *)(base + past * as));                                                                         \
  l##r = FMA(x, low, l##r);                                                                                            \
  h##r = FMA(x, high, h##r);
#define FINISH(r, base, past) STORE(c + r * cs, l##r), STORE(c + r * cs + LANES, h##r);

#define TILE(n)                                                                                                        \
  static void tile_##n(const gemm_tile *t) {                                                                           \
    const char *a0 = (const char *)t->a;                                                                               \
    int64_t as = t->a_stride * 4, bs = t->b_stride, cs = t->c_stride;                                                  \
    const char *a3 = a0 + 3 * as, *a6 = a0 + 6 * as, *a9 = a0 + 9 * as;                                                \
    const float *b = t->b, *next = t->next;                                                                            \
    float *c = t->c;                                                                                                   \
    VEC low, high, x;                                                                                                  \
    ROWS_##n(DECLARE);                                                                                                 \
    if (t->start == GEMM_BIAS) {                                                                                       \
      low = LOAD(t->bias), high = LOAD(t->bias + LANES);                                                               \
      ROWS_##n(START_BIAS)                                                                                             \
    } else if (t->start == GEMM_ADD) {                                                                                 \
      ROWS_##n(START_ADD)                                                                                              \
    }                                                                                                                  \
    int64_t k = t->k;                                                                                                  \
    for (int64_t f = t->next_rows; f > 0; f--, k--) {                                                                  \
      low = LOAD(b), high = LOAD(b + LANES);                                                                           \
      __builtin_prefetch(next, 0, 2);                                                                                  \
      if (LANES == 16) __builtin_prefetch(next + 16, 0, 2);                                                            \
      next += bs, b += bs;                                                                                             \
      ROWS_##n(STEP) a0 += 4, a3 += 4, a6 += 4, a9 += 4;                                                               \
    }                                                                                                                  \
    for (; k > 0; k--) {                                                                                               \
      low = LOAD(b), high = LOAD(b + LANES);                                                                           \
      b += bs;                                                                                                         \
      ROWS_##n(STEP) a0 += 4, a3 += 4, a6 += 4, a9 += 4;                                                               \
    }                                                                                                                  \
    ROWS_##n(FINISH)                                                                                                   \
  }
TILE(1)
TILE(2)
TILE(3)
TILE(4)
TILE(5)
TILE(6)
#if TILE_ROWS == 12
TILE(7)
TILE(8)
TILE(9)
TILE(10)
TILE(11)
TILE(12)
#define TILES                                                                                                          \
  {NULL, tile_1, tile_2, tile_3, tile_4, tile_5, tile_6, tile_7, tile_8, tile_9, tile_10, tile_11, tile_12}
#else
#define TILES {NULL, tile_1, tile_2, tile_3, tile_4, tile_5, tile_6}
#endif
