/* prelude.h — what every kernel text may use: types and primitives of a dialect, and functions in the portable
 * language. */
#ifndef BACKEND_GPU_PRELUDE_H
#define BACKEND_GPU_PRELUDE_H

#include "backend/gpu/render.h"
#include "backend/gpu/text.h"

/* One function with its overloads, written in the portable language; included where its name is used. */
typedef struct gpu_snippet {
  const char *name;
  const char *body;
} gpu_snippet;
extern const gpu_snippet gpu_snippets[]; /* ends with a NULL name */

/* Types and primitives of a dialect. */
const char *gpu_prelude(gpu_dialect dialect);

#endif
