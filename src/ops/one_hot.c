/* one_hot.c — OneHot: a new axis that is "on" at each index and "off" elsewhere. */
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "ir/module.h"
#include "ops/_derivative.h"
#include "ops/_move.h"

typedef struct one_hot_params {
  uint64_t given;
  int64_t axis;
} one_hot_params;

static const rlx_attr_def one_hot_attrs[] = {
    {.name = "axis", .kind = RLX_ATTR_INT, .offset = offsetof(one_hot_params, axis), .default_int = -1}, {0}};
static const rlx_port one_hot_inputs[] = {{.name = "indices", .dtypes = RLX_SET_NUMBERS},
                                          {.name = "depth", .dtypes = RLX_SET_NUMBERS, .flags = RLX_HOST},
                                          {.name = "values", .variable = "T3", .dtypes = MOVE_WHOLE},
                                          {0}};
static const rlx_port one_hot_outputs[] = {{.name = "output", .variable = "T3", .dtypes = MOVE_WHOLE}, {0}};

/* An index or depth of any number type, as an integer; INT64_MIN if it is none that fits. */
static int64_t whole_number(rlx_dtype dtype, const void *data, int64_t i) {
  if (!dtype_is_float(dtype)) return dtype_load_int(dtype, data, i);
  double v = dtype_load(dtype, data, i);
  return v > -9e18 && v < 9e18 ? (int64_t)v : INT64_MIN;
}

static rlx_status one_hot_infer(rlx_infer *ctx) {
  const one_hot_params *p = rlx_infer_params(ctx);
  const rlx_type *indices = rlx_infer_input(ctx, 0), *values = rlx_infer_input(ctx, 2);
  if (values->rank >= 0 && (values->rank != 1 || (values->dims[0] >= 0 && values->dims[0] != 2)))
    return rlx_fail(ctx, RLX_INVALID, "values must be [off, on]");
  const rlx_tensor *depth = rlx_infer_value(ctx, 1);
  int64_t extent = RLX_UNKNOWN;
  if (depth) {
    if (depth->count != 1) return rlx_fail(ctx, RLX_INVALID, "depth has %lld elements", (long long)depth->count);
    extent = whole_number(depth->dtype, depth->data, 0);
    if (extent < 0) return rlx_fail(ctx, RLX_INVALID, "depth is %lld", (long long)extent);
  }
  if (indices->rank == RLX_UNKNOWN) return RLX_OK;
  int rank = indices->rank + 1, axis;
  if (rank > RLX_MAX_RANK) return rlx_fail(ctx, RLX_UNSUPPORTED, "rank %d is over %d", rank, RLX_MAX_RANK);
  rlx_status status = infer_axis(ctx, p->axis, rank, &axis);
  if (status != RLX_OK) return status;
  int64_t dims[RLX_MAX_RANK];
  for (int d = 0; d < rank; d++) dims[d] = d == axis ? extent : indices->dims[d < axis ? d : d - 1];
  rlx_infer_set(ctx, 0, rank, dims);
  return RLX_OK;
}

static rlx_status one_hot_eval(rlx_ctx *ctx) {
  const one_hot_params *p = ctx->params;
  const rlx_operand *indices = &ctx->inputs[0], *y = &ctx->outputs[0];
  size_t size = dtype_size(y->dtype);
  const char *off = ctx->inputs[2].data, *on = off + size;
  int axis = axis_normalise(p->axis, y->rank);
  int64_t depth = y->dims[axis], inner = dims_product(y->dims, axis + 1, y->rank);
  move_fill(y->data, off, y->count, size);
  for (int64_t i = 0; i < indices->count; i++) {
    int64_t index = whole_number(indices->dtype, indices->data, i);
    if (index < 0) index += depth;
    if (index < 0 || index >= depth) continue; /* all off, as ONNX says */
    int64_t at = (i / inner * depth + index) * inner + i % inner;
    memcpy((char *)y->data + at * (int64_t)size, on, size);
  }
  return RLX_OK;
}

/* off + (on - off) h, with h of zeros and ones. */
static rlx_status one_hot_derive(rlx_graph *g, const rlx_node *n, rlx_value **outputs) {
  const one_hot_params *p = rlx_node_params(n);
  rlx_value *in[3] = {rlx_node_input(n, 0), rlx_node_input(n, 1), rlx_node_input(n, 2)};
  return derivative_text(g, in, outputs,
                         "one_hot (indices, depth, values) => (y)"
                         " <%s[2] flags = {0, 1}, int64 zero = {0}, int64 one = {1}> {"
                         " h = OneHot <axis = %lld> (indices, depth, flags)"
                         " off = Gather (values, zero) on = Gather (values, one)"
                         " rise = Sub (on, off) part = Mul (h, rise) y = Add (off, part) }",
                         rlx_dtype_name(rlx_value_type(in[2])->dtype), (long long)p->axis);
}

static const rlx_op one_hot = {
    .struct_size = sizeof(rlx_op),
    .name = "onnx.OneHot",
    .version = 9,
    .samples = (const char *const[]){"int64[2,3], int64[] = {4}, float[2] = {0.0, 1.0}",
                                     "int32[4], int64[1] = {3}, int64[2] = {5, -1} {axis = 0}", NULL},
    .doc = "A new axis of extent depth holding values[1] at the index and values[0] elsewhere; an index "
           "outside [-depth, depth) gives values[0] only.",
    .inputs = one_hot_inputs,
    .outputs = one_hot_outputs,
    .attrs = one_hot_attrs,
    .params_size = sizeof(one_hot_params),
    .traits = RLX_PURE,
    .infer = one_hot_infer,
    .derive = one_hot_derive,
    .eval = one_hot_eval,
};

static const rlx_op *const ops[] = {&one_hot, NULL};
const rlx_module ops_one_hot = {.ops = ops};
