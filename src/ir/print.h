/* print.h — the text form of graphs: ONNX's textual syntax with extensions (docs in parse.h). */
#ifndef IR_PRINT_H
#define IR_PRINT_H

#include "base/text.h"
#include "ir/graph.h"

/* Tensors over this many elements go to the side file. */
enum { PRINT_INLINE_MAX = 64 };

/* parse(print(g)) == g. Tensors over PRINT_INLINE_MAX elements are written to `side` (a file in the folder of the text,
 * created as needed) when given, else inline. */
rlx_status graph_print(const rlx_graph *g, const char *side, text *out);
/* For people: types stand at the nodes' outputs, and the contents of tensors over PRINT_INLINE_MAX elements are cut to
 * "{...}", which the parser refuses. */
void graph_dump(const rlx_graph *g, text *out);
/* One node as in graph_dump, without the indentation; subgraphs are cut. For messages. */
void node_print(const rlx_node *n, text *out);
/* "float[N, 3]"; symbols as in rlx_value, or NULL. */
void type_print(const rlx_type *t, const char *const *symbols, text *out);

#endif
