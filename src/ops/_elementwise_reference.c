/* _elementwise_reference.c — the table's loops with C's own functions: what each row means. */
#include <math.h>

#include "ops/_elementwise.h"

/* Stable on both sides of 0. */
static inline double sigmoid(double x) {
  double e = exp(-fabs(x));
  return x < 0 ? e / (1 + e) : 1 / (1 + e);
}
static inline float sigmoidf(float x) { return (float)sigmoid((double)x); }
static inline double softplus(double x) { return (x <= 0 ? 0 : x) + log1p(exp(-fabs(x))); }
static inline float softplusf(float x) { return (float)softplus((double)x); }

#define EW_T float
#define EW_ID float
#define EW_CLASS f
#define EW_NUMBER float
#define EW_F(name) name##f
#include "ops/_elementwise_loops.h"

#define EW_T double
#define EW_ID double
#define EW_CLASS f
#define EW_NUMBER double
#define EW_F(name) name
#include "ops/_elementwise_loops.h"

#define EW_T int8_t
#define EW_U uint8_t
#define EW_ID int8
#define EW_CLASS i
#define EW_NUMBER double
#include "ops/_elementwise_loops.h"

#define EW_T int16_t
#define EW_U uint16_t
#define EW_ID int16
#define EW_CLASS i
#define EW_NUMBER double
#include "ops/_elementwise_loops.h"

#define EW_T int32_t
#define EW_U uint32_t
#define EW_ID int32
#define EW_CLASS i
#define EW_NUMBER double
#include "ops/_elementwise_loops.h"

#define EW_T int64_t
#define EW_U uint64_t
#define EW_ID int64
#define EW_CLASS i
#define EW_NUMBER double
#include "ops/_elementwise_loops.h"

#define EW_T uint8_t
#define EW_U uint8_t
#define EW_ID uint8
#define EW_CLASS u
#define EW_NUMBER double
#include "ops/_elementwise_loops.h"

#define EW_T uint16_t
#define EW_U uint16_t
#define EW_ID uint16
#define EW_CLASS u
#define EW_NUMBER double
#include "ops/_elementwise_loops.h"

#define EW_T uint32_t
#define EW_U uint32_t
#define EW_ID uint32
#define EW_CLASS u
#define EW_NUMBER double
#include "ops/_elementwise_loops.h"

#define EW_T uint64_t
#define EW_U uint64_t
#define EW_ID uint64
#define EW_CLASS u
#define EW_NUMBER double
#include "ops/_elementwise_loops.h"

#define EW_T uint8_t
#define EW_ID truth
#define EW_CLASS b
#define EW_NUMBER double
#include "ops/_elementwise_loops.h"

/* Where on 16-byte elements: complex128 and strings. */
typedef struct wide_element {
  uint64_t half[2];
} wide_element;
static void pick_wide(const void *x, const void *y, const void *z, void *out, int64_t n, unsigned still,
                      const double ab[2]) {
  (void)ab;
  const int64_t sx = (still & 1) == 0, sy = (still & 2) == 0, sz = (still & 4) == 0;
  const uint8_t *px = x;
  const wide_element *py = y, *pz = z;
  wide_element *po = out;
  for (int64_t i = 0; i < n; i++) po[i] = px[i * sx] ? py[i * sy] : pz[i * sz];
}
static ew_loop *const ew_loops_wide[EW_ROW_COUNT] = {[EW_Where] = pick_wide};

const ew_table ew_reference = {{
    [RLX_FLOAT] = ew_loops_float,
    [RLX_DOUBLE] = ew_loops_double,
    [RLX_INT8] = ew_loops_int8,
    [RLX_INT16] = ew_loops_int16,
    [RLX_INT32] = ew_loops_int32,
    [RLX_INT64] = ew_loops_int64,
    [RLX_UINT8] = ew_loops_uint8,
    [RLX_UINT16] = ew_loops_uint16,
    [RLX_UINT32] = ew_loops_uint32,
    [RLX_UINT64] = ew_loops_uint64,
    [RLX_BOOL] = ew_loops_truth,
    [RLX_COMPLEX128] = ew_loops_wide,
}};
