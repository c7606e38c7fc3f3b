/* value_proto.c — values that hold others, as ONNX's files of test data have them. A message does not say of what type
 * it is: the graph's declaration does. Depth is that of the type, which has a limit. */
#include "onnx/value_proto.h"

#include <string.h>

#include "base/memory.h"
#include "ir/dtype.h"
#include "ir/shape.h"
#include "onnx/schema.h"

/* ---- reading ------------------------------------------------------------------------------ */

typedef VECTOR(rlx_tensor *) item_list;

static void values_finish(item_list *list) {
  for (size_t i = 0; i < list->count; i++) rlx_tensor_destroy(list->data[i]);
  vector_finish(list);
}

/* The fields of a SequenceProto and of an OptionalProto by the kind of what they hold. */
static const uint32_t sequence_fields[] = {[RLX_KIND_TENSOR] = SEQUENCE_TENSORS,
                                           [RLX_KIND_SEQUENCE] = SEQUENCE_SEQUENCES,
                                           [RLX_KIND_OPTIONAL] = SEQUENCE_OPTIONALS,
                                           [RLX_KIND_MAP] = SEQUENCE_MAPS};
static const uint32_t optional_fields[] = {[RLX_KIND_TENSOR] = OPTIONAL_TENSOR,
                                           [RLX_KIND_SEQUENCE] = OPTIONAL_SEQUENCE,
                                           [RLX_KIND_OPTIONAL] = OPTIONAL_OPTIONAL,
                                           [RLX_KIND_MAP] = OPTIONAL_MAP};

/* Items of the type held, in `fields[kind]`; anything else that could be one is an error. */
static rlx_status read_items(tensor_source *s, wire_reader r, const uint32_t *fields, const rlx_type *held,
                             item_list *items) {
  wire_field f;
  uint32_t first = fields[RLX_KIND_TENSOR], last = fields[RLX_KIND_OPTIONAL];
  while (wire_next(&r, &f)) {
    if (f.number < first || f.number > last) continue;
    char text[300];
    if (f.number != fields[held->kind])
      return RLX_FAIL(INVALID, "%s: an item is not %s", r.message, type_text(held, text, sizeof text));
    rlx_tensor *t;
    RLX_TRY(budget_take(&s->budget, (int64_t)sizeof *t));
    RLX_TRY(value_proto_read(s, wire_bytes(&f), held, &t));
    if (vector_push(items, t)) continue;
    rlx_tensor_destroy(t);
    return status_no_memory(sizeof t);
  }
  return r.status;
}

/* Models leave dtypes open. */
static rlx_status settle_type(const item_list *items, rlx_type *held, rlx_type *type) {
  if (held->dtype != RLX_UNDEFINED || !items->count) return RLX_OK;
  rlx_tensor_type(items->data[0], held);
  if (held->kind == RLX_KIND_TENSOR) held->rank = RLX_UNKNOWN;
  return rlx_type_hold(type->kind, RLX_UNDEFINED, held, type);
}

static rlx_status read_sequence(tensor_source *s, wire_span message, rlx_type type, rlx_tensor **out) {
  item_list items = {0};
  rlx_type held;
  (void)rlx_type_held(&type, &held);
  rlx_status status = read_items(s, wire_open(message, "SequenceProto"), sequence_fields, &held, &items);
  if (status == RLX_OK) status = settle_type(&items, &held, &type);
  if (status == RLX_OK) status = rlx_value_create(&type, items.data, (int64_t)items.count, out);
  values_finish(&items);
  return status;
}

/* The last item counts, as protobuf has it. */
static rlx_status read_optional(tensor_source *s, wire_span message, rlx_type type, rlx_tensor **out) {
  item_list items = {0};
  rlx_type held;
  (void)rlx_type_held(&type, &held);
  rlx_status status = read_items(s, wire_open(message, "OptionalProto"), optional_fields, &held, &items);
  if (status == RLX_OK) status = settle_type(&items, &held, &type);
  if (status == RLX_OK)
    status = rlx_value_create(&type, items.count ? &items.data[items.count - 1] : NULL, items.count > 0, out);
  values_finish(&items);
  return status;
}

/* Keys of a map as a tensor: integers come in one field, strings in another. */
typedef struct key_reader {
  rlx_dtype dtype;
  VECTOR(int64_t) ints;
  VECTOR(wire_span) strings;
} key_reader;

static bool take_keys(key_reader *k, const wire_field *f) {
  int64_t value;
  bool room = true;
  wire_reader r = wire_open_ints(f);
  while (room && wire_next_int(&r, &value)) room = vector_push(&k->ints, value);
  wire_close_ints(f, &r);
  return room;
}

static rlx_status make_keys(const key_reader *k, rlx_tensor **out) {
  bool text = k->dtype == RLX_STRING;
  int64_t count = (int64_t)(text ? k->strings.count : k->ints.count);
  if (text ? k->ints.count > 0 : k->strings.count > 0)
    return RLX_FAIL(INVALID, "MapProto: its keys are not %s", rlx_dtype_name(k->dtype));
  rlx_tensor *t;
  RLX_TRY(rlx_tensor_create(k->dtype, 1, &count, &t));
  rlx_status status = RLX_OK;
  for (int64_t i = 0; i < count && status == RLX_OK; i++) {
    if (text) {
      wire_span s = k->strings.data[i];
      status = rlx_tensor_set_string(t, i, s.size ? (const char *)s.data : "", s.size);
      continue;
    }
    dtype_store_int(k->dtype, t->data, i, k->ints.data[i]);
    if (dtype_load_int(k->dtype, t->data, i) != k->ints.data[i])
      status = RLX_FAIL(INVALID, "MapProto: key %lld is no %s", (long long)k->ints.data[i], rlx_dtype_name(k->dtype));
  }
  if (status == RLX_OK)
    *out = t;
  else
    rlx_tensor_destroy(t);
  return status;
}

/* A sequence of scalars as one tensor; anything else as it is. Takes the reference over. */
static rlx_status pack_values(rlx_tensor *sequence, rlx_tensor **out) {
  size_t size = dtype_size(sequence->dtype);
  bool scalars = sequence->element == RLX_KIND_TENSOR && size > 0;
  for (int64_t i = 0; i < sequence->count && scalars; i++) scalars = sequence->items[i]->rank == 0;
  if (!scalars) {
    *out = sequence;
    return RLX_OK;
  }
  rlx_tensor *t = NULL;
  rlx_status status = rlx_tensor_create(sequence->dtype, 1, &sequence->count, &t);
  for (int64_t i = 0; i < sequence->count && status == RLX_OK; i++) {
    const void *from = tensor_raw(sequence->items[i]);
    const rlx_string *s = from;
    if (t->dtype == RLX_STRING)
      status = rlx_tensor_set_string(t, i, s->data ? s->data : "", s->size);
    else
      memcpy((char *)t->data + (size_t)i * size, from, size);
  }
  rlx_tensor_destroy(sequence);
  if (status == RLX_OK)
    *out = t;
  else
    rlx_tensor_destroy(t);
  return status;
}

static rlx_status read_map_fields(tensor_source *s, wire_span message, const rlx_type *values, key_reader *keys,
                                  rlx_tensor **out) {
  wire_reader r = wire_open(message, "MapProto");
  wire_field f;
  bool room = true;
  wire_span sequence = {0};
  while (room && wire_next(&r, &f)) {
    if (f.number == MAP_KEYS) room = take_keys(keys, &f);
    if (f.number == MAP_STRING_KEYS) room = vector_push(&keys->strings, wire_bytes(&f));
    if (f.number == MAP_VALUES) sequence = wire_bytes(&f);
  }
  if (!room) return status_no_memory(message.size);
  RLX_TRY(r.status);
  rlx_tensor *read;
  RLX_TRY(read_sequence(s, sequence, *values, &read));
  return pack_values(read, out);
}

static rlx_status read_map(tensor_source *s, wire_span message, const rlx_type *type, rlx_tensor **out) {
  key_reader keys = {.dtype = rlx_type_key(type)};
  rlx_type held, values;
  rlx_tensor *items[2] = {0};
  (void)rlx_type_held(type, &held);
  RLX_TRY(rlx_type_hold(RLX_KIND_SEQUENCE, RLX_UNDEFINED, &held, &values));
  rlx_status status = read_map_fields(s, message, &values, &keys, &items[1]);
  if (status == RLX_OK) status = make_keys(&keys, &items[0]);
  if (status == RLX_OK) status = rlx_value_create(type, items, 2, out);
  rlx_tensor_destroy(items[0]);
  rlx_tensor_destroy(items[1]);
  vector_finish(&keys.ints);
  vector_finish(&keys.strings);
  return status;
}

rlx_status value_proto_read(tensor_source *s, wire_span message, const rlx_type *type, rlx_tensor **out) {
  switch (type->kind) {
    case RLX_KIND_TENSOR: return tensor_proto_read(s, message, NULL, out);
    case RLX_KIND_SEQUENCE: return read_sequence(s, message, *type, out);
    case RLX_KIND_OPTIONAL: return read_optional(s, message, *type, out);
    case RLX_KIND_MAP: return read_map(s, message, type, out);
  }
  return RLX_FAIL(INVALID, "a value of kind %d", (int)type->kind);
}

/* ---- writing ------------------------------------------------------------------------------ */

enum { PROTO_NAME = 1 }; /* of all three messages */

/* SequenceProto.DataType and OptionalProto.DataType. */
static int held_type(rlx_kind kind) {
  static const int types[] = {
      [RLX_KIND_TENSOR] = 1, [RLX_KIND_SEQUENCE] = 3, [RLX_KIND_MAP] = 4, [RLX_KIND_OPTIONAL] = 5};
  return types[kind];
}

static void put_items(wire_writer *w, const rlx_tensor *t, const uint32_t *fields) {
  wire_put_int(w, SEQUENCE_ELEM_TYPE, held_type(t->element));
  for (int64_t i = 0; i < t->count; i++) {
    wire_writer item = {0};
    value_proto_put(&item, t->items[i], NULL);
    wire_put_message(w, fields[t->element], &item);
  }
}

/* The elements of a tensor, each as one. */
static void put_scalars(wire_writer *w, const rlx_tensor *t) {
  size_t size = dtype_size(t->dtype);
  wire_put_int(w, SEQUENCE_ELEM_TYPE, held_type(RLX_KIND_TENSOR));
  for (int64_t i = 0; i < t->count; i++) {
    const char *at = (const char *)tensor_raw(t) + (size_t)i * size;
    rlx_tensor scalar = {.dtype = t->dtype, .count = 1, .bytes = size, .data = (void *)(uintptr_t)at};
    wire_writer item = {0};
    tensor_proto_put(&item, &scalar, NULL);
    wire_put_message(w, SEQUENCE_TENSORS, &item);
  }
}

static void put_map(wire_writer *w, const rlx_tensor *t) {
  const rlx_tensor *keys = t->items[0], *values = t->items[1];
  wire_put_int(w, MAP_KEY_DTYPE, keys->dtype);
  for (int64_t i = 0; i < keys->count; i++) {
    const rlx_string *s = (const rlx_string *)keys->data + i;
    if (keys->dtype == RLX_STRING)
      wire_put_bytes(w, MAP_STRING_KEYS, s->size ? s->data : "", s->size);
    else
      wire_put_int(w, MAP_KEYS, dtype_load_int(keys->dtype, tensor_raw(keys), i));
  }
  wire_writer sequence = {0};
  if (values->kind == RLX_KIND_TENSOR)
    put_scalars(&sequence, values);
  else
    put_items(&sequence, values, sequence_fields);
  wire_put_message(w, MAP_VALUES, &sequence);
}

void value_proto_put(wire_writer *w, const rlx_tensor *t, const char *name) {
  if (t->kind == RLX_KIND_TENSOR) {
    tensor_proto_put(w, t, name);
    return;
  }
  if (name) wire_put_string(w, PROTO_NAME, name);
  if (t->kind == RLX_KIND_MAP)
    put_map(w, t);
  else
    put_items(w, t, t->kind == RLX_KIND_SEQUENCE ? sequence_fields : optional_fields);
}
