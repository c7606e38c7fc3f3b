/* graph_match.c — matching of graphs up to names and order, for pass tests. */
#include "support/graph_match.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "ir/print.h"
#include "ir/shape.h"

/* Pairs found so far: actual value or node → expected one. */
typedef struct matcher {
  map pairs;
  char difference[2048];
} matcher;

__attribute__((format(printf, 2, 3))) static bool differ(matcher *m, const char *format, ...) {
  va_list args;
  va_start(args, format);
  if (!*m->difference) vsnprintf(m->difference, sizeof m->difference, format, args);
  va_end(args);
  return false;
}

static bool match_graph(matcher *m, const rlx_graph *e, const rlx_graph *a, bool top);
static bool match_value(matcher *m, const rlx_value *e, const rlx_value *a);

static bool node_differs(matcher *m, const char *what, const rlx_node *e, const rlx_node *a) {
  text expected = {0}, actual = {0};
  node_print(e, &expected);
  node_print(a, &actual);
  differ(m, "%s: expected\n  %s\nfound\n  %s", what, expected.data, actual.data);
  text_finish(&expected);
  text_finish(&actual);
  return false;
}

/* ---- attributes ---- */

static bool same_string(rlx_string a, rlx_string b) {
  return a.size == b.size && (a.size == 0 || memcmp(a.data, b.data, a.size) == 0);
}

static bool match_item(matcher *m, const rlx_attr *e, const rlx_attr *a, size_t i) {
  switch (e->kind) {
    case RLX_ATTR_FLOATS: return memcmp(&e->floats[i], &a->floats[i], sizeof *e->floats) == 0;
    case RLX_ATTR_INTS: return e->ints[i] == a->ints[i];
    case RLX_ATTR_STRINGS: return same_string(e->strings[i], a->strings[i]);
    case RLX_ATTR_TENSORS: return tensor_equal(e->tensors[i], a->tensors[i]);
    case RLX_ATTR_GRAPHS: return match_graph(m, e->graphs[i], a->graphs[i], false);
    default: return type_equal(&e->types[i], &a->types[i]);
  }
}

static bool match_attr(matcher *m, const rlx_attr *e, const rlx_attr *a) {
  if (!a || e->kind != a->kind) return false;
  switch (e->kind) {
    case RLX_ATTR_FLOAT: return memcmp(&e->f, &a->f, sizeof e->f) == 0;
    case RLX_ATTR_INT: return e->i == a->i;
    case RLX_ATTR_STRING:
    case RLX_ATTR_BYTES: return same_string(e->s, a->s);
    case RLX_ATTR_TENSOR: return tensor_equal(e->tensor, a->tensor);
    case RLX_ATTR_GRAPH: return match_graph(m, e->graph, a->graph, false);
    case RLX_ATTR_TYPE: return type_equal(e->types, a->types);
    default: break;
  }
  bool same = e->count == a->count;
  for (size_t i = 0; i < e->count && same; i++) same = match_item(m, e, a, i);
  return same;
}

/* ---- nodes and values ---- */

static bool match_node(matcher *m, const rlx_node *e, const rlx_node *a) {
  const void *known = map_get_bytes(&m->pairs, &a, sizeof a);
  if (known) return known == e ? true : node_differs(m, "a node stands for two", e, a);
  if (strcmp(e->op_name, a->op_name) != 0) return node_differs(m, "op", e, a);
  if (e->input_count != a->input_count || e->output_count != a->output_count || e->attr_count != a->attr_count)
    return node_differs(m, "counts", e, a);
  for (int i = 0; i < e->input_count; i++)
    if (!match_value(m, e->inputs[i], a->inputs[i])) return node_differs(m, "inputs", e, a);
  for (int i = 0; i < e->attr_count; i++)
    if (!match_attr(m, &e->attrs[i], node_attr(a, e->attrs[i].name))) return node_differs(m, "attributes", e, a);
  if (e->origin && (!a->origin || strcmp(e->origin, a->origin) != 0)) return node_differs(m, "origin", e, a);
  return map_put_bytes(&m->pairs, &a, sizeof a, (void *)(uintptr_t)e) ? true : differ(m, "no memory");
}

static bool match_type(matcher *m, const rlx_value *e, const rlx_value *a) {
  char expected[300], actual[300];
  rlx_type wanted = e->type;
  if (wanted.dtype == RLX_UNDEFINED) return true;
  if (e->layout != a->layout) return differ(m, "'%s' has layout %u, expected %u", a->name, a->layout, e->layout);
  bool same = type_admits(&wanted, &a->type);
  for (int i = 0; i < wanted.rank && same; i++)
    if (e->symbols && e->symbols[i] && wanted.dims[i] < 0)
      same = a->symbols && a->symbols[i] && strcmp(e->symbols[i], a->symbols[i]) == 0;
  return same ? true
              : differ(m, "'%s' is %s, expected %s", a->name, type_text(&a->type, actual, sizeof actual),
                       type_text(&wanted, expected, sizeof expected));
}

static bool match_value(matcher *m, const rlx_value *e, const rlx_value *a) {
  if (!e || !a) return !e && !a ? true : differ(m, "an input is left out on one side");
  const void *known = map_get_bytes(&m->pairs, &a, sizeof a);
  if (known) return known == e ? true : differ(m, "'%s' stands where '%s' is expected", a->name, e->name);
  if (!match_type(m, e, a)) return false;
  if (!e->constant != !a->constant) return differ(m, "'%s' is%s constant", a->name, a->constant ? "" : " not");
  if (e->constant) /* not paired: one constant may stand for two equal ones */
    return tensor_equal(e->constant, a->constant) ? true : differ(m, "contents of '%s' and '%s'", e->name, a->name);
  if (e->is_input || a->is_input) return differ(m, "'%s' stands where '%s' is expected", a->name, e->name);
  if (!match_node(m, e->producer, a->producer)) return false;
  if (e->index != a->index) return differ(m, "output %d of a node, expected %d", a->index, e->index);
  return map_put_bytes(&m->pairs, &a, sizeof a, (void *)(uintptr_t)e) ? true : differ(m, "no memory");
}

/* ---- graphs ---- */

static bool match_inputs(matcher *m, const rlx_graph *e, const rlx_graph *a, bool top) {
  if (e->inputs.count != a->inputs.count)
    return differ(m, "%zu inputs, expected %zu", a->inputs.count, e->inputs.count);
  for (size_t i = 0; i < e->inputs.count; i++) {
    const rlx_value *x = e->inputs.data[i], *y = a->inputs.data[i];
    if (top && strcmp(x->name, y->name) != 0) return differ(m, "input '%s', expected '%s'", y->name, x->name);
    if (!match_type(m, x, y)) return false;
    if (!map_put_bytes(&m->pairs, &y, sizeof y, (void *)(uintptr_t)x)) return differ(m, "no memory");
  }
  return true;
}

/* Nodes that no output leads to, such as those with side effects, are matched in order. */
static bool match_rest(matcher *m, const rlx_graph *e, const rlx_graph *a) {
  map seen = {0};
  size_t next = 0;
  bool same = true;
  for (size_t i = 0; i < a->nodes.count; i++) {
    const rlx_node *known = map_get_bytes(&m->pairs, &a->nodes.data[i], sizeof a->nodes.data[i]);
    if (known) same = map_put_bytes(&seen, &known, sizeof known, (void *)(uintptr_t)known) && same;
  }
  for (size_t i = 0; i < a->nodes.count && same; i++) {
    if (map_get_bytes(&m->pairs, &a->nodes.data[i], sizeof a->nodes.data[i])) continue;
    while (next < e->nodes.count && map_get_bytes(&seen, &e->nodes.data[next], sizeof e->nodes.data[next])) next++;
    same = next < e->nodes.count && match_node(m, e->nodes.data[next++], a->nodes.data[i]);
  }
  map_finish(&seen);
  if (a->nodes.count != e->nodes.count) return differ(m, "%zu nodes, expected %zu", a->nodes.count, e->nodes.count);
  return same;
}

static bool match_graph(matcher *m, const rlx_graph *e, const rlx_graph *a, bool top) {
  if (!match_inputs(m, e, a, top)) return false;
  if (e->outputs.count != a->outputs.count)
    return differ(m, "%zu outputs, expected %zu", a->outputs.count, e->outputs.count);
  for (size_t i = 0; i < e->outputs.count; i++) {
    const graph_output *x = &e->outputs.data[i], *y = &a->outputs.data[i];
    if (top && strcmp(x->name, y->name) != 0) return differ(m, "output '%s', expected '%s'", y->name, x->name);
    if (!match_value(m, x->value, y->value)) return false;
  }
  return match_rest(m, e, a);
}

const char *graph_mismatch(const rlx_graph *expected, const rlx_graph *actual) {
  static matcher m;
  m = (matcher){0};
  bool same = match_graph(&m, expected, actual, true);
  map_finish(&m.pairs);
  return same ? NULL : *m.difference ? m.difference : "differ";
}
