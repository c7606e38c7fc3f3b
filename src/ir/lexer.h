/* lexer.h — the tokens of the text form. */
#ifndef IR_LEXER_H
#define IR_LEXER_H

#include "base/arena.h"
#include "base/status.h"
#include "base/text.h"

typedef enum token_kind {
  TOKEN_END,
  TOKEN_NAME,   /* letters, digits, '_'; not a digit first */
  TOKEN_STRING, /* with its quotes */
  TOKEN_INT,    /* -12 */
  TOKEN_FLOAT,  /* 1.5, -2e-3, -inf, -nan, nan(0x7fc00001) */
  TOKEN_SIGN,   /* "=>" or one character */
  TOKEN_BAD     /* nothing of these; lexer_fail says why */
} token_kind;

typedef struct token {
  token_kind kind;
  const char *start;
  size_t size;
} token;

/* Borrows the source and its name. `token` is the current one. A copy of the struct is a place to go back to. */
typedef struct lexer {
  const char *name; /* of the source, for messages */
  const char *begin, *at, *end;
  const char *bad; /* why the current token is TOKEN_BAD */
  token token;
} lexer;

/* Moves to the first token. */
void lexer_start(lexer *l, const char *source, size_t size, const char *name);
void lexer_next(lexer *l);
/* Is the current token this sign or name? accept also moves past it; expect fails if it is not. */
bool lexer_is(const lexer *l, const char *word);
bool lexer_accept(lexer *l, const char *word);
rlx_status lexer_expect(lexer *l, const char *word);
/* "name:line:col: …" at the current token. */
__attribute__((format(printf, 3, 4))) rlx_status lexer_fail(const lexer *l, rlx_status code, const char *format, ...);
/* The same in front of the message that a failing call just left. */
rlx_status lexer_locate(const lexer *l, rlx_status code);
/* "expected <what>, found <the current token>". */
rlx_status lexer_unexpected(const lexer *l, const char *what);
/* The text of the current TOKEN_STRING, escapes undone, in `memory`, NUL-terminated besides. */
rlx_status lexer_string(const lexer *l, arena *memory, char **string, size_t *size);

/* The inverses, for printing: a string with quotes and escapes; a name, with quotes if it is no plain one or would read
 * as a type or a number. */
void lexer_print_string(text *out, const char *string, size_t size);
void lexer_print_name(text *out, const char *name);
bool lexer_is_plain(const char *name);

#endif
