/* _derivative.c — a recursive-descent reader of derivative formulas that adds the nodes as it goes. */
#include "ops/_derivative.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "ir/dtype.h"
#include "ir/graph.h"
#include "ir/parser.h"
#include "ir/shape.h"

/* A value, or a number not yet made a constant. */
typedef struct term {
  rlx_value *value;
  double number;
} term;

typedef struct reader {
  rlx_graph *graph;
  const char *at;
  const derivative_terms *terms;
  int skipping; /* nonzero: reads without adding nodes */
} reader;

static term read_expression(reader *r);

static rlx_value *constant(reader *r, double number) {
  rlx_tensor *t;
  if (rlx_tensor_create(r->terms->dtype, 0, NULL, &t) != RLX_OK) {
    rlx_graph_fail(r->graph, RLX_OUT_OF_MEMORY, "no memory for a constant");
    return NULL;
  }
  dtype_store(r->terms->dtype, rlx_tensor_data(t), 0, number);
  rlx_value *v = rlx_graph_constant(r->graph, NULL, t);
  rlx_tensor_destroy(t);
  return v;
}

static term add_node(reader *r, const char *name, size_t length, const term *args, int count) {
  if (r->skipping) return (term){0};
  char op[64] = "onnx.";
  rlx_value *in[3];
  if (length > sizeof op - 6 || count > 3) {
    rlx_graph_fail(r->graph, RLX_INTERNAL, "derivative formula: \"%.*s\"", (int)length, name);
    return (term){0};
  }
  memcpy(op + 5, name, length);
  for (int i = 0; i < count; i++) in[i] = args[i].value ? args[i].value : constant(r, args[i].number);
  return (term){.value = rlx_graph_op(r->graph, op, NULL, 0, in, count)};
}

static bool take(reader *r, const char *word) {
  while (*r->at == ' ') r->at++;
  size_t length = strlen(word);
  if (strncmp(r->at, word, length) != 0) return false;
  r->at += length;
  return true;
}

/* If(number, then, else): only the branch taken adds nodes. */
static term read_if(reader *r) {
  term condition = read_expression(r), result, other;
  take(r, ",");
  bool first = condition.number != 0;
  r->skipping += !first;
  result = read_expression(r);
  r->skipping -= !first;
  take(r, ",");
  r->skipping += first;
  other = read_expression(r);
  r->skipping -= first;
  take(r, ")");
  return first ? result : other;
}

static term named_term(reader *r, char name) {
  const derivative_terms *t = r->terms;
  switch (name) {
    case 'x': return (term){.value = t->x};
    case 'y': return (term){.value = t->y};
    case 'z': return (term){.value = t->z};
    case 'r': return (term){.value = t->r};
    case 'g': return (term){.value = t->g};
    case 'a': return (term){.number = t->a};
    case 'b': return (term){.number = t->b};
    default: return (term){.number = t->n};
  }
}

static term read_primary(reader *r) {
  if (take(r, "(")) {
    term inner = read_expression(r);
    take(r, ")");
    return inner;
  }
  if (isdigit((unsigned char)*r->at)) {
    char *end;
    double number = strtod(r->at, &end);
    r->at = end;
    return (term){.number = number};
  }
  const char *name = r->at;
  while (isalnum((unsigned char)*r->at)) r->at++;
  size_t length = (size_t)(r->at - name);
  if (length <= 1) return named_term(r, *name);
  take(r, "(");
  if (strncmp(name, "If", 2) == 0) return read_if(r);
  term args[3];
  int count = 0;
  do {
    args[count++] = read_expression(r);
  } while (count < 3 && take(r, ","));
  take(r, ")");
  return add_node(r, name, length, args, count);
}

static term read_unary(reader *r) {
  if (!take(r, "-")) return read_primary(r);
  term inner = read_unary(r);
  if (inner.value == NULL) return (term){.number = -inner.number};
  return add_node(r, "Neg", 3, &inner, 1);
}

static term combine(reader *r, const char *name, term left, term right) {
  if (left.value == NULL && right.value == NULL && !r->skipping) {
    double x = left.number, y = right.number;
    return (term){.number = *name == 'A' ? x + y : *name == 'S' ? x - y : *name == 'M' ? x * y : x / y};
  }
  return add_node(r, name, strlen(name), (term[]){left, right}, 2);
}

static term read_product(reader *r) {
  term left = read_unary(r);
  for (;;) {
    if (take(r, "*")) {
      left = combine(r, "Mul", left, read_unary(r));
    } else if (take(r, "/")) {
      left = combine(r, "Div", left, read_unary(r));
    } else {
      return left;
    }
  }
}

static term read_sum(reader *r) {
  term left = read_product(r);
  for (;;) {
    if (take(r, "+")) {
      left = combine(r, "Add", left, read_product(r));
    } else if (take(r, "-")) {
      left = combine(r, "Sub", left, read_product(r));
    } else {
      return left;
    }
  }
}

static term read_expression(reader *r) {
  static const struct {
    const char *sign, *name;
  } comparisons[] = {{"<=", "LessOrEqual"}, {">=", "GreaterOrEqual"}, {"==", "Equal"}, {"<", "Less"}, {">", "Greater"}};
  term left = read_sum(r);
  for (size_t i = 0; i < sizeof comparisons / sizeof *comparisons; i++) {
    if (!take(r, comparisons[i].sign)) continue;
    term right = read_sum(r);
    return add_node(r, comparisons[i].name, strlen(comparisons[i].name), (term[]){left, right}, 2);
  }
  return left;
}

rlx_value *derivative_build(rlx_graph *g, const char *formula, const derivative_terms *terms) {
  reader r = {.graph = g, .at = formula, .terms = terms};
  term result = read_expression(&r);
  return result.value ? result.value : constant(&r, result.number);
}

rlx_value *derivative_unbroadcast(rlx_graph *g, rlx_value *value, rlx_value *like) {
  if (value == NULL) return NULL;
  const rlx_type *a = rlx_value_type(value), *b = rlx_value_type(like);
  if (type_is_concrete(a) && type_is_concrete(b) && type_equal(a, b)) return value;
  return rlx_graph_op(g, "rlx.sum_to_like", NULL, 0, (rlx_value *[]){value, like}, 2);
}

rlx_status derivative_typed(rlx_graph *g, rlx_value *v, const rlx_type *type) {
  if (v) v->type = *type;
  return rlx_graph_status(g);
}

rlx_value *derivative_ints(rlx_graph *g, const int64_t *values, int64_t count) {
  rlx_tensor *t;
  if (rlx_tensor_create(RLX_INT64, 1, &count, &t) != RLX_OK) {
    rlx_graph_fail(g, RLX_OUT_OF_MEMORY, "no memory for a constant");
    return NULL;
  }
  if (count) memcpy(rlx_tensor_data(t), values, (size_t)count * sizeof *values);
  rlx_value *v = rlx_graph_constant(g, NULL, t);
  rlx_tensor_destroy(t);
  return v;
}

const char *derivative_list(const int64_t *values, int64_t count, char *to, size_t size) {
  size_t at = 0;
  *to = 0;
  for (int64_t i = 0; i < count && at < size; i++)
    at += (size_t)snprintf(to + at, size - at, "%s%lld", i ? ", " : "", (long long)values[i]);
  return to;
}

rlx_value *derivative_filled(rlx_graph *g, const rlx_value *v, double number) {
  rlx_tensor *t;
  int64_t one = 1;
  if (rlx_tensor_create(v->type.dtype, 1, &one, &t) != RLX_OK) {
    rlx_graph_fail(g, RLX_OUT_OF_MEMORY, "no memory for a constant");
    return NULL;
  }
  dtype_store(v->type.dtype, rlx_tensor_data(t), 0, number);
  rlx_attr value = {.name = "value", .kind = RLX_ATTR_TENSOR, .tensor = t};
  rlx_value *like = (rlx_value *)(uintptr_t)v;
  rlx_value *shape = type_is_concrete(&v->type) ? derivative_ints(g, v->type.dims, v->type.rank)
                                                : rlx_graph_op(g, "onnx.Shape", NULL, 0, &like, 1);
  rlx_value *filled = rlx_graph_op(g, "onnx.ConstantOfShape", &value, 1, &shape, 1);
  rlx_tensor_destroy(t);
  return filled;
}

/* The text is that of a subgraph, whose inputs need no types. */
static rlx_status add_source(rlx_graph *g, rlx_value *const *inputs, rlx_value **outputs, const char *source,
                             size_t size) {
  parser p = {.registry = g->registry};
  rlx_graph *holder, *made = NULL;
  rlx_status status = graph_create(g->registry, NULL, &holder);
  if (status != RLX_OK) return rlx_graph_fail(g, status, "no memory for a derivative");
  lexer_start(&p.lex, source, size, "derivative");
  status = parser_graph(&p, holder, &made);
  arena_finish(&p.scratch);
  size_t first = g->nodes.count;
  if (status == RLX_OK) status = graph_inline(g, made, inputs, outputs);
  for (size_t i = first; i < g->nodes.count && status == RLX_OK; i++) {
    g->nodes.data[i]->name = graph_fresh_name(g, "node");
    if (!g->nodes.data[i]->name) status = status_no_memory(1);
  }
  char line[STATUS_TEXT_BYTES];
  status_save(line);
  rlx_graph_destroy(holder);
  return status == RLX_OK ? rlx_graph_status(g) : rlx_graph_fail(g, status, "%s", line);
}

rlx_status derivative_text(rlx_graph *g, rlx_value *const *inputs, rlx_value **outputs, const char *format, ...) {
  va_list args, again;
  va_start(args, format);
  va_copy(again, args);
  int size = vsnprintf(NULL, 0, format, args);
  char *source = size < 0 ? NULL : mem_alloc((size_t)size + 1);
  if (source) vsnprintf(source, (size_t)size + 1, format, again);
  va_end(again);
  va_end(args);
  rlx_status status = source ? add_source(g, inputs, outputs, source, (size_t)size)
                             : rlx_graph_fail(g, RLX_OUT_OF_MEMORY, "no memory for the text of a derivative");
  mem_free(source);
  return status;
}
