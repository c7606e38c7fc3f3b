// poisson.c — 2-D Poisson's equation by the sparse package, by direct calls of CHOLMOD and by straight C, in one
// process. Usage: RLX_PACKAGE_PATH=build/packages build/bench/poisson [SIDE] [THREADS] [REPEATS]; default 1000 (a
// million unknowns), 1, 3. Prints the best of REPEATS, each pair of measurements taken in turn.
#include <math.h>
#include <rlx/rlx.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#ifndef RLX_CHOLMOD_SUPERNODAL
#define NGPL
#define NMATRIXOPS
#define NMODIFY
#define NSUPERNODAL
#endif
#include <cholmod.h>

#include "straight.h"

static clockid_t clock_used = CLOCK_PROCESS_CPUTIME_ID;

static double now(void) {
  struct timespec t;
  clock_gettime(clock_used, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void must(rlx_status status, const char *what) {
  if (status == RLX_OK) return;
  fprintf(stderr, "%s: %s\n", what, rlx_error_message());
  exit(1);
}

/* ---- the system -------------------------------------------------------------------------------------------------- */

typedef struct system_of {
  int32_t n;
  rlx_tensor *values, *col, *ptr, *b;
} system_of;

static double *doubles(const rlx_tensor *t) { return rlx_tensor_data(t); }

static rlx_tensor *vector(rlx_dtype dtype, int64_t n) {
  rlx_tensor *t = NULL;
  must(rlx_tensor_create(dtype, 1, &n, &t), "tensor");
  return t;
}

static system_of poisson(int32_t side) {
  int32_t n = side * side, entries = 0;
  system_of s = {n, vector(RLX_DOUBLE, 5 * (int64_t)n - 4 * side), vector(RLX_INT32, 5 * (int64_t)n - 4 * side),
                 vector(RLX_INT32, n + 1), vector(RLX_DOUBLE, n)};
  int32_t *col = rlx_tensor_data(s.col), *ptr = rlx_tensor_data(s.ptr);
  for (int32_t i = 0; i < n; i++) {
    int32_t x = i % side, y = i / side, step[5] = {-side, -1, 0, 1, side};
    int there[5] = {y > 0, x > 0, 1, x < side - 1, y < side - 1};
    for (int k = 0; k < 5; k++) {
      if (!there[k]) continue;
      doubles(s.values)[entries] = k == 2 ? 4 : -1;
      col[entries++] = i + step[k];
    }
    ptr[i + 1] = entries;
    doubles(s.b)[i] = 1 + sin(0.001 * i);
  }
  return s;
}

static double residual(const system_of *s, const double *x) {
  const int32_t *col = rlx_tensor_data(s->col), *ptr = rlx_tensor_data(s->ptr);
  double sum = 0, size = 0;
  for (int32_t i = 0; i < s->n; i++) {
    double r = doubles(s->b)[i];
    size += r * r;
    for (int32_t k = ptr[i]; k < ptr[i + 1]; k++) r -= doubles(s->values)[k] * x[col[k]];
    sum += r * r;
  }
  return sqrt(sum / size);
}

/* ---- rlx --------------------------------------------------------------------------------------------------------- */

typedef struct op {
  rlx_session *session;
  rlx_binding *binding;
} op;

static op op_of(const system_of *s, const char *call, int threads) {
  char text[512];
  snprintf(text, sizeof text,
           "<ir_version: 10, opset_import: [\"\" : 21, \"sparse\" : 1]> poisson (double[N] v, int32[N] c, int32[M] p, "
           "double[R] b) => (x) { x = sparse.%s (v, c, p, b) }",
           call);
  rlx_graph *g = NULL;
  op o = {NULL, NULL};
  must(rlx_graph_load_memory(text, strlen(text), NULL, &g), "graph");
  rlx_session_options options = RLX_SESSION_OPTIONS_INIT;
  options.threads = threads;
  must(rlx_session_create(g, &options, &o.session), "session");
  rlx_graph_destroy(g);
  must(rlx_binding_create(o.session, &o.binding), "binding");
  must(rlx_binding_input(o.binding, "v", s->values, 0), "v");
  must(rlx_binding_input(o.binding, "c", s->col, 0), "c");
  must(rlx_binding_input(o.binding, "p", s->ptr, 0), "p");
  must(rlx_binding_input(o.binding, "b", s->b, 0), "b");
  return o;
}

/* Seconds of a run; *left is the relative residual. */
static double run(op *o, const system_of *s, double *left) {
  double start = now();
  must(rlx_run(o->binding, NULL), "run");
  double seconds = now() - start;
  rlx_tensor *x = NULL;
  must(rlx_binding_get(o->binding, "x", &x), "x");
  *left = residual(s, doubles(x));
  rlx_tensor_destroy(x);
  return seconds;
}

static void close_op(op *o) {
  rlx_binding_destroy(o->binding);
  rlx_session_destroy(o->session);
}

/* ---- CHOLMOD ----------------------------------------------------------------------------------------------------- */

typedef struct direct {
  cholmod_common common;
  cholmod_sparse a;
  cholmod_factor *factor;
  double analyse, factorise, solve;
} direct;

static void direct_start(direct *d, const system_of *s) {
  size_t n = (size_t)s->n;
  cholmod_start(&d->common);
#ifndef RLX_CHOLMOD_SUPERNODAL
  d->common.supernodal = CHOLMOD_SIMPLICIAL;
#endif
  d->common.final_ll = 1;
  d->a = (cholmod_sparse){.nrow = n,
                          .ncol = n,
                          .nzmax = (size_t)rlx_tensor_count(s->values),
                          .p = rlx_tensor_data(s->ptr),
                          .i = rlx_tensor_data(s->col),
                          .x = rlx_tensor_data(s->values),
                          .stype = 1,
                          .itype = CHOLMOD_INT,
                          .xtype = CHOLMOD_REAL,
                          .dtype = CHOLMOD_DOUBLE,
                          .sorted = 1,
                          .packed = 1};
  double start = now();
  d->factor = cholmod_analyze(&d->a, &d->common);
  d->analyse = now() - start;
  start = now();
  cholmod_factorize(&d->a, d->factor, &d->common);
  d->factorise = now() - start;
}

static double direct_solve(direct *d, const system_of *s, double *left) {
  size_t n = (size_t)s->n;
  cholmod_dense b = {.nrow = n, .ncol = 1, .nzmax = n, .d = n, .x = rlx_tensor_data(s->b), .xtype = CHOLMOD_REAL};
  double start = now();
  cholmod_dense *x = cholmod_solve(CHOLMOD_A, d->factor, &b, &d->common);
  double seconds = now() - start;
  *left = residual(s, x->x);
  cholmod_free_dense(&x, &d->common);
  return seconds;
}

static void direct_finish(direct *d) {
  cholmod_free_factor(&d->factor, &d->common);
  cholmod_finish(&d->common);
}

/* ---- measuring --------------------------------------------------------------------------------------------------- */

static void row(const char *what, double ours, double theirs, double ours_left, double theirs_left) {
  printf("%-36s %9.3f %9.3f %7.3f   %.1e %.1e\n", what, ours, theirs, ours / theirs, ours_left, theirs_left);
  fflush(stdout);
}

static double least(double a, double b) { return a < b ? a : b; }

static void measure_cholesky(const system_of *s, int threads, int repeats) {
  double first = INFINITY, direct_first = INFINITY, again = INFINITY, direct_again = INFINITY, left = 0,
         direct_left = 0;
  for (int i = 0; i < repeats; i++) {
    op o = op_of(s, "cholesky_solve", threads);
    first = least(first, run(&o, s, &left));
    for (int k = 0; k < 3; k++) again = least(again, run(&o, s, &left));
    close_op(&o);
    direct d;
    direct_start(&d, s);
    double solve = direct_solve(&d, s, &direct_left);
    direct_first = least(direct_first, d.analyse + d.factorise + solve);
    for (int k = 0; k < 3; k++) direct_again = least(direct_again, direct_solve(&d, s, &direct_left));
    direct_finish(&d);
  }
  row("cholesky_solve, first", first, direct_first, left, direct_left);
  row("cholesky_solve, same matrix again", again, direct_again, left, direct_left);
}

static void measure_pcg(const system_of *s, int threads, int repeats) {
  double ours = INFINITY, theirs = INFINITY, left = 0, direct_left = 0;
  double *x = malloc((size_t)s->n * sizeof *x);
  int iterations = 0;
  op o = op_of(s, "pcg_solve <preconditioner = \"ic0\", rtol = 1e-8>", threads);
  for (int i = 0; x && i < repeats; i++) {
    ours = least(ours, run(&o, s, &left));
    double start = now();
    iterations = straight_pcg(s->n, doubles(s->values), rlx_tensor_data(s->col), rlx_tensor_data(s->ptr), doubles(s->b),
                              x, 1e-8);
    theirs = least(theirs, now() - start);
    direct_left = residual(s, x);
  }
  close_op(&o);
  free(x);
  char what[64];
  snprintf(what, sizeof what, "pcg_solve, ic0 (%d iterations)", iterations);
  row(what, ours, theirs, left, direct_left);
}

int main(int argc, char **argv) {
  int side = argc > 1 ? atoi(argv[1]) : 1000, threads = argc > 2 ? atoi(argv[2]) : 1,
      repeats = argc > 3 ? atoi(argv[3]) : 3;
  if (side < 1 || side > 10000 || threads < 0 || repeats < 1) return 1;
  if (threads != 1) clock_used = CLOCK_MONOTONIC;
  system_of s = poisson(side);
  printf("%d unknowns, %d threads, seconds\n%-36s %9s %9s %7s   %s\n", s.n, threads, "", "rlx", "direct", "ratio",
         "residuals");
  measure_pcg(&s, threads, repeats);
  measure_cholesky(&s, threads, repeats);
  rlx_tensor *all[] = {s.values, s.col, s.ptr, s.b};
  for (int i = 0; i < 4; i++) rlx_tensor_destroy(all[i]);
  return 0;
}
