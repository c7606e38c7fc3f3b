/* render_private.h — what the files of the renderer share. */
#ifndef BACKEND_GPU_RENDER_PRIVATE_H
#define BACKEND_GPU_RENDER_PRIVATE_H

#include "backend/gpu/prelude.h"

enum { GPU_MAX_SNIPPETS = 96 };

/* How elements of a dtype lie in memory, and what a text sees of them. */
typedef struct gpu_type {
  const char *name;              /* in records: "bf16" */
  const char *value;             /* type of the text: "f32" */
  const char *glsl, *cuda, *msl; /* type of memory */
  int bytes;
} gpu_type;
const gpu_type *gpu_type_of(rlx_dtype dtype); /* NULL: no kernel text reads it */
/* The dtype that a type variable of the node's op stands for; UNDEFINED if there is none or it is unknown. */
rlx_dtype gpu_variable_dtype(const rlx_node *n, const char *name, size_t length);

typedef struct render_arg {
  const rlx_gpu_arg *arg;
  rlx_dtype dtype;
  int number;
} render_arg;

enum { USE_SUM = 1, USE_MAX = 2, USE_MIN = 4, USE_SHUFFLE = 8 };

typedef struct render {
  const rlx_gpu_function *f;
  const rlx_node *node;
  const gpu_target *target;
  gpu_layout layout;
  render_arg args[GPU_MAX_ARGS];
  int arg_count;
  uint8_t needed[GPU_MAX_SNIPPETS];          /* 1 wanted, 2 written */
  uint64_t loaded, stored, loaded4, stored4; /* dtypes, as RLX_SET */
  uint32_t uses;                             /* USE_… */
} render;

typedef struct render_texts {
  const char *snippets, *helpers, *body;
} render_texts;

/* Remembers that a text uses a workgroup function. */
void render_note_use(render *r, const gpu_token *t);
/* Translates a text; check: the rules are held against it. */
rlx_status render_piece(render *r, const char *source, bool body, bool check, text *out);
rlx_status render_snippets(render *r, text *out);
/* Puts the source together. */
void render_source(const render *r, const render_texts *t, text *out);

#endif
