/* _conv_vjp.c — the derivative of Conv, as transposed convolution and convolution. */
#include <string.h>

#include "ops/conv.h"

static rlx_attr list(const char *name, const int64_t *values, int count) {
  return (rlx_attr){.name = name, .kind = RLX_ATTR_INTS, .ints = values, .count = (size_t)count};
}

static rlx_value *ints_constant(rlx_graph *g, const int64_t *values, int64_t count) {
  rlx_tensor *t;
  rlx_status status = rlx_tensor_create(RLX_INT64, 1, &count, &t);
  if (status) {
    rlx_graph_fail(g, status, "no memory for a constant");
    return NULL;
  }
  memcpy(rlx_tensor_data(t), values, (size_t)count * sizeof *values);
  rlx_value *v = rlx_graph_constant(g, NULL, t);
  rlx_tensor_destroy(t);
  return v;
}

/* Windows with both paddings in one list, as the attribute wants them. */
static void join_pads(const window *w, int64_t *pads) {
  memcpy(pads, w->begin, (size_t)w->rank * sizeof *pads);
  memcpy(pads + w->rank, w->end, (size_t)w->rank * sizeof *pads);
}

/* dX: each element of dY spread by the weights. */
static rlx_value *input_gradient(rlx_graph *g, const conv_shape *s, rlx_value *dy, rlx_value *weights) {
  const window *w = &s->window;
  int64_t pads[2 * WINDOW_MAX], extra[WINDOW_MAX];
  join_pads(w, pads);
  for (int d = 0; d < w->rank; d++) { /* what the stride skipped at the end */
    extra[d] =
        w->in[d] - ((w->out[d] - 1) * w->stride[d] + (w->kernel[d] - 1) * w->dilation[d] + 1 - w->begin[d] - w->end[d]);
  }
  rlx_attr attrs[] = {list("strides", w->stride, w->rank), list("dilations", w->dilation, w->rank),
                      list("pads", pads, 2 * w->rank), list("output_padding", extra, w->rank),
                      RLX_ATTR_I("group", s->group)};
  return rlx_graph_op(g, "onnx.ConvTranspose", attrs, 5, (rlx_value *[]){dy, weights}, 2);
}

static rlx_value *transpose(rlx_graph *g, rlx_value *v, const int64_t *order, int rank) {
  rlx_attr perm = list("perm", order, rank);
  return rlx_graph_op(g, "onnx.Transpose", &perm, 1, &v, 1);
}

static rlx_value *reshape(rlx_graph *g, rlx_value *v, const int64_t *dims, int rank) {
  return rlx_graph_op(g, "onnx.Reshape", NULL, 0, (rlx_value *[]){v, ints_constant(g, dims, rank)}, 2);
}

/* dW: X convolved with dY, samples in the place of channels; strides and dilations change places. */
rlx_value *conv_weights_gradient(rlx_graph *g, const conv_shape *s, rlx_value *x, rlx_value *dy) {
  const window *w = &s->window;
  int64_t pads[2 * WINDOW_MAX], depth = s->channels / s->group;
  int64_t split[RLX_MAX_RANK + 1] = {s->batch, s->group, depth}, joined[RLX_MAX_RANK] = {depth, s->group * s->batch};
  int64_t order[RLX_MAX_RANK + 1] = {2, 1, 0}, swap[RLX_MAX_RANK] = {1, 0};
  for (int d = 0; d < w->rank; d++) {
    split[d + 3] = joined[d + 2] = w->in[d];
    order[d + 3] = d + 3;
    swap[d + 2] = d + 2;
  }
  join_pads(w, pads);
  for (int d = 0; d < w->rank; d++) { /* so much that exactly `kernel` positions come out */
    int64_t reach = (w->kernel[d] - 1) * w->dilation[d] + (w->out[d] - 1) * w->stride[d] + 1;
    pads[w->rank + d] = reach - w->in[d] - w->begin[d];
  }
  if (s->group == 1) {
    x = transpose(g, x, swap, w->rank + 2);
  } else {
    x = reshape(g, transpose(g, reshape(g, x, split, w->rank + 3), order, w->rank + 3), joined, w->rank + 2);
  }
  rlx_attr attrs[] = {list("strides", w->dilation, w->rank), list("dilations", w->stride, w->rank),
                      list("pads", pads, 2 * w->rank), RLX_ATTR_I("group", s->group)};
  rlx_value *by_map = transpose(g, dy, swap, w->rank + 2);
  rlx_value *dw = rlx_graph_op(g, "onnx.Conv", attrs, 4, (rlx_value *[]){x, by_map}, 2);
  return transpose(g, dw, swap, w->rank + 2);
}

rlx_value *conv_bias_gradient(rlx_graph *g, rlx_value *v, int rank) {
  int64_t axes[RLX_MAX_RANK] = {0};
  for (int d = 2; d < rank; d++) axes[d - 1] = d;
  rlx_attr keepdims = RLX_ATTR_I("keepdims", 0);
  return rlx_graph_op(g, "onnx.ReduceSum", &keepdims, 1, (rlx_value *[]){v, ints_constant(g, axes, rank - 1)}, 2);
}

rlx_status conv_vjp(rlx_graph *g, const rlx_node *n, rlx_value *const *dy, rlx_value **dx) {
  rlx_value *x = rlx_node_input(n, 0), *w = rlx_node_input(n, 1), *b = rlx_node_input(n, 2);
  const rlx_type *xt = rlx_value_type(x), *wt = rlx_value_type(w);
  if (!dy[0]) return RLX_OK;
  bool known = xt->rank >= 3 && xt->rank < RLX_MAX_RANK && wt->rank == xt->rank;
  for (int d = 0; known && d < xt->rank; d++) known = xt->dims[d] > 0 && wt->dims[d] > 0;
  if (!known)
    return rlx_graph_fail(g, RLX_UNSUPPORTED, "the gradient of Conv needs shapes that are known and not empty");
  conv_shape s;
  const char *bad = conv_resolve(rlx_node_params(n), xt->rank, xt->dims, wt->rank, wt->dims, &s);
  if (bad) return rlx_graph_fail(g, RLX_INVALID, "%s", bad);
  dx[0] = input_gradient(g, &s, dy[0], w);
  dx[1] = conv_weights_gradient(g, &s, x, dy[0]);
  if (b) dx[2] = conv_bias_gradient(g, dy[0], xt->rank);
  return rlx_graph_status(g);
}
