/* infer.h — running an op's shape inference, at compile time or with concrete extents. */
#ifndef IR_INFER_H
#define IR_INFER_H

#include "ir/graph.h"

#define INFER_MAGIC 0xf1f1f1f1u

/* Context handed to rlx_op.infer. Lives on the caller's stack. */
struct rlx_infer {
  uint32_t magic;
  const rlx_node *node;
  const rlx_type *const *inputs; /* NULL entries: left out */
  rlx_type *outputs;             /* node->output_count */
  /* Gives the value of input i or NULL; user is the caller's. */
  const rlx_tensor *(*value)(void *user, const rlx_node *n, int i);
  void *user;
  uint64_t asked; /* inputs (first 64) whose value was asked for and not known */
};

/* Prefills output dtypes, calls infer, checks the result (dtype set, rank in range, dims ≥ -1). */
rlx_status infer_node(struct rlx_infer *ctx);
/* Static inference of one node: refines the types of its outputs in place. */
rlx_status infer_node_types(rlx_node *n);
/* Static inference over a whole graph with constants as the only known values; subgraphs included.
 * Output types are refined in place; strict: a declared shape that is wrong is an
 * error, else a warning to the log; a wrong dtype always is an error. */
rlx_status infer_graph(rlx_graph *g, bool strict);

#endif
