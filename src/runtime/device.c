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

static rlx_status check_session(const rlx_session *s, rlx_tensor **out) {
  if (!s || !out) return RLX_FAIL(INVALID, "tensor on a device: no session, or nowhere to put it");
  return RLX_OK;
}

rlx_status rlx_tensor_on_device(rlx_session *s, rlx_dtype dtype, int rank, const int64_t *dims, rlx_tensor **out) {
  RLX_TRY(check_session(s, out));
  return s->gpu ? session_tensor(s, dtype, rank, dims, out) : tensor_alloc(dtype, rank, dims, out);
}

rlx_status rlx_tensor_native(rlx_session *s, void *buffer, uint64_t offset, uint64_t bytes, rlx_dtype dtype, int rank,
                             const int64_t *dims, rlx_tensor **out) {
  RLX_TRY(check_session(s, out));
  if (!s->gpu) return RLX_FAIL(UNSUPPORTED, "native memory: the session's device is the cpu; see rlx_tensor_wrap");
  int64_t need = rlx_dtype_bytes(dtype, shape_count(rank, dims));
  if (need < 0 || bytes > INT64_MAX || need > (int64_t)bytes || offset % 16 || offset > INT64_MAX - bytes || !buffer)
    return RLX_FAIL(INVALID, "native memory: no buffer, %llu bytes for a tensor of %lld, or offset %llu",
                    (unsigned long long)bytes, (long long)need, (unsigned long long)offset);
  gpu_memory *memory = NULL;
  RLX_TRY(gpu_memory_adopt(s->gpu, buffer, (int64_t)offset, (int64_t)bytes, &memory));
  rlx_status status = tensor_on_device(memory, NULL, dtype, rank, dims, release, out);
  if (status != RLX_OK) gpu_memory_release(memory);
  return status;
}

static bool hidden(const rlx_tensor *t) { return t->device && !t->data; }

rlx_status rlx_tensor_copy(const rlx_tensor *from, rlx_tensor *to) {
  if (!from || !to || from->kind != RLX_KIND_TENSOR || to->kind != RLX_KIND_TENSOR || from->dtype == RLX_STRING)
    return RLX_FAIL(INVALID, "tensor copy: two dense tensors are needed");
  if (from->dtype != to->dtype || from->count != to->count)
    return RLX_FAIL(INVALID, "tensor copy: %s of %lld elements to %s of %lld", rlx_dtype_name(from->dtype),
                    (long long)from->count, rlx_dtype_name(to->dtype), (long long)to->count);
  if (to->file) return RLX_FAIL(INVALID, "tensor copy: memory of a mapped file cannot be written");
  int64_t bytes = (int64_t)from->bytes;
  if (!bytes || from == to) return RLX_OK;
  if (!hidden(from) && !hidden(to)) {
    memmove(to->data, tensor_raw(from), (size_t)bytes);
    return RLX_OK;
  }
  if (!hidden(from)) return gpu_memory_write(to->device, 0, tensor_raw(from), bytes);
  if (!hidden(to)) return gpu_memory_read(from->device, 0, to->data, bytes);
  void *between = mem_alloc((size_t)bytes);
  rlx_status status = between ? gpu_memory_read(from->device, 0, between, bytes) : status_no_memory((size_t)bytes);
  if (status == RLX_OK) status = gpu_memory_write(to->device, 0, between, bytes);
  mem_free(between);
  return status;
}
