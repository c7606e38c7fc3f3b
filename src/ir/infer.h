/* infer.h — running an op's shape inference, at compile time or with concrete extents. */
#ifndef IR_INFER_H
#define IR_INFER_H

#include "base/vector.h"
#include "ir/graph.h"

#define INFER_MAGIC 0xf1f1f1f1u

/* What a node gives an input of one of its subgraphs. */
typedef struct infer_feed {
  rlx_graph *graph;
  int input;
  rlx_type type; /* the first time */
  int output;    /* of the subgraph, that is the input the next time; -1: the input always has this type */
} infer_feed;
typedef VECTOR(infer_feed) infer_feeds;

/* Context handed to rlx_op.infer. Lives on the caller's stack. */
struct rlx_infer {
  uint32_t magic;
  const rlx_node *node;
  const rlx_type *const *inputs; /* NULL entries: left out */
  rlx_type *outputs;             /* node->output_count */
  /* Gives the value of input i or NULL; user is the caller's. */
  const rlx_tensor *(*value)(void *user, const rlx_node *n, int i);
  void *user;
  uint64_t asked;     /* inputs (first 64) whose value was asked for and not known */
  infer_feeds *feeds; /* collects what infer_feed_input is told; NULL: nobody wants to know */
};

/* For the infer of control flow: says what an input of a subgraph gets, before the subgraph is inferred. Types that the
 * model does not declare are taken from it as far as they hold in every iteration. Afterwards infer is called again. */
rlx_status infer_feed_input(rlx_infer *ctx, const infer_feed *feed);

/* Prefills output dtypes, calls infer, checks the result (dtype set, rank in range, dims ≥ -1). */
rlx_status infer_node(struct rlx_infer *ctx);
/* Static inference of one node: refines the types of its outputs in place. */
rlx_status infer_node_types(rlx_node *n);
/* The same, of its subgraphs first. */
rlx_status infer_node_deep(rlx_node *n);
/* Static inference over a whole graph with constants as the only known values; subgraphs included.
 * Output types are refined in place; strict: a declared shape that is wrong is an
 * error, else a warning to the log; a wrong dtype always is an error. */
rlx_status infer_graph(rlx_graph *g, bool strict);

#endif
