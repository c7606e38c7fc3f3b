/* _layouts.c — layouts of elementwise kernels. */
#include "backend/cpu/kernels/_layouts.h"

#include "ir/layout.h"

/* Dim d of t, right-aligned with `rank` dims. */
static int64_t aligned(const rlx_type *t, int rank, int d) {
  int own = d - (rank - t->rank);
  return own < 0 ? 1 : t->dims[own];
}

typedef enum fit {
  FIT_NOT,      /* its elements meet those of the output in a way that layouts change */
  FIT_AS_IT_IS, /* it lies the same in all layouts */
  FIT_SAME      /* it must have the output's layout */
} fit;

/* Only the channels must be known: an operand in the output's layout is broadcast right whatever its other dims are. */
static fit fit_of(const rlx_type *t, const rlx_type *out) {
  bool one_point = true;
  if (t->rank == RLX_UNKNOWN || t->rank > out->rank) return FIT_NOT;
  int64_t channels = aligned(t, out->rank, 1);
  if (channels == RLX_UNKNOWN || (channels != 1 && channels != out->dims[1])) return FIT_NOT;
  for (int d = 2; d < out->rank; d++) one_point &= aligned(t, out->rank, d) == 1;
  if (channels == 1 || one_point) return FIT_AS_IT_IS;
  return t->rank == out->rank ? FIT_SAME : FIT_NOT;
}

void elementwise_layouts(const rlx_node *n, rlx_layouts *l) {
  const rlx_type *out = rlx_node_output_type(n, 0);
  int same = 0;
  for (int i = 0; i < l->input_count; i++) l->inputs[i] = RLX_ROW_MAJOR;
  l->outputs[0] = RLX_ROW_MAJOR;
  if (out == NULL || out->rank < 3) return;
  if (l->input_count == 1) {
    l->inputs[0] = l->outputs[0] = RLX_SAME_LAYOUT;
    return;
  }
  for (int i = 0; i < l->input_count; i++) {
    const rlx_type *in = rlx_node_input_type(n, i);
    fit f = in == NULL ? FIT_AS_IT_IS : fit_of(in, out);
    if (f == FIT_NOT) return;
    same += f == FIT_SAME;
  }
  if (same == 0) return;
  for (int i = 0; i < l->input_count; i++) {
    const rlx_type *in = rlx_node_input_type(n, i);
    if (in != NULL && fit_of(in, out) == FIT_SAME) l->inputs[i] = RLX_SAME_LAYOUT;
  }
  l->outputs[0] = RLX_SAME_LAYOUT;
}

const rlx_type *elementwise_type(const rlx_bound *b, int input, rlx_type *storage) {
  const rlx_type *out = rlx_bound_output(b, 0), *t = input < 0 ? out : rlx_bound_input(b, input);
  uint32_t layout = rlx_bound_output_layout(b, 0);
  if (layout == LAYOUT_ROW_MAJOR || t == NULL) return t;
  int64_t dims[RLX_MAX_RANK];
  for (int d = 0; d < out->rank; d++) dims[d] = aligned(t, out->rank, d);
  *storage = *t;
  storage->rank = layout_physical(layout, out->rank, dims, storage->dims);
  return storage;
}
