/* _rewrite.h — replacing chains of nodes by one: who uses what, and making the new node or leaving things as they are.
 */
#ifndef PASS_REWRITE_H
#define PASS_REWRITE_H

#include "pass/_dims.h"
#include "pass/pass.h"

/* Node and value ids are those of the graph before the first rewrite; a node made takes the id of the first one that it
 * replaces, so that ids stay a topological order. Finished with rewriter_finish. */
typedef struct rewriter {
  rlx_graph *g;
  const target *t;
  arena memory;
  uint32_t *uses;          /* by value id, subgraphs and graph outputs included */
  rlx_node *(*users)[2];   /* by value id: the first two nodes of this graph that use it */
  dim_keys *dims;          /* by value id */
  VECTOR(rlx_node *) gone; /* to be removed */
  size_t value_count;
  bool changed;
} rewriter;

rlx_status rewriter_start(rewriter *r, rlx_graph *g, const target *t);
/* Removes what was replaced and sorts; passes `status` on if it is a failure. */
rlx_status rewriter_finish(rewriter *r, rlx_status status, bool *changed);

bool rewriter_is_gone(const rewriter *r, const rlx_node *n);
/* The op's name is `op`, and passes may replace the node. */
bool rewriter_is(const rlx_node *n, const char *op);
/* v is of this graph and used `count` times, all by nodes of it. */
bool rewriter_used(const rewriter *r, const rlx_value *v, uint32_t count);
/* The only user of output 0 of n, or NULL. */
rlx_node *rewriter_next(const rewriter *r, const rlx_node *n);

/* Makes a node that gives what the last of `old` gives, instead of all of `old` (first to last of a chain whose inner
 * values nobody else uses). *made NULL, and nothing changed, if only a slow reference could run it that is not
 * the first one's own. */
rlx_status rewriter_replace(rewriter *r, const rlx_node_desc *desc, rlx_node *const *old, int old_count,
                            rlx_node **made);

#endif
