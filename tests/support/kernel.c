/* kernel.c — running one CPU kernel on a node, without a session. */
#include "support/kernel.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/memory.h"
#include "ir/bound.h"
#include "ir/failure.h"
#include "ir/infer.h"
#include "ir/layout.h"
#include "ir/registry.h"
#include "ir/shape.h"

enum { OPERANDS = 8 };

int64_t random_int(random_state *r, int64_t low, int64_t high) {
  r->s = r->s * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return low + (int64_t)((r->s >> 33) % (uint64_t)(high - low + 1));
}

float random_float(random_state *r) { return (float)random_int(r, -(1 << 23), (1 << 23) - 1) / (float)(1 << 23); }

rlx_type kernel_type(int rank, const int64_t *dims) {
  rlx_type t = {.kind = RLX_KIND_TENSOR, .dtype = RLX_FLOAT, .rank = rank};
  for (int i = 0; i < rank; i++) t.dims[i] = dims[i];
  return t;
}

rlx_node *kernel_node(const char *op, const rlx_type *inputs, int input_count, const rlx_attr *attrs, int attr_count,
                      rlx_graph **g) {
  assert_int_equal(rlx_graph_create(NULL, g), RLX_OK);
  rlx_value *values[OPERANDS] = {0};
  for (int i = 0; i < input_count; i++) {
    if (inputs[i].rank >= 0) values[i] = rlx_graph_input(*g, NULL, &inputs[i]);
  }
  rlx_node_desc desc = {.struct_size = sizeof desc,
                        .op = op,
                        .inputs = values,
                        .input_count = input_count,
                        .attrs = attrs,
                        .attr_count = attr_count};
  rlx_node *n = rlx_graph_node(*g, &desc);
  if (n) rlx_graph_output(*g, rlx_node_output(n, 0), NULL);
  if (rlx_graph_finish(*g) != RLX_OK || infer_graph(*g, true) != RLX_OK) fail_msg("%s: %s", op, rlx_error_message());
  return n;
}

/* ---- operands ----------------------------------------------------------------------------- */

static void *checked(void *p) {
  assert_non_null(p);
  return p;
}

static void make_operand(rlx_operand *o, const rlx_type *t) {
  int64_t bytes = type_bytes(t);
  assert_true(bytes >= 0);
  *o = (rlx_operand){.dims = t->dims,
                     .count = shape_count(t->rank, t->dims),
                     .bytes = bytes,
                     .dtype = t->dtype,
                     .rank = t->rank,
                     .data = checked(mem_aligned(64, (size_t)bytes + 64))};
  memset(o->data, 0, (size_t)bytes);
}

/* Copies between row-major and a layout. */
static void permute(const rlx_operand *o, uint32_t layout, const float *from, float *to, bool into_layout) {
  int64_t points = 1, channels = o->rank > 1 ? o->dims[1] : 1, block = layout_block(layout, channels);
  for (int i = 2; i < o->rank; i++) points *= o->dims[i];
  for (int64_t i = 0; i < o->count; i++) {
    int64_t s = i % points, c = i / points % channels, sample = i / points / channels;
    int64_t j = sample * channels * points + c / block * block * points + s * block + c % block;
    if (into_layout)
      to[j] = from[i];
    else
      to[i] = from[j];
  }
}

static void set_layout(rlx_operand *o, uint32_t layout) {
  if (layout == LAYOUT_ROW_MAJOR) return;
  float *copy = checked(mem_aligned(64, (size_t)o->bytes + 64));
  permute(o, layout, o->data, copy, true);
  mem_free(o->data);
  o->data = copy;
  o->layout = layout;
}

/* ---- running ------------------------------------------------------------------------------ */

typedef struct session {
  const rlx_node *node;
  rlx_operand inputs[OPERANDS], output, expected;
  const rlx_type *input_types[OPERANDS], *output_types[1];
  const rlx_tensor *constants[OPERANDS];
  struct rlx_bound bound;
} session;

static void start(session *s, const kernel_check *check) {
  const rlx_node *n = s->node;
  random_state r = {check->seed};
  assert_true(n->input_count <= OPERANDS && n->output_count == 1);
  for (int i = 0; i < n->input_count; i++) {
    if (!n->inputs[i]) continue;
    s->input_types[i] = &n->inputs[i]->type;
    make_operand(&s->inputs[i], s->input_types[i]);
    float *data = s->inputs[i].data;
    for (int64_t k = 0; s->inputs[i].dtype == RLX_FLOAT && k < s->inputs[i].count; k++) data[k] = random_float(&r);
  }
  s->output_types[0] = &n->outputs[0]->type;
  make_operand(&s->output, s->output_types[0]);
  make_operand(&s->expected, s->output_types[0]);
  for (int64_t k = 0; k < s->output.bytes; k++) ((unsigned char *)s->output.data)[k] = 0xff;
  s->bound = (struct rlx_bound){.magic = BOUND_MAGIC,
                                .node = n,
                                .inputs = s->input_types,
                                .outputs = s->output_types,
                                .constants = s->constants,
                                .threads = check->threads};
}

static void expect(session *s) {
  failure first = {0};
  executor_head head = {.failure = &first, .threads = 1};
  rlx_ctx ctx = {.struct_size = sizeof ctx,
                 .input_count = s->node->input_count,
                 .output_count = 1,
                 .inputs = s->inputs,
                 .outputs = &s->expected,
                 .params = s->node->params,
                 .node = s->node,
                 .executor = &head};
  if (s->node->op->op.eval(&ctx) != RLX_OK) fail_msg("eval: %s", first.text);
}

static void pack_constants(session *s, const rlx_kernel *k, const void *state, const kernel_check *check) {
  for (int i = 0; i < s->node->input_count && k->packing; i++) {
    if (!(check->constants >> i & 1) || !s->inputs[i].data) continue;
    rlx_packing packing = {0};
    assert_int_equal(k->packing(&s->bound, state, i, &packing), RLX_OK);
    if (packing.bytes == 0) continue;
    void *to = checked(mem_aligned(64, (size_t)packing.bytes));
    if (k->pack(&s->bound, state, i, &s->inputs[i], to) != RLX_OK) fail_msg("pack: %s", rlx_error_message());
    mem_free(s->inputs[i].data);
    s->inputs[i].data = to;
    s->inputs[i].packed = 1;
  }
}

static void reuse_input(session *s, const rlx_kernel *k) {
  for (int i = 0; i < k->in_place_count; i++) {
    rlx_operand *from = &s->inputs[k->in_place[i].input];
    if (k->in_place[i].input >= s->node->input_count || !from->data || from->bytes != s->output.bytes) continue;
    memcpy(s->output.data, from->data, (size_t)from->bytes);
    mem_free(from->data);
    from->data = s->output.data;
    return;
  }
}

/* Constant inputs are known when the kernel is prepared. */
static void show_constants(session *s, const kernel_check *check) {
  for (int i = 0; i < s->node->input_count; i++) {
    const rlx_operand *o = &s->inputs[i];
    rlx_tensor *t = NULL;
    if (!(check->constants >> i & 1) || !o->data) continue;
    assert_int_equal(rlx_tensor_wrap(o->data, (size_t)o->bytes, o->dtype, o->rank, o->dims, NULL, NULL, &t), RLX_OK);
    s->constants[i] = t;
  }
}

static void forget_constants(session *s) {
  for (int i = 0; i < s->node->input_count; i++) rlx_tensor_destroy((rlx_tensor *)(uintptr_t)s->constants[i]);
}

static void run_kernel(session *s, const kernel_entry *e, const kernel_check *check) {
  const rlx_kernel *k = &e->head;
  failure first = {0};
  executor_head head = {.failure = &first, .threads = check->threads};
  void *state = NULL, *run_state = NULL;
  show_constants(s, check);
  if (k->prepare && k->prepare(&s->bound, &state) != RLX_OK) fail_msg("prepare: %s", rlx_error_message());
  pack_constants(s, k, state, check);
  if (check->in_place) reuse_input(s, k);
  int64_t bytes = k->workspace ? k->workspace(&s->bound, state) : 0;
  void *workspace = checked(mem_aligned(64, (size_t)bytes + 64));
  memset(workspace, 0xff, (size_t)bytes + 64);
  if (k->run_init) assert_int_equal(k->run_init(state, &run_state), RLX_OK);
  rlx_ctx ctx = {.struct_size = sizeof ctx,
                 .input_count = s->node->input_count,
                 .output_count = 1,
                 .inputs = s->inputs,
                 .outputs = &s->output,
                 .params = s->node->params,
                 .state = state,
                 .run_state = run_state,
                 .workspace = workspace,
                 .workspace_bytes = bytes,
                 .node = s->node,
                 .executor = &head};
  if (e->run(&ctx) != RLX_OK) fail_msg("run: %s", first.text);
  for (int i = 0; i < 64; i++) assert_int_equal(((unsigned char *)workspace)[bytes + i], 0xff);
  if (k->run_done) k->run_done(run_state);
  if (k->release) k->release(state);
  forget_constants(s);
  mem_free(workspace);
}

static double difference(const session *s) {
  const float *want = s->expected.data;
  float *got = checked(mem_alloc((size_t)s->output.bytes + 64));
  permute(&s->output, s->output.layout, s->output.data, got, false);
  double most = 0, magnitude = 1e-9;
  for (int64_t i = 0; i < s->output.count; i++) {
    double d = fabs((double)got[i] - (double)want[i]), m = fabs((double)want[i]);
    if (!(d <= most)) most = isfinite(d) ? d : (double)INFINITY;
    if (m > magnitude) magnitude = m;
  }
  mem_free(got);
  return most / magnitude;
}

static kernel_entry *find(const rlx_node *n, const char *name) {
  static const char *const backends[] = {"cpu", NULL};
  kernel_entry **list = NULL, *found = NULL;
  int count = 0;
  assert_int_equal(registry_kernels(NULL, n->op->op.name, n->op->op.version, backends, &list, &count), RLX_OK);
  for (int i = 0; i < count; i++) {
    if (!found && strcmp(list[i]->head.name, name) == 0)
      found = list[i];
    else
      kernel_entry_release(list[i]);
  }
  mem_free(list);
  if (!found) fail_msg("%s has no kernel '%s'", n->op->op.name, name);
  return found;
}

static void finish(session *s) {
  for (int i = 0; i < s->node->input_count; i++) {
    if (s->inputs[i].data != s->output.data) mem_free(s->inputs[i].data);
  }
  mem_free(s->output.data);
  mem_free(s->expected.data);
}

double kernel_difference(const rlx_node *n, const kernel_check *check, const char **why) {
  kernel_entry *e = find(n, check->kernel);
  const char *reason = e->head.why_not ? e->head.why_not(n) : NULL;
  session s = {.node = n};
  if (!reason || reason == rlx_depends_on_extents) {
    start(&s, check);
    if (reason) reason = e->head.why_not_bound(&s.bound);
  }
  double result = -1;
  if (!reason) {
    expect(&s);
    for (int i = 0; i < n->input_count; i++) {
      if (s.inputs[i].data) set_layout(&s.inputs[i], n->inputs[i]->layout);
    }
    s.output.layout = n->outputs[0]->layout;
    run_kernel(&s, e, check);
    result = difference(&s);
  }
  if (s.output.data) finish(&s);
  if (why) *why = reason;
  kernel_entry_release(e);
  return result;
}
