/* _fused_activation.c — activations of fused ops, by name, on floats. */
#include "ops/_fused_activation.h"

#include <math.h>
#include <string.h>

static const char *const names[FUSED_UNKNOWN] = {
    [FUSED_NONE] = "",
    [FUSED_RELU] = "Relu",
    [FUSED_LEAKY_RELU] = "LeakyRelu",
    [FUSED_CLIP] = "Clip",
    [FUSED_SIGMOID] = "Sigmoid",
    [FUSED_TANH] = "Tanh",
    [FUSED_SWISH] = "Swish",
    [FUSED_HARD_SWISH] = "HardSwish",
    [FUSED_GELU] = "Gelu",
};

fused_activation fused_activation_parse(const rlx_string *name) {
  if (!name->data || name->size == 0) return FUSED_NONE;
  for (fused_activation k = FUSED_RELU; k < FUSED_UNKNOWN; k++) {
    if (strlen(names[k]) == name->size && memcmp(names[k], name->data, name->size) == 0) return k;
  }
  return FUSED_UNKNOWN;
}

const char *fused_activation_name(fused_activation kind) { return kind < FUSED_UNKNOWN ? names[kind] : "unknown"; }

static float sigmoid(float x) { return 1.0f / (1.0f + expf(-x)); }
static float clip(float x, float low, float high) {
  if (x < low) x = low;
  return x > high ? high : x;
}

static float apply(fused_activation kind, float alpha, float beta, float x) {
  switch (kind) {
    case FUSED_RELU: return x < 0 ? 0 : x;
    case FUSED_LEAKY_RELU: return x < 0 ? alpha * x : x;
    case FUSED_CLIP: return clip(x, alpha, beta);
    case FUSED_SIGMOID: return sigmoid(x);
    case FUSED_TANH: return tanhf(x);
    case FUSED_SWISH: return x * sigmoid(alpha * x);
    case FUSED_HARD_SWISH: return x * clip(x / 6.0f + 0.5f, 0.0f, 1.0f);
    case FUSED_GELU: return 0.5f * x * (1.0f + erff(x * 0.70710678f));
    case FUSED_NONE:
    case FUSED_UNKNOWN: break;
  }
  return x;
}

void fused_activation_apply(fused_activation kind, float alpha, float beta, float *y, int64_t count) {
  if (kind == FUSED_NONE) return;
  for (int64_t i = 0; i < count; i++) y[i] = apply(kind, alpha, beta, y[i]);
}
