/* pool.h — parameters of pooling ops, for the op records and for kernels. */
#ifndef OPS_POOL_H
#define OPS_POOL_H

#include "ops/_window.h"

/* Params of onnx.MaxPool, AveragePool and LpPool; each uses its own members. */
typedef struct pool_params {
  uint64_t given;
  window_attrs window;
  int64_t storage_order;     /* MaxPool: 1 counts Indices column-major */
  int64_t count_include_pad; /* AveragePool */
  int64_t p;                 /* LpPool, GlobalLpPool */
  float p_real;              /* the same in version 1 */
} pool_params;

/* rlx_op.derive of the pooling ops. */
rlx_status pool_derive_max(rlx_graph *g, const rlx_node *n, rlx_value **outputs);
rlx_status pool_derive_average(rlx_graph *g, const rlx_node *n, rlx_value **outputs);
rlx_status pool_derive_lp(rlx_graph *g, const rlx_node *n, rlx_value **outputs);
rlx_status pool_derive_global_max(rlx_graph *g, const rlx_node *n, rlx_value **outputs);
rlx_status pool_derive_global_lp(rlx_graph *g, const rlx_node *n, rlx_value **outputs);

#endif
