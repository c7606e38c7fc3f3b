/* program.h — phase 1's result (a program) and phase 2's (its stages bound to extents). */
#ifndef PLAN_PROGRAM_H
#define PLAN_PROGRAM_H

#include "base/options.h"
#include "ir/graph.h"
#include "pass/select.h"

/* Slots number what a program's steps read and write: first the values of its graph (by id), then the
 * values of graphs around it that it uses (captures). */
typedef struct program program;

/* A node as the binder walks it. Arrays in the program's arena. */
typedef struct program_node {
  rlx_node *node;
  uint32_t *inputs;     /* slots of the node's inputs, then of the captures of its subgraphs; NO_SLOT: left out */
  uint32_t *outputs;    /* slots; NO_SLOT: not wanted */
  int input_count;      /* of the node */
  int hidden_count;     /* captures after them */
  program **children;   /* per subgraph */
  int **child_captures; /* per subgraph, per capture of it: which of `inputs` it is */
  int child_count;
} program_node;
#define NO_SLOT UINT32_MAX

/* A compiled graph. Immutable once made but for `stages`, which `lock` of the owner guards. Children are
 * owned. The graph is owned by whoever owns the root program. */
struct program {
  arena memory;
  rlx_graph *graph;
  value_list captures;
  program_node *nodes;
  int node_count;
  uint32_t slot_count;
  struct stage_set *stages; /* first stages, by extents */
};

rlx_status program_create(rlx_graph *g, program **out);
void program_destroy(program *p);
uint32_t program_slot(const program *p, const rlx_value *v);

/* Where a slot's bytes are. */
typedef enum place_kind {
  PLACE_NONE = 0,
  PLACE_ARENA,   /* at `offset` of the stage's run memory */
  PLACE_FIXED,   /* at `data`: constants, packed constants, values known at bind time */
  PLACE_EXTERNAL /* at the run's slot_data[slot]: inputs, outputs, dynamic values, earlier stages */
} place_kind;

typedef struct place {
  place_kind kind;
  int64_t offset;
  void *data;
  uint32_t slot; /* EXTERNAL: index into slot_data */
  int64_t bytes; /* room for a dynamic output in run memory */
} place;

/* What is known of a slot when a stage has been bound; handed on to the next stage. */
typedef struct fact {
  rlx_type type; /* concrete once `typed` */
  bool typed;
  bool produced;     /* its bytes exist by the end of the stage */
  bool dynamic;      /* its dims are known after its stage has run */
  rlx_tensor *known; /* its value, known at bind time; reference held by the stage */
  place where;       /* meaningful once produced */
} fact;

/* One kernel call. */
typedef struct step {
  rlx_status (*run)(rlx_ctx *ctx);
  const program_node *from;
  const candidate *chosen;
  void *state;
  int first_operand; /* inputs, hidden inputs, outputs */
  int64_t workspace_bytes, workspace_offset;
  bool dynamic; /* has outputs of data-dependent size */
  bool device;  /* runs on the GPU; `run` is NULL */
  int free_at;  /* step after which the memory of what it uses last may be used again; itself on the CPU */
} step;

typedef struct patch { /* operand whose address is known only in a run */
  int operand;
  uint32_t slot;
} patch;

typedef struct output_slot { /* a graph output and a slot */
  int output;
  uint32_t slot;
} output_slot;

/* One stretch of a program bound to extents. Immutable; reference-counted; freed with its last reference.
 * Its key: for a first stage the inputs' dims and the input values read; for a later one the dims of the
 * dynamic slots before it and the contents of the slots it awaited. */
typedef struct stage {
  int refs;
  const program *program;
  struct stage *previous; /* borrowed: this stage lives in its set, or with a run that holds both */
  arena memory;
  fact *facts; /* program->slot_count */
  step *steps;
  int step_count;
  rlx_operand *operands; /* template: data NULL where patched or in run memory */
  place *places;         /* per operand */
  int operand_count;
  patch *patches;
  int patch_count;
  int *resets; /* operands of dynamic outputs: they have no address until the kernel asks */
  int reset_count;
  uint32_t *exports; /* slots in run memory that later stages use */
  int export_count;
  int64_t run_bytes;   /* run memory */
  program_node **rest; /* nodes left for the next stage */
  int rest_count;
  uint32_t *dynamic_slots; /* whose dims the next stage's key holds */
  int dynamic_count;
  uint32_t *awaited; /* whose contents it holds */
  int awaited_count;
  output_slot *made; /* graph outputs this stage writes in place: slot_data[slot] is set before it runs */
  int made_count;
  bool *output_done;   /* per graph output: made by this stage or one before */
  output_slot *copies; /* last stage: outputs whose bytes are elsewhere, copied at the end */
  int copy_count;
  rlx_tensor **owned; /* known values */
  int owned_count;
  struct packed **packed; /* references to packed constants */
  int packed_count;
  const rlx_tensor **pinned; /* constants steps read unpacked */
  int pinned_count;
  struct stage_set *next; /* by key */
  struct frame **frames;  /* per run state, which alone touches its entry */
  int frame_count;
  uint8_t *key; /* of this stage: dims, then contents */
  size_t key_bytes, dims_bytes;
  int *value_inputs; /* first stage: inputs whose contents end the key */
  int value_input_count;
  struct stage_tally {
    int row, steps;
  } * tallies; /* what a run of it adds to the session's counters */
  int tally_count;
  uint64_t last_used; /* atomic */
  void *device;       /* what the executor of GPUs keeps, or NULL */
  void (*device_release)(void *device);
} stage;

/* A run state's addresses for a stage; made by the runtime, destroyed with the stage. */
typedef struct frame frame;
struct frame {
  void (*destroy)(frame *f);
};
static inline void frame_destroy(frame *f) { f->destroy(f); }

stage *stage_retain(stage *s);
void stage_release(stage *s);

/* A bounded set of stages. */
typedef struct stage_set {
  VECTOR(stage *) list;
} stage_set;
enum { STAGES_KEPT = 16 };

/* An input of a run of a program: graph inputs, then captures. */
typedef struct program_input {
  rlx_operand operand;
  bool donated;
  struct gpu_memory *device; /* memory of a device it lies in, or NULL; then operand.data may be NULL */
} program_input;

/* The stage whose dims key and, for a first stage, input contents agree; NULL. */
stage *stage_set_find(stage_set *set, const void *dims, size_t dims_bytes, const program_input *inputs);
rlx_status stage_set_add(stage_set *set, stage *s); /* takes a reference; drops the least recently used */
void stage_set_finish(stage_set *set);

/* ---- binding ------------------------------------------------------------------------------ */

/* What binding needs of the session. */
typedef struct bind_context {
  struct packed_set *packed;
  struct cache *cache;
  int threads;
  int run_states;
  debug_options debug;
  struct tally *tally;                        /* of the session; under its lock */
  int64_t *bind_ns, *prepare_ns, *binds;      /* atomic counters */
  bool gpu;                                   /* steps may run on a device beside the host */
  rlx_status (*attach)(void *user, stage *s); /* called with each stage made; NULL: on the CPU */
  void *attach_user;
  const rlx_session_options *options;
} bind_context;

/* Reading the contents of slots in the run that needs a later stage. */
typedef struct slot_reader {
  const rlx_operand *(*read)(void *user, uint32_t slot);
  void *user;
} slot_reader;

/* What to bind: a first stage (previous NULL), or the one after `previous`. */
typedef struct bind_request {
  const program *program;
  stage *previous;
  const program_input *inputs; /* first stage */
  const slot_reader *reader;   /* later stages */
  const void *key;             /* the part of the key that is known before: dims, or all of a later stage's */
  size_t key_bytes;
} bind_request;

rlx_status stage_bind(const bind_request *request, const bind_context *context, stage **out);

/* ---- packed constants --------------------------------------------------------------------- */

/* Packed forms of constants, shared by all programs of a session, made once. */
typedef struct packed_set packed_set;
typedef struct packed packed;
rlx_status packed_set_create(packed_set **out);
void packed_set_destroy(packed_set *s);
/* The packed form of `constant` that the kernel's packing() describes; made if need be. */
rlx_status packed_get(packed_set *s, const rlx_tensor *constant, const rlx_packing *form, const candidate *c,
                      rlx_bound *b, const void *state, int input, packed **out);
void *packed_data(const packed *p);
void packed_release(packed *p);
int64_t packed_set_bytes(packed_set *s);

#endif
