// compare.c — compares a tensor with the one that a test case expects.
#include "cli/cases.h"
#include "cli/values.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool near(double got, double want, double rtol, double atol) {
  if (isnan(got) || isnan(want)) return isnan(got) && isnan(want);
  if (isinf(got) || isinf(want)) return got == want;
  return fabs(got - want) <= atol + rtol * fabs(want);
}

static bool strings_equal(const rlx_string *a, const rlx_string *b) {
  return a->size == b->size && (a->size == 0 || memcmp(a->data, b->data, a->size) == 0);
}

static bool element_equal(rlx_dtype dtype, const void *got, const void *want, int64_t i, double rtol, double atol) {
  if (dtype == RLX_STRING) return strings_equal((const rlx_string *)got + i, (const rlx_string *)want + i);
  if (value_is_float(dtype)) return near(value_number(dtype, got, i), value_number(dtype, want, i), rtol, atol);
  if (!value_is_complex(dtype)) return value_integer(dtype, got, i) == value_integer(dtype, want, i);
  double real = value_number(dtype, got, i), imaginary = value_imaginary(dtype, got, i);
  double want_real = value_number(dtype, want, i), want_imaginary = value_imaginary(dtype, want, i);
  double size = hypot(want_real, want_imaginary);
  if (!isfinite(size) || !isfinite(real) || !isfinite(imaginary))
    return near(real, want_real, 0, 0) && near(imaginary, want_imaginary, 0, 0);
  return hypot(real - want_real, imaginary - want_imaginary) <= atol + rtol * size;
}

// "[0,2,1]" of element i.
static char *position_text(const rlx_tensor *t, int64_t i) {
  int64_t index[RLX_MAX_RANK];
  int rank = rlx_tensor_rank(t);
  for (int axis = rank - 1; axis >= 0; axis--) {
    index[axis] = i % rlx_tensor_dims(t)[axis];
    i /= rlx_tensor_dims(t)[axis];
  }
  return value_dims_text(rank, index);
}

static int report_difference(const rlx_tensor *got, const rlx_tensor *want, int64_t first, int64_t count) {
  char is[CLI_VALUE_TEXT], should[CLI_VALUE_TEXT], *position = position_text(want, first);
  value_text(rlx_tensor_dtype(got), rlx_tensor_data(got), first, is);
  value_text(rlx_tensor_dtype(want), rlx_tensor_data(want), first, should);
  int code = cli_fail("element %s is %s and should be %s (%lld of %lld elements differ)", position, is, should,
                      (long long)count, (long long)rlx_tensor_count(want));
  free(position);
  return code;
}

// Kind and number of items.
static int compare_kind(const rlx_tensor *got, const rlx_tensor *want) {
  static const char *const kinds[] = {"a tensor", "a sequence", "an optional", "a map"};
  if (rlx_tensor_kind(got) != rlx_tensor_kind(want))
    return cli_fail("it is %s and should be %s", kinds[rlx_tensor_kind(got)], kinds[rlx_tensor_kind(want)]);
  if (rlx_tensor_kind(want) == RLX_KIND_TENSOR || rlx_tensor_count(got) == rlx_tensor_count(want)) return CLI_OK;
  return cli_fail("it has %lld items and should have %lld", (long long)rlx_tensor_count(got),
                  (long long)rlx_tensor_count(want));
}

int test_compare_type(const rlx_tensor *got, const rlx_tensor *want) {
  CLI_TRY(compare_kind(got, want));
  rlx_dtype dtype = rlx_tensor_dtype(want);
  int rank = rlx_tensor_rank(want);
  if (rlx_tensor_dtype(got) != dtype)
    return cli_fail("dtype is %s and should be %s", rlx_dtype_name(rlx_tensor_dtype(got)), rlx_dtype_name(dtype));
  if (rlx_tensor_rank(got) == rank &&
      (rank == 0 || memcmp(rlx_tensor_dims(got), rlx_tensor_dims(want), (size_t)rank * sizeof(int64_t)) == 0))
    return CLI_OK;
  char *is = value_dims_text(rlx_tensor_rank(got), rlx_tensor_dims(got));
  char *should = value_dims_text(rank, rlx_tensor_dims(want));
  int code = cli_fail("shape is %s and should be %s", is, should);
  free(is);
  free(should);
  return code;
}

static int compare_items(const rlx_tensor *got, const rlx_tensor *want, double rtol, double atol) {
  for (int64_t i = 0; i < rlx_tensor_count(want); i++)
    if (test_compare(rlx_tensor_item(got, i), rlx_tensor_item(want, i), rtol, atol) != CLI_OK)
      return cli_fail("item %lld: %s", (long long)i, cli_message());
  return CLI_OK;
}

int test_compare(const rlx_tensor *got, const rlx_tensor *want, double rtol, double atol) {
  rlx_dtype dtype = rlx_tensor_dtype(want);
  int64_t count = rlx_tensor_count(want), first = -1, different = 0;
  CLI_TRY(test_compare_type(got, want));
  if (rlx_tensor_kind(want) != RLX_KIND_TENSOR) return compare_items(got, want, rtol, atol);
  for (int64_t i = 0; i < count; i++) {
    if (element_equal(dtype, rlx_tensor_data(got), rlx_tensor_data(want), i, rtol, atol)) continue;
    if (first < 0) first = i;
    different++;
  }
  return different ? report_difference(got, want, first, different) : CLI_OK;
}
