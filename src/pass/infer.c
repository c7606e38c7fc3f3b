/* infer.c — pass infer: static types of every value. */
#include "ir/infer.h"

#include "pass/pass.h"

rlx_status pass_infer(rlx_graph *g, const target *t, bool *changed) {
  (void)t;
  (void)changed;
  return infer_graph(g, false);
}
