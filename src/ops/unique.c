/* unique.c — Unique: the distinct elements, or slices along an axis. */
#include <stddef.h>
#include <string.h>

#include "base/memory.h"
#include "ir/module.h"
#include "ops/_move.h"
#include "ops/_strided.h"
#include "ops/_typed.h"

typedef struct unique_params {
  uint64_t given;
  int64_t axis, sorted;
} unique_params;
enum { GIVEN_AXIS = 1u };

static const rlx_attr_def unique_attrs[] = {
    {.name = "axis", .kind = RLX_ATTR_INT, .offset = offsetof(unique_params, axis)},
    {.name = "sorted", .kind = RLX_ATTR_INT, .offset = offsetof(unique_params, sorted), .default_int = 1},
    {0}};
/* What can be compared. */
#define UNIQUE_TYPES                                                                                                   \
  (RLX_SET_NUMBERS | RLX_SET(RLX_BOOL) | RLX_SET(RLX_STRING) | RLX_SET(RLX_COMPLEX64) | RLX_SET(RLX_COMPLEX128))
static const rlx_port unique_inputs[] = {{.name = "X", .variable = "T", .dtypes = UNIQUE_TYPES}, {0}};
static const rlx_port unique_outputs[] = {{.name = "Y", .variable = "T", .dtypes = UNIQUE_TYPES},
                                          {.name = "indices", .dtypes = MOVE_INT64, .flags = RLX_OPTIONAL},
                                          {.name = "inverse_indices", .dtypes = MOVE_INT64, .flags = RLX_OPTIONAL},
                                          {.name = "counts", .dtypes = MOVE_INT64, .flags = RLX_OPTIONAL},
                                          {0}};

static rlx_status unique_infer(rlx_infer *ctx) {
  const unique_params *p = rlx_infer_params(ctx);
  const rlx_type *x = rlx_infer_input(ctx, 0);
  int axis = 0;
  for (int i = 1; i < rlx_infer_output_count(ctx); i++) {
    rlx_infer_output(ctx, i)->dtype = RLX_INT64;
    infer_unknown(ctx, i, 1);
  }
  if (!(p->given & GIVEN_AXIS)) {
    infer_unknown(ctx, 0, 1);
    if (rlx_infer_output_count(ctx) > 2 && x->rank >= 0)
      rlx_infer_set(ctx, 2, 1, &(int64_t){dims_product(x->dims, 0, x->rank)});
    return RLX_OK;
  }
  rlx_status status = infer_axis(ctx, p->axis, x->rank, &axis);
  if (status != RLX_OK || x->rank < 0) return status;
  rlx_infer_set(ctx, 0, x->rank, x->dims);
  rlx_infer_output(ctx, 0)->dims[axis] = RLX_UNKNOWN;
  if (rlx_infer_output_count(ctx) > 2) rlx_infer_set(ctx, 2, 1, &x->dims[axis]);
  return RLX_OK;
}

/* n items of `width` elements each, side by side. NaN is the largest number, and equal to itself. */
typedef struct item_list {
  const void *data;
  int64_t n, width;
} item_list;

#define X(D, T, C, K)                                                                                                  \
  static int compare_##D(const item_list *l, int64_t a, int64_t b) {                                                   \
    const T *x = (const T *)l->data + a * l->width, *y = (const T *)l->data + b * l->width;                            \
    for (int64_t i = 0; i < l->width; i++) {                                                                           \
      C u = TYPED_LOAD_##D(x[i]), v = TYPED_LOAD_##D(y[i]);                                                            \
      bool un = TYPED_NAN_##K(u), vn = TYPED_NAN_##K(v);                                                               \
      if (un || vn) {                                                                                                  \
        if (un != vn) return un ? 1 : -1;                                                                              \
        continue;                                                                                                      \
      }                                                                                                                \
      if (u != v) return u < v ? -1 : 1;                                                                               \
    }                                                                                                                  \
    return 0;                                                                                                          \
  }
#include "ir/dtype.def"
X(FLOAT16, uint16_t, float, f)
X(BFLOAT16, uint16_t, float, f)
#undef X

static int compare_strings(const item_list *l, int64_t a, int64_t b) {
  const rlx_string *x = (const rlx_string *)l->data + a * l->width, *y = (const rlx_string *)l->data + b * l->width;
  for (int64_t i = 0; i < l->width; i++) {
    size_t n = x[i].size < y[i].size ? x[i].size : y[i].size;
    int order = n ? memcmp(x[i].data, y[i].data, n) : 0;
    if (order) return order;
    if (x[i].size != y[i].size) return x[i].size < y[i].size ? -1 : 1;
  }
  return 0;
}

typedef int (*compare_fn)(const item_list *l, int64_t a, int64_t b);

/* NULL: not for this dtype. */
static const compare_fn compare_table[RLX_DTYPE_COUNT] = {
#define X(D, T, C, K) [RLX_##D] = compare_##D,
#include "ir/dtype.def"
    X(FLOAT16, uint16_t, float, f) X(BFLOAT16, uint16_t, float, f)
#undef X
        [RLX_COMPLEX64] = compare_FLOAT, /* twice as wide: real part first */
    [RLX_COMPLEX128] = compare_DOUBLE,
    [RLX_STRING] = compare_strings,
};

/* Stable merge sort of order[0, n). */
static void sort_items(const item_list *l, compare_fn compare, int64_t *order, int64_t *spare) {
  for (int64_t width = 1; width < l->n; width *= 2) {
    for (int64_t low = 0; low < l->n; low += 2 * width) {
      int64_t middle = low + width < l->n ? low + width : l->n;
      int64_t high = middle + width < l->n ? middle + width : l->n;
      int64_t a = low, b = middle;
      for (int64_t i = low; i < high; i++) {
        bool first = a < middle && (b >= high || compare(l, order[a], order[b]) <= 0);
        spare[i] = first ? order[a++] : order[b++];
      }
    }
    memcpy(order, spare, (size_t)l->n * sizeof *order);
  }
}

/* order: items sorted. Groups of equal ones get numbers 0…; first[g] is the first item of g (in the order of
 * the input), group[i] the number of item i. Without `sorted` groups are renumbered by their first items. */
typedef struct grouping {
  int64_t *order, *first, *group, *spare;
  int64_t count;
} grouping;

static void make_groups(const item_list *l, compare_fn compare, bool sorted, grouping *g) {
  for (int64_t i = 0; i < l->n; i++) {
    bool fresh = i == 0 || compare(l, g->order[i - 1], g->order[i]) != 0;
    if (fresh) g->first[g->count++] = g->order[i];
    g->group[g->order[i]] = g->count - 1;
  }
  if (sorted) return;
  for (int64_t k = 0; k < g->count; k++) g->spare[k] = -1;
  int64_t next = 0;
  for (int64_t i = 0; i < l->n; i++) {
    int64_t old = g->group[i];
    if (g->spare[old] < 0) {
      g->spare[old] = next;
      g->order[next++] = i; /* the sorted order is not needed any more */
    }
    g->group[i] = g->spare[old];
  }
  memcpy(g->first, g->order, (size_t)g->count * sizeof *g->first);
}

/* Views of x as [outer, n, inner]. */
typedef struct unique_shape {
  int axis;
  int64_t outer, n, inner;
} unique_shape;

/* Items moved together: [n, outer, inner]. */
static void gather_items(rlx_ctx *ctx, const unique_shape *s, void *to) {
  const rlx_operand *x = &ctx->inputs[0];
  strided_copy c;
  strided_begin(&c, x->dtype, 0, 0);
  strided_dim(&c, s->n, s->inner, s->outer * s->inner);
  strided_dim(&c, s->outer, s->n * s->inner, s->inner);
  strided_dim(&c, s->inner, 1, 1);
  strided_finish(&c);
  strided_run(ctx, &c, x->data, to);
}

static rlx_status write_outputs(rlx_ctx *ctx, const unique_shape *s, bool along, const grouping *g) {
  const rlx_operand *x = &ctx->inputs[0];
  int64_t dims[RLX_MAX_RANK] = {0}, size = (int64_t)dtype_size(x->dtype) * s->inner;
  int rank = along ? x->rank : 1;
  for (int d = 0; d < rank && along; d++) dims[d] = x->dims[d];
  dims[s->axis] = g->count;
  char *y = rlx_output_shape(ctx, 0, rank, dims);
  if (!y) return RLX_OUT_OF_MEMORY;
  for (int64_t o = 0; o < s->outer && size; o++)
    for (int64_t k = 0; k < g->count; k++)
      memcpy(y + (o * g->count + k) * size, (const char *)x->data + (o * s->n + g->first[k]) * size, (size_t)size);
  for (int i = 1; i < ctx->output_count; i++) {
    if (!rlx_node_output_type(ctx->node, i) || (i == 2 && !ctx->outputs[2].data)) continue;
    int64_t n = i == 2 ? s->n : g->count;
    int64_t *to = rlx_output_shape(ctx, i, 1, &n);
    if (!to) return RLX_OUT_OF_MEMORY;
    if (i == 1) memcpy(to, g->first, (size_t)n * sizeof *to);
    if (i == 2) memcpy(to, g->group, (size_t)n * sizeof *to);
    if (i != 3) continue;
    memset(to, 0, (size_t)n * sizeof *to);
    for (int64_t k = 0; k < s->n; k++) to[g->group[k]]++;
  }
  return RLX_OK;
}

static rlx_status unique_eval(rlx_ctx *ctx) {
  const unique_params *p = ctx->params;
  const rlx_operand *x = &ctx->inputs[0];
  compare_fn compare = compare_table[x->dtype];
  if (!compare) return rlx_fail(ctx, RLX_UNSUPPORTED, "element type %s", rlx_dtype_name(x->dtype));
  bool along = p->given & GIVEN_AXIS;
  unique_shape s = {0, 1, x->count, 1};
  if (along) {
    s.axis = axis_normalise(p->axis, x->rank);
    s.outer = dims_product(x->dims, 0, s.axis);
    s.n = x->dims[s.axis];
    s.inner = dims_product(x->dims, s.axis + 1, x->rank);
  }
  int64_t *numbers = mem_array((size_t)s.n, 4 * sizeof *numbers);
  void *items = mem_array((size_t)(x->count ? x->count : 1), dtype_size(x->dtype));
  rlx_status status = RLX_OK;
  if (!numbers || !items) {
    status = rlx_fail(ctx, RLX_OUT_OF_MEMORY, "no memory to sort %lld items", (long long)s.n);
  } else {
    bool complex = x->dtype == RLX_COMPLEX64 || x->dtype == RLX_COMPLEX128;
    item_list l = {items, s.n, s.outer * s.inner * (complex ? 2 : 1)};
    grouping g = {numbers, numbers + s.n, numbers + 2 * s.n, numbers + 3 * s.n, 0};
    gather_items(ctx, &s, items);
    for (int64_t i = 0; i < s.n; i++) g.order[i] = i;
    sort_items(&l, compare, g.order, g.spare);
    make_groups(&l, compare, p->sorted, &g);
    status = write_outputs(ctx, &s, along, &g);
  }
  mem_free(numbers);
  mem_free(items);
  return status;
}

static const rlx_op unique = {
    .struct_size = sizeof(rlx_op),
    .name = "onnx.Unique",
    .version = 11,
    .doc = "The distinct elements (along axis: slices), sorted or in the order they first occur, where they "
           "first occur, which of them each element is, and how often each occurs.",
    .samples = (const char *const[]){"int32[7]", "float[4,2] {axis = 0}", NULL},
    .inputs = unique_inputs,
    .outputs = unique_outputs,
    .attrs = unique_attrs,
    .params_size = sizeof(unique_params),
    .traits = RLX_PURE,
    .no_derivative = "which of several equal elements an output stands for is not determined",
    .infer = unique_infer,
    .eval = unique_eval,
};

static const rlx_op *const ops[] = {&unique, NULL};
const rlx_module ops_unique = {.ops = ops};
