/* test_validate.c — every invariant of a graph, broken by hand, is named with its first offender. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "ir/parse.h"
#include "ir/validate.h"

static const char source[] =
    "<opset_import: [\"\" : 17]>\n"
    "g (float[2,3] x, bool c, float[3] d) => (float[2,3] y, float[2,3] z, e)\n"
    "   <float[3] w = {1, 2, 3}, float[3] d = {0, 0, 0}>\n"
    "{\n"
    "   [first] y = Softmax (x)\n"
    "   [second] z, \"\" = acme.two (y, w)\n"
    "   [third] e = acme.choose (c) <a = sub () => (s) { s = Identity (y) }, b = other () => (w) { }>\n"
    "}\n";

static rlx_graph *parse(void) {
  rlx_graph *g = NULL;
  if (graph_parse(source, sizeof source - 1, "test", NULL, NULL, &g) != RLX_OK) fail_msg("%s", rlx_error_message());
  return g;
}

static void use_later(rlx_graph *g) { g->nodes.data[0]->inputs[0] = graph_find(g, "z"); }
static void use_inner(rlx_graph *g) {
  g->nodes.data[2]->inputs[0] = graph_find(node_subgraph(g->nodes.data[2], 0), "s");
}
static void use_left_out(rlx_graph *g) { g->nodes.data[2]->inputs[0] = g->nodes.data[1]->outputs[1]; }
static void two_producers(rlx_graph *g) { g->nodes.data[1]->outputs[0] = g->nodes.data[0]->outputs[0]; }
static void wrong_index(rlx_graph *g) { g->nodes.data[1]->outputs[0]->index = 1; }
static void same_name(rlx_graph *g) { graph_find(g, "z")->name = "y"; }
static void name_of_input(rlx_graph *g) { graph_find(g, "z")->name = "x"; }
static void foreign_node(rlx_graph *g) { g->nodes.data[0]->graph = node_subgraph(g->nodes.data[2], 0); }
static void foreign_subgraph(rlx_graph *g) { node_subgraph(g->nodes.data[2], 1)->parent = NULL; }
static void late_capture(rlx_graph *g) {
  node_subgraph(g->nodes.data[2], 0)->nodes.data[0]->inputs[0] = graph_find(g, "e");
}
static void produced_input(rlx_graph *g) { g->inputs.data[0]->producer = g->nodes.data[0]; }
static void input_twice(rlx_graph *g) { g->inputs.data[1] = g->inputs.data[0]; }
static void wrong_contents(rlx_graph *g) { graph_find(g, "w")->type.dims[0] = 4; }
static void constant_input(rlx_graph *g) {
  graph_find(g, "c")->constant = rlx_tensor_retain(graph_find(g, "d")->constant);
}
static void wrong_rank(rlx_graph *g) { graph_find(g, "y")->type.rank = 17; }
static void wrong_dim(rlx_graph *g) { graph_find(g, "y")->type.dims[1] = -2; }
static void wrong_id(rlx_graph *g) { graph_find(g, "y")->id = 99; }
static void unmarked_output(rlx_graph *g) { graph_find(g, "y")->is_output = false; }
static void output_twice(rlx_graph *g) { g->outputs.data[1].name = "y"; }
static void no_input(rlx_graph *g) { g->nodes.data[0]->inputs[0] = NULL; }
static void wrong_dtype(rlx_graph *g) { graph_find(g, "x")->type.dtype = RLX_STRING; }
static void sticky(rlx_graph *g) { rlx_graph_output(g, NULL, "nothing"); }

typedef struct breakage {
  void (*apply)(rlx_graph *g);
  const char *message;
} breakage;

static const breakage breakages[] = {
    {use_later, "node 'first' (onnx.Softmax): uses value 'z' before it is made"},
    {use_inner, "node 'third' (acme.choose): uses value 's', which belongs to no graph around it"},
    {use_left_out, "node 'third' (acme.choose): uses an output that is left out"},
    {two_producers, "node 'second' (acme.two): output 0 has another producer"},
    {wrong_index, "node 'second' (acme.two): output 0 has another producer"},
    {same_name, "node 'second' (acme.two): the name 'y' is used twice"},
    {name_of_input, "node 'second' (acme.two): the name 'x' is used twice"},
    {foreign_node, "node 'first' (onnx.Softmax): belongs to another graph"},
    {foreign_subgraph, "node 'third' (acme.choose): subgraph 'other' does not belong to the node's graph"},
    {late_capture, "node 'third' (acme.choose): graph 'sub': node"},
    {late_capture, "uses value 'e' before it is made"},
    {produced_input, "input 'x' is made by a node"},
    {input_twice, "value 'x' is made twice"},
    {wrong_contents, "value 'w': is float[4], its contents float[3]"},
    {constant_input, "value 'c': has contents and is made by a node or an input"},
    {wrong_rank, "value 'y': rank 17 outside 0..16"},
    {wrong_dim, "value 'y': dim 1 is -2"},
    {wrong_id, "value 'y' belongs to another graph"},
    {unmarked_output, "output 'y': value 'y' is not marked as an output"},
    {output_twice, "output 'y': the name is used twice"},
    {no_input, "node 'first' (onnx.Softmax): input 'input' is missing"},
    {wrong_dtype, "node 'first' (onnx.Softmax):"},
    {sticky, "output 'nothing': no value"},
};

static void test_breakages(void **state) {
  (void)state;
  rlx_graph *g = parse();
  if (rlx_graph_validate(g) != RLX_OK) fail_msg("%s", rlx_error_message());
  rlx_graph_destroy(g);
  for (size_t i = 0; i < sizeof breakages / sizeof *breakages; i++) {
    g = parse();
    breakages[i].apply(g);
    assert_int_equal(graph_validate(g), RLX_INVALID);
    if (!strstr(rlx_error_message(), breakages[i].message))
      fail_msg("\"%s\" instead of \"%s\"", rlx_error_message(), breakages[i].message);
    rlx_graph_destroy(g);
  }
}

/* The public function also infers types, on a copy. */
static void test_types(void **state) {
  (void)state;
  rlx_graph *g = parse();
  graph_find(g, "y")->type.dims[1] = 5;
  assert_int_equal(graph_validate(g), RLX_OK);
  assert_int_equal(rlx_graph_validate(g), RLX_INVALID);
  assert_non_null(strstr(rlx_error_message(), "'y' is declared float[2,5] but is float[2,3]"));
  assert_int_equal(graph_find(g, "y")->type.dims[1], 5);
  rlx_graph_destroy(g);
}

static void test_short_memory(void **state) {
  (void)state;
  rlx_graph *g = parse();
  rlx_status status = RLX_OUT_OF_MEMORY;
  for (int64_t n = 1; n < 10000 && status != RLX_OK; n++) {
    mem_inject(n, 1);
    status = rlx_graph_validate(g);
    mem_inject(0, 0);
    assert_true(status == RLX_OK || status == RLX_OUT_OF_MEMORY);
  }
  assert_int_equal(status, RLX_OK);
  rlx_graph_destroy(g);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_breakages),
      cmocka_unit_test(test_types),
      cmocka_unit_test(test_short_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
