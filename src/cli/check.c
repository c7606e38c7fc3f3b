// check.c — rlx check: can this model be loaded, validated and compiled for the device?
#include "cli/model.h"
#include "cli/values.h"

#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct settings {
  cli_target target;
  bool json;
} settings;

typedef rlx_status (*get_port)(const rlx_session *s, int i, rlx_port_info *info);

static int show_ports(const char *title, const rlx_session *s, int count, get_port get, cJSON *json) {
  cJSON *list = json ? cJSON_AddArrayToObject(json, title) : NULL;
  if (!json) printf("%s\n", title);
  for (int i = 0; i < count; i++) {
    rlx_port_info port;
    CLI_CALL(get(s, i, &port));
    if (json) {
      cJSON_AddItemToArray(list, value_type_json(port.name, &port.type, port.symbols));
    } else {
      char *type = value_type_text(&port.type, port.symbols);
      printf("  %s  %s\n", port.name, type);
      free(type);
    }
  }
  return CLI_OK;
}

static int check(const char *path, const cli_target *target, cli_model *m, const char **stage) {
  CLI_TRY(cli_target_check(target));
  *stage = "load";
  CLI_TRY(cli_model_load(m, path, &target->ops));
  *stage = "validate";
  CLI_CALL(rlx_graph_validate(m->graph));
  *stage = "compile";
  return cli_model_compile(m, target);
}

static int show_ready(const cli_model *m, const cli_target *target, cJSON *json) {
  const char *device = target->device ? target->device : "cpu";
  if (json)
    cJSON_AddStringToObject(json, "device", device);
  else
    printf("loads, is valid, and compiles for %s\n", device);
  CLI_TRY(show_ports("inputs", m->session, rlx_session_input_count(m->session), rlx_session_input, json));
  if (rlx_session_default_count(m->session))
    CLI_TRY(show_ports("defaults", m->session, rlx_session_default_count(m->session), rlx_session_default, json));
  return show_ports("outputs", m->session, rlx_session_output_count(m->session), rlx_session_output, json);
}

static int run(const void *opaque, const cli_list *arguments) {
  const settings *set = opaque;
  const char *stage = "";
  cli_model model = {0};
  cJSON *json = set->json ? cJSON_CreateObject() : NULL;
  int code = check(arguments->items[0], &set->target, &model, &stage);
  if (json) cJSON_AddBoolToObject(json, "ok", code == CLI_OK);
  if (code == CLI_OK) {
    code = show_ready(&model, &set->target, json);
  } else if (json && code == CLI_FAILED) {
    cJSON_AddStringToObject(json, "stage", stage);
    cJSON_AddStringToObject(json, "message", cli_message());
  }
  cli_model_close(&model);
  if (json && code != CLI_USAGE)
    cli_print_json(json);
  else
    cJSON_Delete(json);
  return code;
}

static const cli_option options[] = {
    CLI_OPTION_DEVICE(settings),  CLI_OPTION_OPS(settings), CLI_OPTION_POLICY(settings),
    CLI_OPTION_THREADS(settings), CLI_OPTION_PIN(settings), CLI_OPTION_WITHOUT(settings),
    CLI_OPTION_JSON(settings),    CLI_OPTION_END,
};

const cli_command cli_check = {
    .name = "check",
    .arguments = "MODEL",
    .summary = "load, validate and compile a model; list what stands in the way",
    .options = options,
    .settings_size = sizeof(settings),
    .min_arguments = 1,
    .max_arguments = 1,
    .run = run,
};
