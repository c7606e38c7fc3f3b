/* recurrent.c — onnx.LSTM, GRU and RNN of floats: W and R packed once, all gates of a step by one product. */
#include <string.h>

#include "backend/cpu/kernels/_recurrent.h"
#include "base/memory.h"
#include "base/status.h"
#include "ir/module.h"

enum {
  THREADED_WORK = 200000, /* multiply-adds below which other threads cost more than they give */
  CHUNK_ROWS = 128,       /* rows of X that are multiplied by W at once */
  SLICE_BATCH = 4         /* samples that a thread takes at least */
};

/* A unit is a slice of the batch in one direction: it runs the whole sequence on its own. */
typedef struct plan {
  recurrent_kind kind;
  int slices;
  bool across;         /* units run beside each other; else products are divided among the threads */
  int64_t slice_batch; /* samples of a slice; the last may have fewer */
  int64_t chunk;       /* steps whose W x are made at once */
  int64_t unit_bytes;  /* scratch of a unit */
} plan;

/* ---- packing ---------------------------------------------------------------------------------------------------- */

static int64_t panels_of(int64_t rows) {
  int width = recurrent_table_best()->width;
  return (rows + width - 1) / width;
}

static int64_t panel_floats(int64_t rows, int64_t depth) {
  return panels_of(rows) * recurrent_table_best()->width * depth;
}

/* GRU multiplies the last gate's third of R apart: rows of the first part. */
static int64_t first_part(recurrent_kind kind, int input, int64_t rows) {
  return kind == RECURRENT_GRU && input == RECURRENT_R ? rows / 3 * 2 : rows;
}

/* One direction of W or R, of so many rows and columns. */
static int64_t packed_floats(recurrent_kind kind, int input, int64_t rows, int64_t depth) {
  int64_t first = first_part(kind, input, rows);
  return panel_floats(first, depth) + panel_floats(rows - first, depth);
}

static float *pack_panels(const float *from, int64_t rows, int64_t depth, float *to) {
  int64_t width = recurrent_table_best()->width;
  for (int64_t row = 0; row < rows; row += width, to += width * depth) {
    int64_t n = rows - row < width ? rows - row : width;
    if (n < width) memset(to, 0, (size_t)(width * depth) * sizeof *to);
    for (int64_t k = 0; k < depth; k++) {
      for (int64_t i = 0; i < n; i++) to[k * width + i] = from[(row + i) * depth + k];
    }
  }
  return to;
}

static void pack_matrix(recurrent_kind kind, int input, const rlx_operand *from, float *to) {
  int64_t rows = from->dims[1], depth = from->dims[2], first = first_part(kind, input, rows);
  for (int64_t d = 0; d < from->dims[0]; d++) {
    const float *data = (const float *)from->data + d * rows * depth;
    to = pack_panels(data, first, depth, to);
    to = pack_panels(data + first * depth, rows - first, depth, to);
  }
}

static int64_t packed_bytes(recurrent_kind kind, int input, const rlx_type *t) {
  return t->dims[0] * packed_floats(kind, input, t->dims[1], t->dims[2]) * (int64_t)sizeof(float);
}

static rlx_status packing(rlx_bound *b, const void *state, int input, rlx_packing *out) {
  const plan *p = state;
  if (input != RECURRENT_W && input != RECURRENT_R) return RLX_OK;
  out->bytes = packed_bytes(p->kind, input, rlx_bound_input(b, input));
  bool parted = p->kind == RECURRENT_GRU && input == RECURRENT_R;
  strcpy(out->key, parted ? "recurrent panels, z r and h" : "recurrent panels");
  return RLX_OK;
}

static rlx_status pack(rlx_bound *b, const void *state, int input, const rlx_operand *from, void *to) {
  (void)b;
  pack_matrix(((const plan *)state)->kind, input, from, to);
  return RLX_OK;
}

/* ---- preparing -------------------------------------------------------------------------------------------------- */

static const char *why_not(const rlx_node *n) {
  const rlx_type *x = rlx_node_input_type(n, RECURRENT_X);
  return x->dtype == RLX_FLOAT ? NULL : "only floats are packed";
}

/* Scratch of a unit, carved from the workspace: pointers first. */
typedef struct scratch {
  const float **x_rows, **h_rows, **reset_rows;
  float *start, *start_last; /* of products with X; of GRU's last gate with R */
  float *gates, *last;       /* [chunk, samples, rows]; [samples, hidden] */
  float *h, *c;              /* [samples, hidden]; c of GRU: r h */
} scratch;

static int64_t carve(const plan *p, int64_t hidden, char *base, scratch *s) {
  int64_t samples = p->slice_batch, rows = recurrent_gates(p->kind) * hidden, state = samples * hidden;
  int64_t pointers = (p->chunk + 2) * samples, floats = rows + hidden + p->chunk * samples * rows + 3 * state;
  if (s) {
    s->x_rows = (const float **)(void *)base;
    s->h_rows = s->x_rows + p->chunk * samples;
    s->reset_rows = s->h_rows + samples;
    s->start = (float *)(void *)(s->x_rows + pointers);
    s->start_last = s->start + rows;
    s->gates = s->start_last + hidden;
    s->last = s->gates + p->chunk * samples * rows;
    s->h = s->last + state;
    s->c = s->h + state;
  }
  return (pointers * (int64_t)sizeof(float *) + floats * (int64_t)sizeof(float) + 63) / 64 * 64;
}

static void divide(plan *p, const recurrent_shape *s, int threads) {
  double a_step = (double)s->batch * (double)(recurrent_gates(p->kind) * s->hidden) * (double)(s->input + s->hidden);
  p->slices = 1;
  if (threads > 1 && (double)s->steps * a_step >= (double)THREADED_WORK) {
    int64_t wanted = (threads + s->directions - 1) / s->directions, most = s->batch / SLICE_BATCH;
    if (wanted > most) wanted = most;
    p->slices = wanted > 1 ? (int)wanted : 1;
    int units = p->slices * s->directions;
    p->across = units > 1 && (2 * units > threads || a_step < 4.0 * THREADED_WORK);
    if (!p->across) p->slices = 1;
  }
  p->slice_batch = (s->batch + p->slices - 1) / p->slices;
  p->chunk = s->steps;
  if (p->slice_batch && p->chunk > CHUNK_ROWS / p->slice_batch) p->chunk = CHUNK_ROWS / p->slice_batch;
  if (p->chunk < 1) p->chunk = 1;
}

static bool has_dims(const rlx_type *t, int64_t a, int64_t b, int64_t c) {
  return t->rank == 3 && t->dims[0] == a && t->dims[1] == b && t->dims[2] == c;
}

static rlx_status prepare(rlx_bound *b, recurrent_kind kind, void **out) {
  const rlx_type *x = rlx_bound_input(b, RECURRENT_X), *w = rlx_bound_input(b, RECURRENT_W);
  const rlx_type *r = rlx_bound_input(b, RECURRENT_R);
  recurrent_shape s;
  const char *bad = recurrent_attributes(kind, rlx_bound_params(b), &s);
  if (bad) return rlx_fail(b, RLX_INVALID, "%s", bad);
  if (x->rank != 3 || r->rank != 3) return rlx_fail(b, RLX_INVALID, "X of rank %d, R of rank %d", x->rank, r->rank);
  s.steps = x->dims[s.batch_first ? 1 : 0];
  s.batch = x->dims[s.batch_first ? 0 : 1];
  s.input = x->dims[2];
  s.hidden = r->dims[2];
  int64_t gates = recurrent_gates(kind), most = INT64_C(1) << 24;
  if (s.batch > most || s.input > most || s.hidden > most) {
    return rlx_fail(b, RLX_OUT_OF_MEMORY, "no memory for %lld samples of %lld elements and %lld hidden units",
                    (long long)s.batch, (long long)s.input, (long long)s.hidden);
  }
  if (!has_dims(w, s.directions, gates * s.hidden, s.input) || !has_dims(r, s.directions, gates * s.hidden, s.hidden)) {
    return rlx_fail(b, RLX_INVALID, "W or R is not for %d directions, %lld inputs and %lld hidden units", s.directions,
                    (long long)s.input, (long long)s.hidden);
  }
  plan *p = mem_zalloc(sizeof *p);
  if (!p) return rlx_fail(b, RLX_OUT_OF_MEMORY, "no memory for the kernel's state");
  p->kind = kind;
  divide(p, &s, rlx_bound_threads(b));
  p->unit_bytes = carve(p, s.hidden, NULL, NULL);
  *out = p;
  return RLX_OK;
}
static rlx_status prepare_rnn(rlx_bound *b, void **out) { return prepare(b, RECURRENT_RNN, out); }
static rlx_status prepare_gru(rlx_bound *b, void **out) { return prepare(b, RECURRENT_GRU, out); }
static rlx_status prepare_lstm(rlx_bound *b, void **out) { return prepare(b, RECURRENT_LSTM, out); }

static int64_t unpacked_bytes(rlx_bound *b, recurrent_kind kind, int input) {
  if (rlx_bound_constant(b, input)) return 0;
  return (packed_bytes(kind, input, rlx_bound_input(b, input)) + 63) / 64 * 64;
}

/* The units' scratch, then W and R packed if they are no constants. */
static int64_t workspace(rlx_bound *b, const void *state) {
  const plan *p = state;
  recurrent_shape s;
  if (recurrent_attributes(p->kind, rlx_bound_params(b), &s)) return 0;
  return p->slices * s.directions * p->unit_bytes + unpacked_bytes(b, p->kind, RECURRENT_W) +
         unpacked_bytes(b, p->kind, RECURRENT_R);
}

/* ---- running ---------------------------------------------------------------------------------------------------- */

typedef struct task {
  rlx_ctx *ctx;
  const plan *plan;
  const recurrent_table *table;
  const recurrent_params *params;
  recurrent_shape shape;
  int64_t rows;                        /* of W: gates times hidden */
  const float *in[RECURRENT_P + 1];    /* W and R packed; NULL: left out */
  int64_t w_floats, r_floats, r_first; /* packed: of a direction; of R's first part */
  const int32_t *lengths;
  float *out[3]; /* Y, Y_h, Y_c; NULL: not wanted */
} task;

typedef struct unit {
  const task *t;
  int direction;
  int64_t sample, samples;
  bool backwards;
  const float *w, *r, *peepholes;
  scratch s;
} unit;

static int64_t length_of(const unit *u, int64_t i) {
  return u->t->lengths ? u->t->lengths[u->sample + i] : u->t->shape.steps;
}

static void multiply_panels(void *arg, int64_t begin, int64_t end) { recurrent_table_best()->product(arg, begin, end); }

static void multiply(const unit *u, recurrent_product *p) {
  int64_t panels = panels_of(p->columns), work = p->rows * p->depth * u->t->table->width;
  if (u->t->plan->across || panels * work < THREADED_WORK) {
    u->t->table->product(p, 0, panels);
  } else {
    rlx_parallel_for(u->t->ctx, panels, 1 + THREADED_WORK / 4 / work, multiply_panels, p);
  }
}

/* gates += R h of all samples, for the first `columns` rows of R. */
static void multiply_state(const unit *u, float *gates, int64_t columns) {
  multiply(u, &(recurrent_product){.packed = u->r,
                                   .depth = u->t->shape.hidden,
                                   .columns = columns,
                                   .x = u->s.h_rows,
                                   .rows = u->samples,
                                   .y = gates,
                                   .y_stride = u->t->rows});
}

static void finish_rnn(const unit *u, float *g, float *h) {
  const task *t = u->t;
  t->table->activate(&t->shape.functions[u->direction][0], t->params->clip, g, t->shape.hidden);
  memcpy(h, g, (size_t)t->shape.hidden * sizeof *h);
}

static void add_product(float *y, const float *a, const float *b, int64_t n) {
  for (int64_t i = 0; i < n; i++) y[i] += a[i] * b[i];
}

/* Gates i, o, f, c; `last` is scratch. */
static void finish_lstm(const unit *u, float *g, float *h, float *c, float *last) {
  const task *t = u->t;
  int64_t n = t->shape.hidden;
  const activation *f = t->shape.functions[u->direction];
  const float *p = u->peepholes, clip = t->params->clip;
  void (*activate)(const activation *, float, float *, int64_t) = t->table->activate;
  float *in = g, *out = g + n, *forget = g + 2 * n, *cell = g + 3 * n;
  if (p) add_product(in, p, c, n);
  if (p) add_product(forget, p + 2 * n, c, n);
  activate(&f[0], clip, in, n);
  if (t->params->input_forget) {
    for (int64_t i = 0; i < n; i++) forget[i] = 1 - in[i];
  } else {
    activate(&f[0], clip, forget, n);
  }
  activate(&f[1], clip, cell, n);
  for (int64_t i = 0; i < n; i++) c[i] = forget[i] * c[i] + in[i] * cell[i];
  if (p) add_product(out, p + n, c, n);
  activate(&f[0], clip, out, n);
  memcpy(last, c, (size_t)n * sizeof *c);
  activate(&f[2], 0, last, n);
  for (int64_t i = 0; i < n; i++) h[i] = out[i] * last[i];
}

/* Gates z, r, h: the last from R (r h), or r (R h) if linear before reset. `gates` of all samples at one step. */
static void multiply_last(const unit *u, float *gates) {
  const task *t = u->t;
  int64_t n = t->shape.hidden;
  bool linear = t->params->linear_before_reset != 0;
  for (int64_t i = 0; i < u->samples; i++) {
    float *z = gates + i * t->rows, *r = z + n, *reset = u->s.c + i * n;
    const float *h = u->s.h + i * n;
    t->table->activate(&t->shape.functions[u->direction][0], t->params->clip, z, 2 * n);
    for (int64_t k = 0; k < n && !linear; k++) reset[k] = r[k] * h[k];
  }
  multiply(u, &(recurrent_product){.packed = u->r + t->r_first,
                                   .depth = n,
                                   .columns = n,
                                   .x = linear ? u->s.h_rows : u->s.reset_rows,
                                   .rows = u->samples,
                                   .y = u->s.last,
                                   .y_stride = n,
                                   .start = u->s.start_last});
}

static void finish_gru(const unit *u, float *g, float *h, const float *last) {
  const task *t = u->t;
  int64_t n = t->shape.hidden;
  float *z = g, *r = g + n, *candidate = g + 2 * n;
  if (t->params->linear_before_reset) {
    add_product(candidate, r, last, n);
  } else {
    for (int64_t i = 0; i < n; i++) candidate[i] += last[i];
  }
  t->table->activate(&t->shape.functions[u->direction][1], t->params->clip, candidate, n);
  for (int64_t i = 0; i < n; i++) h[i] = (1 - z[i]) * candidate[i] + z[i] * h[i];
}

static void run_step(const unit *u, int64_t step, float *gates) {
  const task *t = u->t;
  const recurrent_shape *s = &t->shape;
  int64_t n = s->hidden;
  multiply_state(u, gates, first_part(s->kind, RECURRENT_R, t->rows));
  if (s->kind == RECURRENT_GRU) multiply_last(u, gates);
  for (int64_t i = 0; i < u->samples; i++) {
    int64_t length = length_of(u, i), at = u->backwards ? length - 1 - step : step;
    if (step >= length) continue;
    float *g = gates + i * t->rows, *h = u->s.h + i * n, *c = u->s.c + i * n, *last = u->s.last + i * n;
    if (s->kind == RECURRENT_RNN) finish_rnn(u, g, h);
    if (s->kind == RECURRENT_GRU) finish_gru(u, g, h, last);
    if (s->kind == RECURRENT_LSTM) finish_lstm(u, g, h, c, last);
    if (t->out[0]) memcpy(t->out[0] + recurrent_y_at(s, at, u->direction, u->sample + i), h, (size_t)n * sizeof *h);
  }
}

/* Wb + Rb; GRU's last Rb is apart. */
static void start_sums(const unit *u) {
  const task *t = u->t;
  int64_t rows = t->rows, first = first_part(t->shape.kind, RECURRENT_R, rows);
  const float *b = t->in[RECURRENT_B] ? t->in[RECURRENT_B] + u->direction * 2 * rows : NULL;
  for (int64_t i = 0; i < rows; i++) u->s.start[i] = b ? b[i] + (i < first ? b[rows + i] : 0) : 0;
  for (int64_t i = first; i < rows; i++) u->s.start_last[i - first] = b ? b[rows + i] : 0;
}

static void start_states(const unit *u) {
  const recurrent_shape *s = &u->t->shape;
  size_t bytes = (size_t)s->hidden * sizeof(float);
  const float *from_h = u->t->in[RECURRENT_H], *from_c = u->t->in[RECURRENT_C];
  for (int64_t i = 0; i < u->samples; i++) {
    float *h = u->s.h + i * s->hidden, *c = u->s.c + i * s->hidden;
    int64_t at = recurrent_state_at(s, u->direction, u->sample + i);
    u->s.h_rows[i] = h;
    u->s.reset_rows[i] = c;
    if (from_h)
      memcpy(h, from_h + at, bytes);
    else
      memset(h, 0, bytes);
    if (from_c)
      memcpy(c, from_c + at, bytes);
    else
      memset(c, 0, bytes);
  }
}

static void store_states(const unit *u) {
  const recurrent_shape *s = &u->t->shape;
  size_t bytes = (size_t)s->hidden * sizeof(float);
  float *y = u->t->out[0], *h = u->t->out[1], *c = u->t->out[2];
  for (int64_t i = 0; i < u->samples; i++) {
    int64_t at = recurrent_state_at(s, u->direction, u->sample + i);
    if (h) memcpy(h + at, u->s.h + i * s->hidden, bytes);
    if (c) memcpy(c + at, u->s.c + i * s->hidden, bytes);
    for (int64_t step = length_of(u, i); step < s->steps && y; step++) {
      memset(y + recurrent_y_at(s, step, u->direction, u->sample + i), 0, bytes);
    }
  }
}

/* Past the end of a sample any row will do: what comes of it is not used. */
static void point_at_x(const unit *u, int64_t first, int64_t steps) {
  const recurrent_shape *s = &u->t->shape;
  for (int64_t step = 0; step < steps; step++) {
    for (int64_t i = 0; i < u->samples; i++) {
      int64_t length = length_of(u, i), at = u->backwards ? length - 1 - first - step : first + step;
      if (first + step >= length) at = 0;
      u->s.x_rows[step * u->samples + i] = u->t->in[RECURRENT_X] + recurrent_x_at(s, at, u->sample + i);
    }
  }
}

static void run_unit(const task *t, int64_t index) {
  const plan *p = t->plan;
  const recurrent_shape *s = &t->shape;
  unit u = {.t = t, .direction = (int)(index / p->slices), .sample = index % p->slices * p->slice_batch};
  u.samples = s->batch - u.sample < p->slice_batch ? s->batch - u.sample : p->slice_batch;
  if (u.samples <= 0) return;
  u.backwards = s->reverse_first || u.direction == 1;
  u.w = t->in[RECURRENT_W] + u.direction * t->w_floats;
  u.r = t->in[RECURRENT_R] + u.direction * t->r_floats;
  if (t->in[RECURRENT_P]) u.peepholes = t->in[RECURRENT_P] + u.direction * 3 * s->hidden;
  carve(p, s->hidden, (char *)t->ctx->workspace + index * p->unit_bytes, &u.s);
  start_sums(&u);
  start_states(&u);
  int64_t longest = 0;
  for (int64_t i = 0; i < u.samples; i++) longest = length_of(&u, i) > longest ? length_of(&u, i) : longest;
  for (int64_t first = 0; first < longest && !rlx_cancelled(t->ctx); first += p->chunk) {
    int64_t steps = longest - first < p->chunk ? longest - first : p->chunk;
    point_at_x(&u, first, steps);
    multiply(&u, &(recurrent_product){.packed = u.w,
                                      .depth = s->input,
                                      .columns = t->rows,
                                      .x = u.s.x_rows,
                                      .rows = steps * u.samples,
                                      .y = u.s.gates,
                                      .y_stride = t->rows,
                                      .start = u.s.start});
    for (int64_t step = 0; step < steps; step++) run_step(&u, first + step, u.s.gates + step * u.samples * t->rows);
  }
  store_states(&u);
}

static void run_units(void *arg, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; i++) run_unit(arg, i);
}

/* W and R as they come packed, or packed into the workspace from `to` on. */
static void find_matrix(task *t, int input, char **to) {
  const rlx_operand *o = &t->ctx->inputs[input];
  t->in[input] = o->data;
  if (o->packed) return;
  t->in[input] = (float *)(void *)*to;
  pack_matrix(t->shape.kind, input, o, (float *)(void *)*to);
  *to += (o->dims[0] * packed_floats(t->shape.kind, input, o->dims[1], o->dims[2]) * (int64_t)sizeof(float) + 63) / 64 *
         64;
}

static rlx_status run(rlx_ctx *ctx) {
  const plan *p = ctx->state;
  task t = {.ctx = ctx, .plan = p, .table = recurrent_table_best(), .params = ctx->params};
  RLX_TRY(recurrent_of_run(ctx, p->kind, &t.shape));
  int64_t n = t.shape.hidden, units = p->slices * t.shape.directions;
  t.rows = recurrent_gates(p->kind) * n;
  t.w_floats = packed_floats(p->kind, RECURRENT_W, t.rows, t.shape.input);
  t.r_floats = packed_floats(p->kind, RECURRENT_R, t.rows, n);
  t.r_first = panel_floats(first_part(p->kind, RECURRENT_R, t.rows), n);
  for (int i = 0; i < ctx->input_count && i <= RECURRENT_P; i++) {
    if (i != RECURRENT_LENGTHS) t.in[i] = ctx->inputs[i].data;
  }
  if (ctx->input_count > RECURRENT_LENGTHS) t.lengths = ctx->inputs[RECURRENT_LENGTHS].data;
  for (int i = 0; i < ctx->output_count && i < 3; i++) t.out[i] = ctx->outputs[i].data;
  char *packed = (char *)ctx->workspace + units * p->unit_bytes;
  find_matrix(&t, RECURRENT_W, &packed);
  find_matrix(&t, RECURRENT_R, &packed);
  if (p->across) {
    rlx_parallel_for(ctx, units, 1, run_units, &t);
  } else {
    run_units(&t, 0, units);
  }
  return rlx_cancelled(ctx) ? RLX_CANCELLED : RLX_OK;
}

#define KERNEL(op_name, prepare_fn)                                                                                    \
  {                                                                                                                    \
    .struct_size = sizeof(rlx_cpu_kernel),                                                                             \
    .head = {.op = (op_name), .name = "panels", .why_not = why_not, .packing = packing, .pack = pack,                  \
             .workspace = workspace, .prepare = (prepare_fn), .release = mem_free},                                    \
    .run = run                                                                                                         \
  }
static const rlx_cpu_kernel rnn = KERNEL("onnx.RNN", prepare_rnn);
static const rlx_cpu_kernel gru = KERNEL("onnx.GRU", prepare_gru);
static const rlx_cpu_kernel lstm = KERNEL("onnx.LSTM", prepare_lstm);

const rlx_module cpu_recurrent = {.kernels = (const rlx_cpu_kernel *const[]){&rnn, &gru, &lstm, NULL}};
