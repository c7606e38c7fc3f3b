/* resize_grad.c — the gradient of Resize: its passes transposed, last first. */
#include <string.h>

#include "base/memory.h"
#include "ir/module.h"
#include "ops/_convert.h"
#include "ops/_resize.h"

static const rlx_port grad_inputs[] = {
    {.name = "dy", .variable = "T", .dtypes = RLX_SET_FLOATS},
    {.name = "shape", .dtypes = MOVE_INT64, .flags = RLX_HOST},
    {.name = "roi",
     .dtypes = RLX_SET(RLX_FLOAT) | RLX_SET(RLX_DOUBLE) | RLX_SET(RLX_FLOAT16),
     .flags = RLX_HOST | RLX_OPTIONAL},
    {.name = "scales", .dtypes = RLX_SET(RLX_FLOAT), .flags = RLX_HOST | RLX_OPTIONAL},
    {.name = "sizes", .dtypes = MOVE_INT64, .flags = RLX_HOST | RLX_OPTIONAL},
    {0}};
static const rlx_port grad_outputs[] = {{.name = "dx", .variable = "T", .dtypes = RLX_SET_FLOATS}, {0}};

static rlx_status grad_infer(rlx_infer *ctx) {
  const rlx_type *dy = rlx_infer_input(ctx, 0);
  int_list shape;
  rlx_status status = infer_ints(ctx, 1, &shape);
  if (status != RLX_OK) return status;
  if (shape.count > RLX_MAX_RANK || (shape.count >= 0 && dy->rank >= 0 && dy->rank != shape.count))
    return rlx_fail(ctx, RLX_INVALID, "shape has %d entries for rank %d", shape.count, dy->rank);
  if (shape.count >= 0)
    rlx_infer_set(ctx, 0, shape.count, shape.values);
  else if (dy->rank >= 0)
    infer_unknown(ctx, 0, dy->rank);
  return RLX_OK;
}

/* dx as [outer, in, inner] += the transposed pass of dy as [outer, out, inner]. */
static void transposed_pass(const resize_axis *a, const double *dy, double *dx, int64_t outer, int64_t inner) {
  memset(dx, 0, (size_t)(outer * a->in * inner) * sizeof *dx);
  for (int64_t o = 0; o < outer; o++)
    for (int64_t j = 0; j < a->out; j++) {
      const int64_t *index = a->index + j * a->taps;
      const double *from = dy + (o * a->out + j) * inner;
      if (index[0] < 0) continue; /* the extrapolation value */
      for (int64_t k = 0; k < a->taps; k++) {
        double *to = dx + (o * a->in + index[k]) * inner, w = a->weight ? a->weight[j * a->taps + k] : 1;
        for (int64_t i = 0; i < inner; i++) to[i] += w * from[i];
      }
    }
}

/* Two buffers of `most` elements: dy in the first; the result's address. */
static double *run_passes(const resize_plan *plan, const rlx_operand *dy, double *buffers, int64_t most) {
  int64_t dims[RLX_MAX_RANK];
  double *from = buffers, *to = buffers + most;
  memcpy(dims, dy->dims, sizeof(int64_t) * (size_t)dy->rank);
  for (int i = plan->count; i-- > 0;) {
    const resize_axis *a = &plan->axes[i];
    transposed_pass(a, from, to, dims_product(dims, 0, a->axis), dims_product(dims, a->axis + 1, dy->rank));
    dims[a->axis] = a->in;
    double *swap = from;
    from = to;
    to = swap;
  }
  return from;
}

static void read_inputs(const rlx_ctx *ctx, resize_inputs *in) {
  *in = (resize_inputs){0};
  if (run_given(ctx, 2)) {
    in->roi = ctx->inputs[2].data;
    in->roi_dtype = ctx->inputs[2].dtype;
    in->roi_count = ctx->inputs[2].count;
  }
  if (run_given(ctx, 3)) {
    in->scales = ctx->inputs[3].data;
    in->scale_count = ctx->inputs[3].count;
  }
  if (run_given(ctx, 4)) {
    in->sizes = ctx->inputs[4].data;
    in->size_count = ctx->inputs[4].count;
  }
}

static rlx_status grad_eval(rlx_ctx *ctx) {
  const resize_params *p = ctx->params;
  const rlx_operand *dy = &ctx->inputs[0], *dx = &ctx->outputs[0];
  resize_inputs in;
  resize_request r;
  resize_plan plan;
  read_inputs(ctx, &in);
  rlx_status status = resize_request_of(ctx, p, dx->rank, dx->dims, &in, &r);
  if (status != RLX_OK) return status;
  for (int d = 0; d < dy->rank; d++)
    if (r.out[d] != dy->dims[d])
      return rlx_fail(ctx, RLX_INVALID, "dim %d of dy is %lld, not %lld", d, (long long)dy->dims[d],
                      (long long)r.out[d]);
  status = resize_make(ctx, p, &r, &plan);
  if (status != RLX_OK) return status;
  int64_t most = dy->count > dx->count ? dy->count : dx->count;
  if (plan.scratch > most) most = plan.scratch;
  double *buffers = mem_array((size_t)(2 * most + 1), sizeof *buffers);
  if (buffers) {
    if (dy->count == 0) memset(buffers, 0, (size_t)most * sizeof *buffers);
    convert_run(dy->dtype, dy->data, 0, RLX_DOUBLE, buffers, 0, dy->count, &convert_default);
    const double *result = run_passes(&plan, dy, buffers, most);
    convert_run(RLX_DOUBLE, result, 0, dx->dtype, dx->data, 0, dx->count, &convert_default);
  } else {
    status = rlx_fail(ctx, RLX_OUT_OF_MEMORY, "no memory for %lld elements", (long long)(2 * most));
  }
  mem_free(buffers);
  resize_finish(&plan);
  return status;
}

/* Its transpose is Resize, but for what is filled in outside. */
static rlx_status grad_vjp(rlx_graph *g, const rlx_node *n, rlx_value *const *grads, rlx_value **dx) {
  const resize_params *p = rlx_node_params(n);
  if (!grads[0]) return RLX_OK;
  rlx_attr attrs[RESIZE_ATTRS] = {
      RLX_ATTR_I("antialias", p->antialias),
      RLX_ATTR_I("exclude_outside", p->exclude_outside),
      RLX_ATTR_F("cubic_coeff_a", p->cubic_a),
      RLX_ATTR_F("extrapolation_value", 0),
      {.name = "mode", .kind = RLX_ATTR_STRING, .s = p->mode},
      {.name = "nearest_mode", .kind = RLX_ATTR_STRING, .s = p->nearest_mode},
      {.name = "coordinate_transformation_mode", .kind = RLX_ATTR_STRING, .s = p->coordinates},
      {.name = "keep_aspect_ratio_policy", .kind = RLX_ATTR_STRING, .s = p->aspect},
      {.name = "axes", .kind = RLX_ATTR_INTS, .ints = p->axes.data, .count = (size_t)p->axes.count}};
  rlx_value *inputs[4] = {grads[0]};
  for (int i = 2; i < 5; i++) inputs[i - 1] = rlx_node_input(n, i);
  dx[0] =
      rlx_graph_op(g, "onnx.Resize", attrs, p->given & RESIZE_GIVEN_AXES ? RESIZE_ATTRS : RESIZE_ATTRS - 1, inputs, 4);
  return rlx_graph_status(g);
}

static const rlx_op resize_grad = {
    .struct_size = sizeof(rlx_op),
    .name = "rlx.grad.Resize",
    .version = 1,
    .samples =
        (const char *const[]){"float[1,1,4,2], int64[4] = {1, 1, 2, 4}, , float[4] = {1.0, 1.0, 2.0, 0.5}", NULL},
    .doc = "The gradient of Resize for an input of the given shape.",
    .inputs = grad_inputs,
    .outputs = grad_outputs,
    .attrs = resize_attrs,
    .params_size = sizeof(resize_params),
    .traits = RLX_PURE,
    .infer = grad_infer,
    .vjp = grad_vjp,
    .eval = grad_eval,
};

static const rlx_op *const ops[] = {&resize_grad, NULL};
const rlx_module ops_resize_grad = {.ops = ops};
