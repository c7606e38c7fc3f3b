/* _window.h — geometry of sliding windows: convolutions and pooling share it. */
#ifndef OPS_WINDOW_H
#define OPS_WINDOW_H

#include <rlx/extend.h>

#define WINDOW_MAX (RLX_MAX_RANK - 2)

/* The attributes of ONNX's window ops, as members of an op's params. */
typedef struct window_attrs {
  rlx_string auto_pad;
  rlx_ints kernel_shape, strides, pads, dilations;
  int64_t ceil_mode;
} window_attrs;

/* Rows of rlx_op.attrs for a params struct `type` with a window_attrs member `window`; kernel_shape apart. */
#define WINDOW_KERNEL(type, attr_flags)                                                                                \
  {.name = "kernel_shape", .kind = RLX_ATTR_INTS, .flags = (attr_flags), .offset = offsetof(type, window.kernel_shape)}
#define WINDOW_CEIL(type)                                                                                              \
  {.name = "ceil_mode", .kind = RLX_ATTR_INT, .offset = offsetof(type, window.ceil_mode)}
#define WINDOW_STEPS(type)                                                                                             \
  {.name = "strides", .kind = RLX_ATTR_INTS, .offset = offsetof(type, window.strides)},                                \
      {.name = "pads", .kind = RLX_ATTR_INTS, .offset = offsetof(type, window.pads)}
#define WINDOW_DILATIONS(type)                                                                                         \
  {.name = "dilations", .kind = RLX_ATTR_INTS, .offset = offsetof(type, window.dilations)}
#define WINDOW_ATTRS(type)                                                                                             \
  {.name = "auto_pad", .kind = RLX_ATTR_STRING, .offset = offsetof(type, window.auto_pad),                             \
   .default_string = "NOTSET"},                                                                                        \
      WINDOW_STEPS(type), WINDOW_DILATIONS(type)

/* Per spatial axis, with defaults and auto_pad resolved. Dims that are not known are RLX_UNKNOWN. */
typedef struct window {
  int rank;
  int64_t in[WINDOW_MAX], kernel[WINDOW_MAX], stride[WINDOW_MAX], dilation[WINDOW_MAX];
  int64_t begin[WINDOW_MAX], end[WINDOW_MAX]; /* padding */
  int64_t out[WINDOW_MAX];
} window;

/* NULL, or why the attributes make no sense, in the buffer of rlx_reason. `kernel` has the window's size (of the
 * weights, or kernel_shape), `in` the spatial dims; either may hold RLX_UNKNOWN. */
const char *window_resolve(const window_attrs *a, int rank, const int64_t *in, const int64_t *kernel, window *out);
/* The spatial rank that the attributes state, or -1. */
int window_stated_rank(const window_attrs *a);
/* Products over the spatial axes. */
int64_t window_in_count(const window *w);
int64_t window_out_count(const window *w);
int64_t window_kernel_count(const window *w);

/* Infers an op that takes N x C x D1 … and keeps N and C: pooling. Output 1 (indices) likewise if wanted. */
rlx_status window_infer_pool(rlx_infer *ctx, const window_attrs *a);
/* Resolves the window of a pooling op in eval, from the operands. */
rlx_status window_of_pool(rlx_ctx *ctx, const window_attrs *a, window *out);

/* Output positions [*first, *last) along `axis` whose tap `k` lies inside the input. */
static inline void window_span(const window *w, int axis, int64_t k, int64_t *first, int64_t *last) {
  int64_t offset = k * w->dilation[axis] - w->begin[axis], stride = w->stride[axis], out = w->out[axis];
  int64_t low = offset >= 0 ? 0 : (-offset + stride - 1) / stride;
  int64_t room = w->in[axis] - offset;
  int64_t high = room <= 0 ? 0 : (room + stride - 1) / stride;
  *last = high < out ? high : out;
  *first = low < *last ? low : *last;
}

/* Row-major counting: steps index to the next one; false after the last. */
static inline bool window_next(int rank, const int64_t *dims, int64_t *index) {
  for (int d = rank - 1; d >= 0; d--) {
    if (++index[d] < dims[d]) return true;
    index[d] = 0;
  }
  return false;
}

#endif
