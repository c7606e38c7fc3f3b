/* matmul.c — onnx.MatMul, onnx.Gemm and rlx.matmul by oneDNN. */
#include <string.h>

#include "backend/cpu/kernels/_gemm.h"
#include "backend/cpu/onednn/_kernel.h"
#include "base/memory.h"
#include "base/status.h"
#include "ir/module.h"
#include "ops/fused_matmul.h"

/* What the three ops ask for. */
typedef struct product {
  bool trans_a, trans_b;
  float alpha, beta; /* of Gemm */
  fused_activation activation;
  float activation_alpha, activation_beta;
} product;

/* NULL primitive: K is 0 or there is no output. */
typedef struct state {
  onednn_primitive *primitive;
  bool preload; /* the output is filled with input 2, broadcast, before the product is added */
} state;

static product product_of_matmul(const void *params) {
  (void)params;
  return (product){.alpha = 1, .beta = 1};
}

static product product_of_gemm(const void *params) {
  const gemm_params *p = params;
  return (product){.trans_a = p->trans_a != 0, .trans_b = p->trans_b != 0, .alpha = p->alpha, .beta = p->beta};
}

static product product_of_fused(const void *params) {
  const fused_matmul_params *p = params;
  return (product){.trans_b = p->trans_b != 0,
                   .alpha = 1,
                   .beta = 1,
                   .activation = fused_activation_parse(&p->activation.name),
                   .activation_alpha = p->activation.alpha,
                   .activation_beta = p->activation.beta};
}

/* ---- support ------------------------------------------------------------------------------ */

static const char *why_not_types(const rlx_node *n, bool trans_a) {
  if (gemm_prefers_panels(n))
    return "the kernel over panels streams weights faster and compiles nothing for new extents";
  const rlx_type *a = rlx_node_input_type(n, 0), *b = rlx_node_input_type(n, 1);
  const char *bad = onednn_check_type(a, "A", 1, ONEDNN_RANK);
  if (!bad) bad = onednn_check_type(b, "B", 1, ONEDNN_RANK);
  if (bad) return bad;
  int64_t k = a->dims[trans_a ? 0 : a->rank - 1];
  if (k == 0) return "the inner dimension is 0";
  return k == RLX_UNKNOWN ? rlx_depends_on_extents : NULL;
}

static const char *why_not_bound_types(const rlx_bound *b, bool trans_a) {
  const rlx_type *a = rlx_bound_input(b, 0);
  return a->dims[trans_a ? 0 : a->rank - 1] == 0 ? "the inner dimension is 0" : NULL;
}

static const char *why_not_plain(const rlx_node *n) { return why_not_types(n, false); }
static const char *why_not_bound_plain(const rlx_bound *b) { return why_not_bound_types(b, false); }
static const char *why_not_gemm(const rlx_node *n) {
  const gemm_params *p = rlx_node_params(n);
  return why_not_types(n, p->trans_a != 0);
}
static const char *why_not_bound_gemm(const rlx_bound *b) {
  const gemm_params *p = rlx_bound_params(b);
  return why_not_bound_types(b, p->trans_a != 0);
}

/* ---- shapes ------------------------------------------------------------------------------- */

static int64_t matrices(const int64_t *step, const matmul_shape *s) {
  int64_t count = 1;
  for (int d = 0; d < s->rank; d++) count *= step[d] ? s->batch[d] : 1;
  return count;
}

/* The operand's matrices: its batch dims where it has them, else 1. */
static onednn_tensor batched(const matmul_shape *s, const int64_t *step, int64_t rows, int64_t columns, bool swapped) {
  onednn_tensor t = {.format = swapped ? ONEDNN_DENSE_SWAPPED : ONEDNN_DENSE, .rank = s->rank + 2};
  for (int d = 0; d < s->rank; d++) t.dims[d] = !step || step[d] ? s->batch[d] : 1;
  t.dims[s->rank] = rows;
  t.dims[s->rank + 1] = columns;
  return t;
}

/* One matrix B for all of A makes one product; equal batches make one batch dim. */
static void simplify(matmul_shape *s, bool trans_a) {
  int64_t a = matrices(s->a_step, s), b = matrices(s->b_step, s);
  if (b == 1 && !trans_a && a == s->count) {
    s->m *= s->count;
    s->count = 1;
    s->rank = 0;
  } else if ((a == s->count || a == 1) && (b == s->count || b == 1)) {
    s->rank = 1;
    s->batch[0] = s->count;
    s->a_step[0] = a == 1 ? 0 : 1;
    s->b_step[0] = b == 1 ? 0 : 1;
  }
}

static void describe_shape(const matmul_shape *s, const product *p, onednn_matmul_desc *d) {
  d->src = batched(s, s->a_step, s->m, s->k, p->trans_a);
  d->weights = batched(s, s->b_step, s->k, s->n, p->trans_b);
  d->dst = batched(s, NULL, s->m, s->n, false);
}

static onednn_tensor bias_tensor(const matmul_shape *s) {
  onednn_tensor t = {.format = ONEDNN_DENSE, .rank = s->rank + 2};
  for (int d = 0; d < t.rank; d++) t.dims[d] = 1;
  t.dims[t.rank - 1] = s->n;
  return t;
}

/* ---- preparing ---------------------------------------------------------------------------- */

static rlx_status finish(rlx_bound *b, onednn_matmul_desc *d, bool preload, void **out) {
  *out = NULL;
  if (onednn_has_zero(rlx_bound_output(b, 0))) return RLX_OK;
  state *s = mem_zalloc(sizeof *s);
  if (!s) return rlx_fail(b, RLX_OUT_OF_MEMORY, "no memory for the kernel's state");
  s->preload = preload;
  d->pack = rlx_bound_constant(b, 1) != NULL;
  rlx_status status = onednn_make_matmul(b, rlx_bound_threads(b), d, &s->primitive);
  if (status != RLX_OK) {
    mem_free(s);
    return status;
  }
  *out = s;
  return RLX_OK;
}

static rlx_status prepare_product(rlx_bound *b, const product *p, matmul_shape *s, void **out) {
  onednn_matmul_desc d = {.post = {0}};
  simplify(s, p->trans_a);
  describe_shape(s, p, &d);
  const rlx_type *bias = rlx_bound_input(b, FUSED_MATMUL_BIAS);
  if (bias && (bias->rank != 1 || bias->dims[0] != s->n)) {
    return rlx_fail(b, RLX_INVALID, "the bias does not have %lld elements", (long long)s->n);
  }
  if (bias) d.bias = bias_tensor(s);
  bool sum = rlx_bound_input(b, FUSED_MATMUL_Z) != NULL;
  if (sum) d.post.ops[d.post.count++] = (onednn_post_op){ONEDNN_SUM, 1, 0};
  if (!onednn_add_activation(&d.post, p->activation, p->activation_alpha, p->activation_beta)) {
    return rlx_fail(b, RLX_UNSUPPORTED, "oneDNN has no such activation");
  }
  return finish(b, &d, false, out);
}

static rlx_status prepare_matmul(rlx_bound *b, void **out) {
  const rlx_type *x = rlx_bound_input(b, 0), *y = rlx_bound_input(b, 1);
  product p = product_of_matmul(NULL);
  matmul_shape s;
  const char *bad = matmul_resolve(x->rank, x->dims, y->rank, y->dims, &s);
  return bad ? rlx_fail(b, RLX_INVALID, "%s", bad) : prepare_product(b, &p, &s, out);
}

static rlx_status prepare_fused(rlx_bound *b, void **out) {
  const rlx_type *x = rlx_bound_input(b, 0), *y = rlx_bound_input(b, 1);
  product p = product_of_fused(rlx_bound_params(b));
  matmul_shape s;
  const char *bad = fused_matmul_resolve(rlx_bound_params(b), x->rank, x->dims, y->rank, y->dims, &s);
  return bad ? rlx_fail(b, RLX_INVALID, "%s", bad) : prepare_product(b, &p, &s, out);
}

/* C is a bias if it has one element a column and is not scaled; else it is put into the output first. */
static rlx_status prepare_gemm(rlx_bound *b, void **out) {
  const rlx_type *x = rlx_bound_input(b, 0), *y = rlx_bound_input(b, 1), *c = rlx_bound_input(b, 2);
  const gemm_params *g = rlx_bound_params(b);
  product p = product_of_gemm(g);
  if (x->rank != 2 || y->rank != 2) return rlx_fail(b, RLX_INVALID, "operands of rank %d and %d", x->rank, y->rank);
  matmul_shape s = {.m = x->dims[p.trans_a], .k = x->dims[!p.trans_a], .n = y->dims[!p.trans_b], .count = 1};
  if (y->dims[p.trans_b] != s.k) return rlx_fail(b, RLX_INVALID, "inner dimensions differ");
  onednn_matmul_desc d = {.post = {0}};
  describe_shape(&s, &p, &d);
  bool add = c && p.beta != 0;
  bool is_bias = add && p.alpha == 1 && p.beta == 1 && c->rank >= 1 && c->dims[c->rank - 1] == s.n &&
                 (c->rank == 1 || c->dims[0] == 1);
  if (is_bias) d.bias = bias_tensor(&s);
  if (p.alpha != 1) d.post.ops[d.post.count++] = (onednn_post_op){ONEDNN_LINEAR, p.alpha, 0};
  if (add && !is_bias) d.post.ops[d.post.count++] = (onednn_post_op){ONEDNN_SUM, p.beta, 0};
  return finish(b, &d, add && !is_bias, out);
}

static void release(void *p) {
  state *s = p;
  if (s) onednn_destroy(s->primitive);
  mem_free(s);
}

static rlx_status packing(rlx_bound *b, const void *p, int input, rlx_packing *out) {
  (void)b;
  const state *s = p;
  if (s && input == 1) onednn_packing(s->primitive, out);
  return RLX_OK;
}

static rlx_status pack(rlx_bound *b, const void *p, int input, const rlx_operand *from, void *to) {
  (void)input;
  return onednn_pack(b, ((const state *)p)->primitive, from->data, to);
}

static int64_t workspace(rlx_bound *b, const void *p) {
  const state *s = p;
  return s ? onednn_workspace(s->primitive, rlx_bound_constant(b, 1) != NULL) : 0;
}

static rlx_status run_init(const void *p, void **run_state) {
  const state *s = p;
  return onednn_run_init(s ? s->primitive : NULL, run_state);
}

/* ---- running ------------------------------------------------------------------------------ */

/* Fills y with c, broadcast. */
static void fill(const rlx_operand *c, const rlx_operand *y) {
  int64_t rows = y->dims[0], columns = y->dims[1];
  int64_t c_rows = c->rank == 2 ? c->dims[0] : 1, c_columns = c->rank ? c->dims[c->rank - 1] : 1;
  float *to = y->data;
  for (int64_t i = 0; i < rows; i++) {
    const float *from = (const float *)c->data + (c_rows == 1 ? 0 : i * c_columns);
    for (int64_t j = 0; j < columns; j++) to[i * columns + j] = from[c_columns == 1 ? 0 : j];
  }
}

static rlx_status run(rlx_ctx *ctx) {
  const state *s = ctx->state;
  rlx_operand *y = &ctx->outputs[0];
  if (!s) return RLX_OK;
  const rlx_operand *c = ctx->input_count > FUSED_MATMUL_BIAS ? &ctx->inputs[FUSED_MATMUL_BIAS] : NULL;
  const rlx_operand *z = ctx->input_count > FUSED_MATMUL_Z ? &ctx->inputs[FUSED_MATMUL_Z] : NULL;
  if (s->preload) fill(c, y);
  if (z && z->data && z->data != y->data) memcpy(y->data, z->data, (size_t)y->bytes);
  onednn_args args = {.src = ctx->inputs[0].data,
                      .weights = ctx->inputs[1].data,
                      .bias = c ? c->data : NULL,
                      .dst = y->data,
                      .workspace = ctx->workspace,
                      .packed = ctx->inputs[1].packed != 0};
  return onednn_execute(ctx, s->primitive, ctx->run_state, &args);
}

#define HEAD(op_name, why_not_fn, why_not_bound_fn, prepare_fn)                                                        \
  .op = (op_name), .name = "onednn", .why_not = (why_not_fn), .why_not_bound = (why_not_bound_fn),                     \
  .packing = packing, .pack = pack, .workspace = workspace, .prepare = (prepare_fn), .release = release,               \
  .run_init = run_init, .run_done = onednn_run_done

static const rlx_cpu_kernel matmul = {.struct_size = sizeof(rlx_cpu_kernel),
                                      .head = {HEAD("onnx.MatMul", why_not_plain, why_not_bound_plain, prepare_matmul)},
                                      .run = run};
static const rlx_cpu_kernel gemm = {
    .struct_size = sizeof(rlx_cpu_kernel),
    .head = {HEAD("onnx.Gemm", why_not_gemm, why_not_bound_gemm, prepare_gemm), .version_min = 7},
    .run = run};
static const rlx_pair fused_in_place[] = {{0, FUSED_MATMUL_Z}};
static const rlx_cpu_kernel fused = {.struct_size = sizeof(rlx_cpu_kernel),
                                     .head = {HEAD("rlx.matmul", why_not_plain, why_not_bound_plain, prepare_fused),
                                              .in_place = fused_in_place, .in_place_count = 1},
                                     .run = run};

const rlx_module onednn_matmul = {.kernels = (const rlx_cpu_kernel *const[]){&matmul, &gemm, &fused, NULL}};
