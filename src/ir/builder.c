/* builder.c — adding inputs, constants and nodes to a graph; failures are sticky. */
#include <rlx/extend.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/need.h"
#include "ir/graph.h"
#include "ir/registry.h"
#include "ir/shape.h"

rlx_status rlx_graph_create(const rlx_registry *registry, rlx_graph **out) {
  RLX_NEED(out);
  return graph_create(registry, NULL, out);
}

/* Keeps this thread's message as the graph's first failure. */
static void stick(rlx_graph *g, rlx_status status) {
  if (status == RLX_OK || g->status != RLX_OK) return;
  g->status = status;
  g->failure = arena_strdup(&g->memory, rlx_error_message());
}

rlx_status rlx_graph_fail(rlx_graph *g, rlx_status code, const char *format, ...) {
  RLX_NEED(g);
  char line[1024];
  va_list args;
  va_start(args, format);
  vsnprintf(line, sizeof line, format, args);
  va_end(args);
  stick(g, status_fail(code == RLX_OK ? RLX_INTERNAL : code, "%s", line));
  return g->status;
}

rlx_status rlx_graph_status(const rlx_graph *g) {
  RLX_NEED(g);
  if (g->status == RLX_OK) return RLX_OK;
  return status_fail(g->status, "%s", g->failure ? g->failure : "out of memory");
}

rlx_status rlx_graph_finish(rlx_graph *g) {
  RLX_TRY(rlx_graph_status(g));
  rlx_status status = graph_sort(g);
  stick(g, status);
  return status;
}

/* The newest versions of ONNX's own domains that the built-in ops were written for. In a newer one any of them may mean
 * something else. Other domains' versions are their authors'. */
rlx_status opset_check(const char *domain, int version) {
  static const graph_opset newest[] = {
      {"onnx", 28}, {"ai.onnx.ml", 5}, {"ai.onnx.preview", 1}, {"ai.onnx.preview.training", 1}};
  for (size_t i = 0; i < sizeof newest / sizeof *newest; i++)
    if (strcmp(domain, newest[i].domain) == 0 && version > newest[i].version)
      return RLX_FAIL(UNSUPPORTED, "opset version %d of domain '%s': the newest known is %d", version, domain,
                      newest[i].version);
  return version > 0 ? RLX_OK : RLX_FAIL(INVALID, "opset version %d of domain '%s'", version, domain);
}

void rlx_graph_set_opset(rlx_graph *g, const char *domain, int version) {
  if (!g) return;
  if (!domain || !*domain || strcmp(domain, "ai.onnx") == 0) domain = "onnx";
  rlx_status status = opset_check(domain, version);
  if (status != RLX_OK) {
    if (g->status == RLX_OK) stick(g, status);
    return;
  }
  for (size_t i = 0; i < g->opsets.count; i++)
    if (strcmp(g->opsets.data[i].domain, domain) == 0) {
      g->opsets.data[i].version = version;
      return;
    }
  const char *copy = arena_strdup(&g->memory, domain);
  if (!copy || !vector_push(&g->opsets, (graph_opset){copy, version})) stick(g, status_no_memory(1));
}

/* A value under a name that must be new in the graph. */
static rlx_value *named_value(rlx_graph *g, const char *name) {
  if (!g || g->status != RLX_OK) return NULL;
  if (name && *name && map_get(&g->names, name)) {
    stick(g, RLX_FAIL(INVALID, "the name '%s' is used twice", name));
    return NULL;
  }
  rlx_value *v = graph_value(g, name);
  if (!v) stick(g, status_no_memory(sizeof *v));
  return v;
}

static rlx_status check_type(const rlx_type *t) {
  if ((int)t->kind < RLX_KIND_TENSOR || t->kind > RLX_KIND_MAP) return RLX_FAIL(INVALID, "kind %d", (int)t->kind);
  if ((int)t->dtype <= 0 || t->dtype >= RLX_DTYPE_COUNT)
    return RLX_FAIL(INVALID, "%d is no element type", (int)t->dtype);
  if (t->rank < RLX_UNKNOWN || t->rank > RLX_MAX_RANK)
    return RLX_FAIL(INVALID, "rank %d outside 0..%d", t->rank, RLX_MAX_RANK);
  for (int i = 0; i < t->rank; i++)
    if (t->dims[i] < RLX_UNKNOWN) return RLX_FAIL(INVALID, "dim %d is %lld", i, (long long)t->dims[i]);
  return RLX_OK;
}

rlx_value *rlx_graph_input(rlx_graph *g, const char *name, const rlx_type *type) {
  rlx_value *v = named_value(g, name);
  if (!v) return NULL;
  rlx_status status = type ? check_type(type) : RLX_FAIL(INVALID, "no type");
  if (status != RLX_OK) stick(g, status_prefix(status, "input '%s'", v->name));
  if (g->status != RLX_OK) return NULL;
  v->type = *type;
  v->is_input = true;
  if (!vector_push(&g->inputs, v)) stick(g, status_no_memory(sizeof v));
  return g->status == RLX_OK ? v : NULL;
}

rlx_value *rlx_graph_constant(rlx_graph *g, const char *name, rlx_tensor *tensor) {
  if (!tensor) {
    if (g && g->status == RLX_OK) stick(g, RLX_FAIL(INVALID, "constant '%s': no tensor", name ? name : ""));
    return NULL;
  }
  rlx_value *v = named_value(g, name);
  if (!v) return NULL;
  v->constant = rlx_tensor_retain(tensor);
  rlx_tensor_type(tensor, &v->type);
  return v;
}

rlx_value *rlx_graph_default(rlx_graph *g, const char *name, const rlx_type *type, rlx_tensor *tensor) {
  rlx_value *v = rlx_graph_constant(g, name, tensor);
  if (!v) return NULL;
  rlx_status status = type ? check_type(type) : RLX_FAIL(INVALID, "no type");
  if (status != RLX_OK) stick(g, status_prefix(status, "input '%s'", v->name));
  if (g->status != RLX_OK) return NULL;
  if (!type_admits(type, &v->type)) {
    char a[300], b[300];
    stick(g, RLX_FAIL(INVALID, "input '%s' is %s, its default value %s", v->name, type_text(type, a, sizeof a),
                      type_text(&v->type, b, sizeof b)));
    return NULL;
  }
  if (vector_push(&g->defaults, ((graph_default){v, *type}))) return v;
  stick(g, status_no_memory(sizeof(graph_default)));
  return NULL;
}

void rlx_graph_output(rlx_graph *g, rlx_value *value, const char *name) {
  if (!g || g->status != RLX_OK) return;
  if (!value) {
    stick(g, RLX_FAIL(INVALID, "output '%s': no value", name ? name : ""));
    return;
  }
  const char *copy = arena_strdup(&g->memory, name ? name : value->name);
  value->is_output |= value->graph == g;
  if (!copy || !vector_push(&g->outputs, (graph_output){value, copy}))
    stick(g, status_no_memory(sizeof *g->outputs.data));
}

void rlx_graph_clear_outputs(rlx_graph *g) {
  for (size_t i = 0; i < g->outputs.count; i++) g->outputs.data[i].value->is_output = false;
  g->outputs.count = 0;
}

enum { MOST_PORTS = 1 << 16 }; /* inputs or outputs of a node */

/* ---- nodes -------------------------------------------------------------------------------- */

static rlx_status copy_strings(rlx_graph *g, const rlx_string *from, size_t count, const rlx_string **out) {
  rlx_string *copy = arena_array(&g->memory, count, sizeof *copy);
  if (!copy) return status_no_memory(count);
  for (size_t i = 0; i < count; i++) {
    copy[i] = (rlx_string){arena_strndup(&g->memory, from[i].data, from[i].size), from[i].size};
    if (!copy[i].data) return status_no_memory(from[i].size);
  }
  *out = copy;
  return RLX_OK;
}

/* A subgraph given to a node becomes a child of the node's graph. */
static rlx_status adopt(rlx_graph *g, rlx_graph *sub) {
  for (const rlx_graph *around = g; around; around = around->parent)
    if (around == sub) return RLX_FAIL(INVALID, "a graph cannot be a subgraph of itself");
  if (!sub || sub->parent == g) return RLX_OK;
  if (sub->parent) return RLX_FAIL(INVALID, "a subgraph belongs to another graph already");
  if (!vector_push(&g->subgraphs, sub)) return status_no_memory(sizeof sub);
  sub->parent = g;
  return RLX_OK;
}

static rlx_status copy_attr_lists(rlx_graph *g, const rlx_attr *from, rlx_attr *a) {
  arena *m = &g->memory;
  size_t n = from->count;
  if (from->floats && !(a->floats = arena_copy(m, from->floats, n * sizeof(float)))) return status_no_memory(n);
  if (from->ints && !(a->ints = arena_copy(m, from->ints, n * sizeof(int64_t)))) return status_no_memory(n);
  size_t types = from->kind == RLX_ATTR_TYPE ? 1 : n;
  if (from->types && !(a->types = arena_copy(m, from->types, types * sizeof(rlx_type)))) return status_no_memory(n);
  if (from->strings) RLX_TRY(copy_strings(g, from->strings, n, &a->strings));
  if (from->graphs && !(a->graphs = arena_copy(m, from->graphs, n * sizeof *from->graphs))) return status_no_memory(n);
  for (size_t i = 0; from->graphs && i < n; i++) RLX_TRY(adopt(g, from->graphs[i]));
  if (from->tensors) {
    rlx_tensor **copy = arena_copy(m, from->tensors, n * sizeof *copy);
    if (!copy) return status_no_memory(n);
    for (size_t i = 0; i < n; i++) rlx_tensor_retain(copy[i]);
    a->tensors = copy;
  }
  return RLX_OK;
}

/* A kind that points to something, but to nothing here. */
static bool lacks_contents(const rlx_attr *a) {
  switch (a->kind) {
    case RLX_ATTR_TENSOR: return !a->tensor;
    case RLX_ATTR_GRAPH: return !a->graph;
    case RLX_ATTR_TYPE: return !a->types;
    case RLX_ATTR_FLOATS: return a->count && !a->floats;
    case RLX_ATTR_INTS: return a->count && !a->ints;
    case RLX_ATTR_STRINGS: return a->count && !a->strings;
    case RLX_ATTR_TENSORS: return a->count && !a->tensors;
    case RLX_ATTR_GRAPHS: return a->count && !a->graphs;
    case RLX_ATTR_TYPES: return a->count && !a->types;
    default: return false;
  }
}

static rlx_status copy_attr(rlx_graph *g, const rlx_attr *from, rlx_attr *a) {
  if (!from->name) return RLX_FAIL(INVALID, "an attribute has no name");
  if (lacks_contents(from)) return RLX_FAIL(INVALID, "attribute '%s' has no contents", from->name);
  const char *name = arena_strdup(&g->memory, from->name);
  if (!name) return status_no_memory(1);
  *a = (rlx_attr){.name = name, .kind = from->kind, .f = from->f, .i = from->i, .count = from->count};
  if (from->s.data) {
    a->s = (rlx_string){arena_strndup(&g->memory, from->s.data, from->s.size), from->s.size};
    if (!a->s.data) return status_no_memory(from->s.size);
  }
  RLX_TRY(adopt(g, from->graph));
  a->graph = from->graph;
  RLX_TRY(copy_attr_lists(g, from, a));
  a->tensor = rlx_tensor_retain(from->tensor);
  return RLX_OK;
}

static rlx_status fill_node(rlx_graph *g, rlx_node *n, const rlx_node_desc *d, rlx_value *const *outputs) {
  arena *m = &g->memory;
  n->graph = g;
  n->op_name = arena_strdup(m, d->op);
  n->name = d->name && *d->name ? arena_strdup(m, d->name) : graph_fresh_name(g, "node");
  n->inputs = arena_copy(m, d->inputs, (size_t)d->input_count * sizeof *n->inputs);
  n->outputs = arena_copy(m, outputs, (size_t)d->output_count * sizeof *n->outputs);
  n->attrs = arena_array(m, (size_t)d->attr_count, sizeof *n->attrs);
  if (!n->op_name || !n->name || !n->inputs || !n->outputs || !n->attrs) return status_no_memory(sizeof *n);
  n->input_count = d->input_count;
  n->output_count = d->output_count;
  n->opset = g->node_opset ? g->node_opset : graph_opset_version(g, d->op, op_domain_length(d->op));
  for (int i = 0; i < d->attr_count; i++) {
    n->attr_count = i + 1;
    RLX_TRY(copy_attr(g, &d->attrs[i], &n->attrs[i]));
  }
  for (int i = 0; i < n->output_count; i++) {
    n->outputs[i]->producer = n;
    n->outputs[i]->index = i;
  }
  rlx_status status = node_resolve(n, g->registry);
  return status == RLX_NOT_FOUND ? RLX_OK : status; /* unknown ops are reported when a session is made */
}

rlx_node *graph_add_node(rlx_graph *g, const rlx_node_desc *d, rlx_value *const *outputs) {
  if (g->status != RLX_OK) return NULL;
  if (!d->op || op_domain_length(d->op) == 0) {
    stick(g,
          RLX_FAIL(INVALID, "node '%s': '%s' is no op name (DOMAIN.NAME)", d->name ? d->name : "", d->op ? d->op : ""));
    return NULL;
  }
  rlx_node *n = arena_alloc(&g->memory, sizeof *n);
  if (!n || !vector_push(&g->nodes, n)) {
    stick(g, status_no_memory(sizeof *n));
    return NULL;
  }
  rlx_status status = fill_node(g, n, d, outputs);
  if (status != RLX_OK) stick(g, status_prefix(status, "node '%s' (%s)", n->name ? n->name : "", d->op));
  return g->status == RLX_OK ? n : NULL;
}

/* An op that is there for its effect alone. */
static bool makes_nothing(const rlx_graph *g, const char *op) {
  op_entry *e = op ? registry_find_op(g->registry, op, 0) : NULL;
  bool nothing = e && e->output_count == 0;
  op_entry_release(e);
  return nothing;
}

rlx_node *rlx_graph_node(rlx_graph *g, const rlx_node_desc *desc) {
  if (!g || g->status != RLX_OK) return NULL;
  if (!desc) {
    stick(g, RLX_FAIL(INVALID, "a node without a description"));
    return NULL;
  }
  rlx_node_desc d = *desc;
  if (d.output_count == 0 && !makes_nothing(g, d.op)) d.output_count = 1;
  if (d.output_count < 0 || d.input_count < 0 || d.attr_count < 0) {
    stick(g, RLX_FAIL(INVALID, "node '%s': negative count", d.name ? d.name : ""));
    return NULL;
  }
  if (d.output_count > MOST_PORTS || d.input_count > MOST_PORTS || (d.input_count && !d.inputs) ||
      (d.attr_count && !d.attrs)) {
    stick(g, RLX_FAIL(INVALID, "node '%s': more than %d ports, or a count without its list", d.name ? d.name : "",
                      MOST_PORTS));
    return NULL;
  }
  rlx_value **outputs = arena_array(&g->memory, (size_t)d.output_count, sizeof *outputs);
  if (!outputs) {
    stick(g, status_no_memory((size_t)d.output_count * sizeof *outputs));
    return NULL;
  }
  for (int i = 0; i < d.output_count; i++) {
    outputs[i] = named_value(g, d.output_names ? d.output_names[i] : NULL);
    if (!outputs[i]) return NULL;
  }
  return graph_add_node(g, &d, outputs);
}

rlx_value *rlx_graph_op(rlx_graph *g, const char *op, const rlx_attr *attrs, int attr_count, rlx_value *const *inputs,
                        int input_count) {
  rlx_node_desc d = {.struct_size = sizeof d,
                     .op = op,
                     .inputs = inputs,
                     .input_count = input_count,
                     .attrs = attrs,
                     .attr_count = attr_count,
                     .output_count = 1};
  return rlx_node_output(rlx_graph_node(g, &d), 0);
}
