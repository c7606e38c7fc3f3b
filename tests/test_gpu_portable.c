/* test_gpu_portable.c — portable kernels through sessions: arguments, launches, new bindings and extents, bad texts. */
#include <rlx/extend.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "ir/parse.h"
#include "support/gpu_ops.h"

#define OK(expr)                                                          \
  do {                                                                    \
    if ((expr) != RLX_OK) fail_msg("%s: %s", #expr, rlx_error_message()); \
  } while (0)

#define HEAD "<ir_version: 8, opset_import: [\"\" : 17, \"test\" : 1]>\n"

/* ---- y = scale x + shift, and the sum of each row in two launches -------------------------- */

typedef struct affine_params {
  uint64_t given;
  float scale, shift;
} affine_params;

static rlx_status affine(rlx_ctx *ctx) {
  const affine_params *p = ctx->params;
  const float *x = ctx->inputs[0].data;
  float *y = ctx->outputs[0].data;
  for (int64_t i = 0; i < ctx->inputs[0].count; i++) y[i] = p->scale * x[i] + p->shift;
  return RLX_OK;
}

static rlx_status rows_infer(rlx_infer *ctx) {
  const rlx_type *x = rlx_infer_input(ctx, 0);
  if (x->rank == 2) rlx_infer_set(ctx, 0, 1, x->dims);
  return RLX_OK;
}

static rlx_status rows(rlx_ctx *ctx) {
  const float *x = ctx->inputs[0].data, *bias = ctx->input_count > 1 ? ctx->inputs[1].data : NULL;
  float *y = ctx->outputs[0].data;
  int64_t width = ctx->inputs[0].dims[1];
  for (int64_t r = 0; r < ctx->inputs[0].dims[0]; r++) {
    y[r] = bias ? bias[r] : 0;
    for (int64_t c = 0; c < width; c++) y[r] += x[r * width + c] + 1;
  }
  return RLX_OK;
}

static int64_t rows_workspace(rlx_bound *b, const void *state) {
  (void)state;
  const rlx_type *x = rlx_bound_input(b, 0);
  return x->dims[0] * x->dims[1] * (int64_t)sizeof(float) + 64;
}

/* Adds one to each element, into the workspace; then sums the rows. */
static rlx_status rows_encode(rlx_gpu_dispatch *d) {
  const rlx_operand *x = rlx_gpu_input(d, 0);
  int64_t some[3] = {(x->count + 255) / 256, 1, 1}, each[3] = {(x->dims[0] + 255) / 256, 1, 1};
  rlx_gpu_set_int(d, "count", x->count);
  rlx_gpu_set_int(d, "height", x->dims[0]);
  rlx_gpu_set_int(d, "width", x->dims[1]);
  rlx_status status = rlx_gpu_launch(d, 0, some);
  return status == RLX_OK ? rlx_gpu_launch(d, 1, each) : status;
}

static const rlx_op ops[] = {
    {.struct_size = sizeof(rlx_op),
     .name = "test.affine",
     .inputs = (const rlx_port[]){{"X", "T", RLX_SET(RLX_FLOAT), 0, 0}, {0}},
     .outputs = (const rlx_port[]){{"Y", "T", 0, 0, 0}, {0}},
     .attrs =
         (const rlx_attr_def[]){
             {.name = "scale", .kind = RLX_ATTR_FLOAT, .offset = offsetof(affine_params, scale), .default_float = 1},
             {.name = "shift", .kind = RLX_ATTR_FLOAT, .offset = offsetof(affine_params, shift)},
             {0}},
     .params_size = sizeof(affine_params),
     .traits = RLX_PURE,
     .eval = affine},
    {.struct_size = sizeof(rlx_op),
     .name = "test.rows",
     .inputs = (const rlx_port[]){{"X", "T", RLX_SET(RLX_FLOAT), 0, 0}, {"bias", "T", 0, RLX_OPTIONAL, 0}, {0}},
     .outputs = (const rlx_port[]){{"Y", "T", 0, 0, 0}, {0}},
     .infer = rows_infer,
     .eval = rows},
    {.struct_size = sizeof(rlx_op),
     .name = "test.broken",
     .inputs = (const rlx_port[]){{"X", "T", RLX_SET(RLX_FLOAT), 0, 0}, {0}},
     .outputs = (const rlx_port[]){{"Y", "T", 0, 0, 0}, {0}},
     .eval = affine},
};

static const rlx_gpu_kernel kernels[] = {
    {.struct_size = sizeof(rlx_gpu_kernel),
     .head = {.op = "test.affine", .name = "text"},
     .functions = (const rlx_gpu_function[]){{.name = "affine",
                                              .args = (const rlx_gpu_arg[]){{"x", "T", RLX_GPU_INPUT, 0, 0},
                                                                            {"y", "T", RLX_GPU_OUTPUT, 0, 0},
                                                                            {"scale", "f32", RLX_GPU_SCALAR, 0, 0},
                                                                            {"shift", "f32", RLX_GPU_SCALAR, 0, 0},
                                                                            {"count", "u32", RLX_GPU_COUNT, 0, 0},
                                                                            {0}},
                                              .body = "for (u32 i = GLOBAL_ID; i < count; i += GLOBAL_SIZE)\n"
                                                      "  y[i] = scale * x[i] + shift;\n"},
                                             {0}}},
    {.struct_size = sizeof(rlx_gpu_kernel),
     .head = {.op = "test.rows", .name = "text", .workspace = rows_workspace},
     .functions =
         (const rlx_gpu_function[]){{.name = "rows_add",
                                     .args = (const rlx_gpu_arg[]){{"x", "f32", RLX_GPU_INPUT, 0, 0},
                                                                   {"w", "f32", RLX_GPU_WORKSPACE, 64, 0},
                                                                   {"count", "u32", RLX_GPU_SCALAR, 0, 0},
                                                                   {0}},
                                     .body = "if (GLOBAL_ID < count) w[GLOBAL_ID] = x[GLOBAL_ID] + 1.0f;\n"},
                                    {.name = "rows_sum",
                                     .args = (const rlx_gpu_arg[]){{"w", "f32", RLX_GPU_WORKSPACE, 64, 0},
                                                                   {"bias", "f32", RLX_GPU_INPUT, 1, 0},
                                                                   {"y", "f32", RLX_GPU_OUTPUT, 0, 0},
                                                                   {"height", "u32", RLX_GPU_SCALAR, 0, 0},
                                                                   {"width", "u32", RLX_GPU_SCALAR, 0, 0},
                                                                   {0}},
                                     .body = "if (GLOBAL_ID < height) {\n"
                                             "  f32 sum = 0.0f;\n"
                                             "  if (PRESENT(bias)) sum = bias[GLOBAL_ID];\n"
                                             "  for (u32 c = 0u; c < width; c++) sum += w[GLOBAL_ID * width + c];\n"
                                             "  y[GLOBAL_ID] = sum;\n"
                                             "}\n"},
                                    {0}},
     .encode = rows_encode},
    {.struct_size = sizeof(rlx_gpu_kernel),
     .head = {.op = "test.broken", .name = "text"},
     .functions =
         (const rlx_gpu_function[]){
             {.name = "broken",
              .args = (const rlx_gpu_arg[]){{"x", "f32", RLX_GPU_INPUT, 0, 0}, {"y", "f32", RLX_GPU_OUTPUT, 0, 0}, {0}},
              .body = "y[GLOBAL_ID] = x[GLOBAL_ID] + nonesuch;\n"},
             {0}}},
};

static int register_all(void **state) {
  if (gpu_ops_register(state) != 0) return -1;
  for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
    if (rlx_register_op(NULL, &ops[i], 0, NULL) != RLX_OK) return -1;
  for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++)
    if (rlx_register_gpu_kernel(NULL, &kernels[i], 0, NULL) != RLX_OK) {
      fprintf(stderr, "%s\n", rlx_error_message());
      return -1;
    }
  return 0;
}

/* ---- sessions ----------------------------------------------------------------------------- */

static rlx_status create(const char *source, const char *device, const char *debug, rlx_session **out) {
  rlx_graph *g = NULL;
  rlx_session_options o = RLX_SESSION_OPTIONS_INIT;
  OK(graph_parse(source, strlen(source), "test", NULL, NULL, &g));
  o.device = device;
  o.debug = debug;
  o.policy = strcmp(device, "cpu") == 0 ? RLX_POLICY_ALLOW : RLX_POLICY_FORBID;
  rlx_status status = rlx_session_create(g, &o, out);
  rlx_graph_destroy(g);
  return status;
}

static void run_on(rlx_session *s, int64_t height, int64_t width, rlx_tensor **y) {
  rlx_binding *b = NULL;
  rlx_tensor *x = NULL;
  int64_t dims[2] = {height, width};
  OK(rlx_binding_create(s, &b));
  OK(rlx_tensor_create(RLX_FLOAT, 2, dims, &x));
  for (int64_t i = 0; i < height * width; i++) ((float *)rlx_tensor_data(x))[i] = (float)(i % 13) * 0.5f;
  OK(rlx_binding_input(b, "x", x, 0));
  OK(rlx_run(b, NULL));
  OK(rlx_run(b, NULL));
  OK(rlx_binding_get(b, "y", y));
  rlx_tensor_destroy(x);
  rlx_binding_destroy(b);
}

/* Small integers and halves: every tier gives the same bits. */
static void compare(const char *source) {
  static const int64_t sizes[][2] = {{3, 5}, {300, 7}, {2, 1000}, {3, 5}};
  const gpu_place_row *on;
  rlx_session *cpu = NULL, *s = NULL;
  OK(create(source, "cpu", "", &cpu));
  for (int i = 0; (on = gpu_ops_device(i)); i++) {
    OK(create(source, on->device, on->debug, &s));
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
      rlx_tensor *want = NULL, *is = NULL;
      run_on(cpu, sizes[k][0], sizes[k][1], &want);
      run_on(s, sizes[k][0], sizes[k][1], &is);
      assert_int_equal(rlx_tensor_bytes(is), rlx_tensor_bytes(want));
      if (memcmp(rlx_tensor_data(is), rlx_tensor_data(want), rlx_tensor_bytes(want)) != 0)
        fail_msg("%s (%s) differs from the CPU: %g, not %g", on->device, on->debug,
                 (double)((float *)rlx_tensor_data(is))[0], (double)((float *)rlx_tensor_data(want))[0]);
      rlx_tensor_destroy(want);
      rlx_tensor_destroy(is);
    }
    rlx_session_destroy(s);
  }
  rlx_session_destroy(cpu);
}

static void attributes_and_counts(void **state) {
  (void)state;
  compare(HEAD "g (float[M,N] x) => (float[M,N] y) { a = test.affine <scale = 2.0, shift = 1.0> (x)\n"
               " y = test.affine <shift = -0.5> (a) }");
}

static void two_launches_and_a_workspace(void **state) {
  (void)state;
  compare(HEAD "g (float[M,N] x) => (float[M] y) { a = test.affine <scale = 2.0> (x)\n b = test.rows(a)\n"
               " y = test.rows(x, b) }");
}

static void a_bad_text_is_told(void **state) {
  (void)state;
  const gpu_place_row *on;
  for (int i = 0; (on = gpu_ops_device(i)); i++) {
    if (strcmp(on->device, "vulkan") != 0) continue;
    rlx_session *s = NULL;
    assert_int_not_equal(
        create(HEAD "g (float[M,N] x) => (float[M,N] y) { y = test.broken(x) }", on->device, on->debug, &s), RLX_OK);
    if (!strstr(rlx_error_message(), "nonesuch") || !strstr(rlx_error_message(), "node_0"))
      fail_msg("%s", rlx_error_message());
    assert_null(strchr(rlx_error_message(), '\n'));
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(attributes_and_counts),
      cmocka_unit_test(two_launches_and_a_workspace),
      cmocka_unit_test(a_bad_text_is_told),
  };
  return cmocka_run_group_tests(tests, register_all, NULL);
}
