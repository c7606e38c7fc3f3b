// help.c — rlx help: the commands, one command's options, the debug switches; the words for shell completion.
#include "cli/model.h"

#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct settings {
  bool json;
} settings;

static const cli_option options[] = {CLI_OPTION_JSON(settings), CLI_OPTION_END};

static cJSON *option_json(const cli_option *o) {
  cJSON *object = cJSON_CreateObject();
  cJSON_AddStringToObject(object, "name", o->name);
  if (o->value) cJSON_AddStringToObject(object, "value", o->value);
  cJSON_AddStringToObject(object, "help", o->help);
  return object;
}

static cJSON *command_json(const cli_command *c) {
  cJSON *object = cJSON_CreateObject();
  cJSON_AddStringToObject(object, "name", c->name);
  cJSON_AddStringToObject(object, "arguments", c->arguments);
  cJSON_AddStringToObject(object, "summary", c->summary);
  cJSON *list = cJSON_AddArrayToObject(object, "options");
  for (const cli_option *o = c->options; o->name; o++) cJSON_AddItemToArray(list, option_json(o));
  return object;
}

static int show_commands(bool json) {
  cJSON *list = json ? cJSON_CreateArray() : NULL;
  if (!json) puts("usage: rlx COMMAND [OPTIONS] ARGUMENTS\n");
  for (int i = 0; cli_commands[i]; i++) {
    const cli_command *c = cli_commands[i];
    if (json)
      cJSON_AddItemToArray(list, command_json(c));
    else
      printf("  %-8s %-10s %s\n", c->name, c->arguments, c->summary);
  }
  if (json) return cli_print_json(list);
  puts("\nrlx help COMMAND lists its options; rlx help debug the debug switches, environment variables and passes.\n"
       "Every command takes --json. Exit codes: 0 done, 1 failed, 2 wrong use.");
  return CLI_OK;
}

static int show_command(const cli_command *c, bool json) {
  if (json) return cli_print_json(command_json(c));
  printf("usage: rlx %s [OPTIONS]%s%s\n\n%s.\n", c->name, *c->arguments ? " " : "", c->arguments, c->summary);
  if (c->details) puts(c->details);
  putchar('\n');
  for (const cli_option *o = c->options; o->name; o++) {
    char *words = cli_format("%s %s", o->name, o->value ? o->value : "");
    printf("  %-26s %s\n", words, o->help);
    free(words);
  }
  return CLI_OK;
}

static void show_table(const char *title, const char *(*row)(int i, const char **help), cJSON *json) {
  const char *name, *help = "";
  cJSON *list = json ? cJSON_AddArrayToObject(json, title) : NULL;
  if (!json) printf("%s:\n", title);
  for (int i = 0; (name = row(i, &help)); i++) {
    if (json) {
      cJSON *object = cJSON_CreateObject();
      cJSON_AddStringToObject(object, "name", name);
      cJSON_AddStringToObject(object, "help", help);
      cJSON_AddItemToArray(list, object);
    } else {
      printf("  %-20s %s\n", name, help);
    }
  }
}

static int show_debug(bool json) {
  cJSON *object = json ? cJSON_CreateObject() : NULL;
  show_table("RLX_DEBUG", rlx_debug_switch, object);
  if (!json) putchar('\n');
  show_table("environment", rlx_environment, object);
  if (!json) putchar('\n');
  show_table("passes", rlx_pass, object);
  return json ? cli_print_json(object) : CLI_OK;
}

// A line a command: its name, then its options. completion.bash reads this.
static int show_completion(void) {
  for (int i = 0; cli_commands[i]; i++) {
    fputs(cli_commands[i]->name, stdout);
    for (const cli_option *o = cli_commands[i]->options; o->name; o++) printf(" %s%s", o->name, o->value ? "=" : "");
    putchar('\n');
  }
  return CLI_OK;
}

static int run(const void *opaque, const cli_list *arguments) {
  const settings *set = opaque;
  bool json = set && set->json;
  if (arguments->count == 0) return show_commands(json);
  const char *topic = arguments->items[0];
  const cli_command *c = cli_find(topic);
  if (c) return show_command(c, json);
  if (strcmp(topic, "debug") == 0) return show_debug(json);
  if (strcmp(topic, "completion") == 0) return show_completion();
  return cli_usage("help: no command or topic '%s' (topics: debug, completion)", topic);
}

const cli_command cli_help = {
    .name = "help",
    .arguments = "[TOPIC]",
    .summary = "list the commands, or a command's options, or the debug switches",
    .options = options,
    .settings_size = sizeof(settings),
    .max_arguments = 1,
    .run = run,
};
