/* attention.h — parameters and geometry of scaled dot-product attention, for the op record and for kernels. */
#ifndef OPS_ATTENTION_H
#define OPS_ATTENTION_H

#include <rlx/extend.h>

typedef struct attention_params {
  uint64_t given;
  int64_t is_causal, q_num_heads, kv_num_heads, qk_matmul_output_mode, softmax_precision;
  int64_t left_window_size, right_window_size;
  float scale, softcap; /* scale 0: not given, 1 / sqrt(head size) */
} attention_params;

enum { ATTENTION_Q, ATTENTION_K, ATTENTION_V, ATTENTION_MASK, ATTENTION_PAST_K, ATTENTION_PAST_V, ATTENTION_LENGTHS };

/* Sizes of a run. packed: operands are batch × length × (heads · size), else batch × heads × length × size. */
typedef struct attention_shape {
  bool packed;
  int64_t batch, q_heads, kv_heads, q_length, kv_length, past, total, size, v_size;
  double scale;
} attention_shape;

rlx_status attention_of_run(rlx_ctx *ctx, attention_shape *out);
/* First element of a head's row in an operand with `heads` heads of `length` rows of `size`. */
static inline int64_t attention_at(bool packed, int64_t heads, int64_t length, int64_t size, int64_t batch,
                                   int64_t head, int64_t row) {
  return packed ? ((batch * length + row) * heads + head) * size : ((batch * heads + head) * length + row) * size;
}
/* What is added to the score of query `row` and key `column`: the mask, -infinity where attending is not allowed. */
double attention_bias(const rlx_ctx *ctx, const attention_shape *s, int64_t batch, int64_t head, int64_t row,
                      int64_t column);

rlx_status attention_derive(rlx_graph *g, const rlx_node *n, rlx_value **outputs);

#endif
