/* commands.c — lists of commands, the queue, and waiting for it. */
#include "backend/vulkan/vulkan.h"

#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/vector.h"

enum { SPIN_NS = 60 * 1000 }; /* waits as long as this do not sleep */

static int loss_countdown; /* atomic: vulkan_simulate_loss */

void vulkan_simulate_loss(int submissions) { __atomic_store_n(&loss_countdown, submissions, __ATOMIC_RELAXED); }

/* ---- recording ---------------------------------------------------------------------------- */

static void memory_barrier(gpu_list *l, VkPipelineStageFlags from, VkPipelineStageFlags to, VkAccessFlags by) {
  VkMemoryBarrier barrier = {
      .sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER, .srcAccessMask = VK_ACCESS_MEMORY_WRITE_BIT, .dstAccessMask = by};
  l->device->call.CmdPipelineBarrier(l->commands, from, to, 0, 1, &barrier, 0, NULL, 0, NULL);
}

enum { WORK = VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT | VK_PIPELINE_STAGE_TRANSFER_BIT };

void vulkan_barrier(gpu_list *l) {
  memory_barrier(l, WORK, WORK, VK_ACCESS_MEMORY_READ_BIT | VK_ACCESS_MEMORY_WRITE_BIT);
}

static rlx_status make_list(vulkan_device *d, gpu_list **out) {
  gpu_list *l = mem_zalloc(sizeof *l);
  if (!l) return status_no_memory(sizeof *l);
  l->device = d;
  VkCommandPoolCreateInfo pool = {.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
                                  .queueFamilyIndex = d->queue_family};
  VkResult result = d->call.CreateCommandPool(d->device, &pool, NULL, &l->pool);
  VkCommandBufferAllocateInfo info = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
                                      .commandPool = l->pool,
                                      .level = VK_COMMAND_BUFFER_LEVEL_PRIMARY,
                                      .commandBufferCount = 1};
  if (result == VK_SUCCESS) result = d->call.AllocateCommandBuffers(d->device, &info, &l->commands);
  if (result != VK_SUCCESS) {
    vulkan_list_destroy(l);
    return vulkan_failed(result, "making a command buffer");
  }
  *out = l;
  return RLX_OK;
}

rlx_status vulkan_list_begin(gpu_device *head, gpu_list **list) {
  vulkan_device *d = vulkan_device_of(head);
  if (*list)
    VULKAN_TRY(d->call.ResetCommandPool(d->device, (*list)->pool, 0), "emptying a command buffer");
  else
    RLX_TRY(make_list(d, list));
  gpu_list *l = *list;
  l->bound = VK_NULL_HANDLE;
  VkCommandBufferBeginInfo info = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO};
  VULKAN_TRY(d->call.BeginCommandBuffer(l->commands, &info), "recording");
  memory_barrier(l, WORK | VK_PIPELINE_STAGE_HOST_BIT, WORK, VK_ACCESS_MEMORY_READ_BIT | VK_ACCESS_MEMORY_WRITE_BIT);
  return RLX_OK;
}

rlx_status vulkan_list_end(gpu_list *l) {
  memory_barrier(l, WORK, VK_PIPELINE_STAGE_HOST_BIT, VK_ACCESS_HOST_READ_BIT);
  VULKAN_TRY(l->device->call.EndCommandBuffer(l->commands), "recording");
  return RLX_OK;
}

void vulkan_list_destroy(gpu_list *l) {
  if (l->pool) l->device->call.DestroyCommandPool(l->device->device, l->pool, NULL);
  mem_free(l);
}

rlx_status vulkan_launch(gpu_list *l, const gpu_launch *launch) {
  const vulkan_device *d = l->device;
  VkPipeline pipeline = vulkan_kernel_pipeline(launch->kernel);
  if (pipeline != l->bound) d->call.CmdBindPipeline(l->commands, VK_PIPELINE_BIND_POINT_COMPUTE, pipeline);
  l->bound = pipeline;
  d->call.CmdPushConstants(l->commands, d->layout, VK_SHADER_STAGE_COMPUTE_BIT, 0, sizeof launch->block,
                           &launch->block);
  d->call.CmdDispatch(l->commands, launch->groups[0], launch->groups[1], launch->groups[2]);
  return RLX_OK;
}

void vulkan_copy(gpu_list *l, const gpu_span *from, const gpu_span *to) {
  VkBufferCopy region = {(VkDeviceSize)from->offset, (VkDeviceSize)to->offset, (VkDeviceSize)from->bytes};
  l->device->call.CmdCopyBuffer(l->commands, from->buffer->native, to->buffer->native, 1, &region);
}

void vulkan_label(gpu_list *l, const char *words) {
  VkDebugUtilsLabelEXT label = {.sType = VK_STRUCTURE_TYPE_DEBUG_UTILS_LABEL_EXT, .pLabelName = words};
  if (l->device->call.CmdInsertDebugUtilsLabelEXT) l->device->call.CmdInsertDebugUtilsLabelEXT(l->commands, &label);
}

/* ---- the queue ---------------------------------------------------------------------------- */

static void lock_queue(vulkan_device *d) {
  pthread_mutex_lock(&d->lock);
  if (d->application.lock_queue) d->application.lock_queue(d->application.user);
}

static void unlock_queue(vulkan_device *d) {
  if (d->application.unlock_queue) d->application.unlock_queue(d->application.user);
  pthread_mutex_unlock(&d->lock);
}

static rlx_status lost(vulkan_device *d, const char *what) {
  __atomic_store_n(&d->head.lost, 1, __ATOMIC_RELAXED);
  return vulkan_failed(VK_ERROR_DEVICE_LOST, what);
}

/* With the lock held. */
static VkResult submit_now(vulkan_device *d, const VkCommandBuffer *commands, uint32_t count, uint64_t value) {
  VkTimelineSemaphoreSubmitInfo timeline = {.sType = VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO,
                                            .signalSemaphoreValueCount = 1,
                                            .pSignalSemaphoreValues = &value};
  VkSubmitInfo info = {.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO,
                       .pNext = &timeline,
                       .commandBufferCount = count,
                       .pCommandBuffers = commands,
                       .signalSemaphoreCount = 1,
                       .pSignalSemaphores = &d->timeline};
  return d->call.QueueSubmit(d->queue, 1, &info, VK_NULL_HANDLE);
}

static bool loss_is_due(void) {
  int left = __atomic_load_n(&loss_countdown, __ATOMIC_RELAXED);
  return left > 0 && __atomic_sub_fetch(&loss_countdown, 1, __ATOMIC_RELAXED) == 0;
}

rlx_status vulkan_submit(gpu_device *head, gpu_list *const *lists, int count, uint64_t *ticket) {
  vulkan_device *d = vulkan_device_of(head);
  VkCommandBuffer commands[4];
  if (count > 4) return RLX_FAIL(INTERNAL, "a submission of %d lists", count);
  for (int i = 0; i < count; i++) commands[i] = lists[i]->commands;
  if (loss_is_due()) return lost(d, "submitting");
  lock_queue(d);
  uint64_t value = d->submitted + 1;
  VkResult result = submit_now(d, commands, (uint32_t)count, value);
  if (result == VK_SUCCESS) d->submitted = value;
  unlock_queue(d);
  if (result == VK_ERROR_DEVICE_LOST) return lost(d, "submitting");
  if (result != VK_SUCCESS) return vulkan_failed(result, "submitting");
  *ticket = value;
  return vulkan_complaint(d);
}

/* Until the timeline has the value: spinning first, since most waits are shorter than falling asleep. */
static VkResult wait_timeline(vulkan_device *d, uint64_t value) {
  uint64_t now = 0;
  int64_t begin = clock_ns();
  do {
    VkResult result = d->call.GetSemaphoreCounterValue(d->device, d->timeline, &now);
    if (result != VK_SUCCESS || now >= value) return result;
  } while (clock_ns() - begin < SPIN_NS);
  VkSemaphoreWaitInfo info = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO,
                              .semaphoreCount = 1,
                              .pSemaphores = &d->timeline,
                              .pValues = &value};
  return d->call.WaitSemaphores(d->device, &info, UINT64_MAX);
}

rlx_status vulkan_wait(gpu_device *head, uint64_t ticket) {
  vulkan_device *d = vulkan_device_of(head);
  VkResult result = wait_timeline(d, ticket);
  if (result == VK_ERROR_DEVICE_LOST) return lost(d, "waiting");
  if (result != VK_SUCCESS) return vulkan_failed(result, "waiting");
  if (__atomic_load_n(&head->lost, __ATOMIC_RELAXED)) return vulkan_failed(VK_ERROR_DEVICE_LOST, "waiting");
  return vulkan_complaint(d);
}

/* ---- the application's semaphores --------------------------------------------------------- */

rlx_status vulkan_sync_wait(gpu_device *head, const rlx_sync *objects, int count) {
  vulkan_device *d = vulkan_device_of(head);
  for (int i = 0; i < count; i++) {
    VkSemaphore semaphore = objects[i].object;
    VkSemaphoreWaitInfo info = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO,
                                .semaphoreCount = 1,
                                .pSemaphores = &semaphore,
                                .pValues = &objects[i].value};
    VULKAN_TRY(d->call.WaitSemaphores(d->device, &info, UINT64_MAX), "waiting for the application's semaphore");
  }
  return vulkan_complaint(d);
}

rlx_status vulkan_sync_signal(gpu_device *head, const rlx_sync *objects, int count) {
  vulkan_device *d = vulkan_device_of(head);
  for (int i = 0; i < count; i++) {
    VkSemaphoreSignalInfo info = {
        .sType = VK_STRUCTURE_TYPE_SEMAPHORE_SIGNAL_INFO, .semaphore = objects[i].object, .value = objects[i].value};
    VULKAN_TRY(d->call.SignalSemaphore(d->device, &info), "signalling the application's semaphore");
  }
  return vulkan_complaint(d);
}
