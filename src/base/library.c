/* library.c — dlopen. */
#include "base/library.h"

#include <dlfcn.h>

#include "base/status.h"

rlx_status library_open(const char *path, void **handle) {
  void *h = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!h) {
    const char *why = dlerror();
    return RLX_FAIL(NOT_FOUND, "%s", why ? why : path);
  }
  *handle = h;
  return RLX_OK;
}

void *library_symbol(void *handle, const char *name) { return dlsym(handle, name); }

void library_close(void *handle) {
  if (handle) dlclose(handle);
}
