/* test_misuse.c — every function of rlx.h and extend.h, given NULL and nonsense: a status with a line of text, or
 * nothing at all; never a crash. Each case runs in a process of its own. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>
#include <rlx/extend.h>

#include "base/memory.h"
#include "ir/tensor.h"

static int failed;

/* True in a child, which ends by `leave`; false in the parent, once the child is done. */
static bool enter(const char *what) {
  fflush(NULL);
  pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) { /* cmocka's handlers would carry on with the next test */
    const int deaths[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
    for (size_t i = 0; i < sizeof deaths / sizeof *deaths; i++) signal(deaths[i], SIG_DFL);
    return true;
  }
  int status = 0;
  assert_int_equal(waitpid(child, &status, 0), child);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return false;
  failed++;
  if (WIFSIGNALED(status))
    print_error("%s: signal %d\n", what, WTERMSIG(status));
  else
    print_error("%s: %s\n", what, WEXITSTATUS(status) == 1 ? "not what it should give" : "dies");
  return false;
}

static void leave(bool good) {
  if (!good) fprintf(stderr, "(%s) ", rlx_error_message());
  fflush(NULL);
  _exit(good ? 0 : 1);
}

#define GIVES(condition)                                                                                               \
  do {                                                                                                                 \
    if (enter(#condition)) leave(condition);                                                                           \
  } while (0)
#define INVALID(call)                                                                                                  \
  do {                                                                                                                 \
    if (enter(#call)) leave((call) == RLX_INVALID && *rlx_error_message());                                            \
  } while (0)
#define NOTHING(call)                                                                                                  \
  do {                                                                                                                 \
    if (enter(#call)) {                                                                                                \
      call;                                                                                                            \
      leave(true);                                                                                                     \
    }                                                                                                                  \
  } while (0)

/* ---- things to misuse --------------------------------------------------------------------- */

static const int64_t two[2] = {2, 3};
static rlx_tensor *tensor, *words, *list;
static rlx_graph *finished, *building;
static rlx_session *session;
static rlx_binding *binding;
static rlx_registry *registry;

static rlx_tensor *make(rlx_dtype dtype) {
  rlx_tensor *t = NULL;
  assert_int_equal(rlx_tensor_create(dtype, 2, two, &t), RLX_OK);
  return t;
}

static rlx_value *input(rlx_graph *g) {
  rlx_type type = {.dtype = RLX_FLOAT, .rank = 2, .dims = {2, 3}};
  return rlx_graph_input(g, "x", &type);
}

static int set_up(void **state) {
  (void)state;
  tensor = make(RLX_FLOAT);
  words = make(RLX_STRING);
  assert_int_equal(rlx_sequence_create(RLX_FLOAT, &tensor, 1, &list), RLX_OK);
  assert_int_equal(rlx_registry_create(&registry), RLX_OK);
  assert_int_equal(rlx_graph_create(NULL, &finished), RLX_OK);
  rlx_value *x = input(finished);
  rlx_graph_output(finished, rlx_graph_op(finished, "onnx.Relu", NULL, 0, &x, 1), "y");
  assert_int_equal(rlx_graph_finish(finished), RLX_OK);
  assert_int_equal(rlx_graph_create(NULL, &building), RLX_OK);
  assert_int_equal(rlx_session_create(finished, NULL, &session), RLX_OK);
  assert_int_equal(rlx_binding_create(session, &binding), RLX_OK);
  return 0;
}

static int tear_down(void **state) {
  (void)state;
  rlx_binding_destroy(binding);
  rlx_session_destroy(session);
  rlx_graph_destroy(building);
  rlx_graph_destroy(finished);
  rlx_registry_destroy(registry);
  rlx_tensor_destroy(list);
  rlx_tensor_destroy(words);
  rlx_tensor_destroy(tensor);
  return 0;
}

/* ---- words and tensors -------------------------------------------------------------------- */

static void test_words(void **state) {
  (void)state;
  failed = 0;
  GIVES(rlx_status_name(-1) && rlx_status_name(1000));
  GIVES(rlx_debug_switch(-1, NULL) == NULL && rlx_debug_switch(100000, NULL) == NULL && rlx_debug_switch(0, NULL));
  GIVES(rlx_pass(-1, NULL) == NULL && rlx_pass(100000, NULL) == NULL && rlx_pass(0, NULL));
  GIVES(rlx_environment(-1, NULL) == NULL && rlx_environment(100000, NULL) == NULL && rlx_environment(0, NULL));
  GIVES(strcmp(rlx_dtype_name((rlx_dtype)-1), "undefined") == 0 &&
        strcmp(rlx_dtype_name((rlx_dtype)999), "undefined") == 0);
  GIVES(rlx_dtype_parse(NULL) == RLX_UNDEFINED && rlx_dtype_parse("") == RLX_UNDEFINED);
  GIVES(rlx_dtype_bits((rlx_dtype)-1) == 0 && rlx_dtype_bits((rlx_dtype)999) == 0);
  GIVES(rlx_dtype_bytes((rlx_dtype)-1, 1) == -1 && rlx_dtype_bytes(RLX_FLOAT, -1) == -1);
  GIVES(rlx_dtype_bytes(RLX_FLOAT, INT64_MAX) == -1 && rlx_dtype_bytes(RLX_STRING, INT64_MAX) == -1);
  GIVES(rlx_tier_name((rlx_tier)-1) && rlx_tier_name((rlx_tier)99));
  NOTHING(rlx_set_log(NULL, NULL));
  NOTHING(rlx_free(NULL));
  assert_int_equal(failed, 0);
}

static void test_tensors(void **state) {
  (void)state;
  failed = 0;
  int64_t bad[2] = {2, -1};
  const int64_t huge[2] = {INT64_MAX, 2};
  rlx_tensor *t = NULL, *none[1] = {NULL};
  INVALID(rlx_tensor_create(RLX_FLOAT, 2, NULL, &t));
  INVALID(rlx_tensor_create(RLX_FLOAT, 2, two, NULL));
  INVALID(rlx_tensor_create(RLX_FLOAT, -1, two, &t));
  INVALID(rlx_tensor_create(RLX_FLOAT, 17, two, &t));
  INVALID(rlx_tensor_create(RLX_FLOAT, 2, bad, &t));
  INVALID(rlx_tensor_create(RLX_FLOAT, 2, huge, &t));
  INVALID(rlx_tensor_create((rlx_dtype)99, 2, two, &t));
  INVALID(rlx_tensor_create(RLX_UNDEFINED, 2, two, &t));
  INVALID(rlx_tensor_wrap(NULL, 24, RLX_FLOAT, 2, two, NULL, NULL, &t));
  INVALID(rlx_tensor_wrap(&bad, 8, RLX_FLOAT, 2, two, NULL, NULL, &t));
  INVALID(rlx_tensor_wrap(&bad, 24, RLX_FLOAT, 2, NULL, NULL, NULL, &t));
  INVALID(rlx_tensor_wrap(&bad, 24, RLX_FLOAT, 2, two, NULL, NULL, NULL));
  INVALID(rlx_tensor_wrap(&bad, 4096, RLX_STRING, 2, two, NULL, NULL, &t));
  GIVES(rlx_tensor_retain(NULL) == NULL);
  NOTHING(rlx_tensor_destroy(NULL));
  GIVES(rlx_tensor_dtype(NULL) == RLX_UNDEFINED && rlx_tensor_rank(NULL) == 0 && rlx_tensor_dims(NULL) == NULL);
  GIVES(rlx_tensor_count(NULL) == 0 && rlx_tensor_bytes(NULL) == 0 && rlx_tensor_data(NULL) == NULL);
  GIVES(rlx_tensor_kind(NULL) == RLX_KIND_TENSOR && rlx_tensor_item(NULL, 0) == NULL);
  GIVES(rlx_tensor_item(list, -1) == NULL && rlx_tensor_item(list, 1) == NULL && rlx_tensor_item(tensor, 0) == NULL);
  INVALID(rlx_tensor_set_string(NULL, 0, "a", 1));
  INVALID(rlx_tensor_set_string(tensor, 0, "a", 1));
  INVALID(rlx_tensor_set_string(words, 6, "a", 1));
  INVALID(rlx_tensor_set_string(words, -1, "a", 1));
  INVALID(rlx_tensor_set_string(words, 0, NULL, 1));
  INVALID(rlx_sequence_create(RLX_FLOAT, NULL, 1, &t));
  INVALID(rlx_sequence_create(RLX_FLOAT, none, 1, &t));
  INVALID(rlx_sequence_create(RLX_FLOAT, &tensor, -1, &t));
  INVALID(rlx_sequence_create(RLX_INT8, &tensor, 1, &t));
  INVALID(rlx_sequence_create(RLX_INT8, &list, 1, &t));
  INVALID(rlx_map_create(NULL, tensor, &t));
  INVALID(rlx_map_create(tensor, tensor, &t));
  INVALID(rlx_value_create(NULL, &tensor, 1, &t));
  INVALID(rlx_type_hold(RLX_KIND_SEQUENCE, RLX_UNDEFINED, NULL, NULL));
  INVALID(rlx_sequence_create(RLX_FLOAT, &tensor, 1, NULL));
  INVALID(rlx_sequence_create((rlx_dtype)77, NULL, 0, &t));
  INVALID(rlx_optional_create(RLX_KIND_TENSOR, RLX_INT8, tensor, &t));
  INVALID(rlx_optional_create(RLX_KIND_SEQUENCE, RLX_FLOAT, tensor, &t));
  INVALID(rlx_optional_create((rlx_kind)9, RLX_FLOAT, NULL, &t));
  INVALID(rlx_optional_create(RLX_KIND_TENSOR, RLX_FLOAT, tensor, NULL));
  assert_int_equal(failed, 0);
}

static void test_files(void **state) {
  (void)state;
  failed = 0;
  rlx_tensor *t = NULL;
  rlx_graph *g = NULL;
  rlx_type odd = {.kind = (rlx_kind)9};
  char *text = NULL;
  rlx_load_options options = {.struct_size = 3};
  rlx_load_options negative = RLX_LOAD_OPTIONS_INIT;
  negative.memory_limit = -1;
  INVALID(rlx_tensor_read(NULL, &t));
  INVALID(rlx_tensor_read("x.npy", NULL));
  INVALID(rlx_value_read(NULL, &odd, &t));
  INVALID(rlx_value_read("x.pb", NULL, &t));
  INVALID(rlx_value_read("x.pb", &odd, NULL));
  GIVES(rlx_value_read("/dev/null", &odd, &t) != RLX_OK);
  GIVES(rlx_tensor_read("/no/such/file", &t) != RLX_OK && rlx_tensor_read("/", &t) != RLX_OK);
  INVALID(rlx_tensor_write(NULL, "a", "a.npy"));
  INVALID(rlx_tensor_write(tensor, "a", NULL));
  INVALID(rlx_tensor_to_dlpack(NULL, (struct DLManagedTensor **)&t));
  INVALID(rlx_tensor_to_dlpack(tensor, NULL));
  GIVES(rlx_tensor_to_dlpack(words, (struct DLManagedTensor **)&t) != RLX_OK);
  GIVES(rlx_tensor_to_dlpack(list, (struct DLManagedTensor **)&t) != RLX_OK);
  INVALID(rlx_tensor_from_dlpack(NULL, &t));
  INVALID(rlx_graph_load(NULL, NULL, &g));
  INVALID(rlx_graph_load("x.onnx", NULL, NULL));
  INVALID(rlx_graph_load("x.onnx", &options, &g));
  INVALID(rlx_graph_load_memory("x", 1, &negative, &g));
  INVALID(rlx_graph_load_memory(NULL, 1, NULL, &g));
  INVALID(rlx_graph_load_memory("x", 1, NULL, NULL));
  GIVES(rlx_graph_load_memory("", 0, NULL, &g) != RLX_OK);
  NOTHING(rlx_graph_destroy(NULL));
  INVALID(rlx_graph_save(NULL, "a"));
  INVALID(rlx_graph_save(finished, NULL));
  INVALID(rlx_graph_print(NULL, &text));
  INVALID(rlx_graph_print(finished, NULL));
  INVALID(rlx_graph_validate(NULL));
  assert_int_equal(failed, 0);
}

/* The aligned copy of a weight that lies unaligned in its file is made when somebody asks for its address. */
static void test_short_memory(void **state) {
  (void)state;
  static const char bytes[16] = {0};
  const int64_t dims[1] = {2};
  mapped_file *file = NULL;
  rlx_tensor *t = NULL;
  struct DLManagedTensor *exported = NULL;
  assert_int_equal(mapped_file_copy(bytes, sizeof bytes, &file), RLX_OK);
  assert_int_equal(tensor_from_file(file, (const char *)file->data + 1, 8, RLX_FLOAT, 1, dims, &t), RLX_OK);
  (void)mem_inject(1, 0);
  assert_null(rlx_tensor_data(t));
  (void)mem_inject(1, 0);
  assert_int_equal(rlx_tensor_to_dlpack(t, &exported), RLX_OUT_OF_MEMORY);
  (void)mem_inject(0, 0);
  assert_null(exported);
  assert_non_null(rlx_tensor_data(t));
  rlx_tensor_destroy(t);
  mapped_file_release(file);
}

/* ---- graphs ------------------------------------------------------------------------------- */

/* What the graph being built says after a call that was wrong. */
static bool refused(bool was_null) { return was_null && rlx_graph_finish(building) == RLX_INVALID; }

static bool refuses_node(rlx_node_desc desc) {
  desc.struct_size = sizeof desc;
  return refused(rlx_graph_node(building, &desc) == NULL);
}

static bool refuses_attr(rlx_attr attr) {
  rlx_value *x = input(building);
  return refuses_node(
      (rlx_node_desc){.op = "onnx.LeakyRelu", .inputs = &x, .input_count = 1, .attrs = &attr, .attr_count = 1});
}

static void test_graphs(void **state) {
  (void)state;
  failed = 0;
  rlx_type bad = {.dtype = RLX_FLOAT, .rank = 99}, negative = {.dtype = RLX_FLOAT, .rank = 1, .dims = {-7}};
  rlx_type odd = {.dtype = (rlx_dtype)99}, kind = {.kind = (rlx_kind)9, .dtype = RLX_FLOAT};
  rlx_value *nobody[1] = {NULL};
  rlx_value *foreign = NULL;
  rlx_graph *g = NULL;
  rlx_session *s = NULL;
  INVALID(rlx_graph_create(NULL, NULL));
  NOTHING(rlx_graph_set_opset(NULL, "", 1));
  GIVES((rlx_graph_set_opset(building, NULL, 0), rlx_graph_set_opset(building, "", -1), true));
  GIVES(rlx_graph_input(NULL, "x", &bad) == NULL);
  GIVES(refused(rlx_graph_input(building, "x", NULL) == NULL));
  GIVES(refused(rlx_graph_input(building, "x", &bad) == NULL));
  GIVES(refused(rlx_graph_input(building, "x", &negative) == NULL));
  GIVES(refused(rlx_graph_input(building, "x", &odd) == NULL));
  GIVES(refused(rlx_graph_input(building, "x", &kind) == NULL));
  GIVES(refused((input(building), input(building)) == NULL));
  GIVES(rlx_graph_constant(NULL, "c", tensor) == NULL);
  GIVES(refused(rlx_graph_constant(building, "c", NULL) == NULL));
  NOTHING(rlx_graph_output(NULL, NULL, "y"));
  GIVES(refused((rlx_graph_output(building, NULL, "y"), true)));
  GIVES(rlx_graph_node(NULL, NULL) == NULL);
  GIVES(refused(rlx_graph_node(building, NULL) == NULL));
  GIVES(refuses_node((rlx_node_desc){0}));
  GIVES(refuses_node((rlx_node_desc){.op = ""}));
  GIVES(refuses_node((rlx_node_desc){.op = "onnx.Relu", .inputs = NULL, .input_count = 1}));
  GIVES(refuses_node((rlx_node_desc){.op = "onnx.Relu", .inputs = nobody, .input_count = 1}));
  GIVES(refuses_node((rlx_node_desc){.op = "onnx.Relu", .inputs = nobody, .input_count = -1}));
  GIVES(refuses_node((rlx_node_desc){.op = "onnx.Relu", .output_count = -1}));
  GIVES(refuses_node((rlx_node_desc){.op = "onnx.Relu", .attrs = NULL, .attr_count = 2}));
  GIVES(refuses_node((rlx_node_desc){.op = "onnx.Relu", .attr_count = -2}));
  GIVES(refuses_attr((rlx_attr){0}));
  GIVES(refuses_attr((rlx_attr){.name = "alpha"}));
  GIVES(refuses_attr((rlx_attr){.name = "alpha", .kind = (rlx_attr_kind)55}));
  GIVES(refuses_attr((rlx_attr){.name = "alpha", .kind = RLX_ATTR_STRING, .s = {NULL, 5}}));
  GIVES(refuses_attr((rlx_attr){.name = "alpha", .kind = RLX_ATTR_TENSOR}));
  GIVES(refuses_attr((rlx_attr){.name = "alpha", .kind = RLX_ATTR_GRAPH}));
  GIVES(refuses_attr((rlx_attr){.name = "alpha", .kind = RLX_ATTR_FLOATS, .count = 3}));
  GIVES(refuses_attr((rlx_attr){.name = "alpha", .kind = RLX_ATTR_INTS, .count = SIZE_MAX}));
  GIVES(refuses_attr((rlx_attr){.name = "alpha", .kind = RLX_ATTR_STRINGS, .count = 3}));
  GIVES(refuses_attr((rlx_attr){.name = "alpha", .kind = RLX_ATTR_TENSORS, .count = 3}));
  GIVES(refuses_attr((rlx_attr){.name = "alpha", .kind = RLX_ATTR_GRAPHS, .count = 3}));
  GIVES(refuses_attr((rlx_attr){.name = "alpha", .kind = RLX_ATTR_TYPE}));
  GIVES(refuses_attr((rlx_attr){.name = "alpha", .kind = RLX_ATTR_TYPES, .count = 3}));
  GIVES(refuses_attr((rlx_attr){.name = "alpha", .kind = RLX_ATTR_BYTES, .s = {NULL, 5}}));
  GIVES(rlx_node_output(NULL, 0) == NULL);
  GIVES(rlx_graph_op(NULL, "onnx.Relu", NULL, 0, NULL, 0) == NULL);
  GIVES(refused(rlx_graph_op(building, NULL, NULL, 0, NULL, 0) == NULL));
  GIVES(refused(rlx_graph_op(building, "onnx.Relu", NULL, 0, NULL, 1) == NULL));
  GIVES(refused(rlx_graph_op(building, "onnx.Relu", NULL, 3, nobody, 1) == NULL));
  INVALID(rlx_graph_finish(NULL));
  INVALID(rlx_graph_status(NULL));
  INVALID(rlx_graph_fail(NULL, RLX_INVALID, "no graph"));
  GIVES(rlx_graph_fail(building, RLX_OK, "said to be fine") != RLX_OK && rlx_graph_finish(building) != RLX_OK);
  GIVES(rlx_graph_create(NULL, &g) == RLX_OK && (foreign = input(g)) &&
        (rlx_graph_output(building, foreign, "y"), rlx_graph_finish(building)) == RLX_OK &&
        rlx_session_create(building, NULL, &s) == RLX_INVALID);
  GIVES(rlx_graph_create(NULL, &g) == RLX_OK && (foreign = input(g)) &&
        (rlx_graph_output(building, rlx_graph_op(building, "onnx.Relu", NULL, 0, &foreign, 1), "y"), true) &&
        rlx_session_create(building, NULL, &s) == RLX_INVALID);
  GIVES(!rlx_node_name(NULL) && !rlx_node_op(NULL) && !rlx_node_params(NULL) && !rlx_node_input(NULL, 0));
  GIVES(!rlx_node_input_count(NULL) && !rlx_node_output_count(NULL) && !rlx_node_input_type(NULL, 0));
  GIVES(!rlx_node_output_type(NULL, 0) && !rlx_node_constant(NULL, 0) && !rlx_value_type(NULL) &&
        !rlx_value_name(NULL));
  assert_int_equal(failed, 0);
}

/* ---- sessions and runs -------------------------------------------------------------------- */

static rlx_status session_with(rlx_session_options options) {
  rlx_session *s = NULL;
  options.struct_size = sizeof options;
  return rlx_session_create(finished, &options, &s);
}

static bool spoilt_options(void) {
  rlx_session *s = NULL;
  rlx_session_options options = {.struct_size = 1};
  return rlx_session_create(finished, &options, &s) == RLX_INVALID;
}

static bool run_with_spoilt_options(void) {
  rlx_run_options options = {.struct_size = 1};
  return rlx_run(binding, &options) == RLX_INVALID && rlx_submit(binding, &options, NULL, 0, NULL, 0) == RLX_INVALID;
}

static void test_sessions(void **state) {
  (void)state;
  failed = 0;
  rlx_session *s = NULL;
  rlx_port_info port;
  rlx_device_info device = {.struct_size = sizeof device};
  rlx_session_stats stats = {.struct_size = sizeof stats};
  rlx_pin pin = {.tier = (rlx_tier)99};
  char *text = NULL;
  GIVES(rlx_device_get(-1, &device) == RLX_NOT_FOUND && rlx_device_get(100000, &device) == RLX_NOT_FOUND);
  INVALID(rlx_device_get(0, NULL));
  INVALID(rlx_session_create(NULL, NULL, &s));
  INVALID(rlx_session_create(finished, NULL, NULL));
  GIVES(spoilt_options());
  GIVES(session_with((rlx_session_options){.device = "no such thing"}) != RLX_OK && *rlx_error_message());
  INVALID(session_with((rlx_session_options){.threads = -1}));
  INVALID(session_with((rlx_session_options){.max_concurrent_runs = -1}));
  INVALID(session_with((rlx_session_options){.memory_limit = -1}));
  INVALID(session_with((rlx_session_options){.policy = (rlx_policy)9}));
  INVALID(session_with((rlx_session_options){.pin_count = 1}));
  INVALID(session_with((rlx_session_options){.pin_count = -1}));
  GIVES(session_with((rlx_session_options){.pins = &pin, .pin_count = 1}) != RLX_OK);
  INVALID(session_with((rlx_session_options){.exception_count = 1}));
  INVALID(session_with((rlx_session_options){.exception_count = -1}));
  GIVES(session_with((rlx_session_options){.disable_passes = "no_such_pass"}) != RLX_OK);
  GIVES(session_with((rlx_session_options){.debug = "no_such_switch"}) != RLX_OK);
  NOTHING(rlx_session_destroy(NULL));
  GIVES(rlx_session_input_count(NULL) == 0 && rlx_session_output_count(NULL) == 0);
  INVALID(rlx_session_input(NULL, 0, &port));
  GIVES(rlx_session_input(session, -1, &port) == RLX_NOT_FOUND);
  GIVES(rlx_session_input(session, 1, &port) == RLX_NOT_FOUND);
  INVALID(rlx_session_input(session, 0, NULL));
  INVALID(rlx_session_output(NULL, 0, &port));
  GIVES(rlx_session_output(session, 1, &port) == RLX_NOT_FOUND);
  INVALID(rlx_session_output(session, 0, NULL));
  INVALID(rlx_report(NULL, RLX_REPORT_TEXT, &text));
  INVALID(rlx_report(session, RLX_REPORT_TEXT, NULL));
  INVALID(rlx_report(session, (rlx_report_format)9, &text));
  NOTHING(rlx_session_get_stats(NULL, &stats));
  NOTHING(rlx_session_get_stats(session, NULL));
  INVALID(rlx_trace(NULL, "t.json"));
  GIVES(rlx_trace(session, "/no/such/folder/t.json") != RLX_OK);
  assert_int_equal(failed, 0);
}

static void test_runs(void **state) {
  (void)state;
  failed = 0;
  rlx_binding *b = NULL;
  rlx_tensor *t = NULL;
  rlx_sync sync = {0};
  INVALID(rlx_binding_create(NULL, &b));
  INVALID(rlx_binding_create(session, NULL));
  NOTHING(rlx_binding_destroy(NULL));
  INVALID(rlx_binding_input(NULL, "x", tensor, 0));
  INVALID(rlx_binding_input(binding, NULL, tensor, 0));
  INVALID(rlx_binding_input(binding, "x", words, 0));
  INVALID(rlx_binding_input(binding, "x", list, 0));
  INVALID(rlx_binding_input(binding, "x", tensor, 0x80));
  GIVES(rlx_binding_input(binding, "no", tensor, 0) == RLX_NOT_FOUND);
  INVALID(rlx_binding_output(NULL, "y", tensor));
  INVALID(rlx_binding_output(binding, NULL, tensor));
  INVALID(rlx_binding_output(binding, "y", words));
  GIVES(rlx_binding_output(binding, "no", tensor) == RLX_NOT_FOUND);
  INVALID(rlx_binding_get(NULL, "y", &t));
  INVALID(rlx_binding_get(binding, NULL, &t));
  INVALID(rlx_binding_get(binding, "y", NULL));
  GIVES(rlx_binding_get(binding, "y", &t) != RLX_OK);
  INVALID(rlx_cancel_create(NULL));
  NOTHING(rlx_cancel_set(NULL, true));
  NOTHING(rlx_cancel_destroy(NULL));
  INVALID(rlx_run(NULL, NULL));
  INVALID(rlx_run(binding, NULL));
  GIVES(run_with_spoilt_options());
  INVALID(rlx_submit(NULL, NULL, NULL, 0, NULL, 0));
  GIVES(rlx_submit(binding, NULL, NULL, 1, NULL, 0) != RLX_OK);
  GIVES(rlx_submit(binding, NULL, NULL, 0, NULL, 1) != RLX_OK);
  GIVES(rlx_submit(binding, NULL, &sync, -1, NULL, 0) != RLX_OK);
  INVALID(rlx_wait(NULL));
  INVALID(rlx_wait(binding));
  assert_int_equal(failed, 0);
}

static void test_calls(void **state) {
  (void)state;
  failed = 0;
  rlx_tensor *t = NULL, *none[2] = {NULL, NULL};
  rlx_type type = {.dtype = RLX_FLOAT, .rank = 1, .dims = {2}}, bad = {.dtype = (rlx_dtype)99, .rank = 88};
  rlx_which_answer *answer = NULL;
  rlx_attr attr = {0};
  INVALID(rlx_call(NULL, NULL, NULL, 0, &tensor, 1, &t, 1));
  INVALID(rlx_call(NULL, "onnx.Relu", NULL, 0, NULL, 1, &t, 1));
  INVALID(rlx_call(NULL, "onnx.Relu", NULL, 0, none, 1, &t, 1));
  INVALID(rlx_call(NULL, "onnx.Relu", NULL, 0, &tensor, 1, NULL, 1));
  INVALID(rlx_call(NULL, "onnx.Relu", NULL, 0, &tensor, -1, &t, 1));
  INVALID(rlx_call(NULL, "onnx.Relu", NULL, 0, &tensor, 1, &t, -1));
  INVALID(rlx_call(NULL, "onnx.Relu", NULL, 1, &tensor, 1, &t, 1));
  INVALID(rlx_call(NULL, "onnx.Relu", &attr, 1, &tensor, 1, &t, 1));
  INVALID(rlx_call(NULL, "onnx.Relu", NULL, -1, &tensor, 1, &t, 1));
  INVALID(rlx_call(NULL, "onnx.Relu", NULL, 0, &tensor, 1, &words, 1));
  INVALID(rlx_call(NULL, "onnx.Relu", NULL, 0, &words, 1, &t, 1));
  GIVES(rlx_call(NULL, "no.such", NULL, 0, &tensor, 1, &t, 1) != RLX_OK);
  INVALID(rlx_which(NULL, NULL, NULL, NULL, 0, &type, 1, &answer));
  INVALID(rlx_which(NULL, NULL, "onnx.Relu", NULL, 0, NULL, 1, &answer));
  INVALID(rlx_which(NULL, NULL, "onnx.Relu", NULL, 0, &bad, 1, &answer));
  INVALID(rlx_which(NULL, NULL, "onnx.Relu", NULL, 0, &type, -1, &answer));
  INVALID(rlx_which(NULL, NULL, "onnx.Relu", NULL, 2, &type, 1, &answer));
  INVALID(rlx_which(NULL, NULL, "onnx.Relu", NULL, 0, &type, 1, NULL));
  GIVES(rlx_which(NULL, "nowhere", "onnx.Relu", NULL, 0, &type, 1, &answer) != RLX_OK);
  assert_int_equal(failed, 0);
}

/* ---- registries and records --------------------------------------------------------------- */

static rlx_status nothing(rlx_ctx *ctx) {
  (void)ctx;
  return RLX_OK;
}

static void test_registries(void **state) {
  (void)state;
  failed = 0;
  rlx_op op = {.struct_size = 3}, nameless = {.struct_size = sizeof nameless},
         dotless = {.struct_size = sizeof dotless, .name = "a"};
  rlx_cpu_kernel cpu = {.struct_size = sizeof cpu, .head = {.op = "acme.a"}, .run = nothing},
                 no_op = {.struct_size = sizeof no_op};
  rlx_host_kernel host = {.struct_size = sizeof host, .head = {.op = "acme.a", .name = "h"}};
  rlx_gpu_kernel gpu = {.struct_size = sizeof gpu, .head = {.op = "acme.a", .name = "g"}};
  rlx_handle handle;
  INVALID(rlx_registry_create(NULL));
  NOTHING(rlx_registry_destroy(NULL));
  GIVES((rlx_registry_destroy(rlx_registry_process()), rlx_registry_process() != NULL));
  INVALID(rlx_load_package(NULL, NULL));
  GIVES(rlx_load_package(NULL, "") != RLX_OK && rlx_load_package(NULL, "/no/such.so") == RLX_NOT_FOUND);
  GIVES(rlx_load_package(registry, "/dev/null") != RLX_OK);
  INVALID(rlx_register_op(registry, NULL, 0, &handle));
  INVALID(rlx_register_op(registry, &op, 0, &handle));
  INVALID(rlx_register_op(registry, &nameless, 0, NULL));
  INVALID(rlx_register_op(registry, &dotless, 0, NULL));
  INVALID(rlx_register_cpu_kernel(registry, NULL, 0, &handle));
  INVALID(rlx_register_cpu_kernel(registry, &cpu, 0, &handle));
  INVALID(rlx_register_cpu_kernel(registry, &no_op, 0, &handle));
  INVALID(rlx_register_host_kernel(registry, NULL, 0, &handle));
  INVALID(rlx_register_host_kernel(registry, &host, 0, &handle));
  INVALID(rlx_register_gpu_kernel(registry, NULL, 0, &handle));
  INVALID(rlx_register_gpu_kernel(registry, &gpu, 0, &handle));
  GIVES(rlx_unregister(registry, 0) != RLX_OK && rlx_unregister(NULL, UINT64_MAX) != RLX_OK);
  NOTHING(rlx_registry_each_op(NULL, NULL, NULL));
  NOTHING(rlx_registry_each_kernel(registry, NULL, NULL));
  assert_int_equal(failed, 0);
}

/* ---- contexts ----------------------------------------------------------------------------- */

static void test_no_context(void **state) {
  (void)state;
  failed = 0;
  void *data = NULL;
  rlx_cache_ref *ref = NULL;
  int64_t dims[1] = {1};
  GIVES(rlx_fail(NULL, RLX_KERNEL, "no context") == RLX_KERNEL);
  GIVES(rlx_fail(NULL, RLX_OK, "said to be fine") != RLX_OK);
  GIVES(!rlx_infer_node(NULL) && !rlx_infer_params(NULL) && !rlx_infer_input_count(NULL) &&
        !rlx_infer_output_count(NULL));
  GIVES(!rlx_infer_input(NULL, 0) && !rlx_infer_value(NULL, 0));
  NOTHING(rlx_infer_output(NULL, 0)->rank = 1);
  NOTHING(rlx_infer_set(NULL, 0, 1, dims));
  NOTHING(rlx_infer_like(NULL, 0, 0));
  GIVES(!rlx_output_shape(NULL, 0, 1, dims) && !rlx_input_value(NULL, 0) && !rlx_text(NULL, 1));
  INVALID(rlx_output_value(NULL, 0, NULL));
  NOTHING(rlx_parallel_for(NULL, 10, 1, NULL, NULL));
  GIVES(rlx_thread_count(NULL) == 1 && !rlx_cancelled(NULL));
  GIVES(rlx_delegate_cpu(NULL) != RLX_OK);
  GIVES(!rlx_bound_node(NULL) && !rlx_bound_params(NULL) && !rlx_bound_input(NULL, 0) && !rlx_bound_output(NULL, 0));
  GIVES(!rlx_bound_constant(NULL, 0) && !rlx_bound_input_layout(NULL, 0) && !rlx_bound_output_layout(NULL, 0));
  GIVES(rlx_bound_threads(NULL) == 1);
  INVALID(rlx_cache_get(NULL, "k", 1, NULL, NULL, &ref, &data));
  NOTHING(rlx_cache_release(NULL));
  assert_int_equal(failed, 0);
}

/* An op whose infer and eval do one wrong thing each. */
static int wrong_infer, wrong_eval;

static rlx_status odd_infer(rlx_infer *ctx) {
  rlx_infer_like(ctx, 0, 0);
  switch (wrong_infer) {
    case 1: rlx_infer_set(ctx, 0, 2, NULL); break;
    case 2: rlx_infer_set(ctx, 0, -9, two); break;
    case 3: rlx_infer_set(ctx, 99, 2, two); break;
    case 4: rlx_infer_set(ctx, -1, 2, two); break;
    case 5: rlx_infer_like(ctx, 99, 99); break;
    case 6: rlx_infer_output(ctx, 99)->rank = 7; break;
    case 7: return rlx_infer_value(ctx, 99) || rlx_infer_input(ctx, -1) ? RLX_OK : RLX_INVALID;
    case 8: return rlx_fail(ctx, RLX_OK, "said to be fine");
    case 9: return (rlx_status)12345;
    case 10: rlx_infer_set(ctx, 0, 0, NULL); break; /* a scalar: nothing wrong */
    default: break;
  }
  return RLX_OK;
}

static rlx_status odd_eval(rlx_ctx *ctx) {
  int64_t bad[1] = {-4};
  switch (wrong_eval) {
    case 1: return rlx_output_value(ctx, 99, NULL);
    case 2: return rlx_output_value(ctx, 0, NULL);
    case 3: return rlx_output_value(ctx, 0, rlx_tensor_retain(tensor));
    case 4: return rlx_output_shape(ctx, 99, 1, two) ? RLX_OK : RLX_INVALID;
    case 5: return rlx_output_shape(ctx, 0, 1, NULL) ? RLX_OK : RLX_INVALID;
    case 6: return rlx_output_shape(ctx, 0, 99, two) ? RLX_OK : RLX_INVALID;
    case 7: return rlx_output_shape(ctx, 0, 1, bad) ? RLX_OK : RLX_INVALID;
    case 8: return rlx_text(ctx, SIZE_MAX) ? RLX_OK : RLX_INVALID;
    case 9: return rlx_delegate_cpu(ctx);
    case 10: rlx_parallel_for(ctx, 10, 1, NULL, NULL); return rlx_fail(ctx, RLX_INVALID, "came through");
    case 11:
      return rlx_input_value(ctx, 99) || rlx_input_value(ctx, -1) || rlx_input_value(ctx, 0) ? RLX_OK : RLX_INVALID;
    case 12: return rlx_cache_get(ctx, NULL, 4, NULL, NULL, NULL, NULL);
    case 13: return rlx_fail(ctx, RLX_OK, "said to be fine");
    case 14: return (rlx_status)12345;
    default: return RLX_OK;
  }
}

static bool odd_run(int infer, int eval) {
  static const rlx_port ports[] = {{.name = "x", .variable = "T"}, {0}};
  rlx_op op = {.struct_size = sizeof op,
               .name = "acme.odd",
               .inputs = ports,
               .outputs = ports,
               .infer = odd_infer,
               .eval = odd_eval};
  rlx_tensor *y = NULL;
  wrong_infer = infer;
  wrong_eval = eval;
  if (rlx_register_op(registry, &op, 0, NULL) != RLX_OK) return false;
  rlx_status status = rlx_call(registry, "acme.odd", NULL, 0, &tensor, 1, &y, 1);
  return (infer >= 3 && infer <= 6) || infer == 10 ? status == RLX_OK : status != RLX_OK && *rlx_error_message();
}

static void test_contexts(void **state) {
  (void)state;
  failed = 0;
  for (int i = 1; i <= 10; i++) {
    char what[32];
    snprintf(what, sizeof what, "infer, wrong thing %d", i);
    if (enter(what)) leave(odd_run(i, 0));
  }
  for (int i = 1; i <= 14; i++) {
    char what[32];
    snprintf(what, sizeof what, "eval, wrong thing %d", i);
    if (enter(what)) leave(odd_run(0, i));
  }
  assert_int_equal(failed, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_words),        cmocka_unit_test(test_tensors),  cmocka_unit_test(test_files),
      cmocka_unit_test(test_short_memory), cmocka_unit_test(test_graphs),   cmocka_unit_test(test_sessions),
      cmocka_unit_test(test_runs),         cmocka_unit_test(test_calls),    cmocka_unit_test(test_registries),
      cmocka_unit_test(test_no_context),   cmocka_unit_test(test_contexts),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
