/* policy.c — pass policy: what of the graph runs on the host of a GPU, and what the fallback policy says to that. */
#include "pass/policy.h"

#include <string.h>

#include "base/log.h"
#include "base/text.h"
#include "pass/pass.h"

enum { MESSAGE_MAX = 3000 };

static bool names(const char *wanted, const rlx_node *n) {
  return strcmp(wanted, n->name) == 0 || (n->origin && strcmp(wanted, n->origin) == 0);
}

rlx_policy policy_of(const rlx_session_options *o, const rlx_node *n) {
  rlx_policy policy = o->policy;
  int best = 0; /* an exception for the op before the session's policy, one for the node before both */
  for (int i = 0; i < o->exception_count; i++) {
    const rlx_policy_exception *e = &o->exceptions[i];
    int rank = e->node ? 2 : e->op ? 1 : 0;
    if (rank < best || (e->node && !names(e->node, n)) || (e->op && strcmp(e->op, n->op_name) != 0)) continue;
    policy = e->policy;
    best = rank;
  }
  return policy;
}

fallback policy_judge(const rlx_node *n) {
  const selection *sel = n->selection;
  if (!sel || !sel->count || (n->op && n->op->op.traits & RLX_CONTROL_FLOW) || node_is_host_arithmetic(n))
    return FALLBACK_FREE;
  int native = 0;
  for (int i = 0; i < sel->count; i++) native += candidate_is_native(&sel->chosen[i]);
  if (native == 0) return FALLBACK_CERTAIN;
  if (native < sel->count || sel->has_stand_in) return FALLBACK_POSSIBLE;
  return FALLBACK_NONE;
}

/* Nodes in words, of all graphs. */
typedef struct listing {
  text words;
  int count;
} listing;

static void list(listing *l, const rlx_node *n) {
  const candidate *c = &n->selection->chosen[0];
  if (l->words.size < MESSAGE_MAX)
    text_printf(&l->words, "%snode '%s' (%s): %s '%s'", l->count ? "; " : "", n->name, n->op_name,
                rlx_tier_name(c->tier), candidate_name(c));
  else if (l->words.data && l->words.data[l->words.size - 1] != '.')
    text_add(&l->words, "; ...");
  l->count++;
}

/* forbidden: those that may not be there; told: those to warn of; others. */
typedef struct judgement {
  listing forbidden, told, others;
} judgement;

static void judge_graph(rlx_graph *g, const target *t, judgement *j) {
  for (size_t i = 0; i < g->nodes.count; i++) {
    rlx_node *n = g->nodes.data[i];
    for (int k = 0; node_subgraph(n, k); k++) judge_graph(node_subgraph(n, k), t, j);
    fallback f = policy_judge(n);
    rlx_policy policy = policy_of(t->options, n);
    if (n->selection) n->selection->may_not_fall_back = policy == RLX_POLICY_FORBID && f == FALLBACK_POSSIBLE;
    if (f != FALLBACK_CERTAIN) continue;
    list(policy == RLX_POLICY_FORBID ? &j->forbidden : policy == RLX_POLICY_WARN ? &j->told : &j->others, n);
  }
}

static void finish(judgement *j) {
  text_finish(&j->forbidden.words);
  text_finish(&j->told.words);
  text_finish(&j->others.words);
}

rlx_status pass_policy(rlx_graph *g, const target *t, bool *changed) {
  (void)changed;
  if (!t->gpu) return RLX_OK;
  judgement j = {0};
  judge_graph(g, t, &j);
  rlx_status status = RLX_OK;
  if (j.forbidden.words.failed || j.told.words.failed || j.others.words.failed)
    status = status_no_memory(1);
  else if (j.forbidden.count)
    status = RLX_FAIL(POLICY, "%d node%s would run on the host, which the fallback policy forbids: %s",
                      j.forbidden.count, j.forbidden.count > 1 ? "s" : "", j.forbidden.words.data);
  if (status == RLX_OK && j.told.count)
    log_line(RLX_LOG_WARN, "%s: %d nodes run on the host: %s", t->device, j.told.count, j.told.words.data);
  if (status == RLX_OK && j.others.count)
    log_line(RLX_LOG_INFO, "%s: %d nodes run on the host: %s", t->device, j.others.count, j.others.words.data);
  finish(&j);
  return status;
}
