/* norm.c — layer, RMS, instance, group and (inference) batch normalisation on GPUs. */
#include <string.h>

#include "backend/gpu/kernels/_launch.h"
#include "ir/graph.h"
#include "ops/batchnorm.h"
#include "ops/groupnorm.h"
#include "ops/layernorm.h"

/* ---- rows: layer and RMS normalisation ---- */

/* clang-format off */
static const char layer_body[] = RLX_GPU_TEXT(
  for (u32 row = GROUP_ID; row < rows; row += GROUPS) {
    i64 at = i64(row) * i64(columns);
    f32 sum = 0.0f;
    for (u32 c = LOCAL_ID; c < columns; c += WG) sum = sum + x[at + i64(c)];
    f32 mean = CENTRE != 0 ? GROUP_SUM(sum) / f32(columns) : 0.0f;
    f32 square = 0.0f;
    for (u32 c = LOCAL_ID; c < columns; c += WG) {
      f32 v = x[at + i64(c)] - mean;
      square = square + v * v;
    }
    f32 inverse = 1.0f / SQRT(GROUP_SUM(square) / f32(columns) + epsilon);
    for (u32 c = LOCAL_ID; c < columns; c += WG) {
      f32 v = (x[at + i64(c)] - mean) * inverse * scale[c * scale_step];
      if (PRESENT(bias)) v = v + bias[c * bias_step];
      y[at + i64(c)] = v;
    }
    if (LOCAL_ID == 0u) {
      if (PRESENT(means)) means[row] = mean;
      if (PRESENT(inverses)) inverses[row] = inverse;
    }
  }
);

static const char group_body[] = RLX_GPU_TEXT(
  for (u32 row = GROUP_ID; row < rows; row += GROUPS) {
    i64 at = i64(row) * i64(columns);
    f32 sum = 0.0f;
    for (u32 c = LOCAL_ID; c < columns; c += WG) sum = sum + x[at + i64(c)];
    f32 mean = GROUP_SUM(sum) / f32(columns);
    f32 square = 0.0f;
    for (u32 c = LOCAL_ID; c < columns; c += WG) {
      f32 v = x[at + i64(c)] - mean;
      square = square + v * v;
    }
    f32 inverse = 1.0f / SQRT(GROUP_SUM(square) / f32(columns) + epsilon);
    u32 in_batch = row - row / groups * groups;
    for (u32 c = LOCAL_ID; c < columns; c += WG) {
      u32 entry = per_group != 0u ? in_batch : in_batch * members + c / inner;
      y[at + i64(c)] = (x[at + i64(c)] - mean) * inverse * scale[entry] + bias[entry];
    }
  }
);

static const char batch_body[] = RLX_GPU_TEXT(
  for (u32 i = GLOBAL_ID; i < n; i += GLOBAL_SIZE) {
    u32 q = i / inner;
    u32 c = q - q / channels * channels;
    f32 k = scale[c] / SQRT(variance[c] + epsilon);
    y[i] = (x[i] - mean[c]) * k + bias[c];
  }
);
/* clang-format on */

static const rlx_gpu_constant centred[] = {{"CENTRE", 1}, {0}}, plain[] = {{"CENTRE", 0}, {0}};
#define ROW_ARGS ARG_SCALAR("rows", "u32"), ARG_SCALAR("columns", "u32"), ARG_SCALAR("epsilon", "f32")
static const rlx_gpu_arg layer_args[] = {ARG_IN("x", 0),
                                         ARG_IN("scale", 1),
                                         ARG_IN("bias", 2),
                                         ARG_OUT("y", 0),
                                         ARG_OUT("means", 1),
                                         ARG_OUT("inverses", 2),
                                         ROW_ARGS,
                                         ARG_SCALAR("scale_step", "u32"),
                                         ARG_SCALAR("bias_step", "u32"),
                                         {0}};
static const rlx_gpu_arg group_args[] = {ARG_IN("x", 0),
                                         ARG_IN("scale", 1),
                                         ARG_IN("bias", 2),
                                         ARG_OUT("y", 0),
                                         ROW_ARGS,
                                         ARG_SCALAR("groups", "u32"),
                                         ARG_SCALAR("members", "u32"),
                                         ARG_SCALAR("inner", "u32"),
                                         ARG_SCALAR("per_group", "u32"),
                                         {0}};
static const rlx_gpu_arg batch_args[] = {ARG_IN("x", 0),
                                         ARG_IN("scale", 1),
                                         ARG_IN("bias", 2),
                                         ARG_IN("mean", 3),
                                         ARG_IN("variance", 4),
                                         ARG_OUT("y", 0),
                                         ARG_SCALAR("n", "u32"),
                                         ARG_SCALAR("inner", "u32"),
                                         ARG_SCALAR("channels", "u32"),
                                         ARG_SCALAR("epsilon", "f32"),
                                         {0}};
static const rlx_gpu_function layer_functions[] = {
    {.name = "layer_norm", .args = layer_args, .constants = centred, .body = layer_body}, {0}};
static const rlx_gpu_function rms_functions[] = {
    {.name = "rms_norm", .args = layer_args, .constants = plain, .body = layer_body}, {0}};
static const rlx_gpu_function group_functions[] = {{.name = "group_norm", .args = group_args, .body = group_body}, {0}};
static const rlx_gpu_function batch_functions[] = {{.name = "batch_norm", .args = batch_args, .body = batch_body}, {0}};

static rlx_status launch_rows(rlx_gpu_dispatch *d, int64_t rows, int64_t columns, double epsilon) {
  RLX_TRY(launch_fits(rows > columns ? rows : columns));
  rlx_gpu_set_int(d, "rows", rows);
  rlx_gpu_set_int(d, "columns", columns);
  rlx_gpu_set_float(d, "epsilon", epsilon);
  return launch_items(d, 0, rows, 1);
}

static rlx_status encode_layer(rlx_gpu_dispatch *d) {
  const rlx_operand *x = rlx_gpu_input(d, 0), *scale = rlx_gpu_input(d, 1), *bias = rlx_gpu_input(d, 2);
  const layernorm_params *p = rlx_gpu_params(d);
  layernorm_shape s;
  const char *wrong = layernorm_resolve(p, x->rank, x->dims, &s);
  if (wrong) return RLX_FAIL(INVALID, "%s", wrong);
  if (x->count == 0) return RLX_OK;
  rlx_gpu_set_int(d, "scale_step", scale->count == s.columns);
  rlx_gpu_set_int(d, "bias_step", bias && bias->count == s.columns);
  return launch_rows(d, s.rows, s.columns, (double)p->epsilon);
}

static rlx_status encode_groups(rlx_gpu_dispatch *d) {
  const rlx_operand *x = rlx_gpu_input(d, 0), *scale = rlx_gpu_input(d, 1);
  const groupnorm_params *p = rlx_gpu_params(d);
  bool per_group = p->num_groups && rlx_gpu_node(d)->op->op.version == 18;
  groupnorm_shape s;
  const char *wrong = groupnorm_resolve(x->rank, x->dims, p->num_groups, scale->count, per_group, &s);
  if (wrong) return RLX_FAIL(INVALID, "%s", wrong);
  if (x->count == 0) return RLX_OK;
  int64_t members = s.channels / s.groups;
  rlx_gpu_set_int(d, "groups", s.groups);
  rlx_gpu_set_int(d, "members", members);
  rlx_gpu_set_int(d, "inner", s.inner);
  rlx_gpu_set_int(d, "per_group", per_group);
  return launch_rows(d, s.batch * s.groups, members * s.inner, (double)p->epsilon);
}

static rlx_status encode_batch(rlx_gpu_dispatch *d) {
  const rlx_operand *x = rlx_gpu_input(d, 0);
  const batchnorm_params *p = rlx_gpu_params(d);
  int64_t inner = 1;
  for (int i = 2; i < x->rank; i++) inner *= x->dims[i];
  if (x->count == 0) return RLX_OK;
  RLX_TRY(launch_fits(x->count));
  rlx_gpu_set_int(d, "n", x->count);
  rlx_gpu_set_int(d, "inner", inner);
  rlx_gpu_set_int(d, "channels", x->rank > 1 ? x->dims[1] : 1);
  rlx_gpu_set_float(d, "epsilon", (double)p->epsilon);
  return launch_items(d, 0, x->count, 256);
}

static const char *reals(const rlx_node *n) {
  const char *wrong = NULL;
  for (int i = 0; i < rlx_node_input_count(n) && !wrong; i++) wrong = launch_needs_real(n, i);
  for (int i = 0; i < rlx_node_output_count(n) && !wrong; i++)
    if (rlx_node_output_type(n, i) && !launch_real(rlx_node_output_type(n, i)))
      wrong = "no kernel text for that output";
  return wrong;
}

/* Scales and biases are one number, or one for each column. */
static const char *scale_fits(const rlx_node *n, const rlx_type *x, const rlx_type *a) {
  if (!a || a->rank == 0) return NULL;
  int64_t count = 1, columns = 1;
  const layernorm_params *p = rlx_node_params(n);
  if (x->rank == RLX_UNKNOWN || a->rank == RLX_UNKNOWN) return rlx_depends_on_extents;
  int axis = (int)(p->axis < 0 ? p->axis + x->rank : p->axis);
  if (axis < 0 || axis >= x->rank) return "axis is outside the rank";
  for (int i = 0; i < a->rank; i++) count = count < 0 || a->dims[i] < 0 ? -1 : count * a->dims[i];
  for (int i = axis; i < x->rank; i++) columns = columns < 0 || x->dims[i] < 0 ? -1 : columns * x->dims[i];
  if (count < 0 || columns < 0) return rlx_depends_on_extents;
  bool aligned = a->rank <= x->rank - axis || count == columns;
  return count == 1 || (count == columns && aligned) ? NULL : "scale or bias is neither one number nor a row";
}

static const char *why_not_layer(const rlx_node *n) {
  const char *wrong = reals(n);
  for (int i = 1; i < 3 && !wrong; i++) wrong = scale_fits(n, rlx_node_input_type(n, 0), rlx_node_input_type(n, i));
  return wrong;
}

static const char *why_not_layer_bound(const rlx_bound *b) {
  const char *wrong = NULL;
  for (int i = 1; i < 3 && !wrong; i++)
    wrong = scale_fits(rlx_bound_node(b), rlx_bound_input(b, 0), rlx_bound_input(b, i));
  return wrong;
}

static const char *why_not_batch(const rlx_node *n) {
  const batchnorm_params *p = rlx_node_params(n);
  return p->training_mode ? "training mode is the CPU's" : reals(n);
}

static const rlx_pair in_place[] = {{0, 0}};
#define NORM_KERNEL(id, op_name, first, last, refuse, texts, encode_fn, ...)                                                \
  static const rlx_gpu_kernel id = {.struct_size = sizeof(rlx_gpu_kernel),                                             \
                                    .head = {.op = op_name,                                                            \
                                             .version_min = first,                                                     \
                                             .version_max = last,                                                      \
                                             .name = "norm",                                                           \
                                             .in_place = in_place,                                                     \
                                             .in_place_count = 1,                                                      \
                                             .why_not = refuse __VA_ARGS__},                                           \
                                    .functions = texts,                                                                \
                                    .encode = encode_fn}
NORM_KERNEL(layer, "onnx.LayerNormalization", 17, INT32_MAX, why_not_layer, layer_functions, encode_layer, ,
            .why_not_bound = why_not_layer_bound);
NORM_KERNEL(rms, "onnx.RMSNormalization", 23, INT32_MAX, why_not_layer, rms_functions, encode_layer, ,
            .why_not_bound = why_not_layer_bound);
NORM_KERNEL(instance, "onnx.InstanceNormalization", 1, INT32_MAX, reals, group_functions, encode_groups, );
NORM_KERNEL(group, "onnx.GroupNormalization", 21, INT32_MAX, reals, group_functions, encode_groups, );
NORM_KERNEL(group18, "onnx.GroupNormalization", 18, 18, reals, group_functions, encode_groups, );
NORM_KERNEL(batch, "onnx.BatchNormalization", 14, INT32_MAX, why_not_batch, batch_functions, encode_batch, );

static const rlx_gpu_kernel *const kernels[] = {&layer, &rms, &instance, &group, &group18, &batch, NULL};
const rlx_module gpu_norm = {.gpu_kernels = kernels};
