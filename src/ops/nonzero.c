/* nonzero.c — NonZero and Compress: ops whose output size depends on the data. */
#include <complex.h>
#include <stddef.h>
#include <string.h>

#include "ir/module.h"
#include "ops/_derivative.h"
#include "ops/_move.h"

/* ---- NonZero ------------------------------------------------------------------------------ */

static const rlx_port nonzero_inputs[] = {{.name = "X", .dtypes = MOVE_WHOLE}, {0}};
static const rlx_port nonzero_outputs[] = {{.name = "Y", .dtypes = MOVE_INT64}, {0}};

static rlx_status nonzero_infer(rlx_infer *ctx) {
  const rlx_type *x = rlx_infer_input(ctx, 0);
  rlx_infer_output(ctx, 0)->dtype = RLX_INT64;
  int64_t dims[2] = {x->rank, RLX_UNKNOWN};
  rlx_infer_set(ctx, 0, 2, dims);
  return RLX_OK;
}

enum { FLAGS = 1024 };
typedef float _Complex complex_float;
typedef double _Complex complex_double;

/* flags[i] = whether element at + i is not zero, for n elements. */
static void flag_nonzero(const rlx_operand *x, int64_t at, int64_t n, uint8_t *flags) {
  switch (x->dtype) {
#define X(D, T, C, K)                                                                                                  \
  case RLX_##D:                                                                                                        \
    for (int64_t i = 0; i < n; i++) flags[i] = ((const T *)x->data)[at + i] != 0;                                      \
    return;
#include "ir/dtype.def"
    X(COMPLEX64, complex_float, 0, 0)
    X(COMPLEX128, complex_double, 0, 0)
#undef X
    case RLX_STRING:
      for (int64_t i = 0; i < n; i++) flags[i] = ((const rlx_string *)x->data)[at + i].size != 0;
      return;
    default:
      for (int64_t i = 0; i < n; i++) flags[i] = dtype_load(x->dtype, x->data, at + i) != 0;
  }
}

static rlx_status nonzero_eval(rlx_ctx *ctx) {
  const rlx_operand *x = &ctx->inputs[0];
  uint8_t flags[FLAGS];
  int64_t found = 0;
  for (int64_t at = 0; at < x->count; at += FLAGS) {
    int64_t n = x->count - at < FLAGS ? x->count - at : FLAGS;
    flag_nonzero(x, at, n, flags);
    for (int64_t i = 0; i < n; i++) found += flags[i];
  }
  int64_t dims[2] = {x->rank, found};
  int64_t *y = rlx_output_shape(ctx, 0, 2, dims);
  if (!y) return RLX_OUT_OF_MEMORY;
  if (found == 0 || x->rank == 0) return RLX_OK;
  /* Positions first go to the last row, then become coordinates. */
  int64_t *last = y + (x->rank - 1) * found, k = 0;
  for (int64_t at = 0; k < found; at += FLAGS) {
    int64_t n = x->count - at < FLAGS ? x->count - at : FLAGS;
    flag_nonzero(x, at, n, flags);
    for (int64_t i = 0; i < n && k < found; i++) {
      last[k] = at + i;
      k += flags[i];
    }
  }
  for (int64_t i = 0; i < found && x->rank > 1; i++) {
    int64_t left = last[i];
    for (int d = x->rank - 1; d >= 0; d--) {
      y[d * found + i] = left % x->dims[d];
      left /= x->dims[d];
    }
  }
  return RLX_OK;
}

static const rlx_op nonzero = {
    .struct_size = sizeof(rlx_op),
    .name = "onnx.NonZero",
    .version = 9,
    .doc = "The positions of the elements that are not zero, one a column, in row-major order.",
    .samples = (const char *const[]){"float[2,3]", "bool[4]", "float[0]", NULL},
    .inputs = nonzero_inputs,
    .outputs = nonzero_outputs,
    .traits = RLX_PURE,
    .infer = nonzero_infer,
    .eval = nonzero_eval,
};

/* ---- Compress ----------------------------------------------------------------------------- */

typedef struct compress_params {
  uint64_t given;
  int64_t axis;
} compress_params;

static const rlx_attr_def compress_attrs[] = {
    {.name = "axis", .kind = RLX_ATTR_INT, .offset = offsetof(compress_params, axis)}, {0}};
static const rlx_port compress_inputs[] = {
    {.name = "input", .variable = "T", .dtypes = MOVE_WHOLE}, {.name = "condition", .dtypes = RLX_SET(RLX_BOOL)}, {0}};
static const rlx_port compress_outputs[] = {{.name = "output", .variable = "T", .dtypes = MOVE_WHOLE}, {0}};

static rlx_status compress_infer(rlx_infer *ctx) {
  const compress_params *p = rlx_infer_params(ctx);
  const rlx_type *x = rlx_infer_input(ctx, 0), *condition = rlx_infer_input(ctx, 1);
  if (condition->rank >= 0 && condition->rank != 1)
    return rlx_fail(ctx, RLX_INVALID, "condition has rank %d, not 1", condition->rank);
  if (!p->given) {
    infer_unknown(ctx, 0, 1);
    return RLX_OK;
  }
  int axis;
  rlx_status status = infer_axis(ctx, p->axis, x->rank, &axis);
  if (status != RLX_OK || x->rank < 0) return status;
  rlx_infer_set(ctx, 0, x->rank, x->dims);
  rlx_infer_output(ctx, 0)->dims[axis] = RLX_UNKNOWN;
  return RLX_OK;
}

static rlx_status compress_eval(rlx_ctx *ctx) {
  const compress_params *p = ctx->params;
  const rlx_operand *x = &ctx->inputs[0], *condition = &ctx->inputs[1];
  const uint8_t *keep = condition->data;
  int axis = p->given ? axis_normalise(p->axis, x->rank) : 0;
  int64_t extent = p->given ? x->dims[axis] : x->count, dims[RLX_MAX_RANK] = {0};
  int64_t outer = p->given ? dims_product(x->dims, 0, axis) : 1, found = 0;
  int64_t slice = (p->given ? dims_product(x->dims, axis + 1, x->rank) : 1) * (int64_t)dtype_size(x->dtype);
  for (int64_t i = 0; i < condition->count; i++) {
    if (!keep[i]) continue;
    if (i >= extent)
      return rlx_fail(ctx, RLX_INVALID, "condition is true at %lld of extent %lld", (long long)i, (long long)extent);
    found++;
  }
  int rank = p->given ? x->rank : 1;
  for (int d = 0; d < rank && p->given; d++) dims[d] = x->dims[d];
  dims[axis] = found;
  char *to = rlx_output_shape(ctx, 0, rank, dims);
  if (!to) return RLX_OUT_OF_MEMORY;
  const char *from = x->data;
  for (int64_t o = 0; o < outer && slice; o++, from += extent * slice)
    for (int64_t i = 0; i < condition->count; i++) {
      if (!keep[i]) continue;
      memcpy(to, from + i * slice, (size_t)slice);
      to += slice;
    }
  return RLX_OK;
}

/* Picks by the positions where the condition is true. */
static rlx_status compress_derive(rlx_graph *g, const rlx_node *n, rlx_value **outputs) {
  const compress_params *p = rlx_node_params(n);
  rlx_value *in[2] = {rlx_node_input(n, 0), rlx_node_input(n, 1)};
  return derivative_text(
      g, in, outputs,
      "compress (x, condition) => (y) <int64[1] all = {-1}> {"
      " found = NonZero (condition) at = Reshape (found, all) %s y = Gather <axis = %lld> (%s, at) }",
      p->given ? "" : "flat = Reshape (x, all)", (long long)(p->given ? p->axis : 0), p->given ? "x" : "flat");
}

static const rlx_op compress = {
    .struct_size = sizeof(rlx_op),
    .name = "onnx.Compress",
    .version = 9,
    .samples = (const char *const[]){"float[3,4], bool[3] = {1, 0, 1} {axis = 0}",
                                     "int64[2,3], bool[5] = {1, 0, 0, 1, 1}", "float[3,4], bool[4] {axis = 1}", NULL},
    .doc = "The slices along axis (without axis: the elements) where condition is true.",
    .inputs = compress_inputs,
    .outputs = compress_outputs,
    .attrs = compress_attrs,
    .params_size = sizeof(compress_params),
    .traits = RLX_PURE,
    .infer = compress_infer,
    .derive = compress_derive,
    .eval = compress_eval,
};

static const rlx_op *const ops[] = {&nonzero, &compress, NULL};
const rlx_module ops_nonzero = {.ops = ops};
