/* sequence_map.c — SequenceMap: runs a subgraph on every item of sequences. */
#include <stddef.h>

#include "ops/_loop.h"
#include "ops/_value.h"

typedef struct map_params {
  uint64_t given;
  rlx_graph *body;
} map_params;

static rlx_status infer(rlx_infer *ctx) {
  const map_params *p = rlx_infer_params(ctx);
  int ins = rlx_infer_input_count(ctx), outs = rlx_infer_output_count(ctx);
  if (p->body->inputs.count != (size_t)ins || p->body->outputs.count != (size_t)outs)
    return rlx_fail(ctx, RLX_INVALID, "%d inputs and %d outputs, but the body has %zu and %zu", ins, outs,
                    p->body->inputs.count, p->body->outputs.count);
  RLX_TRY(value_expect_sequence(ctx, 0));
  for (int i = 0; i < ins; i++) {
    const rlx_type *t = rlx_infer_input(ctx, i);
    infer_feed f = {.graph = p->body, .input = i, .output = -1};
    if (!t) return rlx_fail(ctx, RLX_INVALID, "input %d is left out", i);
    f.type = *t;
    if (t->kind == RLX_KIND_SEQUENCE) (void)rlx_type_held(t, &f.type);
    RLX_TRY(infer_feed_input(ctx, &f));
  }
  for (int i = 0; i < outs; i++) {
    const rlx_type *t = &p->body->outputs.data[i].value->type;
    RLX_TRY(value_infer_sequence(ctx, i, t));
  }
  return RLX_OK;
}

/* Lives in one eval. */
typedef struct mapping {
  rlx_ctx *ctx;
  const map_params *params;
  const executor_head *executor;
  int64_t count, done;
  rlx_operand *inputs, *outputs;
  rlx_tensor **items; /* per output `count` of them */
} mapping;

static rlx_status count_items(mapping *m) {
  for (int i = 0; i < m->ctx->input_count; i++) {
    const rlx_tensor *t = rlx_input_value(m->ctx, i);
    if (i == 0 && !t) return rlx_fail(m->ctx, RLX_INVALID, "input 0 is no sequence");
    if (!t) continue;
    if (t->kind != RLX_KIND_SEQUENCE)
      return rlx_fail(m->ctx, RLX_UNSUPPORTED, "input %d is neither a tensor nor a sequence", i);
    if (i > 0 && t->count != m->count)
      return rlx_fail(m->ctx, RLX_INVALID, "the sequences have %lld and %lld items", (long long)m->count,
                      (long long)t->count);
    m->count = t->count;
  }
  return RLX_OK;
}

static rlx_status map_item(mapping *m, int64_t at) {
  rlx_ctx *ctx = m->ctx;
  size_t mark = m->executor->mark(ctx);
  for (int i = 0; i < ctx->input_count; i++) {
    const rlx_tensor *t = rlx_input_value(ctx, i);
    m->inputs[i] = t ? tensor_operand(t->items[at]) : ctx->inputs[i];
  }
  subgraph_call call = {.index = loop_subgraph_index(ctx->node, m->params->body),
                        .inputs = m->inputs,
                        .input_count = ctx->input_count,
                        .outputs = m->outputs,
                        .output_count = ctx->output_count};
  if (rlx_cancelled(ctx)) return rlx_fail(ctx, RLX_CANCELLED, "the run was cancelled");
  rlx_status status = m->executor->call(ctx, &call);
  for (int i = 0; i < ctx->output_count && status == RLX_OK; i++) {
    rlx_tensor *t = value_take(ctx, &m->outputs[i]);
    m->items[i * m->count + at] = t;
    if (!t) status = RLX_OUT_OF_MEMORY;
  }
  m->executor->release(ctx, mark);
  return status;
}

static rlx_status run(mapping *m) {
  rlx_ctx *ctx = m->ctx;
  RLX_TRY(count_items(m));
  m->inputs = mem_array((size_t)ctx->input_count, sizeof *m->inputs);
  m->outputs = mem_array((size_t)ctx->output_count, sizeof *m->outputs);
  m->items = mem_array((size_t)m->count * (size_t)ctx->output_count, sizeof *m->items);
  if (!m->inputs || !m->outputs || !m->items) return rlx_fail(ctx, RLX_OUT_OF_MEMORY, "out of memory");
  for (int64_t at = 0; at < m->count; at++) RLX_TRY(map_item(m, at));
  for (int i = 0; i < ctx->output_count; i++) {
    if (!ctx->outputs[i].data) continue;
    rlx_type type = *rlx_node_output_type(ctx->node, i);
    if (m->count) {
      rlx_type held;
      rlx_tensor_type(m->items[i * m->count], &held);
      RLX_TRY(rlx_type_hold(RLX_KIND_SEQUENCE, RLX_UNDEFINED, &held, &type));
    }
    rlx_tensor *made;
    rlx_status status = rlx_value_create(&type, m->items + i * m->count, m->count, &made);
    if (status != RLX_OK) return value_failed(ctx, status);
    RLX_TRY(rlx_output_value(ctx, i, made));
  }
  return RLX_OK;
}

static rlx_status eval(rlx_ctx *ctx) {
  mapping m = {.ctx = ctx, .params = ctx->params, .executor = ctx->executor};
  if (!m.executor || !m.executor->call) return rlx_fail(ctx, RLX_UNSUPPORTED, "subgraphs run in sessions only");
  rlx_status status = run(&m);
  for (int64_t i = 0; m.items && i < m.count * ctx->output_count; i++) rlx_tensor_destroy(m.items[i]);
  mem_free(m.inputs);
  mem_free(m.outputs);
  mem_free(m.items);
  return status;
}

static const rlx_op sequence_map = {
    .struct_size = sizeof(rlx_op),
    .name = "onnx.SequenceMap",
    .version = 17,
    .samples =
        (const char *const[]){"seq(float[2,3]) {body = b (float[2,3] x) => (float[2,3] y) { y = Neg (x) }}", NULL},
    .doc = "The sequences of what body gives for the items of the input sequences, and the input tensors, one after "
           "the other.",
    .inputs =
        (const rlx_port[]){{.name = "input_sequence", .flags = RLX_ANY_KIND},
                           {.name = "additional_inputs", .flags = RLX_ANY_KIND | RLX_VARIADIC | RLX_HETEROGENEOUS},
                           {0}},
    .outputs =
        (const rlx_port[]){
            {.name = "out_sequence", .flags = RLX_ANY_KIND | RLX_VARIADIC | RLX_HETEROGENEOUS, .min_count = 1}, {0}},
    .attrs =
        (const rlx_attr_def[]){
            {.name = "body", .kind = RLX_ATTR_GRAPH, .flags = RLX_REQUIRED, .offset = offsetof(map_params, body)}, {0}},
    .params_size = sizeof(map_params),
    .traits = RLX_CONTROL_FLOW,
    .no_derivative = "sequences and optionals have no gradients, tensors only",
    .infer = infer,
    .eval = eval,
};

const rlx_module ops_sequence_map = {.ops = (const rlx_op *const[]){&sequence_map, NULL}};
