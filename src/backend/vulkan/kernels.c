/* kernels.c — portable kernels as pipelines: rendered, compiled, cached, and shared where their texts are the same. */
#include "backend/vulkan/vulkan.h"

#include <string.h>

#include "base/memory.h"
#include "base/text.h"

/* A pipeline; shared by all kernels of one text. */
typedef struct vulkan_kernel {
  int refs; /* under the device's kernel_lock */
  VkPipeline pipeline;
  uint64_t hash[2];
} vulkan_kernel;

VkPipeline vulkan_kernel_pipeline(const void *kernel) { return ((const vulkan_kernel *)kernel)->pipeline; }

typedef struct making {
  vulkan_device *device;
  const char *name, *source;
  const void *words;
  size_t bytes;
  VkPipeline pipeline;
} making;

static rlx_status compile_words(void *arg, void **data, size_t *bytes) {
  making *m = arg;
  uint32_t *words = NULL;
  RLX_TRY(gpu_glsl_compile(m->name, m->source, &words, bytes));
  *data = words;
  return RLX_OK;
}

static rlx_status make_pipeline(making *m, VkPipelineCache cache) {
  vulkan_device *d = m->device;
  VkShaderModuleCreateInfo code = {
      .sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO, .codeSize = m->bytes, .pCode = m->words};
  VkShaderModule module;
  VULKAN_TRY(d->call.CreateShaderModule(d->device, &code, NULL, &module), "making a shader module");
  VkComputePipelineCreateInfo info = {.sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO,
                                      .stage = {.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO,
                                                .stage = VK_SHADER_STAGE_COMPUTE_BIT,
                                                .module = module,
                                                .pName = "main"},
                                      .layout = d->layout};
  VkResult result = d->call.CreateComputePipelines(d->device, cache, 1, &info, NULL, &m->pipeline);
  d->call.DestroyShaderModule(d->device, module, NULL);
  VULKAN_TRY(result, "making a pipeline");
  VkDebugUtilsObjectNameInfoEXT name = {.sType = VK_STRUCTURE_TYPE_DEBUG_UTILS_OBJECT_NAME_INFO_EXT,
                                        .objectType = VK_OBJECT_TYPE_PIPELINE,
                                        .objectHandle = (uint64_t)(uintptr_t)m->pipeline,
                                        .pObjectName = m->name};
  if (d->call.SetDebugUtilsObjectNameEXT) (void)d->call.SetDebugUtilsObjectNameEXT(d->device, &name);
  return vulkan_complaint(d);
}

static rlx_status with_cache(making *m, const void *data, size_t bytes, VkPipelineCache *cache) {
  VkPipelineCacheCreateInfo info = {
      .sType = VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO, .initialDataSize = bytes, .pInitialData = data};
  vulkan_device *d = m->device;
  VULKAN_TRY(d->call.CreatePipelineCache(d->device, &info, NULL, cache), "making a pipeline cache");
  return make_pipeline(m, *cache);
}

/* What the driver made of the words, as it wants to be given it the next time. */
static rlx_status compile_pipeline(void *arg, void **data, size_t *bytes) {
  making *m = arg;
  vulkan_device *d = m->device;
  VkPipelineCache cache = VK_NULL_HANDLE;
  rlx_status status = with_cache(m, NULL, 0, &cache);
  size_t size = 0;
  void *made = NULL;
  if (status == RLX_OK && d->call.GetPipelineCacheData(d->device, cache, &size, NULL) == VK_SUCCESS)
    made = mem_alloc(size ? size : 1);
  if (made && d->call.GetPipelineCacheData(d->device, cache, &size, made) != VK_SUCCESS) size = 0;
  if (cache) d->call.DestroyPipelineCache(d->device, cache, NULL);
  if (status == RLX_OK && !made) status = status_no_memory(size);
  if (status != RLX_OK) return status;
  *data = made;
  *bytes = size;
  return RLX_OK;
}

/* The pipeline: with the driver's own data from the cache, if that has it. */
static rlx_status find_pipeline(making *m) {
  vulkan_device *d = m->device;
  gpu_blob *words = NULL, *driver = NULL;
  gpu_cache_key key = {.kind = "spirv", .source = m->source, .compiler = gpu_glsl_identity()};
  RLX_TRY(gpu_cache_get(d->cache, &key, compile_words, m, &words));
  m->words = gpu_blob_data(words);
  m->bytes = gpu_blob_bytes(words);
  key.kind = "pipeline";
  key.driver = d->driver;
  key.device = d->head.name;
  rlx_status status = gpu_cache_get(d->cache, &key, compile_pipeline, m, &driver);
  if (status == RLX_OK && !m->pipeline) { /* it was in the cache */
    VkPipelineCache cache = VK_NULL_HANDLE;
    status = with_cache(m, gpu_blob_data(driver), gpu_blob_bytes(driver), &cache);
    if (cache) d->call.DestroyPipelineCache(d->device, cache, NULL);
  }
  if (driver) gpu_blob_release(driver);
  gpu_blob_release(words);
  return status;
}

static rlx_status make_kernel(vulkan_device *d, const gpu_source *source, const text *glsl, const uint64_t hash[2],
                              vulkan_kernel **out) {
  making m = {.device = d, .name = source->function->name, .source = glsl->data};
  vulkan_kernel *k = mem_zalloc(sizeof *k);
  if (!k) return status_no_memory(sizeof *k);
  rlx_status status = find_pipeline(&m);
  k->refs = 1;
  k->pipeline = m.pipeline;
  k->hash[0] = hash[0];
  k->hash[1] = hash[1];
  if (status == RLX_OK && !map_put_bytes(&d->kernels, k->hash, sizeof k->hash, k)) status = status_no_memory(sizeof *k);
  if (status == RLX_OK) {
    *out = k;
    return RLX_OK;
  }
  if (m.pipeline) d->call.DestroyPipeline(d->device, m.pipeline, NULL);
  mem_free(k);
  return status;
}

rlx_status vulkan_kernel_create(gpu_device *head, const gpu_source *source, void **kernel) {
  vulkan_device *d = vulkan_device_of(head);
  text glsl = {0};
  rlx_status status = gpu_render(source->function, source->node, &d->target, &glsl);
  if (status == RLX_OK && glsl.failed) status = status_no_memory(glsl.size);
  if (status == RLX_OK) {
    uint64_t hash[2] = {hash_bytes(glsl.data, glsl.size, 1), hash_bytes(glsl.data, glsl.size, 2)};
    pthread_mutex_lock(&d->kernel_lock);
    vulkan_kernel *k = map_get_bytes(&d->kernels, hash, sizeof hash);
    if (k)
      k->refs++;
    else
      status = make_kernel(d, source, &glsl, hash, &k);
    pthread_mutex_unlock(&d->kernel_lock);
    if (status == RLX_OK) *kernel = k;
  }
  text_finish(&glsl);
  return status;
}

void vulkan_kernel_destroy(gpu_device *head, void *kernel) {
  vulkan_device *d = vulkan_device_of(head);
  vulkan_kernel *k = kernel;
  pthread_mutex_lock(&d->kernel_lock);
  bool last = --k->refs == 0;
  if (last) map_remove_bytes(&d->kernels, k->hash, sizeof k->hash);
  pthread_mutex_unlock(&d->kernel_lock);
  if (!last) return;
  d->call.DestroyPipeline(d->device, k->pipeline, NULL);
  mem_free(k);
}
