/* signal.c — DFT and STFT by fast transforms of several lines at once, shared out among threads. */
#include "ops/signal.h"

#include <string.h>

#include "backend/cpu/kernels/_fft.h"
#include "base/memory.h"
#include "base/status.h"
#include "ir/dtype.h"
#include "ir/module.h"
#include "ir/shape.h"
#include "ops/_number.h"

enum { WIDTH = 8, BLOCK_DOUBLES = 1 << 15, SLOTS_PER_THREAD = 2 };

/* Line l begins at input element (l / per) * in_group + (l % per) * in_hop, its output likewise; neighbours along a
 * line are `stride` apart. Elements are complex unless they have one part. */
typedef struct geometry {
  int64_t lines, per, in_group, in_hop, out_group, out_hop, stride;
  int64_t length, samples, bins; /* of the transform; read of a line; written of it */
  int in_parts, out_parts;
  bool inverse, halved; /* halved: a real side of even length, by a transform of half of it */
} geometry;

/* Program state. */
typedef struct spectrum {
  geometry at;
  const fft_plan *plan;
  rlx_cache_ref *held; /* the session's plan; NULL: `plan` is this state's own */
  int64_t width;       /* lines of a block */
  int threads;
  bool windowed; /* STFT */
} spectrum;

/* ---- lines ------------------------------------------------------------------------------------------------------ */

typedef struct block {
  const geometry *at;
  const void *x, *window;
  void *y;
  int64_t width;
  int64_t from[WIDTH], to[WIDTH];
  fft_block a, b;
} block;

/* Samples of a real line go to re and im in turn if the transform is halved. */
NUMBER_INLINE rlx_status load_as(rlx_dtype t, const void *ctx, const block *k) {
  (void)ctx;
  const geometry *at = k->at;
  bool packed = at->halved && !at->inverse;
  for (int64_t i = 0; i < at->samples; i++) {
    double scale = k->window ? number_load(t, k->window, i) : 1;
    double *re = packed ? (i % 2 ? k->a.im : k->a.re) + i / 2 * k->width : k->a.re + i * k->width;
    double *im = k->a.im + i * k->width;
    for (int64_t w = 0; w < k->width; w++) {
      int64_t e = (k->from[w] + i * at->stride) * at->in_parts;
      re[w] = number_load(t, k->x, e) * scale;
      if (!packed) im[w] = at->in_parts == 2 ? number_load(t, k->x, e + 1) * scale : 0;
    }
  }
  return RLX_OK;
}

/* Writes bins from a; those past the middle of a halved transform are conjugates of those before it. */
NUMBER_INLINE rlx_status store_as(rlx_dtype t, const void *ctx, const block *k) {
  (void)ctx;
  const geometry *at = k->at;
  double scale = at->inverse ? 1 / (double)at->length : 1;
  for (int64_t i = 0; i < at->bins; i++) {
    bool mirrored = at->halved && !at->inverse && i > at->length / 2;
    int64_t row = mirrored ? at->length - i : i;
    const double *re = k->a.re + row * k->width, *im = k->a.im + row * k->width;
    for (int64_t w = 0; w < k->width; w++) {
      int64_t e = (k->to[w] + i * at->stride) * at->out_parts;
      number_store(t, k->y, e, re[w] * scale);
      if (at->out_parts == 2) number_store(t, k->y, e + 1, (mirrored ? -im[w] : im[w]) * scale);
    }
  }
  return RLX_OK;
}

/* A real output of a halved transform: re and im in turn. */
NUMBER_INLINE rlx_status store_real_as(rlx_dtype t, const void *ctx, const block *k) {
  (void)ctx;
  const geometry *at = k->at;
  double scale = 2 / (double)at->length;
  for (int64_t i = 0; i < at->bins; i++) {
    const double *from = (i % 2 ? k->a.im : k->a.re) + i / 2 * k->width;
    for (int64_t w = 0; w < k->width; w++) number_store(t, k->y, k->to[w] + i * at->stride, from[w] * scale);
  }
  return RLX_OK;
}

static rlx_status load(rlx_dtype t, const void *ctx, const block *k) { DISPATCH_FLOATS(t, load_as, ctx, k) }
static rlx_status store(rlx_dtype t, const void *ctx, const block *k) { DISPATCH_FLOATS(t, store_as, ctx, k) }
static rlx_status store_real(rlx_dtype t, const void *ctx, const block *k) { DISPATCH_FLOATS(t, store_real_as, ctx, k) }

/* ---- halves ----------------------------------------------------------------------------------------------------- */

/* From Z, the transform of even samples + i odd samples, to the first h + 1 bins, in b; then a and b change places. */
static void unpack(const fft_plan *plan, block *k) {
  int64_t h = plan->n, width = k->width;
  for (int64_t i = 0; i <= h; i++) {
    const double c = plan->half[2 * i], s = plan->half[2 * i + 1];
    int64_t z = i % h * width, m = (h - i) % h * width;
    for (int64_t w = 0; w < width; w++) {
      double zr = k->a.re[z + w], zi = k->a.im[z + w], mr = k->a.re[m + w], mi = k->a.im[m + w];
      double odd_re = (zi + mi) / 2, odd_im = (mr - zr) / 2;
      k->b.re[i * width + w] = (zr + mr) / 2 + (odd_re * c - odd_im * s);
      k->b.im[i * width + w] = (zi - mi) / 2 + (odd_re * s + odd_im * c);
    }
  }
  fft_block swap = k->a;
  k->a = k->b;
  k->b = swap;
}

/* The reverse, of h + 1 bins in a; the imaginary parts of the first and last mean nothing. */
static void pack(const fft_plan *plan, block *k) {
  int64_t h = plan->n, width = k->width;
  memset(k->a.im, 0, (size_t)width * sizeof(double));
  memset(k->a.im + h * width, 0, (size_t)width * sizeof(double));
  for (int64_t i = 0; i < h; i++) {
    const double c = plan->half[2 * i], s = plan->half[2 * i + 1];
    int64_t x = i * width, m = (h - i) * width;
    for (int64_t w = 0; w < width; w++) {
      double xr = k->a.re[x + w], xi = k->a.im[x + w], mr = k->a.re[m + w], mi = k->a.im[m + w];
      double dr = (xr - mr) / 2, di = (xi + mi) / 2;
      k->b.re[x + w] = (xr + mr) / 2 - (di * c - dr * s);
      k->b.im[x + w] = (xi - mi) / 2 + (dr * c + di * s);
    }
  }
  fft_block swap = k->a;
  k->a = k->b;
  k->b = swap;
}

/* An odd length with a real output: the other half of the spectrum. */
static void extend(block *k) {
  int64_t n = k->at->length, width = k->width;
  for (int64_t i = n / 2 + 1; i < n; i++) {
    for (int64_t w = 0; w < width; w++) {
      k->a.re[i * width + w] = k->a.re[(n - i) * width + w];
      k->a.im[i * width + w] = -k->a.im[(n - i) * width + w];
    }
  }
}

static void inverse(const fft_plan *plan, block *k) {
  fft_block a = {k->a.im, k->a.re}, b = {k->b.im, k->b.re};
  fft_run(plan, &a, &b, k->width);
  k->a = (fft_block){a.im, a.re};
  k->b = (fft_block){b.im, b.re};
}

/* ---- runs ------------------------------------------------------------------------------------------------------- */

static void transform_block(rlx_ctx *ctx, const spectrum *s, block *k) {
  const geometry *at = k->at; /* a window may leave fewer samples than were planned for */
  rlx_dtype t = ctx->outputs[0].dtype;
  int64_t room = fft_room(s->plan) * k->width, wanted = at->halved && at->inverse ? at->length / 2 + 1 : at->length;
  if (at->samples < wanted || at->halved) {
    memset(k->a.re, 0, (size_t)room * sizeof(double));
    memset(k->a.im, 0, (size_t)room * sizeof(double));
  }
  rlx_status status = load(t, ctx, k);
  if (at->halved && !at->inverse) {
    fft_run(s->plan, &k->a, &k->b, k->width);
    unpack(s->plan, k);
  } else if (at->halved) {
    pack(s->plan, k);
    inverse(s->plan, k);
  } else if (at->inverse) {
    if (at->out_parts == 1) extend(k);
    inverse(s->plan, k);
  } else {
    fft_run(s->plan, &k->a, &k->b, k->width);
  }
  if (status == RLX_OK) (void)(at->halved && at->inverse ? store_real(t, ctx, k) : store(t, ctx, k));
}

typedef struct job {
  rlx_ctx *ctx;
  const spectrum *s;
  const void *window;
  geometry at; /* with what only the run knows */
  double *memory;
  int64_t slots;
} job;

static int64_t slot_doubles(const spectrum *s) { return 4 * fft_room(s->plan) * s->width; }

static void run_slots(void *arg, int64_t begin, int64_t end) {
  const job *j = arg;
  const spectrum *s = j->s;
  const geometry *at = &j->at;
  int64_t blocks = (at->lines + s->width - 1) / s->width, room = fft_room(s->plan) * s->width;
  for (int64_t slot = begin; slot < end; slot++) {
    double *memory = j->memory + slot * slot_doubles(s);
    block k = {.at = at, .x = j->ctx->inputs[0].data, .window = j->window, .y = j->ctx->outputs[0].data};
    k.a = (fft_block){memory, memory + room};
    k.b = (fft_block){memory + 2 * room, memory + 3 * room};
    for (int64_t i = blocks * slot / j->slots; i < blocks * (slot + 1) / j->slots && !rlx_cancelled(j->ctx); i++) {
      k.width = at->lines - i * s->width < s->width ? at->lines - i * s->width : s->width;
      for (int64_t w = 0; w < k.width; w++) {
        int64_t line = i * s->width + w;
        k.from[w] = line / at->per * at->in_group + line % at->per * at->in_hop;
        k.to[w] = line / at->per * at->out_group + line % at->per * at->out_hop;
      }
      transform_block(j->ctx, s, &k);
    }
  }
}

static rlx_status run_lines(rlx_ctx *ctx, const spectrum *s, void *memory, int64_t bytes) {
  job j = {.ctx = ctx, .s = s, .at = s->at, .memory = memory};
  const rlx_operand *window = s->windowed && ctx->input_count > STFT_WINDOW ? &ctx->inputs[STFT_WINDOW] : NULL;
  if (window && window->data) {
    if (window->rank != 1) return rlx_fail(ctx, RLX_INVALID, "a window of rank %d", window->rank);
    j.window = window->data;
    if (window->count < j.at.samples) j.at.samples = window->count;
  }
  j.slots = bytes / (slot_doubles(s) * (int64_t)sizeof(double));
  rlx_parallel_for(ctx, j.slots, 1, run_slots, &j);
  return rlx_cancelled(ctx) ? RLX_CANCELLED : RLX_OK;
}

/* ---- plans ------------------------------------------------------------------------------------------------------ */

static void destroy_plan(void *plan) { mem_free(plan); }

typedef struct plan_request {
  const void *ctx;
  int64_t n;
} plan_request;

static rlx_status make_plan(void *arg, rlx_cache_entry *entry) {
  const plan_request *r = arg;
  const fft_plan *plan;
  RLX_TRY(fft_plan_create(r->ctx, r->n, &plan));
  *entry = (rlx_cache_entry){.data = (void *)plan, .bytes = plan->bytes, .destroy = destroy_plan};
  return RLX_OK;
}

/* From the session's cache; without a session (an eager call) the spectrum keeps its own. */
static rlx_status get_plan(const void *ctx, int64_t n, spectrum *s) {
  char key[32] = "rlx.fft";
  memcpy(key + 8, &n, sizeof n);
  plan_request r = {ctx, n};
  void *data;
  rlx_status status = rlx_cache_get(ctx, key, 8 + sizeof n, make_plan, &r, &s->held, &data);
  if (status == RLX_INVALID) return fft_plan_create(ctx, n, &s->plan);
  if (status == RLX_OK) s->plan = data;
  return status;
}

static void finish(spectrum *s) {
  if (s->held)
    rlx_cache_release(s->held);
  else
    mem_free((void *)s->plan);
}

static rlx_status begin(const void *ctx, spectrum *s) {
  const geometry *at = &s->at;
  rlx_status status = get_plan(ctx, at->halved ? at->length / 2 : at->length, s);
  if (status != RLX_OK) return status;
  int64_t fit = BLOCK_DOUBLES / fft_room(s->plan), share = (at->lines - 1) / s->threads + 1;
  s->width = fit < 1 ? 1 : fit > WIDTH ? WIDTH : fit;
  if (share < s->width) s->width = share;
  return RLX_OK;
}

static int64_t room_bytes(const spectrum *s) {
  int64_t blocks = (s->at.lines - 1) / s->width + 1, most = (int64_t)s->threads * SLOTS_PER_THREAD;
  return (blocks < most ? blocks : most) * slot_doubles(s) * (int64_t)sizeof(double);
}

/* ---- geometry --------------------------------------------------------------------------------------------------- */

/* What a node gives: values of integer inputs, -1 for a missing length. */
typedef struct request {
  const signal_params *params;
  const rlx_type *x, *window;
  int64_t length, axis, step;
} request;

static const char *dft_geometry(const request *r, geometry *at) {
  const rlx_type *x = r->x;
  dft_shape s = {0};
  const char *bad = dft_resolve(r->params, x, r->axis, r->length, &s);
  if (bad) return bad;
  int64_t outer = shape_count(s.axis, x->dims), inner = shape_count(x->rank - 2 - s.axis, x->dims + s.axis + 1);
  *at = (geometry){.lines = outer * inner, .per = inner, .in_group = s.given * inner, .in_hop = 1, .stride = inner};
  at->out_group = s.produced * inner;
  at->out_hop = 1;
  at->length = s.length;
  at->bins = s.produced;
  at->in_parts = s.real_in ? 1 : 2;
  at->out_parts = s.real_out ? 1 : 2;
  at->inverse = r->params->inverse != 0;
  at->halved = s.length % 2 == 0 && (s.real_out || (s.real_in && !at->inverse));
  int64_t most = s.real_out ? s.length / 2 + 1 : s.length;
  at->samples = s.given < most ? s.given : most;
  return NULL;
}

static const char *stft_geometry(const request *r, geometry *at) {
  const rlx_type *x = r->x;
  if ((x->rank != 2 && x->rank != 3) || (x->rank == 3 && x->dims[2] != 1 && x->dims[2] != 2))
    return "a signal that is neither [batch, length] nor [batch, length, 1 or 2]";
  int64_t length = r->length != -1 ? r->length : r->window && r->window->rank == 1 ? r->window->dims[0] : x->dims[1];
  stft_shape s;
  if (r->step < 1 || length < 1)
    return rlx_reason("frame_step %lld, length %lld", (long long)r->step, (long long)length);
  const char *bad = stft_resolve(r->params, x->dims[1], length, r->step, &s);
  if (bad) return bad;
  *at = (geometry){
      .lines = x->dims[0] * s.frames, .per = s.frames, .in_group = x->dims[1], .in_hop = s.step, .stride = 1};
  at->out_group = s.frames * s.bins;
  at->out_hop = at->bins = s.bins;
  at->length = at->samples = length;
  at->in_parts = x->rank == 3 ? (int)x->dims[2] : 1;
  at->out_parts = 2;
  at->halved = at->in_parts == 1 && length % 2 == 0;
  return NULL;
}

typedef const char *geometry_fn(const request *r, geometry *at);

/* ---- known when bound ------------------------------------------------------------------------------------------- */

/* The integer in input i, if it is there. False: it is known only at the run. */
static bool known(const rlx_bound *b, int i, int64_t *value) {
  if (i >= rlx_node_input_count(rlx_bound_node(b)) || !rlx_bound_input(b, i)) return true;
  const rlx_tensor *t = rlx_bound_constant(b, i);
  if (!t || rlx_tensor_count(t) != 1) return false;
  *value = dtype_load_int(rlx_tensor_dtype(t), rlx_tensor_data(t), 0);
  return true;
}

/* State NULL: the run does all of it. */
static rlx_status prepare(rlx_bound *b, const request *r, geometry_fn *resolve, void **state) {
  spectrum made = {.threads = rlx_bound_threads(b), .windowed = resolve == stft_geometry};
  const char *bad = resolve(r, &made.at);
  if (bad) return rlx_fail(b, RLX_INVALID, "%s", bad);
  if (made.at.lines == 0 || made.at.bins == 0) return RLX_OK;
  spectrum *s = mem_alloc(sizeof *s);
  if (!s) return rlx_fail(b, RLX_OUT_OF_MEMORY, "no memory for %zu bytes", sizeof *s);
  rlx_status status = begin(b, &made);
  if (status != RLX_OK) {
    mem_free(s);
    return status;
  }
  *s = made;
  *state = s;
  return RLX_OK;
}

static rlx_status prepare_dft(rlx_bound *b, void **state) {
  request r = {.params = rlx_bound_params(b), .x = rlx_bound_input(b, 0), .length = -1, .axis = -2};
  *state = NULL;
  return known(b, 1, &r.length) && known(b, 2, &r.axis) ? prepare(b, &r, dft_geometry, state) : RLX_OK;
}

static rlx_status prepare_dft17(rlx_bound *b, void **state) {
  request r = {.params = rlx_bound_params(b), .x = rlx_bound_input(b, 0), .length = -1};
  r.axis = r.params->axis;
  *state = NULL;
  return known(b, 1, &r.length) ? prepare(b, &r, dft_geometry, state) : RLX_OK;
}

static rlx_status prepare_stft(rlx_bound *b, void **state) {
  request r = {.params = rlx_bound_params(b), .x = rlx_bound_input(b, STFT_SIGNAL), .length = -1};
  r.window = rlx_bound_input(b, STFT_WINDOW);
  *state = NULL;
  bool all = known(b, STFT_STEP, &r.step) && known(b, STFT_LENGTH, &r.length);
  return all ? prepare(b, &r, stft_geometry, state) : RLX_OK;
}

static void release(void *state) {
  if (state) finish(state);
  mem_free(state);
}

static int64_t workspace(rlx_bound *b, const void *state) {
  (void)b;
  return state ? room_bytes(state) : 0;
}

/* ---- known at the run ------------------------------------------------------------------------------------------- */

static bool given(const rlx_ctx *ctx, int i, int64_t *value) {
  if (i >= ctx->input_count || !ctx->inputs[i].data) return true;
  if (ctx->inputs[i].count == 1) *value = dtype_load_int(ctx->inputs[i].dtype, ctx->inputs[i].data, 0);
  return ctx->inputs[i].count == 1;
}

static rlx_type type_of(const rlx_operand *o) {
  rlx_type t = {.dtype = o->dtype, .rank = o->rank};
  memcpy(t.dims, o->dims, (size_t)o->rank * sizeof *o->dims);
  return t;
}

static rlx_status run_now(rlx_ctx *ctx, const request *r, geometry_fn *resolve) {
  spectrum s = {.threads = rlx_thread_count(ctx), .windowed = resolve == stft_geometry};
  const char *bad = resolve(r, &s.at);
  if (bad) return rlx_fail(ctx, RLX_INVALID, "%s", bad);
  if (ctx->outputs[0].count == 0) return RLX_OK;
  RLX_TRY(begin(ctx, &s));
  void *memory = mem_alloc((size_t)room_bytes(&s));
  rlx_status status = memory ? run_lines(ctx, &s, memory, room_bytes(&s))
                             : rlx_fail(ctx, RLX_OUT_OF_MEMORY, "no memory for a transform");
  mem_free(memory);
  finish(&s);
  return status;
}

static rlx_status run_dft_at(rlx_ctx *ctx, int64_t axis) {
  if (ctx->state) return run_lines(ctx, ctx->state, ctx->workspace, ctx->workspace_bytes);
  rlx_type x = type_of(&ctx->inputs[0]);
  request r = {.params = ctx->params, .x = &x, .length = -1, .axis = axis};
  if (!given(ctx, 1, &r.length) || !given(ctx, 2, &r.axis))
    return rlx_fail(ctx, RLX_INVALID, "dft_length or axis is not a scalar");
  if (ctx->input_count > 1 && ctx->inputs[1].data && r.length < 1)
    return rlx_fail(ctx, RLX_INVALID, "a dft_length of %lld", (long long)r.length);
  return run_now(ctx, &r, dft_geometry);
}
static rlx_status run_dft(rlx_ctx *ctx) { return run_dft_at(ctx, -2); }
static rlx_status run_dft17(rlx_ctx *ctx) { return run_dft_at(ctx, ((const signal_params *)ctx->params)->axis); }

static rlx_status run_stft(rlx_ctx *ctx) {
  if (ctx->state) return run_lines(ctx, ctx->state, ctx->workspace, ctx->workspace_bytes);
  rlx_type x = type_of(&ctx->inputs[STFT_SIGNAL]), window = {0};
  request r = {.params = ctx->params, .x = &x, .length = -1};
  if (ctx->input_count > STFT_WINDOW && ctx->inputs[STFT_WINDOW].data) {
    window = type_of(&ctx->inputs[STFT_WINDOW]);
    r.window = &window;
  }
  if (!given(ctx, STFT_STEP, &r.step) || !given(ctx, STFT_LENGTH, &r.length))
    return rlx_fail(ctx, RLX_INVALID, "frame_step or frame_length is not a scalar");
  return run_now(ctx, &r, stft_geometry);
}

/* ---- records ---------------------------------------------------------------------------------------------------- */

#define KERNEL(op_name, min, max, prepare_fn, run_fn)                                                                  \
  {                                                                                                                    \
    .struct_size = sizeof(rlx_cpu_kernel),                                                                             \
    .head = {.op = op_name, .version_min = min, .version_max = max, .name = "fft", .prepare = prepare_fn,              \
             .release = release, .workspace = workspace},                                                              \
    .run = run_fn                                                                                                      \
  }
static const rlx_cpu_kernel dft = KERNEL("onnx.DFT", 20, 20, prepare_dft, run_dft);
static const rlx_cpu_kernel dft17 = KERNEL("onnx.DFT", 17, 17, prepare_dft17, run_dft17);
static const rlx_cpu_kernel stft = KERNEL("onnx.STFT", 17, 17, prepare_stft, run_stft);

static const rlx_cpu_kernel *const kernels[] = {&dft, &dft17, &stft, NULL};
const rlx_module cpu_signal = {.kernels = kernels};
