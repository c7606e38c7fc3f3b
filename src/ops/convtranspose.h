/* convtranspose.h — parameters and geometry of transposed convolution, for the op record and for kernels. */
#ifndef OPS_CONVTRANSPOSE_H
#define OPS_CONVTRANSPOSE_H

#include "ops/_window.h"

typedef struct convtranspose_params {
  uint64_t given;
  window_attrs window;
  int64_t group;
  rlx_ints output_padding, output_shape;
} convtranspose_params;

/* The window of the convolution whose adjoint this is: `in` are the dims of Y, `out` those of X. */
typedef struct convtranspose_shape {
  window window;
  int64_t batch, channels, maps, group;
} convtranspose_shape;

/* NULL, or why the attributes make no sense, in the buffer of rlx_reason. Fills window; in and kernel dims may be
 * RLX_UNKNOWN. */
const char *convtranspose_window(const convtranspose_params *p, int rank, const int64_t *x, const int64_t *kernel,
                                 window *out);
const char *convtranspose_resolve(const convtranspose_params *p, int x_rank, const int64_t *x_dims, int w_rank,
                                  const int64_t *w_dims, convtranspose_shape *out);

#endif
