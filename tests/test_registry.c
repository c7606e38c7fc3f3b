/* test_registry.c — registering, duplicates, scopes, versions and the total order. */
#include <rlx/cuda.h>
#include <rlx/metal.h>
#include <rlx/vulkan.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ir/registry.h"

#define OK(expr)                                                          \
  do {                                                                    \
    if ((expr) != RLX_OK) fail_msg("%s: %s", #expr, rlx_error_message()); \
  } while (0)
#define FAILS(expr, code, words)                                                                       \
  do {                                                                                                 \
    assert_int_equal(expr, code);                                                                      \
    if (!strstr(rlx_error_message(), words)) fail_msg("'%s' not in '%s'", words, rlx_error_message()); \
  } while (0)

static rlx_status nothing(rlx_ctx *ctx) {
  (void)ctx;
  return RLX_OK;
}

static rlx_status mark(rlx_ctx *ctx, float value) {
  float *y = ctx->outputs[0].data;
  for (int64_t i = 0; i < ctx->outputs[0].count; i++) y[i] = value;
  return RLX_OK;
}
static rlx_status mark_1(rlx_ctx *ctx) { return mark(ctx, 1); }
static rlx_status mark_2(rlx_ctx *ctx) { return mark(ctx, 2); }
static rlx_status mark_3(rlx_ctx *ctx) { return mark(ctx, 3); }

static const rlx_port in[] = {{"X", "T", RLX_SET_FLOATS, 0, 0}, {0}}, out[] = {{"Y", "T", 0, 0, 0}, {0}};

static rlx_op an_op(const char *name, int version) {
  return (rlx_op){
      .struct_size = sizeof(rlx_op), .name = name, .version = version, .inputs = in, .outputs = out, .eval = mark_1};
}

static rlx_cpu_kernel a_kernel(const char *op, const char *name, rlx_status (*run)(rlx_ctx *)) {
  return (rlx_cpu_kernel){sizeof(rlx_cpu_kernel), {.op = op, .name = name}, run};
}

/* Which kernel runs: by its mark. */
static int ran(rlx_registry *r, const char *op) {
  int64_t one = 1;
  rlx_tensor *x = NULL, *y = NULL;
  OK(rlx_tensor_create(RLX_FLOAT, 1, &one, &x));
  OK(rlx_call(r, op, NULL, 0, &x, 1, &y, 1));
  int m = (int)*(float *)rlx_tensor_data(y);
  rlx_tensor_destroy(x);
  rlx_tensor_destroy(y);
  return m;
}

static void malformed_records(void **state) {
  (void)state;
  rlx_registry *r = NULL;
  OK(rlx_registry_create(&r));
  rlx_op op = an_op("nodomain", 1);
  FAILS(rlx_register_op(r, &op, 0, NULL), RLX_INVALID, "DOMAIN.NAME");
  op = an_op("reg.op", 1);
  op.struct_size = 8;
  FAILS(rlx_register_op(r, &op, 0, NULL), RLX_INVALID, "struct_size");
  op = an_op("reg.op", 1);
  op.attrs = (const rlx_attr_def[]){{.name = "a", .kind = RLX_ATTR_INT, .offset = 8}, {0}};
  op.params_size = 12;
  FAILS(rlx_register_op(r, &op, 0, NULL), RLX_INVALID, "attribute 'a' at offset 8");
  op.params_size = 32;
  op.attrs = (const rlx_attr_def[]){
      {.name = "a", .kind = RLX_ATTR_INT, .offset = 8}, {.name = "a", .kind = RLX_ATTR_INT, .offset = 16}, {0}};
  FAILS(rlx_register_op(r, &op, 0, NULL), RLX_INVALID, "'a' twice");
  op = an_op("reg.op", 1);
  op.inputs = (const rlx_port[]){{"A", NULL, 0, RLX_VARIADIC, 0}, {"B", NULL, 0, 0, 0}, {0}};
  FAILS(rlx_register_op(r, &op, 0, NULL), RLX_INVALID, "variadic input 'A'");
  op = an_op("reg.op", 1);
  op.outputs = NULL;
  FAILS(rlx_register_op(r, &op, 0, NULL), RLX_INVALID, "no outputs");
  FAILS(rlx_register_op(r, NULL, 0, NULL), RLX_INVALID, "no record");
  rlx_cpu_kernel k = a_kernel("reg.op", "k", NULL);
  FAILS(rlx_register_cpu_kernel(r, &k, 0, NULL), RLX_INVALID, "no run function");
  k = a_kernel("reg.op", NULL, nothing);
  FAILS(rlx_register_cpu_kernel(r, &k, 0, NULL), RLX_INVALID, "no name");
  k = a_kernel("reg.op", "k", nothing);
  k.head.min_align = 3;
  FAILS(rlx_register_cpu_kernel(r, &k, 0, NULL), RLX_INVALID, "min_align");
  rlx_host_kernel h = {sizeof h, {.op = "reg.op", .name = "h"}, "abacus", nothing};
  FAILS(rlx_register_host_kernel(r, &h, 0, NULL), RLX_INVALID, "abacus");
  rlx_gpu_kernel g = {.struct_size = sizeof g, .head = {.op = "reg.op", .name = "g"}};
  FAILS(rlx_register_gpu_kernel(r, &g, 0, NULL), RLX_INVALID, "needs a function");
  rlx_vulkan_kernel v = {.struct_size = sizeof v, .head = {.op = "reg.op", .name = "v"}};
  FAILS(rlx_register_vulkan_kernel(r, &v, 0, NULL), RLX_INVALID, "no encode");
  rlx_registry_destroy(r);
}

static rlx_status raw_vulkan(rlx_vulkan_dispatch *d) {
  (void)d;
  return RLX_OK;
}

/* Records for devices that are not here register, and stand aside on the CPU. */
static void records_of_other_tiers(void **state) {
  (void)state;
  rlx_registry *r = NULL;
  OK(rlx_registry_create(&r));
  rlx_op op = an_op("tiers.op", 1);
  OK(rlx_register_op(r, &op, 0, NULL));
  rlx_vulkan_kernel raw = {sizeof raw, {.op = "tiers.op", .name = "raw"}, raw_vulkan};
  OK(rlx_register_vulkan_kernel(r, &raw, 0, NULL));
  rlx_host_kernel host = {sizeof host, {.op = "tiers.op", .name = "host"}, "metal", mark_2};
  OK(rlx_register_host_kernel(r, &host, 0, NULL));
  assert_int_equal(ran(r, "tiers.op"), 1);
  rlx_registry_destroy(r);
}

static void duplicates_and_replacing(void **state) {
  (void)state;
  rlx_registry *r = NULL;
  OK(rlx_registry_create(&r));
  rlx_op op = an_op("dup.op", 1);
  rlx_handle first = 0, second = 0;
  OK(rlx_register_op(r, &op, 0, &first));
  FAILS(rlx_register_op(r, &op, 0, NULL), RLX_DUPLICATE, "already registered by session");
  op.version = 2;
  OK(rlx_register_op(r, &op, 0, NULL)); /* another version stands beside it */
  rlx_cpu_kernel k = a_kernel("dup.op", "k", mark_2);
  OK(rlx_register_cpu_kernel(r, &k, 0, &second));
  FAILS(rlx_register_cpu_kernel(r, &k, 0, NULL), RLX_DUPLICATE, "kernel 'k' of op 'dup.op' for cpu");
  assert_int_equal(ran(r, "dup.op"), 2);
  k.run = mark_3;
  OK(rlx_register_cpu_kernel(r, &k, RLX_REPLACE, NULL));
  assert_int_equal(ran(r, "dup.op"), 3);
  assert_int_equal(rlx_unregister(r, second), RLX_NOT_FOUND); /* it was replaced */
  OK(rlx_unregister(r, first));
  assert_int_equal(rlx_unregister(r, first), RLX_NOT_FOUND);
  rlx_registry_destroy(r);
}

static void the_total_order(void **state) {
  (void)state;
  rlx_registry *r = NULL;
  OK(rlx_registry_create(&r));
  rlx_op op = an_op("order.op", 1);
  rlx_handle kernel = 0, process_kernel = 0, process_op = 0;
  OK(rlx_register_op(NULL, &op, 0, &process_op));
  assert_int_equal(ran(r, "order.op"), 1); /* eval */
  rlx_cpu_kernel k = a_kernel("order.op", "a", mark_2);
  OK(rlx_register_cpu_kernel(r, &k, 0, &kernel));
  assert_int_equal(ran(r, "order.op"), 2); /* cpu before eval */
  k = a_kernel("order.op", "b", mark_3);
  OK(rlx_register_cpu_kernel(NULL, &k, 0, &process_kernel));
  assert_int_equal(ran(r, "order.op"), 2); /* the session's before the process's, though that came later */
  assert_int_equal(ran(NULL, "order.op"), 3);
  OK(rlx_unregister(NULL, process_kernel));
  k.head.priority = 1;
  OK(rlx_register_cpu_kernel(NULL, &k, 0, &process_kernel));
  assert_int_equal(ran(r, "order.op"), 3); /* priority before scope */
  OK(rlx_unregister(NULL, process_kernel));
  OK(rlx_unregister(r, kernel));
  k.head.priority = -1;
  OK(rlx_register_cpu_kernel(r, &k, 0, NULL));
  assert_int_equal(ran(r, "order.op"), 1); /* below the default: after eval */
  OK(rlx_unregister(NULL, process_op));
  rlx_registry_destroy(r);
}

/* A later registration of equal rank wins: a user's kernel for a built-in op of the process. */
static void users_kernel_for_a_builtin(void **state) {
  (void)state;
  rlx_handle handle = 0;
  rlx_cpu_kernel k = a_kernel("onnx.Neg", "mine", mark_3);
  OK(rlx_register_cpu_kernel(NULL, &k, 0, &handle));
  assert_int_equal(ran(NULL, "onnx.Neg"), 3);
  OK(rlx_unregister(NULL, handle));
  assert_int_equal(ran(NULL, "onnx.Neg"), 0);
}

static void versions(void **state) {
  (void)state;
  rlx_registry *r = NULL;
  OK(rlx_registry_create(&r));
  for (int v = 1; v <= 7; v += 3) {
    rlx_op op = an_op("ver.op", v);
    OK(rlx_register_op(r, &op, 0, NULL));
  }
  const int opsets[] = {1, 3, 4, 6, 7, 99, 0}, expected[] = {1, 1, 4, 4, 7, 7, 7};
  for (int i = 0; i < 7; i++) {
    op_entry *e = registry_find_op(r, "ver.op", opsets[i]);
    assert_non_null(e);
    assert_int_equal(e->op.version, expected[i]);
    op_entry_release(e);
  }
  rlx_op wide = an_op("ver.op", 9);
  wide.params_size = 64;
  OK(rlx_register_op(r, &wide, 0, NULL));
  rlx_cpu_kernel k = a_kernel("ver.op", "spanning", nothing);
  k.head.version_min = 7;
  k.head.version_max = 9;
  FAILS(rlx_register_cpu_kernel(r, &k, 0, NULL), RLX_INVALID, "different params layouts");
  k.head.version_max = 8;
  OK(rlx_register_cpu_kernel(r, &k, 0, NULL));
  rlx_registry_destroy(r);
}

/* What a session resolved stays, whatever is registered or taken back later. */
static void sessions_keep_their_records(void **state) {
  (void)state;
  rlx_registry *r = NULL;
  OK(rlx_registry_create(&r));
  rlx_handle op_handle = 0, kernel_handle = 0;
  rlx_op op = an_op("keep.op", 1);
  rlx_cpu_kernel k = a_kernel("keep.op", "k", mark_2);
  OK(rlx_register_op(r, &op, 0, &op_handle));
  OK(rlx_register_cpu_kernel(r, &k, 0, &kernel_handle));
  rlx_graph *g = NULL;
  rlx_session *s = NULL;
  rlx_binding *b = NULL;
  rlx_type type = {.dtype = RLX_FLOAT, .rank = 1, .dims = {1}};
  OK(rlx_graph_create(r, &g));
  rlx_value *x = rlx_graph_input(g, "x", &type);
  rlx_graph_output(g, rlx_graph_op(g, "keep.op", NULL, 0, &x, 1), "y");
  OK(rlx_graph_finish(g));
  rlx_session_options o = RLX_SESSION_OPTIONS_INIT;
  o.registry = r;
  OK(rlx_session_create(g, &o, &s));
  rlx_graph_destroy(g);
  OK(rlx_unregister(r, kernel_handle));
  OK(rlx_unregister(r, op_handle));
  rlx_registry_destroy(r);
  rlx_tensor *t = NULL, *y = NULL;
  OK(rlx_tensor_create(RLX_FLOAT, 1, type.dims, &t));
  OK(rlx_binding_create(s, &b));
  OK(rlx_binding_input(b, "x", t, 0));
  OK(rlx_run(b, NULL));
  OK(rlx_binding_get(b, "y", &y));
  assert_true(*(float *)rlx_tensor_data(y) == 2);
  rlx_tensor_destroy(t);
  rlx_tensor_destroy(y);
  rlx_binding_destroy(b);
  rlx_session_destroy(s);
}

static void attributes(void **state) {
  (void)state;
  rlx_registry *r = NULL;
  OK(rlx_registry_create(&r));
  typedef struct params {
    uint64_t given;
    int64_t axis;
    float alpha;
  } params;
  rlx_op op = an_op("attr.op", 1);
  op.params_size = sizeof(params);
  op.attrs = (const rlx_attr_def[]){
      {.name = "axis",
       .kind = RLX_ATTR_INT,
       .flags = RLX_REQUIRED | RLX_RANGED,
       .offset = offsetof(params, axis),
       .min = 0,
       .max = 3},
      {.name = "alpha", .kind = RLX_ATTR_FLOAT, .offset = offsetof(params, alpha), .default_float = 0.5f},
      {0}};
  OK(rlx_register_op(r, &op, 0, NULL));
  int64_t one = 1;
  rlx_tensor *x = NULL, *y = NULL;
  OK(rlx_tensor_create(RLX_FLOAT, 1, &one, &x));
  FAILS(rlx_call(r, "attr.op", NULL, 0, &x, 1, &y, 1), RLX_INVALID, "attribute 'axis' is missing");
  rlx_attr a[] = {RLX_ATTR_I("axis", 7)};
  FAILS(rlx_call(r, "attr.op", a, 1, &x, 1, &y, 1), RLX_INVALID, "'axis' is 7, outside [0, 3]");
  rlx_attr b[] = {RLX_ATTR_F("axis", 1)};
  FAILS(rlx_call(r, "attr.op", b, 1, &x, 1, &y, 1), RLX_INVALID, "'axis' is of kind float, must be int");
  rlx_attr c[] = {RLX_ATTR_I("axis", 1), RLX_ATTR_I("beta", 1)};
  FAILS(rlx_call(r, "attr.op", c, 2, &x, 1, &y, 1), RLX_INVALID, "no attribute 'beta'");
  rlx_attr d[] = {RLX_ATTR_I("axis", 1)};
  OK(rlx_call(r, "attr.op", d, 1, &x, 1, &y, 1));
  rlx_tensor_destroy(x);
  rlx_tensor_destroy(y);
  rlx_registry_destroy(r);
}

static void packages(void **state) {
  (void)state;
  FAILS(rlx_load_package(NULL, "no-such-package"), RLX_NOT_FOUND, "librlx-no-such-package.so");
  FAILS(rlx_load_package(NULL, "../evil"), RLX_NOT_FOUND, "no such file");
  FAILS(rlx_load_package(NULL, "a b"), RLX_INVALID, "not a package name");
  FAILS(rlx_load_package(NULL, "/etc/passwd"), RLX_NOT_FOUND, "passwd");
  FAILS(rlx_load_package(NULL, NULL), RLX_INVALID, "no name");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(malformed_records),
      cmocka_unit_test(records_of_other_tiers),
      cmocka_unit_test(duplicates_and_replacing),
      cmocka_unit_test(the_total_order),
      cmocka_unit_test(users_kernel_for_a_builtin),
      cmocka_unit_test(versions),
      cmocka_unit_test(sessions_keep_their_records),
      cmocka_unit_test(attributes),
      cmocka_unit_test(packages),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
