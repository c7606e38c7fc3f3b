/* pad.c — Pad on GPUs, in all four modes: a thread an element of the result. */
#include <string.h>

#include "backend/gpu/kernels/_launch.h"
#include "base/memory.h"
#include "ir/shape.h"

enum { MAX_RANK = 8, CONSTANT = 0, REFLECT = 1, EDGE = 2, WRAP = 3 };

typedef struct pad_params { /* as the op's record decodes it */
  uint64_t given;
  rlx_string mode;
} pad_params;

/* clang-format off */
static const char body[] = RLX_GPU_TEXT(
  for (u32 i = GLOBAL_ID; i < n; i += GLOBAL_SIZE) {
    u32 rest = i;
    i64 from = i64(0);
    bool inside = true;
    for (u32 d = rank; d > 0u; d--) {
      u32 next = rest / dims[d - 1u];
      i32 j = i32(rest - next * dims[d - 1u]) - before[d - 1u];
      rest = next;
      i32 l = low[d - 1u];
      i32 h = high[d - 1u];
      if (j < l || j >= h) {
        i32 size = h - l;
        i32 k = j - l;
        if (mode == 0u || size <= 0) {
          inside = false;
        } else if (mode == 2u) {
          j = k < 0 ? l : h - 1;
        } else {
          i32 period = mode == 3u ? size : size > 1 ? 2 * (size - 1) : 1;
          k = k - k / period * period;
          k = k < 0 ? k + period : k;
          j = l + (k < size ? k : period - k);
        }
      }
      from = from + i64(j) * step[d - 1u];
    }
    y_t v = y_t(0);
    if (PRESENT(value)) v = y_t(value[0]);
    if (inside) v = x[from];
    y[i] = v;
  }
);
/* clang-format on */

static const rlx_gpu_arg args[] = {ARG_IN_BITS("x", 0),
                                   ARG_IN_BITS("value", 2),
                                   ARG_OUT_BITS("y", 0),
                                   ARG_SCALAR("n", "u32"),
                                   ARG_SCALAR("rank", "u32"),
                                   ARG_SCALAR("mode", "u32"),
                                   ARG_LIST("dims", "u32", MAX_RANK),
                                   ARG_LIST("before", "i32", MAX_RANK),
                                   ARG_LIST("low", "i32", MAX_RANK),
                                   ARG_LIST("high", "i32", MAX_RANK),
                                   ARG_LIST("step", "i64", MAX_RANK),
                                   {0}};
static const rlx_gpu_function functions[] = {{.name = "pad", .args = args, .body = body}, {0}};

typedef struct plan {
  int64_t before[MAX_RANK], after[MAX_RANK];
  int mode;
} plan;

/* Values of a list of pads or axes. */
static int64_t entry(const rlx_tensor *t, int64_t i) {
  return dtype_load_int(rlx_tensor_dtype(t), rlx_tensor_data(t), i);
}

static int mode_of(const rlx_string *s) {
  static const char *const names[] = {"constant", "reflect", "edge", "wrap"};
  for (int i = 0; i < 4; i++)
    if (s->size == strlen(names[i]) && memcmp(s->data, names[i], s->size) == 0) return i;
  return -1;
}

static rlx_status prepare(rlx_bound *b, void **state) {
  const pad_params *p = rlx_bound_params(b);
  const rlx_tensor *pads = rlx_bound_constant(b, 1), *axes = rlx_bound_input(b, 3) ? rlx_bound_constant(b, 3) : NULL;
  int rank = rlx_bound_input(b, 0)->rank;
  int64_t count = axes ? rlx_tensor_count(axes) : rank;
  if (!pads || rlx_tensor_count(pads) != 2 * count) return rlx_fail(b, RLX_INVALID, "pads do not fit the axes");
  plan k = {.mode = mode_of(&p->mode)};
  for (int64_t i = 0; i < count; i++) {
    int axis = axes ? axis_normalise(entry(axes, i), rank) : (int)i;
    if (axis < 0 || axis >= rank || rank > MAX_RANK) return rlx_fail(b, RLX_INVALID, "axis %d of rank %d", axis, rank);
    k.before[axis] = entry(pads, i);
    k.after[axis] = entry(pads, count + i);
  }
  plan *kept = mem_alloc(sizeof *kept);
  if (!kept) return rlx_fail(b, RLX_OUT_OF_MEMORY, "no memory for %zu bytes", sizeof *kept);
  *kept = k;
  *state = kept;
  return RLX_OK;
}

static rlx_status encode(rlx_gpu_dispatch *d) {
  const plan *k = rlx_gpu_state(d);
  const rlx_operand *x = rlx_gpu_input(d, 0), *y = rlx_gpu_output(d, 0);
  int64_t step[RLX_MAX_RANK], low[MAX_RANK], high[MAX_RANK];
  if (y->count == 0) return RLX_OK;
  RLX_TRY(launch_fits(y->count));
  RLX_TRY(launch_fits(x->count));
  shape_strides(x->rank, x->dims, step);
  for (int i = 0; i < x->rank; i++) {
    low[i] = k->before[i] < 0 ? -k->before[i] : 0;
    high[i] = x->dims[i] + (k->after[i] < 0 ? k->after[i] : 0);
  }
  rlx_gpu_set_int(d, "n", y->count);
  rlx_gpu_set_int(d, "rank", x->rank);
  rlx_gpu_set_int(d, "mode", k->mode);
  rlx_gpu_set_ints(d, "dims", y->dims, x->rank);
  rlx_gpu_set_ints(d, "before", k->before, x->rank);
  rlx_gpu_set_ints(d, "low", low, x->rank);
  rlx_gpu_set_ints(d, "high", high, x->rank);
  rlx_gpu_set_ints(d, "step", step, x->rank);
  return launch_items(d, 0, y->count, 256);
}

static const char *why_not(const rlx_node *n) {
  const pad_params *p = rlx_node_params(n);
  const char *wrong = launch_needs_words(n, 0);
  if (wrong || rlx_node_input_type(n, 0)->rank > MAX_RANK) return wrong ? wrong : "too many dims";
  if (mode_of(&p->mode) < 0) return "the mode is not known";
  for (int i = 1; i < 4; i += 2)
    if (rlx_node_input_type(n, i) && !rlx_node_constant(n, i)) wrong = rlx_depends_on_extents;
  return wrong;
}

static const char *why_not_bound(const rlx_bound *b) {
  for (int i = 1; i < 4; i += 2)
    if (rlx_bound_input(b, i) && !rlx_bound_constant(b, i)) return "pads are known only at the run";
  return NULL;
}

static const rlx_gpu_kernel pad = {
    .struct_size = sizeof(rlx_gpu_kernel),
    .head = {.op = "onnx.Pad",
             .version_min = 11,
             .version_max = INT32_MAX,
             .name = "elements",
             .why_not = why_not,
             .why_not_bound = why_not_bound,
             .prepare = prepare,
             .release = mem_free},
    .functions = functions,
    .encode = encode,
};
static const rlx_gpu_kernel *const kernels[] = {&pad, NULL};
const rlx_module gpu_pad = {.gpu_kernels = kernels};
