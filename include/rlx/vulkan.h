/* vulkan.h — raw Vulkan kernels: recorded into the live command buffer of a session's run. Handles are
 * opaque words here, so that this header needs no Vulkan SDK. */
#ifndef RLX_VULKAN_H
#define RLX_VULKAN_H

#include <rlx/extend.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct rlx_vulkan_operand {
  uint64_t buffer; /* VkBuffer */
  uint64_t offset; /* bytes */
  uint64_t bytes;
  uint64_t address; /* device address of the first element */
  rlx_dtype dtype;
  int32_t rank;
  const int64_t *dims;
} rlx_vulkan_operand;

/* What encode gets. It may record commands; it may not end or submit the command buffer, or wait. */
typedef struct rlx_vulkan_dispatch {
  uint32_t struct_size;
  int32_t input_count;
  int32_t output_count;
  const rlx_vulkan_operand *inputs;
  const rlx_vulkan_operand *outputs;
  rlx_vulkan_operand workspace;
  const void *params;
  const void *state;
  const rlx_node *node;
  void *command_buffer;                                     /* VkCommandBuffer, recording */
  void *queue;                                              /* VkQueue */
  void *device;                                             /* VkDevice */
  void *physical_device;                                    /* VkPhysicalDevice */
  void *instance;                                           /* VkInstance */
  void *(*get_device_proc)(void *device, const char *name); /* vkGetDeviceProcAddr */
  void *executor;                                           /* private */
} rlx_vulkan_dispatch;

typedef struct rlx_vulkan_kernel {
  uint32_t struct_size;
  rlx_kernel head;
  rlx_status (*encode)(rlx_vulkan_dispatch *d);
} rlx_vulkan_kernel;

/* ---- an application's own device ---------------------------------------------------------- */

/* A VkDevice that an application has made, with Vulkan 1.2 and the features bufferDeviceAddress, timelineSemaphore,
 * scalarBlockLayout and shaderInt64 enabled. It must outlive every session and tensor on it. */
typedef struct rlx_vulkan_device {
  uint32_t struct_size;
  uint32_t queue_family; /* has compute */
  void *instance;        /* VkInstance */
  void *physical_device;
  void *device;
  void *queue;
  void *get_instance_proc; /* vkGetInstanceProcAddr */
  /* Called around each use of the queue, from any thread; NULL if nobody else uses it. */
  void (*lock_queue)(void *user);
  void (*unlock_queue)(void *user);
  void *user;
} rlx_vulkan_device;

/* Makes it one of rlx's devices and returns its index: "vulkan:index" names it in session options. The same VkDevice
 * keeps its index. */
RLX_API RLX_MUST_USE rlx_status rlx_vulkan_add_device(const rlx_vulkan_device *device, int *index);
/* What rlx_tensor_native takes is a VkBuffer with the usages storage, transfer source and destination, and shader
 * device address. What rlx_submit waits for and signals are timeline VkSemaphores. */

RLX_API RLX_MUST_USE rlx_status rlx_register_vulkan_kernel(rlx_registry *registry, const rlx_vulkan_kernel *k,
                                                           uint32_t flags, rlx_handle *handle);
#ifdef __cplusplus
}
#endif
#endif
