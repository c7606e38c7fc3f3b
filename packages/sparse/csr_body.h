/* csr_body.h — bodies over matrices in CSR, included once for each type of values T and of indices I; F(name) is the
 * name of each. Sums run in the order of the entries, so that every thread count gives the same bits. */

static rlx_status F(check)(const void *ctx, const csr *a) {
  const I *ptr = a->ptr, *col = a->col;
  if (ptr[0] != 0) return rlx_fail(ctx, RLX_INVALID, "row_ptr[0] is %lld, not 0", (long long)ptr[0]);
  for (int64_t i = 0; i < a->rows; i++) {
    if (ptr[i + 1] < ptr[i])
      return rlx_fail(ctx, RLX_INVALID, "row_ptr[%lld] is %lld, less than %lld before it", (long long)i + 1,
                      (long long)ptr[i + 1], (long long)ptr[i]);
  }
  if (ptr[a->rows] != a->entries)
    return rlx_fail(ctx, RLX_INVALID, "row_ptr ends with %lld, and there are %lld entries", (long long)ptr[a->rows],
                    (long long)a->entries);
  I least = 0, most = -1;
  for (int64_t k = 0; k < a->entries; k++) {
    least = col[k] < least ? col[k] : least;
    most = col[k] > most ? col[k] : most;
  }
  if (least >= 0 && most < a->cols) return RLX_OK;
  int64_t k = 0;
  while (col[k] >= 0 && col[k] < a->cols) k++;
  return rlx_fail(ctx, RLX_INVALID, "col_idx[%lld] is %lld, outside %lld columns", (long long)k, (long long)col[k],
                  (long long)a->cols);
}

static bool F(canonical)(const csr *a) {
  const I *ptr = a->ptr, *col = a->col;
  for (int64_t i = 0; i < a->rows; i++) {
    for (I k = ptr[i] + 1; k < ptr[i + 1]; k++) {
      if (col[k] <= col[k - 1]) return false;
    }
  }
  return true;
}

/* ---- products ---------------------------------------------------------------------------------------------------- */

static void F(multiply_vector)(void *arg, int64_t begin, int64_t end) {
  const csr_product *p = arg;
  const T *values = p->a->values, *x = p->x;
  const I *ptr = p->a->ptr, *col = p->a->col;
  T *y = p->y;
  for (int64_t i = begin; i < end; i++) {
    T sum = 0;
    for (I k = ptr[i]; k < ptr[i + 1]; k++) sum += values[k] * x[col[k]];
    y[i] = sum;
  }
}

static void F(multiply)(void *arg, int64_t begin, int64_t end) {
  const csr_product *p = arg;
  const T *values = p->a->values;
  const I *ptr = p->a->ptr, *col = p->a->col;
  for (int64_t i = begin; i < end; i++) {
    T *y = (T *)p->y + i * p->width;
    for (int64_t w = 0; w < p->width; w++) y[w] = 0;
    for (I k = ptr[i]; k < ptr[i + 1]; k++) {
      const T *x = (const T *)p->x + (int64_t)col[k] * p->width, v = values[k];
      for (int64_t w = 0; w < p->width; w++) y[w] += v * x[w];
    }
  }
}

static void F(multiply_transposed)(const csr_product *p) {
  const T *values = p->a->values;
  const I *ptr = p->a->ptr, *col = p->a->col;
  memset(p->y, 0, (size_t)(p->a->cols * p->width) * sizeof(T));
  for (int64_t i = 0; i < p->a->rows; i++) {
    const T *x = (const T *)p->x + i * p->width;
    for (I k = ptr[i]; k < ptr[i + 1]; k++) {
      T *y = (T *)p->y + (int64_t)col[k] * p->width, v = values[k];
      for (int64_t w = 0; w < p->width; w++) y[w] += v * x[w];
    }
  }
}

static void F(outer)(void *arg, int64_t begin, int64_t end) {
  const outer *o = arg;
  const I *ptr = o->a->ptr, *col = o->a->col;
  for (int64_t i = begin; i < end; i++) {
    const T *u = (const T *)o->u + i * o->width, *v_row = (const T *)o->v + i * o->width;
    for (I k = ptr[i]; k < ptr[i + 1]; k++) {
      int64_t j = col[k];
      const T *v = (const T *)o->v + j * o->width, *u_col = (const T *)o->u + j * o->width;
      T sum = 0, other = 0;
      for (int64_t w = 0; w < o->width; w++) sum += u[w] * v[w];
      if (o->form != OUTER_PLAIN && i != j) {
        for (int64_t w = 0; w < o->width; w++) other += u_col[w] * v_row[w];
        sum += other;
        if (o->form == OUTER_SYMMETRIC) sum /= 2;
      }
      ((T *)o->values)[k] = sum;
    }
  }
}

/* ---- transposing ------------------------------------------------------------------------------------------------- */

static void F(transpose)(const csr *a, void *values_t, void *col_t, void *ptr_t, int64_t *place) {
  const T *values = a->values;
  const I *ptr = a->ptr, *col = a->col;
  I *next = ptr_t;
  memset(next, 0, (size_t)(a->cols + 1) * sizeof(I));
  for (int64_t k = 0; k < a->entries; k++) next[col[k] + 1]++;
  for (int64_t j = 0; j < a->cols; j++) next[j + 1] += next[j];
  /* next[j] runs from the first entry of row j to the first of row j + 1; it is moved back by one place at the end. */
  for (int64_t i = 0; i < a->rows; i++) {
    for (I k = ptr[i]; k < ptr[i + 1]; k++) {
      int64_t at = next[col[k]]++;
      if (values_t) ((T *)values_t)[at] = values[k];
      if (col_t) ((I *)col_t)[at] = (I)i;
      if (place) place[k] = at;
    }
  }
  for (int64_t j = a->cols; j > 0; j--) next[j] = next[j - 1];
  next[0] = 0;
}

static int64_t F(merge)(int64_t rows, void *values_, void *col_, void *ptr_) {
  T *values = values_;
  I *col = col_, *ptr = ptr_, to = 0;
  for (int64_t i = 0; i < rows; i++) {
    I begin = ptr[i], end = ptr[i + 1], first = to;
    ptr[i] = first;
    for (I k = begin; k < end; k++) {
      if (to > first && col[to - 1] == col[k]) {
        values[to - 1] += values[k];
        continue;
      }
      values[to] = values[k];
      col[to++] = col[k];
    }
  }
  ptr[rows] = to;
  return to;
}

/* ---- preconditioners --------------------------------------------------------------------------------------------- */

static const char *F(jacobi)(const csr *a, void *inverse, int64_t *row) {
  const T *values = a->values;
  const I *ptr = a->ptr, *col = a->col;
  for (int64_t i = 0; i < a->rows; i++) {
    T d = 0;
    for (I k = ptr[i]; k < ptr[i + 1]; k++) d += col[k] == i ? values[k] : 0;
    *row = i;
    if (d == 0) return "its diagonal is zero";
    ((T *)inverse)[i] = 1 / d;
  }
  return NULL;
}

/* Gaussian elimination that keeps A's pattern (Saad, Iterative Methods for Sparse Linear Systems, algorithm 10.4).
 * factor has L without its unit diagonal and U; diagonal[i] is the entry of U's. work: where each column is in the row.
 */
static const char *F(ilu0)(const csr *a, void *factor, void *diagonal, void *work, int64_t *row) {
  const I *ptr = a->ptr, *col = a->col;
  T *f = factor;
  I *diag = diagonal, *at = work;
  memcpy(f, a->values, (size_t)a->entries * sizeof(T));
  for (int64_t j = 0; j < a->cols; j++) at[j] = -1;
  for (int64_t i = 0; i < a->rows; i++) {
    *row = i;
    diag[i] = -1;
    for (I k = ptr[i]; k < ptr[i + 1]; k++) {
      at[col[k]] = k;
      if (col[k] == i) diag[i] = k;
    }
    if (diag[i] < 0) return "its diagonal is not stored";
    for (I k = ptr[i]; k < diag[i]; k++) {
      int64_t j = col[k];
      T l = f[k] /= f[diag[j]];
      for (I m = diag[j] + 1; m < ptr[j + 1]; m++) {
        if (at[col[m]] >= 0) f[at[col[m]]] -= l * f[m];
      }
    }
    if (f[diag[i]] == 0) return "its pivot is zero";
    for (I k = ptr[i]; k < ptr[i + 1]; k++) at[col[k]] = -1;
  }
  return NULL;
}

static void F(ilu0_solve)(const csr *a, const void *factor, const void *diagonal, const void *r_, void *z_) {
  const I *ptr = a->ptr, *col = a->col, *diag = diagonal;
  const T *f = factor, *r = r_;
  T *z = z_;
  for (int64_t i = 0; i < a->rows; i++) {
    T sum = r[i];
    for (I k = ptr[i]; k < diag[i]; k++) sum -= f[k] * z[col[k]];
    z[i] = sum;
  }
  for (int64_t i = a->rows - 1; i >= 0; i--) {
    T sum = z[i];
    for (I k = diag[i] + 1; k < ptr[i + 1]; k++) sum -= f[k] * z[col[k]];
    z[i] = sum / f[diag[i]];
  }
}

/* The lower triangle of a canonical matrix: the diagonal is the last entry of its row. Returns the number of entries,
 * or -1 - i if the diagonal of row i is not stored. */
static int64_t F(lower)(const csr *a, void *values_, void *col_, void *ptr_) {
  const I *ptr = a->ptr, *col = a->col;
  T *values = values_;
  I *to_col = col_, *to_ptr = ptr_, to = 0;
  to_ptr[0] = 0;
  for (int64_t i = 0; i < a->rows; i++) {
    for (I k = ptr[i]; k < ptr[i + 1] && col[k] <= i; k++) {
      values[to] = ((const T *)a->values)[k];
      to_col[to++] = col[k];
    }
    if (to == to_ptr[i] || to_col[to - 1] != i) return -1 - i;
    to_ptr[i + 1] = to;
  }
  return to;
}

/* Cholesky's factorisation that keeps the pattern of A's lower triangle: the sum over common columns of rows i and j.
 * factor may be the values of `lower`; inverse[i] = 1 / L[i][i]. */
static const char *F(ic0)(const csr *lower, void *factor, void *inverse, int64_t *row) {
  const I *ptr = lower->ptr, *col = lower->col;
  T *l = factor, *inv = inverse;
  for (int64_t i = 0; i < lower->rows; i++) {
    I last = ptr[i + 1] - 1;
    T pivot = l[last];
    for (I k = ptr[i]; k < last; k++) {
      int64_t j = col[k];
      T sum = l[k];
      for (I p = ptr[i], q = ptr[j]; p < k && q < ptr[j + 1] - 1;) {
        I a = col[p], b = col[q];
        if (a == b) sum -= l[p] * l[q];
        p += a <= b;
        q += b <= a;
      }
      l[k] = sum * inv[j];
      pivot -= l[k] * l[k];
    }
    *row = i;
    if (!(pivot > 0)) return "its pivot is not positive";
    l[last] = (T)sqrt((double)pivot);
    inv[i] = 1 / l[last];
  }
  return NULL;
}

static void F(ic0_solve)(const csr *lower, const void *factor, const void *inverse, const void *r_, void *z_) {
  const I *ptr = lower->ptr, *col = lower->col;
  const T *l = factor, *inv = inverse, *r = r_;
  T *z = z_;
  for (int64_t i = 0; i < lower->rows; i++) {
    T sum = r[i];
    for (I k = ptr[i]; k < ptr[i + 1] - 1; k++) sum -= l[k] * z[col[k]];
    z[i] = sum * inv[i];
  }
  for (int64_t i = lower->rows - 1; i >= 0; i--) {
    T zi = z[i] *= inv[i];
    for (I k = ptr[i]; k < ptr[i + 1] - 1; k++) z[col[k]] -= l[k] * zi;
  }
}

static const csr_calls F(calls) = {
    .check = F(check),
    .canonical = F(canonical),
    .multiply = F(multiply),
    .multiply_vector = F(multiply_vector),
    .multiply_transposed = F(multiply_transposed),
    .transpose = F(transpose),
    .outer = F(outer),
    .merge = F(merge),
    .ilu0 = F(ilu0),
    .ilu0_solve = F(ilu0_solve),
    .lower = F(lower),
    .ic0 = F(ic0),
    .ic0_solve = F(ic0_solve),
    .jacobi = F(jacobi),
};

#undef F
#undef T
#undef I
