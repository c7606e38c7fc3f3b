// parse.c — reads a command's words into its settings, as its table of options says.
#include "cli/cli.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

bool cli_parse_int(const char *text, int64_t *out) {
  char *end;
  errno = 0;
  long long value = strtoll(text, &end, 10);
  if (end == text || *end || errno) return false;
  *out = value;
  return true;
}

bool cli_parse_number(const char *text, double *out) {
  char *end;
  double value = strtod(text, &end);
  if (end == text || *end) return false;
  *out = value;
  return true;
}

// The option that a word such as "--device" or "--device=cpu" names; *value is what follows the '='.
static const cli_option *find_option(const cli_command *command, const char *word, const char **value) {
  size_t length = strcspn(word, "=");
  for (const cli_option *o = command->options; o->name; o++) {
    if (strlen(o->name) == length && strncmp(o->name, word, length) == 0) {
      *value = word[length] ? word + length + 1 : NULL;
      return o;
    }
  }
  return NULL;
}

static int store_int(const cli_command *command, const cli_option *o, const char *value, int64_t *member) {
  int64_t number;
  if (!cli_parse_int(value, &number))
    return cli_usage("%s: %s takes a whole number, not '%s'", command->name, o->name, value);
  if (number < o->min || number > o->max)
    return cli_usage("%s: %s takes %lld to %lld, not %s", command->name, o->name, (long long)o->min, (long long)o->max,
                     value);
  *member = number;
  return CLI_OK;
}

static int store(const cli_command *command, const cli_option *o, const char *value, void *settings) {
  void *member = (char *)settings + o->offset;
  switch (o->kind) {
    case CLI_FLAG: *(bool *)member = true; break;
    case CLI_TEXT: *(const char **)member = value; break;
    case CLI_INT: return store_int(command, o, value, member);
    case CLI_LIST: {
      cli_list *list = member;
      list->items = cli_grow(list->items, list->count, sizeof *list->items);
      list->items[list->count++] = value;
      break;
    }
  }
  return CLI_OK;
}

static void set_initial(const cli_command *command, void *settings) {
  for (const cli_option *o = command->options; o->name; o++)
    if (o->kind == CLI_INT) *(int64_t *)((char *)settings + o->offset) = o->initial;
}

int cli_parse(const cli_command *command, int argc, char **argv, void *settings, cli_list *arguments) {
  bool only_arguments = false;
  set_initial(command, settings);
  for (int i = 0; i < argc; i++) {
    if (!only_arguments && strcmp(argv[i], "--") == 0) {
      only_arguments = true;
    } else if (only_arguments || argv[i][0] != '-' || argv[i][1] == '\0') {
      if (command->max_arguments >= 0 && arguments->count == command->max_arguments)
        return cli_usage("%s: one argument too many: '%s'", command->name, argv[i]);
      arguments->items[arguments->count++] = argv[i];
    } else {
      const char *value = NULL;
      const cli_option *o = find_option(command, argv[i], &value);
      if (!o)
        return cli_usage("%s: unknown option '%s' (rlx help %s lists them)", command->name, argv[i], command->name);
      if (o->kind == CLI_FLAG && value) return cli_usage("%s: %s takes no value", command->name, o->name);
      if (o->kind != CLI_FLAG && !value) {
        if (i + 1 == argc) return cli_usage("%s: %s needs a value: %s", command->name, o->name, o->value);
        value = argv[++i];
      }
      CLI_TRY(store(command, o, value, settings));
    }
  }
  if (arguments->count < command->min_arguments)
    return cli_usage("%s: an argument is missing: rlx %s %s", command->name, command->name, command->arguments);
  return CLI_OK;
}

void cli_settings_finish(const cli_command *command, void *settings) {
  for (const cli_option *o = command->options; o->name; o++)
    if (o->kind == CLI_LIST) free(((cli_list *)((char *)settings + o->offset))->items);
}
