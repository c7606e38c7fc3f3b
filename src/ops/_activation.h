/* _activation.h — activations that fused ops apply to their result. */
#ifndef OPS_ACTIVATION_H
#define OPS_ACTIVATION_H

#include <rlx/extend.h>

/* Named by the attribute `activation` as ONNX names the op; alpha and beta are its parameters. */
typedef enum activation_kind {
  ACTIVATION_NONE = 0, /* "" */
  ACTIVATION_RELU,
  ACTIVATION_LEAKY_RELU, /* x < 0 ? alpha * x : x */
  ACTIVATION_CLIP,       /* to [alpha, beta] */
  ACTIVATION_SIGMOID,
  ACTIVATION_TANH,
  ACTIVATION_SWISH,      /* x * sigmoid(alpha * x) */
  ACTIVATION_HARD_SWISH, /* x * clip(x / 6 + 1 / 2, 0, 1) */
  ACTIVATION_GELU,       /* with erf */
  ACTIVATION_UNKNOWN     /* no such name */
} activation_kind;

/* The attributes, as members of an op's params. */
typedef struct activation_attrs {
  rlx_string name;
  float alpha, beta;
} activation_attrs;

/* Rows of rlx_op.attrs for a params struct `type` with an activation_attrs member `activation`. */
#define ACTIVATION_ATTRS(type)                                                                           \
  {.name = "activation", .kind = RLX_ATTR_STRING, .offset = offsetof(type, activation.name)},           \
      {.name = "activation_alpha", .kind = RLX_ATTR_FLOAT, .offset = offsetof(type, activation.alpha)}, \
      {.name = "activation_beta", .kind = RLX_ATTR_FLOAT, .offset = offsetof(type, activation.beta)}

activation_kind activation_parse(const rlx_string *name);
const char *activation_name(activation_kind kind);
/* y[i] = activation(y[i]) */
void activation_apply(activation_kind kind, float alpha, float beta, float *y, int64_t count);

#endif
