/* _body_derivative.h — derivatives of nodes that run subgraphs: If, Loop and Scan.
 *
 * Reverse: the subgraph is run again where its gradient is wanted, from what went into it. Of a loop that is what each
 * iteration began with: the node is replaced by one that also stacks the values carried (the tape), and a Scan goes
 * over the stacks backwards. Its states are the gradients of the values carried and the sums of those of captured
 * values. Forward: the subgraph carries tangents along. */
#ifndef OPS_BODY_DERIVATIVE_H
#define OPS_BODY_DERIVATIVE_H

#include <rlx/extend.h>

/* How a node repeats its body: where the carried values lie among inputs and outputs of the body and of the node. */
typedef struct body_loop {
  const rlx_node *node;
  rlx_graph *body;
  int first_input;    /* of the body: the first carried value (Loop has the iteration and the condition before) */
  int first_output;   /* likewise */
  int first_argument; /* of the node */
  int states;         /* carried */
  int scanned;        /* inputs of the body that are slices */
  int stacked;        /* outputs that are stacked */
  /* Scan's lists; count 0: zeros */
  rlx_ints input_axes, input_directions, output_axes, output_directions;
} body_loop;

/* rlx_op.vjp and jvp: behind the inputs, input_grads and input_tangents have the captured values (node_captures). */
rlx_status body_loop_vjp(rlx_graph *g, const body_loop *l, rlx_value *const *dy, rlx_value **dx);
rlx_status body_loop_jvp(rlx_graph *g, const body_loop *l, rlx_value *const *dx, rlx_value **dy);
/* Of a node with branches: subgraphs without inputs, of which one runs. */
rlx_status body_branch_vjp(rlx_graph *g, const rlx_node *n, rlx_value *const *dy, rlx_value **dx);
rlx_status body_branch_jvp(rlx_graph *g, const rlx_node *n, rlx_value *const *dx, rlx_value **dy);

#endif
