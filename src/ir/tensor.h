/* tensor.h — the inside of rlx_tensor. */
#ifndef IR_TENSOR_H
#define IR_TENSOR_H

#include <rlx/extend.h>

#include "base/arena.h"
#include "base/file.h"

/* Immutable but for its contents. Reference-counted (atomic). Strings own their texts in `strings`. A sequence,
 * optional or map has items instead of data; in memory it stands as a cell, a pointer to the object, that holds no
 * reference. */
struct rlx_tensor {
  int refs;
  rlx_kind kind;
  rlx_kind element;   /* as in rlx_type; so is dims[0] of what is no tensor */
  rlx_tensor **items; /* `count` references; NULL for a tensor */
  rlx_tensor *self;   /* the cell of an object that is no tensor */
  rlx_dtype dtype;
  int32_t rank;
  int64_t dims[RLX_MAX_RANK];
  int64_t count;
  size_t bytes;
  void *data;                  /* NULL for an unaligned weight that nobody has pinned */
  const void *unaligned;       /* the bytes of a weight that is not aligned in its file, or NULL */
  int pins;                    /* of the aligned copy in data, if unaligned; under a lock of tensor.c */
  void (*release)(void *user); /* of data, or NULL: mem_free when owned */
  void *user;
  bool owned;
  mapped_file *file;         /* data lies in this mapping (a weight used in place), or NULL */
  struct gpu_memory *device; /* backend/executor.h: it lies in memory of a device, or NULL; data NULL if hidden there */
  arena strings;
};

/* A tensor over bytes of a mapped file, aligned to its elements or not; keeps the mapping. */
rlx_status tensor_from_file(mapped_file *file, const void *data, size_t bytes, rlx_dtype dtype, int rank,
                            const int64_t *dims, rlx_tensor **out);
/* Over memory of a device, which `release` gives back; data NULL: the host does not see it. Not for strings. */
rlx_status tensor_on_device(struct gpu_memory *memory, void *data, rlx_dtype dtype, int rank, const int64_t *dims,
                            void (*release)(void *memory), rlx_tensor **out);
/* Not zeroed; for outputs. */
rlx_status tensor_alloc(rlx_dtype dtype, int rank, const int64_t *dims, rlx_tensor **out);
/* One-dimensional int64, or a scalar when count < 0. */
rlx_status tensor_from_ints(const int64_t *values, int64_t count, rlx_tensor **out);
/* The tensor's aligned bytes, until the matching unpin: for a weight that is unaligned in its file a copy that
 * lives as long as somebody has it pinned. NULL when memory is short. rlx_tensor_data pins for good. */
const void *tensor_pin(const rlx_tensor *t);
void tensor_unpin(const rlx_tensor *t);
/* The bytes for memcpy and the like, wherever they are. */
const void *tensor_raw(const rlx_tensor *t);
/* A tensor with the operand's dims and contents, texts included. */
rlx_status tensor_from_operand(const rlx_operand *o, rlx_tensor **out);
/* An operand of a concrete type, data NULL: a cell for what is no tensor. Dims point into t. */
rlx_operand type_operand(const rlx_type *t);
static inline bool operand_is_cell(const rlx_operand *o) { return o->data && o->dtype == RLX_UNDEFINED; }
static inline rlx_tensor *cell_value(const rlx_operand *o) { return *(rlx_tensor *const *)o->data; }
static inline void tensor_type(const rlx_tensor *t, rlx_type *out) { rlx_tensor_type(t, out); }
rlx_operand tensor_operand(const rlx_tensor *t);        /* dims point into t; pins for good */
rlx_operand tensor_operand_pinned(const rlx_tensor *t); /* the caller has it pinned, or needs no data */
/* Bitwise equality of type and contents. */
bool tensor_equal(const rlx_tensor *a, const rlx_tensor *b);

#endif
