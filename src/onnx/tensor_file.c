/* tensor_file.c — rlx_tensor_read, rlx_value_read, rlx_tensor_write: files of ONNX values, NumPy files. */
#include "onnx/tensor_file.h"

#include <string.h>

#include "base/need.h"
#include "onnx/folder.h"
#include "onnx/npy.h"
#include "onnx/schema.h"
#include "onnx/tensor_proto.h"

rlx_status tensor_file_parse(const mapped_file *file, const char *folder, rlx_tensor **out) {
  wire_span content = {file->data, file->size};
  if (content.size == 0) return RLX_FAIL(MALFORMED, "the file is empty");
  if (npy_probe(content)) return npy_read(content, out);
  tensor_source source = {.folder = folder, .budget = budget_open(0)};
  rlx_status status = tensor_proto_read(&source, content, NULL, out);
  tensor_source_finish(&source);
  return status;
}

rlx_status rlx_tensor_read(const char *path, rlx_tensor **out) {
  RLX_NEED(path);
  RLX_NEED(out);
  mapped_file *file;
  RLX_TRY(mapped_file_open(path, &file));
  char *folder = path_folder(path);
  rlx_status status = folder ? tensor_file_parse(file, folder, out) : status_no_memory(strlen(path));
  mem_free(folder);
  mapped_file_release(file);
  return status == RLX_OK ? RLX_OK : status_prefix(status, "%s", path);
}

/* ---- sequences and optionals -------------------------------------------------------------- */

typedef VECTOR(rlx_tensor *) tensor_list;

static rlx_status read_items(tensor_source *s, wire_span message, tensor_list *items) {
  wire_reader r = wire_open(message, "SequenceProto");
  wire_field f;
  while (wire_next(&r, &f)) {
    if (f.number >= SEQUENCE_SPARSE_TENSORS && f.number <= SEQUENCE_OPTIONALS)
      return RLX_FAIL(UNSUPPORTED, "a sequence of something else than tensors");
    if (f.number != SEQUENCE_TENSORS) continue;
    rlx_tensor *t;
    RLX_TRY(tensor_proto_read(s, wire_bytes(&f), NULL, &t));
    if (vector_push(items, t)) continue;
    rlx_tensor_destroy(t);
    return status_no_memory(sizeof t);
  }
  return r.status;
}

static rlx_status read_sequence(tensor_source *s, wire_span message, rlx_dtype dtype, rlx_tensor **out) {
  tensor_list items = {0};
  rlx_status status = read_items(s, message, &items);
  if (dtype == RLX_UNDEFINED && items.count) dtype = items.data[0]->dtype;
  if (status == RLX_OK) status = rlx_sequence_create(dtype, items.data, (int64_t)items.count, out);
  for (size_t i = 0; i < items.count; i++) rlx_tensor_destroy(items.data[i]);
  vector_finish(&items);
  return status;
}

static rlx_status read_optional(tensor_source *s, wire_span message, const rlx_type *type, rlx_tensor **out) {
  wire_reader r = wire_open(message, "OptionalProto");
  wire_field f;
  rlx_tensor *item = NULL;
  rlx_status status = RLX_OK;
  while (status == RLX_OK && wire_next(&r, &f)) {
    bool tensor = f.number == OPTIONAL_TENSOR, sequence = f.number == OPTIONAL_SEQUENCE;
    if (!tensor && !sequence) {
      if (f.number >= OPTIONAL_TENSOR && f.number <= OPTIONAL_OPTIONAL)
        status = RLX_FAIL(UNSUPPORTED, "an optional of something else than a tensor or a sequence");
      continue;
    }
    rlx_tensor_destroy(item);
    item = NULL;
    status = tensor ? tensor_proto_read(s, wire_bytes(&f), NULL, &item)
                    : read_sequence(s, wire_bytes(&f), type->dtype, &item);
  }
  if (status == RLX_OK) status = r.status;
  if (status == RLX_OK) status = rlx_optional_create(type->element, type->dtype, item, out);
  rlx_tensor_destroy(item);
  return status;
}

rlx_status rlx_value_read(const char *path, const rlx_type *type, rlx_tensor **out) {
  RLX_NEED(path);
  RLX_NEED(type);
  RLX_NEED(out);
  mapped_file *file;
  if (type->kind == RLX_KIND_TENSOR) return rlx_tensor_read(path, out);
  if (type->kind == RLX_KIND_MAP) return RLX_FAIL(UNSUPPORTED, "%s: maps cannot be read", path);
  RLX_TRY(mapped_file_open(path, &file));
  wire_span content = {file->data, file->size};
  char *folder = path_folder(path);
  tensor_source source = {.folder = folder, .budget = budget_open(0)};
  rlx_status status = folder ? RLX_OK : status_no_memory(strlen(path));
  if (status == RLX_OK)
    status = type->kind == RLX_KIND_SEQUENCE ? read_sequence(&source, content, type->dtype, out)
                                             : read_optional(&source, content, type, out);
  tensor_source_finish(&source);
  mem_free(folder);
  mapped_file_release(file);
  return status == RLX_OK ? RLX_OK : status_prefix(status, "%s", path);
}

static bool ends_with(const char *s, const char *end) {
  size_t a = strlen(s), b = strlen(end);
  return a >= b && strcmp(s + a - b, end) == 0;
}

rlx_status rlx_tensor_write(const rlx_tensor *t, const char *name, const char *path) {
  RLX_NEED(t);
  RLX_NEED(path);
  wire_writer w = {0};
  rlx_status status = RLX_OK;
  if (t->items) return RLX_FAIL(UNSUPPORTED, "%s: only tensors can be written", path);
  if (!tensor_raw(t)) return RLX_FAIL(UNSUPPORTED, "%s: the tensor is not in the host's memory", path);
  if (ends_with(path, ".npy")) {
    status = npy_write(t, &w);
  } else if (ends_with(path, ".pb")) {
    tensor_proto_put(&w, t, name);
  } else {
    return RLX_FAIL(INVALID, "%s: the name must end with .pb or .npy", path);
  }
  if (status == RLX_OK) status = wire_save(&w, path);
  wire_writer_finish(&w);
  return status == RLX_OK ? RLX_OK : status_prefix(status, "%s", path);
}
