/* npy_type.h — NumPy's type strings ("<f4", "|b1", "<U12") and their strings. */
#ifndef ONNX_NPY_TYPE_H
#define ONNX_NPY_TYPE_H

#include "base/status.h"

typedef struct npy_type {
  rlx_dtype dtype;
  size_t size; /* bytes of an element in the file, at least 1 */
  size_t unit; /* bytes that a byte order applies to */
  bool big_endian;
  bool unicode; /* strings: UTF-32, else bytes */
} npy_type;

rlx_status npy_type_parse(const char *descr, npy_type *out);
/* "<f4"; NULL for types without a name in NumPy, and for strings. */
const char *npy_type_name(rlx_dtype dtype);

/* An element of a string array as UTF-8 (`to` has type->size bytes), without the padding. */
rlx_status npy_decode_string(const npy_type *type, const uint8_t *from, char *to, size_t *size);
/* Code points of a UTF-8 string; -1 if it is not valid. */
int64_t npy_count_code_points(const char *s, size_t size);
/* Writes the code points of a valid UTF-8 string; returns how many. */
size_t npy_encode_string(const char *s, size_t size, uint32_t *to);

#endif
