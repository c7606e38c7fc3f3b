/* optimizers.c — one step of Momentum, Adagrad and Adam: ai.onnx.preview.training. */
#include <math.h>
#include <string.h>

#include "base/status.h"
#include "ir/module.h"
#include "ops/_derivative.h"
#include "ops/_number.h"

typedef struct optimizer_params {
  uint64_t given;
  float alpha, beta, epsilon, decay, norm, norm_post;
  rlx_string mode;
} optimizer_params;

/* Inputs are R, T and then, for n tensors, all X, all G, and all of each state; outputs all X and all states. */
enum { MOST_STATES = 2 };
typedef enum rule { MOMENTUM, NESTEROV, ADAGRAD, ADAM } rule;

static int states_of(rule kind) { return kind == ADAM ? 2 : 1; }

/* Tensors that are optimised; 0 and a failure recorded if the counts do not fit. */
static int tensor_count(const void *ctx, rule kind, int inputs, int outputs) {
  int states = states_of(kind), n = (inputs - 2) / (states + 2);
  if (n > 0 && inputs == 2 + n * (states + 2) && outputs == n * (states + 1)) return n;
  (void)rlx_fail(ctx, RLX_INVALID, "%d inputs and %d outputs; should be 2 + %d n and %d n", inputs, outputs, states + 2,
                 states + 1);
  return 0;
}

/* The input that output o replaces: X, then the states (after the gradients). */
static int replaced(int o, int n) { return 2 + (o < n ? o : o + n); }

static rlx_status infer_rule(rlx_infer *ctx, rule kind) {
  int outputs = rlx_infer_output_count(ctx), n = tensor_count(ctx, kind, rlx_infer_input_count(ctx), outputs);
  if (n == 0) return RLX_INVALID;
  for (int o = 0; o < outputs; o++) rlx_infer_like(ctx, o, replaced(o, n));
  return RLX_OK;
}

/* What a step needs besides the tensors. */
typedef struct step {
  rule kind;
  double rate, alpha, beta, epsilon, norm, keep;
} step;

/* New x and states from the old ones and the gradient. */
static inline void update(const step *s, double *x, double g, double *state) {
  g += s->norm * *x;
  switch (s->kind) {
    case MOMENTUM:
    case NESTEROV:
      state[0] = s->alpha * state[0] + s->beta * g;
      *x -= s->rate * (s->kind == NESTEROV ? g + s->alpha * state[0] : state[0]);
      break;
    case ADAGRAD:
      state[0] += g * g;
      *x -= s->rate * g / (sqrt(state[0]) + s->epsilon);
      break;
    case ADAM:
      state[0] = s->alpha * state[0] + (1 - s->alpha) * g;
      state[1] = s->beta * state[1] + (1 - s->beta) * g * g;
      *x = (*x - s->rate * state[0] / (sqrt(state[1]) + s->epsilon)) * s->keep;
      break;
  }
}

static step make_step(const rlx_ctx *ctx, rule kind) {
  const optimizer_params *p = ctx->params;
  double rate = number_load(ctx->inputs[0].dtype, ctx->inputs[0].data, 0);
  double t = (double)((const int64_t *)ctx->inputs[1].data)[0];
  step s = {.kind = kind,
            .rate = rate,
            .alpha = (double)p->alpha,
            .beta = (double)p->beta,
            .epsilon = (double)p->epsilon,
            .norm = (double)p->norm,
            .keep = 1 - (double)p->norm_post};
  if (kind <= NESTEROV && t <= 0) s.beta = 1;
  if (kind == ADAGRAD) s.rate = rate / (1 + t * (double)p->decay);
  if (kind == ADAM && t > 0) s.rate = rate * sqrt(1 - pow(s.beta, t)) / (1 - pow(s.alpha, t));
  return s;
}

/* Tensor i of n. */
NUMBER_INLINE rlx_status run_tensor(rlx_dtype t, rlx_ctx *ctx, const step *s, int i, int n) {
  int states = states_of(s->kind);
  const void *x = ctx->inputs[2 + i].data, *g = ctx->inputs[2 + n + i].data;
  for (int64_t e = 0; e < ctx->outputs[i].count; e++) {
    double value = number_load(t, x, e), state[MOST_STATES] = {0, 0};
    for (int k = 0; k < states; k++) state[k] = number_load(t, ctx->inputs[2 + (2 + k) * n + i].data, e);
    update(s, &value, number_load(t, g, e), state);
    number_store(t, ctx->outputs[i].data, e, value);
    for (int k = 0; k < states; k++) number_store(t, ctx->outputs[(1 + k) * n + i].data, e, state[k]);
  }
  return RLX_OK;
}

static rlx_status run_any(rlx_ctx *ctx, const step *s, int i, int n) {
  int last = 2 + (1 + states_of(s->kind)) * n + i;
  for (int k = 2 + i; k <= last; k += n) {
    if (ctx->inputs[k].dtype == ctx->inputs[2 + i].dtype && ctx->inputs[k].count == ctx->inputs[2 + i].count) continue;
    return rlx_fail(ctx, RLX_INVALID, "input %d has another type or size than input %d", k, 2 + i);
  }
  DISPATCH_FLOATS(ctx->inputs[2 + i].dtype, run_tensor, ctx, s, i, n)
}

static rlx_status eval_rule(rlx_ctx *ctx, rule kind) {
  int n = tensor_count(ctx, kind, ctx->input_count, ctx->output_count);
  if (n == 0) return RLX_INVALID;
  if (ctx->inputs[0].count < 1 || ctx->inputs[1].count < 1) return rlx_fail(ctx, RLX_INVALID, "R or T is empty");
  step s = make_step(ctx, kind);
  for (int i = 0; i < n; i++) RLX_TRY(run_any(ctx, &s, i, n));
  return RLX_OK;
}

/* Momentum's mode says which rule it is. */
static rlx_status momentum_rule(const void *ctx, const optimizer_params *p, rule *kind) {
  bool standard = p->mode.size == 8 && memcmp(p->mode.data, "standard", 8) == 0;
  bool nesterov = p->mode.size == 8 && memcmp(p->mode.data, "nesterov", 8) == 0;
  *kind = nesterov ? NESTEROV : MOMENTUM;
  if (standard || nesterov) return RLX_OK;
  return rlx_fail(ctx, RLX_INVALID, "mode \"%.*s\" is neither standard nor nesterov", (int)p->mode.size, p->mode.data);
}

static rlx_status infer_momentum(rlx_infer *ctx) {
  rule kind;
  RLX_TRY(momentum_rule(ctx, rlx_infer_params(ctx), &kind));
  return infer_rule(ctx, kind);
}
static rlx_status infer_adagrad(rlx_infer *ctx) { return infer_rule(ctx, ADAGRAD); }
static rlx_status infer_adam(rlx_infer *ctx) { return infer_rule(ctx, ADAM); }

static rlx_status eval_momentum(rlx_ctx *ctx) {
  rule kind;
  RLX_TRY(momentum_rule(ctx, ctx->params, &kind));
  return eval_rule(ctx, kind);
}
static rlx_status eval_adagrad(rlx_ctx *ctx) { return eval_rule(ctx, ADAGRAD); }
static rlx_status eval_adam(rlx_ctx *ctx) { return eval_rule(ctx, ADAM); }

/* ---- derivatives ---------------------------------------------------------------------------- */

/* The same arithmetic as update and make_step, for tensor i of n. */
static rlx_status derive_tensor(rlx_graph *g, const rlx_node *n, rule kind, int i, int count, rlx_value **outputs) {
  static const char *const bodies[] = {
      [MOMENTUM] = "b = Where (started, beta, one) p = Mul (s, alpha) q = Mul (h, b) s1 = Add (p, q) d = Mul (r, s1)"
                   " x1 = Sub (x, d)",
      [NESTEROV] =
          "b = Where (started, beta, one) p = Mul (s, alpha) q = Mul (h, b) s1 = Add (p, q) u = Mul (s1, alpha)"
          " v = Add (h, u) d = Mul (r, v) x1 = Sub (x, d)",
      [ADAGRAD] = "hh = Mul (h, h) s1 = Add (s, hh) td = Mul (tf, decay) den = Add (one, td) rate = Div (r, den)"
                  " root = Sqrt (s1) low = Add (root, epsilon) up = Mul (rate, h) d = Div (up, low) x1 = Sub (x, d)",
      [ADAM] = "p = Mul (s, alpha) q = Mul (h, alpha_rest) s1 = Add (p, q) hh = Mul (h, h) p2 = Mul (s2, beta)"
               " q2 = Mul (hh, beta_rest) s3 = Add (p2, q2) ba = Pow (alpha, tf) bb = Pow (beta, tf) ra = Sub (one, ba)"
               " rb = Sub (one, bb) rs = Sqrt (rb) k0 = Div (rs, ra) k1 = Mul (r, k0) rate = Where (started, k1, r)"
               " root = Sqrt (s3) low = Add (root, epsilon) up = Mul (rate, s1) d = Div (up, low) e = Sub (x, d)"
               " x1 = Mul (e, keep)"};
  const optimizer_params *p = rlx_node_params(n);
  int states = states_of(kind);
  rlx_value *in[6] = {rlx_node_input(n, 0), rlx_node_input(n, 1)}, *made[3];
  for (int k = 0; k < 2 + states; k++) in[2 + k] = rlx_node_input(n, 2 + k * count + i);
  const char *t = rlx_dtype_name(rlx_value_type(in[2])->dtype);
  RLX_TRY(derivative_text(
      g, in, made,
      "step (r0, t0, x, g, s%s) => (x1, s1%s) <int64 zero = {0}, %s one = {1}, %s alpha = {%.9g}, %s beta = {%.9g},"
      " %s alpha_rest = {%.17g}, %s beta_rest = {%.17g}, %s epsilon = {%.9g}, %s norm = {%.9g}, %s decay = {%.9g},"
      " %s keep = {%.17g}, int64[1] all = {-1}, int64 first = {0}> {"
      " rv = Reshape (r0, all) rg = Gather (rv, first) r = CastLike (rg, x)"
      " tv = Reshape (t0, all) tg = Gather (tv, first) tf = CastLike (tg, x) started = Greater (tg, zero)"
      " xn = Mul (x, norm) h = Add (g, xn) %s }",
      kind == ADAM ? ", s2" : "", kind == ADAM ? ", s3" : "", t, t, (double)p->alpha, t, (double)p->beta, t,
      1 - (double)p->alpha, t, 1 - (double)p->beta, t, (double)p->epsilon, t, (double)p->norm, t, (double)p->decay, t,
      1 - (double)p->norm_post, bodies[kind]));
  for (int k = 0; k <= states; k++) outputs[k * count + i] = made[k];
  return RLX_OK;
}

static rlx_status derive_rule(rlx_graph *g, const rlx_node *n, rule kind, rlx_value **outputs) {
  int inputs = rlx_node_input_count(n), each = states_of(kind) + 2, count = (inputs - 2) / each;
  if (inputs != 2 + count * each) return rlx_graph_fail(g, RLX_INVALID, "%d inputs", inputs);
  for (int i = 0; i < count; i++) RLX_TRY(derive_tensor(g, n, kind, i, count, outputs));
  return rlx_graph_status(g);
}

static rlx_status derive_momentum(rlx_graph *g, const rlx_node *n, rlx_value **outputs) {
  const optimizer_params *p = rlx_node_params(n);
  bool nesterov = p->mode.size == 8 && memcmp(p->mode.data, "nesterov", 8) == 0;
  return derive_rule(g, n, nesterov ? NESTEROV : MOMENTUM, outputs);
}
static rlx_status derive_adagrad(rlx_graph *g, const rlx_node *n, rlx_value **y) {
  return derive_rule(g, n, ADAGRAD, y);
}
static rlx_status derive_adam(rlx_graph *g, const rlx_node *n, rlx_value **y) { return derive_rule(g, n, ADAM, y); }

#define REALS (RLX_SET(RLX_FLOAT) | RLX_SET(RLX_DOUBLE))
#define FLOAT_ATTR(attr, member, ...)                                                                                  \
  { .name = attr, .kind = RLX_ATTR_FLOAT, .offset = offsetof(optimizer_params, member), __VA_ARGS__ }

static const rlx_port inputs[] = {
    {.name = "R", .dtypes = REALS},
    {.name = "T", .dtypes = RLX_SET(RLX_INT64)},
    {.name = "inputs", .dtypes = REALS, .flags = RLX_VARIADIC | RLX_HETEROGENEOUS, .min_count = 3},
    {0}};
static const rlx_port outputs[] = {
    {.name = "outputs", .dtypes = REALS, .flags = RLX_VARIADIC | RLX_HETEROGENEOUS, .min_count = 2}, {0}};
static const rlx_attr_def momentum_attrs[] = {
    FLOAT_ATTR("alpha", alpha, .flags = RLX_REQUIRED),
    FLOAT_ATTR("beta", beta, .flags = RLX_REQUIRED),
    FLOAT_ATTR("norm_coefficient", norm, .flags = RLX_REQUIRED),
    {.name = "mode", .kind = RLX_ATTR_STRING, .flags = RLX_REQUIRED, .offset = offsetof(optimizer_params, mode)},
    {0}};
static const rlx_attr_def adagrad_attrs[] = {FLOAT_ATTR("decay_factor", decay, 0),
                                             FLOAT_ATTR("epsilon", epsilon, .default_float = 1e-6f),
                                             FLOAT_ATTR("norm_coefficient", norm, 0),
                                             {0}};
static const rlx_attr_def adam_attrs[] = {
    FLOAT_ATTR("alpha", alpha, .default_float = 0.9f),      FLOAT_ATTR("beta", beta, .default_float = 0.999f),
    FLOAT_ATTR("epsilon", epsilon, .default_float = 1e-6f), FLOAT_ATTR("norm_coefficient", norm, 0),
    FLOAT_ATTR("norm_coefficient_post", norm_post, 0),      {0}};

#define RECORD(op_name, attributes, text, infer_function, eval_function, derive_function, row)                                       \
  {                                                                                                                    \
    .struct_size = sizeof(rlx_op), .name = "ai.onnx.preview.training." op_name, .version = 1, .doc = text,             \
    .samples = row,                                                                                                    \
    .inputs = inputs, .outputs = outputs, .attrs = attributes,         \
    .params_size = sizeof(optimizer_params), .traits = RLX_PURE, .infer = infer_function, .eval = eval_function, .derive = derive_function        \
  }
static const char *const one_state[] = {"float[], int64[] = {1}, float[3], float[3], float[3] {epsilon = 0.1} => 2",
                                        NULL};
static const char *const two_states[] = {
    "float[], int64[] = {1}, float[3], float[3], float[3], float[3] {epsilon = 0.1} => 3", NULL};
static const char *const momentum_rows[] = {"float[], int64[] = {1}, float[2,2], float[2,2], float[2,2] {alpha = 0.9, "
                                            "beta = 0.5, mode = \"standard\", norm_coefficient = 0.01} => 2",
                                            NULL};
static const rlx_op momentum =
    RECORD("Momentum", momentum_attrs, "A step of gradient descent with standard or Nesterov's momentum.",
           infer_momentum, eval_momentum, derive_momentum, momentum_rows);
static const rlx_op adagrad =
    RECORD("Adagrad", adagrad_attrs, "A step of Adagrad.", infer_adagrad, eval_adagrad, derive_adagrad, one_state);
static const rlx_op adam =
    RECORD("Adam", adam_attrs, "A step of Adam.", infer_adam, eval_adam, derive_adam, two_states);

static const rlx_op *const ops[] = {&momentum, &adagrad, &adam, NULL};
const rlx_module ops_optimizers = {.ops = ops};
