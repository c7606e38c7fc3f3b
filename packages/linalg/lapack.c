/* lapack.c — CPU kernels by LAPACK (through LAPACKE), for float and double; without LAPACK there are none. */
#include "linalg.h"

#if RLX_LINALG_LAPACK
#include <lapacke.h>
#include <math.h>
#include <string.h>

enum { BLOCK_COLUMNS = 32 }; /* of LAPACK's blocked algorithms: the room they are given */
static const linalg_fault fine = {LINALG_FINE, 0};

/* A leading dimension is at least 1. */
static lapack_int lead(int64_t n) { return n > 1 ? (lapack_int)n : 1; }

/* What LAPACK's manual asks for. */
static int64_t svd_room(int64_t m, int64_t n) {
  int64_t least = m < n ? m : n, most = m < n ? n : m;
  return 4 * least * least + 7 * least + most + BLOCK_COLUMNS * (least + most) + 64;
}
static int64_t eigh_room(int64_t n) { return 1 + 6 * n + 2 * n * n + 64; }

#define REAL float
#define NAME(name) name##_f32
#define LAPACK(name) LAPACKE_s##name##_work
#include "lapack_real.h"
#undef REAL
#undef NAME
#undef LAPACK
#define REAL double
#define NAME(name) name##_f64
#define LAPACK(name) LAPACKE_d##name##_work
#include "lapack_real.h"

/* ---- how much work each needs ----------------------------------------------------------------------------------- */

static int64_t least_of(const matrix_call *c) { return c->m < c->n ? c->m : c->n; }
static int64_t right_side(const matrix_call *c) { return c->n * c->k; }
static int64_t lu_work(const matrix_call *c) { return c->n * c->n + c->n * c->k + c->n; }
static int64_t inv_work(const matrix_call *c) { return BLOCK_COLUMNS * c->n + c->n; }
static int64_t qr_work(const matrix_call *c) {
  int64_t wide = c->m > c->n ? c->m : c->n;
  return c->m * wide + least_of(c) + BLOCK_COLUMNS * (wide + 1);
}
static int64_t svd_work(const matrix_call *c) { return c->m * c->n + svd_room(c->m, c->n) + 8 * least_of(c); }
static int64_t by_svd_work(const matrix_call *c) { return svd_work(c) + (c->m + c->n + 1) * least_of(c); }
static int64_t eigh_work(const matrix_call *c) { return c->n * c->n + eigh_room(c->n) + 5 * c->n + 3; }
static int64_t expm_work(const matrix_call *c) { return 6 * c->n * c->n + c->n; }

const linalg_kernel cholesky_lapack = {cholesky_f32, cholesky_f64, NULL};
const linalg_kernel solve_triangular_lapack = {solve_triangular_f32, solve_triangular_f64, right_side};
const linalg_kernel lu_solve_lapack = {lu_solve_f32, lu_solve_f64, lu_work};
const linalg_kernel inv_lapack = {inv_f32, inv_f64, inv_work};
const linalg_kernel det_lapack = {det_f32, det_f64, lu_work};
const linalg_kernel logdet_lapack = {logdet_f32, logdet_f64, lu_work};
const linalg_kernel slogdet_lapack = {slogdet_f32, slogdet_f64, lu_work};
const linalg_kernel qr_lapack = {qr_f32, qr_f64, qr_work};
const linalg_kernel svd_lapack = {svd_f32, svd_f64, svd_work};
const linalg_kernel eigh_lapack = {eigh_f32, eigh_f64, eigh_work};
const linalg_kernel pinv_lapack = {pinv_f32, pinv_f64, by_svd_work};
const linalg_kernel lstsq_lapack = {lstsq_f32, lstsq_f64, by_svd_work};
const linalg_kernel expm_lapack = {expm_f32, expm_f64, expm_work};
#endif
