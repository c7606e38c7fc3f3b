// inputs.c — makes the inputs of a run: from files, from a number, or random.
#include "cli/model.h"
#include "cli/values.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// The text after "name=" if the item is about `name`, else NULL.
static const char *source_for(const char *item, const char *name) {
  size_t length = strlen(name);
  return strncmp(item, name, length) == 0 && item[length] == '=' ? item + length + 1 : NULL;
}

static const char *find_source(const cli_list *list, const char *name) {
  const char *found = NULL;
  for (int i = 0; i < list->count; i++) {
    const char *source = source_for(list->items[i], name);
    if (source) found = source;
  }
  return found;
}

// Whether the word is a symbol of the input, or INPUT.AXIS.
static bool names_dim(const rlx_port_info *port, const char *word, size_t length) {
  for (int axis = 0; axis < (port->type.rank == RLX_UNKNOWN ? RLX_MAX_RANK : port->type.rank); axis++) {
    const char *symbol = port->symbols ? port->symbols[axis] : NULL;
    char *place = cli_format("%s.%d", port->name, axis);
    bool same = strlen(place) == length && memcmp(place, word, length) == 0;
    free(place);
    if (same || (symbol && strlen(symbol) == length && memcmp(symbol, word, length) == 0)) return true;
  }
  return false;
}

// Whether every --input and --dim names something that the model has.
static int check_names(rlx_session *s, const cli_inputs *settings) {
  for (int i = 0; i < settings->inputs.count; i++) {
    const char *item = settings->inputs.items[i];
    bool known = false;
    if (!strchr(item, '=')) return cli_usage("--input takes NAME=SOURCE, not '%s'", item);
    for (int j = 0; j < rlx_session_input_count(s); j++) {
      rlx_port_info port;
      CLI_CALL(rlx_session_input(s, j, &port));
      known = known || source_for(item, port.name);
    }
    for (int j = 0; j < rlx_session_default_count(s); j++) {
      rlx_port_info port;
      CLI_CALL(rlx_session_default(s, j, &port));
      known = known || source_for(item, port.name);
    }
    if (!known) return cli_fail("--input %s: the model has no such input", item);
  }
  for (int i = 0; i < settings->dims.count; i++) {
    const char *item = settings->dims.items[i], *equals = strrchr(item, '=');
    int64_t size;
    if (!equals || !cli_parse_int(equals + 1, &size) || size < 0)
      return cli_usage("--dim takes SYMBOL=N, not '%s'", item);
    bool known = false;
    for (int j = 0; j < rlx_session_input_count(s) && !known; j++) {
      rlx_port_info port;
      CLI_CALL(rlx_session_input(s, j, &port));
      known = names_dim(&port, item, (size_t)(equals - item));
    }
    if (!known) return cli_fail("--dim %s: the model's inputs have no such dim", item);
  }
  return CLI_OK;
}

// The size that --dim gives for a symbol or INPUT.AXIS.
static int64_t dim_size(const cli_list *dims, const rlx_port_info *port, int axis, bool *given) {
  char *place = cli_format("%s.%d", port->name, axis);
  const char *text = find_source(dims, place);
  if (!text && port->symbols && port->symbols[axis]) text = find_source(dims, port->symbols[axis]);
  free(place);
  int64_t size = 1;
  *given = text && cli_parse_int(text, &size);
  return size;
}

// A tensor with the input's type, unknown dims from --dim.
static int create_tensor(const rlx_port_info *port, const cli_list *dims, rlx_tensor **out) {
  int64_t sizes[RLX_MAX_RANK];
  const rlx_type *type = &port->type;
  if (type->kind != RLX_KIND_TENSOR)
    return cli_fail("input '%s' is no tensor: give it a file (--input %s=FILE.pb)", port->name, port->name);
  if (type->rank == RLX_UNKNOWN)
    return cli_fail("input '%s' has no known rank: give it a file (--input %s=FILE)", port->name, port->name);
  for (int i = 0; i < type->rank; i++) {
    bool given;
    sizes[i] = type->dims[i] != RLX_UNKNOWN ? type->dims[i] : dim_size(dims, port, i, &given);
  }
  CLI_CALL(rlx_tensor_create(type->dtype, type->rank, sizes, out));
  return CLI_OK;
}

static int make_input(const rlx_port_info *port, const cli_inputs *settings, uint64_t *seed, cli_bound_input *out) {
  const char *source = find_source(&settings->inputs, port->name);
  double number;
  bool random = !source || strcmp(source, "random") == 0;
  out->source = cli_strdup(random ? "random" : source);
  if (random) {
    CLI_TRY(create_tensor(port, &settings->dims, &out->tensor));
    return value_fill_random(out->tensor, seed);
  }
  if (cli_parse_number(source, &number)) {
    CLI_TRY(create_tensor(port, &settings->dims, &out->tensor));
    return value_fill(out->tensor, number);
  }
  CLI_CALL(rlx_value_read(source, &port->type, &out->tensor));
  return CLI_OK;
}

// Inputs with default values are bound only if they are named.
static int bind_defaults(rlx_session *s, rlx_binding *b, const cli_inputs *settings, uint64_t *seed) {
  for (int i = 0; i < rlx_session_default_count(s); i++) {
    rlx_port_info port;
    cli_bound_input input = {0};
    CLI_CALL(rlx_session_default(s, i, &port));
    if (!find_source(&settings->inputs, port.name)) continue;
    int code = make_input(&port, settings, seed, &input);
    if (code == CLI_OK && rlx_binding_input(b, port.name, input.tensor, 0) != RLX_OK) code = cli_library_failure();
    free(input.source);
    rlx_tensor_destroy(input.tensor);
    if (code != CLI_OK) return cli_fail("input '%s': %s", port.name, cli_message());
  }
  return CLI_OK;
}

int cli_bind_inputs(rlx_session *s, rlx_binding *b, const cli_inputs *settings, cli_bound_input **out) {
  int count = rlx_session_input_count(s);
  uint64_t seed = (uint64_t)settings->seed;
  cli_bound_input *inputs = cli_alloc((size_t)count, sizeof *inputs);
  *out = inputs;
  CLI_TRY(check_names(s, settings));
  for (int i = 0; i < count; i++) {
    rlx_port_info port;
    CLI_CALL(rlx_session_input(s, i, &port));
    if (make_input(&port, settings, &seed, &inputs[i]) != CLI_OK)
      return cli_fail("input '%s': %s", port.name, cli_message());
    CLI_CALL(rlx_binding_input(b, port.name, inputs[i].tensor, 0));
  }
  return bind_defaults(s, b, settings, &seed);
}

void cli_inputs_release(cli_bound_input *inputs, int count) {
  for (int i = 0; inputs && i < count; i++) {
    free(inputs[i].source);
    rlx_tensor_destroy(inputs[i].tensor);
  }
  free(inputs);
}
