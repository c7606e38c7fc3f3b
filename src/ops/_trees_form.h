/* _trees_form.h — the form of an ensemble of trees that runs. */
#ifndef OPS_TREES_FORM_H
#define OPS_TREES_FORM_H

#include "ops/_scores.h"

/* Values as in TreeEnsemble's attributes. */
typedef enum branch_mode {
  BRANCH_LEQ = 0,
  BRANCH_LT = 1,
  BRANCH_GTE = 2,
  BRANCH_GT = 3,
  BRANCH_EQ = 4,
  BRANCH_NEQ = 5,
  BRANCH_MEMBER = 6
} branch_mode;
typedef enum aggregate { AGGREGATE_AVERAGE = 0, AGGREGATE_SUM = 1, AGGREGATE_MIN = 2, AGGREGATE_MAX = 3 } aggregate;

typedef struct tree_node {
  double split;
  int64_t feature;
  int64_t first_member, member_count; /* BRANCH_MEMBER */
  int32_t yes, no;                    /* a node, or ~ of a leaf */
  branch_mode mode;
  bool missing_yes;
} tree_node;

typedef struct tree_vote {
  int64_t target;
  double weight;
} tree_vote;

struct trees {
  tree_node *nodes;
  int32_t *roots;  /* a node, or ~ of a leaf */
  int64_t *leaves; /* leaf_count + 1: a leaf's first vote */
  tree_vote *votes;
  double *members, *base;
  int64_t node_count, root_count, leaf_count, vote_count, base_count;
  int64_t features; /* how many a row must have */
  int64_t targets;
  aggregate aggregate;
  score_transform transform;
  bool classify;
  bool single;   /* classes: one, or two of which the first gets all votes, and at most one base value */
  bool second;   /* classes: two of which the second gets all votes */
  bool positive; /* classes: no weight is negative */
  class_labels labels;
};

#endif
