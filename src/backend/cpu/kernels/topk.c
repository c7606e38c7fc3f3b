/* topk.c — TopK with planned scratch memory. */
#include "ir/module.h"
#include "ops/_move.h"
#include "ops/_topk.h"

static int64_t chunks_of(rlx_bound *b) {
  const topk_params *p = rlx_bound_params(b);
  const rlx_type *x = rlx_bound_input(b, 0);
  int64_t count = shape_count(x->rank, x->dims), n = x->dims[axis_normalise(p->axis, x->rank)];
  return topk_chunks_of(count, n ? count / n : 0, rlx_bound_threads(b));
}

/* The kept number of elements is that of whichever output is wanted. */
static int64_t topk_workspace(rlx_bound *b, const void *state) {
  const topk_params *p = rlx_bound_params(b);
  const rlx_type *y = rlx_bound_output(b, 0);
  (void)state;
  if (!y) y = rlx_bound_output(b, 1);
  if (!y) return 0;
  return dim_mul(chunks_of(b) * y->dims[axis_normalise(p->axis, y->rank)], (int64_t)sizeof(int64_t));
}

static rlx_status topk_kernel_run(rlx_ctx *ctx) {
  const topk_params *p = ctx->params;
  int64_t k = index_load(&ctx->inputs[1], 0), n = ctx->inputs[0].dims[axis_normalise(p->axis, ctx->inputs[0].rank)];
  int64_t fitting = k > 0 && k <= n ? ctx->workspace_bytes / (int64_t)sizeof(int64_t) / k : 1;
  return topk_run(ctx, ctx->workspace, fitting > 0 ? fitting : 1);
}

static const rlx_cpu_kernel topk_kernel = {
    .struct_size = sizeof(rlx_cpu_kernel),
    .head = {.op = "onnx.TopK", .version_min = 10, .version_max = 10, .name = "heap", .workspace = topk_workspace},
    .run = topk_kernel_run,
};

static const rlx_cpu_kernel *const kernels[] = {&topk_kernel, NULL};
const rlx_module cpu_topk = {.kernels = kernels};
