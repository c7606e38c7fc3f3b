/* fuzz_text.c — libFuzzer target: any bytes as a text graph; what parses must validate and survive a round trip. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ir/parse.h"
#include "ir/print.h"
#include "ir/validate.h"
#include "support/graph_equal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool holds, const char *why) {
  if (holds) return;
  fprintf(stderr, "fuzz_text: %s\n", why);
  abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  rlx_graph *g, *back;
  text printed = {0};
  if (graph_parse((const char *)data, size, "fuzz", NULL, NULL, &g) != RLX_OK) return 0;
  must(graph_validate(g) == RLX_OK, rlx_error_message());
  must(graph_print(g, NULL, &printed) == RLX_OK, rlx_error_message());
  must(graph_parse(printed.data, printed.size, "again", NULL, NULL, &back) == RLX_OK, rlx_error_message());
  const char *difference = graph_difference(g, back);
  must(!difference, difference);
  graph_dump(back, &printed);
  rlx_status strict = rlx_graph_validate(g); /* may refuse a shape */
  (void)strict;
  rlx_graph_destroy(back);
  rlx_graph_destroy(g);
  text_finish(&printed);
  return 0;
}
