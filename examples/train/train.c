// train.c — trains a small network with an op of our own in its middle, by ONNX's training ops. Parameters and the
// optimizer's states go from one step to the next as tensors of the session's device: an output is the next input.
#include <math.h>
#include <rlx/extend.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { POINTS = 64, HIDDEN = 16, PARAMETERS = 4, STEPS = 200 };

static void check(rlx_status status) {
  if (status == RLX_OK) return;
  fprintf(stderr, "train: %s\n", rlx_error_message());
  exit(1);
}

// ---- an op of our own: y = x / sqrt(1 + x^2), and what its derivative needs ------------------------------------

static rlx_status bend_infer(rlx_infer *ctx) {
  rlx_infer_like(ctx, 0, 0);
  rlx_infer_like(ctx, 1, 0);
  return RLX_OK;
}
static rlx_status bend_eval(rlx_ctx *ctx) {
  const float *x = ctx->inputs[0].data;
  float *y = ctx->outputs[0].data, *slope = ctx->outputs[1].data;
  for (int64_t i = 0; i < ctx->inputs[0].count; i++) {
    float r = 1 / sqrtf(1 + x[i] * x[i]);
    y[i] = x[i] * r;
    if (slope) slope[i] = r * r * r;
  }
  return RLX_OK;
}
// dx = dy * slope; nothing is said of the slope's own gradient, which nobody asks for.
static rlx_status bend_vjp(rlx_graph *g, const rlx_node *n, rlx_value *const *dy, rlx_value **dx) {
  rlx_value *in[2] = {dy[0], rlx_node_output(n, 1)};
  if (dy[1]) return rlx_graph_fail(g, RLX_UNSUPPORTED, "the slope has no derivative");
  if (dy[0]) dx[0] = rlx_graph_op(g, "onnx.Mul", NULL, 0, in, 2);
  return rlx_graph_status(g);
}
static const rlx_port x_port[] = {{"x", "T", RLX_SET(RLX_FLOAT), 0, 0}, {0}};
static const rlx_port y_ports[] = {{"y", "T", 0, 0, 0}, {"slope", "T", 0, 0, 0}, {0}};
static const rlx_op bend = {.struct_size = sizeof bend,
                            .name = "demo.bend",
                            .inputs = x_port,
                            .outputs = y_ports,
                            .traits = RLX_PURE,
                            .infer = bend_infer,
                            .vjp = bend_vjp,
                            .eval = bend_eval};

// ---- the graph of one step -------------------------------------------------------------------------------------

typedef struct optimizer {
  const char *op;
  int states; // tensors it keeps for each parameter
  float rate;
  const rlx_attr *attrs;
  int attr_count;
} optimizer;

static const rlx_attr momentum_attrs[] = {RLX_ATTR_F("alpha", 0.9f),
                                          RLX_ATTR_F("beta", 1),
                                          RLX_ATTR_F("norm_coefficient", 0),
                                          {.name = "mode", .kind = RLX_ATTR_STRING, .s = {"nesterov", 8}}};
static const optimizer optimizers[] = {
    {"ai.onnx.preview.training.Adam", 2, 0.02f, NULL, 0},
    {"ai.onnx.preview.training.Momentum", 1, 0.05f, momentum_attrs, 4},
};

static const int64_t shapes[PARAMETERS][2] = {{2, HIDDEN}, {1, HIDDEN}, {HIDDEN, 1}, {1, 1}};

static rlx_value *input(rlx_graph *g, const char *name, rlx_dtype dtype, int rank, const int64_t *dims) {
  rlx_type type = {.dtype = dtype, .rank = rank};
  for (int d = 0; d < rank; d++) type.dims[d] = dims[d];
  return rlx_graph_input(g, name, &type);
}

static rlx_value *op2(rlx_graph *g, const char *op, rlx_value *a, rlx_value *b) {
  return rlx_graph_op(g, op, NULL, 0, (rlx_value *[]){a, b}, b ? 2 : 1);
}

// The mean of squared errors of bend(x w1 + b1) w2 + b2.
static rlx_value *network(rlx_graph *g, rlx_value *x, rlx_value *target, rlx_value *const *p) {
  rlx_value *h = op2(g, "onnx.Add", op2(g, "onnx.MatMul", x, p[0]), p[1]);
  rlx_node_desc d = {
      .struct_size = sizeof d, .op = "demo.bend", .name = "bend", .inputs = &h, .input_count = 1, .output_count = 2};
  rlx_value *bent = rlx_node_output(rlx_graph_node(g, &d), 0);
  rlx_value *y = op2(g, "onnx.Add", op2(g, "onnx.MatMul", bent, p[2]), p[3]), *e = op2(g, "onnx.Sub", y, target);
  rlx_attr scalar = RLX_ATTR_I("keepdims", 0);
  rlx_value *squares = op2(g, "onnx.Mul", e, e);
  return rlx_graph_op(g, "onnx.ReduceMean", &scalar, 1, &squares, 1);
}

// Inputs: x, target, rate, step, parameters p0…, states s0…; outputs: loss, new p0…, new s0….
static rlx_graph *make_step(const optimizer *o, rlx_registry *registry) {
  rlx_graph *g;
  check(rlx_graph_create(registry, &g));
  int count = PARAMETERS * (o->states + 1);
  rlx_value *in[2 + PARAMETERS * 4], *grads[PARAMETERS];
  rlx_value *x = input(g, "x", RLX_FLOAT, 2, (int64_t[]){POINTS, 2});
  rlx_value *target = input(g, "target", RLX_FLOAT, 2, (int64_t[]){POINTS, 1});
  in[0] = input(g, "rate", RLX_FLOAT, 0, NULL);
  in[1] = input(g, "step", RLX_INT64, 0, NULL);
  char name[32];
  for (int i = 0; i < count; i++) { // the optimizer wants parameters, gradients, states
    snprintf(name, sizeof name, "%c%d", i < PARAMETERS ? 'p' : 's', i < PARAMETERS ? i : i - PARAMETERS);
    in[2 + (i < PARAMETERS ? i : i + PARAMETERS)] = input(g, name, RLX_FLOAT, 2, shapes[i % PARAMETERS]);
  }
  rlx_value *loss = network(g, x, target, in + 2);
  check(rlx_graph_finish(g));
  check(rlx_gradient(g, loss, NULL, in + 2, PARAMETERS, grads));
  memcpy(in + 2 + PARAMETERS, grads, sizeof grads);
  rlx_node_desc d = {.struct_size = sizeof d,
                     .op = o->op,
                     .name = "update",
                     .inputs = in,
                     .input_count = 2 + PARAMETERS * (o->states + 2),
                     .attrs = o->attrs,
                     .attr_count = o->attr_count,
                     .output_count = count};
  const rlx_node *update = rlx_graph_node(g, &d);
  rlx_graph_output(g, loss, "loss");
  for (int i = 0; i < count; i++) {
    snprintf(name, sizeof name, "new_%c%d", i < PARAMETERS ? 'p' : 's', i < PARAMETERS ? i : i - PARAMETERS);
    rlx_graph_output(g, rlx_node_output(update, i), name);
  }
  check(rlx_graph_finish(g));
  return g;
}

// ---- training --------------------------------------------------------------------------------------------------

static float random_float(void) { // -1 to 1, the same every time
  static uint32_t state = 12345;
  state = state * 1664525u + 1013904223u;
  return (float)(state >> 8) / 8388608.0f - 1;
}

static void bind(rlx_binding *b, const char *name, rlx_dtype dtype, int rank, const int64_t *dims, float scale) {
  rlx_tensor *t;
  check(rlx_tensor_create(dtype, rank, dims, &t));
  for (int64_t i = 0; dtype == RLX_FLOAT && i < rlx_tensor_count(t); i++)
    ((float *)rlx_tensor_data(t))[i] = scale * random_float();
  check(rlx_binding_input(b, name, t, 0));
  rlx_tensor_destroy(t);
}

// Points in a square, and whether they are in a disc: no straight line tells them apart.
static void bind_points(rlx_binding *b) {
  rlx_tensor *x, *target;
  check(rlx_tensor_create(RLX_FLOAT, 2, (int64_t[]){POINTS, 2}, &x));
  check(rlx_tensor_create(RLX_FLOAT, 2, (int64_t[]){POINTS, 1}, &target));
  float *p = rlx_tensor_data(x), *t = rlx_tensor_data(target);
  for (int i = 0; i < POINTS; i++) {
    p[2 * i] = random_float();
    p[2 * i + 1] = random_float();
    t[i] = p[2 * i] * p[2 * i] + p[2 * i + 1] * p[2 * i + 1] < 0.5f ? 1.0f : 0.0f;
  }
  check(rlx_binding_input(b, "x", x, 0));
  check(rlx_binding_input(b, "target", target, 0));
  rlx_tensor_destroy(x);
  rlx_tensor_destroy(target);
}

// What a run gave becomes what the next is given: no copy, whatever the device.
static void hand_on(rlx_binding *b, const char *from, const char *to) {
  rlx_tensor *t;
  check(rlx_binding_get(b, from, &t));
  check(rlx_binding_input(b, to, t, 0));
  rlx_tensor_destroy(t);
}

static float run_step(rlx_binding *b, const optimizer *o, int64_t step) {
  rlx_tensor *t;
  check(rlx_tensor_create(RLX_INT64, 0, NULL, &t));
  *(int64_t *)rlx_tensor_data(t) = step;
  check(rlx_binding_input(b, "step", t, 0));
  rlx_tensor_destroy(t);
  check(rlx_run(b, NULL));
  check(rlx_binding_get(b, "loss", &t));
  float loss = *(float *)rlx_tensor_data(t);
  rlx_tensor_destroy(t);
  for (int i = 0; i < PARAMETERS * (o->states + 1); i++) {
    char from[48], to[32];
    snprintf(to, sizeof to, "%c%d", i < PARAMETERS ? 'p' : 's', i < PARAMETERS ? i : i - PARAMETERS);
    snprintf(from, sizeof from, "new_%s", to);
    hand_on(b, from, to);
  }
  return loss;
}

static void train(const optimizer *o, rlx_registry *registry, const char *device) {
  rlx_session_options options = RLX_SESSION_OPTIONS_INIT;
  rlx_session *s;
  rlx_binding *b;
  rlx_tensor *rate;
  options.registry = registry;
  options.device = device;
  rlx_graph *g = make_step(o, registry);
  check(rlx_session_create(g, &options, &s));
  rlx_graph_destroy(g);
  check(rlx_binding_create(s, &b));
  bind_points(b);
  check(rlx_tensor_create(RLX_FLOAT, 0, NULL, &rate));
  *(float *)rlx_tensor_data(rate) = o->rate;
  check(rlx_binding_input(b, "rate", rate, 0));
  rlx_tensor_destroy(rate);
  for (int i = 0; i < PARAMETERS * (o->states + 1); i++) {
    char name[32];
    snprintf(name, sizeof name, "%c%d", i < PARAMETERS ? 'p' : 's', i < PARAMETERS ? i : i - PARAMETERS);
    bind(b, name, RLX_FLOAT, 2, shapes[i % PARAMETERS], i < PARAMETERS ? 1 : 0);
  }
  float first = 0, last = 0;
  for (int step = 0; step < STEPS; step++) {
    last = run_step(b, o, step);
    if (step == 0) first = last;
    if (step % 50 == 0) printf("%s step %3d  loss %.4f\n", strrchr(o->op, '.') + 1, step, (double)last);
  }
  printf("%s step %3d  loss %.4f\n", strrchr(o->op, '.') + 1, STEPS, (double)last);
  rlx_binding_destroy(b);
  rlx_session_destroy(s);
  if (last < 0.25f * first) return;
  fprintf(stderr, "train: the loss went from %g to %g only\n", (double)first, (double)last);
  exit(1);
}

// train [DEVICE]
int main(int argc, char **argv) {
  rlx_registry *registry;
  check(rlx_registry_create(&registry));
  check(rlx_register_op(registry, &bend, 0, NULL));
  for (size_t i = 0; i < sizeof optimizers / sizeof *optimizers; i++)
    train(&optimizers[i], registry, argc > 1 ? argv[1] : "cpu");
  rlx_registry_destroy(registry);
  return 0;
}
