/* _dims.c — which dims are the same whatever the extents are: keys that follow dims through the nodes that keep them.
 */
#include "pass/_dims.h"

#include <string.h>

#include "ops/conv.h"
#include "ops/pool.h"

static uint64_t mix(uint64_t a, uint64_t b) {
  a = (a ^ b) * UINT64_C(0x9e3779b97f4a7c15);
  a ^= a >> 29;
  a *= UINT64_C(0xbf58476d1ce4e5b9);
  return a ^ a >> 32;
}

/* Of a dim that is like no other. */
static uint64_t fresh(const rlx_value *v, int d) {
  return mix(mix(UINT64_C(0x5eed), (uint64_t)(uintptr_t)v), (uint64_t)d + 1);
}

static uint64_t key_of(const rlx_graph *g, const dim_keys *keys, const rlx_value *v, int d) {
  if (v->type.dims[d] >= 0) return mix(1, (uint64_t)v->type.dims[d]);
  return v->graph == g ? keys[v->id][d] : fresh(v, d);
}

/* Broadcasting: operands of extent 1 do not count; where the others agree, that is the dim. */
static uint64_t broadcast_key(const rlx_graph *g, const dim_keys *keys, const rlx_node *n, int d) {
  const rlx_value *y = n->outputs[0];
  uint64_t found = 0;
  for (int i = 0; i < n->input_count; i++) {
    const rlx_value *x = n->inputs[i];
    if (!x) continue;
    if (x->type.rank == RLX_UNKNOWN) return fresh(y, d);
    int own = d - (y->type.rank - x->type.rank);
    if (own < 0 || x->type.dims[own] == 1) continue;
    uint64_t key = key_of(g, keys, x, own);
    if (found && found != key) return fresh(y, d);
    found = key;
  }
  return found ? found : fresh(y, d);
}

/* Window ops keep the batch; a window that is padded for it and has stride 1 keeps the spatial dims. */
static uint64_t window_key(const rlx_graph *g, const dim_keys *keys, const rlx_node *n, bool weights, int d) {
  const rlx_value *x = n->inputs[0], *y = n->outputs[0];
  const conv_params *p = n->params; /* pool_params begins so */
  if (x->type.rank != y->type.rank || d == 1) return fresh(y, d);
  if (d == 0) return key_of(g, keys, x, 0);
  int64_t in[RLX_MAX_RANK], kernel[RLX_MAX_RANK];
  int rank = x->type.rank - 2;
  window w;
  for (int i = 0; i < rank; i++) {
    in[i] = RLX_UNKNOWN;
    kernel[i] = weights ? n->inputs[1]->type.rank == rank + 2 ? n->inputs[1]->type.dims[i + 2] : RLX_UNKNOWN
                : p->window.kernel_shape.count == rank ? p->window.kernel_shape.data[i]
                                                       : RLX_UNKNOWN;
    if (kernel[i] == RLX_UNKNOWN) return fresh(y, d);
  }
  if (window_resolve(&p->window, rank, in, kernel, &w)) return fresh(y, d);
  int s = d - 2;
  int64_t reach = (w.kernel[s] - 1) * w.dilation[s];
  bool explicit_pads = p->window.auto_pad.size == 0 || strcmp(p->window.auto_pad.data, "NOTSET") == 0;
  bool same_pads = !explicit_pads && strncmp(p->window.auto_pad.data, "SAME", 4) == 0;
  uint64_t key = key_of(g, keys, x, d);
  if (w.stride[s] == 1 && (same_pads || (explicit_pads && w.begin[s] + w.end[s] == reach))) return key;
  key = mix(mix(mix(key, (uint64_t)w.stride[s]), (uint64_t)reach), (uint64_t)(w.begin[s] + w.end[s]));
  return mix(mix(key, (uint64_t)p->window.ceil_mode), same_pads ? 3 : explicit_pads ? 5 : 7);
}

typedef enum rule { RULE_NONE, RULE_KEEP, RULE_BROADCAST, RULE_CONV, RULE_POOL } rule;

static rule rule_of(const rlx_node *n) {
  static const struct {
    const char *op;
    rule rule;
  } rules[] = {{"onnx.Conv", RULE_CONV},        {"rlx.conv", RULE_CONV}, {"onnx.MaxPool", RULE_POOL},
               {"onnx.AveragePool", RULE_POOL}, {"onnx.LRN", RULE_KEEP}, {"onnx.BatchNormalization", RULE_KEEP},
               {"onnx.Identity", RULE_KEEP}};
  if (!n->op || n->output_count < 1) return RULE_NONE;
  if (n->op->op.traits & RLX_ELEMENTWISE) return RULE_BROADCAST;
  for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
    if (strcmp(n->op_name, rules[i].op) == 0) return rules[i].rule;
  }
  return RULE_NONE;
}

static void number_output(const rlx_graph *g, dim_keys *keys, const rlx_node *n, rule how) {
  const rlx_value *y = n->outputs[0];
  for (int d = 0; d < y->type.rank; d++) {
    uint64_t key = fresh(y, d);
    if (y->type.dims[d] >= 0)
      key = key_of(g, keys, y, d);
    else if (how == RULE_KEEP && n->inputs[0]->type.rank == y->type.rank)
      key = key_of(g, keys, n->inputs[0], d);
    else if (how == RULE_BROADCAST)
      key = broadcast_key(g, keys, n, d);
    else if (how == RULE_CONV || how == RULE_POOL)
      key = window_key(g, keys, n, how == RULE_CONV, d);
    keys[y->id][d] = key;
  }
}

dim_keys *dims_number(const rlx_graph *g, arena *memory) {
  dim_keys *keys = arena_array(memory, g->values.count + 1, sizeof *keys);
  if (!keys) return NULL;
  for (size_t i = 0; i < g->values.count; i++) {
    const rlx_value *v = g->values.data[i];
    for (int d = 0; d < v->type.rank; d++) keys[i][d] = v->type.dims[d] >= 0 ? key_of(g, keys, v, d) : fresh(v, d);
  }
  for (size_t i = 0; i < g->nodes.count; i++) {
    rule how = rule_of(g->nodes.data[i]);
    if (how != RULE_NONE) number_output(g, keys, g->nodes.data[i], how);
  }
  return keys;
}

bool dims_same(const dim_keys *keys, const rlx_value *a, const rlx_value *b) {
  if (a->type.rank != b->type.rank || a->type.rank < 0 || a->graph != b->graph) return false;
  for (int d = 0; d < a->type.rank; d++) {
    if (keys[a->id][d] != keys[b->id][d]) return false;
  }
  return true;
}
