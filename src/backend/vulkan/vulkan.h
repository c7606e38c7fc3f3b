/* vulkan.h — the inside of the Vulkan backend. */
#ifndef BACKEND_VULKAN_VULKAN_H
#define BACKEND_VULKAN_VULKAN_H

#include <pthread.h>

#include <rlx/vulkan.h>

#include "backend/gpu/cache.h"
#include "backend/gpu/gpu.h"
#include "backend/gpu/render.h"
#include "backend/vulkan/fault.h"
#include "backend/vulkan/loader.h"
#include "base/map.h"
#include "base/vector.h"

/* An open device. `lock` guards the queue and the kernels. */
typedef struct vulkan_device {
  gpu_device head;
  vulkan_instance *instance;
  vulkan_instance own_instance; /* of an application's device */
  VkPhysicalDevice physical;
  VkDevice device;
  vulkan_functions call;
  bool borrowed; /* the application's: it is not destroyed here */
  rlx_vulkan_device application;
  uint32_t queue_family;
  VkQueue queue;
  pthread_mutex_t lock;
  VkSemaphore timeline;
  uint64_t submitted; /* under the lock */
  VkPipelineLayout layout;
  VkPhysicalDeviceMemoryProperties memory;
  gpu_target target; /* what kernels may use */
  char driver[160];  /* name and version, for cache keys */
  gpu_cache *cache;
  map kernels; /* by text: vulkan_kernel; under kernel_lock */
  pthread_mutex_t kernel_lock;
} vulkan_device;

static inline vulkan_device *vulkan_device_of(gpu_device *d) { return (vulkan_device *)d; }

struct gpu_list {
  vulkan_device *device;
  VkCommandPool pool;
  VkCommandBuffer commands;
  VkPipeline bound;
};

/* device.c */
int vulkan_count(void);
int vulkan_preferred(void);
void vulkan_describe(int i, char *words, size_t size);
rlx_status vulkan_open(int index, const gpu_open_options *options, gpu_device **out);
void vulkan_close(gpu_device *d);
/* A failure that the validation layers reported since the device was opened, if any. */
rlx_status vulkan_complaint(const vulkan_device *d);

/* memory.c */
rlx_status vulkan_buffer_create(gpu_device *d, gpu_memory_kind kind, int64_t bytes, gpu_buffer *out);
void vulkan_buffer_destroy(gpu_device *d, gpu_buffer *b);
rlx_status vulkan_buffer_adopt(gpu_device *d, void *native, int64_t bytes, gpu_buffer *out);

/* kernels.c */
rlx_status vulkan_kernel_create(gpu_device *d, const gpu_source *source, void **kernel);
void vulkan_kernel_destroy(gpu_device *d, void *kernel);
VkPipeline vulkan_kernel_pipeline(const void *kernel);

/* commands.c */
rlx_status vulkan_list_begin(gpu_device *d, gpu_list **list);
rlx_status vulkan_list_end(gpu_list *l);
void vulkan_list_destroy(gpu_list *l);
rlx_status vulkan_launch(gpu_list *l, const gpu_launch *launch);
void vulkan_copy(gpu_list *l, const gpu_span *from, const gpu_span *to);
void vulkan_barrier(gpu_list *l);
void vulkan_label(gpu_list *l, const char *words);
rlx_status vulkan_submit(gpu_device *d, gpu_list *const *lists, int count, uint64_t *ticket);
rlx_status vulkan_wait(gpu_device *d, uint64_t ticket);
rlx_status vulkan_sync_wait(gpu_device *d, const rlx_sync *objects, int count);
rlx_status vulkan_sync_signal(gpu_device *d, const rlx_sync *objects, int count);

/* raw.c */
rlx_status vulkan_encode(gpu_list *l, const gpu_raw *raw);

#endif
