/* test_tensor_file.c — rlx_tensor_read and rlx_tensor_write: NumPy files and TensorProto, right and wrong ones. */
#include "base/file.h"
#include "onnx/tensor_file.h"
#include "onnx_model.h"

static rlx_status parse(const void *data, size_t size, rlx_tensor **out) {
  mapped_file *file = NULL;
  assert_int_equal(mapped_file_copy(data, size, &file), RLX_OK);
  rlx_status status = tensor_file_parse(file, NULL, out);
  mapped_file_release(file);
  return status;
}

/* An .npy file with this header and data, in the version given. */
static size_t make_npy(uint8_t *to, int version, const char *header, const void *data, size_t size) {
  size_t width = version == 1 ? 2 : 4, length = strlen(header);
  uint32_t written = (uint32_t)length;
  memcpy(to, "\x93NUMPY", 6);
  to[6] = (uint8_t)version;
  to[7] = 0;
  memcpy(to + 8, &written, width);
  memcpy(to + 8 + width, header, length);
  if (size) memcpy(to + 8 + width + length, data, size);
  return 8 + width + length + size;
}

static rlx_tensor *npy_good(int version, const char *header, const void *data, size_t size) {
  uint8_t file[1024];
  rlx_tensor *t = NULL;
  if (parse(file, make_npy(file, version, header, data, size), &t) != RLX_OK) fail_msg("%s", rlx_error_message());
  return t;
}

static void npy_bad(int version, const char *header, size_t size, const char *text) {
  uint8_t file[1024];
  uint8_t data[64] = {0};
  rlx_tensor *t = NULL;
  rlx_status status = parse(file, make_npy(file, version, header, data, size), &t);
  if (status == RLX_OK) rlx_tensor_destroy(t);
  if (status == RLX_OK || !strstr(rlx_error_message(), text)) {
    fail_msg("%s: status %s, message '%s'", header, rlx_status_name(status), rlx_error_message());
  }
}

static void test_npy_versions(void **state) {
  (void)state;
  const float data[] = {1, 2, 3, 4, 5, 6};
  for (int version = 1; version <= 3; version++) {
    rlx_tensor *t =
        npy_good(version, "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }  \n", data, sizeof data);
    assert_int_equal(t->dtype, RLX_FLOAT);
    assert_int_equal(t->rank, 2);
    assert_int_equal(t->dims[1], 3);
    assert_memory_equal(t->data, data, sizeof data);
    rlx_tensor_destroy(t);
  }
  rlx_tensor *t = npy_good(1, "{\"shape\":(6L,),'fortran_order':True,'descr':\"=f4\"}", data, sizeof data);
  assert_int_equal(t->dims[0], 6);
  rlx_tensor_destroy(t);
  t = npy_good(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (), }", data, 4);
  assert_int_equal(t->rank, 0);
  rlx_tensor_destroy(t);
  t = npy_good(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (0, 3), }", data, 0);
  assert_int_equal(t->count, 0);
  rlx_tensor_destroy(t);
}

static void test_npy_big_endian(void **state) {
  (void)state;
  rlx_tensor *t =
      npy_good(1, "{'descr': '>i4', 'fortran_order': False, 'shape': (2,), }", "\0\0\0\1\xff\xff\xff\xfe", 8);
  assert_int_equal(((int32_t *)t->data)[0], 1);
  assert_int_equal(((int32_t *)t->data)[1], -2);
  rlx_tensor_destroy(t);
  t = npy_good(1, "{'descr': '>c8', 'fortran_order': False, 'shape': (1,), }", "\x3f\x80\0\0\x40\0\0\0", 8);
  assert_true(((float *)t->data)[0] == 1.0f && ((float *)t->data)[1] == 2.0f);
  rlx_tensor_destroy(t);
}

static void test_npy_strings(void **state) {
  (void)state;
  const uint32_t unicode[] = {'a', 0xe9, 0, 0x1f600, 0, 0};
  rlx_tensor *t = npy_good(1, "{'descr': '<U3', 'fortran_order': False, 'shape': (2,), }", unicode, sizeof unicode);
  const rlx_string *s = t->data;
  assert_int_equal(s[0].size, 3);
  assert_memory_equal(s[0].data, "a\xc3\xa9", 3);
  assert_int_equal(s[1].size, 4);
  assert_memory_equal(s[1].data, "\xf0\x9f\x98\x80", 4);
  rlx_tensor_destroy(t);
  t = npy_good(1, "{'descr': '|S2', 'fortran_order': False, 'shape': (2,), }", "ab\xff\0", 4);
  s = t->data;
  assert_int_equal(s[0].size, 2);
  assert_int_equal(s[1].size, 1);
  rlx_tensor_destroy(t);
}

static void test_npy_refused(void **state) {
  (void)state;
  npy_bad(4, "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }", 8, "version 4");
  npy_bad(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }", 7, "holds 7 bytes");
  npy_bad(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }", 9, "holds 9 bytes");
  npy_bad(1, "{'descr': '<f4', 'fortran_order': True, 'shape': (1, 2), }", 8, "Fortran");
  npy_bad(1, "{'descr': '|O', 'fortran_order': False, 'shape': (2,), }", 8, "'|O'");
  npy_bad(1, "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2,), }", 8, "plain type");
  npy_bad(1, "{'descr': '<U0', 'fortran_order': False, 'shape': (1000000000000,), }", 0, "'<U0'");
  npy_bad(1, "{'descr': '<U99999999999', 'fortran_order': False, 'shape': (1,), }", 0, "'<U9");
  npy_bad(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296), }", 8, "too many");
  npy_bad(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,), }", 8, "no size");
  npy_bad(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (-1,), }", 8, "no size");
  npy_bad(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1), }", 4, "rank");
  npy_bad(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (2,", 8, "no size");
  npy_bad(1, "{'descr': '<f4', 'fortran_order': False, 'descr': '<f4'}", 8, "twice");
  npy_bad(1, "{'descr': '<f4', 'fortran_order': False}", 8, "lacks");
  npy_bad(1, "{'descr': '<f4', 'fortran_order': Maybe, 'shape': (2,)}", 8, "neither");
  npy_bad(1, "{'descr: '<f4'}", 8, "");
  npy_bad(1, "", 0, "no dictionary");
}

/* A file cut off anywhere is refused and nothing else happens. */
static void test_npy_truncated(void **state) {
  (void)state;
  const float data[] = {1, 2};
  uint8_t file[256];
  size_t size = make_npy(file, 2, "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }", data, sizeof data);
  for (size_t n = 0; n < size; n++) {
    rlx_tensor *t;
    assert_int_not_equal(parse(file, n, &t), RLX_OK);
  }
}

/* Every element type that a file ending in `ending` can hold comes back. */
static void round_trip(const char *ending, uint64_t except) {
  const char *path = test_path(ending);
  for (int dtype = 1; dtype < RLX_DTYPE_COUNT; dtype++) {
    const int64_t dims[] = {2, 3};
    rlx_tensor *t, *back = NULL;
    assert_int_equal(rlx_tensor_create((rlx_dtype)dtype, 2, dims, &t), RLX_OK);
    for (size_t i = 0; dtype != RLX_STRING && i < t->bytes; i++)
      ((uint8_t *)t->data)[i] = dtype == RLX_BOOL ? i & 1 : (uint8_t)(17 * i + 1);
    for (int i = 0; dtype == RLX_STRING && i < 6; i++)
      assert_int_equal(rlx_tensor_set_string(t, i, "h\xc3\xa9llo", (size_t)i), RLX_OK);
    if (dtype == RLX_STRING) assert_int_equal(rlx_tensor_set_string(t, 2, "\xc3\xa9", 2), RLX_OK);
    rlx_status status = rlx_tensor_write(t, "name", path);
    if (except >> dtype & 1) {
      assert_int_equal(status, RLX_UNSUPPORTED);
    } else {
      if (status != RLX_OK || rlx_tensor_read(path, &back) != RLX_OK) fail_msg("%s", rlx_error_message());
      assert_true(tensor_equal(t, back));
      assert_null(back->file);
      rlx_tensor_destroy(back);
    }
    rlx_tensor_destroy(t);
  }
  unlink(path);
}

static void test_round_trips(void **state) {
  (void)state;
  uint64_t unnamed = 1u << RLX_BFLOAT16;
  for (int dtype = RLX_FLOAT8E4M3FN; dtype < RLX_DTYPE_COUNT; dtype++) unnamed |= UINT64_C(1) << dtype;
  round_trip("x.pb", 0);
  round_trip("x.npy", unnamed);
}

static void test_npy_header(void **state) {
  (void)state;
  const char *path = test_path("h.npy");
  const int64_t dims[] = {5};
  rlx_tensor *t;
  mapped_file *file;
  assert_int_equal(rlx_tensor_create(RLX_INT16, 1, dims, &t), RLX_OK);
  assert_int_equal(rlx_tensor_write(t, NULL, path), RLX_OK);
  assert_int_equal(mapped_file_open(path, &file), RLX_OK);
  assert_int_equal(file->size % 64, 10);
  assert_memory_equal(file->data + 10, "{'descr': '<i2', 'fortran_order': False, 'shape': (5,), }", 57);
  mapped_file_release(file);
  rlx_tensor_destroy(t);
  unlink(path);
}

static void test_files_refused(void **state) {
  (void)state;
  rlx_tensor *t, *back = NULL;
  assert_int_not_equal(rlx_tensor_read("/nonexistent/x.pb", &t), RLX_OK);
  assert_int_equal(rlx_tensor_create(RLX_FLOAT, 0, NULL, &t), RLX_OK);
  assert_int_equal(rlx_tensor_write(t, NULL, "x.txt"), RLX_INVALID);
  assert_non_null(strstr(rlx_error_message(), ".npy"));
  assert_int_not_equal(rlx_tensor_write(t, NULL, "/nonexistent/x.npy"), RLX_OK);
  rlx_tensor_destroy(t);
  assert_int_equal(parse("", 0, &back), RLX_MALFORMED);
  assert_int_not_equal(parse("hello", 5, &back), RLX_OK);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_npy_versions), cmocka_unit_test(test_npy_big_endian), cmocka_unit_test(test_npy_strings),
      cmocka_unit_test(test_npy_refused),  cmocka_unit_test(test_npy_truncated),  cmocka_unit_test(test_round_trips),
      cmocka_unit_test(test_npy_header),   cmocka_unit_test(test_files_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
