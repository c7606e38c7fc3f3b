/* vulkan.c — the backend: its table of functions. */
#include "backend/vulkan/vulkan.h"

#include "backend/backend.h"

static const gpu_api api;

static rlx_status open_device(int index, const gpu_open_options *options, gpu_device **out) {
  RLX_TRY(vulkan_open(index, options, out));
  (*out)->api = &api;
  return RLX_OK;
}

static const gpu_api api = {
    .name = "vulkan",
    .replays = true,
    .open = open_device,
    .close = vulkan_close,
    .buffer_create = vulkan_buffer_create,
    .buffer_destroy = vulkan_buffer_destroy,
    .buffer_adopt = vulkan_buffer_adopt,
    .kernel_create = vulkan_kernel_create,
    .kernel_destroy = vulkan_kernel_destroy,
    .list_begin = vulkan_list_begin,
    .list_end = vulkan_list_end,
    .list_destroy = vulkan_list_destroy,
    .launch = vulkan_launch,
    .encode = vulkan_encode,
    .copy = vulkan_copy,
    .barrier = vulkan_barrier,
    .label = vulkan_label,
    .submit = vulkan_submit,
    .wait = vulkan_wait,
    .sync_wait = vulkan_sync_wait,
    .sync_signal = vulkan_sync_signal,
};

static const char *const kernels[] = {"vulkan", "gpu", "cpu", NULL};
const backend vulkan_backend = {"vulkan", kernels, &api, vulkan_count, vulkan_describe, vulkan_preferred};
