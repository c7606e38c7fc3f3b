/* resize.c — Resize on GPUs. Every coordinate mode is a straight line from output to input positions: it comes as two
 * numbers an axis, with 40 binary digits after the point; 20 of them are kept, so that halves are halves. */
#include <math.h>
#include <string.h>

#include "backend/gpu/kernels/_launch.h"
#include "base/memory.h"
#include "ops/_resize.h"

enum { MAX_RANK = 6, NEAREST = 0, BLEND = 1 };

/* clang-format off */
static const char nearest_body[] = RLX_GPU_TEXT(
  for (u32 i = GLOBAL_ID; i < n; i += GLOBAL_SIZE) {
    u32 rest = i;
    i64 from = i64(0);
    bool outside = false;
    for (u32 d = rank; d > 0u; d--) {
      u32 next = rest / dims[d - 1u];
      i64 at = (i64(rest - next * dims[d - 1u]) * slope[d - 1u] + offset[d - 1u] + i64(524288)) >> 20u;
      rest = next;
      i64 low = at >> 20u;
      i64 part = at - (low << 20u);
      i64 end = i64(size[d - 1u] - 1);
      if (crop != 0u && (at < i64(0) || at > (end << 20u))) outside = true;
      u32 round = rounding == 4u ? (shrinks[d - 1u] != 0u ? 3u : 2u) : rounding;
      bool up = part > i64(0) && (round == 3u || (round == 0u && part > i64(524288)) || (round == 1u && part >= i64(524288)));
      low = up ? low + i64(1) : low;
      low = low < i64(0) ? i64(0) : low > end ? end : low;
      from = from + low * step[d - 1u];
    }
    if (outside) y[i] = y_t(0);
    else y[i] = x[from];
  }
);
static const char blend_helpers[] = RLX_GPU_TEXT(
  FN f32 weight_at(f32 distance, u32 cubic, f32 a) {
    f32 x = ABS(distance);
    if (cubic == 0u) return x < 1.0f ? 1.0f - x : 0.0f;
    if (x <= 1.0f) return ((a + 2.0f) * x - (a + 3.0f)) * x * x + 1.0f;
    return x < 2.0f ? ((a * x - 5.0f * a) * x + 8.0f * a) * x - 4.0f * a : 0.0f;
  }
);
static const char blend_body[] = RLX_GPU_TEXT(
  for (u32 i = GLOBAL_ID; i < n; i += GLOBAL_SIZE) {
    u32 rest = i;
    bool outside = false;
    i32 first[6];
    f32 shift[6];
    f32 norm[6];
    u32 all = 1u;
    for (u32 d = rank; d > 0u; d--) {
      u32 next = rest / dims[d - 1u];
      i64 at = (i64(rest - next * dims[d - 1u]) * slope[d - 1u] + offset[d - 1u] + i64(524288)) >> 20u;
      rest = next;
      i64 low = at >> 20u;
      i64 part = at - (low << 20u);
      i64 end = i64(size[d - 1u] - 1);
      if (crop != 0u && (at < i64(0) || at > (end << 20u))) outside = true;
      f32 fraction = f32(part) * 9.5367431640625e-07f;
      i32 ahead = (part > i64(0) ? 1 : 0) - i32(taps[d - 1u] / 2u);
      first[d - 1u] = i32(low) + ahead;
      shift[d - 1u] = f32(ahead) - fraction;
      all = all * taps[d - 1u];
      f32 sum = 0.0f;
      for (u32 k = 0u; k < taps[d - 1u]; k++) {
        i32 place = first[d - 1u] + i32(k);
        bool inside = place >= 0 && place < size[d - 1u];
        f32 w = weight_at((shift[d - 1u] + f32(k)) * narrow[d - 1u], cubic, cubic_a);
        sum = sum + (exclude != 0u && !inside ? 0.0f : w);
      }
      norm[d - 1u] = (exclude != 0u || narrow[d - 1u] < 1.0f) && sum != 0.0f ? 1.0f / sum : 1.0f;
    }
    f32 total = 0.0f;
    for (u32 t = 0u; t < all; t++) {
      u32 left = t;
      i64 from = i64(0);
      f32 w = 1.0f;
      for (u32 d = rank; d > 0u; d--) {
        u32 next = left / taps[d - 1u];
        u32 k = left - next * taps[d - 1u];
        left = next;
        i32 place = first[d - 1u] + i32(k);
        bool inside = place >= 0 && place < size[d - 1u];
        if (taps[d - 1u] > 1u) {
          f32 own = weight_at((shift[d - 1u] + f32(k)) * narrow[d - 1u], cubic, cubic_a) * norm[d - 1u];
          w = exclude != 0u && !inside ? 0.0f : w * own;
        }
        place = place < 0 ? 0 : inside ? place : size[d - 1u] - 1;
        from = from + i64(place) * step[d - 1u];
      }
      if (w != 0.0f) total = FMA(w, x[from], total);
    }
    y[i] = outside ? beyond : total;
  }
);
/* clang-format on */

#define PLACES                                                                                                         \
  ARG_SCALAR("n", "u32"), ARG_SCALAR("rank", "u32"), ARG_SCALAR("crop", "u32"), ARG_LIST("dims", "u32", MAX_RANK),       \
      ARG_LIST("size", "i32", MAX_RANK), ARG_LIST("slope", "i64", MAX_RANK), ARG_LIST("offset", "i64", MAX_RANK),        \
      ARG_LIST("step", "i64", MAX_RANK)
static const rlx_gpu_arg nearest_args[] = {ARG_IN_BITS("x", 0),
                                           ARG_OUT_BITS("y", 0),
                                           PLACES,
                                           ARG_SCALAR("rounding", "u32"),
                                           ARG_LIST("shrinks", "u32", MAX_RANK),
                                           {0}};
static const rlx_gpu_arg blend_args[] = {ARG_IN("x", 0),
                                         ARG_OUT("y", 0),
                                         PLACES,
                                         ARG_SCALAR("cubic", "u32"),
                                         ARG_SCALAR("exclude", "u32"),
                                         ARG_SCALAR("cubic_a", "f32"),
                                         ARG_SCALAR("beyond", "f32"),
                                         ARG_LIST("taps", "u32", MAX_RANK),
                                         ARG_LIST("narrow", "f32", MAX_RANK),
                                         {0}};
static const rlx_gpu_function functions[] = {
    [NEAREST] = {.name = "resize_nearest", .args = nearest_args, .body = nearest_body},
    [BLEND] = {.name = "resize_blend", .args = blend_args, .functions = blend_helpers, .body = blend_body},
    {0},
};

/* ---- planning ---- */

typedef struct plan {
  bool nearest, cubic, crop;
  int rounding;
  int64_t slope[MAX_RANK], offset[MAX_RANK], taps[MAX_RANK], shrinks[MAX_RANK];
  double narrow[MAX_RANK];
} plan;

static int position(rlx_string s, const char *const *names) {
  for (int i = 0; names[i]; i++)
    if (strlen(names[i]) == s.size && memcmp(names[i], s.data, s.size) == 0) return i;
  return -1;
}

static int coordinates_of(const resize_params *p) {
  static const char *const names[] = {"half_pixel", "half_pixel_symmetric", "pytorch_half_pixel",   "align_corners",
                                      "asymmetric", "tf_crop_and_resize",   "tf_half_pixel_for_nn", NULL};
  return position(p->coordinates, names);
}
static int mode_of(const resize_params *p) {
  return position(p->mode, (const char *const[]){"nearest", "linear", "cubic", NULL});
}

/* The input position at is slope * j + offset of output position j. */
static void line(int coordinates, const resize_request *r, int d, double *slope, double *offset) {
  double scale = r->scale[d], in = (double)r->in[d], out = scale * in, span = r->roi_end[d] - r->roi_start[d];
  *slope = 1 / scale;
  *offset = 0.5 / scale - 0.5;
  switch (coordinates) {
    case 1: *offset += in / 2 * (1 - (double)r->out[d] / out); break;
    case 2:
      if (out == 1) *slope = 0, *offset = -0.5;
      break;
    case 3:
      *slope = out == 1 ? 0 : (in - 1) / (out - 1);
      *offset = 0;
      break;
    case 4: *offset = 0; break;
    case 5:
      *slope = out == 1 ? 0 : span * (in - 1) / (out - 1);
      *offset = r->roi_start[d] * (in - 1) + (out == 1 ? span * (in - 1) / 2 : 0);
      break;
    case 6: *offset = 0.5 / scale; break;
    default: break;
  }
}

static void plan_axis(const resize_params *p, const resize_request *r, int d, plan *k) {
  double slope = 1, offset = 0, scale = r->scale[d], half = k->cubic ? 2 : 1;
  bool whole = !r->has_roi || (r->roi_start[d] == 0 && r->roi_end[d] == 1);
  bool same = r->in[d] == r->out[d] && fabs(scale - 1) <= 1e-9 && whole;
  if (!same) line(coordinates_of(p), r, d, &slope, &offset);
  k->slope[d] = llround(ldexp(slope, 40));
  k->offset[d] = llround(ldexp(offset, 40));
  k->narrow[d] = !same && p->antialias && scale < 1 ? scale : 1;
  k->shrinks[d] = scale < 1;
  k->taps[d] = same || k->nearest ? 1
               : k->narrow[d] < 1 ? (int64_t)(2 - 2 * (floor(-half / scale) + 1))
                                  : (int64_t)(2 * half);
}

static const rlx_tensor *given(const rlx_bound *b, int i) {
  const rlx_tensor *t = rlx_bound_input(b, i) ? rlx_bound_constant(b, i) : NULL;
  return t && rlx_tensor_count(t) ? t : NULL;
}

static rlx_status prepare(rlx_bound *b, void **state) {
  const resize_params *p = rlx_bound_params(b);
  const rlx_type *x = rlx_bound_input(b, 0);
  const rlx_tensor *roi = given(b, 1), *scales = given(b, 2), *sizes = given(b, 3);
  const resize_inputs in = {.roi = roi ? rlx_tensor_data(roi) : NULL,
                            .roi_dtype = roi ? rlx_tensor_dtype(roi) : RLX_FLOAT,
                            .roi_count = roi ? rlx_tensor_count(roi) : 0,
                            .scales = scales ? rlx_tensor_data(scales) : NULL,
                            .scale_count = scales ? rlx_tensor_count(scales) : 0,
                            .sizes = sizes ? rlx_tensor_data(sizes) : NULL,
                            .size_count = sizes ? rlx_tensor_count(sizes) : 0};
  resize_request r;
  RLX_TRY(resize_request_of(b, p, x->rank, x->dims, &in, &r));
  static const char *const rounding[] = {
      "round_prefer_floor", "round_prefer_ceil", "floor", "ceil", RESIZE_SIMPLE, NULL};
  plan *k = mem_zalloc(sizeof *k);
  if (!k) return rlx_fail(b, RLX_OUT_OF_MEMORY, "no memory for %zu bytes", sizeof *k);
  k->nearest = mode_of(p) == 0;
  k->cubic = mode_of(p) == 2;
  k->crop = coordinates_of(p) == 5;
  k->rounding = position(p->nearest_mode, rounding);
  for (int d = 0; d < x->rank; d++) plan_axis(p, &r, d, k);
  *state = k;
  return RLX_OK;
}

static rlx_status encode(rlx_gpu_dispatch *d) {
  const resize_params *p = rlx_gpu_params(d);
  const plan *k = rlx_gpu_state(d);
  const rlx_operand *x = rlx_gpu_input(d, 0), *y = rlx_gpu_output(d, 0);
  int64_t step[RLX_MAX_RANK];
  if (y->count == 0) return RLX_OK;
  if (x->count == 0) return RLX_FAIL(INVALID, "there is no element to resize");
  RLX_TRY(launch_fits(y->count));
  RLX_TRY(launch_fits(x->count));
  shape_strides(x->rank, x->dims, step);
  rlx_gpu_set_int(d, "n", y->count);
  rlx_gpu_set_int(d, "rank", x->rank);
  rlx_gpu_set_int(d, "crop", k->crop);
  rlx_gpu_set_ints(d, "dims", y->dims, x->rank);
  rlx_gpu_set_ints(d, "size", x->dims, x->rank);
  rlx_gpu_set_ints(d, "slope", k->slope, x->rank);
  rlx_gpu_set_ints(d, "offset", k->offset, x->rank);
  rlx_gpu_set_ints(d, "step", step, x->rank);
  rlx_gpu_set_int(d, "rounding", k->rounding);
  rlx_gpu_set_ints(d, "shrinks", k->shrinks, x->rank);
  rlx_gpu_set_int(d, "cubic", k->cubic);
  rlx_gpu_set_int(d, "exclude", p->exclude_outside != 0);
  rlx_gpu_set_float(d, "cubic_a", (double)p->cubic_a);
  rlx_gpu_set_float(d, "beyond", (double)p->extrapolation);
  rlx_gpu_set_ints(d, "taps", k->taps, x->rank);
  rlx_gpu_set_floats(d, "narrow", k->narrow, x->rank);
  return launch_items(d, k->nearest ? NEAREST : BLEND, y->count, 256);
}

static const char *why_not(const rlx_node *n) {
  const resize_params *p = rlx_node_params(n);
  const rlx_type *x = rlx_node_input_type(n, 0);
  if (x->rank < 0 || x->rank > MAX_RANK) return rlx_reason("a rank that is not known, or more than %d", MAX_RANK);
  if (!launch_real(x)) return launch_needs_real(n, 0);
  /* What lies outside is a number of the attribute, which only the blending text writes. */
  if (mode_of(p) == 0 && coordinates_of(p) == 5) return "nearest elements of a region";
  for (int i = 1; i < 4; i++)
    if (rlx_node_input_type(n, i) && !rlx_node_constant(n, i)) return rlx_depends_on_extents;
  return NULL;
}

static const char *why_not_bound(const rlx_bound *b) {
  for (int i = 1; i < 4; i++)
    if (rlx_bound_input(b, i) && !rlx_bound_constant(b, i)) return "scales or sizes are known only at the run";
  return NULL;
}

static const rlx_gpu_kernel resize = {
    .struct_size = sizeof(rlx_gpu_kernel),
    .head = {.op = "onnx.Resize",
             .version_min = 11,
             .version_max = INT32_MAX,
             .name = "positions",
             .why_not = why_not,
             .why_not_bound = why_not_bound,
             .prepare = prepare,
             .release = mem_free},
    .functions = functions,
    .encode = encode,
};
static const rlx_gpu_kernel *const kernels[] = {&resize, NULL};
const rlx_module gpu_resize = {.gpu_kernels = kernels};
