/* krylov.h — iterative solvers: one solve, its vectors, and the methods. */
#ifndef SPARSE_KRYLOV_H
#define SPARSE_KRYLOV_H

#include "sparse.h"

typedef struct krylov_params {
  uint64_t given;
  int64_t transpose, max_iter, restart;
  float rtol, atol, damp;
  rlx_string preconditioner;
} krylov_params;

typedef enum method { METHOD_CG, METHOD_BICGSTAB, METHOD_GMRES, METHOD_LSQR, METHOD_NORMAL } method;
typedef enum preconditioner {
  PRECONDITION_NONE,
  PRECONDITION_JACOBI,
  PRECONDITION_ILU0,
  PRECONDITION_IC0
} preconditioner;

/* A vector of the solve's element type. */
typedef void *vector;

/* Loops over vectors of one element type: vector.c. Sums are taken in doubles over pieces of fixed length, so that
 * every thread count gives the same bits. */
typedef struct vector_calls {
  /* y = a x + b y; y is not read if b is 0. */
  void (*combine)(void *task, int64_t begin, int64_t end);
  void (*dot)(void *task, int64_t begin, int64_t end);
} vector_calls;
const vector_calls *vector_calls_of(rlx_dtype type);
enum { PIECE = 4096 }; /* elements summed before sums are summed */

typedef struct combine_task {
  double a, b;
  const void *x;
  void *y;
} combine_task;
typedef struct dot_task {
  int64_t n;
  const void *x, *y;
  double *sums; /* one a piece */
} dot_task;

/* One solve: k right-hand sides after one another. Everything it points to lies in the run's workspace. */
typedef struct krylov {
  rlx_ctx *ctx;
  const krylov_params *params;
  method method;
  preconditioner kind;
  csr a, at; /* A, or A transposed if that is solved; its transposed, for lsqr and normal */
  csr lower; /* ic0 */
  const csr_calls *calls;
  const vector_calls *vectors;
  int64_t rows, cols; /* of the matrix solved */
  void *factor, *inverse, *diagonal, *work;
  csr copies[2];        /* room for a transposed or sorted matrix */
  vector b, x, r, v[6]; /* right-hand side, solution, residual, the method's own */
  vector basis;         /* gmres: restart + 1 vectors */
  double *small, *sums; /* gmres: its projected problem; dot: sums of pieces */
  int64_t restart, max_iter;
  void (*apply)(struct krylov *k, const void *x, void *y); /* the operator of `residual` */
  double tolerance;
  char *base; /* NULL: only counting */
  int64_t used;
} krylov;

typedef struct outcome {
  int64_t iterations;
  double residual;
  bool converged;
  const char *why; /* not converged: what stopped it, or NULL */
} outcome;

double krylov_dot(krylov *k, int64_t n, const void *x, const void *y);
void krylov_combine(krylov *k, int64_t n, double a, const void *x, double b, void *y);
void krylov_copy(const krylov *k, int64_t n, const void *x, void *y);
void krylov_multiply(krylov *k, const csr *a, const void *x, void *y);
/* Returns z, or r itself if there is nothing to apply. */
const void *krylov_precondition(krylov *k, const void *r, void *z);

/* Solves for k->b from the guess in k->x. */
rlx_status krylov_solve(krylov *k, outcome *out);

/* Derivatives: krylov_derive.c. */
rlx_status vjp_krylov(rlx_graph *g, const rlx_node *n, rlx_value *const *dy, rlx_value **dx);
rlx_status jvp_krylov(rlx_graph *g, const rlx_node *n, rlx_value *const *dx, rlx_value **dy);
rlx_status vjp_lsqr(rlx_graph *g, const rlx_node *n, rlx_value *const *dy, rlx_value **dx);
rlx_status jvp_lsqr(rlx_graph *g, const rlx_node *n, rlx_value *const *dx, rlx_value **dy);
rlx_status vjp_normal(rlx_graph *g, const rlx_node *n, rlx_value *const *dy, rlx_value **dx);
rlx_status jvp_normal(rlx_graph *g, const rlx_node *n, rlx_value *const *dx, rlx_value **dy);

#endif
