/* col2im.c — onnx.Col2Im: sums columns of blocks back into an image. */
#include <string.h>

#include "base/status.h"
#include "ir/module.h"
#include "ops/_derivative.h"
#include "ops/_number.h"
#include "ops/_window.h"

typedef struct col2im_params {
  uint64_t given;
  window_attrs window;
} col2im_params;

enum { COLUMNS, IMAGE, BLOCK };

static rlx_status infer(rlx_infer *ctx) {
  const rlx_type *x = rlx_infer_input(ctx, COLUMNS);
  const rlx_tensor *image = rlx_infer_value(ctx, IMAGE), *block = rlx_infer_value(ctx, BLOCK);
  if (x->rank != RLX_UNKNOWN && x->rank != 3) return rlx_fail(ctx, RLX_INVALID, "an input of rank %d, not 3", x->rank);
  const rlx_type *type = rlx_infer_input(ctx, IMAGE);
  int64_t axes = image ? rlx_tensor_count(image) : type->rank == 1 ? type->dims[0] : RLX_UNKNOWN;
  if (axes == RLX_UNKNOWN) return RLX_OK;
  if (axes < 1 || axes > WINDOW_MAX) return rlx_fail(ctx, RLX_INVALID, "an image of %lld axes", (long long)axes);
  int64_t dims[RLX_MAX_RANK] = {x->rank == 3 ? x->dims[0] : RLX_UNKNOWN, RLX_UNKNOWN}, taps = 1;
  for (int64_t d = 0; d < axes; d++) {
    dims[d + 2] = image ? ((const int64_t *)rlx_tensor_data(image))[d] : RLX_UNKNOWN;
    if (image && dims[d + 2] < 0) return rlx_fail(ctx, RLX_INVALID, "image_shape holds %lld", (long long)dims[d + 2]);
  }
  if (block) {
    for (int64_t d = 0; d < rlx_tensor_count(block); d++) {
      int64_t k = ((const int64_t *)rlx_tensor_data(block))[d];
      if (k < 1 || __builtin_mul_overflow(taps, k, &taps)) {
        return rlx_fail(ctx, RLX_INVALID, "block_shape holds %lld", (long long)k);
      }
    }
    if (x->rank == 3 && x->dims[1] != RLX_UNKNOWN) {
      if (x->dims[1] % taps) {
        return rlx_fail(ctx, RLX_INVALID, "%lld rows of blocks of %lld", (long long)x->dims[1], (long long)taps);
      }
      dims[1] = x->dims[1] / taps;
    }
  }
  rlx_infer_set(ctx, 0, (int)axes + 2, dims);
  return RLX_OK;
}

/* One image plane: `columns` is taps × positions. */
NUMBER_INLINE void add_plane(rlx_dtype t, const window *w, const void *x, int64_t from, void *y, int64_t to) {
  bool real = t == RLX_FLOAT || t == RLX_DOUBLE || t == RLX_FLOAT16 || t == RLX_BFLOAT16;
  int64_t tap[WINDOW_MAX] = {0};
  do {
    int64_t at[WINDOW_MAX] = {0};
    do {
      int64_t flat = 0;
      bool inside = true;
      for (int d = 0; d < w->rank; d++) {
        int64_t position = at[d] * w->stride[d] - w->begin[d] + tap[d] * w->dilation[d];
        inside = inside && position >= 0 && position < w->in[d];
        flat = flat * w->in[d] + position;
      }
      if (inside && real) {
        number_store(t, y, to + flat, number_load(t, y, to + flat) + number_load(t, x, from));
      } else if (inside) {
        uint64_t sum = (uint64_t)number_load_int(t, y, to + flat) + (uint64_t)number_load_int(t, x, from);
        number_store_int(t, y, to + flat, (int64_t)sum);
      }
      from++;
    } while (window_next(w->rank, w->out, at));
  } while (window_next(w->rank, w->kernel, tap));
}

NUMBER_INLINE rlx_status body(rlx_dtype t, rlx_ctx *ctx, const window *w) {
  const rlx_operand *x = &ctx->inputs[COLUMNS], *y = &ctx->outputs[0];
  int64_t out = window_in_count(w), columns = window_kernel_count(w) * window_out_count(w);
  memset(y->data, 0, (size_t)y->bytes);
  for (int64_t i = 0; columns && out && i < y->count / out; i++) {
    add_plane(t, w, x->data, i * columns, y->data, i * out);
  }
  return RLX_OK;
}

#define X(dtype, c_type, compute, class)                                                                               \
  static rlx_status sum_##dtype(rlx_ctx *ctx, const window *w) { return body(RLX_##dtype, ctx, w); }
#include "ir/dtype.def"
X(FLOAT16, , , )
X(BFLOAT16, , , )
#undef X

static rlx_status (*const sums[RLX_DTYPE_COUNT])(rlx_ctx *ctx, const window *w) = {
#define X(dtype, c_type, compute, class) [RLX_##dtype] = sum_##dtype,
#include "ir/dtype.def"
    X(FLOAT16, , , ) X(BFLOAT16, , , )
#undef X
};

static rlx_status eval(rlx_ctx *ctx) {
  const col2im_params *p = ctx->params;
  const rlx_operand *x = &ctx->inputs[COLUMNS], *image = &ctx->inputs[IMAGE], *block = &ctx->inputs[BLOCK];
  int64_t axes = image->count;
  if (x->rank != 3 || axes < 1 || axes > WINDOW_MAX || block->count != axes) {
    return rlx_fail(ctx, RLX_INVALID, "an input of rank %d, an image of %lld axes, blocks of %lld", x->rank,
                    (long long)axes, (long long)block->count);
  }
  window w;
  const char *bad = window_resolve(&p->window, (int)axes, image->data, block->data, &w);
  if (bad) return rlx_fail(ctx, RLX_INVALID, "%s", bad);
  int64_t taps = window_kernel_count(&w);
  if (x->dims[1] % taps || x->dims[2] != window_out_count(&w) ||
      ctx->outputs[0].count != x->dims[0] * (x->dims[1] / taps) * window_in_count(&w)) {
    return rlx_fail(ctx, RLX_INVALID, "%lld × %lld columns do not fit the blocks of the image", (long long)x->dims[1],
                    (long long)x->dims[2]);
  }
  if (!sums[x->dtype]) return rlx_fail(ctx, RLX_UNSUPPORTED, "element type %s", rlx_dtype_name(x->dtype));
  return sums[x->dtype](ctx, &w);
}

/* dX: every block of dY as a column: a convolution with a filter for each place in the block. */
static rlx_status vjp(rlx_graph *g, const rlx_node *n, rlx_value *const *dy, rlx_value **dx) {
  const col2im_params *p = rlx_node_params(n);
  const rlx_tensor *image = rlx_node_constant(n, IMAGE), *block = rlx_node_constant(n, BLOCK);
  window w;
  if (!dy[0]) return RLX_OK;
  if (!image || !block) return rlx_graph_fail(g, RLX_UNSUPPORTED, "image_shape and block_shape are not constant");
  const char *bad =
      window_resolve(&p->window, (int)rlx_tensor_count(image), rlx_tensor_data(image), rlx_tensor_data(block), &w);
  if (bad) return rlx_graph_fail(g, RLX_INVALID, "%s", bad);
  char in[300], kernel[300], strides[300], dilations[300], begin[300], end[300];
  const char *dtype = rlx_dtype_name(rlx_value_type(rlx_node_input(n, COLUMNS))->dtype);
  long long taps = window_kernel_count(&w);
  return derivative_text(g, (rlx_value *[]){dy[0], rlx_node_input(n, COLUMNS)}, dx,
                         "columns (dy, x) => (dx) <int64[%d] rows = {-1, 1, %s}, int64[%d] taps = {%lld, 1, %s},"
                         " int64[2] square = {%lld, %lld}> { r = Reshape (dy, rows)"
                         " z = ConstantOfShape <value = %s[1] {0}> (square) e = EyeLike (z) k = Reshape (e, taps)"
                         " c = Conv <strides = [%s], dilations = [%s], pads = [%s, %s]> (r, k)"
                         " s = Shape (x) dx = Reshape (c, s) }",
                         w.rank + 2, derivative_list(w.in, w.rank, in, sizeof in), w.rank + 2, taps,
                         derivative_list(w.kernel, w.rank, kernel, sizeof kernel), taps, taps, dtype,
                         derivative_list(w.stride, w.rank, strides, sizeof strides),
                         derivative_list(w.dilation, w.rank, dilations, sizeof dilations),
                         derivative_list(w.begin, w.rank, begin, sizeof begin),
                         derivative_list(w.end, w.rank, end, sizeof end));
}

static const rlx_attr_def attrs[] = {
    {.name = "strides", .kind = RLX_ATTR_INTS, .offset = offsetof(col2im_params, window.strides)},
    {.name = "pads", .kind = RLX_ATTR_INTS, .offset = offsetof(col2im_params, window.pads)},
    {.name = "dilations", .kind = RLX_ATTR_INTS, .offset = offsetof(col2im_params, window.dilations)},
    {0}};
#define VALUES (RLX_SET_NUMBERS | RLX_SET(RLX_BOOL))
static const rlx_op col2im = {
    .struct_size = sizeof(rlx_op),
    .name = "onnx.Col2Im",
    .version = 18,
    .samples =
        (const char *const[]){
            "float[1,8,9], int64[2] = {4, 4}, int64[2] = {2, 2}",
            "float[2,4,4], int64[2] = {3, 3}, int64[2] = {2, 2} {strides = [2, 2], pads = [0, 0, 1, 1]}", NULL},
    .doc = "Sums blocks, each a column, into the image they were cut from.",
    .inputs = (const rlx_port[]){{"input", "T", VALUES, 0, 0},
                                 {"image_shape", NULL, RLX_SET(RLX_INT64), RLX_HOST, 0},
                                 {"block_shape", NULL, RLX_SET(RLX_INT64), RLX_HOST, 0},
                                 {0}},
    .outputs = (const rlx_port[]){{"output", "T", VALUES, 0, 0}, {0}},
    .attrs = attrs,
    .params_size = sizeof(col2im_params),
    .traits = RLX_PURE,
    .infer = infer,
    .vjp = vjp,
    .eval = eval,
};

static const rlx_op *const ops[] = {&col2im, NULL};
const rlx_module ops_col2im = {.ops = ops};
