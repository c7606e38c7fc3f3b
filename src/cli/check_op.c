// check_op.c — rlx check-op: checks ops against their own records, each in a child process.
#include "cli/model.h"

#include <cjson/cJSON.h>
#include <rlx/extend.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct settings {
  cli_target target;
  const char *sample;
  int64_t seed;
  int64_t timeout;
  bool quick, in_process, json;
} settings;

// One (op, version) to check.
typedef struct subject {
  char *name;
  int version;
} subject;

typedef struct work {
  subject *subjects;
  int count;
  const char *owner; // only ops of this package, or NULL
  int passed, failed, untested;
  int64_t cases;
} work;

static bool add_subject(void *user, const rlx_op_info *info) {
  work *w = user;
  w->subjects = cli_grow(w->subjects, w->count, sizeof *w->subjects);
  w->subjects[w->count++] = (subject){cli_strdup(info->op->name), info->op->version ? info->op->version : 1};
  return true;
}

static int by_name(const void *a, const void *b) {
  const subject *x = a, *y = b;
  int order = strcmp(x->name, y->name);
  return order ? order : x->version - y->version;
}

// "NAME" or "NAME@VERSION".
static int name_subject(work *w, const char *word) {
  char *name = cli_strdup(word), *at = strchr(name, '@');
  int64_t version = 0;
  w->subjects = cli_grow(w->subjects, w->count, sizeof *w->subjects);
  w->subjects[w->count] = (subject){name, 0};
  w->count++;
  if (!at) return CLI_OK;
  *at = '\0';
  if (!cli_parse_int(at + 1, &version) || version < 1 || version > INT32_MAX)
    return cli_usage("check-op takes NAME or NAME@VERSION, not '%s'", word);
  w->subjects[w->count - 1].version = (int)version;
  return CLI_OK;
}

static const char *const outcomes[] = {"ok", "FAIL", "skip"};

static void print_line(const settings *set, const rlx_check_result *r, const rlx_check_line *l) {
  printf("  %-5s %-10s %-22s %5d", outcomes[l->outcome], l->check, l->subject, l->count);
  if (l->outcome == RLX_CHECK_PASSED && l->ulp > 0) printf("  within %.3g ulp, relative %.2g", l->ulp, l->relative);
  if (*l->message) printf("  %s", l->message);
  putchar('\n');
  if (l->outcome != RLX_CHECK_FAILED) return;
  const char *variant = strrchr(l->sample, '(');
  bool varied = variant && variant > l->sample && variant[-1] == ' ' && l->sample[strlen(l->sample) - 1] == ')';
  int length = varied ? (int)(variant - l->sample - 1) : (int)strlen(l->sample);
  printf("        sample: %s\n        again:  rlx check-op %s@%d --seed %lld --sample '%.*s'", l->sample, r->op,
         r->version, (long long)set->seed, length, l->sample);
  for (int i = 0; i < set->target.ops.count; i++) printf(" --ops %s", set->target.ops.items[i]);
  if (set->target.device) printf(" --device %s", set->target.device);
  putchar('\n');
  for (const char *p = l->graph; *p;) {
    size_t n = strcspn(p, "\n");
    printf("        | %.*s\n", (int)n, p);
    p += n + (p[n] == '\n');
  }
}

static const char *verdict(const rlx_check_result *r) { return r->failed ? "FAIL" : r->passed ? "ok" : "not tested"; }

static void print_result(const settings *set, const rlx_check_result *r, bool lines) {
  printf("%s@%d: %s, %d samples, %d cases passed, %d failed\n", r->op, r->version, verdict(r), r->sample_count,
         r->passed, r->failed);
  for (int i = 0; i < r->line_count; i++)
    if (lines || r->lines[i].outcome == RLX_CHECK_FAILED) print_line(set, r, &r->lines[i]);
  fflush(stdout);
}

static cJSON *line_json(const rlx_check_line *l) {
  cJSON *line = cJSON_CreateObject();
  cJSON_AddStringToObject(line, "outcome", l->outcome == RLX_CHECK_FAILED ? "failed" : outcomes[l->outcome]);
  cJSON_AddStringToObject(line, "check", l->check);
  cJSON_AddStringToObject(line, "subject", l->subject);
  cJSON_AddNumberToObject(line, "cases", l->count);
  cJSON_AddNumberToObject(line, "ulp", l->ulp);
  cJSON_AddNumberToObject(line, "relative", l->relative);
  cJSON_AddStringToObject(line, "sample", l->sample);
  cJSON_AddStringToObject(line, "message", l->message);
  cJSON_AddStringToObject(line, "graph", l->graph);
  return line;
}

static cJSON *result_json(const rlx_check_result *r) {
  cJSON *object = cJSON_CreateObject();
  cJSON_AddStringToObject(object, "op", r->op);
  cJSON_AddNumberToObject(object, "version", r->version);
  cJSON_AddStringToObject(object, "verdict", r->failed ? "failed" : verdict(r));
  cJSON_AddNumberToObject(object, "samples", r->sample_count);
  cJSON_AddNumberToObject(object, "passed", r->passed);
  cJSON_AddNumberToObject(object, "failed", r->failed);
  cJSON *lines = cJSON_AddArrayToObject(object, "lines");
  for (int i = 0; i < r->line_count; i++) cJSON_AddItemToArray(lines, line_json(&r->lines[i]));
  return object;
}

static int check(const settings *set, rlx_registry *registry, work *w, cJSON *json) {
  for (int i = 0; i < w->count; i++) {
    rlx_check_options o = RLX_CHECK_OPTIONS_INIT;
    rlx_check_result *r = NULL;
    o.registry = registry;
    o.device = set->target.device;
    o.version = w->subjects[i].version;
    o.seed = (uint64_t)set->seed;
    o.timeout_ms = set->timeout * 1000;
    o.sample = set->sample;
    o.flags = (set->quick ? RLX_CHECK_QUICK : 0u) | (set->in_process ? RLX_CHECK_IN_PROCESS : 0u);
    cli_progress(w->subjects[i].name);
    CLI_CALL(rlx_check_op(w->subjects[i].name, &o, &r));
    cli_progress(NULL);
    w->cases += r->passed;
    w->passed += !r->failed && r->passed;
    w->failed += r->failed != 0;
    w->untested += !r->failed && !r->passed;
    if (json)
      cJSON_AddItemToArray(json, result_json(r));
    else
      print_result(set, r, w->count == 1);
    rlx_free(r);
  }
  return CLI_OK;
}

static int finish(const work *w, cJSON *ops) {
  char *summary = cli_format("%d ops: %d passed, %d failed, %d not tested; %lld cases passed", w->count, w->passed,
                             w->failed, w->untested, (long long)w->cases);
  if (ops) {
    cJSON *json = cJSON_CreateObject();
    cJSON_AddStringToObject(json, "summary", summary);
    cJSON_AddItemToObject(json, "ops", ops);
    cli_print_json(json);
  } else {
    puts(summary);
  }
  free(summary);
  return w->failed ? cli_fail("%d of %d ops failed", w->failed, w->count) : CLI_OK;
}

static int run(const void *opaque, const cli_list *arguments) {
  const settings *set = opaque;
  rlx_registry *registry = NULL;
  work w = {0};
  int code = cli_load_ops(&set->target.ops, &registry);
  for (int i = 0; i < arguments->count && code == CLI_OK; i++) {
    if (strcmp(arguments->items[i], "all") == 0)
      code = rlx_registry_each_op(registry, add_subject, &w) == RLX_OK ? CLI_OK : cli_library_failure();
    else
      code = name_subject(&w, arguments->items[i]);
  }
  if (code == CLI_OK && w.count) qsort(w.subjects, (size_t)w.count, sizeof *w.subjects, by_name);
  if (code == CLI_OK && set->sample && w.count != 1) code = cli_usage("check-op: --sample is for one op");
  cJSON *json = code == CLI_OK && set->json ? cJSON_CreateArray() : NULL;
  if (code == CLI_OK) code = check(set, registry, &w, json);
  if (code == CLI_OK)
    code = finish(&w, json);
  else
    cJSON_Delete(json);
  for (int i = 0; i < w.count; i++) free(w.subjects[i].name);
  free(w.subjects);
  rlx_registry_destroy(registry);
  return code;
}

static const cli_option options[] = {
    CLI_OPTION_DEVICE(settings),
    CLI_OPTION_OPS(settings),
    {"--sample", "ROW", "this row instead of those of the record", CLI_TEXT, offsetof(settings, sample), 0, 0, 0},
    {"--seed", "N", "seed of the contents (default 0)", CLI_INT, offsetof(settings, seed), 0, INT64_MAX, 0},
    {"--timeout", "S", "seconds that one case may take (default 20)", CLI_INT, offsetof(settings, timeout), 1, 86400,
     20},
    {"--quick", NULL, "rows as they are, without variants of extents and dtypes", CLI_FLAG, offsetof(settings, quick),
     0, 0, 0},
    {"--in-process", NULL, "without a child process, for a debugger", CLI_FLAG, offsetof(settings, in_process), 0, 0,
     0},
    CLI_OPTION_JSON(settings),
    CLI_OPTION_END,
};

const cli_command cli_check_op = {
    .name = "check-op",
    .arguments = "NAME[@VERSION]...|all",
    .summary = "check ops against their records: inference, every kernel against eval, memory, threads",
    .details =
        "Runs the sample rows of the records, and variants of them, in child processes. What could not be tested\n"
        "is said with the reason; a failure comes with the command and the graph that show it again.",
    .options = options,
    .settings_size = sizeof(settings),
    .min_arguments = 1,
    .max_arguments = -1,
    .run = run,
};
