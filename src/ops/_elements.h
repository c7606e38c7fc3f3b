/* _elements.h — addressing of GatherElements and ScatterElements, and combining of ScatterND's updates. */
#ifndef OPS_ELEMENTS_H
#define OPS_ELEMENTS_H

#include "ops/_move.h"

/* Where element rows of an indices tensor lie in the data it indexes. */
typedef struct element_rows {
  int rank, axis;
  int64_t dims[RLX_MAX_RANK];   /* of the indices */
  int64_t stride[RLX_MAX_RANK]; /* of the data */
  int64_t extent;               /* of the data's axis */
  int64_t rows, length;         /* rows of the indices and their length */
} element_rows;

/* Checks that the indices fit the data; for inference dims may be unknown. */
rlx_status elements_check(const void *context, const rlx_type *data, const rlx_type *indices);
void elements_prepare(element_rows *e, const rlx_operand *data, const rlx_operand *indices, int64_t axis);
/* Offset in the data of row r, apart from the axis' contribution. */
int64_t elements_offset(const element_rows *e, int64_t r);

typedef enum reduction { SCATTER_NONE, SCATTER_ADD, SCATTER_MUL, SCATTER_MAX, SCATTER_MIN } reduction;
/* From the attribute's text. */
rlx_status reduction_parse(const void *context, rlx_string text, reduction *out);
/* to[i] = to[i] (op) from[i] for n elements. UNSUPPORTED without a message for strings and complex. */
rlx_status reduction_apply(reduction op, rlx_dtype dtype, void *to, const void *from, int64_t n);

/* The evals; the output may lie on input 0. */
rlx_status scatter_elements_run(rlx_ctx *ctx);
rlx_status scatter_nd_run(rlx_ctx *ctx);

#endif
