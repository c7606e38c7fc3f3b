/* _conv_direct.c — the plain convolution that defines Conv, ConvInteger and QLinearConv: one output row at a time. */
#include <string.h>

#include "ops/conv.h"

typedef struct conv_task {
  const conv_shape *shape;
  rlx_dtype dtype;
  size_t element;
  const char *x, *w, *bias;
  char *y;
} conv_task;

/* y[i] += w * x[i * stride], the innermost loop. */
#define ROW(name, type)                                                                                                \
  static void name(type *restrict y, const type *restrict x, type w, int64_t n, int64_t stride) {                      \
    if (stride == 1) {                                                                                                 \
      for (int64_t i = 0; i < n; i++) y[i] += w * x[i];                                                                \
    } else {                                                                                                           \
      for (int64_t i = 0; i < n; i++) y[i] += w * x[i * stride];                                                       \
    }                                                                                                                  \
  }
ROW(row_float, float)
ROW(row_double, double)
ROW(row_unsigned, uint32_t) /* int32, wrapping */
#undef ROW

static void row_add(const conv_task *t, char *y, const char *x, const char *w, int64_t n, int64_t stride) {
  if (t->dtype == RLX_FLOAT) {
    row_float((float *)y, (const float *)x, *(const float *)w, n, stride);
  } else if (t->dtype == RLX_DOUBLE) {
    row_double((double *)y, (const double *)x, *(const double *)w, n, stride);
  } else {
    row_unsigned((uint32_t *)y, (const uint32_t *)x, *(const uint32_t *)w, n, stride);
  }
}

static void row_fill(const conv_task *t, char *y, const char *value, int64_t n) {
  if (!value) {
    memset(y, 0, (size_t)n * t->element);
  } else {
    for (int64_t i = 0; i < n; i++) memcpy(y + (size_t)i * t->element, value, t->element);
  }
}

/* Adds the taps of one input channel to one output row; `at` is the row's position on the outer axes. */
static void add_channel(const conv_task *t, const int64_t *at, const char *x, const char *w, char *y) {
  const window *win = &t->shape->window;
  int last = win->rank - 1;
  int64_t tap[WINDOW_MAX] = {0};
  do {
    int64_t row = 0;
    bool inside = true;
    for (int d = 0; d < last; d++) {
      int64_t position = at[d] * win->stride[d] - win->begin[d] + tap[d] * win->dilation[d];
      inside = inside && position >= 0 && position < win->in[d];
      row = row * win->in[d] + position;
    }
    if (inside) {
      for (int64_t k = 0; k < win->kernel[last]; k++) {
        int64_t first, end;
        window_span(win, last, k, &first, &end);
        int64_t position = row * win->in[last] + first * win->stride[last] - win->begin[last] + k * win->dilation[last];
        if (first < end) {
          row_add(t, y + (size_t)first * t->element, x + position * (int64_t)t->element, w + (size_t)k * t->element,
                  end - first, win->stride[last]);
        }
      }
    }
    w += (size_t)win->kernel[last] * t->element;
  } while (window_next(last, win->kernel, tap));
}

static void run_rows(void *arg, int64_t begin, int64_t end) {
  const conv_task *t = arg;
  const conv_shape *s = t->shape;
  const window *win = &s->window;
  int last = win->rank - 1;
  int64_t width = win->out[last], rows = window_out_count(win) / width;
  size_t plane = (size_t)window_in_count(win) * t->element, filter = (size_t)window_kernel_count(win) * t->element;
  int64_t depth = s->channels / s->group;
  for (int64_t i = begin; i < end; i++) {
    int64_t map = i / rows % s->maps, n = i / rows / s->maps, rest = i % rows;
    int64_t at[WINDOW_MAX];
    for (int d = last - 1; d >= 0; d--) {
      at[d] = rest % win->out[d];
      rest /= win->out[d];
    }
    int64_t channel = n * s->channels + map / (s->maps / s->group) * depth;
    char *y = t->y + (size_t)(i * width) * t->element;
    row_fill(t, y, t->bias ? t->bias + (size_t)map * t->element : NULL, width);
    for (int64_t c = 0; c < depth; c++) {
      add_channel(t, at, t->x + (size_t)(channel + c) * plane, t->w + (size_t)(map * depth + c) * filter, y);
    }
  }
}

void conv_direct(rlx_ctx *ctx, const conv_shape *s, rlx_dtype dtype, const void *x, const void *w, const void *bias,
                 void *y) {
  int64_t out = window_out_count(&s->window);
  if (s->batch * s->maps * out == 0) return;
  conv_task task = {s, dtype, dtype == RLX_DOUBLE ? 8 : 4, x, w, bias, y};
  int64_t rows = s->batch * s->maps * (out / s->window.out[s->window.rank - 1]);
  rlx_parallel_for(ctx, rows, 16, run_rows, &task);
}
