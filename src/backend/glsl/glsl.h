/* glsl.h — the interface of librlx-glsl.so: GLSL to SPIR-V, in a library of its own because the compiler is C++. */
#ifndef BACKEND_GLSL_GLSL_H
#define BACKEND_GLSL_GLSL_H

#include <stddef.h>
#include <stdint.h>

/* Compute shaders for Vulkan 1.2. 0: *words is the caller's (free). Else the compiler's log, cut to log_size, is in
 * log. Not thread-safe: the caller holds a lock. */
typedef int rlx_glsl_compile_function(const char *source, uint32_t **words, size_t *bytes, char *log, size_t log_size);
/* "glslang 12.0.0" */
typedef const char *rlx_glsl_identity_function(void);

#endif
