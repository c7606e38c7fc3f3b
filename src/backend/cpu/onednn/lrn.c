/* lrn.c — onnx.LRN by oneDNN, in whatever layout the input comes. */
#include "ops/lrn.h"
#include "backend/cpu/onednn/_kernel.h"
#include "base/status.h"
#include "ir/module.h"

static const char *why_not(const rlx_node *n) {
  const lrn_params *p = rlx_node_params(n);
  const char *bad = onednn_check_type(rlx_node_input_type(n, 0), "X", 4, 4);
  if (bad) return bad;
  return p->size % 2 == 0 ? "an even window" : NULL;
}

static void layouts(const rlx_node *n, rlx_layouts *l) {
  (void)n;
  l->inputs[0] = RLX_SAME_LAYOUT;
  l->outputs[0] = RLX_SAME_LAYOUT;
}

static rlx_status prepare(rlx_bound *b, void **state) {
  const lrn_params *p = rlx_bound_params(b);
  const rlx_type *x = rlx_bound_input(b, 0);
  *state = NULL;
  if (onednn_has_zero(x)) return RLX_OK;
  onednn_lrn_desc d = {.src = onednn_activation(x, rlx_bound_input_layout(b, 0)),
                       .size = p->size,
                       .alpha = p->alpha,
                       .beta = p->beta,
                       .bias = p->bias};
  onednn_primitive *primitive = NULL;
  RLX_TRY(onednn_make_lrn(b, rlx_bound_threads(b), &d, &primitive));
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

static const rlx_cpu_kernel lrn = {
    .struct_size = sizeof(rlx_cpu_kernel),
    .head = {.op = "onnx.LRN",
             .name = "onednn",
             .why_not = why_not,
             .layouts = layouts,
             .workspace = workspace,
             .prepare = prepare,
             .release = onednn_release,
             .run_init = onednn_run_init,
             .run_done = onednn_run_done},
    .run = run,
};

const rlx_module onednn_lrn = {.kernels = (const rlx_cpu_kernel *const[]){&lrn, NULL}};
