/* fold.c — pass fold: nodes whose inputs are constant become constants. */
#include <string.h>

#include "ir/infer.h"
#include "ir/run_node.h"
#include "ir/shape.h"
#include "pass/pass.h"

/* A constant may grow by folding (Expand, ConstantOfShape) only up to this. */
enum { LARGEST_GROWTH = 1 << 16 };

static bool foldable(const rlx_node *n) {
  const op_entry *op = n->op;
  if (!op || !op->op.eval || !(op->op.traits & RLX_PURE) ||
      (op->op.traits & (RLX_RANDOM | RLX_SIDE_EFFECT | RLX_CONTROL_FLOW)))
    return false;
  if (!node_is_own(n) || n->input_count > 64) return false;
  bool shape_only = op->op.traits & RLX_SHAPE_ONLY;
  int64_t in_bytes = 0, out_bytes = 0;
  for (int i = 0; i < n->input_count; i++) {
    const rlx_value *v = n->inputs[i];
    if (!v) continue;
    if (shape_only ? !type_is_concrete(&v->type) : !v->constant) return false;
    in_bytes += shape_only ? 0 : type_bytes(&v->type);
  }
  for (int i = 0; i < n->output_count; i++) {
    if (n->outputs[i]->type.kind != RLX_KIND_TENSOR) return false;
    int64_t bytes = type_bytes(&n->outputs[i]->type);
    if (bytes > 0) out_bytes += bytes;
  }
  return out_bytes <= LARGEST_GROWTH || out_bytes <= in_bytes;
}

static rlx_status evaluate(rlx_node *n, rlx_tensor **out) {
  rlx_operand inputs[64] = {{0}};
  rlx_type types[64];
  for (int i = 0; i < n->input_count; i++) {
    const rlx_value *v = n->inputs[i];
    if (!v) continue;
    if (v->constant) {
      if (!tensor_pin(v->constant)) { /* those before are let go */
        for (int k = 0; k < i; k++)
          if (n->inputs[k] && n->inputs[k]->constant) tensor_unpin(n->inputs[k]->constant);
        return status_no_memory(v->constant->bytes);
      }
      inputs[i] = tensor_operand_pinned(v->constant);
    } else {
      inputs[i] = (rlx_operand){.dims = v->type.dims,
                                .rank = v->type.rank,
                                .dtype = v->type.dtype,
                                .count = shape_count(v->type.rank, v->type.dims)};
    }
  }
  for (int i = 0; i < n->output_count; i++) types[i] = n->outputs[i]->type;
  rlx_status status = node_run(n, n->op->op.eval, inputs, types, out);
  for (int i = 0; i < n->input_count; i++)
    if (n->inputs[i] && n->inputs[i]->constant) tensor_unpin(n->inputs[i]->constant);
  return status;
}

rlx_status pass_fold(rlx_graph *g, const target *t, bool *changed) {
  (void)t;
  bool *keep = mem_array(g->nodes.count, sizeof *keep);
  if (!keep) return status_no_memory(g->nodes.count);
  rlx_status status = RLX_OK;
  for (size_t i = 0; i < g->nodes.count && status == RLX_OK; i++) {
    rlx_node *n = g->nodes.data[i];
    keep[i] = true;
    if (n->output_count > 64) continue;
    status = infer_node_types(n); /* values folded before may tell more */
    if (status != RLX_OK) status = status_prefix(status, "node '%s' (%s)", n->name, n->op_name);
    if (status != RLX_OK || !foldable(n)) continue;
    rlx_tensor *out[64] = {NULL};
    /* A node that fails on its constants fails when it runs, not here: it may never run. */
    rlx_status tried = evaluate(n, out);
    if (tried == RLX_OUT_OF_MEMORY) status = tried;
    if (tried != RLX_OK) continue;
    for (int k = 0; k < n->output_count; k++) {
      n->outputs[k]->constant = out[k];
      n->outputs[k]->producer = NULL;
      rlx_tensor_type(out[k], &n->outputs[k]->type);
    }
    selection_drop(n);
    keep[i] = false;
    *changed = true;
  }
  if (status == RLX_OK) graph_remove_nodes(g, keep);
  mem_free(keep);
  graph_number(g);
  return status;
}
