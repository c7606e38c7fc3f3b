/* reverse_sequence.c — ReverseSequence: each batch entry's first steps in reverse order. */
#include <stddef.h>
#include <string.h>

#include "ir/module.h"
#include "ops/_move.h"

typedef struct reverse_params {
  uint64_t given;
  int64_t batch_axis, time_axis;
} reverse_params;

static const rlx_attr_def reverse_attrs[] = {
    {.name = "batch_axis", .kind = RLX_ATTR_INT, .offset = offsetof(reverse_params, batch_axis), .default_int = 1},
    {.name = "time_axis", .kind = RLX_ATTR_INT, .offset = offsetof(reverse_params, time_axis)},
    {0}};
static const rlx_port reverse_inputs[] = {
    {.name = "input", .variable = "T", .dtypes = MOVE_WHOLE}, {.name = "sequence_lens", .dtypes = MOVE_INT64}, {0}};
static const rlx_port reverse_outputs[] = {{.name = "Y", .variable = "T", .dtypes = MOVE_WHOLE}, {0}};

static rlx_status reverse_infer(rlx_infer *ctx) {
  const reverse_params *p = rlx_infer_params(ctx);
  const rlx_type *x = rlx_infer_input(ctx, 0), *lens = rlx_infer_input(ctx, 1);
  int64_t batch = p->batch_axis, time = p->time_axis;
  if (!((batch == 0 && time == 1) || (batch == 1 && time == 0)))
    return rlx_fail(ctx, RLX_INVALID, "batch_axis %lld and time_axis %lld are not 0 and 1", (long long)batch,
                    (long long)time);
  if (x->rank >= 0 && x->rank < 2) return rlx_fail(ctx, RLX_INVALID, "input has rank %d", x->rank);
  if (lens->rank >= 0 && lens->rank != 1)
    return rlx_fail(ctx, RLX_INVALID, "sequence_lens has rank %d, not 1", lens->rank);
  if (x->rank >= 2 && lens->rank == 1 && x->dims[batch] >= 0 && lens->dims[0] >= 0 && x->dims[batch] != lens->dims[0])
    return rlx_fail(ctx, RLX_INVALID, "%lld sequence_lens for a batch of %lld", (long long)lens->dims[0],
                    (long long)x->dims[batch]);
  rlx_infer_like(ctx, 0, 0);
  return RLX_OK;
}

static rlx_status reverse_eval(rlx_ctx *ctx) {
  const reverse_params *p = ctx->params;
  const rlx_operand *x = &ctx->inputs[0], *y = &ctx->outputs[0];
  const int64_t *lens = ctx->inputs[1].data;
  int64_t batches = x->dims[p->batch_axis], times = x->dims[p->time_axis];
  int64_t slice = dims_product(x->dims, 2, x->rank) * (int64_t)dtype_size(x->dtype);
  int64_t per_batch = p->batch_axis == 0 ? times * slice : slice;
  int64_t per_time = p->batch_axis == 0 ? slice : batches * slice;
  for (int64_t b = 0; b < batches; b++) {
    if (lens[b] < 0 || lens[b] > times)
      return rlx_fail(ctx, RLX_INVALID, "sequence %lld has length %lld of %lld steps", (long long)b, (long long)lens[b],
                      (long long)times);
    for (int64_t t = 0; t < times && slice; t++) {
      int64_t from = t < lens[b] ? lens[b] - 1 - t : t;
      memcpy((char *)y->data + b * per_batch + t * per_time, (const char *)x->data + b * per_batch + from * per_time,
             (size_t)slice);
    }
  }
  return RLX_OK;
}

static rlx_status reverse_vjp(rlx_graph *g, const rlx_node *n, rlx_value *const *output_grads,
                              rlx_value **input_grads) {
  const reverse_params *p = rlx_node_params(n);
  if (!output_grads[0]) return rlx_graph_status(g);
  rlx_attr attrs[2] = {RLX_ATTR_I("batch_axis", p->batch_axis), RLX_ATTR_I("time_axis", p->time_axis)};
  rlx_value *inputs[2] = {output_grads[0], rlx_node_input(n, 1)};
  input_grads[0] = rlx_graph_op(g, "onnx.ReverseSequence", attrs, 2, inputs, 2);
  return rlx_graph_status(g);
}

static const rlx_op reverse_sequence = {
    .struct_size = sizeof(rlx_op),
    .name = "onnx.ReverseSequence",
    .version = 10,
    .samples = (const char *const[]){"float[4,3], int64[3] = {1, 2, 4}",
                                     "float[2,5,2], int64[2] = {3, 5} {batch_axis = 0, time_axis = 1}", NULL},
    .doc = "The first sequence_lens[b] steps of batch entry b in reverse order, the others as they are.",
    .inputs = reverse_inputs,
    .outputs = reverse_outputs,
    .attrs = reverse_attrs,
    .params_size = sizeof(reverse_params),
    .traits = RLX_PURE,
    .infer = reverse_infer,
    .vjp = reverse_vjp,
    .eval = reverse_eval,
};

static const rlx_op *const ops[] = {&reverse_sequence, NULL};
const rlx_module ops_reverse_sequence = {.ops = ops};
