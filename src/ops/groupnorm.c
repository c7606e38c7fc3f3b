/* groupnorm.c — onnx.InstanceNormalization and GroupNormalization. */
#include "ops/groupnorm.h"

#include <math.h>

#include "base/status.h"
#include "ir/module.h"
#include "ops/_derivative.h"
#include "ops/_number.h"

const char *groupnorm_resolve(int rank, const int64_t *dims, int64_t groups, int64_t scale_count, bool per_group,
                              groupnorm_shape *out) {
  if (rank < 2) return rlx_reason("an input of rank %d has no channels", rank);
  *out = (groupnorm_shape){.batch = dims[0], .channels = dims[1], .inner = 1, .per_group = per_group};
  out->groups = groups ? groups : out->channels;
  if (out->groups < 1 || out->channels % out->groups != 0) {
    if (out->channels != 0) {
      return rlx_reason("%lld channels in %lld groups", (long long)out->channels, (long long)out->groups);
    }
  }
  for (int d = 2; d < rank; d++) out->inner *= dims[d];
  int64_t want = per_group ? out->groups : out->channels;
  if (scale_count != want) {
    return rlx_reason("a scale or bias of %lld elements where %lld are needed", (long long)scale_count,
                      (long long)want);
  }
  return NULL;
}

static rlx_status infer(rlx_infer *ctx) {
  const rlx_type *x = rlx_infer_input(ctx, 0);
  if (x->rank == 0 || x->rank == 1) return rlx_fail(ctx, RLX_INVALID, "an input of rank %d has no channels", x->rank);
  rlx_infer_like(ctx, 0, 0);
  return RLX_OK;
}

typedef struct norm_task {
  groupnorm_shape shape;
  double epsilon;
  const rlx_operand *x, *scale, *bias, *y;
} norm_task;

NUMBER_INLINE void norm_groups(rlx_dtype t, const norm_task *k, int64_t begin, int64_t end) {
  const groupnorm_shape *s = &k->shape;
  int64_t members = s->channels / s->groups, count = members * s->inner;
  const void *x = k->x->data;
  for (int64_t i = begin; i < end; i++) {
    int64_t at = i * count, group = i % s->groups;
    double mean = 0, square = 0;
    for (int64_t j = 0; j < count; j++) mean += number_load(t, x, at + j);
    mean /= (double)count;
    for (int64_t j = 0; j < count; j++) {
      double d = number_load(t, x, at + j) - mean;
      square += d * d;
    }
    double inverse = 1 / sqrt(square / (double)count + k->epsilon);
    for (int64_t m = 0; m < members; m++) {
      int64_t entry = s->per_group ? group : group * members + m;
      double scale = dtype_load(k->scale->dtype, k->scale->data, entry) * inverse;
      double bias = dtype_load(k->bias->dtype, k->bias->data, entry);
      for (int64_t j = 0; j < s->inner; j++) {
        int64_t e = at + m * s->inner + j;
        number_store(t, k->y->data, e, (number_load(t, x, e) - mean) * scale + bias);
      }
    }
  }
}
static void range_float(void *arg, int64_t begin, int64_t end) { norm_groups(RLX_FLOAT, arg, begin, end); }
static void range_double(void *arg, int64_t begin, int64_t end) { norm_groups(RLX_DOUBLE, arg, begin, end); }
static void range_float16(void *arg, int64_t begin, int64_t end) { norm_groups(RLX_FLOAT16, arg, begin, end); }
static void range_bfloat16(void *arg, int64_t begin, int64_t end) { norm_groups(RLX_BFLOAT16, arg, begin, end); }

static rlx_status eval(rlx_ctx *ctx, bool per_group) {
  const groupnorm_params *p = ctx->params;
  const rlx_operand *in = ctx->inputs;
  norm_task k = {.epsilon = (double)p->epsilon, .x = &in[0], .scale = &in[1], .bias = &in[2], .y = &ctx->outputs[0]};
  const char *bad = groupnorm_resolve(in[0].rank, in[0].dims, p->num_groups, in[1].count, per_group, &k.shape);
  if (!bad && in[2].count != in[1].count) bad = "scale and bias differ in size";
  if (bad) return rlx_fail(ctx, RLX_INVALID, "%s", bad);
  if (in[0].count == 0) return RLX_OK;
  static void (*const bodies[RLX_DTYPE_COUNT])(void *, int64_t, int64_t) = {[RLX_FLOAT] = range_float,
                                                                            [RLX_DOUBLE] = range_double,
                                                                            [RLX_FLOAT16] = range_float16,
                                                                            [RLX_BFLOAT16] = range_bfloat16};
  if (!bodies[in[0].dtype]) return rlx_fail(ctx, RLX_UNSUPPORTED, "element type %s", rlx_dtype_name(in[0].dtype));
  int64_t each = in[0].count / (k.shape.batch * k.shape.groups);
  rlx_parallel_for(ctx, k.shape.batch * k.shape.groups, 1 + 4096 / each, bodies[in[0].dtype], &k);
  return RLX_OK;
}
static rlx_status eval_channel(rlx_ctx *ctx) { return eval(ctx, false); }
static rlx_status eval_group(rlx_ctx *ctx) { return eval(ctx, true); }

#define EPSILON                                                                                                        \
  {.name = "epsilon", .kind = RLX_ATTR_FLOAT, .offset = offsetof(groupnorm_params, epsilon), .default_float = 1e-5f}
#define GROUPS                                                                                                         \
  {.name = "num_groups", .kind = RLX_ATTR_INT, .flags = RLX_REQUIRED | RLX_RANGED,                                     \
   .offset = offsetof(groupnorm_params, num_groups), .min = 1, .max = INT32_MAX}
/* ---- derivatives ------------------------------------------------------------------------------------------------ */

/* Samples × groups × elements, normalised; then scaled by group or, in the input's own shape, by channel. */
static rlx_status derive(rlx_graph *g, const rlx_node *n, rlx_value **outputs, bool per_group) {
  const groupnorm_params *p = rlx_node_params(n);
  rlx_value *in[3] = {rlx_node_input(n, 0), rlx_node_input(n, 1), rlx_node_input(n, 2)};
  int rank = rlx_value_type(in[0])->rank;
  if (rank < 2) return rlx_graph_fail(g, RLX_UNSUPPORTED, "the rank is not known");
  int64_t dims[RLX_MAX_RANK];
  for (int d = 0; d < rank; d++) dims[d] = d == 1 ? -1 : 1;
  char shape[200];
  derivative_list(dims, rank, shape, sizeof shape);
  return derivative_text(
      g, in, outputs,
      "norm (x, scale, bias) => (y) <int64[3] rows = {0, %lld, -1}, int64[1] axis = {2}, int64[%d] shape = {%s},"
      " int64[3] groups = {1, -1, 1}, %s epsilon = {%.9g}> {"
      " own = Shape (x) r = Reshape (x, rows) m = ReduceMean (r, axis) z = Sub (r, m) s = Mul (z, z)"
      " v = ReduceMean (s, axis) e = Add (v, epsilon) d = Sqrt (e) q = Div (z, d)"
      " a0 = CastLike (scale, x) b0 = CastLike (bias, x) %s }",
      (long long)p->num_groups, rank, shape, rlx_dtype_name(rlx_value_type(in[0])->dtype), (double)p->epsilon,
      per_group ? "a = Reshape (a0, groups) b = Reshape (b0, groups) w = Mul (q, a) t = Add (w, b) y = Reshape (t, own)"
                : "t = Reshape (q, own) a = Reshape (a0, shape) b = Reshape (b0, shape) w = Mul (t, a) y = Add (w, b)");
}
static rlx_status derive_channel(rlx_graph *g, const rlx_node *n, rlx_value **y) { return derive(g, n, y, false); }
static rlx_status derive_group(rlx_graph *g, const rlx_node *n, rlx_value **y) { return derive(g, n, y, true); }

static const rlx_attr_def instance_attrs[] = {
    EPSILON,
    {.name = "consumed_inputs", .kind = RLX_ATTR_INTS, .offset = offsetof(groupnorm_params, consumed_inputs)},
    {0}};
static const rlx_attr_def group_attrs[] = {
    EPSILON,
    GROUPS,
    {.name = "stash_type", .kind = RLX_ATTR_INT, .offset = offsetof(groupnorm_params, stash_type), .default_int = 1},
    {0}};
static const rlx_attr_def group18_attrs[] = {EPSILON, GROUPS, {0}};
static const rlx_port inputs[] = {
    {"input", "T", RLX_SET_FLOATS, 0, 0}, {"scale", "T", RLX_SET_FLOATS, 0, 0}, {"B", "T", RLX_SET_FLOATS, 0, 0}, {0}};
static const rlx_port outputs[] = {{"output", "T", RLX_SET_FLOATS, 0, 0}, {0}};

#define RECORD(op_name, since, text, attr_rows, eval_fn, derive_fn, ...)                                                          \
  {                                                                                                                    \
    .struct_size = sizeof(rlx_op), .name = op_name, .version = since, .doc = text,                                     \
    .samples = (const char *const[]){__VA_ARGS__, NULL}, .inputs = inputs, .outputs = outputs, .attrs = attr_rows,     \
    .params_size = sizeof(groupnorm_params), .traits = RLX_PURE, .infer = infer, .eval = eval_fn, .derive = derive_fn                       \
  }
static const rlx_op instance =
    RECORD("onnx.InstanceNormalization", 1, "Normalises each channel of each sample by its own mean and variance.",
           instance_attrs, eval_channel, derive_channel, "float[2,3,4,5], float[3], float[3]");
static const rlx_op group =
    RECORD("onnx.GroupNormalization", 21, "Normalises each group of channels of each sample; scale and bias a channel.",
           group_attrs, eval_channel, derive_channel, "float[2,4,3,5], float[4], float[4] {num_groups = 2}");
static const rlx_op group18 =
    RECORD("onnx.GroupNormalization", 18, "Normalises each group of channels of each sample; scale and bias a group.",
           group18_attrs, eval_group, derive_group, "float[2,4,3,5], float[2], float[2] {num_groups = 2}");

static const rlx_op *const ops[] = {&instance, &group, &group18, NULL};
const rlx_module ops_groupnorm = {.ops = ops};
