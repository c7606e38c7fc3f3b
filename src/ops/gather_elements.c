/* gather_elements.c — GatherElements: one element of an axis for each index. */
#include <stddef.h>
#include <string.h>

#include "ir/module.h"
#include "ops/_elements.h"

typedef struct gather_elements_params {
  uint64_t given;
  int64_t axis;
} gather_elements_params;

static const rlx_attr_def gather_elements_attrs[] = {
    {.name = "axis", .kind = RLX_ATTR_INT, .offset = offsetof(gather_elements_params, axis)}, {0}};
static const rlx_port gather_elements_inputs[] = {{.name = "data", .variable = "T", .dtypes = MOVE_WHOLE},
                                                  {.name = "indices", .variable = "Tind", .dtypes = RLX_SET_INDEX},
                                                  {0}};
static const rlx_port gather_elements_outputs[] = {{.name = "output", .variable = "T", .dtypes = MOVE_WHOLE}, {0}};

static rlx_status gather_elements_infer(rlx_infer *ctx) {
  const gather_elements_params *p = rlx_infer_params(ctx);
  const rlx_type *x = rlx_infer_input(ctx, 0), *indices = rlx_infer_input(ctx, 1);
  rlx_status status = elements_check(ctx, x, indices);
  if (status != RLX_OK) return status;
  int rank = indices->rank >= 0 ? indices->rank : x->rank, axis;
  status = infer_axis(ctx, p->axis, rank, &axis);
  if (status != RLX_OK || rank < 0) return status;
  if (indices->rank < 0) {
    infer_unknown(ctx, 0, rank);
    return RLX_OK;
  }
  for (int d = 0; d < rank && x->rank >= 0; d++)
    if (d != axis && x->dims[d] >= 0 && indices->dims[d] > x->dims[d])
      return rlx_fail(ctx, RLX_INVALID, "dim %d of indices has extent %lld, of data %lld", d,
                      (long long)indices->dims[d], (long long)x->dims[d]);
  rlx_infer_set(ctx, 0, rank, indices->dims);
  return RLX_OK;
}

typedef struct gather_elements_job {
  rlx_ctx *ctx;
  element_rows e;
} gather_elements_job;

static void gather_rows(void *arg, int64_t begin, int64_t end) {
  const gather_elements_job *job = arg;
  const element_rows *e = &job->e;
  const rlx_operand *indices = &job->ctx->inputs[1];
  size_t size = dtype_size(job->ctx->inputs[0].dtype);
  const char *from = job->ctx->inputs[0].data;
  char *to = job->ctx->outputs[0].data;
  int64_t along = e->axis == e->rank - 1 ? 0 : 1, step = e->stride[e->axis];
  for (int64_t r = begin; r < end; r++) {
    int64_t base = elements_offset(e, r);
    for (int64_t i = 0; i < e->length; i++) {
      int64_t at = r * e->length + i, index = index_checked(job->ctx, indices, at, e->extent);
      if (index < 0) return;
      memcpy(to + at * (int64_t)size, from + (base + i * along + index * step) * (int64_t)size, size);
    }
  }
}

static rlx_status gather_elements_eval(rlx_ctx *ctx) {
  const gather_elements_params *p = ctx->params;
  gather_elements_job job = {.ctx = ctx};
  elements_prepare(&job.e, &ctx->inputs[0], &ctx->inputs[1], p->axis);
  int64_t grain = job.e.length ? 8192 / job.e.length + 1 : 1;
  if (job.e.rows < 2 * grain)
    gather_rows(&job, 0, job.e.rows);
  else
    rlx_parallel_for(ctx, job.e.rows, grain, gather_rows, &job);
  return RLX_OK;
}

static rlx_status gather_elements_vjp(rlx_graph *g, const rlx_node *n, rlx_value *const *output_grads,
                                      rlx_value **input_grads) {
  const gather_elements_params *p = rlx_node_params(n);
  if (!output_grads[0]) return rlx_graph_status(g);
  rlx_attr attrs[2] = {RLX_ATTR_I("axis", p->axis), {.name = "reduction", .kind = RLX_ATTR_STRING, .s = {"add", 3}}};
  rlx_value *inputs[3] = {graph_zeros_like(g, rlx_node_input(n, 0)), rlx_node_input(n, 1), output_grads[0]};
  input_grads[0] = rlx_graph_op(g, "onnx.ScatterElements", attrs, 2, inputs, 3);
  return rlx_graph_status(g);
}

static const rlx_op gather_elements = {
    .struct_size = sizeof(rlx_op),
    .name = "onnx.GatherElements",
    .version = 11,
    .samples = (const char *const[]){"float[3,4], int64[2,4] = {0, 1, 2, 0, -1, 0, 1, 2}",
                                     "int32[2,3], int32[2,2] {axis = 1}", NULL},
    .doc = "The element of data at each position of indices, with the index in place of the position on "
           "axis.",
    .inputs = gather_elements_inputs,
    .outputs = gather_elements_outputs,
    .attrs = gather_elements_attrs,
    .params_size = sizeof(gather_elements_params),
    .traits = RLX_PURE,
    .infer = gather_elements_infer,
    .vjp = gather_elements_vjp,
    .eval = gather_elements_eval,
};

static const rlx_op *const ops[] = {&gather_elements, NULL};
const rlx_module ops_gather_elements = {.ops = ops};
