/* sample.c — vision.ms_deform_sample, the sampling of multi-scale deformable attention by itself, as Deformable DETR
 * has it (Zhu et al. 2020), and its derivative, vision.ms_deform_sample_grad. */
#include <stdlib.h>
#include <string.h>

#include "deform.h"

enum { VALUE, SHAPES, LOCATIONS, WEIGHTS, GRAD };

/* NULL, or why value [batch, rows, heads, width], locations [batch, queries, heads, levels, points, 2] and weights do
 * not fit; dims may be unknown. */
static const char *fault(const rlx_type *value, const rlx_type *locations, const rlx_type *weights) {
  static const int same[][2] = {{0, 0}, {2, 2}};
  if (value->rank != RLX_UNKNOWN && value->rank != 4) return rlx_reason("value has rank %d, not 4", value->rank);
  if (locations->rank != RLX_UNKNOWN && locations->rank != 6)
    return rlx_reason("locations have rank %d, not 6", locations->rank);
  if (weights->rank != RLX_UNKNOWN && weights->rank != 5)
    return rlx_reason("weights have rank %d, not 5", weights->rank);
  if (locations->rank == 6 && locations->dims[5] != RLX_UNKNOWN && locations->dims[5] != 2)
    return rlx_reason("the last dim of locations is %lld, not 2", (long long)locations->dims[5]);
  for (int i = 0; i < 5 && locations->rank == 6 && weights->rank == 5; i++) {
    int64_t a = locations->dims[i], b = weights->dims[i];
    if (a != b && a != RLX_UNKNOWN && b != RLX_UNKNOWN)
      return rlx_reason("dim %d is %lld in locations and %lld in weights", i, (long long)a, (long long)b);
  }
  for (int i = 0; i < 2 && locations->rank == 6 && value->rank == 4; i++) {
    int64_t a = value->dims[same[i][0]], b = locations->dims[same[i][1]];
    if (a != b && a != RLX_UNKNOWN && b != RLX_UNKNOWN)
      return rlx_reason("value and locations have %lld and %lld %s", (long long)a, (long long)b,
                        i ? "heads" : "batches");
  }
  return NULL;
}

static rlx_status infer(rlx_infer *ctx) {
  const rlx_type *value = rlx_infer_input(ctx, VALUE), *locations = rlx_infer_input(ctx, LOCATIONS);
  const rlx_type *shapes = rlx_infer_input(ctx, SHAPES);
  const char *bad = fault(value, locations, rlx_infer_input(ctx, WEIGHTS));
  if (bad) return rlx_fail(ctx, RLX_INVALID, "%s", bad);
  if (shapes->rank != RLX_UNKNOWN && (shapes->rank != 2 || (shapes->dims[1] != RLX_UNKNOWN && shapes->dims[1] != 2)))
    return rlx_fail(ctx, RLX_INVALID, "shapes is not [levels, 2]");
  int64_t dims[3] = {RLX_UNKNOWN, RLX_UNKNOWN, RLX_UNKNOWN};
  if (locations->rank == 6) memcpy(dims, locations->dims, 2 * sizeof *dims);
  if (value->rank == 4) {
    dims[0] = value->dims[0];
    if (value->dims[2] != RLX_UNKNOWN && value->dims[3] != RLX_UNKNOWN) dims[2] = value->dims[2] * value->dims[3];
  }
  rlx_infer_set(ctx, 0, 3, dims);
  return RLX_OK;
}

static bool differ(int64_t a, int64_t b) { return a != b && a != RLX_UNKNOWN && b != RLX_UNKNOWN; }

/* The gradient of the result beside value and locations. */
static const char *grad_fault(const rlx_type *value, const rlx_type *locations, const rlx_type *grad) {
  if (grad->rank == RLX_UNKNOWN) return NULL;
  if (grad->rank != 3) return rlx_reason("a gradient of rank %d, not 3", grad->rank);
  bool known = value->rank == 4 && value->dims[2] != RLX_UNKNOWN && value->dims[3] != RLX_UNKNOWN;
  if ((value->rank == 4 && differ(grad->dims[0], value->dims[0])) ||
      (locations->rank == 6 && differ(grad->dims[1], locations->dims[1])) ||
      (known && differ(grad->dims[2], value->dims[2] * value->dims[3])))
    return "the gradient does not have the result's shape";
  return NULL;
}

static rlx_status infer_grad(rlx_infer *ctx) {
  const rlx_type *value = rlx_infer_input(ctx, VALUE), *locations = rlx_infer_input(ctx, LOCATIONS);
  const char *bad = fault(value, locations, rlx_infer_input(ctx, WEIGHTS));
  if (!bad) bad = grad_fault(value, locations, rlx_infer_input(ctx, GRAD));
  if (bad) return rlx_fail(ctx, RLX_INVALID, "%s", bad);
  rlx_infer_like(ctx, 0, VALUE);
  if (rlx_infer_output_count(ctx) > 1) rlx_infer_like(ctx, 1, LOCATIONS);
  if (rlx_infer_output_count(ctx) > 2) rlx_infer_like(ctx, 2, WEIGHTS);
  return RLX_OK;
}

static rlx_type type_of(const rlx_operand *o) {
  rlx_type t = {.dtype = o->dtype, .rank = o->rank};
  memcpy(t.dims, o->dims, (size_t)o->rank * sizeof *o->dims);
  return t;
}

const char *sample_resolve(const rlx_operand *const operands[], const rlx_operand *grad, sample_shape *s) {
  rlx_type value = type_of(operands[VALUE]), locations = type_of(operands[LOCATIONS]);
  rlx_type weights = type_of(operands[WEIGHTS]), result = {.rank = RLX_UNKNOWN};
  const rlx_operand *shapes = operands[SHAPES];
  if (grad) result = type_of(grad);
  const char *bad = fault(&value, &locations, &weights);
  if (!bad) bad = grad_fault(&value, &locations, &result);
  if (!bad && shapes->count != 2 * locations.dims[3])
    bad = rlx_reason("shapes has %lld numbers for %lld levels", (long long)shapes->count, (long long)locations.dims[3]);
  if (!bad) bad = deform_levels_from(shapes->data, locations.dims[3], &s->levels);
  if (!bad && s->levels.total != value.dims[1])
    bad =
        rlx_reason("the levels have %lld places, value has %lld", (long long)s->levels.total, (long long)value.dims[1]);
  if (bad) return bad;
  s->batch = value.dims[0], s->rows = value.dims[1], s->heads = value.dims[2], s->width = value.dims[3];
  s->queries = locations.dims[1], s->points = locations.dims[4];
  return NULL;
}

static rlx_status resolve(const rlx_ctx *ctx, sample_shape *s) {
  const rlx_operand *operands[] = {&ctx->inputs[VALUE], &ctx->inputs[SHAPES], &ctx->inputs[LOCATIONS],
                                   &ctx->inputs[WEIGHTS]};
  const char *bad = sample_resolve(operands, ctx->input_count > GRAD ? &ctx->inputs[GRAD] : NULL, s);
  return bad ? rlx_fail(ctx, RLX_INVALID, "%s", bad) : RLX_OK;
}

/* ---- in double -------------------------------------------------------------------------------------------------- */

typedef struct reals {
  double *value, *locations, *weights, *grad;
} reals;

static bool reals_load(const rlx_ctx *ctx, bool grad, reals *r) {
  r->value = deform_load(&ctx->inputs[VALUE]);
  r->locations = deform_load(&ctx->inputs[LOCATIONS]);
  r->weights = deform_load(&ctx->inputs[WEIGHTS]);
  r->grad = grad ? deform_load(&ctx->inputs[GRAD]) : NULL;
  return r->value && r->locations && r->weights && (r->grad || !grad);
}

static void reals_free(reals *r) {
  free(r->value);
  free(r->locations);
  free(r->weights);
  free(r->grad);
}

/* Of head i, counted through batches and queries. */
static deform_head_f64 head_of(const sample_shape *s, const reals *r, int64_t i) {
  int64_t b = i / (s->queries * s->heads), samples = s->levels.count * s->points;
  return (deform_head_f64){.value = r->value + (b * s->rows * s->heads + i % s->heads) * s->width,
                           .places = r->locations + i * samples * 2,
                           .weights = r->weights + i * samples,
                           .stride = s->heads * s->width,
                           .width = s->width,
                           .points = s->points};
}

static rlx_status eval(rlx_ctx *ctx) {
  sample_shape s = {0};
  rlx_status status = resolve(ctx, &s);
  if (status != RLX_OK || ctx->outputs[0].count == 0) return status;
  reals r;
  double *out = calloc((size_t)ctx->outputs[0].count, sizeof *out);
  if (reals_load(ctx, false, &r) && out) {
    for (int64_t i = 0; i < s.batch * s.queries * s.heads; i++) {
      deform_head_f64 h = head_of(&s, &r, i);
      deform_sample_f64(&s.levels, &h, out + i * s.width);
    }
    deform_store(&ctx->outputs[0], out);
  } else {
    status = rlx_fail(ctx, RLX_OUT_OF_MEMORY, "no memory for operands in double");
  }
  free(out);
  reals_free(&r);
  return status;
}

/* ---- derivative, in double or float ----------------------------------------------------------------------------- */

#define REAL double
#define NAME(name) name##_f64
#include "sample_grad.h"
#undef REAL
#undef NAME
#define REAL float
#define NAME(name) name##_f32
#include "sample_grad.h"

static rlx_status eval_grad(rlx_ctx *ctx) {
  sample_shape s = {0};
  rlx_status status = resolve(ctx, &s);
  if (status != RLX_OK) return status;
  reals r;
  double *made[3] = {NULL};
  bool room = reals_load(ctx, true, &r);
  for (int i = 0; i < 3; i++) {
    made[i] = calloc((size_t)ctx->inputs[i ? i + 1 : 0].count + 1, sizeof *made[i]);
    room = room && made[i];
  }
  if (room) {
    const grad_f64 g = {&s, r.value, r.locations, r.weights, r.grad, made[0], made[1], made[2]};
    for (int64_t i = 0; i < s.batch * s.heads; i++) grad_head_f64(&g, i);
    for (int i = 0; i < ctx->output_count && i < 3; i++) {
      if (ctx->outputs[i].data) deform_store(&ctx->outputs[i], made[i]);
    }
  } else {
    status = rlx_fail(ctx, RLX_OUT_OF_MEMORY, "no memory for operands in double");
  }
  for (int i = 0; i < 3; i++) free(made[i]);
  reals_free(&r);
  return status;
}

static rlx_status vjp(rlx_graph *g, const rlx_node *n, rlx_value *const *output_grads, rlx_value **input_grads) {
  if (!output_grads[0]) return RLX_OK;
  rlx_value *in[] = {rlx_node_input(n, VALUE), rlx_node_input(n, SHAPES), rlx_node_input(n, LOCATIONS),
                     rlx_node_input(n, WEIGHTS), output_grads[0]};
  const rlx_node_desc desc = {.struct_size = sizeof desc,
                              .op = "vision.ms_deform_sample_grad",
                              .inputs = in,
                              .input_count = 5,
                              .output_count = 3};
  rlx_node *made = rlx_graph_node(g, &desc);
  if (!made) return rlx_graph_status(g);
  input_grads[VALUE] = rlx_node_output(made, 0);
  input_grads[LOCATIONS] = rlx_node_output(made, 1);
  input_grads[WEIGHTS] = rlx_node_output(made, 2);
  return rlx_graph_status(g);
}

/* ---- kernels ---------------------------------------------------------------------------------------------------- */

static const char *float_only(const rlx_node *n) {
  return rlx_node_input_type(n, VALUE)->dtype == RLX_FLOAT ? NULL : "elements are not float";
}

typedef struct sample_run {
  rlx_ctx *ctx;
  const sample_shape *s;
  const deform_isa *isa;
} sample_run;

static int64_t sample_workspace(rlx_bound *b, const void *state) {
  (void)state;
  return rlx_bound_input(b, VALUE)->dims[3] * (int64_t)sizeof(float);
}

static void run_queries(void *arg, int64_t begin, int64_t end) {
  const sample_run *r = arg;
  const sample_shape *s = r->s;
  int64_t samples = s->levels.count * s->points;
  for (int64_t i = begin * s->heads; i < end * s->heads; i++) {
    int64_t b = i / (s->queries * s->heads);
    const deform_head h = {.value = (const float *)r->ctx->inputs[VALUE].data +
                                    (b * s->rows * s->heads + i % s->heads) * s->width,
                           .places = (const float *)r->ctx->inputs[LOCATIONS].data + i * samples * 2,
                           .weights = (const float *)r->ctx->inputs[WEIGHTS].data + i * samples,
                           .zeros = r->ctx->workspace,
                           .stride = s->heads * s->width,
                           .width = s->width,
                           .points = s->points};
    r->isa->sample(&s->levels, &h, (float *)r->ctx->outputs[0].data + i * s->width);
  }
}

static rlx_status run(rlx_ctx *ctx) {
  sample_shape s = {0};
  rlx_status status = resolve(ctx, &s);
  if (status != RLX_OK || ctx->outputs[0].count == 0) return status;
  sample_run r = {ctx, &s, deform_isa_best()};
  memset(ctx->workspace, 0, (size_t)s.width * sizeof(float));
  rlx_parallel_for(ctx, s.batch * s.queries, 8, run_queries, &r);
  return RLX_OK;
}

static void run_grad_heads(void *arg, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; i++) grad_head_f32(arg, i);
}

static const char *grad_why_not(const rlx_node *n) {
  for (int i = 0; i < 3; i++) {
    if (i >= rlx_node_output_count(n) || !rlx_node_output(n, i)) return "not all three gradients are wanted";
  }
  return float_only(n);
}

static rlx_status run_grad(rlx_ctx *ctx) {
  sample_shape s = {0};
  rlx_status status = resolve(ctx, &s);
  if (status != RLX_OK) return status;
  for (int i = 0; i < 3; i++) {
    if (!ctx->outputs[i].data) return ctx->outputs[i].count == 0 ? RLX_OK : eval_grad(ctx);
    memset(ctx->outputs[i].data, 0, (size_t)ctx->outputs[i].bytes);
  }
  grad_f32 g = {&s,
                ctx->inputs[VALUE].data,
                ctx->inputs[LOCATIONS].data,
                ctx->inputs[WEIGHTS].data,
                ctx->inputs[GRAD].data,
                ctx->outputs[0].data,
                ctx->outputs[1].data,
                ctx->outputs[2].data};
  rlx_parallel_for(ctx, s.batch * s.heads, 1, run_grad_heads, &g);
  return RLX_OK;
}

const rlx_cpu_kernel vision_sample_kernel = {
    .struct_size = sizeof(rlx_cpu_kernel),
    .head = {.op = "vision.ms_deform_sample", .name = "vectors", .why_not = float_only, .workspace = sample_workspace},
    .run = run,
};
const rlx_cpu_kernel vision_sample_grad_kernel = {
    .struct_size = sizeof(rlx_cpu_kernel),
    .head = {.op = "vision.ms_deform_sample_grad", .name = "heads", .why_not = grad_why_not},
    .run = run_grad,
};

/* ---- records ---------------------------------------------------------------------------------------------------- */

#define REALS (RLX_SET(RLX_FLOAT) | RLX_SET(RLX_DOUBLE) | RLX_SET(RLX_FLOAT16))
#define SAMPLE_PORTS                                                                                                   \
  {"value", "T", REALS, 0, 0}, {"shapes", NULL, RLX_SET(RLX_INT64), RLX_HOST, 0}, {"locations", "T", REALS, 0, 0},     \
      {"weights", "T", REALS, 0, 0}

const rlx_op vision_ms_deform_sample = {
    .struct_size = sizeof(rlx_op),
    .name = "vision.ms_deform_sample",
    .doc =
        "The sampling of multi-scale deformable attention: value [batch, places, heads, width] holds feature maps of "
        "the sizes in shapes [levels, (height, width)], one after the other; locations [batch, queries, heads, levels, "
        "points, (x, y)] are parts of a map, taken bilinearly at location * size - 0.5 with zeros outside, and summed "
        "with weights [batch, queries, heads, levels, points] to [batch, queries, heads * width].",
    .samples =
        (const char *const[]){"float[2,10,2,3], int64[2,2] = {2, 3, 4, 1}, float[2,4,2,2,3,2], float[2,4,2,2,3]",
                              "double[1,4,1,2], int64[1,2] = {2, 2}, double[1,0,1,1,2,2], double[1,0,1,1,2]", NULL},
    .inputs = (const rlx_port[]){SAMPLE_PORTS, {0}},
    .outputs = (const rlx_port[]){{"sampled", "T", REALS, 0, 0}, {0}},
    .traits = RLX_PURE,
    .infer = infer,
    .vjp = vjp,
    .eval = eval,
};
const rlx_op vision_ms_deform_sample_grad = {
    .struct_size = sizeof(rlx_op),
    .name = "vision.ms_deform_sample_grad",
    .doc = "The gradients of value, locations and weights of vision.ms_deform_sample, from that of its result.",
    .samples = (const char *const[]){"float[2,10,2,3], int64[2,2] = {2, 3, 4, 1}, float[2,4,2,2,3,2], "
                                     "float[2,4,2,2,3], float[2,4,6] => 3",
                                     "double[1,4,1,2], int64[1,2] = {2, 2}, double[1,3,1,1,2,2], double[1,3,1,1,2], "
                                     "double[1,3,2]",
                                     NULL},
    .inputs = (const rlx_port[]){SAMPLE_PORTS, {"grad", "T", REALS, 0, 0}, {0}},
    .outputs = (const rlx_port[]){{"value_grad", "T", REALS, 0, 0},
                                  {"locations_grad", "T", REALS, RLX_OPTIONAL, 0},
                                  {"weights_grad", "T", REALS, RLX_OPTIONAL, 0},
                                  {0}},
    .traits = RLX_PURE,
    .infer = infer_grad,
    .eval = eval_grad,
};
