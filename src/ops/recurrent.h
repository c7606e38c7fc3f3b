/* recurrent.h — parameters and geometry of RNN, GRU and LSTM, for the op records and for kernels. */
#ifndef OPS_RECURRENT_H
#define OPS_RECURRENT_H

#include <rlx/extend.h>

typedef struct recurrent_params {
  uint64_t given;
  rlx_string direction;
  int64_t hidden_size;
  rlx_strings activations;
  rlx_floats activation_alpha, activation_beta;
  float clip; /* 0: none */
  int64_t layout, input_forget, linear_before_reset;
  int64_t output_sequence; /* version 1, without meaning: Y is optional */
} recurrent_params;

typedef enum recurrent_kind { RECURRENT_RNN, RECURRENT_GRU, RECURRENT_LSTM } recurrent_kind;
/* Rows of W per hidden unit; activation functions per direction. */
static inline int recurrent_gates(recurrent_kind k) { return k == RECURRENT_LSTM ? 4 : k == RECURRENT_GRU ? 3 : 1; }
static inline int recurrent_functions(recurrent_kind k) { return k == RECURRENT_LSTM ? 3 : k == RECURRENT_GRU ? 2 : 1; }

typedef enum activation_kind {
  ACTIVATION_TANH,
  ACTIVATION_SIGMOID,
  ACTIVATION_RELU,
  ACTIVATION_AFFINE,
  ACTIVATION_LEAKY_RELU,
  ACTIVATION_THRESHOLDED_RELU,
  ACTIVATION_SCALED_TANH,
  ACTIVATION_HARD_SIGMOID,
  ACTIVATION_ELU,
  ACTIVATION_SOFTSIGN,
  ACTIVATION_SOFTPLUS
} activation_kind;

typedef struct activation {
  activation_kind kind;
  double alpha, beta;
} activation;

double activation_apply(const activation *a, double x);

typedef struct recurrent_shape {
  recurrent_kind kind;
  int directions;     /* 1 or 2 */
  bool reverse_first; /* direction 0 runs backwards */
  bool batch_first;   /* layout 1 */
  int64_t steps, batch, input, hidden;
  activation functions[2][3]; /* by direction: f, g, h */
} recurrent_shape;

enum { RECURRENT_X, RECURRENT_W, RECURRENT_R, RECURRENT_B, RECURRENT_LENGTHS, RECURRENT_H, RECURRENT_C, RECURRENT_P };

/* Directions and activations from the attributes; NULL, or what is wrong, in the buffer of rlx_reason. */
const char *recurrent_attributes(recurrent_kind kind, const recurrent_params *p, recurrent_shape *out);
/* Sizes too, checking every operand of a run. */
rlx_status recurrent_of_run(rlx_ctx *ctx, recurrent_kind kind, recurrent_shape *out);

/* Element offsets of X at a step, of Y, and of a state, for one sample and direction. */
static inline int64_t recurrent_x_at(const recurrent_shape *s, int64_t step, int64_t sample) {
  return (s->batch_first ? sample * s->steps + step : step * s->batch + sample) * s->input;
}
static inline int64_t recurrent_y_at(const recurrent_shape *s, int64_t step, int direction, int64_t sample) {
  return (s->batch_first ? (sample * s->steps + step) * s->directions + direction
                         : (step * s->directions + direction) * s->batch + sample) *
         s->hidden;
}
static inline int64_t recurrent_state_at(const recurrent_shape *s, int direction, int64_t sample) {
  return (s->batch_first ? sample * s->directions + direction : direction * s->batch + sample) * s->hidden;
}

/* rlx_op.derive of the three. */
rlx_status recurrent_derive(rlx_graph *g, const rlx_node *n, recurrent_kind kind, rlx_value **outputs);

#endif
