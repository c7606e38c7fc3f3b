/* slice.c — Slice, and the gradient that puts a window back among zeros. */
#include <stddef.h>
#include <string.h>

#include "ir/module.h"
#include "ops/_strided.h"

typedef struct slice_bounds {
  int_list starts, ends, axes, steps; /* axes, steps: count RLX_UNKNOWN means left out */
} slice_bounds;

typedef struct slice_window {
  int64_t start[RLX_MAX_RANK], step[RLX_MAX_RANK], count[RLX_MAX_RANK];
} slice_window;

/* ONNX's rule: negative positions count from the end, then both are clamped to the extent. */
static rlx_status window_axis(const void *context, int64_t extent, const slice_bounds *b, int i, int axis,
                              slice_window *w) {
  int64_t start = b->starts.values[i], end = b->ends.values[i];
  int64_t step = b->steps.count < 0 ? 1 : b->steps.values[i];
  if (step == 0) return rlx_fail(context, RLX_INVALID, "the step of axis %d is zero", axis);
  if (step < -INT64_MAX) step = -INT64_MAX;
  if (start < 0) start += extent;
  if (end < 0) end += extent;
  int64_t low = step > 0 ? 0 : -1, high = step > 0 ? extent : extent - 1;
  start = start < 0 ? 0 : start > high ? high : start;
  end = end < low ? low : end > high ? high : end;
  int64_t count = 0;
  if (step > 0 && end > start) count = (end - start - 1) / step + 1;
  if (step < 0 && extent > 0 && start > end) count = (start - end - 1) / -step + 1;
  w->start[axis] = count ? start : 0;
  w->step[axis] = step;
  w->count[axis] = count;
  return RLX_OK;
}

static rlx_status check_bounds(const void *context, int rank, slice_bounds *b) {
  int n = b->starts.count;
  if (b->ends.count != n || (b->axes.count >= 0 && b->axes.count != n) || (b->steps.count >= 0 && b->steps.count != n))
    return rlx_fail(context, RLX_INVALID, "%d starts, %d ends, %d axes, %d steps (-1: left out)", n, b->ends.count,
                    b->axes.count, b->steps.count);
  if (b->axes.count < 0 && n > rank) return rlx_fail(context, RLX_INVALID, "%d starts for rank %d", n, rank);
  return b->axes.count < 0 ? RLX_OK : axes_normalise(context, &b->axes, rank);
}

static rlx_status window_of(const void *context, int rank, const int64_t *dims, slice_bounds *b, slice_window *w) {
  rlx_status status = check_bounds(context, rank, b);
  if (status != RLX_OK) return status;
  for (int d = 0; d < rank; d++) {
    w->start[d] = 0;
    w->step[d] = 1;
    w->count[d] = dims[d];
  }
  for (int i = 0; i < b->starts.count; i++) {
    int axis = b->axes.count < 0 ? i : (int)b->axes.values[i];
    if (dims[axis] == RLX_UNKNOWN)
      w->count[axis] = RLX_UNKNOWN;
    else if ((status = window_axis(context, dims[axis], b, i, axis, w)) != RLX_OK)
      return status;
  }
  return RLX_OK;
}

static const rlx_port slice_inputs[] = {
    {.name = "data", .variable = "T", .dtypes = MOVE_WHOLE},
    {.name = "starts", .variable = "Tind", .dtypes = RLX_SET_INDEX, .flags = RLX_HOST},
    {.name = "ends", .variable = "Tind", .dtypes = RLX_SET_INDEX, .flags = RLX_HOST},
    {.name = "axes", .variable = "Tind", .dtypes = RLX_SET_INDEX, .flags = RLX_HOST | RLX_OPTIONAL},
    {.name = "steps", .variable = "Tind", .dtypes = RLX_SET_INDEX, .flags = RLX_HOST | RLX_OPTIONAL},
    {0}};
static const rlx_port slice_outputs[] = {{.name = "output", .variable = "T", .dtypes = MOVE_WHOLE}, {0}};

/* Dims when starts, ends or steps are not known: axes that are not sliced keep theirs. */
static rlx_status slice_partial(rlx_infer *ctx, const rlx_type *x, slice_bounds *b) {
  int64_t dims[RLX_MAX_RANK];
  bool named = infer_given(ctx, 3);
  int64_t n = named ? b->axes.count : infer_length(ctx, 1);
  if (n < 0) {
    infer_unknown(ctx, 0, x->rank);
    return RLX_OK;
  }
  if (n > x->rank) return rlx_fail(ctx, RLX_INVALID, "%lld starts for rank %d", (long long)n, x->rank);
  if (named) {
    rlx_status status = axes_normalise(ctx, &b->axes, x->rank);
    if (status != RLX_OK) return status;
  }
  for (int d = 0; d < x->rank; d++) dims[d] = x->dims[d];
  for (int64_t i = 0; i < n; i++) dims[named ? b->axes.values[i] : i] = RLX_UNKNOWN;
  rlx_infer_set(ctx, 0, x->rank, dims);
  return RLX_OK;
}

static rlx_status slice_infer(rlx_infer *ctx) {
  const rlx_type *x = rlx_infer_input(ctx, 0);
  slice_bounds b;
  rlx_status status = infer_ints(ctx, 1, &b.starts);
  if (status == RLX_OK) status = infer_ints(ctx, 2, &b.ends);
  if (status == RLX_OK) status = infer_ints(ctx, 3, &b.axes);
  if (status == RLX_OK) status = infer_ints(ctx, 4, &b.steps);
  if (status != RLX_OK || x->rank == RLX_UNKNOWN) return status;
  bool known = b.starts.count >= 0 && b.ends.count >= 0 && (b.axes.count >= 0 || !infer_given(ctx, 3)) &&
               (b.steps.count >= 0 || !infer_given(ctx, 4));
  if (!known) return slice_partial(ctx, x, &b);
  slice_window w;
  status = window_of(ctx, x->rank, x->dims, &b, &w);
  if (status != RLX_OK) return status;
  rlx_infer_set(ctx, 0, x->rank, w.count);
  return RLX_OK;
}

static rlx_status slice_read(const strided_node *n, int first, slice_bounds *b) {
  rlx_status status = strided_ints(n, first, &b->starts);
  if (status == RLX_OK) status = strided_ints(n, first + 1, &b->ends);
  if (status == RLX_OK) status = strided_ints(n, first + 2, &b->axes);
  if (status == RLX_OK) status = strided_ints(n, first + 3, &b->steps);
  return status;
}

/* Whether the window is what the other operand was sized for. */
static rlx_status window_check(const void *context, const slice_window *w, int rank, const int64_t *dims) {
  for (int d = 0; d < rank; d++)
    if (w->count[d] != dims[d])
      return rlx_fail(context, RLX_INVALID, "dim %d of the slice has extent %lld, not %lld", d, (long long)w->count[d],
                      (long long)dims[d]);
  return RLX_OK;
}

rlx_status slice_plan(const strided_node *n, strided_copy *c) {
  strided_view x = strided_input(n, 0), y = strided_output(n, 0);
  slice_bounds b;
  slice_window w;
  rlx_status status = slice_read(n, 1, &b);
  if (status == RLX_OK) status = window_of(n->context, x.rank, x.dims, &b, &w);
  if (status == RLX_OK) status = window_check(n->context, &w, y.rank, y.dims);
  if (status != RLX_OK) return status;
  int64_t from[RLX_MAX_RANK], to[RLX_MAX_RANK], offset = 0;
  shape_strides(x.rank, x.dims, from);
  shape_strides(y.rank, y.dims, to);
  for (int d = 0; d < x.rank; d++) offset += w.start[d] * from[d];
  strided_begin(c, x.dtype, offset, 0);
  for (int d = 0; d < x.rank; d++) strided_dim(c, y.dims[d], y.dims[d] > 1 ? from[d] * w.step[d] : 0, to[d]);
  strided_finish(c);
  return RLX_OK;
}

static rlx_status slice_eval(rlx_ctx *ctx) { return strided_eval(ctx, slice_plan); }

static rlx_status slice_vjp(rlx_graph *g, const rlx_node *n, rlx_value *const *output_grads, rlx_value **input_grads) {
  if (!output_grads[0]) return rlx_graph_status(g);
  rlx_value *inputs[6] = {output_grads[0], graph_op1(g, "onnx.Shape", rlx_node_input(n, 0))};
  int count = rlx_node_input_count(n);
  for (int i = 1; i < 5; i++) inputs[i + 1] = i < count ? rlx_node_input(n, i) : NULL;
  input_grads[0] = rlx_graph_op(g, "rlx.grad.Slice", NULL, 0, inputs, 6);
  return rlx_graph_status(g);
}

static const rlx_op slice = {
    .struct_size = sizeof(rlx_op),
    .name = "onnx.Slice",
    .version = 10,
    .samples =
        (const char *const[]){
            "float[5,6], int64[2] = {1, -4}, int64[2] = {4, -1}, int64[2] = {0, 1}, int64[2] = {1, 2}",
            "string[4], int64[1] = {-1}, int64[1] = {-9}, int64[1] = {0}, int64[1] = {-1}",
            "float[3,4], int64[2], int64[2]", NULL},
    .doc = "Every step-th index from start to end of each axis; negative positions count from the end, and "
           "positions past an end are clamped.",
    .inputs = slice_inputs,
    .outputs = slice_outputs,
    .traits = RLX_PURE,
    .infer = slice_infer,
    .vjp = slice_vjp,
    .eval = slice_eval,
};

/* ---- version 1: attributes ---------------------------------------------------------------- */

typedef struct slice1_params {
  uint64_t given;
  rlx_ints starts, ends, axes;
} slice1_params;

static const rlx_attr_def slice1_attrs[] = {
    {.name = "starts", .kind = RLX_ATTR_INTS, .flags = RLX_REQUIRED, .offset = offsetof(slice1_params, starts)},
    {.name = "ends", .kind = RLX_ATTR_INTS, .flags = RLX_REQUIRED, .offset = offsetof(slice1_params, ends)},
    {.name = "axes", .kind = RLX_ATTR_INTS, .offset = offsetof(slice1_params, axes)},
    {0}};
static const rlx_port slice1_inputs[] = {{.name = "data", .variable = "T", .dtypes = MOVE_WHOLE}, {0}};

static rlx_status slice1_infer(rlx_infer *ctx) {
  const slice1_params *p = rlx_infer_params(ctx);
  const rlx_type *x = rlx_infer_input(ctx, 0);
  if (x->rank == RLX_UNKNOWN) return RLX_OK;
  slice_bounds b = {.axes.count = RLX_UNKNOWN, .steps.count = RLX_UNKNOWN};
  slice_window w;
  rlx_status status = attr_ints(ctx, &p->starts, &b.starts);
  if (status == RLX_OK) status = attr_ints(ctx, &p->ends, &b.ends);
  if (status == RLX_OK && (p->given & 4u)) status = attr_ints(ctx, &p->axes, &b.axes);
  if (status == RLX_OK) status = window_of(ctx, x->rank, x->dims, &b, &w);
  if (status != RLX_OK) return status;
  rlx_infer_set(ctx, 0, x->rank, w.count);
  return RLX_OK;
}

static rlx_status slice1_lower(rlx_graph *g, const rlx_node *n, rlx_value **outputs) {
  const slice1_params *p = rlx_node_params(n);
  rlx_value *inputs[4] = {rlx_node_input(n, 0), graph_ints(g, p->starts.data, p->starts.count),
                          graph_ints(g, p->ends.data, p->ends.count), NULL};
  if (p->given & 4u) inputs[3] = graph_ints(g, p->axes.data, p->axes.count);
  outputs[0] = rlx_graph_op(g, "onnx.Slice", NULL, 0, inputs, p->given & 4u ? 4 : 3);
  return rlx_graph_status(g);
}

static const rlx_op slice_1 = {
    .struct_size = sizeof(rlx_op),
    .name = "onnx.Slice",
    .version = 1,
    .doc = "Slice with its bounds as attributes and no steps.",
    .samples = (const char *const[]){"float[4,5] {starts = [1, 0], ends = [3, -1]}", NULL},
    .inputs = slice1_inputs,
    .outputs = slice_outputs,
    .attrs = slice1_attrs,
    .params_size = sizeof(slice1_params),
    .traits = RLX_PURE,
    .infer = slice1_infer,
    .lower = slice1_lower,
};

/* ---- gradient ----------------------------------------------------------------------------- */

static const rlx_port slice_grad_inputs[] = {
    {.name = "dy", .variable = "T", .dtypes = MOVE_WHOLE},
    {.name = "shape", .dtypes = MOVE_INT64, .flags = RLX_HOST},
    {.name = "starts", .variable = "Tind", .dtypes = RLX_SET_INDEX, .flags = RLX_HOST},
    {.name = "ends", .variable = "Tind", .dtypes = RLX_SET_INDEX, .flags = RLX_HOST},
    {.name = "axes", .variable = "Tind", .dtypes = RLX_SET_INDEX, .flags = RLX_HOST | RLX_OPTIONAL},
    {.name = "steps", .variable = "Tind", .dtypes = RLX_SET_INDEX, .flags = RLX_HOST | RLX_OPTIONAL},
    {0}};
static const rlx_port slice_grad_outputs[] = {{.name = "dx", .variable = "T", .dtypes = MOVE_WHOLE}, {0}};

static rlx_status slice_grad_infer(rlx_infer *ctx) {
  int_list shape;
  rlx_status status = infer_ints(ctx, 1, &shape);
  if (status != RLX_OK) return status;
  const rlx_type *dy = rlx_infer_input(ctx, 0);
  if (shape.count < 0 && dy->rank >= 0) infer_unknown(ctx, 0, dy->rank);
  if (shape.count > RLX_MAX_RANK || (shape.count >= 0 && dy->rank >= 0 && dy->rank != shape.count))
    return rlx_fail(ctx, RLX_INVALID, "shape has %d entries for rank %d", shape.count, dy->rank);
  if (shape.count >= 0) rlx_infer_set(ctx, 0, shape.count, shape.values);
  return RLX_OK;
}

static rlx_status slice_grad_eval(rlx_ctx *ctx) {
  strided_node n = strided_of_run(ctx);
  const rlx_operand *dy = &ctx->inputs[0], *dx = &ctx->outputs[0];
  slice_bounds b;
  slice_window w;
  rlx_status status = slice_read(&n, 2, &b);
  if (status == RLX_OK) status = window_of(ctx, dx->rank, dx->dims, &b, &w);
  if (status == RLX_OK) status = window_check(ctx, &w, dy->rank, dy->dims);
  if (status != RLX_OK) return status;
  int64_t from[RLX_MAX_RANK], to[RLX_MAX_RANK], offset = 0;
  shape_strides(dy->rank, dy->dims, from);
  shape_strides(dx->rank, dx->dims, to);
  for (int d = 0; d < dx->rank; d++) offset += w.start[d] * to[d];
  strided_copy c;
  strided_begin(&c, dx->dtype, 0, offset);
  for (int d = 0; d < dx->rank; d++) strided_dim(&c, dy->dims[d], from[d], dy->dims[d] > 1 ? to[d] * w.step[d] : 0);
  strided_finish(&c);
  memset(dx->data, 0, (size_t)dx->bytes);
  strided_run(ctx, &c, dy->data, dx->data);
  return RLX_OK;
}

static rlx_status slice_grad_vjp(rlx_graph *g, const rlx_node *n, rlx_value *const *grads, rlx_value **dx) {
  rlx_value *inputs[5] = {grads[0]};
  if (!grads[0]) return RLX_OK;
  for (int i = 2; i < 6; i++) inputs[i - 1] = rlx_node_input(n, i);
  dx[0] = rlx_graph_op(g, "onnx.Slice", NULL, 0, inputs, 5);
  return rlx_graph_status(g);
}

static const rlx_op slice_grad = {
    .struct_size = sizeof(rlx_op),
    .name = "rlx.grad.Slice",
    .samples =
        (const char *const[]){
            "float[3,2], int64[2] = {5, 6}, int64[2] = {1, -4}, int64[2] = {4, -1}, int64[2] = {0, 1}, "
            "int64[2] = {1, 2}",
            NULL},
    .version = 1,
    .doc = "Zeros of the given shape with dy at the window that Slice would take.",
    .inputs = slice_grad_inputs,
    .outputs = slice_grad_outputs,
    .traits = RLX_PURE,
    .infer = slice_grad_infer,
    .vjp = slice_grad_vjp,
    .eval = slice_grad_eval,
};

static const rlx_op *const ops[] = {&slice_1, &slice, &slice_grad, NULL};
const rlx_module ops_slice = {.ops = ops};
