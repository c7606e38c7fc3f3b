/* raw.c — raw kernels: what encode is given, and what it may not do with it. */
#include <string.h>

#include "backend/vulkan/vulkan.h"
#include "base/vector.h"

enum { MAX_OPERANDS = 64 };

/* Calls that a raw kernel may not make; while it runs under guard they are refused and remembered. */
static _Thread_local const char *forbidden_call;

static VkResult refuse(const char *name) {
  if (!forbidden_call) forbidden_call = name;
  return VK_ERROR_UNKNOWN;
}

#define FORBID(name, ...)                                     \
  static VKAPI_ATTR VkResult VKAPI_CALL no_##name(__VA_ARGS__)
FORBID(vkBeginCommandBuffer, VkCommandBuffer a, const VkCommandBufferBeginInfo *b) {
  (void)a;
  (void)b;
  return refuse("vkBeginCommandBuffer");
}
FORBID(vkEndCommandBuffer, VkCommandBuffer a) {
  (void)a;
  return refuse("vkEndCommandBuffer");
}
FORBID(vkResetCommandBuffer, VkCommandBuffer a, VkCommandBufferResetFlags b) {
  (void)a;
  (void)b;
  return refuse("vkResetCommandBuffer");
}
FORBID(vkQueueSubmit, VkQueue a, uint32_t b, const VkSubmitInfo *c, VkFence d) {
  (void)a;
  (void)b;
  (void)c;
  (void)d;
  return refuse("vkQueueSubmit");
}
FORBID(vkQueueWaitIdle, VkQueue a) {
  (void)a;
  return refuse("vkQueueWaitIdle");
}
FORBID(vkDeviceWaitIdle, VkDevice a) {
  (void)a;
  return refuse("vkDeviceWaitIdle");
}
FORBID(vkWaitForFences, VkDevice a, uint32_t b, const VkFence *c, VkBool32 d, uint64_t e) {
  (void)a;
  (void)b;
  (void)c;
  (void)d;
  (void)e;
  return refuse("vkWaitForFences");
}
FORBID(vkWaitSemaphores, VkDevice a, const VkSemaphoreWaitInfo *b, uint64_t c) {
  (void)a;
  (void)b;
  (void)c;
  return refuse("vkWaitSemaphores");
}

static const struct {
  const char *name;
  PFN_vkVoidFunction guard;
} guards[] = {
#define ROW(name) {#name, (PFN_vkVoidFunction)no_##name}
    ROW(vkBeginCommandBuffer), ROW(vkEndCommandBuffer), ROW(vkResetCommandBuffer), ROW(vkQueueSubmit),
    ROW(vkQueueWaitIdle),      ROW(vkDeviceWaitIdle),   ROW(vkWaitForFences),      ROW(vkWaitSemaphores),
#undef ROW
};

static _Thread_local const vulkan_device *encoding_on;
static _Thread_local bool guarded;

static void *get_proc(void *device, const char *name) {
  PFN_vkVoidFunction found = encoding_on ? encoding_on->instance->GetDeviceProcAddr(device, name) : NULL;
  for (size_t i = 0; guarded && i < sizeof guards / sizeof *guards; i++)
    if (strcmp(guards[i].name, name) == 0) found = guards[i].guard;
  void *p;
  memcpy(&p, &found, sizeof p);
  return p;
}

static rlx_vulkan_operand native(const rlx_operand *o, const gpu_span *s) {
  rlx_vulkan_operand n = {.bytes = (uint64_t)s->bytes, .address = gpu_span_address(s)};
  if (s->buffer) n.buffer = (uint64_t)(uintptr_t)s->buffer->native;
  n.offset = (uint64_t)s->offset;
  if (!o) return n;
  n.dtype = o->dtype;
  n.rank = o->rank;
  n.dims = o->dims;
  return n;
}

rlx_status vulkan_encode(gpu_list *l, const gpu_raw *raw) {
  const rlx_vulkan_kernel *k = raw->record;
  const gpu_operands *o = raw->operands;
  const vulkan_device *d = l->device;
  rlx_vulkan_operand operands[MAX_OPERANDS];
  int count = o->input_count + o->output_count;
  if (count > MAX_OPERANDS) return RLX_FAIL(UNSUPPORTED, "a raw kernel with more than %d operands", MAX_OPERANDS);
  for (int i = 0; i < count; i++) operands[i] = native(&o->described[i], &o->spans[i]);
  rlx_vulkan_dispatch dispatch = {.struct_size = sizeof dispatch,
                                  .input_count = o->input_count,
                                  .output_count = o->output_count,
                                  .inputs = operands,
                                  .outputs = operands + o->input_count,
                                  .workspace = native(NULL, &o->workspace),
                                  .params = o->params,
                                  .state = o->state,
                                  .node = o->node,
                                  .command_buffer = l->commands,
                                  .queue = d->queue,
                                  .device = d->device,
                                  .physical_device = d->physical,
                                  .instance = d->instance->handle,
                                  .get_device_proc = get_proc};
  encoding_on = d;
  guarded = raw->guard;
  forbidden_call = NULL;
  rlx_status status = k->encode(&dispatch);
  encoding_on = NULL;
  l->bound = VK_NULL_HANDLE; /* it may have bound another */
  if (forbidden_call) return RLX_FAIL(INVALID, "encode called %s, which a raw kernel may not", forbidden_call);
  return status == RLX_OK ? vulkan_complaint(d) : status;
}
