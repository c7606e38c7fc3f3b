/* private.h — what the files of the software Metal share. */
#ifndef SOFTMETAL_PRIVATE_H
#define SOFTMETAL_PRIVATE_H

#include <stddef.h>

#include "softmetal.h"

enum { SOFT_BUFFERS = 31, SOFT_MAX_THREADS = 1024, SOFT_LANES = 32, SOFT_SHARED_BYTES = 32768 };

/* ---- faults, misuse, counters (control.c) ---- */

bool soft_fails(softmetal_fault fault);
void soft_misuse(const char *format, ...) __attribute__((format(printf, 1, 2)));
void soft_born(const char *class_name, int change); /* +1 or -1 */
extern softmetal_counts soft_counts;                /* updated atomically */
uint32_t soft_random(void);

/* ---- compiled kernels (compile.c, execute.c) ---- */

/* What a kernel's thread knows; the compiled text reads it by the same declaration (metal_stdlib). */
typedef struct soft_thread {
  uint32_t position_in_grid[3], position_in_group[3], group[3], groups[3], group_size[3], grid_size[3];
  uint32_t index, lane, simdgroup, simdgroups;
  void *buffers[SOFT_BUFFERS], *shared[SOFT_BUFFERS];
} soft_thread;

/* What the compiled text calls. */
typedef struct soft_calls {
  void (*group_barrier)(void);
  /* Gives `bytes` (at most 16) to the other threads of the SIMD group, and takes those of all of it: `all` has
   * SOFT_LANES entries of 16 bytes. Returns the mask of the threads that took part; *lane is the caller's place. */
  uint32_t (*exchange)(const void *mine, uint32_t bytes, void *all, uint32_t *lane);
} soft_calls;

typedef void soft_entry(const soft_thread *t);

typedef struct soft_kernel {
  char name[128];
  soft_entry *entry;
} soft_kernel;

/* A compiled library; kept for the life of the process, shared by equal texts. */
typedef struct soft_module {
  uint64_t key;
  char *source;
  void *handle;
  bool cooperative; /* its threads meet at barriers or exchange values */
  int kernel_count;
  soft_kernel *kernels;
  struct soft_module *next;
} soft_module;

/* NULL with *error (the caller's, free) on failure. */
const soft_module *soft_compile(const char *source, bool fast_math, char **error);

/* ---- execution (execute.c) ---- */

typedef struct soft_binding {
  char *data; /* where argument i points: in a buffer, or in a copy of setBytes */
  size_t bytes;
} soft_binding;

typedef struct soft_dispatch {
  const soft_kernel *kernel;
  bool cooperative;
  soft_binding buffers[SOFT_BUFFERS];
  uint32_t shared_bytes[SOFT_BUFFERS];
  uint32_t groups[3], group_size[3], grid[3]; /* grid in threads: the last groups may be cut short */
} soft_dispatch;

/* NULL, or what went wrong (a static or per-thread text). */
const char *soft_run(const soft_dispatch *d);

extern const soft_calls soft_executor_calls;

#endif
