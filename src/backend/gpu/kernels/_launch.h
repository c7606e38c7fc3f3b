/* _launch.h — what the portable kernels share: grids, arguments, records. */
#ifndef BACKEND_GPU_KERNELS_LAUNCH_H
#define BACKEND_GPU_KERNELS_LAUNCH_H

#include <rlx/extend.h>

#include "backend/gpu/render.h"
#include "base/status.h"
#include "ir/dtype.h"
#include "ir/module.h"

/* Launches function `function` with a group for every `each` of count items, as many as a grid may have at most: bodies
 * walk on in steps of the grid. */
static inline rlx_status launch_items(rlx_gpu_dispatch *d, int function, int64_t count, int64_t each) {
  int64_t groups = (count + each - 1) / each;
  return rlx_gpu_launch(d, function, (const int64_t[3]){groups < GPU_MAX_GROUPS ? groups : GPU_MAX_GROUPS, 1, 1});
}

/* Floats that texts compute in f32. */
static inline bool launch_real(const rlx_type *t) {
  return t && (t->dtype == RLX_FLOAT || t->dtype == RLX_FLOAT16 || t->dtype == RLX_BFLOAT16);
}

/* NULL if input i is such a float (or left out). */
static inline const char *launch_needs_real(const rlx_node *n, int i) {
  const rlx_type *t = rlx_node_input_type(n, i);
  return !t || launch_real(t) ? NULL : rlx_reason("no kernel text for %s", rlx_dtype_name(t->dtype));
}

/* NULL if elements of input i are words of 1, 2, 4 or 8 bytes. */
static inline const char *launch_needs_words(const rlx_node *n, int i) {
  const rlx_type *t = rlx_node_input_type(n, i);
  size_t size = t && t->dtype != RLX_STRING ? dtype_size(t->dtype) : 0;
  return size == 1 || size == 2 || size == 4 || size == 8
             ? NULL
             : rlx_reason("no kernel text moves %s", t ? rlx_dtype_name(t->dtype) : "nothing");
}

/* 32-bit indexes inside a launch: the most elements of an operand. */
#define LAUNCH_MOST (INT64_C(1) << 31)
static inline rlx_status launch_fits(int64_t count) {
  return count < LAUNCH_MOST ? RLX_OK : RLX_FAIL(UNSUPPORTED, "operands of %lld elements", (long long)count);
}

#define ARG_IN(name, i)                                                                                                \
  { name, NULL, RLX_GPU_INPUT, i, 0 }
#define ARG_OUT(name, i)                                                                                               \
  { name, NULL, RLX_GPU_OUTPUT, i, 0 }
#define ARG_IN_BITS(name, i)                                                                                           \
  { name, "bits", RLX_GPU_INPUT, i, 0 }
#define ARG_OUT_BITS(name, i)                                                                                          \
  { name, "bits", RLX_GPU_OUTPUT, i, 0 }
#define ARG_SCALAR(name, type)                                                                                         \
  { name, type, RLX_GPU_SCALAR, 0, 0 }
#define ARG_LIST(name, type, n)                                                                                        \
  { name, type, RLX_GPU_SCALAR, 0, n }

#endif
