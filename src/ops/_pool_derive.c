/* _pool_derive.c — pooling as ops that have derivatives: sums over windows are convolutions, maxima are picked. */
#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "ops/_derivative.h"
#include "ops/pool.h"

static void put_list(char *to, size_t size, const char *name, const rlx_ints *list) {
  char values[400];
  size_t at = strlen(to);
  if (list->count && at < size)
    snprintf(to + at, size - at, ", %s = [%s]", name, derivative_list(list->data, list->count, values, sizeof values));
}

/* Finds the winners' places once more and picks the elements there. */
rlx_status pool_derive_max(rlx_graph *g, const rlx_node *n, rlx_value **outputs) {
  const pool_params *p = rlx_node_params(n);
  rlx_value *x = rlx_node_input(n, 0), *made[2];
  char attrs[1600];
  snprintf(attrs, sizeof attrs, "auto_pad = \"%.*s\", ceil_mode = %d", (int)p->window.auto_pad.size,
           p->window.auto_pad.data, p->window.ceil_mode != 0);
  put_list(attrs, sizeof attrs, "kernel_shape", &p->window.kernel_shape);
  put_list(attrs, sizeof attrs, "strides", &p->window.strides);
  put_list(attrs, sizeof attrs, "pads", &p->window.pads);
  put_list(attrs, sizeof attrs, "dilations", &p->window.dilations);
  RLX_TRY(derivative_text(g, &x, made,
                          "pool (x) => (y, i) <int64[1] all = {-1}> { m, i = MaxPool <%s> (x) s = Shape (m)"
                          " flat = Reshape (x, all) at = Reshape (i, all) v = Gather (flat, at) y = Reshape (v, s) }",
                          attrs));
  for (int i = 0; i < rlx_node_output_count(n) && i < 2; i++) outputs[i] = made[i];
  return rlx_graph_status(g);
}

/* The window over known dims, its end padded so that a convolution has as many positions; *padded is what padding the
 * attributes ask for at the end. */
static rlx_status find_window(rlx_graph *g, const rlx_node *n, window *w, int64_t *padded) {
  const pool_params *p = rlx_node_params(n);
  const rlx_type *x = rlx_node_input_type(n, 0);
  bool known = x->rank >= 3 && x->rank - 2 == p->window.kernel_shape.count;
  for (int d = 2; known && d < x->rank; d++) known = x->dims[d] > 0;
  if (!known) return rlx_graph_fail(g, RLX_UNSUPPORTED, "the spatial dims must be known and not empty");
  const char *bad = window_resolve(&p->window, x->rank - 2, x->dims + 2, p->window.kernel_shape.data, w);
  if (bad) return rlx_graph_fail(g, RLX_INVALID, "%s", bad);
  for (int d = 0; d < w->rank; d++) {
    int64_t reach = (w->out[d] - 1) * w->stride[d] + (w->kernel[d] - 1) * w->dilation[d] + 1;
    padded[d] = w->end[d];
    if (reach - w->in[d] - w->begin[d] > w->end[d]) w->end[d] = reach - w->in[d] - w->begin[d];
  }
  return RLX_OK;
}

/* Sums of v over the windows, as N·C × 1 × out; v has x's shape (or is 1 × 1 × in). */
static rlx_status window_sum(rlx_graph *g, const window *w, rlx_value *v, rlx_value **sum) {
  char in[300], kernel[300], strides[300], dilations[300], begin[300], end[300];
  const char *dtype = rlx_dtype_name(rlx_value_type(v)->dtype);
  return derivative_text(g, &v, sum,
                         "sum (x) => (y) <int64[%d] rows = {-1, 1, %s}, int64[%d] taps = {1, 1, %s}> {"
                         " r = Reshape (x, rows) k = ConstantOfShape <value = %s[1] {1}> (taps)"
                         " y = Conv <strides = [%s], dilations = [%s], pads = [%s, %s]> (r, k) }",
                         w->rank + 2, derivative_list(w->in, w->rank, in, sizeof in), w->rank + 2,
                         derivative_list(w->kernel, w->rank, kernel, sizeof kernel), dtype,
                         derivative_list(w->stride, w->rank, strides, sizeof strides),
                         derivative_list(w->dilation, w->rank, dilations, sizeof dilations),
                         derivative_list(w->begin, w->rank, begin, sizeof begin),
                         derivative_list(w->end, w->rank, end, sizeof end));
}

/* N·C × 1 × out back to N × C × out. */
static rlx_status in_channels(rlx_graph *g, const rlx_node *n, const window *w, rlx_value *v, rlx_value **y) {
  char out[300];
  return derivative_text(g, (rlx_value *[]){v, rlx_node_input(n, 0)}, y,
                         "back (v, x) => (y) <int64[%d] tail = {%s}> {"
                         " head = Shape <end = 2> (x) shape = Concat <axis = 0> (head, tail) y = Reshape (v, shape) }",
                         w->rank, derivative_list(w->out, w->rank, out, sizeof out));
}

rlx_status pool_derive_average(rlx_graph *g, const rlx_node *n, rlx_value **outputs) {
  const pool_params *p = rlx_node_params(n);
  rlx_value *x = rlx_node_input(n, 0), *sum, *ones, *count;
  int64_t padded[WINDOW_MAX];
  window w, counted;
  char dims[300];
  RLX_TRY(find_window(g, n, &w, padded));
  RLX_TRY(window_sum(g, &w, x, &sum));
  counted = w;
  for (int d = 0; p->count_include_pad && d < w.rank; d++) { /* the padding that was asked for counts as elements */
    counted.in[d] += w.begin[d] + padded[d];
    counted.begin[d] = 0;
    counted.end[d] = w.end[d] - padded[d];
  }
  rlx_type like = {.dtype = rlx_value_type(x)->dtype, .rank = w.rank + 2, .dims = {1, 1}};
  memcpy(like.dims + 2, counted.in, (size_t)w.rank * sizeof *like.dims);
  RLX_TRY(derivative_text(
      g, NULL, &ones, "ones () => (y) <int64[%d] s = {%s}> { y = ConstantOfShape <value = %s[1] {1}> (s) }", like.rank,
      derivative_list(like.dims, like.rank, dims, sizeof dims), rlx_dtype_name(like.dtype)));
  RLX_TRY(derivative_typed(g, ones, &like));
  RLX_TRY(window_sum(g, &counted, ones, &count));
  rlx_value *mean = rlx_graph_op(g, "onnx.Div", NULL, 0, (rlx_value *[]){sum, count}, 2);
  return in_channels(g, n, &w, mean, outputs);
}

static rlx_status lp_norm(rlx_graph *g, rlx_value *x, double p, rlx_value **powers) {
  const char *dtype = rlx_dtype_name(rlx_value_type(x)->dtype);
  const rlx_type type = *rlx_value_type(x);
  RLX_TRY(
      derivative_text(g, &x, powers, "powers (x) => (y) <%s p = {%.17g}> { a = Abs (x) y = Pow (a, p) }", dtype, p));
  return derivative_typed(g, *powers, &type);
}

static rlx_status lp_root(rlx_graph *g, rlx_value *sum, rlx_dtype dtype, double p, rlx_value **root) {
  return derivative_text(g, &sum, root, "root (x) => (y) <%s p = {%.17g}> { y = Pow (x, p) }", rlx_dtype_name(dtype),
                         1 / p);
}

static double exponent(const pool_params *p) { return p->p ? (double)p->p : (double)p->p_real; }

rlx_status pool_derive_lp(rlx_graph *g, const rlx_node *n, rlx_value **outputs) {
  rlx_value *x = rlx_node_input(n, 0), *powers, *sum, *root;
  int64_t padded[WINDOW_MAX];
  window w;
  double p = exponent(rlx_node_params(n));
  RLX_TRY(find_window(g, n, &w, padded));
  RLX_TRY(lp_norm(g, x, p, &powers));
  RLX_TRY(window_sum(g, &w, powers, &sum));
  RLX_TRY(lp_root(g, sum, rlx_value_type(x)->dtype, p, &root));
  return in_channels(g, n, &w, root, outputs);
}

/* Reduces all spatial axes. */
static rlx_status reduced(rlx_graph *g, rlx_value *v, int rank, const char *op, rlx_value **y) {
  int64_t axes[RLX_MAX_RANK];
  for (int d = 2; d < rank; d++) axes[d - 2] = d;
  if (rank < 3) return rlx_graph_fail(g, RLX_UNSUPPORTED, "the rank must be known, and 3 or more");
  *y = rlx_graph_op(g, op, NULL, 0, (rlx_value *[]){v, derivative_ints(g, axes, rank - 2)}, 2);
  return rlx_graph_status(g);
}

rlx_status pool_derive_global_max(rlx_graph *g, const rlx_node *n, rlx_value **outputs) {
  rlx_value *x = rlx_node_input(n, 0);
  return reduced(g, x, rlx_value_type(x)->rank, "onnx.ReduceMax", outputs);
}

rlx_status pool_derive_global_lp(rlx_graph *g, const rlx_node *n, rlx_value **outputs) {
  rlx_value *x = rlx_node_input(n, 0), *powers, *sum;
  double p = exponent(rlx_node_params(n));
  RLX_TRY(lp_norm(g, x, p, &powers));
  RLX_TRY(reduced(g, powers, rlx_value_type(x)->rank, "onnx.ReduceSum", &sum));
  return lp_root(g, sum, rlx_value_type(x)->dtype, p, outputs);
}
