/* linear_attention.c — onnx.LinearAttention: attention as a recurrence over a matrix of state. */
#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "ir/module.h"
#include "ops/_derivative.h"
#include "ops/_wide.h"

typedef struct linear_params {
  uint64_t given;
  int64_t q_num_heads, kv_num_heads;
  int64_t chunk_size; /* how to compute, not what */
  float scale;        /* 0: 1 / sqrt(key size) */
  rlx_string update_rule;
} linear_params;

enum { QUERY, KEY, VALUE, PAST, DECAY, BETA, INPUTS };

static bool is(const rlx_string *s, const char *word) {
  return s->data && strlen(word) == s->size && memcmp(s->data, word, s->size) == 0;
}

/* Which terms the recurrence has; false if the rule is not known. */
static bool parse_rule(const linear_params *p, bool *gated, bool *delta) {
  *gated = is(&p->update_rule, "gated") || is(&p->update_rule, "gated_delta");
  *delta = is(&p->update_rule, "delta") || is(&p->update_rule, "gated_delta");
  return *gated || *delta || is(&p->update_rule, "linear");
}

static rlx_status infer(rlx_infer *ctx) {
  const linear_params *p = rlx_infer_params(ctx);
  const rlx_type *q = rlx_infer_input(ctx, QUERY), *v = rlx_infer_input(ctx, VALUE);
  const rlx_type *past = rlx_infer_input_count(ctx) > PAST ? rlx_infer_input(ctx, PAST) : NULL;
  bool gated, delta;
  if (!parse_rule(p, &gated, &delta)) return rlx_fail(ctx, RLX_INVALID, "update_rule is not known");
  if (p->q_num_heads % p->kv_num_heads) {
    return rlx_fail(ctx, RLX_INVALID, "%lld query heads and %lld key heads", (long long)p->q_num_heads,
                    (long long)p->kv_num_heads);
  }
  if (rlx_infer_output_count(ctx) > 1 && !past) rlx_infer_output(ctx, 1)->dtype = q->dtype;
  if ((q->rank != RLX_UNKNOWN && q->rank != 3) || (v->rank != RLX_UNKNOWN && v->rank != 3)) {
    return rlx_fail(ctx, RLX_INVALID, "query and value of rank %d and %d; both must be 3", q->rank, v->rank);
  }
  if (q->rank == RLX_UNKNOWN || v->rank == RLX_UNKNOWN) return RLX_OK;
  int64_t size = q->dims[2] == RLX_UNKNOWN ? RLX_UNKNOWN : q->dims[2] / p->q_num_heads;
  int64_t v_size = v->dims[2] == RLX_UNKNOWN ? RLX_UNKNOWN : v->dims[2] / p->kv_num_heads;
  int64_t width = v_size == RLX_UNKNOWN ? RLX_UNKNOWN : v_size * p->q_num_heads;
  rlx_infer_set(ctx, 0, 3, (const int64_t[]){q->dims[0], q->dims[1], width});
  if (rlx_infer_output_count(ctx) > 1) {
    rlx_infer_set(ctx, 1, 4, (const int64_t[]){q->dims[0], p->kv_num_heads, size, v_size});
  }
  return RLX_OK;
}

typedef struct linear_task {
  const linear_params *params;
  bool gated, delta;
  int64_t batch, steps, size, v_size, decay_size, betas; /* decay_size: of a head, 1 or size; betas: heads or 1 */
  double scale;
  const double *in[INPUTS];   /* NULL: left out */
  double *y, *state, *update; /* update: v_size for each sample and head */
} linear_task;

/* One step of one head: the state decays, takes in the key and value, and is read by the head's queries. */
static void step(const linear_task *t, int64_t sample, int64_t head, int64_t at, double *state, double *update) {
  const linear_params *p = t->params;
  int64_t row = sample * t->steps + at, kv = row * p->kv_num_heads + head, group = p->q_num_heads / p->kv_num_heads;
  const double *k = t->in[KEY] + kv * t->size, *v = t->in[VALUE] + kv * t->v_size;
  for (int64_t d = 0; t->gated && d < t->size; d++) {
    double factor = exp(t->in[DECAY][kv * t->decay_size + (t->decay_size == 1 ? 0 : d)]);
    for (int64_t m = 0; m < t->v_size; m++) state[d * t->v_size + m] *= factor;
  }
  memcpy(update, v, (size_t)t->v_size * sizeof *update);
  if (t->delta) {
    double beta = t->in[BETA][t->betas == 1 ? row : kv];
    for (int64_t d = 0; d < t->size; d++) {
      for (int64_t m = 0; m < t->v_size; m++) update[m] -= state[d * t->v_size + m] * k[d];
    }
    for (int64_t m = 0; m < t->v_size; m++) update[m] *= beta;
  }
  for (int64_t d = 0; d < t->size; d++) {
    for (int64_t m = 0; m < t->v_size; m++) state[d * t->v_size + m] += k[d] * update[m];
  }
  for (int64_t h = head * group; h < (head + 1) * group; h++) {
    const double *q = t->in[QUERY] + (row * p->q_num_heads + h) * t->size;
    double *y = t->y + (row * p->q_num_heads + h) * t->v_size;
    memset(y, 0, (size_t)t->v_size * sizeof *y);
    for (int64_t d = 0; d < t->size; d++) {
      for (int64_t m = 0; m < t->v_size; m++) y[m] += t->scale * q[d] * state[d * t->v_size + m];
    }
  }
}

static void run_heads(void *arg, int64_t begin, int64_t end) {
  const linear_task *t = arg;
  int64_t heads = t->params->kv_num_heads, plane = t->size * t->v_size;
  for (int64_t i = begin; i < end; i++) {
    double *state = t->state + i * plane;
    if (t->in[PAST]) {
      memcpy(state, t->in[PAST] + i * plane, (size_t)plane * sizeof *state);
    } else {
      memset(state, 0, (size_t)plane * sizeof *state);
    }
    for (int64_t at = 0; at < t->steps; at++) step(t, i / heads, i % heads, at, state, t->update + i * t->v_size);
  }
}

static const rlx_operand *optional(const rlx_ctx *ctx, int i) {
  return i < ctx->input_count && ctx->inputs[i].data ? &ctx->inputs[i] : NULL;
}

static bool is_rows(const rlx_operand *o, const linear_task *t, int64_t width) {
  return o->rank == 3 && o->dims[0] == t->batch && o->dims[1] == t->steps && o->dims[2] == width;
}

static rlx_status resolve(rlx_ctx *ctx, linear_task *t) {
  const linear_params *p = ctx->params;
  const rlx_operand *q = &ctx->inputs[QUERY], *v = &ctx->inputs[VALUE], *past = optional(ctx, PAST);
  const rlx_operand *decay = optional(ctx, DECAY), *beta = optional(ctx, BETA);
  int64_t kv = p->kv_num_heads;
  *t = (linear_task){.params = p};
  if (!parse_rule(p, &t->gated, &t->delta) || p->q_num_heads % kv) return rlx_fail(ctx, RLX_INVALID, "bad attributes");
  if (!decay != !t->gated || !beta != !t->delta) {
    return rlx_fail(ctx, RLX_INVALID, "update_rule asks for other inputs than there are: decay %s, beta %s",
                    decay ? "given" : "left out", beta ? "given" : "left out");
  }
  if (q->rank != 3 || v->rank != 3 || q->dims[2] % p->q_num_heads || v->dims[2] % kv) {
    return rlx_fail(ctx, RLX_INVALID, "query or value do not divide into heads");
  }
  t->batch = q->dims[0], t->steps = q->dims[1], t->size = q->dims[2] / p->q_num_heads, t->v_size = v->dims[2] / kv;
  if (!is_rows(&ctx->inputs[KEY], t, kv * t->size) || !is_rows(v, t, kv * t->v_size)) {
    return rlx_fail(ctx, RLX_INVALID, "query, key and value do not fit together");
  }
  t->decay_size = decay && decay->rank == 3 && decay->dims[2] == kv ? 1 : t->size;
  t->betas = beta && beta->rank == 3 && beta->dims[2] == kv ? kv : 1;
  if ((decay && !is_rows(decay, t, kv * t->decay_size)) || (beta && !is_rows(beta, t, t->betas))) {
    return rlx_fail(ctx, RLX_INVALID, "decay or beta do not fit the heads");
  }
  if (past && (past->rank != 4 || past->dims[0] != t->batch || past->dims[1] != kv || past->dims[2] != t->size ||
               past->dims[3] != t->v_size)) {
    return rlx_fail(ctx, RLX_INVALID, "past_state does not fit the heads");
  }
  t->scale = p->scale != 0 ? (double)p->scale : t->size ? 1 / sqrt((double)t->size) : 1;
  return RLX_OK;
}

static rlx_status eval(rlx_ctx *ctx) {
  linear_task t;
  RLX_TRY(resolve(ctx, &t));
  wide in[INPUTS] = {{0}}, y = {0}, state = {0};
  rlx_status status = RLX_OK;
  for (int i = 0; i < ctx->input_count && i < INPUTS && !status; i++) {
    status = wide_input(ctx, &ctx->inputs[i], RLX_DOUBLE, &in[i]);
    t.in[i] = in[i].data;
  }
  int64_t heads = t.batch * t.params->kv_num_heads;
  if (!status) status = wide_output(ctx, &ctx->outputs[0], RLX_DOUBLE, &y);
  if (!status) {
    state.owned = mem_array((size_t)(heads * (t.size + 1) * t.v_size), sizeof(double));
    if (!state.owned) status = rlx_fail(ctx, RLX_OUT_OF_MEMORY, "no memory for %lld states", (long long)heads);
  }
  if (!status) {
    t.y = y.data, t.state = state.data = state.owned, t.update = t.state + heads * t.size * t.v_size;
    state.dtype = RLX_DOUBLE;
    if (heads) rlx_parallel_for(ctx, heads, 1, run_heads, &t);
    wide_store(&y, &ctx->outputs[0]);
    if (ctx->output_count > 1 && ctx->outputs[1].data) wide_store(&state, &ctx->outputs[1]);
  }
  for (int i = 0; i < INPUTS; i++) wide_finish(&in[i]);
  wide_finish(&y), wide_finish(&state);
  return status;
}

#define DTYPES (RLX_SET(RLX_FLOAT) | RLX_SET(RLX_FLOAT16) | RLX_SET(RLX_BFLOAT16))
/* ---- derivatives ------------------------------------------------------------------------------------------------ */

/* A scan over the steps; the state is batch × heads × size × value size. */
static rlx_status derive(rlx_graph *g, const rlx_node *n, rlx_value **outputs) {
  const linear_params *p = rlx_node_params(n);
  rlx_value *in[INPUTS], *made[2];
  for (int i = 0; i < INPUTS; i++) in[i] = rlx_node_input(n, i);
  const rlx_type *q = rlx_value_type(in[QUERY]), *v = rlx_value_type(in[VALUE]);
  bool gated, delta;
  if (!parse_rule(p, &gated, &delta)) return rlx_graph_fail(g, RLX_INVALID, "update_rule is not known");
  if (q->rank != 3 || v->rank != 3 || q->dims[2] < 0 || v->dims[2] < 0 || !in[DECAY] != !gated || !in[BETA] != !delta)
    return rlx_graph_fail(g, RLX_UNSUPPORTED, "the heads' sizes must be known");
  long long kv = p->kv_num_heads, size = q->dims[2] / p->q_num_heads, v_size = v->dims[2] / kv;
  double scale = p->scale != 0 ? (double)p->scale : size ? 1 / sqrt((double)size) : 1;
  const char *t = rlx_dtype_name(q->dtype);
  int scanned = 3 + gated + delta;
  RLX_TRY(derivative_text(
      g, in, made,
      "linear (query, key, value, past, decay, beta) => (y, state)"
      " <int64[4] keys = {0, %lld, %lld, 1}, int64[4] values = {0, %lld, 1, %lld}, int64[4] queries = {0, %lld, %lld, "
      "%lld},"
      " int64[4] fades = {0, %lld, -1, 1}, int64[4] rates = {0, -1, 1, 1}, int64[2] row = {0, -1}, int64[1] axis = {2},"
      " int64[3] inner = {%lld, %lld, %lld}, %s scale = {%.17g}, %s none = {0}> { %s"
      " state0, y = Scan <num_scan_inputs = %d, scan_input_axes = [1, 1, 1%s%s], scan_output_axes = [1], body ="
      " step (before, qt, kt, vt%s%s) => (after, out) {"
      " k = Reshape (kt, keys) v = Reshape (vt, values) q = Reshape (qt, queries) %s %s"
      " ku = Mul (k, u) after = Add (s, ku) o = MatMul (q, after) os = Mul (o, scale) out = Reshape (os, row) }>"
      " (first, query, key, value%s%s) state = %s }",
      kv, size, kv, v_size, kv, (long long)(p->q_num_heads / kv), size, kv, kv, size, v_size, t, scale, t,
      in[PAST] ? "first = CastLike (past, query)"
               : "n = Shape <end = 1> (query) full = Concat <axis = 0> (n, inner) first = Expand (none, full)",
      scanned, gated ? ", 1" : "", delta ? ", 1" : "", gated ? ", dt" : "", delta ? ", bt" : "",
      gated ? "d = Reshape (dt, fades) e = Exp (d) s = Mul (before, e)" : "s = Identity (before)",
      delta
          ? "sk = Mul (s, k) seen = ReduceSum (sk, axis) rest = Sub (v, seen) b = Reshape (bt, rates) u = Mul (rest, b)"
          : "u = Identity (v)",
      gated ? ", decay" : "", delta ? ", beta" : "", in[PAST] ? "CastLike (state0, past)" : "Identity (state0)"));
  for (int i = 0; i < rlx_node_output_count(n) && i < 2; i++) outputs[i] = made[i];
  return rlx_graph_status(g);
}

#define AT(member) .offset = offsetof(linear_params, member)
static const rlx_attr_def attrs[] = {
    {.name = "q_num_heads",
     .kind = RLX_ATTR_INT,
     .flags = RLX_REQUIRED | RLX_RANGED,
     AT(q_num_heads),
     .min = 1,
     .max = INT32_MAX},
    {.name = "kv_num_heads",
     .kind = RLX_ATTR_INT,
     .flags = RLX_REQUIRED | RLX_RANGED,
     AT(kv_num_heads),
     .min = 1,
     .max = INT32_MAX},
    {.name = "chunk_size", .kind = RLX_ATTR_INT, AT(chunk_size), .default_int = 64},
    {.name = "scale", .kind = RLX_ATTR_FLOAT, AT(scale)},
    {.name = "update_rule", .kind = RLX_ATTR_STRING, AT(update_rule), .default_string = "gated_delta"},
    {0}};
static const rlx_op linear_attention = {
    .struct_size = sizeof(rlx_op),
    .name = "onnx.LinearAttention",
    .version = 27,
    .doc = "Reads a matrix of state with each query after it has decayed and taken in the key and value.",
    .samples =
        (const char *const[]){
            "float[1,3,8], float[1,3,4], float[1,3,6] {q_num_heads = 2, kv_num_heads = 1, update_rule = \"linear\"}",
            NULL},
    .inputs = (const rlx_port[]){{"query", "T", DTYPES, 0, 0},
                                 {"key", "T", DTYPES, 0, 0},
                                 {"value", "T", DTYPES, 0, 0},
                                 {"past_state", "S", DTYPES, RLX_OPTIONAL, 0},
                                 {"decay", "T", DTYPES, RLX_OPTIONAL, 0},
                                 {"beta", "T", DTYPES, RLX_OPTIONAL, 0},
                                 {0}},
    .outputs = (const rlx_port[]){{"output", "T", DTYPES, 0, 0}, {"present_state", "S", DTYPES, 0, 0}, {0}},
    .attrs = attrs,
    .params_size = sizeof(linear_params),
    .traits = RLX_PURE,
    .infer = infer,
    .derive = derive,
    .eval = eval,
};

static const rlx_op *const ops[] = {&linear_attention, NULL};
const rlx_module ops_linear_attention = {.ops = ops};
