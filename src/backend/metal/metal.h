/* metal.h — what the files of the Metal backend share. */
#ifndef BACKEND_METAL_METAL_H
#define BACKEND_METAL_METAL_H

#include <pthread.h>

#include <rlx/metal.h>

#include "backend/gpu/gpu.h"
#include "backend/metal/objc.h"
#include "base/map.h"
#include "base/vector.h"

/* A submission that may not be done: its command buffer is kept for its status. */
typedef struct metal_pending {
  objc_id commands; /* retained */
  uint64_t ticket;
} metal_pending;

/* A compiled kernel, found by its text and entry; kept until the device is closed. */
typedef struct metal_pipeline {
  objc_id state; /* MTLComputePipelineState */
  char *source, *entry;
  struct metal_pipeline *next;
} metal_pipeline;

typedef struct metal_device {
  gpu_device head;
  objc_id device, queue, event;
  unsigned long largest;         /* bytes of a buffer */
  bool debug;                    /* name what is encoded */
  bool hidden;                   /* buffers the host may not see, as on a discrete device */
  pthread_mutex_t lock;          /* what follows */
  VECTOR(metal_pending) pending; /* by ticket */
  uint64_t tickets;
  map pipelines; /* of metal_pipeline, by hash */
} metal_device;

/* A portable kernel. */
typedef struct metal_kernel {
  objc_id state; /* of the device's pipelines */
  objc_size threads;
} metal_kernel;

/* One command buffer. Metal's run once: a list is encoded anew for each run. */
struct gpu_list {
  metal_device *device;
  objc_id commands;      /* retained; NULL once submitted */
  objc_id compute, blit; /* the open encoder; retained */
  bool labelled;         /* a debug group is open */
};

/* device.c */
rlx_status metal_open(int index, const gpu_open_options *options, gpu_device **out);
void metal_close(gpu_device *head);
rlx_status metal_buffer_create(gpu_device *head, gpu_memory_kind kind, int64_t bytes, gpu_buffer *out);
void metal_buffer_destroy(gpu_device *head, gpu_buffer *b);
rlx_status metal_kernel_create(gpu_device *head, const gpu_source *source, void **kernel);
void metal_kernel_destroy(gpu_device *head, void *kernel);
/* The pipeline of a text's entry, compiled at first. Borrowed: it lives as long as the device. */
rlx_status metal_pipeline_get(metal_device *d, const char *source, const char *entry, objc_id *state);

/* list.c */
rlx_status metal_list_begin(gpu_device *head, gpu_list **list);
rlx_status metal_list_end(gpu_list *l);
void metal_list_destroy(gpu_list *l);
rlx_status metal_launch(gpu_list *l, const gpu_launch *launch);
rlx_status metal_encode(gpu_list *l, const gpu_raw *raw);
void metal_copy(gpu_list *l, const gpu_span *from, const gpu_span *to);
void metal_barrier(gpu_list *l);
void metal_label(gpu_list *l, const char *text);
rlx_status metal_submit(gpu_device *head, gpu_list *const *lists, int count, uint64_t *ticket);
rlx_status metal_wait(gpu_device *head, uint64_t ticket);

/* guard.c: while it is set, an encoder that is told to end, or a command buffer to commit, says so instead of doing it.
 */
typedef struct metal_guard {
  objc_id encoder, commands, encoder_class, commands_class; /* and what they were */
} metal_guard;
rlx_status metal_guard_set(metal_guard *g, objc_id encoder, objc_id commands);
/* Takes it away; the first forbidden selector that was sent, or NULL. */
const char *metal_guard_lift(metal_guard *g);

#endif
