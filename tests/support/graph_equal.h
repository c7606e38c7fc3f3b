/* graph_equal.h — structural equality of graphs, for tests. */
#ifndef TESTS_GRAPH_EQUAL_H
#define TESTS_GRAPH_EQUAL_H

#include "ir/graph.h"

/* Compares everything a graph says: names, types, symbols of unknown dims, constants bit by bit, nodes in order with
 * versions, attributes and subgraphs, opsets, metadata. NULL if equal, else the first difference (one buffer). */
const char *graph_difference(const rlx_graph *a, const rlx_graph *b);

#endif
