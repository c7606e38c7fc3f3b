/* svm.c — ai.onnx.ml.SVMClassifier and SVMRegressor: kernels of a row with support vectors, as LIBSVM has them. */
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "ops/_scores.h"

typedef enum svm_kernel { KERNEL_LINEAR, KERNEL_POLY, KERNEL_RBF, KERNEL_SIGMOID } svm_kernel;

typedef struct svm_params {
  uint64_t given;
  rlx_floats coefficients, rho, support_vectors, kernel_params, prob_a, prob_b;
  rlx_ints vectors_per_class;
  rlx_string kernel_type, post_transform;
  class_labels labels;
  int64_t n_supports, one_class; /* of the regressor */
} svm_params;

/* What is derived from the attributes and the number of features. */
typedef struct svm {
  rlx_ctx *ctx;
  const svm_params *params;
  score_transform transform;
  svm_kernel kernel;
  double gamma, coef0, degree;
  feature_rows size;
  int64_t vectors; /* support vectors; 0: a linear model, one row of coefficients a class */
  int64_t classes;
  int64_t width;      /* scores a row in the output */
  int64_t raw;        /* scores before probabilities and the transform */
  bool probabilities; /* Platt's, by pairs of classes */
  rlx_status (*row)(const struct svm *s, int64_t row, double *work);
  int64_t work; /* doubles that `row` needs beside the features */
} svm;

static rlx_status parse_kernel(const void *ctx, rlx_string word, svm_kernel *out) {
  static const char *const words[] = {"LINEAR", "POLY", "RBF", "SIGMOID"};
  for (int i = 0; i < 4; i++)
    if (word.size == strlen(words[i]) && memcmp(word.data, words[i], word.size) == 0) {
      *out = (svm_kernel)i;
      return RLX_OK;
    }
  return rlx_fail(ctx, RLX_INVALID, "kernel_type '%.*s'", (int)(word.size < 40 ? word.size : 40), word.data);
}

static double kernel(const svm *s, svm_kernel k, const double *x, const float *v) {
  double sum = 0;
  if (k == KERNEL_RBF) {
    for (int64_t i = 0; i < s->size.columns; i++) {
      double d = x[i] - (double)v[i];
      sum += d * d;
    }
    return exp(-s->gamma * sum);
  }
  for (int64_t i = 0; i < s->size.columns; i++) sum += x[i] * (double)v[i];
  if (k == KERNEL_LINEAR) return sum;
  sum = sum * s->gamma + s->coef0;
  return k == KERNEL_POLY ? pow(sum, s->degree) : tanh(sum);
}

/* ---- checks, the same for inference and for a run ----------------------------------------- */

static rlx_status read_common(const void *ctx, svm *s) {
  const svm_params *p = s->params;
  RLX_TRY(score_transform_parse(ctx, p->post_transform, &s->transform));
  RLX_TRY(parse_kernel(ctx, p->kernel_type, &s->kernel));
  if (p->kernel_params.count && p->kernel_params.count != 3)
    return rlx_fail(ctx, RLX_INVALID, "kernel_params has %lld entries, not 3", (long long)p->kernel_params.count);
  if (p->kernel_params.count) {
    s->gamma = (double)p->kernel_params.data[0];
    s->coef0 = (double)p->kernel_params.data[1];
    s->degree = (double)p->kernel_params.data[2];
  }
  if (!p->rho.count) return rlx_fail(ctx, RLX_INVALID, "rho is empty");
  return RLX_OK;
}

static rlx_status wrong_count(const void *ctx, const char *name, int64_t is, int64_t wanted) {
  return rlx_fail(ctx, RLX_INVALID, "%s has %lld entries, not %lld", name, (long long)is, (long long)wanted);
}

static int64_t product(int64_t a, int64_t b) {
  int64_t n;
  return __builtin_mul_overflow(a, b, &n) ? -1 : n;
}

static rlx_status read_classes(const void *ctx, svm *s) {
  const svm_params *p = s->params;
  int64_t labels = labels_count(&p->labels);
  s->classes = labels ? labels : 1;
  s->vectors = 0;
  for (int64_t i = 0; i < p->vectors_per_class.count; i++)
    if (p->vectors_per_class.data[i] < 0 ||
        __builtin_add_overflow(s->vectors, p->vectors_per_class.data[i], &s->vectors))
      return rlx_fail(ctx, RLX_INVALID, "vectors_per_class[%lld] is %lld", (long long)i,
                      (long long)p->vectors_per_class.data[i]);
  if (s->vectors && p->vectors_per_class.count != s->classes)
    return wrong_count(ctx, "vectors_per_class", p->vectors_per_class.count, s->classes);
  if (s->classes > 65536) return rlx_fail(ctx, RLX_UNSUPPORTED, "%lld classes", (long long)s->classes);
  return RLX_OK;
}

static rlx_status read_classifier(const void *ctx, svm *s) {
  const svm_params *p = s->params;
  RLX_TRY(read_common(ctx, s));
  RLX_TRY(labels_check(ctx, &p->labels));
  RLX_TRY(read_classes(ctx, s));
  int64_t pairs = s->classes * (s->classes - 1) / 2;
  if (s->vectors && p->rho.count < pairs) return wrong_count(ctx, "rho", p->rho.count, pairs);
  if (s->vectors && s->classes < 2) return rlx_fail(ctx, RLX_INVALID, "support vectors, but fewer than two classes");
  s->raw = s->vectors ? pairs : s->classes;
  s->probabilities = p->prob_a.count > 0 && s->vectors;
  if (p->prob_a.count != p->prob_b.count || (s->probabilities && p->prob_a.count < pairs))
    return wrong_count(ctx, "prob_a", p->prob_a.count, pairs);
  int64_t scores = s->probabilities ? s->classes : s->raw;
  s->width = scores == 1 && p->rho.count == 1 && labels_count(&p->labels) == 2 ? 2 : scores;
  return RLX_OK;
}

/* The sizes that depend on the number of features. */
static rlx_status check_classifier(const void *ctx, const svm *s, int64_t columns) {
  const svm_params *p = s->params;
  int64_t coefficients = s->vectors ? product(s->classes - 1, s->vectors) : product(s->classes, columns);
  if (p->coefficients.count != coefficients)
    return wrong_count(ctx, "coefficients", p->coefficients.count, coefficients);
  if (s->vectors && p->support_vectors.count != product(s->vectors, columns))
    return wrong_count(ctx, "support_vectors", p->support_vectors.count, product(s->vectors, columns));
  return RLX_OK;
}

static rlx_status read_regressor(const void *ctx, svm *s) {
  const svm_params *p = s->params;
  RLX_TRY(read_common(ctx, s));
  if (p->n_supports < 0) return rlx_fail(ctx, RLX_INVALID, "n_supports is %lld", (long long)p->n_supports);
  s->vectors = p->n_supports;
  return RLX_OK;
}

static rlx_status check_regressor(const void *ctx, const svm *s, int64_t columns) {
  const svm_params *p = s->params;
  int64_t coefficients = s->vectors ? s->vectors : columns;
  if (p->coefficients.count != coefficients)
    return wrong_count(ctx, "coefficients", p->coefficients.count, coefficients);
  if (s->vectors && p->support_vectors.count != product(s->vectors, columns))
    return wrong_count(ctx, "support_vectors", p->support_vectors.count, product(s->vectors, columns));
  return RLX_OK;
}

/* ---- probabilities from pairs of classes -------------------------------------------------- */

/* The probabilities p that fit those of the pairs best: the second method of Wu, Lin and Weng, "Probability estimates
 * for multi-class classification by pairwise coupling" (2004), with LIBSVM's stopping rule. pair, q: [k,k]; qp: [k]. */
static void couple(const double *pair, int64_t k, double *q, double *qp, double *p) {
  for (int64_t t = 0; t < k; t++) {
    p[t] = 1 / (double)k;
    q[t * k + t] = 0;
    for (int64_t j = 0; j < k; j++) {
      if (j == t) continue;
      q[t * k + t] += pair[j * k + t] * pair[j * k + t];
      q[t * k + j] = -pair[j * k + t] * pair[t * k + j];
    }
  }
  for (int64_t iteration = 0; iteration < (k > 100 ? k : 100); iteration++) {
    double whole = 0, error = 0;
    for (int64_t t = 0; t < k; t++) {
      qp[t] = 0;
      for (int64_t j = 0; j < k; j++) qp[t] += q[t * k + j] * p[j];
      whole += p[t] * qp[t];
    }
    for (int64_t t = 0; t < k; t++) error = fmax(error, fabs(qp[t] - whole));
    if (error < 0.005 / (double)k) break;
    for (int64_t t = 0; t < k; t++) {
      double diff = (whole - qp[t]) / q[t * k + t];
      p[t] += diff;
      whole = (whole + diff * (diff * q[t * k + t] + 2 * qp[t])) / ((1 + diff) * (1 + diff));
      for (int64_t j = 0; j < k; j++) {
        qp[j] = (qp[j] + diff * q[t * k + j]) / (1 + diff);
        p[j] /= 1 + diff;
      }
    }
  }
}

/* scores: one a pair. work: 2 k k + k doubles. */
static void pair_probabilities(const svm *s, const double *scores, double *p, double *work) {
  int64_t k = s->classes, at = 0;
  double *pair = work, *q = pair + k * k, *qp = q + k * k;
  for (int64_t i = 0; i < k; i++)
    for (int64_t j = i + 1; j < k; j++, at++) {
      double v = scores[at] * (double)s->params->prob_a.data[at] + (double)s->params->prob_b.data[at];
      v = v >= 0 ? exp(-v) / (1 + exp(-v)) : 1 / (1 + exp(v));
      v = fmin(fmax(v, 1e-7), 1 - 1e-7);
      pair[i * k + j] = v;
      pair[j * k + i] = 1 - v;
    }
  couple(pair, k, q, qp, p);
}

/* ---- classifier --------------------------------------------------------------------------- */

/* The score of every pair of classes, and a vote for the winner of each. */
static void score_pairs(const svm *s, const double *kernels, double *scores, double *votes) {
  const svm_params *p = s->params;
  const int64_t *per = p->vectors_per_class.data;
  int64_t at = 0, first_i = 0;
  for (int64_t i = 0; i < s->classes; first_i += per[i], i++) {
    int64_t first_j = first_i + per[i];
    for (int64_t j = i + 1; j < s->classes; first_j += per[j], j++, at++) {
      double sum = (double)p->rho.data[at];
      const float *of_j = p->coefficients.data + (j - 1) * s->vectors, *of_i = p->coefficients.data + i * s->vectors;
      for (int64_t v = first_i; v < first_i + per[i]; v++) sum += (double)of_j[v] * kernels[v];
      for (int64_t v = first_j; v < first_j + per[j]; v++) sum += (double)of_i[v] * kernels[v];
      scores[at] = sum;
      votes[sum > 0 ? i : j] += 1;
    }
  }
}

/* The position of the label. With one rho and one class labels are 1 and 0. */
static int64_t pick_label(const svm *s, const double *by, int64_t count) {
  int64_t best = scores_largest(by, count), labels = labels_count(&s->params->labels);
  return s->params->rho.count == 1 && labels != 2 ? by[best] > 0 : best;
}

static rlx_status classify_row(const svm *s, int64_t row, double *work) {
  const svm_params *p = s->params;
  double *features = work, *scores = features + s->size.columns, *final = scores + s->raw;
  double *votes = final + s->classes + 2, *rest = votes + s->classes;
  feature_row(&s->ctx->inputs[0], s->size.columns, row, features);
  if (s->vectors) {
    double *kernels = rest;
    for (int64_t v = 0; v < s->vectors; v++)
      kernels[v] = kernel(s, s->kernel, features, p->support_vectors.data + v * s->size.columns);
    memset(votes, 0, (size_t)s->classes * sizeof *votes);
    score_pairs(s, kernels, scores, votes);
  } else {
    for (int64_t k = 0; k < s->classes; k++)
      scores[k] =
          (double)p->rho.data[0] + kernel(s, KERNEL_LINEAR, features, p->coefficients.data + k * s->size.columns);
  }
  int64_t count = s->raw;
  double *result = scores;
  if (s->probabilities) {
    pair_probabilities(s, scores, final, rest + s->vectors);
    result = final;
    count = s->classes;
  }
  int64_t label = s->vectors ? pick_label(s, votes, s->classes) : pick_label(s, result, count);
  labels_store(&p->labels, &s->ctx->outputs[0], row, label);
  if (s->width == 2 && count == 1) {
    double single = result[0];
    result = final;
    scores_from_one(s->transform, false, single, result);
  } else {
    scores_transform(s->transform, result, count);
  }
  float *z = s->ctx->outputs[1].data;
  for (int64_t k = 0; z && k < s->width; k++) z[row * s->width + k] = (float)result[k];
  return RLX_OK;
}

static rlx_status regress_row(const svm *s, int64_t row, double *work) {
  const svm_params *p = s->params;
  double sum = (double)p->rho.data[0];
  feature_row(&s->ctx->inputs[0], s->size.columns, row, work);
  for (int64_t v = 0; v < s->vectors; v++)
    sum += (double)p->coefficients.data[v] * kernel(s, s->kernel, work, p->support_vectors.data + v * s->size.columns);
  if (!s->vectors) sum += kernel(s, KERNEL_LINEAR, work, p->coefficients.data);
  if (p->one_class)
    sum = sum > 0 ? 1 : -1;
  else
    scores_transform(s->transform, &sum, 1);
  ((float *)s->ctx->outputs[0].data)[row] = (float)sum;
  return RLX_OK;
}

static void run_rows(void *arg, int64_t begin, int64_t end) {
  const svm *s = arg;
  double *work = mem_array((size_t)(s->size.columns + s->work), sizeof *work);
  if (!work) (void)rlx_fail(s->ctx, RLX_OUT_OF_MEMORY, "no memory for the scores of a row");
  for (int64_t row = begin; work && row < end; row++)
    if (s->row(s, row, work) != RLX_OK) break;
  mem_free(work);
}

static rlx_status run(svm *s) {
  int64_t cost = (s->vectors ? s->vectors : s->classes) * (s->size.columns + 16);
  rlx_parallel_for(s->ctx, s->size.rows, 1 + 20000 / (cost + 1), run_rows, s);
  return RLX_OK;
}

static rlx_status classifier_eval(rlx_ctx *ctx) {
  svm s = {.ctx = ctx, .params = ctx->params, .row = classify_row};
  RLX_TRY(feature_rows_of(ctx, &ctx->inputs[0], &s.size));
  RLX_TRY(read_classifier(ctx, &s));
  RLX_TRY(check_classifier(ctx, &s, s.size.columns));
  int64_t matrices = s.probabilities ? 2 * s.classes * s.classes + s.classes : 0;
  s.work = s.raw + 2 * s.classes + 2 + s.vectors + matrices;
  return run(&s);
}

static rlx_status regressor_eval(rlx_ctx *ctx) {
  svm s = {.ctx = ctx, .params = ctx->params, .row = regress_row};
  RLX_TRY(feature_rows_of(ctx, &ctx->inputs[0], &s.size));
  RLX_TRY(read_regressor(ctx, &s));
  RLX_TRY(check_regressor(ctx, &s, s.size.columns));
  return run(&s);
}

static rlx_status classifier_infer(rlx_infer *ctx) {
  svm s = {.params = rlx_infer_params(ctx)};
  const rlx_type *x = rlx_infer_input(ctx, 0);
  int64_t dims[2];
  RLX_TRY(features_infer(ctx, &dims[0]));
  RLX_TRY(read_classifier(ctx, &s));
  if (x->rank > 0 && x->dims[x->rank - 1] >= 0) RLX_TRY(check_classifier(ctx, &s, x->dims[x->rank - 1]));
  dims[1] = s.width;
  rlx_infer_output(ctx, 0)->dtype = labels_dtype(&s.params->labels);
  rlx_infer_set(ctx, 0, 1, dims);
  rlx_infer_set(ctx, 1, 2, dims);
  return RLX_OK;
}

static rlx_status regressor_infer(rlx_infer *ctx) {
  svm s = {.params = rlx_infer_params(ctx)};
  const rlx_type *x = rlx_infer_input(ctx, 0);
  int64_t dims[2] = {RLX_UNKNOWN, 1};
  RLX_TRY(features_infer(ctx, &dims[0]));
  RLX_TRY(read_regressor(ctx, &s));
  if (x->rank > 0 && x->dims[x->rank - 1] >= 0) RLX_TRY(check_regressor(ctx, &s, x->dims[x->rank - 1]));
  rlx_infer_set(ctx, 0, 2, dims);
  return RLX_OK;
}

#define AT(member) offsetof(svm_params, member)
#define SHARED                                                                                                      \
  {.name = "coefficients", .kind = RLX_ATTR_FLOATS, .offset = AT(coefficients)},                                    \
      {.name = "rho", .kind = RLX_ATTR_FLOATS, .offset = AT(rho)},                                                  \
      {.name = "support_vectors", .kind = RLX_ATTR_FLOATS, .offset = AT(support_vectors)},                          \
      {.name = "kernel_params", .kind = RLX_ATTR_FLOATS, .offset = AT(kernel_params)},                              \
      {.name = "kernel_type", .kind = RLX_ATTR_STRING, .offset = AT(kernel_type), .default_string = "LINEAR"}, {    \
    .name = "post_transform", .kind = RLX_ATTR_STRING, .offset = AT(post_transform), .default_string = "NONE"       \
  }

static const rlx_op classifier = {
    .struct_size = sizeof(rlx_op),
    .name = "ai.onnx.ml.SVMClassifier",
    .version = 1,
    .doc = "The label of each row by a vote of support vector machines between pairs of classes, and their scores, or "
           "probabilities by pairwise coupling.",
    .inputs = (const rlx_port[]){{.name = "X", .dtypes = FEATURE_TYPES}, {0}},
    .outputs =
        (const rlx_port[]){{.name = "Y", .dtypes = LABEL_TYPES}, {.name = "Z", .dtypes = RLX_SET(RLX_FLOAT)}, {0}},
    .attrs =
        (const rlx_attr_def[]){SHARED,
                               {.name = "prob_a", .kind = RLX_ATTR_FLOATS, .offset = AT(prob_a)},
                               {.name = "prob_b", .kind = RLX_ATTR_FLOATS, .offset = AT(prob_b)},
                               {.name = "vectors_per_class", .kind = RLX_ATTR_INTS, .offset = AT(vectors_per_class)},
                               {.name = "classlabels_ints", .kind = RLX_ATTR_INTS, .offset = AT(labels.ints)},
                               {.name = "classlabels_strings", .kind = RLX_ATTR_STRINGS, .offset = AT(labels.strings)},
                               {0}},
    .params_size = sizeof(svm_params),
    .traits = RLX_PURE,
    .infer = classifier_infer,
    .eval = classifier_eval,
};

static const rlx_op regressor = {
    .struct_size = sizeof(rlx_op),
    .name = "ai.onnx.ml.SVMRegressor",
    .version = 1,
    .doc = "The weighted sum of a row's kernels with the support vectors; its sign if one_class.",
    .inputs = (const rlx_port[]){{.name = "X", .dtypes = FEATURE_TYPES}, {0}},
    .outputs = (const rlx_port[]){{.name = "Y", .dtypes = RLX_SET(RLX_FLOAT)}, {0}},
    .attrs = (const rlx_attr_def[]){SHARED,
                                    {.name = "n_supports", .kind = RLX_ATTR_INT, .offset = AT(n_supports)},
                                    {.name = "one_class", .kind = RLX_ATTR_INT, .offset = AT(one_class)},
                                    {0}},
    .params_size = sizeof(svm_params),
    .traits = RLX_PURE,
    .infer = regressor_infer,
    .eval = regressor_eval,
};

const rlx_module ops_svm = {.ops = (const rlx_op *const[]){&classifier, &regressor, NULL}};
