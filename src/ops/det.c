/* det.c — Det: determinants of square matrices. */
#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "ir/module.h"
#include "ops/_derivative.h"
#include "ops/_move.h"

static const rlx_port det_inputs[] = {{.name = "X", .variable = "T", .dtypes = RLX_SET_FLOATS}, {0}};
static const rlx_port det_outputs[] = {{.name = "Y", .variable = "T", .dtypes = RLX_SET_FLOATS}, {0}};

static rlx_status det_infer(rlx_infer *ctx) {
  const rlx_type *x = rlx_infer_input(ctx, 0);
  if (x->rank < 0) return RLX_OK;
  if (x->rank < 2) return rlx_fail(ctx, RLX_INVALID, "input has rank %d", x->rank);
  int64_t rows = x->dims[x->rank - 2], columns = x->dims[x->rank - 1];
  if (rows >= 0 && columns >= 0 && rows != columns)
    return rlx_fail(ctx, RLX_INVALID, "matrices of %lld × %lld are not square", (long long)rows, (long long)columns);
  rlx_infer_set(ctx, 0, x->rank - 2, x->dims);
  return RLX_OK;
}

/* By elimination with partial pivoting; a is overwritten. */
static double determinant(double *a, int64_t n) {
  double det = 1;
  for (int64_t k = 0; k < n; k++) {
    int64_t pivot = k;
    for (int64_t i = k + 1; i < n; i++)
      if (fabs(a[i * n + k]) > fabs(a[pivot * n + k])) pivot = i;
    double p = a[pivot * n + k];
    if (p == 0) return 0;
    if (pivot != k) {
      det = -det;
      for (int64_t j = k; j < n; j++) {
        double swap = a[k * n + j];
        a[k * n + j] = a[pivot * n + j];
        a[pivot * n + j] = swap;
      }
    }
    det *= p;
    for (int64_t i = k + 1; i < n; i++) {
      double factor = a[i * n + k] / p;
      for (int64_t j = k + 1; j < n; j++) a[i * n + j] -= factor * a[k * n + j];
    }
  }
  return det;
}

static rlx_status det_eval(rlx_ctx *ctx) {
  const rlx_operand *x = &ctx->inputs[0], *y = &ctx->outputs[0];
  int64_t n = x->dims[x->rank - 1], size = n * n;
  double *a = mem_array((size_t)(size ? size : 1), sizeof *a);
  if (!a) return rlx_fail(ctx, RLX_OUT_OF_MEMORY, "no memory for a matrix of %lld × %lld", (long long)n, (long long)n);
  for (int64_t m = 0; m < y->count; m++) {
    for (int64_t i = 0; i < size; i++) a[i] = dtype_load(x->dtype, x->data, m * size + i);
    dtype_store(y->dtype, y->data, m, determinant(a, n));
  }
  mem_free(a);
  return RLX_OK;
}

/* By Faddeev and LeVerrier: with M_1 = 1 and c_k = -tr(A M_k) / k, M_(k+1) = A M_k + c_k; det = (-1)^n c_n. No division
 * by elements, so that derivatives are right where the determinant is zero, too. */
static rlx_status det_derive(rlx_graph *g, const rlx_node *n, rlx_value **outputs) {
  rlx_value *x = rlx_node_input(n, 0), *in[2] = {x, NULL}, *made[2] = {NULL, NULL};
  const rlx_type *t = rlx_value_type(x);
  int64_t size = t->rank < 2 ? -1 : t->dims[t->rank - 1];
  const char *dtype = rlx_dtype_name(t->dtype);
  if (size < 1 || size > 64) return rlx_graph_fail(g, RLX_UNSUPPORTED, "the size must be known, and 1 to 64");
  for (int64_t k = 1; k <= size; k++) {
    rlx_status status = derivative_text(
        g, in, made,
        "step (a, m) => (next, c) <int64[2] square = {%lld, %lld}, int64[2] axes = {-2, -1}, %s by = {%.17g}> {"
        " z = ConstantOfShape <value = %s[1] {0}> (square) unit = EyeLike (z) am = %s"
        " d = Mul (am, unit) trace = ReduceSum (d, axes) c = Mul (trace, by) shift = Mul (unit, c)"
        " next = Add (am, shift) }",
        (long long)size, (long long)size, dtype, -1.0 / (double)k, dtype, k == 1 ? "Identity (a)" : "MatMul (a, m)");
    if (status != RLX_OK) return status;
    in[1] = made[0];
  }
  return derivative_text(g, &made[1], outputs,
                         "det (c) => (y) <int64[2] axes = {-2, -1}, %s sign = {%d}> {"
                         " s = Squeeze (c, axes) y = Mul (s, sign) }",
                         dtype, size % 2 ? -1 : 1);
}

static const rlx_op det = {
    .struct_size = sizeof(rlx_op),
    .name = "onnx.Det",
    .version = 11,
    .doc = "The determinant of each square matrix (the last two dims).",
    .samples = (const char *const[]){"float[3,3]", "double[2,4,4]", NULL},
    .inputs = det_inputs,
    .outputs = det_outputs,
    .traits = RLX_PURE,
    .infer = det_infer,
    .derive = det_derive,
    .eval = det_eval,
};

static const rlx_op *const ops[] = {&det, NULL};
const rlx_module ops_det = {.ops = ops};
