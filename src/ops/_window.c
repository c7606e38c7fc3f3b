/* _window.c — resolving the attributes of window ops. */
#include "ops/_window.h"

#include <string.h>

#include "base/status.h"
#include "ir/shape.h"

typedef enum padding { PADDING_EXPLICIT, PADDING_SAME_UPPER, PADDING_SAME_LOWER, PADDING_VALID } padding;

static bool padding_parse(const rlx_string *s, padding *out) {
  static const struct {
    const char *name;
    padding value;
  } names[] = {{"NOTSET", PADDING_EXPLICIT},
               {"SAME_UPPER", PADDING_SAME_UPPER},
               {"SAME_LOWER", PADDING_SAME_LOWER},
               {"VALID", PADDING_VALID}};
  if (!s->data || s->size == 0) {
    *out = PADDING_EXPLICIT;
    return true;
  }
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    if (strlen(names[i].name) == s->size && memcmp(names[i].name, s->data, s->size) == 0) {
      *out = names[i].value;
      return true;
    }
  }
  return false;
}

static const char *check_list(const char *name, const rlx_ints *list, int64_t want, int64_t least) {
  if (list->count == 0) return NULL;
  if (list->count != want) {
    return rlx_reason("%s has %lld entries, %lld are needed", name, (long long)list->count, (long long)want);
  }
  for (int64_t i = 0; i < want; i++) {
    if (list->data[i] < least || list->data[i] > INT32_MAX) {
      return rlx_reason("%s holds %lld", name, (long long)list->data[i]);
    }
  }
  return NULL;
}

/* Padding and output size of one axis. */
static const char *resolve_axis(window *w, int d, padding p, bool ceiling) {
  if (w->kernel[d] == RLX_UNKNOWN || w->in[d] == RLX_UNKNOWN) {
    w->out[d] = RLX_UNKNOWN;
    return NULL;
  }
  if (w->kernel[d] < 1) return rlx_reason("a window of size %lld", (long long)w->kernel[d]);
  int64_t extent, stride = w->stride[d], in = w->in[d];
  if (__builtin_mul_overflow(w->kernel[d] - 1, w->dilation[d], &extent)) return rlx_reason("the window is too large");
  extent += 1;
  if (p == PADDING_SAME_UPPER || p == PADDING_SAME_LOWER) {
    w->out[d] = in / stride + (in % stride != 0);
    int64_t total = in == 0 ? 0 : (w->out[d] - 1) * stride + extent - in;
    if (total < 0) total = 0;
    w->begin[d] = p == PADDING_SAME_UPPER ? total / 2 : total - total / 2;
    w->end[d] = total - w->begin[d];
    return NULL;
  }
  int64_t room = in + w->begin[d] + w->end[d] - extent;
  if (room < 0) {
    if (in == 0) {
      w->out[d] = 0;
      return NULL;
    }
    return rlx_reason("a window of %lld does not fit into axis %d of size %lld with padding %lld and %lld",
                      (long long)extent, d + 2, (long long)in, (long long)w->begin[d], (long long)w->end[d]);
  }
  w->out[d] = room / stride + 1;
  if (ceiling && room % stride != 0) {
    w->out[d] += 1;
    /* A last window that would start in the padding at the end is left out. */
    if ((w->out[d] - 1) * stride >= in + w->begin[d]) w->out[d] -= 1;
  }
  return NULL;
}

const char *window_resolve(const window_attrs *a, int rank, const int64_t *in, const int64_t *kernel, window *out) {
  padding p;
  if (!padding_parse(&a->auto_pad, &p)) {
    return rlx_reason("auto_pad '%.*s' is not known", (int)(a->auto_pad.size > 40 ? 40 : a->auto_pad.size),
                      a->auto_pad.data);
  }
  if (rank < 1 || rank > WINDOW_MAX) return rlx_reason("%d spatial axes", rank);
  const char *bad = check_list("strides", &a->strides, rank, 1);
  if (!bad) bad = check_list("dilations", &a->dilations, rank, 1);
  if (!bad) bad = check_list("kernel_shape", &a->kernel_shape, rank, 1);
  /* Negative padding crops, as the standard does not say but its reference does. */
  if (!bad) bad = check_list("pads", &a->pads, 2 * (int64_t)rank, -INT32_MAX);
  if (bad) return bad;
  *out = (window){.rank = rank};
  for (int d = 0; d < rank; d++) {
    out->in[d] = in[d];
    out->kernel[d] = kernel[d];
    out->stride[d] = a->strides.count ? a->strides.data[d] : 1;
    out->dilation[d] = a->dilations.count ? a->dilations.data[d] : 1;
    if (p == PADDING_EXPLICIT && a->pads.count) {
      out->begin[d] = a->pads.data[d];
      out->end[d] = a->pads.data[d + rank];
    }
    if (a->kernel_shape.count && kernel[d] != RLX_UNKNOWN && a->kernel_shape.data[d] != kernel[d]) {
      return rlx_reason("kernel_shape has %lld where the weights have %lld", (long long)a->kernel_shape.data[d],
                        (long long)kernel[d]);
    }
    bad = resolve_axis(out, d, p, a->ceil_mode != 0);
    if (bad) return bad;
  }
  return NULL;
}

int window_stated_rank(const window_attrs *a) {
  if (a->kernel_shape.count) return (int)a->kernel_shape.count;
  if (a->strides.count) return (int)a->strides.count;
  if (a->dilations.count) return (int)a->dilations.count;
  return a->pads.count ? (int)(a->pads.count / 2) : -1;
}

static int64_t product(int rank, const int64_t *dims) {
  int64_t n = 1;
  for (int d = 0; d < rank; d++) n *= dims[d];
  return n;
}
int64_t window_in_count(const window *w) { return product(w->rank, w->in); }
int64_t window_out_count(const window *w) { return product(w->rank, w->out); }
int64_t window_kernel_count(const window *w) { return product(w->rank, w->kernel); }

rlx_status window_infer_pool(rlx_infer *ctx, const window_attrs *a) {
  const rlx_type *x = rlx_infer_input(ctx, 0);
  int rank = (int)a->kernel_shape.count;
  if (x->rank == RLX_UNKNOWN && (rank < 1 || rank > WINDOW_MAX)) {
    return rlx_fail(ctx, RLX_INVALID, "kernel_shape has %d entries", rank);
  }
  int64_t dims[RLX_MAX_RANK];
  for (int d = 0; d < RLX_MAX_RANK; d++) dims[d] = x->rank == RLX_UNKNOWN ? RLX_UNKNOWN : x->dims[d];
  if (x->rank != RLX_UNKNOWN && x->rank != rank + 2) {
    return rlx_fail(ctx, RLX_INVALID, "a kernel_shape of %d entries for an input of rank %d", rank, x->rank);
  }
  window w;
  const char *bad = window_resolve(a, rank, dims + 2, a->kernel_shape.data, &w);
  if (bad) return rlx_fail(ctx, RLX_INVALID, "%s", bad);
  memcpy(dims + 2, w.out, (size_t)rank * sizeof *dims);
  for (int i = 0; i < rlx_infer_output_count(ctx); i++) rlx_infer_set(ctx, i, rank + 2, dims);
  return RLX_OK;
}

rlx_status window_of_pool(rlx_ctx *ctx, const window_attrs *a, window *out) {
  const rlx_operand *x = &ctx->inputs[0];
  if (x->rank < 3 || x->rank != a->kernel_shape.count + 2) {
    return rlx_fail(ctx, RLX_INVALID, "a kernel_shape of %lld entries for an input of rank %d",
                    (long long)a->kernel_shape.count, x->rank);
  }
  const char *bad = window_resolve(a, x->rank - 2, x->dims + 2, a->kernel_shape.data, out);
  return bad ? rlx_fail(ctx, RLX_INVALID, "%s", bad) : RLX_OK;
}
