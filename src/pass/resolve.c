/* resolve.c — pass resolve: binds op names to records, loading packages by domain where need be. */
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "ir/package.h"
#include "pass/pass.h"

/* An unknown op of domain "acme" may be in a package "acme" on the package path. */
static rlx_status try_package(const rlx_node *n, const target *t) {
  char domain[128], path[PATH_MAX];
  size_t length = op_domain_length(n->op_name);
  if (length == 0 || length >= sizeof domain) return RLX_NOT_FOUND;
  snprintf(domain, sizeof domain, "%.*s", (int)length, n->op_name);
  if (strcmp(domain, "onnx") == 0 || strcmp(domain, "rlx") == 0) return RLX_NOT_FOUND;
  if (package_find(domain, path, sizeof path) != RLX_OK) return RLX_NOT_FOUND;
  return package_load(t->options->registry, path, false);
}

static rlx_status resolve(rlx_node *n, const target *t) {
  rlx_status status = node_resolve(n, t->registry);
  if (status != RLX_NOT_FOUND) return status;
  status = try_package(n, t);
  if (status == RLX_OK) status = node_resolve(n, t->registry);
  return status == RLX_NOT_FOUND ? RLX_OK : status; /* pass select lists what stays unknown */
}

static rlx_status resolve_all(rlx_graph *g, const target *t) {
  g->registry = t->registry;
  g->opsets.count = 0; /* what passes make from here on means the newest versions */
  for (size_t i = 0; i < g->nodes.count; i++) {
    rlx_node *n = g->nodes.data[i];
    rlx_status status = resolve(n, t);
    if (status != RLX_OK) return status_prefix(status, "node '%s' (%s)", n->name, n->op_name);
  }
  for (size_t i = 0; i < g->subgraphs.count; i++) RLX_TRY(resolve_all(g->subgraphs.data[i], t));
  return RLX_OK;
}

rlx_status pass_resolve(rlx_graph *g, const target *t, bool *changed) {
  (void)changed;
  return resolve_all(g, t);
}
