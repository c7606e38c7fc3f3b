/* metal.c — the Metal backend's table, and what `rlx devices` says of it. */
#include "backend/metal/metal.h"

#include <stdio.h>

#include "backend/backend.h"
#include "base/status.h"

static const gpu_api api = {
    .name = "metal",
    .replays = false,
    .open = metal_open,
    .close = metal_close,
    .buffer_create = metal_buffer_create,
    .buffer_destroy = metal_buffer_destroy,
    .kernel_create = metal_kernel_create,
    .kernel_destroy = metal_kernel_destroy,
    .list_begin = metal_list_begin,
    .list_end = metal_list_end,
    .list_destroy = metal_list_destroy,
    .launch = metal_launch,
    .encode = metal_encode,
    .copy = metal_copy,
    .barrier = metal_barrier,
    .label = metal_label,
    .submit = metal_submit,
    .wait = metal_wait,
};

static pthread_once_t looked = PTHREAD_ONCE_INIT;
static int count;
static char about[192];

static void look(void) {
  const gpu_open_options options = {0};
  gpu_device *d = NULL;
  if (metal_open(0, &options, &d) == RLX_OK) {
    snprintf(about, sizeof about, "%s", d->name);
    metal_close(d);
    count = 1;
  } else {
    snprintf(about, sizeof about, "%s", rlx_error_message());
  }
  status_clear();
}

static int device_count(void) {
  pthread_once(&looked, look);
  return count;
}

static void describe(int i, char *text, size_t size) {
  (void)i;
  pthread_once(&looked, look);
  snprintf(text, size, "%s", about);
}

static const char *const kernels[] = {"metal", "gpu", "cpu", NULL};
const backend metal_backend = {"metal", kernels, &api, device_count, describe, NULL};
