/* check.c — central differences, and what derivatives give, over the same inputs. */
#include "grad/check.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "ir/dtype.h"
#include "ir/graph.h"
#include "ir/infer.h"
#include "ir/parse.h"
#include "ir/shape.h"

enum { MOST_PORTS = 32, ELEMENTS = 64 };

/* Everything of one check. Owned: finish. */
typedef struct checker {
  const grad_check *how;
  grad_report *report;
  rlx_graph *graph;
  rlx_graph *backward, *forward;
  rlx_session *plain, *back, *ahead;
  int inputs, outputs;
  rlx_tensor *x[MOST_PORTS], *t[MOST_PORTS]; /* inputs; tangents of float ones */
  rlx_tensor *y[MOST_PORTS], *u[MOST_PORTS]; /* outputs; gradients of float ones */
  bool has_gradient[MOST_PORTS], has_tangent[MOST_PORTS];
  uint64_t random;
  double step, tolerance;
} checker;

static bool is_float(rlx_dtype t) { return (RLX_SET_FLOATS >> t & 1) != 0; }

static double draw(checker *c, double low, double high) {
  uint64_t z = c->random += UINT64_C(0x9e3779b97f4a7c15);
  z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
  z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
  z ^= z >> 31;
  return low + (high - low) * ((double)(z >> 11) * 0x1p-53);
}

static void release(rlx_tensor **list, int count) {
  for (int i = 0; i < count; i++) {
    rlx_tensor_destroy(list[i]);
    list[i] = NULL;
  }
}

static void finish(checker *c) {
  release(c->x, c->inputs), release(c->t, c->inputs);
  release(c->y, c->outputs), release(c->u, c->outputs);
  rlx_session_destroy(c->plain), rlx_session_destroy(c->back), rlx_session_destroy(c->ahead);
  rlx_graph_destroy(c->graph), rlx_graph_destroy(c->backward), rlx_graph_destroy(c->forward);
}

/* ---- running ------------------------------------------------------------------------------ */

static rlx_status bind_all(rlx_session *s, rlx_binding *b, rlx_tensor *const *inputs) {
  for (int i = 0; i < rlx_session_input_count(s); i++) {
    rlx_port_info port;
    RLX_TRY(rlx_session_input(s, i, &port));
    RLX_TRY(rlx_binding_input(b, port.name, inputs[i], 0));
  }
  return RLX_OK;
}

static rlx_status fetch(rlx_session *s, rlx_binding *b, rlx_tensor **outputs) {
  for (int i = 0; i < rlx_session_output_count(s); i++) {
    rlx_port_info port;
    RLX_TRY(rlx_session_output(s, i, &port));
    RLX_TRY(rlx_binding_get(b, port.name, &outputs[i]));
  }
  return RLX_OK;
}

/* Inputs by position; outputs are the caller's to release. */
static rlx_status run(rlx_session *s, rlx_tensor *const *inputs, rlx_tensor **outputs) {
  rlx_binding *b = NULL;
  RLX_TRY(rlx_binding_create(s, &b));
  rlx_status status = bind_all(s, b, inputs);
  if (status == RLX_OK) status = rlx_run(b, NULL);
  if (status == RLX_OK) status = fetch(s, b, outputs);
  if (status != RLX_OK) release(outputs, rlx_session_output_count(s));
  rlx_binding_destroy(b);
  return status;
}

/* ---- random values ------------------------------------------------------------------------ */

static rlx_status make(checker *c, const rlx_type *type, double low, double high, rlx_tensor **out) {
  int64_t dims[RLX_MAX_RANK];
  for (int d = 0; d < type->rank; d++) dims[d] = type->dims[d] < 0 ? 2 : type->dims[d];
  RLX_TRY(rlx_tensor_create(type->dtype, type->rank < 0 ? 0 : type->rank, dims, out));
  void *data = rlx_tensor_data(*out);
  bool real = is_float(type->dtype);
  if (!dtype_size(type->dtype) || type->dtype == RLX_STRING) return RLX_OK;
  for (int64_t i = 0; i < rlx_tensor_count(*out); i++)
    dtype_store(type->dtype, data, i, real ? draw(c, low, high) : floor(draw(c, 0, 2)));
  return RLX_OK;
}

static rlx_status fill_inputs(checker *c, rlx_tensor *const *given, double low, double high) {
  release(c->x, c->inputs);
  for (int i = 0; i < c->inputs; i++) {
    if (given && given[i])
      c->x[i] = rlx_tensor_retain(given[i]);
    else
      RLX_TRY(make(c, &c->graph->inputs.data[i]->type, low, high, &c->x[i]));
  }
  return RLX_OK;
}

static bool all_finite(const checker *c) {
  for (int i = 0; i < c->outputs; i++)
    for (int64_t k = 0; is_float(rlx_tensor_dtype(c->y[i])) && k < rlx_tensor_count(c->y[i]); k++)
      if (!isfinite(dtype_load(rlx_tensor_dtype(c->y[i]), rlx_tensor_data(c->y[i]), k))) return false;
  return true;
}

/* Inputs at which all results are finite. */
static rlx_status choose_inputs(checker *c, rlx_tensor *const *given) {
  static const double ranges[][2] = {{-0.9, 0.9}, {0.2, 0.9}, {1.1, 2}};
  bool fixed = c->how->low != c->how->high;
  for (int i = 0; i < (fixed ? 1 : 3); i++) {
    RLX_TRY(fill_inputs(c, given, fixed ? c->how->low : ranges[i][0], fixed ? c->how->high : ranges[i][1]));
    release(c->y, c->outputs);
    rlx_status status = run(c->plain, c->x, c->y);
    if (status == RLX_OK && all_finite(c)) return RLX_OK;
    if (status != RLX_OK && i == (fixed ? 0 : 2)) return status;
  }
  return RLX_FAIL(UNSUPPORTED, "results are not finite for random inputs");
}

/* ---- derivatives -------------------------------------------------------------------------- */

static rlx_status add_back(checker *c) {
  rlx_graph *g = c->backward;
  rlx_value *outputs[MOST_PORTS], *gradients[MOST_PORTS], *wrt[MOST_PORTS], *found[MOST_PORTS] = {NULL};
  int from = 0, to = 0;
  for (int i = 0; i < c->outputs; i++) outputs[i] = g->outputs.data[i].value;
  for (int i = 0; i < c->inputs; i++)
    if (is_float(g->inputs.data[i]->type.dtype)) wrt[to++] = g->inputs.data[i];
  for (int i = 0; i < c->outputs; i++) {
    if (!c->u[i]) continue;
    rlx_type type = outputs[i]->type;
    outputs[from] = outputs[i];
    gradients[from++] = rlx_graph_input(g, NULL, &type);
  }
  RLX_TRY(rlx_graph_status(g));
  RLX_TRY(rlx_vjp(g, outputs, gradients, from, wrt, to, found));
  for (size_t i = 0; i < g->outputs.count; i++) g->outputs.data[i].value->is_output = false;
  g->outputs.count = 0;
  for (int i = 0, k = 0; i < c->inputs; i++) {
    if (!is_float(g->inputs.data[i]->type.dtype)) continue;
    c->has_gradient[i] = found[k] != NULL;
    if (found[k]) rlx_graph_output(g, rlx_graph_op(g, "onnx.Identity", NULL, 0, &found[k], 1), NULL);
    k++;
  }
  RLX_TRY(rlx_graph_finish(g));
  return g->outputs.count ? rlx_session_create(g, c->how->options, &c->back) : RLX_OK;
}

static rlx_status add_ahead(checker *c) {
  rlx_graph *g = c->forward;
  rlx_value *inputs[MOST_PORTS], *tangents[MOST_PORTS], *outputs[MOST_PORTS], *found[MOST_PORTS] = {NULL};
  int from = 0;
  for (int i = 0; i < c->inputs; i++) {
    if (!c->t[i]) continue;
    rlx_type type = g->inputs.data[i]->type;
    inputs[from] = g->inputs.data[i];
    tangents[from++] = rlx_graph_input(g, NULL, &type);
  }
  RLX_TRY(rlx_graph_status(g));
  for (int i = 0; i < c->outputs; i++) outputs[i] = g->outputs.data[i].value;
  RLX_TRY(rlx_jvp(g, inputs, tangents, from, outputs, c->outputs, found));
  for (int i = 0; i < c->outputs; i++) outputs[i]->is_output = false;
  g->outputs.count = 0;
  for (int i = 0; i < c->outputs; i++) {
    c->has_tangent[i] = found[i] != NULL;
    if (found[i]) rlx_graph_output(g, rlx_graph_op(g, "onnx.Identity", NULL, 0, &found[i], 1), NULL);
  }
  RLX_TRY(rlx_graph_finish(g));
  return g->outputs.count ? rlx_session_create(g, c->how->options, &c->ahead) : RLX_OK;
}

/* ---- comparing ---------------------------------------------------------------------------- */

static double load(const rlx_tensor *t, int64_t i) { return dtype_load(rlx_tensor_dtype(t), rlx_tensor_data(t), i); }

static void compare(checker *c, bool gradient, const char *name, int64_t at, double got, double expected) {
  grad_report *r = c->report;
  double error = fabs(got - expected) / (1 + fabs(expected)),
         *worst = gradient ? &r->worst_gradient : &r->worst_tangent;
  ++*(gradient ? &r->gradients : &r->tangents);
  if (!(error <= *worst)) *worst = error;
  if (error <= c->tolerance) return;
  if (r->passed)
    snprintf(r->what, sizeof r->what, "%s of '%s'[%lld] is %.9g, not %.9g", gradient ? "gradient" : "tangent", name,
             (long long)at, got, expected);
  r->passed = false;
}

static double weighted(const checker *c, rlx_tensor *const *y) {
  double sum = 0;
  for (int i = 0; i < c->outputs; i++)
    for (int64_t k = 0; c->u[i] && k < rlx_tensor_count(c->u[i]); k++) sum += load(y[i], k) * load(c->u[i], k);
  return sum;
}

static bool same_sizes(const checker *c, rlx_tensor *const *y) {
  for (int i = 0; i < c->outputs; i++)
    if (c->u[i] && rlx_tensor_count(y[i]) != rlx_tensor_count(c->u[i])) return false;
  return true;
}

/* The weighted sum of results with element k of input i moved by the step; *moved: by how much it really was. */
static rlx_status sum_at(checker *c, int i, int64_t k, double step, double *sum, double *moved) {
  rlx_tensor *y[MOST_PORTS] = {NULL}, *x = c->x[i];
  double kept = load(x, k);
  dtype_store(rlx_tensor_dtype(x), rlx_tensor_data(x), k, kept + step);
  *moved = load(x, k) - kept;
  rlx_status status = run(c->plain, c->x, y);
  dtype_store(rlx_tensor_dtype(x), rlx_tensor_data(x), k, kept);
  if (status == RLX_OK && !same_sizes(c, y)) status = RLX_FAIL(UNSUPPORTED, "sizes of results depend on values");
  if (status == RLX_OK) *sum = weighted(c, y);
  release(y, c->outputs);
  return status;
}

static rlx_status compare_gradient(checker *c, int i, const rlx_tensor *gradient) {
  int64_t count = rlx_tensor_count(c->x[i]), most = c->how->most ? c->how->most : ELEMENTS;
  int64_t stride = count > most ? count / most : 1;
  const char *name = c->graph->inputs.data[i]->name;
  if (gradient && rlx_tensor_count(gradient) != count)
    return RLX_FAIL(INVALID, "the gradient of '%s' has %lld elements, not %lld", name,
                    (long long)rlx_tensor_count(gradient), (long long)count);
  for (int64_t k = 0; k < count; k += stride) {
    double up, down, more, less;
    RLX_TRY(sum_at(c, i, k, c->step, &up, &more));
    RLX_TRY(sum_at(c, i, k, -c->step, &down, &less));
    compare(c, true, name, k, gradient ? load(gradient, k) : 0, (up - down) / (more - less));
  }
  return RLX_OK;
}

static rlx_status compare_gradients(checker *c) {
  rlx_tensor *in[2 * MOST_PORTS], *found[MOST_PORTS] = {NULL};
  int count = c->inputs, at = 0;
  memcpy(in, c->x, (size_t)count * sizeof *in);
  for (int i = 0; i < c->outputs; i++)
    if (c->u[i]) in[count++] = c->u[i];
  rlx_status status = c->back ? run(c->back, in, found) : RLX_OK;
  for (int i = 0; i < c->inputs && status == RLX_OK; i++)
    if (c->t[i]) status = compare_gradient(c, i, c->has_gradient[i] ? found[at++] : NULL);
  release(found, MOST_PORTS);
  return status;
}

/* All float inputs moved along their tangents. */
static rlx_status results_along(checker *c, double step, rlx_tensor **y) {
  rlx_tensor *moved[MOST_PORTS] = {NULL};
  rlx_status status = RLX_OK;
  for (int i = 0; i < c->inputs && status == RLX_OK; i++) {
    rlx_tensor *x = c->x[i];
    if (!c->t[i]) {
      moved[i] = rlx_tensor_retain(x);
      continue;
    }
    status = rlx_tensor_create(rlx_tensor_dtype(x), rlx_tensor_rank(x), rlx_tensor_dims(x), &moved[i]);
    for (int64_t k = 0; status == RLX_OK && k < rlx_tensor_count(x); k++)
      dtype_store(rlx_tensor_dtype(x), rlx_tensor_data(moved[i]), k, load(x, k) + step * load(c->t[i], k));
  }
  if (status == RLX_OK) status = run(c->plain, moved, y);
  release(moved, c->inputs);
  return status;
}

static rlx_status compare_outputs(checker *c, rlx_tensor *const *up, rlx_tensor *const *down,
                                  rlx_tensor *const *found) {
  if (!same_sizes(c, up) || !same_sizes(c, down)) return RLX_FAIL(UNSUPPORTED, "sizes of results depend on values");
  for (int i = 0, at = 0; i < c->outputs; i++) {
    const rlx_tensor *tangent = c->has_tangent[i] ? found[at++] : NULL;
    if (!c->u[i]) continue;
    const char *name = c->graph->outputs.data[i].name;
    if (tangent && rlx_tensor_count(tangent) != rlx_tensor_count(c->u[i]))
      return RLX_FAIL(INVALID, "the tangent of '%s' has %lld elements, not %lld", name,
                      (long long)rlx_tensor_count(tangent), (long long)rlx_tensor_count(c->u[i]));
    for (int64_t k = 0; k < rlx_tensor_count(c->u[i]); k++)
      compare(c, false, name, k, tangent ? load(tangent, k) : 0, (load(up[i], k) - load(down[i], k)) / (2 * c->step));
  }
  return RLX_OK;
}

static rlx_status compare_tangents(checker *c) {
  rlx_tensor *in[2 * MOST_PORTS], *found[MOST_PORTS] = {NULL}, *up[MOST_PORTS] = {NULL}, *down[MOST_PORTS] = {NULL};
  int count = c->inputs;
  memcpy(in, c->x, (size_t)count * sizeof *in);
  for (int i = 0; i < c->inputs; i++)
    if (c->t[i]) in[count++] = c->t[i];
  rlx_status status = c->ahead ? run(c->ahead, in, found) : RLX_OK;
  if (status == RLX_OK) status = results_along(c, c->step, up);
  if (status == RLX_OK) status = results_along(c, -c->step, down);
  if (status == RLX_OK) status = compare_outputs(c, up, down, found);
  release(found, MOST_PORTS), release(up, MOST_PORTS), release(down, MOST_PORTS);
  return status;
}

/* ---- the whole ---------------------------------------------------------------------------- */

static const struct {
  rlx_dtype dtype;
  double step, tolerance;
} by_dtype[] = {/* narrowest first */
                {RLX_BFLOAT16, 0x1p-2, 0.2},
                {RLX_FLOAT16, 0x1p-4, 0.05},
                {RLX_FLOAT, 0x1p-7, 5e-3},
                {RLX_DOUBLE, 0x1p-18, 1e-6}};

static void choose_step(checker *c) {
  int at = 3;
  for (int i = 0; i < c->inputs + c->outputs; i++) {
    rlx_dtype t = rlx_tensor_dtype(i < c->inputs ? c->x[i] : c->y[i - c->inputs]);
    for (int k = 0; k < at; k++)
      if (by_dtype[k].dtype == t) at = k;
  }
  c->report->dtype = by_dtype[at].dtype;
  c->step = c->how->step > 0 ? c->how->step : by_dtype[at].step;
  c->tolerance = c->how->tolerance > 0 ? c->how->tolerance : by_dtype[at].tolerance;
}

static rlx_status directions(checker *c) {
  for (int i = 0; i < c->inputs + c->outputs; i++) {
    const rlx_tensor *like = i < c->inputs ? c->x[i] : c->y[i - c->inputs];
    rlx_type type = {.dtype = rlx_tensor_dtype(like), .rank = rlx_tensor_rank(like)};
    if (!is_float(type.dtype)) continue;
    if (type.rank) memcpy(type.dims, rlx_tensor_dims(like), (size_t)type.rank * sizeof *type.dims);
    RLX_TRY(make(c, &type, -1, 1, i < c->inputs ? &c->t[i] : &c->u[i - c->inputs]));
  }
  return RLX_OK;
}

static rlx_status check(checker *c, const rlx_graph *g, rlx_tensor *const *given) {
  RLX_TRY(graph_clone(g, &c->graph));
  RLX_TRY(infer_graph(c->graph, false));
  RLX_TRY(graph_clone(c->graph, &c->backward));
  RLX_TRY(graph_clone(c->graph, &c->forward));
  RLX_TRY(rlx_session_create(c->graph, c->how->options, &c->plain));
  RLX_TRY(choose_inputs(c, given));
  for (int i = 0; i < c->inputs; i++) { /* differences write to them */
    rlx_tensor *copy;
    const rlx_tensor *x = c->x[i];
    if (!given || !given[i] || !is_float(rlx_tensor_dtype(x))) continue;
    RLX_TRY(rlx_tensor_create(rlx_tensor_dtype(x), rlx_tensor_rank(x), rlx_tensor_dims(x), &copy));
    memcpy(rlx_tensor_data(copy), rlx_tensor_data(x), rlx_tensor_bytes(x));
    rlx_tensor_destroy(c->x[i]);
    c->x[i] = copy;
  }
  choose_step(c);
  RLX_TRY(directions(c));
  RLX_TRY(add_back(c));
  RLX_TRY(add_ahead(c));
  RLX_TRY(compare_gradients(c));
  return compare_tangents(c);
}

rlx_status grad_check_graph(const rlx_graph *g, const grad_check *how, rlx_tensor *const *inputs, grad_report *out) {
  static const grad_check defaults;
  checker c = {.how = how ? how : &defaults, .report = out};
  *out = (grad_report){.passed = true};
  if (g->inputs.count > MOST_PORTS / 2 || g->outputs.count > MOST_PORTS / 2)
    return RLX_FAIL(UNSUPPORTED, "a check of more than %d inputs or outputs", MOST_PORTS / 2);
  c.inputs = (int)g->inputs.count;
  c.outputs = (int)g->outputs.count;
  c.random = c.how->seed;
  rlx_status status = check(&c, g, inputs);
  if (status != RLX_OK) out->passed = false;
  finish(&c);
  return status;
}

/* The row with "double" for "float"; false if it does not fit. */
static bool widen(const char *row, char *to, size_t size) {
  size_t n = 0;
  for (const char *at = row; *at;) {
    bool word = strncmp(at, "float[", 6) == 0 && (at == row || !strchr("abcdefghijklmnopqrstuvwxyz_", at[-1]));
    const char *add = word ? "double[" : at;
    size_t length = word ? 7 : 1;
    if (n + length >= size) return false;
    memcpy(to + n, add, length);
    n += length;
    at += word ? 6 : 1;
  }
  to[n] = 0;
  return true;
}

rlx_status grad_check_sample(const op_entry *op, const char *row, const grad_check *how, grad_report *out) {
  char wide[2048];
  rlx_graph *g = NULL;
  const rlx_registry *registry = how ? how->registry : NULL;
  rlx_status status = RLX_INVALID;
  if (widen(row, wide, sizeof wide)) status = sample_parse_for(wide, op, registry, &g);
  if (status == RLX_OK) status = infer_graph(g, false);
  if (status != RLX_OK) {
    rlx_graph_destroy(g);
    g = NULL;
    status = sample_parse_for(row, op, registry, &g);
  }
  if (status == RLX_OK) status = grad_check_graph(g, how, NULL, out);
  rlx_graph_destroy(g);
  return status;
}
