/* cast.c — onnx.Cast and onnx.CastLike on several threads. */
#include "base/status.h"
#include "ir/dtype.h"
#include "ir/module.h"
#include "ops/_cast.h"

enum { GRAIN = 32768 };

static const char *why_not(const rlx_node *n) {
  const rlx_type *in = rlx_node_input_type(n, 0), *out = rlx_node_output_type(n, 0);
  if (in->dtype == RLX_STRING || out->dtype == RLX_STRING) return "strings";
  return dtype_size(out->dtype) == 0 ? "elements smaller than a byte" : NULL;
}

typedef struct job {
  const rlx_operand *in, *out;
  convert_rule rule;
} job;

static void body(void *arg, int64_t begin, int64_t end) {
  const job *j = arg;
  convert_run(j->in->dtype, j->in->data, begin, j->out->dtype, j->out->data, begin, end - begin, &j->rule);
}

static rlx_status run(rlx_ctx *ctx) {
  job j = {.in = &ctx->inputs[0], .out = &ctx->outputs[0]};
  RLX_TRY(cast_rule(ctx, ctx->params, &j.rule));
  if (j.out->count <= GRAIN) {
    body(&j, 0, j.out->count);
  } else {
    rlx_parallel_for(ctx, j.out->count, GRAIN, body, &j);
  }
  return RLX_OK;
}

/* Input 1 of CastLike is not read: it may lie as it likes. */
static void layouts(const rlx_node *n, rlx_layouts *l) {
  (void)n;
  for (int i = 1; i < l->input_count; i++) l->inputs[i] = RLX_ROW_MAJOR;
  l->inputs[0] = l->outputs[0] = RLX_SAME_LAYOUT;
}

#define KERNEL(op_name, from)                                                                                          \
  {                                                                                                                    \
    .struct_size = sizeof(rlx_cpu_kernel),                                                                             \
    .head = {.op = op_name,                                                                                            \
             .version_min = from,                                                                                      \
             .version_max = INT32_MAX,                                                                                 \
             .name = "vector",                                                                                         \
             .why_not = why_not,                                                                                       \
             .layouts = layouts},                                                                                      \
    .run = run                                                                                                         \
  }
static const rlx_cpu_kernel cast = KERNEL("onnx.Cast", 6);
static const rlx_cpu_kernel cast_like = KERNEL("onnx.CastLike", 15);

static const rlx_cpu_kernel *const kernels[] = {&cast, &cast_like, NULL};
const rlx_module cpu_cast = {.kernels = kernels};
