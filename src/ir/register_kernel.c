/* register_kernel.c — the public register functions of the kernel kinds. */
#include <rlx/cuda.h>
#include <rlx/metal.h>
#include <rlx/vulkan.h>
#include <string.h>

#include "base/status.h"
#include "ir/record.h"

rlx_status rlx_register_cpu_kernel(rlx_registry *r, const rlx_cpu_kernel *k, uint32_t flags, rlx_handle *handle) {
  if (!k) return RLX_FAIL(INVALID, "register kernel: no record");
  if (!k->run) return RLX_FAIL(INVALID, "register kernel '%s': no run function", k->head.name ? k->head.name : "");
  kernel_source s = {KERNEL_CPU, "cpu", &k->head, k->run, k, k->struct_size, sizeof *k};
  return registry_add_kernel(r, &s, flags, handle);
}

static bool known_backend(const char *b) {
  return b &&
         (strcmp(b, "vulkan") == 0 || strcmp(b, "cuda") == 0 || strcmp(b, "metal") == 0 || strcmp(b, "record") == 0);
}

rlx_status rlx_register_host_kernel(rlx_registry *r, const rlx_host_kernel *k, uint32_t flags, rlx_handle *handle) {
  if (!k) return RLX_FAIL(INVALID, "register kernel: no record");
  if (!k->run) return RLX_FAIL(INVALID, "register kernel '%s': no run function", k->head.name ? k->head.name : "");
  if (!known_backend(k->backend))
    return RLX_FAIL(INVALID, "register host kernel '%s': no backend '%s'", k->head.name ? k->head.name : "",
                    k->backend ? k->backend : "");
  kernel_source s = {KERNEL_HOST, k->backend, &k->head, k->run, k, k->struct_size, sizeof *k};
  return registry_add_kernel(r, &s, flags, handle);
}

rlx_status rlx_register_gpu_kernel(rlx_registry *r, const rlx_gpu_kernel *k, uint32_t flags, rlx_handle *handle) {
  if (!k) return RLX_FAIL(INVALID, "register kernel: no record");
  const char *name = k->head.name ? k->head.name : "";
  if (!k->functions || !k->functions->name)
    return RLX_FAIL(INVALID, "register portable kernel '%s': it needs a function", name);
  if (!k->encode && k->functions[1].name)
    return RLX_FAIL(INVALID, "register portable kernel '%s': several functions need encode", name);
  rlx_status status = registry_registers_builtins(r) ? RLX_OK : gpu_functions_check(k->functions);
  if (status != RLX_OK) return status_prefix(status, "register portable kernel '%s'", name);
  kernel_source s = {KERNEL_PORTABLE, "gpu", &k->head, NULL, k, k->struct_size, sizeof *k};
  return registry_add_kernel(r, &s, flags, handle);
}

/* The raw kinds differ only in their type. */
#define REGISTER_RAW(api)                                                                                \
  rlx_status rlx_register_##api##_kernel(rlx_registry *r, const rlx_##api##_kernel *k, uint32_t flags,  \
                                         rlx_handle *handle) {                                           \
    if (!k) return RLX_FAIL(INVALID, "register kernel: no record");                                      \
    if (!k->encode) return RLX_FAIL(INVALID, "register kernel '%s': no encode function",                 \
                                    k->head.name ? k->head.name : "");                                   \
    kernel_source s = {KERNEL_RAW, #api, &k->head, NULL, k, k->struct_size, sizeof *k};                  \
    return registry_add_kernel(r, &s, flags, handle);                                                    \
  }
REGISTER_RAW(vulkan)
REGISTER_RAW(cuda)
REGISTER_RAW(metal)
