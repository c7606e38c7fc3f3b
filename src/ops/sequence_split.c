/* sequence_split.c — SplitToSequence and ConcatFromSequence. */
#include <stddef.h>
#include <string.h>

#include "ops/_value.h"

typedef struct axis_params {
  uint64_t given;
  int64_t axis, flag; /* flag: keepdims, new_axis */
} axis_params;

/* ---- SplitToSequence ---------------------------------------------------------------------- */

static rlx_status split_infer(rlx_infer *ctx) {
  const axis_params *p = rlx_infer_params(ctx);
  const rlx_type *t = rlx_infer_input(ctx, 0);
  if (t->rank >= 0 && axis_normalise(p->axis, t->rank) < 0)
    return rlx_fail(ctx, RLX_INVALID, "axis %lld outside rank %d", (long long)p->axis, t->rank);
  rlx_type held;
  type_unknown(&held, t->dtype);
  return value_infer_sequence(ctx, 0, &held);
}

typedef struct splitting {
  rlx_ctx *ctx;
  int axis;
  int64_t extent, size; /* of the axis; of equal pieces, 0: sizes differ */
  int64_t count;        /* pieces */
  bool squeeze;
} splitting;

static int64_t split_entry(const rlx_operand *o, int64_t i) {
  return o->dtype == RLX_INT32 ? ((const int32_t *)o->data)[i] : ((const int64_t *)o->data)[i];
}

static rlx_status read_split(splitting *s) {
  const axis_params *p = s->ctx->params;
  const rlx_operand *split = s->ctx->input_count > 1 && s->ctx->inputs[1].data ? &s->ctx->inputs[1] : NULL;
  int64_t sum = 0;
  s->squeeze = !split && !p->flag;
  s->size = split && split->rank > 0 ? 0 : split ? split_entry(split, 0) : 1;
  if (split && split->rank == 0 && s->size <= 0)
    return rlx_fail(s->ctx, RLX_INVALID, "pieces of %lld", (long long)s->size);
  if (s->size) {
    s->count = s->extent / s->size + (s->extent % s->size != 0);
    return RLX_OK;
  }
  s->count = split->count;
  for (int64_t i = 0; i < s->count; i++) {
    int64_t part = split_entry(split, i);
    if (part < 0 || part > s->extent - sum)
      return rlx_fail(s->ctx, RLX_INVALID, "split: piece %lld of %lld does not fit %lld", (long long)i, (long long)part,
                      (long long)s->extent);
    sum += part;
  }
  return sum == s->extent ? RLX_OK
                          : rlx_fail(s->ctx, RLX_INVALID, "split: pieces of %lld in all, the axis has %lld",
                                     (long long)sum, (long long)s->extent);
}

/* Elements [start, start + size) along the axis. */
static rlx_tensor *piece(const splitting *s, int64_t start, int64_t size) {
  const rlx_operand *x = &s->ctx->inputs[0];
  int64_t dims[RLX_MAX_RANK], outer = 1, inner = 1;
  int rank = 0;
  for (int d = 0; d < x->rank; d++) {
    if (d < s->axis) outer *= x->dims[d];
    if (d > s->axis) inner *= x->dims[d];
    if (d != s->axis || !s->squeeze) dims[rank++] = d == s->axis ? size : x->dims[d];
  }
  rlx_tensor *t = NULL;
  rlx_status status = tensor_alloc(x->dtype, rank, dims, &t);
  size_t each = dtype_size(x->dtype);
  for (int64_t o = 0; o < outer && status == RLX_OK && t->count > 0; o++) {
    const char *from = (const char *)x->data + (size_t)((o * s->extent + start) * inner) * each;
    if (x->dtype != RLX_STRING)
      memcpy((char *)t->data + (size_t)(o * size * inner) * each, from, (size_t)(size * inner) * each);
    const rlx_string *text = (const rlx_string *)(const void *)from;
    for (int64_t i = 0; x->dtype == RLX_STRING && i < size * inner && status == RLX_OK; i++)
      status = rlx_tensor_set_string(t, o * size * inner + i, text[i].data ? text[i].data : "", text[i].size);
  }
  if (status == RLX_OK) return t;
  (void)value_failed(s->ctx, status);
  rlx_tensor_destroy(t);
  return NULL;
}

static rlx_status split_eval(rlx_ctx *ctx) {
  const axis_params *p = ctx->params;
  const rlx_operand *x = &ctx->inputs[0];
  splitting s = {.ctx = ctx, .axis = axis_normalise(p->axis, x->rank)};
  if (s.axis < 0) return rlx_fail(ctx, RLX_INVALID, "axis %lld outside rank %d", (long long)p->axis, x->rank);
  if (!dtype_size(x->dtype)) return rlx_fail(ctx, RLX_UNSUPPORTED, "pieces of %s", rlx_dtype_name(x->dtype));
  s.extent = x->dims[s.axis];
  RLX_TRY(read_split(&s));
  rlx_tensor **items = mem_array((size_t)s.count, sizeof *items);
  if (!items) return rlx_fail(ctx, RLX_OUT_OF_MEMORY, "out of memory");
  int64_t made = 0, start = 0;
  rlx_type held;
  type_unknown(&held, x->dtype);
  for (; made < s.count; made++) {
    int64_t size = s.size ? s.size : split_entry(&ctx->inputs[1], made);
    if (size > s.extent - start) size = s.extent - start;
    if (!(items[made] = piece(&s, start, size))) break;
    start += size;
  }
  rlx_status status = RLX_OUT_OF_MEMORY;
  if (made == s.count)
    status = value_give_sequence(ctx, 0, &held, items, made);
  else
    for (int64_t i = 0; i < made; i++) rlx_tensor_destroy(items[i]);
  mem_free(items);
  return status;
}

/* Elements of whole bytes. */
#define SPLIT_TYPES                                                                                                    \
  (RLX_SET_ALL & ~(RLX_SET(RLX_UINT4) | RLX_SET(RLX_INT4) | RLX_SET(RLX_FLOAT4E2M1) | RLX_SET(RLX_UINT2) | RLX_SET(RLX_INT2) | RLX_SET(RLX_FLOAT6E2M3) | RLX_SET(RLX_FLOAT6E3M2)))
static const rlx_op split_to_sequence = {
    .struct_size = sizeof(rlx_op),
    .name = "onnx.SplitToSequence",
    .version = 11,
    .samples = (const char *const[]){"float[6,2], int64[3] = {1, 2, 3}", "float[5,2] {keepdims = 0}",
                                     "int64[5], int64[] = {2}", NULL},
    .doc = "The pieces of a tensor along an axis: of one by default, of one size, or of the sizes given.",
    .inputs = (const rlx_port[]){{.name = "input", .variable = "T", .dtypes = SPLIT_TYPES},
                                 {.name = "split", .dtypes = RLX_SET_INDEX, .flags = RLX_OPTIONAL},
                                 {0}},
    .outputs = (const rlx_port[]){{.name = "output_sequence", .variable = "T", .flags = RLX_ANY_KIND}, {0}},
    .attrs =
        (const rlx_attr_def[]){
            {.name = "axis", .kind = RLX_ATTR_INT, .offset = offsetof(axis_params, axis)},
            {.name = "keepdims", .kind = RLX_ATTR_INT, .offset = offsetof(axis_params, flag), .default_int = 1},
            {0}},
    .params_size = sizeof(axis_params),
    .traits = RLX_PURE,
    .no_derivative = "sequences and optionals have no gradients, tensors only",
    .infer = split_infer,
    .eval = split_eval,
};

/* ---- ConcatFromSequence ------------------------------------------------------------------- */

static rlx_status concat_infer(rlx_infer *ctx) { return value_expect_sequence(ctx, 0); }

/* The result's dims. */
static rlx_status concat_dims(rlx_ctx *ctx, const rlx_tensor *from, int *axis, int *rank, int64_t *dims) {
  const axis_params *p = ctx->params;
  if (!from->count) return rlx_fail(ctx, RLX_INVALID, "the sequence is empty");
  const rlx_tensor *first = from->items[0];
  *rank = first->rank + (p->flag != 0);
  *axis = axis_normalise(p->axis, *rank);
  if (*axis < 0 || *rank > RLX_MAX_RANK)
    return rlx_fail(ctx, RLX_INVALID, "axis %lld outside rank %d", (long long)p->axis, *rank);
  for (int d = 0, k = 0; d < *rank; d++) dims[d] = p->flag && d == *axis ? from->count : first->dims[k++];
  int64_t sum = 0;
  for (int64_t i = 0; i < from->count; i++) {
    const rlx_tensor *t = from->items[i];
    bool fits = t->rank == first->rank;
    for (int d = 0; fits && d < t->rank; d++) fits = t->dims[d] == first->dims[d] || (!p->flag && d == *axis);
    if (!fits) return rlx_fail(ctx, RLX_INVALID, "item %lld of the sequence does not fit the first", (long long)i);
    if (!p->flag && __builtin_add_overflow(sum, t->dims[*axis], &sum))
      return rlx_fail(ctx, RLX_INVALID, "the axis is too long");
  }
  if (!p->flag) dims[*axis] = sum;
  return RLX_OK;
}

static rlx_status concat_eval(rlx_ctx *ctx) {
  const rlx_tensor *from = value_sequence(ctx, 0);
  int64_t dims[RLX_MAX_RANK + 1], outer = 1, inner = 1, start = 0;
  int axis = 0, rank = 0;
  if (!from) return RLX_INVALID;
  size_t each = dtype_size(from->dtype);
  if (!each) return rlx_fail(ctx, RLX_UNSUPPORTED, "pieces of %s", rlx_dtype_name(from->dtype));
  RLX_TRY(concat_dims(ctx, from, &axis, &rank, dims));
  char *to = rlx_output_shape(ctx, 0, rank, dims);
  if (!to) return RLX_KERNEL;
  for (int d = 0; d < axis; d++) outer *= dims[d];
  for (int d = axis + 1; d < rank; d++) inner *= dims[d];
  const axis_params *p = ctx->params;
  for (int64_t i = 0; i < from->count; i++) {
    const rlx_tensor *t = from->items[i];
    int64_t size = p->flag ? 1 : t->dims[axis];
    for (int64_t o = 0; o < outer; o++)
      RLX_TRY(value_copy(ctx, t->dtype, to + (size_t)((o * dims[axis] + start) * inner) * each,
                         (const char *)tensor_raw(t) + (size_t)(o * size * inner) * each, size * inner));
    start += size;
  }
  return RLX_OK;
}

static const rlx_op concat_from_sequence = {
    .struct_size = sizeof(rlx_op),
    .name = "onnx.ConcatFromSequence",
    .version = 11,
    .samples = (const char *const[]){"seq(float[2,3]) {axis = 1}", "seq(int64[2,3]) {axis = 0, new_axis = 1}", NULL},
    .doc = "The items of a sequence joined along an axis, or along a new one.",
    .inputs = (const rlx_port[]){{.name = "input_sequence", .variable = "T", .flags = RLX_ANY_KIND}, {0}},
    .outputs = (const rlx_port[]){{.name = "concat_result", .variable = "T"}, {0}},
    .attrs =
        (const rlx_attr_def[]){
            {.name = "axis", .kind = RLX_ATTR_INT, .flags = RLX_REQUIRED, .offset = offsetof(axis_params, axis)},
            {.name = "new_axis", .kind = RLX_ATTR_INT, .offset = offsetof(axis_params, flag)},
            {0}},
    .params_size = sizeof(axis_params),
    .traits = RLX_PURE,
    .no_derivative = "sequences and optionals have no gradients, tensors only",
    .infer = concat_infer,
    .eval = concat_eval,
};

const rlx_module ops_sequence_split = {.ops = (const rlx_op *const[]){&split_to_sequence, &concat_from_sequence, NULL}};
