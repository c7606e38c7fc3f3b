/* split.c — Split: consecutive parts of a tensor along an axis. */
#include <stddef.h>
#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "ir/module.h"
#include "ops/_move.h"
#include "ops/concat.h"

static const rlx_attr_def split_attrs[] = {
    {.name = "axis", .kind = RLX_ATTR_INT, .offset = offsetof(split_params, axis)},
    {.name = "num_outputs", .kind = RLX_ATTR_INT, .offset = offsetof(split_params, num_outputs)},
    {0}};
static const rlx_port split_inputs[] = {{.name = "input", .variable = "T", .dtypes = MOVE_WHOLE},
                                        {.name = "split", .dtypes = MOVE_INT64, .flags = RLX_HOST | RLX_OPTIONAL},
                                        {0}};
static const rlx_port split_outputs[] = {
    {.name = "outputs", .variable = "T", .dtypes = MOVE_WHOLE, .flags = RLX_VARIADIC, .min_count = 1}, {0}};

/* Part i of `extent` in `parts` equal ones; with num_outputs given the last one may be smaller, and no other. */
static rlx_status equal_part(const void *ctx, const split_params *p, int64_t extent, int parts, int i, int64_t *part) {
  bool uneven = p->given & 2u;
  if (uneven && p->num_outputs != parts)
    return rlx_fail(ctx, RLX_INVALID, "num_outputs is %lld, the node has %d outputs", (long long)p->num_outputs, parts);
  if (!uneven && extent % parts)
    return rlx_fail(ctx, RLX_INVALID, "extent %lld does not divide into %d equal parts", (long long)extent, parts);
  int64_t chunk = extent / parts + (extent % parts != 0);
  int64_t left = extent - i * chunk;
  if (left < 0)
    return rlx_fail(ctx, RLX_INVALID, "extent %lld in %d parts of %lld leaves none for part %d", (long long)extent,
                    parts, (long long)chunk, i);
  *part = left < chunk ? left : chunk;
  return RLX_OK;
}

/* Checks explicit sizes against the axis. */
static rlx_status check_sizes(const void *ctx, const int64_t *sizes, int64_t count, int parts, int64_t extent) {
  if (count != parts) return rlx_fail(ctx, RLX_INVALID, "split has %lld sizes for %d outputs", (long long)count, parts);
  int64_t sum = 0;
  for (int i = 0; i < parts; i++) {
    if (sizes[i] < 0) return rlx_fail(ctx, RLX_INVALID, "split has the size %lld", (long long)sizes[i]);
    if (__builtin_add_overflow(sum, sizes[i], &sum)) sum = INT64_MAX;
  }
  if (extent >= 0 && sum != extent)
    return rlx_fail(ctx, RLX_INVALID, "the sizes of split sum to %lld, the axis has %lld", (long long)sum,
                    (long long)extent);
  return RLX_OK;
}

/* An error where it is run; but ONNX's own functions have such nodes in branches that are not taken. */
static bool rest_is_negative(const split_params *p, int64_t extent, int parts) {
  int64_t chunk = extent / parts + (extent % parts != 0);
  return (p->given & 2u) && extent < (parts - 1) * chunk;
}

static rlx_status split_infer(rlx_infer *ctx) {
  const split_params *p = rlx_infer_params(ctx);
  const rlx_type *x = rlx_infer_input(ctx, 0);
  if (x->rank == RLX_UNKNOWN) return RLX_OK;
  int axis, parts = rlx_infer_output_count(ctx);
  rlx_status status = infer_axis(ctx, p->axis, x->rank, &axis);
  if (status != RLX_OK) return status;
  int64_t extent = x->dims[axis];
  const int64_t *sizes = NULL;
  bool explicit_sizes = infer_given(ctx, 1);
  if (explicit_sizes) {
    const rlx_tensor *t = rlx_infer_value(ctx, 1);
    if (t) {
      sizes = t->data;
      status = check_sizes(ctx, sizes, t->count, parts, extent);
      if (status != RLX_OK) return status;
    }
  }
  int64_t dims[RLX_MAX_RANK];
  for (int d = 0; d < x->rank; d++) dims[d] = x->dims[d];
  for (int i = 0; i < parts; i++) {
    dims[axis] = sizes ? sizes[i] : RLX_UNKNOWN;
    if (!explicit_sizes && extent >= 0 && !rest_is_negative(p, extent, parts)) {
      status = equal_part(ctx, p, extent, parts, i, &dims[axis]);
      if (status != RLX_OK) return status;
    }
    rlx_infer_set(ctx, i, x->rank, dims);
  }
  return RLX_OK;
}

typedef struct split_job {
  rlx_ctx *ctx;
  int axis;
  int64_t row;   /* bytes of the input per index before the axis */
  int64_t inner; /* bytes per index of the axis */
} split_job;

/* Bytes of part i in a row. An output that nobody wants has no dims to tell. */
static int64_t part_bytes(const split_job *job, int i) {
  rlx_ctx *ctx = job->ctx;
  const rlx_operand *x = &ctx->inputs[0];
  int64_t extent = 0;
  if (ctx->outputs[i].data)
    extent = ctx->outputs[i].dims[job->axis];
  else if (run_given(ctx, 1))
    extent = index_load(&ctx->inputs[1], i);
  else if (equal_part(ctx, ctx->params, x->dims[job->axis], ctx->output_count, i, &extent))
    return 0;
  return extent * job->inner;
}

static void split_rows(void *arg, int64_t begin, int64_t end) {
  const split_job *job = arg;
  const char *from = (const char *)job->ctx->inputs[0].data + begin * job->row;
  for (int i = 0; i < job->ctx->output_count; i++) {
    const rlx_operand *y = &job->ctx->outputs[i];
    int64_t bytes = part_bytes(job, i);
    const char *row = from;
    char *to = (char *)y->data + (y->data ? begin * bytes : 0);
    for (int64_t r = begin; y->data && bytes && r < end; r++, row += job->row, to += bytes)
      memcpy(to, row, (size_t)bytes);
    from += bytes;
  }
}

static rlx_status split_eval(rlx_ctx *ctx) {
  const split_params *p = ctx->params;
  const rlx_operand *x = &ctx->inputs[0];
  int axis = axis_normalise(p->axis, x->rank);
  int64_t last;
  if (!run_given(ctx, 1)) {
    int parts = ctx->output_count;
    rlx_status status = equal_part(ctx, p, x->dims[axis], parts, parts - 1, &last);
    if (status != RLX_OK) return status;
  }
  if (x->count == 0) return RLX_OK;
  int64_t rows = dims_product(x->dims, 0, axis);
  int64_t inner = dims_product(x->dims, axis + 1, x->rank) * (int64_t)dtype_size(x->dtype);
  split_job job = {ctx, axis, x->dims[axis] * inner, inner};
  if (rows == 1) {
    const char *from = x->data;
    for (int i = 0; i < ctx->output_count; i++) {
      int64_t bytes = part_bytes(&job, i);
      if (ctx->outputs[i].data) move_bytes(ctx, ctx->outputs[i].data, from, bytes);
      from += bytes;
    }
    return RLX_OK;
  }
  int64_t grain = 64 * 1024 / job.row + 1;
  if (rows < 2 * grain)
    split_rows(&job, 0, rows);
  else
    rlx_parallel_for(ctx, rows, grain, split_rows, &job);
  return RLX_OK;
}

static rlx_status split_vjp(rlx_graph *g, const rlx_node *n, rlx_value *const *output_grads, rlx_value **input_grads) {
  const split_params *p = rlx_node_params(n);
  int parts = rlx_node_output_count(n);
  bool any = false;
  for (int i = 0; i < parts; i++) any = any || output_grads[i];
  if (!any) return rlx_graph_status(g);
  rlx_value **grads = mem_array((size_t)parts, sizeof *grads);
  if (!grads) return rlx_graph_fail(g, RLX_OUT_OF_MEMORY, "no memory for %d gradients", parts);
  for (int i = 0; i < parts; i++)
    grads[i] = output_grads[i] ? output_grads[i] : graph_zeros_like(g, rlx_node_output(n, i));
  input_grads[0] = graph_axis_op(g, "onnx.Concat", grads, parts, p->axis);
  mem_free(grads);
  return rlx_graph_status(g);
}

static const rlx_op split = {
    .struct_size = sizeof(rlx_op),
    .name = "onnx.Split",
    .version = 13,
    .samples = (const char *const[]){"float[6,2], int64[3] = {1, 2, 3} => 3",
                                     "float[2,6] {axis = 1, num_outputs = 2} => 2", NULL},
    .doc = "Consecutive parts along axis: of the sizes in split, else equal ones (with num_outputs the last "
           "may be smaller).",
    .inputs = split_inputs,
    .outputs = split_outputs,
    .attrs = split_attrs,
    .params_size = sizeof(split_params),
    .traits = RLX_PURE,
    .infer = split_infer,
    .vjp = split_vjp,
    .eval = split_eval,
};

/* ---- sizes as an attribute, or (version 1) as an input of the data's type ------------------ */

typedef struct split2_params {
  uint64_t given;
  int64_t axis;
  rlx_ints split;
} split2_params;

static const rlx_attr_def split2_attrs[] = {
    {.name = "axis", .kind = RLX_ATTR_INT, .offset = offsetof(split2_params, axis)},
    {.name = "split", .kind = RLX_ATTR_INTS, .offset = offsetof(split2_params, split)},
    {0}};
static const rlx_port split2_inputs[] = {{.name = "input", .variable = "T", .dtypes = MOVE_WHOLE}, {0}};
static const rlx_port split1_inputs[] = {
    {.name = "input", .variable = "T", .dtypes = MOVE_WHOLE},
    {.name = "split", .variable = "T", .dtypes = MOVE_WHOLE, .flags = RLX_OPTIONAL},
    {0}};

static rlx_status split2_infer(rlx_infer *ctx) {
  const split2_params *p = rlx_infer_params(ctx);
  const split_params equal = {0};
  const rlx_type *x = rlx_infer_input(ctx, 0);
  if (x->rank == RLX_UNKNOWN) return RLX_OK;
  int axis, parts = rlx_infer_output_count(ctx);
  RLX_TRY(infer_axis(ctx, p->axis, x->rank, &axis));
  int64_t extent = x->dims[axis], dims[RLX_MAX_RANK];
  bool by_input = infer_given(ctx, 1), by_attribute = p->given & 2u;
  if (by_attribute) RLX_TRY(check_sizes(ctx, p->split.data, p->split.count, parts, extent));
  for (int d = 0; d < x->rank; d++) dims[d] = x->dims[d];
  for (int i = 0; i < parts; i++) {
    dims[axis] = by_attribute && !by_input ? p->split.data[i] : RLX_UNKNOWN;
    if (!by_attribute && !by_input && extent >= 0) RLX_TRY(equal_part(ctx, &equal, extent, parts, i, &dims[axis]));
    rlx_infer_set(ctx, i, x->rank, dims);
  }
  return RLX_OK;
}

static rlx_status split2_lower(rlx_graph *g, const rlx_node *n, rlx_value **outputs) {
  const split2_params *p = rlx_node_params(n);
  rlx_attr attr = RLX_ATTR_I("axis", p->axis);
  rlx_value *sizes = NULL;
  if (rlx_node_input(n, 1))
    sizes = graph_cast(g, rlx_node_input(n, 1), RLX_INT64);
  else if (p->given & 2u)
    sizes = graph_ints(g, p->split.data, p->split.count);
  rlx_value *inputs[2] = {rlx_node_input(n, 0), sizes};
  rlx_node_desc desc = {.struct_size = sizeof desc,
                        .op = "onnx.Split",
                        .inputs = inputs,
                        .input_count = sizes ? 2 : 1,
                        .attrs = &attr,
                        .attr_count = 1,
                        .output_count = rlx_node_output_count(n)};
  rlx_node *made = rlx_graph_node(g, &desc);
  for (int i = 0; made && i < desc.output_count; i++) outputs[i] = rlx_node_output(made, i);
  return rlx_graph_status(g);
}

static const rlx_op split_1 = {
    .struct_size = sizeof(rlx_op),
    .name = "onnx.Split",
    .version = 1,
    .samples = (const char *const[]){"float[6,2] {split = [1, 2, 3]} => 3", NULL},
    .doc = "Split whose sizes are an attribute or an input of the data's type.",
    .inputs = split1_inputs,
    .outputs = split_outputs,
    .attrs = split2_attrs,
    .params_size = sizeof(split2_params),
    .traits = RLX_PURE,
    .infer = split2_infer,
    .lower = split2_lower,
};

static const rlx_op split_2 = {
    .struct_size = sizeof(rlx_op),
    .name = "onnx.Split",
    .version = 2,
    .samples = (const char *const[]){"float[6,2] {split = [1, 2, 3]} => 3", NULL},
    .doc = "Split whose sizes are an attribute.",
    .inputs = split2_inputs,
    .outputs = split_outputs,
    .attrs = split2_attrs,
    .params_size = sizeof(split2_params),
    .traits = RLX_PURE,
    .infer = split2_infer,
    .lower = split2_lower,
};

static const rlx_op *const ops[] = {&split_1, &split_2, &split, NULL};
const rlx_module ops_split = {.ops = ops};
