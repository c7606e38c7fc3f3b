/* _resize_run.c — the passes of Resize: nearest by position, the others as weighted sums axis by axis. */
#include <math.h>
#include <string.h>

#include "ops/_convert.h"
#include "ops/_resize.h"

/* ---- weighted sums ------------------------------------------------------------------------- */

/* x as [outer, in, inner] to y as [outer, out, inner]. */
typedef struct sum_job {
  const resize_axis *a;
  const void *x;
  void *y;
  int64_t inner;
  double extrapolation;
} sum_job;

#define SUM_PASS(T)                                                                                                    \
  static void sum_row_##T(T *restrict y, const T *x, const int64_t *index, const double *weight, int64_t taps,         \
                          int64_t inner) {                                                                             \
    const T *first = x + index[0] * inner, *second = x + index[taps > 1] * inner;                                      \
    T w0 = (T)weight[0], w1 = taps > 1 ? (T)weight[1] : 0;                                                             \
    for (int64_t i = 0; i < inner; i++) y[i] = first[i] * w0 + second[i] * w1;                                         \
    for (int64_t k = 2; k < taps; k++) {                                                                               \
      const T *from = x + index[k] * inner;                                                                            \
      T w = (T)weight[k];                                                                                              \
      for (int64_t i = 0; i < inner; i++) y[i] += from[i] * w;                                                         \
    }                                                                                                                  \
  }                                                                                                                    \
  /* Rows [begin, end) when the axis is the last. */                                                                   \
  static void sum_lines_##T(void *arg, int64_t begin, int64_t end) {                                                   \
    const sum_job *job = arg;                                                                                          \
    const resize_axis *a = job->a;                                                                                     \
    for (int64_t r = begin; r < end; r++) {                                                                            \
      const T *x = (const T *)job->x + r * a->in;                                                                      \
      T *restrict y = (T *)job->y + r * a->out;                                                                        \
      const int64_t *index = a->index;                                                                                 \
      const double *weight = a->weight;                                                                                \
      for (int64_t j = 0; j < a->out; j++, index += a->taps, weight += a->taps) {                                      \
        if (index[0] < 0) {                                                                                            \
          y[j] = (T)job->extrapolation;                                                                                \
          continue;                                                                                                    \
        }                                                                                                              \
        T sum = x[index[0]] * (T)weight[0];                                                                            \
        for (int64_t k = 1; k < a->taps; k++) sum += x[index[k]] * (T)weight[k];                                       \
        y[j] = sum;                                                                                                    \
      }                                                                                                                \
    }                                                                                                                  \
  }                                                                                                                    \
  static void sum_units_##T(void *arg, int64_t begin, int64_t end) {                                                   \
    const sum_job *job = arg;                                                                                          \
    const resize_axis *a = job->a;                                                                                     \
    int64_t o = begin / a->out, j = begin % a->out;                                                                    \
    for (int64_t u = begin; u < end; u++) {                                                                            \
      T *y = (T *)job->y + u * job->inner;                                                                             \
      const T *x = (const T *)job->x + o * a->in * job->inner;                                                         \
      if (a->index[j * a->taps] < 0)                                                                                   \
        for (int64_t i = 0; i < job->inner; i++) y[i] = (T)job->extrapolation;                                         \
      else                                                                                                             \
        sum_row_##T(y, x, a->index + j * a->taps, a->weight + j * a->taps, a->taps, job->inner);                       \
      if (++j == a->out) {                                                                                             \
        j = 0;                                                                                                         \
        o++;                                                                                                           \
      }                                                                                                                \
    }                                                                                                                  \
  }
SUM_PASS(float)
SUM_PASS(double)

static rlx_dtype compute_dtype(rlx_dtype dtype) {
  bool wide =
      dtype == RLX_DOUBLE || dtype == RLX_INT32 || dtype == RLX_UINT32 || dtype == RLX_INT64 || dtype == RLX_UINT64;
  return wide ? RLX_DOUBLE : RLX_FLOAT;
}

static bool is_native(rlx_dtype dtype) { return dtype == RLX_FLOAT || dtype == RLX_DOUBLE; }

int64_t resize_scratch(const resize_plan *plan, rlx_dtype dtype, int64_t in_count) {
  if (plan->nearest || plan->count == 0) return 0;
  int64_t size = (int64_t)dtype_size(compute_dtype(dtype)), out = in_count;
  for (int i = 0; i < plan->count; i++) out = out / plan->axes[i].in * plan->axes[i].out;
  if (is_native(dtype)) return dim_mul(dim_mul(plan->scratch, 2), size);
  int64_t most = plan->scratch > in_count ? plan->scratch : in_count;
  return dim_mul(dim_mul(most > out ? most : out, 2), size);
}

/* Rounded to the nearest integer and clamped to what an integer dtype holds. */
static void store_rounded(rlx_dtype from, const void *x, const rlx_operand *y) {
  int bits = rlx_dtype_bits(y->dtype);
  bool is_signed = dtype_is_signed(y->dtype);
  if (y->dtype == RLX_BOOL) bits = 1;
  double low = is_signed ? -ldexp(1, bits - 1) : 0, high = ldexp(1, is_signed ? bits - 1 : bits) - 1;
  for (int64_t i = 0; i < y->count; i++) {
    double v = rint(from == RLX_FLOAT ? (double)((const float *)x)[i] : ((const double *)x)[i]);
    if (!(v > low))
      dtype_store_int(y->dtype, y->data, i, (int64_t)low);
    else if (bits == 64)
      dtype_store_int(y->dtype, y->data, i, v >= 0x1p63 ? (is_signed ? INT64_MAX : -1) : (int64_t)v);
    else
      dtype_store_int(y->dtype, y->data, i, v < high ? (int64_t)v : (int64_t)high);
  }
}

static rlx_status run_sums(rlx_ctx *ctx, const resize_plan *plan, void *scratch) {
  const rlx_operand *x = &ctx->inputs[0], *y = &ctx->outputs[0];
  rlx_dtype compute = compute_dtype(x->dtype);
  bool native = is_native(x->dtype);
  int64_t dims[RLX_MAX_RANK], half = resize_scratch(plan, x->dtype, x->count) / 2;
  char *buffers[2] = {scratch, scratch ? (char *)scratch + half : NULL};
  int turn = 0;
  memcpy(dims, x->dims, sizeof(int64_t) * (size_t)x->rank);
  const void *from = x->data;
  if (!native) {
    convert_run(x->dtype, x->data, 0, compute, buffers[0], 0, x->count, &convert_default);
    from = buffers[0];
    turn = 1;
  }
  for (int i = 0; i < plan->count; i++, turn ^= 1) {
    const resize_axis *a = &plan->axes[i];
    void *to = native && i + 1 == plan->count ? y->data : buffers[turn];
    sum_job job = {a, from, to, dims_product(dims, a->axis + 1, x->rank), plan->extrapolation};
    int64_t units = dims_product(dims, 0, a->axis);
    if (job.inner == 1) {
      rlx_parallel_for(ctx, units, 32768 / (a->out * a->taps) + 1,
                       compute == RLX_FLOAT ? sum_lines_float : sum_lines_double, &job);
    } else {
      rlx_parallel_for(ctx, units * a->out, 32768 / (job.inner * a->taps + 4) + 1,
                       compute == RLX_FLOAT ? sum_units_float : sum_units_double, &job);
    }
    dims[a->axis] = a->out;
    from = to;
  }
  if (native) return RLX_OK;
  if (dtype_is_float(y->dtype))
    convert_run(compute, from, 0, y->dtype, y->data, 0, y->count, &convert_default);
  else
    store_rounded(compute, from, y);
  return RLX_OK;
}

/* ---- nearest ------------------------------------------------------------------------------ */

/* Dims up to the last resized one; what follows is one element of `size` bytes. */
typedef struct pick_job {
  const char *x;
  char *y;
  int rank;
  int64_t in[RLX_MAX_RANK], out[RLX_MAX_RANK];
  const int64_t *index[RLX_MAX_RANK]; /* NULL: as it is */
  int64_t size;
  bool all_inside, doubled;      /* of the last dim's index */
  _Alignas(16) char outside[16]; /* the extrapolation value, of one element of the tensor */
  size_t outside_size;
} pick_job;

static inline void copy_element(char *to, const char *from, int64_t size) {
  switch (size) {
    case 1: *to = *from; break;
    case 2: memcpy(to, from, 2); break;
    case 4: memcpy(to, from, 4); break;
    case 8: memcpy(to, from, 8); break;
    default: memcpy(to, from, (size_t)size);
  }
}

/* to[j] = from[index[j]], all inside. */
static void pick_row(char *to, const char *from, const int64_t *index, int64_t n, int64_t size) {
  switch (size) {
    case 1:
      for (int64_t j = 0; j < n; j++) to[j] = from[index[j]];
      break;
    case 2:
      for (int64_t j = 0; j < n; j++) memcpy(to + 2 * j, from + 2 * index[j], 2);
      break;
    case 4:
      for (int64_t j = 0; j < n; j++) memcpy(to + 4 * j, from + 4 * index[j], 4);
      break;
    case 8:
      for (int64_t j = 0; j < n; j++) memcpy(to + 8 * j, from + 8 * index[j], 8);
      break;
    default:
      for (int64_t j = 0; j < n; j++) memcpy(to + size * j, from + size * index[j], (size_t)size);
  }
}

/* The common case of index[j] = j / 2 with 4-byte elements. */
static void double_row(char *to, const char *from, int64_t n) {
  for (int64_t j = 0; j < n / 2; j++) {
    uint32_t v;
    memcpy(&v, from + 4 * j, 4);
    memcpy(to + 8 * j, &v, 4);
    memcpy(to + 8 * j + 4, &v, 4);
  }
}

static void fill_outside(const pick_job *job, char *to, int64_t bytes) {
  move_fill(to, job->outside, bytes / (int64_t)job->outside_size, job->outside_size);
}

static void pick_rows(void *arg, int64_t begin, int64_t end) {
  const pick_job *job = arg;
  int last = job->rank - 1;
  int64_t out = job->out[last], previous = -1;
  const int64_t *index = job->index[last];
  for (int64_t r = begin; r < end; r++) {
    int64_t left = r, at = 0, step = job->in[last];
    bool inside = true;
    for (int d = last - 1; d >= 0; d--) {
      int64_t position = left % job->out[d];
      if (job->index[d]) position = job->index[d][position];
      inside = inside && position >= 0;
      left /= job->out[d];
      at += position * step;
      step *= job->in[d];
    }
    char *to = job->y + r * out * job->size;
    const char *from = job->x + at * job->size;
    if (!inside) {
      fill_outside(job, to, out * job->size);
    } else if (r > begin && at == previous) {
      memcpy(to, to - out * job->size, (size_t)(out * job->size));
    } else if (job->doubled) {
      double_row(to, from, out);
    } else if (job->all_inside) {
      pick_row(to, from, index, out, job->size);
    } else {
      for (int64_t j = 0; j < out; j++) {
        if (index[j] >= 0)
          copy_element(to + j * job->size, from + index[j] * job->size, job->size);
        else
          fill_outside(job, to + j * job->size, job->size);
      }
    }
    previous = inside ? at : -1;
  }
}

static rlx_status run_nearest(rlx_ctx *ctx, const resize_plan *plan) {
  const rlx_operand *x = &ctx->inputs[0], *y = &ctx->outputs[0];
  pick_job job = {.x = x->data, .y = y->data, .size = (int64_t)dtype_size(x->dtype)};
  job.outside_size = (size_t)job.size;
  static const rlx_string no_text = {"", 0};
  if (x->dtype == RLX_STRING)
    memcpy(job.outside, &no_text, sizeof no_text);
  else if (dtype_is_float(x->dtype))
    dtype_store(x->dtype, job.outside, 0, plan->extrapolation);
  else if (dtype_is_integer(x->dtype) || x->dtype == RLX_BOOL)
    store_rounded(RLX_DOUBLE, &plan->extrapolation, &(rlx_operand){.data = job.outside, .count = 1, .dtype = x->dtype});
  for (int i = 0, d = 0; i < plan->count; i++) {
    const resize_axis *a = &plan->axes[i];
    int64_t between = dims_product(x->dims, d, a->axis);
    if (between != 1) {
      job.in[job.rank] = job.out[job.rank] = between;
      job.rank++;
    }
    job.in[job.rank] = a->in;
    job.out[job.rank] = a->out;
    job.index[job.rank++] = a->index;
    d = a->axis + 1;
  }
  job.size *= dims_product(x->dims, plan->axes[plan->count - 1].axis + 1, x->rank);
  int64_t rows = dims_product(job.out, 0, job.rank - 1), n = job.out[job.rank - 1];
  const int64_t *index = job.index[job.rank - 1];
  job.all_inside = true;
  job.doubled = job.size == 4 && n % 2 == 0;
  for (int64_t j = 0; j < n; j++) {
    job.all_inside = job.all_inside && index[j] >= 0;
    job.doubled = job.doubled && index[j] == j / 2;
  }
  rlx_parallel_for(ctx, rows, 65536 / (job.out[job.rank - 1] * job.size + 32) + 1, pick_rows, &job);
  return RLX_OK;
}

rlx_status resize_run(rlx_ctx *ctx, const resize_plan *plan, void *scratch) {
  if (ctx->outputs[0].count == 0) return RLX_OK;
  if (plan->count == 0) return move_all(ctx);
  return plan->nearest ? run_nearest(ctx, plan) : run_sums(ctx, plan, scratch);
}
