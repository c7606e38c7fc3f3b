/* _dims.h — which dims are the same whatever the extents are. */
#ifndef PASS_DIMS_H
#define PASS_DIMS_H

#include "ir/graph.h"

/* A key for every dim of every value of a graph: equal keys, equal extents in every run. By value id. */
typedef uint64_t dim_keys[RLX_MAX_RANK];

/* In `memory`; NULL when it is short. Nodes must be in order, ids dense. */
dim_keys *dims_number(const rlx_graph *g, arena *memory);
/* a and b, values of the graph, have one shape. */
bool dims_same(const dim_keys *keys, const rlx_value *a, const rlx_value *b);

#endif
