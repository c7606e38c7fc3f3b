/* pipeline.h — graphs given as text, through the passes and through sessions, for tests of passes. */
#ifndef SUPPORT_PIPELINE_H
#define SUPPORT_PIPELINE_H

#include "ir/graph.h"

/* The graph after the passes for the CPU, without those in `disabled` (NULL: none). Freed with pipeline_free. */
rlx_graph *pipeline_compile(const char *source, const char *disabled);
void pipeline_free(rlx_graph *g);
/* Nodes of g (subgraphs left out) with that op. */
int pipeline_count(const rlx_graph *g, const char *op);
/* Runs the graph in two sessions, one without the passes in `disabled`, on the same random float inputs (unknown dims
 * are `extent`). The largest difference of an output, divided by its largest magnitude. */
double pipeline_difference(const char *source, const char *disabled, int64_t extent);

#endif
