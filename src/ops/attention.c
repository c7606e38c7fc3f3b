/* attention.c — onnx.Attention: scaled dot-product attention with masks, grouped heads and a key-value cache. */
#include "ops/attention.h"

#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "ir/dtype.h"
#include "ir/module.h"
#include "ops/_wide.h"

/* ---- inference -------------------------------------------------------------------------------------------------- */

/* Heads, rows and size per head of an operand; unknown parts RLX_UNKNOWN. */
static rlx_status split(rlx_infer *ctx, const rlx_type *t, int64_t heads, int64_t out[3]) {
  out[0] = t->rank == 4 ? t->dims[1] : heads;
  out[1] = t->rank == 4 ? t->dims[2] : t->dims[1];
  out[2] = t->rank == 4 ? t->dims[3] : t->dims[2];
  if (t->rank == 4) return RLX_OK;
  if (heads < 1) return rlx_fail(ctx, RLX_INVALID, "operands of rank 3 need q_num_heads and kv_num_heads");
  if (out[2] == RLX_UNKNOWN) return RLX_OK;
  if (out[2] % heads) {
    return rlx_fail(ctx, RLX_INVALID, "%lld elements in %lld heads", (long long)out[2], (long long)heads);
  }
  out[2] /= heads;
  return RLX_OK;
}

static int64_t times(int64_t a, int64_t b) { return a == RLX_UNKNOWN || b == RLX_UNKNOWN ? RLX_UNKNOWN : a * b; }

static rlx_status infer(rlx_infer *ctx) {
  const attention_params *p = rlx_infer_params(ctx);
  const rlx_type *q = rlx_infer_input(ctx, 0), *k = rlx_infer_input(ctx, 1), *v = rlx_infer_input(ctx, 2);
  if (q->rank == RLX_UNKNOWN || k->rank == RLX_UNKNOWN || v->rank == RLX_UNKNOWN) return RLX_OK;
  if ((q->rank != 3 && q->rank != 4) || k->rank != q->rank || v->rank != q->rank) {
    return rlx_fail(ctx, RLX_INVALID, "Q, K, V of rank %d, %d, %d; all must be 3 or 4", q->rank, k->rank, v->rank);
  }
  int64_t qs[3], ks[3], vs[3];
  RLX_TRY(split(ctx, q, p->q_num_heads, qs));
  RLX_TRY(split(ctx, k, p->kv_num_heads, ks));
  RLX_TRY(split(ctx, v, p->kv_num_heads, vs));
  const rlx_type *past = rlx_infer_input_count(ctx) > ATTENTION_PAST_K ? rlx_infer_input(ctx, ATTENTION_PAST_K) : NULL;
  int64_t total = ks[1];
  if (past) {
    int64_t before = past->rank == 4 ? past->dims[2] : RLX_UNKNOWN;
    total = total == RLX_UNKNOWN || before == RLX_UNKNOWN ? RLX_UNKNOWN : total + before;
  }
  int outputs = rlx_infer_output_count(ctx);
  if (q->rank == 4) {
    rlx_infer_set(ctx, 0, 4, (const int64_t[]){q->dims[0], qs[0], qs[1], vs[2]});
  } else {
    rlx_infer_set(ctx, 0, 3, (const int64_t[]){q->dims[0], qs[1], times(qs[0], vs[2])});
  }
  if (outputs > 1) rlx_infer_set(ctx, 1, 4, (const int64_t[]){q->dims[0], ks[0], total, ks[2]});
  if (outputs > 2) rlx_infer_set(ctx, 2, 4, (const int64_t[]){q->dims[0], vs[0], total, vs[2]});
  if (outputs > 3) rlx_infer_set(ctx, 3, 4, (const int64_t[]){q->dims[0], qs[0], qs[1], total});
  return RLX_OK;
}

/* ---- geometry of a run ------------------------------------------------------------------------------------------ */

static const rlx_operand *optional(const rlx_ctx *ctx, int i) {
  return i < ctx->input_count && ctx->inputs[i].data ? &ctx->inputs[i] : NULL;
}

static bool has_dims(const rlx_operand *o, int64_t a, int64_t b, int64_t c, int64_t d) {
  return o->rank == 4 && o->dims[0] == a && o->dims[1] == b && o->dims[2] == c && o->dims[3] == d;
}

static rlx_status check_extras(rlx_ctx *ctx, const attention_shape *s) {
  const rlx_operand *past_k = optional(ctx, ATTENTION_PAST_K), *past_v = optional(ctx, ATTENTION_PAST_V);
  if (!past_k != !past_v) return rlx_fail(ctx, RLX_INVALID, "past_key and past_value must come together");
  if (past_k && (!has_dims(past_k, s->batch, s->kv_heads, s->past, s->size) ||
                 !has_dims(past_v, s->batch, s->kv_heads, s->past, s->v_size))) {
    return rlx_fail(ctx, RLX_INVALID, "past_key or past_value do not fit K and V");
  }
  const rlx_operand *lengths = optional(ctx, ATTENTION_LENGTHS), *mask = optional(ctx, ATTENTION_MASK);
  if (lengths && (lengths->count != s->batch || past_k)) {
    return rlx_fail(ctx, RLX_INVALID, "nonpad_kv_seqlen of %lld elements for %lld samples, or beside past_key",
                    (long long)lengths->count, (long long)s->batch);
  }
  if (!mask) return RLX_OK;
  int64_t want[4] = {s->batch, s->q_heads, s->q_length, s->total};
  bool fits = mask->rank >= 1 && mask->rank <= 4 && mask->dims[mask->rank - 1] <= s->total;
  for (int d = 0; fits && d < mask->rank - 1; d++) {
    int64_t dim = mask->dims[d];
    fits = dim == 1 || dim == want[4 - mask->rank + d];
  }
  return fits ? RLX_OK : rlx_fail(ctx, RLX_INVALID, "attn_mask does not broadcast to the scores");
}

rlx_status attention_of_run(rlx_ctx *ctx, attention_shape *s) {
  const attention_params *p = ctx->params;
  const rlx_operand *q = &ctx->inputs[0], *k = &ctx->inputs[1], *v = &ctx->inputs[2];
  if ((q->rank != 3 && q->rank != 4) || k->rank != q->rank || v->rank != q->rank) {
    return rlx_fail(ctx, RLX_INVALID, "Q, K, V of rank %d, %d, %d; all must be 3 or 4", q->rank, k->rank, v->rank);
  }
  *s = (attention_shape){.packed = q->rank == 3, .batch = q->dims[0]};
  int length = s->packed ? 1 : 2, last = q->rank - 1;
  s->q_heads = s->packed ? p->q_num_heads : q->dims[1];
  s->kv_heads = s->packed ? p->kv_num_heads : k->dims[1];
  if (s->q_heads < 1 || s->kv_heads < 1 || s->q_heads % s->kv_heads) {
    return rlx_fail(ctx, RLX_INVALID, "%lld query heads and %lld key heads", (long long)s->q_heads,
                    (long long)s->kv_heads);
  }
  s->q_length = q->dims[length];
  s->kv_length = k->dims[length];
  s->size = q->dims[last] / (s->packed ? s->q_heads : 1);
  s->v_size = v->dims[last] / (s->packed ? s->kv_heads : 1);
  int64_t kv = s->packed ? s->kv_heads : 1, qh = s->packed ? s->q_heads : 1;
  if (k->dims[0] != s->batch || v->dims[0] != s->batch || v->dims[length] != s->kv_length ||
      q->dims[last] != s->size * qh || k->dims[last] != s->size * kv || v->dims[last] != s->v_size * kv ||
      (!s->packed && v->dims[1] != s->kv_heads)) {
    return rlx_fail(ctx, RLX_INVALID, "the shapes of Q, K and V do not fit together");
  }
  const rlx_operand *past = optional(ctx, ATTENTION_PAST_K);
  if (past && past->rank == 4) s->past = past->dims[2];
  s->total = s->past + s->kv_length;
  s->scale = p->given & 1 ? (double)p->scale : s->size ? 1 / sqrt((double)s->size) : 1;
  return check_extras(ctx, s);
}

double attention_bias(const rlx_ctx *ctx, const attention_shape *s, int64_t batch, int64_t head, int64_t row,
                      int64_t column) {
  const attention_params *p = ctx->params;
  const rlx_operand *lengths = optional(ctx, ATTENTION_LENGTHS), *mask = optional(ctx, ATTENTION_MASK);
  int64_t valid = lengths ? ((const int64_t *)lengths->data)[batch] : s->total;
  int64_t position = row + (lengths ? valid - s->q_length : s->past);
  if (column >= valid || (p->is_causal && column > position) ||
      (p->left_window_size >= 0 && position - column > p->left_window_size) ||
      (p->right_window_size >= 0 && column - position > p->right_window_size)) {
    return -INFINITY;
  }
  if (!mask) return 0;
  int64_t index[4] = {batch, head, row, column}, at = 0;
  if (column >= mask->dims[mask->rank - 1]) return -INFINITY;
  for (int d = 0; d < mask->rank; d++) {
    at = at * mask->dims[d] + (mask->dims[d] == 1 ? 0 : index[4 - mask->rank + d]);
  }
  if (mask->dtype == RLX_BOOL) return ((const uint8_t *)mask->data)[at] ? 0 : -INFINITY;
  return dtype_load(mask->dtype, mask->data, at);
}

/* ---- evaluation, in double -------------------------------------------------------------------------------------- */

typedef struct attention_task {
  const rlx_ctx *ctx;
  attention_shape shape;
  const double *q, *k, *v; /* k and v: batch × kv_heads × total × size */
  double *y, *scores;      /* scores: a row for each batch and head */
  double *shown;           /* qk_matmul_output; NULL: not wanted */
} attention_task;

/* Probabilities of one row of scores; all masked gives zeros. */
static void softmax_row(double *scores, int64_t n, bool masked) {
  double peak = -INFINITY, sum = 0;
  for (int64_t j = 0; j < n; j++) peak = fmax(peak, scores[j]);
  if (masked || peak == -INFINITY) {
    memset(scores, 0, (size_t)n * sizeof *scores);
    return;
  }
  for (int64_t j = 0; j < n; j++) sum += scores[j] = exp(scores[j] - peak);
  for (int64_t j = 0; j < n; j++) scores[j] /= sum;
}

static void attend_row(const attention_task *t, int64_t batch, int64_t head, int64_t row, double *scores) {
  const attention_shape *s = &t->shape;
  const attention_params *p = t->ctx->params;
  int64_t kv = (batch * s->kv_heads + head / (s->q_heads / s->kv_heads)) * s->total, mode = p->qk_matmul_output_mode;
  const double *q = t->q + attention_at(s->packed, s->q_heads, s->q_length, s->size, batch, head, row);
  double *y = t->y + attention_at(s->packed, s->q_heads, s->q_length, s->v_size, batch, head, row), cap = p->softcap;
  double *shown = t->shown ? t->shown + ((batch * s->q_heads + head) * s->q_length + row) * s->total : NULL;
  bool masked = true;
  for (int64_t j = 0; j < s->total; j++) {
    double sum = 0;
    const double *k = t->k + (kv + j) * s->size;
    for (int64_t d = 0; d < s->size; d++) sum += q[d] * k[d];
    sum *= s->scale;
    if (shown && mode == 0) shown[j] = sum;
    if (cap > 0) sum = cap * tanh(sum / cap);
    if (shown && mode == 1) shown[j] = sum;
    double bias = attention_bias(t->ctx, s, batch, head, row, j);
    masked = masked && bias == -INFINITY;
    scores[j] = bias == -INFINITY ? bias : sum + bias;
    if (shown && mode == 2) shown[j] = scores[j];
  }
  softmax_row(scores, s->total, masked);
  if (shown && mode == 3) memcpy(shown, scores, (size_t)s->total * sizeof *scores);
  for (int64_t d = 0; d < s->v_size; d++) y[d] = 0;
  for (int64_t j = 0; j < s->total; j++) {
    const double *v = t->v + (kv + j) * s->v_size;
    if (scores[j] == 0) continue; /* a masked value may be anything */
    for (int64_t d = 0; d < s->v_size; d++) y[d] += scores[j] * v[d];
  }
}

static void attend_heads(void *arg, int64_t begin, int64_t end) {
  const attention_task *t = arg;
  const attention_shape *s = &t->shape;
  for (int64_t i = begin; i < end; i++) {
    for (int64_t row = 0; row < s->q_length; row++) {
      attend_row(t, i / s->q_heads, i % s->q_heads, row, t->scores + i * s->total);
    }
  }
}

/* past and new rows of K or V, as batch × heads × total × size doubles. */
static rlx_status join(rlx_ctx *ctx, const attention_shape *s, int input, int past_input, int64_t size, wide *out) {
  wide now = {0}, past = {0};
  static const rlx_operand none;
  const rlx_operand *before = optional(ctx, past_input);
  *out = (wide){.dtype = RLX_DOUBLE};
  rlx_status status = wide_input(ctx, &ctx->inputs[input], RLX_DOUBLE, &now);
  if (!status) status = wide_input(ctx, before ? before : &none, RLX_DOUBLE, &past);
  if (!status) {
    out->data = out->owned = mem_array((size_t)(s->batch * s->kv_heads * s->total * size), sizeof(double));
    if (!out->data) status = rlx_fail(ctx, RLX_OUT_OF_MEMORY, "no memory for the cache");
  }
  for (int64_t i = 0; !status && i < s->batch * s->kv_heads; i++) {
    double *to = (double *)out->data + i * s->total * size;
    size_t row = (size_t)size * sizeof(double);
    if (s->past) memcpy(to, (double *)past.data + i * s->past * size, row * (size_t)s->past);
    for (int64_t j = 0; j < s->kv_length; j++) {
      int64_t at = attention_at(s->packed, s->kv_heads, s->kv_length, size, i / s->kv_heads, i % s->kv_heads, j);
      memcpy(to + (s->past + j) * size, (double *)now.data + at, row);
    }
  }
  wide_finish(&now), wide_finish(&past);
  return status;
}

static void store(rlx_ctx *ctx, int output, const double *from) {
  if (output >= ctx->output_count || !ctx->outputs[output].data) return;
  const rlx_operand *o = &ctx->outputs[output];
  for (int64_t i = 0; i < o->count; i++) dtype_store(o->dtype, o->data, i, from[i]);
}

static rlx_status eval(rlx_ctx *ctx) {
  attention_task t = {.ctx = ctx};
  RLX_TRY(attention_of_run(ctx, &t.shape));
  const attention_shape *s = &t.shape;
  wide q = {0}, k = {0}, v = {0}, y = {0}, shown = {0}, scores = {0};
  rlx_status status = wide_input(ctx, &ctx->inputs[0], RLX_DOUBLE, &q);
  if (!status) status = join(ctx, s, ATTENTION_K, ATTENTION_PAST_K, s->size, &k);
  if (!status) status = join(ctx, s, ATTENTION_V, ATTENTION_PAST_V, s->v_size, &v);
  if (!status) status = wide_output(ctx, &ctx->outputs[0], RLX_DOUBLE, &y);
  if (!status && ctx->output_count > 3) status = wide_output(ctx, &ctx->outputs[3], RLX_DOUBLE, &shown);
  if (!status) {
    scores.owned = mem_array((size_t)(s->batch * s->q_heads * s->total), sizeof(double));
    if (!scores.owned) status = rlx_fail(ctx, RLX_OUT_OF_MEMORY, "no memory for the scores");
  }
  if (!status) {
    t.q = q.data, t.k = k.data, t.v = v.data, t.y = y.data, t.shown = shown.data, t.scores = scores.owned;
    if (s->batch) rlx_parallel_for(ctx, s->batch * s->q_heads, 1, attend_heads, &t);
    wide_store(&y, &ctx->outputs[0]);
    store(ctx, 1, k.data);
    store(ctx, 2, v.data);
    if (shown.data) wide_store(&shown, &ctx->outputs[3]);
  }
  wide_finish(&q), wide_finish(&k), wide_finish(&v), wide_finish(&y), wide_finish(&shown), wide_finish(&scores);
  return status;
}

/* ---- record ----------------------------------------------------------------------------------------------------- */

#define AT(member) .offset = offsetof(attention_params, member)
#define INT(attr_name, member, value)                                                                                  \
  {.name = attr_name, .kind = RLX_ATTR_INT, .offset = offsetof(attention_params, member), .default_int = (value)}
static const rlx_attr_def attrs[] = {{.name = "scale", .kind = RLX_ATTR_FLOAT, AT(scale)}, /* first: bit 0 of `given` */
                                     {.name = "softcap", .kind = RLX_ATTR_FLOAT, AT(softcap)},
                                     INT("is_causal", is_causal, 0),
                                     INT("q_num_heads", q_num_heads, 0),
                                     INT("kv_num_heads", kv_num_heads, 0),
                                     INT("qk_matmul_output_mode", qk_matmul_output_mode, 0),
                                     INT("softmax_precision", softmax_precision, 0),
                                     INT("left_window_size", left_window_size, -1),
                                     INT("right_window_size", right_window_size, -1),
                                     {0}};
#define MASKS (RLX_SET_NUMBERS | RLX_SET(RLX_BOOL))
static const rlx_op attention = {
    .struct_size = sizeof(rlx_op),
    .name = "onnx.Attention",
    .version = 23,
    .doc = "softmax(Q Kᵀ scale + mask) V per head, with grouped key heads, causal and window masks, and a cache.",
    .samples = (const char *const[]){"float[1,2,3,4], float[1,2,5,4], float[1,2,5,6]",
                                     "float[1,3,8], float[1,3,4], float[1,3,4] {q_num_heads = 2, kv_num_heads = 1, "
                                     "is_causal = 1}",
                                     NULL},
    .inputs = (const rlx_port[]){{"Q", "T1", RLX_SET_FLOATS, 0, 0},
                                 {"K", "T1", RLX_SET_FLOATS, 0, 0},
                                 {"V", "T2", RLX_SET_FLOATS, 0, 0},
                                 {"attn_mask", "U", MASKS, RLX_OPTIONAL, 0},
                                 {"past_key", "T1", RLX_SET_FLOATS, RLX_OPTIONAL, 0},
                                 {"past_value", "T2", RLX_SET_FLOATS, RLX_OPTIONAL, 0},
                                 {"nonpad_kv_seqlen", NULL, RLX_SET(RLX_INT64), RLX_OPTIONAL, 0},
                                 {0}},
    .outputs = (const rlx_port[]){{"Y", "T1", RLX_SET_FLOATS, 0, 0},
                                  {"present_key", "T1", RLX_SET_FLOATS, RLX_OPTIONAL, 0},
                                  {"present_value", "T2", RLX_SET_FLOATS, RLX_OPTIONAL, 0},
                                  {"qk_matmul_output", "T1", RLX_SET_FLOATS, RLX_OPTIONAL, 0},
                                  {0}},
    .attrs = attrs,
    .params_size = sizeof(attention_params),
    .traits = RLX_PURE,
    .infer = infer,
    .derive = attention_derive,
    .eval = eval,
};

static const rlx_op *const ops[] = {&attention, NULL};
const rlx_module ops_attention = {.ops = ops};
