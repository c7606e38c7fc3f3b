/* range.c — Range: numbers from start up to limit in steps of delta. */
#include <math.h>
#include <stddef.h>

#include "ir/module.h"
#include "ops/_derivative.h"
#include "ops/_move.h"
#include "ops/_number.h"

typedef struct range_params {
  uint64_t given;
  int64_t stash_type;
} range_params;

static const rlx_attr_def range_attrs[] = {
    {.name = "stash_type", .kind = RLX_ATTR_INT, .offset = offsetof(range_params, stash_type), .default_int = 1}, {0}};
#define RANGE_TYPES (RLX_SET_FLOATS | RLX_SET(RLX_INT16) | RLX_SET(RLX_INT32) | RLX_SET(RLX_INT64))
static const rlx_port range_inputs[] = {{.name = "start", .variable = "T", .dtypes = RANGE_TYPES, .flags = RLX_HOST},
                                        {.name = "limit", .variable = "T", .dtypes = RANGE_TYPES, .flags = RLX_HOST},
                                        {.name = "delta", .variable = "T", .dtypes = RANGE_TYPES, .flags = RLX_HOST},
                                        {0}};
static const rlx_port range_outputs[] = {{.name = "output", .variable = "T", .dtypes = RANGE_TYPES}, {0}};

/* ceil((limit - start) / delta), at least 0. */
static rlx_status count_ints(const void *ctx, int64_t start, int64_t limit, int64_t delta, int64_t *count) {
  if (delta == 0) return rlx_fail(ctx, RLX_INVALID, "delta is zero");
  *count = 0;
  if (delta > 0 ? limit <= start : limit >= start) return RLX_OK;
  uint64_t span = delta > 0 ? (uint64_t)limit - (uint64_t)start : (uint64_t)start - (uint64_t)limit;
  uint64_t step = delta > 0 ? (uint64_t)delta : 0 - (uint64_t)delta;
  uint64_t n = (span - 1) / step + 1;
  if (n > INT64_MAX / 16) return rlx_fail(ctx, RLX_INVALID, "the range has too many elements");
  *count = (int64_t)n;
  return RLX_OK;
}

static rlx_status count_floats(const void *ctx, double start, double limit, double delta, int64_t *count) {
  if (delta == 0) return rlx_fail(ctx, RLX_INVALID, "delta is zero");
  double n = ceil((limit - start) / delta);
  if (!(n < (double)(INT64_MAX / 16)))
    return rlx_fail(ctx, RLX_INVALID, "a range from %g to %g in steps of %g", start, limit, delta);
  *count = n > 0 ? (int64_t)n : 0;
  return RLX_OK;
}

static rlx_status range_infer(rlx_infer *ctx) {
  const rlx_tensor *t[3];
  bool known = true;
  for (int i = 0; i < 3; i++) {
    const rlx_type *x = rlx_infer_input(ctx, i);
    if (x->rank > 1 || (x->rank == 1 && x->dims[0] >= 0 && x->dims[0] != 1))
      return rlx_fail(ctx, RLX_INVALID, "input %d is not a scalar", i);
    t[i] = rlx_infer_value(ctx, i);
    known = known && t[i] && t[i]->count == 1;
  }
  if (!known) {
    infer_unknown(ctx, 0, 1);
    return RLX_OK;
  }
  int64_t count;
  rlx_dtype dtype = t[0]->dtype;
  rlx_status status = dtype_is_float(dtype)
                          ? count_floats(ctx, dtype_load(dtype, t[0]->data, 0), dtype_load(dtype, t[1]->data, 0),
                                         dtype_load(dtype, t[2]->data, 0), &count)
                          : count_ints(ctx, dtype_load_int(dtype, t[0]->data, 0), dtype_load_int(dtype, t[1]->data, 0),
                                       dtype_load_int(dtype, t[2]->data, 0), &count);
  if (status != RLX_OK) return status;
  rlx_infer_set(ctx, 0, 1, &count);
  return RLX_OK;
}

static rlx_status range_eval(rlx_ctx *ctx) {
  rlx_operand *y = &ctx->outputs[0];
  const void *start = ctx->inputs[0].data, *delta = ctx->inputs[2].data;
  rlx_dtype dtype = y->dtype;
  if (dtype_is_float(dtype)) {
    double first = dtype_load(dtype, start, 0), step = dtype_load(dtype, delta, 0);
    for (int64_t i = 0; i < y->count; i++) number_store(dtype, y->data, i, first + (double)i * step);
    return RLX_OK;
  }
  uint64_t first = (uint64_t)dtype_load_int(dtype, start, 0), step = (uint64_t)dtype_load_int(dtype, delta, 0);
  for (int64_t i = 0; i < y->count; i++) number_store_int(dtype, y->data, i, (int64_t)(first + (uint64_t)i * step));
  return RLX_OK;
}

/* start + i delta; the limit moves only how many there are. */
static rlx_status range_derive(rlx_graph *g, const rlx_node *n, rlx_value **outputs) {
  rlx_value *in[3] = {rlx_node_input(n, 0), rlx_node_input(n, 1), rlx_node_input(n, 2)};
  return derivative_text(g, in, outputs,
                         "range (start, limit, delta) => (y) <int64 zero = {0}, int64 one = {1}> {"
                         " all = Range (start, limit, delta) n = Size (all) i = Range (zero, n, one)"
                         " j = CastLike (i, start) d = Mul (j, delta) y = Add (start, d) }");
}

static const rlx_op range = {
    .struct_size = sizeof(rlx_op),
    .name = "onnx.Range",
    .version = 11,
    .samples = (const char *const[]){"int64[] = {1}, int64[] = {9}, int64[] = {3}",
                                     "float[] = {0.0}, float[] = {-2.0}, float[] = {-0.5}",
                                     "int32[] = {1}, int32[] = {9}, int32[] = {3}", NULL},
    .doc = "start + i delta for every i ≥ 0 that stays before limit.",
    .inputs = range_inputs,
    .outputs = range_outputs,
    .attrs = range_attrs,
    .params_size = sizeof(range_params),
    .traits = RLX_PURE,
    .infer = range_infer,
    .derive = range_derive,
    .eval = range_eval,
};

static const rlx_op *const ops[] = {&range, NULL};
const rlx_module ops_range = {.ops = ops};
