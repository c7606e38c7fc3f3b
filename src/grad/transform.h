/* transform.h — what both modes of differentiation share: adding nodes to a graph, whose types are inferred as they
 * come. */
#ifndef GRAD_TRANSFORM_H
#define GRAD_TRANSFORM_H

#include "base/map.h"
#include "ir/graph.h"

enum { TRANSFORM_DEPTH = 16 }; /* derive and lower within each other */

/* One differentiation of a graph. Between begin and end nodes made in the graph mean the newest versions. */
typedef struct transform {
  rlx_graph *g;
  size_t first;          /* nodes from here on are this transform's */
  size_t settled;        /* nodes up to here have types */
  VECTOR(size_t) hidden; /* opset imports of g and the graphs around it, while they are out of sight */
  const op_entry *opened[TRANSFORM_DEPTH]; /* ops being rewritten, outermost first */
  int depth;
} transform;

rlx_status transform_begin(transform *t, rlx_graph *g);
/* Infers the types of the nodes added since the last time. */
rlx_status transform_settle(transform *t);
/* Takes away what was added and is not used, but for the values of `keep` (NULL entries allowed); sorts. Always called;
 * `status` is what came before, and what is returned if it was a failure, which the graph then remembers. */
rlx_status transform_end(transform *t, rlx_status status, rlx_value *const *keep, int keep_count);

/* The rewriting that stands for a missing rule: the op's derive, else its lower; NULL: it has neither. */
typedef rlx_status transform_rewrite(rlx_graph *g, const rlx_node *n, rlx_value **outputs);
transform_rewrite *transform_rewriting(const rlx_node *n);
/* Adds what it makes of n; outputs (of n->output_count) are the values like n's. transform_close afterwards. */
rlx_status transform_open(transform *t, rlx_node *n, rlx_value **outputs);
void transform_close(transform *t);

/* Derivatives flow through floats, and through what may be floats for all that is known. */
bool transform_is_float(const rlx_value *v);
bool transform_carries(const rlx_value *v);
bool transform_stops(const rlx_node *n); /* RLX_STOP_GRADIENT */

/* Maps keyed by value. */
void *value_get(const map *m, const rlx_value *v);
rlx_status value_put(map *m, const rlx_value *v, void *to);
/* Marks in `active` what depends on the values that are marked, among nodes [begin, end) of g. */
rlx_status transform_mark(const rlx_graph *g, size_t begin, size_t end, map *active);
/* Whether an input or capture of n is in the map. */
rlx_status transform_touches(const rlx_node *n, const map *m, bool *out);

/* The error of a missing rule: `via` maps a value to the node through which it was reached. `towards` is "loss" or
 * "input". */
rlx_status transform_no_rule(const rlx_node *n, const rlx_value *reached, const map *via, const char *mode);

#endif
