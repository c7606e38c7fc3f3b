/* _recurrent.c — attributes, shapes and activation functions of the recurrent ops. */
#include <math.h>
#include <string.h>
#include <strings.h>

#include "base/status.h"
#include "ir/dtype.h"
#include "ops/recurrent.h"

double activation_apply(const activation *a, double x) {
  switch (a->kind) {
    case ACTIVATION_TANH: return tanh(x);
    case ACTIVATION_SIGMOID: return 1 / (1 + exp(-x));
    case ACTIVATION_RELU: return x > 0 ? x : 0;
    case ACTIVATION_AFFINE: return a->alpha * x + a->beta;
    case ACTIVATION_LEAKY_RELU: return x >= 0 ? x : a->alpha * x;
    case ACTIVATION_THRESHOLDED_RELU: return x > a->alpha ? x : 0;
    case ACTIVATION_SCALED_TANH: return a->alpha * tanh(a->beta * x);
    case ACTIVATION_HARD_SIGMOID: return fmin(fmax(a->alpha * x + a->beta, 0), 1);
    case ACTIVATION_ELU: return x >= 0 ? x : a->alpha * (exp(x) - 1);
    case ACTIVATION_SOFTSIGN: return x / (1 + fabs(x));
    default: return x > 0 ? x + log1p(exp(-x)) : log1p(exp(x));
  }
}

static const struct {
  const char *name;
  activation_kind kind;
  bool has_alpha, has_beta;
  double alpha, beta;
} functions[] = {
    {"Tanh", ACTIVATION_TANH, false, false, 0, 0},
    {"Sigmoid", ACTIVATION_SIGMOID, false, false, 0, 0},
    {"Relu", ACTIVATION_RELU, false, false, 0, 0},
    {"Affine", ACTIVATION_AFFINE, true, true, 1, 0},
    {"LeakyRelu", ACTIVATION_LEAKY_RELU, true, false, 0.01, 0},
    {"ThresholdedRelu", ACTIVATION_THRESHOLDED_RELU, true, false, 1, 0},
    {"ScaledTanh", ACTIVATION_SCALED_TANH, true, true, 1, 1},
    {"HardSigmoid", ACTIVATION_HARD_SIGMOID, true, true, 0.2, 0.5},
    {"Elu", ACTIVATION_ELU, true, false, 1, 0},
    {"Softsign", ACTIVATION_SOFTSIGN, false, false, 0, 0},
    {"Softplus", ACTIVATION_SOFTPLUS, false, false, 0, 0},
};

static bool equals(const rlx_string *s, const char *word) {
  return strlen(word) == s->size && strncasecmp(word, s->data, s->size) == 0;
}

/* alpha and beta values are consumed by the functions that take them, in order. */
static const char *parse_functions(const recurrent_params *p, int count, activation *out) {
  int64_t alpha = 0, beta = 0;
  for (int i = 0; i < count; i++) {
    const rlx_string *s = &p->activations.data[i];
    size_t at = 0, known = sizeof functions / sizeof *functions;
    while (at < known && !equals(s, functions[at].name)) at++;
    if (at == known) return rlx_reason("activation '%.*s' is not known", (int)(s->size > 40 ? 40 : s->size), s->data);
    out[i] = (activation){functions[at].kind, functions[at].alpha, functions[at].beta};
    if (functions[at].has_alpha && alpha < p->activation_alpha.count) {
      out[i].alpha = (double)p->activation_alpha.data[alpha++];
    }
    if (functions[at].has_beta && beta < p->activation_beta.count) {
      out[i].beta = (double)p->activation_beta.data[beta++];
    }
  }
  return NULL;
}

const char *recurrent_attributes(recurrent_kind kind, const recurrent_params *p, recurrent_shape *out) {
  *out = (recurrent_shape){.kind = kind, .directions = 1, .batch_first = p->layout != 0};
  if (equals(&p->direction, "bidirectional")) {
    out->directions = 2;
  } else if (equals(&p->direction, "reverse")) {
    out->reverse_first = true;
  } else if (!equals(&p->direction, "forward") && !equals(&p->direction, "foward") && p->direction.size) {
    return rlx_reason("direction '%.*s' is not known", (int)(p->direction.size > 40 ? 40 : p->direction.size),
                      p->direction.data);
  }
  int each = recurrent_functions(kind), count = each * out->directions;
  if (p->activations.count == 0) {
    for (int d = 0; d < out->directions; d++) {
      for (int i = 0; i < each; i++) {
        out->functions[d][i].kind = i == 0 && kind != RECURRENT_RNN ? ACTIVATION_SIGMOID : ACTIVATION_TANH;
      }
    }
    return NULL;
  }
  if (p->activations.count < count) {
    return rlx_reason("%lld activations, %d are needed", (long long)p->activations.count, count);
  }
  activation flat[6];
  const char *bad = parse_functions(p, count, flat);
  for (int i = 0; i < count && !bad; i++) out->functions[i / each][i % each] = flat[i];
  return bad;
}

static rlx_status check(rlx_ctx *ctx, int input, int rank, const int64_t *want) {
  if (input >= ctx->input_count || !ctx->inputs[input].data) return RLX_OK;
  const rlx_operand *o = &ctx->inputs[input];
  bool same = o->rank == rank;
  for (int d = 0; same && d < rank; d++) same = o->dims[d] == want[d];
  if (same) return RLX_OK;
  return rlx_fail(ctx, RLX_INVALID, "input %d has another shape than the sizes of X, W and R ask for", input);
}

rlx_status recurrent_of_run(rlx_ctx *ctx, recurrent_kind kind, recurrent_shape *out) {
  const char *bad = recurrent_attributes(kind, ctx->params, out);
  if (bad) return rlx_fail(ctx, RLX_INVALID, "%s", bad);
  const rlx_operand *x = &ctx->inputs[RECURRENT_X], *r = &ctx->inputs[RECURRENT_R];
  if (x->rank != 3 || r->rank != 3) return rlx_fail(ctx, RLX_INVALID, "X of rank %d, R of rank %d", x->rank, r->rank);
  out->steps = x->dims[out->batch_first ? 1 : 0];
  out->batch = x->dims[out->batch_first ? 0 : 1];
  out->input = x->dims[2];
  out->hidden = r->dims[2];
  const recurrent_params *p = ctx->params;
  if (p->hidden_size && p->hidden_size != out->hidden) {
    return rlx_fail(ctx, RLX_INVALID, "hidden_size %lld, but R has %lld", (long long)p->hidden_size,
                    (long long)out->hidden);
  }
  int64_t d = out->directions, h = out->hidden, n = out->batch, g = recurrent_gates(kind);
  int64_t state[3] = {out->batch_first ? n : d, out->batch_first ? d : n, h};
  RLX_TRY(check(ctx, RECURRENT_W, 3, (const int64_t[]){d, g * h, out->input}));
  RLX_TRY(check(ctx, RECURRENT_R, 3, (const int64_t[]){d, g * h, h}));
  RLX_TRY(check(ctx, RECURRENT_B, 2, (const int64_t[]){d, 2 * g * h}));
  RLX_TRY(check(ctx, RECURRENT_LENGTHS, 1, &n));
  RLX_TRY(check(ctx, RECURRENT_H, 3, state));
  RLX_TRY(check(ctx, RECURRENT_C, 3, state));
  RLX_TRY(check(ctx, RECURRENT_P, 2, (const int64_t[]){d, 3 * h}));
  if (ctx->input_count > RECURRENT_LENGTHS && ctx->inputs[RECURRENT_LENGTHS].data) {
    const int32_t *lengths = ctx->inputs[RECURRENT_LENGTHS].data;
    for (int64_t i = 0; i < n; i++) {
      if (lengths[i] < 0 || lengths[i] > out->steps) {
        return rlx_fail(ctx, RLX_INVALID, "sequence_lens[%lld] is %d, of %lld steps", (long long)i, lengths[i],
                        (long long)out->steps);
      }
    }
  }
  return RLX_OK;
}
