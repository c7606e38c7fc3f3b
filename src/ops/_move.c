/* _move.c — what ops that move elements share: small lists of integers, operands, copying, constants. */
#include "ops/_move.h"

#include <string.h>

rlx_status ints_from(const void *context, rlx_dtype dtype, const void *data, int64_t count, int_list *out) {
  if (count > INT_LIST_MAX)
    return rlx_fail(context, RLX_INVALID, "%lld integers given, at most %d make sense", (long long)count, INT_LIST_MAX);
  if (dtype == RLX_INT64) {
    memcpy(out->values, data, (size_t)count * sizeof(int64_t));
  } else {
    for (int64_t i = 0; i < count; i++) out->values[i] = dtype_load_int(dtype, data, i);
  }
  out->count = (int)count;
  return RLX_OK;
}

rlx_status infer_ints(rlx_infer *ctx, int i, int_list *out) {
  out->count = RLX_UNKNOWN;
  if (!infer_given(ctx, i)) return RLX_OK;
  const rlx_tensor *t = rlx_infer_value(ctx, i);
  return t ? ints_from(ctx, t->dtype, t->data, t->count, out) : RLX_OK;
}

rlx_status run_ints(const rlx_ctx *ctx, int i, int_list *out) {
  out->count = RLX_UNKNOWN;
  if (!run_given(ctx, i)) return RLX_OK;
  const rlx_operand *o = &ctx->inputs[i];
  return ints_from(ctx, o->dtype, o->data, o->count, out);
}

rlx_status attr_ints(const void *context, const rlx_ints *attribute, int_list *out) {
  return ints_from(context, RLX_INT64, attribute->data, attribute->count, out);
}

bool infer_given(const rlx_infer *ctx, int i) { return i < rlx_infer_input_count(ctx) && rlx_infer_input(ctx, i); }

bool run_given(const rlx_ctx *ctx, int i) { return i < ctx->input_count && ctx->inputs[i].data; }

bool run_wanted(const rlx_ctx *ctx, int i) { return i < ctx->output_count && ctx->outputs[i].data; }

int64_t infer_length(const rlx_infer *ctx, int i) {
  if (!infer_given(ctx, i)) return RLX_UNKNOWN;
  const rlx_type *t = rlx_infer_input(ctx, i);
  if (t->rank == 0) return 1;
  return t->rank == 1 ? t->dims[0] : RLX_UNKNOWN;
}

void infer_unknown(rlx_infer *ctx, int i, int rank) {
  int64_t dims[RLX_MAX_RANK];
  for (int d = 0; d < rank; d++) dims[d] = RLX_UNKNOWN;
  rlx_infer_set(ctx, i, rank, dims);
}

rlx_status infer_axis(const void *context, int64_t axis, int rank, int *out) {
  if (rank == RLX_UNKNOWN) {
    if (axis < -RLX_MAX_RANK || axis >= RLX_MAX_RANK)
      return rlx_fail(context, RLX_INVALID, "axis %lld outside any rank", (long long)axis);
    *out = axis >= 0 ? (int)axis : RLX_UNKNOWN;
    return RLX_OK;
  }
  *out = axis_normalise(axis, rank);
  if (*out < 0) return rlx_fail(context, RLX_INVALID, "axis %lld outside rank %d", (long long)axis, rank);
  return RLX_OK;
}

rlx_status axes_normalise(const void *context, int_list *axes, int rank) {
  uint32_t seen = 0;
  for (int i = 0; i < axes->count; i++) {
    int axis = axis_normalise(axes->values[i], rank);
    if (axis < 0) return rlx_fail(context, RLX_INVALID, "axis %lld outside rank %d", (long long)axes->values[i], rank);
    if (seen >> axis & 1u) return rlx_fail(context, RLX_INVALID, "axis %d is given twice", axis);
    seen |= 1u << axis;
    axes->values[i] = axis;
  }
  return RLX_OK;
}

int64_t dim_mul(int64_t a, int64_t b) {
  int64_t product;
  if (a < 0 || b < 0 || __builtin_mul_overflow(a, b, &product)) return RLX_UNKNOWN;
  return product;
}

int64_t dims_product(const int64_t *dims, int from, int to) {
  int64_t product = 1;
  for (int d = from; d < to; d++) product = dim_mul(product, dims[d]);
  return product;
}

typedef struct bytes_copy {
  char *to;
  const char *from;
} bytes_copy;

static void copy_range(void *arg, int64_t begin, int64_t end) {
  const bytes_copy *c = arg;
  memcpy(c->to + begin, c->from + begin, (size_t)(end - begin));
}

void move_bytes(rlx_ctx *ctx, void *to, const void *from, int64_t bytes) {
  enum { PARALLEL_BYTES = 128 * 1024 };
  if (bytes <= 0 || to == from) return;
  bytes_copy c = {to, from};
  if (bytes < PARALLEL_BYTES)
    copy_range(&c, 0, bytes);
  else
    rlx_parallel_for(ctx, bytes, PARALLEL_BYTES / 2, copy_range, &c);
}

rlx_status move_all(rlx_ctx *ctx) {
  const rlx_operand *from = &ctx->inputs[0];
  rlx_operand *to = &ctx->outputs[0];
  if (from->bytes != to->bytes)
    return rlx_fail(ctx, RLX_INVALID, "input has %lld bytes, output %lld", (long long)from->bytes,
                    (long long)to->bytes);
  move_bytes(ctx, to->data, from->data, from->bytes);
  return RLX_OK;
}

void move_fill(void *to, const void *value, int64_t count, size_t size) {
  if (count <= 0) return;
  size_t bytes = (size_t)count * size;
  const unsigned char *v = value;
  bool uniform = true;
  for (size_t i = 1; i < size; i++) uniform = uniform && v[i] == v[0];
  if (uniform) {
    memset(to, v[0], bytes);
    return;
  }
  /* Doubling: each copy takes what is already there. */
  memcpy(to, value, size);
  for (size_t done = size; done < bytes;) {
    size_t n = done < bytes - done ? done : bytes - done;
    if (n > 64 * 1024) n = 64 * 1024 / size * size;
    memcpy((char *)to + done, to, n);
    done += n;
  }
}

void move_elements(rlx_dtype dtype, void *to, int64_t to_at, const void *from, int64_t from_at, int64_t n) {
  int64_t size = (int64_t)dtype_size(dtype);
  int bits = rlx_dtype_bits(dtype);
  if (size && n > 0) memcpy((char *)to + to_at * size, (const char *)from + from_at * size, (size_t)(n * size));
  for (int64_t i = 0; !size && i < n; i++) bits_store(bits, to, to_at + i, bits_load(bits, from, from_at + i));
}

void move_zero(rlx_operand *to) {
  static const rlx_string no_text = {"", 0};
  if (to->dtype == RLX_STRING)
    move_fill(to->data, &no_text, to->count, sizeof no_text);
  else if (to->bytes)
    memset(to->data, 0, (size_t)to->bytes);
}

int64_t index_checked(rlx_ctx *ctx, const rlx_operand *o, int64_t i, int64_t extent) {
  int64_t index = index_load(o, i);
  if (index >= -extent && index < extent) return index < 0 ? index + extent : index;
  rlx_fail(ctx, RLX_INVALID, "index %lld outside extent %lld", (long long)index, (long long)extent);
  return -1;
}

rlx_value *graph_ints(rlx_graph *g, const int64_t *values, int64_t count) {
  rlx_tensor *t = NULL;
  rlx_status status = tensor_from_ints(values, count, &t);
  if (status != RLX_OK) {
    rlx_graph_fail(g, status, "no memory for a constant of %lld integers", (long long)count);
    return NULL;
  }
  rlx_value *v = rlx_graph_constant(g, NULL, t);
  rlx_tensor_destroy(t);
  return v;
}

rlx_value *graph_float(rlx_graph *g, float value) {
  rlx_tensor *t = NULL;
  rlx_status status = rlx_tensor_create(RLX_FLOAT, 0, NULL, &t);
  if (status != RLX_OK) {
    rlx_graph_fail(g, status, "no memory for a constant");
    return NULL;
  }
  memcpy(rlx_tensor_data(t), &value, sizeof value);
  rlx_value *v = rlx_graph_constant(g, NULL, t);
  rlx_tensor_destroy(t);
  return v;
}

rlx_value *graph_op1(rlx_graph *g, const char *op, rlx_value *a) { return rlx_graph_op(g, op, NULL, 0, &a, 1); }

rlx_value *graph_op2(rlx_graph *g, const char *op, rlx_value *a, rlx_value *b) {
  rlx_value *inputs[2] = {a, b};
  return rlx_graph_op(g, op, NULL, 0, inputs, 2);
}

rlx_value *graph_cast(rlx_graph *g, rlx_value *a, rlx_dtype to) {
  rlx_attr attr = RLX_ATTR_I("to", to);
  return rlx_graph_op(g, "onnx.Cast", &attr, 1, &a, 1);
}

rlx_value *graph_axis_op(rlx_graph *g, const char *op, rlx_value *const *inputs, int count, int64_t axis) {
  rlx_attr attr = RLX_ATTR_I("axis", axis);
  return rlx_graph_op(g, op, &attr, 1, inputs, count);
}

rlx_value *graph_zeros(rlx_graph *g, rlx_value *v, rlx_value *shape) {
  rlx_tensor *zero = NULL;
  rlx_status status = rlx_tensor_create(rlx_value_type(v)->dtype, 1, &(int64_t){1}, &zero);
  if (status != RLX_OK) {
    rlx_graph_fail(g, status, "no zero of type %s", rlx_dtype_name(rlx_value_type(v)->dtype));
    return NULL;
  }
  rlx_attr attr = {.name = "value", .kind = RLX_ATTR_TENSOR, .tensor = zero};
  rlx_value *made = rlx_graph_op(g, "onnx.ConstantOfShape", &attr, 1, &shape, 1);
  rlx_tensor_destroy(zero);
  return made;
}

rlx_value *graph_zeros_like(rlx_graph *g, rlx_value *v) { return graph_zeros(g, v, graph_op1(g, "onnx.Shape", v)); }
