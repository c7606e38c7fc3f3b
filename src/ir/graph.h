/* graph.h — the graph: SSA values and nodes, owned by an arena. */
#ifndef IR_GRAPH_H
#define IR_GRAPH_H

#include "base/arena.h"
#include "base/map.h"
#include "base/status.h"
#include "base/vector.h"
#include "ir/op.h"
#include "ir/tensor.h"

/* A value: produced by a node, or a graph input, or a constant. Belongs to its graph. */
struct rlx_value {
  const char *name;
  rlx_type type;
  const char **symbols; /* RLX_MAX_RANK entries, or NULL: no dim has a symbol */
  rlx_node *producer;   /* NULL: input or constant */
  int index;            /* which output of the producer */
  rlx_tensor *constant; /* the value, or NULL */
  rlx_graph *graph;     /* owner; a node of a subgraph may use values of the graphs around it */
  uint32_t id;          /* dense in its graph; index into graph->values */
  uint32_t layout;      /* RLX_ROW_MAJOR, or an id of the backend: set by pass layout */
  bool is_input;
  bool is_output;
  const char *missing; /* stands for a derivative that there is no rule for: why; NULL: a real value */
};

struct selection; /* pass/select.h: the kernel a node was bound to */

/* A node. An output that is left out is a value with an empty name that nothing uses. */
struct rlx_node {
  const char *name;
  const char *op_name; /* dotted, as the model wrote it */
  int opset;           /* version of its domain in the model */
  op_entry *op;        /* NULL: no registry knew it */
  rlx_value **inputs;  /* NULL entries: left out */
  rlx_value **outputs;
  int input_count, output_count;
  rlx_attr *attrs; /* as given, in the graph's arena */
  int attr_count;
  void *params; /* decoded; NULL without op */
  rlx_graph *graph;
  const char *origin;          /* names of the nodes it was made from by lowering or fusion; NULL: itself */
  struct selection *selection; /* set by pass select */
  uint32_t id;                 /* position when last numbered: graph_number */
};

typedef struct graph_opset {
  const char *domain; /* "onnx" for ONNX's own */
  int version;
} graph_opset;

typedef struct graph_output {
  rlx_value *value;
  const char *name;
} graph_output;

enum { DEFAULTS_IR = 4 }; /* the version of ONNX's format that gave inputs default values */

/* An input with a default value: a constant, which a run may replace by an input of `type`. */
typedef struct graph_default {
  rlx_value *value;
  rlx_type type;
} graph_default;

typedef struct graph_metadata {
  const char *key, *value;
} graph_metadata;

/* Owned: graph_destroy (rlx_graph_destroy) frees the arena and drops references to op records and
 * tensors. A subgraph has `parent` and is owned by it. Nodes are in topological order once finished. */
struct rlx_graph {
  arena memory;
  const char *name;
  const rlx_registry *registry; /* borrowed: ops are looked up here when nodes are made; NULL process */
  rlx_graph *parent;
  VECTOR(rlx_node *) nodes;
  VECTOR(rlx_value *) values; /* by id; inputs and constants too */
  VECTOR(rlx_value *) inputs;
  VECTOR(graph_default) defaults; /* of a top-level graph; not among the inputs */
  VECTOR(graph_output) outputs;
  VECTOR(graph_opset) opsets;
  VECTOR(graph_metadata) metadata;
  VECTOR(rlx_graph *) subgraphs; /* owned */
  map names;                     /* value name → value, of this graph only */
  uint64_t name_counter;
  int node_opset;    /* nodes made now mean this opset version; 0: what `opsets` says */
  rlx_status status; /* sticky first failure */
  char *failure;     /* its text, in the arena (or a literal) */
};

/* parent NULL: a top-level graph. */
rlx_status graph_create(const rlx_registry *registry, rlx_graph *parent, rlx_graph **out);
/* Fails for a version of one of ONNX's domains that is newer than what the built-in ops were written for. */
rlx_status opset_check(const char *domain, int version);
int graph_opset_version(const rlx_graph *g, const char *domain, size_t domain_length); /* 0: not said */

/* Low-level making, used by importer, parser and passes; the public builder stands on these. */
rlx_value *graph_value(rlx_graph *g, const char *name);      /* a fresh value; name NULL: made */
rlx_value *graph_find(const rlx_graph *g, const char *name); /* here or in a graph around; NULL */
/* Takes desc with outputs already made (output_values, output_count) instead of names. */
rlx_node *graph_add_node(rlx_graph *g, const rlx_node_desc *desc, rlx_value *const *output_values);
/* A fresh name "prefix_N" unused in g; in the arena. */
const char *graph_fresh_name(rlx_graph *g, const char *prefix);
/* (Re)binds node->op and decodes node->params from attrs under `registry`. NOT_FOUND leaves op NULL. */
rlx_status node_resolve(rlx_node *n, const rlx_registry *registry);
/* Checks input/output counts against the ports and dtypes against the type variables. */
rlx_status node_check(const rlx_node *n);

/* Replaces every use of `from` (graph outputs and subgraphs included) by `to`. */
void graph_replace_uses(rlx_graph *g, rlx_value *from, rlx_value *to);
/* Removes nodes for which keep[node->id] is false (after graph_number). */
void graph_remove_nodes(rlx_graph *g, const bool *keep);
/* Gives nodes and values dense ids. */
void graph_number(rlx_graph *g);
/* Topological order; a cycle is an error naming a node of it. */
rlx_status graph_sort(rlx_graph *g);
/* Deep copy; values keep their ids, nodes their order. */
rlx_status graph_clone(const rlx_graph *g, rlx_graph **out);
/* A copy of a subgraph as a subgraph of `parent`, which lies inside the graphs whose values it captures. */
rlx_status graph_clone_body(const rlx_graph *g, rlx_graph *parent, rlx_graph **out);
/* Copies the nodes of a subgraph of g into g, with the given values in the place of its inputs, and gives the values
 * that are its outputs. The subgraph stays as it is. */
rlx_status graph_inline(rlx_graph *g, const rlx_graph *body, rlx_value *const *inputs, rlx_value **outputs);
/* Uses per value id of this graph, counting graph outputs and uses inside subgraphs; arena-allocated in
 * `memory`. NULL when memory is short. */
uint32_t *graph_use_counts(const rlx_graph *g, arena *memory);
/* Takes back from the counts of `owner` what g, a subgraph inside it, uses. */
void graph_forget_uses(const rlx_graph *g, const rlx_graph *owner, uint32_t *uses);
/* The values of graphs around g (or deeper) that g and its subgraphs use: captures, in first-use order. */
typedef VECTOR(rlx_value *) value_list;
rlx_status graph_captures(const rlx_graph *g, value_list *out);
/* Those of all subgraphs of a node. */
rlx_status node_captures(const rlx_node *n, value_list *out);
/* Calls `rewrite` (an op's lower or derive) on n: it may add nodes and constants to n's graph, no inputs or outputs,
 * and must give every output that n has. On failure the nodes added are still there. */
rlx_status node_rewrite(rlx_node *n, rlx_status (*rewrite)(rlx_graph *g, const rlx_node *n, rlx_value **outputs),
                        const char *what, rlx_value **outputs);
/* Makes `outputs` (as node_rewrite gives them) the producers of n's own output values and leaves n without outputs:
 * graph_drop_retired removes it. Whoever holds n's values keeps them. */
rlx_status node_retire(rlx_node *n, rlx_value *const *outputs);
void graph_drop_retired(rlx_graph *g);
/* Destroys the subgraphs of a node that is about to be removed. */
void node_drop_subgraphs(rlx_node *n);

/* Attribute helpers: attribute as given, NULL if absent. */
const rlx_attr *node_attr(const rlx_node *n, const char *name);
/* The subgraphs among a node's attributes, i-th; NULL past the end. */
rlx_graph *node_subgraph(const rlx_node *n, int i);

#endif
