/* linalg.h — dense linear algebra: what the records, references, kernels and derivatives share. */
#ifndef LINALG_H
#define LINALG_H

#include <rlx/extend.h>

typedef struct linalg_params {
  uint64_t given;
  int64_t upper, trans, unit_diagonal, full; /* full: full_matrices of svd, complete of qr */
  float rtol;
} linalg_params;

/* One matrix (and right side) of a batch. Everything is row-major and dense; reals are double in references, the
 * operands' dtype in kernels. */
typedef struct matrix_call {
  int64_t m, n, k; /* A is m × n, B has k columns */
  double epsilon;  /* of the operands' dtype: the distance from 1 to the next number */
  const linalg_params *params;
  const void *a, *b;
  void *out[3]; /* NULL: not wanted */
  void *work;
} matrix_call;

typedef enum linalg_code {
  LINALG_FINE,
  LINALG_SINGULAR,     /* a zero pivot at `index` */
  LINALG_NOT_DEFINITE, /* the leading minor of order `index` */
  LINALG_NO_CONVERGENCE,
  LINALG_NO_MEMORY
} linalg_code;
typedef struct linalg_fault {
  linalg_code code;
  int64_t index;
} linalg_fault;

typedef linalg_fault linalg_fn(const matrix_call *c);

/* Shapes by letters: m n k as above; r the lesser of m and n; u and v what svd keeps of U's columns and of Vh's rows; q
 * the columns of Q. A right side without columns of its own is a vector: its k is left out. */
typedef struct linalg_kernel {
  linalg_fn *f32, *f64;
  int64_t (*work)(const matrix_call *c); /* elements that a call needs; NULL: none */
} linalg_kernel;
typedef struct linalg_op {
  bool square;
  const char *b;               /* shape of B; NULL: there is none */
  const char *out[3];          /* of the outputs; NULL past the last */
  linalg_fn *reference;        /* in double */
  const linalg_kernel *kernel; /* by LAPACK; NULL without it */
} linalg_op;

/* The infer, eval and run of an op. */
rlx_status linalg_infer(rlx_infer *ctx, const linalg_op *op);
rlx_status linalg_eval(rlx_ctx *ctx, const linalg_op *op);
rlx_status linalg_run(rlx_ctx *ctx, const linalg_op *op);
int64_t linalg_workspace(rlx_bound *b, const linalg_op *op);

/* ---- references: reference.c, spectral.c ------------------------------------------------------------------------ */

linalg_fn cholesky_reference, solve_triangular_reference, lu_solve_reference, inv_reference, det_reference,
    logdet_reference, slogdet_reference, qr_reference, svd_reference, eigh_reference, pinv_reference, lstsq_reference,
    expm_reference;

/* ---- kernels by LAPACK: lapack.c -------------------------------------------------------------------------------- */

extern const linalg_kernel cholesky_lapack, solve_triangular_lapack, lu_solve_lapack, inv_lapack, det_lapack,
    logdet_lapack, slogdet_lapack, qr_lapack, svd_lapack, eigh_lapack, pinv_lapack, lstsq_lapack, expm_lapack;

/* ---- derivatives ------------------------------------------------------------------------------------------------ */

typedef rlx_status linalg_vjp_fn(rlx_graph *g, const rlx_node *n, rlx_value *const *output_grads,
                                 rlx_value **input_grads);
typedef rlx_status linalg_jvp_fn(rlx_graph *g, const rlx_node *n, rlx_value *const *tangents, rlx_value **out);
linalg_vjp_fn cholesky_vjp, solve_triangular_vjp, lu_solve_vjp, inv_vjp, det_vjp, logdet_vjp, slogdet_vjp, qr_vjp,
    svd_vjp, eigh_vjp, pinv_vjp, lstsq_vjp, expm_vjp;
linalg_jvp_fn cholesky_jvp, solve_triangular_jvp, lu_solve_jvp, inv_jvp, det_jvp, logdet_jvp, slogdet_jvp, eigh_jvp,
    expm_jvp;

#endif
