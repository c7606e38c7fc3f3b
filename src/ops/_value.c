/* _value.c — shared by ops on sequences and optionals. */
#include "ops/_value.h"

#include <string.h>

rlx_status value_failed(rlx_ctx *ctx, rlx_status status) { return rlx_fail(ctx, status, "%s", rlx_error_message()); }

rlx_tensor *value_sequence(rlx_ctx *ctx, int i) {
  rlx_tensor *t = rlx_input_value(ctx, i);
  if (t && rlx_tensor_kind(t) == RLX_KIND_SEQUENCE) return t;
  (void)rlx_fail(ctx, RLX_INVALID, "input %d is no sequence", i);
  return NULL;
}

rlx_status value_give_sequence(rlx_ctx *ctx, int output, rlx_dtype dtype, rlx_tensor **items, int64_t count) {
  rlx_tensor *made;
  rlx_status status = rlx_sequence_create(dtype, items, count, &made);
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

rlx_tensor *value_take(rlx_ctx *ctx, const rlx_operand *o) {
  rlx_tensor *t = NULL;
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

void value_infer_sequence(rlx_infer *ctx, int output, rlx_dtype dtype) {
  rlx_type *t = rlx_infer_output(ctx, output);
  t->kind = RLX_KIND_SEQUENCE;
  t->dtype = dtype;
  t->rank = RLX_UNKNOWN;
}
