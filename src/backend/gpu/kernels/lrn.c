/* lrn.c — local response normalisation on GPUs: a thread an element. */
#include "ops/lrn.h"
#include "backend/gpu/kernels/_launch.h"

/* clang-format off */
static const char body[] = RLX_GPU_TEXT(
  for (u32 i = GLOBAL_ID; i < n; i += GLOBAL_SIZE) {
    u32 q = i / inner;
    i32 c = i32(q - q / channels * channels);
    i32 first = c > reach_before ? c - reach_before : 0;
    i32 last = c + reach_after < i32(channels) ? c + reach_after : i32(channels) - 1;
    i64 base = i64(i) - i64(c) * i64(inner);
    f32 sum = 0.0f;
    for (i32 j = first; j <= last; j++) {
      f32 v = x[base + i64(j) * i64(inner)];
      sum = FMA(v, v, sum);
    }
    f32 factor = bias + share * sum;
    y[i] = x[i] / (beta == 0.75f ? SQRT(factor) * SQRT(SQRT(factor)) : POW(factor, beta));
  }
);
/* clang-format on */
static const rlx_gpu_arg args[] = {ARG_IN("x", 0),
                                   ARG_OUT("y", 0),
                                   ARG_SCALAR("n", "u32"),
                                   ARG_SCALAR("inner", "u32"),
                                   ARG_SCALAR("channels", "u32"),
                                   ARG_SCALAR("reach_before", "i32"),
                                   ARG_SCALAR("reach_after", "i32"),
                                   ARG_SCALAR("share", "f32"),
                                   ARG_SCALAR("beta", "f32"),
                                   ARG_SCALAR("bias", "f32"),
                                   {0}};
static const rlx_gpu_function functions[] = {{.name = "lrn", .args = args, .body = body}, {0}};

static rlx_status encode(rlx_gpu_dispatch *d) {
  const lrn_params *p = rlx_gpu_params(d);
  const rlx_operand *x = rlx_gpu_input(d, 0);
  int64_t inner = 1, before = (p->size - 1) / 2;
  if (x->rank < 2) return RLX_FAIL(INVALID, "an input of rank %d has no channels", x->rank);
  if (x->count == 0) return RLX_OK;
  for (int i = 2; i < x->rank; i++) inner *= x->dims[i];
  RLX_TRY(launch_fits(x->count));
  RLX_TRY(launch_fits(p->size + x->dims[1]));
  rlx_gpu_set_int(d, "n", x->count);
  rlx_gpu_set_int(d, "inner", inner);
  rlx_gpu_set_int(d, "channels", x->dims[1]);
  rlx_gpu_set_int(d, "reach_before", before);
  rlx_gpu_set_int(d, "reach_after", p->size - 1 - before);
  rlx_gpu_set_float(d, "share", (double)p->alpha / (double)p->size);
  return launch_items(d, 0, x->count, 256);
}

static const char *why_not(const rlx_node *n) { return launch_needs_real(n, 0); }
static const rlx_gpu_kernel lrn = {
    .struct_size = sizeof(rlx_gpu_kernel),
    .head = {.op = "onnx.LRN", .name = "elements", .why_not = why_not},
    .functions = functions,
    .encode = encode,
};
static const rlx_gpu_kernel *const kernels[] = {&lrn, NULL};
const rlx_module gpu_lrn = {.gpu_kernels = kernels};
