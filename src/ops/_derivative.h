/* _derivative.h — derivative formulas written as text, built as graph nodes. */
#ifndef OPS_DERIVATIVE_H
#define OPS_DERIVATIVE_H

#include <rlx/extend.h>

/* What the names of a formula stand for. Values may be NULL if the formula does not use them. */
typedef struct derivative_terms {
  rlx_value *x, *y, *z; /* inputs */
  rlx_value *r, *g;     /* result, and its gradient (or an input's tangent) */
  double a, b, n;       /* attributes; number of inputs */
  rlx_dtype dtype;      /* of constants */
} derivative_terms;

/* Adds nodes for a formula: x, y, z, r, g, a, b, n, numbers, + - * / and comparisons, Name(args) for
 * onnx.Name, If(number, then, else) decided now. A failure is recorded in g and gives NULL. */
rlx_value *derivative_build(rlx_graph *g, const char *formula, const derivative_terms *terms);

/* `value`, summed over the dims that broadcasting to it from `like` repeated; value itself if the shapes
 * are known to be equal. */
rlx_value *derivative_unbroadcast(rlx_graph *g, rlx_value *value, rlx_value *like);

/* States the type of a value just made, whose node says it only when it is inferred. */
rlx_status derivative_typed(rlx_graph *g, rlx_value *v, const rlx_type *type);
/* A constant of int64, rank 1. */
rlx_value *derivative_ints(rlx_graph *g, const int64_t *values, int64_t count);
/* "1, 2, 3" for derivative_text; returns `to`. */
const char *derivative_list(const int64_t *values, int64_t count, char *to, size_t size);
/* A tensor of v's dtype and dims (which may be known only when it runs), filled with a number. */
rlx_value *derivative_filled(rlx_graph *g, const rlx_value *v, double number);

/* Adds the nodes of a graph in text form (ir/parse.h), printed with `format`, that gets `inputs` (NULL: left out) for
 * its inputs; outputs[i] is its output i. For rlx_op.derive and vjp:
 * "d (x) => (y) <float c = {1e-5}> { d = CastLike (c, x)  s = Add (x, d)  y = Sqrt (s) }" */
__attribute__((format(printf, 4, 5))) rlx_status derivative_text(rlx_graph *g, rlx_value *const *inputs,
                                                                 rlx_value **outputs, const char *format, ...);

#endif
