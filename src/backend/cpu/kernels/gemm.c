/* gemm.c — onnx.MatMul, onnx.Gemm and rlx.matmul on the CPU, for any extents: nothing is compiled for them.
 *
 * B is cut into panels of as many columns as a tile has. A constant B is packed panel by panel once; any other is read
 * where it is, but for a last panel that is not whole, or all of it where it is given by its columns. While a panel is
 * used, the next one is fetched into the cache, so that weights stream at the speed of memory. */
#include <string.h>

#include "backend/cpu/kernels/_elementwise_tables.h"
#include "backend/cpu/kernels/_gemm.h"
#include "base/memory.h"
#include "base/status.h"
#include "ir/module.h"
#include "ops/fused_matmul.h"

enum {
  DEPTH = 512, /* of A and B that tiles work through at a time */
  GATHERED_STRIDE = DEPTH + 16,
  GROUP = 6,         /* panels whose results are finished together, while they are in the cache */
  FEW_ROWS = 48,     /* up to here streaming the weights decides */
  ROWS_AT_MOST = 120 /* of A for one piece of work */
};

typedef struct activation {
  ew_loop *loop; /* NULL: none */
  double ab[2];
  float bounds[2]; /* of a clip */
  bool clips;
} activation;

/* Program state. */
typedef struct state {
  const gemm_isa *isa;
  matmul_shape shape;
  bool trans_b, whole_packed; /* all panels of a B that is not constant are packed in the workspace */
  int64_t panels, rows;       /* rows of a piece of work */
  int64_t b_count;            /* matrices of B */
  activation activation;
} state;

/* A run. */
typedef struct job {
  const state *s;
  const float *a, *b, *bias, *packed; /* packed: panels, or NULL */
  const float *last;                  /* packed last panels of all matrices of B, or NULL */
  float *c, *to;                      /* to: of packing */
} job;

/* ---- support ------------------------------------------------------------------------------ */

static const char *why_not_operand(const rlx_type *t, const char *what) {
  if (!t || t->dtype != RLX_FLOAT) return rlx_reason("%s is not float", what);
  return t->rank == RLX_UNKNOWN ? rlx_reason("the rank of %s is not known", what) : NULL;
}

static const char *why_not_matmul(const rlx_node *n) {
  const char *bad = why_not_operand(rlx_node_input_type(n, 0), "A");
  return bad ? bad : why_not_operand(rlx_node_input_type(n, 1), "B");
}

static const char *why_not_fused(const rlx_node *n) {
  return rlx_node_input_type(n, FUSED_MATMUL_Z) ? "a tensor to add" : why_not_matmul(n);
}

static const char *why_not_gemm(const rlx_node *n) {
  const gemm_params *p = rlx_node_params(n);
  const rlx_type *b = rlx_node_input_type(n, 1), *c = rlx_node_input_type(n, 2);
  const char *bad = why_not_matmul(n);
  if (bad) return bad;
  if (p->trans_a || p->alpha != 1 || p->beta != 1) return "transA, alpha or beta";
  if (!c) return NULL;
  int64_t columns = b->rank == 2 ? b->dims[p->trans_b ? 0 : 1] : RLX_UNKNOWN;
  bool row = c->rank == 1 || (c->rank == 2 && c->dims[0] == 1);
  return !row || columns == RLX_UNKNOWN || c->dims[c->rank - 1] != columns ? "C is not one number a column" : NULL;
}

static bool is_known(const rlx_type *t, int64_t *count) {
  *count = 1;
  for (int d = 0; d < t->rank; d++) {
    if (t->dims[d] == RLX_UNKNOWN) return false;
    *count *= t->dims[d];
  }
  return true;
}

/* Large products of known extents are the other library's: it compiles for them. */
bool gemm_prefers_panels(const rlx_node *n) {
  const char *op = rlx_node_op(n);
  const rlx_type *a = rlx_node_input_type(n, 0), *b = rlx_node_input_type(n, 1);
  bool gemm_op = strcmp(op, "onnx.Gemm") == 0, matmul_op = strcmp(op, "onnx.MatMul") == 0;
  const char *bad = gemm_op ? why_not_gemm(n) : matmul_op ? why_not_matmul(n) : why_not_fused(n);
  int64_t a_count, b_count;
  if (bad || !gemm_best()->fast || a->rank < 1) return false;
  if (!is_known(a, &a_count) || !is_known(b, &b_count)) return true;
  int64_t k = a->dims[a->rank - 1];
  return rlx_node_constant(n, 1) && k > 0 && a_count / k <= FEW_ROWS;
}

/* ---- packing ------------------------------------------------------------------------------ */

static int64_t panel_size(const state *s) { return s->shape.k * s->isa->columns; }

/* Panel p of the matrix at b; columns past the last are 0. */
static void pack_panel(const state *s, const float *b, int64_t p, float *to) {
  int64_t columns = s->isa->columns, n = s->shape.n, k = s->shape.k, first = p * columns;
  int64_t width = n - first < columns ? n - first : columns;
  if (width < columns) memset(to, 0, (size_t)panel_size(s) * sizeof *to);
  for (int64_t i = 0; i < (s->trans_b ? 0 : k); i++)
    memcpy(to + i * columns, b + i * n + first, (size_t)width * sizeof *to);
  for (int64_t j = 0; j < (s->trans_b ? width : 0); j++) {
    const float *from = b + (first + j) * k;
    for (int64_t i = 0; i < k; i++) to[i * columns + j] = from[i];
  }
}

/* Panels [begin, end) of all matrices. */
static void pack_panels(void *arg, int64_t begin, int64_t end) {
  const job *j = arg;
  const state *s = j->s;
  for (int64_t i = begin; i < end; i++) {
    const float *b = j->b + i / s->panels * s->shape.k * s->shape.n;
    pack_panel(s, b, i % s->panels, j->to + i * panel_size(s));
  }
}

/* The last panel of matrices [begin, end). */
static void pack_last(void *arg, int64_t begin, int64_t end) {
  const job *j = arg;
  const state *s = j->s;
  for (int64_t i = begin; i < end; i++)
    pack_panel(s, j->b + i * s->shape.k * s->shape.n, s->panels - 1, j->to + i * panel_size(s));
}

static bool has_partial(const state *s) { return s->shape.n % s->isa->columns != 0; }

static rlx_status packing(rlx_bound *b, const void *p, int input, rlx_packing *out) {
  const state *s = p;
  (void)b;
  if (input != 1) return RLX_OK;
  out->bytes = s->b_count * s->panels * panel_size(s) * (int64_t)sizeof(float);
  memcpy(out->key, s->trans_b ? "panels.t00" : "panels.n00", sizeof "panels.t00");
  out->key[8] = (char)('0' + s->isa->columns / 10);
  out->key[9] = (char)('0' + s->isa->columns % 10);
  return RLX_OK;
}

static rlx_status pack(rlx_bound *b, const void *p, int input, const rlx_operand *from, void *to) {
  const state *s = p;
  job j = {.s = s, .b = from->data, .to = to};
  (void)b, (void)input;
  pack_panels(&j, 0, s->b_count * s->panels);
  return RLX_OK;
}

static int64_t workspace(rlx_bound *b, const void *p) {
  const state *s = p;
  if (rlx_bound_constant(b, 1)) return 0;
  int64_t panels = s->whole_packed ? s->panels : has_partial(s) ? 1 : 0;
  return s->b_count * panels * panel_size(s) * (int64_t)sizeof(float);
}

/* ---- products ----------------------------------------------------------------------------- */

/* Where panel p of matrix `matrix` is, and the stride of its rows. */
static const float *panel(const job *j, int64_t matrix, int64_t p, int64_t *stride) {
  const state *s = j->s;
  *stride = s->isa->columns;
  if (j->packed) return j->packed + (matrix * s->panels + p) * panel_size(s);
  if (p == s->panels - 1 && has_partial(s)) return j->last + matrix * panel_size(s);
  *stride = s->shape.n;
  return j->b + matrix * s->shape.k * s->shape.n + p * s->isa->columns;
}

/* A tile that reaches past the last column: by way of a whole one. */
static void partial_tile(const state *s, gemm_tile *t, int rows, int64_t width) {
  float whole[GEMM_MOST_ROWS * GEMM_MOST_COLUMNS], bias[GEMM_MOST_COLUMNS] = {0};
  float *c = t->c;
  int64_t stride = t->c_stride, columns = s->isa->columns;
  for (int r = 0; r < rows && t->start == GEMM_ADD; r++)
    memcpy(whole + r * columns, c + r * stride, (size_t)width * sizeof *c);
  if (t->start == GEMM_BIAS) {
    memcpy(bias, t->bias, (size_t)width * sizeof *bias);
    t->bias = bias;
  }
  t->c = whole;
  t->c_stride = columns;
  s->isa->tile[rows](t);
  for (int r = 0; r < rows; r++) memcpy(c + r * stride, whole + r * columns, (size_t)width * sizeof *c);
}

/* What tiles of one depth have in common. */
typedef struct slice {
  int64_t matrix; /* of B */
  int64_t k0, depth;
  int64_t p0, p1, last; /* panels of this group; those of the whole piece of work end at `last` */
  float *c;             /* of the product */
} slice;

/* What follows panel p of the slice in the order of work: deeper in it, or in the next group. Tile `i` of `count` has
 * its share of it fetched. */
static void fetch_share(const job *j, const slice *l, int64_t p, int64_t i, int64_t count, gemm_tile *t) {
  int64_t k = j->s->shape.k, from = l->k0 + l->depth, stride = t->b_stride;
  const float *next = t->b + l->depth * stride;
  if (from >= k) {
    p += l->p1 - l->p0;
    if (p >= l->last) return;
    next = panel(j, l->matrix, p, &stride);
    if (stride != t->b_stride) return;
    from = 0;
  }
  int64_t rows = k - from < l->depth ? k - from : l->depth, share = (rows + count - 1) / count, first = i * share;
  if (first >= rows) return;
  t->next = next + first * stride;
  t->next_rows = rows - first < share ? rows - first : share;
}

/* Rows [i, i + rows), at `a`, by the panels of the slice; tile number `tile` of `tiles`. */
static void run_tiles(const job *j, const slice *l, const gemm_tile *from, int64_t i, int rows, int64_t tile,
                      int64_t tiles) {
  const state *s = j->s;
  int64_t n = s->shape.n, columns = s->isa->columns;
  gemm_tile t = *from;
  for (int64_t p = l->p0; p < l->p1; p++) {
    t.b = panel(j, l->matrix, p, &t.b_stride) + l->k0 * t.b_stride;
    t.bias = j->bias ? j->bias + p * columns : NULL;
    t.c = l->c + i * n + p * columns;
    t.c_stride = n;
    t.next_rows = 0;
    fetch_share(j, l, p, tile, tiles, &t);
    if (n - p * columns >= columns)
      s->isa->tile[rows](&t);
    else
      partial_tile(s, &t, rows, n - p * columns);
  }
}

/* Rows [m0, m1) of A. Where enough panels use them they are gathered first: their own stride may make them fight for
 * the same lines of the cache. */
static void run_slice(const job *j, const slice *l, const float *a, int64_t m0, int64_t m1) {
  const state *s = j->s;
  int64_t k = s->shape.k, tiles = (m1 - m0 + s->isa->rows - 1) / s->isa->rows;
  float gathered[GEMM_MOST_ROWS * GATHERED_STRIDE];
  for (int64_t i = m0, tile = 0; i < m1; i += s->isa->rows, tile++) {
    int rows = (int)(m1 - i < s->isa->rows ? m1 - i : s->isa->rows);
    gemm_tile t = {.a = a + i * k + l->k0,
                   .a_stride = k,
                   .k = l->depth,
                   .start = l->k0     ? GEMM_ADD
                            : j->bias ? GEMM_BIAS
                                      : GEMM_ZERO};
    if (rows > 3 && l->p1 - l->p0 > 2) {
      for (int r = 0; r < rows; r++)
        memcpy(gathered + r * GATHERED_STRIDE, t.a + r * k, (size_t)l->depth * sizeof *gathered);
      t.a = gathered;
      t.a_stride = GATHERED_STRIDE;
    }
    run_tiles(j, l, &t, i, rows, tile, tiles);
  }
}

static void activate(const state *s, float *c, int64_t m0, int64_t m1, int64_t first, int64_t last) {
  const activation *f = &s->activation;
  if (!f->loop) return;
  for (int64_t i = m0; i < m1; i++) {
    float *row = c + i * s->shape.n + first;
    f->loop(row, f->clips ? &f->bounds[0] : NULL, f->clips ? &f->bounds[1] : NULL, row, last - first, f->clips ? 6 : 0,
            f->ab);
  }
}

/* Rows [m0, m1) of product `batch` by panels [p0, p1). */
static void run_block(const job *j, int64_t batch, int64_t m0, int64_t m1, int64_t p0, int64_t p1) {
  const state *s = j->s;
  const matmul_shape *d = &s->shape;
  int64_t at_a, at_b, columns = s->isa->columns;
  matmul_batch(d, batch, &at_a, &at_b);
  const float *a = j->a + at_a * d->m * d->k;
  float *c = j->c + batch * d->m * d->n;
  for (int64_t g = p0; g < p1; g += GROUP) {
    int64_t end = g + GROUP < p1 ? g + GROUP : p1;
    slice l = {.matrix = at_b, .p0 = g, .p1 = end, .last = p1, .c = c};
    do {
      l.depth = d->k - l.k0 < DEPTH ? d->k - l.k0 : DEPTH;
      run_slice(j, &l, a, m0, m1);
      l.k0 += DEPTH;
    } while (l.k0 < d->k);
    activate(s, c, m0, m1, g * columns, end * columns < d->n ? end * columns : d->n);
  }
}

/* Pieces of work [begin, end): by product, rows, panel. Runs of panels go together. */
static void run_range(void *arg, int64_t begin, int64_t end) {
  const job *j = arg;
  const state *s = j->s;
  int64_t blocks = (s->shape.m + s->rows - 1) / s->rows;
  while (begin < end) {
    int64_t p0 = begin % s->panels, block = begin / s->panels, room = s->panels - p0;
    int64_t count = end - begin < room ? end - begin : room;
    int64_t m0 = block % blocks * s->rows, m1 = m0 + s->rows < s->shape.m ? m0 + s->rows : s->shape.m;
    run_block(j, block / blocks, m0, m1, p0, p0 + count);
    begin += count;
  }
}

static rlx_status run(rlx_ctx *ctx) {
  static float nothing; /* panels of products over no elements take no workspace */
  const state *s = ctx->state;
  const rlx_operand *bias = ctx->input_count > FUSED_MATMUL_BIAS ? &ctx->inputs[FUSED_MATMUL_BIAS] : NULL;
  if (ctx->outputs[0].count == 0) return RLX_OK;
  job j = {.s = s,
           .a = ctx->inputs[0].data,
           .b = ctx->inputs[1].data,
           .bias = bias ? bias->data : NULL,
           .c = ctx->outputs[0].data,
           .to = ctx->workspace ? ctx->workspace : &nothing};
  if (ctx->inputs[1].packed) {
    j.packed = ctx->inputs[1].data;
  } else if (s->whole_packed) {
    rlx_parallel_for(ctx, s->b_count * s->panels, 1 + 65536 / (panel_size(s) + 1), pack_panels, &j);
    j.packed = j.to;
  } else if (has_partial(s)) {
    rlx_parallel_for(ctx, s->b_count, 1 + 65536 / (panel_size(s) + 1), pack_last, &j);
    j.last = j.to;
  }
  int64_t blocks = (s->shape.m + s->rows - 1) / s->rows;
  int64_t rows = s->rows < s->shape.m ? s->rows : s->shape.m;
  rlx_parallel_for(ctx, s->shape.count * blocks * s->panels, 1 + 131072 / (rows * panel_size(s) + 1), run_range, &j);
  return RLX_OK;
}

/* ---- preparing ---------------------------------------------------------------------------- */

static activation activation_of(const fused_matmul_params *p) {
  static const struct {
    bool known;
    ew_row row;
  } rows[FUSED_UNKNOWN] = {[FUSED_RELU] = {true, EW_Relu},
                           [FUSED_LEAKY_RELU] = {true, EW_LeakyRelu},
                           [FUSED_CLIP] = {true, EW_Clip},
                           [FUSED_SIGMOID] = {true, EW_Sigmoid},
                           [FUSED_TANH] = {true, EW_Tanh},
                           [FUSED_SWISH] = {true, EW_Swish},
                           [FUSED_HARD_SWISH] = {true, EW_HardSwish},
                           [FUSED_GELU] = {true, EW_Gelu}};
  fused_activation kind = fused_activation_parse(&p->activation.name);
  activation f = {.bounds = {p->activation.alpha, p->activation.beta}, .clips = kind == FUSED_CLIP};
  if (kind == FUSED_LEAKY_RELU || kind == FUSED_SWISH) f.ab[0] = (double)p->activation.alpha;
  if (kind < FUSED_UNKNOWN && rows[kind].known) f.loop = ew_table_best()->types[RLX_FLOAT][rows[kind].row];
  return f;
}

static int64_t matrices(const int64_t *step, const matmul_shape *s) {
  int64_t count = 1;
  for (int d = 0; d < s->rank; d++) count *= step[d] ? s->batch[d] : 1;
  return count;
}

/* Rows of a piece of work: fewer where the panels alone do not give every thread enough of them. */
static int64_t choose_rows(const state *s, int threads) {
  const matmul_shape *d = &s->shape;
  int64_t tile = s->isa->rows, rows = ROWS_AT_MOST;
  while (rows >= 2 * tile && d->count * s->panels * ((d->m + rows - 1) / rows) < 3 * (int64_t)threads) {
    rows = (rows / 2 + tile - 1) / tile * tile;
  }
  return rows;
}

static rlx_status finish(rlx_bound *b, state *s, void **out) {
  matmul_shape *d = &s->shape;
  s->isa = gemm_best();
  s->b_count = matrices(d->b_step, d);
  if (s->b_count == 1 && matrices(d->a_step, d) == d->count) { /* one product of all rows */
    d->m *= d->count;
    d->count = 1;
    d->rank = 0;
  }
  s->panels = (d->n + s->isa->columns - 1) / s->isa->columns;
  s->rows = choose_rows(s, rlx_bound_threads(b));
  s->whole_packed = s->trans_b || (d->m > 64 && d->n > 512);
  const rlx_type *bias = rlx_bound_input(b, FUSED_MATMUL_BIAS);
  if (bias && (bias->rank < 1 || bias->dims[bias->rank - 1] != d->n)) {
    return rlx_fail(b, RLX_INVALID, "the bias does not have %lld elements", (long long)d->n);
  }
  *out = mem_alloc(sizeof *s);
  if (!*out) return rlx_fail(b, RLX_OUT_OF_MEMORY, "no memory for the kernel's state");
  memcpy(*out, s, sizeof *s);
  return RLX_OK;
}

static rlx_status prepare_matmul(rlx_bound *b, void **out) {
  const rlx_type *x = rlx_bound_input(b, 0), *y = rlx_bound_input(b, 1);
  state s = {.trans_b = false};
  const char *bad = matmul_resolve(x->rank, x->dims, y->rank, y->dims, &s.shape);
  return bad ? rlx_fail(b, RLX_INVALID, "%s", bad) : finish(b, &s, out);
}

static rlx_status prepare_fused(rlx_bound *b, void **out) {
  const rlx_type *x = rlx_bound_input(b, 0), *y = rlx_bound_input(b, 1);
  const fused_matmul_params *p = rlx_bound_params(b);
  state s = {.trans_b = p->trans_b != 0, .activation = activation_of(p)};
  const char *bad = fused_matmul_resolve(p, x->rank, x->dims, y->rank, y->dims, &s.shape);
  return bad ? rlx_fail(b, RLX_INVALID, "%s", bad) : finish(b, &s, out);
}

static rlx_status prepare_gemm(rlx_bound *b, void **out) {
  const rlx_type *x = rlx_bound_input(b, 0), *y = rlx_bound_input(b, 1);
  const gemm_params *g = rlx_bound_params(b);
  fused_matmul_params p = {.trans_b = g->trans_b};
  state s = {.trans_b = g->trans_b != 0};
  const char *bad = fused_matmul_resolve(&p, x->rank, x->dims, y->rank, y->dims, &s.shape);
  return bad ? rlx_fail(b, RLX_INVALID, "%s", bad) : finish(b, &s, out);
}

#define KERNEL(op_name, since, why_not_fn, prepare_fn)                                                                        \
  {.struct_size = sizeof(rlx_cpu_kernel),                                                                              \
   .head = {.op = (op_name), .version_min = (since), .name = "panels", .why_not = (why_not_fn), .packing = packing, .pack = pack,              \
            .workspace = workspace, .prepare = (prepare_fn), .release = mem_free},                                     \
   .run = run}
static const rlx_cpu_kernel matmul = KERNEL("onnx.MatMul", 0, why_not_matmul, prepare_matmul);
static const rlx_cpu_kernel gemm = KERNEL("onnx.Gemm", 7, why_not_gemm, prepare_gemm);
static const rlx_cpu_kernel fused = KERNEL("rlx.matmul", 0, why_not_fused, prepare_fused);

const rlx_module cpu_gemm = {.kernels = (const rlx_cpu_kernel *const[]){&matmul, &gemm, &fused, NULL}};
