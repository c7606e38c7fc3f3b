/* attn_graph.c — gdino.ms_deform_attn written in ONNX's ops and vision.ms_deform_sample, and its reverse derivative. */
#include <string.h>

#include "deform.h"

/* ---- pieces of graph -------------------------------------------------------------------------------------------- */

static rlx_value *node1(rlx_graph *g, const char *op, rlx_value *x) { return rlx_graph_op(g, op, NULL, 0, &x, 1); }
static rlx_value *node2(rlx_graph *g, const char *op, rlx_value *x, rlx_value *y) {
  return rlx_graph_op(g, op, NULL, 0, (rlx_value *[]){x, y}, 2);
}

static rlx_value *constant(rlx_graph *g, rlx_tensor *t) {
  rlx_value *v = rlx_graph_constant(g, NULL, t);
  rlx_tensor_destroy(t);
  return v;
}

static rlx_value *integers(rlx_graph *g, int rank, const int64_t *dims, const int64_t *values) {
  rlx_tensor *t = NULL;
  if (rlx_tensor_create(RLX_INT64, rank, dims, &t) != RLX_OK) {
    rlx_graph_fail(g, RLX_OUT_OF_MEMORY, "no memory for a constant");
    return NULL;
  }
  memcpy(rlx_tensor_data(t), values, rlx_tensor_bytes(t));
  return constant(g, t);
}
#define LIST(g, ...)                                                                                                   \
  integers(g, 1, (const int64_t[]){sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t)},                          \
           (const int64_t[]){__VA_ARGS__})

/* Numbers as a constant of the node's dtype: a cast would be one more op that a device must have. */
static rlx_value *numbers(rlx_graph *g, rlx_dtype dtype, int rank, const int64_t *dims, const double *values) {
  rlx_tensor *t = NULL;
  if (rlx_tensor_create(dtype, rank, dims, &t) != RLX_OK) {
    rlx_graph_fail(g, RLX_OUT_OF_MEMORY, "no memory for a constant");
    return NULL;
  }
  deform_store(&(rlx_operand){.data = rlx_tensor_data(t), .count = rlx_tensor_count(t), .dtype = dtype}, values);
  return constant(g, t);
}

static rlx_value *reshape(rlx_graph *g, rlx_value *x, rlx_value *shape) { return node2(g, "onnx.Reshape", x, shape); }
static rlx_value *sum_over(rlx_graph *g, rlx_value *x, rlx_value *axes) {
  const rlx_attr drop = RLX_ATTR_I("keepdims", 0);
  return rlx_graph_op(g, "onnx.ReduceSum", &drop, 1, (rlx_value *[]){x, axes}, 2);
}
static rlx_value *part(rlx_graph *g, rlx_value *x, int64_t from, int64_t to) {
  return rlx_graph_op(g, "onnx.Slice", NULL, 0, (rlx_value *[]){x, LIST(g, from), LIST(g, to), LIST(g, -1)}, 4);
}

/* x Wᵀ + b, over the last dim of x. */
static rlx_value *project(rlx_graph *g, rlx_value *x, rlx_value *w, rlx_value *b) {
  return node2(g, "onnx.Add", node2(g, "onnx.MatMul", x, node1(g, "onnx.Transpose", w)), b);
}

/* ---- forward ---------------------------------------------------------------------------------------------------- */

/* What a node stands for; every sequence with a batch. */
typedef struct pieces {
  attn_shape s;
  rlx_dtype dtype;
  bool batched;
  rlx_value *query, *source, *reference, *in[ATTN_INPUTS];
  rlx_value *value, *shapes, *locations, *weights; /* operands of the sampling */
  rlx_value *offsets,
      *unit;         /* [batch, queries, heads, levels, points, 2]; what an offset of 1 moves, or 0.5 / points */
  rlx_value *extent; /* of 4 numbers: [batch, queries, 1, levels, 1, 2] */
  rlx_value *sampled;
} pieces;

static rlx_status open_pieces(rlx_graph *g, const rlx_node *n, pieces *p) {
  const rlx_type *types[ATTN_INPUTS];
  for (int i = 0; i < ATTN_INPUTS; i++) {
    types[i] = rlx_node_input_type(n, i);
    p->in[i] = rlx_node_input(n, i);
  }
  const char *bad = attn_resolve(rlx_node_params(n), types, &p->s);
  if (bad) return rlx_graph_fail(g, RLX_INVALID, "%s", bad);
  if (types[ATTN_QUERY]->rank == RLX_UNKNOWN || p->s.reference == RLX_UNKNOWN)
    return rlx_graph_fail(g, RLX_UNSUPPORTED, "the query's rank and the reference points' last dim must be known");
  p->dtype = types[ATTN_QUERY]->dtype;
  p->batched = types[ATTN_QUERY]->rank == 3;
  for (int i = ATTN_QUERY; i <= ATTN_REFERENCE; i++)
    if (!p->batched) p->in[i] = node2(g, "onnx.Unsqueeze", p->in[i], LIST(g, 0));
  p->query = p->in[ATTN_QUERY];
  p->source = p->in[ATTN_SOURCE];
  p->reference = p->in[ATTN_REFERENCE];
  return RLX_OK;
}

static void locate(rlx_graph *g, pieces *p) {
  const attn_shape *s = &p->s;
  rlx_value *reference = node2(g, "onnx.Unsqueeze", p->reference, LIST(g, 2, 4)), *step;
  if (s->reference == 4) {
    p->unit = numbers(g, p->dtype, 0, NULL, (const double[]){0.5 / (double)s->points});
    p->extent = part(g, reference, 2, 4);
    step = node2(g, "onnx.Mul", node2(g, "onnx.Mul", p->offsets, p->unit), p->extent);
    reference = part(g, reference, 0, 2);
  } else {
    double inverse[2 * DEFORM_LEVELS];
    for (int64_t l = 0; l < s->levels.count; l++) {
      inverse[2 * l] = 1 / (double)s->levels.of[l].width;
      inverse[2 * l + 1] = 1 / (double)s->levels.of[l].height;
    }
    p->unit = numbers(g, p->dtype, 3, (const int64_t[]){s->levels.count, 1, 2}, inverse);
    step = node2(g, "onnx.Mul", p->offsets, p->unit);
  }
  p->locations = node2(g, "onnx.Add", reference, step);
}

static void build(rlx_graph *g, pieces *p) {
  const attn_shape *s = &p->s;
  int64_t heads = s->heads, levels = s->levels.count, points = s->points, shapes[2 * DEFORM_LEVELS];
  for (int64_t l = 0; l < levels; l++)
    shapes[2 * l] = s->levels.of[l].height, shapes[2 * l + 1] = s->levels.of[l].width;
  p->shapes = integers(g, 2, (const int64_t[]){levels, 2}, shapes);
  p->value = project(g, p->source, p->in[ATTN_VALUE_WEIGHT], p->in[ATTN_VALUE_BIAS]);
  p->value = reshape(g, p->value, LIST(g, 0, 0, heads, -1));
  p->offsets = project(g, p->query, p->in[ATTN_OFFSET_WEIGHT], p->in[ATTN_OFFSET_BIAS]);
  p->offsets = reshape(g, p->offsets, LIST(g, 0, 0, heads, levels, points, 2));
  rlx_value *scores = project(g, p->query, p->in[ATTN_SCORE_WEIGHT], p->in[ATTN_SCORE_BIAS]);
  p->weights = node1(g, "onnx.Softmax", reshape(g, scores, LIST(g, 0, 0, heads, levels * points)));
  p->weights = reshape(g, p->weights, LIST(g, 0, 0, heads, levels, points));
  locate(g, p);
  p->sampled = rlx_graph_op(g, "vision.ms_deform_sample", NULL, 0,
                            (rlx_value *[]){p->value, p->shapes, p->locations, p->weights}, 4);
}

static rlx_value *without_batch(rlx_graph *g, const pieces *p, rlx_value *x) {
  return p->batched ? x : node2(g, "onnx.Squeeze", x, LIST(g, 0));
}

rlx_status attn_lower(rlx_graph *g, const rlx_node *n, rlx_value **outputs) {
  pieces p = {.batched = false};
  rlx_status status = open_pieces(g, n, &p);
  if (status != RLX_OK) return status;
  build(g, &p);
  rlx_value *y = project(g, p.sampled, p.in[ATTN_OUTPUT_WEIGHT], p.in[ATTN_OUTPUT_BIAS]);
  outputs[0] = without_batch(g, &p, y);
  return rlx_graph_status(g);
}

/* ---- reverse ---------------------------------------------------------------------------------------------------- */

/* Of x Wᵀ + b from the gradient dy [batch, rows, out]: those of W and b; returns that of x. */
static rlx_value *project_vjp(rlx_graph *g, rlx_value *dy, rlx_value *x, rlx_value *w, rlx_value **dw, rlx_value **db) {
  const rlx_attr rows = RLX_ATTR_I("axis", 2), turned = RLX_ATTR_I("transA", 1);
  rlx_value *flat_dy = rlx_graph_op(g, "onnx.Flatten", &rows, 1, &dy, 1);
  rlx_value *flat_x = rlx_graph_op(g, "onnx.Flatten", &rows, 1, &x, 1);
  *dw = rlx_graph_op(g, "onnx.Gemm", &turned, 1, (rlx_value *[]){flat_dy, flat_x}, 2);
  *db = sum_over(g, dy, LIST(g, 0, 1));
  return node2(g, "onnx.MatMul", dy, w);
}

/* Of the softmax over levels and points. */
static rlx_value *softmax_vjp(rlx_graph *g, const pieces *p, rlx_value *grad) {
  rlx_value *shape = LIST(g, 0, 0, p->s.heads, p->s.levels.count * p->s.points);
  rlx_value *weights = reshape(g, p->weights, shape), *flat = reshape(g, grad, shape);
  rlx_value *mean =
      rlx_graph_op(g, "onnx.ReduceSum", NULL, 0, (rlx_value *[]){node2(g, "onnx.Mul", flat, weights), LIST(g, -1)}, 2);
  rlx_value *scores = node2(g, "onnx.Mul", weights, node2(g, "onnx.Sub", flat, mean));
  return reshape(g, scores, LIST(g, 0, 0, -1));
}

/* From the gradient of the places to those of the offsets, returned, and of the reference points. */
static rlx_value *locate_vjp(rlx_graph *g, const pieces *p, rlx_value *grad, rlx_value **reference) {
  rlx_value *axes = LIST(g, 2, 4), *moved = node2(g, "onnx.Mul", grad, p->unit);
  *reference = sum_over(g, grad, axes);
  if (p->s.reference == 4) {
    const rlx_attr last = RLX_ATTR_I("axis", -1);
    rlx_value *extent = sum_over(g, node2(g, "onnx.Mul", moved, p->offsets), axes);
    *reference = rlx_graph_op(g, "onnx.Concat", &last, 1, (rlx_value *[]){*reference, extent}, 2);
    moved = node2(g, "onnx.Mul", moved, p->extent);
  }
  return reshape(g, moved, LIST(g, 0, 0, -1));
}

rlx_status attn_vjp(rlx_graph *g, const rlx_node *n, rlx_value *const *output_grads, rlx_value **d) {
  pieces p = {.batched = false};
  if (!output_grads[0]) return RLX_OK;
  rlx_status status = open_pieces(g, n, &p);
  if (status != RLX_OK) return status;
  build(g, &p);
  rlx_value *dy = p.batched ? output_grads[0] : node2(g, "onnx.Unsqueeze", output_grads[0], LIST(g, 0));
  rlx_value *ds = project_vjp(g, dy, p.sampled, p.in[ATTN_OUTPUT_WEIGHT], &d[ATTN_OUTPUT_WEIGHT], &d[ATTN_OUTPUT_BIAS]);
  rlx_value *in[] = {p.value, p.shapes, p.locations, p.weights, ds};
  const rlx_node_desc desc = {.struct_size = sizeof desc,
                              .op = "vision.ms_deform_sample_grad",
                              .inputs = in,
                              .input_count = 5,
                              .output_count = 3};
  rlx_node *sample = rlx_graph_node(g, &desc);
  if (!sample) return rlx_graph_status(g);
  rlx_value *dv = reshape(g, rlx_node_output(sample, 0), LIST(g, 0, 0, -1)), *reference;
  rlx_value *doff = locate_vjp(g, &p, rlx_node_output(sample, 1), &reference);
  rlx_value *dscore = softmax_vjp(g, &p, rlx_node_output(sample, 2));
  rlx_value *source = project_vjp(g, dv, p.source, p.in[ATTN_VALUE_WEIGHT], &d[ATTN_VALUE_WEIGHT], &d[ATTN_VALUE_BIAS]);
  rlx_value *q1 = project_vjp(g, doff, p.query, p.in[ATTN_OFFSET_WEIGHT], &d[ATTN_OFFSET_WEIGHT], &d[ATTN_OFFSET_BIAS]);
  rlx_value *q2 = project_vjp(g, dscore, p.query, p.in[ATTN_SCORE_WEIGHT], &d[ATTN_SCORE_WEIGHT], &d[ATTN_SCORE_BIAS]);
  d[ATTN_QUERY] = without_batch(g, &p, node2(g, "onnx.Add", q1, q2));
  d[ATTN_SOURCE] = without_batch(g, &p, source);
  d[ATTN_REFERENCE] = without_batch(g, &p, reference);
  return rlx_graph_status(g);
}
