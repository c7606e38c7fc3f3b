// keep.c — demo.keep as a package: an op with three outputs, an optional input and a size that depends on the data, and
// its derivative. kept = the elements of x above a threshold (0 if left out), their positions, and their sum.
#include <rlx/extend.h>

enum { X, THRESHOLD };

static rlx_status infer(rlx_infer *ctx) {
  const rlx_type *x = rlx_infer_input(ctx, X);
  const int64_t unknown = RLX_UNKNOWN;
  if (x->rank != RLX_UNKNOWN && x->rank != 1) return rlx_fail(ctx, RLX_INVALID, "x has rank %d, not 1", x->rank);
  rlx_infer_output(ctx, 1)->dtype = RLX_INT64;
  for (int i = 0; i < 2; i++) rlx_infer_set(ctx, i, 1, &unknown); // known only after running
  rlx_infer_set(ctx, 2, 0, NULL);
  return RLX_OK;
}

static double load(const rlx_operand *o, int64_t i) {
  return o->dtype == RLX_DOUBLE ? ((const double *)o->data)[i] : (double)((const float *)o->data)[i];
}
static void store(const rlx_operand *o, void *data, int64_t i, double v) {
  if (o->dtype == RLX_DOUBLE)
    ((double *)data)[i] = v;
  else
    ((float *)data)[i] = (float)v;
}

static rlx_status eval(rlx_ctx *ctx) {
  const rlx_operand *x = &ctx->inputs[X];
  const rlx_operand *t = ctx->input_count > THRESHOLD && ctx->inputs[THRESHOLD].data ? &ctx->inputs[THRESHOLD] : NULL;
  double limit = t ? load(t, 0) : 0, sum = 0;
  int64_t count = 0;
  for (int64_t i = 0; i < x->count; i++) count += load(x, i) > limit;
  void *kept = rlx_output_shape(ctx, 0, 1, &count);
  int64_t *at = rlx_output_shape(ctx, 1, 1, &count);
  if (!kept || !at) return RLX_KERNEL;
  for (int64_t i = 0, k = 0; i < x->count; i++) {
    if (!(load(x, i) > limit)) continue;
    store(x, kept, k, load(x, i));
    at[k++] = i;
    sum += load(x, i);
  }
  if (ctx->outputs[2].data) store(x, ctx->outputs[2].data, 0, sum);
  return RLX_OK;
}

static rlx_value *op2(rlx_graph *g, const char *name, rlx_value *a, rlx_value *b) {
  return rlx_graph_op(g, name, NULL, 0, (rlx_value *[]){a, b}, b ? 2 : 1);
}

// Each kept element gets its own gradient and that of the sum, put back where it came from.
static rlx_status vjp(rlx_graph *g, const rlx_node *n, rlx_value *const *dy, rlx_value **dx) {
  rlx_value *x = rlx_node_input(n, X), *at = rlx_node_output(n, 1), *part = dy[0];
  if (dy[2]) {
    rlx_value *spread = op2(g, "onnx.Expand", dy[2], op2(g, "onnx.Shape", at, NULL));
    part = part ? op2(g, "onnx.Add", part, spread) : spread;
  }
  if (!part) return RLX_OK;
  rlx_attr add = {.name = "reduction", .kind = RLX_ATTR_STRING, .s = {"add", 3}};
  rlx_value *in[3] = {op2(g, "onnx.Sub", x, x), at, part};
  dx[X] = rlx_graph_op(g, "onnx.ScatterElements", &add, 1, in, 3);
  return rlx_graph_status(g); // the threshold has no gradient: elements do not change with it
}

#define REALS (RLX_SET(RLX_FLOAT) | RLX_SET(RLX_DOUBLE))
static const rlx_op keep = {
    .struct_size = sizeof keep,
    .name = "demo.keep",
    .doc = "The elements of x above a threshold, their positions and their sum.",
    .samples = (const char *const[]){"float[7]", "float[5], float = {0.25}", NULL},
    .inputs = (const rlx_port[]){{"x", "T", REALS, 0, 0}, {"threshold", "T", REALS, RLX_OPTIONAL | RLX_HOST, 0}, {0}},
    .outputs = (const rlx_port[]){{"kept", "T", REALS, 0, 0},
                                  {"positions", NULL, RLX_SET(RLX_INT64), 0, 0},
                                  {"sum", "T", REALS, RLX_OPTIONAL, 0},
                                  {0}},
    .traits = RLX_PURE,
    .infer = infer,
    .vjp = vjp,
    .eval = eval,
};

static rlx_status register_all(rlx_registry *r) { return rlx_register_op(r, &keep, 0, NULL); }
RLX_PACKAGE("demo", "1.0", register_all);
