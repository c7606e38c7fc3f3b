/* pad.c — Pad: borders of a constant, or of the tensor's own elements, and cropping (negative pads). */
#include <stddef.h>
#include <string.h>

#include "ir/module.h"
#include "ops/_move.h"

typedef enum pad_mode { PAD_CONSTANT, PAD_REFLECT, PAD_EDGE, PAD_WRAP } pad_mode;

typedef struct pad_params {
  uint64_t given;
  rlx_string mode;
} pad_params;

static const rlx_attr_def pad_attrs[] = {
    {.name = "mode", .kind = RLX_ATTR_STRING, .offset = offsetof(pad_params, mode), .default_string = "constant"}, {0}};
static const rlx_port pad_inputs[] = {{.name = "data", .variable = "T"},
                                      {.name = "pads", .dtypes = MOVE_INT64, .flags = RLX_HOST},
                                      {.name = "constant_value", .variable = "T", .flags = RLX_OPTIONAL},
                                      {.name = "axes", .dtypes = RLX_SET_INDEX, .flags = RLX_HOST | RLX_OPTIONAL},
                                      {0}};
static const rlx_port pad_outputs[] = {{.name = "output", .variable = "T"}, {0}};

static rlx_status parse_mode(const void *context, rlx_string text, pad_mode *out) {
  static const char *const names[] = {"constant", "reflect", "edge", "wrap"};
  for (int i = 0; i < 4; i++)
    if (strlen(names[i]) == text.size && memcmp(names[i], text.data, text.size) == 0) {
      *out = (pad_mode)i;
      return RLX_OK;
    }
  return rlx_fail(context, RLX_INVALID, "mode is \"%.*s\"", (int)(text.size > 64 ? 64 : text.size), text.data);
}

/* Pads per dim from the two lists; axes.count RLX_UNKNOWN: all dims. */
typedef struct pad_widths {
  int64_t before[RLX_MAX_RANK], after[RLX_MAX_RANK];
} pad_widths;

static rlx_status spread_pads(const void *context, int rank, const int_list *pads, int_list *axes, pad_widths *w) {
  int n = axes->count < 0 ? rank : axes->count;
  if (pads->count != 2 * n) return rlx_fail(context, RLX_INVALID, "%d pads for %d axes", pads->count, n);
  if (axes->count >= 0) {
    rlx_status status = axes_normalise(context, axes, rank);
    if (status != RLX_OK) return status;
  }
  memset(w, 0, sizeof *w);
  for (int i = 0; i < n; i++) {
    int axis = axes->count < 0 ? i : (int)axes->values[i];
    w->before[axis] = pads->values[i];
    w->after[axis] = pads->values[n + i];
  }
  return RLX_OK;
}

static rlx_status padded_extent(const void *context, int d, pad_mode mode, int64_t extent, int64_t before,
                                int64_t after, int64_t *out) {
  *out = before || after ? RLX_UNKNOWN : extent;
  if (extent < 0) return RLX_OK;
  int64_t sum;
  if (__builtin_add_overflow(before, after, &sum) || __builtin_add_overflow(sum, extent, &sum) || sum < 0)
    return rlx_fail(context, RLX_INVALID, "dim %d of extent %lld cannot be padded by %lld and %lld", d,
                    (long long)extent, (long long)before, (long long)after);
  int64_t kept = extent + (before < 0 ? before : 0) + (after < 0 ? after : 0);
  if (kept <= 0 && sum > 0 && mode != PAD_CONSTANT)
    return rlx_fail(context, RLX_INVALID, "dim %d has no element to pad with", d);
  *out = sum;
  return RLX_OK;
}

/* Dims when the pads are not known: axes that are not padded keep theirs. */
static rlx_status pad_partial(rlx_infer *ctx, const rlx_type *x, int_list *axes) {
  if (axes->count < 0) {
    infer_unknown(ctx, 0, x->rank);
    return RLX_OK;
  }
  rlx_status status = axes_normalise(ctx, axes, x->rank);
  if (status != RLX_OK) return status;
  rlx_infer_set(ctx, 0, x->rank, x->dims);
  for (int i = 0; i < axes->count; i++) rlx_infer_output(ctx, 0)->dims[axes->values[i]] = RLX_UNKNOWN;
  return RLX_OK;
}

static rlx_status pad_infer(rlx_infer *ctx) {
  const pad_params *p = rlx_infer_params(ctx);
  const rlx_type *x = rlx_infer_input(ctx, 0);
  pad_mode mode = PAD_CONSTANT;
  int_list pads, axes;
  rlx_status status = parse_mode(ctx, p->mode, &mode);
  if (status == RLX_OK) status = infer_ints(ctx, 1, &pads);
  if (status == RLX_OK) status = infer_ints(ctx, 3, &axes);
  if (status != RLX_OK || x->rank == RLX_UNKNOWN) return status;
  if (pads.count < 0 || (axes.count < 0 && infer_given(ctx, 3))) return pad_partial(ctx, x, &axes);
  pad_widths w;
  int64_t dims[RLX_MAX_RANK];
  status = spread_pads(ctx, x->rank, &pads, &axes, &w);
  for (int d = 0; d < x->rank && status == RLX_OK; d++)
    status = padded_extent(ctx, d, mode, x->dims[d], w.before[d], w.after[d], &dims[d]);
  if (status != RLX_OK) return status;
  rlx_infer_set(ctx, 0, x->rank, dims);
  return RLX_OK;
}

/* ---- running ------------------------------------------------------------------------------ */

/* Dims with neighbours merged where neither is padded; unpadded trailing dims become the element. */
typedef struct pad_job {
  rlx_ctx *ctx;
  pad_mode mode;
  int rank;
  int64_t in[RLX_MAX_RANK], out[RLX_MAX_RANK], before[RLX_MAX_RANK];
  int64_t low[RLX_MAX_RANK], high[RLX_MAX_RANK]; /* what is kept of the input */
  int64_t stride[RLX_MAX_RANK];                  /* of the input, in elements */
  int64_t element;                               /* bytes; 0: `bits` */
  int bits;
  const char *value; /* of the constant, of one element of the tensor */
  size_t value_size;
} pad_job;

/* The input index of output index i of dim d; -1 for the constant. */
static inline int64_t source_index(const pad_job *job, int d, int64_t i) {
  int64_t j = i - job->before[d], low = job->low[d], high = job->high[d], n = high - low;
  if (j >= low && j < high) return j;
  if (n <= 0) return -1;
  int64_t k = j - low;
  switch (job->mode) {
    case PAD_EDGE: return k < 0 ? low : high - 1;
    case PAD_WRAP: k %= n; return low + (k < 0 ? k + n : k);
    case PAD_REFLECT:
      if (n == 1) return low;
      k %= 2 * (n - 1);
      if (k < 0) k += 2 * (n - 1);
      return low + (k < n ? k : 2 * (n - 1) - k);
    default: return -1;
  }
}

static void fill_constant(const pad_job *job, char *to, int64_t elements) {
  move_fill(to, job->value, elements * job->element / (int64_t)job->value_size, job->value_size);
}

/* One row of the innermost dim; from NULL: all constant. */
static void pad_row(const pad_job *job, const char *from, char *to) {
  int d = job->rank - 1;
  int64_t out = job->out[d], e = job->element;
  if (!from) {
    fill_constant(job, to, out);
    return;
  }
  int64_t begin = job->low[d] + job->before[d], end = job->high[d] + job->before[d];
  if (begin > out) begin = out;
  if (end < begin) end = begin;
  if (job->mode == PAD_CONSTANT) {
    fill_constant(job, to, begin);
    fill_constant(job, to + end * e, out - end);
  } else {
    for (int64_t i = 0; i < begin; i++) memcpy(to + i * e, from + source_index(job, d, i) * e, (size_t)e);
    for (int64_t i = end; i < out; i++) memcpy(to + i * e, from + source_index(job, d, i) * e, (size_t)e);
  }
  if (end > begin) memcpy(to + begin * e, from + job->low[d] * e, (size_t)((end - begin) * e));
}

static void pad_rows(void *arg, int64_t begin, int64_t end) {
  const pad_job *job = arg;
  int last = job->rank - 1;
  for (int64_t r = begin; r < end; r++) {
    int64_t left = r, offset = 0;
    bool inside = true;
    for (int d = last - 1; d >= 0; d--) {
      int64_t index = source_index(job, d, left % job->out[d]);
      left /= job->out[d];
      inside = inside && index >= 0;
      offset += index * job->stride[d];
    }
    const char *from = inside ? (const char *)job->ctx->inputs[0].data + offset * job->element : NULL;
    pad_row(job, from, (char *)job->ctx->outputs[0].data + r * job->out[last] * job->element);
  }
}

/* Elements smaller than a byte, one by one. */
static void pad_bits(const pad_job *job) {
  const rlx_operand *y = &job->ctx->outputs[0];
  memset(y->data, 0, (size_t)y->bytes);
  for (int64_t i = 0; i < y->count; i++) {
    int64_t left = i, offset = 0;
    bool inside = true;
    for (int d = job->rank - 1; d >= 0; d--) {
      int64_t index = source_index(job, d, left % job->out[d]);
      left /= job->out[d];
      inside = inside && index >= 0;
      offset += index * job->stride[d];
    }
    bits_store(job->bits, y->data, i,
               inside ? bits_load(job->bits, job->ctx->inputs[0].data, offset) : bits_load(job->bits, job->value, 0));
  }
}

static void pad_collapse(pad_job *job, const pad_widths *w, const rlx_operand *x, const rlx_operand *y) {
  int k = 0;
  bool merge = false;
  for (int d = 0; d < x->rank; d++) {
    bool padded = w->before[d] || w->after[d];
    if (!padded && merge) {
      job->in[k - 1] *= x->dims[d];
      job->out[k - 1] *= y->dims[d];
      job->high[k - 1] = job->in[k - 1];
    } else {
      job->in[k] = x->dims[d];
      job->out[k] = y->dims[d];
      job->before[k] = w->before[d];
      job->low[k] = w->before[d] < 0 ? -w->before[d] : 0;
      job->high[k] = x->dims[d] + (w->after[d] < 0 ? w->after[d] : 0);
      k++;
    }
    merge = !padded;
  }
  if (merge && k > 0 && job->element) job->element *= job->in[--k];
  if (k == 0) {
    job->in[0] = job->out[0] = job->high[0] = 1;
    job->low[0] = job->before[0] = 0;
    k = 1;
  }
  job->rank = k;
  shape_strides(k, job->in, job->stride);
}

static rlx_status pad_eval(rlx_ctx *ctx) {
  const pad_params *p = ctx->params;
  const rlx_operand *x = &ctx->inputs[0], *y = &ctx->outputs[0];
  static const rlx_string no_text = {"", 0};
  static const uint64_t zero[2];
  pad_job job = {.ctx = ctx, .element = (int64_t)dtype_size(x->dtype), .value_size = dtype_size(x->dtype)};
  int_list pads, axes;
  pad_widths w;
  rlx_status status = parse_mode(ctx, p->mode, &job.mode);
  if (status == RLX_OK) status = run_ints(ctx, 1, &pads);
  if (status == RLX_OK) status = run_ints(ctx, 3, &axes);
  if (status == RLX_OK) status = spread_pads(ctx, x->rank, &pads, &axes, &w);
  for (int d = 0; d < x->rank && status == RLX_OK; d++) {
    int64_t want;
    status = padded_extent(ctx, d, job.mode, x->dims[d], w.before[d], w.after[d], &want);
    if (status == RLX_OK && want != y->dims[d])
      status = rlx_fail(ctx, RLX_INVALID, "dim %d of the output is %lld, not %lld", d, (long long)y->dims[d],
                        (long long)want);
  }
  if (status != RLX_OK || y->count == 0) return status;
  job.value = x->dtype == RLX_STRING ? (const char *)&no_text : (const char *)zero;
  if (run_given(ctx, 2)) {
    if (ctx->inputs[2].count != 1)
      return rlx_fail(ctx, RLX_INVALID, "constant_value has %lld elements", (long long)ctx->inputs[2].count);
    job.value = ctx->inputs[2].data;
  }
  job.bits = rlx_dtype_bits(x->dtype);
  pad_collapse(&job, &w, x, y);
  if (!job.element && job.value_size == 0) {
    pad_bits(&job);
    return RLX_OK;
  }
  int64_t rows = dims_product(job.out, 0, job.rank - 1);
  int64_t grain = 64 * 1024 / (job.out[job.rank - 1] * job.element + 16) + 1;
  if (rows < 2 * grain)
    pad_rows(&job, 0, rows);
  else
    rlx_parallel_for(ctx, rows, grain, pad_rows, &job);
  return RLX_OK;
}

/* Constant mode: the gradient is cropped by the same pads. */
static rlx_status pad_vjp(rlx_graph *g, const rlx_node *n, rlx_value *const *output_grads, rlx_value **input_grads) {
  const pad_params *p = rlx_node_params(n);
  if (!output_grads[0]) return rlx_graph_status(g);
  pad_mode mode = PAD_CONSTANT;
  rlx_status status = parse_mode(NULL, p->mode, &mode);
  if (status != RLX_OK || mode != PAD_CONSTANT)
    return rlx_graph_fail(g, RLX_UNSUPPORTED, "no gradient of Pad in mode %.*s", (int)p->mode.size, p->mode.data);
  int count = rlx_node_input_count(n);
  rlx_value *inputs[4] = {output_grads[0], graph_op1(g, "onnx.Neg", rlx_node_input(n, 1)), NULL,
                          count > 3 ? rlx_node_input(n, 3) : NULL};
  input_grads[0] = rlx_graph_op(g, "onnx.Pad", NULL, 0, inputs, inputs[3] ? 4 : 2);
  return rlx_graph_status(g);
}

static const rlx_op pad = {
    .struct_size = sizeof(rlx_op),
    .name = "onnx.Pad",
    .version = 11,
    .samples = (const char *const[]){"float[2,3], int64[4] = {1, 0, 2, 1}, float[] = {0.5}",
                                     "float[3,4], int64[4] = {1, 2, 1, 1} {mode = \"reflect\"}",
                                     "int64[2,3], int64[2] = {-1, 2}, , int64[1] = {1} {mode = \"edge\"}", NULL},
    .doc = "pads[i] elements before and pads[n + i] after axis i: a constant, or the tensor reflected, its "
           "edge repeated, or the tensor repeated (wrap). Negative pads crop, before anything is padded.",
    .inputs = pad_inputs,
    .outputs = pad_outputs,
    .attrs = pad_attrs,
    .params_size = sizeof(pad_params),
    .traits = RLX_PURE,
    .infer = pad_infer,
    .vjp = pad_vjp,
    .eval = pad_eval,
};

/* ---- pads and value as attributes ---------------------------------------------------------- */

typedef struct pad2_params {
  uint64_t given;
  rlx_string mode;
  rlx_ints pads;
  float value;
} pad2_params;

#define PAD_ATTRS(name_of_pads)                                                                                        \
  {                                                                                                                    \
    {.name = name_of_pads, .kind = RLX_ATTR_INTS, .flags = RLX_REQUIRED, .offset = offsetof(pad2_params, pads)},       \
        {.name = "mode",                                                                                               \
         .kind = RLX_ATTR_STRING,                                                                                      \
         .offset = offsetof(pad2_params, mode),                                                                        \
         .default_string = "constant"},                                                                                \
        {.name = "value", .kind = RLX_ATTR_FLOAT, .offset = offsetof(pad2_params, value)}, {                           \
      0                                                                                                                \
    }                                                                                                                  \
  }
static const rlx_attr_def pad1_attrs[] = PAD_ATTRS("paddings");
static const rlx_attr_def pad2_attrs[] = PAD_ATTRS("pads");
static const rlx_port pad2_inputs[] = {{.name = "data", .variable = "T", .dtypes = RLX_SET_NUMBERS}, {0}};

static rlx_status pad2_infer(rlx_infer *ctx) {
  const pad2_params *p = rlx_infer_params(ctx);
  const rlx_type *x = rlx_infer_input(ctx, 0);
  if (x->rank == RLX_UNKNOWN) return RLX_OK;
  int_list pads, axes = {.count = RLX_UNKNOWN};
  pad_widths w;
  pad_mode mode = PAD_CONSTANT;
  int64_t dims[RLX_MAX_RANK];
  rlx_status status = parse_mode(ctx, p->mode, &mode);
  if (status == RLX_OK) status = attr_ints(ctx, &p->pads, &pads);
  if (status == RLX_OK) status = spread_pads(ctx, x->rank, &pads, &axes, &w);
  for (int d = 0; d < x->rank && status == RLX_OK; d++)
    status = padded_extent(ctx, d, mode, x->dims[d], w.before[d], w.after[d], &dims[d]);
  if (status != RLX_OK) return status;
  rlx_infer_set(ctx, 0, x->rank, dims);
  return RLX_OK;
}

static rlx_status pad2_lower(rlx_graph *g, const rlx_node *n, rlx_value **outputs) {
  const pad2_params *p = rlx_node_params(n);
  rlx_value *x = rlx_node_input(n, 0), *value = graph_float(g, p->value);
  if (rlx_value_type(x)->dtype != RLX_FLOAT) value = graph_op2(g, "onnx.CastLike", value, x);
  rlx_value *inputs[3] = {x, graph_ints(g, p->pads.data, p->pads.count), value};
  rlx_attr mode = {.name = "mode", .kind = RLX_ATTR_STRING, .s = p->mode};
  outputs[0] = rlx_graph_op(g, "onnx.Pad", &mode, 1, inputs, 3);
  return rlx_graph_status(g);
}

#define OLD_PAD(id, since, its_attrs, row)                                                                             \
  static const rlx_op id = {                                                                                           \
      .struct_size = sizeof(rlx_op),                                                                                   \
      .name = "onnx.Pad",                                                                                              \
      .version = since,                                                                                                \
      .doc = "Pad with pads and value as attributes.",                                                                 \
      .samples = (const char *const[]){row, NULL},                                                                     \
      .inputs = pad2_inputs,                                                                                           \
      .outputs = pad_outputs,                                                                                          \
      .attrs = its_attrs,                                                                                              \
      .params_size = sizeof(pad2_params),                                                                              \
      .traits = RLX_PURE,                                                                                              \
      .infer = pad2_infer,                                                                                             \
      .lower = pad2_lower,                                                                                             \
  }
OLD_PAD(pad_1, 1, pad1_attrs, "float[2,3] {paddings = [1, 0, 2, 1]}");
OLD_PAD(pad_2, 2, pad2_attrs, "float[3,4] {pads = [1, 1, 1, 1], mode = \"reflect\"}");

static const rlx_op *const ops[] = {&pad_1, &pad_2, &pad, NULL};
const rlx_module ops_pad = {.ops = ops};
