/* _layouts.c — layouts of elementwise kernels. */
#include "backend/cpu/kernels/_layouts.h"

static bool one_element(const rlx_type *t) {
  if (t->rank == RLX_UNKNOWN) return false;
  for (int d = 0; d < t->rank; d++) {
    if (t->dims[d] != 1) return false;
  }
  return true;
}

/* Same rank, and the same known dims but for the first. */
static bool full_sized(const rlx_type *t, const rlx_type *out) {
  if (t->rank != out->rank) return false;
  for (int d = 1; d < t->rank; d++) {
    if (t->dims[d] != out->dims[d] || t->dims[d] == RLX_UNKNOWN) return false;
  }
  return true;
}

void elementwise_layouts(const rlx_node *n, rlx_layouts *l) {
  const rlx_type *out = rlx_node_output_type(n, 0);
  int inputs = l->input_count, full = 0;
  for (int i = 0; i < inputs; i++) l->inputs[i] = RLX_ROW_MAJOR;
  l->outputs[0] = RLX_ROW_MAJOR;
  if (out == NULL || out->rank < 2) return;
  for (int i = 0; i < inputs; i++) {
    const rlx_type *in = rlx_node_input_type(n, i);
    if (in == NULL) continue;
    bool fits = inputs == 1 || full_sized(in, out);
    if (!fits && !one_element(in)) return;
    full += fits;
  }
  if (full == 0) return;
  for (int i = 0; i < inputs; i++) {
    const rlx_type *in = rlx_node_input_type(n, i);
    if (in != NULL && (inputs == 1 || full_sized(in, out))) l->inputs[i] = RLX_SAME_LAYOUT;
  }
  l->outputs[0] = RLX_SAME_LAYOUT;
}
