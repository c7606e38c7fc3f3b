/* graph_equal.c — structural equality of graphs, for tests. */
#include "support/graph_equal.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "ir/shape.h"

static char difference[512];

__attribute__((format(printf, 1, 2))) static bool differ(const char *format, ...) {
  va_list args;
  va_start(args, format);
  vsnprintf(difference, sizeof difference, format, args);
  va_end(args);
  return false;
}

static bool same_text(const char *a, const char *b) { return strcmp(a ? a : "", b ? b : "") == 0; }

static bool same_string(rlx_string a, rlx_string b) {
  return a.size == b.size && (a.size == 0 || memcmp(a.data, b.data, a.size) == 0);
}

static bool same_value(const rlx_value *a, const rlx_value *b) {
  char x[300], y[300];
  if (!same_text(a->name, b->name)) return differ("value '%s' against '%s'", a->name, b->name);
  if (!type_equal(&a->type, &b->type))
    return differ("value '%s': %s against %s", a->name, type_text(&a->type, x, sizeof x),
                  type_text(&b->type, y, sizeof y));
  for (int i = 0; i < a->type.rank; i++)
    if (a->type.dims[i] < 0 && !same_text(a->symbols ? a->symbols[i] : NULL, b->symbols ? b->symbols[i] : NULL))
      return differ("value '%s': symbols of dim %d", a->name, i);
  if (a->layout != b->layout) return differ("value '%s': layout %u against %u", a->name, a->layout, b->layout);
  if (!a->constant != !b->constant) return differ("value '%s': constant against none", a->name);
  if (a->constant && !tensor_equal(a->constant, b->constant)) return differ("value '%s': contents", a->name);
  return a->is_input == b->is_input && a->is_output == b->is_output ? true : differ("value '%s': port", a->name);
}

static int levels(const rlx_graph *g, const rlx_value *v) {
  int n = 0;
  for (; g && g != v->graph; g = g->parent) n++;
  return g ? n : -1;
}

/* The same name, as far out. */
static bool same_use(const rlx_graph *a, const rlx_value *x, const rlx_graph *b, const rlx_value *y) {
  if (!x || !y) return x == y ? true : differ("an input is left out on one side");
  if (levels(a, x) != levels(b, y))
    return differ("use of '%s' from %d graphs out, %d", x->name, levels(a, x), levels(b, y));
  return same_text(x->name, y->name) ? true : differ("use of '%s' against '%s'", x->name, y->name);
}

static bool same_graph(const rlx_graph *a, const rlx_graph *b);

static bool same_item(const rlx_attr *a, const rlx_attr *b, size_t i) {
  switch (a->kind) {
    case RLX_ATTR_FLOATS: return memcmp(&a->floats[i], &b->floats[i], sizeof *a->floats) == 0;
    case RLX_ATTR_INTS: return a->ints[i] == b->ints[i];
    case RLX_ATTR_STRINGS: return same_string(a->strings[i], b->strings[i]);
    case RLX_ATTR_TENSORS: return tensor_equal(a->tensors[i], b->tensors[i]);
    case RLX_ATTR_GRAPHS: return same_graph(a->graphs[i], b->graphs[i]);
    default: return type_equal(&a->types[i], &b->types[i]);
  }
}

static bool same_items(const rlx_attr *a, const rlx_attr *b) {
  if (a->count != b->count) return false;
  for (size_t i = 0; i < a->count; i++)
    if (!same_item(a, b, i)) return false;
  return true;
}

static bool same_attr(const rlx_attr *a, const rlx_attr *b) {
  if (a->kind != b->kind || !same_text(a->name, b->name)) return false;
  switch (a->kind) {
    case RLX_ATTR_FLOAT: return memcmp(&a->f, &b->f, sizeof a->f) == 0;
    case RLX_ATTR_INT: return a->i == b->i;
    case RLX_ATTR_STRING:
    case RLX_ATTR_BYTES: return same_string(a->s, b->s);
    case RLX_ATTR_TENSOR: return tensor_equal(a->tensor, b->tensor);
    case RLX_ATTR_GRAPH: return same_graph(a->graph, b->graph);
    case RLX_ATTR_TYPE: return type_equal(a->types, b->types);
    default: return same_items(a, b);
  }
}

static bool same_node(const rlx_node *a, const rlx_node *b) {
  if (!same_text(a->name, b->name)) return differ("node '%s' against '%s'", a->name, b->name);
  if (!same_text(a->op_name, b->op_name) || a->opset != b->opset || a->op != b->op)
    return differ("node '%s': %s@%d against %s@%d", a->name, a->op_name, a->opset, b->op_name, b->opset);
  if (!same_text(a->origin, b->origin)) return differ("node '%s': origin", a->name);
  if (a->input_count != b->input_count || a->output_count != b->output_count || a->attr_count != b->attr_count)
    return differ("node '%s': counts", a->name);
  for (int i = 0; i < a->input_count; i++)
    if (!same_use(a->graph, a->inputs[i], b->graph, b->inputs[i])) return false;
  for (int i = 0; i < a->output_count; i++)
    if (!same_value(a->outputs[i], b->outputs[i])) return false;
  for (int i = 0; i < a->attr_count; i++)
    if (!same_attr(&a->attrs[i], &b->attrs[i])) {
      char inner[480];
      snprintf(inner, sizeof inner, "%.400s", difference);
      return differ("node '%s': attribute '%s' %s", a->name, a->attrs[i].name, inner);
    }
  return true;
}

static bool same_lists(const rlx_graph *a, const rlx_graph *b) {
  if (a->opsets.count != b->opsets.count || a->metadata.count != b->metadata.count)
    return differ("counts of the header");
  for (size_t i = 0; i < a->opsets.count; i++)
    if (!same_text(a->opsets.data[i].domain, b->opsets.data[i].domain) ||
        a->opsets.data[i].version != b->opsets.data[i].version)
      return differ("opset %zu", i);
  for (size_t i = 0; i < a->metadata.count; i++)
    if (!same_text(a->metadata.data[i].key, b->metadata.data[i].key) ||
        !same_text(a->metadata.data[i].value, b->metadata.data[i].value))
      return differ("metadata %zu", i);
  return true;
}

static bool same_constants(const rlx_graph *a, const rlx_graph *b) {
  size_t left = 0, right = 0;
  for (size_t i = 0; i < b->values.count; i++) right += b->values.data[i]->constant != NULL;
  for (size_t i = 0; i < a->values.count; i++) {
    if (!a->values.data[i]->constant) continue;
    const rlx_value *other = map_get(&b->names, a->values.data[i]->name);
    if (!other) return differ("no constant '%s'", a->values.data[i]->name);
    if (!same_value(a->values.data[i], other)) return false;
    left++;
  }
  return left == right ? true : differ("%zu constants against %zu", left, right);
}

static bool same_graph(const rlx_graph *a, const rlx_graph *b) {
  if (!same_text(a->name, b->name)) return differ("graph '%s' against '%s'", a->name, b->name);
  if (!same_lists(a, b) || !same_constants(a, b)) return false;
  if (a->inputs.count != b->inputs.count || a->outputs.count != b->outputs.count || a->nodes.count != b->nodes.count)
    return differ("graph '%s': counts of inputs, outputs or nodes", a->name);
  for (size_t i = 0; i < a->inputs.count; i++)
    if (!same_value(a->inputs.data[i], b->inputs.data[i])) return false;
  for (size_t i = 0; i < a->nodes.count; i++)
    if (!same_node(a->nodes.data[i], b->nodes.data[i])) return false;
  for (size_t i = 0; i < a->outputs.count; i++) {
    if (!same_use(a, a->outputs.data[i].value, b, b->outputs.data[i].value)) return false;
    if (!same_text(a->outputs.data[i].name, b->outputs.data[i].name)) return differ("output %zu: name", i);
  }
  return true;
}

const char *graph_difference(const rlx_graph *a, const rlx_graph *b) {
  difference[0] = '\0';
  return same_graph(a, b) ? NULL : *difference ? difference : "differ";
}
