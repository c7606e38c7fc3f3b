// explain.c — rlx explain: what would run where and why, as text, JSON, or a drawing.
#include "cli/model.h"

#include <errno.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

typedef struct settings {
  cli_target target;
  const char *format;
  const char *output;
  bool json;
} settings;

extern char **environ;

typedef struct format_row {
  const char *name;
  rlx_report_format format;
  bool draw; // through Graphviz's dot
} format_row;

static const format_row formats[] = {
    {"text", RLX_REPORT_TEXT, false},
    {"json", RLX_REPORT_JSON, false},
    {"dot", RLX_REPORT_DOT, false},
    {"svg", RLX_REPORT_DOT, true},
};

static int find_format(const settings *set, const format_row **out) {
  const char *name = set->format ? set->format : set->json ? "json" : "text";
  for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
    if (strcmp(formats[i].name, name) == 0) {
      *out = &formats[i];
      return CLI_OK;
    }
  }
  return cli_usage("explain: --format takes text, json, dot or svg, not '%s'", name);
}

static int spawn_dot(int input, const char *output) {
  char *with_file[] = {"dot", "-Tsvg", "-o", (char *)output, NULL}, *to_stdout[] = {"dot", "-Tsvg", NULL};
  posix_spawn_file_actions_t actions;
  pid_t child;
  int state = 0;
  if (posix_spawn_file_actions_init(&actions) != 0) return cli_fail("out of memory");
  posix_spawn_file_actions_adddup2(&actions, input, STDIN_FILENO);
  int error = posix_spawnp(&child, "dot", &actions, NULL, output ? with_file : to_stdout, environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error == ENOENT) return cli_fail("Graphviz's dot is not installed: install it, or use --format dot");
  if (error != 0) return cli_fail("dot: %s", strerror(error));
  while (waitpid(child, &state, 0) < 0 && errno == EINTR) continue;
  if (WIFEXITED(state) && WEXITSTATUS(state) == 0) return CLI_OK;
  return cli_fail("dot failed");
}

static int draw(const char *text, const char *output) {
  FILE *file = tmpfile();
  if (!file) return cli_fail("a temporary file: %s", strerror(errno));
  int code = CLI_OK;
  if (fputs(text, file) < 0 || fflush(file) != 0) code = cli_fail("a temporary file: %s", strerror(errno));
  rewind(file);
  fflush(stdout);
  if (code == CLI_OK) code = spawn_dot(fileno(file), output);
  fclose(file);
  return code;
}

static int write_text(const char *text, const char *output) {
  if (!output) {
    size_t length = strlen(text);
    fputs(text, stdout);
    if (length && text[length - 1] != '\n') putchar('\n');
    return CLI_OK;
  }
  FILE *file = fopen(output, "w");
  if (!file) return cli_fail("%s: %s", output, strerror(errno));
  bool written = fputs(text, file) >= 0;
  if (fclose(file) != 0 || !written) return cli_fail("%s: %s", output, strerror(errno));
  return CLI_OK;
}

static int run(const void *opaque, const cli_list *arguments) {
  const settings *set = opaque;
  const format_row *format = NULL;
  cli_model model = {0};
  char *text = NULL;
  CLI_TRY(find_format(set, &format));
  int code = cli_model_open(&model, arguments->items[0], &set->target);
  if (code == CLI_OK && rlx_report(model.session, format->format, &text) != RLX_OK) code = cli_library_failure();
  if (code == CLI_OK) code = format->draw ? draw(text, set->output) : write_text(text, set->output);
  rlx_free(text);
  cli_model_close(&model);
  return code;
}

static const cli_option options[] = {
    CLI_OPTION_DEVICE(settings),
    CLI_OPTION_OPS(settings),
    CLI_OPTION_POLICY(settings),
    CLI_OPTION_THREADS(settings),
    CLI_OPTION_PIN(settings),
    CLI_OPTION_WITHOUT(settings),
    {"--format", "F", "text (default), json, dot (Graphviz), svg (needs Graphviz's dot)", CLI_TEXT,
     offsetof(settings, format), 0, 0, 0},
    {"--output", "FILE", "write to FILE", CLI_TEXT, offsetof(settings, output), 0, 0, 0},
    {"--json", NULL, "the same as --format json", CLI_FLAG, offsetof(settings, json), 0, 0, 0},
    CLI_OPTION_END,
};

const cli_command cli_explain = {
    .name = "explain",
    .arguments = "MODEL",
    .summary = "show which kernel runs each node, why, and what was passed over",
    .options = options,
    .settings_size = sizeof(settings),
    .min_arguments = 1,
    .max_arguments = 1,
    .run = run,
};
