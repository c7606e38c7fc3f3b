/* recurrent.c — onnx.RNN, GRU and LSTM. */
#include "ops/recurrent.h"

#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "ir/module.h"
#include "ops/_wide.h"

/* ---- inference -------------------------------------------------------------------------------------------------- */

static int64_t known(const rlx_type *t, int d) { return t && t->rank == 3 ? t->dims[d] : RLX_UNKNOWN; }

static rlx_status infer(rlx_infer *ctx, recurrent_kind kind) {
  const recurrent_params *p = rlx_infer_params(ctx);
  const rlx_type *x = rlx_infer_input(ctx, RECURRENT_X), *r = rlx_infer_input(ctx, RECURRENT_R);
  const rlx_type *w = rlx_infer_input(ctx, RECURRENT_W);
  recurrent_shape s;
  const char *bad = recurrent_attributes(kind, p, &s);
  if (bad) return rlx_fail(ctx, RLX_INVALID, "%s", bad);
  if ((x->rank != RLX_UNKNOWN && x->rank != 3) || (r->rank != RLX_UNKNOWN && r->rank != 3) ||
      (w->rank != RLX_UNKNOWN && w->rank != 3)) {
    return rlx_fail(ctx, RLX_INVALID, "X, W, R of rank %d, %d, %d; all must be 3", x->rank, w->rank, r->rank);
  }
  int64_t hidden = known(r, 2), directions = s.directions;
  if (hidden == RLX_UNKNOWN && p->hidden_size) hidden = p->hidden_size;
  if (known(w, 0) != RLX_UNKNOWN && known(w, 0) != directions) {
    return rlx_fail(ctx, RLX_INVALID, "W has %lld directions, the attribute says %lld", (long long)known(w, 0),
                    (long long)directions);
  }
  int64_t steps = known(x, s.batch_first ? 1 : 0), batch = known(x, s.batch_first ? 0 : 1);
  int outputs = rlx_infer_output_count(ctx);
  if (s.batch_first) {
    if (outputs > 0) rlx_infer_set(ctx, 0, 4, (const int64_t[]){batch, steps, directions, hidden});
    for (int i = 1; i < outputs; i++) rlx_infer_set(ctx, i, 3, (const int64_t[]){batch, directions, hidden});
  } else {
    if (outputs > 0) rlx_infer_set(ctx, 0, 4, (const int64_t[]){steps, directions, batch, hidden});
    for (int i = 1; i < outputs; i++) rlx_infer_set(ctx, i, 3, (const int64_t[]){directions, batch, hidden});
  }
  return RLX_OK;
}
static rlx_status infer_rnn(rlx_infer *ctx) { return infer(ctx, RECURRENT_RNN); }
static rlx_status infer_gru(rlx_infer *ctx) { return infer(ctx, RECURRENT_GRU); }
static rlx_status infer_lstm(rlx_infer *ctx) { return infer(ctx, RECURRENT_LSTM); }

/* ---- evaluation, in double -------------------------------------------------------------------------------------- */

typedef struct recurrent_task {
  recurrent_shape shape;
  const recurrent_params *params;
  const double *in[8]; /* by RECURRENT_…; NULL: left out */
  const int32_t *lengths;
  double *out[3];  /* Y, Y_h, Y_c; NULL: not wanted */
  double *scratch; /* per direction and sample: h, c, two blocks of gates */
} recurrent_task;

static int64_t scratch_size(const recurrent_shape *s) { return (2 + 2 * recurrent_gates(s->kind)) * s->hidden; }

static double dot(const double *a, const double *b, int64_t n) {
  double sum[4] = {0};
  int64_t i = 0;
  for (; i + 4 <= n; i += 4) {
    for (int j = 0; j < 4; j++) sum[j] += a[i + j] * b[i + j];
  }
  for (; i < n; i++) sum[0] += a[i] * b[i];
  return sum[0] + sum[1] + sum[2] + sum[3];
}

static double clipped(const recurrent_task *t, double x) {
  double c = (double)t->params->clip;
  return c > 0 ? fmin(fmax(x, -c), c) : x;
}

/* Where a direction's weights and biases lie. */
typedef struct weights {
  const double *w, *r, *wb, *rb, *p; /* biases and peepholes may be NULL */
  const activation *f;
} weights;

static void step_rnn(const recurrent_task *t, const weights *k, double *h, const double *gx, const double *gh) {
  for (int64_t i = 0; i < t->shape.hidden; i++) h[i] = activation_apply(&k->f[0], clipped(t, gx[i] + gh[i]));
}

/* gx: W x + Wb of z, r, h; gh: R h + Rb of the same. */
static void step_gru(const recurrent_task *t, const weights *k, double *h, double *gx, double *gh) {
  int64_t n = t->shape.hidden;
  for (int64_t i = 0; i < 2 * n; i++) gx[i] = activation_apply(&k->f[0], clipped(t, gx[i] + gh[i]));
  const double *z = gx, *r = gx + n;
  double *candidate = gx + 2 * n;
  if (t->params->linear_before_reset) {
    for (int64_t i = 0; i < n; i++) candidate[i] += r[i] * gh[2 * n + i];
  } else {
    double *reset = gh;
    for (int64_t i = 0; i < n; i++) reset[i] = r[i] * h[i];
    for (int64_t i = 0; i < n; i++) {
      candidate[i] += dot(k->r + (2 * n + i) * n, reset, n) + (k->rb ? k->rb[2 * n + i] : 0);
    }
  }
  for (int64_t i = 0; i < n; i++) {
    h[i] = (1 - z[i]) * activation_apply(&k->f[1], clipped(t, candidate[i])) + z[i] * h[i];
  }
}

/* Gates i, o, f, c. */
static void step_lstm(const recurrent_task *t, const weights *k, double *h, double *c, const double *gx,
                      const double *gh) {
  int64_t n = t->shape.hidden;
  for (int64_t i = 0; i < n; i++) {
    double pi = k->p ? k->p[i] * c[i] : 0, pf = k->p ? k->p[2 * n + i] * c[i] : 0;
    double in = activation_apply(&k->f[0], clipped(t, gx[i] + gh[i] + pi));
    double forget =
        t->params->input_forget ? 1 - in : activation_apply(&k->f[0], clipped(t, gx[2 * n + i] + gh[2 * n + i] + pf));
    double cell = activation_apply(&k->f[1], clipped(t, gx[3 * n + i] + gh[3 * n + i]));
    c[i] = forget * c[i] + in * cell;
    double po = k->p ? k->p[n + i] * c[i] : 0;
    double out = activation_apply(&k->f[0], clipped(t, gx[n + i] + gh[n + i] + po));
    h[i] = out * activation_apply(&k->f[2], c[i]); /* clip bounds what goes into gates, not the cell's way out */
  }
}

static void run_sequence(const recurrent_task *t, int direction, int64_t sample) {
  const recurrent_shape *s = &t->shape;
  int64_t n = s->hidden, rows = recurrent_gates(s->kind) * n;
  const double *b = t->in[RECURRENT_B] ? t->in[RECURRENT_B] + direction * 2 * rows : NULL;
  weights k = {t->in[RECURRENT_W] + direction * rows * s->input,
               t->in[RECURRENT_R] + direction * rows * n,
               b,
               b ? b + rows : NULL,
               t->in[RECURRENT_P] ? t->in[RECURRENT_P] + direction * 3 * n : NULL,
               s->functions[direction]};
  double *h = t->scratch + (direction * s->batch + sample) * scratch_size(s), *c = h + n, *gx = c + n, *gh = gx + rows;
  int64_t state = recurrent_state_at(s, direction, sample);
  for (int64_t i = 0; i < n; i++) {
    h[i] = t->in[RECURRENT_H] ? t->in[RECURRENT_H][state + i] : 0;
    c[i] = t->in[RECURRENT_C] ? t->in[RECURRENT_C][state + i] : 0;
  }
  int64_t length = t->lengths ? t->lengths[sample] : s->steps;
  bool backwards = s->reverse_first || direction == 1;
  for (int64_t step = 0; step < length; step++) {
    int64_t at = backwards ? length - 1 - step : step;
    const double *x = t->in[RECURRENT_X] + recurrent_x_at(s, at, sample);
    for (int64_t i = 0; i < rows; i++) gx[i] = dot(k.w + i * s->input, x, s->input) + (k.wb ? k.wb[i] : 0);
    for (int64_t i = 0; i < rows; i++) gh[i] = dot(k.r + i * n, h, n) + (k.rb ? k.rb[i] : 0);
    if (s->kind == RECURRENT_RNN) step_rnn(t, &k, h, gx, gh);
    if (s->kind == RECURRENT_GRU) step_gru(t, &k, h, gx, gh);
    if (s->kind == RECURRENT_LSTM) step_lstm(t, &k, h, c, gx, gh);
    if (t->out[0]) memcpy(t->out[0] + recurrent_y_at(s, at, direction, sample), h, (size_t)n * sizeof *h);
  }
  for (int64_t at = length; at < s->steps && t->out[0]; at++) {
    memset(t->out[0] + recurrent_y_at(s, at, direction, sample), 0, (size_t)n * sizeof *h);
  }
  if (t->out[1]) memcpy(t->out[1] + state, h, (size_t)n * sizeof *h);
  if (t->out[2]) memcpy(t->out[2] + state, c, (size_t)n * sizeof *h);
}

static void run_sequences(void *arg, int64_t begin, int64_t end) {
  const recurrent_task *t = arg;
  for (int64_t i = begin; i < end; i++) run_sequence(t, (int)(i / t->shape.batch), i % t->shape.batch);
}

static rlx_status eval(rlx_ctx *ctx, recurrent_kind kind) {
  recurrent_task t = {.params = ctx->params};
  RLX_TRY(recurrent_of_run(ctx, kind, &t.shape));
  int64_t sequences = t.shape.directions * t.shape.batch;
  wide in[8] = {{0}}, out[3] = {{0}};
  rlx_status status = RLX_OK;
  for (int i = 0; i < ctx->input_count && i < 8 && !status; i++) {
    if (i == RECURRENT_LENGTHS) {
      t.lengths = ctx->inputs[i].data;
    } else {
      status = wide_input(ctx, &ctx->inputs[i], RLX_DOUBLE, &in[i]);
      t.in[i] = in[i].data;
    }
  }
  for (int i = 0; i < ctx->output_count && i < 3 && !status; i++) {
    status = wide_output(ctx, &ctx->outputs[i], RLX_DOUBLE, &out[i]);
    t.out[i] = out[i].data;
  }
  if (!status) {
    t.scratch = mem_array((size_t)(sequences * scratch_size(&t.shape)), sizeof(double));
    if (!t.scratch) status = rlx_fail(ctx, RLX_OUT_OF_MEMORY, "no memory for %lld states", (long long)sequences);
  }
  if (!status) {
    if (sequences) rlx_parallel_for(ctx, sequences, 1, run_sequences, &t);
    for (int i = 0; i < ctx->output_count && i < 3; i++) wide_store(&out[i], &ctx->outputs[i]);
  }
  mem_free(t.scratch);
  for (int i = 0; i < 8; i++) wide_finish(&in[i]);
  for (int i = 0; i < 3; i++) wide_finish(&out[i]);
  return status;
}
static rlx_status eval_rnn(rlx_ctx *ctx) { return eval(ctx, RECURRENT_RNN); }
static rlx_status eval_gru(rlx_ctx *ctx) { return eval(ctx, RECURRENT_GRU); }
static rlx_status eval_lstm(rlx_ctx *ctx) { return eval(ctx, RECURRENT_LSTM); }

static rlx_status derive_rnn(rlx_graph *g, const rlx_node *n, rlx_value **y) {
  return recurrent_derive(g, n, RECURRENT_RNN, y);
}
static rlx_status derive_gru(rlx_graph *g, const rlx_node *n, rlx_value **y) {
  return recurrent_derive(g, n, RECURRENT_GRU, y);
}
static rlx_status derive_lstm(rlx_graph *g, const rlx_node *n, rlx_value **y) {
  return recurrent_derive(g, n, RECURRENT_LSTM, y);
}

/* ---- records ---------------------------------------------------------------------------------------------------- */

#define AT(member) .offset = offsetof(recurrent_params, member)
#define SHARED                                                                                                         \
  {.name = "direction", .kind = RLX_ATTR_STRING, AT(direction), .default_string = "forward"},                          \
      {.name = "hidden_size", .kind = RLX_ATTR_INT, AT(hidden_size)},                                                  \
      {.name = "activations", .kind = RLX_ATTR_STRINGS, AT(activations)},                                              \
      {.name = "activation_alpha", .kind = RLX_ATTR_FLOATS, AT(activation_alpha)},                                     \
      {.name = "activation_beta", .kind = RLX_ATTR_FLOATS, AT(activation_beta)},                                       \
      {.name = "clip", .kind = RLX_ATTR_FLOAT, AT(clip)},                                                              \
      {.name = "layout", .kind = RLX_ATTR_INT, .flags = RLX_RANGED, AT(layout), .min = 0, .max = 1}, {                 \
    .name = "output_sequence", .kind = RLX_ATTR_INT, AT(output_sequence)                                               \
  }
static const rlx_attr_def rnn_attrs[] = {SHARED, {0}};
static const rlx_attr_def gru_attrs[] = {
    SHARED, {.name = "linear_before_reset", .kind = RLX_ATTR_INT, AT(linear_before_reset)}, {0}};
static const rlx_attr_def lstm_attrs[] = {
    SHARED, {.name = "input_forget", .kind = RLX_ATTR_INT, AT(input_forget)}, {0}};
#undef AT

#define PORT(port_name) {port_name, "T", RLX_SET_FLOATS, 0, 0}
#define MAYBE(port_name) {port_name, "T", RLX_SET_FLOATS, RLX_OPTIONAL, 0}
#define USUAL_INPUTS                                                                                                   \
  PORT("X"), PORT("W"), PORT("R"), MAYBE("B"), {"sequence_lens", "T1", RLX_SET(RLX_INT32), RLX_OPTIONAL, 0},           \
      MAYBE("initial_h")
static const rlx_port inputs[] = {USUAL_INPUTS, {0}};
static const rlx_port lstm_inputs[] = {USUAL_INPUTS, MAYBE("initial_c"), MAYBE("P"), {0}};
static const rlx_port outputs[] = {MAYBE("Y"), MAYBE("Y_h"), {0}};
static const rlx_port lstm_outputs[] = {MAYBE("Y"), MAYBE("Y_h"), MAYBE("Y_c"), {0}};

#define RECORD(op_name, text, input_ports, output_ports, attributes, infer_fn, eval_fn, derive_fn, ...)                \
  {                                                                                                                    \
    .struct_size = sizeof(rlx_op), .name = op_name, .version = 1, .doc = text,                                         \
    .samples = (const char *const[]){__VA_ARGS__, NULL}, .inputs = input_ports, .outputs = output_ports,               \
    .attrs = attributes, .params_size = sizeof(recurrent_params), .traits = RLX_PURE, .infer = infer_fn, .eval = eval_fn,     \
    .derive = derive_fn                                                                                                \
  }
static const rlx_op rnn =
    RECORD("onnx.RNN", "One-gate recurrent layer, in one or both directions.", inputs, outputs, rnn_attrs, infer_rnn,
           eval_rnn, derive_rnn, "float[4,2,3], float[1,5,3], float[1,5,5], float[1,10]");
static const rlx_op gru =
    RECORD("onnx.GRU", "Gated recurrent unit layer, in one or both directions.", inputs, outputs, gru_attrs, infer_gru,
           eval_gru, derive_gru, "float[4,2,3], float[1,15,3], float[1,15,5], float[1,30]");
static const rlx_op lstm =
    RECORD("onnx.LSTM", "Long short-term memory layer with optional peepholes, in one or both directions.", lstm_inputs,
           lstm_outputs, lstm_attrs, infer_lstm, eval_lstm, derive_lstm,
           "float[4,2,3], float[1,20,3], float[1,20,5], float[1,40]",
           "float[4,2,3], float[2,20,3], float[2,20,5] {direction = \"bidirectional\"}");

static const rlx_op *const ops[] = {&rnn, &gru, &lstm, NULL};
const rlx_module ops_recurrent = {.ops = ops};
