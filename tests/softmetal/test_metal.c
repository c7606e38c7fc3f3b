/* test_metal.c — the Metal backend on the software Metal: raw kernels among delegated ones, what they may not do,
 * faults of the device, and that nothing is left behind. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <rlx/metal.h>

#include "backend/metal/objc.h"
#include "ir/parse.h"
#include "softmetal.h"

#define OK(expr)                                                          \
  do {                                                                    \
    if ((expr) != RLX_OK) fail_msg("%s: %s", #expr, rlx_error_message()); \
  } while (0)

#define HEAD "<ir_version: 8, opset_import: [\"\" : 17, \"test\" : 1]>\n"

/* ---- ops ---------------------------------------------------------------------------------- */

static const char source[] = "#include <metal_stdlib>\n"
                             "using namespace metal;\n"
                             "kernel void twice(device const float *x [[buffer(0)]], device float *y [[buffer(1)]], "
                             "constant uint &n [[buffer(2)]],\n"
                             "                  uint i [[thread_position_in_grid]]) {\n"
                             "  if (i < n) y[i] = 2.0f * x[i] + 1.0f;\n"
                             "}\n";

static enum { BEHAVE, FAIL, END, COMMIT, BAD_TEXT } behaviour;

static rlx_status encode(rlx_metal_dispatch *d) {
  void *pipeline;
  if (behaviour == FAIL) return rlx_fail(NULL, RLX_INVALID, "told to fail");
  if (behaviour == END) send_void(d->encoder, MESSAGE_END);
  if (behaviour == COMMIT) send_void(d->command_buffer, MESSAGE_COMMIT);
  rlx_status status =
      rlx_metal_pipeline(d, behaviour == BAD_TEXT ? "kernel void twice( {" : source, "twice", &pipeline);
  if (status != RLX_OK) return status;
  uint32_t n = (uint32_t)(d->outputs[0].bytes / sizeof(float));
  send_void_id(d->encoder, MESSAGE_SET_PIPELINE, pipeline);
  send_void_id_words(d->encoder, MESSAGE_SET_BUFFER, d->inputs[0].buffer, d->inputs[0].offset, 0);
  send_void_id_words(d->encoder, MESSAGE_SET_BUFFER, d->outputs[0].buffer, d->outputs[0].offset, 1);
  ((void (*)(objc_id, objc_sel, const void *, unsigned long, unsigned long))objc_method(d->encoder, MESSAGE_SET_BYTES))(
      d->encoder, objc_selector(MESSAGE_SET_BYTES), &n, sizeof n, 2);
  ((void (*)(objc_id, objc_sel, objc_size, objc_size))objc_method(d->encoder, MESSAGE_DISPATCH))(
      d->encoder, objc_selector(MESSAGE_DISPATCH), (objc_size){(n + 63) / 64, 1, 1}, (objc_size){64, 1, 1});
  return RLX_OK;
}

static rlx_status eval(rlx_ctx *ctx) {
  const float *x = ctx->inputs[0].data;
  float *y = ctx->outputs[0].data;
  for (int64_t i = 0; i < ctx->inputs[0].count; i++) y[i] = 2 * x[i] + 1;
  return RLX_OK;
}

static const rlx_port in[] = {{"x", "T", RLX_SET(RLX_FLOAT), 0, 0}, {0}}, out[] = {{"y", "T", 0, 0, 0}, {0}};
static const rlx_op raw = {sizeof raw, "test.raw", .inputs = in, .outputs = out, .eval = eval};
static const rlx_op host = {sizeof host, "test.host", .inputs = in, .outputs = out, .eval = eval};
static const rlx_metal_kernel kernel = {sizeof kernel, {"test.raw", .name = "twice"}, encode};

static int register_all(void **state) {
  (void)state;
  return rlx_register_op(NULL, &raw, 0, NULL) || rlx_register_op(NULL, &host, 0, NULL) ||
         rlx_register_metal_kernel(NULL, &kernel, 0, NULL);
}

/* ---- running ------------------------------------------------------------------------------ */

typedef struct subject {
  rlx_session *session;
  rlx_binding *binding;
} subject;

static subject subject_open(const char *text, const char *debug) {
  subject s = {0};
  rlx_graph *g = NULL;
  OK(graph_parse(text, strlen(text), "test", NULL, NULL, &g));
  rlx_session_options o = RLX_SESSION_OPTIONS_INIT;
  o.device = "metal";
  o.debug = debug;
  o.threads = 1;
  OK(rlx_session_create(g, &o, &s.session));
  rlx_graph_destroy(g);
  OK(rlx_binding_create(s.session, &s.binding));
  rlx_tensor *x = NULL;
  int64_t n = 100;
  OK(rlx_tensor_create(RLX_FLOAT, 1, &n, &x));
  for (int64_t i = 0; i < n; i++) ((float *)rlx_tensor_data(x))[i] = (float)i - 7;
  OK(rlx_binding_input(s.binding, "x", x, 0));
  rlx_tensor_destroy(x);
  return s;
}

static void subject_close(subject *s) {
  rlx_binding_destroy(s->binding);
  rlx_session_destroy(s->session);
}

/* y is x with 2x + 1 applied `times` times. */
static void check(subject *s, int times) {
  rlx_tensor *y = NULL, *host_y = NULL;
  OK(rlx_run(s->binding, NULL));
  OK(rlx_binding_get(s->binding, "y", &y));
  int64_t n = 100;
  OK(rlx_tensor_create(RLX_FLOAT, 1, &n, &host_y));
  OK(rlx_tensor_copy(y, host_y));
  for (int64_t i = 0; i < n; i++) {
    float want = (float)i - 7;
    for (int k = 0; k < times; k++) want = 2 * want + 1;
    assert_true(((const float *)rlx_tensor_data(host_y))[i] == want);
  }
  rlx_tensor_destroy(y);
  rlx_tensor_destroy(host_y);
}

static rlx_session_stats stats_of(const subject *s) {
  rlx_session_stats stats = {.struct_size = sizeof stats};
  rlx_session_get_stats(s->session, &stats);
  return stats;
}

/* ---- tests -------------------------------------------------------------------------------- */

#define MIXED \
  HEAD "g (float[100] x) => (float[100] y) { a = test.raw(x)\n b = test.raw(a)\n c = test.host(b)\n y = test.raw(c) }"
#define NATIVE HEAD "g (float[100] x) => (float[100] y) { a = test.raw(x)\n b = test.raw(a)\n y = test.raw(b) }"

static void raw_among_delegated(void **state) {
  (void)state;
  static const char *const modes[] = {"", "discrete", "validate", "sync"};
  for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
    subject s = subject_open(MIXED, modes[i]);
    check(&s, 4);
    check(&s, 4);
    if (i < 3) assert_int_equal(stats_of(&s).trips, 2);
    subject_close(&s);
  }
  assert_string_equal(softmetal_misuse(), "");
}

static void native_makes_no_trip(void **state) {
  (void)state;
  subject s = subject_open(NATIVE, "");
  int64_t before = softmetal_count().committed, waits = softmetal_count().waits;
  check(&s, 3);
  assert_int_equal(stats_of(&s).trips, 0);
  assert_int_equal(softmetal_count().committed - before, 1);
  assert_int_equal(softmetal_count().waits - waits, 0); /* events, not waitUntilCompleted */
  subject_close(&s);
}

static void misbehaving_kernels(void **state) {
  (void)state;
  static const struct {
    int how;
    const char *debug, *says;
  } rows[] = {{FAIL, "", "node 'node_0' (test.raw), kernel twice: told to fail"},
              {BAD_TEXT, "", "node 'node_0' (test.raw), kernel twice: Metal: compiling of 'twice' failed"},
              {END, "validate", "node 'node_0' (test.raw), kernel twice: encode called endEncoding"},
              {COMMIT, "validate", "node 'node_0' (test.raw), kernel twice: encode called commit"}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    subject s = subject_open(NATIVE, rows[i].debug);
    behaviour = rows[i].how;
    assert_int_not_equal(rlx_run(s.binding, NULL), RLX_OK);
    if (strncmp(rlx_error_message(), rows[i].says, strlen(rows[i].says)) != 0) fail_msg("%s", rlx_error_message());
    behaviour = BEHAVE;
    check(&s, 3);
    subject_close(&s);
  }
  assert_string_equal(softmetal_misuse(), "");
}

static void faults_of_the_device(void **state) {
  (void)state;
  static const softmetal_fault once[] = {SOFTMETAL_COMMAND_FAILS, SOFTMETAL_PAGE_FAULT};
  subject s = subject_open(NATIVE, "");
  check(&s, 3);
  for (size_t i = 0; i < 2; i++) {
    softmetal_inject(once[i], 0);
    assert_int_equal(rlx_run(s.binding, NULL), RLX_DEVICE);
    assert_non_null(strstr(rlx_error_message(), "in the submission from node 'node_0' to node 'node_2'"));
    check(&s, 3);
  }
  softmetal_inject(SOFTMETAL_DEVICE_REMOVED, 0);
  assert_int_equal(rlx_run(s.binding, NULL), RLX_DEVICE);
  assert_int_equal(rlx_run(s.binding, NULL), RLX_DEVICE); /* gone is gone */
  subject_close(&s);
  softmetal_inject(SOFTMETAL_NO_FAULT, 0);
  subject again = subject_open(NATIVE, ""); /* but not for a new session */
  check(&again, 3);
  subject_close(&again);
}

static void no_memory(void **state) {
  (void)state;
  rlx_graph *g = NULL;
  OK(graph_parse(NATIVE, strlen(NATIVE), "test", NULL, NULL, &g));
  int failed = 0;
  for (int after = 0; after < 4; after++) {
    rlx_session_options o = RLX_SESSION_OPTIONS_INIT;
    rlx_session *s = NULL;
    rlx_binding *b = NULL;
    o.device = "metal";
    softmetal_inject(SOFTMETAL_OUT_OF_MEMORY, after);
    rlx_status status = rlx_session_create(g, &o, &s);
    if (status == RLX_OK) {
      int64_t n = 100;
      rlx_tensor *x = NULL;
      OK(rlx_binding_create(s, &b));
      OK(rlx_tensor_create(RLX_FLOAT, 1, &n, &x));
      memset(rlx_tensor_data(x), 0, 400);
      OK(rlx_binding_input(b, "x", x, 0));
      rlx_tensor_destroy(x);
      status = rlx_run(b, NULL);
    }
    assert_true(status == RLX_OK || status == RLX_OUT_OF_MEMORY || status == RLX_DEVICE);
    failed += status != RLX_OK;
    softmetal_inject(SOFTMETAL_NO_FAULT, 0);
    rlx_binding_destroy(b);
    rlx_session_destroy(s);
  }
  assert_true(failed > 0);
  rlx_graph_destroy(g);
}

static void many_runs_leave_nothing(void **state) {
  (void)state;
  subject s = subject_open(MIXED, "");
  check(&s, 4);
  int64_t alive = softmetal_alive(NULL);
  for (int i = 0; i < 2000; i++) OK(rlx_run(s.binding, NULL));
  assert_true(softmetal_alive(NULL) <= alive + 4); /* command buffers of the newest run */
  subject_close(&s);
  assert_int_equal(softmetal_alive(NULL), 0);
  assert_string_equal(softmetal_misuse(), "");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(raw_among_delegated), cmocka_unit_test(native_makes_no_trip),
      cmocka_unit_test(misbehaving_kernels), cmocka_unit_test(faults_of_the_device),
      cmocka_unit_test(no_memory),           cmocka_unit_test(many_runs_leave_nothing),
  };
  return cmocka_run_group_tests(tests, register_all, NULL);
}
