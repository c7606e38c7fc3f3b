/* signal.h — what the kernels of onnx.DFT and onnx.STFT share with their reference. */
#ifndef OPS_SIGNAL_H
#define OPS_SIGNAL_H

#include <rlx/extend.h>

typedef struct signal_params {
  uint64_t given;
  int64_t axis, inverse, onesided; /* DFT, STFT; axis in version 17 */
  int64_t output_datatype, periodic;
} signal_params;

/* Inputs: signal, dft_length, axis. What a run is about. */
typedef struct dft_shape {
  int axis;
  int64_t length, given, produced; /* of the transform; lines in and out */
  bool real_in, real_out;
} dft_shape;

/* NULL, or what is wrong, in the buffer of rlx_reason. length -1: not given. */
const char *dft_resolve(const signal_params *p, const rlx_type *x, int64_t axis, int64_t length, dft_shape *s);

enum { STFT_SIGNAL, STFT_STEP, STFT_WINDOW, STFT_LENGTH };

/* One frame is `length` elements; bins are what is kept of its spectrum. */
typedef struct stft_shape {
  int64_t length, step, frames, bins;
} stft_shape;

/* The same; anything may be RLX_UNKNOWN. */
const char *stft_resolve(const signal_params *p, int64_t signal, int64_t length, int64_t step, stft_shape *s);

rlx_status dft_eval(rlx_ctx *ctx);
rlx_status dft_eval17(rlx_ctx *ctx);
rlx_status stft_eval(rlx_ctx *ctx);

/* Derivatives: _signal_vjp.c. */
rlx_status dft_vjp(rlx_graph *g, const rlx_node *n, rlx_value *const *output_grads, rlx_value **input_grads);
rlx_status dft_jvp(rlx_graph *g, const rlx_node *n, rlx_value *const *tangents, rlx_value **out);
rlx_status stft_vjp(rlx_graph *g, const rlx_node *n, rlx_value *const *output_grads, rlx_value **input_grads);
rlx_status stft_jvp(rlx_graph *g, const rlx_node *n, rlx_value *const *tangents, rlx_value **out);

#endif
