/* sample.c — sample rows of op records to graphs of one node. */
#include <string.h>

#include "ir/number.h"
#include "ir/parse.h"
#include "ir/parser.h"
#include "ir/registry.h"

typedef VECTOR(rlx_value *) input_list;

/* "float[2,3]", "int64[2] = {1, 2}", or nothing: left out. */
static rlx_status parse_input(parser *p, rlx_graph *g, rlx_value **out) {
  rlx_type type;
  const char **symbols;
  *out = NULL;
  if (lexer_is(&p->lex, ",")) return RLX_OK;
  RLX_TRY(parser_type(p, &type, &symbols));
  if (type.rank == RLX_UNKNOWN) type.rank = 0;
  if (lexer_accept(&p->lex, "=")) {
    rlx_tensor *t;
    RLX_TRY(parser_tensor(p, &type, &t));
    *out = rlx_graph_constant(g, NULL, t);
    rlx_tensor_destroy(t);
  } else {
    *out = rlx_graph_input(g, NULL, &type);
  }
  return rlx_graph_status(g);
}

static bool at_tail(const parser *p) {
  return p->lex.token.kind == TOKEN_END || lexer_is(&p->lex, "{") || lexer_is(&p->lex, "=>");
}

static rlx_status parse_row(parser *p, rlx_graph *g, input_list *inputs, attr_list *attrs, int *outputs) {
  if (!at_tail(p)) do {
      rlx_value *v;
      RLX_TRY(parse_input(p, g, &v));
      if (!vector_push(inputs, v)) return status_no_memory(sizeof v);
    } while (lexer_accept(&p->lex, ","));
  if (lexer_is(&p->lex, "{")) RLX_TRY(parser_attrs(p, g, "}", attrs));
  if (lexer_accept(&p->lex, "=>")) {
    int64_t count;
    const token *t = &p->lex.token;
    if (t->kind != TOKEN_INT || !number_parse_int(t->start, t->size, &count) || count < 1 || count > 1000)
      return lexer_unexpected(&p->lex, "a count of outputs");
    *outputs = (int)count;
    lexer_next(&p->lex);
  }
  return p->lex.token.kind == TOKEN_END ? RLX_OK : lexer_unexpected(&p->lex, "the end");
}

/* As many as are not optional, at least one. */
static int default_outputs(const op_entry *e) {
  int count = 0;
  for (int i = 0; i < e->output_count; i++)
    if (!(e->op.outputs[i].flags & RLX_OPTIONAL)) count = i + 1;
  return count ? count : 1;
}

static rlx_status add_node(rlx_graph *g, const char *op, int version, const input_list *inputs, const attr_list *attrs,
                           int outputs) {
  rlx_node_desc desc = {.struct_size = sizeof desc,
                        .op = op,
                        .inputs = inputs->data,
                        .input_count = (int)inputs->count,
                        .attrs = attrs->data,
                        .attr_count = (int)attrs->count,
                        .output_count = outputs};
  g->node_opset = version;
  rlx_node *n = rlx_graph_node(g, &desc);
  g->node_opset = 0;
  for (int i = 0; n && i < outputs; i++) rlx_graph_output(g, n->outputs[i], NULL);
  return rlx_graph_finish(g);
}

static rlx_status fill(parser *p, rlx_graph *g, const op_entry *e) {
  input_list inputs = {0};
  attr_list attrs = {0};
  int outputs = default_outputs(e), version = e->op.version ? e->op.version : 1;
  rlx_status status = parse_row(p, g, &inputs, &attrs, &outputs);
  if (status == RLX_OK) status = add_node(g, e->op.name, version, &inputs, &attrs, outputs);
  vector_finish(&inputs);
  attrs_finish(&attrs);
  return status;
}

rlx_status sample_parse_for(const char *row, const op_entry *e, const rlx_registry *registry, rlx_graph **out) {
  parser p = {.registry = registry};
  rlx_graph *g;
  RLX_TRY(graph_create(registry, NULL, &g));
  lexer_start(&p.lex, row, strlen(row), "sample");
  rlx_status status = fill(&p, g, e);
  arena_finish(&p.scratch);
  if (status == RLX_OK) {
    *out = g;
    return RLX_OK;
  }
  rlx_graph_destroy(g);
  return status_prefix(status, "%s \"%s\"", e->op.name, row);
}

rlx_status sample_parse(const char *row, const char *op, const rlx_registry *registry, rlx_graph **out) {
  op_entry *e = registry_find_op(registry, op, 0);
  if (!e) return RLX_FAIL(NOT_FOUND, "no op '%s'", op);
  rlx_status status = sample_parse_for(row, e, registry, out);
  op_entry_release(e);
  return status;
}
