/* centercroppad.c — onnx.CenterCropPad. */
#include <string.h>

#include "base/status.h"
#include "ir/dtype.h"
#include "ir/module.h"
#include "ir/shape.h"

typedef struct crop_params {
  uint64_t given;
  rlx_ints axes;
} crop_params;

/* Replaces the dims of the axes by those of `shape`. NULL, or what is wrong, in the buffer of rlx_reason. */
static const char *resize(const crop_params *p, int rank, int64_t *dims, const rlx_dtype dtype, const void *shape,
                          int64_t count) {
  if (count != (p->axes.count ? p->axes.count : rank)) {
    return rlx_reason("a shape of %lld entries for %lld axes", (long long)count,
                      (long long)(p->axes.count ? p->axes.count : rank));
  }
  for (int64_t i = 0; i < count; i++) {
    int axis = p->axes.count ? axis_normalise(p->axes.data[i], rank) : (int)i;
    if (axis < 0) return rlx_reason("axis %lld is outside rank %d", (long long)p->axes.data[i], rank);
    dims[axis] = shape ? dtype_load_int(dtype, shape, i) : RLX_UNKNOWN;
    if (shape && dims[axis] < 0) return rlx_reason("shape holds %lld", (long long)dims[axis]);
  }
  return NULL;
}

static rlx_status infer(rlx_infer *ctx) {
  const rlx_type *x = rlx_infer_input(ctx, 0), *type = rlx_infer_input(ctx, 1);
  const rlx_tensor *shape = rlx_infer_value(ctx, 1);
  const crop_params *p = rlx_infer_params(ctx);
  if (x->rank == RLX_UNKNOWN) return RLX_OK;
  int64_t dims[RLX_MAX_RANK], count = type->rank == 1 ? type->dims[0] : RLX_UNKNOWN;
  memcpy(dims, x->dims, sizeof dims);
  if (shape) count = rlx_tensor_count(shape);
  if (count == RLX_UNKNOWN) count = p->axes.count ? p->axes.count : x->rank;
  const char *bad = resize(p, x->rank, dims, shape ? rlx_tensor_dtype(shape) : RLX_INT64,
                           shape ? rlx_tensor_data(shape) : NULL, count);
  if (bad) return rlx_fail(ctx, RLX_INVALID, "%s", bad);
  rlx_infer_set(ctx, 0, x->rank, dims);
  return RLX_OK;
}

/* Where the copied block starts and how long it is, along each axis. */
typedef struct block {
  int64_t from[RLX_MAX_RANK], to[RLX_MAX_RANK], size[RLX_MAX_RANK];
} block;

static rlx_status eval(rlx_ctx *ctx) {
  const rlx_operand *x = &ctx->inputs[0], *y = &ctx->outputs[0];
  size_t element = dtype_size(x->dtype);
  if (y->rank != x->rank || element == 0) return rlx_fail(ctx, RLX_UNSUPPORTED, "%s", rlx_dtype_name(x->dtype));
  memset(y->data, 0, (size_t)y->bytes);
  if (x->count == 0 || y->count == 0) return RLX_OK;
  block b;
  memset(&b, 0, sizeof b);
  int64_t index[RLX_MAX_RANK] = {0}, rows = 1;
  int last = x->rank - 1;
  for (int d = 0; d < x->rank; d++) {
    int64_t spare = x->dims[d] - y->dims[d];
    b.from[d] = spare > 0 ? spare / 2 : 0;
    b.to[d] = spare < 0 ? -spare / 2 : 0;
    b.size[d] = spare > 0 ? y->dims[d] : x->dims[d];
    if (d < last) rows *= b.size[d];
  }
  int64_t run = x->rank ? b.size[last] : 1;
  for (int64_t i = 0; i < rows; i++) {
    int64_t from = 0, to = 0;
    for (int d = 0; d < x->rank; d++) {
      from = from * x->dims[d] + b.from[d] + (d < last ? index[d] : 0);
      to = to * y->dims[d] + b.to[d] + (d < last ? index[d] : 0);
    }
    memcpy((char *)y->data + (size_t)to * element, (const char *)x->data + (size_t)from * element,
           (size_t)run * element);
    for (int d = last - 1; d >= 0 && ++index[d] == b.size[d]; d--) index[d] = 0;
  }
  return RLX_OK;
}

static const rlx_attr_def attrs[] = {
    {.name = "axes", .kind = RLX_ATTR_INTS, .offset = offsetof(crop_params, axes)}, {0}};
static const rlx_op center_crop_pad = {
    .struct_size = sizeof(rlx_op),
    .name = "onnx.CenterCropPad",
    .version = 18,
    .doc = "Crops or zero-pads axes to the sizes asked for, keeping the centre.",
    .inputs = (const rlx_port[]){{"input_data", "T", RLX_SET_ALL, 0, 0},
                                 {"shape", "Tind", RLX_SET_INDEX, RLX_HOST, 0},
                                 {0}},
    .outputs = (const rlx_port[]){{"output_data", "T", RLX_SET_ALL, 0, 0}, {0}},
    .attrs = attrs,
    .params_size = sizeof(crop_params),
    .traits = RLX_PURE,
    .infer = infer,
    .eval = eval,
};

static const rlx_op *const ops[] = {&center_crop_pad, NULL};
const rlx_module ops_centercroppad = {.ops = ops};
