/* elementwise.c — the records of the scalar ops, one per row of elementwise.def. */
#include <string.h>

#include "base/status.h"
#include "ir/module.h"
#include "ir/shape.h"
#include "ops/_derivative.h"
#include "ops/_elementwise.h"

/* ---- what the rows share ---- */

static rlx_status infer_row(rlx_infer *ctx, ew_row row) {
  double ab[2];
  RLX_TRY(ew_numbers(ctx, row, rlx_infer_params(ctx), ab));
  switch (ew_rows[row].kind) {
    case EW_TEST: rlx_infer_output(ctx, 0)->dtype = RLX_BOOL; break;
    case EW_CLAMP: rlx_infer_like(ctx, 0, 0); return RLX_OK;
    default: break;
  }
  return broadcast_infer(ctx);
}

/* Equality of strings; every other type goes through the loops. */
static rlx_status equal_strings(rlx_ctx *ctx) {
  const rlx_operand *out = &ctx->outputs[0];
  const rlx_string *x = ctx->inputs[0].data, *y = ctx->inputs[1].data;
  broadcast_shape in[2] = {{ctx->inputs[0].rank, ctx->inputs[0].dims}, {ctx->inputs[1].rank, ctx->inputs[1].dims}};
  broadcast plan;
  broadcast_plan(&plan, (broadcast_shape){out->rank, out->dims}, in, 2);
  for (int64_t i = 0; i < plan.count; i++) {
    broadcast_cursor at;
    broadcast_seek(&plan, i, &at);
    const rlx_string *p = &x[at.offset[0] + (plan.still & 1 ? 0 : at.column)];
    const rlx_string *q = &y[at.offset[1] + (plan.still & 2 ? 0 : at.column)];
    ((uint8_t *)out->data)[i] = p->size == q->size && (p->size == 0 || memcmp(p->data, q->data, p->size) == 0);
  }
  return RLX_OK;
}

static rlx_status eval_row(rlx_ctx *ctx, ew_row row) {
  if (row == EW_Equal && ctx->inputs[0].dtype == RLX_STRING) return equal_strings(ctx);
  return ew_run(ctx, row, &ew_reference);
}

/* ---- derivatives ---- */

/* The terms of the formula for input k. In variadic rows x is that input. */
static rlx_status make_terms(rlx_graph *g, const rlx_node *n, ew_row row, int k, derivative_terms *t) {
  double ab[2] = {0, 0};
  RLX_TRY(ew_numbers(NULL, row, rlx_node_params(n), ab));
  bool variadic = ew_rows[row].arity == EW_ARITY_N;
  *t = (derivative_terms){.x = rlx_node_input(n, variadic ? k : 0),
                          .y = rlx_node_input(n, 1),
                          .z = rlx_node_input(n, 2),
                          .r = rlx_node_output(n, 0),
                          .a = ab[0],
                          .b = ab[1],
                          .n = rlx_node_input_count(n),
                          .dtype = rlx_node_output_type(n, 0)->dtype};
  if (ew_rows[row].kind == EW_POWER && rlx_value_type(t->y)->dtype != t->dtype) {
    t->y = rlx_graph_op(g, "onnx.CastLike", NULL, 0, (rlx_value *[]){t->y, t->x}, 2);
  }
  /* A bound that Clip leaves out compares as infinite. */
  if (t->y == NULL) t->y = t->x;
  if (t->z == NULL) t->z = t->x;
  return rlx_graph_status(g);
}

static const char *formula(ew_row row, int k) {
  return ew_rows[row].gradients[ew_rows[row].arity == EW_ARITY_N ? 0 : k];
}

/* Gradients flow to floats only. */
static bool differentiable(const rlx_value *v) {
  return v != NULL && (RLX_SET_FLOATS >> rlx_value_type(v)->dtype & 1) != 0;
}

static rlx_status vjp_row(rlx_graph *g, const rlx_node *n, rlx_value *const *output_grads, rlx_value **input_grads,
                          ew_row row) {
  if (output_grads[0] == NULL) return RLX_OK;
  for (int k = 0; k < rlx_node_input_count(n); k++) {
    rlx_value *input = rlx_node_input(n, k);
    const char *text = formula(row, k);
    if (!differentiable(input) || *text == 0) continue;
    derivative_terms terms;
    RLX_TRY(make_terms(g, n, row, k, &terms));
    terms.g = output_grads[0];
    input_grads[k] = derivative_unbroadcast(g, derivative_build(g, text, &terms), input);
  }
  return rlx_graph_status(g);
}

/* Formulas are linear in g: the tangent of the result is their sum with each input's tangent as g. */
static rlx_status jvp_row(rlx_graph *g, const rlx_node *n, rlx_value *const *tangents, rlx_value **out, ew_row row) {
  for (int k = 0; k < rlx_node_input_count(n); k++) {
    const char *text = formula(row, k);
    if (tangents[k] == NULL || *text == 0) continue;
    derivative_terms terms;
    RLX_TRY(make_terms(g, n, row, k, &terms));
    terms.g = tangents[k];
    rlx_value *part = derivative_build(g, text, &terms);
    out[0] = out[0] ? rlx_graph_op(g, "onnx.Add", NULL, 0, (rlx_value *[]){out[0], part}, 2) : part;
  }
  if (out[0] == NULL || rlx_node_input_count(n) == 1) return rlx_graph_status(g);
  /* A tangent smaller than the result: spread it. */
  rlx_value *result = rlx_node_output(n, 0);
  const rlx_type *a = rlx_value_type(out[0]), *b = rlx_value_type(result);
  if (!type_is_concrete(a) || !type_is_concrete(b) || !type_equal(a, b)) {
    rlx_value *shape = rlx_graph_op(g, "onnx.Shape", NULL, 0, &result, 1);
    out[0] = rlx_graph_op(g, "onnx.Expand", NULL, 0, (rlx_value *[]){out[0], shape}, 2);
  }
  return rlx_graph_status(g);
}

/* ---- ports by the `ports` column ---- */

#define T(port, set)                                                                                                   \
  { .name = port, .variable = "T", .dtypes = set }
#define OPTIONAL(port, set)                                                                                            \
  { .name = port, .variable = "T", .dtypes = set, .flags = RLX_OPTIONAL }
#define MANY(set)                                                                                                      \
  { .name = "data", .variable = "T", .dtypes = set, .flags = RLX_VARIADIC, .min_count = 1 }
#define IN_XY(set) T("X", set)
#define IN_IO(set) T("input", set)
#define IN_ABC(set) T("A", set), T("B", set)
#define IN_XYZ(set) T("X", set), T("Y", set)
#define IN_SLOPE(set) T("X", set), T("slope", set)
#define IN_CLIP(set) T("input", set), OPTIONAL("min", set), OPTIONAL("max", set)
#define IN_WHERE(set) {.name = "condition", .dtypes = RLX_SET(RLX_BOOL)}, T("X", set), T("Y", set)
#define IN_DATA_MAX(set) MANY(set)
#define IN_DATA_MIN(set) MANY(set)
#define IN_DATA_SUM(set) MANY(set)
#define IN_DATA_MEAN(set) MANY(set)
#define OUT_XY "Y"
#define OUT_IO "output"
#define OUT_ABC "C"
#define OUT_XYZ "Z"
#define OUT_SLOPE "Y"
#define OUT_CLIP "output"
#define OUT_WHERE "output"
#define OUT_DATA_MAX "max"
#define OUT_DATA_MIN "min"
#define OUT_DATA_SUM "sum"
#define OUT_DATA_MEAN "mean"

/* Exponents have a type of their own. */
static const rlx_port power_inputs[] = {T("X", EW_SET_POWERS), {.name = "Y", .dtypes = RLX_SET_NUMBERS}, {0}};
/* Rows for check-op, by the types column and arity. */
static const char *const shift_samples[] = {"uint8[2,3], uint8[3] {direction = \"LEFT\"}",
                                            "uint64[5], uint64[5] {direction = \"RIGHT\"}", NULL};
#define SAMPLE_FLOATS "float"
#define SAMPLE_FLOATS8 "float"
#define SAMPLE_NUMBERS "float"
#define SAMPLE_SIGNED "float"
#define SAMPLE_POWERS "float"
#define SAMPLE_WIDE "float"
#define SAMPLE_ANY "float"
#define SAMPLE_EQUAL "int32"
#define SAMPLE_INTEGERS "int32"
#define SAMPLE_BOOL "bool"
#define SAMPLES_1(t, first)                                                                                            \
  (const char *const[]) { t "[2,3,4]", t "[0,2]", t "[]", NULL }
#define SAMPLES_2(t, first)                                                                                            \
  (const char *const[]) { t "[2,3,4], " t "[3,1]", t "[2,3], " t "[2,3]", t "[], " t "[3]", NULL }
#define SAMPLES_N(t, first)                                                                                            \
  (const char *const[]) { t "[2,3], " t "[3], " t "[2,1]", t "[4]", NULL }
#define SAMPLES_3(t, first)                                                                                            \
  (const char *const[]) { first "[2,3], " t "[], " t "[]", NULL }
#define FIRST_PICK(t) "bool"
#define FIRST_CLAMP(t) t
#define FIRST_VALUE(t) t
#define FIRST_TEST(t) t
#define FIRST_DIVIDE(t) t
#define FIRST_MEAN(t) t
#define FIRST_POWER(t) t

/* ---- attributes ---- */

#define A_FLOAT(attr, value)                                                                                           \
  {.name = #attr, .kind = RLX_ATTR_FLOAT, .offset = offsetof(ew_params, a), .default_float = value},
#define B_FLOAT(attr, value)                                                                                           \
  {.name = #attr, .kind = RLX_ATTR_FLOAT, .offset = offsetof(ew_params, b), .default_float = value},
#define A_INT(attr, value)                                                                                             \
  {.name = #attr, .kind = RLX_ATTR_INT, .offset = offsetof(ew_params, ia), .default_int = value},
#define B_INT(attr, value)                                                                                             \
  {.name = #attr, .kind = RLX_ATTR_INT, .offset = offsetof(ew_params, ib), .default_int = value},
#define A_CHOICE(attr, first, second)                                                                                  \
  {.name = #attr, .kind = RLX_ATTR_STRING, .offset = offsetof(ew_params, choice), .default_string = first},
#define A_MUST_CHOOSE(attr, first, second)                                                                             \
  {.name = #attr, .kind = RLX_ATTR_STRING, .flags = RLX_REQUIRED, .offset = offsetof(ew_params, choice)},
#define STRIP(...) __VA_ARGS__
/* Opset 1 wrote consumed_inputs, which means nothing; ends the list in later versions. */
#define CONSUMED(version)                                                                                              \
  {.name = version == 1 ? "consumed_inputs" : NULL, .kind = RLX_ATTR_INTS, .offset = offsetof(ew_params, consumed)},

/* ---- the records ---- */

#define X(row, version_, arity, ports, types, kind, cost, attributes, expression, dx, dy, dz)                          \
  static rlx_status infer_##row(rlx_infer *ctx) { return infer_row(ctx, EW_##row); }                                   \
  static rlx_status eval_##row(rlx_ctx *ctx) { return eval_row(ctx, EW_##row); }                                       \
  static rlx_status vjp_##row(rlx_graph *g, const rlx_node *n, rlx_value *const *grads, rlx_value **out) {             \
    return vjp_row(g, n, grads, out, EW_##row);                                                                        \
  }                                                                                                                    \
  static rlx_status jvp_##row(rlx_graph *g, const rlx_node *n, rlx_value *const *tangents, rlx_value **out) {          \
    return jvp_row(g, n, tangents, out, EW_##row);                                                                     \
  }                                                                                                                    \
  static const rlx_port in_##row[] = {IN_##ports(EW_SET_##types), {0}};                                                \
  static const rlx_port out_##row[] = {{.name = OUT_##ports,                                                           \
                                        .variable = EW_##kind == EW_TEST ? NULL : "T",                                 \
                                        .dtypes = EW_##kind == EW_TEST ? RLX_SET(RLX_BOOL) : EW_SET_##types},          \
                                       {0}};                                                                           \
  static const rlx_attr_def attrs_##row[] = {STRIP attributes CONSUMED(version_){0}};                                  \
  static const rlx_op op_##row = {                                                                                     \
      .struct_size = sizeof(rlx_op),                                                                                   \
      .name = "onnx." #row,                                                                                            \
      .version = version_,                                                                                             \
      .doc = "ONNX " #row ", elementwise: " #expression,                                                               \
      .samples = EW_##row == EW_BitShift ? shift_samples                                                               \
                                         : SAMPLES_##arity(SAMPLE_##types, FIRST_##kind(SAMPLE_##types)),              \
      .inputs = EW_##kind == EW_POWER ? power_inputs : in_##row,                                                       \
      .outputs = out_##row,                                                                                            \
      .attrs = attrs_##row,                                                                                            \
      .params_size = sizeof(ew_params),                                                                                \
      .traits = RLX_PURE | RLX_ELEMENTWISE | (sizeof(dx dy dz) > 1 ? 0 : RLX_STOP_GRADIENT),                           \
      .no_derivative = sizeof(dx dy dz) > 1 ? NULL : "constant almost everywhere",                                     \
      .infer = infer_##row,                                                                                            \
      .vjp = vjp_##row,                                                                                                \
      .jvp = jvp_##row,                                                                                                \
      .eval = eval_##row,                                                                                              \
  };
#include "ops/elementwise.def"
#undef X

static const rlx_op *const ops[] = {
#define X(row, ...) &op_##row,
#include "ops/elementwise.def"
#undef X
    NULL,
};
const rlx_module ops_elementwise = {.ops = ops};
