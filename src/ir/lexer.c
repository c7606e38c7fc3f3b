/* lexer.c — cuts the text form into tokens. */
#include "ir/lexer.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* ASCII only, whatever the locale. */
static bool is_digit(char c) { return c >= '0' && c <= '9'; }
static bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }

static char peek(const lexer *l, size_t ahead) { return (size_t)(l->end - l->at) > ahead ? l->at[ahead] : '\0'; }

static bool peek_word(const lexer *l, size_t ahead, const char *word) {
  size_t size = strlen(word), left = (size_t)(l->end - l->at);
  return left >= ahead + size && memcmp(l->at + ahead, word, size) == 0;
}

static void skip_blanks(lexer *l) {
  while (l->at < l->end) {
    char c = *l->at;
    if (c == '#' || (c == '/' && peek(l, 1) == '/'))
      while (l->at < l->end && *l->at != '\n') l->at++;
    else if (c == ' ' || c == '\t' || c == '\n' || c == '\r')
      l->at++;
    else
      return;
  }
}

static void skip_digits(lexer *l) {
  while (is_digit(peek(l, 0))) l->at++;
}

static token_kind read_number(lexer *l) {
  token_kind kind = TOKEN_INT;
  if (peek(l, 0) == '-') l->at++;
  skip_digits(l);
  if (peek(l, 0) == '.') {
    kind = TOKEN_FLOAT;
    l->at++;
    skip_digits(l);
  }
  size_t sign = peek(l, 1) == '-' || peek(l, 1) == '+';
  if ((peek(l, 0) == 'e' || peek(l, 0) == 'E') && is_digit(peek(l, 1 + sign))) {
    kind = TOKEN_FLOAT;
    l->at += 1 + sign;
    skip_digits(l);
  }
  return kind;
}

static token_kind read_string(lexer *l) {
  for (l->at++; l->at < l->end; l->at++) {
    if (*l->at == '"') {
      l->at++;
      return TOKEN_STRING;
    }
    if (*l->at == '\\') l->at++;
  }
  l->at = l->end;
  l->bad = "string without an end";
  return TOKEN_BAD;
}

/* "-inf", "-nan", "nan(0x…)": written with signs, read as one number. */
static bool read_special(lexer *l) {
  size_t sign = peek(l, 0) == '-';
  if (peek_word(l, sign, "nan(0x")) {
    const char *close = memchr(l->at, ')', (size_t)(l->end - l->at));
    if (!close) return false;
    l->at = close + 1;
    return true;
  }
  if (!sign || !(peek_word(l, 1, "inf") || peek_word(l, 1, "nan"))) return false;
  l->at += 4;
  return true;
}

static token_kind read_token(lexer *l) {
  char c = peek(l, 0);
  size_t sign = c == '-';
  if (l->at >= l->end) return TOKEN_END;
  if (read_special(l)) return TOKEN_FLOAT;
  if (is_letter(c)) {
    while (is_letter(peek(l, 0)) || is_digit(peek(l, 0))) l->at++;
    return TOKEN_NAME;
  }
  if (is_digit(peek(l, sign)) || (peek(l, sign) == '.' && is_digit(peek(l, sign + 1)))) return read_number(l);
  if (c == '"') return read_string(l);
  l->at += peek_word(l, 0, "=>") ? 2 : 1;
  if (c && strchr("<>{}()[],=:?@^.", c)) return TOKEN_SIGN;
  l->bad = "unexpected character";
  return TOKEN_BAD;
}

void lexer_next(lexer *l) {
  skip_blanks(l);
  l->token.start = l->at;
  l->token.kind = read_token(l);
  l->token.size = (size_t)(l->at - l->token.start);
}

void lexer_start(lexer *l, const char *source, size_t size, const char *name) {
  *l = (lexer){.name = name, .begin = source, .at = source, .end = source + size};
  lexer_next(l);
}

bool lexer_is(const lexer *l, const char *word) {
  if (l->token.kind != TOKEN_SIGN && l->token.kind != TOKEN_NAME) return false;
  return l->token.size == strlen(word) && memcmp(l->token.start, word, l->token.size) == 0;
}

bool lexer_accept(lexer *l, const char *word) {
  if (!lexer_is(l, word)) return false;
  lexer_next(l);
  return true;
}

rlx_status lexer_expect(lexer *l, const char *word) {
  char what[32];
  if (lexer_accept(l, word)) return RLX_OK;
  snprintf(what, sizeof what, "'%s'", word);
  return lexer_unexpected(l, what);
}

static void place(const lexer *l, size_t *line, size_t *column) {
  const char *start = l->begin;
  *line = 1;
  for (const char *p = l->begin; p < l->token.start; p++) {
    if (*p != '\n') continue;
    ++*line;
    start = p + 1;
  }
  *column = (size_t)(l->token.start - start) + 1;
}

rlx_status lexer_locate(const lexer *l, rlx_status code) {
  size_t line, column;
  place(l, &line, &column);
  return status_prefix(code, "%s:%zu:%zu", l->name, line, column);
}

rlx_status lexer_fail(const lexer *l, rlx_status code, const char *format, ...) {
  char message[512];
  va_list args;
  va_start(args, format);
  vsnprintf(message, sizeof message, format, args);
  va_end(args);
  status_fail(code, "%s", message);
  return lexer_locate(l, code);
}

rlx_status lexer_unexpected(const lexer *l, const char *what) {
  int size = (int)(l->token.size < 40 ? l->token.size : 40);
  if (l->token.kind == TOKEN_BAD) return lexer_fail(l, RLX_MALFORMED, "%s: %.*s", l->bad, size, l->token.start);
  if (l->token.kind == TOKEN_END) return lexer_fail(l, RLX_MALFORMED, "expected %s, found the end", what);
  return lexer_fail(l, RLX_MALFORMED, "expected %s, found '%.*s'", what, size, l->token.start);
}

static int hex_digit(char c) {
  if (is_digit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* ONNX's text escapes only quotes and backslashes, by a backslash; the letters are ours. */
rlx_status lexer_string(const lexer *l, arena *memory, char **string, size_t *size) {
  if (l->token.kind != TOKEN_STRING) return lexer_unexpected(l, "a string");
  const char *from = l->token.start + 1, *end = l->token.start + l->token.size - 1;
  char *to = arena_alloc(memory, l->token.size);
  if (!to) return status_no_memory(l->token.size);
  *string = to;
  for (; from < end; from++) {
    if (*from != '\\') {
      *to++ = *from;
      continue;
    }
    char c = *++from; /* the string's end is a quote without a backslash, so there is one more */
    int high = end - from > 2 ? hex_digit(from[1]) : -1, low = high >= 0 ? hex_digit(from[2]) : -1;
    if (c == 'x' && low >= 0) {
      *to++ = (char)(high << 4 | low);
      from += 2;
    } else if (c == 'n' || c == 't' || c == 'r') {
      *to++ = c == 'n' ? '\n' : c == 't' ? '\t' : '\r';
    } else if (c == '"' || c == '\\' || c == '\'') {
      *to++ = c;
    } else {
      return lexer_fail(l, RLX_MALFORMED, "no such escape: \\%c", c >= ' ' && c < 127 ? c : '?');
    }
  }
  *to = '\0';
  *size = (size_t)(to - *string);
  return RLX_OK;
}

/* Does valid UTF-8 begin at s? Its length, else 0. */
static size_t utf8_length(const unsigned char *s, size_t size) {
  size_t n = s[0] < 0x80 ? 1 : s[0] >= 0xf0 ? 4 : s[0] >= 0xe0 ? 3 : 2;
  if (n > 1 && (s[0] < 0xc2 || s[0] > 0xf4 || n > size)) return 0;
  for (size_t i = 1; i < n; i++)
    if ((s[i] & 0xc0) != 0x80) return 0;
  bool overlong = (s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xf0 && s[1] < 0x90);
  bool outside = (s[0] == 0xed && s[1] > 0x9f) || (s[0] == 0xf4 && s[1] > 0x8f);
  return overlong || outside ? 0 : n;
}

void lexer_print_string(text *out, const char *string, size_t size) {
  text_add(out, "\"");
  for (size_t i = 0, n; i < size; i += n) {
    unsigned char c = (unsigned char)string[i];
    n = utf8_length((const unsigned char *)string + i, size - i);
    if (c == '"' || c == '\\')
      text_printf(out, "\\%c", c);
    else if (c == '\n')
      text_add(out, "\\n");
    else if (c == '\t')
      text_add(out, "\\t");
    else if (n && c >= ' ' && c != 0x7f)
      text_add_bytes(out, string + i, n);
    else
      text_printf(out, "\\x%02x", c);
    if (!n) n = 1;
  }
  text_add(out, "\"");
}

bool lexer_is_plain(const char *name) {
  static const char *const taken[] = {"inf",           "nan",   "seq",       "optional", "map",
                                      "sparse_tensor", "bytes", "undefined", NULL};
  if (!is_letter(*name)) return false;
  for (const char *p = name; *p; p++)
    if (!is_letter(*p) && !is_digit(*p)) return false;
  for (int i = 0; taken[i]; i++)
    if (strcmp(name, taken[i]) == 0) return false;
  return rlx_dtype_parse(name) == RLX_UNDEFINED;
}

void lexer_print_name(text *out, const char *name) {
  if (lexer_is_plain(name))
    text_add(out, name);
  else
    lexer_print_string(out, name, strlen(name));
}
