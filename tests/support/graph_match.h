/* graph_match.h — does a graph compute what another one says, whatever its values are called? For pass tests. */
#ifndef TESTS_GRAPH_MATCH_H
#define TESTS_GRAPH_MATCH_H

#include "ir/graph.h"

/* Matches from the outputs backwards: inputs and outputs by name, constants by contents, nodes by op, attributes,
 * inputs and number. Names of nodes and inner values, order, and opset versions do not count. A type, origin or symbol
 * that `expected` does not say does not count either. NULL if they match, else the first difference (one buffer). */
const char *graph_mismatch(const rlx_graph *expected, const rlx_graph *actual);

#endif
