/* _loop.c — repeated runs of a subgraph. */
#include "ops/_loop.h"

#include <string.h>

#include "ir/dtype.h"
#include "ir/shape.h"

static const executor_head *executor(const loop_run *r) { return r->ctx->executor; }

static rlx_status no_memory(const loop_run *r) { return rlx_fail(r->ctx, RLX_OUT_OF_MEMORY, "out of memory"); }

rlx_status loop_begin(loop_run *r) {
  const executor_head *e = executor(r);
  if (!e || !e->call) return rlx_fail(r->ctx, RLX_UNSUPPORTED, "subgraphs run in sessions only");
  int before = r->conditional + r->carried_count;
  r->scan_count = (int)r->body->outputs.count - before;
  r->carried = mem_array((size_t)r->carried_count, sizeof *r->carried);
  r->scans = mem_array((size_t)r->scan_count, sizeof *r->scans);
  r->inputs = mem_array(r->body->inputs.count, sizeof *r->inputs);
  r->outputs = mem_array(r->body->outputs.count, sizeof *r->outputs);
  r->go_on = r->begun = true;
  r->mark = e->mark(r->ctx);
  return r->carried && r->scans && r->inputs && r->outputs ? RLX_OK : no_memory(r);
}

void loop_end(loop_run *r) {
  const executor_head *e = executor(r);
  if (!r->begun) return;
  for (int i = 0; r->carried && i < r->carried_count; i++)
    for (int side = 0; side < 2; side++) e->give(r->ctx, r->carried[i].data[side], r->carried[i].room[side]);
  for (int i = 0; r->scans && i < r->scan_count; i++) e->give(r->ctx, r->scans[i].data, r->scans[i].room);
  e->release(r->ctx, r->mark);
  mem_free(r->carried);
  mem_free(r->scans);
  mem_free(r->inputs);
  mem_free(r->outputs);
}

void loop_set_carried(loop_run *r, int i, const rlx_operand *from) {
  r->carried[i].now = *from;
  r->carried[i].at = -1;
}

/* ---- where results go --------------------------------------------------------------------- */

/* Room for `bytes` in all, of which `used` are kept. */
static rlx_status grow(loop_run *r, void **data, int64_t *room, int64_t used, int64_t bytes) {
  if (*data && *room >= bytes) return RLX_OK;
  int64_t more = *room > INT64_MAX / 2 || *room * 2 < bytes ? bytes : *room * 2;
  if (more < 64) more = 64;
  void *fresh = executor(r)->take(r->ctx, more);
  if (!fresh) return RLX_OUT_OF_MEMORY;
  if (used) memcpy(fresh, *data, (size_t)used);
  executor(r)->give(r->ctx, *data, *room);
  *data = fresh;
  *room = more;
  return RLX_OK;
}

static void copy_dims(rlx_operand *o, int64_t *dims) {
  if (o->rank > 0) memmove(dims, o->dims, (size_t)o->rank * sizeof *dims);
  o->dims = dims;
}

static rlx_status place_carried(loop_run *r, int i, const rlx_operand *is, void **data) {
  loop_carried *c = &r->carried[i];
  int side = c->at == 0;
  RLX_TRY(grow(r, &c->data[side], &c->room[side], 0, is->bytes));
  c->next = *is;
  copy_dims(&c->next, c->dims[side]);
  c->next.data = *data = c->data[side];
  return RLX_OK;
}

static rlx_status check_item(loop_run *r, int i, const rlx_operand *is) {
  loop_scan *s = &r->scans[i];
  const char *name = r->body->outputs.data[r->conditional + r->carried_count + i].name;
  char a[256], b[256];
  if (is->dtype == RLX_UNDEFINED) return rlx_fail(r->ctx, RLX_UNSUPPORTED, "scan output '%s' is no tensor", name);
  if (dtype_size(is->dtype) == 0 && is->count * rlx_dtype_bits(is->dtype) % 8)
    return rlx_fail(r->ctx, RLX_UNSUPPORTED, "scan output '%s' has %lld elements of %d bits: no whole bytes", name,
                    (long long)is->count, rlx_dtype_bits(is->dtype));
  if (r->iterations == 0) {
    s->item = *is;
    copy_dims(&s->item, s->dims);
    s->item_bytes = is->bytes;
    return RLX_OK;
  }
  bool same = s->item.rank == is->rank && s->item.dtype == is->dtype &&
              (is->rank == 0 || memcmp(s->item.dims, is->dims, (size_t)is->rank * sizeof *is->dims) == 0);
  if (same) return RLX_OK;
  return rlx_fail(r->ctx, RLX_INVALID, "scan output '%s' is %s%s in iteration %lld, was %s", name,
                  rlx_dtype_name(is->dtype), dims_text(is->rank, is->dims, a, sizeof a), (long long)r->iterations,
                  dims_text(s->item.rank, s->item.dims, b, sizeof b));
}

static rlx_status place_item(loop_run *r, int i, const rlx_operand *is, void **data) {
  loop_scan *s = &r->scans[i];
  int64_t bytes;
  RLX_TRY(check_item(r, i, is));
  if (__builtin_add_overflow(s->used, is->bytes, &bytes)) return no_memory(r);
  RLX_TRY(grow(r, &s->data, &s->room, s->used, bytes));
  *data = (char *)s->data + s->used;
  return RLX_OK;
}

static rlx_status place(void *user, int output, const rlx_operand *is, void **data) {
  loop_run *r = user;
  int i = output - r->conditional;
  if (i < 0) {
    if (is->dtype != RLX_BOOL || is->count != 1)
      return rlx_fail(r->ctx, RLX_INVALID, "the subgraph's condition is not one bool");
    *data = &r->go_on;
    return RLX_OK;
  }
  return i < r->carried_count ? place_carried(r, i, is, data) : place_item(r, i - r->carried_count, is, data);
}

/* ---- iterations --------------------------------------------------------------------------- */

/* Objects live through the cells of carried values; everything else of the iteration goes. */
static rlx_status keep_objects(loop_run *r) {
  rlx_status status = RLX_OK;
  for (int i = 0; i < r->carried_count; i++)
    if (operand_is_cell(&r->carried[i].now)) rlx_tensor_retain(cell_value(&r->carried[i].now));
  executor(r)->release(r->ctx, r->mark);
  for (int i = 0; i < r->carried_count; i++) {
    if (!operand_is_cell(&r->carried[i].now)) continue;
    if (status == RLX_OK)
      status = executor(r)->keep(r->ctx, cell_value(&r->carried[i].now));
    else
      rlx_tensor_destroy(cell_value(&r->carried[i].now));
  }
  return status;
}

rlx_status loop_iterate(loop_run *r) {
  if (rlx_cancelled(r->ctx)) return rlx_fail(r->ctx, RLX_CANCELLED, "the run was cancelled");
  for (int i = 0; i < r->carried_count; i++) r->inputs[r->first_input + i] = r->carried[i].now;
  subgraph_call call = {.index = r->subgraph,
                        .inputs = r->inputs,
                        .input_count = (int)r->body->inputs.count,
                        .outputs = r->outputs,
                        .output_count = (int)r->body->outputs.count,
                        .place = place,
                        .user = r};
  RLX_TRY(executor(r)->call(r->ctx, &call));
  for (int i = 0; i < r->carried_count; i++) {
    r->carried[i].at = r->carried[i].at == 0;
    r->carried[i].now = r->carried[i].next;
  }
  for (int i = 0; i < r->scan_count; i++) r->scans[i].used += r->scans[i].item_bytes;
  r->iterations++;
  return keep_objects(r);
}

/* ---- results ------------------------------------------------------------------------------ */

static bool wanted(const loop_run *r, int output) {
  return output < r->ctx->output_count && *rlx_value_name(rlx_node_output(r->ctx->node, output));
}

/* An optional whose node gives what it holds: see loop_merge. */
static rlx_status hand_object(loop_run *r, int output, rlx_tensor *value) {
  if (value->kind == RLX_KIND_OPTIONAL && rlx_node_output_type(r->ctx->node, output)->kind == value->element) {
    if (!value->count)
      return rlx_fail(r->ctx, RLX_INVALID, "output %d: the optional is empty and nothing replaced it", output);
    value = value->items[0];
  }
  return rlx_output_value(r->ctx, output, rlx_tensor_retain(value));
}

rlx_status loop_hand_carried(loop_run *r, int i, int output) {
  const rlx_operand *o = &r->carried[i].now;
  if (!wanted(r, output)) return RLX_OK;
  if (operand_is_cell(o)) return hand_object(r, output, cell_value(o));
  void *to = rlx_output_shape(r->ctx, output, o->rank, o->dims);
  if (!to) return RLX_KERNEL;
  if (o->bytes) memcpy(to, o->data, (size_t)o->bytes);
  return RLX_OK;
}

void loop_guess_item(loop_run *r, int i) {
  loop_scan *s = &r->scans[i];
  const rlx_type *t = &r->body->outputs.data[r->conditional + r->carried_count + i].value->type;
  s->item = (rlx_operand){.dims = s->dims, .dtype = t->dtype, .rank = t->rank > 0 ? t->rank : 0};
  for (int d = 0; d < s->item.rank; d++) s->dims[d] = t->dims[d] > 0 ? t->dims[d] : 0;
}

rlx_status loop_hand_scan(loop_run *r, int i, int output, int64_t axis, bool backwards) {
  loop_scan *s = &r->scans[i];
  int64_t dims[RLX_MAX_RANK], outer = 1, n = r->iterations;
  if (!wanted(r, output)) return RLX_OK;
  if (n == 0) loop_guess_item(r, i);
  int rank = s->item.rank + 1, at = axis_normalise(axis, rank);
  if (rank > RLX_MAX_RANK) return rlx_fail(r->ctx, RLX_UNSUPPORTED, "a scan output of rank %d", rank);
  if (at < 0) return rlx_fail(r->ctx, RLX_INVALID, "axis %lld outside rank %d of a scan output", (long long)axis, rank);
  for (int d = 0; d < rank; d++) dims[d] = d < at ? s->dims[d] : d == at ? n : s->dims[d - 1];
  for (int d = 0; d < at; d++) outer *= dims[d];
  char *to = rlx_output_shape(r->ctx, output, rank, dims);
  if (!to) return RLX_KERNEL;
  if (!s->used) return RLX_OK;
  if (at == 0 && !backwards) {
    memcpy(to, s->data, (size_t)s->used);
    return RLX_OK;
  }
  if (s->item_bytes % outer) return rlx_fail(r->ctx, RLX_UNSUPPORTED, "scan output %d: its rows are no whole bytes", i);
  int64_t inner = s->item_bytes / outer;
  for (int64_t k = 0; k < n; k++)
    for (int64_t o = 0; o < outer; o++)
      memcpy(to + (o * n + (backwards ? n - 1 - k : k)) * inner, (const char *)s->data + (k * outer + o) * inner,
             (size_t)inner);
  return RLX_OK;
}

/* ---- inference ---------------------------------------------------------------------------- */

rlx_status loop_merge(rlx_infer *ctx, const char *name, const rlx_type *first, const rlx_type *next, rlx_type *out) {
  char a[300], b[300];
  rlx_type held;
  if (first->kind == RLX_KIND_OPTIONAL && rlx_type_held(first, &held) && held.kind == RLX_KIND_SEQUENCE &&
      type_equal(&held, next)) { /* ONNX lets a sequence stand for an optional one */
    *out = *next;
    return RLX_OK;
  }
  bool known = first->dtype != RLX_UNDEFINED && next->dtype != RLX_UNDEFINED;
  if (known && (!type_same_kind(first, next) || first->dtype != next->dtype))
    return rlx_fail(ctx, RLX_INVALID, "'%s' starts as %s and becomes %s", name, type_text(first, a, sizeof a),
                    type_text(next, b, sizeof b));
  rlx_type merged = first->dtype != RLX_UNDEFINED ? *first : *next;
  if (first->rank != next->rank) merged.rank = RLX_UNKNOWN;
  for (int d = 0; d < merged.rank; d++)
    if (first->dims[d] != next->dims[d]) merged.dims[d] = RLX_UNKNOWN;
  *out = merged;
  return RLX_OK;
}

int loop_subgraph_index(const rlx_node *n, const rlx_graph *g) {
  int i = 0;
  while (node_subgraph(n, i) && node_subgraph(n, i) != g) i++;
  return i;
}
