/* random.c — RandomUniform, RandomNormal, their Like forms, Bernoulli and Multinomial. The same seed gives the
 * same numbers in every run; without a seed every run has others. */
#include "ops/_random.h"

#include <stddef.h>

#include "ir/module.h"
#include "ops/_move.h"
#include "ops/_number.h"

#define RANDOM_ANY (MOVE_WHOLE & ~RLX_SET(RLX_STRING))

/* low and high of the uniform ops, mean and scale of the normal ones. */
typedef struct random_params {
  uint64_t given;
  rlx_ints shape;
  int64_t dtype;
  float seed;
  float first, second;
} random_params;

enum { RANDOM_DTYPE = 1u, RANDOM_SEED = 2u };

#define RANDOM_COMMON(its_dtype, name1, default1, name2, default2)                                                     \
  {.name = "dtype", .kind = RLX_ATTR_INT, .offset = offsetof(random_params, dtype), .default_int = its_dtype},         \
      {.name = "seed", .kind = RLX_ATTR_FLOAT, .offset = offsetof(random_params, seed)},                               \
      {.name = name1, .kind = RLX_ATTR_FLOAT, .offset = offsetof(random_params, first), .default_float = default1}, {  \
    .name = name2, .kind = RLX_ATTR_FLOAT, .offset = offsetof(random_params, second), .default_float = default2        \
  }
#define RANDOM_SHAPE                                                                                                   \
  { .name = "shape", .kind = RLX_ATTR_INTS, .flags = RLX_REQUIRED, .offset = offsetof(random_params, shape) }

static const rlx_attr_def uniform_attrs[] = {RANDOM_COMMON(RLX_FLOAT, "low", 0, "high", 1), RANDOM_SHAPE, {0}};
static const rlx_attr_def normal_attrs[] = {RANDOM_COMMON(RLX_FLOAT, "mean", 0, "scale", 1), RANDOM_SHAPE, {0}};
static const rlx_attr_def uniform_like_attrs[] = {RANDOM_COMMON(0, "low", 0, "high", 1), {0}};
static const rlx_attr_def normal_like_attrs[] = {RANDOM_COMMON(0, "mean", 0, "scale", 1), {0}};
static const rlx_port random_outputs[] = {{.name = "output", .dtypes = RLX_SET_FLOATS}, {0}};
static const rlx_port like_inputs[] = {{.name = "input", .dtypes = MOVE_WHOLE}, {0}};

/* The dtype asked for, of those allowed. */
static rlx_status set_dtype(rlx_infer *ctx, int64_t dtype, uint64_t allowed) {
  if (dtype <= 0 || dtype >= RLX_DTYPE_COUNT || !(allowed >> dtype & 1u))
    return rlx_fail(ctx, RLX_INVALID, "dtype is %s (%lld)",
                    rlx_dtype_name(dtype > 0 && dtype < RLX_DTYPE_COUNT ? (rlx_dtype)dtype : RLX_UNDEFINED),
                    (long long)dtype);
  rlx_infer_output(ctx, 0)->dtype = (rlx_dtype)dtype;
  return RLX_OK;
}

static rlx_status random_infer(rlx_infer *ctx) {
  const random_params *p = rlx_infer_params(ctx);
  if (p->shape.count > RLX_MAX_RANK)
    return rlx_fail(ctx, RLX_UNSUPPORTED, "rank %lld is over %d", (long long)p->shape.count, RLX_MAX_RANK);
  for (int64_t d = 0; d < p->shape.count; d++)
    if (p->shape.data[d] < 0)
      return rlx_fail(ctx, RLX_INVALID, "shape has the extent %lld", (long long)p->shape.data[d]);
  rlx_infer_set(ctx, 0, (int)p->shape.count, p->shape.data);
  return set_dtype(ctx, p->dtype, RLX_SET_FLOATS);
}

static rlx_status random_like_infer(rlx_infer *ctx) {
  const random_params *p = rlx_infer_params(ctx);
  rlx_infer_like(ctx, 0, 0);
  int64_t dtype = p->given & RANDOM_DTYPE ? p->dtype : (int64_t)rlx_infer_input(ctx, 0)->dtype;
  return set_dtype(ctx, dtype, RLX_SET_FLOATS);
}

typedef struct random_job {
  const rlx_operand *x, *y;
  uint64_t seed;
  double first, second;
} random_job;

static void uniform_range(void *arg, int64_t begin, int64_t end) {
  const random_job *job = arg;
  for (int64_t i = begin; i < end; i++)
    number_store(job->y->dtype, job->y->data, i,
                 job->first + (job->second - job->first) * random_uniform(job->seed, (uint64_t)i));
}

static void normal_range(void *arg, int64_t begin, int64_t end) {
  const random_job *job = arg;
  for (int64_t i = begin; i < end; i++)
    number_store(job->y->dtype, job->y->data, i, job->first + job->second * random_normal(job->seed, (uint64_t)i));
}

static rlx_status random_run(rlx_ctx *ctx, void (*body)(void *arg, int64_t begin, int64_t end)) {
  const random_params *p = ctx->params;
  random_job job = {.y = &ctx->outputs[0], .seed = random_seed(ctx, p->given & RANDOM_SEED, p->seed)};
  job.first = (double)p->first;
  job.second = (double)p->second;
  rlx_parallel_for(ctx, job.y->count, 4096, body, &job);
  return RLX_OK;
}

static rlx_status uniform_eval(rlx_ctx *ctx) { return random_run(ctx, uniform_range); }

static rlx_status normal_eval(rlx_ctx *ctx) { return random_run(ctx, normal_range); }

#define RANDOM_OP(id, op_name, text, its_inputs, its_attrs, its_infer, its_eval, row)                                  \
  static const rlx_op id = {                                                                                           \
      .struct_size = sizeof(rlx_op),                                                                                   \
      .name = op_name,                                                                                                 \
      .version = 1,                                                                                                    \
      .doc = text,                                                                                                     \
      .samples = (const char *const[]){row, NULL},                                                                     \
      .inputs = its_inputs,                                                                                            \
      .outputs = random_outputs,                                                                                       \
      .attrs = its_attrs,                                                                                              \
      .params_size = sizeof(random_params),                                                                            \
      .traits = RLX_RANDOM | RLX_STOP_GRADIENT, .no_derivative = "a random draw",                                                                                            \
      .infer = its_infer,                                                                                              \
      .eval = its_eval,                                                                                                \
  }
RANDOM_OP(random_uniform_op, "onnx.RandomUniform", "Numbers uniform in [low, high).", NULL, uniform_attrs, random_infer,
          uniform_eval, "{shape = [2, 3], seed = 1.0}");
RANDOM_OP(random_normal_op, "onnx.RandomNormal", "Normal numbers of the given mean and deviation (scale).", NULL,
          normal_attrs, random_infer, normal_eval, "{shape = [2, 3], dtype = 11}");
RANDOM_OP(random_uniform_like, "onnx.RandomUniformLike", "RandomUniform with the input's dims.", like_inputs,
          uniform_like_attrs, random_like_infer, uniform_eval, "float[2,3]");
RANDOM_OP(random_normal_like, "onnx.RandomNormalLike", "RandomNormal with the input's dims.", like_inputs,
          normal_like_attrs, random_like_infer, normal_eval, "double[4] {seed = 2.0}");

/* ---- Bernoulli ---------------------------------------------------------------------------- */

typedef struct bernoulli_params {
  uint64_t given;
  int64_t dtype;
  float seed;
} bernoulli_params;

static const rlx_attr_def bernoulli_attrs[] = {
    {.name = "dtype", .kind = RLX_ATTR_INT, .offset = offsetof(bernoulli_params, dtype)},
    {.name = "seed", .kind = RLX_ATTR_FLOAT, .offset = offsetof(bernoulli_params, seed)},
    {0}};
static const rlx_port bernoulli_inputs[] = {{.name = "input", .dtypes = RLX_SET_FLOATS}, {0}};
static const rlx_port bernoulli_outputs[] = {{.name = "output", .dtypes = RLX_SET_NUMBERS | RLX_SET(RLX_BOOL)}, {0}};

static rlx_status bernoulli_infer(rlx_infer *ctx) {
  const bernoulli_params *p = rlx_infer_params(ctx);
  rlx_infer_like(ctx, 0, 0);
  int64_t dtype = p->given & RANDOM_DTYPE ? p->dtype : (int64_t)rlx_infer_input(ctx, 0)->dtype;
  return set_dtype(ctx, dtype, RLX_SET_NUMBERS | RLX_SET(RLX_BOOL));
}

static void bernoulli_range(void *arg, int64_t begin, int64_t end) {
  const random_job *job = arg;
  for (int64_t i = begin; i < end; i++) {
    bool hit = random_uniform(job->seed, (uint64_t)i) < number_load(job->x->dtype, job->x->data, i);
    number_store(job->y->dtype, job->y->data, i, hit);
  }
}

static rlx_status bernoulli_eval(rlx_ctx *ctx) {
  const bernoulli_params *p = ctx->params;
  random_job job = {.x = &ctx->inputs[0], .y = &ctx->outputs[0]};
  job.seed = random_seed(ctx, p->given & RANDOM_SEED, p->seed);
  rlx_parallel_for(ctx, job.y->count, 4096, bernoulli_range, &job);
  return RLX_OK;
}

static const rlx_op bernoulli = {
    .struct_size = sizeof(rlx_op),
    .name = "onnx.Bernoulli",
    .no_derivative = "a random draw",
    .version = 15,
    .samples = (const char *const[]){"float[2,3] {seed = 3.0}", "double[4] {dtype = 7}", NULL},
    .doc = "One with the probability that the input's element says, else zero.",
    .inputs = bernoulli_inputs,
    .outputs = bernoulli_outputs,
    .attrs = bernoulli_attrs,
    .params_size = sizeof(bernoulli_params),
    .traits = RLX_RANDOM | RLX_STOP_GRADIENT,
    .infer = bernoulli_infer,
    .eval = bernoulli_eval,
};

/* ---- Multinomial -------------------------------------------------------------------------- */

typedef struct multinomial_params {
  uint64_t given;
  int64_t dtype;
  float seed;
  int64_t sample_size;
} multinomial_params;

static const rlx_attr_def multinomial_attrs[] = {
    {.name = "dtype", .kind = RLX_ATTR_INT, .offset = offsetof(multinomial_params, dtype), .default_int = RLX_INT32},
    {.name = "seed", .kind = RLX_ATTR_FLOAT, .offset = offsetof(multinomial_params, seed)},
    {.name = "sample_size",
     .kind = RLX_ATTR_INT,
     .flags = RLX_RANGED,
     .offset = offsetof(multinomial_params, sample_size),
     .default_int = 1,
     .min = 0,
     .max = 1e15},
    {0}};
static const rlx_port multinomial_outputs[] = {{.name = "output", .dtypes = RLX_SET_INDEX}, {0}};

static rlx_status multinomial_infer(rlx_infer *ctx) {
  const multinomial_params *p = rlx_infer_params(ctx);
  const rlx_type *x = rlx_infer_input(ctx, 0);
  if (x->rank >= 0 && x->rank != 2) return rlx_fail(ctx, RLX_INVALID, "input has rank %d, not 2", x->rank);
  int64_t dims[2] = {x->rank < 0 ? RLX_UNKNOWN : x->dims[0], p->sample_size};
  rlx_infer_set(ctx, 0, 2, dims);
  return set_dtype(ctx, p->dtype, RLX_SET_INDEX);
}

/* The class at which the running sum of probabilities passes u. */
static int64_t pick_class(const rlx_operand *x, int64_t row, double highest, double target) {
  int64_t classes = x->dims[1], last = 0;
  double sum = 0;
  for (int64_t c = 0; c < classes; c++) {
    double weight = exp(number_load(x->dtype, x->data, row * classes + c) - highest);
    if (!(weight > 0)) continue;
    last = c;
    sum += weight;
    if (sum > target) return c;
  }
  return last;
}

static rlx_status multinomial_eval(rlx_ctx *ctx) {
  const multinomial_params *p = ctx->params;
  const rlx_operand *x = &ctx->inputs[0], *y = &ctx->outputs[0];
  int64_t classes = x->dims[1];
  uint64_t seed = random_seed(ctx, p->given & RANDOM_SEED, p->seed);
  if (y->count && classes == 0) return rlx_fail(ctx, RLX_INVALID, "there are no classes to draw from");
  for (int64_t b = 0; b < x->dims[0]; b++) {
    double highest = -INFINITY, total = 0;
    for (int64_t c = 0; c < classes; c++) {
      double v = number_load(x->dtype, x->data, b * classes + c);
      if (v > highest) highest = v;
    }
    for (int64_t c = 0; c < classes; c++) {
      double weight = exp(number_load(x->dtype, x->data, b * classes + c) - highest);
      if (weight > 0) total += weight;
    }
    for (int64_t s = 0; s < p->sample_size; s++) {
      int64_t i = b * p->sample_size + s;
      number_store_int(y->dtype, y->data, i, pick_class(x, b, highest, total * random_uniform(seed, (uint64_t)i)));
    }
  }
  return RLX_OK;
}

static const rlx_op multinomial = {
    .struct_size = sizeof(rlx_op),
    .name = "onnx.Multinomial",
    .version = 7,
    .samples = (const char *const[]){"float[2,4] {sample_size = 5, seed = 2.0}", "double[3,2] {dtype = 7}", NULL},
    .doc = "Classes drawn with probabilities proportional to the exponential of the input's rows.",
    .inputs = bernoulli_inputs,
    .outputs = multinomial_outputs,
    .attrs = multinomial_attrs,
    .params_size = sizeof(multinomial_params),
    .traits = RLX_RANDOM,
    .infer = multinomial_infer,
    .eval = multinomial_eval,
};

static const rlx_op *const ops[] = {
    &random_uniform_op, &random_normal_op, &random_uniform_like, &random_normal_like, &bernoulli, &multinomial, NULL};
const rlx_module ops_random = {.ops = ops};
