/* parser.h — what the parts of the parser share; private to parse*.c and sample.c. */
#ifndef IR_PARSER_H
#define IR_PARSER_H

#include "ir/graph.h"
#include "ir/lexer.h"

/* One text being read. Lives on the stack of graph_parse or sample_parse. */
typedef struct parser {
  lexer lex;
  arena scratch; /* strings and lists on their way into the graph */
  const char *folder;
  const rlx_registry *registry;
  int64_t ir_version; /* of the format, as the header says; 0: it does not */
  int depth;
} parser;

/* "float[N,2] x": the name and what was said of its type. */
typedef struct declaration {
  const char *name;
  rlx_type type; /* dtype UNDEFINED, rank unknown: nothing was said */
  uint32_t layout;
  const char **symbols; /* RLX_MAX_RANK entries in scratch, or NULL */
} declaration;

typedef VECTOR(rlx_attr) attr_list;

rlx_status parser_enter(parser *p); /* one level deeper; leave by p->depth-- */

/* parse_type.c */
bool parser_at_type(const parser *p);
rlx_status parser_type(parser *p, rlx_type *type, const char ***symbols);
rlx_status parser_name(parser *p, const char **name); /* plain or quoted; no NUL inside */
rlx_status parser_declaration(parser *p, declaration *out);
rlx_status parser_tensor(parser *p, const rlx_type *type, rlx_tensor **out); /* at "{" or "[" */

/* parse_attr.c: "<…>" or "{…}" by the closing sign, whose opening one is the current token. Tensors among them hold a
 * reference until attrs_finish. Subgraphs are made inside g. */
rlx_status parser_attrs(parser *p, rlx_graph *g, const char *close, attr_list *out);
void attrs_finish(attr_list *attrs);

/* parse.c */
rlx_status parser_graph(parser *p, rlx_graph *parent, rlx_graph **out);

#endif
