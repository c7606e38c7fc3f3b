/* _signal_vjp.c — derivatives of onnx.DFT and onnx.STFT: both are linear, and the adjoint of a transform is the
 * transform in the other direction. */
#include "ops/signal.h"

#include <string.h>

#include "ir/graph.h"
#include "ir/shape.h"

/* ---- pieces of graph -------------------------------------------------------------------------------------------- */

static rlx_value *integers(rlx_graph *g, int rank, int64_t count, const int64_t *values) {
  rlx_tensor *t = NULL;
  if (rlx_tensor_create(RLX_INT64, rank, &count, &t) != RLX_OK) {
    rlx_graph_fail(g, RLX_OUT_OF_MEMORY, "no memory for a constant");
    return NULL;
  }
  memcpy(rlx_tensor_data(t), values, (size_t)count * sizeof *values);
  rlx_value *v = rlx_graph_constant(g, NULL, t);
  rlx_tensor_destroy(t);
  return v;
}
static rlx_value *integer(rlx_graph *g, int64_t value) { return integers(g, 0, 1, &value); }
static rlx_value *list1(rlx_graph *g, int64_t value) { return integers(g, 1, 1, &value); }

static rlx_value *unary(rlx_graph *g, const char *op, rlx_value *x) { return rlx_graph_op(g, op, NULL, 0, &x, 1); }
static rlx_value *binary(rlx_graph *g, const char *op, rlx_value *x, rlx_value *y) {
  return rlx_graph_op(g, op, NULL, 0, (rlx_value *[]){x, y}, 2);
}
static rlx_value *concat(rlx_graph *g, rlx_value *const *parts, int count) {
  const rlx_attr axis = RLX_ATTR_I("axis", 0);
  return rlx_graph_op(g, "onnx.Concat", &axis, 1, parts, count);
}
static rlx_value *slice(rlx_graph *g, rlx_value *x, rlx_value *from, rlx_value *to, rlx_value *axes) {
  return rlx_graph_op(g, "onnx.Slice", NULL, 0, (rlx_value *[]){x, from, to, axes}, 4);
}
/* x's size along an axis, as a list of one. */
static rlx_value *extent(rlx_graph *g, rlx_value *x, rlx_value *axis) {
  return binary(g, "onnx.Gather", unary(g, "onnx.Shape", x), axis);
}
static rlx_value *cast_like(rlx_graph *g, rlx_value *x, rlx_value *like) { return binary(g, "onnx.CastLike", x, like); }

/* x with `size` elements along an axis (both lists of one): cut off, or followed by zeros. */
static rlx_value *resize(rlx_graph *g, rlx_value *x, rlx_value *axis, rlx_value *size) {
  rlx_value *cut = slice(g, x, list1(g, 0), size, axis);
  rlx_value *missing = binary(g, "onnx.Sub", size, extent(g, cut, axis));
  rlx_value *pads = concat(g, (rlx_value *[]){list1(g, 0), missing}, 2);
  return rlx_graph_op(g, "onnx.Pad", NULL, 0, (rlx_value *[]){cut, pads, NULL, axis}, 4);
}

static rlx_value *real_part(rlx_graph *g, rlx_value *x) { return slice(g, x, list1(g, 0), list1(g, 1), list1(g, -1)); }

/* axis and length are lists of one; length NULL: the signal's. */
static rlx_value *transform(rlx_graph *g, rlx_value *x, rlx_value *length, rlx_value *axis, bool inverse,
                            bool onesided) {
  const rlx_attr attrs[] = {RLX_ATTR_I("inverse", inverse), RLX_ATTR_I("onesided", onesided)};
  rlx_value *scalar = binary(g, "onnx.Reshape", axis, integers(g, 1, 0, (const int64_t[]){0}));
  rlx_value *n = length ? binary(g, "onnx.Reshape", length, integers(g, 1, 0, (const int64_t[]){0})) : NULL;
  return rlx_graph_op(g, "onnx.DFT", attrs, 2, (rlx_value *[]){x, n, scalar}, 3);
}

static rlx_value *optional_input(const rlx_node *n, int i) {
  return i < rlx_node_input_count(n) ? rlx_node_input(n, i) : NULL;
}
static rlx_value *as_list(rlx_graph *g, rlx_value *x) {
  const rlx_attr to = RLX_ATTR_I("to", RLX_INT64);
  rlx_value *wide = rlx_graph_op(g, "onnx.Cast", &to, 1, &x, 1);
  return binary(g, "onnx.Reshape", wide, list1(g, 1));
}

/* ---- DFT -------------------------------------------------------------------------------------------------------- */

static rlx_value *dft_axis(rlx_graph *g, const rlx_node *n) {
  const signal_params *p = rlx_node_params(n);
  if (n->op->op.version < 20) return list1(g, p->axis);
  rlx_value *axis = optional_input(n, 2);
  return axis ? as_list(g, axis) : list1(g, -2);
}

/* 1 at the first bin and, for an even length, at the last of n / 2 + 1; 2 elsewhere: how often a bin of a onesided
 * spectrum stands in the whole one. Shaped to multiply along the axis of `like`. */
static rlx_value *bin_counts(rlx_graph *g, rlx_value *n, rlx_value *like, rlx_value *axis) {
  rlx_value *bins = binary(g, "onnx.Add", binary(g, "onnx.Div", n, integer(g, 2)), integer(g, 1));
  rlx_value *empty = integers(g, 1, 0, (const int64_t[]){0});
  rlx_value *k = rlx_graph_op(g, "onnx.Range", NULL, 0,
                              (rlx_value *[]){integer(g, 0), binary(g, "onnx.Reshape", bins, empty), integer(g, 1)}, 3);
  rlx_value *first = cast_like(g, binary(g, "onnx.Equal", k, integer(g, 0)), like);
  rlx_value *last = cast_like(g, binary(g, "onnx.Equal", binary(g, "onnx.Mul", k, integer(g, 2)), n), like);
  rlx_value *two = cast_like(g, integer(g, 2), like);
  rlx_value *counts = binary(g, "onnx.Sub", binary(g, "onnx.Sub", two, first), last);
  rlx_value *rank = unary(g, "onnx.Shape", unary(g, "onnx.Shape", like));
  rlx_value *ones = binary(g, "onnx.Expand", list1(g, 1), rank);
  rlx_value *shape = rlx_graph_op(g, "onnx.ScatterElements", NULL, 0, (rlx_value *[]){ones, axis, list1(g, -1)}, 3);
  return binary(g, "onnx.Reshape", counts, shape);
}

rlx_status dft_vjp(rlx_graph *g, const rlx_node *n, rlx_value *const *output_grads, rlx_value **input_grads) {
  const signal_params *p = rlx_node_params(n);
  rlx_value *x = rlx_node_input(n, 0), *given = optional_input(n, 1), *grad = output_grads[0];
  const rlx_type *type = rlx_node_input_type(n, 0);
  if (!grad) return RLX_OK;
  bool inverse = p->inverse != 0, half = inverse && p->onesided;
  rlx_value *axis = dft_axis(g, n);
  rlx_value *length = given ? as_list(g, given) : extent(g, half || !p->onesided ? grad : x, axis);
  rlx_value *size = cast_like(g, length, grad);
  rlx_value *back = transform(g, grad, length, axis, !inverse, half);
  back = binary(g, inverse ? "onnx.Div" : "onnx.Mul", back, size);
  if (half) back = binary(g, "onnx.Mul", back, bin_counts(g, length, back, axis));
  if (given || half) back = resize(g, back, axis, extent(g, x, axis));
  if (type->rank == RLX_UNKNOWN || type->dims[type->rank - 1] == RLX_UNKNOWN)
    return rlx_graph_fail(g, RLX_UNSUPPORTED, "the gradient of a DFT needs to know whether its input is complex");
  input_grads[0] = type->dims[type->rank - 1] == 1 ? real_part(g, back) : back;
  return rlx_graph_status(g);
}

/* The node itself on another first input. */
static rlx_value *same_on(rlx_graph *g, const rlx_node *n, rlx_value *const *inputs, int count) {
  const signal_params *p = rlx_node_params(n);
  const rlx_attr attrs[] = {RLX_ATTR_I("onesided", p->onesided), RLX_ATTR_I("inverse", p->inverse)};
  bool dft = strcmp(n->op->op.name, "onnx.DFT") == 0;
  return rlx_graph_op(g, n->op->op.name, attrs, dft ? 2 : 1, inputs, count);
}

rlx_status dft_jvp(rlx_graph *g, const rlx_node *n, rlx_value *const *tangents, rlx_value **out) {
  if (!tangents[0]) return RLX_OK;
  rlx_value *axis = binary(g, "onnx.Reshape", dft_axis(g, n), integers(g, 1, 0, (const int64_t[]){0}));
  out[0] = same_on(g, n, (rlx_value *[]){tangents[0], optional_input(n, 1), axis}, 3);
  return rlx_graph_status(g);
}

/* ---- STFT ------------------------------------------------------------------------------------------------------- */

typedef struct frames {
  rlx_value *signal, *window;  /* window NULL: none */
  rlx_value *index;            /* [frames, length]: where each element of each frame lies in the signal */
  rlx_value *length, *samples; /* lists of one */
  bool flat;                   /* a signal of rank 2: a last dim of 1 is added */
} frames;

/* A signal of rank 3, whatever it was. */
static rlx_value *with_parts(rlx_graph *g, const frames *f, rlx_value *x) {
  return f->flat ? binary(g, "onnx.Unsqueeze", x, list1(g, -1)) : x;
}

static frames frames_of(rlx_graph *g, const rlx_node *n, rlx_value *grad) {
  frames f = {.window = optional_input(n, STFT_WINDOW), .flat = rlx_node_input_type(n, STFT_SIGNAL)->rank == 2};
  f.signal = with_parts(g, &f, rlx_node_input(n, STFT_SIGNAL));
  rlx_value *given = optional_input(n, STFT_LENGTH), *empty = integers(g, 1, 0, (const int64_t[]){0});
  f.samples = extent(g, f.signal, list1(g, 1));
  f.length = given ? as_list(g, given) : f.window ? extent(g, f.window, list1(g, 0)) : f.samples;
  rlx_value *count = binary(g, "onnx.Reshape", extent(g, grad, list1(g, 1)), empty);
  rlx_value *zero = integer(g, 0), *one = integer(g, 1);
  rlx_value *starts = rlx_graph_op(g, "onnx.Range", NULL, 0, (rlx_value *[]){zero, count, one}, 3);
  starts = binary(g, "onnx.Mul", starts, as_list(g, rlx_node_input(n, STFT_STEP)));
  rlx_value *within =
      rlx_graph_op(g, "onnx.Range", NULL, 0, (rlx_value *[]){zero, binary(g, "onnx.Reshape", f.length, empty), one}, 3);
  f.index = binary(g, "onnx.Add", binary(g, "onnx.Unsqueeze", starts, list1(g, 1)), within);
  return f;
}

/* The window over frames of [batch, frames, length, parts]; cut or padded to their length. */
static rlx_value *shaped_window(rlx_graph *g, const frames *f) {
  rlx_value *w = resize(g, f->window, list1(g, 0), f->length);
  return binary(g, "onnx.Unsqueeze", w, list1(g, 1));
}

/* The sum of the frames at their places in the signal. */
static rlx_value *overlap(rlx_graph *g, const frames *f, rlx_value *x) {
  const rlx_attr attrs[] = {RLX_ATTR_I("axis", 1), {.name = "reduction", .kind = RLX_ATTR_STRING, .s = {"add", 3}}};
  rlx_value *shape = unary(g, "onnx.Shape", f->signal);
  rlx_value *batch = slice(g, shape, list1(g, 0), list1(g, 1), list1(g, 0));
  rlx_value *parts = slice(g, shape, list1(g, 2), list1(g, 3), list1(g, 0));
  rlx_value *flat = concat(g, (rlx_value *[]){batch, list1(g, -1), parts}, 3);
  rlx_value *updates = binary(g, "onnx.Reshape", x, flat);
  rlx_value *index = binary(g, "onnx.Reshape", f->index, integers(g, 1, 3, (const int64_t[]){1, -1, 1}));
  index = binary(g, "onnx.Expand", index, unary(g, "onnx.Shape", updates));
  rlx_value *zeros = binary(g, "onnx.Expand", cast_like(g, integer(g, 0), x), shape);
  return rlx_graph_op(g, "onnx.ScatterElements", attrs, 2, (rlx_value *[]){zeros, index, updates}, 3);
}

rlx_status stft_vjp(rlx_graph *g, const rlx_node *n, rlx_value *const *output_grads, rlx_value **input_grads) {
  rlx_value *grad = output_grads[0];
  const rlx_type *type = rlx_node_input_type(n, STFT_SIGNAL);
  if (!grad) return RLX_OK;
  if (type->rank == RLX_UNKNOWN || (type->rank == 3 && type->dims[2] == RLX_UNKNOWN))
    return rlx_graph_fail(g, RLX_UNSUPPORTED, "the gradient of an STFT needs to know whether its signal is complex");
  bool real = type->rank == 2 || type->dims[2] == 1;
  frames f = frames_of(g, n, grad);
  rlx_value *back = transform(g, grad, f.length, list1(g, 2), true, false);
  back = binary(g, "onnx.Mul", back, cast_like(g, f.length, grad));
  if (real) back = real_part(g, back);
  rlx_value *weighted = f.window ? binary(g, "onnx.Mul", back, shaped_window(g, &f)) : back;
  rlx_value *dx = overlap(g, &f, weighted);
  input_grads[STFT_SIGNAL] = f.flat ? binary(g, "onnx.Squeeze", dx, list1(g, -1)) : dx;
  if (f.window) {
    const rlx_attr axis = RLX_ATTR_I("axis", 1), drop = RLX_ATTR_I("keepdims", 0);
    rlx_value *taken = rlx_graph_op(g, "onnx.Gather", &axis, 1, (rlx_value *[]){f.signal, f.index}, 2);
    rlx_value *product = binary(g, "onnx.Mul", taken, back);
    rlx_value *dw = rlx_graph_op(g, "onnx.ReduceSum", &drop, 1,
                                 (rlx_value *[]){product, integers(g, 1, 3, (const int64_t[]){0, 1, 3})}, 2);
    input_grads[STFT_WINDOW] = resize(g, dw, list1(g, 0), extent(g, f.window, list1(g, 0)));
  }
  return rlx_graph_status(g);
}

rlx_status stft_jvp(rlx_graph *g, const rlx_node *n, rlx_value *const *tangents, rlx_value **out) {
  rlx_value *sum = NULL;
  for (int i = STFT_SIGNAL; i <= STFT_WINDOW; i += STFT_WINDOW - STFT_SIGNAL) {
    if (i >= rlx_node_input_count(n) || !tangents[i]) continue;
    rlx_value *in[4];
    for (int k = 0; k < 4; k++) in[k] = optional_input(n, k);
    in[i] = tangents[i];
    rlx_value *term = same_on(g, n, in, rlx_node_input_count(n));
    sum = sum ? binary(g, "onnx.Add", sum, term) : term;
  }
  out[0] = sum;
  return rlx_graph_status(g);
}
