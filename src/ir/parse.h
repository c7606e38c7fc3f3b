/* parse.h — the parser of the text form. */
#ifndef IR_PARSE_H
#define IR_PARSE_H

#include "ir/graph.h"

/* `name` is for messages ("model.rlx:12:3: …"); `folder` is where side files of tensors are looked for,
 * NULL: refused. */
rlx_status graph_parse(const char *source, size_t size, const char *name, const char *folder,
                       const rlx_registry *registry, rlx_graph **out);
/* A sample row of an op record: "float[2,3], float[3] {axis = 1}": types and attributes into a graph
 * with one node and an input a type. */
rlx_status sample_parse(const char *row, const char *op, const rlx_registry *registry, rlx_graph **out);

#endif
