/* sparse_proto.c — SparseTensorProto (coordinates and values) to the dense tensor it stands for. */
#include <string.h>

#include "ir/dtype.h"
#include "ir/shape.h"
#include "onnx/schema.h"
#include "onnx/tensor_proto.h"

typedef struct sparse_parts {
  wire_span values, indices;
  int64_t rank; /* may be past RLX_MAX_RANK: then dims is cut */
  int64_t dims[RLX_MAX_RANK];
} sparse_parts;

static rlx_status take_apart(wire_span message, sparse_parts *p) {
  *p = (sparse_parts){0};
  wire_reader r = wire_open(message, "SparseTensorProto");
  wire_field f;
  while (wire_next(&r, &f)) {
    if (f.number == SPARSE_VALUES) p->values = wire_bytes(&f);
    if (f.number == SPARSE_INDICES) p->indices = wire_bytes(&f);
    if (f.number != SPARSE_DIMS) continue;
    int64_t dim;
    wire_reader ints = wire_open_ints(&f);
    while (wire_next_int(&ints, &dim)) {
      if (p->rank < RLX_MAX_RANK) p->dims[p->rank] = dim;
      p->rank++;
    }
    wire_close_ints(&f, &ints);
  }
  return r.status;
}

/* indices: [n], positions in the flattened tensor, or [n, rank], coordinates. */
static rlx_status check(const sparse_parts *p, const rlx_tensor *values, const rlx_tensor *indices) {
  if (p->rank > RLX_MAX_RANK) {
    return RLX_FAIL(UNSUPPORTED, "rank %lld is past %d", (long long)p->rank, RLX_MAX_RANK);
  }
  if (values->dtype == RLX_STRING || dtype_size(values->dtype) == 0) {
    return RLX_FAIL(UNSUPPORTED, "sparse tensors of %s", rlx_dtype_name(values->dtype));
  }
  bool flat = indices->rank == 1, coordinates = indices->rank == 2 && indices->dims[1] == p->rank;
  if (values->rank != 1 || indices->dtype != RLX_INT64 || (!flat && !coordinates) ||
      indices->dims[0] != values->dims[0]) {
    char v[400], i[400];
    return RLX_FAIL(INVALID, "values %s and indices %s %s do not fit",
                    dims_text(values->rank, values->dims, v, sizeof v), rlx_dtype_name(indices->dtype),
                    dims_text(indices->rank, indices->dims, i, sizeof i));
  }
  return RLX_OK;
}

/* Both tensors may lie unaligned in the file. */
static int64_t index_at(const rlx_tensor *indices, int64_t i) {
  int64_t index;
  memcpy(&index, (const char *)tensor_raw(indices) + (size_t)i * sizeof index, sizeof index);
  return index;
}

/* Position of value i in the dense tensor. */
static rlx_status position(const sparse_parts *p, const rlx_tensor *indices, int64_t count, int64_t i, int64_t *out) {
  int64_t at = 0;
  if (indices->rank == 1) {
    at = index_at(indices, i);
    if (at < 0 || at >= count)
      return RLX_FAIL(INVALID, "index %lld is outside %lld elements", (long long)at, (long long)count);
  } else {
    for (int k = 0; k < p->rank; k++) {
      int64_t x = index_at(indices, i * p->rank + k);
      if (x < 0 || x >= p->dims[k]) {
        return RLX_FAIL(INVALID, "index %lld is outside dim %d of %lld", (long long)x, k, (long long)p->dims[k]);
      }
      at = at * p->dims[k] + x;
    }
  }
  *out = at;
  return RLX_OK;
}

static rlx_status scatter(const sparse_parts *p, const rlx_tensor *values, const rlx_tensor *indices,
                          rlx_tensor *dense) {
  size_t size = dtype_size(values->dtype);
  int64_t last = -1, at = 0;
  for (int64_t i = 0; i < values->count; i++) {
    RLX_TRY(position(p, indices, dense->count, i, &at));
    if (at <= last) return RLX_FAIL(INVALID, "indices are not ascending at entry %lld", (long long)i);
    memcpy((char *)dense->data + (size_t)at * size, (const char *)tensor_raw(values) + (size_t)i * size, size);
    last = at;
  }
  return RLX_OK;
}

static rlx_status make_dense(tensor_source *s, const sparse_parts *p, const rlx_tensor *values,
                             const rlx_tensor *indices, rlx_tensor **out) {
  RLX_TRY(check(p, values, indices));
  int64_t count = shape_count((int)p->rank, p->dims);
  int64_t bytes = count < 0 ? -1 : rlx_dtype_bytes(values->dtype, count);
  if (bytes < 0) {
    char text[400];
    return RLX_FAIL(INVALID, "dims %s are negative or too many elements",
                    dims_text((int)p->rank, p->dims, text, sizeof text));
  }
  RLX_TRY(budget_take(&s->budget, bytes));
  rlx_tensor *dense;
  RLX_TRY(rlx_tensor_create(values->dtype, (int)p->rank, p->dims, &dense));
  rlx_status status = scatter(p, values, indices, dense);
  if (status != RLX_OK) {
    rlx_tensor_destroy(dense);
    return status;
  }
  *out = dense;
  return RLX_OK;
}

rlx_status sparse_proto_read(tensor_source *s, wire_span message, wire_span *name, rlx_tensor **out) {
  sparse_parts p;
  wire_span own = {0};
  rlx_tensor *values = NULL, *indices = NULL;
  RLX_TRY(take_apart(message, &p));
  rlx_status status = tensor_proto_read(s, p.values, &own, &values);
  if (status == RLX_OK) status = tensor_proto_read(s, p.indices, NULL, &indices);
  if (status == RLX_OK) status = make_dense(s, &p, values, indices, out);
  rlx_tensor_destroy(values);
  rlx_tensor_destroy(indices);
  if (status != RLX_OK) return status_prefix(status, "sparse tensor '%.*s'", WIRE_TEXT(own));
  if (name) *name = own;
  return RLX_OK;
}
