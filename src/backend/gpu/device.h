/* device.h — open devices shared by sessions, and memory on them. */
#ifndef BACKEND_GPU_DEVICE_H
#define BACKEND_GPU_DEVICE_H

#include <pthread.h>

#include "base/map.h"

#include "backend/executor.h"
#include "backend/gpu/gpu.h"
#include "plan/memory.h"

/* One large buffer that small memory is cut from. */
typedef struct gpu_block {
  gpu_buffer buffer;
  planner holes;
  int users;
} gpu_block;

/* An open device; one for all sessions that ask for the same one with the same options. Kept by reference counts. */
typedef struct gpu_shared {
  const gpu_api *api;
  gpu_device *device;
  int index;
  gpu_open_options options;
  int refs;             /* under the lock of the list of devices */
  pthread_mutex_t lock; /* blocks */
  VECTOR(gpu_block *) blocks;
  double trip_us;
} gpu_shared;

rlx_status gpu_shared_acquire(const gpu_api *api, int index, const gpu_open_options *options, gpu_shared **out);
gpu_shared *gpu_shared_retain(gpu_shared *s);
void gpu_shared_release(gpu_shared *s);
/* DEVICE, with the reason, once the device is lost. */
rlx_status gpu_shared_check(const gpu_shared *s);

struct gpu_memory {
  int refs; /* atomic */
  gpu_shared *shared;
  gpu_block *block; /* cut from it, or NULL: `own` is the memory */
  gpu_buffer own;
  bool adopted; /* `own` is the application's, and hidden from the host on every device */
  gpu_span span;
  gpu_buffer mirror; /* pinned; a discrete device's memory that the host works on */
  int64_t mirror_bytes;
  void *host;
};

rlx_status gpu_memory_make(gpu_shared *s, int64_t bytes, int64_t host_bytes, gpu_memory **out);
/* Does the host not see it? A discrete device's, and an application's. */
bool gpu_memory_hidden(const gpu_memory *m);
gpu_shared *gpu_session_shared(gpu_session *s);
/* Gives memory of a discrete device a mirror of all its bytes if it has none. */
rlx_status gpu_memory_mirror(gpu_memory *m);
/* The stretch of m, and of its mirror, at an offset. */
gpu_span gpu_memory_span(const gpu_memory *m, int64_t offset, int64_t bytes);
gpu_span gpu_memory_mirror_span(const gpu_memory *m, int64_t offset, int64_t bytes);

#endif
