/* policy.h — falling back to the host: which nodes do, and what the session's policy says to it. */
#ifndef PASS_POLICY_H
#define PASS_POLICY_H

#include "pass/select.h"

/* Where a node will run on a GPU, as far as compiling can tell. */
typedef enum placement {
  PLACEMENT_DEVICE,   /* natively */
  PLACEMENT_NOWHERE,  /* no step: a view, or arithmetic on dims and constants that binding does */
  PLACEMENT_POSSIBLE, /* natively, or on the host if extents say so */
  PLACEMENT_HOST
} placement;
placement node_placement(const rlx_node *n);
const char *placement_name(placement p); /* "device", "", "device or host", "host" */

/* The policy for a node: the session's, or an exception's. */
rlx_policy node_policy(const rlx_session_options *o, const rlx_node *n);

/* Judges g and its subgraphs: fails with POLICY listing every node that cannot but fall back against a `forbid`; logs
 * those with `warn`, and one line about the others. */
rlx_status policy_check(const rlx_graph *g, const target *t);

#endif
