// main.c — the rlx command: finds the command in the table, reads its options, runs it, prints its message.
#include "cli/cli.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const cli_command *const cli_commands[] = {
    &cli_run,  &cli_explain, &cli_test,    &cli_bench, &cli_check, &cli_check_op,
    &cli_grad, &cli_ops,     &cli_devices, &cli_help,  NULL,
};

const cli_command *cli_find(const char *name) {
  for (int i = 0; cli_commands[i]; i++)
    if (strcmp(cli_commands[i]->name, name) == 0) return cli_commands[i];
  return NULL;
}

bool cli_shows_info = true;

// Debug lines come only where a switch asks for them.
static void log_to_stderr(void *user, int level, const char *line) {
  static const char *const names[] = {"error", "warning", "info", "debug"};
  (void)user;
  if (level == RLX_LOG_INFO && !cli_shows_info) return;
  if (level < 0 || level > RLX_LOG_DEBUG) level = RLX_LOG_DEBUG;
  cli_progress(NULL);
  fprintf(stderr, "rlx: %s: %s\n", names[level], line);
}

static int run_command(const cli_command *command, int argc, char **argv) {
  void *settings = cli_alloc(1, command->settings_size + 1);
  cli_list arguments = {cli_alloc((size_t)argc + 1, sizeof(char *)), 0};
  int code = CLI_OK;
  bool help = false;
  for (int i = 0; i < argc && strcmp(argv[i], "--") != 0; i++) help = help || strcmp(argv[i], "--help") == 0;
  if (help) {
    arguments.items[arguments.count++] = command->name;
    code = cli_help.run(settings, &arguments);
  } else {
    code = cli_parse(command, argc, argv, settings, &arguments);
    if (code == CLI_OK) code = command->run(settings, &arguments);
  }
  cli_settings_finish(command, settings);
  free(settings);
  free(arguments.items);
  return code;
}

static int run_words(int argc, char **argv) {
  if (argc < 2) {
    cli_list none = {NULL, 0};
    cli_help.run(NULL, &none);
    return CLI_USAGE;
  }
  const char *word = argv[1];
  if (strcmp(word, "--version") == 0) {
    printf("rlx %s\n", rlx_version());
    return CLI_OK;
  }
  if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0) word = "help";
  const cli_command *command = cli_find(word);
  if (!command) return cli_usage("unknown command '%s' (rlx help lists them)", word);
  return run_command(command, argc - 2, argv + 2);
}

int main(int argc, char **argv) {
  rlx_set_log(log_to_stderr, NULL);
  int code = run_words(argc, argv);
  if (fflush(stdout) != 0 || ferror(stdout)) {
    if (code == CLI_OK) code = cli_fail("cannot write the output");
  }
  cli_progress(NULL);
  if (code != CLI_OK && *cli_message()) fprintf(stderr, "rlx: %s\n", cli_message());
  return code;
}
