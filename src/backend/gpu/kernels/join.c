/* join.c — Concat and Split on GPUs: all pieces in one launch. */
#include "backend/gpu/kernels/_launch.h"
#include "ir/graph.h"
#include "ops/concat.h"

enum { MOST = 24 };

/* outer × columns: piece p has columns [start[p], start[p + 1]). The text has a branch a piece, as many as the node
 * has. */
static rlx_status write_pieces(rlx_gpu_text *t, int pieces, const char *statement) {
  rlx_gpu_write(t, "for (u32 i = GLOBAL_ID; i < n; i += GLOBAL_SIZE) {\n  u32 row = i / columns;\n");
  rlx_gpu_write(t, "  u32 c = i - row * columns;\n");
  for (int p = 0; p < pieces; p++) {
    rlx_gpu_write(t, "  %sif (c < start[%d]) {\n", p ? "else " : "", p + 1);
    rlx_gpu_write(t, "    i64 at = i64(row) * i64(start[%d] - start[%d]) + i64(c - start[%d]);\n    ", p + 1, p, p);
    rlx_gpu_write(t, statement, p);
    rlx_gpu_write(t, "\n  }\n");
  }
  rlx_gpu_write(t, "}\n");
  return RLX_OK;
}

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
static rlx_status make_concat(rlx_gpu_text *t, const rlx_node *n) {
  return write_pieces(t, rlx_node_input_count(n), "y[i64(i)] = x%d[at];");
}
static rlx_status make_split(rlx_gpu_text *t, const rlx_node *n) {
  return write_pieces(t, rlx_node_output_count(n), "y%d[at] = x[i64(i)];");
}
#pragma GCC diagnostic pop

#define JOIN_ARGS ARG_SCALAR("n", "u32"), ARG_SCALAR("columns", "u32"), ARG_LIST("start", "u32", MOST + 1)
#define IN(i) ARG_IN_BITS("x" #i, i)
#define OUT(i) ARG_OUT_BITS("y" #i, i)
#define ALL(M)                                                                                                         \
  M(0), M(1), M(2), M(3), M(4), M(5), M(6), M(7), M(8), M(9), M(10), M(11), M(12), M(13), M(14), M(15), M(16), M(17),    \
      M(18), M(19), M(20), M(21), M(22), M(23)
static const rlx_gpu_arg concat_args[] = {ALL(IN), ARG_OUT_BITS("y", 0), JOIN_ARGS, {0}};
static const rlx_gpu_arg split_args[] = {ARG_IN_BITS("x", 0), ALL(OUT), JOIN_ARGS, {0}};
static const rlx_gpu_function concat_functions[] = {{.name = "concat", .args = concat_args, .make_body = make_concat},
                                                    {0}};
static const rlx_gpu_function split_functions[] = {{.name = "split", .args = split_args, .make_body = make_split}, {0}};

/* Columns of each piece: axis and what comes after it. */
static rlx_status launch_pieces(rlx_gpu_dispatch *d, const rlx_operand *whole, int64_t axis, int pieces, bool inputs) {
  if (axis < 0) axis += whole->rank;
  if (whole->count == 0) return RLX_OK;
  int64_t inner = 1, start[MOST + 1] = {0};
  for (int i = (int)axis + 1; i < whole->rank; i++) inner *= whole->dims[i];
  for (int p = 0; p < pieces; p++) {
    const rlx_operand *o = inputs ? rlx_gpu_input(d, p) : rlx_gpu_output(d, p);
    start[p + 1] = start[p] + (o ? o->dims[axis] * inner : 0);
  }
  RLX_TRY(launch_fits(whole->count));
  rlx_gpu_set_int(d, "n", whole->count);
  rlx_gpu_set_int(d, "columns", inner * whole->dims[axis]);
  rlx_gpu_set_ints(d, "start", start, pieces + 1);
  return launch_items(d, 0, whole->count, 256);
}

static rlx_status encode_concat(rlx_gpu_dispatch *d) {
  const concat_params *p = rlx_gpu_params(d);
  return launch_pieces(d, rlx_gpu_output(d, 0), p->axis, rlx_gpu_input_count(d), true);
}
static rlx_status encode_split(rlx_gpu_dispatch *d) {
  const split_params *p = rlx_gpu_params(d);
  return launch_pieces(d, rlx_gpu_input(d, 0), p->axis, rlx_gpu_output_count(d), false);
}

static const char *why_not_concat(const rlx_node *n) {
  return rlx_node_input_count(n) > MOST ? rlx_reason("more than %d inputs", MOST) : launch_needs_words(n, 0);
}
/* A piece that nobody wants would leave a hole in the columns. */
static const char *why_not_split(const rlx_node *n) {
  if (rlx_node_output_count(n) > MOST) return rlx_reason("more than %d outputs", MOST);
  for (int i = 0; i < rlx_node_output_count(n); i++)
    if (!*n->outputs[i]->name) return rlx_reason("output %d is left out", i);
  return launch_needs_words(n, 0);
}

static const rlx_gpu_kernel concat = {
    .struct_size = sizeof(rlx_gpu_kernel),
    .head =
        {.op = "onnx.Concat", .version_min = 4, .version_max = INT32_MAX, .name = "pieces", .why_not = why_not_concat},
    .functions = concat_functions,
    .encode = encode_concat,
};
static const rlx_gpu_kernel split = {
    .struct_size = sizeof(rlx_gpu_kernel),
    .head =
        {.op = "onnx.Split", .version_min = 13, .version_max = INT32_MAX, .name = "pieces", .why_not = why_not_split},
    .functions = split_functions,
    .encode = encode_split,
};

static const rlx_gpu_kernel *const kernels[] = {&concat, &split, NULL};
const rlx_module gpu_join = {.gpu_kernels = kernels};
