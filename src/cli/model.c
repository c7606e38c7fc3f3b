// model.c — opens a model as the common options say: packages, policy, device, threads.
#include "cli/model.h"

#include <stdlib.h>
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

// "onnx.Relu=cpu:loop" → pin; its strings are in *text, which the caller frees.
static int parse_pin(const char *item, rlx_pin *pin, char **text) {
  char *what = *text = cli_strdup(item), *tier = strchr(what, '=');
  if (!tier || tier == what) return cli_usage("--pin takes WHAT=TIER[:KERNEL], not '%s'", item);
  *tier++ = '\0';
  char *kernel = strchr(tier, ':');
  if (kernel) *kernel++ = '\0';
  *pin = (rlx_pin){.kernel = kernel && *kernel ? kernel : NULL};
  if (strncmp(what, "node:", 5) == 0)
    pin->node = what + 5;
  else if (strcmp(what, "*") != 0)
    pin->op = what;
  if (strcmp(tier, "any") == 0) return CLI_OK;
  for (int t = RLX_TIER_RAW; t <= RLX_TIER_EVAL; t++)
    if (strcmp(tier, rlx_tier_name((rlx_tier)t)) == 0) pin->tier = (rlx_tier)t;
  if (pin->tier == RLX_TIER_ANY) return cli_usage("--pin %s: there is no tier '%s'", item, tier);
  return CLI_OK;
}

// The pins of a target, for one session; released by pins_release.
typedef struct pins {
  rlx_pin *items;
  char **texts;
  int count;
} pins;

static int parse_pins(const cli_list *list, pins *out) {
  out->items = cli_alloc((size_t)list->count, sizeof *out->items);
  out->texts = cli_alloc((size_t)list->count, sizeof *out->texts);
  for (out->count = 0; out->count < list->count;) {
    int i = out->count++;
    CLI_TRY(parse_pin(list->items[i], &out->items[i], &out->texts[i]));
  }
  return CLI_OK;
}

static void pins_release(pins *p) {
  for (int i = 0; i < p->count; i++) free(p->texts[i]);
  free(p->texts);
  free(p->items);
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
  pins pinned = {0};
  options.device = target->device;
  options.registry = m->registry;
  options.threads = (int)target->threads;
  options.disable_passes = target->without;
  int code = parse_policy(target->policy, &options);
  if (code == CLI_OK) code = parse_pins(&target->pins, &pinned);
  options.pins = pinned.items;
  options.pin_count = pinned.count;
  double start = cli_now_ms();
  if (code == CLI_OK && rlx_session_create(m->graph, &options, &m->session) != RLX_OK) code = cli_library_failure();
  m->compile_ms = cli_now_ms() - start;
  pins_release(&pinned);
  return code;
}

int cli_target_check(const cli_target *target) {
  rlx_session_options ignored = RLX_SESSION_OPTIONS_INIT;
  pins pinned = {0};
  int code = parse_policy(target->policy, &ignored);
  if (code == CLI_OK) code = parse_pins(&target->pins, &pinned);
  pins_release(&pinned);
  return code;
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
