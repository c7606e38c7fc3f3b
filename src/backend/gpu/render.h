/* render.h — portable kernels: from a record's function and a node to the text of a dialect, its argument block, and
 * compiled code. Errors name the function and the rule or place; a compiler's log is in the status. */
#ifndef BACKEND_GPU_RENDER_H
#define BACKEND_GPU_RENDER_H

#include <rlx/extend.h>

#include "base/text.h"

typedef enum gpu_dialect { GPU_GLSL, GPU_CUDA, GPU_MSL } gpu_dialect;

/* What a device lets the text use. */
typedef struct gpu_target {
  gpu_dialect dialect;
  uint32_t subgroup;   /* invocations of every subgroup, when reductions and shuffles over it may be used; else 0 */
  bool float_controls; /* GLSL: signed zeros, infinities and NaN of 32-bit floats can be kept on request */
} gpu_target;

/* ---- text ---- */

enum { GPU_MAX_ARGS = 64, GPU_MAX_GROUPS = 65535 };

/* The dtype an argument has for this node: of its elements in memory for operands, of the value in the block for
 * scalars (widened). UNDEFINED for an operand that is left out and whose type nothing tells. */
rlx_status gpu_arg_dtype(const rlx_gpu_function *f, const rlx_gpu_arg *arg, const rlx_node *n, rlx_dtype *dtype);

/* Appends the complete source. Entry: "main" in GLSL, the function's name in CUDA and MSL. The one argument is the
 * address of the argument block: 8 bytes of push constants; a pointer parameter; buffer 0. */
rlx_status gpu_render(const rlx_gpu_function *f, const rlx_node *n, const gpu_target *target, text *out);
/* workgroup with its defaults filled in. */
void gpu_workgroup(const rlx_gpu_function *f, uint32_t size[3]);

/* ---- argument block ---- */

typedef struct gpu_slot {
  const rlx_gpu_arg *arg;
  int32_t offset; /* bytes from the start of the block */
  int32_t bytes;
  rlx_dtype dtype; /* as gpu_arg_dtype */
} gpu_slot;

typedef struct gpu_layout {
  int count;
  int32_t bytes; /* of the whole block, a multiple of 16 */
  gpu_slot slots[GPU_MAX_ARGS];
} gpu_layout;

rlx_status gpu_layout_make(const rlx_gpu_function *f, const rlx_node *n, gpu_layout *out);

/* Values set by name, in the order of rlx_gpu_set_…; zero-initialised is empty. Names and arrays are copied. */
typedef struct gpu_scalars {
  struct gpu_scalar *items;
  size_t count, capacity;
  bool failed; /* an allocation */
} gpu_scalars;

void gpu_scalars_finish(gpu_scalars *s);
void gpu_scalars_set_ints(gpu_scalars *s, const char *name, const int64_t *values, int count);
void gpu_scalars_set_floats(gpu_scalars *s, const char *name, const double *values, int count);

/* Writes the scalars of a block: set ones, RLX_GPU_COUNT from output_counts (by output), and attributes of the node.
 * Operand slots are left alone. Fails naming a scalar that nothing gives or whose value does not fit. */
rlx_status gpu_block_scalars(const gpu_layout *l, const gpu_scalars *s, const rlx_node *n, const int64_t *output_counts,
                             void *block);

/* ---- GLSL to SPIR-V ---- */

/* By librlx-glsl.so, opened on first use; UNSUPPORTED with the reason if this machine has none. `name` is for messages.
 * On success *words is the caller's (mem_free). Thread-safe. */
rlx_status gpu_glsl_compile(const char *name, const char *source, uint32_t **words, size_t *bytes);
/* Name and version of the compiler for cache keys: "glslang 12.0"; NULL: none here. */
const char *gpu_glsl_identity(void);

#endif
