/* reshape.c — Reshape and Flatten: the same elements under other dims. */
#include <stddef.h>

#include "ir/module.h"
#include "ops/_move.h"

/* ---- Reshape ------------------------------------------------------------------------------ */

typedef struct reshape_params {
  uint64_t given;
  int64_t allowzero;
} reshape_params;

static const rlx_attr_def reshape_attrs[] = {
    {.name = "allowzero", .kind = RLX_ATTR_INT, .offset = offsetof(reshape_params, allowzero)}, {0}};
static const rlx_port reshape_inputs[] = {
    {.name = "data", .variable = "T"}, {.name = "shape", .dtypes = MOVE_INT64, .flags = RLX_HOST}, {0}};
static const rlx_port reshape_outputs[] = {{.name = "reshaped", .variable = "T"}, {0}};

/* What the sizes of a reshape say once dims that are carried over are set aside. */
typedef struct reshape_sizes {
  int64_t in, out; /* products; RLX_UNKNOWN if one is unknown */
  int rest;        /* the dim written as -1, or -1 */
  bool empty;      /* a dim that is carried over is, or may be, 0 */
} reshape_sizes;

/* Fills dims from the asked shape; entries that cannot be known stay RLX_UNKNOWN. */
static rlx_status reshape_walk(rlx_infer *ctx, const rlx_type *x, const int_list *shape, int64_t *dims,
                               reshape_sizes *s) {
  const reshape_params *p = rlx_infer_params(ctx);
  uint32_t carried = 0;
  *s = (reshape_sizes){1, 1, -1, false};
  for (int d = 0; d < shape->count; d++) {
    int64_t want = shape->values[d];
    if (want == -1) {
      if (s->rest >= 0) return rlx_fail(ctx, RLX_INVALID, "shape has more than one -1");
      s->rest = d;
      dims[d] = RLX_UNKNOWN;
    } else if (want < 0) {
      return rlx_fail(ctx, RLX_INVALID, "shape has the entry %lld", (long long)want);
    } else if (want > 0 || p->allowzero) {
      dims[d] = want;
      s->out = dim_mul(s->out, want);
    } else if (x->rank == RLX_UNKNOWN) {
      dims[d] = s->out = RLX_UNKNOWN;
    } else if (d >= x->rank) {
      return rlx_fail(ctx, RLX_INVALID, "shape copies dim %d of a tensor of rank %d", d, x->rank);
    } else {
      dims[d] = x->dims[d];
      carried |= 1u << d;
      s->empty |= x->dims[d] <= 0;
    }
  }
  if (x->rank == RLX_UNKNOWN) s->in = RLX_UNKNOWN;
  for (int d = 0; d < x->rank; d++)
    if (!(carried >> d & 1u)) s->in = dim_mul(s->in, x->dims[d]);
  return RLX_OK;
}

static rlx_status reshape_known(rlx_infer *ctx, const rlx_type *x, const int_list *shape) {
  int64_t dims[INT_LIST_MAX];
  reshape_sizes s;
  rlx_status status = reshape_walk(ctx, x, shape, dims, &s);
  if (status != RLX_OK) return status;
  char from[256], to[256];
  if (s.in >= 0 && s.out >= 0) {
    bool fits = s.rest < 0 ? s.empty || s.in == s.out : s.out > 0 && s.in % s.out == 0;
    if (!fits)
      return rlx_fail(ctx, RLX_INVALID, "cannot reshape %s to %s", dims_text(x->rank, x->dims, from, sizeof from),
                      dims_text(shape->count, shape->values, to, sizeof to));
    if (s.rest >= 0) dims[s.rest] = s.in / s.out;
  }
  rlx_infer_set(ctx, 0, shape->count, dims);
  return RLX_OK;
}

static rlx_status reshape_infer(rlx_infer *ctx) {
  const rlx_type *x = rlx_infer_input(ctx, 0);
  int_list shape;
  rlx_status status = infer_ints(ctx, 1, &shape);
  if (status != RLX_OK) return status;
  int64_t rank = shape.count >= 0 ? shape.count : infer_length(ctx, 1);
  if (rank > RLX_MAX_RANK) return rlx_fail(ctx, RLX_UNSUPPORTED, "rank %lld is over %d", (long long)rank, RLX_MAX_RANK);
  if (shape.count >= 0) return reshape_known(ctx, x, &shape);
  if (rank >= 0) infer_unknown(ctx, 0, (int)rank);
  return RLX_OK;
}

/* Of every op that only changes dims: the gradient takes the input's dims back. */
static rlx_status view_vjp(rlx_graph *g, const rlx_node *n, rlx_value *const *output_grads, rlx_value **input_grads) {
  if (output_grads[0])
    input_grads[0] = graph_op2(g, "onnx.Reshape", output_grads[0], graph_op1(g, "onnx.Shape", rlx_node_input(n, 0)));
  return rlx_graph_status(g);
}

static const rlx_op reshape = {
    .struct_size = sizeof(rlx_op),
    .name = "onnx.Reshape",
    .version = 5,
    .samples =
        (const char *const[]){"float[2,3,4], int64[2] = {4, -1}", "int32[2,0,3], int64[3] = {3, 0, -1} {allowzero = 0}",
                              "float[2,3], int64[3] = {0, 1, 3}", NULL},
    .doc = "The same elements under the dims that the second input says: -1 is what remains, 0 (unless "
           "allowzero) copies the dim of the input.",
    .inputs = reshape_inputs,
    .outputs = reshape_outputs,
    .attrs = reshape_attrs,
    .params_size = sizeof(reshape_params),
    .traits = RLX_PURE,
    .infer = reshape_infer,
    .vjp = view_vjp,
    .eval = move_all,
};

typedef struct reshape1_params {
  uint64_t given;
  rlx_ints shape, consumed_inputs;
} reshape1_params;

static const rlx_attr_def reshape1_attrs[] = {
    {.name = "shape", .kind = RLX_ATTR_INTS, .offset = offsetof(reshape1_params, shape)},
    {.name = "consumed_inputs", .kind = RLX_ATTR_INTS, .offset = offsetof(reshape1_params, consumed_inputs)},
    {0}};

static rlx_status reshape1_lower(rlx_graph *g, const rlx_node *n, rlx_value **outputs) {
  const reshape1_params *p = rlx_node_params(n);
  outputs[0] = graph_op2(g, "onnx.Reshape", rlx_node_input(n, 0), graph_ints(g, p->shape.data, p->shape.count));
  return rlx_graph_status(g);
}

static rlx_status reshape1_infer(rlx_infer *ctx) {
  const reshape1_params *p = rlx_infer_params(ctx);
  if (p->shape.count > RLX_MAX_RANK)
    return rlx_fail(ctx, RLX_UNSUPPORTED, "rank %lld is over %d", (long long)p->shape.count, RLX_MAX_RANK);
  infer_unknown(ctx, 0, (int)p->shape.count);
  return RLX_OK;
}

static const rlx_port reshape1_inputs[] = {{.name = "data", .variable = "T"}, {0}};
static const rlx_op reshape_1 = {
    .struct_size = sizeof(rlx_op),
    .name = "onnx.Reshape",
    .version = 1,
    .samples = (const char *const[]){"float[2,3] {shape = [3, -1]}", NULL},
    .doc = "Reshape with the shape as an attribute.",
    .inputs = reshape1_inputs,
    .outputs = reshape_outputs,
    .attrs = reshape1_attrs,
    .params_size = sizeof(reshape1_params),
    .traits = RLX_PURE,
    .infer = reshape1_infer,
    .lower = reshape1_lower,
};

/* ---- Flatten ------------------------------------------------------------------------------ */

typedef struct flatten_params {
  uint64_t given;
  int64_t axis;
} flatten_params;

static const rlx_attr_def flatten_attrs[] = {
    {.name = "axis", .kind = RLX_ATTR_INT, .offset = offsetof(flatten_params, axis), .default_int = 1}, {0}};
static const rlx_port flatten_inputs[] = {{.name = "input", .variable = "T"}, {0}};
static const rlx_port flatten_outputs[] = {{.name = "output", .variable = "T"}, {0}};

static rlx_status flatten_infer(rlx_infer *ctx) {
  const flatten_params *p = rlx_infer_params(ctx);
  const rlx_type *x = rlx_infer_input(ctx, 0);
  if (x->rank == RLX_UNKNOWN) {
    infer_unknown(ctx, 0, 2);
    return RLX_OK;
  }
  int64_t axis = p->axis < 0 ? p->axis + x->rank : p->axis;
  if (axis < 0 || axis > x->rank)
    return rlx_fail(ctx, RLX_INVALID, "axis %lld outside rank %d", (long long)p->axis, x->rank);
  int64_t dims[2] = {dims_product(x->dims, 0, (int)axis), dims_product(x->dims, (int)axis, x->rank)};
  rlx_infer_set(ctx, 0, 2, dims);
  return RLX_OK;
}

static const rlx_op flatten = {
    .struct_size = sizeof(rlx_op),
    .name = "onnx.Flatten",
    .version = 1,
    .doc = "The input as a matrix: the dims before axis make the rows, the others the columns.",
    .samples = (const char *const[]){"float[2,3,4]", "float[2,3,4] {axis = 0}", "float[2,3,4] {axis = -1}", NULL},
    .inputs = flatten_inputs,
    .outputs = flatten_outputs,
    .attrs = flatten_attrs,
    .params_size = sizeof(flatten_params),
    .traits = RLX_PURE,
    .infer = flatten_infer,
    .vjp = view_vjp,
    .eval = move_all,
};

static const rlx_op *const ops[] = {&reshape_1, &reshape, &flatten, NULL};
const rlx_module ops_reshape = {.ops = ops};
