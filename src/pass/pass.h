/* pass.h — the pipeline: one pass a file, listed in order in pass.c. */
#ifndef PASS_PASS_H
#define PASS_PASS_H

#include "base/options.h"
#include "ir/graph.h"
#include "pass/select.h"

/* A pass rewrites g in place and says whether it changed anything. It sees one graph at a time: the
 * pipeline calls it for subgraphs too (innermost first) unless `whole` is set. New nodes go through
 * select_node; only nodes with node_is_own() may be replaced. Node order must be topological again when
 * it returns (graph_sort does that). */
typedef struct pass {
  const char *name;
  rlx_status (*run)(rlx_graph *g, const target *t, bool *changed);
  const char *help;
  bool required; /* cannot be switched off */
  bool whole;    /* called once, for the top graph */
} pass;

/* In pipeline order; ends with a NULL name. */
extern const pass pass_table[];

/* Runs the pipeline; `disabled` is a comma-separated list of names or NULL (an unknown or required name
 * is an error). */
rlx_status passes_run(rlx_graph *g, const target *t, const char *disabled, const debug_options *debug);

rlx_status pass_resolve(rlx_graph *g, const target *t, bool *changed);
rlx_status pass_infer(rlx_graph *g, const target *t, bool *changed);
rlx_status pass_differentiate(rlx_graph *g, const target *t, bool *changed);
rlx_status pass_select(rlx_graph *g, const target *t, bool *changed);
rlx_status pass_fold(rlx_graph *g, const target *t, bool *changed);
rlx_status pass_fuse_layer_norm(rlx_graph *g, const target *t, bool *changed);
rlx_status pass_fuse(rlx_graph *g, const target *t, bool *changed);
rlx_status pass_prune(rlx_graph *g, const target *t, bool *changed);
rlx_status pass_fuse_conv(rlx_graph *g, const target *t, bool *changed);
rlx_status pass_split_batchnorm(rlx_graph *g, const target *t, bool *changed);
rlx_status pass_fuse_matmul(rlx_graph *g, const target *t, bool *changed);
rlx_status pass_layout(rlx_graph *g, const target *t, bool *changed);

#endif
