/* test_print_parse.c — the text form: parse(print(g)) == g, errors say where, nothing leaks when memory is short. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ir/number.h"
#include "ir/parse.h"
#include "ir/print.h"
#include "ir/tensor_text.h"
#include "ir/validate.h"
#include "support/graph_equal.h"

static rlx_graph *parse(const char *source) {
  rlx_graph *g = NULL;
  rlx_status status = graph_parse(source, strlen(source), "test", NULL, NULL, &g);
  if (status != RLX_OK) fail_msg("%s\n%s", rlx_error_message(), source);
  return g;
}

static char *print(const rlx_graph *g) {
  char *printed = NULL;
  if (rlx_graph_print(g, &printed) != RLX_OK) fail_msg("%s", rlx_error_message());
  return printed;
}

/* Prints, parses, compares; and printing again gives the same text. */
static void check_round_trip(const rlx_graph *g) {
  char *first = print(g);
  rlx_graph *back = parse(first);
  const char *difference = graph_difference(g, back);
  if (difference) fail_msg("%s in\n%s", difference, first);
  char *second = print(back);
  assert_string_equal(first, second);
  if (graph_validate(back) != RLX_OK) fail_msg("%s in\n%s", rlx_error_message(), first);
  rlx_free(first);
  rlx_free(second);
  rlx_graph_destroy(back);
}

static char *read_file(const char *path, size_t *size) {
  FILE *f = fopen(path, "rb");
  if (!f) fail_msg("cannot open %s", path);
  char *data = test_malloc(1 << 20);
  *size = fread(data, 1, 1 << 20, f);
  fclose(f);
  return data;
}

static void test_files(void **state) {
  (void)state;
  int files = 0;
  DIR *folder = opendir("tests/graphs");
  assert_non_null(folder);
  for (struct dirent *entry; (entry = readdir(folder));) {
    char path[512];
    size_t size;
    if (!strstr(entry->d_name, ".rlx")) continue;
    snprintf(path, sizeof path, "tests/graphs/%s", entry->d_name);
    char *source = read_file(path, &size);
    rlx_graph *g = NULL;
    if (graph_parse(source, size, path, NULL, NULL, &g) != RLX_OK) fail_msg("%s", rlx_error_message());
    check_round_trip(g);
    rlx_graph_destroy(g);
    test_free(source);
    files++;
  }
  closedir(folder);
  assert_true(files > 0);
}

/* A whole model, weights and all. */
static void test_model(void **state) {
  (void)state;
  rlx_graph *g = NULL;
  if (rlx_graph_load("tests/models/encoder/model.onnx", NULL, &g) != RLX_OK) fail_msg("%s", rlx_error_message());
  check_round_trip(g);
  rlx_graph_destroy(g);
}

/* ---- numbers ---- */

static uint64_t random_state = 1;

static uint64_t random_bits(void) {
  random_state ^= random_state << 13;
  random_state ^= random_state >> 7;
  random_state ^= random_state << 17;
  return random_state;
}

static void check_numbers(void) {
  char written[NUMBER_TEXT];
  for (int i = 0; i < 20000; i++) {
    uint64_t wide = i < 256 ? (uint64_t)i << 56 : random_bits(), wide_back;
    uint32_t bits = (uint32_t)(wide >> 32), bits_back;
    float f, f_back;
    double d, d_back;
    memcpy(&f, &bits, sizeof f);
    memcpy(&d, &wide, sizeof d);
    number_print_float(f, i % 2, written);
    assert_true(number_parse_float(written, strlen(written), &f_back));
    memcpy(&bits_back, &f_back, sizeof f);
    if (bits != bits_back) fail_msg("float %08x was written %s", bits, written);
    number_print_double(d, i % 2, written);
    assert_true(number_parse_double(written, strlen(written), &d_back));
    memcpy(&wide_back, &d_back, sizeof d);
    if (wide != wide_back) fail_msg("double %016llx was written %s", (unsigned long long)wide, written);
  }
}

static void test_numbers(void **state) {
  (void)state;
  static const char *const locales[] = {"C", "de_DE.UTF-8", "de_DE", "fr_FR.UTF-8", "ps_AF.UTF-8"};
  char written[NUMBER_TEXT];
  for (size_t i = 0; i < sizeof locales / sizeof *locales; i++)
    if (setlocale(LC_ALL, locales[i])) {
      check_numbers();
      assert_string_equal(number_print_float(0.1f, false, written), "0.1");
      assert_string_equal(number_print_float(2, false, written), "2.0");
      assert_string_equal(number_print_double(-1e300, false, written), "-1e+300");
    }
  setlocale(LC_ALL, "C");
  assert_string_equal(number_print_float(-0.0f, false, written), "-0.0");
  assert_string_equal(number_print_float(-0.0f, true, written), "-0");
  assert_string_equal(number_print_float(0x1p-149f, true, written), "1e-45");
  assert_string_equal(number_print_double(0x1p-1074, true, written), "5e-324");
  assert_string_equal(number_print_double((double)NAN, false, written), "nan");
  static const char *const bad[] = {"",      "-",   "1e", "0x10", "infinity", "1.5.2", "nan(0x7f800000)",
                                    "1e999", "--1", "e5"};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    float f;
    double d;
    if (number_parse_float(bad[i], strlen(bad[i]), &f)) fail_msg("'%s' was taken for a number", bad[i]);
    assert_false(number_parse_double(bad[i], strlen(bad[i]), &d));
  }
}

/* ---- tensors of every type ---- */

static rlx_graph *graph_of(rlx_tensor *t) {
  rlx_graph *g;
  assert_int_equal(rlx_graph_create(NULL, &g), RLX_OK);
  rlx_graph_output(g, rlx_graph_constant(g, "w", t), NULL);
  assert_int_equal(rlx_graph_finish(g), RLX_OK);
  return g;
}

static rlx_tensor *random_tensor(rlx_dtype dtype, int64_t count) {
  rlx_tensor *t;
  char string[40];
  assert_int_equal(rlx_tensor_create(dtype, 1, &count, &t), RLX_OK);
  unsigned char *bytes = t->data;
  int used = rlx_dtype_bits(dtype) < 8 && count % 2 ? (int)(count * rlx_dtype_bits(dtype) % 8) : 0;
  for (size_t i = 0; i < t->bytes && dtype != RLX_STRING; i++) bytes[i] = (unsigned char)(random_bits() >> 20);
  if (used) bytes[t->bytes - 1] &= (unsigned char)((1 << used) - 1);
  for (int64_t i = 0; i < count && dtype == RLX_STRING; i++) {
    for (size_t k = 0; k < sizeof string; k++) string[k] = (char)(random_bits() >> 20);
    assert_int_equal(rlx_tensor_set_string(t, i, string, (size_t)(random_bits() % sizeof string)), RLX_OK);
  }
  return t;
}

static void test_types(void **state) {
  (void)state;
  for (int dtype = 1; dtype < RLX_DTYPE_COUNT; dtype++)
    for (int64_t count = 0; count < 2000; count = count * 3 + 1) {
      rlx_tensor *t = random_tensor((rlx_dtype)dtype, count);
      rlx_graph *g = graph_of(t);
      check_round_trip(g);
      rlx_graph_destroy(g);
      rlx_tensor_destroy(t);
    }
  /* In the small float types an integer is the bits and a number with a point the value. */
  rlx_graph *g = parse("g () => (w) <float16[4] w = {15360, 1.0, -inf, 1e9}> {}");
  const uint16_t *half = graph_find(g, "w")->constant->data;
  assert_int_equal(half[0], 0x3c00);
  assert_int_equal(half[1], 0x3c00);
  assert_int_equal(half[2], 0xfc00);
  assert_int_equal(half[3], 0x7c00);
  rlx_graph_destroy(g);
}

/* ---- the side file ---- */

static rlx_status parse_at(const char *source, const char *folder, rlx_graph **out) {
  return graph_parse(source, strlen(source), "test", folder, NULL, out);
}

static void test_side_file(void **state) {
  (void)state;
  char folder[] = "/tmp/rlx-text-XXXXXX", path[64];
  assert_non_null(mkdtemp(folder));
  snprintf(path, sizeof path, "%s/side.bin", folder);
  rlx_graph *g = parse("g () => (w) <float[2] w = {1, 2}> {}"), *back = NULL;
  rlx_tensor *large = random_tensor(RLX_FLOAT, 65), *other = random_tensor(RLX_INT4, 100);
  rlx_graph_constant(g, "large", large);
  rlx_graph_constant(g, "other", other);
  rlx_attr attr = {.name = "t", .kind = RLX_ATTR_TENSOR, .tensor = large};
  rlx_graph_op(g, "acme.op", &attr, 1, NULL, 0);
  assert_int_equal(rlx_graph_finish(g), RLX_OK);
  rlx_tensor_destroy(large);
  rlx_tensor_destroy(other);
  text printed = {0};
  assert_int_equal(graph_print(g, path, &printed), RLX_OK);
  assert_int_equal(parse_at(printed.data, folder, &back), RLX_OK);
  assert_null(graph_difference(g, back));
  rlx_graph_destroy(back);
  assert_int_equal(parse_at(printed.data, NULL, &back), RLX_INVALID);
  FILE *f = fopen(path, "r+b");
  fseek(f, 70, SEEK_SET);
  fputc(fgetc(f) ^ 1, f);
  fclose(f);
  assert_int_equal(parse_at(printed.data, folder, &back), RLX_INVALID);
  assert_non_null(strstr(rlx_error_message(), "has changed"));
  assert_int_equal(parse_at("g () => (w) <float[99] w = [\"location\": \"../x\"]> {}", folder, &back), RLX_INVALID);
  assert_int_not_equal(parse_at("g () => (w) <float[9999] w = [\"location\": \"side.bin\"]> {}", folder, &back),
                       RLX_OK);
  text_finish(&printed);
  rlx_graph_destroy(g);
  unlink(path);
  rmdir(folder);
}

/* ---- graphs made by the builder ---- */

static void test_builder(void **state) {
  (void)state;
  static const char *const names[] = {"",    "a b", "float",  "seq", "1st", "\"",
                                      "x\\", "é",   "\x80\n", "nan", "a.b", "inf"};
  rlx_graph *g;
  assert_int_equal(rlx_graph_create(NULL, &g), RLX_OK);
  rlx_graph_set_opset(g, "", 17);
  rlx_graph_set_opset(g, "a-b.c", 2);
  rlx_type type = {.dtype = RLX_FLOAT, .rank = 2, .dims = {RLX_UNKNOWN, 3}};
  rlx_value *x = rlx_graph_input(g, "the input", &type);
  for (size_t i = 1; i < sizeof names / sizeof *names; i++) {
    rlx_attr attrs[] = {RLX_ATTR_I(names[i], INT64_MIN), RLX_ATTR_F("f", -0.0f)};
    rlx_value *inputs[] = {x, NULL, x, NULL};
    const char *outputs[] = {names[i], "", NULL};
    rlx_node_desc d = {sizeof d, "a-b.c.op name", names[i], inputs, 4, attrs, 2, 3, outputs};
    x = rlx_node_output(rlx_graph_node(g, &d), 0);
  }
  rlx_graph_output(g, x, "another name");
  rlx_graph_output(g, x, NULL);
  rlx_graph_output(g, graph_find(g, "the input"), "through");
  if (rlx_graph_finish(g) != RLX_OK) fail_msg("%s", rlx_error_message());
  g->nodes.data[0]->origin = "n1 + \"n2\"";
  g->nodes.data[1]->opset = 3;
  check_round_trip(g);
  rlx_graph_destroy(g);
}

/* ---- errors ---- */

typedef struct bad_text {
  const char *source, *message;
} bad_text;

static const bad_text bad_texts[] = {
    {"", "t:1:1: expected a name, found the end"},
    {"g", "t:1:2: expected '(', found the end"},
    {"g (float x) => (float y) {\n  y = Relu (z)\n}", "t:2:13: no value 'z' before its use"},
    {"g (float x) => (float y) {\n  y = Relu (x\n}", "t:3:1: expected ')', found '}'"},
    {"g (float x) => (float y) { }", "t:1:17: no value 'y' for the output"},
    {"g (float x, float x) => () { }", "t:1:13: the name 'x' is used twice"},
    {"g (x) => () { }", "t:1:4: input 'x' has no type"},
    {"g (flot x) => () { }", "t:1:4: expected a type, found 'flot'"},
    {"g (float[1,2,3,4,5,6,7,8,9,1,2,3,4,5,6,7,8] x) => () { }", "t:1:42: rank over 16"},
    {"g (float[-2] x) => () { }", "t:1:10: dim -2"},
    {"g (float[99999999999999999999] x) => () { }", "t:1:10: dim 99999999999999999999"},
    {"g () => (float y) { y = acme.f <a = 1, a = 2> () }", "t:1:40: attribute 'a' is given twice"},
    {"g () => (float y) { y = acme.f <a = []> () }", "an empty list says no kind"},
    {"g () => (float y) { y = acme.f <a = [1, \"b\"]> () }", "a list of int and string"},
    {"g () => (float y) { y = acme.f <a: int = 1.5> () }", "attribute 'a' is float, declared int"},
    {"g () => (float y) { y = acme.f <a = @b> () }", "t:1:37: an attribute of the function"},
    {"g () => (float y) { y = acme.f <a = bytes\"0\"> () }", "pairs of hexadecimal digits"},
    {"g () => (float y) { y = acme.f <a = 99999999999999999999> () }", "'99999999999999999999' is no int"},
    {"g () => (float y) { y = acme.f <a = 1e99> () }", "'1e99' is no float"},
    {"g () => (float y) { y = acme.f:o () }", "overloads of functions"},
    {"g () => (w) <float[2] w = {1}> {}", "t:1:27: float[2] has 1 elements here"},
    {"g () => (w) <float[1000000000000] w = {1}> {}", "has 1 elements here"},
    {"g () => (w) <float[?] w = {1}> {}", "whose dims are not all known"},
    {"g () => (w) <int8[1] w = {128}> {}", "'128' is no int8"},
    {"g () => (w) <int4[1] w = {8}> {}", "'8' is no int4"},
    {"g () => (w) <float16[1] w = {65536}> {}", "'65536' is no float16"},
    {"g () => (w) <bool[1] w = {true}> {}", "expected a number, found 'true'"},
    {"g () => (w) <float[3] w = {...}> {}", "float[3] has 0 elements here"},
    {"g () => (w) <float[1] w = [\"key\": \"v\"]> {}", "external data by 'key'"},
    {"g () => (w) <float[1] w = [\"offset\": \"1\"]> {}", "external data without a location"},
    {"g () => (w) <float[1] w = [\"location\": \"f\"]> {}", "of a text that has no folder"},
    {"g (sparse_tensor(float) x) => () {}", "sparse tensors"},
    {"g (float x) => (int64 x) {}", "t:1:17: output 'x' is float, declared int64"},
    {"g (float x = {1}) => () <float x = {2}> {}", "the name 'x' is used twice"},
    {"g (float x) => () { y = Neg (^x) }", "'^' leads out of the outermost graph"},
    {"g (float[2,?] x) => () <float[3,1] x = {1, 2, 3}> {}",
     "t:1:25: input 'x' is float[2,?], its contents float[3,1]"},
    {"g () => () { float[2] \"\" = a.b () }", "t:1:14: a type without a name"},
    {"g (float x) => (\"\" = x) { }", "t:1:17: an output without a name"},
    {"g () => () { = a.b <c = g (\"\") => () { }> () }", "t:1:28: an input without a name"},
    {"g (float x) => (x, y = x, x) { }", "t:1:27: the output 'x' is given twice"},
    {"g (float@x y) => () { }", "t:1:10: expected a layout, found 'x'"},
    {"g (float \"x", "string without an end"},
    {"g (float x) => () { y = Neg (x) ; }", "unexpected character: ;"},
    {"g (float \"\\q\") => () {}", "no such escape: \\q"},
    {"g (float \"a\\x00b\") => () {}", "a name with a zero byte"},
    {"<version: 3> g () => () {}", "t:1:2: a model has no 'version'"},
    {"<opset_import: [\"\" : 0]> g () => () {}", "expected a version, found '0'"},
    {"g () => () {} <domain: \"local\"> f (x) => (y) {}", "model-local functions"},
    {"g () => () {} g", "expected the end, found 'g'"},
    {"g (float x) => (float y) { y = Softmax <no_such = 1> (x) }", "attribute 'no_such'"},
    {"g (int64[2] n) => (m, int32[2] k) { k = Add (n, n) m = Mul (k, n) }",
     "t: node 'node_1' (onnx.Mul): input 'B' is int64 where T is int32"},
};

static void test_errors(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof bad_texts / sizeof *bad_texts; i++) {
    const bad_text *b = &bad_texts[i];
    rlx_graph *g = NULL;
    if (graph_parse(b->source, strlen(b->source), "t", NULL, NULL, &g) == RLX_OK) fail_msg("accepted: %s", b->source);
    assert_null(g);
    if (!strstr(rlx_error_message(), b->message) || strncmp(rlx_error_message(), "t:", 2) != 0)
      fail_msg("\"%s\" instead of \"%s\" for %s", rlx_error_message(), b->message, b->source);
  }
}

static void test_nesting(void **state) {
  (void)state;
  text deep = {0};
  text_add(&deep, "g (");
  for (int i = 0; i < 100000; i++) text_add(&deep, "seq(");
  rlx_graph *g = NULL;
  assert_int_equal(graph_parse(deep.data, deep.size, "t", NULL, NULL, &g), RLX_INVALID);
  assert_non_null(strstr(rlx_error_message(), "nested deeper than"));
  text_finish(&deep);
  for (int i = 0; i < 100000; i++) text_add(&deep, "g () => () { = a.b <c = ");
  assert_int_equal(graph_parse(deep.data, deep.size, "t", NULL, NULL, &g), RLX_INVALID);
  assert_non_null(strstr(rlx_error_message(), "nested deeper than"));
  text_finish(&deep);
}

/* Any prefix, and any byte changed, ends in a status. */
static void test_damage(void **state) {
  (void)state;
  size_t size;
  char *source = read_file("tests/graphs/everything.rlx", &size);
  for (size_t i = 0; i < 2 * size; i++) {
    rlx_graph *g = NULL;
    char old = source[i % size];
    if (i >= size) source[i % size] = (char)random_bits();
    if (graph_parse(source, i < size ? i : size, "t", NULL, NULL, &g) == RLX_OK) rlx_graph_destroy(g);
    source[i % size] = old;
  }
  test_free(source);
}

static void test_short_memory(void **state) {
  (void)state;
  size_t size;
  char *source = read_file("tests/graphs/everything.rlx", &size);
  rlx_graph *g = NULL;
  rlx_status status = RLX_OUT_OF_MEMORY;
  for (int64_t n = 1; n < 100000 && !g; n++) {
    mem_inject(n, (int)(n % 2));
    status = graph_parse(source, size, "t", NULL, NULL, &g);
    mem_inject(0, 0);
    assert_true(status == RLX_OK || status == RLX_OUT_OF_MEMORY);
  }
  assert_int_equal(status, RLX_OK);
  char *printed = NULL;
  for (int64_t n = 1; n < 1000 && !printed; n++) {
    mem_inject(n, 1);
    status = rlx_graph_print(g, &printed);
    mem_inject(0, 0);
    assert_true(status == RLX_OK || status == RLX_OUT_OF_MEMORY);
  }
  assert_int_equal(status, RLX_OK);
  rlx_free(printed);
  rlx_graph_destroy(g);
  test_free(source);
}

/* ---- samples, dumps ---- */

static void test_samples(void **state) {
  (void)state;
  rlx_graph *g = NULL;
  assert_int_equal(sample_parse("float[2,3], float[3]", "onnx.MatMul", NULL, &g), RLX_OK);
  assert_int_equal(g->inputs.count, 2);
  assert_int_equal(g->outputs.count, 1);
  assert_int_equal(graph_validate(g), RLX_OK);
  rlx_graph_destroy(g);
  assert_int_equal(sample_parse("float[2,3] {axis = 1}", "onnx.Softmax", NULL, &g), RLX_OK);
  assert_int_equal(node_attr(g->nodes.data[0], "axis")->i, 1);
  rlx_graph_destroy(g);
  assert_int_equal(sample_parse("float[], int64[2] = {2, 3}", "onnx.Expand", NULL, &g), RLX_OK);
  assert_int_equal(g->inputs.count, 1);
  assert_int_equal(g->inputs.data[0]->type.rank, 0);
  rlx_graph_destroy(g);
  assert_int_equal(sample_parse("float[2", "onnx.Softmax", NULL, &g), RLX_MALFORMED);
  assert_int_equal(sample_parse("float[2]", "onnx.NoSuchOp", NULL, &g), RLX_NOT_FOUND);
  assert_int_equal(sample_parse("float[2] {axis = 1} x", "onnx.Softmax", NULL, &g), RLX_MALFORMED);
}

static void test_dump(void **state) {
  (void)state;
  rlx_graph *g =
      parse("g (float[N,2] x) => (float y) <float[2] w = {1, 2}> { [n] float[?,2] t = Add (x, w)\n y = Size (t) }");
  text dumped = {0};
  node_print(g->nodes.data[0], &dumped);
  assert_string_equal(dumped.data, "[n] float[?,2] t = Add (x, w)");
  text_finish(&dumped);
  rlx_tensor *large = random_tensor(RLX_FLOAT, 65);
  rlx_value *used = rlx_graph_constant(g, "large", large);
  rlx_graph_constant(g, "unused", large);
  rlx_graph_output(g, used, NULL);
  rlx_tensor_destroy(large);
  graph_dump(g, &dumped);
  assert_null(strstr(dumped.data, "unused"));
  assert_non_null(strstr(dumped.data, "float[65] large = {...}"));
  text_finish(&dumped);
  rlx_graph_destroy(g);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_files),        cmocka_unit_test(test_model),     cmocka_unit_test(test_numbers),
      cmocka_unit_test(test_types),        cmocka_unit_test(test_side_file), cmocka_unit_test(test_builder),
      cmocka_unit_test(test_errors),       cmocka_unit_test(test_nesting),   cmocka_unit_test(test_damage),
      cmocka_unit_test(test_short_memory), cmocka_unit_test(test_samples),   cmocka_unit_test(test_dump),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
