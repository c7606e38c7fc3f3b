/* _elementwise_isa.h — the table's loops for one instruction set. Included by one file each, which defines
 *   #define ISA_TABLE ew_table_avx2   the name of the table
 *   #define MADD(a, b, c)             a * b + c, fused where the instruction set can
 * after choosing the instruction set, with the C and rlx headers included before that. */
#include "backend/cpu/kernels/_vector_math.h"

#define EW_T float
#define EW_ID float
#define EW_CLASS f
#define EW_NUMBER float
#define EW_F(name) v_##name
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
