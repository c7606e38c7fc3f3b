/* derivative.c — derivatives of a node against central differences. */
#include "support/derivative.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "ir/dtype.h"
#include "ir/infer.h"
#include "ir/parse.h"
#include "support/kernel.h"

enum { PORTS = 16 };
/* Of double and of float. */
static const double steps[] = {0x1p-17, 0x1p-7}, tolerances[] = {1e-6, 5e-3};

static void must(rlx_status status, const char *what) {
  if (status != RLX_OK) fail_msg("%s: %s", what, rlx_error_message());
}

static rlx_graph *parsed(const derivative_row *row, const char *domain) {
  char source[2048], more[64] = "";
  rlx_graph *g = NULL;
  if (domain) snprintf(more, sizeof more, ", \"%s\" : 1", domain);
  snprintf(source, sizeof source, "<ir_version: 10, opset_import: [\"\" : 24%s]> %s", more, row->body);
  must(graph_parse(source, strlen(source), "test", NULL, NULL, &g), row->body);
  must(infer_graph(g, true), row->body);
  return g;
}

typedef struct runner {
  rlx_session *session;
  rlx_binding *binding;
  const char *what;
} runner;

static runner runner_of(rlx_graph *g, const char *what) {
  runner r = {.what = what};
  must(rlx_graph_finish(g), what);
  must(rlx_session_create(g, NULL, &r.session), what);
  must(rlx_binding_create(r.session, &r.binding), what);
  rlx_graph_destroy(g);
  return r;
}

static void runner_finish(runner *r) {
  rlx_binding_destroy(r->binding);
  rlx_session_destroy(r->session);
}

/* Inputs in the graph's order; outputs are the caller's. */
static int run(runner *r, rlx_tensor *const *inputs, rlx_tensor **outputs) {
  rlx_port_info info;
  for (int i = 0; i < rlx_session_input_count(r->session); i++) {
    must(rlx_session_input(r->session, i, &info), r->what);
    must(rlx_binding_input(r->binding, info.name, inputs[i], 0), r->what);
  }
  must(rlx_run(r->binding, NULL), r->what);
  for (int i = 0; i < rlx_session_output_count(r->session); i++) {
    must(rlx_session_output(r->session, i, &info), r->what);
    must(rlx_binding_get(r->binding, info.name, &outputs[i]), r->what);
  }
  return rlx_session_output_count(r->session);
}

static bool differentiable(const rlx_type *t) { return t->dtype == RLX_DOUBLE || t->dtype == RLX_FLOAT; }
static bool real(const rlx_tensor *t) { return rlx_tensor_dtype(t) == RLX_DOUBLE || rlx_tensor_dtype(t) == RLX_FLOAT; }
static bool is_float(const rlx_tensor *t) { return rlx_tensor_dtype(t) == RLX_FLOAT; }
static double get(const rlx_tensor *t, int64_t i) { return dtype_load(rlx_tensor_dtype(t), rlx_tensor_data(t), i); }
static void put(rlx_tensor *t, int64_t i, double value) {
  dtype_store(rlx_tensor_dtype(t), rlx_tensor_data(t), i, value);
}

static rlx_tensor *filled(const rlx_type *type, double diagonal, random_state *r) {
  rlx_tensor *t = NULL;
  must(rlx_tensor_create(type->dtype, type->rank, type->dims, &t), "tensor");
  for (int64_t i = 0; i < rlx_tensor_count(t); i++) put(t, i, (double)random_float(r));
  int64_t n = type->rank > 1 ? type->dims[type->rank - 1] : 0;
  if (n == 0 || type->dims[type->rank - 2] != n) return t;
  for (int64_t i = 0; i < rlx_tensor_count(t); i++) {
    if (i % (n * n) % (n + 1) == 0) put(t, i, get(t, i) + diagonal);
  }
  return t;
}

/* <weights, outputs of a run>, over the outputs that can be differentiated. */
static double weighed(runner *forward, rlx_tensor *const *in, rlx_tensor *const *weights) {
  rlx_tensor *out[PORTS] = {NULL};
  double sum = 0;
  int count = run(forward, in, out);
  for (int k = 0, w = 0; k < count; k++) {
    if (real(out[k])) {
      for (int64_t i = 0; i < rlx_tensor_count(out[k]); i++) sum += get(out[k], i) * get(weights[w], i);
      w++;
    }
    rlx_tensor_destroy(out[k]);
  }
  return sum;
}

static rlx_node *last_node(rlx_graph *g) { return g->nodes.data[g->nodes.count - 1]; }

static void drop_outputs(rlx_graph *g) {
  for (size_t i = 0; i < g->outputs.count; i++) g->outputs.data[i].value->is_output = false;
  g->outputs.count = 0;
}

static int input_of(const rlx_node *n, const rlx_value *v) {
  for (int i = 0; i < rlx_node_input_count(n); i++) {
    if (rlx_node_input(n, i) == v) return i;
  }
  return -1;
}

/* The gradients of all inputs of the graph as its outputs; the gradients of the node's outputs as further inputs. */
static rlx_graph *reverse_graph(const derivative_row *row, const char *domain) {
  rlx_graph *g = parsed(row, domain);
  rlx_node *n = last_node(g);
  rlx_value *grads[PORTS] = {NULL}, *dys[PORTS] = {NULL};
  size_t inputs = g->inputs.count;
  for (int i = 0; i < rlx_node_output_count(n); i++) {
    const rlx_type *t = rlx_node_output_type(n, i);
    if (t && differentiable(t)) dys[i] = rlx_graph_input(g, NULL, t);
  }
  if (!n->op || !n->op->op.vjp) fail_msg("%s has no vjp", row->body);
  must(n->op->op.vjp(g, n, dys, grads), row->body);
  drop_outputs(g);
  for (size_t i = 0; i < inputs; i++) {
    int port = input_of(n, g->inputs.data[i]);
    if (port >= 0 && !grads[port] && row->flat & (UINT64_C(1) << i)) continue;
    if (port < 0 || !grads[port]) fail_msg("%s: no gradient of input %d", row->body, (int)i);
    char name[16];
    snprintf(name, sizeof name, "d%d", (int)i);
    rlx_graph_output(g, grads[port], name);
  }
  return g;
}

static void compare(const derivative_row *row, const char *what, int64_t i, double got, double expected,
                    double tolerance) {
  if (fabs(expected - got) > tolerance * (1 + fabs(expected)) || isnan(got))
    fail_msg("%s\n  %s[%d] is %.9g, not %.9g", row->body, what, (int)i, got, expected);
}

static void check_reverse(const derivative_row *row, const char *domain, runner *forward, rlx_tensor **in, int inputs) {
  runner backward = runner_of(reverse_graph(row, domain), row->body);
  rlx_tensor *made[PORTS] = {NULL}, *grads[PORTS] = {NULL};
  int count = run(&backward, in, made);
  for (int k = 0, at = 0; k < inputs && at < count; k++)
    if (!(row->flat >> k & 1)) grads[k] = made[at++];
  for (int k = 0; k < inputs; k++) {
    if (!grads[k]) continue;
    char what[16];
    snprintf(what, sizeof what, "gradient %d", k);
    assert_int_equal(rlx_tensor_count(grads[k]), rlx_tensor_count(in[k]));
    for (int64_t i = 0; i < rlx_tensor_count(in[k]); i++) {
      double step = steps[is_float(in[k])], kept = get(in[k], i);
      put(in[k], i, kept - step);
      double before = weighed(forward, in, in + inputs);
      put(in[k], i, kept + step);
      double after = weighed(forward, in, in + inputs);
      put(in[k], i, kept);
      compare(row, what, i, get(grads[k], i), (after - before) / (2 * step), tolerances[is_float(in[k])]);
    }
    rlx_tensor_destroy(grads[k]);
  }
  runner_finish(&backward);
}

/* The tangents of the outputs as outputs; those of the inputs as further inputs. False: there is no jvp. */
static bool forward_graph(const derivative_row *row, const char *domain, rlx_graph **out) {
  rlx_graph *g = parsed(row, domain);
  rlx_node *n = last_node(g);
  rlx_value *given[PORTS] = {NULL}, *made[PORTS] = {NULL};
  size_t inputs = g->inputs.count;
  if (!n->op || !n->op->op.jvp) {
    rlx_graph_destroy(g);
    return false;
  }
  for (size_t i = 0; i < inputs; i++)
    given[input_of(n, g->inputs.data[i])] = rlx_graph_input(g, NULL, &g->inputs.data[i]->type);
  must(n->op->op.jvp(g, n, given, made), row->body);
  drop_outputs(g);
  for (int i = 0; i < rlx_node_output_count(n); i++) {
    char name[16];
    snprintf(name, sizeof name, "t%d", i);
    const rlx_type *t = rlx_node_output_type(n, i);
    if (t && differentiable(t) && !made[i]) fail_msg("%s: no tangent of output %d", row->body, i);
    if (made[i]) rlx_graph_output(g, made[i], name);
  }
  *out = g;
  return true;
}

static void move(rlx_tensor **in, int inputs, double by) {
  for (int k = 0; k < inputs; k++) {
    for (int64_t i = 0; i < rlx_tensor_count(in[k]); i++) put(in[k], i, get(in[k], i) + by * get(in[inputs + k], i));
  }
}

static void check_forward(const derivative_row *row, const char *domain, runner *forward, rlx_tensor **in, int inputs) {
  rlx_graph *g;
  if (!forward_graph(row, domain, &g)) return;
  runner pushed = runner_of(g, row->body);
  rlx_tensor *tangents[PORTS] = {NULL}, *before[PORTS] = {NULL}, *after[PORTS] = {NULL};
  int count = run(&pushed, in, tangents);
  double step = steps[is_float(in[0])];
  move(in, inputs, -step);
  int outputs = run(forward, in, before);
  move(in, inputs, 2 * step);
  run(forward, in, after);
  move(in, inputs, -step);
  for (int k = 0, t = 0; k < outputs; k++) {
    if (real(before[k])) {
      for (int64_t i = 0; i < rlx_tensor_count(before[k]); i++)
        compare(row, "tangent", i, get(tangents[t], i), (get(after[k], i) - get(before[k], i)) / (2 * step),
                tolerances[is_float(in[0])]);
      t++;
    }
    rlx_tensor_destroy(before[k]);
    rlx_tensor_destroy(after[k]);
  }
  for (int k = 0; k < count; k++) rlx_tensor_destroy(tangents[k]);
  runner_finish(&pushed);
}

void derivative_check(const derivative_row *row, const char *domain) {
  random_state r = {5};
  rlx_graph *g = parsed(row, domain);
  rlx_node *n = last_node(g);
  rlx_tensor *in[2 * PORTS] = {NULL};
  int inputs = (int)g->inputs.count, count = inputs;
  for (int i = 0; i < inputs; i++) in[i] = filled(&g->inputs.data[i]->type, row->diagonal, &r);
  for (int i = 0; i < rlx_node_output_count(n); i++) {
    const rlx_type *t = rlx_node_output_type(n, i);
    if (t && differentiable(t)) in[count++] = filled(t, 0, &r);
  }
  runner forward = runner_of(g, row->body);
  check_reverse(row, domain, &forward, in, inputs);
  for (int i = inputs; i < count; i++) rlx_tensor_destroy(in[i]);
  g = parsed(row, domain);
  for (int i = 0; i < inputs; i++) in[inputs + i] = filled(&g->inputs.data[i]->type, 0, &r);
  rlx_graph_destroy(g);
  check_forward(row, domain, &forward, in, inputs);
  for (int i = 0; i < 2 * inputs; i++) rlx_tensor_destroy(in[i]);
  runner_finish(&forward);
}
