/* check.h — derivatives held against differences: the test of every op's vjp and jvp. */
#ifndef GRAD_CHECK_H
#define GRAD_CHECK_H

#include "ir/op.h"

/* Zero means default. */
typedef struct grad_check {
  const rlx_session_options *options; /* of the sessions that run the graphs; NULL: defaults */
  const rlx_registry *registry;       /* of sample rows */
  uint64_t seed;
  double low, high; /* of random inputs; equal: ranges are tried until all results are finite */
  double step;      /* default: by the narrowest float among inputs and outputs, 2^-18 for double, 2^-7 for float */
  double tolerance; /* error allowed, as a share of 1 + |expected|; default 1e-6 for double, 5e-3 for float, … */
  int most;         /* elements looked at of each input, evenly spread; default 64 */
} grad_check;

typedef struct grad_report {
  bool passed;
  rlx_dtype dtype;       /* the narrowest float */
  int64_t gradients;     /* elements of gradients compared */
  int64_t tangents;      /* elements of tangents compared */
  double worst_gradient; /* largest error, as a share of 1 + |expected| */
  double worst_tangent;
  char what[512]; /* the first that is wrong: "gradient of 'X'[3] is 0.5, not 0.25" */
} grad_report;

/* Differentiates g (one vjp with random output gradients for all float inputs, one jvp along random tangents) and
 * compares with central differences of g itself at random inputs. inputs[i]: of graph input i, or NULL: random
 * (integers 0 or 1). Fails where g cannot be differentiated or run; a difference is no failure but !passed. */
rlx_status grad_check_graph(const rlx_graph *g, const grad_check *how, rlx_tensor *const *inputs, grad_report *out);
/* The same for one op with a sample row of its record, in double where the op takes double instead of float. */
rlx_status grad_check_sample(const op_entry *op, const char *row, const grad_check *how, grad_report *out);

#endif
