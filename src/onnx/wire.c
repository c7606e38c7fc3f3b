/* wire.c — protobuf's wire format: reader and writer. Source: protobuf.dev, "Encoding". */
#include "onnx/wire.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "tensor data is used as it lies in the file, which is little-endian"
#endif

wire_reader wire_open(wire_span span, const char *message) {
  static const uint8_t nothing[1];
  const uint8_t *data = span.data ? span.data : nothing;
  return (wire_reader){.start = data, .at = data, .end = data + span.size, .message = message};
}

static size_t remaining(const wire_reader *r) { return (size_t)(r->end - r->at); }

__attribute__((format(printf, 2, 3))) static bool fail(wire_reader *r, const char *format, ...) {
  if (r->status == RLX_OK) {
    char what[160];
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    r->status = RLX_FAIL(MALFORMED, "%s: %s at byte %zu of %zu", r->message, what, (size_t)(r->at - r->start),
                         (size_t)(r->end - r->start));
  }
  r->at = r->end;
  return false;
}

static bool read_varint(wire_reader *r, uint64_t *out) {
  uint64_t value = 0;
  const uint8_t *at = r->at;
  for (int shift = 0; shift < 70; shift += 7) {
    if (at == r->end) return fail(r, "a number is cut off");
    uint8_t byte = *at++;
    value |= shift < 64 ? (uint64_t)(byte & 0x7f) << shift : 0;
    if (!(byte & 0x80)) {
      r->at = at;
      *out = value;
      return true;
    }
  }
  return fail(r, "a number is longer than 10 bytes");
}

static bool read_fixed(wire_reader *r, size_t size, uint64_t *out) {
  if (remaining(r) < size) return fail(r, "a number is cut off");
  *out = 0;
  memcpy(out, r->at, size);
  r->at += size;
  return true;
}

bool wire_next(wire_reader *r, wire_field *f) {
  if (r->status != RLX_OK || r->at == r->end) return false;
  uint64_t tag, length;
  if (!read_varint(r, &tag)) return false;
  if (tag >> 3 == 0 || tag >> 3 > 0x1fffffff) return fail(r, "field number %llu", (unsigned long long)(tag >> 3));
  *f = (wire_field){.number = (uint32_t)(tag >> 3), .type = (wire_type)(tag & 7), .from = r};
  const uint8_t *begin = r->at;
  switch (f->type) {
    case WIRE_VARINT:
      if (!read_varint(r, &f->value)) return false;
      break;
    case WIRE_FIXED64:
      if (!read_fixed(r, 8, &f->value)) return false;
      break;
    case WIRE_FIXED32:
      if (!read_fixed(r, 4, &f->value)) return false;
      break;
    case WIRE_LENGTH:
      if (!read_varint(r, &length)) return false;
      if (length > remaining(r)) {
        return fail(r, "field %u says %llu bytes and %zu remain", f->number, (unsigned long long)length, remaining(r));
      }
      begin = r->at;
      r->at += length;
      break;
    default: return fail(r, "field %u has wire type %u", f->number, (unsigned)f->type);
  }
  f->span = (wire_span){begin, (size_t)(r->at - begin)};
  return true;
}

static bool expect(const wire_field *f, wire_type type) {
  if (f->type == type) return true;
  return fail(f->from, "field %u has wire type %u, not %u", f->number, (unsigned)f->type, (unsigned)type);
}

wire_span wire_bytes(const wire_field *f) { return expect(f, WIRE_LENGTH) ? f->span : (wire_span){0}; }

wire_span wire_name(const wire_field *f) {
  wire_span s = wire_bytes(f);
  if (s.size && memchr(s.data, 0, s.size)) {
    fail(f->from, "field %u is a name with a NUL byte in it", f->number);
    return (wire_span){0};
  }
  return s;
}

int64_t wire_int(const wire_field *f) { return expect(f, WIRE_VARINT) ? (int64_t)f->value : 0; }

float wire_float(const wire_field *f) {
  float value = 0;
  uint32_t bits = (uint32_t)f->value;
  if (expect(f, WIRE_FIXED32)) memcpy(&value, &bits, sizeof value);
  return value;
}

void wire_repeated(const wire_field *f) { fail(f->from, "field %u comes twice", f->number); }

static wire_type single_type(wire_element element) {
  return element == WIRE_INTS ? WIRE_VARINT : element == WIRE_FLOATS ? WIRE_FIXED32 : WIRE_FIXED64;
}

size_t wire_count(const wire_field *f, wire_element element) {
  if (f->type == single_type(element)) return 1;
  if (!expect(f, WIRE_LENGTH)) return 0;
  if (element == WIRE_INTS) {
    size_t count = 0;
    for (size_t i = 0; i < f->span.size; i++) count += !(f->span.data[i] & 0x80);
    return count;
  }
  size_t size = element == WIRE_FLOATS ? 4 : 8;
  if (f->span.size % size) {
    fail(f->from, "field %u packs %zu bytes of %zu-byte numbers", f->number, f->span.size, size);
    return 0;
  }
  return f->span.size / size;
}

wire_reader wire_open_ints(const wire_field *f) { return wire_open(f->span, f->from->message); }

bool wire_next_int(wire_reader *r, int64_t *value) {
  uint64_t bits;
  if (r->status != RLX_OK || r->at == r->end || !read_varint(r, &bits)) return false;
  *value = (int64_t)bits;
  return true;
}

void wire_close_ints(const wire_field *f, const wire_reader *r) {
  if (f->from->status != RLX_OK || r->status == RLX_OK) return;
  f->from->status = r->status;
  f->from->at = f->from->end;
}

void wire_unpack(const wire_field *f, wire_element element, void *to) {
  if (element != WIRE_INTS) {
    if (f->span.size) memcpy(to, f->span.data, f->span.size);
    return;
  }
  int64_t *ints = to;
  wire_reader r = wire_open_ints(f);
  while (wire_next_int(&r, ints)) ints++;
  wire_close_ints(f, &r);
}

bool wire_equal(wire_span a, const char *b) {
  return a.size == strlen(b) && (a.size == 0 || memcmp(a.data, b, a.size) == 0);
}

/* ---- writing ---- */

void wire_writer_finish(wire_writer *w) {
  vector_finish(&w->bytes);
  vector_finish(&w->pieces);
  *w = (wire_writer){0};
}

void wire_add(wire_writer *w, const void *data, size_t size) {
  if (w->failed || size == 0) return;
  if (!vector_reserve(&w->bytes, w->bytes.count + size)) {
    w->failed = true;
    return;
  }
  wire_piece *last = w->pieces.count ? &w->pieces.data[w->pieces.count - 1] : NULL;
  if (last && !last->borrowed) {
    last->size += size;
  } else if (!vector_push(&w->pieces, (wire_piece){.offset = w->bytes.count, .size = size})) {
    w->failed = true;
    return;
  }
  memcpy(w->bytes.data + w->bytes.count, data, size);
  w->bytes.count += size;
  w->size += size;
}

void wire_add_borrowed(wire_writer *w, const void *data, size_t size) {
  if (w->failed || size == 0) return;
  if (!vector_push(&w->pieces, (wire_piece){.borrowed = data, .size = size})) {
    w->failed = true;
    return;
  }
  w->size += size;
}

static void add_varint(wire_writer *w, uint64_t value) {
  uint8_t bytes[10];
  size_t n = 0;
  for (; value >= 0x80; value >>= 7) bytes[n++] = (uint8_t)(value | 0x80);
  bytes[n++] = (uint8_t)value;
  wire_add(w, bytes, n);
}

static void add_tag(wire_writer *w, uint32_t number, wire_type type) { add_varint(w, (uint64_t)number << 3 | type); }

void wire_put_int(wire_writer *w, uint32_t number, int64_t value) {
  add_tag(w, number, WIRE_VARINT);
  add_varint(w, (uint64_t)value);
}

void wire_put_float(wire_writer *w, uint32_t number, float value) {
  add_tag(w, number, WIRE_FIXED32);
  wire_add(w, &value, sizeof value);
}

void wire_put_bytes(wire_writer *w, uint32_t number, const void *data, size_t size) {
  add_tag(w, number, WIRE_LENGTH);
  add_varint(w, size);
  wire_add(w, data, size);
}

void wire_put_string(wire_writer *w, uint32_t number, const char *s) { wire_put_bytes(w, number, s, strlen(s)); }

void wire_put_borrowed(wire_writer *w, uint32_t number, const void *data, size_t size) {
  add_tag(w, number, WIRE_LENGTH);
  add_varint(w, size);
  wire_add_borrowed(w, data, size);
}

void wire_put_ints(wire_writer *w, uint32_t number, const int64_t *values, size_t count) {
  wire_writer packed = {0};
  for (size_t i = 0; i < count; i++) add_varint(&packed, (uint64_t)values[i]);
  wire_put_message(w, number, &packed);
}

void wire_put_floats(wire_writer *w, uint32_t number, const float *values, size_t count) {
  wire_put_bytes(w, number, values, count * sizeof *values);
}

void wire_put_message(wire_writer *w, uint32_t number, wire_writer *message) {
  add_tag(w, number, WIRE_LENGTH);
  add_varint(w, message->size);
  for (size_t i = 0; i < message->pieces.count; i++) {
    const wire_piece *p = &message->pieces.data[i];
    if (p->borrowed) {
      wire_add_borrowed(w, p->borrowed, p->size);
    } else {
      wire_add(w, message->bytes.data + p->offset, p->size);
    }
  }
  w->failed |= message->failed;
  wire_writer_finish(message);
}

rlx_status wire_save(const wire_writer *w, const char *path) {
  if (w->failed) return status_no_memory(w->size);
  file_part *parts = mem_array(w->pieces.count, sizeof *parts);
  if (!parts) return status_no_memory(w->pieces.count * sizeof *parts);
  for (size_t i = 0; i < w->pieces.count; i++) {
    const wire_piece *p = &w->pieces.data[i];
    parts[i] = (file_part){p->borrowed ? p->borrowed : w->bytes.data + p->offset, p->size};
  }
  rlx_status status = file_write_parts(path, parts, w->pieces.count);
  mem_free(parts);
  return status;
}
