/* shape.c — Shape and Size: the extents of a tensor as a value. */
#include <stddef.h>

#include "ir/module.h"
#include "ops/_move.h"

typedef struct shape_params {
  uint64_t given;
  int64_t start, end;
} shape_params;

static const rlx_attr_def shape_attrs[] = {
    {.name = "start", .kind = RLX_ATTR_INT, .offset = offsetof(shape_params, start)},
    {.name = "end", .kind = RLX_ATTR_INT, .offset = offsetof(shape_params, end)},
    {0}};
static const rlx_port shape_inputs[] = {{.name = "data"}, {0}};
static const rlx_port shape_outputs[] = {{.name = "shape", .dtypes = MOVE_INT64, .flags = RLX_HOST}, {0}};

static int clamp_axis(int64_t axis, int rank) {
  if (axis < 0) axis += rank;
  return axis < 0 ? 0 : axis > rank ? rank : (int)axis;
}

/* The dims [*from, *to) that are asked for. */
static void shape_range(const shape_params *p, int rank, int *from, int *to) {
  *from = clamp_axis(p->start, rank);
  *to = p->given & 2u ? clamp_axis(p->end, rank) : rank;
  if (*to < *from) *to = *from;
}

static rlx_status shape_infer(rlx_infer *ctx) {
  const rlx_type *x = rlx_infer_input(ctx, 0);
  rlx_infer_output(ctx, 0)->dtype = RLX_INT64;
  if (x->rank == RLX_UNKNOWN) {
    infer_unknown(ctx, 0, 1);
    return RLX_OK;
  }
  int from, to;
  shape_range(rlx_infer_params(ctx), x->rank, &from, &to);
  rlx_infer_set(ctx, 0, 1, &(int64_t){to - from});
  return RLX_OK;
}

static rlx_status shape_eval(rlx_ctx *ctx) {
  int from, to;
  shape_range(ctx->params, ctx->inputs[0].rank, &from, &to);
  int64_t *y = ctx->outputs[0].data;
  for (int d = from; d < to; d++) y[d - from] = ctx->inputs[0].dims[d];
  return RLX_OK;
}

static const rlx_op shape = {
    .struct_size = sizeof(rlx_op),
    .name = "onnx.Shape",
    .version = 1,
    .doc = "The dims start to end of the input (all by default).",
    .samples = (const char *const[]){"float[2,3]", "float[2,3,4] {start = 1}", "float[2,3] {end = -1}", NULL},
    .inputs = shape_inputs,
    .outputs = shape_outputs,
    .attrs = shape_attrs,
    .params_size = sizeof(shape_params),
    .traits = RLX_PURE | RLX_SHAPE_ONLY,
    .infer = shape_infer,
    .eval = shape_eval,
};

static const rlx_port size_outputs[] = {{.name = "size", .dtypes = MOVE_INT64, .flags = RLX_HOST}, {0}};

static rlx_status size_infer(rlx_infer *ctx) {
  rlx_infer_output(ctx, 0)->dtype = RLX_INT64;
  rlx_infer_set(ctx, 0, 0, NULL);
  return RLX_OK;
}

static rlx_status size_eval(rlx_ctx *ctx) {
  *(int64_t *)ctx->outputs[0].data = ctx->inputs[0].count;
  return RLX_OK;
}

static const rlx_op size = {
    .struct_size = sizeof(rlx_op),
    .name = "onnx.Size",
    .version = 1,
    .doc = "The number of elements of the input.",
    .samples = (const char *const[]){"float[2,3]", "float[]", NULL},
    .inputs = shape_inputs,
    .outputs = size_outputs,
    .traits = RLX_PURE | RLX_SHAPE_ONLY,
    .infer = size_infer,
    .eval = size_eval,
};

static const rlx_op *const ops[] = {&shape, &size, NULL};
const rlx_module ops_shape = {.ops = ops};
