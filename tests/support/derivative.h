/* derivative.h — the derivatives of one node, vjp and jvp, against central differences, in double or float. */
#ifndef TESTS_SUPPORT_DERIVATIVE_H
#define TESTS_SUPPORT_DERIVATIVE_H

#include <rlx/extend.h>

typedef struct derivative_row {
  const char *body; /* "g (double[2,3] x) => (y) { y = Op (x) }": one node; domains beside ONNX's own in `domain` */
  double diagonal;  /* added to the diagonals of inputs whose last two dims are equal */
  uint64_t flat;    /* bit i: input i has no gradient */
} derivative_row;

/* Fails the test where a gradient of any input, or a tangent, differs. Inputs are uniform in [-1, 1]; those of integers
 * are constants of the body. Rows in float have wider steps and tolerances. domain NULL: none but ONNX's. */
void derivative_check(const derivative_row *row, const char *domain);

#endif
