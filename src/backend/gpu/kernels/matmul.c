/* matmul.c — MatMul and Gemm on GPUs: tiles, or a thread a column where there are few rows. */
#include <string.h>

#include "backend/gpu/kernels/_gemm.h"
#include "backend/gpu/kernels/_launch.h"
#include "ops/matmul.h"

enum { MAX_BATCH_RANK = 6, FEW_ROWS = 8 };

/* ---- texts ---- */

/* clang-format off */
/* Base addresses of the batch's matrices. */
static const char bases[] = RLX_GPU_TEXT(
  i64 a_base = i64(0);
  i64 b_base = i64(0);
  u32 left = batch;
  for (u32 d = batch_rank; d > 0u; d--) {
    u32 next = left / batch_dims[d - 1u];
    i64 at = i64(left - next * batch_dims[d - 1u]);
    a_base = a_base + at * a_step[d - 1u];
    b_base = b_base + at * b_step[d - 1u];
    left = next;
  }
);
static const char load_a[] = RLX_GPU_TEXT(
  i64 at = a_base + i64(i) * a_row + i64(c) * a_column;
  if (quads_a != 0u && i + 4u <= m) {
    f32x4 v = LOAD4(a, at);
    v0 = v.x; v1 = v.y; v2 = v.z; v3 = v.w;
  } else {
    if (i < m) v0 = a[at];
    if (i + 1u < m) v1 = a[at + a_row];
    if (i + 2u < m) v2 = a[at + a_row * i64(2)];
    if (i + 3u < m) v3 = a[at + a_row * i64(3)];
  }
);
static const char load_b[] = RLX_GPU_TEXT(
  i64 at = b_base + i64(c) * b_row + i64(j) * b_column;
  if (quads_b != 0u && j + 4u <= n) {
    f32x4 v = LOAD4(b, at);
    v0 = v.x; v1 = v.y; v2 = v.z; v3 = v.w;
  } else {
    if (j < n) v0 = b[at];
    if (j + 1u < n) v1 = b[at + b_column];
    if (j + 2u < n) v2 = b[at + b_column * i64(2)];
    if (j + 3u < n) v3 = b[at + b_column * i64(3)];
  }
);
static const char store_y[] = RLX_GPU_TEXT(
  i64 at = (i64(batch) * i64(m) + i64(i)) * i64(n) + i64(j);
  if (alpha != 1.0f) { v0 = v0 * alpha; v1 = v1 * alpha; v2 = v2 * alpha; v3 = v3 * alpha; }
  if (PRESENT(bias)) {
    i64 o = i64(i) * bias_row + i64(j) * bias_column;
    v0 = v0 + beta * bias[o];
    if (j + 1u < n) v1 = v1 + beta * bias[o + bias_column];
    if (j + 2u < n) v2 = v2 + beta * bias[o + bias_column * i64(2)];
    if (j + 3u < n) v3 = v3 + beta * bias[o + bias_column * i64(3)];
  }
  if (quads_y != 0u) {
    STORE4(y, at, F32X4(v0, v1, v2, v3));
  } else {
    y[at] = v0;
    if (j + 1u < n) y[at + i64(1)] = v1;
    if (j + 2u < n) y[at + i64(2)] = v2;
    if (j + 3u < n) y[at + i64(3)] = v3;
  }
);

/* Few rows: 64 columns a group, k in four parts; a thread has a column of up to 8 results. */
static const char few_rows[] = RLX_GPU_TEXT(
  u32 lane = LOCAL_ID & 63u;
  u32 part = LOCAL_ID >> 6u;
  u32 across = (n + 63u) / 64u;
  for (u32 index = GROUP_ID; index < across * tiles; index += GROUPS) {
    u32 batch = index / across;
    u32 j = (index - batch * across) * 64u + lane;
    BASES
    f32 r[8];
    UNROLL for (u32 i = 0u; i < 8u; i++) r[i] = 0.0f;
    if (j < n) {
      for (u32 c = part; c < k; c += 4u) {
        f32 v = b[b_base + i64(c) * b_row + i64(j) * b_column];
        i64 at = a_base + i64(c) * a_column;
        UNROLL for (u32 i = 0u; i < 8u; i++) {
          if (i < m) r[i] = FMA(a[at + i64(i) * a_row], v, r[i]);
        }
      }
    }
    BARRIER();
    UNROLL for (u32 i = 0u; i < 8u; i++) parts[i * 256u + LOCAL_ID] = r[i];
    BARRIER();
    if (j < n) {
      for (u32 i = part; i < m; i += 4u) {
        u32 first = i * 256u + lane;
        f32 v = (parts[first] + parts[first + 64u]) + (parts[first + 128u] + parts[first + 192u]);
        v = v * alpha;
        if (PRESENT(bias)) v = v + beta * bias[i64(i) * bias_row + i64(j) * bias_column];
        y[(i64(batch) * i64(m) + i64(i)) * i64(n) + i64(j)] = v;
      }
    }
  }
);

/* Few rows, b transposed: 8 columns a group, 32 threads along k for each. */
static const char few_rows_transposed[] = RLX_GPU_TEXT(
  u32 lane = LOCAL_ID & 31u;
  u32 across = (n + 7u) / 8u;
  for (u32 index = GROUP_ID; index < across * tiles; index += GROUPS) {
    u32 batch = index / across;
    u32 j = (index - batch * across) * 8u + (LOCAL_ID >> 5u);
    BASES
    f32 r[8];
    UNROLL for (u32 i = 0u; i < 8u; i++) r[i] = 0.0f;
    if (j < n) {
      for (u32 c = lane; c < k; c += 32u) {
        f32 v = b[b_base + i64(c) * b_row + i64(j) * b_column];
        i64 at = a_base + i64(c) * a_column;
        UNROLL for (u32 i = 0u; i < 8u; i++) {
          if (i < m) r[i] = FMA(a[at + i64(i) * a_row], v, r[i]);
        }
      }
    }
    BARRIER();
    UNROLL for (u32 i = 0u; i < 8u; i++) parts[i * 256u + LOCAL_ID] = r[i];
    BARRIER();
    for (u32 s = 16u; s > 0u; s = s >> 1u) {
      if (lane < s) {
        for (u32 i = 0u; i < m; i++) parts[i * 256u + LOCAL_ID] = parts[i * 256u + LOCAL_ID] + parts[i * 256u + LOCAL_ID + s];
      }
      BARRIER();
    }
    if (j < n && lane < m) {
      f32 v = parts[lane * 256u + (LOCAL_ID & 224u)] * alpha;
      if (PRESENT(bias)) v = v + beta * bias[i64(lane) * bias_row + i64(j) * bias_column];
      y[(i64(batch) * i64(m) + i64(lane)) * i64(n) + i64(j)] = v;
    }
  }
);
/* clang-format on */

static rlx_status make_tiles(rlx_gpu_text *t, int per) {
  const gemm_text g = {.per = per,
                       .tile = bases,
                       .load_a = load_a,
                       .load_b = load_b,
                       .a_by_columns = "a_column == i64(1)",
                       .b_by_rows = "b_column != i64(1)",
                       .store = store_y};
  return gemm_write(t, &g);
}

/* The text with BASES filled in. */
static rlx_status write_few(rlx_gpu_text *t, const char *s) {
  const char *mark = strstr(s, "BASES");
  rlx_gpu_write(t, "%.*s%s%s", (int)(mark - s), s, bases, mark + 5);
  return RLX_OK;
}

static rlx_status make_small(rlx_gpu_text *t, const rlx_node *n) {
  (void)n;
  return make_tiles(t, 4);
}
static rlx_status make_large(rlx_gpu_text *t, const rlx_node *n) {
  (void)n;
  return make_tiles(t, 8);
}
static rlx_status make_few(rlx_gpu_text *t, const rlx_node *n) {
  (void)n;
  return write_few(t, few_rows);
}
static rlx_status make_few_transposed(rlx_gpu_text *t, const rlx_node *n) {
  (void)n;
  return write_few(t, few_rows_transposed);
}

static const rlx_gpu_arg args[] = {ARG_IN("a", 0),
                                   ARG_IN("b", 1),
                                   ARG_IN("bias", 2),
                                   ARG_OUT("y", 0),
                                   GEMM_ARGS,
                                   ARG_SCALAR("a_row", "i64"),
                                   ARG_SCALAR("a_column", "i64"),
                                   ARG_SCALAR("b_row", "i64"),
                                   ARG_SCALAR("b_column", "i64"),
                                   ARG_SCALAR("bias_row", "i64"),
                                   ARG_SCALAR("bias_column", "i64"),
                                   ARG_SCALAR("alpha", "f32"),
                                   ARG_SCALAR("beta", "f32"),
                                   ARG_SCALAR("quads_a", "u32"),
                                   ARG_SCALAR("quads_b", "u32"),
                                   ARG_SCALAR("quads_y", "u32"),
                                   ARG_SCALAR("batch_rank", "u32"),
                                   ARG_LIST("batch_dims", "u32", MAX_BATCH_RANK),
                                   ARG_LIST("a_step", "i64", MAX_BATCH_RANK),
                                   ARG_LIST("b_step", "i64", MAX_BATCH_RANK),
                                   {0}};
static const rlx_gpu_shared parts[] = {{"parts", "f32", 8 * 256}, {0}};
enum { SMALL, LARGE, FEW, FEW_TRANSPOSED };
static const rlx_gpu_function functions[] = {
    [SMALL] = {.name = "gemm_small", .args = args, .shared = gemm_shared_4, .make_body = make_small},
    [LARGE] = {.name = "gemm_large", .args = args, .shared = gemm_shared_8, .make_body = make_large},
    [FEW] = {.name = "gemm_few_rows", .args = args, .shared = parts, .make_body = make_few},
    [FEW_TRANSPOSED] = {.name = "gemm_few_rows_transposed",
                        .args = args,
                        .shared = parts,
                        .make_body = make_few_transposed},
    {0},
};

/* ---- launching ---- */

static void set_strides(rlx_gpu_dispatch *d, const matmul_shape *s, bool trans_a, bool trans_b) {
  int64_t a_step[RLX_MAX_RANK], b_step[RLX_MAX_RANK];
  bool steps_even_a = true, steps_even_b = true;
  for (int i = 0; i < s->rank; i++) {
    a_step[i] = s->a_step[i] * s->m * s->k;
    b_step[i] = s->b_step[i] * s->k * s->n;
    steps_even_a &= a_step[i] % 4 == 0;
    steps_even_b &= b_step[i] % 4 == 0;
  }
  rlx_gpu_set_int(d, "a_row", trans_a ? 1 : s->k);
  rlx_gpu_set_int(d, "a_column", trans_a ? s->m : 1);
  rlx_gpu_set_int(d, "b_row", trans_b ? 1 : s->n);
  rlx_gpu_set_int(d, "b_column", trans_b ? s->k : 1);
  rlx_gpu_set_int(d, "quads_a", trans_a && s->m % 4 == 0 && steps_even_a);
  rlx_gpu_set_int(d, "quads_b", !trans_b && s->n % 4 == 0 && steps_even_b);
  rlx_gpu_set_int(d, "quads_y", s->n % 4 == 0);
  rlx_gpu_set_int(d, "batch_rank", s->rank);
  rlx_gpu_set_ints(d, "batch_dims", s->batch, s->rank);
  rlx_gpu_set_ints(d, "a_step", a_step, s->rank);
  rlx_gpu_set_ints(d, "b_step", b_step, s->rank);
}

static rlx_status launch_product(rlx_gpu_dispatch *d, const matmul_shape *s, bool trans_a, bool trans_b) {
  if (s->m == 0 || s->n == 0 || s->count == 0) return RLX_OK;
  if (s->rank > MAX_BATCH_RANK) return RLX_FAIL(UNSUPPORTED, "a batch of more than %d dims", MAX_BATCH_RANK);
  set_strides(d, s, trans_a, trans_b);
  if (s->m > FEW_ROWS) {
    int per = gemm_per(s->m, s->n, s->count);
    return gemm_launch(d, per == 8 ? LARGE : SMALL, per, s->m, s->n, s->k, s->count);
  }
  int64_t across = trans_b ? (s->n + 7) / 8 : (s->n + 63) / 64;
  RLX_TRY(launch_fits(across * s->count));
  RLX_TRY(launch_fits(s->n > s->k ? s->n : s->k));
  rlx_gpu_set_int(d, "m", s->m);
  rlx_gpu_set_int(d, "n", s->n);
  rlx_gpu_set_int(d, "k", s->k);
  rlx_gpu_set_int(d, "tiles", s->count);
  rlx_gpu_set_int(d, "tiles_m", 1);
  rlx_gpu_set_int(d, "tiles_n", 1);
  return launch_items(d, trans_b ? FEW_TRANSPOSED : FEW, across * s->count, 1);
}

static rlx_status encode_matmul(rlx_gpu_dispatch *d) {
  const rlx_operand *a = rlx_gpu_input(d, 0), *b = rlx_gpu_input(d, 1);
  matmul_shape s;
  const char *wrong = matmul_resolve(a->rank, a->dims, b->rank, b->dims, &s);
  if (wrong) return RLX_FAIL(INVALID, "%s", wrong);
  /* One batch of rows where B is the same for all of A. */
  bool shared_b = a->rank > 2 && s.count > 1;
  for (int i = 0; i < s.rank; i++) shared_b &= s.b_step[i] == 0 || s.batch[i] == 1;
  if (shared_b && a->count == s.count * s.m * s.k) {
    s.m *= s.count;
    s.count = 1;
    s.rank = 0;
  }
  rlx_gpu_set_int(d, "bias_row", 0);
  rlx_gpu_set_int(d, "bias_column", 0);
  rlx_gpu_set_float(d, "alpha", 1);
  rlx_gpu_set_float(d, "beta", 0);
  return launch_product(d, &s, false, false);
}

static rlx_status encode_gemm(rlx_gpu_dispatch *d) {
  const gemm_params *p = rlx_gpu_params(d);
  const rlx_operand *a = rlx_gpu_input(d, 0), *b = rlx_gpu_input(d, 1), *c = rlx_gpu_input(d, 2);
  matmul_shape s = {.count = 1};
  s.m = a->dims[p->trans_a ? 1 : 0];
  s.k = a->dims[p->trans_a ? 0 : 1];
  s.n = b->dims[p->trans_b ? 0 : 1];
  int64_t columns = c && c->rank > 0 ? c->dims[c->rank - 1] : 1, rows = c && c->rank > 1 ? c->dims[c->rank - 2] : 1;
  rlx_gpu_set_int(d, "bias_row", rows == 1 ? 0 : columns);
  rlx_gpu_set_int(d, "bias_column", columns == 1 ? 0 : 1);
  rlx_gpu_set_float(d, "alpha", (double)p->alpha);
  rlx_gpu_set_float(d, "beta", (double)p->beta);
  return launch_product(d, &s, p->trans_a != 0, p->trans_b != 0);
}

static const char *why_not(const rlx_node *n) {
  const char *wrong = NULL;
  for (int i = 0; i < rlx_node_input_count(n) && !wrong; i++) wrong = launch_needs_real(n, i);
  return wrong;
}

static const rlx_gpu_kernel matmul = {
    .struct_size = sizeof(rlx_gpu_kernel),
    .head = {.op = "onnx.MatMul", .name = "tiles", .min_align = 16, .why_not = why_not},
    .functions = functions,
    .encode = encode_matmul,
};
static const rlx_gpu_kernel gemm = {
    .struct_size = sizeof(rlx_gpu_kernel),
    .head = {.op = "onnx.Gemm",
             .version_min = 7,
             .version_max = INT32_MAX,
             .name = "tiles",
             .min_align = 16,
             .why_not = why_not},
    .functions = functions,
    .encode = encode_gemm,
};

static const rlx_gpu_kernel *const kernels[] = {&matmul, &gemm, NULL};
const rlx_module gpu_matmul = {.gpu_kernels = kernels};
