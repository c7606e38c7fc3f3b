/* maps.c — ai.onnx.ml's ops on maps: ZipMap, CastMap, DictVectorizer. */
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ops/_lookup.h"
#include "ops/_scores.h"
#include "ops/_value.h"

static rlx_tensor *map_input(rlx_ctx *ctx) {
  rlx_tensor *t = rlx_input_value(ctx, 0);
  if (t && t->kind == RLX_KIND_MAP) return t;
  (void)rlx_fail(ctx, RLX_INVALID, "the input is no map");
  return NULL;
}

/* The input is, or may be, a map from a key of `keys` to a tensor of `values`. */
static rlx_status expect_map(rlx_infer *ctx, uint64_t keys, uint64_t values) {
  const rlx_type *t = rlx_infer_input(ctx, 0);
  char text[300];
  if (t->dtype == RLX_UNDEFINED) return RLX_OK;
  if (t->kind == RLX_KIND_MAP && t->element == RLX_KIND_TENSOR && (keys >> rlx_type_key(t) & 1) &&
      (values >> t->dtype & 1))
    return RLX_OK;
  return rlx_fail(ctx, RLX_INVALID, "the input is %s", type_text(t, text, sizeof text));
}

/* ---- ZipMap ------------------------------------------------------------------------------- */

typedef struct zip_params {
  uint64_t given;
  class_labels labels;
} zip_params;

static rlx_status zip_infer(rlx_infer *ctx) {
  const class_labels *labels = &((const zip_params *)rlx_infer_params(ctx))->labels;
  const rlx_type *x = rlx_infer_input(ctx, 0);
  int64_t rows, columns = x->rank > 0 ? x->dims[x->rank - 1] : RLX_UNKNOWN;
  rlx_type value, map;
  RLX_TRY(labels_check(ctx, labels));
  RLX_TRY(features_infer(ctx, &rows));
  if (!labels_count(labels)) return rlx_fail(ctx, RLX_INVALID, "no class labels");
  if (columns >= 0 && columns != labels_count(labels))
    return rlx_fail(ctx, RLX_INVALID, "%lld columns for %lld labels", (long long)columns,
                    (long long)labels_count(labels));
  type_unknown(&value, RLX_FLOAT);
  rlx_status status = rlx_type_hold(RLX_KIND_MAP, labels_dtype(labels), &value, &map);
  if (status != RLX_OK) return rlx_fail(ctx, status, "%s", rlx_error_message());
  return value_infer_sequence(ctx, 0, &map);
}

static rlx_status make_keys(const class_labels *labels, rlx_tensor **out) {
  int64_t count = labels_count(labels);
  rlx_tensor *t;
  RLX_TRY(rlx_tensor_create(labels_dtype(labels), 1, &count, &t));
  rlx_status status = RLX_OK;
  if (t->dtype == RLX_INT64) memcpy(t->data, labels->ints.data, t->bytes);
  for (int64_t i = 0; t->dtype == RLX_STRING && i < count && status == RLX_OK; i++)
    status = rlx_tensor_set_string(t, i, labels->strings.data[i].data, labels->strings.data[i].size);
  if (status == RLX_OK)
    *out = t;
  else
    rlx_tensor_destroy(t);
  return status;
}

static rlx_status make_map(const rlx_operand *x, rlx_tensor *keys, int64_t row, rlx_tensor **out) {
  rlx_tensor *values;
  RLX_TRY(rlx_tensor_create(RLX_FLOAT, 1, &keys->count, &values));
  memcpy(values->data, (const float *)x->data + row * keys->count, values->bytes);
  rlx_status status = rlx_map_create(keys, values, out);
  rlx_tensor_destroy(values);
  return status;
}

static rlx_status zip_rows(rlx_ctx *ctx, rlx_tensor *keys, int64_t rows) {
  rlx_tensor **maps = mem_array((size_t)rows, sizeof *maps);
  rlx_type held;
  int64_t made = 0;
  rlx_status status = maps ? RLX_OK : status_no_memory((size_t)rows * sizeof *maps);
  while (status == RLX_OK && made < rows) {
    status = make_map(&ctx->inputs[0], keys, made, &maps[made]);
    made += status == RLX_OK;
  }
  if (status == RLX_OK) {
    (void)rlx_type_held(rlx_node_output_type(ctx->node, 0), &held);
    status = value_give_sequence(ctx, 0, &held, maps, made);
  } else {
    for (int64_t i = 0; i < made; i++) rlx_tensor_destroy(maps[i]);
    (void)value_failed(ctx, status);
  }
  mem_free(maps);
  return status;
}

static rlx_status zip_eval(rlx_ctx *ctx) {
  const zip_params *p = ctx->params;
  feature_rows size;
  rlx_tensor *keys;
  RLX_TRY(feature_rows_of(ctx, &ctx->inputs[0], &size));
  rlx_status status = make_keys(&p->labels, &keys);
  if (status != RLX_OK) return value_failed(ctx, status);
  status = zip_rows(ctx, keys, size.rows);
  rlx_tensor_destroy(keys);
  return status;
}

static const rlx_op zip = {
    .struct_size = sizeof(rlx_op),
    .name = "ai.onnx.ml.ZipMap",
    .version = 1,
    .doc = "A map for each row, from the class labels to the row's elements.",
    .inputs = (const rlx_port[]){{.name = "X", .dtypes = RLX_SET(RLX_FLOAT)}, {0}},
    .outputs = (const rlx_port[]){{.name = "Z", .dtypes = RLX_SET(RLX_FLOAT), .flags = RLX_ANY_KIND}, {0}},
    .attrs =
        (const rlx_attr_def[]){
            {.name = "classlabels_int64s", .kind = RLX_ATTR_INTS, .offset = offsetof(zip_params, labels.ints)},
            {.name = "classlabels_strings", .kind = RLX_ATTR_STRINGS, .offset = offsetof(zip_params, labels.strings)},
            {0}},
    .params_size = sizeof(zip_params),
    .traits = RLX_PURE,
    .infer = zip_infer,
    .eval = zip_eval,
};

/* ---- CastMap ------------------------------------------------------------------------------ */

typedef struct cast_params {
  uint64_t given;
  int64_t max_map;
  rlx_string form, cast_to;
} cast_params;

static bool is_word(rlx_string s, const char *word) {
  return s.size == strlen(word) && memcmp(s.data, word, s.size) == 0;
}

static rlx_status cast_infer(rlx_infer *ctx) {
  const cast_params *p = rlx_infer_params(ctx);
  bool sparse = is_word(p->form, "SPARSE");
  rlx_dtype to = is_word(p->cast_to, "TO_FLOAT")    ? RLX_FLOAT
                 : is_word(p->cast_to, "TO_STRING") ? RLX_STRING
                 : is_word(p->cast_to, "TO_INT64")  ? RLX_INT64
                                                    : RLX_UNDEFINED;
  if (!sparse && !is_word(p->form, "DENSE")) return rlx_fail(ctx, RLX_INVALID, "map_form is neither DENSE nor SPARSE");
  if (to == RLX_UNDEFINED) return rlx_fail(ctx, RLX_INVALID, "cast_to is none of TO_FLOAT, TO_STRING, TO_INT64");
  if (sparse && p->max_map < 1) return rlx_fail(ctx, RLX_INVALID, "max_map is %lld", (long long)p->max_map);
  RLX_TRY(expect_map(ctx, RLX_SET(RLX_INT64), RLX_SET(RLX_STRING) | RLX_SET(RLX_FLOAT)));
  rlx_infer_output(ctx, 0)->dtype = to;
  rlx_infer_set(ctx, 0, 2, (const int64_t[]){1, sparse ? p->max_map : RLX_UNKNOWN});
  return RLX_OK;
}

/* Text to a number: all of it, or it is an error. */
static rlx_status number_of(rlx_ctx *ctx, rlx_string s, double *out) {
  char text[64], *end;
  if (s.size < sizeof text) {
    if (s.size) memcpy(text, s.data, s.size);
    text[s.size] = 0;
    *out = strtod(text, &end);
    if (s.size && end == text + s.size) return RLX_OK;
  }
  return rlx_fail(ctx, RLX_INVALID, "'%.*s' is no number", (int)(s.size < 40 ? s.size : 40), s.size ? s.data : "");
}

static rlx_status text_of(rlx_ctx *ctx, float value, rlx_string *out) {
  char text[64];
  int size = snprintf(text, sizeof text, "%f", (double)value);
  char *copy = rlx_text(ctx, (size_t)size);
  if (!copy) return RLX_OUT_OF_MEMORY;
  memcpy(copy, text, (size_t)size);
  *out = (rlx_string){copy, (size_t)size};
  return RLX_OK;
}

static rlx_status cast_one(rlx_ctx *ctx, const rlx_tensor *values, int64_t from, int64_t to) {
  rlx_operand *y = &ctx->outputs[0];
  if (values->dtype == RLX_STRING && y->dtype == RLX_STRING)
    return value_copy(ctx, RLX_STRING, (rlx_string *)y->data + to, (const rlx_string *)values->data + from, 1);
  if (y->dtype == RLX_STRING) return text_of(ctx, ((const float *)values->data)[from], (rlx_string *)y->data + to);
  double v = 0;
  if (values->dtype == RLX_STRING)
    RLX_TRY(number_of(ctx, ((const rlx_string *)values->data)[from], &v));
  else
    v = (double)((const float *)values->data)[from];
  dtype_store(y->dtype, y->data, to, v);
  return RLX_OK;
}

typedef struct keyed {
  int64_t key, at;
} keyed;

static int by_key(const void *a, const void *b) {
  const keyed *x = a, *y = b;
  return (x->key > y->key) - (x->key < y->key);
}

static rlx_status cast_dense(rlx_ctx *ctx, const rlx_tensor *keys, const rlx_tensor *values) {
  keyed *order = mem_array((size_t)keys->count, sizeof *order);
  if (!order) return rlx_fail(ctx, RLX_OUT_OF_MEMORY, "out of memory");
  for (int64_t i = 0; i < keys->count; i++) order[i] = (keyed){((const int64_t *)keys->data)[i], i};
  if (keys->count) qsort(order, (size_t)keys->count, sizeof *order, by_key);
  rlx_status status = rlx_output_shape(ctx, 0, 2, (const int64_t[]){1, keys->count}) ? RLX_OK : RLX_KERNEL;
  for (int64_t i = 0; i < keys->count && status == RLX_OK; i++) status = cast_one(ctx, values, order[i].at, i);
  mem_free(order);
  return status;
}

static rlx_status cast_sparse(rlx_ctx *ctx, const rlx_tensor *keys, const rlx_tensor *values) {
  const cast_params *p = ctx->params;
  static const rlx_string nothing = {"", 0};
  rlx_operand *y = &ctx->outputs[0];
  memset(y->data, 0, (size_t)y->bytes);
  for (int64_t i = 0; i < y->count && y->dtype == RLX_STRING; i++) ((rlx_string *)y->data)[i] = nothing;
  for (int64_t i = 0; i < keys->count; i++) {
    int64_t key = ((const int64_t *)keys->data)[i];
    if (key < 0 || key >= p->max_map)
      return rlx_fail(ctx, RLX_INVALID, "key %lld is outside 0..%lld", (long long)key, (long long)p->max_map - 1);
    RLX_TRY(cast_one(ctx, values, i, key));
  }
  return RLX_OK;
}

static rlx_status cast_eval(rlx_ctx *ctx) {
  const cast_params *p = ctx->params;
  const rlx_tensor *map = map_input(ctx);
  if (!map) return RLX_INVALID;
  const rlx_tensor *keys = map->items[0], *values = map->items[1];
  if (keys->dtype != RLX_INT64 || values->kind != RLX_KIND_TENSOR)
    return rlx_fail(ctx, RLX_INVALID, "not a map from int64 to scalars");
  return is_word(p->form, "SPARSE") ? cast_sparse(ctx, keys, values) : cast_dense(ctx, keys, values);
}

static const rlx_op cast = {
    .struct_size = sizeof(rlx_op),
    .name = "ai.onnx.ml.CastMap",
    .version = 1,
    .doc = "The values of a map as a row: in the order of their keys, or each at the position that is its key.",
    .inputs = (const rlx_port[]){{.name = "X", .flags = RLX_ANY_KIND}, {0}},
    .outputs =
        (const rlx_port[]){{.name = "Y", .dtypes = RLX_SET(RLX_STRING) | RLX_SET(RLX_FLOAT) | RLX_SET(RLX_INT64)}, {0}},
    .attrs =
        (const rlx_attr_def[]){
            {.name = "cast_to",
             .kind = RLX_ATTR_STRING,
             .offset = offsetof(cast_params, cast_to),
             .default_string = "TO_FLOAT"},
            {.name = "map_form",
             .kind = RLX_ATTR_STRING,
             .offset = offsetof(cast_params, form),
             .default_string = "DENSE"},
            {.name = "max_map", .kind = RLX_ATTR_INT, .offset = offsetof(cast_params, max_map), .default_int = 1},
            {0}},
    .params_size = sizeof(cast_params),
    .traits = RLX_PURE,
    .infer = cast_infer,
    .eval = cast_eval,
};

/* ---- DictVectorizer ----------------------------------------------------------------------- */

typedef struct dict_params {
  uint64_t given;
  rlx_ints ints;
  rlx_strings strings;
} dict_params;

static rlx_status dict_infer(rlx_infer *ctx) {
  const dict_params *p = rlx_infer_params(ctx);
  if ((p->ints.count > 0) == (p->strings.count > 0))
    return rlx_fail(ctx, RLX_INVALID, "a vocabulary must be given, of integers or of strings");
  RLX_TRY(expect_map(ctx, RLX_SET(p->strings.count ? RLX_STRING : RLX_INT64),
                     RLX_SET(RLX_INT64) | RLX_SET(RLX_FLOAT) | RLX_SET(RLX_DOUBLE) | RLX_SET(RLX_STRING)));
  rlx_infer_output(ctx, 0)->dtype = rlx_infer_input(ctx, 0)->dtype;
  rlx_infer_set(ctx, 0, 2, (const int64_t[]){1, p->strings.count + p->ints.count});
  return RLX_OK;
}

/* A key that the vocabulary does not have is passed over, as what exporters write relies on. */
static rlx_status dict_fill(rlx_ctx *ctx, const rlx_tensor *keys, const rlx_tensor *values, const lookup *table) {
  static const rlx_string nothing = {"", 0};
  rlx_operand *y = &ctx->outputs[0];
  size_t size = dtype_size(y->dtype);
  memset(y->data, 0, (size_t)y->bytes);
  for (int64_t i = 0; i < y->count && y->dtype == RLX_STRING; i++) ((rlx_string *)y->data)[i] = nothing;
  for (int64_t i = 0; i < keys->count; i++) {
    int64_t at = lookup_find(table, keys->data, i);
    if (at < 0) continue;
    RLX_TRY(value_copy(ctx, y->dtype, (char *)y->data + (size_t)at * size,
                       (const char *)values->data + (size_t)i * size, 1));
  }
  return RLX_OK;
}

static rlx_status dict_eval(rlx_ctx *ctx) {
  const dict_params *p = ctx->params;
  const rlx_tensor *map = map_input(ctx);
  if (!map) return RLX_INVALID;
  const rlx_tensor *keys = map->items[0], *values = map->items[1];
  bool text = p->strings.count > 0;
  lookup table;
  if (keys->dtype != (text ? RLX_STRING : RLX_INT64) || values->dtype != ctx->outputs[0].dtype ||
      values->kind != RLX_KIND_TENSOR)
    return rlx_fail(ctx, RLX_INVALID, "the map is not of the vocabulary's type");
  RLX_TRY(lookup_make(ctx, keys->dtype, text ? (const void *)p->strings.data : p->ints.data,
                      text ? p->strings.count : p->ints.count, &table));
  rlx_status status = dict_fill(ctx, keys, values, &table);
  lookup_finish(&table);
  return status;
}

static const rlx_op vectorizer = {
    .struct_size = sizeof(rlx_op),
    .name = "ai.onnx.ml.DictVectorizer",
    .version = 1,
    .doc =
        "A row with the values of a map, each at the position of its key in the vocabulary; zero for other positions.",
    .inputs = (const rlx_port[]){{.name = "X", .flags = RLX_ANY_KIND}, {0}},
    .outputs = (const rlx_port[]){{.name = "Y",
                                   .dtypes = RLX_SET(RLX_INT64) | RLX_SET(RLX_FLOAT) | RLX_SET(RLX_DOUBLE) |
                                             RLX_SET(RLX_STRING)},
                                  {0}},
    .attrs =
        (const rlx_attr_def[]){
            {.name = "int64_vocabulary", .kind = RLX_ATTR_INTS, .offset = offsetof(dict_params, ints)},
            {.name = "string_vocabulary", .kind = RLX_ATTR_STRINGS, .offset = offsetof(dict_params, strings)},
            {0}},
    .params_size = sizeof(dict_params),
    .traits = RLX_PURE,
    .infer = dict_infer,
    .eval = dict_eval,
};

const rlx_module ops_maps = {.ops = (const rlx_op *const[]){&zip, &cast, &vectorizer, NULL}};
