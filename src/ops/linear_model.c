/* linear_model.c — ai.onnx.ml.LinearClassifier and LinearRegressor. */
#include <stddef.h>

#include "base/memory.h"
#include "base/status.h"
#include "ops/_scores.h"

typedef struct linear_params {
  uint64_t given;
  rlx_floats coefficients, intercepts;
  rlx_string post_transform;
  class_labels labels;
  int64_t targets; /* of the regressor */
  int64_t multi_class;
} linear_params;

/* Rows of features by rows of coefficients; a thread takes a range of rows. */
typedef struct linear_job {
  rlx_ctx *ctx;
  const linear_params *params;
  score_transform transform;
  feature_rows size;
  int64_t outputs; /* rows of coefficients */
  int64_t width;   /* scores a row in the output */
  bool classify;
} linear_job;

/* The number of scores that the coefficients give; an error if they do not fit the features. */
static rlx_status outputs_of(const void *ctx, const linear_params *p, int64_t columns, bool classify, int64_t *out) {
  int64_t count = p->coefficients.count;
  int64_t outputs = !classify ? p->targets : columns ? count / columns : p->intercepts.count;
  if (outputs < 1 || outputs > INT32_MAX || columns > INT64_MAX / outputs || outputs * columns != count)
    return rlx_fail(ctx, RLX_INVALID, "%lld coefficients for %lld features", (long long)count, (long long)columns);
  if (p->intercepts.count && p->intercepts.count != outputs)
    return rlx_fail(ctx, RLX_INVALID, "%lld intercepts for %lld scores", (long long)p->intercepts.count,
                    (long long)outputs);
  *out = outputs;
  return RLX_OK;
}

/* One score of two classes stands for both. */
static int64_t width_of(const linear_params *p, int64_t outputs) {
  return outputs == 1 && labels_count(&p->labels) == 2 ? 2 : outputs;
}

static void finish_row(const linear_job *j, int64_t row, double *scores) {
  const linear_params *p = j->params;
  int64_t best;
  if (j->outputs == 1 && j->classify) {
    best = scores[0] > 0;
    if (j->width == 2) {
      double single = scores[0];
      scores[0] = -single;
      scores[1] = single;
    }
  } else {
    best = scores_largest(scores, j->outputs);
  }
  scores_transform(j->transform, scores, j->width);
  rlx_operand *z = &j->ctx->outputs[j->classify ? 1 : 0];
  if (j->classify) labels_store(&p->labels, &j->ctx->outputs[0], row, best);
  for (int64_t k = 0; z->data && k < j->width; k++) ((float *)z->data)[row * j->width + k] = (float)scores[k];
}

static void run_rows(void *arg, int64_t begin, int64_t end) {
  const linear_job *j = arg;
  const linear_params *p = j->params;
  double *features = mem_array((size_t)(j->size.columns + j->outputs + 1), sizeof *features);
  if (!features) {
    (void)rlx_fail(j->ctx, RLX_OUT_OF_MEMORY, "no memory for a row of %lld features", (long long)j->size.columns);
    return;
  }
  double *scores = features + j->size.columns;
  for (int64_t row = begin; row < end; row++) {
    feature_row(&j->ctx->inputs[0], j->size.columns, row, features);
    for (int64_t k = 0; k < j->outputs; k++) {
      const float *w = p->coefficients.data + k * j->size.columns;
      double sum = p->intercepts.count ? (double)p->intercepts.data[k] : 0;
      for (int64_t i = 0; i < j->size.columns; i++) sum += features[i] * (double)w[i];
      scores[k] = sum;
    }
    finish_row(j, row, scores);
  }
  mem_free(features);
}

static rlx_status run(rlx_ctx *ctx, bool classify) {
  linear_job j = {.ctx = ctx, .params = ctx->params, .classify = classify};
  RLX_TRY(score_transform_parse(ctx, j.params->post_transform, &j.transform));
  RLX_TRY(feature_rows_of(ctx, &ctx->inputs[0], &j.size));
  RLX_TRY(outputs_of(ctx, j.params, j.size.columns, classify, &j.outputs));
  j.width = classify ? width_of(j.params, j.outputs) : j.outputs;
  rlx_parallel_for(ctx, j.size.rows, 1 + 20000 / (j.size.columns * j.outputs + 1), run_rows, &j);
  return RLX_OK;
}

static rlx_status infer(rlx_infer *ctx, bool classify) {
  const linear_params *p = rlx_infer_params(ctx);
  const rlx_type *x = rlx_infer_input(ctx, 0);
  score_transform transform;
  int64_t dims[2] = {RLX_UNKNOWN, RLX_UNKNOWN};
  RLX_TRY(score_transform_parse(ctx, p->post_transform, &transform));
  RLX_TRY(labels_check(ctx, &p->labels));
  RLX_TRY(features_infer(ctx, &dims[0]));
  if (x->rank > 0 && x->dims[x->rank - 1] >= 0) {
    RLX_TRY(outputs_of(ctx, p, x->dims[x->rank - 1], classify, &dims[1]));
    if (classify) dims[1] = width_of(p, dims[1]);
  }
  rlx_infer_set(ctx, classify ? 1 : 0, 2, dims);
  if (!classify) return RLX_OK;
  rlx_infer_output(ctx, 0)->dtype = labels_dtype(&p->labels);
  rlx_infer_set(ctx, 0, 1, dims);
  return RLX_OK;
}

static rlx_status classifier_infer(rlx_infer *ctx) { return infer(ctx, true); }
static rlx_status regressor_infer(rlx_infer *ctx) { return infer(ctx, false); }
static rlx_status classifier_eval(rlx_ctx *ctx) { return run(ctx, true); }
static rlx_status regressor_eval(rlx_ctx *ctx) { return run(ctx, false); }

#define AT(member) offsetof(linear_params, member)
#define SHARED                                                                                                \
  {.name = "intercepts", .kind = RLX_ATTR_FLOATS, .offset = AT(intercepts)}, {                                \
    .name = "post_transform", .kind = RLX_ATTR_STRING, .offset = AT(post_transform), .default_string = "NONE" \
  }

static const rlx_op classifier = {
    .struct_size = sizeof(rlx_op),
    .name = "ai.onnx.ml.LinearClassifier",
    .version = 1,
    .doc = "The label of the largest of the scores X coefficients' + intercepts, and the scores.",
    .inputs = (const rlx_port[]){{.name = "X", .dtypes = FEATURE_TYPES}, {0}},
    .outputs =
        (const rlx_port[]){{.name = "Y", .dtypes = LABEL_TYPES}, {.name = "Z", .dtypes = RLX_SET(RLX_FLOAT)}, {0}},
    .attrs =
        (const rlx_attr_def[]){
            {.name = "coefficients", .kind = RLX_ATTR_FLOATS, .flags = RLX_REQUIRED, .offset = AT(coefficients)},
            {.name = "classlabels_ints", .kind = RLX_ATTR_INTS, .offset = AT(labels.ints)},
            {.name = "classlabels_strings", .kind = RLX_ATTR_STRINGS, .offset = AT(labels.strings)},
            {.name = "multi_class", .kind = RLX_ATTR_INT, .offset = AT(multi_class)},
            SHARED,
            {0}},
    .params_size = sizeof(linear_params),
    .traits = RLX_PURE,
    .infer = classifier_infer,
    .eval = classifier_eval,
};

static const rlx_op regressor = {
    .struct_size = sizeof(rlx_op),
    .name = "ai.onnx.ml.LinearRegressor",
    .version = 1,
    .doc = "X coefficients' + intercepts.",
    .inputs = (const rlx_port[]){{.name = "X", .dtypes = FEATURE_TYPES}, {0}},
    .outputs = (const rlx_port[]){{.name = "Y", .dtypes = RLX_SET(RLX_FLOAT)}, {0}},
    .attrs = (const rlx_attr_def[]){{.name = "coefficients", .kind = RLX_ATTR_FLOATS, .offset = AT(coefficients)},
                                    {.name = "targets", .kind = RLX_ATTR_INT, .offset = AT(targets), .default_int = 1},
                                    SHARED,
                                    {0}},
    .params_size = sizeof(linear_params),
    .traits = RLX_PURE,
    .infer = regressor_infer,
    .eval = regressor_eval,
};

const rlx_module ops_linear_model = {.ops = (const rlx_op *const[]){&classifier, &regressor, NULL}};
