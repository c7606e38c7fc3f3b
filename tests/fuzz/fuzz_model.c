/* fuzz_model.c — any bytes as a model: loading, and writing what loaded to memory, must neither crash nor pass the
 * memory limit. */
#include "ir/graph.h"
#include "ir/validate.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  rlx_load_options options = RLX_LOAD_OPTIONS_INIT;
  rlx_graph *g;
  char *text;
  options.memory_limit = 256 << 20;
  if (rlx_graph_load_memory(data, size, &options, &g) != RLX_OK) return 0;
  if (graph_validate(g) == RLX_OK && rlx_graph_print(g, &text) == RLX_OK) rlx_free(text);
  rlx_graph_destroy(g);
  return 0;
}
