/* compare.c — how far a result is from the expected one. */
#include <math.h>
#include <string.h>

#include "check/check.h"
#include "ir/dtype.h"

/* Bits of the significand after the first, and what an implementation may be off by, relative to the largest value. */
static const struct {
  rlx_dtype dtype;
  int bits;
  double tolerance;
} precisions[] = {
    {RLX_DOUBLE, 52, 1e-9},   {RLX_COMPLEX128, 52, 1e-9},   {RLX_FLOAT, 23, 1e-4},       {RLX_COMPLEX64, 23, 1e-4},
    {RLX_FLOAT16, 10, 5e-3},  {RLX_BFLOAT16, 7, 3e-2},      {RLX_FLOAT8E4M3FN, 3, 0.15}, {RLX_FLOAT8E4M3FNUZ, 3, 0.15},
    {RLX_FLOAT8E5M2, 2, 0.3}, {RLX_FLOAT8E5M2FNUZ, 2, 0.3}, {RLX_FLOAT4E2M1, 1, 0.5},    {RLX_FLOAT8E8M0, 0, 1},
};
enum { PRECISIONS = sizeof precisions / sizeof *precisions };

static int precision_of(rlx_dtype dtype) {
  for (int i = 0; i < PRECISIONS; i++)
    if (precisions[i].dtype == dtype) return i;
  return -1;
}

static double widen(double tolerance, rlx_dtype dtype) {
  int i = precision_of(dtype);
  return i >= 0 && precisions[i].tolerance > tolerance ? precisions[i].tolerance : tolerance;
}

double case_tolerance(const check_case *k) {
  double tolerance = 0;
  for (int i = 0; i < k->node->input_count; i++)
    if (k->node->inputs[i]) tolerance = widen(tolerance, k->node->inputs[i]->type.dtype);
  for (int i = 0; i < k->node->output_count; i++) tolerance = widen(tolerance, k->node->outputs[i]->type.dtype);
  return tolerance > 0 ? tolerance : 1e-9;
}

static rlx_dtype part_of(rlx_dtype dtype) {
  return dtype == RLX_COMPLEX64 ? RLX_FLOAT : dtype == RLX_COMPLEX128 ? RLX_DOUBLE : dtype;
}

static double largest(rlx_dtype dtype, const rlx_tensor *t, int64_t count) {
  double most = 0;
  for (int64_t i = 0; i < count; i++) {
    double v = fabs(dtype_load(dtype, t->data, i));
    if (v > most && isfinite(v)) most = v;
  }
  return most;
}

static void note(difference *d, int64_t i, double got, double want) {
  if (d->at >= 0) return;
  d->at = i;
  d->got = got;
  d->want = want;
}

static void compare_floats(const rlx_tensor *got, const rlx_tensor *want, double tolerance, difference *d) {
  rlx_dtype dtype = part_of(want->dtype);
  int64_t count = dtype == want->dtype ? want->count : 2 * want->count;
  int bits = precisions[precision_of(dtype)].bits;
  double scale = largest(dtype, want, count);
  for (int64_t i = 0; i < count; i++) {
    double x = dtype_load(dtype, got->data, i), y = dtype_load(dtype, want->data, i);
    if (x == y || (isnan(x) && isnan(y))) continue;
    double off = fabs(x - y), size = fabs(y) > 1e-300 ? fabs(y) : 1e-300;
    if (isfinite(off)) {
      double unit = ldexp(1, ilogb(size) - bits);
      if (off / unit > d->ulp) d->ulp = off / unit;
      if (off / (size > scale * 1e-3 ? size : scale * 1e-3 + 1e-300) > d->relative)
        d->relative = off / (size > scale * 1e-3 ? size : scale * 1e-3 + 1e-300);
    }
    if (!(off <= tolerance * (size > scale ? size : scale))) note(d, i, x, y);
  }
}

static bool strings_equal(const rlx_string *a, const rlx_string *b) {
  return a->size == b->size && (!a->size || memcmp(a->data, b->data, a->size) == 0);
}

static void compare_exact(const rlx_tensor *got, const rlx_tensor *want, difference *d) {
  for (int64_t i = 0; i < want->count; i++) {
    if (want->dtype == RLX_STRING) {
      if (!strings_equal((const rlx_string *)got->data + i, (const rlx_string *)want->data + i)) note(d, i, 0, 0);
      continue;
    }
    int64_t x = dtype_load_int(want->dtype, got->data, i), y = dtype_load_int(want->dtype, want->data, i);
    if (x != y) note(d, i, (double)x, (double)y);
  }
}

static bool compare_items(const rlx_tensor *got, const rlx_tensor *want, double tolerance, difference *d) {
  if (got->count != want->count) return false;
  for (int64_t i = 0; i < want->count; i++)
    if (!compare_tensors(got->items[i], want->items[i], tolerance, d)) return false;
  return true;
}

bool compare_tensors(const rlx_tensor *got, const rlx_tensor *want, double tolerance, difference *d) {
  if (got->kind != want->kind || got->dtype != want->dtype) return false;
  if (want->kind != RLX_KIND_TENSOR) return compare_items(got, want, tolerance, d);
  if (got->rank != want->rank ||
      (want->rank && memcmp(got->dims, want->dims, (size_t)want->rank * sizeof *want->dims) != 0))
    return false;
  if (precision_of(want->dtype) >= 0)
    compare_floats(got, want, tolerance, d);
  else
    compare_exact(got, want, d);
  return true;
}
