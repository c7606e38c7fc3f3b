/* sequence.c — making, changing and reading sequences. */
#include <stddef.h>
#include <string.h>

#include "ops/_value.h"

#define ANY RLX_ANY_KIND

/* The position that input i gives, counted from the end if negative; `otherwise` if it is left out. */
static rlx_status read_position(rlx_ctx *ctx, int i, int64_t count, int64_t otherwise, int64_t *out) {
  *out = otherwise;
  if (i >= ctx->input_count || !ctx->inputs[i].data) return RLX_OK;
  const rlx_operand *o = &ctx->inputs[i];
  if (o->count != 1) return rlx_fail(ctx, RLX_INVALID, "the position has %lld elements", (long long)o->count);
  int64_t at = o->dtype == RLX_INT32 ? *(const int32_t *)o->data : *(const int64_t *)o->data;
  if (at < -count || at > otherwise)
    return rlx_fail(ctx, RLX_INVALID, "position %lld is outside a sequence of %lld", (long long)at, (long long)count);
  *out = at < 0 ? at + count : at;
  return RLX_OK;
}

/* ---- SequenceEmpty, SequenceConstruct ----------------------------------------------------- */

typedef struct empty_params {
  uint64_t given;
  int64_t dtype;
} empty_params;

static rlx_status empty_infer(rlx_infer *ctx) {
  const empty_params *p = rlx_infer_params(ctx);
  rlx_type held;
  type_unknown(&held, (rlx_dtype)p->dtype);
  return value_infer_sequence(ctx, 0, &held);
}

static rlx_status empty_eval(rlx_ctx *ctx) {
  const empty_params *p = ctx->params;
  rlx_type held;
  type_unknown(&held, (rlx_dtype)p->dtype);
  return value_give_sequence(ctx, 0, &held, NULL, 0);
}

static const rlx_op sequence_empty = {
    .struct_size = sizeof(rlx_op),
    .name = "onnx.SequenceEmpty",
    .version = 11,
    .samples = (const char *const[]){"{dtype = 7}", "", NULL},
    .doc = "A sequence without items.",
    .inputs = (const rlx_port[]){{0}},
    .outputs = (const rlx_port[]){{.name = "output", .flags = ANY}, {0}},
    .attrs = (const rlx_attr_def[]){{.name = "dtype",
                                     .kind = RLX_ATTR_INT,
                                     .flags = RLX_RANGED,
                                     .offset = offsetof(empty_params, dtype),
                                     .default_int = RLX_FLOAT,
                                     .min = 1,
                                     .max = RLX_DTYPE_COUNT - 1},
                                    {0}},
    .params_size = sizeof(empty_params),
    .traits = RLX_PURE,
    .infer = empty_infer,
    .eval = empty_eval,
};

static rlx_status construct_infer(rlx_infer *ctx) { return value_infer_sequence(ctx, 0, rlx_infer_input(ctx, 0)); }

static rlx_status construct_eval(rlx_ctx *ctx) {
  rlx_type held;
  value_type(&ctx->inputs[0], &held);
  rlx_tensor **items = mem_array((size_t)ctx->input_count, sizeof *items);
  int64_t made = 0;
  if (!items) return rlx_fail(ctx, RLX_OUT_OF_MEMORY, "out of memory");
  while (made < ctx->input_count && (items[made] = value_take(ctx, &ctx->inputs[made]))) made++;
  rlx_status status = RLX_OUT_OF_MEMORY;
  if (made == ctx->input_count)
    status = value_give_sequence(ctx, 0, &held, items, made);
  else
    for (int64_t i = 0; i < made; i++) rlx_tensor_destroy(items[i]);
  mem_free(items);
  return status;
}

static const rlx_op sequence_construct = {
    .struct_size = sizeof(rlx_op),
    .name = "onnx.SequenceConstruct",
    .version = 11,
    .samples = (const char *const[]){"float[2], float[3]", "int64[]", NULL},
    .doc = "The sequence of the inputs.",
    .inputs = (const rlx_port[]){{.name = "inputs", .variable = "T", .flags = ANY | RLX_VARIADIC, .min_count = 1}, {0}},
    .outputs = (const rlx_port[]){{.name = "output_sequence", .variable = "T", .flags = ANY}, {0}},
    .traits = RLX_PURE,
    .no_derivative = "sequences and optionals have no gradients, tensors only",
    .infer = construct_infer,
    .eval = construct_eval,
};

/* ---- SequenceInsert, SequenceErase -------------------------------------------------------- */

static rlx_status change_infer(rlx_infer *ctx) {
  RLX_TRY(value_expect_sequence(ctx, 0));
  rlx_type held;
  value_infer_held(ctx, 0, &held);
  return value_infer_sequence(ctx, 0, &held);
}

/* `from` with `fresh` put in at a position, or without the item there if NULL. */
static rlx_status give_changed(rlx_ctx *ctx, const rlx_tensor *from, int64_t at, rlx_tensor *fresh) {
  int64_t count = from->count + (fresh ? 1 : -1);
  rlx_tensor **items = mem_array((size_t)count, sizeof *items);
  if (!items) {
    rlx_tensor_destroy(fresh);
    return rlx_fail(ctx, RLX_OUT_OF_MEMORY, "out of memory");
  }
  for (int64_t i = 0, k = 0; i < count; i++) {
    if (fresh && i == at) {
      items[i] = fresh;
      continue;
    }
    k += !fresh && i == at;
    items[i] = rlx_tensor_retain(from->items[k++]);
  }
  rlx_type type, held;
  rlx_tensor_type(from, &type);
  (void)rlx_type_held(&type, &held);
  rlx_status status = value_give_sequence(ctx, 0, &held, items, count);
  mem_free(items);
  return status;
}

static rlx_status insert_eval(rlx_ctx *ctx) {
  const rlx_tensor *from = value_sequence(ctx, 0);
  int64_t at = 0;
  if (!from) return RLX_INVALID;
  RLX_TRY(read_position(ctx, 2, from->count, from->count, &at));
  rlx_tensor *fresh = value_take(ctx, &ctx->inputs[1]);
  return fresh ? give_changed(ctx, from, at, fresh) : RLX_OUT_OF_MEMORY;
}

static rlx_status erase_eval(rlx_ctx *ctx) {
  const rlx_tensor *from = value_sequence(ctx, 0);
  int64_t at = 0;
  if (!from) return RLX_INVALID;
  if (!from->count) return rlx_fail(ctx, RLX_INVALID, "nothing to erase: the sequence is empty");
  RLX_TRY(read_position(ctx, 1, from->count, from->count - 1, &at));
  return give_changed(ctx, from, at, NULL);
}

static const rlx_op sequence_insert = {
    .struct_size = sizeof(rlx_op),
    .name = "onnx.SequenceInsert",
    .version = 11,
    .samples = (const char *const[]){"seq(float[2]), float[3], int64[] = {0}", "seq(string[2]), string[1]", NULL},
    .doc = "The sequence with a tensor put in before the item at position, by default at the end.",
    .inputs = (const rlx_port[]){{.name = "input_sequence", .variable = "T", .flags = ANY},
                                 {.name = "tensor", .variable = "T", .flags = ANY},
                                 {.name = "position", .dtypes = RLX_SET_INDEX, .flags = RLX_OPTIONAL},
                                 {0}},
    .outputs = (const rlx_port[]){{.name = "output_sequence", .variable = "T", .flags = ANY}, {0}},
    .traits = RLX_PURE,
    .no_derivative = "sequences and optionals have no gradients, tensors only",
    .infer = change_infer,
    .eval = insert_eval,
};

static const rlx_op sequence_erase = {
    .struct_size = sizeof(rlx_op),
    .name = "onnx.SequenceErase",
    .version = 11,
    .samples = (const char *const[]){"seq(float[2]), int64[] = {1}", "seq(float[2])", NULL},
    .doc = "The sequence without the item at position, by default the last.",
    .inputs = (const rlx_port[]){{.name = "input_sequence", .variable = "T", .flags = ANY},
                                 {.name = "position", .dtypes = RLX_SET_INDEX, .flags = RLX_OPTIONAL},
                                 {0}},
    .outputs = (const rlx_port[]){{.name = "output_sequence", .variable = "T", .flags = ANY}, {0}},
    .traits = RLX_PURE,
    .no_derivative = "sequences and optionals have no gradients, tensors only",
    .infer = change_infer,
    .eval = erase_eval,
};

/* ---- SequenceAt, SequenceLength ----------------------------------------------------------- */

static rlx_status at_infer(rlx_infer *ctx) {
  rlx_type held;
  RLX_TRY(value_expect_sequence(ctx, 0));
  value_infer_held(ctx, 0, &held);
  type_take_kind(rlx_infer_output(ctx, 0), &held);
  return RLX_OK;
}

static rlx_status at_eval(rlx_ctx *ctx) {
  const rlx_tensor *from = value_sequence(ctx, 0);
  int64_t at = 0;
  if (!from) return RLX_INVALID;
  RLX_TRY(read_position(ctx, 1, from->count, from->count - 1, &at));
  if (at < 0) return rlx_fail(ctx, RLX_INVALID, "the sequence is empty");
  return value_give(ctx, 0, from->items[at]);
}

static const rlx_op sequence_at = {
    .struct_size = sizeof(rlx_op),
    .name = "onnx.SequenceAt",
    .version = 11,
    .samples = (const char *const[]){"seq(float[2]), int64[] = {1}", "seq(int32[2]), int32[] = {-1}", NULL},
    .doc = "The item at position.",
    .inputs = (const rlx_port[]){{.name = "input_sequence", .variable = "T", .flags = ANY},
                                 {.name = "position", .dtypes = RLX_SET_INDEX},
                                 {0}},
    .outputs = (const rlx_port[]){{.name = "tensor", .variable = "T", .flags = ANY}, {0}},
    .traits = RLX_PURE,
    .no_derivative = "sequences and optionals have no gradients, tensors only",
    .infer = at_infer,
    .eval = at_eval,
};

static rlx_status length_infer(rlx_infer *ctx) {
  RLX_TRY(value_expect_sequence(ctx, 0));
  rlx_infer_output(ctx, 0)->dtype = RLX_INT64;
  rlx_infer_set(ctx, 0, 0, NULL);
  return RLX_OK;
}

static rlx_status length_eval(rlx_ctx *ctx) {
  const rlx_tensor *from = value_sequence(ctx, 0);
  if (!from) return RLX_INVALID;
  *(int64_t *)ctx->outputs[0].data = from->count;
  return RLX_OK;
}

static const rlx_op sequence_length = {
    .struct_size = sizeof(rlx_op),
    .name = "onnx.SequenceLength",
    .version = 11,
    .samples = (const char *const[]){"seq(float[2])", NULL},
    .doc = "The number of items.",
    .inputs = (const rlx_port[]){{.name = "input_sequence", .flags = ANY}, {0}},
    .outputs = (const rlx_port[]){{.name = "length", .dtypes = RLX_SET(RLX_INT64)}, {0}},
    .traits = RLX_PURE,
    .infer = length_infer,
    .eval = length_eval,
};

const rlx_module ops_sequence = {.ops = (const rlx_op *const[]){&sequence_empty, &sequence_construct, &sequence_insert,
                                                                &sequence_erase, &sequence_at, &sequence_length, NULL}};
