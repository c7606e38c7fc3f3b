/* parse_type.c — the parser's types, declarations and tensors. */
#include <inttypes.h>
#include <rlx/extend.h>
#include <string.h>

#include "ir/number.h"
#include "ir/parse.h"
#include "ir/parser.h"
#include "ir/shape.h"
#include "ir/tensor_text.h"

rlx_status parser_enter(parser *p) {
  if (p->depth >= PARSE_MAX_DEPTH) return lexer_fail(&p->lex, RLX_INVALID, "nested deeper than %d", PARSE_MAX_DEPTH);
  p->depth++;
  return RLX_OK;
}

rlx_status parser_name(parser *p, const char **name) {
  const token *t = &p->lex.token;
  if (t->kind == TOKEN_NAME) {
    *name = arena_strndup(&p->scratch, t->start, t->size);
    if (!*name) return status_no_memory(t->size);
  } else {
    char *quoted;
    size_t size;
    if (t->kind != TOKEN_STRING) return lexer_unexpected(&p->lex, "a name");
    RLX_TRY(lexer_string(&p->lex, &p->scratch, &quoted, &size));
    if (memchr(quoted, '\0', size)) return lexer_fail(&p->lex, RLX_INVALID, "a name with a zero byte");
    *name = quoted;
  }
  lexer_next(&p->lex);
  return RLX_OK;
}

/* ---- types ---- */

/* The dtype that the current token names. */
static rlx_dtype token_dtype(const lexer *l) {
  char name[32];
  if (l->token.kind != TOKEN_NAME || l->token.size >= sizeof name) return RLX_UNDEFINED;
  memcpy(name, l->token.start, l->token.size);
  name[l->token.size] = '\0';
  return rlx_dtype_parse(name);
}

static const struct {
  const char *word;
  rlx_kind kind;
} containers[] = {{"seq", RLX_KIND_SEQUENCE}, {"optional", RLX_KIND_OPTIONAL}, {"map", RLX_KIND_MAP}};
enum { CONTAINER_COUNT = sizeof containers / sizeof *containers };

/* Is the token after the current one what follows a tensor's type? */
static bool at_name_or_dims(lexer l) {
  lexer_next(&l);
  return l.token.kind == TOKEN_NAME || l.token.kind == TOKEN_STRING || lexer_is(&l, "[");
}

/* A type is followed by a name: in "float = Relu (x)" the first word is one. */
bool parser_at_type(const parser *p) {
  bool word =
      token_dtype(&p->lex) != RLX_UNDEFINED || lexer_is(&p->lex, "undefined") || lexer_is(&p->lex, "sparse_tensor");
  for (int i = 0; i < CONTAINER_COUNT; i++) word = word || lexer_is(&p->lex, containers[i].word);
  if (!word) return false;
  lexer next = p->lex;
  lexer_next(&next);
  return !lexer_is(&next, "=") && !lexer_is(&next, ",") && !lexer_is(&next, ")");
}

static rlx_status parse_dim(parser *p, rlx_type *type, const char ***symbols) {
  lexer *l = &p->lex;
  int i = type->rank;
  if (i == RLX_MAX_RANK) return lexer_fail(l, RLX_INVALID, "rank over %d", RLX_MAX_RANK);
  type->dims[i] = RLX_UNKNOWN;
  type->rank++;
  if (lexer_accept(l, "?")) return RLX_OK;
  if (l->token.kind == TOKEN_INT) {
    if (!number_parse_int(l->token.start, l->token.size, &type->dims[i]) || type->dims[i] < RLX_UNKNOWN)
      return lexer_fail(l, RLX_INVALID, "dim %.*s", (int)(l->token.size < 40 ? l->token.size : 40), l->token.start);
    lexer_next(l);
    return RLX_OK;
  }
  const char *symbol;
  if (l->token.kind != TOKEN_NAME && l->token.kind != TOKEN_STRING) return lexer_unexpected(l, "a dim");
  RLX_TRY(parser_name(p, &symbol));
  if (!*symbol) return RLX_OK;
  if (!*symbols) *symbols = arena_array(&p->scratch, RLX_MAX_RANK, sizeof **symbols);
  if (!*symbols) return status_no_memory(RLX_MAX_RANK * sizeof **symbols);
  (*symbols)[i] = symbol;
  return RLX_OK;
}

static rlx_status parse_dims(parser *p, rlx_type *type, const char ***symbols) {
  type->rank = 0;
  if (!lexer_accept(&p->lex, "[")) return RLX_OK;
  if (lexer_accept(&p->lex, "]")) {
    type->rank = RLX_UNKNOWN;
    return RLX_OK;
  }
  if (lexer_accept(&p->lex, ".")) {
    type->rank = RLX_UNKNOWN;
    RLX_TRY(lexer_expect(&p->lex, "."));
    RLX_TRY(lexer_expect(&p->lex, "."));
    return lexer_expect(&p->lex, "]");
  }
  do RLX_TRY(parse_dim(p, type, symbols));
  while (lexer_accept(&p->lex, ","));
  return lexer_expect(&p->lex, "]");
}

static rlx_status parse_container(parser *p, rlx_kind kind, rlx_type *type, const char ***symbols) {
  RLX_TRY(parser_enter(p));
  lexer_next(&p->lex);
  RLX_TRY(lexer_expect(&p->lex, "("));
  lexer at = p->lex;
  rlx_dtype key = RLX_UNDEFINED;
  if (kind == RLX_KIND_MAP) {
    key = token_dtype(&p->lex);
    lexer_next(&p->lex);
    RLX_TRY(lexer_expect(&p->lex, ","));
  }
  rlx_type held;
  RLX_TRY(parser_type(p, &held, symbols));
  RLX_TRY(lexer_expect(&p->lex, ")"));
  *symbols = NULL; /* dims inside are not kept */
  p->depth--;
  rlx_status status = rlx_type_hold(kind, key, &held, type);
  return status == RLX_OK ? RLX_OK : lexer_locate(&at, status);
}

rlx_status parser_type(parser *p, rlx_type *type, const char ***symbols) {
  *symbols = NULL;
  for (int i = 0; i < CONTAINER_COUNT; i++)
    if (lexer_is(&p->lex, containers[i].word)) return parse_container(p, containers[i].kind, type, symbols);
  if (lexer_is(&p->lex, "sparse_tensor")) return lexer_fail(&p->lex, RLX_UNSUPPORTED, "sparse tensors");
  *type = (rlx_type){.kind = RLX_KIND_TENSOR, .dtype = token_dtype(&p->lex)};
  if (type->dtype == RLX_UNDEFINED && !lexer_is(&p->lex, "undefined")) return lexer_unexpected(&p->lex, "a type");
  lexer_next(&p->lex);
  return parse_dims(p, type, symbols);
}

/* "float[1,8,4,4]@2": the number of a layout after the type. */
static rlx_status parse_laid_out_type(parser *p, declaration *out) {
  RLX_TRY(parser_type(p, &out->type, &out->symbols));
  if (!lexer_accept(&p->lex, "@")) return RLX_OK;
  uint64_t layout;
  const token *t = &p->lex.token;
  if (t->kind != TOKEN_INT || !number_parse_uint(t->start, t->size, &layout) || layout >= RLX_SAME_LAYOUT)
    return lexer_unexpected(&p->lex, "a layout");
  out->layout = (uint32_t)layout;
  lexer_next(&p->lex);
  return RLX_OK;
}

rlx_status parser_declaration(parser *p, declaration *out) {
  lexer at = p->lex;
  bool typed = parser_at_type(p);
  type_unknown(&out->type, RLX_UNDEFINED);
  out->symbols = NULL;
  out->layout = RLX_ROW_MAJOR;
  if (typed)
    RLX_TRY(parse_laid_out_type(p, out));
  else if (p->lex.token.kind == TOKEN_NAME && at_name_or_dims(p->lex))
    return lexer_unexpected(&p->lex, "a type");
  RLX_TRY(parser_name(p, &out->name));
  return typed && !*out->name ? lexer_fail(&at, RLX_INVALID, "a type without a name") : RLX_OK;
}

/* ---- tensors ---- */

typedef struct external {
  const char *location;
  uint64_t offset, length, hash;
  bool has_length, has_hash;
} external;

/* A number of `base` 10 or 16. */
static bool parse_number(const char *digits, int base, uint64_t *out) {
  if (base == 10) return number_parse_uint(digits, strlen(digits), out);
  *out = 0;
  if (strlen(digits) != 16 || strspn(digits, "0123456789abcdef") != 16) return false;
  for (const char *c = digits; *c; c++) *out = *out << 4 | (uint64_t)(*c <= '9' ? *c - '0' : *c - 'a' + 10);
  return true;
}

static rlx_status parse_external_entry(parser *p, external *e) {
  const char *key, *value;
  lexer at = p->lex;
  RLX_TRY(parser_name(p, &key));
  RLX_TRY(lexer_expect(&p->lex, ":"));
  RLX_TRY(parser_name(p, &value));
  bool good = true;
  if (strcmp(key, "location") == 0)
    e->location = value;
  else if (strcmp(key, "offset") == 0)
    good = parse_number(value, 10, &e->offset);
  else if (strcmp(key, "length") == 0)
    good = e->has_length = parse_number(value, 10, &e->length);
  else if (strcmp(key, "xxh3") == 0)
    good = e->has_hash = parse_number(value, 16, &e->hash);
  else
    return lexer_fail(&at, RLX_UNSUPPORTED, "external data by '%s'", key);
  return good ? RLX_OK : lexer_fail(&at, RLX_MALFORMED, "external data: %s is \"%s\"", key, value);
}

static rlx_status open_external(const external *e, const rlx_type *type, const char *folder, rlx_tensor **out) {
  mapped_file *file;
  int64_t bytes = type_bytes(type);
  if (type->kind != RLX_KIND_TENSOR || !type_is_concrete(type) || bytes < 0 || type->dtype == RLX_STRING)
    return RLX_FAIL(INVALID, "external data is for numbers with known dims");
  if (!folder) return RLX_FAIL(INVALID, "external data '%s' of a text that has no folder", e->location);
  if (e->has_length && e->length != (uint64_t)bytes)
    return RLX_FAIL(INVALID, "external data: length %" PRIu64 " for %" PRId64 " bytes", e->length, bytes);
  RLX_TRY(file_open_inside(folder, e->location, &file));
  rlx_status status = RLX_OK;
  if (e->offset > file->size || (uint64_t)bytes > file->size - e->offset)
    status = RLX_FAIL(INVALID, "'%s' has %zu bytes: %" PRId64 " wanted from %" PRIu64, e->location, file->size, bytes,
                      e->offset);
  else if (e->has_hash && hash_bytes(file->data + e->offset, (size_t)bytes, 0) != e->hash)
    status = RLX_FAIL(INVALID, "'%s' has changed: the hash of its contents differs", e->location);
  else
    status = tensor_from_file(file, file->data + e->offset, (size_t)bytes, type->dtype, type->rank, type->dims, out);
  mapped_file_release(file);
  return status;
}

rlx_status parser_tensor(parser *p, const rlx_type *type, rlx_tensor **out) {
  lexer at = p->lex;
  external e = {0};
  if (!lexer_is(&p->lex, "[")) return tensor_parse_data(&p->lex, type, &p->scratch, out);
  lexer_next(&p->lex);
  do RLX_TRY(parse_external_entry(p, &e));
  while (lexer_accept(&p->lex, ","));
  RLX_TRY(lexer_expect(&p->lex, "]"));
  if (!e.location) return lexer_fail(&at, RLX_MALFORMED, "external data without a location");
  rlx_status status = open_external(&e, type, p->folder, out);
  return status == RLX_OK ? RLX_OK : lexer_locate(&at, status);
}
