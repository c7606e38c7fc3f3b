/* tour.c — one op with every tier there is: tour.swish(x) = x / (1 + exp(-beta x)), and its derivatives. */
#include <math.h>
#include <rlx/extend.h>

/* The attributes as a node has them; `given` says which were written. */
typedef struct params {
  uint64_t given;
  float beta;
} params;

/* ---- eval: what the op means, on any device ---- */

static rlx_status eval(rlx_ctx *ctx) {
  const params *p = ctx->params;
  const rlx_operand *x = &ctx->inputs[0], *y = &ctx->outputs[0];
  for (int64_t i = 0; i < x->count; i++) {
    if (x->dtype == RLX_DOUBLE)
      ((double *)y->data)[i] = ((double *)x->data)[i] / (1 + exp(-(double)p->beta * ((double *)x->data)[i]));
    else
      ((float *)y->data)[i] = ((float *)x->data)[i] / (1 + expf(-p->beta * ((float *)x->data)[i]));
  }
  return RLX_OK;
}

/* ---- lower: the same in ONNX's ops, which runs wherever they do ---- */

static rlx_value *binary(rlx_graph *g, const char *op, rlx_value *a, rlx_value *b) {
  rlx_value *inputs[2] = {a, b};
  return rlx_graph_op(g, op, NULL, 0, inputs, 2);
}

/* A scalar of x's dtype. */
static rlx_value *scalar(rlx_graph *g, float value, rlx_value *x) {
  rlx_tensor *t = NULL;
  if (rlx_tensor_create(RLX_FLOAT, 0, NULL, &t) != RLX_OK) return NULL;
  *(float *)rlx_tensor_data(t) = value;
  rlx_value *v = rlx_graph_constant(g, NULL, t);
  rlx_tensor_destroy(t);
  return binary(g, "onnx.CastLike", v, x);
}

/* sigmoid(beta x) */
static rlx_value *gate(rlx_graph *g, const rlx_node *n) {
  rlx_value *x = rlx_node_input(n, 0);
  rlx_value *bx = binary(g, "onnx.Mul", x, scalar(g, ((const params *)rlx_node_params(n))->beta, x));
  return rlx_graph_op(g, "onnx.Sigmoid", NULL, 0, &bx, 1);
}

static rlx_status lower(rlx_graph *g, const rlx_node *n, rlx_value **outputs) {
  outputs[0] = binary(g, "onnx.Mul", rlx_node_input(n, 0), gate(g, n));
  return rlx_graph_status(g);
}

/* ---- derivatives: y' = s + beta y (1 - s), with s = sigmoid(beta x) ---- */

static rlx_value *slope(rlx_graph *g, const rlx_node *n) {
  rlx_value *x = rlx_node_input(n, 0), *s = gate(g, n);
  rlx_value *rest = binary(g, "onnx.Sub", scalar(g, 1, x), s);
  rlx_value *by =
      binary(g, "onnx.Mul", scalar(g, ((const params *)rlx_node_params(n))->beta, x), binary(g, "onnx.Mul", x, s));
  return binary(g, "onnx.Add", s, binary(g, "onnx.Mul", by, rest));
}

static rlx_status vjp(rlx_graph *g, const rlx_node *n, rlx_value *const *output_grads, rlx_value **input_grads) {
  input_grads[0] = binary(g, "onnx.Mul", output_grads[0], slope(g, n));
  return rlx_graph_status(g);
}

static rlx_status jvp(rlx_graph *g, const rlx_node *n, rlx_value *const *input_tangents, rlx_value **output_tangents) {
  output_tangents[0] = binary(g, "onnx.Mul", input_tangents[0], slope(g, n));
  return rlx_graph_status(g);
}

/* ---- a CPU kernel: floats only, in pieces, on all threads, in place ---- */

static const char *only_float(const rlx_node *n) {
  rlx_dtype dtype = rlx_node_input_type(n, 0)->dtype;
  return dtype == RLX_FLOAT ? NULL : rlx_reason("it serves float, not %s", rlx_dtype_name(dtype));
}

static void piece(void *arg, int64_t begin, int64_t end) {
  const rlx_ctx *ctx = arg;
  const float *x = ctx->inputs[0].data, beta = ((const params *)ctx->params)->beta;
  float *y = ctx->outputs[0].data;
  for (int64_t i = begin; i < end; i++) y[i] = x[i] / (1 + expf(-beta * x[i]));
}

static rlx_status run(rlx_ctx *ctx) { return rlx_parallel_for(ctx, ctx->outputs[0].count, 4096, piece, ctx), RLX_OK; }

/* ---- a host kernel: on the CPU of one GPU backend's session; it may hand over ---- */

static rlx_status beside(rlx_ctx *ctx) { return rlx_delegate_cpu(ctx); }

/* ---- a portable kernel: one text for every GPU ---- */

static const rlx_gpu_arg args[] = {{.name = "x", .flags = RLX_GPU_INPUT, .index = 0},
                                   {.name = "y", .flags = RLX_GPU_OUTPUT, .index = 0},
                                   {.name = "beta", .type = "f32", .flags = RLX_GPU_SCALAR},
                                   {.name = "count", .type = "i64", .flags = RLX_GPU_COUNT},
                                   {0}};
static const rlx_gpu_function functions[] = {
    {.name = "swish",
     .args = args,
     .workgroup = {256, 1, 1},
     .body =
         "for (i64 i = i64(GLOBAL_ID); i < count; i += i64(GLOBAL_SIZE)) y[i] = x[i] / (1.0f + EXP(-beta * x[i]));"},
    {0}};

static rlx_status grid(const rlx_bound *b, int64_t groups[3]) {
  const rlx_type *y = rlx_bound_output(b, 0);
  int64_t count = 1;
  for (int d = 0; d < y->rank; d++) count *= y->dims[d];
  groups[0] = (count + 255) / 256 < 1024 ? (count + 255) / 256 : 1024;
  groups[1] = groups[2] = 1;
  return RLX_OK;
}

/* ---- the records, and the package ---- */

static const rlx_port in[] = {{"x", "T", RLX_SET(RLX_FLOAT) | RLX_SET(RLX_DOUBLE), 0, 0}, {0}},
                      out[] = {{"y", "T", 0, 0, 0}, {0}};
static const rlx_attr_def attrs[] = {
    {.name = "beta", .kind = RLX_ATTR_FLOAT, .offset = offsetof(params, beta), .default_float = 1}, {0}};
static const char *const samples[] = {"float[2,3]", "double[5] {beta = 0.5}", NULL};
static const rlx_pair in_place[] = {{0, 0}};

static const rlx_op op = {.struct_size = sizeof op,
                          .name = "tour.swish",
                          .doc = "x / (1 + exp(-beta x)), elementwise.",
                          .samples = samples,
                          .inputs = in,
                          .outputs = out,
                          .attrs = attrs,
                          .params_size = sizeof(params),
                          .traits = RLX_PURE,
                          .vjp = vjp,
                          .jvp = jvp,
                          .lower = lower,
                          .eval = eval};
static const rlx_cpu_kernel cpu = {
    .struct_size = sizeof cpu,
    .head = {.op = "tour.swish", .name = "threads", .in_place = in_place, .in_place_count = 1, .why_not = only_float},
    .run = run};
static const rlx_host_kernel host = {
    .struct_size = sizeof host, .head = {.op = "tour.swish", .name = "beside"}, .backend = "vulkan", .run = beside};
static const rlx_gpu_kernel gpu = {.struct_size = sizeof gpu,
                                   .head = {.op = "tour.swish", .name = "text", .why_not = only_float},
                                   .functions = functions,
                                   .grid = grid};

static rlx_status register_all(rlx_registry *r) {
  rlx_status status = rlx_register_op(r, &op, 0, NULL);
  if (status == RLX_OK) status = rlx_register_cpu_kernel(r, &cpu, 0, NULL);
  if (status == RLX_OK) status = rlx_register_host_kernel(r, &host, 0, NULL);
  if (status == RLX_OK) status = rlx_register_gpu_kernel(r, &gpu, 0, NULL);
  return status;
}
RLX_PACKAGE("tour", "1.0", register_all);
