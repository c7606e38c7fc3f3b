/* print.c — graphs to text. */
#include "ir/print.h"

#include <inttypes.h>
#include <limits.h>
#include <string.h>

#include "base/file.h"
#include "base/need.h"
#include "ir/lexer.h"
#include "ir/number.h"
#include "ir/registry.h"
#include "ir/tensor_text.h"

typedef struct printer {
  text *out;
  text side;            /* contents of the side file so far */
  const char *location; /* the side file's name in the text; NULL: contents stay inline */
  bool people;          /* graph_dump's form */
  bool one_line;        /* no subgraphs */
  rlx_status status;
} printer;

static void print_graph(printer *p, const rlx_graph *g, int depth);

/* ---- types ---- */

void type_print(const rlx_type *t, const char *const *symbols, text *out) {
  static const char *const kinds[] = {
      [RLX_KIND_SEQUENCE] = "seq(", [RLX_KIND_OPTIONAL] = "optional(", [RLX_KIND_MAP] = "map("};
  rlx_type held;
  if (rlx_type_held(t, &held)) {
    text_add(out, kinds[t->kind]);
    if (t->kind == RLX_KIND_MAP) text_printf(out, "%s, ", rlx_dtype_name(rlx_type_key(t)));
    type_print(&held, NULL, out);
    text_add(out, ")");
    return;
  }
  text_add(out, rlx_dtype_name(t->dtype));
  if (t->rank == RLX_UNKNOWN) text_add(out, "[]");
  for (int i = 0; i < t->rank; i++) {
    text_add(out, i ? "," : "[");
    if (t->dims[i] >= 0)
      text_printf(out, "%" PRId64, t->dims[i]);
    else if (symbols && symbols[i] && *symbols[i])
      lexer_print_name(out, symbols[i]);
    else
      text_add(out, "?");
  }
  if (t->rank > 0) text_add(out, "]");
}

static bool is_known(const rlx_type *t) {
  return t->kind != RLX_KIND_TENSOR || t->dtype != RLX_UNDEFINED || t->rank != RLX_UNKNOWN;
}

static void print_typed_name(printer *p, const rlx_value *v) {
  if (is_known(&v->type)) {
    type_print(&v->type, v->symbols, p->out);
    if (v->layout) text_printf(p->out, "@%" PRIu32, v->layout);
    text_add(p->out, " ");
  }
  lexer_print_name(p->out, v->name);
}

/* ---- tensors ---- */

enum { SIDE_ALIGN = 64 };

static void print_external(printer *p, const rlx_tensor *t) {
  static const char zeros[SIDE_ALIGN];
  text_add_bytes(&p->side, zeros, (SIDE_ALIGN - p->side.size % SIDE_ALIGN) % SIDE_ALIGN);
  text_add(p->out, "[\"location\": ");
  lexer_print_string(p->out, p->location, strlen(p->location));
  text_printf(p->out, ", \"offset\": \"%zu\", \"length\": \"%zu\"", p->side.size, t->bytes);
  text_printf(p->out, ", \"xxh3\": \"%016" PRIx64 "\"]", hash_bytes(t->data, t->bytes, 0));
  text_add_bytes(&p->side, t->data, t->bytes);
}

static void print_contents(printer *p, const rlx_tensor *t) {
  bool large = t->count > PRINT_INLINE_MAX;
  if (large && p->people)
    text_add(p->out, "{...}");
  else if (large && p->location && t->dtype != RLX_STRING)
    print_external(p, t);
  else
    tensor_print_data(t, p->out);
}

static void print_tensor(printer *p, const rlx_tensor *t) {
  rlx_type type;
  rlx_tensor_type(t, &type);
  type_print(&type, NULL, p->out);
  text_add(p->out, " ");
  print_contents(p, t);
}

/* ---- attributes ---- */

static void print_float(printer *p, float f) {
  char number[NUMBER_TEXT];
  text_add(p->out, number_print_float(f, false, number));
}

static void print_subgraph(printer *p, const rlx_graph *g, int depth) {
  if (p->one_line)
    text_add(p->out, "{...}");
  else
    print_graph(p, g, depth);
}

static void print_bytes(printer *p, rlx_string s) {
  text_add(p->out, "bytes\"");
  for (size_t i = 0; i < s.size; i++) text_printf(p->out, "%02x", (unsigned char)s.data[i]);
  text_add(p->out, "\"");
}

static void print_item(printer *p, const rlx_attr *a, size_t i, int depth) {
  switch (a->kind) {
    case RLX_ATTR_FLOATS: print_float(p, a->floats[i]); break;
    case RLX_ATTR_INTS: text_printf(p->out, "%" PRId64, a->ints[i]); break;
    case RLX_ATTR_STRINGS: lexer_print_string(p->out, a->strings[i].data, a->strings[i].size); break;
    case RLX_ATTR_TENSORS: print_tensor(p, a->tensors[i]); break;
    case RLX_ATTR_GRAPHS: print_subgraph(p, a->graphs[i], depth); break;
    default: type_print(&a->types[i], NULL, p->out); break;
  }
}

static void print_list(printer *p, const rlx_attr *a, int depth) {
  text_add(p->out, "[");
  for (size_t i = 0; i < a->count; i++) {
    if (i) text_add(p->out, ", ");
    print_item(p, a, i, depth);
  }
  text_add(p->out, "]");
}

/* The kind is written only where the value does not show it. */
static const char *kind_word(const rlx_attr *a) {
  switch (a->kind) {
    case RLX_ATTR_TYPE: return ": type_proto";
    case RLX_ATTR_TYPES: return ": type_protos";
    case RLX_ATTR_FLOATS: return a->count ? "" : ": floats";
    case RLX_ATTR_INTS: return a->count ? "" : ": ints";
    case RLX_ATTR_STRINGS: return a->count ? "" : ": strings";
    case RLX_ATTR_TENSORS: return a->count ? "" : ": tensors";
    case RLX_ATTR_GRAPHS: return a->count ? "" : ": graphs";
    default: return "";
  }
}

static void print_attr(printer *p, const rlx_attr *a, int depth) {
  lexer_print_name(p->out, a->name);
  text_printf(p->out, "%s = ", kind_word(a));
  switch (a->kind) {
    case RLX_ATTR_FLOAT: print_float(p, a->f); break;
    case RLX_ATTR_INT: text_printf(p->out, "%" PRId64, a->i); break;
    case RLX_ATTR_STRING: lexer_print_string(p->out, a->s.data, a->s.size); break;
    case RLX_ATTR_BYTES: print_bytes(p, a->s); break;
    case RLX_ATTR_TENSOR: print_tensor(p, a->tensor); break;
    case RLX_ATTR_GRAPH: print_subgraph(p, a->graph, depth); break;
    case RLX_ATTR_TYPE: type_print(a->types, NULL, p->out); break;
    case RLX_ATTR_FLOATS:
    case RLX_ATTR_INTS:
    case RLX_ATTR_STRINGS:
    case RLX_ATTR_TENSORS:
    case RLX_ATTR_GRAPHS:
    case RLX_ATTR_TYPES: print_list(p, a, depth); break;
    default: p->status = RLX_FAIL(UNSUPPORTED, "print: attribute '%s' is of kind %d: no text form", a->name, a->kind);
  }
}

static void print_attrs(printer *p, const rlx_node *n, int depth) {
  for (int i = 0; i < n->attr_count; i++) {
    text_add(p->out, i ? ", " : " <");
    print_attr(p, &n->attrs[i], depth);
  }
  if (n->attr_count) text_add(p->out, ">");
}

/* ---- nodes ---- */

static bool is_plain_path(const char *name) {
  char part[128];
  for (const char *p = name; *p;) {
    size_t size = strcspn(p, ".");
    if (size >= sizeof part) return false;
    memcpy(part, p, size);
    part[size] = '\0';
    if (!lexer_is_plain(part)) return false;
    p += size;
    if (*p == '.' && !*++p) return false;
  }
  /* The parser reads "ai.onnx.Relu" as ONNX's own: as a name of its own it needs quotes. */
  return strchr(name, '.') != NULL && !(op_domain_length(name) == 7 && strncmp(name, "ai.onnx.", 8) == 0);
}

/* "@version" where it is not the graph's. */
static void print_version(printer *p, const rlx_node *n, size_t domain) {
  int graph_version = graph_opset_version(n->graph, n->op_name, domain);
  if (p->people && n->op) { /* passes leave opset_import behind: say the version where it is not the newest */
    op_entry *newest = registry_find_op(n->graph->registry, n->op_name, 0);
    if (newest != n->op) text_printf(p->out, "@%d", n->op->op.version ? n->op->op.version : 1);
    op_entry_release(newest);
  } else if (n->opset == INT_MAX) {
    text_add(p->out, "@newest");
  } else if (n->opset != graph_version) {
    text_printf(p->out, "@%d", n->opset);
  }
}

/* "Relu", "acme.my_op", or the whole dotted name in quotes. */
static void print_op(printer *p, const rlx_node *n) {
  const char *name = n->op_name;
  size_t domain = op_domain_length(name);
  if (domain == 4 && strncmp(name, "onnx.", 5) == 0 && lexer_is_plain(name + 5))
    text_add(p->out, name + 5);
  else if (is_plain_path(name))
    text_add(p->out, name);
  else
    lexer_print_string(p->out, name, strlen(name));
  print_version(p, n, domain);
}

/* A use of v inside g. Where graphs between have a value of the same name, "^" leads out past them. */
static void print_use(printer *p, const rlx_graph *g, const rlx_value *v) {
  int levels = 0;
  bool hidden = false;
  const rlx_graph *h = g;
  for (; h && h != v->graph; h = h->parent) {
    hidden = hidden || map_get(&h->names, v->name);
    levels++;
  }
  if (!h) {
    p->status = RLX_FAIL(INVALID, "print: value '%s' belongs to no graph around its use", v->name);
    return;
  }
  for (int i = 0; hidden && i < levels; i++) text_add(p->out, "^");
  lexer_print_name(p->out, v->name);
}

static void print_label(printer *p, const rlx_node *n) {
  if (!*n->name && !n->origin) return;
  text_add(p->out, "[");
  lexer_print_name(p->out, n->name);
  if (n->origin) {
    text_add(p->out, ": ");
    lexer_print_string(p->out, n->origin, strlen(n->origin));
  }
  text_add(p->out, "] ");
}

static void print_node(printer *p, const rlx_node *n, int depth) {
  print_label(p, n);
  for (int i = 0; i < n->output_count; i++) {
    if (i) text_add(p->out, ", ");
    if (p->people && *n->outputs[i]->name)
      print_typed_name(p, n->outputs[i]);
    else
      lexer_print_name(p->out, n->outputs[i]->name);
  }
  text_add(p->out, " = ");
  print_op(p, n);
  bool late = node_subgraph(n, 0) != NULL; /* as ONNX's printer has it: else the inputs would be hard to find */
  if (!late) print_attrs(p, n, depth);
  text_add(p->out, " (");
  for (int i = 0; i < n->input_count; i++) {
    if (i) text_add(p->out, ", ");
    if (n->inputs[i])
      print_use(p, n->graph, n->inputs[i]);
    else
      text_add(p->out, "\"\"");
  }
  text_add(p->out, ")");
  if (late) print_attrs(p, n, depth);
}

/* ---- graphs ---- */

static void new_line(printer *p, int depth) {
  text_add(p->out, "\n");
  for (int i = 0; i < depth; i++) text_add(p->out, "   ");
}

static void print_ports(printer *p, const rlx_graph *g) {
  text_add(p->out, " (");
  for (size_t i = 0; i < g->inputs.count; i++) {
    if (i) text_add(p->out, ", ");
    print_typed_name(p, g->inputs.data[i]);
  }
  for (size_t i = 0; i < g->defaults.count && !p->people; i++) {
    if (i || g->inputs.count) text_add(p->out, ", ");
    type_print(&g->defaults.data[i].type, NULL, p->out);
    text_add(p->out, " ");
    lexer_print_name(p->out, g->defaults.data[i].value->name);
  }
  text_add(p->out, ") => (");
  for (size_t i = 0; i < g->outputs.count; i++) {
    const graph_output *o = &g->outputs.data[i];
    if (i) text_add(p->out, ", ");
    if (strcmp(o->name, o->value->name) == 0 && o->value->graph == g) {
      print_typed_name(p, o->value);
      continue;
    }
    lexer_print_name(p->out, o->name);
    text_add(p->out, " = ");
    print_use(p, g, o->value);
  }
  text_add(p->out, ")");
}

/* Does the list of outputs give the type of v? */
static bool typed_as_output(const rlx_value *v) {
  for (size_t i = 0; v->is_output && i < v->graph->outputs.count; i++) {
    const graph_output *o = &v->graph->outputs.data[i];
    if (o->value == v && strcmp(o->name, v->name) == 0) return true;
  }
  return false;
}

static void print_constant(printer *p, const rlx_value *v) {
  rlx_type type;
  rlx_tensor_type(v->constant, &type);
  type_print(&type, NULL, p->out);
  text_add(p->out, " ");
  lexer_print_name(p->out, v->name);
  text_add(p->out, " = ");
  print_contents(p, v->constant);
}

/* Constants, and in ONNX's form the types of what the nodes give. People see no constants that nothing uses: passes
 * leave them behind. */
static void print_values(printer *p, const rlx_graph *g, int depth) {
  int printed = 0;
  arena memory = {0};
  const uint32_t *uses = p->people ? graph_use_counts(g, &memory) : NULL;
  for (size_t i = 0; i < g->values.count; i++) {
    const rlx_value *v = g->values.data[i];
    bool typed = !p->people && v->producer && *v->name && is_known(&v->type) && !typed_as_output(v);
    if ((!v->constant && !typed) || (uses && !uses[i])) continue;
    if (printed++) text_add(p->out, ",");
    new_line(p, depth + 1);
    if (printed == 1) text_add(p->out, "<");
    if (v->constant)
      print_constant(p, v);
    else
      print_typed_name(p, v);
  }
  if (printed) text_add(p->out, ">");
  arena_finish(&memory);
}

static void print_graph(printer *p, const rlx_graph *g, int depth) {
  lexer_print_name(p->out, g->name ? g->name : "");
  print_ports(p, g);
  print_values(p, g, depth);
  new_line(p, depth);
  text_add(p->out, "{");
  for (size_t i = 0; i < g->nodes.count; i++) {
    new_line(p, depth + 1);
    print_node(p, g->nodes.data[i], depth + 1);
  }
  new_line(p, depth);
  text_add(p->out, "}");
}

static void print_header(printer *p, const rlx_graph *g) {
  text_add(p->out, "<ir_version: 10, opset_import: [");
  for (size_t i = 0; i < g->opsets.count; i++) {
    const graph_opset *o = &g->opsets.data[i];
    const char *domain = strcmp(o->domain, "onnx") == 0 ? "" : o->domain;
    if (i) text_add(p->out, ", ");
    lexer_print_string(p->out, domain, strlen(domain));
    text_printf(p->out, " : %d", o->version);
  }
  text_add(p->out, "]");
  for (size_t i = 0; i < g->metadata.count; i++) {
    const graph_metadata *m = &g->metadata.data[i];
    text_add(p->out, i ? ", " : ", metadata_props: [");
    lexer_print_string(p->out, m->key, strlen(m->key));
    text_add(p->out, ": ");
    lexer_print_string(p->out, m->value, strlen(m->value));
  }
  text_add(p->out, g->metadata.count ? "]>\n" : ">\n");
}

static void print_model(printer *p, const rlx_graph *g) {
  print_header(p, g);
  print_graph(p, g, 0);
  text_add(p->out, "\n");
}

rlx_status graph_print(const rlx_graph *g, const char *side, text *out) {
  const char *slash = side ? strrchr(side, '/') : NULL;
  printer p = {.out = out, .location = slash ? slash + 1 : side};
  print_model(&p, g);
  if (p.status == RLX_OK && (out->failed || p.side.failed)) p.status = status_no_memory(out->size + p.side.size);
  if (p.status == RLX_OK && p.side.size) p.status = file_write(side, p.side.data, p.side.size);
  text_finish(&p.side);
  return p.status;
}

void graph_dump(const rlx_graph *g, text *out) {
  printer p = {.out = out, .people = true};
  print_model(&p, g);
}

void node_print(const rlx_node *n, text *out) {
  printer p = {.out = out, .people = true, .one_line = true};
  print_node(&p, n, 0);
}

rlx_status rlx_graph_print(const rlx_graph *g, char **out) {
  RLX_NEED(g);
  RLX_NEED(out);
  text t = {0};
  rlx_status status = graph_print(g, NULL, &t);
  if (status != RLX_OK) {
    text_finish(&t);
    return status;
  }
  char *taken = text_take(&t);
  if (!taken) return status_no_memory(0);
  *out = taken;
  return RLX_OK;
}
