/* views.c — kernels of ops that only change dims: the planner lets output 0 share input 0's memory. */
#include "ir/module.h"
#include "ops/_move.h"

static const rlx_pair view_alias[] = {{0, 0}};

#define VIEW(id, op_name, version, reason)                                                                             \
  static const rlx_cpu_kernel id = {                                                                                   \
      .struct_size = sizeof(rlx_cpu_kernel),                                                                           \
      .head = {.op = op_name,                                                                                          \
               .version_min = version,                                                                                 \
               .version_max = version,                                                                                 \
               .name = "view",                                                                                         \
               .traits = RLX_VIEW,                                                                                     \
               .aliases = view_alias,                                                                                  \
               .alias_count = 1,                                                                                       \
               .why_not = reason},                                                                                     \
      .run = move_all,                                                                                                 \
  }

static const char *identity_why_not(const rlx_node *n) {
  const rlx_type *x = rlx_node_input_type(n, 0);
  return x && x->kind != RLX_KIND_TENSOR ? "not a tensor" : NULL;
}

/* Without a mask, and surely not training. */
static const char *dropout_why_not(const rlx_node *n) {
  const rlx_value *mask = rlx_node_output(n, 1);
  if (mask && rlx_value_name(mask)[0]) return "the mask is wanted";
  if (!rlx_node_input_type(n, 2)) return NULL;
  const rlx_tensor *training = rlx_node_constant(n, 2);
  if (!training || rlx_tensor_count(training) != 1) return "training_mode is not a constant";
  return *(const uint8_t *)rlx_tensor_data(training) ? "training_mode is set" : NULL;
}

VIEW(identity_view, "onnx.Identity", 1, identity_why_not);
VIEW(reshape_view, "onnx.Reshape", 5, NULL);
VIEW(flatten_view, "onnx.Flatten", 1, NULL);
VIEW(squeeze_view, "onnx.Squeeze", 13, NULL);
VIEW(unsqueeze_view, "onnx.Unsqueeze", 13, NULL);
VIEW(dropout_view, "onnx.Dropout", 12, dropout_why_not);

static const rlx_cpu_kernel *const kernels[] = {&identity_view,  &reshape_view, &flatten_view, &squeeze_view,
                                                &unsqueeze_view, &dropout_view, NULL};
const rlx_module cpu_views = {.kernels = kernels};
