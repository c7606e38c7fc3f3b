/* elementwise.c — CPU kernels of the scalar ops: everything is decided in prepare, a run is one call of a loop. */
#include <string.h>

#include "backend/cpu/kernels/_elementwise_tables.h"
#include "backend/cpu/kernels/_layouts.h"
#include "base/memory.h"
#include "base/status.h"
#include "ir/dtype.h"
#include "ir/module.h"

/* Program state. Variadic rows have a call per input but the first, and a division for Mean. */
typedef struct state {
  int64_t count;      /* elements of the output */
  int64_t grain;      /* up to here the caller's thread does it alone */
  bool divides;       /* integer divisors must be checked */
  uint64_t bounds[2]; /* of a Clip that leaves them out */
  double inputs;      /* their number, as the output's dtype: Mean's divisor */
  int calls;
  ew_call call[];
} state;

/* ---- selection ---- */

static const char *why_not_row(const rlx_node *n, ew_row row) {
  rlx_dtype in[3] = {RLX_UNDEFINED, RLX_UNDEFINED, RLX_UNDEFINED};
  int arity = ew_rows[row].arity == EW_ARITY_N ? 1 : ew_rows[row].arity;
  for (int i = 0; i < arity; i++) {
    const rlx_type *type = rlx_node_input_type(n, i);
    in[i] = type ? type->dtype : in[0];
  }
  rlx_dtype compute = ew_compute_type(row, in, arity);
  const ew_table *table = ew_table_best();
  if (compute == RLX_UNDEFINED || table->types[compute] == NULL || table->types[compute][row] == NULL) {
    return rlx_reason("no loop for %s", rlx_dtype_name(in[0]));
  }
  return NULL;
}

/* ---- preparation ---- */

static rlx_operand operand_of(const rlx_type *t) {
  return (rlx_operand){.dims = t->dims, .rank = t->rank, .dtype = t->dtype};
}

static rlx_status prepare_fold(rlx_bound *b, ew_row row, const double ab[2], const ew_table *table, state *s) {
  rlx_type storage[3];
  rlx_operand out = operand_of(elementwise_type(b, -1, &storage[0])), in[2] = {{0}};
  in[0] = operand_of(elementwise_type(b, 0, &storage[1]));
  int inputs = rlx_node_input_count(rlx_bound_node(b));
  for (int i = 1; i < inputs; i++) {
    in[1] = operand_of(elementwise_type(b, i, &storage[2]));
    ew_call_plan(&s->call[s->calls++], table, row, ab, in, 2, &out);
    in[0] = out;
  }
  if (ew_rows[row].kind == EW_MEAN) {
    in[0] = out;
    in[1] = (rlx_operand){.dtype = out.dtype};
    dtype_store(out.dtype, &s->inputs, 0, inputs);
    ew_call_plan(&s->call[s->calls++], table, EW_Div, ab, in, 2, &out);
  }
  return RLX_OK;
}

static rlx_status prepare_row(rlx_bound *b, void **out_state, ew_row row) {
  const ew_info *info = &ew_rows[row];
  rlx_type storage[4];
  const rlx_type *type = elementwise_type(b, -1, &storage[3]);
  const ew_table *table = ew_table_best();
  double ab[2];
  RLX_TRY(ew_numbers(b, row, rlx_bound_params(b), ab));
  int inputs = rlx_node_input_count(rlx_bound_node(b));
  size_t bytes = sizeof(state) + sizeof(ew_call) * (size_t)(info->arity == EW_ARITY_N ? inputs : 1);
  state *s = mem_zalloc(bytes);
  if (s == NULL) return status_no_memory(bytes);
  *out_state = s;
  s->grain = ew_grain(row);
  s->count = 1;
  for (int d = 0; d < type->rank; d++) s->count *= type->dims[d];
  if (info->arity == EW_ARITY_N) return prepare_fold(b, row, ab, table, s);
  rlx_operand in[3], out = operand_of(type);
  for (int i = 0; i < info->arity; i++) {
    const rlx_type *given = i < inputs ? elementwise_type(b, i, &storage[i]) : NULL;
    if (given) {
      in[i] = operand_of(given);
    } else { /* a bound that Clip leaves out */
      in[i] = (rlx_operand){.dtype = in[0].dtype};
      ew_extreme(in[0].dtype, i - 1, &s->bounds[i - 1]);
    }
  }
  s->divides = info->kind == EW_DIVIDE && dtype_is_integer(in[0].dtype);
  s->calls = 1;
  ew_call_plan(&s->call[0], table, row, ab, in, info->arity, &out);
  return RLX_OK;
}

/* ---- runs ---- */

static void run_call(rlx_ctx *ctx, const state *s, const ew_call *c, const void *x, const void *y, const void *z) {
  void *out = ctx->outputs[0].data;
  if (c->flat && s->count <= s->grain) {
    c->loop(x, y, z, out, s->count, c->plan.still, c->ab);
  } else {
    ew_call_run(ctx, c, (const void *const[]){x, y, z}, out);
  }
}

static rlx_status run_1(rlx_ctx *ctx) {
  const state *s = ctx->state;
  run_call(ctx, s, s->call, ctx->inputs[0].data, NULL, NULL);
  return RLX_OK;
}

static rlx_status run_2(rlx_ctx *ctx) {
  const state *s = ctx->state;
  if (s->divides) RLX_TRY(ew_check_divisor(ctx, s->call->row, &ctx->inputs[1]));
  run_call(ctx, s, s->call, ctx->inputs[0].data, ctx->inputs[1].data, NULL);
  return RLX_OK;
}

static rlx_status run_3(rlx_ctx *ctx) {
  const state *s = ctx->state;
  const void *in[3] = {ctx->inputs[0].data, &s->bounds[0], &s->bounds[1]};
  for (int i = 1; i < 3; i++) {
    if (i < ctx->input_count && (ctx->inputs[i].data != NULL || s->call->row != EW_Clip)) in[i] = ctx->inputs[i].data;
  }
  run_call(ctx, s, s->call, in[0], in[1], in[2]);
  return RLX_OK;
}

static rlx_status run_N(rlx_ctx *ctx) {
  const state *s = ctx->state;
  rlx_operand *out = &ctx->outputs[0];
  if (ctx->input_count == 1) {
    if (out->data != ctx->inputs[0].data) memmove(out->data, ctx->inputs[0].data, (size_t)out->bytes);
    return RLX_OK;
  }
  const void *x = ctx->inputs[0].data;
  for (int i = 1; i < ctx->input_count; i++) {
    run_call(ctx, s, &s->call[i - 1], x, ctx->inputs[i].data, NULL);
    x = out->data;
  }
  if (s->calls == ctx->input_count) run_call(ctx, s, &s->call[s->calls - 1], x, &s->inputs, NULL);
  return RLX_OK;
}

/* ---- the records ---- */

static const rlx_pair pairs_1[] = {{0, 0}};
static const rlx_pair pairs_2[] = {{0, 0}, {0, 1}};
static const rlx_pair pairs_3[] = {{0, 0}, {0, 1}, {0, 2}};
#define pairs_N pairs_2

#define X(row, version, arity, ports, types, kind, cost, attributes, expression, dx, dy, dz)                           \
  static const char *why_not_##row(const rlx_node *n) { return why_not_row(n, EW_##row); }                             \
  static rlx_status prepare_##row(rlx_bound *b, void **s) { return prepare_row(b, s, EW_##row); }                      \
  static const rlx_cpu_kernel kernel_##row = {                                                                         \
      .struct_size = sizeof(rlx_cpu_kernel),                                                                           \
      .head = {.op = "onnx." #row,                                                                                     \
               .version_min = version,                                                                                 \
               .version_max = INT32_MAX,                                                                               \
               .name = "vector",                                                                                       \
               .in_place = pairs_##arity,                                                                              \
               .in_place_count = sizeof pairs_##arity / sizeof *pairs_##arity,                                         \
               .why_not = why_not_##row,                                                                               \
               .layouts = elementwise_layouts,                                                                         \
               .prepare = prepare_##row,                                                                               \
               .release = mem_free},                                                                                   \
      .run = run_##arity,                                                                                              \
  };
#include "ops/elementwise.def"
#undef X

static const rlx_cpu_kernel *const kernels[] = {
#define X(row, ...) &kernel_##row,
#include "ops/elementwise.def"
#undef X
    NULL,
};
const rlx_module cpu_elementwise = {.kernels = kernels};
