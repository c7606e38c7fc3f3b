/* parse.c — text to graphs: the model's header, graphs and nodes, by recursive descent. */
#include "ir/parse.h"

#include <limits.h>
#include <string.h>

#include "base/log.h"
#include "ir/number.h"
#include "ir/parser.h"
#include "ir/shape.h"
#include "ir/validate.h"

/* Passes on the first failure of the graph, with the place in the text. */
static rlx_status check(const rlx_graph *g, const lexer *at) {
  rlx_status status = rlx_graph_status(g);
  return status == RLX_OK ? RLX_OK : lexer_locate(at, status);
}

static rlx_status set_symbols(rlx_value *v, const char **symbols) {
  if (!symbols || v->symbols) return RLX_OK;
  v->symbols = arena_array(&v->graph->memory, RLX_MAX_RANK, sizeof *v->symbols);
  if (!v->symbols) return status_no_memory(RLX_MAX_RANK * sizeof *v->symbols);
  for (int i = 0; i < RLX_MAX_RANK; i++) {
    v->symbols[i] = symbols[i] ? arena_strdup(&v->graph->memory, symbols[i]) : NULL;
    if (symbols[i] && !v->symbols[i]) return status_no_memory(1);
  }
  return RLX_OK;
}

/* ---- values ---- */

/* A value under a name that is new in g. */
static rlx_status make_value(rlx_graph *g, const lexer *at, const declaration *d, rlx_value **out) {
  if (*d->name && map_get(&g->names, d->name))
    return lexer_fail(at, RLX_INVALID, "the name '%s' is used twice", d->name);
  rlx_value *v = graph_value(g, d->name);
  if (!v) return status_no_memory(sizeof *v);
  v->type = d->type;
  v->layout = d->layout;
  *out = v;
  return set_symbols(v, d->symbols);
}

/* "x", "^x" or nothing ("", or the sign that ends it): NULL. */
static rlx_status parse_use(parser *p, const rlx_graph *g, rlx_value **out) {
  const rlx_graph *from = g;
  const char *name;
  lexer at = p->lex;
  *out = NULL;
  if (lexer_is(&p->lex, ",") || lexer_is(&p->lex, ")")) return RLX_OK;
  while (lexer_accept(&p->lex, "^")) {
    from = from->parent;
    if (!from) return lexer_fail(&at, RLX_INVALID, "'^' leads out of the outermost graph");
  }
  RLX_TRY(parser_name(p, &name));
  if (!*name) return RLX_OK;
  *out = graph_find(from, name);
  return *out ? RLX_OK : lexer_fail(&at, RLX_INVALID, "no value '%s' before its use", name);
}

/* "float[2] w = {1, 2}" makes a constant. Of an input too, as when a file of ONNX is loaded: sort_inputs. */
static rlx_status parse_constant(parser *p, rlx_graph *g, const lexer *at, const declaration *d) {
  rlx_tensor *t = NULL;
  char declared[256], given[256];
  RLX_TRY(parser_tensor(p, &d->type, &t));
  rlx_value *v = map_get(&g->names, d->name);
  rlx_status status = RLX_OK;
  if (!v || !v->is_input || v->constant) {
    rlx_graph_constant(g, d->name, t);
    status = check(g, at);
  } else if (v->type.dtype != RLX_UNDEFINED && !type_admits(&v->type, &d->type)) {
    status = lexer_fail(at, RLX_INVALID, "input '%s' is %s, its contents %s", d->name,
                        type_text(&v->type, declared, sizeof declared), type_text(&d->type, given, sizeof given));
  } else if (!vector_push(&g->defaults, ((graph_default){v, v->type}))) {
    status = status_no_memory(sizeof(graph_default));
  } else {
    v->constant = rlx_tensor_retain(t);
    rlx_tensor_type(t, &v->type);
  }
  rlx_tensor_destroy(t);
  return status;
}

/* Inputs that were given contents are constants; before version 4 of the format these are no defaults. */
static void sort_inputs(const parser *p, rlx_graph *g) {
  size_t kept = 0;
  for (size_t i = 0; i < g->inputs.count; i++) {
    rlx_value *v = g->inputs.data[i];
    v->is_input = !v->constant;
    if (v->is_input) g->inputs.data[kept++] = v;
  }
  g->inputs.count = kept;
  if (g->parent || (p->ir_version && p->ir_version < DEFAULTS_IR)) g->defaults.count = 0;
}

static rlx_status parse_inputs(parser *p, rlx_graph *g) {
  RLX_TRY(lexer_expect(&p->lex, "("));
  if (lexer_accept(&p->lex, ")")) return RLX_OK;
  do {
    declaration d;
    rlx_value *v;
    lexer at = p->lex;
    RLX_TRY(parser_declaration(p, &d));
    if (!*d.name) return lexer_fail(&at, RLX_INVALID, "an input without a name");
    if (!g->parent && d.type.dtype == RLX_UNDEFINED)
      return lexer_fail(&at, RLX_INVALID, "input '%s' has no type", d.name);
    RLX_TRY(make_value(g, &at, &d, &v));
    v->is_input = true;
    if (!vector_push(&g->inputs, v)) return status_no_memory(sizeof v);
    if (lexer_accept(&p->lex, "=")) RLX_TRY(parse_constant(p, g, &at, &d));
  } while (lexer_accept(&p->lex, ","));
  return lexer_expect(&p->lex, ")");
}

/* ---- outputs: read before the nodes, bound after them ---- */

typedef struct output_port {
  declaration declared;
  lexer at, use; /* where it stands, and where the value it renames does */
  bool renames;
} output_port;
typedef VECTOR(output_port) output_list;

static rlx_status parse_output(parser *p, output_port *o) {
  const char *name;
  o->at = p->lex;
  RLX_TRY(parser_declaration(p, &o->declared));
  if (!*o->declared.name) return lexer_fail(&o->at, RLX_INVALID, "an output without a name");
  o->renames = lexer_accept(&p->lex, "=");
  if (!o->renames) return RLX_OK;
  o->use = p->lex;
  while (lexer_accept(&p->lex, "^")) continue;
  return parser_name(p, &name);
}

/* "(float y, z = x)" */
static rlx_status parse_outputs(parser *p, output_list *outputs) {
  RLX_TRY(lexer_expect(&p->lex, "("));
  if (lexer_accept(&p->lex, ")")) return RLX_OK;
  do {
    output_port o = {0};
    RLX_TRY(parse_output(p, &o));
    if (!vector_push(outputs, o)) return status_no_memory(sizeof o);
  } while (lexer_accept(&p->lex, ","));
  return lexer_expect(&p->lex, ")");
}

static rlx_status bind_output(parser *p, rlx_graph *g, const output_port *o) {
  const declaration *d = &o->declared;
  rlx_value *v = graph_find(g, d->name);
  if (o->renames) {
    p->lex = o->use;
    RLX_TRY(parse_use(p, g, &v));
  }
  if (!v) return lexer_fail(&o->at, RLX_INVALID, "no value '%s' for the output", d->name);
  if (d->type.dtype != RLX_UNDEFINED && v->type.dtype != RLX_UNDEFINED && v->type.dtype != d->type.dtype)
    return lexer_fail(&o->at, RLX_INVALID, "output '%s' is %s, declared %s", d->name, rlx_dtype_name(v->type.dtype),
                      rlx_dtype_name(d->type.dtype));
  if (v->producer && v->graph == g) {
    if (d->type.kind != RLX_KIND_TENSOR || d->type.dtype != RLX_UNDEFINED || d->type.rank != RLX_UNKNOWN) {
      rlx_dtype known = v->type.dtype;
      v->type = d->type;
      if (v->type.dtype == RLX_UNDEFINED) v->type.dtype = known;
      v->layout = d->layout;
    }
    RLX_TRY(set_symbols(v, d->symbols));
  }
  rlx_graph_output(g, v, d->name);
  return check(g, &o->at);
}

static rlx_status bind_outputs(parser *p, rlx_graph *g, output_list *outputs) {
  lexer after = p->lex;
  map names = {0};
  rlx_status status = RLX_OK;
  for (size_t i = 0; i < outputs->count && status == RLX_OK; i++) {
    output_port *o = &outputs->data[i];
    if (map_get(&names, o->declared.name))
      status = lexer_fail(&o->at, RLX_INVALID, "the output '%s' is given twice", o->declared.name);
    else if (!map_put(&names, o->declared.name, o))
      status = status_no_memory(sizeof o);
    else
      status = bind_output(p, g, o);
  }
  map_finish(&names);
  p->lex = after;
  return status;
}

/* ---- nodes ---- */

typedef VECTOR(declaration) declaration_list;
typedef VECTOR(rlx_value *) use_list;

/* A node being read. */
typedef struct node_parts {
  const char *name, *origin, *op;
  int opset; /* 0: the graph's */
  declaration_list outputs;
  use_list inputs;
  attr_list attrs;
} node_parts;

static rlx_status parse_label(parser *p, node_parts *n) {
  if (!lexer_accept(&p->lex, "[")) return RLX_OK;
  RLX_TRY(parser_name(p, &n->name));
  if (lexer_accept(&p->lex, ":")) RLX_TRY(parser_name(p, &n->origin));
  return lexer_expect(&p->lex, "]");
}

static rlx_status parse_node_outputs(parser *p, node_parts *n) {
  if (lexer_accept(&p->lex, "=")) return RLX_OK;
  do {
    declaration d = {.name = ""};
    type_unknown(&d.type, RLX_UNDEFINED);
    if (!lexer_is(&p->lex, ",") && !lexer_is(&p->lex, "=")) RLX_TRY(parser_declaration(p, &d));
    if (!vector_push(&n->outputs, d)) return status_no_memory(sizeof d);
  } while (lexer_accept(&p->lex, ","));
  return lexer_expect(&p->lex, "=");
}

/* "Relu", "acme.my_op", or a whole name in quotes. */
static rlx_status parse_op_name(parser *p, const char **name) {
  bool quoted = p->lex.token.kind == TOKEN_STRING;
  RLX_TRY(parser_name(p, name));
  if (quoted) return RLX_OK;
  while (lexer_accept(&p->lex, ".")) {
    const char *part;
    RLX_TRY(parser_name(p, &part));
    *name = arena_printf(&p->scratch, "%s.%s", *name, part);
    if (!*name) return status_no_memory(1);
  }
  const char *dot = strrchr(*name, '.');
  if (!dot)
    *name = arena_printf(&p->scratch, "onnx.%s", *name);
  else if (dot - *name == 7 && strncmp(*name, "ai.onnx", 7) == 0)
    *name += 3;
  return *name ? RLX_OK : status_no_memory(1);
}

static rlx_status parse_op(parser *p, node_parts *n) {
  RLX_TRY(parse_op_name(p, &n->op));
  if (lexer_is(&p->lex, ":")) return lexer_fail(&p->lex, RLX_UNSUPPORTED, "overloads of functions");
  if (!lexer_accept(&p->lex, "@")) return RLX_OK;
  if (lexer_accept(&p->lex, "newest")) {
    n->opset = INT_MAX;
    return RLX_OK;
  }
  int64_t version;
  const token *t = &p->lex.token;
  if (t->kind != TOKEN_INT || !number_parse_int(t->start, t->size, &version) || version < 1 || version > INT_MAX)
    return lexer_unexpected(&p->lex, "a version");
  n->opset = (int)version;
  lexer_next(&p->lex);
  return RLX_OK;
}

static rlx_status parse_node_inputs(parser *p, const rlx_graph *g, node_parts *n) {
  RLX_TRY(lexer_expect(&p->lex, "("));
  if (lexer_accept(&p->lex, ")")) return RLX_OK;
  do {
    rlx_value *v;
    RLX_TRY(parse_use(p, g, &v));
    if (!vector_push(&n->inputs, v)) return status_no_memory(sizeof v);
  } while (lexer_accept(&p->lex, ","));
  return lexer_expect(&p->lex, ")");
}

static rlx_status parse_parts(parser *p, rlx_graph *g, node_parts *n) {
  RLX_TRY(parse_label(p, n));
  RLX_TRY(parse_node_outputs(p, n));
  RLX_TRY(parse_op(p, n));
  bool before = lexer_is(&p->lex, "<");
  if (before) RLX_TRY(parser_attrs(p, g, ">", &n->attrs));
  RLX_TRY(parse_node_inputs(p, g, n));
  if (!before && lexer_is(&p->lex, "<")) RLX_TRY(parser_attrs(p, g, ">", &n->attrs));
  return RLX_OK;
}

static rlx_status add_node(rlx_graph *g, const lexer *at, const node_parts *parts, const map *declared) {
  use_list outputs = {0};
  rlx_status status = RLX_OK;
  for (size_t i = 0; i < parts->outputs.count && status == RLX_OK; i++) {
    const declaration *d = &parts->outputs.data[i], *other = map_get(declared, d->name);
    rlx_value *v = NULL;
    status = make_value(g, at, other && d->type.dtype == RLX_UNDEFINED ? other : d, &v);
    if (status == RLX_OK && !vector_push(&outputs, v)) status = status_no_memory(sizeof v);
  }
  rlx_node_desc desc = {.struct_size = sizeof desc,
                        .op = parts->op,
                        .name = parts->name,
                        .inputs = parts->inputs.data,
                        .input_count = (int)parts->inputs.count,
                        .attrs = parts->attrs.data,
                        .attr_count = (int)parts->attrs.count,
                        .output_count = (int)parts->outputs.count};
  if (status == RLX_OK) {
    g->node_opset = parts->opset;
    rlx_node *n = graph_add_node(g, &desc, outputs.data);
    g->node_opset = 0;
    status = check(g, at);
    if (n && parts->origin) {
      n->origin = arena_strdup(&g->memory, parts->origin);
      if (!n->origin) status = status_no_memory(1);
    }
  }
  vector_finish(&outputs);
  return status;
}

static rlx_status parse_node(parser *p, rlx_graph *g, const map *declared) {
  node_parts parts = {0};
  lexer at = p->lex;
  rlx_status status = parse_parts(p, g, &parts);
  if (status == RLX_OK) status = add_node(g, &at, &parts, declared);
  vector_finish(&parts.outputs);
  vector_finish(&parts.inputs);
  attrs_finish(&parts.attrs);
  return status;
}

/* ---- graphs ---- */

/* "<float[2] w = {1, 2}, float[3] t>": constants, and types of values to come. */
static rlx_status parse_values(parser *p, rlx_graph *g, map *declared) {
  if (!lexer_accept(&p->lex, "<") || lexer_accept(&p->lex, ">")) return RLX_OK;
  do {
    lexer at = p->lex;
    declaration *d = arena_alloc(&p->scratch, sizeof *d);
    if (!d) return status_no_memory(sizeof *d);
    RLX_TRY(parser_declaration(p, d));
    if (lexer_accept(&p->lex, "="))
      RLX_TRY(parse_constant(p, g, &at, d));
    else if (!map_put(declared, d->name, d))
      return status_no_memory(sizeof *d);
  } while (lexer_accept(&p->lex, ","));
  return lexer_expect(&p->lex, ">");
}

static rlx_status parse_body(parser *p, rlx_graph *g, map *declared, output_list *outputs) {
  const char *name;
  RLX_TRY(parser_name(p, &name));
  g->name = arena_strdup(&g->memory, name);
  if (!g->name) return status_no_memory(1);
  RLX_TRY(parse_inputs(p, g));
  RLX_TRY(lexer_expect(&p->lex, "=>"));
  RLX_TRY(parse_outputs(p, outputs));
  RLX_TRY(parse_values(p, g, declared));
  sort_inputs(p, g);
  RLX_TRY(lexer_expect(&p->lex, "{"));
  while (!lexer_is(&p->lex, "}")) RLX_TRY(parse_node(p, g, declared));
  RLX_TRY(bind_outputs(p, g, outputs));
  return lexer_expect(&p->lex, "}");
}

static rlx_status fill_graph(parser *p, rlx_graph *g) {
  map declared = {0};
  output_list outputs = {0};
  RLX_TRY(parser_enter(p));
  rlx_status status = parse_body(p, g, &declared, &outputs);
  map_finish(&declared);
  vector_finish(&outputs);
  p->depth--;
  return status;
}

rlx_status parser_graph(parser *p, rlx_graph *parent, rlx_graph **out) {
  RLX_TRY(graph_create(p->registry, parent, out));
  return fill_graph(p, *out);
}

/* ---- the model's header ---- */

static rlx_status parse_opset(parser *p, rlx_graph *g) {
  const char *domain;
  lexer at = p->lex;
  int64_t version;
  RLX_TRY(parser_name(p, &domain));
  RLX_TRY(lexer_expect(&p->lex, ":"));
  const token *t = &p->lex.token;
  if (t->kind != TOKEN_INT || !number_parse_int(t->start, t->size, &version) || version < 1 || version > INT_MAX)
    return lexer_unexpected(&p->lex, "a version");
  lexer_next(&p->lex);
  rlx_graph_set_opset(g, domain, (int)version);
  return check(g, &at);
}

static rlx_status parse_metadata(parser *p, rlx_graph *g) {
  const char *key, *value;
  RLX_TRY(parser_name(p, &key));
  RLX_TRY(lexer_expect(&p->lex, ":"));
  RLX_TRY(parser_name(p, &value));
  graph_metadata m = {arena_strdup(&g->memory, key), arena_strdup(&g->memory, value)};
  return m.key && m.value && vector_push(&g->metadata, m) ? RLX_OK : status_no_memory(1);
}

static rlx_status parse_entries(parser *p, rlx_graph *g, rlx_status (*entry)(parser *, rlx_graph *)) {
  RLX_TRY(lexer_expect(&p->lex, "["));
  if (lexer_accept(&p->lex, "]")) return RLX_OK;
  do RLX_TRY(entry(p, g));
  while (lexer_accept(&p->lex, ","));
  return lexer_expect(&p->lex, "]");
}

static rlx_status parse_ir_version(parser *p) {
  const token *t = &p->lex.token;
  if (t->kind != TOKEN_INT || !number_parse_int(t->start, t->size, &p->ir_version) || p->ir_version < 1)
    return lexer_unexpected(&p->lex, "a version");
  lexer_next(&p->lex);
  return RLX_OK;
}

static rlx_status parse_field(parser *p, rlx_graph *g) {
  static const char *const not_kept[] = {"producer_name", "producer_version", "domain",
                                         "model_version", "doc_string",       NULL};
  const char *key;
  lexer at = p->lex;
  RLX_TRY(parser_name(p, &key));
  RLX_TRY(lexer_expect(&p->lex, ":"));
  if (strcmp(key, "opset_import") == 0) return parse_entries(p, g, parse_opset);
  if (strcmp(key, "ir_version") == 0) return parse_ir_version(p);
  if (strcmp(key, "metadata_props") == 0) return parse_entries(p, g, parse_metadata);
  for (int i = 0; not_kept[i]; i++) {
    if (strcmp(key, not_kept[i]) != 0) continue;
    token_kind kind = p->lex.token.kind;
    if (kind != TOKEN_INT && kind != TOKEN_STRING) return lexer_unexpected(&p->lex, "a number or a string");
    lexer_next(&p->lex);
    return RLX_OK;
  }
  return lexer_fail(&at, RLX_INVALID, "a model has no '%s'", key);
}

static rlx_status parse_header(parser *p, rlx_graph *g) {
  if (!lexer_accept(&p->lex, "<") || lexer_accept(&p->lex, ">")) return RLX_OK;
  do RLX_TRY(parse_field(p, g));
  while (lexer_accept(&p->lex, ","));
  return lexer_expect(&p->lex, ">");
}

static rlx_status parse_model(parser *p, rlx_graph *g) {
  RLX_TRY(parse_header(p, g));
  RLX_TRY(fill_graph(p, g));
  if (lexer_is(&p->lex, "<")) return lexer_fail(&p->lex, RLX_UNSUPPORTED, "model-local functions in text");
  if (p->lex.token.kind != TOKEN_END) return lexer_unexpected(&p->lex, "the end");
  return rlx_graph_finish(g);
}

rlx_status graph_parse(const char *source, size_t size, const char *name, const char *folder,
                       const rlx_registry *registry, rlx_graph **out) {
  parser p = {.folder = folder, .registry = registry};
  rlx_graph *g;
  RLX_TRY(graph_create(registry, NULL, &g));
  lexer_start(&p.lex, source, size, name);
  rlx_status status = parse_model(&p, g);
  arena_finish(&p.scratch);
  if (status == RLX_OK && (status = graph_validate(g)) != RLX_OK) /* types may be said after nodes use the values */
    status_prefix(status, "%s", name);
  if (status != RLX_OK) {
    rlx_graph_destroy(g);
    return status;
  }
  *out = g;
  return RLX_OK;
}
