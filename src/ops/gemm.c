/* gemm.c — onnx.Gemm. */
#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "ir/module.h"
#include "ir/shape.h"
#include "ops/_wide.h"
#include "ops/matmul.h"

static rlx_status infer(rlx_infer *ctx) {
  const gemm_params *p = rlx_infer_params(ctx);
  const rlx_type *a = rlx_infer_input(ctx, 0), *b = rlx_infer_input(ctx, 1), *c = rlx_infer_input(ctx, 2);
  if ((a->rank != 2 && a->rank != RLX_UNKNOWN) || (b->rank != 2 && b->rank != RLX_UNKNOWN)) {
    return rlx_fail(ctx, RLX_INVALID, "operands of rank %d and %d; both must be matrices", a->rank, b->rank);
  }
  int64_t dims[2] = {RLX_UNKNOWN, RLX_UNKNOWN}, ka = RLX_UNKNOWN, kb = RLX_UNKNOWN;
  if (a->rank == 2) dims[0] = a->dims[p->trans_a != 0], ka = a->dims[p->trans_a == 0];
  if (b->rank == 2) dims[1] = b->dims[p->trans_b == 0], kb = b->dims[p->trans_b != 0];
  if (ka != RLX_UNKNOWN && kb != RLX_UNKNOWN && ka != kb) {
    return rlx_fail(ctx, RLX_INVALID, "inner dimensions %lld and %lld differ", (long long)ka, (long long)kb);
  }
  if (c && c->rank != RLX_UNKNOWN) {
    bool fits = c->rank <= 2;
    for (int d = 0; fits && d < c->rank; d++) {
      int64_t want = dims[2 - c->rank + d];
      fits = c->dims[d] == 1 || c->dims[d] == RLX_UNKNOWN || want == RLX_UNKNOWN || c->dims[d] == want;
    }
    char text[160];
    if (!fits) {
      return rlx_fail(ctx, RLX_INVALID, "C of shape %s does not broadcast to [%lld,%lld]",
                      dims_text(c->rank, c->dims, text, sizeof text), (long long)dims[0], (long long)dims[1]);
    }
  }
  rlx_infer_set(ctx, 0, 2, dims);
  return RLX_OK;
}

/* Transposes a rows × columns matrix of 4- or 8-byte elements into an owned copy. */
static rlx_status transpose(rlx_ctx *ctx, wide *w, int64_t rows, int64_t columns) {
  size_t size = (size_t)rlx_dtype_bits(w->dtype) / 8;
  char *to = mem_array((size_t)(rows * columns), size);
  if (!to) return rlx_fail(ctx, RLX_OUT_OF_MEMORY, "no memory for %lld elements", (long long)(rows * columns));
  for (int64_t r = 0; r < rows; r++) {
    for (int64_t c = 0; c < columns; c++) {
      const char *from = (const char *)w->data + (size_t)(r * columns + c) * size;
      if (size == 4) {
        memcpy(to + (size_t)(c * rows + r) * 4, from, 4);
      } else {
        memcpy(to + (size_t)(c * rows + r) * 8, from, 8);
      }
    }
  }
  rlx_dtype dtype = w->dtype;
  wide_finish(w);
  *w = (wide){.data = to, .owned = to, .dtype = dtype};
  return RLX_OK;
}

/* Y = alpha Y + beta C, with C of dims c_row × c_column broadcast. */
#define FINISH(name, type, real)                                                                                       \
  static void name(const gemm_params *p, type *y, const type *c, const int64_t *dims, const int64_t *c_dims) {         \
    real alpha = (real)p->alpha, beta = (real)p->beta;                                                                 \
    for (int64_t i = 0; i < dims[0]; i++) {                                                                            \
      const type *line = c ? c + (c_dims[0] == 1 ? 0 : i * c_dims[1]) : NULL;                                          \
      int64_t step = c && c_dims[1] != 1;                                                                              \
      for (int64_t j = 0; j < dims[1]; j++) {                                                                          \
        type *at = &y[i * dims[1] + j];                                                                                \
        if (p->alpha != 1) *at = (type)(alpha * (real)*at);                                                            \
        if (line) *at = (type)(*at + (p->beta == 1 ? line[j * step] : (type)(beta * (real)line[j * step])));           \
      }                                                                                                                \
    }                                                                                                                  \
  }
FINISH(finish_float, float, float)
FINISH(finish_double, double, double)
FINISH(finish_int, int64_t, double)
#undef FINISH

static rlx_status compute(rlx_ctx *ctx, const matmul_shape *s, wide *a, wide *b, const wide *c, wide *y) {
  const gemm_params *p = ctx->params;
  if (p->trans_a) RLX_TRY(transpose(ctx, a, s->k, s->m));
  if (p->trans_b) RLX_TRY(transpose(ctx, b, s->n, s->k));
  matmul_direct(ctx, s, y->dtype, a->data, b->data, y->data);
  int64_t c_dims[2] = {1, 1}, dims[2] = {s->m, s->n};
  if (c->data) {
    const rlx_operand *o = &ctx->inputs[2];
    for (int d = 0; d < o->rank; d++) c_dims[2 - o->rank + d] = o->dims[d];
    if ((c_dims[0] != 1 && c_dims[0] != s->m) || (c_dims[1] != 1 && c_dims[1] != s->n)) {
      return rlx_fail(ctx, RLX_INVALID, "C does not broadcast to [%lld,%lld]", (long long)s->m, (long long)s->n);
    }
  }
  if (y->dtype == RLX_FLOAT) {
    finish_float(p, y->data, c->data, dims, c_dims);
  } else if (y->dtype == RLX_DOUBLE) {
    finish_double(p, y->data, c->data, dims, c_dims);
  } else {
    finish_int(p, y->data, c->data, dims, c_dims);
  }
  wide_store(y, &ctx->outputs[0]);
  return RLX_OK;
}

static rlx_status eval(rlx_ctx *ctx) {
  const gemm_params *p = ctx->params;
  const rlx_operand *a = &ctx->inputs[0], *b = &ctx->inputs[1];
  static const rlx_operand none;
  const rlx_operand *c = ctx->input_count > 2 ? &ctx->inputs[2] : &none;
  if (a->rank != 2 || b->rank != 2 || c->rank > 2) {
    return rlx_fail(ctx, RLX_INVALID, "operands of rank %d, %d and %d", a->rank, b->rank, c->rank);
  }
  matmul_shape s = {.m = a->dims[p->trans_a != 0], .k = a->dims[p->trans_a == 0], .n = b->dims[p->trans_b == 0]};
  s.count = 1;
  if (b->dims[p->trans_b != 0] != s.k) return rlx_fail(ctx, RLX_INVALID, "inner dimensions differ");
  rlx_dtype dtype = wide_dtype(a->dtype);
  wide wa = {0}, wb = {0}, wc = {0}, wy = {0};
  rlx_status status = wide_input(ctx, a, dtype, &wa);
  if (!status) status = wide_input(ctx, b, dtype, &wb);
  if (!status) status = wide_input(ctx, c, dtype, &wc);
  if (!status) status = wide_output(ctx, &ctx->outputs[0], dtype, &wy);
  if (!status) status = compute(ctx, &s, &wa, &wb, &wc, &wy);
  wide_finish(&wa), wide_finish(&wb), wide_finish(&wc), wide_finish(&wy);
  return status;
}

/* A product of two matrices as Gemm, each transposed or not. */
static rlx_value *product(rlx_graph *g, rlx_value *a, bool ta, rlx_value *b, bool tb, float alpha) {
  rlx_attr attrs[] = {RLX_ATTR_I("transA", ta), RLX_ATTR_I("transB", tb), RLX_ATTR_F("alpha", alpha)};
  return rlx_graph_op(g, "onnx.Gemm", attrs, 3, (rlx_value *[]){a, b}, 2);
}

static rlx_status vjp(rlx_graph *g, const rlx_node *n, rlx_value *const *dy, rlx_value **dx) {
  const gemm_params *p = rlx_node_params(n);
  rlx_value *a = rlx_node_input(n, 0), *b = rlx_node_input(n, 1), *c = rlx_node_input(n, 2), *d = dy[0];
  if (!d) return RLX_OK;
  bool ta = p->trans_a != 0, tb = p->trans_b != 0;
  dx[0] = ta ? product(g, b, tb, d, true, p->alpha) : product(g, d, false, b, !tb, p->alpha);
  dx[1] = tb ? product(g, d, true, a, ta, p->alpha) : product(g, a, !ta, d, false, p->alpha);
  if (c) {
    rlx_value *sum = rlx_graph_op(g, "rlx.sum_to_like", NULL, 0, (rlx_value *[]){d, c}, 2);
    if (p->beta != 1) {
      rlx_tensor *t;
      float beta = p->beta;
      rlx_status status = rlx_tensor_create(RLX_FLOAT, 0, NULL, &t);
      if (status) return rlx_graph_fail(g, status, "no memory for a constant");
      *(float *)rlx_tensor_data(t) = beta;
      rlx_value *scale = rlx_graph_constant(g, NULL, t);
      rlx_tensor_destroy(t);
      scale = rlx_graph_op(g, "onnx.CastLike", NULL, 0, (rlx_value *[]){scale, c}, 2);
      sum = rlx_graph_op(g, "onnx.Mul", NULL, 0, (rlx_value *[]){sum, scale}, 2);
    }
    dx[2] = sum;
  }
  return rlx_graph_status(g);
}

/* Before version 7, `broadcast` had to allow what C's shape now says by itself. */
static rlx_status lower_old(rlx_graph *g, const rlx_node *n, rlx_value **outputs) {
  const gemm_params *p = rlx_node_params(n);
  rlx_attr attrs[] = {RLX_ATTR_F("alpha", p->alpha), RLX_ATTR_F("beta", p->beta), RLX_ATTR_I("transA", p->trans_a),
                      RLX_ATTR_I("transB", p->trans_b)};
  rlx_value *inputs[] = {rlx_node_input(n, 0), rlx_node_input(n, 1), rlx_node_input(n, 2)};
  outputs[0] = rlx_graph_op(g, "onnx.Gemm", attrs, 4, inputs, 3);
  return rlx_graph_status(g);
}

#define GEMM_ATTRS                                                                                                     \
  {.name = "alpha", .kind = RLX_ATTR_FLOAT, .offset = offsetof(gemm_params, alpha), .default_float = 1},               \
      {.name = "beta", .kind = RLX_ATTR_FLOAT, .offset = offsetof(gemm_params, beta), .default_float = 1},             \
      {.name = "transA", .kind = RLX_ATTR_INT, .offset = offsetof(gemm_params, trans_a)},                              \
      {.name = "transB", .kind = RLX_ATTR_INT, .offset = offsetof(gemm_params, trans_b)}
static const rlx_attr_def attrs[] = {GEMM_ATTRS, {0}};
static const rlx_attr_def old_attrs[] = {
    GEMM_ATTRS, {.name = "broadcast", .kind = RLX_ATTR_INT, .offset = offsetof(gemm_params, broadcast)}, {0}};

#define GEMM_SET                                                                                                       \
  (RLX_SET_FLOATS | RLX_SET(RLX_INT32) | RLX_SET(RLX_INT64) | RLX_SET(RLX_UINT32) | RLX_SET(RLX_UINT64))
static const rlx_port outputs[] = {{"Y", "T", GEMM_SET, 0, 0}, {0}};

static const rlx_op gemm = {
    .struct_size = sizeof(rlx_op),
    .name = "onnx.Gemm",
    .version = 7,
    .doc = "Y = alpha A' B' + beta C, A' and B' transposed or not, C broadcast.",
    .samples =
        (const char *const[]){"float[3,4], float[4,5], float[5]", "float[4,3], float[5,4] {transA = 1, transB = 1}",
                              "double[3,4], double[4,5], double[3,1] {alpha = 0.5, beta = 2.0}", NULL},
    .inputs =
        (const rlx_port[]){
            {"A", "T", GEMM_SET, 0, 0}, {"B", "T", GEMM_SET, 0, 0}, {"C", "T", GEMM_SET, RLX_OPTIONAL, 0}, {0}},
    .outputs = outputs,
    .attrs = attrs,
    .params_size = sizeof(gemm_params),
    .traits = RLX_PURE,
    .infer = infer,
    .vjp = vjp,
    .eval = eval,
};

static const rlx_op gemm_old = {
    .struct_size = sizeof(rlx_op),
    .name = "onnx.Gemm",
    .version = 1,
    .samples = (const char *const[]){"float[2,3], float[3,4], float[4] {broadcast = 1}", NULL},
    .doc = "Y = alpha A' B' + beta C, with an attribute to allow C to broadcast.",
    .inputs =
        (const rlx_port[]){{"A", "T", GEMM_SET, 0, 0}, {"B", "T", GEMM_SET, 0, 0}, {"C", "T", GEMM_SET, 0, 0}, {0}},
    .outputs = outputs,
    .attrs = old_attrs,
    .params_size = sizeof(gemm_params),
    .traits = RLX_PURE,
    .infer = infer,
    .lower = lower_old,
};

static const rlx_op *const ops[] = {&gemm, &gemm_old, NULL};
const rlx_module ops_gemm = {.ops = ops};
