/* scatter.c — ScatterElements, ScatterND and TensorScatter on top of their data where nothing else needs it. */
#include "ir/module.h"
#include "ops/_elements.h"
#include "ops/_tensor_scatter.h"

static const rlx_pair on_data[] = {{0, 0}};

#define SCATTER_KERNEL(id, op_name, its_version, its_run)                                                              \
  static const rlx_cpu_kernel id = {                                                                                   \
      .struct_size = sizeof(rlx_cpu_kernel),                                                                           \
      .head = {.op = op_name,                                                                                          \
               .version_min = its_version,                                                                             \
               .version_max = its_version,                                                                             \
               .name = "in-place",                                                                                     \
               .in_place = on_data,                                                                                    \
               .in_place_count = 1},                                                                                   \
      .run = its_run,                                                                                                  \
  }
SCATTER_KERNEL(elements_kernel, "onnx.ScatterElements", 11, scatter_elements_run);
SCATTER_KERNEL(nd_kernel, "onnx.ScatterND", 11, scatter_nd_run);
SCATTER_KERNEL(tensor_kernel, "onnx.TensorScatter", 24, tensor_scatter_run);

static const rlx_cpu_kernel *const kernels[] = {&elements_kernel, &nd_kernel, &tensor_kernel, NULL};
const rlx_module cpu_scatter = {.kernels = kernels};
