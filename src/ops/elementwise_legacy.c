/* elementwise_legacy.c — versions of elementwise ops before opset 7 (Clip: 11), lowered to today's. */
#include <string.h>

#include "ir/dtype.h"
#include "ir/module.h"
#include "ir/shape.h"

typedef struct legacy_params {
  uint64_t given;
  int64_t broadcast, axis;
  float a, b;
  rlx_ints consumed;
} legacy_params;

enum { GIVEN_FIRST = 1, GIVEN_SECOND = 2 };

/* The result has the shape of the first input. */
static rlx_status infer_first(rlx_infer *ctx) {
  const rlx_type *first = rlx_infer_input(ctx, 0);
  if (first->rank != RLX_UNKNOWN) rlx_infer_set(ctx, 0, first->rank, first->dims);
  return RLX_OK;
}

static rlx_status infer_test(rlx_infer *ctx) {
  rlx_infer_output(ctx, 0)->dtype = RLX_BOOL;
  return infer_first(ctx);
}

/* v with `count` dims of 1 appended. */
static rlx_value *append_dims(rlx_graph *g, rlx_value *v, int count) {
  int64_t axes[RLX_MAX_RANK], dims = count;
  for (int i = 0; i < count; i++) axes[i] = rlx_value_type(v)->rank + i;
  rlx_tensor *t;
  if (rlx_tensor_create(RLX_INT64, 1, &dims, &t) != RLX_OK) {
    rlx_graph_fail(g, RLX_OUT_OF_MEMORY, "no memory for a constant");
    return NULL;
  }
  memcpy(rlx_tensor_data(t), axes, sizeof(int64_t) * (size_t)count);
  rlx_value *constant = rlx_graph_constant(g, NULL, t);
  rlx_tensor_destroy(t);
  return rlx_graph_op(g, "onnx.Unsqueeze", NULL, 0, (rlx_value *[]){v, constant}, 2);
}

static rlx_status lower_binary(rlx_graph *g, const rlx_node *n, rlx_value **outputs) {
  const legacy_params *p = rlx_node_params(n);
  rlx_value *a = rlx_node_input(n, 0), *b = rlx_node_input(n, 1);
  if (p->broadcast && (p->given & GIVEN_SECOND)) {
    int rank_a = rlx_value_type(a)->rank, rank_b = rlx_value_type(b)->rank;
    if (rank_a == RLX_UNKNOWN || rank_b == RLX_UNKNOWN) {
      return rlx_graph_fail(g, RLX_UNSUPPORTED, "attribute axis = %lld with inputs of unknown rank",
                            (long long)p->axis);
    }
    int axis = axis_normalise(p->axis, rank_a), trailing = rank_a - axis - rank_b;
    if (axis < 0 || trailing < 0) {
      return rlx_graph_fail(g, RLX_INVALID, "attribute axis = %lld: input 1 of rank %d does not fit into rank %d",
                            (long long)p->axis, rank_b, rank_a);
    }
    if (trailing > 0) b = append_dims(g, b, trailing);
  }
  outputs[0] = rlx_graph_op(g, rlx_node_op(n), NULL, 0, (rlx_value *[]){a, b}, 2);
  return rlx_graph_status(g);
}

/* One slope a channel, of axis 1. */
static rlx_status lower_prelu(rlx_graph *g, const rlx_node *n, rlx_value **outputs) {
  rlx_value *x = rlx_node_input(n, 0), *slope = rlx_node_input(n, 1);
  int rank = rlx_value_type(x)->rank;
  if (rank == RLX_UNKNOWN) return rlx_graph_fail(g, RLX_UNSUPPORTED, "input 0 of unknown rank");
  if (rlx_value_type(slope)->rank == 1 && rank > 2) slope = append_dims(g, slope, rank - 2);
  outputs[0] = rlx_graph_op(g, "onnx.PRelu", NULL, 0, (rlx_value *[]){x, slope}, 2);
  return rlx_graph_status(g);
}

static rlx_status lower_selu(rlx_graph *g, const rlx_node *n, rlx_value **outputs) {
  const legacy_params *p = rlx_node_params(n);
  rlx_attr attrs[] = {RLX_ATTR_F("alpha", p->a), RLX_ATTR_F("gamma", p->b)};
  rlx_value *x = rlx_node_input(n, 0);
  outputs[0] = rlx_graph_op(g, "onnx.Selu", attrs, 2, &x, 1);
  return rlx_graph_status(g);
}

static rlx_value *bound(rlx_graph *g, rlx_dtype dtype, float value) {
  rlx_tensor *t;
  if (rlx_tensor_create(dtype, 0, NULL, &t) != RLX_OK) {
    rlx_graph_fail(g, RLX_OUT_OF_MEMORY, "no memory for a constant");
    return NULL;
  }
  dtype_store(dtype, rlx_tensor_data(t), 0, (double)value);
  rlx_value *v = rlx_graph_constant(g, NULL, t);
  rlx_tensor_destroy(t);
  return v;
}

static rlx_status lower_clip(rlx_graph *g, const rlx_node *n, rlx_value **outputs) {
  const legacy_params *p = rlx_node_params(n);
  rlx_value *in[3] = {rlx_node_input(n, 0), NULL, NULL};
  rlx_dtype dtype = rlx_value_type(in[0])->dtype;
  if (p->given & GIVEN_FIRST) in[1] = bound(g, dtype, p->a);
  if (p->given & GIVEN_SECOND) in[2] = bound(g, dtype, p->b);
  outputs[0] = rlx_graph_op(g, "onnx.Clip", NULL, 0, in, 3);
  return rlx_graph_status(g);
}

#define ATTR(attr, k, member, ...)                                                                                     \
  { .name = attr, .kind = RLX_ATTR_##k, .offset = offsetof(legacy_params, member), __VA_ARGS__ }
#define CONSUMED ATTR("consumed_inputs", INTS, consumed, 0)
#define T(port, set)                                                                                                   \
  { .name = port, .variable = "T", .dtypes = (set) }

static const rlx_attr_def broadcast_attrs[] = {
    ATTR("broadcast", INT, broadcast, 0), ATTR("axis", INT, axis, 0), CONSUMED, {0}};
static const rlx_attr_def compare_attrs[] = {ATTR("broadcast", INT, broadcast, 0), ATTR("axis", INT, axis, 0), {0}};
static const rlx_attr_def selu_attrs[] = {ATTR("alpha", FLOAT, a, .default_float = 1.6732f),
                                          ATTR("gamma", FLOAT, b, .default_float = 1.0507f),
                                          CONSUMED,
                                          {0}};
static const rlx_attr_def clip_attrs[] = {ATTR("min", FLOAT, a, 0), ATTR("max", FLOAT, b, 0), CONSUMED, {0}};
static const rlx_attr_def prelu_attrs[] = {CONSUMED, {0}};
static const rlx_port one_input[] = {T("X", RLX_SET_FLOATS), {0}};
static const rlx_port two_inputs[] = {T("A", RLX_SET_NUMBERS), T("B", RLX_SET_NUMBERS), {0}};
static const rlx_port comparable[] = {
    T("A", RLX_SET_NUMBERS | RLX_SET(RLX_BOOL)), T("B", RLX_SET_NUMBERS | RLX_SET(RLX_BOOL)), {0}};
static const rlx_port two_floats[] = {T("A", RLX_SET_FLOATS), T("B", RLX_SET_FLOATS), {0}};
#define two_floats_samples two_inputs_samples
static const rlx_port two_bools[] = {T("A", RLX_SET(RLX_BOOL)), T("B", RLX_SET(RLX_BOOL)), {0}};
static const char *const one_input_samples[] = {"float[2,3]", "double[5]", NULL};
static const char *const two_inputs_samples[] = {"float[2,3,4], float[2,3,4]", NULL};
static const char *const comparable_samples[] = {"float[2,3,4], float[2,3,4]", "bool[2,3], bool[3] {broadcast = 1}",
                                                 NULL};
static const char *const two_bools_samples[] = {"bool[2,3,4], bool[3,4] {broadcast = 1}", NULL};
static const rlx_port same_output[] = {T("C", 0), {0}};
static const rlx_port test_output[] = {{.name = "C", .dtypes = RLX_SET(RLX_BOOL)}, {0}};

/* X(op, lower, inputs, outputs, attributes, infer, doc) */
#define LEGACY                                                                                                         \
  X(Add, lower_binary, two_inputs, same_output, broadcast_attrs, infer_first, "A + B")                                 \
  X(Sub, lower_binary, two_inputs, same_output, broadcast_attrs, infer_first, "A - B")                                 \
  X(Mul, lower_binary, two_inputs, same_output, broadcast_attrs, infer_first, "A * B")                                 \
  X(Div, lower_binary, two_inputs, same_output, broadcast_attrs, infer_first, "A / B")                                 \
  X(Pow, lower_binary, two_floats, same_output, compare_attrs, infer_first, "A to the power B")                      \
  X(Equal, lower_binary, comparable, test_output, compare_attrs, infer_test, "A == B")                               \
  X(Less, lower_binary, two_inputs, test_output, compare_attrs, infer_test, "A < B")                                 \
  X(Greater, lower_binary, two_inputs, test_output, compare_attrs, infer_test, "A > B")                              \
  X(And, lower_binary, two_bools, test_output, compare_attrs, infer_test, "A and B")                                \
  X(Or, lower_binary, two_bools, test_output, compare_attrs, infer_test, "A or B")                                  \
  X(Xor, lower_binary, two_bools, test_output, compare_attrs, infer_test, "A xor B")                                \
  X(PRelu, lower_prelu, two_floats, same_output, prelu_attrs, infer_first, "PRelu, a slope a channel")                 \
  X(Selu, lower_selu, one_input, same_output, selu_attrs, infer_first, "Selu with rounded constants")                  \
  X(Clip, lower_clip, one_input, same_output, clip_attrs, infer_first, "Clip with bounds as attributes")

#define X(op_name, lower_function, in, out, attributes, infer_function, text)                                          \
  static const rlx_op op_##op_name = {                                                                                 \
      .struct_size = sizeof(rlx_op),                                                                                   \
      .name = "onnx." #op_name,                                                                                        \
      .version = 1,                                                                                                    \
      .doc = text " (an old version, lowered to the newest).",                                                         \
      .samples = in##_samples,                                                                                         \
      .inputs = in,                                                                                                    \
      .outputs = out,                                                                                                  \
      .attrs = attributes,                                                                                             \
      .params_size = sizeof(legacy_params),                                                                            \
      .traits = RLX_PURE,                                                                                              \
      .infer = infer_function,                                                                                         \
      .lower = lower_function,                                                                                         \
  };
LEGACY
#undef X

static const rlx_op *const ops[] = {
#define X(op_name, ...) &op_##op_name,
    LEGACY
#undef X
        NULL,
};
const rlx_module ops_elementwise_legacy = {.ops = ops};
