/* conv.c — convolution and its transpose on GPUs: an implicit product, or a thread a result where maps are few. */
#include "ops/conv.h"
#include "backend/gpu/kernels/_gemm.h"
#include "backend/gpu/kernels/_launch.h"
#include "ops/convtranspose.h"

enum { SPACE = 3, FEW_MAPS = 16 }; /* spatial dims of the texts: those missing are 1 */

/* ---- texts ---- */

/* clang-format off */
/* y[batch, group, maps, pixels] = w[group, maps, taps] · x[taps, pixels]: taps are channel and place in the window. */
static const char tile_setup[] = RLX_GPU_TEXT(
  u32 item = batch / groups;
  u32 group = batch - item * groups;
  i64 x_base = (i64(item) * i64(groups) + i64(group)) * i64(channels) * i64(pixels_in);
  i64 w_base = i64(group) * i64(m) * i64(k);
);
static const char load_weights[] = RLX_GPU_TEXT(
  i64 at = w_base + i64(i) * i64(k) + i64(c);
  if (i < m) v0 = w[at];
  if (i + 1u < m) v1 = w[at + i64(k)];
  if (i + 2u < m) v2 = w[at + i64(k) * i64(2)];
  if (i + 3u < m) v3 = w[at + i64(k) * i64(3)];
);
/* Four neighbouring pixels of one tap. */
static const char load_pixels[] = RLX_GPU_TEXT(
  u32 channel = c / window_count;
  u32 tap = c - channel * window_count;
  u32 tap_line = tap / window[2];
  u32 tap_z = tap_line / window[1];
  i32 dz = i32(tap_z) * dilation[0] - begin[0];
  i32 dy = i32(tap_line - tap_z * window[1]) * dilation[1] - begin[1];
  i32 dx = i32(tap - tap_line * window[2]) * dilation[2] - begin[2];
  i64 plane = x_base + i64(channel) * i64(pixels_in);
  u32 line = j / size_out[2];
  u32 px = j - line * size_out[2];
  u32 pz = line / size_out[1];
  u32 py = line - pz * size_out[1];
  for (u32 e = 0u; e < 4u; e++) {
    i32 z = i32(pz) * stride[0] + dz;
    i32 l = i32(py) * stride[1] + dy;
    i32 q = i32(px) * stride[2] + dx;
    f32 v = 0.0f;
    if (j + e < n && z >= 0 && z < size_in[0] && l >= 0 && l < size_in[1] && q >= 0 && q < size_in[2])
      v = x[plane + (i64(z) * i64(size_in[1]) + i64(l)) * i64(size_in[2]) + i64(q)];
    if (e == 0u) v0 = v;
    if (e == 1u) v1 = v;
    if (e == 2u) v2 = v;
    if (e == 3u) v3 = v;
    px = px + 1u;
    if (px == size_out[2]) {
      px = 0u;
      py = py + 1u;
      if (py == size_out[1]) {
        py = 0u;
        pz = pz + 1u;
      }
    }
  }
);
static const char store_pixels[] = RLX_GPU_TEXT(
  i64 at = ((i64(batch) * i64(m)) + i64(i)) * i64(n) + i64(j);
  if (PRESENT(bias)) {
    f32 more = bias[i64(group) * i64(m) + i64(i)];
    v0 = v0 + more; v1 = v1 + more; v2 = v2 + more; v3 = v3 + more;
  }
  if (n - n / 4u * 4u == 0u) {
    STORE4(y, at, F32X4(v0, v1, v2, v3));
  } else {
    y[at] = v0;
    if (j + 1u < n) y[at + i64(1)] = v1;
    if (j + 2u < n) y[at + i64(2)] = v2;
    if (j + 3u < n) y[at + i64(3)] = v3;
  }
);

/* One result a thread: depthwise, and groups of few maps. */
static const char direct_body[] = RLX_GPU_TEXT(
  for (u32 o = GLOBAL_ID; o < tiles; o += GLOBAL_SIZE) {
    u32 map = o / n;
    u32 j = o - map * n;
    u32 item = map / (groups * m);
    map = map - item * groups * m;
    u32 group = map / m;
    u32 line = j / size_out[2];
    i32 px = i32(j - line * size_out[2]) * stride[2] - begin[2];
    u32 pz_u = line / size_out[1];
    i32 py = i32(line - pz_u * size_out[1]) * stride[1] - begin[1];
    i32 pz = i32(pz_u) * stride[0] - begin[0];
    i64 x_base = (i64(item) * i64(groups) + i64(group)) * i64(channels) * i64(pixels_in);
    i64 at = i64(map) * i64(k);
    f32 sum = 0.0f;
    for (u32 c = 0u; c < channels; c++) {
      for (u32 a = 0u; a < window[0]; a++) {
        for (u32 b = 0u; b < window[1]; b++) {
          i32 z = pz + i32(a) * dilation[0];
          i32 l = py + i32(b) * dilation[1];
          if (z >= 0 && z < size_in[0] && l >= 0 && l < size_in[1]) {
            i64 row = x_base + (i64(z) * i64(size_in[1]) + i64(l)) * i64(size_in[2]);
            for (u32 e = 0u; e < window[2]; e++) {
              i32 q = px + i32(e) * dilation[2];
              if (q >= 0 && q < size_in[2]) sum = FMA(w[at + i64(e)], x[row + i64(q)], sum);
            }
          }
          at = at + i64(window[2]);
        }
      }
      x_base = x_base + i64(pixels_in);
    }
    if (PRESENT(bias)) sum = sum + bias[map];
    y[o] = sum;
  }
);

/* Transposed: what reaches a result. w is channels × maps × window; size_in is that of the result. */
static const char transposed_body[] = RLX_GPU_TEXT(
  for (u32 o = GLOBAL_ID; o < tiles; o += GLOBAL_SIZE) {
    u32 map = o / pixels_in;
    u32 j = o - map * pixels_in;
    u32 item = map / (groups * m);
    map = map - item * groups * m;
    u32 group = map / m;
    u32 own = map - group * m;
    u32 line = j / u32(size_in[2]);
    i32 px = i32(j - line * u32(size_in[2])) + begin[2];
    u32 pz_u = line / u32(size_in[1]);
    i32 py = i32(line - pz_u * u32(size_in[1])) + begin[1];
    i32 pz = i32(pz_u) + begin[0];
    f32 sum = 0.0f;
    for (u32 a = 0u; a < window[0]; a++) {
      i32 z = pz - i32(a) * dilation[0];
      i32 sz = z / stride[0];
      if (z >= 0 && sz * stride[0] == z && sz < i32(size_out[0])) {
        for (u32 b = 0u; b < window[1]; b++) {
          i32 l = py - i32(b) * dilation[1];
          i32 sl = l / stride[1];
          if (l >= 0 && sl * stride[1] == l && sl < i32(size_out[1])) {
            for (u32 e = 0u; e < window[2]; e++) {
              i32 q = px - i32(e) * dilation[2];
              i32 sq = q / stride[2];
              if (q >= 0 && sq * stride[2] == q && sq < i32(size_out[2])) {
                i64 from = (i64(item) * i64(groups) + i64(group)) * i64(channels) * i64(n)
                         + (i64(sz) * i64(size_out[1]) + i64(sl)) * i64(size_out[2]) + i64(sq);
                i64 at = (i64(group) * i64(channels) * i64(m) + i64(own)) * i64(window_count)
                       + i64((a * window[1] + b) * window[2] + e);
                for (u32 c = 0u; c < channels; c++) {
                  sum = FMA(x[from], w[at], sum);
                  from = from + i64(n);
                  at = at + i64(m) * i64(window_count);
                }
              }
            }
          }
        }
      }
    }
    if (PRESENT(bias)) sum = sum + bias[map];
    y[o] = sum;
  }
);
/* clang-format on */

static rlx_status make_tiles(rlx_gpu_text *t, int per) {
  const gemm_text g = {.per = per,
                       .tile = tile_setup,
                       .load_a = load_weights,
                       .load_b = load_pixels,
                       .a_by_columns = "true",
                       .b_by_rows = "false",
                       .store = store_pixels};
  return gemm_write(t, &g);
}
static rlx_status make_small(rlx_gpu_text *t, const rlx_node *n) {
  (void)n;
  return make_tiles(t, 4);
}
static rlx_status make_large(rlx_gpu_text *t, const rlx_node *n) {
  (void)n;
  return make_tiles(t, 8);
}

static const rlx_gpu_arg args[] = {ARG_IN("x", 0),
                                   ARG_IN("w", 1),
                                   ARG_IN("bias", 2),
                                   ARG_OUT("y", 0),
                                   GEMM_ARGS,
                                   ARG_SCALAR("groups", "u32"),
                                   ARG_SCALAR("channels", "u32"),
                                   ARG_SCALAR("pixels_in", "u32"),
                                   ARG_SCALAR("window_count", "u32"),
                                   ARG_LIST("window", "u32", SPACE),
                                   ARG_LIST("size_in", "i32", SPACE),
                                   ARG_LIST("size_out", "u32", SPACE),
                                   ARG_LIST("stride", "i32", SPACE),
                                   ARG_LIST("dilation", "i32", SPACE),
                                   ARG_LIST("begin", "i32", SPACE),
                                   {0}};
enum { SMALL, LARGE, DIRECT };
static const rlx_gpu_function conv_functions[] = {
    [SMALL] = {.name = "conv_small", .args = args, .shared = gemm_shared_4, .make_body = make_small},
    [LARGE] = {.name = "conv_large", .args = args, .shared = gemm_shared_8, .make_body = make_large},
    [DIRECT] = {.name = "conv_direct", .args = args, .body = direct_body},
    {0},
};
static const rlx_gpu_function transposed_functions[] = {
    {.name = "conv_transposed", .args = args, .body = transposed_body}, {0}};

/* ---- launching ---- */

/* Sets a list of the window, its dims moved to the end of three. */
static void set_space(rlx_gpu_dispatch *d, const char *name, int rank, const int64_t *values, int64_t missing) {
  int64_t all[SPACE] = {missing, missing, missing};
  for (int i = 0; i < rank; i++) all[SPACE - rank + i] = values[i];
  rlx_gpu_set_ints(d, name, all, SPACE);
}

static rlx_status set_window(rlx_gpu_dispatch *d, const window *w, int64_t groups, int64_t channels) {
  if (w->rank > SPACE) return RLX_FAIL(UNSUPPORTED, "more than %d spatial dims", SPACE);
  RLX_TRY(launch_fits(window_in_count(w)));
  set_space(d, "window", w->rank, w->kernel, 1);
  set_space(d, "size_in", w->rank, w->in, 1);
  set_space(d, "size_out", w->rank, w->out, 1);
  set_space(d, "stride", w->rank, w->stride, 1);
  set_space(d, "dilation", w->rank, w->dilation, 1);
  set_space(d, "begin", w->rank, w->begin, 0);
  rlx_gpu_set_int(d, "groups", groups);
  rlx_gpu_set_int(d, "channels", channels);
  rlx_gpu_set_int(d, "pixels_in", window_in_count(w));
  rlx_gpu_set_int(d, "window_count", window_kernel_count(w));
  return RLX_OK;
}

/* A thread a result. */
static rlx_status launch_direct(rlx_gpu_dispatch *d, int function, int64_t m, int64_t n, int64_t k, int64_t count) {
  RLX_TRY(launch_fits(count));
  RLX_TRY(launch_fits(k));
  rlx_gpu_set_int(d, "m", m);
  rlx_gpu_set_int(d, "n", n);
  rlx_gpu_set_int(d, "k", k);
  rlx_gpu_set_int(d, "tiles", count);
  rlx_gpu_set_int(d, "tiles_m", 1);
  rlx_gpu_set_int(d, "tiles_n", 1);
  return launch_items(d, function, count, 256);
}

static rlx_status encode_conv(rlx_gpu_dispatch *d) {
  const rlx_operand *x = rlx_gpu_input(d, 0), *w = rlx_gpu_input(d, 1), *y = rlx_gpu_output(d, 0);
  conv_shape s;
  const char *wrong = conv_resolve(rlx_gpu_params(d), x->rank, x->dims, w->rank, w->dims, &s);
  if (wrong) return RLX_FAIL(INVALID, "%s", wrong);
  if (y->count == 0) return RLX_OK;
  int64_t maps = s.maps / s.group, channels = s.channels / s.group, pixels = window_out_count(&s.window);
  int64_t taps = channels * window_kernel_count(&s.window);
  RLX_TRY(set_window(d, &s.window, s.group, channels));
  if (maps < FEW_MAPS) return launch_direct(d, DIRECT, maps, pixels, taps, y->count);
  int per = gemm_per(maps, pixels, s.batch * s.group);
  return gemm_launch(d, per == 8 ? LARGE : SMALL, per, maps, pixels, taps, s.batch * s.group);
}

static rlx_status encode_transposed(rlx_gpu_dispatch *d) {
  const rlx_operand *x = rlx_gpu_input(d, 0), *w = rlx_gpu_input(d, 1), *y = rlx_gpu_output(d, 0);
  convtranspose_shape s;
  const char *wrong = convtranspose_resolve(rlx_gpu_params(d), x->rank, x->dims, w->rank, w->dims, &s);
  if (wrong) return RLX_FAIL(INVALID, "%s", wrong);
  if (y->count == 0) return RLX_OK;
  int64_t channels = s.channels / s.group;
  RLX_TRY(set_window(d, &s.window, s.group, channels));
  return launch_direct(d, 0, s.maps / s.group, window_out_count(&s.window), channels, y->count);
}

static const char *why_not(const rlx_node *n) {
  const char *wrong = NULL;
  for (int i = 0; i < rlx_node_input_count(n) && !wrong; i++) wrong = launch_needs_real(n, i);
  const rlx_type *x = rlx_node_input_type(n, 0);
  if (!wrong && x->rank > SPACE + 2) wrong = rlx_reason("more than %d spatial dims", SPACE);
  return wrong;
}

static const rlx_gpu_kernel conv = {
    .struct_size = sizeof(rlx_gpu_kernel),
    .head = {.op = "onnx.Conv", .name = "implicit", .min_align = 16, .why_not = why_not},
    .functions = conv_functions,
    .encode = encode_conv,
};
static const rlx_gpu_kernel transposed = {
    .struct_size = sizeof(rlx_gpu_kernel),
    .head = {.op = "onnx.ConvTranspose", .name = "direct", .why_not = why_not},
    .functions = transposed_functions,
    .encode = encode_transposed,
};

static const rlx_gpu_kernel *const kernels[] = {&conv, &transposed, NULL};
const rlx_module gpu_conv = {.gpu_kernels = kernels};
