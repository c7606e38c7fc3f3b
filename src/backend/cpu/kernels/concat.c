/* concat.c — onnx.Concat and onnx.Split on the CPU: rows of one tensor and the parts of them in others. */
#include <string.h>

#include "base/memory.h"
#include "ir/layout.h"
#include "ir/module.h"
#include "ir/op.h"
#include "ir/shape.h"
#include "ops/concat.h"

/* A row of the whole is one part of each of the others, in order. Bytes. */
typedef struct state {
  int64_t rows, row;
  int count;
  int64_t part[];
} state;

typedef struct job {
  const state *s;
  const rlx_operand *whole, *parts;
  bool split;
} job;

enum { GRAIN = 64 * 1024 };

static const char *why_not_bytes(const rlx_type *t) {
  return !t || t->kind != RLX_KIND_TENSOR || rlx_dtype_bits(t->dtype) % 8 != 0 || rlx_dtype_bits(t->dtype) == 0
             ? "elements that are not whole bytes"
             : NULL;
}

static const char *why_not_concat(const rlx_node *n) { return why_not_bytes(rlx_node_input_type(n, 0)); }

static int axis_of(const rlx_node *n, int rank) {
  const concat_params *p = rlx_node_params(n); /* split_params begins so */
  return axis_normalise(p->axis, rank);
}

/* The extents must be known for outputs that nobody wants, too. */
static const char *why_not_split(const rlx_node *n) {
  const rlx_type *x = rlx_node_input_type(n, 0);
  const char *bad = why_not_bytes(x);
  if (bad) return bad;
  if (x->rank == RLX_UNKNOWN) return "the rank is not known";
  int axis = axis_of(n, x->rank);
  for (int i = 0; i < rlx_node_output_count(n); i++) {
    const rlx_type *y = rlx_node_output_type(n, i);
    if (!y || y->rank != x->rank || y->dims[axis] == RLX_UNKNOWN) return "the size of a part is not known";
  }
  return NULL;
}

static void layouts(const rlx_node *n, rlx_layouts *l) {
  (void)n;
  for (int i = 0; i < l->input_count; i++) l->inputs[i] = RLX_SAME_LAYOUT;
  for (int i = 0; i < l->output_count; i++) l->outputs[i] = RLX_SAME_LAYOUT;
}

static void layouts_split(const rlx_node *n, rlx_layouts *l) {
  layouts(n, l);
  if (l->input_count > 1) l->inputs[1] = RLX_ROW_MAJOR;
}

/* Bytes of a row of t, whose dims lie as `layout` says; *rows: how many. */
static int64_t row_bytes(const rlx_type *t, const int64_t *logical, uint32_t layout, int axis, int64_t *rows) {
  int64_t dims[RLX_MAX_RANK + 1], bytes = rlx_dtype_bits(t->dtype) / 8;
  int rank = layout_physical(layout, t->rank, logical, dims);
  int at = layout_physical_axis(layout, t->rank, axis);
  *rows = 1;
  for (int i = 0; i < at; i++) *rows *= dims[i];
  for (int i = at; i < rank; i++) bytes *= dims[i];
  return bytes;
}

/* Part i of the whole: the type of an operand of the bound node, with its extent along the axis. */
static rlx_status prepare(rlx_bound *b, bool split, void **out) {
  const rlx_node *n = rlx_bound_node(b);
  const rlx_type *whole = split ? rlx_bound_input(b, 0) : rlx_bound_output(b, 0);
  uint32_t layout = split ? rlx_bound_input_layout(b, 0) : rlx_bound_output_layout(b, 0);
  int count = split ? rlx_node_output_count(n) : rlx_node_input_count(n), axis = axis_of(n, whole->rank);
  size_t bytes = sizeof(state) + (size_t)count * sizeof(int64_t);
  state *s = mem_zalloc(bytes);
  if (!s) return rlx_fail(b, RLX_OUT_OF_MEMORY, "no memory for %zu bytes", bytes);
  s->row = row_bytes(whole, whole->dims, layout, axis, &s->rows);
  s->count = count;
  int64_t left = s->row;
  for (int i = 0; i < count; i++) {
    const rlx_type *part = split ? rlx_node_output_type(n, i) : rlx_bound_input(b, i);
    int64_t dims[RLX_MAX_RANK], rows;
    memcpy(dims, whole->dims, sizeof dims);
    dims[axis] = part->dims[axis];
    s->part[i] = row_bytes(whole, dims, layout, axis, &rows);
    left -= s->part[i];
  }
  if (left != 0) {
    mem_free(s);
    return rlx_fail(b, RLX_INVALID, "the parts do not make up the whole");
  }
  *out = s;
  return RLX_OK;
}

static rlx_status prepare_concat(rlx_bound *b, void **out) { return prepare(b, false, out); }
static rlx_status prepare_split(rlx_bound *b, void **out) { return prepare(b, true, out); }

/* Bytes [begin, end) of the whole. */
static void move(void *arg, int64_t begin, int64_t end) {
  const job *j = arg;
  const state *s = j->s;
  char *whole = j->whole->data;
  for (int64_t r = begin / s->row; r * s->row < end; r++) {
    int64_t at = r * s->row;
    for (int i = 0; i < s->count; i++) {
      int64_t first = at > begin ? at : begin, last = at + s->part[i] < end ? at + s->part[i] : end;
      char *part = j->parts[i].data;
      if (first < last && part) {
        part += r * s->part[i] + first - at;
        if (j->split)
          memcpy(part, whole + first, (size_t)(last - first));
        else
          memcpy(whole + first, part, (size_t)(last - first));
      }
      at += s->part[i];
    }
  }
}

static rlx_status run(rlx_ctx *ctx, job j) {
  j.s = ctx->state;
  int64_t bytes = j.s->rows * j.s->row;
  if (bytes == 0) return RLX_OK;
  if (bytes < 2 * GRAIN)
    move(&j, 0, bytes);
  else
    rlx_parallel_for(ctx, bytes, GRAIN, move, &j);
  return RLX_OK;
}

static rlx_status run_concat(rlx_ctx *ctx) { return run(ctx, (job){.whole = &ctx->outputs[0], .parts = ctx->inputs}); }

static rlx_status run_split(rlx_ctx *ctx) {
  return run(ctx, (job){.whole = &ctx->inputs[0], .parts = ctx->outputs, .split = true});
}

static const rlx_cpu_kernel concat = {
    .struct_size = sizeof(rlx_cpu_kernel),
    .head = {.op = "onnx.Concat",
             .version_min = 4,
             .version_max = INT32_MAX,
             .name = "rows",
             .why_not = why_not_concat,
             .layouts = layouts,
             .prepare = prepare_concat,
             .release = mem_free},
    .run = run_concat,
};
static const rlx_cpu_kernel split = {
    .struct_size = sizeof(rlx_cpu_kernel),
    .head = {.op = "onnx.Split",
             .version_min = 13,
             .version_max = INT32_MAX,
             .name = "rows",
             .why_not = why_not_split,
             .layouts = layouts_split,
             .prepare = prepare_split,
             .release = mem_free},
    .run = run_split,
};

const rlx_module cpu_concat = {.kernels = (const rlx_cpu_kernel *const[]){&concat, &split, NULL}};
