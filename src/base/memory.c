/* memory.c — allocation, with failures injected by tests. */
#include "base/memory.h"

#include <rlx/rlx.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

static atomic_llong countdown; /* 0: no injection */
static atomic_int keep_failing;
static atomic_llong made;

int64_t mem_inject(int64_t n, int repeat) {
  atomic_store(&countdown, n);
  atomic_store(&keep_failing, repeat);
  return (int64_t)atomic_exchange(&made, 0);
}

static bool injected(void) {
  atomic_fetch_add_explicit(&made, 1, memory_order_relaxed);
  if (atomic_load_explicit(&countdown, memory_order_relaxed) <= 0) return false;
  long long left = atomic_fetch_sub(&countdown, 1);
  if (left == 1 && atomic_load(&keep_failing)) atomic_store(&countdown, 1);
  return left == 1;
}

void *mem_alloc(size_t bytes) { return injected() ? NULL : malloc(bytes ? bytes : 1); }

void *mem_zalloc(size_t bytes) { return injected() ? NULL : calloc(1, bytes ? bytes : 1); }

void *mem_realloc(void *p, size_t bytes) { return injected() ? NULL : realloc(p, bytes ? bytes : 1); }

void *mem_array(size_t count, size_t size) {
  if (injected()) return NULL;
  return calloc(count ? count : 1, size ? size : 1);
}

char *mem_strdup(const char *s) {
  size_t n = strlen(s) + 1;
  char *p = mem_alloc(n);
  return p ? memcpy(p, s, n) : NULL;
}

void mem_free(void *p) { free(p); }

void *mem_aligned(size_t align, size_t bytes) {
  if (injected() || bytes > SIZE_MAX - align) return NULL;
  void *p = NULL;
  return posix_memalign(&p, align < sizeof(void *) ? sizeof(void *) : align, bytes ? bytes : 1) ? NULL : p;
}

void rlx_free(void *p) { mem_free(p); }
