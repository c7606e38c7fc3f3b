/* render_glsl.c — GLSL to SPIR-V by librlx-glsl.so, opened on first use. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/glsl/glsl.h"
#include "backend/gpu/render.h"
#include "base/library.h"
#include "base/memory.h"
#include "base/status.h"

static struct {
  pthread_mutex_t lock;
  bool tried;
  rlx_glsl_compile_function *compile;
  const char *identity;
  char why[256]; /* it is absent */
} compiler = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Beside this library, or one folder up (programs that hold the library), or where the system looks. */
static rlx_status open_library(void **handle) {
  static const char name[] = "librlx-glsl.so";
  Dl_info self;
  char path[1024];
  if (dladdr((void *)(uintptr_t)&open_library, &self) && self.dli_fname) {
    const char *slash = strrchr(self.dli_fname, '/');
    int length = slash ? (int)(slash - self.dli_fname) : 1;
    const char *folder = slash ? self.dli_fname : ".";
    static const char *const ways[] = {"", "/.."};
    for (int i = 0; i < 2; i++) {
      snprintf(path, sizeof path, "%.*s%s/%s", length, folder, ways[i], name);
      if (library_open(path, handle) == RLX_OK) return RLX_OK;
    }
  }
  return library_open(name, handle);
}

/* With the lock held. The library stays open. */
static void find_compiler(void) {
  if (compiler.tried) return;
  compiler.tried = true;
  void *handle;
  if (open_library(&handle) != RLX_OK) {
    snprintf(compiler.why, sizeof compiler.why, "%s", rlx_error_message());
    return;
  }
  void *compile = library_symbol(handle, "rlx_glsl_compile"), *identity = library_symbol(handle, "rlx_glsl_identity");
  if (!compile || !identity) {
    snprintf(compiler.why, sizeof compiler.why, "librlx-glsl.so is of another version");
    return;
  }
  rlx_glsl_identity_function *name;
  memcpy(&compiler.compile, &compile, sizeof compile);
  memcpy(&name, &identity, sizeof identity);
  compiler.identity = name();
}

const char *gpu_glsl_identity(void) {
  pthread_mutex_lock(&compiler.lock);
  find_compiler();
  pthread_mutex_unlock(&compiler.lock);
  return compiler.identity;
}

rlx_status gpu_glsl_compile(const char *name, const char *source, uint32_t **words, size_t *bytes) {
  char log[2048] = "";
  uint32_t *made = NULL;
  size_t size = 0;
  pthread_mutex_lock(&compiler.lock);
  find_compiler();
  int failed = compiler.compile ? compiler.compile(source, &made, &size, log, sizeof log) : -1;
  pthread_mutex_unlock(&compiler.lock);
  if (failed < 0) return RLX_FAIL(UNSUPPORTED, "kernel text '%s': no GLSL compiler here: %s", name, compiler.why);
  if (failed) return RLX_FAIL(INVALID, "kernel text '%s' does not compile: %s", name, log);
  uint32_t *copy = mem_alloc(size);
  if (copy) memcpy(copy, made, size);
  free(made);
  if (!copy) return status_no_memory(size);
  *words = copy;
  *bytes = size;
  return RLX_OK;
}
