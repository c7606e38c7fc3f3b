/* _attention_derive.c — attention as products and a softmax, which have derivatives. */
#include <math.h>

#include "base/text.h"
#include "ops/_derivative.h"
#include "ops/attention.h"

typedef struct attention_text {
  text out;
  const rlx_node *node;
  const attention_params *params;
  rlx_value *in[7];
  bool packed;
  int64_t q_heads, kv_heads, size;
} attention_text;

/* Where attending is not allowed: position and column of each score, compared. */
static bool put_limits(attention_text *t) {
  const attention_params *p = t->params;
  text *o = &t->out;
  rlx_value *lengths = t->in[ATTENTION_LENGTHS];
  bool any = p->is_causal || p->left_window_size >= 0 || p->right_window_size >= 0 || lengths;
  if (!any) return false;
  text_add(o, " kd = Shape (k) qd = Shape (q) total = Gather (kd, two) rows = Gather (qd, two)"
              " cs = Range (zero, total, one) rs = Range (zero, rows, one) r1 = Unsqueeze (rs, axis1)");
  if (lengths)
    text_add(o, " valid = Reshape (lengths, column) back = Sub (valid, rows) position = Add (r1, back)"
                " l0 = GreaterOrEqual (cs, valid) limit0 = Identity (l0)");
  else
    text_add(o, " news = Shape (k0) new = Gather (news, two) past = Sub (total, new) position = Add (r1, past)"
                " limit0 = Less (cs, zero)");
  text_add(o, " ahead = Sub (cs, position) behind = Sub (position, cs)");
  text_add(o, p->is_causal ? " c1 = Greater (ahead, zero) limit1 = Or (limit0, c1)" : " limit1 = Identity (limit0)");
  text_add(o, p->left_window_size >= 0 ? " c2 = Greater (behind, left) limit2 = Or (limit1, c2)"
                                       : " limit2 = Identity (limit1)");
  text_add(o, p->right_window_size >= 0 ? " c3 = Greater (ahead, right) limit3 = Or (limit2, c3)"
                                        : " limit3 = Identity (limit2)");
  return true;
}

/* "bad": true where a score does not count; "m": the scores with the mask added. False: every score counts. */
static bool put_mask(attention_text *t) {
  const rlx_value *mask = t->in[ATTENTION_MASK];
  text *o = &t->out;
  bool limited = put_limits(t);
  rlx_dtype dtype = mask ? rlx_value_type(mask)->dtype : RLX_UNDEFINED;
  if (!mask) {
    text_add(o, limited ? " bad = Identity (limit3) m = Identity (c)" : " m = Identity (c)");
    return limited;
  }
  if (dtype == RLX_BOOL) {
    text_add(o, " off = Not (mask) m = Identity (c)");
  } else {
    text_add(o, " mc = CastLike (mask, c) off = IsInf <detect_positive = 0> (mc) mf = Where (off, nothing, mc)"
                " m = Add (c, mf)");
  }
  text_add(o, limited ? " bad = Or (limit3, off)" : " bad = Identity (off)");
  return true;
}

static void put_heads(attention_text *t, const char *to, const char *from, const char *heads) {
  if (t->packed)
    text_printf(&t->out, " %1$s_s = Reshape (%2$s, %3$s) %1$s = Transpose <perm = [0, 2, 1, 3]> (%1$s_s)", to, from,
                heads);
  else
    text_printf(&t->out, " %s = Identity (%s)", to, from);
}

/* k and v of all queries' heads: each key head as often as it is shared. */
static void put_shared(attention_text *t, const char *to, const char *from) {
  if (t->q_heads == t->kv_heads)
    text_printf(&t->out, " %s = Identity (%s)", to, from);
  else
    text_printf(&t->out,
                " %1$s_u = Unsqueeze (%2$s, axis2) %1$s_e = Expand (%1$s_u, group) %1$s_b = Shape <end = 1> (%2$s)"
                " %1$s_t = Shape <start = 2> (%2$s) %1$s_n = Concat <axis = 0> (%1$s_b, heads, %1$s_t)"
                " %1$s = Reshape (%1$s_e, %1$s_n)",
                to, from);
}

static void put_head(attention_text *t) {
  const attention_params *p = t->params;
  const char *dtype = rlx_dtype_name(rlx_value_type(t->in[0])->dtype);
  double scale = p->given & 1 ? (double)p->scale : t->size ? 1 / sqrt((double)t->size) : 1;
  text_printf(
      &t->out,
      "attention (q0, kn, vn, mask, past_k, past_v, lengths) => (y, pk, pv, shown) <int64[4] qs = {0, 0, %lld, -1},"
      " int64[4] ks = {0, 0, %lld, -1}, int64[3] packed = {0, 0, -1}, int64[1] heads = {%lld},"
      " int64[5] group = {1, 1, %lld, 1, 1}, int64 zero = {0}, int64 one = {1}, int64 two = {2},"
      " int64[1] axis1 = {1}, int64[1] axis2 = {2}, int64[4] column = {-1, 1, 1, 1}, int64 left = {%lld},"
      " int64 right = {%lld}, %s scale = {%.17g}, %s cap = {%.9g}, %s nothing = {0}, %s lowest = {-60000},"
      " %s infinite = {-inf}> {",
      (long long)t->q_heads, (long long)t->kv_heads, (long long)t->q_heads, (long long)(t->q_heads / t->kv_heads),
      (long long)p->left_window_size, (long long)p->right_window_size, dtype, scale, dtype, (double)p->softcap, dtype,
      dtype, dtype);
}

static rlx_status build(rlx_graph *g, attention_text *t, rlx_value **made) {
  const attention_params *p = t->params;
  text *o = &t->out;
  put_head(t);
  put_heads(t, "q", "q0", "qs");
  put_heads(t, "k0", "kn", "ks");
  put_heads(t, "v0", "vn", "ks");
  text_add(o, t->in[ATTENTION_PAST_K] ? " k = Concat <axis = 2> (past_k, k0) v = Concat <axis = 2> (past_v, v0)"
                                      : " k = Identity (k0) v = Identity (v0)");
  text_add(o, " pk = Identity (k) pv = Identity (v)");
  put_shared(t, "ka", "k");
  put_shared(t, "va", "v");
  text_add(o, " kt = Transpose <perm = [0, 1, 3, 2]> (ka) raw = MatMul (q, kt) a = Mul (raw, scale)");
  text_add(o, p->softcap > 0 ? " a1 = Div (a, cap) a2 = Tanh (a1) c = Mul (a2, cap)" : " c = Identity (a)");
  if (put_mask(t))
    text_add(o, " n = Where (bad, lowest, m) s0 = Softmax <axis = -1> (n) w = Where (bad, nothing, s0)"
                " view = Where (bad, infinite, m)");
  else
    text_add(o, " w = Softmax <axis = -1> (m) view = Identity (m)");
  text_printf(o, " shown = Identity (%s) wv = CastLike (w, va) h0 = MatMul (wv, va) h = CastLike (h0, q)",
              p->qk_matmul_output_mode == 0   ? "a"
              : p->qk_matmul_output_mode == 1 ? "c"
              : p->qk_matmul_output_mode == 2 ? "view"
                                              : "w");
  text_add(o,
           t->packed ? " ht = Transpose <perm = [0, 2, 1, 3]> (h) y = Reshape (ht, packed) }" : " y = Identity (h) }");
  if (o->failed) return rlx_graph_fail(g, RLX_OUT_OF_MEMORY, "no memory for a derivative");
  return derivative_text(g, t->in, made, "%s", o->data);
}

rlx_status attention_derive(rlx_graph *g, const rlx_node *n, rlx_value **outputs) {
  const attention_params *p = rlx_node_params(n);
  attention_text t = {.node = n, .params = p};
  rlx_value *made[4];
  for (int i = 0; i < 7; i++) t.in[i] = rlx_node_input(n, i);
  const rlx_type *q = rlx_value_type(t.in[0]), *k = rlx_value_type(t.in[1]);
  t.packed = q->rank == 3;
  t.q_heads = t.packed ? p->q_num_heads : q->rank == 4 ? q->dims[1] : -1;
  t.kv_heads = t.packed ? p->kv_num_heads : k->rank == 4 ? k->dims[1] : -1;
  int64_t width = q->rank < 3 ? -1 : q->dims[q->rank - 1];
  t.size = t.packed && t.q_heads > 0 && width >= 0 ? width / t.q_heads : width;
  if (t.q_heads < 1 || t.kv_heads < 1 || t.q_heads % t.kv_heads || (t.size < 0 && !(p->given & 1)))
    return rlx_graph_fail(g, RLX_UNSUPPORTED, "the number and size of the heads must be known");
  rlx_status status = build(g, &t, made);
  text_finish(&t.out);
  for (int i = 0; i < rlx_node_output_count(n) && i < 4 && status == RLX_OK; i++) outputs[i] = made[i];
  return status;
}
