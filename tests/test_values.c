/* test_values.c — maps, nested sequences and optionals: their types, objects and files; inputs with default values. */
#include <rlx/extend.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "ir/parse.h"
#include "ir/shape.h"
#include "ir/tensor.h"

#define OK(expr)                                                          \
  do {                                                                    \
    if ((expr) != RLX_OK) fail_msg("%s: %s", #expr, rlx_error_message()); \
  } while (0)
#define FAILS(expr, code, words)                                                                       \
  do {                                                                                                 \
    assert_int_equal(expr, code);                                                                      \
    if (!strstr(rlx_error_message(), words)) fail_msg("'%s' not in '%s'", words, rlx_error_message()); \
  } while (0)

#define HEAD "<ir_version: 10, opset_import: [\"\" : 21]>\n"

static rlx_tensor *floats(int64_t count, const float *values) {
  rlx_tensor *t;
  OK(rlx_tensor_create(RLX_FLOAT, 1, &count, &t));
  if (count) memcpy(rlx_tensor_data(t), values, (size_t)count * sizeof *values);
  return t;
}

static rlx_tensor *words(int64_t count, const char *const *values) {
  rlx_tensor *t;
  OK(rlx_tensor_create(RLX_STRING, 1, &count, &t));
  for (int64_t i = 0; i < count; i++) OK(rlx_tensor_set_string(t, i, values[i], strlen(values[i])));
  return t;
}

/* map(string, float) */
static rlx_tensor *prices(int64_t count, const char *const *names, const float *values) {
  rlx_tensor *keys = words(count, names), *numbers = floats(count, values), *made;
  OK(rlx_map_create(keys, numbers, &made));
  rlx_tensor_destroy(keys);
  rlx_tensor_destroy(numbers);
  return made;
}

static void types(void **state) {
  (void)state;
  rlx_type tensor, keyed, sequence, deep, back;
  char text[300];
  type_unknown(&tensor, RLX_FLOAT);
  OK(rlx_type_hold(RLX_KIND_MAP, RLX_INT64, &tensor, &keyed));
  OK(rlx_type_hold(RLX_KIND_SEQUENCE, RLX_UNDEFINED, &keyed, &sequence));
  OK(rlx_type_hold(RLX_KIND_OPTIONAL, RLX_UNDEFINED, &sequence, &deep));
  assert_string_equal(type_text(&deep, text, sizeof text), "optional(seq(map(int64, float)))");
  assert_true(rlx_type_held(&deep, &back) && type_equal(&back, &sequence));
  assert_true(rlx_type_held(&back, &back) && type_equal(&back, &keyed) && rlx_type_key(&back) == RLX_INT64);
  assert_true(rlx_type_held(&back, &back) && back.kind == RLX_KIND_TENSOR && back.dtype == RLX_FLOAT);
  assert_false(rlx_type_held(&back, &back));
  FAILS(rlx_type_hold(RLX_KIND_MAP, RLX_FLOAT, &tensor, &keyed), RLX_INVALID, "keys");
  for (int i = 3; i < RLX_MAX_NESTING; i++) OK(rlx_type_hold(RLX_KIND_SEQUENCE, RLX_UNDEFINED, &deep, &deep));
  FAILS(rlx_type_hold(RLX_KIND_SEQUENCE, RLX_UNDEFINED, &deep, &deep), RLX_UNSUPPORTED, "nested");
}

static void objects(void **state) {
  (void)state;
  const char *const names[] = {"tea", "milk", "tea"};
  const float values[] = {1, 2, 3};
  rlx_tensor *keys = words(3, names), *numbers = floats(3, values), *two = floats(2, values), *t;
  FAILS(rlx_map_create(keys, numbers, &t), RLX_INVALID, "twice");
  FAILS(rlx_map_create(keys, two, &t), RLX_INVALID, "3 keys and 2 values");
  FAILS(rlx_map_create(numbers, numbers, &t), RLX_INVALID, "keys");
  rlx_tensor *keyed = prices(2, names, values), *other = floats(2, values), *sequence, *wrong[] = {keyed, other};
  FAILS(rlx_sequence_create(RLX_FLOAT, wrong, 2, &sequence), RLX_INVALID, "item 1");
  OK(rlx_sequence_create(RLX_FLOAT, wrong, 1, &sequence));
  assert_int_equal(rlx_tensor_kind(rlx_tensor_item(sequence, 0)), RLX_KIND_MAP);
  assert_ptr_equal(rlx_tensor_item(rlx_tensor_item(sequence, 0), 1)->data, keyed->items[1]->data);
  rlx_tensor *const all[] = {keys, numbers, two, keyed, other, sequence};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) rlx_tensor_destroy(all[i]);
}

/* optional(seq(map(string, float))) to a file and back. */
static void files(void **state) {
  (void)state;
  const char *const names[] = {"tea", "", "milk"};
  const float values[] = {1, 2.5f, -3};
  rlx_tensor *maps[] = {prices(3, names, values), prices(0, names, values)}, *sequence, *optional, *back;
  rlx_type type;
  char path[] = "/tmp/rlx-values-XXXXXX.pb";
  int fd = mkstemps(path, 3);
  assert_true(fd >= 0);
  close(fd);
  OK(rlx_sequence_create(RLX_FLOAT, maps, 2, &sequence));
  OK(rlx_optional_create(RLX_KIND_SEQUENCE, RLX_FLOAT, sequence, &optional));
  OK(rlx_tensor_write(optional, "o", path));
  rlx_tensor_type(optional, &type);
  OK(rlx_value_read(path, &type, &back));
  assert_true(tensor_equal(optional, back));
  rlx_tensor_destroy(back);
  type.dims[0] = 0; /* optional(seq(tensor)) */
  FAILS(rlx_value_read(path, &type, &back), RLX_INVALID, "is not float");
  FAILS(rlx_tensor_write(optional, "o", "x.npy"), RLX_UNSUPPORTED, ".pb");
  unlink(path);
  rlx_tensor *const all[] = {maps[0], maps[1], sequence, optional};
  for (size_t i = 0; i < 4; i++) rlx_tensor_destroy(all[i]);
}

/* Maps go through If and sequences as tensors do. */
static void through_graphs(void **state) {
  (void)state;
  static const char source[] =
      HEAD "g (map(string, float) m, bool c) => (seq(map(string, float)) s, map(string, float) first, int64 n) {\n"
           "  s = If (c) <then_branch = t () => (seq(map(string, float)) r) { r = SequenceConstruct (m, m) },\n"
           "              else_branch = e () => (seq(map(string, float)) r) { r = SequenceConstruct (m) }>\n"
           "  at = Constant <value_int = 0> ()\n"
           "  first = SequenceAt (s, at)\n"
           "  n = SequenceLength (s)\n}";
  rlx_graph *g = NULL;
  rlx_session *s = NULL;
  rlx_binding *b = NULL;
  OK(graph_parse(source, strlen(source), "test", NULL, NULL, &g));
  OK(rlx_session_create(g, NULL, &s));
  OK(rlx_binding_create(s, &b));
  const char *const names[] = {"a", "b"};
  const float values[] = {1, 2};
  rlx_tensor *keyed = prices(2, names, values), *c, *first, *n;
  OK(rlx_tensor_create(RLX_BOOL, 0, NULL, &c));
  *(uint8_t *)rlx_tensor_data(c) = 1;
  OK(rlx_binding_input(b, "m", keyed, 0));
  OK(rlx_binding_input(b, "c", c, 0));
  OK(rlx_run(b, NULL));
  OK(rlx_binding_get(b, "first", &first));
  OK(rlx_binding_get(b, "n", &n));
  assert_true(tensor_equal(first, keyed));
  assert_int_equal(*(int64_t *)rlx_tensor_data(n), 2);
  FAILS(rlx_binding_input(b, "m", c, 0), RLX_INVALID, "map(string, float)");
  rlx_tensor *const all[] = {keyed, c, first, n};
  for (size_t i = 0; i < 4; i++) rlx_tensor_destroy(all[i]);
  rlx_binding_destroy(b);
  rlx_session_destroy(s);
  rlx_graph_destroy(g);
}

/* ---- default values ----------------------------------------------------------------------- */

static float sum_of(rlx_binding *b) {
  rlx_tensor *y;
  float sum = 0;
  OK(rlx_run(b, NULL));
  OK(rlx_binding_get(b, "y", &y));
  for (int64_t i = 0; i < rlx_tensor_count(y); i++) sum += ((const float *)rlx_tensor_data(y))[i];
  rlx_tensor_destroy(y);
  return sum;
}

static void defaults(void **state) {
  (void)state;
  static const char source[] =
      HEAD "g (float[2] x, float[N] w, float v) => (float[N] y) <float[2] w = {10, 20}, float v = {1}> {\n"
           "  k = Mul (w, v)\n  y = Add (x, k)\n}";
  rlx_graph *g = NULL;
  rlx_session *s = NULL;
  rlx_binding *b = NULL;
  rlx_port_info info;
  rlx_session_stats stats = {.struct_size = sizeof stats};
  OK(graph_parse(source, strlen(source), "test", NULL, NULL, &g));
  OK(rlx_session_create(g, NULL, &s));
  OK(rlx_binding_create(s, &b));
  assert_int_equal(rlx_session_input_count(s), 1);
  assert_int_equal(rlx_session_default_count(s), 2);
  OK(rlx_session_default(s, 0, &info));
  assert_string_equal(info.name, "w");
  const float one[] = {1, 1}, five[] = {5}, half[] = {100, 200};
  rlx_tensor *x = floats(2, one), *w = floats(1, five), *w2 = floats(2, half);
  OK(rlx_binding_input(b, "x", x, 0));
  assert_true(sum_of(b) == 32);
  OK(rlx_binding_input(b, "w", w, 0)); /* other dims than the default's */
  assert_true(sum_of(b) == 12);
  OK(rlx_binding_input(b, "w", w2, 0));
  assert_true(sum_of(b) == 302);
  OK(rlx_binding_input(b, "w", NULL, 0));
  assert_true(sum_of(b) == 32);
  rlx_session_get_stats(s, &stats);
  assert_int_equal(stats.builds, 2); /* one with w as a constant, one with w as an input */
  FAILS(rlx_binding_input(b, "v", w, 0), RLX_INVALID, "'v'");
  rlx_tensor *const all[] = {x, w, w2};
  for (size_t i = 0; i < 3; i++) rlx_tensor_destroy(all[i]);
  rlx_binding_destroy(b);
  rlx_session_destroy(s);
  rlx_graph_destroy(g);
}

/* As text and as an ONNX file defaults stay what they are; before version 4 of the format they are constants. */
static void defaults_in_files(void **state) {
  (void)state;
  static const char body[] = "g (float[2] x, float[2] w = {10, 20}) => (float[2] y) { y = Add (x, w) }";
  char source[300], path[] = "/tmp/rlx-defaults-XXXXXX.onnx", *text;
  rlx_graph *g = NULL, *back = NULL, *again = NULL;
  int fd = mkstemps(path, 5);
  assert_true(fd >= 0);
  close(fd);
  snprintf(source, sizeof source, "%s%s", HEAD, body);
  OK(graph_parse(source, strlen(source), "test", NULL, NULL, &g));
  assert_int_equal(g->defaults.count, 1);
  OK(rlx_graph_save(g, path));
  OK(rlx_graph_load(path, NULL, &back));
  assert_int_equal(back->defaults.count, 1);
  assert_int_equal(back->inputs.count, 1);
  OK(rlx_graph_print(back, &text));
  OK(graph_parse(text, strlen(text), "test", NULL, NULL, &again));
  assert_int_equal(again->defaults.count, 1);
  rlx_free(text);
  rlx_graph_destroy(g);
  rlx_graph_destroy(back);
  rlx_graph_destroy(again);
  unlink(path);
  snprintf(source, sizeof source, "<ir_version: 3, opset_import: [\"\" : 8]>\n%s", body);
  OK(graph_parse(source, strlen(source), "test", NULL, NULL, &g));
  assert_int_equal(g->defaults.count, 0);
  rlx_graph_destroy(g);
}

static void opsets(void **state) {
  (void)state;
  static const char source[] =
      "<ir_version: 10, opset_import: [\"\" : 9999]>\ng (float x) => (float y) { y = Neg (x) }";
  rlx_graph *g = NULL;
  FAILS(graph_parse(source, strlen(source), "test", NULL, NULL, &g), RLX_UNSUPPORTED, "9999");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(types),          cmocka_unit_test(objects),  cmocka_unit_test(files),
      cmocka_unit_test(through_graphs), cmocka_unit_test(defaults), cmocka_unit_test(defaults_in_files),
      cmocka_unit_test(opsets),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
