/* tree_ensemble.c — ai.onnx.ml.TreeEnsemble, TreeEnsembleRegressor and TreeEnsembleClassifier. */
#include <stddef.h>

#include "base/status.h"
#include "ir/module.h"
#include "ops/_trees.h"

static rlx_status run_and_free(rlx_ctx *ctx, rlx_status status, trees *t) {
  if (status == RLX_OK) status = trees_run(ctx, t);
  trees_destroy(t);
  return status;
}

/* Scores of every row. */
static rlx_status infer_scores(rlx_infer *ctx, int output, int64_t width) {
  int64_t dims[2];
  RLX_TRY(features_infer(ctx, &dims[0]));
  dims[1] = width;
  if (width < 1) return rlx_fail(ctx, RLX_INVALID, "%lld targets", (long long)width);
  rlx_infer_set(ctx, output, 2, dims);
  return RLX_OK;
}

/* ---- TreeEnsemble ------------------------------------------------------------------------- */

static rlx_status ensemble_infer(rlx_infer *ctx) {
  const ensemble_params *p = rlx_infer_params(ctx);
  return infer_scores(ctx, 0, p->n_targets);
}

static rlx_status ensemble_eval(rlx_ctx *ctx) {
  trees *t = NULL;
  rlx_status status = trees_from_ensemble(ctx, ctx->params, &t);
  return run_and_free(ctx, status, t);
}

#define AT(member) offsetof(ensemble_params, member)
#define NEEDED(attr, attr_kind, member) \
  {.name = (attr), .kind = (attr_kind), .flags = RLX_REQUIRED, .offset = AT(member)}
#define SCORED (RLX_SET(RLX_FLOAT) | RLX_SET(RLX_DOUBLE) | RLX_SET(RLX_FLOAT16))

static const rlx_attr_def ensemble_attrs[] = {
    NEEDED("tree_roots", RLX_ATTR_INTS, roots),
    NEEDED("nodes_modes", RLX_ATTR_TENSOR, modes),
    NEEDED("nodes_splits", RLX_ATTR_TENSOR, splits),
    NEEDED("nodes_featureids", RLX_ATTR_INTS, features),
    NEEDED("nodes_truenodeids", RLX_ATTR_INTS, yes),
    NEEDED("nodes_falsenodeids", RLX_ATTR_INTS, no),
    NEEDED("nodes_trueleafs", RLX_ATTR_INTS, yes_leafs),
    NEEDED("nodes_falseleafs", RLX_ATTR_INTS, no_leafs),
    NEEDED("leaf_targetids", RLX_ATTR_INTS, leaf_targets),
    NEEDED("leaf_weights", RLX_ATTR_TENSOR, leaf_weights),
    {.name = "nodes_missing_value_tracks_true", .kind = RLX_ATTR_INTS, .offset = AT(missing)},
    {.name = "nodes_hitrates", .kind = RLX_ATTR_TENSOR, .offset = AT(hitrates)},
    {.name = "membership_values", .kind = RLX_ATTR_TENSOR, .offset = AT(members)},
    {.name = "n_targets", .kind = RLX_ATTR_INT, .offset = AT(n_targets)},
    {.name = "aggregate_function", .kind = RLX_ATTR_INT, .offset = AT(aggregate), .default_int = 1},
    {.name = "post_transform", .kind = RLX_ATTR_INT, .offset = AT(transform)},
    {0}};

static const rlx_op ensemble = {
    .struct_size = sizeof(rlx_op),
    .name = "ai.onnx.ml.TreeEnsemble",
    .version = 5,
    .doc = "For each row the sum, mean, least or largest of the weights of the leaves that it comes to, by target.",
    .inputs = (const rlx_port[]){{.name = "X", .variable = "T", .dtypes = SCORED}, {0}},
    .outputs = (const rlx_port[]){{.name = "Y", .variable = "T", .dtypes = SCORED}, {0}},
    .attrs = ensemble_attrs,
    .params_size = sizeof(ensemble_params),
    .traits = RLX_PURE,
    .infer = ensemble_infer,
    .eval = ensemble_eval,
};

/* ---- TreeEnsembleRegressor, TreeEnsembleClassifier ---------------------------------------- */

static rlx_status regressor_infer(rlx_infer *ctx) {
  const forest_params *p = rlx_infer_params(ctx);
  return infer_scores(ctx, 0, p->n_targets);
}

static rlx_status classifier_infer(rlx_infer *ctx) {
  const forest_params *p = rlx_infer_params(ctx);
  int64_t rows;
  RLX_TRY(labels_check(ctx, &p->labels));
  RLX_TRY(infer_scores(ctx, 1, labels_count(&p->labels)));
  RLX_TRY(features_infer(ctx, &rows));
  rlx_infer_output(ctx, 0)->dtype = labels_dtype(&p->labels);
  rlx_infer_set(ctx, 0, 1, &rows);
  return RLX_OK;
}

static rlx_status regressor_eval(rlx_ctx *ctx) {
  trees *t = NULL;
  rlx_status status = trees_from_regressor(ctx, ctx->params, &t);
  return run_and_free(ctx, status, t);
}

static rlx_status classifier_eval(rlx_ctx *ctx) {
  trees *t = NULL;
  rlx_status status = trees_from_classifier(ctx, ctx->params, &t);
  return run_and_free(ctx, status, t);
}

#define IN(member) offsetof(forest_params, member)
#define FOREST                                                                                                \
  {.name = "nodes_treeids", .kind = RLX_ATTR_INTS, .offset = IN(tree_ids)},                                   \
      {.name = "nodes_nodeids", .kind = RLX_ATTR_INTS, .offset = IN(node_ids)},                               \
      {.name = "nodes_featureids", .kind = RLX_ATTR_INTS, .offset = IN(features)},                            \
      {.name = "nodes_modes", .kind = RLX_ATTR_STRINGS, .offset = IN(modes)},                                 \
      {.name = "nodes_values", .kind = RLX_ATTR_FLOATS, .offset = IN(values)},                                \
      {.name = "nodes_values_as_tensor", .kind = RLX_ATTR_TENSOR, .offset = IN(values_tensor)},               \
      {.name = "nodes_truenodeids", .kind = RLX_ATTR_INTS, .offset = IN(yes)},                                \
      {.name = "nodes_falsenodeids", .kind = RLX_ATTR_INTS, .offset = IN(no)},                                \
      {.name = "nodes_missing_value_tracks_true", .kind = RLX_ATTR_INTS, .offset = IN(missing)},              \
      {.name = "nodes_hitrates", .kind = RLX_ATTR_FLOATS, .offset = IN(hitrates)},                            \
      {.name = "nodes_hitrates_as_tensor", .kind = RLX_ATTR_TENSOR, .offset = IN(hitrates_tensor)},           \
      {.name = "base_values", .kind = RLX_ATTR_FLOATS, .offset = IN(base)},                                   \
      {.name = "base_values_as_tensor", .kind = RLX_ATTR_TENSOR, .offset = IN(base_tensor)}, {                \
    .name = "post_transform", .kind = RLX_ATTR_STRING, .offset = IN(post_transform), .default_string = "NONE" \
  }
#define VOTES(prefix)                                                                                       \
  {.name = prefix "_treeids", .kind = RLX_ATTR_INTS, .offset = IN(vote_trees)},                             \
      {.name = prefix "_nodeids", .kind = RLX_ATTR_INTS, .offset = IN(vote_nodes)},                         \
      {.name = prefix "_ids", .kind = RLX_ATTR_INTS, .offset = IN(vote_ids)},                               \
      {.name = prefix "_weights", .kind = RLX_ATTR_FLOATS, .offset = IN(vote_weights)}, {                   \
    .name = prefix "_weights_as_tensor", .kind = RLX_ATTR_TENSOR, .offset = IN(vote_weights_tensor)         \
  }

static const rlx_op regressor = {
    .struct_size = sizeof(rlx_op),
    .name = "ai.onnx.ml.TreeEnsembleRegressor",
    .version = 1,
    .doc = "For each row the sum, mean, least or largest of the weights of the leaves that it comes to, by target, and "
           "the base values.",
    .inputs = (const rlx_port[]){{.name = "X", .dtypes = FEATURE_TYPES}, {0}},
    .outputs = (const rlx_port[]){{.name = "Y", .dtypes = RLX_SET(RLX_FLOAT)}, {0}},
    .attrs =
        (const rlx_attr_def[]){
            FOREST,
            VOTES("target"),
            {.name = "n_targets", .kind = RLX_ATTR_INT, .offset = IN(n_targets)},
            {.name = "aggregate_function", .kind = RLX_ATTR_STRING, .offset = IN(aggregate), .default_string = "SUM"},
            {0}},
    .params_size = sizeof(forest_params),
    .traits = RLX_PURE,
    .infer = regressor_infer,
    .eval = regressor_eval,
};

static const rlx_op classifier = {
    .struct_size = sizeof(rlx_op),
    .name = "ai.onnx.ml.TreeEnsembleClassifier",
    .version = 1,
    .doc = "For each row the label that the leaves it comes to give the largest sum of weights, and the sums.",
    .inputs = (const rlx_port[]){{.name = "X", .dtypes = FEATURE_TYPES}, {0}},
    .outputs =
        (const rlx_port[]){{.name = "Y", .dtypes = LABEL_TYPES}, {.name = "Z", .dtypes = RLX_SET(RLX_FLOAT)}, {0}},
    .attrs =
        (const rlx_attr_def[]){FOREST,
                               VOTES("class"),
                               {.name = "classlabels_int64s", .kind = RLX_ATTR_INTS, .offset = IN(labels.ints)},
                               {.name = "classlabels_strings", .kind = RLX_ATTR_STRINGS, .offset = IN(labels.strings)},
                               {0}},
    .params_size = sizeof(forest_params),
    .traits = RLX_PURE,
    .infer = classifier_infer,
    .eval = classifier_eval,
};

const rlx_module ops_tree_ensemble = {.ops = (const rlx_op *const[]){&ensemble, &regressor, &classifier, NULL}};
