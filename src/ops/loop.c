/* loop.c — onnx.Loop: runs a subgraph again and again. */
#include <stddef.h>
#include <string.h>

#include "ir/module.h"
#include "ops/_body_derivative.h"
#include "ops/_loop.h"

typedef struct loop_params {
  uint64_t given;
  rlx_graph *body;
} loop_params;

enum { INPUT_TRIPS = 0, INPUT_CONDITION = 1, FIXED_INPUTS = 2 };

static int carried_count(int inputs) { return inputs > FIXED_INPUTS ? inputs - FIXED_INPUTS : 0; }

/* ---- inference ---------------------------------------------------------------------------- */

static rlx_status check_counts(rlx_infer *ctx, const rlx_graph *body) {
  size_t carried = (size_t)carried_count(rlx_infer_input_count(ctx));
  if (body->inputs.count != carried + 2)
    return rlx_fail(ctx, RLX_INVALID, "%zu carried values, but the body has %zu inputs instead of %zu", carried,
                    body->inputs.count, carried + 2);
  if (body->outputs.count < carried + 1)
    return rlx_fail(ctx, RLX_INVALID, "%zu carried values, but the body has only %zu outputs", carried,
                    body->outputs.count);
  if ((size_t)rlx_infer_output_count(ctx) > body->outputs.count - 1)
    return rlx_fail(ctx, RLX_INVALID, "%d outputs, but the body has %zu", rlx_infer_output_count(ctx),
                    body->outputs.count);
  return RLX_OK;
}

static rlx_status feed(rlx_infer *ctx, rlx_graph *body) {
  infer_feed number = {body, 0, {.dtype = RLX_INT64}, -1}, condition = {body, 1, {.dtype = RLX_BOOL}, -1};
  RLX_TRY(infer_feed_input(ctx, &number));
  RLX_TRY(infer_feed_input(ctx, &condition));
  for (int i = 0; i < carried_count(rlx_infer_input_count(ctx)); i++) {
    const rlx_type *t = rlx_infer_input(ctx, FIXED_INPUTS + i);
    if (!t) return rlx_fail(ctx, RLX_INVALID, "carried value %d is left out", i);
    infer_feed f = {body, 2 + i, *t, 1 + i};
    RLX_TRY(infer_feed_input(ctx, &f));
  }
  return RLX_OK;
}

static bool is_true(const rlx_tensor *t) {
  return t && t->dtype == RLX_BOOL && t->count == 1 && *(const uint8_t *)t->data;
}

/* The body never ends the loop: its condition is what it was given, or constant. */
static bool never_ends(const rlx_graph *body) {
  const rlx_value *v = body->outputs.data[0].value;
  while (v->producer && v->graph == body && strcmp(v->producer->op_name, "onnx.Identity") == 0 &&
         v->producer->inputs[0])
    v = v->producer->inputs[0];
  return v == body->inputs.data[1] || is_true(v->constant);
}

/* The number of iterations if it is known beforehand, else RLX_UNKNOWN. */
static int64_t trips(rlx_infer *ctx, const rlx_graph *body) {
  const rlx_node *n = rlx_infer_node(ctx);
  if (!never_ends(body) || !rlx_infer_input(ctx, INPUT_TRIPS)) return RLX_UNKNOWN;
  if (rlx_infer_input(ctx, INPUT_CONDITION) && !is_true(rlx_node_constant(n, INPUT_CONDITION))) return RLX_UNKNOWN;
  const rlx_tensor *t = rlx_infer_value(ctx, INPUT_TRIPS);
  if (!t || t->dtype != RLX_INT64 || t->count != 1) return RLX_UNKNOWN;
  int64_t count = *(const int64_t *)t->data;
  return count < 0 ? 0 : count;
}

static rlx_status infer_scan(rlx_infer *ctx, const rlx_graph *body, int output, int64_t count) {
  const graph_output *o = &body->outputs.data[output + 1];
  const rlx_type *item = &o->value->type;
  rlx_type *t = rlx_infer_output(ctx, output);
  if (item->kind != RLX_KIND_TENSOR) return rlx_fail(ctx, RLX_UNSUPPORTED, "scan output '%s' is no tensor", o->name);
  t->dtype = item->dtype;
  if (item->rank < 0) return RLX_OK;
  if (item->rank >= RLX_MAX_RANK)
    return rlx_fail(ctx, RLX_UNSUPPORTED, "scan output '%s' of rank %d", o->name, item->rank + 1);
  int64_t dims[RLX_MAX_RANK] = {count};
  memcpy(dims + 1, item->dims, (size_t)item->rank * sizeof *dims);
  rlx_infer_set(ctx, output, item->rank + 1, dims);
  return RLX_OK;
}

static rlx_status infer(rlx_infer *ctx) {
  const loop_params *p = rlx_infer_params(ctx);
  int carried = carried_count(rlx_infer_input_count(ctx)), outputs = rlx_infer_output_count(ctx);
  RLX_TRY(check_counts(ctx, p->body));
  RLX_TRY(feed(ctx, p->body));
  for (int i = 0; i < carried && i < outputs; i++) {
    const graph_output *o = &p->body->outputs.data[1 + i];
    RLX_TRY(
        loop_merge(ctx, o->name, rlx_infer_input(ctx, FIXED_INPUTS + i), &o->value->type, rlx_infer_output(ctx, i)));
  }
  int64_t count = outputs > carried ? trips(ctx, p->body) : RLX_UNKNOWN;
  for (int i = carried; i < outputs; i++) RLX_TRY(infer_scan(ctx, p->body, i, count));
  return RLX_OK;
}

/* ---- running ------------------------------------------------------------------------------ */

static const rlx_operand *given(const rlx_ctx *ctx, int i) {
  return i < ctx->input_count && ctx->inputs[i].data ? &ctx->inputs[i] : NULL;
}

static rlx_status read_start(rlx_ctx *ctx, int64_t *count, uint8_t *go_on) {
  const rlx_operand *m = given(ctx, INPUT_TRIPS), *c = given(ctx, INPUT_CONDITION);
  if (m && m->count != 1) return rlx_fail(ctx, RLX_INVALID, "the trip count has %lld elements", (long long)m->count);
  if (c && c->count != 1) return rlx_fail(ctx, RLX_INVALID, "the condition has %lld elements", (long long)c->count);
  *count = m ? *(const int64_t *)m->data : INT64_MAX;
  *go_on = !c || *(const uint8_t *)c->data;
  return RLX_OK;
}

/* A scalar input of the body; some models declare it with one dim. */
static rlx_operand scalar(const rlx_graph *body, int input, void *data, rlx_dtype dtype) {
  static const int64_t one = 1;
  int64_t bytes = rlx_dtype_bytes(dtype, 1);
  return (rlx_operand){.data = data,
                       .dims = &one,
                       .count = 1,
                       .bytes = bytes,
                       .dtype = dtype,
                       .rank = body->inputs.data[input]->type.rank == 1};
}

static rlx_status run(loop_run *r) {
  int64_t count = 0, number = 0;
  uint8_t condition = 0;
  RLX_TRY(read_start(r->ctx, &count, &condition));
  RLX_TRY(loop_begin(r));
  for (int i = 0; i < r->carried_count; i++) loop_set_carried(r, i, &r->ctx->inputs[FIXED_INPUTS + i]);
  r->go_on = condition;
  r->inputs[0] = scalar(r->body, 0, &number, RLX_INT64);
  r->inputs[1] = scalar(r->body, 1, &condition, RLX_BOOL);
  for (; number < count && r->go_on; number++) {
    condition = r->go_on;
    RLX_TRY(loop_iterate(r));
  }
  for (int i = 0; i < r->carried_count; i++) RLX_TRY(loop_hand_carried(r, i, i));
  for (int i = 0; i < r->scan_count; i++) RLX_TRY(loop_hand_scan(r, i, r->carried_count + i, 0, false));
  return RLX_OK;
}

static rlx_status eval(rlx_ctx *ctx) {
  const loop_params *p = ctx->params;
  loop_run r = {.ctx = ctx,
                .body = p->body,
                .subgraph = loop_subgraph_index(ctx->node, p->body),
                .conditional = true,
                .first_input = 2,
                .carried_count = carried_count(ctx->input_count)};
  rlx_status status = run(&r);
  loop_end(&r);
  return status;
}

/* ---- derivatives -------------------------------------------------------------------------- */

static body_loop as_body_loop(const rlx_node *n) {
  const loop_params *p = rlx_node_params(n);
  int states = carried_count(rlx_node_input_count(n));
  return (body_loop){.node = n,
                     .body = p->body,
                     .first_input = 2,
                     .first_output = 1,
                     .first_argument = FIXED_INPUTS,
                     .states = states,
                     .stacked = (int)p->body->outputs.count - 1 - states};
}

static rlx_status vjp(rlx_graph *g, const rlx_node *n, rlx_value *const *dy, rlx_value **dx) {
  body_loop l = as_body_loop(n);
  return body_loop_vjp(g, &l, dy, dx);
}

static rlx_status jvp(rlx_graph *g, const rlx_node *n, rlx_value *const *dx, rlx_value **dy) {
  body_loop l = as_body_loop(n);
  return body_loop_jvp(g, &l, dx, dy);
}

static const rlx_port inputs[] = {{"M", NULL, RLX_SET(RLX_INT64), RLX_OPTIONAL | RLX_HOST, 0},
                                  {"cond", NULL, RLX_SET(RLX_BOOL), RLX_OPTIONAL | RLX_HOST, 0},
                                  {"v_initial", NULL, 0, RLX_VARIADIC | RLX_HETEROGENEOUS | RLX_ANY_KIND, 0},
                                  {0}};
static const rlx_port outputs[] = {
    {"v_final_and_scan_outputs", NULL, 0, RLX_VARIADIC | RLX_HETEROGENEOUS | RLX_ANY_KIND, 0}, {0}};
static const rlx_attr_def attrs[] = {
    {.name = "body", .kind = RLX_ATTR_GRAPH, .flags = RLX_REQUIRED, .offset = offsetof(loop_params, body)}, {0}};

static const rlx_op op_loop = {
    .struct_size = sizeof(rlx_op),
    .name = "onnx.Loop",
    .version = 1,
    .samples =
        (const char *const[]){
            "int64[] = {3}, bool[] = {1}, float[2] {body = b (int64[] i, bool[] c, float[2] x) => (bool[] c2, float[2] "
            "x2, float[2] s) { c2 = Identity (c) x2 = Add (x, x) s = Neg (x) }} => 2",
            NULL},
    .doc = "Runs body until it has run M times or its condition is false. Values are carried from one iteration to the "
           "next; "
           "what else body gives is stacked.",
    .inputs = inputs,
    .outputs = outputs,
    .attrs = attrs,
    .params_size = sizeof(loop_params),
    .traits = RLX_CONTROL_FLOW,
    .infer = infer,
    .vjp = vjp,
    .jvp = jvp,
    .eval = eval,
};

const rlx_module ops_loop = {.ops = (const rlx_op *const[]){&op_loop, NULL}};
