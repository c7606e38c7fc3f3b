/* space_depth.c — SpaceToDepth and DepthToSpace: blocks of pixels to channels and back. */
#include <stddef.h>
#include <string.h>

#include "ir/module.h"
#include "ops/_strided.h"

typedef struct block_params {
  uint64_t given;
  int64_t blocksize;
  rlx_string mode;
} block_params;

static const rlx_attr_def block_attrs[] = {
    {.name = "blocksize",
     .kind = RLX_ATTR_INT,
     .flags = RLX_REQUIRED | RLX_RANGED,
     .offset = offsetof(block_params, blocksize),
     .min = 1,
     .max = 1 << 20},
    {.name = "mode", .kind = RLX_ATTR_STRING, .offset = offsetof(block_params, mode), .default_string = "DCR"},
    {0}};
static const rlx_port block_inputs[] = {{.name = "input", .variable = "T", .dtypes = MOVE_WHOLE}, {0}};
static const rlx_port block_outputs[] = {{.name = "output", .variable = "T", .dtypes = MOVE_WHOLE}, {0}};

/* CRD: the block's place is the fastest part of the channel; DCR: the slowest. */
static rlx_status block_mode(const void *context, const block_params *p, bool *crd) {
  *crd = p->mode.size == 3 && memcmp(p->mode.data, "CRD", 3) == 0;
  if (*crd || (p->mode.size == 3 && memcmp(p->mode.data, "DCR", 3) == 0)) return RLX_OK;
  return rlx_fail(context, RLX_INVALID, "mode is \"%.*s\", not DCR or CRD", (int)(p->mode.size & 63u), p->mode.data);
}

/* dim = known extent that must divide by n. */
static rlx_status divide(const void *context, const char *what, int64_t extent, int64_t n, int64_t *out) {
  *out = RLX_UNKNOWN;
  if (extent < 0) return RLX_OK;
  if (extent % n)
    return rlx_fail(context, RLX_INVALID, "%s of extent %lld does not divide by %lld", what, (long long)extent,
                    (long long)n);
  *out = extent / n;
  return RLX_OK;
}

static rlx_status block_infer(rlx_infer *ctx, bool to_depth) {
  const block_params *p = rlx_infer_params(ctx);
  const rlx_type *x = rlx_infer_input(ctx, 0);
  int64_t b = p->blocksize, dims[4] = {RLX_UNKNOWN, RLX_UNKNOWN, RLX_UNKNOWN, RLX_UNKNOWN};
  bool crd;
  rlx_status status = block_mode(ctx, p, &crd);
  if (status != RLX_OK) return status;
  if (x->rank >= 0 && x->rank != 4) return rlx_fail(ctx, RLX_INVALID, "input has rank %d, not 4", x->rank);
  if (x->rank == 4) {
    dims[0] = x->dims[0];
    if (to_depth) {
      dims[1] = dim_mul(x->dims[1], b * b);
      status = divide(ctx, "height", x->dims[2], b, &dims[2]);
      if (status == RLX_OK) status = divide(ctx, "width", x->dims[3], b, &dims[3]);
    } else {
      status = divide(ctx, "the channel dim", x->dims[1], b * b, &dims[1]);
      dims[2] = dim_mul(x->dims[2], b);
      dims[3] = dim_mul(x->dims[3], b);
    }
    if (status != RLX_OK) return status;
  }
  rlx_infer_set(ctx, 0, 4, dims);
  return RLX_OK;
}

static rlx_status space_to_depth_infer(rlx_infer *ctx) { return block_infer(ctx, true); }

static rlx_status depth_to_space_infer(rlx_infer *ctx) { return block_infer(ctx, false); }

/* Element strides of a depth-side tensor [n, c, h, w] seen as (n, block row, block column, c, h, w). */
static void depth_strides(const int64_t *dims, int64_t b, bool crd, int64_t s[6]) {
  int64_t plane = dims[2] * dims[3], channels = dims[1] / (b * b);
  int64_t place = crd ? plane : channels * plane;
  s[0] = dims[1] * plane;
  s[1] = b * place;
  s[2] = place;
  s[3] = crd ? b * b * plane : plane;
  s[4] = dims[3];
  s[5] = 1;
}

/* The same of a space-side tensor [n, c, h b, w b]. */
static void space_strides(const int64_t *dims, int64_t b, int64_t s[6]) {
  s[0] = dims[1] * dims[2] * dims[3];
  s[1] = dims[3];
  s[2] = 1;
  s[3] = dims[2] * dims[3];
  s[4] = b * dims[3];
  s[5] = b;
}

static rlx_status block_plan(const strided_node *n, strided_copy *c, bool to_depth) {
  const block_params *p = n->params;
  int64_t b = p->blocksize, from[6], to[6];
  bool crd;
  rlx_status status = block_mode(n->context, p, &crd);
  if (status != RLX_OK) return status;
  strided_view x = strided_input(n, 0), y = strided_output(n, 0);
  const int64_t *depth = to_depth ? y.dims : x.dims, *space = to_depth ? x.dims : y.dims;
  depth_strides(depth, b, crd, to_depth ? to : from);
  space_strides(space, b, to_depth ? from : to);
  int64_t extents[6] = {depth[0], b, b, depth[1] / (b * b), depth[2], depth[3]};
  /* In the order of the output's memory. */
  static const int depth_dcr[6] = {0, 1, 2, 3, 4, 5}, depth_crd[6] = {0, 3, 1, 2, 4, 5};
  static const int space_order[6] = {0, 3, 4, 1, 5, 2};
  const int *order = !to_depth ? space_order : crd ? depth_crd : depth_dcr;
  strided_begin(c, x.dtype, 0, 0);
  for (int i = 0; i < 6; i++) strided_dim(c, extents[order[i]], from[order[i]], to[order[i]]);
  strided_finish(c);
  return RLX_OK;
}

rlx_status space_to_depth_plan(const strided_node *n, strided_copy *c) { return block_plan(n, c, true); }

rlx_status depth_to_space_plan(const strided_node *n, strided_copy *c) { return block_plan(n, c, false); }

static rlx_status space_to_depth_eval(rlx_ctx *ctx) { return strided_eval(ctx, space_to_depth_plan); }

static rlx_status depth_to_space_eval(rlx_ctx *ctx) { return strided_eval(ctx, depth_to_space_plan); }

static rlx_status block_vjp(rlx_graph *g, const rlx_node *n, const char *inverse, rlx_value *dy, rlx_value **dx) {
  const block_params *p = rlx_node_params(n);
  rlx_attr attrs[2] = {RLX_ATTR_I("blocksize", p->blocksize), {.name = "mode", .kind = RLX_ATTR_STRING, .s = p->mode}};
  if (dy) *dx = rlx_graph_op(g, inverse, attrs, 2, &dy, 1);
  return rlx_graph_status(g);
}

static rlx_status space_to_depth_vjp(rlx_graph *g, const rlx_node *n, rlx_value *const *output_grads,
                                     rlx_value **input_grads) {
  return block_vjp(g, n, "onnx.DepthToSpace", output_grads[0], input_grads);
}

static rlx_status depth_to_space_vjp(rlx_graph *g, const rlx_node *n, rlx_value *const *output_grads,
                                     rlx_value **input_grads) {
  return block_vjp(g, n, "onnx.SpaceToDepth", output_grads[0], input_grads);
}

static const rlx_op space_to_depth = {
    .struct_size = sizeof(rlx_op),
    .name = "onnx.SpaceToDepth",
    .version = 1,
    .doc = "Each block of blocksize × blocksize pixels as channels of one pixel.",
    .samples =
        (const char *const[]){"float[2,3,4,6] {blocksize = 2}", "float[2,3,4,6] {blocksize = 2, mode = \"CRD\"}", NULL},
    .inputs = block_inputs,
    .outputs = block_outputs,
    .attrs = block_attrs,
    .params_size = sizeof(block_params),
    .traits = RLX_PURE,
    .infer = space_to_depth_infer,
    .vjp = space_to_depth_vjp,
    .eval = space_to_depth_eval,
};

static const rlx_op depth_to_space = {
    .struct_size = sizeof(rlx_op),
    .name = "onnx.DepthToSpace",
    .version = 1,
    .doc = "Channels of one pixel as a block of blocksize × blocksize pixels; mode says whether the block's "
           "place is the slowest (DCR) or the fastest (CRD) part of the channel.",
    .samples =
        (const char *const[]){"float[2,8,3,5] {blocksize = 2}", "float[2,8,3,5] {blocksize = 2, mode = \"CRD\"}", NULL},
    .inputs = block_inputs,
    .outputs = block_outputs,
    .attrs = block_attrs,
    .params_size = sizeof(block_params),
    .traits = RLX_PURE,
    .infer = depth_to_space_infer,
    .vjp = depth_to_space_vjp,
    .eval = depth_to_space_eval,
};

static const rlx_op *const ops[] = {&space_to_depth, &depth_to_space, NULL};
const rlx_module ops_space_depth = {.ops = ops};
