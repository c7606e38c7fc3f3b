/* csr.c — the typed bodies over CSR matrices, and what reads a matrix from a run's or an inference's inputs. */
#include <math.h>
#include <string.h>

#include "sparse.h"

#define T float
#define I int32_t
#define F(name) name##_float_int32
#include "csr_body.h"

#define T float
#define I int64_t
#define F(name) name##_float_int64
#include "csr_body.h"

#define T double
#define I int32_t
#define F(name) name##_double_int32
#include "csr_body.h"

#define T double
#define I int64_t
#define F(name) name##_double_int64
#include "csr_body.h"

const csr_calls *csr_calls_of(rlx_dtype type, rlx_dtype index) {
  if (index == RLX_INT64) return type == RLX_DOUBLE ? &calls_double_int64 : &calls_float_int64;
  return type == RLX_DOUBLE ? &calls_double_int32 : &calls_float_int32;
}

csr csr_of(const rlx_ctx *ctx, int first, int64_t cols) {
  const rlx_operand *values = &ctx->inputs[first], *col = values + 1, *ptr = values + 2;
  return (csr){.rows = ptr->count - 1,
               .cols = cols,
               .entries = col->count,
               .values = values->data,
               .col = col->data,
               .ptr = ptr->data,
               .type = values->dtype,
               .index = col->dtype};
}

rlx_status csr_columns(rlx_ctx *ctx, int i, int64_t absent, int64_t *out) {
  *out = absent;
  if (i >= ctx->input_count || !ctx->inputs[i].data) return RLX_OK;
  if (ctx->inputs[i].count != 1)
    return rlx_fail(ctx, RLX_INVALID, "columns has %lld elements, not one", (long long)ctx->inputs[i].count);
  *out = *(const int64_t *)ctx->inputs[i].data;
  return *out >= 0 ? RLX_OK : rlx_fail(ctx, RLX_INVALID, "columns is %lld", (long long)*out);
}

/* ---- shape inference ------------------------------------------------------------------------------------------------
 */

static rlx_status vector_size(rlx_infer *ctx, int i, const char *what, int64_t *out) {
  const rlx_type *t = rlx_infer_input(ctx, i);
  *out = RLX_UNKNOWN;
  if (!t || t->rank == RLX_UNKNOWN) return RLX_OK;
  if (t->rank != 1) return rlx_fail(ctx, RLX_INVALID, "%s has rank %d, not 1", what, t->rank);
  *out = t->dims[0];
  return RLX_OK;
}

rlx_status infer_pattern(rlx_infer *ctx, int col, int ptr, csr_known *out) {
  int64_t entries, pointers;
  rlx_status status = vector_size(ctx, col, "col_idx", &entries);
  if (status == RLX_OK) status = vector_size(ctx, ptr, "row_ptr", &pointers);
  if (status != RLX_OK) return status;
  if (pointers == 0) return rlx_fail(ctx, RLX_INVALID, "row_ptr is empty; it has one element more than rows");
  *out = (csr_known){pointers == RLX_UNKNOWN ? RLX_UNKNOWN : pointers - 1, entries};
  return RLX_OK;
}

rlx_status infer_csr(rlx_infer *ctx, int first, csr_known *out) {
  int64_t values;
  rlx_status status = infer_pattern(ctx, first + 1, first + 2, out);
  if (status == RLX_OK) status = vector_size(ctx, first, "values", &values);
  if (status != RLX_OK) return status;
  if (values != RLX_UNKNOWN && out->entries != RLX_UNKNOWN && values != out->entries)
    return rlx_fail(ctx, RLX_INVALID, "%lld values, and col_idx has %lld", (long long)values, (long long)out->entries);
  if (out->entries == RLX_UNKNOWN) out->entries = values;
  return RLX_OK;
}

rlx_status infer_columns(rlx_infer *ctx, int i, int64_t absent, int64_t *out) {
  *out = absent;
  const rlx_type *type = i < rlx_infer_input_count(ctx) ? rlx_infer_input(ctx, i) : NULL;
  if (!type) return RLX_OK;
  *out = RLX_UNKNOWN;
  if (type->rank != RLX_UNKNOWN && (type->rank > 1 || (type->rank == 1 && type->dims[0] > 1)))
    return rlx_fail(ctx, RLX_INVALID, "columns must be one number");
  const rlx_tensor *value = rlx_infer_value(ctx, i);
  if (!value) return RLX_OK;
  if (rlx_tensor_count(value) != 1) return rlx_fail(ctx, RLX_INVALID, "columns must be one number");
  int64_t n = *(const int64_t *)rlx_tensor_data(value);
  if (n < 0 || n == INT64_MAX) return rlx_fail(ctx, RLX_INVALID, "columns is %lld", (long long)n);
  *out = n;
  return RLX_OK;
}

rlx_status infer_vector(rlx_infer *ctx, int i, int64_t rows, const char *what) {
  const rlx_type *t = rlx_infer_input(ctx, i);
  if (!t || t->rank == RLX_UNKNOWN) return RLX_OK;
  if (t->rank != 1 && t->rank != 2) return rlx_fail(ctx, RLX_INVALID, "%s has rank %d, not 1 or 2", what, t->rank);
  if (rows != RLX_UNKNOWN && t->dims[0] != RLX_UNKNOWN && t->dims[0] != rows)
    return rlx_fail(ctx, RLX_INVALID, "%s has %lld rows, not %lld", what, (long long)t->dims[0], (long long)rows);
  return RLX_OK;
}

void infer_rows_of(rlx_infer *ctx, int output, int i, int64_t rows) {
  const rlx_type *t = rlx_infer_input(ctx, i);
  if (!t || t->rank == RLX_UNKNOWN) return;
  int64_t dims[2] = {rows, t->rank == 2 ? t->dims[1] : 0};
  rlx_infer_set(ctx, output, t->rank, dims);
}
