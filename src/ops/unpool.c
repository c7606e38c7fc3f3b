/* unpool.c — onnx.MaxUnpool: puts elements back where MaxPool took them from. */
#include <string.h>

#include "base/status.h"
#include "ir/dtype.h"
#include "ir/module.h"
#include "ops/_derivative.h"
#include "ops/_window.h"

typedef struct unpool_params {
  uint64_t given;
  window_attrs window;
} unpool_params;

/* The dims that X came from, before any output_shape. */
static const char *unpooled(const unpool_params *p, int rank, const int64_t *x, int64_t *dims) {
  window w;
  int64_t unknown[WINDOW_MAX];
  for (int d = 0; d < WINDOW_MAX; d++) unknown[d] = RLX_UNKNOWN;
  if (p->window.kernel_shape.count != rank - 2) {
    return rlx_reason("a kernel_shape of %lld entries for an input of rank %d", (long long)p->window.kernel_shape.count,
                      rank);
  }
  const char *bad = window_resolve(&p->window, rank - 2, unknown, p->window.kernel_shape.data, &w);
  if (bad) return bad;
  dims[0] = x[0];
  dims[1] = x[1];
  for (int d = 0; d < rank - 2; d++) {
    int64_t n = x[d + 2];
    dims[d + 2] = n == RLX_UNKNOWN ? n : (n - 1) * w.stride[d] - w.begin[d] - w.end[d] + w.kernel[d];
    if (n != RLX_UNKNOWN && dims[d + 2] < 0) return rlx_reason("axis %d of size %lld", d + 2, (long long)n);
  }
  return NULL;
}

static rlx_status infer(rlx_infer *ctx) {
  const rlx_type *x = rlx_infer_input(ctx, 0);
  bool stated = rlx_infer_input_count(ctx) > 2 && rlx_infer_input(ctx, 2);
  if (stated) {
    const rlx_tensor *shape = rlx_infer_value(ctx, 2);
    int64_t dims[RLX_MAX_RANK];
    if (!shape) {
      for (int d = 0; d < RLX_MAX_RANK; d++) dims[d] = RLX_UNKNOWN;
      if (x->rank != RLX_UNKNOWN) rlx_infer_set(ctx, 0, x->rank, dims);
      return RLX_OK;
    }
    int64_t rank = rlx_tensor_count(shape);
    const int64_t *values = rlx_tensor_data(shape);
    if (rank > RLX_MAX_RANK || (x->rank != RLX_UNKNOWN && rank != x->rank)) {
      return rlx_fail(ctx, RLX_INVALID, "an output_shape of %lld entries", (long long)rank);
    }
    for (int64_t d = 0; d < rank; d++) {
      if (values[d] < 0) return rlx_fail(ctx, RLX_INVALID, "output_shape holds %lld", (long long)values[d]);
    }
    rlx_infer_set(ctx, 0, (int)rank, values);
    return RLX_OK;
  }
  if (x->rank == RLX_UNKNOWN) return RLX_OK;
  if (x->rank < 3) return rlx_fail(ctx, RLX_INVALID, "an input of rank %d", x->rank);
  int64_t dims[RLX_MAX_RANK];
  const char *bad = unpooled(rlx_infer_params(ctx), x->rank, x->dims, dims);
  if (bad) return rlx_fail(ctx, RLX_INVALID, "%s", bad);
  rlx_infer_set(ctx, 0, x->rank, dims);
  return RLX_OK;
}

static rlx_status eval(rlx_ctx *ctx) {
  const rlx_operand *x = &ctx->inputs[0], *at = &ctx->inputs[1], *y = &ctx->outputs[0];
  int64_t dims[RLX_MAX_RANK], total = 1;
  if (x->rank < 3 || at->count != x->count || y->rank != x->rank) {
    return rlx_fail(ctx, RLX_INVALID, "an input of rank %d with %lld indices for %lld elements", x->rank,
                    (long long)at->count, (long long)x->count);
  }
  const char *bad = unpooled(ctx->params, x->rank, x->dims, dims);
  if (bad) return rlx_fail(ctx, RLX_INVALID, "%s", bad);
  for (int d = 0; d < x->rank; d++) {
    if (__builtin_mul_overflow(total, dims[d], &total)) return rlx_fail(ctx, RLX_INVALID, "the output is too large");
  }
  size_t size = dtype_size(y->dtype);
  memset(y->data, 0, (size_t)y->bytes);
  for (int64_t i = 0; i < x->count; i++) {
    int64_t rest = ((const int64_t *)at->data)[i], to = 0, scale = 1;
    if (rest < 0 || rest >= total) {
      return rlx_fail(ctx, RLX_INVALID, "index %lld of %lld", (long long)rest, (long long)total);
    }
    /* Indices count in the shape X came from; a stated output_shape only makes room after it. */
    for (int d = x->rank - 1; d >= 0 && to >= 0; d--) {
      int64_t position = rest % dims[d];
      to = position < y->dims[d] ? to + position * scale : -1;
      rest /= dims[d];
      scale *= y->dims[d];
    }
    if (to >= 0) memcpy((char *)y->data + (size_t)to * size, (const char *)x->data + (size_t)i * size, size);
  }
  return RLX_OK;
}

/* dX: the elements of dY that X went to. */
static rlx_status vjp(rlx_graph *g, const rlx_node *n, rlx_value *const *dy, rlx_value **dx) {
  rlx_value *in[3] = {dy[0], rlx_node_input(n, 1), rlx_node_input(n, 0)};
  const rlx_type *x = rlx_value_type(in[2]);
  int64_t dims[RLX_MAX_RANK];
  if (!dy[0]) return RLX_OK;
  bool stated = rlx_node_input(n, 2) != NULL, known = x->rank >= 3;
  for (int d = 0; known && d < x->rank; d++) known = x->dims[d] >= 0;
  if (stated && !known) return rlx_graph_fail(g, RLX_UNSUPPORTED, "output_shape, and the dims of X are not known");
  const char *bad = stated ? unpooled(rlx_node_params(n), x->rank, x->dims, dims) : NULL;
  if (bad) return rlx_graph_fail(g, RLX_INVALID, "%s", bad);
  if (stated) { /* to the dims that indices count in: cut, or zeros put in */
    int64_t pads[2 * RLX_MAX_RANK] = {0};
    const rlx_type *y = rlx_node_output_type(n, 0);
    for (int d = 0; d < x->rank; d++) {
      if (y->rank != x->rank || y->dims[d] < 0)
        return rlx_graph_fail(g, RLX_UNSUPPORTED, "the dims of the output are not known");
      pads[x->rank + d] = dims[d] - y->dims[d];
    }
    in[0] =
        rlx_graph_op(g, "onnx.Pad", NULL, 0, (rlx_value *[]){in[0], derivative_ints(g, pads, 2 * (int64_t)x->rank)}, 2);
  }
  return derivative_text(g, in, dx,
                         "unpool (dy, i, x) => (dx) <int64[1] all = {-1}> { flat = Reshape (dy, all)"
                         " at = Reshape (i, all) v = Gather (flat, at) s = Shape (x) dx = Reshape (v, s) }");
}

static const rlx_attr_def attrs[] = {WINDOW_KERNEL(unpool_params, RLX_REQUIRED), WINDOW_STEPS(unpool_params), {0}};
static const rlx_op max_unpool = {
    .struct_size = sizeof(rlx_op),
    .name = "onnx.MaxUnpool",
    .version = 9,
    .samples =
        (const char *const[]){
            "float[1,1,2,2], int64[1,1,2,2] = {5, 7, 13, 15} {kernel_shape = [2, 2], strides = [2, 2]}",
            "float[1,1,2,2], int64[1,1,2,2] = {5, 7, 13, 15}, int64[4] = {1, 1, 5, 5} {kernel_shape = [2, 2], strides "
            "= [2, 2]}",
            NULL},
    .doc = "Zeros, with the elements of X where the Indices of MaxPool say.",
    .inputs = (const rlx_port[]){{"X", "T1", RLX_SET_FLOATS, 0, 0},
                                 {"I", "T2", RLX_SET(RLX_INT64), 0, 0},
                                 {"output_shape", NULL, RLX_SET(RLX_INT64), RLX_OPTIONAL | RLX_HOST, 0},
                                 {0}},
    .outputs = (const rlx_port[]){{"output", "T1", RLX_SET_FLOATS, 0, 0}, {0}},
    .attrs = attrs,
    .params_size = sizeof(unpool_params),
    .traits = RLX_PURE,
    .infer = infer,
    .vjp = vjp,
    .eval = eval,
};

static const rlx_op *const ops[] = {&max_unpool, NULL};
const rlx_module ops_unpool = {.ops = ops};
