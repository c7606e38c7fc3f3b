/* fuzz_model.c — any bytes as a model: loading neither crashes nor passes the memory limit; what loads is valid,
 * prints, and comes back the same from the ONNX file it is written to. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ir/validate.h"
#include "onnx/onnx.h"
#include "onnx/wire.h"
#include "support/graph_equal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void die(const char *why) {
  fprintf(stderr, "fuzz_model: %s\n", why);
  abort();
}

static rlx_status load(const void *data, size_t size, rlx_graph **out) {
  rlx_load_options options = RLX_LOAD_OPTIONS_INIT;
  options.memory_limit = 256 << 20;
  return rlx_graph_load_memory(data, size, &options, out);
}

/* NULL if ONNX has no word for something in the graph. */
static rlx_graph *write_and_load(const rlx_graph *g) {
  wire_writer w = {0};
  rlx_graph *back = NULL;
  rlx_status status = onnx_encode(g, &w);
  if (status != RLX_OK && status != RLX_UNSUPPORTED) die(rlx_error_message());
  uint8_t *bytes = malloc(w.size + 1), *at = bytes;
  for (size_t i = 0; i < w.pieces.count; i++) {
    const wire_piece *p = &w.pieces.data[i];
    memcpy(at, p->borrowed ? p->borrowed : w.bytes.data + p->offset, p->size);
    at += p->size;
  }
  if (status == RLX_OK && load(bytes, w.size, &back) != RLX_OK) die(rlx_error_message());
  free(bytes);
  wire_writer_finish(&w);
  return back;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  rlx_graph *g, *once, *twice;
  char *text;
  if (load(data, size, &g) != RLX_OK) return 0;
  if (graph_validate(g) != RLX_OK) die(rlx_error_message());
  if (rlx_graph_print(g, &text) == RLX_OK) rlx_free(text);
  once = write_and_load(g);
  twice = once ? write_and_load(once) : NULL;
  const char *difference = twice ? graph_difference(once, twice) : NULL;
  if (difference) die(difference);
  rlx_graph_destroy(g);
  rlx_graph_destroy(once);
  rlx_graph_destroy(twice);
  return 0;
}
