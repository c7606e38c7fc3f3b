/* call.c — what a call of a custom CPU op costs: a chain of nodes through rlx_run against bare calls of its function.
 * Usage: rlx-call [NODES [RUNS]]; prints nanoseconds a node. */
#include <rlx/extend.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static rlx_status add_one(rlx_ctx *ctx) {
  ((float *)ctx->outputs[0].data)[0] = ((const float *)ctx->inputs[0].data)[0] + 1;
  return RLX_OK;
}

static const rlx_port in[] = {{"x", "T", RLX_SET(RLX_FLOAT), 0, 0}, {0}}, out[] = {{"y", "T", 0, 0, 0}, {0}};
static const rlx_op op = {
    .struct_size = sizeof op, .name = "bench.add_one", .inputs = in, .outputs = out, .eval = add_one};
static const rlx_cpu_kernel kernel = {sizeof kernel, {.op = "bench.add_one", .name = "bare"}, add_one};

static double now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static void must(rlx_status status) {
  if (status == RLX_OK) return;
  fprintf(stderr, "rlx-call: %s\n", rlx_error_message());
  exit(1);
}

static rlx_session *chain(rlx_registry *r, int nodes) {
  rlx_graph *g = NULL;
  rlx_session *s = NULL;
  rlx_type type = {.dtype = RLX_FLOAT, .rank = 0};
  rlx_session_options o = RLX_SESSION_OPTIONS_INIT;
  must(rlx_graph_create(r, &g));
  rlx_value *v = rlx_graph_input(g, "x", &type);
  for (int i = 0; i < nodes; i++) v = rlx_graph_op(g, "bench.add_one", NULL, 0, &v, 1);
  rlx_graph_output(g, v, "y");
  must(rlx_graph_finish(g));
  o.registry = r;
  o.threads = 1;
  must(rlx_session_create(g, &o, &s));
  rlx_graph_destroy(g);
  return s;
}

/* The least of all runs, in nanoseconds a node. */
static double time_runs(rlx_binding *b, int nodes, int runs) {
  double best = 1e30;
  for (int i = 0; i < runs; i++) {
    double begin = now_ns();
    must(rlx_run(b, NULL));
    double took = (now_ns() - begin) / nodes;
    if (took < best) best = took;
  }
  return best;
}

static double time_calls(int nodes, int runs) {
  static float values[2];
  rlx_operand x = {.data = &values[0], .count = 1, .bytes = 4, .dtype = RLX_FLOAT}, y = x;
  y.data = &values[1];
  rlx_ctx ctx = {.struct_size = sizeof ctx, .input_count = 1, .output_count = 1, .inputs = &x, .outputs = &y};
  rlx_status (*volatile function)(rlx_ctx *) = add_one;
  double best = 1e30;
  for (int i = 0; i < runs; i++) {
    double begin = now_ns();
    for (int k = 0; k < nodes; k++) must(function(&ctx));
    double took = (now_ns() - begin) / nodes;
    if (took < best) best = took;
  }
  return best;
}

int main(int argc, char **argv) {
  int nodes = argc > 1 ? atoi(argv[1]) : 1000, runs = argc > 2 ? atoi(argv[2]) : 2000;
  rlx_registry *r = NULL;
  rlx_binding *b = NULL;
  rlx_tensor *x = NULL;
  if (nodes < 1 || runs < 1) return 2;
  must(rlx_registry_create(&r));
  must(rlx_register_op(r, &op, 0, NULL));
  must(rlx_register_cpu_kernel(r, &kernel, 0, NULL));
  rlx_session *s = chain(r, nodes);
  must(rlx_binding_create(s, &b));
  must(rlx_tensor_create(RLX_FLOAT, 0, NULL, &x));
  must(rlx_binding_input(b, "x", x, 0));
  must(rlx_run(b, NULL));
  double through = time_runs(b, nodes, runs), bare = time_calls(nodes, runs);
  printf("%d nodes, best of %d runs: %.2f ns a node through rlx_run, %.2f ns a bare call, %.2f ns more\n", nodes, runs,
         through, bare, through - bare);
  rlx_tensor_destroy(x);
  rlx_binding_destroy(b);
  rlx_session_destroy(s);
  rlx_registry_destroy(r);
  return 0;
}
