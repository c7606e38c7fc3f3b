/* tensor_proto.c — TensorProto to a tensor: dims, raw and typed data, external data. Nothing in the message is
 * trusted: the data's size is compared with the shape's before anything is allocated. */
#include "onnx/tensor_proto.h"

#include <string.h>

#include "ir/dtype.h"
#include "ir/shape.h"
#include "onnx/schema.h"

/* A message taken apart; spans are borrowed from it. */
typedef struct parts {
  wire_span message, name, raw;
  wire_span location, offset, length; /* of external data */
  bool has_raw, external, segmented;
  int64_t dtype;
  int64_t rank; /* may be past RLX_MAX_RANK: then dims is cut */
  int64_t dims[RLX_MAX_RANK];
  uint32_t typed;      /* the one typed field that is not empty, or 0 */
  uint32_t typed_too;  /* a second one: an error */
  int64_t typed_count; /* elements in it */
} parts;

/* The typed field that holds a dtype, and how its numbers become bytes. */
typedef struct typed_form {
  uint32_t field;
  uint8_t size; /* bytes of a number once stored; 0: strings */
  int64_t min, max;
} typed_form;

/* Sub-byte types: a number holds one byte of packed elements, which some writers sign; of 6 bits, one element. */
static const typed_form forms[RLX_DTYPE_COUNT] = {
    [RLX_FLOAT] = {TENSOR_FLOAT_DATA, 4, 0, 0},
    [RLX_UINT8] = {TENSOR_INT32_DATA, 1, 0, UINT8_MAX},
    [RLX_INT8] = {TENSOR_INT32_DATA, 1, INT8_MIN, INT8_MAX},
    [RLX_UINT16] = {TENSOR_INT32_DATA, 2, 0, UINT16_MAX},
    [RLX_INT16] = {TENSOR_INT32_DATA, 2, INT16_MIN, INT16_MAX},
    [RLX_INT32] = {TENSOR_INT32_DATA, 4, INT32_MIN, INT32_MAX},
    [RLX_INT64] = {TENSOR_INT64_DATA, 8, INT64_MIN, INT64_MAX},
    [RLX_STRING] = {TENSOR_STRING_DATA, 0, 0, 0},
    [RLX_BOOL] = {TENSOR_INT32_DATA, 1, 0, 1},
    [RLX_FLOAT16] = {TENSOR_INT32_DATA, 2, INT16_MIN, UINT16_MAX},
    [RLX_DOUBLE] = {TENSOR_DOUBLE_DATA, 8, 0, 0},
    [RLX_UINT32] = {TENSOR_UINT64_DATA, 4, 0, UINT32_MAX},
    [RLX_UINT64] = {TENSOR_UINT64_DATA, 8, INT64_MIN, INT64_MAX},
    [RLX_COMPLEX64] = {TENSOR_FLOAT_DATA, 4, 0, 0},
    [RLX_COMPLEX128] = {TENSOR_DOUBLE_DATA, 8, 0, 0},
    [RLX_BFLOAT16] = {TENSOR_INT32_DATA, 2, INT16_MIN, UINT16_MAX},
    [RLX_FLOAT8E4M3FN] = {TENSOR_INT32_DATA, 1, INT8_MIN, UINT8_MAX},
    [RLX_FLOAT8E4M3FNUZ] = {TENSOR_INT32_DATA, 1, INT8_MIN, UINT8_MAX},
    [RLX_FLOAT8E5M2] = {TENSOR_INT32_DATA, 1, INT8_MIN, UINT8_MAX},
    [RLX_FLOAT8E5M2FNUZ] = {TENSOR_INT32_DATA, 1, INT8_MIN, UINT8_MAX},
    [RLX_UINT4] = {TENSOR_INT32_DATA, 1, INT8_MIN, UINT8_MAX},
    [RLX_INT4] = {TENSOR_INT32_DATA, 1, INT8_MIN, UINT8_MAX},
    [RLX_FLOAT4E2M1] = {TENSOR_INT32_DATA, 1, INT8_MIN, UINT8_MAX},
    [RLX_FLOAT8E8M0] = {TENSOR_INT32_DATA, 1, INT8_MIN, UINT8_MAX},
    [RLX_FLOAT6E2M3] = {TENSOR_INT32_DATA, 1, 0, 63},
    [RLX_FLOAT6E3M2] = {TENSOR_INT32_DATA, 1, 0, 63},
    [RLX_UINT2] = {TENSOR_INT32_DATA, 1, INT8_MIN, UINT8_MAX},
    [RLX_INT2] = {TENSOR_INT32_DATA, 1, INT8_MIN, UINT8_MAX},
};

void tensor_source_finish(tensor_source *s) {
  size_t at = 0;
  const char *key;
  for (mapped_file *f; (f = map_next(&s->externals, &at, &key));) mapped_file_release(f);
  map_finish(&s->externals);
}

static wire_element typed_element(uint32_t field) {
  return field == TENSOR_FLOAT_DATA ? WIRE_FLOATS : field == TENSOR_DOUBLE_DATA ? WIRE_DOUBLES : WIRE_INTS;
}

static void take_dims(parts *p, const wire_field *f) {
  int64_t dim;
  wire_reader r = wire_open_ints(f);
  while (wire_next_int(&r, &dim)) {
    if (p->rank < RLX_MAX_RANK) p->dims[p->rank] = dim;
    p->rank++;
  }
  wire_close_ints(f, &r);
}

static void take_typed(parts *p, const wire_field *f) {
  size_t count = f->number == TENSOR_STRING_DATA ? 1 : wire_count(f, typed_element(f->number));
  if (count == 0) return;
  if (p->typed && p->typed != f->number) p->typed_too = f->number;
  p->typed = f->number;
  p->typed_count += (int64_t)count;
}

static rlx_status take_external(parts *p, wire_span entry) {
  wire_reader r = wire_open(entry, "StringStringEntryProto");
  wire_field f;
  wire_span key = {0}, value = {0};
  while (wire_next(&r, &f)) {
    if (f.number == ENTRY_KEY) key = wire_name(&f);
    if (f.number == ENTRY_VALUE) value = wire_name(&f);
  }
  RLX_TRY(r.status);
  if (wire_equal(key, "location")) p->location = value;
  if (wire_equal(key, "offset")) p->offset = value;
  if (wire_equal(key, "length")) p->length = value;
  return RLX_OK;
}

static rlx_status take_apart(wire_span message, parts *p) {
  *p = (parts){.message = message};
  wire_reader r = wire_open(message, "TensorProto");
  wire_field f;
  while (wire_next(&r, &f)) {
    switch (f.number) {
      case TENSOR_DIMS: take_dims(p, &f); break;
      case TENSOR_DATA_TYPE: p->dtype = wire_int(&f); break;
      case TENSOR_SEGMENT: p->segmented = true; break;
      case TENSOR_NAME: p->name = wire_name(&f); break;
      case TENSOR_RAW_DATA:
        if (p->has_raw) wire_repeated(&f);
        p->raw = wire_bytes(&f);
        p->has_raw = true;
        break;
      case TENSOR_EXTERNAL_DATA: RLX_TRY(take_external(p, wire_bytes(&f))); break;
      case TENSOR_DATA_LOCATION: p->external = wire_int(&f) == LOCATION_EXTERNAL; break;
      case TENSOR_FLOAT_DATA:
      case TENSOR_INT32_DATA:
      case TENSOR_STRING_DATA:
      case TENSOR_INT64_DATA:
      case TENSOR_DOUBLE_DATA:
      case TENSOR_UINT64_DATA: take_typed(p, &f); break;
      default: break;
    }
  }
  return r.status;
}

/* Elements of the shape, or an error. */
static rlx_status check_shape(const parts *p, int64_t *count, int64_t *bytes) {
  if (p->rank > RLX_MAX_RANK) {
    return RLX_FAIL(UNSUPPORTED, "rank %lld is past %d", (long long)p->rank, RLX_MAX_RANK);
  }
  for (int i = 0; i < p->rank; i++) {
    if (p->dims[i] < 0) return RLX_FAIL(INVALID, "dim %d is %lld", i, (long long)p->dims[i]);
  }
  if (p->dtype <= RLX_UNDEFINED || p->dtype >= RLX_DTYPE_COUNT) {
    return RLX_FAIL(UNSUPPORTED, "data type %lld is not known", (long long)p->dtype);
  }
  *count = shape_count((int)p->rank, p->dims);
  *bytes = *count < 0 ? -1 : rlx_dtype_bytes((rlx_dtype)p->dtype, *count);
  char text[400];
  if (*bytes < 0) {
    return RLX_FAIL(INVALID, "dims %s are too many elements", dims_text((int)p->rank, p->dims, text, sizeof text));
  }
  if (p->segmented) return RLX_FAIL(UNSUPPORTED, "the tensor is stored in segments");
  if (p->typed_too || (p->typed && p->has_raw && p->raw.size)) {
    return RLX_FAIL(INVALID, "data is given in two forms");
  }
  return RLX_OK;
}

static const char *shape_text(const parts *p, char *text, size_t size) {
  rlx_type type = {0};
  type_set(&type, (rlx_dtype)p->dtype, (int)p->rank, p->dims);
  return type_text(&type, text, size);
}

static rlx_status check_bools(const uint8_t *data, size_t size) {
  for (size_t i = 0; i < size; i++) {
    if (data[i] > 1) return RLX_FAIL(INVALID, "element %zu of a bool tensor is %d", i, data[i]);
  }
  return RLX_OK;
}

/* From this size on a tensor that is not aligned in its file stays there all the same: see tensor_pin. */
enum { LARGE_TENSOR = 1 << 16 };

/* A tensor over exactly the bytes its shape takes: in place, or copied. */
static rlx_status from_bytes(tensor_source *s, mapped_file *file, const parts *p, wire_span data, rlx_tensor **out) {
  rlx_dtype dtype = (rlx_dtype)p->dtype;
  if (dtype == RLX_STRING) return RLX_FAIL(INVALID, "strings cannot be raw or external data");
  if (dtype == RLX_BOOL) RLX_TRY(check_bools(data.data, data.size));
  size_t size = dtype_size(dtype);
  bool aligned = size <= 1 || (uintptr_t)data.data % (size > 8 ? 8 : size) == 0;
  if (file && data.size && (aligned || data.size >= LARGE_TENSOR)) {
    return tensor_from_file(file, data.data, data.size, dtype, (int)p->rank, p->dims, out);
  }
  rlx_tensor *t;
  RLX_TRY(budget_take(&s->budget, (int64_t)data.size + (int64_t)sizeof *t));
  RLX_TRY(tensor_alloc(dtype, (int)p->rank, p->dims, &t));
  if (data.size) memcpy(t->data, data.data, data.size);
  if (file) mapped_file_drop_pages(file, data.data, data.size);
  *out = t;
  return RLX_OK;
}

/* A decimal number; `text` empty gives `missing`. */
static rlx_status parse_size(wire_span text, const char *what, int64_t missing, int64_t *out) {
  int64_t value = text.size ? 0 : missing;
  for (size_t i = 0; i < text.size; i++) {
    int digit = text.data[i] - '0';
    if (digit < 0 || digit > 9 || value > (INT64_MAX - digit) / 10) {
      return RLX_FAIL(INVALID, "external data: %s '%.*s' is no size", what, WIRE_TEXT(text));
    }
    value = value * 10 + digit;
  }
  *out = value;
  return RLX_OK;
}

static rlx_status open_external(tensor_source *s, wire_span location, mapped_file **out) {
  mapped_file *file = map_get_bytes(&s->externals, location.data, location.size);
  if (!file) {
    char *path = mem_alloc(location.size + 1);
    if (!path) return status_no_memory(location.size + 1);
    memcpy(path, location.data, location.size);
    path[location.size] = 0;
    rlx_status status = file_open_inside(s->folder, path, &file);
    mem_free(path);
    RLX_TRY(status);
    if (!map_put_bytes(&s->externals, location.data, location.size, file)) {
      mapped_file_release(file);
      return status_no_memory(location.size);
    }
  }
  *out = file;
  return RLX_OK;
}

static rlx_status from_external(tensor_source *s, const parts *p, int64_t bytes, rlx_tensor **out) {
  char text[400];
  int64_t offset = 0, length = 0;
  mapped_file *file = NULL;
  if (p->raw.size || p->typed) return RLX_FAIL(INVALID, "data is both inside and outside the file");
  if (p->location.size == 0) return RLX_FAIL(INVALID, "external data: no location is given");
  RLX_TRY(parse_size(p->offset, "offset", 0, &offset));
  RLX_TRY(parse_size(p->length, "length", bytes, &length));
  if (length != bytes) {
    return RLX_FAIL(INVALID, "external data: length %lld, but %s takes %lld bytes", (long long)length,
                    shape_text(p, text, sizeof text), (long long)bytes);
  }
  if (!s->folder) {
    return RLX_FAIL(UNSUPPORTED, "external data '%.*s': only a model loaded from a file has a folder to look in",
                    WIRE_TEXT(p->location));
  }
  RLX_TRY(open_external(s, p->location, &file));
  if ((uint64_t)offset > file->size || (uint64_t)length > file->size - (uint64_t)offset) {
    return RLX_FAIL(INVALID, "external data '%.*s': %lld bytes from %lld are past its end at %zu",
                    WIRE_TEXT(p->location), (long long)length, (long long)offset, file->size);
  }
  wire_span data = {length ? file->data + offset : NULL, (size_t)length};
  return from_bytes(s, s->file ? file : NULL, p, data, out);
}

static rlx_status store_ints(const wire_field *f, const typed_form *form, uint8_t **to) {
  int64_t value;
  wire_reader r = wire_open_ints(f);
  while (wire_next_int(&r, &value)) {
    if (value < form->min || value > form->max) {
      return RLX_FAIL(INVALID, "value %lld is outside the data type", (long long)value);
    }
    memcpy(*to, &value, form->size);
    *to += form->size;
  }
  wire_close_ints(f, &r);
  return RLX_OK;
}

/* Stores the typed field's numbers into a tensor that has room for them. */
static rlx_status store_numbers(const parts *p, const typed_form *form, rlx_tensor *t) {
  wire_reader r = wire_open(p->message, "TensorProto");
  wire_field f;
  uint8_t *to = t->data;
  while (wire_next(&r, &f)) {
    if (f.number != form->field) continue;
    wire_element element = typed_element(form->field);
    if (element == WIRE_INTS) {
      RLX_TRY(store_ints(&f, form, &to));
    } else {
      wire_unpack(&f, element, to);
      to += wire_count(&f, element) * form->size;
    }
  }
  return r.status;
}

static rlx_status store_strings(tensor_source *s, const parts *p, rlx_tensor *t) {
  wire_reader r = wire_open(p->message, "TensorProto");
  wire_field f;
  int64_t i = 0;
  while (wire_next(&r, &f)) {
    if (f.number != TENSOR_STRING_DATA) continue;
    wire_span text = wire_bytes(&f);
    if (r.status != RLX_OK) break;
    RLX_TRY(budget_take(&s->budget, (int64_t)text.size + 32));
    RLX_TRY(rlx_tensor_set_string(t, i++, text.data ? (const char *)text.data : "", text.size));
  }
  return r.status;
}

/* Codes of 6 bits in a byte each, packed. Takes `codes` over. */
static rlx_status pack_codes(rlx_dtype dtype, rlx_tensor *codes, rlx_tensor **out) {
  rlx_tensor *t = NULL;
  rlx_status status = rlx_tensor_create(dtype, codes->rank, codes->dims, &t);
  for (int64_t i = 0; i < codes->count && status == RLX_OK; i++)
    bits_store(6, t->data, i, ((const uint8_t *)codes->data)[i]);
  rlx_tensor_destroy(codes);
  if (status == RLX_OK) *out = t;
  return status;
}

static rlx_status from_typed(tensor_source *s, const parts *p, int64_t count, int64_t bytes, rlx_tensor **out) {
  const typed_form *form = &forms[p->dtype];
  char text[400];
  bool one_each = rlx_dtype_bits((rlx_dtype)p->dtype) == 6;
  int64_t want = form->size && !one_each ? bytes / form->size : count;
  if (p->typed_count == 0 && want) {
    return RLX_FAIL(INVALID, "%s has no data", shape_text(p, text, sizeof text));
  }
  if (p->typed && p->typed != form->field) {
    return RLX_FAIL(INVALID, "%s cannot be stored in field %u", rlx_dtype_name((rlx_dtype)p->dtype), p->typed);
  }
  if (p->typed_count != want) {
    return RLX_FAIL(INVALID, "holds %lld numbers, but %s takes %lld", (long long)p->typed_count,
                    shape_text(p, text, sizeof text), (long long)want);
  }
  rlx_tensor *t;
  RLX_TRY(budget_take(&s->budget, (one_each ? 2 * count : bytes) + (int64_t)sizeof *t));
  RLX_TRY(tensor_alloc(one_each ? RLX_UINT8 : (rlx_dtype)p->dtype, (int)p->rank, p->dims, &t));
  rlx_status status = form->size ? store_numbers(p, form, t) : store_strings(s, p, t);
  if (status != RLX_OK) {
    rlx_tensor_destroy(t);
    return status;
  }
  if (one_each) return pack_codes((rlx_dtype)p->dtype, t, out);
  *out = t;
  return RLX_OK;
}

static rlx_status read_parts(tensor_source *s, const parts *p, rlx_tensor **out) {
  int64_t count = 0, bytes = 0;
  char text[400];
  RLX_TRY(check_shape(p, &count, &bytes));
  if (p->external) return from_external(s, p, bytes, out);
  if (!p->raw.size) return from_typed(s, p, count, bytes, out);
  if (p->dtype != RLX_STRING && (uint64_t)bytes != p->raw.size) {
    return RLX_FAIL(INVALID, "holds %zu bytes of data, but %s takes %lld", p->raw.size,
                    shape_text(p, text, sizeof text), (long long)bytes);
  }
  return from_bytes(s, s->file, p, p->raw, out);
}

rlx_status tensor_proto_read(tensor_source *s, wire_span message, wire_span *name, rlx_tensor **out) {
  parts p;
  rlx_status status = take_apart(message, &p);
  if (status == RLX_OK) status = read_parts(s, &p, out);
  if (status != RLX_OK && p.name.size) return status_prefix(status, "tensor '%.*s'", WIRE_TEXT(p.name));
  if (status == RLX_OK && name) *name = p.name;
  return status;
}
