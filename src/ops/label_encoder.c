/* label_encoder.c — ai.onnx.ml.LabelEncoder and CategoryMapper: tables from keys to values. */
#include <stddef.h>
#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "ir/dtype.h"
#include "ir/module.h"
#include "ir/tensor.h"
#include "ops/_lookup.h"

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
  lookup table;
  RLX_TRY(lookup_make(ctx, keys.dtype, keys.data, keys.count, &table));
  for (int64_t i = 0; i < x->count; i++) {
    int64_t k = lookup_find(&table, x->data, i);
    const void *value = k >= 0 ? (const char *)values.data + (size_t)k * size : otherwise;
    memcpy((char *)ctx->outputs[0].data + (size_t)i * size, value, size);
  }
  lookup_finish(&table);
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
    .traits = RLX_PURE | RLX_STOP_GRADIENT,
    .no_derivative = "a look-up of keys",
    .infer = infer,
    .eval = eval,
};

/* ---- tables between strings and integers -------------------------------------------------- */

#define PAIR (RLX_SET(RLX_STRING) | RLX_SET(RLX_INT64))

/* Attributes of CategoryMapper and of the first LabelEncoder, whose integers are positions. */
typedef struct mapper_params {
  uint64_t given;
  rlx_strings strings;
  rlx_ints ints;
  rlx_string default_string;
  int64_t default_int;
} mapper_params;

/* Strings become integers, integers strings. */
static rlx_status mapper_infer(rlx_infer *ctx) {
  rlx_dtype from = rlx_infer_input(ctx, 0)->dtype;
  rlx_infer_like(ctx, 0, 0);
  rlx_infer_output(ctx, 0)->dtype = from == RLX_UNDEFINED ? RLX_UNDEFINED : from == RLX_STRING ? RLX_INT64 : RLX_STRING;
  return RLX_OK;
}

static rlx_status category_infer(rlx_infer *ctx) {
  const mapper_params *p = rlx_infer_params(ctx);
  if (p->strings.count != p->ints.count)
    return rlx_fail(ctx, RLX_INVALID, "%lld strings and %lld integers", (long long)p->strings.count,
                    (long long)p->ints.count);
  return mapper_infer(ctx);
}

/* The LabelEncoder that does it. */
static rlx_status lower_table(rlx_graph *g, const rlx_node *n, const int64_t *ints, rlx_value **outputs) {
  const mapper_params *p = rlx_node_params(n);
  bool from_text = rlx_node_input_type(n, 0)->dtype == RLX_STRING;
  size_t count = (size_t)p->strings.count;
  const rlx_attr with[] = {
      {.name = from_text ? "keys_strings" : "values_strings",
       .kind = RLX_ATTR_STRINGS,
       .strings = p->strings.data,
       .count = count},
      {.name = from_text ? "values_int64s" : "keys_int64s", .kind = RLX_ATTR_INTS, .ints = ints, .count = count},
      {.name = "default_string", .kind = RLX_ATTR_STRING, .s = p->default_string},
      RLX_ATTR_I("default_int64", p->default_int)};
  rlx_value *x = rlx_node_input(n, 0);
  outputs[0] = rlx_graph_op(g, "ai.onnx.ml.LabelEncoder", with, 4, &x, 1);
  return rlx_graph_status(g);
}

static rlx_status category_lower(rlx_graph *g, const rlx_node *n, rlx_value **outputs) {
  const mapper_params *p = rlx_node_params(n);
  return lower_table(g, n, p->ints.data, outputs);
}

static rlx_status classes_lower(rlx_graph *g, const rlx_node *n, rlx_value **outputs) {
  const mapper_params *p = rlx_node_params(n);
  int64_t *positions = mem_array((size_t)p->strings.count, sizeof *positions);
  if (!positions) return rlx_graph_fail(g, RLX_OUT_OF_MEMORY, "no memory for %lld labels", (long long)p->strings.count);
  for (int64_t i = 0; i < p->strings.count; i++) positions[i] = i;
  rlx_status status = lower_table(g, n, positions, outputs);
  mem_free(positions);
  return status;
}

#define IN_MAPPER(member) offsetof(mapper_params, member)
#define MAPPER_DEFAULTS                                                                                             \
  {.name = "default_string",                                                                                        \
   .kind = RLX_ATTR_STRING,                                                                                         \
   .offset = IN_MAPPER(default_string),                                                                             \
   .default_string = "_Unused"},                                                                                    \
      {.name = "default_int64", .kind = RLX_ATTR_INT, .offset = IN_MAPPER(default_int), .default_int = -1}, {       \
    0                                                                                                               \
  }
static const rlx_port mapper_inputs[] = {{.name = "X", .dtypes = PAIR}, {0}};
static const rlx_port mapper_outputs[] = {{.name = "Y", .dtypes = PAIR}, {0}};

static const rlx_op category_mapper = {
    .struct_size = sizeof(rlx_op),
    .name = "ai.onnx.ml.CategoryMapper",
    .version = 1,
    .doc = "Strings to integers by a table of pairs, or integers to strings.",
    .inputs = mapper_inputs,
    .outputs = mapper_outputs,
    .attrs = (const rlx_attr_def[]){{.name = "cats_strings", .kind = RLX_ATTR_STRINGS, .offset = IN_MAPPER(strings)},
                                    {.name = "cats_int64s", .kind = RLX_ATTR_INTS, .offset = IN_MAPPER(ints)},
                                    MAPPER_DEFAULTS},
    .params_size = sizeof(mapper_params),
    .traits = RLX_PURE,
    .infer = category_infer,
    .lower = category_lower,
};

static const rlx_op encoder_1 = {
    .struct_size = sizeof(rlx_op),
    .name = "ai.onnx.ml.LabelEncoder",
    .version = 1,
    .doc = "Strings to their positions in a list of classes, or positions to strings.",
    .inputs = mapper_inputs,
    .outputs = mapper_outputs,
    .attrs = (const rlx_attr_def[]){{.name = "classes_strings", .kind = RLX_ATTR_STRINGS, .offset = IN_MAPPER(strings)},
                                    MAPPER_DEFAULTS},
    .params_size = sizeof(mapper_params),
    .traits = RLX_PURE,
    .infer = mapper_infer,
    .lower = classes_lower,
};

const rlx_module ops_label_encoder = {.ops = (const rlx_op *const[]){&encoder, &encoder_1, &category_mapper, NULL}};
