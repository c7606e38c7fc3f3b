/* import_attr.c — AttributeProto to rlx_attr: every kind, older files without a kind, and references of a
 * function's body to the attributes of its call. */
#include <string.h>

#include "onnx/import.h"
#include "onnx/schema.h"

/* An AttributeProto taken apart. */
typedef struct attr_parts {
  wire_span message, name, reference;
  int64_t type;    /* as written; 0: not */
  uint32_t field;  /* the field that holds the value; 0: none */
  uint32_t second; /* another one: an error */
  float f;
  int64_t i;
  wire_span bytes; /* of a string, tensor, graph or type */
  size_t count;    /* entries of a list */
} attr_parts;

/* The field of each kind. */
static const uint32_t kind_fields[] = {
    [RLX_ATTR_FLOAT] = ATTRIBUTE_F,
    [RLX_ATTR_INT] = ATTRIBUTE_I,
    [RLX_ATTR_STRING] = ATTRIBUTE_S,
    [RLX_ATTR_TENSOR] = ATTRIBUTE_T,
    [RLX_ATTR_GRAPH] = ATTRIBUTE_G,
    [RLX_ATTR_FLOATS] = ATTRIBUTE_FLOATS,
    [RLX_ATTR_INTS] = ATTRIBUTE_INTS,
    [RLX_ATTR_STRINGS] = ATTRIBUTE_STRINGS,
    [RLX_ATTR_TENSORS] = ATTRIBUTE_TENSORS,
    [RLX_ATTR_GRAPHS] = ATTRIBUTE_GRAPHS,
    [RLX_ATTR_SPARSE_TENSOR] = ATTRIBUTE_SPARSE_TENSOR,
    [RLX_ATTR_SPARSE_TENSORS] = ATTRIBUTE_SPARSE_TENSORS,
    [RLX_ATTR_TYPE] = ATTRIBUTE_TP,
    [RLX_ATTR_TYPES] = ATTRIBUTE_TYPE_PROTOS,
};
enum { KINDS = sizeof kind_fields / sizeof *kind_fields };

static rlx_attr_kind kind_of_field(uint32_t field) {
  for (int k = 1; k < KINDS; k++) {
    if (kind_fields[k] == field) return (rlx_attr_kind)k;
  }
  return RLX_ATTR_NONE;
}

/* Takes the field if it is a value. */
static void take_value(attr_parts *p, const wire_field *f) {
  rlx_attr_kind kind = kind_of_field(f->number);
  if (kind == RLX_ATTR_NONE) return;
  if (p->field && p->field != f->number) p->second = f->number;
  p->field = f->number;
  switch (kind) {
    case RLX_ATTR_FLOAT: p->f = wire_float(f); break;
    case RLX_ATTR_INT: p->i = wire_int(f); break;
    case RLX_ATTR_FLOATS: p->count += wire_count(f, WIRE_FLOATS); break;
    case RLX_ATTR_INTS: p->count += wire_count(f, WIRE_INTS); break;
    default:
      p->bytes = wire_bytes(f);
      p->count++;
      break;
  }
}

static rlx_status take_apart(wire_span message, attr_parts *p) {
  *p = (attr_parts){.message = message};
  wire_reader r = wire_open(message, "AttributeProto");
  wire_field f;
  while (wire_next(&r, &f)) {
    switch (f.number) {
      case ATTRIBUTE_NAME: p->name = wire_name(&f); break;
      case ATTRIBUTE_TYPE: p->type = wire_int(&f); break;
      case ATTRIBUTE_REF_ATTR_NAME: p->reference = wire_name(&f); break;
      default: take_value(p, &f); break;
    }
  }
  return r.status;
}

rlx_status attr_name(wire_span message, wire_span *name) {
  attr_parts p;
  RLX_TRY(take_apart(message, &p));
  *name = p.name;
  return RLX_OK;
}

/* The kind written, or in files from before it was, the kind of the value. */
static rlx_status find_kind(const attr_parts *p, rlx_attr_kind *out) {
  if (p->second) return RLX_FAIL(INVALID, "has values of two kinds");
  if (p->type < 0 || p->type >= KINDS) return RLX_FAIL(UNSUPPORTED, "kind %lld is not known", (long long)p->type);
  if (p->type == 0 && !p->field) return RLX_FAIL(INVALID, "has no value");
  rlx_attr_kind kind = p->type ? (rlx_attr_kind)p->type : kind_of_field(p->field);
  if (p->field && p->field != kind_fields[kind]) {
    return RLX_FAIL(INVALID, "is said to be of kind %d, and has a value of kind %d", (int)kind,
                    (int)kind_of_field(p->field));
  }
  /* Numbers, strings and lists that are zero or empty may be left out of the file. */
  bool needed =
      kind == RLX_ATTR_TENSOR || kind == RLX_ATTR_GRAPH || kind == RLX_ATTR_SPARSE_TENSOR || kind == RLX_ATTR_TYPE;
  if (needed && !p->field) return RLX_FAIL(INVALID, "has no value");
  *out = kind;
  return RLX_OK;
}

/* Room for a list of the attribute: counted, for a small file may pack many numbers. */
static rlx_status list_room(scope *s, arena *scratch, size_t count, size_t size, void **out) {
  RLX_TRY(budget_take(&s->importer->source.budget, (int64_t)(2 * count * size)));
  *out = arena_array(scratch, count, size);
  return *out ? RLX_OK : status_no_memory(count * size);
}

static rlx_status read_numbers(scope *s, arena *scratch, const attr_parts *p, rlx_attr *out) {
  bool ints = out->kind == RLX_ATTR_INTS;
  size_t size = ints ? sizeof(int64_t) : sizeof(float);
  void *list = NULL;
  RLX_TRY(list_room(s, scratch, p->count, size, &list));
  out->ints = ints ? list : NULL;
  out->floats = ints ? NULL : list;
  out->count = p->count;
  wire_reader r = wire_open(p->message, "AttributeProto");
  wire_field f;
  char *to = list;
  while (wire_next(&r, &f)) {
    if (f.number != p->field) continue;
    wire_unpack(&f, ints ? WIRE_INTS : WIRE_FLOATS, to);
    to += size * wire_count(&f, ints ? WIRE_INTS : WIRE_FLOATS);
  }
  return r.status;
}

static rlx_status read_string(scope *s, wire_span bytes, rlx_string *out) {
  RLX_TRY(budget_take(&s->importer->source.budget, (int64_t)bytes.size));
  *out = (rlx_string){bytes.size ? (const char *)bytes.data : "", bytes.size};
  return RLX_OK;
}

/* One entry of a list of strings, tensors, graphs or types. Lists are filled up to out->count, which
 * counts what is there, so that attr_finish knows what to release. */
static rlx_status read_entry(scope *s, rlx_graph *parent, wire_span bytes, rlx_attr *out, void *list) {
  tensor_source *source = &s->importer->source;
  size_t i = out->count;
  switch (out->kind) {
    case RLX_ATTR_STRINGS: RLX_TRY(read_string(s, bytes, &((rlx_string *)list)[i])); break;
    case RLX_ATTR_TENSORS: RLX_TRY(tensor_proto_read(source, bytes, NULL, &((rlx_tensor **)list)[i])); break;
    case RLX_ATTR_SPARSE_TENSORS: RLX_TRY(sparse_proto_read(source, bytes, NULL, &((rlx_tensor **)list)[i])); break;
    case RLX_ATTR_GRAPHS: RLX_TRY(import_subgraph(s, parent, bytes, &((rlx_graph **)list)[i])); break;
    default: RLX_TRY(type_read(bytes, 0, &((rlx_type *)list)[i], NULL)); break;
  }
  out->count++;
  return RLX_OK;
}

static rlx_status read_list(scope *s, rlx_graph *parent, arena *scratch, const attr_parts *p, rlx_attr *out) {
  void *list = NULL;
  bool strings = out->kind == RLX_ATTR_STRINGS, types = out->kind == RLX_ATTR_TYPES;
  size_t size = strings ? sizeof(rlx_string) : types ? sizeof(rlx_type) : sizeof(void *);
  RLX_TRY(list_room(s, scratch, p->count, size, &list));
  if (strings)
    out->strings = list;
  else if (types)
    out->types = list;
  else if (out->kind == RLX_ATTR_GRAPHS)
    out->graphs = list;
  else
    out->tensors = list;
  wire_reader r = wire_open(p->message, "AttributeProto");
  wire_field f;
  while (wire_next(&r, &f)) {
    if (f.number == p->field) RLX_TRY(read_entry(s, parent, wire_bytes(&f), out, list));
  }
  return r.status;
}

static rlx_status read_type(scope *s, arena *scratch, wire_span bytes, rlx_attr *out) {
  void *type = NULL;
  RLX_TRY(list_room(s, scratch, 1, sizeof(rlx_type), &type));
  out->types = type;
  return type_read(bytes, 0, type, NULL);
}

static rlx_status read_value(scope *s, rlx_graph *parent, arena *scratch, const attr_parts *p, rlx_attr *out) {
  tensor_source *source = &s->importer->source;
  switch (out->kind) {
    case RLX_ATTR_FLOAT: out->f = p->f; return RLX_OK;
    case RLX_ATTR_INT: out->i = p->i; return RLX_OK;
    case RLX_ATTR_STRING: return read_string(s, p->bytes, &out->s);
    case RLX_ATTR_TENSOR: return tensor_proto_read(source, p->bytes, NULL, &out->tensor);
    case RLX_ATTR_SPARSE_TENSOR: return sparse_proto_read(source, p->bytes, NULL, &out->tensor);
    case RLX_ATTR_GRAPH: return import_subgraph(s, parent, p->bytes, &out->graph);
    case RLX_ATTR_TYPE: return read_type(s, scratch, p->bytes, out);
    case RLX_ATTR_FLOATS:
    case RLX_ATTR_INTS: return read_numbers(s, scratch, p, out);
    default: return read_list(s, parent, scratch, p, out);
  }
}

/* Dense tensors stand for sparse ones from here on. */
static rlx_attr_kind dense_kind(rlx_attr_kind kind) {
  return kind == RLX_ATTR_SPARSE_TENSOR ? RLX_ATTR_TENSOR : kind == RLX_ATTR_SPARSE_TENSORS ? RLX_ATTR_TENSORS : kind;
}

static rlx_status read_here(scope *s, rlx_graph *parent, arena *scratch, const attr_parts *p, rlx_attr *out) {
  RLX_TRY(find_kind(p, &out->kind));
  rlx_status status = read_value(s, parent, scratch, p, out);
  out->kind = dense_kind(out->kind);
  if (status != RLX_OK) attr_finish(out);
  return status;
}

/* Looks an attribute of the open call up: what the calling node gives, else the function's default. */
static rlx_status read_reference(scope *s, rlx_graph *parent, arena *scratch, const attr_parts *p, rlx_attr *out,
                                 bool *present) {
  const call *c = s->call;
  if (!c) return RLX_FAIL(INVALID, "refers to '%.*s', but lies in no function", WIRE_TEXT(p->reference));
  for (size_t i = 0; i < c->argument_count; i++) {
    const argument *a = &c->arguments[i];
    if (a->name.size != p->reference.size || memcmp(a->name.data, p->reference.data, a->name.size) != 0) continue;
    RLX_TRY(attr_read(c->site, parent, scratch, a->message, out, present));
    if (*present) return RLX_OK;
  }
  for (size_t i = 0; i < c->function->defaults.count; i++) {
    attr_parts d;
    RLX_TRY(take_apart(c->function->defaults.data[i], &d));
    if (d.name.size != p->reference.size || memcmp(d.name.data, p->reference.data, d.name.size) != 0) continue;
    if (d.reference.size) return RLX_FAIL(INVALID, "the default of '%.*s' is a reference", WIRE_TEXT(d.name));
    *present = true;
    return read_here(s, parent, scratch, &d, out);
  }
  *present = false;
  return RLX_OK;
}

rlx_status attr_read(scope *s, rlx_graph *parent, arena *scratch, wire_span message, rlx_attr *out, bool *present) {
  attr_parts p;
  const char *name;
  *out = (rlx_attr){0};
  RLX_TRY(take_apart(message, &p));
  RLX_TRY(name_copy(scratch, p.name, &name));
  *present = true;
  rlx_status status = p.name.size == 0   ? RLX_FAIL(INVALID, "an attribute has no name")
                      : p.reference.size ? read_reference(s, parent, scratch, &p, out, present)
                                         : read_here(s, parent, scratch, &p, out);
  if (status != RLX_OK) return status_prefix(status, "attribute '%s'", name);
  out->name = name;
  if (*present && p.type && p.reference.size && out->kind != dense_kind((rlx_attr_kind)p.type)) {
    attr_finish(out);
    return RLX_FAIL(INVALID, "attribute '%s' is of kind %d, and what it refers to of kind %d", name, (int)p.type,
                    (int)out->kind);
  }
  return RLX_OK;
}

void attr_finish(rlx_attr *a) {
  rlx_tensor_destroy(a->tensor);
  for (size_t i = 0; a->tensors && i < a->count; i++) rlx_tensor_destroy(a->tensors[i]);
  *a = (rlx_attr){0};
}
