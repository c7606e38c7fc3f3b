/* _fused_activation.h — activations that fused ops apply to their result. */
#ifndef OPS_FUSED_ACTIVATION_H
#define OPS_FUSED_ACTIVATION_H

#include <rlx/extend.h>

/* Named by the attribute `activation` as ONNX names the op; alpha and beta are its parameters. */
typedef enum fused_activation {
  FUSED_NONE = 0, /* "" */
  FUSED_RELU,
  FUSED_LEAKY_RELU, /* x < 0 ? alpha * x : x */
  FUSED_CLIP,       /* to [alpha, beta] */
  FUSED_SIGMOID,
  FUSED_TANH,
  FUSED_SWISH,      /* x * sigmoid(alpha * x) */
  FUSED_HARD_SWISH, /* x * clip(x / 6 + 1 / 2, 0, 1) */
  FUSED_GELU,       /* with erf */
  FUSED_UNKNOWN     /* no such name */
} fused_activation;

/* The attributes, as members of an op's params. */
typedef struct fused_activation_attrs {
  rlx_string name;
  float alpha, beta;
} fused_activation_attrs;

/* Rows of rlx_op.attrs for a params struct `type` with an fused_activation_attrs member `activation`. */
#define FUSED_ACTIVATION_ATTRS(type)                                                                           \
  {.name = "activation", .kind = RLX_ATTR_STRING, .offset = offsetof(type, activation.name)},           \
      {.name = "activation_alpha", .kind = RLX_ATTR_FLOAT, .offset = offsetof(type, activation.alpha)}, \
      {.name = "activation_beta", .kind = RLX_ATTR_FLOAT, .offset = offsetof(type, activation.beta)}

fused_activation fused_activation_parse(const rlx_string *name);
const char *fused_activation_name(fused_activation kind);
/* y[i] = activation(y[i]) */
void fused_activation_apply(fused_activation kind, float alpha, float beta, float *y, int64_t count);

#endif
