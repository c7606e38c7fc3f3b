/* _program_kernel.c — running scalar programs over broadcast operands: four elements an invocation where rows allow it.
 */
#include <string.h>

#include "backend/gpu/kernels/_program.h"
#include "backend/gpu/render.h"
#include "base/status.h"

/* The node's input that register reg of the program is: inputs that are left out have none. */
static int input_of(const rlx_node *n, int reg) {
  for (int i = 0; i < rlx_node_input_count(n); i++)
    if (rlx_node_input_type(n, i) && reg-- == 0) return i;
  return 0;
}

static bool vector_type(rlx_dtype d) { return strcmp(program_type(d), "f32") == 0; }

/* ---- text ---- */

static rlx_status make_functions(rlx_gpu_text *t, const rlx_node *n) {
  fused_program p;
  const char *wrong = program_of_node(n, &p);
  if (wrong) return RLX_FAIL(UNSUPPORTED, "%s", wrong);
  return program_write(t, &p);
}

/* Offsets o0, o1 … of each input from the index `rest` over the dims before `from`. */
static void write_offsets(rlx_gpu_text *t, const fused_program *p, const char *from) {
  rlx_gpu_write(t, "  for (u32 d = %s; d > 0u; d--) {\n    u32 next = rest / dims[d - 1u];\n", from);
  rlx_gpu_write(t, "    u32 at = rest - next * dims[d - 1u];\n    rest = next;\n");
  for (int k = 0; k < p->inputs; k++)
    rlx_gpu_write(t, "    o%d = o%d + at * strides[%du + d - 1u];\n", k, k, k * PROGRAM_MAX_RANK);
  rlx_gpu_write(t, "  }\n");
}

/* program(in0[…], in1[…] …) for the elements `step` after the offsets. */
static void write_call(rlx_gpu_text *t, const rlx_node *n, const fused_program *p, const char *step) {
  rlx_gpu_write(t, "program(");
  for (int k = 0; k < p->inputs; k++) {
    rlx_gpu_write(t, "%sin%d[base[%d] + i64(o%d", k ? ", " : "", input_of(n, k), k, k);
    if (*step) rlx_gpu_write(t, " + ((still & %uu) != 0u ? 0u : %s)", 1u << k, step);
    rlx_gpu_write(t, ")]");
  }
  rlx_gpu_write(t, ")");
}

static rlx_status make_scalar(rlx_gpu_text *t, const rlx_node *n) {
  fused_program p;
  const char *wrong = program_of_node(n, &p);
  if (wrong) return RLX_FAIL(UNSUPPORTED, "%s", wrong);
  rlx_gpu_write(t, "for (u32 i = GLOBAL_ID; i < n; i += GLOBAL_SIZE) {\n  u32 rest = i;\n");
  for (int k = 0; k < p.inputs; k++) rlx_gpu_write(t, "  u32 o%d = 0u;\n", k);
  write_offsets(t, &p, "rank");
  rlx_gpu_write(t, "  y[base[%d] + i64(i)] = ", FUSED_MAX_INPUTS);
  write_call(t, n, &p, "");
  rlx_gpu_write(t, ";\n}\n");
  return RLX_OK;
}

static void write_vector_input(rlx_gpu_text *t, const rlx_node *n, const fused_program *p, int k) {
  int in = input_of(n, k);
  const char *type = program_type(p->input_types[k]);
  if (vector_type(p->input_types[k])) {
    rlx_gpu_write(t, "    f32x4 v%d;\n    if ((still & %uu) != 0u) {\n", k, 1u << k);
    rlx_gpu_write(t, "      f32 s = in%d[base[%d] + i64(o%d)];\n      v%d = F32X4(s, s, s, s);\n    } else {\n", in, k,
                  k, k);
    rlx_gpu_write(t, "      v%d = LOAD4(in%d, base[%d] + i64(o%d));\n    }\n", k, in, k, k);
    return;
  }
  static const char lanes[] = "xyzw";
  rlx_gpu_write(t, "    u32 w%d = (still & %uu) != 0u ? 0u : 1u;\n", k, 1u << k);
  for (int lane = 0; lane < 4; lane++)
    rlx_gpu_write(t, "    %s v%d%c = in%d[base[%d] + i64(o%d + %du * w%d)];\n", type, k, lanes[lane], in, k, k, lane,
                  k);
}

static void write_vector_result(rlx_gpu_text *t, const fused_program *p) {
  static const char lanes[] = "xyzw";
  for (int lane = 0; lane < 4; lane++) {
    rlx_gpu_write(t, "    %s r%c = program(", program_type(fused_result(p)), lanes[lane]);
    for (int k = 0; k < p->inputs; k++)
      rlx_gpu_write(t, "%sv%d%s%c", k ? ", " : "", k, vector_type(p->input_types[k]) ? "." : "", lanes[lane]);
    rlx_gpu_write(t, ");\n");
  }
  if (vector_type(fused_result(p))) {
    rlx_gpu_write(t, "    STORE4(y, base[%d] + i64(i), F32X4(rx, ry, rz, rw));\n", FUSED_MAX_INPUTS);
    return;
  }
  for (int lane = 0; lane < 4; lane++)
    rlx_gpu_write(t, "    y[base[%d] + i64(i + %du)] = r%c;\n", FUSED_MAX_INPUTS, lane, lanes[lane]);
}

static rlx_status make_vector(rlx_gpu_text *t, const rlx_node *n) {
  fused_program p;
  const char *wrong = program_of_node(n, &p);
  if (wrong) return RLX_FAIL(UNSUPPORTED, "%s", wrong);
  rlx_gpu_write(t, "u32 quads = (n + 3u) / 4u;\nfor (u32 q = GLOBAL_ID; q < quads; q += GLOBAL_SIZE) {\n");
  rlx_gpu_write(t, "  u32 i = q * 4u;\n  u32 rest = 0u;\n  u32 column = i;\n");
  rlx_gpu_write(t,
                "  if (rank > 1u) {\n    rest = i / dims[rank - 1u];\n    column = i - rest * dims[rank - 1u];\n  }\n");
  for (int k = 0; k < p.inputs; k++) rlx_gpu_write(t, "  u32 o%d = (still & %uu) != 0u ? 0u : column;\n", k, 1u << k);
  write_offsets(t, &p, "rank - 1u");
  rlx_gpu_write(t, "  if (i + 4u <= n) {\n");
  for (int k = 0; k < p.inputs; k++) write_vector_input(t, n, &p, k);
  write_vector_result(t, &p);
  rlx_gpu_write(t, "  } else {\n    for (u32 j = 0u; i + j < n; j++) y[base[%d] + i64(i + j)] = ", FUSED_MAX_INPUTS);
  write_call(t, n, &p, "j");
  rlx_gpu_write(t, ";\n  }\n}\n");
  return RLX_OK;
}

#define IN(k)                                                                                                          \
  { "in" #k, NULL, RLX_GPU_INPUT, k, 0 }
static const rlx_gpu_arg args[] = {
    IN(0),
    IN(1),
    IN(2),
    IN(3),
    IN(4),
    IN(5),
    IN(6),
    IN(7),
    IN(8),
    IN(9),
    IN(10),
    IN(11),
    IN(12),
    IN(13),
    IN(14),
    IN(15),
    {"y", NULL, RLX_GPU_OUTPUT, 0, 0},
    {"n", "u32", RLX_GPU_SCALAR, 0, 0},
    {"rank", "u32", RLX_GPU_SCALAR, 0, 0},
    {"still", "u32", RLX_GPU_SCALAR, 0, 0},
    {"dims", "u32", RLX_GPU_SCALAR, 0, PROGRAM_MAX_RANK},
    {"strides", "u32", RLX_GPU_SCALAR, 0, PROGRAM_MAX_RANK *FUSED_MAX_INPUTS},
    {"base", "i64", RLX_GPU_SCALAR, 0, FUSED_MAX_INPUTS + 1},
    {0},
};
enum { VECTOR, SCALAR };
const rlx_gpu_function program_functions[] = {
    [VECTOR] = {.name = "program4", .args = args, .make_functions = make_functions, .make_body = make_vector},
    [SCALAR] = {.name = "program1", .args = args, .make_functions = make_functions, .make_body = make_scalar},
    {0},
};

/* ---- launching ---- */

/* Rows of whole quads, each beginning at a multiple of four of every operand that moves along them. */
static bool takes_quads(const broadcast *b) {
  if (b->rank == 1) return true;
  if (b->dims[b->rank - 1] % 4) return false;
  for (int k = 0; k < b->inputs; k++)
    for (int d = 0; d + 1 < b->rank; d++)
      if (!(b->still >> k & 1) && b->strides[k][d] % 4) return false;
  return true;
}

static const int64_t largest_launch = INT64_C(1) << 30;

/* The part [begin, begin + size) of the first dim. */
static rlx_status launch_part(rlx_gpu_dispatch *d, const broadcast *b, int64_t begin, int64_t size) {
  int64_t dims[PROGRAM_MAX_RANK], strides[PROGRAM_MAX_RANK * FUSED_MAX_INPUTS] = {0}, base[FUSED_MAX_INPUTS + 1] = {0};
  int64_t count = size;
  for (int i = 1; i < b->rank; i++) count *= dims[i] = b->dims[i];
  dims[0] = size;
  for (int k = 0; k < b->inputs; k++) {
    base[k] = begin * b->strides[k][0];
    for (int i = 0; i < b->rank; i++) strides[k * PROGRAM_MAX_RANK + i] = b->strides[k][i];
  }
  base[FUSED_MAX_INPUTS] = begin * (count / size);
  bool quads = takes_quads(b);
  rlx_gpu_set_int(d, "n", count);
  rlx_gpu_set_int(d, "rank", b->rank);
  rlx_gpu_set_int(d, "still", b->still);
  rlx_gpu_set_ints(d, "dims", dims, b->rank);
  rlx_gpu_set_ints(d, "strides", strides, b->inputs * PROGRAM_MAX_RANK);
  rlx_gpu_set_ints(d, "base", base, FUSED_MAX_INPUTS + 1);
  int64_t groups = (count + (quads ? 1023 : 255)) / (quads ? 1024 : 256);
  return rlx_gpu_launch(d, quads ? VECTOR : SCALAR,
                        (const int64_t[3]){groups < GPU_MAX_GROUPS ? groups : GPU_MAX_GROUPS, 1, 1});
}

rlx_status program_encode(rlx_gpu_dispatch *d) {
  const rlx_operand *out = rlx_gpu_output(d, 0);
  broadcast_shape shapes[FUSED_MAX_INPUTS];
  int inputs = 0;
  for (int i = 0; i < rlx_gpu_input_count(d); i++) {
    const rlx_operand *in = rlx_gpu_input(d, i);
    if (in) shapes[inputs++] = (broadcast_shape){in->rank, in->dims};
  }
  if (out->count == 0) return RLX_OK;
  broadcast b;
  broadcast_plan(&b, (broadcast_shape){out->rank, out->dims}, shapes, inputs);
  if (b.rank > PROGRAM_MAX_RANK) return RLX_FAIL(UNSUPPORTED, "more than %d dims that differ", PROGRAM_MAX_RANK);
  int64_t inner = b.count / b.dims[0];
  if (inner > largest_launch) return RLX_FAIL(UNSUPPORTED, "rows of %lld elements", (long long)inner);
  int64_t most = largest_launch / inner / 4 * 4;
  if (most == 0) most = 1;
  for (int64_t begin = 0; begin < b.dims[0]; begin += most)
    RLX_TRY(launch_part(d, &b, begin, b.dims[0] - begin < most ? b.dims[0] - begin : most));
  return RLX_OK;
}

const char *program_why_not(const rlx_node *n) {
  fused_program p;
  const char *wrong = program_of_node(n, &p);
  const rlx_type *out = rlx_node_output_type(n, 0);
  if (!wrong && out->rank > PROGRAM_MAX_RANK) wrong = rlx_reason("more than %d dims", PROGRAM_MAX_RANK);
  return wrong;
}

#define PAIR(k)                                                                                                        \
  { 0, k }
const rlx_pair program_in_place[FUSED_MAX_INPUTS] = {PAIR(0),  PAIR(1),  PAIR(2),  PAIR(3), PAIR(4),  PAIR(5),
                                                     PAIR(6),  PAIR(7),  PAIR(8),  PAIR(9), PAIR(10), PAIR(11),
                                                     PAIR(12), PAIR(13), PAIR(14), PAIR(15)};
