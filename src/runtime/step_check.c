/* step_check.c — RLX_DEBUG=check: what a step made is compared with what the op's eval makes of the same inputs. */
#include <math.h>
#include <string.h>

#include "base/log.h"
#include "ir/dtype.h"
#include "ir/run_node.h"
#include "runtime/session.h"

enum { OUTPUTS = 16 };

static bool strings_equal(const rlx_string *a, const rlx_string *b) {
  return a->size == b->size && (!a->size || memcmp(a->data, b->data, a->size) == 0);
}

/* Largest difference between a and b in units of atol + rtol * |b|; NaN equals NaN; what is no number is equal or not.
 */
static double worst_difference(const rlx_operand *a, const rlx_tensor *b) {
  double worst = 0;
  bool exact = !dtype_is_float(a->dtype);
  if (a->dtype == RLX_COMPLEX64 || a->dtype == RLX_COMPLEX128) {
    rlx_operand parts = *a;
    rlx_tensor whole = *b;
    parts.dtype = whole.dtype = a->dtype == RLX_COMPLEX64 ? RLX_FLOAT : RLX_DOUBLE;
    parts.count *= 2;
    return worst_difference(&parts, &whole);
  }
  for (int64_t i = 0; i < a->count; i++) {
    if (a->dtype == RLX_STRING) {
      if (!strings_equal((const rlx_string *)a->data + i, (const rlx_string *)b->data + i)) return INFINITY;
      continue;
    }
    double x = dtype_load(a->dtype, a->data, i), y = dtype_load(b->dtype, b->data, i);
    if (x == y || (isnan(x) && isnan(y))) continue;
    double unit = exact ? 0 : 1e-5 + 1e-3 * fabs(y);
    double d = unit > 0 ? fabs(x - y) / unit : INFINITY;
    if (!(d <= worst)) worst = d;
  }
  return worst;
}

/* NULL, or why the step cannot be compared. */
static const char *why_not(const run_frame *f, int t) {
  const step *s = &f->stage->steps[t];
  const rlx_node *n = s->from->node;
  const rlx_op *op = &n->op->op;
  if (!op->eval) return "the op has no eval";
  if (!s->chosen->kernel) return "its eval ran it";
  if (op->traits & RLX_RANDOM) return "the op is random";
  if (op->traits & RLX_CONTROL_FLOW) return "it runs subgraphs, whose nodes are compared";
  if (op->traits & RLX_SIDE_EFFECT) return "it would take effect twice";
  if (n->output_count > OUTPUTS) return "it has too many outputs";
  for (int i = 0; i < n->input_count; i++)
    if (f->ctxs[t].inputs[i].packed || f->ctxs[t].inputs[i].layout) return "an input is packed, or in a layout";
  for (int i = 0; i < n->output_count; i++) {
    if (f->ctxs[t].outputs[i].layout) return "an output is in a layout";
    if (operand_is_cell(&f->ctxs[t].outputs[i])) return "an output is no tensor";
  }
  return NULL;
}

static rlx_status compare(const run_frame *f, int t, rlx_tensor **out) {
  const step *s = &f->stage->steps[t];
  for (int i = 0; i < s->from->node->output_count; i++) {
    const rlx_operand *is = &f->ctxs[t].outputs[i];
    if (s->from->outputs[i] == NO_SLOT) continue;
    if (out[i]->rank != is->rank || out[i]->count != is->count)
      return RLX_FAIL(KERNEL, "check: output %d has %lld elements, from eval %lld", i, (long long)is->count,
                      (long long)out[i]->count);
    double worst = worst_difference(is, out[i]);
    if (worst > 1) return RLX_FAIL(KERNEL, "check: output %d differs from eval by %g times the tolerance", i, worst);
  }
  return RLX_OK;
}

rlx_status step_check(run_frame *f, int t) {
  const step *s = &f->stage->steps[t];
  const rlx_node *n = s->from->node;
  rlx_type types[OUTPUTS];
  rlx_tensor *out[OUTPUTS] = {NULL};
  const char *reason = why_not(f, t);
  if (reason) {
    log_line(RLX_LOG_DEBUG, "check: node '%s' (%s) is not compared: %s", n->name, n->op_name, reason);
    return RLX_OK;
  }
  for (int i = 0; i < n->output_count; i++)
    if (s->from->outputs[i] == NO_SLOT) /* eval makes it all the same */
      types[i] = n->outputs[i]->type;
    else
      types[i] = f->stage->facts[s->from->outputs[i]].type;
  rlx_status status = node_run(n, n->op->op.eval, f->ctxs[t].inputs, types, out);
  if (status == RLX_UNSUPPORTED) { /* a reference may refuse what it is too slow for */
    log_line(RLX_LOG_WARN, "check: node '%s' (%s) is passed over: %s", n->name, n->op_name, rlx_error_message());
    return RLX_OK;
  }
  if (status == RLX_OK) status = compare(f, t, out);
  for (int i = 0; i < n->output_count; i++) rlx_tensor_destroy(out[i]);
  return status;
}
