/* executor.h — what the runtime asks of the executor that all GPU backends share (backend/gpu). Owned objects have
 * create and destroy; memory is reference-counted, since tensors may outlive their session. */
#ifndef BACKEND_EXECUTOR_H
#define BACKEND_EXECUTOR_H

#include "backend/backend.h"
#include "plan/program.h"

/* An open device with what one session keeps on it: compiled kernels, constants. Thread-safe. */
typedef struct gpu_session gpu_session;
rlx_status gpu_session_create(const backend *b, int index, const debug_options *debug, gpu_session **out);
void gpu_session_destroy(gpu_session *s);
/* Compiles the portable kernels that nodes of p and its children may run. */
rlx_status gpu_session_build(gpu_session *s, const program *p);

/* Memory of the device, 256-byte aligned. `host` is where host steps see it: the memory itself on a unified device,
 * else a pinned mirror of its first host_bytes, which the executor keeps in step. */
typedef struct gpu_memory gpu_memory;
rlx_status gpu_memory_create(gpu_session *s, int64_t bytes, int64_t host_bytes, gpu_memory **out);
/* Over a stretch of a buffer of the application's, which outlives it; hidden from the host. */
rlx_status gpu_memory_adopt(gpu_session *s, void *native, int64_t offset, int64_t bytes, gpu_memory **out);
gpu_memory *gpu_memory_retain(gpu_memory *m);
void gpu_memory_release(gpu_memory *m); /* NULL: nothing */
void *gpu_memory_host(const gpu_memory *m);
bool gpu_memory_is_unified(const gpu_memory *m);
int64_t gpu_memory_bytes(const gpu_memory *m);
bool gpu_memory_of(const gpu_memory *m, const gpu_session *s); /* is it on this session's device? NULLs: no */
/* Copies between m and the host, and waits. */
rlx_status gpu_memory_write(gpu_memory *m, int64_t offset, const void *from, int64_t bytes);
rlx_status gpu_memory_read(gpu_memory *m, int64_t offset, void *to, int64_t bytes);

/* What a stage needs of the device: its order of submissions, waits, barriers and transfers, and its constants. Kept in
 * stage->device; NULL there: no step of it runs on the device. */
rlx_status gpu_stage_create(gpu_session *session, stage *s);
/* Bytes of its run memory, from the start, that the host touches. */
int64_t gpu_stage_host_bytes(const stage *st);

/* Does a device step use this external slot? Then the executor sees to its address. */
bool gpu_stage_uses(const stage *st, uint32_t slot);

/* A stage's recorded commands and argument blocks in one run state. */
typedef struct gpu_frame gpu_frame;
rlx_status gpu_frame_create(const stage *st, gpu_frame **out);
void gpu_frame_destroy(gpu_frame *f);

/* Where a slot's bytes are on the device; memory NULL: nowhere. */
typedef struct gpu_place {
  gpu_memory *memory; /* borrowed for the run */
  int64_t offset;
} gpu_place;

typedef struct gpu_run {
  gpu_memory *arena; /* run memory of the stage */
  rlx_operand
      *slots; /* by slot: data is the host's address, which the executor replaces by where host steps shall work */
  gpu_place *places; /* by slot */
  /* Called once the addresses in `slots` are right, before the first step. */
  rlx_status (*relocated)(void *user);
  /* Runs step t on the host. */
  rlx_status (*host_step)(void *user, int t);
  /* DEBUG_CHECK: device step t is done, and nothing after it has begun. */
  rlx_status (*check)(void *user, int t);
  bool (*cancelled)(void *user);
  void *user;
} gpu_run;

/* Runs the stage: all its steps are done when it returns, also after a failure. */
rlx_status gpu_frame_run(gpu_frame *f, const gpu_run *run);

/* Waits for, or signals, objects of the backend's API. UNSUPPORTED where there are none. */
rlx_status gpu_session_sync(gpu_session *s, const rlx_sync *objects, int count, bool signal);

/* Counters of a session since it was made. */
typedef struct gpu_stats {
  int64_t trips;    /* waits of the host for the device in the middle of a run */
  int64_t submits;  /* submissions */
  int64_t staged;   /* bytes copied between host and device memory */
  int64_t recorded; /* lists recorded, and submitted without recording */
  int64_t replayed;
} gpu_stats;
void gpu_session_stats(gpu_session *s, gpu_stats *out);

/* What one run of a stage costs: for the report. */
typedef struct gpu_cost {
  int trips, submits, device_steps, host_steps;
  int64_t staged; /* bytes a run stages for its host steps */
} gpu_cost;
void gpu_stage_cost(const stage *st, gpu_cost *out);
/* Microseconds that a trip takes on this device: measured when it was opened. */
double gpu_session_trip_us(const gpu_session *s);

#endif
