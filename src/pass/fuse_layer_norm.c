/* fuse_layer_norm.c — pass fuse_layer_norm: layer and RMS normalisations that exporters wrote out as arithmetic. */
#include <string.h>

#include "base/text.h"
#include "ir/dtype.h"
#include "pass/native.h"
#include "pass/pass.h"

/* What the arithmetic turned out to be. */
typedef struct found {
  rlx_value *x, *scale, *bias; /* bias NULL: none */
  bool centred;                /* minus the mean: layer normalisation; else RMS */
  int axes;                    /* trailing dims that are normalised */
  float epsilon;
} found;

/* The node that makes v, if it is rlx's own onnx.<name>. */
static const rlx_node *made_by(const rlx_value *v, const char *name) {
  const rlx_node *n = v ? v->producer : NULL;
  if (!n || !n->op || !n->op->builtin || !node_is_own(n) || strncmp(n->op->op.name, "onnx.", 5) != 0) return NULL;
  return strcmp(n->op->op.name + 5, name) == 0 ? n : NULL;
}

static bool is_number(const rlx_value *v, double *number) {
  if (!v || !v->constant || v->constant->count != 1 || !dtype_is_float(v->constant->dtype)) return false;
  *number = dtype_load(v->constant->dtype, v->constant->data, 0);
  return true;
}

/* v = a + number, in either order? */
static rlx_value *plus_number(const rlx_value *v, double *number) {
  const rlx_node *n = made_by(v, "Add");
  if (!n) return NULL;
  if (is_number(n->inputs[1], number)) return n->inputs[0];
  return is_number(n->inputs[0], number) ? n->inputs[1] : NULL;
}

static rlx_value *square_of(const rlx_value *v) {
  const rlx_node *n = made_by(v, "Mul");
  if (n) return n->inputs[0] == n->inputs[1] ? n->inputs[0] : NULL;
  double exponent;
  n = made_by(v, "Pow");
  return n && is_number(n->inputs[1], &exponent) && exponent == 2 ? n->inputs[0] : NULL;
}

static rlx_value *root_of(const rlx_value *v) {
  const rlx_node *n = made_by(v, "Sqrt");
  if (n) return n->inputs[0];
  double exponent;
  n = made_by(v, "Pow");
  return n && is_number(n->inputs[1], &exponent) && exponent == 0.5 ? n->inputs[0] : NULL;
}

/* v = mean of a over trailing dims, kept as ones: a, and how many dims. */
static rlx_value *mean_of(const rlx_value *v, int *axes) {
  const rlx_node *n = made_by(v, "ReduceMean");
  if (!n || n->input_count != 2 || !n->inputs[1] || !n->inputs[1]->constant) return NULL;
  const rlx_attr *keep = node_attr(n, "keepdims");
  const rlx_tensor *list = n->inputs[1]->constant;
  int rank = n->inputs[0]->type.rank;
  if ((keep && keep->i == 0) || rank < 1 || list->count < 1 || list->count > rank) return NULL;
  uint32_t set = 0;
  for (int64_t i = 0; i < list->count; i++) {
    int64_t axis = ((const int64_t *)list->data)[i];
    set |= 1u << (axis < 0 ? axis + rank : axis);
  }
  *axes = (int)list->count;
  return set == ((1u << rank) - 1) >> (rank - *axes) << (rank - *axes) ? n->inputs[0] : NULL;
}

/* centred = x - mean(x)? */
static rlx_value *centred_from(const rlx_value *centred, int axes) {
  const rlx_node *n = made_by(centred, "Sub");
  int mean_axes;
  if (!n || mean_of(n->inputs[1], &mean_axes) != n->inputs[0] || mean_axes != axes) return NULL;
  return n->inputs[0];
}

/* divisor = sqrt(mean(d^2) + epsilon), d being numerator, or another x - mean(x)? Fills in *f. */
static bool match_divisor(const rlx_value *divisor, rlx_value *numerator, found *f) {
  double epsilon = 0;
  rlx_value *d = square_of(mean_of(plus_number(root_of(divisor), &epsilon), &f->axes));
  if (!d) return false;
  f->epsilon = (float)epsilon;
  rlx_value *x = centred_from(numerator, f->axes);
  f->centred = x != NULL;
  f->x = x ? x : numerator;
  return d == numerator || (x && centred_from(d, f->axes) == x);
}

/* v = 1 / a: a. */
static rlx_value *inverse_of(const rlx_value *v) {
  const rlx_node *n = made_by(v, "Reciprocal");
  if (n) return n->inputs[0];
  double one;
  n = made_by(v, "Div");
  return n && is_number(n->inputs[0], &one) && one == 1 ? n->inputs[1] : NULL;
}

/* v = numerator / divisor, or numerator * (1 / divisor)? */
static bool match_quotient(const rlx_value *v, found *f) {
  const rlx_node *n = made_by(v, "Div");
  if (n) return match_divisor(n->inputs[1], n->inputs[0], f);
  n = made_by(v, "Mul");
  for (int k = 0; n && k < 2; k++) {
    rlx_value *divisor = inverse_of(n->inputs[k]);
    if (divisor && match_divisor(divisor, n->inputs[1 - k], f)) return true;
  }
  return false;
}

/* Has v exactly the dims that are normalised? */
static bool fits(const rlx_value *v, const found *f) {
  if (!v || v->type.rank != f->axes || v->type.dtype != RLX_FLOAT) return false;
  for (int d = 0; d < f->axes; d++) {
    int64_t dim = v->type.dims[d];
    if (dim == RLX_UNKNOWN || dim != f->x->type.dims[f->x->type.rank - f->axes + d]) return false;
  }
  return true;
}

static bool match_scaled(const rlx_value *v, found *f) {
  const rlx_node *n = made_by(v, "Mul");
  for (int k = 0; n && k < 2; k++) {
    f->scale = n->inputs[1 - k];
    if (match_quotient(n->inputs[k], f) && f->x->type.dtype == RLX_FLOAT && fits(f->scale, f)) return true;
  }
  return false;
}

/* The whole of it, from its last node. */
static bool match(const rlx_node *root, found *f) {
  *f = (found){0};
  const rlx_node *sum = made_by(root->outputs[0], "Add");
  for (int k = 0; sum && k < 2; k++) {
    f->bias = sum->inputs[1 - k];
    if (match_scaled(sum->inputs[k], f) && f->centred && fits(f->bias, f)) return true;
  }
  f->bias = NULL;
  return made_by(root->outputs[0], "Mul") && match_scaled(root->outputs[0], f);
}

/* Adds the names of the nodes between v and f->x to `names`, producers first, each once. */
static void add_origins(const rlx_value *v, const found *f, text *names) {
  const rlx_node *n = v ? v->producer : NULL;
  if (!n || v == f->x || v == f->scale || v == f->bias) return;
  for (int k = 0; k < n->input_count; k++) add_origins(n->inputs[k], f, names);
  const char *name = n->origin ? n->origin : n->name;
  size_t length = strlen(name);
  for (const char *at = names->data; at && (at = strstr(at, name)); at++) {
    if ((at == names->data || at[-1] == ' ') && (at[length] == 0 || at[length] == ',')) return;
  }
  text_printf(names, "%s%s", names->size ? ", " : "", name);
}

static const char *origins(rlx_graph *g, const rlx_node *root, const found *f) {
  text names = {0};
  add_origins(root->outputs[0], f, &names);
  const char *copy = names.failed ? NULL : arena_strdup(&g->memory, names.data);
  text_finish(&names);
  return copy;
}

static rlx_status replace(rlx_graph *g, rlx_node *root, const found *f, const target *t) {
  rlx_attr attrs[] = {RLX_ATTR_I("axis", -f->axes), RLX_ATTR_F("epsilon", f->epsilon)};
  rlx_value *inputs[] = {f->x, f->scale, f->bias};
  rlx_node_desc desc = {.struct_size = sizeof desc,
                        .op = f->centred ? "onnx.LayerNormalization" : "onnx.RMSNormalization",
                        .name = root->name,
                        .inputs = inputs,
                        .input_count = f->bias ? 3 : 2,
                        .attrs = attrs,
                        .attr_count = 2,
                        .output_count = 1};
  const char *origin = origins(g, root, f);
  if (!origin) return status_no_memory(1);
  rlx_node *n = graph_add_node(g, &desc, root->outputs);
  if (!n) return rlx_graph_status(g);
  n->origin = origin;
  selection_drop(root);
  return select_node(n, t);
}

/* Sums first: a product alone may be the inside of one. */
static rlx_status replace_all(rlx_graph *g, const target *t, const char *last, bool *keep, bool *any) {
  size_t count = g->nodes.count;
  for (size_t i = 0; i < count; i++) {
    rlx_node *n = g->nodes.data[i];
    found f;
    if (n->output_count != 1 || n->outputs[0]->producer != n || !made_by(n->outputs[0], last) || !match(n, &f))
      continue;
    RLX_TRY(replace(g, n, &f, t));
    keep[i] = false;
    *any = true;
  }
  return RLX_OK;
}

static rlx_status run(rlx_graph *g, const target *t, const char *last, bool *changed) {
  size_t most = g->nodes.count * 2 + 1;
  bool *keep = mem_array(most, sizeof *keep), any = false;
  if (!keep) return status_no_memory(most);
  memset(keep, true, most);
  rlx_status status = replace_all(g, t, last, keep, &any);
  if (status == RLX_OK && any) {
    graph_remove_nodes(g, keep);
    status = graph_sort(g);
    if (status == RLX_OK) status = pass_prune(g, t, changed);
  }
  *changed |= any;
  mem_free(keep);
  return status;
}

rlx_status pass_fuse_layer_norm(rlx_graph *g, const target *t, bool *changed) {
  bool layer, rms;
  RLX_TRY(target_is_native(t, "onnx.LayerNormalization", 17, &layer));
  RLX_TRY(target_is_native(t, "onnx.RMSNormalization", 23, &rms));
  if (!layer || !rms) return RLX_OK;
  RLX_TRY(run(g, t, "Add", changed));
  return run(g, t, "Mul", changed);
}
