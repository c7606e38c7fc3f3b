/* steps.h — a bound stage as the device sees it: operands as ranges, and everything that happens in one run, in order.
 */
#ifndef BACKEND_GPU_STEPS_H
#define BACKEND_GPU_STEPS_H

#include "backend/gpu/device.h"

/* Where an operand's bytes are, so that overlaps can be told. */
enum { GPU_NOWHERE = -1, GPU_CONSTANT = -2, GPU_ARENA = 0 }; /* from 1 on: locations[where - 1] */
typedef struct gpu_ref {
  int where;
  int constant; /* GPU_CONSTANT: index */
  int64_t offset, bytes;
} gpu_ref;

/* A slot outside run memory that device steps touch: an input, an output, a value of an earlier stage. */
typedef struct gpu_location {
  uint32_t slot;
  int64_t bytes;
  bool made;      /* an output this stage writes; else it has its contents before */
  bool on_device; /* made: the newest bytes are the device's at the end */
  bool host;      /* host steps touch it too */
} gpu_location;

typedef enum gpu_command_kind {
  GPU_STEP,
  GPU_BARRIER,
  GPU_UP,  /* host → device; on a discrete device only, like GPU_DOWN */
  GPU_DOWN /* device → host */
} gpu_command_kind;

typedef struct gpu_command {
  gpu_command_kind kind;
  int step;      /* GPU_STEP */
  gpu_ref range; /* GPU_UP, GPU_DOWN */
} gpu_command;

/* What is submitted at once. */
typedef struct gpu_segment {
  int first, count;          /* commands */
  int first_step, last_step; /* device steps of the stage, both included */
  bool once;                 /* a kernel that is not replayable is in it */
} gpu_segment;

typedef enum gpu_action_kind { GPU_HOST, GPU_SUBMIT, GPU_WAIT, GPU_SYNC } gpu_action_kind;
typedef struct gpu_action {
  gpu_action_kind kind;
  int at, end; /* GPU_HOST: steps [at, end); the others: segment `at` */
} gpu_action;

/* Compiled functions of a portable kernel record for a node. */
typedef struct gpu_kernel_set {
  int count;
  void *kernels[];
} gpu_kernel_set;

/* A constant's copy on the device, shared by the stages of a session. */
typedef struct gpu_constant gpu_constant;

/* Kept in stage->device. Immutable. */
typedef struct gpu_stage {
  gpu_session *session;
  const stage *stage;
  arena memory;
  gpu_ref *refs;                  /* per operand of the stage */
  gpu_ref *workspaces;            /* per step */
  const gpu_kernel_set **kernels; /* per step; NULL: host, raw */
  gpu_location *locations;
  int location_count;
  VECTOR(gpu_constant *) constants;
  VECTOR(gpu_command) commands;
  VECTOR(gpu_segment) segments;
  VECTOR(gpu_action) actions;
  int64_t host_bytes; /* of run memory that the host touches, from its start */
  gpu_cost cost;
} gpu_stage;

static inline const gpu_stage *gpu_stage_of(const stage *s) { return s->device; }

/* Fills commands, segments, actions, cost. unified: the host sees device memory; sync: wait after every step. */
rlx_status gpu_steps_plan(gpu_stage *g, bool unified, bool sync);

/* session.c */
struct gpu_session {
  gpu_shared *shared;
  debug_options debug;
  pthread_mutex_t lock;
  map constants;   /* by address and size: gpu_constant */
  map kernels;     /* by node and record: gpu_kernel_set */
  gpu_stats stats; /* atomic */
};
rlx_status gpu_constant_get(gpu_session *s, const void *data, int64_t bytes, gpu_constant **out);
void gpu_constant_release(gpu_session *s, gpu_constant *c);
gpu_span gpu_constant_span(const gpu_constant *c);
rlx_status gpu_session_kernels(gpu_session *s, const rlx_node *n, const kernel_entry *k, const gpu_kernel_set **out);
void gpu_stage_free(void *g);

#endif
