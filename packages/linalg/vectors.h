/* vectors.h — what is done with singular vectors and eigenvectors. Included once for each REAL, with NAME(name) for its
 * functions. */

/* Each of the first `count` columns of u gets its largest element positive; the row of vh goes with it. */
static void NAME(fix_signs)(REAL *u, int64_t u_rows, int64_t u_columns, REAL *vh, int64_t vh_columns, int64_t count) {
  for (int64_t j = 0; j < count; j++) {
    REAL largest = 0;
    for (int64_t i = 0; i < u_rows; i++) {
      REAL x = u[i * u_columns + j], size = x < 0 ? -x : x;
      if (size > (largest < 0 ? -largest : largest)) largest = x;
    }
    if (!(largest < 0)) continue;
    for (int64_t i = 0; i < u_rows; i++) u[i * u_columns + j] = -u[i * u_columns + j];
    for (int64_t i = 0; i < vh_columns; i++) vh[j * vh_columns + i] = -vh[j * vh_columns + i];
  }
}

/* x [n, k] = V diag(1 / s) Uᵀ b over the singular values that count, whose number is returned; b NULL: the identity,
 * k = m. */
static int64_t NAME(apply_inverse)(const matrix_call *c, const REAL *u, const REAL *s, const REAL *vh, const REAL *b,
                                   int64_t k, REAL *x) {
  int64_t least = c->m < c->n ? c->m : c->n, most = c->m < c->n ? c->n : c->m, rank = 0;
  double part = c->params->rtol < 0 ? c->epsilon * (double)most : (double)c->params->rtol;
  REAL cut = least > 0 ? (REAL)part * s[0] : 0;
  memset(x, 0, (size_t)(c->n * k) * sizeof *x);
  for (; rank < least && s[rank] > cut; rank++) {
    for (int64_t q = 0; q < k; q++) {
      REAL along = b ? 0 : u[q * least + rank];
      for (int64_t i = 0; b && i < c->m; i++) along += u[i * least + rank] * b[i * k + q];
      along /= s[rank];
      for (int64_t j = 0; j < c->n; j++) x[j * k + q] += vh[rank * c->n + j] * along;
    }
  }
  return rank;
}
