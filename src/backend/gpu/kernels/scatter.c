/* scatter.c — ScatterElements and ScatterND without reduction on GPUs: a copy of the data, then the updates. An index
 * out of range writes nothing: a kernel cannot fail. */
#include <string.h>

#include "backend/gpu/kernels/_launch.h"
#include "ir/shape.h"

enum { MAX_RANK = 8 };

typedef struct elements_params { /* as the op records decode them */
  uint64_t given;
  int64_t axis;
  rlx_string reduction;
} elements_params;
typedef struct tuples_params {
  uint64_t given;
  rlx_string reduction;
} tuples_params;

/* clang-format off */
static const char copy_body[] = RLX_GPU_TEXT(
  for (u32 i = GLOBAL_ID; i < total; i += GLOBAL_SIZE) y[i] = x[i];
);
static const char elements_body[] = RLX_GPU_TEXT(
  for (u32 i = GLOBAL_ID; i < n; i += GLOBAL_SIZE) {
    i64 to = i64(0);
    u32 rest = i;
    for (u32 d = rank; d > 0u; d--) {
      u32 next = rest / dims[d - 1u];
      if (d - 1u != axis) to = to + i64(rest - next * dims[d - 1u]) * step[d - 1u];
      rest = next;
    }
    i64 at = i64(indices[i]);
    at = at < i64(0) ? at + i64(extent) : at;
    if (at >= i64(0) && at < i64(extent)) y[to + at * step[axis]] = updates[i];
  }
);
static const char tuples_body[] = RLX_GPU_TEXT(
  for (u32 i = GLOBAL_ID; i < n; i += GLOBAL_SIZE) {
    u32 tuple = i / inner;
    i64 to = i64(i - tuple * inner);
    bool inside = true;
    for (u32 d = 0u; d < rank; d++) {
      i64 at = i64(indices[i64(tuple) * i64(rank) + i64(d)]);
      at = at < i64(0) ? at + i64(dims[d]) : at;
      inside = inside && at >= i64(0) && at < i64(dims[d]);
      to = to + at * step[d];
    }
    if (inside) y[to] = updates[i];
  }
);
/* clang-format on */

static const rlx_gpu_arg copy_args[] = {ARG_IN_BITS("x", 0), ARG_OUT_BITS("y", 0), ARG_SCALAR("total", "u32"), {0}};
#define OPERANDS ARG_IN("indices", 1), ARG_IN_BITS("updates", 2), ARG_OUT_BITS("y", 0), ARG_SCALAR("n", "u32"), ARG_SCALAR("rank", "u32")
static const rlx_gpu_arg elements_args[] = {OPERANDS,
                                            ARG_SCALAR("extent", "u32"),
                                            ARG_SCALAR("axis", "u32"),
                                            ARG_LIST("dims", "u32", MAX_RANK),
                                            ARG_LIST("step", "i64", MAX_RANK),
                                            {0}};
static const rlx_gpu_arg tuples_args[] = {
    OPERANDS, ARG_SCALAR("inner", "u32"), ARG_LIST("dims", "u32", MAX_RANK), ARG_LIST("step", "i64", MAX_RANK), {0}};
enum { COPY, SCATTER };
static const rlx_gpu_function elements_functions[] = {
    [COPY] = {.name = "scatter_copy", .args = copy_args, .body = copy_body},
    [SCATTER] = {.name = "scatter_elements", .args = elements_args, .body = elements_body},
    {0}};
static const rlx_gpu_function tuples_functions[] = {
    [COPY] = {.name = "scatter_copy", .args = copy_args, .body = copy_body},
    [SCATTER] = {.name = "scatter_tuples", .args = tuples_args, .body = tuples_body},
    {0}};

/* The copy, and what both forms set; *more is false if there is nothing to scatter. */
static rlx_status begin(rlx_gpu_dispatch *d, bool *more) {
  const rlx_operand *x = rlx_gpu_input(d, 0), *updates = rlx_gpu_input(d, 2);
  *more = x->count > 0 && updates->count > 0;
  RLX_TRY(launch_fits(x->count));
  RLX_TRY(launch_fits(updates->count));
  rlx_gpu_set_int(d, "total", x->count);
  rlx_gpu_set_int(d, "n", updates->count);
  return x->count ? launch_items(d, COPY, x->count, 256) : RLX_OK;
}

static rlx_status encode_elements(rlx_gpu_dispatch *d) {
  const elements_params *p = rlx_gpu_params(d);
  const rlx_operand *x = rlx_gpu_input(d, 0), *updates = rlx_gpu_input(d, 2);
  bool more;
  RLX_TRY(begin(d, &more));
  if (!more) return RLX_OK;
  if (x->rank == 0 || x->rank > MAX_RANK) return RLX_FAIL(UNSUPPORTED, "rank %d", x->rank);
  int axis = axis_normalise(p->axis, x->rank);
  int64_t step[RLX_MAX_RANK];
  shape_strides(x->rank, x->dims, step);
  rlx_gpu_set_int(d, "rank", x->rank);
  rlx_gpu_set_int(d, "extent", x->dims[axis]);
  rlx_gpu_set_int(d, "axis", axis);
  rlx_gpu_set_ints(d, "dims", updates->dims, x->rank);
  rlx_gpu_set_ints(d, "step", step, x->rank);
  return launch_items(d, SCATTER, updates->count, 256);
}

static rlx_status encode_tuples(rlx_gpu_dispatch *d) {
  const rlx_operand *x = rlx_gpu_input(d, 0), *indices = rlx_gpu_input(d, 1), *updates = rlx_gpu_input(d, 2);
  bool more;
  RLX_TRY(begin(d, &more));
  if (!more) return RLX_OK;
  int rank = indices->rank ? (int)indices->dims[indices->rank - 1] : 0;
  if (rank > x->rank || rank > MAX_RANK) return RLX_FAIL(UNSUPPORTED, "tuples of %d indices", rank);
  int64_t step[RLX_MAX_RANK], inner = 1;
  shape_strides(x->rank, x->dims, step);
  for (int i = rank; i < x->rank; i++) inner *= x->dims[i];
  rlx_gpu_set_int(d, "rank", rank);
  rlx_gpu_set_int(d, "inner", inner);
  rlx_gpu_set_ints(d, "dims", x->dims, rank);
  rlx_gpu_set_ints(d, "step", step, rank);
  return launch_items(d, SCATTER, updates->count, 256);
}

static const char *refuse(const rlx_node *n, const rlx_string *reduction) {
  if (reduction->size && !(reduction->size == 4 && memcmp(reduction->data, "none", 4) == 0))
    return "updates that are combined need an order";
  const rlx_type *x = rlx_node_input_type(n, 0);
  return x->rank > MAX_RANK ? rlx_reason("more than %d dims", MAX_RANK) : launch_needs_words(n, 0);
}
static const char *why_not_elements(const rlx_node *n) {
  const elements_params *p = rlx_node_params(n);
  return refuse(n, &p->reduction);
}
static const char *why_not_tuples(const rlx_node *n) {
  const tuples_params *p = rlx_node_params(n);
  return refuse(n, &p->reduction);
}

static const rlx_pair in_place[] = {{0, 0}};
#define SCATTER_KERNEL(id, op_name)                                                                                    \
  static const rlx_gpu_kernel id = {.struct_size = sizeof(rlx_gpu_kernel),                                             \
                                    .head = {.op = op_name,                                                            \
                                             .version_min = 11,                                                        \
                                             .version_max = INT32_MAX,                                                 \
                                             .name = #id,                                                              \
                                             .in_place = in_place,                                                     \
                                             .in_place_count = 1,                                                      \
                                             .why_not = why_not_##id},                                                 \
                                    .functions = id##_functions,                                                       \
                                    .encode = encode_##id}
SCATTER_KERNEL(elements, "onnx.ScatterElements");
SCATTER_KERNEL(tuples, "onnx.ScatterND");

static const rlx_gpu_kernel *const kernels[] = {&elements, &tuples, NULL};
const rlx_module gpu_scatter = {.gpu_kernels = kernels};
