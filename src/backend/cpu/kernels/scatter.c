/* scatter.c — ScatterElements and ScatterND on top of their data where nothing else needs it. */
#include "ir/module.h"
#include "ops/_elements.h"

static const rlx_pair on_data[] = {{0, 0}};

#define SCATTER_KERNEL(id, op_name, its_run)                                                                           \
  static const rlx_cpu_kernel id = {                                                                                   \
      .struct_size = sizeof(rlx_cpu_kernel),                                                                           \
      .head = {.op = op_name,                                                                                          \
               .version_min = 11,                                                                                      \
               .version_max = 11,                                                                                      \
               .name = "in-place",                                                                                     \
               .in_place = on_data,                                                                                    \
               .in_place_count = 1},                                                                                   \
      .run = its_run,                                                                                                  \
  }
SCATTER_KERNEL(elements_kernel, "onnx.ScatterElements", scatter_elements_run);
SCATTER_KERNEL(nd_kernel, "onnx.ScatterND", scatter_nd_run);

static const rlx_cpu_kernel *const kernels[] = {&elements_kernel, &nd_kernel, NULL};
const rlx_module cpu_scatter = {.kernels = kernels};
