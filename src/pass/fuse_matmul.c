/* fuse_matmul.c — pass fuse_matmul: a constant bias and an activation after MatMul or Gemm go into one rlx.matmul. */
#include <string.h>

#include "base/status.h"
#include "ops/fused_matmul.h"
#include "pass/_activation.h"

/* A product and what follows it. */
typedef struct chain {
  rlx_node *nodes[2 + ACTIVATION_NODES];
  int count;
  int64_t columns;
  bool trans_b;
  rlx_value *bias;
  activation_match activation;
} chain;

static rlx_node *last_of(const chain *c) { return c->nodes[c->count - 1]; }

/* v is constant and adds one number to every column of a tensor of `rank` dims. */
static bool is_bias(const rlx_value *v, int rank, int64_t columns) {
  const rlx_tensor *t = v ? v->constant : NULL;
  return t && t->dtype == RLX_FLOAT && t->rank >= 1 && t->rank <= rank && t->count == columns &&
         t->dims[t->rank - 1] == columns;
}

/* The bias as a tensor of one dim. */
static rlx_status flat(rewriter *r, rlx_value *v, rlx_value **out) {
  rlx_tensor *t = NULL;
  *out = v;
  if (v->constant->rank == 1) return RLX_OK;
  RLX_TRY(rlx_tensor_create(RLX_FLOAT, 1, &v->constant->count, &t));
  memcpy(t->data, tensor_raw(v->constant), t->bytes);
  *out = rlx_graph_constant(r->g, NULL, t);
  rlx_tensor_destroy(t);
  return *out ? RLX_OK : rlx_graph_status(r->g);
}

static bool begin_matmul(rewriter *r, rlx_node *n, chain *c) {
  const rlx_type *a = rlx_node_input_type(n, 0), *b = rlx_node_input_type(n, 1);
  if (a->rank < 2 || b->rank < 2) return false;
  c->columns = b->dims[b->rank - 1];
  rlx_node *next = rewriter_next(r, n);
  if (!rewriter_is(next, "onnx.Add")) return true;
  rlx_value *other = next->inputs[next->inputs[0] == n->outputs[0]];
  if (is_bias(other, n->outputs[0]->type.rank, c->columns)) {
    c->bias = other;
    c->nodes[c->count++] = next;
  }
  return true;
}

static bool begin_gemm(rlx_node *n, chain *c) {
  const gemm_params *p = n->params;
  const rlx_type *b = rlx_node_input_type(n, 1);
  if (p->alpha != 1 || p->beta != 1 || p->trans_a || b->rank != 2) return false;
  c->trans_b = p->trans_b != 0;
  c->columns = b->dims[c->trans_b ? 0 : 1];
  c->bias = rlx_node_input(n, 2);
  return !c->bias || is_bias(c->bias, 2, c->columns);
}

static rlx_status fuse_one(rewriter *r, rlx_node *n) {
  chain c = {.nodes = {n}, .count = 1};
  const rlx_type *a = rlx_node_input_type(n, 0);
  if (a->dtype != RLX_FLOAT) return RLX_OK;
  bool gemm = strcmp(n->op_name, "onnx.Gemm") == 0;
  if (!(gemm ? begin_gemm(n, &c) : begin_matmul(r, n, &c))) return RLX_OK;
  c.activation = activation_after(r, last_of(&c));
  for (int i = 0; i < c.activation.count; i++) c.nodes[c.count++] = c.activation.nodes[i];
  if (c.count == 1) return RLX_OK;
  rlx_value *bias = NULL;
  if (c.bias) RLX_TRY(flat(r, c.bias, &bias));
  const char *name = fused_activation_name(c.activation.kind);
  rlx_attr attrs[] = {RLX_ATTR_I("transB", c.trans_b),
                      {.name = "activation", .kind = RLX_ATTR_STRING, .s = {name, strlen(name)}},
                      RLX_ATTR_F("activation_alpha", c.activation.alpha),
                      RLX_ATTR_F("activation_beta", c.activation.beta)};
  rlx_value *inputs[] = {n->inputs[0], n->inputs[1], bias};
  rlx_node_desc desc = {.struct_size = sizeof desc,
                        .op = "rlx.matmul",
                        .inputs = inputs,
                        .input_count = bias ? 3 : 2,
                        .attrs = attrs,
                        .attr_count = 4};
  rlx_node *made;
  return rewriter_replace(r, &desc, c.nodes, c.count, &made);
}

rlx_status pass_fuse_matmul(rlx_graph *g, const target *t, bool *changed) {
  rewriter r;
  if (t->gpu) return RLX_OK;
  RLX_TRY(rewriter_start(&r, g, t));
  size_t count = g->nodes.count;
  rlx_status status = RLX_OK;
  for (size_t i = 0; i < count && status == RLX_OK; i++) {
    rlx_node *n = g->nodes.data[i];
    if ((rewriter_is(n, "onnx.MatMul") || rewriter_is(n, "onnx.Gemm")) && !rewriter_is_gone(&r, n)) {
      status = fuse_one(&r, n);
    }
  }
  return rewriter_finish(&r, status, changed);
}
