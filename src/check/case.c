/* case.c — from a sample row to a graph of one node with contents. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "check/check.h"
#include "ir/dtype.h"
#include "ir/infer.h"
#include "ir/parse.h"
#include "ir/shape.h"

enum { ITEMS = 3 }; /* of a sequence made here */

void case_finish(check_case *k) {
  for (int i = 0; k->inputs && i < k->input_count; i++) rlx_tensor_destroy(k->inputs[i]);
  for (int i = 0; k->expected && i < k->output_count; i++) rlx_tensor_destroy(k->expected[i]);
  rlx_graph_destroy(k->graph); /* the arrays are in its arena */
  *k = (check_case){0};
}

/* Arrays follow the graph's present inputs. */
static rlx_status set_up(check_case *k) {
  rlx_graph *g = k->graph;
  k->node = g->nodes.data[0];
  k->input_count = (int)g->inputs.count;
  k->output_count = (int)g->outputs.count;
  k->inputs = arena_array(&g->memory, g->inputs.count, sizeof *k->inputs);
  k->expected = arena_array(&g->memory, g->outputs.count, sizeof *k->expected);
  return k->inputs && k->expected ? RLX_OK : status_no_memory(g->inputs.count);
}

rlx_status case_parse(const checker *c, const char *row, check_case *out) {
  check_case k = {0};
  RLX_TRY(sample_parse_for(row, c->op, c->registry, &k.graph));
  rlx_status status = k.graph->nodes.count == 1 ? RLX_OK : RLX_FAIL(INTERNAL, "\"%s\": a sample has one node", row);
  k.row = arena_strdup(&k.graph->memory, row);
  if (status == RLX_OK && !k.row) status = status_no_memory(1);
  if (status == RLX_OK) status = set_up(&k);
  if (status == RLX_OK) status = case_infer(&k);
  if (status == RLX_OK)
    *out = k;
  else
    case_finish(&k);
  return status;
}

rlx_status case_infer(check_case *k) {
  for (int i = 0; i < k->node->output_count; i++) {
    rlx_type *t = &k->node->outputs[i]->type;
    *t = (rlx_type){.dtype = RLX_UNDEFINED, .rank = RLX_UNKNOWN};
  }
  return infer_graph(k->graph, true);
}

/* ---- contents ----------------------------------------------------------------------------- */

typedef struct filler {
  uint64_t s;
  int mode;
  int64_t least; /* the smallest extent of all inputs: an index below it fits everywhere */
} filler;

static uint64_t next(filler *f) {
  uint64_t z = f->s += UINT64_C(0x9e3779b97f4a7c15);
  z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
  return z ^ (z >> 31);
}

static double unit(filler *f) { return (double)(next(f) >> 11) * 0x1p-53; }

static double a_float(filler *f) {
  static const double hostile[] = {NAN, INFINITY, -INFINITY, 0, -0.0, 1e300, -1e300, 1e-320, 3e38, -65504, 0.5, 1e-40};
  if (f->mode == FILL_HOSTILE) return hostile[next(f) % (sizeof hostile / sizeof *hostile)];
  return f->mode <= FILL_INDEX ? unit(f) * 4 - 2 : 0.1 + 0.85 * unit(f);
}

static int64_t an_integer(filler *f, bool is_signed) {
  static const int64_t hostile[] = {INT64_MIN, INT64_MAX, -1, 0, 1, INT32_MIN, INT32_MAX, 1000, -1000, 2};
  switch (f->mode) {
    case FILL_HOSTILE: return hostile[next(f) % (sizeof hostile / sizeof *hostile)];
    case FILL_WIDE: return is_signed ? (int64_t)(next(f) % 19) - 9 : (int64_t)(next(f) % 19);
    case FILL_INDEX: return (int64_t)(next(f) % (uint64_t)f->least);
    case FILL_SMALL: return (int64_t)(next(f) & 1);
    case FILL_NONZERO: return 1 + (int64_t)(next(f) % 9);
    default: return 0;
  }
}

static rlx_status fill_strings(filler *f, rlx_tensor *t) {
  static const char *const words[] = {"", "a", "bc", "Hello", "two words", "3.5", "caf\xc3\xa9"};
  for (int64_t i = 0; i < t->count; i++) {
    const char *word = words[next(f) % (sizeof words / sizeof *words)];
    RLX_TRY(rlx_tensor_set_string(t, i, word, strlen(word)));
  }
  return RLX_OK;
}

static rlx_status fill_tensor(filler *f, const rlx_type *type, rlx_tensor **out) {
  rlx_tensor *t;
  rlx_dtype dtype = type->dtype;
  RLX_TRY(rlx_tensor_create(dtype, type->rank, type->dims, &t));
  if (dtype == RLX_STRING) {
    rlx_status status = fill_strings(f, t);
    if (status != RLX_OK) rlx_tensor_destroy(t);
    if (status != RLX_OK) return status;
  } else if (dtype == RLX_COMPLEX64 || dtype == RLX_COMPLEX128) {
    rlx_dtype part = dtype == RLX_COMPLEX64 ? RLX_FLOAT : RLX_DOUBLE;
    for (int64_t i = 0; i < 2 * t->count; i++) dtype_store(part, t->data, i, a_float(f));
  } else if (dtype == RLX_BOOL) {
    for (int64_t i = 0; i < t->count; i++) ((unsigned char *)t->data)[i] = next(f) & 1;
  } else if (dtype_is_float(dtype)) {
    for (int64_t i = 0; i < t->count; i++) dtype_store(dtype, t->data, i, a_float(f));
  } else {
    for (int64_t i = 0; i < t->count; i++) dtype_store_int(dtype, t->data, i, an_integer(f, dtype_is_signed(dtype)));
  }
  *out = t;
  return RLX_OK;
}

static rlx_status fill_value(filler *f, const rlx_type *type, rlx_tensor **out) {
  if (type->kind == RLX_KIND_TENSOR) return fill_tensor(f, type, out);
  rlx_tensor *items[ITEMS] = {NULL};
  rlx_type item = *type;
  item.kind = RLX_KIND_TENSOR;
  if (item.rank <= 0 || !type_is_concrete(&item)) type_set(&item, type->dtype, 2, (int64_t[]){2, 3});
  rlx_status status = RLX_OK;
  bool optional = type->kind == RLX_KIND_OPTIONAL;
  for (int i = 0; i < (optional ? 1 : ITEMS) && status == RLX_OK; i++) {
    if (optional && type->element != RLX_KIND_TENSOR) item.kind = type->element;
    status = fill_value(f, &item, &items[i]);
  }
  if (status == RLX_OK)
    status = optional ? rlx_optional_create(type->element, type->dtype, items[0], out)
                      : rlx_sequence_create(type->dtype, items, ITEMS, out);
  for (int i = 0; i < ITEMS; i++) rlx_tensor_destroy(items[i]);
  return status;
}

rlx_status case_fill(check_case *k, uint64_t seed, int mode) {
  filler f = {seed * 2654435761u + 12345, mode, 8};
  for (int i = 0; i < k->input_count; i++) {
    const rlx_type *t = &k->graph->inputs.data[i]->type;
    for (int d = 0; d < t->rank; d++)
      if (t->dims[d] > 0 && t->dims[d] < f.least) f.least = t->dims[d];
  }
  for (int i = 0; i < k->input_count; i++) {
    rlx_tensor *t = NULL;
    RLX_TRY(fill_value(&f, &k->graph->inputs.data[i]->type, &t));
    rlx_tensor_destroy(k->inputs[i]);
    k->inputs[i] = t;
  }
  return RLX_OK;
}

/* ---- variants ----------------------------------------------------------------------------- */

enum { LARGE_ELEMENTS = 1 << 18 };

/* Calls fn with the case if it is one; types that do not fit are no case. */
static void offer(checker *c, check_case *k, const char *what, void (*fn)(checker *c, check_case *k)) {
  char *row = arena_printf(&k->graph->memory, "%s (%s)", k->row, what);
  k->varied = true;
  int64_t elements = 0;
  for (int i = 0; i < k->input_count; i++) {
    int64_t n = shape_count(k->graph->inputs.data[i]->type.rank, k->graph->inputs.data[i]->type.dims);
    elements += n > 0 ? n : 0;
  }
  if (row) k->row = row;
  if (row && elements <= LARGE_ELEMENTS && case_infer(k) == RLX_OK) fn(c, k);
}

static bool has_dim(const check_case *k, int64_t extent) {
  for (int i = 0; i < k->input_count; i++) {
    const rlx_type *t = &k->graph->inputs.data[i]->type;
    for (int d = 0; t->kind == RLX_KIND_TENSOR && d < t->rank; d++)
      if (t->dims[d] == extent) return true;
  }
  return false;
}

static void replace_dim(check_case *k, int64_t from, int64_t to) {
  for (int i = 0; i < k->input_count; i++) {
    rlx_type *t = &k->graph->inputs.data[i]->type;
    for (int d = 0; t->kind == RLX_KIND_TENSOR && d < t->rank; d++)
      if (t->dims[d] == from) t->dims[d] = to;
  }
}

static rlx_status vary_extents(checker *c, const char *row, void (*fn)(checker *c, check_case *k)) {
  static const int64_t extents[] = {0, 1, 7, 33, 130};
  for (int64_t from = 1; from <= 64; from++)
    for (size_t e = 0; e < sizeof extents / sizeof *extents; e++) {
      check_case k = {0};
      char what[64];
      RLX_TRY(case_parse(c, row, &k));
      bool there = has_dim(&k, from) && from != extents[e];
      if (there) {
        replace_dim(&k, from, extents[e]);
        snprintf(what, sizeof what, "extent %lld as %lld", (long long)from, (long long)extents[e]);
        offer(c, &k, what, fn);
      }
      case_finish(&k);
      if (!there && from != extents[e]) break;
    }
  check_case k = {0};
  RLX_TRY(case_parse(c, row, &k));
  bool any = false;
  for (int i = 0; i < k.input_count; i++) {
    any |= k.graph->inputs.data[i]->type.rank > 0;
    k.graph->inputs.data[i]->type.rank = 0;
  }
  if (any) offer(c, &k, "all scalars", fn);
  case_finish(&k);
  return RLX_OK;
}

static bool set_dtype(check_case *k, const char *variable, rlx_dtype dtype) {
  bool changed = false;
  for (int i = 0; i < k->node->input_count; i++) {
    const rlx_port *p = op_input_port(k->node->op, i);
    rlx_value *v = k->node->inputs[i];
    if (!v || !p->variable || strcmp(p->variable, variable) != 0) continue;
    if (v->constant || v->type.kind != RLX_KIND_TENSOR) return false;
    changed |= v->type.dtype != dtype;
    v->type.dtype = dtype;
  }
  return changed;
}

static rlx_status vary_dtypes(checker *c, const char *row, void (*fn)(checker *c, check_case *k)) {
  for (int p = 0; p < c->op->input_count; p++) {
    const rlx_port *port = &c->op->op.inputs[p];
    bool first = port->variable != NULL;
    for (int q = 0; q < p && first; q++)
      first = !c->op->op.inputs[q].variable || strcmp(c->op->op.inputs[q].variable, port->variable) != 0;
    for (int d = 1; first && d < RLX_DTYPE_COUNT; d++) {
      if (port->dtypes && !(port->dtypes >> d & 1)) continue;
      check_case k = {0};
      char what[64];
      RLX_TRY(case_parse(c, row, &k));
      snprintf(what, sizeof what, "%s as %s", port->variable, rlx_dtype_name((rlx_dtype)d));
      k.dtype_varied = true;
      if (set_dtype(&k, port->variable, (rlx_dtype)d)) offer(c, &k, what, fn);
      case_finish(&k);
    }
  }
  return RLX_OK;
}

/* Takes the input away from node and graph. */
static void leave_out(check_case *k, int i) {
  rlx_graph *g = k->graph;
  rlx_value *v = k->node->inputs[i];
  size_t kept = 0;
  k->node->inputs[i] = NULL;
  for (size_t j = 0; j < g->inputs.count; j++)
    if (g->inputs.data[j] != v) g->inputs.data[kept++] = g->inputs.data[j];
  g->inputs.count = kept;
  v->is_input = false;
  k->input_count = (int)kept;
}

static rlx_status vary_ports(checker *c, const char *row, void (*fn)(checker *c, check_case *k)) {
  for (int p = 0; p < c->op->input_count; p++) {
    const rlx_port *port = &c->op->op.inputs[p];
    check_case k = {0};
    char what[64];
    if (!(port->flags & RLX_OPTIONAL)) continue;
    RLX_TRY(case_parse(c, row, &k));
    bool there = p < k.node->input_count && k.node->inputs[p] && k.node->inputs[p]->is_input;
    for (int i = 0; there && i < k.node->input_count; i++) there = i == p || k.node->inputs[i] != k.node->inputs[p];
    snprintf(what, sizeof what, "without %.40s", port->name);
    if (there) {
      leave_out(&k, p);
      offer(c, &k, what, fn);
    }
    case_finish(&k);
  }
  if (strstr(row, "=>") || c->op->output_variadic || c->op->output_count < 2) return RLX_OK;
  char more[2048];
  check_case k = {0};
  snprintf(more, sizeof more, "%s => %d", row, c->op->output_count);
  if (case_parse(c, more, &k) != RLX_OK) return RLX_OK; /* not all of them go together */
  k.varied = true;
  fn(c, &k);
  case_finish(&k);
  return RLX_OK;
}

rlx_status case_variants(checker *c, const char *row, void (*fn)(checker *c, check_case *k)) {
  check_case k = {0};
  RLX_TRY(case_parse(c, row, &k));
  bool nested = node_subgraph(k.node, 0) != NULL; /* types inside would have to follow */
  fn(c, &k);
  case_finish(&k);
  if (nested || (c->flags & RLX_CHECK_QUICK)) return RLX_OK;
  RLX_TRY(vary_extents(c, row, fn));
  RLX_TRY(vary_dtypes(c, row, fn));
  return vary_ports(c, row, fn);
}
