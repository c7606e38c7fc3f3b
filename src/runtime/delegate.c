/* delegate.c — a host kernel hands its node over to the CPU's kernel for it. */
#include "ir/bound.h"
#include "runtime/session.h"

enum { OPERANDS = 128 };

/* One call of a kernel that binding has not prepared. */
typedef struct delegated {
  const candidate *to;
  rlx_ctx ctx;
  rlx_bound bound;
  const rlx_type *types[OPERANDS];
  const rlx_tensor *constants[OPERANDS];
  void *state, *run_state;
} delegated;

static void describe(delegated *d, const stage *s, const program_node *n, int threads, struct cache *known) {
  for (int i = 0; i < n->input_count; i++) {
    if (n->inputs[i] == NO_SLOT) continue;
    d->types[i] = &s->facts[n->inputs[i]].type;
    d->constants[i] = n->node->inputs[i]->constant;
  }
  for (int i = 0; i < n->node->output_count; i++)
    if (n->outputs[i] != NO_SLOT) d->types[n->input_count + i] = &s->facts[n->outputs[i]].type;
  d->bound = (rlx_bound){BOUND_MAGIC, n->node, d->types, d->types + n->input_count, d->constants, threads, known};
}

static rlx_status run_prepared(delegated *d, const rlx_kernel *head) {
  if (head->prepare) RLX_TRY(head->prepare(&d->bound, &d->state));
  if (head->run_init) RLX_TRY(head->run_init(d->state, &d->run_state));
  int64_t bytes = head->workspace ? head->workspace(&d->bound, d->state) : 0;
  d->ctx.state = d->state;
  d->ctx.run_state = d->run_state;
  d->ctx.workspace_bytes = bytes;
  d->ctx.workspace = bytes > 0 ? mem_aligned(64, (size_t)bytes) : NULL;
  if (bytes > 0 && !d->ctx.workspace) return status_no_memory((size_t)bytes);
  rlx_status status = d->to->kernel->run(&d->ctx);
  mem_free(d->ctx.workspace);
  return status;
}

rlx_status exec_delegate_cpu(rlx_ctx *ctx) {
  const run_exec *e = ctx->executor;
  const stage *s = e->frame->stage;
  const step *st = &s->steps[ctx->flags];
  const selection *sel = st->from->node->selection;
  if (!st->chosen->kernel || st->chosen->kernel->kind != KERNEL_HOST)
    return rlx_fail(ctx, RLX_INVALID, "rlx_delegate_cpu outside a host kernel");
  if (!sel->has_stand_in) return rlx_fail(ctx, RLX_UNSUPPORTED, "the op has no CPU kernel and no eval");
  if (st->from->input_count + st->from->node->output_count > OPERANDS)
    return rlx_fail(ctx, RLX_UNSUPPORTED, "more than %d operands", OPERANDS);
  delegated d = {.to = &sel->stand_in, .ctx = *ctx};
  if (!d.to->kernel) return st->from->node->op->op.eval(&d.ctx);
  describe(&d, s, st->from, e->head.threads, e->head.cache);
  const rlx_kernel *head = &d.to->kernel->head;
  rlx_status status = run_prepared(&d, head);
  if (d.run_state && head->run_done) head->run_done(d.run_state);
  if (d.state && head->release) head->release(d.state);
  return status;
}
