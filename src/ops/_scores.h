/* _scores.h — shared by the classifiers and regressors of ai.onnx.ml: their inputs as rows of features, what is done to
 * scores at the end, and labels. */
#ifndef OPS_SCORES_H
#define OPS_SCORES_H

#include "ir/module.h"

/* ---- rows of features: [N,F], or [F], which is one row ------------------------------------ */

typedef struct feature_rows {
  int64_t rows, columns;
} feature_rows;
rlx_status feature_rows_of(const void *ctx, const rlx_operand *x, feature_rows *out);
/* Row i as doubles. */
void feature_row(const rlx_operand *x, int64_t columns, int64_t row, double *to);
/* Inference: input 0 has rank 1 or 2; its rows, RLX_UNKNOWN where they are not known. */
rlx_status features_infer(rlx_infer *ctx, int64_t *rows);

/* ---- the transform at the end ------------------------------------------------------------- */

/* Values as in TreeEnsemble's attribute. */
typedef enum score_transform {
  SCORES_AS_THEY_ARE = 0,
  SCORES_SOFTMAX = 1,
  SCORES_LOGISTIC = 2,
  SCORES_SOFTMAX_ZERO = 3,
  SCORES_PROBIT = 4
} score_transform;

/* "SOFTMAX" … Fails through ctx on another word. */
rlx_status score_transform_parse(const void *ctx, rlx_string word, score_transform *out);
void scores_transform(score_transform t, double *scores, int64_t count);
/* Two scores from one, that of the second class: [1 - s, s] as they are, or [-s, s], transformed. */
void scores_from_one(score_transform t, bool complement, double score, double out[2]);
/* Position of the largest; the first of equal ones. */
int64_t scores_largest(const double *scores, int64_t count);

/* ---- labels ------------------------------------------------------------------------------- */

typedef struct class_labels {
  rlx_ints ints;
  rlx_strings strings;
} class_labels;
int64_t labels_count(const class_labels *l);
rlx_dtype labels_dtype(const class_labels *l);
/* Element i of y becomes label k; without such a label, k. */
void labels_store(const class_labels *l, const rlx_operand *y, int64_t i, int64_t k);
/* Inference: exactly one of the lists may be given, and neither means numbers. */
rlx_status labels_check(const void *ctx, const class_labels *l);

#define FEATURE_TYPES (RLX_SET(RLX_FLOAT) | RLX_SET(RLX_DOUBLE) | RLX_SET(RLX_INT64) | RLX_SET(RLX_INT32))
#define LABEL_TYPES (RLX_SET(RLX_STRING) | RLX_SET(RLX_INT64))

#endif
