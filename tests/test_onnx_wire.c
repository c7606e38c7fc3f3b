/* test_onnx_wire.c — the protobuf reader refuses what is cut off or of the wrong kind; the writer's output reads back.
 */
#include "onnx_model.h"

static wire_reader open_bytes(const char *bytes, size_t size) {
  return wire_open((wire_span){(const uint8_t *)bytes, size}, "Test");
}

static void expect_failure(const char *bytes, size_t size, const char *text) {
  wire_reader r = open_bytes(bytes, size);
  wire_field f;
  while (wire_next(&r, &f)) {
    if (f.number == 1) wire_int(&f);
    if (f.number == 2) wire_bytes(&f);
    if (f.number == 3) wire_count(&f, WIRE_FLOATS);
    if (f.number == 4) wire_name(&f);
  }
  assert_int_equal(r.status, RLX_MALFORMED);
  if (!strstr(rlx_error_message(), text)) fail_msg("'%s' lacks '%s'", rlx_error_message(), text);
}

static void test_broken(void **state) {
  (void)state;
  expect_failure("\x08", 1, "cut off");
  expect_failure("\x08\x80", 2, "cut off");
  expect_failure("\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 12, "longer than 10");
  expect_failure("\x12\x05"
                 "abcd",
                 6, "says 5 bytes and 4 remain");
  expect_failure("\x12\xff\xff\xff\xff\x07"
                 "ab",
                 8, "says 2147483647 bytes");
  expect_failure("\x12\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 11, "remain");
  expect_failure("\x0d\x01\x02\x03", 4, "cut off");
  expect_failure("\x09\x01\x02\x03\x04\x05\x06\x07", 8, "cut off");
  expect_failure("\x0b\x0c", 2, "wire type 3");
  expect_failure("\x0f", 1, "wire type 7");
  expect_failure("\x02\x00", 2, "field number 0");
  expect_failure("\x0a\x01"
                 "a",
                 3, "wire type 2, not 0");
  expect_failure("\x10\x01", 2, "wire type 0, not 2");
  expect_failure("\x1a\x03"
                 "abc",
                 5, "packs 3 bytes");
  expect_failure("\x22\x03"
                 "a\0b",
                 5, "NUL");
}

static void test_round_trip(void **state) {
  (void)state;
  const int64_t ints[] = {0, 1, -1, INT64_MIN, INT64_MAX, 300};
  const float floats[] = {1.5f, -2.5f};
  wire_writer w = {0}, inner = {0};
  wire_put_borrowed(&inner, 1, "borrowed", 8);
  wire_put_int(&inner, 2, -7);
  wire_put_message(&w, 5, &inner);
  wire_put_ints(&w, 6, ints, 6);
  wire_put_floats(&w, 7, floats, 2);
  wire_put_int(&w, 6, 42); /* the unpacked form of the same list */
  size_t size;
  uint8_t *bytes = join(&w, &size);
  wire_reader r = wire_open((wire_span){bytes, size}, "Test");
  wire_field f;
  assert_true(wire_next(&r, &f));
  wire_reader in = wire_open(wire_bytes(&f), "Inner");
  wire_field g;
  assert_true(wire_next(&in, &g));
  assert_true(wire_equal(wire_bytes(&g), "borrowed"));
  assert_true(wire_next(&in, &g));
  assert_int_equal(wire_int(&g), -7);
  assert_false(wire_next(&in, &g));
  assert_true(wire_next(&r, &f));
  assert_int_equal(wire_count(&f, WIRE_INTS), 6);
  int64_t back[6];
  wire_unpack(&f, WIRE_INTS, back);
  assert_memory_equal(back, ints, sizeof ints);
  assert_true(wire_next(&r, &f));
  float floats_back[2];
  assert_int_equal(wire_count(&f, WIRE_FLOATS), 2);
  wire_unpack(&f, WIRE_FLOATS, floats_back);
  assert_memory_equal(floats_back, floats, sizeof floats);
  assert_true(wire_next(&r, &f));
  assert_int_equal(wire_count(&f, WIRE_INTS), 1);
  wire_unpack(&f, WIRE_INTS, back);
  assert_int_equal(back[0], 42);
  assert_false(wire_next(&r, &f));
  assert_int_equal(r.status, RLX_OK);
  free(bytes);
}

/* A packed list whose last number is cut off fails when it is read. */
static void test_packed_cut(void **state) {
  (void)state;
  wire_reader r = open_bytes("\x0a\x02\x01\x80", 4);
  wire_field f;
  int64_t back[2];
  assert_true(wire_next(&r, &f));
  assert_int_equal(wire_count(&f, WIRE_INTS), 1);
  wire_unpack(&f, WIRE_INTS, back);
  assert_int_equal(back[0], 1);
  assert_int_equal(r.status, RLX_MALFORMED);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_broken),
      cmocka_unit_test(test_round_trip),
      cmocka_unit_test(test_packed_cut),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
