/* split_batchnorm.c — pass split_batchnorm: batch normalisations by constants that no convolution took in become a
 * product and a sum, which fuse with what follows and run in any layout. */
#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "ops/batchnorm.h"
#include "pass/pass.h"

static const float *pinned(const rlx_value *v, int64_t count) {
  const rlx_tensor *t = v ? v->constant : NULL;
  return t && t->dtype == RLX_FLOAT && t->count == count ? tensor_pin(t) : NULL;
}

/* A vector of channels as [C, 1, …], to broadcast against an input of `rank`. */
static rlx_status channel_tensor(int rank, int64_t channels, rlx_tensor **out) {
  int64_t dims[RLX_MAX_RANK];
  for (int d = 0; d < rank - 1; d++) dims[d] = d == 0 ? channels : 1;
  return rlx_tensor_create(RLX_FLOAT, rank - 1, dims, out);
}

/* x * factor + shift, from the four parameters; values NULL where one is not a constant. */
static rlx_status fold(rlx_graph *g, const rlx_node *n, rlx_value **factor, rlx_value **shift) {
  const batchnorm_params *p = n->params;
  const rlx_type *x = &n->inputs[0]->type;
  int64_t channels = n->inputs[1]->type.rank == 1 ? n->inputs[1]->type.dims[0] : 0;
  const float *in[5] = {NULL};
  bool known = channels > 0;
  for (int i = 1; i < 5; i++) known = (in[i] = pinned(n->inputs[i], channels)) != NULL && known;
  rlx_tensor *a = NULL, *b = NULL;
  rlx_status status = known ? channel_tensor(x->rank, channels, &a) : RLX_OK;
  if (known && status == RLX_OK) status = channel_tensor(x->rank, channels, &b);
  if (known && status == RLX_OK) {
    float *scale = rlx_tensor_data(a), *bias = rlx_tensor_data(b);
    for (int64_t c = 0; c < channels; c++) {
      double f = (double)in[1][c] / sqrt((double)in[4][c] + (double)p->epsilon);
      scale[c] = (float)f;
      bias[c] = (float)((double)in[2][c] - (double)in[3][c] * f);
    }
    *factor = rlx_graph_constant(g, NULL, a);
    *shift = rlx_graph_constant(g, NULL, b);
    if (!*factor || !*shift) status = rlx_graph_status(g);
  }
  for (int i = 1; i < 5; i++) {
    if (in[i]) tensor_unpin(n->inputs[i]->constant);
  }
  rlx_tensor_destroy(a);
  rlx_tensor_destroy(b);
  return status;
}

static rlx_node *add_binary(rlx_graph *g, const rlx_node *old, const char *op, rlx_value *x, rlx_value *y,
                            rlx_value *const *output) {
  rlx_value *inputs[] = {x, y};
  rlx_node_desc desc = {.struct_size = sizeof desc, .op = op, .inputs = inputs, .input_count = 2, .output_count = 1};
  rlx_node *n = graph_add_node(g, &desc, output);
  if (n) n->origin = old->origin ? old->origin : old->name;
  return n;
}

static rlx_status split(rlx_graph *g, rlx_node *n, const target *t, bool *done) {
  rlx_value *factor = NULL, *shift = NULL, *product = graph_value(g, NULL);
  RLX_TRY(fold(g, n, &factor, &shift));
  if (!factor || !shift) return RLX_OK;
  if (!product) return rlx_graph_status(g);
  product->type = n->outputs[0]->type;
  product->symbols = n->outputs[0]->symbols;
  rlx_node *mul = add_binary(g, n, "onnx.Mul", n->inputs[0], factor, &product);
  rlx_node *add = mul ? add_binary(g, n, "onnx.Add", product, shift, n->outputs) : NULL;
  if (!add) return rlx_graph_status(g);
  selection_drop(n);
  *done = true;
  RLX_TRY(select_node(mul, t));
  return select_node(add, t);
}

static bool fits(const rlx_node *n) {
  if (!n->op || !n->op->builtin || !node_is_own(n) || strcmp(n->op->op.name, "onnx.BatchNormalization") != 0)
    return false;
  const batchnorm_params *p = n->params;
  const rlx_type *x = &n->inputs[0]->type;
  if (n->op->op.version < 14 || p->training_mode || x->dtype != RLX_FLOAT || x->rank < 2) return false;
  for (int i = 1; i < n->output_count; i++) {
    if (n->outputs[i]->name[0]) return false;
  }
  return true;
}

rlx_status pass_split_batchnorm(rlx_graph *g, const target *t, bool *changed) {
  size_t count = g->nodes.count;
  bool *keep = mem_array(count * 3 + 1, sizeof *keep), any = false;
  if (!keep) return status_no_memory(count * 3 + 1);
  memset(keep, true, count * 3 + 1);
  rlx_status status = RLX_OK;
  for (size_t i = 0; i < count && status == RLX_OK && !t->gpu; i++) {
    bool done = false;
    if (fits(g->nodes.data[i])) status = split(g, g->nodes.data[i], t, &done);
    keep[i] = !done;
    any = any || done;
  }
  if (status == RLX_OK && any) {
    graph_number(g);
    graph_remove_nodes(g, keep);
    status = graph_sort(g);
    if (status == RLX_OK) status = pass_prune(g, t, changed);
  }
  *changed = *changed || any;
  mem_free(keep);
  return status;
}
