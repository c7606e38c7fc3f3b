/* resize.c — Resize with its tables made when the program is bound, and planned scratch memory. */
#include "base/memory.h"
#include "ir/module.h"
#include "ops/_resize.h"

/* False: some value is known only at the run. */
static bool find_inputs(rlx_bound *b, resize_inputs *in) {
  const rlx_tensor *t[4] = {NULL};
  *in = (resize_inputs){0};
  for (int i = 1; i < rlx_node_input_count(rlx_bound_node(b)) && i < 4; i++) {
    if (!rlx_bound_input(b, i)) continue;
    t[i] = rlx_bound_constant(b, i);
    if (!t[i]) return false;
  }
  if (t[1]) {
    in->roi = t[1]->data;
    in->roi_dtype = t[1]->dtype;
    in->roi_count = t[1]->count;
  }
  if (t[2]) {
    in->scales = t[2]->data;
    in->scale_count = t[2]->count;
  }
  if (t[3]) {
    in->sizes = t[3]->data;
    in->size_count = t[3]->count;
  }
  return true;
}

static const char *resize_why_not(const rlx_node *n) {
  rlx_dtype dtype = rlx_node_input_type(n, 0)->dtype;
  bool number = dtype_is_float(dtype) || dtype_is_integer(dtype);
  return number ? NULL : "elements are not numbers";
}

static rlx_status resize_prepare(rlx_bound *b, void **state) {
  const rlx_type *x = rlx_bound_input(b, 0);
  resize_inputs in;
  resize_request r;
  resize_plan plan;
  *state = NULL;
  if (!find_inputs(b, &in)) return RLX_OK;
  rlx_status status = resize_request_of(b, rlx_bound_params(b), x->rank, x->dims, &in, &r);
  if (status == RLX_OK) status = resize_make(b, rlx_bound_params(b), &r, &plan);
  if (status != RLX_OK) return status;
  resize_plan *kept = mem_alloc(sizeof *kept);
  if (!kept) {
    resize_finish(&plan);
    return rlx_fail(b, RLX_OUT_OF_MEMORY, "no memory for %zu bytes", sizeof *kept);
  }
  *kept = plan;
  *state = kept;
  return RLX_OK;
}

static void resize_release(void *state) {
  if (state) resize_finish(state);
  mem_free(state);
}

static int64_t resize_workspace(rlx_bound *b, const void *state) {
  const rlx_type *x = rlx_bound_input(b, 0);
  return state ? resize_scratch(state, x->dtype, shape_count(x->rank, x->dims)) : 0;
}

static rlx_status resize_kernel_run(rlx_ctx *ctx) {
  return ctx->state ? resize_run(ctx, ctx->state, ctx->workspace) : resize_eval(ctx);
}

static const rlx_cpu_kernel resize_kernel = {
    .struct_size = sizeof(rlx_cpu_kernel),
    .head = {.op = "onnx.Resize",
             .version_min = 11,
             .version_max = 11,
             .name = "tables",
             .why_not = resize_why_not,
             .workspace = resize_workspace,
             .prepare = resize_prepare,
             .release = resize_release},
    .run = resize_kernel_run,
};

static const rlx_cpu_kernel *const kernels[] = {&resize_kernel, NULL};
const rlx_module cpu_resize = {.kernels = kernels};
