/* strided.c — ops that are one strided copy, on GPUs: Transpose, Slice, Expand, Tile, SpaceToDepth, DepthToSpace. */
#include <string.h>

#include "backend/gpu/kernels/_launch.h"
#include "base/memory.h"
#include "ops/_strided.h"

enum { MAX_RANK = 12, TILE = 32 };

/* ---- texts ---- */

#define COPY_ARGS                                                                                                      \
  ARG_SCALAR("n", "u32"), ARG_SCALAR("rank", "u32"), ARG_SCALAR("from_base", "i64"), ARG_SCALAR("to_base", "i64"),      \
      ARG_LIST("dims", "u32", MAX_RANK), ARG_LIST("from", "i64", MAX_RANK), ARG_LIST("to", "i64", MAX_RANK)
static const rlx_gpu_arg word_args[] = {ARG_IN_BITS("x", 0), ARG_OUT_BITS("y", 0), COPY_ARGS, {0}};
static const rlx_gpu_arg quad_args[] = {
    {"x", "f32", RLX_GPU_INPUT, 0, 0}, {"y", "f32", RLX_GPU_OUTPUT, 0, 0}, COPY_ARGS, {0}};
static const rlx_gpu_arg tile_args[] = {
    ARG_IN_BITS("x", 0), ARG_OUT_BITS("y", 0), COPY_ARGS, ARG_SCALAR("across", "u32"), {0}};
static const rlx_gpu_shared tile_shared[] = {{"tile", "u64", TILE *(TILE + 1)}, {0}};

/* clang-format off */
#define WALK(statement)                                                                                                \
  for (u32 i = GLOBAL_ID; i < n; i += GLOBAL_SIZE) {                                                                   \
    u32 rest = i;                                                                                                      \
    i64 a = from_base;                                                                                                 \
    i64 b = to_base;                                                                                                   \
    for (u32 d = rank; d > 0u; d--) {                                                                                  \
      u32 next = rest / dims[d - 1u];                                                                                  \
      i64 at = i64(rest - next * dims[d - 1u]);                                                                        \
      rest = next;                                                                                                     \
      a = a + at * from[d - 1u];                                                                                       \
      b = b + at * to[d - 1u];                                                                                         \
    }                                                                                                                  \
    statement                                                                                                          \
  }
#define EXPANDED(...) RLX_GPU_TEXT(__VA_ARGS__)

static const char tile_body[] = RLX_GPU_TEXT(
  u32 tx = LOCAL_ID & 31u;
  u32 ty = LOCAL_ID >> 5u;
  u32 last = rank - 1u;
  u32 tiles_a = (dims[across] + 31u) / 32u;
  u32 tiles_b = (dims[last] + 31u) / 32u;
  for (u32 t = GROUP_ID; t < n; t += GROUPS) {
    u32 rest = t / tiles_b;
    u32 column = (t - rest * tiles_b) * 32u;
    u32 q = rest / tiles_a;
    u32 row = (rest - q * tiles_a) * 32u;
    rest = q;
    i64 a = from_base;
    i64 b = to_base;
    for (u32 d = last; d > 0u; d--) {
      if (d - 1u != across) {
        u32 next = rest / dims[d - 1u];
        i64 at = i64(rest - next * dims[d - 1u]);
        rest = next;
        a = a + at * from[d - 1u];
        b = b + at * to[d - 1u];
      }
    }
    for (u32 k = 0u; k < 32u; k += 8u) {
      if (row + tx < dims[across] && column + ty + k < dims[last])
        tile[(ty + k) * 33u + tx] = u64(x[a + i64(row + tx) + i64(column + ty + k) * from[last]]);
    }
    BARRIER();
    for (u32 k = 0u; k < 32u; k += 8u) {
      if (row + ty + k < dims[across] && column + tx < dims[last])
        y[b + i64(row + ty + k) * to[across] + i64(column + tx)] = y_t(tile[tx * 33u + ty + k]);
    }
    BARRIER();
  }
);
/* clang-format on */

enum { WORDS, QUADS, TILES };
static const rlx_gpu_function functions[] = {
    [WORDS] = {.name = "copy_words", .args = word_args, .body = EXPANDED(WALK(y[b] = x[a];))},
    [QUADS] = {.name = "copy_quads", .args = quad_args, .body = EXPANDED(WALK(STORE4(y, b, LOAD4(x, a));))},
    [TILES] = {.name = "copy_tiles", .args = tile_args, .shared = tile_shared, .body = tile_body},
    {0},
};

/* ---- planning ---- */

typedef struct gpu_copy {
  int function, rank, across;
  int64_t n, from_base, to_base;
  int64_t dims[STRIDED_RANK], from[STRIDED_RANK], to[STRIDED_RANK];
} gpu_copy;

/* Elements of `size` bytes instead of the wider ones the plan chose. */
static void narrow(const strided_copy *c, size_t size, gpu_copy *g) {
  int64_t times = (int64_t)(c->size / size);
  g->rank = c->rank;
  g->from_base = c->from_offset * times;
  g->to_base = c->to_offset * times;
  for (int d = 0; d < c->rank; d++) {
    g->dims[d] = c->dims[d];
    g->from[d] = c->from[d] * times;
    g->to[d] = c->to[d] * times;
  }
  if (times > 1) {
    g->dims[g->rank] = times;
    g->from[g->rank] = g->to[g->rank] = 1;
    g->rank++;
  }
}

/* Rows of whole 16 bytes on both sides: copied as such. */
static void take_quads(gpu_copy *g, int64_t size) {
  int64_t each = 16 / size;
  int last = g->rank - 1;
  if (g->from[last] != 1 || g->to[last] != 1 || g->dims[last] % each || g->from_base % each || g->to_base % each)
    return;
  for (int d = 0; d < last; d++)
    if (g->from[d] % each || g->to[d] % each) return;
  g->function = QUADS; /* the text counts in f32: four of them a step */
  for (int d = 0; d < last; d++) {
    g->from[d] = g->from[d] * size / 4;
    g->to[d] = g->to[d] * size / 4;
  }
  g->from[last] = g->to[last] = 4;
  g->dims[last] /= each;
  g->from_base = g->from_base * size / 4;
  g->to_base = g->to_base * size / 4;
}

static void take_tiles(gpu_copy *g) {
  int last = g->rank - 1;
  if (g->to[last] != 1 || g->dims[last] < 8) return;
  for (int d = 0; d < last; d++)
    if (g->from[d] == 1 && g->dims[d] >= 8) {
      g->function = TILES;
      g->across = d;
    }
}

static void plan_launch(const strided_copy *c, size_t size, gpu_copy *g) {
  *g = (gpu_copy){.function = WORDS};
  if (c->way == STRIDED_EMPTY) return;
  narrow(c, size, g);
  take_quads(g, (int64_t)size);
  if (g->function == WORDS) take_tiles(g);
  g->n = 1;
  for (int d = 0; d < g->rank; d++)
    g->n *= g->function == TILES && (d == g->across || d == g->rank - 1) ? (g->dims[d] + TILE - 1) / TILE : g->dims[d];
}

static rlx_status encode(rlx_gpu_dispatch *d) {
  const gpu_copy *g = rlx_gpu_state(d);
  if (g->n == 0) return RLX_OK;
  RLX_TRY(launch_fits(g->n));
  if (g->rank > MAX_RANK) return RLX_FAIL(UNSUPPORTED, "more than %d dims", MAX_RANK);
  rlx_gpu_set_int(d, "n", g->n);
  rlx_gpu_set_int(d, "rank", g->rank);
  rlx_gpu_set_int(d, "from_base", g->from_base);
  rlx_gpu_set_int(d, "to_base", g->to_base);
  rlx_gpu_set_int(d, "across", g->across);
  rlx_gpu_set_ints(d, "dims", g->dims, g->rank);
  rlx_gpu_set_ints(d, "from", g->from, g->rank);
  rlx_gpu_set_ints(d, "to", g->to, g->rank);
  return launch_items(d, g->function, g->n, g->function == TILES ? 1 : 256);
}

/* ---- the ops ---- */

static rlx_status plan_state(rlx_bound *b, void **state, strided_plan plan) {
  strided_node n = strided_of_bound(b);
  strided_copy c;
  rlx_status status = plan(&n, &c);
  if (status == RLX_NOT_FOUND) return rlx_fail(b, RLX_UNSUPPORTED, "an input with bounds is known only at the run");
  RLX_TRY(status);
  gpu_copy *g = mem_alloc(sizeof *g);
  if (!g) return rlx_fail(b, RLX_OUT_OF_MEMORY, "no memory for %zu bytes", sizeof *g);
  plan_launch(&c, dtype_size(rlx_bound_input(b, 0)->dtype), g);
  *state = g;
  return RLX_OK;
}

/* Inputs after the first say what to copy: if one is no constant, its value must be known when the program is bound. */
static const char *why_not(const rlx_node *n) {
  const char *wrong = launch_needs_words(n, 0);
  for (int i = 1; i < rlx_node_input_count(n) && !wrong; i++)
    if (rlx_node_input_type(n, i) && !rlx_node_constant(n, i)) wrong = rlx_depends_on_extents;
  return wrong;
}

static const char *why_not_bound(const rlx_bound *b) {
  for (int i = 1; i < rlx_node_input_count(rlx_bound_node(b)); i++)
    if (rlx_bound_input(b, i) && !rlx_bound_constant(b, i)) return rlx_reason("input %d is known only at the run", i);
  return NULL;
}

#define STRIDED_KERNEL(id, op_name, first_version)                                                                     \
  static rlx_status id##_prepare(rlx_bound *b, void **state) { return plan_state(b, state, id##_plan); }               \
  static const rlx_gpu_kernel id##_kernel = {                                                                          \
      .struct_size = sizeof(rlx_gpu_kernel),                                                                           \
      .head = {.op = op_name,                                                                                          \
               .version_min = first_version,                                                                           \
               .version_max = first_version,                                                                           \
               .name = "strided",                                                                                      \
               .min_align = 16,                                                                                        \
               .why_not = why_not,                                                                                     \
               .why_not_bound = why_not_bound,                                                                         \
               .prepare = id##_prepare,                                                                                \
               .release = mem_free},                                                                                   \
      .functions = functions,                                                                                          \
      .encode = encode,                                                                                                \
  }

STRIDED_KERNEL(transpose, "onnx.Transpose", 1);
STRIDED_KERNEL(slice, "onnx.Slice", 10);
STRIDED_KERNEL(expand, "onnx.Expand", 8);
STRIDED_KERNEL(tile, "onnx.Tile", 6);
STRIDED_KERNEL(space_to_depth, "onnx.SpaceToDepth", 1);
STRIDED_KERNEL(depth_to_space, "onnx.DepthToSpace", 1);

static const rlx_gpu_kernel *const kernels[] = {
    &transpose_kernel,      &slice_kernel, &expand_kernel, &tile_kernel, &space_to_depth_kernel,
    &depth_to_space_kernel, NULL};
const rlx_module gpu_strided = {.gpu_kernels = kernels};
