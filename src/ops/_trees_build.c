/* _trees_build.c — makes the form of trees that runs from attributes, and checks every index in them. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "ir/dtype.h"
#include "ir/tensor.h"
#include "ops/_trees.h"
#include "ops/_trees_form.h"

/* Room for the lists; counts are set before. */
static rlx_status allocate(const void *ctx, trees *t, int64_t members) {
  if (t->node_count > INT32_MAX || t->leaf_count > INT32_MAX)
    return rlx_fail(ctx, RLX_UNSUPPORTED, "%lld nodes", (long long)t->node_count);
  t->nodes = mem_array((size_t)t->node_count, sizeof *t->nodes);
  t->roots = mem_array((size_t)t->root_count, sizeof *t->roots);
  t->leaves = mem_array((size_t)t->leaf_count + 1, sizeof *t->leaves);
  t->votes = mem_array((size_t)t->vote_count, sizeof *t->votes);
  t->base = mem_array((size_t)t->base_count, sizeof *t->base);
  t->members = mem_array((size_t)members, sizeof *t->members);
  if (t->nodes && t->roots && t->leaves && t->votes && t->base && t->members) return RLX_OK;
  return rlx_fail(ctx, RLX_OUT_OF_MEMORY, "no memory for %lld nodes", (long long)t->node_count);
}

static rlx_status wrong_count(const void *ctx, const char *name, int64_t is, int64_t wanted) {
  return rlx_fail(ctx, RLX_INVALID, "%s has %lld entries, not %lld", name, (long long)is, (long long)wanted);
}

static rlx_status outside(const void *ctx, const char *name, int64_t i, int64_t is, int64_t end) {
  return rlx_fail(ctx, RLX_INVALID, "%s[%lld] is %lld, outside 0..%lld", name, (long long)i, (long long)is,
                  (long long)end - 1);
}

static rlx_status take_feature(const void *ctx, trees *t, int64_t i, int64_t feature) {
  if (feature < 0 || feature > INT32_MAX) return outside(ctx, "nodes_featureids", i, feature, INT32_MAX);
  t->nodes[i].feature = feature;
  if (feature >= t->features) t->features = feature + 1;
  return RLX_OK;
}

static rlx_status finish(rlx_status status, trees *t, trees **out) {
  if (status == RLX_OK)
    *out = t;
  else
    trees_destroy(t);
  return status;
}

static trees *create(const void *ctx) {
  trees *t = mem_zalloc(sizeof *t);
  if (!t) (void)rlx_fail(ctx, RLX_OUT_OF_MEMORY, "no memory for an ensemble");
  return t;
}

/* ---- TreeEnsemble ------------------------------------------------------------------------- */

static rlx_status check_ensemble(const void *ctx, const ensemble_params *p) {
  int64_t n = p->features.count;
  const struct {
    const char *name;
    int64_t count;
    bool optional;
  } lists[] = {{"nodes_modes", p->modes->count, false},
               {"nodes_splits", p->splits->count, false},
               {"nodes_truenodeids", p->yes.count, false},
               {"nodes_falsenodeids", p->no.count, false},
               {"nodes_trueleafs", p->yes_leafs.count, false},
               {"nodes_falseleafs", p->no_leafs.count, false},
               {"nodes_missing_value_tracks_true", p->missing.count, true}};
  for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
    if (lists[i].count != n && !(lists[i].optional && !lists[i].count))
      return wrong_count(ctx, lists[i].name, lists[i].count, n);
  if (p->leaf_targets.count != p->leaf_weights->count)
    return wrong_count(ctx, "leaf_targetids", p->leaf_targets.count, p->leaf_weights->count);
  if (p->modes->dtype != RLX_UINT8) return rlx_fail(ctx, RLX_INVALID, "nodes_modes is no tensor of uint8");
  if (p->aggregate < 0 || p->aggregate > AGGREGATE_MAX)
    return rlx_fail(ctx, RLX_INVALID, "aggregate_function %lld", (long long)p->aggregate);
  if (p->transform < 0 || p->transform > SCORES_PROBIT)
    return rlx_fail(ctx, RLX_INVALID, "post_transform %lld", (long long)p->transform);
  return RLX_OK;
}

static rlx_status take_child(const void *ctx, const trees *t, const char *name, int64_t i, int64_t id, bool leaf,
                             int32_t *out) {
  int64_t end = leaf ? t->leaf_count : t->node_count;
  if (id < 0 || id >= end) return outside(ctx, name, i, id, end);
  *out = leaf ? (int32_t)~id : (int32_t)id;
  return RLX_OK;
}

/* The members of the next node of the kind: up to a NaN. */
static rlx_status take_members(const void *ctx, const ensemble_params *p, const trees *t, tree_node *n, int64_t *at) {
  int64_t count = p->members ? p->members->count : 0;
  n->first_member = *at;
  while (*at < count && !isnan(t->members[*at])) ++*at;
  if (*at == count) return rlx_fail(ctx, RLX_INVALID, "membership_values has fewer sets than there are such nodes");
  n->member_count = (*at)++ - n->first_member;
  return RLX_OK;
}

static rlx_status fill_nodes(const void *ctx, const ensemble_params *p, trees *t) {
  int64_t member = 0;
  for (int64_t i = 0; i < t->node_count; i++) {
    tree_node *n = &t->nodes[i];
    uint8_t mode = ((const uint8_t *)tensor_raw(p->modes))[i];
    if (mode > BRANCH_MEMBER) return outside(ctx, "nodes_modes", i, mode, BRANCH_MEMBER + 1);
    n->mode = (branch_mode)mode;
    n->split = dtype_load(p->splits->dtype, tensor_raw(p->splits), i);
    n->missing_yes = p->missing.count && p->missing.data[i] != 0;
    RLX_TRY(take_feature(ctx, t, i, p->features.data[i]));
    RLX_TRY(take_child(ctx, t, "nodes_truenodeids", i, p->yes.data[i], p->yes_leafs.data[i] != 0, &n->yes));
    RLX_TRY(take_child(ctx, t, "nodes_falsenodeids", i, p->no.data[i], p->no_leafs.data[i] != 0, &n->no));
    if (n->mode == BRANCH_MEMBER) RLX_TRY(take_members(ctx, p, t, n, &member));
  }
  return RLX_OK;
}

static rlx_status fill_ensemble(const void *ctx, const ensemble_params *p, trees *t) {
  int64_t members = p->members ? p->members->count : 0;
  t->node_count = p->features.count;
  t->root_count = p->roots.count;
  t->leaf_count = t->vote_count = p->leaf_targets.count;
  t->targets = p->n_targets;
  t->aggregate = (aggregate)p->aggregate;
  t->transform = (score_transform)p->transform;
  RLX_TRY(allocate(ctx, t, members));
  for (int64_t i = 0; i < members; i++) t->members[i] = dtype_load(p->members->dtype, tensor_raw(p->members), i);
  RLX_TRY(fill_nodes(ctx, p, t));
  for (int64_t i = 0; i < t->root_count; i++)
    RLX_TRY(take_child(ctx, t, "tree_roots", i, p->roots.data[i], false, &t->roots[i]));
  for (int64_t i = 0; i < t->leaf_count; i++) {
    int64_t target = p->leaf_targets.data[i];
    if (target < 0 || target >= t->targets) return outside(ctx, "leaf_targetids", i, target, t->targets);
    t->leaves[i] = i;
    t->votes[i] = (tree_vote){target, dtype_load(p->leaf_weights->dtype, tensor_raw(p->leaf_weights), i)};
  }
  t->leaves[t->leaf_count] = t->vote_count;
  return RLX_OK;
}

rlx_status trees_from_ensemble(const void *ctx, const ensemble_params *p, trees **out) {
  RLX_TRY(check_ensemble(ctx, p));
  trees *t = create(ctx);
  return t ? finish(fill_ensemble(ctx, p, t), t, out) : RLX_OUT_OF_MEMORY;
}

/* ---- TreeEnsembleRegressor, TreeEnsembleClassifier ---------------------------------------- */

/* Numbers that one of two attributes has. */
static int64_t list_count(const rlx_floats *list, const rlx_tensor *tensor) {
  return tensor ? tensor->count : list->count;
}
static double list_number(const rlx_floats *list, const rlx_tensor *tensor, int64_t i) {
  return tensor ? dtype_load(tensor->dtype, tensor_raw(tensor), i) : (double)list->data[i];
}

/* Finds nodes by their ids: sorted. */
typedef struct node_key {
  int64_t tree, node, index;
} node_key;

static int compare_keys(const void *a, const void *b) {
  const node_key *x = a, *y = b;
  if (x->tree != y->tree) return x->tree < y->tree ? -1 : 1;
  return (x->node > y->node) - (x->node < y->node);
}

typedef struct forest {
  const void *ctx;
  const forest_params *p;
  trees *t;
  node_key *keys;
  int64_t *leaf_of; /* per node: its leaf, or -1 */
} forest;

static int64_t find_node(const forest *f, int64_t tree, int64_t node) {
  node_key wanted = {tree, node, 0};
  const node_key *found = NULL;
  if (f->p->node_ids.count)
    found = bsearch(&wanted, f->keys, (size_t)f->p->node_ids.count, sizeof wanted, compare_keys);
  return found ? found->index : -1;
}

static int parse_mode(rlx_string s) {
  static const char *const words[] = {"BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ"};
  for (int i = 0; i < 6; i++)
    if (s.size == strlen(words[i]) && memcmp(s.data, words[i], s.size) == 0) return i;
  return s.size == 4 && memcmp(s.data, "LEAF", 4) == 0 ? -1 : -2;
}

static rlx_status check_forest(const void *ctx, const forest_params *p) {
  int64_t n = p->node_ids.count, values = list_count(&p->values, p->values_tensor);
  const struct {
    const char *name;
    int64_t count;
    bool optional;
  } lists[] = {{"nodes_treeids", p->tree_ids.count, false},
               {"nodes_featureids", p->features.count, false},
               {"nodes_values", values, false},
               {"nodes_modes", p->modes.count, false},
               {"nodes_truenodeids", p->yes.count, false},
               {"nodes_falsenodeids", p->no.count, false},
               {"nodes_missing_value_tracks_true", p->missing.count, true}};
  for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
    if (lists[i].count != n && !(lists[i].optional && !lists[i].count))
      return wrong_count(ctx, lists[i].name, lists[i].count, n);
  int64_t votes = p->vote_ids.count, weights = list_count(&p->vote_weights, p->vote_weights_tensor);
  if (p->vote_trees.count != votes) return wrong_count(ctx, "the tree ids of votes", p->vote_trees.count, votes);
  if (p->vote_nodes.count != votes) return wrong_count(ctx, "the node ids of votes", p->vote_nodes.count, votes);
  if (weights != votes) return wrong_count(ctx, "the weights of votes", weights, votes);
  return RLX_OK;
}

/* Counts what there will be, and where leaves lie. A tree's root is its first node. */
static rlx_status count_forest(forest *f) {
  const forest_params *p = f->p;
  trees *t = f->t;
  t->node_count = p->node_ids.count;
  t->vote_count = p->vote_ids.count;
  t->base_count = list_count(&p->base, p->base_tensor);
  f->keys = mem_array((size_t)t->node_count, sizeof *f->keys);
  f->leaf_of = mem_array((size_t)t->node_count, sizeof *f->leaf_of);
  if (!f->keys || !f->leaf_of) return rlx_fail(f->ctx, RLX_OUT_OF_MEMORY, "no memory for an ensemble");
  for (int64_t i = 0; i < t->node_count; i++) {
    int mode = parse_mode(p->modes.data[i]);
    if (mode == -2)
      return rlx_fail(f->ctx, RLX_INVALID, "nodes_modes[%lld] is '%.*s'", (long long)i,
                      (int)(p->modes.data[i].size < 40 ? p->modes.data[i].size : 40), p->modes.data[i].data);
    f->keys[i] = (node_key){p->tree_ids.data[i], p->node_ids.data[i], i};
    f->leaf_of[i] = mode == -1 ? t->leaf_count++ : -1;
  }
  if (t->node_count) qsort(f->keys, (size_t)t->node_count, sizeof *f->keys, compare_keys);
  for (int64_t i = 0; i < t->node_count; i++) {
    t->root_count += i == 0 || f->keys[i].tree != f->keys[i - 1].tree;
    if (i && compare_keys(&f->keys[i], &f->keys[i - 1]) == 0)
      return rlx_fail(f->ctx, RLX_INVALID, "tree %lld has node %lld twice", (long long)f->keys[i].tree,
                      (long long)f->keys[i].node);
  }
  return RLX_OK;
}

static int32_t place_of(const forest *f, int64_t index) {
  return (int32_t)(f->leaf_of[index] >= 0 ? ~f->leaf_of[index] : index);
}

static rlx_status link_child(const forest *f, int64_t i, const rlx_ints *ids, int32_t *out) {
  int64_t index = find_node(f, f->p->tree_ids.data[i], ids->data[i]);
  if (index < 0)
    return rlx_fail(f->ctx, RLX_INVALID, "node %lld of tree %lld has no child %lld", (long long)f->p->node_ids.data[i],
                    (long long)f->p->tree_ids.data[i], (long long)ids->data[i]);
  *out = place_of(f, index);
  return RLX_OK;
}

static rlx_status link_nodes(const forest *f) {
  const forest_params *p = f->p;
  for (int64_t i = 0; i < f->t->node_count; i++) {
    tree_node *n = &f->t->nodes[i];
    if (f->leaf_of[i] >= 0) continue;
    n->mode = (branch_mode)parse_mode(p->modes.data[i]);
    n->split = list_number(&p->values, p->values_tensor, i);
    n->missing_yes = p->missing.count && p->missing.data[i] != 0;
    RLX_TRY(take_feature(f->ctx, f->t, i, p->features.data[i]));
    RLX_TRY(link_child(f, i, &p->yes, &n->yes));
    RLX_TRY(link_child(f, i, &p->no, &n->no));
  }
  int64_t root = 0;
  for (int64_t i = 0, first = 0; i < f->t->node_count; i++) {
    if (i == 0 || f->keys[i].tree != f->keys[i - 1].tree) first = f->keys[i].index;
    if (f->keys[i].index < first) first = f->keys[i].index;
    bool last = i + 1 == f->t->node_count || f->keys[i + 1].tree != f->keys[i].tree;
    if (last) f->t->roots[root++] = place_of(f, first);
  }
  return RLX_OK;
}

/* The leaf of vote i, or -1: what hangs on an inner node is never counted. */
static rlx_status leaf_of_vote(const forest *f, int64_t i, int64_t *out) {
  int64_t index = find_node(f, f->p->vote_trees.data[i], f->p->vote_nodes.data[i]);
  if (index < 0)
    return rlx_fail(f->ctx, RLX_INVALID, "vote %lld is for node %lld of tree %lld, which does not exist", (long long)i,
                    (long long)f->p->vote_nodes.data[i], (long long)f->p->vote_trees.data[i]);
  *out = f->leaf_of[index];
  return RLX_OK;
}

/* Sorted by leaf, in their order. */
static rlx_status place_votes(const forest *f) {
  const forest_params *p = f->p;
  trees *t = f->t;
  int64_t leaf = -1, *next = t->leaves;
  for (int64_t i = 0; i < t->vote_count; i++) {
    int64_t target = p->vote_ids.data[i];
    if (target < 0 || target >= t->targets) return outside(f->ctx, "the ids of votes", i, target, t->targets);
    RLX_TRY(leaf_of_vote(f, i, &leaf));
    if (leaf >= 0) next[leaf + 1]++;
  }
  for (int64_t k = 0; k < t->leaf_count; k++) next[k + 1] += next[k];
  int64_t total = next[t->leaf_count];
  for (int64_t i = t->vote_count - 1; i >= 0; i--) {
    RLX_TRY(leaf_of_vote(f, i, &leaf));
    if (leaf < 0) continue;
    tree_vote vote = {p->vote_ids.data[i], list_number(&p->vote_weights, p->vote_weights_tensor, i)};
    t->votes[--next[leaf + 1]] = vote;
  }
  /* Now next[k + 1] is where leaf k begins. */
  for (int64_t k = 0; k < t->leaf_count; k++) next[k] = next[k + 1];
  next[t->leaf_count] = total;
  return RLX_OK;
}

static rlx_status fill_forest(forest *f) {
  trees *t = f->t;
  RLX_TRY(check_forest(f->ctx, f->p));
  RLX_TRY(score_transform_parse(f->ctx, f->p->post_transform, &t->transform));
  RLX_TRY(count_forest(f));
  bool fits = t->base_count <= 1 || t->base_count == t->targets;
  if (!fits) return wrong_count(f->ctx, "base_values", t->base_count, t->targets);
  RLX_TRY(allocate(f->ctx, t, 0));
  for (int64_t i = 0; i < t->base_count; i++) t->base[i] = list_number(&f->p->base, f->p->base_tensor, i);
  RLX_TRY(link_nodes(f));
  return place_votes(f);
}

static rlx_status build_forest(const void *ctx, const forest_params *p, trees *t, trees **out) {
  forest f = {.ctx = ctx, .p = p, .t = t};
  rlx_status status = fill_forest(&f);
  mem_free(f.keys);
  mem_free(f.leaf_of);
  return finish(status, t, out);
}

static bool is_word(rlx_string s, const char *word) {
  return s.size == strlen(word) && memcmp(s.data, word, s.size) == 0;
}

rlx_status trees_from_regressor(const void *ctx, const forest_params *p, trees **out) {
  static const char *const words[] = {"AVERAGE", "SUM", "MIN", "MAX"};
  trees *t = create(ctx);
  if (!t) return RLX_OUT_OF_MEMORY;
  int function = 0;
  while (function < 4 && !is_word(p->aggregate, words[function])) function++;
  t->aggregate = (aggregate)function;
  t->targets = p->n_targets;
  if (function < 4) return build_forest(ctx, p, t, out);
  trees_destroy(t);
  return rlx_fail(ctx, RLX_INVALID, "aggregate_function '%.*s'", (int)(p->aggregate.size < 40 ? p->aggregate.size : 40),
                  p->aggregate.data);
}

rlx_status trees_from_classifier(const void *ctx, const forest_params *p, trees **out) {
  trees *t = create(ctx);
  if (!t) return RLX_OUT_OF_MEMORY;
  t->aggregate = AGGREGATE_SUM;
  t->classify = true;
  t->labels = p->labels;
  t->targets = labels_count(&p->labels);
  t->single = t->targets == 1 || (t->targets == 2 && list_count(&p->base, p->base_tensor) < 2);
  t->second = t->targets == 2 && p->vote_ids.count > 0;
  t->positive = true;
  for (int64_t i = 0; i < p->vote_ids.count; i++) {
    t->single &= p->vote_ids.data[i] == 0;
    t->second &= p->vote_ids.data[i] == 1;
  }
  for (int64_t i = 0; i < list_count(&p->vote_weights, p->vote_weights_tensor); i++)
    t->positive &= list_number(&p->vote_weights, p->vote_weights_tensor, i) >= 0;
  return build_forest(ctx, p, t, out);
}
