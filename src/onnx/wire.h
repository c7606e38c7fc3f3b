/* wire.h — protobuf's wire format: a bounds-checked reader over memory, and a writer. */
#ifndef ONNX_WIRE_H
#define ONNX_WIRE_H

#include "base/status.h"
#include "base/vector.h"

/* Bytes of a message, borrowed. */
typedef struct wire_span {
  const uint8_t *data;
  size_t size;
} wire_span;

typedef enum wire_type { WIRE_VARINT = 0, WIRE_FIXED64 = 1, WIRE_LENGTH = 2, WIRE_FIXED32 = 5 } wire_type;

/* One field of a message. */
typedef struct wire_field {
  uint32_t number;
  wire_type type;
  uint64_t value; /* VARINT, FIXED64, FIXED32 */
  wire_span span; /* its bytes; of LENGTH without the length. Never past the message's end */
  struct wire_reader *from;
} wire_field;

/* Walks the fields of one message: `while (wire_next(&r, &f)) …; RLX_TRY(r.status);`. After the first
 * failure it gives no more fields. */
typedef struct wire_reader {
  const uint8_t *start, *at, *end;
  const char *message; /* name of the message, for errors: "NodeProto" */
  rlx_status status;
} wire_reader;

wire_reader wire_open(wire_span span, const char *message);
bool wire_next(wire_reader *r, wire_field *f);

/* The field's value, checked to be of the kind asked for; a wrong wire type fails the reader and gives
 * an empty value. */
wire_span wire_bytes(const wire_field *f);
int64_t wire_int(const wire_field *f);
float wire_float(const wire_field *f);
/* wire_bytes for names: a NUL byte inside fails the reader. */
wire_span wire_name(const wire_field *f);
/* Fails the reader: a field that may come once came again. */
void wire_repeated(const wire_field *f);

/* Element kinds of repeated numbers. */
typedef enum wire_element { WIRE_INTS, WIRE_FLOATS, WIRE_DOUBLES } wire_element;
/* How many numbers the field holds, packed or single. 0 after failing the reader on a wrong wire type,
 * or a packed size that is no whole number of elements. */
size_t wire_count(const wire_field *f, wire_element element);
/* Copies the numbers, as int64_t, float or double, to `to`, which has room for wire_count of them. */
void wire_unpack(const wire_field *f, wire_element element, void *to);
/* The same for WIRE_INTS one by one: `wire_reader r = wire_open_ints(&f); while (wire_next_int(&r, &v)) …`,
 * which must be ended by wire_close_ints, for it passes a failure on to the message. */
wire_reader wire_open_ints(const wire_field *f);
bool wire_next_int(wire_reader *r, int64_t *value);
void wire_close_ints(const wire_field *f, const wire_reader *r);

bool wire_equal(wire_span a, const char *b);
/* For "%.*s": the length, cut to what a message should hold. */
#define WIRE_TEXT(s) (int)((s).size < 200 ? (s).size : 200), (s).size ? (const char *)(s).data : ""

/* ---- writing ---- */

/* A piece of the output: bytes of the writer's own buffer, or borrowed memory (weights). */
typedef struct wire_piece {
  const void *borrowed; /* NULL: own bytes, from `offset` */
  size_t offset, size;
} wire_piece;

/* A message being written. Large data is not copied: it is kept as a borrowed piece and must live until
 * the message is written out. Failure of an allocation is sticky. Zero-initialised is empty. Owned:
 * wire_writer_finish. */
typedef struct wire_writer {
  VECTOR(uint8_t) bytes;
  VECTOR(wire_piece) pieces;
  size_t size; /* of the whole message */
  bool failed;
} wire_writer;

void wire_writer_finish(wire_writer *w);
void wire_add(wire_writer *w, const void *data, size_t size); /* bytes without a tag; copies */
void wire_add_borrowed(wire_writer *w, const void *data, size_t size);
void wire_put_int(wire_writer *w, uint32_t number, int64_t value);
void wire_put_float(wire_writer *w, uint32_t number, float value);
void wire_put_bytes(wire_writer *w, uint32_t number, const void *data, size_t size); /* copies */
void wire_put_string(wire_writer *w, uint32_t number, const char *s);
void wire_put_borrowed(wire_writer *w, uint32_t number, const void *data, size_t size);
void wire_put_ints(wire_writer *w, uint32_t number, const int64_t *values, size_t count); /* packed */
void wire_put_floats(wire_writer *w, uint32_t number, const float *values, size_t count); /* packed */
/* Adds `message` as field `number` and finishes it. */
void wire_put_message(wire_writer *w, uint32_t number, wire_writer *message);
/* Writes the message to a file, all or nothing. */
rlx_status wire_save(const wire_writer *w, const char *path);

#endif
