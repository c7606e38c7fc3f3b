/* export_type.c — types and tensors to TypeProto and TensorProto. */
#include <stdio.h>

#include "onnx/export.h"
#include "onnx/schema.h"
#include "onnx/tensor_proto.h"

enum {
  EXTERNAL_BYTES = 1024, /* smaller tensors stay in the model */
  EXTERNAL_ALIGN = 64
};

/* Newer element types need newer versions of the format. */
static void need_dtype(exporter *e, rlx_dtype dtype) {
  int version = dtype >= RLX_FLOAT6E2M3   ? 14
                : dtype >= RLX_UINT2      ? 13
                : dtype >= RLX_FLOAT8E8M0 ? 12
                : dtype >= RLX_FLOAT4E2M1 ? 11
                                          : 10;
  if (e->ir_version < version) e->ir_version = version;
}

static void put_shape(wire_writer *w, const rlx_type *type, const char *const *symbols) {
  wire_writer shape = {0};
  for (int i = 0; i < type->rank; i++) {
    wire_writer dim = {0};
    if (type->dims[i] >= 0)
      wire_put_int(&dim, DIM_VALUE, type->dims[i]);
    else if (symbols && symbols[i])
      wire_put_string(&dim, DIM_PARAM, symbols[i]);
    wire_put_message(&shape, SHAPE_DIM, &dim);
  }
  wire_put_message(w, TENSOR_TYPE_SHAPE, &shape);
}

static void put_tensor_type(exporter *e, wire_writer *message, const rlx_type *type, const char *const *symbols) {
  wire_writer tensor = {0};
  need_dtype(e, type->dtype);
  wire_put_int(&tensor, TENSOR_TYPE_ELEM, type->dtype);
  if (type->rank >= 0) put_shape(&tensor, type, symbols);
  wire_put_message(message, TYPE_TENSOR, &tensor);
}

void export_type(exporter *e, wire_writer *w, uint32_t number, const rlx_type *type, const char *const *symbols) {
  static const uint32_t fields[] = {
      [RLX_KIND_SEQUENCE] = TYPE_SEQUENCE, [RLX_KIND_OPTIONAL] = TYPE_OPTIONAL, [RLX_KIND_MAP] = TYPE_MAP};
  wire_writer message = {0}, around = {0};
  rlx_type held;
  if (rlx_type_held(type, &held)) {
    bool keyed = type->kind == RLX_KIND_MAP;
    if (keyed) wire_put_int(&around, MAP_KEY_TYPE, rlx_type_key(type));
    export_type(e, &around, keyed ? MAP_VALUE_TYPE : ELEMENT_TYPE, &held, NULL);
    wire_put_message(&message, fields[type->kind], &around);
  } else {
    put_tensor_type(e, &message, type, symbols);
  }
  wire_put_message(w, number, &message);
}

rlx_status export_declaration(exporter *e, wire_writer *w, uint32_t number, const char *name, const rlx_value *v) {
  wire_writer message = {0};
  wire_put_string(&message, VALUE_NAME, name);
  if (v->type.dtype != RLX_UNDEFINED) export_type(e, &message, VALUE_TYPE, &v->type, v->symbols);
  wire_put_message(w, number, &message);
  return RLX_OK;
}

static void put_entry(wire_writer *w, const char *key, const char *value) {
  wire_writer entry = {0};
  wire_put_string(&entry, ENTRY_KEY, key);
  wire_put_string(&entry, ENTRY_VALUE, value);
  wire_put_message(w, TENSOR_EXTERNAL_DATA, &entry);
}

static void put_external(exporter *e, wire_writer *w, const rlx_tensor *t) {
  static const char zeros[EXTERNAL_ALIGN];
  char offset[32], length[32];
  size_t padding = (size_t)(-e->data_size & (EXTERNAL_ALIGN - 1));
  e->data_size += (int64_t)padding;
  snprintf(offset, sizeof offset, "%lld", (long long)e->data_size);
  snprintf(length, sizeof length, "%zu", t->bytes);
  put_entry(w, "location", e->location);
  put_entry(w, "offset", offset);
  put_entry(w, "length", length);
  wire_put_int(w, TENSOR_DATA_LOCATION, LOCATION_EXTERNAL);
  e->data_size += (int64_t)t->bytes;
  if (!vector_push(&e->data, (file_part){zeros, padding}) ||
      !vector_push(&e->data, (file_part){tensor_raw(t), t->bytes})) {
    w->failed = true;
  }
}

void export_tensor(exporter *e, wire_writer *w, uint32_t number, const rlx_tensor *t, const char *name) {
  wire_writer message = {0};
  need_dtype(e, t->dtype);
  if (e->external && t->bytes >= EXTERNAL_BYTES && t->dtype != RLX_STRING) {
    tensor_proto_put_head(&message, t, name);
    put_external(e, &message, t);
  } else {
    tensor_proto_put(&message, t, name);
  }
  wire_put_message(w, number, &message);
}
