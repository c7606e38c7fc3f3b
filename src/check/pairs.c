/* pairs.c — calls a CPU kernel by itself, where its record says that an output may lie on an input. */
#include <string.h>

#include "base/cache.h"
#include "check/check.h"
#include "ir/bound.h"
#include "ir/failure.h"
#include "ir/shape.h"

/* One call, everything in `memory` or guarded. */
typedef struct call {
  const check_case *k;
  const kernel_entry *e;
  arena memory;
  rlx_operand *inputs, *outputs;
  guarded *spaces; /* inputs, outputs, workspace */
  int space_count;
  struct rlx_bound bound;
  failure failure;
  executor_head head;
  void *state, *run_state;
  cache *cache;
} call;

static const rlx_tensor *input_of(const check_case *k, int i) {
  const rlx_value *v = k->node->inputs[i];
  if (!v || v->constant) return v ? v->constant : NULL;
  for (int j = 0; j < k->input_count; j++)
    if (k->graph->inputs.data[j] == v) return k->inputs[j];
  return NULL;
}

static rlx_status take(call *c, size_t bytes, void **data) {
  guarded *g = &c->spaces[c->space_count++];
  RLX_TRY(guarded_make(bytes, g));
  *data = g->data;
  return RLX_OK;
}

static rlx_status lay_out(call *c, const rlx_pair *pair) {
  const check_case *k = c->k;
  int ins = k->node->input_count, outs = k->node->output_count;
  const rlx_type **types = arena_array(&c->memory, (size_t)(ins + outs), sizeof *types);
  const rlx_tensor **constants = arena_array(&c->memory, (size_t)ins, sizeof *constants);
  c->inputs = arena_array(&c->memory, (size_t)ins, sizeof *c->inputs);
  c->outputs = arena_array(&c->memory, (size_t)outs, sizeof *c->outputs);
  c->spaces = arena_array(&c->memory, (size_t)(ins + outs + 1), sizeof *c->spaces);
  if (!types || !constants || !c->inputs || !c->outputs || !c->spaces) return status_no_memory(1);
  for (int i = 0; i < ins; i++) {
    const rlx_tensor *t = input_of(k, i);
    if (!t) continue;
    c->inputs[i] = tensor_operand(t);
    RLX_TRY(take(c, t->bytes, &c->inputs[i].data));
    if (t->bytes) memcpy(c->inputs[i].data, t->data, t->bytes);
    types[i] = &k->node->inputs[i]->type;
    constants[i] = k->node->inputs[i]->constant;
  }
  for (int i = 0; i < outs; i++) {
    c->outputs[i] = tensor_operand(k->expected[i]);
    types[ins + i] = &k->node->outputs[i]->type;
    if (i == pair->output)
      c->outputs[i].data = c->inputs[pair->input].data;
    else
      RLX_TRY(take(c, (size_t)c->outputs[i].bytes, &c->outputs[i].data));
  }
  c->bound = (struct rlx_bound){BOUND_MAGIC, k->node, types, types + ins, constants, 1, c->cache};
  return RLX_OK;
}

static rlx_status run(call *c) {
  const rlx_kernel *head = &c->e->head;
  void *workspace = NULL;
  if (head->prepare) RLX_TRY(head->prepare(&c->bound, &c->state));
  int64_t bytes = head->workspace ? head->workspace(&c->bound, c->state) : 0;
  if (bytes > 0) RLX_TRY(take(c, (size_t)(bytes + 63) / 64 * 64, &workspace));
  if (head->run_init) RLX_TRY(head->run_init(c->state, &c->run_state));
  c->head = (executor_head){.failure = &c->failure, .threads = 1, .cache = c->cache};
  rlx_ctx ctx = {.struct_size = sizeof ctx,
                 .input_count = c->k->node->input_count,
                 .output_count = c->k->node->output_count,
                 .inputs = c->inputs,
                 .outputs = c->outputs,
                 .params = c->k->node->params,
                 .state = c->state,
                 .run_state = c->run_state,
                 .workspace = workspace,
                 .workspace_bytes = bytes,
                 .node = c->k->node,
                 .executor = &c->head};
  rlx_status status = c->e->run(&ctx);
  if (status != RLX_OK && c->failure.taken) status = status_fail(c->failure.code, "%s", c->failure.text);
  return status;
}

static const char *judge(const call *c, const rlx_pair *pair) {
  const check_case *k = c->k;
  for (int i = 0; i < c->space_count; i++)
    if (!guarded_intact(&c->spaces[i])) return "it writes before an operand or its workspace";
  for (int i = 0; i < k->node->input_count; i++) {
    const rlx_tensor *t = input_of(k, i);
    if (t && i != pair->input && t->bytes && memcmp(c->inputs[i].data, t->data, t->bytes) != 0)
      return rlx_reason("it changes input %d", i);
  }
  for (int i = 0; i < k->node->output_count; i++) {
    rlx_tensor *got = NULL;
    difference d = {.at = -1};
    const rlx_operand *o = &c->outputs[i];
    if (rlx_tensor_wrap(o->data, (size_t)o->bytes, o->dtype, o->rank, o->dims, NULL, NULL, &got) != RLX_OK) continue;
    bool same = compare_tensors(got, k->expected[i], case_tolerance(k), &d) && d.at < 0;
    rlx_tensor_destroy(got);
    if (!same) return rlx_reason("output %d, element %lld is %g and should be %g", i, (long long)d.at, d.got, d.want);
  }
  return NULL;
}

static bool fits(const check_case *k, const rlx_pair *p) {
  if (p->input >= k->node->input_count || p->output >= k->node->output_count) return false;
  const rlx_tensor *in = input_of(k, p->input), *out = k->expected[p->output];
  if (!in || in->bytes != out->bytes || in->rank != out->rank || k->node->inputs[p->input]->constant) return false;
  for (int i = 0; i < k->node->input_count; i++) /* the same value twice cannot be given away */
    if (i != p->input && k->node->inputs[i] == k->node->inputs[p->input]) return false;
  return in->rank == 0 || memcmp(in->dims, out->dims, (size_t)in->rank * sizeof *in->dims) == 0;
}

static bool plain(const check_case *k) {
  for (int i = 0; i < k->node->input_count; i++) {
    const rlx_tensor *t = input_of(k, i);
    if (t && (t->kind != RLX_KIND_TENSOR || t->dtype == RLX_STRING)) return false;
  }
  for (int i = 0; i < k->output_count; i++)
    if (k->expected[i]->kind != RLX_KIND_TENSOR || k->expected[i]->dtype == RLX_STRING ||
        !type_is_concrete(&k->node->outputs[i]->type))
      return false;
  return k->output_count == k->node->output_count;
}

static void check_pair(checker *c, check_case *k, const kernel_entry *e, const rlx_pair *pair, const char *subject) {
  if (!fits(k, pair) || !check_begin(c, "in place", subject, false)) return;
  call one = {.k = k, .e = e};
  rlx_status status = cache_create(1 << 20, &one.cache);
  if (status == RLX_OK) status = lay_out(&one, pair);
  if (status == RLX_OK) status = run(&one);
  const char *wrong = status == RLX_OK ? judge(&one, pair) : rlx_error_message();
  if (wrong)
    check_failed(c, "output %d on input %d: %s", pair->output, pair->input, wrong);
  else
    check_passed(c, 0, 0);
  if (e->head.run_done && one.run_state) e->head.run_done(one.run_state);
  if (e->head.release && one.state) e->head.release(one.state);
  cache_destroy(one.cache);
  for (int i = 0; i < one.space_count; i++) guarded_free(&one.spaces[i]);
  arena_finish(&one.memory);
}

void check_pairs(checker *c, check_case *k, const kernel_entry *e, const char *subject) {
  if (e->kind != KERNEL_CPU || !plain(k)) return;
  for (int i = 0; i < e->head.in_place_count; i++) check_pair(c, k, e, &e->head.in_place[i], subject);
  if (e->head.traits & RLX_VIEW) return; /* sessions never call it */
  for (int i = 0; i < e->head.alias_count; i++) check_pair(c, k, e, &e->head.aliases[i], subject);
}
