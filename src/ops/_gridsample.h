/* _gridsample.h — parameters of GridSample and AffineGrid, and what they are differentiated as. */
#ifndef OPS_GRIDSAMPLE_H
#define OPS_GRIDSAMPLE_H

#include <rlx/extend.h>
#include <string.h>

typedef struct grid_params {
  uint64_t given;
  rlx_string mode, padding_mode;
  int64_t align_corners;
} grid_params;

static inline bool grid_word(const rlx_string *s, const char *word) {
  return s->data && strlen(word) == s->size && memcmp(s->data, word, s->size) == 0;
}

rlx_status grid_sample_derive(rlx_graph *g, const rlx_node *n, rlx_value **outputs);
rlx_status affine_grid_derive(rlx_graph *g, const rlx_node *n, rlx_value **outputs);

#endif
