/* fill.c — ConstantOfShape, and Dropout in inference with its mask, on GPUs. */
#include <string.h>

#include "backend/gpu/kernels/_launch.h"
#include "ir/graph.h"

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
/* ---- Dropout: the input itself, and a mask of ones ---- */

static const char pass_body[] = RLX_GPU_TEXT(for (u32 i = GLOBAL_ID; i < n; i += GLOBAL_SIZE) {
  if (PRESENT(y)) y[i] = x[i];
  if (PRESENT(mask)) mask[i] = true;
});
static const rlx_gpu_arg pass_args[] = {
    ARG_IN_BITS("x", 0), ARG_OUT_BITS("y", 0), {"mask", "bool", RLX_GPU_OUTPUT, 1, 0}, ARG_SCALAR("n", "u32"), {0}};
static const rlx_gpu_function pass_functions[] = {{.name = "dropout", .args = pass_args, .body = pass_body}, {0}};

static rlx_status encode_pass(rlx_gpu_dispatch *d) {
  const rlx_operand *x = rlx_gpu_input(d, 0);
  if (x->count == 0) return RLX_OK;
  RLX_TRY(launch_fits(x->count));
  rlx_gpu_set_int(d, "n", x->count);
  return launch_items(d, 0, x->count, 256);
}

static const char *why_not_pass(const rlx_node *n) {
  const rlx_tensor *training = rlx_node_constant(n, 2);
  if (rlx_node_input_type(n, 2) && (!training || rlx_tensor_count(training) != 1))
    return "training_mode is no constant";
  if (training && *(const uint8_t *)rlx_tensor_data(training)) return "training_mode is set";
  if (n->output_count < 2 || !*n->outputs[1]->name) return "without a mask it is a view";
  return launch_needs_words(n, 0);
}

static const rlx_gpu_kernel dropout = {
    .struct_size = sizeof(rlx_gpu_kernel),
    .head =
        {.op = "onnx.Dropout", .version_min = 12, .version_max = INT32_MAX, .name = "pass", .why_not = why_not_pass},
    .functions = pass_functions,
    .encode = encode_pass,
};

static const rlx_gpu_kernel *const kernels[] = {&of_shape, &dropout, NULL};
const rlx_module gpu_fill = {.gpu_kernels = kernels};
