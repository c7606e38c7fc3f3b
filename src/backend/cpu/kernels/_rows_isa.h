/* _rows_isa.h — the functions of _rows.h for one instruction set. Included by one file each, which defines
 *   #define ISA_TABLE rows_table_avx2  the name of the table
 *   #define MADD(a, b, c)              a * b + c, fused where the instruction set can
 * LANES partial results are kept, so that sums and maxima vectorise without reassociation flags, and so that a row
 * gives the same bits whatever the thread count. */
#include "backend/cpu/kernels/_vector_math.h"

enum { LANES = 32 };

static inline float lanes_sum(const float *lane) {
  float part[8] = {0}, sum = 0;
  for (int i = 0; i < LANES; i++) part[i % 8] += lane[i];
  for (int i = 0; i < 8; i++) sum += part[i];
  return sum;
}

/* NaN if any element is. */
static float row_max(const float *x, int64_t n) {
  float lane[LANES], peak = -INFINITY;
  int64_t i = 0;
  for (int k = 0; k < LANES; k++) lane[k] = -INFINITY;
  for (; i + LANES <= n; i += LANES)
    for (int k = 0; k < LANES; k++) lane[k] = x[i + k] > lane[k] || x[i + k] != x[i + k] ? x[i + k] : lane[k];
  for (int k = 0; k < LANES; k++) peak = lane[k] > peak || lane[k] != lane[k] ? lane[k] : peak;
  for (; i < n; i++) peak = x[i] > peak || x[i] != x[i] ? x[i] : peak;
  return peak;
}

static float exp_row(const float *x, float *y, int64_t n, float peak) {
  float lane[LANES] = {0}, sum = 0;
  int64_t i = 0;
  for (; i + LANES <= n; i += LANES)
    for (int k = 0; k < LANES; k++) {
      y[i + k] = v_exp(x[i + k] - peak);
      lane[k] += y[i + k];
    }
  for (; i < n; i++) sum += y[i] = v_exp(x[i] - peak);
  return sum + lanes_sum(lane);
}

static void softmax(const float *x, float *y, int64_t n) {
  float sum = exp_row(x, y, n, row_max(x, n)), scale = 1.0f / sum;
  for (int64_t i = 0; i < n; i++) y[i] *= scale;
}

static void softmax_columns(const float *x, float *y, int64_t n, int64_t stride, int64_t width) {
  float peak[COLUMNS], sum[COLUMNS] = {0};
  for (int64_t k = 0; k < width; k++) peak[k] = -INFINITY;
  for (int64_t i = 0; i < n; i++)
    for (int64_t k = 0; k < width; k++) {
      float v = x[i * stride + k];
      peak[k] = v > peak[k] || v != v ? v : peak[k];
    }
  for (int64_t i = 0; i < n; i++)
    for (int64_t k = 0; k < width; k++) sum[k] += y[i * stride + k] = v_exp(x[i * stride + k] - peak[k]);
  for (int64_t k = 0; k < width; k++) sum[k] = 1.0f / sum[k];
  for (int64_t i = 0; i < n; i++)
    for (int64_t k = 0; k < width; k++) y[i * stride + k] *= sum[k];
}

/* Sum of (x - shift)^power, power 1 or 2. */
static inline float row_moment(const float *x, int64_t n, float shift, int power) {
  float lane[LANES] = {0}, sum = 0;
  int64_t i = 0;
  for (; i + LANES <= n; i += LANES)
    for (int k = 0; k < LANES; k++) {
      float d = x[i + k] - shift;
      lane[k] = power == 1 ? lane[k] + d : MADD(d, d, lane[k]);
    }
  for (; i < n; i++) sum += power == 1 ? x[i] - shift : (x[i] - shift) * (x[i] - shift);
  return sum + lanes_sum(lane);
}

static void layer_norm(const float *x, const float *scale, const float *bias, float *y, int64_t n, float epsilon) {
  float mean = row_moment(x, n, 0, 1) / (float)n;
  float variance = row_moment(x, n, mean, 2) / (float)n;
  float inverse = 1.0f / sqrtf(variance + epsilon);
  if (bias)
    for (int64_t i = 0; i < n; i++) y[i] = MADD((x[i] - mean) * inverse, scale[i], bias[i]);
  else
    for (int64_t i = 0; i < n; i++) y[i] = (x[i] - mean) * inverse * scale[i];
}

static void rms_norm(const float *x, const float *scale, float *y, int64_t n, float epsilon) {
  float inverse = 1.0f / sqrtf(row_moment(x, n, 0, 2) / (float)n + epsilon);
  for (int64_t i = 0; i < n; i++) y[i] = x[i] * inverse * scale[i];
}

const rows_table ISA_TABLE = {softmax, softmax_columns, layer_norm, rms_norm};
