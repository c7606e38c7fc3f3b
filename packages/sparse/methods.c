/* methods.c — conjugate gradients, BiCGSTAB, GMRES and LSQR. */
#include <math.h>
#include <string.h>

#include "krylov.h"

static double norm(krylov *k, int64_t n, const void *x) { return sqrt(krylov_dot(k, n, x, x)); }

/* r = b - (operator) x */
static double residual(krylov *k, int64_t n) {
  k->apply(k, k->x, k->r);
  krylov_combine(k, n, 1, k->b, -1, k->r);
  return norm(k, n, k->r);
}

/* ---- sweeps: from the residual in k->r until it is small, no step is possible, or iterations run out ------------- */

/* Saad, Iterative Methods for Sparse Linear Systems, algorithm 9.1. */
static rlx_status sweep_cg(krylov *k, outcome *o) {
  int64_t n = k->cols;
  vector z = k->v[0], p = k->v[1], q = k->v[2];
  const void *zr = krylov_precondition(k, k->r, z);
  double rho = krylov_dot(k, n, k->r, zr);
  krylov_copy(k, n, zr, p);
  while (o->iterations < k->max_iter) {
    if (rlx_cancelled(k->ctx)) return rlx_fail(k->ctx, RLX_CANCELLED, "cancelled");
    k->apply(k, p, q);
    double pq = krylov_dot(k, n, p, q);
    if (!(pq > 0) || !(rho > 0)) {
      o->why = pq > 0 ? "the preconditioner is not positive definite" : "the matrix is not positive definite";
      return RLX_OK;
    }
    krylov_combine(k, n, rho / pq, p, 1, k->x);
    krylov_combine(k, n, -rho / pq, q, 1, k->r);
    o->iterations++;
    if (!(norm(k, n, k->r) > k->tolerance)) return RLX_OK;
    zr = krylov_precondition(k, k->r, z);
    double next = krylov_dot(k, n, k->r, zr);
    krylov_combine(k, n, 1, zr, next / rho, p);
    rho = next;
  }
  return RLX_OK;
}

/* van der Vorst 1992, preconditioned from the right. */
static rlx_status sweep_bicgstab(krylov *k, outcome *o) {
  int64_t n = k->cols;
  vector shadow = k->v[0], p = k->v[1], v = k->v[2], z = k->v[3], t = k->v[4];
  double rho = 1, alpha = 1, omega = 1;
  krylov_copy(k, n, k->r, shadow);
  krylov_copy(k, n, k->r, p);
  for (bool first = true; o->iterations < k->max_iter; first = false) {
    if (rlx_cancelled(k->ctx)) return rlx_fail(k->ctx, RLX_CANCELLED, "cancelled");
    double next = krylov_dot(k, n, shadow, k->r);
    o->why = "the method broke down";
    if (next == 0 || !isfinite(next)) return RLX_OK;
    if (!first) {
      krylov_combine(k, n, -omega, v, 1, p);
      krylov_combine(k, n, 1, k->r, next / rho * (alpha / omega), p);
    }
    rho = next;
    const void *step = krylov_precondition(k, p, z);
    krylov_multiply(k, &k->a, step, v);
    double sv = krylov_dot(k, n, shadow, v);
    if (sv == 0 || !isfinite(sv)) return RLX_OK;
    alpha = rho / sv;
    krylov_combine(k, n, alpha, step, 1, k->x);
    krylov_combine(k, n, -alpha, v, 1, k->r);
    o->iterations++;
    if (norm(k, n, k->r) <= k->tolerance) break;
    step = krylov_precondition(k, k->r, z);
    krylov_multiply(k, &k->a, step, t);
    double tt = krylov_dot(k, n, t, t);
    if (tt == 0 || !isfinite(tt)) return RLX_OK;
    omega = krylov_dot(k, n, t, k->r) / tt;
    krylov_combine(k, n, omega, step, 1, k->x);
    krylov_combine(k, n, -omega, t, 1, k->r);
    if (omega == 0) return RLX_OK;
    if (norm(k, n, k->r) <= k->tolerance) break;
  }
  o->why = NULL;
  return RLX_OK;
}

/* The projected least-squares problem of gmres, made triangular by rotations as it grows. */
typedef struct projected {
  int64_t m;
  double *h, *c, *s, *g; /* h: m + 1 rows of column j at h + j (m + 1) */
} projected;

static projected projected_of(krylov *k) {
  int64_t m = k->restart;
  return (projected){m, k->small, k->small + m * (m + 1), k->small + m * (m + 2), k->small + m * (m + 3)};
}

/* Turns column j; returns the new residual norm. */
static double rotate(projected *q, int64_t j) {
  double *h = q->h + j * (q->m + 1);
  for (int64_t i = 0; i < j; i++) {
    double upper = q->c[i] * h[i] + q->s[i] * h[i + 1];
    h[i + 1] = q->c[i] * h[i + 1] - q->s[i] * h[i];
    h[i] = upper;
  }
  double length = hypot(h[j], h[j + 1]);
  q->c[j] = length > 0 ? h[j] / length : 1;
  q->s[j] = length > 0 ? h[j + 1] / length : 0;
  h[j] = length;
  q->g[j + 1] = -q->s[j] * q->g[j];
  q->g[j] *= q->c[j];
  return fabs(q->g[j + 1]);
}

/* Coefficients of the first `steps` basis vectors, into g. False: the triangle is singular. */
static bool back_substitute(projected *q, int64_t steps) {
  bool regular = true;
  for (int64_t i = steps - 1; i >= 0; i--) {
    double pivot = q->h[i * (q->m + 1) + i];
    for (int64_t j = i + 1; j < steps; j++) q->g[i] -= q->h[j * (q->m + 1) + i] * q->g[j];
    regular &= pivot != 0;
    q->g[i] = pivot != 0 ? q->g[i] / pivot : 0;
  }
  return regular;
}

/* One cycle of GMRES(restart), preconditioned from the right; modified Gram-Schmidt. Saad, algorithm 9.5. */
static rlx_status sweep_gmres(krylov *k, outcome *o) {
  int64_t n = k->cols, bytes = n * csr_value_bytes(k->a.type), steps = 0;
  projected q = projected_of(k);
  char *basis = k->basis;
  double length = norm(k, n, k->r);
  q.g[0] = length;
  krylov_combine(k, n, 1 / length, k->r, 0, basis);
  while (steps < q.m && o->iterations < k->max_iter) {
    if (rlx_cancelled(k->ctx)) return rlx_fail(k->ctx, RLX_CANCELLED, "cancelled");
    double *h = q.h + steps * (q.m + 1);
    char *w = basis + (steps + 1) * bytes;
    krylov_multiply(k, &k->a, krylov_precondition(k, basis + steps * bytes, k->v[0]), w);
    for (int64_t i = 0; i <= steps; i++) {
      h[i] = krylov_dot(k, n, w, basis + i * bytes);
      krylov_combine(k, n, -h[i], basis + i * bytes, 1, w);
    }
    length = h[steps + 1] = norm(k, n, w);
    double left = rotate(&q, steps++);
    o->iterations++;
    if (!(left > k->tolerance) || !(length > 0)) break;
    krylov_combine(k, n, 1 / length, w, 0, w);
  }
  if (!back_substitute(&q, steps)) o->why = "the matrix is singular";
  for (int64_t i = 0; i < steps; i++) krylov_combine(k, n, q.g[i], basis + i * bytes, i > 0, k->v[1]);
  krylov_combine(k, n, 1, krylov_precondition(k, k->v[1], k->v[0]), 1, k->x);
  return RLX_OK;
}

/* ---- least squares ----------------------------------------------------------------------------------------------- */

/* Paige and Saunders 1982, on [A; damp] x = [b; 0], started from x: u is the residual, in k->r, and u2 its lower part.
 */
static rlx_status sweep_lsqr(krylov *k, outcome *o) {
  int64_t m = k->rows, n = k->cols;
  double damp = (double)k->params->damp, frobenius = *k->small;
  vector u = k->r, u2 = k->v[0], v = k->v[1], w = k->v[2], t = k->v[3], s = k->v[4];
  krylov_combine(k, n, -damp, k->x, 0, u2);
  double beta = hypot(norm(k, m, u), norm(k, n, u2)), alpha, phi, rho;
  krylov_combine(k, m, 1 / beta, u, 0, u);
  krylov_combine(k, n, 1 / beta, u2, 0, u2);
  krylov_multiply(k, &k->at, u, v);
  krylov_combine(k, n, damp, u2, 1, v);
  alpha = norm(k, n, v);
  if (!(alpha > 0)) return RLX_OK;
  krylov_combine(k, n, 1 / alpha, v, 0, v);
  krylov_copy(k, n, v, w);
  phi = beta;
  rho = alpha;
  while (o->iterations < k->max_iter) {
    if (rlx_cancelled(k->ctx)) return rlx_fail(k->ctx, RLX_CANCELLED, "cancelled");
    krylov_multiply(k, &k->a, v, t);
    krylov_combine(k, m, 1, t, -alpha, u);
    krylov_combine(k, n, damp, v, -alpha, u2);
    beta = hypot(norm(k, m, u), norm(k, n, u2));
    if (beta > 0) {
      krylov_combine(k, m, 1 / beta, u, 0, u);
      krylov_combine(k, n, 1 / beta, u2, 0, u2);
    }
    krylov_multiply(k, &k->at, u, s);
    krylov_combine(k, n, damp, u2, 1, s);
    krylov_combine(k, n, 1, s, -beta, v);
    alpha = norm(k, n, v);
    if (alpha > 0) krylov_combine(k, n, 1 / alpha, v, 0, v);
    double length = hypot(rho, beta), c = rho / length, sine = beta / length;
    krylov_combine(k, n, c * phi / length, w, 1, k->x);
    krylov_combine(k, n, 1, v, -sine * alpha / length, w);
    rho = -c * alpha;
    phi *= sine;
    o->iterations++;
    double normal = phi * alpha * fabs(c);
    if (!(phi > k->tolerance) || !(normal > (double)k->params->rtol * frobenius * phi) || !(alpha > 0)) break;
  }
  return RLX_OK;
}

/* How far x is from solving: 0 if b - A x is small enough, else by how much the gradient A' (b - A x) - damp^2 x is too
 * large for the size of A and of the residual. Leaves the residual in k->r. */
static double excess(krylov *k, double *length) {
  double damp = (double)k->params->damp, x_norm = norm(k, k->cols, k->x);
  *length = residual(k, k->rows);
  if (hypot(*length, damp * x_norm) <= k->tolerance) return 0;
  krylov_multiply(k, &k->at, k->r, k->v[1]);
  krylov_combine(k, k->cols, -damp * damp, k->x, 1, k->v[1]);
  double gradient = norm(k, k->cols, k->v[1]);
  double limit = (double)k->params->rtol * *k->small * hypot(*length, damp * x_norm);
  return gradient <= limit ? 0 : gradient;
}

/* ---- solving ----------------------------------------------------------------------------------------------------- */

static void apply_matrix(krylov *k, const void *x, void *y) { krylov_multiply(k, &k->a, x, y); }

/* A' A + damp^2 */
static void apply_normal(krylov *k, const void *x, void *y) {
  krylov_multiply(k, &k->a, x, k->v[3]);
  krylov_multiply(k, &k->at, k->v[3], y);
  if (k->params->damp != 0) krylov_combine(k, k->cols, (double)k->params->damp * (double)k->params->damp, x, 1, y);
}

static rlx_status solve_lsqr(krylov *k, outcome *o) {
  double last, left = excess(k, &o->residual);
  while (left > 0 && isfinite(left) && o->iterations < k->max_iter) {
    last = left;
    rlx_status status = sweep_lsqr(k, o);
    if (status != RLX_OK) return status;
    left = excess(k, &o->residual);
    if (!(left < 0.9 * last)) break;
  }
  o->converged = left == 0;
  return RLX_OK;
}

/* A sweep works with a residual that it updates; what counts is the one computed anew after it. Where that is still too
 * large another sweep starts from it, as long as it gets smaller. */
static rlx_status solve_sweeps(krylov *k, outcome *o, rlx_status (*sweep)(krylov *, outcome *), double progress) {
  int64_t n = k->cols;
  o->residual = residual(k, n);
  while (o->residual > k->tolerance && isfinite(o->residual) && o->iterations < k->max_iter) {
    double before = o->residual;
    o->why = NULL;
    rlx_status status = sweep(k, o);
    if (status != RLX_OK) return status;
    o->residual = residual(k, n);
    if (!(o->residual < progress * before)) break;
  }
  o->converged = o->residual <= k->tolerance;
  return RLX_OK;
}

rlx_status krylov_solve(krylov *k, outcome *o) {
  int64_t n = k->cols, equations = k->method == METHOD_LSQR ? k->rows : n;
  *o = (outcome){0};
  k->apply = k->method == METHOD_NORMAL ? apply_normal : apply_matrix;
  double length = norm(k, equations, k->b);
  k->tolerance = fmax((double)k->params->rtol * length, (double)k->params->atol);
  if (length == 0) {
    memset(k->x, 0, (size_t)(n * csr_value_bytes(k->a.type)));
    o->converged = true;
    return RLX_OK;
  }
  if (k->method == METHOD_LSQR) return solve_lsqr(k, o);
  if (k->method == METHOD_GMRES) return solve_sweeps(k, o, sweep_gmres, 1);
  return solve_sweeps(k, o, k->method == METHOD_BICGSTAB ? sweep_bicgstab : sweep_cg, 0.9);
}
