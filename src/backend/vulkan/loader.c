/* loader.c — opens libvulkan, makes instances, finds functions. */
#include "backend/vulkan/loader.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/library.h"
#include "base/log.h"
#include "base/memory.h"

static const char *const loader_names[] = {"libvulkan.so.1", "libvulkan.so", "libvulkan.1.dylib", NULL};
static const char layer_name[] = "VK_LAYER_KHRONOS_validation";

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static PFN_vkGetInstanceProcAddr loader; /* under the lock, like what follows */
static vulkan_instance *instances[2];    /* plain, with validation */

static const char *result_name(VkResult r) {
  switch (r) {
    case VK_ERROR_OUT_OF_HOST_MEMORY: return "out of host memory";
    case VK_ERROR_OUT_OF_DEVICE_MEMORY: return "out of device memory";
    case VK_ERROR_INITIALIZATION_FAILED: return "initialisation failed";
    case VK_ERROR_DEVICE_LOST: return "the device was lost";
    case VK_ERROR_LAYER_NOT_PRESENT: return "a layer is not installed";
    case VK_ERROR_EXTENSION_NOT_PRESENT: return "an extension is not there";
    case VK_ERROR_FEATURE_NOT_PRESENT: return "a feature is not there";
    case VK_ERROR_INCOMPATIBLE_DRIVER: return "no driver is installed";
    default: return NULL;
  }
}

rlx_status vulkan_failed(VkResult result, const char *what) {
  bool memory = result == VK_ERROR_OUT_OF_HOST_MEMORY || result == VK_ERROR_OUT_OF_DEVICE_MEMORY;
  const char *name = result_name(result);
  rlx_status code = memory ? RLX_OUT_OF_MEMORY : RLX_DEVICE;
  if (name) return status_fail(code, "Vulkan, %s: %s", what, name);
  return status_fail(code, "Vulkan, %s: VkResult %d", what, (int)result);
}

static rlx_status open_loader(void) {
  void *library = NULL;
  if (loader) return RLX_OK;
  rlx_status status = RLX_OK;
  for (int i = 0; loader_names[i] && !library; i++) status = library_open(loader_names[i], &library);
  if (!library) return RLX_FAIL(DEVICE, "no Vulkan loader (libvulkan.so.1) on this machine");
  (void)status;
  loader = (PFN_vkGetInstanceProcAddr)library_symbol(library, "vkGetInstanceProcAddr");
  return loader ? RLX_OK : RLX_FAIL(DEVICE, "the Vulkan loader lacks vkGetInstanceProcAddr");
}

/* ---- what the layers say ------------------------------------------------------------------ */

static VKAPI_ATTR VkBool32 VKAPI_CALL complain(VkDebugUtilsMessageSeverityFlagBitsEXT severity,
                                               VkDebugUtilsMessageTypeFlagsEXT types,
                                               const VkDebugUtilsMessengerCallbackDataEXT *data, void *user) {
  vulkan_instance *in = user;
  (void)types;
  bool error = severity & VK_DEBUG_UTILS_MESSAGE_SEVERITY_ERROR_BIT_EXT;
  log_line(error ? RLX_LOG_ERROR : RLX_LOG_WARN, "validation: %s", data->pMessage);
  if (error && __atomic_fetch_add(&in->complaints, 1, __ATOMIC_RELAXED) == 0)
    snprintf(in->complaint, sizeof in->complaint, "%s", data->pMessage);
  return VK_FALSE;
}

static const VkDebugUtilsMessengerCreateInfoEXT messenger = {
    .sType = VK_STRUCTURE_TYPE_DEBUG_UTILS_MESSENGER_CREATE_INFO_EXT,
    .messageSeverity = VK_DEBUG_UTILS_MESSAGE_SEVERITY_WARNING_BIT_EXT | VK_DEBUG_UTILS_MESSAGE_SEVERITY_ERROR_BIT_EXT,
    .messageType = VK_DEBUG_UTILS_MESSAGE_TYPE_VALIDATION_BIT_EXT,
    .pfnUserCallback = complain,
};

/* ---- instances ---------------------------------------------------------------------------- */

static bool has_debug_utils(void) {
  PFN_vkEnumerateInstanceExtensionProperties list =
      (PFN_vkEnumerateInstanceExtensionProperties)loader(NULL, "vkEnumerateInstanceExtensionProperties");
  uint32_t count = 0;
  if (!list || list(NULL, &count, NULL) != VK_SUCCESS) return false;
  VkExtensionProperties *all = mem_array(count, sizeof *all);
  bool found = false;
  if (all && list(NULL, &count, all) == VK_SUCCESS)
    for (uint32_t i = 0; i < count; i++) found |= strcmp(all[i].extensionName, VK_EXT_DEBUG_UTILS_EXTENSION_NAME) == 0;
  mem_free(all);
  return found;
}

rlx_status vulkan_instance_adopt(VkInstance handle, PFN_vkGetInstanceProcAddr get_proc, vulkan_instance *out) {
  out->handle = handle;
  out->get_proc = get_proc;
#define FIND(name)                                                        \
  out->name = (PFN_vk##name)get_proc(handle, "vk" #name);                 \
  if (!out->name) return RLX_FAIL(DEVICE, "the Vulkan loader lacks vk" #name);
  VULKAN_INSTANCE_FUNCTIONS(FIND)
#undef FIND
  return RLX_OK;
}

static rlx_status make_instance(bool validate, vulkan_instance *in) {
  PFN_vkEnumerateInstanceVersion version_of =
      (PFN_vkEnumerateInstanceVersion)loader(NULL, "vkEnumerateInstanceVersion");
  PFN_vkCreateInstance create = (PFN_vkCreateInstance)loader(NULL, "vkCreateInstance");
  uint32_t version = VK_API_VERSION_1_0;
  if (version_of) (void)version_of(&version);
  if (!create || version < VK_API_VERSION_1_2)
    return RLX_FAIL(DEVICE, "the Vulkan loader is of version 1.%u; 1.2 is needed", VK_API_VERSION_MINOR(version));
  static const char *const extensions[] = {VK_EXT_DEBUG_UTILS_EXTENSION_NAME};
  static const char *const layers[] = {layer_name};
  in->labels = has_debug_utils();
  VkDebugUtilsMessengerCreateInfoEXT listen = messenger;
  listen.pUserData = in;
  VkApplicationInfo app = {.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO,
                           .pApplicationName = "rlx",
                           .pEngineName = "rlx",
                           .apiVersion = VK_API_VERSION_1_2};
  VkInstanceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO,
                               .pNext = validate && in->labels ? &listen : NULL,
                               .pApplicationInfo = &app,
                               .enabledLayerCount = validate,
                               .ppEnabledLayerNames = layers,
                               .enabledExtensionCount = in->labels,
                               .ppEnabledExtensionNames = extensions};
  VkInstance handle;
  VULKAN_TRY(create(&info, NULL, &handle), "making an instance");
  RLX_TRY(vulkan_instance_adopt(handle, loader, in));
  PFN_vkCreateDebugUtilsMessengerEXT create_messenger =
      (PFN_vkCreateDebugUtilsMessengerEXT)loader(handle, "vkCreateDebugUtilsMessengerEXT");
  VkDebugUtilsMessengerEXT made;
  if (validate && create_messenger) (void)create_messenger(handle, &listen, NULL, &made);
  return RLX_OK;
}

rlx_status vulkan_instance_get(bool validate, vulkan_instance **out) {
  pthread_mutex_lock(&lock);
  rlx_status status = open_loader();
  if (status == RLX_OK && !instances[validate]) {
    vulkan_instance *in = mem_zalloc(sizeof *in);
    status = in ? make_instance(validate, in) : status_no_memory(sizeof *in);
    if (status == RLX_OK)
      instances[validate] = in;
    else
      mem_free(in);
  }
  if (status == RLX_OK) *out = instances[validate];
  pthread_mutex_unlock(&lock);
  return status;
}

rlx_status vulkan_load_device(const vulkan_instance *in, VkDevice device, vulkan_functions *out) {
#define FIND(name)                                                           \
  out->name = (PFN_vk##name)in->GetDeviceProcAddr(device, "vk" #name);       \
  if (!out->name) return RLX_FAIL(DEVICE, "the Vulkan driver lacks vk" #name);
  VULKAN_DEVICE_FUNCTIONS(FIND)
#undef FIND
  if (!in->labels) return RLX_OK;
  out->CmdInsertDebugUtilsLabelEXT =
      (PFN_vkCmdInsertDebugUtilsLabelEXT)in->GetDeviceProcAddr(device, "vkCmdInsertDebugUtilsLabelEXT");
  out->SetDebugUtilsObjectNameEXT =
      (PFN_vkSetDebugUtilsObjectNameEXT)in->GetDeviceProcAddr(device, "vkSetDebugUtilsObjectNameEXT");
  return RLX_OK;
}
