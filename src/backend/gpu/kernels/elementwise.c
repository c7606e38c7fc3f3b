/* elementwise.c — the scalar ops on GPUs: every row of elementwise.def as a program of its own. */
#include "backend/gpu/kernels/_program.h"
#include "ir/module.h"

#define pairs_1 1
#define pairs_2 2
#define pairs_3 3
#define pairs_N FUSED_MAX_INPUTS
#define X(row, version, arity, ports, types, kind, cost, attributes, expression, dx, dy, dz)                           \
  static const rlx_gpu_kernel kernel_##row = {                                                                         \
      .struct_size = sizeof(rlx_gpu_kernel),                                                                           \
      .head = {.op = "onnx." #row,                                                                                     \
               .version_min = version,                                                                                 \
               .version_max = INT32_MAX,                                                                               \
               .name = "program",                                                                                      \
               .in_place = program_in_place,                                                                           \
               .in_place_count = pairs_##arity,                                                                        \
               .min_align = 16,                                                                                        \
               .why_not = program_why_not},                                                                            \
      .functions = program_functions,                                                                                  \
      .encode = program_encode,                                                                                        \
  };
#include "ops/elementwise.def"
#undef X

static const rlx_gpu_kernel *const kernels[] = {
#define X(row, ...) &kernel_##row,
#include "ops/elementwise.def"
#undef X
    NULL,
};
const rlx_module gpu_elementwise = {.gpu_kernels = kernels};
