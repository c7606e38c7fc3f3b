/* absent.c — the backend in a build without Vulkan's headers: it says that it is not there. */
#include <rlx/vulkan.h>
#include <stdio.h>

#include "backend/backend.h"
#include "backend/vulkan/fault.h"
#include "base/status.h"

static int none(void) { return 0; }

static void describe(int i, char *words, size_t size) {
  (void)i;
  snprintf(words, size, "rlx was built without Vulkan's headers");
}

rlx_status rlx_vulkan_add_device(const rlx_vulkan_device *d, int *index) {
  (void)d;
  (void)index;
  return RLX_FAIL(UNSUPPORTED, "rlx was built without Vulkan's headers");
}

void vulkan_simulate_loss(int submissions) { (void)submissions; }

static const char *const kernels[] = {"vulkan", "gpu", "cpu", NULL};
const backend vulkan_backend = {"vulkan", kernels, NULL, none, describe, NULL};
