/* test_onnx_import.c — ModelProto to a graph: names, scopes, types, constants, attributes, opsets. */
#include <fcntl.h>
#include <sys/stat.h>

#include "base/file.h"
#include "onnx_model.h"

static void test_plain(void **state) {
  (void)state;
  const float data[] = {1, 2, 3};
  wire_writer g = {0};
  wire_put_string(&g, GRAPH_NAME, "plain");
  put_value(&g, GRAPH_INPUT, "x", RLX_FLOAT, "N,3");
  put_floats(&g, "w", "3", data, 3);
  put_value(&g, GRAPH_VALUE_INFO, "t", RLX_FLOAT, "N,3");
  put_node(&g, "Add", "x,w", "t");
  wire_writer n = begin_node("Softmax", "t", "y");
  wire_put_string(&n, NODE_NAME, "soft");
  put_int_attr(&n, "axis", 1);
  wire_put_message(&g, GRAPH_NODE, &n);
  put_value(&g, GRAPH_OUTPUT, "y", RLX_FLOAT, NULL);
  wire_writer m = make_model(&g), entry = {0};
  wire_put_string(&m, MODEL_PRODUCER_NAME, "test");
  wire_put_string(&entry, ENTRY_KEY, "k");
  wire_put_string(&entry, ENTRY_VALUE, "v");
  wire_put_message(&m, MODEL_METADATA_PROPS, &entry);
  rlx_graph *graph = load_good(&m);
  assert_string_equal(graph->name, "plain");
  assert_int_equal(graph->inputs.count, 1);
  const rlx_value *x = graph->inputs.data[0];
  assert_int_equal(x->type.dtype, RLX_FLOAT);
  assert_int_equal(x->type.dims[0], RLX_UNKNOWN);
  assert_int_equal(x->type.dims[1], 3);
  assert_string_equal(x->symbols[0], "N");
  assert_null(x->symbols[1]);
  assert_int_equal(graph->nodes.count, 2);
  const rlx_node *add = graph->nodes.data[0], *soft = graph->nodes.data[1];
  assert_string_equal(add->op_name, "onnx.Add");
  assert_int_equal(add->opset, 17);
  assert_ptr_equal(add->inputs[0], x);
  assert_memory_equal(add->inputs[1]->constant->data, data, sizeof data);
  assert_string_equal(soft->name, "soft");
  assert_int_equal(node_attr(soft, "axis")->i, 1);
  assert_ptr_equal(soft->inputs[0], add->outputs[0]);
  assert_string_equal(add->outputs[0]->symbols[0], "N");
  assert_string_equal(graph->outputs.data[0].name, "y");
  assert_ptr_equal(graph->outputs.data[0].value, soft->outputs[0]);
  assert_int_equal(graph->metadata.count, 2);
  rlx_graph_destroy(graph);
}

static void test_domains(void **state) {
  (void)state;
  wire_writer g = {0}, n = begin_node("Thing", "x", "y");
  wire_put_string(&n, NODE_DOMAIN, "acme.labs");
  put_value(&g, GRAPH_INPUT, "x", RLX_FLOAT, "2");
  wire_put_message(&g, GRAPH_NODE, &n);
  n = begin_node("Relu", "y", "z");
  wire_put_string(&n, NODE_DOMAIN, "ai.onnx");
  wire_put_message(&g, GRAPH_NODE, &n);
  put_value(&g, GRAPH_OUTPUT, "z", RLX_FLOAT, "2");
  wire_writer m = make_model(&g);
  put_opset(&m, MODEL_OPSET_IMPORT, "acme.labs", 3);
  rlx_graph *graph = load_good(&m);
  assert_string_equal(graph->nodes.data[0]->op_name, "acme.labs.Thing");
  assert_int_equal(graph->nodes.data[0]->opset, 3);
  assert_null(graph->nodes.data[0]->op);
  assert_string_equal(graph->nodes.data[1]->op_name, "onnx.Relu");
  rlx_graph_destroy(graph);
}

/* Nodes in the wrong order are put in order; a cycle is refused by name. */
static void test_order(void **state) {
  (void)state;
  wire_writer g = {0};
  put_value(&g, GRAPH_INPUT, "x", RLX_FLOAT, "2");
  put_node(&g, "Neg", "b", "c");
  put_node(&g, "Relu", "a", "b");
  put_node(&g, "Abs", "x", "a");
  put_value(&g, GRAPH_OUTPUT, "c", RLX_FLOAT, "2");
  wire_writer m = make_model(&g);
  rlx_graph *graph = load_good(&m);
  assert_string_equal(graph->nodes.data[0]->op_name, "onnx.Abs");
  assert_string_equal(graph->nodes.data[2]->op_name, "onnx.Neg");
  rlx_graph_destroy(graph);
  put_value(&g, GRAPH_INPUT, "x", RLX_FLOAT, "2");
  wire_writer n = begin_node("Add", "x,b", "a");
  wire_put_string(&n, NODE_NAME, "looped");
  wire_put_message(&g, GRAPH_NODE, &n);
  put_node(&g, "Relu", "a", "b");
  put_value(&g, GRAPH_OUTPUT, "b", RLX_FLOAT, "2");
  m = make_model(&g);
  load_bad(&m, RLX_INVALID, "cycle");
}

/* Initializers that are inputs are constants; outputs may be inputs or initializers. */
static void test_initializers(void **state) {
  (void)state;
  const float data[] = {1, 2};
  wire_writer g = {0};
  put_value(&g, GRAPH_INPUT, "w", RLX_FLOAT, "2");
  put_value(&g, GRAPH_INPUT, "x", RLX_FLOAT, "2");
  put_floats(&g, "w", "2", data, 2);
  put_value(&g, GRAPH_OUTPUT, "x", RLX_FLOAT, "2");
  put_value(&g, GRAPH_OUTPUT, "w", RLX_FLOAT, "2");
  wire_writer m = make_model(&g);
  rlx_graph *graph = load_good(&m);
  assert_int_equal(graph->inputs.count, 1);
  assert_string_equal(graph->inputs.data[0]->name, "x");
  assert_ptr_equal(graph->outputs.data[0].value, graph->inputs.data[0]);
  assert_non_null(graph->outputs.data[1].value->constant);
  rlx_graph_destroy(graph);
  put_value(&g, GRAPH_INPUT, "w", RLX_FLOAT, "3");
  put_floats(&g, "w", "2", data, 2);
  m = make_model(&g);
  load_bad(&m, RLX_INVALID, "value 'w' is declared float[3], and is float[2]");
}

static void test_optional_operands(void **state) {
  (void)state;
  wire_writer g = {0};
  put_value(&g, GRAPH_INPUT, "x", RLX_FLOAT, "2");
  put_node(&g, "Clip", "x,,x,", "y");
  wire_writer n = {0};
  put_names(&n, NODE_INPUT, "y");
  put_names(&n, NODE_OUTPUT, ",m");
  wire_put_string(&n, NODE_OUTPUT, "");
  wire_put_string(&n, NODE_OP_TYPE, "Unusual");
  wire_put_message(&g, GRAPH_NODE, &n);
  put_value(&g, GRAPH_OUTPUT, "y", RLX_FLOAT, "2");
  wire_writer m = make_model(&g);
  rlx_graph *graph = load_good(&m);
  const rlx_node *clip = graph->nodes.data[0], *unusual = graph->nodes.data[1];
  assert_int_equal(clip->input_count, 3);
  assert_null(clip->inputs[1]);
  assert_int_equal(unusual->output_count, 2);
  assert_string_equal(unusual->outputs[0]->name, "");
  assert_string_equal(unusual->outputs[1]->name, "m");
  rlx_graph_destroy(graph);
}

static void test_constants(void **state) {
  (void)state;
  wire_writer g = {0}, n = begin_node("Constant", "", "a"), attr = begin_attr("value", RLX_ATTR_TENSOR);
  wire_writer t = begin_tensor(NULL, RLX_INT64, "2");
  wire_put_ints(&t, TENSOR_INT64_DATA, (const int64_t[]){7, 8}, 2);
  wire_put_message(&attr, ATTRIBUTE_T, &t);
  wire_put_message(&n, NODE_ATTRIBUTE, &attr);
  wire_put_message(&g, GRAPH_NODE, &n);
  n = begin_node("Constant", "", "b");
  put_float_attr(&n, "value_float", 2.5f);
  wire_put_message(&g, GRAPH_NODE, &n);
  n = begin_node("Constant", "", "c");
  attr = begin_attr("value_ints", RLX_ATTR_INTS);
  wire_put_ints(&attr, ATTRIBUTE_INTS, (const int64_t[]){1, 2, 3}, 3);
  wire_put_message(&n, NODE_ATTRIBUTE, &attr);
  wire_put_message(&g, GRAPH_NODE, &n);
  n = begin_node("Constant", "", "d");
  attr = begin_attr("value_strings", RLX_ATTR_STRINGS);
  put_names(&attr, ATTRIBUTE_STRINGS, "x,yz");
  wire_put_message(&n, NODE_ATTRIBUTE, &attr);
  wire_put_message(&g, GRAPH_NODE, &n);
  for (const char *const *name = (const char *const[]){"a", "b", "c", "d", NULL}; *name; name++) {
    put_value(&g, GRAPH_OUTPUT, *name,
              (*name)[0] == 'b'   ? RLX_FLOAT
              : (*name)[0] == 'd' ? RLX_STRING
                                  : RLX_INT64,
              NULL);
  }
  wire_writer m = make_model(&g);
  rlx_graph *graph = load_good(&m);
  assert_int_equal(graph->nodes.count, 0);
  const rlx_tensor *a = graph->outputs.data[0].value->constant, *b = graph->outputs.data[1].value->constant;
  const rlx_tensor *c = graph->outputs.data[2].value->constant, *d = graph->outputs.data[3].value->constant;
  assert_int_equal(((int64_t *)a->data)[1], 8);
  assert_int_equal(b->rank, 0);
  assert_true(*(float *)b->data == 2.5f);
  assert_int_equal(c->dims[0], 3);
  assert_int_equal(((rlx_string *)d->data)[1].size, 2);
  rlx_graph_destroy(graph);
  n = begin_node("Constant", "", "a");
  wire_put_message(&g, GRAPH_NODE, &n);
  m = make_model(&g);
  load_bad(&m, RLX_INVALID, "node 0 (onnx.Constant): has 0 values");
}

/* Attributes of files from before their kind was written. */
static void test_attributes(void **state) {
  (void)state;
  wire_writer g = {0}, n = begin_node("Foo", "x", "y"), attr = {0};
  wire_put_string(&attr, ATTRIBUTE_NAME, "old");
  wire_put_floats(&attr, ATTRIBUTE_FLOATS, (const float[]){1, 2}, 2);
  wire_put_message(&n, NODE_ATTRIBUTE, &attr);
  attr = begin_attr("zero", RLX_ATTR_INT);
  wire_put_message(&n, NODE_ATTRIBUTE, &attr);
  attr = begin_attr("text", RLX_ATTR_STRING);
  wire_put_bytes(&attr, ATTRIBUTE_S, "a\0b", 3);
  wire_put_message(&n, NODE_ATTRIBUTE, &attr);
  attr = begin_attr("type", RLX_ATTR_TYPE);
  wire_writer type = make_type(RLX_INT8, "4");
  wire_put_message(&attr, ATTRIBUTE_TP, &type);
  wire_put_message(&n, NODE_ATTRIBUTE, &attr);
  attr = begin_attr("list", RLX_ATTR_TENSORS);
  for (int i = 0; i < 2; i++) {
    wire_writer t = begin_tensor("t", RLX_INT8, "1");
    wire_put_int(&t, TENSOR_INT32_DATA, 5 + i);
    wire_put_message(&attr, ATTRIBUTE_TENSORS, &t);
  }
  wire_put_message(&n, NODE_ATTRIBUTE, &attr);
  put_value(&g, GRAPH_INPUT, "x", RLX_FLOAT, "2");
  wire_put_message(&g, GRAPH_NODE, &n);
  wire_writer m = make_model(&g);
  rlx_graph *graph = load_good(&m);
  const rlx_node *node = graph->nodes.data[0];
  assert_int_equal(node_attr(node, "old")->count, 2);
  assert_true(node_attr(node, "old")->floats[1] == 2.0f);
  assert_int_equal(node_attr(node, "zero")->i, 0);
  assert_int_equal(node_attr(node, "text")->s.size, 3);
  assert_int_equal(node_attr(node, "type")->types[0].dims[0], 4);
  assert_int_equal(*(int8_t *)node_attr(node, "list")->tensors[1]->data, 6);
  rlx_graph_destroy(graph);
  n = begin_node("Foo", "", "y");
  put_int_attr(&n, "a", 1);
  put_int_attr(&n, "a", 1);
  wire_put_message(&g, GRAPH_NODE, &n);
  m = make_model(&g);
  load_bad(&m, RLX_INVALID, "node 0 (onnx.Foo): attribute 'a' is given twice");
  n = begin_node("Foo", "", "y");
  attr = begin_attr("a", RLX_ATTR_INT);
  wire_put_float(&attr, ATTRIBUTE_F, 1);
  wire_put_message(&n, NODE_ATTRIBUTE, &attr);
  wire_put_message(&g, GRAPH_NODE, &n);
  m = make_model(&g);
  load_bad(&m, RLX_INVALID, "attribute 'a': is said to be of kind 2");
}

/* A branch with an output from `inner`, made by op from `from`. */
static wire_writer make_branch(const char *op, const char *from, const char *inner) {
  wire_writer g = {0};
  wire_put_string(&g, GRAPH_NAME, "branch");
  if (op) put_node(&g, op, from, inner);
  put_value(&g, GRAPH_OUTPUT, inner, RLX_FLOAT, NULL);
  return g;
}

static void put_if(wire_writer *g, wire_writer *then_branch, wire_writer *else_branch) {
  wire_writer n = begin_node("If", "c", "y");
  wire_put_string(&n, NODE_NAME, "choose");
  put_graph_attr(&n, "then_branch", then_branch);
  put_graph_attr(&n, "else_branch", else_branch);
  put_value(g, GRAPH_INPUT, "c", RLX_BOOL, "");
  put_value(g, GRAPH_INPUT, "x", RLX_FLOAT, "2");
  wire_put_message(g, GRAPH_NODE, &n);
  put_value(g, GRAPH_OUTPUT, "y", RLX_FLOAT, NULL);
}

static void test_subgraphs(void **state) {
  (void)state;
  wire_writer g = {0}, yes = make_branch("Relu", "late", "r"), no = make_branch(NULL, NULL, "x");
  put_if(&g, &yes, &no);
  put_node(&g, "Abs", "x", "late"); /* defined after the node whose branch uses it */
  wire_writer m = make_model(&g);
  rlx_graph *graph = load_good(&m);
  assert_string_equal(graph->nodes.data[0]->op_name, "onnx.Abs");
  const rlx_node *node = graph->nodes.data[1];
  const rlx_graph *then_graph = node_subgraph(node, 0), *else_graph = node_subgraph(node, 1);
  assert_ptr_equal(then_graph->parent, graph);
  assert_ptr_equal(then_graph->nodes.data[0]->inputs[0], graph->nodes.data[0]->outputs[0]);
  /* An output of the graph around is copied, so that the subgraph owns its outputs. */
  assert_string_equal(else_graph->nodes.data[0]->op_name, "onnx.Identity");
  assert_ptr_equal(else_graph->outputs.data[0].value->graph, else_graph);
  rlx_graph_destroy(graph);
  yes = make_branch("Relu", "y", "r"); /* of its own node */
  no = make_branch("Relu", "x", "r");
  put_if(&g, &yes, &no);
  m = make_model(&g);
  load_bad(&m, RLX_INVALID, "cycle");
  yes = make_branch("Relu", "nothing", "r");
  no = make_branch("Relu", "x", "r");
  put_if(&g, &yes, &no);
  m = make_model(&g);
  load_bad(&m, RLX_INVALID,
           "node 'choose' (onnx.If): attribute 'then_branch': node 0 (onnx.Relu): input 0 is 'nothing'");
}

/* Outputs of a subgraph count by position, and may repeat; ops are called DOMAIN.NAME, so that a dot would mislead. */
static void test_repeated_outputs(void **state) {
  (void)state;
  wire_writer g = {0}, branch = {0}, n = begin_node("Twice", "c", "a,b");
  put_value(&branch, GRAPH_INPUT, "i", RLX_FLOAT, NULL);
  put_node(&branch, "Abs", "i", "r");
  put_value(&branch, GRAPH_OUTPUT, "r", RLX_FLOAT, NULL);
  put_value(&branch, GRAPH_OUTPUT, "r", RLX_FLOAT, NULL);
  put_graph_attr(&n, "body", &branch);
  put_value(&g, GRAPH_INPUT, "c", RLX_FLOAT, "2");
  wire_put_message(&g, GRAPH_NODE, &n);
  wire_writer m = make_model(&g);
  rlx_graph *graph = load_good(&m);
  if (rlx_graph_validate(graph) != RLX_OK) fail_msg("%s", rlx_error_message());
  const rlx_graph *body = node_subgraph(graph->nodes.data[0], 0);
  assert_int_equal(body->outputs.count, 2);
  assert_string_equal(body->nodes.data[1]->op_name, "onnx.Identity");
  rlx_graph_destroy(graph);
  put_node(&g, "a.b", "", "y");
  m = make_model(&g);
  load_bad(&m, RLX_INVALID, "op_type 'a.b' has a dot");
}

/* A name of a subgraph hides the one outside. */
static void test_shadowing(void **state) {
  (void)state;
  wire_writer g = {0}, yes = make_branch("Relu", "x", "t"), no = make_branch("Neg", "x", "t");
  put_node(&g, "Abs", "x", "t");
  put_if(&g, &yes, &no);
  wire_writer m = make_model(&g);
  rlx_graph *graph = load_good(&m);
  const rlx_graph *branch = node_subgraph(graph->nodes.data[1], 0);
  assert_ptr_equal(branch->outputs.data[0].value->graph, branch);
  rlx_graph_destroy(graph);
}

static void test_types(void **state) {
  (void)state;
  wire_writer g = {0}, value = {0}, type = {0}, sequence = {0}, element = make_type(RLX_FLOAT, "2");
  wire_put_message(&sequence, ELEMENT_TYPE, &element);
  wire_put_message(&type, TYPE_SEQUENCE, &sequence);
  wire_put_string(&value, VALUE_NAME, "s");
  wire_put_message(&value, VALUE_TYPE, &type);
  wire_put_message(&g, GRAPH_INPUT, &value);
  put_value(&g, GRAPH_INPUT, "minus", RLX_FLOAT, "-1,?,M");
  put_value(&g, GRAPH_INPUT, "any", RLX_FLOAT, NULL);
  wire_writer m = make_model(&g);
  rlx_graph *graph = load_good(&m);
  assert_int_equal(graph->inputs.data[0]->type.kind, RLX_KIND_SEQUENCE);
  assert_int_equal(graph->inputs.data[0]->type.dtype, RLX_FLOAT);
  assert_int_equal(graph->inputs.data[1]->type.dims[0], RLX_UNKNOWN);
  assert_string_equal(graph->inputs.data[1]->symbols[2], "M");
  assert_int_equal(graph->inputs.data[2]->type.rank, RLX_UNKNOWN);
  rlx_graph_destroy(graph);
  put_value(&g, GRAPH_INPUT, "x", RLX_FLOAT, "-2");
  m = make_model(&g);
  load_bad(&m, RLX_INVALID, "value 'x': a dim is -2");
  put_value(&g, GRAPH_INPUT, "x", (rlx_dtype)77, "2");
  m = make_model(&g);
  load_bad(&m, RLX_UNSUPPORTED, "value 'x': data type 77");
}

static void test_opsets(void **state) {
  (void)state;
  wire_writer g = {0}, m = {0};
  put_value(&g, GRAPH_INPUT, "x", RLX_FLOAT, "2");
  put_node(&g, "Foo", "x", "y");
  wire_put_message(&m, MODEL_GRAPH, &g);
  wire_put_int(&m, MODEL_IR_VERSION, 2);
  rlx_graph *graph = load_good(&m);
  assert_int_equal(graph->nodes.data[0]->opset, 1);
  rlx_graph_destroy(graph);
  wire_put_int(&m, MODEL_IR_VERSION, 3);
  wire_put_message(&m, MODEL_GRAPH, &g);
  load_bad(&m, RLX_INVALID, "imports no opset");
  m = make_model(&g);
  put_opset(&m, MODEL_OPSET_IMPORT, "ai.onnx", 18);
  load_bad(&m, RLX_INVALID, "in versions 17 and 18");
  m = make_model(&g);
  put_opset(&m, MODEL_OPSET_IMPORT, "acme", 0);
  load_bad(&m, RLX_INVALID, "version 0 of domain 'acme'");
}

static void write_file(const char *path, const void *data, size_t size) {
  assert_int_equal(file_write(path, data, size), RLX_OK);
}

/* A model whose weight is in another file. */
static wire_writer external_model(const char *location, const char *offset, const char *length) {
  wire_writer g = {0}, t = begin_tensor("w", RLX_FLOAT, "2");
  wire_put_int(&t, TENSOR_DATA_LOCATION, LOCATION_EXTERNAL);
  put_external(&t, "location", location);
  if (offset) put_external(&t, "offset", offset);
  if (length) put_external(&t, "length", length);
  wire_put_message(&g, GRAPH_INITIALIZER, &t);
  put_value(&g, GRAPH_OUTPUT, "w", RLX_FLOAT, "2");
  return make_model(&g);
}

static rlx_status load_external(const char *folder, wire_writer *m, rlx_graph **out) {
  char path[600];
  size_t size;
  uint8_t *bytes = join(m, &size);
  snprintf(path, sizeof path, "%s/model.onnx", folder);
  write_file(path, bytes, size);
  free(bytes);
  rlx_status status = rlx_graph_load(path, NULL, out);
  unlink(path);
  return status;
}

static void external_bad(const char *folder, const char *location, const char *offset, const char *length,
                         const char *text) {
  rlx_graph *g;
  wire_writer m = external_model(location, offset, length);
  rlx_status status = load_external(folder, &m, &g);
  if (status == RLX_OK || !strstr(rlx_error_message(), text) ||
      !strstr(rlx_error_message(), "model.onnx: tensor 'w'")) {
    fail_msg("%s: status %s, message '%s', wanted '%s'", location, rlx_status_name(status), rlx_error_message(), text);
  }
}

static void test_external(void **state) {
  (void)state;
  char folder[512], path[600], outside[600], link[600];
  const float data[] = {0, 1, 2, 3};
  snprintf(folder, sizeof folder, "%s", test_path("ext"));
  mkdir(folder, 0777);
  snprintf(path, sizeof path, "%s/data.bin", folder);
  snprintf(outside, sizeof outside, "%s.outside", folder);
  snprintf(link, sizeof link, "%s/link.bin", folder);
  write_file(path, data, sizeof data);
  write_file(outside, data, sizeof data);
  assert_int_equal(symlink(outside, link), 0);
  for (int aligned = 0; aligned < 2; aligned++) {
    wire_writer m = external_model("data.bin", aligned ? "4" : "5", "8");
    rlx_graph *g = NULL;
    if (load_external(folder, &m, &g) != RLX_OK) fail_msg("%s", rlx_error_message());
    const rlx_tensor *t = g->outputs.data[0].value->constant;
    assert_int_equal(t->file != NULL, aligned);
    assert_memory_equal(t->data, (const char *)data + (aligned ? 4 : 5), 8);
    rlx_graph_destroy(g);
  }
  external_bad(folder, "../x.bin", NULL, NULL, "..");
  external_bad(folder, "a/../../x.bin", NULL, NULL, "..");
  external_bad(folder, outside, NULL, NULL, "relative");
  external_bad(folder, "link.bin", NULL, NULL, "link");
  external_bad(folder, "missing.bin", NULL, NULL, "missing.bin");
  external_bad(folder, ".", NULL, NULL, "");
  external_bad(folder, "", NULL, NULL, "no location");
  external_bad(folder, "data.bin", "9", "8", "past its end at 16");
  external_bad(folder, "data.bin", "9223372036854775807", "8", "past its end");
  external_bad(folder, "data.bin", "99999999999999999999", "8", "no size");
  external_bad(folder, "data.bin", "-4", "8", "no size");
  external_bad(folder, "data.bin", "0", "16", "length 16, but float[2] takes 8");
  unlink(link);
  unlink(path);
  unlink(outside);
  rmdir(folder);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_plain),
      cmocka_unit_test(test_domains),
      cmocka_unit_test(test_order),
      cmocka_unit_test(test_initializers),
      cmocka_unit_test(test_optional_operands),
      cmocka_unit_test(test_constants),
      cmocka_unit_test(test_attributes),
      cmocka_unit_test(test_subgraphs),
      cmocka_unit_test(test_repeated_outputs),
      cmocka_unit_test(test_shadowing),
      cmocka_unit_test(test_types),
      cmocka_unit_test(test_opsets),
      cmocka_unit_test(test_external),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
