/* cuda.h — raw CUDA kernels: launched into the live stream of a session's run. Handles are opaque here,
 * so that this header needs no CUDA toolkit. */
#ifndef RLX_CUDA_H
#define RLX_CUDA_H

#include <rlx/extend.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct rlx_cuda_operand {
  uint64_t buffer; /* CUdeviceptr of the allocation */
  uint64_t offset; /* bytes from it to the first element */
  uint64_t bytes;
  rlx_dtype dtype;
  int32_t rank;
  const int64_t *dims;
} rlx_cuda_operand;

/* What encode gets. It may launch into `stream`; it may not synchronise or end its capture. */
typedef struct rlx_cuda_dispatch {
  uint32_t struct_size;
  int32_t input_count;
  int32_t output_count;
  const rlx_cuda_operand *inputs;
  const rlx_cuda_operand *outputs;
  rlx_cuda_operand workspace;
  const void *params;
  const void *state;
  const rlx_node *node;
  void *stream;   /* CUstream */
  void *context;  /* CUcontext */
  int32_t device; /* CUdevice */
  void *executor; /* private */
} rlx_cuda_dispatch;

typedef struct rlx_cuda_kernel {
  uint32_t struct_size;
  rlx_kernel head;
  rlx_status (*encode)(rlx_cuda_dispatch *d);
} rlx_cuda_kernel;

RLX_API RLX_MUST_USE rlx_status rlx_register_cuda_kernel(rlx_registry *registry, const rlx_cuda_kernel *k,
                                                         uint32_t flags, rlx_handle *handle);
#ifdef __cplusplus
}
#endif
#endif
