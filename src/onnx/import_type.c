/* import_type.c — TypeProto and ValueInfoProto. */
#include <string.h>

#include "ir/shape.h"
#include "onnx/import.h"
#include "onnx/schema.h"

static rlx_status dim_read(wire_span message, int64_t *dim, wire_span *symbol) {
  wire_reader r = wire_open(message, "TensorShapeProto.Dimension");
  wire_field f;
  *dim = RLX_UNKNOWN;
  *symbol = (wire_span){0};
  while (wire_next(&r, &f)) {
    if (f.number == DIM_VALUE) *dim = wire_int(&f);
    if (f.number == DIM_PARAM) *symbol = wire_name(&f);
  }
  RLX_TRY(r.status);
  if (*dim < RLX_UNKNOWN) return RLX_FAIL(INVALID, "a dim is %lld", (long long)*dim);
  // Exporters write "?" for every dim that has no name: those are not one symbol.
  bool nameless = symbol->size == 1 && symbol->data[0] == '?';
  if (*dim != RLX_UNKNOWN || nameless) *symbol = (wire_span){0};
  return RLX_OK;
}

static rlx_status shape_read(wire_span message, rlx_type *type, wire_span *symbols) {
  wire_reader r = wire_open(message, "TensorShapeProto");
  wire_field f;
  wire_span symbol;
  type->rank = 0;
  while (wire_next(&r, &f)) {
    if (f.number != SHAPE_DIM) continue;
    if (type->rank == RLX_MAX_RANK) return RLX_FAIL(UNSUPPORTED, "a rank past %d", RLX_MAX_RANK);
    wire_span dim = wire_bytes(&f);
    RLX_TRY(dim_read(dim, &type->dims[type->rank], symbols ? &symbols[type->rank] : &symbol));
    type->rank++;
  }
  return r.status;
}

static rlx_status dtype_check(int64_t code, rlx_dtype *out) {
  if (code < 0 || code >= RLX_DTYPE_COUNT) return RLX_FAIL(UNSUPPORTED, "data type %lld is not known", (long long)code);
  *out = (rlx_dtype)code;
  return RLX_OK;
}

static rlx_status tensor_type_read(wire_span message, rlx_type *type, wire_span *symbols) {
  wire_reader r = wire_open(message, "TypeProto.Tensor");
  wire_field f;
  while (wire_next(&r, &f)) {
    if (f.number == TENSOR_TYPE_ELEM) RLX_TRY(dtype_check(wire_int(&f), &type->dtype));
    if (f.number == TENSOR_TYPE_SHAPE) RLX_TRY(shape_read(wire_bytes(&f), type, symbols));
  }
  return r.status;
}

/* A sequence, an optional or a map, by the field of what it holds. Dims inside are not kept. */
static rlx_status holder_read(wire_span message, uint32_t field, rlx_kind kind, int level, rlx_type *type) {
  wire_reader r = wire_open(message, "TypeProto");
  wire_field f;
  rlx_type held;
  rlx_dtype key = RLX_UNDEFINED;
  type_unknown(&held, RLX_UNDEFINED);
  while (wire_next(&r, &f)) {
    if (kind == RLX_KIND_MAP && f.number == MAP_KEY_TYPE) RLX_TRY(dtype_check(wire_int(&f), &key));
    if (f.number == field) RLX_TRY(type_read(wire_bytes(&f), level + 1, &held, NULL));
  }
  RLX_TRY(r.status);
  return rlx_type_hold(kind, key, &held, type);
}

rlx_status type_read(wire_span message, int level, rlx_type *type, wire_span *symbols) {
  if (level > MAX_LEVELS) return RLX_FAIL(UNSUPPORTED, "a type nested more than %d levels", MAX_LEVELS);
  wire_reader r = wire_open(message, "TypeProto");
  wire_field f;
  type_unknown(type, RLX_UNDEFINED);
  while (wire_next(&r, &f)) {
    switch (f.number) {
      case TYPE_TENSOR: RLX_TRY(tensor_type_read(wire_bytes(&f), type, symbols)); break;
      case TYPE_SEQUENCE: RLX_TRY(holder_read(wire_bytes(&f), ELEMENT_TYPE, RLX_KIND_SEQUENCE, level, type)); break;
      case TYPE_OPTIONAL: RLX_TRY(holder_read(wire_bytes(&f), ELEMENT_TYPE, RLX_KIND_OPTIONAL, level, type)); break;
      case TYPE_MAP: RLX_TRY(holder_read(wire_bytes(&f), MAP_VALUE_TYPE, RLX_KIND_MAP, level, type)); break;
      case TYPE_SPARSE_TENSOR: return RLX_FAIL(UNSUPPORTED, "sparse tensors as values");
      case TYPE_OPAQUE: return RLX_FAIL(UNSUPPORTED, "opaque types");
      default: break;
    }
  }
  return r.status;
}

rlx_status declaration_read(wire_span message, declaration *out) {
  *out = (declaration){0};
  wire_reader r = wire_open(message, "ValueInfoProto");
  wire_field f;
  wire_span type = {0};
  while (wire_next(&r, &f)) {
    if (f.number == VALUE_NAME) out->name = wire_name(&f);
    if (f.number != VALUE_TYPE) continue;
    type = wire_bytes(&f);
    out->typed = true;
  }
  RLX_TRY(r.status);
  rlx_status status = out->typed ? type_read(type, 0, &out->type, out->symbols) : RLX_OK;
  return status == RLX_OK ? RLX_OK : status_prefix(status, "value '%.*s'", WIRE_TEXT(out->name));
}

static rlx_status contradiction(const declaration *d, const rlx_value *v) {
  char declared[400], known[400];
  return RLX_FAIL(INVALID, "value '%.*s' is declared %s, and is %s", WIRE_TEXT(d->name),
                  type_text(&d->type, declared, sizeof declared), type_text(&v->type, known, sizeof known));
}

static rlx_status symbol_apply(rlx_value *v, int dim, wire_span symbol) {
  arena *memory = &v->graph->memory;
  if (symbol.size == 0 || v->type.dims[dim] != RLX_UNKNOWN) return RLX_OK;
  if (!v->symbols) v->symbols = arena_array(memory, RLX_MAX_RANK, sizeof *v->symbols);
  if (!v->symbols) return status_no_memory(RLX_MAX_RANK * sizeof *v->symbols);
  return v->symbols[dim] ? RLX_OK : name_copy(memory, symbol, &v->symbols[dim]);
}

rlx_status declaration_apply(const declaration *d, rlx_value *v) {
  const rlx_type *from = &d->type;
  rlx_type *type = &v->type;
  if (!d->typed) return RLX_OK;
  bool first = type->dtype == RLX_UNDEFINED && type->rank == RLX_UNKNOWN && type->kind == RLX_KIND_TENSOR;
  if (first) type_take_kind(type, from);
  if (!type_same_kind(type, from)) return contradiction(d, v);
  if (type->dtype == RLX_UNDEFINED) type->dtype = from->dtype;
  if (from->dtype != RLX_UNDEFINED && from->dtype != type->dtype) return contradiction(d, v);
  if (from->rank == RLX_UNKNOWN) return RLX_OK;
  if (type->rank == RLX_UNKNOWN) {
    type->rank = from->rank;
    for (int i = 0; i < from->rank; i++) type->dims[i] = RLX_UNKNOWN;
  }
  if (type->rank != from->rank) return contradiction(d, v);
  for (int i = 0; i < from->rank; i++) {
    if (type->dims[i] == RLX_UNKNOWN) type->dims[i] = from->dims[i];
    if (from->dims[i] != RLX_UNKNOWN && from->dims[i] != type->dims[i]) return contradiction(d, v);
    RLX_TRY(symbol_apply(v, i, d->symbols[i]));
  }
  return RLX_OK;
}
