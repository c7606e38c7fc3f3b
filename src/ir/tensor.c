/* tensor.c — reference-counted dense arrays. */
#include "ir/tensor.h"

#include <pthread.h>
#include <string.h>

#include "base/memory.h"
#include "base/need.h"
#include "base/status.h"
#include "ir/dtype.h"
#include "ir/shape.h"

enum { DATA_ALIGN = 64 };

/* Everything but the data. */
static rlx_status make(rlx_dtype dtype, int rank, const int64_t *dims, rlx_tensor **out) {
  if (rank > 0 && !dims) return RLX_FAIL(INVALID, "tensor: rank %d without dims", rank);
  if (rank < 0 || rank > RLX_MAX_RANK) return RLX_FAIL(INVALID, "tensor: rank %d outside 0..%d", rank, RLX_MAX_RANK);
  int64_t count = shape_count(rank, dims);
  int64_t bytes = rlx_dtype_bytes(dtype, count);
  char text[256];
  if (rlx_dtype_bytes(dtype, 0) < 0) return RLX_FAIL(INVALID, "tensor: %d is no element type", (int)dtype);
  if (count < 0 || bytes < 0)
    return RLX_FAIL(INVALID, "tensor: dims %s are negative or too large", dims_text(rank, dims, text, sizeof text));
  rlx_tensor *t = mem_zalloc(sizeof *t);
  if (!t) return status_no_memory(sizeof *t);
  t->refs = 1;
  t->dtype = dtype;
  t->rank = rank;
  if (rank) memcpy(t->dims, dims, (size_t)rank * sizeof *dims);
  t->count = count;
  t->bytes = (size_t)bytes;
  *out = t;
  return RLX_OK;
}

rlx_status tensor_alloc(rlx_dtype dtype, int rank, const int64_t *dims, rlx_tensor **out) {
  rlx_tensor *t = NULL;
  RLX_TRY(make(dtype, rank, dims, &t));
  t->data = mem_aligned(DATA_ALIGN, t->bytes);
  t->owned = true;
  if (!t->data) {
    size_t bytes = t->bytes;
    mem_free(t);
    return status_no_memory(bytes);
  }
  if (dtype == RLX_STRING) memset(t->data, 0, t->bytes);
  *out = t;
  return RLX_OK;
}

rlx_status rlx_tensor_create(rlx_dtype dtype, int rank, const int64_t *dims, rlx_tensor **out) {
  RLX_NEED(out);
  rlx_tensor *t = NULL;
  RLX_TRY(tensor_alloc(dtype, rank, dims, &t));
  memset(t->data, 0, t->bytes);
  *out = t;
  return RLX_OK;
}

static bool aligned(const void *data, rlx_dtype dtype) {
  size_t size = dtype_size(dtype);
  return size <= 1 || (uintptr_t)data % (size > 8 ? 8 : size) == 0;
}

rlx_status rlx_tensor_wrap(void *data, size_t bytes, rlx_dtype dtype, int rank, const int64_t *dims,
                           void (*release)(void *user), void *user, rlx_tensor **out) {
  RLX_NEED(out);
  if (dtype == RLX_STRING) return RLX_FAIL(INVALID, "tensor: strings cannot be wrapped");
  rlx_tensor *t = NULL;
  RLX_TRY(make(dtype, rank, dims, &t));
  if (t->bytes > bytes || (t->bytes && !data)) {
    size_t want = t->bytes;
    mem_free(t);
    return RLX_FAIL(INVALID, "tensor: %zu bytes given, %zu needed", data ? bytes : 0, want);
  }
  if (!aligned(data, dtype)) {
    mem_free(t);
    return RLX_FAIL(INVALID, "tensor: data is not aligned to its %s elements", rlx_dtype_name(dtype));
  }
  t->data = data;
  t->release = release;
  t->user = user;
  *out = t;
  return RLX_OK;
}

rlx_status tensor_on_device(struct gpu_memory *memory, void *data, rlx_dtype dtype, int rank, const int64_t *dims,
                            void (*release)(void *memory), rlx_tensor **out) {
  if (dtype == RLX_STRING) return RLX_FAIL(INVALID, "tensor: strings live on the host only");
  rlx_tensor *t = NULL;
  RLX_TRY(make(dtype, rank, dims, &t));
  t->data = data;
  t->release = release;
  t->user = memory;
  t->device = memory;
  *out = t;
  return RLX_OK;
}

rlx_status tensor_from_file(mapped_file *file, const void *data, size_t bytes, rlx_dtype dtype, int rank,
                            const int64_t *dims, rlx_tensor **out) {
  rlx_tensor *t = NULL;
  RLX_TRY(make(dtype, rank, dims, &t));
  if (t->bytes > bytes || dtype == RLX_STRING) {
    mem_free(t);
    return RLX_FAIL(INVALID, "tensor: %zu bytes in the file are not what its dims need", bytes);
  }
  if (aligned(data, dtype))
    t->data = (void *)(uintptr_t)data;
  else
    t->unaligned = data;
  t->file = mapped_file_retain(file);
  *out = t;
  return RLX_OK;
}

static pthread_mutex_t pin_lock = PTHREAD_MUTEX_INITIALIZER;

const void *tensor_pin(const rlx_tensor *shared) {
  if (!shared->unaligned) return shared->data;
  rlx_tensor *t = (rlx_tensor *)(uintptr_t)shared;
  pthread_mutex_lock(&pin_lock);
  if (!t->pins && (t->data = mem_aligned(DATA_ALIGN, t->bytes))) memcpy(t->data, t->unaligned, t->bytes);
  const void *data = t->data;
  t->pins += data != NULL;
  pthread_mutex_unlock(&pin_lock);
  return data;
}

void tensor_unpin(const rlx_tensor *shared) {
  if (!shared->unaligned) return;
  rlx_tensor *t = (rlx_tensor *)(uintptr_t)shared;
  pthread_mutex_lock(&pin_lock);
  if (--t->pins == 0) {
    mem_free(t->data);
    t->data = NULL;
  }
  pthread_mutex_unlock(&pin_lock);
}

const void *tensor_raw(const rlx_tensor *t) { return t->unaligned ? t->unaligned : t->data; }

rlx_status tensor_from_ints(const int64_t *values, int64_t count, rlx_tensor **out) {
  rlx_tensor *t = NULL;
  RLX_TRY(tensor_alloc(RLX_INT64, count < 0 ? 0 : 1, &count, &t));
  if (t->bytes) memcpy(t->data, values, t->bytes);
  *out = t;
  return RLX_OK;
}

rlx_tensor *rlx_tensor_retain(rlx_tensor *t) {
  if (t) __atomic_fetch_add(&t->refs, 1, __ATOMIC_RELAXED);
  return t;
}

void rlx_tensor_destroy(rlx_tensor *t) {
  if (!t || __atomic_fetch_sub(&t->refs, 1, __ATOMIC_ACQ_REL) != 1) return;
  if (t->release) t->release(t->user);
  for (int64_t i = 0; t->items && i < t->count; i++) rlx_tensor_destroy(t->items[i]);
  mem_free(t->items);
  if (t->owned || t->unaligned) mem_free(t->data);
  mapped_file_release(t->file);
  arena_finish(&t->strings);
  mem_free(t);
}

rlx_dtype rlx_tensor_dtype(const rlx_tensor *t) { return t ? t->dtype : RLX_UNDEFINED; }
int rlx_tensor_rank(const rlx_tensor *t) { return t ? t->rank : 0; }
const int64_t *rlx_tensor_dims(const rlx_tensor *t) { return t ? t->dims : NULL; }
int64_t rlx_tensor_count(const rlx_tensor *t) { return t ? t->count : 0; }
size_t rlx_tensor_bytes(const rlx_tensor *t) { return t ? t->bytes : 0; }
void *rlx_tensor_data(const rlx_tensor *t) {
  if (!t) return NULL;
  return t->unaligned ? (void *)(uintptr_t)tensor_pin(t) : t->data;
}

rlx_status rlx_tensor_set_string(rlx_tensor *t, int64_t i, const char *text, size_t size) {
  RLX_NEED(t);
  RLX_NEED(text || !size);
  if (t->dtype != RLX_STRING || t->items)
    return RLX_FAIL(INVALID, "tensor: %s holds no strings", rlx_dtype_name(t->dtype));
  if (i < 0 || i >= t->count)
    return RLX_FAIL(INVALID, "tensor: element %lld outside %lld", (long long)i, (long long)t->count);
  char *copy = arena_strndup(&t->strings, text, size);
  if (!copy) return status_no_memory(size);
  ((rlx_string *)t->data)[i] = (rlx_string){copy, size};
  return RLX_OK;
}

void rlx_tensor_type(const rlx_tensor *t, rlx_type *out) {
  if (!t || !out) return;
  type_set(out, t->dtype, t->items ? RLX_UNKNOWN : t->rank, t->dims);
  out->kind = t->kind;
  out->element = t->element;
  if (t->items) out->dims[0] = t->dims[0];
}

rlx_operand type_operand(const rlx_type *t) {
  if (t->kind != RLX_KIND_TENSOR) return (rlx_operand){.dims = t->dims, .count = 1, .bytes = sizeof(rlx_tensor *)};
  return (rlx_operand){.dims = t->dims,
                       .dtype = t->dtype,
                       .rank = t->rank,
                       .count = shape_count(t->rank, t->dims),
                       .bytes = type_bytes(t)};
}

rlx_status tensor_from_operand(const rlx_operand *o, rlx_tensor **out) {
  rlx_tensor *t = NULL;
  rlx_status status = RLX_OK;
  RLX_TRY(tensor_alloc(o->dtype, o->rank, o->dims, &t));
  const rlx_string *texts = o->data;
  if (o->dtype != RLX_STRING && t->bytes) memcpy(t->data, o->data, t->bytes);
  for (int64_t i = 0; o->dtype == RLX_STRING && i < t->count && status == RLX_OK; i++)
    status = rlx_tensor_set_string(t, i, texts[i].data ? texts[i].data : "", texts[i].size);
  if (status != RLX_OK)
    rlx_tensor_destroy(t);
  else
    *out = t;
  return status;
}

/* ---- what holds items ---------------------------------------------------------------------- */

rlx_kind rlx_tensor_kind(const rlx_tensor *t) { return t ? t->kind : RLX_KIND_TENSOR; }

rlx_tensor *rlx_tensor_item(const rlx_tensor *t, int64_t i) {
  return t && t->items && i >= 0 && i < t->count ? t->items[i] : NULL;
}

rlx_operand tensor_operand_pinned(const rlx_tensor *t) {
  if (t->items)
    return (rlx_operand){.data = (void *)(uintptr_t)&t->self, .dims = t->dims, .count = 1, .bytes = sizeof t};
  return (rlx_operand){.data = t->data,
                       .dims = t->dims,
                       .count = t->count,
                       .bytes = (int64_t)t->bytes,
                       .dtype = t->dtype,
                       .rank = t->rank};
}

rlx_operand tensor_operand(const rlx_tensor *t) {
  rlx_operand o = tensor_operand_pinned(t);
  if (!t->items) o.data = rlx_tensor_data(t);
  return o;
}

bool tensor_equal(const rlx_tensor *a, const rlx_tensor *b) {
  if (a->kind != b->kind || (a->items && (a->element != b->element || a->dims[0] != b->dims[0]))) return false;
  if (a->dtype != b->dtype || a->rank != b->rank || a->count != b->count) return false;
  if (a->rank && memcmp(a->dims, b->dims, (size_t)a->rank * sizeof *a->dims) != 0) return false;
  for (int64_t i = 0; a->items && i < a->count; i++)
    if (!tensor_equal(a->items[i], b->items[i])) return false;
  if (a->items) return true;
  if (a->dtype != RLX_STRING) return a->bytes == 0 || memcmp(tensor_raw(a), tensor_raw(b), a->bytes) == 0;
  const rlx_string *x = a->data, *y = b->data;
  for (int64_t i = 0; i < a->count; i++)
    if (x[i].size != y[i].size || (x[i].size && memcmp(x[i].data, y[i].data, x[i].size) != 0)) return false;
  return true;
}
