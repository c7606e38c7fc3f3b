/* dropout.c — Dropout: the identity, or (training) random zeros and the rest scaled up. */
#include <stddef.h>
#include <string.h>

#include "ir/module.h"
#include "ops/_move.h"
#include "ops/_number.h"
#include "ops/_random.h"

typedef struct dropout_params {
  uint64_t given;
  int64_t seed;
} dropout_params;

static const rlx_attr_def dropout_attrs[] = {
    {.name = "seed", .kind = RLX_ATTR_INT, .offset = offsetof(dropout_params, seed)}, {0}};
#define DROPOUT_TYPES                                                                                                  \
  (RLX_SET_FLOATS | RLX_SET(RLX_FLOAT8E4M3FN) | RLX_SET(RLX_FLOAT8E4M3FNUZ) | RLX_SET(RLX_FLOAT8E5M2) |                \
   RLX_SET(RLX_FLOAT8E5M2FNUZ))
static const rlx_port dropout_inputs[] = {
    {.name = "data", .variable = "T", .dtypes = DROPOUT_TYPES},
    {.name = "ratio", .variable = "T1", .dtypes = DROPOUT_TYPES, .flags = RLX_OPTIONAL},
    {.name = "training_mode", .dtypes = RLX_SET(RLX_BOOL), .flags = RLX_OPTIONAL},
    {0}};
static const rlx_port dropout_outputs[] = {{.name = "output", .variable = "T", .dtypes = DROPOUT_TYPES},
                                           {.name = "mask", .dtypes = RLX_SET(RLX_BOOL), .flags = RLX_OPTIONAL},
                                           {0}};

static rlx_status dropout_infer(rlx_infer *ctx) {
  rlx_infer_like(ctx, 0, 0);
  if (rlx_infer_output_count(ctx) > 1) {
    rlx_infer_like(ctx, 1, 0);
    rlx_infer_output(ctx, 1)->dtype = RLX_BOOL;
  }
  for (int i = 1; i < 3; i++) {
    int64_t n = infer_length(ctx, i);
    if (n >= 0 && n != 1) return rlx_fail(ctx, RLX_INVALID, "input %d has %lld elements", i, (long long)n);
  }
  return RLX_OK;
}

typedef struct dropout_job {
  const rlx_operand *x, *y;
  uint8_t *mask; /* or NULL */
  uint64_t seed;
  double ratio, scale;
} dropout_job;

static void drop_range(void *arg, int64_t begin, int64_t end) {
  const dropout_job *job = arg;
  for (int64_t i = begin; i < end; i++) {
    bool keep = random_uniform(job->seed, (uint64_t)i) >= job->ratio;
    if (job->mask) job->mask[i] = keep;
    if (!job->y->data) continue;
    double v = keep ? number_load(job->x->dtype, job->x->data, i) * job->scale : 0;
    number_store(job->y->dtype, job->y->data, i, v);
  }
}

static rlx_status dropout_eval(rlx_ctx *ctx) {
  const dropout_params *p = ctx->params;
  dropout_job job = {.x = &ctx->inputs[0], .y = &ctx->outputs[0], .ratio = 0.5};
  if (run_wanted(ctx, 1)) job.mask = ctx->outputs[1].data;
  if (run_given(ctx, 1)) {
    if (ctx->inputs[1].count != 1) return rlx_fail(ctx, RLX_INVALID, "ratio is not a scalar");
    job.ratio = dtype_load(ctx->inputs[1].dtype, ctx->inputs[1].data, 0);
  }
  if (!(job.ratio >= 0 && job.ratio < 1)) return rlx_fail(ctx, RLX_INVALID, "ratio is %g", job.ratio);
  bool training = run_given(ctx, 2) && ctx->inputs[2].count && *(const uint8_t *)ctx->inputs[2].data;
  if (!training || job.ratio == 0) {
    if (job.mask) memset(job.mask, 1, (size_t)job.x->count);
    return job.y->data ? move_all(ctx) : RLX_OK;
  }
  job.scale = 1 / (1 - job.ratio);
  job.seed = p->given ? random_mix((uint64_t)p->seed) : random_seed_fresh(ctx);
  rlx_parallel_for(ctx, job.x->count, 4096, drop_range, &job);
  return RLX_OK;
}

static bool surely_inference(const rlx_node *n) {
  if (!rlx_node_input(n, 2)) return true;
  const rlx_tensor *t = rlx_node_constant(n, 2);
  return t && rlx_tensor_count(t) == 1 && !*(const uint8_t *)rlx_tensor_data(t);
}

/* dy mask / (1 - ratio), or dy where nothing was dropped. */
static rlx_status dropout_vjp(rlx_graph *g, const rlx_node *n, rlx_value *const *output_grads,
                              rlx_value **input_grads) {
  rlx_value *dy = output_grads[0];
  if (!dy) return rlx_graph_status(g);
  if (surely_inference(n)) {
    input_grads[0] = dy;
    return rlx_graph_status(g);
  }
  rlx_value *mask = rlx_node_output_count(n) > 1 ? rlx_node_output(n, 1) : NULL;
  if (!mask) return rlx_graph_fail(g, RLX_UNSUPPORTED, "the gradient of Dropout in training needs its mask output");
  rlx_value *ratio = rlx_node_input(n, 1), *half = ratio ? NULL : graph_float(g, 0.5f);
  if (half)
    ratio = graph_op2(g, "onnx.CastLike", half, dy);
  else if (rlx_value_type(ratio)->dtype != rlx_value_type(dy)->dtype)
    ratio = graph_op2(g, "onnx.CastLike", ratio, dy);
  rlx_value *one = graph_op2(g, "onnx.CastLike", graph_float(g, 1), dy);
  rlx_value *none = graph_op2(g, "onnx.CastLike", graph_float(g, 0), dy);
  /* In inference the mask is all ones but nothing was scaled. */
  rlx_value *choice[3] = {rlx_node_input(n, 2), ratio, none};
  rlx_value *dropped = rlx_graph_op(g, "onnx.Where", NULL, 0, choice, 3);
  rlx_value *kept = graph_op2(g, "onnx.Mul", dy, graph_op2(g, "onnx.CastLike", mask, dy));
  input_grads[0] = graph_op2(g, "onnx.Div", kept, graph_op2(g, "onnx.Sub", one, dropped));
  return rlx_graph_status(g);
}

static const rlx_op dropout = {
    .struct_size = sizeof(rlx_op),
    .name = "onnx.Dropout",
    .version = 12,
    .samples = (const char *const[]){"float[2,3], , bool[] = {0} => 2", "float[3,4]", NULL},
    .doc = "The input itself; with training_mode, each element zero with probability ratio (0.5 by default) "
           "and else divided by 1 - ratio. mask says which were kept.",
    .inputs = dropout_inputs,
    .outputs = dropout_outputs,
    .attrs = dropout_attrs,
    .params_size = sizeof(dropout_params),
    .traits = RLX_RANDOM,
    .infer = dropout_infer,
    .vjp = dropout_vjp,
    .eval = dropout_eval,
};

/* ---- versions 1 to 10: ratio as an attribute ----------------------------------------------- */

typedef struct dropout1_params {
  uint64_t given;
  float ratio;
  int64_t is_test;
  rlx_ints consumed_inputs;
} dropout1_params;

/* Versions 1 and 6 drop unless is_test; 7 and 10 never do. */
static const rlx_attr_def dropout1_attrs[] = {
    {.name = "ratio", .kind = RLX_ATTR_FLOAT, .offset = offsetof(dropout1_params, ratio), .default_float = 0.5f},
    {.name = "is_test", .kind = RLX_ATTR_INT, .offset = offsetof(dropout1_params, is_test)},
    {.name = "consumed_inputs", .kind = RLX_ATTR_INTS, .offset = offsetof(dropout1_params, consumed_inputs)},
    {0}};
static const rlx_attr_def dropout7_attrs[] = {
    {.name = "ratio", .kind = RLX_ATTR_FLOAT, .offset = offsetof(dropout1_params, ratio), .default_float = 0.5f}, {0}};
static const rlx_port dropout1_inputs[] = {{.name = "data", .variable = "T", .dtypes = DROPOUT_TYPES}, {0}};
static const rlx_port dropout1_outputs[] = {
    {.name = "output", .variable = "T", .dtypes = DROPOUT_TYPES},
    {.name = "mask", .variable = "T", .dtypes = DROPOUT_TYPES, .flags = RLX_OPTIONAL},
    {0}};

static rlx_status dropout1_infer(rlx_infer *ctx) {
  for (int i = 0; i < rlx_infer_output_count(ctx); i++) rlx_infer_like(ctx, i, 0);
  return RLX_OK;
}

static rlx_status dropout_old(rlx_graph *g, const rlx_node *n, rlx_value **outputs, bool training, bool cast) {
  const dropout1_params *p = rlx_node_params(n);
  rlx_value *x = rlx_node_input(n, 0), *inputs[3] = {x, NULL, NULL};
  if (training) {
    rlx_tensor *yes = NULL;
    rlx_status status = rlx_tensor_create(RLX_BOOL, 0, NULL, &yes);
    if (status != RLX_OK) return rlx_graph_fail(g, status, "no memory for a constant");
    *(uint8_t *)rlx_tensor_data(yes) = 1;
    inputs[1] = graph_float(g, p->ratio);
    inputs[2] = rlx_graph_constant(g, NULL, yes);
    rlx_tensor_destroy(yes);
  }
  bool masked = rlx_node_output_count(n) > 1;
  const char *names[2] = {NULL, NULL};
  rlx_node_desc desc = {.struct_size = sizeof desc,
                        .op = "onnx.Dropout",
                        .inputs = inputs,
                        .input_count = training ? 3 : 1,
                        .output_count = masked ? 2 : 1,
                        .output_names = names};
  rlx_node *made = rlx_graph_node(g, &desc);
  if (!made) return rlx_graph_status(g);
  outputs[0] = rlx_node_output(made, 0);
  if (masked) {
    rlx_value *mask = rlx_node_output(made, 1);
    outputs[1] = cast ? graph_op2(g, "onnx.CastLike", mask, x) : mask;
  }
  return rlx_graph_status(g);
}

static rlx_status dropout1_lower(rlx_graph *g, const rlx_node *n, rlx_value **outputs) {
  const dropout1_params *p = rlx_node_params(n);
  return dropout_old(g, n, outputs, !p->is_test, true);
}

static rlx_status dropout7_lower(rlx_graph *g, const rlx_node *n, rlx_value **outputs) {
  return dropout_old(g, n, outputs, false, true);
}

static rlx_status dropout10_lower(rlx_graph *g, const rlx_node *n, rlx_value **outputs) {
  return dropout_old(g, n, outputs, false, false);
}

#define OLD_DROPOUT(id, since, its_outputs, its_attrs, its_infer, its_lower)                                           \
  static const rlx_op id = {                                                                                           \
      .struct_size = sizeof(rlx_op),                                                                                   \
      .name = "onnx.Dropout",                                                                                          \
      .version = since,                                                                                                \
      .doc = "Dropout with ratio as an attribute.",                                                                    \
      .samples = (const char *const[]){"float[2,3]", NULL},                                                            \
      .inputs = dropout1_inputs,                                                                                       \
      .outputs = its_outputs,                                                                                          \
      .attrs = its_attrs,                                                                                              \
      .params_size = sizeof(dropout1_params),                                                                          \
      .traits = RLX_RANDOM,                                                                                            \
      .infer = its_infer,                                                                                              \
      .lower = its_lower,                                                                                              \
  }
OLD_DROPOUT(dropout_1, 1, dropout1_outputs, dropout1_attrs, dropout1_infer, dropout1_lower);
OLD_DROPOUT(dropout_7, 7, dropout1_outputs, dropout7_attrs, dropout1_infer, dropout7_lower);
OLD_DROPOUT(dropout_10, 10, dropout_outputs, dropout7_attrs, dropout_infer, dropout10_lower);

static const rlx_op *const ops[] = {&dropout_1, &dropout_7, &dropout_10, &dropout, NULL};
const rlx_module ops_dropout = {.ops = ops};
