/* _activation.h — recognising an activation after a node, as fused ops take it. */
#ifndef PASS_ACTIVATION_H
#define PASS_ACTIVATION_H

#include "ops/_fused_activation.h"
#include "pass/_rewrite.h"

enum { ACTIVATION_NODES = 5 };

typedef struct activation_match {
  fused_activation kind; /* FUSED_NONE: none follows */
  float alpha, beta;
  rlx_node *nodes[ACTIVATION_NODES]; /* what the activation consists of, last one last */
  int count;
} activation_match;

/* The activation that output 0 of `n` goes through, and nothing else uses it. */
activation_match activation_after(const rewriter *r, const rlx_node *n);

#endif
