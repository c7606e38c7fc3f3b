/* backend.c — the table of backends, and devices by name. */
#include "backend/backend.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"

/* Backends the records know but this build does not hold: asking for one says so. */
static int none(void) { return 0; }

static void not_built(int i, char *text, size_t size) {
  (void)i;
  snprintf(text, size, "this build of rlx has no such backend");
}

#define ABSENT(id) \
  static const char *const id##_kernels[] = {#id, "gpu", "cpu", NULL}; \
  static const backend id##_backend = {#id, id##_kernels, NULL, none, not_built, NULL}
ABSENT(cuda);

const backend *const backend_table[] = {&cuda_backend, &metal_backend,  &vulkan_backend,
                                        &cpu_backend,  &record_backend, NULL};

static const backend *by_name(const char *name, size_t length) {
  for (const backend *const *b = backend_table; *b; b++)
    if (strlen((*b)->name) == length && memcmp((*b)->name, name, length) == 0) return *b;
  return NULL;
}

/* `word`, after the colon: a number, or part of what the driver calls the device. */
static rlx_status find_index(const char *device, const char *word, const backend *b, int count, long *index) {
  char *end, text[192];
  if (!word) return RLX_OK;
  if (!*word) return RLX_FAIL(INVALID, "device '%s': no such index", device);
  *index = strtol(word, &end, 10);
  if (!*end && *index >= 0) return RLX_OK;
  if (count == 0) return RLX_OK; /* said better by the caller */
  for (*index = 0; *index < count; ++*index) {
    b->describe((int)*index, text, sizeof text);
    if (strcasestr(text, word)) return RLX_OK;
  }
  return RLX_FAIL(INVALID, "device '%s': no such index, and no %s device is called so", device, b->name);
}

static int preferred(const backend *b) {
  if (b->device_count() == 0) return -1;
  return b->preferred ? b->preferred() : 0;
}

rlx_status backend_find(const char *device, const backend **out, int *index) {
  if (!device || !*device) device = "cpu";
  if (strcmp(device, "auto") == 0) {
    const backend *const *b = backend_table;
    while ((*index = preferred(*b)) < 0) b++; /* the CPU is always there */
    *out = *b;
    return RLX_OK;
  }
  size_t n = strcspn(device, ":");
  const backend *b = by_name(device, n);
  if (!b) return RLX_FAIL(NOT_FOUND, "device '%s': no such kind of device (see rlx devices)", device);
  int count = b->device_count();
  long i = 0;
  RLX_TRY(find_index(device, device[n] ? device + n + 1 : NULL, b, count, &i));
  char why[192];
  b->describe(-1, why, sizeof why);
  if (count == 0) return RLX_FAIL(NOT_FOUND, "device '%s' is absent: %s", device, why);
  if (i >= count) return RLX_FAIL(NOT_FOUND, "device '%s': there are only %d of them", device, count);
  *out = b;
  *index = (int)i;
  return RLX_OK;
}

int rlx_device_count(void) {
  int n = 0;
  for (const backend *const *b = backend_table; *b; b++) n += (*b)->device_count() ? (*b)->device_count() : 1;
  return n;
}

rlx_status rlx_device_get(int i, rlx_device_info *info) {
  if (!info || info->struct_size < sizeof *info) return RLX_FAIL(INVALID, "device info: struct_size is not set");
  int left = i;
  for (const backend *const *b = backend_table; *b && left >= 0; b++) {
    int count = (*b)->device_count(), shown = count ? count : 1;
    if (left < shown) {
      *info = (rlx_device_info){.struct_size = sizeof *info, .present = count > 0};
      if (count > 1)
        snprintf(info->name, sizeof info->name, "%s:%d", (*b)->name, left);
      else
        snprintf(info->name, sizeof info->name, "%s", (*b)->name);
      (*b)->describe(count ? left : -1, info->description, sizeof info->description);
      return RLX_OK;
    }
    left -= shown;
  }
  return RLX_FAIL(NOT_FOUND, "device %d of %d", i, rlx_device_count());
}
