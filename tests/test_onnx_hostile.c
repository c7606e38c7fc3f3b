/* test_onnx_hostile.c — files that are cut, flipped, nested, or lie about sizes give one line of error and nothing
 * else; so does every allocation that fails. */
#include <sys/resource.h>

#include "base/memory.h"
#include "onnx_model.h"

static const char *const then_else[] = {"then_branch", "else_branch"};

/* A small model with something of everything. */
static uint8_t *make_everything(size_t *size) {
  const float data[] = {1, 2};
  wire_writer g = {0}, m, n, t, f = {0}, sparse = {0}, attr;
  put_value(&g, GRAPH_INPUT, "x", RLX_FLOAT, "N");
  put_value(&g, GRAPH_INPUT, "c", RLX_BOOL, "");
  put_floats(&g, "w", "2", data, 2);
  t = begin_tensor("typed", RLX_INT4, "3");
  wire_put_ints(&t, TENSOR_INT32_DATA, (const int64_t[]){18, 3}, 2);
  wire_put_message(&g, GRAPH_INITIALIZER, &t);
  t = begin_tensor("words", RLX_STRING, "2");
  put_names(&t, TENSOR_STRING_DATA, "one,two");
  wire_put_message(&g, GRAPH_INITIALIZER, &t);
  t = begin_tensor("thin", RLX_FLOAT, "1");
  wire_put_float(&t, TENSOR_FLOAT_DATA, 4);
  wire_put_message(&sparse, SPARSE_VALUES, &t);
  t = begin_tensor(NULL, RLX_INT64, "1");
  wire_put_int(&t, TENSOR_INT64_DATA, 3);
  wire_put_message(&sparse, SPARSE_INDICES, &t);
  wire_put_int(&sparse, SPARSE_DIMS, 9);
  wire_put_message(&g, GRAPH_SPARSE_INITIALIZER, &sparse);
  n = begin_node("If", "c", "y");
  for (int i = 0; i < 2; i++) {
    wire_writer branch = {0};
    put_node(&branch, i ? "Abs" : "Neg", "x", "r");
    put_value(&branch, GRAPH_OUTPUT, "r", RLX_FLOAT, NULL);
    put_graph_attr(&n, then_else[i], &branch);
  }
  wire_put_message(&g, GRAPH_NODE, &n);
  n = begin_node("Constant", "", "k");
  attr = begin_attr("value_floats", RLX_ATTR_FLOATS);
  wire_put_floats(&attr, ATTRIBUTE_FLOATS, data, 2);
  wire_put_message(&n, NODE_ATTRIBUTE, &attr);
  wire_put_message(&g, GRAPH_NODE, &n);
  n = begin_node("F", "y,k", "z");
  wire_put_string(&n, NODE_DOMAIN, "acme");
  put_int_attr(&n, "a", 1);
  wire_put_message(&g, GRAPH_NODE, &n);
  put_value(&g, GRAPH_OUTPUT, "z", RLX_FLOAT, "N");
  m = make_model(&g);
  put_opset(&m, MODEL_OPSET_IMPORT, "acme", 1);
  wire_put_string(&f, FUNCTION_NAME, "F");
  wire_put_string(&f, FUNCTION_DOMAIN, "acme");
  put_names(&f, FUNCTION_INPUT, "p,q");
  put_names(&f, FUNCTION_OUTPUT, "s");
  put_names(&f, FUNCTION_ATTRIBUTE, "a");
  put_opset(&f, FUNCTION_OPSET_IMPORT, "", 17);
  n = begin_node("Some", "p,q", "s");
  put_reference(&n, "b", RLX_ATTR_INT, "a");
  wire_put_message(&f, FUNCTION_NODE, &n);
  wire_put_message(&m, MODEL_FUNCTIONS, &f);
  return join(&m, size);
}

/* Loads under a limit of 16 MiB. A failure must have its one line. */
static rlx_status load_limited(const uint8_t *bytes, size_t size) {
  rlx_load_options options = RLX_LOAD_OPTIONS_INIT;
  rlx_graph *g = NULL;
  options.memory_limit = 16 << 20;
  rlx_status status = rlx_graph_load_memory(bytes, size, &options, &g);
  if (status == RLX_OK) {
    rlx_graph_destroy(g);
  } else {
    assert_true(*rlx_error_message());
    assert_null(strchr(rlx_error_message(), '\n'));
  }
  return status;
}

static void test_truncated(void **state) {
  (void)state;
  size_t size;
  uint8_t *bytes = make_everything(&size);
  if (load_limited(bytes, size) != RLX_OK) fail_msg("%s", rlx_error_message());
  for (size_t n = 0; n < size; n++) {
    uint8_t *cut = malloc(n + 1); /* so that a sanitizer sees a read past the end */
    memcpy(cut, bytes, n);
    load_limited(cut, n);
    free(cut);
  }
  free(bytes);
}

static void test_flipped(void **state) {
  (void)state;
  size_t size;
  uint8_t *bytes = make_everything(&size);
  for (size_t i = 0; i < size * 8; i++) {
    bytes[i / 8] ^= (uint8_t)(1 << i % 8);
    load_limited(bytes, size);
    bytes[i / 8] ^= (uint8_t)(1 << i % 8);
  }
  uint32_t seed = 1;
  for (int round = 0; round < 2000; round++) {
    uint8_t *copy = malloc(size);
    memcpy(copy, bytes, size);
    for (int k = 0; k < 4; k++) {
      seed = seed * 1664525u + 1013904223u;
      copy[seed % size] = (uint8_t)(seed >> 24);
    }
    load_limited(copy, size);
    free(copy);
  }
  free(bytes);
}

/* Every allocation fails in turn. */
static void test_allocations(void **state) {
  (void)state;
  size_t size;
  uint8_t *bytes = make_everything(&size);
  mem_inject(0, 0);
  assert_int_equal(load_limited(bytes, size), RLX_OK);
  int64_t count = mem_inject(0, 0);
  assert_true(count > 20);
  for (int repeat = 0; repeat < 2; repeat++) {
    for (int64_t n = 1; n <= count; n++) {
      rlx_graph *g = NULL;
      mem_inject(n, repeat);
      rlx_status status = rlx_graph_load_memory(bytes, size, NULL, &g);
      mem_inject(0, 0);
      if (status == RLX_OK)
        rlx_graph_destroy(g);
      else
        assert_int_equal(status, RLX_OUT_OF_MEMORY);
    }
  }
  free(bytes);
}

/* Puts bytes before *at. */
static void prepend(uint8_t **at, const void *data, size_t size) {
  *at -= size;
  memcpy(*at, data, size);
}

/* Makes [*at, end) a field of a message: tag and length come before it. */
static void wrap(uint8_t **at, const uint8_t *end, uint8_t number) {
  size_t size = (size_t)(end - *at);
  uint8_t head[12];
  size_t n = 0;
  head[n++] = (uint8_t)(number << 3 | 2);
  for (; size >= 0x80; size >>= 7) head[n++] = (uint8_t)(size | 0x80);
  head[n++] = (uint8_t)size;
  prepend(at, head, n);
}

static void test_nested_graphs(void **state) {
  (void)state;
  enum { LEVELS = 10000, ROOM = LEVELS * 64 };
  uint8_t *room = malloc(ROOM), *end = room + ROOM, *at = end;
  assert_non_null(room);
  for (int i = 0; i < LEVELS; i++) {
    wrap(&at, end, ATTRIBUTE_G);
    prepend(&at, "\x0a\x01g\xa0\x01\x05", 6); /* name "g", type GRAPH */
    wrap(&at, end, NODE_ATTRIBUTE);
    prepend(&at, "\x22\x01N", 3); /* op_type "N" */
    wrap(&at, end, GRAPH_NODE);
  }
  wrap(&at, end, MODEL_GRAPH);
  prepend(&at, "\x08\x02", 2); /* ir_version */
  assert_int_equal(load_limited(at, (size_t)(end - at)), RLX_UNSUPPORTED);
  assert_non_null(strstr(rlx_error_message(), "node 0 (onnx.N): attribute 'g': node 0 (onnx.N)"));
  free(room);
}

static void test_nested_types(void **state) {
  (void)state;
  enum { LEVELS = 10000, ROOM = LEVELS * 12 + 64 };
  uint8_t *room = malloc(ROOM), *end = room + ROOM, *at = end;
  assert_non_null(room);
  for (int i = 0; i < LEVELS; i++) {
    wrap(&at, end, ELEMENT_TYPE);
    wrap(&at, end, TYPE_SEQUENCE);
  }
  wrap(&at, end, VALUE_TYPE);
  prepend(&at, "\x0a\x01x", 3);
  wrap(&at, end, GRAPH_INPUT);
  wrap(&at, end, MODEL_GRAPH);
  prepend(&at, "\x08\x02", 2);
  assert_int_equal(load_limited(at, (size_t)(end - at)), RLX_UNSUPPORTED);
  assert_non_null(strstr(rlx_error_message(), "nested more than 64"));
  free(room);
}

static void test_nested_calls(void **state) {
  (void)state;
  wire_writer g = {0}, n = begin_node("F0", "x", "y"), m;
  wire_put_string(&n, NODE_DOMAIN, "acme");
  put_value(&g, GRAPH_INPUT, "x", RLX_FLOAT, "2");
  wire_put_message(&g, GRAPH_NODE, &n);
  m = make_model(&g);
  for (int i = 0; i < 1000; i++) {
    char name[16];
    wire_writer f = {0};
    snprintf(name, sizeof name, "F%d", i + 1);
    n = begin_node(name, "x", "y");
    wire_put_string(&n, NODE_DOMAIN, "acme");
    snprintf(name, sizeof name, "F%d", i);
    wire_put_string(&f, FUNCTION_NAME, name);
    wire_put_string(&f, FUNCTION_DOMAIN, "acme");
    put_names(&f, FUNCTION_INPUT, "x");
    put_names(&f, FUNCTION_OUTPUT, "y");
    wire_put_message(&f, FUNCTION_NODE, &n);
    wire_put_message(&m, MODEL_FUNCTIONS, &f);
  }
  load_bad(&m, RLX_UNSUPPORTED, "more than 64 levels");
}

static void test_names_twice(void **state) {
  (void)state;
  const float data[] = {1};
  wire_writer g = {0}, m;
  put_value(&g, GRAPH_INPUT, "x", RLX_FLOAT, "2");
  put_value(&g, GRAPH_INPUT, "x", RLX_FLOAT, "2");
  m = make_model(&g);
  load_bad(&m, RLX_INVALID, "the name 'x' is defined twice");
  put_floats(&g, "w", "1", data, 1);
  put_floats(&g, "w", "1", data, 1);
  m = make_model(&g);
  load_bad(&m, RLX_INVALID, "the name 'w' is defined twice");
  put_value(&g, GRAPH_INPUT, "x", RLX_FLOAT, "2");
  put_node(&g, "Abs", "x", "y");
  put_node(&g, "Neg", "x", "y");
  m = make_model(&g);
  load_bad(&m, RLX_INVALID, "node 1 (onnx.Neg): the name 'y' is defined twice");
  put_value(&g, GRAPH_INPUT, "x", RLX_FLOAT, "2");
  put_node(&g, "Abs", "x", "x");
  m = make_model(&g);
  load_bad(&m, RLX_INVALID, "node 0 (onnx.Abs): the name 'x' is defined twice");
  put_value(&g, GRAPH_INPUT, "x", RLX_FLOAT, "2");
  put_value(&g, GRAPH_OUTPUT, "x", RLX_FLOAT, "2");
  put_value(&g, GRAPH_OUTPUT, "x", RLX_FLOAT, "2");
  m = make_model(&g);
  load_bad(&m, RLX_INVALID, "output 'x' is listed twice");
}

static void test_lies(void **state) {
  (void)state;
  wire_writer g = {0}, m;
  static const uint8_t long_field[] = "\x08\x08\x3a\x90\x80\x80\x80\x08\x0a\xff\xff\xff\xff\x07";
  assert_int_equal(load_limited(long_field, sizeof long_field - 1), RLX_MALFORMED);
  assert_non_null(strstr(rlx_error_message(), "memory: ModelProto: field 7 says 2147483664 bytes"));
  put_node(&g, "", "", "");
  m = make_model(&g);
  load_bad(&m, RLX_INVALID, "node 0: node '' has no op_type");
  put_value(&g, GRAPH_OUTPUT, "y", RLX_FLOAT, "2");
  m = make_model(&g);
  load_bad(&m, RLX_INVALID, "output 'y' is not defined");
  wire_put_int(&m, MODEL_IR_VERSION, 8);
  put_opset(&m, MODEL_OPSET_IMPORT, "", 17);
  load_bad(&m, RLX_MALFORMED, "holds no graph");
  load_bad(&m, RLX_MALFORMED, "empty");
}

/* What a small file may ask for is counted before it is allocated. */
static void test_memory_limit(void **state) {
  (void)state;
  wire_writer g = {0}, n = begin_node("N", "", "y"), attr = begin_attr("a", RLX_ATTR_INTS), m, sparse = {0};
  static const uint8_t ones[4 << 20] = {1};
  wire_put_borrowed(&attr, ATTRIBUTE_INTS, ones, sizeof ones);
  wire_put_message(&n, NODE_ATTRIBUTE, &attr);
  wire_put_message(&g, GRAPH_NODE, &n);
  m = make_model(&g);
  size_t size;
  uint8_t *bytes = join(&m, &size);
  assert_int_equal(load_limited(bytes, size), RLX_OUT_OF_MEMORY);
  free(bytes);
  wire_writer t = begin_tensor("s", RLX_DOUBLE, "0");
  wire_put_message(&sparse, SPARSE_VALUES, &t);
  t = begin_tensor(NULL, RLX_INT64, "0");
  wire_put_message(&sparse, SPARSE_INDICES, &t);
  wire_put_int(&sparse, SPARSE_DIMS, INT64_C(1000000000000));
  wire_put_message(&g, GRAPH_SPARSE_INITIALIZER, &sparse);
  m = make_model(&g);
  bytes = join(&m, &size);
  assert_int_equal(load_limited(bytes, size), RLX_OUT_OF_MEMORY);
  assert_non_null(strstr(rlx_error_message(), "memory limit of 16777216"));
  rlx_graph *none;
  assert_int_equal(rlx_graph_load_memory(bytes, size, NULL, &none), RLX_OUT_OF_MEMORY);
  free(bytes);
  for (int i = 0; i < 100000; i++) put_node(&g, "N", "", "");
  m = make_model(&g);
  bytes = join(&m, &size);
  assert_int_equal(load_limited(bytes, size), RLX_OUT_OF_MEMORY);
  free(bytes);
}

/* ---- models that ask for too much --------------------------------------------------------- */

typedef struct greedy {
  const char *input, *constant, *nodes; /* the size as an input of the graph, and as a constant of it */
} greedy;

#define GREEDY_SHAPE(count) "int64[1] n", "int64[1] n = {" count "}"
static const greedy greedy_models[] = {
    {GREEDY_SHAPE("1000000000000"), "y = ConstantOfShape (n)"},
    {GREEDY_SHAPE("1000000000"), "y = ConstantOfShape (n)"},
    {GREEDY_SHAPE("1000000000000"), "one = Constant <value_floats = [1.0]> () y = Expand (one, n)"},
    {GREEDY_SHAPE("1000000000"), "one = Constant <value_floats = [1.0]> () y = Expand (one, n)"},
    {GREEDY_SHAPE("1000000000000"), "one = Constant <value_floats = [1.0, 2.0]> () y = Tile (one, n)"},
    {GREEDY_SHAPE("1000000000"), "one = Constant <value_floats = [1.0, 2.0]> () y = Tile (one, n)"},
    {"int64 n", "int64 n = {1000000000000}",
     "zero = Constant <value_int = 0> () one = Constant <value_int = 1> () y = Range (zero, n, one)"},
    {"int64 n", "int64 n = {1000000000}",
     "zero = Constant <value_int = 0> () one = Constant <value_int = 1> () y = Range (zero, n, one)"},
    {GREEDY_SHAPE("1000000000"), "one = Constant <value_ints = [1]> () p = Concat <axis = 0> (n, one) x = Constant "
                                 "<value_floats = [1.0]> () y = Pad (x, p)"},
    {GREEDY_SHAPE("1000000000"), "x = Constant <value_floats = [1.0, 2.0]> () y = Resize (x, , , n)"},
};

static long peak_kilobytes(void) {
  struct rusage usage;
  assert_int_equal(getrusage(RUSAGE_SELF, &usage), 0);
  return usage.ru_maxrss;
}

static rlx_tensor *greedy_size(const greedy *m) {
  const int64_t one[1] = {1};
  rlx_tensor *n = NULL;
  assert_int_equal(rlx_tensor_create(RLX_INT64, strchr(m->input, '[') ? 1 : 0, one, &n), RLX_OK);
  *(int64_t *)rlx_tensor_data(n) = strtoll(strchr(m->constant, '{') + 1, NULL, 10);
  return n;
}

static rlx_status run_greedy(const greedy *m, bool constant) {
  char source[600];
  rlx_graph *g = NULL;
  rlx_session *s = NULL;
  rlx_binding *b = NULL;
  rlx_tensor *n = greedy_size(m);
  rlx_session_options options = RLX_SESSION_OPTIONS_INIT;
  options.threads = 1;
  options.memory_limit = 64 << 20;
  int size = snprintf(source, sizeof source, "<opset_import: [\"\" : 21]> g (%s) => (y) %s%s%s { %s }",
                      constant ? "" : m->input, constant ? "<" : "", constant ? m->constant : "", constant ? ">" : "",
                      m->nodes);
  rlx_status status = rlx_graph_load_memory(source, (size_t)size, NULL, &g);
  if (status == RLX_OK) status = rlx_session_create(g, &options, &s);
  if (status == RLX_OK) status = rlx_binding_create(s, &b);
  if (status == RLX_OK && !constant) status = rlx_binding_input(b, "n", n, 0);
  if (status == RLX_OK) status = rlx_run(b, NULL);
  rlx_binding_destroy(b);
  rlx_session_destroy(s);
  rlx_graph_destroy(g);
  rlx_tensor_destroy(n);
  return status;
}

static void test_greedy(void **state) {
  (void)state;
  long before = peak_kilobytes();
  for (size_t i = 0; i < sizeof greedy_models / sizeof *greedy_models; i++)
    for (int constant = 0; constant < 2; constant++) {
      rlx_status status = run_greedy(&greedy_models[i], constant);
      bool refused = status == RLX_OUT_OF_MEMORY || status == RLX_UNSUPPORTED; /* of tables it would take */
      if (!refused || strchr(rlx_error_message(), '\n'))
        fail_msg("%s %s: status %d: %s", greedy_models[i].nodes, greedy_models[i].constant, status,
                 rlx_error_message());
    }
  long grown = peak_kilobytes() - before;
  if (grown > 100 << 10) fail_msg("memory grew by %ld KiB", grown);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_truncated),     cmocka_unit_test(test_flipped),      cmocka_unit_test(test_allocations),
      cmocka_unit_test(test_nested_graphs), cmocka_unit_test(test_nested_types), cmocka_unit_test(test_nested_calls),
      cmocka_unit_test(test_names_twice),   cmocka_unit_test(test_lies),         cmocka_unit_test(test_memory_limit),
      cmocka_unit_test(test_greedy),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
