/* center_crop_pad.c — CenterCropPad: axes cut or filled up with zeros to a size, around the middle. */
#include <stddef.h>

#include "ir/module.h"
#include "ops/_derivative.h"
#include "ops/_strided.h"

typedef struct center_params {
  uint64_t given;
  rlx_ints axes;
} center_params;

static const rlx_attr_def center_attrs[] = {
    {.name = "axes", .kind = RLX_ATTR_INTS, .offset = offsetof(center_params, axes)}, {0}};
static const rlx_port center_inputs[] = {{.name = "input_data", .variable = "T", .dtypes = MOVE_WHOLE},
                                         {.name = "shape", .dtypes = RLX_SET_INDEX, .flags = RLX_HOST},
                                         {0}};
static const rlx_port center_outputs[] = {{.name = "output_data", .variable = "T", .dtypes = MOVE_WHOLE}, {0}};

static rlx_status center_axes(const void *context, const center_params *p, int rank, int_list *axes) {
  axes->count = rank;
  for (int d = 0; d < rank; d++) axes->values[d] = d;
  if (!p->given) return RLX_OK;
  rlx_status status = attr_ints(context, &p->axes, axes);
  return status == RLX_OK ? axes_normalise(context, axes, rank) : status;
}

static rlx_status center_infer(rlx_infer *ctx) {
  const rlx_type *x = rlx_infer_input(ctx, 0);
  int_list shape, axes;
  rlx_status status = infer_ints(ctx, 1, &shape);
  if (status != RLX_OK || x->rank < 0) return status;
  status = center_axes(ctx, rlx_infer_params(ctx), x->rank, &axes);
  if (status != RLX_OK) return status;
  if (shape.count >= 0 && shape.count != axes.count)
    return rlx_fail(ctx, RLX_INVALID, "shape has %d entries for %d axes", shape.count, axes.count);
  rlx_infer_set(ctx, 0, x->rank, x->dims);
  for (int i = 0; i < axes.count; i++) {
    int64_t want = shape.count < 0 ? RLX_UNKNOWN : shape.values[i];
    if (shape.count >= 0 && want < 0) return rlx_fail(ctx, RLX_INVALID, "shape has the entry %lld", (long long)want);
    rlx_infer_output(ctx, 0)->dims[axes.values[i]] = want;
  }
  return RLX_OK;
}

static rlx_status center_eval(rlx_ctx *ctx) {
  const rlx_operand *x = &ctx->inputs[0];
  rlx_operand *y = &ctx->outputs[0];
  int64_t from[RLX_MAX_RANK], to[RLX_MAX_RANK], from_offset = 0, to_offset = 0;
  bool fills = false;
  shape_strides(x->rank, x->dims, from);
  shape_strides(y->rank, y->dims, to);
  for (int d = 0; d < x->rank; d++) {
    int64_t more = y->dims[d] - x->dims[d];
    if (more > 0)
      to_offset += more / 2 * to[d];
    else
      from_offset += -more / 2 * from[d];
    fills = fills || more > 0;
  }
  strided_copy c;
  strided_begin(&c, x->dtype, from_offset, to_offset);
  for (int d = 0; d < x->rank; d++) strided_dim(&c, x->dims[d] < y->dims[d] ? x->dims[d] : y->dims[d], from[d], to[d]);
  strided_finish(&c);
  if (fills) move_zero(y);
  strided_run(ctx, &c, x->data, y->data);
  return RLX_OK;
}

/* What was cut is filled with zeros, and what was filled is cut: the same op, back to the input's dims. */
static rlx_status center_vjp(rlx_graph *g, const rlx_node *n, rlx_value *const *grads, rlx_value **dx) {
  const center_params *p = rlx_node_params(n);
  rlx_value *in[2] = {grads[0], rlx_node_input(n, 0)};
  char axes[300];
  if (!grads[0]) return RLX_OK;
  derivative_list(p->axes.data, p->axes.count, axes, sizeof axes);
  if (!p->given)
    return derivative_text(g, in, dx, "center (dy, x) => (dx) { s = Shape (x) dx = CenterCropPad (dy, s) }");
  return derivative_text(g, in, dx,
                         "center (dy, x) => (dx) <int64[%d] at = {%s}> {"
                         " s = Shape (x) t = Gather (s, at) dx = CenterCropPad <axes = [%s]> (dy, t) }",
                         (int)p->axes.count, axes, axes);
}

static const rlx_op center_crop_pad = {
    .struct_size = sizeof(rlx_op),
    .name = "onnx.CenterCropPad",
    .version = 18,
    .samples =
        (const char *const[]){"float[3,5], int64[2] = {5, 3}", "int32[2,4,3], int64[1] = {7} {axes = [1]}", NULL},
    .doc = "The middle of each of the axes, cut to the given size or with zeros around it.",
    .inputs = center_inputs,
    .outputs = center_outputs,
    .attrs = center_attrs,
    .params_size = sizeof(center_params),
    .traits = RLX_PURE,
    .infer = center_infer,
    .vjp = center_vjp,
    .eval = center_eval,
};

static const rlx_op *const ops[] = {&center_crop_pad, NULL};
const rlx_module ops_center_crop_pad = {.ops = ops};
