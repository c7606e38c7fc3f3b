/* vector_body.h — loops over vectors, included for each element type T; F(name) is the name of each. */

static void F(combine)(void *task, int64_t begin, int64_t end) {
  const combine_task *t = task;
  const T *x = t->x, a = (T)t->a, b = (T)t->b;
  T *y = t->y;
  if (t->b == 0) {
    for (int64_t i = begin; i < end; i++) y[i] = a * x[i];
  } else if (t->b == 1) {
    for (int64_t i = begin; i < end; i++) y[i] += a * x[i];
  } else if (t->a == 1) {
    for (int64_t i = begin; i < end; i++) y[i] = x[i] + b * y[i];
  } else {
    for (int64_t i = begin; i < end; i++) y[i] = a * x[i] + b * y[i];
  }
}

/* Eight sums side by side, so that additions need not wait for each other. */
static void F(dot)(void *task, int64_t begin, int64_t end) {
  const dot_task *t = task;
  for (int64_t piece = begin; piece < end; piece++) {
    const T *x = (const T *)t->x + piece * PIECE, *y = (const T *)t->y + piece * PIECE;
    int64_t n = t->n - piece * PIECE < PIECE ? t->n - piece * PIECE : PIECE, i = 0;
    double sum[8] = {0};
    for (; i + 8 <= n; i += 8)
      for (int64_t j = 0; j < 8; j++) sum[j] += (double)x[i + j] * (double)y[i + j];
    for (; i < n; i++) sum[i & 7] += (double)x[i] * (double)y[i];
    t->sums[piece] = ((sum[0] + sum[1]) + (sum[2] + sum[3])) + ((sum[4] + sum[5]) + (sum[6] + sum[7]));
  }
}

static const vector_calls F(vectors) = {F(combine), F(dot)};

#undef F
#undef T
