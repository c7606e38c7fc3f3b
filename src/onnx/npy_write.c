/* npy_write.c — writing NumPy's array files, version 1. Source: numpy.lib.format. */
#include <stdio.h>
#include <string.h>

#include "onnx/npy.h"
#include "onnx/npy_type.h"

enum { HEADER_ALIGN = 64, PREFIX_BYTES = 10 };

/* "<f4", or for strings the width that holds the longest. */
static rlx_status describe(const rlx_tensor *t, char *descr, size_t room, size_t *width) {
  const char *name = npy_type_name(t->dtype);
  *width = 1;
  if (name) {
    snprintf(descr, room, "%c%s", name[1] == '1' && !name[2] ? '|' : '<', name);
    return RLX_OK;
  }
  if (t->dtype != RLX_STRING) {
    return RLX_FAIL(UNSUPPORTED, "npy: no type for %s; a .pb file has one", rlx_dtype_name(t->dtype));
  }
  const rlx_string *strings = t->data;
  for (int64_t i = 0; i < t->count; i++) {
    int64_t count = npy_count_code_points(strings[i].data, strings[i].size);
    if (count < 0) return RLX_FAIL(UNSUPPORTED, "npy: string %lld is not UTF-8; a .pb file can hold it", (long long)i);
    if (strings[i].size && strings[i].data[strings[i].size - 1] == 0) {
      return RLX_FAIL(UNSUPPORTED, "npy: string %lld ends with a NUL; a .pb file can hold it", (long long)i);
    }
    if ((size_t)count > *width) *width = (size_t)count;
  }
  snprintf(descr, room, "<U%zu", *width);
  return RLX_OK;
}

static void put_header(const rlx_tensor *t, const char *descr, wire_writer *w) {
  char text[512];
  int n = snprintf(text, sizeof text, "{'descr': '%s', 'fortran_order': False, 'shape': (", descr);
  for (int i = 0; i < t->rank; i++) {
    n += snprintf(text + n, sizeof text - (size_t)n, "%s%lld", i ? ", " : "", (long long)t->dims[i]);
  }
  n += snprintf(text + n, sizeof text - (size_t)n, "%s), }", t->rank == 1 ? "," : "");
  while ((PREFIX_BYTES + n + 1) % HEADER_ALIGN) text[n++] = ' ';
  text[n++] = '\n';
  const uint8_t prefix[PREFIX_BYTES] = {0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0, (uint8_t)n, (uint8_t)(n >> 8)};
  wire_add(w, prefix, sizeof prefix);
  wire_add(w, text, (size_t)n);
}

static rlx_status put_strings(const rlx_tensor *t, size_t width, wire_writer *w) {
  const rlx_string *strings = t->data;
  uint32_t *row = mem_array(width, sizeof *row);
  if (!row) return status_no_memory(width * sizeof *row);
  for (int64_t i = 0; i < t->count; i++) {
    memset(row, 0, width * sizeof *row);
    npy_encode_string(strings[i].data, strings[i].size, row);
    wire_add(w, row, width * sizeof *row);
  }
  mem_free(row);
  return RLX_OK;
}

rlx_status npy_write(const rlx_tensor *t, wire_writer *w) {
  char descr[40];
  size_t width;
  RLX_TRY(describe(t, descr, sizeof descr, &width));
  put_header(t, descr, w);
  if (t->dtype == RLX_STRING)
    RLX_TRY(put_strings(t, width, w));
  else
    wire_add_borrowed(w, tensor_raw(t), t->bytes);
  return w->failed ? status_no_memory(w->size) : RLX_OK;
}
