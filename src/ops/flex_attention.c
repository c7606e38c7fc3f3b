/* flex_attention.c — ai.onnx.preview.FlexAttention: scaled dot-product attention whose scores and probabilities the
 * model's own subgraphs change. It is lowered, the subgraphs into the same graph, so that all of it runs wherever its
 * parts do. */
#include <math.h>
#include <stddef.h>

#include "base/status.h"
#include "ir/graph.h"
#include "ir/infer.h"
#include "ir/module.h"
#include "ops/_move.h"

typedef struct flex_params {
  uint64_t given; /* SCALE_GIVEN */
  float scale;
  int64_t precision;
  rlx_graph *score_mod, *prob_mod;
} flex_params;

enum { SCALE_GIVEN = 1, PRECISION_GIVEN = 2 };

/* The type that the softmax and the subgraphs work in. */
static rlx_dtype precision_of(const flex_params *p, rlx_dtype dtype) {
  if (p->given & PRECISION_GIVEN) return (rlx_dtype)p->precision;
  return dtype == RLX_DOUBLE ? RLX_DOUBLE : RLX_FLOAT;
}

/* ---- inference ---------------------------------------------------------------------------- */

static rlx_status same_dim(rlx_infer *ctx, const char *what, int64_t a, int64_t b) {
  if (a < 0 || b < 0 || a == b) return RLX_OK;
  return rlx_fail(ctx, RLX_INVALID, "%s: %lld and %lld", what, (long long)a, (long long)b);
}

static rlx_status check_dims(rlx_infer *ctx, const int64_t *q, const int64_t *k, const int64_t *v) {
  RLX_TRY(same_dim(ctx, "batches of Q and K differ", q[0], k[0]));
  RLX_TRY(same_dim(ctx, "batches of K and V differ", k[0], v[0]));
  RLX_TRY(same_dim(ctx, "heads of K and V differ", k[1], v[1]));
  RLX_TRY(same_dim(ctx, "lengths of K and V differ", k[2], v[2]));
  RLX_TRY(same_dim(ctx, "head sizes of Q and K differ", q[3], k[3]));
  if (q[1] >= 0 && k[1] >= 0 && (k[1] == 0 ? q[1] != 0 : q[1] % k[1] != 0))
    return rlx_fail(ctx, RLX_INVALID, "%lld query heads and %lld key heads", (long long)q[1], (long long)k[1]);
  return RLX_OK;
}

static rlx_status feed_mod(rlx_infer *ctx, const char *name, rlx_graph *mod, const rlx_type *type) {
  if (!mod) return RLX_OK;
  if (mod->inputs.count != 1 || mod->outputs.count != 1)
    return rlx_fail(ctx, RLX_INVALID, "%s has %zu inputs and %zu outputs, not one of each", name, mod->inputs.count,
                    mod->outputs.count);
  const infer_feed feed = {.graph = mod, .input = 0, .type = *type, .output = -1};
  return infer_feed_input(ctx, &feed);
}

static rlx_status infer(rlx_infer *ctx) {
  const flex_params *p = rlx_infer_params(ctx);
  const rlx_type *q = rlx_infer_input(ctx, 0), *k = rlx_infer_input(ctx, 1), *v = rlx_infer_input(ctx, 2);
  static const int64_t unknown[4] = {RLX_UNKNOWN, RLX_UNKNOWN, RLX_UNKNOWN, RLX_UNKNOWN};
  rlx_type scores;
  if ((p->given & PRECISION_GIVEN) &&
      (p->precision <= 0 || p->precision >= RLX_DTYPE_COUNT || !(RLX_SET_FLOATS >> p->precision & 1)))
    return rlx_fail(ctx, RLX_INVALID, "softmax_precision %lld is no floating-point type", (long long)p->precision);
  const rlx_type *all[] = {q, k, v};
  for (int i = 0; i < 3; i++)
    if (all[i]->rank >= 0 && all[i]->rank != 4)
      return rlx_fail(ctx, RLX_INVALID, "%c has rank %d, not 4", "QKV"[i], all[i] -> rank);
  const int64_t *qd = q->rank == 4 ? q->dims : unknown, *kd = k->rank == 4 ? k->dims : unknown;
  const int64_t *vd = v->rank == 4 ? v->dims : unknown;
  RLX_TRY(check_dims(ctx, qd, kd, vd));
  int64_t batch = qd[0] >= 0 ? qd[0] : kd[0] >= 0 ? kd[0] : vd[0];
  int64_t length = kd[2] >= 0 ? kd[2] : vd[2];
  type_set(&scores, precision_of(p, q->dtype), 4, (const int64_t[]){batch, qd[1], qd[2], length});
  RLX_TRY(feed_mod(ctx, "score_mod", p->score_mod, &scores));
  RLX_TRY(feed_mod(ctx, "prob_mod", p->prob_mod, &scores));
  rlx_infer_set(ctx, 0, 4, (const int64_t[]){batch, qd[1], qd[2], vd[3]});
  return RLX_OK;
}

/* ---- lowering ----------------------------------------------------------------------------- */

typedef struct flex {
  rlx_graph *g;
  const flex_params *params;
  rlx_value *q, *k, *v;
  rlx_dtype dtype, precision;
  bool grouped; /* heads of Q and K are not known to be as many */
} flex;

static int64_t dim_of(const rlx_value *v, int d) { return v->type.rank == 4 ? v->type.dims[d] : RLX_UNKNOWN; }

/* Dims [from, to) of a value. */
static rlx_value *dims_of(flex *f, rlx_value *v, int64_t from, int64_t to) {
  const rlx_attr attrs[] = {RLX_ATTR_I("start", from), RLX_ATTR_I("end", to)};
  return rlx_graph_op(f->g, "onnx.Shape", attrs, 2, &v, 1);
}

static rlx_value *joined(flex *f, rlx_value *const *parts, int count) {
  return graph_axis_op(f->g, "onnx.Concat", parts, count, 0);
}

/* The root of the scale, in float as ONNX's function has it, in the type of Q. */
static rlx_value *root_scale(flex *f) {
  int64_t size = dim_of(f->q, 3);
  if (f->params->given & SCALE_GIVEN) return graph_cast(f->g, graph_float(f->g, sqrtf(f->params->scale)), f->dtype);
  if (size >= 0) return graph_cast(f->g, graph_float(f->g, sqrtf((float)(1 / sqrt((double)size)))), f->dtype);
  rlx_value *root = graph_op1(f->g, "onnx.Sqrt", graph_cast(f->g, dims_of(f, f->q, 3, 4), RLX_DOUBLE));
  rlx_value *scale = graph_cast(f->g, graph_op1(f->g, "onnx.Reciprocal", root), RLX_FLOAT);
  return graph_cast(f->g, graph_op1(f->g, "onnx.Sqrt", scale), f->dtype);
}

/* [batch, heads, …] with the heads in groups, one a head of K: [batch, kv_heads, group, …]. */
static rlx_value *in_groups(flex *f, rlx_value *x) {
  rlx_value *kv = dims_of(f, f->k, 1, 2), *group = graph_op2(f->g, "onnx.Div", dims_of(f, f->q, 1, 2), kv);
  rlx_value *const parts[] = {dims_of(f, x, 0, 1), kv, group, dims_of(f, x, 2, 4)};
  return graph_op2(f->g, "onnx.Reshape", x, joined(f, parts, 4));
}

/* The inverse, for a value of dims [batch, kv_heads, group, length, last of `like`]. */
static rlx_value *out_of_groups(flex *f, rlx_value *x, rlx_value *last) {
  rlx_value *const parts[] = {dims_of(f, f->q, 0, 3), last};
  return graph_op2(f->g, "onnx.Reshape", x, joined(f, parts, 2));
}

static rlx_value *transposed(flex *f, rlx_value *x) {
  static const int64_t plain[] = {0, 1, 3, 2}, grouped[] = {0, 1, 2, 4, 3};
  const rlx_attr perm = {
      .name = "perm", .kind = RLX_ATTR_INTS, .ints = f->grouped ? grouped : plain, .count = f->grouped ? 5 : 4};
  return rlx_graph_op(f->g, "onnx.Transpose", &perm, 1, &x, 1);
}

/* One group axis of a head of K or V. */
static rlx_value *shared(flex *f, rlx_value *x) {
  const int64_t axis = 2;
  return f->grouped ? graph_op2(f->g, "onnx.Unsqueeze", x, graph_ints(f->g, &axis, 1)) : x;
}

static rlx_value *changed(flex *f, const rlx_graph *mod, rlx_value *x) {
  rlx_value *y = NULL;
  if (!mod || !x) return x;
  rlx_status status = graph_inline(f->g, mod, &x, &y);
  if (status != RLX_OK) (void)rlx_graph_fail(f->g, status, "%s", rlx_error_message());
  return y;
}

static rlx_value *scores_of(flex *f) {
  rlx_value *root = root_scale(f);
  rlx_value *q = graph_op2(f->g, "onnx.Mul", f->q, root), *k = graph_op2(f->g, "onnx.Mul", f->k, root);
  if (f->grouped) q = in_groups(f, q);
  rlx_value *scores = graph_op2(f->g, "onnx.MatMul", q, transposed(f, shared(f, k)));
  if (f->grouped) scores = out_of_groups(f, scores, dims_of(f, f->k, 2, 3));
  return graph_cast(f->g, scores, f->precision);
}

static rlx_status lower(rlx_graph *g, const rlx_node *n, rlx_value **outputs) {
  const flex_params *p = rlx_node_params(n);
  flex f = {.g = g, .params = p, .q = n->inputs[0], .k = n->inputs[1], .v = n->inputs[2]};
  f.dtype = f.q->type.dtype;
  f.precision = precision_of(p, f.dtype);
  f.grouped = dim_of(f.q, 1) < 0 || dim_of(f.q, 1) != dim_of(f.k, 1);
  rlx_value *scores = changed(&f, p->score_mod, scores_of(&f));
  const rlx_attr axis = RLX_ATTR_I("axis", -1);
  rlx_value *probs = changed(&f, p->prob_mod, rlx_graph_op(g, "onnx.Softmax", &axis, 1, &scores, 1));
  if (f.grouped) probs = in_groups(&f, probs);
  rlx_value *y = graph_op2(g, "onnx.MatMul", probs, shared(&f, graph_cast(g, f.v, f.precision)));
  if (f.grouped) y = out_of_groups(&f, y, dims_of(&f, f.v, 3, 4));
  outputs[0] = graph_cast(g, y, f.v->type.dtype);
  return rlx_graph_status(g);
}

#define AT(member) offsetof(flex_params, member)
static const rlx_op flex_attention = {
    .struct_size = sizeof(rlx_op),
    .name = "ai.onnx.preview.FlexAttention",
    .version = 1,
    .doc = "prob_mod(softmax(score_mod(Q K' scale))) V; heads of K and V are shared by groups of heads of Q.",
    .inputs = (const rlx_port[]){{.name = "Q", .variable = "T1", .dtypes = RLX_SET_FLOATS},
                                 {.name = "K", .variable = "T1", .dtypes = RLX_SET_FLOATS},
                                 {.name = "V", .variable = "T1", .dtypes = RLX_SET_FLOATS},
                                 {0}},
    .outputs = (const rlx_port[]){{.name = "Y", .variable = "T1", .dtypes = RLX_SET_FLOATS}, {0}},
    .attrs = (const rlx_attr_def[]){{.name = "scale", .kind = RLX_ATTR_FLOAT, .offset = AT(scale)},
                                    {.name = "softmax_precision", .kind = RLX_ATTR_INT, .offset = AT(precision)},
                                    {.name = "score_mod", .kind = RLX_ATTR_GRAPH, .offset = AT(score_mod)},
                                    {.name = "prob_mod", .kind = RLX_ATTR_GRAPH, .offset = AT(prob_mod)},
                                    {0}},
    .params_size = sizeof(flex_params),
    .traits = RLX_PURE,
    .infer = infer,
    .lower = lower,
};

const rlx_module ops_flex_attention = {.ops = (const rlx_op *const[]){&flex_attention, NULL}};
