/* test_movement.c — ops that move elements: values, shape inference from partial knowledge, errors, and the engine of
 * strided copies against an element-by-element copy. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "ir/infer.h"
#include "ir/parse.h"
#include "ir/shape.h"
#include "ops/_strided.h"
#include "support/kernel.h"

#define HEAD "<ir_version: 10, opset_import: [\"\" : 24]> "

static rlx_graph *parsed(const char *body) {
  char source[4096];
  snprintf(source, sizeof source, HEAD "%s", body);
  rlx_graph *g = NULL;
  if (graph_parse(source, strlen(source), "test", NULL, NULL, &g) != RLX_OK)
    fail_msg("%s: %s", body, rlx_error_message());
  return g;
}

/* ---- values ------------------------------------------------------------------------------- */

static void print_tensor(const rlx_tensor *t, char *text, size_t size) {
  rlx_type type;
  rlx_tensor_type(t, &type);
  type_text(&type, text, size);
  for (int64_t i = 0; i < rlx_tensor_count(t); i++) {
    size_t at = strlen(text);
    const rlx_string *s = rlx_tensor_data(t);
    if (type.dtype == RLX_STRING)
      snprintf(text + at, size - at, " %.*s", (int)s[i].size, s[i].data);
    else
      snprintf(text + at, size - at, " %g", dtype_load(type.dtype, rlx_tensor_data(t), i));
  }
}

/* Runs with every input filled with 0, 1, 2 …; unknown dims are 2. Text of the first output, or of the error. */
static void run_parsed(rlx_graph *g, const char *disabled, char *text, size_t size) {
  rlx_session *s = NULL;
  rlx_binding *b = NULL;
  rlx_session_options options = RLX_SESSION_OPTIONS_INIT;
  options.disable_passes = disabled;
  rlx_status status = rlx_session_create(g, &options, &s);
  if (status == RLX_OK) status = rlx_binding_create(s, &b);
  for (int i = 0; status == RLX_OK && i < rlx_session_input_count(s); i++) {
    rlx_port_info info;
    rlx_tensor *t = NULL;
    status = rlx_session_input(s, i, &info);
    for (int d = 0; d < info.type.rank; d++)
      if (info.type.dims[d] < 0) info.type.dims[d] = 2;
    if (status == RLX_OK) status = rlx_tensor_create(info.type.dtype, info.type.rank, info.type.dims, &t);
    for (int64_t k = 0; status == RLX_OK && k < rlx_tensor_count(t); k++)
      dtype_store(info.type.dtype, rlx_tensor_data(t), k, (double)k);
    if (status == RLX_OK) status = rlx_binding_input(b, info.name, t, 0);
    rlx_tensor_destroy(t);
  }
  if (status == RLX_OK) status = rlx_run(b, NULL);
  if (status == RLX_OK) {
    rlx_port_info info;
    rlx_tensor *y = NULL;
    status = rlx_session_output(s, 0, &info);
    if (status == RLX_OK) status = rlx_binding_get(b, info.name, &y);
    if (status == RLX_OK) print_tensor(y, text, size);
    rlx_tensor_destroy(y);
  }
  if (status != RLX_OK) snprintf(text, size, "%s", rlx_error_message());
  rlx_binding_destroy(b);
  rlx_session_destroy(s);
  rlx_graph_destroy(g);
}

static void run_graph(const char *body, const char *disabled, char *text, size_t size) {
  run_parsed(parsed(body), disabled, text, size);
}

typedef struct case_row {
  const char *graph, *expected;
} case_row;

static const case_row value_rows[] = {
    {"g (float[2,3] x) => (y) <int64[2] s = {0, -1}> { y = Reshape (x, s) }", "float[2,3] 0 1 2 3 4 5"},
    {"g (float[0,4] x) => (y) <int64[2] s = {0, -1}> { y = Reshape (x, s) }", "float[0,4]"},
    {"g (float[2,3] x) => (y) { y = Reshape@1 <shape = [3, 2]> (x) }", "float[3,2] 0 1 2 3 4 5"},
    {"g (float[2,3] x) => (y) { y = Flatten <axis = 0> (x) }", "float[1,6] 0 1 2 3 4 5"},
    {"g (float[1,3,1] x) => (y) { y = Squeeze (x) }", "float[3] 0 1 2"},
    {"g (float[1,3,1] x) => (y) { y = Squeeze@1 <axes = [2]> (x) }", "float[1,3] 0 1 2"},
    {"g (float[3] x) => (y) { y = Unsqueeze@11 <axes = [0, -1]> (x) }", "float[1,3,1] 0 1 2"},
    {"g (float[2,3] x) => (y) { y = Transpose (x) }", "float[3,2] 0 3 1 4 2 5"},
    {"g (int4[3,2] x) => (y) { y = Transpose (x) }", "int4[2,3] 0 2 4 1 3 5"},
    {"g (float[2,1] x) => (y) { y = Concat@1 (x, x) }", "float[2,2] 0 0 1 1"},
    {"g (float[2,1] x) => (y) { y = Concat <axis = -2> (x, x) }", "float[4,1] 0 1 0 1"},
    {"g (float[5] x) => (y) { z, y = Split <num_outputs = 2> (x) }", "float[2] 3 4"},
    {"g (float[5] x) => (y) { z, y = Split@2 <split = [4, 1]> (x) }", "float[1] 4"},
    {"g (float[5] x) => (y) { \"\", y = Split@2 <split = [4, 1]> (x) }", "float[1] 4"},
    {"g (float[2,3] x) => (y) { y = Slice@1 <starts = [-2], ends = [100], axes = [1]> (x) }", "float[2,2] 1 2 4 5"},
    {"g (float[6] x) => (y) <int64[1] s = {-1}, int64[1] e = {-7}, int64[1] a = {0}, int64[1] t = {-2}> "
     "{ y = Slice (x, s, e, a, t) }",
     "float[3] 5 3 1"},
    {"g (float[3,2] x) => (y) <int64[2] i = {-1, 0}> { y = Gather (x, i) }", "float[2,2] 4 5 0 1"},
    {"g (float[2,2] x) => (y) <int64[2,1] i = {1, -2}> { y = GatherElements <axis = 1> (x, i) }", "float[2,1] 1 2"},
    {"g (float[2,2] x) => (y) <int64[1,2] i = {1, -2}> { y = GatherND (x, i) }", "float[1] 2"},
    {"g (float[2,1] x) => (y) <int64[2] s = {1, 2}> { y = Expand (x, s) }", "float[2,2] 0 0 1 1"},
    {"g (float[1,2] x) => (y) <int64[2] r = {2, 2}> { y = Tile (x, r) }", "float[2,4] 0 1 0 1 0 1 0 1"},
    {"g (float[1,2] x) => (y) <float t = {2}, float a = {1}> { y = Tile@1 (x, t, a) }", "float[1,4] 0 1 0 1"},
    {"g (float[3] x) => (y) { y = Pad@2 <pads = [1, 1], value = 7.0> (x) }", "float[5] 7 0 1 2 7"},
    {"g (int64[3] x) => (y) { y = Pad@2 <pads = [0, 1], value = 7.0> (x) }", "int64[4] 0 1 2 7"},
    {"g (float[3] x) => (y) <int64[2] p = {3, 1}> { y = Pad <mode = \"reflect\"> (x, p) }", "float[7] 1 2 1 0 1 2 1"},
    {"g (float[3] x) => (y) <int64[2] p = {-1, 2}> { y = Pad <mode = \"wrap\"> (x, p) }", "float[4] 1 2 1 2"},
    {"g () => (y) <float s = {10}, float l = {4}, float d = {-2}> { y = Range (s, l, d) }", "float[3] 10 8 6"},
    {"g (float[2,2] x) => (y) { y = NonZero (x) }", "int64[2,3] 0 1 1 1 0 1"},
    {"g (float[3] x) => (y) <bool[2] c = {0, 1}> { y = Compress (x, c) }", "float[1] 1"},
    {"g (int64[3] x) => (y) <int64 d = {2}, float[2] v = {-1, 1}> { y = OneHot (x, d, v) }",
     "float[3,2] 1 -1 -1 1 -1 -1"},
    {"g (float[3] x) => (y) <int64[2] i = {2, 2}, float[2] u = {5, 6}> "
     "{ y = ScatterElements <reduction = \"add\"> (x, i, u) }",
     "float[3] 0 1 13"},
    {"g (float[3] x) => (y) <int64[1] i = {-3}, float[1] u = {5}> { y = Scatter@9 (x, i, u) }", "float[3] 5 1 2"},
    {"g (float[2,2] x) => (y) <int64[1,1] i = {1}, float[1,2] u = {5, -6}> "
     "{ y = ScatterND <reduction = \"min\"> (x, i, u) }",
     "float[2,2] 0 1 2 -6"},
    {"g (float[2,3] x) => (y) { y = Trilu (x) }", "float[2,3] 0 1 2 0 4 5"},
    {"g (float[2,3] x) => (y) { y = EyeLike <k = 1, dtype = 6> (x) }", "int32[2,3] 0 1 0 0 0 1"},
    {"g (float[3] x) => (y) <int64 a = {0}> { y = CumSum <exclusive = 1, reverse = 1> (x, a) }", "float[3] 3 2 0"},
    {"g (float[2,3] x) => (y) { y, i = TopK@1 <k = 2> (x) }", "float[2,2] 2 1 5 4"},
    {"g (float[3] x) => (y) <int64[1] k = {2}> { z, y = TopK <largest = 0> (x, k) }", "int64[2] 0 1"},
    {"g (float[2,2] x) => (y) { y = ArgMax <keepdims = 0> (x) }", "int64[2] 1 1"},
    {"g () => (y) <int32[4] x = {3, 1, 3, 2}> { y, i = Unique <sorted = 0> (x) }", "int32[3] 3 1 2"},
    {"g (float[1,4,1,1] x) => (y) { y = DepthToSpace <blocksize = 2> (x) }", "float[1,1,2,2] 0 1 2 3"},
    {"g (float[1,1,2,1] x) => (y) { y = Upsample@7 <scales = [1.0, 1.0, 1.0, 2.0]> (x) }", "float[1,1,2,2] 0 0 1 1"},
    {"g (float[2,4] x) => (y) <float[2] s = {0.6, 0.6}> { y = Resize@10 (x, s) }", "float[1,2] 0 2"},
    {"g (float[1,1,1,2] x) => (y) <float[4] s = {1, 1, 1, 2}> { y = Resize <mode = \"linear\"> (x, , s) }",
     "float[1,1,1,4] 0 0.25 0.75 1"},
    {"g (float[2] x) => (y) { y = Dropout (x) }", "float[2] 0 1"},
    {"g (float[2] x) => (y) { y, m = Dropout@7 (x) }", "float[2] 0 1"},
    {"g (float[3] x) => (y) <float s = {0.5}, uint8 z = {1}> { y = QuantizeLinear (x, s, z) }", "uint8[3] 1 3 5"},
    {"g (uint8[3] x) => (y) <float s = {0.5}, uint8 z = {1}> { y = DequantizeLinear (x, s, z) }",
     "float[3] -0.5 0 0.5"},
    {"g (float[2,2] x) => (y) { y = Einsum <equation = \"...ii->...i\"> (x) }", "float[2] 0 3"},
    {"g (float[2,3] x) => (y) { y = Einsum <equation = \"ij,kj\"> (x, x) }", "float[2,2] 5 14 14 50"},
    {"g (float[2,2] x) => (y) { y = Det (x) }", "float[] -2"},
    {"g () => (y) { y = Constant <value_strings = [\"a\", \"bc\"]> () }", "string[2] a bc"},
    {"g () => (y) <int64[1] s = {2}> { y = ConstantOfShape <value = int4[1] {-3}> (s) }", "int4[2] -3 -3"},
    {"g (float[2,3,4] x) => (y) { y = Shape <start = -2, end = 5> (x) }", "int64[2] 3 4"},
    {"g () => (y) <string[1,2] x = {\"a\", \"b\"}> { y = Transpose (x) }", "string[2,1] a b"},
    {"g () => (y) <string[2,1] a = {\"a\", \"b\"}, string[2] b = {\"\", \"xy\"}> { y = StringConcat (a, b) }",
     "string[2,2] a axy b bxy"},
    {"g () => (y) <string[2] x = {\" a b  c\", \"d\"}> { y, n = StringSplit <maxsplit = 1> (x) }",
     "string[2,2] a b  c d "},
    {"g () => (y) <string[2] x = {\"a,,b\", \"\"}> { z, y = StringSplit <delimiter = \",\"> (x) }", "int64[2] 3 1"},
    {"g () => (y) <string[3] x = {\"Mon\", \"t\xc3\xa9\", \"WED\"}> { y = StringNormalizer "
     "<case_change_action = \"UPPER\", stopwords = [\"mon\"]> (x) }",
     "string[2] T\xc3\x89 WED"},
    {"g () => (y) <string[3] x = {\"a.b\", \"aab\", \"a.b\\n\"}> { y = RegexFullMatch <pattern = \"a[.]?(b|c)+\"> (x) "
     "}",
     "bool[3] 1 0 0"},
    {"g (float[2,2] x) => (y) <int64[1] s = {5}> { y = CenterCropPad <axes = [1]> (x, s) }",
     "float[2,5] 0 0 1 0 0 0 2 3 0 0"},
    {"g (float[1,3,1] x) => (y) <float[1,2,1] u = {7, 8}, int64[1] i = {2}> "
     "{ y = TensorScatter <mode = \"circular\"> (x, u, i) }",
     "float[1,3,1] 8 1 7"},
    {NULL, NULL}};

static void test_values(void **state) {
  (void)state;
  for (const case_row *r = value_rows; r->graph; r++) {
    char text[1024];
    for (int k = 0; k < 2; k++) {
      run_graph(r->graph, k ? "fold" : NULL, text, sizeof text);
      if (strcmp(text, r->expected) != 0) fail_msg("%s\n  gives %s\n  not   %s", r->graph, text, r->expected);
    }
  }
}

/* Every allocation of a run fails once: the right answer or an error, and never a trap. */
static void test_no_memory(void **state) {
  (void)state;
  static const char *const graphs[] = {
      "g (float[3,4] x) => (y) { y = Einsum <equation = \"ij,ik->jk\"> (x, x) }",
      "g (float[3,4] x) => (y) { y = Einsum <equation = \"ij->\"> (x) }",
      "g (float[3,4] x) => (y) { y, i, v, c = Unique <axis = 0> (x) }",
      "g (float[2,2] x) => (y) { y = Det (x) }",
      "g (float[1,1,3,3] x) => (y) <float[4] s = {1, 1, 2, 2}> { y = Resize <mode = \"cubic\"> (x, , s) }",
      "g (float[3,4] x) => (y) <int64[1] k = {2}> { y, i = TopK (x, k) }",
      "g (float[1,2,4] b, float[1,1,2] s) => (y) <int64 n = {2}> { y = NonMaxSuppression (b, s, n) }",
      "g () => (y) <string[2] x = {\"ab\", \"b\"}> { y = RegexFullMatch <pattern = \"(a|b)+b\"> (x) }",
      "g () => (y) <string[2] x = {\"ab\", \"b\"}> { y = StringConcat (x, x) }",
      "g (float[2,3] x) => (y) { y = NonZero (x) }",
      "g (float[2,3] x) => (y) { y = Upsample@7 <scales = [2.0, 1.0]> (x) }"};
  for (size_t i = 0; i < sizeof graphs / sizeof *graphs; i++) {
    char expected[1024], text[1024];
    run_graph(graphs[i], NULL, expected, sizeof expected);
    int64_t left = 1;
    for (int64_t n = 1; left > 0 && n < 2000; n++) {
      rlx_graph *g = parsed(graphs[i]);
      (void)mem_inject(n, 0);
      run_parsed(g, "fold", text, sizeof text);
      left = mem_inject(0, 0) - n + 1;
      if (left <= 0 && strcmp(text, expected) != 0) fail_msg("%s\n  gives %s\n  not   %s", graphs[i], text, expected);
    }
  }
}

/* ---- errors ------------------------------------------------------------------------------- */

static const case_row error_rows[] = {
    {"g (float[2,3] x) => (y) <int64[1] s = {4}> { y = Reshape (x, s) }", "cannot reshape [2,3] to [4]"},
    {"g (float[2,3] x) => (y) <int64[2] s = {-1, -1}> { y = Reshape (x, s) }", "more than one -1"},
    {"g (float[2,3] x) => (y) { y = Transpose <perm = [0, 0]> (x) }", "perm has 0 twice"},
    {"g (float[2,3] x) => (y) { y = Flatten <axis = 3> (x) }", "axis 3 outside rank 2"},
    {"g (float[2] x, float[2] z) => (y) { y = Concat <axis = 1> (x, z) }", "axis 1 outside rank 1"},
    {"g (float[2,2] x, float[3,3] z) => (y) { y = Concat <axis = 1> (x, z) }", "extent 3 in dim 0"},
    {"g (float[5] x) => (y) { z, y = Split@13 (x) }", "does not divide into 2"},
    {"g (float[3] x, int64[2] i) => (y) <int64[2] o = {2, 3}> { j = Add (i, o) y = Gather (x, j) }",
     "index 4 outside extent 3"},
    {"g (float[3] x, int64[2] i) => (y) <int64[2] o = {2, 3}> { j = Add (i, o) y = GatherElements (x, j) }",
     "index 4 outside extent 3"},
    {"g (float[3] x, int64[2,1] i) => (y) <int64[1] o = {2}> { j = Add (i, o) y = GatherND (x, j) }",
     "index 3 outside extent 3"},
    {"g (float[3] x, int64[1] i) => (y) <int64[1] o = {-4}, float[1] u = {1}> "
     "{ j = Add (i, o) y = ScatterElements (x, j, u) }",
     "index -4 outside extent 3"},
    {"g (float[3] x, int64[1,1] i) => (y) <int64[1] o = {-4}, float[1] u = {1}> "
     "{ j = Add (i, o) y = ScatterND (x, j, u) }",
     "index -4 outside extent 3"},
    {"g (float[4] x) => (y) <int64[1] s = {0}, int64[1] e = {2}, int64[1] a = {0}, int64[1] t = {0}> "
     "{ y = Slice (x, s, e, a, t) }",
     "the step of axis 0 is zero"},
    {"g (float[2] x) => (y) <int64[1] s = {3}> { y = Expand (x, s) }", "cannot expand [2] to [3]"},
    {"g (float[2] x) => (y) <int64[1] k = {3}> { y, i = TopK (x, k) }", "K is 3, the axis has 2"},
    {"g () => (y) <float s = {1}, float l = {4}, float d = {0}> { y = Range (s, l, d) }", "delta is zero"},
    {"g (float[2] x) => (y) <bool[3] c = {0, 0, 1}> { y = Compress (x, c) }", "condition is true at 2 of extent 2"},
    {"g (float[2,3] x) => (y) { y = Einsum <equation = \"ii\"> (x) }", "a label has extent 2"},
    {"g (float[2,3] x) => (y) { y = Einsum <equation = \"ij->k\"> (x) }", "an output label occurs in no input"},
    {"g (float[0] x) => (y) <int64[2] p = {1, 0}> { y = Pad <mode = \"edge\"> (x, p) }", "no element to pad with"},
    {"g (float[1,3,2,2] x) => (y) { y = DepthToSpace <blocksize = 2> (x) }", "does not divide by 4"},
    {"g (float[2] x) => (y) <float[1] s = {0}> { y = Resize (x, , s) }", "the scale of axis 0 is 0"},
    {NULL, NULL}};

static void test_errors(void **state) {
  (void)state;
  for (const case_row *r = error_rows; r->graph; r++) {
    char text[1024];
    run_graph(r->graph, NULL, text, sizeof text);
    if (!strstr(text, r->expected)) fail_msg("%s\n  gives %s\n  without %s", r->graph, text, r->expected);
  }
}

/* ---- shape inference ----------------------------------------------------------------------- */

static const case_row infer_rows[] = {
    {"g (float[N,3,4] x) => (y) <int64[3] s = {0, -1, 2}> { y = Reshape (x, s) }", "float[?,6,2]"},
    {"g (float[N,3] x, int64[4] s) => (y) { y = Reshape (x, s) }", "float[?,?,?,?]"},
    {"g (float[...] x) => (y) <int64[2] s = {3, -1}> { y = Reshape (x, s) }", "float[3,?]"},
    {"g (float[N,3,4] x) => (y) { y = Flatten <axis = 1> (x) }", "float[?,12]"},
    {"g (float[N,1,4] x) => (y) <int64[1] a = {1}> { y = Squeeze (x, a) }", "float[?,4]"},
    {"g (float[N,4] x, int64[2] a) => (y) { y = Unsqueeze (x, a) }", "float[?,?,?,?]"},
    {"g (float[...] x) => (y) { y = Transpose <perm = [1, 0]> (x) }", "float[?,?]"},
    {"g (float[N,2] x, float[M,3] z) => (y) { y = Concat <axis = 1> (x, z) }", "float[?,5]"},
    {"g (float[...] x, float[4,3] z) => (y) { y = Concat <axis = 1> (x, z) }", "float[4,?]"},
    {"g (float[N,8] x) => (y) { y, z = Split <axis = 1> (x) }", "float[?,4]"},
    {"g (float[N,8] x, int64[1] s, int64[1] e) => (y) <int64[1] a = {0}> { y = Slice (x, s, e, a) }", "float[?,8]"},
    {"g (float[N,8] x) => (y) <int64[2] s = {0, 2}, int64[2] e = {9, 5}> { y = Slice (x, s, e) }", "float[?,3]"},
    {"g (float[N,8] x, int64[2,M] i) => (y) { y = Gather <axis = 1> (x, i) }", "float[?,2,?]"},
    {"g (float[4,N] x, int64[3] s) => (y) { y = Expand (x, s) }", "float[?,4,?]"},
    {"g (float[N,2] x) => (y) <int64[2] r = {2, 3}> { y = Tile (x, r) }", "float[?,6]"},
    {"g (float[N,2] x, int64[2] p) => (y) <float c = {0}, int64[1] a = {0}> { y = Pad (x, p, c, a) }", "float[?,2]"},
    {"g (float[N,2] x) => (y) { y = NonZero (x) }", "int64[2,?]"},
    {"g (float[N,2] x) => (y) { s = Shape (x) y = ConstantOfShape (s) }", "float[?,?]"},
    {"g (float[N,5] x, int64[1] k) => (y) { y, i = TopK <axis = 0> (x, k) }", "float[?,5]"},
    {"g (float[N,3,8,8] x) => (y) <float[4] s = {1, 1, 2, 2}> { y = Resize (x, , s) }", "float[?,3,16,16]"},
    {"g (float[N,3,8,8] x, int64[4] s) => (y) { y = Resize (x, , , s) }", "float[?,?,?,?]"},
    {"g (float[N,3] x, float[3,M] z) => (y) { y = Einsum <equation = \"ij,jk->ki\"> (x, z) }", "float[?,?]"},
    {"g (float[2,N] x, float[3] s) => (y) { y = QuantizeLinear <axis = 1, output_dtype = 3> (x, s) }", "int8[2,?]"},
    {NULL, NULL}};

static void test_inference(void **state) {
  (void)state;
  for (const case_row *r = infer_rows; r->graph; r++) {
    rlx_graph *g = parsed(r->graph);
    char text[300];
    if (infer_graph(g, true) != RLX_OK) fail_msg("%s: %s", r->graph, rlx_error_message());
    type_text(&g->outputs.data[0].value->type, text, sizeof text);
    if (strcmp(text, r->expected) != 0) fail_msg("%s\n  gives %s\n  not   %s", r->graph, text, r->expected);
    rlx_graph_destroy(g);
  }
}

/* What is left of the inputs' types: bit d of `hidden` hides dim d; all bits: the rank too. */
static void hide_dims(rlx_graph *g, uint32_t hidden) {
  for (size_t i = 0; i < g->inputs.count; i++) {
    rlx_type *t = &g->inputs.data[i]->type;
    for (int d = 0; d < t->rank; d++)
      if (hidden >> d & 1u) t->dims[d] = RLX_UNKNOWN;
    if (hidden == ~0u) t->rank = RLX_UNKNOWN;
  }
}

/* "float[2,3] …" begins with the type; an inferred dim that is known must be that. */
static bool agrees(const char *expected, const rlx_type *t) {
  rlx_type known = *t;
  char text[300];
  const char *p = strchr(expected, '[') + 1;
  for (int d = 0; d < t->rank; d++) {
    char *end;
    long long n = strtoll(p, &end, 10);
    if (end == p) return false;
    if (known.dims[d] == RLX_UNKNOWN) known.dims[d] = n;
    p = end + 1;
  }
  type_text(&known, text, sizeof text);
  return t->rank == RLX_UNKNOWN || strncmp(text, expected, strlen(text)) == 0;
}

/* However little is known of the inputs, inference neither fails nor says what is not so. */
static void test_inference_from_less(void **state) {
  (void)state;
  static const uint32_t masks[] = {0, 1, 2, 4, 8, 3, 12, 15, ~0u};
  for (const case_row *r = value_rows; r->graph; r++)
    for (size_t m = 0; m < sizeof masks / sizeof *masks; m++) {
      rlx_graph *g = parsed(r->graph);
      hide_dims(g, masks[m]);
      if (infer_graph(g, true) != RLX_OK) fail_msg("%s, dims 0x%x hidden: %s", r->graph, masks[m], rlx_error_message());
      const rlx_type *t = &g->outputs.data[0].value->type;
      char text[300];
      if (!agrees(r->expected, t))
        fail_msg("%s, dims 0x%x hidden: %s, not %s", r->graph, masks[m], type_text(t, text, sizeof text), r->expected);
      rlx_graph_destroy(g);
    }
}

/* ---- the engine of strided copies ----------------------------------------------------------- */

static void copy_one_by_one(int rank, const int64_t *dims, const int64_t *from, const int64_t *to, size_t size,
                            const char *x, char *y) {
  int64_t count = shape_count(rank, dims);
  for (int64_t i = 0; i < count; i++) {
    int64_t left = i, a = 0, b = 0;
    for (int d = rank - 1; d >= 0; d--) {
      a += left % dims[d] * from[d];
      b += left % dims[d] * to[d];
      left /= dims[d];
    }
    memcpy(y + b * (int64_t)size, x + a * (int64_t)size, size);
  }
}

static void one_strided(random_state *r, const char *x, char *y, char *z, size_t bytes) {
  static const rlx_dtype types[] = {RLX_UINT8, RLX_FLOAT16, RLX_FLOAT, RLX_DOUBLE, RLX_COMPLEX128};
  rlx_dtype dtype = types[random_int(r, 0, 4)];
  size_t size = dtype_size(dtype);
  int rank = (int)random_int(r, 0, 5);
  int64_t dims[6], from[6], to[6], step = random_int(r, 1, 2), order[6], inner = 1;
  for (int d = 0; d < rank; d++) {
    dims[d] = random_int(r, 0, 5) ? random_int(r, 1, rank > 3 ? 5 : 17) : random_int(r, 0, 40);
    order[d] = d;
  }
  while (shape_count(rank, dims) * (int64_t)size * 2 > (int64_t)bytes) dims[random_int(r, 0, rank - 1)] = 1;
  shape_strides(rank, dims, to);
  for (int d = rank - 1; d > 0; d--) {
    int64_t other = random_int(r, 0, d), swap = order[d];
    order[d] = order[other];
    order[other] = swap;
  }
  for (int d = rank - 1; d >= 0; d--) {
    from[order[d]] = random_int(r, 0, 7) ? inner * (d == rank - 1 ? step : 1) : 0;
    inner *= dims[order[d]] * (d == rank - 1 ? step : 1);
  }
  strided_copy c;
  strided_begin(&c, dtype, 0, 0);
  for (int d = 0; d < rank; d++) strided_dim(&c, dims[d], from[d], to[d]);
  strided_finish(&c);
  memset(y, 0xee, bytes);
  memset(z, 0xee, bytes);
  rlx_ctx ctx = {.struct_size = sizeof ctx};
  strided_run(&ctx, &c, x, y);
  copy_one_by_one(rank, dims, from, to, size, x, z);
  if (memcmp(y, z, bytes) != 0)
    fail_msg("strided copy of rank %d, way %d, element of %zu bytes", rank, (int)c.way, size);
}

static void test_strided(void **state) {
  (void)state;
  enum { BYTES = 1 << 16 }; /* under what is worth a thread: no executor is needed */
  char *x = malloc(BYTES), *y = malloc(BYTES), *z = malloc(BYTES);
  assert_true(x && y && z);
  random_state r = {7};
  for (int i = 0; i < BYTES; i++) x[i] = (char)random_int(&r, -128, 127);
  for (int i = 0; i < 4000; i++) one_strided(&r, x, y, z, BYTES);
  free(x);
  free(y);
  free(z);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_values),    cmocka_unit_test(test_no_memory),           cmocka_unit_test(test_errors),
      cmocka_unit_test(test_inference), cmocka_unit_test(test_inference_from_less), cmocka_unit_test(test_strided),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
