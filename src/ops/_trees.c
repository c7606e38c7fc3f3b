/* _trees.c — ensembles of decision trees: what a row of features gets. */
#include "ops/_trees.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "ir/dtype.h"
#include "ir/tensor.h"
#include "ops/_trees_form.h"

static bool is_member(const trees *t, const tree_node *n, double v) {
  const double *list = t->members + n->first_member;
  for (int64_t i = 0; i < n->member_count; i++)
    if (list[i] == v) return true;
  return false;
}

/* Which way a row goes. Of NaN the node says it. */
static bool goes_yes(const trees *t, const tree_node *n, double v) {
  if (isnan(v)) return n->missing_yes;
  switch (n->mode) {
    case BRANCH_LEQ: return v <= n->split;
    case BRANCH_LT: return v < n->split;
    case BRANCH_GTE: return v >= n->split;
    case BRANCH_GT: return v > n->split;
    case BRANCH_EQ: return v == n->split;
    case BRANCH_NEQ: return v != n->split;
    case BRANCH_MEMBER: return is_member(t, n, v);
  }
  return false;
}

/* The leaf that a row comes to; -1 after more steps than a tree can have. */
static int64_t find_leaf(const trees *t, int32_t at, const double *row) {
  for (int64_t steps = 0; at >= 0; steps++) {
    if (steps > t->node_count) return -1;
    const tree_node *n = &t->nodes[at];
    at = goes_yes(t, n, row[n->feature]) ? n->yes : n->no;
  }
  return ~at;
}

static void add_vote(const trees *t, const tree_vote *v, double *scores, bool *has) {
  double *score = &scores[v->target];
  bool first = !has[v->target];
  has[v->target] = true;
  if (t->aggregate == AGGREGATE_MIN)
    *score = first || v->weight < *score ? v->weight : *score;
  else if (t->aggregate == AGGREGATE_MAX)
    *score = first || v->weight > *score ? v->weight : *score;
  else
    *score += v->weight;
}

/* ---- what becomes of the scores ----------------------------------------------------------- */

static double base_of(const trees *t, int64_t i) { return t->base_count ? t->base[t->base_count > 1 ? i : 0] : 0; }

static void finish_scores(const trees *t, rlx_operand *y, int64_t row, double *scores) {
  if (!y->data) return;
  for (int64_t k = 0; k < t->targets; k++) {
    if (t->aggregate == AGGREGATE_AVERAGE && t->root_count) scores[k] /= (double)t->root_count;
    scores[k] += base_of(t, k);
  }
  scores_transform(t->transform, scores, t->targets);
  for (int64_t k = 0; k < t->targets; k++) dtype_store(y->dtype, y->data, row * t->targets + k, scores[k]);
}

static void store_row(const trees *t, rlx_operand *z, int64_t row, const double *scores) {
  float *to = z->data;
  for (int64_t k = 0; to && k < t->targets; k++) to[row * t->targets + k] = (float)scores[k];
}

/* All votes are for the first class of two, or there is one class: the score is that of the positive class. Weights
 * that are all positive are probabilities: the other class gets the rest, and there is no transform; else it gets the
 * negative.
 */
static void finish_single(const trees *t, rlx_ctx *ctx, int64_t row, double score) {
  double both[2] = {0, 0};
  bool complement = t->positive;
  labels_store(&t->labels, &ctx->outputs[0], row, score > (complement && t->targets == 2 ? 0.5 : 0));
  if (t->targets == 2) {
    scores_from_one(t->transform, complement, score, both);
  } else {
    both[0] = score;
    scores_transform(t->transform, both, 1);
  }
  store_row(t, &ctx->outputs[1], row, both);
}

static void finish_class(const trees *t, rlx_ctx *ctx, int64_t row, double *scores) {
  if (t->single) {
    finish_single(t, ctx, row, scores[0] + base_of(t, 0));
    return;
  }
  for (int64_t k = 0; k < t->targets; k++) scores[k] += base_of(t, k);
  int64_t label = t->second ? scores[1] > (t->positive ? 0.5 : 0) : scores_largest(scores, t->targets);
  labels_store(&t->labels, &ctx->outputs[0], row, label);
  scores_transform(t->transform, scores, t->targets);
  store_row(t, &ctx->outputs[1], row, scores);
}

/* ---- running ------------------------------------------------------------------------------ */

typedef struct run_job {
  rlx_ctx *ctx;
  const trees *trees;
  feature_rows size;
} run_job;

static rlx_status run_row(const run_job *j, int64_t row, const double *features, double *scores, bool *has) {
  const trees *t = j->trees;
  memset(scores, 0, (size_t)t->targets * sizeof *scores);
  memset(has, 0, (size_t)t->targets * sizeof *has);
  for (int64_t i = 0; i < t->root_count; i++) {
    int64_t leaf = find_leaf(t, t->roots[i], features);
    if (leaf < 0) return rlx_fail(j->ctx, RLX_INVALID, "tree %lld has a cycle", (long long)i);
    for (int64_t v = t->leaves[leaf]; v < t->leaves[leaf + 1]; v++) add_vote(t, &t->votes[v], scores, has);
  }
  if (t->classify)
    finish_class(t, j->ctx, row, scores);
  else
    finish_scores(t, &j->ctx->outputs[0], row, scores);
  return RLX_OK;
}

static void run_rows(void *arg, int64_t begin, int64_t end) {
  const run_job *j = arg;
  size_t targets = (size_t)j->trees->targets, columns = (size_t)j->size.columns;
  double *features = mem_array(columns + targets + 1, sizeof *features);
  bool *has = mem_array(targets + 1, sizeof *has);
  if (!features || !has) (void)rlx_fail(j->ctx, RLX_OUT_OF_MEMORY, "no memory for the scores of a row");
  for (int64_t row = begin; features && has && row < end; row++) {
    feature_row(&j->ctx->inputs[0], j->size.columns, row, features);
    if (run_row(j, row, features, features + columns, has) != RLX_OK || rlx_cancelled(j->ctx)) break;
  }
  mem_free(features);
  mem_free(has);
}

rlx_status trees_run(rlx_ctx *ctx, const trees *t) {
  run_job j = {.ctx = ctx, .trees = t};
  RLX_TRY(feature_rows_of(ctx, &ctx->inputs[0], &j.size));
  if (j.size.rows && j.size.columns < t->features)
    return rlx_fail(ctx, RLX_INVALID, "the trees use %lld features, X has %lld", (long long)t->features,
                    (long long)j.size.columns);
  rlx_parallel_for(ctx, j.size.rows, 1 + 2000 / (t->root_count + 1), run_rows, &j);
  return RLX_OK;
}

void trees_destroy(void *opaque) {
  trees *t = opaque;
  if (!t) return;
  mem_free(t->nodes);
  mem_free(t->roots);
  mem_free(t->leaves);
  mem_free(t->votes);
  mem_free(t->members);
  mem_free(t->base);
  mem_free(t);
}
