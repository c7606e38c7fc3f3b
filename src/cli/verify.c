// verify.c — runs one test case on all its data sets.
#include "cli/cases.h"
#include "cli/model.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool exists(const char *folder, const char *stem, int i) {
  char *path = cli_format("%s/%s_%d.pb", folder, stem, i);
  bool found = access(path, F_OK) == 0;
  free(path);
  return found;
}

static int read_value(const char *folder, const char *stem, int i, const rlx_type *type, rlx_tensor **out) {
  char *path = cli_format("%s/%s_%d.pb", folder, stem, i);
  int code = CLI_OK;
  if (access(path, F_OK) != 0)
    code = cli_fail("%s_%d.pb is missing", stem, i);
  else if (rlx_value_read(path, type, out) != RLX_OK)
    code = cli_library_failure();
  free(path);
  return code;
}

static int bind_inputs(const char *folder, rlx_session *s, rlx_binding *b) {
  int count = rlx_session_input_count(s);
  for (int i = 0; i < count; i++) {
    rlx_port_info port;
    rlx_tensor *t = NULL;
    CLI_CALL(rlx_session_input(s, i, &port));
    CLI_TRY(read_value(folder, "input", i, &port.type, &t));
    rlx_status status = rlx_binding_input(b, port.name, t, 0);
    rlx_tensor_destroy(t);
    CLI_CALL(status);
  }
  if (exists(folder, "input", count)) return cli_fail("input_%d.pb: the model has only %d inputs", count, count);
  return CLI_OK;
}

static int compare_output(const char *folder, const test_case *c, rlx_session *s, rlx_binding *b, int i) {
  rlx_port_info port;
  rlx_tensor *got = NULL, *want = NULL;
  CLI_CALL(rlx_session_output(s, i, &port));
  CLI_TRY(read_value(folder, "output", i, &port.type, &want));
  int code = rlx_binding_get(b, port.name, &got) == RLX_OK ? CLI_OK : cli_library_failure();
  if (code == CLI_OK && c->contested)
    code = test_compare_type(got, want);
  else if (code == CLI_OK)
    code = test_compare(got, want, c->rtol, c->atol);
  if (code != CLI_OK) cli_fail("output '%s': %s", port.name, cli_message());
  rlx_tensor_destroy(got);
  rlx_tensor_destroy(want);
  return code;
}

static int run_data_set(const char *folder, const test_case *c, rlx_session *s) {
  rlx_binding *b = NULL;
  int count = rlx_session_output_count(s);
  CLI_CALL(rlx_binding_create(s, &b));
  int code = bind_inputs(folder, s, b);
  if (code == CLI_OK && rlx_run(b, NULL) != RLX_OK) code = cli_library_failure();
  for (int i = 0; i < count && code == CLI_OK; i++) code = compare_output(folder, c, s, b, i);
  if (code == CLI_OK && exists(folder, "output", count))
    code = cli_fail("output_%d.pb: the model has only %d outputs", count, count);
  rlx_binding_destroy(b);
  return code;
}

static int run_data_sets(const test_case *c, rlx_session *s) {
  int code = CLI_OK, sets = 0;
  for (; code == CLI_OK; sets++) {
    char *folder = cli_format("%s/test_data_set_%d", c->folder, sets);
    bool found = access(folder, F_OK) == 0;
    if (found) code = run_data_set(folder, c, s);
    free(folder);
    if (!found) break;
    if (code != CLI_OK && sets > 0) cli_fail("data set %d: %s", sets, cli_message());
  }
  if (code == CLI_OK && sets == 0) return cli_fail("no test_data_set_0");
  return code;
}

int test_case_run(const test_case *c, const cli_target *target, rlx_registry *registry) {
  cli_model m = {.registry = registry};
  const cli_list no_ops = {NULL, 0};
  char *path = cli_format("%s/model.onnx", c->folder);
  int code = cli_model_load(&m, path, &no_ops);
  if (code == CLI_OK) code = cli_model_compile(&m, target);
  if (code == CLI_OK) code = run_data_sets(c, m.session);
  m.registry = NULL; // the caller's
  cli_model_close(&m);
  free(path);
  return code;
}
