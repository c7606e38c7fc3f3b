/* text.c — kernel text as tokens, and writing tokens back. */
#include "backend/gpu/text.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "base/vector.h"

static bool word_start(char c) { return isalpha((unsigned char)c) || c == '_'; }
static bool word_part(char c) { return isalnum((unsigned char)c) || c == '_'; }

/* Length of the number at s: digits, letters and points, with a sign after an exponent. */
static int number_length(const char *s) {
  int n = 0;
  bool hex = s[0] == '0' && (s[1] == 'x' || s[1] == 'X');
  while (word_part(s[n]) || s[n] == '.') {
    bool exponent = hex ? s[n] == 'p' || s[n] == 'P' : s[n] == 'e' || s[n] == 'E';
    n++;
    if (exponent && (s[n] == '+' || s[n] == '-')) n++;
  }
  return n;
}

static int sign_length(const char *s) {
  static const char *const signs[] = {"<<=", ">>=", "->", "++", "--", "<<", ">>", "<=", ">=", "==", "!=",
                                      "&&",  "||",  "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", NULL};
  for (int i = 0; signs[i]; i++)
    if (strncmp(s, signs[i], strlen(signs[i])) == 0) return (int)strlen(signs[i]);
  return *s && strchr("+-*/%&|^~!<>=?:;,.()[]{}", *s) ? 1 : 0;
}

/* White space and comments; NULL if a comment has no end. */
static const char *skip(const char *s, int *line) {
  for (;;) {
    if (*s == '\n') ++*line;
    if (isspace((unsigned char)*s)) {
      s++;
    } else if (s[0] == '/' && s[1] == '/') {
      s += strcspn(s, "\n");
    } else if (s[0] == '/' && s[1] == '*') {
      const char *end = strstr(s + 2, "*/");
      if (!end) return NULL;
      for (; s < end + 2; s++) *line += *s == '\n';
    } else {
      return s;
    }
  }
}

static rlx_status next(const char *s, int line, gpu_token *out) {
  *out = (gpu_token){.at = s, .line = line};
  if (word_start(*s)) {
    out->kind = TOKEN_NAME;
    while (word_part(s[out->length])) out->length++;
  } else if (isdigit((unsigned char)*s) || (*s == '.' && isdigit((unsigned char)s[1]))) {
    out->kind = TOKEN_NUMBER;
    out->length = number_length(s);
  } else {
    out->kind = TOKEN_SIGN;
    out->length = sign_length(s);
    if (*s == '#') return RLX_FAIL(INVALID, "line %d: rule no-preprocessor: a text has no lines with '#'", line);
    if (!out->length)
      return RLX_FAIL(INVALID, "line %d: rule plain-text: the character '%c' is in no dialect", line, *s);
  }
  return RLX_OK;
}

bool token_is(const gpu_token *t, const char *word) {
  return strlen(word) == (size_t)t->length && memcmp(t->at, word, (size_t)t->length) == 0;
}

static char closing(const gpu_token *t) {
  if (t->kind != TOKEN_SIGN || t->length != 1) return 0;
  return *t->at == '(' ? ')' : *t->at == '[' ? ']' : *t->at == '{' ? '}' : 0;
}

size_t token_close(const gpu_tokens *t, size_t i) {
  char stack[64];
  int depth = 0;
  for (; i < t->count; i++) {
    const gpu_token *k = &t->data[i];
    char close = closing(k);
    if (close) {
      if (depth == (int)sizeof stack) return t->count;
      stack[depth++] = close;
    } else if (k->kind == TOKEN_SIGN && k->length == 1 && strchr(")]}", *k->at)) {
      if (depth == 0 || stack[--depth] != *k->at) return t->count;
      if (depth == 0) return i;
    }
  }
  return t->count;
}

static rlx_status check_brackets(const gpu_tokens *t) {
  for (size_t i = 0; i < t->count; i++) {
    const gpu_token *k = &t->data[i];
    if (closing(k)) {
      size_t end = token_close(t, i);
      if (end == t->count)
        return RLX_FAIL(INVALID, "line %d: rule balanced: '%c' is not closed (or nested too deeply)", k->line, *k->at);
      i = end;
    } else if (k->kind == TOKEN_SIGN && k->length == 1 && strchr(")]}", *k->at)) {
      return RLX_FAIL(INVALID, "line %d: rule balanced: '%c' closes nothing", k->line, *k->at);
    }
  }
  return RLX_OK;
}

rlx_status gpu_tokenize(const char *source, gpu_tokens *out) {
  int line = 1;
  for (const char *s = source;;) {
    s = skip(s, &line);
    if (!s) return RLX_FAIL(INVALID, "line %d: rule balanced: a comment has no end", line);
    if (!*s) break;
    gpu_token t;
    RLX_TRY(next(s, line, &t));
    if (!vector_push(out, t)) return status_no_memory(sizeof t);
    s += t.length;
  }
  return check_brackets(out);
}

void gpu_tokens_finish(gpu_tokens *t) { vector_finish(t); }

/* ---- writing ---- */

static void new_line(gpu_writer *w) {
  text_add(w->out, "\n");
  w->line = true;
}

/* Whether a space belongs between what was written last and a word that starts with c. */
static bool space_before(const gpu_writer *w, char c) {
  if (w->line || !w->last) return false;
  if (strchr(";,)].", c) || strchr("([.", w->last)) return false;
  if ((c == '(' || c == '[') && w->last == 'w') return false;
  return !(w->last == '!' || w->last == '~');
}

/* Words that no bracket follows as it does a function's name. */
static bool is_keyword(const char *s, size_t length) {
  static const char *const words[] = {"return", "if", "for", "while", NULL};
  for (int i = 0; words[i]; i++)
    if (strlen(words[i]) == length && memcmp(words[i], s, length) == 0) return true;
  return false;
}

void gpu_write_word(gpu_writer *w, const char *s, size_t length) {
  char c = *s;
  if (c == '}') w->depth--;
  if (c == '}' && !w->line) new_line(w);
  if (w->line)
    for (int i = 0; i < w->depth; i++) text_add(w->out, "  ");
  else if (space_before(w, c))
    text_add(w->out, " ");
  w->line = false;
  text_add_bytes(w->out, s, length);
  w->last = word_part(c) && !is_keyword(s, length) ? 'w' : s[length - 1];
  if (c == '(' || c == '[') w->brackets++;
  if (c == ')' || c == ']') w->brackets--;
  if (c == '{') w->depth++;
  if (c == '{' || c == '}' || (c == ';' && w->brackets == 0)) new_line(w);
}

void rlx_gpu_write(rlx_gpu_text *t, const char *format, ...) {
  va_list args;
  va_start(args, format);
  char small[512];
  va_list again;
  va_copy(again, args);
  int n = vsnprintf(small, sizeof small, format, args);
  va_end(args);
  if (n >= 0 && (size_t)n < sizeof small) {
    text_add_bytes(&t->t, small, (size_t)n);
  } else if (n >= 0) {
    char *large = mem_alloc((size_t)n + 1);
    if (large) {
      vsnprintf(large, (size_t)n + 1, format, again);
      text_add_bytes(&t->t, large, (size_t)n);
    }
    t->t.failed |= !large;
    mem_free(large);
  } else {
    t->t.failed = true;
  }
  va_end(again);
}
