/* rows.c — softmax, and layer and RMS normalisation of float rows that lie together in memory. */
#include "backend/cpu/kernels/_rows.h"
#include "base/memory.h"
#include "base/status.h"
#include "ir/module.h"
#include "ops/layernorm.h"
#include "ops/softmax.h"

/* What prepare finds: rows of `columns` elements. */
typedef struct rows_state {
  const rows_table *table;
  int64_t rows, columns;
  int64_t inner; /* softmax: elements between neighbours along the axis */
  float epsilon;
} rows_state;

enum { ROWS_GRAIN = 16384 }; /* elements worth a thread */

typedef struct rows_job {
  const rows_state *s;
  const float *x, *scale, *bias;
  float *y;
} rows_job;

static void release(void *state) { mem_free(state); }

static rlx_status make_state(int64_t rows, int64_t columns, float epsilon, void **state) {
  rows_state *s = mem_zalloc(sizeof *s);
  if (!s) return status_no_memory(sizeof *s);
  *s = (rows_state){rows_table_best(), rows, columns, 1, epsilon};
  *state = s;
  return RLX_OK;
}

static rlx_status run_rows(rlx_ctx *ctx, void (*range)(void *arg, int64_t begin, int64_t end)) {
  const rows_state *s = ctx->state;
  const rlx_operand *in = ctx->inputs;
  if (s->rows == 0 || s->columns == 0) return RLX_OK;
  rows_job job = {s, in[0].data, ctx->input_count > 1 ? in[1].data : NULL, ctx->input_count > 2 ? in[2].data : NULL,
                  ctx->outputs[0].data};
  int64_t grain = ROWS_GRAIN / s->columns + 1;
  if (s->rows < 2 * grain)
    range(&job, 0, s->rows);
  else
    rlx_parallel_for(ctx, s->rows, grain, range, &job);
  return RLX_OK;
}

static const char *only_float(const rlx_node *n) {
  rlx_dtype dtype = rlx_node_input_type(n, 0)->dtype;
  return dtype == RLX_FLOAT ? NULL : rlx_reason("only float rows are served, not %s", rlx_dtype_name(dtype));
}

/* ---- softmax ---- */

static rlx_status softmax_prepare(rlx_bound *b, void **state) {
  const rlx_type *x = rlx_bound_input(b, 0);
  softmax_shape s;
  const char *bad = softmax_resolve(rlx_bound_params(b), x->rank, x->dims, &s);
  if (bad) return rlx_fail(b, RLX_INVALID, "%s", bad);
  RLX_TRY(make_state(s.outer, s.count, 0, state));
  ((rows_state *)*state)->inner = s.inner;
  return RLX_OK;
}

static void softmax_range(void *arg, int64_t begin, int64_t end) {
  const rows_job *j = arg;
  int64_t n = j->s->columns;
  for (int64_t i = begin; i < end; i++) j->s->table->softmax(j->x + i * n, j->y + i * n, n);
}

/* Units: strips of COLUMNS columns, of all rows one after the other. */
static void softmax_strips(void *arg, int64_t begin, int64_t end) {
  const rows_job *j = arg;
  int64_t n = j->s->columns, inner = j->s->inner, strips = (inner + COLUMNS - 1) / COLUMNS;
  for (int64_t i = begin; i < end; i++) {
    int64_t column = i % strips * COLUMNS, at = i / strips * n * inner + column;
    int64_t width = inner - column < COLUMNS ? inner - column : COLUMNS;
    j->s->table->softmax_columns(j->x + at, j->y + at, n, inner, width);
  }
}

static rlx_status softmax_run(rlx_ctx *ctx) {
  const rows_state *s = ctx->state;
  if (s->inner == 1) return run_rows(ctx, softmax_range);
  if (s->rows == 0 || s->columns == 0 || s->inner == 0) return RLX_OK;
  rows_job job = {s, ctx->inputs[0].data, NULL, NULL, ctx->outputs[0].data};
  int64_t strips = s->rows * ((s->inner + COLUMNS - 1) / COLUMNS), grain = ROWS_GRAIN / (s->columns * COLUMNS) + 1;
  rlx_parallel_for(ctx, strips, grain, softmax_strips, &job);
  return RLX_OK;
}

/* ---- normalisation ---- */

static const char *norm_why_not(const rlx_node *n) {
  if (only_float(n)) return only_float(n);
  for (int i = 1; i < rlx_node_input_count(n); i++) {
    const rlx_type *t = rlx_node_input_type(n, i);
    if (t && t->dtype != RLX_FLOAT) return rlx_reason("scale or bias is of %s", rlx_dtype_name(t->dtype));
  }
  if (rlx_node_output_count(n) > 1) return "the mean and deviation are wanted too";
  return rlx_depends_on_extents;
}

static bool same_dims(const rlx_type *t, const rlx_type *x, int axis) {
  if (t->rank != x->rank - axis) return false;
  for (int d = 0; d < t->rank; d++)
    if (t->dims[d] != x->dims[axis + d]) return false;
  return true;
}

static const char *norm_why_not_bound(const rlx_bound *b) {
  const rlx_type *x = rlx_bound_input(b, 0);
  layernorm_shape s;
  const char *bad = layernorm_resolve(rlx_bound_params(b), x->rank, x->dims, &s);
  if (bad) return bad;
  for (int i = 1; i < rlx_node_input_count(rlx_bound_node(b)); i++)
    if (rlx_bound_input(b, i) && !same_dims(rlx_bound_input(b, i), x, s.axis)) return "scale or bias is broadcast";
  return NULL;
}

static rlx_status norm_prepare(rlx_bound *b, void **state) {
  const rlx_type *x = rlx_bound_input(b, 0);
  const layernorm_params *p = rlx_bound_params(b);
  layernorm_shape s;
  const char *bad = layernorm_resolve(p, x->rank, x->dims, &s);
  if (bad) return rlx_fail(b, RLX_INVALID, "%s", bad);
  return make_state(s.rows, s.columns, p->epsilon, state);
}

static void layer_norm_range(void *arg, int64_t begin, int64_t end) {
  const rows_job *j = arg;
  int64_t n = j->s->columns;
  for (int64_t i = begin; i < end; i++)
    j->s->table->layer_norm(j->x + i * n, j->scale, j->bias, j->y + i * n, n, j->s->epsilon);
}

static void rms_norm_range(void *arg, int64_t begin, int64_t end) {
  const rows_job *j = arg;
  int64_t n = j->s->columns;
  for (int64_t i = begin; i < end; i++) j->s->table->rms_norm(j->x + i * n, j->scale, j->y + i * n, n, j->s->epsilon);
}

static rlx_status layer_norm_run(rlx_ctx *ctx) { return run_rows(ctx, layer_norm_range); }
static rlx_status rms_norm_run(rlx_ctx *ctx) { return run_rows(ctx, rms_norm_range); }

/* ---- records ---- */

static const rlx_pair in_place[] = {{0, 0}};
#define HEAD(op_name, why, prepare_fn)                                                                                 \
  .op = (op_name), .name = "rows", .in_place = in_place, .in_place_count = 1, .why_not = (why), .prepare = (prepare_fn), \
  .release = release

static const rlx_cpu_kernel softmax = {
    .struct_size = sizeof(rlx_cpu_kernel),
    .head = {HEAD("onnx.Softmax", only_float, softmax_prepare), .version_min = 13},
    .run = softmax_run,
};
static const rlx_cpu_kernel layer_norm = {
    .struct_size = sizeof(rlx_cpu_kernel),
    .head = {HEAD("onnx.LayerNormalization", norm_why_not, norm_prepare), .why_not_bound = norm_why_not_bound},
    .run = layer_norm_run,
};
static const rlx_cpu_kernel rms_norm = {
    .struct_size = sizeof(rlx_cpu_kernel),
    .head = {HEAD("onnx.RMSNormalization", norm_why_not, norm_prepare), .why_not_bound = norm_why_not_bound},
    .run = rms_norm_run,
};

static const rlx_cpu_kernel *const kernels[] = {&softmax, &layer_norm, &rms_norm, NULL};
const rlx_module cpu_rows = {.kernels = kernels};
