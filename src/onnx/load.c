/* load.c — rlx_graph_load, rlx_graph_load_memory and rlx_graph_save: ONNX or the text form, told apart by content. */
#include <string.h>

#include "base/need.h"
#include "ir/parse.h"
#include "onnx/folder.h"
#include "onnx/onnx.h"

/* Text has no control characters but white space; an ONNX file has one within its first few bytes. */
static bool looks_like_text(const mapped_file *file) {
  size_t size = file->size < 4096 ? file->size : 4096;
  for (size_t i = 0; i < size; i++) {
    uint8_t c = file->data[i];
    if ((c < 0x20 && c != '\n' && c != '\t' && c != '\r') || c == 0x7f) return false;
  }
  return true;
}

static rlx_status copy_options(const rlx_load_options *options, rlx_load_options *out) {
  *out = (rlx_load_options)RLX_LOAD_OPTIONS_INIT;
  if (!options) return RLX_OK;
  size_t size = options->struct_size;
  if (size < sizeof options->struct_size) return RLX_FAIL(INVALID, "load options: struct_size is %zu", size);
  memcpy(out, options, size < sizeof *out ? size : sizeof *out);
  if (out->flags) return RLX_FAIL(INVALID, "load options: flags 0x%x are not known", out->flags);
  if (out->memory_limit < 0) return RLX_FAIL(INVALID, "load options: memory limit %lld", (long long)out->memory_limit);
  return RLX_OK;
}

static rlx_status load(mapped_file *file, const char *name, const char *folder, const rlx_load_options *options,
                       rlx_graph **out) {
  if (file->size == 0) return RLX_FAIL(MALFORMED, "%s: the file is empty", name);
  if (looks_like_text(file) && !onnx_probe(file->data, file->size)) {
    return graph_parse((const char *)file->data, file->size, name, folder, options->registry, out);
  }
  rlx_status status = onnx_import(file, folder, options->registry, options->memory_limit, out);
  return status == RLX_OK ? RLX_OK : status_prefix(status, "%s", name);
}

rlx_status rlx_graph_load(const char *path, const rlx_load_options *options, rlx_graph **out) {
  RLX_NEED(path);
  RLX_NEED(out);
  rlx_load_options o;
  mapped_file *file;
  RLX_TRY(copy_options(options, &o));
  RLX_TRY(mapped_file_open(path, &file));
  char *folder = path_folder(path);
  rlx_status status = folder ? load(file, path, folder, &o, out) : status_no_memory(strlen(path));
  mem_free(folder);
  mapped_file_release(file);
  return status;
}

rlx_status rlx_graph_load_memory(const void *data, size_t size, const rlx_load_options *options, rlx_graph **out) {
  RLX_NEED(data || !size);
  RLX_NEED(out);
  rlx_load_options o;
  mapped_file *file;
  RLX_TRY(copy_options(options, &o));
  if (o.memory_limit && size > (uint64_t)o.memory_limit) {
    return RLX_FAIL(OUT_OF_MEMORY, "memory: %zu bytes are past the memory limit of %lld", size,
                    (long long)o.memory_limit);
  }
  RLX_TRY(mapped_file_copy(data, size, &file));
  rlx_status status = load(file, "memory", NULL, &o, out);
  mapped_file_release(file);
  return status;
}

rlx_status rlx_graph_save(const rlx_graph *g, const char *path) {
  RLX_NEED(g);
  RLX_NEED(path);
  rlx_status status = rlx_graph_status(g);
  if (status == RLX_OK) status = onnx_export(g, path, ONNX_FILE_BYTES);
  return status == RLX_OK ? RLX_OK : status_prefix(status, "%s", path);
}
