/* dlpack.c — exchange of tensors in DLPack's unversioned managed form (dlpack.h of DLPack 0.8). */
#include <string.h>

#include "base/memory.h"
#include "base/need.h"
#include "base/status.h"
#include "ir/shape.h"
#include "ir/tensor.h"

typedef struct dl_device {
  int32_t type, id;
} dl_device;

typedef struct dl_type {
  uint8_t code, bits;
  uint16_t lanes;
} dl_type;

typedef struct dl_tensor {
  void *data;
  dl_device device;
  int32_t rank;
  dl_type dtype;
  int64_t *shape, *strides;
  uint64_t byte_offset;
} dl_tensor;

struct DLManagedTensor {
  dl_tensor tensor;
  void *context;
  void (*deleter)(struct DLManagedTensor *self);
};

enum { DL_CPU = 1 };

/* Type codes: 0 int, 1 uint, 2 float, 4 bfloat, 5 complex, 6 bool. */
static const struct {
  rlx_dtype dtype;
  uint8_t code;
} codes[] = {{RLX_INT8, 0},   {RLX_INT16, 0},    {RLX_INT32, 0},     {RLX_INT64, 0},      {RLX_UINT8, 1},
             {RLX_UINT16, 1}, {RLX_UINT32, 1},   {RLX_UINT64, 1},    {RLX_FLOAT16, 2},    {RLX_FLOAT, 2},
             {RLX_DOUBLE, 2}, {RLX_BFLOAT16, 4}, {RLX_COMPLEX64, 5}, {RLX_COMPLEX128, 5}, {RLX_BOOL, 6}};
enum { CODE_COUNT = sizeof codes / sizeof *codes };

/* What an exported tensor needs to live as long as its consumer wants. */
typedef struct exported {
  struct DLManagedTensor managed;
  int64_t shape[RLX_MAX_RANK], strides[RLX_MAX_RANK];
  rlx_tensor *tensor;
} exported;

static void release_exported(struct DLManagedTensor *self) {
  exported *e = self->context;
  rlx_tensor_destroy(e->tensor);
  mem_free(e);
}

rlx_status rlx_tensor_to_dlpack(rlx_tensor *t, struct DLManagedTensor **out) {
  RLX_NEED(t);
  RLX_NEED(out);
  if (t->items) return RLX_FAIL(UNSUPPORTED, "dlpack: it has no sequences and optionals");
  int i = 0;
  while (i < CODE_COUNT && codes[i].dtype != t->dtype) i++;
  if (i == CODE_COUNT) return RLX_FAIL(UNSUPPORTED, "dlpack: it has no type for %s", rlx_dtype_name(t->dtype));
  void *data = rlx_tensor_data(t);
  exported *e = data || !t->bytes ? mem_zalloc(sizeof *e) : NULL;
  if (!e) return status_no_memory(data || !t->bytes ? sizeof *e : t->bytes);
  memcpy(e->shape, t->dims, sizeof e->shape);
  shape_strides(t->rank, t->dims, e->strides);
  e->tensor = rlx_tensor_retain(t);
  e->managed = (struct DLManagedTensor){{.data = data,
                                         .device = {DL_CPU, 0},
                                         .rank = t->rank,
                                         .dtype = {codes[i].code, (uint8_t)rlx_dtype_bits(t->dtype), 1},
                                         .shape = e->shape,
                                         .strides = e->strides},
                                        e,
                                        release_exported};
  *out = &e->managed;
  return RLX_OK;
}

static rlx_dtype dtype_of(const dl_type *d) {
  for (int i = 0; i < CODE_COUNT; i++)
    if (codes[i].code == d->code && rlx_dtype_bits(codes[i].dtype) == d->bits && d->lanes == 1) return codes[i].dtype;
  return RLX_UNDEFINED;
}

static void release_imported(void *user) {
  struct DLManagedTensor *m = user;
  if (m->deleter) m->deleter(m);
}

rlx_status rlx_tensor_from_dlpack(struct DLManagedTensor *m, rlx_tensor **out) {
  RLX_NEED(m);
  RLX_NEED(out);
  const dl_tensor *d = &m->tensor;
  rlx_dtype dtype = dtype_of(&d->dtype);
  if (d->device.type != DL_CPU)
    return RLX_FAIL(UNSUPPORTED, "dlpack: device type %d is not host memory", d->device.type);
  if (dtype == RLX_UNDEFINED)
    return RLX_FAIL(UNSUPPORTED, "dlpack: type code %d of %d bits and %d lanes", d->dtype.code, d->dtype.bits,
                    d->dtype.lanes);
  if (d->rank < 0 || d->rank > RLX_MAX_RANK) return RLX_FAIL(INVALID, "dlpack: rank %d", d->rank);
  RLX_NEED(d->shape || d->rank == 0);
  int64_t count = shape_count(d->rank, d->shape), expected = 1;
  for (int i = d->rank - 1; i >= 0 && d->strides && count > 0; i--) {
    if (d->shape[i] != 1 && d->strides[i] != expected)
      return RLX_FAIL(UNSUPPORTED, "dlpack: the tensor is not dense and row-major");
    expected *= d->shape[i];
  }
  int64_t bytes = rlx_dtype_bytes(dtype, count);
  if (bytes < 0) return RLX_FAIL(INVALID, "dlpack: dims are negative or too large");
  return rlx_tensor_wrap((char *)d->data + d->byte_offset, (size_t)bytes, dtype, d->rank, d->shape, release_imported, m,
                         out);
}
