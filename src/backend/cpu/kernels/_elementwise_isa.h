/* _elementwise_isa.h — the table's loops for one instruction set. Included by one file each, which defines
 *   #define ISA_TABLE ew_table_avx2   the name of the table
 *   #define MADD(a, b, c)             a * b + c, fused where the instruction set can
 * after choosing the instruction set, with the C and rlx headers included before that. */
#include "backend/cpu/kernels/_vector_math.h"

/* Sine and cosine: C's for a block with a large angle, an infinity or NaN. */
static bool all_small(const float *x, int64_t n) {
  int large = 0;
  for (int64_t i = 0; i < n; i++) large |= !(fabsf(x[i]) <= VM_SINE_LIMIT);
  return !large;
}
#define SINE(name, quarter, exact)                                                                                     \
  static void name(const void *x, const void *y, const void *z, void *out, int64_t n, unsigned still,                  \
                   const double ab[2]) {                                                                               \
    (void)y, (void)z, (void)still, (void)ab;                                                                           \
    for (int64_t begin = 0; begin < n; begin += 256) {                                                                 \
      const float *from = (const float *)x + begin;                                                                    \
      float *to = (float *)out + begin;                                                                                \
      int64_t count = n - begin < 256 ? n - begin : 256;                                                               \
      if (all_small(from, count)) {                                                                                    \
        EW_INDEPENDENT for (int64_t i = 0; i < count; i++) to[i] = vm_sine(from[i], quarter);                          \
      } else {                                                                                                         \
        for (int64_t i = 0; i < count; i++) to[i] = exact(from[i]);                                                    \
      }                                                                                                                \
    }                                                                                                                  \
  }
SINE(run_sine, 0, sinf)
SINE(run_cosine, 1, cosf)

/* Powers: a loop of multiplications for squares. */
static ew_loop ew_run_Pow_float;
static void run_power(const void *x, const void *y, const void *z, void *out, int64_t n, unsigned still,
                      const double ab[2]) {
  const float *from = x;
  float *to = out;
  if (still == 2 && *(const float *)y == 2.0f) {
    EW_INDEPENDENT for (int64_t i = 0; i < n; i++) to[i] = from[i] * from[i];
  } else {
    ew_run_Pow_float(x, y, z, out, n, still, ab);
  }
}

#define EW_T float
#define EW_ID float
#define EW_CLASS f
#define EW_NUMBER float
#define EW_F(name) v_##name
#define EW_INSTEAD [EW_Sin] = run_sine, [EW_Cos] = run_cosine, [EW_Pow] = run_power,
#include "ops/_elementwise_loops.h"

#define sigmoid vm_sigmoid_double
#define softplus vm_softplus_double
#define EW_T double
#define EW_ID double
#define EW_CLASS f
#define EW_NUMBER double
#define EW_F(name) name
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

const ew_table ISA_TABLE = {{
    [RLX_FLOAT] = ew_loops_float,
    [RLX_DOUBLE] = ew_loops_double,
    [RLX_INT32] = ew_loops_int32,
    [RLX_INT64] = ew_loops_int64,
    [RLX_UINT8] = ew_loops_uint8,
    [RLX_UINT16] = ew_loops_uint16,
    [RLX_UINT32] = ew_loops_uint32,
    [RLX_UINT64] = ew_loops_uint64,
    [RLX_BOOL] = ew_loops_truth,
}};
