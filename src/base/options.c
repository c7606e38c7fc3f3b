/* options.c — the tables of environment variables and debug switches; the only reader of either. */
#include "base/options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"

static const struct {
  const char *name;
  uint32_t bit;
  const char *help;
} switches[] = {
    {"print", DEBUG_PRINT, "print the graph after every pass; print=PASS: after that one"},
    {"validate", DEBUG_VALIDATE, "validate the graph after every pass; GPU: with the API's validation layers"},
    {"dispatch", DEBUG_DISPATCH, "a line for every step that runs"},
    {"plan", DEBUG_PLAN, "the memory plan of every bound stage"},
    {"time", DEBUG_TIME, "time taken by passes, builds and binds"},
    {"check", DEBUG_CHECK,
     "compare every step's outputs with the op's eval, without layouts and packing; the first that differs fails the "
     "run"},
    {"select", DEBUG_SELECT, "the candidates of every node, and why they were passed over"},
    {"custom", DEBUG_CUSTOM, "a line for every step of an op or kernel that is not rlx's own, as RLX_DBG_CUSTOM=1"},
    {"sync", DEBUG_SYNC, "GPU: submit and wait after every step, to place a fault exactly"},
    {"stream", DEBUG_STREAM, "GPU: a line for all that is recorded, submitted, waited for and copied"},
    {"discrete", DEBUG_DISCRETE, "GPU: stage all transfers, as if the host could not see device memory"},
    {"poison", DEBUG_POISON, "fill run memory with NaN patterns before every run"},
};
enum { SWITCH_COUNT = sizeof switches / sizeof *switches };

static const struct {
  const char *env, *help;
} options[OPTION_COUNT] = {
    [OPTION_PACKAGE_PATH] = {"RLX_PACKAGE_PATH", "folders searched for op packages, ':' between them"},
    [OPTION_PIPELINE_CACHE] = {"RLX_PIPELINE_CACHE", "folder of the pipeline cache; 0 turns it off"},
    [OPTION_FALLBACK] = {"RLX_FALLBACK",
                         "overrides the fallback policy and its exceptions: allow, warn, forbid, budget=TRIPS[,BYTES]"},
    [OPTION_DEBUG] = {"RLX_DEBUG", "debug switches, ',' between them"},
    [OPTION_DBG_CUSTOM] = {"RLX_DBG_CUSTOM", "1: a line for every custom op that runs"},
    [OPTION_METAL_LIBRARY] = {"RLX_METAL_LIBRARY", "a library opened in place of the system's Metal, for tests"},
    [OPTION_THREADS] = {"RLX_THREADS", "threads of a session that does not say"},
};

const char *debug_option_name(int i) { return i >= 0 && i < SWITCH_COUNT ? switches[i].name : NULL; }
const char *debug_option_help(int i) { return i >= 0 && i < SWITCH_COUNT ? switches[i].help : NULL; }

const char *option_get(option_name name) { return getenv(options[name].env); }
bool option_cache_folder(char *path, size_t size) {
  const char *own = option_get(OPTION_PIPELINE_CACHE), *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
  int n = -1;
  if (own && *own) {
    if (strcmp(own, "0") != 0) n = snprintf(path, size, "%s", own);
  } else if (xdg && xdg[0] == '/') {
    n = snprintf(path, size, "%s/rlx", xdg);
  } else if (home && home[0] == '/') {
    n = snprintf(path, size, "%s/.cache/rlx", home);
  }
  return n > 0 && (size_t)n < size;
}

const char *option_env(option_name name) { return options[name].env; }
const char *option_help(option_name name) { return options[name].help; }

static rlx_status parse_word(const char *word, size_t length, debug_options *out) {
  size_t name = length;
  const char *equals = memchr(word, '=', length);
  if (equals) name = (size_t)(equals - word);
  for (int i = 0; i < SWITCH_COUNT; i++) {
    if (strlen(switches[i].name) != name || memcmp(switches[i].name, word, name) != 0) continue;
    if (equals && switches[i].bit != DEBUG_PRINT)
      return RLX_FAIL(INVALID, "RLX_DEBUG: '%s' takes no value", switches[i].name);
    size_t rest = equals ? length - name - 1 : 0;
    if (rest >= sizeof out->print_pass) return RLX_FAIL(INVALID, "RLX_DEBUG: the pass name of 'print' is too long");
    if (equals) memcpy(out->print_pass, equals + 1, rest);
    out->switches |= switches[i].bit;
    return RLX_OK;
  }
  return RLX_FAIL(INVALID, "RLX_DEBUG: no switch '%.*s' (see rlx help debug)", (int)length, word);
}

rlx_status debug_options_parse(const char *text, debug_options *out) {
  debug_options parsed = {0};
  const char *custom = option_get(OPTION_DBG_CUSTOM);
  if (custom && strcmp(custom, "0") != 0 && *custom) parsed.switches |= DEBUG_CUSTOM;
  if (!text) text = option_get(OPTION_DEBUG);
  while (text && *text) {
    size_t n = strcspn(text, ",");
    if (n) RLX_TRY(parse_word(text, n, &parsed));
    text += n + (text[n] == ',');
  }
  *out = parsed;
  return RLX_OK;
}
