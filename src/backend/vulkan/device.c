/* device.c — physical devices, what they must have, and opening one. */
#include <stdio.h>
#include <string.h>

#include "backend/vulkan/vulkan.h"
#include "base/memory.h"
#include "base/options.h"
#include "base/vector.h"

enum { MAX_DEVICES = 16 };

/* Devices that applications have added; they come after the driver's. */
static pthread_mutex_t added_lock = PTHREAD_MUTEX_INITIALIZER;
static rlx_vulkan_device added[MAX_DEVICES];
static int added_count;

/* ---- listing ------------------------------------------------------------------------------ */

static rlx_status list_physical(const vulkan_instance *in, VkPhysicalDevice list[MAX_DEVICES], uint32_t *count) {
  *count = MAX_DEVICES;
  VkResult result = in->EnumeratePhysicalDevices(in->handle, count, list);
  if (result != VK_SUCCESS && result != VK_INCOMPLETE) return vulkan_failed(result, "listing devices");
  return *count ? RLX_OK : RLX_FAIL(DEVICE, "no driver offers a Vulkan device");
}

static int own_count(void) {
  vulkan_instance *in;
  VkPhysicalDevice list[MAX_DEVICES];
  uint32_t count = 0;
  if (vulkan_instance_get(false, &in) != RLX_OK || list_physical(in, list, &count) != RLX_OK) return 0;
  return (int)count;
}

int vulkan_count(void) { return own_count() + __atomic_load_n(&added_count, __ATOMIC_ACQUIRE); }

/* A software device is no faster than the CPU itself. */
int vulkan_preferred(void) {
  vulkan_instance *in;
  VkPhysicalDevice list[MAX_DEVICES];
  uint32_t count = 0;
  if (vulkan_instance_get(false, &in) != RLX_OK || list_physical(in, list, &count) != RLX_OK) return -1;
  for (uint32_t i = 0; i < count; i++) {
    VkPhysicalDeviceProperties2 p = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2};
    in->GetPhysicalDeviceProperties2(list[i], &p);
    if (p.properties.deviceType != VK_PHYSICAL_DEVICE_TYPE_CPU) return (int)i;
  }
  return -1;
}

void vulkan_describe(int i, char *words, size_t size) {
  vulkan_instance *in;
  VkPhysicalDevice list[MAX_DEVICES];
  uint32_t count;
  if (vulkan_instance_get(false, &in) != RLX_OK || list_physical(in, list, &count) != RLX_OK) {
    snprintf(words, size, "%s", rlx_error_message());
    return;
  }
  if (i >= (int)count) {
    snprintf(words, size, "a device of the application");
    return;
  }
  VkPhysicalDeviceDriverProperties driver = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_DRIVER_PROPERTIES};
  VkPhysicalDeviceProperties2 p = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2, .pNext = &driver};
  in->GetPhysicalDeviceProperties2(list[i < 0 ? 0 : i], &p);
  snprintf(words, size, "%s, %s %.60s, Vulkan %u.%u", p.properties.deviceName, driver.driverName, driver.driverInfo,
           VK_API_VERSION_MAJOR(p.properties.apiVersion), VK_API_VERSION_MINOR(p.properties.apiVersion));
}

rlx_status rlx_vulkan_add_device(const rlx_vulkan_device *d, int *index) {
  if (!d || d->struct_size < sizeof *d || !index) return RLX_FAIL(INVALID, "vulkan device: struct_size is not set");
  if (!d->instance || !d->physical_device || !d->device || !d->queue || !d->get_instance_proc)
    return RLX_FAIL(INVALID, "vulkan device: a handle is missing");
  int first = own_count(), i = 0;
  pthread_mutex_lock(&added_lock);
  while (i < added_count && added[i].device != d->device) i++;
  bool room = i < MAX_DEVICES;
  if (room) added[i] = *d;
  if (room && i == added_count) __atomic_store_n(&added_count, added_count + 1, __ATOMIC_RELEASE);
  pthread_mutex_unlock(&added_lock);
  if (!room) return RLX_FAIL(UNSUPPORTED, "vulkan device: more than %d of the application's", MAX_DEVICES);
  *index = first + i;
  return RLX_OK;
}

/* ---- what a device must have, and may have ------------------------------------------------ */

typedef struct feature_set {
  VkPhysicalDeviceFeatures2 core;
  VkPhysicalDeviceVulkan11Features v11;
  VkPhysicalDeviceVulkan12Features v12;
} feature_set;

static void chain(feature_set *f) {
  *f = (feature_set){.core = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2},
                     .v11 = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES},
                     .v12 = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES}};
  f->core.pNext = &f->v11;
  f->v11.pNext = &f->v12;
}

/* Keeps of `has` what kernels may use; the first missing necessity is the failure. */
static rlx_status choose_features(const feature_set *has, feature_set *use) {
  chain(use);
#define NEED(part, feature)                                                     \
  if (!has->part.feature) return RLX_FAIL(DEVICE, "it lacks the feature " #feature); \
  use->part.feature = VK_TRUE;
#define LIKE(part, feature) use->part.feature = has->part.feature;
  NEED(v12, bufferDeviceAddress)
  NEED(v12, timelineSemaphore)
  NEED(v12, scalarBlockLayout)
  NEED(core.features, shaderInt64)
  LIKE(core.features, shaderFloat64)
  LIKE(core.features, shaderInt16)
  LIKE(v11, storageBuffer16BitAccess)
  LIKE(v12, storageBuffer8BitAccess)
  LIKE(v12, shaderFloat16)
  LIKE(v12, shaderInt8)
  LIKE(v12, vulkanMemoryModel)
  LIKE(v12, vulkanMemoryModelDeviceScope)
#undef NEED
#undef LIKE
  return RLX_OK;
}

static rlx_status find_queue(vulkan_device *d) {
  VkQueueFamilyProperties families[16];
  uint32_t count = 16;
  d->instance->GetPhysicalDeviceQueueFamilyProperties(d->physical, &count, families);
  for (uint32_t i = 0; i < count; i++) {
    if (!(families[i].queueFlags & VK_QUEUE_COMPUTE_BIT)) continue;
    d->queue_family = i;
    return RLX_OK;
  }
  return RLX_FAIL(DEVICE, "it has no queue that computes");
}

/* Does the host work in the device's memory as fast as in its own? An integrated or software device's. */
static bool is_unified(const vulkan_device *d, VkPhysicalDeviceType type) {
  if (type != VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU && type != VK_PHYSICAL_DEVICE_TYPE_CPU) return false;
  VkMemoryPropertyFlags want =
      VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT | VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
  for (uint32_t i = 0; i < d->memory.memoryTypeCount; i++)
    if ((d->memory.memoryTypes[i].propertyFlags & want) == want) return true;
  return false;
}

static rlx_status read_properties(vulkan_device *d, const gpu_open_options *options) {
  VkPhysicalDeviceDriverProperties driver = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_DRIVER_PROPERTIES};
  VkPhysicalDeviceFloatControlsProperties floats = {
      .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FLOAT_CONTROLS_PROPERTIES, .pNext = &driver};
  VkPhysicalDeviceSubgroupProperties subgroup = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_PROPERTIES,
                                                 .pNext = &floats};
  VkPhysicalDeviceProperties2 p = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2, .pNext = &subgroup};
  d->instance->GetPhysicalDeviceProperties2(d->physical, &p);
  if (p.properties.apiVersion < VK_API_VERSION_1_2)
    return RLX_FAIL(DEVICE, "it has Vulkan 1.%u, and 1.2 is needed", VK_API_VERSION_MINOR(p.properties.apiVersion));
  d->instance->GetPhysicalDeviceMemoryProperties(d->physical, &d->memory);
  snprintf(d->head.name, sizeof d->head.name, "%.100s", p.properties.deviceName);
  snprintf(d->driver, sizeof d->driver, "%.60s %.60s %u", driver.driverName, driver.driverInfo,
           p.properties.driverVersion);
  d->head.unified = is_unified(d, p.properties.deviceType) && !options->discrete;
  d->target =
      (gpu_target){.dialect = GPU_GLSL, .float_controls = floats.shaderSignedZeroInfNanPreserveFloat32 == VK_TRUE};
  return RLX_OK;
}

/* ---- opening ------------------------------------------------------------------------------ */

static rlx_status make_device(vulkan_device *d) {
  feature_set has, use;
  chain(&has);
  d->instance->GetPhysicalDeviceFeatures2(d->physical, &has.core);
  RLX_TRY(choose_features(&has, &use));
  RLX_TRY(find_queue(d));
  float priority = 1;
  VkDeviceQueueCreateInfo queue = {.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO,
                                   .queueFamilyIndex = d->queue_family,
                                   .queueCount = 1,
                                   .pQueuePriorities = &priority};
  VkDeviceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO,
                             .pNext = &use.core,
                             .queueCreateInfoCount = 1,
                             .pQueueCreateInfos = &queue};
  VULKAN_TRY(d->instance->CreateDevice(d->physical, &info, NULL, &d->device), "opening the device");
  RLX_TRY(vulkan_load_device(d->instance, d->device, &d->call));
  d->call.GetDeviceQueue(d->device, d->queue_family, 0, &d->queue);
  return RLX_OK;
}

static rlx_status adopt_device(vulkan_device *d, int i) {
  pthread_mutex_lock(&added_lock);
  d->application = added[i];
  pthread_mutex_unlock(&added_lock);
  d->borrowed = true;
  d->instance = &d->own_instance;
  d->physical = d->application.physical_device;
  d->queue_family = d->application.queue_family;
  PFN_vkGetInstanceProcAddr get_proc;
  memcpy(&get_proc, &d->application.get_instance_proc, sizeof get_proc);
  RLX_TRY(vulkan_instance_adopt(d->application.instance, get_proc, d->instance));
  d->device = d->application.device;
  d->queue = d->application.queue;
  return vulkan_load_device(d->instance, d->device, &d->call);
}

static rlx_status make_objects(vulkan_device *d) {
  VkSemaphoreTypeCreateInfo type = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO,
                                    .semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE};
  VkSemaphoreCreateInfo semaphore = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO, .pNext = &type};
  VULKAN_TRY(d->call.CreateSemaphore(d->device, &semaphore, NULL, &d->timeline), "making a timeline semaphore");
  VkPushConstantRange block = {VK_SHADER_STAGE_COMPUTE_BIT, 0, sizeof(uint64_t)};
  VkPipelineLayoutCreateInfo layout = {.sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO,
                                       .pushConstantRangeCount = 1,
                                       .pPushConstantRanges = &block};
  VULKAN_TRY(d->call.CreatePipelineLayout(d->device, &layout, NULL, &d->layout), "making a pipeline layout");
  return gpu_cache_open(&d->cache);
}

static rlx_status open_physical(vulkan_device *d, int index, const gpu_open_options *options) {
  VkPhysicalDevice list[MAX_DEVICES];
  uint32_t count = 0;
  bool validate = options->debug & DEBUG_VALIDATE;
  RLX_TRY(vulkan_instance_get(validate, &d->instance));
  RLX_TRY(list_physical(d->instance, list, &count));
  if (index >= (int)count)
    RLX_TRY(adopt_device(d, index - (int)count));
  else
    d->physical = list[index];
  RLX_TRY(read_properties(d, options));
  if (!d->borrowed) RLX_TRY(make_device(d));
  return make_objects(d);
}

rlx_status vulkan_complaint(const vulkan_device *d) {
  if (!__atomic_load_n(&d->instance->complaints, __ATOMIC_RELAXED)) return RLX_OK;
  return RLX_FAIL(DEVICE, "the validation layers object: %s", d->instance->complaint);
}

void vulkan_close(gpu_device *head) {
  vulkan_device *d = vulkan_device_of(head);
  if (d->device && d->call.DestroyPipeline) {
    if (d->timeline) (void)vulkan_wait(head, d->submitted);
    if (d->layout) d->call.DestroyPipelineLayout(d->device, d->layout, NULL);
    if (d->timeline) d->call.DestroySemaphore(d->device, d->timeline, NULL);
    if (!d->borrowed) d->call.DestroyDevice(d->device, NULL);
  }
  if (d->cache) gpu_cache_close(d->cache);
  map_finish(&d->kernels);
  pthread_mutex_destroy(&d->lock);
  pthread_mutex_destroy(&d->kernel_lock);
  mem_free(d);
}

rlx_status vulkan_open(int index, const gpu_open_options *options, gpu_device **out) {
  vulkan_device *d = mem_zalloc(sizeof *d);
  if (!d) return status_no_memory(sizeof *d);
  pthread_mutex_init(&d->lock, NULL);
  pthread_mutex_init(&d->kernel_lock, NULL);
  rlx_status status = open_physical(d, index, options);
  if (status != RLX_OK) {
    char kept[STATUS_TEXT_BYTES];
    status_save(kept);
    vulkan_close(&d->head);
    status_restore(kept);
    return status_prefix(status, "device vulkan:%d", index);
  }
  *out = &d->head;
  return RLX_OK;
}
