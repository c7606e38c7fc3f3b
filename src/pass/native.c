/* native.c — whether a target has kernels of its own for an op. */
#include "pass/native.h"

#include "base/memory.h"
#include "ir/registry.h"

rlx_status target_is_native(const target *t, const char *op, int version, bool *native) {
  *native = !t->gpu;
  if (*native) return RLX_OK;
  kernel_entry **kernels;
  int count;
  RLX_TRY(registry_kernels(t->registry, op, version, t->backends, &kernels, &count));
  for (int i = 0; i < count; i++) {
    *native |= kernels[i]->kind == KERNEL_PORTABLE || kernels[i]->kind == KERNEL_RAW;
    kernel_entry_release(kernels[i]);
  }
  mem_free(kernels);
  return RLX_OK;
}
