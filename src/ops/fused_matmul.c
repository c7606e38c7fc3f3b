/* fused_matmul.c — rlx.matmul: a matrix product, bias, the sum with another tensor and an activation, in one node. */
#include "ops/fused_matmul.h"

#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "ir/module.h"

static void swap_last(int rank, const int64_t *dims, int64_t *out) {
  memcpy(out, dims, (size_t)rank * sizeof *dims);
  out[rank - 1] = dims[rank - 2];
  out[rank - 2] = dims[rank - 1];
}

const char *fused_matmul_resolve(const fused_matmul_params *p, int a_rank, const int64_t *a, int b_rank,
                                 const int64_t *b, matmul_shape *out) {
  int64_t swapped[RLX_MAX_RANK];
  if (!p->trans_b) return matmul_resolve(a_rank, a, b_rank, b, out);
  if (b_rank < 2) return rlx_reason("B of rank %d has no axes to swap", b_rank);
  swap_last(b_rank, b, swapped);
  return matmul_resolve(a_rank, a, b_rank, swapped, out);
}

static rlx_status infer(rlx_infer *ctx) {
  const fused_matmul_params *p = rlx_infer_params(ctx);
  if (fused_activation_parse(&p->activation.name) == FUSED_UNKNOWN) {
    return rlx_fail(ctx, RLX_INVALID, "activation '%.*s' is not known",
                    (int)(p->activation.name.size > 40 ? 40 : p->activation.name.size), p->activation.name.data);
  }
  if (!p->trans_b) return matmul_infer(ctx, FUSED_MATMUL_A, FUSED_MATMUL_B);
  const rlx_type *a = rlx_infer_input(ctx, FUSED_MATMUL_A), *b = rlx_infer_input(ctx, FUSED_MATMUL_B);
  if (a->rank == RLX_UNKNOWN || b->rank == RLX_UNKNOWN) return RLX_OK;
  if (a->rank < 2 || b->rank != 2) {
    return rlx_fail(ctx, RLX_INVALID, "operands of rank %d and %d; B must be a matrix to be swapped", a->rank, b->rank);
  }
  int64_t dims[RLX_MAX_RANK], k = a->dims[a->rank - 1];
  if (k != RLX_UNKNOWN && b->dims[1] != RLX_UNKNOWN && k != b->dims[1]) {
    return rlx_fail(ctx, RLX_INVALID, "inner dimensions %lld and %lld differ", (long long)k, (long long)b->dims[1]);
  }
  memcpy(dims, a->dims, (size_t)a->rank * sizeof *dims);
  dims[a->rank - 1] = b->dims[0];
  rlx_infer_set(ctx, 0, a->rank, dims);
  return RLX_OK;
}

static const rlx_operand *optional(const rlx_ctx *ctx, int i) {
  return i < ctx->input_count && ctx->inputs[i].data ? &ctx->inputs[i] : NULL;
}

/* y = activation(y + bias + z) */
static void finish(const fused_matmul_params *p, const matmul_shape *s, const rlx_operand *bias, const rlx_operand *z,
                   const rlx_operand *y) {
  float *out = y->data;
  const float *b = bias ? bias->data : NULL, *add = z ? z->data : NULL;
  for (int64_t i = 0; i < y->count; i++) {
    if (b) out[i] += b[i % s->n];
    if (add) out[i] += add[i];
  }
  fused_activation_apply(fused_activation_parse(&p->activation.name), p->activation.alpha, p->activation.beta, out,
                         y->count);
}

static rlx_status eval(rlx_ctx *ctx) {
  const fused_matmul_params *p = ctx->params;
  const rlx_operand *a = &ctx->inputs[FUSED_MATMUL_A], *b = &ctx->inputs[FUSED_MATMUL_B], *y = &ctx->outputs[0];
  const rlx_operand *bias = optional(ctx, FUSED_MATMUL_BIAS), *z = optional(ctx, FUSED_MATMUL_Z);
  matmul_shape s;
  const char *bad = fused_matmul_resolve(p, a->rank, a->dims, b->rank, b->dims, &s);
  if (bad) return rlx_fail(ctx, RLX_INVALID, "%s", bad);
  if (bias && bias->count != s.n) {
    return rlx_fail(ctx, RLX_INVALID, "a bias of %lld elements for %lld columns", (long long)bias->count,
                    (long long)s.n);
  }
  if (z && z->count != y->count) return rlx_fail(ctx, RLX_INVALID, "Z is not of the output's shape");
  const float *from = b->data;
  float *swapped = NULL;
  if (p->trans_b) {
    swapped = mem_array((size_t)b->count, sizeof *swapped);
    if (!swapped) return rlx_fail(ctx, RLX_OUT_OF_MEMORY, "no memory for %lld elements", (long long)b->count);
    for (int64_t i = 0; i < b->count; i++) swapped[i % s.k * s.n + i / s.k] = from[i];
    from = swapped;
  }
  matmul_direct(ctx, &s, RLX_FLOAT, a->data, from, y->data);
  mem_free(swapped);
  finish(p, &s, bias, z, y);
  return RLX_OK;
}

static const rlx_attr_def attrs[] = {
    {.name = "transB", .kind = RLX_ATTR_INT, .offset = offsetof(fused_matmul_params, trans_b)},
    FUSED_ACTIVATION_ATTRS(fused_matmul_params),
    {0}};
#define FLOAT RLX_SET(RLX_FLOAT)
static const rlx_op op = {
    .struct_size = sizeof(rlx_op),
    .name = "rlx.matmul",
    .version = 1,
    .doc = "activation(MatMul(A, B) + bias + Z): what fusion makes of MatMul, Gemm and their surroundings. The bias is "
           "one a column, Z has the output's shape; with transB, B is a matrix given by its columns.",
    .samples = (const char *const[]){"float[2,3,4], float[4,5], float[5] {activation = \"Relu\"}",
                                     "float[3,4], float[5,4] {transB = 1}", NULL},
    .inputs = (const rlx_port[]){{"A", "T", FLOAT, 0, 0},
                                 {"B", "T", FLOAT, 0, 0},
                                 {"bias", "T", FLOAT, RLX_OPTIONAL, 0},
                                 {"Z", "T", FLOAT, RLX_OPTIONAL, 0},
                                 {0}},
    .outputs = (const rlx_port[]){{"Y", "T", FLOAT, 0, 0}, {0}},
    .attrs = attrs,
    .params_size = sizeof(fused_matmul_params),
    .traits = RLX_PURE,
    .no_derivative = "made by compiling, after derivatives",
    .infer = infer,
    .eval = eval,
};

const rlx_module ops_fused_matmul = {.ops = (const rlx_op *const[]){&op, NULL}};
