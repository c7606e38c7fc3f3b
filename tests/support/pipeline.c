/* pipeline.c — graphs given as text, through the passes and through sessions. */
#include "support/pipeline.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "ir/parse.h"
#include "pass/pass.h"
#include "support/kernel.h"

#define OK(expr)                                                          \
  do {                                                                    \
    if ((expr) != RLX_OK) fail_msg("%s: %s", #expr, rlx_error_message()); \
  } while (0)

static rlx_graph *parsed(const char *source) {
  rlx_graph *g = NULL;
  OK(graph_parse(source, strlen(source), "test", NULL, NULL, &g));
  return g;
}

rlx_graph *pipeline_compile(const char *source, const char *disabled) {
  static const char *const backends[] = {"cpu", NULL};
  rlx_session_options options = RLX_SESSION_OPTIONS_INIT;
  target cpu = {.device = "cpu", .backends = backends, .options = &options};
  debug_options debug = {.switches = DEBUG_VALIDATE};
  rlx_graph *g = parsed(source);
  OK(passes_run(g, &cpu, disabled, &debug));
  return g;
}

void pipeline_free(rlx_graph *g) {
  selection_release(g);
  rlx_graph_destroy(g);
}

int pipeline_count(const rlx_graph *g, const char *op) {
  int count = 0;
  for (size_t i = 0; i < g->nodes.count; i++) count += strcmp(g->nodes.data[i]->op_name, op) == 0;
  return count;
}

static rlx_session *session_without(const char *source, const char *disabled) {
  rlx_session_options options = RLX_SESSION_OPTIONS_INIT;
  options.disable_passes = disabled;
  rlx_graph *g = parsed(source);
  rlx_session *s = NULL;
  OK(rlx_session_create(g, &options, &s));
  rlx_graph_destroy(g);
  return s;
}

/* Binds random inputs, the same for every session, and runs twice. */
static rlx_binding *run(rlx_session *s, int64_t extent) {
  random_state r = {1};
  rlx_binding *b = NULL;
  OK(rlx_binding_create(s, &b));
  for (int i = 0; i < rlx_session_input_count(s); i++) {
    rlx_port_info info;
    rlx_tensor *t = NULL;
    OK(rlx_session_input(s, i, &info));
    for (int d = 0; d < info.type.rank; d++) {
      if (info.type.dims[d] < 0) info.type.dims[d] = extent;
    }
    OK(rlx_tensor_create(info.type.dtype, info.type.rank, info.type.dims, &t));
    for (int64_t k = 0; info.type.dtype == RLX_FLOAT && k < rlx_tensor_count(t); k++)
      ((float *)rlx_tensor_data(t))[k] = random_float(&r);
    OK(rlx_binding_input(b, info.name, t, 0));
    rlx_tensor_destroy(t);
  }
  OK(rlx_run(b, NULL));
  OK(rlx_run(b, NULL));
  return b;
}

static double largest(const rlx_tensor *want, const rlx_tensor *got) {
  const float *x = rlx_tensor_data(want), *y = rlx_tensor_data(got);
  double difference = 0, magnitude = 1e-9;
  assert_int_equal(rlx_tensor_count(want), rlx_tensor_count(got));
  for (int64_t i = 0; i < rlx_tensor_count(want); i++) {
    double d = fabs((double)x[i] - (double)y[i]);
    if (!(d <= difference)) difference = isfinite(d) ? d : (double)INFINITY;
    if (fabs((double)x[i]) > magnitude) magnitude = fabs((double)x[i]);
  }
  return difference / magnitude;
}

double pipeline_difference(const char *source, const char *disabled, int64_t extent) {
  rlx_session *all = session_without(source, NULL), *fewer = session_without(source, disabled);
  rlx_binding *a = run(all, extent), *f = run(fewer, extent);
  double most = 0;
  for (int i = 0; i < rlx_session_output_count(all); i++) {
    rlx_port_info info;
    rlx_tensor *x = NULL, *y = NULL;
    OK(rlx_session_output(all, i, &info));
    OK(rlx_binding_get(f, info.name, &x));
    OK(rlx_binding_get(a, info.name, &y));
    double d = largest(x, y);
    if (d > most) most = d;
    rlx_tensor_destroy(x);
    rlx_tensor_destroy(y);
  }
  rlx_binding_destroy(a);
  rlx_binding_destroy(f);
  rlx_session_destroy(all);
  rlx_session_destroy(fewer);
  return most;
}
