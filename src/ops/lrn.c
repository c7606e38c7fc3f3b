/* lrn.c — onnx.LRN, local response normalisation across channels. */
#include "ops/lrn.h"

#include <math.h>

#include "base/status.h"
#include "ir/module.h"
#include "ops/_derivative.h"
#include "ops/_number.h"

typedef struct lrn_task {
  const lrn_params *params;
  int64_t channels, inner;
  const void *x;
  void *y;
} lrn_task;

/* A run of positions of all channels of one sample: the window's sum slides along the channels. */
NUMBER_INLINE void lrn_positions(rlx_dtype t, const lrn_task *k, int64_t begin, int64_t end) {
  const lrn_params *p = k->params;
  int64_t before = (p->size - 1) / 2, after = p->size - 1 - before;
  double scale = (double)p->alpha / (double)p->size, beta = (double)p->beta;
  for (int64_t i = begin; i < end; i++) {
    int64_t base = i / k->inner * k->channels * k->inner + i % k->inner;
    for (int64_t c = 0; c < k->channels; c++) {
      int64_t first = c > before ? c - before : 0, last = c + after < k->channels ? c + after : k->channels - 1;
      double sum = 0;
      for (int64_t j = first; j <= last; j++) {
        double v = number_load(t, k->x, base + j * k->inner);
        sum += v * v;
      }
      double factor = (double)p->bias + scale * sum;
      double root = sqrt(factor), power = beta == 0.75 ? root * sqrt(root) : pow(factor, beta);
      number_store(t, k->y, base + c * k->inner, number_load(t, k->x, base + c * k->inner) / power);
    }
  }
}
static void range_float(void *arg, int64_t begin, int64_t end) { lrn_positions(RLX_FLOAT, arg, begin, end); }
static void range_double(void *arg, int64_t begin, int64_t end) { lrn_positions(RLX_DOUBLE, arg, begin, end); }
static void range_float16(void *arg, int64_t begin, int64_t end) { lrn_positions(RLX_FLOAT16, arg, begin, end); }
static void range_bfloat16(void *arg, int64_t begin, int64_t end) { lrn_positions(RLX_BFLOAT16, arg, begin, end); }

static rlx_status eval(rlx_ctx *ctx) {
  const rlx_operand *x = &ctx->inputs[0];
  if (x->rank < 2) return rlx_fail(ctx, RLX_INVALID, "an input of rank %d has no channels", x->rank);
  if (x->count == 0) return RLX_OK;
  lrn_task k = {ctx->params, x->dims[1], 1, x->data, ctx->outputs[0].data};
  for (int d = 2; d < x->rank; d++) k.inner *= x->dims[d];
  static void (*const bodies[RLX_DTYPE_COUNT])(void *, int64_t, int64_t) = {[RLX_FLOAT] = range_float,
                                                                            [RLX_DOUBLE] = range_double,
                                                                            [RLX_FLOAT16] = range_float16,
                                                                            [RLX_BFLOAT16] = range_bfloat16};
  if (!bodies[x->dtype]) return rlx_fail(ctx, RLX_UNSUPPORTED, "element type %s", rlx_dtype_name(x->dtype));
  rlx_parallel_for(ctx, x->dims[0] * k.inner, 1 + 1024 / k.channels, bodies[x->dtype], &k);
  return RLX_OK;
}

/* The window's sum as that of the squares shifted along the channels. */
static rlx_status derive(rlx_graph *g, const rlx_node *n, rlx_value **outputs) {
  const lrn_params *p = rlx_node_params(n);
  rlx_value *x = rlx_node_input(n, 0);
  const char *dtype = rlx_dtype_name(rlx_value_type(x)->dtype);
  long long before = (p->size - 1) / 2, after = p->size - 1 - before;
  if (p->size > 64) return rlx_graph_fail(g, RLX_UNSUPPORTED, "a window of %lld channels", (long long)p->size);
  rlx_value *sum = NULL, *in[1] = {x}, *padded;
  RLX_TRY(derivative_text(g, in, &padded,
                          "square (x) => (y) <int64[2] pads = {%lld, %lld}, int64[1] axis = {1}> {"
                          " s = Mul (x, x) y = Pad (s, pads, , axis) }",
                          before, after));
  for (int64_t k = 0; k < p->size; k++) {
    rlx_value *part;
    long long end = k == p->size - 1 ? INT64_MAX : k - (p->size - 1);
    RLX_TRY(derivative_text(g, &padded, &part,
                            "shift (x) => (y) <int64[1] from = {%lld}, int64[1] to = {%lld}, int64[1] axis = {1}> {"
                            " y = Slice (x, from, to, axis) }",
                            (long long)k, end));
    sum = sum ? rlx_graph_op(g, "onnx.Add", NULL, 0, (rlx_value *[]){sum, part}, 2) : part;
  }
  return derivative_text(g, (rlx_value *[]){x, sum}, outputs,
                         "lrn (x, sum) => (y) <%s scale = {%.17g}, %s bias = {%.9g}, %s beta = {%.9g}> {"
                         " a = Mul (sum, scale) b = Add (a, bias) c = Pow (b, beta) y = Div (x, c) }",
                         dtype, (double)p->alpha / (double)p->size, dtype, (double)p->bias, dtype, (double)p->beta);
}

static const rlx_attr_def attrs[] = {
    {.name = "alpha", .kind = RLX_ATTR_FLOAT, .offset = offsetof(lrn_params, alpha), .default_float = 1e-4f},
    {.name = "beta", .kind = RLX_ATTR_FLOAT, .offset = offsetof(lrn_params, beta), .default_float = 0.75f},
    {.name = "bias", .kind = RLX_ATTR_FLOAT, .offset = offsetof(lrn_params, bias), .default_float = 1},
    {.name = "size",
     .kind = RLX_ATTR_INT,
     .flags = RLX_REQUIRED | RLX_RANGED,
     .offset = offsetof(lrn_params, size),
     .min = 1,
     .max = INT32_MAX},
    {0}};
static const rlx_op lrn = {
    .struct_size = sizeof(rlx_op),
    .name = "onnx.LRN",
    .version = 1,
    .doc = "x / (bias + alpha / size * sum of squares over neighbouring channels) ** beta.",
    .samples = (const char *const[]){"float[2,5,3,4] {size = 3}", "double[1,4,3,3] {size = 4, beta = 0.5}", NULL},
    .inputs = (const rlx_port[]){{"X", "T", RLX_SET_FLOATS, 0, 0}, {0}},
    .outputs = (const rlx_port[]){{"Y", "T", RLX_SET_FLOATS, 0, 0}, {0}},
    .attrs = attrs,
    .params_size = sizeof(lrn_params),
    .traits = RLX_PURE,
    .derive = derive,
    .eval = eval,
};

static const rlx_op *const ops[] = {&lrn, NULL};
const rlx_module ops_lrn = {.ops = ops};
