/* signal.c — onnx.DFT, STFT, MelWeightMatrix and the window functions. */
#include "ops/signal.h"

#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "ir/dtype.h"
#include "ir/module.h"
#include "ir/shape.h"
#include "ops/_number.h"

static const double pi = 3.14159265358979323846;

/* ---- the transform ---------------------------------------------------------------------------------------------- */

/* A transform of one length: the roots of unity, room for a line in and out (re, im interleaved), and for one group of
 * elements while it is combined. */
typedef struct transform {
  int64_t n;
  double *roots, *in, *out, *group;
} transform;

static rlx_status transform_open(const void *ctx, int64_t n, bool inverse, transform *t) {
  *t = (transform){.n = n};
  t->roots = n > INT32_MAX ? NULL : mem_array((size_t)(8 * n), sizeof(double));
  if (!t->roots) return rlx_fail(ctx, RLX_OUT_OF_MEMORY, "no memory for a transform of length %lld", (long long)n);
  t->in = t->roots + 2 * n;
  t->out = t->in + 2 * n;
  t->group = t->out + 2 * n;
  for (int64_t i = 0; i < n; i++) {
    double angle = (inverse ? 2 : -2) * pi * (double)i / (double)n;
    t->roots[2 * i] = cos(angle);
    t->roots[2 * i + 1] = sin(angle);
  }
  return RLX_OK;
}

static int64_t smallest_factor(int64_t n) {
  for (int64_t f = 2; f * f <= n; f++) {
    if (n % f == 0) return f;
  }
  return n;
}

/* out = transform of the n elements at `in`, `stride` apart, n dividing t->n: splits by the smallest factor (Cooley and
 * Tukey), so that a prime length is summed plainly. Depth: the number of factors, at most 31. */
static void transform_step(const transform *t, int64_t n, const double *in, int64_t stride, double *out) {
  if (n == 1) {
    memcpy(out, in, 2 * sizeof *out);
    return;
  }
  int64_t factor = smallest_factor(n), part = n / factor, unit = t->n / n;
  for (int64_t f = 0; f < factor; f++) {
    transform_step(t, part, in + 2 * f * stride, stride * factor, out + 2 * f * part);
  }
  for (int64_t k = 0; k < part; k++) {
    for (int64_t q = 0; q < factor; q++) {
      double re = 0, im = 0;
      for (int64_t f = 0; f < factor; f++) {
        const double *r = t->roots + 2 * (f * (k + q * part) % n * unit), *v = out + 2 * (f * part + k);
        re += v[0] * r[0] - v[1] * r[1];
        im += v[0] * r[1] + v[1] * r[0];
      }
      t->group[2 * q] = re;
      t->group[2 * q + 1] = im;
    }
    for (int64_t q = 0; q < factor; q++) memcpy(out + 2 * (q * part + k), t->group + 2 * q, 2 * sizeof *out);
  }
}

/* ---- DFT -------------------------------------------------------------------------------------------------------- */

const char *dft_resolve(const signal_params *p, const rlx_type *x, int64_t axis, int64_t length, dft_shape *s) {
  if (x->rank < 2) return rlx_reason("an input of rank %d", x->rank);
  s->axis = axis_normalise(axis, x->rank);
  if (s->axis < 0 || s->axis == x->rank - 1) return rlx_reason("axis %lld of rank %d", (long long)axis, x->rank);
  int64_t parts = x->dims[x->rank - 1];
  if (parts != 1 && parts != 2 && parts != RLX_UNKNOWN) return rlx_reason("a last axis of %lld", (long long)parts);
  bool half = p->onesided && p->inverse;
  s->given = x->dims[s->axis];
  s->real_in = parts == 1;
  s->real_out = half;
  if (p->onesided && !p->inverse && parts == 2) return "onesided needs a real input";
  s->length = length >= 0 ? length : s->given == RLX_UNKNOWN ? RLX_UNKNOWN : half ? 2 * (s->given - 1) : s->given;
  if (s->length != RLX_UNKNOWN && s->length < 1) return rlx_reason("a dft_length of %lld", (long long)s->length);
  s->produced = s->length != RLX_UNKNOWN && p->onesided && !p->inverse ? s->length / 2 + 1 : s->length;
  return NULL;
}

static rlx_status infer_dft_at(rlx_infer *ctx, int64_t axis) {
  const rlx_type *x = rlx_infer_input(ctx, 0);
  if (x->rank == RLX_UNKNOWN) return RLX_OK;
  int64_t length = -1;
  bool hidden = false;
  if (rlx_infer_input_count(ctx) > 1 && rlx_infer_input(ctx, 1)) {
    const rlx_tensor *t = rlx_infer_value(ctx, 1);
    hidden = !t;
    if (t && rlx_tensor_count(t) != 1) return rlx_fail(ctx, RLX_INVALID, "dft_length is not a scalar");
    if (t) length = dtype_load_int(rlx_tensor_dtype(t), rlx_tensor_data(t), 0);
    if (t && length < 1) return rlx_fail(ctx, RLX_INVALID, "a dft_length of %lld", (long long)length);
  }
  dft_shape s;
  const char *bad = dft_resolve(rlx_infer_params(ctx), x, axis, length, &s);
  if (bad) return rlx_fail(ctx, RLX_INVALID, "%s", bad);
  int64_t dims[RLX_MAX_RANK];
  memcpy(dims, x->dims, sizeof dims);
  dims[s.axis] = hidden ? RLX_UNKNOWN : s.produced;
  dims[x->rank - 1] = s.real_out ? 1 : 2;
  rlx_infer_set(ctx, 0, x->rank, dims);
  return RLX_OK;
}

static rlx_status infer_dft17(rlx_infer *ctx) {
  const signal_params *p = rlx_infer_params(ctx);
  return infer_dft_at(ctx, p->axis);
}

static rlx_status infer_dft(rlx_infer *ctx) {
  const rlx_type *x = rlx_infer_input(ctx, 0);
  if (rlx_infer_input_count(ctx) < 3 || !rlx_infer_input(ctx, 2)) return infer_dft_at(ctx, -2);
  const rlx_tensor *axis = rlx_infer_value(ctx, 2);
  if (axis && rlx_tensor_count(axis) == 1) return infer_dft_at(ctx, *(const int64_t *)rlx_tensor_data(axis));
  if (axis) return rlx_fail(ctx, RLX_INVALID, "axis is not a scalar");
  int64_t dims[RLX_MAX_RANK];
  for (int d = 0; d < RLX_MAX_RANK; d++) dims[d] = RLX_UNKNOWN;
  if (x->rank != RLX_UNKNOWN) rlx_infer_set(ctx, 0, x->rank, dims);
  return RLX_OK;
}

/* One line: `inner` is the distance between neighbours along the axis, in complex or real elements. */
NUMBER_INLINE void dft_line(rlx_dtype t, rlx_ctx *ctx, const dft_shape *s, transform *f, int64_t from, int64_t to,
                            int64_t inner) {
  const signal_params *p = ctx->params;
  const void *x = ctx->inputs[0].data;
  void *y = ctx->outputs[0].data;
  int64_t parts = s->real_in ? 1 : 2;
  memset(f->in, 0, (size_t)(2 * s->length) * sizeof *f->in);
  for (int64_t i = 0; i < s->length && i < s->given; i++) {
    f->in[2 * i] = number_load(t, x, (from + i * inner) * parts);
    if (!s->real_in) f->in[2 * i + 1] = number_load(t, x, (from + i * inner) * parts + 1);
  }
  for (int64_t i = s->length / 2 + 1; s->real_out && i < s->length; i++) { /* the other half of the spectrum */
    f->in[2 * i] = f->in[2 * (s->length - i)];
    f->in[2 * i + 1] = -f->in[2 * (s->length - i) + 1];
  }
  transform_step(f, s->length, f->in, 1, f->out);
  double scale = p->inverse ? 1 / (double)s->length : 1;
  for (int64_t i = 0; i < s->produced; i++) {
    int64_t at = to + i * inner;
    if (s->real_out) {
      number_store(t, y, at, f->out[2 * i] * scale);
    } else {
      number_store(t, y, 2 * at, f->out[2 * i] * scale);
      number_store(t, y, 2 * at + 1, f->out[2 * i + 1] * scale);
    }
  }
}

NUMBER_INLINE rlx_status dft_body(rlx_dtype t, rlx_ctx *ctx, const dft_shape *s) {
  const rlx_operand *x = &ctx->inputs[0];
  const signal_params *p = ctx->params;
  int64_t outer = 1, inner = 1;
  for (int d = 0; d < x->rank - 1; d++) *(d < s->axis ? &outer : &inner) *= d == s->axis ? 1 : x->dims[d];
  transform f;
  RLX_TRY(transform_open(ctx, s->length, p->inverse != 0, &f));
  for (int64_t o = 0; o < outer; o++) {
    for (int64_t i = 0; i < inner; i++) {
      dft_line(t, ctx, s, &f, o * s->given * inner + i, o * s->produced * inner + i, inner);
    }
  }
  mem_free(f.roots);
  return RLX_OK;
}

static int64_t scalar(const rlx_operand *o) { return dtype_load_int(o->dtype, o->data, 0); }
static const rlx_operand *optional(const rlx_ctx *ctx, int i) {
  return i < ctx->input_count && ctx->inputs[i].data ? &ctx->inputs[i] : NULL;
}

static rlx_status eval_dft_at(rlx_ctx *ctx, int64_t axis) {
  const rlx_operand *x = &ctx->inputs[0], *length = optional(ctx, 1);
  rlx_type type = {.dtype = x->dtype, .rank = x->rank};
  memcpy(type.dims, x->dims, (size_t)x->rank * sizeof *x->dims);
  if (length && length->count != 1) return rlx_fail(ctx, RLX_INVALID, "dft_length is not a scalar");
  int64_t n = length ? scalar(length) : -1;
  if (length && n < 1) return rlx_fail(ctx, RLX_INVALID, "a dft_length of %lld", (long long)n);
  dft_shape s = {0};
  const char *bad = dft_resolve(ctx->params, &type, axis, n, &s);
  if (bad) return rlx_fail(ctx, RLX_INVALID, "%s", bad);
  if (ctx->outputs[0].count == 0) return RLX_OK;
  DISPATCH_FLOATS(x->dtype, dft_body, ctx, &s)
}
rlx_status dft_eval17(rlx_ctx *ctx) {
  const signal_params *p = ctx->params;
  return eval_dft_at(ctx, p->axis);
}
rlx_status dft_eval(rlx_ctx *ctx) {
  const rlx_operand *axis = optional(ctx, 2);
  if (axis && axis->count != 1) return rlx_fail(ctx, RLX_INVALID, "axis is not a scalar");
  return eval_dft_at(ctx, axis ? scalar(axis) : -2);
}

/* ---- STFT ------------------------------------------------------------------------------------------------------- */

const char *stft_resolve(const signal_params *p, int64_t signal, int64_t length, int64_t step, stft_shape *s) {
  *s = (stft_shape){.length = length, .step = step, .frames = RLX_UNKNOWN, .bins = RLX_UNKNOWN};
  if (step == 0 || step < -1) return rlx_reason("a frame_step of %lld", (long long)step);
  if (length == RLX_UNKNOWN) return NULL;
  if (length < 1) return rlx_reason("a frame_length of %lld", (long long)length);
  s->bins = p->onesided ? length / 2 + 1 : length;
  if (signal == RLX_UNKNOWN || step == RLX_UNKNOWN) return NULL;
  s->frames = signal < length ? 0 : 1 + (signal - length) / step;
  return NULL;
}

static rlx_status infer_stft(rlx_infer *ctx) {
  const rlx_type *x = rlx_infer_input(ctx, STFT_SIGNAL);
  const rlx_type *window = rlx_infer_input_count(ctx) > STFT_WINDOW ? rlx_infer_input(ctx, STFT_WINDOW) : NULL;
  bool stated = rlx_infer_input_count(ctx) > STFT_LENGTH && rlx_infer_input(ctx, STFT_LENGTH);
  if (x->rank != RLX_UNKNOWN && x->rank != 2 && x->rank != 3) {
    return rlx_fail(ctx, RLX_INVALID, "a signal of rank %d, not 3", x->rank);
  }
  const rlx_tensor *step = rlx_infer_value(ctx, STFT_STEP), *length = stated ? rlx_infer_value(ctx, STFT_LENGTH) : NULL;
  int64_t n = RLX_UNKNOWN, signal = x->rank > 1 ? x->dims[1] : RLX_UNKNOWN, hop = RLX_UNKNOWN;
  if (length && rlx_tensor_count(length) == 1) n = dtype_load_int(rlx_tensor_dtype(length), rlx_tensor_data(length), 0);
  if (!stated && window && window->rank == 1) n = window->dims[0];
  if (!stated && !window) n = signal;
  if (step && rlx_tensor_count(step) == 1) {
    hop = dtype_load_int(rlx_tensor_dtype(step), rlx_tensor_data(step), 0);
    if (hop < 1) return rlx_fail(ctx, RLX_INVALID, "a frame_step of %lld", (long long)hop);
  }
  stft_shape s;
  const char *bad = stft_resolve(rlx_infer_params(ctx), signal, n, hop, &s);
  if (bad) return rlx_fail(ctx, RLX_INVALID, "%s", bad);
  rlx_infer_set(ctx, 0, 4, (const int64_t[]){x->rank > 0 ? x->dims[0] : RLX_UNKNOWN, s.frames, s.bins, 2});
  return RLX_OK;
}

NUMBER_INLINE rlx_status stft_body(rlx_dtype t, rlx_ctx *ctx, const stft_shape *s) {
  const rlx_operand *x = &ctx->inputs[STFT_SIGNAL], *window = optional(ctx, STFT_WINDOW);
  int64_t parts = x->rank == 3 ? x->dims[2] : 1, taps = window ? window->count : s->length;
  void *y = ctx->outputs[0].data;
  transform f;
  RLX_TRY(transform_open(ctx, s->length, false, &f));
  for (int64_t i = 0; i < x->dims[0] * s->frames; i++) {
    int64_t begin = i / s->frames * x->dims[1] + i % s->frames * s->step;
    memset(f.in, 0, (size_t)(2 * s->length) * sizeof *f.in);
    for (int64_t j = 0; j < taps && j < s->length; j++) {
      double w = window ? number_load(t, window->data, j) : 1;
      for (int64_t c = 0; c < parts; c++) {
        f.in[2 * j + c] = w * number_load(t, x->data, (begin + j) * parts + c);
      }
    }
    transform_step(&f, s->length, f.in, 1, f.out);
    for (int64_t k = 0; k < 2 * s->bins; k++) number_store(t, y, i * 2 * s->bins + k, f.out[k]);
  }
  mem_free(f.roots);
  return RLX_OK;
}

rlx_status stft_eval(rlx_ctx *ctx) {
  const rlx_operand *x = &ctx->inputs[STFT_SIGNAL], *step = &ctx->inputs[STFT_STEP];
  const rlx_operand *window = optional(ctx, STFT_WINDOW), *length = optional(ctx, STFT_LENGTH);
  if ((x->rank != 2 && x->rank != 3) || step->count != 1 || (length && length->count != 1) ||
      (window && window->rank != 1) || (x->rank == 3 && x->dims[2] != 1 && x->dims[2] != 2)) {
    return rlx_fail(ctx, RLX_INVALID, "signal, frame_step, window or frame_length have the wrong shape");
  }
  int64_t n = length ? scalar(length) : window ? window->count : x->dims[1], hop = scalar(step);
  stft_shape s;
  if (hop < 1 || n < 1) return rlx_fail(ctx, RLX_INVALID, "frame_step %lld, length %lld", (long long)hop, (long long)n);
  const char *bad = stft_resolve(ctx->params, x->dims[1], n, hop, &s);
  if (bad) return rlx_fail(ctx, RLX_INVALID, "%s", bad);
  if (ctx->outputs[0].count == 0) return RLX_OK;
  DISPATCH_FLOATS(x->dtype, stft_body, ctx, &s)
}

/* ---- MelWeightMatrix -------------------------------------------------------------------------------------------- */

enum { MEL_BINS, MEL_LENGTH, MEL_RATE, MEL_LOW, MEL_HIGH };

static rlx_status infer_mel(rlx_infer *ctx) {
  const signal_params *p = rlx_infer_params(ctx);
  rlx_infer_output(ctx, 0)->dtype = (rlx_dtype)p->output_datatype;
  const rlx_tensor *bins = rlx_infer_value(ctx, MEL_BINS), *length = rlx_infer_value(ctx, MEL_LENGTH);
  int64_t dims[2] = {RLX_UNKNOWN, RLX_UNKNOWN};
  if (length && rlx_tensor_count(length) == 1) {
    dims[0] = dtype_load_int(rlx_tensor_dtype(length), rlx_tensor_data(length), 0) / 2 + 1;
  }
  if (bins && rlx_tensor_count(bins) == 1) dims[1] = dtype_load_int(rlx_tensor_dtype(bins), rlx_tensor_data(bins), 0);
  if ((length && dims[0] < 1) || (bins && dims[1] < 0)) return rlx_fail(ctx, RLX_INVALID, "a negative size");
  rlx_infer_set(ctx, 0, 2, dims);
  return RLX_OK;
}

/* The spectrum bin of the i-th mel point. */
static int64_t mel_point(int64_t i, int64_t bins, double low, double high, double length, double rate) {
  double low_mel = 2595 * log10(1 + low / 700), high_mel = 2595 * log10(1 + high / 700);
  double mel = (double)i * ((high_mel - low_mel) / (double)(bins + 2)) + low_mel;
  return number_to_int(floor((length + 1) * (700 * (pow(10, mel / 2595) - 1)) / rate));
}

static rlx_status eval_mel(rlx_ctx *ctx) {
  const rlx_operand *in = ctx->inputs, *y = &ctx->outputs[0];
  for (int i = 0; i < 5; i++) {
    if (in[i].count != 1) return rlx_fail(ctx, RLX_INVALID, "input %d is not a scalar", i);
  }
  int64_t bins = scalar(&in[MEL_BINS]), length = scalar(&in[MEL_LENGTH]), rate = scalar(&in[MEL_RATE]);
  double low = dtype_load(in[MEL_LOW].dtype, in[MEL_LOW].data, 0);
  double high = dtype_load(in[MEL_HIGH].dtype, in[MEL_HIGH].data, 0);
  int64_t rows = length / 2 + 1;
  if (bins < 0 || length < 0 || rate < 1 || y->count != rows * bins) {
    return rlx_fail(ctx, RLX_INVALID, "%lld mel bins, dft_length %lld, sample_rate %lld", (long long)bins,
                    (long long)length, (long long)rate);
  }
  for (int64_t i = 0; i < y->count; i++) dtype_store(y->dtype, y->data, i, 0);
  for (int64_t i = 0; i < bins; i++) {
    int64_t point[3];
    for (int k = 0; k < 3; k++) {
      point[k] = mel_point(i + k, bins, low, high, (double)length, (double)rate);
      if (point[k] < 0 || point[k] >= rows) {
        return rlx_fail(ctx, RLX_INVALID, "a band at %lld of %lld bins", (long long)point[k], (long long)rows);
      }
    }
    int64_t rise = point[1] - point[0], fall = point[2] - point[1];
    if (rise == 0) dtype_store(y->dtype, y->data, point[1] * bins + i, 1);
    for (int64_t j = point[0]; rise > 0 && j <= point[1]; j++) {
      dtype_store(y->dtype, y->data, j * bins + i, (double)(j - point[0]) / (double)rise);
    }
    for (int64_t j = point[1]; fall > 0 && j < point[2]; j++) {
      dtype_store(y->dtype, y->data, j * bins + i, (double)(point[2] - j) / (double)fall);
    }
  }
  return RLX_OK;
}

/* ---- window functions ------------------------------------------------------------------------------------------- */

static rlx_status infer_window(rlx_infer *ctx) {
  const signal_params *p = rlx_infer_params(ctx);
  rlx_infer_output(ctx, 0)->dtype = (rlx_dtype)p->output_datatype;
  const rlx_tensor *size = rlx_infer_value(ctx, 0);
  int64_t n = RLX_UNKNOWN;
  if (size && rlx_tensor_count(size) != 1) return rlx_fail(ctx, RLX_INVALID, "size is not a scalar");
  if (size) n = dtype_load_int(rlx_tensor_dtype(size), rlx_tensor_data(size), 0);
  if (size && n < 0) return rlx_fail(ctx, RLX_INVALID, "a size of %lld", (long long)n);
  rlx_infer_set(ctx, 0, 1, &n);
  return RLX_OK;
}

/* a - b cos(x) + c cos(2x) over one period. */
static rlx_status cosine_window(rlx_ctx *ctx, double a, double b, double c) {
  const signal_params *p = ctx->params;
  const rlx_operand *y = &ctx->outputs[0];
  double n = (double)(p->periodic ? y->count : y->count - 1);
  for (int64_t i = 0; i < y->count; i++) {
    double x = 2 * pi * (double)i / n;
    dtype_store(y->dtype, y->data, i, a - b * cos(x) + c * cos(2 * x));
  }
  return RLX_OK;
}
static rlx_status eval_hann(rlx_ctx *ctx) { return cosine_window(ctx, 0.5, 0.5, 0); }
static rlx_status eval_hamming(rlx_ctx *ctx) { return cosine_window(ctx, 25.0 / 46, 21.0 / 46, 0); }
static rlx_status eval_blackman(rlx_ctx *ctx) { return cosine_window(ctx, 0.42, 0.5, 0.08); }

/* ---- records ---------------------------------------------------------------------------------------------------- */

#define INT(attr_name, member, value)                                                                                  \
  {.name = attr_name, .kind = RLX_ATTR_INT, .offset = offsetof(signal_params, member), .default_int = (value)}
#define DATATYPE                                                                                                       \
  {.name = "output_datatype", .kind = RLX_ATTR_INT, .flags = RLX_RANGED,                                               \
   .offset = offsetof(signal_params, output_datatype), .default_int = RLX_FLOAT, .min = 1, .max = 16}
static const rlx_attr_def dft_attrs[] = {INT("inverse", inverse, 0), INT("onesided", onesided, 0), {0}};
static const rlx_attr_def dft17_attrs[] = {
    INT("axis", axis, 1), INT("inverse", inverse, 0), INT("onesided", onesided, 0), {0}};
static const rlx_attr_def stft_attrs[] = {INT("onesided", onesided, 1), {0}};
static const rlx_attr_def mel_attrs[] = {DATATYPE, {0}};
static const rlx_attr_def window_attrs[] = {DATATYPE, INT("periodic", periodic, 1), {0}};

#define RECORD(op_name, since, text, input_ports, output_ports, attr_rows, infer_fn, eval_fn, ...)                     \
  {                                                                                                                    \
    .struct_size = sizeof(rlx_op), .name = op_name, .version = since, .doc = text,                                     \
    .samples = (const char *const[]){__VA_ARGS__, NULL}, .inputs = input_ports, .outputs = output_ports,               \
    .attrs = attr_rows, .params_size = sizeof(signal_params), .traits = RLX_PURE, .infer = infer_fn, .eval = eval_fn   \
  }
static const rlx_port dft_inputs[] = {{"input", "T1", RLX_SET_FLOATS, 0, 0},
                                      {"dft_length", "T2", RLX_SET_INDEX, RLX_OPTIONAL | RLX_HOST, 0},
                                      {"axis", NULL, RLX_SET(RLX_INT64), RLX_OPTIONAL | RLX_HOST, 0},
                                      {0}};
static const rlx_port dft17_inputs[] = {
    {"input", "T1", RLX_SET_FLOATS, 0, 0}, {"dft_length", "T2", RLX_SET_INDEX, RLX_OPTIONAL | RLX_HOST, 0}, {0}};
static const rlx_port stft_inputs[] = {{"signal", "T1", RLX_SET_FLOATS, 0, 0},
                                       {"frame_step", "T2", RLX_SET_INDEX, RLX_HOST, 0},
                                       {"window", "T1", RLX_SET_FLOATS, RLX_OPTIONAL, 0},
                                       {"frame_length", "T2", RLX_SET_INDEX, RLX_OPTIONAL | RLX_HOST, 0},
                                       {0}};
static const rlx_port mel_inputs[] = {
    {"num_mel_bins", "T1", RLX_SET_INDEX, RLX_HOST, 0},      {"dft_length", "T1", RLX_SET_INDEX, RLX_HOST, 0},
    {"sample_rate", "T1", RLX_SET_INDEX, RLX_HOST, 0},       {"lower_edge_hertz", "T2", RLX_SET_FLOATS, RLX_HOST, 0},
    {"upper_edge_hertz", "T2", RLX_SET_FLOATS, RLX_HOST, 0}, {0}};
static const rlx_port window_inputs[] = {{"size", "T1", RLX_SET_INDEX, RLX_HOST, 0}, {0}};
static const rlx_port float_outputs[] = {{"output", "T1", RLX_SET_FLOATS, 0, 0}, {0}};
static const rlx_port number_outputs[] = {{"output", "T3", RLX_SET_NUMBERS, 0, 0}, {0}};

#define TRANSFORM(op_name, since, text, input_ports, attr_rows, infer_fn, eval_fn, vjp_fn, jvp_fn, ...)                \
  {                                                                                                                    \
    .struct_size = sizeof(rlx_op), .name = op_name, .version = since, .doc = text,                                     \
    .samples = (const char *const[]){__VA_ARGS__, NULL}, .inputs = input_ports, .outputs = float_outputs,              \
    .attrs = attr_rows, .params_size = sizeof(signal_params), .traits = RLX_PURE, .infer = infer_fn, .vjp = vjp_fn,    \
    .jvp = jvp_fn, .eval = eval_fn                                                                                     \
  }
/* What goes in ends up as whole bins. */
#define EVAL_MEL eval_mel, .no_derivative = "bands begin and end at whole bins"
static const rlx_op dft =
    TRANSFORM("onnx.DFT", 20, "Discrete Fourier transform along one axis.", dft_inputs, dft_attrs, infer_dft, dft_eval,
              dft_vjp, dft_jvp, "float[1,8,1]", "float[2,6,2] {inverse = 1}", "float[3,34,2]",
              "double[2,5,1] {onesided = 1}", "float[2,5,2] {inverse = 1, onesided = 1}");
static const rlx_op dft17 =
    TRANSFORM("onnx.DFT", 17, "Discrete Fourier transform along the axis of an attribute.", dft17_inputs, dft17_attrs,
              infer_dft17, dft_eval17, dft_vjp, dft_jvp, "float[1,8,1] {onesided = 1}");
static const rlx_op stft =
    TRANSFORM("onnx.STFT", 17, "Fourier transforms of the windowed frames of a signal.", stft_inputs, stft_attrs,
              infer_stft, stft_eval, stft_vjp, stft_jvp, "float[2,16], int64 = {4}, float[8]",
              "double[1,20,1], int64 = {3}, , int64 = {7} {onesided = 0}");
static const rlx_op mel =
    RECORD("onnx.MelWeightMatrix", 17, "Triangular filters that turn a spectrum into mel bands.", mel_inputs,
           number_outputs, mel_attrs, infer_mel, EVAL_MEL,
           "int64[] = {4}, int64[] = {16}, int64[] = {8000}, float[] = {100.0}, float[] = {3000.0}");
static const rlx_op hann = RECORD("onnx.HannWindow", 17, "Hann window.", window_inputs, number_outputs, window_attrs,
                                  infer_window, eval_hann, "int64[] = {8}");
static const rlx_op hamming = RECORD("onnx.HammingWindow", 17, "Hamming window.", window_inputs, number_outputs,
                                     window_attrs, infer_window, eval_hamming, "int32[] = {5} {periodic = 0}");
static const rlx_op blackman =
    RECORD("onnx.BlackmanWindow", 17, "Blackman window.", window_inputs, number_outputs, window_attrs, infer_window,
           eval_blackman, "int64[] = {8} {output_datatype = 11}");

static const rlx_op *const ops[] = {&dft, &dft17, &stft, &mel, &hann, &hamming, &blackman, NULL};
const rlx_module ops_signal = {.ops = ops};
