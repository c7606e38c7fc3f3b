/* _einsum.h — Einsum's equation as labels of each operand. */
#ifndef OPS_EINSUM_H
#define OPS_EINSUM_H

#include "ops/_move.h"

/* Letters are 0..51; dims of an ellipsis 52 + (distance from the ellipsis' last dim). */
enum { EINSUM_LABELS = 52 + RLX_MAX_RANK, EINSUM_ELLIPSIS = 52, EINSUM_OPERANDS = 64 };

/* One operand's term, or the output's. */
typedef struct einsum_term {
  int count;                   /* letters and, if any, the ellipsis */
  int8_t label[EINSUM_LABELS]; /* a letter, or EINSUM_ELLIPSIS for the whole ellipsis */
  bool has_ellipsis;
} einsum_term;

typedef struct einsum_equation {
  int operands;
  einsum_term input[EINSUM_OPERANDS];
  einsum_term output;
} einsum_equation;

rlx_status einsum_parse(const void *context, rlx_string text, int operands, einsum_equation *out);
/* A term's labels once its rank is known: ellipsis spelled out. */
typedef struct einsum_dims {
  int rank;
  int8_t label[EINSUM_LABELS];
} einsum_dims;
rlx_status einsum_spell(const void *context, const einsum_term *t, int rank, einsum_dims *out);
/* Extent of every label over all operands (RLX_UNKNOWN: unknown; -2: not used). dims[i] are operand i's. */
rlx_status einsum_extents(const void *context, const einsum_dims *terms, const int64_t *const *dims, int operands,
                          int64_t extents[EINSUM_LABELS]);
/* Dims that the ellipsis of operand i stands for. */
int einsum_ellipsis_rank(const einsum_term *t, int rank);

/* One matrix product, where the equation is one; otherwise fails with UNSUPPORTED. */
rlx_status einsum_lower(rlx_graph *g, const rlx_node *n, const einsum_equation *e, rlx_value **outputs);

#endif
