/* gather.c — Gather: slices of a tensor chosen by index along an axis. */
#include <stddef.h>
#include <string.h>

#include "ir/module.h"
#include "ops/_move.h"

typedef struct gather_params {
  uint64_t given;
  int64_t axis;
} gather_params;

static const rlx_attr_def gather_attrs[] = {
    {.name = "axis", .kind = RLX_ATTR_INT, .offset = offsetof(gather_params, axis)}, {0}};
static const rlx_port gather_inputs[] = {{.name = "data", .variable = "T", .dtypes = MOVE_WHOLE},
                                         {.name = "indices", .variable = "Tind", .dtypes = RLX_SET_INDEX},
                                         {0}};
static const rlx_port gather_outputs[] = {{.name = "output", .variable = "T", .dtypes = MOVE_WHOLE}, {0}};

static rlx_status gather_infer(rlx_infer *ctx) {
  const gather_params *p = rlx_infer_params(ctx);
  const rlx_type *x = rlx_infer_input(ctx, 0), *indices = rlx_infer_input(ctx, 1);
  int axis;
  if (x->rank == 0) return rlx_fail(ctx, RLX_INVALID, "data is a scalar");
  rlx_status status = infer_axis(ctx, p->axis, x->rank, &axis);
  if (status != RLX_OK || x->rank < 0 || indices->rank < 0) return status;
  int rank = x->rank - 1 + indices->rank, d = 0;
  if (rank > RLX_MAX_RANK) return rlx_fail(ctx, RLX_UNSUPPORTED, "rank %d is over %d", rank, RLX_MAX_RANK);
  int64_t dims[RLX_MAX_RANK];
  for (int i = 0; i < axis; i++) dims[d++] = x->dims[i];
  for (int i = 0; i < indices->rank; i++) dims[d++] = indices->dims[i];
  for (int i = axis + 1; i < x->rank; i++) dims[d++] = x->dims[i];
  rlx_infer_set(ctx, 0, rank, dims);
  return RLX_OK;
}

typedef struct gather_job {
  rlx_ctx *ctx;
  const rlx_operand *indices;
  const char *from;
  char *to;
  int64_t extent, row; /* of the axis; bytes of what an index chooses */
} gather_job;

static inline void copy_row(char *to, const char *from, int64_t bytes) {
  switch (bytes) {
    case 1: *to = *from; break;
    case 2: memcpy(to, from, 2); break;
    case 4: memcpy(to, from, 4); break;
    case 8: memcpy(to, from, 8); break;
    default: memcpy(to, from, (size_t)bytes);
  }
}

/* Units count (index before the axis) × (position in indices). */
static void gather_units(void *arg, int64_t begin, int64_t end) {
  const gather_job *job = arg;
  int64_t count = job->indices->count, outer = begin / count, i = begin % count;
  for (int64_t unit = begin; unit < end; unit++) {
    int64_t index = index_checked(job->ctx, job->indices, i, job->extent);
    if (index < 0) return;
    copy_row(job->to + unit * job->row, job->from + (outer * job->extent + index) * job->row, job->row);
    if (++i == count) {
      i = 0;
      outer++;
    }
  }
}

/* For tensors without elements to copy: the indices must be right all the same. */
static rlx_status gather_check(rlx_ctx *ctx, int64_t extent) {
  for (int64_t i = 0; i < ctx->inputs[1].count; i++)
    if (index_checked(ctx, &ctx->inputs[1], i, extent) < 0) return RLX_INVALID;
  return RLX_OK;
}

static rlx_status gather_eval(rlx_ctx *ctx) {
  const gather_params *p = ctx->params;
  const rlx_operand *x = &ctx->inputs[0], *y = &ctx->outputs[0];
  int axis = axis_normalise(p->axis, x->rank);
  int64_t extent = x->dims[axis];
  if (y->count == 0) return gather_check(ctx, extent);
  int64_t outer = dims_product(x->dims, 0, axis);
  int64_t row = dims_product(x->dims, axis + 1, x->rank) * (int64_t)dtype_size(x->dtype);
  gather_job job = {ctx, &ctx->inputs[1], x->data, y->data, extent, row};
  int64_t units = outer * job.indices->count, grain = 64 * 1024 / (row + 8) + 1;
  if (extent == 0) return rlx_fail(ctx, RLX_INVALID, "no index is inside extent 0");
  if (units < 2 * grain)
    gather_units(&job, 0, units);
  else
    rlx_parallel_for(ctx, units, grain, gather_units, &job);
  return RLX_OK;
}

/* Indices broadcast over what they choose, then added up where they point. */
static rlx_status gather_vjp(rlx_graph *g, const rlx_node *n, rlx_value *const *output_grads, rlx_value **input_grads) {
  const gather_params *p = rlx_node_params(n);
  rlx_value *x = rlx_node_input(n, 0), *indices = rlx_node_input(n, 1), *dy = output_grads[0];
  if (!dy) return rlx_graph_status(g);
  int rank = rlx_value_type(x)->rank, q = rlx_value_type(indices)->rank;
  if (rank < 0 || q < 0) return rlx_graph_fail(g, RLX_UNSUPPORTED, "the gradient of Gather needs known ranks");
  int axis = axis_normalise(p->axis, rank);
  /* dy as [before, indices, after] with the indices first; data alike with the axis first. */
  rlx_attr front = {.name = "perm", .kind = RLX_ATTR_INTS}, back = front;
  int64_t to_front[2 * RLX_MAX_RANK], data_perm[RLX_MAX_RANK], inverse[RLX_MAX_RANK], last = -1;
  int k = 0;
  for (int i = 0; i < q; i++) to_front[k++] = axis + i;
  for (int i = 0; i < axis; i++) to_front[k++] = i;
  for (int i = axis + q; i < rank - 1 + q; i++) to_front[k++] = i;
  data_perm[0] = axis;
  for (int i = 0, j = 1; i < rank; i++)
    if (i != axis) data_perm[j++] = i;
  for (int i = 0; i < rank; i++) inverse[data_perm[i]] = i;
  front.ints = to_front;
  front.count = (size_t)k;
  back.ints = inverse;
  back.count = (size_t)rank;
  rlx_value *shape = graph_op1(g, "onnx.Shape", x);
  rlx_value *zeros = graph_zeros(g, x, graph_op2(g, "onnx.Gather", shape, graph_ints(g, data_perm, rank)));
  rlx_value *wide = graph_cast(g, graph_op2(g, "onnx.Unsqueeze", indices, graph_ints(g, &last, 1)), RLX_INT64);
  rlx_attr add = {.name = "reduction", .kind = RLX_ATTR_STRING, .s = {"add", 3}};
  rlx_value *scatter[3] = {zeros, wide, rlx_graph_op(g, "onnx.Transpose", &front, 1, &dy, 1)};
  rlx_value *sum = rlx_graph_op(g, "onnx.ScatterND", &add, 1, scatter, 3);
  input_grads[0] = rlx_graph_op(g, "onnx.Transpose", &back, 1, &sum, 1);
  return rlx_graph_status(g);
}

static const rlx_op gather = {
    .struct_size = sizeof(rlx_op),
    .name = "onnx.Gather",
    .version = 1,
    .samples = (const char *const[]){"float[5,3], int64[2,2] = {0, 4, -1, 2}", "string[3,4], int32[2] {axis = 1}",
                                     "float[2,3,4], int64[] {axis = 1}", NULL},
    .doc = "The slices of data at the given indices of axis; negative indices count from the end.",
    .inputs = gather_inputs,
    .outputs = gather_outputs,
    .attrs = gather_attrs,
    .params_size = sizeof(gather_params),
    .traits = RLX_PURE,
    .infer = gather_infer,
    .vjp = gather_vjp,
    .eval = gather_eval,
};

/* The same code as a kernel, to say that it reads its operands at any address: a table of embeddings stays in its file.
 */
static const rlx_cpu_kernel rows = {
    .struct_size = sizeof(rlx_cpu_kernel),
    .head = {.op = "onnx.Gather", .name = "rows", .min_align = 1},
    .run = gather_eval,
};

static const rlx_op *const ops[] = {&gather, NULL};
static const rlx_cpu_kernel *const kernels[] = {&rows, NULL};
const rlx_module ops_gather = {.ops = ops, .kernels = kernels};
