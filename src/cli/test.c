// test.c — rlx test: runs ONNX test-case folders and names each failure.
#include "cli/cases.h"
#include "cli/model.h"
#include "cli/workers.h"

#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

typedef struct settings {
  cli_target target;
  const char *filter;
  const char *contested;
  int64_t jobs;
  int64_t timeout;
  bool json;
} settings;

typedef struct suite {
  const settings *set;
  cli_target target; // threads shared out among the jobs
  test_cases cases;
  rlx_registry *registry;
  worker_task *results;
  int passed, failed, skipped;
} suite;

static int run_case(void *user, int i) {
  suite *s = user;
  return test_case_run(&s->cases.items[i], &s->target, s->registry);
}

static void show_result(void *user, int i, const worker_task *result) {
  suite *s = user;
  char line[160];
  const test_case *c = &s->cases.items[i];
  if (!result->passed)
    s->failed++;
  else if (c->contested)
    s->skipped++;
  else
    s->passed++;
  if (!result->passed && !s->set->json) {
    cli_progress(NULL);
    printf("FAIL %s: %s\n", c->name, result->message);
  }
  snprintf(line, sizeof line, "%d of %d, %d failed: %.80s", i + 1, s->cases.count, s->failed, c->name);
  cli_progress(line);
}

static cJSON *suite_json(const suite *s) {
  cJSON *object = cJSON_CreateObject();
  cJSON_AddNumberToObject(object, "passed", s->passed);
  cJSON_AddNumberToObject(object, "failed", s->failed);
  cJSON_AddNumberToObject(object, "skipped", s->skipped);
  cJSON *list = cJSON_AddArrayToObject(object, "cases");
  for (int i = 0; i < s->cases.count; i++) {
    cJSON *item = cJSON_CreateObject();
    cJSON_AddStringToObject(item, "name", s->cases.items[i].name);
    cJSON_AddStringToObject(item, "folder", s->cases.items[i].folder);
    cJSON_AddBoolToObject(item, "passed", s->results[i].passed);
    cJSON_AddNumberToObject(item, "ms", s->results[i].ms);
    if (!s->results[i].passed) cJSON_AddStringToObject(item, "message", s->results[i].message);
    if (s->cases.items[i].contested) cJSON_AddStringToObject(item, "contested", s->cases.items[i].contested);
    cJSON_AddItemToArray(list, item);
  }
  return object;
}

static int run_suite(suite *s) {
  int64_t cores = sysconf(_SC_NPROCESSORS_ONLN), jobs = s->set->jobs;
  if (cores < 1) cores = 1;
  if (jobs == 0) jobs = cores;
  if (jobs > s->cases.count) jobs = s->cases.count;
  s->target = s->set->target;
  if (s->target.threads == 0) s->target.threads = cores > jobs ? cores / jobs : 1;
  s->results = cli_alloc((size_t)s->cases.count, sizeof *s->results);
  const workers w = {(int)jobs, s->cases.count, (double)s->set->timeout, run_case, show_result, s};
  int code = workers_run(&w, s->results);
  cli_progress(NULL);
  CLI_TRY(code);
  if (s->set->json)
    cli_print_json(suite_json(s));
  else
    printf("%d passed, %d failed, %d skipped\n", s->passed, s->failed, s->skipped);
  return s->failed ? CLI_FAILED : CLI_OK;
}

static int find_and_run(suite *s, const cli_list *folders) {
  CLI_TRY(cli_target_check(&s->set->target));
  for (int i = 0; i < folders->count; i++) CLI_TRY(test_cases_find(folders->items[i], s->set->filter, &s->cases));
  if (s->cases.count == 0) return cli_fail("test: no test case (a folder with model.onnx) was found");
  if (s->set->contested) CLI_TRY(test_cases_contest(s->set->contested, &s->cases));
  CLI_TRY(cli_load_ops(&s->set->target.ops, &s->registry));
  return run_suite(s);
}

static int run(const void *opaque, const cli_list *arguments) {
  suite s = {.set = opaque};
  cli_shows_info = false; // of hundreds of models
  int code = find_and_run(&s, arguments);
  for (int i = 0; s.results && i < s.cases.count; i++) free(s.results[i].message);
  free(s.results);
  test_cases_release(&s.cases);
  rlx_registry_destroy(s.registry);
  return code;
}

static const cli_option options[] = {
    CLI_OPTION_DEVICE(settings),
    CLI_OPTION_OPS(settings),
    CLI_OPTION_POLICY(settings),
    CLI_OPTION_THREADS(settings),
    CLI_OPTION_PIN(settings),
    CLI_OPTION_WITHOUT(settings),
    {"--filter", "GLOB", "only cases whose name matches", CLI_TEXT, offsetof(settings, filter), 0, 0, 0},
    {"--contested", "FILE", "cases (\"NAME REASON\" lines) of whose outputs only dtype and shape are compared",
     CLI_TEXT, offsetof(settings, contested), 0, 0, 0},
    {"--jobs", "N", "processes (default: one per core)", CLI_INT, offsetof(settings, jobs), 1, 256, 0},
    {"--timeout", "S", "seconds that a case may take (default 300; 0: any)", CLI_INT, offsetof(settings, timeout), 0,
     1000000, 300},
    CLI_OPTION_JSON(settings),
    CLI_OPTION_END,
};

const cli_command cli_test = {
    .name = "test",
    .arguments = "DIR...",
    .summary = "run ONNX test-case folders and compare with what they expect",
    .details = "A case is a folder with model.onnx and test_data_set_N; DIR is one or holds some at any depth.\n"
               "Tolerances come from tolerances.txt in the case's folder or the two above: lines \"NAME RTOL ATOL\",\n"
               "\"default RTOL ATOL\". Each case runs in a child process; the last line is \"N passed, N failed, N "
               "skipped\";\n"
               "skipped are the contested ones whose dtypes and shapes are right.",
    .options = options,
    .settings_size = sizeof(settings),
    .min_arguments = 1,
    .max_arguments = -1,
    .run = run,
};
