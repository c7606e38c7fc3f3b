/* gpu_ops.c — the ops, their evals, and their native kernels. */
#include "support/gpu_ops.h"

#include <rlx/vulkan.h>
#include <string.h>

#include "backend/record/record.h"

bool gpu_ops_fail;
float gpu_ops_notes[64];
int gpu_ops_note_count, gpu_ops_delegated;

/* ---- evals, which are the record device's kernels too ------------------------------------- */

static rlx_status turn(rlx_ctx *ctx) {
  const float *x = ctx->inputs[0].data;
  float *y = ctx->outputs[0].data;
  int64_t n = ctx->inputs[0].count;
  for (int64_t i = 0; i < n; i++) y[i] = x[(i + 1) % n];
  return RLX_OK;
}

static rlx_status mix(rlx_ctx *ctx) {
  const float *a = ctx->inputs[0].data, *b = ctx->inputs[1].data;
  float *y = ctx->outputs[0].data;
  int64_t half = ctx->inputs[0].count / 2;
  for (int64_t i = 0; i < half; i++) y[i] = b[half + i];
  for (int64_t i = 0; i < half; i++) y[half + i] = a[i];
  return RLX_OK;
}

static rlx_status host(rlx_ctx *ctx) {
  const float *x = ctx->inputs[0].data;
  float *y = ctx->outputs[0].data;
  for (int64_t i = 0; i < ctx->inputs[0].count; i++) y[i] = 2 * x[i] + 1;
  return RLX_OK;
}

static rlx_status both(rlx_ctx *ctx) {
  const float *a = ctx->inputs[0].data, *b = ctx->inputs[1].data;
  float *y = ctx->outputs[0].data;
  for (int64_t i = 0; i < ctx->inputs[0].count; i++) y[i] = a[i] + 2 * b[i];
  return RLX_OK;
}

static rlx_status note(rlx_ctx *ctx) {
  const float *x = ctx->inputs[0].data;
  if (gpu_ops_note_count < 64) gpu_ops_notes[gpu_ops_note_count++] = x[0];
  memcpy(ctx->outputs[0].data, x, (size_t)ctx->inputs[0].bytes);
  return RLX_OK;
}

static rlx_status stop(rlx_ctx *ctx) {
  if (gpu_ops_fail) return rlx_fail(ctx, RLX_INVALID, "told to fail");
  return host(ctx);
}

static rlx_status positive_infer(rlx_infer *ctx) {
  int64_t unknown = RLX_UNKNOWN;
  rlx_infer_set(ctx, 0, 1, &unknown);
  return RLX_OK;
}

static rlx_status positive(rlx_ctx *ctx) {
  const float *x = ctx->inputs[0].data;
  int64_t n = 0;
  for (int64_t i = 0; i < ctx->inputs[0].count; i++) n += x[i] > 0;
  float *y = rlx_output_shape(ctx, 0, 1, &n);
  if (!y) return RLX_KERNEL;
  for (int64_t i = 0; i < ctx->inputs[0].count; i++)
    if (x[i] > 0) *y++ = x[i];
  return RLX_OK;
}

static rlx_status refuse_encode(const rlx_node *n) {
  (void)n;
  return gpu_ops_fail ? rlx_fail(NULL, RLX_INVALID, "told to fail") : RLX_OK;
}

/* A host kernel: it looks at its operand, and leaves the rest to the CPU's kernel. */
static rlx_status delegate(rlx_ctx *ctx) {
  gpu_ops_delegated++;
  return rlx_delegate_cpu(ctx);
}

/* A CPU kernel of which everything is prepared. */
static rlx_status ready_prepare(rlx_bound *b, void **state) {
  (void)b;
  static int seven = 7;
  *state = &seven;
  return RLX_OK;
}

static int64_t ready_workspace(rlx_bound *b, const void *state) {
  (void)state;
  return rlx_bound_input(b, 0)->dims[0] * (int64_t)sizeof(float);
}

static rlx_status ready_run(rlx_ctx *ctx) {
  if (!ctx->state || *(const int *)ctx->state != 7 || ctx->workspace_bytes < ctx->inputs[0].bytes)
    return rlx_fail(ctx, RLX_KERNEL, "not prepared");
  memset(ctx->workspace, 0, (size_t)ctx->workspace_bytes);
  return host(ctx);
}

/* ---- Vulkan: by vkCmdCopyBuffer alone ----------------------------------------------------- */

typedef void copy_buffer(void *commands, uint64_t from, uint64_t to, uint32_t count, const uint64_t (*regions)[3]);

static copy_buffer *find_copy(const rlx_vulkan_dispatch *d) {
  copy_buffer *copy;
  void *found = d->get_device_proc(d->device, "vkCmdCopyBuffer");
  memcpy(&copy, &found, sizeof copy);
  return copy;
}

static rlx_status vulkan_turn(rlx_vulkan_dispatch *d) {
  const rlx_vulkan_operand *x = &d->inputs[0], *y = &d->outputs[0];
  const uint64_t regions[2][3] = {{x->offset + 4, y->offset, x->bytes - 4}, {x->offset, y->offset + x->bytes - 4, 4}};
  find_copy(d)(d->command_buffer, x->buffer, y->buffer, 2, regions);
  return RLX_OK;
}

static rlx_status vulkan_mix(rlx_vulkan_dispatch *d) {
  const rlx_vulkan_operand *a = &d->inputs[0], *b = &d->inputs[1], *y = &d->outputs[0];
  uint64_t half = y->bytes / 2;
  const uint64_t first[1][3] = {{b->offset + half, y->offset, half}},
                 second[1][3] = {{a->offset, y->offset + half, half}};
  find_copy(d)(d->command_buffer, b->buffer, y->buffer, 1, first);
  find_copy(d)(d->command_buffer, a->buffer, y->buffer, 1, second);
  return RLX_OK;
}

static rlx_status vulkan_bad(rlx_vulkan_dispatch *d) {
  return gpu_ops_fail ? rlx_fail(NULL, RLX_INVALID, "told to fail") : vulkan_turn(d);
}

/* Ends the command buffer, which it may not. */
static rlx_status vulkan_rude(rlx_vulkan_dispatch *d) {
  int (*end)(void *commands);
  void *found = d->get_device_proc(d->device, "vkEndCommandBuffer");
  memcpy(&end, &found, sizeof end);
  (void)end(d->command_buffer);
  return RLX_OK;
}

/* ---- records ------------------------------------------------------------------------------ */

#define ONE .inputs = (const rlx_port[]) {{"X", "T", RLX_SET(RLX_FLOAT), 0, 0}, {0}}
#define TWO .inputs = (const rlx_port[]) {{"A", "T", RLX_SET(RLX_FLOAT), 0, 0}, {"B", "T", 0, 0, 0}, {0}}
#define OP(op, ports, fn) .struct_size = sizeof(rlx_op), .name = "test." op, ports, .outputs = out, .eval = fn
static const rlx_port out[] = {{"Y", "T", 0, 0, 0}, {0}};
static const rlx_op ops[] = {
    {OP("turn", ONE, turn), .traits = RLX_PURE},
    {OP("mix", TWO, mix), .traits = RLX_PURE},
    {OP("bad", ONE, turn)},
    {OP("once", ONE, turn)},
    {OP("rude", ONE, turn)},
    {OP("ready", ONE, host)},
    {OP("host", ONE, host)},
    {OP("both", TWO, both)},
    {OP("note", ONE, note), .traits = RLX_SIDE_EFFECT},
    {OP("stop", ONE, stop)},
    {OP("positive", ONE, positive), .infer = positive_infer},
};

static const record_kernel record_kernels[] = {
    {sizeof(record_kernel), {.op = "test.turn", .name = "test"}, turn, NULL},
    {sizeof(record_kernel), {.op = "test.mix", .name = "test"}, mix, NULL},
    {sizeof(record_kernel), {.op = "test.bad", .name = "test"}, turn, refuse_encode},
    {sizeof(record_kernel), {.op = "test.once", .name = "test", .traits = RLX_NOT_REPLAYABLE}, turn, NULL},
};

static const rlx_vulkan_kernel vulkan_kernels[] = {
    {sizeof(rlx_vulkan_kernel), {.op = "test.turn", .name = "test"}, vulkan_turn},
    {sizeof(rlx_vulkan_kernel), {.op = "test.mix", .name = "test"}, vulkan_mix},
    {sizeof(rlx_vulkan_kernel), {.op = "test.bad", .name = "test"}, vulkan_bad},
    {sizeof(rlx_vulkan_kernel), {.op = "test.once", .name = "test", .traits = RLX_NOT_REPLAYABLE}, vulkan_turn},
    {sizeof(rlx_vulkan_kernel), {.op = "test.rude", .name = "test"}, vulkan_rude},
};

static const rlx_cpu_kernel ready = {
    sizeof(rlx_cpu_kernel),
    {.op = "test.ready", .name = "ready", .prepare = ready_prepare, .workspace = ready_workspace},
    ready_run};
static const rlx_host_kernel host_kernels[] = {
    {sizeof(rlx_host_kernel), {.op = "test.ready", .name = "visit"}, "record", delegate},
    {sizeof(rlx_host_kernel), {.op = "test.ready", .name = "visit"}, "vulkan", delegate},
};

int gpu_ops_register(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
    if (rlx_register_op(NULL, &ops[i], 0, NULL) != RLX_OK) return -1;
  if (rlx_register_cpu_kernel(NULL, &ready, 0, NULL) != RLX_OK) return -1;
  for (size_t i = 0; i < sizeof host_kernels / sizeof *host_kernels; i++)
    if (rlx_register_host_kernel(NULL, &host_kernels[i], 0, NULL) != RLX_OK) return -1;
  for (size_t i = 0; i < sizeof record_kernels / sizeof *record_kernels; i++)
    if (record_register_kernel(NULL, &record_kernels[i], 0, NULL) != RLX_OK) return -1;
  for (size_t i = 0; i < sizeof vulkan_kernels / sizeof *vulkan_kernels; i++)
    if (rlx_register_vulkan_kernel(NULL, &vulkan_kernels[i], 0, NULL) != RLX_OK) return -1;
  return 0;
}

/* ---- devices ------------------------------------------------------------------------------ */

static bool present(const char *name) {
  rlx_device_info info = {.struct_size = sizeof info};
  for (int i = 0; i < rlx_device_count(); i++)
    if (rlx_device_get(i, &info) == RLX_OK && info.present && strncmp(info.name, name, strlen(name)) == 0) return true;
  return false;
}

const gpu_place_row *gpu_ops_device(int i) {
  static const gpu_place_row rows[] = {{"record", "stream"},
                                       {"record", "stream,discrete"},
                                       {"vulkan", "stream,validate"},
                                       {"vulkan", "stream,validate,discrete"}};
  for (size_t k = 0; k < sizeof rows / sizeof *rows; k++)
    if (present(rows[k].device) && i-- == 0) return &rows[k];
  return NULL;
}
