/* constant.c — Constant and ConstantOfShape. */
#include <stddef.h>
#include <string.h>

#include "ir/module.h"
#include "ops/_move.h"

/* ---- Constant ----------------------------------------------------------------------------- */

typedef struct constant_params {
  uint64_t given;
  rlx_tensor *value, *sparse_value;
  float value_float;
  rlx_floats value_floats;
  int64_t value_int;
  rlx_ints value_ints;
  rlx_string value_string;
  rlx_strings value_strings;
} constant_params;

/* A sparse value is made dense when a model is read. */
static const rlx_attr_def constant_attrs[] = {
    {.name = "value", .kind = RLX_ATTR_TENSOR, .offset = offsetof(constant_params, value)},
    {.name = "value_float", .kind = RLX_ATTR_FLOAT, .offset = offsetof(constant_params, value_float)},
    {.name = "value_floats", .kind = RLX_ATTR_FLOATS, .offset = offsetof(constant_params, value_floats)},
    {.name = "value_int", .kind = RLX_ATTR_INT, .offset = offsetof(constant_params, value_int)},
    {.name = "value_ints", .kind = RLX_ATTR_INTS, .offset = offsetof(constant_params, value_ints)},
    {.name = "value_string", .kind = RLX_ATTR_STRING, .offset = offsetof(constant_params, value_string)},
    {.name = "value_strings", .kind = RLX_ATTR_STRINGS, .offset = offsetof(constant_params, value_strings)},
    {.name = "sparse_value", .kind = RLX_ATTR_TENSOR, .offset = offsetof(constant_params, sparse_value)},
    {0}};
static const rlx_port constant_outputs[] = {{.name = "output"}, {0}};

/* The one attribute given, as type and data. */
typedef struct constant_value {
  rlx_type type;
  const void *data;
} constant_value;

static void vector_type(rlx_type *t, rlx_dtype dtype, int rank, int64_t count) {
  t->kind = RLX_KIND_TENSOR;
  t->dtype = dtype;
  t->rank = rank;
  t->dims[0] = count;
}

static rlx_status constant_find(const void *ctx, const constant_params *p, constant_value *v) {
  if (!p->given || (p->given & (p->given - 1)))
    return rlx_fail(ctx, RLX_INVALID, "exactly one of the value attributes must be given");
  if (p->given & (1u | 128u)) {
    const rlx_tensor *t = p->given & 1u ? p->value : p->sparse_value;
    rlx_tensor_type(t, &v->type);
    v->data = rlx_tensor_data(t);
  } else if (p->given & 2u) {
    vector_type(&v->type, RLX_FLOAT, 0, 1);
    v->data = &p->value_float;
  } else if (p->given & 4u) {
    vector_type(&v->type, RLX_FLOAT, 1, p->value_floats.count);
    v->data = p->value_floats.data;
  } else if (p->given & 8u) {
    vector_type(&v->type, RLX_INT64, 0, 1);
    v->data = &p->value_int;
  } else if (p->given & 16u) {
    vector_type(&v->type, RLX_INT64, 1, p->value_ints.count);
    v->data = p->value_ints.data;
  } else if (p->given & 32u) {
    vector_type(&v->type, RLX_STRING, 0, 1);
    v->data = &p->value_string;
  } else {
    vector_type(&v->type, RLX_STRING, 1, p->value_strings.count);
    v->data = p->value_strings.data;
  }
  return RLX_OK;
}

static rlx_status constant_infer(rlx_infer *ctx) {
  constant_value v = {0};
  rlx_status status = constant_find(ctx, rlx_infer_params(ctx), &v);
  if (status != RLX_OK) return status;
  *rlx_infer_output(ctx, 0) = v.type;
  return RLX_OK;
}

static rlx_status constant_eval(rlx_ctx *ctx) {
  constant_value v = {0};
  rlx_status status = constant_find(ctx, ctx->params, &v);
  if (status != RLX_OK) return status;
  move_bytes(ctx, ctx->outputs[0].data, v.data, ctx->outputs[0].bytes);
  return RLX_OK;
}

static const rlx_op constant = {
    .struct_size = sizeof(rlx_op),
    .name = "onnx.Constant",
    .version = 1,
    .doc = "A value held by an attribute.",
    .samples = (const char *const[]){"{value_float = 1.5}", "{value_ints = [1, 2, 3]}", NULL},
    .outputs = constant_outputs,
    .attrs = constant_attrs,
    .params_size = sizeof(constant_params),
    .traits = RLX_PURE,
    .infer = constant_infer,
    .eval = constant_eval,
};

/* ---- ConstantOfShape ---------------------------------------------------------------------- */

typedef struct of_shape_params {
  uint64_t given;
  rlx_tensor *value;
} of_shape_params;

static const rlx_attr_def of_shape_attrs[] = {
    {.name = "value", .kind = RLX_ATTR_TENSOR, .offset = offsetof(of_shape_params, value)}, {0}};
static const rlx_port of_shape_inputs[] = {{.name = "input", .dtypes = MOVE_INT64, .flags = RLX_HOST}, {0}};
static const rlx_port of_shape_outputs[] = {{.name = "output"}, {0}};

static rlx_status of_shape_infer(rlx_infer *ctx) {
  const of_shape_params *p = rlx_infer_params(ctx);
  if (p->value && rlx_tensor_count(p->value) != 1)
    return rlx_fail(ctx, RLX_INVALID, "value has %lld elements, not one", (long long)rlx_tensor_count(p->value));
  rlx_infer_output(ctx, 0)->dtype = p->value ? rlx_tensor_dtype(p->value) : RLX_FLOAT;
  int_list shape;
  rlx_status status = infer_ints(ctx, 0, &shape);
  if (status != RLX_OK) return status;
  int64_t rank = shape.count >= 0 ? shape.count : infer_length(ctx, 0);
  if (rank == RLX_UNKNOWN) return RLX_OK;
  if (rank > RLX_MAX_RANK) return rlx_fail(ctx, RLX_UNSUPPORTED, "rank %lld is over %d", (long long)rank, RLX_MAX_RANK);
  if (shape.count < 0) {
    infer_unknown(ctx, 0, (int)rank);
    return RLX_OK;
  }
  for (int d = 0; d < shape.count; d++)
    if (shape.values[d] < 0)
      return rlx_fail(ctx, RLX_INVALID, "shape has the negative extent %lld", (long long)shape.values[d]);
  rlx_infer_set(ctx, 0, shape.count, shape.values);
  return RLX_OK;
}

static rlx_status of_shape_eval(rlx_ctx *ctx) {
  const of_shape_params *p = ctx->params;
  rlx_operand *y = &ctx->outputs[0];
  size_t size = dtype_size(y->dtype);
  static const float zero;
  const void *value = p->value ? rlx_tensor_data(p->value) : &zero;
  if (size) {
    move_fill(y->data, value, y->count, size);
    return RLX_OK;
  }
  int bits = rlx_dtype_bits(y->dtype);
  memset(y->data, 0, (size_t)y->bytes);
  for (int64_t i = 0; i < y->count; i++) bits_store(bits, y->data, i, bits_load(bits, value, 0));
  return RLX_OK;
}

static const rlx_op constant_of_shape = {
    .struct_size = sizeof(rlx_op),
    .name = "onnx.ConstantOfShape",
    .version = 9,
    .samples = (const char *const[]){"int64[2] = {2, 3}", "int64[3] = {2, 0, 3} {value = int64[1] {7}}", NULL},
    .doc = "A tensor of the given shape, every element the same (float 0 by default).",
    .inputs = of_shape_inputs,
    .outputs = of_shape_outputs,
    .attrs = of_shape_attrs,
    .params_size = sizeof(of_shape_params),
    .traits = RLX_PURE,
    .infer = of_shape_infer,
    .eval = of_shape_eval,
};

static const rlx_op *const ops[] = {&constant, &constant_of_shape, NULL};
const rlx_module ops_constant = {.ops = ops};
