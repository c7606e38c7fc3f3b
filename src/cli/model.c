// model.c — opens a model as the common options say: packages, policy, device, threads.
#include "cli/model.h"

#include <string.h>

int cli_load_ops(const cli_list *ops, rlx_registry **out) {
  rlx_registry *registry = NULL;
  if (ops->count == 0) return CLI_OK;
  CLI_CALL(rlx_registry_create(&registry));
  for (int i = 0; i < ops->count; i++) {
    if (rlx_load_package(registry, ops->items[i]) != RLX_OK) {
      int code = cli_library_failure();
      rlx_registry_destroy(registry);
      return code;
    }
  }
  *out = registry;
  return CLI_OK;
}

static int parse_budget(const char *text, rlx_session_options *options) {
  char trips[32];
  size_t length = strcspn(text, ",");
  int64_t value;
  if (length >= sizeof trips) return cli_usage("--policy: budget takes numbers, not '%s'", text);
  memcpy(trips, text, length);
  trips[length] = '\0';
  if (!cli_parse_int(trips, &value) || value < 0 || value > INT32_MAX)
    return cli_usage("--policy: budget=TRIPS[,BYTES] takes numbers, not '%s'", text);
  options->budget_trips = (int)value;
  options->budget_bytes = INT64_MAX;
  if (text[length] && (!cli_parse_int(text + length + 1, &options->budget_bytes) || options->budget_bytes < 0))
    return cli_usage("--policy: budget=TRIPS[,BYTES] takes numbers, not '%s'", text);
  options->policy = RLX_POLICY_BUDGET;
  return CLI_OK;
}

static int parse_policy(const char *text, rlx_session_options *options) {
  if (!text || strcmp(text, "allow") == 0)
    options->policy = RLX_POLICY_ALLOW;
  else if (strcmp(text, "warn") == 0)
    options->policy = RLX_POLICY_WARN;
  else if (strcmp(text, "forbid") == 0)
    options->policy = RLX_POLICY_FORBID;
  else if (strncmp(text, "budget=", 7) == 0)
    return parse_budget(text + 7, options);
  else
    return cli_usage("--policy takes allow, warn, forbid or budget=TRIPS[,BYTES], not '%s'", text);
  return CLI_OK;
}

int cli_model_load(cli_model *m, const char *path, const cli_list *ops) {
  rlx_load_options load = RLX_LOAD_OPTIONS_INIT;
  CLI_TRY(cli_load_ops(ops, &m->registry));
  load.registry = m->registry;
  double start = cli_now_ms();
  CLI_CALL(rlx_graph_load(path, &load, &m->graph));
  m->load_ms = cli_now_ms() - start;
  return CLI_OK;
}

int cli_model_compile(cli_model *m, const cli_target *target) {
  rlx_session_options options = RLX_SESSION_OPTIONS_INIT;
  options.device = target->device;
  options.registry = m->registry;
  options.threads = (int)target->threads;
  CLI_TRY(parse_policy(target->policy, &options));
  double start = cli_now_ms();
  CLI_CALL(rlx_session_create(m->graph, &options, &m->session));
  m->compile_ms = cli_now_ms() - start;
  return CLI_OK;
}

int cli_target_check(const cli_target *target) {
  rlx_session_options ignored = RLX_SESSION_OPTIONS_INIT;
  return parse_policy(target->policy, &ignored);
}

int cli_model_open(cli_model *m, const char *path, const cli_target *target) {
  CLI_TRY(cli_target_check(target));
  CLI_TRY(cli_model_load(m, path, &target->ops));
  return cli_model_compile(m, target);
}

void cli_model_close(cli_model *m) {
  rlx_session_destroy(m->session);
  rlx_graph_destroy(m->graph);
  rlx_registry_destroy(m->registry);
  *m = (cli_model){0};
}
