/* strided.c — kernels of ops that are one strided copy, planned when the program is bound. */
#include <string.h>

#include "base/memory.h"
#include "ir/module.h"
#include "ops/_strided.h"

/* The plan as state; without state (bounds known only at the run) it is made anew. */
static rlx_status plan_state(rlx_bound *b, void **state, strided_plan plan) {
  strided_node n = strided_of_bound(b);
  strided_copy c;
  *state = NULL;
  rlx_status status = plan(&n, &c);
  if (status == RLX_NOT_FOUND) return RLX_OK;
  if (status != RLX_OK) return status;
  strided_copy *kept = mem_alloc(sizeof *kept);
  if (!kept) return rlx_fail(b, RLX_OUT_OF_MEMORY, "no memory for %zu bytes", sizeof *kept);
  *kept = c;
  *state = kept;
  return RLX_OK;
}

static rlx_status run_state(rlx_ctx *ctx, strided_plan plan) {
  const strided_copy *c = ctx->state;
  if (!c) return strided_eval(ctx, plan);
  if (!c->size && ctx->outputs[0].bytes) memset(ctx->outputs[0].data, 0, (size_t)ctx->outputs[0].bytes);
  strided_run(ctx, c, ctx->inputs[0].data, ctx->outputs[0].data);
  return RLX_OK;
}

#define STRIDED_KERNEL(id, op_name, first_version)                                                                     \
  static rlx_status id##_prepare(rlx_bound *b, void **state) { return plan_state(b, state, id##_plan); }               \
  static rlx_status id##_run(rlx_ctx *ctx) { return run_state(ctx, id##_plan); }                                       \
  static const rlx_cpu_kernel id##_kernel = {                                                                          \
      .struct_size = sizeof(rlx_cpu_kernel),                                                                           \
      .head = {.op = op_name,                                                                                          \
               .version_min = first_version,                                                                           \
               .version_max = first_version,                                                                           \
               .name = "strided",                                                                                      \
               .prepare = id##_prepare,                                                                                \
               .release = mem_free},                                                                                   \
      .run = id##_run,                                                                                                 \
  }

STRIDED_KERNEL(transpose, "onnx.Transpose", 1);
STRIDED_KERNEL(slice, "onnx.Slice", 10);
STRIDED_KERNEL(expand, "onnx.Expand", 8);
STRIDED_KERNEL(tile, "onnx.Tile", 6);
STRIDED_KERNEL(space_to_depth, "onnx.SpaceToDepth", 1);
STRIDED_KERNEL(depth_to_space, "onnx.DepthToSpace", 1);

static const rlx_cpu_kernel *const kernels[] = {
    &transpose_kernel,      &slice_kernel, &expand_kernel, &tile_kernel, &space_to_depth_kernel,
    &depth_to_space_kernel, NULL};
const rlx_module cpu_strided = {.kernels = kernels};
