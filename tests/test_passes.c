/* test_passes.c — passes as text: every .rlx file of tests/passes holds a graph, the passes to run, and what must come
 * out.
 *
 * The first lines are comments; one of them says "# passes: fold, prune" (the required passes always run, every other
 * one is left out). The graph follows, then a line "====", then the graph expected, or "error: " and a part of the
 * message. Names inside the graphs do not count. After every file the result is validated, printed and parsed again. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ir/parse.h"
#include "ir/print.h"
#include "ir/validate.h"
#include "pass/pass.h"
#include "support/graph_equal.h"
#include "support/graph_match.h"

typedef struct pass_test {
  char path[512];
  char *source;
  size_t input_size;    /* of the first graph's text */
  const char *expected; /* NUL-terminated */
  char passes[256];
} pass_test;

static bool read_test(const char *path, pass_test *t) {
  FILE *f = fopen(path, "rb");
  if (!f) return false;
  t->source = calloc(1, 1 << 20);
  size_t size = t->source ? fread(t->source, 1, (1 << 20) - 1, f) : 0;
  fclose(f);
  snprintf(t->path, sizeof t->path, "%s", path);
  const char *line = size ? strstr(t->source, "# passes:") : NULL, *end = size ? strstr(t->source, "\n====\n") : NULL;
  if (!line || !end) return false;
  snprintf(t->passes, sizeof t->passes, "%.*s", (int)strcspn(line + 9, "\n"), line + 9);
  t->input_size = (size_t)(end - t->source);
  t->expected = end + 6;
  return true;
}

static bool is_wanted(const pass_test *t, const char *name) {
  size_t size = strlen(name);
  for (const char *p = t->passes; *p; p += strcspn(p, ", ")) {
    p += strspn(p, ", ");
    if (strncmp(p, name, size) == 0 && strcspn(p, ", ") == size) return true;
  }
  return false;
}

/* Every word of the list must be a pass: a misspelt one would test nothing. */
static bool names_passes(const pass_test *t) {
  for (const char *p = t->passes; *p; p += strcspn(p, ", ")) {
    p += strspn(p, ", ");
    size_t size = strcspn(p, ", ");
    bool found = size == 0;
    for (const pass *q = pass_table; q->name; q++) found |= strlen(q->name) == size && strncmp(q->name, p, size) == 0;
    if (!found) return false;
  }
  return true;
}

/* The pipeline but for the passes of a comma-separated list. */
static rlx_status run_without(const char *disabled, rlx_graph *g) {
  static const char *const backends[] = {"cpu", NULL};
  rlx_session_options options = RLX_SESSION_OPTIONS_INIT;
  target cpu = {.device = "cpu", .backends = backends, .options = &options};
  debug_options debug = {.switches = DEBUG_VALIDATE};
  return passes_run(g, &cpu, disabled, &debug);
}

static void add_name(char *list, const char *name) {
  if (*list) strcat(list, ",");
  strcat(list, name);
}

static rlx_status run_passes(const pass_test *t, rlx_graph *g) {
  char disabled[1024] = "";
  for (const pass *p = pass_table; p->name; p++)
    if (!p->required && !is_wanted(t, p->name)) add_name(disabled, p->name);
  return run_without(disabled, g);
}

static bool report(const pass_test *t, const rlx_graph *g, const char *what) {
  text dump = {0};
  if (g) graph_dump(g, &dump);
  print_error("%s: %s\n%s", t->path, what, dump.data ? dump.data : "");
  text_finish(&dump);
  return false;
}

static bool check_round_trip(const pass_test *t, const rlx_graph *g) {
  rlx_graph *back = NULL;
  text printed = {0};
  const char *difference = NULL;
  if (graph_validate(g) != RLX_OK || graph_print(g, NULL, &printed) != RLX_OK ||
      graph_parse(printed.data, printed.size, "printed", NULL, NULL, &back) != RLX_OK)
    difference = rlx_error_message();
  else
    difference = graph_difference(g, back);
  if (difference) report(t, g, difference);
  text_finish(&printed);
  rlx_graph_destroy(back);
  return !difference;
}

static bool check_error(const pass_test *t, rlx_status status, const rlx_graph *g) {
  char part[512];
  snprintf(part, sizeof part, "%.*s", (int)strcspn(t->expected + 7, "\n"), t->expected + 7);
  if (status != RLX_OK && strstr(rlx_error_message(), part)) return true;
  return report(t, g, status == RLX_OK ? "no error" : rlx_error_message());
}

static bool check_result(const pass_test *t, const rlx_graph *g) {
  rlx_graph *expected = NULL;
  if (graph_parse(t->expected, strlen(t->expected), "expected", NULL, NULL, &expected) != RLX_OK)
    return report(t, NULL, rlx_error_message());
  const char *difference = graph_mismatch(expected, g);
  bool same = !difference || report(t, g, difference);
  rlx_graph_destroy(expected);
  return same && check_round_trip(t, g);
}

static bool check_test(const pass_test *t) {
  rlx_graph *g = NULL;
  if (!names_passes(t)) return report(t, NULL, "'# passes:' names one that does not exist");
  if (graph_parse(t->source, t->input_size, t->path, NULL, NULL, &g) != RLX_OK)
    return report(t, NULL, rlx_error_message());
  rlx_status status = run_passes(t, g);
  bool good;
  if (strncmp(t->expected, "error: ", 7) == 0)
    good = check_error(t, status, g);
  else
    good = status == RLX_OK ? check_result(t, g) : report(t, g, rlx_error_message());
  selection_release(g);
  rlx_graph_destroy(g);
  return good;
}

static void test_files(void **state) {
  (void)state;
  int files = 0, failed = 0;
  DIR *folder = opendir("tests/passes");
  assert_non_null(folder);
  for (struct dirent *entry; (entry = readdir(folder));) {
    char path[512];
    pass_test t = {.source = NULL};
    if (!strstr(entry->d_name, ".rlx")) continue;
    snprintf(path, sizeof path, "tests/passes/%s", entry->d_name);
    bool good = read_test(path, &t) ? check_test(&t) : false;
    if (!t.expected) print_error("%s: needs '# passes:' and a line '===='\n", path);
    free(t.source);
    failed += !good;
    files++;
  }
  closedir(folder);
  assert_true(files > 0);
  assert_int_equal(failed, 0);
}

/* The pipeline up to each of its passes: the graph is valid and survives the text form. */
static void check_every_pass(const char *path) {
  pass_test t = {.source = NULL};
  snprintf(t.path, sizeof t.path, "%s", path);
  for (const pass *last = pass_table; last->name; last++) {
    rlx_graph *g = NULL;
    char disabled[1024] = "";
    for (const pass *p = last + 1; p->name; p++)
      if (!p->required) add_name(disabled, p->name);
    if (rlx_graph_load(t.path, NULL, &g) != RLX_OK) fail_msg("%s", rlx_error_message());
    if (run_without(disabled, g) != RLX_OK) fail_msg("up to pass %s: %s", last->name, rlx_error_message());
    if (!check_round_trip(&t, g)) fail_msg("up to pass %s", last->name);
    selection_release(g);
    rlx_graph_destroy(g);
  }
}

static void test_every_pass(void **state) {
  (void)state;
  check_every_pass("tests/models/encoder/model.onnx");
  check_every_pass("tests/graphs/conv_chain.rlx");
}

/* Stands for any op with subgraphs, so that passes are tested on them apart from what control flow means. */
static const rlx_port ports[] = {{.name = "x", .flags = RLX_VARIADIC | RLX_HETEROGENEOUS | RLX_ANY_KIND}, {0}};
static const rlx_attr_def attrs[] = {{.name = "then_branch", .kind = RLX_ATTR_GRAPH, .offset = 8},
                                     {.name = "else_branch", .kind = RLX_ATTR_GRAPH, .offset = 16},
                                     {0}};
static rlx_status infer_nothing(rlx_infer *ctx) { return ctx ? RLX_OK : RLX_INTERNAL; }
static rlx_status never_run(rlx_ctx *ctx) { return rlx_fail(ctx, RLX_UNSUPPORTED, "test.branch cannot run"); }
static const rlx_op branch = {.struct_size = sizeof(rlx_op),
                              .name = "test.branch",
                              .inputs = ports,
                              .outputs = ports,
                              .attrs = attrs,
                              .params_size = 24,
                              .infer = infer_nothing,
                              .eval = never_run};

int main(void) {
  if (rlx_register_op(NULL, &branch, 0, NULL) != RLX_OK) return 1;
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_files), cmocka_unit_test(test_every_pass)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
