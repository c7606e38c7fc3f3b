/* test_onnx_function.c — model-local functions put in the place of their calls. */
#include <rlx/extend.h>

#include "onnx_model.h"

static wire_writer begin_function(const char *domain, const char *name, const char *inputs, const char *outputs) {
  wire_writer f = {0};
  wire_put_string(&f, FUNCTION_NAME, name);
  wire_put_string(&f, FUNCTION_DOMAIN, domain);
  put_names(&f, FUNCTION_INPUT, inputs);
  put_names(&f, FUNCTION_OUTPUT, outputs);
  put_opset(&f, FUNCTION_OPSET_IMPORT, "", 17);
  return f;
}

static void add_node(wire_writer *function, wire_writer *node) { wire_put_message(function, FUNCTION_NODE, node); }

static wire_writer begin_call(const char *domain, const char *op, const char *inputs, const char *outputs) {
  wire_writer n = begin_node(op, inputs, outputs);
  wire_put_string(&n, NODE_DOMAIN, domain);
  return n;
}

/* A model: input x, the node, output y, and the function. */
static wire_writer call_model(wire_writer *node, wire_writer *function) {
  wire_writer g = {0};
  put_value(&g, GRAPH_INPUT, "x", RLX_FLOAT, "2");
  wire_put_message(&g, GRAPH_NODE, node);
  put_value(&g, GRAPH_OUTPUT, "y", RLX_FLOAT, NULL);
  wire_writer m = make_model(&g);
  put_opset(&m, MODEL_OPSET_IMPORT, "acme", 1);
  if (function) wire_put_message(&m, MODEL_FUNCTIONS, function);
  return m;
}

static void test_names(void **state) {
  (void)state;
  wire_writer f = begin_function("acme", "Twice", "x", "y"), n = begin_node("Abs", "x", "t");
  add_node(&f, &n);
  n = begin_node("Neg", "t", "y");
  add_node(&f, &n);
  wire_writer g = {0};
  put_value(&g, GRAPH_INPUT, "x", RLX_FLOAT, "2");
  for (int i = 0; i < 2; i++) {
    n = begin_call("acme", "Twice", i ? "t" : "x", i ? "y" : "t");
    wire_put_string(&n, NODE_NAME, i ? "second" : "first");
    wire_put_message(&g, GRAPH_NODE, &n);
  }
  put_value(&g, GRAPH_OUTPUT, "y", RLX_FLOAT, NULL);
  wire_writer m = make_model(&g);
  put_opset(&m, MODEL_OPSET_IMPORT, "acme", 1);
  wire_put_message(&m, MODEL_FUNCTIONS, &f);
  rlx_graph *graph = load_good(&m);
  assert_int_equal(graph->nodes.count, 4);
  const rlx_node *abs = graph->nodes.data[0], *neg = graph->nodes.data[1], *abs2 = graph->nodes.data[2];
  assert_string_equal(abs->outputs[0]->name, "first/t");
  assert_string_equal(neg->outputs[0]->name, "t");
  assert_string_equal(neg->origin, "first");
  assert_string_equal(abs2->outputs[0]->name, "second/t");
  assert_ptr_equal(abs2->inputs[0], neg->outputs[0]);
  assert_string_equal(graph->nodes.data[3]->outputs[0]->name, "y");
  rlx_graph_destroy(graph);
}

/* References to attributes: given, by default, left out; in a Constant too. */
static void test_attributes(void **state) {
  (void)state;
  for (int given = 0; given < 2; given++) {
    wire_writer f = begin_function("acme", "F", "x", "y"), n = begin_node("Leaky", "x", "t"), attr;
    put_reference(&n, "slope", RLX_ATTR_FLOAT, "alpha");
    put_reference(&n, "axis", RLX_ATTR_INT, "dim");
    put_reference(&n, "none", RLX_ATTR_INT, "missing");
    add_node(&f, &n);
    n = begin_node("Constant", "", "c");
    put_reference(&n, "value_float", RLX_ATTR_FLOAT, "alpha");
    add_node(&f, &n);
    n = begin_node("Add", "t,c", "y");
    add_node(&f, &n);
    put_names(&f, FUNCTION_ATTRIBUTE, "dim,missing");
    attr = begin_attr("alpha", RLX_ATTR_FLOAT);
    wire_put_float(&attr, ATTRIBUTE_F, 0.25f);
    wire_put_message(&f, FUNCTION_ATTRIBUTE_PROTO, &attr);
    n = begin_call("acme", "F", "x", "y");
    put_int_attr(&n, "dim", 3);
    if (given) put_float_attr(&n, "alpha", 0.5f);
    wire_writer m = call_model(&n, &f);
    rlx_graph *graph = load_good(&m);
    const rlx_node *leaky = graph->nodes.data[0], *add = graph->nodes.data[1];
    float want = given ? 0.5f : 0.25f;
    assert_true(node_attr(leaky, "slope")->f == want);
    assert_int_equal(node_attr(leaky, "axis")->i, 3);
    assert_null(node_attr(leaky, "none"));
    assert_true(*(float *)add->inputs[1]->constant->data == want);
    rlx_graph_destroy(graph);
  }
}

/* A function that calls another, passing an attribute on under another name. */
static void test_nested(void **state) {
  (void)state;
  wire_writer inner = begin_function("acme", "Inner", "a,b", "z"), outer = begin_function("acme", "Outer", "x", "y");
  wire_writer n = begin_node("Leaky", "a,b", "z");
  put_reference(&n, "slope", RLX_ATTR_FLOAT, "beta");
  add_node(&inner, &n);
  put_names(&inner, FUNCTION_ATTRIBUTE, "beta");
  n = begin_call("acme", "Inner", "x", "t");
  put_reference(&n, "beta", RLX_ATTR_FLOAT, "alpha");
  wire_put_string(&n, NODE_NAME, "in");
  add_node(&outer, &n);
  n = begin_node("Neg", "t", "y");
  add_node(&outer, &n);
  put_names(&outer, FUNCTION_ATTRIBUTE, "alpha");
  n = begin_call("acme", "Outer", "x", "y");
  put_float_attr(&n, "alpha", 0.5f);
  wire_put_string(&n, NODE_NAME, "out");
  wire_writer m = call_model(&n, &inner);
  wire_put_message(&m, MODEL_FUNCTIONS, &outer);
  rlx_graph *graph = load_good(&m);
  assert_int_equal(graph->nodes.count, 2);
  const rlx_node *leaky = graph->nodes.data[0];
  assert_true(node_attr(leaky, "slope")->f == 0.5f);
  assert_string_equal(leaky->outputs[0]->name, "out/t");
  assert_string_equal(leaky->origin, "out");
  assert_int_equal(leaky->input_count, 2);
  assert_null(leaky->inputs[1]); /* the parameter b is left out */
  rlx_graph_destroy(graph);
}

/* A body with a branch that uses a parameter; a graph given as an attribute sees the names of the caller. */
static void test_branches(void **state) {
  (void)state;
  wire_writer f = begin_function("acme", "F", "c,v", "y"), branch = {0}, given = {0};
  wire_put_string(&branch, GRAPH_NAME, "b");
  put_node(&branch, "Relu", "v", "r");
  put_value(&branch, GRAPH_OUTPUT, "r", RLX_FLOAT, NULL);
  wire_writer n = begin_node("Choose", "c", "y");
  put_graph_attr(&n, "then_branch", &branch);
  put_reference(&n, "else_branch", RLX_ATTR_GRAPH, "other");
  add_node(&f, &n);
  put_names(&f, FUNCTION_ATTRIBUTE, "other");
  wire_put_string(&given, GRAPH_NAME, "g");
  put_node(&given, "Neg", "x", "r");
  put_value(&given, GRAPH_OUTPUT, "r", RLX_FLOAT, NULL);
  n = begin_call("acme", "F", "x,x", "y");
  put_graph_attr(&n, "other", &given);
  wire_writer m = call_model(&n, &f);
  rlx_graph *graph = load_good(&m);
  const rlx_node *node = graph->nodes.data[0];
  assert_ptr_equal(node_subgraph(node, 0)->nodes.data[0]->inputs[0], graph->inputs.data[0]);
  assert_ptr_equal(node_subgraph(node, 1)->nodes.data[0]->inputs[0], graph->inputs.data[0]);
  assert_ptr_equal(node_subgraph(node, 1)->parent, graph);
  rlx_graph_destroy(graph);
}

/* Outputs that are inputs, or come twice, are copies. */
static void test_outputs(void **state) {
  (void)state;
  wire_writer f = begin_function("acme", "F", "x", "x,r,r"), n = begin_node("Relu", "x", "r");
  add_node(&f, &n);
  n = begin_call("acme", "F", "x", "a,b,y");
  wire_writer m = call_model(&n, &f);
  rlx_graph *graph = load_good(&m);
  assert_int_equal(graph->nodes.count, 3);
  int identities = 0;
  for (size_t i = 0; i < 3; i++) identities += strcmp(graph->nodes.data[i]->op_name, "onnx.Identity") == 0;
  assert_int_equal(identities, 2);
  rlx_graph_destroy(graph);
}

/* Nodes of a body mean the opset that the function imports. */
static void test_opsets(void **state) {
  (void)state;
  wire_writer f = {0}, n = begin_node("Softmax", "x", "t");
  wire_put_string(&f, FUNCTION_NAME, "F");
  wire_put_string(&f, FUNCTION_DOMAIN, "acme");
  put_names(&f, FUNCTION_INPUT, "x");
  put_names(&f, FUNCTION_OUTPUT, "y");
  put_opset(&f, FUNCTION_OPSET_IMPORT, "", 11);
  put_opset(&f, FUNCTION_OPSET_IMPORT, "other", 4);
  add_node(&f, &n);
  n = begin_call("other", "Op", "t", "y");
  add_node(&f, &n);
  n = begin_call("acme", "F", "x", "y");
  wire_writer m = call_model(&n, &f);
  rlx_graph *graph = load_good(&m);
  assert_int_equal(graph->nodes.data[0]->opset, 11);
  assert_int_equal(graph->nodes.data[1]->opset, 4);
  assert_int_equal(graph_opset_version(graph, "onnx", 4), 17);
  assert_int_equal(graph_opset_version(graph, "other", 5), 4);
  rlx_graph_destroy(graph);
}

static void test_overloads(void **state) {
  (void)state;
  wire_writer a = begin_function("acme", "F", "x", "y"), b = begin_function("acme", "F", "x", "y");
  wire_writer n = begin_node("Abs", "x", "y");
  add_node(&a, &n);
  n = begin_node("Neg", "x", "y");
  add_node(&b, &n);
  wire_put_string(&b, FUNCTION_OVERLOAD, "neg");
  n = begin_call("acme", "F", "x", "y");
  wire_put_string(&n, NODE_OVERLOAD, "neg");
  wire_writer m = call_model(&n, &a);
  wire_put_message(&m, MODEL_FUNCTIONS, &b);
  rlx_graph *graph = load_good(&m);
  assert_string_equal(graph->nodes.data[0]->op_name, "onnx.Neg");
  rlx_graph_destroy(graph);
}

static rlx_status nothing(rlx_ctx *ctx) { return ctx ? RLX_OK : RLX_INVALID; }

/* An op that the registry has wins over the function of its name. */
static void test_registered(void **state) {
  (void)state;
  static const rlx_port ports[] = {{.name = "X"}, {0}};
  const rlx_op op = {.struct_size = sizeof op,
                     .name = "acme.F",
                     .version = 1,
                     .doc = "d",
                     .inputs = ports,
                     .outputs = ports,
                     .eval = nothing};
  rlx_registry *registry;
  assert_int_equal(rlx_registry_create(&registry), RLX_OK);
  if (rlx_register_op(registry, &op, 0, NULL) != RLX_OK) fail_msg("%s", rlx_error_message());
  wire_writer f = begin_function("acme", "F", "x", "y"), n = begin_node("Abs", "x", "y");
  add_node(&f, &n);
  n = begin_call("acme", "F", "x", "y");
  wire_writer m = call_model(&n, &f);
  size_t size;
  uint8_t *bytes = join(&m, &size);
  for (int i = 0; i < 2; i++) {
    rlx_load_options options = RLX_LOAD_OPTIONS_INIT;
    rlx_graph *graph = NULL;
    options.registry = i ? registry : NULL;
    if (rlx_graph_load_memory(bytes, size, &options, &graph) != RLX_OK) fail_msg("%s", rlx_error_message());
    assert_string_equal(graph->nodes.data[0]->op_name, i ? "acme.F" : "onnx.Abs");
    rlx_graph_destroy(graph);
  }
  free(bytes);
  rlx_registry_destroy(registry);
}

static void bad_call(wire_writer *function, const char *inputs, const char *outputs, const char *attr,
                     const char *text) {
  wire_writer n = begin_call("acme", "F", inputs, outputs);
  wire_put_string(&n, NODE_NAME, "call");
  if (attr) put_int_attr(&n, attr, 1);
  wire_writer m = call_model(&n, function);
  load_bad(&m, RLX_INVALID, text);
}

static void test_refused(void **state) {
  (void)state;
  wire_writer f = begin_function("acme", "F", "x", "y"), n = begin_call("acme", "F", "x", "y");
  add_node(&f, &n);
  bad_call(&f, "x", "y", NULL, "function 'acme.F' calls itself");
  f = begin_function("acme", "F", "x", "y");
  n = begin_node("Abs", "x", "y");
  add_node(&f, &n);
  bad_call(&f, "x,x", "y", NULL, "node 'call' (acme.F): 2 inputs, and the function has 1");
  f = begin_function("acme", "F", "x", "y");
  bad_call(&f, "x", "y,z", NULL, "2 outputs, and the function has 1");
  f = begin_function("acme", "F", "x", "y");
  bad_call(&f, "x", "y", NULL, "output 'y' of the function has no value");
  f = begin_function("acme", "F", "x", "y");
  bad_call(&f, "x", "y", "alpha", "the function has no attribute 'alpha'");
  f = begin_function("acme", "F", "x", "y");
  n = begin_node("Abs", "outside", "y");
  add_node(&f, &n);
  bad_call(&f, "x", "y", NULL, "input 0 is 'outside', which nothing defines");
  f = begin_function("acme", "F", "x,x", "y");
  bad_call(&f, "x", "y", NULL, "two inputs 'x'");
  f = begin_function("acme", "F", "x", "y");
  n = begin_node("Abs", "x", "x");
  add_node(&f, &n);
  bad_call(&f, "x", "y", NULL, "'x' is defined twice");
  n = begin_node("Abs", "x", "y");
  put_reference(&n, "a", RLX_ATTR_INT, "b");
  wire_writer m = call_model(&n, NULL);
  load_bad(&m, RLX_INVALID, "refers to 'b', but lies in no function");
  f = begin_function("acme", "F", "x", "y");
  wire_writer again = begin_function("acme", "F", "x", "y");
  n = begin_call("acme", "F", "x", "y");
  m = call_model(&n, &f);
  wire_put_message(&m, MODEL_FUNCTIONS, &again);
  load_bad(&m, RLX_INVALID, "function 'acme.F': is defined twice");
}

/* Thirty functions, each calling the next ten times: 10^30 nodes are not made. */
static void test_explosion(void **state) {
  (void)state;
  wire_writer n = begin_call("acme", "F0", "x", "y");
  wire_writer m = call_model(&n, NULL);
  for (int level = 0; level < 30; level++) {
    char name[16], next[16];
    snprintf(name, sizeof name, "F%d", level);
    snprintf(next, sizeof next, "F%d", level + 1);
    wire_writer f = begin_function("acme", name, "x", "v9");
    for (int i = 0; i < 10; i++) {
      char in[16], out[16];
      snprintf(in, sizeof in, i ? "v%d" : "x", i - 1);
      snprintf(out, sizeof out, "v%d", i);
      n = level < 29 ? begin_call("acme", next, in, out) : begin_node("Abs", in, out);
      add_node(&f, &n);
    }
    wire_put_message(&m, MODEL_FUNCTIONS, &f);
  }
  size_t size;
  uint8_t *bytes = join(&m, &size);
  rlx_load_options options = RLX_LOAD_OPTIONS_INIT;
  options.memory_limit = 16 << 20;
  rlx_graph *g;
  assert_int_equal(rlx_graph_load_memory(bytes, size, &options, &g), RLX_OUT_OF_MEMORY);
  free(bytes);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_names),     cmocka_unit_test(test_attributes), cmocka_unit_test(test_nested),
      cmocka_unit_test(test_branches),  cmocka_unit_test(test_outputs),    cmocka_unit_test(test_opsets),
      cmocka_unit_test(test_overloads), cmocka_unit_test(test_registered), cmocka_unit_test(test_refused),
      cmocka_unit_test(test_explosion),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
