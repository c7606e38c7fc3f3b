/* _resize.c — what Resize does to each axis, as tables of positions and weights. */
#include "ops/_resize.h"

#include <math.h>
#include <string.h>

#include "base/memory.h"

typedef enum resize_mode { MODE_NEAREST, MODE_LINEAR, MODE_CUBIC } resize_mode;
typedef enum coordinates {
  HALF_PIXEL,
  HALF_PIXEL_SYMMETRIC,
  PYTORCH_HALF_PIXEL,
  ALIGN_CORNERS,
  ASYMMETRIC,
  CROP_AND_RESIZE,
  HALF_PIXEL_FOR_NN
} coordinates;
typedef enum nearest { PREFER_FLOOR, PREFER_CEIL, FLOOR, CEIL, SIMPLE } nearest;
typedef enum aspect { STRETCH, NOT_LARGER, NOT_SMALLER } aspect;

static const char *const mode_names[] = {"nearest", "linear", "cubic", NULL};
static const char *const coordinate_names[] = {
    "half_pixel", "half_pixel_symmetric", "pytorch_half_pixel",   "align_corners",
    "asymmetric", "tf_crop_and_resize",   "tf_half_pixel_for_nn", NULL};
/* The last is that of Resize 10: the floor where an axis grows, else the ceiling. */
static const char *const nearest_names[] = {
    "round_prefer_floor", "round_prefer_ceil", "floor", "ceil", RESIZE_SIMPLE, NULL};
static const char *const aspect_names[] = {"stretch", "not_larger", "not_smaller", NULL};

/* Index of text in names; -1 if it is none of them. */
static int find_name(rlx_string text, const char *const *names) {
  for (int i = 0; names[i]; i++)
    if (strlen(names[i]) == text.size && memcmp(names[i], text.data, text.size) == 0) return i;
  return -1;
}

static rlx_status check_name(const void *context, const char *what, rlx_string text, const char *const *names) {
  if (find_name(text, names) >= 0) return RLX_OK;
  return rlx_fail(context, RLX_INVALID, "%s is \"%.*s\"", what, (int)(text.size > 64 ? 64 : text.size), text.data);
}

rlx_status resize_check(const void *context, const resize_params *p) {
  rlx_status status = check_name(context, "mode", p->mode, mode_names);
  if (status == RLX_OK)
    status = check_name(context, "coordinate_transformation_mode", p->coordinates, coordinate_names);
  if (status == RLX_OK) status = check_name(context, "nearest_mode", p->nearest_mode, nearest_names);
  if (status == RLX_OK) status = check_name(context, "keep_aspect_ratio_policy", p->aspect, aspect_names);
  if (status == RLX_OK && p->antialias && find_name(p->mode, mode_names) == MODE_NEAREST)
    status = rlx_fail(context, RLX_INVALID, "antialias has no meaning in mode nearest");
  return status;
}

/* One scale for all axes: the least that any axis asks for, or the most. */
static void keep_aspect(aspect policy, const int64_t *axes, int n, resize_request *r) {
  double scale = r->scale[axes[0]];
  for (int i = 1; i < n; i++) {
    double s = r->scale[axes[i]];
    if (policy == NOT_LARGER ? s < scale : s > scale) scale = s;
  }
  for (int i = 0; i < n; i++) {
    r->scale[axes[i]] = scale;
    r->out[axes[i]] = (int64_t)floor(scale * (double)r->in[axes[i]] + 0.5);
  }
}

static rlx_status set_sizes(const void *context, const resize_params *p, const int64_t *sizes, const int_list *axes,
                            resize_request *r) {
  for (int i = 0; i < axes->count; i++) {
    int64_t d = axes->values[i], in = r->in[d];
    if (sizes[i] < 0 || (in == 0 && sizes[i] > 0))
      return rlx_fail(context, RLX_INVALID, "axis %lld of extent %lld cannot be resized to %lld", (long long)d,
                      (long long)in, (long long)sizes[i]);
    r->out[d] = sizes[i];
    r->scale[d] = in == RLX_UNKNOWN || in == 0 ? 1 : (double)sizes[i] / (double)in;
    if (in == RLX_UNKNOWN && find_name(p->aspect, aspect_names) != STRETCH) r->out[d] = RLX_UNKNOWN;
  }
  int policy = find_name(p->aspect, aspect_names);
  bool known = true;
  for (int i = 0; i < axes->count; i++) known = known && r->in[axes->values[i]] > 0;
  if (policy != STRETCH && axes->count && known)
    keep_aspect((aspect)policy, axes->values, axes->count, r);
  else if (policy != STRETCH)
    for (int i = 0; i < axes->count; i++) r->out[axes->values[i]] = RLX_UNKNOWN;
  return RLX_OK;
}

static rlx_status set_scales(const void *context, const float *scales, const int_list *axes, resize_request *r) {
  for (int i = 0; i < axes->count; i++) {
    int64_t d = axes->values[i];
    double scale = (double)scales[i];
    if (!(scale > 0 && scale < 1e9))
      return rlx_fail(context, RLX_INVALID, "the scale of axis %lld is %g", (long long)d, scale);
    r->scale[d] = scale;
    r->out[d] = RLX_UNKNOWN;
    if (r->in[d] == RLX_UNKNOWN) continue;
    double out = floor(scale * (double)r->in[d]);
    if (out > 1e15) return rlx_fail(context, RLX_INVALID, "axis %lld would be too large", (long long)d);
    r->out[d] = (int64_t)out;
  }
  return RLX_OK;
}

static rlx_status set_roi(const void *context, const resize_inputs *in, const int_list *axes, resize_request *r) {
  if (in->roi_count != 2 * (int64_t)axes->count)
    return rlx_fail(context, RLX_INVALID, "roi has %lld entries for %d axes", (long long)in->roi_count, axes->count);
  r->has_roi = true;
  for (int i = 0; i < axes->count; i++) {
    r->roi_start[axes->values[i]] = dtype_load(in->roi_dtype, in->roi, i);
    r->roi_end[axes->values[i]] = dtype_load(in->roi_dtype, in->roi, axes->count + i);
  }
  return RLX_OK;
}

rlx_status resize_request_of(const void *context, const resize_params *p, int rank, const int64_t *dims,
                             const resize_inputs *in, resize_request *out) {
  int_list axes = {.count = rank};
  rlx_status status = RLX_OK;
  out->rank = rank;
  out->has_roi = false;
  for (int d = 0; d < rank; d++) {
    axes.values[d] = d;
    out->in[d] = out->out[d] = dims[d];
    out->scale[d] = out->roi_end[d] = 1;
    out->roi_start[d] = 0;
  }
  if (p->given & RESIZE_GIVEN_AXES) {
    status = attr_ints(context, &p->axes, &axes);
    if (status == RLX_OK) status = axes_normalise(context, &axes, rank);
    if (status != RLX_OK) return status;
  }
  if ((in->size_count > 0) == (in->scale_count > 0))
    return rlx_fail(context, RLX_INVALID, "exactly one of scales and sizes must be given");
  int64_t count = in->size_count > 0 ? in->size_count : in->scale_count;
  if (count != axes.count)
    return rlx_fail(context, RLX_INVALID, "%lld %s for %d axes", (long long)count,
                    in->size_count > 0 ? "sizes" : "scales", axes.count);
  status =
      in->size_count > 0 ? set_sizes(context, p, in->sizes, &axes, out) : set_scales(context, in->scales, &axes, out);
  if (status != RLX_OK || find_name(p->coordinates, coordinate_names) != CROP_AND_RESIZE) return status;
  return in->roi_count > 0 ? set_roi(context, in, &axes, out) : RLX_OK;
}

/* ---- tables ------------------------------------------------------------------------------- */

/* The input coordinate of output position x; *outside: past the ends, in crop and resize only. */
static double coordinate(coordinates mode, const resize_request *r, int d, double x, bool *outside) {
  double scale = r->scale[d], in = (double)r->in[d], out = scale * in, at;
  *outside = false;
  switch (mode) {
    case ALIGN_CORNERS: return out == 1 ? 0 : x * (in - 1) / (out - 1);
    case ASYMMETRIC: return x / scale;
    case PYTORCH_HALF_PIXEL: return out == 1 ? -0.5 : (x + 0.5) / scale - 0.5;
    case HALF_PIXEL_FOR_NN: return (x + 0.5) / scale;
    case HALF_PIXEL_SYMMETRIC: return in / 2 * (1 - (double)r->out[d] / out) + (x + 0.5) / scale - 0.5;
    case CROP_AND_RESIZE:
      at = r->roi_end[d] - r->roi_start[d];
      at = out == 1 ? at * (in - 1) / 2 : x * at * (in - 1) / (out - 1);
      at += r->roi_start[d] * (in - 1);
      *outside = !(at >= 0 && at <= in - 1);
      return at;
    default: return (x + 0.5) / scale - 0.5;
  }
}

static int64_t nearest_index(nearest mode, double at, int64_t in, double scale) {
  if (mode == SIMPLE) mode = scale < 1 ? CEIL : FLOOR;
  double low = floor(at), ratio = at - low;
  bool up =
      ratio > 0 && (mode == CEIL || (mode == PREFER_FLOOR && ratio > 0.5) || (mode == PREFER_CEIL && ratio >= 0.5));
  double index = low + up;
  return index < 0 ? 0 : index > (double)(in - 1) ? in - 1 : (int64_t)index;
}

/* The interpolation kernel at distance x: a triangle, or Keys' cubic with parameter a. */
static double kernel_at(resize_mode mode, double x, double a) {
  x = fabs(x);
  if (mode == MODE_LINEAR) return x < 1 ? 1 - x : 0;
  if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  if (x < 2) return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a;
  return 0;
}

typedef struct table_job {
  const resize_params *p;
  const resize_request *r;
  resize_mode mode;
  coordinates where;
  double shrink; /* of the kernel: below 1 when it covers more inputs (antialias) */
} table_job;

/* Weights of output position j. The taps are the nearest positions, the left one first among equals. */
static void fill_weights(const table_job *job, resize_axis *a, int64_t j) {
  bool outside;
  double at = coordinate(job->where, job->r, a->axis, (double)j, &outside), sum = 0;
  int64_t *index = a->index + j * a->taps;
  double *weight = a->weight + j * a->taps;
  double first = ceil(at) - (double)(a->taps / 2);
  for (int64_t k = 0; k < a->taps; k++) {
    double position = first + (double)k,
           w = kernel_at(job->mode, (position - at) * job->shrink, (double)job->p->cubic_a);
    bool inside = position >= 0 && position <= (double)(a->in - 1);
    if (job->p->exclude_outside && !inside) w = 0;
    index[k] = position < 0 ? 0 : inside ? (int64_t)position : a->in - 1;
    weight[k] = w;
    sum += w;
  }
  bool normalise = job->p->exclude_outside || job->shrink < 1;
  for (int64_t k = 0; normalise && sum != 0 && k < a->taps; k++) weight[k] /= sum;
  if (outside) index[0] = -1;
}

static void fill_axis(const table_job *job, resize_axis *a) {
  int mode = find_name(job->p->nearest_mode, nearest_names);
  for (int64_t j = 0; j < a->out; j++) {
    if (a->weight) {
      fill_weights(job, a, j);
      continue;
    }
    bool outside;
    double at = coordinate(job->where, job->r, a->axis, (double)j, &outside);
    a->index[j] = outside ? -1 : nearest_index((nearest)mode, at, a->in, job->r->scale[a->axis]);
  }
}

static bool axis_is_same(const resize_request *r, int d) {
  bool whole = !r->has_roi || (r->roi_start[d] == 0 && r->roi_end[d] == 1);
  return r->in[d] == r->out[d] && fabs(r->scale[d] - 1) <= 1e-9 && whole;
}

/* Positions that a kernel of the mode covers at this scale. */
static double tap_count(resize_mode mode, bool antialias, double scale) {
  double half = mode == MODE_LINEAR ? 1 : mode == MODE_CUBIC ? 2 : 0.5;
  if (!antialias || scale >= 1) return 2 * half;
  return 2 - 2 * (floor(-half / scale) + 1);
}

rlx_status resize_make(const void *context, const resize_params *p, const resize_request *r, resize_plan *out) {
  resize_mode mode = (resize_mode)find_name(p->mode, mode_names);
  *out = (resize_plan){.nearest = mode == MODE_NEAREST, .extrapolation = (double)p->extrapolation};
  double entries = 0;
  /* Growing: the last axis first, while there is least of it. Nearest takes them in order. */
  bool backwards = !out->nearest && shape_count(r->rank, r->out) > shape_count(r->rank, r->in);
  for (int i = 0; i < r->rank; i++) {
    int d = backwards ? r->rank - 1 - i : i;
    if (axis_is_same(r, d) || r->out[d] == 0) continue;
    if (r->in[d] <= 0) return rlx_fail(context, RLX_INVALID, "axis %d has no element to resize", d);
    double taps = tap_count(mode, p->antialias, r->scale[d]);
    out->axes[out->count++] = (resize_axis){.axis = d, .in = r->in[d], .out = r->out[d], .taps = (int64_t)taps};
    entries += taps * (double)r->out[d];
  }
  if (entries > 1e8) return rlx_fail(context, RLX_UNSUPPORTED, "tables of %g entries", entries);
  if (out->count == 0) return RLX_OK;
  size_t n = (size_t)entries;
  out->memory = mem_array(n, sizeof(int64_t) + sizeof(double));
  if (!out->memory) return rlx_fail(context, RLX_OUT_OF_MEMORY, "no memory for tables of %zu entries", n);
  int64_t *index = out->memory;
  double *weight = (double *)(index + n);
  table_job job = {p, r, mode, (coordinates)find_name(p->coordinates, coordinate_names), 1};
  int64_t count = shape_count(r->rank, r->in);
  for (int i = 0; i < out->count; i++) {
    resize_axis *a = &out->axes[i];
    a->index = index;
    a->weight = out->nearest ? NULL : weight;
    index += a->out * a->taps;
    weight += a->out * a->taps;
    job.shrink = p->antialias && r->scale[a->axis] < 1 ? r->scale[a->axis] : 1;
    fill_axis(&job, a);
    count = count / a->in * a->out;
    if (i + 1 < out->count && count > out->scratch) out->scratch = count;
  }
  return RLX_OK;
}

void resize_finish(resize_plan *plan) {
  mem_free(plan->memory);
  plan->memory = NULL;
}
