/* scan.c — onnx.Scan: runs a subgraph along an axis of its inputs. */
#include <stddef.h>
#include <string.h>

#include "ir/dtype.h"
#include "ir/module.h"
#include "ir/shape.h"
#include "ops/_body_derivative.h"
#include "ops/_loop.h"

typedef struct scan_params {
  uint64_t given;
  rlx_graph *body;
  int64_t scanned; /* num_scan_inputs */
  rlx_ints input_axes, input_directions, output_axes, output_directions;
} scan_params;

static int64_t entry(rlx_ints list, int64_t i) { return i < list.count ? list.data[i] : 0; }

/* ---- inference ---------------------------------------------------------------------------- */

/* `skip`: inputs before the states. */
static rlx_status check_counts(rlx_infer *ctx, const scan_params *p, int skip) {
  int64_t ins = rlx_infer_input_count(ctx) - skip, states = ins - p->scanned;
  const rlx_graph *body = p->body;
  if (p->scanned < 1 || states < 0)
    return rlx_fail(ctx, RLX_INVALID, "num_scan_inputs is %lld of %lld inputs", (long long)p->scanned, (long long)ins);
  if (body->inputs.count != (size_t)ins)
    return rlx_fail(ctx, RLX_INVALID, "the body has %zu inputs, the node gives %lld", body->inputs.count,
                    (long long)ins);
  if (body->outputs.count < (size_t)states || (size_t)rlx_infer_output_count(ctx) > body->outputs.count)
    return rlx_fail(ctx, RLX_INVALID, "%d outputs and %lld states, but the body has %zu outputs",
                    rlx_infer_output_count(ctx), (long long)states, body->outputs.count);
  for (int i = skip; i < rlx_infer_input_count(ctx); i++)
    if (!rlx_infer_input(ctx, i)) return rlx_fail(ctx, RLX_INVALID, "input %d is left out", i);
  return RLX_OK;
}

/* A type without its dim `axis`. */
static rlx_status slice_type(rlx_infer *ctx, const rlx_type *t, int64_t axis, rlx_type *out, int64_t *extent) {
  type_unknown(out, t->dtype);
  if (t->kind != RLX_KIND_TENSOR) return rlx_fail(ctx, RLX_INVALID, "a scan input is no tensor");
  if (t->rank < 0) return RLX_OK;
  int at = axis_normalise(axis, t->rank);
  if (at < 0) return rlx_fail(ctx, RLX_INVALID, "scan axis %lld outside rank %d", (long long)axis, t->rank);
  int64_t n = t->dims[at];
  if (n >= 0 && *extent >= 0 && n != *extent)
    return rlx_fail(ctx, RLX_INVALID, "scan inputs of lengths %lld and %lld", (long long)*extent, (long long)n);
  if (n >= 0) *extent = n;
  out->rank = t->rank - 1;
  for (int d = 0, k = 0; d < t->rank; d++)
    if (d != at) out->dims[k++] = t->dims[d];
  return RLX_OK;
}

/* A type with a dim put in; false if the axis does not fit. */
static bool stacked(const rlx_type *item, int64_t axis, int64_t extent, rlx_type *out) {
  type_unknown(out, item->dtype);
  if (item->rank < 0) return true;
  int at = axis_normalise(axis, item->rank + 1);
  if (at < 0 || item->rank >= RLX_MAX_RANK) return false;
  out->rank = item->rank + 1;
  for (int d = 0, k = 0; d < out->rank; d++) out->dims[d] = d == at ? extent : item->dims[k++];
  return true;
}

static rlx_status infer_outputs(rlx_infer *ctx, const scan_params *p, int states, int64_t extent) {
  for (int i = 0; i < rlx_infer_output_count(ctx); i++) {
    const graph_output *o = &p->body->outputs.data[i];
    const rlx_type *t = &o->value->type;
    rlx_type *out = rlx_infer_output(ctx, i);
    if (i < states)
      RLX_TRY(loop_merge(ctx, o->name, rlx_infer_input(ctx, i), t, out));
    else if (t->kind != RLX_KIND_TENSOR || !stacked(t, entry(p->output_axes, i - states), extent, out))
      return rlx_fail(ctx, RLX_INVALID, "scan output '%s' cannot be stacked along axis %lld", o->name,
                      (long long)entry(p->output_axes, i - states));
  }
  return RLX_OK;
}

static rlx_status infer(rlx_infer *ctx) {
  const scan_params *p = rlx_infer_params(ctx);
  int64_t extent = RLX_UNKNOWN;
  RLX_TRY(check_counts(ctx, p, 0));
  int states = rlx_infer_input_count(ctx) - (int)p->scanned;
  for (int i = 0; i < rlx_infer_input_count(ctx); i++) {
    infer_feed f = {p->body, i, *rlx_infer_input(ctx, i), i < states ? i : -1};
    if (i >= states)
      RLX_TRY(slice_type(ctx, rlx_infer_input(ctx, i), entry(p->input_axes, i - states), &f.type, &extent));
    RLX_TRY(infer_feed_input(ctx, &f));
  }
  return infer_outputs(ctx, p, states, extent);
}

/* ---- running ------------------------------------------------------------------------------ */

/* A scan input: gives its t-th slice. */
typedef struct source {
  rlx_operand from;
  int axis;
  bool backwards;
  int64_t length;             /* slices there are */
  int64_t dims[RLX_MAX_RANK]; /* of a slice */
  int64_t outer, inner;       /* slice = outer pieces of inner bytes */
  void *copy;                 /* where a slice that is not in one piece is gathered */
} source;

static rlx_status open_source(loop_run *r, source *s, const rlx_operand *from, int64_t axis, bool backwards) {
  const executor_head *e = r->ctx->executor;
  *s = (source){.from = *from, .axis = axis_normalise(axis, from->rank), .backwards = backwards, .outer = 1};
  if (s->axis < 0) return rlx_fail(r->ctx, RLX_INVALID, "scan axis %lld outside rank %d", (long long)axis, from->rank);
  if (!dtype_size(from->dtype)) return rlx_fail(r->ctx, RLX_UNSUPPORTED, "slices of %s", rlx_dtype_name(from->dtype));
  s->inner = (int64_t)dtype_size(from->dtype);
  s->length = from->dims[s->axis];
  for (int d = 0, k = 0; d < from->rank; d++) {
    if (d < s->axis) s->outer *= from->dims[d];
    if (d > s->axis) s->inner *= from->dims[d];
    if (d != s->axis) s->dims[k++] = from->dims[d];
  }
  if (s->outer == 1) return RLX_OK;
  s->copy = e->take(r->ctx, s->outer * s->inner + 1);
  return s->copy ? RLX_OK : RLX_OUT_OF_MEMORY;
}

static rlx_operand slice(source *s, int64_t t) {
  int64_t extent = s->from.dims[s->axis], at = s->backwards ? s->length - 1 - t : t;
  const char *data = s->from.data;
  rlx_operand o = {.dims = s->dims,
                   .count = shape_count(s->from.rank - 1, s->dims),
                   .bytes = s->outer * s->inner,
                   .dtype = s->from.dtype,
                   .rank = s->from.rank - 1};
  if (s->copy)
    for (int64_t i = 0; i < s->outer && s->inner; i++)
      memcpy((char *)s->copy + i * s->inner, data + (i * extent + at) * s->inner, (size_t)s->inner);
  o.data = s->copy ? s->copy : (void *)(uintptr_t)(data + at * s->inner);
  return o;
}

static rlx_status iterate(loop_run *r, source *sources, int64_t length) {
  int scanned = (int)r->body->inputs.count - r->carried_count;
  for (int64_t t = 0; t < length; t++) {
    for (int i = 0; i < scanned; i++) r->inputs[r->carried_count + i] = slice(&sources[i], t);
    RLX_TRY(loop_iterate(r));
  }
  return RLX_OK;
}

static void close_sources(loop_run *r, source *sources, int64_t count) {
  const executor_head *e = r->ctx->executor;
  for (int64_t i = 0; sources && i < count; i++)
    if (sources[i].copy) e->give(r->ctx, sources[i].copy, sources[i].outer * sources[i].inner + 1);
  mem_free(sources);
}

static loop_run start(rlx_ctx *ctx, int skip) {
  const scan_params *p = ctx->params;
  return (loop_run){.ctx = ctx,
                    .body = p->body,
                    .subgraph = loop_subgraph_index(ctx->node, p->body),
                    .carried_count = ctx->input_count - skip - (int)p->scanned};
}

static rlx_status run(loop_run *r, const scan_params *p, source *sources) {
  int states = r->carried_count;
  RLX_TRY(loop_begin(r));
  for (int i = 0; i < states; i++) loop_set_carried(r, i, &r->ctx->inputs[i]);
  for (int i = 0; i < p->scanned; i++) {
    RLX_TRY(open_source(r, &sources[i], &r->ctx->inputs[states + i], entry(p->input_axes, i),
                        entry(p->input_directions, i) != 0));
    if (sources[i].length != sources[0].length)
      return rlx_fail(r->ctx, RLX_INVALID, "the scan inputs differ in length");
  }
  RLX_TRY(iterate(r, sources, sources[0].length));
  for (int i = 0; i < states; i++) RLX_TRY(loop_hand_carried(r, i, i));
  for (int i = 0; i < r->scan_count; i++)
    RLX_TRY(loop_hand_scan(r, i, states + i, entry(p->output_axes, i), entry(p->output_directions, i) != 0));
  return RLX_OK;
}

static rlx_status eval(rlx_ctx *ctx) {
  const scan_params *p = ctx->params;
  loop_run r = start(ctx, 0);
  source *sources = mem_array((size_t)p->scanned, sizeof *sources);
  rlx_status status = sources ? run(&r, p, sources) : rlx_fail(ctx, RLX_OUT_OF_MEMORY, "out of memory");
  if (ctx->executor) close_sources(&r, sources, p->scanned);
  loop_end(&r);
  return status;
}

/* ---- derivatives -------------------------------------------------------------------------- */

static body_loop as_body_loop(const rlx_node *n) {
  const scan_params *p = rlx_node_params(n);
  int states = rlx_node_input_count(n) - (int)p->scanned;
  return (body_loop){.node = n,
                     .body = p->body,
                     .states = states,
                     .scanned = (int)p->scanned,
                     .stacked = (int)p->body->outputs.count - states,
                     .input_axes = p->input_axes,
                     .input_directions = p->input_directions,
                     .output_axes = p->output_axes,
                     .output_directions = p->output_directions};
}

static rlx_status vjp(rlx_graph *g, const rlx_node *n, rlx_value *const *dy, rlx_value **dx) {
  body_loop l = as_body_loop(n);
  return body_loop_vjp(g, &l, dy, dx);
}

static rlx_status jvp(rlx_graph *g, const rlx_node *n, rlx_value *const *dx, rlx_value **dy) {
  body_loop l = as_body_loop(n);
  return body_loop_jvp(g, &l, dx, dy);
}

#define VALUES RLX_VARIADIC | RLX_HETEROGENEOUS
#define OFFSET(member) offsetof(scan_params, member)
static const rlx_port outputs[] = {{"final_state_and_scan_outputs", NULL, 0, VALUES, 1}, {0}};

static const rlx_op scan = {
    .struct_size = sizeof(rlx_op),
    .name = "onnx.Scan",
    .version = 9,
    .samples = (const char *const[]){"float[2], float[3,2] {num_scan_inputs = 1, body = b (float[2] a, float[2] x) => "
                                     "(float[2] a2, float[2] y) { a2 = Add (a, x) y = Neg (a2) }} => 2",
                                     NULL},
    .doc = "Runs body on the slices of the scan inputs along an axis, one after the other. States are handed from one "
           "to the next; "
           "what else body gives is stacked.",
    .inputs = (const rlx_port[]){{"initial_state_and_scan_inputs", NULL, 0, VALUES, 1}, {0}},
    .outputs = outputs,
    .attrs =
        (const rlx_attr_def[]){
            {.name = "body", .kind = RLX_ATTR_GRAPH, .flags = RLX_REQUIRED, .offset = OFFSET(body)},
            {.name = "num_scan_inputs", .kind = RLX_ATTR_INT, .flags = RLX_REQUIRED, .offset = OFFSET(scanned)},
            {.name = "scan_input_axes", .kind = RLX_ATTR_INTS, .offset = OFFSET(input_axes)},
            {.name = "scan_input_directions", .kind = RLX_ATTR_INTS, .offset = OFFSET(input_directions)},
            {.name = "scan_output_axes", .kind = RLX_ATTR_INTS, .offset = OFFSET(output_axes)},
            {.name = "scan_output_directions", .kind = RLX_ATTR_INTS, .offset = OFFSET(output_directions)},
            {0}},
    .params_size = sizeof(scan_params),
    .traits = RLX_CONTROL_FLOW,
    .infer = infer,
    .vjp = vjp,
    .jvp = jvp,
    .eval = eval,
};

/* ---- version 8: a batch, each with its length --------------------------------------------- */

static rlx_status infer_batch(rlx_infer *ctx) {
  const scan_params *p = rlx_infer_params(ctx);
  RLX_TRY(check_counts(ctx, p, 1));
  int ins = rlx_infer_input_count(ctx) - 1, states = ins - (int)p->scanned;
  int64_t batch = RLX_UNKNOWN, length = RLX_UNKNOWN;
  for (int i = 0; i < ins; i++) {
    infer_feed f = {.graph = p->body, .input = i, .output = i < states ? i : -1};
    RLX_TRY(slice_type(ctx, rlx_infer_input(ctx, 1 + i), 0, &f.type, &batch));
    rlx_type one = f.type;
    if (i >= states) RLX_TRY(slice_type(ctx, &one, 0, &f.type, &length));
    RLX_TRY(infer_feed_input(ctx, &f));
  }
  for (int i = 0; i < rlx_infer_output_count(ctx); i++) {
    rlx_type item = p->body->outputs.data[i].value->type, *out = rlx_infer_output(ctx, i);
    rlx_type row = item;
    bool fits =
        item.kind == RLX_KIND_TENSOR && (i < states || stacked(&item, 0, length, &row)) && stacked(&row, 0, batch, out);
    if (!fits) return rlx_fail(ctx, RLX_INVALID, "output %d cannot be stacked", i);
    for (int d = 1; i < states && d < out->rank; d++) out->dims[d] = RLX_UNKNOWN; /* an entry may have no slices */
  }
  return RLX_OK;
}

/* Entry b of a batch. */
static rlx_operand batch_entry(const rlx_operand *o, int64_t b) {
  int64_t bytes = o->dims[0] ? o->bytes / o->dims[0] : 0;
  return (rlx_operand){.data = (char *)o->data + b * bytes,
                       .dims = o->dims + 1,
                       .count = shape_count(o->rank - 1, o->dims + 1),
                       .bytes = bytes,
                       .dtype = o->dtype,
                       .rank = o->rank - 1};
}

typedef struct batch {
  rlx_ctx *ctx;
  const scan_params *params;
  int64_t size, length;
  char **to; /* per output */
} batch;

/* Row b of an output: `o`, of which `used` bytes are there, the rest zero. */
static rlx_status put_row(batch *s, int output, int64_t b, const rlx_operand *o, int64_t bytes, int64_t used) {
  int64_t dims[RLX_MAX_RANK] = {s->size};
  if (output >= s->ctx->output_count || !*rlx_value_name(rlx_node_output(s->ctx->node, output))) return RLX_OK;
  if (o->rank >= RLX_MAX_RANK) return rlx_fail(s->ctx, RLX_UNSUPPORTED, "an output of rank %d", o->rank + 1);
  if (!dtype_size(s->ctx->outputs[output].dtype))
    return rlx_fail(s->ctx, RLX_UNSUPPORTED, "output %d is of no whole bytes", output);
  if (o->rank) memcpy(dims + 1, o->dims, (size_t)o->rank * sizeof *dims);
  if (b == 0) s->to[output] = rlx_output_shape(s->ctx, output, o->rank + 1, dims);
  const rlx_operand *out = &s->ctx->outputs[output];
  if (!s->to[output]) return RLX_KERNEL;
  if (out->rank != o->rank + 1 || memcmp(out->dims, dims, (size_t)out->rank * sizeof *dims) != 0)
    return rlx_fail(s->ctx, RLX_INVALID, "output %d has other dims in entry %lld of the batch", output, (long long)b);
  if (used) memcpy(s->to[output] + b * bytes, o->data, (size_t)used);
  if (bytes > used) memset(s->to[output] + b * bytes + used, 0, (size_t)(bytes - used));
  return RLX_OK;
}

static rlx_status put_rows(batch *s, loop_run *r, int64_t b) {
  for (int i = 0; i < r->carried_count; i++) {
    const rlx_operand *o = &r->carried[i].now;
    RLX_TRY(put_row(s, i, b, o, o->bytes, o->bytes));
  }
  for (int i = 0; i < r->scan_count; i++) {
    loop_scan *scan_out = &r->scans[i];
    int64_t dims[RLX_MAX_RANK + 1] = {s->length};
    if (r->iterations == 0) loop_guess_item(r, i);
    memcpy(dims + 1, scan_out->dims, (size_t)scan_out->item.rank * sizeof *dims);
    rlx_operand o = {.data = scan_out->data, .dims = dims, .rank = scan_out->item.rank + 1};
    int64_t bytes = rlx_dtype_bytes(scan_out->item.dtype, shape_count(o.rank, dims));
    RLX_TRY(put_row(s, r->carried_count + i, b, &o, bytes, scan_out->used));
  }
  return RLX_OK;
}

static rlx_status run_entry(batch *s, loop_run *r, source *sources, int64_t b) {
  rlx_ctx *ctx = s->ctx;
  const rlx_operand *lengths = ctx->inputs[0].data ? &ctx->inputs[0] : NULL;
  int64_t length = lengths ? ((const int64_t *)lengths->data)[b] : s->length;
  if (length < 0 || length > s->length)
    return rlx_fail(ctx, RLX_INVALID, "entry %lld of the batch has length %lld of %lld", (long long)b,
                    (long long)length, (long long)s->length);
  RLX_TRY(loop_begin(r));
  for (int i = 0; i < r->carried_count; i++) {
    rlx_operand o = batch_entry(&ctx->inputs[1 + i], b);
    loop_set_carried(r, i, &o);
  }
  for (int i = 0; i < s->params->scanned; i++) {
    rlx_operand o = batch_entry(&ctx->inputs[1 + r->carried_count + i], b);
    RLX_TRY(open_source(r, &sources[i], &o, 0, entry(s->params->input_directions, i) != 0));
    sources[i].length = length;
  }
  RLX_TRY(iterate(r, sources, length));
  return put_rows(s, r, b);
}

static rlx_status check_batch(batch *s) {
  const rlx_operand *in = s->ctx->inputs;
  int first_scanned = s->ctx->input_count - (int)s->params->scanned;
  for (int i = 1; i < s->ctx->input_count; i++) {
    int least = i < first_scanned ? 1 : 2;
    if (in[i].rank < least || in[i].dtype == RLX_UNDEFINED)
      return rlx_fail(s->ctx, RLX_INVALID, "input %d has no batch or no length", i);
    if (!dtype_size(in[i].dtype))
      return rlx_fail(s->ctx, RLX_UNSUPPORTED, "a batch of %s", rlx_dtype_name(in[i].dtype));
    if (in[i].dims[0] != in[1].dims[0] || (least == 2 && in[i].dims[1] != in[first_scanned].dims[1]))
      return rlx_fail(s->ctx, RLX_INVALID, "input %d differs in batch or length", i);
  }
  s->size = in[1].dims[0];
  s->length = in[first_scanned].dims[1];
  if (in[0].data && (in[0].dtype != RLX_INT64 || in[0].count != s->size))
    return rlx_fail(s->ctx, RLX_INVALID, "%lld lengths for a batch of %lld", (long long)in[0].count,
                    (long long)s->size);
  return s->size ? RLX_OK : rlx_fail(s->ctx, RLX_UNSUPPORTED, "a batch of nothing");
}

static rlx_status eval_batch(rlx_ctx *ctx) {
  batch s = {.ctx = ctx, .params = ctx->params, .to = mem_array((size_t)ctx->output_count, sizeof *s.to)};
  rlx_status status = s.to ? check_batch(&s) : rlx_fail(ctx, RLX_OUT_OF_MEMORY, "out of memory");
  for (int64_t b = 0; status == RLX_OK && b < s.size; b++) {
    loop_run r = start(ctx, 1);
    source *sources = mem_array((size_t)s.params->scanned, sizeof *sources);
    status = sources ? run_entry(&s, &r, sources, b) : rlx_fail(ctx, RLX_OUT_OF_MEMORY, "out of memory");
    if (ctx->executor) close_sources(&r, sources, s.params->scanned);
    loop_end(&r);
  }
  mem_free(s.to);
  return status;
}

static const rlx_op scan_8 = {
    .struct_size = sizeof(rlx_op),
    .name = "onnx.Scan",
    .version = 8,
    .samples = (const char *const[]){", float[1,2], float[1,3,2] {num_scan_inputs = 1, body = b (float[2] a, float[2] "
                                     "x) => (float[2] a2, float[2] y) { a2 = Add (a, x) y = Neg (a2) }} => 2",
                                     NULL},
    .doc = "Scan over axis 1 for every entry of a batch, along axis 0, each with its length.",
    .inputs = (const rlx_port[]){{"sequence_lens", NULL, RLX_SET(RLX_INT64), RLX_OPTIONAL, 0},
                                 {"initial_state_and_scan_inputs", NULL, 0, VALUES, 1},
                                 {0}},
    .outputs = outputs,
    .attrs =
        (const rlx_attr_def[]){
            {.name = "body", .kind = RLX_ATTR_GRAPH, .flags = RLX_REQUIRED, .offset = OFFSET(body)},
            {.name = "num_scan_inputs", .kind = RLX_ATTR_INT, .flags = RLX_REQUIRED, .offset = OFFSET(scanned)},
            {.name = "directions", .kind = RLX_ATTR_INTS, .offset = OFFSET(input_directions)},
            {0}},
    .params_size = sizeof(scan_params),
    .traits = RLX_CONTROL_FLOW,
    .no_derivative = "a batch of sequences of different lengths; Scan of version 9 has one",
    .infer = infer_batch,
    .eval = eval_batch,
};

const rlx_module ops_scan = {.ops = (const rlx_op *const[]){&scan, &scan_8, NULL}};
