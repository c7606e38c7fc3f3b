/* lint.h — the rules a portable kernel keeps, so that its text means the same in every dialect. */
#ifndef BACKEND_GPU_LINT_H
#define BACKEND_GPU_LINT_H

#include "backend/gpu/text.h"

/* Names, types, kinds and sizes of arguments, workgroup memory and constants. */
rlx_status gpu_lint_function(const rlx_gpu_function *f);
/* A body, or helper functions. The message: "line N: rule NAME: what is wrong, and what to write". */
rlx_status gpu_lint_text(const rlx_gpu_function *f, const gpu_tokens *t, bool helpers);

const rlx_gpu_arg *gpu_find_arg(const rlx_gpu_function *f, const gpu_token *name);
static inline bool gpu_arg_is_operand(const rlx_gpu_arg *a) {
  return (a->flags & (RLX_GPU_INPUT | RLX_GPU_OUTPUT | RLX_GPU_WORKSPACE)) != 0;
}

#endif
