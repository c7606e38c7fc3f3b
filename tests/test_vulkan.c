/* test_vulkan.c — an application's own Vulkan device, queue, buffers and semaphores. */
#include <rlx/vulkan.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#if __has_include(<vulkan/vulkan_core.h>)
#include "backend/vulkan/loader.h"
#include "ir/parse.h"
#include "support/gpu_ops.h"

#define OK(expr)                                                          \
  do {                                                                    \
    if ((expr) != RLX_OK) fail_msg("%s: %s", #expr, rlx_error_message()); \
  } while (0)
#define VK(expr) assert_int_equal(expr, VK_SUCCESS)

#define HEAD "<ir_version: 8, opset_import: [\"\" : 17, \"test\" : 1]>\n"

/* What an application has. */
typedef struct app {
  vulkan_instance *instance;
  VkPhysicalDevice physical;
  VkDevice device;
  VkQueue queue;
  vulkan_functions call;
  uint32_t memory_type;
  int locked, locks; /* depth now, and in all */
} app;

static void lock(void *user) {
  app *a = user;
  assert_int_equal(a->locked++, 0);
  a->locks++;
}

static void unlock(void *user) { ((app *)user)->locked--; }

static bool open_app(app *a) {
  uint32_t count = 1;
  if (vulkan_instance_get(false, &a->instance) != RLX_OK) return false;
  VkResult listed = a->instance->EnumeratePhysicalDevices(a->instance->handle, &count, &a->physical);
  if ((listed != VK_SUCCESS && listed != VK_INCOMPLETE) || !count) return false;
  VkPhysicalDeviceVulkan12Features v12 = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES,
                                          .bufferDeviceAddress = VK_TRUE,
                                          .timelineSemaphore = VK_TRUE,
                                          .scalarBlockLayout = VK_TRUE};
  VkPhysicalDeviceFeatures2 features = {
      .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2, .pNext = &v12, .features = {.shaderInt64 = VK_TRUE}};
  float priority = 1;
  VkDeviceQueueCreateInfo queue = {
      .sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO, .queueCount = 1, .pQueuePriorities = &priority};
  VkDeviceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO,
                             .pNext = &features,
                             .queueCreateInfoCount = 1,
                             .pQueueCreateInfos = &queue};
  VK(a->instance->CreateDevice(a->physical, &info, NULL, &a->device));
  OK(vulkan_load_device(a->instance, a->device, &a->call));
  a->call.GetDeviceQueue(a->device, 0, 0, &a->queue);
  VkPhysicalDeviceMemoryProperties memory;
  a->instance->GetPhysicalDeviceMemoryProperties(a->physical, &memory);
  VkMemoryPropertyFlags want = VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
  while ((memory.memoryTypes[a->memory_type].propertyFlags & want) != want) a->memory_type++;
  return true;
}

typedef struct app_buffer {
  VkBuffer buffer;
  VkDeviceMemory memory;
  float *data;
} app_buffer;

static app_buffer make_buffer(app *a) {
  app_buffer b;
  void *data;
  VkBufferCreateInfo info = {.sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO,
                             .size = 4096,
                             .usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_TRANSFER_SRC_BIT |
                                      VK_BUFFER_USAGE_TRANSFER_DST_BIT | VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT};
  VK(a->call.CreateBuffer(a->device, &info, NULL, &b.buffer));
  VkMemoryAllocateFlagsInfo flags = {.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_FLAGS_INFO,
                                     .flags = VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT};
  VkMemoryAllocateInfo allocation = {.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO,
                                     .pNext = &flags,
                                     .allocationSize = 8192,
                                     .memoryTypeIndex = a->memory_type};
  VK(a->call.AllocateMemory(a->device, &allocation, NULL, &b.memory));
  VK(a->call.BindBufferMemory(a->device, b.buffer, b.memory, 0));
  VK(a->call.MapMemory(a->device, b.memory, 0, VK_WHOLE_SIZE, 0, &data));
  b.data = data;
  return b;
}

static void free_buffer(app *a, app_buffer *b) {
  a->call.DestroyBuffer(a->device, b->buffer, NULL);
  a->call.FreeMemory(a->device, b->memory, NULL);
}

static VkSemaphore make_timeline(app *a) {
  VkSemaphoreTypeCreateInfo type = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO,
                                    .semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE};
  VkSemaphoreCreateInfo info = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO, .pNext = &type};
  VkSemaphore made;
  VK(a->call.CreateSemaphore(a->device, &info, NULL, &made));
  return made;
}

static rlx_session *session_of(const char *source, int index) {
  rlx_graph *g = NULL;
  rlx_session *s = NULL;
  rlx_session_options o = RLX_SESSION_OPTIONS_INIT;
  char device[32];
  snprintf(device, sizeof device, "vulkan:%d", index);
  o.device = device;
  OK(graph_parse(source, strlen(source), "test", NULL, NULL, &g));
  OK(rlx_session_create(g, &o, &s));
  rlx_graph_destroy(g);
  return s;
}

/* Binds stretches of the application's buffers, one with a step of the host that reads it too, and submits between its
 * semaphores. */
static void joins_an_application(void **state) {
  (void)state;
  app a = {0};
  if (!open_app(&a)) skip();
  rlx_vulkan_device mine = {.struct_size = sizeof mine,
                            .instance = a.instance->handle,
                            .physical_device = a.physical,
                            .device = a.device,
                            .queue = a.queue,
                            .lock_queue = lock,
                            .unlock_queue = unlock,
                            .user = &a};
  memcpy(&mine.get_instance_proc, &a.instance->get_proc, sizeof mine.get_instance_proc);
  int index = -1, again = -1;
  OK(rlx_vulkan_add_device(&mine, &index));
  OK(rlx_vulkan_add_device(&mine, &again));
  assert_int_equal(index, again);
  rlx_session *s = session_of(HEAD "g (float[8] x) => (float[8] y) { a = test.turn(x)\n h = test.host(x)\n"
                                   " y = test.mix(a, h) }",
                              index);
  app_buffer in = make_buffer(&a), out = make_buffer(&a);
  for (int i = 0; i < 8; i++) in.data[16 + i] = (float)i;
  rlx_tensor *x = NULL, *y = NULL;
  int64_t n = 8;
  OK(rlx_tensor_native(s, in.buffer, 64, 32, RLX_FLOAT, 1, &n, &x));
  OK(rlx_tensor_native(s, out.buffer, 128, 32, RLX_FLOAT, 1, &n, &y));
  assert_int_equal(rlx_tensor_native(s, out.buffer, 4, 32, RLX_FLOAT, 1, &n, &y), RLX_INVALID);
  rlx_binding *b = NULL;
  OK(rlx_binding_create(s, &b));
  OK(rlx_binding_input(b, "x", x, 0));
  OK(rlx_binding_output(b, "y", y));
  VkSemaphore before = make_timeline(&a), after = make_timeline(&a);
  rlx_sync wait = {before, 3}, signal = {after, 9};
  OK(rlx_submit(b, NULL, &wait, 1, &signal, 1));
  VkSemaphoreSignalInfo go = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_SIGNAL_INFO, .semaphore = before, .value = 3};
  uint64_t value = 0;
  VK(a.call.GetSemaphoreCounterValue(a.device, after, &value));
  assert_int_equal(value, 0);
  VK(a.call.SignalSemaphore(a.device, &go));
  OK(rlx_wait(b));
  VK(a.call.GetSemaphoreCounterValue(a.device, after, &value));
  assert_int_equal(value, 9);
  static const float expected[] = {9, 11, 13, 15, 1, 2, 3, 4};
  assert_memory_equal(out.data + 32, expected, sizeof expected);
  assert_true(a.locks > 0 && a.locked == 0);
  rlx_binding_destroy(b);
  rlx_tensor_destroy(x);
  rlx_tensor_destroy(y);
  rlx_session_destroy(s);
  a.call.DestroySemaphore(a.device, before, NULL);
  a.call.DestroySemaphore(a.device, after, NULL);
  free_buffer(&a, &in);
  free_buffer(&a, &out);
  a.call.DestroyDevice(a.device, NULL);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(joins_an_application)};
  return cmocka_run_group_tests(tests, gpu_ops_register, NULL);
}

#else
int main(void) { return 77; }
#endif
