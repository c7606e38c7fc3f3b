/* policy.h — what falls back to the host of a GPU, and what the session says to that. */
#ifndef PASS_POLICY_H
#define PASS_POLICY_H

#include "pass/select.h"

typedef enum fallback {
  FALLBACK_NONE = 0,     /* runs on the device */
  FALLBACK_POSSIBLE = 1, /* extents, or what an operand turns out to be, may send it to the host */
  FALLBACK_CERTAIN = 2,  /* nothing on the device runs it */
  FALLBACK_FREE = 3      /* on the host at no cost of a trip: shape arithmetic, control flow */
} fallback;
fallback policy_judge(const rlx_node *n);

/* The policy for a node: that of the session, or its nearest exception. */
rlx_policy policy_of(const rlx_session_options *o, const rlx_node *n);

#endif
