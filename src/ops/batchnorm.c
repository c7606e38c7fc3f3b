/* batchnorm.c — onnx.BatchNormalization. */
#include "ops/batchnorm.h"

#include <math.h>

#include "base/memory.h"
#include "base/status.h"
#include "ir/module.h"
#include "ir/shape.h"
#include "ops/_derivative.h"
#include "ops/_number.h"

/* ---- inference -------------------------------------------------------------------------------------------------- */

static rlx_status infer(rlx_infer *ctx) {
  const rlx_type *x = rlx_infer_input(ctx, 0);
  int64_t channels = RLX_UNKNOWN;
  if (x->rank != RLX_UNKNOWN) {
    if (x->rank < 1) return rlx_fail(ctx, RLX_INVALID, "an input of rank %d has no channels", x->rank);
    channels = x->rank > 1 ? x->dims[1] : 1;
    rlx_infer_set(ctx, 0, x->rank, x->dims);
  }
  for (int i = 1; i < 5; i++) {
    const rlx_type *v = rlx_infer_input(ctx, i);
    if (v->rank != RLX_UNKNOWN && v->rank != 1) {
      return rlx_fail(ctx, RLX_INVALID, "input %d has rank %d, not 1", i, v->rank);
    }
    if (v->rank == RLX_UNKNOWN || v->dims[0] == RLX_UNKNOWN) continue;
    if (channels != RLX_UNKNOWN && channels != v->dims[0]) {
      return rlx_fail(ctx, RLX_INVALID, "input %d has %lld elements for %lld channels", i, (long long)v->dims[0],
                      (long long)channels);
    }
    channels = v->dims[0];
  }
  for (int i = 1; i < rlx_infer_output_count(ctx); i++) rlx_infer_set(ctx, i, 1, &channels);
  return RLX_OK;
}

/* Old versions: scale and the rest may have all axes but the first. */
static rlx_status infer_old(rlx_infer *ctx) {
  const rlx_type *x = rlx_infer_input(ctx, 0), *scale = rlx_infer_input(ctx, 1);
  if (x->rank != RLX_UNKNOWN) rlx_infer_set(ctx, 0, x->rank, x->dims);
  if (scale->rank == RLX_UNKNOWN) return RLX_OK;
  for (int i = 1; i < rlx_infer_output_count(ctx); i++) rlx_infer_set(ctx, i, scale->rank, scale->dims);
  return RLX_OK;
}

/* ---- evaluation ------------------------------------------------------------------------------------------------- */

/* batch × channels × inner */
typedef struct norm_task {
  int64_t batch, channels, inner;
  bool training;
  double epsilon, momentum;
  const rlx_operand *in, *out;
  int outputs;
} norm_task;

NUMBER_INLINE void moments(rlx_dtype t, const norm_task *k, int64_t channel, double *mean, double *variance) {
  const void *x = k->in[0].data;
  double sum = 0, square = 0, count = (double)(k->batch * k->inner);
  for (int64_t n = 0; n < k->batch; n++) {
    int64_t at = (n * k->channels + channel) * k->inner;
    for (int64_t i = 0; i < k->inner; i++) sum += number_load(t, x, at + i);
  }
  *mean = sum / count;
  for (int64_t n = 0; n < k->batch; n++) {
    int64_t at = (n * k->channels + channel) * k->inner;
    for (int64_t i = 0; i < k->inner; i++) {
      double d = number_load(t, x, at + i) - *mean;
      square += d * d;
    }
  }
  *variance = square / count;
}

static void blend(const norm_task *k, int i, int64_t channel, double old, double now) {
  if (i < k->outputs && k->out[i].data) {
    dtype_store(k->out[i].dtype, k->out[i].data, channel, old * k->momentum + now * (1 - k->momentum));
  }
}

NUMBER_INLINE void norm_channels(rlx_dtype t, const norm_task *k, int64_t begin, int64_t end) {
  const rlx_operand *in = k->in;
  for (int64_t c = begin; c < end; c++) {
    double scale = dtype_load(in[1].dtype, in[1].data, c), bias = dtype_load(in[2].dtype, in[2].data, c);
    double mean = dtype_load(in[3].dtype, in[3].data, c), variance = dtype_load(in[4].dtype, in[4].data, c);
    if (k->training) {
      double now_mean, now_variance;
      moments(t, k, c, &now_mean, &now_variance);
      blend(k, 1, c, mean, now_mean);
      blend(k, 2, c, variance, now_variance);
      mean = now_mean;
      variance = now_variance;
    }
    double factor = scale / sqrt(variance + k->epsilon);
    for (int64_t n = 0; n < k->batch; n++) {
      int64_t at = (n * k->channels + c) * k->inner;
      for (int64_t i = 0; i < k->inner; i++) {
        number_store(t, k->out[0].data, at + i, (number_load(t, in[0].data, at + i) - mean) * factor + bias);
      }
    }
  }
}
static void range_float(void *arg, int64_t begin, int64_t end) { norm_channels(RLX_FLOAT, arg, begin, end); }
static void range_double(void *arg, int64_t begin, int64_t end) { norm_channels(RLX_DOUBLE, arg, begin, end); }
static void range_float16(void *arg, int64_t begin, int64_t end) { norm_channels(RLX_FLOAT16, arg, begin, end); }
static void range_bfloat16(void *arg, int64_t begin, int64_t end) { norm_channels(RLX_BFLOAT16, arg, begin, end); }

static rlx_status eval(rlx_ctx *ctx) {
  const batchnorm_params *p = ctx->params;
  const rlx_operand *x = &ctx->inputs[0];
  if (x->rank < 1) return rlx_fail(ctx, RLX_INVALID, "an input of rank 0 has no channels");
  norm_task k = {.batch = x->dims[0], .channels = x->rank > 1 ? x->dims[1] : 1, .inner = 1};
  for (int d = 2; d < x->rank; d++) k.inner *= x->dims[d];
  for (int i = 1; i < 5; i++) {
    if (ctx->inputs[i].count != k.channels) {
      return rlx_fail(ctx, RLX_INVALID, "input %d has %lld elements for %lld channels", i,
                      (long long)ctx->inputs[i].count, (long long)k.channels);
    }
  }
  k.training = p->training_mode != 0;
  k.epsilon = (double)p->epsilon;
  k.momentum = (double)p->momentum;
  k.in = ctx->inputs;
  k.out = ctx->outputs;
  k.outputs = ctx->output_count;
  if (!k.training && k.outputs > 1) {
    for (int i = 1; i < k.outputs; i++) {
      if (ctx->outputs[i].data) return rlx_fail(ctx, RLX_INVALID, "running statistics without training_mode");
    }
  }
  static void (*const bodies[RLX_DTYPE_COUNT])(void *, int64_t, int64_t) = {[RLX_FLOAT] = range_float,
                                                                            [RLX_DOUBLE] = range_double,
                                                                            [RLX_FLOAT16] = range_float16,
                                                                            [RLX_BFLOAT16] = range_bfloat16};
  if (!bodies[x->dtype]) return rlx_fail(ctx, RLX_UNSUPPORTED, "element type %s", rlx_dtype_name(x->dtype));
  if (k.channels) rlx_parallel_for(ctx, k.channels, 1 + 4096 / (k.batch * k.inner + 1), bodies[x->dtype], &k);
  return RLX_OK;
}

/* ---- versions before 14 ----------------------------------------------------------------------------------------- */

static rlx_value *op(rlx_graph *g, const char *name, rlx_value *a, rlx_value *b) {
  return rlx_graph_op(g, name, NULL, 0, (rlx_value *[]){a, b}, b ? 2 : 1);
}

static rlx_value *scalar_like(rlx_graph *g, float value, rlx_value *like) {
  rlx_tensor *t;
  rlx_status status = rlx_tensor_create(RLX_FLOAT, 0, NULL, &t);
  if (status) {
    rlx_graph_fail(g, status, "no memory for a constant");
    return NULL;
  }
  *(float *)rlx_tensor_data(t) = value;
  rlx_value *v = rlx_graph_constant(g, NULL, t);
  rlx_tensor_destroy(t);
  return rlx_graph_op(g, "onnx.CastLike", NULL, 0, (rlx_value *[]){v, like}, 2);
}

static bool output_wanted(const rlx_node *n, int i) {
  return i < rlx_node_output_count(n) && rlx_value_name(rlx_node_output(n, i))[0] != '\0';
}

/* Statistics per activation instead of per channel: plain arithmetic, which broadcasts over the batch. */
static rlx_status lower_per_activation(rlx_graph *g, const rlx_node *n, rlx_value **outputs) {
  const batchnorm_params *p = rlx_node_params(n);
  rlx_value *in[5];
  for (int i = 0; i < 5; i++) in[i] = rlx_node_input(n, i);
  rlx_value *deviation = op(g, "onnx.Sqrt", op(g, "onnx.Add", in[4], scalar_like(g, p->epsilon, in[4])), NULL);
  rlx_value *centred = op(g, "onnx.Sub", in[0], in[3]);
  rlx_value *y = op(g, "onnx.Mul", op(g, "onnx.Div", centred, deviation), in[1]);
  outputs[0] = op(g, "onnx.Add", y, in[2]);
  return rlx_graph_status(g);
}

/* Mean over all axes but the second, as a vector. */
static rlx_value *channel_mean(rlx_graph *g, rlx_value *v, int rank) {
  rlx_tensor *t;
  int64_t count = rank - 1;
  rlx_status status = rlx_tensor_create(RLX_INT64, 1, &count, &t);
  if (status) {
    rlx_graph_fail(g, status, "no memory for a constant");
    return NULL;
  }
  int64_t *axes = rlx_tensor_data(t);
  for (int d = 0; d < rank; d++) {
    if (d != 1) axes[d > 1 ? d - 1 : 0] = d;
  }
  rlx_value *axes_value = rlx_graph_constant(g, NULL, t);
  rlx_tensor_destroy(t);
  rlx_attr keepdims = RLX_ATTR_I("keepdims", 0);
  return rlx_graph_op(g, "onnx.ReduceMean", &keepdims, 1, (rlx_value *[]){v, axes_value}, 2);
}

/* Outputs 3 and 4 of training: mean and variance of this batch. */
static void saved_statistics(rlx_graph *g, const rlx_node *n, rlx_value **outputs) {
  rlx_value *x = rlx_node_input(n, 0);
  int rank = rlx_value_type(x)->rank;
  if (rank < 2) {
    rlx_graph_fail(g, RLX_UNSUPPORTED, "saved statistics of an input whose rank is not known");
    return;
  }
  rlx_value *mean = channel_mean(g, x, rank);
  rlx_value *squares = channel_mean(g, op(g, "onnx.Mul", x, x), rank);
  outputs[3] = mean;
  if (rlx_node_output_count(n) > 4) outputs[4] = op(g, "onnx.Sub", squares, op(g, "onnx.Mul", mean, mean));
}

/* One output means inference, more mean training. */
static rlx_status lower_old(rlx_graph *g, const rlx_node *n, rlx_value **outputs) {
  const batchnorm_params *p = rlx_node_params(n);
  int wanted = 0;
  for (int i = 1; i < 5; i++) wanted += output_wanted(n, i);
  bool training = wanted > 0 && !p->is_test;
  if (!p->spatial) {
    if (training) return rlx_graph_fail(g, RLX_UNSUPPORTED, "training with spatial = 0");
    return lower_per_activation(g, n, outputs);
  }
  rlx_attr attrs[] = {RLX_ATTR_F("epsilon", p->epsilon), RLX_ATTR_F("momentum", p->momentum),
                      RLX_ATTR_I("training_mode", training)};
  rlx_value *inputs[5];
  for (int i = 0; i < 5; i++) inputs[i] = rlx_node_input(n, i);
  rlx_node_desc desc = {sizeof desc, "onnx.BatchNormalization", NULL, inputs, 5, attrs, 3, training ? 3 : 1, NULL};
  rlx_node *node = rlx_graph_node(g, &desc);
  if (!node) return rlx_graph_status(g);
  outputs[0] = rlx_node_output(node, 0);
  for (int i = 1; i < rlx_node_output_count(n) && i < 3; i++) {
    outputs[i] = training ? rlx_node_output(node, i) : inputs[i + 2];
  }
  if (rlx_node_output_count(n) > 3) {
    if (training) {
      saved_statistics(g, n, outputs);
    } else {
      for (int i = 3; i < rlx_node_output_count(n); i++) outputs[i] = inputs[i];
    }
  }
  return rlx_graph_status(g);
}

/* ---- derivatives ------------------------------------------------------------------------------------------------ */

/* Plain arithmetic. The vectors become 1 × channels × 1 …; training also gives the running statistics. */
static rlx_status derive(rlx_graph *g, const rlx_node *n, rlx_value **outputs) {
  const batchnorm_params *p = rlx_node_params(n);
  rlx_value *in[5], *made[3] = {NULL};
  for (int i = 0; i < 5; i++) in[i] = rlx_node_input(n, i);
  int rank = rlx_value_type(in[0])->rank;
  if (rank < 1) return rlx_graph_fail(g, RLX_UNSUPPORTED, "the rank is not known");
  int64_t dims[RLX_MAX_RANK] = {-1, -1}, axes[RLX_MAX_RANK];
  int others = 0;
  for (int d = 0; d < rank; d++) {
    if (rank > 1) dims[d] = d == 1 ? -1 : 1;
    if (d != 1) axes[others++] = d;
  }
  char shape[200], over[200];
  derivative_list(dims, rank, shape, sizeof shape);
  derivative_list(axes, others, over, sizeof over);
  const char *dtype = rlx_dtype_name(rlx_value_type(in[0])->dtype);
  const char *state = rlx_dtype_name(rlx_value_type(in[3])->dtype);
  RLX_TRY(derivative_text(
      g, in, made,
      "norm (x, scale, bias, mean, variance) => (y, rm, rv) <int64[%d] shape = {%s}, int64[%d] axes = {%s},"
      " %s epsilon = {%.9g}, %s old = {%.9g}, %s new = {%.9g}> {"
      " a = CastLike (scale, x) b = CastLike (bias, x) k = Reshape (a, shape) c = Reshape (b, shape) %s"
      " ms = Reshape (m, shape) vs = Reshape (v, shape) z = Sub (x, ms) e = Add (vs, epsilon) d = Sqrt (e)"
      " q = Div (z, d) w = Mul (q, k) y = Add (w, c)"
      " mc = CastLike (m, mean) vc = CastLike (v, variance) m1 = Mul (mean, old) m2 = Mul (mc, new) rm = Add (m1, m2)"
      " v1 = Mul (variance, old) v2 = Mul (vc, new) rv = Add (v1, v2) }",
      rank, shape, others, over, dtype, (double)p->epsilon, state, (double)p->momentum, state, 1 - (double)p->momentum,
      p->training_mode ? "m = ReduceMean <keepdims = 0> (x, axes) m0 = Reshape (m, shape) z0 = Sub (x, m0)"
                         " s0 = Mul (z0, z0) v = ReduceMean <keepdims = 0> (s0, axes)"
                       : "m = CastLike (mean, x) v = CastLike (variance, x)"));
  for (int i = 0; i < rlx_node_output_count(n) && i < 3; i++) outputs[i] = made[i];
  return rlx_graph_status(g);
}

/* ---- records ---------------------------------------------------------------------------------------------------- */

#define EPSILON                                                                                                        \
  {.name = "epsilon", .kind = RLX_ATTR_FLOAT, .offset = offsetof(batchnorm_params, epsilon), .default_float = 1e-5f},  \
  {                                                                                                                    \
    .name = "momentum", .kind = RLX_ATTR_FLOAT, .offset = offsetof(batchnorm_params, momentum), .default_float = 0.9f  \
  }
#define SPATIAL                                                                                                        \
  {.name = "spatial", .kind = RLX_ATTR_INT, .offset = offsetof(batchnorm_params, spatial), .default_int = 1}
static const rlx_attr_def attrs[] = {
    EPSILON, {.name = "training_mode", .kind = RLX_ATTR_INT, .offset = offsetof(batchnorm_params, training_mode)}, {0}};
static const rlx_attr_def attrs7[] = {EPSILON, SPATIAL, {0}};
static const rlx_attr_def attrs1[] = {
    EPSILON,
    SPATIAL,
    {.name = "is_test", .kind = RLX_ATTR_INT, .offset = offsetof(batchnorm_params, is_test)},
    {.name = "consumed_inputs", .kind = RLX_ATTR_INTS, .offset = offsetof(batchnorm_params, consumed_inputs)},
    {0}};

static const rlx_op batch_normalization = {
    .struct_size = sizeof(rlx_op),
    .name = "onnx.BatchNormalization",
    .version = 14,
    .doc = "Normalises each channel by given statistics, or in training by those of the batch, which it also returns "
           "blended into the running ones.",
    .samples = (const char *const[]){"float[2,3,4,5], float[3], float[3], float[3], float[3] {epsilon = 4.0}",
                                     "float[2,3], float[3], float[3], float[3], float[3] {epsilon = 4.0}", NULL},
    .inputs = (const rlx_port[]){{"X", "T", RLX_SET_FLOATS, 0, 0},
                                 {"scale", "T1", RLX_SET_FLOATS, 0, 0},
                                 {"B", "T1", RLX_SET_FLOATS, 0, 0},
                                 {"input_mean", "T2", RLX_SET_FLOATS, 0, 0},
                                 {"input_var", "T2", RLX_SET_FLOATS, 0, 0},
                                 {0}},
    .outputs = (const rlx_port[]){{"Y", "T", RLX_SET_FLOATS, 0, 0},
                                  {"running_mean", "T2", RLX_SET_FLOATS, RLX_OPTIONAL, 0},
                                  {"running_var", "T2", RLX_SET_FLOATS, RLX_OPTIONAL, 0},
                                  {0}},
    .attrs = attrs,
    .params_size = sizeof(batchnorm_params),
    .traits = RLX_PURE,
    .infer = infer,
    .derive = derive,
    .eval = eval,
};

static const rlx_port old_inputs[] = {{"X", "T", RLX_SET_FLOATS, 0, 0},   {"scale", "T", RLX_SET_FLOATS, 0, 0},
                                      {"B", "T", RLX_SET_FLOATS, 0, 0},   {"mean", "T", RLX_SET_FLOATS, 0, 0},
                                      {"var", "T", RLX_SET_FLOATS, 0, 0}, {0}};
static const rlx_port old_outputs[] = {{"Y", "T", RLX_SET_FLOATS, 0, 0},
                                       {"mean", "T", RLX_SET_FLOATS, RLX_OPTIONAL, 0},
                                       {"var", "T", RLX_SET_FLOATS, RLX_OPTIONAL, 0},
                                       {"saved_mean", "T", RLX_SET_FLOATS, RLX_OPTIONAL, 0},
                                       {"saved_var", "T", RLX_SET_FLOATS, RLX_OPTIONAL, 0},
                                       {0}};
static const rlx_op batch_normalization1 = {
    .struct_size = sizeof(rlx_op),
    .name = "onnx.BatchNormalization",
    .version = 1,
    .samples = (const char *const[]){"float[2,3,4,5], float[3], float[3], float[3], float[3]", NULL},
    .doc = "Batch normalisation of versions 1 to 6: is_test, spatial, and training by the number of outputs.",
    .inputs = old_inputs,
    .outputs = old_outputs,
    .attrs = attrs1,
    .params_size = sizeof(batchnorm_params),
    .traits = RLX_PURE,
    .infer = infer_old,
    .lower = lower_old,
};
static const rlx_op batch_normalization7 = {
    .struct_size = sizeof(rlx_op),
    .name = "onnx.BatchNormalization",
    .version = 7,
    .samples = (const char *const[]){"float[2,3,4,5], float[3], float[3], float[3], float[3]", NULL},
    .doc = "Batch normalisation of versions 7 to 13: training by the number of outputs.",
    .inputs = old_inputs,
    .outputs = old_outputs,
    .attrs = attrs7,
    .params_size = sizeof(batchnorm_params),
    .traits = RLX_PURE,
    .infer = infer_old,
    .lower = lower_old,
};

static const rlx_op *const ops[] = {&batch_normalization, &batch_normalization1, &batch_normalization7, NULL};
const rlx_module ops_batchnorm = {.ops = ops};
