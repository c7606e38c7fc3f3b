/* _recurrent_derive.c — RNN, GRU and LSTM as a scan over the steps, which has derivatives. */
#include <stdio.h>

#include "base/status.h"
#include "base/text.h"
#include "ops/_derivative.h"
#include "ops/recurrent.h"

typedef struct recurrent_text {
  text out;
  const recurrent_params *params;
  recurrent_shape shape;
  rlx_value *in[8];
  const char *dtype;
} recurrent_text;

static void put_function(recurrent_text *t, const activation *f, const char *to, const char *from) {
  text *o = &t->out;
  double a = f->alpha, b = f->beta;
  switch (f->kind) {
    case ACTIVATION_TANH: text_printf(o, " %s = Tanh (%s)", to, from); break;
    case ACTIVATION_SIGMOID: text_printf(o, " %s = Sigmoid (%s)", to, from); break;
    case ACTIVATION_RELU: text_printf(o, " %s = Relu (%s)", to, from); break;
    case ACTIVATION_LEAKY_RELU: text_printf(o, " %s = LeakyRelu <alpha = %.9g> (%s)", to, a, from); break;
    case ACTIVATION_THRESHOLDED_RELU: text_printf(o, " %s = ThresholdedRelu <alpha = %.9g> (%s)", to, a, from); break;
    case ACTIVATION_HARD_SIGMOID:
      text_printf(o, " %s = HardSigmoid <alpha = %.9g, beta = %.9g> (%s)", to, a, b, from);
      break;
    case ACTIVATION_ELU: text_printf(o, " %s = Elu <alpha = %.9g> (%s)", to, a, from); break;
    case ACTIVATION_SOFTSIGN: text_printf(o, " %s = Softsign (%s)", to, from); break;
    case ACTIVATION_SOFTPLUS: text_printf(o, " %s = Softplus (%s)", to, from); break;
    case ACTIVATION_AFFINE:
      text_printf(o,
                  " %1$s_a = Constant <value = %3$s {%4$.9g}> () %1$s_b = Constant <value = %3$s {%5$.9g}> ()"
                  " %1$s_m = Mul (%2$s, %1$s_a) %1$s = Add (%1$s_m, %1$s_b)",
                  to, from, t->dtype, a, b);
      break;
    default: /* alpha tanh(beta x) */
      text_printf(o,
                  " %1$s_a = Constant <value = %3$s {%4$.9g}> () %1$s_b = Constant <value = %3$s {%5$.9g}> ()"
                  " %1$s_m = Mul (%2$s, %1$s_b) %1$s_t = Tanh (%1$s_m) %1$s = Mul (%1$s_t, %1$s_a)",
                  to, from, t->dtype, a, b);
  }
}

/* "to = f(from)", within the clip. */
static void put_gate(recurrent_text *t, const activation *f, const char *to, const char *from) {
  char name[64];
  if (t->params->clip > 0) {
    text_printf(&t->out, " %1$s_c = Clip (%2$s, low, high)", to, from);
    snprintf(name, sizeof name, "%s_c", to);
    put_function(t, f, to, name);
  } else {
    put_function(t, f, to, from);
  }
}

static void put_rnn(recurrent_text *t, const activation *f) {
  text_add(&t->out, " sum = Add (gx, gh)");
  put_gate(t, &f[0], "next_h", "sum");
}

static void put_gru(recurrent_text *t, const activation *f) {
  text *o = &t->out;
  text_add(o,
           " xz, xr, xh = Split <axis = -1, num_outputs = 3> (gx) hz, hr, hh = Split <axis = -1, num_outputs = 3> (gh)"
           " z0 = Add (xz, hz) r0 = Add (xr, hr)");
  put_gate(t, &f[0], "z", "z0");
  put_gate(t, &f[0], "r", "r0");
  if (t->params->linear_before_reset)
    text_add(o, " rh = Mul (r, hh) c0 = Add (xh, rh)");
  else
    text_add(o, " rh = Mul (r, h) rr = MatMul (rh, rcand) rb = Add (rr, bcand) c0 = Add (xh, rb)");
  put_gate(t, &f[1], "c", "c0");
  text_add(o, " keep = Mul (z, h) rest = Sub (unit, z) take = Mul (rest, c) next_h = Add (take, keep)");
}

/* Gates i, o, f, c. */
static void put_lstm(recurrent_text *t, const activation *f) {
  text *o = &t->out;
  bool peeps = t->in[RECURRENT_P] != NULL;
  text_add(o, " sum = Add (gx, gh) i0, o0, f0, c0 = Split <axis = -1, num_outputs = 4> (sum)");
  text_add(o, peeps ? " pi = Mul (c, peep_i) i1 = Add (i0, pi) pf = Mul (c, peep_f) f1 = Add (f0, pf)"
                    : " i1 = Identity (i0) f1 = Identity (f0)");
  put_gate(t, &f[0], "i", "i1");
  if (t->params->input_forget)
    text_add(o, " forget = Sub (unit, i)");
  else
    put_gate(t, &f[0], "forget", "f1");
  put_gate(t, &f[1], "cell", "c0");
  text_add(o, " kept = Mul (forget, c) added = Mul (i, cell) next_c = Add (kept, added)");
  text_add(o, peeps ? " po = Mul (next_c, peep_o) o1 = Add (o0, po)" : " o1 = Identity (o0)");
  put_gate(t, &f[0], "shown", "o1");
  put_function(t, &f[2], "outward", "next_c");
  text_add(o, " next_h = Mul (shown, outward)");
}

/* The body of one direction's scan. Steps past a sample's length leave the states as they are and give zeros. */
static void put_body(recurrent_text *t, int d) {
  bool cells = t->shape.kind == RECURRENT_LSTM, lengths = t->in[RECURRENT_LENGTHS] != NULL;
  text *o = &t->out;
  text_printf(o, " body = step (h%s, gx, at) => (h_out%s, y_out) { hr0 = MatMul (h, rt) gh = Add (hr0, rb0)",
              cells ? ", c" : "", cells ? ", c_out" : "");
  const activation *f = t->shape.functions[d];
  if (t->shape.kind == RECURRENT_RNN) put_rnn(t, f);
  if (t->shape.kind == RECURRENT_GRU) put_gru(t, f);
  if (cells) put_lstm(t, f);
  if (lengths) {
    text_add(o, " on0 = Less (at, limits) on = Unsqueeze (on0, axis1) h_out = Where (on, next_h, h)"
                " y_out = Where (on, next_h, none)");
    if (cells) text_add(o, " c_out = Where (on, next_c, c)");
  } else {
    text_add(o, " h_out = Identity (next_h) y_out = Identity (next_h)");
    if (cells) text_add(o, " c_out = Identity (next_c)");
  }
  text_add(o, " }");
}

static void put_state(recurrent_text *t, const char *to, const char *from, bool given) {
  if (given)
    text_printf(&t->out, " %s = Gather <axis = %d> (%s, which)", to, t->shape.batch_first, from);
  else
    text_printf(&t->out, " %s = Expand (none, size)", to);
}

static void put_weights(recurrent_text *t) {
  text *o = &t->out;
  bool cells = t->shape.kind == RECURRENT_LSTM;
  text_add(o, " w = Gather (W, which) r = Gather (R, which) wt = Transpose <perm = [1, 0]> (w)"
              " rt = Transpose <perm = [1, 0]> (r) xw = MatMul (x, wt)");
  if (t->in[RECURRENT_B])
    text_add(o, " b = Gather (B, which) wb, rb0 = Split <axis = 0, num_outputs = 2> (b) gxs = Add (xw, wb)");
  else
    text_add(o, " gxs = Identity (xw) rb0 = Identity (none)");
  if (t->shape.kind == RECURRENT_GRU && !t->params->linear_before_reset) {
    text_add(o, " r0a, r0b, r0c = Split <axis = 0, num_outputs = 3> (r) rcand = Transpose <perm = [1, 0]> (r0c)");
    text_add(o, t->in[RECURRENT_B] ? " b0a, b0b, bcand = Split <axis = 0, num_outputs = 3> (rb0)"
                                   : " bcand = Identity (none)");
  }
  if (cells && t->in[RECURRENT_P])
    text_add(o, " p = Gather (P, which) peep_i, peep_o, peep_f = Split <axis = 0, num_outputs = 3> (p)");
  put_state(t, "h0", "H", t->in[RECURRENT_H] != NULL);
  if (cells) put_state(t, "c0", "C", t->in[RECURRENT_C] != NULL);
}

static void put_direction(recurrent_text *t, int d) {
  bool cells = t->shape.kind == RECURRENT_LSTM;
  int back = t->shape.reverse_first || d == 1;
  text *o = &t->out;
  put_weights(t);
  text_printf(o,
              " h_last%s, ys = Scan <num_scan_inputs = 2, scan_input_directions = [%d, %d],"
              " scan_output_directions = [%d],",
              cells ? ", c_last" : "", back, back, back);
  put_body(t, d);
  text_printf(o, "> (h0%s, gxs, steps) y = Unsqueeze (ys, axis1) yh = Unsqueeze (h_last, axis%d)", cells ? ", c0" : "",
              t->shape.batch_first);
  if (cells) text_printf(o, " yc = Unsqueeze (c_last, axis%d)", t->shape.batch_first);
  text_add(o, " }");
}

/* One direction: Y (steps × 1 × batch × hidden), and the last states with the axis of directions. */
static rlx_status direction(rlx_graph *g, recurrent_text *t, int d, rlx_value **made) {
  text *o = &t->out;
  o->size = 0;
  text_printf(
      o,
      "layer (X, W, R, B, L, H, C, P) => (y, yh%s) <int64 which = {%d}, int64[1] axis0 = {0}, int64[1] axis1 = {1},"
      " int64 zero = {0}, int64 one = {1}, int64[1] hidden = {%lld}, %s none = {0}, %s unit = {1},"
      " %s low = {%.9g}, %s high = {%.9g}> {",
      t->shape.kind == RECURRENT_LSTM ? ", yc" : "", d, (long long)t->shape.hidden, t->dtype, t->dtype, t->dtype,
      -(double)t->params->clip, t->dtype, (double)t->params->clip);
  text_printf(o,
              " x = %s (X) batch = Shape <start = 1, end = 2> (x) size = Concat <axis = 0> (batch, hidden)"
              " dims = Shape (x) count = Gather (dims, zero) steps = Range (zero, count, one)",
              t->shape.batch_first ? "Transpose <perm = [1, 0, 2]>" : "Identity");
  if (t->in[RECURRENT_LENGTHS]) text_add(o, " limits = Cast <to = 7> (L)");
  put_direction(t, d);
  if (o->failed) return rlx_graph_fail(g, RLX_OUT_OF_MEMORY, "no memory for a derivative");
  return derivative_text(g, t->in, made, "%s", o->data);
}

static rlx_status layer(rlx_graph *g, const rlx_node *n, recurrent_text *t, rlx_value **outputs) {
  rlx_value *made[2][3] = {{NULL}};
  for (int d = 0; d < t->shape.directions; d++) RLX_TRY(direction(g, t, d, made[d]));
  for (int i = 0; i < rlx_node_output_count(n) && i < 3; i++) {
    rlx_value *both[2] = {made[0][i], made[1][i]};
    rlx_attr axis = RLX_ATTR_I("axis", i == 0 || t->shape.batch_first);
    outputs[i] = t->shape.directions == 2 ? rlx_graph_op(g, "onnx.Concat", &axis, 1, both, 2) : both[0];
    int64_t order[] = {2, 0, 1, 3};
    rlx_attr perm = {.name = "perm", .kind = RLX_ATTR_INTS, .ints = order, .count = 4};
    if (i == 0 && t->shape.batch_first) outputs[i] = rlx_graph_op(g, "onnx.Transpose", &perm, 1, &outputs[i], 1);
  }
  return rlx_graph_status(g);
}

rlx_status recurrent_derive(rlx_graph *g, const rlx_node *n, recurrent_kind kind, rlx_value **outputs) {
  recurrent_text t = {.params = rlx_node_params(n)};
  for (int i = 0; i < 8; i++) t.in[i] = rlx_node_input(n, i);
  const char *bad = recurrent_attributes(kind, t.params, &t.shape);
  if (bad) return rlx_graph_fail(g, RLX_INVALID, "%s", bad);
  const rlx_type *r = rlx_value_type(t.in[RECURRENT_R]);
  t.dtype = rlx_dtype_name(r->dtype);
  t.shape.hidden = r->rank == 3 ? r->dims[2] : -1;
  if (t.shape.hidden < 1) return rlx_graph_fail(g, RLX_UNSUPPORTED, "the dims of R must be known");
  rlx_status status = layer(g, n, &t, outputs);
  text_finish(&t.out);
  return status;
}
