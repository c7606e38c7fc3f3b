/* one_hot_encoder.c — ai.onnx.ml.OneHotEncoder: a new last axis that is one at the element's category. */
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "base/status.h"
#include "ir/dtype.h"
#include "ir/module.h"
#include "ops/_lookup.h"

typedef struct encoder_params {
  uint64_t given;
  rlx_ints ints;
  rlx_strings strings;
  int64_t zeros;
} encoder_params;

static rlx_status infer(rlx_infer *ctx) {
  const encoder_params *p = rlx_infer_params(ctx);
  const rlx_type *x = rlx_infer_input(ctx, 0);
  int64_t dims[RLX_MAX_RANK], count = p->strings.count + p->ints.count;
  if ((p->strings.count > 0) == (p->ints.count > 0))
    return rlx_fail(ctx, RLX_INVALID, "categories must be given as integers or as strings");
  if (x->dtype != RLX_UNDEFINED && (x->dtype == RLX_STRING) != (p->strings.count > 0))
    return rlx_fail(ctx, RLX_INVALID, "the input is %s, the categories are %s", rlx_dtype_name(x->dtype),
                    p->strings.count ? "strings" : "integers");
  if (x->rank < 0) return RLX_OK;
  if (x->rank == RLX_MAX_RANK) return rlx_fail(ctx, RLX_UNSUPPORTED, "an output of rank %d", x->rank + 1);
  memcpy(dims, x->dims, (size_t)x->rank * sizeof *dims);
  dims[x->rank] = count;
  rlx_infer_set(ctx, 0, x->rank + 1, dims);
  return RLX_OK;
}

/* Numbers of other types are cast to integers; one that is none has no category. */
static int64_t category_of(const lookup *table, const rlx_operand *x, int64_t i) {
  if (table->dtype == RLX_STRING) return lookup_find(table, x->data, i);
  double v = dtype_load(x->dtype, x->data, i);
  if (dtype_is_float(x->dtype) && !(fabs(v) < 0x1p63)) return -1;
  int64_t whole = dtype_is_float(x->dtype) ? (int64_t)v : dtype_load_int(x->dtype, x->data, i);
  return lookup_find(table, &whole, 0);
}

static rlx_status encode(rlx_ctx *ctx, const lookup *table, int64_t count) {
  const encoder_params *p = ctx->params;
  const rlx_operand *x = &ctx->inputs[0];
  float *y = ctx->outputs[0].data;
  if (x->count) memset(y, 0, (size_t)ctx->outputs[0].bytes);
  for (int64_t i = 0; i < x->count; i++) {
    int64_t k = category_of(table, x, i);
    if (k >= 0) y[i * count + k] = 1;
    if (k < 0 && !p->zeros) return rlx_fail(ctx, RLX_INVALID, "element %lld has no category", (long long)i);
  }
  return RLX_OK;
}

static rlx_status eval(rlx_ctx *ctx) {
  const encoder_params *p = ctx->params;
  bool text = p->strings.count > 0;
  int64_t count = text ? p->strings.count : p->ints.count;
  lookup table;
  RLX_TRY(lookup_make(ctx, text ? RLX_STRING : RLX_INT64, text ? (const void *)p->strings.data : p->ints.data, count,
                      &table));
  rlx_status status = encode(ctx, &table, count);
  lookup_finish(&table);
  return status;
}

#define AT(member) offsetof(encoder_params, member)
static const rlx_op encoder = {
    .struct_size = sizeof(rlx_op),
    .name = "ai.onnx.ml.OneHotEncoder",
    .version = 1,
    .doc = "Zeros, and a one at the position of the element among the categories.",
    .inputs =
        (const rlx_port[]){
            {.name = "X", .dtypes = RLX_SET(RLX_STRING) | RLX_SET_INDEX | RLX_SET(RLX_FLOAT) | RLX_SET(RLX_DOUBLE)},
            {0}},
    .outputs = (const rlx_port[]){{.name = "Y", .dtypes = RLX_SET(RLX_FLOAT)}, {0}},
    .attrs = (const rlx_attr_def[]){{.name = "cats_int64s", .kind = RLX_ATTR_INTS, .offset = AT(ints)},
                                    {.name = "cats_strings", .kind = RLX_ATTR_STRINGS, .offset = AT(strings)},
                                    {.name = "zeros", .kind = RLX_ATTR_INT, .offset = AT(zeros), .default_int = 1},
                                    {0}},
    .params_size = sizeof(encoder_params),
    .traits = RLX_PURE,
    .infer = infer,
    .eval = eval,
};

const rlx_module ops_one_hot_encoder = {.ops = (const rlx_op *const[]){&encoder, NULL}};
