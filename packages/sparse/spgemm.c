/* spgemm.c — sparse.spgemm, the product of two sparse matrices, and sparse.spgemm_grad, its derivative. */
#include <stdlib.h>
#include <string.h>

#include "sparse.h"

#define T float
#define I int32_t
#define F(name) name##_float_int32
#include "spgemm_body.h"

#define T float
#define I int64_t
#define F(name) name##_float_int64
#include "spgemm_body.h"

#define T double
#define I int32_t
#define F(name) name##_double_int32
#include "spgemm_body.h"

#define T double
#define I int64_t
#define F(name) name##_double_int64
#include "spgemm_body.h"

/* The matrices at inputs 0 and 3; A has as many columns as B has rows. */
static rlx_status infer_factors(rlx_infer *ctx, csr_known *a, csr_known *b) {
  rlx_status status = infer_csr(ctx, 0, a);
  return status == RLX_OK ? infer_csr(ctx, 3, b) : status;
}

static rlx_status factors(rlx_ctx *ctx, int columns, csr *a, csr *b) {
  *b = csr_of(ctx, 3, 0);
  *a = csr_of(ctx, 0, b->rows);
  rlx_status status = csr_columns(ctx, columns, b->rows, &b->cols);
  if (status == RLX_OK && b->cols > INT64_MAX / 16)
    status = rlx_fail(ctx, RLX_INVALID, "columns is %lld", (long long)b->cols);
  if (status == RLX_OK && b->index == RLX_INT32 && (b->cols > INT32_MAX || a->rows > INT32_MAX - 1))
    status = rlx_fail(ctx, RLX_INVALID, "%lld rows and %lld columns are more than int32 indices count",
                      (long long)a->rows, (long long)b->cols);
  if (status == RLX_OK) status = csr_calls_of(a->type, a->index)->check(ctx, a);
  return status == RLX_OK ? csr_calls_of(b->type, b->index)->check(ctx, b) : status;
}

/* ---- spgemm ------------------------------------------------------------------------------------------------------ */

static rlx_status infer_spgemm(rlx_infer *ctx) {
  csr_known a, b;
  rlx_status status = infer_factors(ctx, &a, &b);
  if (status != RLX_OK) return status;
  int64_t unknown = RLX_UNKNOWN, pointers = a.rows == RLX_UNKNOWN ? RLX_UNKNOWN : a.rows + 1;
  rlx_infer_set(ctx, 0, 1, &unknown);
  rlx_infer_set(ctx, 1, 1, &unknown);
  rlx_infer_set(ctx, 2, 1, &pointers);
  return RLX_OK;
}

static rlx_status eval_spgemm(rlx_ctx *ctx) {
  csr a, b;
  rlx_status status = factors(ctx, 6, &a, &b);
  if (status != RLX_OK) return status;
  bool single = a.type == RLX_FLOAT;
  if (a.index == RLX_INT32) return single ? product_float_int32(ctx, &a, &b) : product_double_int32(ctx, &a, &b);
  return single ? product_float_int64(ctx, &a, &b) : product_double_int64(ctx, &a, &b);
}

static rlx_status vjp_spgemm(rlx_graph *g, const rlx_node *n, rlx_value *const *dy, rlx_value **dx) {
  if (!dy[0]) return RLX_OK;
  rlx_value *inputs[9];
  for (int i = 0; i < 6; i++) inputs[i] = rlx_node_input(n, i);
  inputs[6] = dy[0];
  inputs[7] = rlx_node_output(n, 1);
  inputs[8] = rlx_node_output(n, 2);
  rlx_node_desc desc = {
      .struct_size = sizeof desc, .op = "sparse.spgemm_grad", .inputs = inputs, .input_count = 9, .output_count = 2};
  rlx_node *made = rlx_graph_node(g, &desc);
  if (made) {
    dx[0] = rlx_node_output(made, 0);
    dx[3] = rlx_node_output(made, 1);
  }
  return rlx_graph_status(g);
}

/* The pattern is that of the factors' patterns, whatever the values: dA B + A dB entry by entry. */
static rlx_status jvp_spgemm(rlx_graph *g, const rlx_node *n, rlx_value *const *dx, rlx_value **dy) {
  rlx_value *sum = NULL;
  for (int i = 0; i < 6; i += 3) {
    if (!dx[i]) continue;
    rlx_value *inputs[7];
    for (int k = 0; k < 7; k++) inputs[k] = rlx_node_input(n, k);
    inputs[i] = dx[i];
    rlx_node_desc desc = {.struct_size = sizeof desc,
                          .op = "sparse.spgemm",
                          .inputs = inputs,
                          .input_count = inputs[6] ? 7 : 6,
                          .output_count = 3};
    rlx_node *made = rlx_graph_node(g, &desc);
    if (made) sum = build_add(g, sum, rlx_node_output(made, 0));
  }
  dy[0] = sum;
  return rlx_graph_status(g);
}

/* ---- spgemm_grad ------------------------------------------------------------------------------------------------- */

static rlx_status infer_grad(rlx_infer *ctx) {
  csr_known a, b, c;
  rlx_status status = infer_factors(ctx, &a, &b);
  if (status == RLX_OK) status = infer_csr(ctx, 6, &c);
  if (status != RLX_OK) return status;
  if (a.rows != RLX_UNKNOWN && c.rows != RLX_UNKNOWN && a.rows != c.rows)
    return rlx_fail(ctx, RLX_INVALID, "the product has %lld rows, its first factor %lld", (long long)c.rows,
                    (long long)a.rows);
  rlx_infer_set(ctx, 0, 1, &a.entries);
  rlx_infer_set(ctx, 1, 1, &b.entries);
  return RLX_OK;
}

/* How many columns B has is not said here: the entries of the product tell. */
static rlx_status eval_grad(rlx_ctx *ctx) {
  csr b = csr_of(ctx, 3, INT64_MAX), a = csr_of(ctx, 0, b.rows), c = csr_of(ctx, 6, INT64_MAX);
  const csr_calls *calls = csr_calls_of(a.type, a.index);
  rlx_status status = calls->check(ctx, &a);
  if (status == RLX_OK) status = calls->check(ctx, &b);
  if (status == RLX_OK) status = calls->check(ctx, &c);
  if (status != RLX_OK) return status;
  void *da = ctx->outputs[0].data, *db = ctx->outputs[1].data;
  bool narrow = a.index == RLX_INT32, single = a.type == RLX_FLOAT;
  bool done = narrow && single ? gradient_float_int32(&a, &b, &c, da, db)
              : narrow         ? gradient_double_int32(&a, &b, &c, da, db)
              : single         ? gradient_float_int64(&a, &b, &c, da, db)
                               : gradient_double_int64(&a, &b, &c, da, db);
  return done ? RLX_OK : rlx_fail(ctx, RLX_INVALID, "the gradient's pattern is not that of the product, sorted");
}

/* ---- records ----------------------------------------------------------------------------------------------------- */

#define PATTERN_A "int64[4] = {1, 0, 2, 1}, int64[3] = {0, 2, 4}"
#define PATTERN_B "int64[3] = {2, 0, 1}, int64[4] = {0, 1, 2, 3}"
#define PATTERN_C "int64[4] = {0, 2, 0, 1}, int64[3] = {0, 2, 4}"

static const rlx_op spgemm = {
    .struct_size = sizeof(rlx_op),
    .name = "sparse.spgemm",
    .doc = "The product of two sparse matrices in CSR: its values, sorted column indices and row pointers. Every place "
           "where "
           "entries of the factors meet is kept, also if it sums to zero. B has as many columns as the input `columns` "
           "says: as rows, if it is left out.",
    .samples = (const char *const[]){"double[4], " PATTERN_A ", double[3], " PATTERN_B,
                                     "float[4], " PATTERN_A ", float[3], " PATTERN_B ", int64[1] = {7}", NULL},
    .inputs = (const rlx_port[]){SPARSE_MATRIX("a_"), SPARSE_MATRIX("b_"), SPARSE_COLUMNS, {0}},
    .outputs = (const rlx_port[]){SPARSE_MATRIX(""), {0}},
    .traits = RLX_PURE,
    .infer = infer_spgemm,
    .vjp = vjp_spgemm,
    .jvp = jvp_spgemm,
    .eval = eval_spgemm,
};
static const rlx_op spgemm_grad = {
    .struct_size = sizeof(rlx_op),
    .name = "sparse.spgemm_grad",
    .doc = "The gradients of the values of both factors of sparse.spgemm, from the gradient of its values and its "
           "pattern.",
    .samples = (const char *const[]){"double[4], " PATTERN_A ", double[3], " PATTERN_B ", double[4], " PATTERN_C, NULL},
    .inputs = (const rlx_port[]){SPARSE_MATRIX("a_"), SPARSE_MATRIX("b_"), SPARSE_MATRIX("grad_"), {0}},
    .outputs = (const rlx_port[]){SPARSE_T("a_grad"), SPARSE_T("b_grad"), {0}},
    .traits = RLX_PURE,
    .infer = infer_grad,
    .eval = eval_grad,
};

const sparse_part sparse_spgemm = {.ops = (const rlx_op *const[]){&spgemm, &spgemm_grad, NULL}};
