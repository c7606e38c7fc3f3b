/* concat.c — Concat: tensors one after another along an axis. */
#include "ops/concat.h"

#include <stddef.h>
#include <string.h>

#include "base/memory.h"
#include "ir/module.h"
#include "ops/_move.h"

static const rlx_attr_def concat_attrs[] = {
    {.name = "axis", .kind = RLX_ATTR_INT, .flags = RLX_REQUIRED, .offset = offsetof(concat_params, axis)}, {0}};
static const rlx_port concat_inputs[] = {
    {.name = "inputs", .variable = "T", .dtypes = MOVE_WHOLE, .flags = RLX_VARIADIC, .min_count = 1}, {0}};
static const rlx_port concat_outputs[] = {{.name = "concat_result", .variable = "T", .dtypes = MOVE_WHOLE}, {0}};

/* Takes the dims of one more input into those found so far. */
static rlx_status concat_join(rlx_infer *ctx, const rlx_type *x, int i, int axis, rlx_type *y) {
  if (x->rank != y->rank) return rlx_fail(ctx, RLX_INVALID, "input %d has rank %d, another %d", i, x->rank, y->rank);
  for (int d = 0; d < x->rank; d++) {
    if (d == axis) {
      bool known = y->dims[d] >= 0 && x->dims[d] >= 0;
      if (known && __builtin_add_overflow(y->dims[d], x->dims[d], &y->dims[d]))
        return rlx_fail(ctx, RLX_INVALID, "the output is too large");
      if (!known) y->dims[d] = RLX_UNKNOWN;
    } else if (y->dims[d] == RLX_UNKNOWN) {
      y->dims[d] = x->dims[d];
    } else if (x->dims[d] != RLX_UNKNOWN && x->dims[d] != y->dims[d]) {
      return rlx_fail(ctx, RLX_INVALID, "input %d has extent %lld in dim %d, another %lld", i, (long long)x->dims[d], d,
                      (long long)y->dims[d]);
    }
  }
  return RLX_OK;
}

static rlx_status concat_infer(rlx_infer *ctx) {
  const concat_params *p = rlx_infer_params(ctx);
  int count = rlx_infer_input_count(ctx);
  rlx_type y = {.rank = RLX_UNKNOWN};
  int axis = 0;
  bool all = true;
  for (int i = 0; i < count; i++) {
    const rlx_type *x = rlx_infer_input(ctx, i);
    if (!x) return rlx_fail(ctx, RLX_INVALID, "input %d is left out", i);
    if (x->rank == RLX_UNKNOWN) {
      all = false;
      continue;
    }
    rlx_status status = RLX_OK;
    if (y.rank == RLX_UNKNOWN) {
      status = infer_axis(ctx, p->axis, x->rank, &axis);
      y = *x;
    } else {
      status = concat_join(ctx, x, i, axis, &y);
    }
    if (status != RLX_OK) return status;
  }
  if (y.rank == RLX_UNKNOWN) return RLX_OK;
  if (!all) y.dims[axis] = RLX_UNKNOWN;
  rlx_infer_set(ctx, 0, y.rank, y.dims);
  return RLX_OK;
}

typedef struct concat_job {
  rlx_ctx *ctx;
  int axis;
  int64_t row; /* bytes of the output per index before the axis */
} concat_job;

static int64_t row_bytes(const rlx_operand *x, int axis) {
  return dims_product(x->dims, axis, x->rank) * (int64_t)dtype_size(x->dtype);
}

/* Rows [begin, end) of every input. */
static void concat_rows(void *arg, int64_t begin, int64_t end) {
  const concat_job *job = arg;
  const rlx_ctx *ctx = job->ctx;
  char *to = (char *)ctx->outputs[0].data + begin * job->row;
  for (int i = 0; i < ctx->input_count; i++) {
    int64_t bytes = row_bytes(&ctx->inputs[i], job->axis);
    if (bytes == 0) continue;
    const char *from = (const char *)ctx->inputs[i].data + begin * bytes;
    char *row = to;
    for (int64_t r = begin; r < end; r++, row += job->row, from += bytes) memcpy(row, from, (size_t)bytes);
    to += bytes;
  }
}

static rlx_status concat_eval(rlx_ctx *ctx) {
  const concat_params *p = ctx->params;
  const rlx_operand *y = &ctx->outputs[0];
  if (y->count == 0) return RLX_OK;
  int axis = axis_normalise(p->axis, y->rank);
  int64_t rows = dims_product(y->dims, 0, axis);
  concat_job job = {ctx, axis, row_bytes(y, axis)};
  if (rows == 1) {
    char *to = y->data;
    for (int i = 0; i < ctx->input_count; i++) {
      int64_t bytes = ctx->inputs[i].bytes;
      move_bytes(ctx, to, ctx->inputs[i].data, bytes);
      to += bytes;
    }
    return RLX_OK;
  }
  int64_t grain = 64 * 1024 / job.row + 1;
  if (rows < 2 * grain)
    concat_rows(&job, 0, rows);
  else
    rlx_parallel_for(ctx, rows, grain, concat_rows, &job);
  return RLX_OK;
}

/* The gradient of each input is its part of the output's. */
static rlx_status concat_vjp(rlx_graph *g, const rlx_node *n, rlx_value *const *output_grads, rlx_value **input_grads) {
  const concat_params *p = rlx_node_params(n);
  if (!output_grads[0]) return rlx_graph_status(g);
  int64_t zero = 0;
  rlx_value *start = graph_ints(g, &zero, 1), *axis = graph_ints(g, &p->axis, 1);
  for (int i = 0; i < rlx_node_input_count(n); i++) {
    rlx_value *shape = graph_op1(g, "onnx.Shape", rlx_node_input(n, i));
    rlx_value *extent = graph_op2(g, "onnx.Gather", shape, axis);
    rlx_value *end = graph_op2(g, "onnx.Add", start, extent);
    rlx_value *slice[4] = {output_grads[0], start, end, axis};
    input_grads[i] = rlx_graph_op(g, "onnx.Slice", NULL, 0, slice, 4);
    start = end;
  }
  return rlx_graph_status(g);
}

static const rlx_op concat = {
    .struct_size = sizeof(rlx_op),
    .name = "onnx.Concat",
    .version = 4,
    .doc = "The inputs one after another along axis.",
    .samples = (const char *const[]){"float[2,3], float[2,1] {axis = 1}",
                                     "int32[2,3], int32[1,3], int32[4,3] {axis = -2}", NULL},
    .inputs = concat_inputs,
    .outputs = concat_outputs,
    .attrs = concat_attrs,
    .params_size = sizeof(concat_params),
    .traits = RLX_PURE,
    .infer = concat_infer,
    .vjp = concat_vjp,
    .eval = concat_eval,
};

static const rlx_attr_def concat1_attrs[] = {
    {.name = "axis", .kind = RLX_ATTR_INT, .offset = offsetof(concat_params, axis), .default_int = 1}, {0}};

static rlx_status concat1_lower(rlx_graph *g, const rlx_node *n, rlx_value **outputs) {
  const concat_params *p = rlx_node_params(n);
  rlx_attr attr = RLX_ATTR_I("axis", p->axis);
  int count = rlx_node_input_count(n);
  rlx_value **inputs = mem_array((size_t)count, sizeof *inputs);
  if (!inputs) return rlx_graph_fail(g, RLX_OUT_OF_MEMORY, "no memory for %d inputs", count);
  for (int i = 0; i < count; i++) inputs[i] = rlx_node_input(n, i);
  outputs[0] = rlx_graph_op(g, "onnx.Concat", &attr, 1, inputs, count);
  mem_free(inputs);
  return rlx_graph_status(g);
}

static const rlx_op concat_1 = {
    .struct_size = sizeof(rlx_op),
    .name = "onnx.Concat",
    .version = 1,
    .samples = (const char *const[]){"float[2,3], float[2,2]", NULL},
    .doc = "Concat whose axis is 1 by default.",
    .inputs = concat_inputs,
    .outputs = concat_outputs,
    .attrs = concat1_attrs,
    .params_size = sizeof(concat_params),
    .traits = RLX_PURE,
    .infer = concat_infer,
    .lower = concat1_lower,
};

static const rlx_op *const ops[] = {&concat_1, &concat, NULL};
const rlx_module ops_concat = {.ops = ops};
