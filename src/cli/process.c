// process.c — the command as a program: its message, memory, clock and terminal.
#include "cli/cli.h"

#include <cjson/cJSON.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static char message[8192];

// The arguments may contain the old message.
static void set_message(const char *format, va_list args) {
  static char next[sizeof message];
  vsnprintf(next, sizeof next, format, args);
  memcpy(message, next, sizeof message);
}

int cli_fail(const char *format, ...) {
  va_list args;
  va_start(args, format);
  set_message(format, args);
  va_end(args);
  return CLI_FAILED;
}

int cli_usage(const char *format, ...) {
  va_list args;
  va_start(args, format);
  set_message(format, args);
  va_end(args);
  return CLI_USAGE;
}

int cli_library_failure(void) { return cli_fail("%s", rlx_error_message()); }

const char *cli_message(void) { return message; }

static void *checked(void *p) {
  if (!p) {
    fputs("rlx: out of memory\n", stderr);
    exit(CLI_FAILED);
  }
  return p;
}

void *cli_alloc(size_t count, size_t size) { return checked(calloc(count ? count : 1, size ? size : 1)); }

char *cli_strdup(const char *text) { return checked(strdup(text)); }

char *cli_format(const char *format, ...) {
  char *text = NULL;
  va_list args;
  va_start(args, format);
  if (vasprintf(&text, format, args) < 0) text = NULL;
  va_end(args);
  return checked(text);
}

void *cli_grow(void *items, int count, size_t size) {
  bool full = count == 0 || (count >= 8 && (count & (count - 1)) == 0);
  if (!full) return items;
  return checked(realloc(items, (count ? 2 * (size_t)count : 8) * size));
}

double cli_now_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec * 1e3 + (double)now.tv_nsec * 1e-6;
}

void cli_progress(const char *line) {
  static bool shown;
  if (!line && !shown) return;
  if (!isatty(STDERR_FILENO)) return;
  fprintf(stderr, "\r\033[K%s", line ? line : "");
  fflush(stderr);
  shown = line != NULL;
}

int cli_print_json(struct cJSON *json) {
  char *text = cJSON_Print(json);
  cJSON_Delete(json);
  puts(checked(text));
  cJSON_free(text);
  return CLI_OK;
}
