/* conv.c — onnx.Conv, ConvInteger and QLinearConv. */
#include "ops/conv.h"

#include <math.h>
#include <string.h>

#include "base/status.h"
#include "ir/module.h"
#include "ir/shape.h"
#include "ops/_number.h"
#include "ops/_wide.h"

const char *conv_resolve(const conv_params *p, int x_rank, const int64_t *x_dims, int w_rank, const int64_t *w_dims,
                         conv_shape *out) {
  if (x_rank < 3 || w_rank != x_rank) return rlx_reason("an input of rank %d and weights of rank %d", x_rank, w_rank);
  *out = (conv_shape){.batch = x_dims[0], .channels = x_dims[1], .maps = w_dims[0], .group = p->group};
  if (x_dims[1] != w_dims[1] * p->group) {
    return rlx_reason("%lld input channels, but weights for %lld in %lld groups", (long long)x_dims[1],
                      (long long)w_dims[1], (long long)p->group);
  }
  if (w_dims[0] % p->group != 0) {
    return rlx_reason("%lld output channels in %lld groups", (long long)w_dims[0], (long long)p->group);
  }
  return window_resolve(&p->window, x_rank - 2, x_dims + 2, w_dims + 2, &out->window);
}

/* Channels where both are known. */
static rlx_status check_channels(rlx_infer *ctx, const conv_params *p, const int64_t *x, const int64_t *w) {
  if (x[1] != RLX_UNKNOWN && w[1] != RLX_UNKNOWN && x[1] != w[1] * p->group) {
    return rlx_fail(ctx, RLX_INVALID, "%lld input channels, but weights for %lld in %lld groups", (long long)x[1],
                    (long long)w[1], (long long)p->group);
  }
  if (w[0] != RLX_UNKNOWN && w[0] % p->group != 0) {
    return rlx_fail(ctx, RLX_INVALID, "%lld output channels in %lld groups", (long long)w[0], (long long)p->group);
  }
  return RLX_OK;
}

rlx_status conv_infer(rlx_infer *ctx, int weights) {
  const conv_params *p = rlx_infer_params(ctx);
  const rlx_type *x = rlx_infer_input(ctx, 0), *w = rlx_infer_input(ctx, weights);
  int rank = x->rank != RLX_UNKNOWN ? x->rank : w->rank;
  if (rank == RLX_UNKNOWN) rank = window_stated_rank(&p->window) + 2;
  if (rank == 1) return RLX_OK; /* nothing says it */
  if (rank < 3 || (w->rank != RLX_UNKNOWN && w->rank != rank)) {
    return rlx_fail(ctx, RLX_INVALID, "an input of rank %d and weights of rank %d", rank, w->rank);
  }
  int64_t xd[RLX_MAX_RANK], wd[RLX_MAX_RANK];
  for (int d = 0; d < rank; d++) {
    xd[d] = x->rank == RLX_UNKNOWN ? RLX_UNKNOWN : x->dims[d];
    wd[d] = w->rank == RLX_UNKNOWN ? RLX_UNKNOWN : w->dims[d];
    if (d >= 2 && wd[d] == RLX_UNKNOWN && p->window.kernel_shape.count == rank - 2) {
      wd[d] = p->window.kernel_shape.data[d - 2];
    }
  }
  RLX_TRY(check_channels(ctx, p, xd, wd));
  window win;
  const char *bad = window_resolve(&p->window, rank - 2, xd + 2, wd + 2, &win);
  if (bad) return rlx_fail(ctx, RLX_INVALID, "%s", bad);
  int64_t dims[RLX_MAX_RANK] = {xd[0], wd[0]};
  memcpy(dims + 2, win.out, (size_t)(rank - 2) * sizeof *dims);
  rlx_infer_set(ctx, 0, rank, dims);
  return RLX_OK;
}

/* The shape of a run, with the bias checked. */
static rlx_status resolve(rlx_ctx *ctx, int weights, int bias, conv_shape *s) {
  const rlx_operand *x = &ctx->inputs[0], *w = &ctx->inputs[weights];
  const char *bad = conv_resolve(ctx->params, x->rank, x->dims, w->rank, w->dims, s);
  if (bad) return rlx_fail(ctx, RLX_INVALID, "%s", bad);
  if (ctx->input_count > bias && ctx->inputs[bias].data && ctx->inputs[bias].count != s->maps) {
    return rlx_fail(ctx, RLX_INVALID, "a bias of %lld elements for %lld output channels",
                    (long long)ctx->inputs[bias].count, (long long)s->maps);
  }
  return RLX_OK;
}

/* ---- Conv ------------------------------------------------------------------------------------------------------- */

static rlx_status infer_conv(rlx_infer *ctx) { return conv_infer(ctx, 1); }

static rlx_status eval_conv(rlx_ctx *ctx) {
  conv_shape s;
  RLX_TRY(resolve(ctx, 1, 2, &s));
  rlx_dtype dtype = wide_dtype(ctx->inputs[0].dtype);
  static const rlx_operand none;
  wide x = {0}, w = {0}, b = {0}, y = {0};
  rlx_status status = wide_input(ctx, &ctx->inputs[0], dtype, &x);
  if (!status) status = wide_input(ctx, &ctx->inputs[1], dtype, &w);
  if (!status) status = wide_input(ctx, ctx->input_count > 2 ? &ctx->inputs[2] : &none, dtype, &b);
  if (!status) status = wide_output(ctx, &ctx->outputs[0], dtype, &y);
  if (!status) {
    conv_direct(ctx, &s, dtype, x.data, w.data, b.data, y.data);
    wide_store(&y, &ctx->outputs[0]);
  }
  wide_finish(&x), wide_finish(&w), wide_finish(&b), wide_finish(&y);
  return status;
}

static const rlx_attr_def conv_attrs[] = {CONV_ATTRS(conv_params), {0}};
static const char *const conv_samples[] = {
    "float[1,2,5,6], float[4,2,3,3], float[4] {pads = [1,1,1,1], strides = [2,1]}",
    "float[2,4,9], float[6,2,3] {group = 2, dilations = [2], auto_pad = \"SAME_UPPER\"}",
    "float[1,3,4,4,4], float[2,3,2,2,2]", NULL};
static const rlx_op conv = {
    .struct_size = sizeof(rlx_op),
    .name = "onnx.Conv",
    .version = 1,
    .doc = "N-dimensional convolution (cross-correlation) with groups, strides, dilations and padding.",
    .samples = conv_samples,
    .inputs = (const rlx_port[]){{"X", "T", RLX_SET_FLOATS, 0, 0},
                                 {"W", "T", RLX_SET_FLOATS, 0, 0},
                                 {"B", "T", RLX_SET_FLOATS, RLX_OPTIONAL, 0},
                                 {0}},
    .outputs = (const rlx_port[]){{"Y", "T", RLX_SET_FLOATS, 0, 0}, {0}},
    .attrs = conv_attrs,
    .params_size = sizeof(conv_params),
    .traits = RLX_PURE,
    .infer = infer_conv,
    .vjp = conv_vjp,
    .eval = eval_conv,
};

/* ---- ConvInteger ------------------------------------------------------------------------------------------------ */

#define BYTES (RLX_SET(RLX_INT8) | RLX_SET(RLX_UINT8))

static const rlx_operand *optional(const rlx_ctx *ctx, int i) {
  return i < ctx->input_count && ctx->inputs[i].data ? &ctx->inputs[i] : NULL;
}

static rlx_status infer_conv_integer(rlx_infer *ctx) {
  rlx_infer_output(ctx, 0)->dtype = RLX_INT32;
  return conv_infer(ctx, 1);
}

static rlx_status eval_conv_integer(rlx_ctx *ctx) {
  conv_shape s;
  RLX_TRY(resolve(ctx, 1, 4, &s));
  wide x = {0}, w = {0};
  int64_t filter = s.channels / s.group * window_kernel_count(&s.window);
  rlx_status status = wide_centred(ctx, &ctx->inputs[0], optional(ctx, 2), 1, 1, &x);
  if (!status) status = wide_centred(ctx, &ctx->inputs[1], optional(ctx, 3), s.maps, filter, &w);
  if (!status) conv_direct(ctx, &s, RLX_INT32, x.data, w.data, NULL, ctx->outputs[0].data);
  wide_finish(&x), wide_finish(&w);
  return status;
}

static const rlx_op conv_integer = {
    .struct_size = sizeof(rlx_op),
    .name = "onnx.ConvInteger",
    .version = 10,
    .samples = (const char *const[]){"uint8[1,2,5,5], uint8[3,2,3,3], uint8[] = {3}, uint8[] = {2}",
                                     "uint8[1,1,4,4], int8[1,1,2,2] {pads = [1, 1, 0, 0], strides = [2, 2]}", NULL},
    .doc = "Convolution of 8-bit integers less their zero points, into int32.",
    .inputs = (const rlx_port[]){{"x", "T1", BYTES, 0, 0},
                                 {"w", "T2", BYTES, 0, 0},
                                 {"x_zero_point", "T1", BYTES, RLX_OPTIONAL, 0},
                                 {"w_zero_point", "T2", BYTES, RLX_OPTIONAL, 0},
                                 {0}},
    .outputs = (const rlx_port[]){{"y", "T3", RLX_SET(RLX_INT32), 0, 0}, {0}},
    .attrs = conv_attrs,
    .params_size = sizeof(conv_params),
    .traits = RLX_PURE,
    .infer = infer_conv_integer,
    .eval = eval_conv_integer,
};

/* ---- QLinearConv ------------------------------------------------------------------------------------------------ */

enum { Q_X, Q_X_SCALE, Q_X_ZERO, Q_W, Q_W_SCALE, Q_W_ZERO, Q_Y_SCALE, Q_Y_ZERO, Q_BIAS };

static rlx_status infer_qlinear_conv(rlx_infer *ctx) { return conv_infer(ctx, Q_W); }

/* y = saturate(round(sum * x_scale * w_scale / y_scale) + y_zero). */
static rlx_status requantize(rlx_ctx *ctx, const conv_shape *s, const int32_t *sum) {
  const rlx_operand *in = ctx->inputs, *y = &ctx->outputs[0];
  int64_t scales = in[Q_W_SCALE].count, plane = window_out_count(&s->window);
  if ((scales != 1 && scales != s->maps) || in[Q_X_SCALE].count != 1 || in[Q_Y_SCALE].count != 1 ||
      in[Q_Y_ZERO].count != 1) {
    return rlx_fail(ctx, RLX_INVALID, "scales or zero points that do not fit %lld output channels", (long long)s->maps);
  }
  float x_scale = *(const float *)in[Q_X_SCALE].data, y_scale = *(const float *)in[Q_Y_SCALE].data;
  double zero = (double)dtype_load_int(in[Q_Y_ZERO].dtype, in[Q_Y_ZERO].data, 0);
  double low = y->dtype == RLX_INT8 ? -128 : 0, high = y->dtype == RLX_INT8 ? 127 : 255;
  for (int64_t i = 0; i < y->count; i++) {
    float w_scale = ((const float *)in[Q_W_SCALE].data)[scales == 1 ? 0 : i / plane % s->maps];
    double value = nearbyint((double)sum[i] * ((double)x_scale * (double)w_scale / (double)y_scale)) + zero;
    number_store(y->dtype, y->data, i, fmin(fmax(value, low), high));
  }
  return RLX_OK;
}

static rlx_status eval_qlinear_conv(rlx_ctx *ctx) {
  conv_shape s;
  RLX_TRY(resolve(ctx, Q_W, Q_BIAS, &s));
  wide x = {0}, w = {0}, sum = {0};
  int64_t filter = s.channels / s.group * window_kernel_count(&s.window);
  const rlx_operand *bias = optional(ctx, Q_BIAS);
  rlx_status status = wide_centred(ctx, &ctx->inputs[Q_X], &ctx->inputs[Q_X_ZERO], 1, 1, &x);
  if (!status) status = wide_centred(ctx, &ctx->inputs[Q_W], &ctx->inputs[Q_W_ZERO], s.maps, filter, &w);
  if (!status) status = wide_output(ctx, &ctx->outputs[0], RLX_INT32, &sum);
  if (!status) {
    conv_direct(ctx, &s, RLX_INT32, x.data, w.data, bias ? bias->data : NULL, sum.data);
    status = requantize(ctx, &s, sum.data);
  }
  wide_finish(&x), wide_finish(&w), wide_finish(&sum);
  return status;
}

#define FLOAT RLX_SET(RLX_FLOAT)
static const rlx_op qlinear_conv = {
    .struct_size = sizeof(rlx_op),
    .name = "onnx.QLinearConv",
    .version = 10,
    .samples = (const char *const[]){"uint8[1,2,5,5], float[] = {0.1}, uint8[] = {3}, uint8[3,2,3,3], float[] = {0.2}, "
                                     "uint8[] = {2}, float[] = {0.9}, uint8[] = {5}, int32[3]",
                                     "uint8[1,1,4,4], float[] = {0.1}, uint8[] = {3}, int8[2,1,2,2], float[2] = {0.2, "
                                     "0.3}, int8[2] = {0, 1}, float[] = {0.9}, uint8[] = {5}",
                                     NULL},
    .doc = "Convolution of quantised tensors; the sum is exact in int32 and quantised again.",
    .inputs = (const rlx_port[]){{"x", "T1", BYTES, 0, 0},
                                 {"x_scale", NULL, FLOAT, 0, 0},
                                 {"x_zero_point", "T1", BYTES, 0, 0},
                                 {"w", "T2", BYTES, 0, 0},
                                 {"w_scale", NULL, FLOAT, 0, 0},
                                 {"w_zero_point", "T2", BYTES, 0, 0},
                                 {"y_scale", NULL, FLOAT, 0, 0},
                                 {"y_zero_point", "T3", BYTES, 0, 0},
                                 {"B", NULL, RLX_SET(RLX_INT32), RLX_OPTIONAL, 0},
                                 {0}},
    .outputs = (const rlx_port[]){{"y", "T3", BYTES, 0, 0}, {0}},
    .attrs = conv_attrs,
    .params_size = sizeof(conv_params),
    .traits = RLX_PURE,
    .infer = infer_qlinear_conv,
    .eval = eval_qlinear_conv,
};

static const rlx_op *const ops[] = {&conv, &conv_integer, &qlinear_conv, NULL};
const rlx_module ops_conv = {.ops = ops};
