/* print.h — the text form of graphs: ONNX's textual syntax with extensions. */
#ifndef IR_PRINT_H
#define IR_PRINT_H

#include "base/text.h"
#include "ir/graph.h"

/* parse(print(g)) == g. Tensors over 64 elements are written to `side` (a file next to the text, created
 * as needed) when given, else inline. */
rlx_status graph_print(const rlx_graph *g, const char *side, text *out);
/* One node as a line, for messages and dumps. */
void node_print(const rlx_node *n, text *out);

#endif
