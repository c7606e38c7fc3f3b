/* pool.c — pooling on GPUs: a thread a result; global forms a workgroup a channel. */
#include <string.h>

#include "backend/gpu/kernels/_launch.h"
#include "ops/pool.h"

enum { SPACE = 3, MAXIMUM = 0, AVERAGE = 1, POWER = 2 };

/* clang-format off */
static const char window_body[] = RLX_GPU_TEXT(
  for (u32 o = GLOBAL_ID; o < n; o += GLOBAL_SIZE) {
    u32 plane = o / pixels_out;
    u32 j = o - plane * pixels_out;
    u32 line = j / size_out[2];
    i32 px = i32(j - line * size_out[2]) * stride[2] - begin[2];
    u32 pz_u = line / size_out[1];
    i32 py = i32(line - pz_u * size_out[1]) * stride[1] - begin[1];
    i32 pz = i32(pz_u) * stride[0] - begin[0];
    i64 base = i64(plane) * i64(pixels_in);
    f32 result = MODE == 0 ? -INF : 0.0f;
    u32 count = 0u;
    i64 where = i64(-1);
    for (u32 a = 0u; a < window[0]; a++) {
      for (u32 b = 0u; b < window[1]; b++) {
        for (u32 e = 0u; e < window[2]; e++) {
          i32 z = pz + i32(a) * dilation[0];
          i32 l = py + i32(b) * dilation[1];
          i32 q = px + i32(e) * dilation[2];
          bool inside = z >= 0 && z < size_in[0] && l >= 0 && l < size_in[1] && q >= 0 && q < size_in[2];
          if (inside) {
            i64 at = (i64(z) * i64(size_in[1]) + i64(l)) * i64(size_in[2]) + i64(q);
            f32 v = x[base + at];
            count = count + 1u;
            if (MODE == 0) {
              if (v > result || ISNAN(v) || where < i64(0)) {
                result = v;
                where = column_major != 0u ? (i64(q) * i64(size_in[1]) + i64(l)) * i64(size_in[0]) + i64(z) : at;
              }
            } else {
              result = result + (MODE == 1 ? v : p == 2.0f ? v * v : p == 1.0f ? ABS(v) : POW(ABS(v), p));
            }
          } else if (include_pad != 0u && z < size_in[0] + end[0] && l < size_in[1] + end[1] && q < size_in[2] + end[2]) {
            count = count + 1u;
          }
        }
      }
    }
    if (MODE == 1) result = count > 0u ? result / f32(count) : 0.0f;
    if (MODE == 2) result = p == 2.0f ? SQRT(result) : POW(result, 1.0f / p);
    y[o] = result;
    if (PRESENT(indices)) indices[o] = where < i64(0) ? where : base + where;
  }
);
static const char global_body[] = RLX_GPU_TEXT(
  for (u32 o = GROUP_ID; o < n; o += GROUPS) {
    i64 base = i64(o) * i64(pixels_in);
    f32 total = MODE == 0 ? -INF : 0.0f;
    for (u32 j = LOCAL_ID; j < pixels_in; j += WG) {
      f32 v = x[base + i64(j)];
      total = MODE == 0 ? MAX(total, v)
                        : total + (MODE == 1 ? v : p == 2.0f ? v * v : p == 1.0f ? ABS(v) : POW(ABS(v), p));
    }
    if (MODE == 0) total = GROUP_MAX(total);
    else total = GROUP_SUM(total);
    if (MODE == 1) total = total / f32(pixels_in);
    if (MODE == 2) total = p == 2.0f ? SQRT(total) : POW(total, 1.0f / p);
    if (LOCAL_ID == 0u) y[o] = total;
  }
);
/* clang-format on */

static const rlx_gpu_arg window_args[] = {ARG_IN("x", 0),
                                          ARG_OUT("y", 0),
                                          {"indices", "i64", RLX_GPU_OUTPUT, 1, 0},
                                          ARG_SCALAR("n", "u32"),
                                          ARG_SCALAR("pixels_in", "u32"),
                                          ARG_SCALAR("pixels_out", "u32"),
                                          ARG_SCALAR("include_pad", "u32"),
                                          ARG_SCALAR("column_major", "u32"),
                                          ARG_SCALAR("p", "f32"),
                                          ARG_LIST("window", "u32", SPACE),
                                          ARG_LIST("size_in", "i32", SPACE),
                                          ARG_LIST("size_out", "u32", SPACE),
                                          ARG_LIST("stride", "i32", SPACE),
                                          ARG_LIST("dilation", "i32", SPACE),
                                          ARG_LIST("begin", "i32", SPACE),
                                          ARG_LIST("end", "i32", SPACE),
                                          {0}};
static const rlx_gpu_arg global_args[] = {ARG_IN("x", 0),         ARG_OUT("y", 0),
                                          ARG_SCALAR("n", "u32"), ARG_SCALAR("pixels_in", "u32"),
                                          ARG_SCALAR("p", "f32"), {0}};
static const rlx_gpu_constant maximum[] = {{"MODE", MAXIMUM}, {0}}, average[] = {{"MODE", AVERAGE}, {0}},
                              power[] = {{"MODE", POWER}, {0}};
#define FUNCTION(id, arg_list, mode, text)                                                                             \
  static const rlx_gpu_function id##_functions[] = {                                                                   \
      {.name = #id, .args = arg_list, .constants = mode, .body = text}, {0}}
FUNCTION(max_pool, window_args, maximum, window_body);
FUNCTION(average_pool, window_args, average, window_body);
FUNCTION(lp_pool, window_args, power, window_body);
FUNCTION(global_max_pool, global_args, maximum, global_body);
FUNCTION(global_average_pool, global_args, average, global_body);
FUNCTION(global_lp_pool, global_args, power, global_body);

static void set_space(rlx_gpu_dispatch *d, const char *name, int rank, const int64_t *values, int64_t missing) {
  int64_t all[SPACE] = {missing, missing, missing};
  for (int i = 0; i < rank; i++) all[SPACE - rank + i] = values[i];
  rlx_gpu_set_ints(d, name, all, SPACE);
}

static rlx_status encode_window(rlx_gpu_dispatch *d) {
  const pool_params *p = rlx_gpu_params(d);
  const rlx_operand *x = rlx_gpu_input(d, 0), *y = rlx_gpu_output(d, 0);
  int64_t kernel[WINDOW_MAX];
  int rank = x->rank - 2;
  if (rank < 1 || rank > SPACE || p->window.kernel_shape.count != rank)
    return RLX_FAIL(UNSUPPORTED, "%d spatial dims", rank);
  for (int i = 0; i < rank; i++) kernel[i] = p->window.kernel_shape.data[i];
  window w;
  const char *wrong = window_resolve(&p->window, rank, x->dims + 2, kernel, &w);
  if (wrong) return RLX_FAIL(INVALID, "%s", wrong);
  if (y->count == 0) return RLX_OK;
  RLX_TRY(launch_fits(y->count));
  RLX_TRY(launch_fits(window_in_count(&w)));
  set_space(d, "window", rank, w.kernel, 1);
  set_space(d, "size_in", rank, w.in, 1);
  set_space(d, "size_out", rank, w.out, 1);
  set_space(d, "stride", rank, w.stride, 1);
  set_space(d, "dilation", rank, w.dilation, 1);
  set_space(d, "begin", rank, w.begin, 0);
  set_space(d, "end", rank, w.end, 0);
  rlx_gpu_set_int(d, "n", y->count);
  rlx_gpu_set_int(d, "pixels_in", window_in_count(&w));
  rlx_gpu_set_int(d, "pixels_out", window_out_count(&w));
  rlx_gpu_set_int(d, "include_pad", p->count_include_pad != 0);
  rlx_gpu_set_int(d, "column_major", p->storage_order != 0);
  rlx_gpu_set_float(d, "p", p->p ? (double)p->p : (double)p->p_real);
  return launch_items(d, 0, y->count, 256);
}

static rlx_status encode_global(rlx_gpu_dispatch *d) {
  const pool_params *p = rlx_gpu_params(d);
  const rlx_operand *x = rlx_gpu_input(d, 0);
  int64_t pixels = 1;
  for (int i = 2; i < x->rank; i++) pixels *= x->dims[i];
  if (x->rank < 2 || pixels == 0) return RLX_FAIL(INVALID, "the spatial axes are empty");
  if (x->count == 0) return RLX_OK;
  RLX_TRY(launch_fits(x->count));
  rlx_gpu_set_int(d, "n", x->count / pixels);
  rlx_gpu_set_int(d, "pixels_in", pixels);
  rlx_gpu_set_float(d, "p", p->p ? (double)p->p : (double)p->p_real);
  return launch_items(d, 0, x->count / pixels, 1);
}

static const char *why_not(const rlx_node *n) {
  const rlx_type *x = rlx_node_input_type(n, 0);
  const char *wrong = launch_needs_real(n, 0);
  return !wrong && x->rank > SPACE + 2 ? rlx_reason("more than %d spatial dims", SPACE) : wrong;
}
static const char *why_not_global(const rlx_node *n) { return launch_needs_real(n, 0); }

#define POOL_KERNEL(id, op_name, first, refuse, encode_fn)                                                             \
  static const rlx_gpu_kernel id = {.struct_size = sizeof(rlx_gpu_kernel),                                             \
                                    .head = {.op = op_name,                                                            \
                                             .version_min = first,                                                     \
                                             .version_max = INT32_MAX,                                                 \
                                             .name = "window",                                                         \
                                             .why_not = refuse},                                                       \
                                    .functions = id##_functions,                                                       \
                                    .encode = encode_fn}
POOL_KERNEL(max_pool, "onnx.MaxPool", 1, why_not, encode_window);
POOL_KERNEL(average_pool, "onnx.AveragePool", 1, why_not, encode_window);
POOL_KERNEL(lp_pool, "onnx.LpPool", 2, why_not, encode_window);
POOL_KERNEL(global_max_pool, "onnx.GlobalMaxPool", 1, why_not_global, encode_global);
POOL_KERNEL(global_average_pool, "onnx.GlobalAveragePool", 1, why_not_global, encode_global);
POOL_KERNEL(global_lp_pool, "onnx.GlobalLpPool", 2, why_not_global, encode_global);

static const rlx_gpu_kernel *const kernels[] = {
    &max_pool, &average_pool, &lp_pool, &global_max_pool, &global_average_pool, &global_lp_pool, NULL};
const rlx_module gpu_pool = {.gpu_kernels = kernels};
