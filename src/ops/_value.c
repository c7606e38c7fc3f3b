/* _value.c — shared by ops on sequences, optionals and maps. */
#include "ops/_value.h"

#include <string.h>

rlx_status value_failed(rlx_ctx *ctx, rlx_status status) { return rlx_fail(ctx, status, "%s", rlx_error_message()); }

rlx_tensor *value_sequence(rlx_ctx *ctx, int i) {
  rlx_tensor *t = rlx_input_value(ctx, i);
  if (t && rlx_tensor_kind(t) == RLX_KIND_SEQUENCE) return t;
  (void)rlx_fail(ctx, RLX_INVALID, "input %d is no sequence", i);
  return NULL;
}

rlx_status value_give_sequence(rlx_ctx *ctx, int output, const rlx_type *held, rlx_tensor **items, int64_t count) {
  rlx_tensor *made;
  rlx_type type;
  rlx_status status = rlx_type_hold(RLX_KIND_SEQUENCE, RLX_UNDEFINED, held, &type);
  if (status == RLX_OK) status = rlx_value_create(&type, items, count, &made);
  for (int64_t i = 0; i < count; i++) rlx_tensor_destroy(items[i]);
  return status == RLX_OK ? rlx_output_value(ctx, output, made) : value_failed(ctx, status);
}

rlx_status value_copy(rlx_ctx *ctx, rlx_dtype dtype, void *to, const void *from, int64_t count) {
  int64_t bytes = rlx_dtype_bytes(dtype, count);
  if (bytes <= 0) return RLX_OK;
  memcpy(to, from, (size_t)bytes);
  rlx_string *s = to;
  for (int64_t i = 0; dtype == RLX_STRING && i < count; i++) {
    char *text = rlx_text(ctx, s[i].size);
    if (!text) return RLX_OUT_OF_MEMORY;
    if (s[i].size) memcpy(text, s[i].data, s[i].size);
    s[i].data = text;
  }
  return RLX_OK;
}

rlx_status value_give_tensor(rlx_ctx *ctx, int output, const rlx_tensor *t) {
  void *to = rlx_output_shape(ctx, output, t->rank, t->dims);
  return to ? value_copy(ctx, t->dtype, to, tensor_raw(t), t->count) : RLX_KERNEL;
}

rlx_status value_give(rlx_ctx *ctx, int output, rlx_tensor *item) {
  if (item->kind == RLX_KIND_TENSOR) return value_give_tensor(ctx, output, item);
  return rlx_output_value(ctx, output, rlx_tensor_retain(item));
}

void value_type(const rlx_operand *o, rlx_type *out) {
  if (operand_is_cell(o))
    rlx_tensor_type(cell_value(o), out);
  else
    type_unknown(out, o->dtype);
}

rlx_tensor *value_take(rlx_ctx *ctx, const rlx_operand *o) {
  rlx_tensor *t = NULL;
  if (operand_is_cell(o)) return rlx_tensor_retain(cell_value(o));
  rlx_status status = tensor_from_operand(o, &t);
  if (status == RLX_OK) return t;
  (void)value_failed(ctx, status);
  return NULL;
}

rlx_status value_expect_sequence(rlx_infer *ctx, int i) {
  const rlx_type *t = rlx_infer_input(ctx, i);
  char text[300];
  if (!t || t->dtype == RLX_UNDEFINED || t->kind == RLX_KIND_SEQUENCE) return RLX_OK;
  return rlx_fail(ctx, RLX_INVALID, "input %d is %s, no sequence", i, type_text(t, text, sizeof text));
}

rlx_status value_infer_sequence(rlx_infer *ctx, int output, const rlx_type *held) {
  rlx_status status = rlx_type_hold(RLX_KIND_SEQUENCE, RLX_UNDEFINED, held, rlx_infer_output(ctx, output));
  return status == RLX_OK ? RLX_OK : rlx_fail(ctx, status, "%s", rlx_error_message());
}

void value_infer_held(rlx_infer *ctx, int i, rlx_type *out) {
  const rlx_type *t = rlx_infer_input(ctx, i);
  if (!t || !rlx_type_held(t, out)) type_unknown(out, t ? t->dtype : RLX_UNDEFINED);
}
