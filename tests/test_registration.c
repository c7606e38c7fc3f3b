/* test_registration.c — records that are refused, version ranges, and registries used by many threads at once. */
#include <malloc.h>
#include <pthread.h>
#include <rlx/extend.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Sanitizers have allocators of their own, and leak checks. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif

#define OK(expr)                                                          \
  do {                                                                    \
    if ((expr) != RLX_OK) fail_msg("%s: %s", #expr, rlx_error_message()); \
  } while (0)
#define FAILS(expr, code, words)                                                                       \
  do {                                                                                                 \
    assert_int_equal(expr, code);                                                                      \
    if (!strstr(rlx_error_message(), words)) fail_msg("'%s' not in '%s'", words, rlx_error_message()); \
  } while (0)

static rlx_status one(rlx_ctx *ctx) {
  for (int64_t i = 0; i < ctx->outputs[0].count; i++) ((float *)ctx->outputs[0].data)[i] = 1;
  return RLX_OK;
}
static rlx_status two(rlx_ctx *ctx) {
  for (int64_t i = 0; i < ctx->outputs[0].count; i++) ((float *)ctx->outputs[0].data)[i] = 2;
  return RLX_OK;
}

static const rlx_port in[] = {{"X", "T", RLX_SET(RLX_FLOAT), 0, 0}, {0}}, out[] = {{"Y", "T", 0, 0, 0}, {0}};

static rlx_op an_op(const char *name, int version) {
  return (rlx_op){
      .struct_size = sizeof(rlx_op), .name = name, .version = version, .inputs = in, .outputs = out, .eval = one};
}
static rlx_cpu_kernel a_kernel(const char *op, const char *name) {
  return (rlx_cpu_kernel){sizeof(rlx_cpu_kernel), {.op = op, .name = name}, two};
}

static float ran(rlx_registry *r, const char *op) {
  int64_t n = 1;
  rlx_tensor *x = NULL, *y = NULL;
  OK(rlx_tensor_create(RLX_FLOAT, 1, &n, &x));
  OK(rlx_call(r, op, NULL, 0, &x, 1, &y, 1));
  float v = *(float *)rlx_tensor_data(y);
  rlx_tensor_destroy(x);
  rlx_tensor_destroy(y);
  return v;
}

/* ---- records ---- */

typedef struct params {
  uint64_t given;
  int64_t a;
  float b, c;
} params;

static void refuse_attrs(const rlx_attr_def *attrs, const char *words) {
  rlx_op op = an_op("reg.attrs", 1);
  op.params_size = sizeof(params);
  op.attrs = attrs;
  FAILS(rlx_register_op(NULL, &op, 0, NULL), RLX_INVALID, words);
}

static void malformed(void **state) {
  (void)state;
  refuse_attrs((const rlx_attr_def[]){{.name = "a", .kind = RLX_ATTR_INT, .offset = 12}, {0}},
               "not aligned to 8 bytes");
  refuse_attrs((const rlx_attr_def[]){{.name = "b", .kind = RLX_ATTR_FLOAT, .offset = 18}, {0}},
               "not aligned to 4 bytes");
  refuse_attrs((const rlx_attr_def[]){{.name = "a", .kind = RLX_ATTR_INT, .offset = 8},
                                      {.name = "b", .kind = RLX_ATTR_FLOAT, .offset = 12},
                                      {0}},
               "'a' and 'b' overlap at offset 12");
  refuse_attrs(
      (const rlx_attr_def[]){{.name = "a", .kind = RLX_ATTR_INT, .flags = RLX_RANGED, .offset = 8, .min = 3, .max = 2},
                             {0}},
      "empty range [3, 2]");
  static const char *const names[] = {"reg.a b", "reg.a\n", "reg.\x01", "reg.a\"", "reg.a@7", "\treg.a"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    rlx_op op = an_op(names[i], 1);
    FAILS(rlx_register_op(NULL, &op, 0, NULL), RLX_INVALID, "in an op's name");
    rlx_cpu_kernel k = a_kernel(names[i], "k");
    FAILS(rlx_register_cpu_kernel(NULL, &k, 0, NULL), RLX_INVALID, "in an op's name");
  }
  rlx_op op = an_op("reg.flow", 1);
  op.traits = RLX_CONTROL_FLOW;
  FAILS(rlx_register_op(NULL, &op, 0, NULL), RLX_INVALID, "only rlx's own ops run subgraphs");
  op = an_op("reg.port", 1);
  op.inputs = (const rlx_port[]){{"X", NULL, UINT64_C(1) << 40, 0, 0}, {0}};
  FAILS(rlx_register_op(NULL, &op, 0, NULL), RLX_INVALID, "input 'X' permits no dtype");
  op.inputs = (const rlx_port[]){{"X", NULL, RLX_SET(RLX_UNDEFINED), 0, 0}, {0}};
  FAILS(rlx_register_op(NULL, &op, 0, NULL), RLX_INVALID, "input 'X' permits no dtype");
  op.inputs = (const rlx_port[]){{"X", NULL, 0, 0, 2}, {0}};
  FAILS(rlx_register_op(NULL, &op, 0, NULL), RLX_INVALID, "of at least 2, but not variadic");
}

/* ---- ranges ---- */

static rlx_op with_params(const char *name, int version, size_t size) {
  rlx_op op = an_op(name, version);
  op.params_size = size;
  return op;
}

static void ranges(void **state) {
  (void)state;
  rlx_registry *r = NULL;
  OK(rlx_registry_create(&r));
  rlx_op v1 = with_params("range.op", 1, 16), v5 = with_params("range.op", 5, 24), v9 = with_params("range.op", 9, 32);
  OK(rlx_register_op(r, &v1, 0, NULL));
  OK(rlx_register_op(r, &v5, 0, NULL));
  rlx_cpu_kernel k = a_kernel("range.op", "all");
  FAILS(rlx_register_cpu_kernel(r, &k, 0, NULL), RLX_INVALID, "versions 1 and 5 have different params layouts");
  k.head.version_min = 5;
  OK(rlx_register_cpu_kernel(r, &k, 0, NULL));
  FAILS(rlx_register_op(r, &v9, 0, NULL), RLX_INVALID, "kernel 'all' of session serves versions 9 and 5");
  v9.params_size = 24; /* the same layout may */
  OK(rlx_register_op(r, &v9, 0, NULL));
  rlx_op p1 = with_params("range.chain", 1, 16), s2 = with_params("range.chain", 2, 24);
  rlx_handle h = 0;
  OK(rlx_register_op(NULL, &p1, 0, &h)); /* the process's record counts for a session's kernel */
  OK(rlx_register_op(r, &s2, 0, NULL));
  k = a_kernel("range.chain", "all");
  FAILS(rlx_register_cpu_kernel(r, &k, 0, NULL), RLX_INVALID, "different params layouts");
  OK(rlx_unregister(NULL, h));
  OK(rlx_register_cpu_kernel(r, &k, 0, NULL));
  assert_true(ran(r, "range.chain") == 2);
  OK(rlx_register_op(NULL, &p1, 0, &h)); /* later, where r's kernels are not seen: it is passed over */
  assert_true(ran(r, "range.chain") == 1);
  rlx_which_answer *answer = NULL;
  rlx_type x = {.dtype = RLX_FLOAT, .rank = 1, .dims = {1}};
  OK(rlx_which(r, "cpu", "range.chain", NULL, 0, &x, 1, &answer));
  assert_non_null(strstr(answer->reasons, "different params layouts"));
  assert_string_equal(answer->owner, "session");
  rlx_free(answer);
  OK(rlx_unregister(NULL, h));
  rlx_registry_destroy(r);
}

/* ---- threads ---- */

enum { THREADS = 4, CYCLES = 2500 };

typedef struct worker {
  int number;
  char wrong[200];
} worker;

/* Registers, finds, runs and takes back; the name `shared` is the others' too. */
static void *cycle(void *arg) {
  worker *w = arg;
  char mine[32];
  snprintf(mine, sizeof mine, "cycle.op%d", w->number);
  for (int i = 0; i < CYCLES && !*w->wrong; i++) {
    rlx_op op = an_op(mine, 1), shared = an_op("cycle.shared", 1);
    rlx_cpu_kernel k = a_kernel(mine, "k");
    rlx_handle a = 0, b = 0, c = 0;
    rlx_tensor *x = NULL, *y = NULL;
    int64_t n = 1;
    rlx_status status = rlx_register_op(NULL, &op, 0, &a);
    if (status == RLX_OK) status = rlx_register_cpu_kernel(NULL, &k, 0, &b);
    rlx_status other = rlx_register_op(NULL, &shared, i % 2 ? RLX_REPLACE : 0, &c);
    if (other != RLX_OK && other != RLX_DUPLICATE) status = other;
    if (status == RLX_OK) status = rlx_tensor_create(RLX_FLOAT, 1, &n, &x);
    if (status == RLX_OK) status = rlx_call(NULL, mine, NULL, 0, &x, 1, &y, 1);
    if (status == RLX_OK && *(float *)rlx_tensor_data(y) != 2) status = RLX_INTERNAL;
    if (other == RLX_OK && rlx_unregister(NULL, c) != RLX_OK && !strstr(rlx_error_message(), "not registered"))
      status = RLX_INTERNAL; /* somebody may have replaced it */
    if (status == RLX_OK) status = rlx_unregister(NULL, b);
    if (status == RLX_OK) status = rlx_unregister(NULL, a);
    if (status != RLX_OK) snprintf(w->wrong, sizeof w->wrong, "cycle %d: %s", i, rlx_error_message());
    rlx_tensor_destroy(x);
    rlx_tensor_destroy(y);
  }
  return NULL;
}

static bool count_ops(void *user, const rlx_op_info *info) {
  (void)info;
  ++*(int *)user;
  return true;
}

static void run_cycles(void) {
  pthread_t threads[THREADS];
  worker workers[THREADS] = {0};
  for (int i = 0; i < THREADS; i++) {
    workers[i].number = i;
    assert_int_equal(pthread_create(&threads[i], NULL, cycle, &workers[i]), 0);
  }
  for (int i = 0; i < THREADS; i++) {
    pthread_join(threads[i], NULL);
    if (*workers[i].wrong) fail_msg("thread %d, %s", i, workers[i].wrong);
  }
}

static void ten_thousand_cycles(void **state) {
  (void)state;
  int before = 0, after = 0;
  OK(rlx_registry_each_op(NULL, count_ops, &before));
  run_cycles(); /* allocators and caches have what they want */
#ifndef SANITIZED
  size_t held = mallinfo2().uordblks;
  run_cycles();
  size_t grown = mallinfo2().uordblks;
  if (grown > held + (64 << 10)) fail_msg("%zu bytes more after ten thousand cycles", grown - held);
#endif
  OK(rlx_registry_each_op(NULL, count_ops, &after));
  assert_true(after <= before + 1); /* `shared`, whose last one may have been replaced after its owner gave up */
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(malformed), cmocka_unit_test(ranges),
                                     cmocka_unit_test(ten_thousand_cycles)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
