/* text.h — kernel text as tokens, and writing tokens back. */
#ifndef BACKEND_GPU_TEXT_H
#define BACKEND_GPU_TEXT_H

#include <rlx/extend.h>

#include "base/text.h"

typedef enum token_kind { TOKEN_NAME, TOKEN_NUMBER, TOKEN_SIGN } token_kind;

typedef struct gpu_token {
  const char *at; /* into the source */
  int length, line;
  token_kind kind;
} gpu_token;

/* Zero-initialised is empty. Owned: gpu_tokens_finish. Borrows the source. */
typedef struct gpu_tokens {
  gpu_token *data;
  size_t count, capacity;
} gpu_tokens;

/* Comments and white space are dropped. Fails on characters that no dialect has, unbalanced brackets, `#`. */
rlx_status gpu_tokenize(const char *source, gpu_tokens *out);
void gpu_tokens_finish(gpu_tokens *t);
bool token_is(const gpu_token *t, const char *word);
/* The index of the bracket that closes the one at i; count if there is none. */
size_t token_close(const gpu_tokens *t, size_t i);

/* Writes tokens with as much white space as reading needs: a line a statement. */
typedef struct gpu_writer {
  text *out;
  int depth;    /* of braces */
  int brackets; /* open ( and [ */
  bool line;    /* at the start of a line */
  char last;    /* 'w' after a word, else the last character written */
} gpu_writer;

void gpu_write_word(gpu_writer *w, const char *s, size_t length);

/* What rlx_gpu_write appends to. */
struct rlx_gpu_text {
  text t;
};

#endif
