// bench.c — rlx bench: load time, first run, repeated runs, peak memory, and where the time goes by op.
#include "cli/model.h"
#include "cli/profile.h"
#include "cli/timing.h"

#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

typedef struct settings {
  cli_target target;
  cli_inputs inputs;
  int64_t repeat;
  int64_t top;
  bool json;
} settings;

typedef struct measures {
  cli_times times;
  profile profile;
  rlx_session_stats stats;
  double peak_mib;
} measures;

static double peak_mib(void) {
  struct rusage usage;
  if (getrusage(RUSAGE_SELF, &usage) != 0) return 0.0;
#ifdef __APPLE__
  return (double)usage.ru_maxrss / (1024.0 * 1024.0);
#else
  return (double)usage.ru_maxrss / 1024.0;
#endif
}

static void print_measures(const cli_model *m, const measures *r, int64_t top) {
  printf("load       %10.2f ms\ncompile    %10.2f ms\nfirst run  %10.2f ms\n", m->load_ms, m->compile_ms,
         r->times.first_ms);
  printf("min        %10.4f ms\nmedian     %10.4f ms  of %d runs\n", r->times.min_ms, r->times.median_ms,
         r->times.count - 1);
  printf("peak RSS   %10.1f MiB\nsteps      %10lld\npacked     %10.1f MiB\n", r->peak_mib, (long long)r->stats.steps,
         (double)r->stats.packed_bytes / (1024.0 * 1024.0));
  const profile *p = &r->profile;
  if (p->count) printf("\n%-32s %8s %12s %7s   (of one run, traced)\n", "op", "steps", "us", "share");
  for (int i = 0; i < p->count && i < top; i++) {
    const profile_row *row = &p->rows[i];
    printf("%-32s %8.0f %12.1f %6.1f%%\n", row->op, (double)row->steps / p->runs, row->us / p->runs,
           p->total_us > 0 ? 100.0 * row->us / p->total_us : 0.0);
  }
}

static cJSON *measures_json(const cli_model *m, const measures *r) {
  cJSON *json = cJSON_CreateObject();
  cJSON_AddNumberToObject(json, "load_ms", m->load_ms);
  cJSON_AddNumberToObject(json, "compile_ms", m->compile_ms);
  cJSON_AddNumberToObject(json, "first_ms", r->times.first_ms);
  cJSON_AddNumberToObject(json, "min_ms", r->times.min_ms);
  cJSON_AddNumberToObject(json, "median_ms", r->times.median_ms);
  cJSON_AddNumberToObject(json, "runs", r->times.count - 1);
  cJSON_AddNumberToObject(json, "peak_rss_mib", r->peak_mib);
  cJSON_AddNumberToObject(json, "steps", (double)r->stats.steps);
  cJSON_AddNumberToObject(json, "packed_bytes", (double)r->stats.packed_bytes);
  cJSON *list = cJSON_AddArrayToObject(json, "ops");
  for (int i = 0; i < r->profile.count; i++) {
    cJSON *object = cJSON_CreateObject();
    cJSON_AddStringToObject(object, "op", r->profile.rows[i].op);
    cJSON_AddNumberToObject(object, "steps", (double)r->profile.rows[i].steps / r->profile.runs);
    cJSON_AddNumberToObject(object, "us", r->profile.rows[i].us / r->profile.runs);
    cJSON_AddItemToArray(list, object);
  }
  return json;
}

static int measure(const settings *set, cli_model *m, rlx_binding *b, measures *out) {
  cli_bound_input *inputs = NULL;
  int code = cli_bind_inputs(m->session, b, &set->inputs, &inputs);
  cli_inputs_release(inputs, rlx_session_input_count(m->session));
  CLI_TRY(code);
  CLI_TRY(cli_time_runs(b, set->repeat, &out->times));
  out->peak_mib = peak_mib();
  out->stats = (rlx_session_stats){.struct_size = sizeof out->stats};
  rlx_session_get_stats(m->session, &out->stats);
  return profile_runs(m->session, b, &out->profile);
}

static int run(const void *opaque, const cli_list *arguments) {
  const settings *set = opaque;
  cli_model model = {0};
  rlx_binding *b = NULL;
  measures r = {0};
  int code = cli_model_open(&model, arguments->items[0], &set->target);
  if (code == CLI_OK && rlx_binding_create(model.session, &b) != RLX_OK) code = cli_library_failure();
  if (code == CLI_OK) code = measure(set, &model, b, &r);
  if (code == CLI_OK && set->json)
    code = cli_print_json(measures_json(&model, &r));
  else if (code == CLI_OK)
    print_measures(&model, &r, set->top);
  profile_release(&r.profile);
  rlx_binding_destroy(b);
  cli_model_close(&model);
  return code;
}

static const cli_option options[] = {
    CLI_OPTION_DEVICE(settings),
    CLI_OPTION_INPUT(settings),
    CLI_OPTION_DIM(settings),
    CLI_OPTION_SEED(settings),
    CLI_OPTION_OPS(settings),
    CLI_OPTION_POLICY(settings),
    CLI_OPTION_THREADS(settings),
    CLI_OPTION_PIN(settings),
    CLI_OPTION_WITHOUT(settings),
    {"--repeat", "N", "runs after the first (default 20)", CLI_INT, offsetof(settings, repeat), 1, 1000000, 20},
    {"--top", "N", "rows of the table by op (default 20)", CLI_INT, offsetof(settings, top), 0, 10000, 20},
    CLI_OPTION_JSON(settings),
    CLI_OPTION_END,
};

const cli_command cli_bench = {
    .name = "bench",
    .arguments = "MODEL",
    .summary = "measure load, first run, repeated runs, peak memory, and time by op",
    .details = "The table by op comes from a few traced runs after the timed ones.",
    .options = options,
    .settings_size = sizeof(settings),
    .min_arguments = 1,
    .max_arguments = 1,
    .run = run,
};
