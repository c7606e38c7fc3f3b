/* label_encoder.c — ai.onnx.ml.LabelEncoder: a table from keys to values. */
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "base/status.h"
#include "ir/dtype.h"
#include "ir/module.h"
#include "ir/tensor.h"

#define CODES (RLX_SET(RLX_STRING) | RLX_SET(RLX_INT64) | RLX_SET(RLX_FLOAT))
#define TABLE_TYPES (CODES | RLX_SET(RLX_DOUBLE) | RLX_SET(RLX_INT32) | RLX_SET(RLX_INT16))

typedef struct encoder_params {
  uint64_t given;
  rlx_strings keys_strings, values_strings;
  rlx_ints keys_ints, values_ints;
  rlx_floats keys_floats, values_floats;
  rlx_tensor *keys_tensor, *values_tensor, *default_tensor;
  rlx_string default_string;
  int64_t default_int;
  float default_float;
} encoder_params;

/* A list of one dtype, wherever the attributes have it. */
typedef struct table_list {
  rlx_dtype dtype; /* UNDEFINED: not given */
  const void *data;
  int64_t count;
} table_list;

static table_list pick(rlx_strings s, rlx_ints i, rlx_floats f, const rlx_tensor *t) {
  if (t) return (table_list){t->dtype, t->data, t->count};
  if (s.count) return (table_list){RLX_STRING, s.data, s.count};
  if (i.count) return (table_list){RLX_INT64, i.data, i.count};
  if (f.count) return (table_list){RLX_FLOAT, f.data, f.count};
  return (table_list){RLX_UNDEFINED, NULL, 0};
}

static table_list keys_of(const encoder_params *p) {
  return pick(p->keys_strings, p->keys_ints, p->keys_floats, p->keys_tensor);
}
static table_list values_of(const encoder_params *p) {
  return pick(p->values_strings, p->values_ints, p->values_floats, p->values_tensor);
}

static rlx_status infer(rlx_infer *ctx) {
  const encoder_params *p = rlx_infer_params(ctx);
  const rlx_type *x = rlx_infer_input(ctx, 0);
  table_list keys = keys_of(p), values = values_of(p);
  if (keys.count != values.count || !keys.count)
    return rlx_fail(ctx, RLX_INVALID, "%lld keys and %lld values", (long long)keys.count, (long long)values.count);
  if (x->dtype != RLX_UNDEFINED && x->dtype != keys.dtype)
    return rlx_fail(ctx, RLX_INVALID, "the keys are %s, the input is %s", rlx_dtype_name(keys.dtype),
                    rlx_dtype_name(x->dtype));
  if (!(TABLE_TYPES >> keys.dtype & 1) || !(TABLE_TYPES >> values.dtype & 1))
    return rlx_fail(ctx, RLX_UNSUPPORTED, "a table from %s to %s", rlx_dtype_name(keys.dtype),
                    rlx_dtype_name(values.dtype));
  const rlx_tensor *d = p->default_tensor;
  if (d && (d->dtype != values.dtype || d->count != 1))
    return rlx_fail(ctx, RLX_INVALID, "default_tensor is not one %s", rlx_dtype_name(values.dtype));
  rlx_infer_like(ctx, 0, 0);
  rlx_infer_output(ctx, 0)->dtype = values.dtype;
  return RLX_OK;
}

static bool is_nan(rlx_dtype dtype, const void *data, int64_t i) {
  return (dtype == RLX_FLOAT && isnan(((const float *)data)[i])) ||
         (dtype == RLX_DOUBLE && isnan(((const double *)data)[i]));
}

/* NaN is the key of every NaN; 0 and -0 are one. */
static bool equal(rlx_dtype dtype, const void *a, int64_t i, const void *b, int64_t k) {
  if (dtype == RLX_STRING) {
    rlx_string x = ((const rlx_string *)a)[i], y = ((const rlx_string *)b)[k];
    return x.size == y.size && (x.size == 0 || memcmp(x.data, y.data, x.size) == 0);
  }
  if (dtype == RLX_FLOAT || dtype == RLX_DOUBLE)
    return dtype_load(dtype, a, i) == dtype_load(dtype, b, k) || (is_nan(dtype, a, i) && is_nan(dtype, b, k));
  size_t size = dtype_size(dtype);
  return memcmp((const char *)a + (size_t)i * size, (const char *)b + (size_t)k * size, size) == 0;
}

/* What a key that is not in the table becomes. */
static const void *fallback(const encoder_params *p, rlx_dtype dtype, const int16_t *small, const int32_t *middle,
                            const double *wide) {
  if (p->default_tensor) return p->default_tensor->data;
  switch (dtype) {
    case RLX_STRING: return &p->default_string;
    case RLX_FLOAT: return &p->default_float;
    case RLX_DOUBLE: return wide;
    case RLX_INT32: return middle;
    case RLX_INT16: return small;
    default: return &p->default_int;
  }
}

static rlx_status eval(rlx_ctx *ctx) {
  const encoder_params *p = ctx->params;
  const rlx_operand *x = &ctx->inputs[0];
  table_list keys = keys_of(p), values = values_of(p);
  size_t size = dtype_size(values.dtype);
  const int16_t small = (int16_t)p->default_int;
  const int32_t middle = (int32_t)p->default_int;
  const double wide = (double)p->default_float;
  const void *otherwise = fallback(p, values.dtype, &small, &middle, &wide);
  if (!keys.data || !values.data) return rlx_fail(ctx, RLX_UNSUPPORTED, "the table is not in the host's memory");
  for (int64_t i = 0; i < x->count; i++) {
    int64_t k = 0;
    while (k < keys.count && !equal(keys.dtype, x->data, i, keys.data, k)) k++;
    const void *value = k < keys.count ? (const char *)values.data + (size_t)k * size : otherwise;
    memcpy((char *)ctx->outputs[0].data + (size_t)i * size, value, size);
    if (rlx_cancelled(ctx)) return RLX_CANCELLED;
  }
  return RLX_OK;
}

#define AT(member) offsetof(encoder_params, member)
static const rlx_attr_def attrs[] = {
    {.name = "keys_strings", .kind = RLX_ATTR_STRINGS, .offset = AT(keys_strings)},
    {.name = "keys_int64s", .kind = RLX_ATTR_INTS, .offset = AT(keys_ints)},
    {.name = "keys_floats", .kind = RLX_ATTR_FLOATS, .offset = AT(keys_floats)},
    {.name = "keys_tensor", .kind = RLX_ATTR_TENSOR, .offset = AT(keys_tensor)},
    {.name = "values_strings", .kind = RLX_ATTR_STRINGS, .offset = AT(values_strings)},
    {.name = "values_int64s", .kind = RLX_ATTR_INTS, .offset = AT(values_ints)},
    {.name = "values_floats", .kind = RLX_ATTR_FLOATS, .offset = AT(values_floats)},
    {.name = "values_tensor", .kind = RLX_ATTR_TENSOR, .offset = AT(values_tensor)},
    {.name = "default_tensor", .kind = RLX_ATTR_TENSOR, .offset = AT(default_tensor)},
    {.name = "default_string", .kind = RLX_ATTR_STRING, .offset = AT(default_string), .default_string = "_Unused"},
    {.name = "default_int64", .kind = RLX_ATTR_INT, .offset = AT(default_int), .default_int = -1},
    {.name = "default_float", .kind = RLX_ATTR_FLOAT, .offset = AT(default_float), .default_float = -0.0f},
    {0}};

static const rlx_op encoder = {
    .struct_size = sizeof(rlx_op),
    .name = "ai.onnx.ml.LabelEncoder",
    .version = 2,
    .samples =
        (const char *const[]){
            "int64[2,3] {keys_int64s = [0, 1, 2], values_int64s = [5, 6, 7], default_int64 = -1}",
            "string[4] {keys_strings = [\"a\", \"bc\"], values_floats = [1.0, 2.5], default_float = -0.5}", NULL},
    .doc = "The value that stands at an element's key in a table, or the default.",
    .inputs = (const rlx_port[]){{.name = "X", .dtypes = TABLE_TYPES}, {0}},
    .outputs = (const rlx_port[]){{.name = "Y", .dtypes = TABLE_TYPES}, {0}},
    .attrs = attrs,
    .params_size = sizeof(encoder_params),
    .traits = RLX_PURE,
    .infer = infer,
    .eval = eval,
};

const rlx_module ops_label_encoder = {.ops = (const rlx_op *const[]){&encoder, NULL}};
