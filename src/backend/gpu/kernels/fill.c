/* fill.c — ConstantOfShape on GPUs. */
#include <string.h>

#include "backend/gpu/kernels/_launch.h"

typedef struct of_shape_params { /* as the op's record decodes it */
  uint64_t given;
  rlx_tensor *value;
} of_shape_params;

static const char body[] = RLX_GPU_TEXT(for (u32 i = GLOBAL_ID; i < n; i += GLOBAL_SIZE) y[i] = y_t(word););
static const rlx_gpu_arg args[] = {ARG_OUT_BITS("y", 0), ARG_SCALAR("n", "u32"), ARG_SCALAR("word", "u64"), {0}};
static const rlx_gpu_function functions[] = {{.name = "fill", .args = args, .body = body}, {0}};

static rlx_status encode(rlx_gpu_dispatch *d) {
  const of_shape_params *p = rlx_gpu_params(d);
  const rlx_operand *y = rlx_gpu_output(d, 0);
  int64_t bits = 0;
  if (y->count == 0) return RLX_OK;
  if (p->value) memcpy(&bits, rlx_tensor_data(p->value), dtype_size(y->dtype));
  RLX_TRY(launch_fits(y->count));
  rlx_gpu_set_int(d, "n", y->count);
  rlx_gpu_set_int(d, "word", bits);
  return launch_items(d, 0, y->count, 256);
}

static const char *why_not(const rlx_node *n) {
  const rlx_type *t = rlx_node_output_type(n, 0);
  size_t size = t->dtype != RLX_STRING ? dtype_size(t->dtype) : 0;
  return size == 1 || size == 2 || size == 4 || size == 8 ? NULL : "no kernel text writes this type";
}

static const rlx_gpu_kernel of_shape = {
    .struct_size = sizeof(rlx_gpu_kernel),
    .head =
        {.op = "onnx.ConstantOfShape", .version_min = 9, .version_max = INT32_MAX, .name = "fill", .why_not = why_not},
    .functions = functions,
    .encode = encode,
};
static const rlx_gpu_kernel *const kernels[] = {&of_shape, NULL};
const rlx_module gpu_fill = {.gpu_kernels = kernels};
