/* quantize.c — QuantizeLinear, DequantizeLinear and MatMulInteger on GPUs. */
#include <string.h>

#include "backend/gpu/kernels/_launch.h"
#include "ir/shape.h"
#include "ops/matmul.h"

typedef struct quantize_params { /* as the op's record decodes it */
  uint64_t given;
  int64_t axis, block_size, output_dtype, saturate, precision;
} quantize_params;

enum { MAX_BATCH_RANK = 6 };

/* clang-format off */
#define SCALE_INDEX                                                                                                    \
    u32 q = i / inner;                                                                                                 \
    u32 at = i - q * inner;                                                                                            \
    u32 o = q / extent;                                                                                                \
    at = at * inner_step + (q - o * extent) / block * axis_step + o * outer_step;
#define EXPANDED(...) RLX_GPU_TEXT(__VA_ARGS__)
static const char quantize_body[] = EXPANDED(
  for (u32 i = GLOBAL_ID; i < n; i += GLOBAL_SIZE) {
    SCALE_INDEX
    f32 v = ROUND_EVEN(f32(x[i]) / scale[at]);
    if (PRESENT(zero)) v = v + f32(zero[at]);
    v = v < low ? low : v > high ? high : v;
    y[i] = y_t(i32(v));
  }
);
static const char dequantize_body[] = EXPANDED(
  for (u32 i = GLOBAL_ID; i < n; i += GLOBAL_SIZE) {
    SCALE_INDEX
    i32 v = i32(x[i]);
    if (PRESENT(zero)) v = v - i32(zero[at]);
    y[i] = f32(v) * scale[at];
  }
);
static const char integer_body[] = RLX_GPU_TEXT(
  for (u32 o = GLOBAL_ID; o < total; o += GLOBAL_SIZE) {
    u32 line = o / n;
    u32 j = o - line * n;
    u32 batch = line / m;
    u32 i = line - batch * m;
    i64 a_at = i64(i) * i64(k);
    i64 b_at = i64(j);
    u32 left = batch;
    for (u32 d = batch_rank; d > 0u; d--) {
      u32 next = left / batch_dims[d - 1u];
      i64 at = i64(left - next * batch_dims[d - 1u]);
      a_at = a_at + at * a_step[d - 1u];
      b_at = b_at + at * b_step[d - 1u];
      left = next;
    }
    i32 a_less = 0;
    i32 b_less = 0;
    if (PRESENT(a_zero)) a_less = i32(a_zero[a_zero_rows != 0u ? i : 0u]);
    if (PRESENT(b_zero)) b_less = i32(b_zero[b_zero_columns != 0u ? j : 0u]);
    i32 sum = 0;
    for (u32 c = 0u; c < k; c++) {
      sum = sum + (i32(a[a_at + i64(c)]) - a_less) * (i32(b[b_at]) - b_less);
      b_at = b_at + i64(n);
    }
    y[o] = sum;
  }
);
/* clang-format on */

#define SCALE_ARGS                                                                                                     \
  ARG_IN("x", 0), ARG_IN("scale", 1), ARG_IN("zero", 2), ARG_OUT("y", 0), ARG_SCALAR("n", "u32"),                        \
      ARG_SCALAR("inner", "u32"), ARG_SCALAR("extent", "u32"), ARG_SCALAR("block", "u32"),                              \
      ARG_SCALAR("outer_step", "u32"), ARG_SCALAR("axis_step", "u32"), ARG_SCALAR("inner_step", "u32")
static const rlx_gpu_arg quantize_args[] = {SCALE_ARGS, ARG_SCALAR("low", "f32"), ARG_SCALAR("high", "f32"), {0}};
static const rlx_gpu_arg dequantize_args[] = {SCALE_ARGS, {0}};
static const rlx_gpu_arg integer_args[] = {ARG_IN("a", 0),
                                           ARG_IN("b", 1),
                                           ARG_IN("a_zero", 2),
                                           ARG_IN("b_zero", 3),
                                           ARG_OUT("y", 0),
                                           ARG_SCALAR("total", "u32"),
                                           ARG_SCALAR("m", "u32"),
                                           ARG_SCALAR("n", "u32"),
                                           ARG_SCALAR("k", "u32"),
                                           ARG_SCALAR("a_zero_rows", "u32"),
                                           ARG_SCALAR("b_zero_columns", "u32"),
                                           ARG_SCALAR("batch_rank", "u32"),
                                           ARG_LIST("batch_dims", "u32", MAX_BATCH_RANK),
                                           ARG_LIST("a_step", "i64", MAX_BATCH_RANK),
                                           ARG_LIST("b_step", "i64", MAX_BATCH_RANK),
                                           {0}};
static const rlx_gpu_function quantize_functions[] = {
    {.name = "quantize", .args = quantize_args, .body = quantize_body}, {0}};
static const rlx_gpu_function dequantize_functions[] = {
    {.name = "dequantize", .args = dequantize_args, .body = dequantize_body}, {0}};
static const rlx_gpu_function integer_functions[] = {
    {.name = "matmul_integer", .args = integer_args, .body = integer_body}, {0}};

/* Which scale an element has: one for all, one an index of the axis, or one a block along it. */
static rlx_status set_scales(rlx_gpu_dispatch *d) {
  const quantize_params *p = rlx_gpu_params(d);
  const rlx_operand *x = rlx_gpu_input(d, 0), *scale = rlx_gpu_input(d, 1);
  bool single = scale->count == 1 && p->block_size == 0;
  int axis = single ? 0 : axis_normalise(p->axis, x->rank);
  if (!single && (axis < 0 || axis >= x->rank)) return RLX_FAIL(INVALID, "axis %d of rank %d", axis, x->rank);
  int64_t inner = 1, blocks = p->block_size ? scale->dims[axis] : 1;
  for (int i = axis + 1; i < x->rank && !single; i++) inner *= x->dims[i];
  RLX_TRY(launch_fits(x->count));
  rlx_gpu_set_int(d, "n", x->count);
  rlx_gpu_set_int(d, "inner", inner);
  rlx_gpu_set_int(d, "extent", single ? 1 : x->dims[axis]);
  rlx_gpu_set_int(d, "block", p->block_size ? p->block_size : 1);
  rlx_gpu_set_int(d, "outer_step", p->block_size ? blocks * inner : 0);
  rlx_gpu_set_int(d, "axis_step", single ? 0 : p->block_size ? inner : 1);
  rlx_gpu_set_int(d, "inner_step", p->block_size ? 1 : 0);
  return RLX_OK;
}

static rlx_status encode_quantize(rlx_gpu_dispatch *d) {
  const rlx_operand *x = rlx_gpu_input(d, 0), *y = rlx_gpu_output(d, 0);
  if (x->count == 0) return RLX_OK;
  int bits = rlx_dtype_bits(y->dtype);
  bool is_signed = dtype_is_signed(y->dtype);
  RLX_TRY(set_scales(d));
  rlx_gpu_set_float(d, "low", is_signed ? -(double)(1 << (bits - 1)) : 0);
  rlx_gpu_set_float(d, "high", (double)((1 << (is_signed ? bits - 1 : bits)) - 1));
  return launch_items(d, 0, x->count, 256);
}

static rlx_status encode_dequantize(rlx_gpu_dispatch *d) {
  const rlx_operand *x = rlx_gpu_input(d, 0);
  if (x->count == 0) return RLX_OK;
  RLX_TRY(set_scales(d));
  return launch_items(d, 0, x->count, 256);
}

static rlx_status encode_integer(rlx_gpu_dispatch *d) {
  const rlx_operand *a = rlx_gpu_input(d, 0), *b = rlx_gpu_input(d, 1), *y = rlx_gpu_output(d, 0);
  const rlx_operand *a_zero = rlx_gpu_input(d, 2), *b_zero = rlx_gpu_input(d, 3);
  matmul_shape s;
  const char *wrong = matmul_resolve(a->rank, a->dims, b->rank, b->dims, &s);
  if (wrong) return RLX_FAIL(INVALID, "%s", wrong);
  if (y->count == 0) return RLX_OK;
  if (s.rank > MAX_BATCH_RANK) return RLX_FAIL(UNSUPPORTED, "a batch of more than %d dims", MAX_BATCH_RANK);
  RLX_TRY(launch_fits(y->count));
  int64_t a_step[RLX_MAX_RANK], b_step[RLX_MAX_RANK];
  for (int i = 0; i < s.rank; i++) {
    a_step[i] = s.a_step[i] * s.m * s.k;
    b_step[i] = s.b_step[i] * s.k * s.n;
  }
  rlx_gpu_set_int(d, "total", y->count);
  rlx_gpu_set_int(d, "m", s.m);
  rlx_gpu_set_int(d, "n", s.n);
  rlx_gpu_set_int(d, "k", s.k);
  rlx_gpu_set_int(d, "a_zero_rows", a_zero && a_zero->count > 1);
  rlx_gpu_set_int(d, "b_zero_columns", b_zero && b_zero->count > 1);
  rlx_gpu_set_int(d, "batch_rank", s.rank);
  rlx_gpu_set_ints(d, "batch_dims", s.batch, s.rank);
  rlx_gpu_set_ints(d, "a_step", a_step, s.rank);
  rlx_gpu_set_ints(d, "b_step", b_step, s.rank);
  return launch_items(d, 0, y->count, 256);
}

static bool small_integer(const rlx_type *t) {
  return t && (t->dtype == RLX_INT8 || t->dtype == RLX_UINT8 || t->dtype == RLX_INT16 || t->dtype == RLX_UINT16);
}

static const char *why_not_quantize(const rlx_node *n) {
  const quantize_params *p = rlx_node_params(n);
  if (!small_integer(rlx_node_output_type(n, 0))) return "no kernel text quantizes to this type";
  if (rlx_node_input_type(n, 1)->dtype != RLX_FLOAT || (p->precision && p->precision != RLX_FLOAT))
    return "the division is not in float";
  return launch_needs_real(n, 0);
}

static const char *why_not_dequantize(const rlx_node *n) {
  const rlx_type *x = rlx_node_input_type(n, 0);
  if (!small_integer(x) && x->dtype != RLX_INT32) return "no kernel text dequantizes this type";
  if (!launch_real(rlx_node_output_type(n, 0))) return "no kernel text for that output";
  return launch_needs_real(n, 1);
}

/* Zero points with dims of their own (one a row of each matrix of a batch) are left to the CPU. */
static const char *why_not_integer(const rlx_node *n) {
  for (int i = 2; i < 4; i++) {
    const rlx_type *t = rlx_node_input_type(n, i);
    if (t && t->rank != 0 && t->rank != 1) return "a zero point of more dims than one";
  }
  return NULL;
}

#define QUANTIZE_KERNEL(id, op_name)                                                                                   \
  static const rlx_gpu_kernel id = {                                                                                   \
      .struct_size = sizeof(rlx_gpu_kernel),                                                                           \
      .head = {.op = op_name, .version_min = 10, .version_max = INT32_MAX, .name = "elements", .why_not = why_not_##id}, \
      .functions = id##_functions,                                                                                     \
      .encode = encode_##id}
QUANTIZE_KERNEL(quantize, "onnx.QuantizeLinear");
QUANTIZE_KERNEL(dequantize, "onnx.DequantizeLinear");
QUANTIZE_KERNEL(integer, "onnx.MatMulInteger");

static const rlx_gpu_kernel *const kernels[] = {&quantize, &dequantize, &integer, NULL};
const rlx_module gpu_quantize = {.gpu_kernels = kernels};
