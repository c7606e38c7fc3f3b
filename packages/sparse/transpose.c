/* transpose.c — sparse.transpose and transpose_values: a matrix in CSR turned into its transposed one. */
#include <stdlib.h>
#include <string.h>

#include "sparse.h"

/* ---- transpose --------------------------------------------------------------------------------------------------- */

static rlx_status infer_transpose(rlx_infer *ctx) {
  csr_known a;
  int64_t cols;
  rlx_status status = infer_csr(ctx, 0, &a);
  if (status == RLX_OK) status = infer_columns(ctx, 3, a.rows, &cols);
  if (status != RLX_OK) return status;
  int64_t pointers = cols == RLX_UNKNOWN ? RLX_UNKNOWN : cols + 1;
  rlx_infer_set(ctx, 0, 1, &a.entries);
  rlx_infer_set(ctx, 1, 1, &a.entries);
  rlx_infer_set(ctx, 2, 1, &pointers);
  return RLX_OK;
}

static rlx_status eval_transpose(rlx_ctx *ctx) {
  csr a = csr_of(ctx, 0, ctx->outputs[2].count - 1);
  const csr_calls *calls = csr_calls_of(a.type, a.index);
  rlx_status status = calls->check(ctx, &a);
  if (status == RLX_OK) calls->transpose(&a, ctx->outputs[0].data, ctx->outputs[1].data, ctx->outputs[2].data, NULL);
  return status;
}

/* ---- transpose_values -------------------------------------------------------------------------------------------- */

typedef struct values_params {
  uint64_t given;
  int64_t inverse;
} values_params;

static const rlx_attr_def values_attrs[] = {{.name = "inverse",
                                             .kind = RLX_ATTR_INT,
                                             .flags = RLX_RANGED,
                                             .offset = offsetof(values_params, inverse),
                                             .max = 1},
                                            {0}};

static rlx_status infer_values(rlx_infer *ctx) {
  csr_known a;
  int64_t cols;
  rlx_status status = infer_csr(ctx, 0, &a);
  if (status == RLX_OK) status = infer_columns(ctx, 3, a.rows, &cols);
  if (status == RLX_OK) rlx_infer_set(ctx, 0, 1, &a.entries);
  return status;
}

static void gather(csr *a, const csr_calls *calls, void *pointers, int64_t *place, const rlx_operand *out) {
  calls->transpose(a, NULL, NULL, pointers, place);
  if (a->type == RLX_DOUBLE) {
    for (int64_t k = 0; k < a->entries; k++) ((double *)out->data)[k] = ((const double *)a->values)[place[k]];
  } else {
    for (int64_t k = 0; k < a->entries; k++) ((float *)out->data)[k] = ((const float *)a->values)[place[k]];
  }
}

static rlx_status eval_values(rlx_ctx *ctx) {
  const values_params *p = ctx->params;
  csr a = csr_of(ctx, 0, 0);
  rlx_status status = csr_columns(ctx, 3, a.rows, &a.cols);
  const csr_calls *calls = csr_calls_of(a.type, a.index);
  if (status == RLX_OK) status = calls->check(ctx, &a);
  if (status != RLX_OK) return status;
  void *pointers = NULL;
  int64_t *place = p->inverse ? malloc((size_t)(a.entries + 1) * sizeof *place) : NULL;
  if (a.cols < INT64_MAX / 16) pointers = malloc((size_t)((a.cols + 1) * csr_index_bytes(a.index)));
  if (!pointers || (p->inverse && !place))
    status = rlx_fail(ctx, RLX_OUT_OF_MEMORY, "no memory for %lld columns", (long long)a.cols);
  else if (p->inverse)
    gather(&a, calls, pointers, place, &ctx->outputs[0]);
  else
    calls->transpose(&a, ctx->outputs[0].data, NULL, pointers, NULL);
  free(pointers);
  free(place);
  return status;
}

/* ---- derivatives ------------------------------------------------------------------------------------------------- */

static rlx_value *values_of(rlx_graph *g, const rlx_node *n, rlx_value *values, int64_t inverse) {
  if (!values) return NULL;
  rlx_attr attr = RLX_ATTR_I("inverse", inverse);
  rlx_value *columns = rlx_node_input(n, 3);
  return rlx_graph_op(g, "sparse.transpose_values", &attr, 1,
                      (rlx_value *[]){values, rlx_node_input(n, 1), rlx_node_input(n, 2), columns}, columns ? 4 : 3);
}

static rlx_status vjp_transpose(rlx_graph *g, const rlx_node *n, rlx_value *const *dy, rlx_value **dx) {
  dx[0] = values_of(g, n, dy[0], 1);
  return rlx_graph_status(g);
}
static rlx_status jvp_transpose(rlx_graph *g, const rlx_node *n, rlx_value *const *dx, rlx_value **dy) {
  dy[0] = values_of(g, n, dx[0], 0);
  return rlx_graph_status(g);
}
static rlx_status vjp_values(rlx_graph *g, const rlx_node *n, rlx_value *const *dy, rlx_value **dx) {
  dx[0] = values_of(g, n, dy[0], !((const values_params *)rlx_node_params(n))->inverse);
  return rlx_graph_status(g);
}
static rlx_status jvp_values(rlx_graph *g, const rlx_node *n, rlx_value *const *dx, rlx_value **dy) {
  dy[0] = values_of(g, n, dx[0], ((const values_params *)rlx_node_params(n))->inverse);
  return rlx_graph_status(g);
}

/* ---- records ----------------------------------------------------------------------------------------------------- */

#define PATTERN "int64[5] = {1, 0, 3, 2, 0}, int64[4] = {0, 2, 2, 5}"

static const rlx_port inputs[] = {SPARSE_MATRIX(""), SPARSE_COLUMNS, {0}};
static const rlx_op transpose = {
    .struct_size = sizeof(rlx_op),
    .name = "sparse.transpose",
    .doc = "The transposed matrix in CSR. Entries of one row keep the order of the rows they come from; those of one "
           "place "
           "are kept apart. The matrix has as many columns as the input `columns` says: as rows, if it is left out.",
    .samples = (const char *const[]){"double[5], " PATTERN ", int64[1] = {4}",
                                     "float[2], int32[2] = {1, 1}, int32[3] = {0, 1, 2}", NULL},
    .inputs = inputs,
    .outputs = (const rlx_port[]){SPARSE_MATRIX(""), {0}},
    .traits = RLX_PURE,
    .infer = infer_transpose,
    .vjp = vjp_transpose,
    .jvp = jvp_transpose,
    .eval = eval_transpose,
};
static const rlx_op transpose_values = {
    .struct_size = sizeof(rlx_op),
    .name = "sparse.transpose_values",
    .doc = "The values of sparse.transpose, without its pattern; or with `inverse`, values given in the transposed "
           "matrix's order brought back into that of col_idx and row_ptr.",
    .samples = (const char *const[]){"double[5], " PATTERN ", int64[1] = {4}",
                                     "double[5], " PATTERN ", int64[1] = {4} {inverse = 1}",
                                     "float[2], int32[2] = {1, 1}, int32[3] = {0, 1, 2}", NULL},
    .inputs = inputs,
    .outputs = (const rlx_port[]){SPARSE_T("values"), {0}},
    .attrs = values_attrs,
    .params_size = sizeof(values_params),
    .traits = RLX_PURE,
    .infer = infer_values,
    .vjp = vjp_values,
    .jvp = jvp_values,
    .eval = eval_values,
};

const sparse_part sparse_transpose = {.ops = (const rlx_op *const[]){&transpose, &transpose_values, NULL}};
