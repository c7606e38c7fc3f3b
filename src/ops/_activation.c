/* _activation.c — activations of fused ops, by name, on floats. */
#include "ops/_activation.h"

#include <math.h>
#include <string.h>

static const char *const names[ACTIVATION_UNKNOWN] = {
    [ACTIVATION_NONE] = "",         [ACTIVATION_RELU] = "Relu",       [ACTIVATION_LEAKY_RELU] = "LeakyRelu",
    [ACTIVATION_CLIP] = "Clip",     [ACTIVATION_SIGMOID] = "Sigmoid", [ACTIVATION_TANH] = "Tanh",
    [ACTIVATION_SWISH] = "Swish",   [ACTIVATION_HARD_SWISH] = "HardSwish",
    [ACTIVATION_GELU] = "Gelu",
};

activation_kind activation_parse(const rlx_string *name) {
  if (!name->data || name->size == 0) return ACTIVATION_NONE;
  for (activation_kind k = ACTIVATION_RELU; k < ACTIVATION_UNKNOWN; k++) {
    if (strlen(names[k]) == name->size && memcmp(names[k], name->data, name->size) == 0) return k;
  }
  return ACTIVATION_UNKNOWN;
}

const char *activation_name(activation_kind kind) { return kind < ACTIVATION_UNKNOWN ? names[kind] : "unknown"; }

static float sigmoid(float x) { return 1.0f / (1.0f + expf(-x)); }
static float clip(float x, float low, float high) {
  if (x < low) x = low;
  return x > high ? high : x;
}

static float apply(activation_kind kind, float alpha, float beta, float x) {
  switch (kind) {
    case ACTIVATION_RELU: return x < 0 ? 0 : x;
    case ACTIVATION_LEAKY_RELU: return x < 0 ? alpha * x : x;
    case ACTIVATION_CLIP: return clip(x, alpha, beta);
    case ACTIVATION_SIGMOID: return sigmoid(x);
    case ACTIVATION_TANH: return tanhf(x);
    case ACTIVATION_SWISH: return x * sigmoid(alpha * x);
    case ACTIVATION_HARD_SWISH: return x * clip(x / 6.0f + 0.5f, 0.0f, 1.0f);
    case ACTIVATION_GELU: return 0.5f * x * (1.0f + erff(x * 0.70710678f));
    case ACTIVATION_NONE:
    case ACTIVATION_UNKNOWN: break;
  }
  return x;
}

void activation_apply(activation_kind kind, float alpha, float beta, float *y, int64_t count) {
  if (kind == ACTIVATION_NONE) return;
  for (int64_t i = 0; i < count; i++) y[i] = apply(kind, alpha, beta, y[i]);
}
