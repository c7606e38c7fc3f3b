/* quantize.c — QuantizeLinear, DequantizeLinear and DynamicQuantizeLinear: per tensor, per axis, or blocked. */
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "ir/module.h"
#include "ir/shape.h"
#include "ops/_convert.h"
#include "ops/_derivative.h"
#include "ops/_move.h"

typedef struct quantize_params {
  uint64_t given;
  int64_t axis, block_size, output_dtype, saturate, precision;
} quantize_params;

static const rlx_attr_def quantize_attrs[] = {
    {.name = "axis", .kind = RLX_ATTR_INT, .offset = offsetof(quantize_params, axis), .default_int = 1},
    {.name = "block_size", .kind = RLX_ATTR_INT, .offset = offsetof(quantize_params, block_size)},
    {.name = "output_dtype", .kind = RLX_ATTR_INT, .offset = offsetof(quantize_params, output_dtype)},
    {.name = "saturate", .kind = RLX_ATTR_INT, .offset = offsetof(quantize_params, saturate), .default_int = 1},
    {.name = "precision", .kind = RLX_ATTR_INT, .offset = offsetof(quantize_params, precision)},
    {0}};
static const rlx_attr_def dequantize_attrs[] = {
    {.name = "axis", .kind = RLX_ATTR_INT, .offset = offsetof(quantize_params, axis), .default_int = 1},
    {.name = "block_size", .kind = RLX_ATTR_INT, .offset = offsetof(quantize_params, block_size)},
    {.name = "output_dtype", .kind = RLX_ATTR_INT, .offset = offsetof(quantize_params, output_dtype)},
    {0}};

#define WIDE_TYPES (RLX_SET(RLX_FLOAT) | RLX_SET(RLX_FLOAT16) | RLX_SET(RLX_BFLOAT16))
#define SMALL_FLOATS                                                                                                   \
  (RLX_SET(RLX_FLOAT8E4M3FN) | RLX_SET(RLX_FLOAT8E4M3FNUZ) | RLX_SET(RLX_FLOAT8E5M2) | RLX_SET(RLX_FLOAT8E5M2FNUZ) |   \
   RLX_SET(RLX_FLOAT4E2M1) | RLX_SET(RLX_FLOAT6E2M3) | RLX_SET(RLX_FLOAT6E3M2))
#define SMALL_TYPES                                                                                                    \
  (SMALL_FLOATS | RLX_SET(RLX_INT8) | RLX_SET(RLX_UINT8) | RLX_SET(RLX_INT16) | RLX_SET(RLX_UINT16) |                  \
   RLX_SET(RLX_INT4) | RLX_SET(RLX_UINT4) | RLX_SET(RLX_INT2) | RLX_SET(RLX_UINT2))
#define SCALE_TYPES (WIDE_TYPES | RLX_SET(RLX_FLOAT8E8M0) | RLX_SET(RLX_INT32))

static const rlx_port quantize_inputs[] = {
    {.name = "x", .dtypes = WIDE_TYPES | RLX_SET(RLX_INT32)},
    {.name = "y_scale", .dtypes = SCALE_TYPES},
    {.name = "y_zero_point", .variable = "T3", .dtypes = SMALL_TYPES, .flags = RLX_OPTIONAL},
    {0}};
static const rlx_port quantize_outputs[] = {{.name = "y", .variable = "T3", .dtypes = SMALL_TYPES}, {0}};
static const rlx_port dequantize_inputs[] = {
    {.name = "x", .variable = "T1", .dtypes = SMALL_TYPES | RLX_SET(RLX_INT32)},
    {.name = "x_scale", .dtypes = SCALE_TYPES},
    {.name = "x_zero_point", .variable = "T1", .dtypes = SMALL_TYPES | RLX_SET(RLX_INT32), .flags = RLX_OPTIONAL},
    {0}};
static const rlx_port dequantize_outputs[] = {{.name = "y", .dtypes = WIDE_TYPES}, {0}};

/* ---- which scale an element has ------------------------------------------------------------ */

/* Element (o, a, i) of x seen as [outer, extent, inner] has the scale at o * outer_step + a / block * axis_step
 * + i * inner_step. */
typedef struct scale_map {
  int64_t outer, extent, inner, block;
  int64_t outer_step, axis_step, inner_step;
} scale_map;

/* Checks the scale's dims against x's (all known) and finds the map. */
static rlx_status scale_map_of(const void *ctx, const quantize_params *p, int rank, const int64_t *dims, int scale_rank,
                               const int64_t *scale_dims, scale_map *m) {
  if (p->block_size < 0) return rlx_fail(ctx, RLX_INVALID, "block_size is %lld", (long long)p->block_size);
  *m = (scale_map){1, 1, dims_product(dims, 0, rank), 1, 0, 0, 0};
  bool single = scale_rank == 0 || (scale_rank == 1 && scale_dims[0] == 1);
  if (single && p->block_size == 0) return RLX_OK;
  int axis;
  rlx_status status = infer_axis(ctx, p->axis, rank, &axis);
  if (status != RLX_OK) return status;
  m->outer = dims_product(dims, 0, axis);
  m->extent = dims[axis];
  m->inner = dims_product(dims, axis + 1, rank);
  if (p->block_size == 0) {
    if (scale_rank != 1 || scale_dims[0] != dims[axis])
      return rlx_fail(ctx, RLX_INVALID, "the scale (rank %d, %lld elements) does not fit axis %d of extent %lld",
                      scale_rank, (long long)dims_product(scale_dims, 0, scale_rank), axis, (long long)dims[axis]);
    m->axis_step = 1;
    return RLX_OK;
  }
  int64_t blocks = scale_rank == rank ? scale_dims[axis] : -1;
  m->block = p->block_size;
  for (int d = 0; d < rank && blocks >= 0; d++)
    if (d != axis && scale_dims[d] != dims[d]) blocks = -1;
  if (blocks < 0 || blocks != dims[axis] / m->block + (dims[axis] % m->block != 0))
    return rlx_fail(ctx, RLX_INVALID, "the scale's dims do not fit blocks of %lld along axis %d", (long long)m->block,
                    axis);
  m->outer_step = blocks * m->inner;
  m->axis_step = m->inner;
  m->inner_step = 1;
  return RLX_OK;
}

static bool dims_known(const rlx_type *t) {
  for (int d = 0; d < t->rank; d++)
    if (t->dims[d] < 0) return false;
  return t->rank >= 0;
}

/* Output dims, and the checks that quantizing and dequantizing share. */
static rlx_status scale_infer(rlx_infer *ctx, const quantize_params *p) {
  const rlx_type *x = rlx_infer_input(ctx, 0), *scale = rlx_infer_input(ctx, 1);
  if (x->rank >= 0) rlx_infer_set(ctx, 0, x->rank, x->dims);
  if (!dims_known(x) || !dims_known(scale)) return RLX_OK;
  scale_map m;
  rlx_status status = scale_map_of(ctx, p, x->rank, x->dims, scale->rank, scale->dims, &m);
  if (status != RLX_OK || !infer_given(ctx, 2)) return status;
  const rlx_type *zero = rlx_infer_input(ctx, 2);
  if (dims_known(zero) && dims_product(zero->dims, 0, zero->rank) != dims_product(scale->dims, 0, scale->rank))
    return rlx_fail(ctx, RLX_INVALID, "scale and zero point have different sizes");
  return RLX_OK;
}

static rlx_status quantize_infer(rlx_infer *ctx) {
  const quantize_params *p = rlx_infer_params(ctx);
  rlx_type *y = rlx_infer_output(ctx, 0);
  int64_t asked = p->output_dtype;
  if (asked < 0 || asked >= RLX_DTYPE_COUNT || (asked && !(SMALL_TYPES >> asked & 1u)))
    return rlx_fail(ctx, RLX_INVALID, "output_dtype is %lld", (long long)asked);
  if (infer_given(ctx, 2)) {
    y->dtype = rlx_infer_input(ctx, 2)->dtype;
    if (asked && y->dtype && y->dtype != (rlx_dtype)asked)
      return rlx_fail(ctx, RLX_INVALID, "output_dtype is %s, the zero point %s", rlx_dtype_name((rlx_dtype)asked),
                      rlx_dtype_name(y->dtype));
  } else {
    y->dtype = asked ? (rlx_dtype)asked : RLX_UINT8;
  }
  return scale_infer(ctx, p);
}

static rlx_status dequantize_infer(rlx_infer *ctx) {
  const quantize_params *p = rlx_infer_params(ctx);
  int64_t asked = p->output_dtype;
  if (asked < 0 || asked >= RLX_DTYPE_COUNT || (asked && !(WIDE_TYPES >> asked & 1u)))
    return rlx_fail(ctx, RLX_INVALID, "output_dtype is %lld", (long long)asked);
  rlx_dtype scale = rlx_infer_input(ctx, 1)->dtype;
  if (!asked && scale != RLX_UNDEFINED && !(WIDE_TYPES >> scale & 1u))
    return rlx_fail(ctx, RLX_INVALID, "a scale of %s needs output_dtype", rlx_dtype_name(scale));
  rlx_infer_output(ctx, 0)->dtype = asked ? (rlx_dtype)asked : scale;
  return scale_infer(ctx, p);
}

/* ---- running ------------------------------------------------------------------------------ */

enum { TILE = 256 };

typedef struct quantize_job {
  rlx_ctx *ctx;
  scale_map map;
  const rlx_operand *x, *scale, *zero; /* zero NULL: 0 */
  rlx_operand *y;
  float low, high; /* of an integer output */
  bool small_float;
  rlx_dtype precision; /* float16 or bfloat16: the quotient is rounded to it */
  convert_rule rule;
} quantize_job;

static float load_float(const rlx_operand *o, int64_t i) {
  return o->dtype == RLX_FLOAT ? ((const float *)o->data)[i] : (float)dtype_load(o->dtype, o->data, i);
}

/* Nearest integer, halves to even, of |v| < 2^22; vectorises without a rounding instruction. */
static inline float round_even(float v) {
  const float magic = 12582912.0f;
  return (v + magic) - magic;
}

/* v = v / scale, rounded to the precision asked for. */
static void divide(const quantize_job *job, float *v, int64_t n, int64_t scale_at, int64_t step) {
  if (step) {
    for (int64_t i = 0; i < n; i++) v[i] /= load_float(job->scale, scale_at + i);
  } else {
    float scale = load_float(job->scale, scale_at);
    for (int64_t i = 0; i < n; i++) v[i] /= scale;
  }
  if (job->precision == RLX_FLOAT) return;
  for (int64_t i = 0; i < n; i++)
    v[i] = job->precision == RLX_FLOAT16 ? f16_to_f32(f32_to_f16(v[i])) : bf16_to_f32(f32_to_bf16(v[i]));
}

/* q = v rounded plus the zero point, within the output's type. NaN becomes the lowest. */
static void to_integers(const quantize_job *job, const float *v, int32_t *q, int64_t n, int64_t zero_at, int64_t step) {
  float low = job->low, high = job->high, zero = job->zero && !step ? load_float(job->zero, zero_at) : 0;
  if (job->zero && step) {
    for (int64_t i = 0; i < n; i++) {
      float z = load_float(job->zero, zero_at + i), c = v[i] >= low - z ? v[i] : low - z;
      q[i] = (int32_t)(round_even(c <= high - z ? c : high - z) + z);
    }
    return;
  }
  low -= zero;
  high -= zero;
  for (int64_t i = 0; i < n; i++) {
    float c = v[i] >= low ? v[i] : low;
    q[i] = (int32_t)(round_even(c <= high ? c : high) + zero);
  }
}

/* The common cases, float and bytes with one scale, in one loop each. For AVX2 the same body is compiled again. */
typedef struct byte_args {
  float scale, zero, low, high; /* low, high: without the zero point */
} byte_args;

static inline __attribute__((always_inline)) void floats_to_bytes(const float *x, uint8_t *y, int64_t n,
                                                                  const byte_args *b) {
  float scale = b->scale, low = b->low, high = b->high;
  int32_t zero = (int32_t)b->zero, q[TILE];
  for (int64_t i = 0; i < n; i++) {
    float v = x[i] / scale, c = v >= low ? v : low;
    q[i] = (int32_t)round_even(c <= high ? c : high) + zero;
  }
  for (int64_t i = 0; i < n; i++) y[i] = (uint8_t)q[i];
}

static inline __attribute__((always_inline)) void bytes_to_floats(const uint8_t *x, bool is_signed, float *y, int64_t n,
                                                                  const byte_args *b) {
  float scale = b->scale;
  int32_t zero = (int32_t)b->zero;
  if (is_signed)
    for (int64_t i = 0; i < n; i++) y[i] = (float)((int8_t)x[i] - zero) * scale;
  else
    for (int64_t i = 0; i < n; i++) y[i] = (float)(x[i] - zero) * scale;
}

static void floats_to_bytes_base(const float *x, uint8_t *y, int64_t n, const byte_args *b) {
  floats_to_bytes(x, y, n, b);
}

static void bytes_to_floats_base(const uint8_t *x, bool is_signed, float *y, int64_t n, const byte_args *b) {
  bytes_to_floats(x, is_signed, y, n, b);
}

#if defined(__x86_64__)
__attribute__((target("avx2"))) static void floats_to_bytes_avx2(const float *x, uint8_t *y, int64_t n,
                                                                 const byte_args *b) {
  floats_to_bytes(x, y, n, b);
}

__attribute__((target("avx2"))) static void bytes_to_floats_avx2(const uint8_t *x, bool is_signed, float *y, int64_t n,
                                                                 const byte_args *b) {
  bytes_to_floats(x, is_signed, y, n, b);
}
#define BYTE_KERNEL(name) (__builtin_cpu_supports("avx2") ? name##_avx2 : name##_base)
#else
#define BYTE_KERNEL(name) name##_base
#endif

/* n elements from `at`, all of one scale and zero point, or (step 1) each of its own. */
static void quantize_tile(const quantize_job *job, int64_t at, int64_t n, int64_t scale_at, int64_t step) {
  float v[TILE];
  int32_t q[TILE];
  bool bytes = job->y->dtype == RLX_INT8 || job->y->dtype == RLX_UINT8;
  if (bytes && !step && job->x->dtype == RLX_FLOAT && job->precision == RLX_FLOAT) {
    byte_args b = {load_float(job->scale, scale_at), job->zero ? load_float(job->zero, scale_at) : 0, job->low,
                   job->high};
    b.low -= b.zero;
    b.high -= b.zero;
    BYTE_KERNEL(floats_to_bytes)((const float *)job->x->data + at, (uint8_t *)job->y->data + at, n, &b);
    return;
  }
  if (job->x->dtype == RLX_FLOAT)
    memcpy(v, (const float *)job->x->data + at, (size_t)n * sizeof *v);
  else
    convert_run(job->x->dtype, job->x->data, at, RLX_FLOAT, v, 0, n, &convert_default);
  divide(job, v, n, scale_at, step);
  if (job->small_float) {
    for (int64_t i = 0; job->zero && i < n; i++) v[i] += load_float(job->zero, scale_at + i * step);
    convert_run(RLX_FLOAT, v, 0, job->y->dtype, job->y->data, at, n, &job->rule);
    return;
  }
  to_integers(job, v, q, n, scale_at, step);
  if (bytes) {
    uint8_t *y = (uint8_t *)job->y->data + at;
    for (int64_t i = 0; i < n; i++) y[i] = (uint8_t)q[i];
  } else {
    convert_run(RLX_INT32, q, 0, job->y->dtype, job->y->data, at, n, &convert_default);
  }
}

static void load_floats(const rlx_operand *x, int64_t at, int64_t n, float *v) {
  const uint8_t *bytes = (const uint8_t *)x->data + at;
  if (x->dtype == RLX_UINT8)
    for (int64_t i = 0; i < n; i++) v[i] = (float)bytes[i];
  else if (x->dtype == RLX_INT8)
    for (int64_t i = 0; i < n; i++) v[i] = (float)(int8_t)bytes[i];
  else
    convert_run(x->dtype, x->data, at, RLX_FLOAT, v, 0, n, &convert_default);
}

static void dequantize_tile(const quantize_job *job, int64_t at, int64_t n, int64_t scale_at, int64_t step) {
  float v[TILE];
  bool bytes = job->x->dtype == RLX_INT8 || job->x->dtype == RLX_UINT8;
  if (bytes && !step && job->y->dtype == RLX_FLOAT) {
    byte_args b = {.scale = load_float(job->scale, scale_at), .zero = job->zero ? load_float(job->zero, scale_at) : 0};
    BYTE_KERNEL(bytes_to_floats)
    ((const uint8_t *)job->x->data + at, job->x->dtype == RLX_INT8, (float *)job->y->data + at, n, &b);
    return;
  }
  if (job->x->dtype == RLX_INT32) {
    for (int64_t i = 0; i < n; i++) {
      int64_t zero = job->zero ? ((const int32_t *)job->zero->data)[scale_at + i * step] : 0;
      v[i] = (float)(((const int32_t *)job->x->data)[at + i] - zero);
    }
  } else {
    load_floats(job->x, at, n, v);
    if (job->zero && !step) {
      float zero = load_float(job->zero, scale_at);
      for (int64_t i = 0; i < n; i++) v[i] -= zero;
    } else if (job->zero) {
      for (int64_t i = 0; i < n; i++) v[i] -= load_float(job->zero, scale_at + i);
    }
  }
  if (step) {
    for (int64_t i = 0; i < n; i++) v[i] *= load_float(job->scale, scale_at + i);
  } else {
    float scale = load_float(job->scale, scale_at);
    for (int64_t i = 0; i < n; i++) v[i] *= scale;
  }
  if (job->y->dtype == RLX_FLOAT)
    memcpy((float *)job->y->data + at, v, (size_t)n * sizeof *v);
  else
    convert_run(RLX_FLOAT, v, 0, job->y->dtype, job->y->data, at, n, &convert_default);
}

typedef void (*tile_fn)(const quantize_job *job, int64_t at, int64_t n, int64_t scale_at, int64_t step);

/* Elements [begin, end) in tiles that share one row of scales. */
static void run_tiles(const quantize_job *job, tile_fn tile, int64_t begin, int64_t end) {
  const scale_map *m = &job->map;
  for (int64_t at = begin; at < end;) {
    int64_t i = at % m->inner, a = at / m->inner % m->extent, o = at / m->inner / m->extent;
    int64_t n = m->inner - i;
    int64_t scale_at = o * m->outer_step + a / m->block * m->axis_step + i * m->inner_step;
    /* With one element a step of the axis, a whole block has the same scale. */
    if (m->inner == 1 && m->block > 1) {
      n = m->block - a % m->block;
      if (n > m->extent - a) n = m->extent - a;
    }
    int64_t step = m->inner == 1 ? 0 : m->inner_step;
    if (m->inner == 1 && m->block == 1 && m->axis_step) {
      n = m->extent - a;
      step = 1;
    }
    if (n > TILE) n = TILE;
    if (n > end - at) n = end - at;
    tile(job, at, n, scale_at, step);
    at += n;
  }
}

static void quantize_range(void *arg, int64_t begin, int64_t end) {
  int64_t count = ((const quantize_job *)arg)->x->count;
  run_tiles(arg, quantize_tile, begin * TILE, end * TILE < count ? end * TILE : count);
}

static void dequantize_range(void *arg, int64_t begin, int64_t end) {
  int64_t count = ((const quantize_job *)arg)->x->count;
  run_tiles(arg, dequantize_tile, begin * TILE, end * TILE < count ? end * TILE : count);
}

static rlx_status quantize_job_of(rlx_ctx *ctx, quantize_job *job) {
  const quantize_params *p = ctx->params;
  *job = (quantize_job){.ctx = ctx, .x = &ctx->inputs[0], .scale = &ctx->inputs[1], .y = &ctx->outputs[0]};
  if (run_given(ctx, 2)) job->zero = &ctx->inputs[2];
  if (job->zero && job->zero->count != job->scale->count)
    return rlx_fail(ctx, RLX_INVALID, "scale has %lld elements, the zero point %lld", (long long)job->scale->count,
                    (long long)job->zero->count);
  return scale_map_of(ctx, p, job->x->rank, job->x->dims, job->scale->rank, job->scale->dims, &job->map);
}

/* Tiles of sub-byte outputs must begin at whole bytes. When rows are not whole bytes they cannot: such rare
 * tensors go one element at a time, on one thread. */
static bool whole_bytes(const quantize_job *job) {
  int bits = rlx_dtype_bits(job->y->dtype);
  const scale_map *m = &job->map;
  int64_t run = m->inner > 1 || !m->axis_step ? m->inner : m->block > 1 ? m->block : m->extent;
  bool one_row = m->outer * m->extent == 1 || (m->inner == 1 && m->block == 1 && m->outer == 1);
  return bits >= 8 || one_row || (run * bits % 8 == 0 && (m->block == 1 || m->extent % m->block == 0));
}

static void quantize_elements(const quantize_job *job) {
  const scale_map *m = &job->map;
  int bits = rlx_dtype_bits(job->y->dtype);
  uint8_t one = 0;
  rlx_operand y = *job->y;
  y.data = &one;
  quantize_job single = *job;
  for (int64_t at = 0; at < job->x->count; at++) {
    int64_t i = at % m->inner, a = at / m->inner % m->extent, o = at / m->inner / m->extent;
    int64_t scale_at = o * m->outer_step + a / m->block * m->axis_step + i * m->inner_step;
    float v = load_float(job->x, at);
    rlx_operand x = {.data = &v, .dtype = RLX_FLOAT};
    single.x = &x;
    single.y = &y;
    quantize_tile(&single, 0, 1, scale_at, 0);
    bits_store(bits, job->y->data, at, bits_load(bits, &one, 0));
  }
}

static rlx_status quantize_eval(rlx_ctx *ctx) {
  const quantize_params *p = ctx->params;
  quantize_job job;
  rlx_status status = quantize_job_of(ctx, &job);
  if (status != RLX_OK || job.x->count == 0) return status;
  rlx_dtype to = job.y->dtype;
  int bits = rlx_dtype_bits(to);
  job.small_float = dtype_is_float(to);
  job.low = dtype_is_signed(to) ? -(float)(1 << (bits - 1)) : 0;
  job.high = (float)((1 << (dtype_is_signed(to) ? bits - 1 : bits)) - 1);
  job.rule = convert_default;
  job.rule.saturate = p->saturate != 0;
  rlx_dtype precision = p->precision > 0 && p->precision < RLX_DTYPE_COUNT ? (rlx_dtype)p->precision : job.scale->dtype;
  job.precision = precision == RLX_FLOAT16 || precision == RLX_BFLOAT16 ? precision : RLX_FLOAT;
  if (bits < 8) memset(job.y->data, 0, (size_t)job.y->bytes);
  if (!whole_bytes(&job))
    quantize_elements(&job);
  else
    rlx_parallel_for(ctx, (job.x->count + TILE - 1) / TILE, 128, quantize_range, &job);
  return RLX_OK;
}

static rlx_status dequantize_eval(rlx_ctx *ctx) {
  quantize_job job;
  rlx_status status = quantize_job_of(ctx, &job);
  if (status != RLX_OK || job.x->count == 0) return status;
  rlx_parallel_for(ctx, (job.x->count + TILE - 1) / TILE, 128, dequantize_range, &job);
  return RLX_OK;
}

static const rlx_op quantize = {
    .struct_size = sizeof(rlx_op),
    .name = "onnx.QuantizeLinear",
    .version = 10,
    .samples =
        (const char *const[]){"float[2,3], float[] = {0.5}, int8[] = {1}",
                              "float[2,3,4], float[3] = {0.5, 0.25, 2.0}, uint8[3] = {0, 1, 2} {axis = 1}", NULL},
    .doc = "x / y_scale rounded (halves to even) plus y_zero_point, saturated to the output's type. Scale and "
           "zero point are scalars, a vector along axis, or one for each block_size elements of axis.",
    .inputs = quantize_inputs,
    .outputs = quantize_outputs,
    .attrs = quantize_attrs,
    .params_size = sizeof(quantize_params),
    .traits = RLX_PURE,
    .infer = quantize_infer,
    .eval = quantize_eval,
};

/* (x - zero point) scale, with the scale as large as x. */
static rlx_status dequantize_derive(rlx_graph *g, const rlx_node *n, rlx_value **outputs) {
  const quantize_params *p = rlx_node_params(n);
  rlx_value *in[3] = {rlx_node_input(n, 0), rlx_node_input(n, 1), rlx_node_input(n, 2)};
  const rlx_type *x = rlx_value_type(in[0]), *scale = rlx_value_type(in[1]);
  int axis = x->rank < 0 ? -1 : x->rank == 0 ? 0 : axis_normalise(p->axis, x->rank);
  bool single = scale->rank == 0 || (scale->rank == 1 && scale->dims[0] == 1);
  if (x->rank < 0 || scale->rank < 0) return rlx_graph_fail(g, RLX_UNSUPPORTED, "the ranks must be known");
  if (!single && axis < 0) return rlx_graph_fail(g, RLX_INVALID, "axis %lld", (long long)p->axis);
  int64_t dims[RLX_MAX_RANK];
  for (int d = 0; d < x->rank; d++) dims[d] = d == axis ? -1 : 1;
  char shape[300], pick[64], less[120];
  snprintf(pick, sizeof pick, "Gather <axis = %d> (scale, at)", axis);
  snprintf(less, sizeof less, "z0 = CastLike (zero, scale) z = Gather <axis = %d> (z0, at) d = Sub (xs, z)", axis);
  return derivative_text(
      g, in, outputs,
      "dequantize (x, scale, zero) => (y) <int64[%d] shape = {%s}, int64 axis = {%d}, int64 none = {0}, int64 one = "
      "{1},"
      " int64 block = {%lld}> { xs = CastLike (x, scale) size = Shape (x) extent = Gather (size, axis)"
      " row = Range (none, extent, one) at = Div (row, block) s = %s %s v = Mul (d, s) y = Cast <to = %d> (v) }",
      x->rank ? x->rank : 1, x->rank ? derivative_list(dims, x->rank, shape, sizeof shape) : "1", axis,
      (long long)(p->block_size ? p->block_size : 1),
      single          ? "Identity (scale)"
      : p->block_size ? pick
                      : "Reshape (scale, shape)",
      !in[2]          ? "d = Identity (xs)"
      : single        ? "z = CastLike (zero, scale) d = Sub (xs, z)"
      : p->block_size ? less
                      : "z0 = CastLike (zero, scale) z = Reshape (z0, shape) d = Sub (xs, z)",
      (int)rlx_node_output_type(n, 0)->dtype);
}

/* The scale is that of the span of x with 0; the rest are integers. */
static rlx_status dynamic_derive(rlx_graph *g, const rlx_node *n, rlx_value **outputs) {
  rlx_value *x = rlx_node_input(n, 0), *made[3];
  RLX_TRY(derivative_text(g, &x, made,
                          "dynamic (x) => (y, s, z) <float zero = {0}, float steps = {255}> {"
                          " y, s0, z = DynamicQuantizeLinear (x) a = ReduceMax <keepdims = 0> (x)"
                          " b = ReduceMin <keepdims = 0> (x) high = Max (a, zero) low = Min (b, zero)"
                          " span = Sub (high, low) s = Div (span, steps) }"));
  for (int i = 0; i < rlx_node_output_count(n) && i < 3; i++) outputs[i] = made[i];
  return rlx_graph_status(g);
}

static const rlx_op dequantize = {
    .struct_size = sizeof(rlx_op),
    .name = "onnx.DequantizeLinear",
    .version = 10,
    .samples =
        (const char *const[]){"int8[2,3], float[] = {0.5}, int8[] = {1}",
                              "uint8[2,3,4], float[3] = {0.5, 0.25, 2.0}, uint8[3] = {0, 1, 2} {axis = 1}", NULL},
    .doc = "(x - x_zero_point) * x_scale, in the scale's type or output_dtype.",
    .inputs = dequantize_inputs,
    .outputs = dequantize_outputs,
    .attrs = dequantize_attrs,
    .params_size = sizeof(quantize_params),
    .traits = RLX_PURE,
    .infer = dequantize_infer,
    .derive = dequantize_derive,
    .eval = dequantize_eval,
};

/* ---- DynamicQuantizeLinear ----------------------------------------------------------------- */

static const rlx_port dynamic_inputs[] = {{.name = "x", .dtypes = RLX_SET(RLX_FLOAT)}, {0}};
static const rlx_port dynamic_outputs[] = {{.name = "y", .dtypes = RLX_SET(RLX_UINT8)},
                                           {.name = "y_scale", .dtypes = RLX_SET(RLX_FLOAT)},
                                           {.name = "y_zero_point", .dtypes = RLX_SET(RLX_UINT8)},
                                           {0}};

static rlx_status dynamic_infer(rlx_infer *ctx) {
  static const rlx_dtype types[3] = {RLX_UINT8, RLX_FLOAT, RLX_UINT8};
  rlx_infer_like(ctx, 0, 0);
  for (int i = 0; i < 3 && i < rlx_infer_output_count(ctx); i++) {
    if (i) rlx_infer_set(ctx, i, 0, NULL);
    rlx_infer_output(ctx, i)->dtype = types[i];
  }
  return RLX_OK;
}

static rlx_status dynamic_eval(rlx_ctx *ctx) {
  const float *x = ctx->inputs[0].data;
  float low = 0, high = 0;
  for (int64_t i = 0; i < ctx->inputs[0].count; i++) {
    low = x[i] < low ? x[i] : low;
    high = x[i] > high ? x[i] : high;
  }
  float scale = high == low ? 1.0f : (high - low) / 255.0f;
  float zero = rintf(-low / scale);
  zero = zero >= 0 ? (zero <= 255 ? zero : 255) : 0;
  uint8_t zero_byte = (uint8_t)zero;
  rlx_operand scale_operand = {.data = &scale, .dtype = RLX_FLOAT, .count = 1};
  rlx_operand zero_operand = {.data = &zero_byte, .dtype = RLX_UINT8, .count = 1};
  if (run_wanted(ctx, 1)) *(float *)ctx->outputs[1].data = scale;
  if (run_wanted(ctx, 2)) *(uint8_t *)ctx->outputs[2].data = zero_byte;
  if (!run_wanted(ctx, 0) || ctx->inputs[0].count == 0) return RLX_OK;
  quantize_job job = {.ctx = ctx,
                      .map = {1, 1, ctx->inputs[0].count, 1, 0, 0, 0},
                      .x = &ctx->inputs[0],
                      .scale = &scale_operand,
                      .zero = &zero_operand,
                      .y = &ctx->outputs[0],
                      .high = 255,
                      .precision = RLX_FLOAT};
  rlx_parallel_for(ctx, (job.x->count + TILE - 1) / TILE, 128, quantize_range, &job);
  return RLX_OK;
}

static const rlx_op dynamic_quantize = {
    .struct_size = sizeof(rlx_op),
    .name = "onnx.DynamicQuantizeLinear",
    .version = 11,
    .doc = "x quantized to uint8 with the scale and zero point that its own range (0 included) calls for.",
    .samples = (const char *const[]){"float[6]", "float[3,4]", NULL},
    .inputs = dynamic_inputs,
    .outputs = dynamic_outputs,
    .traits = RLX_PURE,
    .infer = dynamic_infer,
    .derive = dynamic_derive,
    .eval = dynamic_eval,
};

static const rlx_op *const ops[] = {&quantize, &dequantize, &dynamic_quantize, NULL};
const rlx_module ops_quantize = {.ops = ops};
