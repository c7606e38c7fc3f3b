/* device.c — tensors in memory of a session's device. */
#include <string.h>

#include "ir/shape.h"
#include "runtime/session.h"

static void release(void *memory) { gpu_memory_release(memory); }

rlx_status session_tensor(rlx_session *s, rlx_dtype dtype, int rank, const int64_t *dims, rlx_tensor **out) {
  int64_t bytes = rlx_dtype_bytes(dtype, shape_count(rank, dims));
  gpu_memory *memory = NULL;
  if (bytes < 0) return RLX_FAIL(INVALID, "tensor: impossible dims or element type");
  RLX_TRY(gpu_memory_create(s->gpu, bytes, 0, &memory));
  rlx_status status = tensor_on_device(memory, gpu_memory_host(memory), dtype, rank, dims, release, out);
  if (status != RLX_OK) gpu_memory_release(memory);
  return status;
}
