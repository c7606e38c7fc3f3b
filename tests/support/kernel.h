/* kernel.h — runs one CPU kernel on a node, without a session, and compares with the op's eval. */
#ifndef SUPPORT_KERNEL_H
#define SUPPORT_KERNEL_H

#include "ir/graph.h"

/* A small deterministic generator. */
typedef struct random_state {
  uint64_t s;
} random_state;
int64_t random_int(random_state *r, int64_t low, int64_t high); /* both included */
float random_float(random_state *r);                            /* in [-1, 1) */

typedef struct kernel_check {
  const char *kernel; /* its name, "onednn" */
  uint64_t seed;      /* of the operands */
  uint64_t constants; /* bit i: input i is constant, and packed if the kernel packs it */
  int threads;
  bool in_place; /* where the kernel's record allows it */
} kernel_check;

/* The node's operands lie as its values' layouts say. Returns the largest difference divided by the largest magnitude
 * of the expected output; -1 if the kernel refuses the node (*why says why); a failure of the kernel fails the test.
 * All types must be concrete. Only float operands are filled with values; others are zero. */
double kernel_difference(const rlx_node *n, const kernel_check *check, const char **why);

/* A graph with one node over inputs of float types; rank -1: left out. Destroy with rlx_graph_destroy. */
rlx_node *kernel_node(const char *op, const rlx_type *inputs, int input_count, const rlx_attr *attrs, int attr_count,
                      rlx_graph **g);
rlx_type kernel_type(int rank, const int64_t *dims);

#endif
