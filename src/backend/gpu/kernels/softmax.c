/* softmax.c — Softmax and LogSoftmax on GPUs: rows in registers, of any length, or columns. */
#include "ops/softmax.h"
#include "backend/gpu/kernels/_launch.h"

/* Elements a thread holds; rows of 32 threads and of a workgroup. */
enum { SHORT_PER = 8, LONG_PER = 16, SHORT_MOST = 32 * SHORT_PER, LONG_MOST = 256 * LONG_PER };

static const rlx_gpu_arg args[] = {ARG_IN("x", 0),
                                   ARG_OUT("y", 0),
                                   ARG_SCALAR("rows", "u32"),
                                   ARG_SCALAR("count", "u32"),
                                   ARG_SCALAR("inner", "u32"),
                                   {0}};
static const rlx_gpu_shared red[] = {{"red", "f32", 256}, {0}};
static const rlx_gpu_constant plain[] = {{"LOGS", 0}, {0}}, logs[] = {{"LOGS", 1}, {0}};

/* clang-format off */
static const char short_rows[] = RLX_GPU_TEXT(
  u32 lane = LOCAL_ID & 31u;
  for (u32 first = GROUP_ID * 8u; first < rows; first += GROUPS * 8u) {
    u32 row = first + (LOCAL_ID >> 5u);
    bool on = row < rows;
    i64 at = i64(row) * i64(count);
    f32 v[8];
    f32 m = -INF;
    UNROLL for (u32 k = 0u; k < 8u; k++) {
      u32 c = lane + k * 32u;
      v[k] = -INF;
      if (on && c < count) v[k] = x[at + i64(c)];
      m = MAX(m, v[k]);
    }
    for (u32 s = 16u; s > 0u; s = s >> 1u) {
      red[LOCAL_ID] = m;
      BARRIER();
      f32 w = red[LOCAL_ID ^ s];
      BARRIER();
      m = MAX(m, w);
    }
    f32 sum = 0.0f;
    UNROLL for (u32 k = 0u; k < 8u; k++) {
      f32 e = EXP(v[k] - m);
      v[k] = LOGS != 0 ? v[k] - m : e;
      sum = sum + (lane + k * 32u < count ? e : 0.0f);
    }
    for (u32 s = 16u; s > 0u; s = s >> 1u) {
      red[LOCAL_ID] = sum;
      BARRIER();
      f32 w = red[LOCAL_ID ^ s];
      BARRIER();
      sum = sum + w;
    }
    f32 scale = LOGS != 0 ? LOG(sum) : sum;
    UNROLL for (u32 k = 0u; k < 8u; k++) {
      u32 c = lane + k * 32u;
      if (on && c < count) y[at + i64(c)] = LOGS != 0 ? v[k] - scale : v[k] / scale;
    }
  }
);

static const char long_rows[] = RLX_GPU_TEXT(
  for (u32 row = GROUP_ID; row < rows; row += GROUPS) {
    i64 at = i64(row) * i64(count);
    f32 v[16];
    f32 m = -INF;
    UNROLL for (u32 k = 0u; k < 16u; k++) {
      u32 c = LOCAL_ID + k * 256u;
      v[k] = -INF;
      if (c < count) v[k] = x[at + i64(c)];
    }
    UNROLL for (u32 k = 0u; k < 16u; k++) m = MAX(m, v[k]);
    m = GROUP_MAX(m);
    f32 sum = 0.0f;
    UNROLL for (u32 k = 0u; k < 16u; k++) {
      if (LOCAL_ID + k * 256u < count) {
        f32 e = EXP(v[k] - m);
        v[k] = LOGS != 0 ? v[k] - m : e;
        sum = sum + e;
      }
    }
    sum = GROUP_SUM(sum);
    f32 scale = LOGS != 0 ? LOG(sum) : sum;
    UNROLL for (u32 k = 0u; k < 16u; k++) {
      u32 c = LOCAL_ID + k * 256u;
      if (c < count) y[at + i64(c)] = LOGS != 0 ? v[k] - scale : v[k] / scale;
    }
  }
);

static const char any_rows[] = RLX_GPU_TEXT(
  for (u32 row = GROUP_ID; row < rows; row += GROUPS) {
    i64 at = i64(row) * i64(count);
    f32 m = -INF;
    for (u32 c = LOCAL_ID; c < count; c += WG) m = MAX(m, x[at + i64(c)]);
    m = GROUP_MAX(m);
    f32 sum = 0.0f;
    for (u32 c = LOCAL_ID; c < count; c += WG) sum = sum + EXP(x[at + i64(c)] - m);
    sum = GROUP_SUM(sum);
    f32 scale = LOGS != 0 ? LOG(sum) : sum;
    for (u32 c = LOCAL_ID; c < count; c += WG) {
      f32 v = x[at + i64(c)] - m;
      y[at + i64(c)] = LOGS != 0 ? v - scale : EXP(v) / scale;
    }
  }
);

static const char columns[] = RLX_GPU_TEXT(
  for (u32 i = GLOBAL_ID; i < rows; i += GLOBAL_SIZE) {
    u32 outer = i / inner;
    i64 at = i64(outer) * i64(count) * i64(inner) + i64(i - outer * inner);
    f32 m = -INF;
    for (u32 c = 0u; c < count; c++) m = MAX(m, x[at + i64(c) * i64(inner)]);
    f32 sum = 0.0f;
    for (u32 c = 0u; c < count; c++) sum = sum + EXP(x[at + i64(c) * i64(inner)] - m);
    f32 scale = LOGS != 0 ? LOG(sum) : sum;
    for (u32 c = 0u; c < count; c++) {
      f32 v = x[at + i64(c) * i64(inner)] - m;
      y[at + i64(c) * i64(inner)] = LOGS != 0 ? v - scale : EXP(v) / scale;
    }
  }
);
/* clang-format on */

enum { SHORT, LONG, ANY, COLUMNS };
#define FUNCTIONS(constants_)                                                                                          \
  {                                                                                                                    \
    [SHORT] = {.name = "softmax_short", .args = args, .shared = red, .constants = constants_, .body = short_rows},      \
    [LONG] = {.name = "softmax_long", .args = args, .constants = constants_, .body = long_rows},                        \
    [ANY] = {.name = "softmax_any", .args = args, .constants = constants_, .body = any_rows},                           \
    [COLUMNS] = {.name = "softmax_columns", .args = args, .constants = constants_, .body = columns}, {0},               \
  }
static const rlx_gpu_function softmax_functions[] = FUNCTIONS(plain);
static const rlx_gpu_function log_softmax_functions[] = FUNCTIONS(logs);

static rlx_status encode(rlx_gpu_dispatch *d) {
  const rlx_operand *x = rlx_gpu_input(d, 0);
  softmax_shape s;
  const char *wrong = softmax_resolve(rlx_gpu_params(d), x->rank, x->dims, &s);
  if (wrong) return RLX_FAIL(INVALID, "%s", wrong);
  if (x->count == 0) return RLX_OK;
  int64_t rows = s.outer * s.inner;
  RLX_TRY(launch_fits(rows > s.count ? rows : s.count));
  rlx_gpu_set_int(d, "rows", rows);
  rlx_gpu_set_int(d, "count", s.count);
  rlx_gpu_set_int(d, "inner", s.inner);
  if (s.inner > 1) return launch_items(d, COLUMNS, rows, 256);
  if (s.count <= SHORT_MOST) return launch_items(d, SHORT, rows, 8);
  return launch_items(d, s.count <= LONG_MOST ? LONG : ANY, rows, 1);
}

static const char *why_not(const rlx_node *n) { return launch_needs_real(n, 0); }

static const rlx_pair in_place[] = {{0, 0}};
#define KERNEL(id, op_name)                                                                                            \
  static const rlx_gpu_kernel id = {.struct_size = sizeof(rlx_gpu_kernel),                                             \
                                    .head = {.op = op_name,                                                            \
                                             .version_min = 13,                                                        \
                                             .version_max = INT32_MAX,                                                 \
                                             .name = "rows",                                                           \
                                             .in_place = in_place,                                                     \
                                             .in_place_count = 1,                                                      \
                                             .why_not = why_not},                                                      \
                                    .functions = id##_functions,                                                       \
                                    .encode = encode}
KERNEL(softmax, "onnx.Softmax");
KERNEL(log_softmax, "onnx.LogSoftmax");

static const rlx_gpu_kernel *const kernels[] = {&softmax, &log_softmax, NULL};
const rlx_module gpu_softmax = {.gpu_kernels = kernels};
