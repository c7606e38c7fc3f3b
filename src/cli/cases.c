// cases.c — finds test-case folders and their tolerances.
#include "cli/cases.h"

#include <dirent.h>
#include <errno.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { MAX_DEPTH = 16, TOLERANCE_LEVELS = 3 };
static const double default_rtol = 1e-3, default_atol = 1e-7; // those of ONNX's own runner

static bool is_folder(const char *path) {
  struct stat s;
  return stat(path, &s) == 0 && S_ISDIR(s.st_mode);
}

static bool has_file(const char *folder, const char *name) {
  struct stat s;
  char *path = cli_format("%s/%s", folder, name);
  bool found = stat(path, &s) == 0 && !S_ISDIR(s.st_mode);
  free(path);
  return found;
}

// Reads the tolerances for `name` from an open file: its own line, else the default line.
static int read_tolerances(FILE *file, const char *path, test_case *c) {
  char line[512], name[400];
  double rtol, atol;
  for (int number = 1; fgets(line, sizeof line, file); number++) {
    if (line[0] == '#' || line[strspn(line, " \t\r\n")] == '\0') continue;
    if (sscanf(line, "%399s %lf %lf", name, &rtol, &atol) != 3)
      return cli_fail("%s:%d: a line is \"NAME RTOL ATOL\"", path, number);
    bool own = strcmp(name, c->name) == 0;
    if (!own && strcmp(name, "default") != 0) continue;
    c->rtol = rtol;
    c->atol = atol;
    if (own) return CLI_OK;
  }
  return CLI_OK;
}

static int find_tolerances(test_case *c) {
  char *folder = cli_strdup(c->folder);
  int code = CLI_OK;
  c->rtol = default_rtol;
  c->atol = default_atol;
  for (int level = 0; level < TOLERANCE_LEVELS; level++) {
    char *path = cli_format("%s/tolerances.txt", folder);
    FILE *file = fopen(path, "r");
    if (file) {
      code = read_tolerances(file, path, c);
      fclose(file);
    }
    free(path);
    if (file) break;
    char *up = cli_format("%s/..", folder);
    free(folder);
    folder = up;
  }
  free(folder);
  return code;
}

static int add_case(const char *folder, const char *filter, test_cases *out) {
  test_case c = {.folder = cli_strdup(folder)};
  size_t length = strlen(c.folder);
  while (length > 1 && c.folder[length - 1] == '/') c.folder[--length] = '\0';
  const char *slash = strrchr(c.folder, '/');
  c.name = slash && slash[1] ? slash + 1 : c.folder;
  if (filter && fnmatch(filter, c.name, 0) != 0) {
    free(c.folder);
    return CLI_OK;
  }
  out->items = cli_grow(out->items, out->count, sizeof *out->items);
  out->items[out->count++] = c;
  return find_tolerances(&out->items[out->count - 1]);
}

static int find_below(const char *folder, const char *filter, int depth, test_cases *out) {
  struct dirent **names = NULL;
  if (has_file(folder, "model.onnx")) return add_case(folder, filter, out);
  if (depth == MAX_DEPTH) return cli_fail("%s: folders are nested deeper than %d", folder, MAX_DEPTH);
  int count = scandir(folder, &names, NULL, alphasort);
  if (count < 0) return cli_fail("%s: %s", folder, strerror(errno));
  int code = CLI_OK;
  for (int i = 0; i < count; i++) {
    char *path = cli_format("%s/%s", folder, names[i]->d_name);
    if (code == CLI_OK && names[i]->d_name[0] != '.' && is_folder(path))
      code = find_below(path, filter, depth + 1, out);
    free(path);
    free(names[i]);
  }
  free(names);
  return code;
}

int test_cases_find(const char *folder, const char *filter, test_cases *out) {
  return find_below(folder, filter, 0, out);
}

static void contest(test_cases *cases, const char *name, const char *reason) {
  for (int i = 0; i < cases->count; i++) {
    test_case *c = &cases->items[i];
    if (strcmp(c->name, name) == 0 && !c->contested) c->contested = cli_strdup(reason);
  }
}

int test_cases_contest(const char *path, test_cases *cases) {
  char line[1024];
  int code = CLI_OK;
  FILE *file = fopen(path, "r");
  if (!file) return cli_fail("%s: %s", path, strerror(errno));
  for (int number = 1; code == CLI_OK && fgets(line, sizeof line, file); number++) {
    line[strcspn(line, "\r\n")] = '\0';
    if (line[0] == '#' || line[0] == '\0') continue;
    char *reason = strchr(line, ' ');
    if (reason) *reason++ = '\0';
    if (!reason || !*reason)
      code = cli_fail("%s:%d: a line is \"NAME REASON\"", path, number);
    else
      contest(cases, line, reason);
  }
  fclose(file);
  return code;
}

void test_cases_release(test_cases *cases) {
  for (int i = 0; i < cases->count; i++) {
    free(cases->items[i].folder);
    free(cases->items[i].contested);
  }
  free(cases->items);
  *cases = (test_cases){0};
}
