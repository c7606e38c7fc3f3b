/* topk.c — TopK: the k largest or smallest elements of an axis and where they are. */
#include <stddef.h>
#include <stdlib.h>

#include "base/memory.h"
#include "ir/module.h"
#include "ops/_move.h"
#include "ops/_topk.h"
#include "ops/_typed.h"

static const rlx_attr_def topk_attrs[] = {
    {.name = "axis", .kind = RLX_ATTR_INT, .offset = offsetof(topk_params, axis), .default_int = -1},
    {.name = "largest", .kind = RLX_ATTR_INT, .offset = offsetof(topk_params, largest), .default_int = 1},
    {.name = "sorted", .kind = RLX_ATTR_INT, .offset = offsetof(topk_params, sorted), .default_int = 1},
    {0}};
static const rlx_port topk_inputs[] = {{.name = "X", .variable = "T", .dtypes = RLX_SET_NUMBERS},
                                       {.name = "K", .dtypes = MOVE_INT64, .flags = RLX_HOST},
                                       {0}};
static const rlx_port topk_outputs[] = {
    {.name = "Values", .variable = "T", .dtypes = RLX_SET_NUMBERS}, {.name = "Indices", .dtypes = MOVE_INT64}, {0}};

static rlx_status topk_set(rlx_infer *ctx, int64_t axis_attr, int64_t k) {
  const rlx_type *x = rlx_infer_input(ctx, 0);
  int axis;
  if (rlx_infer_output_count(ctx) > 1) rlx_infer_output(ctx, 1)->dtype = RLX_INT64;
  if (x->rank == 0) return rlx_fail(ctx, RLX_INVALID, "X is a scalar");
  rlx_status status = infer_axis(ctx, axis_attr, x->rank, &axis);
  if (status != RLX_OK || x->rank < 0) return status;
  if (k >= 0 && x->dims[axis] >= 0 && k > x->dims[axis])
    return rlx_fail(ctx, RLX_INVALID, "K is %lld, the axis has %lld elements", (long long)k, (long long)x->dims[axis]);
  for (int o = 0; o < 2 && o < rlx_infer_output_count(ctx); o++) {
    rlx_infer_set(ctx, o, x->rank, x->dims);
    rlx_infer_output(ctx, o)->dims[axis] = k;
  }
  return RLX_OK;
}

static rlx_status topk_infer(rlx_infer *ctx) {
  const topk_params *p = rlx_infer_params(ctx);
  int_list k;
  rlx_status status = infer_ints(ctx, 1, &k);
  if (status != RLX_OK) return status;
  if (k.count >= 0 && k.count != 1) return rlx_fail(ctx, RLX_INVALID, "K has %d elements", k.count);
  if (k.count == 1 && k.values[0] < 0) return rlx_fail(ctx, RLX_INVALID, "K is %lld", (long long)k.values[0]);
  return topk_set(ctx, p->axis, k.count == 1 ? k.values[0] : RLX_UNKNOWN);
}

/* Lines of n elements `inner` apart. A line's candidates are indices in `best`, kept as a heap whose root
 * is the worst of them. */
typedef struct topk_job {
  rlx_ctx *ctx;
  int64_t *scratch; /* k a chunk of lines */
  int64_t n, inner, k, lines, chunk;
  bool largest;
} topk_job;

/* Order: wanted first, NaN as the largest number, the lower index among equals. */
#define X(D, T, C, K)                                                                                                  \
  static inline bool before_##D(const topk_job *job, const T *x, int64_t a, int64_t b) {                               \
    C va = TYPED_LOAD_##D(x[a * job->inner]), vb = TYPED_LOAD_##D(x[b * job->inner]);                                  \
    bool na = TYPED_NAN_##K(va), nb = TYPED_NAN_##K(vb);                                                               \
    if (na || nb) return na == nb ? a < b : job->largest ? na : nb;                                                    \
    if (va == vb) return a < b;                                                                                        \
    return job->largest ? va > vb : va < vb;                                                                           \
  }                                                                                                                    \
  static void sink_##D(const topk_job *job, const T *x, int64_t *best, int64_t size, int64_t at) {                     \
    for (;;) {                                                                                                         \
      int64_t worst = at, left = 2 * at + 1;                                                                           \
      for (int64_t c = left; c < left + 2 && c < size; c++)                                                            \
        if (before_##D(job, x, best[worst], best[c])) worst = c;                                                       \
      if (worst == at) return;                                                                                         \
      int64_t swap = best[at];                                                                                         \
      best[at] = best[worst];                                                                                          \
      best[worst] = swap;                                                                                              \
      at = worst;                                                                                                      \
    }                                                                                                                  \
  }                                                                                                                    \
  static void topk_line_##D(const topk_job *job, int64_t line, int64_t *best) {                                        \
    const rlx_operand *values = &job->ctx->outputs[0];                                                                 \
    int64_t *indices = run_wanted(job->ctx, 1) ? job->ctx->outputs[1].data : NULL;                                     \
    const T *x = (const T *)job->ctx->inputs[0].data + line / job->inner * job->n * job->inner + line % job->inner;    \
    int64_t k = job->k, out = line / job->inner * k * job->inner + line % job->inner;                                  \
    for (int64_t i = 0; i < k; i++) best[i] = i;                                                                       \
    for (int64_t i = k / 2 - 1; i >= 0; i--) sink_##D(job, x, best, k, i);                                             \
    C worst = TYPED_LOAD_##D(x[best[0] * job->inner]);                                                                 \
    for (int64_t i = k; i < job->n; i++) {                                                                             \
      C v = TYPED_LOAD_##D(x[i * job->inner]);                                                                         \
      if (job->largest ? v <= worst : v >= worst) continue;                                                            \
      if (!before_##D(job, x, i, best[0])) continue;                                                                   \
      best[0] = i;                                                                                                     \
      sink_##D(job, x, best, k, 0);                                                                                    \
      worst = TYPED_LOAD_##D(x[best[0] * job->inner]);                                                                 \
    }                                                                                                                  \
    for (int64_t size = k - 1; size > 0; size--) {                                                                     \
      int64_t swap = best[0];                                                                                          \
      best[0] = best[size];                                                                                            \
      best[size] = swap;                                                                                               \
      sink_##D(job, x, best, size, 0);                                                                                 \
    }                                                                                                                  \
    for (int64_t i = 0; i < k; i++, out += job->inner) {                                                               \
      if (values->data) ((T *)values->data)[out] = x[best[i] * job->inner];                                            \
      if (indices) indices[out] = best[i];                                                                             \
    }                                                                                                                  \
  }
#include "ir/dtype.def"
X(FLOAT16, uint16_t, float, f)
X(BFLOAT16, uint16_t, float, f)
#undef X

typedef void (*topk_fn)(const topk_job *job, int64_t line, int64_t *best);

/* NULL: not for this dtype. */
static const topk_fn topk_line_table[RLX_DTYPE_COUNT] = {
#define X(D, T, C, K) [RLX_##D] = topk_line_##D,
#include "ir/dtype.def"
    X(FLOAT16, uint16_t, float, f) X(BFLOAT16, uint16_t, float, f)
#undef X
};

static void topk_chunks(void *arg, int64_t begin, int64_t end) {
  const topk_job *job = arg;
  topk_fn fn = topk_line_table[job->ctx->inputs[0].dtype];
  for (int64_t c = begin; c < end; c++) {
    int64_t last = (c + 1) * job->chunk < job->lines ? (c + 1) * job->chunk : job->lines;
    for (int64_t line = c * job->chunk; line < last; line++) fn(job, line, job->scratch + c * job->k);
  }
}

int64_t topk_chunks_of(int64_t count, int64_t lines, int threads) {
  int64_t chunks = count < 16384 ? 1 : threads;
  return chunks > lines ? lines : chunks;
}

rlx_status topk_run(rlx_ctx *ctx, int64_t *scratch, int64_t chunks) {
  const topk_params *p = ctx->params;
  const rlx_operand *x = &ctx->inputs[0];
  int axis = axis_normalise(p->axis, x->rank);
  topk_job job = {
      .ctx = ctx, .scratch = scratch, .n = x->dims[axis], .inner = dims_product(x->dims, axis + 1, x->rank)};
  job.k = index_load(&ctx->inputs[1], 0);
  job.largest = p->largest;
  if (!topk_line_table[x->dtype]) return rlx_fail(ctx, RLX_UNSUPPORTED, "element type %s", rlx_dtype_name(x->dtype));
  if (job.k < 0 || job.k > job.n)
    return rlx_fail(ctx, RLX_INVALID, "K is %lld, the axis has %lld elements", (long long)job.k, (long long)job.n);
  if (job.k == 0 || x->count == 0) return RLX_OK;
  job.lines = x->count / job.n;
  if (chunks > job.lines) chunks = job.lines;
  job.chunk = (job.lines + chunks - 1) / chunks;
  if (chunks == 1)
    topk_chunks(&job, 0, 1);
  else
    rlx_parallel_for(ctx, chunks, 1, topk_chunks, &job);
  return RLX_OK;
}

static rlx_status topk_eval(rlx_ctx *ctx) {
  const topk_params *p = ctx->params;
  const rlx_operand *x = &ctx->inputs[0];
  int64_t n = x->dims[axis_normalise(p->axis, x->rank)], k = index_load(&ctx->inputs[1], 0);
  int64_t chunks = topk_chunks_of(x->count, n ? x->count / n : 0, rlx_thread_count(ctx));
  int64_t *scratch = mem_array((size_t)(k > 0 && k <= n ? chunks * k : 0) + 1, sizeof *scratch);
  if (!scratch) return rlx_fail(ctx, RLX_OUT_OF_MEMORY, "no memory for %lld indices", (long long)(chunks * k));
  rlx_status status = topk_run(ctx, scratch, chunks);
  mem_free(scratch);
  return status;
}

static rlx_status topk_vjp(rlx_graph *g, const rlx_node *n, rlx_value *const *output_grads, rlx_value **input_grads) {
  const topk_params *p = rlx_node_params(n);
  if (!output_grads[0]) return rlx_graph_status(g);
  const rlx_value *indices = rlx_node_output(n, 1);
  if (!indices || !rlx_value_name(indices)[0])
    return rlx_graph_fail(g, RLX_UNSUPPORTED, "the gradient of TopK needs its Indices output");
  rlx_value *inputs[3] = {graph_zeros_like(g, rlx_node_input(n, 0)), rlx_node_output(n, 1), output_grads[0]};
  input_grads[0] = graph_axis_op(g, "onnx.ScatterElements", inputs, 3, p->axis);
  return rlx_graph_status(g);
}

static const rlx_op topk = {
    .struct_size = sizeof(rlx_op),
    .name = "onnx.TopK",
    .version = 10,
    .samples = (const char *const[]){"float[3,5], int64[1] = {2} => 2",
                                     "int64[2,4], int64[1] = {2} {largest = 0, axis = 0, sorted = 1} => 2", NULL},
    .doc = "The K largest (or smallest) elements along axis, best first, the lower index among equals; NaN "
           "counts as the largest number.",
    .inputs = topk_inputs,
    .outputs = topk_outputs,
    .attrs = topk_attrs,
    .params_size = sizeof(topk_params),
    .traits = RLX_PURE,
    .infer = topk_infer,
    .vjp = topk_vjp,
    .eval = topk_eval,
};

typedef struct topk1_params {
  uint64_t given;
  int64_t axis, k;
} topk1_params;

static const rlx_attr_def topk1_attrs[] = {
    {.name = "axis", .kind = RLX_ATTR_INT, .offset = offsetof(topk1_params, axis), .default_int = -1},
    {.name = "k", .kind = RLX_ATTR_INT, .flags = RLX_REQUIRED, .offset = offsetof(topk1_params, k)},
    {0}};
static const rlx_port topk1_inputs[] = {{.name = "X", .variable = "T", .dtypes = RLX_SET_NUMBERS}, {0}};

static rlx_status topk1_infer(rlx_infer *ctx) {
  const topk1_params *p = rlx_infer_params(ctx);
  if (p->k < 0) return rlx_fail(ctx, RLX_INVALID, "k is %lld", (long long)p->k);
  return topk_set(ctx, p->axis, p->k);
}

static rlx_status topk1_lower(rlx_graph *g, const rlx_node *n, rlx_value **outputs) {
  const topk1_params *p = rlx_node_params(n);
  rlx_attr attr = RLX_ATTR_I("axis", p->axis);
  rlx_value *inputs[2] = {rlx_node_input(n, 0), graph_ints(g, &p->k, 1)};
  rlx_node_desc desc = {.struct_size = sizeof desc,
                        .op = "onnx.TopK",
                        .inputs = inputs,
                        .input_count = 2,
                        .attrs = &attr,
                        .attr_count = 1,
                        .output_count = 2};
  rlx_node *made = rlx_graph_node(g, &desc);
  for (int i = 0; made && i < rlx_node_output_count(n); i++) outputs[i] = rlx_node_output(made, i);
  return rlx_graph_status(g);
}

static const rlx_op topk_1 = {
    .struct_size = sizeof(rlx_op),
    .name = "onnx.TopK",
    .version = 1,
    .doc = "TopK with k as an attribute.",
    .samples = (const char *const[]){"float[3,5] {k = 2}", NULL},
    .inputs = topk1_inputs,
    .outputs = topk_outputs,
    .attrs = topk1_attrs,
    .params_size = sizeof(topk1_params),
    .traits = RLX_PURE,
    .infer = topk1_infer,
    .lower = topk1_lower,
};

static const rlx_op *const ops[] = {&topk_1, &topk, NULL};
const rlx_module ops_topk = {.ops = ops};
