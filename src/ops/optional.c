/* optional.c — Optional, OptionalHasElement and OptionalGetElement. */
#include <stddef.h>

#include "ops/_value.h"

#define ANY RLX_ANY_KIND

typedef struct optional_params {
  uint64_t given;
  rlx_type type;
} optional_params;

static rlx_status optional_infer(rlx_infer *ctx) {
  const optional_params *p = rlx_infer_params(ctx);
  const rlx_type *t = rlx_infer_input(ctx, 0);
  if (!t && !p->given) return rlx_fail(ctx, RLX_INVALID, "neither an element nor the attribute type");
  if (!t) t = &p->type;
  rlx_status status = rlx_type_hold(RLX_KIND_OPTIONAL, RLX_UNDEFINED, t, rlx_infer_output(ctx, 0));
  return status == RLX_OK ? RLX_OK : rlx_fail(ctx, status, "%s", rlx_error_message());
}

static rlx_status optional_eval(rlx_ctx *ctx) {
  const optional_params *p = ctx->params;
  rlx_type held = p->type, type;
  rlx_tensor *item = NULL, *made;
  if (ctx->input_count > 0 && ctx->inputs[0].data) {
    item = value_take(ctx, &ctx->inputs[0]);
    if (!item) return RLX_OUT_OF_MEMORY;
    value_type(&ctx->inputs[0], &held);
  }
  rlx_status status = rlx_type_hold(RLX_KIND_OPTIONAL, RLX_UNDEFINED, &held, &type);
  if (status == RLX_OK) status = rlx_value_create(&type, &item, item != NULL, &made);
  rlx_tensor_destroy(item);
  return status == RLX_OK ? rlx_output_value(ctx, 0, made) : value_failed(ctx, status);
}

static const rlx_op optional = {
    .struct_size = sizeof(rlx_op),
    .name = "onnx.Optional",
    .version = 15,
    .samples = (const char *const[]){"float[2,3]", "seq(int64[2])", NULL},
    .doc = "An optional that holds the input, or nothing of the type given.",
    .inputs = (const rlx_port[]){{.name = "input", .flags = ANY | RLX_OPTIONAL}, {0}},
    .outputs = (const rlx_port[]){{.name = "output", .flags = ANY}, {0}},
    .attrs =
        (const rlx_attr_def[]){{.name = "type", .kind = RLX_ATTR_TYPE, .offset = offsetof(optional_params, type)}, {0}},
    .params_size = sizeof(optional_params),
    .traits = RLX_PURE,
    .no_derivative = "sequences and optionals have no gradients, tensors only",
    .infer = optional_infer,
    .eval = optional_eval,
};

static rlx_status has_infer(rlx_infer *ctx) {
  rlx_infer_output(ctx, 0)->dtype = RLX_BOOL;
  rlx_infer_set(ctx, 0, 0, NULL);
  return RLX_OK;
}

/* A tensor or a sequence is an element. */
static rlx_status has_eval(rlx_ctx *ctx) {
  const rlx_tensor *t = rlx_input_value(ctx, 0);
  bool given = ctx->input_count > 0 && ctx->inputs[0].data;
  *(uint8_t *)ctx->outputs[0].data = given && (!t || t->kind != RLX_KIND_OPTIONAL || t->count > 0);
  return RLX_OK;
}

static const rlx_op has_element = {
    .struct_size = sizeof(rlx_op),
    .name = "onnx.OptionalHasElement",
    .version = 15,
    .samples = (const char *const[]){"optional(float[2,3])", "float[2]", NULL},
    .doc = "Whether an optional holds something.",
    .inputs = (const rlx_port[]){{.name = "input", .flags = ANY | RLX_OPTIONAL}, {0}},
    .outputs = (const rlx_port[]){{.name = "output", .dtypes = RLX_SET(RLX_BOOL)}, {0}},
    .traits = RLX_PURE,
    .infer = has_infer,
    .eval = has_eval,
};

static rlx_status get_infer(rlx_infer *ctx) {
  const rlx_type *t = rlx_infer_input(ctx, 0);
  if (t->kind != RLX_KIND_OPTIONAL) {
    rlx_infer_like(ctx, 0, 0);
    return RLX_OK;
  }
  rlx_type held;
  value_infer_held(ctx, 0, &held);
  type_take_kind(rlx_infer_output(ctx, 0), &held);
  return RLX_OK;
}

static rlx_status get_eval(rlx_ctx *ctx) {
  rlx_tensor *t = rlx_input_value(ctx, 0);
  const rlx_operand *x = &ctx->inputs[0];
  if (!t) {
    void *to = rlx_output_shape(ctx, 0, x->rank, x->dims);
    return to ? value_copy(ctx, x->dtype, to, x->data, x->count) : RLX_KERNEL;
  }
  if (t->kind == RLX_KIND_OPTIONAL) {
    if (!t->count) return rlx_fail(ctx, RLX_INVALID, "the optional is empty");
    t = t->items[0];
  }
  return value_give(ctx, 0, t);
}

static const rlx_op get_element = {
    .struct_size = sizeof(rlx_op),
    .name = "onnx.OptionalGetElement",
    .version = 15,
    .samples = (const char *const[]){"optional(float[2,3])", "float[2]", NULL},
    .doc = "What an optional holds. Empty ones are an error.",
    .inputs = (const rlx_port[]){{.name = "input", .flags = ANY}, {0}},
    .outputs = (const rlx_port[]){{.name = "output", .flags = ANY}, {0}},
    .traits = RLX_PURE,
    .no_derivative = "sequences and optionals have no gradients, tensors only",
    .infer = get_infer,
    .eval = get_eval,
};

const rlx_module ops_optional = {.ops = (const rlx_op *const[]){&optional, &has_element, &get_element, NULL}};
