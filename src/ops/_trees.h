/* _trees.h — ensembles of decision trees: the form that runs, made from the attributes of any of the three ops. */
#ifndef OPS_TREES_H
#define OPS_TREES_H

#include "ops/_scores.h"

/* TreeEnsemble: nodes and leaves in lists of their own. */
typedef struct ensemble_params {
  uint64_t given;
  int64_t aggregate, transform, n_targets;
  rlx_ints roots, features, yes, no, yes_leafs, no_leafs, missing, leaf_targets;
  rlx_tensor *modes, *splits, *leaf_weights, *members, *hitrates;
} ensemble_params;

/* TreeEnsembleRegressor and TreeEnsembleClassifier: a node is known by the ids of its tree and of itself, a leaf is a
 * node, and votes name theirs. */
typedef struct forest_params {
  uint64_t given;
  rlx_ints tree_ids, node_ids, features, yes, no, missing;
  rlx_floats values, hitrates, base;
  rlx_tensor *values_tensor, *hitrates_tensor, *base_tensor;
  rlx_strings modes;
  rlx_ints vote_trees, vote_nodes, vote_ids; /* target_… or class_… */
  rlx_floats vote_weights;
  rlx_tensor *vote_weights_tensor;
  rlx_string post_transform;
  rlx_string aggregate; /* of the regressor */
  int64_t n_targets;
  class_labels labels; /* of the classifier */
} forest_params;

typedef struct trees trees; /* immutable; trees_destroy */
/* ctx: an rlx_ctx or rlx_bound, for failures. Every index is checked here; a path longer than there are nodes, which
 * only a cycle has, ends the run. */
rlx_status trees_from_ensemble(const void *ctx, const ensemble_params *p, trees **out);
rlx_status trees_from_regressor(const void *ctx, const forest_params *p, trees **out);
rlx_status trees_from_classifier(const void *ctx, const forest_params *p, trees **out);
void trees_destroy(void *t);
/* Runs the node's rows: to output 0, or to labels in output 0 and scores in output 1. */
rlx_status trees_run(rlx_ctx *ctx, const trees *t);

#endif
