/* call.c — one op by name: running it eagerly, and asking which kernel would. */
#include <string.h>

#include "backend/backend.h"
#include "base/need.h"
#include "base/text.h"
#include "ir/infer.h"
#include "ir/registry.h"
#include "pass/pass.h"
#include "runtime/session.h"

/* ---- one-node graphs ---------------------------------------------------------------------- */

typedef struct one_op {
  rlx_registry *registry;
  const char *op;
  const rlx_attr *attrs;
  int attr_count;
  const rlx_type *types; /* dtype UNDEFINED: the input is left out */
  int input_count, output_count;
} one_op;

static rlx_status one_node(rlx_graph *g, const one_op *o, rlx_node **out) {
  rlx_value **inputs = arena_array(&g->memory, (size_t)o->input_count, sizeof *inputs);
  if (!inputs) return status_no_memory(sizeof *inputs);
  for (int i = 0; i < o->input_count; i++) {
    const char *name = arena_printf(&g->memory, "input_%d", i);
    if (!name) return status_no_memory(1);
    if (o->types[i].dtype != RLX_UNDEFINED) inputs[i] = rlx_graph_input(g, name, &o->types[i]);
  }
  rlx_node_desc d = {.struct_size = sizeof d,
                     .op = o->op,
                     .name = "call",
                     .inputs = inputs,
                     .input_count = o->input_count,
                     .attrs = o->attrs,
                     .attr_count = o->attr_count,
                     .output_count = o->output_count};
  rlx_node *n = rlx_graph_node(g, &d);
  for (int i = 0; n && i < o->output_count; i++)
    rlx_graph_output(g, n->outputs[i], arena_printf(&g->memory, "output_%d", i));
  RLX_TRY(rlx_graph_finish(g));
  if (!n->op) return RLX_FAIL(NOT_FOUND, "no op '%s'", o->op);
  *out = n;
  return RLX_OK;
}

static rlx_status run_one(rlx_session *s, rlx_tensor *const *inputs, rlx_tensor **outputs) {
  rlx_binding *b;
  RLX_TRY(rlx_binding_create(s, &b));
  rlx_status status = RLX_OK;
  int left_out = 0;
  for (int i = 0; i < rlx_session_input_count(s) && status == RLX_OK; i++) {
    rlx_port_info info;
    status = rlx_session_input(s, i, &info);
    while (!inputs[i + left_out]) left_out++;
    if (status == RLX_OK) status = rlx_binding_input(b, info.name, inputs[i + left_out], 0);
  }
  for (int i = 0; i < rlx_session_output_count(s) && status == RLX_OK; i++)
    if (outputs[i]) status = rlx_binding_output(b, s->source->outputs.data[i].name, outputs[i]);
  if (status == RLX_OK) status = rlx_run(b, NULL);
  for (int i = 0; i < rlx_session_output_count(s) && status == RLX_OK; i++)
    if (!outputs[i]) status = rlx_binding_get(b, s->source->outputs.data[i].name, &outputs[i]);
  char kept[STATUS_TEXT_BYTES];
  status_save(kept);
  rlx_binding_destroy(b);
  status_restore(kept);
  return status;
}

rlx_status rlx_call(rlx_registry *registry, const char *op, const rlx_attr *attrs, int attr_count,
                    rlx_tensor *const *inputs, int input_count, rlx_tensor **outputs, int output_count) {
  RLX_NEED(inputs || input_count <= 0);
  RLX_NEED(outputs || output_count <= 0);
  if (!op || input_count < 0 || output_count < 0) return RLX_FAIL(INVALID, "call: no op, or a negative count");
  rlx_graph *g;
  rlx_session *s = NULL;
  rlx_node *n;
  rlx_type *types = mem_array((size_t)input_count, sizeof *types);
  if (!types) return status_no_memory((size_t)input_count * sizeof *types);
  for (int i = 0; i < input_count; i++)
    if (inputs[i]) rlx_tensor_type(inputs[i], &types[i]);
  one_op o = {registry, op, attrs, attr_count, types, input_count, output_count};
  rlx_status status = rlx_graph_create(registry, &g);
  if (status == RLX_OK) {
    status = one_node(g, &o, &n);
    rlx_session_options options = RLX_SESSION_OPTIONS_INIT;
    options.registry = registry;
    options.max_concurrent_runs = 1;
    if (status == RLX_OK) status = rlx_session_create(g, &options, &s);
    if (status == RLX_OK) status = run_one(s, inputs, outputs);
    char kept[STATUS_TEXT_BYTES];
    status_save(kept);
    rlx_session_destroy(s);
    rlx_graph_destroy(g);
    status_restore(kept);
  }
  mem_free(types);
  return status;
}

/* ---- which -------------------------------------------------------------------------------- */

static rlx_status make_answer(const selection *sel, const char *op_owner, rlx_which_answer **out) {
  text reasons = {0};
  text_add(&reasons, "");
  for (int i = 0; i < sel->refused_count; i++)
    text_printf(&reasons, "%s %s: %s\n", rlx_tier_name(sel->refused[i].tier), sel->refused[i].kernel,
                sel->refused[i].reason);
  const candidate *c = sel->count ? &sel->chosen[0] : NULL;
  const char *kernel = c ? candidate_name(c) : "", *owner = c && c->kernel ? c->kernel->owner : c ? op_owner : "";
  size_t a = strlen(kernel) + 1, b = strlen(owner) + 1;
  char *block = reasons.failed ? NULL : mem_zalloc(sizeof **out + a + b + reasons.size + 1);
  if (block) {
    rlx_which_answer *answer = (rlx_which_answer *)(void *)block;
    char *tail = block + sizeof *answer;
    answer->tier = c ? c->tier : RLX_TIER_ANY;
    answer->kernel = memcpy(tail, kernel, a);
    answer->owner = memcpy(tail + a, owner, b);
    answer->reasons = memcpy(tail + a + b, reasons.data, reasons.size + 1);
    *out = answer;
  }
  text_finish(&reasons);
  return block ? RLX_OK : status_no_memory(sizeof **out);
}

static rlx_status ask(rlx_graph *g, const one_op *o, const target *t, rlx_which_answer **out) {
  rlx_node *n;
  RLX_TRY(one_node(g, o, &n));
  g->opsets.count = 0;
  rlx_status status = select_node(n, t);
  if (!n->selection) return status;
  if (status == RLX_OK && n->selection->count == 0) { /* lowered: the answer is the tier */
    candidate lower = {RLX_TIER_LOWER, NULL, false};
    selection said = *n->selection;
    said.chosen = &lower;
    said.count = 1;
    return make_answer(&said, n->op->owner, out);
  }
  status = make_answer(n->selection, n->op->owner, out);
  return status;
}

rlx_status rlx_which(rlx_registry *registry, const char *device, const char *op, const rlx_attr *attrs, int attr_count,
                     const rlx_type *inputs, int input_count, rlx_which_answer **out) {
  RLX_NEED(op);
  RLX_NEED(out);
  RLX_NEED(inputs || input_count <= 0);
  if (input_count < 0) return RLX_FAIL(INVALID, "which: %d inputs", input_count);
  const backend *b;
  int index;
  RLX_TRY(backend_find(device, &b, &index));
  rlx_session_options options = RLX_SESSION_OPTIONS_INIT;
  target t = {b->name, b->kernels, b->gpu != NULL, registry, &options};
  op_entry *entry = registry_find_op(registry, op, 0);
  if (!entry) return RLX_FAIL(NOT_FOUND, "no op '%s'", op);
  one_op o = {registry, op, attrs, attr_count, inputs, input_count, entry->output_count};
  op_entry_release(entry);
  rlx_graph *g;
  RLX_TRY(rlx_graph_create(registry, &g));
  rlx_status status = ask(g, &o, &t, out);
  char kept[STATUS_TEXT_BYTES];
  status_save(kept);
  selection_release(g);
  rlx_graph_destroy(g);
  status_restore(kept);
  return status;
}
