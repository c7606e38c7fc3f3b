/* tensor_scatter.h — the eval of TensorScatter, which may also run on top of the cache. */
#ifndef OPS_TENSOR_SCATTER_H
#define OPS_TENSOR_SCATTER_H

#include <rlx/extend.h>

rlx_status tensor_scatter_run(rlx_ctx *ctx);

#endif
