/* reduce.c — reductions of floats on GPUs: a workgroup an output (or several, where outputs are few), or a thread an
 * output where neighbours are outputs. */
#include <string.h>

#include "backend/gpu/kernels/_launch.h"
#include "base/memory.h"
#include "ops/reduce.h"

enum { MAX_RANK = 8, CHUNK = 16384, MOST_PARTS = 256 };

/* ---- text ---- */

/* What a mode does with an element v, two accumulators, and the total; m is the greatest element where it is asked for.
 */
typedef struct mode_text {
  const char *op, *first, *take, *combine, *finish;
  bool greatest;
} mode_text;
static const mode_text modes[] = {
    {"onnx.ReduceSum", "0.0f", "v", "a + b", "a", false},
    {"onnx.ReduceMean", "0.0f", "v", "a + b", "a / f32(count)", false},
    {"onnx.ReduceMax", "-INF", "v", "MAX(a, b)", "a", false},
    {"onnx.ReduceMin", "INF", "v", "MIN(a, b)", "a", false},
    {"onnx.ReduceProd", "1.0f", "v", "a * b", "a", false},
    {"onnx.ReduceL1", "0.0f", "ABS(v)", "a + b", "a", false},
    {"onnx.ReduceL2", "0.0f", "v * v", "a + b", "SQRT(a)", false},
    {"onnx.ReduceSumSquare", "0.0f", "v * v", "a + b", "a", false},
    {"onnx.ReduceLogSum", "0.0f", "v", "a + b", "LOG(a)", false},
    {"onnx.ReduceLogSumExp", "0.0f", "EXP(v - m)", "a + b", "LOG(a) + m", true},
};

static const mode_text *mode_of(const rlx_node *n) {
  for (size_t i = 0; i < sizeof modes / sizeof *modes; i++)
    if (strcmp(modes[i].op, rlx_node_op(n)) == 0) return &modes[i];
  return NULL;
}

static rlx_status make_functions(rlx_gpu_text *t, const rlx_node *n) {
  const mode_text *m = mode_of(n);
  rlx_gpu_write(t, "FN f32 take(f32 v, f32 m) { return %s; }\n", m->take);
  rlx_gpu_write(t, "FN f32 combine(f32 a, f32 b) { return %s; }\n", m->combine);
  rlx_gpu_write(t, "FN f32 finish(f32 a, f32 m, u32 count) { return %s; }\n", m->finish);
  return RLX_OK;
}

/* A loop over the elements j of `from` (an output's base address a), `statement` with each as v. */
static void write_loop(rlx_gpu_text *t, const char *head, const char *statement) {
  rlx_gpu_write(t, "  %s {\n    i64 b = a;\n    if (reduced_rank < 2u) {\n      b = b + i64(j) * reduced_step[0];\n",
                head);
  rlx_gpu_write(t, "    } else {\n      u32 left = j;\n      for (u32 d = reduced_rank; d > 0u; d--) {\n");
  rlx_gpu_write(t, "        u32 next = left / reduced[d - 1u];\n");
  rlx_gpu_write(t,
                "        b = b + i64(left - next * reduced[d - 1u]) * reduced_step[d - 1u];\n        left = next;\n");
  rlx_gpu_write(t, "      }\n    }\n    f32 v = x[b];\n    %s\n  }\n", statement);
}

static void write_base(rlx_gpu_text *t) {
  rlx_gpu_write(t, "  i64 a = i64(0);\n  u32 rest = o;\n  for (u32 d = kept_rank; d > 0u; d--) {\n");
  rlx_gpu_write(
      t, "    u32 next = rest / kept[d - 1u];\n    a = a + i64(rest - next * kept[d - 1u]) * kept_step[d - 1u];\n");
  rlx_gpu_write(t, "    rest = next;\n  }\n  f32 m = 0.0f;\n");
}

static const char bounded[] = "if (ISINF(m)) m = 0.0f;\n";

static rlx_status make_columns(rlx_gpu_text *t, const rlx_node *n) {
  const mode_text *m = mode_of(n);
  static const char head[] = "for (u32 j = 0u; j < count; j++)";
  rlx_gpu_write(t, "for (u32 o = GLOBAL_ID; o < outputs; o += GLOBAL_SIZE) {\n");
  write_base(t);
  if (m->greatest) {
    rlx_gpu_write(t, "  m = -INF;\n");
    write_loop(t, head, "m = MAX(m, v);");
    rlx_gpu_write(t, "  %s", bounded);
  }
  rlx_gpu_write(t, "  f32 total = %s;\n", m->first);
  write_loop(t, head, "total = combine(total, take(v, m));");
  rlx_gpu_write(t, "  y[o] = finish(total, m, count);\n}\n");
  return RLX_OK;
}

/* All invocations end with the combination of their `name`. */
static void write_tree(rlx_gpu_text *t, const char *name, const char *combine) {
  rlx_gpu_write(t, "  BARRIER();\n  red[LOCAL_ID] = %s;\n  BARRIER();\n", name);
  rlx_gpu_write(t, "  for (u32 s = 128u; s > 0u; s = s >> 1u) {\n");
  rlx_gpu_write(t, "    if (LOCAL_ID < s) red[LOCAL_ID] = %s(red[LOCAL_ID], red[LOCAL_ID + s]);\n    BARRIER();\n  }\n",
                combine);
  rlx_gpu_write(t, "  %s = red[0];\n", name);
}

static rlx_status make_lines(rlx_gpu_text *t, const rlx_node *n) {
  const mode_text *m = mode_of(n);
  static const char head[] = "for (u32 j = begin + LOCAL_ID; j < end; j += WG)";
  rlx_gpu_write(t, "for (u32 i = GROUP_ID; i < outputs * parts; i += GROUPS) {\n  u32 o = i / parts;\n");
  rlx_gpu_write(t,
                "  u32 begin = (i - o * parts) * chunk;\n  u32 end = begin + chunk < count ? begin + chunk : count;\n");
  write_base(t);
  if (m->greatest) {
    rlx_gpu_write(t, "  m = -INF;\n");
    write_loop(t, head, "m = MAX(m, v);");
    write_tree(t, "m", "MAX");
    rlx_gpu_write(t, "  %s", bounded);
  }
  rlx_gpu_write(t, "  f32 total = %s;\n", m->first);
  write_loop(t, head, "total = combine(total, take(v, m));");
  write_tree(t, "total", "combine");
  rlx_gpu_write(t, "  if (LOCAL_ID == 0u) {\n    if (parts > 1u) partial[i] = total;\n");
  rlx_gpu_write(t, "    else y[o] = finish(total, m, count);\n  }\n}\n");
  return RLX_OK;
}

static rlx_status make_last(rlx_gpu_text *t, const rlx_node *n) {
  rlx_gpu_write(t, "for (u32 o = GLOBAL_ID; o < outputs; o += GLOBAL_SIZE) {\n  f32 total = %s;\n", mode_of(n)->first);
  rlx_gpu_write(t, "  for (u32 j = 0u; j < parts; j++) total = combine(total, partial[o * parts + j]);\n");
  rlx_gpu_write(t, "  y[o] = finish(total, 0.0f, count);\n}\n");
  return RLX_OK;
}

static const rlx_gpu_arg args[] = {ARG_IN("x", 0),
                                   ARG_OUT("y", 0),
                                   {"partial", "f32", RLX_GPU_WORKSPACE, 0, 0},
                                   ARG_SCALAR("outputs", "u32"),
                                   ARG_SCALAR("count", "u32"),
                                   ARG_SCALAR("parts", "u32"),
                                   ARG_SCALAR("chunk", "u32"),
                                   ARG_SCALAR("kept_rank", "u32"),
                                   ARG_SCALAR("reduced_rank", "u32"),
                                   ARG_LIST("kept", "u32", MAX_RANK),
                                   ARG_LIST("reduced", "u32", MAX_RANK),
                                   ARG_LIST("kept_step", "i64", MAX_RANK),
                                   ARG_LIST("reduced_step", "i64", MAX_RANK),
                                   {0}};
static const rlx_gpu_shared red[] = {{"red", "f32", 256}, {0}};
enum { LINES, COLUMNS, LAST };
static const rlx_gpu_function functions[] = {
    [LINES] = {.name = "reduce_lines",
               .args = args,
               .shared = red,
               .make_functions = make_functions,
               .make_body = make_lines},
    [COLUMNS] = {.name = "reduce_columns", .args = args, .make_functions = make_functions, .make_body = make_columns},
    [LAST] = {.name = "reduce_last", .args = args, .make_functions = make_functions, .make_body = make_last},
    {0},
};

/* ---- planning ---- */

typedef struct plan {
  reduce_shape shape;
  bool columns;
  int64_t parts, chunk;
} plan;

static rlx_status prepare(rlx_bound *b, void **state) {
  const reduce_params *p = rlx_bound_params(b);
  const rlx_type *x = rlx_bound_input(b, 0);
  const rlx_tensor *axes = rlx_bound_input(b, 1) ? rlx_bound_constant(b, 1) : NULL;
  uint32_t mask;
  if (reduce_axes(x->rank, axes ? rlx_tensor_data(axes) : NULL, axes ? rlx_tensor_count(axes) : 0,
                  p->noop_with_empty_axes != 0, &mask) >= 0)
    return rlx_fail(b, RLX_INVALID, "an axis is outside rank %d, or repeated", x->rank);
  plan *k = mem_zalloc(sizeof *k);
  if (!k) return rlx_fail(b, RLX_OUT_OF_MEMORY, "no memory for %zu bytes", sizeof *k);
  reduce_resolve(x->rank, x->dims, mask, &k->shape);
  const reduce_shape *s = &k->shape;
  bool neighbours = s->kept_rank > 0 && s->kept_stride[s->kept_rank - 1] == 1 && s->kept[s->kept_rank - 1] >= 32;
  k->columns = (neighbours && s->outputs >= 256) || (s->count <= 16 && s->outputs >= 1024);
  k->parts = 1;
  if (!k->columns && s->outputs < 512 && s->count > CHUNK && !mode_of(rlx_bound_node(b))->greatest)
    k->parts = s->count / CHUNK < MOST_PARTS ? s->count / CHUNK : MOST_PARTS;
  k->chunk = (s->count + k->parts - 1) / k->parts;
  *state = k;
  return RLX_OK;
}

static int64_t workspace(rlx_bound *b, const void *state) {
  (void)b;
  const plan *k = state;
  return k->parts > 1 ? k->parts * k->shape.outputs * (int64_t)sizeof(float) : 0;
}

static rlx_status encode(rlx_gpu_dispatch *d) {
  const plan *k = rlx_gpu_state(d);
  const reduce_shape *s = &k->shape;
  if (s->outputs == 0) return RLX_OK;
  if (s->kept_rank > MAX_RANK || s->reduced_rank > MAX_RANK)
    return RLX_FAIL(UNSUPPORTED, "more than %d dims", MAX_RANK);
  RLX_TRY(launch_fits(s->outputs * k->parts));
  RLX_TRY(launch_fits(s->count));
  rlx_gpu_set_int(d, "outputs", s->outputs);
  rlx_gpu_set_int(d, "count", s->count);
  rlx_gpu_set_int(d, "parts", k->parts);
  rlx_gpu_set_int(d, "chunk", k->chunk);
  rlx_gpu_set_int(d, "kept_rank", s->kept_rank);
  rlx_gpu_set_int(d, "reduced_rank", s->reduced_rank);
  rlx_gpu_set_ints(d, "kept", s->kept, s->kept_rank);
  rlx_gpu_set_ints(d, "reduced", s->reduced, s->reduced_rank);
  rlx_gpu_set_ints(d, "kept_step", s->kept_stride, s->kept_rank);
  rlx_gpu_set_ints(d, "reduced_step", s->reduced_stride, s->reduced_rank);
  if (k->columns) return launch_items(d, COLUMNS, s->outputs, 256);
  RLX_TRY(launch_items(d, LINES, s->outputs * k->parts, 1));
  return k->parts > 1 ? launch_items(d, LAST, s->outputs, 256) : RLX_OK;
}

static const char *why_not(const rlx_node *n) {
  const char *wrong = launch_needs_real(n, 0);
  if (wrong || !rlx_node_input_type(n, 1) || rlx_node_constant(n, 1)) return wrong;
  return rlx_depends_on_extents;
}

static const char *why_not_bound(const rlx_bound *b) {
  return rlx_bound_input(b, 1) && !rlx_bound_constant(b, 1) ? "axes are known only at the run" : NULL;
}

#define REDUCE_KERNEL(id, first_version)                                                                               \
  static const rlx_gpu_kernel reduce_##id = {.struct_size = sizeof(rlx_gpu_kernel),                                    \
                                             .head = {.op = "onnx.Reduce" #id,                                         \
                                                      .version_min = first_version,                                    \
                                                      .version_max = INT32_MAX,                                        \
                                                      .name = "lines",                                                 \
                                                      .why_not = why_not,                                              \
                                                      .why_not_bound = why_not_bound,                                  \
                                                      .workspace = workspace,                                          \
                                                      .prepare = prepare,                                              \
                                                      .release = mem_free},                                            \
                                             .functions = functions,                                                   \
                                             .encode = encode}
REDUCE_KERNEL(Sum, 13);
REDUCE_KERNEL(Mean, 18);
REDUCE_KERNEL(Max, 18);
REDUCE_KERNEL(Min, 18);
REDUCE_KERNEL(Prod, 18);
REDUCE_KERNEL(L1, 18);
REDUCE_KERNEL(L2, 18);
REDUCE_KERNEL(SumSquare, 18);
REDUCE_KERNEL(LogSum, 18);
REDUCE_KERNEL(LogSumExp, 18);

static const rlx_gpu_kernel *const kernels[] = {&reduce_Sum,    &reduce_Mean,      &reduce_Max, &reduce_Min,
                                                &reduce_Prod,   &reduce_L1,        &reduce_L2,  &reduce_SumSquare,
                                                &reduce_LogSum, &reduce_LogSumExp, NULL};
const rlx_module gpu_reduce = {.gpu_kernels = kernels};
