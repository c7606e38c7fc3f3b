/* report.c — the report as text, JSON and Graphviz: one walk, three printers. */
#include "plan/report.h"

#include <inttypes.h>
#include <stdio.h>

#include "ir/shape.h"
#include "pass/policy.h"

static const char *policy_name(rlx_policy p) {
  static const char *const names[] = {"allow", "warn", "budget", "forbid"};
  return (size_t)p < 4 ? names[p] : "?";
}

static bool is_view(const rlx_node *n) {
  const candidate *c = n->selection && n->selection->count ? &n->selection->chosen[0] : NULL;
  return c && c->kernel && (c->kernel->head.traits & RLX_VIEW);
}

/* ---- text --------------------------------------------------------------------------------- */

/* What is said to a node that runs, or may run, on the host of a GPU; NULL on the CPU and where nothing does. */
static const char *fallback_text(const report_input *in, const rlx_node *n, char words[64]) {
  placement p = in->gpu ? node_placement(n) : PLACEMENT_DEVICE;
  if (p != PLACEMENT_HOST && p != PLACEMENT_POSSIBLE) return NULL;
  snprintf(words, 64, "on %s, policy %s", placement_name(p), policy_name(node_policy(in->options, n)));
  return words;
}

static void text_node(const report_input *in, const rlx_node *n, int depth, text *out) {
  char type[300];
  const selection *sel = n->selection;
  char words[64];
  const char *policy = fallback_text(in, n, words);
  text_printf(out, "%*s%-28s %-24s", depth * 2, "", n->name, n->op_name);
  for (int i = 0; sel && i < sel->count; i++)
    text_printf(out, "%s%s %s%s", i ? " or " : " ", rlx_tier_name(sel->chosen[i].tier), candidate_name(&sel->chosen[i]),
                sel->chosen[i].conditional ? " (by extents)" : "");
  if (is_view(n))
    text_add(out, " (view)");
  else if (policy)
    text_printf(out, " %s", policy);
  else if (in->gpu && *placement_name(node_placement(n)))
    text_printf(out, " on %s", placement_name(node_placement(n)));
  if (n->output_count) text_printf(out, "  %s", type_text(&n->outputs[0]->type, type, sizeof type));
  if (n->origin) text_printf(out, "  from %s", n->origin);
  text_add(out, "\n");
  for (int i = 0; sel && i < sel->refused_count; i++)
    text_printf(out, "%*spassed over: %s %s: %s\n", depth * 2 + 4, "", rlx_tier_name(sel->refused[i].tier),
                sel->refused[i].kernel, sel->refused[i].reason);
  if (sel && sel->later_count) text_printf(out, "%*safter it:", depth * 2 + 4, "");
  for (int i = 0; sel && i < sel->later_count; i++)
    text_printf(out, "%s %s %s", i ? "," : "", rlx_tier_name(sel->later[i].tier), sel->later[i].kernel);
  if (sel && sel->later_count) text_add(out, "\n");
}

static void text_graph(const report_input *in, const rlx_graph *g, int depth, text *out) {
  for (size_t i = 0; i < g->nodes.count; i++) {
    const rlx_node *n = g->nodes.data[i];
    text_node(in, n, depth, out);
    for (int k = 0; node_subgraph(n, k); k++) {
      text_printf(out, "%*s%s:\n", depth * 2 + 2, "", node_subgraph(n, k)->name);
      text_graph(in, node_subgraph(n, k), depth + 2, out);
    }
  }
}

static void write_text(const report_input *in, text *out) {
  const rlx_session_stats *s = in->stats;
  text_printf(out, "device %s, fallback policy %s%s\n", in->device, policy_name(in->policy),
              in->policy_from_environment ? " (set by RLX_FALLBACK)" : "");
  text_graph(in, in->graph, 0, out);
  text_printf(out, "nodes %zu, steps %" PRId64 ", host trips %d, bytes staged %" PRId64 "\n", in->graph->nodes.count,
              s->steps, in->trips, in->staged);
  if (in->gpu)
    text_printf(out, "steps on the device %d, submissions %d, trips take about %.0f us a run (%.1f us each)\n",
                in->device_steps, in->submits, in->trips * in->trip_us, in->trip_us);
  text_printf(out,
              "builds %" PRId64 ", binds %" PRId64 " (%" PRId64 " us and %" PRId64 " us preparing), runs %" PRId64 "\n",
              s->builds, s->binds, s->bind_ns / 1000, s->prepare_ns / 1000, s->runs);
  text_printf(out, "packed constants %" PRId64 " bytes, run memory %" PRId64 " bytes\n", s->packed_bytes, s->run_bytes);
  for (int i = 0; i < in->counter_count; i++)
    if (in->counters[i].steps)
      text_printf(out, "ran %-28s %s %s of %s: %" PRId64 " times\n", in->counters[i].op,
                  rlx_tier_name(in->counters[i].tier), in->counters[i].kernel, in->counters[i].owner,
                  in->counters[i].steps);
}

/* ---- JSON --------------------------------------------------------------------------------- */

static void json_pair(text *out, const char *key, const char *value) {
  text_printf(out, "\"%s\":", key);
  text_json_string(out, value);
}

static void json_graph(const report_input *in, const rlx_graph *g, text *out);

static void json_selection(const selection *sel, text *out) {
  text_add(out, ",\"kernels\":[");
  for (int i = 0; sel && i < sel->count; i++) {
    text_add(out, i ? ",{" : "{");
    json_pair(out, "tier", rlx_tier_name(sel->chosen[i].tier));
    text_add(out, ",");
    json_pair(out, "kernel", candidate_name(&sel->chosen[i]));
    text_printf(out, ",\"by_extents\":%s}", sel->chosen[i].conditional ? "true" : "false");
  }
  text_add(out, "],\"refused\":[");
  for (int i = 0; sel && i < sel->refused_count; i++) {
    text_add(out, i ? ",{" : "{");
    json_pair(out, "tier", rlx_tier_name(sel->refused[i].tier));
    text_add(out, ",");
    json_pair(out, "kernel", sel->refused[i].kernel);
    text_add(out, ",");
    json_pair(out, "reason", sel->refused[i].reason);
    text_add(out, "}");
  }
  text_add(out, "],\"later\":[");
  for (int i = 0; sel && i < sel->later_count; i++) {
    text_add(out, i ? ",{" : "{");
    json_pair(out, "tier", rlx_tier_name(sel->later[i].tier));
    text_add(out, ",");
    json_pair(out, "kernel", sel->later[i].kernel);
    text_add(out, "}");
  }
  text_printf(out, "],\"pinned\":%s", sel && sel->pinned ? "true" : "false");
}

static void json_node(const report_input *in, const rlx_node *n, text *out) {
  char type[300];
  text_add(out, "{");
  json_pair(out, "name", n->name);
  text_add(out, ",");
  json_pair(out, "op", n->op_name);
  if (n->origin) {
    text_add(out, ",");
    json_pair(out, "origin", n->origin);
  }
  json_selection(n->selection, out);
  if (in->gpu) {
    text_add(out, ",");
    json_pair(out, "placement", placement_name(node_placement(n)));
    text_add(out, ",");
    json_pair(out, "policy", policy_name(node_policy(in->options, n)));
  }
  text_printf(out, ",\"view\":%s,\"outputs\":[", is_view(n) ? "true" : "false");
  for (int i = 0; i < n->output_count; i++) {
    text_add(out, i ? "," : "");
    text_json_string(out, type_text(&n->outputs[i]->type, type, sizeof type));
  }
  text_add(out, "],\"subgraphs\":[");
  for (int k = 0; node_subgraph(n, k); k++) {
    text_add(out, k ? "," : "");
    json_graph(in, node_subgraph(n, k), out);
  }
  text_add(out, "]}");
}

static void json_graph(const report_input *in, const rlx_graph *g, text *out) {
  text_add(out, "{");
  json_pair(out, "name", g->name);
  text_add(out, ",\"nodes\":[");
  for (size_t i = 0; i < g->nodes.count; i++) {
    text_add(out, i ? "," : "");
    json_node(in, g->nodes.data[i], out);
  }
  text_add(out, "]}");
}

static void json_counters(const report_input *in, text *out) {
  for (int i = 0; i < in->counter_count; i++) {
    const rlx_counter *c = &in->counters[i];
    text_add(out, i ? ",{" : "{");
    json_pair(out, "op", c->op);
    text_add(out, ",");
    json_pair(out, "tier", rlx_tier_name(c->tier));
    text_add(out, ",");
    json_pair(out, "kernel", c->kernel);
    text_add(out, ",");
    json_pair(out, "owner", c->owner);
    text_printf(out, ",\"steps\":%" PRId64 "}", c->steps);
  }
}

static void write_json(const report_input *in, text *out) {
  const rlx_session_stats *s = in->stats;
  text_add(out, "{");
  json_pair(out, "device", in->device);
  text_add(out, ",");
  json_pair(out, "policy", policy_name(in->policy));
  text_printf(out, ",\"policy_from_environment\":%s,\"graph\":", in->policy_from_environment ? "true" : "false");
  json_graph(in, in->graph, out);
  text_printf(out,
              ",\"totals\":{\"nodes\":%zu,\"steps\":%" PRId64 ",\"trips\":%d,\"submits\":%d,\"device_steps\":%d"
              ",\"bytes_staged\":%" PRId64 ",\"trip_us\":%.1f,\"builds\":%" PRId64 ",\"binds\":%" PRId64
              ",\"bind_ns\":%" PRId64 ",\"prepare_ns\":%" PRId64 ",\"runs\":%" PRId64 ",\"packed_bytes\":%" PRId64
              ",\"run_bytes\":%" PRId64 "},\"counters\":[",
              in->graph->nodes.count, s->steps, in->trips, in->submits, in->device_steps, in->staged, in->trip_us,
              s->builds, s->binds, s->bind_ns, s->prepare_ns, s->runs, s->packed_bytes, s->run_bytes);
  json_counters(in, out);
  text_add(out, "]}\n");
}

/* ---- Graphviz ----------------------------------------------------------------------------- */

/* A string in dot's quotes; JSON writes a line feed as \u000a, dot as \n. */
static void dot_string(text *out, const text *from) {
  text quoted = {0};
  text_json_string(&quoted, from->data ? from->data : "");
  out->failed |= quoted.failed || from->failed;
  for (const char *p = quoted.data; p && *p; p++) {
    bool feed = __builtin_strncmp(p, "\\u000a", 6) == 0;
    text_add_bytes(out, feed ? "\\n" : p, feed ? 2 : 1);
    if (feed) p += 5;
  }
  text_finish(&quoted);
}

/* Nodes are called by the place of their graph in the walk and their own in it. */
typedef VECTOR(const rlx_graph *) graph_list;

static void dot_name(const graph_list *graphs, const rlx_node *n, text *out) {
  size_t g = 0, at = 0;
  while (g < graphs->count && graphs->data[g] != n->graph) g++;
  while (at < n->graph->nodes.count && n->graph->nodes.data[at] != n) at++;
  text_printf(out, "g%zu_n%zu", g, at);
}

/* The box: who runs the node; its tip: who else could, and why they do not. */
static void dot_node(const report_input *in, const graph_list *graphs, const rlx_node *n, text *out) {
  text label = {0}, tip = {0};
  char words[64];
  const selection *sel = n->selection;
  const char *policy = fallback_text(in, n, words);
  text_printf(&label, "%s\n%s", n->name, n->op_name);
  for (int i = 0; sel && i < sel->count; i++)
    text_printf(&label, "%s%s %s", i ? " or " : "\n", rlx_tier_name(sel->chosen[i].tier),
                candidate_name(&sel->chosen[i]));
  if (policy) text_printf(&label, "\n%s", policy);
  for (int i = 0; sel && i < sel->refused_count; i++)
    text_printf(&tip, "passed over: %s %s: %s\n", rlx_tier_name(sel->refused[i].tier), sel->refused[i].kernel,
                sel->refused[i].reason);
  for (int i = 0; sel && i < sel->later_count; i++)
    text_printf(&tip, "after it: %s %s\n", rlx_tier_name(sel->later[i].tier), sel->later[i].kernel);
  if (n->origin) text_printf(&tip, "from %s\n", n->origin);
  text_add(out, "  ");
  dot_name(graphs, n, out);
  text_add(out, policy ? " [shape=box,style=filled,fillcolor=orange,label=" : " [shape=box,label=");
  dot_string(out, &label);
  text_add(out, ",tooltip=");
  dot_string(out, &tip);
  text_add(out, "];\n");
  text_finish(&label);
  text_finish(&tip);
}

static void dot_graph(const report_input *in, graph_list *graphs, const rlx_graph *g, text *out) {
  out->failed |= !vector_push(graphs, g);
  for (size_t i = 0; i < g->nodes.count; i++) {
    const rlx_node *n = g->nodes.data[i];
    dot_node(in, graphs, n, out);
    for (int k = 0; k < n->input_count; k++) {
      if (!n->inputs[k] || !n->inputs[k]->producer) continue;
      text_add(out, "  ");
      dot_name(graphs, n->inputs[k]->producer, out);
      text_add(out, " -> ");
      dot_name(graphs, n, out);
      text_add(out, ";\n");
    }
    for (int k = 0; node_subgraph(n, k); k++) dot_graph(in, graphs, node_subgraph(n, k), out);
  }
}

static void write_dot(const report_input *in, text *out) {
  graph_list graphs = {0};
  text_add(out, "digraph rlx {\n");
  dot_graph(in, &graphs, in->graph, out);
  text_add(out, "}\n");
  vector_finish(&graphs);
}

rlx_status report_write(const report_input *in, rlx_report_format format, text *out) {
  switch (format) {
    case RLX_REPORT_TEXT: write_text(in, out); return RLX_OK;
    case RLX_REPORT_JSON: write_json(in, out); return RLX_OK;
    case RLX_REPORT_DOT: write_dot(in, out); return RLX_OK;
    default: return RLX_FAIL(INVALID, "report: no format %d", (int)format);
  }
}
