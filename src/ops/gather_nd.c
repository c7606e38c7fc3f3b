/* gather_nd.c — GatherND: slices of a tensor chosen by index tuples. */
#include <stddef.h>
#include <string.h>

#include "ir/module.h"
#include "ops/_move.h"

typedef struct gather_nd_params {
  uint64_t given;
  int64_t batch_dims;
} gather_nd_params;

static const rlx_attr_def gather_nd_attrs[] = {{.name = "batch_dims",
                                                .kind = RLX_ATTR_INT,
                                                .flags = RLX_RANGED,
                                                .offset = offsetof(gather_nd_params, batch_dims),
                                                .min = 0,
                                                .max = RLX_MAX_RANK},
                                               {0}};
static const rlx_port gather_nd_inputs[] = {
    {.name = "data", .variable = "T", .dtypes = MOVE_WHOLE}, {.name = "indices", .dtypes = MOVE_INT64}, {0}};
static const rlx_port gather_nd_outputs[] = {{.name = "output", .variable = "T", .dtypes = MOVE_WHOLE}, {0}};

static rlx_status gather_nd_infer(rlx_infer *ctx) {
  const gather_nd_params *p = rlx_infer_params(ctx);
  const rlx_type *x = rlx_infer_input(ctx, 0), *indices = rlx_infer_input(ctx, 1);
  if (x->rank < 0 || indices->rank < 0) return RLX_OK;
  int batch = (int)p->batch_dims, q = indices->rank;
  if (q < 1 || x->rank < 1) return rlx_fail(ctx, RLX_INVALID, "data or indices is a scalar");
  if (batch >= q || batch >= x->rank)
    return rlx_fail(ctx, RLX_INVALID, "batch_dims %d with ranks %d and %d", batch, x->rank, q);
  for (int d = 0; d < batch; d++)
    if (x->dims[d] >= 0 && indices->dims[d] >= 0 && x->dims[d] != indices->dims[d])
      return rlx_fail(ctx, RLX_INVALID, "batch dim %d has extents %lld and %lld", d, (long long)x->dims[d],
                      (long long)indices->dims[d]);
  int64_t tuple = indices->dims[q - 1];
  if (tuple == RLX_UNKNOWN) return RLX_OK;
  if (batch + tuple > x->rank)
    return rlx_fail(ctx, RLX_INVALID, "indices of %lld entries for rank %d", (long long)tuple, x->rank);
  int64_t rank = q - 1 + x->rank - batch - tuple;
  if (rank > RLX_MAX_RANK) return rlx_fail(ctx, RLX_UNSUPPORTED, "rank %lld is over %d", (long long)rank, RLX_MAX_RANK);
  int64_t dims[RLX_MAX_RANK];
  int k = 0;
  for (int d = 0; d < q - 1; d++) dims[k++] = d < batch && indices->dims[d] < 0 ? x->dims[d] : indices->dims[d];
  for (int d = batch + (int)tuple; d < x->rank; d++) dims[k++] = x->dims[d];
  rlx_infer_set(ctx, 0, (int)rank, dims);
  return RLX_OK;
}

typedef struct gather_nd_job {
  rlx_ctx *ctx;
  int batch, tuple;
  int64_t stride[RLX_MAX_RANK]; /* bytes, of the data */
  int64_t per_batch;            /* tuples of a batch entry */
  int64_t batch_bytes, slice;
} gather_nd_job;

static void gather_tuples(void *arg, int64_t begin, int64_t end) {
  const gather_nd_job *job = arg;
  const rlx_operand *x = &job->ctx->inputs[0], *indices = &job->ctx->inputs[1];
  for (int64_t t = begin; t < end; t++) {
    int64_t offset = t / job->per_batch * job->batch_bytes;
    for (int k = 0; k < job->tuple; k++) {
      int64_t index = index_checked(job->ctx, indices, t * job->tuple + k, x->dims[job->batch + k]);
      if (index < 0) return;
      offset += index * job->stride[job->batch + k];
    }
    if (job->slice)
      memcpy((char *)job->ctx->outputs[0].data + t * job->slice, (const char *)x->data + offset, (size_t)job->slice);
  }
}

static rlx_status gather_nd_eval(rlx_ctx *ctx) {
  const gather_nd_params *p = ctx->params;
  const rlx_operand *x = &ctx->inputs[0], *indices = &ctx->inputs[1];
  gather_nd_job job = {.ctx = ctx, .batch = (int)p->batch_dims};
  job.tuple = (int)indices->dims[indices->rank - 1];
  int64_t size = (int64_t)dtype_size(x->dtype);
  shape_strides(x->rank, x->dims, job.stride);
  for (int d = 0; d < x->rank; d++) job.stride[d] *= size;
  int64_t tuples = dims_product(indices->dims, 0, indices->rank - 1);
  job.per_batch = dims_product(indices->dims, job.batch, indices->rank - 1);
  job.batch_bytes = dims_product(x->dims, job.batch, x->rank) * size;
  job.slice = dims_product(x->dims, job.batch + job.tuple, x->rank) * size;
  int64_t grain = 64 * 1024 / (job.slice + 32) + 1;
  if (tuples < 2 * grain)
    gather_tuples(&job, 0, tuples);
  else
    rlx_parallel_for(ctx, tuples, grain, gather_tuples, &job);
  return RLX_OK;
}

static rlx_status gather_nd_vjp(rlx_graph *g, const rlx_node *n, rlx_value *const *output_grads,
                                rlx_value **input_grads) {
  const gather_nd_params *p = rlx_node_params(n);
  if (!output_grads[0]) return rlx_graph_status(g);
  if (p->batch_dims) return rlx_graph_fail(g, RLX_UNSUPPORTED, "no gradient of GatherND with batch_dims");
  rlx_attr add = {.name = "reduction", .kind = RLX_ATTR_STRING, .s = {"add", 3}};
  rlx_value *inputs[3] = {graph_zeros_like(g, rlx_node_input(n, 0)), rlx_node_input(n, 1), output_grads[0]};
  input_grads[0] = rlx_graph_op(g, "onnx.ScatterND", &add, 1, inputs, 3);
  return rlx_graph_status(g);
}

static const rlx_op gather_nd = {
    .struct_size = sizeof(rlx_op),
    .name = "onnx.GatherND",
    .version = 11,
    .samples = (const char *const[]){"float[3,4,5], int64[2,2] = {0, 1, 2, -1}",
                                     "float[2,3,4], int64[2,1] {batch_dims = 1}", NULL},
    .doc = "The slice of data at each index tuple (the last dim of indices), within each batch entry.",
    .inputs = gather_nd_inputs,
    .outputs = gather_nd_outputs,
    .attrs = gather_nd_attrs,
    .params_size = sizeof(gather_nd_params),
    .traits = RLX_PURE,
    .infer = gather_nd_infer,
    .vjp = gather_nd_vjp,
    .eval = gather_nd_eval,
};

static const rlx_op *const ops[] = {&gather_nd, NULL};
const rlx_module ops_gather_nd = {.ops = ops};
