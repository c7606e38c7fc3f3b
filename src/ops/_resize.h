/* _resize.h — what Resize does to each axis, as tables, and the passes that apply them. */
#ifndef OPS_RESIZE_H
#define OPS_RESIZE_H

#include "ops/_move.h"

typedef struct resize_params {
  uint64_t given;
  int64_t antialias, exclude_outside;
  rlx_ints axes;
  rlx_string coordinates, mode, nearest_mode, aspect;
  float cubic_a, extrapolation;
} resize_params;
#define RESIZE_SIMPLE "rlx.simple"
enum { RESIZE_GIVEN_AXES = 1u, RESIZE_ATTRS = 9 };
extern const rlx_attr_def resize_attrs[];

/* What the node asks for, per dim of the input. */
typedef struct resize_request {
  int rank;
  int64_t in[RLX_MAX_RANK], out[RLX_MAX_RANK];
  double scale[RLX_MAX_RANK];
  double roi_start[RLX_MAX_RANK], roi_end[RLX_MAX_RANK];
  bool has_roi;
} resize_request;

/* The values of roi, scales and sizes as far as given; a pointer NULL or count 0: not given. */
typedef struct resize_inputs {
  const void *roi;
  rlx_dtype roi_dtype;
  int64_t roi_count;
  const float *scales;
  int64_t scale_count;
  const int64_t *sizes;
  int64_t size_count;
} resize_inputs;

rlx_status resize_request_of(const void *context, const resize_params *p, int rank, const int64_t *dims,
                             const resize_inputs *in, resize_request *out);
/* Checks the texts among the attributes. */
rlx_status resize_check(const void *context, const resize_params *p);

/* One axis: output position j is the weighted sum of `taps` input positions index[j * taps + k]; the first
 * is -1 where the value is the extrapolation value. Nearest: one tap, weights NULL. */
typedef struct resize_axis {
  int axis;
  int64_t in, out, taps;
  int64_t *index;
  double *weight;
} resize_axis;

/* Owned: resize_finish. */
typedef struct resize_plan {
  bool nearest;
  int count;
  resize_axis axes[RLX_MAX_RANK];
  double extrapolation;
  int64_t scratch; /* elements of each of two buffers of the compute type; 0: none */
  void *memory;
} resize_plan;

rlx_status resize_make(const void *context, const resize_params *p, const resize_request *r, resize_plan *out);
void resize_finish(resize_plan *plan);
/* Bytes that resize_run needs as scratch for this element type. */
int64_t resize_scratch(const resize_plan *plan, rlx_dtype dtype, int64_t in_count);
rlx_status resize_run(rlx_ctx *ctx, const resize_plan *plan, void *scratch);
/* Plans and runs. */
rlx_status resize_eval(rlx_ctx *ctx);

#endif
