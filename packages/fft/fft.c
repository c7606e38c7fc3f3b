/* fft.c — fft.rfft, fft.irfft, fft.fft, fft.ifft: Fourier transforms as NumPy names them, by ONNX's DFT. */
#include <math.h>
#include <rlx/extend.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

typedef struct fft_params {
  uint64_t given;
  int64_t n, axis;
  rlx_string norm;
} fft_params;

/* What sets the four apart. */
typedef struct form {
  bool inverse, real_in, real_out;
} form;
static const form fft_form = {false, false, false}, ifft_form = {true, false, false};
static const form rfft_form = {false, true, false}, irfft_form = {true, false, true};

/* 0 backward: 1/n on the inverse; 1 ortho: 1/sqrt(n) on both; 2 forward: 1/n on the transform. -1: none of them. */
static int norm_of(const fft_params *p) {
  static const char *const names[] = {"backward", "ortho", "forward"};
  for (int i = 0; i < 3; i++) {
    if (p->norm.size == strlen(names[i]) && memcmp(p->norm.data, names[i], p->norm.size) == 0) return i;
  }
  return -1;
}

/* Axes are of the signal: the last dim of a complex operand, its real and imaginary parts, is not among them. */
typedef struct extents {
  int axis, rank;                    /* rank of the signal */
  int64_t length, given, bins, made; /* of the transform; along the input; of half a spectrum; along the output */
} extents;

static const char *resolve(const form *f, const fft_params *p, const rlx_type *x, extents *e) {
  if (norm_of(p) < 0) return rlx_reason("norm '%s' is not backward, ortho or forward", p->norm.data);
  e->rank = x->rank - !f->real_in;
  if (e->rank < 1) return rlx_reason("an input of rank %d", x->rank);
  if (!f->real_in && x->dims[e->rank] != 2 && x->dims[e->rank] != RLX_UNKNOWN)
    return rlx_reason("the last dim of a complex input is %lld, not 2", (long long)x->dims[e->rank]);
  e->axis = (int)(p->axis < 0 ? p->axis + e->rank : p->axis);
  if (e->axis < 0 || e->axis >= e->rank) return rlx_reason("axis %lld of rank %d", (long long)p->axis, e->rank);
  e->given = x->dims[e->axis];
  e->length = p->n > 0 ? p->n : e->given == RLX_UNKNOWN ? RLX_UNKNOWN : f->real_out ? 2 * (e->given - 1) : e->given;
  if (e->length != RLX_UNKNOWN && e->length < 1) return rlx_reason("a transform of length %lld", (long long)e->length);
  e->bins = e->length == RLX_UNKNOWN ? RLX_UNKNOWN : e->length / 2 + 1;
  e->made = f->real_in ? e->bins : e->length;
  return NULL;
}

static rlx_status infer_form(rlx_infer *ctx, const form *f) {
  const rlx_type *x = rlx_infer_input(ctx, 0);
  extents e;
  if (x->rank == RLX_UNKNOWN) return RLX_OK;
  const char *bad = resolve(f, rlx_infer_params(ctx), x, &e);
  if (bad) return rlx_fail(ctx, RLX_INVALID, "%s", bad);
  int64_t dims[RLX_MAX_RANK + 1];
  memcpy(dims, x->dims, sizeof x->dims);
  if (e.rank + !f->real_out > RLX_MAX_RANK) return rlx_fail(ctx, RLX_INVALID, "an output of rank %d", e.rank + 1);
  dims[e.axis] = e.made;
  dims[e.rank] = 2;
  rlx_infer_set(ctx, 0, e.rank + !f->real_out, dims);
  return RLX_OK;
}

/* ---- by DFT ----------------------------------------------------------------------------------------------------- */

static rlx_value *constant(rlx_graph *g, rlx_dtype dtype, int rank, const void *value) {
  rlx_tensor *t = NULL;
  if (rlx_tensor_create(dtype, rank, (const int64_t[]){1}, &t) != RLX_OK) {
    rlx_graph_fail(g, RLX_OUT_OF_MEMORY, "no memory for a constant");
    return NULL;
  }
  memcpy(rlx_tensor_data(t), value, rlx_tensor_bytes(t));
  rlx_value *v = rlx_graph_constant(g, NULL, t);
  rlx_tensor_destroy(t);
  return v;
}
static rlx_value *integer(rlx_graph *g, int rank, int64_t value) { return constant(g, RLX_INT64, rank, &value); }
static rlx_value *binary(rlx_graph *g, const char *op, rlx_value *x, rlx_value *y) {
  return rlx_graph_op(g, op, NULL, 0, (rlx_value *[]){x, y}, 2);
}

/* The transform's length as a value of x's type: of the attribute, or along the axis of the whole side. */
static rlx_value *length_of(rlx_graph *g, const fft_params *p, rlx_value *whole, rlx_value *axis, rlx_value *like) {
  rlx_value *shape = rlx_graph_op(g, "onnx.Shape", NULL, 0, &whole, 1);
  rlx_value *n = p->n > 0 ? integer(g, 0, p->n) : binary(g, "onnx.Gather", shape, axis);
  return binary(g, "onnx.CastLike", n, like);
}

/* y times the factor that the norm asks for beside DFT's own 1 / n on the inverse. */
static rlx_value *scaled(rlx_graph *g, const fft_params *p, const form *f, rlx_value *y, rlx_value *whole,
                         rlx_value *axis) {
  int norm = norm_of(p);
  if (norm == 0) return y;
  rlx_value *n = length_of(g, p, whole, axis, y);
  if (norm == 1) n = rlx_graph_op(g, "onnx.Sqrt", NULL, 0, &n, 1);
  return binary(g, f->inverse ? "onnx.Mul" : "onnx.Div", y, n);
}

static rlx_status lower_form(rlx_graph *g, const rlx_node *n, rlx_value **outputs, const form *f) {
  const fft_params *p = rlx_node_params(n);
  if (norm_of(p) < 0) return rlx_graph_fail(g, RLX_INVALID, "norm '%s' is not known", p->norm.data);
  /* A negative axis counts from the end of the signal's dims; every operand of DFT has one more. */
  rlx_value *axis = integer(g, 0, p->axis < 0 ? p->axis - 1 : p->axis), *last = integer(g, 1, -1);
  rlx_value *x = rlx_node_input(n, 0), *length = p->n > 0 ? integer(g, 0, p->n) : NULL;
  if (f->real_in) x = binary(g, "onnx.Unsqueeze", x, last);
  const rlx_attr attrs[] = {RLX_ATTR_I("inverse", f->inverse), RLX_ATTR_I("onesided", f->real_in || f->real_out)};
  rlx_value *y = rlx_graph_op(g, "onnx.DFT", attrs, 2, (rlx_value *[]){x, length, axis}, 3);
  y = scaled(g, p, f, y, f->real_in ? x : y, axis);
  outputs[0] = f->real_out ? binary(g, "onnx.Squeeze", y, last) : y;
  return rlx_graph_status(g);
}

/* ---- by definition ---------------------------------------------------------------------------------------------- */

static double load(const rlx_operand *o, int64_t i) {
  return o->dtype == RLX_FLOAT ? (double)((const float *)o->data)[i] : ((const double *)o->data)[i];
}
static void store(const rlx_operand *o, int64_t i, double value) {
  if (o->dtype == RLX_FLOAT)
    ((float *)o->data)[i] = (float)value;
  else
    ((double *)o->data)[i] = value;
}

/* exp(-+ 2 pi i k / n), k < n, in (re, im). */
static double *make_roots(int64_t n, bool inverse) {
  double *roots = n > INT32_MAX ? NULL : malloc((size_t)n * 2 * sizeof *roots);
  for (int64_t k = 0; roots && k < n; k++) {
    double angle = (inverse ? 2 : -2) * 3.14159265358979323846 * (double)k / (double)n;
    roots[2 * k] = cos(angle);
    roots[2 * k + 1] = sin(angle);
  }
  return roots;
}

/* Element t of a line, with the half of the spectrum that is not given; zero past what is. */
static void element(const form *f, const extents *e, const rlx_operand *x, int64_t from, int64_t inner, int64_t t,
                    double z[2]) {
  bool mirrored = f->real_out && t >= e->bins;
  int64_t at = mirrored ? e->length - t : t;
  z[0] = z[1] = 0;
  if (at >= e->given) return;
  int64_t i = from + at * inner;
  z[0] = load(x, f->real_in ? i : 2 * i);
  if (!f->real_in) z[1] = load(x, 2 * i + 1) * (mirrored ? -1 : 1);
}

static void line(const rlx_ctx *ctx, const form *f, const extents *e, const double *roots, int64_t from, int64_t to,
                 int64_t inner, double scale) {
  for (int64_t k = 0; k < e->made; k++) {
    double re = 0, im = 0, z[2];
    for (int64_t t = 0; t < e->length; t++) {
      const double *r = roots + 2 * (k * t % e->length);
      element(f, e, &ctx->inputs[0], from, inner, t, z);
      re += z[0] * r[0] - z[1] * r[1];
      im += z[0] * r[1] + z[1] * r[0];
    }
    int64_t i = to + k * inner;
    store(&ctx->outputs[0], f->real_out ? i : 2 * i, re * scale);
    if (!f->real_out) store(&ctx->outputs[0], 2 * i + 1, im * scale);
  }
}

static rlx_status eval_form(rlx_ctx *ctx, const form *f) {
  const rlx_operand *x = &ctx->inputs[0];
  const fft_params *p = ctx->params;
  rlx_type type = {.dtype = x->dtype, .rank = x->rank};
  memcpy(type.dims, x->dims, (size_t)x->rank * sizeof *x->dims);
  extents e;
  const char *bad = resolve(f, p, &type, &e);
  if (bad) return rlx_fail(ctx, RLX_INVALID, "%s", bad);
  if (ctx->outputs[0].count == 0) return RLX_OK;
  double *roots = make_roots(e.length, f->inverse), n = (double)e.length;
  if (!roots) return rlx_fail(ctx, RLX_OUT_OF_MEMORY, "no memory for a transform of length %lld", (long long)e.length);
  int norm = norm_of(p);
  double scale = norm == 1 ? 1 / sqrt(n) : (norm == 0) == f->inverse ? 1 / n : 1;
  int64_t outer = 1, inner = 1;
  for (int d = 0; d < e.rank; d++) *(d < e.axis ? &outer : &inner) *= d == e.axis ? 1 : x->dims[d];
  for (int64_t i = 0; i < outer * inner; i++) {
    int64_t o = i / inner, within = i % inner;
    line(ctx, f, &e, roots, o * e.given * inner + within, o * e.made * inner + within, inner, scale);
  }
  free(roots);
  return RLX_OK;
}

/* ---- records ---------------------------------------------------------------------------------------------------- */

static const rlx_attr_def attrs[] = {
    {.name = "n",
     .kind = RLX_ATTR_INT,
     .flags = RLX_RANGED,
     .offset = offsetof(fft_params, n),
     .min = 0,
     .max = INT32_MAX},
    {.name = "axis",
     .kind = RLX_ATTR_INT,
     .flags = RLX_RANGED,
     .offset = offsetof(fft_params, axis),
     .default_int = -1,
     .min = -RLX_MAX_RANK,
     .max = RLX_MAX_RANK},
    {.name = "norm", .kind = RLX_ATTR_STRING, .offset = offsetof(fft_params, norm), .default_string = "backward"},
    {0}};
static const rlx_port inputs[] = {{"x", "T", RLX_SET(RLX_FLOAT) | RLX_SET(RLX_DOUBLE), 0, 0}, {0}};
static const rlx_port outputs[] = {{"y", "T", RLX_SET(RLX_FLOAT) | RLX_SET(RLX_DOUBLE), 0, 0}, {0}};

#define OP(op, text, ...)                                                                                              \
  static rlx_status op##_infer(rlx_infer *ctx) { return infer_form(ctx, &op##_form); }                                 \
  static rlx_status op##_eval(rlx_ctx *ctx) { return eval_form(ctx, &op##_form); }                                     \
  static rlx_status op##_lower(rlx_graph *g, const rlx_node *n, rlx_value **made) {                                    \
    return lower_form(g, n, made, &op##_form);                                                                         \
  }                                                                                                                    \
  static const rlx_op op##_op = {.struct_size = sizeof(rlx_op),                                                        \
                                 .name = "fft." #op,                                                                   \
                                 .doc = text,                                                                          \
                                 .samples = (const char *const[]){__VA_ARGS__, NULL},                                  \
                                 .inputs = inputs,                                                                     \
                                 .outputs = outputs,                                                                   \
                                 .attrs = attrs,                                                                       \
                                 .params_size = sizeof(fft_params),                                                    \
                                 .traits = RLX_PURE,                                                                   \
                                 .infer = op##_infer,                                                                  \
                                 .lower = op##_lower,                                                                  \
                                 .eval = op##_eval};

OP(fft, "Fourier transform along an axis of a complex signal, whose last dim holds real and imaginary part.",
   "float[3,10,2]", "double[4,3,2] {axis = 0, norm = \"ortho\"}", "float[2,5,2] {n = 8}", "float[0,4,2]")
OP(ifft, "The inverse of fft.fft.", "float[3,10,2]", "double[4,3,2] {axis = 0, norm = \"forward\"}",
   "float[2,5,2] {n = 3}")
OP(rfft, "The first n / 2 + 1 bins of the Fourier transform of a real signal: a last dim of real and imaginary part.",
   "float[3,10]", "double[5,3] {axis = 0, norm = \"ortho\"}", "float[2,5] {n = 8}", "float[7]")
OP(irfft, "The inverse of fft.rfft: a real signal of length n, by default 2 (bins - 1).", "float[3,6,2]",
   "double[4,3,2] {axis = 0, norm = \"ortho\"}", "float[2,5,2] {n = 7}")

static rlx_status register_all(rlx_registry *r) {
  const rlx_op *const ops[] = {&fft_op, &ifft_op, &rfft_op, &irfft_op};
  rlx_status status = RLX_OK;
  for (size_t i = 0; i < sizeof ops / sizeof *ops && status == RLX_OK; i++)
    status = rlx_register_op(r, ops[i], 0, NULL);
  return status;
}
RLX_PACKAGE("fft", "1.0", register_all);
