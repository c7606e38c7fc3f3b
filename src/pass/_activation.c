/* _activation.c — recognising activations. */
#include "pass/_activation.h"

#include <float.h>
#include <math.h>
#include <string.h>

static bool scalar_constant(const rlx_value *v, float *out) {
  if (!v->constant || v->constant->dtype != RLX_FLOAT || v->constant->count != 1) return false;
  const float *data = rlx_tensor_data(v->constant);
  if (data) *out = *data;
  return data != NULL;
}

static float attr_or(const rlx_node *n, const char *name, float otherwise) {
  const rlx_attr *a = node_attr(n, name);
  return a && a->kind == RLX_ATTR_FLOAT ? a->f : otherwise;
}

static bool match_clip(const rlx_node *n, activation_match *m) {
  rlx_value *low = rlx_node_input(n, 1), *high = rlx_node_input(n, 2);
  m->alpha = -FLT_MAX;
  m->beta = FLT_MAX;
  return (!low || scalar_constant(low, &m->alpha)) && (!high || scalar_constant(high, &m->beta));
}

static bool match_leaky(const rlx_node *n, activation_match *m) {
  m->alpha = attr_or(n, "alpha", 0.01f);
  return true;
}

static bool match_gelu(const rlx_node *n, activation_match *m) {
  (void)m;
  const rlx_attr *a = node_attr(n, "approximate");
  return !a || (a->s.size == 4 && memcmp(a->s.data, "none", 4) == 0);
}

/* Activations that are one node. */
static const struct {
  const char *op;
  fused_activation kind;
  bool (*match)(const rlx_node *n, activation_match *m);
} singles[] = {
    {"onnx.Relu", FUSED_RELU, NULL},
    {"onnx.Clip", FUSED_CLIP, match_clip},
    {"onnx.LeakyRelu", FUSED_LEAKY_RELU, match_leaky},
    {"onnx.Sigmoid", FUSED_SIGMOID, NULL},
    {"onnx.Tanh", FUSED_TANH, NULL},
    {"onnx.HardSwish", FUSED_HARD_SWISH, NULL},
    {"onnx.Gelu", FUSED_GELU, match_gelu},
};

static activation_match match_single(rlx_node *n, const rlx_value *x) {
  activation_match m = {.kind = FUSED_NONE};
  for (size_t i = 0; n && i < sizeof singles / sizeof *singles; i++) {
    if (!rewriter_is(n, singles[i].op) || n->inputs[0] != x) continue;
    if (singles[i].match && !singles[i].match(n, &m)) break;
    m.kind = singles[i].kind;
    m.nodes[m.count++] = n;
    return m;
  }
  return (activation_match){.kind = FUSED_NONE};
}

/* x * gate(x), where gate is Sigmoid or the HardSigmoid of hard swish. */
static activation_match match_gated(const rewriter *r, const rlx_value *x) {
  activation_match m = {.kind = FUSED_NONE, .alpha = 1};
  if (!rewriter_used(r, x, 2)) return m;
  rlx_node *gate = r->users[x->id][0], *product = r->users[x->id][1];
  if (rewriter_is(gate, "onnx.Mul")) product = gate, gate = r->users[x->id][1];
  if (!rewriter_is(product, "onnx.Mul") || rewriter_next(r, gate) != product) return m;
  const rlx_value *y = gate->outputs[0];
  bool feeds =
      (product->inputs[0] == x && product->inputs[1] == y) || (product->inputs[1] == x && product->inputs[0] == y);
  fused_activation kind = FUSED_NONE;
  if (rewriter_is(gate, "onnx.Sigmoid")) kind = FUSED_SWISH;
  if (rewriter_is(gate, "onnx.HardSigmoid") && fabsf(attr_or(gate, "alpha", 0.2f) - 1.0f / 6) < 1e-6f &&
      attr_or(gate, "beta", 0.5f) == 0.5f) {
    kind = FUSED_HARD_SWISH;
  }
  if (!feeds || kind == FUSED_NONE) return m;
  return (activation_match){.kind = kind, .alpha = 1, .nodes = {gate, product}, .count = 2};
}

/* n is `op` of x and a number close to `value`, in either order. */
static bool is_with(const rlx_node *n, const char *op, const rlx_value *x, float value) {
  float c;
  if (!rewriter_is(n, op)) return false;
  if (n->inputs[0] == x && scalar_constant(n->inputs[1], &c)) return fabsf(c - value) <= 1e-6f * fabsf(value);
  if (strcmp(op, "onnx.Div") == 0 || n->inputs[1] != x || !scalar_constant(n->inputs[0], &c)) return false;
  return fabsf(c - value) <= 1e-6f * fabsf(value);
}

/* x / sqrt(2), Erf, + 1, * x, / 2: how exporters write gelu. */
static activation_match match_gelu_chain(const rewriter *r, const rlx_value *x) {
  activation_match none = {.kind = FUSED_NONE};
  if (!rewriter_used(r, x, 2)) return none;
  rlx_node *scaled = r->users[x->id][0], *product = r->users[x->id][1];
  if (rewriter_is(rewriter_next(r, product), "onnx.Erf")) product = scaled, scaled = r->users[x->id][1];
  if (!is_with(scaled, "onnx.Div", x, 1.41421356f) && !is_with(scaled, "onnx.Mul", x, 0.70710678f)) return none;
  rlx_node *erf = rewriter_next(r, scaled);
  if (!rewriter_is(erf, "onnx.Erf")) return none;
  rlx_node *sum = rewriter_next(r, erf);
  if (!is_with(sum, "onnx.Add", erf->outputs[0], 1) || rewriter_next(r, sum) != product) return none;
  if (!rewriter_is(product, "onnx.Mul") || (product->inputs[0] != x && product->inputs[1] != x)) return none;
  rlx_node *half = rewriter_next(r, product);
  if (!is_with(half, "onnx.Mul", product->outputs[0], 0.5f)) return none;
  return (activation_match){.kind = FUSED_GELU, .nodes = {scaled, erf, sum, product, half}, .count = 5};
}

activation_match activation_after(const rewriter *r, const rlx_node *n) {
  activation_match m = match_single(rewriter_next(r, n), n->outputs[0]);
  if (m.kind == FUSED_NONE) m = match_gated(r, n->outputs[0]);
  return m.kind != FUSED_NONE ? m : match_gelu_chain(r, n->outputs[0]);
}
