/* parse_attr.c — the parser's attributes. */
#include <inttypes.h>
#include <string.h>

#include "ir/number.h"
#include "ir/parser.h"

static const struct {
  const char *word;
  rlx_attr_kind kind, list; /* list: what a list of these makes */
} kinds[] = {
    {"float", RLX_ATTR_FLOAT, RLX_ATTR_FLOATS},     {"int", RLX_ATTR_INT, RLX_ATTR_INTS},
    {"string", RLX_ATTR_STRING, RLX_ATTR_STRINGS},  {"tensor", RLX_ATTR_TENSOR, RLX_ATTR_TENSORS},
    {"graph", RLX_ATTR_GRAPH, RLX_ATTR_GRAPHS},     {"type_proto", RLX_ATTR_TYPE, RLX_ATTR_TYPES},
    {"bytes", RLX_ATTR_BYTES, RLX_ATTR_NONE},       {"floats", RLX_ATTR_FLOATS, RLX_ATTR_NONE},
    {"ints", RLX_ATTR_INTS, RLX_ATTR_NONE},         {"strings", RLX_ATTR_STRINGS, RLX_ATTR_NONE},
    {"tensors", RLX_ATTR_TENSORS, RLX_ATTR_NONE},   {"graphs", RLX_ATTR_GRAPHS, RLX_ATTR_NONE},
    {"type_protos", RLX_ATTR_TYPES, RLX_ATTR_NONE},
};
enum { KIND_COUNT = sizeof kinds / sizeof *kinds };

static const char *kind_word(rlx_attr_kind kind) {
  for (int i = 0; i < KIND_COUNT; i++)
    if (kinds[i].kind == kind) return kinds[i].word;
  return "nothing";
}

static rlx_attr_kind list_kind(rlx_attr_kind kind) {
  for (int i = 0; i < KIND_COUNT; i++)
    if (kinds[i].kind == kind) return kinds[i].list;
  return RLX_ATTR_NONE;
}

static void release(rlx_attr *a) {
  rlx_tensor_destroy(a->tensor);
  for (size_t i = 0; a->tensors && i < a->count; i++) rlx_tensor_destroy(a->tensors[i]);
}

void attrs_finish(attr_list *attrs) {
  for (size_t i = 0; i < attrs->count; i++) release(&attrs->data[i]);
  vector_finish(attrs);
}

/* ---- single values ---- */

static rlx_status parse_number(parser *p, rlx_attr *a) {
  const token *t = &p->lex.token;
  a->kind = t->kind == TOKEN_INT ? RLX_ATTR_INT : RLX_ATTR_FLOAT;
  bool good =
      t->kind == TOKEN_INT ? number_parse_int(t->start, t->size, &a->i) : number_parse_float(t->start, t->size, &a->f);
  int size = (int)(t->size < 40 ? t->size : 40);
  if (!good) return lexer_fail(&p->lex, RLX_INVALID, "'%.*s' is no %s", size, t->start, kind_word(a->kind));
  lexer_next(&p->lex);
  return RLX_OK;
}

static rlx_status parse_string(parser *p, rlx_attr *a) {
  char *data;
  a->kind = RLX_ATTR_STRING;
  RLX_TRY(lexer_string(&p->lex, &p->scratch, &data, &a->s.size));
  a->s.data = data;
  lexer_next(&p->lex);
  return RLX_OK;
}

static int hex_value(char c) {
  const char *digits = "0123456789abcdef", *at = c ? strchr(digits, c) : NULL;
  return at ? (int)(at - digits) : -1;
}

static rlx_status parse_bytes(parser *p, rlx_attr *a) {
  char *data;
  size_t size;
  lexer_next(&p->lex);
  a->kind = RLX_ATTR_BYTES;
  RLX_TRY(lexer_string(&p->lex, &p->scratch, &data, &size));
  for (size_t i = 0; i < size; i += 2) {
    int high = hex_value(data[i]), low = i + 1 < size ? hex_value(data[i + 1]) : -1;
    if (high < 0 || low < 0) return lexer_fail(&p->lex, RLX_MALFORMED, "bytes are pairs of hexadecimal digits");
    data[i / 2] = (char)(high << 4 | low);
  }
  a->s = (rlx_string){data, size / 2};
  lexer_next(&p->lex);
  return RLX_OK;
}

/* "float[2] {1, 2}", "float[2] name = {1, 2}" (the name is not kept), or a type alone. */
static rlx_status parse_tensor_or_type(parser *p, rlx_attr *a) {
  rlx_type *type = arena_alloc(&p->scratch, sizeof *type);
  const char **symbols, *name;
  if (!type) return status_no_memory(sizeof *type);
  RLX_TRY(parser_type(p, type, &symbols));
  if (p->lex.token.kind == TOKEN_NAME || p->lex.token.kind == TOKEN_STRING) RLX_TRY(parser_name(p, &name));
  lexer_accept(&p->lex, "=");
  if (lexer_is(&p->lex, "{") || lexer_is(&p->lex, "[")) {
    a->kind = RLX_ATTR_TENSOR;
    return parser_tensor(p, type, &a->tensor);
  }
  a->kind = RLX_ATTR_TYPE;
  a->types = type;
  a->count = 1;
  return RLX_OK;
}

/* A graph begins with its name and "(". */
static bool at_graph(const parser *p) {
  if (p->lex.token.kind != TOKEN_NAME && p->lex.token.kind != TOKEN_STRING) return false;
  for (const char *const *word = (const char *const[]){"seq", "optional", "map", "sparse_tensor", NULL}; *word; word++)
    if (lexer_is(&p->lex, *word)) return false;
  lexer next = p->lex;
  lexer_next(&next);
  return lexer_is(&next, "(");
}

static rlx_status parse_scalar(parser *p, rlx_graph *g, rlx_attr *a) {
  const token *t = &p->lex.token;
  if (at_graph(p)) {
    a->kind = RLX_ATTR_GRAPH;
    return parser_graph(p, g, &a->graph);
  }
  if (t->kind == TOKEN_INT || t->kind == TOKEN_FLOAT || lexer_is(&p->lex, "inf") || lexer_is(&p->lex, "nan"))
    return parse_number(p, a);
  if (t->kind == TOKEN_STRING) return parse_string(p, a);
  if (lexer_is(&p->lex, "bytes")) return parse_bytes(p, a);
  if (lexer_is(&p->lex, "@"))
    return lexer_fail(&p->lex, RLX_UNSUPPORTED, "an attribute of the function around it, outside of any function");
  if (t->kind != TOKEN_NAME) return lexer_unexpected(&p->lex, "an attribute's value");
  return parse_tensor_or_type(p, a);
}

/* ---- lists ---- */

/* Gathers the single values into the list they make; their tensors move into it. */
static rlx_status gather(parser *p, const attr_list *items, rlx_attr_kind kind, rlx_attr *a) {
  size_t n = items->count;
  const rlx_attr *from = items->data;
  void *memory = arena_array(&p->scratch, n, sizeof(rlx_type)); /* the largest of the entries */
  if (!memory) return status_no_memory(n * sizeof(rlx_type));
  float *floats = memory;
  int64_t *ints = memory;
  rlx_string *strings = memory;
  rlx_tensor **tensors = memory;
  rlx_graph **graphs = memory;
  rlx_type *types = memory;
  for (size_t i = 0; i < n; i++) switch (kind) {
      case RLX_ATTR_FLOATS: floats[i] = from[i].kind == RLX_ATTR_INT ? (float)from[i].i : from[i].f; break;
      case RLX_ATTR_INTS: ints[i] = from[i].i; break;
      case RLX_ATTR_STRINGS: strings[i] = from[i].s; break;
      case RLX_ATTR_TENSORS: tensors[i] = rlx_tensor_retain(from[i].tensor); break;
      case RLX_ATTR_GRAPHS: graphs[i] = from[i].graph; break;
      default: types[i] = *from[i].types; break;
    }
  a->kind = kind;
  a->count = n;
  a->floats = kind == RLX_ATTR_FLOATS ? floats : NULL;
  a->ints = kind == RLX_ATTR_INTS ? ints : NULL;
  a->strings = kind == RLX_ATTR_STRINGS ? strings : NULL;
  a->tensors = kind == RLX_ATTR_TENSORS ? tensors : NULL;
  a->graphs = kind == RLX_ATTR_GRAPHS ? graphs : NULL;
  a->types = kind == RLX_ATTR_TYPES ? types : NULL;
  return RLX_OK;
}

static rlx_status parse_items(parser *p, rlx_graph *g, attr_list *items) {
  if (lexer_is(&p->lex, "]")) return RLX_OK;
  do {
    rlx_attr item = {0};
    rlx_status status = parse_scalar(p, g, &item);
    if (status == RLX_OK && !vector_push(items, item)) status = status_no_memory(sizeof item);
    if (status != RLX_OK) {
      release(&item);
      return status;
    }
  } while (lexer_accept(&p->lex, ","));
  return RLX_OK;
}

/* One kind for all; integers among floats are floats. */
static rlx_status common_kind(const parser *p, const attr_list *items, rlx_attr_kind *kind) {
  for (size_t i = 0; i < items->count; i++) {
    rlx_attr_kind k = items->data[i].kind;
    bool mixed = (*kind == RLX_ATTR_INT && k == RLX_ATTR_FLOAT) || (*kind == RLX_ATTR_FLOAT && k == RLX_ATTR_INT);
    if (mixed)
      *kind = RLX_ATTR_FLOAT;
    else if (i && k != *kind)
      return lexer_fail(&p->lex, RLX_INVALID, "a list of %s and %s", kind_word(*kind), kind_word(k));
    else
      *kind = k;
  }
  *kind = list_kind(*kind);
  if (items->count && *kind == RLX_ATTR_NONE) return lexer_fail(&p->lex, RLX_UNSUPPORTED, "a list of bytes");
  return RLX_OK;
}

static rlx_status parse_list(parser *p, rlx_graph *g, rlx_attr *a) {
  attr_list items = {0};
  rlx_attr_kind kind = RLX_ATTR_NONE;
  lexer_next(&p->lex);
  rlx_status status = parse_items(p, g, &items);
  if (status == RLX_OK) status = common_kind(p, &items, &kind);
  if (status == RLX_OK) status = lexer_expect(&p->lex, "]");
  if (status == RLX_OK) status = gather(p, &items, kind, a);
  attrs_finish(&items);
  return status;
}

/* ---- attributes ---- */

/* Makes the value of the kind that was written before it. */
static rlx_status convert(parser *p, const lexer *at, rlx_attr_kind declared, rlx_attr *a) {
  if (declared == RLX_ATTR_NONE && a->kind == RLX_ATTR_NONE)
    return lexer_fail(at, RLX_INVALID, "an empty list says no kind: write \"%s: ints = []\", or what it is", a->name);
  if (declared == RLX_ATTR_NONE || declared == a->kind) return RLX_OK;
  if (declared == RLX_ATTR_FLOAT && a->kind == RLX_ATTR_INT) {
    a->f = (float)a->i;
    a->i = 0;
  } else if (declared == RLX_ATTR_FLOATS && a->kind == RLX_ATTR_INTS) {
    float *floats = arena_array(&p->scratch, a->count, sizeof *floats);
    if (!floats) return status_no_memory(a->count * sizeof *floats);
    for (size_t i = 0; i < a->count; i++) floats[i] = (float)a->ints[i];
    a->floats = floats;
    a->ints = NULL;
  } else if (a->kind != RLX_ATTR_NONE || list_kind(declared) != RLX_ATTR_NONE || declared == RLX_ATTR_BYTES) {
    return lexer_fail(at, RLX_INVALID, "attribute '%s' is %s, declared %s", a->name, kind_word(a->kind),
                      kind_word(declared));
  }
  a->kind = declared;
  return RLX_OK;
}

static rlx_status parse_declared_kind(parser *p, rlx_attr_kind *kind) {
  if (!lexer_accept(&p->lex, ":")) return RLX_OK;
  for (int i = 0; i < KIND_COUNT; i++)
    if (lexer_accept(&p->lex, kinds[i].word)) {
      *kind = kinds[i].kind;
      return RLX_OK;
    }
  if (lexer_is(&p->lex, "sparse_tensor") || lexer_is(&p->lex, "sparse_tensors"))
    return lexer_fail(&p->lex, RLX_UNSUPPORTED, "sparse tensors");
  return lexer_unexpected(&p->lex, "a kind of attribute");
}

static rlx_status parse_attr(parser *p, rlx_graph *g, rlx_attr *a) {
  lexer at = p->lex;
  rlx_attr_kind declared = RLX_ATTR_NONE;
  RLX_TRY(parser_name(p, &a->name));
  RLX_TRY(parse_declared_kind(p, &declared));
  RLX_TRY(lexer_expect(&p->lex, "="));
  RLX_TRY(lexer_is(&p->lex, "[") ? parse_list(p, g, a) : parse_scalar(p, g, a));
  return convert(p, &at, declared, a);
}

rlx_status parser_attrs(parser *p, rlx_graph *g, const char *close, attr_list *out) {
  lexer_next(&p->lex);
  if (lexer_accept(&p->lex, close)) return RLX_OK;
  do {
    rlx_attr a = {0};
    lexer at = p->lex;
    rlx_status status = parse_attr(p, g, &a);
    for (size_t i = 0; i < out->count && status == RLX_OK; i++)
      if (strcmp(out->data[i].name, a.name) == 0)
        status = lexer_fail(&at, RLX_INVALID, "attribute '%s' is given twice", a.name);
    if (status == RLX_OK && !vector_push(out, a)) status = status_no_memory(sizeof a);
    if (status != RLX_OK) {
      release(&a);
      return status;
    }
  } while (lexer_accept(&p->lex, ","));
  return lexer_expect(&p->lex, close);
}
