/* _gemm.c — the text of tiled products. */
#include "backend/gpu/kernels/_gemm.h"

#include <stdio.h>

#include "backend/gpu/kernels/_launch.h"

enum { STEP = 16 }; /* columns of a taken at a time */

const rlx_gpu_shared gemm_shared_4[] = {{"tile_a", "f32x4", 16 * STEP}, {"tile_b", "f32x4", 16 * STEP}, {0}};
const rlx_gpu_shared gemm_shared_8[] = {{"tile_a", "f32x4", 32 * STEP}, {"tile_b", "f32x4", 32 * STEP}, {0}};

/* Which quads a thread brings: its place across (quad of rows of a, or of columns of b) and along k. */
static void write_places(rlx_gpu_text *t, char side, const char *along_k, int quads, int count) {
  for (int q = 0; q < count; q++) {
    rlx_gpu_write(t, "u32 quad_%c%d = %s ? (LOCAL_ID >> 4u) + %du : LOCAL_ID & %du;\n", side, q, along_k, 16 * q,
                  quads - 1);
    rlx_gpu_write(t, "u32 at_%c%d = %s ? LOCAL_ID & 15u : LOCAL_ID / %du + %du;\n", side, q, along_k, quads,
                  256 / quads * q);
    rlx_gpu_write(t, "f32x4 next_%c%d = F32X4(0.0f, 0.0f, 0.0f, 0.0f);\n", side, q);
  }
}

static void write_loads(rlx_gpu_text *t, const gemm_text *g, const char *from, int count) {
  for (int q = 0; q < count; q++) {
    rlx_gpu_write(t, "{ u32 c = %s + at_a%d; u32 i = row + quad_a%d * 4u;\n", from, q, q);
    rlx_gpu_write(t, "f32 v0 = 0.0f; f32 v1 = 0.0f; f32 v2 = 0.0f; f32 v3 = 0.0f;\n");
    rlx_gpu_write(t, "if (c < k) { %s }\nnext_a%d = F32X4(v0, v1, v2, v3); }\n", g->load_a, q);
  }
  for (int q = 0; q < count; q++) {
    rlx_gpu_write(t, "{ u32 c = %s + at_b%d; u32 j = column + quad_b%d * 4u;\n", from, q, q);
    rlx_gpu_write(t, "f32 v0 = 0.0f; f32 v1 = 0.0f; f32 v2 = 0.0f; f32 v3 = 0.0f;\n");
    rlx_gpu_write(t, "if (c < k) { %s }\nnext_b%d = F32X4(v0, v1, v2, v3); }\n", g->load_b, q);
  }
}

static void write_products(rlx_gpu_text *t, int halves, int quads) {
  static const char lanes[] = "xyzw";
  rlx_gpu_write(t, "UNROLL for (u32 s = 0u; s < %du; s++) {\n", STEP);
  for (int h = 0; h < halves; h++) {
    rlx_gpu_write(t, "f32x4 a%d = tile_a[s * %du + ty + %du];\n", h, quads, 16 * h);
    rlx_gpu_write(t, "f32x4 b%d = tile_b[s * %du + tx + %du];\n", h, quads, 16 * h);
  }
  for (int i = 0; i < 4 * halves; i++)
    for (int j = 0; j < 4 * halves; j++)
      rlx_gpu_write(t, "r%d_%d = FMA(a%d.%c, b%d.%c, r%d_%d);\n", i, j, i / 4, lanes[i % 4], j / 4, lanes[j % 4], i, j);
  rlx_gpu_write(t, "}\n");
}

static void write_results(rlx_gpu_text *t, const gemm_text *g, int halves) {
  for (int i = 0; i < 4 * halves; i++)
    for (int h = 0; h < halves; h++) {
      rlx_gpu_write(t, "{ u32 i = row + ty * 4u + %du; u32 j = column + tx * 4u + %du;\n", i / 4 * 64 + i % 4, h * 64);
      rlx_gpu_write(t, "if (i < m && j < n) {\n");
      for (int e = 0; e < 4; e++) rlx_gpu_write(t, "f32 v%d = r%d_%d;\n", e, i, 4 * h + e);
      rlx_gpu_write(t, "%s }\n}\n", g->store);
    }
}

/* Tiles in bands of eight rows of tiles, so that groups that run at a time share what they read. */
static void write_tile(rlx_gpu_text *t, int tile) {
  rlx_gpu_write(t, "u32 each = tiles_m * tiles_n;\nu32 batch = index / each;\nu32 rest = index - batch * each;\n");
  rlx_gpu_write(t, "u32 band = rest / (8u * tiles_n);\nrest = rest - band * 8u * tiles_n;\n");
  rlx_gpu_write(t, "u32 high = tiles_m - band * 8u < 8u ? tiles_m - band * 8u : 8u;\nu32 across = rest / high;\n");
  rlx_gpu_write(t, "u32 row = (band * 8u + rest - across * high) * %du;\nu32 column = across * %du;\n", tile, tile);
}

rlx_status gemm_write(rlx_gpu_text *t, const gemm_text *g) {
  int halves = g->per / 4, quads = 4 * g->per, count = halves;
  rlx_gpu_write(t, "u32 tx = LOCAL_ID & 15u;\nu32 ty = LOCAL_ID >> 4u;\n");
  rlx_gpu_write(t, "for (u32 index = GROUP_ID; index < tiles; index += GROUPS) {\n");
  write_tile(t, 16 * g->per);
  rlx_gpu_write(t, "%s\n", g->tile);
  write_places(t, 'a', g->a_by_columns, quads, count);
  write_places(t, 'b', g->b_by_rows, quads, count);
  for (int i = 0; i < g->per; i++)
    for (int j = 0; j < g->per; j++) rlx_gpu_write(t, "f32 r%d_%d = 0.0f;\n", i, j);
  write_loads(t, g, "0u", count);
  rlx_gpu_write(t, "for (u32 k0 = 0u; k0 < k; k0 += %du) {\nBARRIER();\n", STEP);
  for (int q = 0; q < count; q++) {
    rlx_gpu_write(t, "tile_a[at_a%d * %du + quad_a%d] = next_a%d;\n", q, quads, q, q);
    rlx_gpu_write(t, "tile_b[at_b%d * %du + quad_b%d] = next_b%d;\n", q, quads, q, q);
  }
  rlx_gpu_write(t, "BARRIER();\nif (k0 + %du < k) {\n", STEP);
  char from[24];
  snprintf(from, sizeof from, "k0 + %du", STEP);
  write_loads(t, g, from, count);
  rlx_gpu_write(t, "}\n");
  write_products(t, halves, quads);
  rlx_gpu_write(t, "}\n");
  write_results(t, g, halves);
  rlx_gpu_write(t, "BARRIER();\n}\n");
  return RLX_OK;
}

int gemm_per(int64_t m, int64_t n, int64_t batches) {
  int64_t large = (m + 127) / 128 * ((n + 127) / 128) * batches;
  return m > 64 && n > 64 && large >= 128 ? 8 : 4;
}

rlx_status gemm_launch(rlx_gpu_dispatch *d, int function, int per, int64_t m, int64_t n, int64_t k, int64_t batches) {
  int64_t tile = 16 * per, tiles_m = (m + tile - 1) / tile, tiles_n = (n + tile - 1) / tile;
  RLX_TRY(launch_fits(tiles_m * tiles_n * batches));
  RLX_TRY(launch_fits(m > n ? m : n));
  RLX_TRY(launch_fits(k));
  rlx_gpu_set_int(d, "m", m);
  rlx_gpu_set_int(d, "n", n);
  rlx_gpu_set_int(d, "k", k);
  rlx_gpu_set_int(d, "tiles", tiles_m * tiles_n * batches);
  rlx_gpu_set_int(d, "tiles_m", tiles_m);
  rlx_gpu_set_int(d, "tiles_n", tiles_n);
  return launch_items(d, function, tiles_m * tiles_n * batches, 1);
}
