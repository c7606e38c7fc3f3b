/* gpu.h — a GPU backend: one table of functions over memory, kernels, and lists of commands. Everything else (what runs
 * where, in which order, barriers, transfers, replay) is the executor's, and the same for all of them. */
#ifndef BACKEND_GPU_GPU_H
#define BACKEND_GPU_GPU_H

#include <rlx/extend.h>

#include "ir/op.h"

typedef struct gpu_device gpu_device;

typedef enum gpu_memory_kind {
  GPU_MEMORY_DEVICE,  /* where kernels work; on a unified device the host sees it too */
  GPU_MEMORY_STAGING, /* the host's, pinned: the device copies from and to it */
  GPU_MEMORY_TABLE    /* written by the host, read by kernels: argument blocks */
} gpu_memory_kind;

/* One allocation of the driver; made and destroyed by the backend, owned by memory.c. */
typedef struct gpu_buffer {
  void *native;     /* the backend's object */
  void *extra;      /* the backend's: what belongs to it */
  void *host;       /* where the host sees it; NULL: it does not */
  uint64_t address; /* where kernels see it */
  int64_t bytes;
} gpu_buffer;

/* A stretch of a buffer; buffer NULL: none. */
typedef struct gpu_span {
  const gpu_buffer *buffer;
  int64_t offset, bytes;
} gpu_span;

static inline uint64_t gpu_span_address(const gpu_span *s) {
  return s->buffer ? s->buffer->address + (uint64_t)s->offset : 0;
}

/* Recorded commands. The backend's own struct; submitted any number of times, but not again before it is done. */
typedef struct gpu_list gpu_list;

/* One launch of a portable kernel. */
typedef struct gpu_launch {
  void *kernel;                   /* from kernel_create */
  uint64_t block;                 /* device address of its argument block */
  const gpu_buffer *block_buffer; /* the same as buffer and offset */
  int64_t block_offset;
  uint32_t groups[3];
  const struct gpu_operands *operands; /* of the step, for a backend that interprets it */
  int index;                           /* which launch of the step */
} gpu_launch;

/* The operands of a step: spans in the order inputs, outputs, with the operands as the host describes them (data NULL).
 */
typedef struct gpu_operands {
  const rlx_node *node;
  const char *kernel;           /* its name */
  const rlx_operand *described; /* inputs, then outputs; their `data` is the host's address, or NULL */
  const gpu_span *spans;
  int input_count, output_count;
  gpu_span workspace;
  const void *params, *state;
} gpu_operands;

/* A raw kernel of this backend: its whole record, and what to encode it with. */
typedef struct gpu_raw {
  const void *record;
  const gpu_operands *operands;
  bool guard; /* watch for calls that a raw kernel may not make */
} gpu_raw;

/* What a portable kernel is compiled from. */
typedef struct gpu_source {
  const rlx_gpu_function *function;
  const rlx_node *node;
} gpu_source;

typedef struct gpu_open_options {
  uint32_t debug; /* DEBUG_… switches */
  bool discrete;  /* hide device memory from the host even where it is visible */
} gpu_open_options;

typedef struct gpu_api {
  const char *name;
  bool replays;          /* a list can be submitted again; else each run records it anew */
  bool records_operands; /* a launch records the operands themselves, not the address of their block */

  rlx_status (*open)(int index, const gpu_open_options *options, gpu_device **out);
  void (*close)(gpu_device *d);

  rlx_status (*buffer_create)(gpu_device *d, gpu_memory_kind kind, int64_t bytes, gpu_buffer *out);
  void (*buffer_destroy)(gpu_device *d, gpu_buffer *b);
  /* Describes a buffer of the application's; it is not destroyed. NULL: the backend takes none. */
  rlx_status (*buffer_adopt)(gpu_device *d, void *native, int64_t bytes, gpu_buffer *out);

  /* Compiles a portable kernel; the compiler's log is in the status. Thread-safe. */
  rlx_status (*kernel_create)(gpu_device *d, const gpu_source *source, void **kernel);
  void (*kernel_destroy)(gpu_device *d, void *kernel);

  /* Recording. list_begin makes *list, or empties it; what it records waits for all that was submitted before, and for
   * the host's writes. One thread a list. */
  rlx_status (*list_begin)(gpu_device *d, gpu_list **list);
  rlx_status (*list_end)(gpu_list *l);
  void (*list_destroy)(gpu_list *l);
  rlx_status (*launch)(gpu_list *l, const gpu_launch *launch);
  rlx_status (*encode)(gpu_list *l, const gpu_raw *raw);
  void (*copy)(gpu_list *l, const gpu_span *from, const gpu_span *to);
  void (*barrier)(gpu_list *l); /* what comes after waits for, and sees, what came before: kernels and copies */
  void (*label)(gpu_list *l, const char *text); /* names what follows, for debuggers; may be NULL */

  /* Hands lists over, in order. *ticket grows with each submission of the device; thread-safe. */
  rlx_status (*submit)(gpu_device *d, gpu_list *const *lists, int count, uint64_t *ticket);
  /* Until all submissions up to ticket are done and the host sees what they wrote: spins a little, then blocks. DEVICE
   * when the device or its driver failed. Thread-safe. */
  rlx_status (*wait)(gpu_device *d, uint64_t ticket);
  /* Waits for, and signals, objects of the API that an application shares; NULL: the backend has none. */
  rlx_status (*sync_wait)(gpu_device *d, const rlx_sync *objects, int count);
  rlx_status (*sync_signal)(gpu_device *d, const rlx_sync *objects, int count);
} gpu_api;

/* First member of every backend's device. */
struct gpu_device {
  const gpu_api *api;
  bool unified; /* the host sees device memory, at speed */
  int lost;     /* atomic: the driver said so; nothing works any more */
  char name[128];
};

#endif
