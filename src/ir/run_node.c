/* run_node.c — the smallest executor: one node, outputs on the heap. */
#include "ir/run_node.h"

#include "ir/failure.h"
#include "ir/shape.h"

typedef struct one_run {
  executor_head head;
  failure failure;
  rlx_operand *outputs;
  rlx_tensor **out;
  arena texts; /* until the outputs have copies of their own */
} one_run;

static void *shape_output(rlx_ctx *ctx, int i, int rank, const int64_t *dims) {
  one_run *r = ctx->executor;
  if (i < 0 || i >= ctx->output_count || r->out[i]) {
    (void)rlx_fail(ctx, RLX_INVALID, "output %d is not of data-dependent size", i);
    return NULL;
  }
  rlx_status status = tensor_alloc(ctx->node->outputs[i]->type.dtype, rank, dims, &r->out[i]);
  if (status != RLX_OK) {
    (void)rlx_fail(ctx, status, "%s", rlx_error_message());
    return NULL;
  }
  r->outputs[i] = tensor_operand(r->out[i]);
  return r->out[i]->data;
}

static rlx_status output_value(rlx_ctx *ctx, int i, rlx_tensor *value) {
  one_run *r = ctx->executor;
  if (i < 0 || i >= ctx->output_count || r->out[i] || ctx->node->outputs[i]->type.kind != value->kind) {
    rlx_tensor_destroy(value);
    return rlx_fail(ctx, RLX_INVALID, "output %d is not of this kind", i);
  }
  r->out[i] = value;
  return RLX_OK;
}

static char *text_memory(rlx_ctx *ctx, size_t size) {
  one_run *r = ctx->executor;
  char *text = arena_alloc(&r->texts, size ? size : 1);
  if (!text) (void)rlx_fail(ctx, RLX_OUT_OF_MEMORY, "no memory for a text of %zu bytes", size);
  return text;
}

/* Strings of outputs may lie in inputs or in r->texts: the tensor gets its own. */
static rlx_status own_texts(rlx_tensor *t) {
  rlx_string *s = t->data;
  for (int64_t i = 0; t->dtype == RLX_STRING && !t->items && i < t->count; i++)
    RLX_TRY(rlx_tensor_set_string(t, i, s[i].data ? s[i].data : "", s[i].size));
  return RLX_OK;
}

static rlx_status finish(one_run *r, const rlx_node *n, rlx_status status) {
  if (r->failure.taken) status = status_fail(r->failure.code, "%s", r->failure.text);
  for (int i = 0; i < n->output_count && status == RLX_OK; i++)
    status = r->out[i] ? own_texts(r->out[i]) : RLX_FAIL(KERNEL, "output %d was not made", i);
  arena_finish(&r->texts);
  for (int i = 0; i < n->output_count && status != RLX_OK; i++) {
    rlx_tensor_destroy(r->out[i]);
    r->out[i] = NULL;
  }
  return status;
}

rlx_status node_run(const rlx_node *n, rlx_status (*fn)(rlx_ctx *ctx), const rlx_operand *inputs, const rlx_type *types,
                    rlx_tensor **out) {
  rlx_operand small[8], *outputs = small;
  if (n->output_count > 8 && !(outputs = mem_array((size_t)n->output_count, sizeof *outputs)))
    return status_no_memory((size_t)n->output_count * sizeof *outputs);
  one_run r = {.outputs = outputs, .out = out};
  failure_reset(&r.failure);
  r.head = (executor_head){.failure = &r.failure,
                           .threads = 1,
                           .output_shape = shape_output,
                           .text = text_memory,
                           .output_value = output_value};
  rlx_status status = RLX_OK;
  for (int i = 0; i < n->output_count && status == RLX_OK; i++) {
    outputs[i] = (rlx_operand){.dtype = types[i].dtype};
    if (types[i].kind != RLX_KIND_TENSOR || !type_is_concrete(&types[i])) continue;
    if (!out[i]) status = tensor_alloc(types[i].dtype, types[i].rank, types[i].dims, &out[i]);
    if (status == RLX_OK) outputs[i] = tensor_operand(out[i]);
  }
  rlx_ctx ctx = {.struct_size = sizeof ctx,
                 .input_count = n->input_count,
                 .output_count = n->output_count,
                 .inputs = inputs,
                 .outputs = outputs,
                 .params = n->params,
                 .node = n,
                 .executor = &r};
  if (status == RLX_OK) {
    (void)status_fail(RLX_OK, "the kernel returned an error without saying why");
    status = fn(&ctx);
  }
  status = finish(&r, n, status);
  if (outputs != small) mem_free(outputs);
  return status;
}
