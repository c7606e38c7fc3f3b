/* _gridsample_derive.c — GridSample as arithmetic on coordinates and gathers, which have derivatives. */
#include "ops/_gridsample.h"

#include <stdio.h>

#include "base/text.h"
#include "ops/_derivative.h"
#include "ops/_window.h"

/* What the text is about. */
typedef struct grid_text {
  text out;
  int axes;
  const int64_t *dims; /* of X, spatial */
  const char *dtype;
  bool cubic, nearest, corners, border, reflection;
} grid_text;

/* "r = v reflected into [low, high]": one period is folded in the middle. */
static void put_reflect(grid_text *t, const char *r, const char *v, double low, double high) {
  if (high <= low) { /* one place only */
    text_printf(&t->out, " %1$s_0 = Sub (%2$s, %2$s) %1$s = Add (%1$s_0, low_%1$s)", r, v);
    return;
  }
  text_printf(&t->out,
              " %1$s_a = Sub (%2$s, low_%1$s) %1$s_u = Abs (%1$s_a) %1$s_q = Div (%1$s_u, two_%1$s)"
              " %1$s_f = Floor (%1$s_q) %1$s_w = Mul (%1$s_f, two_%1$s) %1$s_m = Sub (%1$s_u, %1$s_w)"
              " %1$s_g = Greater (%1$s_m, one_%1$s) %1$s_b = Sub (two_%1$s, %1$s_m)"
              " %1$s_c = Where (%1$s_g, %1$s_b, %1$s_m) %1$s = Add (%1$s_c, low_%1$s)",
              r, v);
}

static void put_reflect_constants(grid_text *t, const char *r, double low, double high) {
  text_printf(&t->out, ", %s low_%s = {%.17g}, %s two_%s = {%.17g}, %s one_%s = {%.17g}", t->dtype, r, low, t->dtype, r,
              2 * (high - low), t->dtype, r, high - low);
}

static double low_of(const grid_text *t) { return t->corners ? 0 : -0.5; }
static double high_of(const grid_text *t, int d) {
  return t->corners ? (double)t->dims[d] - 1 : (double)t->dims[d] - 0.5;
}

static void put_constants(grid_text *t) {
  text *o = &t->out;
  text_printf(o,
              "grid (x, raw) => (y) <int64[2] flat = {0, -1}, int64[3] planes = {0, 0, -1}, int64[1] one_axis = {1},"
              " %s half = {0.5}, %s one = {1}, %s zero = {0}",
              t->dtype, t->dtype, t->dtype);
  for (int d = 0; d < t->axes; d++) {
    double n = (double)t->dims[d];
    char r[32];
    text_printf(
        o,
        ", int64 pick%d = {%d}, %s scale%d = {%.17g}, %s shift%d = {%.17g}, %s top%d = {%.17g}, int64 step%d = {%lld}",
        d, t->axes - 1 - d, t->dtype, d, t->corners ? (n - 1) / 2 : n / 2, t->dtype, d, (n - 1) / 2, t->dtype, d, n - 1,
        d, (long long)t->dims[d]);
    for (int k = 0; k < 4; k++) text_printf(o, ", %s off%d_%d = {%d}", t->dtype, d, k, t->cubic ? k - 1 : k);
    snprintf(r, sizeof r, "r%d", d);
    put_reflect_constants(t, r, low_of(t), high_of(t, d));
    for (int k = 0; k < 4; k++) {
      snprintf(r, sizeof r, "p%d_%d", d, k);
      put_reflect_constants(t, r, low_of(t), high_of(t, d));
    }
  }
  text_printf(o, ", %s c0 = {-0.75}, %s c1 = {3.75}, %s c2 = {-6}, %s c3 = {3}, %s k0 = {1.25}, %s k1 = {-2.25}",
              t->dtype, t->dtype, t->dtype, t->dtype, t->dtype, t->dtype);
  text_add(o, "> { grid = CastLike (raw, x) xf = Reshape (x, planes) nc = Shape <end = 2> (x)"
              " ex = Concat <axis = 0> (nc, one_axis) os = Shape <start = 1, end = -1> (raw)"
              " full = Concat <axis = 0> (nc, os)");
}

/* The weight of tap k from its distance, Keys' cubic with a = -0.75. */
static void put_cubic_weight(grid_text *t, int d, int k) {
  text_printf(&t->out,
              " e%1$d_%2$d = Sub (f%1$d, off%1$d_%2$d) d%1$d_%2$d = Abs (e%1$d_%2$d)"
              " s%1$d_%2$d = Mul (d%1$d_%2$d, d%1$d_%2$d)",
              d, k);
  if (k == 1 || k == 2) /* ((a + 2) d - (a + 3)) d d + 1 */
    text_printf(&t->out,
                " g%1$d_%2$d = Mul (d%1$d_%2$d, k0) h%1$d_%2$d = Add (g%1$d_%2$d, k1)"
                " i%1$d_%2$d = Mul (h%1$d_%2$d, s%1$d_%2$d) w%1$d_%2$d = Add (i%1$d_%2$d, one)",
                d, k);
  else /* ((a d - 5 a) d + 8 a) d - 4 a */
    text_printf(&t->out,
                " g%1$d_%2$d = Mul (d%1$d_%2$d, c0) h%1$d_%2$d = Add (g%1$d_%2$d, c1)"
                " i%1$d_%2$d = Mul (h%1$d_%2$d, d%1$d_%2$d) j%1$d_%2$d = Add (i%1$d_%2$d, c2)"
                " l%1$d_%2$d = Mul (j%1$d_%2$d, d%1$d_%2$d) w%1$d_%2$d = Add (l%1$d_%2$d, c3)",
                d, k);
}

static int tap_count(const grid_text *t) { return t->nearest ? 1 : t->cubic ? 4 : 2; }

/* Position and weight of tap k: at<d>_<k> (moved inside) and v<d>_<k>. */
static void put_tap(grid_text *t, int d, int k) {
  char r[32], p[32];
  text_printf(&t->out, " p%1$d_%2$d_0 = Add (base%1$d, off%1$d_%2$d)", d, k);
  snprintf(p, sizeof p, "p%d_%d_0", d, k);
  if (t->cubic && t->reflection) {
    snprintf(r, sizeof r, "p%d_%d", d, k);
    put_reflect(t, r, p, low_of(t), high_of(t, d));
    snprintf(p, sizeof p, "%s", r);
  }
  text_printf(&t->out, " q%1$d_%2$d = Clip (%3$s, zero, top%1$d) at%1$d_%2$d = Cast <to = 7> (q%1$d_%2$d)", d, k, p);
  if (t->nearest)
    text_printf(&t->out, " w%1$d_%2$d = Sub (one, z%1$d)", d, k);
  else if (t->cubic)
    put_cubic_weight(t, d, k);
  else
    text_printf(&t->out, k ? " w%1$d_%2$d = Identity (f%1$d)" : " w%1$d_%2$d = Sub (one, f%1$d)", d, k);
  if (t->border || t->reflection)
    text_printf(&t->out, " v%1$d_%2$d = Identity (w%1$d_%2$d)", d, k);
  else
    text_printf(&t->out,
                " in%1$d_%2$d = Equal (q%1$d_%2$d, p%1$d_%2$d_0) v%1$d_%2$d = Where (in%1$d_%2$d, w%1$d_%2$d, zero)", d,
                k);
}

static void put_axis(grid_text *t, int d) {
  char r[16], v[16];
  text_printf(
      &t->out,
      " g%1$d = Gather <axis = -1> (grid, pick%1$d) h%1$d = Reshape (g%1$d, flat) m%1$d = Mul (h%1$d, scale%1$d)"
      " u%1$d = Add (m%1$d, shift%1$d) n%1$d = %2$s (u%1$d)",
      d, t->nearest ? "Round" : "Identity");
  snprintf(r, sizeof r, "r%d", d);
  snprintf(v, sizeof v, "n%d", d);
  if (t->cubic || !(t->border || t->reflection))
    text_printf(&t->out, " r%1$d = Identity (n%1$d)", d);
  else if (t->border)
    text_printf(&t->out, " r%1$d = Clip (n%1$d, zero, top%1$d)", d);
  else
    put_reflect(t, r, v, low_of(t), high_of(t, d));
  text_printf(&t->out,
              t->nearest ? " base%1$d = Round (r%1$d) z%1$d = Sub (base%1$d, base%1$d)"
                         : " base%1$d = Floor (r%1$d) f%1$d = Sub (r%1$d, base%1$d)",
              d);
  for (int k = 0; k < tap_count(t); k++) put_tap(t, d, k);
}

/* One combination of taps: gathers the elements and adds them, weighted. */
static void put_corner(grid_text *t, const int64_t *tap, int number) {
  text_printf(&t->out, " a%1$d_0 = Identity (at0_%2$d) b%1$d_0 = Identity (v0_%2$d)", number, (int)tap[0]);
  for (int d = 1; d < t->axes; d++)
    text_printf(&t->out,
                " m%1$d_%2$d = Mul (a%1$d_%3$d, step%2$d) a%1$d_%2$d = Add (m%1$d_%2$d, at%2$d_%4$d)"
                " b%1$d_%2$d = Mul (b%1$d_%3$d, v%2$d_%4$d)",
                number, d, d - 1, (int)tap[d]);
  text_printf(&t->out,
              " i%1$d = Unsqueeze (a%1$d_%2$d, one_axis) j%1$d = Expand (i%1$d, ex)"
              " e%1$d = GatherElements <axis = 2> (xf, j%1$d) w%1$d = Unsqueeze (b%1$d_%2$d, one_axis)"
              " t%1$d = Mul (e%1$d, w%1$d)",
              number, t->axes - 1);
  if (number)
    text_printf(&t->out, " s%1$d = Add (s%2$d, t%1$d)", number, number - 1);
  else
    text_add(&t->out, " s0 = Identity (t0)");
}

static rlx_status build(rlx_graph *g, grid_text *t, rlx_value *const *in, rlx_value **outputs) {
  int64_t tap[WINDOW_MAX] = {0}, count[WINDOW_MAX];
  int number = 0;
  put_constants(t);
  for (int d = 0; d < t->axes; d++) put_axis(t, d);
  for (int d = 0; d < t->axes; d++) count[d] = tap_count(t);
  do {
    put_corner(t, tap, number++);
  } while (window_next(t->axes, count, tap));
  text_printf(&t->out, " y = Reshape (s%d, full) }", number - 1);
  if (t->out.failed) return rlx_graph_fail(g, RLX_OUT_OF_MEMORY, "no memory for a derivative");
  return derivative_text(g, in, outputs, "%s", t->out.data);
}

rlx_status grid_sample_derive(rlx_graph *g, const rlx_node *n, rlx_value **outputs) {
  const grid_params *p = rlx_node_params(n);
  rlx_value *in[2] = {rlx_node_input(n, 0), rlx_node_input(n, 1)};
  const rlx_type *x = rlx_value_type(in[0]);
  bool known = x->rank >= 3 && x->rank <= 5;
  for (int d = 2; known && d < x->rank; d++) known = x->dims[d] > 0;
  if (!known) return rlx_graph_fail(g, RLX_UNSUPPORTED, "X must have one to three spatial axes of known dims");
  grid_text t = {.axes = x->rank - 2,
                 .dims = x->dims + 2,
                 .dtype = rlx_dtype_name(x->dtype),
                 .cubic = grid_word(&p->mode, "cubic") || grid_word(&p->mode, "bicubic"),
                 .nearest = grid_word(&p->mode, "nearest"),
                 .corners = p->align_corners != 0,
                 .border = grid_word(&p->padding_mode, "border"),
                 .reflection = grid_word(&p->padding_mode, "reflection")};
  rlx_status status = build(g, &t, in, outputs);
  text_finish(&t.out);
  return status;
}

/* theta times the coordinates that the identity matrix would give. */
rlx_status affine_grid_derive(rlx_graph *g, const rlx_node *n, rlx_value **outputs) {
  const grid_params *p = rlx_node_params(n);
  rlx_value *in[2] = {rlx_node_input(n, 0), rlx_node_input(n, 1)};
  const rlx_type *theta = rlx_value_type(in[0]);
  int axes = theta->rank == 3 && theta->dims[1] >= 2 && theta->dims[1] <= 3 ? (int)theta->dims[1] : 0;
  if (!axes) return rlx_graph_fail(g, RLX_UNSUPPORTED, "theta must have known dims");
  return derivative_text(
      g, in, outputs,
      "affine (theta, size) => (y) <%s[1,%d,%d] unit = {%s}, int64[1] first = {1}, int64[2] rows = {-1, %d},"
      " int64[1] from = {1}, int64[1] to = {9}, int64[1] last = {1}> {"
      " rest = Slice (size, from, to) one = Concat <axis = 0> (first, rest)"
      " points = AffineGrid <align_corners = %d> (unit, one) flat = Reshape (points, rows) zero = Sub (flat, flat)"
      " none = ReduceSum (zero, last) ones = Exp (none) base = Concat <axis = 1> (flat, ones)"
      " t = Transpose <perm = [0, 2, 1]> (theta) product = MatMul (base, t)"
      " n = Shape <end = 1> (theta) s = Shape <start = 1> (points) full = Concat <axis = 0> (n, s)"
      " y = Reshape (product, full) }",
      rlx_dtype_name(theta->dtype), axes, axes + 1,
      axes == 2 ? "1, 0, 0, 0, 1, 0" : "1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0", axes, p->align_corners != 0);
}
