/* layernorm.c — onnx.LayerNormalization by oneDNN. */
#include "ops/layernorm.h"
#include "backend/cpu/onednn/_kernel.h"
#include "base/status.h"
#include "ir/module.h"
#include "ir/shape.h"

/* v has one number for each of the last dims of x, from `axis` on. */
static bool covers(const rlx_type *v, const rlx_type *x, int axis) {
  if (!v || v->dtype != RLX_FLOAT || v->rank != x->rank - axis) return false;
  for (int d = 0; d < v->rank; d++) {
    if (v->dims[d] == RLX_UNKNOWN || v->dims[d] != x->dims[axis + d]) return false;
  }
  return true;
}

static const char *why_not(const rlx_node *n) {
  const layernorm_params *p = rlx_node_params(n);
  const rlx_type *x = rlx_node_input_type(n, 0), *shift = rlx_node_input_type(n, 2);
  const char *bad = onednn_check_type(x, "X", 1, RLX_MAX_RANK);
  if (bad) return bad;
  for (int i = 1; i < rlx_node_output_count(n); i++) {
    if (rlx_node_output_type(n, i)) return "the mean or deviation is wanted";
  }
  int axis = (int)(p->axis < 0 ? p->axis + x->rank : p->axis);
  if (axis < 0 || axis >= x->rank) return "an axis outside the rank";
  if (!covers(rlx_node_input_type(n, 1), x, axis) || (shift && !covers(shift, x, axis))) {
    return "a scale or shift that is broadcast, or whose size is not known";
  }
  return NULL;
}

static rlx_status prepare(rlx_bound *b, void **state) {
  const layernorm_params *p = rlx_bound_params(b);
  const rlx_type *x = rlx_bound_input(b, 0);
  layernorm_shape s;
  const char *bad = layernorm_resolve(p, x->rank, x->dims, &s);
  if (bad) return rlx_fail(b, RLX_INVALID, "%s", bad);
  *state = NULL;
  if (onednn_has_zero(x)) return RLX_OK;
  onednn_layernorm_desc d = {.src = onednn_dense(2, (const int64_t[]){s.rows, s.columns}),
                             .scale = onednn_dense(1, &s.columns),
                             .epsilon = p->epsilon};
  if (rlx_bound_input(b, 2)) d.shift = onednn_dense(1, &s.columns);
  onednn_primitive *primitive = NULL;
  RLX_TRY(onednn_make_layernorm(b, onednn_threads(b, 50 * (double)shape_count(x->rank, x->dims)), &d, &primitive));
  *state = primitive;
  return RLX_OK;
}

static int64_t workspace(rlx_bound *b, const void *state) {
  (void)b;
  return state ? onednn_workspace(state, true) : 0;
}

static rlx_status run(rlx_ctx *ctx) {
  if (!ctx->state) return RLX_OK;
  onednn_args args = {.src = ctx->inputs[0].data,
                      .weights = ctx->inputs[1].data,
                      .bias = ctx->input_count > 2 ? ctx->inputs[2].data : NULL,
                      .dst = ctx->outputs[0].data,
                      .workspace = ctx->workspace};
  return onednn_execute(ctx, ctx->state, ctx->run_state, &args);
}

static const rlx_pair in_place[] = {{0, 0}};
static const rlx_cpu_kernel layernorm = {
    .struct_size = sizeof(rlx_cpu_kernel),
    .head = {.op = "onnx.LayerNormalization",
             .name = "onednn",
             .in_place = in_place,
             .in_place_count = 1,
             .why_not = why_not,
             .workspace = workspace,
             .prepare = prepare,
             .release = onednn_release,
             .run_init = onednn_run_init,
             .run_done = onednn_run_done},
    .run = run,
};

const rlx_module onednn_layernorm = {.kernels = (const rlx_cpu_kernel *const[]){&layernorm, NULL}};
