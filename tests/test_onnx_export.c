/* test_onnx_export.c — graphs written to ONNX load as the same graphs. */
#include <sys/stat.h>

#include "onnx/onnx.h"
#include "onnx_model.h"
#include "support/graph_equal.h"

static rlx_graph *save_and_load(const rlx_graph *g, int64_t file_bytes) {
  const char *path = test_path("export.onnx");
  rlx_graph *back = NULL;
  if (onnx_export(g, path, file_bytes) != RLX_OK) fail_msg("%s", rlx_error_message());
  if (rlx_graph_load(path, NULL, &back) != RLX_OK) fail_msg("%s", rlx_error_message());
  unlink(path);
  return back;
}

static void same_graph(const rlx_graph *a, const rlx_graph *b) {
  const char *difference = graph_difference(a, b);
  if (difference) fail_msg("%s", difference);
}

static void same_attrs(const rlx_node *n, const rlx_node *o) {
  assert_int_equal(n->attr_count, o->attr_count);
  for (int k = 0; k < n->attr_count; k++) {
    const rlx_attr *a = &n->attrs[k], *b = &o->attrs[k];
    assert_string_equal(a->name, b->name);
    assert_int_equal(a->kind, b->kind);
    assert_int_equal(a->count, b->count);
    assert_true(a->i == b->i && a->f == b->f && a->s.size == b->s.size);
    if (a->s.size) assert_memory_equal(a->s.data, b->s.data, a->s.size);
    if (a->ints && a->count) assert_memory_equal(a->ints, b->ints, a->count * sizeof *a->ints);
    if (a->floats) assert_memory_equal(a->floats, b->floats, a->count * sizeof *a->floats);
    if (a->tensor) assert_true(tensor_equal(a->tensor, b->tensor));
  }
}

static void put_list_attr(wire_writer *n, const char *name, rlx_attr_kind kind) {
  wire_writer a = begin_attr(name, kind);
  if (kind == RLX_ATTR_INTS) wire_put_ints(&a, ATTRIBUTE_INTS, (const int64_t[]){-1, INT64_MAX}, 2);
  if (kind == RLX_ATTR_FLOATS) wire_put_floats(&a, ATTRIBUTE_FLOATS, (const float[]){1.5f, -0.0f}, 2);
  if (kind == RLX_ATTR_STRINGS) put_names(&a, ATTRIBUTE_STRINGS, "a,bc");
  if (kind == RLX_ATTR_STRING) wire_put_bytes(&a, ATTRIBUTE_S, "\0\xff", 2);
  if (kind == RLX_ATTR_TENSOR) {
    wire_writer t = begin_tensor(NULL, RLX_FLOAT16, "3");
    wire_put_bytes(&t, TENSOR_RAW_DATA, "abcdef", 6);
    wire_put_message(&a, ATTRIBUTE_T, &t);
  }
  wire_put_message(n, NODE_ATTRIBUTE, &a);
}

/* A graph with attributes of many kinds, branches, constants, symbols and left-out operands. */
static rlx_graph *make_graph(void) {
  static float weights[600];
  for (int i = 0; i < 600; i++) weights[i] = (float)i;
  wire_writer g = {0}, n = begin_node("Foo", "x,,w", "t,,u"), branch[2];
  memset(branch, 0, sizeof branch);
  wire_put_string(&g, GRAPH_NAME, "written");
  put_value(&g, GRAPH_INPUT, "x", RLX_FLOAT, "N,?,2");
  put_value(&g, GRAPH_INPUT, "c", RLX_BOOL, "");
  put_floats(&g, "w", "600", weights, 600);
  wire_writer t = begin_tensor("words", RLX_STRING, "2");
  put_names(&t, TENSOR_STRING_DATA, "one,two");
  wire_put_message(&g, GRAPH_INITIALIZER, &t);
  wire_put_string(&n, NODE_NAME, "foo");
  wire_put_string(&n, NODE_DOMAIN, "acme.labs");
  put_int_attr(&n, "int", -3);
  put_float_attr(&n, "float", 0.1f);
  put_list_attr(&n, "ints", RLX_ATTR_INTS);
  put_list_attr(&n, "floats", RLX_ATTR_FLOATS);
  put_list_attr(&n, "strings", RLX_ATTR_STRINGS);
  put_list_attr(&n, "empty", RLX_ATTR_INTS);
  put_list_attr(&n, "string", RLX_ATTR_STRING);
  put_list_attr(&n, "tensor", RLX_ATTR_TENSOR);
  wire_put_message(&g, GRAPH_NODE, &n);
  n = begin_node("If", "c", "y");
  wire_put_string(&n, NODE_NAME, "choose");
  for (int i = 0; i < 2; i++) {
    wire_put_string(&branch[i], GRAPH_NAME, "branch");
    put_node(&branch[i], i ? "Abs" : "Neg", "t", "r");
    put_value(&branch[i], GRAPH_OUTPUT, "r", RLX_FLOAT, NULL);
    put_graph_attr(&n, i ? "then_branch" : "else_branch", &branch[i]);
  }
  wire_put_message(&g, GRAPH_NODE, &n);
  put_value(&g, GRAPH_OUTPUT, "y", RLX_FLOAT, NULL);
  put_value(&g, GRAPH_OUTPUT, "x", RLX_FLOAT, NULL);
  put_value(&g, GRAPH_OUTPUT, "words", RLX_STRING, NULL);
  wire_writer m = make_model(&g), entry = {0};
  put_opset(&m, MODEL_OPSET_IMPORT, "acme.labs", 2);
  wire_put_string(&m, MODEL_PRODUCER_NAME, "someone");
  wire_put_string(&entry, ENTRY_KEY, "k");
  wire_put_string(&entry, ENTRY_VALUE, "v");
  wire_put_message(&m, MODEL_METADATA_PROPS, &entry);
  return load_good(&m);
}

static void test_round_trip(void **state) {
  (void)state;
  rlx_graph *g = make_graph(), *back = save_and_load(g, ONNX_FILE_BYTES);
  /* The branches both call their output r; in the file the second has another name. */
  rlx_graph *again = save_and_load(back, ONNX_FILE_BYTES);
  same_graph(back, again);
  assert_int_equal(g->nodes.count, back->nodes.count);
  assert_int_equal(back->metadata.count, 2);
  assert_int_equal(graph_opset_version(back, "acme.labs", 9), 2);
  same_attrs(g->nodes.data[0], back->nodes.data[0]);
  rlx_graph_destroy(g);
  rlx_graph_destroy(back);
  rlx_graph_destroy(again);
}

/* A model past the limit has its weights in a file of their own. */
static void test_external(void **state) {
  (void)state;
  char data[600];
  struct stat st;
  snprintf(data, sizeof data, "%s.data", test_path("export.onnx"));
  rlx_graph *g = make_graph(), *back = save_and_load(g, 2000);
  assert_int_equal(stat(data, &st), 0);
  assert_int_equal(st.st_size, 2400);
  const rlx_value *a = map_get(&g->names, "w"), *b = map_get(&back->names, "w");
  assert_true(tensor_equal(a->constant, b->constant));
  assert_non_null(b->constant->file);
  unlink(data);
  rlx_graph_destroy(back);
  assert_int_equal(onnx_export(g, test_path("export.onnx"), 100), RLX_UNSUPPORTED);
  rlx_graph_destroy(g);
}

/* Graphs from the builder: one value under two names, and no opset said. */
static void test_built(void **state) {
  (void)state;
  rlx_graph *g, *back;
  const rlx_type type = {.dtype = RLX_FLOAT, .rank = 1, .dims = {2}};
  assert_int_equal(rlx_graph_create(NULL, &g), RLX_OK);
  rlx_value *x = rlx_graph_input(g, "x", &type), *y = rlx_graph_op(g, "onnx.Abs", NULL, 0, &x, 1);
  rlx_graph_output(g, y, "first");
  rlx_graph_output(g, y, "second");
  rlx_graph_output(g, x, "third");
  assert_int_equal(rlx_graph_finish(g), RLX_OK);
  back = save_and_load(g, ONNX_FILE_BYTES);
  assert_int_equal(back->outputs.count, 3);
  assert_string_equal(back->outputs.data[1].name, "second");
  assert_int_equal(back->nodes.count, 3);
  assert_true(graph_opset_version(back, "onnx", 4) >= 21);
  rlx_graph_destroy(back);
  rlx_graph_destroy(g);
}

static void test_refused(void **state) {
  (void)state;
  rlx_graph *g = make_graph();
  assert_int_not_equal(rlx_graph_save(g, "/nonexistent/x.onnx"), RLX_OK);
  assert_non_null(strstr(rlx_error_message(), "/nonexistent/x.onnx"));
  g->nodes.data[0]->opset = 1;
  assert_int_equal(rlx_graph_save(g, test_path("x.onnx")), RLX_UNSUPPORTED);
  assert_non_null(strstr(rlx_error_message(), "node 'foo' (acme.labs.Foo): means version 1"));
  rlx_graph_destroy(g);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_round_trip),
      cmocka_unit_test(test_external),
      cmocka_unit_test(test_built),
      cmocka_unit_test(test_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
