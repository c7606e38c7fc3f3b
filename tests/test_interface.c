/* test_interface.c — what an op of somebody else's may use, on every tier that runs on a host: several outputs,
 * optional and variadic ports, attributes and opaque bytes, in-place pairs, planned workspace, three lifetimes of
 * state, sizes known after running, rlx_call, rlx_delegate_cpu, host-only inputs, ordered effects, kernels that are not
 * thread-safe, threads. */
#include <pthread.h>
#include <rlx/extend.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define OK(expr)                                                          \
  do {                                                                    \
    if ((expr) != RLX_OK) fail_msg("%s: %s", #expr, rlx_error_message()); \
  } while (0)

/* ---- the op: power.all(x, offset?, host count, rest...) -------------------------------------- */

typedef struct params {
  uint64_t given;
  int64_t times;
  float bias;
  rlx_string mode, blob;
  rlx_ints list;
} params;

enum { X, OFFSET, COUNT, REST };

static rlx_status infer(rlx_infer *ctx) {
  int64_t unknown = RLX_UNKNOWN;
  const rlx_type *x = rlx_infer_input(ctx, X), *offset = rlx_infer_input(ctx, OFFSET);
  if (x->rank != RLX_UNKNOWN && x->rank != 1) return rlx_fail(ctx, RLX_INVALID, "x of rank %d", x->rank);
  if (offset && x->rank == 1 && offset->rank == 1 && x->dims[0] >= 0 && offset->dims[0] >= 0 &&
      x->dims[0] != offset->dims[0])
    return rlx_fail(ctx, RLX_INVALID, "an offset of another size");
  const rlx_tensor *count = rlx_infer_value(ctx, COUNT);
  int64_t repeated[1] = {count ? *(const int64_t *)rlx_tensor_data(count) : RLX_UNKNOWN};
  rlx_infer_like(ctx, 0, X);
  rlx_infer_set(ctx, 1, 1, repeated);
  rlx_infer_set(ctx, 2, 1, &unknown);
  return RLX_OK;
}

typedef struct job {
  const params *p;
  const float *x, *offset;
  float *y;
} job;

static void range(void *arg, int64_t begin, int64_t end) {
  const job *j = arg;
  for (int64_t i = begin; i < end; i++)
    j->y[i] = j->x[i] * (float)j->p->times + j->p->bias + (j->offset ? j->offset[i] : 0);
}

/* y = x * times + bias + offset; s[i] = sum of rest[i % rest] (count of them); kept: the elements of y above 0. */
static rlx_status body(rlx_ctx *ctx, float *scratch) {
  const params *p = ctx->params;
  const rlx_operand *in = ctx->inputs;
  float *y = ctx->outputs[0].data ? ctx->outputs[0].data : scratch, *s = ctx->outputs[1].data;
  job j = {p, in[X].data, in[OFFSET].data, y};
  rlx_parallel_for(ctx, in[X].count, 4, range, &j);
  for (int64_t i = 0; s && i < ctx->outputs[1].count; i++) {
    const rlx_operand *rest = &in[REST + i % (ctx->input_count - REST)];
    s[i] = 0;
    for (int64_t k = 0; k < rest->count; k++) s[i] += ((const float *)rest->data)[k];
  }
  if (p->blob.size != 3 || memcmp(p->blob.data, "\0\xff\1", 3) != 0)
    return rlx_fail(ctx, RLX_INVALID, "the blob is wrong");
  if (p->mode.size != 4 || p->list.count != 2 || p->list.data[1] != 9) return rlx_fail(ctx, RLX_INVALID, "attributes");
  if (ctx->output_count < 3) return RLX_OK;
  int64_t n = 0;
  for (int64_t i = 0; i < in[X].count; i++) n += y[i] > 0;
  float *kept = rlx_output_shape(ctx, 2, 1, &n);
  if (!kept) return RLX_KERNEL;
  for (int64_t i = 0; i < in[X].count; i++)
    if (y[i] > 0) *kept++ = y[i];
  return RLX_OK;
}

static rlx_status eval(rlx_ctx *ctx) {
  float scratch[64];
  return ctx->inputs[X].count > 64 ? rlx_fail(ctx, RLX_UNSUPPORTED, "large") : body(ctx, scratch);
}

/* ---- its CPU kernel: workspace, program state, run state, session cache ------------------------ */

static int prepared, released, begun, ended, cached, cpu_runs, host_runs;

static rlx_status prepare(rlx_bound *b, void **state) {
  int64_t *s = malloc(sizeof *s);
  if (!s) return rlx_fail(b, RLX_OUT_OF_MEMORY, "state");
  *s = rlx_bound_input(b, X)->dims[0];
  *state = s;
  __atomic_fetch_add(&prepared, 1, __ATOMIC_RELAXED);
  return RLX_OK;
}
static void release(void *state) {
  __atomic_fetch_add(&released, 1, __ATOMIC_RELAXED);
  free(state);
}
static rlx_status run_init(const void *state, void **run_state) {
  int64_t *r = malloc(sizeof *r);
  if (!r) return RLX_OUT_OF_MEMORY;
  *r = *(const int64_t *)state;
  *run_state = r;
  __atomic_fetch_add(&begun, 1, __ATOMIC_RELAXED);
  return RLX_OK;
}
static void run_done(void *run_state) {
  __atomic_fetch_add(&ended, 1, __ATOMIC_RELAXED);
  free(run_state);
}
static int64_t workspace(rlx_bound *b, const void *state) {
  (void)b;
  return *(const int64_t *)state * (int64_t)sizeof(float);
}
static int64_t bound(rlx_bound *b, int output) { return output == 2 ? rlx_bound_input(b, X)->dims[0] : -1; }

static rlx_status make_entry(void *arg, rlx_cache_entry *e) {
  (void)arg;
  *e = (rlx_cache_entry){malloc(8), 8, free};
  __atomic_fetch_add(&cached, 1, __ATOMIC_RELAXED);
  return e->data ? RLX_OK : RLX_OUT_OF_MEMORY;
}

static rlx_status run(rlx_ctx *ctx) {
  rlx_cache_ref *ref = NULL;
  void *entry = NULL;
  if (ctx->workspace_bytes != ctx->inputs[X].count * 4 || (!ctx->workspace && ctx->workspace_bytes))
    return rlx_fail(ctx, RLX_KERNEL, "no workspace");
  if (*(const int64_t *)ctx->state != ctx->inputs[X].count || *(int64_t *)ctx->run_state != ctx->inputs[X].count)
    return rlx_fail(ctx, RLX_KERNEL, "no state");
  rlx_status status = rlx_cache_get(ctx, "power", 5, make_entry, NULL, &ref, &entry);
  if (status != RLX_OK) return rlx_fail(ctx, status, "no cache: %s", rlx_error_message());
  rlx_cache_release(ref);
  if (rlx_thread_count(ctx) < 1) return rlx_fail(ctx, RLX_KERNEL, "no threads");
  __atomic_fetch_add(&cpu_runs, 1, __ATOMIC_RELAXED);
  return body(ctx, ctx->workspace);
}

static rlx_status host_run(rlx_ctx *ctx) {
  __atomic_fetch_add(&host_runs, 1, __ATOMIC_RELAXED);
  return rlx_delegate_cpu(ctx);
}

static const rlx_port inputs[] = {{"x", "T", RLX_SET(RLX_FLOAT), 0, 0},
                                  {"offset", "T", 0, RLX_OPTIONAL, 0},
                                  {"count", NULL, RLX_SET(RLX_INT64), RLX_HOST, 0},
                                  {"rest", "T", 0, RLX_VARIADIC, 1},
                                  {0}};
static const rlx_port outputs[] = {{"y", "T", 0, 0, 0}, {"sums", "T", 0, 0, 0}, {"kept", "T", 0, RLX_OPTIONAL, 0}, {0}};
static const int64_t two[] = {4, 9};
static const rlx_attr_def attrs[] = {
    {.name = "times",
     .kind = RLX_ATTR_INT,
     .flags = RLX_REQUIRED | RLX_RANGED,
     .offset = offsetof(params, times),
     .max = 5},
    {.name = "bias", .kind = RLX_ATTR_FLOAT, .offset = offsetof(params, bias), .default_float = 0.5f},
    {.name = "mode", .kind = RLX_ATTR_STRING, .offset = offsetof(params, mode), .default_string = "slow"},
    {.name = "blob", .kind = RLX_ATTR_BYTES, .flags = RLX_REQUIRED, .offset = offsetof(params, blob)},
    {.name = "list", .kind = RLX_ATTR_INTS, .offset = offsetof(params, list), .default_ints = {two, 2}},
    {0}};
static const char *const samples[] = {
    "float[6], float[6], int64[] = {3}, float[2], float[3] {times = 2, blob = bytes\"00ff01\"} => 3",
    "float[5], , int64[] = {1}, float[2] {times = 1, bias = -0.25, blob = bytes\"00ff01\"}", NULL};
static const rlx_op op = {.struct_size = sizeof op,
                          .name = "power.all",
                          .samples = samples,
                          .inputs = inputs,
                          .outputs = outputs,
                          .attrs = attrs,
                          .params_size = sizeof(params),
                          .traits = RLX_PURE,
                          .infer = infer,
                          .eval = eval};
static const rlx_pair in_place[] = {{0, X}};
static const rlx_cpu_kernel kernel = {.struct_size = sizeof kernel,
                                      .head = {.op = "power.all",
                                               .name = "mine",
                                               .in_place = in_place,
                                               .in_place_count = 1,
                                               .workspace = workspace,
                                               .output_bound = bound,
                                               .prepare = prepare,
                                               .release = release,
                                               .run_init = run_init,
                                               .run_done = run_done},
                                      .run = run};
static const rlx_host_kernel host = {
    .struct_size = sizeof host, .head = {.op = "power.all", .name = "beside"}, .backend = "record", .run = host_run};

/* ---- running it ---------------------------------------------------------------------------- */

static rlx_registry *registry(void) {
  rlx_registry *r = NULL;
  OK(rlx_registry_create(&r));
  OK(rlx_register_op(r, &op, 0, NULL));
  OK(rlx_register_cpu_kernel(r, &kernel, 0, NULL));
  OK(rlx_register_host_kernel(r, &host, 0, NULL));
  return r;
}

static rlx_tensor *floats(int64_t n, const float *v) {
  rlx_tensor *t = NULL;
  OK(rlx_tensor_create(RLX_FLOAT, 1, &n, &t));
  memcpy(rlx_tensor_data(t), v, (size_t)n * sizeof *v);
  return t;
}

static void expect(rlx_tensor *t, int64_t n, const float *want) {
  assert_int_equal(rlx_tensor_count(t), n);
  for (int64_t i = 0; i < n; i++) assert_true(((float *)rlx_tensor_data(t))[i] == want[i]);
  rlx_tensor_destroy(t);
}

static rlx_graph *one_node(const rlx_registry *r) {
  rlx_graph *g = NULL;
  OK(rlx_graph_create(r, &g));
  rlx_type x = {.dtype = RLX_FLOAT, .rank = 1, .dims = {RLX_UNKNOWN}}, count = {.dtype = RLX_INT64};
  rlx_value *in[5] = {rlx_graph_input(g, "x", &x), rlx_graph_input(g, "offset", &x),
                      rlx_graph_input(g, "count", &count), rlx_graph_input(g, "r", &x), rlx_graph_input(g, "q", &x)};
  rlx_attr a[] = {RLX_ATTR_I("times", 2), {.name = "blob", .kind = RLX_ATTR_BYTES, .s = {"\0\xff\1", 3}}};
  rlx_node_desc d = {.struct_size = sizeof d,
                     .op = "power.all",
                     .name = "n",
                     .inputs = in,
                     .input_count = 5,
                     .attrs = a,
                     .attr_count = 2,
                     .output_count = 3};
  rlx_node *n = rlx_graph_node(g, &d);
  static const char *const names[] = {"y", "sums", "kept"};
  for (int i = 0; i < 3; i++) rlx_graph_output(g, rlx_node_output(n, i), names[i]);
  OK(rlx_graph_finish(g));
  return g;
}

static void run_on(rlx_registry *r, const char *device, rlx_tier tier) {
  static const float x[] = {1, -2, 3, -4, 5, -6}, o[] = {0, 10, 0, 0, 0, 0}, a[] = {1, 2}, b[] = {3, 4, 5};
  static const float y[] = {2.5f, 6.5f, 6.5f, -7.5f, 10.5f, -11.5f}, sums[] = {3, 12, 3},
                     kept[] = {2.5f, 6.5f, 6.5f, 10.5f};
  rlx_graph *g = one_node(r);
  rlx_session *s = NULL;
  rlx_binding *bind = NULL;
  rlx_session_options options = RLX_SESSION_OPTIONS_INIT;
  rlx_pin pin = {.op = "power.all", .tier = tier};
  options.device = device;
  options.registry = r;
  options.pins = &pin;
  options.pin_count = 1;
  options.threads = 3;
  OK(rlx_session_create(g, &options, &s));
  OK(rlx_binding_create(s, &bind));
  rlx_tensor *count = NULL;
  OK(rlx_tensor_create(RLX_INT64, 0, NULL, &count));
  *(int64_t *)rlx_tensor_data(count) = 3;
  rlx_tensor *in[] = {floats(6, x), floats(6, o), count, floats(2, a), floats(3, b)};
  static const char *const names[] = {"x", "offset", "count", "r", "q"};
  for (int i = 0; i < 5; i++) OK(rlx_binding_input(bind, names[i], in[i], 0));
  for (int again = 0; again < 2; again++) {
    rlx_tensor *out = NULL;
    OK(rlx_run(bind, NULL));
    OK(rlx_binding_get(bind, "y", &out));
    expect(out, 6, y);
    OK(rlx_binding_get(bind, "sums", &out));
    expect(out, 3, sums);
    OK(rlx_binding_get(bind, "kept", &out));
    expect(out, 4, kept);
  }
  expect(in[0], 6, x); /* the caller's x is as it was, in-place pair or not */
  for (int i = 1; i < 5; i++) rlx_tensor_destroy(in[i]);
  rlx_counter c = {.struct_size = sizeof c};
  OK(rlx_session_counter(s, 0, &c));
  assert_true(c.tier == tier && c.steps == 2 && strcmp(c.op, "power.all") == 0 && strcmp(c.owner, "session") == 0);
  rlx_binding_destroy(bind);
  rlx_session_destroy(s);
  rlx_graph_destroy(g);
}

static void every_tier(void **state) {
  (void)state;
  rlx_registry *r = registry();
  run_on(r, "cpu", RLX_TIER_EVAL);
  assert_int_equal(cpu_runs, 0);
  run_on(r, "cpu", RLX_TIER_CPU);
  assert_int_equal(cpu_runs, 2);
  run_on(r, "record", RLX_TIER_EVAL);
  run_on(r, "record", RLX_TIER_CPU);
  assert_int_equal(cpu_runs, 4);
  run_on(r, "record", RLX_TIER_HOST);
  assert_int_equal(host_runs, 2);
  assert_int_equal(cpu_runs, 6); /* the host kernel handed over */
  assert_true(prepared > 0 && prepared == released && begun > 0 && begun == ended);
  assert_true(cached > 0 && cached < cpu_runs); /* once a session */
  rlx_registry_destroy(r);
}

static void call(void **state) {
  (void)state;
  static const float x[] = {1, -1}, rest[] = {7}, y[] = {3.5f, -2.5f}, sums[] = {7, 7};
  rlx_registry *r = registry();
  rlx_tensor *count = NULL, *out[2] = {NULL, NULL};
  OK(rlx_tensor_create(RLX_INT64, 0, NULL, &count));
  *(int64_t *)rlx_tensor_data(count) = 2;
  rlx_tensor *in[] = {floats(2, x), NULL, count, floats(1, rest)};
  rlx_attr a[] = {RLX_ATTR_I("times", 3), {.name = "blob", .kind = RLX_ATTR_BYTES, .s = {"\0\xff\1", 3}}};
  OK(rlx_call(r, "power.all", a, 2, in, 4, out, 2));
  expect(out[0], 2, y);
  expect(out[1], 2, sums);
  a[0].i = 6;
  out[0] = out[1] = NULL;
  assert_int_equal(rlx_call(r, "power.all", a, 2, in, 4, out, 2), RLX_INVALID);
  assert_non_null(strstr(rlx_error_message(), "'times' is 6, outside [0, 5]"));
  assert_int_equal(rlx_call(r, "power.all", a, 1, in, 4, out, 2), RLX_INVALID);
  assert_int_equal(rlx_call(r, "power.all", a, 2, in, 3, out, 2), RLX_INVALID); /* one of `rest` at least */
  for (int i = 0; i < 4; i++) rlx_tensor_destroy(in[i]);
  rlx_registry_destroy(r);
}

/* The one call that looks at all of it. */
static void checked(void **state) {
  (void)state;
  rlx_registry *r = registry();
  static const char *const devices[] = {"cpu", "record"};
  for (int i = 0; i < 2; i++) {
    rlx_check_options o = RLX_CHECK_OPTIONS_INIT;
    rlx_check_result *result = NULL;
    o.registry = r;
    o.device = devices[i];
    OK(rlx_check_op("power.all", &o, &result));
    for (int k = 0; k < result->line_count; k++)
      if (result->lines[k].outcome == RLX_CHECK_FAILED)
        fail_msg("%s: %s %s: %s: %s", devices[i], result->lines[k].check, result->lines[k].subject,
                 result->lines[k].sample, result->lines[k].message);
    assert_true(result->passed > 60);
    rlx_free(result);
  }
  rlx_registry_destroy(r);
}

/* ---- effects in order, kernels that are not thread-safe -------------------------------------- */

static int notes[64], note_count, inside, most_inside;

static rlx_status take_note(rlx_ctx *ctx) {
  int now = __atomic_add_fetch(&inside, 1, __ATOMIC_SEQ_CST);
  if (now > most_inside) most_inside = now;
  if (note_count < 64) notes[note_count++] = (int)*(const float *)ctx->inputs[0].data;
  for (volatile int spin = 0; spin < 20000; spin++) continue;
  __atomic_sub_fetch(&inside, 1, __ATOMIC_SEQ_CST);
  return RLX_OK;
}

static rlx_registry *note_registry(void) {
  static const rlx_port in[] = {{"x", "T", RLX_SET(RLX_FLOAT), 0, 0}, {0}};
  static const rlx_op note = {
      .struct_size = sizeof note, .name = "power.note", .inputs = in, .traits = RLX_SIDE_EFFECT};
  static const rlx_cpu_kernel k = {
      sizeof k, {.op = "power.note", .name = "one", .traits = RLX_NOT_THREAD_SAFE}, take_note};
  rlx_registry *r = NULL;
  OK(rlx_registry_create(&r));
  OK(rlx_register_op(r, &note, 0, NULL));
  OK(rlx_register_cpu_kernel(r, &k, 0, NULL));
  return r;
}

/* notes b, then a, then b: in the order of the graph, though nothing orders them but that. */
static rlx_session *note_session(rlx_registry *r, const char *device) {
  rlx_graph *g = NULL;
  rlx_session *s = NULL;
  rlx_type t = {.dtype = RLX_FLOAT, .rank = 0};
  OK(rlx_graph_create(r, &g));
  rlx_value *a = rlx_graph_input(g, "a", &t), *b = rlx_graph_input(g, "b", &t), *order[] = {b, a, b};
  for (int i = 0; i < 3; i++) {
    rlx_node_desc d = {.struct_size = sizeof d, .op = "power.note", .inputs = &order[i], .input_count = 1};
    (void)rlx_graph_node(g, &d);
  }
  rlx_graph_output(g, rlx_graph_op(g, "onnx.Neg", NULL, 0, &a, 1), "y");
  OK(rlx_graph_finish(g));
  rlx_session_options o = RLX_SESSION_OPTIONS_INIT;
  o.device = device;
  o.registry = r;
  o.max_concurrent_runs = 4;
  OK(rlx_session_create(g, &o, &s));
  rlx_graph_destroy(g);
  return s;
}

static void *run_notes(void *session) {
  rlx_binding *b = NULL;
  rlx_tensor *one = NULL, *two_ = NULL;
  OK(rlx_binding_create(session, &b));
  OK(rlx_tensor_create(RLX_FLOAT, 0, NULL, &one));
  OK(rlx_tensor_create(RLX_FLOAT, 0, NULL, &two_));
  *(float *)rlx_tensor_data(one) = 1;
  *(float *)rlx_tensor_data(two_) = 2;
  OK(rlx_binding_input(b, "a", one, 0));
  OK(rlx_binding_input(b, "b", two_, 0));
  OK(rlx_run(b, NULL));
  rlx_tensor_destroy(one);
  rlx_tensor_destroy(two_);
  rlx_binding_destroy(b);
  return NULL;
}

static void effects(void **state) {
  (void)state;
  static const char *const devices[] = {"cpu", "record"};
  for (int d = 0; d < 2; d++) {
    rlx_registry *r = note_registry();
    rlx_session *s = note_session(r, devices[d]);
    note_count = 0;
    (void)run_notes(s);
    assert_int_equal(note_count, 3);
    assert_true(notes[0] == 2 && notes[1] == 1 && notes[2] == 2);
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) assert_int_equal(pthread_create(&threads[i], NULL, run_notes, s), 0);
    for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
    assert_int_equal(note_count, 15);
    assert_int_equal(most_inside, 1);
    rlx_session_destroy(s);
    rlx_registry_destroy(r);
  }
}

/* A larger total than was done, always; the rest of a failed run is not counted. */
static void count_steps(void *user, int64_t done, int64_t total) {
  int64_t *last = user;
  assert_true(done > *last && done <= total);
  *last = done;
}

static void progress(void **state) {
  (void)state;
  rlx_registry *r = registry();
  rlx_graph *g = one_node(r);
  rlx_session *s = NULL;
  rlx_binding *b = NULL;
  rlx_session_options o = RLX_SESSION_OPTIONS_INIT;
  o.registry = r;
  OK(rlx_session_create(g, &o, &s));
  OK(rlx_binding_create(s, &b));
  static const float x[] = {1, 2};
  static const char *const names[] = {"x", "offset", "r", "q"};
  rlx_tensor *t = floats(2, x), *count = NULL;
  for (int i = 0; i < 4; i++) OK(rlx_binding_input(b, names[i], t, 0));
  OK(rlx_tensor_create(RLX_INT64, 0, NULL, &count));
  OK(rlx_binding_input(b, "count", count, 0));
  int64_t done = 0;
  rlx_run_options run_options = RLX_RUN_OPTIONS_INIT;
  run_options.progress = count_steps;
  run_options.progress_user = &done;
  OK(rlx_run(b, &run_options));
  assert_true(done >= 1);
  rlx_tensor_destroy(t);
  rlx_tensor_destroy(count);
  rlx_binding_destroy(b);
  rlx_session_destroy(s);
  rlx_graph_destroy(g);
  rlx_registry_destroy(r);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(every_tier), cmocka_unit_test(call), cmocka_unit_test(checked),
                                     cmocka_unit_test(effects), cmocka_unit_test(progress)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
