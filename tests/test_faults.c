/* test_faults.c — every allocation failing in turn, over a sample of the rows and of ONNX's suites: making a session
 * and running ends well or says that memory is short; afterwards the same works. RLX_FULL=1 takes a larger sample. */
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/memory.h"
#include "support/rows.h"

enum { SLOTS = 16 };

/* Something to load and run: a model file, or a graph. */
typedef struct subject {
  const char *name, *model; /* model: path, or NULL */
  const rlx_graph *graph;
  const row *row;            /* of the graph; its outputs are compared */
  rlx_tensor *inputs[SLOTS]; /* by position; NULL: read when the types are known */
  int runs, failures;
} subject;

static bool full(void) { return getenv("RLX_FULL") != NULL; }

static rlx_status bind_inputs(subject *s, rlx_session *session, rlx_binding *b) {
  for (int i = 0; i < rlx_session_input_count(session) && i < SLOTS; i++) {
    rlx_port_info port;
    rlx_status status = rlx_session_input(session, i, &port);
    if (status == RLX_OK) status = rlx_binding_input(b, port.name, s->inputs[i], 0);
    if (status != RLX_OK) return status;
  }
  return RLX_OK;
}

static void compare(const subject *s, rlx_binding *b) {
  for (int i = 0; s->row && i < s->row->output_count; i++) {
    rlx_tensor *t = NULL;
    if (rlx_binding_get(b, s->row->outputs[i].name, &t) != RLX_OK) continue; /* memory may be short here too */
    const char *difference = row_difference(s->row, i, t);
    if (difference) fail_msg("%s:%d: %s", s->name, s->row->line, difference);
    rlx_tensor_destroy(t);
  }
}

/* Once, from the file or graph to the results. */
static rlx_status run_once(subject *s) {
  rlx_graph *g = NULL;
  rlx_session *session = NULL;
  rlx_binding *b = NULL;
  rlx_session_options options = RLX_SESSION_OPTIONS_INIT;
  options.threads = 1;
  rlx_status status = s->model ? rlx_graph_load(s->model, NULL, &g) : RLX_OK;
  if (status == RLX_OK) status = rlx_session_create(g ? g : s->graph, &options, &session);
  if (status == RLX_OK) status = rlx_binding_create(session, &b);
  if (status == RLX_OK) status = bind_inputs(s, session, b);
  if (status == RLX_OK) status = rlx_run(b, NULL);
  if (status == RLX_OK) compare(s, b);
  s->runs++;
  s->failures += status != RLX_OK;
  rlx_binding_destroy(b);
  rlx_session_destroy(session);
  rlx_graph_destroy(g);
  return status;
}

/* Each allocation fails in turn; with many of them, every so many. */
static void fail_in_turn(subject *s, int64_t most) {
  for (int repeat = 0; repeat < 2; repeat++) {
    (void)mem_inject(0, 0);
    if (run_once(s) != RLX_OK) fail_msg("%s: %s", s->name, rlx_error_message());
    int64_t count = mem_inject(0, 0), step = count / most + 1;
    for (int64_t n = 1; n <= count; n += step) {
      (void)mem_inject(n, repeat);
      rlx_status status = run_once(s);
      (void)mem_inject(0, 0);
      if (status != RLX_OK && (status != RLX_OUT_OF_MEMORY || !*rlx_error_message()))
        fail_msg("%s, allocation %lld: status %d: %s", s->name, (long long)n, status, rlx_error_message());
    }
  }
}

/* ---- rows --------------------------------------------------------------------------------- */

static void fail_row(void *user, const row *r) {
  subject *total = user, s = {.name = r->file, .row = r};
  if (r->fails) return;
  rlx_graph *g = row_graph(r, NULL, 0);
  if (!g) fail_msg("%s:%d: %s", r->file, r->line, rlx_error_message());
  s.graph = g;
  for (int i = 0; i < r->input_count && i < SLOTS; i++) s.inputs[i] = r->inputs[i].tensor;
  fail_in_turn(&s, full() ? INT32_MAX : 150);
  total->runs += s.runs;
  total->failures += s.failures;
  rlx_graph_destroy(g);
}

static void test_rows(void **state) {
  (void)state;
  subject total = {0};
  int rows = rows_each("tests/rows", 7, full() ? 11 : 101, fail_row, &total);
  print_message("%d rows, %d runs, %d of them short of memory\n", rows, total.runs, total.failures);
  assert_true(total.failures > rows);
}

/* ---- suites ------------------------------------------------------------------------------- */

static bool read_inputs(subject *s, const char *folder) {
  rlx_graph *g = NULL;
  bool good = rlx_graph_load(s->model, NULL, &g) == RLX_OK;
  for (size_t i = 0; good && i < g->inputs.count; i++) {
    char path[1200];
    snprintf(path, sizeof path, "%s/test_data_set_0/input_%zu.pb", folder, i);
    good = i < SLOTS && rlx_value_read(path, &g->inputs.data[i]->type, &s->inputs[i]) == RLX_OK;
  }
  rlx_graph_destroy(g);
  return good;
}

static bool fail_case(const char *suite, const char *name, subject *total) {
  char folder[1024], model[1100];
  snprintf(folder, sizeof folder, "%s/%s", suite, name);
  snprintf(model, sizeof model, "%s/model.onnx", folder);
  subject s = {.name = name, .model = model};
  bool can_run = read_inputs(&s, folder) && run_once(&s) == RLX_OK;
  if (can_run) fail_in_turn(&s, full() ? 300 : 150);
  for (int i = 0; i < SLOTS; i++) rlx_tensor_destroy(s.inputs[i]);
  total->runs += s.runs;
  total->failures += s.failures;
  return can_run;
}

static void test_suites(void **state) {
  (void)state;
  static const char *const suites[] = {"build/onnx-suite/node", "build/onnx-suite/simple",
                                       "build/onnx-suite/pytorch-converted", "build/onnx-suite/pytorch-operator"};
  subject total = {0};
  int cases = 0, step = full() ? 23 : 73;
  for (size_t k = 0; k < sizeof suites / sizeof *suites; k++) {
    struct dirent **names;
    int count = scandir(suites[k], &names, NULL, alphasort);
    for (int i = 0; i < count; i++) {
      if (*names[i]->d_name != '.' && i % step == 3) cases += fail_case(suites[k], names[i]->d_name, &total);
      free(names[i]);
    }
    if (count >= 0) free(names);
  }
  print_message("%d cases, %d runs, %d of them short of memory\n", cases, total.runs, total.failures);
  if (cases == 0) skip(); /* the suites are made by make suite */
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_rows), cmocka_unit_test(test_suites)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
