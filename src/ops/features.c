/* features.c — ai.onnx.ml's ops on features, the last axis: Binarizer, Scaler, Imputer, Normalizer, FeatureVectorizer,
 * ArrayFeatureExtractor. */
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "base/status.h"
#include "ir/dtype.h"
#include "ir/module.h"
#include "ops/_scores.h"

/* ---- Binarizer ---------------------------------------------------------------------------- */

typedef struct binarizer_params {
  uint64_t given;
  float threshold;
} binarizer_params;

static rlx_status binarizer_eval(rlx_ctx *ctx) {
  const binarizer_params *p = ctx->params;
  const rlx_operand *x = &ctx->inputs[0];
  for (int64_t i = 0; i < x->count; i++)
    dtype_store(x->dtype, ctx->outputs[0].data, i, dtype_load(x->dtype, x->data, i) > (double)p->threshold);
  return RLX_OK;
}

static const rlx_op binarizer = {
    .struct_size = sizeof(rlx_op),
    .name = "ai.onnx.ml.Binarizer",
    .version = 1,
    .doc = "1 where an element is greater than the threshold, else 0.",
    .inputs = (const rlx_port[]){{.name = "X", .variable = "T", .dtypes = FEATURE_TYPES}, {0}},
    .outputs = (const rlx_port[]){{.name = "Y", .variable = "T", .dtypes = FEATURE_TYPES}, {0}},
    .attrs =
        (const rlx_attr_def[]){
            {.name = "threshold", .kind = RLX_ATTR_FLOAT, .offset = offsetof(binarizer_params, threshold)}, {0}},
    .params_size = sizeof(binarizer_params),
    .traits = RLX_PURE,
    .eval = binarizer_eval,
};

/* ---- Scaler, Imputer: one value, or one a feature ----------------------------------------- */

/* A list has one entry, or one a feature. */
static rlx_status check_list(rlx_infer *ctx, const char *name, int64_t count) {
  const rlx_type *x = rlx_infer_input(ctx, 0);
  if (count <= 1 || x->rank < 0) return RLX_OK;
  if (x->rank == 0 || (x->dims[x->rank - 1] >= 0 && x->dims[x->rank - 1] != count))
    return rlx_fail(ctx, RLX_INVALID, "%s has %lld entries, X %lld features", name, (long long)count,
                    (long long)(x->rank ? x->dims[x->rank - 1] : 1));
  return RLX_OK;
}

static float list_entry(const rlx_floats *list, int64_t feature, float otherwise) {
  return list->count ? list->data[list->count > 1 ? feature : 0] : otherwise;
}

typedef struct scaler_params {
  uint64_t given;
  rlx_floats offset, scale;
} scaler_params;

static rlx_status scaler_infer(rlx_infer *ctx) {
  const scaler_params *p = rlx_infer_params(ctx);
  RLX_TRY(check_list(ctx, "offset", p->offset.count));
  RLX_TRY(check_list(ctx, "scale", p->scale.count));
  rlx_infer_like(ctx, 0, 0);
  rlx_infer_output(ctx, 0)->dtype = RLX_FLOAT;
  return RLX_OK;
}

static rlx_status scaler_eval(rlx_ctx *ctx) {
  const scaler_params *p = ctx->params;
  const rlx_operand *x = &ctx->inputs[0];
  int64_t features = x->rank ? x->dims[x->rank - 1] : 1;
  for (int64_t i = 0; i < x->count; i++) {
    double v = dtype_load(x->dtype, x->data, i) - (double)list_entry(&p->offset, i % features, 0);
    if (x->dtype != RLX_DOUBLE) v = (double)(float)v;
    ((float *)ctx->outputs[0].data)[i] = (float)(v * (double)list_entry(&p->scale, i % features, 1));
  }
  return RLX_OK;
}

static const rlx_op scaler = {
    .struct_size = sizeof(rlx_op),
    .name = "ai.onnx.ml.Scaler",
    .version = 1,
    .doc = "(X - offset) * scale.",
    .inputs = (const rlx_port[]){{.name = "X", .dtypes = FEATURE_TYPES}, {0}},
    .outputs = (const rlx_port[]){{.name = "Y", .dtypes = RLX_SET(RLX_FLOAT)}, {0}},
    .attrs =
        (const rlx_attr_def[]){{.name = "offset", .kind = RLX_ATTR_FLOATS, .offset = offsetof(scaler_params, offset)},
                               {.name = "scale", .kind = RLX_ATTR_FLOATS, .offset = offsetof(scaler_params, scale)},
                               {0}},
    .params_size = sizeof(scaler_params),
    .traits = RLX_PURE,
    .infer = scaler_infer,
    .eval = scaler_eval,
};

typedef struct imputer_params {
  uint64_t given;
  rlx_floats floats;
  rlx_ints ints;
  float replaced_float;
  int64_t replaced_int;
} imputer_params;

static rlx_status imputer_infer(rlx_infer *ctx) {
  const imputer_params *p = rlx_infer_params(ctx);
  const rlx_type *x = rlx_infer_input(ctx, 0);
  rlx_infer_like(ctx, 0, 0);
  if (x->dtype == RLX_UNDEFINED) return RLX_OK;
  bool floats = dtype_is_float(x->dtype);
  if (floats ? !p->floats.count : !p->ints.count)
    return rlx_fail(ctx, RLX_INVALID, "X is %s and imputed_value_%s is empty", rlx_dtype_name(x->dtype),
                    floats ? "floats" : "int64s");
  return check_list(ctx, "imputed_value", floats ? p->floats.count : p->ints.count);
}

static rlx_status imputer_eval(rlx_ctx *ctx) {
  const imputer_params *p = ctx->params;
  const rlx_operand *x = &ctx->inputs[0];
  void *y = ctx->outputs[0].data;
  bool floats = dtype_is_float(x->dtype), nan = isnan(p->replaced_float);
  int64_t features = x->rank ? x->dims[x->rank - 1] : 1;
  if (x->bytes) memcpy(y, x->data, (size_t)x->bytes);
  for (int64_t i = 0; i < x->count; i++) {
    if (!floats) {
      if (dtype_load_int(x->dtype, x->data, i) == p->replaced_int)
        dtype_store_int(x->dtype, y, i, p->ints.data[p->ints.count > 1 ? i % features : 0]);
      continue;
    }
    double v = dtype_load(x->dtype, x->data, i);
    if (nan ? isnan(v) : v == (double)p->replaced_float)
      dtype_store(x->dtype, y, i, (double)list_entry(&p->floats, i % features, 0));
  }
  return RLX_OK;
}

#define IN_IMPUTER(member) offsetof(imputer_params, member)
static const rlx_op imputer = {
    .struct_size = sizeof(rlx_op),
    .name = "ai.onnx.ml.Imputer",
    .version = 1,
    .doc = "Puts a value in the place of another, which may be NaN; one for all features, or one each.",
    .inputs = (const rlx_port[]){{.name = "X", .variable = "T", .dtypes = FEATURE_TYPES}, {0}},
    .outputs = (const rlx_port[]){{.name = "Y", .variable = "T", .dtypes = FEATURE_TYPES}, {0}},
    .attrs =
        (const rlx_attr_def[]){
            {.name = "imputed_value_floats", .kind = RLX_ATTR_FLOATS, .offset = IN_IMPUTER(floats)},
            {.name = "imputed_value_int64s", .kind = RLX_ATTR_INTS, .offset = IN_IMPUTER(ints)},
            {.name = "replaced_value_float", .kind = RLX_ATTR_FLOAT, .offset = IN_IMPUTER(replaced_float)},
            {.name = "replaced_value_int64", .kind = RLX_ATTR_INT, .offset = IN_IMPUTER(replaced_int)},
            {0}},
    .params_size = sizeof(imputer_params),
    .traits = RLX_PURE,
    .infer = imputer_infer,
    .eval = imputer_eval,
};

/* ---- Normalizer --------------------------------------------------------------------------- */

typedef struct normalizer_params {
  uint64_t given;
  rlx_string norm;
} normalizer_params;

static bool is_word(rlx_string s, const char *word) {
  return s.size == strlen(word) && memcmp(s.data, word, s.size) == 0;
}

static rlx_status normalizer_infer(rlx_infer *ctx) {
  const normalizer_params *p = rlx_infer_params(ctx);
  int64_t rows;
  if (!is_word(p->norm, "MAX") && !is_word(p->norm, "L1") && !is_word(p->norm, "L2"))
    return rlx_fail(ctx, RLX_INVALID, "norm '%.*s'", (int)(p->norm.size < 40 ? p->norm.size : 40), p->norm.data);
  RLX_TRY(features_infer(ctx, &rows));
  rlx_infer_like(ctx, 0, 0);
  rlx_infer_output(ctx, 0)->dtype = RLX_FLOAT;
  return RLX_OK;
}

/* MAX divides by the largest element, as ONNX's formula has it, the other norms by those of absolute values. */
static double norm_of(const rlx_operand *x, rlx_string norm, int64_t first, int64_t count) {
  bool largest = is_word(norm, "MAX"), squares = is_word(norm, "L2");
  double sum = largest ? -INFINITY : 0;
  for (int64_t i = 0; i < count; i++) {
    double v = dtype_load(x->dtype, x->data, first + i);
    if (largest)
      sum = v > sum ? v : sum;
    else
      sum += squares ? v * v : fabs(v);
  }
  return squares ? sqrt(sum) : sum;
}

static rlx_status normalizer_eval(rlx_ctx *ctx) {
  const normalizer_params *p = ctx->params;
  const rlx_operand *x = &ctx->inputs[0];
  feature_rows f;
  RLX_TRY(feature_rows_of(ctx, x, &f));
  for (int64_t row = 0; row < f.rows; row++) {
    double norm = norm_of(x, p->norm, row * f.columns, f.columns);
    for (int64_t i = row * f.columns; i < (row + 1) * f.columns; i++) {
      double v = dtype_load(x->dtype, x->data, i);
      ((float *)ctx->outputs[0].data)[i] = (float)(norm != 0 ? v / norm : v);
    }
  }
  return RLX_OK;
}

static const rlx_op normalizer = {
    .struct_size = sizeof(rlx_op),
    .name = "ai.onnx.ml.Normalizer",
    .version = 1,
    .doc = "Divides each row by its largest element, or the sum or the root of the sum of squares of its elements.",
    .inputs = (const rlx_port[]){{.name = "X", .dtypes = FEATURE_TYPES}, {0}},
    .outputs = (const rlx_port[]){{.name = "Y", .dtypes = RLX_SET(RLX_FLOAT)}, {0}},
    .attrs = (const rlx_attr_def[]){{.name = "norm",
                                     .kind = RLX_ATTR_STRING,
                                     .offset = offsetof(normalizer_params, norm),
                                     .default_string = "MAX"},
                                    {0}},
    .params_size = sizeof(normalizer_params),
    .traits = RLX_PURE,
    .infer = normalizer_infer,
    .eval = normalizer_eval,
};

/* ---- FeatureVectorizer -------------------------------------------------------------------- */

typedef struct vectorizer_params {
  uint64_t given;
  rlx_ints sizes;
} vectorizer_params;

/* Columns that input i takes in the output: as many as are said, else as many as it has. */
static int64_t columns_of(const rlx_ints *sizes, int i, int rank, const int64_t *dims) {
  if (i < sizes->count) return sizes->data[i];
  return rank > 0 ? dims[rank - 1] : RLX_UNKNOWN;
}

static rlx_status vectorizer_infer(rlx_infer *ctx) {
  const vectorizer_params *p = rlx_infer_params(ctx);
  int64_t dims[2] = {RLX_UNKNOWN, 0};
  if (p->sizes.count && p->sizes.count != rlx_infer_input_count(ctx))
    return rlx_fail(ctx, RLX_INVALID, "inputdimensions has %lld entries for %d inputs", (long long)p->sizes.count,
                    rlx_infer_input_count(ctx));
  for (int i = 0; i < rlx_infer_input_count(ctx); i++) {
    const rlx_type *x = rlx_infer_input(ctx, i);
    if (x->rank == 0 || x->rank > 2) return rlx_fail(ctx, RLX_INVALID, "input %d has rank %d, not 1 or 2", i, x->rank);
    int64_t columns = columns_of(&p->sizes, i, x->rank, x->dims);
    if (i < p->sizes.count && columns < 0) return rlx_fail(ctx, RLX_INVALID, "a size of %lld", (long long)columns);
    if (columns < 0 || dims[1] < 0)
      dims[1] = RLX_UNKNOWN;
    else if (__builtin_add_overflow(dims[1], columns, &dims[1]))
      return rlx_fail(ctx, RLX_INVALID, "the sizes overflow");
    int64_t rows = x->rank < 0 ? RLX_UNKNOWN : x->rank == 1 ? 1 : x->dims[0];
    if (rows >= 0 && dims[0] >= 0 && rows != dims[0])
      return rlx_fail(ctx, RLX_INVALID, "inputs of %lld and %lld rows", (long long)dims[0], (long long)rows);
    if (rows >= 0) dims[0] = rows;
  }
  rlx_infer_set(ctx, 0, 2, dims);
  return RLX_OK;
}

static rlx_status vectorizer_eval(rlx_ctx *ctx) {
  const vectorizer_params *p = ctx->params;
  const rlx_operand *y = &ctx->outputs[0];
  int64_t at = 0, width = y->dims[1];
  if (y->bytes) memset(y->data, 0, (size_t)y->bytes);
  for (int i = 0; i < ctx->input_count; i++) {
    const rlx_operand *x = &ctx->inputs[i];
    int64_t has = x->dims[x->rank - 1], takes = columns_of(&p->sizes, i, x->rank, x->dims);
    for (int64_t row = 0; row < y->dims[0]; row++)
      for (int64_t c = 0; c < takes && c < has; c++)
        ((float *)y->data)[row * width + at + c] = (float)dtype_load(x->dtype, x->data, row * has + c);
    at += takes;
  }
  return RLX_OK;
}

static const rlx_op vectorizer = {
    .struct_size = sizeof(rlx_op),
    .name = "ai.onnx.ml.FeatureVectorizer",
    .version = 1,
    .doc = "The inputs side by side as floats; each cut or filled up with zeros to its size.",
    .inputs =
        (const rlx_port[]){
            {.name = "X", .variable = "T1", .dtypes = FEATURE_TYPES, .flags = RLX_VARIADIC, .min_count = 1}, {0}},
    .outputs = (const rlx_port[]){{.name = "Y", .dtypes = RLX_SET(RLX_FLOAT)}, {0}},
    .attrs =
        (const rlx_attr_def[]){
            {.name = "inputdimensions", .kind = RLX_ATTR_INTS, .offset = offsetof(vectorizer_params, sizes)}, {0}},
    .params_size = sizeof(vectorizer_params),
    .traits = RLX_PURE,
    .infer = vectorizer_infer,
    .eval = vectorizer_eval,
};

/* ---- ArrayFeatureExtractor ---------------------------------------------------------------- */

/* A vector counts as a row: the output has rank 2 then. */
static rlx_status extractor_infer(rlx_infer *ctx) {
  const rlx_type *x = rlx_infer_input(ctx, 0), *y = rlx_infer_input(ctx, 1);
  int64_t dims[RLX_MAX_RANK] = {1}, count = y->rank < 0 ? RLX_UNKNOWN : 1;
  if (x->rank == 0) return rlx_fail(ctx, RLX_INVALID, "X is a scalar");
  for (int d = 0; d < y->rank; d++)
    count = count < 0 || y->dims[d] < 0 || __builtin_mul_overflow(count, y->dims[d], &count) ? RLX_UNKNOWN : count;
  if (x->rank < 0) return RLX_OK;
  if (x->rank > 1) memcpy(dims, x->dims, (size_t)x->rank * sizeof *dims);
  int rank = x->rank > 1 ? x->rank : 2;
  dims[rank - 1] = count;
  rlx_infer_set(ctx, 0, rank, dims);
  return RLX_OK;
}

static rlx_status extractor_eval(rlx_ctx *ctx) {
  const rlx_operand *x = &ctx->inputs[0], *y = &ctx->inputs[1];
  const int64_t *at = y->data;
  size_t size = dtype_size(x->dtype);
  int64_t width = x->dims[x->rank - 1], rows = width ? x->count / width : 0;
  for (int64_t i = 0; i < y->count; i++)
    if (at[i] < 0 || at[i] >= width)
      return rlx_fail(ctx, RLX_INVALID, "index %lld of %lld features", (long long)at[i], (long long)width);
  for (int64_t row = 0; row < rows; row++)
    for (int64_t i = 0; i < y->count; i++)
      memcpy((char *)ctx->outputs[0].data + (size_t)(row * y->count + i) * size,
             (const char *)x->data + (size_t)(row * width + at[i]) * size, size);
  return RLX_OK;
}

#define EXTRACTED (FEATURE_TYPES | RLX_SET(RLX_STRING))
static const rlx_op extractor = {
    .struct_size = sizeof(rlx_op),
    .name = "ai.onnx.ml.ArrayFeatureExtractor",
    .version = 1,
    .doc = "The features at the given positions of the last axis.",
    .inputs = (const rlx_port[]){{.name = "X", .variable = "T", .dtypes = EXTRACTED},
                                 {.name = "Y", .dtypes = RLX_SET(RLX_INT64)},
                                 {0}},
    .outputs = (const rlx_port[]){{.name = "Z", .variable = "T", .dtypes = EXTRACTED}, {0}},
    .traits = RLX_PURE,
    .infer = extractor_infer,
    .eval = extractor_eval,
};

const rlx_module ops_features = {
    .ops = (const rlx_op *const[]){&binarizer, &scaler, &imputer, &normalizer, &vectorizer, &extractor, NULL}};
