/* _rows.h — functions over one contiguous row of floats, compiled for each instruction set. */
#ifndef CPU_ROWS_H
#define CPU_ROWS_H

#include <stdint.h>

enum { COLUMNS = 64 };

typedef struct rows_table {
  /* y = exp(x - max(x)) / sum; x and y may be the same. */
  void (*softmax)(const float *x, float *y, int64_t n);
  /* The same down `width` ≤ COLUMNS neighbouring columns of n elements, `stride` apart. */
  void (*softmax_columns)(const float *x, float *y, int64_t n, int64_t stride, int64_t width);
  /* y = (x - mean) / sqrt(variance + epsilon) * scale + bias (bias may be NULL); x and y may be the same. */
  void (*layer_norm)(const float *x, const float *scale, const float *bias, float *y, int64_t n, float epsilon);
  /* y = x / sqrt(mean of squares + epsilon) * scale */
  void (*rms_norm)(const float *x, const float *scale, float *y, int64_t n, float epsilon);
} rows_table;

extern const rows_table rows_table_base;
#if defined(__x86_64__)
extern const rows_table rows_table_avx2;   /* with FMA */
extern const rows_table rows_table_avx512; /* F, BW, DQ, VL */
#endif

const rows_table *rows_table_best(void);

#endif
