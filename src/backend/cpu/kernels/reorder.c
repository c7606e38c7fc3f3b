/* reorder.c — rlx.reorder on the CPU: between row-major, blocks of channels and channels last. */
#include <string.h>

#include "ir/layout.h"
#include "ir/module.h"
#include "ops/reorder.h"

/* Channel c at point s of a sample lies at (c / block) * block * points + s * block + c % block. */
typedef struct task {
  const uint32_t *from;
  uint32_t *to;
  int64_t channels, points, from_block, to_block;
  int64_t groups; /* of up to TILE channels, in a sample */
} task;

enum { TILE = 16 };

static inline int64_t place(int64_t block, int64_t points, int64_t c) { return c / block * block * points + c % block; }

/* Channels [c, c + n) that lie together in both layouts or are strided in one. */
static void move_points(const task *t, const uint32_t *from, uint32_t *to, int64_t c, int64_t n) {
  int64_t from_step = t->from_block == 1 ? t->points : 1, to_step = t->to_block == 1 ? t->points : 1;
  from += place(t->from_block, t->points, c);
  to += place(t->to_block, t->points, c);
  if (from_step == 1 && to_step == 1) {
    for (int64_t s = 0; s < t->points; s++) {
      for (int64_t i = 0; i < n; i++) to[s * t->to_block + i] = from[s * t->from_block + i];
    }
    return;
  }
  uint32_t tile[TILE][TILE];
  for (int64_t s = 0; s < t->points; s += TILE) {
    int64_t width = t->points - s < TILE ? t->points - s : TILE;
    for (int64_t i = 0; i < n; i++) {
      for (int64_t j = 0; j < width; j++) tile[i][j] = from[i * from_step + (s + j) * t->from_block];
    }
    for (int64_t j = 0; j < width; j++) {
      for (int64_t i = 0; i < n; i++) to[i * to_step + (s + j) * t->to_block] = tile[i][j];
    }
  }
}

static int64_t smaller_block(const task *t) {
  int64_t block = TILE;
  if (t->from_block > 1 && t->from_block < block) block = t->from_block;
  if (t->to_block > 1 && t->to_block < block) block = t->to_block;
  return block;
}

static void body(void *arg, int64_t begin, int64_t end) {
  const task *t = arg;
  int64_t step = smaller_block(t);
  for (int64_t i = begin; i < end; i++) {
    int64_t sample = i / t->groups, c = i % t->groups * step;
    int64_t offset = sample * t->channels * t->points;
    int64_t n = t->channels - c < step ? t->channels - c : step;
    move_points(t, t->from + offset, t->to + offset, c, n);
  }
}

static const char *why_not(const rlx_node *n) {
  const rlx_type *x = rlx_node_input_type(n, 0);
  if (!x || rlx_dtype_bits(x->dtype) != 32) return "only elements of 4 bytes are served";
  return NULL;
}

/* Its operands' layouts are what the pass that made it says. */
static void layouts(const rlx_node *n, rlx_layouts *l) {
  const reorder_params *p = rlx_node_params(n);
  l->outputs[0] = (uint32_t)p->layout;
}

static rlx_status run(rlx_ctx *ctx) {
  const rlx_operand *x = &ctx->inputs[0];
  rlx_operand *y = &ctx->outputs[0];
  if (x->count == 0) return RLX_OK;
  if (x->layout == y->layout) {
    memcpy(y->data, x->data, (size_t)x->bytes);
    return RLX_OK;
  }
  if (x->rank < 3) return rlx_fail(ctx, RLX_INVALID, "rank %d has no layouts", x->rank);
  int64_t points = 1, channels = x->dims[1];
  for (int i = 2; i < x->rank; i++) points *= x->dims[i];
  task t = {x->data, y->data, channels, points, layout_block(x->layout, channels), layout_block(y->layout, channels),
            0};
  if (t.from_block < 1 || t.to_block < 1 || channels % t.from_block != 0 || channels % t.to_block != 0) {
    return rlx_fail(ctx, RLX_INVALID, "%lld channels do not lie in %s and %s", (long long)channels,
                    layout_name(x->layout), layout_name(y->layout));
  }
  int64_t step = smaller_block(&t);
  t.groups = (channels + step - 1) / step;
  int64_t grain = 16384 / (step * points) + 1;
  rlx_parallel_for(ctx, x->dims[0] * t.groups, grain, body, &t);
  return RLX_OK;
}

static const rlx_cpu_kernel reorder = {
    .struct_size = sizeof(rlx_cpu_kernel),
    .head = {.op = "rlx.reorder", .name = "reorder", .why_not = why_not, .layouts = layouts},
    .run = run,
};

const rlx_module cpu_reorder = {.kernels = (const rlx_cpu_kernel *const[]){&reorder, NULL}};
