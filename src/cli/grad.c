// grad.c — rlx grad: a model with the gradients or tangents of its values as outputs.
#include "cli/model.h"

#include <cjson/cJSON.h>
#include <rlx/extend.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct settings {
  cli_list ops;
  cli_list wrt;
  cli_list losses;
  const char *output;
  bool forward;
  bool only;
  bool json;
} settings;

// The values that were named, found in the graph.
typedef struct named_values {
  rlx_value **values;
  int count;
} named_values;

static int find_values(const rlx_graph *g, const cli_list *names, const char *option, named_values *out) {
  if (!names->count) return cli_usage("grad: %s NAME is needed", option);
  out->values = cli_alloc((size_t)names->count, sizeof *out->values);
  for (int i = 0; i < names->count; i++) {
    rlx_value *v = rlx_graph_find(g, names->items[i]);
    if (!v) return cli_fail("the model has no value '%s'", names->items[i]);
    out->values[out->count++] = v;
  }
  return CLI_OK;
}

// Adds an output NAME_suffix, a copy: one value may be asked for twice.
static void add_output(rlx_graph *g, rlx_value *v, const char *name, const char *suffix) {
  char *text = cli_format("%s_%s", name, suffix);
  const char *names[1] = {text};
  rlx_node_desc d = {.struct_size = sizeof d,
                     .op = "onnx.Identity",
                     .inputs = &v,
                     .input_count = 1,
                     .output_count = 1,
                     .output_names = names};
  rlx_graph_output(g, rlx_node_output(rlx_graph_node(g, &d), 0), text);
  free(text);
}

static int add_gradients(rlx_graph *g, const settings *set, const named_values *loss, const named_values *wrt) {
  if (loss->count > 1) return cli_usage("grad: one --loss; several are for --forward");
  rlx_value **found = cli_alloc((size_t)wrt->count, sizeof(rlx_value *));
  rlx_status status = rlx_gradient(g, loss->values[0], NULL, wrt->values, wrt->count, found);
  for (int i = 0; i < wrt->count && status == RLX_OK; i++) add_output(g, found[i], set->wrt.items[i], "grad");
  free(found);
  return status == RLX_OK ? CLI_OK : cli_library_failure();
}

// Each --wrt value gets an input NAME_tangent of its type.
static int add_tangents(rlx_graph *g, const settings *set, const named_values *loss, const named_values *wrt) {
  rlx_value **tangents = cli_alloc((size_t)wrt->count, sizeof(rlx_value *));
  rlx_value **found = cli_alloc((size_t)loss->count, sizeof(rlx_value *));
  for (int i = 0; i < wrt->count; i++) {
    char *name = cli_format("%s_tangent", set->wrt.items[i]);
    tangents[i] = rlx_graph_input(g, name, rlx_value_type(wrt->values[i]));
    free(name);
  }
  rlx_status status = rlx_graph_status(g);
  if (status == RLX_OK) status = rlx_jvp(g, wrt->values, tangents, wrt->count, loss->values, loss->count, found);
  int code = status == RLX_OK ? CLI_OK : cli_library_failure();
  for (int i = 0; i < loss->count && code == CLI_OK; i++) {
    if (found[i])
      add_output(g, found[i], set->losses.items[i], "tangent");
    else
      code = cli_fail("'%s' depends on none of the values of --wrt", set->losses.items[i]);
  }
  free(tangents);
  free(found);
  return code;
}

static int differentiate(const settings *set, rlx_graph *g, const named_values *loss, const named_values *wrt) {
  CLI_CALL(rlx_graph_upgrade(g)); // a file has one opset version
  if (set->only) rlx_graph_clear_outputs(g);
  CLI_TRY(set->forward ? add_tangents(g, set, loss, wrt) : add_gradients(g, set, loss, wrt));
  CLI_CALL(rlx_graph_finish(g));
  CLI_CALL(rlx_graph_save(g, set->output));
  return CLI_OK;
}

// The outputs that were added.
static void show(const settings *set) {
  const cli_list *names = set->forward ? &set->losses : &set->wrt;
  cJSON *json = set->json ? cJSON_CreateObject() : NULL;
  cJSON *list = json ? cJSON_AddArrayToObject(json, "outputs") : NULL;
  for (int i = 0; i < names->count; i++) {
    char *name = cli_format("%s_%s", names->items[i], set->forward ? "tangent" : "grad");
    if (json)
      cJSON_AddItemToArray(list, cJSON_CreateString(name));
    else
      printf("output %s\n", name);
    free(name);
  }
  if (json) cli_print_json(json);
}

static int run(const void *opaque, const cli_list *arguments) {
  const settings *set = opaque;
  cli_model m = {0};
  named_values loss = {0}, wrt = {0};
  if (!set->output) return cli_usage("grad: --output FILE is needed");
  int code = cli_model_load(&m, arguments->items[0], &set->ops);
  if (code == CLI_OK) code = find_values(m.graph, &set->losses, "--loss", &loss);
  if (code == CLI_OK) code = find_values(m.graph, &set->wrt, "--wrt", &wrt);
  if (code == CLI_OK) code = differentiate(set, m.graph, &loss, &wrt);
  if (code == CLI_OK) show(set);
  free(loss.values);
  free(wrt.values);
  cli_model_close(&m);
  return code;
}

static const cli_option options[] = {
    {"--loss", "NAME", "the value to differentiate (with --forward: one of several)", CLI_LIST,
     offsetof(settings, losses), 0, 0, 0},
    {"--wrt", "NAME", "an input, weight or other value to differentiate by; may be given several times", CLI_LIST,
     offsetof(settings, wrt), 0, 0, 0},
    {"--output", "FILE", "the model to write", CLI_TEXT, offsetof(settings, output), 0, 0, 0},
    {"--forward", NULL, "tangents: an input NAME_tangent for each --wrt, an output NAME_tangent for each --loss",
     CLI_FLAG, offsetof(settings, forward), 0, 0, 0},
    {"--only", NULL, "leave the model's own outputs out", CLI_FLAG, offsetof(settings, only), 0, 0, 0},
    {"--ops", "NAME|FILE", "load a package of ops; may be given several times", CLI_LIST, offsetof(settings, ops), 0, 0,
     0},
    CLI_OPTION_JSON(settings),
    CLI_OPTION_END,
};

const cli_command cli_grad = {
    .name = "grad",
    .arguments = "MODEL",
    .summary = "write a model with the gradients or tangents of its values as outputs",
    .details = "Each --wrt NAME gives an output NAME_grad: the gradient of the sum of the --loss value.",
    .options = options,
    .settings_size = sizeof(settings),
    .min_arguments = 1,
    .max_arguments = 1,
    .run = run,
};
