/* import.h — the parts of the ONNX importer: ModelProto, GraphProto, NodeProto, AttributeProto, FunctionProto. */
#ifndef ONNX_IMPORT_H
#define ONNX_IMPORT_H

#include "ir/graph.h"
#include "onnx/tensor_proto.h"

enum {
  MAX_LEVELS = 64,          /* graphs and function calls inside one another, and types */
  MAX_INLINED = 1000 * 1000 /* nodes that function calls may expand to, in all */
};

typedef VECTOR(wire_span) span_list;

/* A model-local function: its message taken apart; spans are borrowed from the file. */
typedef struct function {
  const char *name; /* dotted, with the overload: "acme.Gate", "acme.Gate:v2" */
  span_list inputs, outputs, attributes, defaults, nodes;
  VECTOR(graph_opset) opsets;
} function;

/* What lives as long as one import. Owned: importer_finish. */
typedef struct importer {
  tensor_source source;
  const rlx_registry *registry;
  arena memory; /* strings of the functions */
  VECTOR(function *) functions;
  map function_names; /* function.name → function */
  int64_t ir_version; /* of the format */
  int level;
  int open_calls;  /* function calls being expanded */
  int64_t inlined; /* nodes made while there were any */
  bool node_named; /* the failure's text names the node already */
} importer;

/* An attribute that a call gives to its function. */
typedef struct argument {
  wire_span name, message;
} argument;

/* A call being expanded; lives on the stack. */
typedef struct call {
  const function *function;
  const argument *arguments; /* as written in the calling node, to be read in the scope `site` */
  size_t argument_count;
  struct scope *site;
} call;

/* Where names of values are looked up. A function's body has a scope of its own whose nodes go into the
 * caller's graph, under names that begin with `prefix`. Owned: scope_finish. */
typedef struct scope {
  importer *importer;
  struct scope *outer; /* names are also found there; NULL: of the main graph, and of a function's body */
  const call *call;    /* the call whose body this lies in; NULL: none */
  rlx_graph *graph;
  map names;          /* rlx_value of this scope, or scope_absent */
  map bound;          /* a body's: output names whose values the caller has made */
  const char *prefix; /* "" outside of functions */
  const char *origin; /* name of the outermost calling node; NULL outside of functions */
} scope;

/* The value of an optional parameter that the call leaves out. */
extern rlx_value scope_absent;

/* A NodeProto taken apart. Owned: node_parts_finish. */
typedef struct node_parts {
  wire_span name, op_type, domain, overload;
  span_list inputs, outputs, attributes;
  char *op; /* dotted */
} node_parts;

/* A ValueInfoProto taken apart. */
typedef struct declaration {
  wire_span name;
  bool typed;
  rlx_type type;
  wire_span symbols[RLX_MAX_RANK];
} declaration;

/* import.c */
/* The domain's name in ops: "" and "ai.onnx" are "onnx". */
wire_span domain_name(wire_span domain);
rlx_status opset_read(wire_span message, arena *memory, graph_opset *out);
/* A copy ending in NUL, in `memory`; fails when memory is short. */
rlx_status name_copy(arena *memory, wire_span name, const char **out);

/* import_scope.c */
void scope_finish(scope *s);
rlx_value *scope_find(scope *s, wire_span name); /* NULL: undefined */
/* A new value under a name that must be new in the scope; an empty name gives one nobody can name. */
rlx_status scope_add(scope *s, wire_span name, rlx_value **out);
/* The opset version that ops of op's domain have in the scope; 0: not said. */
int scope_opset(const scope *s, const char *op);
/* Adds a node under the opsets of the scope. */
rlx_status scope_add_node(scope *s, const rlx_node_desc *desc, rlx_value *const *outputs);
/* to = from, by an Identity node. */
rlx_status scope_copy_value(scope *s, rlx_value *from, rlx_value *to);

/* import_type.c */
rlx_status type_read(wire_span message, int level, rlx_type *out, wire_span *symbols);
rlx_status declaration_read(wire_span message, declaration *out);
/* Refines the value's type; a contradiction is an error. */
rlx_status declaration_apply(const declaration *d, rlx_value *v);

/* import_graph.c */
rlx_status import_graph(scope *s, wire_span message);
/* The graph of an attribute: a child of `parent`, its outer names found in `outer`. */
rlx_status import_subgraph(scope *outer, rlx_graph *parent, wire_span message, rlx_graph **out);
/* Makes the outputs of all nodes, then the nodes. */
rlx_status import_nodes(scope *s, const span_list *nodes);

/* import_node.c */
void node_parts_finish(node_parts *p);
rlx_status node_parts_read(wire_span message, node_parts *out);
rlx_status import_node(scope *s, const node_parts *p);

/* import_attr.c */
/* Reads an attribute into *out, whose lists are in `scratch`, or gives *present = false for a reference
 * to an attribute that the call leaves out. Subgraphs become children of `parent`. */
rlx_status attr_read(scope *s, rlx_graph *parent, arena *scratch, wire_span message, rlx_attr *out, bool *present);
void attr_finish(rlx_attr *a); /* drops the references to tensors */
rlx_status attr_name(wire_span message, wire_span *name);

/* import_constant.c */
/* The tensor of a Constant node's attributes. */
rlx_status constant_read(scope *s, const rlx_attr *attrs, size_t count, rlx_tensor **out);

/* import_function.c */
rlx_status function_read(importer *im, wire_span message);
/* The function a node calls; NULL if none, or if the registry has an op of that name. */
rlx_status function_find(const scope *s, const node_parts *p, const function **out);
rlx_status import_call(scope *s, const node_parts *p, const function *f);
void functions_finish(importer *im);

#endif
