/* test_elementwise.c — scalar ops: values that ONNX prescribes, kernels against references, accuracy, gradients. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/cpu/kernels/_elementwise_tables.h"
#include "ir/dtype.h"
#include "ir/graph.h"
#include "ir/infer.h"
#include "ir/layout.h"
#include "ir/module.h"
#include "support/kernel.h"

extern const rlx_module cpu_elementwise, cpu_fused;
static const rlx_module *const cpu_kernels[] = {&cpu_elementwise, &cpu_fused, NULL};

#define OK(expression)                                                                                                 \
  do {                                                                                                                 \
    if ((expression) != RLX_OK) fail_msg("%s: %s", #expression, rlx_error_message());                                  \
  } while (0)

/* ---- running a graph ---- */

/* Runs g once; inputs by position; tier ANY or EVAL. Outputs are the caller's. */
static rlx_status run_graph(rlx_graph *g, rlx_tensor *const *inputs, int count, rlx_tier tier, rlx_tensor **outputs) {
  rlx_pin pin = {.tier = tier};
  rlx_session_options options = RLX_SESSION_OPTIONS_INIT;
  options.threads = 2;
  options.pins = &pin;
  options.pin_count = tier == RLX_TIER_ANY ? 0 : 1;
  rlx_session *s = NULL;
  rlx_binding *b = NULL;
  rlx_status status = rlx_session_create(g, &options, &s);
  if (status == RLX_OK) status = rlx_binding_create(s, &b);
  for (int i = 0; i < count && status == RLX_OK; i++) {
    status = rlx_binding_input(b, g->inputs.data[i]->name, inputs[i], 0);
  }
  if (status == RLX_OK) status = rlx_run(b, NULL);
  for (size_t i = 0; i < g->outputs.count && status == RLX_OK; i++) {
    status = rlx_binding_get(b, g->outputs.data[i].name, &outputs[i]);
  }
  rlx_binding_destroy(b);
  rlx_session_destroy(s);
  return status;
}

/* ---- values ---- */

/* A node, its constants, and what it gives; or the message it fails with. In ONNX's textual syntax. */
typedef struct value_row {
  int opset;
  const char *node, *constants, *expected;
} value_row;

static const value_row value_rows[] = {
    {22, "Round (x)", "float[6] x = {0.5, 1.5, 2.5, -0.5, -1.5, 1e30}", "float[6] {0, 2, 2, -0, -2, 1e30}"},
    {22, "Sign (x)", "float[4] x = {-3, 0, 5, nan}", "float[4] {-1, 0, 1, nan}"},
    {22, "Relu (x)", "float[3] x = {-1, nan, 2}", "float[3] {0, nan, 2}"},
    {22, "Max (x, y)", "float[4] x = {1, nan, 3, -1}, float[4] y = {2, 1, nan, -2}", "float[4] {2, nan, nan, -1}"},
    {22, "Min (x, y, z)", "float[2] x = {1, 5}, float[2] y = {2, nan}, float z = {0}", "float[2] {0, nan}"},
    {22, "Mean (x, y, z)", "float[2] x = {1, 5}, float[1] y = {2}, float z = {3}", "float[2] {2, 3.3333333}"},
    {22, "Sum (x)", "float[2] x = {1, 5}", "float[2] {1, 5}"},
    {22, "Max (x, y)", "int8[2] x = {-128, 5}, int8[1] y = {0}", "int8[2] {0, 5}"},
    {22, "Div (x, y)", "int32[5] x = {7, -7, 7, -7, -2147483648}, int32[5] y = {2, 2, -2, -2, -1}",
     "int32[5] {3, -3, -3, 3, -2147483648}"},
    {22, "Div (x, y)", "int32[2] x = {7, 1}, int32[2] y = {2, 0}", "integer division by zero"},
    {22, "Mod (x, y)", "uint8[2] x = {7, 1}, uint8[2] y = {2, 0}", "integer division by zero"},
    {22, "Mod (x, y)", "int64[6] x = {7, -7, 7, -7, -9, 6}, int64[6] y = {3, 3, -3, -3, -1, 3}",
     "int64[6] {1, 2, -2, -1, 0, 0}"},
    {22, "Mod <fmod = 1> (x, y)", "int64[4] x = {7, -7, 7, -7}, int64[4] y = {3, 3, -3, -3}",
     "int64[4] {1, -1, 1, -1}"},
    {22, "Mod <fmod = 1> (x, y)", "float[3] x = {5.5, -5.5, inf}, float[3] y = {2, 2, 2}", "float[3] {1.5, -1.5, nan}"},
    {22, "Mod (x, y)", "float[4] x = {5.5, -5.5, 5.5, 1}, float[4] y = {2, 2, -2, -inf}",
     "float[4] {1.5, 0.5, -0.5, -inf}"},
    {22, "Add (x, y)", "int8[3] x = {127, -128, 1}, int8[3] y = {1, -1, 1}", "int8[3] {-128, 127, 2}"},
    {22, "Mul (x, y)", "int32[1] x = {65536}, int32[1] y = {65536}", "int32[1] {0}"},
    {22, "Neg (x)", "int32[2] x = {-2147483648, 5}", "int32[2] {-2147483648, -5}"},
    {22, "Abs (x)", "int8[2] x = {-128, -5}", "int8[2] {-128, 5}"},
    {22, "Pow (x, y)", "int32[5] x = {2, -2, 0, 1, 3}, int64[5] y = {10, 3, 0, -5, -1}",
     "int32[5] {1024, -8, 1, 1, 0}"},
    {22, "Pow (x, y)", "float[3] x = {2, 9, -2}, int32[3] y = {3, 2, 3}", "float[3] {8, 81, -8}"},
    {22, "Pow (x, y)", "int64[2] x = {9, 2}, float[2] y = {0.5, 3}", "int64[2] {3, 8}"},
    {22, "BitShift <direction = \"LEFT\"> (x, y)", "uint8[3] x = {1, 255, 3}, uint8[3] y = {7, 1, 8}",
     "uint8[3] {128, 254, 0}"},
    {22, "BitShift <direction = \"RIGHT\"> (x, y)", "uint32[3] x = {256, 4294967295, 3}, uint32[3] y = {4, 31, 32}",
     "uint32[3] {16, 1, 0}"},
    {28, "BitShift <direction = \"RIGHT\"> (x, y)", "int16[3] x = {-256, -1, 5}, int16[3] y = {4, 99, -1}",
     "int16[3] {-16, -1, 0}"},
    {22, "BitShift <direction = \"UP\"> (x, y)", "uint8[1] x = {1}, uint8[1] y = {1}", "neither RIGHT nor LEFT"},
    {22, "Clip (x, low, high)", "float[4] x = {-5, 0.5, 5, nan}, float low = {-1}, float high = {1}",
     "float[4] {-1, 0.5, 1, nan}"},
    {22, "Clip (x, low, high)", "int32[2] x = {1, 9}, int32 low = {5}, int32 high = {3}", "int32[2] {3, 3}"},
    {22, "Clip (x, , high)", "int64[2] x = {-9223372036854775808, 9}, int64 high = {3}",
     "int64[2] {-9223372036854775808, 3}"},
    {22, "PRelu (x, slope)", "float[2,2] x = {-1, 2, -3, 4}, float[2] slope = {10, 100}",
     "float[2,2] {-10, 2, -30, 4}"},
    {22, "Where (c, x, y)", "bool[2] c = {1, 0}, int64[2,1] x = {1, 2}, int64 y = {7}", "int64[2,2] {1, 7, 2, 7}"},
    {22, "IsInf <detect_negative = 0> (x)", "float[3] x = {inf, -inf, nan}", "bool[3] {1, 0, 0}"},
    {22, "IsNaN (x)", "float16[3] x = {1, nan, inf}", "bool[3] {0, 1, 0}"},
    {22, "Xor (x, y)", "bool[4] x = {0, 0, 1, 1}, bool[4] y = {0, 1, 0, 1}", "bool[4] {0, 1, 1, 0}"},
    {22, "Equal (x, y)", "string[2] x = {\"a\", \"b\"}, string[1] y = {\"b\"}", "bool[2] {0, 1}"},
    {22, "Add (x, y)", "float[2,3] x = {1, 2, 3, 4, 5, 6}, float[2] y = {1, 2}", "does not broadcast"},
    {22, "Shrink <lambd = 1.0, bias = 0.5> (x)", "int32[3] x = {-3, 1, 3}", "int32[3] {-2, 0, 2}"},
    {22, "Celu <alpha = 2.0> (x)", "float[2] x = {-1e10, 3}", "float[2] {-2, 3}"},
    {22, "Softplus (x)", "float[3] x = {-200, 0, 200}", "float[3] {0, 0.6931472, 200}"},
    {22, "Cast <to = 6> (x)", "float[3] x = {-1.9, 1.9, 0.5}", "int32[3] {-1, 1, 0}"},
    {22, "Cast <to = 3> (x)", "int16[2] x = {200, -200}", "int8[2] {-56, 56}"},
    {22, "Cast <to = 9> (x)", "float[4] x = {0, -0, 0.1, nan}", "bool[4] {0, 0, 1, 1}"},
    {22, "Cast <to = 2> (x)", "float[1] x = {-1}", "uint8[1] {255}"},
    {22, "Cast <to = 10> (x)", "double[3] x = {65519, 65520, 1.0000001}", "float16[3] {65504, inf, 1}"},
    {22, "Cast <to = 16> (x)", "float[2] x = {1.00390625, 1.01171875}", "bfloat16[2] {1, 1.015625}"},
    {22, "Cast <to = 17> (x)", "float[4] x = {448, 1000, 0.3, nan}", "float8e4m3fn[4] {448, 448, 0.3125, nan}"},
    {22, "Cast <to = 17, saturate = 0> (x)", "float[2] x = {464, 1000}", "float8e4m3fn[2] {448, nan}"},
    {22, "Cast <to = 19, saturate = 0> (x)", "float[2] x = {1e6, -1e6}", "float8e5m2[2] {inf, -inf}"},
    {22, "Cast <to = 22> (x)", "int32[5] x = {7, -8, 8, 1, -1}", "int4[5] {7, -8, -8, 1, -1}"},
    {22, "Cast <to = 1> (x)", "string[4] x = {\"1.5\", \"-INF\", \"1e3\", \"NaN\"}", "float[4] {1.5, -inf, 1000, nan}"},
    {22, "Cast <to = 7> (x)", "string[2] x = {\"9007199254740993\", \"-3\"}", "int64[2] {9007199254740993, -3}"},
    {22, "Cast <to = 1> (x)", "string[1] x = {\"one\"}", "is no number"},
    {22, "Cast <to = 8> (x)", "float[7] x = {1, 0.1, 1e-5, -inf, nan, 123456.79, -0.5}",
     "string[7] {\"1\", \"0.1\", \"1e-05\", \"-INF\", \"NaN\", \"123456.79\", \"-0.5\"}"},
    {22, "Cast <to = 8> (x)", "uint64[2] x = {18446744073709551615, 0}", "string[2] {\"18446744073709551615\", \"0\"}"},
    {22, "Cast <to = 99> (x)", "float[1] x = {1}", "attribute to = 99"},
    {22, "CastLike (x, y)", "float[1] x = {2.5}, int32[3] y = {1, 2, 3}", "int32[1] {2}"},
    /* Old versions. */
    {6, "Add <broadcast = 1, axis = 1> (x, y)", "float[1,2,2] x = {1, 2, 3, 4}, float[2] y = {10, 20}",
     "float[1,2,2] {11, 12, 23, 24}"},
    {6, "Mul <broadcast = 1> (x, y)", "float[2,2] x = {1, 2, 3, 4}, float[2] y = {10, 20}",
     "float[2,2] {10, 40, 30, 80}"},
    {1, "Equal <broadcast = 1, axis = 0> (x, y)", "int32[2,2] x = {1, 2, 3, 4}, int32[2] y = {1, 4}",
     "bool[2,2] {1, 0, 0, 1}"},
    {6, "PRelu (x, slope)", "float[1,2,2] x = {-1, 2, -3, 4}, float[2] slope = {10, 100}",
     "float[1,2,2] {-10, 2, -300, 4}"},
    {6, "Clip <min = -1.0, max = 1.0> (x)", "float[3] x = {-5, 0.5, 5}", "float[3] {-1, 0.5, 1}"},
    {1, "Cast <to = \"INT32\"> (x)", "float[2] x = {1.5, -2.5}", "int32[2] {1, -2}"},
    {1, "Relu <consumed_inputs = [0]> (x)", "float[2] x = {1.5, -2.5}", "float[2] {1.5, 0}"},
};

static bool same_number(double a, double b) { return a == b || (a != a && b != b) || fabs(a - b) <= 1e-6 * fabs(b); }

static bool same_tensor(const rlx_tensor *a, const rlx_tensor *b) {
  if (a->rank != b->rank || memcmp(a->dims, b->dims, sizeof(int64_t) * (size_t)a->rank) != 0) {
    return false;
  }
  for (int64_t i = 0; i < a->count; i++) {
    if (a->dtype == RLX_STRING) {
      const rlx_string *x = (const rlx_string *)a->data + i, *y = (const rlx_string *)b->data + i;
      if (x->size != y->size || memcmp(x->data, y->data, x->size) != 0) return false;
      continue;
    }
    bool integer = dtype_is_integer(a->dtype);
    if (integer && dtype_load_int(a->dtype, a->data, i) != dtype_load_int(b->dtype, b->data, i)) return false;
    if (!integer && !same_number(dtype_load(a->dtype, a->data, i), dtype_load(b->dtype, b->data, i))) return false;
  }
  return true;
}

static bool check_value(const value_row *row) {
  char source[2048], dtype[32] = "float", dims[32] = "[1]";
  bool fails = strchr(row->expected, '{') == NULL;
  if (!fails) sscanf(row->expected, "%31[a-z0-9]%31s", dtype, dims);
  /* Small floats are compared as what they mean. */
  bool small = strstr(dtype, "float8") || strstr(dtype, "float16");
  snprintf(source, sizeof source,
           "<ir_version: 10, opset_import: [\"\" : %d]> g () => (result, expected) <%s, %s%s want = %s> "
           "{ result = %s expected = Identity (want) }",
           row->opset, row->constants, small ? "double" : dtype, dims, fails ? "{0}" : strchr(row->expected, '{'),
           row->node);
  rlx_graph *g = NULL;
  rlx_tensor *out[2] = {NULL, NULL};
  rlx_status status = rlx_graph_load_memory(source, strlen(source), NULL, &g);
  if (status == RLX_OK) status = run_graph(g, NULL, 0, RLX_TIER_ANY, out);
  bool good =
      fails ? status != RLX_OK && strstr(rlx_error_message(), row->expected)
            : status == RLX_OK && strcmp(rlx_dtype_name(out[0]->dtype), dtype) == 0 && same_tensor(out[0], out[1]);
  if (!good) {
    print_error("opset %d %s <%s>: not %s%s%s\n", row->opset, row->node, row->constants, row->expected,
                status == RLX_OK ? "" : ": ", status == RLX_OK ? "" : rlx_error_message());
  }
  rlx_tensor_destroy(out[0]);
  rlx_tensor_destroy(out[1]);
  rlx_graph_destroy(g);
  return good;
}

static void test_values(void **state) {
  (void)state;
  int failed = 0;
  for (size_t i = 0; i < sizeof value_rows / sizeof *value_rows; i++) failed += !check_value(&value_rows[i]);
  assert_int_equal(failed, 0);
}

/* ---- broadcasting, against its definition ---- */

/* The element of a broadcast input that output element `at` reads. */
static int64_t source_index(int64_t at, int rank, const int64_t *out, int own_rank, const int64_t *own) {
  int64_t index = 0, step = 1;
  for (int d = rank - 1; d >= 0; d--) {
    int64_t coordinate = at % out[d], dim = d - (rank - own_rank) >= 0 ? own[d - (rank - own_rank)] : 1;
    at /= out[d];
    if (dim != 1) index += coordinate * step;
    step *= dim;
  }
  return index;
}

static void check_walk(random_state *r) {
  enum { INPUTS = 3, MOST = 4096 };
  static uint64_t numbers[MOST]; /* element i holds i */
  int64_t out[5], own[INPUTS][5], count = 1;
  int rank = (int)random_int(r, 0, 5), ranks[INPUTS];
  for (int i = 0; i < MOST; i++) numbers[i] = (uint64_t)i;
  for (int d = 0; d < rank; d++) {
    out[d] = random_int(r, 0, 9) == 0 ? random_int(r, 0, 90) : random_int(r, 1, 4);
    count *= out[d];
  }
  if (count > MOST) return;
  broadcast_shape shapes[INPUTS];
  const void *data[INPUTS] = {numbers, numbers, numbers};
  const size_t sizes[INPUTS] = {8, 8, 8};
  for (int i = 0; i < INPUTS; i++) {
    ranks[i] = (int)random_int(r, 0, rank);
    for (int d = 0; d < ranks[i]; d++) own[i][d] = random_int(r, 0, 2) == 0 ? 1 : out[rank - ranks[i] + d];
    shapes[i] = (broadcast_shape){ranks[i], own[i]};
  }
  broadcast plan;
  broadcast_plan(&plan, (broadcast_shape){rank, out}, shapes, INPUTS);
  assert_int_equal(plan.count, count);
  _Alignas(64) broadcast_tile tiles[INPUTS];
  broadcast_walk walk;
  broadcast_piece piece;
  broadcast_walk_start(&walk, &plan, data, sizes, tiles, random_int(r, 0, 1) ? 100 : INT64_MAX);
  for (int64_t begin = 0; begin < count;) {
    int64_t end = begin + random_int(r, 1, count - begin), at = begin;
    broadcast_walk_range(&walk, begin, end);
    while (broadcast_walk_next(&walk, &piece)) {
      assert_int_equal(piece.at, at);
      for (int64_t e = 0; e < piece.count; e++, at++) {
        for (int i = 0; i < INPUTS; i++) {
          uint64_t is = ((const uint64_t *)piece.in[i])[piece.still >> i & 1 ? 0 : e];
          assert_int_equal(is, source_index(at, rank, out, ranks[i], own[i]));
        }
      }
    }
    assert_int_equal(at, end);
    begin = end;
  }
}

static void test_broadcast(void **state) {
  (void)state;
  random_state r = {3};
  for (int i = 0; i < 3000; i++) check_walk(&r);
}

/* ---- kernels against references ---- */

/* Random elements: small numbers, for y of an integer division not 0. */
static rlx_tensor *random_tensor(random_state *r, rlx_dtype dtype, int rank, const int64_t *dims, bool positive) {
  rlx_tensor *t = NULL;
  OK(rlx_tensor_create(dtype, rank, dims, &t));
  for (int64_t i = 0; i < t->count; i++) {
    if (dtype == RLX_BOOL) {
      dtype_store_int(dtype, t->data, i, random_int(r, 0, 1));
    } else if (dtype_is_float(dtype)) {
      double value = (double)random_float(r) * 4;
      dtype_store(dtype, t->data, i, positive ? fabs(value) + 0.1 : value);
    } else {
      bool may_be_negative = dtype_is_signed(dtype) && !positive;
      dtype_store_int(dtype, t->data, i, random_int(r, 1, 6) * (may_be_negative && random_int(r, 0, 1) ? -1 : 1));
    }
  }
  return t;
}

/* Dims that broadcast to `full`: leading ones dropped, some dims 1. */
static int random_shape(random_state *r, int rank, const int64_t *full, int64_t *dims) {
  int drop = (int)random_int(r, 0, 3) == 0 ? (int)random_int(r, 0, rank) : 0;
  for (int d = drop; d < rank; d++) dims[d - drop] = random_int(r, 0, 3) == 0 ? 1 : full[d];
  return rank - drop;
}

static rlx_type type_of(const rlx_tensor *t) {
  rlx_type type;
  rlx_tensor_type(t, &type);
  return type;
}

static double largest_difference(const rlx_tensor *a, const rlx_tensor *b) {
  double worst = 0;
  for (int64_t i = 0; i < a->count; i++) {
    double x = dtype_load(a->dtype, a->data, i), y = dtype_load(b->dtype, b->data, i);
    if (x == y || (x != x && y != y)) continue;
    double error = fabs(x - y) / (fabs(y) + 0.25);
    if (!(error <= worst)) worst = error;
  }
  return worst;
}

static void compare_row(random_state *r, ew_row row, rlx_dtype dtype, const int64_t *full, int rank, bool same) {
  const ew_info *info = &ew_rows[row];
  int arity = info->arity == EW_ARITY_N ? (int)random_int(r, 1, 4) : info->arity;
  rlx_graph *g;
  rlx_value *values[4];
  rlx_tensor *in[4], *expected[1] = {NULL}, *actual[1] = {NULL};
  OK(rlx_graph_create(NULL, &g));
  for (int i = 0; i < arity; i++) {
    int64_t dims[RLX_MAX_RANK];
    int own = rank;
    memcpy(dims, full, sizeof(int64_t) * (size_t)rank);
    if (!same) own = random_shape(r, rank, full, dims);
    if (info->kind == EW_CLAMP && i > 0) own = 0;
    if (row == EW_PRelu && i == 0) memcpy(dims, full, sizeof(int64_t) * (size_t)(own = rank));
    in[i] = random_tensor(r, info->kind == EW_PICK && i == 0 ? RLX_BOOL : dtype, own, dims, info->kind == EW_POWER);
    rlx_type type = type_of(in[i]);
    char name[16];
    snprintf(name, sizeof name, "x%d", i);
    values[i] = rlx_graph_input(g, name, &type);
  }
  rlx_attr attr = {.name = "direction", .kind = RLX_ATTR_STRING, .s = {"LEFT", 4}};
  rlx_graph_output(g, rlx_graph_op(g, info->op, &attr, row == EW_BitShift, values, arity), "y");
  OK(rlx_graph_finish(g));
  OK(run_graph(g, in, arity, RLX_TIER_EVAL, expected));
  OK(run_graph(g, in, arity, RLX_TIER_ANY, actual));
  double worst = largest_difference(actual[0], expected[0]);
  double bound = dtype == RLX_FLOAT16 ? 2e-3 : dtype == RLX_BFLOAT16 ? 1e-2 : dtype == RLX_FLOAT ? 2e-6 : 0;
  if (worst > bound) fail_msg("%s of %s: differs by %g", info->name, rlx_dtype_name(dtype), worst);
  rlx_tensor_destroy(expected[0]);
  rlx_tensor_destroy(actual[0]);
  for (int i = 0; i < arity; i++) rlx_tensor_destroy(in[i]);
  rlx_graph_destroy(g);
}

static void test_kernels(void **state) {
  (void)state;
  static const rlx_dtype dtypes[] = {RLX_FLOAT, RLX_DOUBLE, RLX_FLOAT16, RLX_BFLOAT16, RLX_INT32,
                                     RLX_INT64, RLX_INT8,   RLX_UINT8,   RLX_UINT64,   RLX_BOOL};
  static const int64_t shapes[][4] = {{2, 3, 4, 5},   {1, 1, 1, 1},     {3, 0, 2, 1},
                                      {2, 7, 1, 700}, {1, 3, 200, 150}, {2, 3, 90, 3}};
  random_state r = {7};
  for (int row = 0; row < EW_ROW_COUNT; row++) {
    for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++) {
      if (!(ew_rows[row].types >> dtypes[d] & 1)) continue;
      size_t count = dtypes[d] == RLX_FLOAT ? 6 : 3;
      for (size_t s = 0; s < count; s++) {
        int rank = (int)random_int(&r, s == 1 ? 0 : 2, 4);
        compare_row(&r, (ew_row)row, dtypes[d], shapes[s] + 4 - rank, rank, random_int(&r, 0, 1));
      }
    }
  }
}

/* ---- layouts ---- */

/* op over x [2,32,5,7] and an operand that broadcasts, both and the result in a layout; -1: not allowed there. */
static double layout_difference(const char *op, const rlx_attr *attr, const rlx_type *other, uint32_t layout) {
  rlx_graph *g;
  rlx_type types[2] = {kernel_type(4, (const int64_t[]){2, 32, 5, 7}), *other};
  rlx_node *n = kernel_node(op, types, 2, attr, attr ? 1 : 0, &g);
  const char *kernel = "vector", *why = NULL;
  const rlx_cpu_kernel *record = NULL;
  for (int i = 0; cpu_kernels[i]; i++) {
    for (int k = 0; cpu_kernels[i]->kernels[k]; k++) {
      if (strcmp(cpu_kernels[i]->kernels[k]->head.op, op) == 0) record = cpu_kernels[i]->kernels[k];
    }
  }
  assert_non_null(record);
  uint32_t in[2] = {0, 0}, out = 0;
  rlx_layouts l = {sizeof l, 2, 1, in, &out};
  record->head.layouts(n, &l);
  double worst = -1;
  if (out == RLX_SAME_LAYOUT) {
    for (int i = 0; i < 2; i++) n->inputs[i]->layout = in[i] == RLX_SAME_LAYOUT ? layout : LAYOUT_ROW_MAJOR;
    n->outputs[0]->layout = layout;
    worst = kernel_difference(n, &(kernel_check){.kernel = kernel, .seed = 5, .threads = 2}, &why);
    assert_true(worst >= 0);
  }
  rlx_graph_destroy(g);
  return worst;
}

static void test_layouts(void **state) {
  (void)state;
  static const struct {
    int rank;
    int64_t dims[4];
    bool possible;
  } rows[] = {{4, {2, 32, 5, 7}, true}, {4, {1, 32, 1, 1}, true}, {4, {2, 32, 1, 1}, true}, {3, {32, 1, 1}, true},
              {4, {2, 1, 5, 7}, true},  {2, {5, 7}, true},        {1, {7}, true},           {0, {0}, true},
              {4, {2, 32, 1, 7}, true}, {4, {1, 32, 5, 1}, true}, {3, {32, 5, 7}, false},   {3, {32, 1, 7}, false}};
  rlx_attr program = {.name = "program", .kind = RLX_ATTR_STRING};
  program.s.data = "Mul(%0, %1); Add(%2, 0.5); Sub(%3, %1)";
  program.s.size = strlen(program.s.data);
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    rlx_type other = kernel_type(rows[i].rank, rows[i].dims);
    for (uint32_t layout = LAYOUT_BLOCK8; layout <= LAYOUT_CHANNELS_LAST; layout++) {
      double plain = layout_difference("onnx.Mul", NULL, &other, layout);
      double fused = layout_difference("rlx.fused", &program, &other, layout);
      assert_true((plain >= 0) == rows[i].possible && (fused >= 0) == rows[i].possible);
      assert_true(plain < 1e-6 && fused < 1e-6);
    }
  }
}

/* ---- accuracy ---- */

static long double sigmoid_exact(long double x) { return 1 / (1 + expl(-x)); }
static long double softplus_exact(long double x) { return (x > 0 ? x : 0) + log1pl(expl(-fabsl(x))); }
static long double elu_exact(long double x) { return x < 0 ? expm1l(x) : x; }

typedef struct accuracy_row {
  ew_row row;
  long double (*exact)(long double);
  double bound; /* in units of the last place, as _vector_math.h states it */
} accuracy_row;

/* Error of one result in ulp; huge where a special value is missed. */
static double error_ulp(ew_row row, float actual, long double exact) {
  float rounded = (float)exact;
  if (rounded != rounded) return actual != actual ? 0 : 1e9;
  if (isinf(rounded)) return actual == rounded || fabsl(exact) < 3.4029e38L ? 0 : 1e9;
  float next = nextafterf(fabsf(rounded), INFINITY);
  double ulp = isinf(next) ? 0x1p104 : (double)next - (double)fabsf(rounded);
  if (row == EW_Sigmoid && fabsf(rounded) < 2 * FLT_MIN) return actual >= 0 && actual <= 2 * FLT_MIN ? 0 : 1e9;
  if (rounded == 0 && signbit(rounded) != signbit(actual) && actual == 0) return 1e9;
  return (double)(fabsl((long double)actual - exact) / (long double)ulp);
}

static void check_accuracy(const char *name, const ew_table *table, const accuracy_row *a) {
  enum { BLOCK = 1024 };
  float x[BLOCK], y[BLOCK];
  const double ab[2] = {1, 0};
  double worst = 0, at = 0;
  for (uint64_t bits = 0; bits < UINT64_C(1) << 32;) {
    for (int i = 0; i < BLOCK; i++, bits += 6007) {
      uint32_t pattern = (uint32_t)bits;
      memcpy(&x[i], &pattern, sizeof pattern);
    }
    table->types[RLX_FLOAT][a->row](x, NULL, NULL, y, BLOCK, 0, ab);
    for (int i = 0; i < BLOCK; i++) {
      double error = error_ulp(a->row, y[i], a->exact((long double)x[i]));
      if (error <= worst) continue;
      worst = error;
      at = (double)x[i];
    }
  }
  if (worst > a->bound) fail_msg("%s of %s at %g: %g ulp", ew_rows[a->row].name, name, at, worst);
}

static void test_accuracy(void **state) {
  (void)state;
  static const accuracy_row rows[] = {
      {EW_Exp, expl, 1.1},
      {EW_Log, logl, 1},
      {EW_Elu, elu_exact, 1},
      {EW_Tanh, tanhl, 2.5},
      {EW_Sigmoid, sigmoid_exact, 2.5},
      {EW_Erf, erfl, 2.5},
      {EW_Softplus, softplus_exact, 2},
      {EW_Sin, sinl, 2},
      {EW_Cos, cosl, 2},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    check_accuracy("base", &ew_table_base, &rows[i]);
    const ew_table *best = ew_table_best();
    if (best != &ew_table_base) check_accuracy("the best instruction set", best, &rows[i]);
#if defined(__x86_64__)
    if (best == &ew_table_avx512) check_accuracy("AVX2", &ew_table_avx2, &rows[i]);
#endif
  }
}

/* ---- gradients ---- */

/* y = op(x0, x1 …) in double, with gradients of sum(g * y) as outputs too. */
static rlx_graph *gradient_graph(ew_row row, rlx_tensor *const *in, int arity, const rlx_tensor *g_values,
                                 bool forward) {
  rlx_graph *g;
  rlx_value *values[3], *made[3] = {NULL, NULL, NULL};
  OK(rlx_graph_create(NULL, &g));
  for (int i = 0; i < arity; i++) {
    char name[16];
    rlx_type type = type_of(in[i]);
    snprintf(name, sizeof name, "x%d", i);
    values[i] = rlx_graph_input(g, name, &type);
  }
  rlx_value *y = rlx_graph_op(g, ew_rows[row].op, NULL, 0, values, arity);
  OK(rlx_graph_status(g));
  rlx_graph_output(g, y, "y");
  OK(infer_graph(g, true));
  rlx_node *n = y->producer;
  rlx_type type = type_of(g_values);
  if (forward) {
    rlx_value *tangents[3] = {NULL, NULL, NULL}, *out = NULL;
    for (int i = 0; i < arity; i++) {
      rlx_type own = type_of(in[i]);
      tangents[i] = own.dtype == RLX_DOUBLE ? rlx_graph_input(g, NULL, &own) : NULL;
    }
    OK(n->op->op.jvp(g, n, tangents, &out));
    if (out) rlx_graph_output(g, out, "t");
  } else {
    rlx_value *grad = rlx_graph_input(g, "g", &type);
    OK(n->op->op.vjp(g, n, &grad, made));
    for (int i = 0; i < arity; i++) {
      char name[16];
      snprintf(name, sizeof name, "d%d", i);
      if (made[i]) rlx_graph_output(g, made[i], name);
    }
  }
  OK(rlx_graph_finish(g));
  return g;
}

static double weighted(const rlx_tensor *y, const rlx_tensor *g) {
  double sum = 0;
  for (int64_t i = 0; i < y->count; i++) sum += ((const double *)y->data)[i] * ((const double *)g->data)[i];
  return sum;
}

/* sum(g * y) with element e of input k moved by `step`. */
static double moved(rlx_graph *g, rlx_tensor **in, int arity, rlx_tensor *weights, int k, int64_t e, double step) {
  rlx_tensor *out[4] = {NULL, NULL, NULL, NULL}, *all[4];
  double *element = (double *)in[k]->data + e, kept = *element;
  memcpy(all, in, sizeof(*in) * (size_t)arity);
  all[arity] = weights;
  *element = kept + step;
  OK(run_graph(g, all, arity + 1, RLX_TIER_ANY, out));
  *element = kept;
  double sum = weighted(out[0], weights);
  for (int i = 0; i < 4; i++) rlx_tensor_destroy(out[i]);
  return sum;
}

static void check_gradient(random_state *r, ew_row row) {
  const ew_info *info = &ew_rows[row];
  static const int64_t shapes[3][2] = {{2, 3}, {1, 3}, {2, 1}};
  int arity = info->arity == EW_ARITY_N ? 3 : info->arity;
  bool positive = row == EW_Log || row == EW_Sqrt || row == EW_Pow, large = row == EW_Acosh;
  rlx_tensor *in[3], *weights = random_tensor(r, RLX_DOUBLE, 2, shapes[0], false), *out[4] = {NULL, NULL, NULL, NULL};
  for (int i = 0; i < arity; i++) {
    bool choice = info->kind == EW_PICK && i == 0;
    int rank = info->kind == EW_CLAMP && i > 0 ? 0 : 2;
    in[i] = random_tensor(r, choice ? RLX_BOOL : RLX_DOUBLE, rank, shapes[i], positive || large);
    for (int64_t e = 0; !choice && e < in[i]->count; e++) {
      double *x = (double *)in[i]->data + e;
      *x = large ? 1.2 + *x : positive ? *x : *x * 0.2 + (*x < 0 ? -0.1 : 0.1);
      if (info->kind == EW_CLAMP && i > 0) *x = i == 1 ? -0.3 : 0.3;
    }
  }
  rlx_graph *g = gradient_graph(row, in, arity, weights, false);
  rlx_tensor *all[4];
  memcpy(all, in, sizeof in);
  all[arity] = weights;
  OK(run_graph(g, all, arity + 1, RLX_TIER_ANY, out));
  int at = 1;
  for (int k = 0; k < arity; k++) {
    const char *text = info->gradients[info->arity == EW_ARITY_N ? 0 : k];
    if (*text == 0) continue;
    assert_int_equal(out[at]->count, in[k]->count);
    for (int64_t e = 0; e < in[k]->count; e++) {
      const double h = 1e-6;
      double expected = (moved(g, in, arity, weights, k, e, h) - moved(g, in, arity, weights, k, e, -h)) / (2 * h);
      double actual = ((const double *)out[at]->data)[e];
      if (fabs(actual - expected) > 1e-5 * (1 + fabs(expected))) {
        fail_msg("gradient of %s, input %d: %g, should be %g", info->name, k, actual, expected);
      }
    }
    at++;
  }
  /* Forward and reverse must agree: <g, jvp(t)> = <vjp(g), t>, with the inputs' tangents drawn anew. */
  double reverse = 0;
  rlx_tensor *tangents[3] = {NULL, NULL, NULL}, *inputs[6], *result[2] = {NULL, NULL};
  int count = arity;
  memcpy(inputs, in, sizeof in);
  for (int k = 0, o = 1; k < arity; k++) {
    if (in[k]->dtype != RLX_DOUBLE) continue;
    inputs[count++] = tangents[k] = random_tensor(r, RLX_DOUBLE, in[k]->rank, in[k]->dims, false);
    if (*info->gradients[info->arity == EW_ARITY_N ? 0 : k]) reverse += weighted(out[o++], tangents[k]);
  }
  rlx_graph *f = gradient_graph(row, in, arity, weights, true);
  OK(run_graph(f, inputs, count, RLX_TIER_ANY, result));
  assert_true(fabs(weighted(result[1], weights) - reverse) <= 1e-9 * (1 + fabs(reverse)));
  for (int i = 0; i < 4; i++) rlx_tensor_destroy(out[i]);
  for (int i = 0; i < 3; i++) rlx_tensor_destroy(tangents[i]);
  for (int i = 0; i < arity; i++) rlx_tensor_destroy(in[i]);
  rlx_tensor_destroy(result[0]);
  rlx_tensor_destroy(result[1]);
  rlx_tensor_destroy(weights);
  rlx_graph_destroy(g);
  rlx_graph_destroy(f);
}

static void test_gradients(void **state) {
  (void)state;
  random_state r = {11};
  for (int row = 0; row < EW_ROW_COUNT; row++) {
    const ew_info *info = &ew_rows[row];
    bool any = *info->gradients[0] || *info->gradients[1] || *info->gradients[2];
    if (any && (info->types >> RLX_DOUBLE & 1)) check_gradient(&r, (ew_row)row);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_values),  cmocka_unit_test(test_broadcast), cmocka_unit_test(test_kernels),
      cmocka_unit_test(test_layouts), cmocka_unit_test(test_accuracy),  cmocka_unit_test(test_gradients),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
