/* fuzz_npy.c — any bytes as a NumPy file; what is read comes back the same from the file it is written to. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "onnx/npy.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool holds, const char *why) {
  if (holds) return;
  fprintf(stderr, "fuzz_npy: %s\n", why);
  abort();
}

static bool same(const rlx_tensor *a, const rlx_tensor *b) {
  if (a->dtype != b->dtype || a->rank != b->rank || a->bytes != b->bytes) return false;
  for (int d = 0; d < a->rank; d++)
    if (a->dims[d] != b->dims[d]) return false;
  return a->dtype == RLX_STRING || !a->bytes || memcmp(a->data, b->data, a->bytes) == 0;
}

/* False if NumPy has no name for the dtype, or its strings are longer than this reader takes. */
static bool write_and_read(const rlx_tensor *t, rlx_tensor **back) {
  wire_writer w = {0};
  rlx_status status = npy_write(t, &w);
  uint8_t *bytes = malloc(w.size + 1), *at = bytes;
  for (size_t i = 0; status == RLX_OK && i < w.pieces.count; i++) {
    const wire_piece *p = &w.pieces.data[i];
    memcpy(at, p->borrowed ? p->borrowed : w.bytes.data + p->offset, p->size);
    at += p->size;
  }
  if (status == RLX_OK) must(npy_read((wire_span){bytes, (size_t)(at - bytes)}, back) == RLX_OK, rlx_error_message());
  free(bytes);
  wire_writer_finish(&w);
  return status == RLX_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  wire_span content = {data, size};
  rlx_tensor *t, *back = NULL;
  if (!npy_probe(content) || npy_read(content, &t) != RLX_OK) return 0;
  if (write_and_read(t, &back)) must(same(t, back), "another tensor comes back");
  rlx_tensor_destroy(back);
  rlx_tensor_destroy(t);
  return 0;
}
