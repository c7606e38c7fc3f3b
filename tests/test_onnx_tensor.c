/* test_onnx_tensor.c — TensorProto and SparseTensorProto: every element type, raw and typed, and everything that must
 * be refused. */
#include "onnx/tensor_proto.h"
#include "onnx_model.h"

/* Reads and finishes the message as it would lie in a mapped file. */
static rlx_status read_message(wire_writer *w, bool sparse, rlx_tensor **out) {
  size_t size;
  uint8_t *bytes = join(w, &size);
  mapped_file *file = NULL;
  assert_int_equal(mapped_file_copy(bytes, size, &file), RLX_OK);
  free(bytes);
  tensor_source source = {.file = file, .budget = budget_open(1 << 20)};
  wire_span message = {file->data, file->size};
  rlx_status status = (sparse ? sparse_proto_read : tensor_proto_read)(&source, message, NULL, out);
  tensor_source_finish(&source);
  mapped_file_release(file);
  return status;
}

static rlx_tensor *read_good(wire_writer *w, bool sparse) {
  rlx_tensor *t = NULL;
  if (read_message(w, sparse, &t) != RLX_OK) fail_msg("%s", rlx_error_message());
  return t;
}

static void read_bad(wire_writer *w, bool sparse, rlx_status want, const char *text) {
  rlx_tensor *t = NULL;
  rlx_status status = read_message(w, sparse, &t);
  if (status == RLX_OK) rlx_tensor_destroy(t);
  if (status != want || !strstr(rlx_error_message(), text)) {
    fail_msg("status %s, message '%s'; wanted '%s'", rlx_status_name(status), rlx_error_message(), text);
  }
}

/* Element types whose numbers are stored in int32_data, with a row of numbers and the bytes they become. */
static const struct {
  rlx_dtype dtype;
  const char *dims;
  int64_t numbers[3];
  size_t number_count;
  uint8_t bytes[8];
  size_t size;
} int32_rows[] = {
    {RLX_UINT8, "3", {0, 255, 7}, 3, {0, 255, 7}, 3},
    {RLX_INT8, "3", {-128, 127, -1}, 3, {0x80, 0x7f, 0xff}, 3},
    {RLX_UINT16, "2", {65535, 1}, 2, {0xff, 0xff, 1, 0}, 4},
    {RLX_INT16, "2", {-2, 1}, 2, {0xfe, 0xff, 1, 0}, 4},
    {RLX_INT32, "2", {INT32_MIN, 1}, 2, {0, 0, 0, 0x80, 1, 0, 0, 0}, 8},
    {RLX_BOOL, "3", {1, 0, 1}, 3, {1, 0, 1}, 3},
    {RLX_FLOAT16, "2", {15360, 49152}, 2, {0, 0x3c, 0, 0xc0}, 4},
    {RLX_BFLOAT16, "2", {16256, 49152}, 2, {0x80, 0x3f, 0, 0xc0}, 4},
    {RLX_FLOAT8E4M3FN, "2", {56, 192}, 2, {56, 192}, 2},
    {RLX_FLOAT8E4M3FNUZ, "2", {56, 192}, 2, {56, 192}, 2},
    {RLX_FLOAT8E5M2, "2", {56, 192}, 2, {56, 192}, 2},
    {RLX_FLOAT8E5M2FNUZ, "2", {56, 192}, 2, {56, 192}, 2},
    {RLX_FLOAT8E8M0, "2", {127, 128}, 2, {127, 128}, 2},
    {RLX_UINT4, "3", {225, 3}, 2, {225, 3}, 2},
    {RLX_INT4, "3", {225, 3}, 2, {225, 3}, 2},
    {RLX_FLOAT4E2M1, "3", {194, 5}, 2, {194, 5}, 2},
    {RLX_UINT2, "5", {57, 1}, 2, {57, 1}, 2},
    {RLX_INT2, "5", {57, 1}, 2, {57, 1}, 2},
};

static void test_int32_data(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof int32_rows / sizeof *int32_rows; i++) {
    for (int packed = 0; packed < 2; packed++) {
      wire_writer w = begin_tensor("t", int32_rows[i].dtype, int32_rows[i].dims);
      if (packed) wire_put_ints(&w, TENSOR_INT32_DATA, int32_rows[i].numbers, int32_rows[i].number_count);
      for (size_t k = 0; !packed && k < int32_rows[i].number_count; k++) {
        wire_put_int(&w, TENSOR_INT32_DATA, int32_rows[i].numbers[k]);
      }
      rlx_tensor *t = read_good(&w, false);
      assert_int_equal(t->dtype, int32_rows[i].dtype);
      assert_int_equal(t->bytes, int32_rows[i].size);
      assert_memory_equal(t->data, int32_rows[i].bytes, int32_rows[i].size);
      rlx_tensor_destroy(t);
    }
    wire_writer raw = begin_tensor("t", int32_rows[i].dtype, int32_rows[i].dims);
    wire_put_bytes(&raw, TENSOR_RAW_DATA, int32_rows[i].bytes, int32_rows[i].size);
    rlx_tensor *t = read_good(&raw, false);
    assert_memory_equal(t->data, int32_rows[i].bytes, int32_rows[i].size);
    rlx_tensor_destroy(t);
  }
}

static void check_data(wire_writer *w, const void *data, size_t size) {
  rlx_tensor *t = read_good(w, false);
  assert_int_equal(t->bytes, size);
  assert_memory_equal(t->data, data, size);
  rlx_tensor_destroy(t);
}

static void test_other_typed_data(void **state) {
  (void)state;
  const float floats[] = {1.5f, -2.0f, 3.0f, 4.0f};
  const double doubles[] = {1.5, -2.0};
  const int64_t wide[] = {INT64_MIN, INT64_MAX};
  const uint32_t narrow[] = {0, UINT32_MAX};
  const int64_t narrow_as_wide[] = {0, UINT32_MAX};
  wire_writer w = begin_tensor("t", RLX_FLOAT, "2,2");
  wire_put_floats(&w, TENSOR_FLOAT_DATA, floats, 3);
  wire_put_float(&w, TENSOR_FLOAT_DATA, 4.0f);
  check_data(&w, floats, sizeof floats);
  w = begin_tensor("t", RLX_COMPLEX64, "2");
  wire_put_floats(&w, TENSOR_FLOAT_DATA, floats, 4);
  check_data(&w, floats, sizeof floats);
  w = begin_tensor("t", RLX_DOUBLE, "2");
  wire_put_bytes(&w, TENSOR_DOUBLE_DATA, doubles, sizeof doubles);
  check_data(&w, doubles, sizeof doubles);
  w = begin_tensor("t", RLX_COMPLEX128, "");
  wire_put_bytes(&w, TENSOR_DOUBLE_DATA, doubles, sizeof doubles);
  check_data(&w, doubles, sizeof doubles);
  w = begin_tensor("t", RLX_INT64, "2");
  wire_put_ints(&w, TENSOR_INT64_DATA, wide, 2);
  check_data(&w, wide, sizeof wide);
  w = begin_tensor("t", RLX_UINT64, "2");
  wire_put_ints(&w, TENSOR_UINT64_DATA, wide, 2);
  check_data(&w, wide, sizeof wide);
  w = begin_tensor("t", RLX_UINT32, "2");
  wire_put_ints(&w, TENSOR_UINT64_DATA, narrow_as_wide, 2);
  check_data(&w, narrow, sizeof narrow);
}

static void test_strings(void **state) {
  (void)state;
  wire_writer w = begin_tensor("t", RLX_STRING, "2");
  wire_put_bytes(&w, TENSOR_STRING_DATA, "a\0b", 3);
  wire_put_string(&w, TENSOR_STRING_DATA, "");
  rlx_tensor *t = read_good(&w, false);
  const rlx_string *s = t->data;
  assert_int_equal(s[0].size, 3);
  assert_memory_equal(s[0].data, "a\0b", 3);
  assert_int_equal(s[1].size, 0);
  rlx_tensor_destroy(t);
}

static void test_empty_and_scalar(void **state) {
  (void)state;
  wire_writer w = begin_tensor("t", RLX_FLOAT, "0,3");
  rlx_tensor *t = read_good(&w, false);
  assert_int_equal(t->count, 0);
  assert_int_equal(t->rank, 2);
  rlx_tensor_destroy(t);
  w = begin_tensor("t", RLX_FLOAT, "");
  wire_put_float(&w, TENSOR_FLOAT_DATA, 2.0f);
  t = read_good(&w, false);
  assert_int_equal(t->rank, 0);
  assert_true(*(float *)t->data == 2.0f);
  rlx_tensor_destroy(t);
}

/* Aligned raw data stays in the file; unaligned data is copied. */
static void test_in_place(void **state) {
  (void)state;
  const float floats[] = {1.0f, 2.0f};
  int in_place = 0;
  for (int shift = 0; shift < 4; shift++) {
    wire_writer w = begin_tensor(&"xxx"[shift], RLX_FLOAT, "2");
    wire_put_bytes(&w, TENSOR_RAW_DATA, floats, sizeof floats);
    rlx_tensor *t = read_good(&w, false);
    assert_int_equal((uintptr_t)t->data % 4, 0);
    assert_memory_equal(t->data, floats, sizeof floats);
    in_place += t->file != NULL;
    rlx_tensor_destroy(t);
  }
  assert_int_equal(in_place, 1);
}

static void test_refused(void **state) {
  (void)state;
  const float floats[] = {1.0f, 2.0f, 3.0f};
  wire_writer w = begin_tensor("w", RLX_FLOAT, "2");
  wire_put_bytes(&w, TENSOR_RAW_DATA, floats, 12);
  read_bad(&w, false, RLX_INVALID, "tensor 'w': holds 12 bytes of data, but float[2] takes 8");
  w = begin_tensor("w", RLX_FLOAT, "4");
  wire_put_bytes(&w, TENSOR_RAW_DATA, floats, 12);
  read_bad(&w, false, RLX_INVALID, "takes 16");
  w = begin_tensor("w", RLX_FLOAT, "2");
  wire_put_floats(&w, TENSOR_FLOAT_DATA, floats, 3);
  read_bad(&w, false, RLX_INVALID, "holds 3 numbers, but float[2] takes 2");
  w = begin_tensor("w", RLX_FLOAT, "2");
  read_bad(&w, false, RLX_INVALID, "float[2] has no data");
  w = begin_tensor("w", RLX_FLOAT, "2,-3");
  read_bad(&w, false, RLX_INVALID, "dim 1 is -3");
  w = begin_tensor("w", RLX_FLOAT, "4294967296,4294967296,16");
  read_bad(&w, false, RLX_INVALID, "too many elements");
  w = begin_tensor("w", RLX_INT8, "4611686018427387904,4");
  wire_put_bytes(&w, TENSOR_RAW_DATA, "", 0);
  read_bad(&w, false, RLX_INVALID, "too many elements");
  w = begin_tensor("w", RLX_DOUBLE, "1000000000000");
  read_bad(&w, false, RLX_INVALID, "has no data");
  w = begin_tensor("w", RLX_FLOAT, "1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1");
  wire_put_float(&w, TENSOR_FLOAT_DATA, 1);
  read_bad(&w, false, RLX_UNSUPPORTED, "rank 17");
  w = begin_tensor("w", (rlx_dtype)99, "1");
  read_bad(&w, false, RLX_UNSUPPORTED, "data type 99");
  w = begin_tensor("w", RLX_UNDEFINED, "1");
  read_bad(&w, false, RLX_UNSUPPORTED, "data type 0");
  w = begin_tensor("w", RLX_FLOAT, "1");
  wire_put_int(&w, TENSOR_INT32_DATA, 1);
  read_bad(&w, false, RLX_INVALID, "float cannot be stored in field 5");
  w = begin_tensor("w", RLX_INT8, "1");
  wire_put_int(&w, TENSOR_INT32_DATA, 128);
  read_bad(&w, false, RLX_INVALID, "value 128");
  w = begin_tensor("w", RLX_BOOL, "1");
  wire_put_bytes(&w, TENSOR_RAW_DATA, "\x02", 1);
  read_bad(&w, false, RLX_INVALID, "bool tensor is 2");
  w = begin_tensor("w", RLX_STRING, "1");
  wire_put_bytes(&w, TENSOR_RAW_DATA, "0123456789abcdef", 16);
  read_bad(&w, false, RLX_INVALID, "strings cannot be raw");
  w = begin_tensor("w", RLX_STRING, "1000000000000");
  wire_put_string(&w, TENSOR_STRING_DATA, "x");
  read_bad(&w, false, RLX_INVALID, "holds 1 numbers");
  w = begin_tensor("w", RLX_FLOAT, "1");
  wire_put_bytes(&w, TENSOR_RAW_DATA, floats, 4);
  wire_put_float(&w, TENSOR_FLOAT_DATA, 1);
  read_bad(&w, false, RLX_INVALID, "two forms");
  w = begin_tensor("w", RLX_FLOAT, "1");
  wire_put_bytes(&w, TENSOR_SEGMENT, "", 0);
  read_bad(&w, false, RLX_UNSUPPORTED, "segments");
  w = begin_tensor("w", RLX_FLOAT, "1");
  wire_put_int(&w, TENSOR_DATA_LOCATION, LOCATION_EXTERNAL);
  put_external(&w, "location", "x.bin");
  read_bad(&w, false, RLX_UNSUPPORTED, "only a model loaded from a file");
}

static void test_memory_limit(void **state) {
  (void)state;
  static const float zeros[300000];
  wire_writer w = begin_tensor("w", RLX_FLOAT, "300000");
  wire_put_floats(&w, TENSOR_FLOAT_DATA, zeros, 300000);
  read_bad(&w, false, RLX_OUT_OF_MEMORY, "memory limit of 1048576");
}

static wire_writer make_sparse(const char *dims, const char *count, const int64_t *indices, size_t index_count,
                               const char *index_dims) {
  const float values[] = {5.0f, 6.0f};
  wire_writer sparse = {0}, v = begin_tensor("s", RLX_FLOAT, count), i = begin_tensor("i", RLX_INT64, index_dims);
  wire_put_floats(&v, TENSOR_FLOAT_DATA, values, 2);
  wire_put_ints(&i, TENSOR_INT64_DATA, indices, index_count);
  wire_put_message(&sparse, SPARSE_VALUES, &v);
  wire_put_message(&sparse, SPARSE_INDICES, &i);
  for (const char *s = dims; *s; s += strcspn(s, ","), s += *s == ',')
    wire_put_int(&sparse, SPARSE_DIMS, strtoll(s, NULL, 10));
  return sparse;
}

static void test_sparse(void **state) {
  (void)state;
  const float dense[] = {0, 5, 0, 0, 0, 6};
  wire_writer w = make_sparse("2,3", "2", (const int64_t[]){1, 5}, 2, "2");
  rlx_tensor *t = read_good(&w, true);
  assert_int_equal(t->rank, 2);
  assert_memory_equal(t->data, dense, sizeof dense);
  rlx_tensor_destroy(t);
  w = make_sparse("2,3", "2", (const int64_t[]){0, 1, 1, 2}, 4, "2,2");
  t = read_good(&w, true);
  assert_memory_equal(t->data, dense, sizeof dense);
  rlx_tensor_destroy(t);
  w = make_sparse("2,3", "2", (const int64_t[]){1, 6}, 2, "2");
  read_bad(&w, true, RLX_INVALID, "sparse tensor 's': index 6 is outside 6");
  w = make_sparse("2,3", "2", (const int64_t[]){5, 1}, 2, "2");
  read_bad(&w, true, RLX_INVALID, "not ascending");
  w = make_sparse("2,3", "2", (const int64_t[]){0, 1, 1, 3}, 4, "2,2");
  read_bad(&w, true, RLX_INVALID, "outside dim 1 of 3");
  w = make_sparse("4294967296,4294967296,4", "2", (const int64_t[]){0, 1}, 2, "2");
  read_bad(&w, true, RLX_INVALID, "too many");
  w = make_sparse("1000000000000", "2", (const int64_t[]){0, 1}, 2, "2");
  read_bad(&w, true, RLX_OUT_OF_MEMORY, "memory limit");
  w = make_sparse("2,3", "2", (const int64_t[]){1}, 1, "1");
  read_bad(&w, true, RLX_INVALID, "do not fit");
}

/* Large values and indices that lie unaligned in their file. */
static void test_large_sparse(void **state) {
  (void)state;
  enum { COUNT = 20000 };
  static int64_t indices[COUNT];
  static float values[COUNT];
  for (int i = 0; i < COUNT; i++) {
    indices[i] = 2 * i;
    values[i] = (float)i;
  }
  for (int shift = 0; shift < 8; shift++) {
    wire_writer sparse = {0}, v = begin_tensor(&"xxxxxxx"[shift], RLX_FLOAT, "20000"),
                i = begin_tensor("i", RLX_INT64, "20000");
    wire_put_bytes(&v, TENSOR_RAW_DATA, values, sizeof values);
    wire_put_bytes(&i, TENSOR_RAW_DATA, indices, sizeof indices);
    wire_put_message(&sparse, SPARSE_VALUES, &v);
    wire_put_message(&sparse, SPARSE_INDICES, &i);
    wire_put_int(&sparse, SPARSE_DIMS, 2 * COUNT);
    rlx_tensor *t = read_good(&sparse, true);
    const float *data = t->data;
    assert_true(data[2 * (COUNT - 1)] == (float)(COUNT - 1) && data[2 * COUNT - 1] == 0.0f);
    rlx_tensor_destroy(t);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_int32_data),   cmocka_unit_test(test_other_typed_data),
      cmocka_unit_test(test_strings),      cmocka_unit_test(test_empty_and_scalar),
      cmocka_unit_test(test_in_place),     cmocka_unit_test(test_refused),
      cmocka_unit_test(test_memory_limit), cmocka_unit_test(test_sparse),
      cmocka_unit_test(test_large_sparse),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
