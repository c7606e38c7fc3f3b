/* spgemm_body.h — the product of two sparse matrices row by row (Gustavson), included for each type of values T and of
 * indices I; F(name) is the name of each. */

/* mark[j] = i + 1 if column j is in row i of the product. */
static int64_t F(count)(const csr *a, const csr *b, I *mark, I *ptr_c) {
  const I *pa = a->ptr, *ca = a->col, *pb = b->ptr, *cb = b->col;
  int64_t entries = 0, most = sizeof(I) == 4 ? INT32_MAX : INT64_MAX;
  ptr_c[0] = 0;
  for (int64_t i = 0; i < a->rows; i++) {
    for (I k = pa[i]; k < pa[i + 1]; k++) {
      for (I m = pb[ca[k]]; m < pb[ca[k] + 1]; m++) {
        entries += mark[cb[m]] != (I)(i + 1);
        mark[cb[m]] = (I)(i + 1);
      }
    }
    if (entries > most) return -1;
    ptr_c[i + 1] = (I)entries;
  }
  return entries;
}

static int F(order)(const void *a, const void *b) {
  I x = *(const I *)a, y = *(const I *)b;
  return (x > y) - (x < y);
}

/* sum[j] gathers column j of the row. Marks are negative, so that those of the count need not be cleared. Columns of a
 * row come out sorted. */
static void F(fill)(const csr *a, const csr *b, I *mark, T *sum, const I *ptr_c, I *col_c, T *values_c) {
  const I *pa = a->ptr, *ca = a->col, *pb = b->ptr, *cb = b->col;
  for (int64_t i = 0; i < a->rows; i++) {
    I at = ptr_c[i];
    for (I k = pa[i]; k < pa[i + 1]; k++) {
      T v = ((const T *)a->values)[k];
      for (I m = pb[ca[k]]; m < pb[ca[k] + 1]; m++) {
        I j = cb[m];
        if (mark[j] != (I)(-1 - i)) {
          mark[j] = (I)(-1 - i);
          sum[j] = 0;
          col_c[at++] = j;
        }
        sum[j] += v * ((const T *)b->values)[m];
      }
    }
    if (at - ptr_c[i] > 1) qsort(col_c + ptr_c[i], (size_t)(at - ptr_c[i]), sizeof(I), F(order));
    for (I k = ptr_c[i]; k < at; k++) values_c[k] = sum[col_c[k]];
  }
}

/* The position of column j among the sorted columns begin..end, or -1. */
static int64_t F(find)(const I *col, I begin, I end, I j) {
  while (begin < end) {
    I middle = begin + (end - begin) / 2;
    if (col[middle] == j) return middle;
    if (col[middle] < j)
      begin = middle + 1;
    else
      end = middle;
  }
  return -1;
}

/* da[i][j] = sum of g[i][k] b[j][k], db[j][k] += a[i][j] g[i][k], over the entries of c = a b. False: c is another
 * pattern than that of the product. */
static bool F(gradient)(const csr *a, const csr *b, const csr *c, T *da, T *db) {
  const I *pa = a->ptr, *ca = a->col, *pb = b->ptr, *cb = b->col, *pc = c->ptr, *cc = c->col;
  const T *g = c->values;
  memset(db, 0, (size_t)b->entries * sizeof(T));
  for (int64_t i = 0; i < a->rows; i++) {
    for (I k = pa[i]; k < pa[i + 1]; k++) {
      T v = ((const T *)a->values)[k], sum = 0;
      for (I m = pb[ca[k]]; m < pb[ca[k] + 1]; m++) {
        int64_t at = F(find)(cc, pc[i], pc[i + 1], cb[m]);
        if (at < 0) return false;
        sum += g[at] * ((const T *)b->values)[m];
        db[m] += v * g[at];
      }
      da[k] = sum;
    }
  }
  return true;
}

static rlx_status F(product)(rlx_ctx *ctx, const csr *a, const csr *b) {
  I *ptr_c = ctx->outputs[2].data, *mark = calloc((size_t)(b->cols + 1), sizeof(I));
  T *sum = malloc((size_t)(b->cols + 1) * sizeof(T));
  int64_t entries = mark && sum ? F(count)(a, b, mark, ptr_c) : 0;
  rlx_status status = RLX_OK;
  if (!mark || !sum)
    status = rlx_fail(ctx, RLX_OUT_OF_MEMORY, "no memory for rows of %lld columns", (long long)b->cols);
  else if (entries < 0)
    status = rlx_fail(ctx, RLX_UNSUPPORTED, "the product has more entries than int32 counts: use int64 indices");
  T *values_c = status == RLX_OK ? rlx_output_shape(ctx, 0, 1, &entries) : NULL;
  I *col_c = values_c ? rlx_output_shape(ctx, 1, 1, &entries) : NULL;
  if (status == RLX_OK && !col_c) status = RLX_OUT_OF_MEMORY;
  if (status == RLX_OK) F(fill)(a, b, mark, sum, ptr_c, col_c, values_c);
  free(mark);
  free(sum);
  return status;
}

#undef F
#undef T
#undef I
