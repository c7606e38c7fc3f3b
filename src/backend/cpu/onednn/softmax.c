/* softmax.c — onnx.Softmax and onnx.LogSoftmax by oneDNN. */
#include <string.h>

#include "backend/cpu/onednn/_kernel.h"
#include "base/status.h"
#include "ir/module.h"
#include "ir/shape.h"
#include "ops/softmax.h"

static const char *why_not(const rlx_node *n) {
  return onednn_check_type(rlx_node_input_type(n, 0), "input", 1, RLX_MAX_RANK);
}

static rlx_status prepare(rlx_bound *b, void **state) {
  const rlx_type *x = rlx_bound_input(b, 0);
  softmax_shape s;
  const char *bad = softmax_resolve(rlx_bound_params(b), x->rank, x->dims, &s);
  if (bad) return rlx_fail(b, RLX_INVALID, "%s", bad);
  *state = NULL;
  if (onednn_has_zero(x)) return RLX_OK;
  onednn_softmax_desc d = {.src = onednn_dense(3, (const int64_t[]){s.outer, s.count, s.inner}), .axis = 1};
  if (s.inner == 1) d.src.rank = 2;
  d.logarithm = strcmp(rlx_node_op(rlx_bound_node(b)), "onnx.LogSoftmax") == 0;
  onednn_primitive *primitive = NULL;
  RLX_TRY(onednn_make_softmax(b, onednn_threads(b, 50 * (double)shape_count(x->rank, x->dims)), &d, &primitive));
  *state = primitive;
  return RLX_OK;
}

static int64_t workspace(rlx_bound *b, const void *state) {
  (void)b;
  return state ? onednn_workspace(state, true) : 0;
}

static rlx_status run(rlx_ctx *ctx) {
  if (!ctx->state) return RLX_OK;
  onednn_args args = {.src = ctx->inputs[0].data, .dst = ctx->outputs[0].data, .workspace = ctx->workspace};
  return onednn_execute(ctx, ctx->state, ctx->run_state, &args);
}

static const rlx_pair in_place[] = {{0, 0}};

#define KERNEL(op_name)                                                                                                \
  {.struct_size = sizeof(rlx_cpu_kernel),                                                                              \
   .head = {.op = (op_name), .version_min = 13, .version_max = INT32_MAX, .name = "onednn", .in_place = in_place,      \
            .in_place_count = 1, .why_not = why_not, .workspace = workspace, .prepare = prepare,                       \
            .release = onednn_release, .run_init = onednn_run_init, .run_done = onednn_run_done},                      \
   .run = run}
static const rlx_cpu_kernel softmax = KERNEL("onnx.Softmax");
static const rlx_cpu_kernel log_softmax = KERNEL("onnx.LogSoftmax");

const rlx_module onednn_softmax = {.kernels = (const rlx_cpu_kernel *const[]){&softmax, &log_softmax, NULL}};
