/* gather.c — Gather, GatherElements and GatherND on GPUs. An index out of range gives zeros: a kernel cannot fail. */
#include <string.h>

#include "backend/gpu/kernels/_launch.h"
#include "ir/shape.h"

enum { MAX_RANK = 8 };

/* Attributes of the three, as their op records decode them. */
typedef struct gather_params {
  uint64_t given;
  int64_t axis; /* GatherND: batch_dims */
} gather_params;

/* clang-format off */
/* x: outer × extent × inner; y: outer × count × inner. */
static const char rows_body[] = RLX_GPU_TEXT(
  for (u32 i = GLOBAL_ID; i < n; i += GLOBAL_SIZE) {
    u32 q = i / inner;
    u32 column = i - q * inner;
    u32 row = q / count;
    i64 at = i64(indices[q - row * count]);
    at = at < i64(0) ? at + i64(extent) : at;
    bool inside = at >= i64(0) && at < i64(extent);
    y_t v = y_t(0);
    if (inside) v = x[(i64(row) * i64(extent) + at) * i64(inner) + i64(column)];
    y[i] = v;
  }
);
/* The index stands for the place on one axis: dims are those of indices, steps those of x. */
static const char elements_body[] = RLX_GPU_TEXT(
  for (u32 i = GLOBAL_ID; i < n; i += GLOBAL_SIZE) {
    i64 from = i64(0);
    u32 rest = i;
    for (u32 d = rank; d > 0u; d--) {
      u32 next = rest / dims[d - 1u];
      if (d - 1u != axis) from = from + i64(rest - next * dims[d - 1u]) * step[d - 1u];
      rest = next;
    }
    i64 at = i64(indices[i]);
    at = at < i64(0) ? at + i64(extent) : at;
    bool inside = at >= i64(0) && at < i64(extent);
    y_t v = y_t(0);
    if (inside) v = x[from + at * step[axis]];
    y[i] = v;
  }
);
/* Tuples of `rank` indices choose blocks of `inner` elements; `count` tuples a batch. */
static const char tuples_body[] = RLX_GPU_TEXT(
  for (u32 i = GLOBAL_ID; i < n; i += GLOBAL_SIZE) {
    u32 tuple = i / inner;
    i64 from = i64(tuple / count) * batch_step + i64(i - tuple * inner);
    bool inside = true;
    for (u32 d = 0u; d < rank; d++) {
      i64 at = i64(indices[i64(tuple) * i64(rank) + i64(d)]);
      at = at < i64(0) ? at + i64(dims[d]) : at;
      inside = inside && at >= i64(0) && at < i64(dims[d]);
      from = from + at * step[d];
    }
    y_t v = y_t(0);
    if (inside) v = x[from];
    y[i] = v;
  }
);
/* clang-format on */

#define OPERANDS ARG_IN_BITS("x", 0), ARG_IN("indices", 1), ARG_OUT_BITS("y", 0), ARG_SCALAR("n", "u32")
static const rlx_gpu_arg rows_args[] = {
    OPERANDS, ARG_SCALAR("extent", "u32"), ARG_SCALAR("inner", "u32"), ARG_SCALAR("count", "u32"), {0}};
static const rlx_gpu_arg elements_args[] = {OPERANDS,
                                            ARG_SCALAR("extent", "u32"),
                                            ARG_SCALAR("rank", "u32"),
                                            ARG_SCALAR("axis", "u32"),
                                            ARG_LIST("dims", "u32", MAX_RANK),
                                            ARG_LIST("step", "i64", MAX_RANK),
                                            {0}};
static const rlx_gpu_arg tuples_args[] = {OPERANDS,
                                          ARG_SCALAR("inner", "u32"),
                                          ARG_SCALAR("count", "u32"),
                                          ARG_SCALAR("rank", "u32"),
                                          ARG_SCALAR("batch_step", "i64"),
                                          ARG_LIST("dims", "u32", MAX_RANK),
                                          ARG_LIST("step", "i64", MAX_RANK),
                                          {0}};
static const rlx_gpu_function rows_functions[] = {{.name = "gather_rows", .args = rows_args, .body = rows_body}, {0}};
static const rlx_gpu_function elements_functions[] = {
    {.name = "gather_elements", .args = elements_args, .body = elements_body}, {0}};
static const rlx_gpu_function tuples_functions[] = {{.name = "gather_tuples", .args = tuples_args, .body = tuples_body},
                                                    {0}};

static rlx_status launch(rlx_gpu_dispatch *d) {
  const rlx_operand *y = rlx_gpu_output(d, 0);
  if (y->count == 0) return RLX_OK;
  RLX_TRY(launch_fits(y->count));
  RLX_TRY(launch_fits(rlx_gpu_input(d, 1)->count));
  rlx_gpu_set_int(d, "n", y->count);
  return launch_items(d, 0, y->count, 256);
}

static int64_t product(const int64_t *dims, int from, int to) {
  int64_t p = 1;
  for (int i = from; i < to; i++) p *= dims[i];
  return p;
}

static rlx_status encode_rows(rlx_gpu_dispatch *d) {
  const gather_params *p = rlx_gpu_params(d);
  const rlx_operand *x = rlx_gpu_input(d, 0);
  int axis = axis_normalise(p->axis, x->rank);
  rlx_gpu_set_int(d, "extent", x->dims[axis]);
  rlx_gpu_set_int(d, "inner", product(x->dims, axis + 1, x->rank));
  rlx_gpu_set_int(d, "count", rlx_gpu_input(d, 1)->count);
  return launch(d);
}

static rlx_status encode_elements(rlx_gpu_dispatch *d) {
  const gather_params *p = rlx_gpu_params(d);
  const rlx_operand *x = rlx_gpu_input(d, 0), *indices = rlx_gpu_input(d, 1);
  if (x->rank > MAX_RANK || x->rank == 0) return RLX_FAIL(UNSUPPORTED, "rank %d", x->rank);
  int axis = axis_normalise(p->axis, x->rank);
  int64_t step[RLX_MAX_RANK];
  shape_strides(x->rank, x->dims, step);
  rlx_gpu_set_int(d, "extent", x->dims[axis]);
  rlx_gpu_set_int(d, "rank", x->rank);
  rlx_gpu_set_int(d, "axis", axis);
  rlx_gpu_set_ints(d, "dims", indices->dims, x->rank);
  rlx_gpu_set_ints(d, "step", step, x->rank);
  return launch(d);
}

static rlx_status encode_tuples(rlx_gpu_dispatch *d) {
  const gather_params *p = rlx_gpu_params(d);
  const rlx_operand *x = rlx_gpu_input(d, 0), *indices = rlx_gpu_input(d, 1);
  int batch = (int)p->axis, rank = indices->rank ? (int)indices->dims[indices->rank - 1] : 0;
  if (rank > MAX_RANK || rank + batch > x->rank) return RLX_FAIL(UNSUPPORTED, "tuples of %d indices", rank);
  int64_t step[RLX_MAX_RANK];
  shape_strides(x->rank, x->dims, step);
  rlx_gpu_set_int(d, "inner", product(x->dims, batch + rank, x->rank));
  rlx_gpu_set_int(d, "count", product(indices->dims, batch, indices->rank - 1));
  rlx_gpu_set_int(d, "rank", rank);
  rlx_gpu_set_int(d, "batch_step", product(x->dims, batch, x->rank));
  rlx_gpu_set_ints(d, "dims", x->dims + batch, rank);
  rlx_gpu_set_ints(d, "step", step + batch, rank);
  return launch(d);
}

static const char *why_not(const rlx_node *n) {
  const rlx_type *x = rlx_node_input_type(n, 0);
  return x->rank > MAX_RANK ? rlx_reason("more than %d dims", MAX_RANK) : launch_needs_words(n, 0);
}

#define GATHER_KERNEL(id, op_name, first)                                                                              \
  static const rlx_gpu_kernel id = {.struct_size = sizeof(rlx_gpu_kernel),                                             \
                                    .head = {.op = op_name,                                                            \
                                             .version_min = first,                                                     \
                                             .version_max = INT32_MAX,                                                 \
                                             .name = #id,                                                              \
                                             .why_not = why_not},                                                      \
                                    .functions = id##_functions,                                                       \
                                    .encode = encode_##id}
GATHER_KERNEL(rows, "onnx.Gather", 1);
GATHER_KERNEL(elements, "onnx.GatherElements", 11);
GATHER_KERNEL(tuples, "onnx.GatherND", 11);

static const rlx_gpu_kernel *const kernels[] = {&rows, &elements, &tuples, NULL};
const rlx_module gpu_gather = {.gpu_kernels = kernels};
