/* lapack_real.h — the kernels for one REAL by LAPACKE. Included once for each, with NAME(name) for its functions and
 * LAPACK(name) for LAPACKE's. A row-major matrix is its transpose to LAPACK, whose matrices are column-major. */

#include "vectors.h"

/* y [columns, rows] = transposed x [rows, columns], in blocks. */
static void NAME(turn)(const REAL *x, int64_t rows, int64_t columns, REAL *y) {
  enum { BLOCK = 16 };
  for (int64_t i = 0; i < rows; i += BLOCK) {
    for (int64_t j = 0; j < columns; j += BLOCK) {
      for (int64_t r = i; r < rows && r < i + BLOCK; r++) {
        for (int64_t s = j; s < columns && s < j + BLOCK; s++) y[s * rows + r] = x[r * columns + s];
      }
    }
  }
}

static linalg_fault NAME(cholesky)(const matrix_call *c) {
  int64_t n = c->n;
  const REAL *a = c->a;
  REAL *l = c->out[0];
  bool upper = c->params->upper != 0;
  for (int64_t i = 0; i < n * n; i++) l[i] = upper ? (i / n <= i % n ? a[i] : 0) : (i / n >= i % n ? a[i] : 0);
  lapack_int info = LAPACK(potrf)(LAPACK_COL_MAJOR, upper ? 'L' : 'U', (lapack_int)n, l, lead(n));
  return info > 0 ? (linalg_fault){LINALG_NOT_DEFINITE, info} : fine;
}

static linalg_fault NAME(solve_triangular)(const matrix_call *c) {
  const linalg_params *p = c->params;
  lapack_int n = (lapack_int)c->n, k = (lapack_int)c->k;
  REAL *x = c->work;
  NAME(turn)(c->b, c->n, c->k, x);
  lapack_int info = LAPACK(trtrs)(LAPACK_COL_MAJOR, p->upper ? 'L' : 'U', p->trans ? 'N' : 'T',
                                  p->unit_diagonal ? 'U' : 'N', n, k, c->a, lead(n), x, lead(n));
  NAME(turn)(x, c->k, c->n, c->out[0]);
  return info > 0 ? (linalg_fault){LINALG_SINGULAR, info - 1} : fine;
}

static linalg_fault NAME(lu_solve)(const matrix_call *c) {
  lapack_int n = (lapack_int)c->n, k = (lapack_int)c->k;
  REAL *a = c->work, *x = a + c->n * c->n;
  lapack_int *pivots = (lapack_int *)(x + c->n * c->k);
  memcpy(a, c->a, (size_t)(c->n * c->n) * sizeof *a);
  lapack_int info = LAPACK(getrf)(LAPACK_COL_MAJOR, n, n, a, lead(n), pivots);
  if (info > 0) return (linalg_fault){LINALG_SINGULAR, info - 1};
  NAME(turn)(c->b, c->n, c->k, x);
  (void)LAPACK(getrs)(LAPACK_COL_MAJOR, c->params->trans ? 'N' : 'T', n, k, a, lead(n), pivots, x, lead(n));
  NAME(turn)(x, c->k, c->n, c->out[0]);
  return fine;
}

static linalg_fault NAME(inv)(const matrix_call *c) {
  lapack_int n = (lapack_int)c->n;
  REAL *x = c->out[0], *work = c->work;
  lapack_int *pivots = (lapack_int *)(work + BLOCK_COLUMNS * c->n);
  memcpy(x, c->a, (size_t)(c->n * c->n) * sizeof *x);
  lapack_int info = LAPACK(getrf)(LAPACK_COL_MAJOR, n, n, x, lead(n), pivots);
  if (info == 0 && n > 0) info = LAPACK(getri)(LAPACK_COL_MAJOR, n, x, lead(n), pivots, work, BLOCK_COLUMNS * n);
  return info > 0 ? (linalg_fault){LINALG_SINGULAR, info - 1} : fine;
}

static void NAME(determinant)(const matrix_call *c, REAL *det, REAL *sign, REAL *log_size) {
  lapack_int n = (lapack_int)c->n;
  REAL *a = c->work;
  lapack_int *pivots = (lapack_int *)(a + c->n * c->n);
  memcpy(a, c->a, (size_t)(c->n * c->n) * sizeof *a);
  lapack_int info = LAPACK(getrf)(LAPACK_COL_MAJOR, n, n, a, lead(n), pivots);
  double product = 1, sum = 0, way = 1;
  for (lapack_int i = 0; i < n; i++) {
    double d = (double)a[(int64_t)i * n + i];
    if (pivots[i] != i + 1) way = -way;
    if (d < 0) way = -way;
    product *= d < 0 ? -d : d;
    sum += log(d < 0 ? -d : d);
  }
  *det = info > 0 ? 0 : (REAL)(way * product);
  *sign = info > 0 ? 0 : (REAL)way;
  *log_size = info > 0 ? -(REAL)INFINITY : (REAL)sum;
}

static linalg_fault NAME(det)(const matrix_call *c) {
  REAL sign, log_size;
  NAME(determinant)(c, c->out[0], &sign, &log_size);
  return fine;
}

static linalg_fault NAME(slogdet)(const matrix_call *c) {
  REAL det;
  NAME(determinant)(c, &det, c->out[0], c->out[1]);
  return fine;
}

static linalg_fault NAME(logdet)(const matrix_call *c) {
  REAL det, sign, *log_size = c->out[0];
  NAME(determinant)(c, &det, &sign, log_size);
  if (sign < 0) *log_size = (REAL)NAN;
  return fine;
}

static linalg_fault NAME(qr)(const matrix_call *c) {
  int64_t m = c->m, n = c->n, least = m < n ? m : n, columns = c->params->full ? m : least,
          wide = columns > n ? columns : n;
  REAL *a = c->work, *tau = a + m * wide, *work = tau + least, *q = c->out[0], *r = c->out[1];
  lapack_int room = BLOCK_COLUMNS * lead(wide);
  NAME(turn)(c->a, m, n, a);
  (void)LAPACK(geqrf)(LAPACK_COL_MAJOR, (lapack_int)m, (lapack_int)n, a, lead(m), tau, work, room);
  for (int64_t i = 0; i < columns * n; i++) r[i] = i / n <= i % n ? a[i % n * m + i / n] : 0;
  (void)LAPACK(orgqr)(LAPACK_COL_MAJOR, (lapack_int)m, (lapack_int)columns, (lapack_int)least, a, lead(m), tau, work,
                      room);
  NAME(turn)(a, columns, m, q);
  return fine;
}

/* Aᵀ = U' S V'ᵀ to LAPACK: its V'ᵀ, column-major, is our U, and its U' our Vh. */
static linalg_fault NAME(svd_of)(const matrix_call *c, bool full, REAL *u, REAL *s, REAL *vh, REAL *work) {
  int64_t m = c->m, n = c->n, least = m < n ? m : n;
  if (least == 0) {
    for (int64_t i = 0; full && i < m * m; i++) u[i] = i % (m + 1) == 0;
    for (int64_t i = 0; full && i < n * n; i++) vh[i] = i % (n + 1) == 0;
    return fine;
  }
  REAL *a = work, *room = a + m * n;
  lapack_int *whole = (lapack_int *)(room + svd_room(m, n));
  memcpy(a, c->a, (size_t)(m * n) * sizeof *a);
  lapack_int info = LAPACK(gesdd)(LAPACK_COL_MAJOR, full ? 'A' : 'S', (lapack_int)n, (lapack_int)m, a, lead(n), s, vh,
                                  lead(n), u, lead(full ? m : least), room, (lapack_int)svd_room(m, n), whole);
  if (info > 0) return (linalg_fault){LINALG_NO_CONVERGENCE, 0};
  NAME(fix_signs)(u, m, full ? m : least, vh, n, least);
  return fine;
}

static linalg_fault NAME(svd)(const matrix_call *c) {
  return NAME(svd_of)(c, c->params->full != 0, c->out[0], c->out[1], c->out[2], c->work);
}

static linalg_fault NAME(eigh)(const matrix_call *c) {
  int64_t n = c->n;
  REAL *a = c->work, *room = a + n * n, *w = c->out[0], *v = c->out[1];
  lapack_int *whole = (lapack_int *)(room + eigh_room(n));
  if (n == 0) return fine;
  memcpy(a, c->a, (size_t)(n * n) * sizeof *a);
  lapack_int info = LAPACK(syevd)(LAPACK_COL_MAJOR, 'V', c->params->upper ? 'L' : 'U', (lapack_int)n, a, lead(n), w,
                                  room, (lapack_int)eigh_room(n), whole, (lapack_int)(5 * n + 3));
  if (info > 0) return (linalg_fault){LINALG_NO_CONVERGENCE, 0};
  NAME(turn)(a, n, n, v);
  NAME(fix_signs)(v, n, n, NULL, 0, n);
  return fine;
}

static linalg_fault NAME(by_svd)(const matrix_call *c, const REAL *b, int64_t k, REAL *x, int64_t *rank, REAL *values) {
  int64_t least = c->m < c->n ? c->m : c->n;
  REAL *u = c->work, *vh = u + c->m * least, *s = vh + least * c->n, *work = s + least;
  linalg_fault f = NAME(svd_of)(c, false, u, s, vh, work);
  int64_t found = NAME(apply_inverse)(c, u, s, vh, b, k, x);
  if (rank) *rank = found;
  if (values) memcpy(values, s, (size_t)least * sizeof *s);
  return f;
}

static linalg_fault NAME(pinv)(const matrix_call *c) { return NAME(by_svd)(c, NULL, c->m, c->out[0], NULL, NULL); }
static linalg_fault NAME(lstsq)(const matrix_call *c) {
  return NAME(by_svd)(c, c->b, c->k, c->out[0], c->out[1], c->out[2]);
}

/* y = a b, n × n. */
static void NAME(multiply)(const REAL *restrict a, const REAL *restrict b, int64_t n, REAL *restrict y) {
  memset(y, 0, (size_t)(n * n) * sizeof *y);
  for (int64_t i = 0; i < n; i++) {
    for (int64_t k = 0; k < n; k++) {
      REAL factor = a[i * n + k];
      for (int64_t j = 0; j < n; j++) y[i * n + j] += factor * b[k * n + j];
    }
  }
}

/* How often to halve A until Padé's approximant of degree 13 is exact to rounding (Higham 2005). */
static int NAME(halvings)(const matrix_call *c) {
  const REAL *a = c->a;
  const double bound = 5.371920351148152;
  double norm = 0;
  for (int64_t j = 0; j < c->n; j++) {
    double sum = 0;
    for (int64_t i = 0; i < c->n; i++) sum += fabs((double)a[i * c->n + j]);
    norm = sum > norm ? sum : norm;
  }
  return norm > bound ? (int)ceil(log2(norm / bound)) : 0;
}

/* The powers of A that Padé's polynomials are made of. */
typedef struct NAME(powers) {
  int64_t n;
  REAL *a, *a2, *a4, *a6, *room;
} NAME(powers);

/* y = A6 (c6 A6 + c5 A4 + c4 A2) + c3 A6 + c2 A4 + c1 A2 + c0 I, c counted in steps of two from `c`. */
static void NAME(polynomial)(const NAME(powers) * p, const double *c, REAL *y) {
  int64_t count = p->n * p->n;
  for (int64_t i = 0; i < count; i++)
    p->room[i] = (REAL)(c[12] * (double)p->a6[i] + c[10] * (double)p->a4[i] + c[8] * (double)p->a2[i]);
  NAME(multiply)(p->a6, p->room, p->n, y);
  for (int64_t i = 0; i < count; i++) {
    double one = i % (p->n + 1) == 0 ? c[0] : 0;
    y[i] += (REAL)(c[6] * (double)p->a6[i] + c[4] * (double)p->a4[i] + c[2] * (double)p->a2[i] + one);
  }
}

/* (V - U) X = V + U, into `sum`; U = A times the odd polynomial, V is the even one. */
static linalg_fault NAME(quotient)(int64_t n, REAL *difference, REAL *sum, REAL *room, lapack_int *pivots) {
  lapack_int size = (lapack_int)n;
  lapack_int info = LAPACK(getrf)(LAPACK_COL_MAJOR, size, size, difference, lead(n), pivots);
  if (info > 0) return (linalg_fault){LINALG_SINGULAR, info - 1};
  NAME(turn)(sum, n, n, room);
  (void)LAPACK(getrs)(LAPACK_COL_MAJOR, 'T', size, size, difference, lead(n), pivots, room, lead(n));
  NAME(turn)(room, n, n, sum);
  return fine;
}

static linalg_fault NAME(expm)(const matrix_call *c) {
  static const double pade[] = {64764752532480000.0,
                                32382376266240000.0,
                                7771770303897600.0,
                                1187353796428800.0,
                                129060195264000.0,
                                10559470521600.0,
                                670442572800.0,
                                33522128640.0,
                                1323241920.0,
                                40840800.0,
                                960960.0,
                                16380.0,
                                182.0,
                                1.0};
  int64_t n = c->n, count = n * n;
  int halvings = NAME(halvings)(c);
  REAL *work = c->work, *x = c->out[0], *u = work + 4 * count, *v = work + 5 * count;
  const NAME(powers) p = {n, work, work + count, work + 2 * count, work + 3 * count, x};
  for (int64_t i = 0; i < count; i++) p.a[i] = (REAL)ldexp((double)((const REAL *)c->a)[i], -halvings);
  NAME(multiply)(p.a, p.a, n, p.a2);
  NAME(multiply)(p.a2, p.a2, n, p.a4);
  NAME(multiply)(p.a4, p.a2, n, p.a6);
  NAME(polynomial)(&p, pade + 1, v);
  NAME(multiply)(p.a, v, n, u);
  NAME(polynomial)(&p, pade, v);
  for (int64_t i = 0; i < count; i++) {
    p.a[i] = v[i] - u[i];
    v[i] += u[i];
  }
  linalg_fault f = NAME(quotient)(n, p.a, v, x, (lapack_int *)(v + count));
  for (int s = 0; s < halvings; s++) {
    NAME(multiply)(v, v, n, u);
    REAL *swap = v;
    v = u;
    u = swap;
  }
  memcpy(x, v, (size_t)count * sizeof *x);
  return f;
}
