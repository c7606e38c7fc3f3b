/* ops.c — the records of linalg. */
#include <stddef.h>

#include "linalg.h"

#if RLX_LINALG_LAPACK
#define KERNEL_OF(op) &op##_lapack
#else
#define KERNEL_OF(op) NULL
#endif

#define REALS (RLX_SET(RLX_FLOAT) | RLX_SET(RLX_DOUBLE))
#define REAL_PORT(name) {name, "T", REALS, 0, 0}
#define WHOLE_PORT(name) {name, NULL, RLX_SET(RLX_INT64), RLX_OPTIONAL, 0}
#define FLAG(attr_name, member)                                                                                        \
  {.name = attr_name, .kind = RLX_ATTR_INT, .flags = RLX_RANGED, .offset = offsetof(linalg_params, member), .min = 0,  \
   .max = 1}
#define PORTS(...) ((const rlx_port[]){__VA_ARGS__, {0}})
#define ATTRS(...) ((const rlx_attr_def[]){__VA_ARGS__ {0}})
#define SAMPLES(...) ((const char *const[]){__VA_ARGS__, NULL})
#define OUT(...) {__VA_ARGS__}

/* An op and its kernel: square?, the letters of B and of the outputs (linalg.h), the record's fields. */
#define OP(noun, is_square, b_shape, out_shapes, in_ports, out_ports, attr_rows, text, sample_rows, jvp_fn)              \
  static const linalg_op noun##_shape = {is_square, b_shape, out_shapes, noun##_reference, KERNEL_OF(noun)};                 \
  static rlx_status noun##_infer(rlx_infer *ctx) { return linalg_infer(ctx, &noun##_shape); }                              \
  static rlx_status noun##_eval(rlx_ctx *ctx) { return linalg_eval(ctx, &noun##_shape); }                                  \
  static rlx_status noun##_run(rlx_ctx *ctx) { return linalg_run(ctx, &noun##_shape); }                                    \
  static int64_t noun##_workspace(rlx_bound *b, const void *state) {                                                     \
    (void)state;                                                                                                       \
    return linalg_workspace(b, &noun##_shape);                                                               \
  }                                                                                                                    \
  static const rlx_op noun##_op = {.struct_size = sizeof(rlx_op),                                                        \
                                 .name = "linalg." #noun,                                                                \
                                 .doc = text,                                                                          \
                                 .samples = sample_rows,                                                               \
                                 .inputs = in_ports,                                                                   \
                                 .outputs = out_ports,                                                                 \
                                 .attrs = attr_rows,                                                                   \
                                 .params_size = sizeof(linalg_params),                                                 \
                                 .traits = RLX_PURE,                                                                   \
                                 .infer = noun##_infer,                                                                  \
                                 .vjp = noun##_vjp,                                                                      \
                                 .jvp = jvp_fn,                                                                        \
                                 .eval = noun##_eval};                                                                   \
  static const rlx_cpu_kernel noun##_kernel = {                                                                          \
      .struct_size = sizeof(rlx_cpu_kernel),                                                                           \
      .head = {.op = "linalg." #noun, .name = "lapack", .workspace = noun##_workspace},                                    \
      .run = noun##_run};

#define A_PORT PORTS(REAL_PORT("a"))
#define AB_PORTS PORTS(REAL_PORT("a"), REAL_PORT("b"))
#define Y_PORT PORTS(REAL_PORT("y"))

OP(cholesky, true, NULL, OUT("nn"), A_PORT, Y_PORT, ATTRS(FLAG("upper", upper), ),
   "The Cholesky factor of symmetric positive definite matrices: lower, a = l lᵀ, or upper, a = uᵀ u. Only that "
   "triangle "
   "is read; the gradient of the other is zero.",
   SAMPLES("float[0,0]", "float[2,2] = {4, 1, 1, 3}", "double[2,2,2] = {2, -1, -1, 1, 5, 2, 2, 1} {upper = 1}"),
   cholesky_jvp)
OP(solve_triangular, true, "nk", OUT("nk"), AB_PORTS, Y_PORT,
   ATTRS(FLAG("upper", upper), FLAG("trans", trans), FLAG("unit_diagonal", unit_diagonal), ),
   "Solves a x = b, or aᵀ x = b with trans, for triangular a, of which only the triangle is read. b is [..., n, k] or "
   "[..., "
   "n].",
   SAMPLES("float[3,3], float[3,2]", "double[2,4,4], double[2,4] {upper = 1, trans = 1}",
           "float[2,2], float[2,1] {unit_diagonal = 1}"),
   solve_triangular_jvp)
OP(lu_solve, true, "nk", OUT("nk"), AB_PORTS, Y_PORT, ATTRS(FLAG("trans", trans), ),
   "Solves a x = b, or aᵀ x = b with trans, by an LU factorisation with row exchanges. b is [..., n, k] or [..., n].",
   SAMPLES("float[3,3], float[3,2]", "double[2,3,3], double[2,3] {trans = 1}", "float[0,0], float[0,2]"), lu_solve_jvp)
OP(inv, true, NULL, OUT("nn"), A_PORT, Y_PORT, NULL, "Inverses.", SAMPLES("float[3,3]", "double[2,2,2]", "float[0,0]"),
   inv_jvp)
OP(det, true, NULL, OUT(""), A_PORT, Y_PORT, NULL, "Determinants. The gradient needs a regular matrix.",
   SAMPLES("float[3,3]", "double[2,3,2,2]", "float[0,0]"), det_jvp)
OP(logdet, true, NULL, OUT(""), A_PORT, Y_PORT, NULL,
   "Logarithms of determinants: NaN for a negative one, -inf for a singular matrix.",
   SAMPLES("float[3,3]", "double[4,2,2]"), logdet_jvp)
OP(slogdet, true, NULL, OUT("", ""), A_PORT, PORTS(REAL_PORT("sign"), REAL_PORT("logabsdet")), NULL,
   "Sign and logarithm of the absolute value of determinants: 0 and -inf for a singular matrix.",
   SAMPLES("float[3,3]", "double[4,2,2]"), slogdet_jvp)
OP(qr, false, NULL, OUT("mq", "qn"), A_PORT, PORTS(REAL_PORT("q"), REAL_PORT("r")), ATTRS(FLAG("complete", full), ),
   "a = q r by Householder's reflections, r upper triangular, its diagonal of either sign. q has min(m, n) columns, or "
   "m "
   "with complete = 1.",
   SAMPLES("float[4,3]", "double[2,3,4]", "float[4,2] {complete = 1}", "float[0,3]"), NULL)
OP(svd, false, NULL, OUT("mu", "r", "vn"), A_PORT, PORTS(REAL_PORT("u"), REAL_PORT("s"), REAL_PORT("vh")),
   ATTRS(FLAG("full_matrices", full), ),
   "a = u diag(s) vh, s descending. The element of largest magnitude of each column of u is positive. With "
   "full_matrices = "
   "1 u and vh are square; the columns beyond min(m, n) are any orthonormal ones.",
   SAMPLES("float[4,3]", "double[2,3,5]", "float[0,3]"), NULL)
OP(eigh, true, NULL, OUT("n", "nn"), A_PORT, PORTS(REAL_PORT("w"), REAL_PORT("v")), ATTRS(FLAG("upper", upper), ),
   "Eigenvalues, ascending, and eigenvectors, as columns, of symmetric matrices, of which only the lower (upper) "
   "triangle "
   "is read; the gradient of the other is zero. The element of largest magnitude of each vector is positive.",
   SAMPLES("float[3,3]", "double[2,4,4] {upper = 1}", "float[0,0]"), eigh_jvp)
OP(pinv, false, NULL, OUT("nm"), A_PORT, Y_PORT,
   ATTRS({.name = "rtol", .kind = RLX_ATTR_FLOAT, .offset = offsetof(linalg_params, rtol), .default_float = -1}, ),
   "Pseudo-inverses: singular values of at most rtol times the largest count as zero; rtol < 0, the default: max(m, n) "
   "times the epsilon of the dtype.",
   SAMPLES("float[4,3]", "double[2,2,5]", "float[0,3]"), NULL)
OP(lstsq, false, "mk", OUT("nk", "", "r"), AB_PORTS,
   PORTS(REAL_PORT("x"), WHOLE_PORT("rank"), {"s", "T", REALS, RLX_OPTIONAL, 0}),
   ATTRS({.name = "rtol", .kind = RLX_ATTR_FLOAT, .offset = offsetof(linalg_params, rtol), .default_float = -1}, ),
   "The x of least norm that minimises |a x - b|, by svd with the cut-off of pinv; the rank; the singular values.",
   SAMPLES("float[4,3], float[4,2]", "double[2,3,5], double[2,3]"), NULL)
OP(expm, true, NULL, OUT("nn"), A_PORT, Y_PORT, NULL, "Exponentials of matrices.",
   SAMPLES("float[3,3]", "double[2,4,4]"), expm_jvp)

static rlx_status register_all(rlx_registry *r) {
#define EACH(X)                                                                                                        \
  X(cholesky) X(solve_triangular) X(lu_solve) X(inv) X(det) X(logdet) X(slogdet) X(qr) X(svd) X(eigh) X(pinv) X(lstsq) X(expm)
#define OP_OF(op) &op##_op,
#define CPU_OF(op) &op##_kernel,
  static const rlx_op *const ops[] = {EACH(OP_OF) NULL};
  static const rlx_cpu_kernel *const kernels[] = {EACH(CPU_OF) NULL};
  rlx_status status = RLX_OK;
  for (int i = 0; ops[i] && status == RLX_OK; i++) status = rlx_register_op(r, ops[i], 0, NULL);
  for (int i = 0; RLX_LINALG_LAPACK && kernels[i] && status == RLX_OK; i++)
    status = rlx_register_cpu_kernel(r, kernels[i], 0, NULL);
  return status;
}
RLX_PACKAGE("linalg", "1.0", register_all);
