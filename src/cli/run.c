// run.c — rlx run: runs a model once or more, sums up its outputs, writes them.
#include "cli/model.h"
#include "cli/timing.h"
#include "cli/values.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

typedef struct settings {
  cli_target target;
  cli_inputs inputs;
  const char *output;
  const char *trace;
  int64_t repeat;
  bool explain;
  bool json;
} settings;

// A file's name for a value's: what may not stand there, and '%' itself, as %XX, so that no two names become one.
static char *file_name(const char *name) {
  char *file = cli_strdup("");
  for (const char *c = name; *c; c++) {
    bool escaped = *c == '/' || *c == '%' || (*c == '.' && c == name);
    char *longer = escaped ? cli_format("%s%%%02X", file, (unsigned)*c) : cli_format("%s%c", file, *c);
    free(file);
    file = longer;
  }
  return file;
}

// NAME.npy, or NAME.pb for types that NumPy does not have.
static int write_output(const char *folder, const char *name, const rlx_tensor *t) {
  char *file = file_name(name);
  char *path = cli_format("%s/%s.npy", folder, file);
  rlx_status status = rlx_tensor_write(t, name, path);
  if (status == RLX_UNSUPPORTED) {
    free(path);
    path = cli_format("%s/%s.pb", folder, file);
    status = rlx_tensor_write(t, name, path);
  }
  free(path);
  free(file);
  return status == RLX_OK ? CLI_OK : cli_library_failure();
}

static int show_output(const settings *set, const char *name, const rlx_tensor *t, cJSON *outputs) {
  if (set->output) CLI_TRY(write_output(set->output, name, t));
  if (outputs) {
    cJSON_AddItemToArray(outputs, value_summary_json(name, t));
    return CLI_OK;
  }
  rlx_type type;
  rlx_tensor_type(t, &type);
  char *text = value_type_text(&type, NULL), *summary = value_summary(t);
  printf("output %s  %s  %s\n", name, text, summary);
  free(text);
  free(summary);
  return CLI_OK;
}

static int show_outputs(const settings *set, rlx_session *s, rlx_binding *b, cJSON *outputs) {
  if (set->output && mkdir(set->output, 0777) != 0 && errno != EEXIST)
    return cli_fail("%s: %s", set->output, strerror(errno));
  for (int i = 0; i < rlx_session_output_count(s); i++) {
    rlx_port_info port;
    rlx_tensor *t = NULL;
    CLI_CALL(rlx_session_output(s, i, &port));
    CLI_CALL(rlx_binding_get(b, port.name, &t));
    int code = show_output(set, port.name, t, outputs);
    rlx_tensor_destroy(t);
    CLI_TRY(code);
  }
  return CLI_OK;
}

static int show_inputs(rlx_session *s, const cli_bound_input *inputs, cJSON *list) {
  for (int i = 0; i < rlx_session_input_count(s); i++) {
    const rlx_tensor *t = inputs[i].tensor;
    rlx_port_info port;
    CLI_CALL(rlx_session_input(s, i, &port));
    if (list) {
      cJSON *object = value_summary_json(port.name, t);
      cJSON_AddStringToObject(object, "source", inputs[i].source);
      cJSON_AddItemToArray(list, object);
    } else {
      char *dims = value_dims_text(rlx_tensor_rank(t), rlx_tensor_dims(t));
      printf("input %s  %s%s  %s\n", port.name, rlx_dtype_name(rlx_tensor_dtype(t)), dims, inputs[i].source);
      free(dims);
    }
  }
  return CLI_OK;
}

static void show_times(const cli_model *m, const cli_times *times, cJSON *json) {
  if (json) {
    cJSON_AddNumberToObject(json, "load_ms", m->load_ms);
    cJSON_AddNumberToObject(json, "compile_ms", m->compile_ms);
    cJSON_AddNumberToObject(json, "first_ms", times->first_ms);
    cJSON_AddNumberToObject(json, "min_ms", times->min_ms);
    cJSON_AddNumberToObject(json, "median_ms", times->median_ms);
    cJSON_AddNumberToObject(json, "runs", times->count);
    return;
  }
  printf("time  load %.2f ms  compile %.2f ms  first run %.2f ms", m->load_ms, m->compile_ms, times->first_ms);
  if (times->count > 1)
    printf("  then %d runs: min %.3f ms  median %.3f ms", times->count - 1, times->min_ms, times->median_ms);
  putchar('\n');
}

static int show_report(rlx_session *s, cJSON *json) {
  char *text = NULL;
  CLI_CALL(rlx_report(s, json ? RLX_REPORT_JSON : RLX_REPORT_TEXT, &text));
  if (json)
    cJSON_AddItemToObject(json, "report", cJSON_Parse(text));
  else
    printf("\n%s", text);
  rlx_free(text);
  return CLI_OK;
}

static int run_bound(const settings *set, cli_model *m, rlx_binding *b, cJSON *json) {
  cli_bound_input *inputs = NULL;
  cli_times times;
  int code = cli_bind_inputs(m->session, b, &set->inputs, &inputs);
  if (code == CLI_OK) code = show_inputs(m->session, inputs, json ? cJSON_AddArrayToObject(json, "inputs") : NULL);
  cli_inputs_release(inputs, rlx_session_input_count(m->session));
  CLI_TRY(code);
  if (set->trace) CLI_CALL(rlx_trace(m->session, set->trace));
  code = cli_time_runs(b, set->repeat - 1, &times);
  if (set->trace && rlx_trace(m->session, NULL) != RLX_OK && code == CLI_OK) code = cli_library_failure();
  CLI_TRY(code);
  CLI_TRY(show_outputs(set, m->session, b, json ? cJSON_AddArrayToObject(json, "outputs") : NULL));
  show_times(m, &times, json);
  return set->explain ? show_report(m->session, json) : CLI_OK;
}

static int run(const void *opaque, const cli_list *arguments) {
  const settings *set = opaque;
  cli_model model = {0};
  rlx_binding *b = NULL;
  cJSON *json = set->json ? cJSON_CreateObject() : NULL;
  int code = cli_model_open(&model, arguments->items[0], &set->target);
  if (code == CLI_OK && rlx_binding_create(model.session, &b) != RLX_OK) code = cli_library_failure();
  if (code == CLI_OK) code = run_bound(set, &model, b, json);
  rlx_binding_destroy(b);
  cli_model_close(&model);
  if (code == CLI_OK && json) return cli_print_json(json);
  cJSON_Delete(json);
  return code;
}

static const cli_option options[] = {
    CLI_OPTION_DEVICE(settings),
    CLI_OPTION_INPUT(settings),
    CLI_OPTION_DIM(settings),
    CLI_OPTION_SEED(settings),
    {"--output", "DIR", "write each output to DIR as NAME.npy (or .pb)", CLI_TEXT, offsetof(settings, output), 0, 0, 0},
    CLI_OPTION_OPS(settings),
    CLI_OPTION_POLICY(settings),
    CLI_OPTION_THREADS(settings),
    CLI_OPTION_PIN(settings),
    CLI_OPTION_WITHOUT(settings),
    {"--repeat", "N", "run N times (default 1)", CLI_INT, offsetof(settings, repeat), 1, 1000000, 1},
    {"--explain", NULL, "print which kernel ran each node, and why", CLI_FLAG, offsetof(settings, explain), 0, 0, 0},
    {"--trace", "FILE", "write a trace of the runs for Perfetto (ui.perfetto.dev)", CLI_TEXT, offsetof(settings, trace),
     0, 0, 0},
    CLI_OPTION_JSON(settings),
    CLI_OPTION_END,
};

const cli_command cli_run = {
    .name = "run",
    .arguments = "MODEL",
    .summary = "run a model and sum up its outputs",
    .details = "Inputs that are not named are random: floats in [0, 1), wide integers 0 or 1, 8-bit ones any value.",
    .options = options,
    .settings_size = sizeof(settings),
    .min_arguments = 1,
    .max_arguments = 1,
    .run = run,
};
