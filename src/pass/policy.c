/* policy.c — judges fallback to the host before anything runs. */
#include "pass/policy.h"

#include <string.h>

#include "base/log.h"
#include "base/text.h"

placement node_placement(const rlx_node *n) {
  const selection *sel = n->selection;
  if (!sel || !sel->count) return PLACEMENT_NOWHERE;
  bool view = sel->chosen[0].kernel && (sel->chosen[0].kernel->head.traits & RLX_VIEW);
  if (view || node_is_host_arithmetic(n)) return PLACEMENT_NOWHERE;
  int native = 0;
  for (int i = 0; i < sel->count; i++) native += candidate_is_native(&sel->chosen[i]);
  if (native == sel->count) return PLACEMENT_DEVICE;
  return native ? PLACEMENT_POSSIBLE : PLACEMENT_HOST;
}

const char *placement_name(placement p) {
  static const char *const names[] = {"device", "", "device or host", "host"};
  return names[p];
}

static bool applies(const rlx_policy_exception *e, const rlx_node *n) {
  bool node = !e->node || strcmp(e->node, n->name) == 0 || (n->origin && strcmp(e->node, n->origin) == 0);
  return node && (!e->op || strcmp(e->op, n->op_name) == 0);
}

rlx_policy node_policy(const rlx_session_options *o, const rlx_node *n) {
  const rlx_policy_exception *best = NULL;
  for (int i = 0; i < o->exception_count; i++)
    if (applies(&o->exceptions[i], n) && (!best || !best->node)) best = &o->exceptions[i];
  return best ? best->policy : o->policy;
}

typedef struct judgement {
  const target *t;
  text offenders, ops;
  int offender_count, host_count, node_count;
} judgement;

static const char *reason_of(const rlx_node *n) {
  const selection *sel = n->selection;
  for (int i = 0; i < sel->refused_count; i++)
    if (sel->refused[i].tier == RLX_TIER_RAW || sel->refused[i].tier == RLX_TIER_PORTABLE)
      return sel->refused[i].reason;
  return "no native kernel";
}

static void judge(judgement *j, const rlx_graph *g) {
  for (size_t i = 0; i < g->nodes.count; i++) {
    const rlx_node *n = g->nodes.data[i];
    for (int k = 0; node_subgraph(n, k); k++) judge(j, node_subgraph(n, k));
    j->node_count++;
    if (node_placement(n) != PLACEMENT_HOST) continue;
    rlx_policy policy = node_policy(j->t->options, n);
    j->host_count++;
    if (policy == RLX_POLICY_WARN)
      log_line(RLX_LOG_WARN, "node '%s' (%s) runs on the host: %s", n->name, n->op_name, reason_of(n));
    if (policy == RLX_POLICY_FORBID && j->offender_count++ < 100)
      text_printf(&j->offenders, "%s'%s' (%s: %s)", j->offender_count > 1 ? ", " : "", n->name, n->op_name,
                  reason_of(n));
    if (!j->ops.data || !strstr(j->ops.data, n->op_name))
      text_printf(&j->ops, "%s%s", j->ops.size ? ", " : "", n->op_name);
  }
}

rlx_status policy_check(const rlx_graph *g, const target *t) {
  judgement j = {.t = t};
  if (!t->gpu) return RLX_OK;
  judge(&j, g);
  rlx_status status = RLX_OK;
  if (j.offender_count)
    status = RLX_FAIL(POLICY, "%d node%s cannot run on %s, and the policy forbids the host: %s", j.offender_count,
                      j.offender_count > 1 ? "s" : "", t->device, j.offenders.data ? j.offenders.data : "");
  else if (j.host_count)
    log_line(RLX_LOG_INFO, "%s: %d of %d nodes run on the host (%s); rlx explain says why", t->device, j.host_count,
             j.node_count, j.ops.data ? j.ops.data : "");
  text_finish(&j.offenders);
  text_finish(&j.ops);
  return status;
}
