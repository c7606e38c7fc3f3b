/* attribute.c — decoding a node's attributes into the op's params struct, and checking its ports. */
#include <string.h>

#include "ir/dtype.h"
#include "ir/graph.h"
#include "ir/registry.h"

static const char *kind_name(rlx_attr_kind kind) {
  static const char *const names[] = {"nothing",        "float", "int",     "string",  "tensor", "graph",
                                      "floats",         "ints",  "strings", "tensors", "graphs", "sparse_tensor",
                                      "sparse_tensors", "type",  "types"};
  if (kind == RLX_ATTR_BYTES) return "bytes";
  return (size_t)kind < sizeof names / sizeof *names ? names[kind] : "?";
}

static bool kinds_agree(rlx_attr_kind wanted, rlx_attr_kind given) {
  if (wanted == given) return true;
  if (wanted == RLX_ATTR_BYTES || wanted == RLX_ATTR_STRING) /* ONNX writes opaque bytes as a string */
    return given == RLX_ATTR_STRING || given == RLX_ATTR_BYTES;
  return false;
}

static rlx_status check_range(const rlx_attr_def *def, double v) {
  if (!(def->flags & RLX_RANGED) || (v >= def->min && v <= def->max)) return RLX_OK;
  return RLX_FAIL(INVALID, "attribute '%s' is %g, outside [%g, %g]", def->name, v, def->min, def->max);
}

static rlx_status store(const rlx_attr_def *def, const rlx_attr *a, void *at) {
  int64_t n = (int64_t)a->count;
  switch (def->kind) {
    case RLX_ATTR_FLOAT: *(float *)at = a->f; return check_range(def, (double)a->f);
    case RLX_ATTR_INT: *(int64_t *)at = a->i; return check_range(def, (double)a->i);
    case RLX_ATTR_STRING:
    case RLX_ATTR_BYTES: *(rlx_string *)at = a->s.data ? a->s : (rlx_string){"", 0}; return RLX_OK;
    case RLX_ATTR_TENSOR: *(rlx_tensor **)at = a->tensor; return RLX_OK;
    case RLX_ATTR_GRAPH: *(rlx_graph **)at = a->graph; return RLX_OK;
    case RLX_ATTR_FLOATS:
      *(rlx_floats *)at = (rlx_floats){a->floats, n};
      for (int64_t i = 0; i < n; i++) RLX_TRY(check_range(def, (double)a->floats[i]));
      return RLX_OK;
    case RLX_ATTR_INTS:
      *(rlx_ints *)at = (rlx_ints){a->ints, n};
      for (int64_t i = 0; i < n; i++) RLX_TRY(check_range(def, (double)a->ints[i]));
      return RLX_OK;
    case RLX_ATTR_STRINGS: *(rlx_strings *)at = (rlx_strings){a->strings, n}; return RLX_OK;
    case RLX_ATTR_TENSORS: *(rlx_tensors *)at = (rlx_tensors){a->tensors, n}; return RLX_OK;
    case RLX_ATTR_GRAPHS: *(rlx_graphs *)at = (rlx_graphs){a->graphs, n}; return RLX_OK;
    case RLX_ATTR_TYPE:
      if (a->types) *(rlx_type *)at = a->types[0];
      return RLX_OK;
    default: return RLX_FAIL(INVALID, "attribute '%s': kind %s is not decoded", def->name, kind_name(def->kind));
  }
}

static rlx_status store_default(const rlx_attr_def *def, void *at) {
  const char *s = def->default_string ? def->default_string : "";
  switch (def->kind) {
    case RLX_ATTR_FLOAT: *(float *)at = def->default_float; break;
    case RLX_ATTR_INT: *(int64_t *)at = def->default_int; break;
    case RLX_ATTR_STRING:
    case RLX_ATTR_BYTES: *(rlx_string *)at = (rlx_string){s, strlen(s)}; break;
    case RLX_ATTR_FLOATS: *(rlx_floats *)at = def->default_floats; break;
    case RLX_ATTR_INTS: *(rlx_ints *)at = def->default_ints; break;
    default: break; /* zero */
  }
  return RLX_OK;
}

static int def_index(const op_entry *op, const char *name) {
  for (int i = 0; i < op->attr_count; i++)
    if (strcmp(op->op.attrs[i].name, name) == 0) return i;
  return -1;
}

static rlx_status decode(rlx_node *n) {
  const op_entry *op = n->op;
  size_t size = op->op.params_size < sizeof(uint64_t) ? sizeof(uint64_t) : op->op.params_size;
  unsigned char *params = arena_alloc(&n->graph->memory, size);
  if (!params) return status_no_memory(size);
  uint64_t given = 0;
  for (int i = 0; i < n->attr_count; i++) {
    const rlx_attr *a = &n->attrs[i];
    int d = def_index(op, a->name);
    if (d < 0) return RLX_FAIL(INVALID, "no attribute '%s' in version %d of the op", a->name, op->op.version);
    const rlx_attr_def *def = &op->op.attrs[d];
    if (!kinds_agree(def->kind, a->kind))
      return RLX_FAIL(INVALID, "attribute '%s' is of kind %s, must be %s", a->name, kind_name(a->kind),
                      kind_name(def->kind));
    if (given >> d & 1) return RLX_FAIL(INVALID, "attribute '%s' is given twice", a->name);
    given |= UINT64_C(1) << d;
    RLX_TRY(store(def, a, params + def->offset));
  }
  for (int d = 0; d < op->attr_count; d++) {
    const rlx_attr_def *def = &op->op.attrs[d];
    if (given >> d & 1) continue;
    if (def->flags & RLX_REQUIRED) return RLX_FAIL(INVALID, "attribute '%s' is missing", def->name);
    RLX_TRY(store_default(def, params + def->offset));
  }
  memcpy(params, &given, sizeof given);
  n->params = params;
  return RLX_OK;
}

rlx_status node_resolve(rlx_node *n, const rlx_registry *registry) {
  op_entry *op = registry_find_op(registry, n->op_name, n->opset);
  if (!op) return RLX_FAIL(NOT_FOUND, "no op '%s'", n->op_name);
  op_entry_release(n->op);
  n->op = op;
  n->params = NULL;
  rlx_status status = node_check(n);
  return status == RLX_OK ? decode(n) : status;
}

/* ---- ports -------------------------------------------------------------------------------- */

static rlx_status check_counts(const rlx_node *n) {
  const op_entry *op = n->op;
  if (n->input_count > op->input_count && !op->input_variadic)
    return RLX_FAIL(INVALID, "%d inputs, at most %d", n->input_count, op->input_count);
  for (int i = 0; i < op->input_min || i < n->input_count; i++) {
    const rlx_port *p = op_input_port(op, i);
    bool present = i < n->input_count && n->inputs[i];
    if (!present && !(p->flags & (RLX_OPTIONAL | RLX_VARIADIC)))
      return RLX_FAIL(INVALID, "input '%s' is missing", p->name);
    if (!present && (p->flags & RLX_VARIADIC) && i < op->input_min)
      return RLX_FAIL(INVALID, "%d inputs, at least %d", n->input_count, op->input_min);
  }
  if (n->output_count > op->output_count && !op->output_variadic)
    return RLX_FAIL(INVALID, "%d outputs, at most %d", n->output_count, op->output_count);
  return RLX_OK;
}

static rlx_status check_dtype(const rlx_node *n, const rlx_port *p, const rlx_type *t) {
  (void)n;
  if (t->dtype == RLX_UNDEFINED) return RLX_OK;
  if (t->kind != RLX_KIND_TENSOR)
    return p->flags & RLX_ANY_KIND ? RLX_OK : RLX_FAIL(INVALID, "input '%s' is not a tensor", p->name);
  if (!p->dtypes || (p->dtypes >> t->dtype & 1)) return RLX_OK;
  char names[400];
  dtype_set_names(p->dtypes, names, sizeof names);
  return RLX_FAIL(INVALID, "'%s' is %s, must be one of: %s", p->name, rlx_dtype_name(t->dtype), names);
}

/* The dtype the inputs before `end` give to a type variable; UNDEFINED if none does. */
static rlx_dtype variable_dtype(const rlx_node *n, const char *variable, int end) {
  for (int i = 0; i < end; i++) {
    const rlx_port *p = op_input_port(n->op, i);
    if (!n->inputs[i] || !p || !p->variable || strcmp(p->variable, variable) != 0) continue;
    if ((p->flags & RLX_HETEROGENEOUS) || n->inputs[i]->type.dtype == RLX_UNDEFINED) continue;
    return n->inputs[i]->type.dtype;
  }
  return RLX_UNDEFINED;
}

rlx_status node_check(const rlx_node *n) {
  if (!n->op) return RLX_OK;
  RLX_TRY(check_counts(n));
  for (int i = 0; i < n->input_count; i++) {
    if (!n->inputs[i]) continue;
    const rlx_port *p = op_input_port(n->op, i);
    const rlx_type *t = &n->inputs[i]->type;
    RLX_TRY(check_dtype(n, p, t));
    if (!p->variable || (p->flags & RLX_HETEROGENEOUS) || t->dtype == RLX_UNDEFINED) continue;
    rlx_dtype other = variable_dtype(n, p->variable, i);
    if (other != RLX_UNDEFINED && other != t->dtype)
      return RLX_FAIL(INVALID, "input '%s' is %s where %s is %s", p->name, rlx_dtype_name(t->dtype), p->variable,
                      rlx_dtype_name(other));
  }
  return RLX_OK;
}
