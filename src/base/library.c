/* library.c — dlopen. */
#include "base/library.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

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

bool library_own_folder(char *path, size_t size) {
  static const char here = 0;
  Dl_info info;
  char real[PATH_MAX];
  if (!dladdr(&here, &info) || !info.dli_fname || !realpath(info.dli_fname, real)) return false;
  char *slash = strrchr(real, '/');
  size_t length = slash ? (size_t)(slash - real) : 0;
  if (!slash || length >= size) return false;
  memcpy(path, real, length);
  path[length] = 0;
  return true;
}
