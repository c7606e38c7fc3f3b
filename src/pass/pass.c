/* pass.c — the pipeline's table and its runner: every pass can be timed, validated, printed, left out. */
#include "pass/pass.h"

#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "ir/print.h"
#include "ir/validate.h"

const pass pass_table[] = {
    {"resolve", pass_resolve, "bind op names to records of the session's registries", true, true},
    {"infer", pass_infer, "infer types from what the graph says", true, true},
    {"differentiate", pass_differentiate, "put in the derivatives that a model asks for", true, false},
    {"select", pass_select, "choose a kernel for every node, lowering where that comes first", true, true},
    {"fold", pass_fold, "evaluate nodes whose inputs are constant", false, false},
    {"fuse_conv", pass_fuse_conv, "put normalisation, sums and activations into convolutions", false, false},
    {"split_batchnorm", pass_split_batchnorm, "make the normalisations that are left plain arithmetic", false, false},
    {"fuse_matmul", pass_fuse_matmul, "put biases and activations into matrix products", false, false},
    {"fuse_layer_norm", pass_fuse_layer_norm, "make one node of layer normalisations written out", false, false},
    {"fuse", pass_fuse, "make one node of chains and trees of elementwise nodes", false, false},
    {"prune", pass_prune, "drop nodes that nothing uses", false, false},
    {"layout", pass_layout, "let chains of kernels work in the memory layouts they like", false, false},
    {NULL, NULL, NULL, false, false},
};

const char *rlx_pass(int i, const char **help) {
  if (i < 0) return NULL;
  for (const pass *p = pass_table; p->name; p++) {
    if (p->required || i-- > 0) continue;
    if (help) *help = p->help;
    return p->name;
  }
  return NULL;
}

static bool listed(const char *list, const char *name) {
  size_t n = strlen(name);
  for (; list && *list; list += strcspn(list, ","), list += *list == ',')
    if (strncmp(list, name, n) == 0 && (list[n] == ',' || !list[n])) return true;
  return false;
}

static rlx_status check_disabled(const char *list) {
  for (; list && *list; list += strcspn(list, ","), list += *list == ',') {
    size_t n = strcspn(list, ",");
    const pass *p = pass_table;
    while (p->name && !(strlen(p->name) == n && strncmp(p->name, list, n) == 0)) p++;
    if (!p->name) return RLX_FAIL(INVALID, "disable_passes: no pass '%.*s'", (int)n, list);
    if (p->required) return RLX_FAIL(INVALID, "disable_passes: pass '%s' cannot be left out", p->name);
  }
  return RLX_OK;
}

static rlx_status run_on(const pass *p, rlx_graph *g, const target *t, bool *changed) {
  for (size_t i = 0; i < g->subgraphs.count && !p->whole; i++) RLX_TRY(run_on(p, g->subgraphs.data[i], t, changed));
  return p->run(g, t, changed);
}

static void dump(const pass *p, const rlx_graph *g) {
  text out = {0};
  graph_dump(g, &out);
  if (!out.failed) {
    log_line(RLX_LOG_DEBUG, "after pass %s:", p->name);
    log_text(RLX_LOG_DEBUG, out.data);
  }
  text_finish(&out);
}

rlx_status passes_run(rlx_graph *g, const target *t, const char *disabled, const debug_options *debug) {
  RLX_TRY(check_disabled(disabled));
  for (const pass *p = pass_table; p->name; p++) {
    if (listed(disabled, p->name)) continue;
    if ((debug->switches & DEBUG_CHECK) && p->run == pass_layout) continue; /* eval reads plain operands */
    bool changed = false;
    int64_t begin = clock_ns();
    RLX_TRY(run_on(p, g, t, &changed));
    if (debug->switches & DEBUG_TIME)
      log_line(RLX_LOG_DEBUG, "pass %s: %lld us%s", p->name, (long long)(clock_ns() - begin) / 1000,
               changed ? ", changed" : "");
    if ((debug->switches & DEBUG_PRINT) && (!*debug->print_pass || strcmp(debug->print_pass, p->name) == 0)) dump(p, g);
    if (debug->switches & DEBUG_VALIDATE) {
      rlx_status status = graph_validate(g);
      if (status != RLX_OK) return status_prefix(status, "after pass %s", p->name);
    }
  }
  return RLX_OK;
}
