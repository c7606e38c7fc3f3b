/* npy.c — reading NumPy's array files. Source: numpy.lib.format. */
#include "onnx/npy.h"

#include <string.h>

#include "ir/dtype.h"
#include "ir/shape.h"
#include "onnx/npy_type.h"

static const char magic[] = "\x93NUMPY";
enum { MAGIC_BYTES = 6 };

/* The header's dictionary. */
typedef struct header {
  char descr[32];
  bool has_descr, has_order, has_shape, fortran;
  int rank;
  int64_t dims[RLX_MAX_RANK];
} header;

typedef struct cursor {
  const char *at, *end;
} cursor;

bool npy_probe(wire_span content) {
  return content.size >= MAGIC_BYTES && memcmp(content.data, magic, MAGIC_BYTES) == 0;
}

static void skip_space(cursor *c) {
  while (c->at < c->end && (*c->at == ' ' || *c->at == '\n' || *c->at == '\t')) c->at++;
}

static bool accept(cursor *c, const char *word) {
  size_t size = strlen(word);
  skip_space(c);
  if ((size_t)(c->end - c->at) < size || memcmp(c->at, word, size) != 0) return false;
  c->at += size;
  return true;
}

static bool read_quoted(cursor *c, char *to, size_t room) {
  skip_space(c);
  if (c->at == c->end || (*c->at != '\'' && *c->at != '"')) return false;
  char quote = *c->at++;
  const char *close = memchr(c->at, quote, (size_t)(c->end - c->at));
  if (!close || (size_t)(close - c->at) >= room) return false;
  memcpy(to, c->at, (size_t)(close - c->at));
  to[close - c->at] = 0;
  c->at = close + 1;
  return true;
}

static bool read_dim(cursor *c, int64_t *out) {
  skip_space(c);
  const char *begin = c->at;
  int64_t value = 0;
  for (; c->at < c->end && *c->at >= '0' && *c->at <= '9'; c->at++) {
    int digit = *c->at - '0';
    if (value > (INT64_MAX - digit) / 10) return false;
    value = value * 10 + digit;
  }
  if (c->at < c->end && *c->at == 'L') c->at++; /* written by Python 2 */
  *out = value;
  return c->at > begin;
}

static rlx_status read_shape(cursor *c, header *h) {
  if (!accept(c, "(")) return RLX_FAIL(MALFORMED, "npy: 'shape' is no tuple");
  while (!accept(c, ")")) {
    if (h->rank == RLX_MAX_RANK) return RLX_FAIL(UNSUPPORTED, "npy: rank is past %d", RLX_MAX_RANK);
    if (!read_dim(c, &h->dims[h->rank])) return RLX_FAIL(MALFORMED, "npy: dim %d of 'shape' is no size", h->rank);
    h->rank++;
    if (accept(c, ",")) continue;
    if (!accept(c, ")")) return RLX_FAIL(MALFORMED, "npy: 'shape' does not end");
    break;
  }
  h->has_shape = true;
  return RLX_OK;
}

static rlx_status read_entry(cursor *c, header *h) {
  char key[32];
  if (!read_quoted(c, key, sizeof key) || !accept(c, ":"))
    return RLX_FAIL(MALFORMED, "npy: the header is no dictionary");
  if (strcmp(key, "descr") == 0 && !h->has_descr) {
    h->has_descr = true;
    if (!read_quoted(c, h->descr, sizeof h->descr)) return RLX_FAIL(UNSUPPORTED, "npy: 'descr' is not a plain type");
    return RLX_OK;
  }
  if (strcmp(key, "fortran_order") == 0 && !h->has_order) {
    h->has_order = true;
    h->fortran = accept(c, "True");
    if (!h->fortran && !accept(c, "False"))
      return RLX_FAIL(MALFORMED, "npy: 'fortran_order' is neither True nor False");
    return RLX_OK;
  }
  if (strcmp(key, "shape") == 0 && !h->has_shape) return read_shape(c, h);
  return RLX_FAIL(MALFORMED, "npy: key '%s' is unknown or comes twice", key);
}

static rlx_status read_header(wire_span text, header *h) {
  cursor c = {(const char *)text.data, (const char *)text.data + text.size};
  *h = (header){0};
  if (!accept(&c, "{")) return RLX_FAIL(MALFORMED, "npy: the header is no dictionary");
  while (!accept(&c, "}")) {
    RLX_TRY(read_entry(&c, h));
    if (accept(&c, ",")) continue;
    if (!accept(&c, "}")) return RLX_FAIL(MALFORMED, "npy: the header does not end");
    break;
  }
  if (!h->has_descr || !h->has_order || !h->has_shape) {
    return RLX_FAIL(MALFORMED, "npy: the header lacks 'descr', 'fortran_order' or 'shape'");
  }
  return RLX_OK;
}

static void swap_bytes(uint8_t *data, int64_t units, size_t size) {
  for (int64_t i = 0; i < units; i++, data += size) {
    for (size_t a = 0, b = size - 1; a < b; a++, b--) {
      uint8_t byte = data[a];
      data[a] = data[b];
      data[b] = byte;
    }
  }
}

static rlx_status copy_numbers(wire_span data, const npy_type *type, rlx_tensor *t) {
  if (data.size) memcpy(t->data, data.data, data.size);
  if (type->big_endian && type->unit > 1) swap_bytes(t->data, (int64_t)(data.size / type->unit), type->unit);
  for (size_t i = 0; t->dtype == RLX_BOOL && i < data.size; i++) {
    if (data.data[i] > 1) return RLX_FAIL(INVALID, "npy: element %zu of a bool array is %d", i, data.data[i]);
  }
  return RLX_OK;
}

static rlx_status copy_strings(wire_span data, const npy_type *type, rlx_tensor *t) {
  char *text = mem_alloc(type->size); /* UTF-8 takes at most the 4 bytes of UTF-32 */
  if (!text) return status_no_memory(type->size);
  rlx_status status = RLX_OK;
  for (int64_t i = 0; i < t->count && status == RLX_OK; i++) {
    size_t size;
    status = npy_decode_string(type, data.data + (size_t)i * type->size, text, &size);
    if (status == RLX_OK) status = rlx_tensor_set_string(t, i, text, size);
  }
  mem_free(text);
  return status;
}

static rlx_status read_array(const header *h, wire_span data, rlx_tensor **out) {
  npy_type type;
  RLX_TRY(npy_type_parse(h->descr, &type));
  int64_t count = shape_count(h->rank, h->dims);
  if (count < 0 || (count && (uint64_t)count > INT64_MAX / 16 / type.size)) {
    char text[400];
    return RLX_FAIL(INVALID, "npy: shape %s is too many elements", dims_text(h->rank, h->dims, text, sizeof text));
  }
  if (h->fortran && h->rank > 1) return RLX_FAIL(UNSUPPORTED, "npy: the array is in Fortran order");
  if ((uint64_t)count * type.size != data.size) {
    char text[400];
    return RLX_FAIL(INVALID, "npy: holds %zu bytes of data, but %s%s takes %llu", data.size, h->descr,
                    dims_text(h->rank, h->dims, text, sizeof text), (unsigned long long)((uint64_t)count * type.size));
  }
  rlx_tensor *t;
  RLX_TRY(tensor_alloc(type.dtype, h->rank, h->dims, &t));
  rlx_status status = type.dtype == RLX_STRING ? copy_strings(data, &type, t) : copy_numbers(data, &type, t);
  if (status != RLX_OK) {
    rlx_tensor_destroy(t);
    return status;
  }
  *out = t;
  return RLX_OK;
}

rlx_status npy_read(wire_span content, rlx_tensor **out) {
  if (content.size < MAGIC_BYTES + 4) return RLX_FAIL(MALFORMED, "npy: cut off in the header");
  int version = content.data[6];
  size_t width = version == 1 ? 2 : 4, begin = MAGIC_BYTES + 2 + width;
  if (version < 1 || version > 3) return RLX_FAIL(UNSUPPORTED, "npy: version %d", version);
  if (content.size < begin) return RLX_FAIL(MALFORMED, "npy: cut off in the header");
  uint32_t length = 0;
  memcpy(&length, content.data + MAGIC_BYTES + 2, width);
  if (length > content.size - begin) {
    return RLX_FAIL(MALFORMED, "npy: a header of %u bytes, and %zu remain", length, content.size - begin);
  }
  header h;
  RLX_TRY(read_header((wire_span){content.data + begin, length}, &h));
  return read_array(&h, (wire_span){content.data + begin + length, content.size - begin - length}, out);
}
