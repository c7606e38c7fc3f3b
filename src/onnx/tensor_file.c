/* tensor_file.c — rlx_tensor_read, rlx_value_read, rlx_tensor_write: files of ONNX values, NumPy files. */
#include "onnx/tensor_file.h"

#include <string.h>

#include "base/need.h"
#include "onnx/folder.h"
#include "onnx/npy.h"
#include "onnx/schema.h"
#include "onnx/value_proto.h"

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

rlx_status rlx_value_read(const char *path, const rlx_type *type, rlx_tensor **out) {
  RLX_NEED(path);
  RLX_NEED(type);
  RLX_NEED(out);
  mapped_file *file;
  if (type->kind == RLX_KIND_TENSOR) return rlx_tensor_read(path, out);
  RLX_TRY(mapped_file_open(path, &file));
  wire_span content = {file->data, file->size};
  char *folder = path_folder(path);
  tensor_source source = {.folder = folder, .budget = budget_open(0)};
  rlx_status status = folder ? RLX_OK : status_no_memory(strlen(path));
  if (status == RLX_OK) status = value_proto_read(&source, content, type, out);
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
  if (!t->items && !tensor_raw(t)) return RLX_FAIL(UNSUPPORTED, "%s: the tensor is not in the host's memory", path);
  if (t->items && !ends_with(path, ".pb")) {
    status = RLX_FAIL(UNSUPPORTED, "a value that holds others is written to a .pb file");
  } else if (ends_with(path, ".npy")) {
    status = npy_write(t, &w);
  } else if (ends_with(path, ".pb")) {
    value_proto_put(&w, t, name);
  } else {
    return RLX_FAIL(INVALID, "%s: the name must end with .pb or .npy", path);
  }
  if (status == RLX_OK) status = wire_save(&w, path);
  wire_writer_finish(&w);
  return status == RLX_OK ? RLX_OK : status_prefix(status, "%s", path);
}
