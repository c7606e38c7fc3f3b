/* context.c — the services behind the contexts that kernels and ops are handed. */
#include <stdarg.h>
#include <stdio.h>

#include "base/cache.h"
#include "base/need.h"
#include "base/parallel.h"
#include "ir/bound.h"
#include "ir/failure.h"
#include "ir/infer.h"

const char rlx_depends_on_extents[] = "depends on extents";

const char *rlx_reason(const char *format, ...) {
  static _Thread_local char text[512];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  return text;
}

/* ---- bound nodes -------------------------------------------------------------------------- */

const rlx_node *rlx_bound_node(const rlx_bound *b) { return b ? b->node : NULL; }
const void *rlx_bound_params(const rlx_bound *b) { return b ? b->node->params : NULL; }
int rlx_bound_threads(const rlx_bound *b) { return b ? b->threads : 1; }

const rlx_type *rlx_bound_input(const rlx_bound *b, int i) {
  return b && i >= 0 && i < b->node->input_count ? b->inputs[i] : NULL;
}

const rlx_type *rlx_bound_output(const rlx_bound *b, int i) {
  return b && i >= 0 && i < b->node->output_count ? b->outputs[i] : NULL;
}

const rlx_tensor *rlx_bound_constant(const rlx_bound *b, int i) {
  return b && i >= 0 && i < b->node->input_count ? b->constants[i] : NULL;
}

uint32_t rlx_bound_input_layout(const rlx_bound *b, int i) {
  const rlx_value *v = b ? rlx_node_input(b->node, i) : NULL;
  return v ? v->layout : RLX_ROW_MAJOR;
}

uint32_t rlx_bound_output_layout(const rlx_bound *b, int i) {
  const rlx_value *v = b ? rlx_node_output(b->node, i) : NULL;
  return v ? v->layout : RLX_ROW_MAJOR;
}

/* ---- runs --------------------------------------------------------------------------------- */

static const executor_head *executor(const rlx_ctx *ctx) { return ctx->executor; }

void rlx_parallel_for(rlx_ctx *ctx, int64_t n, int64_t grain, void (*body)(void *arg, int64_t begin, int64_t end),
                      void *arg) {
  if (body) parallel_for(rlx_thread_count(ctx), n, grain, body, arg);
}

int rlx_thread_count(const rlx_ctx *ctx) { return ctx && ctx->executor ? executor(ctx)->threads : 1; }

bool rlx_cancelled(const rlx_ctx *ctx) {
  return ctx && ctx->executor && executor(ctx)->cancel && __atomic_load_n(executor(ctx)->cancel, __ATOMIC_RELAXED);
}

void *rlx_output_shape(rlx_ctx *ctx, int output, int rank, const int64_t *dims) {
  if (!ctx || !ctx->executor || !executor(ctx)->output_shape) {
    (void)rlx_fail(ctx, RLX_UNSUPPORTED, "this run takes no outputs of data-dependent size");
    return NULL;
  }
  if (!dims && rank > 0) {
    (void)rlx_fail(ctx, RLX_INVALID, "rlx_output_shape: no dims");
    return NULL;
  }
  return executor(ctx)->output_shape(ctx, output, rank, dims);
}

rlx_tensor *rlx_input_value(const rlx_ctx *ctx, int i) {
  if (!ctx || i < 0 || i >= ctx->input_count || !operand_is_cell(&ctx->inputs[i])) return NULL;
  return cell_value(&ctx->inputs[i]);
}

rlx_status rlx_output_value(rlx_ctx *ctx, int output, rlx_tensor *value) {
  if (!value) return rlx_fail(ctx, RLX_INVALID, "rlx_output_value: no value");
  if (ctx && ctx->executor && executor(ctx)->output_value) return executor(ctx)->output_value(ctx, output, value);
  rlx_tensor_destroy(value);
  return rlx_fail(ctx, RLX_UNSUPPORTED, "this run makes only tensors");
}

char *rlx_text(rlx_ctx *ctx, size_t size) {
  if (ctx && ctx->executor && executor(ctx)->text) return executor(ctx)->text(ctx, size);
  (void)rlx_fail(ctx, RLX_UNSUPPORTED, "this run makes no strings");
  return NULL;
}

rlx_status rlx_delegate_cpu(rlx_ctx *ctx) {
  if (!ctx || !ctx->executor || !executor(ctx)->delegate_cpu)
    return rlx_fail(ctx, RLX_INVALID, "rlx_delegate_cpu outside a host kernel");
  return executor(ctx)->delegate_cpu(ctx);
}

/* ---- cache -------------------------------------------------------------------------------- */

rlx_status rlx_cache_get(const void *ctx, const void *key, size_t key_bytes,
                         rlx_status (*make)(void *arg, rlx_cache_entry *entry), void *arg, rlx_cache_ref **ref,
                         void **data) {
  RLX_NEED(ctx);
  RLX_NEED(key || !key_bytes);
  RLX_NEED(make);
  RLX_NEED(ref);
  RLX_NEED(data);
  const rlx_ctx *run = ctx;
  cache *c = NULL;
  if (run->struct_size == BOUND_MAGIC)
    c = ((const rlx_bound *)ctx)->cache;
  else if (run->struct_size == sizeof *run && run->executor)
    c = executor(run)->cache;
  if (!c) return RLX_FAIL(INVALID, "rlx_cache_get: no session behind this context");
  return cache_get(c, key, key_bytes, make, arg, ref, data);
}

void rlx_cache_release(rlx_cache_ref *ref) { cache_release(ref); }
