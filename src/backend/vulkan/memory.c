/* memory.c — buffers, each with memory of its own: small operands share one by offsets, see backend/gpu/memory.c. */
#include "backend/vulkan/vulkan.h"

enum {
  LOCAL = VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT,
  VISIBLE = VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT,
  CACHED = VK_MEMORY_PROPERTY_HOST_CACHED_BIT
};

/* The properties wanted of each kind of memory, best first; a zero ends the list. */
static const VkMemoryPropertyFlags unified_rows[] = {LOCAL | VISIBLE | CACHED, LOCAL | VISIBLE, 0};
static const VkMemoryPropertyFlags device_rows[] = {LOCAL, 0};
static const VkMemoryPropertyFlags staging_rows[] = {VISIBLE | CACHED, VISIBLE, 0};
static const VkMemoryPropertyFlags table_rows[] = {LOCAL | VISIBLE, VISIBLE, 0};

static const VkMemoryPropertyFlags *rows_of(const vulkan_device *d, gpu_memory_kind kind) {
  if (kind == GPU_MEMORY_STAGING) return staging_rows;
  if (kind == GPU_MEMORY_TABLE) return table_rows;
  return d->head.unified ? unified_rows : device_rows;
}

static bool find_type(const vulkan_device *d, gpu_memory_kind kind, uint32_t allowed, uint32_t *type) {
  for (const VkMemoryPropertyFlags *want = rows_of(d, kind); *want; want++)
    for (*type = 0; *type < d->memory.memoryTypeCount; ++*type)
      if ((allowed >> *type & 1) && (d->memory.memoryTypes[*type].propertyFlags & *want) == *want) return true;
  return false;
}

static rlx_status allocate(vulkan_device *d, gpu_memory_kind kind, VkBuffer buffer, gpu_buffer *out) {
  VkMemoryRequirements need;
  uint32_t type;
  d->call.GetBufferMemoryRequirements(d->device, buffer, &need);
  if (!find_type(d, kind, need.memoryTypeBits, &type)) return RLX_FAIL(DEVICE, "the device has no memory of this kind");
  VkMemoryAllocateFlagsInfo addressed = {.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_FLAGS_INFO,
                                         .flags = VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT};
  VkMemoryAllocateInfo info = {.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO,
                               .pNext = &addressed,
                               .allocationSize = need.size,
                               .memoryTypeIndex = type};
  VkDeviceMemory memory;
  VULKAN_TRY(d->call.AllocateMemory(d->device, &info, NULL, &memory), "allocating memory");
  out->extra = memory;
  VULKAN_TRY(d->call.BindBufferMemory(d->device, buffer, memory, 0), "binding memory");
  if (kind != GPU_MEMORY_DEVICE || d->head.unified)
    VULKAN_TRY(d->call.MapMemory(d->device, memory, 0, VK_WHOLE_SIZE, 0, &out->host), "mapping memory");
  return RLX_OK;
}

rlx_status vulkan_buffer_create(gpu_device *head, gpu_memory_kind kind, int64_t bytes, gpu_buffer *out) {
  vulkan_device *d = vulkan_device_of(head);
  VkBufferCreateInfo info = {.sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO,
                             .size = (VkDeviceSize)bytes,
                             .usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_TRANSFER_SRC_BIT |
                                      VK_BUFFER_USAGE_TRANSFER_DST_BIT | VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT};
  gpu_buffer made = {.bytes = bytes};
  VkBuffer buffer;
  VULKAN_TRY(d->call.CreateBuffer(d->device, &info, NULL, &buffer), "making a buffer");
  made.native = buffer;
  rlx_status status = allocate(d, kind, buffer, &made);
  if (status != RLX_OK) {
    vulkan_buffer_destroy(head, &made);
    return status;
  }
  VkBufferDeviceAddressInfo where = {.sType = VK_STRUCTURE_TYPE_BUFFER_DEVICE_ADDRESS_INFO, .buffer = buffer};
  made.address = d->call.GetBufferDeviceAddress(d->device, &where);
  *out = made;
  return RLX_OK;
}

void vulkan_buffer_destroy(gpu_device *head, gpu_buffer *b) {
  vulkan_device *d = vulkan_device_of(head);
  if (b->native) d->call.DestroyBuffer(d->device, b->native, NULL);
  if (b->extra) d->call.FreeMemory(d->device, b->extra, NULL);
  *b = (gpu_buffer){0};
}

rlx_status vulkan_buffer_adopt(gpu_device *head, void *native, int64_t bytes, gpu_buffer *out) {
  vulkan_device *d = vulkan_device_of(head);
  VkBufferDeviceAddressInfo where = {.sType = VK_STRUCTURE_TYPE_BUFFER_DEVICE_ADDRESS_INFO, .buffer = native};
  *out = (gpu_buffer){.native = native, .bytes = bytes, .address = d->call.GetBufferDeviceAddress(d->device, &where)};
  return RLX_OK;
}
