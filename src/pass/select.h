/* select.h — which kernel runs a node: the one total order, for built-ins and users' ops alike. */
#ifndef PASS_SELECT_H
#define PASS_SELECT_H

#include "ir/graph.h"

/* What a graph is compiled for. Borrowed by everything that gets it; outlives the compilation. */
typedef struct target {
  const char *device;          /* "cpu" */
  const char *const *backends; /* kernels considered: {"cpu", NULL} */
  bool gpu;
  const rlx_registry *registry;       /* session scope or NULL */
  const rlx_session_options *options; /* pins, policy, precision; never NULL */
} target;

typedef struct candidate {
  rlx_tier tier;
  kernel_entry *kernel; /* NULL: the op's lower or eval */
  bool conditional;     /* decides by extents, at bind time: kernel->head.why_not_bound */
} candidate;

typedef struct refusal {
  rlx_tier tier;
  const char *kernel, *owner, *reason;
} refusal;

/* The outcome for one node: chosen[0] first; entries after it stand in where it is conditional. In the
 * graph's arena; kernel references are held until selection_release. */
typedef struct selection {
  candidate *chosen;
  int count;
  candidate stand_in; /* of native ones: the host's, for what a GPU cannot do: no tensors, sizes known after running;
                         of a host kernel: what it may delegate to */
  bool has_stand_in;
  refusal *refused;
  int refused_count;
  refusal *later; /* those after the chosen, which nobody asked */
  int later_count;
  bool pinned;
  bool own; /* every chosen candidate is rlx's own: passes may fold, fuse or replace the node */
} selection;

/* Binds every node of g and its subgraphs, lowering where that comes first. Fails with one message that
 * lists every unresolved node and each candidate's reason. Node types must have been inferred. */
rlx_status select_graph(rlx_graph *g, const target *t);
/* One node that a pass has just made (its types are inferred first). */
rlx_status select_node(rlx_node *n, const target *t);
/* May a pass fold, fuse or replace the node? */
bool node_is_own(const rlx_node *n);
/* Computed while binding, from constants and dims: costs nothing when it runs, on any device. */
bool node_is_host_arithmetic(const rlx_node *n);
/* Runs on the GPU itself: raw or portable. */
static inline bool candidate_is_native(const candidate *c) {
  return c->tier == RLX_TIER_RAW || c->tier == RLX_TIER_PORTABLE;
}
/* The first chosen candidate's kernel name: "onednn", "reference" for eval. */
const char *candidate_name(const candidate *c);
/* Drops the kernel references of a node that goes. */
void selection_drop(rlx_node *n);
/* Drops kernel references of all nodes of g and its subgraphs. */
void selection_release(rlx_graph *g);

#endif
