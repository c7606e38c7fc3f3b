/* _move.h — what ops that move elements share: small lists of integers, operands, copying, constants. */
#ifndef OPS_MOVE_H
#define OPS_MOVE_H

#include <string.h>

#include <rlx/extend.h>

#include "ir/dtype.h"
#include "ir/shape.h"
#include "ir/tensor.h"

/* Every dtype whose elements are whole bytes (strings included). */
#define MOVE_SUB_BYTE                                                                                                  \
  (RLX_SET(RLX_UINT4) | RLX_SET(RLX_INT4) | RLX_SET(RLX_FLOAT4E2M1) | RLX_SET(RLX_UINT2) | RLX_SET(RLX_INT2) |  \
   RLX_SET(RLX_FLOAT6E2M3) | RLX_SET(RLX_FLOAT6E3M2))
#define MOVE_WHOLE ((RLX_SET(RLX_DTYPE_COUNT) - 2) & ~MOVE_SUB_BYTE)
#define MOVE_INT64 RLX_SET(RLX_INT64)

/* The value of a small integer input (shape, axes, pads …). */
enum { INT_LIST_MAX = 2 * RLX_MAX_RANK };
typedef struct int_list {
  int count; /* RLX_UNKNOWN: not known (yet), or left out */
  int64_t values[INT_LIST_MAX];
} int_list;

/* From an int32 or int64 array; more than INT_LIST_MAX entries is an error of context. */
rlx_status ints_from(const void *context, rlx_dtype dtype, const void *data, int64_t count, int_list *out);
/* Input i at inference, and at a run. */
rlx_status infer_ints(rlx_infer *ctx, int i, int_list *out);
rlx_status run_ints(const rlx_ctx *ctx, int i, int_list *out);
/* Attribute. */
rlx_status attr_ints(const void *context, const rlx_ints *attribute, int_list *out);

/* Whether input i was given. */
bool infer_given(const rlx_infer *ctx, int i);
bool run_given(const rlx_ctx *ctx, int i);
/* Whether output i is wanted. */
bool run_wanted(const rlx_ctx *ctx, int i);
/* Elements of input i if it is a scalar or vector of known length; RLX_UNKNOWN otherwise. */
int64_t infer_length(const rlx_infer *ctx, int i);
/* Sets output i: rank dims, all unknown. */
void infer_unknown(rlx_infer *ctx, int i, int rank);
/* Axis within a rank, which may be unknown (then *out is RLX_UNKNOWN for a negative axis). */
rlx_status infer_axis(const void *context, int64_t axis, int rank, int *out);
/* Axes made ≥ 0 and checked to be distinct. */
rlx_status axes_normalise(const void *context, int_list *axes, int rank);

/* a * b of dims; RLX_UNKNOWN if one of them is, and on overflow. */
int64_t dim_mul(int64_t a, int64_t b);
int64_t dims_product(const int64_t *dims, int from, int to);

/* Output 0 = the bytes of input 0, which must be as many. */
rlx_status move_all(rlx_ctx *ctx);
/* Copies on all threads when it is much. */
void move_bytes(rlx_ctx *ctx, void *to, const void *from, int64_t bytes);
/* Sets count elements of `size` bytes to the one at `value`. */
void move_fill(void *to, const void *value, int64_t count, size_t size);

/* n elements of any dtype, from position to position; the two do not overlap. */
void move_elements(rlx_dtype dtype, void *to, int64_t to_at, const void *from, int64_t from_at, int64_t n);
/* Zeros, of strings empty ones. */
void move_zero(rlx_operand *to);

/* Element i of an int32 or int64 operand, at any address. */
static inline int64_t index_load(const rlx_operand *o, int64_t i) {
  int32_t narrow;
  int64_t wide;
  if (o->dtype == RLX_INT32) {
    memcpy(&narrow, (const char *)o->data + i * 4, sizeof narrow);
    return narrow;
  }
  memcpy(&wide, (const char *)o->data + i * 8, sizeof wide);
  return wide;
}
/* The same as an offset into an axis; -1 (recorded as a failure of ctx) if it is out of range. */
int64_t index_checked(rlx_ctx *ctx, const rlx_operand *o, int64_t i, int64_t extent);

/* For lower and vjp: an int64 constant, a vector of count entries (count < 0: a scalar). */
rlx_value *graph_ints(rlx_graph *g, const int64_t *values, int64_t count);
rlx_value *graph_float(rlx_graph *g, float value);
/* Short forms of rlx_graph_op. */
rlx_value *graph_op1(rlx_graph *g, const char *op, rlx_value *a);
rlx_value *graph_op2(rlx_graph *g, const char *op, rlx_value *a, rlx_value *b);
rlx_value *graph_cast(rlx_graph *g, rlx_value *a, rlx_dtype to);
rlx_value *graph_axis_op(rlx_graph *g, const char *op, rlx_value *const *inputs, int count, int64_t axis);
/* Zeros with the dtype of v, and its dims or those of the shape value. */
rlx_value *graph_zeros(rlx_graph *g, rlx_value *v, rlx_value *shape);
rlx_value *graph_zeros_like(rlx_graph *g, rlx_value *v);

#endif
