/* _recurrent.h — products with packed matrices and activations of recurrent layers, for each instruction set. */
#ifndef CPU_RECURRENT_H
#define CPU_RECURRENT_H

#include "ops/recurrent.h"

/* y[i][j] = start[j] + sum over k of x[i][k] * matrix[j][k], or added to y where start is NULL.
 * The matrix is packed: panels of `width` rows (the last one padded with zeros), each holding element k of all its rows
 * before element k + 1. A result has the same bits however the rows x and the panels are divided. */
typedef struct recurrent_product {
  const float *packed;
  int64_t depth, columns; /* of the sum; elements of a row of y */
  const float *const *x;  /* one pointer a row */
  int64_t rows;
  float *y;
  int64_t y_stride;
  const float *start;
} recurrent_product;

typedef struct recurrent_table {
  int width;
  void (*product)(const recurrent_product *p, int64_t panel_begin, int64_t panel_end);
  /* x = f(clipped x); clip 0: none */
  void (*activate)(const activation *f, float clip, float *x, int64_t n);
} recurrent_table;

extern const recurrent_table recurrent_table_base;
#if defined(__x86_64__)
extern const recurrent_table recurrent_table_avx2;   /* with FMA */
extern const recurrent_table recurrent_table_avx512; /* F, BW, DQ, VL */
#endif

const recurrent_table *recurrent_table_best(void);

#endif
