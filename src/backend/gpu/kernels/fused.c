/* fused.c — rlx.fused and Cast on GPUs: scalar programs. */
#include "backend/gpu/kernels/_program.h"
#include "ir/module.h"

static const rlx_gpu_kernel fused = {
    .struct_size = sizeof(rlx_gpu_kernel),
    .head = {.op = "rlx.fused",
             .name = "program",
             .in_place = program_in_place,
             .in_place_count = FUSED_MAX_INPUTS,
             .min_align = 16,
             .why_not = program_why_not},
    .functions = program_functions,
    .encode = program_encode,
};

static const rlx_gpu_kernel cast = {
    .struct_size = sizeof(rlx_gpu_kernel),
    .head = {.op = "onnx.Cast",
             .version_min = 6,
             .version_max = INT32_MAX,
             .name = "program",
             .in_place = program_in_place,
             .in_place_count = 1,
             .min_align = 16,
             .why_not = program_why_not},
    .functions = program_functions,
    .encode = program_encode,
};

static const rlx_gpu_kernel *const kernels[] = {&fused, &cast, NULL};
const rlx_module gpu_fused = {.gpu_kernels = kernels};
