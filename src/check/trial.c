/* trial.c — runs a case by one candidate, pinned, on memory whose bounds are watched. */
#include <stdio.h>
#include <string.h>

#include "check/check.h"
#include "ir/shape.h"

enum { MEMORY_LIMIT = 256 << 20, TRIAL_THREADS = 2 };

/* Input i becomes a constant of the graph. */
static void make_constant(rlx_graph *g, int i, rlx_tensor *t) {
  rlx_value *v = g->inputs.data[i];
  v->constant = rlx_tensor_retain(t);
  v->is_input = false;
}

static void forget(rlx_type *t, bool rank_too) {
  if (t->kind != RLX_KIND_TENSOR) return;
  for (int d = 0; d < t->rank; d++) t->dims[d] = RLX_UNKNOWN;
  if (rank_too) t->rank = RLX_UNKNOWN;
}

static rlx_status make_graph(const check_case *k, const trial_options *o, rlx_graph **out) {
  rlx_graph *g;
  RLX_TRY(graph_clone(k->graph, &g));
  for (int i = 0; i < k->input_count; i++) {
    if (o->constants >> i & 1) make_constant(g, i, k->inputs[i]);
    if (o->symbolic) forget(&g->inputs.data[i]->type, o->unranked);
  }
  size_t kept = 0;
  for (int i = 0; i < k->input_count; i++)
    if (!(o->constants >> i & 1)) g->inputs.data[kept++] = g->inputs.data[i];
  g->inputs.count = kept;
  if (o->symbolic)
    for (size_t i = 0; i < g->outputs.count; i++) forget(&g->outputs.data[i].value->type, true);
  *out = g;
  return RLX_OK;
}

static rlx_status bind_input(trial *t, int i, int position) {
  const check_case *k = t->from;
  rlx_tensor *given = k->inputs[i], *wrapped = NULL;
  const char *name = k->graph->inputs.data[i]->name;
  if (given->kind != RLX_KIND_TENSOR || given->dtype == RLX_STRING)
    return rlx_binding_input(t->binding, name, given, 0);
  guarded *g = &t->inputs[position];
  RLX_TRY(guarded_make(given->bytes, g));
  if (given->bytes) memcpy(g->data, given->data, given->bytes);
  RLX_TRY(rlx_tensor_wrap(g->data, given->bytes, given->dtype, given->rank, given->dims, NULL, NULL, &wrapped));
  rlx_status status = rlx_binding_input(t->binding, name, wrapped, 0);
  rlx_tensor_destroy(wrapped);
  return status;
}

/* Where the expected result says what to give memory for. */
static rlx_status bind_output(trial *t, int i) {
  const rlx_tensor *want = t->from->expected[i];
  if (!want || want->kind != RLX_KIND_TENSOR || want->dtype == RLX_STRING) return RLX_OK;
  guarded *g = &t->outputs[i];
  RLX_TRY(guarded_make(want->bytes, g));
  RLX_TRY(
      rlx_tensor_wrap(g->data, want->bytes, want->dtype, want->rank, want->dims, NULL, NULL, &t->output_tensors[i]));
  return rlx_binding_output(t->binding, t->names[i], t->output_tensors[i]);
}

static rlx_status open_session(const checker *c, trial *t, const trial_options *o) {
  rlx_graph *g = NULL;
  RLX_TRY(make_graph(t->from, o, &g));
  rlx_pin pin = {.node = t->from->node->name, .tier = o->tier, .kernel = o->kernel};
  rlx_session_options options = RLX_SESSION_OPTIONS_INIT;
  options.device = c->device;
  options.registry = (rlx_registry *)(uintptr_t)c->registry;
  options.threads = TRIAL_THREADS;
  options.memory_limit = MEMORY_LIMIT;
  options.max_concurrent_runs = 4;
  options.pins = &pin;
  options.pin_count = o->tier == RLX_TIER_ANY ? 0 : 1;
  options.debug = "";
  rlx_status status = rlx_session_create(g, &options, &t->session);
  rlx_graph_destroy(g);
  return status == RLX_OK ? rlx_binding_create(t->session, &t->binding) : status;
}

rlx_status trial_open(const checker *c, const check_case *k, const trial_options *o, trial *out) {
  *out = (trial){.from = k};
  size_t ins = (size_t)k->input_count, outs = (size_t)k->output_count;
  out->inputs = mem_array(ins, sizeof *out->inputs);
  out->outputs = mem_array(outs, sizeof *out->outputs);
  out->output_tensors = mem_array(outs, sizeof *out->output_tensors);
  out->names = mem_array(outs, sizeof *out->names);
  rlx_status status = out->inputs && out->outputs && out->output_tensors && out->names ? RLX_OK : status_no_memory(ins);
  if (status == RLX_OK) status = open_session(c, out, o);
  for (int i = 0; i < k->output_count && status == RLX_OK; i++) out->names[i] = k->graph->outputs.data[i].name;
  for (int i = 0; i < k->input_count && status == RLX_OK; i++)
    if (!(o->constants >> i & 1)) status = bind_input(out, i, i);
  for (int i = 0; i < k->output_count && status == RLX_OK && !o->own_outputs; i++) status = bind_output(out, i);
  if (status != RLX_OK) {
    char kept[STATUS_TEXT_BYTES];
    status_save(kept);
    trial_close(out);
    status_restore(kept);
  }
  return status;
}

rlx_status trial_run(trial *t, int poison) {
  for (int i = 0; i < t->from->output_count; i++)
    if (t->outputs[i].bytes) memset(t->outputs[i].data, poison, t->outputs[i].bytes);
  return rlx_run(t->binding, NULL);
}

rlx_status trial_bind(const trial *t, rlx_binding **out) {
  const check_case *k = t->from;
  rlx_binding *b;
  RLX_TRY(rlx_binding_create(t->session, &b));
  rlx_status status = RLX_OK;
  for (int i = 0; i < k->input_count && status == RLX_OK; i++)
    status = rlx_binding_input(b, k->graph->inputs.data[i]->name, k->inputs[i], 0);
  if (status == RLX_OK)
    *out = b;
  else
    rlx_binding_destroy(b);
  return status;
}

rlx_status trial_output(const trial *t, rlx_binding *b, int i, rlx_tensor **out) {
  if (b == t->binding && t->output_tensors[i]) {
    *out = rlx_tensor_retain(t->output_tensors[i]);
    return RLX_OK;
  }
  return rlx_binding_get(b, t->names[i], out);
}

const char *trial_damage(const trial *t) {
  for (int i = 0; i < t->from->output_count; i++)
    if (t->outputs[i].map && !guarded_intact(&t->outputs[i])) return rlx_reason("it writes before output %d", i);
  for (int i = 0; i < t->from->input_count; i++) {
    const guarded *g = &t->inputs[i];
    if (!g->map) continue;
    if (!guarded_intact(g)) return rlx_reason("it writes before input %d", i);
    if (g->bytes && memcmp(g->data, t->from->inputs[i]->data, g->bytes) != 0)
      return rlx_reason("it changes input %d, which nobody gave away", i);
  }
  return NULL;
}

void trial_close(trial *t) {
  rlx_binding_destroy(t->binding);
  rlx_session_destroy(t->session);
  for (int i = 0; t->output_tensors && i < t->from->output_count; i++) rlx_tensor_destroy(t->output_tensors[i]);
  for (int i = 0; t->inputs && i < t->from->input_count; i++) guarded_free(&t->inputs[i]);
  for (int i = 0; t->outputs && i < t->from->output_count; i++) guarded_free(&t->outputs[i]);
  mem_free(t->inputs);
  mem_free(t->outputs);
  mem_free(t->output_tensors);
  mem_free(t->names);
  *t = (trial){0};
}
