/* axis.c — ArgMax, ArgMin, CumSum, CumProd and TopK on GPUs: along one axis. */
#include "backend/gpu/kernels/_launch.h"
#include "base/memory.h"
#include "ir/shape.h"
#include "ops/_topk.h"

/* As the op records decode them. */
typedef struct arg_params {
  uint64_t given;
  int64_t axis, keepdims, select_last_index;
} arg_params;
typedef struct cumulative_params {
  uint64_t given;
  int64_t exclusive, reverse;
} cumulative_params;

/* clang-format off */
/* Greater first; a NaN before everything; equal ones by place. */
static const char order[] = RLX_GPU_TEXT(
  FN bool before(f32 a, u32 i, f32 b, u32 j, u32 last) {
    bool nan_a = ISNAN(a);
    bool nan_b = ISNAN(b);
    bool earlier = last != 0u ? i > j : i < j;
    if (nan_a || nan_b) return nan_a && (!nan_b || earlier);
    return a > b || (a == b && earlier);
  }
);

static const char arg_lines[] = RLX_GPU_TEXT(
  for (u32 line = GROUP_ID; line < lines; line += GROUPS) {
    i64 base = i64(line / inner) * i64(count) * i64(inner) + i64(line - line / inner * inner);
    f32 best = 0.0f;
    u32 at = 0xffffffffu;
    for (u32 c = LOCAL_ID; c < count; c += WG) {
      f32 v = x[base + i64(c) * i64(inner)];
      v = least != 0u ? NEG(v) : v;
      if (at == 0xffffffffu || before(v, c, best, at, last)) {
        best = v;
        at = c;
      }
    }
    values[LOCAL_ID] = best;
    places[LOCAL_ID] = at;
    BARRIER();
    for (u32 s = 128u; s > 0u; s = s >> 1u) {
      if (LOCAL_ID < s && places[LOCAL_ID + s] != 0xffffffffu) {
        if (places[LOCAL_ID] == 0xffffffffu ||
            before(values[LOCAL_ID + s], places[LOCAL_ID + s], values[LOCAL_ID], places[LOCAL_ID], last)) {
          values[LOCAL_ID] = values[LOCAL_ID + s];
          places[LOCAL_ID] = places[LOCAL_ID + s];
        }
      }
      BARRIER();
    }
    if (LOCAL_ID == 0u) y[line] = i64(places[0]);
    BARRIER();
  }
);

/* The k first of a line, one after the other: what comes right after the last one found. */
static const char top_lines[] = RLX_GPU_TEXT(
  for (u32 line = GROUP_ID; line < lines; line += GROUPS) {
    i64 base = i64(line / inner) * i64(count) * i64(inner) + i64(line - line / inner * inner);
    i64 to = i64(line / inner) * i64(k) * i64(inner) + i64(line - line / inner * inner);
    f32 bound = 0.0f;
    u32 bound_at = 0xffffffffu;
    for (u32 turn = 0u; turn < k; turn++) {
      f32 best = 0.0f;
      u32 at = 0xffffffffu;
      for (u32 c = LOCAL_ID; c < count; c += WG) {
        f32 v = x[base + i64(c) * i64(inner)];
        v = least != 0u ? NEG(v) : v;
        bool left = bound_at == 0xffffffffu || before(bound, bound_at, v, c, 0u);
        if (left && (at == 0xffffffffu || before(v, c, best, at, 0u))) {
          best = v;
          at = c;
        }
      }
      values[LOCAL_ID] = best;
      places[LOCAL_ID] = at;
      BARRIER();
      for (u32 s = 128u; s > 0u; s = s >> 1u) {
        if (LOCAL_ID < s && places[LOCAL_ID + s] != 0xffffffffu) {
          if (places[LOCAL_ID] == 0xffffffffu ||
              before(values[LOCAL_ID + s], places[LOCAL_ID + s], values[LOCAL_ID], places[LOCAL_ID], 0u)) {
            values[LOCAL_ID] = values[LOCAL_ID + s];
            places[LOCAL_ID] = places[LOCAL_ID + s];
          }
        }
        BARRIER();
      }
      bound = values[0];
      bound_at = places[0];
      BARRIER();
      if (LOCAL_ID == 0u) {
        if (PRESENT(y)) y[to + i64(turn) * i64(inner)] = x[base + i64(bound_at) * i64(inner)];
        if (PRESENT(indices)) indices[to + i64(turn) * i64(inner)] = i64(bound_at);
      }
    }
  }
);

/* A line by blocks of a workgroup: each thread its stretch, then what came before it. */
static const char scan_lines[] = RLX_GPU_TEXT(
  for (u32 line = GROUP_ID; line < lines; line += GROUPS) {
    i64 base = i64(line / inner) * i64(count) * i64(inner) + i64(line - line / inner * inner);
    i64 step = i64(inner);
    if (reverse != 0u) {
      base = base + i64(count - 1u) * step;
      step = -step;
    }
    u32 each = (count + WG - 1u) / WG;
    u32 begin = LOCAL_ID * each;
    u32 end = begin + each < count ? begin + each : count;
    x_t sum = x_t(FIRST);
    for (u32 c = begin; c < end; c++) sum = PRODUCT != 0 ? sum * x[base + i64(c) * step] : sum + x[base + i64(c) * step];
    values[LOCAL_ID] = f32(sum);
    BARRIER();
    x_t total = x_t(FIRST);
    for (u32 t = 0u; t < LOCAL_ID; t++) total = PRODUCT != 0 ? total * x_t(values[t]) : total + x_t(values[t]);
    for (u32 c = begin; c < end; c++) {
      x_t v = x[base + i64(c) * step];
      x_t next = PRODUCT != 0 ? total * v : total + v;
      y[base + i64(c) * step] = exclusive != 0u ? total : next;
      total = next;
    }
    BARRIER();
  }
);
/* clang-format on */

#define LINE_ARGS ARG_SCALAR("lines", "u32"), ARG_SCALAR("count", "u32"), ARG_SCALAR("inner", "u32")
static const rlx_gpu_arg arg_args[] = {
    ARG_IN("x", 0), ARG_OUT("y", 0), LINE_ARGS, ARG_SCALAR("least", "u32"), ARG_SCALAR("last", "u32"), {0}};
static const rlx_gpu_arg top_args[] = {ARG_IN("x", 0),
                                       ARG_OUT("y", 0),
                                       ARG_OUT("indices", 1),
                                       LINE_ARGS,
                                       ARG_SCALAR("least", "u32"),
                                       ARG_SCALAR("k", "u32"),
                                       {0}};
static const rlx_gpu_arg scan_args[] = {
    ARG_IN("x", 0), ARG_OUT("y", 0), LINE_ARGS, ARG_SCALAR("exclusive", "u32"), ARG_SCALAR("reverse", "u32"), {0}};
static const rlx_gpu_shared places[] = {{"values", "f32", 256}, {"places", "u32", 256}, {0}};
static const rlx_gpu_shared sums[] = {{"values", "f32", 256}, {0}};
static const rlx_gpu_constant sum[] = {{"PRODUCT", 0}, {"FIRST", 0}, {0}},
                              product[] = {{"PRODUCT", 1}, {"FIRST", 1}, {0}};
static const rlx_gpu_function arg_functions[] = {
    {.name = "arg_lines", .args = arg_args, .shared = places, .functions = order, .body = arg_lines}, {0}};
static const rlx_gpu_function top_functions[] = {
    {.name = "top_lines", .args = top_args, .shared = places, .functions = order, .body = top_lines}, {0}};
static const rlx_gpu_function sum_functions[] = {
    {.name = "sum_lines", .args = scan_args, .shared = sums, .constants = sum, .body = scan_lines}, {0}};
static const rlx_gpu_function product_functions[] = {
    {.name = "product_lines", .args = scan_args, .shared = sums, .constants = product, .body = scan_lines}, {0}};

static rlx_status launch_lines(rlx_gpu_dispatch *d, int64_t axis_given) {
  const rlx_operand *x = rlx_gpu_input(d, 0);
  int axis = axis_normalise(axis_given, x->rank);
  if (x->count == 0 || axis < 0 || axis >= x->rank) return x->count ? RLX_FAIL(INVALID, "axis %d", axis) : RLX_OK;
  int64_t inner = 1, count = x->dims[axis];
  for (int i = axis + 1; i < x->rank; i++) inner *= x->dims[i];
  RLX_TRY(launch_fits(x->count));
  rlx_gpu_set_int(d, "lines", x->count / count);
  rlx_gpu_set_int(d, "count", count);
  rlx_gpu_set_int(d, "inner", inner);
  return launch_items(d, 0, x->count / count, 1);
}

static rlx_status encode_arg(rlx_gpu_dispatch *d, bool least) {
  const arg_params *p = rlx_gpu_params(d);
  rlx_gpu_set_int(d, "least", least);
  rlx_gpu_set_int(d, "last", p->select_last_index != 0);
  return launch_lines(d, p->axis);
}
static rlx_status encode_max(rlx_gpu_dispatch *d) { return encode_arg(d, false); }
static rlx_status encode_min(rlx_gpu_dispatch *d) { return encode_arg(d, true); }

static rlx_status encode_top(rlx_gpu_dispatch *d) {
  const topk_params *p = rlx_gpu_params(d);
  const rlx_operand *y = rlx_gpu_output(d, rlx_gpu_output(d, 0) ? 0 : 1);
  if (!y || y->count == 0) return RLX_OK;
  rlx_gpu_set_int(d, "least", !p->largest);
  rlx_gpu_set_int(d, "k", y->dims[axis_normalise(p->axis, y->rank)]);
  return launch_lines(d, p->axis);
}

/* The axis as state: an input of the host. */
static rlx_status prepare_scan(rlx_bound *b, void **state) {
  const rlx_tensor *axis = rlx_bound_constant(b, 1);
  int64_t *kept = mem_alloc(sizeof *kept);
  if (!kept) return rlx_fail(b, RLX_OUT_OF_MEMORY, "no memory for %zu bytes", sizeof *kept);
  *kept = dtype_load_int(rlx_tensor_dtype(axis), rlx_tensor_data(axis), 0);
  *state = kept;
  return RLX_OK;
}

static rlx_status encode_scan(rlx_gpu_dispatch *d) {
  const cumulative_params *p = rlx_gpu_params(d);
  rlx_gpu_set_int(d, "exclusive", p->exclusive != 0);
  rlx_gpu_set_int(d, "reverse", p->reverse != 0);
  return launch_lines(d, *(const int64_t *)rlx_gpu_state(d));
}

static const char *why_not(const rlx_node *n) { return launch_needs_real(n, 0); }

static const char *why_not_scan(const rlx_node *n) {
  const char *wrong = launch_needs_real(n, 0);
  return !wrong && !rlx_node_constant(n, 1) ? rlx_depends_on_extents : wrong;
}
static const char *why_not_scan_bound(const rlx_bound *b) {
  return rlx_bound_constant(b, 1) ? NULL : "the axis is known only at the run";
}

/* One pass over a line an element found: few are wanted, and both results. */
static const char *why_not_top(const rlx_node *n) {
  const rlx_tensor *k = rlx_node_constant(n, 1);
  if (!launch_real(rlx_node_input_type(n, 0))) return launch_needs_real(n, 0);
  if (!k) return rlx_depends_on_extents;
  return dtype_load_int(RLX_INT64, rlx_tensor_data(k), 0) > 64 ? "more than 64 elements" : NULL;
}
static const char *why_not_top_bound(const rlx_bound *b) {
  const rlx_tensor *k = rlx_bound_constant(b, 1);
  if (!k) return "k is known only at the run";
  return dtype_load_int(RLX_INT64, rlx_tensor_data(k), 0) > 64 ? "more than 64 elements" : NULL;
}

#define AXIS_KERNEL(id, op_name, first, texts, refuse, ...)                                                            \
  static const rlx_gpu_kernel kernel_##id = {                                                                          \
      .struct_size = sizeof(rlx_gpu_kernel),                                                                           \
      .head = {.op = op_name, .version_min = first, .version_max = INT32_MAX, .name = "lines", .why_not = refuse,      \
               __VA_ARGS__},                                                                                           \
      .functions = texts,                                                                                              \
      .encode = encode_##id}
#define encode_product encode_scan
#define encode_sum encode_scan
#define SCAN .why_not_bound = why_not_scan_bound, .prepare = prepare_scan, .release = mem_free
AXIS_KERNEL(max, "onnx.ArgMax", 1, arg_functions, why_not, );
AXIS_KERNEL(min, "onnx.ArgMin", 1, arg_functions, why_not, );
AXIS_KERNEL(top, "onnx.TopK", 10, top_functions, why_not_top, .why_not_bound = why_not_top_bound);
AXIS_KERNEL(sum, "onnx.CumSum", 11, sum_functions, why_not_scan, SCAN);
AXIS_KERNEL(product, "onnx.CumProd", 26, product_functions, why_not_scan, SCAN);

static const rlx_gpu_kernel *const kernels[] = {&kernel_max, &kernel_min,     &kernel_top,
                                                &kernel_sum, &kernel_product, NULL};
const rlx_module gpu_axis = {.gpu_kernels = kernels};
