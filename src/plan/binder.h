/* binder.h — what the two halves of binding share: the walk (bind.c) and the layout of memory (place.c). */
#ifndef PLAN_BINDER_H
#define PLAN_BINDER_H

#include "plan/program.h"

enum { KEEP = INT32_MAX }; /* last use: beyond the stage */

/* Slots that share bytes, named by their root slot. */
typedef struct alias_class {
  int first, last; /* steps that write and last use it; first -1: from before the stage */
  int64_t bytes;
  int output; /* graph output it is, or -1 */
  bool owned; /* made by a step of this stage, or donated: may be overwritten at its last use */
  bool taken; /* has its place */
} alias_class;

/* Lives during one stage_bind. Scratch memory in `scratch`, what stays in stage->memory. */
typedef struct binder {
  const bind_request *request;
  const bind_context *context;
  const program *p;
  stage *s;
  arena scratch;
  const program_node *current; /* whose infer runs */
  uint32_t *root;              /* per slot */
  alias_class *classes;        /* per root slot */
  bool *read_inputs;           /* per program input: its contents were read */
  VECTOR(step) steps;
  VECTOR(program_node *) rest;
  VECTOR(uint32_t) dynamic;
  VECTOR(uint32_t) awaited;
  VECTOR(rlx_tensor *) owned;
  VECTOR(packed *) packed;
  VECTOR(const rlx_tensor *) pinned;
  VECTOR(output_slot) made;
  bool no_memory;      /* an allocation failed where a value was asked for: it may seem unknown */
  bool effect_blocked; /* a side effect waits for the next stage: so do all after it */
  int64_t prepare_ns;
} binder;

static inline int step_input_count(const step *s) { return s->from->input_count + s->from->hidden_count; }
static inline int step_output_count(const step *s) { return s->from->node->output_count; }

static inline uint32_t binder_root(const binder *b, uint32_t slot) {
  while (b->root[slot] != slot) slot = b->root[slot];
  return slot;
}

/* order.c: puts steps in the order that makes the fewest trips between host and device. */
rlx_status binder_order(binder *b);

/* place.c: gives every class its place and fills operands, patches, exports. */
rlx_status binder_place(binder *b);

/* A rlx_bound over facts; arrays in scratch. */
rlx_status binder_bound(binder *b, const program_node *n, rlx_bound *out);

#endif
