/* fuse_conv.c — pass fuse_conv: batch normalisation and per-channel constants go into a convolution's weights; the sum
 * with another tensor and an activation into one rlx.conv. */
#include <math.h>
#include <string.h>

#include "base/status.h"
#include "ops/batchnorm.h"
#include "ops/fused_conv.h"
#include "pass/_activation.h"

enum { CHAIN = 16 };

/* A convolution and what follows it. scale and shift, one a map, are in the pass's memory: NULL while nothing has been
 * folded. */
typedef struct chain {
  rlx_node *conv, *nodes[CHAIN];
  int count;
  int64_t maps;
  float *scale, *shift;
  rlx_value *sum;
  activation_match activation;
} chain;

static const float *floats(const rlx_value *v, int64_t count) {
  const rlx_tensor *t = v ? v->constant : NULL;
  return t && t->dtype == RLX_FLOAT && t->count == count ? rlx_tensor_data(t) : NULL;
}

static rlx_node *last_of(const chain *c) { return c->nodes[c->count - 1]; }

static bool push(chain *c, rlx_node *n) {
  if (c->count == CHAIN) return false;
  c->nodes[c->count++] = n;
  return true;
}

/* ---- folding ------------------------------------------------------------------------------ */

static rlx_status begin_fold(rewriter *r, chain *c) {
  if (c->scale) return RLX_OK;
  c->scale = arena_array(&r->memory, (size_t)c->maps, sizeof *c->scale);
  c->shift = arena_array(&r->memory, (size_t)c->maps, sizeof *c->shift);
  if (!c->scale || !c->shift) return status_no_memory((size_t)c->maps);
  for (int64_t m = 0; m < c->maps; m++) c->scale[m] = 1;
  return RLX_OK;
}

static rlx_status fold_batchnorm(rewriter *r, chain *c, rlx_node *n, bool *done) {
  const batchnorm_params *p = n->params;
  const float *scale = floats(rlx_node_input(n, 1), c->maps), *shift = floats(rlx_node_input(n, 2), c->maps);
  const float *mean = floats(rlx_node_input(n, 3), c->maps), *variance = floats(rlx_node_input(n, 4), c->maps);
  if (p->training_mode || !scale || !shift || !mean || !variance || c->count == CHAIN) return RLX_OK;
  RLX_TRY(begin_fold(r, c));
  for (int64_t m = 0; m < c->maps; m++) {
    float factor = scale[m] / sqrtf(variance[m] + p->epsilon);
    c->scale[m] *= factor;
    c->shift[m] = (c->shift[m] - mean[m]) * factor + shift[m];
  }
  *done = push(c, n);
  return RLX_OK;
}

/* A constant with one element a channel, or one for all, in a tensor of `rank` dims; step: from channel to channel. */
static const float *channel_constant(const rlx_value *v, int rank, int64_t maps, int64_t *step) {
  const rlx_tensor *t = v ? v->constant : NULL;
  if (!t || t->dtype != RLX_FLOAT || t->rank > rank) return NULL;
  *step = 0;
  for (int i = 0; i < t->rank; i++) {
    if (t->dims[i] == 1) continue;
    if (i + rank - t->rank != 1 || t->dims[i] != maps) return NULL;
    *step = 1;
  }
  return rlx_tensor_data(t);
}

static rlx_status fold_constant(rewriter *r, chain *c, rlx_node *n, bool product, bool *done) {
  const rlx_value *x = last_of(c)->outputs[0];
  const rlx_value *other = n->inputs[0] == x ? n->inputs[1] : n->inputs[0];
  int64_t step;
  const float *k = channel_constant(other, x->type.rank, c->maps, &step);
  if (!k || c->count == CHAIN) return RLX_OK;
  RLX_TRY(begin_fold(r, c));
  for (int64_t m = 0; m < c->maps; m++) {
    if (product) {
      c->scale[m] *= k[m * step];
      c->shift[m] *= k[m * step];
    } else {
      c->shift[m] += k[m * step];
    }
  }
  *done = push(c, n);
  return RLX_OK;
}

static bool is_float_constant(const rlx_value *v) { return v && v->constant && v->constant->dtype == RLX_FLOAT; }

static rlx_status fold(rewriter *r, chain *c) {
  rlx_value *bias = rlx_node_input(c->conv, 2);
  if (!is_float_constant(c->conv->inputs[1]) || (bias && !floats(bias, c->maps))) return RLX_OK;
  for (bool done = true; done;) {
    done = false;
    rlx_node *n = rewriter_next(r, last_of(c));
    if (rewriter_is(n, "onnx.BatchNormalization") && n->inputs[0] == last_of(c)->outputs[0]) {
      RLX_TRY(fold_batchnorm(r, c, n, &done));
    } else if (rewriter_is(n, "onnx.Mul") || rewriter_is(n, "onnx.Add")) {
      RLX_TRY(fold_constant(r, c, n, strcmp(n->op_name, "onnx.Mul") == 0, &done));
    }
  }
  return RLX_OK;
}

/* Constants with what was folded: W * scale, B * scale + shift. */
static rlx_status fold_weights(rewriter *r, const chain *c, rlx_value **w, rlx_value **b) {
  const rlx_tensor *from = c->conv->inputs[1]->constant;
  const float *bias = floats(rlx_node_input(c->conv, 2), c->maps), *old = tensor_pin(from);
  rlx_tensor *weights = NULL, *shift = NULL;
  if (!old) return status_no_memory(from->bytes);
  rlx_status status = rlx_tensor_create(RLX_FLOAT, from->rank, from->dims, &weights);
  if (status == RLX_OK) status = rlx_tensor_create(RLX_FLOAT, 1, &c->maps, &shift);
  if (status == RLX_OK) {
    float *to = weights->data, *add = shift->data;
    int64_t filter = c->maps ? from->count / c->maps : 0;
    for (int64_t i = 0; i < from->count; i++) to[i] = old[i] * c->scale[i / filter];
    for (int64_t m = 0; m < c->maps; m++) add[m] = (bias ? bias[m] * c->scale[m] : 0) + c->shift[m];
    *w = rlx_graph_constant(r->g, NULL, weights);
    *b = rlx_graph_constant(r->g, NULL, shift);
    if (!*w || !*b) status = rlx_graph_status(r->g);
  }
  tensor_unpin(from);
  rlx_tensor_destroy(weights);
  rlx_tensor_destroy(shift);
  return status;
}

/* ---- the sum and the activation ----------------------------------------------------------- */

static bool same_dims(const rewriter *r, const rlx_value *a, const rlx_value *b) {
  return a->graph == r->g && b->graph == r->g && a->id < r->value_count && b->id < r->value_count &&
         dims_same(r->dims, a, b);
}

/* The tensor that the chain's result is added to next, if it is there by the time the convolution runs. */
static void match_sum(rewriter *r, chain *c) {
  rlx_node *n = rewriter_next(r, last_of(c));
  if (!rewriter_is(n, "onnx.Add") || c->count == CHAIN) return;
  rlx_value *x = last_of(c)->outputs[0], *other = n->inputs[n->inputs[0] == x];
  if (other == x || x->type.rank < 3 || other->constant || !same_dims(r, x, other)) return;
  if (other->producer && other->graph == r->g && other->producer->id >= c->conv->id) return;
  c->sum = other;
  push(c, n);
}

static void match_activation(rewriter *r, chain *c) {
  c->activation = activation_after(r, last_of(c));
  if (c->count + c->activation.count > CHAIN) c->activation = (activation_match){.kind = FUSED_NONE};
  for (int i = 0; i < c->activation.count; i++) push(c, c->activation.nodes[i]);
}

/* ---- making ------------------------------------------------------------------------------- */

enum { ATTRS = 12 };

/* The convolution's attributes, and the activation's. */
static int collect_attrs(const chain *c, rlx_attr *attrs) {
  int count = 0;
  for (int i = 0; i < c->conv->attr_count && count < ATTRS - 3; i++) attrs[count++] = c->conv->attrs[i];
  if (c->activation.kind == FUSED_NONE) return count;
  const char *name = fused_activation_name(c->activation.kind);
  attrs[count++] = (rlx_attr){.name = "activation", .kind = RLX_ATTR_STRING, .s = {name, strlen(name)}};
  attrs[count++] = (rlx_attr)RLX_ATTR_F("activation_alpha", c->activation.alpha);
  attrs[count++] = (rlx_attr)RLX_ATTR_F("activation_beta", c->activation.beta);
  return count;
}

static rlx_status make(rewriter *r, chain *c, rlx_value *w, rlx_value *b, rlx_node **made) {
  bool fused = c->sum || c->activation.kind != FUSED_NONE;
  rlx_attr attrs[ATTRS];
  rlx_value *inputs[FUSED_CONV_INPUTS] = {c->conv->inputs[0], w, b, c->sum};
  rlx_node_desc desc = {.struct_size = sizeof desc,
                        .op = fused ? "rlx.conv" : "onnx.Conv",
                        .inputs = inputs,
                        .input_count = c->sum ? 4
                                       : b    ? 3
                                              : 2,
                        .attrs = attrs,
                        .attr_count = collect_attrs(c, attrs)};
  return rewriter_replace(r, &desc, c->nodes, c->count, made);
}

static rlx_status fuse_one(rewriter *r, rlx_node *conv) {
  chain c = {.conv = conv, .nodes = {conv}, .count = 1};
  const rlx_type *weights = rlx_node_input_type(conv, 1);
  if (weights->dtype != RLX_FLOAT || weights->rank < 3 || weights->dims[0] < 1 || conv->attr_count > ATTRS - 3)
    return RLX_OK;
  c.maps = weights->dims[0];
  RLX_TRY(fold(r, &c));
  int folded = c.count;
  if (!r->t->gpu) {
    match_sum(r, &c);
    match_activation(r, &c);
  }
  if (c.count == 1) return RLX_OK;
  rlx_value *w = conv->inputs[1], *b = rlx_node_input(conv, 2);
  if (folded > 1) RLX_TRY(fold_weights(r, &c, &w, &b));
  rlx_node *made;
  RLX_TRY(make(r, &c, w, b, &made));
  if (made || folded == 1 || folded == c.count) return RLX_OK;
  /* No kernel for the whole: fold at least. */
  c.count = folded;
  c.sum = NULL;
  c.activation.kind = FUSED_NONE;
  return make(r, &c, w, b, &made);
}

rlx_status pass_fuse_conv(rlx_graph *g, const target *t, bool *changed) {
  rewriter r;
  RLX_TRY(rewriter_start(&r, g, t));
  size_t count = g->nodes.count;
  rlx_status status = RLX_OK;
  for (size_t i = 0; i < count && status == RLX_OK; i++) {
    rlx_node *n = g->nodes.data[i];
    if (rewriter_is(n, "onnx.Conv") && !rewriter_is_gone(&r, n)) status = fuse_one(&r, n);
  }
  return rewriter_finish(&r, status, changed);
}
