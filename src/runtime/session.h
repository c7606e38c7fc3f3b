/* session.h — the inside of sessions, run states and bindings. */
#ifndef RUNTIME_SESSION_H
#define RUNTIME_SESSION_H

#include <pthread.h>
#include <stdio.h>

#include "backend/executor.h"
#include "base/cache.h"
#include "ir/failure.h"
#include "plan/program.h"
#include "plan/tally.h"

typedef struct run_state run_state;
typedef struct run_frame run_frame;

/* Where steps are traced to. `on` is atomic, and read without the lock. */
typedef struct trace {
  pthread_mutex_t lock;
  FILE *file; /* NULL: nowhere */
  int on;
  bool first;
} trace;

enum { NOT_OVERRIDDEN = -2 }; /* the rank of an input with a default value that is not bound */

/* A graph built for given ranks of its inputs (phase 1), and with those defaults as inputs that are bound.
 * Immutable; owned by the session. */
typedef struct build {
  int32_t *ranks; /* per graph input, then per default */
  rlx_graph *graph;
  program *root;
} build;

/* Immutable but for what the locks guard. */
struct rlx_session {
  arena memory;
  rlx_session_options options; /* strings and lists in the arena */
  target target;
  debug_options debug;
  bool policy_from_environment;
  rlx_graph *source;    /* what builds are made from */
  bool fixed_ranks;     /* every input's rank is declared: builds.data[0] serves all */
  pthread_mutex_t lock; /* builds, stage sets, binding */
  build first;          /* builds.data[0], read without the lock */
  VECTOR(build) builds;
  cache *cache;
  packed_set *packed;
  bind_context bind;
  int threads;
  gpu_session *gpu; /* NULL: the CPU */
  gpu_cost cost;    /* of a run of the newest bound main program; under `lock` */
  run_state *states;
  int state_count;
  pthread_mutex_t pool_lock; /* waiting for a run state */
  pthread_cond_t pool_free;
  int waiting;
  int64_t run_bytes;                                                            /* atomic: memory of all run states */
  int64_t builds_made, binds, bind_ns, prepare_ns, bind_hits, runs, last_steps; /* atomic */
  trace trace;
  tally tally;      /* under `lock` */
  int64_t *tallies; /* of all run states */
};

/* Memory of one level of a run: a stage, nested programs counting on. */
typedef struct run_buffer {
  void *data;
  int64_t bytes;
} run_buffer;

/* The same on a device, for stages with steps there. */
typedef struct run_device_buffer {
  gpu_memory *memory;
  int64_t bytes, host_bytes;
} run_device_buffer;

/* One of the session's concurrent runs; claimed by one thread at a time. */
struct run_state {
  rlx_session *session;
  int index;
  int busy; /* atomic */
  failure failure;
  VECTOR(run_buffer) buffers;
  VECTOR(run_device_buffer) device_buffers;
  int level;
  VECTOR(rlx_tensor *) dynamic; /* results of data-dependent size and objects, until the run ends */
  VECTOR(run_buffer) calls;     /* scratch of calls of subgraphs, by depth */
  int call_depth;
  arena texts;         /* of strings, likewise */
  VECTOR(uint8_t) key; /* scratch */
  const int *cancel;
  const rlx_run_options *options;
  int64_t steps_done, steps_total; /* for progress: of the stages begun so far */
  int64_t *tally;                  /* TALLY_MAX counts; written by the run that has the state, read by anybody */
  int64_t steps_seen;              /* of the program that ended last */
};

/* An output of a run of a program. */
typedef struct program_output {
  void *data;                /* given memory, or NULL */
  const rlx_type *must;      /* with given memory: the type it has */
  rlx_tensor *given;         /* the tensor of that memory */
  const subgraph_call *call; /* NULL: of the whole run */
  rlx_tensor **tensor;       /* where the result goes when no memory is given: reused if nobody else holds it */
  rlx_operand result;
} program_output;

/* Inputs of the source, those with default values counted after the others. */
size_t session_port_count(const rlx_session *s);
rlx_status build_for(rlx_session *s, const int32_t *ranks, build *out);

/* Runs p: finds or binds its stages, executes them. memo: the first stage of the last such run, kept and
 * replaced (a reference); NULL for none. */
rlx_status program_run(run_state *rs, const program *p, const program_input *inputs, program_output *outputs,
                       stage **memo);

/* Binds the first stage of a build whose inputs have declared extents, before anything runs. */
rlx_status run_bind_ahead(rlx_session *s, const build *b);

/* frame.c: the addresses of a stage in a run state. */
rlx_status run_state_memory(run_state *rs, int level, int64_t bytes, void **base);
rlx_status run_state_device_memory(run_state *rs, int level, int64_t bytes, int64_t host_bytes, gpu_memory **out);
rlx_status session_charge(rlx_session *s, int64_t bytes); /* against memory_limit; negative gives back */
void run_state_finish(run_state *rs);

/* device.c: memory of the session's device, of `bytes` at least, counted against its limit. */
rlx_status session_tensor(rlx_session *s, rlx_dtype dtype, int rank, const int64_t *dims, rlx_tensor **out);

/* device_steps.c: the steps of a stage that has some on the device. */
rlx_status device_steps_run(run_frame *f);

/* pool.c */
rlx_status run_state_claim(rlx_session *s, run_state **out);
void run_state_return(run_state *rs);

/* trace.c */
void trace_step(trace *t, const step *s, int64_t begin_ns, int64_t end_ns);
static inline bool trace_is_on(const trace *t) { return __atomic_load_n(&t->on, __ATOMIC_RELAXED); }
rlx_status trace_close(trace *t); /* IO if what was traced did not all reach the file */

/* Frees what a session holds; used by create's failure path too. */
void session_free(rlx_session *s);

/* A running program as ctx->executor sees it. */
typedef struct run_exec {
  executor_head head; /* first: see ir/failure.h */
  run_state *rs;
  run_frame *frame;
} run_exec;

struct run_frame {
  frame head;   /* first: plan/program.h */
  stage *stage; /* borrowed: frames live in their stage */
  run_state *rs;
  void *memory; /* one block: everything below */
  void *base;   /* run memory the addresses are for */
  rlx_ctx *ctxs;
  rlx_operand *operands;
  rlx_operand *slots; /* by slot: where external values are; that of the program's first stage */
  rlx_operand *own_slots;
  gpu_frame *gpu; /* NULL: all steps are the host's */
  gpu_memory *arena;
  gpu_place *places; /* by slot: where external values are on the device; of the program's first stage, like slots */
  gpu_place *own_places;
  int64_t (*dims)[RLX_MAX_RANK]; /* per dynamic slot of this stage */
  bool serial;                   /* a kernel that is not thread-safe is among the steps */
  run_exec exec;
};

rlx_status frame_get(run_state *rs, stage *s, run_frame *first, run_frame **out);
void *exec_output_shape(rlx_ctx *ctx, int output, int rank, const int64_t *dims);
char *exec_text(rlx_ctx *ctx, size_t size);
rlx_status exec_output_value(rlx_ctx *ctx, int output, rlx_tensor *value);

/* delegate.c: a host kernel hands over to the op's best CPU kernel. */
rlx_status exec_delegate_cpu(rlx_ctx *ctx);

/* subgraph.c: what control flow asks of the executor. */
rlx_status exec_call(rlx_ctx *ctx, const subgraph_call *call);
size_t exec_mark(rlx_ctx *ctx);
void exec_release(rlx_ctx *ctx, size_t mark);
rlx_status exec_keep(rlx_ctx *ctx, rlx_tensor *value);
void *exec_take(rlx_ctx *ctx, int64_t bytes);
void exec_give(rlx_ctx *ctx, void *data, int64_t bytes);
rlx_status steps_run(run_frame *f);
/* The operands that lie outside run memory. */
rlx_status frame_patch(run_frame *f);
/* One step on the host, with everything debugging wants; a failure names node, op and kernel. */
rlx_status step_run(run_frame *f, int t);
/* DEBUG_CHECK: the op's eval on the same inputs must agree. */
rlx_status step_check(run_frame *f, int t);

struct rlx_cancel {
  int set; /* atomic */
};

#endif
