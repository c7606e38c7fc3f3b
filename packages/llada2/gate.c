/* gate.c — llada2.group_limited_gate: which experts a token goes to, chosen among the best groups of experts. */
#include <math.h>
#include <rlx/extend.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

typedef struct gate_params {
  uint64_t given;
  int64_t n_group, topk_group, top_k;
  float routed_scaling;
} gate_params;

enum { SCORES, ROUTING };

/* NULL, or what is wrong with the attributes for E experts (RLX_UNKNOWN: not known yet). */
static const char *fault(const gate_params *p, int64_t experts) {
  if (p->topk_group > p->n_group)
    return rlx_reason("topk_group %lld of %lld groups", (long long)p->topk_group, (long long)p->n_group);
  if (experts == RLX_UNKNOWN) return NULL;
  if (experts < p->n_group || experts % p->n_group != 0)
    return rlx_reason("%lld experts are not divided into %lld groups", (long long)experts, (long long)p->n_group);
  int64_t eligible = experts / p->n_group * p->topk_group;
  if (p->top_k > eligible)
    return rlx_reason("top_k %lld of the %lld experts of %lld groups", (long long)p->top_k, (long long)eligible,
                      (long long)p->topk_group);
  return NULL;
}

/* Tokens and experts agreed on by both inputs. */
static rlx_status infer_inputs(rlx_infer *ctx, int64_t dims[2]) {
  dims[0] = dims[1] = RLX_UNKNOWN;
  for (int i = SCORES; i <= ROUTING; i++) {
    const rlx_type *t = rlx_infer_input(ctx, i);
    if (t->rank == RLX_UNKNOWN) continue;
    if (t->rank != 2) return rlx_fail(ctx, RLX_INVALID, "scores of rank %d, not [tokens, experts]", t->rank);
    for (int d = 0; d < 2; d++) {
      if (t->dims[d] == RLX_UNKNOWN) continue;
      if (dims[d] != RLX_UNKNOWN && dims[d] != t->dims[d])
        return rlx_fail(ctx, RLX_INVALID, "scores and routing scores have %lld and %lld %s", (long long)dims[d],
                        (long long)t->dims[d], d ? "experts" : "tokens");
      dims[d] = t->dims[d];
    }
  }
  const char *bad = fault(rlx_infer_params(ctx), dims[1]);
  return bad ? rlx_fail(ctx, RLX_INVALID, "%s", bad) : RLX_OK;
}

static rlx_status infer(rlx_infer *ctx) {
  const gate_params *p = rlx_infer_params(ctx);
  int64_t dims[2];
  rlx_status status = infer_inputs(ctx, dims);
  if (status != RLX_OK) return status;
  dims[1] = p->top_k;
  rlx_infer_set(ctx, 0, 2, dims);
  if (rlx_infer_output_count(ctx) > 1) rlx_infer_set(ctx, 1, 2, dims);
  return RLX_OK;
}

static rlx_status infer_packed(rlx_infer *ctx) {
  const gate_params *p = rlx_infer_params(ctx);
  int64_t dims[2];
  rlx_status status = infer_inputs(ctx, dims);
  if (status != RLX_OK) return status;
  dims[1] = 2 * p->top_k;
  rlx_infer_set(ctx, 0, 2, dims);
  return RLX_OK;
}

/* ---- one token -------------------------------------------------------------------------------------------------- */

/* a before b in a descending order: NaN goes last, as in no comparison it is the greater. */
static bool above(float a, float b) { return a > b || (isnan(b) && !isnan(a)); }

/* The sum of the two best of n scores; of the only one, if n is 1. */
static float group_score(const float *x, int64_t n) {
  float best = x[0], second = -INFINITY;
  for (int64_t i = 1; i < n; i++) {
    if (above(x[i], best)) {
      second = best;
      best = x[i];
    } else if (above(x[i], second)) {
      second = x[i];
    }
  }
  return n > 1 ? best + second : best;
}

/* The k best of n values into `best`, descending, a tie to the lower index; those whose group is not `kept` are passed
 * over (kept NULL: none). By insertion: k is small. */
static void best_of(const float *x, int64_t n, int64_t k, const bool *kept, int64_t group, int64_t *best) {
  int64_t have = 0;
  for (int64_t i = 0; i < n; i++) {
    if (kept && !kept[i / group]) continue;
    int64_t at = have < k ? have++ : k;
    while (at > 0 && above(x[i], x[best[at - 1]])) {
      if (at < k) best[at] = best[at - 1];
      at--;
    }
    if (at < k) best[at] = i;
  }
}

/* Room for one token. */
typedef struct scratch {
  float *groups;
  int64_t *best;
  bool *kept;
} scratch;

static int64_t scratch_bytes(const gate_params *p) {
  int64_t longest = p->n_group > p->top_k ? p->n_group : p->top_k;
  return (longest * 8 + p->n_group * 5 + 63) / 64 * 64;
}

static scratch scratch_at(const gate_params *p, char *memory) {
  int64_t longest = p->n_group > p->top_k ? p->n_group : p->top_k;
  scratch s = {.best = (int64_t *)(void *)memory};
  s.groups = (float *)(void *)(memory + 8 * longest);
  s.kept = (bool *)(s.groups + p->n_group);
  return s;
}

/* Leaves the experts of a token in s->best and gives the factor of their scores. */
static float choose(const gate_params *p, const float *scores, const float *routing, int64_t experts, scratch *s) {
  int64_t size = experts / p->n_group;
  for (int64_t g = 0; g < p->n_group; g++) s->groups[g] = group_score(routing + g * size, size);
  best_of(s->groups, p->n_group, p->topk_group, NULL, 1, s->best);
  memset(s->kept, 0, (size_t)p->n_group);
  for (int64_t i = 0; i < p->topk_group; i++) s->kept[s->best[i]] = true;
  best_of(routing, experts, p->top_k, s->kept, size, s->best);
  if (p->top_k == 1) return p->routed_scaling;
  float sum = 0;
  for (int64_t i = 0; i < p->top_k; i++) sum += scores[s->best[i]];
  return p->routed_scaling / (sum + 1e-20F);
}

/* ---- runs ------------------------------------------------------------------------------------------------------- */

/* Tokens are shared out in `slots` pieces, each with its own scratch. */
typedef struct gate_run {
  rlx_ctx *ctx;
  char *memory;
  int64_t slots;
  bool packed;
} gate_run;

static void write_token(const gate_run *r, int64_t token, const float *scores, const scratch *s, float factor) {
  const gate_params *p = r->ctx->params;
  rlx_operand *out = r->ctx->outputs;
  float *packed = r->packed ? (float *)out[0].data + token * 2 * p->top_k : NULL;
  int64_t *indices = r->packed || !out[0].data ? NULL : (int64_t *)out[0].data + token * p->top_k;
  float *weights = packed                                    ? packed + p->top_k
                   : r->ctx->output_count > 1 && out[1].data ? (float *)out[1].data + token * p->top_k
                                                             : NULL;
  for (int64_t i = 0; i < p->top_k; i++) {
    if (packed) packed[i] = (float)s->best[i];
    if (indices) indices[i] = s->best[i];
    if (weights) weights[i] = scores[s->best[i]] * factor;
  }
}

static void run_slots(void *arg, int64_t begin, int64_t end) {
  const gate_run *r = arg;
  const gate_params *p = r->ctx->params;
  const rlx_operand *x = &r->ctx->inputs[SCORES];
  int64_t tokens = x->dims[0], experts = x->dims[1];
  for (int64_t slot = begin; slot < end; slot++) {
    scratch s = scratch_at(p, r->memory + slot * scratch_bytes(p));
    for (int64_t t = tokens * slot / r->slots; t < tokens * (slot + 1) / r->slots; t++) {
      const float *scores = (const float *)x->data + t * experts;
      const float *routing = (const float *)r->ctx->inputs[ROUTING].data + t * experts;
      write_token(r, t, scores, &s, choose(p, scores, routing, experts, &s));
    }
  }
}

static rlx_status check(rlx_ctx *ctx) {
  const rlx_operand *a = &ctx->inputs[SCORES], *b = &ctx->inputs[ROUTING];
  if (a->rank != 2 || b->rank != 2 || a->dims[0] != b->dims[0] || a->dims[1] != b->dims[1])
    return rlx_fail(ctx, RLX_INVALID, "scores and routing scores differ in shape");
  const char *bad = fault(ctx->params, a->dims[1]);
  return bad ? rlx_fail(ctx, RLX_INVALID, "%s", bad) : RLX_OK;
}

static rlx_status eval_form(rlx_ctx *ctx, bool packed) {
  rlx_status status = check(ctx);
  if (status != RLX_OK) return status;
  gate_run r = {.ctx = ctx, .slots = 1, .packed = packed, .memory = malloc((size_t)scratch_bytes(ctx->params))};
  if (!r.memory) return rlx_fail(ctx, RLX_OUT_OF_MEMORY, "no memory for the scores of groups");
  run_slots(&r, 0, 1);
  free(r.memory);
  return RLX_OK;
}
static rlx_status eval(rlx_ctx *ctx) { return eval_form(ctx, false); }
static rlx_status eval_packed(rlx_ctx *ctx) { return eval_form(ctx, true); }

enum { SLOTS_PER_THREAD = 4, TOKENS_PER_SLOT = 16 };

static int64_t workspace(rlx_bound *b, const void *state) {
  (void)state;
  int64_t tokens = rlx_bound_input(b, SCORES)->dims[0], most = (int64_t)rlx_bound_threads(b) * SLOTS_PER_THREAD;
  int64_t slots = (tokens + TOKENS_PER_SLOT - 1) / TOKENS_PER_SLOT;
  return (slots < most ? slots : most) * scratch_bytes(rlx_bound_params(b));
}

static rlx_status run_form(rlx_ctx *ctx, bool packed) {
  rlx_status status = check(ctx);
  if (status != RLX_OK) return status;
  gate_run r = {.ctx = ctx, .memory = ctx->workspace, .packed = packed};
  r.slots = ctx->workspace_bytes / scratch_bytes(ctx->params);
  rlx_parallel_for(ctx, r.slots, 1, run_slots, &r);
  return RLX_OK;
}
static rlx_status run(rlx_ctx *ctx) { return run_form(ctx, false); }
static rlx_status run_packed(rlx_ctx *ctx) { return run_form(ctx, true); }

/* ---- derivative ------------------------------------------------------------------------------------------------- */

/* Of the scores that were picked, s: w = c s / (sum s + 1e-20), hence ds = (dw - sum(dw w) / c) c / (sum s + 1e-20);
 * w = c s for one expert. The choice itself has no derivative, nor have the routing scores. */
static rlx_value *constant(rlx_graph *g, float value) {
  rlx_tensor *t = NULL;
  if (rlx_tensor_create(RLX_FLOAT, 0, NULL, &t) != RLX_OK) {
    rlx_graph_fail(g, RLX_OUT_OF_MEMORY, "no memory for a constant");
    return NULL;
  }
  *(float *)rlx_tensor_data(t) = value;
  rlx_value *v = rlx_graph_constant(g, NULL, t);
  rlx_tensor_destroy(t);
  return v;
}

static rlx_value *binary(rlx_graph *g, const char *op, rlx_value *a, rlx_value *b) {
  return rlx_graph_op(g, op, NULL, 0, (rlx_value *[]){a, b}, 2);
}

static rlx_value *row_sum(rlx_graph *g, rlx_value *x) {
  rlx_tensor *t = NULL;
  if (rlx_tensor_create(RLX_INT64, 1, (const int64_t[]){1}, &t) != RLX_OK) {
    rlx_graph_fail(g, RLX_OUT_OF_MEMORY, "no memory for a constant");
    return NULL;
  }
  *(int64_t *)rlx_tensor_data(t) = 1;
  rlx_value *axis = rlx_graph_constant(g, NULL, t);
  rlx_tensor_destroy(t);
  return binary(g, "onnx.ReduceSum", x, axis);
}

static rlx_status vjp(rlx_graph *g, const rlx_node *n, rlx_value *const *output_grads, rlx_value **input_grads) {
  const gate_params *p = rlx_node_params(n);
  rlx_value *scores = rlx_node_input(n, SCORES), *indices = rlx_node_output(n, 0);
  if (rlx_node_output_count(n) < 2 || !output_grads[1]) return RLX_OK;
  rlx_value *scale = constant(g, p->routed_scaling), *grad = binary(g, "onnx.Mul", output_grads[1], scale);
  const rlx_attr last = RLX_ATTR_I("axis", 1);
  if (p->top_k > 1) {
    rlx_value *picked = rlx_graph_op(g, "onnx.GatherElements", &last, 1, (rlx_value *[]){scores, indices}, 2);
    rlx_value *sum = binary(g, "onnx.Add", row_sum(g, picked), constant(g, 1e-20F));
    rlx_value *mean = binary(g, "onnx.Div", row_sum(g, binary(g, "onnx.Mul", grad, picked)), sum);
    grad = binary(g, "onnx.Div", binary(g, "onnx.Sub", grad, mean), sum);
  }
  rlx_value *zeros = binary(g, "onnx.Mul", scores, constant(g, 0));
  input_grads[SCORES] = rlx_graph_op(g, "onnx.ScatterElements", &last, 1, (rlx_value *[]){zeros, indices, grad}, 3);
  return rlx_graph_status(g);
}

/* The packed form by the other; a derivative comes with it. */
static rlx_status lower_packed(rlx_graph *g, const rlx_node *n, rlx_value **outputs_made) {
  const gate_params *p = rlx_node_params(n);
  const rlx_attr given[] = {RLX_ATTR_I("n_group", p->n_group), RLX_ATTR_I("topk_group", p->topk_group),
                            RLX_ATTR_I("top_k", p->top_k), RLX_ATTR_F("routed_scaling", p->routed_scaling)};
  rlx_value *in[] = {rlx_node_input(n, SCORES), rlx_node_input(n, ROUTING)};
  const rlx_node_desc desc = {.struct_size = sizeof desc,
                              .op = "llada2.group_limited_gate",
                              .inputs = in,
                              .input_count = 2,
                              .attrs = given,
                              .attr_count = 4,
                              .output_count = 2};
  rlx_node *made = rlx_graph_node(g, &desc);
  if (!made) return rlx_graph_status(g);
  const rlx_attr to = RLX_ATTR_I("to", RLX_FLOAT), axis = RLX_ATTR_I("axis", 1);
  rlx_value *indices = rlx_node_output(made, 0);
  rlx_value *parts[] = {rlx_graph_op(g, "onnx.Cast", &to, 1, &indices, 1), rlx_node_output(made, 1)};
  outputs_made[0] = rlx_graph_op(g, "onnx.Concat", &axis, 1, parts, 2);
  return rlx_graph_status(g);
}

/* ---- records ---------------------------------------------------------------------------------------------------- */

#define COUNT(attr_name)                                                                                               \
  {.name = #attr_name, .kind = RLX_ATTR_INT, .flags = RLX_REQUIRED | RLX_RANGED,                                       \
   .offset = offsetof(gate_params, attr_name), .min = 1, .max = 1 << 20}
static const rlx_attr_def attrs[] = {COUNT(n_group),
                                     COUNT(topk_group),
                                     COUNT(top_k),
                                     {.name = "routed_scaling",
                                      .kind = RLX_ATTR_FLOAT,
                                      .offset = offsetof(gate_params, routed_scaling),
                                      .default_float = 1},
                                     {0}};
static const rlx_port inputs[] = {
    {"scores", NULL, RLX_SET(RLX_FLOAT), 0, 0}, {"routing_scores", NULL, RLX_SET(RLX_FLOAT), 0, 0}, {0}};
static const rlx_port outputs[] = {
    {"indices", NULL, RLX_SET(RLX_INT64), 0, 0}, {"weights", NULL, RLX_SET(RLX_FLOAT), RLX_OPTIONAL, 0}, {0}};
static const rlx_port packed_outputs[] = {{"packed", NULL, RLX_SET(RLX_FLOAT), 0, 0}, {0}};

static const rlx_op gate = {
    .struct_size = sizeof(rlx_op),
    .name = "llada2.group_limited_gate",
    .doc =
        "Experts of each token. Of the routing scores [tokens, experts]: the score of a group of neighbouring experts "
        "is the sum of its two best; among the topk_group best groups (ties: the lower) the top_k best experts are "
        "chosen, descending. A weight is the score at the pick, divided by their sum + 1e-20 if top_k > 1, times "
        "routed_scaling. The gate of LLaDA2 and DeepSeek-V3.",
    .samples = (const char *const[]){"float[5,16], float[5,16] {n_group = 4, topk_group = 2, top_k = 4, routed_scaling "
                                     "= 2.5}",
                                     "float[3,8], float[3,8] {n_group = 8, topk_group = 3, top_k = 1}",
                                     "float[0,8], float[0,8] {n_group = 2, topk_group = 1, top_k = 3}", NULL},
    .inputs = inputs,
    .outputs = outputs,
    .attrs = attrs,
    .params_size = sizeof(gate_params),
    .traits = RLX_PURE,
    .infer = infer,
    .vjp = vjp,
    .eval = eval,
};
static const rlx_op gate_packed = {
    .struct_size = sizeof(rlx_op),
    .name = "llada2.group_limited_gate_packed",
    .doc = "group_limited_gate with one output [tokens, 2 top_k]: the indices as floats, then the weights.",
    .samples = (const char *const[]){"float[5,16], float[5,16] {n_group = 4, topk_group = 2, top_k = 4, routed_scaling "
                                     "= 2.5}",
                                     NULL},
    .inputs = inputs,
    .outputs = packed_outputs,
    .attrs = attrs,
    .params_size = sizeof(gate_params),
    .traits = RLX_PURE,
    .infer = infer_packed,
    .lower = lower_packed,
    .eval = eval_packed,
};
static const rlx_cpu_kernel gate_kernel = {
    .struct_size = sizeof(rlx_cpu_kernel),
    .head = {.op = "llada2.group_limited_gate", .name = "threads", .workspace = workspace},
    .run = run,
};
static const rlx_cpu_kernel packed_kernel = {
    .struct_size = sizeof(rlx_cpu_kernel),
    .head = {.op = "llada2.group_limited_gate_packed", .name = "threads", .workspace = workspace},
    .run = run_packed,
};

static rlx_status register_all(rlx_registry *r) {
  rlx_status status = rlx_register_op(r, &gate, 0, NULL);
  if (status == RLX_OK) status = rlx_register_op(r, &gate_packed, 0, NULL);
  if (status == RLX_OK) status = rlx_register_cpu_kernel(r, &gate_kernel, 0, NULL);
  return status != RLX_OK ? status : rlx_register_cpu_kernel(r, &packed_kernel, 0, NULL);
}
RLX_PACKAGE_WITH("llada2", "1.0", register_all, RLX_ON_REQUEST);
