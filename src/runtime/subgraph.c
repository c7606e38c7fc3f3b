/* subgraph.c — runs subgraphs for the nodes that have them, and lends these nodes memory. */
#include <stdio.h>
#include <string.h>

#include "ir/shape.h"
#include "runtime/session.h"

static run_state *state_of(const rlx_ctx *ctx) { return ((run_exec *)ctx->executor)->rs; }

/* ---- memory and objects ------------------------------------------------------------------- */

/* A node marks before it has outputs: its cells hold nothing yet. */
size_t exec_mark(rlx_ctx *ctx) {
  for (int i = 0; i < ctx->output_count; i++)
    if (operand_is_cell(&ctx->outputs[i])) *(rlx_tensor **)ctx->outputs[i].data = NULL;
  return state_of(ctx)->dynamic.count;
}

/* What the caller has taken as its own outputs since (exec_output_shape, exec_output_value) stays. */
static bool is_output(const rlx_ctx *ctx, const rlx_tensor *t) {
  for (int i = 0; i < ctx->output_count; i++) {
    const rlx_operand *o = &ctx->outputs[i];
    if (o->data && (operand_is_cell(o) ? cell_value(o) == t : o->data == t->data)) return true;
  }
  return false;
}

static void drop(run_state *rs, rlx_tensor *t) {
  (void)session_charge(rs->session, -(int64_t)t->bytes);
  rlx_tensor_destroy(t);
}

void exec_release(rlx_ctx *ctx, size_t mark) {
  run_state *rs = state_of(ctx);
  size_t kept = mark;
  for (size_t i = mark; i < rs->dynamic.count; i++) {
    rlx_tensor *t = rs->dynamic.data[i];
    if (is_output(ctx, t))
      rs->dynamic.data[kept++] = t;
    else
      drop(rs, t);
  }
  rs->dynamic.count = kept;
}

rlx_status exec_keep(rlx_ctx *ctx, rlx_tensor *value) {
  run_state *rs = state_of(ctx);
  rlx_status status = session_charge(rs->session, (int64_t)value->bytes);
  if (status == RLX_OK && !vector_push(&rs->dynamic, value)) {
    (void)session_charge(rs->session, -(int64_t)value->bytes);
    status = status_no_memory(sizeof value);
  }
  if (status == RLX_OK) return RLX_OK;
  rlx_tensor_destroy(value);
  return rlx_fail(ctx, status, "%s", rlx_error_message());
}

void *exec_take(rlx_ctx *ctx, int64_t bytes) {
  rlx_session *s = state_of(ctx)->session;
  rlx_status status = session_charge(s, bytes);
  void *data = status == RLX_OK ? mem_aligned(64, (size_t)bytes) : NULL;
  if (data) return data;
  if (status == RLX_OK) {
    (void)session_charge(s, -bytes);
    status = status_no_memory((size_t)bytes);
  }
  (void)rlx_fail(ctx, status, "%s", rlx_error_message());
  return NULL;
}

void exec_give(rlx_ctx *ctx, void *data, int64_t bytes) {
  if (!data) return;
  (void)session_charge(state_of(ctx)->session, -bytes);
  mem_free(data);
}

/* ---- calls -------------------------------------------------------------------------------- */

typedef struct call_memory {
  program_input *inputs;
  program_output *outputs;
  rlx_tensor **tensors;
} call_memory;

/* Scratch for a call at this depth: kept, so that a repeated call allocates nothing. */
static rlx_status take_scratch(run_state *rs, size_t ins, size_t outs, call_memory *m) {
  size_t bytes = ins * sizeof *m->inputs + outs * (sizeof *m->outputs + sizeof *m->tensors);
  while (rs->calls.count <= (size_t)rs->call_depth)
    if (!vector_push(&rs->calls, (run_buffer){0})) return status_no_memory(sizeof(run_buffer));
  run_buffer *b = &rs->calls.data[rs->call_depth];
  if (b->bytes < (int64_t)bytes) {
    void *data = mem_alloc(bytes);
    if (!data) return status_no_memory(bytes);
    mem_free(b->data);
    *b = (run_buffer){data, (int64_t)bytes};
  }
  if (bytes) memset(b->data, 0, bytes);
  m->inputs = b->data;
  m->outputs = (program_output *)(void *)(m->inputs + ins);
  m->tensors = (rlx_tensor **)(void *)(m->outputs + outs);
  return RLX_OK;
}

/* The subgraph was built for the types it declares. */
static rlx_status check_argument(const rlx_value *v, const rlx_operand *o) {
  char a[300], b[300];
  const rlx_type *want = &v->type;
  rlx_type is;
  if (want->kind != RLX_KIND_TENSOR || operand_is_cell(o)) {
    if (operand_is_cell(o))
      rlx_tensor_type(cell_value(o), &is);
    else
      type_set(&is, o->dtype, o->rank, o->dims);
    rlx_type held;
    bool holds = want->kind == RLX_KIND_OPTIONAL && rlx_type_held(want, &held) && held.kind == RLX_KIND_SEQUENCE &&
                 type_same_kind(&held, &is);
    if (!type_same_kind(want, &is) && !holds)
      return RLX_FAIL(INVALID, "subgraph input '%s' is %s, given %s", v->name, type_text(want, a, sizeof a),
                      type_text(&is, b, sizeof b));
    return RLX_OK;
  }
  bool fits = want->dtype == o->dtype && (want->rank < 0 || want->rank == o->rank);
  for (int d = 0; fits && d < want->rank; d++) fits = want->dims[d] < 0 || want->dims[d] == o->dims[d];
  if (fits) return RLX_OK;
  type_set(&is, o->dtype, o->rank, o->dims);
  return RLX_FAIL(INVALID, "subgraph input '%s' is %s, given %s", v->name, type_text(want, a, sizeof a),
                  type_text(&is, b, sizeof b));
}

static rlx_status run_child(const rlx_ctx *ctx, const subgraph_call *call, call_memory *m) {
  const run_frame *f = ((run_exec *)ctx->executor)->frame;
  const program_node *n = f->stage->steps[ctx->flags].from;
  const program *child = n->children[call->index];
  size_t own = child->graph->inputs.count;
  for (size_t i = 0; i < own; i++) {
    RLX_TRY(check_argument(child->graph->inputs.data[i], &call->inputs[i]));
    m->inputs[i].operand = call->inputs[i];
  }
  for (size_t i = 0; i < child->captures.count; i++)
    m->inputs[own + i].operand = ctx->inputs[n->child_captures[call->index][i]];
  for (int i = 0; i < call->output_count; i++) m->outputs[i] = (program_output){.call = call, .tensor = &m->tensors[i]};
  return program_run(f->rs, child, m->inputs, m->outputs, NULL);
}

/* Results in memory of the run. */
static rlx_status keep_tensors(rlx_ctx *ctx, const subgraph_call *call, call_memory *m, rlx_status status) {
  for (int i = 0; i < call->output_count; i++) {
    if (!m->tensors[i]) continue;
    if (status == RLX_OK)
      status = exec_keep(ctx, m->tensors[i]);
    else
      rlx_tensor_destroy(m->tensors[i]);
  }
  for (int i = 0; i < call->output_count && status == RLX_OK; i++) call->outputs[i] = m->outputs[i].result;
  return status;
}

/* The failure of a node in the subgraph names that node, then the nodes around it. */
static rlx_status name_inner(rlx_ctx *ctx, rlx_status status) {
  failure *f = &state_of(ctx)->failure;
  const char *text = rlx_error_message();
  if (!f->taken) return rlx_fail(ctx, status, "%s", text);
  if (strstr(text, f->text)) snprintf(f->text, sizeof f->text, "%s", text);
  return status;
}

rlx_status exec_call(rlx_ctx *ctx, const subgraph_call *call) {
  run_state *rs = state_of(ctx);
  const program_node *n = ((run_exec *)ctx->executor)->frame->stage->steps[ctx->flags].from;
  if (call->index < 0 || call->index >= n->child_count)
    return rlx_fail(ctx, RLX_INTERNAL, "no subgraph %d", call->index);
  const program *child = n->children[call->index];
  const rlx_graph *g = child->graph;
  if ((size_t)call->input_count != g->inputs.count || (size_t)call->output_count != g->outputs.count)
    return rlx_fail(ctx, RLX_INVALID, "subgraph '%s' has %zu inputs and %zu outputs, not %d and %d", g->name,
                    g->inputs.count, g->outputs.count, call->input_count, call->output_count);
  call_memory m = {0};
  rlx_status status = take_scratch(rs, g->inputs.count + child->captures.count, g->outputs.count, &m);
  if (status == RLX_OK) {
    rs->call_depth++;
    status = run_child(ctx, call, &m);
    rs->call_depth--;
    status = keep_tensors(ctx, call, &m, status);
  }
  return status == RLX_OK ? RLX_OK : name_inner(ctx, status);
}
