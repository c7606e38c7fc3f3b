/* fused.c — rlx.fused on the CPU: the program in tiles, by the processor's best loops. */
#include "backend/cpu/kernels/_elementwise_tables.h"
#include "backend/cpu/kernels/_layouts.h"
#include "base/memory.h"
#include "base/status.h"
#include "ir/module.h"
#include "ops/_fused.h"

static const char *why_not(const rlx_node *n) {
  const fused_params *params = rlx_node_params(n);
  fused_program p = {.inputs = rlx_node_input_count(n)};
  for (int i = 0; i < p.inputs; i++) p.input_types[i] = rlx_node_input_type(n, i)->dtype;
  const char *wrong = fused_parse(params->program, &p);
  const ew_table *table = ew_table_best();
  for (int i = 0; !wrong && i < p.steps; i++) {
    const fused_step *s = &p.step[i];
    if (s->row != FUSED_CAST && (!table->types[s->type] || !table->types[s->type][s->row])) {
      wrong = rlx_reason("no loop for %s of %s", ew_rows[s->row].name, rlx_dtype_name(s->type));
    }
  }
  return wrong;
}

static rlx_status prepare(rlx_bound *b, void **state) {
  const fused_params *params = rlx_bound_params(b);
  rlx_type storage[FUSED_MAX_INPUTS + 1];
  const rlx_type *type = elementwise_type(b, -1, &storage[FUSED_MAX_INPUTS]);
  fused_program p = {.inputs = rlx_node_input_count(rlx_bound_node(b))};
  rlx_operand in[FUSED_MAX_INPUTS], out = {.dims = type->dims, .rank = type->rank, .dtype = type->dtype};
  for (int i = 0; i < p.inputs; i++) {
    const rlx_type *t = elementwise_type(b, i, &storage[i]);
    in[i] = (rlx_operand){.dims = t->dims, .rank = t->rank, .dtype = t->dtype};
    p.input_types[i] = t->dtype;
  }
  const char *wrong = fused_parse(params->program, &p);
  if (wrong) return rlx_fail(b, RLX_INVALID, "program: %s", wrong);
  fused_run *run;
  RLX_TRY(fused_prepare(&p, ew_table_best(), in, &out, &run));
  *state = run;
  return RLX_OK;
}

static rlx_status run(rlx_ctx *ctx) {
  fused_execute(ctx, ctx->state);
  return RLX_OK;
}

static const rlx_pair in_place[] = {{0, 0}, {0, 1}, {0, 2},  {0, 3},  {0, 4},  {0, 5},  {0, 6},  {0, 7},
                                    {0, 8}, {0, 9}, {0, 10}, {0, 11}, {0, 12}, {0, 13}, {0, 14}, {0, 15}};

static const rlx_cpu_kernel fused = {
    .struct_size = sizeof(rlx_cpu_kernel),
    .head = {.op = "rlx.fused",
             .name = "vector",
             .in_place = in_place,
             .in_place_count = FUSED_MAX_INPUTS,
             .why_not = why_not,
             .layouts = elementwise_layouts,
             .prepare = prepare,
             .release = mem_free},
    .run = run,
};

static const rlx_cpu_kernel *const kernels[] = {&fused, NULL};
const rlx_module cpu_fused = {.kernels = kernels};
