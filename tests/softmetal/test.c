/* The software Metal itself: that kernels compute, that misuse is named, that faults come as asked, that nothing leaks.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "softmetal.h"

typedef void *id;
typedef void *SEL;
typedef struct {
  unsigned long width, height, depth;
} size3;

static SEL (*sel)(const char *);
static id (*class_named)(const char *);
static void *(*implementation)(id class, SEL selector);

static void *method(id object, const char *name) {
  assert_non_null(object);
  id isa;
  memcpy(&isa, object, sizeof isa); /* an object's first word */
  return implementation(isa, sel(name));
}
/* A method call: its type spelt out, as every caller from C must. */
#define CALL(type, object, name, ...) ((type)(uintptr_t)method((object), (name)))((object), sel(name), ##__VA_ARGS__)
#define SEND(object, name) CALL(id(*)(id, SEL), object, name)

static id pool_open(void) {
  id class = class_named("NSAutoreleasePool");
  id isa;
  memcpy(&isa, class, sizeof isa);
  return ((id(*)(id, SEL))(uintptr_t)implementation(isa, sel("new")))(class, sel("new"));
}
static void pool_close(id pool) { CALL(void (*)(id, SEL), pool, "drain"); }

static id text(const char *utf8) {
  return CALL(id(*)(id, SEL, const char *), class_named("NSString"), "stringWithUTF8String:", utf8);
}
static void release(id object) { CALL(void (*)(id, SEL), object, "release"); }

typedef struct {
  id pool, device, queue;
} rig;

static int set_up(void **state) {
  static rig r;
  sel = (SEL(*)(const char *))(uintptr_t)dlsym(RTLD_DEFAULT, "sel_registerName");
  class_named = (id(*)(const char *))(uintptr_t)dlsym(RTLD_DEFAULT, "objc_getClass");
  implementation = (void *(*)(id, SEL))(uintptr_t)dlsym(RTLD_DEFAULT, "class_getMethodImplementation");
  id (*create)(void) = (id(*)(void))(uintptr_t)dlsym(RTLD_DEFAULT, "MTLCreateSystemDefaultDevice");
  assert_true(sel && class_named && implementation && create);
  softmetal_inject(SOFTMETAL_NO_FAULT, 0);
  (void)softmetal_misuse();
  r.pool = pool_open();
  r.device = create();
  r.queue = SEND(r.device, "newCommandQueue");
  *state = &r;
  return 0;
}

static int tear_down(void **state) {
  rig *r = *state;
  release(r->queue);
  release(r->device);
  pool_close(r->pool);
  return 0;
}

static id pipeline_for(rig *r, const char *source, const char *name) {
  id error = NULL;
  id library =
      CALL(id(*)(id, SEL, id, id, id *), r->device, "newLibraryWithSource:options:error:", text(source), NULL, &error);
  if (error) fail_msg("%s", CALL(const char *(*)(id, SEL), SEND(error, "localizedDescription"), "UTF8String"));
  id function = CALL(id(*)(id, SEL, id), library, "newFunctionWithName:", text(name));
  assert_non_null(function);
  id pipeline =
      CALL(id(*)(id, SEL, id, id *), r->device, "newComputePipelineStateWithFunction:error:", function, &error);
  release(function);
  release(library);
  return pipeline;
}

static id buffer_of(rig *r, size_t bytes) {
  return CALL(id(*)(id, SEL, unsigned long, unsigned long), r->device, "newBufferWithLength:options:", bytes, 0ul);
}
static void *contents(id buffer) { return CALL(void *(*)(id, SEL), buffer, "contents"); }

static void set_buffer(id encoder, id buffer, unsigned long offset, unsigned long index) {
  CALL(void (*)(id, SEL, id, unsigned long, unsigned long), encoder, "setBuffer:offset:atIndex:", buffer, offset,
       index);
}
static void dispatch(id encoder, id pipeline, unsigned long groups, unsigned long threads) {
  CALL(void (*)(id, SEL, id), encoder, "setComputePipelineState:", pipeline);
  CALL(void (*)(id, SEL, size3, size3), encoder, "dispatchThreadgroups:threadsPerThreadgroup:", (size3){groups, 1, 1},
       (size3){threads, 1, 1});
}
static void finish(id encoder, id commands) {
  CALL(void (*)(id, SEL), encoder, "endEncoding");
  CALL(void (*)(id, SEL), commands, "commit");
  CALL(void (*)(id, SEL), commands, "waitUntilCompleted");
}
static int status_of(id commands) { return CALL(int (*)(id, SEL), commands, "status"); }

static const char sum_source[] =
    "#include <metal_stdlib>\n"
    "using namespace metal;\n"
    "struct Shape { uint n; float scale; };\n"
    "kernel void total(device const float *x [[buffer(0)]], device float *y [[buffer(1)]],\n"
    "                  constant Shape &shape [[buffer(2)]], uint group [[threadgroup_position_in_grid]],\n"
    "                  uint local [[thread_index_in_threadgroup]], uint3 size [[threads_per_threadgroup]]) {\n"
    "  threadgroup float part[64];\n"
    "  float sum = 0.0f;\n"
    "  for (uint i = local; i < shape.n; i += size.x) sum += x[group * shape.n + i];\n"
    "  part[local] = sum;\n"
    "  threadgroup_barrier(mem_flags::mem_threadgroup);\n"
    "  for (uint half_size = size.x / 2; half_size > 0; half_size /= 2) {\n"
    "    if (local < half_size) part[local] += part[local + half_size];\n"
    "    threadgroup_barrier(mem_flags::mem_threadgroup);\n"
    "  }\n"
    "  if (local == 0) y[group] = part[0] * shape.scale;\n"
    "}\n"
    "kernel void lanes(device float *y [[buffer(0)]], uint i [[thread_position_in_grid]]) {\n"
    "  float s = simd_sum(float(i));\n"
    "  y[i] = s + simd_shuffle_xor(float(i), 1) * 1000.0f;\n"
    "}\n";

static void test_reduction(void **state) {
  rig *r = *state;
  enum { N = 1000, ROWS = 7 };
  id x = buffer_of(r, N * ROWS * sizeof(float)), y = buffer_of(r, ROWS * sizeof(float));
  float *in = contents(x), *out = contents(y);
  double want[ROWS] = {0};
  for (int i = 0; i < N * ROWS; i++) {
    in[i] = (float)(i % 17) - 3.25f;
    want[i / N] += 0.5 * (double)in[i];
  }
  id pipeline = pipeline_for(r, sum_source, "total");
  id commands = SEND(r->queue, "commandBuffer"), encoder = SEND(commands, "computeCommandEncoder");
  set_buffer(encoder, x, 0, 0);
  set_buffer(encoder, y, 0, 1);
  struct {
    uint32_t n;
    float scale;
  } shape = {N, 0.5f};
  CALL(void (*)(id, SEL, const void *, unsigned long, unsigned long), encoder, "setBytes:length:atIndex:", &shape,
       sizeof shape, 2ul);
  dispatch(encoder, pipeline, ROWS, 64);
  finish(encoder, commands);
  assert_int_equal(status_of(commands), 4);
  for (int i = 0; i < ROWS; i++) assert_true(fabs((double)out[i] - want[i]) < 1e-3);
  assert_string_equal(softmetal_misuse(), "");
  release(pipeline);
  release(x);
  release(y);
}

static void test_simd_group(void **state) {
  rig *r = *state;
  id y = buffer_of(r, 64 * sizeof(float));
  id pipeline = pipeline_for(r, sum_source, "lanes");
  id commands = SEND(r->queue, "commandBuffer"), encoder = SEND(commands, "computeCommandEncoder");
  set_buffer(encoder, y, 0, 0);
  dispatch(encoder, pipeline, 1, 64);
  finish(encoder, commands);
  const float *out = contents(y);
  for (int i = 0; i < 64; i++) {
    float sum = i < 32 ? 496.0f : 1520.0f;
    assert_true(out[i] == sum + (float)(i ^ 1) * 1000.0f);
  }
  release(pipeline);
  release(y);
}

static void test_errors_of_text(void **state) {
  rig *r = *state;
  static const struct {
    const char *source, *log;
  } cases[] = {
      {"#include <metal_stdlib>\nkernel void f(device float *x [[buffer(0)]]) { x[0] = nothing; }\n", "nothing"},
      {"#include <metal_stdlib>\nkernel void f(device float *x [[buffer(0)]]) { thread float *p = x; p[0] = 1.0f; }\n",
       "cannot initialize"},
      {"#include <metal_stdlib>\nkernel void f(device float *x) { x[0] = 1.0f; }\n", "attribute"},
      {"#include <metal_stdlib>\nkernel void f(device float *x [[buffer(0)]], uint i [[moon_phase]]) { x[i] = 1.0f; "
       "}\n",
       "attribute"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    id error = NULL;
    id library = CALL(id(*)(id, SEL, id, id, id *), r->device,
                      "newLibraryWithSource:options:error:", text(cases[i].source), NULL, &error);
    assert_null(library);
    const char *log = CALL(const char *(*)(id, SEL), SEND(error, "localizedDescription"), "UTF8String");
    if (!strstr(log, cases[i].log)) fail_msg("case %zu: %s", i, log);
  }
}

static void expect_misuse(const char *part) {
  const char *said = softmetal_misuse();
  if (!strstr(said, part)) fail_msg("expected '%s', got '%s'", part, said);
}

static void test_misuse(void **state) {
  rig *r = *state;
  id pipeline = pipeline_for(r, sum_source, "lanes"), y = buffer_of(r, 100);
  id commands = SEND(r->queue, "commandBuffer"), encoder = SEND(commands, "computeCommandEncoder");
  CALL(void (*)(id, SEL, size3, size3), encoder, "dispatchThreadgroups:threadsPerThreadgroup:", (size3){1, 1, 1},
       (size3){1, 1, 1});
  expect_misuse("dispatch without a pipeline");
  set_buffer(encoder, y, 100, 0);
  expect_misuse("offset 100 of 100 bytes");
  SEND(commands, "computeCommandEncoder");
  expect_misuse("while another encoder is open");
  CALL(void (*)(id, SEL), encoder, "endEncoding");
  CALL(void (*)(id, SEL), encoder, "endEncoding");
  expect_misuse("endEncoding twice");
  dispatch(encoder, pipeline, 1, 1);
  expect_misuse("after endEncoding");
  CALL(void (*)(id, SEL), commands, "commit");
  CALL(void (*)(id, SEL), commands, "commit");
  expect_misuse("commit twice");
  SEND(commands, "computeCommandEncoder");
  expect_misuse("after commit");
  commands = SEND(r->queue, "commandBuffer");
  encoder = SEND(commands, "computeCommandEncoder");
  CALL(void (*)(id, SEL), commands, "commit");
  expect_misuse("encoder that was not ended");
  CALL(void (*)(id, SEL), encoder, "endEncoding");
  CALL(void (*)(id, SEL), commands, "waitUntilCompleted");
  release(y);
  release(pipeline);
}

static const char bad_source[] =
    "#include <metal_stdlib>\nusing namespace metal;\n"
    "kernel void past(device float *x [[buffer(0)]]) { x[25] = 1.0f; }\n"
    "kernel void far(device float *x [[buffer(0)]]) { x[100000] = 1.0f; }\n"
    "kernel void diverge(device float *x [[buffer(0)]], uint i [[thread_position_in_grid]]) {\n"
    "  if (i == 0) return;\n  threadgroup_barrier(mem_flags::mem_device);\n  x[0] = 1.0f;\n}\n";

static void test_faults_of_kernels(void **state) {
  rig *r = *state;
  static const struct {
    const char *kernel, *misuse, *error;
  } cases[] = {
      {"past", "byte 100 was written", NULL}, {"far", NULL, "page fault"}, {"diverge", "divergent", "divergent"}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    id y = buffer_of(r, 100), pipeline = pipeline_for(r, bad_source, cases[i].kernel);
    id commands = SEND(r->queue, "commandBuffer"), encoder = SEND(commands, "computeCommandEncoder");
    set_buffer(encoder, y, 0, 0);
    dispatch(encoder, pipeline, 1, i == 2 ? 8 : 1);
    finish(encoder, commands);
    assert_int_equal(status_of(commands), cases[i].error ? 5 : 4);
    if (cases[i].misuse) expect_misuse(cases[i].misuse);
    if (cases[i].error) {
      id error = SEND(commands, "error");
      const char *said = CALL(const char *(*)(id, SEL), SEND(error, "localizedDescription"), "UTF8String");
      if (!strstr(said, cases[i].error)) fail_msg("%s", said);
    }
    release(pipeline);
    release(y);
  }
}

static void test_injected_faults(void **state) {
  rig *r = *state;
  softmetal_inject(SOFTMETAL_OUT_OF_MEMORY, 1);
  id first = buffer_of(r, 16), second = buffer_of(r, 16), third = buffer_of(r, 16);
  assert_true(first && !second && third);
  release(first);
  release(third);
  static const struct {
    softmetal_fault fault;
    long code;
  } faults[] = {{SOFTMETAL_COMMAND_FAILS, 1}, {SOFTMETAL_PAGE_FAULT, 3}, {SOFTMETAL_DEVICE_REMOVED, 11}};
  for (size_t i = 0; i < 3; i++) {
    softmetal_inject(faults[i].fault, 0);
    id commands = SEND(r->queue, "commandBuffer");
    finish(SEND(commands, "computeCommandEncoder"), commands);
    assert_int_equal(status_of(commands), 5);
    assert_int_equal(CALL(long (*)(id, SEL), SEND(commands, "error"), "code"), faults[i].code);
    softmetal_inject(SOFTMETAL_NO_FAULT, 0);
    commands = SEND(r->queue, "commandBuffer");
    finish(SEND(commands, "computeCommandEncoder"), commands);
    assert_int_equal(status_of(commands), 4);
  }
}

/* Without a barrier a concurrent encoder's dispatches run in any order; with one they do not. */
static void test_concurrent_order(void **state) {
  rig *r = *state;
  static const char source[] = "#include <metal_stdlib>\nkernel void push(device int *x [[buffer(0)]], constant int &v "
                               "[[buffer(1)]]) { x[0] = x[0] * 3 + v; }\n";
  id pipeline = pipeline_for(r, source, "push"), y = buffer_of(r, 4);
  int32_t *value = contents(y), want = 0, others = 0;
  for (int32_t v = 0; v < 8; v++) want = want * 3 + v;
  for (int attempt = 0; attempt < 12; attempt++) {
    bool ordered = attempt % 2;
    id commands = SEND(r->queue, "commandBuffer");
    id encoder = CALL(id(*)(id, SEL, unsigned long), commands, "computeCommandEncoderWithDispatchType:", 1ul);
    *value = 0;
    for (int32_t v = 0; v < 8; v++) {
      set_buffer(encoder, y, 0, 0);
      CALL(void (*)(id, SEL, const void *, unsigned long, unsigned long), encoder, "setBytes:length:atIndex:", &v, 4ul,
           1ul);
      dispatch(encoder, pipeline, 1, 1);
      if (ordered) CALL(void (*)(id, SEL, unsigned long), encoder, "memoryBarrierWithScope:", 1ul);
    }
    finish(encoder, commands);
    if (ordered)
      assert_int_equal(*value, want);
    else
      others += *value != want;
  }
  assert_true(others > 0);
  release(pipeline);
  release(y);
}

static void test_shared_event(void **state) {
  rig *r = *state;
  id event = SEND(r->device, "newSharedEvent"), commands = SEND(r->queue, "commandBuffer");
  CALL(void (*)(id, SEL, id, uint64_t), commands, "encodeWaitForEvent:value:", event, UINT64_C(1));
  CALL(void (*)(id, SEL, id, uint64_t), commands, "encodeSignalEvent:value:", event, UINT64_C(2));
  CALL(void (*)(id, SEL), commands, "commit");
  assert_false(CALL(bool (*)(id, SEL, uint64_t, uint64_t), event, "waitUntilSignaledValue:timeoutMS:", UINT64_C(2),
                    UINT64_C(20)));
  CALL(void (*)(id, SEL, uint64_t), event, "setSignaledValue:", UINT64_C(1));
  assert_true(CALL(bool (*)(id, SEL, uint64_t, uint64_t), event, "waitUntilSignaledValue:timeoutMS:", UINT64_C(2),
                   UINT64_C(5000)));
  CALL(void (*)(id, SEL), commands, "waitUntilCompleted");
  release(event);
}

static void test_nothing_leaks(void **state) {
  (void)state;
  assert_string_equal(softmetal_misuse(), "");
  assert_int_equal(softmetal_alive(NULL), 0);
}

int main(void) {
#define RIGGED(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
  const struct CMUnitTest tests[] = {
      RIGGED(test_reduction),        RIGGED(test_simd_group),        RIGGED(test_errors_of_text),
      RIGGED(test_misuse),           RIGGED(test_faults_of_kernels), RIGGED(test_injected_faults),
      RIGGED(test_concurrent_order), RIGGED(test_shared_event),      cmocka_unit_test(test_nothing_leaks),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
