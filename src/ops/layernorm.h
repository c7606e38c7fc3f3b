/* layernorm.h — parameters and geometry of layer and RMS normalisation, for the op records and for kernels. */
#ifndef OPS_LAYERNORM_H
#define OPS_LAYERNORM_H

#include <rlx/extend.h>

typedef struct layernorm_params {
  uint64_t given;
  int64_t axis;
  float epsilon;
  int64_t stash_type;
} layernorm_params;

/* rows × columns: the axes before `axis`, and from it on. */
typedef struct layernorm_shape {
  int axis;
  int64_t rows, columns;
} layernorm_shape;

/* NULL, or why axis does not fit, in the buffer of rlx_reason. */
const char *layernorm_resolve(const layernorm_params *p, int rank, const int64_t *dims, layernorm_shape *out);

/* rlx_op.vjp of both: gradients of the first output only. */
rlx_status layernorm_vjp(rlx_graph *g, const rlx_node *n, rlx_value *const *dy, rlx_value **dx, bool rms);

#endif
