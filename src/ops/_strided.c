/* _strided.c — copies between strided views of any rank, done as runs, fills, or tiled transposes. */
#include "ops/_strided.h"

#include <string.h>

enum {
  TILE = 32,             /* elements a side of a transpose tile */
  UNIT_BYTES = 64 * 1024 /* least work worth a thread */
};

void strided_begin(strided_copy *c, rlx_dtype dtype, int64_t from_offset, int64_t to_offset) {
  c->size = dtype_size(dtype);
  c->bits = c->size ? 0 : rlx_dtype_bits(dtype);
  c->rank = 0;
  c->across = -1;
  c->way = STRIDED_ELEMENTS;
  c->from_offset = from_offset;
  c->to_offset = to_offset;
}

void strided_dim(strided_copy *c, int64_t extent, int64_t from, int64_t to) {
  if (extent == 0) c->way = STRIDED_EMPTY;
  if (extent == 1) return;
  int last = c->rank - 1;
  if (last >= 0 && c->from[last] == from * extent && c->to[last] == to * extent) {
    c->dims[last] *= extent;
    c->from[last] = from;
    c->to[last] = to;
    return;
  }
  c->dims[c->rank] = extent;
  c->from[c->rank] = from;
  c->to[c->rank] = to;
  c->rank++;
}

/* Takes a short contiguous innermost run as one bigger element, if all else is a multiple of it. */
static void widen(strided_copy *c) {
  int last = c->rank - 1;
  if (last < 1 || c->from[last] != 1 || c->to[last] != 1) return;
  int64_t n = c->dims[last];
  if (n > 16 || n * (int64_t)c->size > 16) return;
  size_t size = (size_t)n * c->size;
  if (size & (size - 1)) return;
  if (c->from_offset % n || c->to_offset % n) return;
  for (int d = 0; d < last; d++)
    if (c->from[d] % n || c->to[d] % n) return;
  for (int d = 0; d < last; d++) {
    c->from[d] /= n;
    c->to[d] /= n;
  }
  c->from_offset /= n;
  c->to_offset /= n;
  c->size = size;
  c->rank = last;
}

static strided_way choose(strided_copy *c) {
  int last = c->rank - 1;
  if (c->to[last] != 1) return STRIDED_ELEMENTS;
  if (c->from[last] == 1) return STRIDED_RUNS;
  if (c->from[last] == 0) return STRIDED_FILL;
  for (int d = last - 1; d >= 0; d--)
    if (c->from[d] == 1 && c->dims[d] >= 4 && c->dims[last] >= 4) {
      c->across = d;
      return STRIDED_TRANSPOSE;
    }
  return STRIDED_ROWS;
}

void strided_finish(strided_copy *c) {
  if (c->way == STRIDED_EMPTY) return;
  if (c->size) widen(c);
  if (c->rank == 0) {
    c->dims[0] = c->from[0] = c->to[0] = 1;
    c->rank = 1;
  }
  if (!c->size) {
    c->way = STRIDED_BITS;
    return;
  }
  c->way = choose(c);
  int last = c->rank - 1;
  c->units = 1;
  for (int d = 0; d < last; d++)
    c->units *= d == c->across && c->way == STRIDED_TRANSPOSE ? (c->dims[d] + TILE - 1) / TILE : c->dims[d];
  int64_t unit_bytes = c->dims[last] * (int64_t)c->size * (c->way == STRIDED_TRANSPOSE ? TILE : 1);
  c->grain = unit_bytes >= UNIT_BYTES ? 1 : UNIT_BYTES / unit_bytes;
}

/* Where a walk over all dims but the innermost stands. */
typedef struct walk {
  int64_t at[STRIDED_RANK];
  int64_t from, to; /* in elements */
} walk;

static inline int64_t step_of(const strided_copy *c, int d) { return d == c->across ? TILE : 1; }

static inline int64_t extent_of(const strided_copy *c, int d) {
  return d == c->across ? (c->dims[d] + TILE - 1) / TILE : c->dims[d];
}

static void walk_start(const strided_copy *c, int64_t unit, walk *w) {
  w->from = c->from_offset;
  w->to = c->to_offset;
  for (int d = c->rank - 2; d >= 0; d--) {
    int64_t extent = extent_of(c, d);
    w->at[d] = unit % extent;
    unit /= extent;
    w->from += w->at[d] * c->from[d] * step_of(c, d);
    w->to += w->at[d] * c->to[d] * step_of(c, d);
  }
}

static inline void walk_next(const strided_copy *c, walk *w) {
  for (int d = c->rank - 2; d >= 0; d--) {
    int64_t step = step_of(c, d);
    w->from += c->from[d] * step;
    w->to += c->to[d] * step;
    if (++w->at[d] < extent_of(c, d)) return;
    w->from -= w->at[d] * c->from[d] * step;
    w->to -= w->at[d] * c->to[d] * step;
    w->at[d] = 0;
  }
}

typedef struct pair16 {
  uint64_t low, high;
} pair16;

/* n elements with strides; a tile of `rows` rows of n elements whose source is contiguous across rows. */
#define STRIDED_TYPE(T)                                                                                                \
  static void row_##T(const char *from_bytes, int64_t from, char *to_bytes, int64_t to, int64_t n) {                   \
    for (int64_t i = 0; i < n; i++)                                                                                    \
      memcpy(to_bytes + i * to * (int64_t)sizeof(T), from_bytes + i * from * (int64_t)sizeof(T), sizeof(T));           \
  }                                                                                                                    \
  static void corner_##T(const char *from_bytes, int64_t from, char *to_bytes, int64_t to, int64_t rows, int64_t n) {  \
    for (int64_t r = 0; r < rows; r++)                                                                                 \
      row_##T(from_bytes + r * (int64_t)sizeof(T), from, to_bytes + r * to * (int64_t)sizeof(T), 1, n);                \
  }

/* Squares of LANES × LANES elements go through vectors of 16 bytes: interleaving the two halves of the rows
 * log2(LANES) times transposes them. The columns of a target line (64 bytes) are done together. */
#define TILE_TYPE(T, LANES, STAGES, LOW, HIGH)                                                                         \
  typedef T vector_##T __attribute__((vector_size(16)));                                                               \
  static inline void square_##T(const char *from_bytes, int64_t from, char *to_bytes, int64_t to) {                    \
    vector_##T rows[LANES], next[LANES];                                                                               \
    for (int i = 0; i < LANES; i++) memcpy(&rows[i], from_bytes + i * from, 16);                                       \
    for (int stage = 0; stage < STAGES; stage++) {                                                                     \
      for (int i = 0; i < LANES / 2; i++) {                                                                            \
        next[2 * i] = LOW(rows[i], rows[i + LANES / 2]);                                                               \
        next[2 * i + 1] = HIGH(rows[i], rows[i + LANES / 2]);                                                          \
      }                                                                                                                \
      memcpy(rows, next, sizeof rows);                                                                                 \
    }                                                                                                                  \
    for (int i = 0; i < LANES; i++) memcpy(to_bytes + i * to, &rows[i], 16);                                           \
  }                                                                                                                    \
  static void tile_##T(const char *from_bytes, int64_t from, char *to_bytes, int64_t to, int64_t rows, int64_t n) {    \
    enum { SIZE = sizeof(T), LINE = 64 / sizeof(T) < LANES ? LANES : 64 / sizeof(T) };                                 \
    int64_t whole = n / LANES * LANES, square_rows = rows / LANES * LANES;                                             \
    for (int64_t i0 = 0; i0 < whole; i0 += LINE) {                                                                     \
      int64_t i1 = i0 + LINE < whole ? i0 + LINE : whole;                                                              \
      for (int64_t r = 0; r < square_rows; r += LANES)                                                                 \
        for (int64_t i = i0; i < i1; i += LANES)                                                                       \
          square_##T(from_bytes + (i * from + r) * SIZE, from * SIZE, to_bytes + (r * to + i) * SIZE, to * SIZE);      \
      if (square_rows < rows)                                                                                          \
        corner_##T(from_bytes + (i0 * from + square_rows) * SIZE, from, to_bytes + (square_rows * to + i0) * SIZE, to, \
                   rows - square_rows, i1 - i0);                                                                       \
    }                                                                                                                  \
    corner_##T(from_bytes + whole * from * SIZE, from, to_bytes + whole * SIZE, to, rows, n - whole);                  \
  }
#define LOW_2(a, b) __builtin_shufflevector(a, b, 0, 2)
#define HIGH_2(a, b) __builtin_shufflevector(a, b, 1, 3)
#define LOW_4(a, b) __builtin_shufflevector(a, b, 0, 4, 1, 5)
#define HIGH_4(a, b) __builtin_shufflevector(a, b, 2, 6, 3, 7)
#define LOW_8(a, b) __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11)
#define HIGH_8(a, b) __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15)
#define LOW_16(a, b) __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23)
#define HIGH_16(a, b) __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31)
STRIDED_TYPE(uint8_t)
STRIDED_TYPE(uint16_t)
STRIDED_TYPE(uint32_t)
STRIDED_TYPE(uint64_t)
STRIDED_TYPE(pair16)
TILE_TYPE(uint8_t, 16, 4, LOW_16, HIGH_16)
TILE_TYPE(uint16_t, 8, 3, LOW_8, HIGH_8)
TILE_TYPE(uint32_t, 4, 2, LOW_4, HIGH_4)
TILE_TYPE(uint64_t, 2, 1, LOW_2, HIGH_2)

static void tile_pair16(const char *from_bytes, int64_t from, char *to_bytes, int64_t to, int64_t rows, int64_t n) {
  corner_pair16(from_bytes, from, to_bytes, to, rows, n);
}

typedef void (*row_fn)(const char *from_bytes, int64_t from, char *to_bytes, int64_t to, int64_t n);
typedef void (*tile_fn)(const char *from_bytes, int64_t from, char *to_bytes, int64_t to, int64_t rows, int64_t n);

static row_fn row_of(size_t size) {
  switch (size) {
    case 1: return row_uint8_t;
    case 2: return row_uint16_t;
    case 4: return row_uint32_t;
    case 8: return row_uint64_t;
    default: return row_pair16;
  }
}

static tile_fn tile_of(size_t size) {
  switch (size) {
    case 1: return tile_uint8_t;
    case 2: return tile_uint16_t;
    case 4: return tile_uint32_t;
    case 8: return tile_uint64_t;
    default: return tile_pair16;
  }
}

typedef struct strided_job {
  const strided_copy *c;
  const char *from;
  char *to;
} strided_job;

static void run_units(void *arg, int64_t begin, int64_t end) {
  const strided_job *job = arg;
  const strided_copy *c = job->c;
  int last = c->rank - 1;
  int64_t size = (int64_t)c->size, n = c->dims[last];
  row_fn row = row_of(c->size);
  tile_fn tile = tile_of(c->size);
  walk w;
  walk_start(c, begin, &w);
  for (int64_t unit = begin; unit < end; unit++) {
    const char *from = job->from + w.from * size;
    char *to = job->to + w.to * size;
    switch (c->way) {
      case STRIDED_RUNS: memcpy(to, from, (size_t)(n * size)); break;
      case STRIDED_FILL: move_fill(to, from, n, c->size); break;
      case STRIDED_TRANSPOSE: {
        int64_t left = c->dims[c->across] - w.at[c->across] * TILE;
        tile(from, c->from[last], to, c->to[c->across], left < TILE ? left : TILE, n);
        break;
      }
      default: row(from, c->from[last], to, c->to[last], n);
    }
    walk_next(c, &w);
  }
}

/* One unit, part of its innermost dim. */
static void run_part(void *arg, int64_t begin, int64_t end) {
  const strided_job *job = arg;
  const strided_copy *c = job->c;
  int64_t size = (int64_t)c->size;
  const char *from = job->from + begin * c->from[0] * size;
  char *to = job->to + begin * c->to[0] * size;
  if (c->way == STRIDED_RUNS)
    memcpy(to, from, (size_t)((end - begin) * size));
  else if (c->way == STRIDED_FILL)
    move_fill(to, from, end - begin, c->size);
  else
    row_of(c->size)(from, c->from[0], to, c->to[0], end - begin);
}

static void run_bits(const strided_copy *c, const void *from, void *to) {
  int64_t total = 1;
  int last = c->rank - 1;
  for (int d = 0; d < last; d++) total *= c->dims[d];
  walk w;
  walk_start(c, 0, &w);
  for (int64_t unit = 0; unit < total; unit++) {
    for (int64_t i = 0; i < c->dims[last]; i++)
      bits_store(c->bits, to, w.to + i * c->to[last], bits_load(c->bits, from, w.from + i * c->from[last]));
    walk_next(c, &w);
  }
}

void strided_run(rlx_ctx *ctx, const strided_copy *c, const void *from, void *to) {
  if (c->way == STRIDED_EMPTY) return;
  if (c->way == STRIDED_BITS) {
    run_bits(c, from, to);
    return;
  }
  strided_job job = {c, from, to};
  if (c->rank == 1) {
    job.from += c->from_offset * (int64_t)c->size;
    job.to += c->to_offset * (int64_t)c->size;
    int64_t grain = UNIT_BYTES / (int64_t)c->size;
    if (c->dims[0] < 2 * grain)
      run_part(&job, 0, c->dims[0]);
    else
      rlx_parallel_for(ctx, c->dims[0], grain, run_part, &job);
  } else if (c->units < 2 * c->grain) {
    run_units(&job, 0, c->units);
  } else {
    rlx_parallel_for(ctx, c->units, c->grain, run_units, &job);
  }
}

strided_node strided_of_run(rlx_ctx *ctx) { return (strided_node){.context = ctx, .params = ctx->params, .run = ctx}; }

strided_node strided_of_bound(rlx_bound *b) {
  return (strided_node){.context = b, .params = rlx_bound_params(b), .bound = b};
}

strided_view strided_input(const strided_node *n, int i) {
  if (n->run) {
    const rlx_operand *o = &n->run->inputs[i];
    return (strided_view){o->dtype, o->rank, o->dims};
  }
  const rlx_type *t = rlx_bound_input(n->bound, i);
  return (strided_view){t->dtype, t->rank, t->dims};
}

strided_view strided_output(const strided_node *n, int i) {
  if (n->run) {
    const rlx_operand *o = &n->run->outputs[i];
    return (strided_view){o->dtype, o->rank, o->dims};
  }
  const rlx_type *t = rlx_bound_output(n->bound, i);
  return (strided_view){t->dtype, t->rank, t->dims};
}

rlx_status strided_ints(const strided_node *n, int i, int_list *out) {
  if (n->run) return run_ints(n->run, i, out);
  out->count = RLX_UNKNOWN;
  if (i >= rlx_node_input_count(rlx_bound_node(n->bound)) || !rlx_bound_input(n->bound, i)) return RLX_OK;
  const rlx_tensor *t = rlx_bound_constant(n->bound, i);
  if (!t) return RLX_NOT_FOUND;
  return ints_from(n->context, t->dtype, t->data, t->count, out);
}

rlx_status strided_eval(rlx_ctx *ctx, strided_plan plan) {
  strided_node n = strided_of_run(ctx);
  strided_copy c;
  rlx_status status = plan(&n, &c);
  if (status != RLX_OK) return status;
  if (!c.size && ctx->outputs[0].bytes) memset(ctx->outputs[0].data, 0, (size_t)ctx->outputs[0].bytes);
  strided_run(ctx, &c, ctx->inputs[0].data, ctx->outputs[0].data);
  return RLX_OK;
}
