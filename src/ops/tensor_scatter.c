/* tensor_scatter.c — TensorScatter: an update written into a cache from a position on, for each batch entry. */
#include <stddef.h>
#include <string.h>

#include "ir/module.h"
#include "ir/shape.h"
#include "ops/_derivative.h"
#include "ops/_move.h"
#include "ops/_tensor_scatter.h"

typedef struct tensor_scatter_params {
  uint64_t given;
  int64_t axis;
  rlx_string mode;
} tensor_scatter_params;

static const rlx_attr_def tensor_scatter_attrs[] = {
    {.name = "axis", .kind = RLX_ATTR_INT, .offset = offsetof(tensor_scatter_params, axis), .default_int = -2},
    {.name = "mode",
     .kind = RLX_ATTR_STRING,
     .offset = offsetof(tensor_scatter_params, mode),
     .default_string = "linear"},
    {0}};
static const rlx_port tensor_scatter_inputs[] = {{.name = "past_cache", .variable = "T"},
                                                 {.name = "update", .variable = "T"},
                                                 {.name = "write_indices", .dtypes = MOVE_INT64, .flags = RLX_OPTIONAL},
                                                 {0}};
static const rlx_port tensor_scatter_outputs[] = {{.name = "present_cache", .variable = "T"}, {0}};

static rlx_status scatter_mode(const void *context, rlx_string mode, bool *circular) {
  *circular = mode.size == 8 && memcmp(mode.data, "circular", 8) == 0;
  if (*circular || (mode.size == 6 && memcmp(mode.data, "linear", 6) == 0)) return RLX_OK;
  return rlx_fail(context, RLX_INVALID, "mode is \"%.*s\"", (int)(mode.size > 64 ? 64 : mode.size), mode.data);
}

static rlx_status tensor_scatter_infer(rlx_infer *ctx) {
  const tensor_scatter_params *p = rlx_infer_params(ctx);
  const rlx_type *x = rlx_infer_input(ctx, 0), *update = rlx_infer_input(ctx, 1);
  bool circular;
  int axis;
  rlx_infer_like(ctx, 0, 0);
  rlx_status status = scatter_mode(ctx, p->mode, &circular);
  if (status != RLX_OK || x->rank < 0) return status;
  status = infer_axis(ctx, p->axis, x->rank, &axis);
  if (status != RLX_OK) return status;
  if (axis == 0) return rlx_fail(ctx, RLX_INVALID, "axis is the batch dim");
  if (update->rank < 0) return RLX_OK;
  if (update->rank != x->rank) return rlx_fail(ctx, RLX_INVALID, "cache has rank %d, update %d", x->rank, update->rank);
  for (int d = 0; d < x->rank; d++) {
    int64_t have = x->dims[d], got = update->dims[d];
    if (have >= 0 && got >= 0 && (d == axis ? got > have : got != have))
      return rlx_fail(ctx, RLX_INVALID, "dim %d of the cache has extent %lld, of update %lld", d, (long long)have,
                      (long long)got);
  }
  int64_t n = infer_length(ctx, 2);
  if (n >= 0 && x->dims[0] >= 0 && n != x->dims[0])
    return rlx_fail(ctx, RLX_INVALID, "%lld write_indices for a batch of %lld", (long long)n, (long long)x->dims[0]);
  return RLX_OK;
}

rlx_status tensor_scatter_run(rlx_ctx *ctx) {
  const tensor_scatter_params *p = ctx->params;
  const rlx_operand *x = &ctx->inputs[0], *update = &ctx->inputs[1];
  void *to = ctx->outputs[0].data;
  bool circular;
  rlx_status status = scatter_mode(ctx, p->mode, &circular);
  if (status != RLX_OK) return status;
  int axis = axis_normalise(p->axis, x->rank);
  int64_t extent = x->dims[axis], length = update->dims[axis], inner = dims_product(x->dims, axis + 1, x->rank);
  int64_t groups = dims_product(x->dims, 1, axis);
  move_bytes(ctx, to, x->data, x->bytes);
  for (int64_t g = 0; update->count && g < x->dims[0] * groups; g++) {
    int64_t start = run_given(ctx, 2) ? index_load(&ctx->inputs[2], g / groups) : 0;
    if (start < 0 || start > extent || (!circular && start > extent - length))
      return rlx_fail(ctx, RLX_INVALID, "an update of %lld at %lld does not fit a cache of %lld", (long long)length,
                      (long long)start, (long long)extent);
    int64_t first = length < extent - start ? length : extent - start;
    int64_t from = g * length * inner, row = g * extent * inner;
    move_elements(x->dtype, to, row + start * inner, update->data, from, first * inner);
    move_elements(x->dtype, to, row, update->data, from + first * inner, (length - first) * inner);
  }
  return RLX_OK;
}

/* The cache's gradient is zero where the update went; the update's is read from there. */
static rlx_status tensor_scatter_vjp(rlx_graph *g, const rlx_node *n, rlx_value *const *grads, rlx_value **dx) {
  const tensor_scatter_params *p = rlx_node_params(n);
  rlx_value *in[4] = {grads[0], rlx_node_input(n, 0), rlx_node_input(n, 1), rlx_node_input(n, 2)};
  int rank = rlx_value_type(in[1])->rank, axis = rank < 2 ? -1 : axis_normalise(p->axis, rank), others = 0;
  int64_t list[RLX_MAX_RANK];
  char axes[300];
  if (!grads[0]) return RLX_OK;
  if (axis < 1) return rlx_graph_fail(g, RLX_UNSUPPORTED, "the rank must be known");
  for (int d = 1; d < rank; d++)
    if (d != axis) list[others++] = d;
  return derivative_text(
      g, in, dx,
      "scatter (dy, past, update, at) => (da, db) <int64[%d] axes = {%s}, int64 axis = {%d}, int64 zero = {0},"
      " int64 one = {1}, int64[1] second = {1}> {"
      " us = Shape (update) nothing = Sub (update, update)"
      " da = TensorScatter <axis = %d, mode = \"%.*s\"> (dy, nothing, at)"
      " length = Gather (us, axis) ps = Shape (past) room = Gather (ps, axis) row = Range (zero, length, one)"
      " batch = Shape <end = 1> (update) %s u = Unsqueeze (start, second) v = Add (u, row) w = Mod (v, room) %s"
      " i = Expand (x, us) db = GatherElements <axis = %d> (dy, i) }",
      others, derivative_list(list, others, axes, sizeof axes), axis, axis, (int)p->mode.size, p->mode.data,
      in[3] ? "start = Cast <to = 7> (at)" : "start = ConstantOfShape <value = int64[1] {0}> (batch)",
      others ? "x = Unsqueeze (w, axes)" : "x = Identity (w)", axis);
}

static const rlx_op tensor_scatter = {
    .struct_size = sizeof(rlx_op),
    .name = "onnx.TensorScatter",
    .version = 24,
    .samples = (const char *const[]){"float[2,3,4], float[2,2,4], int64[2] = {0, 1} {axis = 1}",
                                     "float[1,3,5,2], float[1,3,1,2] {axis = 2}", NULL},
    .doc = "past_cache with the update written along axis from write_indices[batch] on; mode circular goes on at the "
           "beginning.",
    .inputs = tensor_scatter_inputs,
    .outputs = tensor_scatter_outputs,
    .attrs = tensor_scatter_attrs,
    .params_size = sizeof(tensor_scatter_params),
    .traits = RLX_PURE,
    .infer = tensor_scatter_infer,
    .vjp = tensor_scatter_vjp,
    .eval = tensor_scatter_run,
};

static const rlx_op *const ops[] = {&tensor_scatter, NULL};
const rlx_module ops_tensor_scatter = {.ops = ops};
