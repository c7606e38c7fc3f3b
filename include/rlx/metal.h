/* metal.h — raw Metal kernels: encoded into the live compute encoder of a session's run. Objects are
 * opaque ids that Objective-C code can bridge, so that this header needs no Apple SDK. */
#ifndef RLX_METAL_H
#define RLX_METAL_H

#include <rlx/extend.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct rlx_metal_operand {
  void *buffer;    /* id<MTLBuffer> */
  uint64_t offset; /* bytes */
  uint64_t bytes;
  uint64_t address; /* gpuAddress of the first element */
  rlx_dtype dtype;
  int32_t rank;
  const int64_t *dims;
} rlx_metal_operand;

/* What encode gets. It may encode dispatches; it may not end the encoder, commit, or wait. */
typedef struct rlx_metal_dispatch {
  uint32_t struct_size;
  int32_t input_count;
  int32_t output_count;
  const rlx_metal_operand *inputs;
  const rlx_metal_operand *outputs;
  rlx_metal_operand workspace;
  const void *params;
  const void *state;
  const rlx_node *node;
  void *encoder;        /* id<MTLComputeCommandEncoder> */
  void *command_buffer; /* id<MTLCommandBuffer> */
  void *queue;          /* id<MTLCommandQueue> */
  void *device;         /* id<MTLDevice> */
  void *executor;       /* private */
} rlx_metal_dispatch;

typedef struct rlx_metal_kernel {
  uint32_t struct_size;
  rlx_kernel head;
  rlx_status (*encode)(rlx_metal_dispatch *d);
} rlx_metal_kernel;

RLX_API RLX_MUST_USE rlx_status rlx_register_metal_kernel(rlx_registry *registry, const rlx_metal_kernel *k,
                                                          uint32_t flags, rlx_handle *handle);

/* The compute pipeline (id<MTLComputePipelineState>) of a kernel function in Metal Shading Language text. Compiled once
 * a device and text; borrowed, it lives as long as the device. Fails with the compiler's log in the message. */
RLX_API RLX_MUST_USE rlx_status rlx_metal_pipeline(rlx_metal_dispatch *d, const char *source, const char *function,
                                                   void **pipeline);
/* Between dispatches of one encode: what comes after sees what came before. rlx puts barriers around the kernel itself.
 */
RLX_API void rlx_metal_barrier(rlx_metal_dispatch *d);

#ifdef __cplusplus
}
#endif
#endif
