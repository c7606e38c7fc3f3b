/* _scores.c — shared by the classifiers and regressors of ai.onnx.ml. */
#include "ops/_scores.h"

#include <math.h>
#include <string.h>

#include "base/status.h"
#include "ir/dtype.h"

rlx_status feature_rows_of(const void *ctx, const rlx_operand *x, feature_rows *out) {
  if (x->rank != 1 && x->rank != 2) return rlx_fail(ctx, RLX_INVALID, "X has rank %d, not 1 or 2", x->rank);
  *out = (feature_rows){x->rank == 2 ? x->dims[0] : 1, x->dims[x->rank - 1]};
  return RLX_OK;
}

void feature_row(const rlx_operand *x, int64_t columns, int64_t row, double *to) {
  for (int64_t i = 0; i < columns; i++) to[i] = dtype_load(x->dtype, x->data, row * columns + i);
}

rlx_status features_infer(rlx_infer *ctx, int64_t *rows) {
  const rlx_type *x = rlx_infer_input(ctx, 0);
  *rows = RLX_UNKNOWN;
  if (x->rank < 0) return RLX_OK;
  if (x->rank != 1 && x->rank != 2) return rlx_fail(ctx, RLX_INVALID, "X has rank %d, not 1 or 2", x->rank);
  *rows = x->rank == 2 ? x->dims[0] : 1;
  return RLX_OK;
}

/* ---- transforms --------------------------------------------------------------------------- */

rlx_status score_transform_parse(const void *ctx, rlx_string word, score_transform *out) {
  static const char *const words[] = {"NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT"};
  for (int i = 0; i < 5; i++)
    if (word.size == strlen(words[i]) && memcmp(word.data, words[i], word.size) == 0) {
      *out = (score_transform)i;
      return RLX_OK;
    }
  return rlx_fail(ctx, RLX_INVALID, "post_transform '%.*s'", (int)(word.size < 40 ? word.size : 40), word.data);
}

static double logistic(double x) {
  double v = 1 / (1 + exp(-fabs(x)));
  return x < 0 ? 1 - v : v;
}

/* The approximation of the inverse error function by Winitzki that ONNX's reference evaluator defines the transform by:
 * exact to three digits. */
static double probit(double p) {
  double x = 2 * p - 1, product = (1 - x) * (1 + x);
  if (product == 0) return 0;
  double log_of = log(product), v = 2 / (3.14159265358979323846 * 0.147) + 0.5 * log_of;
  double root = sqrt(-v + sqrt(v * v - log_of / 0.147));
  return 1.41421356 * (x < 0 ? -root : root);
}

static void softmax(double *scores, int64_t count, bool zeros_stay) {
  double largest = -INFINITY, sum = 0;
  for (int64_t i = 0; i < count; i++)
    if (!(scores[i] <= largest)) largest = scores[i];
  for (int64_t i = 0; i < count; i++) {
    bool zero = zeros_stay && fabs(scores[i]) <= 1e-7;
    scores[i] = zero ? scores[i] * exp(-largest) : exp(scores[i] - largest);
    sum += scores[i];
  }
  for (int64_t i = 0; i < count; i++) scores[i] = zeros_stay && sum == 0 ? 0.5 : scores[i] / sum;
}

void scores_transform(score_transform t, double *scores, int64_t count) {
  switch (t) {
    case SCORES_AS_THEY_ARE: return;
    case SCORES_SOFTMAX: softmax(scores, count, false); return;
    case SCORES_SOFTMAX_ZERO: softmax(scores, count, true); return;
    case SCORES_LOGISTIC:
      for (int64_t i = 0; i < count; i++) scores[i] = logistic(scores[i]);
      return;
    case SCORES_PROBIT:
      for (int64_t i = 0; i < count; i++) scores[i] = probit(scores[i]);
      return;
  }
}

void scores_from_one(score_transform t, bool complement, double score, double out[2]) {
  out[0] = complement ? 1 - score : -score;
  out[1] = score;
  if (!complement) scores_transform(t, out, 2);
}

int64_t scores_largest(const double *scores, int64_t count) {
  int64_t best = 0;
  for (int64_t i = 1; i < count; i++)
    if (scores[i] > scores[best]) best = i;
  return best;
}

/* ---- labels ------------------------------------------------------------------------------- */

int64_t labels_count(const class_labels *l) { return l->strings.count ? l->strings.count : l->ints.count; }

rlx_dtype labels_dtype(const class_labels *l) { return l->strings.count ? RLX_STRING : RLX_INT64; }

void labels_store(const class_labels *l, const rlx_operand *y, int64_t i, int64_t k) {
  static const rlx_string digits[] = {{"0", 1}, {"1", 1}};
  if (!y->data) return;
  if (l->strings.count)
    ((rlx_string *)y->data)[i] = k < l->strings.count ? l->strings.data[k] : digits[k != 0];
  else
    ((int64_t *)y->data)[i] = k < l->ints.count ? l->ints.data[k] : k;
}

rlx_status labels_check(const void *ctx, const class_labels *l) {
  if (l->ints.count && l->strings.count)
    return rlx_fail(ctx, RLX_INVALID, "labels are given as integers and as strings");
  return RLX_OK;
}
