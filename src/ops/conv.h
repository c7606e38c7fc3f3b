/* conv.h — parameters and geometry of convolutions, for the op records and for kernels. */
#ifndef OPS_CONV_H
#define OPS_CONV_H

#include "ops/_window.h"

/* Params of onnx.Conv, onnx.ConvInteger and onnx.QLinearConv. */
typedef struct conv_params {
  uint64_t given;
  window_attrs window;
  int64_t group;
} conv_params;

#define CONV_ATTRS(type)                                                                                               \
  WINDOW_ATTRS(type), WINDOW_KERNEL(type, 0), {                                                                        \
    .name = "group", .kind = RLX_ATTR_INT, .flags = RLX_RANGED, .offset = offsetof(type, group), .default_int = 1,     \
    .min = 1, .max = INT32_MAX                                                                                         \
  }

/* X: batch × channels × in; W: maps × channels / group × kernel; Y: batch × maps × out. */
typedef struct conv_shape {
  window window;
  int64_t batch, channels, maps, group;
} conv_shape;

/* NULL, or why the shapes do not fit, in the buffer of rlx_reason. All dims must be known. */
const char *conv_resolve(const conv_params *p, int x_rank, const int64_t *x_dims, int w_rank, const int64_t *w_dims,
                         conv_shape *out);

/* Y = X ∗ W (+ bias, or NULL), directly, in `dtype`: float, double or int32. */
void conv_direct(rlx_ctx *ctx, const conv_shape *s, rlx_dtype dtype, const void *x, const void *w, const void *bias,
                 void *y);

/* Shape inference of X (input 0) and W (input `weights`) to output 0. */
rlx_status conv_infer(rlx_infer *ctx, int weights);

/* rlx_op.vjp of Conv; all dims must be known. */
rlx_status conv_vjp(rlx_graph *g, const rlx_node *n, rlx_value *const *dy, rlx_value **dx);

/* Of the convolution of that shape, whose dims are all known: the gradient of its weights. */
rlx_value *conv_weights_gradient(rlx_graph *g, const conv_shape *s, rlx_value *x, rlx_value *dy);
/* The sum of v over all axes but the second: the gradient of a bias. */
rlx_value *conv_bias_gradient(rlx_graph *g, rlx_value *v, int rank);

#endif
