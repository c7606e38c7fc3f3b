/* loader.h — Vulkan's loader and functions, opened when first wanted; nothing links to them. */
#ifndef BACKEND_VULKAN_LOADER_H
#define BACKEND_VULKAN_LOADER_H

#define VK_NO_PROTOTYPES
#include <vulkan/vulkan_core.h>

#include "base/status.h"

/* X(function), without its vk. */
#define VULKAN_INSTANCE_FUNCTIONS(X) \
  X(EnumeratePhysicalDevices) \
  X(GetPhysicalDeviceProperties2) \
  X(GetPhysicalDeviceFeatures2) \
  X(GetPhysicalDeviceMemoryProperties) \
  X(GetPhysicalDeviceQueueFamilyProperties) \
  X(CreateDevice) \
  X(GetDeviceProcAddr)

#define VULKAN_DEVICE_FUNCTIONS(X) \
  X(DestroyDevice) \
  X(GetDeviceQueue) \
  X(DeviceWaitIdle) \
  X(CreateBuffer) \
  X(DestroyBuffer) \
  X(GetBufferMemoryRequirements) \
  X(GetBufferDeviceAddress) \
  X(AllocateMemory) \
  X(FreeMemory) \
  X(BindBufferMemory) \
  X(MapMemory) \
  X(CreateCommandPool) \
  X(DestroyCommandPool) \
  X(ResetCommandPool) \
  X(AllocateCommandBuffers) \
  X(BeginCommandBuffer) \
  X(EndCommandBuffer) \
  X(CmdPipelineBarrier) \
  X(CmdCopyBuffer) \
  X(CmdBindPipeline) \
  X(CmdPushConstants) \
  X(CmdDispatch) \
  X(CreateSemaphore) \
  X(DestroySemaphore) \
  X(GetSemaphoreCounterValue) \
  X(WaitSemaphores) \
  X(SignalSemaphore) \
  X(QueueSubmit) \
  X(CreateShaderModule) \
  X(DestroyShaderModule) \
  X(CreatePipelineLayout) \
  X(DestroyPipelineLayout) \
  X(CreatePipelineCache) \
  X(DestroyPipelineCache) \
  X(GetPipelineCacheData) \
  X(CreateComputePipelines) \
  X(DestroyPipeline)

#define VULKAN_MEMBER(name) PFN_vk##name name;

/* An instance, with its functions. Made once for the process, plain and with validation, and kept. */
typedef struct vulkan_instance {
  VkInstance handle;
  PFN_vkGetInstanceProcAddr get_proc;
  VULKAN_INSTANCE_FUNCTIONS(VULKAN_MEMBER)
  bool labels;          /* VK_EXT_debug_utils is there */
  int complaints;       /* atomic: errors that the validation layers reported */
  char complaint[1024]; /* the first of them */
} vulkan_instance;

typedef struct vulkan_functions {
  VULKAN_DEVICE_FUNCTIONS(VULKAN_MEMBER)
  PFN_vkCmdInsertDebugUtilsLabelEXT CmdInsertDebugUtilsLabelEXT; /* NULL without labels */
  PFN_vkSetDebugUtilsObjectNameEXT SetDebugUtilsObjectNameEXT;
} vulkan_functions;

/* DEVICE with the reason if there is no loader, no driver, or no validation layer where it is asked for. */
rlx_status vulkan_instance_get(bool validate, vulkan_instance **out);
/* An instance of the application's. */
rlx_status vulkan_instance_adopt(VkInstance handle, PFN_vkGetInstanceProcAddr get_proc, vulkan_instance *out);
rlx_status vulkan_load_device(const vulkan_instance *in, VkDevice device, vulkan_functions *out);

/* The failure that a result says, as a status; `what` was tried. */
rlx_status vulkan_failed(VkResult result, const char *what);
#define VULKAN_TRY(expr, what)                                                                           \
  do {                                                                                                   \
    VkResult result_ = (expr);                                                                           \
    if (result_ != VK_SUCCESS) return vulkan_failed(result_, what);                                      \
  } while (0)

#endif
