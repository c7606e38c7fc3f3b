/* delegate.c — rlx_delegate_cpu: a host kernel hands its node to the best CPU kernel, or to the op's eval. */
#include <string.h>

#include "ir/bound.h"
#include "ir/shape.h"
#include "runtime/session.h"

/* What one such call needs; it is made for the call, since only the kernel knows when it hands over. */
typedef struct handover {
  rlx_ctx ctx;
  struct rlx_bound bound;
  arena memory;
  void *state, *run_state, *workspace;
  int64_t workspace_bytes;
} handover;

static rlx_status describe(handover *h, const rlx_operand *operands, int count, const rlx_type ***list) {
  const rlx_type **types = arena_array(&h->memory, (size_t)count, sizeof *types);
  rlx_type *all = arena_array(&h->memory, (size_t)count, sizeof *all);
  if (!types || !all) return status_no_memory((size_t)count * sizeof *all);
  for (int i = 0; i < count; i++) {
    const rlx_operand *o = &operands[i];
    if (!o->data && !o->dims) continue;
    type_set(&all[i], o->dtype, o->rank, o->dims);
    types[i] = &all[i];
  }
  *list = types;
  return RLX_OK;
}

static rlx_status bind(handover *h, run_state *rs) {
  const rlx_node *n = h->ctx.node;
  const rlx_type **inputs, **outputs;
  RLX_TRY(describe(h, h->ctx.inputs, h->ctx.input_count, &inputs));
  RLX_TRY(describe(h, h->ctx.outputs, h->ctx.output_count, &outputs));
  const rlx_tensor **constants = arena_array(&h->memory, (size_t)n->input_count, sizeof *constants);
  if (!constants) return status_no_memory(1);
  for (int i = 0; i < n->input_count; i++) constants[i] = n->inputs[i] ? n->inputs[i]->constant : NULL;
  h->bound = (struct rlx_bound){BOUND_MAGIC, n, inputs, outputs, constants, rs->session->threads, rs->session->cache};
  return RLX_OK;
}

static rlx_status prepare(handover *h, const rlx_kernel *k, run_state *rs) {
  if (k->prepare) RLX_TRY(k->prepare(&h->bound, &h->state));
  int64_t bytes = k->workspace ? k->workspace(&h->bound, h->state) : 0;
  if (bytes < 0) return RLX_FAIL(KERNEL, "workspace of %lld bytes", (long long)bytes);
  if (bytes > 0) {
    RLX_TRY(session_charge(rs->session, bytes));
    h->workspace_bytes = bytes;
    h->workspace = mem_aligned(64, (size_t)bytes);
    if (!h->workspace) return status_no_memory((size_t)bytes);
  }
  return k->run_init ? k->run_init(h->state, &h->run_state) : RLX_OK;
}

static rlx_status run_kernel(handover *h, const kernel_entry *e, run_state *rs) {
  const rlx_kernel *k = &e->head;
  rlx_status status = prepare(h, k, rs);
  h->ctx.state = h->state;
  h->ctx.run_state = h->run_state;
  h->ctx.workspace = h->workspace;
  h->ctx.workspace_bytes = h->workspace_bytes;
  if (status == RLX_OK)
    status = e->run(&h->ctx);
  else
    status = rlx_fail(&h->ctx, status, "kernel %s: %s", k->name, rlx_error_message());
  if (k->run_done && h->run_state) k->run_done(h->run_state);
  if (k->release && h->state) k->release(h->state);
  mem_free(h->workspace);
  (void)session_charge(rs->session, -h->workspace_bytes);
  return status;
}

rlx_status exec_delegate_cpu(rlx_ctx *ctx) {
  run_exec *e = ctx->executor;
  const step *s = &e->frame->stage->steps[ctx->flags];
  const selection *sel = s->from->node->selection;
  if (s->chosen->tier != RLX_TIER_HOST) return rlx_fail(ctx, RLX_INVALID, "rlx_delegate_cpu outside a host kernel");
  handover h = {.ctx = *ctx};
  rlx_status status = bind(&h, e->rs);
  if (status != RLX_OK) {
    arena_finish(&h.memory);
    return rlx_fail(ctx, status, "%s", rlx_error_message());
  }
  status = RLX_UNSUPPORTED;
  for (int i = 0; i < sel->behind_count && status == RLX_UNSUPPORTED; i++) {
    const candidate *c = &sel->behind[i];
    if (c->conditional && c->kernel->head.why_not_bound(&h.bound)) continue;
    status = c->kernel ? run_kernel(&h, c->kernel, e->rs) : s->from->node->op->op.eval(&h.ctx);
    arena_finish(&h.memory);
    return status;
  }
  arena_finish(&h.memory);
  return rlx_fail(ctx, RLX_UNSUPPORTED, "rlx_delegate_cpu: the op has no CPU kernel or eval for this");
}
